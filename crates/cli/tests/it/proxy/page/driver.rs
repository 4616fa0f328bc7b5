//! A headless browser, driven over the WebDriver protocol.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use restitch_http::{Body, Client, Upstream};
use serde_json::{Value, json};

use restitch_testing::skipped;

/// A browser with a profile of its own. It ends with the value.
pub(in super::super) struct Browser {
    driver: Child,
    client: Client,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// Starts a browser. Prints why, and returns `None`, where the machine has no browser with its
    /// driver.
    pub(in super::super) async fn start() -> Option<Self> {
        let (Some(driver), Some(binary)) = (
            program("chromedriver"),
            BROWSERS.iter().find_map(|name| program(name)),
        ) else {
            skipped(
                "there is no chromium with its driver; scripts/test-tools nightly installs them",
            );
            return None;
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let profile =
            std::env::temp_dir().join(format!("restitch-page-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut driver = Command::new(driver);
        driver
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let driver = driver.spawn().unwrap();
        let client =
            Client::new(Upstream::parse(&format!("http://127.0.0.1:{port}")).unwrap()).unwrap();
        let mut browser = Self {
            driver,
            client,
            session: String::new(),
            profile,
        };
        browser.wait_until_ready().await;
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ];
        let mut args: Vec<_> = flags.map(str::to_owned).to_vec();
        args.push(format!("--user-data-dir={}", browser.profile.display()));
        let options = json!({"args": args, "binary": binary});
        let wanted =
            json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let session = browser
            .call(
                "POST",
                "/session",
                json!({"capabilities": {"alwaysMatch": wanted}}),
            )
            .await
            .unwrap();
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    async fn wait_until_ready(&self) {
        for _ in 0..600 {
            if self
                .call("GET", "/status", Value::Null)
                .await
                .is_ok_and(|status| status["ready"] == true)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the driver of the browser does not answer");
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let uri = self.client.upstream().uri_for(path).unwrap();
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json");
        let response = self
            .client
            .send(request.body(Body::full(body)).unwrap())
            .await
            .map_err(|e| e.to_string())?;
        let is_ok = response.status().is_success();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        if is_ok {
            Ok(answer["value"].clone())
        } else {
            Err(answer["value"]["message"].to_string())
        }
    }

    async fn act(&self, method: &str, path: &str, body: Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
            .await
            .unwrap()
    }

    pub(in super::super) async fn open(&self, url: &str) {
        self.act("POST", "/url", json!({"url": url})).await;
    }

    /// Runs a script of the test, and returns its result.
    pub(in super::super) async fn run(&self, script: &str) -> Value {
        self.act(
            "POST",
            "/execute/sync",
            json!({"script": script, "args": []}),
        )
        .await
    }

    /// Waits until an expression is true in the page.
    pub(in super::super) async fn wait(&self, expression: &str) {
        for _ in 0..600 {
            if self.run(&format!("return Boolean({expression})")).await == true {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "never: {expression}\n{}",
            self.run("return document.body.innerText").await
        );
    }

    /// Presses keys, as a person does.
    pub(in super::super) async fn press(&self, keys: &[&str]) {
        let down_and_up = |key: &&str| {
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        };
        let actions: Vec<_> = keys.iter().flat_map(down_and_up).collect();
        self.act(
            "POST",
            "/actions",
            json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        )
        .await;
    }

    /// Moves the pointer to the middle of an element.
    pub(in super::super) async fn point_at(&self, selector: &str) {
        let place = format!(
            "const box = document.querySelector('{selector}').getBoundingClientRect();
             return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)]"
        );
        let place = self.run(&place).await;
        let action = json!({"type": "pointerMove", "duration": 0, "x": place[0], "y": place[1]});
        let mouse = json!({"type": "pointer", "id": "mouse", "actions": [action]});
        self.act("POST", "/actions", json!({"actions": [mouse]}))
            .await;
    }

    /// Returns the browser's complaints: refused requests, errors of scripts.
    pub(in super::super) async fn complaints(&self) -> Vec<String> {
        let log = self
            .act("POST", "/se/log", json!({"type": "browser"}))
            .await;
        log.as_array()
            .unwrap()
            .iter()
            .map(|line| line["message"].to_string())
            .collect()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        self.act(
            "POST",
            "/goog/cdp/execute",
            json!({"cmd": command, "params": parameters}),
        )
        .await;
    }

    pub(in super::super) async fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await;
    }

    pub(in super::super) async fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    pub(in super::super) async fn end(self) {
        self.act("DELETE", "", Value::Null).await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A driver that ends takes its browser along.
        let _ = Command::new("kill")
            .arg(self.driver.id().to_string())
            .status();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// The names that the browser has on different systems.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Returns the path of a program.
fn program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
