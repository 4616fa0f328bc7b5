//! Detects the format of a body by its first bytes: a server may label an event stream with a wrong
//! content type.

use super::DecodedBody;

/// The format that the first bytes of a body show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A line of an event.
    Events,
    Json,
    Markup,
    Text,
    Binary,
    /// Nothing but white space.
    Blank,
}

impl Opening {
    /// Reads ahead until the first bytes of a body show its format, and leaves the bytes in the
    /// body. The client waits meanwhile, since two parts of the response's head depend on the
    /// format: the content type, and whether the answer is kept.
    pub(super) async fn of(body: &mut DecodedBody) -> Self {
        let mut seen = Vec::with_capacity(LONGEST);
        loop {
            let next = body.read_ahead().await;
            let bytes = next.as_deref().unwrap_or_default();
            seen.extend_from_slice(&bytes[..bytes.len().min(LONGEST - seen.len())]);
            if let Some(opening) = Self::read(&seen, next.is_none() || seen.len() == LONGEST) {
                return opening;
            }
        }
    }

    /// Reads the first bytes. `None`: more bytes are needed. `is_all`: there are no more.
    fn read(bytes: &[u8], is_all: bool) -> Option<Self> {
        if !is_all && MARK.starts_with(bytes) {
            return None;
        }
        let text = bytes.strip_prefix(MARK).unwrap_or(bytes);
        let ends = text
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        let line = &text[ends..];
        if FIELDS.iter().any(|field| line.starts_with(field)) {
            return Some(Self::Events);
        }
        if !is_all && FIELDS.iter().any(|field| field.starts_with(line)) {
            return None;
        }
        Some(match line.trim_ascii_start().first() {
            None => Self::Blank,
            Some(b'{' | b'[') => Self::Json,
            Some(b'<') => Self::Markup,
            Some(byte) if byte.is_ascii_control() || *byte >= 0xf8 => Self::Binary,
            Some(_) => Self::Text,
        })
    }

    /// Returns the format's name in the log.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Json => "json",
            Self::Markup => "markup",
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Blank => "blank",
        }
    }
}

/// The byte order mark that may begin an event stream. The event decoder skips it.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The prefixes of an event stream's first line: a field name or a comment.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// The most bytes that are read ahead. A byte order mark and the longest field take nine; the rest
/// is for the empty lines that some servers write every few seconds until their model begins.
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_decides() {
        for (text, opening) in [
            ("data: {}\n\n", Opening::Events),
            ("data:{", Opening::Events),
            (": ping\n\n", Opening::Events),
            ("event: message_start", Opening::Events),
            ("retry: 5\n", Opening::Events),
            ("\u{feff}data: x", Opening::Events),
            ("\u{feff}\r\n\n\rdata: x", Opening::Events),
            ("{\"a\": 1}", Opening::Json),
            ("\n [1]", Opening::Json),
            ("<html>", Opening::Markup),
            ("datum", Opening::Text),
            ("é", Opening::Text),
            ("\u{1}", Opening::Binary),
            ("", Opening::Blank),
            ("\u{feff}", Opening::Blank),
        ] {
            assert_eq!(
                Opening::read(text.as_bytes(), true),
                Some(opening),
                "{text:?}"
            );
            // Chunking does not matter: each prefix shows the same format, or none yet.
            for end in 0..text.len() {
                let read = Opening::read(&text.as_bytes()[..end], false);
                assert!(
                    read.is_none_or(|read| read == opening || opening == Opening::Json),
                    "{text:?} {end} {read:?}"
                );
            }
        }
        assert_eq!(Opening::read(b"\x1f\x8b\x08", true), Some(Opening::Binary));
        assert_eq!(Opening::read(b"\xff\xfe", true), Some(Opening::Binary));
    }

    #[test]
    fn what_can_still_become_events_waits() {
        for text in [
            "",
            "\n",
            "\r\n\r\n",
            "d",
            "data",
            "event",
            "i",
            "retry",
            "\u{feff}",
            "\u{feff}\nda",
        ] {
            assert_eq!(Opening::read(text.as_bytes(), false), None, "{text:?}");
        }
        assert_eq!(Opening::read(b"\xef\xbb", false), None);
        assert_eq!(Opening::read(&[b'\n'; LONGEST], true), Some(Opening::Blank));
    }
}
