//! What was found and waits to be polled.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pattern::each;
use crate::json::Span;

/// What has happened to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It begins.
    Begin,
    /// It is a string, and there is more of it.
    Grow,
    /// It is whole.
    Complete,
}

impl Phase {
    /// The name in reports: `begin`, `grow`, `complete`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Grow => "grow",
            Self::Complete => "complete",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that has happened at a place that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// Which pattern, counted from 0.
    pub pattern: usize,
    /// What happened.
    pub phase: Phase,
    /// The JSON Pointer of the value.
    pub path: &'a str,
    /// Of [`Begin`](Phase::Begin) the value's first byte, of [`Grow`](Phase::Grow) the next part of a string as it is
    /// written ([`decode`](crate::json::string::decode) says what it means), of [`Complete`](Phase::Complete) the whole
    /// value.
    ///
    /// A number, `true`, `false` or `null` begins when it is whole: its span is known only then.
    pub span: Span,
    /// Which root the value is in, counted from 0, the first one seen: a document may hold
    /// [several](crate::Trailing::Next).
    pub root: usize,
}

impl Match<'_> {
    /// What the span names in the document's text.
    pub fn text<'t>(&self, text: &'t str) -> &'t str {
        self.span.of(text)
    }

    /// The value as a type; `text` is the document's.
    ///
    /// # Errors
    /// Those of `serde_json`: the value is of another shape, is nested deeper than 128, or is not
    /// [whole](Phase::Complete).
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text(text))
    }
}

/// Matches in their order, and their paths; its buffers are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    list: Vec<Queued>,
    /// How many of them were polled.
    taken: usize,
    /// Their paths, one behind the other.
    paths: String,
}

#[derive(Clone, Debug)]
struct Queued {
    pattern: usize,
    phase: Phase,
    path: Range<usize>,
    span: Span,
    root: usize,
}

impl Queue {
    pub(super) fn poll(&mut self) -> Option<Match<'_>> {
        let Some(next) = self.list.get(self.taken) else {
            self.clear();
            return None;
        };
        self.taken += 1;
        let Queued { pattern, phase, ref path, span, root } = *next;
        let path = self.paths.get(path.clone());
        debug_assert!(path.is_some(), "the path of a match that waits is kept");
        Some(Match { pattern, phase, path: path.unwrap_or_default(), span, root })
    }

    /// Adds the path of matches that come next, which `write` appends; returns where it is.
    pub(super) fn path(&mut self, write: impl FnOnce(&mut String)) -> Range<usize> {
        if self.taken == self.list.len() {
            self.clear();
        }
        let start = self.paths.len();
        write(&mut self.paths);
        start..self.paths.len()
    }

    /// Adds a match for each pattern in `set`.
    pub(super) fn push(&mut self, set: u64, phase: Phase, path: &Range<usize>, span: Span, root: usize) {
        self.list.extend(each(set).map(|pattern| Queued { pattern, phase, path: path.clone(), span, root }));
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> [usize; 2] {
        [self.list.capacity(), self.paths.capacity()]
    }

    fn clear(&mut self) {
        self.list.clear();
        self.paths.clear();
        self.taken = 0;
    }
}
