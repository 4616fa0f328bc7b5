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

use bytes::Bytes;

use super::{End, Input, Outcome, Reason, Request, Session, Status};
use crate::limits::Limits;
use crate::provider::chat::{Reader, Writer};
use crate::provider::{Delta, Finish, Kind, add_usage};
use crate::splice::Seam;
use crate::sse::{DecodeError, Decoder, Encoder, Event};

/// A chat/completions event stream, made whole.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::relay::{Hangup, Output, Relay};
/// use restitch::Limits;
///
/// let now = Duration::ZERO;
/// let mut relay = Relay::new(Limits::default(), false);
/// let chunk = |text: &str| format!("data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n");
/// relay.handle_bytes(now, chunk("[1, 2").into());
/// assert!(matches!(relay.poll_output(), Some(Output::Bytes(bytes)) if bytes == chunk("[1, 2")));
///
/// relay.handle_hangup(now, Hangup::Dropped);
/// assert!(matches!(relay.poll_output(), Some(Output::Call { .. })));
/// relay.handle_open(now);
/// relay.handle_bytes(now, format!("{}data: [DONE]\n\n", chunk("[1, 2, 3]")).into());
/// let rest: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
/// assert!(matches!(&rest[0], Output::Seam { seam, .. } if seam.path == "/1"));
/// assert!(matches!(&rest[1], Output::Bytes(bytes) if bytes.ends_with(b"\"delta\":{\"content\":\", 3]\"},\"finish_reason\":null}]}\n\n")));
/// assert!(matches!(rest.last(), Some(Output::Done { .. })));
/// ```
#[derive(Debug)]
pub struct Relay {
    session: Session,
    decoder: Decoder,
    reader: Reader,
    writer: Writer,
    digest: Digest,
    limits: Limits,
    phase: Phase,
    /// Raw bytes of the open call that have not left: they begin at `forwarded`.
    pending: Bytes,
    forwarded: u64,
    /// Something of the first answer has left.
    has_sent: bool,
    /// A finish reason, or `[DONE]`, has left as it came.
    finish_sent: bool,
    done_sent: bool,
    /// How the call that is open is going to end, once its last events have been read.
    end: Option<End>,
    /// Usage of the call that is open, and of all before it.
    usage: Option<String>,
    usages: Option<String>,
    /// The call that is open has answered.
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

/// How the transport of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hangup {
    /// The body ended as announced.
    Closed,
    /// The connection was lost.
    Dropped,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Bytes for the client.
    Bytes(Bytes),
    /// The open call is over. Another one is to be made, not before `at`.
    Call {
        /// What to ask for.
        request: Request,
        /// Since the same moment as `now`.
        at: Duration,
    },
    /// A continuation was joined.
    Seam {
        /// Where and how.
        seam: Seam,
        /// From the end of the call before to the first text that was certain.
        elapsed: Duration,
    },
    /// A call failed.
    Failed(Reason),
    /// The open call is over, and nothing follows.
    Done {
        /// How the answer came about.
        outcome: Outcome,
        /// The stream is to end as it did upstream: [`Hangup::Dropped`] where the client must not take it for whole.
        hangup: Hangup,
    },
}

/// What one event held, as far as a relay is concerned. Reused from event to event.
#[derive(Debug, Default)]
struct Digest {
    text: String,
    finish: Option<Finish>,
    usage: Option<String>,
    error: Option<String>,
    done: bool,
    /// Tool calls, or a choice other than the first.
    opaque: bool,
    /// Reasoning or a refusal: nothing for the document, but nothing to drop either.
    other: bool,
}

impl Digest {
    fn read(&mut self, reader: &mut Reader, event: &Event<'_>) {
        self.text.clear();
        *self = Self { text: std::mem::take(&mut self.text), ..Self::default() };
        let kind = reader.read(&event.event, &event.data, |delta| match delta {
            Delta::Text { choice: 0, text } => self.text.push_str(text),
            Delta::Reasoning { choice: 0, .. } | Delta::Refusal { choice: 0, .. } => self.other = true,
            Delta::Finish { choice: 0, reason } => self.finish = Some(reason),
            Delta::Usage { raw } => self.usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            Delta::Done => self.done = true,
            _ => self.opaque = true,
        });
        self.other |= kind == Kind::Other;
    }

    /// How the call ends with this event, if it does.
    fn end(&self) -> Option<End> {
        match (&self.error, &self.finish) {
            (Some(message), _) => Some(End::Error(message.clone())),
            (None, Some(reason)) => Some(End::Finished(reason.clone())),
            (None, None) => self.done.then_some(End::Closed),
        }
    }

    /// Nothing but a role, or nothing at all.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.usage.is_none() && !self.opaque && !self.other && self.end().is_none()
    }
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
            digest: Digest::default(),
            limits,
            phase: Phase::Healthy { adopt: false },
            pending: Bytes::new(),
            forwarded: 0,
            has_sent: false,
            finish_sent: false,
            done_sent: false,
            end: None,
            usage: None,
            usages: None,
            opened: true,
            sent_at: Duration::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// The session, for a look at the document.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The call that was asked for has answered with a stream.
    pub fn handle_open(&mut self, now: Duration) {
        self.opened = true;
        self.session.handle_input(now, Input::Sign);
    }

    /// The call that was asked for was refused, or could not be made.
    pub fn handle_rejection(&mut self, now: Duration, end: End) {
        self.end_call(now, end);
    }

    /// Bytes of the open call.
    pub fn handle_bytes(&mut self, now: Duration, bytes: Bytes) {
        match self.phase {
            Phase::Done => return,
            Phase::Blind => return self.send(now, bytes),
            _ => self.session.handle_input(now, Input::Sign),
        }
        let raw = matches!(self.phase, Phase::Healthy { adopt: false });
        if raw {
            // Usually nothing waits, and the chunk leaves as it is.
            self.pending =
                if self.pending.is_empty() { bytes.clone() } else { [&self.pending[..], &bytes[..]].concat().into() };
        }
        let mut input: &[u8] = &bytes;
        while !matches!(self.phase, Phase::Done | Phase::Blind) {
            let adopt = matches!(self.phase, Phase::Healthy { adopt: true });
            let (start, data) = match self.decoder.next_event(&mut input) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    self.writer.observe(&event.data);
                    self.digest.read(&mut self.reader, &event);
                    (event.range.start, adopt.then(|| event.data.into_owned()))
                }
                Err(error) => return self.undecodable(now, &error),
            };
            let call = self.session.calls();
            self.event(now, start, data);
            if self.session.calls() != call {
                // The call is over: what else it sent belongs to nobody.
                break;
            }
        }
        if matches!(self.phase, Phase::Healthy { adopt: false }) {
            self.forward(now, self.decoder.boundary());
            // A block without end that is made of comments alone reaches no cap of the decoder's.
            if self.pending.len() > self.limits.event.saturating_mul(2) {
                self.go_blind(now);
            }
        }
    }

    /// The transport of the open call has ended.
    pub fn handle_hangup(&mut self, now: Duration, hangup: Hangup) {
        match self.phase {
            Phase::Done => return,
            Phase::Blind => return self.passed(now, hangup),
            _ => {}
        }
        let mut torn = false;
        if hangup == Hangup::Closed {
            // Several servers end without the last blank line: what stands there is an event all the same.
            let adopt = matches!(self.phase, Phase::Healthy { adopt: true });
            let last = match self.decoder.finish() {
                Ok(Some(event)) => {
                    self.digest.read(&mut self.reader, &event);
                    Some((event.range.start, adopt.then(|| event.data.into_owned())))
                }
                _ => None,
            };
            if let Some((start, data)) = last {
                torn = true;
                let call = self.session.calls();
                self.event(now, start, data);
                if self.session.calls() != call || self.phase == Phase::Done {
                    return;
                }
            }
        }
        let transport = if hangup == Hangup::Closed { End::Closed } else { End::Dropped };
        if torn && matches!(self.phase, Phase::Healthy { adopt: false }) && !self.digest.text.is_empty() {
            // Its text counts: it leaves with the blank line that it lacks.
            let rest = std::mem::take(&mut self.pending);
            self.send(now, rest);
            self.send(now, Bytes::from_static(b"\n\n"));
        }
        match self.phase {
            // How the call ended is known from its last event.
            Phase::Healthy { .. } if self.finish_sent => self.passed(now, hangup),
            Phase::Healthy { adopt: false } if !self.session.would_continue(&transport) => self.passed(now, hangup),
            _ => {
                let end = self.end.take().unwrap_or(transport);
                self.end_call(now, end);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, unless something comes.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let keep_alive = match self.phase {
            Phase::Withheld | Phase::Continuing => Some(self.sent_at + self.limits.keep_alive),
            _ => None,
        };
        let silence = self.silence();
        keep_alive.into_iter().chain(silence).min()
    }

    /// Time has passed: the client is told that the stream lives, or a silent call is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.silence().is_some_and(|due| now >= due) {
            let end = self.end.take().unwrap_or(End::Silent);
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
        match self.phase {
            Phase::Healthy { .. } if self.finish_sent => None,
            Phase::Healthy { .. } | Phase::Withheld | Phase::Continuing => self.session.poll_timeout(self.opened),
            Phase::Blind | Phase::Done => None,
        }
    }

    /// One event, as the digest has it. It began at `start`; `data` is its text where it must be written anew.
    fn event(&mut self, now: Duration, start: u64, data: Option<String>) {
        if self.digest.usage.is_some() {
            self.usage = self.digest.usage.take();
        }
        match self.phase {
            Phase::Healthy { adopt } => self.healthy_event(now, start, adopt, data),
            Phase::Withheld => {
                if self.digest.done || self.digest.error.is_some() {
                    let end = self.end.take().unwrap_or(End::Closed);
                    self.end_call(now, end);
                }
            }
            Phase::Continuing => {
                if !self.digest.text.is_empty() {
                    self.session.handle_input(now, Input::Text(&self.digest.text));
                    self.drain(now);
                }
                match self.digest.end() {
                    // Usage and `[DONE]` are still to come.
                    Some(end @ End::Finished(_)) => self.end = self.end.take().or(Some(end)),
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

    fn healthy_event(&mut self, now: Duration, start: u64, adopt: bool, data: Option<String>) {
        self.done_sent |= self.digest.done && !adopt;
        if self.finish_sent {
            return;
        }
        if self.digest.opaque {
            self.session.pass();
        }
        if !self.digest.text.is_empty() {
            self.session.handle_input(now, Input::Text(&self.digest.text));
        }
        let end = self.digest.end();
        let Some(end) = end else {
            if let Some(data) = data.filter(|_| !self.digest.is_empty()) {
                self.write(now, |writer, out| writer.adopt(out, &data));
            }
            return;
        };
        if !adopt && !self.session.would_continue(&end) {
            self.finish_sent = true;
            return;
        }
        // The terminal event is kept back; text that came with it is not.
        if !adopt {
            self.forward(now, start);
        }
        self.pending.clear();
        self.phase = Phase::Withheld;
        if !self.digest.text.is_empty() {
            let text = std::mem::take(&mut self.digest.text);
            self.write(now, |writer, out| writer.text(out, &text));
        }
        if matches!(end, End::Finished(_)) {
            self.end = Some(end);
        } else {
            self.end_call(now, end);
        }
    }

    /// The open call is over: the session decides.
    fn end_call(&mut self, now: Duration, end: End) {
        if let Some(usage) = self.usage.take() {
            add_usage(&mut self.usages, &usage);
        }
        self.end = None;
        self.session.handle_input(now, Input::End(end));
        self.drain(now);
    }

    fn drain(&mut self, now: Duration) {
        while let Some(output) = self.session.poll_output() {
            match output {
                super::Output::Text(text) => self.write(now, |writer, out| writer.text(out, &text)),
                super::Output::Seam { seam, elapsed } => self.outputs.push_back(Output::Seam { seam, elapsed }),
                super::Output::Failed(reason) => self.outputs.push_back(Output::Failed(reason)),
                super::Output::Call { request, at } => {
                    self.decoder = Decoder::new(&self.limits);
                    self.reader = Reader::new();
                    self.pending.clear();
                    self.forwarded = 0;
                    self.opened = false;
                    let untouched = self.session.is_first();
                    self.phase = match (untouched, self.has_sent) {
                        (true, sent) => Phase::Healthy { adopt: sent },
                        (false, _) => Phase::Continuing,
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
        let mut hangup = Hangup::Closed;
        let report = outcome.report();
        let reason = match (outcome.status, &outcome.finish) {
            (Status::Failed, _) => None,
            (Status::Closed, Some(reason @ Finish::ContentFilter)) => Some(reason.as_str()),
            (Status::Closed, _) => Some(Finish::Length.as_str()),
            (_, Some(reason)) => Some(reason.as_str()),
            (Status::Complete, None) => Some(Finish::Stop.as_str()),
            (Status::Passed, None) => None,
        };
        let fence = self.session.document().has_fence() && self.session.is_spliced();
        let usages = self.usages.take();
        let mut out = Vec::new();
        if let Some(reason) = reason {
            if fence {
                self.writer.text(&mut out, CLOSING_FENCE);
            }
            let report = Some(report.as_str());
            self.writer.finish(&mut out, reason, report.filter(|_| usages.is_none()));
            if let Some(usages) = &usages {
                self.writer.usage(&mut out, usages, report);
            }
            self.writer.done(&mut out);
        } else if outcome.status == Status::Failed {
            Encoder::event(&mut out, None, None, &failure(&report));
        } else {
            hangup = Hangup::Dropped;
        }
        self.send(now, out.into());
        self.end_with(outcome, hangup);
    }

    /// The first answer stands as it came.
    fn passed(&mut self, now: Duration, hangup: Hangup) {
        let whole = self.session.document().is_complete();
        let mut hangup = hangup;
        let rest = std::mem::take(&mut self.pending);
        if hangup == Hangup::Dropped && whole {
            // Only the end of the stream was lost, nothing of the document.
            let mut out = Vec::new();
            if !self.finish_sent {
                self.writer.finish(&mut out, Finish::Stop.as_str(), None);
            }
            if !self.done_sent {
                self.writer.done(&mut out);
            }
            self.send(now, out.into());
            hangup = Hangup::Closed;
        } else {
            self.send(now, rest);
        }
        self.session.handle_input(now, Input::End(End::Closed));
        let outcome = std::iter::from_fn(|| self.session.poll_output()).find_map(|output| match output {
            super::Output::Done(outcome) => Some(outcome),
            _ => None,
        });
        let outcome = outcome.unwrap_or_else(|| self.session.outcome(Status::Passed));
        self.end_with(outcome, hangup);
    }

    fn end_with(&mut self, outcome: Outcome, hangup: Hangup) {
        self.phase = Phase::Done;
        self.outputs.push_back(Output::Done { outcome, hangup });
    }

    /// The stream of the open call can't be decoded: a healthy one goes on unseen, a continuation is over.
    fn undecodable(&mut self, now: Duration, error: &DecodeError) {
        if matches!(self.phase, Phase::Healthy { adopt: false }) {
            self.go_blind(now);
        } else {
            let end = self.end.take().unwrap_or_else(|| End::Error(error.to_string()));
            self.end_call(now, end);
        }
    }

    fn go_blind(&mut self, now: Duration) {
        self.phase = Phase::Blind;
        let rest = std::mem::take(&mut self.pending);
        self.send(now, rest);
    }

    /// Lets raw bytes go, up to an absolute offset.
    fn forward(&mut self, now: Duration, to: u64) {
        let length = to.saturating_sub(self.forwarded).min(self.pending.len() as u64);
        self.forwarded += length;
        let bytes = self.pending.split_to(length as usize);
        self.send(now, bytes);
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
            self.has_sent = true;
            self.sent_at = now;
            self.outputs.push_back(Output::Bytes(bytes));
        }
    }
}

/// Ends a fence that was sent open, behind the root.
pub(super) const CLOSING_FENCE: &str = "\n```";

/// The error that ends an answer of which nothing came.
pub(super) fn failure(report: &str) -> String {
    format!(
        r#"{{"error":{{"message":"the upstream delivered nothing of an answer, although it was asked again","type":"upstream_error","param":null,"code":"nothing_delivered"}},"restitch":{report}}}"#
    )
}
