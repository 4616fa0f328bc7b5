//! A tool call that writes a long file, through five kinds of cut in one turn.

use restitch::Limits;
use restitch::internal::relay::{Output, Relay, TransportEnd};
use restitch::internal::wire::Dialect;
use restitch::session::Status;
use serde_json::{Value, json};
use std::time::Duration;

use super::continued::{check_form, events_of};

fn named(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data["type"].as_str().unwrap()
    )
}

fn message_start() -> String {
    named(
        &json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1}}}),
    )
}

fn block(index: u32, block: &Value, deltas: &[Value]) -> String {
    let start =
        named(&json!({"type": "content_block_start", "index": index, "content_block": block}));
    let deltas = deltas.iter().map(|delta| {
        named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    });
    start + &deltas.collect::<String>()
}

fn stop(index: u32) -> String {
    named(&json!({"type": "content_block_stop", "index": index}))
}

fn end(reason: &str) -> String {
    named(
        &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
    ) + &named(&json!({"type": "message_stop"}))
}

/// Parts of some characters, cut at characters.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = (37..rest.len())
            .find(|&at| rest.is_char_boundary(at))
            .unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

/// A source file with quotes, escapes and other languages: no two lines are equal.
fn file() -> String {
    let mut file = String::new();
    let mut number = 0_u64;
    while file.len() < 200_000 {
        number += 1;
        let digest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        file += &format!(
            "    let line_{number} = \"{digest:x} \\\\ \\\"quoted\\\" — {digest} é 水\";\n\tcheck(line_{number}, {});\n",
            digest % 97
        );
    }
    file
}

#[test]
fn the_agents_file_comes_whole() {
    let arguments =
        json!({"path": "src/main.rs", "content": file(), "overwrite": true}).to_string();
    let cut = |nth: usize| {
        (arguments.len() * nth / 6..)
            .find(|&at| arguments.is_char_boundary(at))
            .unwrap()
    };
    let rest = |from: usize, to: usize, anchor: &str| {
        let text = format!("{anchor}{}", &arguments[from..to]);
        let deltas: Vec<_> = parts(&text)
            .iter()
            .map(|part| json!({"type": "text_delta", "text": part}))
            .collect();
        message_start() + &block(0, &json!({"type": "text", "text": ""}), &deltas)
    };
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "The file first."}),
        json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"}),
    ];
    let deltas: Vec<_> = parts(&arguments[..cut(1)])
        .iter()
        .map(|part| json!({"type": "input_json_delta", "partial_json": part}))
        .collect();
    let first = message_start()
        + &block(
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
            &thinking,
        )
        + &stop(0)
        + &block(
            1,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "I will write the file."})],
        )
        + &stop(1)
        + &block(
            2,
            &json!({"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}),
            &deltas,
        );

    let mut relay = Relay::new(Limits::default()).dialect(Dialect::Messages);
    let (mut body, mut now, mut calls) = (Vec::new(), Duration::ZERO, 0);
    let mut outcome = None;
    let mut stream = first + &stop(2) + &end("max_tokens");
    while outcome.is_none() {
        relay.handle_open(now);
        for chunk in stream.as_bytes().chunks(1_000) {
            relay.handle_bytes(now, chunk.to_vec().into());
        }
        // The limit, an error and a premature finish are in the bytes.
        match calls {
            1 => now += Duration::from_secs(60),
            2 => relay.handle_transport_end(now, TransportEnd::Dropped),
            _ => relay.handle_transport_end(now, TransportEnd::Closed),
        }
        if calls == 1 {
            relay.handle_timeout(now);
        }
        let mut anchor = None;
        while let Some(output) = relay.poll_output() {
            match output {
                Output::Bytes(bytes) => body.extend_from_slice(&bytes),
                Output::Call { request, .. } => anchor = request.turn.map(|turn| turn.anchor),
                Output::Done { outcome: done, .. } => outcome = Some(done),
                Output::Event(_) | Output::Usage(_) => {}
            }
        }
        calls += 1;
        if outcome.is_none() {
            let anchor = anchor.expect("the rest is asked for");
            let (from, to) = (cut(calls), cut(calls + 1));
            stream = match calls {
                3 => {
                    rest(from, to, &anchor)
                        + &named(
                            &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                        )
                }
                4 => rest(from, to, &anchor) + &stop(0) + &end("end_turn"),
                5 => rest(from, arguments.len(), &anchor) + &stop(0) + &end("end_turn"),
                _ => rest(from, to, &anchor),
            };
        }
        assert!(calls < 10);
    }
    let body = String::from_utf8(body).unwrap();
    check_form(Dialect::Messages, &body);
    assert_eq!((outcome.unwrap().status(), calls), (Status::Complete, 6));
    let events: Vec<Value> = events_of(Dialect::Messages, &body)
        .iter()
        .map(|(_, data)| serde_json::from_str(data).unwrap())
        .collect();
    let of = |member: &str| -> String {
        events
            .iter()
            .filter_map(|event| event["delta"][member].as_str())
            .collect()
    };
    assert_eq!(of("partial_json"), arguments);
    assert_eq!(
        (of("thinking").as_str(), of("signature").as_str()),
        ("The file first.", "c2lnbmF0dXJl")
    );
    assert_eq!(of("text"), "I will write the file.");
    let calls = events
        .iter()
        .filter(|event| event["content_block"]["type"] == "tool_use");
    assert_eq!(calls.count(), 1);
    assert_eq!(of("stop_reason"), "tool_use");
}
