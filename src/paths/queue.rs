//! Matches that wait to be polled.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pattern::each;
use crate::json::Span;

/// A change of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It starts.
    Begin,
    /// More of a string was received.
    Grow,
    /// It is complete.
    Complete,
}

impl Phase {
    /// Returns the name in reports: `begin`, `grow`, `complete`.
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

/// An event at a path that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match<'a> {
    /// The number of the pattern, from 0.
    pub pattern: usize,
    /// The change.
    pub phase: Phase,
    /// The JSON Pointer of the value.
    pub path: &'a str,
    /// For [`Begin`](Phase::Begin), the first byte of the value. For [`Grow`](Phase::Grow), the
    /// next fragment of a string as written: [`decode`](crate::json::string::decode) gives its
    /// text. For [`Complete`](Phase::Complete), the whole value.
    ///
    /// A number, `true`, `false` or `null` starts when it is complete: its span is not known
    /// before.
    pub span: Span,
    /// The number of the value's root, from 0: a document may hold
    /// [several](crate::Trailing::Next).
    pub root: usize,
}

impl Match<'_> {
    /// Returns the part of the document's text that the span names.
    pub fn text<'t>(&self, text: &'t str) -> &'t str {
        self.span.of(text)
    }

    /// Parses the value as a `T`. `text` is the document's.
    ///
    /// # Errors
    /// Those of `serde_json`: the value has another type, is nested deeper than 127, or is not
    /// [complete](Phase::Complete).
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text(text))
    }
}

/// Matches in order, and their paths. Its buffers are reused.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    list: Vec<Queued>,
    /// The number of matches that were polled.
    taken: usize,
    /// The paths, without separators.
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
        let Queued {
            pattern,
            phase,
            ref path,
            span,
            root,
        } = *next;
        let path = self.paths.get(path.clone());
        debug_assert!(path.is_some(), "the path of a queued match is kept");
        Some(Match {
            pattern,
            phase,
            path: path.unwrap_or_default(),
            span,
            root,
        })
    }

    /// Adds a path, which `write` appends, for the next matches. Returns its range.
    pub(super) fn path(&mut self, write: impl FnOnce(&mut String)) -> Range<usize> {
        if self.taken == self.list.len() {
            self.clear();
        }
        let start = self.paths.len();
        write(&mut self.paths);
        start..self.paths.len()
    }

    /// Adds a match for each pattern in `set`.
    pub(super) fn push(
        &mut self,
        set: u64,
        phase: Phase,
        path: &Range<usize>,
        span: Span,
        root: usize,
    ) {
        self.list.extend(each(set).map(|pattern| Queued {
            pattern,
            phase,
            path: path.clone(),
            span,
            root,
        }));
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
