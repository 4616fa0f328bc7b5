//! Event streams that follow an answer. A reader polls for news a few times a second, so an answer
//! never waits for a reader and needs no list of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use restitch::sse::Encoder;
use restitch_http::Body;

/// The source of a reader's events.
pub(super) trait ViewSource: Send {
    /// Adds the events that are new. Returns whether there is more already.
    fn news(&mut self, out: &mut Events) -> Next;
}

/// The state of a source after its news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More news is available now.
    More,
    /// More news may come later.
    Wait,
    /// Nothing follows.
    End,
}

/// Encoded events for a reader.
#[derive(Debug, Default)]
pub(super) struct Events(Vec<u8>);

impl Events {
    pub(super) fn push(&mut self, name: &str, data: &impl Serialize) {
        match serde_json::to_string(data) {
            Ok(data) => Encoder::event(&mut self.0, Some(name), None, &data),
            Err(error) => debug_assert!(false, "the data of events are JSON: {error}"),
        }
    }
}

/// Marks a response that is exempt from the listener's usual time limit.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct IsFollowed;

/// Returns a response that streams a source's events. Its end releases `permit`.
pub(super) fn response(
    source: Box<dyn ViewSource>,
    permit: OwnedSemaphorePermit,
) -> Response<Body> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let followed = Followed {
        source,
        ticks,
        said: Instant::now(),
        next: Next::More,
        _permit: permit,
    };
    let mut response = Response::new(Body::stream(followed));
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.extensions_mut().insert(IsFollowed);
    response
}

struct Followed {
    source: Box<dyn ViewSource>,
    ticks: Interval,
    /// The time of the last bytes for the reader.
    said: Instant,
    next: Next,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Followed {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match this.next {
                Next::End => return Poll::Ready(None),
                Next::More => {}
                Next::Wait => drop(ready!(this.ticks.poll_tick(cx))),
            }
            let mut events = Events::default();
            this.next = this.source.news(&mut events);
            if events.0.is_empty() && this.said.elapsed() >= KEEP_ALIVE {
                events.0.extend_from_slice(b": \n\n");
            }
            if !events.0.is_empty() {
                this.said = Instant::now();
                return Poll::Ready(Some(Ok(events.0.into())));
            }
            if this.next == Next::More {
                // This news was without an event. Yields, so that a long backlog does not block
                // other tasks.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

/// The most bytes of text that one read takes.
pub(super) const BATCH: usize = 64 << 10;
/// The interval between a reader's polls, too short for people to notice.
const TICK: Duration = Duration::from_millis(100);
/// The silence after which a comment keeps the stream alive, and detects readers that have left.
// The interval that the standard of event streams recommends.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use tokio::sync::Semaphore;

    use super::*;

    /// A source with much news of other slots than the followed one.
    struct Silent(Arc<AtomicUsize>);

    impl ViewSource for Silent {
        fn news(&mut self, _: &mut Events) -> Next {
            if self.0.fetch_add(1, Ordering::Relaxed) < 1000 {
                Next::More
            } else {
                Next::End
            }
        }
    }

    #[tokio::test]
    async fn a_backlog_is_read_a_batch_at_a_time() {
        let read = Arc::new(AtomicUsize::new(0));
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (source, ticks, said) = (
            Box::new(Silent(Arc::clone(&read))),
            interval(TICK),
            Instant::now(),
        );
        let mut followed = Followed {
            source,
            ticks,
            said,
            next: Next::More,
            _permit: permit,
        };
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut followed).poll_next(&mut cx).is_pending());
        assert_eq!(read.load(Ordering::Relaxed), 1);
        // It is woken for the rest.
        while std::future::poll_fn(|cx| Pin::new(&mut followed).poll_next(cx))
            .await
            .is_some()
        {}
        assert_eq!(read.load(Ordering::Relaxed), 1001);
    }
}
