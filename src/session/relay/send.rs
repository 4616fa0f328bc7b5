//! Sends raw bytes of the upstream and written events to the client.

use std::time::Duration;

use bytes::Bytes;
use memchr::memrchr;

use super::{Output, Relay};
use crate::provider::wire::{Framing, Writer};
use crate::session::LimitReached;

/// The state of the client's stream.
#[derive(Debug)]
pub(super) struct Client {
    /// The client has received an event, or a part of one.
    pub(super) has_event: bool,
    /// A chunk with a choice: the client knows the answer's id and role.
    pub(super) introduced: bool,
    /// It has received the upstream's finish reasons of all choices, or the end of the stream.
    pub(super) finish: bool,
    /// The choices whose finish reasons it has received from the upstream.
    pub(super) finished: Vec<u32>,
    /// It has received the upstream's `[DONE]`.
    pub(super) done: bool,
    /// The limit on its side that ends the answer.
    pub(super) limit: Option<LimitReached>,
    /// The position in a line at which the last sent bytes end.
    pub(super) at: LinePlace,
    /// The time of the last sent bytes.
    pub(super) sent_at: Duration,
}

impl Client {
    /// Returns whether the client has received the upstream's own end of the answer.
    pub(super) fn has_end(&self) -> bool {
        self.finish || self.done
    }

    pub(super) fn new() -> Self {
        Self {
            has_event: false,
            introduced: false,
            finish: false,
            finished: Vec::new(),
            done: false,
            limit: None,
            at: LinePlace::Block,
            sent_at: Duration::ZERO,
        }
    }
}

/// A position in the lines of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePlace {
    /// After an empty line or at the beginning; in an event stream, between two events.
    Block,
    /// After another line.
    Line,
    /// Inside a comment.
    Comment,
    /// Inside another line.
    Other,
}

impl LinePlace {
    pub(super) fn is_at_line(self) -> bool {
        matches!(self, Self::Block | Self::Line)
    }

    /// Returns the position after these bytes. Only their last two lines matter.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        if bytes.ends_with(b"\n\n") {
            // Nearly all chunks end so.
            return Self::Block;
        }
        let (from, last) = match memrchr(b'\n', bytes) {
            None => (self, bytes),
            Some(end) => {
                let (before, last) = bytes.split_at(end);
                let line = memrchr(b'\n', before).map_or(before, |start| &before[start + 1..]);
                let is_empty =
                    matches!(line, b"" | b"\r") && (line.len() < before.len() || self.is_at_line());
                (if is_empty { Self::Block } else { Self::Line }, &last[1..])
            }
        };
        match last {
            // The carriage return before the end of an empty line.
            b"" | b"\r" => from,
            [b':', ..] if from.is_at_line() => Self::Comment,
            _ if from.is_at_line() => Self::Other,
            _ => from,
        }
    }

    /// Returns whether bytes that follow here have more than comments and empty lines.
    pub(super) fn has_more_than_comments(self, bytes: &[u8]) -> bool {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let is_more = |line: &[u8]| {
            line.first()
                .is_some_and(|first| !matches!(first, b':' | b'\r'))
        };
        let is_first_more = match self {
            Self::Block | Self::Line => is_more(first),
            Self::Comment => false,
            Self::Other => !first.is_empty(),
        };
        is_first_more || lines.any(is_more)
    }
}

impl Relay {
    /// Forwards raw bytes up to an absolute offset, except held-back ones.
    pub(super) fn forward(&mut self, now: Duration, to: u64) {
        let to = self.call.held.as_ref().map_or(to, |held| held.from.min(to));
        for bytes in self.call.raw.take_to(to) {
            self.client.has_event |= !bytes.is_empty();
            self.send(now, bytes);
        }
    }

    /// Forwards the bytes before the block that ends at an absolute offset.
    pub(super) fn forward_before(&mut self, now: Duration, end: u64) {
        let start = self.call.raw.start_of_block(end);
        self.forward(now, start);
    }

    pub(super) fn write(
        &mut self,
        now: Duration,
        write: impl FnOnce(&mut dyn Writer, &mut Vec<u8>),
    ) {
        let mut out = Vec::new();
        write(&mut *self.writer, &mut out);
        self.send_events(now, out);
    }

    /// Writes a chunk with text, if there is any.
    pub(super) fn write_text(&mut self, now: Duration, text: &str) {
        if !text.is_empty() {
            let slot = self.slots.slot();
            self.write(now, |writer, out| writer.text(out, slot, text));
            self.client.introduced = true;
        }
    }

    pub(super) fn keep_alive(&mut self, now: Duration) {
        let mut out = Vec::new();
        self.writer.keep_alive(&mut out);
        self.send(now, out.into());
    }

    /// Sends events that were written.
    pub(super) fn send_events(&mut self, now: Duration, events: Vec<u8>) {
        let mut events = events;
        if self.framing() == Framing::Array
            && let Some(comma) = events.first_mut()
            && !std::mem::replace(&mut self.client.has_event, true)
        {
            *comma = b'[';
        }
        self.send(now, events.into());
    }

    pub(super) fn send(&mut self, now: Duration, bytes: Bytes) {
        if !bytes.is_empty() {
            self.client.sent_at = now;
            self.client.at = self.client.at.after(&bytes);
            self.outputs.push_back(Output::Bytes(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads byte by byte; `after` looks at the last lines only.
    #[test]
    fn the_place_in_lines_does_not_depend_on_the_pieces() {
        let texts = [
            "data: {\n\n",
            "data: {\r\n\r\n",
            ": ping\n\n",
            "\n\n\n",
            "data: a\n: b\n",
            "\r\n",
            "a\r\r\n",
            ": a\n\ndata: b",
            ":",
            "x",
        ];
        for text in texts {
            let mut line = Vec::new();
            let mut slow = LinePlace::Block;
            for (end, byte) in text.bytes().enumerate() {
                if byte == b'\n' {
                    slow = if matches!(&line[..], b"" | b"\r") {
                        LinePlace::Block
                    } else {
                        LinePlace::Line
                    };
                    line.clear();
                } else {
                    line.push(byte);
                    slow = match &line[..] {
                        b"\r" => slow,
                        [b':', ..] => LinePlace::Comment,
                        _ => LinePlace::Other,
                    };
                }
                for cut in 0..=end {
                    let (first, second) = text.as_bytes()[..=end].split_at(cut);
                    assert_eq!(
                        LinePlace::Block.after(first).after(second),
                        slow,
                        "{first:?} {second:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn comments_are_told_from_more() {
        for (at, bytes, is_more) in [
            (LinePlace::Block, ": ping\n\n", false),
            (LinePlace::Line, "\r\n: ping\r\n", false),
            (LinePlace::Comment, " goes on\n\n", false),
            (LinePlace::Comment, " goes on\ndata: a", true),
            (LinePlace::Other, "a", true),
            (LinePlace::Other, "\n: ping\n", false),
            (LinePlace::Block, ": ping\n\ndata: a", true),
        ] {
            assert_eq!(
                at.has_more_than_comments(bytes.as_bytes()),
                is_more,
                "{at:?} {bytes:?}"
            );
        }
    }
}
