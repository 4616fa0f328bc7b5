//! The store that several proxies share: a stream of Redis or Valkey for each answer.
//!
//! ```text
//!  restitch:{ID}:log     a stream. E-0: a process has begun to write as the E-th one. E-S: an event. At last: how it ended
//!  restitch:{ID}:meta    a hash: caller, keep, request, epoch, dropped. It outlives the log, so that an expired answer is known
//!  restitch:{ID}:lease   who writes. It expires unless it is renewed
//!  restitch:name:DIGEST  a set: the ids of the answers with this name
//! ```
//! The server refuses an entry whose position is not after all others. So a process whose answer another one has taken over
//! writes nothing more, whatever it believes of its lease: the other one has begun by writing its epoch.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{RedisError, Script, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::{AnswerId, Batch, End, Entry, Found, Log, Name, Opening, Pending, Position, Store, StoreError, Taken};
use crate::limits::KeepLimits;

/// A store in a Redis or Valkey server.
pub(crate) struct Redis {
    connection: ConnectionManager,
    /// Names this process in leases.
    holder: String,
    limits: KeepLimits,
    /// The answers that this process writes.
    written: Mutex<HashMap<AnswerId, Written>>,
}

/// What a process knows of an answer that it writes.
struct Written {
    epoch: u64,
    keep: Duration,
    /// The events that are kept, with their sizes.
    sizes: VecDeque<(Position, usize)>,
    bytes: usize,
    /// Tells readers in this process of events.
    changed: watch::Sender<()>,
}

impl Redis {
    /// Connects to a server.
    ///
    /// # Errors
    /// The address is not valid, or the server does not answer.
    pub(crate) async fn connect(address: &str, holder: String, limits: KeepLimits) -> Result<Self, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(RETRIES)
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = redis::Client::open(address)?;
        let connection = ConnectionManager::new_with_config(client, config).await?;
        Ok(Self { connection, holder, limits, written: Mutex::default() })
    }

    /// Runs a script over the keys of an answer.
    async fn run(&self, script: &str, id: AnswerId, arguments: &[&[u8]]) -> Result<Value, StoreError> {
        let script = Script::new(script);
        let mut invocation = script.prepare_invoke();
        for part in ["log", "meta", "lease"] {
            invocation.key(format!("restitch:{{{id}}}:{part}"));
        }
        for argument in arguments {
            invocation.arg(*argument);
        }
        let value = invocation.invoke_async(&mut self.connection.clone()).await?;
        match &value {
            Value::BulkString(said) if said == b"unknown" => Err(StoreError::Unknown),
            Value::BulkString(said) if said == b"expired" => Err(StoreError::Expired),
            Value::BulkString(said) if said == b"fenced" => Err(StoreError::Fenced),
            _ => Ok(value),
        }
    }

    /// A panic elsewhere leaves the map valid: no change of it can panic in between.
    fn written(&self) -> MutexGuard<'_, HashMap<AnswerId, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, id: AnswerId, epoch: u64, keep: Duration) {
        let (sizes, changed) = (VecDeque::new(), watch::Sender::new(()));
        self.written().insert(id, Written { epoch, keep, sizes, bytes: 0, changed });
    }

    async fn open_answer(&self, id: AnswerId, opening: Opening) -> Result<(), StoreError> {
        if self.written().len() >= self.limits.max_kept_answers {
            return Err(StoreError::Full("max_kept_answers"));
        }
        let (keep, lease) = (milliseconds(opening.keep), milliseconds(LEASE));
        let arguments: [&[u8]; 5] =
            [&opening.caller, keep.as_bytes(), &opening.request, self.holder.as_bytes(), lease.as_bytes()];
        self.run(OPEN, id, &arguments).await?;
        self.begin(id, 1, opening.keep);
        Ok(())
    }

    async fn append_events(&self, id: AnswerId, entries: Vec<Entry>) -> Result<(), StoreError> {
        let positions: Vec<_> = entries.iter().map(|entry| entry.at.to_string()).collect();
        let pairs = positions.iter().zip(&entries);
        let arguments: Vec<&[u8]> = pairs.flat_map(|(at, entry)| [at.as_bytes(), &entry.bytes[..]]).collect();
        let appended = self.run(APPEND, id, &arguments).await;
        if let Err(error) = appended {
            self.written().remove(&id);
            return Err(error);
        }
        let Some((first, dropped, limit)) = self.note(id, &entries) else { return Ok(()) };
        tracing::warn!(limit, "a kept answer has reached a limit: its first events are dropped");
        let arguments = [first.to_string(), format!("{dropped} {limit}")];
        self.run(TRIM, id, &[arguments[0].as_bytes(), arguments[1].as_bytes()]).await.map(drop)
    }

    /// Notes events that are in the log, and tells those who wait. Returns the first one that stays and the last one that goes
    /// if there is no room for all.
    fn note(&self, id: AnswerId, entries: &[Entry]) -> Option<(Position, Position, &'static str)> {
        let mut written = self.written();
        let mut all = written.values().map(|answer| answer.bytes).sum();
        let answer = written.get_mut(&id)?;
        for entry in entries {
            answer.sizes.push_back((entry.at, entry.bytes.len()));
            answer.bytes += entry.bytes.len();
            all += entry.bytes.len();
        }
        answer.changed.send_replace(());
        let mut dropped = None;
        while answer.sizes.len() > 1
            && let Some(limit) = self.limits.reached(answer.bytes, all)
            && let Some((at, size)) = answer.sizes.pop_front()
        {
            answer.bytes -= size;
            all -= size;
            dropped = Some((at, limit));
        }
        let (last, limit) = dropped?;
        Some((answer.sizes.front()?.0, last, limit))
    }

    async fn read(&self, id: AnswerId, after: Position, most: usize) -> Result<Batch, StoreError> {
        let (start, most) = (format!("({after}"), most.to_string());
        let value = self.run(READ, id, &[start.as_bytes(), most.as_bytes()]).await?;
        let (rows, dropped, is_written): (Rows, Option<String>, bool) = redis::from_redis_value(value)?;
        if let Some(error) = dropped.and_then(|dropped| lacks(&dropped, after)) {
            return Err(error);
        }
        let batch = batch(rows)?;
        match batch.entries.is_empty() && batch.end.is_none() && !is_written {
            true => Err(StoreError::Unwritten),
            false => Ok(batch),
        }
    }

    async fn follow(&self, id: AnswerId, after: Position, wait: Duration) -> Result<Batch, StoreError> {
        let until = Instant::now() + wait;
        loop {
            // Subscribed before the read, so that no event is missed in between.
            let changed = self.written().get(&id).map(|answer| answer.changed.subscribe());
            let batch = self.read(id, after, MOST_AT_ONCE).await?;
            if !batch.entries.is_empty() || batch.end.is_some() || Instant::now() >= until {
                return Ok(batch);
            }
            let next = until.min(Instant::now() + LOOK_AGAIN);
            match changed {
                Some(mut changed) => drop(timeout_at(next, changed.changed()).await),
                // Another process writes it.
                None => sleep(POLL.min(next.saturating_duration_since(Instant::now()))).await,
            }
        }
    }

    async fn find(&self, id: AnswerId) -> Result<Found, StoreError> {
        let value = self.run(LOOK_UP, id, &[]).await?;
        let (caller, keep, request, rows, is_written): (Vec<u8>, u64, Vec<u8>, Rows, bool) =
            redis::from_redis_value(value)?;
        let caller = caller.try_into().map_err(|_| StoreError::Failed("a digest of another length".to_owned()))?;
        let opening = Opening { caller, keep: Duration::from_millis(keep), request: request.into() };
        if rows.is_empty() {
            return Ok(Found { opening, log: None });
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
        Ok(Found { opening, log: Some(Log { last, end, is_written }) })
    }

    async fn take(&self, id: AnswerId) -> Result<Option<Taken>, StoreError> {
        let lease = milliseconds(LEASE);
        let value = self.run(TAKE_OVER, id, &[self.holder.as_bytes(), lease.as_bytes()]).await?;
        let Some(epoch) = redis::from_redis_value::<Option<u64>>(value)? else { return Ok(None) };
        let fence = Position { epoch, seq: 0 };
        match self.taken(id, fence).await {
            Ok(taken) => Ok(Some(taken)),
            Err(error) => {
                self.close(id, fence.next(), End::Broken).await?;
                Err(error)
            }
        }
    }

    /// Reads an answer up to the beginning of this process's epoch.
    async fn taken(&self, id: AnswerId, fence: Position) -> Result<Taken, StoreError> {
        let opening = self.find(id).await?.opening;
        self.begin(id, fence.epoch, opening.keep);
        let (mut events, mut after) = (Vec::new(), Position::START);
        while after < fence {
            let batch = self.read(id, after, MOST_AT_ONCE).await?;
            let Some(last) = batch.entries.last() else { break };
            after = last.at;
            events.extend(batch.entries);
        }
        self.note(id, &events);
        let events = events.into_iter().map(|entry| entry.bytes).collect();
        Ok(Taken { epoch: fence.epoch, opening, events })
    }

    fn key_of(name: Name) -> String {
        let mut key = "restitch:name:".to_owned();
        for byte in name.0 {
            // Writing to a `String` does not fail.
            let _ = write!(key, "{byte:02x}");
        }
        key
    }
}

impl Store for Redis {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, ()> {
        Box::pin(self.open_answer(id, opening))
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        Box::pin(self.append_events(id, entries))
    }

    fn close(&self, id: AnswerId, at: Position, end: End) -> Pending<'_, ()> {
        Box::pin(async move {
            let (at, end) = (at.to_string(), if end == End::Whole { WHOLE } else { "broken" });
            let closed = self.run(CLOSE, id, &[at.as_bytes(), end.as_bytes(), self.holder.as_bytes()]).await;
            self.written().remove(&id);
            closed.map(drop)
        })
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(self.follow(id, after, wait))
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        Box::pin(async move {
            self.written().remove(&id);
            self.run(DELETE, id, &[]).await.map(drop)
        })
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        Box::pin(self.find(id))
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        Box::pin(async move {
            let keep = self.written().get(&id).map(|answer| answer.keep).ok_or(StoreError::Unknown)?;
            let (key, longest) = (Self::key_of(name), milliseconds(keep * 2 + AFTERLIFE));
            let mut commands = redis::pipe();
            commands.cmd("SADD").arg(&key).arg(id.to_string()).ignore();
            commands.cmd("PEXPIRE").arg(&key).arg(longest).ignore();
            commands.query_async::<()>(&mut self.connection.clone()).await?;
            Ok(())
        })
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        Box::pin(async move {
            let members = redis::cmd("SMEMBERS").arg(Self::key_of(name)).to_owned();
            let ids: Vec<String> = members.query_async(&mut self.connection.clone()).await?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
    }

    fn renew(&self, id: AnswerId) -> Pending<'_, ()> {
        Box::pin(async move {
            let epoch = self.written().get(&id).map(|answer| answer.epoch).ok_or(StoreError::Unknown)?.to_string();
            let lease = milliseconds(LEASE);
            let renewed = self.run(RENEW, id, &[epoch.as_bytes(), self.holder.as_bytes(), lease.as_bytes()]).await;
            if renewed.is_err() {
                self.written().remove(&id);
            }
            renewed.map(drop)
        })
    }

    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Taken>> {
        Box::pin(self.take(id))
    }

    /// The server removes what has expired.
    fn sweep(&self) {}
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may have a password.
        f.debug_struct("Redis").field("holder", &self.holder).finish_non_exhaustive()
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        // What the server says of an entry that is not after all others. It has no code of its own.
        match error.to_string() {
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
type Rows = Vec<(String, (String, Vec<u8>))>;

/// Returns the events of entries.
fn batch(rows: Rows) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    for (at, (field, bytes)) in rows {
        match field.as_str() {
            EVENT => batch.entries.push(Entry { at: position(&at)?, bytes: Bytes::from(bytes) }),
            END => batch.end = Some(end_of(&bytes)),
            // A process has begun.
            _ => {}
        }
    }
    Ok(batch)
}

fn end_of(said: &[u8]) -> End {
    if said == WHOLE.as_bytes() { End::Whole } else { End::Broken }
}

fn position(at: &str) -> Result<Position, StoreError> {
    at.parse().map_err(|_| StoreError::Failed("an entry without a position".to_owned()))
}

/// Returns why events after a position are not there: `dropped` is the last one that was dropped, and the limit.
fn lacks(dropped: &str, after: Position) -> Option<StoreError> {
    let (at, limit) = dropped.split_once(' ')?;
    let at: Position = at.parse().ok()?;
    let limit = if limit == "max_kept_bytes" { "max_kept_bytes" } else { "max_kept_answer_bytes" };
    (after < at).then_some(StoreError::Dropped(limit))
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().to_string()
}

const EVENT: &str = "d";
const END: &str = "e";
const WHOLE: &str = "whole";

/// How long a process that says nothing counts as writing. Others wait as long before they go on with its answers.
const LEASE: Duration = Duration::from_secs(3);
/// How long to wait for the server.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRIES: usize = 2;
/// How often the log of an answer is read that another process writes.
const POLL: Duration = Duration::from_millis(25);
/// How often the log of an answer is read that this process writes, although it has told of no event: it may be fenced.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long an expired answer is remembered, beside as long again as it was kept.
const AFTERLIFE: Duration = Duration::from_secs(60);
/// Events after which no further ones are read at once.
const MOST_AT_ONCE: usize = 256;

const OPEN: &str = "
redis.call('HSET', KEYS[2], 'caller', ARGV[1], 'keep', ARGV[2], 'request', ARGV[3], 'epoch', 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2] * 2 + 60000)
redis.call('XADD', KEYS[1], '1-0', 'f', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5])
return 'ok'";
const APPEND: &str = "
for i = 1, #ARGV, 2 do
    if not redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[i], 'd', ARGV[i + 1]) then return 'expired' end
end
return 'ok'";
const TRIM: &str = "
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
redis.call('HSET', KEYS[2], 'dropped', ARGV[2])
return 'ok'";
const CLOSE: &str = "
if not redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[1], 'e', ARGV[2]) then return 'expired' end
if redis.call('GET', KEYS[3]) == ARGV[3] then redis.call('DEL', KEYS[3]) end
redis.call('PEXPIRE', KEYS[1], redis.call('HGET', KEYS[2], 'keep'))
return 'ok'";
const READ: &str = "
local keep = redis.call('HGET', KEYS[2], 'keep')
if not keep then return 'unknown' end
if redis.call('PEXPIRE', KEYS[1], keep) == 0 then return 'expired' end
redis.call('PEXPIRE', KEYS[2], keep * 2 + 60000)
local rows = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
return {rows, redis.call('HGET', KEYS[2], 'dropped'), redis.call('EXISTS', KEYS[3])}";
const LOOK_UP: &str = "
local meta = redis.call('HMGET', KEYS[2], 'caller', 'keep', 'request')
if not meta[1] then return 'unknown' end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 2)
return {meta[1], meta[2], meta[3], last, redis.call('EXISTS', KEYS[3])}";
const RENEW: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then return 'expired' end
if redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[1] then return 'fenced' end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
return 'ok'";
/// The lease, the epoch and the entry that fences all others off are one step.
const TAKE_OVER: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then return 'expired' end
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
local epoch = redis.call('HINCRBY', KEYS[2], 'epoch', 1)
redis.call('XADD', KEYS[1], epoch .. '-0', 'f', ARGV[1])
return epoch";
const DELETE: &str = "
if redis.call('DEL', KEYS[1]) == 0 then return 'unknown' end
redis.call('DEL', KEYS[2], KEYS[3])
return 'ok'";
