//! Mistakes that a writer makes again: what was found once in a text is likely in the rest of it.

use super::RepairRule;
use super::attempt::Edit;
use super::guess::{NEXT_QUOTE, Plan};

/// The guesses that were accepted in a text so far, as one bit a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits(u32);

/// What a mistake costs that the text has already.
const AGAIN: u32 = 4;

impl Habits {
    /// Records the guesses that were accepted.
    pub(super) fn learn(&mut self, edits: &[Edit]) {
        for edit in edits.iter().filter(|edit| edit.is_guess) {
            self.0 |= bit(edit.repair.rule);
        }
    }

    /// Returns what a plan costs whose mistake was made before: in the text, or in the guesses of a reading. `None` where it
    /// was not; a further quote in the same string is the same mistake.
    pub(super) fn cost_again(self, plan: &Plan, edits: &[Edit]) -> Option<u32> {
        let mut known = self;
        known.learn(edits);
        (known.0 & bit(plan.rule) > 0 && plan.cost > NEXT_QUOTE).then_some(AGAIN)
    }
}

/// Only how tokens are written is a habit. Brackets are miscounted now and then; commas and quotes inside strings were
/// measured: expecting them again makes more texts other documents than it restores.
fn bit(rule: RepairRule) -> u32 {
    match rule {
        RepairRule::KeyQuote
        | RepairRule::MissingQuote
        | RepairRule::MissingColon
        | RepairRule::BareKey
        | RepairRule::BareWord
        | RepairRule::EscapedQuotes
        | RepairRule::Quotes
        | RepairRule::StringSum => 1 << rule as u32,
        _ => 0,
    }
}
