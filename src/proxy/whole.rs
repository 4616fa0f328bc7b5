//! Answers that are not streamed: the whole body is read, completed, and sent as one response.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep_until, timeout};

use super::body::Collected;
use super::conversation::Conversation;
use super::encoding::DecodedBody;
use crate::client::Body;
use crate::session::body::Output;
use crate::session::{CallEnd, Outcome, Status};

impl Conversation {
    /// Reads the whole body, makes the calls that complete it, and answers with one response.
    pub(super) async fn whole(self, response: Response<DecodedBody>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        let limits = &self.limits;
        let mut whole = self.body_relay();
        let origin = Instant::now();
        let mut answer = Bytes::new();
        let timeouts = Some((
            limits.transport.first_byte_timeout.max(limits.transport.idle_timeout),
            limits.transport.idle_timeout,
        ));
        match Collected::read(body, limits.parser.max_event_bytes, timeouts).await {
            Ok(Collected::Whole(body)) => match std::str::from_utf8(&body) {
                Ok(body) => whole.handle_body(origin.elapsed(), body),
                // This is not JSON, so there is nothing to continue, and every byte passes.
                Err(_) => return Response::from_parts(parts, Body::full(body)),
            },
            // The body is too large to be read, so it passes.
            Ok(Collected::Larger(body)) => return Response::from_parts(parts, body),
            Err(unread) => whole.handle_end(origin.elapsed(), unread.end()),
        }
        while let Some(output) = whole.poll_output() {
            self.proxy.observed(&output);
            match output {
                Output::Call { request, at } => {
                    sleep_until(origin + at).await;
                    let call = async {
                        let head = timeout(
                            limits.transport.first_byte_timeout.max(limits.transport.idle_timeout),
                            self.call(&request),
                        )
                        .await;
                        let response = head.unwrap_or(Err(CallEnd::TimedOut))?;
                        match Collected::read(response.into_body(), limits.parser.max_event_bytes, timeouts).await {
                            // Bytes that are not UTF-8 are not JSON either; the reader reports that.
                            Ok(Collected::Whole(body)) => Ok(String::from_utf8_lossy(&body).into_owned()),
                            Ok(Collected::Larger(_)) => Err(CallEnd::Error(format!(
                                "the answer is larger than {} bytes",
                                limits.parser.max_event_bytes
                            ))),
                            Err(unread) => Err(unread.end()),
                        }
                    };
                    match call.await {
                        Ok(body) => whole.handle_body(origin.elapsed(), &body),
                        Err(end) => whole.handle_end(origin.elapsed(), end),
                    }
                }
                Output::Bytes(body) => {
                    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                    answer = body;
                }
                Output::Done { outcome, .. } => {
                    if outcome.status() == Status::Failed {
                        parts.status = StatusCode::BAD_GATEWAY;
                    }
                    parts.headers.extend(report_headers(&outcome));
                }
                _ => {}
            }
        }
        Response::from_parts(parts, Body::full(answer))
    }
}

/// Returns how the answer came about, as headers. A stream reports the same in its last chunk.
fn report_headers(outcome: &Outcome) -> [(HeaderName, HeaderValue); 3] {
    [
        (HeaderName::from_static("x-restitch-status"), HeaderValue::from_static(outcome.status().as_str())),
        (HeaderName::from_static("x-restitch-calls"), outcome.tally().continuations.saturating_add(1).into()),
        (HeaderName::from_static("x-restitch-failures"), outcome.tally().failures.into()),
    ]
}
