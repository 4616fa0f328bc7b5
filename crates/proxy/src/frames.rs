//! The stream of an upstream's bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hyper::body::Body;

use super::Tap;
use super::conversation::CallError;
use super::encoding::DecodedBody;
use super::error_redactor::RedactedBody;
use super::exchange::Exchange;
use super::record::Event;
use restitch::session::CallEnd;

/// The source of a call's bytes.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are bodies, which need no box so"
)]
pub(super) enum Source {
    /// The body of a response.
    Body(RedactedBody<DecodedBody>),
    /// The events of an answer whose process has ended. After them the connection counts as lost.
    Log(std::vec::IntoIter<Bytes>),
}

/// A response's body as a stream of its bytes.
pub(super) struct Frames {
    pub(super) source: Source,
    pub(super) tap: Option<Arc<dyn Tap>>,
    /// Records the time of the first bytes.
    pub(super) waiting: Option<Arc<Exchange>>,
}

impl Stream for Frames {
    type Item = Result<Bytes, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let body = match &mut self.source {
                Source::Body(body) => body,
                Source::Log(events) => {
                    // The log has no end of its own: the process that wrote it is gone.
                    return Poll::Ready(Some(events.next().ok_or(CallError(CallEnd::Dropped))));
                }
            };
            return match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        if let Some(exchange) = self.waiting.take() {
                            exchange.apply(Event::FirstChunk);
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
