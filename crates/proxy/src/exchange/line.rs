//! The end of an answer: writes the line in the log when the client has got the answer or has left,
//! and closes the measurements and the page's entry.

use crate::steps::milliseconds;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Body, Frame};
use tokio::time::Instant;
use tracing::Span;

use super::{AnswerState, Exchange, RequestLine, shortened};
use crate::answers::{self, Stopped};
use crate::measured::{AnswerEnd, LEFT};
use crate::metrics::{Metrics, cause_name};
use restitch::internal::record::AnswerRecord;
use restitch::provider::Dialect;
use restitch::session::{Outcome, StopReason};

/// Watches the bytes of an answer for its client, and logs one line when the answer has ended or
/// the client has left.
#[derive(Debug)]
pub(crate) struct AccessLine(DeliveryProgress);

/// Watches the bytes of a kept answer for the store. It lives as long as the task that writes the
/// answer, even if the client has left.
#[derive(Debug)]
pub(crate) struct KeptLine(DeliveryProgress);

/// The progress of an answer.
#[derive(Debug)]
struct DeliveryProgress {
    exchange: Arc<Exchange>,
    bytes: u64,
    first_byte: Option<Duration>,
    longest_silence: Duration,
    /// The time of the last bytes.
    last: Instant,
    end: BodyEnd,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug)]
enum BodyEnd {
    /// The client has left before the end, or the answer or the proxy was stopped.
    Left,
    Whole,
    /// The answer broke off.
    Broken,
}

impl AccessLine {
    pub(crate) fn new(exchange: Arc<Exchange>) -> Self {
        Self(DeliveryProgress::new(exchange))
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        &self.0.exchange.span
    }

    /// Notes that a body has ended.
    pub(crate) fn note_end(&mut self) {
        self.0.end = BodyEnd::Whole;
    }

    /// Notes that the answer broke off.
    pub(crate) fn note_break(&mut self) {
        self.0.end = BodyEnd::Broken;
    }

    /// Notes a frame of a body, and the end of the body if it is known to be complete: hyper does
    /// not poll a body of known length for its end.
    pub(crate) fn note_frame(&mut self, body: &impl Body, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.0.note_bytes(data.len(), false);
        }
        if body.is_end_stream() {
            self.note_end();
        }
    }
}

impl KeptLine {
    /// Marks the answer as kept: from now on it does not end when its client leaves.
    pub(crate) fn new(exchange: Arc<Exchange>) -> Self {
        exchange.state().is_kept = true;
        Self(DeliveryProgress::new(exchange))
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        &self.0.exchange.span
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(crate) fn stopped(&self) -> Stopped {
        self.0.exchange.stopped()
    }

    /// Notes bytes of the answer.
    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.0.note_bytes(bytes, true);
    }

    /// Notes that the answer has ended.
    pub(crate) fn note_end(&mut self) {
        self.0.end = BodyEnd::Whole;
    }

    /// Notes that the answer broke off.
    pub(crate) fn note_break(&mut self) {
        self.0.end = BodyEnd::Broken;
    }
}

impl DeliveryProgress {
    fn new(exchange: Arc<Exchange>) -> Self {
        let last = exchange.began;
        Self {
            exchange,
            bytes: 0,
            first_byte: None,
            longest_silence: Duration::ZERO,
            last,
            end: BodyEnd::Left,
        }
    }

    /// Notes bytes. `is_kept`: the client of a kept answer may get the bytes later.
    fn note_bytes(&mut self, bytes: usize, is_kept: bool) {
        let now = Instant::now();
        if self.first_byte.is_none() {
            let first_byte = now.duration_since(self.exchange.began);
            self.first_byte = Some(first_byte);
            if self.exchange.answers.is_some() {
                let state = self.exchange.state();
                let answer = state.answer.clone().filter(|_| state.is_kept == is_kept);
                drop(state);
                answer
                    .iter()
                    .for_each(|answer| answer.note_first_byte(first_byte));
            }
        } else {
            let silence = now.duration_since(self.last);
            self.longest_silence = self.longest_silence.max(silence);
        }
        self.last = now;
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Closes the record, the measurements and the page's entry of the answer.
    fn end_answer(&self, state: &mut AnswerState) {
        let duration = self.exchange.began.elapsed();
        let break_off = match self.end {
            BodyEnd::Left => Some(LEFT),
            BodyEnd::Whole => None,
            BodyEnd::Broken => Some("broken"),
        };
        self.exchange.record().end_call(break_off);
        if let Some(answer) = state.answer.take() {
            answer.end(answers::End {
                status: state.status,
                how: self.end.as_str(),
                bytes: self.bytes,
                duration,
            });
        }
        if let Some(measured) = state.measured.take() {
            measured.end(&AnswerEnd {
                record: &self.exchange.record(),
                token: state.token.clone().unwrap_or_default(),
                status: state.status,
                break_off,
                first_byte: self.first_byte,
                last_byte: self.last.duration_since(self.exchange.began),
                duration,
            });
        }
        // The page keeps the record of the last answers.
        self.exchange.record().forget_reasons();
    }

    /// Writes the line of a request, or of a kept answer.
    fn log(&self, state: &AnswerState, message: &'static str) {
        let Exchange {
            line:
                RequestLine {
                    method,
                    path,
                    client,
                    ..
                },
            span,
            began,
            ..
        } = &*self.exchange;
        let line = LineState::of(&self.exchange.record());
        let outcome = line.outcome.as_ref();
        let answered = (!state.answered.is_empty()).then(|| state.answered.join(","));
        let upstream = answered.as_deref().or(state.upstream.as_deref());
        let requests = &state.upstream_requests;
        let upstream_requests = (!requests.is_empty()).then(|| requests.join(","));
        let _entered = span.enter();
        tracing::info!(
            target: "restitch::access",
            client = client.map(tracing::field::display),
            %method,
            path = path.as_str(),
            token = state.token.as_deref(),
            route = state.route.as_ref().map(|route| route.name.as_str()),
            upstream,
            wire = line.wire.map(tracing::field::display),
            model = line.model.as_deref(),
            status = state.status.map(|status| status.as_u16()),
            upstream_status = state.upstream_status.map(|status| status.as_u16()),
            upstream_requests = upstream_requests.as_deref(),
            outcome = outcome.map(|outcome| outcome.status),
            stop = outcome.and_then(|outcome| outcome.stop),
            limit = outcome.and_then(|outcome| outcome.limit.as_deref()),
            cuts = line.cuts,
            causes = line.causes.as_deref().map(tracing::field::display),
            continuations = line.continuations,
            failures = line.failures,
            tokens_kept = line.tokens_kept,
            tokens_regenerated = line.tokens_regenerated,
            bytes = self.bytes,
            first_byte_ms = self.first_byte.map(milliseconds),
            longest_silence_ms = milliseconds(self.longest_silence),
            duration_ms = milliseconds(began.elapsed()),
            end = self.end.as_str(),
            "{message}"
        );
    }
}

impl BodyEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Left => LEFT,
            Self::Whole => "whole",
            Self::Broken => "broken",
        }
    }
}

impl Drop for KeptLine {
    fn drop(&mut self) {
        let Self(progress) = self;
        let mut state = progress.exchange.state();
        progress.end_answer(&mut state);
        // The line of a request whose client has left lacks the outcome of its kept answer.
        progress.log(&state, "a kept answer has ended");
    }
}

/// The fields about the request and its calls in the lines of a request and of a kept answer.
struct LineState {
    wire: Option<Dialect>,
    model: Option<String>,
    outcome: Option<OutcomeState>,
    cuts: Option<usize>,
    causes: Option<String>,
    continuations: Option<u32>,
    failures: Option<u32>,
    tokens_kept: Option<u64>,
    tokens_regenerated: Option<u64>,
}

/// The end of an answer. The lines of the steps, which also name the limit, are at `debug`.
struct OutcomeState {
    status: &'static str,
    stop: Option<&'static str>,
    /// The limit that ended a call, with its value.
    limit: Option<String>,
}

impl OutcomeState {
    fn of(outcome: &Outcome) -> Self {
        Self {
            status: outcome.status().as_str(),
            stop: outcome.reason().map(StopReason::as_str),
            limit: outcome.tally().limit.as_ref().map(ToString::to_string),
        }
    }
}

impl LineState {
    fn of(record: &AnswerRecord) -> Self {
        let (continuations, failures) = match &record.outcome {
            // The tally counts a refused call and its adapted repeat as one call.
            Some(outcome) => (outcome.tally().continuations, outcome.tally().failures),
            None => {
                let made = record.calls.iter().filter(|call| call.is_made());
                let further = made.filter(|call| !call.kind.keeps_tokens()).count();
                (u32::try_from(further).unwrap_or(u32::MAX), record.failures)
            }
        };
        let causes: Vec<_> = record.causes.iter().copied().map(cause_name).collect();
        Self {
            wire: record.request.as_ref().map(|request| request.dialect),
            model: record
                .request
                .as_ref()
                .map(|request| shortened(&request.model)),
            outcome: record.outcome.as_ref().map(OutcomeState::of),
            cuts: (!causes.is_empty()).then_some(causes.len()),
            causes: (!causes.is_empty()).then(|| causes.join(",")),
            continuations: (continuations > 0).then_some(continuations),
            failures: (failures > 0).then_some(failures),
            tokens_kept: record.tokens(true),
            tokens_regenerated: record.tokens(false),
        }
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let Self(progress) = self;
        let mut state = progress.exchange.state();
        if let Some(metrics) = &progress.exchange.metrics {
            metrics.requests.count(
                state.route.as_ref().map(|route| &*route.name),
                state
                    .answered
                    .first()
                    .or(state.upstream.as_ref())
                    .map(String::as_str),
                state.status,
            );
        }
        if !state.is_kept {
            progress.end_answer(&mut state);
        }
        progress.log(&state, "answered");
    }
}

/// Logs and counts a request whose head was not read.
pub(crate) fn log_unread(status: StatusCode, metrics: Option<&Metrics>) {
    metrics
        .iter()
        .for_each(|metrics| metrics.requests.count(None, None, Some(status)));
    tracing::info!(target: "restitch::access", status = status.as_u16(), end = BodyEnd::Whole.as_str(), "answered");
}
