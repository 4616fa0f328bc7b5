//! The events of the stream that a client gets. The stream is divided into them once, for the page
//! and the store together.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::{memchr2, memrchr2};

use super::answer::ListedAnswer;
use super::text::Changes;
use restitch::Limits;
use restitch::internal::wire::{Framed, Framing, Reader};
use restitch::provider::Dialect;
use restitch::sse::Event;

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
    /// `None`: the answer is not kept.
    kept: Option<KeptEvents>,
    /// The stream can't be decoded any further.
    is_over: bool,
}

impl ClientEvents {
    pub(super) fn new(framing: Framing, limits: &Limits) -> Self {
        Self {
            decoder: Framed::new(framing, limits),
            text: None,
            kept: None,
            is_over: false,
        }
    }

    /// Gives the events' text to this reader.
    pub(super) fn read_by(self, text: TextReader) -> Self {
        Self {
            text: Some(text),
            ..self
        }
    }

    /// Returns the events for the store, too.
    pub(super) fn keep(&mut self) {
        self.kept = Some(KeptEvents::default());
    }

    /// Reads bytes of the stream.
    pub(super) fn push(&mut self, bytes: Bytes) -> ClientChunk {
        let (mut rest, mut events, mut limit) = (bytes.clone(), Vec::new(), None);
        let mut input = &bytes[..];
        while !self.is_over {
            match self.decoder.next_event(&mut input) {
                Ok(Some(event)) => {
                    let end = event.range.end;
                    self.text.iter_mut().for_each(|text| text.read(&event));
                    let kept = self.kept.iter_mut();
                    events.extend(kept.map(|kept| kept.end_event(&mut rest, end)));
                }
                Ok(None) => break,
                Err(error) => {
                    // The client still gets the bytes: it may take longer lines than the proxy.
                    (self.is_over, limit) = (true, Some(error.kind.limit()));
                    let text = self.text.iter_mut();
                    text.for_each(|text| text.changes.end_unread());
                }
            }
        }
        self.text.iter_mut().for_each(TextReader::report);
        self.kept.iter_mut().for_each(|kept| kept.wait(&rest));
        ClientChunk {
            bytes,
            events,
            limit,
        }
    }

    /// Returns the kept event that ends with the stream, if there is one: several servers send no
    /// blank line after the last event.
    pub(super) fn finish(&mut self) -> Option<ClientChunk> {
        let kept = self.kept.take()?;
        // The end of the stream ends an event that has data.
        let has_event = matches!(self.decoder.finish(), Ok(Some(_)));
        has_event.then(|| ClientChunk {
            events: vec![kept.last_event()],
            ..ClientChunk::default()
        })
    }
}

/// Reads the text for the page.
pub(super) struct TextReader {
    reader: Box<dyn Reader>,
    changes: Changes,
    page: Arc<ListedAnswer>,
}

impl TextReader {
    pub(super) fn new(dialect: Dialect, page: Arc<ListedAnswer>) -> Self {
        Self {
            reader: dialect.wire().reader(),
            changes: Changes::default(),
            page,
        }
    }

    fn read(&mut self, event: &Event<'_>) {
        self.reader.read(&event.event, &event.data, &mut |delta| {
            self.changes.add(&delta);
        });
    }

    /// Gives the changes of a chunk to the page.
    fn report(&mut self) {
        self.page.add(&mut self.changes);
    }
}

/// The raw bytes of an event stream, cut into the events for the store.
///
/// An event is given as its lines, without the blank line that ends it, so that the id can be
/// written as the last line. Leaves out comments: they only keep a stream alive, and each reader
/// gets its own. Also leaves out blocks without data, which clients ignore.
#[derive(Debug, Default)]
struct KeptEvents {
    /// The earlier chunks' bytes since the last event, without most comments and blocks without
    /// data.
    raw: BytesMut,
    /// The length of `raw` after [`compact`](Self::compact), if it has removed comments and blocks
    /// without data since the last event.
    compacted: usize,
    /// The number of bytes so far.
    offset: u64,
}

impl KeptEvents {
    /// Takes the bytes of an event that ends at an offset of the stream. `chunk`: the bytes that
    /// follow the last event's. An event that lies within the chunk is a slice of it.
    fn end_event(&mut self, chunk: &mut Bytes, end: u64) -> Bytes {
        let length = usize::try_from(end.saturating_sub(self.offset))
            .map_or(chunk.len(), |length| length.min(chunk.len()));
        self.offset += length as u64;
        self.compacted = 0;
        let rest = chunk.split_to(length);
        if self.raw.is_empty() {
            return lines(&rest);
        }
        self.raw.extend_from_slice(&rest);
        lines(&self.raw.split().freeze())
    }

    /// Keeps the bytes after the last event of a chunk.
    fn wait(&mut self, rest: &[u8]) {
        self.offset += rest.len() as u64;
        self.raw.extend_from_slice(rest);
        self.compact();
    }

    /// Removes comments and blocks without data from the open bytes, so that an upstream that sends
    /// only comments can't fill the memory: the decoder limits lines and events only. Runs again
    /// once the bytes have doubled, so that each byte is scanned a few times at most.
    fn compact(&mut self) {
        if self.raw.len() < SHORTEST.max(2 * self.compacted) {
            return;
        }
        // Keeps the last line end, which may be half of a CR LF.
        let half = if self.raw.ends_with(b"\r\n") { 2 } else { 1 };
        let ends = memrchr2(b'\n', b'\r', &self.raw[..self.raw.len() - half]);
        let whole = self.raw.split_to(ends.map_or(0, |at| at + 1)).freeze();
        let open = self.raw.split();
        self.raw = open_block(&whole);
        self.raw.extend_from_slice(&open);
        self.compacted = self.raw.len();
    }

    /// Returns the event that ends with the stream, without its blank line.
    fn last_event(mut self) -> Bytes {
        self.raw.extend_from_slice(b"\n");
        lines(&self.raw.freeze())
    }
}

/// Returns the lines of the last block of `raw` without its comments, each with its end.
fn lines(raw: &Bytes) -> Bytes {
    let (kept, mut parted) = last_block(raw, true);
    if parted.is_empty() {
        return raw.slice(kept);
    }
    parted.extend_from_slice(&raw[kept]);
    parted.freeze()
}

/// Returns the lines of the last block of `raw` without its comments, if the block's blank line has
/// not arrived.
fn open_block(raw: &Bytes) -> BytesMut {
    let (kept, mut parted) = last_block(raw, false);
    parted.extend_from_slice(&raw[kept]);
    parted
}

/// Finds the last block of `raw`: its range, and the block's earlier lines, which a comment
/// separates from that range. If `raw` is one whole event, its last blank line ends the block; any
/// other blank line starts a new block.
fn last_block(raw: &Bytes, is_whole: bool) -> (Range<usize>, BytesMut) {
    let (mut kept, mut parted) = (0..0, BytesMut::new());
    let mut at = if raw.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    };
    // Skips an LF that belongs to the CR of the preceding blank line.
    at += usize::from(raw.first() == Some(&b'\n'));
    while let Some(length) = memchr2(b'\n', b'\r', &raw[at..]) {
        let line = at..at + length;
        let is_pair = raw[line.end..].starts_with(b"\r\n");
        at = line.end + if is_pair { 2 } else { 1 };
        let is_end = is_whole && at >= raw.len();
        if line.is_empty() && !is_end {
            (kept, parted) = (at..at, BytesMut::new());
        } else if raw.get(line.start) == Some(&b':') {
            parted.extend_from_slice(&raw[kept]);
            kept = at..at;
        } else if !line.is_empty() {
            kept = if kept.is_empty() {
                line.start..at
            } else {
                kept.start..at
            };
        }
    }
    (kept, parted)
}

/// The fewest open bytes that are worth compacting.
const SHORTEST: usize = 4 << 10;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

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

    fn kept(limits: &Limits) -> ClientEvents {
        let mut events = ClientEvents::new(Framing::Events, limits);
        events.keep();
        events
    }

    fn pushed(events: &mut ClientEvents, chunk: &[u8]) -> Vec<Bytes> {
        let chunk = events.push(Bytes::copy_from_slice(chunk));
        assert_eq!(chunk.limit, None);
        chunk.events
    }

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut reader = kept(&Limits::default());
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
                vec!["event: x\r\ndata: a\r\n", "data: b\r\n"],
            ),
            ("data: a\r\rdata: b\r\r", vec!["data: a\r", "data: b\r"]),
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
                vec!["data: a\ndata: b\nid: 1\n"],
            ),
            (
                "\u{feff}data: a\n\n\n\ndata\n\n",
                vec!["data: a\n", "data\n"],
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

    /// Comments don't accumulate in memory, and the event after them survives any chunking.
    #[test]
    fn comments_before_an_event_are_not_collected() {
        for end in ["\n", "\r", "\r\n"] {
            let comments = format!(": ping{end}{end}event: none{end}{end}:{end}").repeat(1000);
            let stream = format!(
                "\u{feff}{comments}event: x{end}{comments_within}data: a{end}{end}",
                comments_within = format!(":x{end}").repeat(5000)
            );
            for size in [1, 7, 1000, 5000] {
                let mut reader = kept(&Limits::default());
                let (mut events, mut most) = (Vec::new(), 0);
                for chunk in stream.as_bytes().chunks(size) {
                    events.extend(pushed(&mut reader, chunk));
                    most = most.max(reader.kept.as_ref().unwrap().raw.len());
                }
                events.extend(reader.finish().into_iter().flat_map(|last| last.events));
                assert_eq!(
                    events,
                    [format!("event: x{end}data: a{end}")],
                    "{end:?} {size}"
                );
                assert!(
                    most <= SHORTEST + size,
                    "{most} bytes are held: {end:?} {size}"
                );
            }
        }
    }

    #[test]
    fn an_event_within_a_chunk_is_a_slice_of_it() {
        let chunk = Bytes::from_static(b"data: a\n\ndata: b\n\n");
        let events = kept(&Limits::default()).push(chunk.clone()).events;
        assert_eq!(events[1].as_ptr(), chunk[9..].as_ptr());
    }

    #[test]
    fn events_before_a_line_that_is_too_long_are_returned() {
        let chunk = Bytes::from(format!(
            "data: a\n\ndata: b\n\ndata: {}\n\n",
            "x".repeat(100)
        ));
        let chunk = kept(&Limits::default().with_max_line_bytes(50)).push(chunk);
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
                client: kept(&Limits::default()).read_by(text),
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
