//! The step after a call: a further call, the end of the loop, or the end of the answer.

use std::time::Duration;

use super::channel::AnswerChannel;
use super::clock::CallClock;
use super::journal::Journal;
use super::question::Attempts;
use super::{CallEnd, CutCause, FailureReason, Outcome, SessionEvent, StopReason};
use crate::context::{self, Progress};
use crate::provider::Finish;
use crate::provider::capability::too_long;
use crate::schema::Shortfall;
use crate::splice::{Seam, SpliceError};

/// The step after a call.
pub(super) enum NextStep {
    /// Ask for the rest after this time.
    Call(Duration),
    /// Give the rest up. The finish reason ended the loop, if a call gave one.
    GiveUp(StopReason, Option<Finish>),
    /// The answer is over.
    Done(Box<Outcome>),
}

/// The decisions of a session, with the counts and times that they depend on.
#[derive(Clone, Debug)]
pub(super) struct Decisions {
    pub(super) counters: RetryCounters,
    pub(super) clock: CallClock,
    /// The call that the delivered text ends with.
    last_cut: Option<LastCut>,
    /// The operator has ended the answer: no call is made any more.
    is_stopped: bool,
}

/// The end of the call that brought the last delivered text, and why the text is cut there.
#[derive(Clone, Debug)]
pub(super) struct LastCut {
    pub(super) end: CallEnd,
    pub(super) cause: Option<CutCause>,
    /// How the answer ends if it is given up: like its first cut, which the client would have read
    /// without a continuation, or like a later, worse one.
    pub(super) given_up: CallEnd,
}

/// Counters that last from call to call until a success resets them.
#[derive(Clone, Debug)]
pub(super) struct RetryCounters {
    pub(super) failures: u32,
    /// Whole bodies that were lost.
    lost_bodies: u32,
    pub(super) no_progress: u32,
    pub(super) progress: Progress,
    pub(super) at_cut: CutResults,
    /// The last call was all reasoning: the next one is asked to reason less.
    pub(super) reduces_reasoning: bool,
    /// A call was too long for the model. The delivered text only grows, so from then on a
    /// rendering replaces it.
    pub(super) is_shortened: bool,
    /// The JSON Pointer at which the arguments that an answer completed violated their tool's
    /// schema.
    violation: Option<String>,
    /// Set while the upstream is in trouble that the model did not cause.
    trouble: Option<Trouble>,
}

/// The results of the calls at one cut. A new cut forgets them.
#[derive(Clone, Debug, Default)]
pub(super) struct CutResults {
    pub(super) attempts: Attempts,
    /// Text that was not joined had a mistake after its repeated part: the next call's text is
    /// repaired.
    pub(super) has_mistake: bool,
    /// A call was asked to reason less.
    pub(super) has_reduced: bool,
    /// The container that the last answer closed too early.
    pub(super) shortfall: Option<Shortfall>,
}

/// Calls in a row that an upstream in trouble did not answer.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// The end of the first of these calls.
    since: Duration,
    calls: u32,
}

impl Decisions {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            counters: RetryCounters::new(progress),
            clock: CallClock::default(),
            last_cut: None,
            is_stopped: false,
        }
    }

    /// Ends the answer on the operator's wish: when the open call ends, no other is made.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Records an input. `is_text`: it is text or reasoning, so the upstream answers again.
    pub(super) fn hear(&mut self, now: Duration, is_text: bool) {
        self.clock.hear(now, is_text);
        if is_text {
            self.counters.trouble = None;
        }
    }

    /// Reports that the open call has ended before the document was whole. `added`: bytes of text
    /// that it has brought.
    pub(super) fn cut(
        &self,
        channel: &mut AnswerChannel,
        now: Duration,
        end: &CallEnd,
        added: usize,
    ) {
        let quiet = self.clock.quiet(now);
        let document = channel.text.document();
        channel.journal.cut(now, end, added, quiet, document);
    }

    /// Records the first cut. Earlier calls delivered no text.
    pub(super) fn note_first_cut(&mut self, end: &CallEnd) {
        self.last_cut = None;
        self.note_cut(end, end.cause());
    }

    /// Records a cut at the end of the delivered text. It has no cause if the operator ended the
    /// answer.
    fn note_cut(&mut self, end: &CallEnd, cause: Option<CutCause>) {
        let before = self.last_cut.take().map(|cut| cut.given_up);
        // A client must not see a better end than it would have seen without continuations.
        let given_up = before
            .filter(|before| !end.is_worse_than(before))
            .unwrap_or_else(|| end.clone());
        self.last_cut = Some(LastCut {
            end: end.clone(),
            cause: cause.filter(|_| !self.is_stopped),
            given_up,
        });
    }

    pub(super) fn last_cut(&self) -> Option<&LastCut> {
        self.last_cut.as_ref()
    }

    /// Records a new cut, since the open call has added text to the document.
    pub(super) fn note_growth(&mut self, end: &CallEnd, cause: Option<CutCause>, early_ends: u32) {
        self.counters.at_new_cut(early_ends);
        self.note_cut(end, cause);
    }

    /// Reads the percentage that a call named.
    pub(super) fn note_progress(&mut self, journal: &mut Journal, said: &str) {
        let Some(percentage) = context::extract(said) else {
            return;
        };
        let progress = &mut self.counters.progress;
        progress.note(Some(percentage));
        journal.stats.percentage = progress.last_kpi();
        journal.event(SessionEvent::Progress {
            call: journal.stats.continuations,
            percentage,
            stalled_reports: progress.stalled(),
        });
    }

    /// Decides after a continuation that did not close the root.
    pub(super) fn after_merge(
        &mut self,
        channel: &mut AnswerChannel,
        now: Duration,
        end: &CallEnd,
        merged: Result<Seam, SpliceError>,
        has_grown: bool,
    ) -> NextStep {
        match merged {
            Err(SpliceError::Empty) if !matches!(end, CallEnd::Finished(_)) => {
                self.failed(channel, now, FailureReason::Nothing(end.clone()), end)
            }
            Err(failure) => self.failed(channel, now, FailureReason::Merge(failure), end),
            // The call broke off before it could bring anything new.
            Ok(_) if !has_grown && broke_off(end) => {
                self.failed(channel, now, FailureReason::Nothing(end.clone()), end)
            }
            Ok(_) => {
                let counters = &mut self.counters;
                (counters.failures, counters.lost_bodies) = (0, 0);
                counters.no_progress = if has_grown {
                    0
                } else {
                    counters.no_progress.saturating_add(1)
                };
                let most = channel.settings.limits.continuation.max_no_progress.max(1);
                match counters.no_progress >= most {
                    true => NextStep::GiveUp(StopReason::NoProgress, None),
                    false => NextStep::Call(Duration::ZERO),
                }
            }
        }
    }

    /// Decides after a continuation that closed a container too early. `known`: the container that
    /// the answer before closed too early.
    pub(super) fn fell_short(
        &mut self,
        channel: &mut AnswerChannel,
        now: Duration,
        (known, found): (Option<Shortfall>, Shortfall),
        end: &CallEnd,
    ) -> NextStep {
        // A model that still leaves out the same although it was asked by name does not mean to write it.
        if known.is_some_and(|known| known.is_same(&found)) {
            channel.journal.stats.schema_violation = Some(found.path);
            return NextStep::GiveUp(StopReason::Schema, None);
        }
        let reason = FailureReason::Shortfall {
            path: found.path.clone(),
            missing: found.to_string(),
        };
        self.counters.at_cut.shortfall = Some(found);
        self.failed(channel, now, reason, end)
    }

    /// Counts and reports a failure of the open call.
    pub(super) fn count_failure(&mut self, channel: &mut AnswerChannel, reason: FailureReason) {
        // The counts from a snapshot may be large.
        let stats = &mut channel.journal.stats;
        stats.failures = stats.failures.saturating_add(1);
        self.counters.failures = self.counters.failures.saturating_add(1);
        self.counters.no_progress = 0;
        let (call, in_a_row) = (stats.continuations, self.counters.failures);
        channel.journal.event(SessionEvent::Failed {
            call,
            reason,
            in_a_row,
        });
    }

    /// Counts a failure. The next call waits if the end of this one requires it.
    pub(super) fn failed(
        &mut self,
        channel: &mut AnswerChannel,
        now: Duration,
        reason: FailureReason,
        end: &CallEnd,
    ) -> NextStep {
        // The operator's stop ends the answer, whatever the call's own end was.
        if self.is_stopped {
            return NextStep::GiveUp(StopReason::Stopped, None);
        }
        if self.is_trouble(channel, end) {
            return self.wait_out(channel, now, reason, end);
        }
        let is_early_end = reason == FailureReason::Merge(SpliceError::EarlyEnd);
        self.count_failure(channel, reason);
        let in_a_row = self.counters.failures;
        if is_early_end && self.counters.at_cut.attempts.early_ends >= EARLY_ENDS {
            return NextStep::GiveUp(StopReason::EarlyEnd, None);
        }
        if is_too_long(channel, end) && !self.shortens(channel) {
            return NextStep::GiveUp(StopReason::Context, None);
        }
        let is_lost_body = channel.settings.sends_at_end && end.is_lost();
        // Each whole body is paid for again, unlike a stream, whose text stays delivered.
        self.counters.lost_bodies = if is_lost_body {
            self.counters.lost_bodies.saturating_add(1)
        } else {
            0
        };
        let limits = &channel.settings.limits;
        let most = limits.continuation.max_consecutive_failures;
        if self.counters.failures >= most || self.counters.lost_bodies >= MOST_LOST_BODIES {
            return NextStep::GiveUp(StopReason::Failures, None);
        }
        let most = limits.transport.max_backoff;
        NextStep::Call(match end {
            // An upstream that refuses calls needs a pause, and says how long, or gets a longer one
            // each time.
            CallEnd::Rejected {
                transient: true,
                retry_after,
                ..
            }
            | CallEnd::Unavailable { retry_after, .. } => {
                backoff(channel, now, in_a_row, *retry_after).min(most)
            }
            _ if is_lost_body => backoff(channel, now, in_a_row, None).min(most),
            // The model has answered, only not as asked: another question may do better
            // immediately.
            _ => Duration::ZERO,
        })
    }

    /// Sends a rendering of the delivered text from now on. Returns whether that makes the next call
    /// shorter than the one that was too long for the model.
    fn shortens(&mut self, channel: &AnswerChannel) -> bool {
        is_longer_than_rendering(channel)
            && !std::mem::replace(&mut self.counters.is_shortened, true)
    }

    /// Returns whether a call failed for a reason outside the model, so that the session waits for
    /// the upstream.
    fn is_trouble(&self, channel: &AnswerChannel, end: &CallEnd) -> bool {
        let is_trouble = match end {
            CallEnd::Unavailable { .. } => true,
            // The provider has written and billed a lost body, so it is not requested without
            // limit.
            CallEnd::Dropped => !self.clock.has_text() && !channel.settings.sends_at_end,
            _ => false,
        };
        is_trouble && !channel.settings.limits.continuation.patience.is_zero()
    }

    /// Makes the same call again after a wait, until `patience` is used up. The call does not
    /// count.
    fn wait_out(
        &mut self,
        channel: &mut AnswerChannel,
        now: Duration,
        reason: FailureReason,
        end: &CallEnd,
    ) -> NextStep {
        let retry_after = if let CallEnd::Unavailable { retry_after, .. } = end {
            *retry_after
        } else {
            None
        };
        let Some(wait) = self.wait_for_upstream(channel, now, retry_after) else {
            return NextStep::GiveUp(StopReason::Patience, None);
        };
        let call = channel.journal.stats.continuations;
        channel.journal.event(SessionEvent::Waiting {
            call,
            reason,
            at: now.saturating_add(wait),
        });
        if call > 0 {
            // The first call of an answer has already been answered: the call that replaces it is
            // the first further call.
            channel.journal.uncount_call();
        }
        NextStep::Call(wait)
    }

    /// Decides after a call that was not made, because most calls to the upstream fail.
    pub(super) fn overloaded(&mut self, channel: &AnswerChannel, now: Duration) -> NextStep {
        match self.wait_for_upstream(channel, now, None) {
            Some(wait) => NextStep::Call(wait),
            None => NextStep::GiveUp(StopReason::Overload, None),
        }
    }

    /// Counts a call that an upstream in trouble did not answer, and returns the wait for it.
    /// `None`: `patience` is used up, or the upstream asks for a longer wait than is left.
    fn wait_for_upstream(
        &mut self,
        channel: &AnswerChannel,
        now: Duration,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let trouble = self.counters.note_trouble(now);
        let limits = &channel.settings.limits;
        let due = trouble.since.saturating_add(limits.continuation.patience);
        let left = due.saturating_sub(now);
        // An upstream that asks for a longer wait than is left would refuse the call at the end of
        // `patience`, too.
        if left.is_zero() || retry_after.is_some_and(|wait| wait > left) {
            return None;
        }
        let max_backoff = limits.transport.max_backoff;
        let most = max_backoff.max(retry_after.unwrap_or_default());
        let wait = backoff(channel, now, trouble.calls, retry_after);
        // The last call is made when the time ends.
        Some(wait.min(most).min(left))
    }

    /// Returns whether another question follows at this cut if the next answer is not joined.
    pub(super) fn asks_again(&self, channel: &AnswerChannel) -> bool {
        let limits = &channel.settings.limits.continuation;
        let calls = channel.journal.stats.continuations;
        self.counters.failures.saturating_add(1) < limits.max_consecutive_failures
            && calls.saturating_add(1) < limits.max_continuations
    }

    /// Returns the cap that a call at this time would break.
    pub(super) fn cap(&self, channel: &AnswerChannel, at: Duration) -> Option<StopReason> {
        let limits = &channel.settings.limits.continuation;
        let stats = &channel.journal.stats;
        let stalled = self.counters.progress.stalled();
        // The order decides which cap a report names where several are reached.
        if self.is_stopped {
            Some(StopReason::Stopped)
        } else if stats.continuations >= limits.max_continuations {
            Some(StopReason::Continuations)
        } else if channel.is_full() {
            Some(StopReason::Text)
        } else if limits
            .max_total_tokens
            .is_some_and(|most| stats.total_tokens() >= most)
        {
            Some(StopReason::Tokens)
        } else if stalled >= limits.max_stalled_reports.max(1) {
            Some(StopReason::Progress)
        } else if limits
            .max_total_time
            .is_some_and(|most| self.clock.spent(at) >= most)
        {
            Some(StopReason::Time)
        } else {
            None
        }
    }
}

impl RetryCounters {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            failures: 0,
            lost_bodies: 0,
            no_progress: 0,
            progress,
            at_cut: CutResults::default(),
            reduces_reasoning: false,
            is_shortened: false,
            violation: None,
            trouble: None,
        }
    }

    /// Forgets the results of the calls at the cut before. `early_ends`: of the call that brought
    /// the text up to the new one.
    fn at_new_cut(&mut self, early_ends: u32) {
        let attempts = Attempts {
            early_ends,
            ..Attempts::default()
        };
        self.at_cut = CutResults {
            attempts,
            ..CutResults::default()
        };
    }

    /// Counts a call that an upstream in trouble did not answer.
    fn note_trouble(&mut self, now: Duration) -> Trouble {
        let trouble = self.trouble.get_or_insert(Trouble {
            since: now,
            calls: 0,
        });
        trouble.calls = trouble.calls.saturating_add(1);
        *trouble
    }

    /// Returns whether an answer's arguments violate their tool's schema at another path than those
    /// of the answer before. At the same path the model itself wrote the violation, and the join is
    /// right.
    pub(super) fn is_new_violation(&mut self, path: &str) -> bool {
        let known = self.violation.replace(path.to_owned());
        known.as_deref() != Some(path)
    }
}

/// Returns whether a call was broken off, and not ended by its model.
pub(super) fn broke_off(end: &CallEnd) -> bool {
    matches!(
        end,
        CallEnd::Dropped | CallEnd::TimedOut(_) | CallEnd::Error(_)
    )
}

/// Returns whether a call was longer than its model takes. Some APIs report that inside a stream.
/// After such a report a fallback gets the next call, so it ends nothing where no rendering helps.
fn is_too_long(channel: &AnswerChannel, end: &CallEnd) -> bool {
    match end {
        CallEnd::TooLong(_) => true,
        CallEnd::Error(reason) => {
            is_longer_than_rendering(channel) && too_long::is_too_long(reason)
        }
        _ => false,
    }
}

fn is_longer_than_rendering(channel: &AnswerChannel) -> bool {
    let budget = channel.settings.limits.continuation.context_budget_chars;
    channel.document().text().len() > budget
}

/// Returns the finish reason of an answer whose root is closed. If the limit ended the call after
/// the root, the document itself was not cut.
pub(super) fn finish_of_whole(reason: Finish) -> Finish {
    if reason == Finish::Length {
        Finish::Stop
    } else {
        reason
    }
}

/// Returns how long the next call waits: twice as long after each failed call in a row, or the time
/// that the refusal asked for. A part of the time is spread, so that answers which were cut
/// together are not continued together. The spread is derived from values that differ from answer
/// to answer: the time since the answer's start, to the nanosecond, and its length.
fn backoff(
    channel: &AnswerChannel,
    now: Duration,
    in_a_row: u32,
    retry_after: Option<Duration>,
) -> Duration {
    let most = channel.settings.limits.transport.max_backoff;
    let doubled = FIRST_BACKOFF
        .saturating_mul(1 << in_a_row.saturating_sub(1).min(MOST_DOUBLINGS))
        .min(most);
    let half = doubled / 2;
    let seed = (now.as_nanos() as u64) ^ ((channel.document().text().len() as u64) << 40);
    let spread = half / SPREAD * (mixed(seed) % (u64::from(SPREAD) + 1)) as u32;
    retry_after.unwrap_or(doubled - half).saturating_add(spread)
}

/// Returns a number each of whose bits depends on all bits of `seed` (the end of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

// The model wrote each lost body, and the user paid for it, so a lost one is requested only once
// more.
/// Whole bodies that may be lost in a row.
const MOST_LOST_BODIES: u32 = 2;

// A model that repeats an early end does not change its mind.
/// The number of early ends at one cut after which the answer is given up.
const EARLY_ENDS: u32 = 2;

// Short beside the time of a model's first token, and a pause for a server that restarts.
/// The wait after the first failed call.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

// `max_backoff` is shorter in practice; without this bound the shift could overflow.
/// How often the wait doubles.
const MOST_DOUBLINGS: u32 = 10;

// Fine enough that answers which were cut in the same moment rarely wait equally long.
/// The number of steps into which the spread divides its half of a wait.
const SPREAD: u32 = 1000;
