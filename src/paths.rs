//! Values at paths, found while the text comes: patterns of JSON Pointers in which `*` stands for one step.

use std::collections::VecDeque;
use std::fmt;

use crate::json::{Event, Live, Sink, Span};

/// Patterns, and the matches that were not asked for yet.
#[derive(Clone, Debug)]
pub struct Paths {
    patterns: Vec<Vec<String>>,
    completions: bool,
    root: usize,
    found: VecDeque<Found>,
    lent: Found,
}

#[derive(Clone, Debug)]
struct Found {
    pattern: usize,
    phase: Phase,
    path: String,
    span: Span,
    root: usize,
}

impl Paths {
    /// Tells all phases of values at these patterns.
    ///
    /// # Errors
    /// A pattern that is neither empty nor begins with `/`.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        let parse = |pattern: P| match pattern.as_ref().strip_prefix('/') {
            Some(tokens) => Ok(tokens.split('/').map(str::to_owned).collect()),
            None if pattern.as_ref().is_empty() => Ok(Vec::new()),
            None => Err(PatternError(pattern.as_ref().to_owned())),
        };
        let patterns = patterns.into_iter().map(parse).collect::<Result<_, _>>()?;
        let lent = Found { pattern: 0, phase: Phase::Begin, path: String::new(), span: Span::default(), root: 0 };
        Ok(Self { patterns, completions: false, root: 0, found: VecDeque::new(), lent })
    }

    /// Tells only values that are whole.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn completions<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        Ok(Self { completions: true, ..Self::new(patterns)? })
    }

    /// The next match.
    pub fn poll_match(&mut self) -> Option<Match<'_>> {
        self.lent = self.found.pop_front()?;
        let Found { pattern, phase, span, root, .. } = self.lent;
        Some(Match { pattern, phase, path: &self.lent.path, span, root })
    }

    fn tell(&mut self, phase: Phase, span: Span, live: &Live<'_>) {
        if self.completions && phase != Phase::Complete {
            return;
        }
        for (pattern, steps) in self.patterns.iter().enumerate() {
            let mut both = steps.iter().zip(live.path().tokens());
            if steps.len() == live.path().len() && both.all(|(step, token)| step == "*" || *step == token.to_string()) {
                let path = live.path().to_string();
                self.found.push_back(Found { pattern, phase, path, span, root: self.root });
            }
        }
    }
}

impl Sink for Paths {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        if event.begins_value() {
            let start = event.span().start;
            self.tell(Phase::Begin, Span { start, end: start + 1 }, live);
        }
        if let Event::Fragment(span) = event {
            self.tell(Phase::Grow, span, live);
        }
        if event.ends_value() {
            self.tell(Phase::Complete, event.span(), live);
            self.root += usize::from(live.frames.is_empty());
        }
    }
}

/// A value at a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The index of the pattern.
    pub pattern: usize,
    /// How far the value is.
    pub phase: Phase,
    /// Its JSON Pointer.
    pub path: &'a str,
    /// What is told: the first byte, what has grown, the whole.
    pub span: Span,
    /// Roots before its own.
    pub root: usize,
}

impl Match<'_> {
    /// The text of the span.
    pub fn text<'t>(&self, text: &'t str) -> &'t str {
        self.span.of(text)
    }
}

/// How far a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It begins.
    Begin,
    /// A string has grown.
    Grow,
    /// It is whole.
    Complete,
}

/// What is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no pattern: it does not begin with `/`", self.0)
    }
}

impl std::error::Error for PatternError {}
