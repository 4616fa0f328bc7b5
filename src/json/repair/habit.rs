//! Mistakes that a writer makes again: what was found in a text is likely in the rest of it.

use super::super::grammar::State;
use super::RepairRule;
use super::attempt::Edit;
use super::guess::{NEXT_QUOTE, Plan};

/// A mistake: what explains it, and where in the grammar it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) rule: RepairRule,
    /// The state at the deviation.
    pub(super) state: State,
    /// The character there; `a` for any letter or digit.
    pub(super) next: Option<char>,
    /// The index among the plans of its rule.
    pub(super) number: usize,
}

/// The guesses that were accepted in a text so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    /// One bit a rule.
    rules: u32,
    /// The mistakes, and how often each one was made.
    mistakes: Vec<(Mistake, u32)>,
}

/// What a mistake costs that the text has already.
const AGAIN: u32 = 4;
/// The number of searches that must have found a mistake before it is explained without one: one may be a coincidence.
const CONFIRMED: u32 = 2;
/// The most different mistakes that are counted: a text with more of them has no habit.
const MISTAKES: usize = 32;

impl Habits {
    /// Records the guesses that were accepted.
    pub(super) fn learn(&mut self, edits: &[Edit]) {
        for mistake in edits.iter().filter_map(|edit| edit.guess) {
            self.rules |= bit(mistake.rule);
            let known = self.mistakes.len();
            match self.mistakes.iter_mut().find(|(known, _)| *known == mistake) {
                Some((_, count)) => *count += 1,
                None if known < MISTAKES => self.mistakes.push((mistake, 1)),
                None => {}
            }
        }
    }

    /// Returns what a plan costs whose mistake was made before: in the text, or in the guesses of a reading. `None` where it
    /// was not; a further quote in the same string is the same mistake.
    pub(super) fn cost_again(&self, plan: &Plan, edits: &[Edit]) -> Option<u32> {
        let known = edits.iter().filter_map(|edit| edit.guess).fold(self.rules, |rules, guess| rules | bit(guess.rule));
        (known & bit(plan.rule) > 0 && plan.cost > NEXT_QUOTE).then_some(AGAIN)
    }

    /// Whether the mistake of a plan was made before: in the text, or in the guesses of a reading.
    pub(super) fn is_again(&self, plan: &Plan, edits: &[Edit]) -> bool {
        let mut guesses = edits.iter().filter_map(|edit| edit.guess);
        guesses.any(|guess| guess == plan.mistake) || self.mistakes.iter().any(|(known, _)| *known == plan.mistake)
    }

    /// Returns the plan whose mistake was made most often, if one was made often enough.
    pub(super) fn choose<'p>(&self, plans: impl Iterator<Item = &'p Plan>) -> Option<&'p Plan> {
        let count =
            |plan: &Plan| self.mistakes.iter().find(|(known, _)| *known == plan.mistake).map_or(0, |known| known.1);
        let known = plans.map(|plan| (count(plan), plan)).filter(|(count, _)| *count >= CONFIRMED);
        // Among equals the first one, which is the likeliest.
        known.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, plan)| plan)
    }
}

/// Only how tokens are written makes a mistake cheaper. Brackets are miscounted now and then; commas and quotes inside strings
/// were measured: expecting them again makes more texts other documents than it restores.
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
