//! The wish that answers end: the operator's, or that of a proxy whose time to end is over.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::unconstrained;

/// Whether answers are to end.
#[derive(Debug)]
pub(in super::super) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(in super::super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Tells whoever answers to end.
    pub(in super::super) fn ask(&self) {
        self.0.send_replace(true);
    }

    pub(in super::super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    pub(in super::super) fn asked(&self) -> Stopped {
        let is_asked = self.0.subscribe();
        let mut news = is_asked.clone();
        // Not counted as work of the task: what is refused for that would not be noted as waiting.
        let asked = Box::pin(unconstrained(async move {
            if news.wait_for(|is_asked| *is_asked).await.is_err() {
                // Nobody is left who could ask.
                pending::<()>().await;
            }
        }));
        Stopped(Some(Waiting { is_asked, asked, task: None }))
    }
}

/// Is ready, once, when the answer is to end.
pub(in super::super) struct Stopped(Option<Waiting>);

struct Waiting {
    is_asked: watch::Receiver<bool>,
    asked: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The task that `asked` wakes. It looks here with each chunk, and is noted once.
    task: Option<Waker>,
}

impl Stopped {
    /// Returns what is never ready: the answer can't be stopped.
    pub(in super::super) fn never() -> Self {
        Self(None)
    }

    /// Returns whether the answer was stopped. Says so once.
    pub(in super::super) fn poll_once(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(Waiting { is_asked, asked, task }) = &mut self.0 else { return false };
        let is_known = task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        // All threads share it: `has_changed` reads, where `borrow` would lock.
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
        if self.get_mut().poll_once(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}
