//! Avoids polling a body that was not woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// A body that is polled only after a wake. hyper polls a pending body twice after each frame, and
/// each poll checks the upstream's connection, the decoder, the relay and the clocks.
#[derive(Debug)]
pub(super) struct WakeGatedBody<B> {
    body: B,
    wake: Arc<WakeFlag>,
    /// Wakes through `wake`.
    waker: Waker,
}

/// The wake flag of a body, and the task that polls it.
#[derive(Debug)]
struct WakeFlag {
    is_woken: AtomicBool,
    task: Mutex<Waker>,
}

impl<B> WakeGatedBody<B> {
    pub(super) fn new(body: B) -> Self {
        let flag = WakeFlag {
            is_woken: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        };
        let wake = Arc::new(flag);
        Self {
            body,
            waker: Waker::from(Arc::clone(&wake)),
            wake,
        }
    }
}

impl WakeFlag {
    /// Registers the polling task, which gets all wakes from now on.
    fn note(&self, task: &Waker) {
        self.task.lock().clone_from(task);
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let task = self.task.lock().clone();
        task.wake();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WakeGatedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, wake, waker } = self.get_mut();
        // Registers the task before it reads the flag: a wake between the two lines reaches this
        // task.
        wake.note(cx.waker());
        if !wake.is_woken.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let polled = Pin::new(body).poll_frame(&mut Context::from_waker(waker));
        if polled.is_ready() {
            // A body that was ready has registered no waker.
            wake.is_woken.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    type Polled = Poll<Option<Result<Frame<Bytes>, String>>>;

    /// A scripted body that counts its polls and keeps the waker.
    struct Scripted {
        next: Arc<Mutex<Vec<Polled>>>,
        polls: Arc<AtomicUsize>,
        waker: Arc<Mutex<Option<Waker>>>,
    }

    impl Body for Scripted {
        type Data = Bytes;
        type Error = String;

        fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
            self.polls.fetch_add(1, Ordering::Relaxed);
            *self.waker.lock() = Some(cx.waker().clone());
            self.next.lock().pop().unwrap_or(Poll::Pending)
        }
    }

    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_body_that_waits_is_polled_once_for_each_wake() {
        let next = Arc::new(Mutex::new(Vec::new()));
        let (polls, waker) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(Mutex::new(None::<Waker>)),
        );
        let mut body = WakeGatedBody::new(Scripted {
            next: next.clone(),
            polls: polls.clone(),
            waker: waker.clone(),
        });
        let tasks = [(); 2].map(|()| Arc::new(Task(AtomicUsize::new(0))));
        let mut poll = |task: usize| {
            let waker = Waker::from(Arc::clone(&tasks[task]));
            Pin::new(&mut body)
                .poll_frame(&mut Context::from_waker(&waker))
                .map(|frame| frame.map(|frame| frame.is_ok()))
        };
        let polled = || polls.load(Ordering::Relaxed);
        assert_eq!(
            (poll(0), poll(0), polled()),
            (Poll::Pending, Poll::Pending, 1)
        );
        // After a poll by another task, each wake wakes that task once and lets it poll the body
        // again.
        assert_eq!((poll(1), polled()), (Poll::Pending, 1));
        waker.lock().take().unwrap().wake();
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken(), [0, 1]);
        // Available frames need no wake, nor does the end.
        let frame = || Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
        *next.lock() = vec![Poll::Ready(None), frame(), frame()];
        assert_eq!(
            [poll(1), poll(1), poll(1)],
            [
                Poll::Ready(Some(true)),
                Poll::Ready(Some(true)),
                Poll::Ready(None)
            ]
        );
        assert_eq!((polled(), woken()), (4, [0, 1]));
    }

    #[test]
    fn a_wake_within_the_poll_counts() {
        struct Busy(usize);
        impl Body for Busy {
            type Data = Bytes;
            type Error = String;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
                self.0 += 1;
                cx.waker().wake_by_ref();
                if self.0 < 3 {
                    Poll::Pending
                } else {
                    Poll::Ready(None)
                }
            }
        }
        let mut body = WakeGatedBody::new(Busy(0));
        let mut poll = || {
            Pin::new(&mut body)
                .poll_frame(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        };
        assert_eq!([poll(), poll(), poll()], [false, false, true]);
    }
}
