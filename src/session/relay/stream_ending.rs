//! The end of an answer, where the relay writes it.

use std::time::Duration;

use super::answer::RelayedAnswer;
use super::upstream_call::StreamPhase;
use super::{Output, TransportEnd};
use crate::provider::Finish;
use crate::provider::wire::{Ending, Framing, SlotKind, Writer};
use crate::session::slots::Slots;
use crate::session::wire::{failure, finish_reason};
use crate::session::{CallEnd, Input, Outcome};

/// The end of an answer that is done, while the relay writes it.
pub(super) struct StreamEnding<'a> {
    answer: &'a mut RelayedAnswer,
    outcome: Outcome,
    report: String,
    out: Vec<u8>,
}

impl<'a> StreamEnding<'a> {
    /// Writes the end of the stream for an answer that is done. `was_dropped`: the upstream did not
    /// end the last call.
    pub(super) fn write(answer: &'a mut RelayedAnswer, now: Duration, was_dropped: bool) {
        let Some(outcome) = answer.slots.outcome() else {
            debug_assert!(false, "every slot that was asked for has an outcome");
            return;
        };
        let mut end = Self {
            report: outcome.report(),
            answer,
            outcome,
            out: Vec::new(),
        };
        let transport_end = match &end.outcome {
            Outcome::Failed { .. } => end.failure(),
            Outcome::Incomplete { .. } => end.incomplete(),
            outcome if finish_reason(outcome).is_some() => {
                end.close_fence();
                end.finish()
            }
            _ => {
                end.known_reasons();
                end.as_upstream(was_dropped)
            }
        };
        let Self {
            answer,
            outcome,
            out,
            ..
        } = end;
        answer.client.events(now, out);
        end_with(answer, outcome, transport_end);
    }

    /// Ends a stream whose first answer passes through.
    pub(super) fn pass(answer: &'a mut RelayedAnswer, now: Duration, end: CallEnd) {
        if !answer.client.ends.finish {
            answer.end_text(now, |first| first.release());
            if answer.call.is_whole(&answer.slots) && !answer.call.ends.has_sent_early() {
                return Self::pass_whole(answer, now, &end);
            }
        }
        let limit = end.limit().or(answer.client.limit.as_ref()).cloned();
        let mut transport_end = if end == CallEnd::Closed {
            TransportEnd::Closed
        } else {
            TransportEnd::Dropped
        };
        let is_whole = answer.call.is_whole(&answer.slots);
        let RelayedAnswer {
            slots,
            client,
            call,
            ..
        } = answer;
        if transport_end == TransportEnd::Dropped && is_whole {
            // The upstream has sent how the answer ended; only the end of the stream was lost.
            call.drop_unsent(client, now);
            // No event may follow an error.
            if !client.ends.done && !matches!(call.ends.last, Some(CallEnd::Error(_))) {
                client.write(now, |writer, out| writer.done(out));
            }
            transport_end = TransportEnd::Closed;
        } else {
            call.raw.held = None;
            // Half an event would hide the error that follows.
            let is_error_due = call.phase.is_open() && limit.is_some() && !client.has_end();
            let to = match is_error_due {
                true => call.decoder.boundary(),
                false => u64::MAX,
            };
            call.forward(client, now, to);
        }
        let end = match call.ends.last.take() {
            Some(last) => last,
            None => call.ends.end_or_early(end),
        };
        let usage = call.usage.reported.take();
        client.outputs.extend(usage.map(Output::Usage));
        slots.pass();
        let session = slots.session_mut();
        session.handle_input(now, Input::CallEnd(end));
        let mut outcome = client.take_outcome(slots).unwrap_or_else(|| {
            debug_assert!(
                false,
                "a session that passes is done at the end of its call"
            );
            Outcome::PassedThrough {
                finish: None,
                tally: slots.session().tally().clone(),
            }
        });
        outcome.tally_mut().limit = slots.limit().or(limit.as_ref()).cloned();
        if call.phase.is_unread()
            && transport_end == TransportEnd::Closed
            && slots.limit().is_some()
        {
            client.report_unread(now, &outcome);
        }
        if outcome.tally().malformed && limit.is_none() {
            client.report_malformed(now, call.phase.is_open(), &outcome);
        }
        if let Some(limit) = limit.filter(|_| transport_end == TransportEnd::Dropped) {
            client.report_break(now, call.phase.is_open(), &limit, &outcome);
        }
        end_with(answer, outcome, transport_end);
    }

    /// Ends the stream of a first answer whose document is whole, and whose upstream sent no finish:
    /// it was reset, fell silent, or ended too early. Nothing of the document was lost, so the
    /// stream ends as the API's streams do. The report says that this end is not the upstream's.
    fn pass_whole(answer: &'a mut RelayedAnswer, now: Duration, end: &CallEnd) {
        // The held-back events belong to the lost end.
        answer.call.drop_unsent(&mut answer.client, now);
        answer.slots.session_mut().end_if_whole(now, end);
        let Some(outcome) = answer.client.take_outcome(&mut answer.slots) else {
            debug_assert!(false, "a session is done at the end of its document");
            return;
        };
        answer.slots.list.entry_mut().keep(outcome);
        Self::write(answer, now, true);
    }

    /// Ends the stream as the upstream ended it.
    fn as_upstream(&mut self, was_dropped: bool) -> TransportEnd {
        // A client that gets a clean end would take a broken stream for a whole one.
        if was_dropped {
            return TransportEnd::Dropped;
        }
        let client = &mut self.answer.client;
        if self.answer.summary.is.done || client.framing == Framing::Array {
            client.writer.done(&mut self.out);
        }
        TransportEnd::Closed
    }

    /// Closes the fence of an answer whose own end was never sent.
    fn close_fence(&mut self) {
        let slot = self.answer.slots.slot();
        let document = self.answer.slots.session().document();
        // A fence that stays open would hide the text after it where the answer is shown.
        let fence = document
            .open_fence()
            .filter(|_| self.outcome.finish().is_none());
        if let Some(fence) = fence.filter(|_| slot.kind == SlotKind::Text) {
            self.answer.client.writer.text(&mut self.out, slot, &fence);
        }
    }

    /// Writes the end of all choices that the client has not seen end.
    fn finish(&mut self) -> TransportEnd {
        let slots = &self.answer.slots;
        let reasons: Vec<_> = self
            .open_choices()
            .map(|choice| (choice, slots.reason(choice)))
            .collect();
        let ending = Ending {
            reasons: &reasons,
            usage: self.answer.totals.usages.as_deref(),
            usage_apart: self.answer.call.usage.is_apart,
            report: Some(&self.report),
        };
        let texts = slots.list.texts(|entry| entry.has_begun);
        let writer = &mut self.answer.client.writer;
        writer.finish(&mut self.out, &texts, &ending);
        writer.done(&mut self.out);
        TransportEnd::Closed
    }

    /// Writes the known finish reasons of choices that the client has not seen end, where the
    /// answer itself has no reason.
    fn known_reasons(&mut self) {
        let slots = &self.answer.slots;
        let known = |choice| Some((choice, slots.known_reason(choice)?));
        let reasons: Vec<_> = self.open_choices().filter_map(known).collect();
        let writer = &mut *self.answer.client.writer;
        write_ends(writer, slots, &mut self.out, &reasons);
    }

    /// Returns the choices that the client has not seen end.
    fn open_choices(&self) -> impl Iterator<Item = u32> {
        let finished = &self.answer.client.ends.finished;
        let choices = self.answer.slots.list.choices().into_iter();
        choices.filter(|choice| !finished.contains(choice))
    }

    fn failure(&mut self) -> TransportEnd {
        let began = self.answer.slots.session().channel.text.has_begun();
        let reason = self.answer.totals.last_error.as_deref();
        let (message, code) = failure(&self.outcome, began, reason);
        let writer = &mut self.answer.client.writer;
        writer.error(&mut self.out, &message, code, &self.report);
        TransportEnd::Closed
    }

    /// Ends the stream like the first cut, or like a later, worse one, so that a client sees the
    /// failure which it would have seen without a continuation.
    fn incomplete(&mut self) -> TransportEnd {
        // The upstream's own reason shows the client that the answer is cut.
        if self.outcome.finish().is_some() {
            return self.finish();
        }
        self.known_reasons();
        let cut = self.answer.slots.session().decisions.last_cut();
        let (writer, out) = (&mut self.answer.client.writer, &mut self.out);
        match cut.map(|cut| &cut.given_up) {
            Some(CallEnd::Error(message)) => {
                let (message, code) = failure(&self.outcome, true, Some(message));
                writer.error(out, &message, code, &self.report);
                TransportEnd::Closed
            }
            // No finish event can carry the report, so it is a separate event.
            Some(CallEnd::Closed) => {
                writer.report(out, &self.report);
                TransportEnd::Closed
            }
            _ => {
                writer.report(out, &self.report);
                TransportEnd::Dropped
            }
        }
    }
}

/// Writes finish reasons without a report, which the end of the answer will bring.
pub(super) fn write_ends(
    writer: &mut dyn Writer,
    slots: &Slots,
    out: &mut Vec<u8>,
    reasons: &[(u32, Finish)],
) {
    if !reasons.is_empty() {
        let ending = Ending {
            reasons,
            usage: None,
            usage_apart: false,
            report: None,
        };
        writer.finish(out, &slots.list.texts(|entry| entry.has_begun), &ending);
    }
}

/// Ends the answer.
fn end_with(answer: &mut RelayedAnswer, outcome: Outcome, transport_end: TransportEnd) {
    answer.call.phase = StreamPhase::Done;
    let slot = answer.slots.slot().kind;
    answer.client.outputs.push_back(Output::Done {
        outcome,
        slot,
        transport_end,
    });
}
