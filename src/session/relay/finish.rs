//! How a relayed stream ends.

use std::time::Duration;

use super::{Output, Phase, Relay, TransportEnd};
use crate::provider::Finish;
use crate::provider::wire::Ending;
use crate::session::wire::{failure, finish_reason};
use crate::session::{self, CallEnd, Input, Outcome, Tally};
use crate::sse::Encoder;

impl Relay {
    /// Writes what ends the stream of a session that is done.
    pub(super) fn finalize(&mut self, now: Duration, outcome: Outcome, was_dropped: bool) {
        let mut out = Vec::new();
        let report = outcome.report();
        let transport_end = match &outcome {
            Outcome::Failed { .. } => self.write_failure(&mut out, &report),
            Outcome::Incomplete { .. } => self.leave(&mut out, &report),
            _ => match finish_reason(&outcome) {
                Some(reason) => {
                    if let Some(fence) = self.session.document().open_fence().filter(|_| outcome.finish().is_none()) {
                        self.writer.text(&mut out, super::TEXT, &fence);
                    }
                    self.write_finish(&mut out, reason, &report);
                    TransportEnd::Closed
                }
                None if was_dropped => TransportEnd::Dropped,
                None => {
                    if self.event_summary.done {
                        self.writer.done(&mut out);
                    }
                    TransportEnd::Closed
                }
            },
        };
        self.send(now, out.into());
        self.end_with(outcome, transport_end);
    }

    fn write_finish(&mut self, out: &mut Vec<u8>, reason: &str, report: &str) {
        let usages = self.usages.take();
        let reasons = [(0, Finish::from(reason))];
        let usage_apart = self.call.usage_apart;
        let ending = Ending { reasons: &reasons, usage: usages.as_deref(), usage_apart, report: Some(report) };
        self.writer.finish(out, &[], &ending);
    }

    fn write_failure(&self, out: &mut Vec<u8>, report: &str) -> TransportEnd {
        let began = self.session.document().root_start().is_some();
        Encoder::event(out, None, None, &failure(report, began, self.last_error.as_deref()));
        TransportEnd::Closed
    }

    /// Ends the stream as the call ended whose text the client has last, so that a client sees the failure which it would
    /// have seen without a continuation.
    fn leave(&mut self, out: &mut Vec<u8>, report: &str) -> TransportEnd {
        match self.session.cut_end() {
            Some(CallEnd::Finished(reason)) => {
                let reason = reason.as_str().to_owned();
                self.write_finish(out, &reason, report);
                TransportEnd::Closed
            }
            Some(CallEnd::Error(message)) => {
                Encoder::event(out, None, None, &failure(report, true, Some(message)));
                TransportEnd::Closed
            }
            // There is no finish to say it: the report is a chunk of its own.
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

    /// Ends a stream whose first answer passes through.
    pub(super) fn passed(&mut self, now: Duration, transport_end: TransportEnd) {
        let mut transport_end = transport_end;
        if !self.client.finish {
            self.release(now);
        }
        if transport_end == TransportEnd::Dropped && self.is_whole() {
            // Only the end of the stream was lost, nothing of the document.
            let mut out = Vec::new();
            if !self.client.finish {
                if let Some(fence) = self.session.document().open_fence() {
                    self.writer.text(&mut out, super::TEXT, &fence);
                }
                let ending = Ending { reasons: &[(0, Finish::Stop)], usage: None, usage_apart: false, report: None };
                self.writer.finish(&mut out, &[], &ending);
            } else if !self.client.done {
                self.writer.done(&mut out);
            }
            self.send(now, out.into());
            transport_end = TransportEnd::Closed;
        } else {
            self.forward(now, u64::MAX);
        }
        let end = self.call.end.take().unwrap_or(CallEnd::Closed);
        self.session.pass();
        self.session.handle_input(now, Input::CallEnd(end));
        let mut outcome = None;
        while let Some(output) = self.session.poll_output() {
            match output {
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Done(done) => outcome = Some(done),
                session::Output::Text(_) | session::Output::Call { .. } => {}
            }
        }
        debug_assert!(outcome.is_some(), "a session that passes is done at the end of its call");
        let tally = || Tally::clone(self.session.tally());
        let outcome = outcome.unwrap_or_else(|| Outcome::PassedThrough { finish: None, tally: tally() });
        self.end_with(outcome, transport_end);
    }

    fn end_with(&mut self, outcome: Outcome, transport_end: TransportEnd) {
        self.phase = Phase::Done;
        self.outputs.push_back(Output::Done { outcome, transport_end });
    }
}
