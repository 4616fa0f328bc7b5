//! Streams that an upstream server keeps for clients that lose their connection.

use std::sync::Arc;

use super::route::Route;
use super::upstream::{self, Head};
use restitch_http::Body;

/// A stream that the server keeps under the proxy's name for it, and that continues without a
/// reader.
#[derive(Clone)]
pub(super) struct KeptStream {
    pub(super) route: Arc<Route>,
    /// The request that stops it.
    pub(super) head: Head,
}

impl KeptStream {
    /// Stops the stream, if it is still running.
    pub(super) async fn stop(&self) {
        let patience = self.route.limits.transport.idle();
        let answer = upstream::send(&self.route.client, &self.head, Body::full(""), patience).await;
        let status = answer.ok().map(|response| response.status().as_u16());
        tracing::debug!(status, "stopped a kept stream");
    }
}

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
