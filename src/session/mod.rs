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

mod answer_options;
mod answer_text;
pub(crate) mod body;
mod channel;
mod choice_ends;
mod clock;
mod continuation;
mod cut_value;
mod decisions;
mod ellipsis;
mod event;
mod event_summary;
mod exchange;
mod first_answer;
mod further_calls;
mod give_up;
mod io;
mod journal;
mod open_call;
mod outcome;
mod part_repair;
mod prefill_base;
pub(crate) mod prompt;
mod prose;
pub(crate) mod question;
pub(crate) mod record;
pub(crate) mod relay;
mod repeated_calls;
mod repeated_text;
mod request;
pub(crate) mod rest_call;
mod retry;
mod returned_prefill;
mod rung;
mod settings;
mod slot_list;
mod slots;
mod snapshot;
mod stitch;
mod tags;
mod template;
pub(crate) mod text;
mod wire;

use std::time::Duration;

use channel::AnswerChannel;
use clock::SilenceDeadline;
use decisions::{Decisions, NextStep};
pub use event::SessionEvent;
pub use exchange::{Exchange, ExchangeCall, ExchangeOutput, ResponseHead};
use first_answer::{FirstAnswer, FirstReading};
pub use give_up::GiveUp;
#[doc(hidden)]
pub use give_up::GiveUpError;
#[doc(hidden)]
pub use io::FailureReason;
#[doc(hidden)]
pub use io::Redirect;
pub use io::{CallEnd, Input, Output};
use open_call::{CallPhase, OpenCall};
pub use outcome::{CallStats, Outcome, Status, StopReason};
#[doc(hidden)]
pub use outcome::{CutCause, LimitReached};
#[doc(hidden)]
pub use prompt::{MarkUse, Prompt};
pub(crate) use prompt::{Parts, QuestionParts};
#[doc(hidden)]
pub use prose::Prose;
#[doc(hidden)]
pub use request::{ContinuationMode, ContinuationStrategy, PrefillOptions};
#[doc(hidden)]
pub use request::{HopEnd, Resume};
pub use request::{Request, Turn};
#[doc(hidden)]
pub use retry::below;
pub use retry::{Message, Retry};
#[doc(hidden)]
pub use rung::{Rung, Rungs};
use settings::Content;
pub use snapshot::{RestoreError, Snapshot};
#[doc(hidden)]
pub use stitch::{Explanation, FailedPart, Rewind, StitchOptions, Stitched, stitch, stitch_with};
#[doc(hidden)]
pub use template::TemplateError;
pub use wire::TransportEnd;

use crate::context::Progress;
use crate::document::Document;
use crate::envelope::AllowedRoots;
use crate::json::repair::RepairOptions;
use crate::limits::Limits;
use crate::splice::Expect;

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
    channel: AnswerChannel,
    call: OpenCall,
    decisions: Decisions,
}

impl Session {
    /// Returns a session whose first call is about to be made.
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Expect::Anchor, AllowedRoots::Containers)
    }

    /// Returns a session with another expectation of its continuations, or other roots.
    #[doc(hidden)]
    pub fn with(limits: Limits, expect: Expect, roots: AllowedRoots) -> Self {
        let progress = Progress::new(limits.continuation.max_stalled_reports);
        Self {
            channel: AnswerChannel::new(limits, expect, roots),
            call: OpenCall::new(CallPhase::First(FirstAnswer::Continuable)),
            decisions: Decisions::new(progress),
        }
    }

    /// Sets the strategy of continuation requests, from the next call on.
    #[doc(hidden)]
    pub fn set_strategy(&mut self, strategy: ContinuationStrategy) {
        self.channel.settings.set_strategy(strategy);
    }

    /// Sets how an answer ends when its rest can't be obtained.
    pub fn set_give_up(&mut self, give_up: GiveUp) {
        self.channel.settings.give_up = give_up;
    }

    /// Sets how an answer in prose is handled. Default: it passes unchanged.
    ///
    /// Prose counts as cut only after a lost or silent connection, an error in the stream, or a
    /// stream without a finish reason. An answer that ended by its limit on tokens is whole for its
    /// reader: no bracket is open in it.
    #[doc(hidden)]
    pub fn set_prose(&mut self, prose: Prose) {
        self.channel.settings.prose = prose;
    }

    /// Sets how much of the text inside the root may be changed. Default: nothing
    /// ([`Strict`](crate::repair::RepairLevel::Strict)). Has no effect after the first text. The
    /// caps are those of the session's limits.
    ///
    /// At any level but `strict` all text of the first answer is an [`Output::Text`], too, since it
    /// can differ from the input, and some of it comes later. Text that can't be repaired comes out
    /// unchanged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use restitch::Limits;
    /// use restitch::repair::RepairLevel;
    /// use restitch::session::{CallEnd, Input, Output, Session, Status};
    ///
    /// let now = Duration::ZERO;
    /// let mut session = Session::new(Limits::default());
    /// session.set_repair(RepairLevel::Syntax);
    /// session.handle_input(now, Input::Text("{'a': [1, 2,], "));
    /// session.handle_input(now, Input::Text("'b': True}"));
    /// session.handle_input(now, Input::CallEnd(CallEnd::Closed));
    /// let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    /// let text = outputs.iter().filter_map(|output| if let Output::Text(text) = output { Some(&**text) } else { None });
    /// assert_eq!(text.collect::<String>(), "{\"a\": [1, 2], \"b\": true}");
    /// let Some(Output::Done(outcome)) = outputs.last() else { panic!() };
    /// assert_eq!((outcome.status(), outcome.tally().repairs["extra_comma"]), (Status::Complete, 1));
    /// ```
    pub fn set_repair(&mut self, options: impl Into<RepairOptions>) {
        if self.channel.text.answer().is_empty()
            && let Some(mut first) = FirstReading::of(self)
        {
            first.set_repair(options.into());
        }
    }

    /// Sets the JSON Schema that the request has for the answer, as text. A continued answer is
    /// complete only if it has the members and elements that the schema requires
    /// ([`StopReason::Schema`]); `type` and `enum` are judged, too, and reported. A text that is
    /// not a schema has no requirements.
    ///
    /// ```
    /// use std::time::Duration;
    /// use restitch::Limits;
    /// use restitch::session::{CallEnd, Input, Output, Session};
    ///
    /// let now = Duration::ZERO;
    /// let mut session = Session::new(Limits::default());
    /// session.set_schema(r#"{"properties": {"rows": {"minItems": 3}}}"#);
    /// session.handle_input(now, Input::Text(r#"{"rows": [1, 2"#));
    /// session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
    /// session.handle_input(now, Input::Text(r#"{"rows": [1, 25]}"#));
    /// session.handle_input(now, Input::CallEnd(CallEnd::Closed));
    /// let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    /// // The brackets are not given out: a third row is due.
    /// assert_eq!(session.document().text(), r#"{"rows": [1, 25"#);
    /// let Some(Output::Call { request, .. }) = outputs.last() else { panic!() };
    /// let prompt = &request.turn.as_ref().unwrap().prompt;
    /// assert!(prompt.contains("the array at `/rows` has 2 of at least 3 elements"), "{prompt}");
    /// ```
    pub fn set_schema(&mut self, schema: &str) {
        self.channel.settings.content = Content::Text {
            schema: Some(schema.into()),
        };
    }

    /// Believes a `stop`: the request names stop sequences, so an answer that ends so is not
    /// continued.
    pub fn trust_stop(&mut self) {
        self.channel.settings.trusts_stop = true;
    }

    /// Lets the first answer pass through unchanged: it holds more than one text (tool calls,
    /// several choices).
    pub fn pass(&mut self) {
        if let Some(mut first) = FirstReading::of(self) {
            first.pass();
        }
    }

    /// Returns the current document: its base, if the answer continues a prefill of the request,
    /// and all text that was given out. While a call is open that has closed a container too early
    /// for the request's schema, also that bracket and the text after it, which are not given out.
    pub fn document(&self) -> &Document {
        self.channel.document()
    }

    /// Returns whether no continuation was requested yet: the open call's text is forwarded
    /// directly.
    pub fn is_first(&self) -> bool {
        self.call.is_first()
    }

    /// Returns whether the first answer passes through unchanged.
    pub fn is_passing(&self) -> bool {
        self.call.is_passing(&self.channel)
    }

    /// Returns whether the session is done.
    pub fn is_done(&self) -> bool {
        self.call.is_done()
    }

    /// Returns whether text may be changed, so that the text of the first answer is an output, too.
    pub(crate) fn repairs_text(&self) -> bool {
        self.channel.settings.repairs_text()
    }

    /// Returns whether the first answer, if it ended like this now, would be continued or repeated.
    pub fn would_continue(&self, end: &CallEnd) -> bool {
        self.call
            .would_continue(&self.channel, &self.decisions, end)
    }

    /// Takes an event.
    pub fn handle_input(&mut self, now: Duration, input: Input<'_>) {
        let is_text = match input {
            Input::Text(text) => !text.is_empty(),
            Input::Reasoning => true,
            _ => false,
        };
        self.decisions.hear(now, is_text);
        match input {
            Input::Activity => {}
            Input::Tokens(tokens) => self.channel.journal.note_tokens(tokens),
            Input::Reasoning => self.call.has_reasoning = true,
            Input::Text(text) => self.call.text(&mut self.channel, now, text),
            Input::CallEnd(end) => {
                let next = self
                    .call
                    .end(&mut self.channel, &mut self.decisions, now, &end);
                if let Some(next) = next {
                    self.follow(now, next);
                }
            }
        }
    }

    /// Takes the next step: asks for the next call, unless a cap is reached, or ends the answer.
    fn follow(&mut self, now: Duration, next: NextStep) {
        let (reason, finish) = match next {
            NextStep::Call(wait) => {
                let at = now.saturating_add(wait);
                match self.decisions.cap(&self.channel, at) {
                    Some(reason) => (reason, None),
                    None => match OpenCall::request(&mut self.channel, &mut self.decisions, at) {
                        Ok(call) => {
                            self.call = call;
                            return;
                        }
                        Err(reason) => (reason, None),
                    },
                }
            }
            NextStep::GiveUp(reason, finish) => (reason, finish),
            NextStep::Done(outcome) => {
                self.call.phase = CallPhase::Done;
                return self.channel.end(*outcome);
            }
        };
        let cut = self.decisions.last_cut();
        let outcome = self.channel.give_up(reason, finish, cut);
        self.follow(now, NextStep::Done(Box::new(outcome)));
    }

    /// Ends the session if the first answer's document is whole, and only the rest of its stream
    /// was lost. Returns whether it did.
    pub(crate) fn end_if_whole(&mut self, now: Duration, end: &CallEnd) -> bool {
        let Some(mut first) = FirstReading::of(self).filter(FirstReading::is_whole) else {
            return false;
        };
        first.release();
        let outcome = first.outcome(Some(end), true);
        self.follow(now, NextStep::Done(Box::new(outcome)));
        true
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.channel.journal.poll()
    }

    /// Returns when the open call counts as silent, unless input arrives, or has taken too long:
    /// then [`timed_out`](Self::timed_out) is how it has ended. `opened`: the call has answered.
    /// `None` if silence does not matter.
    pub fn poll_timeout(&self, opened: bool) -> Option<Duration> {
        SilenceDeadline::of(self, opened).map(|silence| silence.at)
    }

    /// Returns how the open call has ended when the time of [`poll_timeout`](Self::poll_timeout) is
    /// over: as [`CallEnd::TimedOut`], with the limit that it has reached.
    pub fn timed_out(&self, opened: bool) -> CallEnd {
        SilenceDeadline::of(self, opened).map_or(CallEnd::Dropped, SilenceDeadline::end)
    }

    /// Returns the tally of the calls so far.
    pub fn tally(&self) -> &CallStats {
        &self.channel.journal.stats
    }
}
