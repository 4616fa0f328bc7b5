//! The candidates that are tried, and those that turned out to be impossible.

use crate::splice::attempt::{AttemptSetup, SpliceAttempt};
use crate::splice::candidate::{AttemptStatus, Candidate, RejectReason};
use crate::splice::flow::FlowError;
use crate::splice::seam::Alignment;
use crate::splice::slot::Slot;

/// The attempts at one fragment.
#[derive(Clone, Debug)]
pub(in crate::splice) struct OpenAttempts {
    /// Those that are still possible.
    pub(in crate::splice) open: Vec<SpliceAttempt>,
    pub(in crate::splice) rejected: Rejected,
    /// The overlaps that were tried.
    overlaps: usize,
    /// Bytes that may wait in one of them.
    cap: usize,
}

/// Candidates that turned out to be impossible; only the first ones are listed.
#[derive(Clone, Debug, Default)]
pub(in crate::splice) struct Rejected {
    pub(in crate::splice) listed: Vec<Candidate>,
    pub(in crate::splice) unlisted: usize,
    /// There were more candidates than are tried.
    pub(in crate::splice) is_crowded: bool,
}

/// Attempts at the same time: each takes every byte.
// Chosen: in periodic text every period begins one, and no number of them would decide, so only the
// requested place may win then. Twice as many double the cost of each pending byte.
const ATTEMPTS: usize = 24;
/// Overlaps that are tried at all: each looks at the end of the delivered text.
// More starts than a fragment of `max_pending_bytes` with a period of 256 bytes has.
// docs/internals/seam.md states it.
const OVERLAPS: usize = 256;
/// Rejected candidates that are kept for an explanation.
// Bounds the memory of a report: what people read of it is the winner and the next few.
const LISTED: usize = 64;

impl OpenAttempts {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            open: Vec::new(),
            rejected: Rejected::default(),
            overlaps: 0,
            cap,
        }
    }

    /// Returns how many attempts are open, and how many of them are verified.
    pub(in crate::splice) fn counts(&self) -> (usize, usize) {
        let verified = self.open.iter().filter(|attempt| attempt.is_verified());
        (self.open.len(), verified.count())
    }

    /// Whether no attempt can be added any more, and it is known that there were too many.
    pub(super) fn is_crowded(&self) -> bool {
        self.rejected.is_crowded && self.open.len() >= ATTEMPTS
    }

    /// Whether a candidate that continues at the cut is open.
    pub(super) fn tries_cut(&self) -> bool {
        self.open
            .iter()
            .any(|attempt| attempt.candidate.alignment == Alignment::Exact)
    }

    /// Counts a further overlap; returns whether it may be tried.
    pub(super) fn allows_overlap(&mut self) -> bool {
        let is_allowed = self.open.len() < ATTEMPTS && self.overlaps < OVERLAPS;
        self.overlaps += usize::from(is_allowed);
        self.rejected.is_crowded |= !is_allowed;
        is_allowed
    }

    /// Tries a candidate: the attempt takes the fragment's text from its beginning.
    pub(super) fn add(
        &mut self,
        slot: &Slot,
        candidate: Candidate,
        setup: AttemptSetup,
        fragment: &str,
    ) {
        if self.open.len() >= ATTEMPTS && !candidate.start.is_requested() {
            self.rejected.is_crowded = true;
            return;
        }
        let mut attempt = SpliceAttempt::new(slot, candidate, setup, self.cap);
        match attempt.feed(slot, fragment.get(attempt.next..).unwrap_or_default()) {
            Ok(()) => self.open.push(attempt),
            Err(error) => self.rejected.note(&attempt, &error),
        }
    }

    /// Lets the attempts take more text of the fragment.
    pub(super) fn feed(&mut self, slot: &Slot, text: &str) {
        let rejected = &mut self.rejected;
        self.open.retain_mut(|attempt| {
            let fed = attempt.feed(slot, text);
            fed.inspect_err(|error| rejected.note(attempt, error))
                .is_ok()
        });
    }

    /// Rejects the candidates that take text from the cut on, up to `last`, for new.
    pub(super) fn reject_cut(&mut self, last: usize) {
        let rejected = &mut self.rejected;
        self.open.retain(|attempt| {
            let is_new =
                attempt.candidate.alignment == Alignment::Exact && attempt.candidate.at <= last;
            if is_new {
                rejected.list(attempt, RejectReason::Repeats);
            }
            !is_new
        });
    }
}

impl Rejected {
    fn note(&mut self, attempt: &SpliceAttempt, error: &FlowError) {
        self.list(attempt, RejectReason::from(error));
    }

    fn list(&mut self, attempt: &SpliceAttempt, reason: RejectReason) {
        if self.listed.len() >= LISTED {
            self.unlisted += 1;
            return;
        }
        let status = AttemptStatus::Rejected {
            byte: attempt.next,
            reason,
        };
        self.listed.push(Candidate {
            status,
            ..attempt.candidate.clone()
        });
    }
}
