//! The tolerant dialect: the mistakes of models in JSON, and their repairs.

mod attempt;
mod backslash;
mod content;
mod fit;
mod foreign;
mod guess;
mod habit;
mod input;
mod recovery;
mod repaired_text;
mod repairer;
mod rule;
mod search;
mod token;
mod writer;

use std::ops::Range;

use serde::{Serialize, Serializer, ser::SerializeStruct};

#[doc(hidden)]
pub use repairer::Repairer;
pub use rule::{RepairLevel, RepairOptions, RepairRule};

use super::{CloseOptions, Machine};
use crate::error::SyntaxError;

/// One change of a text. The changes of a text are in its order and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// The rule that explains the mistake.
    pub rule: RepairRule,
    /// The bytes of the text as written that were replaced; empty for an insertion.
    pub range: Range<usize>,
    /// The text as written in that range.
    pub original: String,
    /// The text that replaces it.
    pub replacement: String,
    /// The JSON Pointer of the value that is open or due there, else of the innermost open
    /// container.
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

/// The result for a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairStatus {
    /// The root is valid as written.
    Valid,
    /// The root is whole after repairs.
    Repaired,
    /// The text ends before the root does; it was closed there.
    Truncated,
    /// No reading of the text is JSON. The error is where the last reading failed, in bytes of the
    /// text as written.
    Malformed(SyntaxError),
}

impl RepairStatus {
    /// Returns the name in reports: `valid`, `repaired`, `truncated` or `malformed`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Repaired => "repaired",
            Self::Truncated => "truncated",
            Self::Malformed(_) => "malformed",
        }
    }
}

impl Serialize for RepairStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A root that was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedRoot {
    /// The status of the text.
    pub status: RepairStatus,
    /// The repaired root, or the complete part of a malformed root. Empty if the text holds no
    /// root.
    pub json: String,
    /// The number of bytes of the text as written that belong to the root.
    pub end: usize,
    /// All changes, in the order of the text.
    pub repairs: Vec<Repair>,
}

/// Repairs the root that `text` begins with. Reads text after the root only if it belongs to the
/// root.
pub fn repair_root(text: &str, options: &RepairOptions) -> RepairedRoot {
    let (result, machine, before) = read_strictly(text, &options.caps);
    let end = machine.offset();
    let goes_on = text
        .get(end..)
        .is_some_and(|rest| rest.trim_ascii_start().starts_with(','));
    if result.is_ok() && !(goes_on && options.level == RepairLevel::Guess) {
        let json = text.get(..end).unwrap_or_default().to_owned();
        return RepairedRoot {
            status: RepairStatus::Valid,
            json,
            end,
            repairs: Vec::new(),
        };
    }
    let (valid, rest) = text.split_at_checked(before.offset()).unwrap_or(("", text));
    let mut json = String::with_capacity(text.len());
    json.push_str(valid);
    let mut repairer = Repairer::after(options.clone(), &before, valid.len());
    let result = repairer.read_whole(rest, &mut json);
    let mut end = repairer.end();
    let status = match result {
        Ok(()) if repairer.repairs().is_empty() => RepairStatus::Valid,
        Ok(()) => RepairStatus::Repaired,
        Err(error) if error.is_truncated() => {
            end = text.len();
            RepairStatus::Truncated
        }
        Err(error) => RepairStatus::Malformed(error),
    };
    if result.is_err() {
        repairer.release_all(&mut json);
    }
    let machine = repairer.machine().clone();
    let mut repairs = repairer.into_repairs();
    if result.is_err() {
        close(
            text.get(..end).unwrap_or_default(),
            &machine,
            &mut json,
            &mut repairs,
        );
    }
    RepairedRoot {
        status,
        json,
        end,
        repairs,
    }
}

/// Reads a root by the strict grammar. Returns the result and the machine there. Also returns a
/// machine before all text that a recovery may change, so that only the text after it is read
/// again.
fn read_strictly(
    text: &str,
    caps: &rule::RepairCaps,
) -> (Result<(), SyntaxError>, Machine, Machine) {
    let block = caps.lookahead.max(BLOCK);
    let mut machine = Machine::new(caps.depth);
    let (mut before, mut last) = (machine.clone(), machine.clone());
    loop {
        let start = machine.offset();
        let rest = text.get(start..).unwrap_or_default();
        let end = (0..=block.min(rest.len()))
            .rev()
            .find(|&at| rest.is_char_boundary(at))
            .unwrap_or(rest.len());
        let part = rest.get(..end).unwrap_or_default();
        match machine.feed(part.as_bytes()) {
            Ok(read) if read == part.len() && end < rest.len() && !machine.is_done() => {
                // The rest of a string decides the meaning of its escapes.
                if machine.in_string() {
                    continue;
                }
                before = std::mem::replace(&mut last, machine.clone());
            }
            result => return (result.and_then(|_| machine.finish()), machine, before),
        }
    }
}

/// The fewest bytes between two machines that are kept. Copying a machine costs O(depth).
// A valid text is read once, with one copy of the machine for each block; after a mistake at most
// two blocks are read again. Smaller blocks copy deep stacks more often, larger ones read more text
// twice.
const BLOCK: usize = 64 << 10;

/// Closes a root where its text ended: leaves out uncertain text, and records that in the log.
fn close(text: &str, machine: &Machine, json: &mut String, repairs: &mut Vec<Repair>) {
    let path = machine.path(json).to_string();
    let mut suffix = String::new();
    let state = machine.state();
    let mut end = machine.offset();
    if state.number_may_end() {
        // The text has ended, and the number with it. `2e` is left out: nobody wrote its exponent.
        suffix = machine.completion(json).suffix;
    } else {
        end = machine
            .close_into(CloseOptions::default(), &mut suffix)
            .unwrap_or(0);
    }
    let start = written(repairs, end);
    repairs.retain(|repair| repair.range.end <= start && repair.range.start <= start);
    json.truncate(end);
    json.push_str(&suffix);
    let original = text.get(start..).unwrap_or_default().to_owned();
    if original != suffix {
        repairs.push(Repair {
            rule: RepairRule::Closed,
            range: start..text.len(),
            original,
            replacement: suffix,
            path,
        });
    }
}

/// Returns the offset in the text as written of an offset in the repaired text.
pub(crate) fn written(repairs: &[Repair], at: usize) -> usize {
    let (mut out, mut start) = (0, 0);
    for repair in repairs {
        let next = out + (repair.range.start - start);
        if next + repair.replacement.len() > at || next >= at && !repair.range.is_empty() {
            break;
        }
        (out, start) = (next + repair.replacement.len(), repair.range.end);
    }
    start + (at - out)
}

/// Returns the text before `repairs`, which produced `repaired`.
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
