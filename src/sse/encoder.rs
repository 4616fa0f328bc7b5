//! Writes events and comments.
//!
//! Knows which text a line can carry, and ensures that no text becomes a line of its own. It has no
//! state: every call writes a whole block with its blank line, so blocks can be mixed with blocks
//! that are forwarded from an upstream.

use memchr::{memchr2, memchr3};

/// A writer that appends blocks of an event stream to a buffer, with LF as line end.
///
/// ```
/// use restitch::sse::Encoder;
///
/// let mut out = Vec::new();
/// Encoder::event(&mut out, Some("note"), Some("7"), "two\nlines");
/// Encoder::comment(&mut out, "ping");
/// assert_eq!(out, b"event: note\nid: 7\ndata: two\ndata: lines\n\n: ping\n\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Encoder;

impl Encoder {
    /// Writes an event.
    ///
    /// Each line of `data` becomes a `data` line, whether CR, LF or CRLF ends it; the reader sees
    /// LF. A type or an id that no line can carry (with a CR or LF, or a NUL in an id, which makes
    /// readers ignore it) is left out: a changed id would be a wrong one, and a line break would
    /// turn text into fields.
    pub fn event(out: &mut Vec<u8>, event: Option<&str>, id: Option<&str>, data: &str) {
        if let Some(event) = event.filter(|event| memchr2(b'\n', b'\r', event.as_bytes()).is_none())
        {
            line(out, b"event: ", event.as_bytes());
        }
        if let Some(id) = id.filter(|id| memchr3(b'\n', b'\r', 0, id.as_bytes()).is_none()) {
            line(out, b"id: ", id.as_bytes());
        }
        lines(out, b"data: ", data);
        out.push(b'\n');
    }

    /// Writes a comment, which readers skip; each line of `text` becomes a line of its own. It is a
    /// block without an event and must not be inside another block.
    pub fn comment(out: &mut Vec<u8>, text: &str) {
        lines(out, b": ", text);
        out.push(b'\n');
    }
}

/// Writes `text` line by line. Readers remove the space in `prefix`, so a line may begin with
/// another one.
fn lines(out: &mut Vec<u8>, prefix: &[u8], text: &str) {
    let mut rest = text.as_bytes();
    while let Some(end) = memchr2(b'\n', b'\r', rest) {
        let (text, tail) = rest.split_at(end);
        line(out, prefix, text);
        rest = tail
            .strip_prefix(b"\r\n")
            .or_else(|| tail.get(1..))
            .unwrap_or_default();
    }
    line(out, prefix, rest);
}

fn line(out: &mut Vec<u8>, prefix: &[u8], text: &[u8]) {
    out.extend_from_slice(prefix);
    out.extend_from_slice(text);
    out.push(b'\n');
}
