//! Streams of events whose content type names something else, and answers that are none.

use std::time::Duration;

use restitch::Limits;

use super::encoded::encoded;
use super::raw::*;

/// Returns the head of an answer. `media_type`: empty for none.
fn head(media_type: &str) -> String {
    let line = if media_type.is_empty() {
        String::new()
    } else {
        format!("content-type: {media_type}\r\n")
    };
    format!("HTTP/1.1 200 OK\r\n{line}connection: close\r\n\r\n")
}

const OTHER_TYPES: [&str; 7] = [
    "",
    "text/plain; charset=utf-8",
    "application/json",
    "application/octet-stream",
    "application/x-ndjson",
    "text/html",
    "no type at all",
];

#[tokio::test]
async fn events_with_another_content_type_are_made_whole() {
    for first in OTHER_TYPES {
        for second in [first, "text/event-stream"] {
            for types in [[first, second], [second, first]] {
                let cut = head(types[0]) + &chunk("[1, ") + &chunk("2") + &finish("length");
                let rest = head(types[1])
                    + ": comment\n\n"
                    + &chunk("[1, 20")
                    + &chunk("]")
                    + &finish("stop");
                let raw = Raw::new(vec![vec![send(cut)], vec![send(rest)]]).await;
                let proxy = raw.proxy(Limits::default()).await;
                let seen = exchange(proxy.addr(), &post(ASK)).await;
                seen.of(types)
                    .has("\r\ncontent-type: text/event-stream\r\n");
                let (body, is_whole) = body_of(&seen);
                assert!(is_whole, "{types:?}: {body}");
                body.of(types).begins(chunk("[1, ") + &chunk("2"));
                body.of(types).has("\"status\":\"complete\"");
                body.of(types).has("\"0\"");
                assert_eq!(raw.asked(), 2, "{types:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_first_bytes_may_come_one_by_one_and_compressed() {
    let cut = format!("\u{feff}\r\n\n{}{}", chunk("[1, 2"), finish("length"));
    let rest = chunk("[1, 20") + &chunk("]") + &finish("stop");
    let (start, end) = cut.as_bytes().split_at(20);
    let bytes =
        std::iter::once(send(head("text/plain"))).chain(start.iter().map(|byte| send([*byte])));
    let plain: Vec<Piece> = bytes.chain([send(end)]).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    let packed = encoded("gzip", &["\u{feff}", "\r\n\nda", &cut[8..]]);
    let packed = std::iter::once(send(head))
        .chain(packed.into_iter().map(Piece::Send))
        .collect();
    for first in [plain, packed] {
        let raw = Raw::new(vec![first, stream(&rest)]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let (body, is_whole) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
        assert!(is_whole, "{body}");
        body.begins(&cut[..cut.len() - finish("length").len()]);
        body.has("\"status\":\"complete\"");
    }
}

/// Its content type alone would make the answer an array.
#[tokio::test]
async fn events_of_gemini_with_the_content_type_of_arrays_are_made_whole() {
    let event = |text: &str, reason: &str| {
        let part = format!("{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}{reason}}}");
        format!("data: {{\"candidates\":[{part}]}}\r\n\r\n")
    };
    let cut = head("application/json")
        + &event("[1, ", "")
        + &event("2", ",\"finishReason\":\"MAX_TOKENS\"");
    let rest = head("application/json") + &event("[1, 20]", ",\"finishReason\":\"STOP\"");
    let raw = Raw::new(vec![vec![send(cut)], vec![send(rest)]]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let ask = post(r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}]}"#);
    let ask = ask.replace(
        "/v1/chat/completions",
        "/v1beta/models/g:streamGenerateContent?alt=sse",
    );
    let (body, is_whole) = body_of(&exchange(proxy.addr(), &ask).await);
    assert!(is_whole, "{body}");
    body.has("\"status\":\"complete\"");
    assert_eq!(raw.asked(), 2);
}

#[tokio::test]
async fn what_is_no_stream_of_its_api_passes_and_the_log_says_why() {
    for (media_type, body, first) in [
        ("text/plain", "canary-text", "text"),
        ("", "internal canary-text", "text"),
        ("text/html", "<p>canary-text</p>", "markup"),
        ("application/json", "{\"choices\": [\"canary-text", "json"),
        (
            "application/x-ndjson",
            "{\"message\": \"canary-text\"}\n{\"done\": true}\n",
            "json",
        ),
        (
            "application/octet-stream",
            "\u{1}\u{2}canary-text",
            "binary",
        ),
        ("text/plain", "", "blank"),
        ("text/plain", "data", "text"),
    ] {
        let (log, _listening) = listening();
        let raw = Raw::new(vec![vec![send(head(media_type) + body)]]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let seen = exchange(proxy.addr(), &post(ASK)).await;
        seen.of(media_type).begins("HTTP/1.1 200 OK\r\n");
        assert_eq!(
            seen.contains("content-type"),
            !media_type.is_empty(),
            "{seen}"
        );
        assert_eq!(body_of(&seen), (body.to_owned(), true), "{media_type}");
        assert_eq!(raw.asked(), 1, "{media_type}");
        let log = log.text();
        let why = format!("first=\"{first}\"");
        log.of(media_type).has("it is not a stream of its API");
        log.of(media_type).has(&why);
        assert!(
            media_type.is_empty() || log.contains(&format!("content_type=\"{media_type}\"")),
            "{log}"
        );
        log.lacks("canary");
    }
}

#[tokio::test]
async fn a_body_without_a_first_line_is_late() {
    let mut limits = Limits::default();
    limits.transport.first_byte_timeout = Duration::from_millis(50);
    limits.transport.idle_timeout = Duration::from_millis(50);
    for body in ["", "\n\nda"] {
        let raw = Raw::new(vec![vec![send(head("text/plain") + body), Piece::Hold]]).await;
        let proxy = raw.proxy(limits.clone()).await;
        let seen = exchange(proxy.addr(), &post(ASK)).await;
        seen.of(body).begins("HTTP/1.1 504 ");
        seen.of(body).has("first_byte_timeout");
        raw.wait(|state| state.left == 1).await;
    }
}
