//! Continuation text becomes part of the document, or the reason why not. docs/seam.md has the whole decision.
//!
//! ```text
//!              ┌▶ the cut itself ─────────────────────────┐
//!  fragment ───┼▶ matcher: the anchor, verbatim repeats ──┼▶ claims ──▶ trials ──▶ decide ──▶ flow ──▶ document
//!   (wrap)     └▶ readers: what begins again, cursors ────┘   (weigh)   (each on a copy of the machine)
//! ```
//! A splice knows text and grammar. It knows nothing of calls, events and retries.

mod cursor;
mod decide;
pub(crate) mod explain;
mod flow;
mod log;
mod probation;
mod reader;
mod rewind;
mod seam;
mod slot;
pub(crate) mod text;
pub(crate) mod trial;
mod weigh;

use std::borrow::Cow;

use crate::document::Cut;
use crate::envelope::{AfterRoot, AllowedRoots, EnvelopeScanner, FenceCloser, RootFinder};
use crate::json::Sink;
use crate::limits::Limits;
use crate::overlap::{Anchor, Matcher};
use cursor::Tip;
pub(crate) use explain::{Explained, Fate};
use flow::{Delivered, Flow, FlowError};
use log::{Log, Tried};
use reader::Reader;
pub(crate) use rewind::replaced;
pub use seam::{Alignment, Expect, Repair, Rule, Seam, SpliceError, SpliceRequest};
pub use slot::Slot;
use trial::Trial;

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
#[derive(Clone, Debug)]
pub struct Splice {
    expect: Expect,
    cut: Cut,
    tip: Tip,
    /// Where the token that the cut stands in begins.
    cut_token: Option<usize>,
    anchor: Option<Anchor>,
    /// Where the delivered text ends but for white space.
    tail: usize,
    /// The fragment up to the decision, without a fence that closes it; empty behind the decision.
    pending: String,
    max_pending: usize,
    /// Up to here trials and readers have taken it: what is behind is quiet, and waits.
    taken: usize,
    /// So many bytes of quiet text make no difference to any of them.
    calm: usize,
    limits: (usize, usize),
    state: State,
    trials: Vec<Trial>,
    matcher: Option<Matcher>,
    readers: Vec<Reader>,
    wrap: EnvelopeScanner,
    /// Where the fragment's content begins, as far as it is known.
    begin: usize,
    /// Its first character is none that JSON begins with.
    is_prose: bool,
    /// Where the first bracket stands that is no part of prose: what is behind it is behind more than an envelope.
    bracket: Option<usize>,
    /// The latest offset of delivered text that was contradicted by what seemed to begin again.
    contradicted: Option<usize>,
    /// A fence has opened in the fragment.
    fenced: bool,
    /// In a fenced fragment: takes out what closes the fence. What it has taken out, as far as it may belong to the
    /// answer.
    closer: FenceCloser,
    after_fence: String,
    /// The root has ended: takes what follows it.
    after_root: Option<AfterRoot>,
    /// More claims came than are tried.
    is_crowded: bool,
    /// Among the delivered elements of an open array are some that are the same.
    rows_recur: bool,
    /// What became of claims, for those who ask why.
    log: Log,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing of the root was delivered: the fragment's own root is waited for.
    Opening(RootFinder),
    /// It is not decided where the fragment begins.
    Probation,
    Joined(Seam, Flow),
    Failed(Option<Seam>, SpliceError),
}

impl Splice {
    /// A splice at the end of the slot's text. O(depth), a search for the anchor, and the matcher over the
    /// [tail](crate::ParserLimits::overlap_window).
    pub fn new(slot: &Slot, request: impl Into<SpliceRequest>, limits: &Limits) -> Self {
        let request = request.into();
        let expect = request.expect;
        let document = slot.document();
        let (text, root) = (document.text(), document.root_start());
        let anchor = root.and_then(|_| Anchor::of(text, limits.continuation.max_anchor_chars));
        let matcher = anchor
            .as_ref()
            .map(|anchor| Matcher::new(text, anchor, root.unwrap_or_default(), limits.parser.overlap_window));
        let machine = document.machine();
        let mut splice = Self {
            expect,
            cut: document.cut(),
            tip: Tip::of(slot),
            cut_token: machine.in_token().then(|| machine.token_start()),
            anchor,
            tail: text.trim_end().len(),
            pending: String::new(),
            max_pending: 0,
            taken: 0,
            calm: 0,
            limits: (limits.parser.max_pending_bytes, limits.parser.max_children),
            state: if root.is_some() {
                State::Probation
            } else {
                State::Opening(RootFinder::new(AllowedRoots::Containers))
            },
            trials: Vec::new(),
            matcher,
            readers: Vec::new(),
            wrap: EnvelopeScanner::new(),
            begin: 0,
            is_prose: false,
            bracket: None,
            contradicted: None,
            fenced: false,
            closer: FenceCloser::json(),
            after_fence: String::new(),
            after_root: None,
            is_crowded: false,
            rows_recur: weigh::rows_recur(slot),
            log: Log::default(),
        };
        if root.is_some() {
            splice.claim(slot, splice.exact(0));
        }
        splice
    }

    /// The anchor that the fragment is expected to repeat; `None` where nothing was delivered.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// Takes text of the fragment. What is certain is pushed to the document; text behind its root is dropped, but for
    /// what follows a fence that it closes where prose precedes the fence.
    ///
    /// # Errors
    /// The failure, now and for all text to come.
    pub fn feed(&mut self, slot: &mut Slot, text: &str) -> Result<(), SpliceError> {
        self.feed_with(slot, text, &mut ())
    }

    /// Like [`feed`](Self::feed), and tells `sink` what became certain in the document.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
    pub fn feed_with<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SpliceError> {
        let mut text = Cow::Borrowed(text);
        if matches!(self.state, State::Opening(_)) {
            let Some(root) = self.open(slot, &text, sink) else { return self.outcome() };
            text = Cow::Owned(text.get(root..).unwrap_or_default().to_owned());
        }
        text = self.unfence(text);
        if matches!(self.state, State::Probation) {
            // A decision falls behind a character, never at the end of a chunk: it is the same for all chunkings.
            let mut at = 0;
            while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
                let was_fenced = self.fenced;
                let quiet = self.quiet(slot, text.get(at..).unwrap_or_default());
                at += if quiet > 0 { quiet } else { c.len_utf8() };
                if quiet == 0 {
                    self.take(slot, c);
                }
                if self.fenced && !was_fenced {
                    // What closes the fence may stand in the rest.
                    text = self.unfence(Cow::Owned(text.get(at..).unwrap_or_default().to_owned()));
                    at = 0;
                }
                if let Some(winner) = self.winner(slot, false) {
                    self.join(slot, winner, sink);
                    break;
                }
                self.max_pending = self.max_pending.max(self.pending.len());
                self.check_cap(self.pending.len());
                if !matches!(self.state, State::Probation) {
                    break;
                }
            }
            text = Cow::Owned(text.get(at..).unwrap_or_default().to_owned());
        }
        self.deliver(slot, &text, sink);
        if self.after_root.is_some() {
            let after_fence = std::mem::take(&mut self.after_fence);
            self.deliver_after_root(slot, &after_fence, sink);
        }
        self.outcome()
    }

    /// The fragment has ended.
    ///
    /// # Errors
    /// Why it brought nothing: no place for it, or none that is certain.
    pub fn finish(&mut self, slot: &mut Slot) -> Result<Seam, SpliceError> {
        self.finish_with(slot, &mut ())
    }

    /// Like [`finish`](Self::finish), and tells `sink` what became certain in the document.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_with<S: Sink + ?Sized>(&mut self, slot: &mut Slot, sink: &mut S) -> Result<Seam, SpliceError> {
        if matches!(self.state, State::Probation) {
            self.decide_at_end(slot, sink);
        }
        if let State::Joined(_, flow) = &mut self.state {
            let ended = flow.finish(&mut Delivered { slot, sink });
            self.stop_at(slot, ended);
        }
        match &self.state {
            State::Joined(seam, _) => Ok(seam.clone()),
            State::Failed(_, failure) => Err(failure.clone()),
            State::Opening(_) | State::Probation => Err(SpliceError::Empty),
        }
    }

    /// The seam, once there is one.
    pub fn seam(&self) -> Option<&Seam> {
        match &self.state {
            State::Joined(seam, _) | State::Failed(Some(seam), _) => Some(seam),
            _ => None,
        }
    }

    /// What was changed in the fragment's text so far, in order.
    pub fn repairs(&self) -> &[Repair] {
        if let State::Joined(_, flow) = &self.state { flow.repairs() } else { &self.log.repairs }
    }

    /// Bytes that wait for the decision, or behind it for a key that may have been delivered.
    pub fn pending(&self) -> usize {
        if let State::Joined(_, flow) = &self.state { flow.pending() } else { self.pending.len() }
    }

    fn outcome(&self) -> Result<(), SpliceError> {
        if let State::Failed(_, failure) = &self.state { Err(failure.clone()) } else { Ok(()) }
    }

    fn fail(&mut self, failure: SpliceError) {
        let seam = self.seam().cloned();
        self.log.repairs = self.repairs().to_vec();
        self.pending = String::new();
        self.state = State::Failed(seam, failure);
    }

    fn check_cap(&mut self, waiting: usize) {
        if waiting > self.limits.0 {
            self.fail(SpliceError::Pending(self.limits.0));
        }
    }

    /// Nothing of the root was delivered: waits for the fragment's own. Where it begins in `text`, once it does.
    fn open<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) -> Option<usize> {
        let State::Opening(opening) = &mut self.state else { return Some(0) };
        let before = self.pending.len();
        self.pending.push_str(text);
        let root = opening.feed(text);
        // What waited is what stands before the root: what follows it in the same chunk did not wait.
        let waited = root.unwrap_or(self.pending.len());
        self.max_pending = self.max_pending.max(waited);
        self.check_cap(waited);
        let root = root.filter(|_| matches!(self.state, State::Opening(_)))?;
        if let Some(rest) = slot.document().rest_of_fence() {
            // The fence that the root belongs behind was cut in its own line.
            let _ = slot.push_with(rest, sink);
        }
        self.state = State::Joined(self.seam_of(Alignment::Start, 0, root), Flow::new(slot, self.limits.0));
        self.pending = String::new();
        root.checked_sub(before)
    }

    fn seam_of(&mut self, alignment: Alignment, overlap: usize, decided: usize) -> Seam {
        let rests_on_anchor = matches!(alignment, Alignment::Anchor | Alignment::Restart);
        Seam {
            offset: self.cut.offset,
            path: std::mem::take(&mut self.cut.path),
            overlap,
            alignment,
            ambiguous: rests_on_anchor && self.anchor.as_ref().is_some_and(|anchor| anchor.ambiguous),
            pending: self.max_pending,
            decided,
            rivals: Vec::new(),
            early_end: false,
        }
    }

    /// The trial with this number has won: what it takes for new goes to the document.
    fn join<S: Sink + ?Sized>(&mut self, slot: &mut Slot, winner: usize, sink: &mut S) {
        let trial = self.trials.swap_remove(winner);
        // White space that the fragment has at another place counts once.
        let overlap = trial.claim.overlap.min(self.cut.offset);
        let mut seam = self.seam_of(trial.claim.alignment, overlap, self.pending.len());
        let others = self.trials.iter().filter(|other| !other.is_same(&trial));
        seam.rivals = others.map(|other| (other.claim.alignment, other.claim.overlap)).collect();
        self.log.won = Some(Tried::of(&trial, Fate::Won));
        for other in &self.trials {
            let fate = if other.is_same(&trial) { Fate::Same } else { Fate::Alive };
            self.log.note(other, fate);
        }
        let mut flow = Flow::new(slot, self.limits.0);
        let begun = flow.begin(&mut Delivered { slot, sink }, &trial.claim.rest, &trial.claim.late);
        self.state = State::Joined(seam, flow);
        self.stop_at(slot, begun);
        let pending = std::mem::take(&mut self.pending);
        // Matcher and readers stay until the splice goes: to give back their memory takes longer than any push may.
        self.trials = Vec::new();
        self.deliver(slot, pending.get(trial.claim.at..).unwrap_or_default(), sink);
    }

    /// After the seam: text goes to the document until its root is closed.
    fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        let State::Joined(_, flow) = &mut self.state else { return };
        let left = match self.after_root {
            None => flow.feed_root(&mut Delivered { slot, sink }, text),
            Some(_) => Ok(text.len()),
        };
        match left {
            Ok(left) => self.deliver_after_root(slot, text.get(text.len() - left..).unwrap_or_default(), sink),
            Err(stop) => self.stop_at(slot, Err(stop)),
        }
    }

    /// What follows a root that has ended goes to the document as far as it belongs to the answer.
    fn deliver_after_root<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        if self.after_root.is_none() && slot.document().is_complete() {
            self.after_root = Some(AfterRoot::new(slot.document().fence_after_preamble()));
        }
        let Some(after) = &mut self.after_root else { return };
        let text = after.feed(text);
        if !text.is_empty() && slot.push_with(&text, sink).is_err() {
            // A further block has ended there.
            *after = AfterRoot::new(None);
        }
    }

    fn stop_at(&mut self, slot: &Slot, flowed: Result<(), FlowError>) {
        let Err(stop) = flowed else { return };
        match stop {
            FlowError::Syntax(error) => self.fail(SpliceError::Malformed(error)),
            FlowError::Pending => self.fail(SpliceError::Pending(self.limits.0)),
            FlowError::Overwrites | FlowError::GoesOn | FlowError::Owes => {
                self.fail(SpliceError::Overwrites(slot.text().len()));
            }
        }
    }

    /// Takes out the fence that closes a fenced fragment, and all that follows it.
    fn unfence<'a>(&mut self, text: Cow<'a, str>) -> Cow<'a, str> {
        if !self.fenced {
            return text;
        }
        let mut inside = String::new();
        let after = self.closer.feed(&text, &mut inside);
        // More than may wait belongs to no answer: its root has not ended.
        if self.after_fence.len() <= self.limits.0 {
            self.after_fence += &self.closer.take_closing_line();
            self.after_fence += after;
        }
        Cow::Owned(inside)
    }
}
