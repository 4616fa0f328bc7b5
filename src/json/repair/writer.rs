//! Decides whether the writer of a string escaped, and doubles the backslashes if not.
//!
//! A string is escaped or it is not. A backslash before a letter without an escape, as in `\d`,
//! proves that its writer did not escape: `\b` and `\f` in the same string are text, too. Line ends
//! are the exception: many writers of raw formulas and paths still write `\n` for a line end, so
//! `\n`, `\t` and `\r` are text only before a letter that could belong to a word, and only if
//! nothing shows that the writer escapes. The decision needs the rest of the string.

use memchr::memchr2;

use super::backslash::{self, Meaning};
use super::input::RepairInput;
use super::recovery::Quote;

/// The evidence in the open string. `raw`, `escape` and `pair` are the first offsets, as written,
/// with that evidence, or `usize::MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EscapeEvidence {
    /// The opening quote of the string in the repaired text.
    pub(super) token: usize,
    /// The offset of a backslash that begins the string.
    first: Option<usize>,
    /// The end of the searched text. `is_over`: the string ends there.
    read: usize,
    is_over: bool,
    /// A backslash that can only be text: the writer does not escape.
    raw: usize,
    /// An escape that proves a writer who escapes.
    escape: usize,
    /// An escaped backslash.
    pair: usize,
}

/// The decision about a backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The next bytes, this many, are read unchanged: the grammar and the other recoveries decide.
    Keep(usize),
    /// The next backslashes, this many, are text: each is doubled.
    Double(usize),
    /// The decision needs more text.
    Wait,
}

impl EscapeEvidence {
    /// Creates the evidence for the string at `token`, before its first backslash at `at`.
    pub(super) fn new(token: usize, at: usize, is_first: bool) -> Self {
        let (first, none) = (is_first.then_some(at), usize::MAX);
        Self {
            token,
            first,
            read: at,
            is_over: false,
            raw: none,
            escape: none,
            pair: none,
        }
    }

    /// Decides about the backslash at `at`: in a stream by the rest of the string within the
    /// look-ahead, in a whole text by the whole string.
    pub(super) fn fate(
        &mut self,
        at: usize,
        quote: Option<Quote>,
        input: &RepairInput<'_>,
    ) -> Fate {
        if at > self.read {
            // The text between has no backslash, or a guess made the closing quote a part of the
            // string.
            (self.read, self.is_over) = (at, false);
        }
        self.search(quote, input);
        let Some((len, meaning)) = self.meaning(at, quote, input) else {
            return Fate::Wait;
        };
        let reach = if input.is_end {
            usize::MAX
        } else {
            at.saturating_add(input.options.lookahead())
        };
        let is_decided = input.is_end || self.is_over || self.read >= reach;
        let is_raw = self.raw < reach;
        let doubled = match meaning {
            Meaning::Plain | Meaning::Escape | Meaning::Pair => Some(false),
            Meaning::Text | Meaning::Last => Some(true),
            Meaning::Word if self.escape < reach => Some(false),
            Meaning::RowEnd if self.pair < reach => Some(false),
            Meaning::Either if is_raw => Some(true),
            _ => is_decided.then_some(is_raw),
        };
        let backslashes = if meaning == Meaning::RowEnd { 2 } else { 1 };
        match doubled {
            None => Fate::Wait,
            Some(true) => Fate::Double(backslashes),
            Some(false) => Fate::Keep(len),
        }
    }

    /// Searches the available text for evidence, up to the end of the string.
    fn search(&mut self, quote: Option<Quote>, input: &RepairInput<'_>) {
        while !self.is_over {
            let rest = input.rest(self.read);
            let found = match quote {
                None => memchr2(b'\\', b'"', rest.as_bytes()),
                Some(quote) => rest.find(|c: char| c == '\\' || quote.ends(c)),
            };
            self.read += found.unwrap_or(rest.len());
            if found.is_none() {
                return;
            }
            if !input.rest(self.read).starts_with('\\') {
                self.is_over = true;
                return;
            }
            let Some((len, meaning)) = self.meaning(self.read, quote, input) else {
                return;
            };
            let at = self.read;
            match meaning {
                Meaning::Text => self.raw = self.raw.min(at),
                Meaning::Escape => self.escape = self.escape.min(at),
                Meaning::Pair => {
                    (self.escape, self.pair) = (self.escape.min(at), self.pair.min(at));
                }
                _ => {}
            }
            if meaning == Meaning::Last {
                (self.read, self.is_over) = (at + 1, true);
                return;
            }
            self.read += len;
        }
    }

    /// Returns the length and the meaning of the escape at `at`; `None` if it needs more text.
    fn meaning(
        &self,
        at: usize,
        quote: Option<Quote>,
        input: &RepairInput<'_>,
    ) -> Option<(usize, Meaning)> {
        let is_first = self.first == Some(at);
        let may_close = self.raw < at && self.escape >= at;
        backslash::meaning(input.rest(at), quote, is_first, may_close, input.is_end)
    }
}
