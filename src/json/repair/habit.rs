//! Mistakes that a writer makes again: what was found once in a text is likely in the rest of it.

use super::RepairRule;
use super::attempt::Edit;
use super::guess::Plan;

/// The guesses that were accepted in a text so far, as one bit a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits(u32);

/// What a mistake costs that the text has already.
const AGAIN: u32 = 1;

impl Habits {
    /// Records the guesses that were accepted.
    pub(super) fn learn(&mut self, edits: &[Edit]) {
        for edit in edits.iter().filter(|edit| edit.is_guess) {
            self.0 |= bit(edit.repair.rule);
        }
    }

    /// Returns the cost of a plan after the guesses of a reading.
    pub(super) fn cost(self, plan: &Plan, edits: &[Edit]) -> u32 {
        let mut known = self;
        known.learn(edits);
        if known.0 & bit(plan.rule) > 0 { plan.cost.min(AGAIN) } else { plan.cost }
    }
}

/// Only how tokens are written is a habit. Brackets are miscounted now and then.
fn bit(rule: RepairRule) -> u32 {
    match rule {
        RepairRule::KeyQuote
        | RepairRule::MissingQuote
        | RepairRule::MissingColon
        | RepairRule::MissingComma
        | RepairRule::BareKey
        | RepairRule::BareWord
        | RepairRule::InnerQuote
        | RepairRule::EscapedQuotes => 1 << rule as u32,
        _ => 0,
    }
}
