//! The first bytes of a body whose content type is not that of events: a server may label a stream of events wrongly.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::time::timeout;

use super::response::{EVENT_STREAM, JSON, media_type, media_type_in_log};
use super::{Conversation, DecodedBody};
use crate::client::{Body, Error, Received};
use crate::provider::wire::Framing;
use crate::proxy::refusal::unreachable;

/// The format of a body, by its first bytes.
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
    /// Reads a body ahead until its first bytes show its format. They stay in the body. The client waits for them, since the head of
    /// the response depends on them: its content type, and whether the answer is kept.
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

    /// Reads the first bytes. `None`: more bytes decide. `is_all`: there are no more.
    fn read(bytes: &[u8], is_all: bool) -> Option<Self> {
        if !is_all && MARK.starts_with(bytes) {
            return None;
        }
        let text = bytes.strip_prefix(MARK).unwrap_or(bytes);
        let ends = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
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

    /// Returns the name in the log.
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

impl Conversation {
    /// Returns whether a stream of events was asked for and the content type names none. `framing`: what it names.
    pub(super) fn may_be_events(&self, framing: Option<Framing>) -> bool {
        let is_expected = self.request.stream && self.asked_by().wire().framing() == Framing::Events;
        is_expected && self.route.continues() && framing != Some(Framing::Events)
    }

    /// Answers with a response whose content type names no events, by its first bytes.
    pub(super) async fn by_first_bytes(
        self: Box<Self>,
        response: Response<Received>,
        framing: Option<Framing>,
    ) -> Response<Body> {
        let mut response = match self.decoded(response) {
            Ok(response) => response,
            Err(passed) => return *passed,
        };
        let opening = tokio::select! {
            opening = self.opening(response.body_mut()) => opening,
            // The stop ends the body of the response.
            () = self.exchange.ended() => {
                let mask = self.mask(None);
                return self.unread(response, mask);
            }
        };
        match (opening, framing) {
            (Err(cause), _) => {
                self.exchange.note_head(Err(&cause));
                self.count(None);
                unreachable(Some(self.dialect), &cause)
            }
            (Ok(Opening::Events), _) => {
                // A client that checks the content type takes the events, too.
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
                self.stream(response, Framing::Events).await
            }
            (Ok(_), Some(framing)) => self.stream(response, framing).await,
            (Ok(opening), None) => {
                tracing::warn!(
                    content_type = media_type_in_log(response.headers()),
                    first = opening.as_str(),
                    "an answer passes as it came, cut or not: it is not a stream of its API"
                );
                let is_json = opening == Opening::Json || media_type(response.headers()) == Some(JSON);
                let mask = if is_json { self.mask(None) } else { None };
                self.unread(response, mask)
            }
        }
    }

    /// Reads the first bytes of a body, in the time that the upstream has for them.
    pub(super) async fn opening(&self, body: &mut DecodedBody) -> Result<Opening, Error> {
        let limit = self.head_limit();
        timeout(limit.time, Opening::of(body)).await.map_err(|_| limit.into())
    }
}

/// The byte order mark that may begin a stream of events. The reader of events skips it.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The beginnings of the first line of a stream of events: the name of a field, or a comment.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Bytes that are read ahead. A mark and the longest field have nine; the others are room for empty lines, which some servers
/// write every few seconds until their model begins.
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
            (":", Opening::Events),
            ("event: message_start", Opening::Events),
            ("id: 1\n", Opening::Events),
            ("retry: 5\n", Opening::Events),
            ("\u{feff}data: x", Opening::Events),
            ("\u{feff}\r\n\n\rdata: x", Opening::Events),
            ("{\"a\": 1}", Opening::Json),
            ("\n [1]", Opening::Json),
            ("<html>", Opening::Markup),
            ("datum", Opening::Text),
            ("internal error", Opening::Text),
            ("é", Opening::Text),
            ("\u{1}", Opening::Binary),
            ("", Opening::Blank),
            ("\r\n", Opening::Blank),
            ("\u{feff}", Opening::Blank),
        ] {
            assert_eq!(Opening::read(text.as_bytes(), true), Some(opening), "{text:?}");
            // Its chunks do not matter: each beginning says the same, or nothing yet.
            for end in 0..text.len() {
                let read = Opening::read(&text.as_bytes()[..end], false);
                assert!(read.is_none_or(|read| read == opening || opening == Opening::Json), "{text:?} {end} {read:?}");
            }
        }
        assert_eq!(Opening::read(b"\x1f\x8b\x08", true), Some(Opening::Binary));
        assert_eq!(Opening::read(b"\xff\xfe", true), Some(Opening::Binary));
    }

    #[test]
    fn what_can_still_become_events_waits() {
        for text in ["", "\n", "\r\n\r\n", "d", "data", "event", "i", "retry", "\u{feff}", "\u{feff}\nda"] {
            assert_eq!(Opening::read(text.as_bytes(), false), None, "{text:?}");
        }
        assert_eq!(Opening::read(b"\xef\xbb", false), None);
        assert_eq!(Opening::read(&[b'\n'; LONGEST], true), Some(Opening::Blank));
    }
}
