//! Writes an answer to the store, whether or not a client reads it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::Instrument;

use super::caller::Credential;
use super::follow::data;
use super::live::{LeftError, LiveTail};
use super::unread::CatchUpBudget;
use super::{ActiveWriter, KeptAnswers, STORE, response_name};
use crate::answers::ClientChunk;
use crate::conversation::CallError;
use crate::exchange::AccessLine;
use crate::store::{AnswerId, End, Entry, OF_ANSWER, Position, Store, StoreError, WriterLease};
use restitch::Limits;

/// The task that writes an answer. It ends with the answer, when the answer has expired, or when it
/// gets the signal to stop; the upstream call then ends, too. The end of the task always ends the
/// answer for its readers.
pub(super) struct Pump {
    writer: Writer,
    last: Position,
    /// The credential that may look the answer up by its provider's id. `None` once the first event
    /// has been checked for that id.
    pub(super) names: Option<Credential>,
    /// Logged events that the resumed session still has to reproduce.
    pub(super) logged: VecDeque<Bytes>,
    unread: CatchUpBudget,
    /// The last renewal of the lease has failed.
    has_missed: bool,
    /// Records the answer for the log, the metrics and the page.
    line: AccessLine,
}

/// The destination of an answer.
pub(super) struct Writer {
    pub(super) answers: Arc<KeptAnswers>,
    pub(super) id: AnswerId,
    /// The digest of the answer's caller.
    pub(super) caller: [u8; 32],
    /// Dropped last.
    pub(super) _writing: WriterLease,
    pub(super) live: Arc<LiveTail>,
}

/// The reason why an answer is not written to its end.
enum PumpStopped {
    Store(StoreError),
    /// The store no longer keeps the answer, and it has no readers.
    Left,
}

impl From<StoreError> for PumpStopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LeftError> for PumpStopped {
    fn from(_: LeftError) -> Self {
        Self::Left
    }
}

impl Pump {
    pub(super) fn new(writer: Writer, line: AccessLine, limits: &Limits) -> Self {
        Self {
            last: Position {
                epoch: writer.live.epoch,
                seq: 0,
            },
            writer,
            names: None,
            logged: VecDeque::new(),
            unread: CatchUpBudget::new(limits.keep.max_kept_answer_bytes),
            has_missed: false,
            line,
        }
    }

    /// Writes the answer in a task of its own.
    pub(super) fn spawn<S>(self, stream: S)
    where
        S: Stream<Item = Result<ClientChunk, CallError>> + Send + Unpin + 'static,
    {
        let running = ActiveWriter {
            caller: self.writer.caller,
            live: Arc::clone(&self.writer.live),
        };
        // Inserts before it spawns: the task removes the entry at its end, and in a runtime that has
        // ended this happens before `spawn` returns.
        self.writer
            .answers
            .running()
            .insert(self.writer.id, running);
        let span = self.line.span().clone();
        tokio::spawn(self.run(stream).instrument(span));
    }

    async fn run<S>(mut self, mut stream: S)
    where
        S: Stream<Item = Result<ClientChunk, CallError>> + Unpin,
    {
        let live = Arc::clone(&self.writer.live);
        let written = tokio::select! {
            written = self.write(&mut stream) => written,
            () = live.stopped() => return,
        };
        match written {
            Ok(()) => {}
            Err(PumpStopped::Store(StoreError::Expired)) => {
                tracing::debug!("a kept answer was stopped: nobody has read it for too long");
            }
            Err(PumpStopped::Store(StoreError::Unknown)) => {
                tracing::debug!("a kept answer was stopped: the store has it no longer");
            }
            Err(PumpStopped::Store(error)) => {
                self.line.break_off();
                tracing::warn!(%error, "a kept answer cannot be written");
            }
            Err(PumpStopped::Left) => {
                tracing::debug!("an answer that is no longer kept was stopped: nobody reads it");
            }
        }
    }

    async fn write<S>(&mut self, stream: &mut S) -> Result<(), PumpStopped>
    where
        S: Stream<Item = Result<ClientChunk, CallError>> + Unpin,
    {
        let live = Arc::clone(&self.writer.live);
        let mut renewal = interval(RENEWAL);
        // After a long wait for the upstream one renewal is enough.
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            let next = tokio::select! {
                next = stream.next() => next,
                // A live answer is in no store, so it has no lease.
                _ = renewal.tick(), if !live.is_live() => {
                    self.renew().await?;
                    continue;
                }
                () = live.left(), if live.is_live() => return Err(PumpStopped::Left),
            };
            let (events, end) = self.events_of(next);
            for part in self.unread.parts_of(events) {
                self.add(part, &mut renewal).await?;
            }
            if let Some(end) = end {
                break end;
            }
        };
        if !live.is_live() {
            let (store, id) = self.store();
            match store.close(id, self.last.next(), end).await {
                Err(StoreError::Full(limit)) => self.give_up(limit, self.last).await?,
                closed => self.has_done(closed)?,
            }
        }
        if live.is_live() {
            live.close(end);
        }
        match end {
            End::Whole => self.line.end(),
            End::Broken => self.line.break_off(),
        }
        Ok(())
    }

    fn store(&self) -> (Arc<dyn Store>, AnswerId) {
        (Arc::clone(&self.writer.answers.store), self.writer.id)
    }

    /// Renews the lease for writing the answer.
    async fn renew(&mut self) -> Result<(), PumpStopped> {
        let (store, id) = self.store();
        let renewed = store.renew(id, self.last.epoch).await;
        if let Err(StoreError::Full(limit)) = renewed {
            return self.give_up(limit, self.last).await;
        }
        let has_failed = matches!(renewed, Err(StoreError::Failed(_)));
        // One failed renewal is harmless, since the lease outlasts several.
        match has_failed && !std::mem::replace(&mut self.has_missed, has_failed) {
            true => Ok(()),
            false => self.has_done(renewed),
        }
    }

    /// Removes the answer from a store without room for it; only its connected readers get its
    /// rest. `last`: the position of the store's last event.
    async fn give_up(&mut self, limit: &'static str, last: Position) -> Result<(), PumpStopped> {
        tracing::warn!(
            limit,
            "an answer is no longer kept: only those who are reading it get its rest"
        );
        self.count_not_kept(limit);
        self.writer.live.begin(limit);
        let (store, id) = self.store();
        match store.give_up(id, last, limit).await {
            Ok(given_up) => self.writer.live.take(given_up),
            failed => self.has_done(failed.map(drop))?,
        }
        Ok(())
    }

    /// Handles a result of the store. If the store has failed, the connected readers get the rest
    /// without it.
    fn has_done(&mut self, done: Result<(), StoreError>) -> Result<(), PumpStopped> {
        match done {
            Err(StoreError::Failed(error)) => {
                tracing::warn!(
                    error,
                    "the store failed: only those who are reading the answer get its rest"
                );
                self.count_not_kept(STORE);
                self.writer.live.fail();
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Counts an answer that leaves the store. It leaves once: a store that fails while it gives the
    /// answer up adds no second reason.
    fn count_not_kept(&self, reason: &'static str) {
        if !self.writer.live.is_live() {
            self.writer.answers.count_not_kept(reason);
        }
    }

    /// Waits until the readers in this process leave room for further events.
    async fn wait_for_room(&mut self, renewal: &mut Interval) -> Result<(), PumpStopped> {
        let live = Arc::clone(&self.writer.live);
        while !live.is_live() && live.is_behind(self.unread.gone) {
            tokio::select! {
                () = live.caught_up(self.unread.gone) => {}
                _ = renewal.tick() => self.renew().await?,
                // A stopped answer ends immediately, even if readers lack events.
                () = self.line.stopped() => return Ok(()),
            }
        }
        if live.is_live() {
            tokio::select! {
                has_room = live.room() => has_room?,
                () = self.line.stopped() => {}
            }
        }
        Ok(())
    }

    /// Returns the new events of a stream item, and the end of the answer if the item ends it.
    fn events_of(
        &mut self,
        next: Option<Result<ClientChunk, CallError>>,
    ) -> (Vec<Bytes>, Option<End>) {
        let chunk = match next {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => {
                tracing::debug!(%error, "a kept answer broke off");
                return (Vec::new(), Some(End::Broken));
            }
            None if self.logged.is_empty() => return (Vec::new(), Some(End::Whole)),
            None => return (Vec::new(), Some(End::Broken)),
        };
        let Some(events) = self.unlogged(chunk.events) else {
            let reason = "the replay differs from the bytes sent";
            tracing::warn!(reason, "a kept answer can't be resumed");
            return (Vec::new(), Some(End::Broken));
        };
        let Some(limit) = chunk.limit else {
            return (events, None);
        };
        tracing::warn!(limit, "a kept answer breaks off at a limit");
        (events, Some(End::Broken))
    }

    /// Skips the logged events. `None`: the events differ from the logged ones.
    fn unlogged(&mut self, events: Vec<Bytes>) -> Option<Vec<Bytes>> {
        if self.logged.is_empty() {
            return Some(events);
        }
        let mut events = events.into_iter();
        while let Some(logged) = self.logged.front() {
            match events.next() {
                Some(event) if event == logged => drop(self.logged.pop_front()),
                // A client may have the logged event, and a different one can't follow it.
                Some(_) => return None,
                None => break,
            }
        }
        Some(events.collect())
    }

    /// Writes events to the store and to the readers of this process.
    async fn add(&mut self, events: Vec<Bytes>, renewal: &mut Interval) -> Result<(), PumpStopped> {
        let (store, id) = self.store();
        if let Some(name) = events.first().and_then(|event| self.response_id(event))
            && !self.writer.live.is_live()
        {
            let named = store.name(id, name).await;
            self.has_done(named)?;
        }
        let before = self.last;
        let mut at = before;
        let entries: Vec<_> = events
            .into_iter()
            .map(|bytes| {
                at = at.next();
                Entry { at, bytes }
            })
            .collect();
        self.last = at;
        // Counts the blank line after each event, too.
        self.line
            .add(entries.iter().map(|entry| entry.bytes.len() + 1).sum());
        // The store may drop earlier events to make room for these, so all readers must have those
        // first.
        let fits = self.unread.add(&entries, before);
        self.wait_for_room(renewal).await?;
        if !self.writer.live.is_live() {
            let appended = match fits {
                true => store.append(id, entries.clone()).await,
                false => Err(StoreError::Full(OF_ANSWER)),
            };
            if let Err(StoreError::Full(limit)) = appended {
                self.give_up(limit, before).await?;
            } else {
                self.has_done(appended)?;
            }
        }
        self.writer.live.push(entries);
        Ok(())
    }

    /// Returns the store's name for the answer's id in its first event.
    fn response_id(&mut self, event: &[u8]) -> Option<crate::store::Name> {
        #[derive(serde::Deserialize)]
        struct Created {
            response: NamedEvent,
        }
        #[derive(serde::Deserialize)]
        struct NamedEvent {
            id: String,
        }
        // The first event alone has the id: a look at each one would parse each one.
        let credential = self.names.take()?;
        let Created { response } = data(event)?;
        response_name(&credential, &response.id)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // The readers in this process lose their connection if the answer has not ended.
        self.writer.live.close(End::Broken);
        let (id, epoch) = (self.writer.id, self.last.epoch);
        let mut running = self.writer.answers.running();
        // The entry may belong to a later epoch that this process writes, too.
        if running
            .get(&id)
            .is_some_and(|running| running.live.epoch == epoch)
        {
            running.remove(&id);
        }
    }
}

/// The interval at which the lease for writing an answer is renewed.
// A third of the lease, so one renewal may fail.
const RENEWAL: Duration = Duration::from_secs(1);
