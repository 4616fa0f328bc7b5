//! An open call for the rest of a document: its text is repaired, joined to the delivered text,
//! and given out.

use std::borrow::Cow;
use std::time::Duration;

use super::answer_text::RollbackPoint;
use super::channel::AnswerChannel;
use super::cut_value::CutValue;
use super::decisions::{Decisions, NextStep, broke_off, finish_of_whole};
use super::part_repair::PartRepairer;
use super::returned_prefill::{NewText, ReturnedPrefill};
use super::{
    CallEnd, ContinuationMode, CutCause, FailureReason, Outcome, PrefillOptions, StopReason,
};
use crate::carve::schema::RestReader;
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::repair::{Repair, RepairRule};
use crate::provider::Finish;
use crate::provider::capability::GrammarForm;
use crate::splice::{Expect, Seam, Splice, SpliceError, SpliceRequest, has_more_json};

/// An open call for the rest of a document.
#[derive(Clone, Debug)]
pub(super) struct DocumentContinuation {
    splice: Splice,
    repair: RepairMode,
    kind: RequestKind,
    /// The first character of its text that is not white space.
    first: Option<char>,
    /// Set where the call's result is checked: the call completes arguments.
    rollback: Option<Box<RollbackPoint>>,
    /// Text that may name a percentage, if the call was asked for one.
    said: Option<String>,
    /// Bytes that were delivered before it.
    delivered: usize,
    /// Bytes that were given out, those of this call included.
    sent: usize,
    /// The number or string that is cut, where the call asks by words.
    cut_value: Option<CutValue>,
    /// The seam that was reported.
    reported: Option<Seam>,
    /// Bytes that a grammar has allowed after the root: white space.
    after_root: usize,
}

/// How the call has asked for the rest.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// By the original request again.
    Original,
    Reprompt,
    /// By a re-prompt for the whole document.
    Again,
    Prefill {
        /// Delivered text that the provider sends back before new text.
        returned: Option<ReturnedPrefill>,
        /// See [`SpliceRequest`]; for a model that begins again instead.
        believes_early_end: bool,
    },
    /// By a prefill. The answer has other text than the cut word, or than the document that it has
    /// begun again, from this offset on, so none of its text counts.
    OtherText(usize),
    /// By a grammar of the rest.
    Grammar {
        answer: ForcedAnswer,
        /// The answer is the input of a custom tool.
        is_tool_input: bool,
    },
}

/// The text of an answer that a grammar forces.
#[derive(Clone, Debug)]
pub(super) enum ForcedAnswer {
    /// It repeats the end of the delivered text.
    Head(ReturnedPrefill),
    /// It continues at the cut.
    Rest,
    /// It is an object with the parts that are missing.
    Members(Box<RestReader>),
    /// It has begun otherwise: the provider does not enforce the grammar.
    Other,
}

/// How mistakes in the text of a call for the rest are handled.
#[derive(Clone, Debug)]
enum RepairMode {
    /// They stay.
    Kept,
    /// They are repaired before the text is joined. `unreported`: repairs of text that may not be
    /// joined.
    Repaired {
        repairer: Box<PartRepairer>,
        unreported: Vec<Repair>,
    },
    /// They stay. The trial looks for one until some of the text is new; `is_found`: one follows
    /// the repeated text.
    LookedFor { trial: PartRepairer, is_found: bool },
}

impl RequestKind {
    fn mode(&self) -> ContinuationMode {
        match self {
            Self::Prefill { .. } | Self::OtherText(_) => ContinuationMode::Prefill,
            Self::Grammar {
                answer: ForcedAnswer::Members(_),
                ..
            } => ContinuationMode::Schema,
            Self::Grammar { .. } => ContinuationMode::Grammar,
            Self::Again => ContinuationMode::Again,
            Self::Original | Self::Reprompt => ContinuationMode::Reprompt,
        }
    }
}

impl DocumentContinuation {
    /// Waits for the answer of a call, which `splice` joins.
    pub(super) fn new(
        channel: &AnswerChannel,
        decisions: &Decisions,
        splice: Splice,
        kind: RequestKind,
    ) -> Self {
        let delivered = channel.document().text().len();
        let is_tool_call = channel.settings.is_tool_call();
        // A prefill is continued literally: the model has no line of its own to write a number in.
        let has_line = kind.mode() == ContinuationMode::Reprompt;
        let asks_progress = has_line && channel.settings.asks_progress();
        Self {
            repair: match kind {
                // A provider that enforces the grammar makes no mistakes.
                RequestKind::Grammar { .. } => RepairMode::Kept,
                _ => RepairMode::new(channel, decisions, &splice),
            },
            // A model that continues the text itself, or under a grammar, knows where the value ends.
            // In all other calls the request describes the cut.
            cut_value: match kind {
                RequestKind::Reprompt
                | RequestKind::Again
                | RequestKind::Grammar {
                    answer: ForcedAnswer::Members(_),
                    ..
                } => CutValue::of(channel.document()),
                _ => None,
            },
            splice,
            kind,
            first: None,
            // Arguments are executed, so a bad end of them is taken back. Other text is never held
            // for that: a client that reads along wants it immediately.
            rollback: is_tool_call.then(|| Box::new(channel.text.rollback_point())),
            said: asks_progress.then(String::new),
            delivered,
            sent: delivered,
            reported: None,
            after_root: 0,
        }
    }

    pub(super) fn repeats_original(&self) -> bool {
        matches!(self.kind, RequestKind::Original)
    }

    /// Returns whether the rest of the call's text has no use. Small models write white space without
    /// end where a grammar allows nothing else, and an answer that does not follow its grammar is
    /// not joined.
    pub(super) fn is_useless(&self) -> bool {
        self.forced().is_some_and(ForcedAnswer::is_other) || self.after_root > MOST_AFTER_ROOT
    }

    /// Returns the answer that a grammar or a schema forces.
    fn forced(&self) -> Option<&ForcedAnswer> {
        match &self.kind {
            RequestKind::Grammar { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// Returns whether the answer shows that the model follows no grammar. One under a schema does
    /// not: it may be a refusal, whose finish reason is not read. `has_reasoning`: the call has
    /// brought reasoning.
    fn ignores_grammar(&self, has_reasoning: bool) -> bool {
        match self.forced() {
            Some(ForcedAnswer::Other) => true,
            // The server reads all text of the model as reasoning.
            Some(ForcedAnswer::Head(_)) => has_reasoning && self.is_blank(),
            _ => false,
        }
    }

    pub(super) fn is_tool_input(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::Grammar {
                is_tool_input: true,
                ..
            }
        )
    }

    /// Returns whether the call has brought no text.
    pub(super) fn is_blank(&self) -> bool {
        self.splice.pending() == 0 && self.splice.seam().is_none()
    }

    /// Counts a part of the delivered text, for an answer that does not begin as asked. Returns
    /// whether more is left.
    pub(super) fn prepare(&mut self, channel: &AnswerChannel) -> bool {
        let may_differ = matches!(self.kind, RequestKind::Reprompt | RequestKind::Again);
        may_differ && self.splice.prepare(&channel.text.slot)
    }

    /// Takes text.
    pub(super) fn text(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        self.first = self.first.or_else(|| text.trim_start().chars().next());
        let most = channel.settings.limits.parser.max_pending_bytes;
        // A percentage precedes the JSON, so the first bytes of the text are enough.
        if let Some(said) = self.said.as_mut().filter(|said| said.len() < most) {
            said.push_str(text);
        }
        let document = channel.document();
        match &mut self.repair {
            RepairMode::Repaired {
                repairer,
                unreported,
            } => {
                // The repairer withholds the text until it knows where the text begins: a mistake
                // has a position in the grammar, and that depends on the beginning.
                let (repaired, repairs) = repairer.feed(text, document);
                unreported.extend(repairs);
                return self.repaired_text(channel, now, &repaired);
            }
            RepairMode::LookedFor { trial, is_found }
                if document.text().len() == self.delivered =>
            {
                // The trial withholds nothing: its result matters only if this text is not joined.
                *is_found |= !trial.feed(text, document).1.is_empty();
            }
            RepairMode::LookedFor { .. } | RepairMode::Kept => {}
        }
        self.new_text(channel, now, text);
    }

    /// Takes the text that the repair still holds back at the end of the call.
    pub(super) fn end_text(&mut self, channel: &mut AnswerChannel, now: Duration) {
        let document = channel.document();
        match &mut self.repair {
            RepairMode::Repaired {
                repairer,
                unreported,
            } => {
                let (rest, repairs) = repairer.finish(document);
                unreported.extend(repairs);
                self.repaired_text(channel, now, &rest);
            }
            RepairMode::LookedFor { trial, is_found }
                if document.text().len() == self.delivered =>
            {
                *is_found |= !trial.finish(document).1.is_empty();
            }
            RepairMode::LookedFor { .. } | RepairMode::Kept => {}
        }
    }

    fn repaired_text(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        if !text.is_empty() {
            self.new_text(channel, now, text);
        }
        self.report_repairs(channel);
    }

    /// Reports the repairs of text that was joined.
    fn report_repairs(&mut self, channel: &mut AnswerChannel) {
        if let RepairMode::Repaired { unreported, .. } = &mut self.repair
            && self.splice.seam().is_some()
        {
            channel.journal.repaired(std::mem::take(unreported));
        }
    }

    /// Returns the value at the cut, if this call has ended it there.
    pub(super) fn short_value(&self, text: &str) -> Option<&CutValue> {
        self.cut_value
            .as_ref()
            .filter(|value| value.ends_at_cut(text))
    }

    /// Takes text, without a prefill that the provider sends back first.
    fn new_text(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        let (waits, believes_early_end) = match &mut self.kind {
            RequestKind::Prefill {
                returned,
                believes_early_end,
            } => (returned, believes_early_end),
            RequestKind::Grammar { answer, .. } => {
                let Some(new) = answer.feed(channel.document().text(), text) else {
                    return;
                };
                if channel.document().is_complete() {
                    self.after_root = self.after_root.saturating_add(text.len());
                }
                // Nothing is compared with the delivered text: the new text belongs at the cut.
                if self.splice.seam().is_none() {
                    let limits = &channel.settings.limits;
                    self.splice = Splice::at_cut(&channel.text.slot, limits);
                }
                return self.join(channel, now, &new);
            }
            RequestKind::OtherText(_) => return,
            RequestKind::Original | RequestKind::Reprompt | RequestKind::Again => {
                return self.join(channel, now, text);
            }
        };
        let believes_early_end = *believes_early_end;
        let Some(mut returned) = waits.take() else {
            return self.join(channel, now, text);
        };
        match returned.feed(channel.document().text(), text) {
            NewText::Begins(new) => {
                if returned.begins_again() {
                    // The model began again, in other words: the text may continue anywhere, and
                    // not only at the end of the prefill.
                    let request = SpliceRequest {
                        believes_early_end,
                        ..Expect::Any.into()
                    };
                    let limits = &channel.settings.limits;
                    self.splice = Splice::new(&channel.text.slot, request, limits);
                }
                self.join(channel, now, &new);
            }
            NewText::Waits => *waits = Some(returned),
            NewText::Differs(offset) => self.kind = RequestKind::OtherText(offset),
        }
    }

    fn join(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        let delivered = &mut channel.text;
        // A failure is reported once, when the call ends.
        let _ = self.splice.feed_with(
            &mut delivered.slot,
            text,
            &mut (&mut delivered.sections, &mut delivered.check),
        );
        let document = channel.document();
        // Arguments that were completed by this call alone are checked before they are sent, at its
        // end.
        let is_unsent = self.sent == self.delivered || channel.settings.sends_at_end;
        let end = document.root_end().filter(|_| self.rollback.is_some());
        let waits = is_unsent && end.is_some();
        let sent = match end {
            _ if waits => self.sent,
            // Later text may show that the arguments do not end here, and a client executes closed
            // ones. So the last bracket waits.
            Some(end) => self.sent.max(end.saturating_sub(1)),
            None => document.text().len(),
        };
        // A bracket that closes a container too early is not given out, and nothing after it.
        let sent = match channel.text.new_shortfall() {
            Some(short) => sent.min(short.end).max(self.sent),
            None => sent,
        };
        // Nothing that was given out is taken back, so `sent` only grows.
        let before = std::mem::replace(&mut self.sent, sent);
        if waits {
            return;
        }
        if self.reported.is_none()
            && let Some(seam) = self.splice.seam().cloned()
        {
            self.reported = Some(seam.clone());
            let candidates = self.splice.candidates().to_vec();
            channel.journal.joined(now, seam, candidates);
        }
        channel.give_out_to(before, sent);
    }

    /// Ends the call, and decides about the next step. `has_reasoning`: it has brought reasoning.
    pub(super) fn finish(
        mut self,
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
        has_reasoning: bool,
    ) -> NextStep {
        let mode = self.kind.mode();
        // The capability table was wrong about the provider, or the delivered text does not follow
        // the format. Neither the model nor the network has failed, so nothing is counted.
        let is_form_refused = match (mode, end) {
            (ContinuationMode::Reprompt, _) => false,
            (ContinuationMode::Again, CallEnd::Rejected { transient, .. }) => !transient,
            (_, end) => matches!(end, CallEnd::FormRejected(_)),
        };
        if is_form_refused {
            leave_rung(channel, mode);
            if mode == ContinuationMode::Again {
                decisions.counters.at_cut.attempts.count(mode, None);
            }
            channel.journal.uncount_call();
            return NextStep::Call(Duration::ZERO);
        }
        // The client gets the rest as text, whatever brought it.
        let as_text = CallEnd::Finished(Finish::Stop);
        let end = match end {
            CallEnd::Finished(Finish::ToolCalls) if self.is_tool_input() => &as_text,
            end => end,
        };
        if let Some(reason) = end.refusal() {
            // What the refusal is about is unknown: perhaps the form. Words are understood everywhere.
            match (mode, end) {
                (_, CallEnd::Unavailable { .. }) => {}
                (ContinuationMode::Again, _) => {
                    decisions.counters.at_cut.attempts.count(mode, None);
                }
                (
                    ContinuationMode::Grammar | ContinuationMode::Schema,
                    CallEnd::Rejected { .. },
                ) => leave_rung(channel, mode),
                _ => {}
            }
            let reason = FailureReason::Rejected(reason.to_owned());
            return decisions.failed(channel, now, reason, end);
        }
        if let Some(said) = self.said.take() {
            decisions.note_progress(&mut channel.journal, &said);
        }
        let delivered = &mut channel.text;
        let merged = match self.kind {
            RequestKind::OtherText(offset) => Err(SpliceError::Differs(offset)),
            _ if self.is_blank() && self.forced().is_some_and(ForcedAnswer::contradicts) => {
                Err(SpliceError::Differs(self.delivered))
            }
            _ => self.splice.finish_with(
                &mut delivered.slot,
                &mut (&mut delivered.sections, &mut delivered.check),
            ),
        };
        if let Some(reason) = self.new_document(channel, &merged) {
            leave_rung(channel, mode);
            channel.journal.discarded(reason);
            decisions.cut(channel, now, end, 0);
            return NextStep::Call(Duration::ZERO);
        }
        // After another word the next prefill ends elsewhere. Any other prefill would bring the same
        // text again, so the next call is a re-prompt. An empty answer does not show that prefills
        // fail.
        let prefill = &mut channel.settings.strategy.prefill;
        let rewrites = matches!(self.kind, RequestKind::OtherText(_))
            && prefill.is_some_and(|prefill| prefill.keeps_format);
        let fails = |failure: &SpliceError| *failure != SpliceError::Empty;
        if mode == ContinuationMode::Prefill && !rewrites && merged.as_ref().is_err_and(fails) {
            *prefill = None;
        }
        let known = decisions.counters.at_cut.shortfall.take();
        let (merged, violation) = match self.check_arguments(channel, decisions, merged) {
            Ok(checked) => checked,
            Err(reason) => {
                decisions.cut(channel, now, end, 0);
                return decisions.failed(channel, now, reason, end);
            }
        };
        let shortfall = channel.text.new_shortfall().cloned();
        if let Some(short) = &shortfall {
            channel.text.truncate(short.end, &channel.settings);
        }
        self.report(channel, now);
        let finish = end.finish().cloned();
        let document = channel.document();
        let added = document.text().len().saturating_sub(self.delivered);
        if document.is_complete() {
            // The root was closed too early: delivering it as whole would lose the JSON after it.
            // Arguments were checked above.
            if !channel.settings.is_tool_call() && has_more_json(document, self.splice.after_root())
            {
                decisions.cut(channel, now, end, added);
                return NextStep::GiveUp(StopReason::MoreJson, None);
            }
            // The calls after the one that was cut may never have begun.
            let is_tool_call = channel.settings.is_tool_call();
            channel.journal.stats.calls_unknown |= is_tool_call;
            if channel.text.lacks_required() {
                // The model itself left out what is missing, and the text after it was sent.
                channel.journal.stats.schema_violation = violation;
                decisions.cut(channel, now, end, added);
                return NextStep::GiveUp(StopReason::Schema, None);
            }
            let stats = &mut channel.journal.stats;
            stats.schema_violation = violation;
            return NextStep::Done(Box::new(Outcome::Complete {
                end: end.cause().filter(|_| finish.is_none()),
                finish: finish.map(finish_of_whole),
                tally: stats.clone(),
            }));
        }
        let forced = self.forced();
        let is_unenforced = forced.is_some_and(|answer| answer.is_unenforced(&merged, end));
        let is_in_head = matches!(forced, Some(ForcedAnswer::Head(_)));
        // A call with new text makes a new cut, whose questions begin at the first one. A call
        // without any leads to another question at the same cut.
        decisions.cut(channel, now, end, added);
        if added > 0 {
            let is_malformed = left_the_document(&merged);
            let cause = is_malformed.then_some(CutCause::Malformed);
            let early_ends = u32::from(merged == Err(SpliceError::EarlyEnd));
            decisions.note_growth(end, cause.or_else(|| end.cause()), early_ends);
        } else if is_answer(&merged, end) && !is_unenforced {
            let counters = &mut decisions.counters;
            counters.at_cut.attempts.count(mode, merged.as_ref().err());
            let is_found = matches!(self.repair, RepairMode::LookedFor { is_found: true, .. });
            counters.at_cut.has_mistake |= merged.is_err() && is_found;
        }
        if let Some(found) = shortfall {
            return decisions.fell_short(channel, now, (known, found), end);
        }
        decisions.counters.at_cut.shortfall = known.filter(|_| added == 0);
        // An error may be about the form. The next rung has none.
        if matches!(end, CallEnd::Error(_)) && is_in_head {
            leave_rung(channel, mode);
        }
        if is_unenforced && !decisions.is_stopped() {
            // The table was wrong again: the next rung, without a failure.
            leave_rung(channel, mode);
            // A stop sequence of the client may have ended the answer.
            if self.ignores_grammar(has_reasoning) && !channel.settings.trusts_stop {
                channel.journal.discarded(FailureReason::Unenforced);
            }
            return NextStep::Call(Duration::ZERO);
        }
        // A refusal ends with `stop`, too: it is a failure, whatever stop sequences there are.
        let failed_to_merge = merged.is_err() && finish == Some(Finish::Stop);
        match finish.filter(|reason| !channel.settings.continues_after(reason) && !failed_to_merge)
        {
            Some(reason) => NextStep::GiveUp(StopReason::Finish, Some(reason)),
            None => decisions.after_merge(channel, now, end, merged, added > 0),
        }
    }

    /// Returns why the answer to a prefill counts as no answer: it opens a root where none is legal,
    /// so the provider does not continue the prefill.
    fn new_document(
        &self,
        channel: &AnswerChannel,
        merged: &Result<Seam, SpliceError>,
    ) -> Option<FailureReason> {
        let is_unjoined = merged
            .as_ref()
            .is_err_and(|failure| !matches!(failure, SpliceError::Empty | SpliceError::EarlyEnd));
        let adds_nothing = channel.document().text().len() == self.delivered;
        let prefill = channel.settings.strategy.prefill?;
        // A fence precedes the root of a new answer. A returned prefill looks like one.
        let is_root = matches!(self.first, Some('{' | '[' | '`')) && !prefill.returns_prefill;
        let is_prefill = self.kind.mode() == ContinuationMode::Prefill;
        let keeps_format = prefill.keeps_format;
        (is_prefill && is_unjoined && adds_nothing && is_root)
            .then_some(FailureReason::NewDocument { keeps_format })
    }

    /// Checks arguments that the call has completed: takes them back where JSON follows them, or
    /// where they violate their tool's schema in a new way. Returns how the call was joined, and
    /// where the arguments violate the schema.
    fn check_arguments(
        &mut self,
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        mut merged: Result<Seam, SpliceError>,
    ) -> Result<(Result<Seam, SpliceError>, Option<String>), FailureReason> {
        // Only text that no client has can be taken back.
        let is_unsent = self.sent == self.delivered || channel.settings.sends_at_end;
        let rollback = self.rollback.take().filter(|_| is_unsent);
        if let Some(error) = self.error_after_arguments(channel) {
            let error = SpliceError::Malformed(error);
            if let Some(rollback) = rollback {
                channel.text.roll_back(*rollback);
                decisions
                    .counters
                    .at_cut
                    .attempts
                    .count(self.kind.mode(), Some(&error));
                return Err(FailureReason::Merge(error));
            }
            // A part was sent, so only the bracket that closed the arguments is taken back: it has
            // waited.
            channel.text.truncate(self.sent, &channel.settings);
            merged = Err(error);
        }
        let violation = channel.text.violation();
        if let Some(rollback) = rollback
            && let Some(path) = &violation
            && decisions.counters.is_new_violation(path)
        {
            decisions.counters.at_cut.shortfall = channel.text.new_shortfall().cloned();
            channel.text.roll_back(*rollback);
            decisions
                .counters
                .at_cut
                .attempts
                .count(self.kind.mode(), None);
            return Err(FailureReason::Schema(path.clone()));
        }
        Ok((merged, violation))
    }

    /// Returns the error for JSON after arguments that the call has closed: it shows that they were
    /// closed too early. Only white space, a fence and prose may follow.
    fn error_after_arguments(&self, channel: &AnswerChannel) -> Option<SyntaxError> {
        let offset = channel
            .document()
            .root_end()
            .filter(|_| channel.settings.is_tool_call())?;
        // A letter may begin a remark, so it is no evidence of JSON.
        let is_json =
            |c: &char| matches!(c, ',' | ':' | '[' | ']' | '{' | '}' | '"' | '-' | '0'..='9');
        let byte = u8::try_from(self.splice.after_root().chars().next().filter(is_json)?).ok()?;
        Some(SyntaxError {
            kind: SyntaxErrorKind::TrailingText(byte),
            offset,
        })
    }

    /// Reports the seam and the repairs of the whole call, and gives out the rest of its text.
    fn report(&mut self, channel: &mut AnswerChannel, now: Duration) {
        match (self.splice.seam(), &self.reported) {
            (Some(seam), None) => {
                let candidates = self.splice.candidates().to_vec();
                channel.journal.joined(now, seam.clone(), candidates);
            }
            // Flags may come long after the seam: for an ellipsis instead of the last elements, or
            // for illegal text.
            (Some(seam), reported) => {
                let stats = &mut channel.journal.stats;
                stats.count_flags(seam, reported.as_ref());
            }
            (None, _) => {}
        }
        // The byte after the cut may wait long after the seam, so the value is judged at the call's
        // end.
        if let Some(value) = self.short_value(channel.document().text()) {
            channel.journal.stats.note_cut_value(value);
        }
        channel.give_out(self.sent);
        self.report_repairs(channel);
        if self.splice.seam().is_some() {
            let repairs = self.splice.repairs().iter();
            let rules = repairs.map(|repair| repair.rule.as_str());
            channel.journal.count_repairs(rules);
        }
    }
}

impl ForcedAnswer {
    /// Returns whether the answer has another form than was asked for.
    fn is_other(&self) -> bool {
        match self {
            Self::Other => true,
            Self::Members(reader) => reader.has_failed(),
            Self::Head(_) | Self::Rest => false,
        }
    }

    fn contradicts(&self) -> bool {
        matches!(self, Self::Members(reader) if reader.contradicts())
    }

    /// Takes text. Returns the new text, once it has repeated all of the head.
    fn feed<'t>(&mut self, delivered: &str, text: &'t str) -> Option<Cow<'t, str>> {
        match self {
            Self::Head(head) => {
                let (next, new) = match head.feed(delivered, text) {
                    NewText::Waits => return None,
                    NewText::Begins(new) => (Self::Rest, Some(new)),
                    NewText::Differs(_) => (Self::Other, None),
                };
                *self = next;
                new
            }
            Self::Rest => Some(Cow::Borrowed(text)),
            Self::Members(reader) => {
                let new = reader.feed(text);
                (!new.is_empty()).then_some(Cow::Owned(new))
            }
            Self::Other => None,
        }
    }

    /// Returns whether an answer shows that the provider does not enforce the grammar: it has other
    /// text, or it has ended before its head was whole.
    fn is_unenforced(&self, merged: &Result<Seam, SpliceError>, end: &CallEnd) -> bool {
        match self {
            // A filter ends answers of any form.
            _ if matches!(end, CallEnd::Finished(Finish::ContentFilter)) => false,
            Self::Other => true,
            // A limit, a filter or an error may have ended it.
            Self::Head(_) => matches!(end, CallEnd::Finished(Finish::Stop)),
            // The model has made a mistake that no schema excludes.
            Self::Members(_) if self.contradicts() => false,
            Self::Members(_) if self.is_other() => true,
            Self::Members(_) if matches!(end, CallEnd::Finished(Finish::Stop)) => true,
            // A key that comes twice follows the grammar.
            Self::Rest | Self::Members(_) => matches!(
                merged,
                Err(SpliceError::Malformed(_) | SpliceError::EarlyEnd)
            ),
        }
    }
}

impl RepairMode {
    /// Returns how mistakes in the text of the next call are handled before `splice` joins it. In
    /// an answer without a mistake so far, an apparent mistake is more likely noise around the
    /// seam. Only text that fitted nowhere and had a mistake right after its repeated part is
    /// evidence of a real one (the test `what_fitted_nowhere_is_repaired_when_it_comes_again`).
    fn new(channel: &AnswerChannel, decisions: &Decisions, splice: &Splice) -> Self {
        if !channel.settings.repairs_text() {
            return Self::Kept;
        }
        let repairer = PartRepairer::new(channel.settings.repair.clone(), splice);
        match repairs_next(channel, decisions) {
            true => Self::Repaired {
                repairer: Box::new(repairer),
                unreported: Vec::new(),
            },
            false => Self::LookedFor {
                trial: repairer,
                is_found: false,
            },
        }
    }
}

// The end of the stream follows a root at once, and has the call's usage.
/// Bytes of white space after the root with which a forced answer counts as over.
const MOST_AFTER_ROOT: usize = 256;

/// Never asks in this form again. A prefill under the request's format is followed by one without
/// the format, and that by none.
fn leave_rung(channel: &mut AnswerChannel, mode: ContinuationMode) {
    let strategy = &mut channel.settings.strategy;
    match mode {
        ContinuationMode::Reprompt | ContinuationMode::Again => {}
        ContinuationMode::Grammar | ContinuationMode::Schema => {
            strategy.grammar = GrammarForm::None;
        }
        ContinuationMode::Prefill => {
            strategy.prefill =
                strategy
                    .prefill
                    .filter(|prefill| prefill.keeps_format)
                    .map(|prefill| PrefillOptions {
                        keeps_format: false,
                        ..prefill
                    });
        }
    }
}

/// Returns whether the text of the next call is repaired before it is joined.
pub(super) fn repairs_next(channel: &AnswerChannel, decisions: &Decisions) -> bool {
    let repairs = &channel.journal.stats.repairs;
    let has_mistakes = RepairRule::ALL
        .iter()
        .any(|rule| repairs.contains_key(rule.as_str()));
    let is_malformed = decisions
        .last_cut()
        .is_some_and(|cut| cut.cause == Some(CutCause::Malformed));
    let is_due = has_mistakes || is_malformed || decisions.counters.at_cut.has_mistake;
    is_due && channel.settings.repairs_text()
}

/// Returns whether a call that added nothing was answered, so that the same question would bring
/// the same answer. A call that was lost before it brought new text is repeated unchanged.
fn is_answer(merged: &Result<Seam, SpliceError>, end: &CallEnd) -> bool {
    match merged {
        Ok(_) => !broke_off(end),
        Err(SpliceError::Empty) => matches!(end, CallEnd::Finished(_)),
        Err(_) => true,
    }
}

/// Returns whether a continuation was joined, and then left the grammar, contradicted the delivered
/// text or repeated the prompt.
fn left_the_document(merged: &Result<Seam, SpliceError>) -> bool {
    matches!(
        merged,
        Err(SpliceError::Malformed(_)
            | SpliceError::Overwrites(_)
            | SpliceError::Differs(_)
            | SpliceError::OwnWords)
    )
}
