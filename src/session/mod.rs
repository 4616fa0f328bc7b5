//! The loop: decides after each call whether the answer is whole, and asks for the rest where it is
//! not.
//!
//! ```text
//!  First ── the root is closed, or the answer is not to be continued ──▶ Done: passed through
//!    │ cut
//!    ▼
//!  Continuing ── root closed ──▶ Done: complete
//!    │     ▲ └── too many failures in a row, or a cap ──▶ Done: closed, incomplete or failed
//!    └─────┘ cut: the next call
//! ```
//! A session does no I/O and has no clock: `now` is a duration since any fixed moment. Drain
//! [`poll_output`](Session::poll_output) after every input.

mod ask;
mod base;
pub(crate) mod body;
mod ellipsis;
mod event;
mod event_summary;
mod give_up;
mod io;
mod next;
mod outcome;
mod part_repair;
pub(crate) mod prompt;
mod prose;
pub(crate) mod question;
mod received;
pub(crate) mod record;
pub(crate) mod relay;
mod repair;
mod request;
mod retry;
mod returned_prefill;
mod silence;
mod slots;
mod snapshot;
mod stitch;
mod tags;
mod template;
pub(crate) mod text;
mod tool_call;
mod wire;

use std::collections::VecDeque;
use std::time::Duration;

use base::Preceding;
pub use event::SessionEvent;
pub use give_up::{GiveUp, GiveUpError};
#[doc(hidden)]
pub use io::Redirect;
pub use io::{CallEnd, FailureReason, Input, Output};
pub use outcome::{CutCause, LimitReached, Outcome, Status, StopReason, Tally};
use part_repair::PartRepairer;
pub(crate) use prompt::Parts;
pub use prompt::{MarkUse, Part, Prompt};
pub use prose::Prose;
use prose::TextContinuation;
use question::Attempts;
pub use request::{ContinuationMode, ContinuationStrategy, PrefillOptions, Request, Turn};
#[doc(hidden)]
pub use retry::below;
pub use retry::{Message, Retry};
use returned_prefill::ReturnedPrefill;
pub use snapshot::{RestoreError, Snapshot};
pub use stitch::{Explanation, FailedPart, Rewind, StitchOptions, Stitched, stitch, stitch_with};
pub use template::{Template, TemplateError};

use crate::context::{Progress, Sections};
use crate::document::Document;
use crate::envelope::AllowedRoots;
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::limits::Limits;
use crate::provider::Finish;
use crate::provider::wire::Tool;
use crate::splice::{Expect, Seam, Slot, Splice};

/// One answer, from its first call to its end.
///
/// Text that was given out is never taken back. A call that contradicts it fails; [`Rewind`] is
/// offered only where parts are [stitched](stitch_with).
///
/// ```
/// use std::time::Duration;
/// use restitch::session::{CallEnd, SessionEvent, Input, Output, Session, Status};
/// use restitch::Limits;
///
/// let now = Duration::ZERO;
/// let mut session = Session::new(Limits::default());
/// // The first call is lost before any text: the original request is sent again.
/// session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Cut { offset: 0, .. }))));
/// // The server may only be restarting, so the call is no failure: it is made after a short wait.
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Waiting { call: 0, .. }))));
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Requested { call: 1, mode: None, .. }))));
/// let Some(Output::Call { request, .. }) = session.poll_output() else { panic!() };
/// assert!(request.turn.is_none() && session.is_first());
/// // Its text is that of a first answer: it is forwarded as it comes, and is no output.
/// session.handle_input(now, Input::Text("{\"items\": [1, 2"));
/// assert_eq!(session.poll_output(), None);
///
/// // The second call is cut: the rest is asked for.
/// session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Cut { offset: 15, .. }))));
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Requested { call: 2, .. }))));
/// let Some(Output::Call { request, .. }) = session.poll_output() else { panic!() };
/// let turn = request.turn.unwrap();
/// assert_eq!(turn.delivered, "{\"items\": [1, 2");
/// assert!(turn.prompt.contains("<overlap_context>\n{\"items\": [1, 2\n</overlap_context>"));
///
/// // The model repeats the anchor and continues. Only what is new is an output.
/// session.handle_input(now, Input::Text("{\"items\": [1, 20, 3]}"));
/// session.handle_input(now, Input::CallEnd(CallEnd::Closed));
/// assert!(matches!(session.poll_output(), Some(Output::Event(SessionEvent::Joined { seam, .. })) if seam.path == "/items/1"));
/// assert!(matches!(session.poll_output(), Some(Output::Text(text)) if text == "0, 3]}"));
/// let Some(Output::Event(SessionEvent::Done(outcome))) = session.poll_output() else { panic!() };
/// assert_eq!(outcome.status(), Status::Complete);
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    slot: Slot,
    sections: Sections,
    phase: Phase,
    call: OpenCall,
    tally: Tally,
    spent: Spent,
    streaks: Streaks,
    clock: Clock,
    /// The call that the delivered text ends with.
    last_cut: Option<LastCut>,
    /// Set once a continuation may have added to the text: the client can no longer get the first
    /// answer's own end.
    is_continued: bool,
    /// The operator has ended the answer: no call is made any more.
    is_stopped: bool,
    base: Preceding,
    /// Text of the first answer that the repair had not read at the cut, unrepaired; empty once a
    /// continuation has brought text.
    unread: String,
    outputs: VecDeque<Output>,
}

/// Settings made before the first call.
#[derive(Clone, Debug)]
struct Settings {
    limits: Limits,
    strategy: ContinuationStrategy,
    give_up: GiveUp,
    expect: Expect,
    roots: AllowedRoots,
    /// How much of the answer's text may be changed.
    repair: RepairOptions,
    /// The text is the arguments of a call of this tool.
    tool: Option<Tool>,
    /// The request names stop sequences: `stop` is final.
    trusts_stop: bool,
    /// Nothing is sent before the answer is whole.
    sends_at_end: bool,
    /// How an answer in prose is handled.
    prose: Prose,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The first answer, or the original request again while nothing was delivered.
    First(FirstAnswer),
    /// A call for the rest was requested, or its answer is arriving.
    Continuing(Box<Continuation>),
    /// The same, and the answer is prose.
    ContinuingText(Box<TextContinuation>),
    Done,
}

/// Whether the first answer is read, and may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstAnswer {
    Continuable,
    /// It holds more than one text.
    Passing,
    /// It has left the grammar: no more of its text is read.
    Malformed,
    /// It is prose or has reached a limit: its text is dropped, and no more is read.
    Unread,
}

/// The end of the call that brought the last delivered text, and why the text is cut there.
#[derive(Clone, Debug)]
struct LastCut {
    end: CallEnd,
    cause: Option<CutCause>,
    /// How the answer ends if it is given up: like its first cut, which the client would have read
    /// without a continuation, or like a later, worse one.
    given_up: CallEnd,
}

/// The state of an open call for the rest.
#[derive(Clone, Debug)]
struct Continuation {
    splice: Splice,
    mistakes: Mistakes,
    /// Bytes that were delivered before it.
    delivered: usize,
    /// Bytes that were given out, those of this call included.
    sent: usize,
    /// The seam that was reported.
    reported: Option<Seam>,
    /// The arguments before this call, if its result is checked.
    before: Option<Box<Before>>,
}

/// How mistakes in the text of a call for the rest are handled.
#[derive(Clone, Debug)]
enum Mistakes {
    /// They stay.
    Kept,
    /// They are repaired before the text is joined.
    Repaired(PartRepairer),
    /// They stay. The trial looks for one until some of the text is new; `is_found`: one follows
    /// the repeated text.
    LookedFor { trial: PartRepairer, is_found: bool },
}

/// The arguments before a call for the rest.
#[derive(Clone, Debug)]
struct Before {
    slot: Slot,
    sections: Sections,
}

/// The open or requested call.
#[derive(Clone, Debug, Default)]
struct OpenCall {
    mode: ContinuationMode,
    /// Delivered text that the provider sends back before new text.
    returned_prefill: Option<ReturnedPrefill>,
    /// The call has brought reasoning.
    has_reasoning: bool,
    /// The call before it was all reasoning.
    reduce_reasoning: bool,
    /// The call's text that may name a percentage.
    said: String,
    /// Bytes of its text.
    text_bytes: u64,
    /// It repeats the original request.
    is_repeated: bool,
    /// The model of the call, until it has written text. `None` if its name is unknown.
    model: Option<String>,
}

/// Tokens of answers, for [`max_extra_share`](crate::ContinuationLimits::max_extra_share). A
/// snapshot has none: tokens spent before it are not counted.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Of the first call that brought any.
    first: u64,
    /// Bytes of its text.
    first_bytes: u64,
    /// Of all calls after it.
    extra: u64,
}

/// Counters that last from call to call until a success resets them.
#[derive(Clone, Debug)]
struct Streaks {
    failures: u32,
    /// Whole bodies that were lost.
    lost_bodies: u32,
    no_progress: u32,
    progress: Progress,
    /// At this cut.
    attempts: Attempts,
    /// At this cut, text that was not joined had a mistake after its repeated part: the next call's
    /// text is repaired.
    has_mistake: bool,
    /// At this cut a call was asked to reason less.
    has_reduced: bool,
    /// The JSON Pointer at which the arguments that an answer completed violated their tool's
    /// schema.
    violation: Option<String>,
    /// Set while the upstream is in trouble that the model did not cause.
    trouble: Option<Trouble>,
}

/// Calls in a row that an upstream in trouble did not answer.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// The end of the first of these calls.
    since: Duration,
    calls: u32,
}

/// Moments of `now`.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// The first input.
    started_at: Option<Duration>,
    /// The last input.
    heard_at: Option<Duration>,
    /// The beginning of the open call.
    called_at: Option<Duration>,
    /// The last text or reasoning of the open call.
    text_at: Option<Duration>,
    /// The end of the call before.
    cut_at: Duration,
    /// The end of the first call, while other slots are continued before this one.
    waits_since: Option<Duration>,
    /// Time before the first input, in another process.
    spent_before: Duration,
}

impl Clock {
    /// Returns the time since the first input.
    fn spent(&self, now: Duration) -> Duration {
        self.spent_before
            + self
                .started_at
                .map_or(Duration::ZERO, |started| now.saturating_sub(started))
    }
}

impl Session {
    /// Returns a session whose first call is about to be made.
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Expect::Anchor, AllowedRoots::Containers)
    }

    /// Returns a session with another expectation of its continuations, or other roots.
    pub fn with(limits: Limits, expect: Expect, roots: AllowedRoots) -> Self {
        let progress = Progress::new(limits.continuation.max_stalled_reports);
        Self {
            slot: Slot::with_roots(&limits, roots),
            sections: Sections::new(SECTIONS),
            settings: Settings {
                limits,
                strategy: ContinuationStrategy::default(),
                give_up: GiveUp::default(),
                expect,
                roots,
                repair: RepairLevel::Strict.into(),
                tool: None,
                trusts_stop: false,
                sends_at_end: false,
                prose: Prose::default(),
            },
            phase: Phase::First(FirstAnswer::Continuable),
            call: OpenCall::default(),
            tally: Tally {
                tokens: vec![None],
                ..Tally::default()
            },
            spent: Spent::default(),
            streaks: Streaks {
                failures: 0,
                lost_bodies: 0,
                no_progress: 0,
                progress,
                attempts: Attempts::default(),
                has_mistake: false,
                has_reduced: false,
                violation: None,
                trouble: None,
            },
            clock: Clock::default(),
            last_cut: None,
            is_continued: false,
            is_stopped: false,
            base: Preceding::default(),
            unread: String::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Sets the strategy of continuation requests, from the next call on.
    pub fn set_strategy(&mut self, strategy: ContinuationStrategy) {
        self.settings.strategy = strategy;
    }

    /// Sets how an answer ends when its rest can't be obtained.
    pub fn set_give_up(&mut self, give_up: GiveUp) {
        self.settings.give_up = give_up;
    }

    /// Believes a `stop`: the request names stop sequences, so an answer that ends so is not
    /// continued.
    pub fn trust_stop(&mut self) {
        self.settings.trusts_stop = true;
    }

    /// Lets the first answer pass through unchanged: it holds more than one text (tool calls,
    /// several choices).
    pub fn pass(&mut self) {
        if matches!(self.phase, Phase::First(FirstAnswer::Continuable)) {
            self.release_first();
            self.phase = Phase::First(FirstAnswer::Passing);
        }
    }

    /// Stops reading the first answer and drops its text; the answer passes through. `limit`: the
    /// limit that it has reached.
    pub(super) fn stop_reading(&mut self, limit: Option<LimitReached>) {
        if self.is_first() && !self.is_unread() {
            self.release_first();
            self.phase = Phase::First(FirstAnswer::Unread);
            self.base = Preceding::default();
            self.begin();
            self.tally.limit = self.tally.limit.take().or(limit);
        }
    }

    /// Returns whether the text of the first answer is not kept.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.phase, Phase::First(FirstAnswer::Unread))
    }

    /// Ends the answer on the operator's wish: when the open call ends, no other is made.
    #[doc(hidden)]
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns the current document: its base, if the answer continues a prefill of the request,
    /// and all text that was given out.
    pub fn document(&self) -> &Document {
        self.slot.document()
    }

    /// Returns whether no continuation was requested yet: the open call's text is forwarded
    /// directly.
    pub fn is_first(&self) -> bool {
        matches!(self.phase, Phase::First(_))
    }

    /// Returns whether the first answer passes through unchanged.
    pub fn is_passing(&self) -> bool {
        matches!(
            self.phase,
            Phase::First(FirstAnswer::Passing | FirstAnswer::Malformed | FirstAnswer::Unread)
        ) || self.is_undecided()
    }

    /// Returns the number of further calls.
    pub fn calls(&self) -> u32 {
        self.tally.continuations
    }

    /// Returns whether the session is done.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Returns whether the first answer, if it ended like this now, would be continued or repeated.
    pub fn would_continue(&self, end: &CallEnd) -> bool {
        let document = self.slot.document();
        if self.is_passing() || document.is_complete() {
            return false;
        }
        let is_blank = self.is_blank();
        let is_json = document.is_json() && !(is_blank && self.base_len() > 0);
        match end {
            _ if is_blank && self.is_tool_call() => self.lacks_arguments(end),
            CallEnd::Finished(Finish::Length) if self.is_all_reasoning() => true,
            CallEnd::Finished(reason) => {
                is_json && self.continues_after(reason) && !self.is_malformed_at(end)
            }
            _ => is_json || is_blank || self.continues_prose(end),
        }
    }

    /// Returns whether the text has the most bytes that are kept.
    pub(super) fn is_full(&self) -> bool {
        self.slot.document().text().len() >= self.settings.limits.parser.max_text_bytes
    }

    /// Takes an event.
    pub fn handle_input(&mut self, now: Duration, input: Input<'_>) {
        self.clock.heard_at = Some(now);
        self.clock.started_at.get_or_insert(now);
        self.clock.called_at.get_or_insert(now);
        if matches!(input, Input::Reasoning)
            || matches!(input, Input::Text(text) if !text.is_empty())
        {
            self.clock.text_at = Some(now);
            self.streaks.trouble = None;
        }
        match input {
            Input::Activity => {}
            Input::Tokens(tokens) => self
                .tally
                .tokens
                .last_mut()
                .into_iter()
                .for_each(|last| *last = Some(tokens)),
            Input::Reasoning => self.call.has_reasoning = true,
            Input::Text(text) => {
                self.call.text_bytes = self.call.text_bytes.saturating_add(text.len() as u64);
                self.text(now, text);
            }
            Input::CallEnd(end) => self.end(now, &end),
        }
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Records an upstream that replaces the first one.
    #[doc(hidden)]
    pub fn note_upstream(&mut self, upstream: &str) {
        self.tally.upstreams.push(upstream.to_owned());
    }

    /// Records the model of the request.
    #[doc(hidden)]
    pub fn note_model(&mut self, model: &str) {
        self.call.model = Some(model.to_owned());
    }

    /// The model that is asked has written text of the answer.
    #[inline]
    pub(super) fn note_writer(&mut self) {
        if self.call.model.is_some() {
            self.add_writer();
        }
    }

    // Once for each call: the texts that follow do without the frame of this function.
    #[cold]
    fn add_writer(&mut self) {
        let written = self
            .call
            .model
            .take()
            .filter(|model| self.tally.models.last() != Some(model));
        self.tally.models.extend(written);
    }

    /// Returns the tally of the calls so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the limits.
    pub(super) fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Returns whether the open call has brought only reasoning, and another call could reason
    /// less.
    fn is_all_reasoning(&self) -> bool {
        let is_blank = match &self.phase {
            Phase::First(_) => self.is_blank(),
            Phase::Continuing(open) => open.splice.pending() == 0 && open.splice.seam().is_none(),
            Phase::ContinuingText(open) => open.is_blank(),
            Phase::Done => false,
        };
        let can_be_reduced = self.settings.strategy.reduce_reasoning && !self.streaks.has_reduced;
        can_be_reduced && self.call.has_reasoning && is_blank
    }

    fn continues_after(&self, reason: &Finish) -> bool {
        match reason {
            _ if self.is_tool_call() => self.cuts_arguments(reason),
            Finish::Length => true,
            Finish::Stop => !self.settings.trusts_stop,
            reason => reason.is_unknown(),
        }
    }
}

/// Sections that are remembered besides the newest: a summary shows no more.
const SECTIONS: usize = 16;
