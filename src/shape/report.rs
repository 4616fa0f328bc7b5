//! What came of a whole text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::Attempt;
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::repair::{Repair, RepairStatus};

/// A whole text whose root was found and repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired<'t> {
    /// What the text turned out to be.
    pub status: RepairStatus,
    /// The repaired root; of a malformed one, the complete part. Empty where there is none.
    pub json: Cow<'t, str>,
    /// The bytes of the text that belong to the root.
    pub range: Range<usize>,
    /// The changes, in the order of the text. Their ranges are in bytes of the whole text.
    pub repairs: Vec<Repair>,
    /// The other roots of the text, in its order.
    pub others: Vec<Root<'t>>,
}

/// A root of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root<'t> {
    /// What the root turned out to be.
    pub status: RepairStatus,
    /// The root, repaired.
    pub json: Cow<'t, str>,
    /// The bytes of the text that belong to the root.
    pub range: Range<usize>,
}

/// The JSON of a response, in its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parsed<'t> {
    /// What was needed to read the text.
    pub attempt: Attempt,
    /// Valid, repaired, or truncated.
    pub status: RepairStatus,
    /// The value in its shape: its bytes as they were written or repaired. Text is a JSON string.
    pub json: Cow<'t, str>,
    /// The name of the shape that the value has, if it is known.
    pub shape: Option<String>,
    /// The bytes of the text that belong to the root.
    pub range: Range<usize>,
    /// The repairs of the root, in the order of the text.
    pub repairs: Vec<Repair>,
    /// The keys that were renamed.
    pub renamed: Vec<Renamed>,
    /// What is in the root, and not in `json`.
    pub dropped: Vec<Dropped>,
    /// The other roots of the text.
    pub others: Vec<Root<'t>>,
    /// In what the value is not what was expected.
    pub violations: Vec<Violation>,
}

/// A key that was renamed, because its shape has the key without backslashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Renamed {
    /// The JSON Pointer of the member in the root, with the key as it came.
    pub path: String,
    /// The key as it came, decoded.
    pub from: String,
    /// The key as it is now.
    pub to: String,
}

/// A member that was left out when another member of its object was taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dropped {
    /// The JSON Pointer of the member in the root.
    pub path: String,
    /// Its value.
    pub json: String,
}

/// A place where a value is not what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The JSON Pointer of the value.
    pub path: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Serialize for Root<'_> {
    /// As `{"status", "json", "range": [start, end]}`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut row = serializer.serialize_struct("Root", 3)?;
        row.serialize_field("status", status_name(self.status))?;
        row.serialize_field("json", &self.json)?;
        row.serialize_field("range", &[self.range.start, self.range.end])?;
        row.end()
    }
}

/// Returns the name of a status in reports: `valid`, `repaired`, `truncated`, `malformed`.
pub(crate) fn status_name(status: RepairStatus) -> &'static str {
    match status {
        RepairStatus::Valid => "valid",
        RepairStatus::Repaired => "repaired",
        RepairStatus::Truncated => "truncated",
        RepairStatus::Malformed(_) => "malformed",
    }
}

/// Why a response could not be parsed: attempt 5 of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// Where the text stops being JSON. `None` where nothing in it looks like JSON, or it ends before that.
    pub syntax: Option<SyntaxError>,
    /// The bytes of the text that were read as a root.
    pub range: Range<usize>,
}

impl ParseError {
    pub(super) fn malformed(error: SyntaxError, range: Range<usize>) -> Self {
        let is_prose = range.is_empty() && !matches!(error.kind, SyntaxErrorKind::TooDeep(_));
        Self { syntax: Some(error).filter(|_| !is_prose), range }
    }

    pub(super) fn nothing(end: usize) -> Self {
        Self { syntax: None, range: end..end }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.syntax {
            Some(error) => write!(f, "the JSON can't be repaired: {error}"),
            None => f.write_str("there is no JSON in the text"),
        }
    }
}

impl std::error::Error for ParseError {}
