//! The stream that a client gets: a stitched answer that the operator can end, and whose events the
//! page and the store may read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::answer::ListedAnswer;
use super::client_events::{ClientChunk, ClientEvents, TextReader};
use super::stop::Stopped;
use crate::conversation::CallError;
use crate::kept::StopOnDrop;
use restitch::Limits;
use restitch::internal::limits::TimeLimit;
use restitch::internal::wire::Framing;
use restitch::provider::Dialect;
use restitch::session::CallEnd;
use restitch::stream::Stitch;

/// A stitched stream that the page and the store may read.
pub(in super::super) struct ObservedStream {
    stream: Stitch<'static, CallError>,
    /// Set before the end of a stream whose answer is lost.
    is_lost: Arc<AtomicBool>,
    /// The signal that the time to drain is over, and the limit to report then.
    cut: (Stopped, TimeLimit),
    /// The signal that the operator stops the answer.
    stopped: Stopped,
    /// `None`: neither the page nor the store reads the answer.
    events: Option<ClientEvents>,
    /// Stops the upstream's kept stream when the client has left.
    _kept: Option<StopOnDrop>,
}

impl ObservedStream {
    pub(in super::super) fn new(
        (stream, is_lost): (Stitch<'static, CallError>, Arc<AtomicBool>),
        cut: Stopped,
        answer: Option<Arc<ListedAnswer>>,
        (dialect, framing): (Dialect, Framing),
        kept: Option<StopOnDrop>,
        limits: &Limits,
    ) -> Self {
        let stopped = answer
            .as_ref()
            .map_or_else(Stopped::never, |answer| answer.stopped());
        let page = answer.filter(|answer| answer.keeps_text());
        let text = page.map(|page| TextReader::new(dialect, page));
        Self {
            stream,
            is_lost,
            cut: (cut, limits.server.drain()),
            stopped,
            events: text.map(|text| ClientEvents::new(framing, Some(text), limits)),
            _kept: kept,
        }
    }

    /// Divides the stream, which is an event stream and not read yet, into the events for the store.
    pub(in super::super) fn kept(mut self, limits: &Limits) -> Self {
        let new = || ClientEvents::new(Framing::Events, None, limits);
        self.events.get_or_insert_with(new).is_kept = true;
        self
    }
}

impl Stream for ObservedStream {
    type Item = Result<ClientChunk, CallError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let (cut, limit) = &mut this.cut;
        if cut.poll_once(cx) {
            this.stream.stop_at(*limit);
        }
        if this.stopped.poll_once(cx) {
            this.stream.stop();
        }
        let next = ready!(Pin::new(&mut this.stream).poll_next(cx)).transpose()?;
        Poll::Ready(match (next, &mut this.events) {
            (Some(bytes), Some(events)) => Some(Ok(events.push(bytes))),
            (Some(bytes), None) => Some(Ok(bytes.into())),
            // The client's connection must break, too. The stream can't tell a lost answer from the
            // last call, which may have ended without an error and without text.
            (None, _) if this.is_lost.swap(false, Ordering::Relaxed) => {
                Some(Err(CallError(CallEnd::Dropped)))
            }
            (None, events) => events.as_mut().and_then(ClientEvents::finish).map(Ok),
        })
    }
}
