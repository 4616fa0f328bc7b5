//! Joins continuation text to the document, or returns the reason why not. docs/internals/seam.md
//! has the whole decision.
//!
//! ```text
//!              ┌▶ the cut itself ──────────────────────────┐
//!  fragment ───┼▶ matchers: the anchor, verbatim repeats ──┼▶ candidates ──▶ attempts ──▶ decide ──▶ flow ──▶ document
//!   (strip)    └▶ readers: what begins again, cursors ─────┘    (score)   (each on a copy of the machine)
//! ```
//! A splice knows text and grammar. It does not know calls, events and retries.

mod answer_tail;
mod attempt;
mod candidate;
mod cursor;
mod cut_context;
mod decide;
mod deciding;
mod early_end;
mod explain;
mod fence;
mod flow;
mod joined;
mod predictor;
mod prior;
mod reader;
mod requested;
mod rewind;
mod score;
mod seam;
mod series;
mod slot;
mod tag_stripper;
mod task;
pub(crate) mod text;

use std::borrow::Cow;

use crate::document::RootSearch;
use crate::json::Sink;
use crate::limits::Limits;
#[doc(hidden)]
pub use crate::overlap::Anchor;
#[doc(hidden)]
pub use candidate::{AttemptStatus, Candidate, Evidence, RejectReason};
use cut_context::counted_text;
use deciding::Deciding;
pub(crate) use early_end::has_more_json;
use explain::CandidateReport;
#[doc(hidden)]
pub use explain::{Explained, ExplainedCandidate, RequestedAnchor};
use fence::Fenced;
use joined::JoinedFragment;
use predictor::Counting;
#[doc(hidden)]
pub use prior::Start;
use requested::{Requested, RequestedStep};
pub(crate) use rewind::replaced;
use score::FragmentEnd;
pub use seam::Seam;
#[doc(hidden)]
pub use seam::{Alignment, Expect, Repair, Rule, SpliceError, SpliceRequest};
#[doc(hidden)]
pub use slot::Slot;
use tag_stripper::{StrippedPiece, TagStripper};
use task::SpliceTask;

/// Joins one fragment to one document.
///
/// ```
/// use restitch::splice::{Expect, Slot, Splice};
/// use restitch::Limits;
///
/// let limits = Limits::default();
/// let mut slot = Slot::new(&limits);
/// slot.push(r#"{"title": "Hel"#).unwrap();
/// let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
/// splice.feed(&mut slot, "Sure:\n```json\n{\"title\": \"Hel").unwrap();
/// splice.feed(&mut slot, "lo\"}\n```").unwrap();
/// let seam = splice.finish(&mut slot).unwrap();
/// assert_eq!(slot.document().text(), r#"{"title": "Hello"}"#);
/// assert_eq!((seam.offset, seam.overlap), (14, 14));
/// ```
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Splice {
    task: SpliceTask,
    strip: TagStripper,
    fenced: Fenced,
    /// The most bytes that waited for the decision.
    max_pending: usize,
    phase: SplicePhase,
    /// The results of the candidates, for an explanation.
    candidates: CandidateReport,
}

#[derive(Clone, Debug)]
enum SplicePhase {
    /// Nothing of the root was delivered: the fragment's own root is waited for, after this text.
    Opening(RootSearch, String),
    /// The fragment has followed the request up to here.
    Requested(Requested),
    /// It is not decided where the fragment begins.
    Deciding(Box<Deciding>),
    Joined(JoinedFragment),
    /// The fragment was not joined.
    Failed(SpliceError),
}

// Some 30 µs: other streams of the thread wait for it.
/// The bytes of delivered text that [`Splice::prepare`] counts.
const COUNTED_AT_ONCE: usize = 256;

impl Splice {
    /// Creates a splice at the end of the slot's text. Takes O(depth) and a search for the anchor.
    /// A fragment that does not begin as the request asks costs one pass over the last 4 KiB of the
    /// delivered text, at its first character that shows it.
    pub fn new(slot: &Slot, request: impl Into<SpliceRequest>, limits: &Limits) -> Self {
        let task = SpliceTask::new(slot, request.into(), limits);
        let phase = match &task.anchor {
            Some(anchor) => SplicePhase::Requested(Requested::new(
                slot,
                &task.request,
                anchor,
                task.caps.pending,
            )),
            None => SplicePhase::Opening(slot.document().fresh_search(), String::new()),
        };
        Self {
            strip: TagStripper::new(&task.request),
            task,
            fenced: Fenced::default(),
            max_pending: 0,
            phase,
            candidates: CandidateReport::default(),
        }
    }

    /// Counts the next part of the delivered text, for a fragment that does not begin as the request
    /// asks. Returns whether some is left. Without this its first character counts the whole text.
    pub fn prepare(&mut self, slot: &Slot) -> bool {
        let SplicePhase::Requested(requested) = &mut self.phase else {
            return false;
        };
        let counted = counted_text(slot, self.task.caps.window);
        let counting = &mut requested.counting;
        let counting = counting.get_or_insert_with(|| Counting::of(counted.len()));
        counting.step(counted, COUNTED_AT_ONCE)
    }

    /// Creates a splice for a fragment that continues at the cut, because its provider forced it to:
    /// nothing is decided.
    pub(crate) fn at_cut(slot: &Slot, limits: &Limits) -> Self {
        let mut splice = Self::new(slot, Expect::Exact, limits);
        let candidate = Candidate::new(Alignment::Exact, Start::Requested, 0, 0);
        let seam = splice.task.seam_of(&candidate, 1.0, 0);
        splice.candidates = CandidateReport::of_winner(&candidate);
        let joined = JoinedFragment::new(slot, &splice.task, seam, true);
        splice.phase = SplicePhase::Joined(joined);
        splice
    }

    /// Returns where the fragment is expected to begin.
    pub(crate) fn expect(&self) -> Expect {
        self.task.request.expect
    }

    /// Returns the beginning of the fragment's text after the document's root, without white space.
    pub(crate) fn after_root(&self) -> &str {
        match &self.phase {
            SplicePhase::Joined(joined) => joined.after_root(),
            _ => "",
        }
    }

    /// Returns the candidates that were tried, once it is decided, the winner first. Empty if
    /// nothing was delivered.
    pub(crate) fn candidates(&self) -> &[Candidate] {
        self.candidates.as_slice()
    }

    /// Returns the anchor that the fragment is expected to repeat; `None` where nothing was
    /// delivered.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.task.anchor.as_ref()
    }

    /// Takes text of the fragment. Certain text is pushed to the document. Text after the
    /// document's root is dropped, except the text after a fence that the fragment closes, where
    /// prose precedes the fence.
    ///
    /// # Errors
    /// Returns the failure, now and for all text to come.
    pub fn feed(&mut self, slot: &mut Slot, text: &str) -> Result<(), SpliceError> {
        self.feed_with(slot, text, &mut ())
    }

    /// Takes text like [`feed`](Self::feed), and passes the newly certain parts of the document to
    /// `sink`.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
    pub fn feed_with<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SpliceError> {
        if self.strip.is_idle(text) {
            if let SplicePhase::Joined(joined) = &mut self.phase
                && self.fenced.is_idle()
                && joined.is_flowing()
            {
                // The decision has no work left.
                return joined.deliver_flowing(slot, text, sink);
            }
            self.take(slot, text, sink);
            return self.outcome();
        }
        for piece in self.strip.feed(text) {
            let goes_on = match (&piece, &self.phase) {
                (StrippedPiece::Tag(_), SplicePhase::Requested(requested)) => {
                    requested.may_be_tag()
                }
                (piece, _) => matches!(piece, StrippedPiece::Text(_)),
            };
            if !goes_on {
                let left = self.compare(slot, "", sink);
                self.deliver(slot, &left, sink);
            }
            match (piece, &mut self.phase) {
                (StrippedPiece::Text(text), _) => self.take(slot, &text, sink),
                (StrippedPiece::Mark, SplicePhase::Deciding(deciding)) => deciding.mark(slot),
                (StrippedPiece::Tag(_), SplicePhase::Requested(_)) => {}
                (StrippedPiece::Tag(tag), SplicePhase::Deciding(deciding))
                    if deciding.may_be_tag(&tag) => {}
                (StrippedPiece::Tag(tag), _) => self.take(slot, &tag, sink),
                (StrippedPiece::Mark, _) => {}
            }
        }
        self.outcome()
    }

    /// Takes text without the request's mark and tags.
    fn take<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        if let SplicePhase::Opening(search, pending) = &mut self.phase {
            pending.push_str(text);
            let found = search.feed(pending);
            // Text after the evidence of a root was not pending.
            let waited = found.map_or(pending.len(), |root| root.end);
            self.max_pending = self.max_pending.max(waited);
            if waited > self.task.caps.pending {
                return self.fail(SpliceError::Pending(self.task.caps.pending));
            }
            let Some(root) = found else { return };
            return self.open(slot, root.start, sink);
        }
        let mut text = self.fenced.feed(text, self.task.caps.pending);
        if matches!(self.phase, SplicePhase::Requested(_)) {
            text = self.expect_requested(slot, &text, sink).into();
        } else if matches!(self.phase, SplicePhase::Deciding(_)) {
            text = self.decide(slot, &text, sink).into();
        }
        if let SplicePhase::Deciding(deciding) = &mut self.phase
            && deciding.is_anchor_alone()
            && let Some(after) = self.fenced.leave()
        {
            deciding.doubt_anchor();
            text = self.decide(slot, &after, sink).into();
        }
        self.deliver(slot, &text, sink);
        if let SplicePhase::Joined(joined) = &mut self.phase
            && joined.is_root_closed()
        {
            joined.deliver_after_root(slot, &self.fenced.take_after(), sink);
        }
    }

    /// Delivers text after the seam, if there is one.
    fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        if let SplicePhase::Joined(joined) = &mut self.phase {
            joined.deliver(slot, text, sink);
        }
    }

    /// Joins a fragment whose own root begins at the offset `root` of the pending text, and
    /// delivers the text from there on.
    fn open<S: Sink + ?Sized>(&mut self, slot: &mut Slot, root: usize, sink: &mut S) {
        if let Some(rest) = slot.document().rest_of_fence() {
            // The fence before the root was cut inside its opening line.
            let opened = slot.push_with(rest, sink);
            debug_assert!(
                opened.is_ok(),
                "the rest of the opening line is legal: {opened:?}"
            );
        }
        let SplicePhase::Opening(_, pending) = &mut self.phase else {
            return;
        };
        let pending = std::mem::take(pending);
        let own_root = Candidate::new(Alignment::Start, Start::Requested, root, 0);
        let seam = self.task.seam_of(&own_root, 1.0, self.max_pending);
        let mut joined = JoinedFragment::new(slot, &self.task, seam, true);
        joined.deliver(slot, pending.get(root..).unwrap_or_default(), sink);
        self.phase = SplicePhase::Joined(joined);
    }

    /// Takes text while the fragment does what was requested. Returns the text after the decision.
    fn expect_requested<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) -> String {
        for (at, c) in text.char_indices() {
            let SplicePhase::Requested(requested) = &mut self.phase else {
                break;
            };
            let seen = requested.take(slot, c);
            self.max_pending = self.max_pending.max(requested.text.len());
            let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
            match seen {
                RequestedStep::AsAsked => {}
                RequestedStep::Verified(attempt) => {
                    let fragment = std::mem::take(&mut requested.text);
                    self.candidates = CandidateReport::of_winner(&attempt.candidate);
                    let seam = self.task.seam_of(&attempt.candidate, 1.0, self.max_pending);
                    let joined =
                        JoinedFragment::at(slot, &self.task, &attempt, &fragment, seam, sink);
                    self.phase = SplicePhase::Joined(joined);
                    return rest.to_owned();
                }
                RequestedStep::Other => return self.compare(slot, rest, sink),
            }
        }
        String::new()
    }

    /// Lets all candidates take the fragment: the text so far, and the rest. Returns the text after
    /// the decision.
    fn compare<S: Sink + ?Sized>(&mut self, slot: &mut Slot, rest: &str, sink: &mut S) -> String {
        let (SplicePhase::Requested(requested), Some(anchor)) =
            (&mut self.phase, &self.task.anchor)
        else {
            return rest.to_owned();
        };
        let mut text = std::mem::take(&mut requested.text);
        text.push_str(rest);
        let counting = requested.counting.take();
        let deciding = Deciding::new(slot, &self.task, anchor, counting);
        self.phase = SplicePhase::Deciding(Box::new(deciding));
        self.decide(slot, &text, sink)
    }

    /// Lets the candidates take text until one of them wins. Returns the text after the decision.
    fn decide<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) -> String {
        // A decision falls after a character, never at the end of a chunk: it is the same for all
        // chunkings. A run of text has no character after which one could fall.
        let mut rest = Cow::Borrowed(text);
        let mut at = 0;
        while let (SplicePhase::Deciding(deciding), Some(left)) = (&mut self.phase, rest.get(at..))
        {
            let Some(c) = left.chars().next() else { break };
            let run = deciding.take_run(slot, left);
            if run == 0 {
                deciding.take(slot, c);
            }
            at += run.max(c.len_utf8());
            self.max_pending = self.max_pending.max(deciding.fragment.text.len());
            let is_full = deciding.fragment.pending() > self.task.caps.pending;
            if deciding.fragment.is_fenced && self.fenced.open() {
                // The rest may contain the line that closes the fence.
                rest = Cow::Owned(
                    self.fenced
                        .feed(rest.get(at..).unwrap_or_default(), self.task.caps.pending)
                        .into_owned(),
                );
                at = 0;
            }
            if let Some((winner, posterior)) = deciding.winner(slot, false) {
                self.join(slot, winner, posterior, sink);
            } else if is_full {
                self.fail(SpliceError::Pending(self.task.caps.pending));
            }
        }
        rest.get(at..).unwrap_or_default().to_owned()
    }

    /// Joins at the attempt that has won over the others.
    fn join<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        winner: usize,
        posterior: f64,
        sink: &mut S,
    ) {
        let SplicePhase::Deciding(deciding) = &mut self.phase else {
            return;
        };
        self.candidates = explain::candidates_of(deciding, Some(winner));
        let attempt = deciding.attempts.open.swap_remove(winner);
        let may_be_another = deciding.may_be_another_element(slot, &attempt.candidate);
        let fragment = std::mem::take(&mut deciding.fragment.text);
        let others = deciding
            .attempts
            .open
            .iter()
            .filter(|other| other.document() != attempt.document());
        let rivals = others
            .map(|other| (other.candidate.alignment, other.candidate.overlap))
            .collect();
        let mut seam = Seam {
            rivals,
            ..self
                .task
                .seam_of(&attempt.candidate, posterior, self.max_pending)
        };
        seam.ambiguous |= may_be_another
            || attempt.candidate.evidence.has_other_structure
            || self.task.is_doubtful(&attempt, &fragment, &seam);
        let joined = JoinedFragment::at(slot, &self.task, &attempt, &fragment, seam, sink);
        self.phase = SplicePhase::Joined(joined);
    }

    /// Joins a fragment without new text.
    fn repeat(&mut self, slot: &Slot, overlap: usize, posterior: f64) {
        let SplicePhase::Deciding(deciding) = &self.phase else {
            return;
        };
        self.candidates = explain::candidates_of(deciding, None);
        let length = deciding.fragment.text.len();
        let repeat = Candidate::new(Alignment::Repeat, Start::Requested, length, overlap);
        let mut seam = self.task.seam_of(&repeat, posterior, self.max_pending);
        seam.ambiguous |= self.task.is_flagged(posterior);
        let joined = JoinedFragment::new(slot, &self.task, seam, true);
        self.phase = SplicePhase::Joined(joined);
    }

    /// Ends the fragment.
    ///
    /// # Errors
    /// Returns why the fragment was not joined: it fits nowhere, or nowhere for certain.
    pub fn finish(&mut self, slot: &mut Slot) -> Result<Seam, SpliceError> {
        self.finish_with(slot, &mut ())
    }

    /// Ends the fragment like [`finish`](Self::finish), and passes the newly certain parts of the
    /// document to `sink`.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_with<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        sink: &mut S,
    ) -> Result<Seam, SpliceError> {
        // The waiting text may be half a mark. If it was text, the next fragment repeats it: it
        // closes no document.
        self.strip.drop_pending();
        if let SplicePhase::Opening(search, pending) = &mut self.phase
            && let Some(root) = search.settle(pending, false)
        {
            self.open(slot, root.start, sink);
        }
        if matches!(&self.phase, SplicePhase::Requested(requested) if requested.is_blank()) {
            self.fail(SpliceError::Empty);
        }
        let left = self.compare(slot, "", sink);
        self.deliver(slot, &left, sink);
        if let SplicePhase::Deciding(deciding) = &mut self.phase {
            match deciding.end(slot) {
                FragmentEnd::Join {
                    winner,
                    posterior,
                    is_early,
                } => {
                    self.join(slot, winner, posterior, sink);
                    if let SplicePhase::Joined(joined) = &mut self.phase {
                        joined.seam.early_end = is_early;
                    }
                }
                FragmentEnd::Repeat(overlap, posterior) => self.repeat(slot, overlap, posterior),
                FragmentEnd::Failed(error) => self.fail(error),
            }
        }
        match &mut self.phase {
            SplicePhase::Joined(joined) => joined.finish(slot, sink),
            SplicePhase::Failed(error) => Err(error.clone()),
            SplicePhase::Opening(..) | SplicePhase::Requested(_) | SplicePhase::Deciding(_) => {
                Err(SpliceError::Empty)
            }
        }
    }

    /// Returns the seam, once there is one.
    pub fn seam(&self) -> Option<&Seam> {
        match &self.phase {
            SplicePhase::Joined(joined) => Some(&joined.seam),
            _ => None,
        }
    }

    /// Returns the changes to the fragment's text, in order.
    pub fn repairs(&self) -> &[Repair] {
        match &self.phase {
            SplicePhase::Joined(joined) => joined.repairs(),
            _ => &[],
        }
    }

    /// Returns the bytes that wait for the decision, or after it for a key that may have been
    /// delivered.
    pub fn pending(&self) -> usize {
        match &self.phase {
            SplicePhase::Opening(_, pending) => pending.len(),
            SplicePhase::Requested(requested) => requested.text.len(),
            SplicePhase::Deciding(deciding) => deciding.fragment.text.len(),
            SplicePhase::Joined(joined) => joined.pending(),
            SplicePhase::Failed(_) => 0,
        }
    }

    fn outcome(&self) -> Result<(), SpliceError> {
        match &self.phase {
            SplicePhase::Joined(joined) => joined.outcome(),
            SplicePhase::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn fail(&mut self, error: SpliceError) {
        if let SplicePhase::Deciding(deciding) = &self.phase {
            self.candidates = explain::candidates_of(deciding, None);
        }
        self.phase = SplicePhase::Failed(error);
    }
}
