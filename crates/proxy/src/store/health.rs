//! The metrics of a store's operations.

use std::sync::Arc;
use std::time::Duration;

use super::StoreError;
use crate::metrics::Metrics;

/// The metrics of one store. The default records nothing.
#[derive(Debug, Default)]
pub(crate) struct Health(Option<(&'static str, Arc<Metrics>)>);

impl Health {
    /// `kind`: the type of the store.
    pub(crate) fn new(kind: &'static str, metrics: Option<Arc<Metrics>>) -> Self {
        Self(metrics.map(|metrics| (kind, metrics)))
    }

    /// Records the result of an operation, and the time that it took.
    pub(super) fn note<T>(&self, time: Duration, done: &Result<T, StoreError>) {
        let Some((kind, metrics)) = &self.0 else {
            return;
        };
        // Other errors are about an answer.
        let is_up = !matches!(done, Err(StoreError::Failed(_)));
        metrics.kept.duration.of([kind]).observe(time.as_secs_f64());
        metrics.store(kind, is_up);
    }
}
