//! The reading of a first answer, or of the original request's answer again while nothing was
//! delivered. Its text is forwarded directly, or is repaired.

use std::time::Duration;

use super::answer_text::CollectedRepairs;
use super::channel::AnswerChannel;
use super::decisions::{Decisions, NextStep, finish_of_whole};
use super::open_call::CallPhase;
use super::prefill_base::{BaseBound, PrefillBase};
use super::{CallEnd, FailureReason, LimitReached, Outcome, Session};
use crate::context::Sections;
use crate::error::SyntaxErrorKind;
use crate::json::repair::RepairOptions;
use crate::provider::wire::Base;
use crate::splice::Slot;

/// Whether the first answer is read, and may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstAnswer {
    Continuable,
    /// It holds more than one text.
    Passing,
    /// It has left the grammar: no more of its text is read.
    Malformed,
    /// It is prose or has reached a limit: its text is dropped, and no more is read.
    Unread,
}

/// A first answer with the channel that it writes to.
pub(super) struct FirstReading<'a> {
    state: &'a mut FirstAnswer,
    channel: &'a mut AnswerChannel,
}

impl<'a> FirstReading<'a> {
    pub(super) fn new(state: &'a mut FirstAnswer, channel: &'a mut AnswerChannel) -> Self {
        Self { state, channel }
    }

    /// Returns the first answer of a session. `None` once a continuation was requested.
    pub(super) fn of(session: &'a mut Session) -> Option<Self> {
        match &mut session.call.phase {
            CallPhase::First(state) => Some(Self::new(state, &mut session.channel)),
            _ => None,
        }
    }

    /// Forgets the text, since the answer begins or is repeated.
    pub(super) fn begin(&mut self) {
        if !self.channel.text.begin(&mut self.channel.settings) {
            self.pass_without_base();
        }
    }

    /// Sets how much of the text may be changed. Called before the first text.
    pub(super) fn set_repair(&mut self, options: RepairOptions) {
        let settings = &mut self.channel.settings;
        settings.repair = options.within(&settings.limits);
        self.begin();
    }

    /// Sets the base of the document. Called before the first input.
    pub(super) fn set_base(&mut self, base: &Base) {
        match base {
            Base::Empty => {}
            Base::Elsewhere => self.pass_without_base(),
            Base::Prefill {
                text,
                is_continued,
                is_returned,
            } => {
                let base = PrefillBase::of_request(text, *is_continued, *is_returned);
                self.channel.text.base = base;
                self.begin();
            }
        }
    }

    /// Takes text.
    pub(super) fn text(&mut self, text: &str) {
        self.channel.journal.note_writer();
        let limits = &self.channel.settings.limits.parser;
        let (most, preamble) = (limits.max_text_bytes, limits.max_preamble_bytes);
        if self
            .channel
            .document()
            .text()
            .len()
            .saturating_add(text.len())
            > most
        {
            self.stop_reading(Some(LimitReached::new("max_text_bytes", most)));
        }
        // Two readings keep the text twice.
        let kept = self.channel.document().text().len();
        if self.channel.text.base.bound(kept, text.len(), most) == BaseBound::Unknown {
            self.pass_without_base();
        }
        if matches!(*self.state, FirstAnswer::Malformed | FirstAnswer::Unread) {
            // With repairs the caller forwards only outputs, so unread text is an output, too.
            if self.channel.settings.repairs_text() {
                self.channel.journal.text(text.to_owned());
            }
            return;
        }
        let AnswerChannel {
            settings,
            text: delivered,
            journal,
            ..
        } = &mut *self.channel;
        delivered.unread.clear();
        let before = delivered.document().text().len();
        let (read, repairs) = delivered.collecting(|slot, sink| slot.push_with(text, sink));
        let is_legal = delivered.read_separately(text, read.is_ok());
        if !is_legal {
            *self.state = FirstAnswer::Malformed;
            journal.note_limit(read.as_ref().err().and_then(|error| limit_of(error.kind)));
        }
        if settings.repairs_text() {
            // The repair withholds text that a later byte may change. Here the text up to there
            // leaves.
            journal.repaired(repairs);
            self.channel.give_out(before);
            if !is_legal {
                // No later text can repair it, so the held-back text leaves unchanged.
                let rest = self.channel.document().pending().to_owned();
                self.channel.journal.text(rest);
            }
        }
        // More than a preamble without a root: the answer is prose, which no call asks to continue
        // by JSON's rules.
        let most = preamble.saturating_add(self.channel.text.base.len());
        if self.channel.document().prose_len() > most {
            match self.channel.settings.keeps_prose() {
                true => self.read_as_prose(),
                false => self.stop_reading(None),
            }
        }
    }

    /// Treats the text as prose, and later text too.
    pub(super) fn read_as_prose(&mut self) {
        if !self.channel.document().is_text() {
            self.end_repair();
            let unread = self.channel.text.read_as_prose();
            self.channel.journal.text(unread);
        }
    }

    /// Ends the root if held-back text closes it.
    pub(super) fn finish_whole(&mut self) {
        self.end_of_text(|slot, sink| slot.finish_whole(sink));
    }

    /// Outputs the held-back text of an answer that is not continued: first the repaired text, then
    /// the unread text unchanged.
    pub(super) fn release(&mut self) {
        // A root that the held-back text closes needs no rule for cut text.
        self.finish_whole();
        if self.is_read()
            && self.channel.settings.repairs_text()
            && self.channel.document().is_malformed_at_end()
        {
            // The held text is not cut, so rules for cut text must not decide about it.
            let held = self.channel.document().pending().to_owned();
            *self.state = FirstAnswer::Malformed;
            return self.channel.journal.text(held);
        }
        let unread = self.end_of_text(|slot, sink| slot.end_repair(sink));
        self.channel.journal.text(unread);
    }

    /// Ends the repair of a cut answer. The continuation repeats the text that could not be read.
    fn end_repair(&mut self) {
        let unread = self.end_of_text(|slot, sink| slot.end_repair(sink));
        if !unread.is_empty() {
            // An empty rest comes from a repeated call without text: then the unread text of the
            // previous call remains.
            self.channel.text.unread = unread;
        }
        if self.channel.settings.repairs_text() {
            let AnswerChannel { settings, text, .. } = &mut *self.channel;
            text.forget_uncertain_root(settings);
        }
    }

    /// Ends the text with `end`, and outputs the text that becomes final.
    fn end_of_text<T: Default>(
        &mut self,
        end: impl FnOnce(&mut Slot, &mut (&mut Sections, &mut CollectedRepairs)) -> T,
    ) -> T {
        if !self.channel.settings.repairs_text() || !self.is_read() {
            return T::default();
        }
        let before = self.channel.document().text().len();
        let (ended, repairs) = self.channel.text.collecting(end);
        self.channel.journal.repaired(repairs);
        self.channel.give_out(before);
        ended
    }

    fn is_read(&self) -> bool {
        matches!(*self.state, FirstAnswer::Continuable | FirstAnswer::Passing)
    }

    /// Returns whether the answer passes through unchanged.
    fn is_passing(&self) -> bool {
        *self.state != FirstAnswer::Continuable || self.channel.text.base.is_undecided()
    }

    /// Returns whether the document is whole.
    pub(super) fn is_whole(&self) -> bool {
        *self.state == FirstAnswer::Continuable && self.channel.document().is_whole()
    }

    /// Lets the answer pass through unchanged.
    pub(super) fn pass(&mut self) {
        if *self.state == FirstAnswer::Continuable {
            // The held-back text leaves first: the text that passes after it belongs behind it.
            self.release();
            *self.state = FirstAnswer::Passing;
        }
    }

    /// Lets prose pass, since the provider has ended its stream.
    pub(super) fn pass_prose(&mut self) {
        if self.channel.settings.keeps_prose() && self.channel.document().is_prose() {
            self.pass();
        }
    }

    /// Forwards the answer unchanged, because its base is unknown.
    fn pass_without_base(&mut self) {
        self.stop_reading(None);
        self.channel.journal.stats.base_unknown = true;
    }

    /// Stops reading the answer and drops its text; the answer passes through. `limit`: the limit
    /// that it has reached.
    pub(super) fn stop_reading(&mut self, limit: Option<LimitReached>) {
        if *self.state != FirstAnswer::Unread {
            // The held-back text is part of the answer, although the rest is not read.
            self.release();
            *self.state = FirstAnswer::Unread;
            self.channel.text.base = PrefillBase::default();
            self.begin();
            self.channel.journal.note_limit(limit);
        }
    }

    /// Returns the outcome of an answer without a further call: the document is whole, or the
    /// answer passes through. `end`: how the call ended, if that is known. `ends_here`: the client
    /// must not see the upstream's own end.
    pub(super) fn outcome(&mut self, end: Option<&CallEnd>, ends_here: bool) -> Outcome {
        // Users ask why an answer was not continued, so the report names the reason.
        let stats = &mut self.channel.journal.stats;
        stats.base_unknown |= self.channel.text.base.is_undecided();
        stats.malformed |= *self.state == FirstAnswer::Malformed && stats.limit.is_none();
        let tally = self.channel.journal.stats_after(end);
        let (finish, end) = match end {
            Some(CallEnd::Finished(reason)) => (Some(reason.clone()), None),
            end => (None, end.and_then(CallEnd::cause)),
        };
        let is_changed = tally.continuations > 0 || !tally.repairs.is_empty() || ends_here;
        match is_changed && !self.is_passing() && self.channel.document().is_complete() {
            true => Outcome::Complete {
                finish: finish.map(finish_of_whole),
                end,
                tally,
            },
            false => Outcome::PassedThrough { finish, tally },
        }
    }

    /// Ends an answer that is not continued: its call has ended.
    pub(super) fn end(&mut self, end: &CallEnd) -> Outcome {
        self.channel.journal.stats.malformed |= self.channel.is_malformed_at(end);
        self.release();
        self.outcome(Some(end), false)
    }

    /// Asks for the rest, after another process held the open call.
    pub(super) fn resume(
        &mut self,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
    ) -> NextStep {
        if self.channel.continues_prose(end) {
            self.read_as_prose();
        }
        let added = self.channel.text.answer().len();
        decisions.cut(self.channel, now, end, added);
        decisions.note_first_cut(end);
        NextStep::Call(Duration::ZERO)
    }

    /// Ends an answer that is continued: its call has ended before the document was whole.
    pub(super) fn cut(
        &mut self,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
    ) -> NextStep {
        match self.channel.continues_prose(end) {
            true => self.read_as_prose(),
            false => {
                let text = &mut self.channel.text;
                // A number at the end may continue in the next call, so only the search for a root
                // ends here.
                text.slot.settle(&mut text.sections);
                self.end_repair();
            }
        }
        let base = &mut self.channel.text.base;
        if base.len() > 0 {
            // The rest is requested for the reading after the prefill.
            base.settle();
            if !self.channel.document().is_text() {
                // A provider that has continued one prefill continues another, too.
                let strategy = &mut self.channel.settings.strategy;
                strategy.prefill.get_or_insert_default();
            }
        }
        let added = self.channel.text.answer().len();
        decisions.cut(self.channel, now, end, added);
        decisions.note_first_cut(end);
        if self.channel.text.has_begun() {
            NextStep::Call(Duration::ZERO)
        } else {
            let reason = FailureReason::Nothing(end.clone());
            decisions.failed(self.channel, now, reason, end)
        }
    }
}

/// Returns the limit that an error is about.
fn limit_of(error: SyntaxErrorKind) -> Option<LimitReached> {
    match error {
        SyntaxErrorKind::TooDeep(most) => Some(LimitReached::new("max_depth", most)),
        SyntaxErrorKind::TooManyRepairs(most) => Some(LimitReached::new("max_repairs", most)),
        SyntaxErrorKind::TooManyReadings(most) => Some(LimitReached::new("max_readings", most)),
        _ => None,
    }
}
