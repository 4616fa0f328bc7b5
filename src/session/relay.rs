//! Event streams through a session: the relay forwards a healthy stream unchanged, and writes the
//! rest of a cut one.
//!
//! ```text
//!  Open, first call ──▶ the upstream's bytes, whole blocks at a time
//!     │ a terminal event before the root is closed
//!     ▼
//!  Withheld ─▶ nothing; the relay reads the rest of the call for its usage. More text leads back to `Open`.
//!     │ the call is over
//!     ▼
//!  Open, further call ─▶ chunks with the first answer's id; comments while nothing comes
//!     │ the session is done
//!     ▼
//!  Done ─▶ one finish, one usage, one `[DONE]`
//! ```
//! A relay does no I/O and has no clock. Drain [`poll_output`](Relay::poll_output) after every
//! input.

mod answer;
mod call_ends;
mod client_stream;
mod line_position;
mod raw_bytes;
mod reconnection;
mod stream_ending;
mod upstream_call;
mod withheld;

use std::ops::ControlFlow;
use std::time::Duration;

use answer::RelayedAnswer;
use bytes::Bytes;
use client_stream::ClientStream;
use line_position::StreamStart;
use reconnection::{Reconnect, Reconnection};
use stream_ending::StreamEnding;
use upstream_call::{CallRole, StreamPhase, UpstreamCall};

pub use super::answer_options::AnswerOptions;
use super::event_summary::{EventSummary, breaks_off};
use super::slots::Slots;
pub use super::wire::{Output, TransportEnd};
use super::{CallEnd, FailureReason, Input, LimitReached, Outcome, Request, Resume, Session};
use crate::limits::Limits;
use crate::provider::wire::{Framing, Tool};
use crate::provider::{Dialect, Finish};
use crate::splice::SpliceError;
use crate::sse::{DecodeError, DecodeErrorKind};

/// An event stream, made whole. Without [`dialect`](Self::dialect) it is one of Chat Completions.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::SessionEvent;
/// use restitch::internal::relay::{TransportEnd, Output, Relay};
/// use restitch::Limits;
///
/// let now = Duration::ZERO;
/// let mut relay = Relay::new(Limits::default());
/// let chunk = |text: &str| format!("data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n");
/// relay.handle_bytes(now, chunk("[1, 2").into());
/// assert!(matches!(relay.poll_output(), Some(Output::Bytes(bytes)) if bytes == chunk("[1, 2")));
///
/// relay.handle_transport_end(now, TransportEnd::Dropped);
/// while !matches!(relay.poll_output(), Some(Output::Call { .. })) {}
/// relay.handle_open(now);
/// relay.handle_bytes(now, format!("{}data: [DONE]\n\n", chunk("[1, 2, 3]")).into());
/// let rest: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
/// assert!(matches!(&rest[0], Output::Event(SessionEvent::Joined { seam, .. }) if seam.path == "/1"));
/// assert!(matches!(&rest[1], Output::Bytes(bytes) if bytes.ends_with(b"\"delta\":{\"content\":\", 3]\"},\"finish_reason\":null}]}\n\n")));
/// assert!(matches!(rest.last(), Some(Output::Done { .. })));
/// ```
#[derive(Debug)]
pub struct Relay {
    answer: RelayedAnswer,
    limits: Limits,
}

/// Data from the upstream other than its answers.
#[derive(Debug, Default)]
struct UpstreamTotals {
    /// Usage of all calls before the open one.
    usages: Option<String>,
    /// The upstream's last error message.
    last_error: Option<String>,
}

/// How the relay reconnects to a provider that keeps the answer: the rest comes without new tokens
/// and without a seam.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reattach {
    /// The relay never reconnects.
    #[default]
    Never,
    /// With the events after the last one, if the response says that its provider keeps it, or from
    /// the last token of the response.
    NextEvent,
    /// With the next byte: the provider keeps the bytes of the stream.
    NextByte,
}

impl AnswerOptions for Relay {
    fn configure(mut self, change: impl Fn(&mut Session)) -> Self {
        self.answer.slots.configure(change);
        self
    }
}

impl Relay {
    /// Returns a relay whose first call has answered.
    pub fn new(limits: Limits) -> Self {
        let dialect = Dialect::default();
        Self::of(dialect, dialect.wire().framing(), limits)
    }

    /// Returns a relay for a stream of an API with this framing.
    pub fn of(dialect: Dialect, framing: Framing, limits: Limits) -> Self {
        let wire = dialect.wire();
        Self {
            answer: RelayedAnswer {
                slots: Slots::new(wire, Session::new(limits.clone())),
                client: ClientStream::new(wire, framing),
                call: UpstreamCall::answered(wire, framing, &limits),
                summary: EventSummary::default(),
                totals: UpstreamTotals::default(),
                reconnection: Reconnection::default(),
            },
            limits,
        }
    }

    /// Sets the API of the stream.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        let wire = dialect.wire();
        let framing = wire.framing();
        self.answer.slots.list.wire = wire;
        self.answer.call = UpstreamCall::answered(wire, framing, &self.limits);
        self.answer.client = ClientStream::new(wire, framing);
        self
    }

    /// Sets the tools that the request declares, and how many choices it asks for.
    #[must_use]
    pub fn request(mut self, tools: Vec<Tool>, choices: u64) -> Self {
        self.answer.slots.tools = tools;
        self.answer.slots.list.expected_choices = choices;
        self.answer.call.reader.expect_choices(choices);
        self
    }

    /// Makes a connection again that was lost, or continues from a token, where the provider can
    /// send the rest of the same answer: [`Request::resume`](super::Request).
    #[must_use]
    pub fn reattaching(mut self, reattach: Reattach) -> Self {
        self.answer.reconnection.mode = reattach;
        self
    }

    /// Continues an answer from its token after the limit on its tokens, too, which the caller then
    /// raises.
    #[must_use]
    pub fn raising_limit(mut self, raises_limit: bool) -> Self {
        self.answer.reconnection.raises_limit = raises_limit;
        self
    }

    /// Records a limit on the reader's side. The answer ends with the open call, which the caller
    /// must then end.
    pub fn note_limit(&mut self, limit: LimitReached) {
        self.answer.slots.note_limit(limit.clone());
        self.answer.client.limit = Some(limit);
    }

    /// Ends the answer on the operator's wish, with the open call, which is then ended.
    pub fn stop(&mut self) {
        self.answer.reconnection.mode = Reattach::Never;
        let slots = &mut self.answer.slots;
        slots.configure(|session| session.decisions.stop());
    }

    /// Returns the session of the slot that got text last, for a look at the document.
    pub fn session(&self) -> &Session {
        self.answer.slots.session()
    }

    /// Counts the delivered text while a call is under way, in steps of some 30 µs: the first
    /// character of an answer that does not begin as asked takes less time then. Returns whether
    /// more is left. The answer is the same without.
    #[doc(hidden)]
    pub fn prepare(&mut self) -> bool {
        let Session { call, channel, .. } = self.answer.slots.session_mut();
        call.prepare(channel)
    }

    /// The call has answered with a stream. For the first call this starts the clock.
    pub fn handle_open(&mut self, now: Duration) {
        self.answer.call.arrival.heard_at = Some(now);
        let session = self.answer.slots.session_mut();
        session.handle_input(now, Input::Activity);
    }

    /// Takes bytes of the open call.
    pub fn handle_bytes(&mut self, now: Duration, bytes: Bytes) {
        let answer = &mut self.answer;
        let framing = answer.client.framing;
        answer.call.note_bytes(now, &bytes, framing);
        match answer.call.phase {
            StreamPhase::Done => return,
            StreamPhase::Unread => return answer.client.send(now, bytes),
            StreamPhase::Open | StreamPhase::Withheld(_) => {
                let session = answer.slots.session_mut();
                session.handle_input(now, Input::Activity);
            }
        }
        if answer.call.keeps_raw() {
            answer.call.raw.push(&bytes);
        }
        if answer.call.arrival.start == StreamStart::Other {
            return self.no_events(now);
        }
        let max_event_bytes = self.limits.parser.max_event_bytes;
        let room = |answer: &RelayedAnswer, unread| match answer.call.keeps_raw() {
            true => answer.call.room(unread, max_event_bytes),
            false => usize::MAX,
        };
        let mut rest: &[u8] = &bytes;
        while !rest.is_empty() {
            let most = room(&self.answer, rest.len()).min(rest.len());
            let (part, others) = rest.split_at(most);
            rest = others;
            if self.read(now, part).is_break() {
                // The rest of its bytes is dropped.
                break;
            }
            let answer = &mut self.answer;
            let is_full = room(answer, rest.len()) == 0;
            if is_full && answer.call.phase.is_withheld() {
                // The buffer is full, so the end counts.
                let end = answer.call.ends.take_last(CallEnd::Closed);
                self.handle_call_end(now, end);
                break;
            }
            // An event that is larger than the buffer can't wait for its end, so it passes unread.
            if is_full && answer.call.is_forwarding() {
                answer
                    .slots
                    .reach(LimitReached::new("max_event_bytes", max_event_bytes));
                answer.pass_unread(now);
                break;
            }
        }
        let answer = &mut self.answer;
        if answer.call.keeps_raw() {
            if answer.call.phase.is_open() {
                let boundary = answer.call.decoder.boundary();
                answer.call.forward(&mut answer.client, now, boundary);
            }
            // The chunk is the caller's buffer: it would stay alive while a part of it waits.
            answer.call.raw.keep_chunk();
        }
    }

    /// Ends the reading of a call whose bytes are not events. A first answer passes: the client gets
    /// the upstream's message.
    fn no_events(&mut self, now: Duration) {
        let answer = &mut self.answer;
        if answer.call.is_forwarding() && answer.call.lost.is_none() {
            answer.slots.pass();
            answer.pass_unread(now);
        } else {
            let error = "the answer is not an event stream".to_owned();
            self.handle_call_end(now, CallEnd::Error(error));
        }
    }

    /// Reads bytes of the open call. Breaks when the call is over.
    fn read(&mut self, now: Duration, mut input: &[u8]) -> ControlFlow<()> {
        while self.answer.call.phase.is_read() {
            let wanted = self.answer.wants_data();
            let RelayedAnswer {
                call,
                client,
                summary,
                ..
            } = &mut self.answer;
            let observes = call.keeps_raw();
            let (end, data) = match call.decoder.next_event(&mut input) {
                Ok(None) => return ControlFlow::Continue(()),
                Ok(Some(event)) => {
                    match &mut call.phase {
                        _ if !observes => {}
                        StreamPhase::Withheld(withheld) => withheld.note(&event),
                        _ => client.writer.observe(&event.event, &event.data),
                    }
                    call.raw.begin_event(event.range.start);
                    (
                        event.range.end,
                        summary.read(&mut *call.reader, event, wanted),
                    )
                }
                Err(error) => {
                    // A healthy stream that can't be decoded is forwarded unread, a continuation is
                    // over.
                    if self.answer.call.is_forwarding() {
                        self.answer.slots.reach(limit_of(&error));
                        self.answer.pass_unread(now);
                    } else {
                        let end = CallEnd::Error(error.to_string());
                        let end = self.answer.call.ends.take_last(end);
                        self.handle_call_end(now, end);
                    }
                    return ControlFlow::Break(());
                }
            };
            self.event(now, end, data)?;
        }
        ControlFlow::Break(())
    }

    /// Takes one event that was read and that ended at `end`; `data` is its text where it may have
    /// to be written. Breaks when the call is over.
    fn event(&mut self, now: Duration, end: u64, data: Option<String>) -> ControlFlow<()> {
        let RelayedAnswer {
            slots,
            call,
            summary,
            totals,
            ..
        } = &mut self.answer;
        if summary.usage.is_some() {
            call.usage.reported = summary.usage.take();
            call.usage.is_apart = summary.finishes.is_empty() && summary.text.is_empty();
        }
        if summary.error.is_some() {
            totals.last_error.clone_from(&summary.error);
        }
        if summary.is.reasoning {
            slots.session_mut().handle_input(now, Input::Reasoning);
        }
        if summary.is.different {
            call.reject_hop();
            let Session {
                channel, decisions, ..
            } = slots.session_mut();
            let offset = channel.document().text().len();
            let reason = FailureReason::Merge(SpliceError::Differs(offset));
            decisions.count_failure(channel, reason);
            let error = "the continued answer differs from the text that was sent";
            self.handle_call_end(now, CallEnd::Error(error.to_owned()));
            return ControlFlow::Break(());
        }
        let flow = match &call.phase {
            StreamPhase::Open if call.is_first() => self.answer.first_event(now, end, data),
            StreamPhase::Open => self.further_event(now),
            StreamPhase::Withheld(_) if summary.error.is_none() && summary.has_more() => {
                self.answer.refute_end(now);
                self.answer.first_event(now, end, data)
            }
            StreamPhase::Withheld(withheld)
                if withheld.is_final && summary.is.done || summary.error.is_some() =>
            {
                ControlFlow::Break(Some(call.ends.take_last(CallEnd::Closed)))
            }
            StreamPhase::Withheld(_) if summary.is.done => {
                // Some gateways write `[DONE]` in the middle, so the end still waits.
                call.ends.done_at.get_or_insert(now);
                ControlFlow::Continue(())
            }
            StreamPhase::Withheld(_) | StreamPhase::Unread | StreamPhase::Done => {
                ControlFlow::Continue(())
            }
        };
        flow.map_break(|end| {
            if let Some(end) = end {
                self.handle_call_end(now, end);
            }
        })
    }

    /// Takes an event of a call for the rest. Breaks with the end of the call.
    fn further_event(&mut self, now: Duration) -> ControlFlow<Option<CallEnd>> {
        let answer = &mut self.answer;
        if answer.summary.is.malformed && answer.summary.is.opaque {
            // Later text would be joined without the text of this event.
            let error = "an event of the stream is not JSON in UTF-8".to_owned();
            return ControlFlow::Break(Some(CallEnd::Error(error)));
        }
        let Slots { list, further, .. } = &mut answer.slots;
        further.read(list, now, &answer.summary);
        if !answer.summary.text.is_empty() {
            // The text refutes an earlier end.
            (answer.call.ends.last, answer.call.ends.done_at) = (None, None);
            let done = self.drain(now);
            debug_assert!(done.is_none(), "only the end of a call ends a session");
            if let Some(end) = end_at_limit(self.answer.slots.session()) {
                return ControlFlow::Break(Some(end));
            }
        }
        let RelayedAnswer {
            slots,
            call,
            summary,
            ..
        } = &mut self.answer;
        let end = summary.end();
        let continues = match end {
            // Usage and `[DONE]` may still follow.
            Some(CallEnd::Finished(_)) => true,
            // Some servers send `[DONE]` before more text.
            Some(CallEnd::Closed) => !slots.session().document().is_whole(),
            Some(_) => false,
            None => return ControlFlow::Continue(()),
        };
        call.ends.last = call.ends.last.take().or(end);
        if !continues {
            return ControlFlow::Break(Some(call.ends.take_last(CallEnd::Closed)));
        }
        if summary.is.done {
            call.ends.done_at.get_or_insert(now);
        }
        ControlFlow::Continue(())
    }

    /// Takes the end of the open or requested call: a refusal, a failure, or the end that its
    /// events gave. The session decides the next step.
    pub fn handle_call_end(&mut self, now: Duration, end: CallEnd) {
        let RelayedAnswer { client, call, .. } = &mut self.answer;
        // The call is over, so no event can refute its end any more.
        call.confirm_end(client, now);
        call.ends.last = None;
        self.answer.count_usage(now);
        let slots = &mut self.answer.slots;
        if let CallEnd::Redirected(redirect) = &end {
            slots.redirect(redirect);
        }
        let is_redirected = matches!(end, CallEnd::Redirected(_));
        if self.reattach(now, &end) {
            return;
        }
        let mut end = match self.answer.call.end_of_lost() {
            Some(lost) if self.answer.call.is_first_open() && self.answer.passes(&lost) => {
                return StreamEnding::pass(&mut self.answer, now, lost);
            }
            Some(lost) => lost,
            None => end,
        };
        let was_dropped = !matches!(
            end,
            CallEnd::Finished(_) | CallEnd::Closed | CallEnd::Error(_)
        );
        let answer = &mut self.answer;
        if answer.call.is_first() && !is_redirected {
            // What was not sent ends the first answer, and the answer continues.
            if answer.call.is_forwarding() {
                answer.call.drop_unsent(&mut answer.client, now);
            }
            answer.slots.end(now, &answer.call.ends.choices, &end);
            end = answer.slots.next().unwrap_or(end);
        }
        loop {
            let session = self.answer.slots.session_mut();
            session.handle_input(now, Input::CallEnd(end));
            let Some(outcome) = self.drain(now) else {
                return;
            };
            let slots = &mut self.answer.slots;
            slots.list.entry_mut().keep(outcome);
            match slots.next() {
                Some(other) => end = other,
                None => return StreamEnding::write(&mut self.answer, now, was_dropped),
            }
        }
    }

    /// Handles the session's outputs. Returns the outcome if the session is done.
    fn drain(&mut self, now: Duration) -> Option<Outcome> {
        let RelayedAnswer {
            slots,
            client,
            call,
            ..
        } = &mut self.answer;
        let mut done = None;
        while let Some(output) = slots.session_mut().poll_output() {
            match output {
                super::Output::Text(text) => client.text(now, slots.slot(), &text),
                super::Output::Event(event) => client.outputs.push_back(Output::Event(event)),
                super::Output::Call { request, at } => {
                    let wire = slots.further.wire(slots.list.wire);
                    let framing = slots.further.framing(client.framing);
                    let is_apart = call.usage.is_apart;
                    let role = match slots.session().is_first() {
                        true if client.introduced => CallRole::Repeated,
                        true => CallRole::First,
                        false => CallRole::Rest,
                    };
                    *call = UpstreamCall::new(role, wire, framing, &self.limits);
                    // The request for a rest asks for one choice.
                    let choices = match role {
                        CallRole::Rest => 1,
                        _ => slots.list.expected_choices,
                    };
                    call.reader.expect_choices(choices);
                    // Usage is written where this upstream writes it, whatever later calls do.
                    call.usage.is_apart = is_apart;
                    slots.asked();
                    if !client.introduced {
                        // The client has not seen an id of the answer yet, so the new answer's is
                        // used.
                        client.begin_again(slots.list.wire);
                    }
                    // The client sees nothing until the next call answers, and may give up.
                    if at > now {
                        client.keep_alive(now);
                    }
                    client.outputs.push_back(Output::Call { request, at });
                }
                super::Output::Done(outcome) => done = Some(outcome),
            }
        }
        done
    }

    /// Asks for the rest of the same answer, if the call was lost or asks for that, and its provider
    /// can send it. Returns whether it did.
    fn reattach(&mut self, now: Duration, end: &CallEnd) -> bool {
        let RelayedAnswer {
            slots,
            client,
            call,
            reconnection,
            ..
        } = &mut self.answer;
        let Some(next) = reconnection.next(slots, client, call, end) else {
            return false;
        };
        let (wire, framing) = (slots.list.wire, client.framing);
        let fresh = |role| UpstreamCall::new(role, wire, framing, &self.limits);
        let resume = match next {
            Reconnect::Token(after) => {
                if call.is_forwarding() {
                    call.drop_unsent(client, now);
                }
                self.answer.count_usage(now);
                // Each call counts its own usage and has an end of its own, so the events are
                // written again with the identity of the first call.
                let fresh = fresh(CallRole::Repeated);
                let token = self.answer.call.hop(fresh, end, after);
                Resume::Token { token, after }
            }
            Reconnect::NextEvent(query) => {
                call.continue_events(fresh(CallRole::First));
                call.reconnect(end);
                Resume::Stream(query.into())
            }
            Reconnect::NextByte(query) => {
                call.reconnect(end);
                Resume::Stream(query.into())
            }
        };
        let RelayedAnswer { slots, client, .. } = &mut self.answer;
        let session = slots.session_mut();
        session.decisions.clock.restart(now);
        session.channel.journal.stats.note_rung(resume.rung());
        let request = Request::resuming(session.tally().continuations, resume);
        client.outputs.push_back(Output::Call { request, at: now });
        true
    }

    /// The transport of the open call has ended.
    pub fn handle_transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        let transport = if transport_end == TransportEnd::Closed {
            CallEnd::Closed
        } else {
            CallEnd::Dropped
        };
        match self.answer.call.phase {
            StreamPhase::Done => return,
            StreamPhase::Unread => return StreamEnding::pass(&mut self.answer, now, transport),
            StreamPhase::Open | StreamPhase::Withheld(_) => {}
        }
        let is_forwarding = self.answer.call.is_forwarding();
        let is_whole = is_forwarding
            && !self.answer.client.ends.finish
            && self.answer.call.is_whole(&self.answer.slots);
        let rest = match transport {
            CallEnd::Closed => self.read_rest(now, is_whole),
            _ => ControlFlow::Continue(TextAfterEvents::default()),
        };
        let ControlFlow::Continue(rest) = rest else {
            if self.answer.call.phase.is_unread() {
                StreamEnding::pass(&mut self.answer, now, transport);
            }
            return;
        };
        let answer = &mut self.answer;
        answer.end_text(now, |first| first.finish_whole());
        let (forwards, passes) = (answer.call.is_forwarding(), answer.passes(&transport));
        let is_text =
            !answer.summary.text.is_empty() && answer.slots.session().document().is_json();
        let counts = rest.is_unterminated && (is_text || !passes)
            || rest.is_known && is_whole && answer.call.raw.has_bytes();
        if counts && forwards && !answer.client.ends.finish {
            // The text counts, or other events are written after it.
            answer.call.forward(&mut answer.client, now, u64::MAX);
            answer.client.terminate(now);
        }
        if !answer.client.ends.finish && self.reattach(now, &transport) {
            return;
        }
        if passes && self.answer.call.is_first_open() {
            StreamEnding::pass(&mut self.answer, now, transport);
        } else {
            // The last event may already have shown how the call ended.
            let end = self.answer.call.ends.take_last(transport);
            self.handle_call_end(now, end);
        }
    }

    /// Reads the text after the last whole event. Several servers end without the last blank line:
    /// that text is an event all the same. Breaks when the call is over.
    fn read_rest(&mut self, now: Duration, is_whole: bool) -> ControlFlow<(), TextAfterEvents> {
        let (wanted, observed) = (self.answer.wants_data(), self.answer.call.is_forwarding());
        let kept = !observed && self.answer.call.keeps_raw();
        let RelayedAnswer {
            call,
            client,
            summary,
            ..
        } = &mut self.answer;
        // An incomplete event after the document holds nothing that is missed. In a repeated answer
        // it is dropped, too: the relay would write it with an end, and clients would fail on it.
        let is_dropped = is_whole || call.adopts();
        let is_of_end = |data: &str| is_dropped && (data.is_empty() || breaks_off(data));
        let event = call.decoder.finish().ok().flatten();
        let Some(event) = event.filter(|event| !is_of_end(&event.data)) else {
            return ControlFlow::Continue(TextAfterEvents::default());
        };
        call.raw.begin_event(event.range.start);
        let end = event.range.end;
        if observed {
            client.writer.observe(&event.event, &event.data);
        } else if kept && let StreamPhase::Withheld(withheld) = &mut call.phase {
            withheld.note(&event);
        }
        let data = summary.read(&mut *call.reader, event, wanted);
        let is_chunk = summary.is.chunk;
        self.event(now, end, data)?;
        let raw = &self.answer.call.raw;
        ControlFlow::Continue(TextAfterEvents {
            is_unterminated: is_chunk && raw.has_bytes() && raw.held.is_none(),
            is_known: !self.answer.summary.is.malformed,
        })
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, unless an event arrives
    /// earlier.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let answer = &self.answer;
        let waits = match answer.call.phase {
            StreamPhase::Withheld(_) => true,
            // A call for the rest, or the original request again: the client gets no other bytes
            // meanwhile.
            StreamPhase::Open if answer.call.is_first() && answer.call.arrival.opened => {
                let is_late = answer.call.raw.held.is_some()
                    || !answer.slots.session().document().pending().is_empty();
                is_late && !answer.client.ends.finish
            }
            StreamPhase::Open => true,
            StreamPhase::Unread | StreamPhase::Done => false,
        };
        let interval = self.limits.transport.keep_alive_interval;
        let keep_alive = answer.client.keep_alive_due(interval);
        keep_alive
            .filter(|_| waits)
            .into_iter()
            .chain(
                self.answer
                    .silence(&self.limits.transport)
                    .map(|silence| silence.at),
            )
            .chain(answer.call.text_due())
            .min()
    }

    /// Handles a timeout: writes due text, keeps the client's stream alive, or ends a silent call.
    pub fn handle_timeout(&mut self, now: Duration) {
        let answer = &mut self.answer;
        answer.call.write_due_text(&mut answer.client, now);
        let Some(silence) = self
            .answer
            .silence(&self.limits.transport)
            .filter(|silence| now >= silence.at)
        else {
            if self.poll_timeout().is_some_and(|due| now >= due) {
                self.answer.client.keep_alive(now);
            }
            return;
        };
        let answer = &mut self.answer;
        answer.end_text(now, |first| first.finish_whole());
        let end = silence.end();
        if answer.call.phase.is_unread() || answer.call.is_first_open() && answer.passes(&end) {
            if answer.client.ends.finish || !self.reattach(now, &end) {
                StreamEnding::pass(&mut self.answer, now, end);
            }
            return;
        }
        let end = answer.call.ends.take_last(end);
        self.handle_call_end(now, end);
    }

    /// Returns when silence ends the open call.
    pub(crate) fn silent_at(&self) -> Option<Duration> {
        let silence = self.answer.silence(&self.limits.transport)?;
        Some(silence.at)
    }

    /// Returns how the answer has ended for a client that has received its finish reason from the
    /// upstream.
    pub(crate) fn outcome_so_far(&self) -> Option<Outcome> {
        let RelayedAnswer {
            client,
            call,
            slots,
            ..
        } = &self.answer;
        let finish = match &call.ends.last {
            Some(CallEnd::Finished(finish)) => Some(finish.clone()),
            _ => None,
        };
        let tally = slots.session().tally().clone();
        client
            .ends
            .finish
            .then_some(Outcome::PassedThrough { finish, tally })
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.answer.client.outputs.pop_front()
    }
}

/// Properties of the text after the last whole event.
#[derive(Clone, Copy, Debug, Default)]
struct TextAfterEvents {
    /// A chunk without the line end after it, which has not left.
    is_unterminated: bool,
    /// An event that could be read.
    is_known: bool,
}

/// Returns the limit that a decoder has reached.
fn limit_of(error: &DecodeError) -> LimitReached {
    match error.kind {
        DecodeErrorKind::LineTooLong(most) => LimitReached::new("max_line_bytes", most),
        DecodeErrorKind::EventTooLong(most) => LimitReached::new("max_event_bytes", most),
    }
}

/// Returns how a call for the rest ends whose text has reached a limit.
fn end_at_limit(session: &Session) -> Option<CallEnd> {
    let channel = &session.channel;
    if session.call.is_useless() {
        Some(CallEnd::Finished(Finish::Stop))
    } else if session.document().is_complete() {
        None
    } else if channel.is_full() {
        let most = channel.settings.limits.parser.max_text_bytes;
        let most = LimitReached::new("max_text_bytes", most);
        Some(CallEnd::Error(format!(
            "the text has reached the limit {most}"
        )))
    } else {
        None
    }
}
