//! The loop: what comes of a call, and whether another one is made (`iteration_flow` of the specification).
//!
//! ```text
//!            ┌── text ──▶ First ── the root is closed, or there is nothing to continue ──────────▶ Done: passed
//!  call ─────┤              │ cut                                                                      ▲
//!            └── end        ▼                                                                          │
//!                        Waiting ── call ──▶ Continuing ── root closed ──▶ Done: complete              │
//!                           ▲                  │  │                                                    │
//!                           └── joined, cut ───┘  └── three failures in a row, or a cap ──▶ Done: closed, or failed
//! ```
//! A session does no I/O and has no clock: `now` is a duration since any fixed moment. Drain
//! [`poll_output`](Session::poll_output) after every input.

mod ask;
pub mod body;
mod event;
mod event_summary;
mod io;
mod outcome;
mod prompt;
pub mod relay;
mod request;
mod returned_prefill;
mod snapshot;
mod stitch;
mod tags;
mod template;
mod text;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use event::Event;
pub use io::{CallEnd, FailureReason, Input, Output};
pub use outcome::{Outcome, Status, StopReason};
pub use prompt::{Part, Parts, Prompt};
pub use request::{ContinuationMode, ContinuationStrategy, PrefillOptions, Request, Turn};
use returned_prefill::ReturnedPrefill;
pub use snapshot::{RestoreError, Snapshot};
pub use stitch::{Between, Explanation, Rewind, StitchOptions, Stitched, stitch, stitch_with};
pub use template::{Template, TemplateError};
pub use text::{StitchedText, stitch_text};

use crate::context::{self, Progress, Sections};
use crate::document::Document;
use crate::error::SyntaxError;
use crate::json::envelope::Roots;
use crate::limits::Limits;
use crate::provider::Finish;
use crate::splice::{Earlier, Expect, Repair, Seam, Slot, Splice, SpliceError};

/// One answer, from its first call to its end.
///
/// What it gives out has left: nothing of it is taken back. A call that contradicts it fails, and [`Rewind`] is offered
/// where parts are [stitched](stitch_with) alone.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::{CallEnd, Event, Input, Output, Session, Status};
/// use restitch::Limits;
///
/// let now = Duration::ZERO;
/// let mut session = Session::new(Limits::default());
/// session.handle_input(now, Input::Text("{\"items\": [1, 2"));
/// session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
///
/// assert!(matches!(session.poll_output(), Some(Output::Event(Event::Cut { offset: 15, .. }))));
/// assert!(matches!(session.poll_output(), Some(Output::Event(Event::Requested { call: 1, .. }))));
/// let Some(Output::Call { request, .. }) = session.poll_output() else { panic!() };
/// let turn = request.turn.unwrap();
/// assert_eq!(turn.delivered, "{\"items\": [1, 2");
/// assert!(turn.prompt.contains("<overlap_context>\n{\"items\": [1, 2\n</overlap_context>"));
///
/// session.handle_input(now, Input::Text("{\"items\": [1, 20, 3]}"));
/// session.handle_input(now, Input::CallEnd(CallEnd::Closed));
/// assert!(matches!(session.poll_output(), Some(Output::Event(Event::Joined { seam, .. })) if seam.path == "/items/1"));
/// assert!(matches!(session.poll_output(), Some(Output::Text(text)) if text == "0, 3]}"));
/// let Some(Output::Event(Event::Done(outcome))) = session.poll_output() else { panic!() };
/// assert_eq!(outcome.status, Status::Complete);
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    limits: Limits,
    expect: Expect,
    strategy: ContinuationStrategy,
    roots: Roots,
    slot: Slot,
    sections: Sections,
    phase: Phase,
    /// How the call that is open was asked for.
    mode: ContinuationMode,
    /// Delivered text that comes back before anything new.
    returned_prefill: Option<ReturnedPrefill>,
    /// Thoughts of the open call have come.
    has_reasoning: bool,
    /// The last call that was answered was all thoughts.
    reduce_reasoning: bool,
    /// The first answer broke the grammar here: it is passed through and never continued.
    malformed: Option<SyntaxError>,
    /// Somebody has said that this answer is not to be continued.
    opaque: bool,
    /// The end of the text is to come, or came, from elsewhere than the first answer.
    spliced: bool,
    /// `stop` is what a stop sequence gives, too.
    has_stop: bool,
    /// Calls after the first.
    continuations: u32,
    /// All failures, and those since the last success.
    failures: u32,
    failures_in_a_row: u32,
    repeats_in_a_row: u32,
    ambiguous: u32,
    /// Of each call, the first one first.
    tokens: Vec<Option<u64>>,
    repairs: BTreeMap<&'static str, u32>,
    /// How far the model says that it is; and what the open call has said, as far as that may tell.
    progress: Progress,
    said: String,
    /// Why the loop has ended.
    stop: Option<StopReason>,
    /// The last continuation that fitted in more than one place: another one that says the same decides between them.
    earlier: Option<Earlier>,
    /// When the call before ended, and when something came last: the clock starts with the first input.
    cut_at: Duration,
    heard_at: Option<Duration>,
    started_at: Option<Duration>,
    /// Before that, in another process.
    spent: Duration,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The first answer, or the original request again while nothing was delivered.
    First,
    /// A call has been asked for.
    Waiting(Box<Splice>),
    /// A continuation is coming. The offset is what was delivered before it.
    Continuing(Box<Splice>, usize),
    Done,
}

impl Session {
    /// A session whose first call is about to be made.
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Expect::Anchor, Roots::Containers)
    }

    /// A session with another expectation of its continuations, or other roots.
    pub fn with(limits: Limits, expect: Expect, roots: Roots) -> Self {
        Self {
            slot: Slot::with_roots(&limits, roots),
            sections: Sections::new(SECTIONS),
            progress: Progress::new(limits.max_stalled_reports),
            said: String::new(),
            limits,
            expect,
            strategy: ContinuationStrategy::default(),
            roots,
            phase: Phase::First,
            mode: ContinuationMode::Reprompt,
            returned_prefill: None,
            has_reasoning: false,
            reduce_reasoning: false,
            malformed: None,
            opaque: false,
            spliced: false,
            has_stop: false,
            continuations: 0,
            failures: 0,
            failures_in_a_row: 0,
            repeats_in_a_row: 0,
            ambiguous: 0,
            tokens: vec![None],
            repairs: BTreeMap::new(),
            stop: None,
            earlier: None,
            cut_at: Duration::ZERO,
            heard_at: None,
            started_at: None,
            spent: Duration::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Asks in this way from the next call on.
    pub fn set_strategy(&mut self, strategy: ContinuationStrategy) {
        self.strategy = strategy;
    }

    /// The request names stop sequences: a `stop` is no lie, and is not continued.
    pub fn has_stop(&mut self, has_stop: bool) {
        self.has_stop = has_stop;
    }

    /// The first answer holds more than one text (tool calls, several choices): it passes through and is not
    /// continued.
    pub fn pass(&mut self) {
        self.opaque = true;
    }

    /// The text so far; all of it is settled.
    pub fn document(&self) -> &Document {
        self.slot.document()
    }

    /// No continuation has been asked for: text of the call that is open leaves as it comes.
    pub fn is_first(&self) -> bool {
        matches!(self.phase, Phase::First)
    }

    /// Calls that were asked for after the first.
    pub fn calls(&self) -> u32 {
        self.continuations
    }

    /// Nothing follows.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Whether the first answer, were it to end like this now, would be continued or asked for again.
    pub fn would_continue(&self, end: &CallEnd) -> bool {
        if self.opaque || self.malformed.is_some() || self.slot.document().is_complete() {
            return false;
        }
        match end {
            CallEnd::Finished(Finish::Length) if self.is_all_reasoning() => true,
            CallEnd::Finished(reason) => self.slot.document().is_json() && self.is_continued(reason),
            _ => self.slot.document().is_json() || self.slot.document().is_blank(),
        }
    }

    /// Tells the session what happened.
    pub fn handle_input(&mut self, now: Duration, input: Input<'_>) {
        self.heard_at = Some(now);
        self.started_at.get_or_insert(now);
        match input {
            Input::Activity => {}
            Input::Tokens(tokens) => self.tokens.last_mut().into_iter().for_each(|last| *last = Some(tokens)),
            Input::Reasoning => self.has_reasoning = true,
            Input::Text(text) => self.text(now, text),
            Input::CallEnd(end) => self.end(now, end),
        }
    }

    /// What is to be done next. `None`: nothing, until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the open call counts as silent, unless something comes, or has taken too long: then [`CallEnd::TimedOut`] is its
    /// input. `None` where silence is nobody's concern.
    pub fn poll_timeout(&self, opened: bool) -> Option<Duration> {
        let patience = match self.phase {
            Phase::First if !self.would_continue(&CallEnd::TimedOut) => return None,
            Phase::First if !self.slot.document().is_json() => {
                self.limits.first_byte_timeout.max(self.limits.idle_timeout)
            }
            Phase::First => self.limits.idle_timeout,
            Phase::Waiting(_) | Phase::Continuing(..) if opened => self.limits.idle_timeout,
            Phase::Waiting(_) | Phase::Continuing(..) => self.limits.first_byte_timeout.max(self.limits.idle_timeout),
            Phase::Done => return None,
        };
        let silent = self.heard_at?.saturating_add(patience);
        // A call for the rest ends with the time there is for all of it.
        let left = self.limits.max_total_time.map(|most| most.saturating_sub(self.spent));
        let over = left.zip(self.started_at).map(|(left, started)| started.saturating_add(left));
        Some(over.filter(|_| !matches!(self.phase, Phase::First)).map_or(silent, |over| over.min(silent)))
    }

    /// When something came last.
    pub(super) fn heard_at(&self) -> Option<Duration> {
        self.heard_at
    }

    /// The open call has spent what it had on thoughts so far, and another one could spend less.
    fn is_all_reasoning(&self) -> bool {
        let is_blank = match &self.phase {
            Phase::First => self.slot.document().is_blank(),
            Phase::Continuing(splice, _) => splice.pending() == 0 && splice.seam().is_none(),
            Phase::Waiting(_) => true,
            Phase::Done => false,
        };
        self.strategy.reduce_reasoning && self.has_reasoning && is_blank
    }

    fn is_continued(&self, reason: &Finish) -> bool {
        match reason {
            Finish::Length => true,
            Finish::Stop => !self.has_stop,
            _ => false,
        }
    }

    /// Text of the open call, without the prefix that comes back first.
    fn text(&mut self, now: Duration, text: &str) {
        let Some(mut returned) = self.returned_prefill.take() else { return self.new_text(now, text) };
        match returned.feed(self.slot.document().text(), text) {
            Some(new) => {
                if returned.begins_again() {
                    // In other words than before: where it goes on is for the evidence to say.
                    self.expect_any();
                }
                self.new_text(now, &new);
            }
            None => {
                self.begin_continuing();
                self.returned_prefill = Some(returned);
            }
        }
    }

    /// The open call goes on anywhere, and not at the end of the prefix as it was asked to.
    fn expect_any(&mut self) {
        self.begin_continuing();
        if let Phase::Continuing(splice, _) = &mut self.phase {
            **splice = Splice::new(&self.slot, Expect::Any, &self.limits);
        }
    }

    fn new_text(&mut self, now: Duration, text: &str) {
        self.begin_continuing();
        let asks_progress = self.asks_progress();
        match &mut self.phase {
            Phase::First => {
                if self.malformed.is_none() {
                    self.malformed = self.slot.push_with(text, &mut self.sections).err();
                }
            }
            Phase::Continuing(splice, _) => {
                if asks_progress && self.said.len() < self.limits.max_pending_bytes {
                    self.said.push_str(text);
                }
                let before = self.slot.document().text().len();
                let was_joined = splice.seam().is_some();
                // A failure is told once, when the call ends.
                let _ = splice.feed_with(&mut self.slot, text, &mut self.sections);
                if let Some(seam) = splice.seam().filter(|_| !was_joined).cloned() {
                    self.joined(now, seam);
                }
                self.settled(before);
            }
            Phase::Waiting(_) | Phase::Done => {}
        }
    }

    /// The open call was asked how far the document has come.
    fn asks_progress(&self) -> bool {
        self.mode == ContinuationMode::Reprompt && self.strategy.prompt.template(Part::Progress).is_some()
    }

    /// The call that is open has ended: how far does it say that the document has come?
    fn note_progress(&mut self) {
        let said = std::mem::take(&mut self.said);
        if let Some(percentage) = context::extract(&said).filter(|_| self.asks_progress()) {
            self.progress.note(Some(percentage));
            let (call, strikes) = (self.continuations, self.progress.strikes());
            self.event(Event::Progress { call, percentage, strikes });
        }
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn joined(&mut self, now: Duration, seam: Seam) {
        self.ambiguous = self.ambiguous.saturating_add(u32::from(seam.ambiguous));
        let (call, elapsed) = (self.continuations, now.saturating_sub(self.cut_at));
        self.event(Event::Joined { call, seam, elapsed });
    }

    /// The open call has ended before the document was whole.
    fn cut(&mut self, now: Duration, end: &CallEnd) {
        self.cut_at = now;
        let document = self.slot.document();
        let (offset, path) = (document.text().len(), document.cut().path);
        self.event(Event::Cut { call: self.continuations, end: end.clone(), offset, path });
    }

    fn settled(&mut self, before: usize) {
        if let Some(new) = self.slot.document().text().get(before..).filter(|new| !new.is_empty()) {
            self.outputs.push_back(Output::Text(new.to_owned()));
        }
    }

    fn begin_continuing(&mut self) {
        if let Phase::Waiting(_) = self.phase
            && let Phase::Waiting(splice) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            self.phase = Phase::Continuing(splice, self.slot.document().text().len());
        }
    }

    fn end(&mut self, now: Duration, end: CallEnd) {
        // A call that was refused has thought nothing: the next one is told what it was told.
        if !matches!(end, CallEnd::PrefillRejected(_) | CallEnd::Rejected { .. }) {
            self.reduce_reasoning = matches!(end, CallEnd::Finished(_)) && self.is_all_reasoning();
        }
        // Of a prefix that was being sent back nothing is new, however much of it came.
        self.returned_prefill = None;
        match self.phase {
            Phase::First => self.end_of_first(now, end),
            Phase::Waiting(_) | Phase::Continuing(..) => self.end_of_continuation(now, &end),
            Phase::Done => {}
        }
        self.has_reasoning = false;
    }

    fn end_of_first(&mut self, now: Duration, end: CallEnd) {
        if !self.would_continue(&end) {
            let finish = if let CallEnd::Finished(reason) = end { Some(reason) } else { None };
            let asked_again = self.continuations > 0 && self.slot.document().is_complete();
            self.done(if asked_again { Status::Complete } else { Status::PassedThrough }, Vec::new(), finish);
            return;
        }
        self.cut(now, &end);
        if self.slot.document().root_start().is_some() {
            self.call(now, Duration::ZERO);
        } else {
            self.failed(now, FailureReason::Nothing(end.clone()), &end);
        }
    }

    fn end_of_continuation(&mut self, now: Duration, end: &CallEnd) {
        self.begin_continuing();
        let Phase::Continuing(mut splice, delivered) = std::mem::replace(&mut self.phase, Phase::Done) else { return };
        match end {
            CallEnd::PrefillRejected(_) if self.mode == ContinuationMode::Prefill => {
                self.strategy.prefill = None;
                self.continuations -= 1;
                self.tokens.pop();
                self.call(now, Duration::ZERO);
                return;
            }
            CallEnd::Rejected { reason, .. } | CallEnd::PrefillRejected(reason) => {
                self.failed(now, FailureReason::Rejected(reason.clone()), end);
                return;
            }
            _ => {}
        }
        self.note_progress();
        let before = self.slot.document().text().len();
        let was_joined = splice.seam().is_some();
        let merged = splice.finish_with(&mut self.slot, &mut self.sections);
        self.earlier = splice.take_undecided().or(self.earlier.take());
        if let Some(seam) = splice.seam().filter(|_| !was_joined).cloned() {
            self.joined(now, seam);
        }
        self.settled(before);
        self.repaired(splice.repairs());
        let finish = if let CallEnd::Finished(reason) = end { Some(reason.clone()) } else { None };
        if self.slot.document().is_complete() {
            self.done(Status::Complete, Vec::new(), finish);
            return;
        }
        self.cut(now, end);
        // A refusal says `stop` as well: it is a failure, whatever stop sequences there are.
        let failed_to_merge = merged.is_err() && finish == Some(Finish::Stop);
        if let Some(reason) = finish.as_ref().filter(|reason| !self.is_continued(reason) && !failed_to_merge) {
            self.give_up(StopReason::Finish, Some(reason.clone()));
            return;
        }
        match merged {
            Err(SpliceError::Empty) if !matches!(end, CallEnd::Finished(_)) => {
                self.failed(now, FailureReason::Nothing(end.clone()), end);
            }
            Err(failure) => {
                if self.mode == ContinuationMode::Prefill && failure != SpliceError::Empty {
                    // Asked in the same way, it would say the same.
                    self.strategy.prefill = None;
                }
                self.failed(now, FailureReason::Merge(failure), end);
            }
            Ok(_) => {
                let progress = self.slot.document().text().len() > delivered;
                if !progress && matches!(end, CallEnd::Dropped | CallEnd::TimedOut | CallEnd::Error(_)) {
                    // It did not come as far as to bring something.
                    self.failed(now, FailureReason::Nothing(end.clone()), end);
                    return;
                }
                self.failures_in_a_row = 0;
                self.repeats_in_a_row = if progress { 0 } else { self.repeats_in_a_row.saturating_add(1) };
                if self.repeats_in_a_row >= self.limits.max_no_progress.max(1) {
                    self.give_up(StopReason::NoProgress, None);
                } else {
                    self.call(now, Duration::ZERO);
                }
            }
        }
    }

    fn repaired(&mut self, repairs: &[Repair]) {
        for repair in repairs {
            let count = self.repairs.entry(repair.rule.as_str()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// One failure. The next call waits if the end says so.
    fn failed(&mut self, now: Duration, reason: FailureReason, end: &CallEnd) {
        // They may come from a snapshot.
        self.failures = self.failures.saturating_add(1);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.repeats_in_a_row = 0;
        let (call, in_a_row) = (self.continuations, self.failures_in_a_row);
        self.event(Event::Failed { call, reason, in_a_row });
        if self.failures_in_a_row >= self.limits.max_consecutive_failures {
            self.give_up(StopReason::Failures, None);
            return;
        }
        let wait = match end {
            CallEnd::Rejected { transient: true, retry_after, .. } => {
                let doubled = Duration::from_millis(200 << (self.failures_in_a_row - 1).min(10));
                retry_after.unwrap_or(doubled).min(self.limits.max_backoff)
            }
            _ => Duration::ZERO,
        };
        self.call(now, wait);
    }

    /// Asks for the next call, or gives up where the cap is reached.
    fn call(&mut self, now: Duration, wait: Duration) {
        let at = now.saturating_add(wait);
        if let Some(stop) = self.cap(at) {
            self.give_up(stop, None);
            return;
        }
        self.continuations += 1;
        self.tokens.push(None);
        self.heard_at = Some(at);
        let turn = if self.slot.document().root_start().is_some() {
            self.spliced = true;
            Some(self.turn())
        } else {
            if self.slot.document().text().is_empty() {
                self.slot = Slot::with_roots(&self.limits, self.roots);
                self.sections = Sections::new(SECTIONS);
                self.phase = Phase::First;
            } else {
                self.spliced = true;
                // White space or the opening of a fence has left: the root that belongs there is waited for.
                self.phase = Phase::Waiting(Box::new(Splice::new(&self.slot, self.expect, &self.limits)));
            }
            None
        };
        let (mode, anchor) = (turn.as_ref().map(|turn| turn.mode), turn.as_ref().map_or(0, |turn| turn.anchor.len()));
        self.event(Event::Requested { call: self.continuations, mode, anchor, at });
        let request = Request { number: self.continuations, turn, reduce_reasoning: self.reduce_reasoning };
        self.outputs.push_back(Output::Call { request, at });
    }

    /// Since the first input.
    fn spent(&self, now: Duration) -> Duration {
        self.spent + self.started_at.map_or(Duration::ZERO, |started| now.saturating_sub(started))
    }

    /// Another process had the call that was open: asks for the rest, if there is to be one.
    fn go_on(&mut self, now: Duration) {
        if !self.would_continue(&CallEnd::Dropped) {
            let is_whole = self.continuations > 0 && self.slot.document().is_complete();
            self.done(if is_whole { Status::Complete } else { Status::PassedThrough }, Vec::new(), None);
            return;
        }
        self.cut(now, &CallEnd::Dropped);
        self.call(now, Duration::ZERO);
    }

    /// The cap that a call at this time would break.
    fn cap(&self, at: Duration) -> Option<StopReason> {
        // A server may tell any number.
        let tokens = self.tokens.iter().flatten().fold(0, |sum: u64, tokens| sum.saturating_add(*tokens));
        if self.continuations >= self.limits.max_continuations {
            Some(StopReason::Continuations)
        } else if self.limits.max_total_tokens.is_some_and(|most| tokens >= most) {
            Some(StopReason::Tokens)
        } else if self.progress.strikes() >= self.limits.max_stalled_reports.max(1) {
            Some(StopReason::Progress)
        } else if self.limits.max_total_time.is_some_and(|most| self.spent(at) >= most) {
            Some(StopReason::Time)
        } else {
            None
        }
    }

    /// Closes what was delivered and says so; says that it failed where there is nothing to close.
    fn give_up(&mut self, stop: StopReason, finish: Option<Finish>) {
        self.stop = Some(stop);
        if self.slot.document().root_start().is_none() {
            self.done(Status::Failed, Vec::new(), finish);
            return;
        }
        self.spliced = true;
        let completion = self.slot.document().completion();
        let before = self.slot.document().text().len();
        self.event(Event::Fallback { stop, offset: before, synthesized: completion.synthesized.clone() });
        let pushed = self.slot.push(&completion.suffix);
        debug_assert!(pushed.is_ok() && self.slot.document().is_complete(), "{pushed:?}: {}", completion.suffix);
        self.settled(before);
        self.done(Status::Closed, completion.synthesized, finish);
    }

    fn done(&mut self, status: Status, synthesized: Vec<String>, finish: Option<Finish>) {
        self.phase = Phase::Done;
        if self.spliced
            && let Some(fence) = self.slot.document().open_fence()
        {
            // The first answer's own fence can't come any more.
            let before = self.slot.document().text().len();
            let _ = self.slot.push(&fence);
            self.settled(before);
        }
        let outcome = Outcome { synthesized, finish, ..self.outcome(status) };
        self.event(Event::Done(outcome.clone()));
        self.outputs.push_back(Output::Done(outcome));
    }

    fn outcome(&self, status: Status) -> Outcome {
        let Self { continuations, failures, ambiguous, stop, .. } = *self;
        Outcome {
            status,
            continuations,
            failures,
            ambiguous,
            synthesized: Vec::new(),
            finish: None,
            stop,
            tokens: self.tokens.clone(),
            repairs: self.repairs.clone(),
            percentage: self.progress.last_kpi(),
        }
    }
}

/// Sections that are remembered, beside the newest: a summary shows no more.
const SECTIONS: usize = 16;
