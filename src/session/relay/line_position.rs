//! A position in the lines of a stream.

use memchr::memrchr;

/// A position in the lines of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePosition {
    /// After an empty line or at the beginning; in an event stream, between two events.
    Block,
    /// After another line.
    Line,
    /// Inside a comment.
    Comment,
    /// Inside another line.
    Other,
}

impl LinePosition {
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

/// The knowledge of whether a call's bytes are an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// At the beginning of a line. Only comments and empty lines precede it.
    Line,
    /// Inside a comment.
    Comment,
    /// Inside a word, which may be the name of a field.
    Name,
    /// A line has a field.
    Events,
    /// A line can't be a field: the body is JSON, markup, or a message.
    Other,
}

impl StreamStart {
    /// Returns the knowledge after these bytes.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        if matches!(self, Self::Events | Self::Other) {
            return self;
        }
        bytes.iter().fold(self, |state, byte| match (state, byte) {
            (Self::Events | Self::Other, _) => state,
            (Self::Name, b':' | b'\n' | b'\r') => Self::Events,
            (_, b'\n' | b'\r') => Self::Line,
            (Self::Comment, _) | (Self::Line, b':') => Self::Comment,
            // The byte order mark.
            (Self::Line, 0xEF | 0xBB | 0xBF) => Self::Line,
            (_, byte) if byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_') => Self::Name,
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_is_no_comment_shows_whether_events_follow() {
        use StreamStart::{Comment, Events, Line, Name, Other};
        for (text, expected) in [
            ("", Line),
            (": ping\r\n\n", Line),
            (": {", Comment),
            ("\u{feff}data", Name),
            ("data:", Events),
            ("foo\n", Events),
            ("\n: ping\n\n{", Other),
            ("[", Other),
            ("<", Other),
            ("upstream ", Other),
            ("\"", Other),
            (" data: 1", Other),
        ] {
            assert_eq!(Line.after(text.as_bytes()), expected, "{text:?}");
        }
    }

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
            let mut slow = LinePosition::Block;
            for (end, byte) in text.bytes().enumerate() {
                if byte == b'\n' {
                    slow = if matches!(&line[..], b"" | b"\r") {
                        LinePosition::Block
                    } else {
                        LinePosition::Line
                    };
                    line.clear();
                } else {
                    line.push(byte);
                    slow = match &line[..] {
                        b"\r" => slow,
                        [b':', ..] => LinePosition::Comment,
                        _ => LinePosition::Other,
                    };
                }
                for cut in 0..=end {
                    let (first, second) = text.as_bytes()[..=end].split_at(cut);
                    assert_eq!(
                        LinePosition::Block.after(first).after(second),
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
            (LinePosition::Block, ": ping\n\n", false),
            (LinePosition::Line, "\r\n: ping\r\n", false),
            (LinePosition::Comment, " goes on\n\n", false),
            (LinePosition::Comment, " goes on\ndata: a", true),
            (LinePosition::Other, "a", true),
            (LinePosition::Other, "\n: ping\n", false),
            (LinePosition::Block, ": ping\n\ndata: a", true),
        ] {
            assert_eq!(
                at.has_more_than_comments(bytes.as_bytes()),
                is_more,
                "{at:?} {bytes:?}"
            );
        }
    }
}
