//! The tolerant dialect: what models get wrong in JSON, and how it is put right.

mod rule;

use std::ops::Range;

use serde::{Serialize, Serializer, ser::SerializeStruct};

pub use rule::{RepairLevel, RepairOptions, RepairRule};

use super::{CloseOptions, Machine};
use crate::error::SyntaxError;

/// One change of a text. The changes of a text are in its order and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong.
    pub rule: RepairRule,
    /// The bytes of the text as written that were replaced; empty where something was inserted.
    pub range: Range<usize>,
    /// The text as written in that range.
    pub original: String,
    /// The text that stands in its place.
    pub replacement: String,
    /// The JSON Pointer of the value that is open or due there, else of the innermost open container.
    pub path: String,
}

impl Repair {
    /// Returns the level of the rule.
    pub fn level(&self) -> RepairLevel {
        self.rule.level()
    }
}

impl Serialize for Repair {
    /// As `{"rule", "level", "range": [start, end], "original", "replacement", "path"}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Repair", 6)?;
        row.serialize_field("rule", &self.rule)?;
        row.serialize_field("level", &self.level())?;
        row.serialize_field("range", &[self.range.start, self.range.end])?;
        row.serialize_field("original", &self.original)?;
        row.serialize_field("replacement", &self.replacement)?;
        row.serialize_field("path", &self.path)?;
        row.end()
    }
}

/// What a whole text turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairStatus {
    /// The root is valid as written.
    Valid,
    /// The root is whole after repairs.
    Repaired,
    /// The text ends before the root does; it was closed there.
    Truncated,
    /// No reading of the text is JSON: where the last one failed, in bytes of the text as written.
    Malformed(SyntaxError),
}

/// A root that was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedRoot {
    /// What the text turned out to be.
    pub status: RepairStatus,
    /// The repaired root; of a malformed one, the complete part. Empty where there is none.
    pub json: String,
    /// The number of bytes of the text as written that belong to the root.
    pub end: usize,
    /// All changes, in the order of the text.
    pub repairs: Vec<Repair>,
}

/// Repairs the root that `text` begins with. What follows the root is not read, but for brackets that belong to it.
pub fn repair_root(text: &str, options: &RepairOptions) -> RepairedRoot {
    let mut machine = Machine::new(options.caps.depth);
    let result = machine.feed(text.as_bytes()).and_then(|_| machine.finish());
    let end = machine.offset();
    let status = match result {
        Ok(()) => RepairStatus::Valid,
        Err(error) if error.is_truncated() => RepairStatus::Truncated,
        Err(error) => RepairStatus::Malformed(error),
    };
    let mut suffix = String::new();
    let closed = machine.close_into(CloseOptions::default(), &mut suffix).unwrap_or(0);
    let json = format!("{}{suffix}", text.get(..closed).unwrap_or_default());
    RepairedRoot { status, json, end, repairs: Vec::new() }
}

/// Returns the text as it was before `repairs`, which were made in `repaired`.
pub fn undo(repaired: &str, repairs: &[Repair]) -> String {
    let mut text = String::with_capacity(repaired.len());
    let mut rest = repaired;
    for repair in repairs {
        let kept = repair.range.start.saturating_sub(text.len());
        let (before, after) = rest.split_at_checked(kept).unwrap_or((rest, ""));
        text.push_str(before);
        text.push_str(&repair.original);
        rest = after.get(repair.replacement.len()..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}
