//! Why a value does not fit a type: not yet, or not at all.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use super::View;
use crate::error::{SourceLocation, SyntaxErrorKind};

/// Why a snapshot failed.
///
/// ```
/// use restitch::value::{LiveValue, SnapshotErrorKind};
///
/// let (mut document, mut value) = (restitch::Document::new(64), LiveValue::new());
/// document.push_with(r#"{"size": [640"#, &mut value)?;
/// document.push_with(", ", &mut value)?;
/// let error = value.snapshot_at::<(u32, u32)>("/size").unwrap_err();
/// assert!(error.is_early());
/// let error = value.snapshot_at::<(String, String)>("/size").unwrap_err();
/// assert_eq!((error.kind(), error.path()), (SnapshotErrorKind::Mismatch, "/size/0"));
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SnapshotError(Box<Inner>);

/// A kind of [`SnapshotError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotErrorKind {
    /// Nothing of the value was received.
    Nothing,
    /// The type asks for something that was not received: a field, an element, the rest of a
    /// string. The value that should hold it is still open.
    Early,
    /// The value does not fit, and no further text will change that.
    Mismatch,
    /// The type asks for more than 128 nested containers.
    TooDeep,
    /// The text is not JSON. Only of [`from_partial_str`](super::from_partial_str).
    Malformed,
}

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: SnapshotErrorKind,
    /// The error does not know the innermost value yet. That value gives the path, and usually the
    /// type.
    is_loose: bool,
    path: String,
    message: String,
    place: Option<SourceLocation>,
}

impl SnapshotError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> SnapshotErrorKind {
        self.0.kind
    }

    /// Returns whether more text may help. It is not certain to help: only some errors about an
    /// open value are known to be final.
    pub fn is_early(&self) -> bool {
        matches!(
            self.0.kind,
            SnapshotErrorKind::Nothing | SnapshotErrorKind::Early
        )
    }

    /// Returns the JSON Pointer of the innermost value that failed, from the root; for a missing
    /// value, that of its container.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the error message of the type.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns where the value begins that failed, or where the text is malformed. `None` if nothing
    /// of the value was received, and for the snapshot of a live value, which has no text.
    pub fn place(&self) -> Option<&SourceLocation> {
        self.0.place.as_ref()
    }

    pub(super) fn malformed(kind: SyntaxErrorKind, mut place: SourceLocation) -> Self {
        let path = std::mem::take(&mut place.path);
        Self::placed(SnapshotErrorKind::Malformed, &path, &kind.to_string()).placed_at(Some(place))
    }

    /// Adds the location in the text.
    pub(super) fn placed_at(mut self, place: Option<SourceLocation>) -> Self {
        self.0.place = place.map(|place| SourceLocation {
            // The error has the path.
            path: String::new(),
            ..place
        });
        self
    }

    pub(super) fn nothing(pointer: &str) -> Self {
        Self::placed(SnapshotErrorKind::Nothing, pointer, "no value was received")
    }

    pub(super) fn nowhere(pointer: &str) -> Self {
        Self::placed(
            SnapshotErrorKind::Mismatch,
            pointer,
            "there is no such value",
        )
    }

    pub(super) fn too_deep(view: View<'_>, limit: usize) -> Self {
        let message = format!("more than {limit} nested containers");
        Self::placed(SnapshotErrorKind::TooDeep, &view.path(), &message)
    }

    /// Returns an error that no further text will cure. The caller adds the value.
    pub(super) fn for_good(message: impl fmt::Display) -> Self {
        Self::loose(SnapshotErrorKind::Mismatch, message.to_string())
    }

    fn placed(kind: SnapshotErrorKind, path: &str, message: &str) -> Self {
        Self(Box::new(Inner {
            kind,
            is_loose: false,
            path: path.to_owned(),
            message: message.to_owned(),
            place: None,
        }))
    }

    fn loose(kind: SnapshotErrorKind, message: String) -> Self {
        Self(Box::new(Inner {
            kind,
            is_loose: true,
            path: String::new(),
            message,
            place: None,
        }))
    }

    /// Adds the value that was read when the error was raised. The first call counts: it names the
    /// innermost value.
    pub(super) fn at(self, view: View<'_>) -> Self {
        self.raised(view, view.is_whole())
    }

    /// Adds the member whose key was read when the error was raised. The key is complete.
    pub(super) fn at_key(self, view: View<'_>) -> Self {
        self.raised(view, true)
    }

    fn raised(mut self, view: View<'_>, is_whole: bool) -> Self {
        if std::mem::take(&mut self.0.is_loose) {
            self.0.path = view.path();
            if is_whole {
                self.0.kind = SnapshotErrorKind::Mismatch;
            }
        }
        self
    }
}

impl Error for SnapshotError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::loose(SnapshotErrorKind::Early, message.to_string())
    }

    /// The type of a value never changes.
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // The name that serde_json uses.
        let unexpected: &dyn fmt::Display = if unexpected == Unexpected::Unit {
            &"null"
        } else {
            &unexpected
        };
        Self::for_good(format_args!(
            "invalid type: {unexpected}, expected {expected}"
        ))
    }

    /// A repeated key stays repeated.
    fn duplicate_field(field: &'static str) -> Self {
        Self::for_good(format_args!("duplicate field `{field}`"))
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            path,
            message,
            place,
            ..
        } = &*self.0;
        f.write_str(message)?;
        match path.as_str() {
            "" => f.write_str(" (at the root")?,
            path => write!(f, " (at {path}")?,
        }
        f.write_str(if *kind == SnapshotErrorKind::Early {
            ", which is not complete yet)"
        } else {
            ")"
        })?;
        place
            .as_ref()
            .map_or(Ok(()), |place| write!(f, ", {place}"))
    }
}

impl fmt::Debug for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for SnapshotError {}
