//! The table of guesses: changes that could explain a deviation without a certain recovery.
//!
//! Each guess is a plan: an offset in the repaired text to return to, and the changes from there
//! on. The search decides between the plans by trying them.

use std::collections::HashMap;

use super::super::grammar::GrammarState;
use super::super::stack::Kind;
use super::super::string::quoted;
use super::super::walk;
use super::RepairRule;
use super::attempt::{ReadMode, RepairAttempt, RepairInput, Token, TokenKind};
use super::content::{self, ends_in_escape, opens_in, structure};
use super::habit::Mistake;
use super::recovery::Quote;

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
pub(super) const CHANGE: u32 = 4;
/// The cost of a further quote inside the same string.
pub(super) const NEXT_QUOTE: u32 = CHANGE / 2;

/// The most earlier tokens that a guess may change, and the most offsets that are tried in one
/// token.
const TOKENS: usize = 6;
const PLACES: usize = 16;
/// The most closing brackets that may be missing at one offset.
const CLOSERS: usize = 4;
/// Typographic quotes that close a string.
const CLOSING: [char; 4] = ['\u{201d}', '\u{2019}', '\u{bb}', '\u{b4}'];
/// The most characters of a key without quotes.
const KEY: usize = 64;

/// Lists plans for one deviation.
pub(super) struct Guesses<'a> {
    pub(super) attempt: &'a RepairAttempt,
    pub(super) source: &'a RepairInput<'a>,
    state: GrammarState,
    /// The character at the deviation; `None` at the end of the text.
    pub(super) next: Option<char>,
    plans: Vec<RepairPlan>,
    /// The decision needs text that has not been received.
    pub(super) waits: bool,
}

impl<'a> Guesses<'a> {
    /// Returns the plans for the deviation at which an attempt stopped, the likeliest first among
    /// equals. `None`: the decision needs later text.
    pub(super) fn list(
        attempt: &'a RepairAttempt,
        source: &'a RepairInput<'a>,
    ) -> Option<Vec<RepairPlan>> {
        let next = source.rest(attempt.at).chars().next();
        // A number that is the root stays the root, whatever text follows it.
        let is_root = attempt.machine.frames().is_empty()
            && next.is_some_and(|next| attempt.is_after_number(next));
        let state = if is_root {
            GrammarState::Done
        } else {
            attempt.machine.state()
        };
        let mut guesses = Self {
            attempt,
            source,
            state,
            next,
            plans: Vec::new(),
            waits: false,
        };
        guesses.open_strings();
        if next.is_some() {
            guesses.string_sums();
            guesses.repeated_quotes();
            guesses.separators();
            guesses.words();
            guesses.missing_closers();
            guesses.wrong_closers();
            guesses.stray_quotes();
        }
        if next.is_some() || attempt.machine.is_done() {
            guesses.inner_quotes();
        }
        let options = source.options;
        guesses.plans.retain(|plan| options.allows(plan.rule));
        guesses.number();
        (!guesses.waits).then_some(guesses.plans)
    }

    pub(super) fn add(
        &mut self,
        out: usize,
        range: (usize, usize),
        by: &str,
        rule: RepairRule,
        extra: u32,
    ) {
        let cost = (rule.cost() + extra) * CHANGE;
        let (by, mode, mistake) = (by.to_owned(), ReadMode::Json, self.mistake(rule));
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
        if out >= self.attempt.origin {
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

    /// Returns the mistake that a rule explains here. Its number is set later.
    fn mistake(&self, rule: RepairRule) -> Mistake {
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

    /// Numbers the plans of each rule.
    fn number(&mut self) {
        let mut counts = HashMap::new();
        for plan in &mut self.plans {
            let count: &mut usize = counts.entry(plan.rule).or_default();
            plan.mistake.number = *count;
            *count += 1;
        }
    }

    fn here(&self) -> (usize, usize) {
        (self.attempt.machine.offset(), self.attempt.at)
    }

    /// Returns the end of the last whole child, in the repaired text and as written.
    fn child_end(&self) -> Option<(usize, usize)> {
        let end = self.attempt.machine.frames().last()?.end;
        (end >= self.attempt.origin).then(|| (end, self.attempt.in_offset(end)))
    }

    /// Returns the last strings that are whole, the newest first.
    fn strings(&self) -> impl Iterator<Item = Token> + use<'a> {
        let origin = self.attempt.origin;
        let tokens = self.attempt.recorder.tokens.iter().rev().copied();
        tokens
            .filter(move |token| token.kind.is_string() && token.end > origin + 1)
            .take(TOKENS)
    }

    /// Missing commas and colons, three dots.
    fn separators(&mut self) {
        let (out, at) = self.here();
        let Some(next) = self.next else { return };
        let is_value =
            next == '"' || next.is_alphanumeric() || matches!(next, '{' | '[' | '-' | '\'');
        match self.state {
            GrammarState::AfterElement | GrammarState::AfterMember if is_value => {
                // In an object a key follows the comma, so a bracket is not the next member.
                if let Some((end, end_in)) = self.child_end()
                    && (self.state == GrammarState::AfterElement || !matches!(next, '{' | '['))
                    && !self.opens_next(end)
                    && !self.touches_word(end, next)
                {
                    // A writer who forgets a comma usually still writes the white space after it,
                    // so without white space the guess costs more.
                    self.add(
                        end,
                        (end_in, end_in),
                        ",",
                        RepairRule::MissingComma,
                        u32::from(end == out),
                    );
                }
            }
            GrammarState::Colon if is_value => self.missing_colon(out, at),
            // Other languages write `=` or `=>` between a key and its value.
            GrammarState::Colon if next == '=' => {
                let len = if self.source.rest(at).starts_with("=>") {
                    2
                } else {
                    1
                };
                self.add(out, (at, at + len), ":", RepairRule::MissingColon, 0);
            }
            _ => {}
        }
        let rest = self.source.rest(at);
        // All dots count, whatever the chunks are: up to the look-ahead.
        let most = self.source.options.caps.lookahead.max(3);
        let count = rest
            .bytes()
            .take(most)
            .take_while(|byte| *byte == b'.')
            .count();
        self.waits |= count == rest.len() && count < most && !self.source.is_end;
        let dots = if next == '\u{2026}' {
            next.len_utf8()
        } else {
            count
        };
        self.waits |= next == '\u{2026}' && dots == rest.len() && !self.source.is_end;
        // Dots before a name are not an ellipsis: `...rest`.
        let is_name = rest
            .get(dots..)
            .is_some_and(|after| after.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if dots >= 3 && !is_name && !self.state.in_token() {
            // The guess drops the comma before the dots, too.
            let is_listed = matches!(self.state, GrammarState::Value | GrammarState::Key)
                && !self.attempt.machine.frames().is_empty();
            let (out, start) = self
                .child_end()
                .filter(|_| is_listed && self.is_after_comma())
                .unwrap_or((out, at));
            self.add(out, (start, at + dots), "", RepairRule::Ellipsis, 0);
        }
    }

    /// Whether the closing quote at `end` more likely opens the next token: a bracket or a comma
    /// precedes it, and no space follows.
    fn opens_next(&self, end: usize) -> bool {
        let before = self
            .attempt
            .out
            .get(..end.saturating_sub(self.attempt.origin))
            .unwrap_or_default();
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
    fn touches_word(&self, end: usize, next: char) -> bool {
        let before = self
            .attempt
            .out
            .get(..end.saturating_sub(self.attempt.origin))
            .unwrap_or_default();
        let ends_in_word =
            before.ends_with(char::is_alphanumeric) && self.state == GrammarState::AfterElement;
        let is_word_after = before.ends_with('"') && next.is_alphanumeric();
        end == self.attempt.machine.offset() && (ends_in_word && next == '"' || is_word_after)
    }

    /// Whether the last token is a comma.
    fn is_after_comma(&self) -> bool {
        self.attempt.out.trim_ascii_end().ends_with(',')
    }

    /// No colon after a key, or a colon before its closing quote.
    fn missing_colon(&mut self, out: usize, at: usize) {
        let key = self
            .attempt
            .recorder
            .tokens
            .last()
            .filter(|token| token.kind == TokenKind::Key);
        if key.is_some_and(|key| key.end - key.start == 2) {
            // An empty key is a mistake: its quotes are doubled, or belong to other text.
            return;
        }
        let end = key.map_or(0, |key| key.end).max(self.attempt.origin + 2) - 2;
        let start = self.attempt.in_offset(end);
        let is_inside = self.source.part(start, start + 2) == ":\"";
        if is_inside {
            self.add(end, (start, start + 2), "\":", RepairRule::KeyQuote, 0);
        }
        let (out, at) = key.map_or((out, at), |key| (key.end, self.attempt.in_offset(key.end)));
        // A colon at the end of the key more likely belongs behind the quote than to the key.
        self.add(
            out,
            (at, at),
            ":",
            RepairRule::MissingColon,
            u32::from(is_inside),
        );
    }

    /// Keys and values without quotes, or without the first one.
    fn words(&mut self) {
        let state = self.state;
        let (mut out, mut at) = self.here();
        let is_after = matches!(
            state,
            GrammarState::AfterElement | GrammarState::AfterMember
        );
        let in_scalar = state.in_token() && !state.in_string();
        if in_scalar {
            out = self.attempt.machine.token_start();
        } else if is_after && self.next.is_some_and(char::is_alphanumeric) {
            let last = self
                .attempt
                .recorder
                .tokens
                .last()
                .filter(|token| token.kind == TokenKind::Scalar);
            let Some(last) = last else { return };
            out = last.start;
        } else if !(state.takes_value() || state.takes_key()) {
            return;
        }
        if out < self.attempt.origin {
            return;
        }
        at = at.min(self.attempt.in_offset(out));
        let rest = self.source.rest(at);
        if rest.starts_with('\\') {
            return self.escaped_quotes(out, at, rest);
        }
        let is_key = state.takes_key();
        let Some((word, after)) = self.word(at, is_key) else {
            return;
        };
        let is_quoted = after.starts_with('"') && !word.ends_with(char::is_whitespace);
        let word = word.trim_end();
        let mut chars = word.chars();
        let starts = !word.starts_with("..")
            && chars.next().is_some_and(|c| {
                !matches!(c, ':' | '\'' | '*' | ';' | ')' | '(' | '=' | '>' | '|')
            });
        if !starts || is_prefixed(word) || after.starts_with(['{', '[']) {
            return;
        }
        let by = quoted_word(word);
        let end = at + word.len();
        if !is_key && after.starts_with(',') {
            self.words_with_commas(out, at);
        }
        match (is_key, is_quoted) {
            (_, true) => self.add(out, (at, end + 1), &by, RepairRule::MissingQuote, 0),
            (true, false)
                if after.trim_ascii_start().starts_with(':') && word.chars().count() <= KEY =>
            {
                self.add(out, (at, end), &by, RepairRule::BareKey, 0);
            }
            // A quote in the same line belongs to the value, unless it begins a key. The value is
            // unknown then.
            (false, false) if !after.starts_with('"') || self.is_before_key(at, word, after) => {
                self.add(
                    out,
                    (at, end),
                    &by,
                    RepairRule::BareWord,
                    u32::from(is_after),
                );
            }
            _ => {}
        }
    }

    /// Whether a word at `at` is all of its value, and the quote after it begins a key.
    fn is_before_key(&mut self, at: usize, word: &str, after: &str) -> bool {
        let found = content::is_key(after);
        self.waits |= found.is_none() && !self.source.is_end && !self.ahead(at).1;
        found == Some(true) && word.ends_with(char::is_alphanumeric)
    }

    /// A value of a member whose text has commas, without the first quote: `"to": Vigo, Leith",`.
    fn words_with_commas(&mut self, out: usize, at: usize) {
        if self
            .attempt
            .machine
            .frames()
            .last()
            .is_none_or(|top| top.kind != Kind::Object)
        {
            return;
        }
        let (rest, is_cut) = self.ahead(at);
        let is_over = self.source.is_end && !is_cut;
        let Some(end) = rest.find(['"', '\n', '{', '}', '[', ']', '\\']) else {
            self.waits |= !is_cut && !is_over;
            return;
        };
        let (text, after) = rest.split_at(end);
        let Some(after) = after.strip_prefix('"').map(str::trim_ascii_start) else {
            return;
        };
        self.waits |= after.is_empty() && !is_cut && !is_over;
        let ends_text = text.ends_with(|c: char| !c.is_whitespace() && !matches!(c, ',' | ':'));
        if ends_text && (after.starts_with([',', '}']) || after.is_empty() && is_over) {
            self.add(
                out,
                (at, at + end + 1),
                &quoted(text),
                RepairRule::MissingQuote,
                structure(text),
            );
        }
    }

    /// Returns the text from `at` on, up to the end of the look-ahead, and whether more text
    /// follows.
    fn ahead(&self, at: usize) -> (&'a str, bool) {
        let rest = self.source.rest(at);
        let most = (self.attempt.at - at).saturating_add(self.source.options.caps.lookahead);
        let most = (0..=most.min(rest.len()))
            .rev()
            .find(|&end| rest.is_char_boundary(end))
            .unwrap_or(0);
        (rest.get(..most).unwrap_or_default(), most < rest.len())
    }

    /// Returns the word that begins at `at`, and the text after it in the look-ahead. `None` if the
    /// look-ahead has no end of the word, or not the token after a key that ends a line. Also
    /// `None` while more text may still bring that.
    fn word(&mut self, at: usize, is_key: bool) -> Option<(&'a str, &'a str)> {
        let source = self.source;
        let (rest, is_cut) = self.ahead(at);
        let ends =
            |c: char| matches!(c, '"' | ',' | '}' | ']' | '{' | '[' | '\n') || is_key && c == ':';
        let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        if after.is_empty() || is_key && after.trim_ascii_start().is_empty() {
            self.waits |= !is_cut && !source.is_end;
            if is_cut || !source.is_end {
                return None;
            }
        }
        Some((word, after))
    }

    /// A string between `\"` and `\"`.
    fn escaped_quotes(&mut self, out: usize, at: usize, rest: &str) {
        if rest.len() < 2 && !self.source.is_end {
            self.waits = true;
        } else if rest.starts_with("\\\"") {
            self.add_in(
                ReadMode::Quoted(Quote::Escaped),
                out,
                (at, at + 2),
                "\"",
                RepairRule::EscapedQuotes,
            );
        }
    }

    /// Strings whose closing quote is lost, so that a later one closed them; at the end of the
    /// text, none did.
    fn open_strings(&mut self) {
        let machine = &self.attempt.machine;
        let mut strings: Vec<_> = self
            .strings()
            .take(2)
            .map(|token| (token, token.end - 1))
            .collect();
        if machine.in_string() {
            let kind = if machine.in_key() {
                TokenKind::Key
            } else {
                TokenKind::String
            };
            let (start, end) = (machine.token_start(), machine.offset());
            strings.insert(
                0,
                (
                    Token {
                        kind,
                        start,
                        end,
                        depth: machine.frames().len(),
                    },
                    end,
                ),
            );
        }
        for (token, end) in strings {
            let start = (token.start + 1).max(self.attempt.origin);
            let (start, end) = (self.attempt.in_offset(start), self.attempt.in_offset(end));
            let text = self.source.part(start, end);
            let is_key = token.kind == TokenKind::Key;
            let rule = if is_key {
                RepairRule::KeyQuote
            } else {
                RepairRule::OpenString
            };
            self.mixed_quotes(token, start, text);
            // A key ends before a colon. A string ends before a separator, most likely before the
            // last one.
            let places: Vec<usize> = if is_key {
                text.match_indices(':').map(|(at, _)| at).take(2).collect()
            } else {
                text.rmatch_indices([',', '}', ']', '\n'])
                    .map(|(at, _)| at)
                    .take(PLACES)
                    .collect()
            };
            for place in places {
                let content = text.get(..place).unwrap_or_default().trim_end();
                // A quote after a backslash is escaped. A bracket that the text opens itself is
                // text.
                if ends_in_escape(content)
                    || (!is_key && opens_in(content, text.get(place..).unwrap_or_default()))
                {
                    continue;
                }
                let at = start + content.len();
                if let Some(quote) = content.chars().last().filter(|c| CLOSING.contains(c)) {
                    // It closes the string, although the opening quote differs.
                    let at = at - quote.len_utf8();
                    self.add(
                        self.attempt.out_offset(at),
                        (at, at + quote.len_utf8()),
                        "\"",
                        RepairRule::Quotes,
                        0,
                    );
                    continue;
                }
                let out = self.attempt.out_offset(at);
                let extra = structure(content);
                self.add(out, (at, at), "\"", rule, extra);
            }
        }
    }

    /// Containers that were not closed before the deviation.
    fn missing_closers(&mut self) {
        let frames = self.attempt.machine.frames();
        let Some(top) = frames.last() else { return };
        let next = self.next.unwrap_or(' ');
        let end = self.child_end();
        let closers = |count: usize| -> String {
            frames
                .iter()
                .rev()
                .take(count)
                .map(|f| f.kind.closer())
                .collect()
        };
        let closes = |count: usize| (count > 0 && count <= CLOSERS).then(|| closers(count));
        // Each further bracket is a further mistake.
        let extra = |count: usize| RepairRule::MissingCloser.cost() * (count as u32 - 1);
        // The bracket closes an outer container, so the containers inside it lack their closers.
        if matches!(next, '}' | ']') && next != top.kind.closer() && !self.state.in_string() {
            let count = frames
                .iter()
                .rev()
                .take_while(|frame| frame.kind.closer() != next)
                .count();
            if let (Some(by), Some((out, at))) =
                (closes(count).filter(|_| count < frames.len()), end)
            {
                self.add(out, (at, at), &by, RepairRule::MissingCloser, extra(count));
            }
        }
        let is_object = top.kind == Kind::Object;
        if is_object && matches!(self.state, GrammarState::Key | GrammarState::AfterMember) {
            let most = frames
                .iter()
                .rev()
                .take_while(|frame| frame.kind == Kind::Object)
                .count();
            if let (Some(by), Some((out, at))) = (closes(most).filter(|_| most < frames.len()), end)
            {
                self.add(out, (at, at), &by, RepairRule::MissingCloser, extra(most));
            }
            self.earlier_closers();
        }
        // The string before a colon is the key of an object around the array.
        if next == ':' && self.state == GrammarState::AfterElement {
            let count = frames
                .iter()
                .rev()
                .take_while(|frame| frame.kind == Kind::Array)
                .count();
            let last = self
                .attempt
                .recorder
                .tokens
                .last()
                .filter(|token| token.kind == TokenKind::String);
            if let (Some(by), Some(last)) = (closes(count).filter(|_| count < frames.len()), last) {
                let from = last.start.saturating_sub(self.attempt.origin);
                let before = self
                    .attempt
                    .out
                    .get(..from)
                    .unwrap_or_default()
                    .trim_ascii_end();
                let before = before.strip_suffix(',').unwrap_or(before).trim_ascii_end();
                let out = self.attempt.origin + before.len();
                let at = self.attempt.in_offset(out);
                // A bracket before a key was not opened for an empty array, unless a comma shows
                // that it was. The comma may be dropped already: then it is the byte before.
                let is_empty = before.ends_with('[');
                let from = at.saturating_sub(1);
                if !is_empty
                    || self
                        .source
                        .part(from, self.attempt.in_offset(last.start))
                        .contains(',')
                {
                    self.add(out, (at, at), &by, RepairRule::MissingCloser, extra(count));
                }
            }
        }
    }

    /// An object inside an object that was not closed: the missing closer is noticed only where the
    /// outer object ends.
    fn earlier_closers(&mut self) {
        let depth = self.attempt.machine.frames().len();
        let tokens = self.attempt.recorder.tokens.iter().rev();
        let ends = tokens.filter(|token| token.kind.ends_value() && token.depth >= depth.max(2));
        for token in ends.take(PLACES) {
            let at = self.attempt.in_offset(token.end);
            self.add(token.end, (at, at), "}", RepairRule::MissingCloser, 0);
        }
    }

    /// Closing brackets that are superfluous, or of the other kind.
    fn wrong_closers(&mut self) {
        let (out, at) = self.here();
        let tokens = self.attempt.recorder.tokens.iter().rev();
        let closers = tokens
            .filter(|token| token.kind == TokenKind::Close)
            .take(PLACES)
            .map(|token| token.start);
        let top = self.attempt.machine.frames().last();
        // A bracket where a value is due ends an object with a missing value, which is unknown.
        let lacks_value = self.state == GrammarState::Colon
            || self.state == GrammarState::Value
                && top.is_some_and(|frame| frame.kind == Kind::Object);
        if let Some(next @ ('}' | ']')) = self.next
            && !self.state.in_string()
            && !lacks_value
        {
            self.add(out, (at, at + 1), "", RepairRule::ExtraCloser, 0);
            if let Some(closer) = top
                .map(|frame| frame.kind.closer())
                .filter(|closer| *closer != next)
            {
                self.add(
                    out,
                    (at, at + 1),
                    &closer.to_string(),
                    RepairRule::WrongCloser,
                    0,
                );
            }
        }
        // A lost bracket rules out a superfluous one.
        let is_one_lost = closers
            .clone()
            .next()
            .is_some_and(|place| self.ends_unopened(place));
        for place in closers.filter(|_| !is_one_lost) {
            let start = self.attempt.in_offset(place);
            let is_written = self.source.part(start, start + 1).starts_with(['}', ']']);
            if is_written {
                self.add(place, (start, start + 1), "", RepairRule::ExtraCloser, 0);
            }
        }
    }

    /// Whether the array that the bracket at `place` closes has a container and after it only
    /// values other than containers: then the bracket that opens those is lost. Without the bracket
    /// at `place` they would become elements of the outer array, or of the container.
    fn ends_unopened(&self, place: usize) -> bool {
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

    /// Quotes before a bracket, or at an offset where only a separator may follow.
    fn stray_quotes(&mut self) {
        let (out, at) = self.here();
        if self.next == Some('"') && !self.state.in_token() {
            self.add(out, (at, at + 1), "", RepairRule::StrayQuote, 0);
        }
        for token in self.strings().take(2).collect::<Vec<_>>() {
            let from = (token.start + 1).saturating_sub(self.attempt.origin);
            let content = self
                .attempt
                .out
                .get(from..)
                .unwrap_or_default()
                .trim_ascii_start();
            if content.starts_with(['{', '[', '}', ']', ',']) && token.start >= self.attempt.origin
            {
                let start = self.attempt.in_offset(token.start);
                self.add(
                    token.start,
                    (start, start + 1),
                    "",
                    RepairRule::StrayQuote,
                    0,
                );
            }
        }
    }

    /// Quotes that closed a string although they belong to its text.
    fn inner_quotes(&mut self) {
        for token in self.strings().collect::<Vec<_>>() {
            let out = token.end - 1;
            let at = self.attempt.in_offset(out);
            let covering = self
                .attempt
                .edits
                .iter()
                .find(|edit| edit.out <= out && out < edit.out_end());
            let mut inside = self
                .attempt
                .edits
                .iter()
                .filter(|edit| (token.start..out).contains(&edit.out));
            let start = (token.start + 1).saturating_sub(self.attempt.origin);
            let content = self
                .attempt
                .out
                .get(start..=out - self.attempt.origin)
                .unwrap_or_default();
            // Opening another type of quote again leaves no edit.
            let is_kept =
                |c: char| covering.is_some_and(|edit| edit.repair.original.starts_with(c));
            let is_first = inside.all(|edit| edit.repair.rule != RepairRule::InnerQuote)
                && !content.contains(is_kept);
            let after = self
                .source
                .rest(self.attempt.in_offset(token.end))
                .trim_ascii_start();
            // Doubled quotes before a key do not belong to it.
            let is_doubled = token.kind == TokenKind::Key && token.end - token.start == 2;
            if is_doubled
                || token.kind == TokenKind::Key && after.starts_with(':')
                || is_first && after.starts_with([',', ':', '}', ']'])
            {
                // A separator follows, so the token is whole. A later mistake doesn't change that.
                continue;
            }
            let extra = structure(content);
            let first = if is_first {
                RepairRule::InnerQuote.cost() * CHANGE
            } else {
                NEXT_QUOTE
            };
            let cost = first + extra * CHANGE;
            let mistake = self.mistake(RepairRule::InnerQuote);
            let plan = |len: usize, by: String, mode: ReadMode| RepairPlan {
                out,
                start: at,
                end: at + len,
                by,
                rule: RepairRule::InnerQuote,
                mode,
                cost,
                mistake,
            };
            match covering {
                None => self.plans.push(plan(1, "\\\"".to_owned(), ReadMode::Json)),
                Some(edit)
                    if matches!(
                        edit.repair.rule,
                        RepairRule::Quotes | RepairRule::EscapedQuotes
                    ) =>
                {
                    let written = &edit.repair.original;
                    let quote = match edit.repair.rule {
                        RepairRule::EscapedQuotes => Quote::Escaped,
                        _ => written
                            .chars()
                            .next()
                            .and_then(Quote::closing)
                            .unwrap_or(Quote::Escaped),
                    };
                    // The quote stays unchanged: an edit without an effect, but another reading.
                    self.plans.push(plan(
                        written.len(),
                        written.clone(),
                        ReadMode::Quoted(quote),
                    ));
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns a word in quotes. If each of its backslashes begins an escape, the word is escaped
/// already, as in a string.
fn quoted_word(word: &str) -> String {
    let string = format!("\"{word}\"");
    if walk::is_valid(&string) {
        string
    } else {
        quoted(word)
    }
}

/// Whether a word is a Python string with a prefix, as `u'a'`: its quotes do not belong to its
/// text.
fn is_prefixed(word: &str) -> bool {
    let quoted = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    word.len() - quoted.len() <= PREFIX
        && quoted.len() > 1
        && quoted.starts_with('\'')
        && quoted.ends_with('\'')
}

/// The most letters of such a prefix.
const PREFIX: usize = 2;

/// Returns the cost of reading the open string as one up to the end of the text.
pub(super) fn cost_of_open_string(attempt: &RepairAttempt) -> u32 {
    let from = (attempt.machine.token_start() + 1).saturating_sub(attempt.origin);
    structure(attempt.out.get(from..).unwrap_or_default()) * CHANGE
}
