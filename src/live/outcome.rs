//! How the text of a stream ended.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::LiveError;
use crate::json::CutState;
use crate::{Cut, Document};

/// How an adapter's text ended. [`Status`](crate::session::Status) and
/// [`CutCause`](crate::session::CutCause) use the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveOutcome {
    /// The root is closed. With [`Trailing::Next`](crate::Trailing::Next): the stream has ended,
    /// and each of its roots is closed.
    Complete,
    /// The text is cut: the stream ended or failed before the root was closed, or its answer was
    /// given up.
    Incomplete(Cut),
    /// The text is not JSON, or its bytes are not UTF-8.
    Malformed {
        /// The offset of the first such byte, from the start of the stream's text.
        offset: usize,
        /// The JSON Pointer of the value that was due or open there.
        path: String,
    },
}

impl LiveOutcome {
    /// Returns the outcome of a stream that ended with an error. `None` if the error is not about
    /// the text.
    pub(super) fn of<E>(error: &LiveError<E>, document: &Document) -> Option<Self> {
        match error {
            LiveError::Stream(_) => Some(Self::Incomplete(cut(document))),
            LiveError::Truncated(cut) => Some(Self::Incomplete(cut.clone())),
            LiveError::Syntax { error, place } => Some(Self::Malformed {
                offset: error.offset,
                path: place.path.clone(),
            }),
            LiveError::Encoding { offset } => Some(Self::Malformed {
                offset: *offset,
                path: document.path().to_string(),
            }),
            LiveError::Type(_) | LiveError::Pattern(_) => None,
        }
    }

    /// Returns the name in reports.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete(_) => "incomplete",
            Self::Malformed { .. } => "malformed",
        }
    }

    /// Returns the offset where the text ends, in bytes from the start of the stream's text. `None`
    /// if it is complete.
    fn offset(&self) -> Option<usize> {
        match self {
            Self::Complete => None,
            Self::Incomplete(cut) => Some(cut.offset),
            Self::Malformed { offset, .. } => Some(*offset),
        }
    }

    /// Returns the JSON Pointer of the value that was due or open where the text ends. `None` if it
    /// is complete.
    fn path(&self) -> Option<&str> {
        match self {
            Self::Complete => None,
            Self::Incomplete(cut) => Some(&cut.path),
            Self::Malformed { path, .. } => Some(path),
        }
    }
}

/// Returns where the text stops, in bytes from the start of the stream's text.
pub(super) fn cut(document: &Document) -> Cut {
    let mut cut = document.cut();
    cut.offset += document.base();
    cut
}

/// Writes `incomplete at /km (byte 8)`.
impl fmt::Display for LiveOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Incomplete(Cut {
                state: CutState::Start,
                ..
            }) => f.write_str(" before any JSON")?,
            _ => self
                .path()
                .filter(|path| !path.is_empty())
                .map_or(Ok(()), |path| write!(f, " at {path}"))?,
        }
        self.offset()
            .map_or(Ok(()), |offset| write!(f, " (byte {offset})"))
    }
}

/// Writes `status`, and `offset` and `path` unless it is complete.
impl Serialize for LiveOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("status", self.as_str())?;
        if let (Some(offset), Some(path)) = (self.offset(), self.path()) {
            map.serialize_entry("offset", &offset)?;
            map.serialize_entry("path", path)?;
        }
        map.end()
    }
}
