//! Explains why a fragment was joined where it was, or not at all: all candidates with their
//! results.

use serde::Serialize;

use super::candidate::{AttemptStatus, Candidate};
use super::deciding::Deciding;
use super::seam::{Expect, Repair, Seam, SpliceError};
use super::slot::Slot;
use super::{Splice, SplicePhase};
use crate::document::{Cut, Document};
use crate::envelope::AllowedRoots;

/// The whole decision of one [`Splice`], up to now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explained {
    /// The expected beginning.
    pub expect: Expect,
    /// Where the delivered text stopped.
    pub cut: Cut,
    /// The anchor; `None` where nothing was delivered.
    pub anchor: Option<RequestedAnchor>,
    /// Every candidate for the beginning of the fragment: the winner first, then the open ones,
    /// then the rejected ones. Empty if nothing was delivered.
    pub candidates: Vec<ExplainedCandidate>,
    /// Candidates that were rejected and are not listed: of very many only the first are
    /// remembered.
    pub unlisted: usize,
    /// There were more candidates than are tried, so that only a requested one could win.
    pub is_crowded: bool,
    /// The most bytes of the fragment that waited for the decision.
    pub pending: usize,
    /// How the fragment was joined, if it was. [`Seam::decided`] has the byte of the decision.
    pub seam: Option<Seam>,
    /// Why it was not joined, or not to its end.
    pub failure: Option<SpliceError>,
    /// The changes to the fragment's text, in order.
    pub repairs: Vec<Repair>,
}

/// A candidate, and the document that it would give.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExplainedCandidate {
    /// The candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// The JSON Pointer at which its repeated text begins.
    pub path: String,
    /// The text that it would add to the document, cut after [`SHOWN`](Self::SHOWN) characters.
    pub adds: String,
}

impl ExplainedCandidate {
    /// Characters that are kept of the text that a candidate would add.
    pub const SHOWN: usize = 40;
}

/// The anchor that a fragment had to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestedAnchor {
    /// Its bytes.
    pub length: usize,
    /// Whether it may occur elsewhere in the delivered text, too.
    pub ambiguous: bool,
}

/// The candidates of a decision.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateReport {
    list: Vec<Candidate>,
    unlisted: usize,
    is_crowded: bool,
}

impl CandidateReport {
    /// The requested candidate, which was not compared with others.
    pub(super) fn of_winner(candidate: &Candidate) -> Self {
        let won = Candidate {
            posterior: 1.0,
            status: AttemptStatus::Won,
            ..candidate.clone()
        };
        Self {
            list: vec![won],
            ..Self::default()
        }
    }

    pub(super) fn as_slice(&self) -> &[Candidate] {
        &self.list
    }
}

/// The candidates with their results, the winner first.
pub(super) fn candidates_of(deciding: &Deciding, winner: Option<usize>) -> CandidateReport {
    let won = winner.and_then(|winner| deciding.attempts.open.get(winner));
    let status = |(number, attempt): (usize, &super::attempt::SpliceAttempt)| {
        let status = match won {
            Some(_) if Some(number) == winner => AttemptStatus::Won,
            Some(won) if won.document() == attempt.document() => AttemptStatus::Same,
            _ => AttemptStatus::Open,
        };
        Candidate {
            status,
            ..attempt.candidate.clone()
        }
    };
    let mut candidates: Vec<Candidate> = deciding
        .attempts
        .open
        .iter()
        .enumerate()
        .map(status)
        .collect();
    candidates.sort_by_key(|candidate| candidate.status != AttemptStatus::Won);
    let rejected = &deciding.attempts.rejected;
    candidates.extend(rejected.listed.iter().cloned());
    CandidateReport {
        list: candidates,
        unlisted: rejected.unlisted,
        is_crowded: rejected.is_crowded,
    }
}

impl Splice {
    /// Returns the decision up to now. `slot` is the one that was fed, and `fragment` the text that
    /// was fed. Reads the delivered text once more, for the paths: it is meant for people who ask
    /// why.
    pub fn explain(&self, slot: &Slot, fragment: &str) -> Explained {
        let open = if let SplicePhase::Deciding(deciding) = &self.phase {
            Some(deciding)
        } else {
            None
        };
        let CandidateReport {
            list: candidates,
            unlisted,
            is_crowded,
        } = open.map_or_else(
            || self.candidates.clone(),
            |deciding| candidates_of(deciding, None),
        );
        Explained {
            expect: self.task.request.expect,
            cut: self.task.cut.clone(),
            anchor: self.task.anchor.as_ref().map(|anchor| RequestedAnchor {
                length: anchor.range.len(),
                ambiguous: anchor.ambiguous,
            }),
            candidates: explained(slot, &self.task.cut, candidates, fragment),
            unlisted,
            is_crowded,
            pending: self.max_pending,
            failure: self.outcome().err(),
            seam: self.seam().cloned(),
            repairs: self.repairs().to_vec(),
        }
    }
}

/// Adds to each candidate the JSON Pointer at which its repeated text begins, and its new text.
fn explained(
    slot: &Slot,
    cut: &Cut,
    candidates: Vec<Candidate>,
    fragment: &str,
) -> Vec<ExplainedCandidate> {
    let mut offsets: Vec<usize> = candidates
        .iter()
        .map(|one| one.from)
        .filter(|&from| from < cut.offset)
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    let mut read = Document::with_roots(usize::MAX, AllowedRoots::Any);
    let mut from = slot.document().root_start().unwrap_or_default();
    let path = |&offset: &usize| {
        let new = slot.text().get(from..offset).unwrap_or_default();
        from = offset.max(from);
        // It was legal when it was delivered.
        let _ = read.push(new);
        read.cut().path
    };
    let paths: Vec<String> = offsets.iter().map(path).collect();
    let explained = |candidate: Candidate| {
        let known = offsets
            .binary_search(&candidate.from)
            .ok()
            .and_then(|at| paths.get(at));
        let adds = candidate.adds(fragment).chars();
        ExplainedCandidate {
            path: known.unwrap_or(&cut.path).clone(),
            adds: adds.take(ExplainedCandidate::SHOWN).collect(),
            candidate,
        }
    };
    candidates.into_iter().map(explained).collect()
}
