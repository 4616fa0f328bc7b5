//! The record of one answer: its calls, how each ended, and the outcome.
//!
//! A relay reports an answer as a series of outputs. [`AnswerRecord::note`] alone decides which call
//! an output is about, and whether a cut is a new one. The proxy's log, metrics, spans and page, and
//! the report of `restitch run`, are functions of the record and of its newest [`Change`].
//!
//! Not part of the public API: the record is folded from the outputs of a relay, which are not
//! public either. Library users get an answer's [`Outcome`] with its [`CallStats`](super::CallStats), and
//! each [`SessionEvent`].

use std::time::Duration;

use super::relay::{Output, TransportEnd};
use super::{
    CallEnd, CutCause, FailureReason, HopEnd, Outcome, Request, Resume, Rung, SessionEvent, Status,
};
use crate::provider::wire::SlotKind;
use crate::provider::{Dialect, answer_tokens, usage};
use crate::splice::Seam;

/// The reported part of an answer.
#[derive(Clone, Debug, Default)]
pub struct AnswerRecord {
    /// The client's request; `None` while it has not been read.
    pub request: Option<RequestInfo>,
    /// The calls, in the order in which they were requested.
    pub calls: Vec<CallRecord>,
    /// The cuts, in their order: of each slot its first cut, and those of calls that brought text.
    pub cuts: Vec<CountedCut>,
    /// The number of failures; see [`SessionEvent::Failed`].
    pub failures: u32,
    /// The bytes of the document at the newest cut.
    pub offset: usize,
    /// The share of the document that the model reported last, in hundredths.
    pub percentage: Option<u8>,
    /// The bytes of the document before it was closed, if it was given up.
    pub given_up_at: Option<usize>,
    /// How the answer ended; `None` until then.
    pub outcome: Option<Outcome>,
    /// The content of the slot that ended worst: the outcome is that slot's.
    pub slot: Option<SlotKind>,
}

/// The request of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The API.
    pub dialect: Dialect,
    /// The model's name in the request, or the beginning of a long one.
    pub model: String,
    /// Whether the request asks for a stream.
    pub is_stream: bool,
}

/// One call to an upstream.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The call's number in its session; the first one is 0. A call that is repeated, because it
    /// was refused or the upstream has no room, keeps its number.
    pub number: u32,
    /// How the call is made.
    pub kind: CallKind,
    /// The bytes of the document at the newest cut before it.
    pub offset: usize,
    stage: CallStage,
    /// The status of its response.
    pub status: Option<u16>,
    /// The name of the error that ended it.
    pub error: Option<&'static str>,
    /// How its text was cut.
    pub cut: Option<CutRecord>,
    /// How its text was joined.
    pub seam: Option<SeamRecord>,
    /// Why it brought nothing that the answer kept.
    pub failure: Option<FailureRecord>,
    /// The tokens that the upstream reported for it.
    pub usage: Option<UsageRecord>,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    /// The session has requested it. Some calls are never made: another upstream takes over, or the
    /// answer is stopped.
    Requested,
    Open,
    Over,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// The first call of an answer.
    First,
    /// The original request again, since nothing of an answer was delivered.
    Original,
    /// A call for the rest, by this rung.
    Rest(Rung),
}

/// A cut that does not repeat an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCut {
    /// The index of the call in [`AnswerRecord::calls`].
    pub call: usize,
    /// Why the call was cut. `None`: its end has no cause with a name.
    pub cause: Option<CutCause>,
}

/// The cut at the end of a call.
#[derive(Clone, Debug)]
pub struct CutRecord {
    /// How the call ended.
    pub end: CallEnd,
    /// The bytes of the document.
    pub offset: usize,
    /// The bytes that the call added.
    pub added: usize,
    /// The time from the last text or reasoning of the call to its end.
    pub quiet: Duration,
    /// JSON Pointer of the cut.
    pub path: String,
}

/// The join of a call's text.
#[derive(Clone, Debug)]
pub struct SeamRecord {
    /// The offset, and how the text was joined.
    pub seam: Seam,
    /// The time from the end of the call before it to the first certain text.
    pub elapsed: Duration,
}

/// The failure of a call.
#[derive(Clone, Debug)]
pub struct FailureRecord {
    /// Why the call failed.
    pub reason: FailureReason,
    /// Whether it counts as a failure of the loop. Trouble of the upstream does not: the session
    /// repeats the call later.
    pub counts: bool,
}

/// The tokens of a call. `None`: the upstream has not reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// Tokens of the request.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
}

/// The newest change of a record. The numbers are indices of [`AnswerRecord::calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A call was cut. A call that brought no text repeats an earlier cut.
    Cut(usize),
    /// The text of a call was joined.
    Joined(usize),
    /// A call failed, whether or not that counts.
    Failed(usize),
    /// Another step of the loop was reported about a call.
    Step(usize),
    /// The upstream has reported the tokens of a call.
    Used(usize),
    /// The session has requested the next call, so the call before it is over.
    Requested,
    /// The answer has ended.
    Ended,
}

impl Change {
    /// Returns the index of the call that it is about.
    pub fn call(self) -> Option<usize> {
        match self {
            Self::Cut(call)
            | Self::Joined(call)
            | Self::Failed(call)
            | Self::Step(call)
            | Self::Used(call) => Some(call),
            Self::Requested | Self::Ended => None,
        }
    }
}

impl CallKind {
    /// Returns how the session has a call made.
    pub fn of(request: &Request) -> Self {
        match (&request.resume, &request.turn) {
            (Some(resume), _) => Self::Rest(resume.rung()),
            (None, Some(turn)) => Self::Rest(turn.mode.rung()),
            (None, None) => Self::Original,
        }
    }

    /// Returns whether the call's tokens are those of the first call: reattaching generates no new
    /// ones, and a token continues where the first call has ended.
    pub fn keeps_tokens(self) -> bool {
        matches!(self, Self::First | Self::Rest(Rung::Reattach | Rung::Token))
    }

    /// Returns whether the call asks for the rest of an answer.
    pub fn is_for_rest(self) -> bool {
        matches!(self, Self::Rest(_)) && !self.keeps_tokens()
    }

    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Original => "original",
            Self::Rest(rung) => rung.as_str(),
        }
    }
}

impl CallRecord {
    fn new(number: u32, kind: CallKind, offset: usize) -> Self {
        Self {
            number,
            kind,
            offset,
            stage: CallStage::Requested,
            status: None,
            error: None,
            cut: None,
            seam: None,
            failure: None,
            usage: None,
        }
    }

    /// Returns whether it was made.
    pub fn is_made(&self) -> bool {
        self.stage != CallStage::Requested
    }

    /// Returns whether the upstream has answered the call: with 200.
    pub fn is_answered(&self) -> bool {
        self.status == Some(200)
    }

    /// Notes the error that ends the call, unless an earlier one has ended it.
    fn end_with(&mut self, error: Option<&'static str>) {
        self.error = self.error.or(error);
    }
}

impl AnswerRecord {
    /// Notes that a call is made, and returns its index: the call that the session has requested
    /// last; or, if that was made before, the same once more, because the upstream refused a member
    /// of the request.
    pub fn begin_call(&mut self, kind: CallKind) -> usize {
        self.end_call(None);
        let requested = self.calls.pop_if(|call| !call.is_made());
        let call = requested.as_ref().or(self.calls.last());
        let (number, offset) = call.map_or((0, 0), |call| (call.number, call.offset));
        self.calls.push(CallRecord {
            stage: CallStage::Open,
            ..CallRecord::new(number, kind, offset)
        });
        self.calls.len() - 1
    }

    /// Notes the status of the open call's response, or the error in its place.
    pub fn note_head(&mut self, head: Result<u16, &'static str>) {
        let Some(call) = self.open_call() else { return };
        match head {
            Ok(status) => call.status = Some(status),
            Err(error) => call.error = Some(error),
        }
    }

    /// Notes that the open call ends with an error, unless an earlier one has ended it.
    pub fn note_error(&mut self, error: &'static str) {
        if let Some(call) = self.open_call() {
            call.end_with(Some(error));
        }
    }

    /// Notes that the open call is over, and the error that has ended it.
    pub fn end_call(&mut self, error: Option<&'static str>) {
        if let Some(call) = self.open_call() {
            call.end_with(error);
            call.stage = CallStage::Over;
        }
    }

    /// Forgets why calls failed: reasons may quote long texts of the upstream.
    pub fn forget_reasons(&mut self) {
        self.calls.iter_mut().for_each(|call| call.failure = None);
    }

    /// Notes an output of the answer, in the order of the outputs. Returns the change; `None` if
    /// there is none.
    pub fn note(&mut self, output: &Output) -> Option<Change> {
        if self.calls.is_empty() {
            // Another process has made the first call of an answer that is resumed.
            self.calls.push(CallRecord::new(0, CallKind::First, 0));
        }
        match output {
            Output::Bytes(_) => None,
            Output::Event(event) => self.note_event(event),
            Output::Usage(raw) => {
                let usage = UsageRecord {
                    input: usage::prompt_tokens(raw),
                    output: answer_tokens(raw),
                };
                Some(Change::Used(
                    self.change(self.last(), |call| call.usage = Some(usage)),
                ))
            }
            Output::Call { request, .. } => {
                self.request_call(request);
                Some(Change::Requested)
            }
            Output::Done {
                outcome,
                slot,
                transport_end,
            } => {
                self.end_call(error_of_unread(outcome, *transport_end));
                (self.outcome, self.slot) = (Some(outcome.clone()), Some(*slot));
                Some(Change::Ended)
            }
        }
    }

    fn note_event(&mut self, event: &SessionEvent) -> Option<Change> {
        Some(match event {
            SessionEvent::Cut {
                call: number,
                end,
                offset,
                added,
                quiet,
                path,
            } => {
                // A call for the rest that brings nothing is cut where the text was cut before.
                let is_new = *added > 0 || *number == 0;
                self.offset = *offset;
                let call = self.change(self.call_of(*number), |call| {
                    call.end_with(error_of(end));
                    call.cut = Some(CutRecord {
                        end: end.clone(),
                        offset: *offset,
                        added: *added,
                        quiet: *quiet,
                        path: path.clone(),
                    });
                });
                let cause = end.cause();
                self.cuts
                    .extend(is_new.then_some(CountedCut { call, cause }));
                Change::Cut(call)
            }
            SessionEvent::Joined {
                call: number,
                seam,
                elapsed,
                ..
            } => {
                let seam = SeamRecord {
                    seam: seam.clone(),
                    elapsed: *elapsed,
                };
                Change::Joined(self.change(self.call_of(*number), |call| call.seam = Some(seam)))
            }
            SessionEvent::Failed {
                call: number,
                reason,
                ..
            } => {
                self.failures = self.failures.saturating_add(1);
                self.fail(*number, reason, true)
            }
            SessionEvent::Waiting {
                call: number,
                reason,
                ..
            }
            | SessionEvent::Discarded {
                call: number,
                reason,
            } => self.fail(*number, reason, false),
            SessionEvent::Repaired { call: number, .. } => Change::Step(self.call_of(*number)),
            SessionEvent::Progress {
                call: number,
                percentage,
                ..
            } => {
                self.percentage = Some(*percentage);
                Change::Step(self.call_of(*number))
            }
            SessionEvent::Fallback { offset, .. } => {
                self.given_up_at = Some(*offset);
                return None;
            }
            SessionEvent::Requested { .. } | SessionEvent::Done(_) => return None,
        })
    }

    fn fail(&mut self, number: u32, reason: &FailureReason, counts: bool) -> Change {
        Change::Failed(self.change(self.call_of(number), |call| {
            if let FailureReason::Nothing(end) = reason {
                call.end_with(error_of(end));
            }
            call.failure = Some(FailureRecord {
                reason: reason.clone(),
                counts,
            });
        }))
    }

    /// Changes the call with this index, and returns the index.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut CallRecord)) -> usize {
        if let Some(call) = self.calls.get_mut(at) {
            change(call);
        }
        at
    }

    /// Adds the call that the session requests.
    fn request_call(&mut self, request: &Request) {
        // Reattaching reports no cut, so the lost connection is noted here.
        let is_lost = match &request.resume {
            Some(Resume::Token { after, .. }) => *after == HopEnd::Lost,
            resume => resume.is_some(),
        };
        if is_lost && let Some(call) = self.open_call() {
            call.error = Some("lost");
        }
        self.end_call(None);
        // A call that was not made is requested again: another upstream gets it, or it is asked in
        // words.
        self.calls.pop_if(|call| {
            !call.is_made() && call.number >= request.number && call.failure.is_none()
        });
        self.calls.push(CallRecord::new(
            request.number,
            CallKind::of(request),
            self.offset,
        ));
    }

    /// Returns the index of the call that a step is about. Each slot has a session, which numbers
    /// its calls from 0, and the slots are continued in turn. So a step with the number 0 is about
    /// the call that all slots began with, whenever the step is reported; any other step is about
    /// the newest call.
    fn call_of(&self, number: u32) -> usize {
        if number > 0 {
            return self.last();
        }
        self.calls
            .iter()
            .rposition(|call| call.is_made() && !call.kind.is_for_rest())
            .unwrap_or_default()
    }

    fn last(&self) -> usize {
        self.calls.len().saturating_sub(1)
    }

    /// Returns the call that was made and is not over.
    fn open_call(&mut self) -> Option<&mut CallRecord> {
        self.calls
            .last_mut()
            .filter(|call| call.stage == CallStage::Open)
    }

    /// Returns the number of calls that were made.
    pub fn made(&self) -> u32 {
        self.made_to(self.calls.len())
    }

    /// Returns the number of a call among those that were made, from 0. A call that was not made
    /// has the number of the one before it.
    pub fn number(&self, call: usize) -> u32 {
        self.made_to(call.saturating_add(1)).saturating_sub(1)
    }

    fn made_to(&self, end: usize) -> u32 {
        let made = self.calls.iter().take(end).filter(|call| call.is_made());
        u32::try_from(made.count()).unwrap_or(u32::MAX)
    }

    /// Returns the number of joined calls.
    pub fn seams(&self) -> usize {
        let joined = self.calls.iter().filter(|call| call.seam.is_some());
        joined.count()
    }

    /// Returns the sum of the reported tokens: of the first call and its reattachments, or of the
    /// other calls. `None`: the upstream has reported no tokens.
    pub fn tokens(&self, keeps_tokens: bool) -> Option<u64> {
        self.calls
            .iter()
            .filter(|call| call.kind.keeps_tokens() == keeps_tokens)
            .filter_map(|call| call.usage?.output)
            .reduce(u64::saturating_add)
    }
}

/// Returns the name of the error with which a call ended. A token limit and the model's own stop
/// don't count as errors.
fn error_of(end: &CallEnd) -> Option<&'static str> {
    end.cause()
        .filter(|cause| !matches!(cause, CutCause::Length | CutCause::PrematureStop))
        .map(CutCause::as_str)
}

/// Returns the error of an open call whose answer passed unread and was lost: such an answer
/// reports no cut.
fn error_of_unread(outcome: &Outcome, transport_end: TransportEnd) -> Option<&'static str> {
    if outcome.status() != Status::PassedThrough || transport_end != TransportEnd::Dropped {
        return None;
    }
    let limit = outcome.tally().limit.as_ref();
    let is_silence = limit.is_some_and(|limit| {
        matches!(
            limit.name.as_str(),
            "idle_timeout" | "first_byte_timeout" | "text_timeout"
        )
    });
    let cause = if is_silence {
        CutCause::Idle
    } else {
        CutCause::Drop
    };
    Some(cause.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(call: u32, added: usize) -> Output {
        Output::Event(SessionEvent::Cut {
            call,
            end: CallEnd::Dropped,
            offset: 7,
            added,
            quiet: Duration::ZERO,
            path: String::new(),
        })
    }

    fn waiting(call: u32) -> Output {
        Output::Event(SessionEvent::Waiting {
            call,
            reason: FailureReason::Nothing(CallEnd::Dropped),
            at: Duration::ZERO,
        })
    }

    fn request(number: u32) -> Output {
        Output::Call {
            request: Request {
                number,
                turn: None,
                reduce_reasoning: false,
                resume: None,
            },
            at: Duration::ZERO,
        }
    }

    /// The slots are continued in turn, so the end of the first call is reported for a later slot
    /// while the call for the rest of an earlier one is open.
    #[test]
    fn what_ends_a_later_slot_is_about_the_first_call() {
        let mut record = AnswerRecord::default();
        assert_eq!(record.begin_call(CallKind::First), 0);
        assert_eq!(record.note(&cut(0, 3)), Some(Change::Cut(0)));
        assert_eq!(record.note(&request(1)), Some(Change::Requested));
        assert_eq!(record.begin_call(CallKind::Rest(Rung::Words)), 1);
        record.note_head(Ok(200));
        assert_eq!(record.note(&cut(0, 0)), Some(Change::Cut(0)));
        assert_eq!(record.note(&waiting(0)), Some(Change::Failed(0)));
        assert!(record.calls[1].failure.is_none() && record.calls[1].cut.is_none());
        assert_eq!(record.calls[1].error, None);
        assert_eq!(record.note(&cut(1, 0)), Some(Change::Cut(1)));
        assert_eq!(record.cuts.len(), 2);
    }

    #[test]
    fn a_repeated_call_keeps_its_number() {
        let mut record = AnswerRecord::default();
        record.begin_call(CallKind::First);
        record.note(&cut(0, 7));
        record.note(&request(1));
        // Not made: another upstream takes over, and the session requests the call again.
        record.note(&request(1));
        assert_eq!((record.calls.len(), record.made()), (2, 1));
        // Made twice, since the upstream refused a member of the request.
        record.begin_call(CallKind::Rest(Rung::Words));
        record.begin_call(CallKind::Rest(Rung::Words));
        let numbers = record.calls.iter().map(|call| (call.number, call.offset));
        assert_eq!(numbers.collect::<Vec<_>>(), [(0, 0), (1, 7), (1, 7)]);
        assert_eq!((record.made(), record.number(2)), (3, 2));
        assert_eq!(record.calls[1].stage, CallStage::Over);
        assert_ne!(record.calls[2].stage, CallStage::Over);
    }

    #[test]
    fn the_first_call_of_a_resumed_answer_was_made_elsewhere() {
        let mut record = AnswerRecord::default();
        record.note(&Output::Usage("{\"completion_tokens\": 5}".to_owned()));
        record.note(&cut(0, 7));
        record.note(&request(1));
        record.begin_call(CallKind::Rest(Rung::Words));
        assert_eq!((record.calls.len(), record.made()), (2, 1));
        assert_eq!((record.tokens(true), record.tokens(false)), (Some(5), None));
        assert_eq!(record.note(&waiting(1)), Some(Change::Failed(1)));
        assert_eq!((record.number(0), record.number(1)), (0, 0));
    }
}
