//! Patterns over JSON Pointers, parsed once and compared step by step.

use std::fmt;

use crate::json::PathSegment;

/// The patterns of a subscription: at most 64, so that a set fits into a `u64`.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    all: Vec<Pattern>,
    /// The set of patterns by their number of steps.
    ends: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    steps: Vec<PatternStep>,
}

/// The keys and indexes that a step of a pattern matches.
#[derive(Clone, Debug)]
enum PatternStep {
    Any,
    /// A key, and the index with the same text.
    One(String, Option<usize>),
}

/// A pattern is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatternError {
    /// The kind of error.
    pub kind: PatternErrorKind,
    /// The pattern.
    pub pattern: String,
    /// The offset in the pattern, in bytes.
    pub offset: usize,
}

/// The kind of a [`PatternError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternErrorKind {
    /// It is not empty and does not start with `/`.
    NoSlash,
    /// It has a `~` that is not followed by `0` or `1`.
    BadEscape,
    /// There are 64 patterns already.
    TooMany,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            PatternErrorKind::NoSlash => "must be empty or start with `/`",
            PatternErrorKind::BadEscape => "`~` must be followed by `0` or `1`",
            PatternErrorKind::TooMany => "more than 64 patterns",
        };
        write!(
            f,
            "pattern {:?}: {what} (byte {})",
            self.pattern, self.offset
        )
    }
}

impl std::error::Error for PatternError {}

impl Patterns {
    pub(super) fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, PatternError> {
        let mut set = Self {
            all: Vec::new(),
            ends: Vec::new(),
        };
        for pattern in patterns {
            set.add(pattern.as_ref())?;
        }
        Ok(set)
    }

    fn add(&mut self, text: &str) -> Result<(), PatternError> {
        let error = |kind, offset| PatternError {
            kind,
            pattern: text.to_owned(),
            offset,
        };
        if self.all.len() == MOST {
            return Err(error(PatternErrorKind::TooMany, 0));
        }
        let steps = match text.strip_prefix('/') {
            Some(rest) => {
                let mut at = 1;
                let read = |written: &str| {
                    let step = PatternStep::read(written)
                        .map_err(|offset| error(PatternErrorKind::BadEscape, at + offset));
                    at += written.len() + 1;
                    step
                };
                rest.split('/').map(read).collect::<Result<Vec<_>, _>>()?
            }
            None if text.is_empty() => Vec::new(),
            None => return Err(error(PatternErrorKind::NoSlash, 0)),
        };
        if self.ends.len() <= steps.len() {
            self.ends.resize(steps.len() + 1, 0);
        }
        self.ends[steps.len()] |= 1 << self.all.len();
        self.all.push(Pattern {
            text: text.to_owned(),
            steps,
        });
        Ok(())
    }

    /// Returns the original texts of the patterns.
    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(|pattern| pattern.text.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the set of all patterns.
    pub(super) fn all(&self) -> u64 {
        match self.all.len() {
            MOST => u64::MAX,
            count => (1 << count) - 1,
        }
    }

    /// Returns the set of patterns with this number of steps.
    pub(super) fn ending(&self, steps: usize) -> u64 {
        self.ends.get(steps).copied().unwrap_or_default()
    }

    /// Returns those of `active` whose step at `at` matches the path's segment. All of these
    /// patterns have such a step.
    pub(super) fn step(&self, active: u64, at: usize, segment: &PathSegment<'_>) -> u64 {
        each(active)
            .filter(|&n| {
                self.all[n]
                    .steps
                    .get(at)
                    .is_some_and(|step| step.matches(segment))
            })
            .fold(0, |mask, n| mask | 1 << n)
    }
}

impl PatternStep {
    /// Parses a reference token (RFC 6901, section 3). The error is the offset of an invalid `~`.
    fn read(written: &str) -> Result<Self, usize> {
        if written == "*" {
            return Ok(Self::Any);
        }
        let bad =
            |&(at, _): &(usize, &str)| !matches!(written.as_bytes().get(at + 1), Some(b'0' | b'1'));
        if let Some((at, _)) = written.match_indices('~').find(bad) {
            return Err(at);
        }
        Ok(Self::One(
            PathSegment::read_key(written),
            PathSegment::read_index(written),
        ))
    }

    fn matches(&self, segment: &PathSegment<'_>) -> bool {
        match (self, segment) {
            (Self::Any, _) => true,
            (Self::One(own, _), PathSegment::Key(key)) => own == key,
            (Self::One(_, own), PathSegment::Index(index)) => *own == Some(*index),
        }
    }
}

/// Returns the numbers in a set, in ascending order.
pub(super) fn each(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        // Removes the lowest bit; an empty set has none.
        set &= set.checked_sub(1)?;
        Some(lowest)
    })
}

/// The most patterns of a subscription: a set of them is the bits of a `u64`.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_numbers() {
        assert_eq!(each(0).count(), 0);
        assert_eq!(each(1 << 63 | 0b1010).collect::<Vec<_>>(), [1, 3, 63]);
        let set = Patterns::new(["/a"; 64]).unwrap();
        assert_eq!(
            (set.all(), set.ending(1), set.ending(2)),
            (u64::MAX, u64::MAX, 0)
        );
        assert_eq!(Patterns::new(["", "/a/b", "/"]).unwrap().all(), 0b111);
    }
}
