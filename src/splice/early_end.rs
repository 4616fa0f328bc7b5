//! Whether new text closes a document although more is due.

use super::attempt::Attempt;
use super::flow::{Ellipsis, Flow, is_space};
use super::{Expect, Slot, Splice, State};
use crate::json::{CutState, Kind};

impl Splice {
    /// Creates the flow of text that was joined.
    pub(super) fn flow(&self, slot: &Slot) -> Flow {
        let is_text = self.request.believes_early_end || self.request.expect == Expect::Exact;
        Flow::new(slot, self.caps.pending, if is_text { Ellipsis::IsText } else { Ellipsis::Ends })
    }

    /// Whether the new text of this attempt closes what is open, and does nothing else so far.
    pub(super) fn closes_only(&self, slot: &Slot, winner: usize) -> bool {
        let State::Deciding(deciding) = &self.state else { return false };
        let at = deciding.attempts.get(winner).map(|attempt| attempt.candidate.at);
        let new = at.and_then(|at| deciding.fragment.text.get(at..)).unwrap_or_default();
        may_end_early(slot, self.request.expect, new)
    }

    /// Whether the new text of this attempt closes the root, and does nothing else.
    pub(super) fn ends_early(&self, slot: &Slot, winner: usize) -> bool {
        let State::Deciding(deciding) = &self.state else { return false };
        let is_done = deciding.attempts.get(winner).is_some_and(Attempt::is_done);
        is_done && self.closes_only(slot, winner)
    }
}

/// Whether new text closes what is open, does nothing else so far, and more is due.
pub(super) fn may_end_early(slot: &Slot, expect: Expect, new: &str) -> bool {
    expect != Expect::Exact && more_is_due(slot) && new.chars().all(closes)
}

/// Whether the cut is inside a token or after a comma or colon, or an array is open.
fn more_is_due(slot: &Slot) -> bool {
    let machine = slot.document().machine();
    let is_series = || slot.frames().iter().any(|frame| frame.kind == Kind::Array);
    machine.in_token() || machine.cut_state() != CutState::AfterValue || is_series()
}

/// Whether text of such characters closes what is open, and says nothing else.
pub(super) fn closes(c: char) -> bool {
    is_space(c) || matches!(c, '"' | '}' | ']' | ',' | '.' | '…' | '`')
}
