//! A text that may be cut, read as a type in one call.

use serde::de::DeserializeOwned;

use super::{LiveValue, SnapshotError};
use crate::document::{Document, Trailing};
use crate::envelope::AllowedRoots;
use crate::error::SourceLocation;
use crate::json::{Event, ParserView, Sink};
use crate::limits::ParserLimits;

/// Reads a JSON text that may be cut anywhere as a `T`.
///
/// From a cut text it reads the certain part, as [`LiveValue::snapshot`] does: an open string has its received text, and an unfinished
/// number, literal, escape or key is left out. A number is certain with the byte after it, also one
/// that is the root. Give fields that may be missing a `#[serde(default)]`.
///
/// A preamble and a Markdown fence may precede the root. A text that still grows is read more
/// cheaply with a [`LiveValue`], which reads nothing twice.
///
/// ```
/// use restitch::value::{SnapshotErrorKind, from_partial_str};
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Trip {
///     from: String,
///     #[serde(default)]
///     km: Vec<u32>,
/// }
///
/// let trip: Trip = from_partial_str(r#"{"from": "Vigo", "km": [51, 3"#)?;
/// assert_eq!((trip.from.as_str(), trip.km), ("Vigo", vec![51]));
///
/// let error = from_partial_str::<Trip>(r#"{"fro"#).unwrap_err();
/// assert!(error.is_early());
/// let error = from_partial_str::<Trip>("{\"from\":\n 51, ").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid type: integer `51`, expected a string (at /from), line 2, column 2 (byte 10): ` →51, `",
/// );
/// let error = from_partial_str::<Trip>(r#"{"from" "Vigo"}"#).unwrap_err();
/// assert_eq!((error.kind(), error.place().unwrap().column), (SnapshotErrorKind::Malformed, 9));
/// # Ok::<(), restitch::value::SnapshotError>(())
/// ```
///
/// # Errors
/// See [`SnapshotErrorKind`](super::SnapshotErrorKind). The error has the line and the column of the mistake, or of the value
/// that is not a `T`.
pub fn from_partial_str<T: DeserializeOwned>(text: &str) -> Result<T, SnapshotError> {
    let depth = ParserLimits::default().max_depth;
    let mut document = Document::with_options(depth, AllowedRoots::Any, Trailing::Error);
    let mut value = LiveValue::new();
    document
        .push_with(text, &mut value)
        .map_err(|error| SnapshotError::malformed(error.kind, document.explain(&error)))?;
    value.snapshot().map_err(|error| {
        let mut start = ValueStart {
            path: error.path(),
            offset: None,
        };
        document.replay(&mut start);
        let place = start.offset.map(|offset| SourceLocation::at(text, offset));
        error.placed_at(place)
    })
}

/// Finds where the first value with this path begins.
struct ValueStart<'a> {
    path: &'a str,
    offset: Option<usize>,
}

impl Sink for ValueStart<'_> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        if self.offset.is_none() && event.begins_value() && live.path().to_string() == self.path {
            self.offset = Some(event.span().start);
        }
    }
}
