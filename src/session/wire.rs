//! Code that both wires share: event streams ([`relay`](super::relay)) and whole bodies
//! ([`body`](super::body)).

use std::time::Duration;

use bytes::Bytes;

use super::{Outcome, Request, SessionEvent, StopReason};
use crate::provider::Finish;
use crate::provider::wire::SlotKind;

/// How the transport of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportEnd {
    /// The body ended as announced.
    Closed,
    /// The connection was lost.
    Dropped,
}

/// An action for the caller, or a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Bytes for the client.
    Bytes(Bytes),
    /// The open call is over. The caller must make another one, not before `at`.
    Call {
        /// The request of the call.
        request: Request,
        /// Since the same moment as `now`.
        at: Duration,
    },
    /// A step of the loop: only for logs and pages.
    Event(SessionEvent),
    /// Usage of the open call before its end: the provider's usage object, as JSON.
    Usage(String),
    /// The open call is over, and no output follows.
    Done {
        /// The result of the answer.
        outcome: Outcome,
        /// The contents of the slot that ended worst: the outcome is that slot's.
        slot: SlotKind,
        /// The client's stream must end like the upstream's: [`TransportEnd::Dropped`] if the
        /// client must not take it for whole.
        transport_end: TransportEnd,
    },
}

/// Returns the finish reason that the client receives, if any.
pub(super) fn finish_reason(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Closed {
            finish: Some(Finish::ContentFilter),
            ..
        } => Some(Finish::ContentFilter.as_str()),
        Outcome::Closed { .. } => Some(Finish::Length.as_str()),
        Outcome::Complete { finish: None, .. } => Some(Finish::Stop.as_str()),
        _ => outcome.finish().map(Finish::as_str),
    }
}

/// Returns the message and the code of the error that ends an answer; `reason` is the upstream's
/// last error message. `began`: text was delivered.
pub(super) fn failure(
    outcome: &Outcome,
    began: bool,
    reason: Option<&str>,
) -> (String, &'static str) {
    if outcome.reason() == Some(StopReason::Stopped) {
        let why = match &outcome.tally().limit {
            Some(limit) => format!("the answer was stopped: the limit `{limit}` is reached"),
            None => "the operator has stopped the answer".to_owned(),
        };
        return (why, StopReason::Stopped.as_str());
    }
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let (what, code) = match began {
        true => (
            "the answer was cut, and its rest could not be had",
            "incomplete",
        ),
        false => (
            "the upstream delivered nothing of an answer, although it was asked again",
            "nothing_delivered",
        ),
    };
    (format!("{what}{reason}"), code)
}
