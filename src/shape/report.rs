//! The result for a whole text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

use super::Attempt;
use crate::json::repair::{Repair, RepairStatus};

/// A whole text whose root was found and repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired<'t> {
    /// The status of the text.
    pub status: RepairStatus,
    /// The repaired root, or the complete part of a malformed root. Empty if the text holds no
    /// root.
    pub json: Cow<'t, str>,
    /// The bytes of the text that belong to the root.
    #[serde(skip)]
    pub range: Range<usize>,
    /// The changes, in the order of the text. Their ranges are in bytes of the whole text.
    pub repairs: Vec<Repair>,
    /// The other roots of the text, in its order.
    pub others: Vec<Root<'t>>,
}

/// A root of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Root<'t> {
    /// The status of the root.
    pub status: RepairStatus,
    /// The root, repaired.
    pub json: Cow<'t, str>,
    /// The bytes of the text that belong to the root.
    #[serde(serialize_with = "serialize_range")]
    pub range: Range<usize>,
}

/// The JSON of a response, in its shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Parsed<'t> {
    /// The effort of reading the text.
    pub attempt: Attempt,
    /// Valid, repaired, or truncated.
    pub status: RepairStatus,
    /// The value in its shape, with its bytes as written or repaired. Text is a JSON string.
    pub json: Cow<'t, str>,
    /// The name of the shape that the value has, if it is known.
    pub shape: Option<String>,
    /// The bytes of the text that belong to the root.
    #[serde(skip)]
    pub range: Range<usize>,
    /// The repairs of the root, in the order of the text.
    pub repairs: Vec<Repair>,
    /// The other roots of the text.
    pub others: Vec<Root<'t>>,
    /// The keys that were renamed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<Renamed>,
    /// The members of the root that `json` lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// The differences between the value and the expectation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// A key that was renamed, because its shape has the key without backslashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Renamed {
    /// The JSON Pointer of the member in the root, with the original key.
    pub path: String,
    /// The original key, decoded.
    pub from: String,
    /// The new key.
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

/// A difference between a value and the expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The JSON Pointer of the value.
    pub path: String,
    /// The message for people.
    pub message: String,
}

/// As `[start, end]`.
fn serialize_range<S: Serializer>(range: &Range<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    [range.start, range.end].serialize(serializer)
}

/// Why a response could not be parsed: attempt 5 of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// The offset where the text stops being JSON, or that the text ends before its JSON begins.
    pub status: RepairStatus,
    /// The bytes of the text that were read as a root. Empty if nothing looks like one.
    pub range: Range<usize>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            RepairStatus::Malformed(error) if !self.range.is_empty() => {
                write!(f, "the JSON can't be repaired: {error}")
            }
            RepairStatus::Truncated => f.write_str("the text ends before its JSON begins"),
            _ => f.write_str("there is no JSON in the text"),
        }
    }
}

impl std::error::Error for ParseError {}

impl Repaired<'_> {
    /// Copies the borrowed text.
    #[doc(hidden)]
    pub fn into_owned(self) -> Repaired<'static> {
        let Self {
            status,
            json,
            range,
            repairs,
            others,
        } = self;
        Repaired {
            status,
            json: json.into_owned().into(),
            range,
            repairs,
            others: owned(others),
        }
    }
}

fn owned(roots: Vec<Root<'_>>) -> Vec<Root<'static>> {
    let owned = |root: Root<'_>| Root {
        status: root.status,
        json: root.json.into_owned().into(),
        range: root.range,
    };
    roots.into_iter().map(owned).collect()
}
