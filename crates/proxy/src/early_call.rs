//! A first call that begins before its request is parsed, and, if the client's request takes long to
//! arrive, before it is complete: neither parsing nor a slow network delays the upstream then.

use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::Proxy;
use super::body::{Collected, ReadError, Reading};
use super::route::Route;
use super::upstream::Head;
use restitch::internal::limits::TimeLimit;
use restitch::provider::Dialect;
use restitch_http::{Body, BodyError, Error, Received};

type Answer = Result<Response<Received>, Error>;

/// Where a call goes, and the head of its request.
pub(super) struct EarlyTarget<'h> {
    pub(super) route: Arc<Route>,
    pub(super) head: &'h Head,
    pub(super) dialect: Dialect,
}

/// A first call whose request may still be arriving. Dropping it ends the call.
pub(super) struct EarlyCall {
    call: Pin<Box<dyn Future<Output = Answer> + Send>>,
    /// Set once the call has its answer.
    answer: Option<Answer>,
    /// The limit for the head of the response, since the request is complete.
    limit: TimeLimit,
}

impl EarlyTarget<'_> {
    /// Returns whether a request on `route` is sent as the client has written it: no setting
    /// changes it for its model or raises its limit, no fallback may get it, and no kept answer can
    /// replace its call.
    pub(super) fn is_decided(proxy: &Proxy, route: &Route) -> bool {
        !proxy.policy.adapts
            && route.config.min_output_tokens.is_none()
            && route.fallbacks.is_empty()
            && proxy.shared.kept.is_none()
            // The header of a trace names the call, which is noted with the request's model.
            && proxy.shared.otlp.is_none()
    }

    /// Reads the body of at most `most` bytes, as [`Collected::read_counted`] does. Begins the call
    /// once the body is complete, or earlier if it is large and arrives slowly.
    pub(super) async fn read<B>(
        &self,
        body: B,
        most: usize,
        has_room: impl FnMut(usize) -> bool,
    ) -> (Result<Collected, ReadError>, Option<EarlyCall>)
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BodyError>,
    {
        let large = LEAST..=most as u64;
        let length = body
            .size_hint()
            .exact()
            .filter(|length| large.contains(length));
        let (collected, early) = match length {
            None => (
                Collected::read_counted(body, most, None, has_room).await,
                None,
            ),
            Some(length) => self.read_large(body, length, has_room).await,
        };
        let begun = || match &collected {
            Ok(Collected::Whole(body)) => self.begin(Body::full(body.clone())),
            _ => None,
        };
        let mut early = early.or_else(begun);
        if let Some(early) = &mut early {
            // Sends what is there before the request is parsed.
            early.while_reading(ready(())).await;
        }
        (collected, early)
    }

    /// Reads a body of `length` bytes. If it is not complete soon, begins the call, which gets each
    /// piece of the body at once.
    async fn read_large<B>(
        &self,
        body: B,
        length: u64,
        has_room: impl FnMut(usize) -> bool,
    ) -> (Result<Collected, ReadError>, Option<EarlyCall>)
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BodyError>,
    {
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let mut reading = Reading::new(body, most, None, has_room);
        if let Ok(read) = timeout(SOON, reading.read_on(|_| ())).await {
            return (read.map(|()| reading.finish()), None);
        }
        let (sender, pieces) = unbounded_channel();
        // The call may have ended when a piece arrives: its answer says why.
        let send = |piece| drop(sender.send(piece));
        send(Bytes::copy_from_slice(reading.so_far()));
        let body = PiecewiseBody {
            pieces,
            left: length,
        };
        let mut early = self.begin(Body::wrap(body));
        let rest = reading.read_on(send);
        let read = match &mut early {
            Some(early) => early.while_reading(rest).await,
            None => rest.await,
        };
        (read.map(|()| reading.finish()), early)
    }

    /// Begins the call. `None`: the path has no address on the upstream.
    fn begin(&self, body: Body) -> Option<EarlyCall> {
        let route = Arc::clone(&self.route);
        let head = route.upstream_head(self.head.clone(), self.dialect);
        let request = head.into_request(&route.client, body).ok()?;
        Some(EarlyCall {
            call: Box::pin(async move { route.client.send(request).await }),
            answer: None,
            limit: self.route.head_limit,
        })
    }
}

impl EarlyCall {
    /// Waits for `reading`, which brings the pieces of the body, and advances the call.
    async fn while_reading<T>(&mut self, reading: impl Future<Output = T>) -> T {
        let mut reading = pin!(reading);
        poll_fn(|cx| {
            let read = reading.as_mut().poll(cx);
            // After the reader, so that the last piece is sent before its request is parsed.
            self.poll_call(cx);
            read
        })
        .await
    }

    /// Waits for the head of the response. The request must be complete.
    pub(super) async fn answer(mut self) -> Answer {
        let limit = self.limit;
        let answer = poll_fn(|cx| {
            self.poll_call(cx);
            self.answer.take().map_or(Poll::Pending, Poll::Ready)
        });
        timeout(limit.time, answer)
            .await
            .unwrap_or_else(|_| Err(limit.into()))
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.call.as_mut().poll(cx)
        {
            self.answer = Some(answer);
        }
    }
}

/// A body whose pieces arrive one by one.
struct PiecewiseBody {
    pieces: UnboundedReceiver<Bytes>,
    /// The bytes that have not been taken yet.
    left: u64,
}

impl HttpBody for PiecewiseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.pieces.poll_recv(cx).map(|piece| {
            let piece = piece?;
            self.left = self.left.saturating_sub(piece.len() as u64);
            Some(Ok(Frame::data(piece)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

// A shorter body is on its way as a whole when its head arrives.
/// The least bytes of a body that is sent while it arrives.
const LEAST: u64 = 64 << 10;

// Over loopback 10 MB are complete by then, and pieces would only wake the upstream more often. Over
// 100 Mbit/s 1 MiB takes 84 ms, so most of its time is saved.
/// The time in which a large body may become complete before its call begins without the rest.
const SOON: Duration = Duration::from_millis(10);
