//! The open containers, and their path.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::event::Span;
use super::string;

/// The type of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
}

impl Kind {
    /// Returns the name in reports: `object`, `array`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
        }
    }

    /// Returns the opening bracket.
    pub fn opener(self) -> char {
        match self {
            Self::Object => '{',
            Self::Array => '[',
        }
    }

    /// Returns the closing bracket.
    pub fn closer(self) -> char {
        match self {
            Self::Object => '}',
            Self::Array => ']',
        }
    }
}

impl Kind {
    /// Returns the closing bracket as a byte.
    #[inline(always)]
    pub(super) fn closer_byte(self) -> u8 {
        match self {
            Self::Array => b']',
            Self::Object => b'}',
        }
    }
}

/// One open container. All offsets are bytes from the start of the text that the machine reads.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Object or array.
    pub kind: Kind,
    /// The offset of the opening bracket.
    pub start: usize,
    /// In an object: the newest key, between its quotes. Empty, at offset 0, before the first key.
    pub key: Span,
    /// The number of whole children. The child that is due or open has this index.
    pub count: usize,
    /// The offset after the last whole child, or after the bracket if it has no children.
    pub end: usize,
    /// Whether the key may hold escapes; without them it needs no decoding. This is a hint: a
    /// character that was split over two pushes may set it too.
    pub(super) is_escaped: bool,
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        let all = |frame: &Self| (frame.kind, frame.start, frame.key, frame.count, frame.end);
        all(self) == all(other)
    }
}

impl Eq for Frame {}

impl Frame {
    /// Returns a frame from known parts.
    pub fn known(kind: Kind, start: usize, key: Span, count: usize, end: usize) -> Self {
        Self {
            kind,
            start,
            key,
            count,
            end,
            is_escaped: true,
        }
    }

    pub(super) fn open(kind: Kind, start: usize) -> Self {
        Self {
            kind,
            start,
            key: Span::default(),
            count: 0,
            end: start + 1,
            is_escaped: false,
        }
    }
}

/// A JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) as a view of the open
/// containers. Its `Display` writes the pointer.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    pub(super) frames: &'a [Frame],
    pub(super) text: &'a str,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment<'a> {
    /// A member of an object, with its decoded key.
    Key(Cow<'a, str>),
    /// An element of an array.
    Index(usize),
}

impl PathSegment<'_> {
    /// Decodes a reference token as a key. In the other order `~01` would become a slash.
    pub(crate) fn read_key(written: &str) -> String {
        written.replace("~1", "/").replace("~0", "~")
    }

    /// Reads a reference token as an index: digits without a leading zero.
    pub(crate) fn read_index(written: &str) -> Option<usize> {
        let is_index = written == "0"
            || (!written.starts_with('0') && written.bytes().all(|b| b.is_ascii_digit()));
        written.parse().ok().filter(|_| is_index)
    }
}

impl<'a> Path<'a> {
    /// Returns the steps, from the root on.
    #[doc(hidden)]
    pub fn tokens(
        &self,
    ) -> impl DoubleEndedIterator<Item = PathSegment<'a>> + ExactSizeIterator + use<'a> {
        let text = self.text;
        self.frames.iter().map(move |frame| match frame.kind {
            Kind::Array => PathSegment::Index(frame.count),
            Kind::Object if frame.is_escaped => PathSegment::Key(string::key(frame.key.of(text))),
            Kind::Object => PathSegment::Key(Cow::Borrowed(frame.key.of(text))),
        })
    }

    /// Returns the number of steps; the root's path has none.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether this is the root's path.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl fmt::Display for PathSegment<'_> {
    /// Writes a reference token: `~` and `/` are escaped (RFC 6901, section 3).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Key(key) => {
                let mut rest = key.as_ref();
                while let Some(at) = rest.find(['~', '/']) {
                    f.write_str(&rest[..at])?;
                    f.write_str(if rest[at..].starts_with('~') {
                        "~0"
                    } else {
                        "~1"
                    })?;
                    rest = &rest[at + 1..];
                }
                f.write_str(rest)
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens().try_for_each(|token| write!(f, "/{token}"))
    }
}

impl fmt::Debug for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Appends one reference token of a JSON Pointer: the child of `frame` that is due or open.
pub(super) fn push_token(path: &mut String, frame: &Frame, text: &str) {
    let frames = std::slice::from_ref(frame);
    // Writing to a string does not fail.
    let _ = write!(path, "{}", Path { frames, text });
}
