//! Refuses connections over a limit. Many clients may come at once, so the log has one line for
//! each limit and period.

use std::io;
use std::sync::Arc;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::gate::LIMITS;
use super::listener::Accepted;
use super::metrics::Metrics;
use super::refusal::Refusal;
use super::upstream::random_name;

/// The refused connections of a proxy.
pub(super) struct RefusedConnections {
    /// The tasks that send a refusal.
    answers: JoinSet<()>,
    /// Connections are not encrypted, so a refusal needs no handshake.
    is_plain: bool,
    unreported: [Unreported; LIMITS.len()],
}

impl RefusedConnections {
    pub(super) fn new(is_plain: bool) -> Self {
        Self {
            answers: JoinSet::new(),
            is_plain,
            unreported: LIMITS.map(Unreported::new),
        }
    }

    /// Refuses a connection that would exceed a limit.
    pub(super) fn refuse(
        &mut self,
        accepted: Accepted,
        limit: &'static str,
        metrics: Option<Arc<Metrics>>,
    ) {
        if let Some(metrics) = &metrics {
            metrics.requests.connections_refused.of([limit]).inc();
        }
        // A TLS client gets no refusal, since a handshake would cost more than the refusal itself.
        let is_answered = self.is_plain && self.answers.len() < MOST_REFUSED;
        if is_answered {
            self.answers.spawn(answer(accepted, limit, metrics));
        }
        self.note(limit, is_answered);
    }

    fn note(&mut self, limit: &'static str, is_answered: bool) {
        for unreported in &mut self.unreported {
            if unreported.limit == limit {
                unreported.add(is_answered);
                unreported.report_if_due();
            }
        }
    }

    /// Removes a task that has ended, or writes the lines that are due. Never returns if there are
    /// neither. Dropping the future loses nothing.
    pub(super) async fn tend(&mut self) {
        let due = self.unreported.iter().filter_map(Unreported::due).min();
        let is_due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(_) = self.answers.join_next() => {}
            () = is_due => self.unreported.iter_mut().for_each(Unreported::report_if_due),
        }
    }

    /// Writes the last lines. The tasks run on.
    pub(super) fn finish(&mut self) {
        self.unreported.iter_mut().for_each(Unreported::report);
    }
}

/// The refused connections over one limit that are not in the log yet.
#[derive(Debug)]
struct Unreported {
    limit: &'static str,
    count: u64,
    /// Those of them that were closed without an answer.
    closed: u64,
    reported_at: Option<Instant>,
}

impl Unreported {
    fn new(limit: &'static str) -> Self {
        Self {
            limit,
            count: 0,
            closed: 0,
            reported_at: None,
        }
    }

    fn add(&mut self, is_answered: bool) {
        self.count += 1;
        self.closed += u64::from(!is_answered);
    }

    /// Returns the time of the next line. `None`: there is nothing to report.
    fn due(&self) -> Option<Instant> {
        let due = self.reported_at.map(|at| at + BETWEEN_LINES);
        (self.count > 0).then(|| due.unwrap_or_else(Instant::now))
    }

    fn report_if_due(&mut self) {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.report();
        }
    }

    fn report(&mut self) {
        let (count, closed) = (
            std::mem::take(&mut self.count),
            std::mem::take(&mut self.closed),
        );
        if count > 0 {
            let reason = self.limit;
            tracing::warn!(reason, count, closed, "refused connections");
            self.reported_at = Some(Instant::now());
        }
    }
}

/// Sends a client the refusal that there is no room for it, and waits briefly until the client has
/// read it.
async fn answer(accepted: Accepted, limit: &'static str, metrics: Option<Arc<Metrics>>) {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let refusal = Refusal::new(status, limit, "too many connections: try again later");
    if let Some(metrics) = metrics {
        metrics.request("", "", Some(status));
    }
    let answer = refusal.bytes(&random_name());
    let say = async {
        let mut stream = accepted.register()?;
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection, and the answer with it.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL, say).await;
}

// A refusal keeps its connection open over the limit on connections, so few may do so.
/// The most clients that get a refusal at the same time. The proxy closes further connections
/// without a word.
const MOST_REFUSED: usize = 16;
/// The shortest time between two lines about one limit.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
// A client over the limit must not keep its connection by reading slowly.
/// The longest time for sending a refusal.
const REFUSAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that wait for a line, by limit.
    fn waiting(refused: &RefusedConnections) -> [(u64, u64); LIMITS.len()] {
        let counts = |unreported: &Unreported| (unreported.count, unreported.closed);
        std::array::from_fn(|at| counts(&refused.unreported[at]))
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_burst_has_a_line_after_the_period() {
        let mut refused = RefusedConnections::new(true);
        let began = Instant::now();
        for is_answered in [true, true, false, false] {
            refused.note(LIMITS[0], is_answered);
        }
        // The first one has a line at once.
        assert_eq!(waiting(&refused), [(3, 2), (0, 0)]);
        // Each limit has a period of its own.
        tokio::time::advance(BETWEEN_LINES / 2).await;
        for _ in 0..2 {
            refused.note(LIMITS[1], false);
        }
        assert_eq!(waiting(&refused), [(3, 2), (1, 1)]);
        refused.tend().await;
        assert_eq!(waiting(&refused), [(0, 0), (1, 1)]);
        assert_eq!(began.elapsed().as_secs(), BETWEEN_LINES.as_secs());
        refused.note(LIMITS[0], true);
        refused.tend().await;
        assert_eq!(waiting(&refused), [(1, 0), (0, 0)]);
        refused.finish();
        assert_eq!(waiting(&refused), [(0, 0), (0, 0)]);
        // Nothing waits, so no timer runs.
        assert!(timeout(BETWEEN_LINES * 3, refused.tend()).await.is_err());
    }
}
