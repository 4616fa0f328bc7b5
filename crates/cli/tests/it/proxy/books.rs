//! The books: the log, the metrics and the page give the same sums, as docs/operating.md says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use restitch_sim::Sim;
use serde_json::{Value, json};

use super::admin::exposition::Exposition;
use super::raw::*;
use super::{DOCUMENT, Setup, request};
use crate::cli::{LONG, folder};

/// A proxy in a process of its own, whose log is read.
struct Operated {
    child: Child,
    proxy: SocketAddr,
    admin: SocketAddr,
    lines: Receiver<Value>,
}

impl Drop for Operated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Operated {
    fn start(upstream: &str, config: &str) -> Self {
        let file = folder("books", &[("c.toml", config.as_bytes())]).join("c.toml");
        let mut child = Command::new(env!("CARGO_BIN_EXE_restitch"))
            .args(["proxy", "--upstream", upstream, "--listen", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--set", "proxy.threads=2"])
            .args(["--log", "restitch=debug", "--set", "proxy.log_format=json"])
            .args(["--config", file.to_str().unwrap()])
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES")
            .env("BOOKS_A", TOKENS[0])
            .env("BOOKS_B", TOKENS[1])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (read, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
                if read.send(line).is_err() {
                    return;
                }
            }
        });
        let mut addresses = BTreeMap::new();
        while addresses.len() < 2 {
            let line: Value = lines.recv_timeout(LONG).unwrap();
            let message = line["message"].as_str().unwrap_or_default();
            for mark in ["listening on http://", "readiness on http://"] {
                if let Some((_, rest)) = message.split_once(mark) {
                    let address = rest.split([',', ' ']).next().unwrap();
                    addresses.insert(mark, address.parse().unwrap());
                }
            }
        }
        Self {
            child,
            proxy: addresses["listening on http://"],
            admin: addresses["readiness on http://"],
            lines,
        }
    }

    async fn get(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        body_of(&exchange(self.admin, &request).await).0
    }

    /// Reads the log until it has this many lines about requests, and all kept answers have ended.
    fn log(&self, requests: usize, kept: usize) -> Vec<Value> {
        let mut log = Vec::new();
        let count = |log: &[Value], message| log.iter().filter(|line| has(line, message)).count();
        while count(&log, ANSWERED) < requests || count(&log, KEPT) < kept {
            log.push(self.lines.recv_timeout(LONG).unwrap());
        }
        log
    }
}

const ANSWERED: &str = "answered";
const KEPT: &str = "a kept answer has ended";

fn has(line: &Value, message: &str) -> bool {
    line["message"] == message
}

/// Returns a request about a conversation with its own script.
fn scripted(model: &str, is_stream: bool, script: &str, number: usize, headers: &str) -> String {
    let mut body = request(is_stream, &format!("{number} [[script: {script}]]"));
    body["model"] = json!(model);
    let head = format!("host: h\r\nauthorization: Bearer sk-test\r\nx-request-id: r{number}\r\n");
    post(&body.to_string()).replace("host: h\r\n", &(head + headers))
}

/// Sends a request, reads the answer's first text, and leaves.
async fn leave(addr: SocketAddr, request: &str) {
    let mut client = begin(addr, request).await;
    read_until(&mut client, r#""content":""#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_the_metrics_and_the_page_agree_about_650_requests() {
    let sim = Sim::new(DOCUMENT, "answer".parse().unwrap());
    let sim = sim.start().await;
    let url = sim.url();
    let config = format!(
        "[limits]\npatience = 0.1\nidle_timeout = 20\nmax_keep_time = 60\n\
         [[access.token]]\nname = \"team-a\"\nsecret = \"env:BOOKS_A\"\n\
         [[access.token]]\nname = \"team-b\"\nsecret = \"env:BOOKS_B\"\n\
         [[route]]\nname = \"second\"\nmodel = \"second\"\nfallback = [{{ upstream = \"{url}\" }}]\n"
    );
    let books = Operated::start(&url, &config);
    let (mut kept, mut last) = (0, String::new());
    for number in 0..REQUESTS {
        // The clients of a round have one token, so they find each other's kept answers.
        let token = format!("x-restitch-token: {}\r\n", TOKENS[number / ROUND % 2]);
        let ask = |stream, script| scripted("sim", stream, script, number, &token);
        let of_kept = |method: &str| {
            format!(
                "{method} /streams/{last} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer sk-test\r\n\
                 {token}connection: close\r\n\r\n"
            )
        };
        let keep = format!("{token}x-restitch-keep: 60\r\n");
        let request = match number % ROUND {
            0 => ask(true, "answer"),
            1 => ask(false, "answer"),
            2 => ask(true, "answer@60!length | anchor"),
            3 => ask(true, "answer@90!drop | refusal anchor@80!length anchor"),
            4 => ask(false, "answer@60!length | anchor"),
            5 => ask(true, "answer@60!eof | refusal"),
            6 => ask(true, "429"),
            7 => ask(true, "400"),
            8 => ask(true, "prose"),
            9 => {
                leave(books.proxy, &ask(true, "answer@60!stall")).await;
                continue;
            }
            10 => format!("GET /v1/models HTTP/1.1\r\nhost: h\r\n{token}connection: close\r\n\r\n"),
            11 => format!(
                "GET /x HTTP/1.1\r\nhost: h\r\n{token}connection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
            ),
            12 => {
                kept += 1;
                scripted("sim", true, KEPT_SCRIPT, number, &keep)
            }
            13 | 23 => of_kept("GET"),
            14 => format!("GET /streams/x HTTP/1.1\r\nhost: h\r\n{token}connection: close\r\n\r\n"),
            15 => scripted(
                "second",
                true,
                "answer@100!length | 500 anchor",
                number,
                &token,
            ),
            16 => scripted("second", false, "answer", number, &token),
            17 => scripted("sim", false, "answer", number, &keep),
            18 => ask(true, "answer@60!length | repeat@0 anchor"),
            19 => of_kept("HEAD"),
            20 => {
                // The request of the kept answer again, after its first event.
                let first = number - 20 + 12;
                let after = format!("{keep}last-event-id: 1-1\r\n");
                scripted("sim", true, KEPT_SCRIPT, first, &after)
                    .replace(&format!("x-request-id: r{first}\r\n"), "")
            }
            21 => of_kept("PUT"),
            22 => of_kept("DELETE"),
            24 => of_kept("GET").replace(&token, ""),
            _ => ask(true, "answer@60!error | exact"),
        };
        let answer = exchange(books.proxy, &request).await;
        answer.of(number).begins("HTTP/1.1 ");
        let head = answer.split("\r\n\r\n").next().unwrap();
        head.of(number).has("\r\nx-request-id: ");
        if let Some((_, id)) = head.split_once("x-restitch-stream: ") {
            last = id.lines().next().unwrap().to_owned();
        }
    }
    let log = books.log(REQUESTS, kept);
    let seen = Exposition::read(&books.get("/metrics").await);
    agree(&log, &seen);
    let page: Value = serde_json::from_str(&books.get("/answers").await).unwrap();
    agree_with_page(&log, page["answers"].as_array().unwrap());
}

/// Checks the identities between the log and the metrics.
fn agree(log: &[Value], seen: &Exposition) {
    let of = |message: &'static str| log.iter().filter(move |line| has(line, message));
    let count = |message: &'static str| of(message).count() as f64;
    let all = |name: &str| seen.sum(name, &[]);
    assert_eq!(count(ANSWERED), all("restitch_requests_total"));
    for line in of(ANSWERED) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let (route, status) = (text("route"), line["status"].to_string());
        let is_same = |other: &&Value| {
            other["route"].as_str().unwrap_or_default() == route
                && other["status"] == line["status"]
        };
        let labels = [("route", route.as_str()), ("status", status.as_str())];
        assert_eq!(
            of(ANSWERED).filter(is_same).count() as f64,
            seen.sum("restitch_requests_total", &labels),
            "{labels:?}"
        );
    }
    // A kept answer has a line of its own.
    let is_of_reader = |line: &&Value| !line["span"]["answer"].is_null();
    let ends: Vec<_> = of(ANSWERED)
        .filter(|line| !line["wire"].is_null() && !is_of_reader(line))
        .chain(of(KEPT))
        .collect();
    let sum = |name: &str| -> f64 { ends.iter().filter_map(|line| line[name].as_f64()).sum() };
    assert_eq!(ends.len() as f64, all("restitch_answers_total"));
    for token in ["team-a", "team-b"] {
        let of_token = ends.iter().filter(|line| line["token"] == token);
        let labels = [("token", token)];
        assert_eq!(
            of_token.count() as f64,
            seen.sum("restitch_answers_total", &labels)
        );
        assert!(seen.sum("restitch_answers_total", &labels) > 150.0);
    }
    assert_eq!(
        ends.len() as f64,
        all("gen_ai_server_request_duration_seconds_count")
    );
    assert!(seen.calls("429") > 0.0 && seen.answers("left") > 0.0);
    assert_eq!(sum("cuts"), all("restitch_cuts_total"));
    for cause in ["length", "drop", "eof", "in_band", "idle"] {
        let causes = ends.iter().filter_map(|line| line["causes"].as_str());
        let causes = causes.flat_map(|causes| causes.split(','));
        let cuts = causes.filter(|other| *other == cause).count() as f64;
        let labels = [("cause", cause)];
        assert_eq!(cuts, seen.sum("restitch_cuts_total", &labels), "{cause}");
    }
    let tokens = |use_of| seen.sum("restitch_tokens_total", &[("use", use_of)]);
    assert_eq!(sum("tokens_kept"), tokens("kept"));
    assert_eq!(sum("tokens_regenerated"), tokens("regenerated"));
    let output = [("gen_ai_token_type", "output")];
    assert_eq!(
        all("restitch_tokens_total"),
        seen.sum("gen_ai_client_token_usage_sum", &output)
    );
    let stopped = ends.iter().filter(|line| !line["stop"].is_null());
    assert_eq!(stopped.count() as f64, all("restitch_given_up_total"));
    assert_eq!(count("joined"), all("restitch_seams_total"));
    assert_eq!(count("joined"), all("restitch_gap_seconds_count"));
    assert_eq!(count("joined"), all("restitch_pending_bytes_count"));
    assert_eq!(sum("failures"), count("a call failed"));
    assert_eq!(
        count("the next calls go to a fallback"),
        all("restitch_fallbacks_total")
    );
    let resumes = |outcome| seen.sum("restitch_resumes_total", &[("outcome", outcome)]);
    let reads = of(ANSWERED).filter(|line| {
        is_of_reader(line)
            && line["wire"].is_null()
            && ["GET", "POST"]
                .iter()
                .any(|method| line["method"] == *method)
            && line["status"]
                .as_u64()
                .is_some_and(|status| status / 100 == 2)
    });
    assert_eq!(reads.count() as f64, resumes("running") + resumes("ended"));
    let unknown = of("refused a request").filter(|line| line["reason"] == "unknown_stream");
    assert_eq!(unknown.count() as f64, resumes("unknown"));
    for status in [200, 204, 401, 404, 405] {
        let is_of = |line: &&Value| line["path"] == "/streams/*" && line["status"] == status;
        assert!(of(ANSWERED).filter(is_of).count() >= 25, "{status}");
    }
    assert_eq!(all("restitch_running"), 0.0);
    // Each of them has happened.
    for (name, least) in [
        ("restitch_cuts_total", 200.0),
        ("restitch_given_up_total", 20.0),
        ("restitch_fallbacks_total", 20.0),
        ("restitch_resumes_total", 50.0),
        ("restitch_answers_not_kept_total", 25.0),
    ] {
        assert!(all(name) >= least, "{name}: {}", all(name));
    }
    for message in ["cut", "joined", "a call failed"] {
        for line in of(message) {
            for field in ["route", "upstream", "model"] {
                assert!(line[field].is_string(), "{field}: {line}");
            }
        }
    }
    // One name leads from a kept answer to the requests that read it.
    let named = |line: &Value| line["span"]["answer"].as_str().map(str::to_owned);
    for line in of(KEPT) {
        let same = of(ANSWERED).filter(|other| named(other) == named(line));
        // Its own request, two GETs, HEAD, the repeated POST, and DELETE.
        assert!(named(line).is_some() && same.count() == 6, "{line}");
        for field in ["client", "route", "upstream", "method", "status"] {
            assert!(!line[field].is_null(), "{field}: {line}");
        }
    }
}

/// Checks the identities between the log and the page, about the answers that the page still has.
fn agree_with_page(log: &[Value], answers: &[Value]) {
    assert!(answers.len() >= 200, "{}", answers.len());
    for answer in answers {
        let of_answer = |line: &&Value| {
            line["span"]["id"] == answer["request_id"] && (has(line, ANSWERED) || has(line, KEPT))
        };
        // The line of a kept answer is about the answer, and the other one about its first reader.
        let lines = || log.iter().filter(of_answer);
        let line = lines().find(|line| has(line, KEPT)).or(lines().next());
        let line = line.unwrap_or_else(|| panic!("{answer}"));
        for name in ["model", "wire", "outcome", "stop", "bytes", "end"] {
            assert_eq!(line[name], answer[name], "{name}: {line} {answer}");
        }
        let causes: Vec<_> = answer["causes"].as_array().unwrap().iter().collect();
        let cuts = line["cuts"].as_u64().unwrap_or_default();
        assert_eq!(cuts, causes.len() as u64, "{line} {answer}");
        let failures = |facts: &Value| facts["failures"].as_u64().unwrap_or_default();
        assert_eq!(failures(line), failures(answer), "{line} {answer}");
    }
}

/// The size of `/metrics` with one route and two models, after answers that end in all the ways of
/// a day.
#[tokio::test]
async fn the_metrics_of_a_day_have_at_most_60_kb() {
    let mut limits = restitch::Limits::default().with_patience(Duration::ZERO);
    limits.keep.max_keep_time = Duration::from_secs(1);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let setup = Setup::of("answer", |proxy| proxy.limits(limits).admin(Some(address))).await;
    let proxy = setup.proxy.addr();
    for (number, model) in ["gpt-5-mini-2025", "claude-sonnet-4"]
        .into_iter()
        .enumerate()
    {
        for script in [
            "answer",
            "answer@60!length | anchor",
            "answer@60!drop | refusal anchor",
            "answer@60!error | refusal",
            "429",
            "500",
            "503",
            "no-response",
        ] {
            for is_stream in [true, false] {
                exchange(proxy, &scripted(model, is_stream, script, number, "")).await;
            }
        }
        leave(proxy, &scripted(model, true, "answer@60!stall", number, "")).await;
    }
    let admin = setup.proxy.admin_addr().unwrap();
    for _ in 0..1000 {
        let request = "GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        let (text, _) = body_of(&exchange(admin, request).await);
        let seen = Exposition::read(&text);
        if seen.sum("restitch_answers_total", &[]) == 34.0 {
            let errors = seen.counted("restitch_call_errors_total", "error_type");
            assert!(errors.len() >= 6, "{errors:?}");
            assert!(text.len() <= 60_000, "{} bytes\n{text}", text.len());
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not all answers are counted");
}

/// The requests of one round, which differ.
const ROUND: usize = 26;
const REQUESTS: usize = 25 * ROUND;
const KEPT_SCRIPT: &str = "answer@60!length | anchor";
/// The tokens of two teams.
const TOKENS: [&str; 2] = ["t0ken-of-the-team-a", "t0ken-of-the-team-b"];
