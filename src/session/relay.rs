//! Event streams through a session: what is healthy passes as it came, the rest is written anew.
//!
//! ```text
//!  Healthy ──▶ the upstream's bytes, whole blocks at a time
//!     │ a terminal event before the root is closed
//!     ▼
//!  Withheld ─▶ nothing; the rest of the call is read for its usage
//!     │ the call is over
//!     ▼
//!  Continuing ─▶ chunks of ours with the first answer's id; comments while nothing comes
//!     │ the session is done
//!     ▼
//!  Done ─▶ one finish, one usage, one `[DONE]`
//! ```
//! A relay does no I/O and has no clock. Drain [`poll_output`](Relay::poll_output) after every input.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::event_summary::{EventSummary, last_block, unfinished};
pub use super::wire::{Output, TransportEnd};
use super::wire::{failure, finish_reason};
use super::{CallEnd, ContinuationStrategy, Input, Outcome, Session, Status};
use crate::limits::Limits;
use crate::provider::chat::{Reader, Writer};
use crate::provider::{Finish, add_usage, answer_tokens};
use crate::sse::{DecodeError, Decoder, Encoder};

/// A chat/completions event stream, made whole.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::Event;
/// use restitch::session::relay::{TransportEnd, Output, Relay};
/// use restitch::Limits;
///
/// let now = Duration::ZERO;
/// let mut relay = Relay::new(Limits::default(), false);
/// let chunk = |text: &str| format!("data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n");
/// relay.handle_bytes(now, chunk("[1, 2").into());
/// assert!(matches!(relay.poll_output(), Some(Output::Bytes(bytes)) if bytes == chunk("[1, 2")));
///
/// relay.handle_transport_end(now, TransportEnd::Dropped);
/// while !matches!(relay.poll_output(), Some(Output::Call { .. })) {}
/// relay.handle_open(now);
/// relay.handle_bytes(now, format!("{}data: [DONE]\n\n", chunk("[1, 2, 3]")).into());
/// let rest: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
/// assert!(matches!(&rest[0], Output::Event(Event::Joined { seam, .. }) if seam.path == "/1"));
/// assert!(matches!(&rest[1], Output::Bytes(bytes) if bytes.ends_with(b"\"delta\":{\"content\":\", 3]\"},\"finish_reason\":null}]}\n\n")));
/// assert!(matches!(rest.last(), Some(Output::Done { .. })));
/// ```
#[derive(Debug)]
pub struct Relay {
    session: Session,
    decoder: Decoder,
    reader: Reader,
    writer: Writer,
    event_summary: EventSummary,
    limits: Limits,
    phase: Phase,
    /// Raw bytes of the open call that have not left: first the rest of the chunks before, then the chunk that is being
    /// read. They begin at `forwarded`.
    pending: BytesMut,
    chunk: Bytes,
    forwarded: u64,
    /// A chunk with a choice has left: the client knows the answer's id and role.
    introduced: bool,
    /// A finish reason, or `[DONE]`, has left as it came.
    finish_sent: bool,
    done_sent: bool,
    /// The text is not all of the answer: tool calls, a refusal, several choices.
    opaque: bool,
    /// The call that ended last lost its connection.
    dropped: bool,
    /// How the call that is open is going to end, once its last events have been read.
    end: Option<CallEnd>,
    /// Usage of the call that is open, and of all before it.
    usage: Option<String>,
    usages: Option<String>,
    /// Usage came in a chunk of its own.
    usage_apart: bool,
    /// What the upstream said last when it failed.
    last_error: Option<String>,
    /// Bytes of the call that is open have come.
    opened: bool,
    /// When something left last.
    sent_at: Duration,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Events leave as they come; with another call's identity where the original request was sent again.
    Healthy {
        adopt: bool,
    },
    /// A terminal event is kept back.
    Withheld,
    /// A continuation is waited for or read.
    Continuing,
    /// Events are no longer looked at.
    Blind,
    Done,
}

impl Relay {
    /// A relay whose first call has answered. `has_stop`: the request names stop sequences.
    pub fn new(limits: Limits, has_stop: bool) -> Self {
        let mut session = Session::new(limits.clone());
        session.has_stop(has_stop);
        Self {
            session,
            decoder: Decoder::new(&limits),
            reader: Reader::new(),
            writer: Writer::new(),
            event_summary: EventSummary::default(),
            limits,
            phase: Phase::Healthy { adopt: false },
            pending: BytesMut::new(),
            chunk: Bytes::new(),
            forwarded: 0,
            introduced: false,
            finish_sent: false,
            done_sent: false,
            opaque: false,
            dropped: false,
            end: None,
            usage_apart: false,
            last_error: None,
            usage: None,
            usages: None,
            opened: true,
            sent_at: Duration::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Asks for continuations in this way.
    #[must_use]
    pub fn strategy(mut self, strategy: ContinuationStrategy) -> Self {
        self.set_strategy(strategy);
        self
    }

    /// Asks for continuations in this way from the next one on.
    pub fn set_strategy(&mut self, strategy: ContinuationStrategy) {
        self.session.set_strategy(strategy);
    }

    /// The session, for a look at the document.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The call has answered with a stream. For the first call this starts the clock.
    pub fn handle_open(&mut self, now: Duration) {
        self.session.handle_input(now, Input::Activity);
    }

    /// The call that was asked for was refused, or could not be made.
    pub fn handle_rejection(&mut self, now: Duration, end: CallEnd) {
        self.end_call(now, end);
    }

    /// Bytes of the open call.
    pub fn handle_bytes(&mut self, now: Duration, bytes: Bytes) {
        self.opened = true;
        match self.phase {
            Phase::Done => return,
            Phase::Blind => return self.send(now, bytes),
            _ => self.session.handle_input(now, Input::Activity),
        }
        if matches!(self.phase, Phase::Healthy { adopt: false }) {
            // Usually nothing waits, and the chunk leaves as it is.
            if self.pending.is_empty() {
                self.chunk = bytes.clone();
            } else {
                self.pending.extend_from_slice(&bytes);
            }
        }
        let mut input: &[u8] = &bytes;
        while !matches!(self.phase, Phase::Done | Phase::Blind) {
            let adopt = matches!(self.phase, Phase::Healthy { adopt: true });
            let (end, data) = match self.decoder.next_event(&mut input) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    (event.range.end, self.event_summary.read(&mut self.reader, &mut self.writer, event, adopt))
                }
                Err(error) => return self.undecodable(now, &error),
            };
            let call = self.session.calls();
            self.event(now, end, data);
            if self.session.calls() != call {
                // The call is over: what else it sent belongs to nobody.
                break;
            }
        }
        if matches!(self.phase, Phase::Healthy { adopt: false }) {
            self.forward(now, self.decoder.boundary());
            self.pending.extend_from_slice(&std::mem::take(&mut self.chunk));
            // A block without end that is made of comments alone reaches no cap of the decoder's.
            if self.pending.len() > self.limits.max_event_bytes.saturating_mul(2) {
                self.go_blind(now);
            }
        }
    }

    /// The transport of the open call has ended.
    pub fn handle_transport_end(&mut self, now: Duration, transport_end: TransportEnd) {
        match self.phase {
            Phase::Done => return,
            Phase::Blind => return self.passed(now, transport_end),
            _ => {}
        }
        let mut torn = false;
        if transport_end == TransportEnd::Closed {
            // Several servers end without the last blank line: what stands there is an event all the same.
            let adopt = matches!(self.phase, Phase::Healthy { adopt: true });
            if let Ok(Some(event)) = self.decoder.finish() {
                let end = event.range.end;
                let data = self.event_summary.read(&mut self.reader, &mut self.writer, event, adopt);
                torn = self.event_summary.chunk;
                let call = self.session.calls();
                self.event(now, end, data);
                if self.session.calls() != call || self.phase == Phase::Done {
                    return;
                }
            }
        }
        let transport = if transport_end == TransportEnd::Closed { CallEnd::Closed } else { CallEnd::Dropped };
        let raw = matches!(self.phase, Phase::Healthy { adopt: false });
        let passes = self.finish_sent || raw && !self.session.would_continue(&transport);
        let is_text = !self.event_summary.text.is_empty() && self.session.document().is_json();
        if torn && raw && !self.finish_sent && (is_text || !passes) {
            // What it says counts: it leaves with the blank line that it lacks, without which a client drops it.
            self.forward_all(now);
            self.send(now, Bytes::from_static(b"\n\n"));
        }
        if passes && matches!(self.phase, Phase::Healthy { .. }) {
            self.passed(now, transport_end);
        } else {
            // How the call ended may be known from its last event.
            let end = self.end.take().unwrap_or(transport);
            self.end_call(now, end);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, unless something comes.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let waits = match self.phase {
            Phase::Withheld | Phase::Continuing => true,
            // The original request is going to be sent again; before its answer the client hears from nobody else.
            Phase::Healthy { .. } => !self.opened,
            Phase::Blind | Phase::Done => false,
        };
        let keep_alive = Some(self.sent_at.saturating_add(self.limits.keep_alive_interval))
            // Without a pause in between there would be nothing but comments.
            .filter(|_| waits && !self.limits.keep_alive_interval.is_zero());
        let silence = self.silence();
        keep_alive.into_iter().chain(silence).min()
    }

    /// Time has passed: the client is told that the stream lives, or a silent call is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.silence().is_some_and(|due| now >= due) {
            if matches!(self.phase, Phase::Healthy { adopt: false }) && self.is_whole() {
                return self.passed(now, TransportEnd::Dropped);
            }
            let end = self.end.take().unwrap_or(CallEnd::TimedOut);
            self.end_call(now, end);
        } else if self.poll_timeout().is_some_and(|due| now >= due) {
            self.keep_alive(now);
        }
    }

    /// What is to be done next. `None`: nothing, until there is more input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn silence(&self) -> Option<Duration> {
        let idle = || Some(self.session.heard_at()?.saturating_add(self.limits.idle_timeout));
        match self.phase {
            // The document is there: an upstream that forgets to say so ends, too.
            Phase::Healthy { .. } if self.is_whole() => idle(),
            Phase::Healthy { .. } if self.finish_sent => None,
            Phase::Healthy { .. } | Phase::Continuing => self.session.poll_timeout(self.opened),
            Phase::Withheld => idle(),
            Phase::Blind | Phase::Done => None,
        }
    }

    /// Of an answer that is more than its text, or that is not read any more, nobody knows what is missing.
    fn is_whole(&self) -> bool {
        self.session.document().is_complete() && !self.opaque && self.phase != Phase::Blind
    }

    /// One event, as the digest has it. It ended at `end`; `data` is its text where it must be written anew.
    fn event(&mut self, now: Duration, end: u64, data: Option<String>) {
        if self.event_summary.usage.is_some() {
            self.usage = self.event_summary.usage.take();
            self.usage_apart = self.event_summary.finish.is_none() && self.event_summary.text.is_empty();
        }
        if self.event_summary.error.is_some() {
            self.last_error.clone_from(&self.event_summary.error);
        }
        if self.event_summary.reasoning {
            self.session.handle_input(now, Input::Reasoning);
        }
        match self.phase {
            Phase::Healthy { .. } => self.healthy_event(now, end, data),
            Phase::Withheld => {
                if self.event_summary.done || self.event_summary.error.is_some() {
                    let end = self.end.take().unwrap_or(CallEnd::Closed);
                    self.end_call(now, end);
                }
            }
            Phase::Continuing => {
                if !self.event_summary.text.is_empty() {
                    self.session.handle_input(now, Input::Text(&self.event_summary.text));
                    self.drain(now);
                }
                match self.event_summary.end() {
                    // Usage and `[DONE]` are still to come.
                    Some(end @ CallEnd::Finished(_)) => self.end = self.end.take().or(Some(end)),
                    Some(end) => {
                        let end = self.end.take().unwrap_or(end);
                        self.end_call(now, end);
                    }
                    None => {}
                }
            }
            Phase::Blind | Phase::Done => {}
        }
    }

    fn healthy_event(&mut self, now: Duration, at: u64, data: Option<String>) {
        self.done_sent |= self.event_summary.done && data.is_none();
        if self.finish_sent {
            return;
        }
        if self.event_summary.opaque {
            self.opaque = true;
            self.session.pass();
        }
        if !self.event_summary.text.is_empty() {
            self.session.handle_input(now, Input::Text(&self.event_summary.text));
        }
        let Some(end) = self.event_summary.end() else {
            self.introduced |= self.writer.has_seen_choice();
            if let Some(data) = data.filter(|_| !self.event_summary.is_empty()) {
                self.write(now, |writer, out| writer.adopt(out, &data));
            }
            return;
        };
        let continued = self.session.would_continue(&end);
        match data {
            None if !continued => {
                self.finish_sent = true;
                self.end = Some(end);
                return;
            }
            // The terminal event is kept back; text that came with it is not.
            None => {
                self.forward_blocks(now, at);
                if !self.event_summary.text.is_empty() {
                    let text = std::mem::take(&mut self.event_summary.text);
                    self.write(now, |writer, out| writer.text(out, &text));
                    self.introduced = true;
                }
            }
            Some(data) => match &end {
                CallEnd::Finished(_)
                    if self.event_summary.opaque || self.event_summary.other || !self.event_summary.text.is_empty() =>
                {
                    self.write(now, |writer, out| writer.adopt(out, &unfinished(&data)));
                }
                CallEnd::Error(_) if !continued => self.write(now, |writer, out| writer.adopt(out, &data)),
                _ => {}
            },
        }
        self.pending.clear();
        self.chunk.clear();
        self.phase = Phase::Withheld;
        if matches!(end, CallEnd::Finished(_)) {
            self.end = Some(end);
        } else {
            self.end_call(now, end);
        }
    }

    /// The open call is over: the session decides.
    fn end_call(&mut self, now: Duration, end: CallEnd) {
        if let Some(usage) = self.usage.take() {
            if let Some(tokens) = answer_tokens(&usage) {
                self.session.handle_input(now, Input::Tokens(tokens));
            }
            add_usage(&mut self.usages, &usage);
        }
        self.end = None;
        self.dropped = !matches!(end, CallEnd::Finished(_) | CallEnd::Closed | CallEnd::Error(_));
        self.session.handle_input(now, Input::CallEnd(end));
        self.drain(now);
    }

    fn drain(&mut self, now: Duration) {
        while let Some(output) = self.session.poll_output() {
            match output {
                super::Output::Text(text) => self.write(now, |writer, out| writer.text(out, &text)),
                super::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                super::Output::Call { request, at } => {
                    self.decoder = Decoder::new(&self.limits);
                    self.reader = Reader::new();
                    self.pending.clear();
                    self.chunk.clear();
                    self.forwarded = 0;
                    self.opened = false;
                    if !self.introduced {
                        // What was kept back has given the answer no name.
                        self.writer = Writer::new();
                    }
                    self.phase = match self.session.is_first() {
                        true => Phase::Healthy { adopt: self.introduced },
                        false => Phase::Continuing,
                    };
                    if at > now {
                        self.keep_alive(now);
                    }
                    self.outputs.push_back(Output::Call { request, at });
                }
                super::Output::Done(outcome) => self.finalize(now, outcome),
            }
        }
    }

    /// The session is done: what ends the stream is written.
    fn finalize(&mut self, now: Duration, outcome: Outcome) {
        let mut transport_end = TransportEnd::Closed;
        let report = outcome.report();
        let usages = self.usages.take();
        let mut out = Vec::new();
        if let Some(reason) = finish_reason(&outcome) {
            if let Some(fence) = self.session.document().open_fence().filter(|_| outcome.finish.is_none()) {
                self.writer.text(&mut out, &fence);
            }
            let report = Some(report.as_str());
            // Where the upstream has it on the finish, a client need not expect a chunk without choices.
            let (beside, apart) = if self.usage_apart { (None, usages) } else { (usages, None) };
            self.writer.finish(&mut out, reason, beside.as_deref(), report.filter(|_| apart.is_none()));
            if let Some(usages) = &apart {
                self.writer.usage(&mut out, usages, report);
            }
            self.writer.done(&mut out);
        } else if outcome.status == Status::Failed {
            Encoder::event(&mut out, None, None, &failure(&report, self.last_error.as_deref()));
        } else if self.dropped {
            transport_end = TransportEnd::Dropped;
        } else if self.event_summary.done {
            self.writer.done(&mut out);
        }
        self.send(now, out.into());
        self.end_with(outcome, transport_end);
    }

    /// The first answer stands as it came.
    fn passed(&mut self, now: Duration, transport_end: TransportEnd) {
        let whole = self.is_whole();
        let mut transport_end = transport_end;
        if transport_end == TransportEnd::Dropped && whole {
            // Only the end of the stream was lost, nothing of the document.
            let mut out = Vec::new();
            if !self.finish_sent {
                if let Some(fence) = self.session.document().open_fence() {
                    self.writer.text(&mut out, &fence);
                }
                self.writer.finish(&mut out, Finish::Stop.as_str(), None, None);
            }
            if !self.done_sent {
                self.writer.done(&mut out);
            }
            self.send(now, out.into());
            transport_end = TransportEnd::Closed;
        } else {
            self.forward_all(now);
        }
        let end = self.end.take().unwrap_or(CallEnd::Closed);
        self.session.pass();
        self.session.handle_input(now, Input::CallEnd(end));
        let mut outcome = None;
        while let Some(output) = self.session.poll_output() {
            match output {
                super::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                super::Output::Done(done) => outcome = Some(done),
                super::Output::Text(_) | super::Output::Call { .. } => {}
            }
        }
        let outcome = outcome.unwrap_or_else(|| self.session.outcome(Status::PassedThrough));
        self.end_with(outcome, transport_end);
    }

    fn end_with(&mut self, outcome: Outcome, transport_end: TransportEnd) {
        self.phase = Phase::Done;
        self.outputs.push_back(Output::Done { outcome, transport_end });
    }

    /// The stream of the open call can't be decoded: a healthy one goes on unseen, a continuation is over.
    fn undecodable(&mut self, now: Duration, error: &DecodeError) {
        if matches!(self.phase, Phase::Healthy { adopt: false }) {
            self.go_blind(now);
        } else {
            let end = self.end.take().unwrap_or_else(|| CallEnd::Error(error.to_string()));
            self.end_call(now, end);
        }
    }

    fn go_blind(&mut self, now: Duration) {
        self.phase = Phase::Blind;
        self.forward_all(now);
    }

    /// Lets raw bytes go, up to an absolute offset.
    fn forward(&mut self, now: Duration, to: u64) {
        let length = usize::try_from(to.saturating_sub(self.forwarded)).unwrap_or(usize::MAX);
        let waiting = length.min(self.pending.len());
        let read = (length - waiting).min(self.chunk.len());
        self.forwarded += (waiting + read) as u64;
        let bytes = self.pending.split_to(waiting).freeze();
        self.send(now, bytes);
        let bytes = self.chunk.split_to(read);
        self.send(now, bytes);
    }

    fn forward_all(&mut self, now: Duration) {
        self.forward(now, u64::MAX);
    }

    /// Lets the raw bytes go that stand before the block which ends at an absolute offset: other blocks before it, and
    /// the end of a line break whose beginning has left.
    fn forward_blocks(&mut self, now: Duration, end: u64) {
        let raw = if self.pending.is_empty() { &self.chunk[..] } else { &self.pending[..] };
        let length = usize::try_from(end.saturating_sub(self.forwarded)).unwrap_or(usize::MAX).min(raw.len());
        let start = last_block(&raw[..length]);
        self.forward(now, self.forwarded + start as u64);
    }

    fn write(&mut self, now: Duration, write: impl FnOnce(&Writer, &mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&self.writer, &mut out);
        self.send(now, out.into());
    }

    fn keep_alive(&mut self, now: Duration) {
        let mut out = Vec::new();
        Encoder::comment(&mut out, "restitch: waiting for the rest");
        self.send(now, out.into());
    }

    fn send(&mut self, now: Duration, bytes: Bytes) {
        if !bytes.is_empty() {
            self.sent_at = now;
            self.outputs.push_back(Output::Bytes(bytes));
        }
    }
}
