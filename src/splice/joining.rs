//! Passes certain text to the document: from the decision on, up to the root's end or the first
//! text that does not belong there.

use super::attempt::SpliceAttempt;
use super::candidate::Candidate;
use super::flow::{Delivered, FlowError};
use super::prior::{self, Start};
use super::seam::{Alignment, Expect, Seam, SpliceError};
use super::slot::Slot;
use super::{Splice, SplicePhase, explain};
use crate::error::SyntaxErrorKind;
use crate::json::Sink;

impl Splice {
    /// Joins a fragment whose own root begins at the offset `root` of the pending text, and
    /// delivers the text from there on.
    pub(super) fn open<S: Sink + ?Sized>(&mut self, slot: &mut Slot, root: usize, sink: &mut S) {
        if let Some(rest) = slot.document().rest_of_fence() {
            // The fence before the root was cut inside its opening line.
            let opened = slot.push_with(rest, sink);
            debug_assert!(
                opened.is_ok(),
                "the rest of the opening line is legal: {opened:?}"
            );
        }
        let SplicePhase::Opening(_, pending) = &mut self.state else {
            return;
        };
        let pending = std::mem::take(pending);
        let seam = self.seam_of(
            &Candidate::new(Alignment::Start, Start::Requested, root, 0),
            1.0,
        );
        self.state = SplicePhase::Joined(seam, self.flow(slot));
        self.deliver(slot, pending.get(root..).unwrap_or_default(), sink);
    }

    pub(super) fn seam_of(&self, candidate: &Candidate, posterior: f64) -> Seam {
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
            pending: self.max_pending,
            decided: candidate.at,
            rivals: Vec::new(),
            early_end: false,
        }
    }

    /// Joins at the attempt that has won over the others.
    pub(super) fn join<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        winner: usize,
        posterior: f64,
        sink: &mut S,
    ) {
        let SplicePhase::Deciding(deciding) = &mut self.state else {
            return;
        };
        self.candidates = explain::candidates_of(deciding, Some(winner));
        let attempt = deciding.attempts.swap_remove(winner);
        let may_be_another = deciding.may_be_another_element(slot, &attempt.candidate);
        let fragment = std::mem::take(&mut deciding.fragment.text);
        let others = deciding
            .attempts
            .iter()
            .filter(|other| other.document() != attempt.document());
        let rivals = others
            .map(|other| (other.candidate.alignment, other.candidate.overlap))
            .collect();
        let seam = self.seam_of(&attempt.candidate, posterior);
        let may_be_another = may_be_another || attempt.candidate.evidence.has_other_structure;
        let mut seam = Seam {
            rivals,
            ambiguous: seam.ambiguous || may_be_another,
            ..seam
        };
        seam.ambiguous |= self.is_doubtful(&attempt, &fragment, &seam);
        self.join_at(slot, &attempt, &fragment, seam, sink);
    }

    /// Whether a seam of unknown origin needs a flag: its risk is above the share without a flag,
    /// its repeated text does not prove the position, or another candidate repeats text, too.
    fn is_doubtful(&self, attempt: &SpliceAttempt, fragment: &str, seam: &Seam) -> bool {
        let candidate = &attempt.candidate;
        if self.request.expect != Expect::Any || candidate.start.is_requested() {
            return false;
        }
        let is_unproven =
            candidate.overlap > 0 && candidate.start != Start::Root && !attempt.is_proven(fragment);
        let repeats_elsewhere = || {
            seam.rivals
                .iter()
                .any(|(_, overlap)| *overlap >= prior::REPEATED)
        };
        self.is_flagged(seam.posterior) || is_unproven || repeats_elsewhere()
    }

    /// Joins at this attempt, and passes its new text to the document.
    pub(super) fn join_at<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        attempt: &SpliceAttempt,
        fragment: &str,
        seam: Seam,
        sink: &mut S,
    ) {
        let mut flow = self.flow(slot);
        let begun = flow.begin(
            &mut Delivered { slot, sink },
            &attempt.lead.rest,
            &attempt.lead.deferred,
        );
        self.state = SplicePhase::Joined(
            Seam {
                decided: fragment.len(),
                ..seam
            },
            flow,
        );
        self.stop_at(slot, begun);
        self.deliver(
            slot,
            fragment.get(attempt.candidate.at..).unwrap_or_default(),
            sink,
        );
    }

    /// Joins a fragment without new text.
    pub(super) fn repeat(&mut self, slot: &Slot, overlap: usize, posterior: f64) {
        let SplicePhase::Deciding(deciding) = &self.state else {
            return;
        };
        self.candidates = explain::candidates_of(deciding, None);
        let candidate = Candidate::new(
            Alignment::Repeat,
            Start::Requested,
            deciding.fragment.text.len(),
            overlap,
        );
        let mut seam = self.seam_of(&candidate, posterior);
        seam.ambiguous |= self.request.expect == Expect::Any && self.is_flagged(posterior);
        self.state = SplicePhase::Joined(seam, self.flow(slot));
    }

    /// Whether a seam of unknown origin needs a flag at this probability.
    fn is_flagged(&self, posterior: f64) -> bool {
        1.0 - posterior > self.caps.max_risk * prior::UNFLAGGED
    }

    /// Delivers text after the seam, until the root is closed.
    pub(super) fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        let SplicePhase::Joined(_, flow) = &mut self.state else {
            return;
        };
        let left = match self.fenced.is_root_closed() {
            false => flow.feed_root(&mut Delivered { slot, sink }, text),
            true => Ok(text.len()),
        };
        self.delivered(slot, text, left, sink);
    }

    /// Delivers the text after the root: `left` bytes of text that has flowed.
    pub(super) fn delivered<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        left: Result<usize, FlowError>,
        sink: &mut S,
    ) {
        match left {
            Ok(left) => self.deliver_after_root(
                slot,
                text.get(text.len() - left..).unwrap_or_default(),
                sink,
            ),
            Err(stop) => self.stop_at(slot, Err(stop)),
        }
    }

    /// Delivers the text after the end of the root, if it belongs to the answer.
    pub(super) fn deliver_after_root<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) {
        self.keep_after_root(text);
        let text = self.fenced.after_root(slot.document(), text);
        if !text.is_empty() && slot.push_with(&text, sink).is_err() {
            // A further block has ended there.
            self.fenced.end();
        }
    }

    fn keep_after_root(&mut self, text: &str) {
        let text = if self.after_root.is_empty() {
            text.trim_start()
        } else {
            text
        };
        for c in text.chars() {
            if self.after_root.len() >= KEPT_AFTER_ROOT {
                break;
            }
            self.after_root.push(c);
        }
    }

    pub(super) fn stop_at(&mut self, slot: &Slot, flowed: Result<(), FlowError>) {
        let Err(stop) = flowed else { return };
        match stop {
            FlowError::Syntax(error) => self.fail(SpliceError::Malformed(error)),
            FlowError::Pending => self.fail(SpliceError::Pending(self.caps.pending)),
            FlowError::Ellipsis => self.fail(SpliceError::EarlyEnd),
            FlowError::Overwrites | FlowError::AfterRoot => {
                self.fail(SpliceError::Overwrites(slot.text().len()))
            }
        }
    }

    /// Flags a seam where it was not expected, after which the fragment broke off at text that is
    /// illegal there or would overwrite a member. That is a sign of the wrong offset, though a
    /// model may also have made a mistake.
    pub(super) fn flag_break(&mut self) {
        let is_requested = self
            .candidates()
            .first()
            .is_none_or(|winner| winner.start.is_requested());
        let SplicePhase::Failed {
            seam: Some(seam),
            error,
            ..
        } = &mut self.state
        else {
            return;
        };
        let is_illegal = match error {
            SpliceError::Malformed(error) => !matches!(error.kind, SyntaxErrorKind::TooDeep(_)),
            error => matches!(error, SpliceError::Overwrites(_)),
        };
        let is_expected = is_requested
            || self.request.expect == Expect::Any && seam.alignment == Alignment::Exact;
        seam.ambiguous |= is_illegal && !is_expected;
    }
}

/// The most bytes that are kept of the text after a root. A later root that begins in them and does
/// not end in them counts as cut: an example after an answer is shorter.
const KEPT_AFTER_ROOT: usize = 16 << 10;
