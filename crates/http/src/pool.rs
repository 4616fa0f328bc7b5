//! Connections that wait for their next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::connection::Connection;

/// The unused connections to one upstream. The most recently used one is taken first, so that the
/// others grow old and are closed: the pool shrinks to the number lately in use.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
    /// The most that are kept. More calls at a time are possible; their connections are closed
    /// afterwards.
    most: usize,
}

#[derive(Debug, Default)]
struct Idle {
    /// The oldest first.
    list: Vec<(Instant, Connection)>,
    /// A task closes those that are old.
    is_swept: bool,
}

impl Pool {
    pub(super) fn new(most: usize) -> Self {
        Self {
            idle: Mutex::default(),
            most,
        }
    }

    /// Returns an empty pool with the same capacity.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.most)
    }

    /// Takes a connection on which a request can be sent now.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let (since, mut connection) = self.lock().list.pop()?;
            if since.elapsed() < MOST_IDLE && connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Takes back a connection whose last answer has ended. It is closed if it can't be used again.
    pub(super) fn put(self: &Arc<Self>, mut connection: Connection) {
        if self.most == 0 || !connection.is_idle() {
            return;
        }
        let mut idle = self.lock();
        if idle.list.len() >= self.most {
            return;
        }
        idle.list.push((Instant::now(), connection));
        if !idle.is_swept
            && let Ok(runtime) = Handle::try_current()
        {
            idle.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes the connections that are old, or that the upstream has closed. Returns whether others
    /// are left.
    fn close_old(&self) -> bool {
        let mut idle = self.lock();
        idle.list
            .retain_mut(|(since, connection)| since.elapsed() < MOST_IDLE && connection.is_idle());
        idle.is_swept = !idle.list.is_empty();
        idle.is_swept
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes old connections until there are none.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_old()) {
            return;
        }
    }
}

/// How long an unused connection is kept. Servers usually close theirs after 60 seconds; the client
/// must be first.
const MOST_IDLE: Duration = Duration::from_secs(50);

/// How often old connections are looked for.
const SWEEP: Duration = Duration::from_secs(5);
