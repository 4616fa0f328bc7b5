//! Bodies: read up to a cap, and passed on to the client, where a lost one ends the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::timeout;

use crate::client::{self, BodyError};
use crate::session::CallEnd;
use crate::socket::Cut;

/// Passes a body on, and lets what came before an error reach the client first.
///
/// hyper closes the connection as soon as a body fails, with whatever it still holds for a slow client. So a body that
/// fails only falls silent and asks for the cut, which comes from the [`Socket`](crate::socket::Socket) behind the last byte.
#[derive(Debug)]
pub(super) struct Flushed<B> {
    /// `None` once it has failed.
    body: Option<Pin<Box<B>>>,
    cut: Cut,
}

impl<B> Flushed<B> {
    pub(super) fn new(body: B, cut: Cut) -> Self {
        Self { body: Some(Box::pin(body)), cut }
    }
}

impl<B> Body for Flushed<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Pending };
        match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            None => Poll::Ready(None),
            Some(Err(error)) => {
                let error: BodyError = error.into();
                tracing::debug!(%error, "the upstream broke off");
                this.body = None;
                this.cut.ask();
                // hyper flushes whenever a body is pending; nothing else needs to wake it.
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(|body| body.size_hint()).unwrap_or_default()
    }
}

/// A body that was read up to a cap.
pub(super) enum Collected {
    BodyRelay(Bytes),
    /// More than the cap: what was read, and the rest behind it.
    Larger(client::Body),
}

/// Why a body could not be read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unread {
    /// The connection was lost.
    Broken,
    /// Nothing came for too long.
    TimedOut,
}

impl Unread {
    /// How a call ended that way.
    pub(super) fn end(self) -> CallEnd {
        match self {
            Self::Broken => CallEnd::Dropped,
            Self::TimedOut => CallEnd::TimedOut,
        }
    }
}

impl Collected {
    /// Reads a body, or as much of it as `cap` allows. `patience`: how long its first bytes may take, and all that
    /// follow.
    pub(super) async fn read<B>(mut body: B, cap: usize, patience: Option<(Duration, Duration)>) -> Result<Self, Unread>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BodyError>,
    {
        if body.size_hint().lower() > cap as u64 {
            return Ok(Self::Larger(client::Body::wrap(body)));
        }
        let mut read = BytesMut::new();
        loop {
            let frame = match patience {
                Some((first, idle)) => {
                    let wait = if read.is_empty() { first } else { idle };
                    timeout(wait, body.frame()).await.map_err(|_| Unread::TimedOut)?
                }
                None => body.frame().await,
            };
            let Some(frame) = frame else { return Ok(Self::BodyRelay(read.freeze())) };
            if let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() {
                read.extend_from_slice(&data);
            }
            if read.len() > cap {
                return Ok(Self::Larger(client::Body::wrap(Prefixed { read: Some(read.freeze()), rest: body })));
            }
        }
    }
}

/// What was read already, then the rest.
struct Prefixed<B> {
    read: Option<Bytes>,
    rest: B,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Prefixed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }
}
