//! The upstreams of one answer: which one gets the next call, how long a repeat waits, and whether
//! a continuation is admitted.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Proxy;
use super::fallback::Target;
use super::route::Route;
use restitch::Limits;
use restitch::internal::capability::CapabilityHint;
use restitch::provider::capability::Capability;
use restitch_http::Client;

/// The upstreams of a route, for one answer.
pub(super) struct Upstreams {
    proxy: Arc<Proxy>,
    route: Arc<Route>,
    state: Mutex<UpstreamState>,
}

#[derive(Default)]
struct UpstreamState {
    /// The index of the current upstream: 0 is the route's own one, its fallbacks follow.
    at: usize,
    /// The last call fell silent or brought no text, so the upstream has failed and not the join.
    has_failed: bool,
    /// The time since which continuations wait because most calls fail.
    held_since: Option<Instant>,
    /// The repeated calls to the current upstream.
    backoff: Backoff,
    /// The log already reports that no fallback may get the body.
    is_refused: bool,
}

impl Upstreams {
    pub(super) fn new(proxy: Arc<Proxy>, route: Arc<Route>) -> Self {
        Self {
            proxy,
            route,
            state: Mutex::default(),
        }
    }

    /// Returns the current fallback. `None`: the route's own upstream is current.
    pub(super) fn fallback(&self) -> Option<&Target> {
        self.route.fallbacks.get(self.at().checked_sub(1)?)
    }

    /// Returns the current upstream.
    pub(super) fn target(&self) -> &Target {
        self.fallback().unwrap_or(&self.route.own)
    }

    /// Returns the client of the current upstream.
    pub(super) fn client(&self) -> &Client {
        &self.target().client
    }

    /// Returns the current upstream's host, with its port if the configuration names one.
    pub(super) fn address(&self) -> &str {
        self.client().upstream().authority()
    }

    /// Returns the index of the current upstream.
    pub(super) fn at(&self) -> usize {
        self.state.lock().at
    }

    /// Makes an earlier upstream the current one.
    pub(super) fn move_back(&self, at: usize) {
        self.state.lock().at = at;
    }

    /// Returns whether there may be a fallback that has not been asked.
    pub(super) fn may_move_on(&self) -> bool {
        let state = self.state.lock();
        state.at < self.route.fallbacks.len() && !state.is_refused
    }

    /// Notes that no fallback may get the request.
    pub(super) fn refuse(&self) {
        self.state.lock().is_refused = true;
    }

    /// Makes the next fallback that can take over the current upstream. Returns it; `None` if no
    /// further one can.
    pub(super) fn move_on(&self, can_take: impl Fn(&Target) -> bool) -> Option<&Target> {
        let fallbacks = self.route.fallbacks.iter().enumerate();
        let (number, fallback) = fallbacks
            .skip(self.at())
            .find(|(_, fallback)| can_take(fallback))?;
        let mut state = self.state.lock();
        // Each upstream has its own number of repeats.
        (state.at, state.backoff) = (number + 1, Backoff::default());
        Some(fallback)
    }

    /// Notes whether the current upstream has failed.
    pub(super) fn set_failed(&self, has_failed: bool) {
        self.state.lock().has_failed = has_failed;
    }

    /// Returns whether the last call failed because of its upstream, and forgets that.
    pub(super) fn take_failure(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_failed)
    }

    /// Returns the wait before a refused or lost call to the same upstream is repeated. `None`: no
    /// repeat is left, or too little time.
    pub(super) fn wait_before_repeat(
        &self,
        retry_after: Option<Duration>,
        limits: &Limits,
    ) -> Option<Duration> {
        let backoff = &mut self.state.lock().backoff;
        if backoff.made >= self.route.retries {
            return None;
        }
        // Leaves half of the time for a fallback.
        let budget = limits.continuation.patience / 2;
        backoff.wait(retry_after, limits.transport.max_backoff, budget)
    }

    /// Returns whether a continuation may be asked of the model now. While most calls fail, admits
    /// one call a second, and a call of each answer that has waited for `max_backoff`.
    pub(super) fn is_admitted(&self, model: &str, max_backoff: Duration) -> bool {
        let is_admitted = self.proxy.shared.admits(self.address(), model);
        let held = &mut self.state.lock().held_since;
        let now = Instant::now();
        let has_waited = held.is_some_and(|since| now.duration_since(since) >= max_backoff);
        if is_admitted || has_waited {
            // The next refusal begins another wait.
            *held = None;
            return true;
        }
        held.get_or_insert(now);
        false
    }

    /// Returns the capability of a model at the current upstream.
    pub(super) fn capability(&self, model: &str) -> Capability {
        self.proxy.capability(self.client().upstream(), model)
    }

    /// Records a capability hint from a refusal of a model.
    pub(super) fn record(&self, model: &str, hint: CapabilityHint) {
        self.proxy.shared.record(self.address(), model, hint);
    }

    /// Counts a finished call by its status, or as failed if it has none.
    pub(super) fn count(&self, model: &str, status: Option<StatusCode>) {
        self.proxy.shared.count(self.address(), model, status);
    }
}

/// The waits before repeated calls.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pub(super) made: u32,
    /// The time of the first failure.
    since: Option<Instant>,
}

impl Backoff {
    /// Returns the wait before the next repeat: `Retry-After`, or a wait that doubles each time up
    /// to `most`. `budget`: the time for repeats since the first failure. A wait without
    /// `Retry-After` is cut to the rest of it, so that the last repeat begins at its end. `None`:
    /// the repeat would begin too late.
    pub(super) fn wait(
        &mut self,
        retry_after: Option<Duration>,
        most: Duration,
        budget: Duration,
    ) -> Option<Duration> {
        let now = Instant::now();
        let spent = now.duration_since(*self.since.get_or_insert(now));
        let left = budget.saturating_sub(spent);
        // Ten doublings are four minutes; many more would overflow the shift.
        let doubled = FIRST_WAIT.saturating_mul(1 << self.made.min(10));
        // `Retry-After: 0` names no time.
        let asked = retry_after.filter(|asked| !asked.is_zero());
        let wait = asked.unwrap_or_else(|| doubled.min(most).min(left));
        // A longer `Retry-After` is not shortened: the upstream would refuse the call again.
        if left.is_zero() || wait > left || wait > most {
            return None;
        }
        self.made += 1;
        Some(wait)
    }
}

// A server that restarts, or sheds load for a moment, takes calls again within it.
/// The first wait.
const FIRST_WAIT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_end_of_the_budget() {
        for asked in [None, Some(Duration::ZERO)] {
            let mut backoff = Backoff::default();
            let mut wait = || backoff.wait(asked, SECOND, 60 * SECOND);
            let waits = [wait(), wait(), wait(), wait()].map(|wait| wait.unwrap().as_millis());
            assert_eq!(waits, [250, 500, 1000, 1000], "{asked:?}");
        }
        // The last repeat begins when the budget ends.
        let mut backoff = Backoff::default();
        let last = backoff.wait(None, SECOND, FIRST_WAIT / 2).unwrap();
        assert!(last <= FIRST_WAIT / 2);
        assert_eq!(backoff.wait(None, SECOND, Duration::ZERO), None);
    }

    #[test]
    fn a_requested_wait_is_kept_or_refused() {
        let mut backoff = Backoff::default();
        let mut wait = |asked, most| backoff.wait(Some(asked), most, 2 * SECOND);
        assert_eq!(wait(SECOND, SECOND), Some(SECOND));
        assert_eq!(wait(SECOND, SECOND / 2), None);
        assert_eq!(wait(3 * SECOND, 9 * SECOND), None);
        assert_eq!(backoff.made, 1);
    }
}
