//! Readers of the streams and bodies of every wire.

use restitch::Limits;
use restitch::internal::chat::Transcript;
use restitch::provider::Dialect;
use restitch::sse::Decoder;

/// Reads a whole body.
pub fn read_body(dialect: Dialect, body: &str) -> Transcript {
    let mut whole = Transcript::default();
    assert!(
        dialect
            .wire()
            .read_body(body, &mut |delta| whole.push(&delta)),
        "{body}"
    );
    whole
}

/// Divides a stream into events, each with its name.
pub fn events(dialect: Dialect, stream: &[u8]) -> Vec<(String, String)> {
    if dialect == Dialect::Ollama {
        let text = String::from_utf8(stream.to_vec()).unwrap();
        assert!(text.ends_with('\n') || text.is_empty(), "{text}");
        return text
            .lines()
            .map(|line| ("message".to_owned(), line.to_owned()))
            .collect();
    }
    let (mut decoder, mut rest, mut events) =
        (Decoder::new(&Limits::default()), stream, Vec::new());
    while let Some(event) = decoder.next_event(&mut rest).unwrap() {
        events.push((event.event.into_owned(), event.data.into_owned()));
    }
    assert_eq!(decoder.finish(), Ok(None), "an event has no end");
    events
}

/// Reads a whole stream.
pub fn transcript(dialect: Dialect, stream: &[u8]) -> Transcript {
    let (mut reader, mut whole) = (dialect.wire().reader(), Transcript::default());
    for (event_type, data) in events(dialect, stream) {
        let is_json = serde_json::from_str::<serde_json::Value>(&data).is_ok();
        assert!(is_json || data == "[DONE]", "{data}");
        reader.read(&event_type, &data, &mut |delta| whole.push(&delta));
    }
    whole
}
