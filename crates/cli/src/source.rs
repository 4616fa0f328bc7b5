//! Reads text from bytes that arrive piece by piece: the bytes themselves, or the deltas of one slot
//! of an answer.

use std::fmt;
use std::mem;

use super::dialect::AnyReader;
use restitch::internal::wire::{Framing, SlotKind};
use restitch::provider::{Delta, Dialect, SlotId};
use restitch::sse::{DecodeError, Framed};
use restitch::{Limits, Utf8, Utf8Error};

/// Turns bytes into text as soon as the text is certain.
#[derive(Debug)]
pub(super) struct Source {
    dialect: Option<Dialect>,
    /// `None`: every text of the answer.
    slot: Option<SlotId>,
    limits: Limits,
    state: SourceState,
}

#[derive(Debug)]
enum SourceState {
    /// The first bytes: too few to detect their type.
    Undecided(Vec<u8>),
    Text(Utf8),
    Answer(Box<SlotReader>),
}

/// The reason why there is no more text.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The bytes are not UTF-8, or end inside a character: these bytes.
    Encoding(Vec<u8>),
    Stream(DecodeError),
    /// The server reports an error.
    Server(String),
    /// The server begins its answer again.
    Restart,
    /// The events are of no known API.
    UnknownDialect,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding(_) => f.write_str("the text is not UTF-8"),
            Self::Stream(error) => error.fmt(f),
            Self::Server(message) => write!(f, "the server reports an error: {message}"),
            Self::Restart => {
                f.write_str("the server begins its answer again, and the text before it is void")
            }
            Self::UnknownDialect => write!(
                f,
                "the events belong to none of the known APIs: {}",
                Dialect::ALL.map(Dialect::as_str).join(", ")
            ),
        }
    }
}

impl Source {
    /// Creates a source. With a dialect the bytes are an answer of this API; without one an event
    /// stream is an answer, whose API its events show, and other bytes are the text itself.
    pub(super) fn new(dialect: Option<Dialect>, slot: Option<SlotId>, limits: &Limits) -> Self {
        Self {
            dialect,
            slot,
            limits: limits.clone(),
            state: SourceState::Undecided(Vec::new()),
        }
    }

    /// Returns whether the bytes are known to be an answer.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.state, SourceState::Answer(_))
    }

    /// Takes the next bytes and appends their text to `text`.
    ///
    /// # Errors
    /// Why there will be no more text. The text before is in `text`.
    pub(super) fn feed(&mut self, bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
        match &mut self.state {
            SourceState::Text(utf8) => feed_text(utf8, bytes, text),
            SourceState::Answer(answer) => answer.feed(bytes, text),
            SourceState::Undecided(head) => {
                head.extend_from_slice(bytes);
                let head = mem::take(head);
                let Some(state) = self.decided(&head) else {
                    self.state = SourceState::Undecided(head);
                    return Ok(());
                };
                self.state = state;
                self.feed(&head, text)
            }
        }
    }

    /// Ends the bytes.
    ///
    /// # Errors
    /// Fails when the bytes are incomplete.
    pub(super) fn finish(&mut self, text: &mut String) -> Result<(), Refusal> {
        match &mut self.state {
            SourceState::Undecided(start) => {
                let mut utf8 = Utf8::new();
                feed_text(&mut utf8, &mem::take(start), text)?;
                finish_text(&utf8)
            }
            SourceState::Text(utf8) => finish_text(utf8),
            SourceState::Answer(answer) => answer.finish(text),
        }
    }

    /// Returns the state that the first bytes decide; `None` if they are too few.
    fn decided(&self, head: &[u8]) -> Option<SourceState> {
        let framing = match self.dialect {
            None if !is_event_stream(head)? => return Some(SourceState::Text(Utf8::new())),
            None => Framing::Events,
            Some(dialect) => framing(dialect, head)?,
        };
        Some(SourceState::Answer(Box::new(SlotReader {
            framed: Framed::new(framing, &self.limits),
            reader: AnyReader::new(self.dialect),
            content: SlotContent {
                slot: self.slot,
                kind: None,
                error: None,
            },
        })))
    }
}

/// Appends whole characters to `text`.
fn feed_text(utf8: &mut Utf8, mut bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
    loop {
        match utf8.next_text(&mut bytes) {
            Ok(Some(new)) => text.push_str(new),
            Ok(None) => return Ok(()),
            Err(Utf8Error) => return Err(Refusal::Encoding(utf8.open().to_vec())),
        }
    }
}

/// Fails if the bytes end inside a character.
fn finish_text(utf8: &Utf8) -> Result<(), Refusal> {
    if utf8.open().is_empty() {
        Ok(())
    } else {
        Err(Refusal::Encoding(utf8.open().to_vec()))
    }
}

/// Returns how an API divides a body with this beginning; `None` if the beginning is blank. No event
/// stream begins with a bracket.
fn framing(dialect: Dialect, head: &[u8]) -> Option<Framing> {
    let first = head
        .iter()
        .find(|byte| !BLANK.contains(byte) && !BYTE_ORDER_MARK.contains(byte))?;
    Some(match dialect.wire().framing() {
        Framing::Lines => Framing::Lines,
        _ if *first == b'[' => Framing::Array,
        framing => framing,
    })
}

/// Returns whether a body with this beginning is an event stream; `None` if the beginning is too
/// short.
fn is_event_stream(head: &[u8]) -> Option<bool> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let blank = head.iter().take_while(|byte| BLANK.contains(byte)).count();
    let first = head.get(blank..).unwrap_or_default();
    if FIELDS.iter().any(|field| first.starts_with(field)) {
        return Some(true);
    }
    let is_open =
        FIELDS.iter().any(|field| field.starts_with(first)) || BYTE_ORDER_MARK.starts_with(head);
    (!is_open || head.len() > MAX_BLANK).then_some(false)
}

const BLANK: &[u8] = b" \t\r\n";

/// After this many bytes of white space, no event stream is expected.
const MAX_BLANK: usize = 4096;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first bytes of a line in an event stream. A JSON text never begins with them.
const FIELDS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];

/// A reader for the text of one slot.
#[derive(Debug)]
struct SlotReader {
    framed: Framed,
    reader: AnyReader,
    content: SlotContent,
}

/// The slot that is read, and the first error of the answer.
#[derive(Debug)]
struct SlotContent {
    slot: Option<SlotId>,
    /// The type of the content, known from its first text. In some APIs a text and a tool call may
    /// have the same number.
    kind: Option<SlotKind>,
    error: Option<Refusal>,
}

impl SlotReader {
    fn feed(&mut self, mut bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
        while let Some(event) = self
            .framed
            .next_event(&mut bytes)
            .map_err(Refusal::Stream)?
        {
            self.reader.read(&event.event, &event.data, &mut |delta| {
                self.content.push(&delta, text);
            });
            self.content.check()?;
        }
        Ok(())
    }

    /// Ends the bytes. An event that is cut off by the end counts.
    fn finish(&mut self, text: &mut String) -> Result<(), Refusal> {
        let mut take = |delta: Delta<'_>| self.content.push(&delta, text);
        if let Some(event) = self.framed.finish().map_err(Refusal::Stream)? {
            self.reader.read(&event.event, &event.data, &mut take);
        }
        self.reader.finish(&mut take);
        self.content.check()?;
        self.reader
            .dialect()
            .map(drop)
            .ok_or(Refusal::UnknownDialect)
    }
}

impl SlotContent {
    /// Fails after an error of the answer.
    fn check(&mut self) -> Result<(), Refusal> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Appends the text of a slot.
    fn push(&mut self, delta: &Delta<'_>, text: &mut String) {
        let (kind, new) = match *delta {
            Delta::Text { slot, text } if self.slot.is_none_or(|own| own == slot) => {
                (SlotKind::Text, text)
            }
            Delta::ToolCall {
                slot, arguments, ..
            } if self
                .slot
                .is_some_and(|own| own.to_string() == slot.to_string()) =>
            {
                (SlotKind::Arguments, arguments)
            }
            Delta::Error { message, .. } => {
                self.error = Some(Refusal::Server(message.to_owned()));
                return;
            }
            // Text that was read can't be taken back.
            Delta::Restart if self.kind.is_some() => {
                self.error = Some(Refusal::Restart);
                return;
            }
            _ => return,
        };
        if !new.is_empty() && *self.kind.get_or_insert(kind) == kind && self.error.is_none() {
            text.push_str(new);
        }
    }
}

/// Reads the name of a slot: `CHOICE`, or `CHOICE.TOOL` for the arguments of a tool call.
pub(super) fn slot(text: &str) -> Result<SlotId, &'static str> {
    let number = |text: &str| {
        text.parse()
            .map_err(|_| "a slot is CHOICE or CHOICE.TOOL: 0, 1, 0.0")
    };
    let (item, part) = text
        .split_once('.')
        .map_or((text, None), |(item, part)| (item, Some(part)));
    let item = number(item)?;
    Ok(match part {
        Some(part) => SlotId::part(item, number(part)?),
        None => SlotId::of(item),
    })
}

#[cfg(test)]
mod tests {
    use super::{Limits, Refusal, SlotId, Source, is_event_stream, slot};

    #[test]
    fn slots_are_read() {
        assert_eq!(slot("1"), Ok(SlotId::of(1)));
        assert_eq!(slot("0.12"), Ok(SlotId::part(0, 12)));
        for text in ["", ".", "0.", ".0", "a", "0.0.0", "-1"] {
            assert!(slot(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_bytes_decide() {
        for (head, is_events) in [
            (&b""[..], None),
            (b" \r\n", None),
            (b"da", None),
            (b"\xef\xbb", None),
            (b"\xef\xbb\xbf\n", None),
            (b"data:", Some(true)),
            (b": ping", Some(true)),
            (b"\xef\xbb\xbfevent: x", Some(true)),
            (b"\n\nid: 1", Some(true)),
            (b"retry:1", Some(true)),
            (b"{", Some(false)),
            (b" t", Some(false)),
            (b"dat ", Some(false)),
            (b"\xef\xbb\xbf[", Some(false)),
            (b"\xefx", Some(false)),
            (&[b' '; 4096], None),
            (&[b' '; 4097], Some(false)),
        ] {
            assert_eq!(is_event_stream(head), is_events, "{head:?}");
        }
    }

    fn feed(pieces: &[&[u8]]) -> (String, Result<(), Refusal>) {
        let mut source = Source::new(None, Some(SlotId::default()), &Limits::default());
        let mut text = String::new();
        let fed = pieces
            .iter()
            .try_for_each(|piece| source.feed(piece, &mut text));
        let result = fed.and_then(|()| source.finish(&mut text));
        (text, result)
    }

    #[test]
    fn characters_that_are_cut_wait() {
        let smile = "\"😀\"".as_bytes();
        for cut in 1..smile.len() {
            let (text, result) = feed(&[&smile[..cut], &smile[cut..]]);
            assert!(result.is_ok());
            assert_eq!(text, "\"😀\"");
        }
        for (pieces, text, bytes) in [
            (&[&b"[\"a\xc3"[..], b"x"][..], "[\"a", &b"\xc3x"[..]),
            (&[b"[\xff\xff\xff\xff\xff"], "[", b"\xff\xff\xff\xff"),
            (&[b"[\"\xf0", b"\x9f", b"\x98"], "[\"", b"\xf0\x9f\x98"),
            (&[b"\xef\xbb"], "", b"\xef\xbb"),
        ] {
            let (got, result) = feed(pieces);
            assert!(
                matches!(&result, Err(Refusal::Encoding(rest)) if rest == bytes),
                "{result:?}"
            );
            assert_eq!(got, text);
        }
    }
}
