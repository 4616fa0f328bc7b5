//! Upstreams that compress although the request asked for `identity`.

use compression_codecs::core::Level;
use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::{BrotliEncoder, EncodeV2, GzipEncoder, ZstdEncoder};
use restitch::Limits;
use serde_json::Value;

use super::raw::*;

const ENCODINGS: [&str; 4] = ["gzip", "x-gzip", "br", "zstd"];

/// Returns `pieces` compressed, each flushed as a server does with events.
pub(super) fn encoded(encoding: &str, pieces: &[&str]) -> Vec<Vec<u8>> {
    let mut encoder: Box<dyn EncodeV2> = match encoding {
        "gzip" | "x-gzip" => Box::new(GzipEncoder::new(Level::Default.into())),
        "br" => Box::new(BrotliEncoder::new(Default::default())),
        "zstd" => Box::new(ZstdEncoder::new(3)),
        _ => panic!("{encoding}"),
    };
    let mut room = vec![0; 1 << 20];
    let mut all = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut output = WriteBuffer::new_initialized(&mut room);
        encoder
            .encode(&mut PartialBuffer::new(piece.as_bytes()), &mut output)
            .unwrap();
        while !encoder.flush(&mut output).unwrap() {}
        if number + 1 == pieces.len() {
            while !encoder.finish(&mut output).unwrap() {}
        }
        all.push(output.written().to_vec());
    }
    all
}

fn head(encoding: &str, media_type: &str) -> Piece {
    send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-encoding: {encoding}\r\nconnection: close\r\n\r\n"
    ))
}

fn answer(encoding: &str, pieces: &[&str]) -> Vec<Piece> {
    let body = encoded(encoding, pieces).into_iter().map(Piece::Send);
    std::iter::once(head(encoding, "text/event-stream"))
        .chain(body)
        .collect()
}

/// A cut answer is continued, and the client gets plain text: the proxy has replaced the client's
/// `accept-encoding`.
#[tokio::test]
async fn a_compressed_stream_is_made_whole() {
    for encoding in ENCODINGS {
        let first = answer(encoding, &[&chunk("[1, "), &chunk("2"), &finish("length")]);
        let second = answer(encoding, &[&chunk("[1, 20"), &chunk("]"), &finish("stop")]);
        let raw = Raw::new(vec![first, second]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let seen = exchange(proxy.addr(), &post(ASK)).await;
        seen.of(encoding).lacks("content-encoding");
        let (body, whole) = body_of(&seen);
        assert!(whole, "{encoding}: {body}");
        body.of(encoding).begins(chunk("[1, ") + &chunk("2"));
        body.of(encoding).has("\"status\":\"complete\"");
        body.of(encoding).ends("data: [DONE]\n\n");
        assert_eq!(raw.asked(), 2, "{encoding}");
    }
}

/// Bytes that an upstream has flushed reach the client before the upstream sends more.
#[tokio::test]
async fn a_compressed_stream_is_not_delayed() {
    for encoding in ENCODINGS {
        let pieces = encoded(encoding, &[&chunk("[1]"), &finish("stop")]);
        let go = std::sync::Arc::new(tokio::sync::Notify::new());
        let answer = vec![
            head(encoding, "text/event-stream"),
            Piece::Send(pieces[0].clone()),
            Piece::Await(go.clone()),
            Piece::Send(pieces[1].clone()),
        ];
        let raw = Raw::new(vec![answer]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let mut client = connect(proxy.addr()).await;
        tokio::io::AsyncWriteExt::write_all(&mut client, post(ASK).as_bytes())
            .await
            .unwrap();
        read_until(&mut client, &chunk("[1]")).await;
        go.notify_one();
        read_until(&mut client, &finish("stop")).await;
    }
}

/// A compressed stream that breaks off, or is not compressed at all, counts as a lost connection:
/// the rest is asked for.
#[tokio::test]
async fn a_compressed_stream_that_breaks_off_is_a_drop() {
    for encoding in ENCODINGS {
        let mut pieces = encoded(encoding, &[&chunk("[1, "), &chunk("2"), &finish("length")]);
        pieces.truncate(2);
        let mut torn = vec![head(encoding, "text/event-stream")];
        torn.extend(pieces.into_iter().map(Piece::Send));
        let wrong = vec![head(encoding, "text/event-stream"), send(chunk("[1, 2"))];
        for (first, end) in [
            (torn, "\"status\":\"complete\""),
            (wrong, "data: [DONE]\n\n"),
        ] {
            let rest = chunk("[1, 20]") + &finish("stop");
            let raw = Raw::new(vec![first, stream(&rest)]).await;
            let proxy = raw.proxy(Limits::default()).await;
            let (body, whole) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
            assert!(whole, "{encoding}: {body}");
            body.of(encoding).has(end);
            assert_eq!(raw.asked(), 2, "{encoding}");
        }
    }
}

#[tokio::test]
async fn a_compressed_whole_answer_is_made_whole() {
    let cut = r#"{"choices":[{"index":0,"message":{"content":"[1, 2"},"finish_reason":"length"}]}"#;
    let rest =
        r#"{"choices":[{"index":0,"message":{"content":"[1, 20]"},"finish_reason":"stop"}]}"#;
    for encoding in ENCODINGS {
        let whole = |body: &str| {
            let body = encoded(encoding, &[body]).concat();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            vec![send(head), Piece::Send(body)]
        };
        let raw = Raw::new(vec![whole(cut), whole(rest)]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let seen = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
        let (body, is_whole) = body_of(&seen);
        assert!(is_whole, "{encoding}: {seen}");
        seen.of(encoding).lacks("content-encoding");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            body["choices"][0]["message"]["content"], "[1, 20]",
            "{encoding}"
        );
        assert_eq!(body["restitch"]["status"], "complete", "{encoding}");
    }
}

/// A megabyte that repeats a letter compresses to a thousand bytes, so both the decoded pieces and
/// the reads of a body have a cap.
#[tokio::test]
async fn a_small_body_that_unpacks_to_a_large_one_is_streamed() {
    let text = "a".repeat(1 << 20);
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"content":"[\"{text}"}},"finish_reason":"length"}}]}}"#
    );
    for encoding in ENCODINGS {
        let mut answer = vec![head(encoding, "application/json")];
        answer.extend(encoded(encoding, &[&body]).into_iter().map(Piece::Send));
        let raw = Raw::new(vec![answer]).await;
        let proxy = raw
            .proxy(Limits::default().with_max_event_bytes(1000))
            .await;
        let (seen, whole) = body_of(&exchange(proxy.addr(), &post(ASK_WHOLE)).await);
        assert!(whole && seen == body, "{encoding}: {} bytes", seen.len());
    }
}

/// Answers that would not be continued pass compressed.
#[tokio::test]
async fn other_compressed_answers_pass_unchanged() {
    for encoding in ENCODINGS {
        let error = encoded(encoding, &[r#"{"error":{"message":"no"}}"#]).concat();
        let head = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n\
             content-length: {}\r\n\r\n",
            error.len()
        );
        let raw = Raw::new(vec![vec![send(head.clone()), Piece::Send(error.clone())]]).await;
        let proxy = raw.proxy(Limits::default()).await;
        let mut client = connect(proxy.addr()).await;
        tokio::io::AsyncWriteExt::write_all(&mut client, post(ASK).as_bytes())
            .await
            .unwrap();
        let mut seen = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut client, &mut seen)
            .await
            .unwrap();
        assert!(seen.ends_with(&error), "{encoding}");
        String::from_utf8_lossy(&seen).has(format!("content-encoding: {encoding}\r\n"));
    }
}
