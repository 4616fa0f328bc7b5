//! Tokens that JSON does not have: strings in other quotes, and comments.

use super::attempt::{ReadMode, RepairAttempt};
use super::input::RepairInput;
use super::recovery::{Comment, Quote};
use super::writer::Fate;
use super::{RepairRule, content};
use crate::error::{SyntaxError, SyntaxErrorKind};

impl RepairAttempt {
    /// Reads a string whose quotes are not `"`.
    pub(super) fn quoted(
        &mut self,
        quote: Quote,
        input: &RepairInput<'_>,
        rest: &str,
    ) -> Result<bool, SyntaxError> {
        if self.machine.state().in_open_escape() {
            // The next character of an escape is neither a quote nor the start of another escape.
            let next = rest.chars().next().map_or(0, char::len_utf8);
            return self
                .feed(rest.get(..next).unwrap_or_default())
                .map(|_| next > 0);
        }
        let special = |c: char| matches!(c, '"' | '\\') || quote.ends(c);
        let plain = rest.find(special).unwrap_or(rest.len());
        if plain > 0 {
            return self
                .feed(rest.get(..plain).unwrap_or_default())
                .map(|_| true);
        }
        let Some(c) = rest.chars().next() else {
            return Ok(false);
        };
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let after = rest.get(slashes..).and_then(|rest| rest.chars().next());
        // Text that was escaped twice may have further escapes.
        let fate = if quote == Quote::Escaped {
            None
        } else {
            self.fate(Some(quote), input, rest)
        };
        match fate {
            Some(Fate::Wait) => return Ok(false),
            Some(Fate::Double(count)) => return Ok(self.double(input, count)),
            Some(Fate::Keep(_)) | None => {}
        }
        match (quote, c) {
            (_, '\\') if after.is_none() && !input.is_end => Ok(false),
            (Quote::Until(_) | Quote::Repeated(..), '\\')
                if slashes == 1 && after.is_some_and(|c| c != '"' && quote.ends(c)) =>
            {
                let close: String = after.into_iter().collect();
                Ok(self.replace(input, 1 + close.len(), close, RepairRule::InvalidEscape))
            }
            (Quote::Escaped, '\\') if after == Some('"') && slashes == 1 => {
                self.mode = ReadMode::Json;
                Ok(self.replace(input, 2, "\"".to_owned(), RepairRule::EscapedQuotes))
            }
            (Quote::Escaped, '\\') if after == Some('"') => Ok(self.replace(
                input,
                slashes + 1,
                "\\\"".to_owned(),
                RepairRule::EscapedQuotes,
            )),
            (Quote::Escaped, '\\') if slashes > 1 => {
                let escape: String = "\\".repeat(slashes / 2).chars().chain(after).collect();
                let len = slashes + after.map_or(0, char::len_utf8);
                Ok(self.replace(input, len, escape, RepairRule::EscapedQuotes))
            }
            (_, '\\') => {
                let escape = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
                self.feed(rest.get(..escape).unwrap_or_default())
                    .map(|_| true)
            }
            (Quote::Repeated(quote, count), c) if c == quote => {
                let found = rest.len() - rest.trim_start_matches(quote).len();
                if found == rest.len() && !input.is_end {
                    return Ok(false);
                }
                // If there are more quotes than close the string, the first ones are text.
                let closes = found == count;
                if closes {
                    self.mode = ReadMode::Json;
                }
                let (len, by) = match (closes, quote) {
                    (true, _) => (count, "\""),
                    (false, '"') => (1, "\\\""),
                    (false, _) => {
                        return self.feed(rest.get(..1).unwrap_or_default()).map(|_| true);
                    }
                };
                Ok(self.replace(input, len, by.to_owned(), RepairRule::Quotes))
            }
            (Quote::Until(closing), '"')
                if !closing.iter().any(char::is_ascii)
                    && let before =
                        content::is_before_member(rest.get(1..).unwrap_or_default())
                    && (before == Some(true) || before.is_none() && !input.is_end) =>
            {
                match before {
                    Some(_) => Err(SyntaxError {
                        kind: SyntaxErrorKind::UnexpectedByte(b'"'),
                        offset: self.at,
                    }),
                    None => Ok(false),
                }
            }
            (Quote::Until(_) | Quote::Repeated(..), '"') => {
                Ok(self.replace(input, 1, "\\\"".to_owned(), RepairRule::Quotes))
            }
            (Quote::Escaped, _) => {
                self.mode = ReadMode::Json;
                self.feed("\"").map(|_| true)
            }
            (Quote::Until(_) | Quote::Repeated(..), _) => {
                self.mode = ReadMode::Json;
                Ok(self.replace(input, c.len_utf8(), "\"".to_owned(), RepairRule::Quotes))
            }
        }
    }

    /// Reads a comment that began at `start`.
    pub(super) fn comment(
        &mut self,
        start: usize,
        kind: Comment,
        input: &RepairInput<'_>,
        rest: &str,
    ) -> Result<bool, SyntaxError> {
        let end = match kind {
            Comment::Line => rest.find('\n'),
            Comment::Block(closing) => {
                // The opening `/*` is not an end, and the push before may end inside one.
                let from = self
                    .at
                    .saturating_sub(closing.len() - 1)
                    .max(start + closing.len());
                let from = (start..=from)
                    .rev()
                    .find(|&at| !input.rest(at).is_empty())
                    .unwrap_or(from);
                input
                    .rest(from)
                    .find(closing)
                    .map(|at| from + at + closing.len() - self.at)
            }
        };
        let is_over = end.is_some() || input.is_end;
        self.at += end.unwrap_or(rest.len());
        if is_over {
            let len = self.at - start;
            self.mode = ReadMode::Json;
            self.at = start;
            self.replace(input, len, String::new(), RepairRule::Comment);
        }
        Ok(end.is_some())
    }
}
