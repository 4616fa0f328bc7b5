//! Answers that are not streamed: whole bodies through a session.
//!
//! The same loop as for streams, with one difference: nothing of a body is sent until the body is whole, so the client
//! waits, and gets one response.

use std::collections::VecDeque;
use std::time::Duration;

pub(crate) use super::wire::{Output, TransportEnd};
use super::wire::{failure, finish_reason};
use super::{CallEnd, ContinuationStrategy, GiveUp, Input, Outcome, Session};
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::limits::Limits;
use crate::provider::chat::{read_body, write_body};
use crate::provider::wire::{Ending, Slot, SlotKind, SlotText};
use crate::provider::{Delta, FIRST, Finish, add_usage, answer_tokens};

/// A chat/completions body, made whole: [`Output::Bytes`] is the response's body, and comes once. Drain [`poll_output`](Self::poll_output) after every input.
#[derive(Debug)]
pub struct BodyRelay {
    session: Session,
    /// The body that the response is made from: the first one that had an answer in it.
    first: Option<String>,
    usages: Option<String>,
    /// What the upstream said last when it failed.
    last_error: Option<String>,
    outputs: VecDeque<Output>,
}

impl BodyRelay {
    /// Returns a relay before the first body.
    pub fn new(limits: Limits) -> Self {
        let session = Session::new(limits);
        Self { session, first: None, usages: None, last_error: None, outputs: VecDeque::new() }
    }

    /// Believes a `stop`; see [`Session::trust_stop`].
    #[must_use]
    pub fn trust_stop(mut self) -> Self {
        self.session.trust_stop();
        self
    }

    /// Sets what is delivered when the rest can't be had.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.session.set_give_up(give_up);
        self
    }

    /// Asks for continuations in this way.
    #[must_use]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.session.set_strategy(strategy);
        self
    }

    /// Sets how much of the text inside the root may be changed; see [`Session::set_repair`].
    #[must_use]
    pub fn repair(mut self, options: impl Into<RepairOptions>) -> Self {
        self.session.set_repair(options);
        self
    }

    /// The session, for a look at the document.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// A call has answered with this body.
    pub fn handle_body(&mut self, now: Duration, body: &str) {
        let mut text = String::new();
        let mut end = CallEnd::Closed;
        let mut usage = None;
        let (mut opaque, mut has_reasoning) = (false, false);
        let known = read_body(body, |delta| match delta {
            Delta::Text { slot: FIRST, text: more } => text.push_str(more),
            Delta::Finish { choice: 0, reason, .. } => end = CallEnd::Finished(reason),
            Delta::Usage { raw } => usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => end = CallEnd::Error(message.to_owned()),
            Delta::Reasoning { slot: FIRST, .. } => has_reasoning = true,
            Delta::Refusal { slot: FIRST, .. } | Delta::Done { .. } => {}
            _ => opaque = true,
        });
        if let CallEnd::Error(message) = &end {
            self.last_error = Some(message.clone());
        }
        if self.session.is_first() {
            self.first = Some(body.to_owned());
            if opaque {
                // Its text passes as it came.
                self.session.set_repair(RepairLevel::Strict);
            }
            if opaque || !known || matches!(end, CallEnd::Error(_)) {
                self.session.pass();
            }
        }
        if let Some(usage) = usage {
            if let Some(tokens) = answer_tokens(&usage) {
                self.session.handle_input(now, Input::Tokens(tokens));
            }
            add_usage(&mut self.usages, &usage);
        }
        if has_reasoning {
            self.session.handle_input(now, Input::Reasoning);
        }
        if !text.is_empty() {
            self.session.handle_input(now, Input::Text(&text));
        }
        self.handle_end(now, end);
    }

    /// A call has failed, or its body was cut off.
    pub fn handle_end(&mut self, now: Duration, end: CallEnd) {
        self.session.handle_input(now, Input::CallEnd(end));
        while let Some(output) = self.session.poll_output() {
            let output = match output {
                super::Output::Text(_) => continue,
                super::Output::Event(event) => Output::Event(event),
                super::Output::Call { request, at } => Output::Call { request, at },
                super::Output::Done(outcome) => {
                    let body = self.body(&outcome);
                    self.outputs.push_back(Output::Bytes(body.into()));
                    Output::Done { outcome, transport_end: TransportEnd::Closed }
                }
            };
            self.outputs.push_back(output);
        }
    }

    /// What is to be done next. `None`: nothing, until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The first answer's body, edited by spans; as it came where the answer passed.
    fn body(&mut self, outcome: &Outcome) -> String {
        let report = outcome.report();
        if let Outcome::Failed { .. } = outcome {
            let began = self.session.document().root_start().is_some();
            return failure(&report, began, self.last_error.as_deref());
        }
        let first = self.first.take().unwrap_or_default();
        let reason = match outcome {
            Outcome::PassedThrough { .. } => return first,
            // A cut answer must not look whole, even where the upstream gave no reason.
            _ => finish_reason(outcome).unwrap_or(Finish::Length.as_str()),
        };
        let text = self.session.document().text();
        let texts = [SlotText { slot: Slot { id: FIRST, kind: SlotKind::Text }, text }];
        let reasons = [(0, Finish::from(reason))];
        let usage = self.usages.as_deref();
        let ending = Ending { reasons: &reasons, usage, usage_apart: false, report: Some(&report) };
        write_body(&first, &texts, &ending).unwrap_or(first)
    }
}
