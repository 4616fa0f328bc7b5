//! Calls that the same upstream gets again before a fallback is asked.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use super::conversation::Conversation;

/// The calls that an upstream got again in one answer.
#[derive(Debug, Default)]
pub(super) struct Retries {
    made: u32,
    /// The first refusal.
    since: Option<Instant>,
}

impl Conversation {
    /// Returns how long to wait before the same upstream gets a call again that it has refused or lost: as long as it asks, or
    /// else twice as long each time. `None`: it has had its share of calls, or wants more time than there is.
    pub(super) fn pause_before_retry(&self, retry_after: Option<Duration>) -> Option<Duration> {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let doubled = FIRST_PAUSE.saturating_mul(1 << retries.made.min(10));
        let most = self.limits.transport.max_backoff;
        let wait = retry_after.unwrap_or_else(|| doubled.min(most));
        let now = Instant::now();
        let spent = now.duration_since(*retries.since.get_or_insert(now));
        // A fallback needs some of the time, too.
        let is_in_time = wait <= most && spent.saturating_add(wait) <= self.limits.continuation.patience / 2;
        if retries.made >= self.route.retries || !is_in_time {
            return None;
        }
        retries.made += 1;
        Some(wait)
    }

    /// Forgets the calls of the upstream that was asked before.
    pub(super) fn restart_retries(&self) {
        *self.retries.lock().unwrap_or_else(PoisonError::into_inner) = Retries::default();
    }
}

/// The first wait. Each further one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);
