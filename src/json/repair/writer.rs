//! Decides whether the writer of a string escaped, and doubles the backslashes if not.
//!
//! A string is escaped or it is not. A backslash before a letter without an escape, as in `\d`,
//! proves that its writer did not escape: `\b` and `\f` in the same string are text, too. Line ends
//! are the exception: many writers of raw formulas and paths still write `\n` for a line end, so
//! `\n`, `\t` and `\r` are text only before a letter that could belong to a word, and only if
//! nothing shows that the writer escapes. The decision needs the rest of the string.

use memchr::{memchr, memchr2};

use super::RepairRule;
use super::attempt::{RepairAttempt, RepairInput};
use super::backslash::{self, Meaning};
use super::recovery::Quote;
use crate::error::SyntaxError;

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
        source: &RepairInput<'_>,
    ) -> Fate {
        if at > self.read {
            // The text between has no backslash, or a guess made the closing quote a part of the
            // string.
            (self.read, self.is_over) = (at, false);
        }
        self.search(quote, source);
        let Some((len, meaning)) = self.meaning(at, quote, source) else {
            return Fate::Wait;
        };
        let reach = if source.is_end {
            usize::MAX
        } else {
            at.saturating_add(source.options.lookahead())
        };
        let is_decided = source.is_end || self.is_over || self.read >= reach;
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
    fn search(&mut self, quote: Option<Quote>, source: &RepairInput<'_>) {
        while !self.is_over {
            let rest = source.rest(self.read);
            let found = match quote {
                None => memchr2(b'\\', b'"', rest.as_bytes()),
                Some(quote) => rest.find(|c: char| c == '\\' || quote.ends(c)),
            };
            self.read += found.unwrap_or(rest.len());
            if found.is_none() {
                return;
            }
            if !source.rest(self.read).starts_with('\\') {
                self.is_over = true;
                return;
            }
            let Some((len, meaning)) = self.meaning(self.read, quote, source) else {
                return;
            };
            let at = self.read;
            match meaning {
                Meaning::Text => self.raw = self.raw.min(at),
                Meaning::Escape => self.escape = self.escape.min(at),
                Meaning::Pair => {
                    (self.escape, self.pair) = (self.escape.min(at), self.pair.min(at))
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
        source: &RepairInput<'_>,
    ) -> Option<(usize, Meaning)> {
        let is_first = self.first == Some(at);
        let may_close = self.raw < at && self.escape >= at;
        backslash::meaning(source.rest(at), quote, is_first, may_close, source.is_end)
    }
}

impl RepairAttempt {
    /// Reads text up to the next backslash or deviation. A backslash in a string is read once its
    /// meaning is known.
    pub(super) fn json(
        &mut self,
        source: &RepairInput<'_>,
        rest: &str,
    ) -> Result<bool, SyntaxError> {
        let backslash = |from: usize| {
            let after = rest.as_bytes().get(from..).unwrap_or_default();
            memchr(b'\\', after).map_or(rest.len(), |at| from + at)
        };
        let end = match self.fate(None, source, rest) {
            None => backslash(usize::from(rest.starts_with('\\'))),
            Some(Fate::Keep(len)) => backslash(len),
            Some(Fate::Double(len)) => return Ok(self.double(source, len)),
            Some(Fate::Wait) => return Ok(false),
        };
        self.feed(rest.get(..end).unwrap_or_default())
            .map(|_| end < rest.len())
    }

    /// Decides about the backslash at the start of `rest`. `None` if no escape begins there.
    pub(super) fn fate(
        &mut self,
        quote: Option<Quote>,
        source: &RepairInput<'_>,
        rest: &str,
    ) -> Option<Fate> {
        let state = self.machine.state();
        let is_new = rest.starts_with('\\') && state.in_string() && !state.in_open_escape();
        if !is_new || !source.options.allows(RepairRule::InvalidEscape) {
            return None;
        }
        let token = self.machine.token_start();
        let known = self.writer.filter(|writer| writer.token == token);
        let is_first = self.machine.offset() == token + 1;
        let writer = self
            .writer
            .insert(known.unwrap_or_else(|| EscapeEvidence::new(token, self.at, is_first)));
        Some(writer.fate(self.at, quote, source))
    }

    /// Doubles the next `len` bytes, which are backslashes.
    pub(super) fn double(&mut self, source: &RepairInput<'_>, len: usize) -> bool {
        self.replace(source, len, "\\".repeat(2 * len), RepairRule::InvalidEscape)
    }
}
