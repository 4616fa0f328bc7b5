//! Text out of bytes that come piece by piece: as they are, or as the deltas of an event stream.

use std::fmt;
use std::mem;
use std::str::FromStr;

use clap::ValueEnum;

use super::decode::{Error, says_chat};
use crate::Limits;
use crate::provider::chat::Reader;
use crate::provider::{Delta, Kind};
use crate::sse::{DecodeError, Decoder};

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Dialect {
    /// Told by the first bytes: an event stream begins with the name of a field, or with a comment.
    Auto,
    /// The text itself.
    Text,
    /// An event stream of chat completions, whose deltas are the text.
    Chat,
}

/// Which text of an event stream: `CHOICE`, or `CHOICE.TOOL` for the arguments of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    choice: u32,
    tool: Option<u32>,
}

impl FromStr for Slot {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse().map_err(|_| "a slot is CHOICE or CHOICE.TOOL: 0, 1, 0.0");
        let (choice, tool) = text.split_once('.').map_or((text, None), |(choice, tool)| (choice, Some(tool)));
        Ok(Self { choice: number(choice)?, tool: tool.map(number).transpose()? })
    }
}

/// Bytes go in, text comes out as soon as it is certain.
#[derive(Debug)]
pub(super) struct Source {
    slot: Slot,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The bytes so far, which don't tell yet what they are.
    Undecided(Vec<u8>),
    /// The beginning of a character whose end has not come.
    Text(Vec<u8>),
    Events(Box<Events>),
}

/// Why no more text comes.
#[derive(Debug)]
pub(super) enum Refusal {
    /// These bytes are no UTF-8, or the text ends inside a character.
    Encoding(Vec<u8>),
    /// A line or an event of the stream is over its cap.
    Stream(DecodeError),
    /// The server reports an error inside the stream.
    Server(String),
    /// Nothing in the stream is of chat completions.
    Wire,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding(_) => f.write_str("the text is not UTF-8"),
            Self::Stream(error) => error.fmt(f),
            Self::Server(message) => write!(f, "the server reports an error: {message}"),
            Self::Wire => Error::UnknownDialect.fmt(f),
        }
    }
}

impl Source {
    pub(super) fn new(dialect: Dialect, slot: Slot) -> Self {
        let state = match dialect {
            Dialect::Auto => State::Undecided(Vec::new()),
            Dialect::Text => State::Text(Vec::new()),
            Dialect::Chat => State::events(Some(true)),
        };
        Self { slot, state }
    }

    /// It has turned out to be an event stream.
    pub(super) fn is_events(&self) -> bool {
        matches!(self.state, State::Events(_))
    }

    /// Takes the next bytes, and appends what they say to `text`.
    ///
    /// # Errors
    /// Why nothing more will come. What came before is in `text`.
    pub(super) fn feed(&mut self, bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
        let mut head = Vec::new();
        if let State::Undecided(begun) = &mut self.state {
            begun.extend_from_slice(bytes);
            let Some(is_events) = is_event_stream(begun) else { return Ok(()) };
            head = mem::take(begun);
            self.state = if is_events { State::events(None) } else { State::Text(Vec::new()) };
        }
        let bytes = if head.is_empty() { bytes } else { &head };
        match &mut self.state {
            State::Undecided(_) => Ok(()),
            State::Text(open) => feed_text(open, bytes, text),
            State::Events(events) => events.feed(bytes, self.slot, text),
        }
    }

    /// No more bytes come.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn finish(&mut self, text: &mut String) -> Result<(), Refusal> {
        match &mut self.state {
            State::Undecided(begun) => {
                let mut open = Vec::new();
                feed_text(&mut open, &mem::take(begun), text)?;
                if open.is_empty() { Ok(()) } else { Err(Refusal::Encoding(open)) }
            }
            State::Text(open) if open.is_empty() => Ok(()),
            State::Text(open) => Err(Refusal::Encoding(mem::take(open))),
            State::Events(events) => events.finish(self.slot, text),
        }
    }
}

impl State {
    fn events(is_chat: Option<bool>) -> Self {
        let decoder = Decoder::new(&Limits::default());
        let answer = Answer { is_chat, ..Answer::default() };
        Self::Events(Box::new(Events { decoder, reader: Reader::new(), answer }))
    }
}

/// Appends whole characters to `text`, and keeps the beginning of the last one in `open`.
fn feed_text(open: &mut Vec<u8>, bytes: &[u8], text: &mut String) -> Result<(), Refusal> {
    let mut joined = mem::take(open);
    let bytes = if joined.is_empty() {
        bytes
    } else {
        joined.extend_from_slice(bytes);
        &joined
    };
    let Err(error) = std::str::from_utf8(bytes).map(|valid| text.push_str(valid)) else { return Ok(()) };
    let (valid, rest) = bytes.split_at(error.valid_up_to());
    text.push_str(std::str::from_utf8(valid).unwrap_or_default());
    if error.error_len().is_some() {
        // The longest character has four bytes: no more are looked at.
        return Err(Refusal::Encoding(rest.iter().take(4).copied().collect()));
    }
    open.extend_from_slice(rest);
    Ok(())
}

/// Whether a body that begins so is an event stream; `None` where more must come.
fn is_event_stream(head: &[u8]) -> Option<bool> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let blank = head.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
    let first = head.get(blank..).unwrap_or_default();
    if FIELDS.iter().any(|field| first.starts_with(field)) {
        return Some(true);
    }
    let is_open = FIELDS.iter().any(|field| field.starts_with(first)) || BYTE_ORDER_MARK.starts_with(head);
    (!is_open || head.len() > BLANK).then_some(false)
}

/// Bytes of white space behind which nobody waits for an event stream any more.
const BLANK: usize = 4096;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a line of an event stream begins with. No JSON text does.
const FIELDS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];

#[derive(Debug)]
struct Events {
    decoder: Decoder,
    reader: Reader,
    answer: Answer,
}

/// What the events have said.
#[derive(Debug, Default)]
struct Answer {
    /// As `decode` has it: said by an event that only one wire has, else by whether one was understood.
    is_chat: Option<bool>,
    has_spoken: bool,
    error: Option<String>,
}

impl Events {
    fn feed(&mut self, mut bytes: &[u8], slot: Slot, text: &mut String) -> Result<(), Refusal> {
        while let Some(event) = self.decoder.next_event(&mut bytes).map_err(Refusal::Stream)? {
            self.answer.read(&mut self.reader, &event.event, &event.data, slot, text)?;
        }
        Ok(())
    }

    fn finish(&mut self, slot: Slot, text: &mut String) -> Result<(), Refusal> {
        // As `decode` has it, an event that the end cuts off counts.
        if let Some(event) = self.decoder.finish().map_err(Refusal::Stream)? {
            self.answer.read(&mut self.reader, &event.event, &event.data, slot, text)?;
        }
        if self.answer.is_chat.unwrap_or(self.answer.has_spoken) { Ok(()) } else { Err(Refusal::Wire) }
    }
}

impl Answer {
    fn read(
        &mut self,
        reader: &mut Reader,
        event_type: &str,
        data: &str,
        slot: Slot,
        text: &mut String,
    ) -> Result<(), Refusal> {
        let kind = reader.read(event_type, data, |delta| match delta {
            Delta::Text { choice, text: new } if slot == (Slot { choice, tool: None }) => text.push_str(new),
            Delta::ToolCall { choice, index, arguments, .. } if slot == (Slot { choice, tool: Some(index) }) => {
                text.push_str(arguments);
            }
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            _ => {}
        });
        self.has_spoken |= kind != Kind::Other;
        if self.is_chat != Some(true) {
            self.is_chat = says_chat(data).or(self.is_chat);
        }
        self.error.take().map_or(Ok(()), |message| Err(Refusal::Server(message)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Refusal, Slot, Source, is_event_stream};

    #[test]
    fn the_first_bytes_tell() {
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
        let mut source = Source::new(Dialect::Auto, Slot { choice: 0, tool: None });
        let mut text = String::new();
        let fed = pieces.iter().try_for_each(|piece| source.feed(piece, &mut text));
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
            assert!(matches!(&result, Err(Refusal::Encoding(rest)) if rest == bytes), "{result:?}");
            assert_eq!(got, text);
        }
    }

    #[test]
    fn slots_are_read() {
        assert_eq!("1".parse(), Ok(Slot { choice: 1, tool: None }));
        assert_eq!("0.12".parse(), Ok(Slot { choice: 0, tool: Some(12) }));
        for text in ["", ".", "0.", ".0", "a", "0.0.0", "-1"] {
            assert!(text.parse::<Slot>().is_err(), "{text}");
        }
    }
}
