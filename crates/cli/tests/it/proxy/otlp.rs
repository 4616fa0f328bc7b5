//! Spans that are pushed to a collector by OTLP, by the program as an operator starts it.

use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::raw::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A proxy in a process of its own.
struct Program {
    child: Child,
    words: BufReader<ChildStderr>,
    addr: std::net::SocketAddr,
}

impl Program {
    /// Starts the proxy in front of an upstream, with variables of its environment.
    async fn start(upstream: std::net::SocketAddr, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command.args([
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &format!("http://{upstream}"),
        ]);
        command
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES")
            .envs(variables.iter().copied());
        command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let addr = loop {
            line.clear();
            let read = timeout(HANGS, words.read_line(&mut line))
                .await
                .expect("the proxy hangs")
                .unwrap();
            assert!(read > 0, "the proxy has ended");
            if let Some((_, rest)) = line.split_once("listening on http://") {
                break rest.split(',').next().unwrap().parse().unwrap();
            }
        };
        Self { child, words, addr }
    }

    /// Ends the proxy as an operator does. Returns its output.
    async fn end(mut self) -> (ExitStatus, String) {
        let id = self.child.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .await
                .unwrap()
                .success()
        );
        let mut said = String::new();
        timeout(HANGS, self.words.read_to_string(&mut said))
            .await
            .expect("the proxy hangs")
            .unwrap();
        (
            timeout(HANGS, self.child.wait())
                .await
                .expect("the proxy hangs")
                .unwrap(),
            said,
        )
    }
}

/// A collector that answers every request.
async fn collector() -> Raw {
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    Raw::new(vec![vec![send(ok)]; 100]).await
}

/// Returns the bodies of the requests to a path.
fn bodies(collector: &Raw, path: &str) -> Vec<Value> {
    let requests = collector.requests.lock().unwrap();
    let of_path = requests
        .iter()
        .filter(|request| request.starts_with(&format!("POST {path} ")));
    of_path
        .map(|request| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect()
}

fn attribute<'v>(of: &'v Value, name: &str) -> &'v Value {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    found.map_or(&Value::Null, |attribute| {
        attribute["value"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
    })
}

fn ask() -> String {
    let trace = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\ntracestate: a=b");
    post(ASK).replace("host: h", &format!("host: h\r\n{trace}"))
}

#[tokio::test]
async fn an_answer_and_its_calls_are_spans() {
    let usage = "data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":30}}\n\n";
    let done = "data: [DONE]\n\n";
    let cut = chunk("[1, 2") + &finish("length").replace(done, "") + usage + done;
    let raw = Raw::new(vec![stream(&cut), full("[1, 20]")]).await;
    let collector = collector().await;
    let endpoint = format!("http://{}/base", collector.addr);
    let proxy = Program::start(
        raw.addr,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=mine"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=test",
            ),
        ],
    )
    .await;
    let answer = exchange(proxy.addr, &ask()).await;
    answer.has("\"status\":\"complete\"");
    let (status, said) = proxy.end().await;
    assert!(status.success(), "{status}: {said}");
    said.of(status).lacks(" WARN ");

    assert!(
        collector
            .requests
            .lock()
            .unwrap()
            .iter()
            .all(|request| request.contains("x-team: mine"))
    );
    let traces = bodies(&collector, "/base/v1/traces");
    let resource = &traces[0]["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), "restitch");
    assert_eq!(attribute(resource, "deployment.environment.name"), "test");
    let all = traces
        .iter()
        .flat_map(|body| body["resourceSpans"].as_array().unwrap());
    let all = all.flat_map(|spans| spans["scopeSpans"].as_array().unwrap());
    let spans: Vec<_> = all
        .flat_map(|spans| spans["spans"].as_array().unwrap())
        .collect();
    assert!(
        spans.len() == 3 && spans.iter().all(|span| span["traceId"] == TRACE),
        "{spans:?}"
    );
    let server = spans.iter().find(|span| span["kind"] == 2).unwrap();
    assert_eq!(server["name"], "chat m");
    assert_eq!(server["parentSpanId"], "00f067aa0ba902b7");
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "127.0.0.1"),
        ("gen_ai.request.model", "m"),
        ("restitch.wire", "openai-chat"),
        ("restitch.outcome", "complete"),
        ("restitch.cuts", "1"),
        ("restitch.seams", "1"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(attribute(server, name), value, "{name}: {server}");
    }
    let mut calls: Vec<_> = spans.iter().filter(|span| span["kind"] == 3).collect();
    calls.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().to_owned());
    for (number, (call, way)) in calls.iter().zip(["first", "words"]).enumerate() {
        assert_eq!(call["parentSpanId"], server["spanId"], "{call}");
        assert_eq!(*attribute(call, "restitch.rung"), way);
        assert_eq!(*attribute(call, "server.address"), "127.0.0.1");
        assert_eq!(*attribute(call, "error.type"), Value::Null, "{call}");
        // The upstream's spans are below that of its call.
        let context = format!(
            "traceparent: 00-{TRACE}-{}-01",
            call["spanId"].as_str().unwrap()
        );
        let request = raw.request(number);
        request.has(&context).has("tracestate: a=b");
    }
    assert_eq!(*attribute(calls[0], "restitch.cause"), "length");
    assert_eq!(*attribute(calls[0], "gen_ai.usage.output_tokens"), "30");
    let joined = &calls[1]["events"][0];
    assert_eq!(joined["name"], "joined");
    assert_eq!(*attribute(joined, "restitch.offset"), "5");
}

/// A refusal and a client without a context.
#[tokio::test]
async fn what_fails_is_a_span_with_its_error() {
    let raw = Raw::new(vec![vec![send(
        "HTTP/1.1 404 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    )]])
    .await;
    let collector = collector().await;
    let endpoint = format!("http://{}", collector.addr);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint[..]),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
    ];
    let proxy = Program::start(raw.addr, &variables).await;
    exchange(proxy.addr, &post(ASK)).await;
    assert!(proxy.end().await.0.success());
    let traces = bodies(&collector, "/v1/traces");
    let spans = traces[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    assert_eq!(spans.len(), 2, "{spans:?}");
    for span in spans {
        assert_eq!(*attribute(span, "error.type"), "404", "{span}");
        assert_eq!(span["status"]["code"], 2, "{span}");
    }
    let request = raw.request(0);
    let trace = spans[0]["traceId"].as_str().unwrap();
    request.has(format!("traceparent: 00-{trace}-"));
}

/// A collector that is down, or that never answers, breaks no answer.
#[tokio::test]
async fn a_collector_that_is_down_breaks_no_answer() {
    let silent = Raw::new(vec![vec![Piece::Hold]; 100]).await;
    for collector in ["127.0.0.1:9".to_owned(), silent.addr.to_string()] {
        let raw = Raw::new(vec![full("[1]")]).await;
        let endpoint = format!("http://{collector}");
        let proxy = Program::start(raw.addr, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
        let answer = exchange(proxy.addr, &ask()).await;
        answer.has("[1]").has("data: [DONE]");
        let (status, said) = proxy.end().await;
        assert!(status.success(), "{said}");
        said.has("not all spans have reached the collector");
    }
}

/// Metrics are not pushed: a variable for them names no collector.
#[tokio::test]
async fn spans_alone_are_pushed() {
    for (variable, path, is_pushed) in [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/spans", true),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/numbers", false),
    ] {
        let raw = Raw::new(vec![full("[1]")]).await;
        let collector = collector().await;
        let endpoint = format!("http://{}{path}", collector.addr);
        let proxy = Program::start(raw.addr, &[(variable, &endpoint)]).await;
        exchange(proxy.addr, &ask()).await;
        let (status, said) = proxy.end().await;
        assert!(status.success(), "{variable}: {said}");
        said.of(variable).lacks(" WARN ");
        let requests = collector.requests.lock().unwrap().clone();
        let is_of_path = |request: &String| request.starts_with(&format!("POST {path} HTTP/1.1"));
        assert!(
            requests.is_empty() != is_pushed && requests.iter().all(is_of_path),
            "{variable}: {requests:?}"
        );
        // The proxy sends the upstream a span's context only if it pushes spans.
        let is_own = !raw
            .request(0)
            .contains(&format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01"));
        assert_eq!(is_own, is_pushed, "{}", raw.request(0));
    }
}

/// The default protocol, which collectors get.
#[tokio::test]
async fn what_is_pushed_is_protobuf() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let collector = collector().await;
    let endpoint = format!("http://{}", collector.addr);
    let proxy = Program::start(raw.addr, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
    exchange(proxy.addr, &ask()).await;
    assert!(proxy.end().await.0.success());
    let mut spans = 0;
    for request in collector.bytes.lock().unwrap().iter() {
        let at = request
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap();
        let (head, body) = (String::from_utf8_lossy(&request[..at]), &request[at + 4..]);
        head.has("content-type: application/x-protobuf");
        assert_eq!(head.split(' ').nth(1), Some("/v1/traces"));
        // The exporter of OpenTelemetry writes the messages.
        spans += body.windows(6).filter(|name| name == b"chat m").count();
    }
    assert_eq!(spans, 2);
}

#[tokio::test]
async fn nothing_is_pushed_unless_a_collector_is_named() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let collector = collector().await;
    let endpoint = format!("http://{}", collector.addr);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint[..]),
        ("OTEL_SDK_DISABLED", "true"),
    ];
    let proxy = Program::start(raw.addr, &variables).await;
    exchange(proxy.addr, &ask()).await;
    assert!(proxy.end().await.0.success());
    assert!(collector.asked() == 0);
    // The client's own trace context continues.
    raw.request(0)
        .has(format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01"));
}
