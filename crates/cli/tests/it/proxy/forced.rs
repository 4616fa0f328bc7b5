//! Upstreams that force the rest by a grammar, and upstreams that refuse to.

use restitch::provider::capability::{GrammarForm, PrefillForm, Row};
use restitch_http::Upstream;
use serde_json::{Value, json};

use super::raw::*;
use crate::proxy::made::TestProxy;

async fn proxy(raw: &Raw, row: Row) -> restitch_proxy::Server {
    let upstream = Upstream::parse(&format!("http://{}", raw.addr)).unwrap();
    let proxy = TestProxy::new(upstream).row(row);
    proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap()
}

/// The body of a request that the upstream has received.
fn seen(raw: &Raw, n: usize) -> Value {
    let request = raw.request(n);
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn cut(text: &str) -> Vec<Piece> {
    stream(&(chunk(text) + &finish("length")))
}

fn refusal(body: &str) -> Vec<Piece> {
    let head =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n";
    vec![send(format!(
        "{head}content-length: {}\r\n\r\n{body}",
        body.len()
    ))]
}

/// An answer that calls the custom tool with this input.
fn input(text: &str) -> Vec<Piece> {
    let event = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "b", "choices": [choice]}))
    };
    let call = |custom: Value| json!({"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": custom}]});
    let body = event(call(json!({"name": "write_rest", "input": ""})), None)
        + &event(
            json!({"tool_calls": [{"index": 0, "custom": {"input": text}}]}),
            None,
        )
        + &event(json!({}), Some("tool_calls"))
        + "data: [DONE]\n\n";
    stream(&body)
}

/// The text of a streamed answer, its finish reasons and its report.
fn told(answer: &str) -> (String, Vec<String>, Value) {
    let (body, whole) = body_of(answer);
    assert!(whole, "{answer}");
    let (mut text, mut reasons, mut report) = (String::new(), Vec::new(), Value::Null);
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    for data in events.filter(|data| *data != "[DONE]") {
        let chunk: Value = serde_json::from_str(data).unwrap();
        let choice = &chunk["choices"][0];
        text += choice["delta"]["content"].as_str().unwrap_or_default();
        reasons.extend(choice["finish_reason"].as_str().map(str::to_owned));
        report = chunk.get("restitch").cloned().unwrap_or(report);
    }
    (text, reasons, report)
}

const CUT: &str = "{\"place\": \"Norway, north of Bergen\", \"name\": \"Aurora Bo";

#[tokio::test]
async fn the_rest_is_the_input_of_a_custom_tool() {
    // The head begins before white space or between words, 12 to 40 characters before the cut.
    let raw = Raw::new(vec![cut(CUT), input(" \"name\": \"Aurora Borealis\"}")]).await;
    let proxy = proxy(&raw, Row::of("*").grammar(GrammarForm::CustomTool)).await;
    let (text, reasons, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    let asked = seen(&raw, 1);
    let grammar = asked.pointer("/tools/0/custom/format/grammar/definition");
    let grammar = grammar.and_then(Value::as_str).unwrap();
    assert!(grammar.contains("Aurora Bo"), "{grammar}");
    assert_eq!(text, format!("{CUT}realis\"}}"), "{grammar}");
    assert_eq!(reasons, ["stop"]);
    assert_eq!(
        report,
        json!({"status": "complete", "continuations": 1, "failures": 0})
    );
}

/// Whatever the refusal says: the grammar is what is new in the request.
#[tokio::test]
async fn a_refused_grammar_is_learned_and_is_no_failure() {
    let raw = Raw::new(vec![
        cut("[1, 2"),
        refusal(r#"{"error":{"message":"Invalid grammar: too complex","type":"invalid_request_error"}}"#),
        stream(&(chunk("[1, 2, 3]") + &finish("stop"))),
        cut("[4, 5"),
        stream(&(chunk("[4, 5, 6]") + &finish("stop"))),
    ])
    .await;
    let proxy = proxy(&raw, Row::of("*").grammar(GrammarForm::CustomTool)).await;
    let (text, _, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[1, 2, 3]");
    assert_eq!(
        report,
        json!({"status": "complete", "continuations": 1, "failures": 0})
    );
    assert_eq!(seen(&raw, 2)["tools"], Value::Null);
    let (text, ..) = told(&exchange(proxy.addr(), &post(ASK)).await);
    assert_eq!(text, "[4, 5, 6]");
    assert_eq!(seen(&raw, 4)["tools"], Value::Null);
    assert_eq!(raw.requests.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn a_prefill_goes_with_the_grammar() {
    let raw = Raw::new(vec![
        cut(CUT),
        stream(&(chunk(" \"name\": \"Aurora Borealis\"}") + &finish("stop"))),
    ])
    .await;
    let row = Row::of("*").prefill(PrefillForm::Final);
    let proxy = proxy(&raw, row.grammar(GrammarForm::StructuredOutputs)).await;
    let (text, reasons, report) = told(&exchange(proxy.addr(), &post(ASK)).await);
    let asked = seen(&raw, 1);
    let sent = asked["messages"].as_array().unwrap().last().unwrap()["content"]
        .as_str()
        .unwrap();
    assert_eq!(format!("{sent} \"name\": \"Aurora Bo"), CUT);
    assert!(asked["structured_outputs"]["grammar"].is_string());
    assert_eq!(
        (text, reasons),
        (format!("{CUT}realis\"}}"), vec!["stop".to_owned()])
    );
    assert_eq!(
        report,
        json!({"status": "complete", "continuations": 1, "failures": 0})
    );
}
