//! Proxies in processes of their own, which are killed, and clients that come back.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use restitch::Limits;
use restitch::sse::Decoder;
use restitch_http::{Body, Client, Upstream};
use restitch_sim::Sim;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::raw::*;
use super::super::{DOCUMENT, request};
use restitch_testing::Rng;

/// The program, as a process that can be killed.
pub(super) struct Process {
    child: Child,
    pub(super) url: String,
}

impl Process {
    pub(super) async fn start(upstream: &str, store: &str) -> Self {
        let args = [
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--set",
            "proxy.threads=1",
            "--max-keep-time",
            "60",
            "--upstream",
            upstream,
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command
            .args(args)
            .args(["--set", &format!("proxy.store={store}")])
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    return rest.split(',').next().unwrap().to_owned();
                }
            }
            panic!("the proxy does not start");
        };
        let url = timeout(HANGS, url).await.unwrap();
        // The test must drain the log, since a full pipe would stop the process.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, url }
    }

    /// Kills the process as `kill -9` does.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// The proxies that are up.
type Urls = Arc<Mutex<Vec<String>>>;

/// A client that comes back until it has the whole answer. Returns how often it had to. Counts the
/// events that it has `seen`.
async fn read_whole(urls: Urls, seen: Arc<AtomicUsize>, mut at: usize, prompt: String) -> usize {
    let url = |at: usize| {
        let urls = urls.lock().unwrap();
        urls[at % urls.len()].clone()
    };
    let (mut stream, mut last, mut back) = (None::<String>, String::new(), 0);
    let (mut text, mut positions, mut done) = (String::new(), Vec::<(u64, u64)>::new(), 0);
    while done == 0 {
        let client = Client::new(Upstream::parse(&url(at)).unwrap()).unwrap();
        let response = match &stream {
            None => {
                let uri = client.upstream().uri_for("/v1/chat/completions").unwrap();
                let post = http::Request::post(uri).header("x-restitch-keep", "60");
                let post = post
                    .header("authorization", "Bearer sk-1")
                    .header("content-type", "application/json");
                client
                    .send(
                        post.body(Body::full(request(true, &prompt).to_string()))
                            .unwrap(),
                    )
                    .await
            }
            Some(id) => {
                back += 1;
                assert!(back < 100, "{prompt}: no end, after {last}: {text}");
                let uri = client
                    .upstream()
                    .uri_for(&format!("/streams/{id}"))
                    .unwrap();
                let get = http::Request::get(uri).header("authorization", "Bearer sk-1");
                let get = if last.is_empty() {
                    get
                } else {
                    get.header("last-event-id", &last)
                };
                client.send(get.body(Body::full("")).unwrap()).await
            }
        };
        at += 1;
        let Ok(response) = response else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        assert_eq!(response.status(), 200, "after {last} of {stream:?}");
        stream = Some(
            response.headers()["x-restitch-stream"]
                .to_str()
                .unwrap()
                .to_owned(),
        );
        let mut decoder = Decoder::new(&Limits::default());
        let mut frames = response.into_body();
        while let Some(Ok(frame)) = timeout(HANGS, frames.frame())
            .await
            .expect("the proxy hangs")
        {
            let data = frame.into_data().unwrap_or_default();
            let mut input = &data[..];
            while let Some(event) = decoder.next_event(&mut input).unwrap() {
                seen.fetch_add(1, Ordering::Relaxed);
                last = event.id.into_owned();
                let (epoch, seq) = last.split_once('-').unwrap();
                positions.push((epoch.parse().unwrap(), seq.parse().unwrap()));
                done += usize::from(event.data == "[DONE]");
                let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
                text += chunk["choices"][0]["delta"]["content"]
                    .as_str()
                    .unwrap_or_default();
            }
        }
    }
    assert_eq!(text, DOCUMENT, "{prompt}");
    assert!(
        positions.is_sorted_by(|a, b| a < b),
        "an event came twice: {positions:?}"
    );
    assert_eq!(done, 1);
    back
}

/// Kills one of some proxies again and again in the middle of answers, each time starts another
/// one, and expects that all clients get whole documents. `RESTITCH_KILLS=200` for a long run.
pub(super) async fn kill_again_and_again(store: &str, proxies: usize) {
    const CLIENTS: usize = 8;
    #[expect(
        clippy::disallowed_methods,
        reason = "a test takes the length of its run from the environment"
    )]
    let kills = std::env::var("RESTITCH_KILLS")
        .ok()
        .map_or(4, |kills| kills.parse().unwrap());
    let sim = Sim::new(DOCUMENT, "answer | anchor".parse().unwrap())
        .chunk(4)
        .delay(Duration::from_millis(15));
    let sim = sim.start().await;
    let mut processes = Vec::new();
    for _ in 0..proxies {
        processes.push(Process::start(&sim.url(), store).await);
    }
    let urls: Urls = Arc::new(Mutex::new(
        processes
            .iter()
            .map(|process| process.url.clone())
            .collect(),
    ));
    let mut clients = JoinSet::new();
    let mut rng = Rng::new(11);
    let seen = Arc::new(AtomicUsize::new(0));
    let (mut asked, mut answers, mut back) = (0, 0, 0);
    for _ in 0..kills {
        // Kills in the middle of answers: each has some sixty events, and all clients read.
        let until = seen.load(Ordering::Relaxed) + 160 + rng.below(200);
        while seen.load(Ordering::Relaxed) < until {
            while let Some(client) = clients.try_join_next() {
                (answers, back) = (answers + 1, back + client.unwrap());
            }
            while clients.len() < CLIENTS {
                let prompt = format!("question {asked}");
                clients.spawn(read_whole(
                    Arc::clone(&urls),
                    Arc::clone(&seen),
                    rng.below(proxies),
                    prompt,
                ));
                asked += 1;
            }
            sleep(Duration::from_millis(10)).await;
        }
        processes.remove(0).kill().await;
        processes.push(Process::start(&sim.url(), store).await);
        *urls.lock().unwrap() = processes
            .iter()
            .map(|process| process.url.clone())
            .collect();
    }
    while let Some(client) = clients.join_next().await {
        (answers, back) = (answers + 1, back + client.unwrap());
    }
    println!("{kills} kills, {answers} answers, clients came back {back} times");
    assert!(
        answers == asked && back >= kills,
        "{answers} of {asked} answers, clients came back {back} times"
    );
}
