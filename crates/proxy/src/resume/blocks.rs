//! Divides the bytes of an answer into the events for the store.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::{memchr2, memrchr2};

use restitch::Limits;
use restitch::sse::{DecodeError, Decoder};

/// Divides an event stream into its events, however the bytes are chunked.
///
/// An event is given as its lines, without the blank line that ends it, so that the id can be
/// written as the last line. Leaves out comments: they only keep a stream alive, and each reader
/// gets its own. Also leaves out blocks without data, which clients ignore.
#[derive(Debug)]
pub(super) struct Blocks {
    decoder: Decoder,
    /// The earlier chunks' bytes since the last event, without most comments and blocks without
    /// data.
    raw: BytesMut,
    /// The length of `raw` at which [`compact`](Self::compact) next removes comments and blocks
    /// without data.
    most: usize,
    /// The number of bytes so far.
    offset: u64,
}

impl Blocks {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            decoder: Decoder::new(limits),
            raw: BytesMut::new(),
            most: SHORTEST,
            offset: 0,
        }
    }

    /// Returns the events that end in a chunk, and the error if a line or an event after them is
    /// over its limit. An event that lies within the chunk is a slice of it.
    pub(super) fn push(&mut self, chunk: &Bytes) -> (Vec<Bytes>, Result<(), DecodeError>) {
        let start = self.offset;
        self.offset += chunk.len() as u64;
        let within = |offset: u64| {
            usize::try_from(offset.saturating_sub(start))
                .unwrap_or(usize::MAX)
                .min(chunk.len())
        };
        let (mut events, mut input, mut taken) = (Vec::new(), &chunk[..], 0);
        loop {
            let event = match self.decoder.next_event(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            };
            let end = within(event.range.end);
            let rest = chunk.slice(taken..end);
            taken = end;
            let raw = if self.raw.is_empty() {
                rest
            } else {
                self.raw.extend_from_slice(&rest);
                self.raw.split().freeze()
            };
            events.push(lines(&raw));
            self.most = SHORTEST;
        }
        self.raw.extend_from_slice(&chunk[taken..]);
        self.compact();
        (events, Ok(()))
    }

    /// Removes comments and blocks without data from the open bytes, so that an upstream that sends
    /// only comments can't fill the memory: the decoder limits lines and events only. Runs again
    /// once the bytes have doubled, so that each byte is scanned a few times at most.
    fn compact(&mut self) {
        if self.raw.len() < self.most {
            return;
        }
        // Keeps the last line end, which may be half of a CR LF.
        let half = if self.raw.ends_with(b"\r\n") { 2 } else { 1 };
        let ends = memrchr2(b'\n', b'\r', &self.raw[..self.raw.len() - half]);
        let whole = self.raw.split_to(ends.map_or(0, |at| at + 1)).freeze();
        let open = self.raw.split();
        self.raw = open_block(&whole);
        self.raw.extend_from_slice(&open);
        self.most = SHORTEST.max(2 * self.raw.len());
    }

    /// Returns the event that ends with the stream: several servers send no blank line after the
    /// last event.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let has_event = matches!(self.decoder.finish(), Ok(Some(_)));
        has_event.then(|| {
            self.raw.extend_from_slice(b"\n");
            lines(&self.raw.split().freeze())
        })
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
    use super::*;

    fn pushed(blocks: &mut Blocks, chunk: &[u8]) -> Vec<Bytes> {
        let (events, result) = blocks.push(&Bytes::copy_from_slice(chunk));
        result.unwrap();
        events
    }

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut blocks = Blocks::new(&Limits::default());
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(pushed(&mut blocks, chunk));
        }
        events.extend(blocks.finish());
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
                let mut blocks = Blocks::new(&Limits::default());
                let (mut events, mut most) = (Vec::new(), 0);
                for chunk in stream.as_bytes().chunks(size) {
                    events.extend(pushed(&mut blocks, chunk));
                    most = most.max(blocks.raw.len());
                }
                events.extend(blocks.finish());
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
        let (events, _) = Blocks::new(&Limits::default()).push(&chunk);
        assert_eq!(events[1].as_ptr(), chunk[9..].as_ptr());
    }

    #[test]
    fn events_before_a_line_that_is_too_long_are_returned() {
        let chunk = Bytes::from(format!(
            "data: a\n\ndata: b\n\ndata: {}\n\n",
            "x".repeat(100)
        ));
        let (events, result) = Blocks::new(&Limits::default().with_max_line_bytes(50)).push(&chunk);
        assert_eq!(events, ["data: a\n", "data: b\n"]);
        assert!(result.is_err());
    }
}
