//! The store within the process: each answer is a bounded list of slices.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{AnswerId, Batch, End, Entry, Found, Log, Name, Opening, Pending, Position, Store, StoreError, Taken};
use crate::limits::KeepLimits;

/// A store in memory. It ends with its process.
#[derive(Debug)]
pub(crate) struct Memory {
    limits: KeepLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<AnswerId, Answer>,
    /// Of all answers.
    bytes: usize,
    names: HashMap<Name, Vec<AnswerId>>,
    /// Answers that have expired, the oldest first: as many as may be kept.
    expired: VecDeque<(AnswerId, Opening, Vec<Name>)>,
}

#[derive(Debug)]
struct Answer {
    opening: Opening,
    names: Vec<Name>,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The last event that was dropped, and the limit that it had reached.
    dropped: Option<(Position, &'static str)>,
    last: Position,
    end: Option<End>,
    /// When it expires.
    until: Instant,
    /// Tells those who wait for events. Dropped with the answer.
    changed: watch::Sender<()>,
}

impl Memory {
    /// Creates an empty store.
    pub(crate) fn new(limits: KeepLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// A panic elsewhere leaves the state valid: no change of it can panic in between.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: AnswerId, entries: Vec<Entry>) -> Result<(), StoreError> {
        let state = &mut *self.state();
        let answer = state.answers.get_mut(&id).ok_or(StoreError::Unknown)?;
        for entry in entries {
            let size = size(&entry);
            (answer.bytes, state.bytes) = (answer.bytes + size, state.bytes + size);
            answer.last = entry.at;
            answer.entries.push_back(entry);
        }
        while let Some(limit) = self.limits.reached(answer.bytes, state.bytes) {
            let Some(entry) = answer.entries.pop_front() else { break };
            let size = size(&entry);
            (answer.bytes, state.bytes) = (answer.bytes - size, state.bytes - size);
            if answer.dropped.is_none() {
                tracing::warn!(limit, "a kept answer has reached a limit: its first events are dropped");
            }
            answer.dropped = Some((entry.at, limit));
        }
        answer.changed.send_replace(());
        Ok(())
    }

    /// Returns events after a position, and what tells of further ones.
    fn read(&self, id: AnswerId, after: Position) -> Result<(Batch, watch::Receiver<()>), StoreError> {
        let mut state = self.state();
        let answer = state.answers.get_mut(&id).ok_or(StoreError::Unknown)?;
        answer.touch();
        match answer.dropped {
            Some((dropped, limit)) if after < dropped => return Err(StoreError::Dropped(limit)),
            _ if after > answer.last => return Err(StoreError::Ahead),
            _ => {}
        }
        let start = answer.entries.partition_point(|entry| entry.at <= after);
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for entry in answer.entries.range(start..) {
            if bytes > MOST_AT_ONCE {
                return Ok((batch, answer.changed.subscribe()));
            }
            bytes += entry.bytes.len();
            batch.entries.push(entry.clone());
        }
        batch.end = answer.end;
        Ok((batch, answer.changed.subscribe()))
    }

    async fn wait(&self, id: AnswerId, after: Position, wait: Duration) -> Result<Batch, StoreError> {
        let until = Instant::now() + wait;
        loop {
            let (batch, mut changed) = self.read(id, after)?;
            if !batch.entries.is_empty() || batch.end.is_some() {
                return Ok(batch);
            }
            if timeout_at(until, changed.changed()).await.is_err() {
                return Ok(batch);
            }
        }
    }
}

impl Store for Memory {
    fn is_shared(&self) -> bool {
        false
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, ()> {
        self.sweep();
        let mut state = self.state();
        let is_full = state.answers.len() >= self.limits.max_kept_answers;
        if !is_full {
            state.answers.insert(id, Answer::new(opening));
        }
        ready(if is_full { Err(StoreError::Full("max_kept_answers")) } else { Ok(()) })
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        ready(self.add(id, entries))
    }

    fn close(&self, id: AnswerId, _: Position, end: End) -> Pending<'_, ()> {
        ready(self.state().with(id, |answer| {
            answer.end = Some(end);
            answer.touch();
            answer.changed.send_replace(());
        }))
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(self.wait(id, after, wait))
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        let removed = self.state().remove(id).map(|_| ());
        ready(removed.ok_or(StoreError::Unknown))
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        self.sweep();
        let state = self.state();
        let kept = state.answers.get(&id).map(|answer| Found {
            opening: answer.opening.clone(),
            log: Some(Log { last: answer.last, end: answer.end, is_written: true }),
        });
        let expired = || {
            let (_, opening, _) = state.expired.iter().find(|(expired, ..)| *expired == id)?;
            Some(Found { opening: opening.clone(), log: None })
        };
        ready(kept.or_else(expired).ok_or(StoreError::Unknown))
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        let mut state = self.state();
        let named = state.with(id, |answer| answer.names.push(name));
        if named.is_ok() {
            state.names.entry(name).or_default().push(id);
        }
        ready(named)
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        self.sweep();
        ready(Ok(self.state().names.get(&name).cloned().unwrap_or_default()))
    }

    fn renew(&self, id: AnswerId) -> Pending<'_, ()> {
        self.sweep();
        let state = self.state();
        ready(state.answers.contains_key(&id).then_some(()).ok_or(StoreError::Expired))
    }

    /// The answers end with the process.
    fn take_over(&self, _: AnswerId) -> Pending<'_, Option<Taken>> {
        ready(Ok(None))
    }

    fn sweep(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let late: Vec<_> = state.answers.iter().filter(|(_, a)| a.until <= now).map(|(id, _)| *id).collect();
        for id in late {
            if let Some(answer) = state.answers.remove(&id) {
                state.bytes -= answer.bytes;
                state.expired.push_back((id, answer.opening, answer.names));
            }
        }
        while state.expired.len() > self.limits.max_kept_answers {
            if let Some((id, _, names)) = state.expired.pop_front() {
                state.forget_names(id, &names);
            }
        }
    }
}

impl State {
    fn with(&mut self, id: AnswerId, change: impl FnOnce(&mut Answer)) -> Result<(), StoreError> {
        self.answers.get_mut(&id).map(change).ok_or(StoreError::Unknown)
    }

    fn remove(&mut self, id: AnswerId) -> Option<Answer> {
        let answer = self.answers.remove(&id)?;
        self.bytes -= answer.bytes;
        self.forget_names(id, &answer.names);
        Some(answer)
    }

    fn forget_names(&mut self, id: AnswerId, names: &[Name]) {
        for name in names {
            let is_unused = self.names.get_mut(name).is_some_and(|ids| {
                ids.retain(|named| *named != id);
                ids.is_empty()
            });
            if is_unused {
                self.names.remove(name);
            }
        }
    }
}

impl Answer {
    fn new(opening: Opening) -> Self {
        Self {
            until: Instant::now() + opening.keep,
            opening,
            names: Vec::new(),
            entries: VecDeque::new(),
            bytes: 0,
            dropped: None,
            last: Position::START,
            end: None,
            changed: watch::Sender::new(()),
        }
    }

    fn touch(&mut self) {
        self.until = Instant::now() + self.opening.keep;
    }
}

/// Returns what an event costs.
fn size(entry: &Entry) -> usize {
    entry.bytes.len() + size_of::<Entry>()
}

fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Pending<'a, T> {
    Box::pin(std::future::ready(result))
}

/// Bytes after which no further events are read at once: a reader sends them before it reads on.
const MOST_AT_ONCE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const ID: AnswerId = AnswerId([7; 16]);

    fn opening(seconds: u64) -> Opening {
        Opening { caller: [1; 32], keep: Duration::from_secs(seconds), request: Bytes::new() }
    }

    fn entry(seq: u64, text: &'static str) -> Entry {
        Entry { at: Position { epoch: 1, seq }, bytes: text.into() }
    }

    fn at(seq: u64) -> Position {
        Position { epoch: 1, seq }
    }

    fn seqs(batch: &Batch) -> Vec<u64> {
        batch.entries.iter().map(|entry| entry.at.seq).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_gets_what_follows_and_waits_for_more() {
        let store = Memory::new(KeepLimits::default());
        let second = Duration::from_secs(1);
        store.open(ID, opening(10)).await.unwrap();
        store.append(ID, vec![entry(1, "a"), entry(2, "b")]).await.unwrap();
        let read = |after| store.read_after(ID, after, second);
        assert_eq!(seqs(&read(Position::START).await.unwrap()), [1, 2]);
        assert_eq!(seqs(&read(at(1)).await.unwrap()), [2]);
        assert_eq!(read(at(2)).await, Ok(Batch::default()), "the time is over");
        assert_eq!(read(at(3)).await, Err(StoreError::Ahead));
        let (more, _) = tokio::join!(read(at(2)), store.append(ID, vec![entry(3, "c")]));
        assert_eq!((seqs(&more.unwrap()), 3), (vec![3], 3));
        store.close(ID, at(4), End::Whole).await.unwrap();
        assert_eq!(read(at(3)).await, Ok(Batch { entries: vec![], end: Some(End::Whole) }));
        assert_eq!(read(at(2)).await.unwrap().end, Some(End::Whole));
        let waiting = async { store.read_after(AnswerId([8; 16]), at(0), second).await };
        assert_eq!(waiting.await, Err(StoreError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_expires() {
        let store = Memory::new(KeepLimits { max_kept_answers: 1, ..KeepLimits::default() });
        let name = Name([3; 32]);
        store.open(ID, opening(10)).await.unwrap();
        store.name(ID, name).await.unwrap();
        store.append(ID, vec![entry(1, "a")]).await.unwrap();
        assert_eq!(store.open(AnswerId([8; 16]), opening(1)).await, Err(StoreError::Full("max_kept_answers")));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(store.read_after(ID, Position::START, Duration::ZERO).await.is_ok());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(store.renew(ID).await, Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.renew(ID).await, Err(StoreError::Expired));
        assert_eq!(store.look_up(ID).await.unwrap().log, None);
        assert_eq!(store.named(name).await.unwrap(), [ID]);
        assert_eq!(store.append(ID, vec![entry(2, "b")]).await, Err(StoreError::Unknown));
        // As many are remembered as may be kept.
        store.open(AnswerId([8; 16]), opening(1)).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
        assert!(store.named(name).await.unwrap().is_empty());
        assert_eq!(store.state().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_answer_is_unknown_to_those_who_wait() {
        let store = Memory::new(KeepLimits::default());
        store.open(ID, opening(10)).await.unwrap();
        let (read, deleted) =
            tokio::join!(store.read_after(ID, Position::START, Duration::from_secs(5)), store.delete(ID));
        assert_eq!((read, deleted), (Err(StoreError::Unknown), Ok(())));
        assert_eq!(store.delete(ID).await, Err(StoreError::Unknown));
        assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_events_are_dropped_at_a_limit() {
        let room = 3 * (4 + size_of::<Entry>());
        for limits in [
            KeepLimits { max_kept_answer_bytes: room, ..KeepLimits::default() },
            KeepLimits { max_kept_bytes: room, ..KeepLimits::default() },
        ] {
            let limit = limits.reached(room + 1, room + 1).unwrap();
            let store = Memory::new(limits);
            store.open(ID, opening(10)).await.unwrap();
            store.append(ID, (1..=5).map(|seq| entry(seq, "four")).collect()).await.unwrap();
            let read = |after| store.read_after(ID, after, Duration::ZERO);
            assert_eq!(read(Position::START).await, Err(StoreError::Dropped(limit)));
            assert_eq!(read(at(1)).await, Err(StoreError::Dropped(limit)));
            assert_eq!(seqs(&read(at(2)).await.unwrap()), [3, 4, 5]);
        }
    }
}
