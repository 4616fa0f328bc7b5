//! Repeats calls to the same upstream before a fallback takes over.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use super::conversation::Conversation;

/// The repeated calls to one upstream for one answer.
#[derive(Debug, Default)]
pub(super) struct Retries {
    made: u32,
    /// The time of the first failure.
    since: Option<Instant>,
}

impl Conversation {
    /// Returns the wait before a refused or lost call to the same upstream is repeated:
    /// `Retry-After`, or a wait that doubles each time. `None`: no repeat is left, or too little
    /// time.
    pub(super) fn pause_before_retry(&self, retry_after: Option<Duration>) -> Option<Duration> {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let doubled = FIRST_PAUSE.saturating_mul(1 << retries.made.min(10));
        let most = self.limits.transport.max_backoff;
        let wait = retry_after.unwrap_or_else(|| doubled.min(most));
        let now = Instant::now();
        let spent = now.duration_since(*retries.since.get_or_insert(now));
        // Leaves half of the time for a fallback.
        let is_in_time =
            wait <= most && spent.saturating_add(wait) <= self.limits.continuation.patience / 2;
        if retries.made >= self.route.retries || !is_in_time {
            return None;
        }
        retries.made += 1;
        Some(wait)
    }

    /// Resets the count for another upstream.
    pub(super) fn restart_retries(&self) {
        *self.retries.lock().unwrap_or_else(PoisonError::into_inner) = Retries::default();
    }
}

/// The first wait. Each further one doubles it.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);
