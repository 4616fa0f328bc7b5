//! Writes an answer to the store, whether a client reads it or not.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{MissedTickBehavior, interval};

use super::blocks::Blocks;
use super::caller::Credential;
use super::follow::data;
use super::{Answers, response_name};
use crate::proxy::conversation::CallError;
use crate::sse::DecodeErrorKind;
use crate::store::{AnswerId, End, Entry, Position, StoreError};

/// The task that writes an answer. It ends with the answer, when the answer has expired, or when it is told to stop; then the
/// upstream call ends, too.
pub(super) struct Pump {
    answers: Arc<Answers>,
    id: AnswerId,
    last: Position,
    /// Who finds the answer by the id that its API gives it, as long as that has not come.
    names: Option<Credential>,
    /// Events that are in the log already: they come once more.
    logged: VecDeque<Bytes>,
}

impl Pump {
    /// `last`: the position before the first event.
    pub(super) fn new(answers: Arc<Answers>, id: AnswerId, last: Position, names: Option<Credential>) -> Self {
        Self { answers, id, last, names, logged: VecDeque::new() }
    }

    /// Skips events that are in the log.
    pub(super) fn after(mut self, logged: Vec<Bytes>) -> Self {
        self.logged = logged.into();
        self
    }

    pub(super) async fn run<S>(mut self, mut stream: S)
    where
        S: Stream<Item = Result<Bytes, CallError>> + Unpin,
    {
        match self.write(&mut stream).await {
            Ok(()) => {}
            Err(StoreError::Unknown | StoreError::Expired) => {
                tracing::info!("a kept answer was stopped: nobody has read it for too long");
            }
            Err(error) => tracing::warn!(%error, "a kept answer cannot be written"),
        }
    }

    async fn write<S>(&mut self, stream: &mut S) -> Result<(), StoreError>
    where
        S: Stream<Item = Result<Bytes, CallError>> + Unpin,
    {
        let mut blocks = Blocks::new(&self.answers.limits);
        let mut renewal = interval(RENEWAL);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            let next = tokio::select! {
                next = next(stream) => next,
                _ = renewal.tick() => {
                    self.answers.store.renew(self.id).await?;
                    continue;
                }
            };
            match next {
                Some(Ok(bytes)) => match blocks.push(&bytes) {
                    Ok(events) => match self.unlogged(events) {
                        Some(events) => self.append(events).await?,
                        None => {
                            tracing::warn!(
                                "a kept answer cannot be gone on with: what was sent does not come out again"
                            );
                            break End::Broken;
                        }
                    },
                    Err(error) => {
                        let limit = match error.kind {
                            DecodeErrorKind::LineTooLong(_) => "max_line_bytes",
                            DecodeErrorKind::EventTooLong(_) => "max_event_bytes",
                        };
                        tracing::warn!(limit, "a kept answer breaks off at a limit");
                        break End::Broken;
                    }
                },
                Some(Err(error)) => {
                    tracing::debug!(%error, "a kept answer broke off");
                    break End::Broken;
                }
                None => {
                    match self.unlogged(blocks.finish().into_iter().collect()) {
                        Some(events) if self.logged.is_empty() => self.append(events).await?,
                        _ => break End::Broken,
                    }
                    break End::Whole;
                }
            }
        };
        self.answers.store.close(self.id, self.last.next(), end).await
    }

    /// Leaves out the events that are in the log. `None`: others are.
    fn unlogged(&mut self, events: Vec<Bytes>) -> Option<Vec<Bytes>> {
        if self.logged.is_empty() {
            return Some(events);
        }
        let mut events = events.into_iter();
        while let Some(logged) = self.logged.front() {
            match events.next() {
                Some(event) if event == logged => drop(self.logged.pop_front()),
                Some(_) => return None,
                None => break,
            }
        }
        Some(events.collect())
    }

    async fn append(&mut self, events: Vec<Bytes>) -> Result<(), StoreError> {
        if let Some(name) = events.first().and_then(|event| self.response_id(event)) {
            self.answers.store.name(self.id, name).await?;
        }
        let mut at = self.last;
        let entries: Vec<_> = events
            .into_iter()
            .map(|bytes| {
                at = at.next();
                Entry { at, bytes }
            })
            .collect();
        if !entries.is_empty() {
            self.answers.store.append(self.id, entries).await?;
        }
        self.last = at;
        Ok(())
    }

    /// Returns the name that the first event of an answer gives it.
    fn response_id(&mut self, event: &[u8]) -> Option<crate::store::Name> {
        #[derive(serde::Deserialize)]
        struct Created {
            response: Named,
        }
        #[derive(serde::Deserialize)]
        struct Named {
            id: String,
        }
        let credential = self.names.take()?;
        let Created { response } = data(event)?;
        response_name(&credential, &response.id)
    }
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.answers.running().remove(&self.id);
    }
}

/// How often the store is told that an answer is being written.
const RENEWAL: Duration = Duration::from_secs(1);
