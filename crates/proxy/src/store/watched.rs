//! A store whose operations are measured.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{
    AnswerId, Batch, End, Entry, Found, GivenUp, Name, Opening, Pending, Position, ReaderLease,
    Store, StoreError, Takeover, WriterLease,
};
use crate::metrics::Metrics;

/// Measures the operations of another store.
#[derive(Debug)]
pub(crate) struct Watched {
    store: Arc<dyn Store>,
    /// The type of the store.
    kind: &'static str,
    metrics: Arc<Metrics>,
}

impl Watched {
    pub(crate) fn new(store: Arc<dyn Store>, kind: &'static str, metrics: Arc<Metrics>) -> Self {
        Self {
            store,
            kind,
            metrics,
        }
    }

    /// Measures an operation that does not wait for events.
    fn timed<'a, T: Send + 'a>(&'a self, operation: Pending<'a, T>) -> Pending<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let done = operation.await;
            let time = self.metrics.kept.duration.of([self.kind]);
            time.observe(began.elapsed().as_secs_f64());
            drop(time);
            self.note(&done);
            done
        })
    }

    fn note<T>(&self, done: &Result<T, StoreError>) {
        // Other errors are about an answer.
        let is_up = !matches!(done, Err(StoreError::Failed(_)));
        self.metrics.store(self.kind, is_up);
    }
}

impl Store for Watched {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, WriterLease> {
        self.timed(self.store.open(id, opening))
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        self.timed(self.store.append(id, entries))
    }

    fn close(&self, id: AnswerId, at: Position, end: End) -> Pending<'_, ()> {
        self.timed(self.store.close(id, at, end))
    }

    fn give_up(&self, id: AnswerId, last: Position, limit: &'static str) -> Pending<'_, GivenUp> {
        self.timed(self.store.give_up(id, last, limit))
    }

    fn reading(&self, id: AnswerId) -> ReaderLease {
        self.store.reading(id)
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(async move {
            let read = self.store.read_after(id, after, wait).await;
            self.note(&read);
            read
        })
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        self.timed(self.store.delete(id))
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        self.timed(self.store.look_up(id))
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        self.timed(self.store.name(id, name))
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        self.timed(self.store.named(name))
    }

    fn renew(&self, id: AnswerId, epoch: u64) -> Pending<'_, ()> {
        self.timed(self.store.renew(id, epoch))
    }

    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Takeover>> {
        self.timed(self.store.take_over(id))
    }

    fn has(&self, id: AnswerId, at: Position) -> Pending<'_, bool> {
        self.timed(self.store.has(id, at))
    }

    fn sweep(&self) -> Pending<'_, ()> {
        self.timed(self.store.sweep())
    }
}
