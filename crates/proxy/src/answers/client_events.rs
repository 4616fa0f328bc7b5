//! The events of the stream that a client gets. The stream is divided into them once, for the page
//! and the store together.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::ListedAnswer;
use restitch::Limits;
use restitch::internal::wire::{Framed, Framing, Reader};
use restitch::provider::Dialect;
use restitch::sse::{Encoder, Event};

/// Bytes for the client, and the events that end in them.
#[derive(Debug, Default)]
pub(in super::super) struct ClientChunk {
    pub(in super::super) bytes: Bytes,
    /// The events for the store. Empty for an answer that is not kept.
    pub(in super::super) events: Vec<Bytes>,
    /// The limit that a line or an event after them exceeds: no further event can be read.
    pub(in super::super) limit: Option<&'static str>,
}

impl From<Bytes> for ClientChunk {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl From<ClientChunk> for Bytes {
    fn from(chunk: ClientChunk) -> Self {
        chunk.bytes
    }
}

/// A reader of the events of a client's stream.
pub(super) struct ClientEvents {
    decoder: Framed,
    /// `None`: the page does not read the answer.
    text: Option<TextReader>,
    /// The answer is kept: the events are for the store, too.
    pub(super) is_kept: bool,
    /// The stream can't be decoded any further.
    is_over: bool,
}

impl ClientEvents {
    pub(super) fn new(framing: Framing, text: Option<TextReader>, limits: &Limits) -> Self {
        Self {
            decoder: Framed::new(framing, limits),
            text,
            is_kept: false,
            is_over: false,
        }
    }

    /// Reads bytes of the stream.
    pub(super) fn push(&mut self, bytes: Bytes) -> ClientChunk {
        let (mut events, mut limit) = (Vec::new(), None);
        let mut input = &bytes[..];
        while !self.is_over {
            match self.decoder.next_event(&mut input) {
                Ok(Some(event)) => {
                    self.text.iter_mut().for_each(|text| text.read(&event));
                    if self.is_kept {
                        events.push(kept(&event));
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    // The client still gets the bytes: it may take longer lines than the proxy.
                    (self.is_over, limit) = (true, Some(error.kind.limit()));
                    self.text.iter().for_each(|text| text.page.end_unread());
                }
            }
        }
        ClientChunk {
            bytes,
            events,
            limit,
        }
    }

    /// Returns the kept event that ends with the stream, if there is one: several servers send no
    /// blank line after the last event.
    pub(super) fn finish(&mut self) -> Option<ClientChunk> {
        let last = self.decoder.finish().ok().flatten();
        let last = last.filter(|_| self.is_kept)?;
        Some(ClientChunk {
            events: vec![kept(&last)],
            ..ClientChunk::default()
        })
    }
}

/// Reads the text for the page.
pub(super) struct TextReader {
    reader: Box<dyn Reader>,
    page: Arc<ListedAnswer>,
}

impl TextReader {
    pub(super) fn new(dialect: Dialect, page: Arc<ListedAnswer>) -> Self {
        Self {
            reader: dialect.wire().reader(),
            page,
        }
    }

    fn read(&mut self, event: &Event<'_>) {
        self.reader.read(&event.event, &event.data, &mut |delta| {
            self.page.add(&delta);
        });
    }
}

/// Returns an event as the store keeps it: the lines with its type and its data, without the blank
/// line that ends it, so that the id can be written as the last line. Leaves out comments: they only
/// keep a stream alive, and each reader gets its own.
fn kept(event: &Event<'_>) -> Bytes {
    let mut lines = Vec::with_capacity(event.data.len() + LINES);
    // The default of an event without a type.
    let of_type = Some(&*event.event).filter(|of_type| *of_type != "message");
    Encoder::event(&mut lines, of_type, None, &event.data);
    lines.pop();
    lines.into_boxed_slice().into()
}

/// The bytes of most events beside their data: the names of the fields, and the type.
const LINES: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use restitch::ServerLimits;
    use restitch::internal::relay::{Output, Relay, TransportEnd};
    use restitch::internal::work::BYTES_FRAMED;

    use super::super::AnswerList;
    use super::*;
    use crate::error_redactor::ErrorRedactor;
    use crate::record::SharedRecord;

    fn reader(limits: &Limits, text: Option<TextReader>) -> ClientEvents {
        let mut events = ClientEvents::new(Framing::Events, text, limits);
        events.is_kept = true;
        events
    }

    fn pushed(events: &mut ClientEvents, chunk: &[u8]) -> Vec<Bytes> {
        let chunk = events.push(Bytes::copy_from_slice(chunk));
        assert_eq!(chunk.limit, None);
        chunk.events
    }

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut reader = reader(&Limits::default(), None);
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(pushed(&mut reader, chunk));
        }
        events.extend(reader.finish().into_iter().flat_map(|last| last.events));
        events
            .iter()
            .map(|event| String::from_utf8_lossy(event).into_owned())
            .collect()
    }

    #[test]
    fn events_are_the_same_however_they_are_chunked() {
        for (stream, expected) in [
            ("data: a\n\ndata: b\n\n", vec!["data: a\n", "data: b\n"]),
            (
                "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n",
                vec!["event: x\ndata: a\n", "data: b\n"],
            ),
            ("data: a\r\rdata: b\r\r", vec!["data: a\n", "data: b\n"]),
            (
                ": hello\n\ndata: a\n\n: ping\n\n: ping\n\ndata: b\n\n: end\n\n",
                vec!["data: a\n", "data: b\n"],
            ),
            (
                "event: ping\n\ndata: a\n\nid: 7\n\ndata: b\n\n",
                vec!["data: a\n", "data: b\n"],
            ),
            (
                "data: a\n:x\ndata: b\n:y\nid: 1\n\n",
                vec!["data: a\ndata: b\n"],
            ),
            (
                "\u{feff}data: a\n\n\n\ndata\n\n",
                vec!["data: a\n", "data: \n"],
            ),
            (
                "data: a\n\ndata: [DONE]",
                vec!["data: a\n", "data: [DONE]\n"],
            ),
            ("data: a\n\ndata: b\n", vec!["data: a\n", "data: b\n"]),
            ("", vec![]),
        ] {
            let bytes = stream.as_bytes();
            assert_eq!(events(&[bytes]), expected, "{stream:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(events(&single), expected, "{stream:?}");
            for at in 0..bytes.len() {
                assert_eq!(
                    events(&[&bytes[..at], &bytes[at..]]),
                    expected,
                    "{stream:?} at {at}"
                );
            }
        }
    }

    #[test]
    fn events_before_a_line_that_is_too_long_are_returned() {
        let chunk = Bytes::from(format!(
            "data: a\n\ndata: b\n\ndata: {}\n\n",
            "x".repeat(100)
        ));
        let chunk = reader(&Limits::default().with_max_line_bytes(50), None).push(chunk);
        assert_eq!(chunk.events, ["data: a\n", "data: b\n"]);
        assert_eq!(chunk.limit, Some("max_line_bytes"));
    }

    /// The readers of an answer: the relay of the upstream's bytes, then the page and the store.
    struct Pipeline {
        relay: Relay,
        client: ClientEvents,
        body: Vec<u8>,
        events: Vec<Bytes>,
        /// The bytes that were framed for the upstream's stream and for the client's.
        framed: [usize; 2],
    }

    impl Pipeline {
        fn new(page: Arc<ListedAnswer>) -> Self {
            let text = TextReader::new(Dialect::Chat, page);
            Self {
                relay: Relay::new(Limits::default()),
                client: reader(&Limits::default(), Some(text)),
                body: Vec::new(),
                events: Vec::new(),
                framed: [0; 2],
            }
        }

        fn read(&mut self, bytes: Bytes) {
            if !bytes.is_empty() {
                self.relay.handle_bytes(Duration::ZERO, bytes);
            }
            self.write();
        }

        fn write(&mut self) {
            self.framed[0] += BYTES_FRAMED.take();
            while let Some(output) = self.relay.poll_output() {
                if let Output::Bytes(bytes) = output {
                    self.body.extend_from_slice(&bytes);
                    self.events.extend(self.client.push(bytes).events);
                }
            }
            self.framed[1] += BYTES_FRAMED.take();
        }
    }

    #[test]
    fn each_byte_is_framed_once_when_it_arrives_and_once_when_it_leaves() {
        let text = |text: &str| {
            format!(
                "data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n"
            )
        };
        let cut = format!(": hello\n\n{}{}", text("[\"one\", "), text("\"tw"));
        let rest = format!("{}data: [DONE]\n\n", text("[\"one\", \"two\"]"));
        for size in [1, 7, 100, 5000] {
            let answers = Arc::new(AnswerList::new(1, &ServerLimits::default()));
            let page = answers.begin("id", SharedRecord::default());
            let mut pipeline = Pipeline::new(Arc::clone(&page));
            BYTES_FRAMED.set(0);
            for (call, end) in [(&cut, TransportEnd::Dropped), (&rest, TransportEnd::Closed)] {
                let limits = &Limits::default();
                let framing = Some(Framing::Events);
                let mut redactor =
                    ErrorRedactor::new("sk-operator", Dialect::Chat, framing, limits).unwrap();
                pipeline.relay.handle_open(Duration::ZERO);
                for chunk in call.as_bytes().chunks(size) {
                    pipeline.read(redactor.push(chunk));
                }
                pipeline.read(redactor.finish());
                pipeline.relay.handle_transport_end(Duration::ZERO, end);
                pipeline.write();
            }
            assert_eq!(
                pipeline.framed,
                [cut.len() + rest.len(), pipeline.body.len()]
            );
            assert_eq!(page.text(0), (Some("[\"one\", \"two\"]".to_owned()), None));
            // The client's stream is the kept events, and comments.
            let body = String::from_utf8(pipeline.body).unwrap();
            let kept: Vec<_> = pipeline
                .events
                .iter()
                .map(|event| [event, &b"\n"[..]].concat())
                .collect();
            assert_eq!(
                body.replace(": hello\n\n", ""),
                String::from_utf8(kept.concat()).unwrap()
            );
        }
    }
}
