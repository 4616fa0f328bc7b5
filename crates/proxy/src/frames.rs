//! The streams of both directions: an upstream's bytes, and the bytes for the client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::BodyStream;

use super::Tap;
use super::conversation::CallError;
use super::encoding::DecodedBody;
use super::error_redactor::RedactedBody;
use super::exchange::Exchange;
use super::kept::StopOnDrop;
use restitch::session::CallEnd;

/// The bytes of an answer on their way to the client.
pub(super) trait AnswerStream:
    Stream<Item = Result<Bytes, CallError>> + Send + Unpin + 'static
{
}

impl<S: Stream<Item = Result<Bytes, CallError>> + Send + Unpin + 'static> AnswerStream for S {}

/// A stream that ends with an error if the answer is lost, so that the client's connection breaks,
/// too. The stream can't tell this from the last call, which may have ended without an error and
/// without text.
pub(super) struct AbortOnLoss<S> {
    pub(super) stream: S,
    /// Set before the end of the stream.
    pub(super) is_lost: Arc<AtomicBool>,
    /// Stops the upstream's kept stream when the client has left.
    pub(super) _kept: Option<StopOnDrop>,
}

impl<S> Stream for AbortOnLoss<S>
where
    S: Stream<Item = Result<Bytes, CallError>> + Unpin,
{
    type Item = Result<Bytes, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.stream).poll_next(cx));
        let is_lost = next.is_none() && self.is_lost.swap(false, Ordering::Relaxed);
        Poll::Ready(if is_lost {
            Some(Err(CallError(CallEnd::Dropped)))
        } else {
            next
        })
    }
}

/// The source of a call's bytes.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are bodies, which need no box so"
)]
pub(super) enum Source {
    /// The body of a response.
    Body(BodyStream<RedactedBody<DecodedBody>>),
    /// The events of an answer whose process has ended. After them the connection counts as lost.
    Log(std::vec::IntoIter<Bytes>),
}

/// A response's body as a stream of its bytes.
pub(super) struct Frames {
    pub(super) source: Source,
    pub(super) tap: Option<Arc<dyn Tap>>,
    /// Records the time of the first bytes, if the proxy measures it.
    pub(super) waiting: Option<Arc<Exchange>>,
}

impl Stream for Frames {
    type Item = Result<Bytes, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let body = match &mut self.source {
                Source::Body(body) => body,
                Source::Log(events) => {
                    return Poll::Ready(Some(events.next().ok_or(CallError(CallEnd::Dropped))));
                }
            };
            return match Pin::new(body).poll_next(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        if let Some(exchange) = self.waiting.take() {
                            exchange.note_first_chunk();
                        }
                        if let Some(tap) = &self.tap {
                            tap.response(&data);
                        }
                        Poll::Ready(Some(Ok(data)))
                    }
                    // Drops trailers, which are not bytes of the stream.
                    Err(_) => continue,
                },
                Poll::Ready(Some(Err(error))) => {
                    Poll::Ready(Some(Err(CallError(CallEnd::Error(error.to_string())))))
                }
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            };
        }
    }
}
