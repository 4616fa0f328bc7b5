//! Streams that an upstream server keeps for clients that lose their connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::Proxy;
use super::caller::Caller;
use super::route::Route;
use super::upstream::{self, Head};
use restitch::internal::capability::CapabilityHint;
use restitch::internal::limits::TimeLimit;
use restitch_http::Body;

/// A stream that the server keeps under the proxy's name for it, and that continues without a
/// reader.
#[derive(Clone)]
pub(super) struct KeptStream {
    proxy: Arc<Proxy>,
    route: Arc<Route>,
    model: String,
    /// The request that stops it.
    head: Head,
}

impl KeptStream {
    /// Returns a stream of this caller's upstream that `head` stops.
    pub(super) fn new(caller: &Caller, head: Head) -> Self {
        Self {
            proxy: Arc::clone(&caller.proxy),
            route: Arc::clone(&caller.route),
            model: caller.model().to_owned(),
            head,
        }
    }

    /// Stops the stream, if it is still running.
    pub(super) async fn stop(&self) {
        self.ask(self.route.limits.transport.idle()).await;
    }

    /// Returns whether the server stops streams. Asks it, unless an earlier answer has shown it.
    pub(super) async fn can_be_stopped(&self) -> bool {
        let upstream = self.route.own.client.upstream().authority();
        if self.proxy.shared.stops_streams(upstream).is_none() {
            let mut limit = self.route.limits.transport.idle();
            // A server without this path may leave the request open.
            limit.time = limit.time.min(LONGEST_QUESTION);
            self.ask(limit).await;
        }
        self.proxy.shared.stops_streams(upstream) == Some(true)
    }

    /// Sends the request that stops the stream, and notes whether the server stops streams.
    async fn ask(&self, limit: TimeLimit) {
        let answer =
            upstream::send(&self.route.own.client, &self.head, Body::full(""), limit).await;
        let status = answer.ok().map(|response| response.status());
        tracing::debug!(
            status = status.map(|status| status.as_u16()),
            "stopped a kept stream"
        );
        let (shared, upstream) = (
            &self.proxy.shared,
            self.route.own.client.upstream().authority(),
        );
        // The server accepts the name of a stream that it does not have, so a 404 is about the path.
        if status == Some(StatusCode::NOT_FOUND) {
            shared.record(upstream, &self.model, CapabilityHint::NoKeptStreams);
        }
        let stops = status.is_some_and(|status| status.is_success());
        shared.note_stops_streams(upstream, stops);
    }
}

// The first call waits for this answer, until one shows that the server stops streams or has no
// path for that.
/// The longest wait for an answer that shows whether the server stops streams.
const LONGEST_QUESTION: Duration = Duration::from_secs(2);

/// Which upstreams stop kept streams. It has no clock: `now` is the time since any fixed moment. The
/// upstreams are the operator's, so the notes are bounded.
#[derive(Debug, Default)]
pub(super) struct StopNotes(BTreeMap<String, (bool, Duration)>);

impl StopNotes {
    /// Returns whether an upstream stops streams. `None`: unknown, or it failed to some time ago.
    pub(super) fn of(&self, upstream: &str, now: Duration) -> Option<bool> {
        let (stops, since) = *self.0.get(upstream)?;
        (stops || now.saturating_sub(since) < FAILURE_COUNTS).then_some(stops)
    }

    /// Notes whether an upstream has stopped a stream.
    pub(super) fn note(&mut self, upstream: &str, stops: bool, now: Duration) {
        self.0.insert(upstream.to_owned(), (stops, now));
    }
}

// The question delays a request, and the server may only be starting.
/// How long a server that has failed to stop a stream is not asked again.
const FAILURE_COUNTS: Duration = Duration::from_secs(60);

/// Stops a stream when its answer is over, or its client has left.
pub(super) struct StopOnDrop(pub(super) KeptStream);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let kept = self.0.clone();
            runtime.spawn(async move { kept.stop().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_to_stop_a_stream_counts_for_a_while() {
        let mut notes = StopNotes::default();
        let second = Duration::from_secs(1);
        assert_eq!(notes.of("a", second), None);
        notes.note("a", false, second);
        assert_eq!(notes.of("a", 60 * second), Some(false));
        assert_eq!(notes.of("a", 61 * second), None);
        assert_eq!(notes.of("b", second), None);
        notes.note("a", true, second);
        assert_eq!(notes.of("a", 1_000_000 * second), Some(true));
    }
}
