//! Whether new text closes a document although more is due.

use super::attempt::Attempt;
use super::score::closes;
use super::{Expect, Slot, Splice, State};
use crate::json::{CutState, Kind};

impl Splice {
    /// Whether the new text of this attempt closes what is open, and does nothing else so far.
    pub(super) fn may_end_early(&self, slot: &Slot, winner: usize) -> bool {
        let State::Deciding(deciding) = &self.state else { return false };
        let at = deciding.attempts.get(winner).map(|attempt| attempt.candidate.at);
        let new = at.and_then(|at| deciding.fragment.text.get(at..)).unwrap_or_default();
        self.request.expect != Expect::Exact && more_is_due(slot) && new.chars().all(closes)
    }

    /// Whether the new text of this attempt closes the root, and does nothing else.
    pub(super) fn ends_early(&self, slot: &Slot, winner: usize) -> bool {
        let State::Deciding(deciding) = &self.state else { return false };
        let is_done = deciding.attempts.get(winner).is_some_and(Attempt::is_done);
        is_done && self.may_end_early(slot, winner)
    }
}

/// Whether the cut is inside a token or after a comma or colon, or an array is open.
fn more_is_due(slot: &Slot) -> bool {
    let machine = slot.document().machine();
    let is_series = || slot.frames().iter().any(|frame| frame.kind == Kind::Array);
    machine.in_token() || machine.cut_state() != CutState::AfterValue || is_series()
}
