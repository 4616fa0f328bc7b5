//! Continuation text becomes part of the document, or the reason why not. docs/seam.md has the whole decision.
//!
//! ```text
//!              ┌▶ the cut itself ─────────────────────────┐
//!  fragment ───┼▶ matcher: the anchor, verbatim repeats ──┼▶ claims ──▶ trials ──▶ decide ──▶ flow ──▶ document
//!   (wrap)     └▶ readers: what begins again, cursors ────┘   (weigh)   (each on a copy of the machine)
//! ```
//! A splice knows text and grammar. It knows nothing of calls, events and retries.

mod agree;
mod cursor;
mod decide;
mod explain;
mod fence;
mod flow;
mod log;
mod reader;
mod rewind;
mod seam;
mod slot;
mod text;
mod trial;
mod weigh;
mod wrap;

use std::borrow::Cow;

use memchr::memchr2;

use crate::document::Cut;
use crate::json::Sink;
use crate::json::envelope::{Opening, Roots};
use crate::limits::Limits;
use crate::overlap::{Anchor, EVIDENCE, Hit, Matcher};
pub(crate) use agree::Earlier;
use cursor::Tip;
use decide::Scene;
pub use explain::{Asked, Candidate, Death, Explained, Fate};
use flow::{Delivered, Flow, Stop};
use log::{Log, Tried};
use reader::Reader;
pub(crate) use rewind::replaced;
pub use seam::{Alignment, Expect, Failure, Repair, Rule, Seam};
pub use slot::Slot;
pub use text::TextSplice;
pub use trial::Weight;
use trial::{Claim, TRIALS, Trial};
use weigh::Known;
use wrap::{Mark, Wrap};

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
    held: String,
    most_held: usize,
    limits: (usize, usize),
    state: State,
    trials: Vec<Trial>,
    matcher: Option<Matcher>,
    readers: Vec<Reader>,
    wrap: Wrap,
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
    /// In a fenced fragment: a line end that may belong to the closing fence, and whether that has come.
    line_end: String,
    is_over: bool,
    /// More claims came than are tried.
    is_crowded: bool,
    /// Among the delivered elements of an open array are some that are the same.
    rows_recur: bool,
    /// What became of claims, for those who ask why.
    log: Log,
    /// The fragment before, which fitted in more than one place; and this one, if it does, too.
    earlier: Option<Earlier>,
    undecided: Option<Earlier>,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing of the root was delivered: the fragment's own root is waited for.
    Opening(Opening),
    /// It is not decided where the fragment begins.
    Probation,
    Joined(Seam, Flow),
    Failed(Option<Seam>, Failure),
}

impl Splice {
    /// A splice at the end of the slot's text. O(depth), a search for the anchor, and the matcher over the
    /// [tail](Limits::tail).
    pub fn new(slot: &Slot, expect: Expect, limits: &Limits) -> Self {
        let document = slot.document();
        let (text, root) = (document.text(), document.root_start());
        let anchor = root.and_then(|_| Anchor::of(text, limits.anchor));
        let matcher = anchor.as_ref().map(|anchor| Matcher::new(text, anchor, root.unwrap_or_default(), limits.tail));
        let machine = document.machine();
        let mut splice = Self {
            expect,
            cut: document.cut(),
            tip: Tip::of(slot),
            cut_token: machine.in_token().then(|| machine.token_start()),
            anchor,
            tail: text.trim_end().len(),
            held: String::new(),
            most_held: 0,
            limits: (limits.held, limits.siblings),
            state: if root.is_some() { State::Probation } else { State::Opening(Opening::new(Roots::Containers)) },
            trials: Vec::new(),
            matcher,
            readers: Vec::new(),
            wrap: Wrap::new(),
            begin: 0,
            is_prose: false,
            bracket: None,
            contradicted: None,
            fenced: false,
            line_end: String::new(),
            is_over: false,
            is_crowded: false,
            rows_recur: weigh::rows_recur(slot),
            log: Log::default(),
            earlier: None,
            undecided: None,
        };
        if root.is_some() {
            splice.claim(slot, splice.exact(0));
        }
        splice
    }

    /// Before it another fragment came for the same cut, and failed since it fits in more than one place.
    pub(crate) fn with_earlier(mut self, earlier: Option<Earlier>) -> Self {
        self.earlier = earlier;
        self
    }

    /// The fragment, if it has failed since it fits in more than one place.
    pub(crate) fn take_undecided(&mut self) -> Option<Earlier> {
        self.undecided.take()
    }

    /// The anchor that the fragment is expected to repeat; `None` where nothing was delivered.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// Takes text of the fragment. What is certain is pushed to the document; text behind its root is dropped.
    ///
    /// # Errors
    /// The failure, now and for all text to come.
    pub fn feed(&mut self, slot: &mut Slot, text: &str) -> Result<(), Failure> {
        self.feed_with(slot, text, &mut ())
    }

    /// Like [`feed`](Self::feed), and tells `sink` what became certain in the document.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
    pub fn feed_with<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) -> Result<(), Failure> {
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
                at += c.len_utf8();
                let was_fenced = self.fenced;
                self.take(slot, c);
                if let Some(winner) = self.winner(slot, false) {
                    self.join(slot, winner, sink);
                    break;
                }
                self.most_held = self.most_held.max(self.held.len());
                self.check_cap(self.held.len());
                if !matches!(self.state, State::Probation) {
                    break;
                }
                if self.fenced && !was_fenced {
                    // What closes the fence may stand in the rest.
                    text = self.unfence(Cow::Owned(text.get(at..).unwrap_or_default().to_owned()));
                    at = 0;
                }
            }
            text = Cow::Owned(text.get(at..).unwrap_or_default().to_owned());
        }
        self.deliver(slot, &text, sink);
        self.outcome()
    }

    /// The fragment has ended.
    ///
    /// # Errors
    /// Why it brought nothing: no place for it, or none that is certain.
    pub fn finish(&mut self, slot: &mut Slot) -> Result<Seam, Failure> {
        self.finish_with(slot, &mut ())
    }

    /// Like [`finish`](Self::finish), and tells `sink` what became certain in the document.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_with<S: Sink + ?Sized>(&mut self, slot: &mut Slot, sink: &mut S) -> Result<Seam, Failure> {
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
            State::Opening(_) | State::Probation => Err(Failure::Empty),
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
    pub fn held(&self) -> usize {
        if let State::Joined(_, flow) = &self.state { flow.held() } else { self.held.len() }
    }

    fn outcome(&self) -> Result<(), Failure> {
        if let State::Failed(_, failure) = &self.state { Err(failure.clone()) } else { Ok(()) }
    }

    fn fail(&mut self, failure: Failure) {
        let seam = self.seam().cloned();
        self.log.repairs = self.repairs().to_vec();
        self.held = String::new();
        self.state = State::Failed(seam, failure);
    }

    fn check_cap(&mut self, waiting: usize) {
        if waiting > self.limits.0 {
            self.fail(Failure::Held(self.limits.0));
        }
    }

    /// Nothing of the root was delivered: waits for the fragment's own. Where it begins in `text`, once it does.
    fn open<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) -> Option<usize> {
        let State::Opening(opening) = &mut self.state else { return Some(0) };
        let before = self.held.len();
        self.held.push_str(text);
        let root = opening.feed(text);
        // What waited is what stands before the root: what follows it in the same chunk did not wait.
        let waited = root.unwrap_or(self.held.len());
        self.most_held = self.most_held.max(waited);
        self.check_cap(waited);
        let root = root.filter(|_| matches!(self.state, State::Opening(_)))?;
        if let Some(rest) = slot.document().rest_of_fence() {
            // The fence that the root belongs behind was cut in its own line.
            let _ = slot.push_with(rest, sink);
        }
        self.state = State::Joined(self.seam_of(Alignment::Start, 0, root), Flow::new(slot, self.limits.0));
        self.held = String::new();
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
            held: self.most_held,
            decided,
            rivals: Vec::new(),
            agreed: false,
        }
    }

    /// The trial with this number has won: what it takes for new goes to the document.
    fn join<S: Sink + ?Sized>(&mut self, slot: &mut Slot, winner: usize, sink: &mut S) {
        let trial = self.trials.swap_remove(winner);
        // White space that the fragment has at another place counts once.
        let overlap = trial.claim.overlap.min(self.cut.offset);
        let mut seam = self.seam_of(trial.claim.alignment, overlap, self.held.len());
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
        let held = std::mem::take(&mut self.held);
        // The matcher stays until the splice goes: to give back its memory takes longer than any push may.
        (self.trials, self.readers) = (Vec::new(), Vec::new());
        self.deliver(slot, held.get(trial.claim.at..).unwrap_or_default(), sink);
    }

    /// Behind the seam: text goes to the document until its root is closed.
    fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        let State::Joined(_, flow) = &mut self.state else { return };
        let fed = flow.feed(&mut Delivered { slot, sink }, text);
        self.stop_at(slot, fed);
    }

    fn stop_at(&mut self, slot: &Slot, flowed: Result<(), Stop>) {
        let Err(stop) = flowed else { return };
        match stop {
            Stop::Syntax(error) => self.fail(Failure::Malformed(error)),
            Stop::Held => self.fail(Failure::Held(self.limits.0)),
            Stop::Overwrites | Stop::GoesOn | Stop::Owes => self.fail(Failure::Overwrites(slot.text().len())),
        }
    }

    /// Takes out the fence that closes a fenced fragment, and all that follows it.
    fn unfence<'a>(&mut self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.is_over {
            return Cow::Borrowed("");
        }
        if !self.fenced {
            return text;
        }
        let text = if self.line_end.is_empty() { text } else { Cow::Owned(std::mem::take(&mut self.line_end) + &text) };
        let Some((at, is_closed)) = closing_fence(&text) else { return text };
        self.is_over = is_closed;
        if !is_closed {
            // The line end alone would end an open number: it waits for what follows it.
            text[at..].clone_into(&mut self.line_end);
        }
        Cow::Owned(text[..at].to_owned())
    }

    /// The claim that the fragment's text from `at` on goes on at the cut.
    fn exact(&self, at: usize) -> Claim {
        let is_asked = self.expect == Expect::Exact && at == 0;
        let weight = if is_asked { Weight::Asked } else { Weight::Plausible };
        Claim { from: self.cut.offset, ..Claim::new(Alignment::Exact, weight, at, 0) }
    }

    /// What came so far may stand at the cut.
    fn exact_is_alive(&self) -> bool {
        self.trials.iter().any(|trial| trial.claim.alignment == Alignment::Exact)
    }

    /// The next character of the fragment, before the decision.
    fn take(&mut self, slot: &Slot, c: char) {
        let at = self.held.len();
        self.held.push(c);
        let white = slot.text().get(self.tail..).unwrap_or_default();
        let text = self.held.get(at..).unwrap_or_default();
        let log = &mut self.log;
        self.trials.retain_mut(|trial| {
            let fed = trial.feed(slot, text, white);
            fed.inspect_err(|stop| log.stopped(trial, stop)).is_ok()
        });
        let mark = self.wrap.take(c);
        if let Some(mark) = mark {
            self.begin_content(slot, mark, at, c);
        }
        if matches!(c, '{' | '[') && self.bracket.is_none() && !self.is_prose {
            self.bracket = Some(at);
        }
        self.read(slot, at);
        self.matched(slot, at);
    }

    /// Content may begin at `at`, with `c`.
    fn begin_content(&mut self, slot: &Slot, mark: Mark, at: usize, c: char) {
        let is_alive = || {
            let is_following = self.readers.iter().any(|reader| !reader.is_over());
            is_following || !self.trials.is_empty() || self.begin < at && self.may_repeat(slot)
        };
        if mark == Mark::Line && is_alive() {
            return;
        }
        self.fenced |= mark == Mark::Fence;
        self.begin = at;
        self.is_prose = !matches!(c, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        if mark != Mark::Line {
            self.bracket = None;
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.begin(at);
        }
        self.note_contradictions();
        self.readers = Reader::all(slot, c, self.limits.1);
        let is_new = at > 0 && (mark != Mark::First || !self.exact_is_alive());
        if is_new {
            // White space at the start of a line may be text of the string that was cut; the line end can't.
            let before = self.held.get(..at).unwrap_or_default();
            let line = before.trim_end_matches(' ');
            let behind_fence =
                || before.rfind(FENCE).and_then(|fence| Some(fence + before.get(fence..)?.find('\n')? + 1));
            let at = match mark {
                Mark::Fence if !slot.document().machine().in_string() => behind_fence().unwrap_or(at),
                _ if line.ends_with('\n') => line.len(),
                _ => at,
            };
            self.claim(slot, self.exact(at));
        }
    }

    fn note_contradictions(&mut self) {
        let contradicted = self.readers.iter().filter_map(Reader::contradicted).max();
        self.contradicted = self.contradicted.max(contradicted);
    }

    /// Lets the readers take what stands in the fragment from `at` on.
    fn read(&mut self, slot: &Slot, at: usize) {
        if self.wrap.in_thoughts() || at < self.begin {
            return;
        }
        let mut readers = std::mem::take(&mut self.readers);
        for reader in &mut readers {
            let mut arrivals = Vec::new();
            reader.feed(slot, &self.tip, self.held.get(at..).unwrap_or_default(), |arrival| arrivals.push(arrival));
            for arrival in arrivals {
                let known = Known { tip: &self.tip, anchor: self.anchor.as_ref(), rows_recur: self.rows_recur };
                let mut claim = weigh::claim(slot, &known, self.begin, arrival);
                let written = claim.at.checked_sub(claim.rest.len()).and_then(|from| self.held.get(from..claim.at));
                if written.is_some_and(|written| written.eq_ignore_ascii_case(&claim.rest)) {
                    // The escape goes on as it was begun.
                    claim.at -= std::mem::take(&mut claim.rest).len();
                }
                if self.cut_token.is_none() {
                    // White space before it is the document's, as far as that has none yet.
                    claim.at = self.held.get(..claim.at).map_or(0, |before| before.trim_end().len());
                    claim.skip = self.cut.offset - self.tail;
                }
                self.claim(slot, claim);
            }
        }
        self.readers = readers;
    }

    /// Lets the matcher take what stands in the fragment from `at` on.
    fn matched(&mut self, slot: &Slot, at: usize) {
        let Some(mut matcher) = self.matcher.take() else { return };
        for end in at + 1..=self.held.len() {
            // What was asked for and what is repeated from the beginning on may end at the same byte: the former is tried.
            let mut found: Option<Claim> = None;
            matcher.feed(slot.text(), self.held.as_bytes().get(..end).unwrap_or_default(), |hit| {
                let claim = self.claim_of(slot, hit, end);
                if found.as_ref().is_none_or(|found| found.weight < Weight::Asked) {
                    found = claim.or(found.take());
                }
            });
            if let Some(claim) = found {
                let skip = self.cut.offset - self.tail;
                self.claim(slot, Claim { skip, from: self.tail.saturating_sub(claim.overlap), ..claim });
            }
        }
        self.matcher = Some(matcher);
    }

    /// What a repeat that ends at `end` claims.
    fn claim_of(&self, slot: &Slot, hit: Hit, end: usize) -> Option<Claim> {
        let delivered = slot.text();
        let asked = |is_asked: bool| {
            if is_asked && self.expect != Expect::Exact { Weight::Asked } else { Weight::Convincing }
        };
        match hit {
            Hit::Anchor { start } => {
                let before = self.held.get(..start).unwrap_or_default();
                let is_first = start == self.begin || before.trim().is_empty();
                if self.bracket.is_some_and(|bracket| bracket < start) || self.wrap.in_thoughts() && !is_first {
                    // What precedes it is no envelope: it counts only as the end of a restart.
                    return None;
                }
                // Behind text that is legal at the cut it may stand in the next row, which is like the last one.
                let on_own_line = before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
                let is_behind_prose = on_own_line && self.wrap.is_behind_prose();
                let weight = asked(is_first || is_behind_prose && !self.exact_is_alive());
                // A bracket in the middle of a sentence is no anchor.
                let is_short = !on_own_line && end - start < EVIDENCE;
                if !is_first && (is_short || !self.wrap.is_behind_prose()) {
                    return None;
                }
                // The same forty characters may come once more in a long text.
                let may_recur = self.exact_is_alive();
                Some(Claim { may_recur, ..Claim::new(Alignment::Anchor, weight, end, end - start) })
            }
            // Whether it is the open element or the next one: a cursor finds out.
            Hit::Overlap { start, has_anchor: false, .. } if weigh::begins_element(slot, start) => None,
            Hit::Overlap { start, is_likely: false, .. } => {
                // It goes on as it began. A shorter end that was taken for a beginning is in doubt, then.
                let is_shorter = |trial: &Trial| trial.claim.alignment == Alignment::Overlap;
                let claim = || Claim::new(Alignment::Overlap, Weight::Doubtful, end, self.tail - start);
                self.trials.iter().any(is_shorter).then(claim)
            }
            Hit::Overlap { start, has_anchor, is_evidence, .. } => {
                // What it repeats stood behind the same thing as the cut does now: it may as well be the next row.
                let last = |text| str::trim_end(text).bytes().rev().take(2);
                let (before, tail) = (delivered.get(..start), delivered.get(..self.tail));
                let in_a_row = before.zip(tail).is_some_and(|(before, tail)| last(before).eq(last(tail)));
                let is_piece = self.is_piece_of_string(slot, start);
                let is_row = weigh::is_row(slot, start) || in_a_row && !is_piece;
                // It goes on as it began: a row that comes again looks like a longer repeat.
                let is_whole = slot.document().root_start().is_some_and(|root| start <= root);
                // A shorter repeat that is long enough to be none by chance, or an element that is like the one before.
                let is_rival = |trial: &Trial| match trial.claim.weight {
                    Weight::Doubtful => trial.claim.overlap >= EVIDENCE / 2,
                    _ => trial.claim.alignment == Alignment::Overlap && trial.claim.overlap >= EVIDENCE,
                };
                let has_rival = || self.trials.iter().any(is_rival);
                let recurs = self.rows_recur || has_rival() || !is_evidence && self.tail - start >= EVIDENCE;
                let is_periodic = !is_whole && recurs;
                let (alignment, weight) = match (has_anchor, is_evidence) {
                    (true, _) => (
                        Alignment::Restart,
                        asked(!(is_periodic && !self.trials.is_empty() || is_row && self.exact_is_alive())),
                    ),
                    (false, true) => (Alignment::Overlap, Weight::Convincing),
                    (false, false) => (Alignment::Overlap, Weight::Plausible),
                };
                let may_recur = is_row || is_periodic;
                Some(Claim { may_recur, ..Claim::new(alignment, weight, end, self.tail - start) })
            }
        }
    }

    /// Puts a claim to the trial; it takes what has come behind its beginning.
    fn claim(&mut self, slot: &Slot, claim: Claim) {
        if self.trials.len() >= TRIALS && claim.weight < Weight::Asked {
            self.is_crowded = true;
            return;
        }
        let white = slot.text().get(self.tail..).unwrap_or_default();
        let come = self.held.get(claim.at..).unwrap_or_default();
        let mut trial = Trial::new(slot, claim, self.limits.0);
        match trial.feed(slot, come, white) {
            Ok(()) => self.trials.push(trial),
            Err(stop) => self.log.stopped(&trial, &stop),
        }
    }

    /// The cut stands in a string, and the delivered text from `start` on in the same one.
    fn is_piece_of_string(&self, slot: &Slot, start: usize) -> bool {
        slot.document().machine().in_string() && self.cut_token.is_some_and(|token| start > token)
    }

    /// The fragment may still turn out to repeat delivered text.
    fn may_repeat(&self, slot: &Slot) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.may_repeat(slot.text(), self.held.as_bytes()))
    }

    /// The trial that has won, if one has.
    fn winner(&mut self, slot: &Slot, has_ended: bool) -> Option<usize> {
        let winner = decide::winner(&self.trials, self.scene(slot, has_ended))?;
        let trial = self.trials.get_mut(winner)?;
        if trial.is_new() && !weigh::fits(slot, &self.tip, self.held.get(trial.claim.at..).unwrap_or_default()) {
            // Nothing but the grammar speaks for it, and it does not look like what stands before it.
            trial.claim.weight = Weight::Doubtful;
            if matches!(self.tip, Tip::Element | Tip::AfterValue) {
                let trial = self.trials.swap_remove(winner);
                self.log.note(&trial, Fate::Died { at: self.held.len().saturating_sub(1), why: Death::Unlike });
            }
            return None;
        }
        Some(winner)
    }

    fn scene(&self, slot: &Slot, has_ended: bool) -> Scene {
        let needs = self.trials.iter().any(|trial| trial.passed);
        Scene {
            may_repeat: needs && self.may_repeat(slot),
            is_following: self.readers.iter().any(|reader| !reader.is_over()),
            is_repeating: self.readers.iter().any(Reader::is_repeat),
            has_ended,
            is_crowded: self.is_crowded,
        }
    }

    fn decide_at_end<S: Sink + ?Sized>(&mut self, slot: &mut Slot, sink: &mut S) {
        let end = self.held.trim_end().len();
        if end == 0 {
            return self.fail(Failure::Empty);
        }
        self.note_contradictions();
        self.trials.iter_mut().for_each(Trial::end);
        // Everything that came is a tail of the delivered text, and nothing significant follows it.
        let is_tail = |trial: &&Trial| {
            let claim = &trial.claim;
            let is_repeat = claim.weight == Weight::Asked || claim.alignment == Alignment::Overlap && claim.at >= end;
            is_repeat && claim.alignment != Alignment::Exact && !trial.passed
        };
        let nothing_new = self.trials.iter().find(is_tail).map(|trial| trial.claim.overlap);
        let repeats =
            self.matcher.as_ref().is_some_and(Matcher::is_repeat) || self.readers.iter().any(Reader::is_repeat);
        let winner = self.winner(slot, true).filter(|&winner| {
            let trial = self.trials.get(winner);
            // It may as well have been lost while it repeated what was delivered.
            !repeats || trial.is_some_and(|trial| trial.is_done() || trial.claim.alignment != Alignment::Exact)
        });
        let failure = decide::failure(&self.trials, self.contradicted);
        match (nothing_new, winner) {
            (Some(overlap), _) => self.repeat(slot, overlap),
            (_, Some(winner)) => self.join(slot, winner, sink),
            _ if repeats => self.repeat(slot, self.held.len() - self.begin),
            _ if failure == Failure::Ambiguous => self.agree(slot, sink),
            _ => self.fail(failure),
        }
    }

    /// The fragment fits in more than one place: the one before it, if that did, too, may say in which one it stands.
    fn agree<S: Sink + ?Sized>(&mut self, slot: &mut Slot, sink: &mut S) {
        let earlier = self.earlier.take().filter(|_| !self.is_crowded);
        let agreed = earlier.and_then(|earlier| earlier.agrees(slot, &self.held, &self.trials, self.limits.0));
        let Some(winner) = agreed else {
            self.undecided = (!self.is_crowded).then(|| Earlier::of(slot, &self.held, &self.trials));
            return self.fail(Failure::Ambiguous);
        };
        self.join(slot, winner, sink);
        if let State::Joined(seam, _) | State::Failed(Some(seam), _) = &mut self.state {
            seam.agreed = true;
        }
    }

    /// The fragment brought nothing new.
    fn repeat(&mut self, slot: &Slot, overlap: usize) {
        let seam = self.seam_of(Alignment::Repeat, overlap.min(self.tail), self.held.len());
        self.held = String::new();
        self.state = State::Joined(seam, Flow::new(slot, self.limits.0));
    }
}

/// Where the line that closes a fence begins, with the line ends before it; and whether it is there for certain, or only
/// so much of it that more text must come. Strings hold no raw line ends, so none of theirs is taken for one.
fn closing_fence(text: &str) -> Option<(usize, bool)> {
    let mut from = 0;
    while let Some(found) = memchr2(b'\n', b'\r', text.get(from..)?.as_bytes()) {
        let at = from + found;
        let behind = text[at..].trim_ascii_start();
        let spaces = text.len() - at - behind.len();
        if spaces <= SPACES && behind.starts_with(FENCE) {
            return Some((at, true));
        }
        if spaces <= SPACES && FENCE.starts_with(behind) {
            return Some((at, false));
        }
        from = at + spaces;
    }
    None
}

const FENCE: &str = "```";
/// White space in front of a closing fence; more of it is nobody's layout.
const SPACES: usize = 256;
