//! The program as packages install it: its options in their files, its ready message, and its
//! health check.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command};

use restitch_proxy::config::Config;
use restitch_testing::{root, skipped};

use crate::cli::{LONG, folder, run, shell, start};
use restitch_testing::says::Says;

const UNIT: &str = include_str!("../../../../contrib/restitch.service");
const CONTAINER: &str = include_str!("../../../../contrib/Containerfile");
/// Returns the part of the guide about packages.
fn page() -> &'static str {
    let page = include_str!("../../../../docs/operating.md");
    let (_, part) = page.split_once("## Installation\n").unwrap();
    part.split_once("\n## Tokens").unwrap().0
}

/// Returns the words of a text that begin with `start` and continue with characters that `goes_on`
/// accepts.
fn words(text: &str, start: &str, goes_on: fn(char) -> bool) -> BTreeSet<String> {
    let found = text.match_indices(start).map(|(at, _)| &text[at..]);
    let end = |word: &str| word.find(|c| !goes_on(c)).unwrap_or(word.len());
    found.map(|word| word[..end(word)].to_owned()).collect()
}

fn flags(text: &str) -> BTreeSet<String> {
    let goes_on = |c: char| c == '-' || c.is_ascii_lowercase();
    words(text, "--", goes_on)
        .into_iter()
        .filter(|flag| flag.len() > 2)
        .collect()
}

fn variables(text: &str) -> BTreeSet<String> {
    words(text, "RESTITCH_", |c| c == '_' || c.is_ascii_uppercase())
}

/// Returns the options of `restitch proxy` that a text uses and the help lacks. `\` may divide a
/// command, and a container's command has its words in quotes.
fn unknown(text: &str) -> Vec<String> {
    let help = shell("proxy --help").out;
    let (known, known_variables) = (flags(&help), variables(&help));
    let joined = text.replace("\\\n", "").replace(['"', ','], "");
    let commands = joined
        .lines()
        .filter(|line| line.contains("restitch proxy") && !line.starts_with('#'));
    let named: BTreeSet<String> = commands.flat_map(flags).collect();
    assert!(
        !named.is_empty() || joined.contains("restitch proxy]"),
        "it runs no proxy: {text}"
    );
    let unknown = named.difference(&known).cloned();
    unknown
        .chain(variables(text).difference(&known_variables).cloned())
        .collect()
}

#[test]
fn packages_name_only_what_there_is() {
    for text in [UNIT, CONTAINER, page()] {
        assert_eq!(unknown(text), [""; 0]);
    }
    let wrong = "ExecStart=restitch proxy --config a \\\n  --colour b --listen c\nEnvironment=RESTITCH_LISTENS=d";
    assert_eq!(unknown(wrong), ["--colour", "RESTITCH_LISTENS"]);
    // The container's health check, and the page of the manual that the unit names.
    CONTAINER.has(r#"CMD ["/restitch", "doctor"]"#);
    UNIT.has("man:restitch-proxy(1)");
    let help = shell("doctor --help").out;
    help.has("`/healthz`");
}

/// The systemd of the machine, if it has one, knows every key of the unit.
#[test]
fn systemd_reads_the_unit() {
    let folder = crate::cli::folder("unit", &[]);
    let unit = UNIT
        .replace("/usr/bin/restitch", env!("CARGO_BIN_EXE_restitch"))
        .replace("Documentation=", "# ");
    fs::write(folder.join("restitch.service"), unit).unwrap();
    match Command::new("systemd-analyze")
        .arg("verify")
        .arg(folder.join("restitch.service"))
        .output()
    {
        Ok(verified) => {
            let told = String::from_utf8_lossy(&verified.stderr).into_owned();
            told.lacks("restitch.service");
        }
        Err(error) => skipped(&format!(
            "systemd-analyze: {error}; scripts/test-tools nightly installs it"
        )),
    }
}

/// A proxy that runs until this is dropped.
struct Running {
    child: Child,
    words: BufReader<ChildStderr>,
    /// The line that says where it listens.
    listening: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn new(args: &[&str]) -> Self {
        let args = [
            &[
                "proxy",
                "--upstream",
                "http://127.0.0.1:9",
                "--set",
                "proxy.threads=1",
            ],
            args,
        ]
        .concat();
        let mut child = start(Path::new("."), &args);
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut listening = String::new();
        while !listening.contains("listening on ") {
            listening.clear();
            assert_ne!(
                words.read_line(&mut listening).unwrap(),
                0,
                "{args:?} does not start"
            );
        }
        Self {
            child,
            words,
            listening,
        }
    }

    /// Sends SIGHUP, and returns the log line about it.
    #[cfg(unix)]
    fn hang_up(&mut self) -> String {
        assert!(
            Command::new("kill")
                .args(["-HUP", &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        // A client that was refused before has its line, too.
        loop {
            let mut line = String::new();
            self.words.read_line(&mut line).unwrap();
            if !line.contains(HANDSHAKE) {
                return line;
            }
        }
    }

    fn port(&self) -> String {
        let (_, rest) = self.listening.split_once("://").unwrap();
        let (_, rest) = rest.split_once(':').unwrap();
        rest.chars().take_while(char::is_ascii_digit).collect()
    }

    /// Stops the proxy, and returns its log since it began to listen.
    #[cfg(unix)]
    fn stop(mut self) -> String {
        assert!(
            Command::new("kill")
                .arg(self.child.id().to_string())
                .status()
                .unwrap()
                .success()
        );
        let mut told = String::new();
        self.words.read_to_string(&mut told).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{told}");
        told
    }
}

/// The line of the log about a refused client.
const HANDSHAKE: &str = "a TLS handshake failed";

fn file(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name);
    path.to_str().unwrap().to_owned()
}

fn health(args: &[&str]) -> (i32, String) {
    let ran = run(
        Path::new("."),
        &[&["doctor", "--proxy"], args].concat(),
        b"",
    );
    assert_eq!(ran.out.is_empty(), ran.code > 0, "{}", ran.out);
    (ran.code, ran.err)
}

#[test]
fn a_proxy_is_asked_for_its_health_as_it_listens() {
    let proxy = Running::new(&["--listen", "localhost:0"]);
    let port = proxy.port();
    proxy
        .listening
        .begins(format!("restitch: listening on http://127.0.0.1:{port}"));
    for address in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!(":{port}"),
        format!("0.0.0.0:{port}"),
    ] {
        assert_eq!(health(&[&address]), (0, String::new()), "{address}");
    }
    assert_eq!(
        health(&[&format!("http://127.0.0.1:{port}")]),
        (0, String::new())
    );
    drop(proxy);
    let (code, told) = health(&[&format!("127.0.0.1:{port}")]);
    assert!(code == 1, "{code}: {told}");
    told.of(code).has("the proxy is not healthy: ");
    told.of(code).has("refused");
    let (code, told) = health(&["nowhere"]);
    assert!(code == 2, "{code}: {told}");
    told.of(code).has("no address to listen on");
}

#[cfg(unix)]
#[test]
fn a_socket_is_named_and_removed() {
    let folder = crate::cli::folder("health", &[]);
    let path = folder.join("llm.sock");
    if path.as_os_str().len() > 100 {
        return skipped(&format!("{} is too long for a socket", path.display()));
    }
    let address = format!("unix:{}", path.display());
    let proxy = Running::new(&["--listen", &address]);
    assert_eq!(
        proxy.listening,
        format!("restitch: listening on {address}, upstream http://127.0.0.1:9\n")
    );
    assert_eq!(health(&[&address]), (0, String::new()));
    // A second proxy leaves the first one alone.
    let args = [
        "proxy",
        "--upstream",
        "http://127.0.0.1:9",
        "--listen",
        &address,
    ];
    let second = run(Path::new("."), &args, b"");
    second.exits(1);
    second.err.has(format!("{address}: a process listens"));
    assert_eq!(health(&[&address]).0, 0);
    proxy.stop();
    assert!(!path.exists());
    assert_eq!(health(&[&address]).0, 1);
}

/// The proxy closes a client that speaks no TLS or does not trust the certificate, and logs one
/// line about it.
#[cfg(unix)]
#[test]
fn tls_is_served_without_noise() {
    let (cert, key, ca) = (file("server.pem"), file("server.key"), file("ca.pem"));
    let proxy = Running::new(&[
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    let port = proxy.port();
    proxy
        .listening
        .begins(format!("restitch: listening on https://127.0.0.1:{port},"));
    let url = format!("https://127.0.0.1:{port}");
    assert_eq!(health(&[&url, "--ca-file", &ca]), (0, String::new()));
    // A client that does not trust the certificate, and two that speak no TLS.
    let (code, told) = health(&[&url, "--ca-file", &file("client.pem")]);
    assert!(code == 1, "{told}");
    told.has("UnknownIssuer; if the certificate is of your own, name it");
    assert_eq!(health(&[&format!("127.0.0.1:{port}")]).0, 1);
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(socket, "GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It may be reset.
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    let told = proxy.stop();
    let (refused, others): (Vec<_>, Vec<_>) =
        told.lines().partition(|line| line.contains(HANDSHAKE));
    assert_eq!(
        others,
        ["restitch: draining: a second signal ends at once"],
        "{told}"
    );
    let reasons = ["refused", "not_tls", "not_tls"].map(|reason| format!(" reason={reason} "));
    assert!(
        refused.len() == 3
            && refused
                .iter()
                .zip(&reasons)
                .all(|(line, reason)| line.contains(reason)),
        "{told}"
    );
}

/// A renewed certificate is read again at SIGHUP, also without `--config`.
#[cfg(unix)]
#[test]
fn a_renewed_certificate_is_served() {
    let ca = file("ca.pem");
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let folder = folder(
        "renewed",
        &[
            ("cert.pem", &read("server.pem")),
            ("key.pem", &read("server.key")),
        ],
    );
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let mut proxy = Running::new(&[
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    let url = format!("https://127.0.0.1:{}", proxy.port());
    for (name, told, code) in [
        // It is that of no server.
        ("client", "read the configuration again", 1),
        ("server", "read the configuration again", 0),
        ("ca", "the configuration stays as it was", 0),
        ("server", "read the configuration again", 0),
    ] {
        std::fs::write(&cert, read(&format!("{name}.pem"))).unwrap();
        std::fs::write(
            &key,
            read(&format!(
                "{}.key",
                if name == "ca" { "client" } else { name }
            )),
        )
        .unwrap();
        let line = proxy.hang_up();
        line.of(name).has(told).lacks("BEGIN");
        assert_eq!(health(&[&url, "--ca-file", &ca]).0, code, "{name}");
    }
}

/// A service manager sends SIGHUP for a reload, whether or not there is a file.
#[cfg(unix)]
#[test]
fn a_hangup_without_a_file_changes_nothing() {
    let mut proxy = Running::new(&["--listen", "127.0.0.1:0"]);
    for _ in 0..2 {
        proxy.hang_up().has("there is nothing to read again");
    }
}

/// A certificate that has moved is read where the file of `--config` says, and the old files may be
/// gone.
#[cfg(unix)]
#[test]
fn a_certificate_that_has_moved_is_served() {
    let ca = file("ca.pem");
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let folder = folder(
        "moved",
        &[
            ("old.pem", &read("client.pem")),
            ("old.key", &read("client.key")),
        ],
    );
    let config = folder.join("f.toml");
    let name = |name: &str| {
        let path = |kind: &str| {
            folder
                .join(format!("{name}.{kind}"))
                .to_str()
                .unwrap()
                .to_owned()
        };
        let text = format!(
            "[proxy]\ntls_cert = {:?}\ntls_key = {:?}\n",
            path("pem"),
            path("key")
        );
        std::fs::write(&config, text).unwrap();
    };
    name("old");
    let mut proxy = Running::new(&[
        "--listen",
        "127.0.0.1:0",
        "--config",
        config.to_str().unwrap(),
    ]);
    let url = format!("https://127.0.0.1:{}", proxy.port());
    // It is that of no server.
    assert_eq!(health(&[&url, "--ca-file", &ca]).0, 1);
    for kind in ["pem", "key"] {
        std::fs::remove_file(folder.join(format!("old.{kind}"))).unwrap();
        std::fs::write(
            folder.join(format!("new.{kind}")),
            read(&format!("server.{kind}")),
        )
        .unwrap();
    }
    for (named, told, code) in [
        ("old", "the configuration stays as it was error=", 1),
        ("new", "read the configuration again", 0),
        ("old", "the configuration stays as it was error=", 0),
    ] {
        name(named);
        let line = proxy.hang_up();
        line.of(named).has(told).lacks("restart");
        assert_eq!(health(&[&url, "--ca-file", &ca]).0, code, "{named}");
    }
}

#[test]
fn what_is_wrong_with_a_listener_is_said_at_the_start() {
    let (cert, key) = (file("server.pem"), file("server.key"));
    for (args, code, words) in [
        (
            vec!["--listen", "llm.example:80"],
            2,
            "`llm.example:80` is no address to listen on: write",
        ),
        (
            vec!["--listen", "unix:/missing/llm.sock"],
            1,
            "unix:/missing/llm.sock: ",
        ),
        (
            vec!["--listen", ":0", "--set", "proxy.socket_mode=\"8\""],
            2,
            "`8` is no mode of a socket",
        ),
        (
            vec!["--tls-cert", &cert],
            2,
            "--tls-cert needs its key: set --tls-key",
        ),
        (
            vec!["--tls-cert", "missing.pem", "--tls-key", &key],
            1,
            "missing.pem: ",
        ),
    ] {
        let args = [vec!["proxy", "--upstream", "http://127.0.0.1:9"], args].concat();
        let ran = run(Path::new("."), &args, b"");
        ran.exits(code);
        ran.err.of(format!("{args:?}: {}", ran.code)).has(words);
    }
}

/// Git tracks no folder that a tool fills.
#[test]
fn git_tracks_no_cache() {
    const FILLED: [&str; 8] = [
        "target",
        "node_modules",
        "venv",
        "dist",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    ];
    let listed = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["ls-files", "-z"])
        .output();
    let listed = match listed {
        Ok(listed) if listed.status.success() => String::from_utf8(listed.stdout).unwrap(),
        Ok(listed) => return skipped(&String::from_utf8_lossy(&listed.stderr)),
        Err(error) => return skipped(&format!("git: {error}")),
    };
    let is_filled = |part: &str| FILLED.contains(&part) || part.ends_with(".egg-info");
    let (filled, written): (Vec<&str>, Vec<&str>) = listed
        .split('\0')
        .partition(|path| path.split('/').any(is_filled));
    assert!(written.contains(&"Cargo.toml"), "{listed}");
    assert_eq!(filled, [""; 0]);
}

/// The settings that the unit's comments and the page show are settings.
#[test]
fn shown_settings_are_right() {
    let shown: Vec<&str> = page()
        .split('`')
        .filter(|code| code.contains(" = "))
        .collect();
    assert_eq!(
        shown,
        [
            r#"listen = "unix:/run/restitch/llm.sock""#,
            r#"socket_mode = "0660""#
        ]
    );
    for setting in shown {
        Config::parse(&format!("[proxy]\n{setting}\n")).unwrap();
        assert!(
            !setting.starts_with("listen") || UNIT.contains(setting),
            "{setting}"
        );
    }
}
