//! Limits on the tokens of an answer: raised by the operator for first calls, and by the price of
//! the repeated text for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use restitch::Limits;
use restitch_proxy::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::raw::*;
use super::routes::{request, with_routes};
use crate::proxy::made::TestProxy;
use restitch_testing::rows::Rows;

async fn with_least(base: &Raw, least: &str) -> Server {
    let routes = format!("[[route]]\nmin_output_tokens = {least}\n");
    let proxy = with_routes(base.unbound(Limits::default()), &[], &routes);
    proxy.start().await
}

/// A client's limit is raised in each API, and a higher one stays, like a request without a limit.
#[tokio::test]
async fn a_route_raises_a_low_limit_of_a_first_request() {
    let messages = r#""messages":[{"role":"user","content":"x"}]"#;
    let contents = r#""contents":[{"parts":[{"text":"x"}]}]"#;
    for (path, member, limit) in [
        (
            "/v1/chat/completions",
            "max_tokens",
            format!(r#"{{"model":"m",{messages},"max_tokens":LIMIT}}"#),
        ),
        (
            "/v1/chat/completions",
            "max_completion_tokens",
            format!(r#"{{"model":"m",{messages},"max_completion_tokens":LIMIT}}"#),
        ),
        (
            "/v1/messages",
            "max_tokens",
            format!(r#"{{"model":"m",{messages},"max_tokens":LIMIT}}"#),
        ),
        (
            "/v1/responses",
            "max_output_tokens",
            r#"{"model":"m","input":"x","max_output_tokens":LIMIT}"#.to_owned(),
        ),
        (
            "/v1/completions",
            "max_tokens",
            r#"{"model":"m","prompt":"x","max_tokens":LIMIT}"#.to_owned(),
        ),
        (
            "/v1beta/models/m:generateContent",
            "generationConfig",
            format!(r#"{{{contents},"generationConfig":{{"maxOutputTokens":LIMIT}}}}"#),
        ),
        (
            "/api/chat",
            "options",
            format!(r#"{{"model":"m",{messages},"options":{{"num_predict":LIMIT}}}}"#),
        ),
    ] {
        for (own, sent) in [("100", "3000"), ("3000", "3000"), ("5000", "5000")] {
            let base = Raw::new(vec![super::routes::plain("x")]).await;
            let proxy = with_least(&base, "3000").await;
            let body = limit.replace("LIMIT", own);
            let answer = exchange(proxy.addr(), &request(path, "x-a: b", &body)).await;
            let expected = limit.replace("LIMIT", sent);
            base.request(0).of(format!("{path} {own}")).ends(&expected);
            assert_eq!(
                answer.contains(&format!("x-restitch-adapted: {member}\r\n")),
                own != sent,
                "{path} {own}: {answer}"
            );
        }
    }
    let base = Raw::new(vec![super::routes::plain("x")]).await;
    let proxy = with_least(&base, "3000").await;
    exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    base.request(0).ends(ASK_WHOLE);
}

/// The client's own limit is a valid one.
#[tokio::test]
async fn a_raised_limit_that_is_refused_is_withdrawn() {
    let body = r#"{"error":{"message":"max_tokens is too large: 3000. This model supports at most 2048 completion tokens."}}"#;
    let refused = send(format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let base = Raw::new(vec![vec![refused], full("[1, 2]")]).await;
    let proxy = with_least(&base, "3000").await;
    let ask = ASK.replace("\"m\",", "\"m\",\"max_tokens\":100,");
    let answer = exchange(proxy.addr(), &post(&ask)).await;
    answer.begins("HTTP/1.1 200 ");
    answer.lacks("x-restitch-adapted");
    base.request(0).has("\"max_tokens\":3000");
    base.request(1).ends(&ask);
}

/// Of 100 tokens the anchor would take a part.
#[tokio::test]
async fn a_call_for_the_rest_has_room_for_the_text_that_it_repeats() {
    let text = "[\"one\", \"two\", \"three\", \"four\", \"five";
    let base = Raw::new(vec![
        limited(text),
        full(&format!("{text} and more\", \"six\"]")),
    ])
    .await;
    let proxy = base.proxy(Limits::default()).await;
    let ask = ASK.replace("\"m\",", "\"m\",\"max_tokens\":100,");
    let answer = exchange(proxy.addr(), &post(&ask)).await;
    answer.has("\"status\":\"complete\"");
    base.request(0).has("\"max_tokens\":100,");
    // The anchor is the whole text: 37 bytes, at most 19 tokens.
    assert_eq!(text.len(), 37);
    base.request(1).has("\"max_tokens\":119,");
}

/// A document of 20,000 tokens.
fn long_document(number: usize) -> String {
    let rows = (0..1_000).map(|row| {
        let note = format!("{:0>50}", number * 1_000_003 + row * 7919);
        format!("{{\"row\": {row:0>5}.5, \"n\": \"{note}\"}}").replace(": 0", ": 1")
    });
    format!("[{}]", rows.collect::<Vec<_>>().join(", "))
}

const BYTES_PER_TOKEN: usize = 4;

/// Serves one call: the document, or its rest after the repeated anchor, up to the limit of the
/// request.
async fn serve(mut socket: TcpStream, document: &str) {
    let mut read = Vec::new();
    let body = loop {
        let mut buffer = [0; 64 << 10];
        let count = socket.read(&mut buffer).await.unwrap();
        if count == 0 {
            return;
        }
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap().parse::<usize>().unwrap() {
            break serde_json::from_str::<Value>(body).unwrap();
        }
    };
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let anchor = last["content"].as_str().unwrap();
    let anchor = anchor.rsplit_once("<overlap_context>\n");
    let anchor = anchor.and_then(|(_, after)| after.split_once("\n</overlap_context>"));
    let from = anchor.map_or(0, |(anchor, _)| document.find(anchor).unwrap());
    let most = usize::try_from(body["max_tokens"].as_u64().unwrap()).unwrap() * BYTES_PER_TOKEN;
    let text = &document[from..document.len().min(from + most)];
    let is_cut = from + text.len() < document.len();
    let mut out = STREAM.to_owned();
    for part in text.as_bytes().chunks(4 << 10) {
        out += &chunk(std::str::from_utf8(part).unwrap());
    }
    out += &finish(if is_cut { "length" } else { "stop" });
    out += "data: [DONE]\n\n";
    let _ = socket.write_all(out.as_bytes()).await;
    let _ = socket.shutdown().await;
}

/// Returns the calls that answers with a limit of 4,096 tokens need.
async fn calls_for(documents: usize, routes: &str) -> usize {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (calls, current) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, served) = (Arc::clone(&calls), Arc::clone(&current));
    let server = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            serve(socket, &long_document(served.load(Ordering::SeqCst))).await;
        }
    });
    let proxy = with_routes(TestProxy::new(format!("http://{addr}")), &[], routes);
    let proxy = proxy.start().await;
    let ask = json!({"model": "m", "stream": true, "max_tokens": 4096, "messages": [{"role": "user", "content": "x"}]});
    for number in 0..documents {
        current.store(number, Ordering::SeqCst);
        let answer = exchange(proxy.addr(), &post(&ask.to_string())).await;
        let text = text_of(&body_of(&answer).0);
        assert_eq!(text, long_document(number));
    }
    server.abort();
    calls.load(Ordering::SeqCst)
}

/// Without the setting each document of 20,000 tokens takes five calls.
#[tokio::test]
async fn long_documents_with_a_low_limit_take_one_call_each() {
    let length = long_document(0).len() / BYTES_PER_TOKEN;
    assert!((19_000..24_000).contains(&length), "{length}");
    let least = "[[route]]\nmin_output_tokens = 32768\n";
    let documents = if Rows::of("long documents").is_whole() {
        200
    } else {
        20
    };
    let calls = calls_for(documents, least).await;
    assert!(calls <= documents * 11 / 10, "{calls}");
    assert!(calls_for(2, "").await >= 10);
}
