//! The errors of the live adapters.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::error::{SourceLocation, SyntaxError};
use crate::paths::PatternError;
use crate::value::SnapshotError;
use crate::{Cut, Document};

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
        /// The error, with its offset from the start of the stream's text.
        error: SyntaxError,
        /// The same position as line, column, path and excerpt.
        place: SourceLocation,
    },
    /// The stream ended before the root was closed, or the answer was given up.
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
    /// Returns the JSON Pointer of the value that was due or open, or that does not have the
    /// requested type. `None` if the error is about no value.
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
            Self::Truncated(Cut {
                offset,
                state: crate::json::CutState::Start,
                ..
            }) => {
                write!(f, "the stream ended before any JSON (byte {offset})")
            }
            Self::Truncated(Cut { offset, path, .. }) if path.is_empty() => {
                write!(f, "the stream ended inside the root (byte {offset})")
            }
            Self::Truncated(Cut { offset, path, .. }) => {
                write!(f, "the stream ended at {path} (byte {offset})")
            }
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

/// Why the root is missing: the error of [`into_final`](super::LiveExt::into_final).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use restitch::live::LiveExt;
///
/// let cut = tokio_stream::iter([r#"{"from": "Vigo", "km": 51"#]);
/// let error = cut.into_final::<serde_json::Value>().await.unwrap_err();
/// assert!(error.is_cut());
/// // `51` may be the beginning of a longer number, so it is left out.
/// assert_eq!(error.closed(), Some(r#"{"from": "Vigo"}"#));
///
/// #[derive(serde::Deserialize)]
/// struct Trip {
///     from: String,
///     km: Option<u32>,
/// }
/// let trip: Trip = error.closed_as().unwrap();
/// assert_eq!((trip.from.as_str(), trip.km), ("Vigo", None));
/// # });
/// ```
#[derive(Debug)]
pub struct FinalError<E> {
    error: LiveError<E>,
    closed: Option<String>,
}

impl<E> FinalError<E> {
    /// `document`: the text up to the error.
    pub(super) fn new(error: LiveError<E>, document: &Document) -> Self {
        let is_of_text = !matches!(error, LiveError::Type(_) | LiveError::Pattern(_));
        Self {
            error,
            closed: is_of_text.then(|| document.complete()).flatten(),
        }
    }

    /// Whether the document is cut: the stream ended or failed before the root was closed, or the
    /// answer was given up.
    pub fn is_cut(&self) -> bool {
        matches!(self.error, LiveError::Truncated(_) | LiveError::Stream(_))
    }

    /// Returns the root up to the cut, or up to the malformed text, as valid JSON: see
    /// [`Document::complete`](crate::Document::complete). Elements may be missing, and the last
    /// string may be shorter than the model's, unless the error is about text after the root.
    /// `None` if no part of a root is certain, or if the root does not have the requested type.
    pub fn closed(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// Returns [`closed`](Self::closed) as a `T`. `None` if it is missing or not a `T`, for example
    /// because a field is missing.
    pub fn closed_as<T: DeserializeOwned>(&self) -> Option<T> {
        self.closed()
            .and_then(|text| serde_json::from_str(text).ok())
    }

    /// Returns the reason. [`LiveError::from`] takes it out.
    pub fn error(&self) -> &LiveError<E> {
        &self.error
    }
}

impl<E> From<FinalError<E>> for LiveError<E> {
    fn from(error: FinalError<E>) -> Self {
        error.error
    }
}

impl<E: fmt::Display> fmt::Display for FinalError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: std::error::Error + 'static> std::error::Error for FinalError<E> {
    /// Returns the source of the reason: the message already has the reason itself.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
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

    /// Returns the JSON Pointer of the value; for a snapshot, that of the innermost value that does
    /// not fit.
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
