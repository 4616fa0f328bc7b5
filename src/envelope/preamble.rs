//! The text before a root: prose, and the fence around the root.

use super::fence::{FENCE, ticks_of};
use super::lead::BracketLead;
use super::scanner::EnvelopeScanner;

/// Which root is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoughtRoot {
    First,
    /// After a root: it may be the answer if the text ends in it. `in_block`: the block around the
    /// root before is open.
    Later {
        in_block: bool,
    },
    /// In a fenced block after a root: its fence needs the label `json`.
    FurtherBlock,
    /// After a tag that ends reasoning: only then the root before was a draft.
    AfterReasoning,
    /// None: the text is not JSON.
    Nothing,
}

/// The text before a root.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preamble {
    /// The text before the next character.
    pub(super) lead: BracketLead,
    /// Where text begins that is neither a root nor a fence nor reasoning nor white space.
    pub(super) prose_from: Option<usize>,
    /// A fence has opened, and only the root may follow it.
    fence: Option<OpenedFence>,
    /// In a fenced block that is not JSON: the next fence line closes it.
    pub(super) in_block: bool,
}

/// A fence before the root.
#[derive(Clone, Copy, Debug)]
struct OpenedFence {
    /// Its backticks.
    ticks: usize,
    label: FenceLabel,
}

/// The label in the line that opens a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceLabel {
    None,
    Json,
    /// `json5`, `jsonl`, `JSON lines`
    LikeJson,
    Other,
}

impl FenceLabel {
    fn of(line: &str) -> Self {
        match label_of(line).as_str() {
            "" => Self::None,
            "json" => Self::Json,
            label if label.starts_with("json") => Self::LikeJson,
            _ => Self::Other,
        }
    }
}

/// Returns the label in a line that opens a fence, in lower case.
fn label_of(line: &str) -> String {
    line.trim_start_matches('`').trim().to_ascii_lowercase()
}

impl Preamble {
    /// The text after a fenced root that ended at `offset`; its block is still open.
    pub(super) fn in_block(offset: usize) -> Self {
        Self {
            prose_from: Some(offset),
            in_block: true,
            ..Self::default()
        }
    }

    /// The text after a root without a fence: prose from `offset` on.
    pub(super) fn in_line(offset: usize) -> Self {
        Self {
            prose_from: Some(offset),
            ..Self::default()
        }
    }

    /// Whether there is prose.
    pub(crate) fn has_prose(&self) -> bool {
        self.prose_from.is_some()
    }

    /// Whether a fence has opened, and nothing significant is between the fence and the root.
    pub(crate) fn has_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Returns the number of the fence's backticks.
    pub(crate) fn ticks(&self) -> Option<usize> {
        self.fence.map(|fence| fence.ticks)
    }

    pub(super) fn label(&self) -> Option<FenceLabel> {
        self.fence.map(|fence| fence.label)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.prose_from.is_none() && self.fence.is_none()
    }

    /// Whether a fence promises JSON: by its label, or because it has no label and is at the start
    /// of the text. `line` is the open line, which may be opening one.
    pub(super) fn promises_json(&self, line: &str) -> bool {
        if self.has_prose() {
            return matches!(self.label(), Some(FenceLabel::Json | FenceLabel::LikeJson));
        }
        if line.starts_with('`') {
            let label = label_of(line);
            return label.starts_with("json") || "json".starts_with(&label);
        }
        self.label().is_some_and(|label| label != FenceLabel::Other)
    }

    /// Whether the open line may still become a fence or a tag.
    pub(super) fn may_be_envelope(&self, scanner: &EnvelopeScanner) -> bool {
        let line = scanner.line();
        let may_be_fence = line.trim_start_matches('`').is_empty() || ticks_of(line).is_some();
        !line.is_empty() && (may_be_fence && !self.has_fence() || scanner.may_open_reasoning())
    }

    /// Whether the open line opens a fence that may hold the root.
    pub(super) fn opens_root(&self, line: &str, sought: SoughtRoot) -> bool {
        if self.in_block || ticks_of(line).is_none() {
            return false;
        }
        match FenceLabel::of(line) {
            FenceLabel::Json => true,
            FenceLabel::None => sought != SoughtRoot::FurtherBlock,
            FenceLabel::LikeJson | FenceLabel::Other => false,
        }
    }

    /// Opens a fence with this line.
    pub(super) fn open_fence(&mut self, line: &str) {
        self.fence = Some(OpenedFence {
            ticks: ticks_of(line).unwrap_or(FENCE.len()),
            label: FenceLabel::of(line),
        });
    }

    /// Takes the end of a line that is a fence.
    pub(super) fn end_fence_line(&mut self, line: &str, sought: SoughtRoot) {
        if self.in_block {
            (self.in_block, self.lead) = (false, BracketLead::default());
        } else if !self.has_prose() || self.opens_root(line, sought) {
            self.open_fence(line);
        } else {
            self.in_block = true;
        }
    }

    /// Records that the text at `offset` is prose. A fence before it holds other text.
    pub(super) fn note_prose(&mut self, offset: usize) {
        self.prose_from.get_or_insert(offset);
        self.in_block |= self.has_fence();
        self.fence = None;
    }
}
