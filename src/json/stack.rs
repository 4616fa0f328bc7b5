//! The open containers, and the path that they spell.

use std::borrow::Cow;

/// What a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
}

impl Kind {
    /// The byte that closes it.
    pub fn closer(self) -> char {
        match self {
            Self::Object => '}',
            Self::Array => ']',
        }
    }
}

/// One open container. All offsets count bytes from the start of what the machine was fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Object or array.
    pub kind: Kind,
    /// Offset of the opening bracket.
    pub start: usize,
    /// In an object: where the text of the newest key begins and ends, between its quotes. `(0, 0)` before the
    /// first one.
    pub key: (usize, usize),
    /// Children that are whole. The child that is due or open has this index.
    pub count: usize,
    /// Offset right after the last whole child; right after the bracket where there is none.
    pub end: usize,
}

impl Frame {
    pub(super) fn open(kind: Kind, start: usize) -> Self {
        Self { kind, start, key: (0, 0), count: 0, end: start + 1 }
    }
}

/// Appends one reference token of a JSON Pointer (RFC 6901, section 3): the child of `frame` that is due or open.
pub(super) fn push_token(path: &mut String, frame: &Frame, text: &str) {
    path.push('/');
    match frame.kind {
        Kind::Array => path.push_str(&frame.count.to_string()),
        Kind::Object => push_key(path, text.get(frame.key.0..frame.key.1).unwrap_or_default()),
    }
}

/// What a key says, from the text between its quotes.
pub(super) fn decoded(raw: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    // A lone surrogate has no text of its own: such a key is shown as it was written.
    serde_json::from_str(&format!("\"{raw}\"")).map_or(Cow::Borrowed(raw), Cow::Owned)
}

fn push_key(path: &mut String, raw: &str) {
    for c in decoded(raw).chars() {
        match c {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            c => path.push(c),
        }
    }
}
