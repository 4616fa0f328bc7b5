//! The table of guesses: changes that could explain a deviation without a certain recovery.
//!
//! Each guess is a plan: an offset in the repaired text to return to, and the changes from there
//! on. The search decides between the plans by trying them.

mod closers;
mod foreign_quotes;
mod separators;
mod strings;
mod words;

use std::collections::HashMap;

use super::super::grammar::GrammarState;
use super::RepairRule;
use super::attempt::{ReadMode, RepairAttempt};
use super::content::structure;
use super::habit::Mistake;
use super::input::RepairInput;
use super::token::{Token, TokenKind};
use closers::{missing_closers, wrong_closers};
use foreign_quotes::{repeated_quotes, string_sums};
use separators::separators;
use strings::{inner_quotes, open_strings, stray_quotes};
use words::words;

/// A change of the text from an offset on.
#[derive(Clone, Debug)]
pub(super) struct RepairPlan {
    /// The offset in the repaired text up to which the reading stays unchanged.
    pub(super) out: usize,
    /// The same offset in the text as written.
    pub(super) start: usize,
    /// The end of the text as written that is replaced.
    pub(super) end: usize,
    pub(super) by: String,
    pub(super) rule: RepairRule,
    /// How the text after it is read.
    pub(super) mode: ReadMode,
    pub(super) cost: u32,
    pub(super) mistake: Mistake,
}

/// The cost of one change: that of four contradictions to the text around it.
// The unit of all costs. A guess costs two of them or more, as much as eight contradictions with
// the layout, which are all that count (`fit::MOST`): so one wrong column never causes a guess.
// Halved, layout would outweigh the grammar; doubled, lost brackets would be closed where the
// grammar first complains. The rates in tests/it/repair/bounds.rs are measured with it.
pub(super) const CHANGE: u32 = 4;
/// The cost of a further quote inside the same string.
// A writer who forgets one backslash forgets the others in the same string, too. At the full cost,
// dialogue with four quotes would cost more than to end the string early (tests/cases/repair/inner-
// quote-in-html.md).
pub(super) const NEXT_QUOTE: u32 = CHANGE / 2;

/// The most earlier tokens that a guess may change, and the most offsets that are tried in one
/// token.
// Chosen: a mistake is noticed at most a key, its value and two separators later. The plans of each
// token are multiplied by those of the next deviation, so twice as many quadruple the readings of a
// text with two mistakes and reach `max_readings` earlier (tests/it/repair/dense.rs).
const TOKENS: usize = 6;
// Chosen: a string with more separators is prose, whose last ones are tried. Each place is a
// reading up to the end of the look-ahead, so this bounds the work for one string of commas
// (tests/it/work.rs).
const PLACES: usize = 16;

/// The deviation that is to be explained.
#[derive(Clone, Copy)]
pub(super) struct GuessSite<'a> {
    pub(super) attempt: &'a RepairAttempt,
    pub(super) input: &'a RepairInput<'a>,
    pub(super) state: GrammarState,
    /// The character at the deviation; `None` at the end of the text.
    pub(super) next: Option<char>,
}

/// The plans for one deviation.
pub(super) struct PlanList<'a> {
    pub(super) site: GuessSite<'a>,
    plans: Vec<RepairPlan>,
    /// The decision needs text that has not been received.
    pub(super) waits: bool,
}

/// Returns the plans for the deviation at which an attempt stopped, the likeliest first among
/// equals. `None`: the decision needs later text.
pub(super) fn plans(attempt: &RepairAttempt, input: &RepairInput<'_>) -> Option<Vec<RepairPlan>> {
    // A special token of the model (`<|im_end|>`) can't be part of a value: nothing is guessed.
    match input.rest(attempt.at) {
        "<" if !input.is_end => return None,
        rest if rest.starts_with("<|") || rest.starts_with("<｜") => return Some(Vec::new()),
        _ => {}
    }
    let site = GuessSite::of(attempt, input);
    let mut list = PlanList {
        site,
        plans: Vec::new(),
        waits: false,
    };
    open_strings(&mut list);
    if site.next.is_some() {
        string_sums(&mut list);
        repeated_quotes(&mut list);
        separators(&mut list);
        words(&mut list);
        missing_closers(&mut list);
        wrong_closers(&mut list);
        stray_quotes(&mut list);
    }
    if site.next.is_some() || attempt.machine.is_done() {
        inner_quotes(&mut list);
    }
    list.plans.retain(|plan| input.options.allows(plan.rule));
    list.number();
    (!list.waits).then_some(list.plans)
}

impl<'a> GuessSite<'a> {
    fn of(attempt: &'a RepairAttempt, input: &'a RepairInput<'a>) -> Self {
        let next = input.rest(attempt.at).chars().next();
        // A number that is the root stays the root, whatever text follows it.
        let is_root = attempt.machine.frames().is_empty()
            && next.is_some_and(|next| attempt.is_after_number(next));
        let state = if is_root {
            GrammarState::Done
        } else {
            attempt.machine.state()
        };
        Self {
            attempt,
            input,
            state,
            next,
        }
    }

    /// Returns the offset of the deviation, in the repaired text and as written.
    pub(super) fn here(&self) -> (usize, usize) {
        (self.attempt.machine.offset(), self.attempt.at)
    }

    /// Returns the end of the last whole child, in the repaired text and as written.
    pub(super) fn child_end(&self) -> Option<(usize, usize)> {
        let end = self.attempt.machine.frames().last()?.end;
        self.attempt
            .text
            .has(end)
            .then(|| (end, self.attempt.text.in_offset(end)))
    }

    /// Returns the last strings that are whole, the newest first.
    pub(super) fn strings(&self) -> impl Iterator<Item = Token> + use<'a> {
        let origin = self.attempt.text.origin;
        let tokens = self.attempt.recorder.tokens.iter().rev().copied();
        tokens
            .filter(move |token| token.kind.is_string() && token.end > origin + 1)
            .take(TOKENS)
    }

    /// Whether the closing quote at `end` more likely opens the next token: a bracket or a comma
    /// precedes it, and no space follows.
    pub(super) fn opens_next(&self, end: usize) -> bool {
        let before = self.attempt.text.before(end);
        let text = before
            .strip_suffix('"')
            .filter(|text| !text.is_empty())
            .map(str::trim_ascii_end);
        end == self.attempt.machine.offset()
            && text.is_some_and(|text| text.ends_with(['{', '[', ',']))
    }

    /// Whether the next token, `next`, touches the value that ends at `end`, and one of them is a
    /// word and the other one has quotes: then the word is a part of a string. A key may follow a
    /// number.
    pub(super) fn touches_word(&self, end: usize, next: char) -> bool {
        let before = self.attempt.text.before(end);
        let ends_in_word =
            before.ends_with(char::is_alphanumeric) && self.state == GrammarState::AfterElement;
        let is_word_after = before.ends_with('"') && next.is_alphanumeric();
        end == self.attempt.machine.offset() && (ends_in_word && next == '"' || is_word_after)
    }

    /// Whether the last token is a comma.
    pub(super) fn is_after_comma(&self) -> bool {
        self.attempt.text.out.trim_ascii_end().ends_with(',')
    }

    /// Returns the text from `at` on, up to the end of the look-ahead, and whether more text
    /// follows.
    pub(super) fn ahead(&self, at: usize) -> (&'a str, bool) {
        let rest = self.input.rest(at);
        let most = (self.attempt.at - at).saturating_add(self.input.options.caps.lookahead);
        let most = (0..=most.min(rest.len()))
            .rev()
            .find(|&end| rest.is_char_boundary(end))
            .unwrap_or(0);
        (rest.get(..most).unwrap_or_default(), most < rest.len())
    }

    /// Whether the array that the bracket at `place` closes has a container and after it only
    /// values other than containers: then the bracket that opens those is lost. Without the bracket
    /// at `place` they would become elements of the outer array, or of the container.
    pub(super) fn ends_unopened(&self, place: usize) -> bool {
        let mut before = self
            .attempt
            .recorder
            .tokens
            .iter()
            .rev()
            .skip_while(|token| token.start >= place)
            .peekable();
        let Some(depth) = before
            .peek()
            .filter(|last| last.kind != TokenKind::Close)
            .map(|last| last.depth)
        else {
            return false;
        };
        let first = before.find(|token| {
            token.depth != depth || matches!(token.kind, TokenKind::Key | TokenKind::Close)
        });
        first.is_some_and(|token| token.kind == TokenKind::Close && token.depth == depth)
    }

    /// Returns the mistake that a rule explains here. Its number is set later.
    pub(super) fn mistake(&self, rule: RepairRule) -> Mistake {
        let next = self
            .next
            .map(|next| if next.is_alphanumeric() { 'a' } else { next });
        Mistake {
            rule,
            state: self.state,
            next,
            number: 0,
        }
    }

    /// Returns the last token, if it is of this kind.
    pub(super) fn last_token(&self, kind: TokenKind) -> Option<Token> {
        let last = self.attempt.recorder.tokens.last().copied();
        last.filter(|token| token.kind == kind)
    }

    /// Returns the last token, if it is a string that is not final.
    pub(super) fn last_string(&self) -> Option<Token> {
        let last = self.attempt.recorder.tokens.last().copied();
        last.filter(|token| token.kind.is_string() && self.attempt.text.has(token.start))
    }
}

impl PlanList<'_> {
    /// Adds a plan: the bytes `range` of the text as written are replaced. `extra` is added to the
    /// cost of the rule.
    pub(super) fn add(
        &mut self,
        out: usize,
        range: (usize, usize),
        by: &str,
        rule: RepairRule,
        extra: u32,
    ) {
        let cost = (rule.cost() + extra) * CHANGE;
        let (by, mode, mistake) = (by.to_owned(), ReadMode::Json, self.site.mistake(rule));
        let plan = RepairPlan {
            out,
            start: range.0,
            end: range.1,
            by,
            rule,
            mode,
            cost,
            mistake,
        };
        if self.site.attempt.text.has(out) {
            self.plans.push(plan);
        }
    }

    /// Adds a plan that changes the mode of reading.
    pub(super) fn add_in(
        &mut self,
        mode: ReadMode,
        out: usize,
        range: (usize, usize),
        by: &str,
        rule: RepairRule,
    ) {
        self.add(out, range, by, rule, 0);
        if let Some(plan) = self
            .plans
            .last_mut()
            .filter(|plan| plan.out == out && plan.rule == rule)
        {
            plan.mode = mode;
        }
    }

    /// Numbers the plans of each rule.
    fn number(&mut self) {
        let mut counts = HashMap::new();
        for plan in &mut self.plans {
            let count: &mut usize = counts.entry(plan.rule).or_default();
            plan.mistake.number = *count;
            *count += 1;
        }
    }

    /// Adds a plan as it is.
    pub(super) fn push(&mut self, plan: RepairPlan) {
        self.plans.push(plan);
    }
}

/// Returns the cost of reading the open string as one up to the end of the text.
pub(super) fn cost_of_open_string(attempt: &RepairAttempt) -> u32 {
    structure(attempt.text.after(attempt.machine.token_start() + 1)) * CHANGE
}
