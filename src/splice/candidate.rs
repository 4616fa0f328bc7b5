//! One offset at which a fragment may begin, with its evidence and its result.

use serde::{Serialize, Serializer};

use super::flow::{FlowError, is_space};
use super::prior::Start;
use super::seam::Alignment;
use crate::error::SyntaxErrorKind;

/// One offset at which the fragment may begin. Scores are in bits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// How the fragment would be joined.
    pub alignment: Alignment,
    /// The type of the candidate's start.
    pub start: Start,
    /// Where the repeated text begins, in bytes of the delivered text; the cut where nothing is
    /// repeated.
    pub from: usize,
    /// Bytes of delivered text that the fragment repeats.
    pub overlap: usize,
    /// Where the new text begins, in bytes of the fragment.
    pub at: usize,
    /// The evidence.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// The probability that this is where the fragment begins, with all candidates that give the
    /// same document.
    pub posterior: f64,
    /// The candidate's result.
    #[serde(flatten)]
    pub status: AttemptStatus,
}

/// The evidence for a candidate and against it, in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// The logarithm of the prior probability.
    pub prior: f32,
    /// The cost of the repeated text as new text.
    pub surprise: f32,
    /// Evidence against the new text here: a number that breaks the series, a key that no earlier
    /// element has.
    pub misfit: f32,
    /// The array element that is taken for the one that was cut.
    #[serde(skip)]
    pub(super) element: Option<TakenElement>,
    /// The text that is taken for the anchor has other brackets, commas or colons.
    #[serde(skip)]
    pub(super) has_other_structure: bool,
}

/// An array element of a fragment that is taken for the one that was cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TakenElement {
    /// The depth of its array.
    pub(super) depth: usize,
    /// The element's offset in the fragment.
    pub at: usize,
    /// The bits of the reading in which it is the next element, before its identifying text counts.
    pub(super) lost: f32,
    /// The bits that distinguish it from the next one.
    pub(super) identity: f32,
}

impl Evidence {
    pub(super) fn new(prior: f32, surprise: f32, misfit: f32) -> Self {
        Self {
            prior,
            surprise,
            misfit,
            ..Self::default()
        }
    }

    /// Returns the logarithm of the candidate's share, in bits.
    pub fn score(&self) -> f32 {
        self.prior + self.surprise - self.misfit
    }
}

impl Candidate {
    pub(super) fn new(alignment: Alignment, start: Start, at: usize, overlap: usize) -> Self {
        Self {
            alignment,
            start,
            from: 0,
            overlap,
            at,
            evidence: Evidence::default(),
            posterior: 0.0,
            status: AttemptStatus::Open,
        }
    }

    /// Returns the text that the candidate would add to the document, from the fragment that was
    /// fed. An envelope after the text is still there.
    pub fn adds<'a>(&self, fragment: &'a str) -> &'a str {
        fragment.get(self.at..).unwrap_or_default()
    }

    /// Returns whether the candidate repeats delivered text up to the cut, and adds nothing.
    pub(crate) fn repeats_to_cut(&self, fragment: &str) -> bool {
        let is_envelope = |c: char| is_space(c) || c == '`';
        self.overlap > 0 && self.adds(fragment).trim_matches(is_envelope).is_empty()
    }
}

/// The result of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptStatus {
    /// The candidate was legal when the decision fell, or is, and gives another document.
    Open,
    /// The fragment was joined there.
    Won,
    /// The candidate gives the same document as the one that won.
    Same,
    /// The candidate is impossible.
    Rejected {
        /// The byte of the fragment that shows it.
        byte: usize,
        /// Why it is impossible.
        reason: RejectReason,
    },
}

impl AttemptStatus {
    /// Returns the name in reports: `open`, `won`, `same`, `rejected`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Won => "won",
            Self::Same => "same",
            Self::Rejected { .. } => "rejected",
        }
    }
}

/// Why a candidate is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// The byte is illegal there.
    Grammar(SyntaxErrorKind),
    /// A delivered member would be overwritten with another value.
    Overwrites,
    /// More text follows the end of the root.
    AfterRoot,
    /// More bytes wait in it than may.
    Pending,
    /// Its new text is the text that the request asked to repeat.
    Repeats,
}

impl std::fmt::Display for RejectReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grammar(kind) => write!(f, "the grammar: {kind}"),
            Self::Overwrites => f.write_str("a delivered member would be overwritten"),
            Self::AfterRoot => f.write_str("text goes on after the end of the root"),
            Self::Pending => f.write_str("too much waits in it"),
            Self::Repeats => f.write_str("its new text is the anchor"),
        }
    }
}

impl Serialize for RejectReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<&FlowError> for RejectReason {
    fn from(error: &FlowError) -> Self {
        match error {
            FlowError::Syntax(error) => Self::Grammar(error.kind),
            FlowError::Overwrites => Self::Overwrites,
            FlowError::AfterRoot => Self::AfterRoot,
            FlowError::Pending | FlowError::Ellipsis => Self::Pending,
        }
    }
}
