//! After a call: whether the document is whole, the call failed, or the next one is made.

use std::time::Duration;

use super::{
    Attempts, Before, CallEnd, Continuation, ContinuationMode, CutCause, FailureReason,
    FirstAnswer, LastCut, Mistakes, Outcome, Output, Phase, Redirect, Request, Session,
    SessionEvent, Spent, StopReason, Trouble,
};
use crate::provider::Finish;
use crate::splice::{Seam, Splice, SpliceError};

impl Session {
    /// The open call has ended.
    pub(super) fn end(&mut self, now: Duration, end: &CallEnd) {
        match end {
            CallEnd::Overloaded => return self.overloaded(now),
            CallEnd::Stopped => return self.give_up_unasked(StopReason::Stopped),
            _ => {}
        }
        if let CallEnd::Redirected(redirect) = end {
            return self.redirect(now, redirect);
        }
        self.end_of_part(now);
        self.count_tokens(end);
        // A refused call shows nothing about reasoning: the next call keeps its setting.
        if end.refusal().is_none() {
            self.call.reduce_reasoning =
                matches!(end, CallEnd::Finished(_)) && self.is_all_reasoning();
        }
        // Nothing of a prefill that was coming back is new.
        self.call.returned_prefill = None;
        match std::mem::replace(&mut self.phase, Phase::Done) {
            first @ Phase::First(_) => {
                self.phase = first;
                self.end_of_first(now, end);
            }
            Phase::Continuing(open) => self.end_of_continuation(now, end, *open),
            Phase::ContinuingText(open) => self.end_of_prose(now, end, *open),
            Phase::Done => {}
        }
        self.call.has_reasoning = false;
    }

    /// Makes the requested call at another upstream.
    fn redirect(&mut self, now: Duration, redirect: &Redirect) {
        debug_assert!(
            self.tally.continuations > 0,
            "no further call was asked for"
        );
        if self.is_done() || self.tally.continuations == 0 {
            return;
        }
        self.settings.strategy = redirect.strategy.clone();
        self.tally.upstreams.push(redirect.upstream.clone());
        self.call.model = Some(redirect.model.clone());
        self.uncount_call();
        self.call(now, Duration::ZERO);
    }

    /// Counts the tokens of the call that has ended. If the provider has not reported them, they
    /// are estimated; usage from before the call's own end may be partial.
    fn count_tokens(&mut self, end: &CallEnd) {
        let is_finished = matches!(end, CallEnd::Finished(_));
        let is_told = is_finished && !self.has_spent_share();
        let bytes = std::mem::take(&mut self.call.text_bytes);
        let estimate = bytes / BYTES_PER_TOKEN;
        let tokens = match self.tally.tokens.last().copied().flatten() {
            Some(told) if is_told => told,
            told => estimate.max(told.unwrap_or_default()),
        };
        // Usage of a call that broke off before its text may exclude its reasoning.
        let is_measure = is_finished || bytes > 0;
        match self.spent.first {
            0 if is_measure => (self.spent.first, self.spent.first_bytes) = (tokens, bytes),
            0 => {}
            _ => self.spent.extra = self.spent.extra.saturating_add(tokens),
        }
    }

    fn end_of_first(&mut self, now: Duration, end: &CallEnd) {
        self.finish_whole();
        if !self.would_continue(end) {
            self.tally.malformed |= self.is_malformed_at(end);
            self.release_first();
            return self.done_as_it_is(Some(end), false);
        }
        match self.continues_prose(end) {
            true => self.read_as_text(),
            false => {
                self.slot.settle(&mut self.sections);
                self.end_repair();
            }
        }
        self.settle_base();
        let added = self.answer_text().len();
        self.cut(now, end, added);
        // Earlier calls delivered no text, so this is the first cut.
        self.last_cut = None;
        self.note_cut(end, end.cause());
        if self.has_begun() {
            self.call(now, Duration::ZERO);
        } else {
            self.failed(now, FailureReason::Nothing(end.clone()), end);
        }
    }

    /// Returns whether the first answer's document is whole.
    pub(crate) fn is_first_whole(&self) -> bool {
        matches!(self.phase, Phase::First(FirstAnswer::Continuable))
            && self.slot.document().is_complete()
    }

    /// Ends the session: the first answer's document is whole, and the rest of its stream was lost.
    pub(crate) fn end_whole(&mut self, end: &CallEnd) {
        debug_assert!(self.is_first_whole(), "nothing of the document is missing");
        self.release_first();
        self.done_as_it_is(Some(end), true);
    }

    /// Gives up, since the requested call was not made.
    pub(super) fn give_up_unasked(&mut self, reason: StopReason) {
        if !self.is_done() {
            self.uncount_call();
            self.give_up(reason, None);
        }
    }

    /// Ends the session without a further call: the document is whole, or the first answer passes
    /// through. `end`: how the call ended, if that is known. `ends_here`: the client must not see
    /// the upstream's own end.
    fn done_as_it_is(&mut self, end: Option<&CallEnd>, ends_here: bool) {
        self.note_unread();
        let tally = self.tally_after(end);
        let (finish, end) = match end {
            Some(CallEnd::Finished(reason)) => (Some(reason.clone()), None),
            end => (None, end.and_then(CallEnd::cause)),
        };
        let is_changed = tally.continuations > 0 || !tally.repairs.is_empty() || ends_here;
        let is_whole = is_changed && !self.is_passing() && self.slot.document().is_complete();
        self.done(match is_whole {
            true => Outcome::Complete {
                finish: finish.map(of_whole),
                end,
                tally,
            },
            false => Outcome::PassedThrough { finish, tally },
        });
    }

    fn end_of_continuation(&mut self, now: Duration, end: &CallEnd, open: Continuation) {
        if matches!(end, CallEnd::PrefillRejected(_)) && self.call.mode == ContinuationMode::Prefill
        {
            self.settings.strategy.prefill = None;
            self.uncount_call();
            return self.call(now, Duration::ZERO);
        }
        if let Some(reason) = end.refusal() {
            return self.failed(now, FailureReason::Rejected(reason.to_owned()), end);
        }
        self.note_progress();
        let Continuation {
            mut splice,
            delivered,
            sent,
            reported,
            before,
            mistakes,
        } = open;
        let mut merged = splice.finish_with(&mut self.slot, &mut self.sections);
        let before = before.filter(|_| sent == delivered || self.settings.sends_at_end);
        if let Some(error) = self
            .error_after_arguments(&splice)
            .map(SpliceError::Malformed)
        {
            if let Some(before) = before {
                (self.slot, self.sections) = (before.slot, before.sections);
                self.streaks.attempts.count(Some(&error));
                self.cut(now, end, 0);
                return self.failed(now, FailureReason::Merge(error), end);
            }
            self.reopen_arguments(sent);
            merged = Err(error);
        }
        let violation = self.violation();
        if let Some(before) = before
            && let Some(path) = violation.clone().filter(|path| self.is_new_violation(path))
        {
            (self.slot, self.sections) = (before.slot, before.sections);
            self.streaks.attempts.count(None);
            self.cut(now, end, 0);
            return self.failed(now, FailureReason::Schema(path), end);
        }
        match (splice.seam(), reported) {
            (Some(seam), None) => self.joined(now, seam.clone(), splice.candidates().to_vec()),
            // Flags may come long after the seam: for an ellipsis instead of the last elements, or
            // for illegal text.
            (Some(seam), Some(reported)) => self.tally.count_flags(seam, Some(&reported)),
            (None, _) => {}
        }
        self.give_out(sent);
        self.count_repairs(splice.repairs().iter().map(|repair| repair.rule.as_str()));
        let finish = end.finish().cloned();
        if !self.is_tool_call()
            && self.slot.document().is_complete()
            && splice.has_more_json(self.slot.document())
        {
            let added = self.slot.document().text().len().saturating_sub(delivered);
            self.cut(now, end, added);
            return self.give_up(StopReason::MoreJson, None);
        }
        if self.slot.document().is_complete() {
            self.note_arguments(violation);
            let tally = self.tally.clone();
            let end = if finish.is_none() { end.cause() } else { None };
            return self.done(Outcome::Complete {
                finish: finish.map(of_whole),
                end,
                tally,
            });
        }
        let added = self.slot.document().text().len().saturating_sub(delivered);
        self.cut(now, end, added);
        let has_grown = added > 0;
        if has_grown {
            (self.streaks.has_reduced, self.streaks.has_mistake) = (false, false);
            let early_ends = u32::from(merged == Err(SpliceError::EarlyEnd));
            self.streaks.attempts = Attempts {
                early_ends,
                ..Attempts::default()
            };
            let cause = if left_the_document(&merged) {
                Some(CutCause::Malformed)
            } else {
                end.cause()
            };
            self.note_cut(end, cause);
        } else if is_answer(&merged, end) {
            self.streaks.attempts.count(merged.as_ref().err());
            let is_found = matches!(mistakes, Mistakes::LookedFor { is_found: true, .. });
            self.streaks.has_mistake |= merged.is_err() && is_found;
        }
        // A refusal ends with `stop`, too: it is a failure, whatever stop sequences there are.
        let failed_to_merge = merged.is_err() && finish == Some(Finish::Stop);
        match finish.filter(|reason| !self.continues_after(reason) && !failed_to_merge) {
            Some(reason) => self.give_up(StopReason::Finish, Some(reason)),
            None => self.after_merge(now, end, merged, has_grown),
        }
    }

    /// Decides the next step after a continuation that did not close the root.
    pub(super) fn after_merge(
        &mut self,
        now: Duration,
        end: &CallEnd,
        merged: Result<Seam, SpliceError>,
        has_grown: bool,
    ) {
        match merged {
            Err(SpliceError::Empty) if !matches!(end, CallEnd::Finished(_)) => {
                self.failed(now, FailureReason::Nothing(end.clone()), end);
            }
            Err(failure) => {
                if self.call.mode == ContinuationMode::Prefill && failure != SpliceError::Empty {
                    // A second prefill would bring the same text, so the next call is a re-prompt.
                    self.settings.strategy.prefill = None;
                }
                self.failed(now, FailureReason::Merge(failure), end);
            }
            Ok(_)
                if !has_grown
                    && matches!(
                        end,
                        CallEnd::Dropped | CallEnd::TimedOut(_) | CallEnd::Error(_)
                    ) =>
            {
                // The call broke off before it could bring anything new.
                self.failed(now, FailureReason::Nothing(end.clone()), end);
            }
            Ok(_) => {
                (self.streaks.failures, self.streaks.lost_bodies) = (0, 0);
                self.streaks.no_progress = if has_grown {
                    0
                } else {
                    self.streaks.no_progress.saturating_add(1)
                };
                if self.streaks.no_progress
                    >= self.settings.limits.continuation.max_no_progress.max(1)
                {
                    self.give_up(StopReason::NoProgress, None);
                } else {
                    self.call(now, Duration::ZERO);
                }
            }
        }
    }

    /// The first call has ended, and others are continued before this one.
    pub(super) fn wait_since(&mut self, now: Duration) {
        self.clock.waits_since = Some(now);
    }

    /// The open call has ended before the document was whole. `added`: bytes of text that it has
    /// brought.
    pub(super) fn cut(&mut self, now: Duration, end: &CallEnd, added: usize) {
        self.clock.cut_at = self.clock.waits_since.take().unwrap_or(now);
        let document = self.slot.document();
        let (offset, path) = (document.text().len(), document.cut().path);
        let quiet = self
            .clock
            .text_at
            .or(self.clock.called_at)
            .map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.event(SessionEvent::Cut {
            call: self.tally.continuations,
            end: end.clone(),
            offset,
            added,
            quiet,
            path,
        });
    }

    /// Records a cut at the end of the delivered text. It has no cause if the operator ended the
    /// answer.
    pub(super) fn note_cut(&mut self, end: &CallEnd, cause: Option<CutCause>) {
        let before = self.last_cut.take().map(|cut| cut.given_up);
        let given_up = before
            .filter(|before| !end.is_worse_than(before))
            .unwrap_or_else(|| end.clone());
        self.last_cut = Some(LastCut {
            end: end.clone(),
            cause: cause.filter(|_| !self.is_stopped),
            given_up,
        });
    }

    /// Counts a failure. The next call waits if the end of this one requires it.
    pub(super) fn failed(&mut self, now: Duration, reason: FailureReason, end: &CallEnd) {
        if self.is_stopped {
            return self.give_up(StopReason::Stopped, None);
        }
        if self.is_trouble(end) {
            return self.wait_out(now, reason, end);
        }
        // The counts from a snapshot may be large.
        self.tally.failures = self.tally.failures.saturating_add(1);
        self.streaks.failures = self.streaks.failures.saturating_add(1);
        self.streaks.no_progress = 0;
        let (call, in_a_row) = (self.tally.continuations, self.streaks.failures);
        let is_early_end = reason == FailureReason::Merge(SpliceError::EarlyEnd);
        self.event(SessionEvent::Failed {
            call,
            reason,
            in_a_row,
        });
        if is_early_end && self.streaks.attempts.early_ends >= EARLY_ENDS {
            return self.give_up(StopReason::EarlyEnd, None);
        }
        if matches!(end, CallEnd::TooLong(_)) && !self.can_ask_for_less() {
            return self.give_up(StopReason::TooLong, None);
        }
        let is_lost_body = self.settings.sends_at_end && end.is_lost();
        self.streaks.lost_bodies = if is_lost_body {
            self.streaks.lost_bodies.saturating_add(1)
        } else {
            0
        };
        let most = self.settings.limits.continuation.max_consecutive_failures;
        if self.streaks.failures >= most || self.streaks.lost_bodies >= MOST_LOST_BODIES {
            return self.give_up(StopReason::Failures, None);
        }
        let most = self.settings.limits.transport.max_backoff;
        let wait = match end {
            CallEnd::Rejected {
                transient: true,
                retry_after,
                ..
            }
            | CallEnd::Unavailable { retry_after, .. } => {
                self.backoff(now, in_a_row, *retry_after).min(most)
            }
            _ if is_lost_body => self.backoff(now, in_a_row, None).min(most),
            _ => Duration::ZERO,
        };
        self.call(now, wait);
    }

    /// Returns whether the session falls back to words after a prefill that is too long for the
    /// model, because words are shorter.
    fn can_ask_for_less(&mut self) -> bool {
        let is_shorter = self.slot.document().text().len()
            > self.settings.limits.continuation.max_verbatim_context;
        self.call.mode == ContinuationMode::Prefill
            && is_shorter
            && self.settings.strategy.prefill.take().is_some()
    }

    /// Returns whether a call failed for a reason outside the model, so that the session waits for
    /// the upstream.
    fn is_trouble(&self, end: &CallEnd) -> bool {
        let is_trouble = match end {
            CallEnd::Unavailable { .. } => true,
            // The provider has written and billed a lost body, so it is not requested without
            // limit.
            CallEnd::Dropped => self.clock.text_at.is_none() && !self.settings.sends_at_end,
            _ => false,
        };
        is_trouble && !self.settings.limits.continuation.patience.is_zero()
    }

    /// Makes the same call again after a wait, until `patience` is used up. The call does not
    /// count.
    fn wait_out(&mut self, now: Duration, reason: FailureReason, end: &CallEnd) {
        let since = self.note_trouble(now);
        let retry_after = if let CallEnd::Unavailable { retry_after, .. } = end {
            *retry_after
        } else {
            None
        };
        let Some(wait) = self.wait_for_upstream(now, since, retry_after) else {
            return self.give_up(StopReason::Patience, None);
        };
        let call = self.tally.continuations;
        self.event(SessionEvent::Waiting {
            call,
            reason,
            at: now.saturating_add(wait),
        });
        if call > 0 {
            // The first call of an answer has already been answered: the call that replaces it is
            // the first further call.
            self.uncount_call();
        }
        self.call(now, wait);
    }

    /// The requested call was not made, because most calls to the upstream fail. It is requested
    /// again later.
    fn overloaded(&mut self, now: Duration) {
        if self.is_done() {
            return;
        }
        let since = self.note_trouble(now);
        match self.wait_for_upstream(now, since, None) {
            Some(wait) => {
                self.uncount_call();
                self.call(now, wait);
            }
            None => self.give_up_unasked(StopReason::Overload),
        }
    }

    /// Counts a call that an upstream in trouble did not answer. Returns the start of the trouble
    /// and the number of its calls.
    fn note_trouble(&mut self, now: Duration) -> Trouble {
        let trouble = self.streaks.trouble.get_or_insert(Trouble {
            since: now,
            calls: 0,
        });
        trouble.calls = trouble.calls.saturating_add(1);
        *trouble
    }

    /// Returns the wait for an upstream in trouble. `None`: `patience` is used up, or the upstream
    /// asks for a longer wait than is left.
    fn wait_for_upstream(
        &self,
        now: Duration,
        trouble: Trouble,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let due = trouble
            .since
            .saturating_add(self.settings.limits.continuation.patience);
        let left = due.saturating_sub(now);
        if left.is_zero() || retry_after.is_some_and(|wait| wait > left) {
            return None;
        }
        let most = self
            .settings
            .limits
            .transport
            .max_backoff
            .max(retry_after.unwrap_or_default());
        // The last call is made when the time ends.
        Some(
            self.backoff(now, trouble.calls, retry_after)
                .min(most)
                .min(left),
        )
    }

    /// Takes back the count of a call that is repeated.
    fn uncount_call(&mut self) {
        self.tally.continuations = self.tally.continuations.saturating_sub(1);
        self.tally
            .tokens
            .truncate(self.tally.tokens.len().saturating_sub(1).max(1));
    }

    /// Returns how long the next call waits: twice as long after each failed call in a row, or the
    /// time that the refusal asked for. A part of the time is spread, so that answers which were
    /// cut together are not continued together. The spread is derived from values that differ from
    /// answer to answer: the time since the answer's start, to the nanosecond, and its length.
    fn backoff(&self, now: Duration, in_a_row: u32, retry_after: Option<Duration>) -> Duration {
        let most = self.settings.limits.transport.max_backoff;
        let doubled = Duration::from_millis(200 << in_a_row.saturating_sub(1).min(10)).min(most);
        let half = doubled / 2;
        let seed = (now.as_nanos() as u64) ^ ((self.slot.document().text().len() as u64) << 40);
        let spread = half / SPREAD * (mixed(seed) % (u64::from(SPREAD) + 1)) as u32;
        retry_after.unwrap_or(doubled - half).saturating_add(spread)
    }

    /// Asks for the next call, or gives up where a cap is reached.
    fn call(&mut self, now: Duration, wait: Duration) {
        let at = now.saturating_add(wait);
        if let Some(stop) = self.cap(at) {
            return self.give_up(stop, None);
        }
        self.tally.continuations += 1;
        self.tally.tokens.push(None);
        self.restart_silence(at);
        let turn = if self.has_begun() {
            self.is_continued = true;
            Some(self.turn())
        } else {
            if self.answer_text().is_empty() && !self.is_tool_call() {
                self.phase = Phase::First(FirstAnswer::Continuable);
                self.begin();
            } else {
                self.is_continued = true;
                // White space, the opening of a fence, or the beginning of a tool call was
                // delivered: the root still has to follow.
                self.wait_for(Splice::new(
                    &self.slot,
                    self.settings.expect,
                    &self.settings.limits,
                ));
            }
            None
        };
        self.call.is_repeated = turn.is_none();
        let (mode, anchor) = (
            turn.as_ref().map(|turn| turn.mode),
            turn.as_ref().map_or(0, |turn| turn.anchor.len()),
        );
        let number = self.tally.continuations;
        self.event(SessionEvent::Requested {
            call: number,
            mode,
            anchor,
            at,
        });
        self.streaks.has_reduced |= self.call.reduce_reasoning;
        let reduce_reasoning = self.call.reduce_reasoning;
        // The whole request again is not for the rest.
        let most_tokens = turn.as_ref().and_then(|_| self.share_left());
        let request = Request {
            number,
            turn,
            reduce_reasoning,
            most_tokens,
            resume: None,
        };
        self.outputs.push_back(Output::Call { request, at });
    }

    /// Waits for an answer that `splice` joins.
    pub(super) fn wait_for(&mut self, splice: Splice) {
        let delivered = self.slot.document().text().len();
        let mistakes = self.mistakes(&splice);
        let before = self.is_tool_call().then(|| Before {
            slot: self.slot.clone(),
            sections: self.sections.clone(),
        });
        let before = before.map(Box::new);
        self.phase = Phase::Continuing(Box::new(Continuation {
            splice,
            mistakes,
            delivered,
            sent: delivered,
            reported: None,
            before,
        }));
    }

    /// Asks for the rest, if there is one, after another process held the open call.
    pub(super) fn go_on(&mut self, now: Duration) {
        if !self.would_continue(&CallEnd::Dropped) {
            return self.done_as_it_is(None, false);
        }
        if self.continues_prose(&CallEnd::Dropped) {
            self.read_as_text();
        }
        let end = CallEnd::Dropped;
        self.cut(now, &end, self.answer_text().len());
        self.note_cut(&end, end.cause());
        self.call(now, Duration::ZERO);
    }

    /// Returns how many tokens the next call may have. `None`: there is no such limit, or no call
    /// to measure it by.
    fn share_left(&self) -> Option<u64> {
        let share = self.settings.limits.continuation.max_extra_share?;
        (self.spent.first > 0).then(|| self.spent.left(share))
    }

    /// Returns whether the open call for the rest has more text than its share leaves. The provider
    /// reports the call's tokens only at its end.
    pub(super) fn has_spent_share(&self) -> bool {
        let most = self
            .share_left()
            .map(|left| left.saturating_mul(self.spent.bytes_per_token()));
        matches!(self.phase, Phase::Continuing(_))
            && most.is_some_and(|most| self.call.text_bytes > most)
    }

    /// Returns the cap that a call at this time would break.
    fn cap(&self, at: Duration) -> Option<StopReason> {
        let limits = &self.settings.limits;
        if self.is_stopped {
            Some(StopReason::Stopped)
        } else if self.tally.continuations >= limits.continuation.max_continuations {
            Some(StopReason::Continuations)
        } else if self.is_full() {
            Some(StopReason::Text)
        } else if limits
            .continuation
            .max_total_tokens
            .is_some_and(|most| self.tally.total_tokens() >= most)
        {
            Some(StopReason::Tokens)
        } else if limits
            .continuation
            .max_extra_share
            .is_some_and(|share| self.spent.exceeds(share))
        {
            Some(StopReason::ExtraShare)
        } else if self.streaks.progress.stalled() >= limits.continuation.max_stalled_reports.max(1)
        {
            Some(StopReason::Progress)
        } else if limits
            .continuation
            .max_total_time
            .is_some_and(|most| self.clock.spent(at) >= most)
        {
            Some(StopReason::Time)
        } else {
            None
        }
    }
}

impl Spent {
    /// Returns whether more than a share of the first call's tokens was spent on others.
    #[expect(
        clippy::cast_precision_loss,
        reason = "no answer has so many tokens that a double can't count them"
    )]
    fn exceeds(self, share: f64) -> bool {
        self.extra > 0 && self.extra as f64 >= share * self.first as f64
    }

    /// Returns how many tokens of a share are left, and at least one.
    #[expect(
        clippy::cast_precision_loss,
        reason = "no answer has so many tokens that a double can't count them"
    )]
    fn left(self, share: f64) -> u64 {
        ((share * self.first as f64) as u64)
            .saturating_sub(self.extra)
            .max(1)
    }

    /// Returns the bytes of text per token: the ratio of the first call, if it is above the usual
    /// one.
    fn bytes_per_token(self) -> u64 {
        self.first_bytes
            .checked_div(self.first)
            .unwrap_or_default()
            .max(BYTES_PER_TOKEN)
    }
}

/// Whole bodies that may be lost in a row: the model wrote each, and the user paid for it, so a
/// lost one is requested only once more.
const MOST_LOST_BODIES: u32 = 2;

/// The number of early ends at one cut after which the answer is given up: a model that repeats an
/// early end does not change its mind.
const EARLY_ENDS: u32 = 2;

/// Bytes of text that count as a token: a rough average for English and for JSON.
const BYTES_PER_TOKEN: u64 = 4;

/// The number of steps into which the spread divides its half of a wait.
const SPREAD: u32 = 1000;

/// Returns a number each of whose bits depends on all bits of `seed` (the end of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the finish reason of an answer whose root is closed. If the limit ended the call after
/// the root, the document itself was not cut.
fn of_whole(reason: Finish) -> Finish {
    if reason == Finish::Length {
        Finish::Stop
    } else {
        reason
    }
}

/// Returns whether a call that added nothing was answered, so that the same question would bring
/// the same answer. A call that was lost before it brought new text is repeated unchanged.
fn is_answer(merged: &Result<Seam, SpliceError>, end: &CallEnd) -> bool {
    match merged {
        Ok(_) => !matches!(
            end,
            CallEnd::Dropped | CallEnd::TimedOut(_) | CallEnd::Error(_)
        ),
        Err(SpliceError::Empty) => matches!(end, CallEnd::Finished(_)),
        Err(_) => true,
    }
}

/// Returns whether a continuation was joined, and then left the grammar or contradicted the
/// delivered text.
fn left_the_document(merged: &Result<Seam, SpliceError>) -> bool {
    matches!(
        merged,
        Err(SpliceError::Malformed(_) | SpliceError::Overwrites(_) | SpliceError::Differs(_))
    )
}
