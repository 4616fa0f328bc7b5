//! A clock that a test moves, for waits that no setting shortens.

use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{advance, pause};

/// A paused clock. The proxy and the upstream of a test run on it, too.
pub(super) struct Clock {
    /// Dropping this releases the clock.
    _held: Sender<()>,
}

/// One step of the clock, and the time that it takes: time passes five times as fast.
const STEP: Duration = Duration::from_millis(25);
const TAKES: Duration = Duration::from_millis(5);

impl Clock {
    /// Pauses the clock of a runtime that has one thread.
    pub(super) fn paused() -> Self {
        pause();
        // tokio moves a paused clock to the next timer where all tasks wait, also if they wait for
        // bytes of a socket. It does not while a blocking task runs.
        let (held, end) = channel::<()>();
        spawn_blocking(move || end.recv());
        Self { _held: held }
    }

    /// Lets time pass until a future has its output.
    pub(super) async fn until<T>(&self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            let step = async {
                advance(STEP).await;
                // The tasks that the step has woken may wait for bytes.
                spawn_blocking(|| std::thread::sleep(TAKES)).await.unwrap();
            };
            tokio::select! {
                biased;
                output = &mut done => return output,
                () = step => {}
            }
        }
    }
}

/// Time passes in steps alone: an hour takes longer than this test, and a second does not.
#[tokio::test]
async fn a_paused_clock_moves_in_steps() {
    let clock = Clock::paused();
    #[allow(clippy::disallowed_methods, reason = "the test compares both clocks")]
    let began = (tokio::time::Instant::now(), std::time::Instant::now());
    spawn_blocking(|| std::thread::sleep(4 * TAKES))
        .await
        .unwrap();
    assert_eq!(began.0.elapsed(), Duration::ZERO);
    clock
        .until(tokio::time::sleep(Duration::from_secs(1)))
        .await;
    assert!(began.0.elapsed() >= Duration::from_secs(1));
    assert!(began.0.elapsed() <= Duration::from_secs(1) + 2 * STEP);
    assert!(began.1.elapsed() >= 30 * TAKES);
}
