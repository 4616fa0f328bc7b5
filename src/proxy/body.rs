//! Bodies towards the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::client::BodyError;

/// Passes a body on, and lets what came before an error leave first.
///
/// hyper closes the connection as soon as a body fails, with whatever it still holds. An error is therefore told one
/// poll late: in between hyper flushes.
#[derive(Debug)]
pub(super) struct Flushed<B> {
    body: Pin<Box<B>>,
    error: Option<BodyError>,
}

impl<B> Flushed<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body: Box::pin(body), error: None }
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
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match this.body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                this.error = Some(error.into());
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
