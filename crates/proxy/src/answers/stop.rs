//! Signals that end answers: the operator stops one, or the proxy's time to drain is over.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::unconstrained;

/// A signal that tells answers to end.
#[derive(Debug, Default)]
pub(in super::super) struct Stop(watch::Sender<bool>);

impl Stop {
    /// Signals the end to the request handlers.
    pub(in super::super) fn ask(&self) {
        self.0.send_replace(true);
    }

    pub(in super::super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    pub(in super::super) fn asked(&self) -> Stopped {
        let is_asked = self.0.subscribe();
        let mut news = is_asked.clone();
        // Exempt from the task's cooperative budget: a poll that the budget refuses would register
        // no waiter.
        let asked = Box::pin(unconstrained(async move {
            if news.wait_for(|is_asked| *is_asked).await.is_err() {
                // The sender is gone, so no signal can come.
                pending::<()>().await;
            }
        }));
        Stopped(Some(Waiting {
            is_asked,
            asked,
            task: None,
        }))
    }
}

/// A future that is ready once, when the answer is to end.
pub(in super::super) struct Stopped(Option<Waiting>);

struct Waiting {
    is_asked: watch::Receiver<bool>,
    asked: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The task that `asked` wakes. A task polls with each chunk, so its waker is registered only
    /// once.
    task: Option<Waker>,
}

impl Stopped {
    /// Returns a future that is never ready, for an answer that can't be stopped.
    pub(in super::super) fn never() -> Self {
        Self(None)
    }

    /// Returns whether the answer was stopped. Returns true only once.
    pub(in super::super) fn poll_once(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(Waiting {
            is_asked,
            asked,
            task,
        }) = &mut self.0
        else {
            return false;
        };
        let is_known = task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        // All threads share the signal: `has_changed` reads an atomic, while `borrow` would lock.
        if is_known && !is_asked.has_changed().unwrap_or_default() {
            return false;
        }
        *task = Some(cx.waker().clone());
        let is_asked = asked.as_mut().poll(cx).is_ready();
        if is_asked {
            self.0 = None;
        }
        is_asked
    }
}

impl Future for Stopped {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.get_mut().poll_once(cx) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
