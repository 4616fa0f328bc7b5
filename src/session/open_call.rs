//! The open or requested call of a session: takes text, brings new text to the channel, and ends
//! with the next step.

use std::time::Duration;

use super::channel::AnswerChannel;
use super::continuation::{DocumentContinuation, RequestKind};
use super::cut_value::CutValue;
use super::decisions::{Decisions, NextStep};
use super::first_answer::{FirstAnswer, FirstReading};
use super::prose::ProseContinuation;
use super::question::Question;
use super::{CallEnd, Request, StopReason, Turn};
use crate::provider::Finish;
use crate::splice::Splice;

/// The open or requested call.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) phase: CallPhase,
    /// The call has brought reasoning.
    pub(super) has_reasoning: bool,
}

/// The answer that the open call brings.
#[derive(Clone, Debug)]
pub(super) enum CallPhase {
    /// The first answer, or the original request again while nothing was delivered.
    First(FirstAnswer),
    /// A call for the rest was requested, or its answer is arriving.
    Continuing(Box<DocumentContinuation>),
    /// The same, and the answer is prose.
    ContinuingProse(Box<ProseContinuation>),
    Done,
}

impl OpenCall {
    pub(super) fn new(phase: CallPhase) -> Self {
        Self {
            phase,
            has_reasoning: false,
        }
    }

    pub(super) fn is_first(&self) -> bool {
        matches!(self.phase, CallPhase::First(_))
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.phase, CallPhase::Done)
    }

    /// Returns whether the text of the first answer is not kept.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.phase, CallPhase::First(FirstAnswer::Unread))
    }

    /// Returns whether the first answer passes through unchanged.
    pub(super) fn is_passing(&self, channel: &AnswerChannel) -> bool {
        matches!(
            &self.phase,
            CallPhase::First(state) if *state != FirstAnswer::Continuable
        ) || channel.text.base.is_undecided()
    }

    /// Returns whether the first answer's document is whole and has repairs.
    pub(super) fn is_repaired(&self, channel: &AnswerChannel) -> bool {
        !self.is_passing(channel) && channel.document().is_complete() && channel.has_changed_text()
    }

    /// Returns whether the first answer has left the grammar before this end, which cuts it.
    pub(super) fn is_malformed_before(&self, end: &CallEnd) -> bool {
        let is_cut = match end {
            CallEnd::Finished(reason) => reason.is_cut(),
            _ => true,
        };
        is_cut && matches!(self.phase, CallPhase::First(FirstAnswer::Malformed))
    }

    /// Returns whether the text until now is kept prose.
    pub(super) fn is_kept_prose(&self, channel: &AnswerChannel) -> bool {
        channel.settings.keeps_prose() && !self.is_passing(channel) && channel.document().is_prose()
    }

    /// Returns whether the open call repeats the original request because no argument was
    /// delivered. The answer then has the whole tool call again.
    pub(super) fn repeats_tool_call(&self, channel: &AnswerChannel) -> bool {
        channel.settings.is_tool_call()
            && matches!(&self.phase, CallPhase::Continuing(open) if open.repeats_original())
    }

    /// Returns whether the call for the rest can be ended: the rest of its text has no use.
    pub(super) fn is_useless(&self) -> bool {
        matches!(&self.phase, CallPhase::Continuing(open) if open.is_useless())
    }

    /// Returns whether the rest is the input of a custom tool.
    pub(super) fn is_tool_input(&self) -> bool {
        matches!(&self.phase, CallPhase::Continuing(open) if open.is_tool_input())
    }

    /// Takes text.
    pub(super) fn text(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        match &mut self.phase {
            CallPhase::First(first) => FirstReading::new(first, channel).text(text),
            CallPhase::Continuing(open) => open.text(channel, now, text),
            CallPhase::ContinuingProse(open) => open.text(channel, now, text),
            CallPhase::Done => {}
        }
    }

    /// Returns whether the call has brought only reasoning, and another call could reason less.
    fn is_all_reasoning(&self, channel: &AnswerChannel, decisions: &Decisions) -> bool {
        let is_blank = match &self.phase {
            CallPhase::First(_) => channel.text.is_blank(),
            CallPhase::Continuing(open) => open.is_blank(),
            CallPhase::ContinuingProse(open) => open.is_blank(),
            CallPhase::Done => false,
        };
        let can_be_reduced =
            channel.settings.strategy.reduce_reasoning && !decisions.counters.at_cut.has_reduced;
        can_be_reduced && self.has_reasoning && is_blank
    }

    /// Counts a part of the delivered text while the call is under way. Returns whether more is left.
    pub(super) fn prepare(&mut self, channel: &AnswerChannel) -> bool {
        match &mut self.phase {
            CallPhase::Continuing(open) => open.prepare(channel),
            _ => false,
        }
    }

    /// Returns the value at the cut, if the open call has ended it there.
    pub(super) fn short_value(&self, text: &str) -> Option<&CutValue> {
        match &self.phase {
            CallPhase::Continuing(open) => open.short_value(text),
            _ => None,
        }
    }

    /// Returns whether the first answer, if it ended like this now, would be continued or repeated.
    pub(super) fn would_continue(
        &self,
        channel: &AnswerChannel,
        decisions: &Decisions,
        end: &CallEnd,
    ) -> bool {
        let document = channel.document();
        if self.is_passing(channel) || document.is_whole() {
            return false;
        }
        let is_blank = channel.text.is_blank();
        let is_json = document.is_json() && !(is_blank && channel.text.base.len() > 0);
        match end {
            _ if is_blank && channel.settings.is_tool_call() => channel.lacks_arguments(end),
            // The model has spent its tokens before the first character, so its request is made
            // again with less reasoning.
            CallEnd::Finished(Finish::Length) if self.is_all_reasoning(channel, decisions) => true,
            CallEnd::Finished(reason) => {
                is_json && channel.settings.continues_after(reason) && !channel.is_malformed_at(end)
            }
            // A lost call without text is made again as it was: nothing shows that its answer would
            // not be JSON.
            _ => is_json || is_blank || channel.continues_prose(end),
        }
    }

    /// Ends the call. Returns the next step; `None` if the session was done before.
    pub(super) fn end(
        &mut self,
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
    ) -> Option<NextStep> {
        if self.is_done() {
            return None;
        }
        // Three ends are those of a call that was not made, so it does not count.
        let next = match end {
            CallEnd::Overloaded => decisions.overloaded(channel, now),
            CallEnd::Stopped => NextStep::GiveUp(StopReason::Stopped, None),
            CallEnd::Redirected(redirect) => {
                let is_asked = channel.journal.stats.continuations > 0;
                debug_assert!(is_asked, "no further call was asked for");
                if !is_asked {
                    return None;
                }
                channel.settings.set_strategy(redirect.strategy.clone());
                // Another model may have a longer context window.
                decisions.counters.is_shortened = false;
                let stats = &mut channel.journal.stats;
                stats.upstreams.push(redirect.upstream.clone());
                channel.journal.note_model(&redirect.model);
                NextStep::Call(Duration::ZERO)
            }
            _ => return self.end_made(channel, decisions, now, end),
        };
        channel.journal.uncount_call();
        Some(next)
    }

    /// Ends a call that was made.
    fn end_made(
        &mut self,
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
    ) -> Option<NextStep> {
        if let CallPhase::Continuing(open) = &mut self.phase {
            open.end_text(channel, now);
        }
        // A refused call shows nothing about reasoning: the next call keeps its setting.
        if end.refusal().is_none() {
            decisions.counters.reduces_reasoning =
                matches!(end, CallEnd::Finished(_)) && self.is_all_reasoning(channel, decisions);
        }
        if let CallPhase::First(first) = &mut self.phase {
            FirstReading::new(first, channel).finish_whole();
        }
        let continues = self.is_first() && self.would_continue(channel, decisions, end);
        match std::mem::replace(&mut self.phase, CallPhase::Done) {
            CallPhase::First(mut first) => {
                let mut first = FirstReading::new(&mut first, channel);
                Some(match continues {
                    true => first.cut(decisions, now, end),
                    false => NextStep::Done(Box::new(first.end(end))),
                })
            }
            CallPhase::Continuing(open) => {
                Some(open.finish(channel, decisions, now, end, self.has_reasoning))
            }
            CallPhase::ContinuingProse(open) => Some(open.finish(channel, decisions, now, end)),
            CallPhase::Done => None,
        }
    }

    /// Requests the next call, not before `at`, and waits for its answer. Fails with the reason for
    /// giving up if no rung that is allowed can ask for the rest.
    pub(super) fn request(
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        at: Duration,
    ) -> Result<Self, StopReason> {
        // The next call counts from its request on, so that its end can take the count back.
        channel.journal.count_call();
        decisions.clock.restart(at);
        let (turn, phase) = if channel.text.has_begun() {
            channel.is_continued = true;
            channel.text.begin_check(channel.settings.schema());
            let (turn, phase) = Self::ask(channel, decisions);
            if !channel.settings.allows(turn.mode.rung()) {
                channel.journal.uncount_call();
                return Err(match decisions.counters.is_shortened {
                    true => StopReason::Context,
                    false => StopReason::Rungs,
                });
            }
            (Some(turn), phase)
        } else if channel.text.answer().is_empty() && !channel.settings.is_tool_call() {
            // Nothing reached the client, so the answer may be another one from its first byte on.
            let mut first = FirstAnswer::Continuable;
            FirstReading::new(&mut first, channel).begin();
            (None, CallPhase::First(first))
        } else {
            // White space, the opening of a fence, or the beginning of a tool call was delivered:
            // the root still has to follow.
            channel.is_continued = true;
            let settings = &channel.settings;
            if settings.is_tool_call() {
                channel.text.begin_check(settings.schema());
            }
            let splice = Splice::new(&channel.text.slot, settings.expect, &settings.limits);
            let open = DocumentContinuation::new(channel, decisions, splice, RequestKind::Original);
            (None, CallPhase::Continuing(Box::new(open)))
        };
        let counters = &mut decisions.counters;
        counters.at_cut.has_reduced |= counters.reduces_reasoning;
        let reduce_reasoning = counters.reduces_reasoning;
        let request = Request {
            number: channel.journal.stats.continuations,
            // The whole request again is not for the rest.
            turn,
            reduce_reasoning,
            resume: None,
        };
        channel.journal.request(request, at);
        Ok(Self::new(phase))
    }

    /// Returns the turns that ask for the rest, and the call that waits for it.
    fn ask(channel: &AnswerChannel, decisions: &Decisions) -> (Turn, CallPhase) {
        let question = Question::new(channel, decisions);
        let (turn, phase) = if channel.document().is_text() {
            let turn = question.of_prose();
            let open = ProseContinuation::new(channel, &turn);
            (turn, CallPhase::ContinuingProse(Box::new(open)))
        } else {
            let (turn, request, kind) = question.of_document();
            let splice = Splice::new(&channel.text.slot, request, &channel.settings.limits);
            let open = DocumentContinuation::new(channel, decisions, splice, kind);
            (turn, CallPhase::Continuing(Box::new(open)))
        };
        let replaces_prefill = channel.text.replaces_prefill();
        let turn = Turn {
            replaces_prefill,
            ..turn
        };
        (turn, phase)
    }
}
