//! Guesses about strings in the syntax of other languages: string sums, repeated quotes, quotes
//! that do not match.

use super::RepairRule;
use super::attempt::{Edit, ReadMode, Token, TokenKind};
use super::guess::Guesses;
use super::recovery::Quote;

/// The quotes that open a string in some language.
const OPENING: [char; 4] = ['"', '\'', '\u{201c}', '\u{2018}'];

impl Guesses<'_> {
    /// Joins a sum of strings, `"a" + "b"`: the string continues after the next quote.
    pub(super) fn string_sums(&mut self) {
        let Some(token) = self
            .last_string()
            .filter(|token| token.kind == TokenKind::String)
        else {
            return;
        };
        let rest = self.source.rest(self.attempt.at);
        let Some(next) = rest.strip_prefix('+').map(str::trim_ascii_start) else {
            return;
        };
        self.waits |= next.is_empty() && !self.source.is_end;
        let Some(quote) = next.chars().next().filter(|c| OPENING.contains(c)) else {
            return;
        };
        let end = self.attempt.at + (rest.len() - next.len()) + quote.len_utf8();
        let out = token.end - 1;
        let mode = Quote::opening(quote).map_or(ReadMode::Json, ReadMode::Quoted);
        self.add_in(
            mode,
            out,
            (self.attempt.in_offset(out), end),
            "",
            RepairRule::StringSum,
        );
    }

    /// Reads two or three equal quotes as one: they look like an empty string before another token.
    pub(super) fn repeated_quotes(&mut self) {
        let Some(token) = self.last_string() else {
            return;
        };
        let start = self.attempt.in_offset(token.start);
        let written = self.source.part(start, self.attempt.at);
        let Some(c) = written.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return;
        };
        let is_empty = token.end - token.start == 2 && written.len() == 2 && written.ends_with(c);
        if !is_empty {
            return;
        }
        let count = if self.next == Some(c) { 3 } else { 2 };
        let mode = ReadMode::Quoted(Quote::Repeated(c, count));
        self.add_in(
            mode,
            token.start,
            (start, start + count),
            "\"",
            RepairRule::Quotes,
        );
        if count == 2 && c == '"' {
            // One of the two is too many.
            self.add(
                token.start,
                (start, start + 1),
                "",
                RepairRule::StrayQuote,
                0,
            );
        }
    }

    /// Closes a string at a quote that differs from the opening one. Otherwise the string runs to a
    /// later quote or to the end of the text.
    pub(super) fn mixed_quotes(&mut self, token: Token, start: usize, text: &str) {
        let is_opening =
            |edit: &&Edit| edit.out == token.start && edit.repair.rule == RepairRule::Quotes;
        let opening = self
            .attempt
            .edits
            .iter()
            .find(is_opening)
            .and_then(|edit| edit.repair.original.chars().next());
        let others: &[char] = match opening {
            Some('\'') => &['\u{2019}', '\u{b4}'],
            Some('\u{2018}' | '\u{b4}' | '`') => &['\''],
            Some('\u{201c}') => &['"', '\u{201c}'],
            Some(_) => &['"'],
            None => return,
        };
        let is_end = |after: &str| after.trim_start().starts_with([',', ':', '}', ']']);
        let places = text
            .match_indices(others)
            .filter(|(at, c)| text.get(at + c.len()..).is_none_or(is_end));
        for (at, c) in places.take(PLACES) {
            let at = start + at;
            self.add(
                self.attempt.out_offset(at),
                (at, at + c.len()),
                "\"",
                RepairRule::Quotes,
                0,
            );
        }
        let (here, at) = (self.attempt.machine.offset(), self.attempt.at);
        if let Some(next) = self
            .next
            .filter(|next| self.attempt.machine.in_string() && others.contains(next))
        {
            self.add(
                here,
                (at, at + next.len_utf8()),
                "\"",
                RepairRule::Quotes,
                0,
            );
        }
    }

    fn last_string(&self) -> Option<Token> {
        let last = self.attempt.recorder.tokens.last().copied();
        last.filter(|token| token.kind.is_string() && token.start >= self.attempt.origin)
    }
}

/// The most offsets in a string that are tried as its end.
const PLACES: usize = 16;
