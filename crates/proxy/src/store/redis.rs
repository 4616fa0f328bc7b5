//! The store that several proxies share: a stream of Redis or Valkey for each answer.
//!
//! ```text
//!  restitch:{ID}:log     a stream. E-0: a process has begun to write as the E-th one. E-S: an event. At last: how it ended
//!  restitch:{ID}:meta    a hash: caller, keep, request, epoch, dropped, gone, names. It outlives the log, so that an expired answer is
//!                         known
//!  restitch:{ID}:lease   the writing process. Expires unless it is renewed
//!  restitch:name:DIGEST  a set: the ids of the answers with this name. It lives as long as their hashes
//! ```
//! The server refuses an entry whose position is not after all others. So a process whose answer
//! was taken over can't write any more, even if it believes that its lease is valid: a takeover
//! begins with an entry of its own epoch.

mod scripts;
mod written;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{FromRedisValue, RedisError, Script, ScriptInvocation, ToRedisArgs, Value};
use rustls::crypto::{CryptoProvider, ring};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    AnswerId, Batch, End, Entry, Found, GivenUp, Health, Log, Name, OF_ANSWER, Opening, Owner,
    Pending, Position, ReaderLease, Store, StoreError, Takeover, Tombstone, WriterLease, limit_of,
};
use restitch::KeepLimits;
use scripts::{
    APPEND, CLOSE, COMMON, DELETE, DROP, HAS, KEEP, LOOK_UP, NAME, OPEN, READ, RENEW, TAKE_OVER,
    TRIM,
};
use written::{Dropped, Trim, Written};

/// A store in a Redis or Valkey server.
pub(crate) struct Redis {
    connection: ConnectionManager,
    health: Health,
    /// Names this process in leases.
    holder: String,
    /// The answers that this process has written, and those that it writes.
    written: Arc<Mutex<Written>>,
}

impl Redis {
    /// Creates a store in a server, and connects with the first operation. The next operation also
    /// replaces a lost connection.
    ///
    /// # Errors
    /// The address is not valid.
    pub(crate) fn new(
        address: &str,
        holder: String,
        limits: KeepLimits,
        health: Health,
    ) -> Result<Self, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(RETRIES)
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        if CryptoProvider::get_default().is_none() {
            // The client takes the default of the process, which panics if a build has two. A
            // provider that was set meanwhile does as well.
            let _ = ring::default_provider().install_default();
        }
        let client = redis::Client::open(address)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        Ok(Self {
            connection,
            health,
            holder,
            written: Arc::new(Mutex::new(Written::new(limits))),
        })
    }

    /// Asks the server whether it is there.
    pub(crate) async fn reach(&self) -> Result<(), StoreError> {
        let ping = redis::cmd("PING");
        self.answered(ping.query_async(&mut self.connection.clone()))
            .await
    }

    /// Waits for the server's response, and records it in the metrics.
    async fn answered<T>(
        &self,
        response: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let done = response.await.map_err(StoreError::from);
        self.health.note(began.elapsed(), &done);
        done
    }

    /// Runs a script over the keys of an answer.
    async fn run<T: FromRedisValue>(
        &self,
        script: &str,
        id: AnswerId,
        arguments: impl ToRedisArgs + Send,
    ) -> Result<T, StoreError> {
        let script = with_common(script);
        let mut invocation = over(&script, id);
        invocation.arg(arguments);
        let value: Value = self
            .answered(invocation.invoke_async(&mut self.connection.clone()))
            .await?;
        match &value {
            Value::BulkString(said) if said == b"unknown" => Err(StoreError::Unknown),
            Value::BulkString(said) if said == b"expired" => Err(StoreError::Expired),
            Value::BulkString(said) if said == b"fenced" => Err(StoreError::Fenced),
            _ => Ok(redis::from_redis_value(value)?),
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock()
    }

    /// Marks an answer as written by this process, until the returned value is dropped.
    fn begin(
        &self,
        id: AnswerId,
        owner: Owner,
        epoch: u64,
        keep: Duration,
        request: usize,
    ) -> WriterLease {
        self.written().begin(id, owner, epoch, keep, request);
        let written = Arc::clone(&self.written);
        WriterLease::new(move || written.lock().stop_writing(id, epoch))
    }

    /// Drops ended answers, because others need their room.
    async fn drop_ended(&self, ended: Dropped) -> Result<(), StoreError> {
        for (id, limit) in ended {
            tracing::warn!(
                limit,
                "an ended answer is no longer kept, since another one needs its room"
            );
            match self.run(DROP, id, (limit, "")).await {
                Ok(()) | Err(StoreError::Unknown) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read(&self, id: AnswerId, after: Position, most: usize) -> Result<Batch, StoreError> {
        // One row beyond `most` shows whether more follow.
        let arguments = (format!("({after}"), most + 1);
        let (mut rows, dropped, is_written): (StreamRows, Option<String>, bool) =
            self.run(READ, id, arguments).await?;
        if let Some(error) = dropped.and_then(|dropped| lacks(&dropped, after)) {
            return Err(error);
        }
        self.written().touch(id);
        let has_more = rows.len() > most;
        rows.truncate(most);
        let batch = Batch {
            has_more,
            ..batch(rows)?
        };
        match batch.entries.is_empty() && batch.end.is_none() && !is_written {
            true => Err(StoreError::Unwritten),
            false => Ok(batch),
        }
    }

    /// Reads the events of an answer between two positions.
    async fn events(
        &self,
        id: AnswerId,
        mut after: Position,
        last: Position,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut events = Vec::new();
        while after < last {
            let batch = self.read(id, after, MOST_AT_ONCE).await?;
            let Some(last) = batch.entries.last() else {
                break;
            };
            after = last.at;
            events.extend(batch.entries);
        }
        Ok(events)
    }

    fn key_of(name: Name) -> String {
        let digits = name.0.map(|byte| format!("{byte:02x}"));
        format!("restitch:name:{}", digits.concat())
    }
}

/// Returns a script with the common functions before it.
fn with_common(script: &str) -> Script {
    Script::new(&[COMMON, script].concat())
}

/// Returns a call of a script for an answer.
fn over(script: &Script, id: AnswerId) -> ScriptInvocation<'_> {
    let mut invocation = script.prepare_invoke();
    for part in ["log", "meta", "lease"] {
        invocation.key(format!("restitch:{{{id}}}:{part}"));
    }
    invocation
}

impl Store for Redis {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, WriterLease> {
        Box::pin(async move {
            let dropped = self.written().make_room_for(&opening)?;
            // Noted before the server has it, so that a call that is given up leaves nothing behind.
            let writing = self.begin(
                id,
                opening.owner,
                FIRST,
                opening.keep,
                opening.request.len(),
            );
            self.drop_ended(dropped).await?;
            let (caller, request) = (&opening.caller[..], &opening.request[..]);
            let keep = milliseconds(opening.keep);
            let arguments = (caller, keep, request, &self.holder, milliseconds(LEASE));
            self.run::<()>(OPEN, id, arguments).await?;
            Ok(writing)
        })
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        Box::pin(async move {
            // The lock is not held while this process waits for the server.
            let reserved = self.written().reserve(id, &entries);
            self.drop_ended(reserved?).await?;
            let pairs = entries
                .iter()
                .map(|entry| (entry.at.to_string(), &*entry.bytes));
            let arguments: Vec<_> = pairs.collect();
            self.run::<()>(APPEND, id, arguments).await?;
            let trim = self.written().tell(id);
            let Some(Trim { first, dropped }) = trim else {
                return Ok(());
            };
            tracing::warn!(
                limit = OF_ANSWER,
                "a kept answer has reached a limit: its first events are dropped"
            );
            let arguments = (first.to_string(), format!("{dropped} {OF_ANSWER}"));
            self.run(TRIM, id, arguments).await
        })
    }

    fn close(&self, id: AnswerId, at: Position, end: End) -> Pending<'_, ()> {
        Box::pin(async move {
            let end = if end == End::Whole { WHOLE } else { "broken" };
            let arguments = (at.to_string(), end, &self.holder);
            self.run::<()>(CLOSE, id, arguments).await?;
            self.written().end(id, at.epoch);
            Ok(())
        })
    }

    fn give_up(&self, id: AnswerId, last: Position, limit: &'static str) -> Pending<'_, GivenUp> {
        Box::pin(async move {
            let dropped = self.written().dropped(id);
            let entries = self.events(id, dropped, last).await?;
            self.run::<()>(DROP, id, (limit, last.epoch)).await?;
            self.written().stop_writing(id, last.epoch);
            Ok(GivenUp { dropped, entries })
        })
    }

    fn reading(&self, id: AnswerId) -> ReaderLease {
        self.written().reading(id)
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(async move {
            let until = Instant::now() + wait;
            let mut poll = POLL;
            loop {
                // Subscribed before the read, so that no event is missed in between.
                let changed = self.written().changed(id);
                let batch = self.read(id, after, MOST_AT_ONCE).await?;
                if !batch.entries.is_empty() || batch.end.is_some() || Instant::now() >= until {
                    return Ok(batch);
                }
                let next = until.min(Instant::now() + LOOK_AGAIN);
                match changed {
                    Some(mut changed) => drop(timeout_at(next, changed.changed()).await),
                    // Another process writes it.
                    None => {
                        sleep(poll.min(next.saturating_duration_since(Instant::now()))).await;
                        // A silent model may think for minutes: each poll is a call of the server.
                        poll = (2 * poll).min(LONGEST_POLL);
                    }
                }
            }
        })
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        Box::pin(async move {
            self.written().forget(id);
            self.run(DELETE, id, NONE).await
        })
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        Box::pin(async move {
            let (caller, keep, gone, rows, is_written): (
                [u8; 32],
                u64,
                Option<String>,
                StreamRows,
                bool,
            ) = self.run(LOOK_UP, id, NONE).await?;
            let keep = Duration::from_millis(keep);
            if rows.is_empty() {
                let gone = gone.map_or(Tombstone::Expired, |limit| {
                    Tombstone::Dropped(limit_of(&limit))
                });
                return Ok(Found {
                    caller,
                    keep,
                    log: Err(gone),
                });
            }
            let mut last = Position::START;
            let mut end = None;
            for (at, (field, said)) in rows {
                let at = position(&at)?;
                match field.as_str() {
                    END => end = Some(end_of(&said)),
                    _ => last = last.max(at),
                }
            }
            Ok(Found {
                caller,
                keep,
                log: Ok(Log {
                    last,
                    end,
                    is_written,
                }),
            })
        })
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        Box::pin(async move {
            let arguments = (Self::key_of(name), id.to_string());
            self.run(NAME, id, arguments).await
        })
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        Box::pin(async move {
            let members = redis::cmd("SMEMBERS").arg(Self::key_of(name)).to_owned();
            let ids: Vec<String> = self
                .answered(members.query_async(&mut self.connection.clone()))
                .await?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
    }

    fn renew(&self, id: AnswerId, epoch: u64) -> Pending<'_, ()> {
        Box::pin(async move {
            let arguments = (epoch, &self.holder, milliseconds(LEASE));
            self.run(RENEW, id, arguments).await
        })
    }

    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Takeover>> {
        Box::pin(async move {
            let arguments = (&self.holder, milliseconds(LEASE));
            let taken: Option<(u64, u64, Vec<u8>)> = self.run(TAKE_OVER, id, arguments).await?;
            let Some((epoch, keep, request)) = taken else {
                return Ok(None);
            };
            let writing = self.begin(
                id,
                Owner::default(),
                epoch,
                Duration::from_millis(keep),
                request.len(),
            );
            let fence = Position { epoch, seq: 0 };
            match self.events(id, Position::START, fence).await {
                Ok(events) => {
                    self.written().note(id, &events);
                    let last = events.last().map_or(Position::START, |entry| entry.at);
                    let events = events.into_iter().map(|entry| entry.bytes).collect();
                    Ok(Some(Takeover {
                        writing,
                        epoch,
                        request: request.into(),
                        events,
                        last,
                    }))
                }
                // The lease is taken already: without an end, readers would wait for a writer that is
                // not there.
                Err(error) => {
                    self.close(id, fence.next(), End::Broken).await?;
                    Err(error)
                }
            }
        })
    }

    fn has(&self, id: AnswerId, at: Position) -> Pending<'_, bool> {
        Box::pin(async move {
            let at = at.to_string();
            let (has, dropped): (bool, Option<String>) = self.run(HAS, id, &at).await?;
            Ok(has
                // The last dropped event is no longer there, and a client that has it lacks
                // nothing.
                || dropped.is_some_and(|dropped| {
                    dropped.split_once(' ').is_some_and(|(last, _)| last == at)
                }))
        })
    }

    /// The server removes expired answers by itself. One round trip renews all answers that clients
    /// read here.
    fn sweep(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            let read = self.written().sweep();
            if read.is_empty() {
                return self.reach().await;
            }
            let script = with_common(KEEP);
            let mut calls = redis::pipe();
            calls.load_script(&script).ignore();
            for id in read {
                calls.invoke_script(&over(&script, id)).ignore();
            }
            self.answered(calls.exec_async(&mut self.connection.clone()))
                .await
        })
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        // The server's error for an entry that is not after all others. It has no code of its own.
        match error.to_string() {
            // `XADD` says it of an id that is not above the last one, in Redis and in Valkey.
            said if said.contains("equal or smaller") => Self::Fenced,
            said => Self::Failed(said),
        }
    }
}

impl From<redis::ParsingError> for StoreError {
    fn from(error: redis::ParsingError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Entries of a stream: position, field and value.
type StreamRows = Vec<(String, (String, Vec<u8>))>;

/// Returns the events of entries.
fn batch(rows: StreamRows) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    for (at, (field, bytes)) in rows {
        match field.as_str() {
            EVENT => batch.entries.push(Entry {
                at: position(&at)?,
                bytes: Bytes::from(bytes),
            }),
            END => batch.end = Some(end_of(&bytes)),
            // A process has begun.
            _ => {}
        }
    }
    Ok(batch)
}

fn end_of(said: &[u8]) -> End {
    if said == WHOLE.as_bytes() {
        End::Whole
    } else {
        End::Broken
    }
}

fn position(at: &str) -> Result<Position, StoreError> {
    at.parse()
        .map_err(|_| StoreError::Failed("an entry without a position".to_owned()))
}

/// Returns why events after a position are missing: `dropped` is the last one that was dropped, and
/// the limit.
fn lacks(dropped: &str, after: Position) -> Option<StoreError> {
    let (at, limit) = dropped.split_once(' ')?;
    let at: Position = at.parse().ok()?;
    (after < at).then_some(StoreError::Dropped(limit_of(limit)))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The arguments of a script that takes none.
const NONE: Option<&str> = None;
const EVENT: &str = "d";
const END: &str = "e";
const WHOLE: &str = "whole";

/// How long a lease lasts without a renewal. Another process can resume the answer only after that
/// time. The writer renews it every second, so a renewal that fails does not end it.
const LEASE: Duration = Duration::from_secs(3);
/// How long to wait for a connection to the server, and for its response.
const PATIENCE: Duration = Duration::from_secs(2);
// With `PATIENCE` a reader waits some seconds, then asks again by itself.
const RETRIES: usize = 2;
/// The epoch of the process that begins an answer.
const FIRST: u64 = 1;
/// How often the log of another process's answer is read.
// A reader in another process than the writer is this much behind.
const POLL: Duration = Duration::from_millis(25);
/// The longest interval, reached while no event comes.
const LONGEST_POLL: Duration = Duration::from_millis(200);
/// How often the log of this process's own answer is read without a notification: another process
/// may have fenced it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The most events of a read; the rest needs a further read.
// The server does nothing else while it reads them.
const MOST_AT_ONCE: usize = 256;
