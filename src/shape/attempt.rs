//! The effort of reading a response, as one of six steps.

use std::fmt;

use memchr::memchr2;
use serde::{Serialize, Serializer};

use super::Repaired;
use super::search::is_space;
use crate::json::repair::RepairStatus;

/// The effort of reading a text, in ascending order. The highest step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attempt {
    /// 1: nothing, the text is JSON.
    Standard,
    /// 1.5: the JSON was repaired or closed.
    Repaired,
    /// 2: there is text around the JSON, without brackets.
    Around,
    /// 3: there is a fence around the JSON.
    Fence,
    /// 4: there is text with brackets around the JSON.
    Fragment,
    /// 5: there is no JSON.
    Nothing,
}

impl Attempt {
    /// Returns the step in reports: `1`, `1.5`, `2`, `3`, `4`, `5`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "1",
            Self::Repaired => "1.5",
            Self::Around => "2",
            Self::Fence => "3",
            Self::Fragment => "4",
            Self::Nothing => "5",
        }
    }

    pub(super) fn of(text: &str, repaired: &Repaired<'_>, is_fenced: bool) -> Self {
        let before = text.get(..repaired.range.start).unwrap_or_default();
        let after = text.get(repaired.range.end..).unwrap_or_default();
        let has_brackets = |text: &str| {
            let bytes = text.as_bytes();
            memchr2(b'{', b'[', bytes)
                .or_else(|| memchr2(b'}', b']', bytes))
                .is_some()
        };
        let is_blank = |text: &str| text.chars().all(is_space);
        if has_brackets(before) || has_brackets(after) {
            Self::Fragment
        } else if is_fenced {
            Self::Fence
        } else if !is_blank(before) || !is_blank(after) {
            Self::Around
        } else if repaired.status != RepairStatus::Valid {
            Self::Repaired
        } else {
            Self::Standard
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
