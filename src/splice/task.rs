//! The task of a splice: the facts that hold from its first character to its last.

use super::attempt::SpliceAttempt;
use super::candidate::Candidate;
use super::prior::{self, Start};
use super::seam::{Alignment, Expect, Seam, SpliceRequest};
use super::slot::Slot;
use crate::document::Cut;
use crate::limits::Limits;
use crate::overlap::Anchor;

/// The request, the cut and the limits of a splice.
#[derive(Clone, Debug)]
pub(super) struct SpliceTask {
    pub(super) request: SpliceRequest,
    pub(super) cut: Cut,
    /// The text that the fragment is expected to repeat; `None` where nothing was delivered.
    pub(super) anchor: Option<Anchor>,
    pub(super) caps: Caps,
}

/// The limits of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Bytes that may wait.
    pub(super) pending: usize,
    pub(super) children: usize,
    pub(super) max_risk: f64,
    /// Bytes at the end of the delivered text in which a repeat is searched.
    pub(super) window: usize,
}

impl SpliceTask {
    pub(super) fn new(slot: &Slot, mut request: SpliceRequest, limits: &Limits) -> Self {
        if request.after_gap && request.expect == Expect::Exact {
            // The fragment continues the skipped part, whose end is not in the document.
            request.expect = Expect::Any;
        }
        let text = slot.document().text();
        let anchor = slot
            .document()
            .root_start()
            .and_then(|_| requested_anchor(text, &request, limits));
        Self {
            request,
            cut: slot.document().cut(),
            anchor,
            caps: Caps {
                pending: limits.parser.max_pending_bytes,
                children: limits.parser.max_children,
                max_risk: limits.continuation.max_risk,
                window: limits.parser.overlap_window,
            },
        }
    }

    /// Returns the seam at a candidate; `pending` is the most bytes that waited for the decision.
    pub(super) fn seam_of(&self, candidate: &Candidate, posterior: f64, pending: usize) -> Seam {
        // The mark occurs nowhere in the delivered text, so after it even an ambiguous anchor has one
        // place.
        let rests_on_anchor = matches!(candidate.alignment, Alignment::Anchor | Alignment::Restart);
        let is_ambiguous = self.anchor.as_ref().is_some_and(|anchor| anchor.ambiguous);
        Seam {
            offset: self.cut.offset,
            path: self.cut.path.clone(),
            // White space that the fragment has at another offset counts once.
            overlap: candidate.overlap.min(self.cut.offset),
            alignment: candidate.alignment,
            ambiguous: rests_on_anchor && is_ambiguous && candidate.start != Start::Mark,
            posterior,
            pending,
            decided: candidate.at,
            rivals: Vec::new(),
            early_end: false,
        }
    }

    /// Whether a seam of unknown origin needs a flag: its risk is above the share without a flag,
    /// its repeated text does not prove the position, or another candidate repeats text, too.
    pub(super) fn is_doubtful(&self, attempt: &SpliceAttempt, fragment: &str, seam: &Seam) -> bool {
        let candidate = &attempt.candidate;
        if candidate.start.is_requested() {
            return false;
        }
        let is_unproven =
            candidate.overlap > 0 && candidate.start != Start::Root && !attempt.is_proven(fragment);
        let repeats_elsewhere = || {
            seam.rivals
                .iter()
                .any(|(_, overlap)| *overlap >= prior::REPEATED)
        };
        self.request.expect == Expect::Any
            && (self.is_flagged(seam.posterior) || is_unproven || repeats_elsewhere())
    }

    /// Whether a seam of unknown origin needs a flag at this probability.
    pub(super) fn is_flagged(&self, posterior: f64) -> bool {
        self.request.expect == Expect::Any
            && 1.0 - posterior > self.caps.max_risk * prior::UNFLAGGED
    }

    /// Whether the fragment was expected to begin at this candidate.
    pub(super) fn expects(&self, candidate: &Candidate) -> bool {
        let is_at_cut = candidate.alignment == Alignment::Exact;
        candidate.start.is_requested() || self.request.expect == Expect::Any && is_at_cut
    }
}

/// The anchor that the request asked to repeat.
fn requested_anchor(text: &str, request: &SpliceRequest, limits: &Limits) -> Option<Anchor> {
    let anchor = Anchor::of(text, limits.continuation.max_anchor_chars)?;
    let range = request.anchor.clone().unwrap_or(anchor.range);
    Some(Anchor {
        range,
        ambiguous: anchor.ambiguous,
    })
}
