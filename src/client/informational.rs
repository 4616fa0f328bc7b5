//! Bounds the informational responses (1xx) before the head of a response. hyper reads and drops any number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Request;
use hyper::ext::on_informational;
use tokio::sync::Notify;

/// The most informational responses of one call. Servers send one or two: `100 Continue`, `103 Early Hints`.
pub(super) const MOST: u32 = 8;

/// The informational responses to one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Informational(Arc<State>);

#[derive(Debug, Default)]
struct State {
    count: AtomicU32,
    flooded: Notify,
}

impl Informational {
    /// Counts the informational responses to a request.
    pub(super) fn of<B>(request: &mut Request<B>) -> Self {
        let counted = Self::default();
        let counts = counted.clone();
        on_informational(request, move |_| {
            if counts.0.count.fetch_add(1, Ordering::Relaxed) == MOST {
                counts.0.flooded.notify_one();
            }
        });
        counted
    }

    /// Waits until there are too many.
    pub(super) async fn flooded(&self) {
        self.0.flooded.notified().await;
    }

    /// Returns whether there were too many. They may have come together with the response.
    pub(super) fn is_flooded(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) > MOST
    }
}
