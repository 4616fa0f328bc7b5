//! The push decoder of newline-delimited JSON.
//!
//! Knows lines and their positions in the stream, and returns each line that is not blank as an
//! event. It has the interface of [`Decoder`](super::Decoder) and does not interpret lines.

use std::borrow::Cow;
use std::mem;

use memchr::memchr;

use super::decoder::{DecodeError, DecodeErrorKind, Event, text};
use crate::Limits;

/// A decoder for a stream of lines that is pushed in chunks of any size.
///
/// Drain every chunk: call `next_event` until it returns `None`. Then, once, at
/// the end of the stream, call `finish`. However the stream is split, the events,
/// their ranges and the errors are the same.
///
/// A line ends with LF or CRLF. A CR alone ends no line: in JSON it is white space.
#[derive(Clone, Debug)]
pub struct LineDecoder {
    line_limit: usize,
    /// The start of an unfinished line, never longer than `line_limit`. After an event it is that
    /// event's line, until the next call.
    carry: Vec<u8>,
    /// `carry` is the line of an event that was returned.
    is_spent: bool,
    /// The number of bytes consumed.
    offset: u64,
    /// The offset after the last line end; 0 before the first.
    boundary: u64,
    /// Where the range of the next event starts: the end of the range before.
    start: u64,
    failed: Option<DecodeError>,
}

impl LineDecoder {
    /// Creates a decoder at the start of a stream, with the caps of
    /// [`ParserLimits`](crate::ParserLimits): a line is one event, so the lower one of
    /// `max_line_bytes` and `max_event_bytes` counts.
    pub(crate) fn new(limits: &Limits) -> Self {
        let line_limit = limits
            .parser
            .max_line_bytes
            .min(limits.parser.max_event_bytes);
        Self {
            line_limit,
            carry: Vec::new(),
            is_spent: false,
            offset: 0,
            boundary: 0,
            start: 0,
            failed: None,
        }
    }

    /// Decodes up to the end of the next line that is not blank, and removes the consumed bytes
    /// from the front of `input`.
    ///
    /// Returns `None` when `input` is used up. A line that is whole within `input` is lent from
    /// there, not copied.
    ///
    /// # Errors
    ///
    /// Fails if a line is over its cap. The decoder stays failed: from then on it takes nothing and
    /// returns the same error.
    pub(crate) fn next_event<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, DecodeError> {
        self.begin()?;
        loop {
            let Some(end) = memchr(b'\n', input) else {
                let part = self.take(input, input.len())?;
                self.carry.extend_from_slice(part);
                return Ok(None);
            };
            let part = self.take(input, end)?;
            if let Some((_, rest)) = input.split_first() {
                self.offset += 1;
                *input = rest;
            }
            let is_first = self.boundary == 0;
            self.boundary = self.offset;
            if self.carry.is_empty() {
                let line = content(part, is_first);
                if !is_blank(line) {
                    return Ok(Some(self.event(text(line), true)));
                }
                continue;
            }
            self.carry.extend_from_slice(part);
            self.is_spent = true;
            if !is_blank(content(&self.carry, is_first)) {
                return Ok(Some(self.carried(is_first, true)));
            }
            self.begin()?;
        }
    }

    /// Ends the stream: an unterminated last line is an event with `terminated: false`, unless it
    /// is blank.
    ///
    /// # Errors
    ///
    /// Fails if the decoder has failed before.
    pub(crate) fn finish(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        self.begin()?;
        let is_first = self.boundary == 0;
        self.is_spent = true;
        if is_blank(content(&self.carry, is_first)) {
            return Ok(None);
        }
        Ok(Some(self.carried(is_first, false)))
    }

    /// Returns the absolute offset right after the last line end; 0 before the first.
    pub(crate) fn boundary(&self) -> u64 {
        self.boundary
    }

    /// Starts a call: returns a failure again, and drops the line of the event before.
    fn begin(&mut self) -> Result<(), DecodeError> {
        if mem::take(&mut self.is_spent) {
            self.carry.clear();
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Takes `len` more bytes of the open line, or fails at the first byte that is over the cap.
    /// `len` is at most `input.len()`.
    fn take<'i>(&mut self, input: &mut &'i [u8], len: usize) -> Result<&'i [u8], DecodeError> {
        let room = self.line_limit.saturating_sub(self.carry.len());
        let (part, rest) = input.split_at(len.min(room));
        self.offset += part.len() as u64;
        *input = rest;
        if len > room {
            let kind = DecodeErrorKind::LineTooLong(self.line_limit);
            return Err(*self.failed.insert(DecodeError {
                kind,
                offset: self.offset,
            }));
        }
        Ok(part)
    }

    fn carried(&mut self, is_first: bool, terminated: bool) -> Event<'_> {
        let range = mem::replace(&mut self.start, self.offset)..self.offset;
        event(text(content(&self.carry, is_first)), range, terminated)
    }

    fn event<'a>(&mut self, data: Cow<'a, str>, terminated: bool) -> Event<'a> {
        let range = mem::replace(&mut self.start, self.offset)..self.offset;
        event(data, range, terminated)
    }
}

fn event(data: Cow<'_, str>, range: std::ops::Range<u64>, terminated: bool) -> Event<'_> {
    Event {
        event: Cow::Borrowed("message"),
        data,
        id: Cow::Borrowed(""),
        range,
        terminated,
    }
}

/// Returns a line without the CR of its end, and without a byte order mark at the start of the
/// stream.
fn content(line: &[u8], is_first: bool) -> &[u8] {
    let line = if is_first {
        line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
    } else {
        line
    };
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, DecodeErrorKind, LineDecoder};
    use crate::Limits;

    type Seen = (
        Vec<(String, std::ops::Range<u64>, bool)>,
        u64,
        Option<DecodeError>,
    );

    fn decode(limits: &Limits, pieces: &[&[u8]]) -> Seen {
        let (mut decoder, mut seen) = (LineDecoder::new(limits), Vec::new());
        for piece in pieces {
            let mut piece = *piece;
            loop {
                match decoder.next_event(&mut piece) {
                    Ok(Some(event)) => {
                        seen.push((event.data.into_owned(), event.range, event.terminated));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(decoder.finish(), Err(error));
                        return (seen, decoder.boundary(), Some(error));
                    }
                }
            }
        }
        let boundary = decoder.boundary();
        if let Some(event) = decoder.finish().unwrap() {
            seen.push((event.data.into_owned(), event.range, event.terminated));
        }
        assert_eq!(decoder.finish(), Ok(None));
        (seen, boundary, None)
    }

    /// Decodes `input` in every split in up to three pieces and byte by byte, and returns their
    /// common result.
    fn check(limits: &Limits, input: &[u8]) -> Seen {
        let whole = decode(limits, &[input]);
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(decode(limits, &pieces), whole, "{pieces:?}");
            }
        }
        let bytes: Vec<_> = input.chunks(1).collect();
        assert_eq!(decode(limits, &bytes), whole);
        whole
    }

    #[test]
    fn a_line_is_an_event() {
        let (events, boundary, error) = check(&Limits::default(), b"{\"a\":1}\n\r\n [2]\r\n{\"b\"");
        let expected = [
            ("{\"a\":1}", 0..8, true),
            (" [2]", 8..16, true),
            ("{\"b\"", 16..20, false),
        ];
        assert_eq!(
            events,
            expected.map(|(data, range, terminated)| (data.to_owned(), range, terminated))
        );
        assert_eq!((boundary, error), (16, None));
    }

    #[test]
    fn blank_lines_marks_and_lone_returns() {
        let of = |input: &[u8]| {
            let (events, _, _) = check(&Limits::default(), input);
            events
                .into_iter()
                .map(|(data, ..)| data)
                .collect::<Vec<_>>()
        };
        assert!(
            of(b"").is_empty()
                && of(b"\n \n\t\r\n\r").is_empty()
                && of(b"\xef\xbb\xbf\n").is_empty()
        );
        assert_eq!(of(b"\xef\xbb\xbf1\n\xef\xbb\xbf2"), ["1", "\u{feff}2"]);
        assert_eq!(of(b"[1,\r2]\n"), ["[1,\r2]"]);
        assert_eq!(of("é😀\n\u{fffd}".as_bytes()), ["é😀", "\u{fffd}"]);
        assert_eq!(of(b"\"\xff\"\n"), ["\"\u{fffd}\""]);
    }

    #[test]
    fn long_lines_fail_at_the_same_byte() {
        let mut limits = Limits::default();
        limits.parser.max_line_bytes = 4;
        let (events, boundary, error) = check(&limits, b"1234\n12345\n1");
        assert_eq!((events.len(), boundary), (1, 5));
        assert_eq!(
            error,
            Some(DecodeError {
                kind: DecodeErrorKind::LineTooLong(4),
                offset: 9
            })
        );
        limits.parser.max_event_bytes = 3;
        let (events, _, error) = check(&limits, b"1234");
        assert_eq!((events, error.unwrap().offset), (Vec::new(), 3));
    }
}
