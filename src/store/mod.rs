//! Where the events of kept answers are, so that a client that has lost its connection gets the rest.
//!
//! An answer is a log: events with growing positions, then an end. Whoever writes the log appends before anything is sent, and
//! whoever reads it follows. The module knows neither HTTP nor what an event says.

mod memory;
#[cfg(feature = "redis")]
mod redis;
mod shares;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use memory::Memory;
#[cfg(feature = "redis")]
pub(crate) use redis::Redis;

/// A store of kept answers.
///
/// Reading an answer keeps it for as long again as its [`Opening`] says. One that nobody reads expires after that time, and not
/// before its last [`Reading`] is dropped.
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// Returns whether another process may go on with an answer of this one, so that its request is kept, too.
    fn is_shared(&self) -> bool;
    /// Begins an answer. Where all answers together leave no room for it, ended ones that nobody reads are dropped: of the
    /// caller who holds most, first the one that would expire first. Another caller's answer that runs may be taken out of the
    /// store: its next event finds [no room](StoreError::Full).
    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, Writing>;
    /// Adds events to the end of an answer. Their positions grow. Where the answer itself becomes too large, its first events
    /// are dropped. Where all answers together do, ended ones that nobody reads are. If that is not enough, nothing is
    /// added: the answer is to be [given up](Self::give_up).
    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()>;
    /// Ends an answer. `at`: the position after its last event.
    fn close(&self, id: AnswerId, at: Position, end: End) -> Pending<'_, ()>;
    /// Drops an answer that is being written, since it has reached a limit. Returns what was kept of it. `last`: the position
    /// of its last event.
    fn give_up(&self, id: AnswerId, last: Position, limit: &'static str) -> Pending<'_, GivenUp>;
    /// Notes that a client reads an answer in this process.
    fn reading(&self, id: AnswerId) -> Reading;
    /// Returns events after a position. Where there are none and the answer has not ended, waits for them, and returns none
    /// when the time is over.
    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch>;
    /// Removes an answer.
    fn delete(&self, id: AnswerId) -> Pending<'_, ()>;
    /// Returns what is known of an answer, also of one that has expired or was dropped lately.
    fn look_up(&self, id: AnswerId) -> Pending<'_, Found>;
    /// Adds a name under which an answer is found.
    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()>;
    /// Returns the answers with a name, those that expired lately among them.
    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>>;
    /// Says that an answer is still being written. Fails if it has expired, was removed, or is written in another epoch.
    fn renew(&self, id: AnswerId, epoch: u64) -> Pending<'_, ()>;
    /// Begins to write an answer whose process has ended. `None`: a process writes it, or it has ended.
    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Taken>>;
    /// Returns whether an event of an answer has this position, or the last one that was dropped had it.
    fn has(&self, id: AnswerId, at: Position) -> Pending<'_, bool>;
    /// Removes what has expired, and keeps what is being read. Called more often than the shortest time that an answer is kept.
    fn sweep(&self) -> Pending<'_, ()>;
}

/// An operation of a store.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The id of an answer: 128 random bits, which nobody guesses. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnswerId(pub(crate) [u8; 16]);

impl fmt::Display for AnswerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for AnswerId {
    type Err = NotAnId;

    /// Reads 32 lower-case digits, so that each id is written in one way.
    fn from_str(written: &str) -> Result<Self, NotAnId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_plain = written.len() == 32 && written.bytes().all(is_digit);
        let number = is_plain.then(|| u128::from_str_radix(written, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or(NotAnId)
    }
}

/// The place of an event in its answer, written as `epoch-seq`: the epoch counts the processes that have written the answer.
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
        Self { seq: self.seq.saturating_add(1), ..self }
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
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (epoch, seq) = written.split_once('-').filter(|(a, b)| is_number(a) && is_number(b)).ok_or(NotAnId)?;
        let (Ok(epoch), Ok(seq)) = (epoch.parse(), seq.parse()) else { return Err(NotAnId) };
        Ok(Self { epoch, seq })
    }
}

/// The limit on how many answers there are.
const OF_COUNT: &str = "max_kept_answers";
/// The limit of all answers together.
const OF_ALL: &str = "max_kept_bytes";
/// The limit of one answer.
pub(crate) const OF_ANSWER: &str = "max_kept_answer_bytes";

/// The error of a text that is neither an [`AnswerId`] nor a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAnId;

/// A digest under which an answer is found, beside its id. Whoever makes it puts the caller into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) [u8; 32]);

/// What is known of an answer from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// A digest of the credential of whoever asked.
    pub(crate) caller: [u8; 32],
    /// How long the answer is kept after it was read last.
    pub(crate) keep: Duration,
    /// What whoever goes on with the answer needs. Empty unless the store is shared.
    pub(crate) request: Bytes,
    /// Whose share it counts against.
    pub(crate) owner: Owner,
}

/// Identifies a caller within one process. Answers that another process has begun are all of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner(pub(crate) u64);

/// An answer that another process has begun.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) writing: Writing,
    /// The epoch of this process.
    pub(crate) epoch: u64,
    /// What was kept for whoever goes on with the answer.
    pub(crate) request: Bytes,
    /// The events that are in the log.
    pub(crate) events: Vec<Bytes>,
    /// The position of the last of them.
    pub(crate) last: Position,
}

/// Says that this process writes an answer, until it is dropped. Then the store knows that nothing more comes, if the answer has
/// not ended.
pub(crate) struct Writing(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Writing {
    /// `stopped`: what is done when nobody writes any more.
    fn new(stopped: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(stopped)))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(stopped) = self.0.take() {
            stopped();
        }
    }
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").finish_non_exhaustive()
    }
}

/// Says that a client in this process reads an answer, until it is dropped. The client may take nothing for a while.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    _reader: Arc<()>,
}

/// The clients in this process that read an answer.
#[derive(Debug, Default)]
struct Readers(Arc<()>);

impl Readers {
    fn add(&self) -> Reading {
        Reading { _reader: Arc::clone(&self.0) }
    }

    fn is_empty(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// An event and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Position,
    pub(crate) bytes: Bytes,
}

/// Returns the memory that an event of so many bytes holds: its place in the list, its bytes, and the count of those who
/// share them.
pub(crate) fn held(bytes: usize) -> usize {
    size_of::<Entry>() + allocated(bytes) + allocated(SHARED)
}

/// Returns the memory that an allocation of so many bytes takes: allocators round up and keep some bytes of their own.
fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + size_of::<usize>()).next_multiple_of(16).max(32) }
}

/// Bytes in which `Bytes` counts those who share it.
const SHARED: usize = 3 * size_of::<usize>();

/// How an answer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// To the client as a body that is over.
    Whole,
    /// To the client as a lost connection.
    Broken,
}

/// Events that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// Set where the answer has ended with the last of them.
    pub(crate) end: Option<End>,
    /// More events are there than are read at once.
    pub(crate) has_more: bool,
}

/// What a store had of an answer that it keeps no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// The last event that had been dropped before. [`Position::START`]: none had.
    pub(crate) dropped: Position,
    /// All events after that one.
    pub(crate) entries: Vec<Entry>,
}

/// What a store knows of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// As in its [`Opening`].
    pub(crate) caller: [u8; 32],
    /// As in its [`Opening`].
    pub(crate) keep: Duration,
    pub(crate) log: Result<Log, Gone>,
}

/// Why the events of an answer are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Nobody has read it for too long.
    Expired,
    /// It was dropped at this limit.
    Dropped(&'static str),
}

/// Returns the limit with this name, which a store has written.
fn limit_of(name: &str) -> &'static str {
    [OF_ALL, OF_COUNT].into_iter().find(|limit| *limit == name).unwrap_or(OF_ANSWER)
}

impl From<Gone> for StoreError {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Expired => Self::Expired,
            Gone::Dropped(limit) => Self::Dropped(limit),
        }
    }
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// The position of the last event.
    pub(crate) last: Position,
    pub(crate) end: Option<End>,
    /// Whether a process writes it.
    pub(crate) is_written: bool,
}

/// Why a store does not do what it was asked.
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
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "processes share no other store"))]
    Fenced,
    /// The answer has not ended, and no process writes it.
    Unwritten,
    /// The store does not do what it should.
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
        for wrong in ["", "0", "000102030405060708090A0B0C0D0EFF", "+00102030405060708090a0b0c0d0eff"] {
            assert_eq!(wrong.parse::<AnswerId>(), Err(NotAnId), "{wrong}");
        }
        assert_eq!("1-20".parse(), Ok(Position { epoch: 1, seq: 20 }));
        assert_eq!(Position { epoch: 3, seq: 0 }.to_string(), "3-0");
        for wrong in ["", "1", "-", "1-", "-1", "1-+2", "1-2-3", " 1-2", "1-18446744073709551616"] {
            assert_eq!(wrong.parse::<Position>(), Err(NotAnId), "{wrong}");
        }
        assert!(Position { epoch: 1, seq: 9 } < Position { epoch: 2, seq: 0 });
    }
}
