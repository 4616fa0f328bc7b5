//! Keeps wake-ups that a poll causes itself from the task.
//!
//! A connection of hyper hands each frame to the body through a channel, and wakes who waits there. Here both are polled by one
//! task: it would be woken by its own poll, for each event of a stream, to find nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A poll that is repeated at once when it has woken itself.
#[derive(Debug)]
pub(super) struct OwnWakes {
    shared: Arc<Shared>,
    /// Wakes `shared`.
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    task: Mutex<Waker>,
    is_polling: AtomicBool,
    /// A wake-up has come since the poll began.
    is_woken: AtomicBool,
}

impl OwnWakes {
    pub(super) fn new() -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let shared = Arc::new(Shared { task, is_polling: AtomicBool::new(false), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&shared));
        Self { shared, waker }
    }

    /// Calls `poll` until it is ready, or waits for something that it does not do itself.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.shared.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(cx.waker());
        for _ in 0..MOST_POLLS {
            self.shared.is_polling.store(true, Ordering::SeqCst);
            self.shared.is_woken.store(false, Ordering::SeqCst);
            let polled = poll(&mut Context::from_waker(&self.waker));
            self.shared.is_polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.shared.is_woken.swap(false, Ordering::SeqCst) {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Polls in a row, after which the task is woken like any other. A runtime that wants another task to have its turn lets all
/// polls wake themselves until then.
const MOST_POLLS: usize = 4;

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// What is woken while it is polled is polled again: either the poll sees `is_woken` at its end, or this sees that the poll
    /// has ended.
    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polling.load(Ordering::SeqCst) {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_poll_that_wakes_itself_is_repeated_and_wakes_nobody() {
        let (count, mut own) = (Arc::new(Count::default()), OwnWakes::new());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let (mut polls, mut kept) = (0, None);
        let polled = own.poll(&mut cx, |cx| {
            polls += 1;
            kept = Some(cx.waker().clone());
            if polls < 3 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, count.0.load(Ordering::SeqCst)), (3, 0));
        // Afterwards the task is woken.
        kept.unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    /// As in a runtime whose task has had its turn.
    #[test]
    fn a_poll_that_always_wakes_itself_ends() {
        let (count, mut own) = (Arc::new(Count::default()), OwnWakes::new());
        let waker = Waker::from(Arc::clone(&count));
        let polled = own.poll(&mut Context::from_waker(&waker), |cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    /// Another thread wakes at any moment: no wake-up is lost.
    #[test]
    fn a_wake_up_of_another_thread_is_not_lost() {
        for round in 0..2000 {
            let mut own = OwnWakes::new();
            let parked = Waker::from(Arc::new(Unpark(std::thread::current())));
            let ready = Arc::new(AtomicBool::new(false));
            let mut other = None;
            let mut poll = |cx: &mut Context<'_>| {
                let (waker, flag) = (cx.waker().clone(), Arc::clone(&ready));
                other.get_or_insert_with(|| {
                    std::thread::spawn(move || {
                        (0..round % 50).for_each(|_| std::hint::spin_loop());
                        flag.store(true, Ordering::SeqCst);
                        waker.wake();
                    })
                });
                if ready.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            };
            while own.poll(&mut Context::from_waker(&parked), &mut poll).is_pending() {
                std::thread::park_timeout(std::time::Duration::from_secs(20));
                assert!(ready.load(Ordering::SeqCst), "nobody has woken the task");
            }
            other.unwrap().join().unwrap();
        }
    }

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
}
