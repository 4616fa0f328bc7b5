//! Mistakes that a writer repeats: a mistake found once is more likely in the rest of the text.

use super::super::grammar::GrammarState;
use super::RepairRule;
use super::guess::{NEXT_QUOTE, RepairPlan};
use super::repaired_text::Edit;

/// A mistake: the rule that explains it, and the grammar state in which it appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) rule: RepairRule,
    /// The state at the deviation.
    pub(super) state: GrammarState,
    /// The character at the deviation; `a` for any letter or digit.
    pub(super) next: Option<char>,
    /// The index among the plans of its rule.
    pub(super) number: usize,
}

/// The accepted guesses of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    /// One bit a rule.
    rules: u32,
    /// The mistakes, and how often each one was made.
    mistakes: Vec<(Mistake, u32)>,
}

/// The cost of a mistake that was found before.
// One change at the lowest cost of a rule, half of what a guess costs the first time: the writer
// does it again, but a certain recovery is still preferred. At zero, quotes that are text would be
// repaired for free after one real mistake.
const AGAIN: u32 = 4;
/// The number of searches that must find a mistake before habit alone explains it: one may be a
/// coincidence.
// One accepted guess may be wrong, and following it would repeat the error in every row. Two in
// different searches were each confirmed by ten values (tests/it/repair/dense.rs has a mistake in
// every row).
const CONFIRMED: u32 = 2;
/// The most different mistakes counted: a text with more has no habit.
// Each search compares its plans with all of them. A text has some five habits, in several states
// of the grammar each.
const MISTAKES: usize = 32;

impl Habits {
    /// Records the guesses that were accepted.
    pub(super) fn learn(&mut self, edits: &[Edit]) {
        for mistake in edits.iter().filter_map(|edit| edit.guess) {
            self.rules |= bit(mistake.rule);
            let known = self.mistakes.len();
            match self
                .mistakes
                .iter_mut()
                .find(|(known, _)| *known == mistake)
            {
                Some((_, count)) => *count += 1,
                None if known < MISTAKES => self.mistakes.push((mistake, 1)),
                None => {}
            }
        }
    }

    /// Returns the cost of a plan whose mistake was made before: in the text, or in the guesses of
    /// a reading. `None` for a new mistake. A further quote in the same string is the same mistake.
    pub(super) fn cost_again(&self, plan: &RepairPlan, edits: &[Edit]) -> Option<u32> {
        let known = edits
            .iter()
            .filter_map(|edit| edit.guess)
            .fold(self.rules, |rules, guess| rules | bit(guess.rule));
        (known & bit(plan.rule) > 0 && plan.cost > NEXT_QUOTE).then_some(AGAIN)
    }

    /// Whether this mistake was made before: in the text, or in the guesses of a reading.
    pub(super) fn is_again(&self, plan: &RepairPlan, edits: &[Edit]) -> bool {
        let mut guesses = edits.iter().filter_map(|edit| edit.guess);
        guesses.any(|guess| guess == plan.mistake)
            || self
                .mistakes
                .iter()
                .any(|(known, _)| *known == plan.mistake)
    }

    /// Returns the plan with the most frequent mistake, if it was made often enough.
    pub(super) fn choose<'p>(
        &self,
        plans: impl Iterator<Item = &'p RepairPlan>,
    ) -> Option<&'p RepairPlan> {
        let count = |plan: &RepairPlan| {
            self.mistakes
                .iter()
                .find(|(known, _)| *known == plan.mistake)
                .map_or(0, |known| known.1)
        };
        let known = plans
            .map(|plan| (count(plan), plan))
            .filter(|(count, _)| *count >= CONFIRMED);
        // Among equally frequent mistakes, the first is the likeliest.
        known
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, plan)| plan)
    }
}

/// Only mistakes in the spelling of tokens become cheaper. Miscounted brackets are not a habit. For
/// commas and for quotes inside strings it was measured: expecting them again breaks more texts
/// than it restores.
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
