//! A first call that begins while the client's request is still arriving. The upstream gets each
//! piece of the body at once, so a large request is not delayed by the time of its transfer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::Proxy;
use super::route::Route;
use super::upstream::{self, Head};
use restitch::internal::limits::TimeLimit;
use restitch::provider::Dialect;
use restitch_http::{Body, BodyError, Error, Received};

type Answer = Result<Response<Received>, Error>;

/// A first call whose request may still be arriving. Dropping it ends the call.
pub(super) struct EarlyCall {
    call: Pin<Box<dyn Future<Output = Answer> + Send>>,
    /// Set once the call has its answer.
    answer: Option<Answer>,
    /// The limit for the head of the response, since the request is complete.
    limit: TimeLimit,
}

impl EarlyCall {
    /// Begins the call if its body is large, and decides neither where the call goes nor what is
    /// sent. `length`: the bytes of the body, if the client has announced them. Also returns where
    /// the pieces of the body go.
    pub(super) fn begin(
        proxy: &Proxy,
        route: &Arc<Route>,
        (head, dialect): (&Head, Dialect),
        length: Option<u64>,
    ) -> Option<(Self, UnboundedSender<Bytes>)> {
        let most = proxy.limits.transport.max_body_bytes as u64;
        let length = length.filter(|length| (LEAST..=most).contains(length))?;
        // A body may be changed for its model, its limit may be raised, a fallback may get it, and
        // a repeated request may have an answer already.
        let is_decided = !proxy.policy.adapts
            && route.config.min_output_tokens.is_none()
            && route.fallbacks.is_empty()
            && proxy.shared.kept.is_none()
            // The header of a trace names the call, which is noted with the request's model.
            && proxy.shared.otlp.is_none();
        if !is_decided {
            return None;
        }
        let (sender, pieces) = unbounded_channel();
        let body = Body::wrap(PiecewiseBody {
            pieces,
            left: length,
        });
        let head = route.upstream_head(head.clone(), dialect);
        let request = upstream::request(&route.client, &head, body).ok()?;
        let client = route.client.clone();
        let early = Self {
            call: Box::pin(async move { client.send(request).await }),
            answer: None,
            limit: route.head_limit,
        };
        Some((early, sender))
    }

    /// Waits for `reading`, which brings the pieces of the body, and advances the call.
    pub(super) async fn while_reading<T>(&mut self, reading: impl Future<Output = T>) -> T {
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

// A shorter body arrives with a read or two, so its transfer takes no time.
/// The least bytes of a body that is sent while it arrives.
const LEAST: u64 = 64 << 10;
