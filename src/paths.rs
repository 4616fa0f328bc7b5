//! Values by the pattern of their path.

use std::collections::VecDeque;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::json::{Event, Live, Sink, Span};

/// Tells which values match a pattern.
#[derive(Clone, Debug)]
pub struct Paths {
    patterns: Vec<Vec<String>>,
    found: VecDeque<(usize, String, Span, usize)>,
    last: String,
    root: usize,
}

/// A value that matches.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The pattern's number.
    pub pattern: usize,
    /// What happens to the value.
    pub phase: Phase,
    /// JSON Pointer of the value.
    pub path: &'a str,
    /// Its text.
    pub span: Span,
    /// The number of its root.
    pub root: usize,
}

/// What happens to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It begins.
    Begin,
    /// There is more of it.
    Grow,
    /// It is whole.
    Complete,
}

impl Paths {
    /// Values as soon as they are whole.
    ///
    /// # Errors
    /// A pattern is none.
    pub fn completions<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        let mut parsed = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            if !pattern.is_empty() && !pattern.starts_with('/') {
                return Err(PatternError(pattern.to_owned()));
            }
            parsed.push(pattern.split('/').skip(1).map(str::to_owned).collect());
        }
        Ok(Self { patterns: parsed, found: VecDeque::new(), last: String::new(), root: 0 })
    }

    /// The next match.
    pub fn poll_match(&mut self) -> Option<Match<'_>> {
        let (pattern, path, span, root) = self.found.pop_front()?;
        self.last = path;
        Some(Match { pattern, phase: Phase::Complete, path: &self.last, span, root })
    }
}

impl Sink for Paths {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        if !event.ends_value() {
            return;
        }
        for (number, pattern) in self.patterns.iter().enumerate() {
            let fits = pattern.len() == live.path().len()
                && pattern
                    .iter()
                    .zip(live.path().tokens())
                    .all(|(step, token)| step == "*" || *step == token.to_string());
            if fits {
                self.found.push_back((number, live.path().to_string(), event.span(), self.root));
            }
        }
        self.root += usize::from(live.frames.is_empty());
    }
}

impl Match<'_> {
    /// The value as a `T`.
    ///
    /// # Errors
    /// It is no `T`.
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.span.of(text))
    }
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not begin with a slash", self.0)
    }
}

impl std::error::Error for PatternError {}
