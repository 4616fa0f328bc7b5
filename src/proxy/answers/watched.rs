//! The streams of an answer that the page shows: what its client gets is read on its way, and the operator may end it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hyper::body::{Body, Frame, SizeHint};

use super::answer::Answer;
use super::stop::Stopped;
use super::text::{Changes, TextReader};
use crate::Limits;
use crate::client::BodyError;
use crate::provider::Dialect;
use crate::provider::wire::Framing;
use crate::stream::Stitch;

/// A stream that is made whole.
pub(in super::super) struct Watched<'a, E> {
    stream: Stitch<'a, E>,
    /// `None`: nobody looks.
    watch: Option<Watch>,
}

struct Watch {
    stopped: Stopped,
    /// Set where the text is kept.
    reading: Option<(Arc<Answer>, TextReader, Changes)>,
}

impl<'a, E> Watched<'a, E> {
    pub(in super::super) fn new(
        stream: Stitch<'a, E>,
        answer: Option<Arc<Answer>>,
        (dialect, framing): (Dialect, Framing),
        limits: &Limits,
    ) -> Self {
        let watch = answer.map(|answer| Watch {
            stopped: answer.stopped(),
            reading: answer
                .keeps_text()
                .then(|| (answer, TextReader::new(dialect, framing, limits), Changes::default())),
        });
        Self { stream, watch }
    }
}

impl<E> Stream for Watched<'_, E> {
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { stream, watch } = self.get_mut();
        let Some(watch) = watch else { return Pin::new(stream).poll_next(cx) };
        if watch.stopped.poll_once(cx) {
            stream.stop();
        }
        let next = Pin::new(stream).poll_next(cx);
        if let (Poll::Ready(Some(Ok(bytes))), Some((answer, reader, changes))) = (&next, &mut watch.reading) {
            reader.read(bytes, changes);
            answer.add(changes);
        }
        next
    }
}

/// A body that passes as it comes. It breaks off where the operator ends it.
pub(in super::super) struct Stoppable<B> {
    body: B,
    stopped: Stopped,
}

impl<B> Stoppable<B> {
    pub(in super::super) fn new(body: B, stopped: Stopped) -> Self {
        Self { body, stopped }
    }
}

impl<B> Body for Stoppable<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.stopped.poll_once(cx) {
            return Poll::Ready(Some(Err(BrokenOff.into())));
        }
        Pin::new(&mut this.body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The error of a body that the operator has ended.
#[derive(Debug)]
struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was stopped")
    }
}

impl std::error::Error for BrokenOff {}
