//! The open call: its state, the events of a call for the rest, and the step after a call.

use std::ops::ControlFlow;
use std::time::Duration;

use super::raw::{Held, RawBytes};
use super::reattach::LostConnection;
use super::send::LinePlace;
use super::withheld::EarlyEnd;
use super::{Output, Phase, Relay, new_writer};
use crate::limits::Limits;
use crate::provider::wire::{Framing, Reader, Wire};
use crate::provider::{Finish, add_usage, answer_tokens};
use crate::session::choice_ends::ChoiceEnds;
use crate::session::{self, CallEnd, Input, LimitReached, Outcome};
use crate::sse::Framed;

/// Data from the upstream other than its answers.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    /// Usage of all calls before the open one.
    pub(super) usages: Option<String>,
    /// The upstream's last error message.
    pub(super) last_error: Option<String>,
    /// The number of reconnections.
    pub(super) reattached: u32,
}

/// The open or requested call.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) decoder: Framed,
    pub(super) reader: Box<dyn Reader>,
    pub(super) raw: RawBytes,
    /// Events that end a slot which is not whole: the end of the answer decides whether they are
    /// forwarded.
    pub(super) held: Option<Held>,
    /// The original request was repeated after a chunk was sent: the new chunks get the identity of
    /// the first answer.
    pub(super) adopts: bool,
    /// Bytes of the response have arrived.
    pub(super) opened: bool,
    /// When its head arrived, or its last bytes that are not a comment.
    pub(super) heard_at: Option<Duration>,
    /// The position of its last byte in a line.
    pub(super) at: LinePlace,
    /// The lost connection that this call replaces.
    pub(super) lost: Option<LostConnection>,
    /// How its choices have ended.
    pub(super) ends: ChoiceEnds,
    /// The choices whose ends were withheld because other choices had more text.
    pub(super) withheld: Vec<u32>,
    /// The end that the last events gave, unless later text refutes it.
    pub(super) end: Option<CallEnd>,
    /// When the event that ends the stream was received, unless later text refutes it.
    pub(super) done_at: Option<Duration>,
    /// The last refuted end of a first answer.
    pub(super) early: Option<EarlyEnd>,
    pub(super) usage: Option<String>,
    /// A separate chunk has the usage.
    pub(super) usage_apart: bool,
}

impl OpenCall {
    pub(super) fn new(wire: &dyn Wire, framing: Framing, limits: &Limits) -> Self {
        Self {
            decoder: Framed::new(framing, limits),
            reader: wire.reader(),
            raw: RawBytes::new(framing),
            held: None,
            adopts: false,
            opened: false,
            heard_at: None,
            at: LinePlace::Block,
            lost: None,
            ends: ChoiceEnds::default(),
            withheld: Vec::new(),
            end: None,
            done_at: None,
            early: None,
            usage: None,
            usage_apart: false,
        }
    }
}

impl Relay {
    /// Takes an event of a call for the rest.
    pub(super) fn further_event(&mut self, now: Duration) -> ControlFlow<()> {
        if self.event_summary.is.malformed && self.event_summary.is.opaque {
            // Later text would be joined without the text of this event.
            self.end_call(
                now,
                CallEnd::Error("an event of the stream is not JSON in UTF-8".to_owned()),
            );
            return ControlFlow::Break(());
        }
        self.slots.rest(now, &self.event_summary);
        if !self.event_summary.text.is_empty() {
            // The text refutes an earlier end.
            (self.call.end, self.call.done_at) = (None, None);
            let done = self.drain(now);
            debug_assert!(done.is_none(), "only the end of a call ends a session");
            if let Some(end) = self.end_at_limit() {
                self.end_call(now, end);
                return ControlFlow::Break(());
            }
        }
        let is_done = self.event_summary.is.done;
        let continues = match self.event_summary.end() {
            // Usage and `[DONE]` may still follow.
            Some(CallEnd::Finished(_)) => true,
            // Some servers send `[DONE]` before more text.
            Some(CallEnd::Closed) => !self.session().document().is_complete(),
            Some(_) => false,
            None => return ControlFlow::Continue(()),
        };
        self.call.end = self.call.end.take().or_else(|| self.event_summary.end());
        if !continues {
            self.end_as_known(now, CallEnd::Closed);
            return ControlFlow::Break(());
        }
        if is_done {
            self.call.done_at.get_or_insert(now);
        }
        ControlFlow::Continue(())
    }

    /// Returns how a call for the rest ends whose text has reached a limit.
    fn end_at_limit(&self) -> Option<CallEnd> {
        match self.session() {
            session if session.document().is_complete() => None,
            session if session.channel.is_full() => {
                let most = LimitReached::new("max_text_bytes", self.limits.parser.max_text_bytes);
                Some(CallEnd::Error(format!(
                    "the text has reached the limit {most}"
                )))
            }
            // The call ends like one whose request limited its tokens.
            session
                if session
                    .call
                    .has_spent_share(&session.channel, &session.decisions) =>
            {
                Some(CallEnd::Finished(Finish::Length))
            }
            _ => None,
        }
    }

    /// ChoiceEnds the open call; the session decides the next step.
    pub(super) fn end_call(&mut self, now: Duration, end: CallEnd) {
        self.confirm_end(now);
        if let Some(usage) = self.call.usage.take() {
            if let Some(tokens) = answer_tokens(&usage) {
                self.slots
                    .session_mut()
                    .handle_input(now, Input::Tokens(tokens));
            }
            // Usages of two APIs have no common sum.
            if self.session().is_first() || !self.slots.is_foreign() {
                add_usage(&mut self.upstream.usages, &usage);
            }
            self.outputs.push_back(Output::Usage(usage));
        }
        self.call.end = None;
        if let CallEnd::Redirected(redirect) = &end {
            self.further_framing = redirect.foreign.map(|(_, framing)| framing);
            self.slots.redirect(redirect);
        }
        let is_redirected = matches!(end, CallEnd::Redirected(_));
        let was_dropped = !matches!(
            end,
            CallEnd::Finished(_) | CallEnd::Closed | CallEnd::Error(_)
        );
        let mut end = match self.end_of_lost() {
            Some(lost) if self.is_first_open() && self.passes(&lost) => {
                return self.passed(now, lost);
            }
            Some(lost) => lost,
            None if self.reattach(now, &end) => return,
            None => end,
        };
        if self.session().is_first() && !is_redirected {
            if self.is_forwarding() {
                self.withhold(now);
            }
            self.slots.end(now, &self.call.ends, &end);
            end = self.slots.next().unwrap_or(end);
        }
        loop {
            self.slots
                .session_mut()
                .handle_input(now, Input::CallEnd(end));
            let Some(outcome) = self.drain(now) else {
                return;
            };
            self.slots.list.entry_mut().keep(outcome);
            match self.slots.next() {
                Some(other) => end = other,
                None => return self.finalize(now, was_dropped),
            }
        }
    }

    /// Handles the session's outputs. Returns the outcome if the session is done.
    pub(super) fn drain(&mut self, now: Duration) -> Option<Outcome> {
        let mut done = None;
        while let Some(output) = self.slots.session_mut().poll_output() {
            match output {
                session::Output::Text(text) => self.write_text(now, &text),
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Call { request, at } => {
                    let usage_apart = self.call.usage_apart;
                    let framing = self.further_framing.unwrap_or(self.framing());
                    let call = OpenCall::new(self.slots.further_wire(), framing, &self.limits);
                    self.call = OpenCall {
                        usage_apart,
                        ..call
                    };
                    self.phase = Phase::Open;
                    self.slots.asked();
                    if self.client.introduced {
                        self.call.adopts = self.session().is_first();
                    } else {
                        // The client has not seen an id of the answer yet, so the new answer's is
                        // used.
                        self.writer = new_writer(self.slots.list.wire, self.framing());
                    }
                    if at > now {
                        self.keep_alive(now);
                    }
                    self.outputs.push_back(Output::Call { request, at });
                }
                session::Output::Done(outcome) => done = Some(outcome),
            }
        }
        done
    }
}
