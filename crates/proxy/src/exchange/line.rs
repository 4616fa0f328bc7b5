//! The end of an answer: writes the line in the log when the client has got the answer or has left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Body, Frame};
use tracing::Span;

use super::{Exchange, shortened};
use crate::answers::Stopped;
use crate::metrics::Metrics;
use crate::record::{BodyEnd, Delivery, Event, Record};
use crate::steps::milliseconds;
use restitch::internal::record::AnswerRecord;
use restitch::session::{Outcome, StopReason};

/// Watches the bytes of an answer, and logs one line when it has ended.
#[derive(Debug)]
pub(crate) struct AccessLine {
    exchange: Arc<Exchange>,
    delivery: Delivery,
    /// The bytes go to the store, from a task that lives on when the client has left.
    is_kept: bool,
}

impl AccessLine {
    /// Watches an answer for its client, until the answer has ended or the client has left.
    pub(crate) fn new(exchange: Arc<Exchange>) -> Self {
        Self::of(exchange, false)
    }

    /// Watches a kept answer: from now on it does not end when its client leaves.
    pub(crate) fn kept(exchange: Arc<Exchange>) -> Self {
        exchange.apply(Event::Kept);
        Self::of(exchange, true)
    }

    fn of(exchange: Arc<Exchange>, is_kept: bool) -> Self {
        Self {
            exchange,
            delivery: Delivery::default(),
            is_kept,
        }
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        &self.exchange.span
    }

    /// Returns a future that is ready when the operator ends the answer.
    pub(crate) fn stopped(&self) -> Stopped {
        self.exchange.stopped()
    }

    /// Counts bytes of the answer.
    pub(crate) fn add(&mut self, bytes: usize) {
        let (now, delivery) = (self.exchange.began.elapsed(), &mut self.delivery);
        if delivery.first_byte.is_none() {
            delivery.first_byte = Some(now);
            self.exchange.apply(Event::FirstByte {
                after: now,
                is_kept: self.is_kept,
            });
        } else {
            let silence = now.saturating_sub(delivery.last_byte);
            delivery.longest_silence = delivery.longest_silence.max(silence);
        }
        delivery.last_byte = now;
        delivery.bytes = delivery.bytes.saturating_add(bytes as u64);
    }

    /// Counts a frame of a body, and ends with it if the body is known to be complete: hyper does
    /// not poll a body of known length for its end.
    pub(crate) fn add_frame(&mut self, body: &impl Body, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.add(data.len());
        }
        if body.is_end_stream() {
            self.end();
        }
    }

    /// The answer is complete.
    pub(crate) fn end(&mut self) {
        self.delivery.end = BodyEnd::Whole;
    }

    /// The answer broke off.
    pub(crate) fn break_off(&mut self) {
        self.delivery.end = BodyEnd::Broken;
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let Self {
            exchange, delivery, ..
        } = self;
        let duration = exchange.began.elapsed();
        delivery.duration = Some(duration);
        if !self.is_kept {
            exchange.count_request();
        }
        // A client may leave before its kept answer ends.
        if exchange.record().is_kept == self.is_kept {
            exchange.apply(Event::Ended(*delivery));
        }
        let message = match self.is_kept {
            // The line of a request whose client has left lacks the outcome of its kept answer.
            true => "a kept answer has ended",
            false => "answered",
        };
        let _entered = exchange.span.enter();
        log(&exchange.record(), delivery, duration, message);
    }
}

/// Writes the line of a request, or of a kept answer.
fn log(record: &Record, delivery: &Delivery, duration: Duration, message: &'static str) {
    let (request, upstream) = (&record.request, &record.upstream);
    let outcome = record.answer.outcome.as_ref();
    let causes = record.causes();
    let (continuations, failures) = tally(&record.answer);
    let joined = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
    let answered = joined(&upstream.answered);
    let own = record
        .route
        .as_ref()
        .map(|route| route.upstream.authority());
    let asked = record.answer.request.as_ref();
    tracing::info!(
        target: "restitch::access",
        client = request.client.map(tracing::field::display),
        method = %request.method,
        path = request.path.as_str(),
        token = record.token.as_deref(),
        route = record.route.as_ref().map(|route| route.config.name.as_str()),
        upstream = answered.as_deref().or(own),
        wire = asked.map(|asked| tracing::field::display(asked.dialect)),
        model = asked.map(|asked| shortened(&asked.model)),
        status = record.status.map(|status| status.as_u16()),
        upstream_status = upstream.status.map(|status| status.as_u16()),
        upstream_requests = joined(&upstream.requests),
        outcome = outcome.map(|outcome| outcome.status().as_str()),
        stop = outcome.and_then(Outcome::reason).map(StopReason::as_str),
        limit = outcome.and_then(|outcome| outcome.tally().limit.as_ref()).map(ToString::to_string),
        cuts = (!causes.is_empty()).then_some(causes.len()),
        causes = (!causes.is_empty()).then(|| tracing::field::display(causes.join(","))),
        continuations = (continuations > 0).then_some(continuations),
        failures = (failures > 0).then_some(failures),
        tokens_kept = record.answer.tokens(true),
        tokens_regenerated = record.answer.tokens(false),
        bytes = delivery.bytes,
        first_byte_ms = delivery.first_byte.map(milliseconds),
        longest_silence_ms = milliseconds(delivery.longest_silence),
        duration_ms = milliseconds(duration),
        end = delivery.end.as_str(),
        "{message}"
    );
}

/// Returns the numbers of continuations and of failures.
fn tally(record: &AnswerRecord) -> (u32, u32) {
    if let Some(outcome) = &record.outcome {
        // The tally counts a refused call and its adapted repeat as one call.
        return (outcome.tally().continuations, outcome.tally().failures);
    }
    let made = record.calls.iter().filter(|call| call.is_made());
    let further = made.filter(|call| !call.kind.keeps_tokens()).count();
    let further = u32::try_from(further).unwrap_or(u32::MAX);
    (further, record.failures)
}

/// Logs and counts a request whose head was not read.
pub(crate) fn log_unread(status: StatusCode, metrics: Option<&Metrics>) {
    if let Some(metrics) = metrics {
        metrics.request("", "", Some(status));
    }
    let end = BodyEnd::Whole.as_str();
    tracing::info!(target: "restitch::access", status = status.as_u16(), end, "answered");
}
