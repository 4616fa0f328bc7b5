//! The scripted model server, tested through sockets, with expectations written by hand.
#![allow(clippy::unwrap_used, clippy::panic)]

mod wires;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use restitch_sim::{CallKind, ProviderProfile, Script, Server, Sim};
use restitch_testing::case_file::read_rows;
use restitch_testing::says::Says;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const DOCUMENT: &str = r#"{"a": [1, 2, 3], "b": "text"}"#;

async fn serve(script: &str) -> Server {
    Sim::new(DOCUMENT, script.parse().unwrap())
        .bind(LOOPBACK)
        .await
        .unwrap()
}

/// A response, or the part that arrived before the connection ended.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
    /// Whether the body's end arrived: its last chunk, or all of its length.
    whole: bool,
}

impl Got {
    fn read(raw: &[u8]) -> Option<Self> {
        let split = raw.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8(raw[..split].to_vec())
            .unwrap()
            .to_ascii_lowercase();
        let mut rest = &raw[split + 4..];
        let mut body = Vec::new();
        let whole = if let Some((_, length)) = head.split_once("content-length: ") {
            body.extend(rest);
            body.len() == length.lines().next().unwrap().parse::<usize>().unwrap()
        } else {
            loop {
                let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else {
                    break false;
                };
                let size =
                    usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
                rest = &rest[line + 2..];
                if size == 0 {
                    assert_eq!(rest, b"\r\n");
                    break true;
                }
                body.extend(&rest[..size.min(rest.len())]);
                rest = rest.get(size + 2..).unwrap_or_default();
            }
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Self {
            status,
            head,
            body: String::from_utf8(body).unwrap(),
            whole,
        })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the payloads of a stream's events; every event must be complete.
    fn events(&self) -> Vec<&str> {
        let events = self.body.split_terminator("\n\n");
        assert!(
            self.body.is_empty() || self.body.ends_with("\n\n"),
            "{self:?}"
        );
        events
            .map(|event| event.strip_prefix("data: ").unwrap())
            .collect()
    }

    /// Returns a stream's text, and its ends: each finish, `error` or `[DONE]`, then `whole` or
    /// `dropped`.
    fn summary(&self) -> (String, String) {
        let mut text = String::new();
        let mut end = Vec::new();
        for event in self.events() {
            if event == "[DONE]" {
                end.push(event.to_owned());
                continue;
            }
            let event: Value = serde_json::from_str(event).unwrap();
            if event.get("error").is_some() {
                end.push("error".into());
            }
            text.push_str(
                event
                    .pointer("/choices/0/delta/content")
                    .and_then(Value::as_str)
                    .unwrap_or(""),
            );
            end.extend(
                event
                    .pointer("/choices/0/finish_reason")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
        end.push(if self.whole { "whole" } else { "dropped" }.into());
        (text, end.join(" "))
    }
}

fn request(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer secret\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len(),
    )
}

/// Sends a request for a chat completion.
async fn begin(server: &Server, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    let request = request("/v1/chat/completions", body);
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Sends bytes and reads until the server closes. `None` if there was no response.
async fn exchange(server: &Server, request: &str) -> Option<Got> {
    let talk = async {
        let mut socket = TcpStream::connect(server.addr()).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut raw = Vec::new();
        socket.read_to_end(&mut raw).await.unwrap();
        Got::read(&raw)
    };
    timeout(Duration::from_secs(30), talk).await.unwrap()
}

async fn post(server: &Server, body: &Value) -> Got {
    exchange(server, &request("/v1/chat/completions", body))
        .await
        .unwrap()
}

fn first(stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "a document"}]})
}

fn continuation(delivered: &str, anchor: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [
        {"role": "user", "content": "a document"},
        {"role": "assistant", "content": delivered},
        {"role": "user", "content": format!("Go on, please.\n<overlap_context>\n{anchor}\n</overlap_context>\n")},
    ]})
}

#[tokio::test]
async fn answers_and_their_ends() {
    let rows: Vec<(String, String, String)> = read_rows("answers.rows");
    assert_eq!(rows.len(), 43);
    for (script, text, end) in rows {
        let (ask, script) = if script.starts_with('|') {
            let delivered = "```json\n{\"a\": [1,";
            (
                continuation(delivered, r#""a": [1,"#, true),
                format!("answer@9 {script}"),
            )
        } else {
            (first(true), script)
        };
        let got = post(&serve(&script).await, &ask).await;
        assert_eq!(got.summary(), (text, end), "{script}");
        let role = r#""delta":{"role":"assistant","content":""}"#;
        assert_eq!(got.events()[0].matches(role).count(), 1, "{script}");
    }
}

/// An anchor ends before the white space at the cut; a model that repeats the anchor writes that
/// white space again.
#[tokio::test]
async fn a_repeated_anchor_reaches_the_cut() {
    let server = serve("| anchor@2").await;
    let got = post(
        &server,
        &continuation(r#"{"a": [1, "#, r#"{"a": [1,"#, true),
    )
    .await;
    assert_eq!(got.summary().0, r#"{"a": [1, 2,"#);
}

#[tokio::test]
async fn a_corrupted_continuation_gets_an_error_that_names_the_difference() {
    let server = serve("").await;
    let cases = [
        (
            r#"{"a": [1, 1"#,
            "[1, 1",
            r#"at byte 10 it has "1" instead of "2, 3], \"b\": \"text\"}""#,
        ),
        (
            r#"{"a": [1, 2"#,
            "[1, 3",
            "the overlap context is not the end of the delivered text",
        ),
    ];
    for (delivered, anchor, message) in cases {
        let got = post(&server, &continuation(delivered, anchor, true)).await;
        assert_eq!(got.status, 422);
        let error = got.json();
        error["error"]["message"].as_str().unwrap().has(message);
    }
    assert!(
        server
            .calls()
            .iter()
            .all(|call| call.kind == CallKind::Other && call.step.is_none())
    );
}

#[tokio::test]
async fn statuses() {
    let server = serve("429~2 500 400").await;
    let got = post(&server, &first(true)).await;
    assert_eq!((got.status, got.whole), (429, true));
    got.head.has("retry-after: 2\r\n");
    assert_eq!(
        got.json(),
        json!({"error": {
            "message": "The script says 429.", "type": "requests", "param": null, "code": "rate_limit_exceeded",
        }}),
    );
    let got = post(&server, &first(false)).await;
    assert_eq!(got.status, 500);
    assert_eq!(got.json()["error"]["type"], "server_error");
    got.head.lacks("retry-after");
    assert_eq!(post(&server, &first(true)).await.status, 400);
    // The steps start over.
    assert_eq!(post(&server, &first(true)).await.status, 429);
}

#[tokio::test]
async fn no_response_sends_nothing() {
    let server = serve("no-response").await;
    assert!(
        exchange(&server, &request("/v1/chat/completions", &first(true)))
            .await
            .is_none()
    );
    assert_eq!(server.calls()[0].status, None);
}

#[tokio::test]
async fn a_stall_lasts_until_the_peer_leaves() {
    for stream in [true, false] {
        let server = serve("answer@9!stall").await;
        let mut socket = begin(&server, &first(stream)).await;
        let mut raw = Vec::new();
        // The server sends the role and the one delta, or the first half of the body.
        let sent = |got: &Got| match got.head.split_once("content-length: ") {
            None => got.body.matches("\n\n").count() == 2,
            Some((_, length)) => {
                got.body.len() == length.lines().next().unwrap().parse::<usize>().unwrap() / 2
            }
        };
        while !Got::read(&raw).as_ref().is_some_and(sent) {
            assert_ne!(
                timeout(Duration::from_secs(30), socket.read_buf(&mut raw))
                    .await
                    .unwrap()
                    .unwrap(),
                0
            );
        }
        assert!(!Got::read(&raw).unwrap().whole);
        assert_eq!(server.open(), 1);
        drop(socket);
        timeout(Duration::from_secs(30), server.idle())
            .await
            .unwrap();
    }
}

/// The answer is cut after exactly this many bytes of its body, and they all arrive.
#[tokio::test]
async fn a_reset_at_every_byte() {
    let whole = post(&serve("answer@9").await, &first(true)).await.body;
    for bytes in 0..whole.len() + 2 {
        let server = serve(&format!("answer@9!drop={bytes}")).await;
        let got = post(&server, &first(true)).await;
        assert_eq!(got.body, whole[..bytes.min(whole.len())]);
        assert_eq!(got.whole, bytes > whole.len(), "{bytes}");
    }
}

/// Bytes that the server sent before a drop arrive, even when the peer reads late and the socket's
/// buffers are full.
#[tokio::test]
async fn a_drop_loses_nothing_that_was_sent() {
    let document = format!("[\"{}\"]", "x".repeat(16 << 20));
    let sim = Sim::new(document.as_str(), "answer!drop".parse().unwrap()).chunk(1 << 14);
    let server = sim.bind(LOOPBACK).await.unwrap();
    let mut socket = begin(&server, &first(true)).await;
    server.received(1).await;
    assert_eq!(server.open(), 1);
    let mut raw = Vec::new();
    timeout(Duration::from_secs(30), socket.read_to_end(&mut raw))
        .await
        .unwrap()
        .unwrap();
    let got = Got::read(&raw).unwrap();
    let (text, end) = got.summary();
    assert!(text == document);
    assert_eq!(end, "dropped");
}

#[tokio::test]
async fn answers_as_one_body() {
    // Like a dropped answer, it has no finish.
    let whole = post(&serve("answer!eof").await, &first(false)).await.body;
    for (script, sent) in [
        ("answer!drop", whole.len() / 2),
        ("answer!drop=7", 7),
        ("drop", 0),
    ] {
        let got = post(&serve(script).await, &first(false)).await;
        assert_eq!((got.status, got.whole), (200, false), "{script}");
        assert_eq!(got.body, whole[..sent], "{script}");
    }
    let got = post(&serve("answer!error").await, &first(false)).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.json()["error"]["type"], "server_error");

    let got = post(
        &serve("| exact@3").await,
        &continuation(r#"{"a": [1,"#, "[1,", false),
    )
    .await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], " 2,");
}

/// Each conversation has its own place in the script, and a prompt may have a script of its own.
#[tokio::test]
async fn conversations_are_independent() {
    let server = serve("answer@2 answer@4 | refusal exact@1").await;
    let ask =
        |prompt: &str| json!({"stream": true, "messages": [{"role": "user", "content": prompt}]});
    let more = |prompt: &str| {
        let mut body = continuation(r#"{""#, r#"{""#, true);
        body["messages"][0]["content"] = prompt.into();
        body
    };
    let refusal = "I'm sorry, but I can't help with that.";
    let steps = [
        (ask("one"), r#"{""#),
        (ask("two"), r#"{""#),
        (more("one"), refusal),
        (more("one"), "a"),
        (more("one"), "a"),
        (more("two"), refusal),
        (ask("one"), r#"{"a""#),
        (more("one"), refusal),
        (ask("one"), r#"{""#),
        (ask("[[script: empty prose | anchor@2]]"), ""),
        (more("[[script: empty prose | anchor@2]]"), r#"{"a""#),
    ];
    for (at, (body, text)) in steps.iter().enumerate() {
        assert_eq!(post(&server, body).await.summary().0, *text, "step {at}");
    }
    let got = post(&server, &ask("[[script: answer@x]]")).await;
    assert_eq!(got.status, 400);
    assert_eq!(
        got.json()["error"]["message"],
        "the prompt's script: `x` is not a number that fits (byte 8)"
    );
}

#[tokio::test]
async fn other_paths_and_bad_requests() {
    let server = serve("").await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n\r\n");
    let got = exchange(&server, &get("/healthz")).await.unwrap();
    assert_eq!((got.status, got.json()), (200, json!({"status": "ok"})));
    let got = exchange(&server, &get("/v1/models")).await.unwrap();
    assert_eq!(got.json()["data"][0]["id"], "sim");
    let got = exchange(&server, &get("/v1/chat/completions"))
        .await
        .unwrap();
    assert_eq!(got.status, 404);
    assert_eq!(got.json()["error"]["type"], "invalid_request_error");
    assert_eq!(
        exchange(&server, &request("/v1/embeddings", &json!({})))
            .await
            .unwrap()
            .status,
        404
    );
    for body in [
        json!({}),
        json!({"messages": []}),
        json!({"messages": "x"}),
        json!([1]),
    ] {
        assert_eq!(post(&server, &body).await.status, 400, "{body}");
    }
    let broken = "POST /chat/completions HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{";
    assert_eq!(exchange(&server, broken).await.unwrap().status, 400);
    assert_eq!(server.calls().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn events_are_delayed() {
    let sim = Sim::new(DOCUMENT, Script::default())
        .chunk(10)
        .delay(Duration::from_secs(1));
    let server = sim.bind(LOOPBACK).await.unwrap();
    let start = tokio::time::Instant::now();
    let got = post(&server, &first(true)).await;
    // The role, three deltas, the finish and `[DONE]`.
    assert_eq!(got.events().len(), 6);
    assert!(start.elapsed() >= Duration::from_secs(5));
}

#[tokio::test]
async fn a_server_ends_when_it_is_shut_down() {
    let server = serve("answer!stall").await;
    let addr = server.addr();
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket
        .write_all(request("/v1/chat/completions", &first(true)).as_bytes())
        .await
        .unwrap();
    server.received(1).await;
    timeout(Duration::from_secs(30), server.serve_until(async {}))
        .await
        .unwrap();
    timeout(Duration::from_secs(30), socket.read_to_end(&mut Vec::new()))
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(addr).await.is_err());
}

async fn with_profile(profile: ProviderProfile, script: &str) -> Server {
    let sim = Sim::new(DOCUMENT, script.parse().unwrap()).profile(profile);
    sim.bind(LOOPBACK).await.unwrap()
}

/// Returns a request whose last message is the assistant's, with the members of `message` and
/// `body` added.
fn prefixed(delivered: &str, message: &Value, body: &Value) -> Value {
    let merged = |mut into: Value, from: &Value| {
        into.as_object_mut()
            .unwrap()
            .extend(from.as_object().unwrap().clone());
        into
    };
    let last = merged(json!({"role": "assistant", "content": delivered}), message);
    let messages = json!([{"role": "user", "content": "a document"}, last]);
    merged(
        json!({"model": "m", "stream": true, "messages": messages}),
        body,
    )
}

/// Prefills that the proxy does not send: it asks each profile as its row says.
#[tokio::test]
async fn profiles_continue_or_reject_a_prefill() {
    let none = json!({});
    let both = json!({"continue_final_message": true});
    let thinks = json!({"chat_template_kwargs": {"enable_thinking": true}});
    let v1 = "/v1/chat/completions";
    for (profile, path, message, body, expected) in [
        // It answers from the start.
        (ProviderProfile::OpenAi, v1, &none, &none, Ok(DOCUMENT)),
        (ProviderProfile::Partial, v1, &none, &none, Ok(DOCUMENT)),
        (
            ProviderProfile::Vllm,
            v1,
            &none,
            &both,
            Err("Cannot set both"),
        ),
        (
            ProviderProfile::LlamaCpp,
            v1,
            &none,
            &thinks,
            Err("prefill is incompatible with enable_thinking"),
        ),
    ] {
        let server = with_profile(profile, "answer | anchor").await;
        let asked = prefixed(r#"{"a": [1, 2"#, message, body);
        let got = exchange(&server, &request(path, &asked)).await.unwrap();
        match expected {
            Ok(text) => assert_eq!(
                got.summary(),
                (text.to_owned(), "stop [DONE] whole".into()),
                "{profile:?} {asked}"
            ),
            Err(words) => {
                assert_eq!(got.status, 400, "{profile:?} {asked}");
                got.body.of(profile).has(words);
                got.json();
            }
        }
    }
}

#[tokio::test]
async fn profiles_reject_other_requests() {
    let names = ProviderProfile::ALL.iter().map(|profile| profile.name());
    assert_eq!(
        names.collect::<Vec<_>>().join(" "),
        "openai anthropic anthropic-4.6 gemini gemini-3.6 gemini-3.8 deepseek mistral partial vllm llama.cpp perplexity"
    );
    // A prefill that is not the document's gets an error message.
    let server = with_profile(ProviderProfile::Gemini, "").await;
    let wrong = prefixed("{\"b", &json!({}), &json!({}));
    assert_eq!(post(&server, &wrong).await.status, 422);
}

#[tokio::test]
async fn reasoning_ends_where_it_is_turned_off() {
    let server = serve("reasoning").await;
    let got = post(&server, &first(true)).await;
    assert_eq!(got.summary(), (String::new(), "length [DONE] whole".into()));
    assert_eq!(got.body.matches("reasoning_content").count(), 1);
    let body = post(&server, &first(false)).await.json();
    let message = &body["choices"][0]["message"];
    assert!(
        message["reasoning_content"]
            .as_str()
            .is_some_and(|reasoning| !reasoning.is_empty()),
        "{body}"
    );
    assert_eq!(message["content"].as_str(), Some(""));
    assert_eq!(body["choices"][0]["finish_reason"].as_str(), Some("length"));
    for off in [
        json!({"thinking": {"type": "disabled"}}),
        json!({"reasoning": {"enabled": false}}),
        json!({"reasoning_effort": "none"}),
    ] {
        let mut asked = first(true);
        asked
            .as_object_mut()
            .unwrap()
            .extend(off.as_object().unwrap().clone());
        assert_eq!(
            post(&server, &asked).await.summary(),
            (DOCUMENT.to_owned(), "stop [DONE] whole".into()),
            "{off}"
        );
    }
}
