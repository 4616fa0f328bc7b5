//! How a relayed stream ends.

use std::time::Duration;

use super::send::LinePlace;
use super::{Output, Phase, Relay, TransportEnd};
use crate::provider::Finish;
use crate::provider::wire::{Ending, Framing, SlotKind};
use crate::session::wire::{failure, finish_reason};
use crate::session::{self, CallEnd, Input, LimitReached, Outcome, Tally};

impl Relay {
    /// Writes the end of the stream for an answer that is done.
    pub(super) fn finalize(&mut self, now: Duration, was_dropped: bool) {
        let Some(outcome) = self.slots.outcome() else {
            debug_assert!(false, "every slot that was asked for has an outcome");
            return;
        };
        let mut out = Vec::new();
        let report = outcome.report();
        let transport_end = match &outcome {
            Outcome::Failed { .. } => self.write_failure(&mut out, &outcome, &report),
            Outcome::Incomplete { .. } => self.leave(&mut out, &outcome, &report),
            _ if finish_reason(&outcome).is_some() => {
                self.close_fence(&mut out, &outcome);
                self.write_finish(&mut out, &report)
            }
            _ if was_dropped => {
                self.write_known_ends(&mut out);
                TransportEnd::Dropped
            }
            _ => {
                self.write_known_ends(&mut out);
                if self.event_summary.is.done || self.framing() == Framing::Array {
                    self.writer.done(&mut out);
                }
                TransportEnd::Closed
            }
        };
        self.send_events(now, out);
        self.end_with(outcome, transport_end);
    }

    /// Closes the fence of an answer whose own end was never sent.
    fn close_fence(&mut self, out: &mut Vec<u8>, outcome: &Outcome) {
        let slot = self.slots.slot();
        let fence = self
            .session()
            .document()
            .open_fence()
            .filter(|_| outcome.finish().is_none());
        if let Some(fence) = fence.filter(|_| slot.kind == SlotKind::Text) {
            self.writer.text(out, slot, &fence);
        }
    }

    /// Writes the end of all choices that the client has not seen end.
    fn write_finish(&mut self, out: &mut Vec<u8>, report: &str) -> TransportEnd {
        let reasons: Vec<_> = self
            .open_choices()
            .map(|choice| (choice, self.slots.reason(choice)))
            .collect();
        let usage = self.upstream.usages.take();
        let usage_apart = self.call.usage_apart;
        let ending = Ending {
            reasons: &reasons,
            usage: usage.as_deref(),
            usage_apart,
            report: Some(report),
        };
        self.writer.finish(
            out,
            &self.slots.list.texts(|entry| entry.has_begun),
            &ending,
        );
        self.writer.done(out);
        TransportEnd::Closed
    }

    /// Writes the known finish reasons of choices that the client has not seen end, where the
    /// answer itself has no reason.
    fn write_known_ends(&mut self, out: &mut Vec<u8>) {
        let known = |choice| Some((choice, self.slots.known_reason(choice)?));
        let reasons: Vec<_> = self.open_choices().filter_map(known).collect();
        self.write_ends(out, &reasons);
    }

    /// Writes the finish reasons that the client lacks, where the rest of the answer passes unread.
    pub(super) fn write_withheld_ends(&mut self, now: Duration) {
        if self.call.withheld.is_empty() {
            return;
        }
        let open = |(choice, _): &&(u32, Finish)| !self.client.finished.contains(choice);
        let reasons: Vec<_> = self
            .call
            .ends
            .reasons()
            .iter()
            .filter(open)
            .cloned()
            .collect();
        let mut out = Vec::new();
        self.write_ends(&mut out, &reasons);
        self.client
            .finished
            .extend(reasons.iter().map(|(choice, _)| *choice));
        self.send_events(now, out);
    }

    /// Writes finish reasons without a report, which the end of the answer will bring.
    fn write_ends(&mut self, out: &mut Vec<u8>, reasons: &[(u32, Finish)]) {
        if !reasons.is_empty() {
            let ending = Ending {
                reasons,
                usage: None,
                usage_apart: false,
                report: None,
            };
            self.writer.finish(
                out,
                &self.slots.list.texts(|entry| entry.has_begun),
                &ending,
            );
        }
    }

    /// Returns the choices that the client has not seen end.
    fn open_choices(&self) -> impl Iterator<Item = u32> {
        self.slots
            .list
            .choices()
            .into_iter()
            .filter(|choice| !self.client.finished.contains(choice))
    }

    fn write_failure(
        &mut self,
        out: &mut Vec<u8>,
        outcome: &Outcome,
        report: &str,
    ) -> TransportEnd {
        let began = self.session().channel.text.has_begun();
        let (message, code) = failure(outcome, began, self.upstream.last_error.as_deref());
        self.writer.error(out, &message, code, report);
        TransportEnd::Closed
    }

    /// ChoiceEnds the stream like the first cut, or like a later, worse one, so that a client sees the
    /// failure which it would have seen without a continuation.
    fn leave(&mut self, out: &mut Vec<u8>, outcome: &Outcome, report: &str) -> TransportEnd {
        if outcome.finish().is_some() {
            return self.write_finish(out, report);
        }
        self.write_known_ends(out);
        match self.session().decisions.last_cut().map(|cut| &cut.given_up) {
            Some(CallEnd::Error(message)) => {
                let (message, code) = failure(outcome, true, Some(message));
                self.writer.error(out, &message, code, report);
                TransportEnd::Closed
            }
            // No finish event can carry the report, so it is a separate event.
            Some(CallEnd::Closed) => {
                self.writer.report(out, report);
                TransportEnd::Closed
            }
            _ => {
                self.writer.report(out, report);
                TransportEnd::Dropped
            }
        }
    }

    /// ChoiceEnds a stream whose first answer passes through.
    pub(super) fn passed(&mut self, now: Duration, end: CallEnd) {
        if !self.client.finish {
            self.release(now);
            if self.is_whole() && !self.call.early.as_ref().is_some_and(|early| early.is_sent) {
                return self.end_whole(now, &end);
            }
        }
        let limit = end.limit().or(self.client.limit.as_ref()).cloned();
        let mut transport_end = if end == CallEnd::Closed {
            TransportEnd::Closed
        } else {
            TransportEnd::Dropped
        };
        if transport_end == TransportEnd::Dropped && self.is_whole() {
            // The upstream has sent how the answer ended; only the end of the stream was lost.
            self.withhold(now);
            // No event may follow an error.
            if !self.client.done && !matches!(self.call.end, Some(CallEnd::Error(_))) {
                self.write(now, |writer, out| writer.done(out));
            }
            transport_end = TransportEnd::Closed;
        } else {
            self.call.held = None;
            // Half an event would hide the error that follows.
            let is_read =
                matches!(self.phase, Phase::Open) && limit.is_some() && !self.client.has_end();
            self.forward(
                now,
                if is_read {
                    self.call.decoder.boundary()
                } else {
                    u64::MAX
                },
            );
        }
        let end = self
            .call
            .end
            .take()
            .unwrap_or_else(|| self.end_or_early(end));
        self.outputs
            .extend(self.call.usage.take().map(Output::Usage));
        self.slots.pass();
        self.slots
            .session_mut()
            .handle_input(now, Input::CallEnd(end));
        let mut outcome = None;
        while let Some(output) = self.slots.session_mut().poll_output() {
            match output {
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Done(done) => outcome = Some(done),
                session::Output::Text(_) | session::Output::Call { .. } => {}
            }
        }
        debug_assert!(
            outcome.is_some(),
            "a session that passes is done at the end of its call"
        );
        let tally = || Tally::clone(self.session().tally());
        let mut outcome = outcome.unwrap_or_else(|| Outcome::PassedThrough {
            finish: None,
            tally: tally(),
        });
        outcome.tally_mut().limit.clone_from(&limit);
        self.report_limit(now, &mut outcome, transport_end);
        if let Some(limit) = limit.filter(|_| transport_end == TransportEnd::Dropped) {
            self.report_break(now, &limit, &outcome);
        }
        self.end_with(outcome, transport_end);
    }

    /// Writes an error with the reason why the stream breaks off, if the client is not in the
    /// middle of an event. The end of an unread stream can't be detected; clients read nothing
    /// after it.
    fn report_break(&mut self, now: Duration, limit: &LimitReached, outcome: &Outcome) {
        let is_between = match self.framing() {
            Framing::Events => self.client.at == LinePlace::Block,
            Framing::Lines => self.client.at.is_at_line(),
            Framing::Array => matches!(self.phase, Phase::Open),
        };
        if is_between && !self.client.has_end() {
            let message = format!("the answer breaks off here: the limit `{limit}` is reached");
            self.write(now, |writer, out| {
                writer.error(out, &message, &limit.name, &outcome.report())
            });
        }
    }

    /// ChoiceEnds the stream of a first answer whose document is whole, and whose upstream sent no
    /// finish: it was reset, fell silent, or ended too early. Nothing of the document was lost, so
    /// the stream ends as the API's streams do. The report says that this end is not the
    /// upstream's.
    fn end_whole(&mut self, now: Duration, end: &CallEnd) {
        // The held-back events belong to the lost end.
        self.withhold(now);
        self.slots.session_mut().end_if_whole(now, end);
        let Some(outcome) = self.drain(now) else {
            debug_assert!(false, "a session is done at the end of its document");
            return;
        };
        self.slots.list.entry_mut().keep(outcome);
        self.finalize(now, true);
    }

    /// Names the limit that a passing answer has reached: in its outcome, and in a comment after an
    /// event stream that was not read to its end. A comment does not change the last event.
    fn report_limit(&mut self, now: Duration, outcome: &mut Outcome, transport_end: TransportEnd) {
        let limit = &mut outcome.tally_mut().limit;
        *limit = self.slots.limit().cloned().or(limit.take());
        let is_at_line = matches!(self.phase, Phase::Unread)
            && self.framing() == Framing::Events
            && self.client.at.is_at_line();
        if is_at_line && transport_end == TransportEnd::Closed && self.slots.limit().is_some() {
            self.send(now, format!(": restitch {}\n", outcome.report()).into());
        }
    }

    fn end_with(&mut self, outcome: Outcome, transport_end: TransportEnd) {
        self.phase = Phase::Done;
        let slot = self.slots.slot().kind;
        self.outputs.push_back(Output::Done {
            outcome,
            slot,
            transport_end,
        });
    }
}
