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

mod call;
mod finish;
mod first;
mod raw;
mod reattach;
mod repair;
mod send;
mod silence;
mod transport_end;
mod withheld;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use call::{OpenCall, Upstream};
pub use reattach::Reattach;
use send::Client;
use withheld::Withheld;

use super::event_summary::EventSummary;
use super::slots::Slots;
pub use super::wire::{Output, TransportEnd};
use super::{CallEnd, ContinuationStrategy, GiveUp, Input, LimitReached, Prose, Session};
use crate::json::repair::RepairOptions;
use crate::limits::Limits;
use crate::provider::Dialect;
use crate::provider::wire::{Base, Framing, Tool, Wire, Writer};
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
    slots: Slots,
    limits: Limits,
    phase: Phase,
    call: OpenCall,
    client: Client,
    writer: Box<dyn Writer>,
    /// The contents of the event being read.
    event_summary: EventSummary,
    upstream: Upstream,
    /// The framing of the response, and of the calls for its rest.
    framing: Framing,
    further_framing: Option<Framing>,
    /// How the relay reconnects a lost connection.
    reattach: Reattach,
    outputs: VecDeque<Output>,
}

/// How events of the open call are handled. The session knows whether the call is the first one.
#[derive(Debug)]
enum Phase {
    /// Events of a first call are forwarded; the text of a further call is joined.
    Open,
    /// A possible end of a first call is withheld until the next event confirms or refutes it.
    Withheld(Withheld),
    /// The stream can't be decoded and is forwarded unread.
    Unread,
    Done,
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
            slots: Slots::new(wire, Session::new(limits.clone())),
            phase: Phase::Open,
            call: OpenCall {
                opened: true,
                ..OpenCall::new(wire, framing, &limits)
            },
            limits,
            client: Client::new(),
            writer: new_writer(wire, framing),
            event_summary: EventSummary::default(),
            upstream: Upstream::default(),
            framing,
            further_framing: None,
            reattach: Reattach::Never,
            outputs: VecDeque::new(),
        }
    }

    /// Sets the API of the stream.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        let wire = dialect.wire();
        self.slots.set_wire(wire);
        self.framed(wire.framing())
    }

    /// Sets the framing of the stream, for an API with several framings.
    #[must_use]
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self.call = OpenCall {
            opened: true,
            ..OpenCall::new(self.slots.wire(), framing, &self.limits)
        };
        self.writer = new_writer(self.slots.wire(), framing);
        self
    }

    fn framing(&self) -> Framing {
        self.framing
    }

    /// Sets the tools that the request declares, and how many choices it asks for.
    #[must_use]
    pub fn request(mut self, tools: Vec<Tool>, choices: u64) -> Self {
        self.slots.set_tools(tools);
        self.slots
            .expect_choices(usize::try_from(choices).unwrap_or(usize::MAX));
        self
    }

    /// Makes a connection again that was lost, where the provider can send the rest of the same
    /// answer: [`Request::resume`](super::Request).
    #[must_use]
    pub fn reattaching(mut self, reattach: Reattach) -> Self {
        self.reattach = reattach;
        self
    }

    /// Believes a `stop`; see [`Session::trust_stop`].
    #[must_use]
    pub fn trust_stop(mut self) -> Self {
        self.slots.configure(Session::trust_stop);
        self
    }

    /// Sets the strategy of continuation requests.
    #[must_use]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.slots
            .configure(move |session| session.set_strategy(strategy.clone()));
        self
    }

    /// Sets how an answer ends when its rest can't be obtained.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.slots.configure(|session| session.set_give_up(give_up));
        self
    }

    /// Sets how an answer in prose is handled; see [`Session::set_prose`].
    #[must_use]
    pub fn prose(mut self, prose: Prose) -> Self {
        self.slots.configure(|session| session.set_prose(prose));
        self
    }

    /// Sets how much of the text inside the root may be changed; see [`Session::set_repair`]. The
    /// relay rewrites an event whose text changes, and forwards the others unchanged.
    #[must_use]
    pub fn repair(mut self, options: impl Into<RepairOptions>) -> Self {
        let options = options.into();
        self.slots
            .configure(|session| session.set_repair(options.clone()));
        self
    }

    /// Sets the base of the answer's document. Call this after the other settings.
    #[must_use]
    pub fn base(mut self, base: &Base) -> Self {
        self.slots.configure(|session| session.set_base(base));
        self
    }

    /// Records that another upstream than the first one has answered the first call.
    pub fn answered_by(mut self, upstream: &str) -> Self {
        self.slots
            .configure(|session| session.note_upstream(upstream));
        self
    }

    /// Records the model of the request.
    pub fn model(mut self, model: &str) -> Self {
        self.slots.configure(|session| session.note_model(model));
        self
    }

    /// Records a limit on the reader's side. The answer ends with the open call, which the caller
    /// must then end.
    pub fn note_limit(&mut self, limit: LimitReached) {
        self.slots.note_limit(limit.clone());
        self.client.limit = Some(limit);
    }

    /// Ends the answer on the operator's wish, with the open call, which is then ended.
    pub fn stop(&mut self) {
        self.reattach = Reattach::Never;
        self.slots.stop();
    }

    /// Returns the session of the slot that got text last, for a look at the document.
    pub fn session(&self) -> &Session {
        self.slots.session()
    }

    /// The call has answered with a stream. For the first call this starts the clock.
    pub fn handle_open(&mut self, now: Duration) {
        self.call.heard_at = Some(now);
        self.slots.session_mut().handle_input(now, Input::Activity);
    }

    /// Takes the refusal or failure of the requested call.
    pub fn handle_rejection(&mut self, now: Duration, end: CallEnd) {
        self.end_call(now, end);
    }

    /// Takes bytes of the open call.
    pub fn handle_bytes(&mut self, now: Duration, bytes: Bytes) {
        self.call.opened = true;
        self.note_bytes(now, &bytes);
        self.note_answer();
        match self.phase {
            Phase::Done => return,
            Phase::Unread => return self.send(now, bytes),
            Phase::Open | Phase::Withheld(_) => {
                self.slots.session_mut().handle_input(now, Input::Activity)
            }
        }
        if self.keeps_raw() {
            self.call.raw.push(&bytes);
        }
        let mut rest: &[u8] = &bytes;
        while !rest.is_empty() {
            let (part, others) = rest.split_at(self.room(rest.len()).min(rest.len()));
            rest = others;
            if self.read(now, part).is_break() {
                // The rest of its bytes is dropped.
                break;
            }
            if matches!(self.phase, Phase::Withheld(_)) && self.room(rest.len()) == 0 {
                // The buffer is full, so the end counts.
                self.end_as_known(now, CallEnd::Closed);
                break;
            }
            if self.is_forwarding() && self.room(rest.len()) == 0 {
                self.slots.reach(LimitReached::new(
                    "max_event_bytes",
                    self.limits.parser.max_event_bytes,
                ));
                self.pass_unread(now);
                break;
            }
        }
        if self.keeps_raw() {
            if matches!(self.phase, Phase::Open) {
                self.forward(now, self.call.decoder.boundary());
            }
            self.call.raw.keep_chunk();
        }
    }

    /// Returns how many more bytes of a first answer may wait, where `unread` bytes of its last
    /// chunk are not read yet. An unfinished event reaches a limit of the decoder; a block of
    /// comments and held-back events reach this one.
    fn room(&self, unread: usize) -> usize {
        if !self.keeps_raw() {
            return usize::MAX;
        }
        let leaves = match self.phase {
            Phase::Withheld(_) => self.call.raw.forwarded(),
            _ => {
                let boundary = self.call.decoder.boundary();
                self.call
                    .held
                    .as_ref()
                    .map_or(boundary, |held| held.from.min(boundary))
            }
        };
        let waiting = self
            .call
            .raw
            .received()
            .saturating_sub(leaves.saturating_add(unread as u64));
        let most = self.limits.parser.max_event_bytes.saturating_mul(2);
        most.saturating_add(1)
            .saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX))
    }

    /// Reads bytes of the open call. Breaks when the call is over.
    fn read(&mut self, now: Duration, mut input: &[u8]) -> ControlFlow<()> {
        while matches!(self.phase, Phase::Open | Phase::Withheld(_)) {
            let (is_first, adopts) = (self.session().is_first(), self.call.adopts);
            let wanted = self.wants_data();
            let OpenCall {
                decoder,
                reader,
                raw,
                ..
            } = &mut self.call;
            let (end, data) = match decoder.next_event(&mut input) {
                Ok(None) => return ControlFlow::Continue(()),
                Ok(Some(event)) => {
                    match &mut self.phase {
                        _ if !is_first || adopts => {}
                        Phase::Withheld(withheld) => withheld.note(&event),
                        _ => self.writer.observe(&event.event, &event.data),
                    }
                    raw.begin_event(event.range.start);
                    (
                        event.range.end,
                        self.event_summary.read(&mut **reader, event, wanted),
                    )
                }
                Err(error) => {
                    self.undecodable(now, &error);
                    return ControlFlow::Break(());
                }
            };
            self.event(now, end, data)?;
        }
        ControlFlow::Break(())
    }

    /// Returns the next output; `None` until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns whether the open call is a first call and no event was kept back.
    fn is_first_open(&self) -> bool {
        matches!(self.phase, Phase::Open) && self.session().is_first()
    }

    /// Returns whether the raw bytes of the open call are forwarded unchanged.
    fn is_forwarding(&self) -> bool {
        self.is_first_open() && !self.call.adopts
    }

    /// Returns whether the raw bytes of the open call are forwarded, or may be forwarded later.
    fn keeps_raw(&self) -> bool {
        let is_read = matches!(self.phase, Phase::Open | Phase::Withheld(_));
        is_read && self.session().is_first() && !self.call.adopts
    }

    /// Returns whether the data of events may have to be written again.
    fn wants_data(&self) -> bool {
        self.call.adopts || self.session().is_first() && self.session().repairs_text()
    }

    /// Returns whether the document is whole and is all of the answer. False if the answer holds
    /// more than its text, or once reading has stopped.
    fn is_whole(&self) -> bool {
        self.slots.is_whole()
            && self.call.withheld.is_empty()
            && !matches!(self.phase, Phase::Unread)
    }

    /// Takes one event that was read and that ended at `end`; `data` is its text where it may have
    /// to be written. Breaks when the call is over.
    fn event(&mut self, now: Duration, end: u64, data: Option<String>) -> ControlFlow<()> {
        let event = &mut self.event_summary;
        if event.usage.is_some() {
            self.call.usage = event.usage.take();
            self.call.usage_apart = event.finishes.is_empty() && event.text.is_empty();
        }
        if event.error.is_some() {
            self.upstream.last_error.clone_from(&event.error);
        }
        if event.is.reasoning {
            self.slots.session_mut().handle_input(now, Input::Reasoning);
        }
        match &self.phase {
            Phase::Open if self.session().is_first() => return self.first_event(now, end, data),
            Phase::Open => return self.further_event(now),
            Phase::Withheld(_)
                if self.event_summary.error.is_none() && self.event_summary.has_more() =>
            {
                self.refute_end(now);
                return self.first_event(now, end, data);
            }
            Phase::Withheld(end)
                if end.is_final && self.event_summary.is.done
                    || self.event_summary.error.is_some() =>
            {
                self.end_as_known(now, CallEnd::Closed);
                return ControlFlow::Break(());
            }
            Phase::Withheld(_) if self.event_summary.is.done => {
                self.call.done_at.get_or_insert(now);
            }
            Phase::Withheld(_) | Phase::Unread | Phase::Done => {}
        }
        ControlFlow::Continue(())
    }

    /// Ends the open call with the end that its events gave, or else with `otherwise`.
    fn end_as_known(&mut self, now: Duration, otherwise: CallEnd) {
        let end = self.call.end.take().unwrap_or(otherwise);
        self.end_call(now, end);
    }

    /// The stream of the open call can't be decoded: a healthy one is forwarded unread, a
    /// continuation is over.
    fn undecodable(&mut self, now: Duration, error: &DecodeError) {
        if self.is_forwarding() {
            self.slots.reach(match error.kind {
                DecodeErrorKind::LineTooLong(most) => LimitReached::new("max_line_bytes", most),
                DecodeErrorKind::EventTooLong(most) => LimitReached::new("max_event_bytes", most),
            });
            self.pass_unread(now);
        } else {
            self.end_as_known(now, CallEnd::Error(error.to_string()));
        }
    }

    /// Forwards the rest of the first answer unread.
    fn pass_unread(&mut self, now: Duration) {
        self.call.held = None;
        self.phase = Phase::Unread;
        self.forward(now, self.call.decoder.boundary());
        self.release(now);
        self.write_withheld_ends(now);
        self.forward(now, u64::MAX);
    }
}

/// Returns a writer of events with this framing.
fn new_writer(wire: &dyn Wire, framing: Framing) -> Box<dyn Writer> {
    let of_array = (framing == Framing::Array)
        .then(|| wire.array_writer())
        .flatten();
    of_array.unwrap_or_else(|| wire.writer())
}
