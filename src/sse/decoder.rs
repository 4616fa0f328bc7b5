//! The push decoder of event streams.
//!
//! Knows lines, fields and blocks as the [standard] defines them, and the position of each event in
//! the stream. It does not interpret the data of an event, it never waits for bytes that an event
//! does not need, and it keeps only the open block: it lends a line or a value that is whole in the
//! caller's chunk from there.
//!
//! [standard]: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

use std::borrow::Cow;
use std::{fmt, mem, ops::Range};

use memchr::{memchr, memchr2};

use crate::Limits;

/// A decoder for an event stream that is pushed in chunks of any size.
///
/// Drain every chunk: call [`next_event`](Self::next_event) until it returns `None`. Then, once, at
/// the end of the stream, call [`finish`](Self::finish). However the stream is split, the events,
/// their ranges and the errors are the same.
///
/// ```
/// use restitch::{Limits, sse::Decoder};
///
/// let mut decoder = Decoder::new(&Limits::default());
/// let mut seen = Vec::new();
/// for mut chunk in [&b": hi\n\nevent: delta\nda"[..], b"ta: {}\n\ndata: [DO", b"NE]"] {
///     while let Some(event) = decoder.next_event(&mut chunk)? {
///         seen.push((event.event.into_owned(), event.data.into_owned(), event.range, event.terminated));
///     }
/// }
/// assert_eq!(decoder.boundary(), 29);
/// if let Some(event) = decoder.finish()? {
///     seen.push((event.event.into_owned(), event.data.into_owned(), event.range, event.terminated));
/// }
/// assert_eq!(seen, [
///     ("delta".to_owned(), "{}".to_owned(), 0..29, true),
///     ("message".to_owned(), "[DONE]".to_owned(), 29..41, false),
/// ]);
/// # Ok::<(), restitch::sse::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    line_limit: usize,
    event_limit: usize,
    /// The start of an unfinished line. Empty between lines, and never longer than `line_limit`.
    carry: Vec<u8>,
    block: EventBlock,
    /// The id of the last whole block that set one.
    id: String,
    retry: Option<u64>,
    at: StreamOffsets,
    /// Only the first line may begin with a byte order mark.
    first_line: bool,
    /// The last byte was a CR that has ended a line. An LF after it belongs to the same line end.
    after_cr: bool,
    failed: Option<DecodeError>,
}

/// The offsets of a decoder in its stream.
#[derive(Clone, Copy, Debug, Default)]
struct StreamOffsets {
    /// The number of bytes consumed.
    consumed: u64,
    /// Never above `consumed`, and equal to it only at the start and right after a blank line.
    boundary: u64,
    /// The start of the next event's range, which is the end of the last one's. Never above
    /// `boundary`, except for an unterminated event.
    event: u64,
}

/// One event, lent from the pushed chunk or from the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The type: `message` unless the block has another one that is not empty.
    pub event: Cow<'a, str>,
    /// The `data` lines, joined with LF. Bytes that are not UTF-8 are replaced by U+FFFD; the data
    /// is owned then, and only then.
    pub data: Cow<'a, str>,
    /// The last event id, set by this block or by an earlier one.
    pub id: Cow<'a, str>,
    /// The raw bytes in the stream, as absolute offsets: from the end of the event before (or 0) to
    /// the end of its blank line. So ranges cover the stream without gaps, and an event's range
    /// includes comments, blocks that only set an id, and a byte order mark before it.
    ///
    /// An event is complete at the CR of its blank line, before the decoder knows whether an LF
    /// follows. Hence the rule: **the range ends after the CR, and an LF that belongs to it is the
    /// first byte of the next range**. To forward raw bytes, cut at [`Decoder::boundary`], which
    /// includes the LF if it has been seen.
    pub range: Range<u64>,
    /// Whether it ended with a blank line. The standard drops an event that the end of the stream
    /// cuts off, but several servers omit the blank line after their last event.
    pub terminated: bool,
}

impl Event<'_> {
    /// Returns whether bytes of the data were replaced, since they are not UTF-8.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(self.data, Cow::Owned(_))
    }
}

/// The error of a stream that cannot be decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The cause.
    pub kind: DecodeErrorKind,
    /// The absolute offset of the first byte that was not taken: the byte of a line that is over
    /// its cap, or the end of the line that made an event too long.
    pub offset: u64,
}

/// The cause of a [`DecodeError`]. Malformed fields are not errors: the standard defines their
/// meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// A line has more bytes than
    /// [`max_line_bytes`](crate::Limits::with_max_line_bytes), which is given.
    LineTooLong(usize),
    /// The fields of an event have more bytes than
    /// [`max_event_bytes`](crate::Limits::with_max_event_bytes), which is given.
    EventTooLong(usize),
}

impl DecodeErrorKind {
    /// Returns the name of the limit, as [`ParserLimits`](crate::ParserLimits) has it.
    pub fn limit(&self) -> &'static str {
        match self {
            Self::LineTooLong(_) => "max_line_bytes",
            Self::EventTooLong(_) => "max_event_bytes",
        }
    }
}

impl Decoder {
    /// Creates a decoder at the start of a stream, with the caps
    /// [`max_line_bytes`](crate::Limits::with_max_line_bytes) and
    /// [`max_event_bytes`](crate::Limits::with_max_event_bytes).
    ///
    /// A line counts without its end; the fields of an event count as whole lines, each with one
    /// byte for its end. Comments do not count towards the event: they are not kept.
    pub fn new(limits: &Limits) -> Self {
        Self {
            line_limit: limits.parser.max_line_bytes,
            event_limit: limits.parser.max_event_bytes,
            carry: Vec::new(),
            block: EventBlock::default(),
            id: String::new(),
            retry: None,
            at: StreamOffsets::default(),
            first_line: true,
            after_cr: false,
            failed: None,
        }
    }

    /// Decodes up to the end of the next event, and removes the consumed bytes from the front of
    /// `input`.
    ///
    /// Returns `None` when `input` is used up. Data that is one line, whole within `input`, is lent
    /// from there, not copied.
    ///
    /// # Errors
    ///
    /// Fails if a line or an event is over its cap. The decoder stays failed: from then on it takes
    /// nothing and returns the same error.
    pub fn next_event<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, DecodeError> {
        self.start()?;
        if input.is_empty() {
            return Ok(None);
        }
        if self.is_between_blocks()
            && let Some((lent, len)) = whole_block(input, self.block_limit())
        {
            *input = input.get(len..).unwrap_or_default();
            self.at.consumed += len as u64;
            self.at.boundary = self.at.consumed;
            let range = mem::replace(&mut self.at.event, self.at.consumed)..self.at.consumed;
            return Ok(Some(self.block.event(lent, &self.id, range, true)));
        }
        let mut lent = Lent::default();
        loop {
            self.skip_lf(input);
            let Some(end) = memchr2(b'\n', b'\r', input) else {
                let part = self.take(input, input.len())?;
                self.carry.extend_from_slice(part);
                self.block.keep(&mut lent);
                return Ok(None);
            };
            let part = self.take(input, end)?;
            let blank = if self.carry.is_empty() {
                self.line(part, &mut lent)?
            } else {
                // It began in an earlier chunk, so it is the first line of this call and nothing is
                // lent yet.
                self.carry.extend_from_slice(part);
                self.carried_line()?
            };
            if let Some((&byte, rest)) = input.split_first() {
                self.after_cr = byte == b'\r';
                self.at.consumed += 1;
                *input = rest;
            }
            if !blank {
                continue;
            }
            self.at.boundary = self.at.consumed;
            if mem::take(&mut self.block.has_id) {
                mem::swap(&mut self.id, &mut self.block.id);
            }
            if self.block.has_data || lent.data.is_some() {
                break;
            }
            self.block.clear();
            lent = Lent::default();
        }
        let range = self.at.event..self.at.consumed;
        self.at.event = self.at.consumed;
        // A raw cut at the boundary should include the whole line end if it is at hand.
        self.skip_lf(input);
        self.block.spent = true;
        Ok(Some(self.block.event(lent, &self.id, range, true)))
    }

    /// Ends the stream: the unterminated last line and block are processed and, if the block has
    /// data, dispatched as an event with `terminated: false`.
    ///
    /// That event may be cut, so [`last_event_id`](Self::last_event_id) stays that of the last
    /// whole block, and `retry` needs a whole line. A second call returns `None`; input after the
    /// end would start a new block.
    ///
    /// # Errors
    ///
    /// Fails if the last line makes its event too long, or if the decoder has failed before.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        self.start()?;
        if !self.carry.is_empty() {
            let retry = self.retry;
            self.carried_line()?;
            self.retry = retry;
        }
        self.block.spent = true;
        if !self.block.has_data {
            return Ok(None);
        }
        let range = self.at.event..self.at.consumed;
        self.at.event = self.at.consumed;
        let id = if self.block.has_id {
            &self.block.id
        } else {
            &self.id
        };
        Ok(Some(self.block.event(Lent::default(), id, range, false)))
    }

    /// Returns the number of bytes consumed.
    pub fn offset(&self) -> u64 {
        self.at.consumed
    }

    /// Returns the absolute offset right after the last blank line: the end of the last whole
    /// block, with data or without; 0 before the first.
    ///
    /// The LF of a CRLF is included once it is consumed, so between two calls the boundary may be
    /// one byte short. When all input is consumed it does not depend on the chunks.
    pub fn boundary(&self) -> u64 {
        self.at.boundary
    }

    /// Returns the last valid `retry`, in milliseconds. A number beyond `u64` counts as its
    /// maximum.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Returns the id for a reconnection: the last one that a whole block set. Empty if no block
    /// has set one.
    pub fn last_event_id(&self) -> &str {
        &self.id
    }

    /// Starts a call: returns a failure again, and clears the event that was handed out before.
    fn start(&mut self) -> Result<(), DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.block.spent {
            self.block.clear();
        }
        Ok(())
    }

    /// Returns whether the next byte starts a block, and no rule of the start of a stream or of a
    /// line end applies to it.
    fn is_between_blocks(&self) -> bool {
        self.at.boundary == self.at.consumed && !self.after_cr && !self.first_line
    }

    /// Returns the most bytes of a block with one `data` line that is under both caps.
    fn block_limit(&self) -> usize {
        self.line_limit.min(self.event_limit.saturating_sub(1))
    }

    fn skip_lf(&mut self, input: &mut &[u8]) {
        if !self.after_cr {
            return;
        }
        let Some((&byte, rest)) = input.split_first() else {
            return;
        };
        self.after_cr = false;
        if byte == b'\n' {
            if self.at.boundary == self.at.consumed {
                self.at.boundary += 1;
            }
            self.at.consumed += 1;
            *input = rest;
        }
    }

    /// Takes `len` more bytes of the open line, or fails at the first byte that is over the cap.
    /// `len` is at most `input.len()`.
    fn take<'i>(&mut self, input: &mut &'i [u8], len: usize) -> Result<&'i [u8], DecodeError> {
        let room = self.line_limit.saturating_sub(self.carry.len());
        let (part, rest) = input.split_at(len.min(room));
        self.at.consumed += part.len() as u64;
        *input = rest;
        if len > room {
            Err(self.fail(DecodeErrorKind::LineTooLong(self.line_limit)))
        } else {
            Ok(part)
        }
    }

    /// Processes the line in `carry`, which is complete, and empties it.
    fn carried_line(&mut self) -> Result<bool, DecodeError> {
        let mut carry = mem::take(&mut self.carry);
        let mut lent = Lent::default();
        let blank = self.line(&carry, &mut lent);
        self.block.keep(&mut lent);
        carry.clear();
        self.carry = carry;
        blank
    }

    /// Processes one line without its end; returns whether it was blank. Lends a value in `lent` if
    /// it needs no copy yet.
    fn line<'l>(&mut self, line: &'l [u8], lent: &mut Lent<'l>) -> Result<bool, DecodeError> {
        let line = match mem::take(&mut self.first_line) {
            true => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            return Ok(true);
        }
        let (name, value) = field(line);
        if name.is_empty() {
            return Ok(false); // A comment.
        }
        // Names and line ends count, so that endless empty lines reach the cap, too.
        self.block.size = self.block.size.saturating_add(line.len()).saturating_add(1);
        if self.block.size > self.event_limit {
            return Err(self.fail(DecodeErrorKind::EventTooLong(self.event_limit)));
        }
        match name {
            b"data" => self.block.data(value, lent),
            b"event" => lent.event = Some(value),
            b"id" if memchr(0, value).is_none() => self.block.set_id(value),
            b"retry" => self.retry = milliseconds(value).or(self.retry),
            _ => {}
        }
        Ok(false)
    }

    fn fail(&mut self, kind: DecodeErrorKind) -> DecodeError {
        *self.failed.insert(DecodeError {
            kind,
            offset: self.at.consumed,
        })
    }
}

/// The part of the open block that lies in the chunk of this call. It takes precedence over the
/// kept part.
#[derive(Clone, Copy, Default)]
struct Lent<'l> {
    /// The first `data` line, if the block has no other.
    data: Option<&'l [u8]>,
    event: Option<&'l [u8]>,
}

/// The open block. Its buffers are reused from event to event.
#[derive(Clone, Debug, Default)]
struct EventBlock {
    /// The `data` lines so far, joined with LF, as raw bytes. A character cannot cross a line end,
    /// so one check at the end is enough.
    data: Vec<u8>,
    /// Whether there was a `data` line: one empty line is data, too.
    has_data: bool,
    event: Vec<u8>,
    /// The id that the end of the block sets.
    id: String,
    has_id: bool,
    /// Bytes of the fields, capped by
    /// [`max_event_bytes`](crate::Limits::with_max_event_bytes).
    size: usize,
    /// Whether its event has been handed out: the next call clears the block.
    spent: bool,
}

impl EventBlock {
    fn clear(&mut self) {
        self.data.clear();
        self.has_data = false;
        self.event.clear();
        self.has_id = false;
        self.size = 0;
        self.spent = false;
    }

    /// Adds a `data` line.
    fn data<'l>(&mut self, value: &'l [u8], lent: &mut Lent<'l>) {
        if !self.has_data && lent.data.is_none() {
            lent.data = Some(value);
            return;
        }
        self.keep(lent);
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
    }

    fn set_id(&mut self, value: &[u8]) {
        self.id.clear();
        self.id.push_str(&text(value));
        self.has_id = true;
    }

    /// Copies the lent part, because its chunk goes away or the part grows.
    fn keep(&mut self, lent: &mut Lent<'_>) {
        if let Some(data) = lent.data.take() {
            self.data.extend_from_slice(data);
            self.has_data = true;
        }
        if let Some(event) = lent.event.take() {
            self.event.clear();
            self.event.extend_from_slice(event);
        }
    }

    fn event<'a>(
        &'a self,
        lent: Lent<'a>,
        id: &'a str,
        range: Range<u64>,
        terminated: bool,
    ) -> Event<'a> {
        let event = match lent.event.unwrap_or(&self.event) {
            b"" => Cow::Borrowed("message"),
            name => text(name),
        };
        let data = text(lent.data.unwrap_or(&self.data));
        Event {
            event,
            data,
            id: Cow::Borrowed(id),
            range,
            terminated,
        }
    }
}

/// Finds the block at the start of `input`, if it is whole and has the usual layout: lines that end
/// with LF, at most one `event`, one `data` and nothing else. Returns it with its length, which is
/// at most `limit` without the blank line.
#[inline]
fn whole_block(input: &[u8], limit: usize) -> Option<(Lent<'_>, usize)> {
    let mut lent = Lent::default();
    let mut rest = input;
    if let Some(line) = rest.strip_prefix(b"event: ") {
        let (name, after) = line.split_at_checked(memchr2(b'\n', b'\r', line)?)?;
        lent.event = Some(name);
        rest = after.strip_prefix(b"\n")?;
    }
    let line = rest.strip_prefix(b"data: ")?;
    let (data, after) = line.split_at_checked(memchr2(b'\n', b'\r', line)?)?;
    lent.data = Some(data);
    let rest = after.strip_prefix(b"\n\n")?;
    let len = input.len() - rest.len();
    (len - 2 <= limit).then_some((lent, len))
}

/// Splits a line that is not blank into name and value. A comment has an empty name; without a
/// colon the whole line is the name.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr(b':', line) else {
        return (line, b"");
    };
    let (name, value) = line.split_at(colon);
    let value = value.strip_prefix(b":").unwrap_or(value);
    (name, value.strip_prefix(b" ").unwrap_or(value))
}

/// Converts bytes to text, with U+FFFD according to the
/// [standard](https://encoding.spec.whatwg.org/#utf-8-decoder).
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // The lossy conversion reads byte by byte even if it replaces nothing. The check is faster.
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Reads the value of a `retry` field: ASCII digits and nothing else.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |sum: u64, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LineTooLong(limit) => {
                write!(f, "a line of the event stream has more than {limit} bytes")
            }
            Self::EventTooLong(limit) => write!(f, "an event has more than {limit} bytes"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.offset)
    }
}

impl std::error::Error for DecodeError {}
