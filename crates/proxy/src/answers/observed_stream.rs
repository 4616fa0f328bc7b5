//! The stream of an answer that the page shows: reads the bytes for the client on their way, and
//! lets the operator end the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use super::answer::ListedAnswer;
use super::stop::Stopped;
use super::text::{Changes, TextReader};
use crate::content::AnswerLog;
use restitch::Limits;
use restitch::internal::limits::TimeLimit;
use restitch::internal::wire::Framing;
use restitch::provider::Dialect;
use restitch::stream::Stitch;

/// A stitched stream that the page and the log may watch.
pub(in super::super) struct ObservedStream<'a, E> {
    stream: Stitch<'a, E>,
    /// The signal that the time to drain is over, and the limit to report then.
    cut: (Stopped, TimeLimit),
    /// `None`: neither the page nor the log reads the answer.
    watch: Option<Watch>,
}

struct Watch {
    /// The signal that the operator stops the answer.
    stopped: Stopped,
    /// Set if the page or the log reads the text.
    reading: Option<Reading>,
}

/// Reads the text for the page, for the log, or for both.
struct Reading {
    reader: TextReader,
    changes: Changes,
    page: Option<Arc<ListedAnswer>>,
    log: Option<AnswerLog>,
}

impl Reading {
    fn read(&mut self, bytes: &[u8]) {
        self.reader.read(bytes, &mut self.changes);
        self.log.iter_mut().for_each(|log| log.add(&self.changes));
        match &self.page {
            Some(page) => page.add(&mut self.changes),
            None => self.changes.clear(),
        }
    }
}

impl<'a, E> ObservedStream<'a, E> {
    pub(in super::super) fn new(
        stream: Stitch<'a, E>,
        cut: Stopped,
        (answer, log): (Option<Arc<ListedAnswer>>, Option<AnswerLog>),
        (dialect, framing): (Dialect, Framing),
        limits: &Limits,
    ) -> Self {
        let stopped = answer.as_ref().map(|answer| answer.stopped());
        let page = answer.filter(|answer| answer.keeps_text());
        let reading = (page.is_some() || log.is_some()).then(|| {
            let reader = TextReader::new(dialect, framing, limits);
            Reading {
                reader,
                changes: Changes::default(),
                page,
                log,
            }
        });
        let is_watched = stopped.is_some() || reading.is_some();
        let watch = is_watched.then(|| Watch {
            stopped: stopped.unwrap_or_else(Stopped::never),
            reading,
        });
        Self {
            stream,
            cut: (cut, limits.server.drain()),
            watch,
        }
    }
}

impl<E> Stream for ObservedStream<'_, E> {
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self {
            stream,
            cut: (cut, limit),
            watch,
        } = self.get_mut();
        if cut.poll_once(cx) {
            stream.stop_at(*limit);
        }
        let Some(watch) = watch else {
            return Pin::new(stream).poll_next(cx);
        };
        if watch.stopped.poll_once(cx) {
            stream.stop();
        }
        let next = Pin::new(stream).poll_next(cx);
        if let (Poll::Ready(Some(Ok(bytes))), Some(reading)) = (&next, &mut watch.reading) {
            reading.read(bytes);
        }
        next
    }
}
