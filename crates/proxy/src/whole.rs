//! Answers without streaming: the proxy reads the whole body, completes it, and sends one response.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::body::{Collected, ReadError};
use super::conversation::Conversation;
use super::encoding::DecodedBody;
use super::fallback::Part;
use super::refusal::SHOULD_RETRY;
use super::rest_call::{RestCall, rejected};
use restitch::internal::limits::TimeLimit;
use restitch::internal::relay::{BodyRelay, Output};
use restitch::session::{CallEnd, LimitReached, Outcome, Request, Status, StopReason};
use restitch_http::Body;

impl Conversation {
    /// Reads the whole body, makes the calls that complete it, and answers with one response.
    pub(super) async fn whole(self: Box<Self>, response: Response<DecodedBody>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        let limit = self.caller.limits.parser.max_event_bytes;
        let mut whole = self.body_relay();
        let origin = Instant::now();
        let (mut heard_at, mut is_late) = (origin, false);
        let mut answer = Bytes::new();
        let exchange = Arc::clone(&self.caller.exchange);
        // One future serves all waits below, so that a signal between two waits is not missed.
        let mut stop = pin!(exchange.ended());
        let limit_of_stop = || {
            exchange
                .cut
                .is_asked()
                .then(|| self.caller.proxy.limits.server.drain().into())
        };
        let read = tokio::select! {
            read = Collected::read(body, limit, self.timeouts(), |_| {
                // The time of the last byte, since a body that still arrives is not silent.
                heard_at = Instant::now();
                true
            }) => read,
            () = &mut stop => {
                whole.stop(limit_of_stop());
                Err(ReadError::Dropped)
            }
        };
        match read {
            Ok(Collected::Whole(body)) => match String::from_utf8(body.into()) {
                Ok(body) => {
                    whole = handle_body(whole, origin.elapsed(), self.caller.redacted(body)).await;
                }
                // A body that is not UTF-8 is not JSON, so it can't be continued, and passes
                // unchanged.
                Err(error) => return Response::from_parts(parts, Body::full(error.into_bytes())),
            },
            Ok(Collected::Larger(body)) => {
                return passed_unread(Response::from_parts(parts, body), "max_event_bytes", limit);
            }
            Err(unread) => {
                // A second call to the same upstream may be silent just as long, so a late failure
                // leaves no time for one.
                is_late = heard_at.elapsed() > self.caller.limits.continuation.patience / 2;
                whole.handle_end(origin.elapsed(), unread.end());
            }
        }
        while let Some(output) = whole.poll_output() {
            self.observed(&output);
            match output {
                Output::Call { .. } if std::mem::take(&mut is_late) => {
                    match self.caller.leave_failed(Part::Whole) {
                        Some(redirected) => whole.handle_end(origin.elapsed(), redirected),
                        None => whole.give_up_unasked(origin.elapsed()),
                    }
                }
                Output::Call { request, at } => {
                    let answered = tokio::select! {
                        answered = self.whole_call(&request, origin + at) => answered,
                        () = &mut stop => {
                            whole.stop(limit_of_stop());
                            // A call that was already made counts as a failed one.
                            let is_made = origin.elapsed() >= at;
                            Err(if is_made { rejected("the answer was stopped".to_owned(), false) } else { CallEnd::Stopped })
                        }
                    };
                    match answered {
                        Ok(body) => {
                            whole =
                                handle_body(whole, origin.elapsed(), self.caller.redacted(body))
                                    .await;
                        }
                        Err(end) => whole.handle_end(origin.elapsed(), end),
                    }
                }
                Output::Bytes(body) => {
                    // The first response announced the length of its own body.
                    parts
                        .headers
                        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                    self.show_body(&body);
                    answer = body;
                }
                Output::Done { outcome, .. } => {
                    if outcome.status() == Status::Failed {
                        let is_stopped = outcome.reason() == Some(StopReason::Stopped);
                        parts.status = if is_stopped {
                            StatusCode::SERVICE_UNAVAILABLE
                        } else {
                            StatusCode::BAD_GATEWAY
                        };
                        // The proxy has already repeated these calls, which are billed, so the SDK
                        // should not.
                        parts
                            .headers
                            .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                    }
                    parts.headers.extend(report_headers(&outcome));
                    parts
                        .headers
                        .extend(outcome.tally().limit.as_ref().and_then(limit_header));
                }
                _ => {}
            }
        }
        Response::from_parts(parts, Body::full(answer))
    }

    /// Makes a further call at a given time, and reads the body of its answer.
    async fn whole_call(&self, request: &Request, at: Instant) -> Result<String, CallEnd> {
        sleep_until(at).await;
        let response = RestCall::new(&self.caller, request).make().await?;
        let limit = self.caller.limits.parser.max_event_bytes;
        match Collected::read(response.into_body(), limit, self.timeouts(), |_| true).await {
            // Replacing invalid UTF-8 by U+FFFD would invent text.
            Ok(Collected::Whole(body)) => String::from_utf8(body.into())
                .map_err(|_| CallEnd::Error("the answer is not UTF-8".to_owned())),
            Ok(Collected::Larger(_)) => Err(CallEnd::Error(format!(
                "the answer is larger than {limit} bytes"
            ))),
            Err(unread) => Err(unread.end()),
        }
    }

    /// Returns the limits of a body's silence, before and after its first byte.
    fn timeouts(&self) -> Option<[TimeLimit; 2]> {
        let limits = &self.caller.limits.transport;
        Some([limits.first_byte(), limits.idle()])
    }

    /// Passes the client's body to the page.
    fn show_body(&self, body: &Bytes) {
        if let Some(answer) = self.caller.exchange.answer() {
            answer.add_body(&String::from_utf8_lossy(body));
        }
    }
}

/// Hands a body to the relay. A repair takes up to a millisecond per KiB, so a large body is
/// processed on a thread that serves no connection.
async fn handle_body(mut relay: BodyRelay, now: Duration, body: String) -> BodyRelay {
    if body.len() < LARGE {
        relay.handle_body(now, body);
        return relay;
    }
    let reading = spawn_blocking(move || {
        relay.handle_body(now, body);
        relay
    });
    match reading.await {
        Ok(relay) => relay,
        // The blocking task is never aborted, so the error is a panic.
        Err(error) => resume_unwind(error.into_panic()),
    }
}

// The move costs some ten microseconds. A body of this size takes far longer to process.
/// The fewest bytes of a body that is processed on another thread.
const LARGE: usize = 64 << 10;

/// Passes an answer on unread, since a body is larger than a limit. The log and a header name the
/// limit.
pub(super) fn passed_unread(
    response: Response<Body>,
    name: &'static str,
    value: usize,
) -> Response<Body> {
    let limit = LimitReached::new(name, value);
    tracing::warn!(%limit, "an answer passes as it came, cut or not: a body has reached a limit");
    let mut response = response;
    response.headers_mut().extend(limit_header(&limit));
    response
}

fn limit_header(limit: &LimitReached) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(format!("{}={}", limit.name, limit.value)).ok()?;
    Some((HeaderName::from_static("x-restitch-limit"), value))
}

/// Returns the report of an answer as headers. A stream reports the same in its last chunk.
fn report_headers(outcome: &Outcome) -> [(HeaderName, HeaderValue); 3] {
    [
        (
            HeaderName::from_static("x-restitch-status"),
            HeaderValue::from_static(outcome.status().as_str()),
        ),
        (
            HeaderName::from_static("x-restitch-calls"),
            outcome.tally().continuations.saturating_add(1).into(),
        ),
        (
            HeaderName::from_static("x-restitch-failures"),
            outcome.tally().failures.into(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use restitch::Limits;

    /// The runtime has one thread for connections and one for large bodies.
    #[test]
    fn others_are_served_while_a_large_body_is_read() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            for (size, is_ready) in [(LARGE / 2, true), (2 * LARGE, false)] {
                // The second thread is busy until the body was polled.
                let (free, busy) = std::sync::mpsc::channel::<()>();
                spawn_blocking(move || busy.recv());
                let body = format!("{{\"choices\": [], \"x\": \"{}\"}}", "x".repeat(size));
                let mut reading = pin!(handle_body(
                    BodyRelay::new(Limits::default()),
                    Duration::ZERO,
                    body
                ));
                let polled = reading
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(polled.is_ready(), is_ready);
                drop(free);
                let mut relay = match polled {
                    Poll::Ready(relay) => relay,
                    Poll::Pending => reading.await,
                };
                assert!(relay.poll_output().is_some());
            }
        });
    }
}
