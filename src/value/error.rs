//! Why a value is not what a type asks for: not yet, or not at all.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use super::View;

/// Why there is no snapshot.
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

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotErrorKind {
    /// Nothing of the value has come.
    Nothing,
    /// The type asks for something that has not come: a field, an element, the rest of a string. The value that it was
    /// asked of is still open.
    Early,
    /// The value is there and does not fit: no text that follows will help.
    Mismatch,
    /// More than 128 containers within each other were asked for.
    TooDeep,
}

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: SnapshotErrorKind,
    /// The innermost value is not known yet, which the path and mostly the kind come from.
    is_loose: bool,
    path: String,
    message: String,
}

impl SnapshotError {
    /// What kind of error it is.
    pub fn kind(&self) -> SnapshotErrorKind {
        self.0.kind
    }

    /// More text may help. That it will is not certain: of a value which is open and does not fit, only some errors are
    /// known to stay.
    pub fn is_early(&self) -> bool {
        matches!(self.0.kind, SnapshotErrorKind::Nothing | SnapshotErrorKind::Early)
    }

    /// JSON Pointer, from the root, of the innermost value that failed; of a value that is missing, what it is missing
    /// from.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What was wrong, in the words of the type that was asked for.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(super) fn nothing(pointer: &str) -> Self {
        Self::placed(SnapshotErrorKind::Nothing, pointer, "no value has come")
    }

    pub(super) fn nowhere(pointer: &str) -> Self {
        Self::placed(SnapshotErrorKind::Mismatch, pointer, "there is no such value")
    }

    pub(super) fn too_deep(view: View<'_>, limit: usize) -> Self {
        let message = format!("more than {limit} containers within each other");
        Self::placed(SnapshotErrorKind::TooDeep, &view.path(), &message)
    }

    /// An error that no text will mend, at the value that it is passed on by.
    pub(super) fn for_good(message: impl fmt::Display) -> Self {
        Self::loose(SnapshotErrorKind::Mismatch, message.to_string())
    }

    fn placed(kind: SnapshotErrorKind, path: &str, message: &str) -> Self {
        Self(Box::new(Inner { kind, is_loose: false, path: path.to_owned(), message: message.to_owned() }))
    }

    fn loose(kind: SnapshotErrorKind, message: String) -> Self {
        Self(Box::new(Inner { kind, is_loose: true, path: String::new(), message }))
    }

    /// It was raised while `view` was read. The first, innermost value that says so counts.
    pub(super) fn at(self, view: View<'_>) -> Self {
        self.raised(view, view.is_whole())
    }

    /// It was raised while the key of `view` was read, which is whole.
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

    /// What a value is never changes.
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // What serde_json calls it.
        let unexpected: &dyn fmt::Display = if unexpected == Unexpected::Unit { &"null" } else { &unexpected };
        Self::for_good(format_args!("invalid type: {unexpected}, expected {expected}"))
    }

    /// A key that has come twice has come.
    fn duplicate_field(field: &'static str) -> Self {
        Self::for_good(format_args!("duplicate field `{field}`"))
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, path, message, .. } = &*self.0;
        f.write_str(message)?;
        match path.as_str() {
            "" => f.write_str(" (at the root")?,
            path => write!(f, " (at {path}")?,
        }
        f.write_str(if *kind == SnapshotErrorKind::Early { ", which is not whole yet)" } else { ")" })
    }
}

impl fmt::Debug for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for SnapshotError {}
