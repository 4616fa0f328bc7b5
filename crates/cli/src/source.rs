//! Reads text from bytes that arrive piece by piece: the bytes themselves, or the deltas of an
//! answer.

use std::fmt;
use std::mem;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::decode::Error;
use super::deltas::Deltas;
use restitch::provider::Dialect as Known;
use restitch::provider::SlotId;
use restitch::sse::DecodeError;
use restitch::{Utf8, Utf8Error};

/// The type of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Found by the first bytes: an event stream begins with the name of a field, or with a
    /// comment. Its API is found by its events.
    Auto,
    /// The text itself.
    Text,
    /// An answer of this API, whose deltas are the text.
    Known(Known),
}

/// All values of the argument.
const CHOICES: [Dialect; Known::ALL.len() + 2] = {
    let mut choices = [Dialect::Auto; Known::ALL.len() + 2];
    choices[1] = Dialect::Text;
    let mut at = 0;
    while at < Known::ALL.len() {
        choices[at + 2] = Dialect::Known(Known::ALL[at]);
        at += 1;
    }
    choices
};

impl ValueEnum for Dialect {
    fn value_variants<'a>() -> &'a [Self] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Auto => PossibleValue::new("auto")
                .help("An event stream of any API, or else the text itself"),
            Self::Text => PossibleValue::new("text").help("The text itself"),
            Self::Known(dialect) => PossibleValue::new(dialect.as_str()),
        })
    }
}

/// Turns bytes into text as soon as the text is certain.
#[derive(Debug)]
pub(super) struct Source {
    slot: SlotId,
    state: SourceState,
}

#[derive(Debug)]
enum SourceState {
    /// The first bytes: too few to detect their type.
    Undecided(Vec<u8>),
    Text(Utf8),
    /// An event stream.
    Deltas(Box<Deltas>),
}

/// The reason why there is no more text.
#[derive(Debug)]
pub(super) enum Refusal {
    /// These bytes are not UTF-8, or the text ends inside a character.
    Encoding(Vec<u8>),
    /// A line or an event of the stream is too long.
    Stream(DecodeError),
    /// The server reports an error inside the stream.
    Server(String),
    /// The server begins its answer again.
    Restart,
    /// Nothing in the stream is of an API that is read here.
    Wire,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding(_) => f.write_str("the text is not UTF-8"),
            Self::Stream(error) => error.fmt(f),
            Self::Server(message) => write!(f, "the server reports an error: {message}"),
            Self::Restart => {
                f.write_str("the server begins its answer again, and what was read is void")
            }
            Self::Wire => Error::UnknownDialect.fmt(f),
        }
    }
}

impl Source {
    pub(super) fn new(dialect: Dialect, slot: SlotId) -> Self {
        let state = match dialect {
            Dialect::Auto => SourceState::Undecided(Vec::new()),
            Dialect::Text => SourceState::Text(Utf8::new()),
            Dialect::Known(dialect) => SourceState::Deltas(Box::new(Deltas::new(Some(dialect)))),
        };
        Self { slot, state }
    }

    /// Returns whether the bytes are known to be an event stream.
    pub(super) fn is_events(&self) -> bool {
        matches!(self.state, SourceState::Deltas(_))
    }

    /// Takes the next bytes and appends their text to `text`.
    ///
    /// # Errors
    /// Why there will be no more text. The text before is in `text`.
    pub(super) fn feed(&mut self, bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
        let mut head = Vec::new();
        if let SourceState::Undecided(start) = &mut self.state {
            start.extend_from_slice(bytes);
            let Some(is_events) = is_event_stream(start) else {
                return Ok(());
            };
            head = mem::take(start);
            self.state = if is_events {
                SourceState::Deltas(Box::new(Deltas::new(None)))
            } else {
                SourceState::Text(Utf8::new())
            };
        }
        let bytes = if head.is_empty() { bytes } else { &head };
        match &mut self.state {
            SourceState::Undecided(_) => Ok(()),
            SourceState::Text(utf8) => feed_text(utf8, bytes, text),
            SourceState::Deltas(deltas) => deltas.feed(bytes, self.slot, text),
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
            SourceState::Deltas(deltas) => deltas.finish(self.slot, text),
        }
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

/// Returns whether a body with this beginning is an event stream; `None` if the beginning is too
/// short.
fn is_event_stream(head: &[u8]) -> Option<bool> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let blank = head
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
        .count();
    let first = head.get(blank..).unwrap_or_default();
    if FIELDS.iter().any(|field| first.starts_with(field)) {
        return Some(true);
    }
    let is_open =
        FIELDS.iter().any(|field| field.starts_with(first)) || BYTE_ORDER_MARK.starts_with(head);
    (!is_open || head.len() > BLANK).then_some(false)
}

/// After this many bytes of white space, no event stream is expected.
const BLANK: usize = 4096;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first bytes of a line in an event stream. A JSON text never begins with them.
const FIELDS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];

#[cfg(test)]
mod tests {
    use super::{Dialect, Refusal, SlotId, Source, is_event_stream};

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
        let mut source = Source::new(Dialect::Auto, SlotId::default());
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
