//! Storage for the events of kept answers, from which a client that has lost its connection gets
//! the rest.
//!
//! An answer is a log: events with growing positions, then an end. The writer appends an event
//! before the proxy sends it, and readers follow the log. The module knows neither HTTP nor the
//! content of events.

mod health;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod shares;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub(crate) use health::Health;
pub(crate) use memory::Memory;
#[cfg(feature = "redis")]
pub(crate) use redis::Redis;

/// A store of kept answers.
///
/// Each read keeps an answer for the time in its [`Opening`]. Without a read in that time the
/// answer expires, but not before its last [`ReaderLease`] is dropped.
pub(crate) trait Store: Send + Sync {
    /// Returns whether another process can resume an answer of this one, so that its request is
    /// kept, too.
    fn is_shared(&self) -> bool;
    /// Begins an answer. If all answers together leave no room for it, ended ones without readers
    /// are dropped: those of the caller with the most room, the next to expire first. A running
    /// answer of another caller may be removed from the store: its next event finds [no
    /// room](StoreError::Full).
    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, WriterLease>;
    /// Adds events to the end of an answer. Their positions grow. If the answer itself becomes too
    /// large, its first events are dropped. If all answers together become too large, ended ones
    /// without readers are dropped. If that is not enough, nothing is added, and the caller has to
    /// [give up](Self::give_up) the answer.
    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()>;
    /// Ends an answer. `at`: the position after its last event.
    fn close(&self, id: AnswerId, at: Position, end: End) -> Pending<'_, ()>;
    /// Drops an answer that is being written, since it has reached a limit. Returns its events that
    /// were still kept. `last`: the position of its last event.
    fn give_up(&self, id: AnswerId, last: Position, limit: &'static str) -> Pending<'_, GivenUp>;
    /// Notes that a client reads an answer in this process.
    fn reading(&self, id: AnswerId) -> ReaderLease;
    /// Returns events after a position. If there are none and the answer has not ended, waits for
    /// some, and returns none after `wait`.
    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch>;
    /// Removes an answer.
    fn delete(&self, id: AnswerId) -> Pending<'_, ()>;
    /// Returns the record of an answer, also if the answer has expired or was dropped lately.
    fn look_up(&self, id: AnswerId) -> Pending<'_, Found>;
    /// Adds a name under which an answer is found.
    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()>;
    /// Returns the answers with a name, those that expired lately among them.
    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>>;
    /// Renews the lease of an answer. Fails if the answer has expired, was removed, or is written
    /// in another epoch.
    fn renew(&self, id: AnswerId, epoch: u64) -> Pending<'_, ()>;
    /// Begins to write an answer whose process has ended. `None`: a process writes it, or it has
    /// ended.
    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Takeover>>;
    /// Returns whether an event of an answer has this position, or the last one that was dropped
    /// had it.
    fn has(&self, id: AnswerId, at: Position) -> Pending<'_, bool>;
    /// Removes expired answers, and renews those that clients are reading. Called more often than
    /// the shortest time for which an answer is kept. Fails while the store can't be reached.
    fn sweep(&self) -> Pending<'_, ()>;
}

/// An operation of a store.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The id of an answer: 128 random bits, which can't be guessed. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnswerId(pub(crate) [u8; 16]);

impl fmt::Display for AnswerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for AnswerId {
    type Err = NotAnId;

    /// Reads 32 lower-case digits, so that each id has one spelling.
    fn from_str(written: &str) -> Result<Self, NotAnId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_plain = written.len() == 32 && written.bytes().all(is_digit);
        let number = is_plain
            .then(|| u128::from_str_radix(written, 16).ok())
            .flatten();
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or(NotAnId)
    }
}

/// The position of an event in its answer, written as `epoch-seq`: the epoch counts the processes
/// that have written the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
}

impl Position {
    /// Before all events.
    pub(crate) const START: Self = Self { epoch: 0, seq: 0 };

    /// Returns the position of the next event of the same process.
    pub(crate) fn next(self) -> Self {
        Self {
            seq: self.seq.saturating_add(1),
            ..self
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

impl FromStr for Position {
    type Err = NotAnId;

    fn from_str(written: &str) -> Result<Self, NotAnId> {
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (epoch, seq) = written
            .split_once('-')
            .filter(|(a, b)| is_number(a) && is_number(b))
            .ok_or(NotAnId)?;
        let (Ok(epoch), Ok(seq)) = (epoch.parse(), seq.parse()) else {
            return Err(NotAnId);
        };
        Ok(Self { epoch, seq })
    }
}

/// The limit on the number of answers.
const OF_COUNT: &str = "max_kept_answers";
/// The limit on all answers together.
const OF_ALL: &str = "max_kept_bytes";
/// The limit on one answer.
pub(crate) const OF_ANSWER: &str = "max_kept_answer_bytes";

/// The error of a text that is neither an [`AnswerId`] nor a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAnId;

/// A digest under which an answer is found, beside its id. It covers the caller, too, so one caller
/// can't find another caller's answer by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) [u8; 32]);

/// The facts about an answer that are known from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// A digest of the credential of the caller.
    pub(crate) caller: [u8; 32],
    /// How long the answer is kept after it was read last.
    pub(crate) keep: Duration,
    /// The request, for a takeover. Empty unless the store is shared.
    pub(crate) request: Bytes,
    /// Whose share it counts against.
    pub(crate) owner: Owner,
}

/// Identifies a caller within one process. All answers that another process has begun have the same
/// owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner(pub(crate) u64);

/// An answer that another process has begun.
#[derive(Debug)]
pub(crate) struct Takeover {
    pub(crate) writing: WriterLease,
    /// The epoch of this process.
    pub(crate) epoch: u64,
    /// The request that was kept for the takeover.
    pub(crate) request: Bytes,
    /// The events that are in the log.
    pub(crate) events: Vec<Bytes>,
    /// The position of the last event.
    pub(crate) last: Position,
}

/// Marks an answer as written by this process, until it is dropped. If the answer has not ended
/// then, the store knows that no more events follow.
pub(crate) struct WriterLease(Option<Box<dyn FnOnce() + Send + Sync>>);

impl WriterLease {
    /// `stopped` runs when the writing ends.
    fn new(stopped: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(stopped)))
    }
}

impl Drop for WriterLease {
    fn drop(&mut self) {
        if let Some(stopped) = self.0.take() {
            stopped();
        }
    }
}

impl fmt::Debug for WriterLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").finish_non_exhaustive()
    }
}

/// Marks an answer as read by a client in this process, until it is dropped. The client may pause
/// meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ReaderLease {
    _reader: Arc<()>,
}

impl ReaderLease {
    /// Holds the lease until the stream is dropped: a client may get the last bytes after its end.
    pub(crate) fn during<S: Stream>(self, stream: S) -> impl Stream<Item = S::Item> {
        stream.map(move |item| {
            let _ = &self;
            item
        })
    }
}

/// The clients in this process that read an answer.
#[derive(Debug, Default)]
struct Readers(Arc<()>);

impl Readers {
    fn add(&self) -> ReaderLease {
        ReaderLease {
            _reader: Arc::clone(&self.0),
        }
    }

    fn is_empty(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// An event and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub at: Position,
    pub(crate) bytes: Bytes,
}

/// Returns the memory that an event of `bytes` bytes holds: its slot in the list, its bytes, and
/// the reference count that they share.
pub(crate) fn held(bytes: usize) -> usize {
    size_of::<Entry>() + allocated(bytes) + allocated(SHARED)
}

/// Returns the memory of an allocation of `bytes` bytes: allocators round up and add some bytes for
/// themselves.
fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        0
    } else {
        (bytes + size_of::<usize>()).next_multiple_of(16).max(32)
    }
}

/// The size of the reference count of shared `Bytes`.
const SHARED: usize = 3 * size_of::<usize>();

/// How an answer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// The client sees the end of the body.
    Whole,
    /// The client sees a lost connection.
    Broken,
}

/// Events that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// Set if the answer has ended after these events.
    pub(crate) end: Option<End>,
    /// The log has more events than this batch.
    pub(crate) has_more: bool,
}

impl Batch {
    /// Returns the events of a log after a position, and its end after them. Ends after some bytes:
    /// a reader sends them before it reads the next batch.
    pub(crate) fn of(log: &VecDeque<Entry>, after: Position, end: Option<End>) -> Self {
        let start = log.partition_point(|entry| entry.at <= after);
        let (mut batch, mut bytes) = (Self::default(), 0);
        for entry in log.range(start..) {
            if bytes > MOST_AT_ONCE {
                batch.has_more = true;
                return batch;
            }
            bytes += entry.bytes.len();
            batch.entries.push(entry.clone());
        }
        batch.end = end;
        batch
    }

    /// Returns the batch of `read` once it has events or an end, or after `wait`. `changed` reports
    /// further ones.
    pub(crate) async fn awaited(
        mut changed: watch::Receiver<()>,
        wait: Duration,
        read: impl Fn() -> Result<Self, StoreError>,
    ) -> Result<Self, StoreError> {
        let until = Instant::now() + wait;
        loop {
            let batch = read()?;
            if !batch.entries.is_empty() || batch.end.is_some() {
                return Ok(batch);
            }
            // The log may be gone: `read` then returns the reason.
            if timeout_at(until, changed.changed()).await.is_err() {
                return Ok(batch);
            }
        }
    }
}

/// The bytes after which a batch ends.
const MOST_AT_ONCE: usize = 64 << 10;

/// The rest of an answer that a store has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// The last event that had been dropped before. [`Position::START`]: none had.
    pub(crate) dropped: Position,
    /// All events after that one.
    pub(crate) entries: Vec<Entry>,
}

/// The record of an answer in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// As in its [`Opening`].
    pub(crate) caller: [u8; 32],
    /// As in its [`Opening`].
    pub(crate) keep: Duration,
    pub(crate) log: Result<Log, Tombstone>,
}

/// Why the events of an answer are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tombstone {
    /// No client has read it for too long.
    Expired,
    /// It was dropped at this limit.
    Dropped(&'static str),
}

/// Returns the limit with this name, which a store has written.
fn limit_of(name: &str) -> &'static str {
    [OF_ALL, OF_COUNT]
        .into_iter()
        .find(|limit| *limit == name)
        .unwrap_or(OF_ANSWER)
}

impl From<Tombstone> for StoreError {
    fn from(gone: Tombstone) -> Self {
        match gone {
            Tombstone::Expired => Self::Expired,
            Tombstone::Dropped(limit) => Self::Dropped(limit),
        }
    }
}

/// The progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// The position of the last event.
    pub(crate) last: Position,
    pub(crate) end: Option<End>,
    /// Whether a process writes it.
    pub(crate) is_written: bool,
}

/// Why a store can't carry out an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreError {
    /// There is no such answer, or it was removed.
    Unknown,
    /// It has expired.
    Expired,
    /// The events after the position have reached this limit and were dropped.
    Dropped(&'static str),
    /// The answer has no event at the position, and none after it.
    Ahead,
    /// This limit leaves no room for a further answer, or for further events.
    Full(&'static str),
    /// Another process has begun to write the answer.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "processes share no other store")
    )]
    Fenced,
    /// The answer has not ended, and no process writes it.
    Unwritten,
    /// The store itself has failed.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such answer"),
            Self::Expired => f.write_str("the answer is no longer kept"),
            Self::Dropped(limit) => write!(f, "the events after this one were dropped ({limit})"),
            Self::Ahead => f.write_str("the answer has no such event"),
            Self::Full(limit) => write!(f, "there is no room ({limit})"),
            Self::Fenced => f.write_str("another process has taken the answer over"),
            Self::Unwritten => f.write_str("the process that wrote the answer has ended"),
            Self::Failed(reason) => write!(f, "the store failed: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_positions_are_written_in_one_way() {
        let id = AnswerId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!("000102030405060708090a0b0c0d0eff".parse(), Ok(id));
        for wrong in [
            "",
            "0",
            "000102030405060708090A0B0C0D0EFF",
            "+00102030405060708090a0b0c0d0eff",
        ] {
            assert_eq!(wrong.parse::<AnswerId>(), Err(NotAnId), "{wrong}");
        }
        assert_eq!("1-20".parse(), Ok(Position { epoch: 1, seq: 20 }));
        assert_eq!(Position { epoch: 3, seq: 0 }.to_string(), "3-0");
        for wrong in [
            "",
            "1",
            "-",
            "1-",
            "-1",
            "1-+2",
            "1-2-3",
            " 1-2",
            "1-18446744073709551616",
        ] {
            assert_eq!(wrong.parse::<Position>(), Err(NotAnId), "{wrong}");
        }
        assert!(Position { epoch: 1, seq: 9 } < Position { epoch: 2, seq: 0 });
    }
}
