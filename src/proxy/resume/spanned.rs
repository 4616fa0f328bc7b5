//! Streams that log.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tracing::Span;

/// A stream that is polled in the span of its request, so that each line of its log has the id.
pub(super) struct Spanned<S> {
    span: Span,
    stream: S,
}

impl<S> Spanned<S> {
    /// Takes the span that is current.
    pub(super) fn new(stream: S) -> Self {
        Self { span: Span::current(), stream }
    }
}

impl<S: Stream + Unpin> Stream for Spanned<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { span, stream } = self.get_mut();
        span.in_scope(|| Pin::new(stream).poll_next(cx))
    }
}
