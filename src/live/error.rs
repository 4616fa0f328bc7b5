//! The errors of the live adapters.

use std::fmt;

use crate::Cut;
use crate::error::{Place, SyntaxError};
use crate::paths::PatternError;
use crate::value::SnapshotError;

/// Why an adapter has no next item.
///
/// [`Type`](Self::Type) is about one value, and the adapter continues after it. Every other error is the last item,
/// after everything that was read before it.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveError<E> {
    /// The stream failed.
    Stream(E),
    /// The text is not JSON.
    Syntax {
        /// What is wrong, and its offset from the start of the stream's text.
        error: SyntaxError,
        /// The same place as line, column, path and excerpt.
        place: Place,
    },
    /// The stream ended before the root was closed.
    Truncated(Cut),
    /// The bytes are not UTF-8.
    Encoding {
        /// The offset of the first invalid byte, from the start of the stream's text.
        offset: usize,
    },
    /// A value does not have the requested type.
    Type(TypeError),
    /// The pattern is invalid.
    Pattern(PatternError),
}

impl<E> LiveError<E> {
    /// Returns the JSON Pointer of the value that was due or open, or that does not have the requested type. `None`
    /// where the error is about no value.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Syntax { place, .. } => Some(&place.path),
            Self::Truncated(cut) => Some(&cut.path),
            Self::Type(error) => Some(error.path()),
            _ => None,
        }
    }

    /// Returns the offset of the error, in bytes from the start of the stream's text.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::Syntax { error, .. } => Some(error.offset),
            Self::Truncated(cut) => Some(cut.offset),
            Self::Encoding { offset } => Some(*offset),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for LiveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => write!(f, "the stream failed: {error}"),
            Self::Syntax { error, place } => write!(f, "{}, {place}", error.kind),
            Self::Truncated(Cut { offset, state: crate::json::CutState::Start, .. }) => {
                write!(f, "the stream ended before any JSON (byte {offset})")
            }
            Self::Truncated(Cut { offset, path, .. }) if path.is_empty() => {
                write!(f, "the stream ended inside the root (byte {offset})")
            }
            Self::Truncated(Cut { offset, path, .. }) => write!(f, "the stream ended at {path} (byte {offset})"),
            Self::Encoding { offset } => write!(f, "not UTF-8 (byte {offset})"),
            Self::Type(error) => write!(f, "{error}"),
            Self::Pattern(error) => write!(f, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LiveError<E> {
    /// Returns the source of the error inside. That error itself is part of the message already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => error.source(),
            Self::Syntax { error, .. } => error.source(),
            Self::Type(error) => error.source(),
            Self::Pattern(error) => error.source(),
            Self::Truncated(_) | Self::Encoding { .. } => None,
        }
    }
}

/// A value does not have the requested type.
#[derive(Debug)]
pub struct TypeError(Reason);

#[derive(Debug)]
enum Reason {
    Snapshot(SnapshotError),
    /// The path is that of the value that was parsed.
    Json(String, serde_json::Error),
}

impl TypeError {
    pub(super) fn snapshot(error: SnapshotError) -> Self {
        Self(Reason::Snapshot(error))
    }

    pub(super) fn json(path: &str, error: serde_json::Error) -> Self {
        Self(Reason::Json(path.to_owned(), error))
    }

    /// Returns the JSON Pointer of the value; for a snapshot, that of the innermost value that does not fit.
    pub fn path(&self) -> &str {
        match &self.0 {
            Reason::Snapshot(error) => error.path(),
            Reason::Json(path, _) => path,
        }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Snapshot(error) => write!(f, "{error}"),
            Reason::Json(path, error) if path.is_empty() => write!(f, "the root: {error}"),
            Reason::Json(path, error) => write!(f, "{path}: {error}"),
        }
    }
}

impl std::error::Error for TypeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Reason::Snapshot(error) => error.source(),
            Reason::Json(_, error) => error.source(),
        }
    }
}
