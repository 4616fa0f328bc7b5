//! The cases of `tests/wire-cases`, through the proxy and through `restitch run`, over sockets.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use restitch::internal::record::AnswerRecord;
use restitch::provider::Dialect;
use restitch::session::Prose;
use restitch_http::{Body, Client, Upstream};
use restitch_testing::wire_case::{Answer, AnswerEnd, Call, Received, WireCase, fits};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use crate::cli::{folder, run};
use crate::proxy::made::TestProxy;

#[tokio::test]
async fn the_proxy_answers_as_the_files_say() {
    let mut replays = Replays::default();
    for case in WireCase::all() {
        replays.add(through_the_proxy(case)).await;
    }
    assert!(replays.end().await >= 127);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_answers_as_the_files_say() {
    let mut replays = Replays::default();
    for case in WireCase::all() {
        if let Some(prompt) = prompt_of_the_command(&case) {
            replays.add(through_the_command(case, prompt)).await;
        }
    }
    assert!(replays.end().await >= 30);
}

/// A few replays at a time: their waits overlap, and each meets its times.
#[derive(Default)]
struct Replays {
    open: JoinSet<Option<String>>,
    count: usize,
    wrong: Vec<String>,
}

impl Replays {
    async fn add(&mut self, replay: impl Future<Output = Option<String>> + Send + 'static) {
        self.open.spawn(replay);
        self.count += 1;
        if self.open.len() == 6 {
            let wrong = self.open.join_next().await.unwrap();
            self.wrong.extend(wrong.unwrap());
        }
    }

    /// Returns how many cases there were. None may differ from its file.
    async fn end(mut self) -> usize {
        let last = self.open.join_all().await;
        self.wrong.extend(last.into_iter().flatten());
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n\n"));
        println!("covered: {} files", self.count);
        self.count
    }
}

/// Replays a case through a proxy. Returns how it differs from its file.
async fn through_the_proxy(case: WireCase) -> Option<String> {
    let server = Server::new(&case).await;
    let report = Arc::new(Mutex::new(String::new()));
    let observer = {
        let report = Arc::clone(&report);
        move |record: &AnswerRecord| {
            let outcome = record.outcome.as_ref();
            *report.lock().unwrap() = outcome.map(|outcome| outcome.report()).unwrap_or_default();
        }
    };
    let proxy = TestProxy::new(server.url())
        .limits(case.limits.clone())
        .give_up(case.give_up)
        .repair(case.repair)
        .prose(case.prose)
        .observe(Arc::new(observer))
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let client = Client::new(Upstream::parse(&proxy.url()).unwrap()).unwrap();
    let request = http::Request::post(client.upstream().uri_for(&case.path).unwrap())
        .header("content-type", "application/json")
        .body(Body::full(case.request.clone()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let mut received = Received {
        status: response.status().as_u16(),
        ..Received::default()
    };
    let (mut frames, mut body) = (response.into_body(), Vec::new());
    while let Some(frame) = frames.frame().await {
        match frame {
            Ok(frame) => body.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                received.is_dropped = true;
                break;
            }
        }
    }
    received.body = String::from_utf8(body).unwrap();
    received.asked = server.asked().await;
    received.report.clone_from(&report.lock().unwrap());
    shown(&case, &case.differences(&received), &received)
}

/// Replays a case through the command, with the text on standard output and as JSON. Returns how it
/// differs from its file.
async fn through_the_command(case: WireCase, prompt: String) -> Option<String> {
    let mut config = String::new();
    let transport = &case.limits.transport;
    writeln!(
        config,
        "[limits]\nidle_timeout = {:?}",
        time(transport.idle_timeout)
    )
    .unwrap();
    let first_byte = time(transport.first_byte_timeout);
    writeln!(config, "first_byte_timeout = {first_byte:?}").unwrap();
    writeln!(config, "[proxy]\nrepair = \"{}\"", case.repair.as_str()).unwrap();
    let prose = match case.prose {
        Prose::Anchor => "anchor",
        _ => "pass",
    };
    writeln!(config, "prose = {prose:?}").unwrap();
    let folder = folder(
        &format!("wire-case-{}", case.name),
        &[("restitch.toml", config.as_bytes())],
    );
    let (dialect, base) = target(&case);
    let most = case.limits.continuation.max_continuations.to_string();
    let request: Value = serde_json::from_str(&case.request).unwrap();
    let tokens = request.get("max_tokens").map(Value::to_string);
    let model = request["model"].as_str().unwrap_or("m").to_owned();
    let mut found = Vec::new();
    let text = text_of(&case);
    let mut report: Value = serde_json::from_str(&case.report).unwrap();
    // The command prints the rung of each call, and describes the cut value.
    let mut apart = |name| report.as_object_mut().unwrap().remove(name);
    let (rungs, cut_value) = (apart("rungs"), apart("cut_value"));
    // The document that the command writes ends before the text that would be added.
    apart("synthesized");
    apart("elements_may_be_missing");
    let status = report["status"].as_str().unwrap().to_owned();
    let document = document_in(&text);
    for is_json in [false, true] {
        let server = Server::new(&case).await;
        let url = format!("{}{base}", server.url());
        let prompt = prompt.clone();
        let (folder, most, tokens, model) =
            (folder.clone(), most.clone(), tokens.clone(), model.clone());
        let ran = spawn_blocking(move || {
            let mut arguments = vec!["run", "--base-url", &url, "--dialect", dialect.as_str()];
            arguments.extend(["--model", &model, &prompt]);
            arguments.extend(["--config", "restitch.toml", "--max-continuations", &most]);
            if let Some(tokens) = &tokens {
                arguments.extend(["--max-tokens", tokens]);
            }
            arguments.extend(is_json.then_some("--json"));
            run(&folder, &arguments, b"")
        });
        let ran = ran.await.unwrap();
        found.extend(case.differences_of_calls(&server.asked().await));
        let code = match (status.as_str(), document.is_some()) {
            ("closed", _) => 3,
            ("complete" | "passed", true) => 0,
            _ => 4,
        };
        let mut compare = |what: &str, is_right: bool| {
            if !is_right {
                found.push(format!("{what}: {code}, {text:?}, {report}\n{ran:#?}"));
            }
        };
        compare("code", ran.code == code);
        if is_json {
            let answers = ran.answers();
            let answer = answers.first().unwrap_or(&Value::Null);
            compare("report", fits(&report, answer));
            if let Some(rungs) = &rungs {
                let iterations = answer["iterations"].as_array();
                let mut told = iterations.into_iter().flatten();
                let is_told = told.any(|iteration| iteration["rung"] == rungs[0]);
                compare("rung", is_told);
            }
            if code == 0 {
                compare(
                    "document",
                    answer["document"].as_str() == document.as_deref(),
                );
            }
        } else if code != 4 {
            let out = ran.out.trim_end();
            let before = out.strip_suffix(document.as_deref().unwrap_or_default());
            compare(
                "document",
                before.is_some_and(|before| text.starts_with(before)),
            );
            let place = cut_value.as_ref().and_then(Value::as_str);
            let words = place.map(|place| format!("cut in {place}"));
            compare("cut value", ran.err.contains(&words.unwrap_or_default()));
        }
    }
    shown(&case, &found, &())
}

fn shown(case: &WireCase, found: &[String], seen: &impl std::fmt::Debug) -> Option<String> {
    (!found.is_empty()).then(|| format!("{}\n{}\n{seen:#?}", case.name, found.join("\n")))
}

fn time(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Returns the prompt of a request that the command can make: a stream, with one user's text and
/// nothing else. The command closes an answer that it gives up, so a case that ends as incomplete or
/// failed is not replayed.
fn prompt_of_the_command(case: &WireCase) -> Option<String> {
    let request: Value = serde_json::from_str(&case.request).unwrap();
    let report: Value = serde_json::from_str(&case.report).unwrap();
    let ends = ["complete", "closed", "passed"];
    let is_given_up_alike = ends.map(|status| json!(status)).contains(&report["status"]);
    let members = [
        "model",
        "stream",
        "max_tokens",
        "messages",
        "input",
        "contents",
    ];
    let is_plain = { request.as_object().unwrap().keys() }.all(|key| members.contains(&&**key));
    let is_stream = request["stream"] == true || case.path.ends_with("alt=sse");
    if !is_given_up_alike || !is_plain || !is_stream {
        return None;
    }
    if let Some(input) = request["input"].as_str() {
        return Some(input.to_owned());
    }
    let turns = [&request["messages"], &request["contents"]];
    let [turn] = turns.into_iter().find_map(Value::as_array)?.as_slice() else {
        return None;
    };
    let text = [&turn["content"], &turn["parts"][0]["text"]];
    text.into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// Returns the API of a case, and the path of its base.
fn target(case: &WireCase) -> (Dialect, &'static str) {
    let dialect = Dialect::of_path(case.path.split('?').next().unwrap()).unwrap();
    let base = if dialect == Dialect::Gemini {
        "/v1beta"
    } else {
        "/v1"
    };
    (dialect, base)
}

/// Returns the text that the client receives, read off the patterns of its events.
fn text_of(case: &WireCase) -> String {
    let mut text = String::new();
    for pattern in case.client() {
        let event: Value = serde_json::from_str(pattern).unwrap_or_default();
        let parts = [
            &event["choices"][0]["delta"]["content"],
            &event["choices"][0]["text"],
            &event["delta"]["text"],
            &event["delta"]["message"]["content"]["text"],
            &event["message"]["content"],
            &event["delta"],
            &event["candidates"][0]["content"]["parts"][0]["text"],
        ];
        text.extend(parts.into_iter().find_map(Value::as_str));
    }
    text
}

/// Returns the document in a text: without the fence and the white space around it, or the root
/// before it.
fn document_in(text: &str) -> Option<String> {
    let document = text.trim().trim_start_matches("```json\n");
    let document = document.trim_end_matches("\n```");
    let last = document
        .rsplit_once("}\n")
        .map_or(document, |(_, last)| last);
    let is_json = |text: &&str| serde_json::from_str::<Value>(text).is_ok();
    [document, last]
        .into_iter()
        .find(is_json)
        .map(str::to_owned)
}

/// An upstream that takes the calls of a case.
struct Server {
    addr: SocketAddr,
    /// The calls that have arrived, or that were refused.
    seen: Arc<Mutex<Vec<Option<String>>>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn new(case: &WireCase) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(serve(listener, addr, case.calls.clone(), Arc::clone(&seen)));
        Self { addr, seen, task }
    }

    fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Ends the server, and returns the calls after the first one.
    async fn asked(&self) -> Vec<Option<String>> {
        self.task.abort();
        self.seen.lock().unwrap().split_off(1)
    }
}

async fn serve(
    mut listener: TcpListener,
    addr: SocketAddr,
    calls: Vec<Call>,
    seen: Arc<Mutex<Vec<Option<String>>>>,
) {
    let mut calls = calls.into_iter().peekable();
    let mut silent = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = read_request(&mut stream).await;
        seen.lock().unwrap().push(Some(asked));
        let Some(Call::Answered(answer)) = calls.next() else {
            return;
        };
        if matches!(calls.peek(), Some(Call::Refused)) {
            calls.next();
            seen.lock().unwrap().push(None);
            // The port refuses connections before the peer knows that it has to make another one.
            drop(listener);
            write_answer(&mut stream, &answer).await;
            drop(stream);
            tokio::time::sleep(REFUSING).await;
            listener = listening_again(addr).await;
            continue;
        }
        write_answer(&mut stream, &answer).await;
        // A silent connection stays open.
        silent.extend((answer.end == AnswerEnd::Silent).then_some(stream));
    }
}

/// How long a port refuses connections: less than the wait before a call is made again.
const REFUSING: Duration = Duration::from_millis(100);

/// Listens at an address again. A connection that leaves from the same port may be in the way.
async fn listening_again(addr: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(addr).await {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(REFUSING / 10).await,
        }
    }
}

/// Reads a request. Returns its body, or `GET` and its path.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let line = head.lines().next().unwrap();
        if let Some(get) = line
            .strip_suffix(" HTTP/1.1")
            .filter(|line| line.starts_with("GET "))
        {
            return get.to_owned();
        }
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if body.len() >= length.unwrap().1.parse().unwrap() {
            return body.to_owned();
        }
    }
}

/// Writes the head, and the body piece by piece. An answer that does not end as announced is
/// shorter than its head says.
async fn write_answer(stream: &mut TcpStream, answer: &Answer) {
    let is_whole = answer.end == AnswerEnd::Closed;
    let length = answer.pieces.iter().map(String::len).sum::<usize>();
    let length = length + if is_whole { 0 } else { 1000 };
    let (status, content_type) = (answer.status, &answer.content_type);
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.set_nodelay(true).unwrap();
    for piece in [&head].into_iter().chain(&answer.pieces) {
        // A peer that has seen an end does not read the rest.
        let _ = stream.write_all(piece.as_bytes()).await;
        tokio::task::yield_now().await;
    }
}
