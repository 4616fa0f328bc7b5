//! Streams that an upstream server keeps for clients that lose their connection.

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

    /// Returns whether the server stops streams. Asks it, unless an earlier answer has shown that.
    pub(super) async fn can_be_stopped(&self) -> bool {
        let upstream = self.route.client.upstream().authority();
        if !self.proxy.shared.stops_streams(upstream) {
            let mut limit = self.route.limits.transport.idle();
            // A server without this path may leave the request open.
            limit.time = limit.time.min(LONGEST_QUESTION);
            self.ask(limit).await;
        }
        self.proxy.shared.stops_streams(upstream)
    }

    /// Sends the request that stops the stream, and notes whether the server stops streams.
    async fn ask(&self, limit: TimeLimit) {
        let answer = upstream::send(&self.route.client, &self.head, Body::full(""), limit).await;
        let status = answer.ok().map(|response| response.status());
        tracing::debug!(
            status = status.map(|status| status.as_u16()),
            "stopped a kept stream"
        );
        let (shared, upstream) = (&self.proxy.shared, self.route.client.upstream().authority());
        // The server accepts the name of a stream that it does not have, so a 404 is about the path.
        if status == Some(StatusCode::NOT_FOUND) {
            shared.record(upstream, &self.model, CapabilityHint::NoKeptStreams);
        }
        if let Some(status) = status {
            shared.note_stops_streams(upstream, status.is_success());
        }
    }
}

/// The longest wait for an answer that shows whether the server stops streams: the first call waits
/// for it, until an answer shows that the server stops streams, or has no path for it.
const LONGEST_QUESTION: Duration = Duration::from_secs(2);

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
