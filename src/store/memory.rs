//! The store within the process: each answer is a bounded list of slices, and where a folder is given, a file.

mod answer;
mod files;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{
    AnswerId, Batch, End, Entry, Found, GivenUp, Gone, Log, Name, OF_ALL, OF_ANSWER, Opening, Pending, Position,
    Reading, Store, StoreError, Taken, Writing,
};
use crate::limits::KeepLimits;
use answer::{Answer, Phase, size};
use files::Folder;

/// A store in memory. Without a folder it ends with its process.
#[derive(Debug)]
pub(crate) struct Memory {
    limits: KeepLimits,
    folder: Option<Folder>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<AnswerId, Answer>,
    /// What all answers cost.
    bytes: usize,
    names: HashMap<Name, Vec<AnswerId>>,
    /// Answers that are gone, the oldest first: as many as may be kept.
    past: VecDeque<Past>,
}

/// An answer that is gone.
#[derive(Debug)]
struct Past {
    id: AnswerId,
    caller: [u8; 32],
    keep: Duration,
    names: Vec<Name>,
    why: Gone,
}

impl Memory {
    /// Creates an empty store.
    pub(crate) fn new(limits: KeepLimits) -> Self {
        Self { limits, folder: None, state: Arc::default() }
    }

    /// Creates a store with the answers that a folder has from an earlier process. What comes is written to its files before it
    /// is told to anybody.
    pub(crate) fn in_folder(path: &Path, limits: KeepLimits) -> Result<Self, StoreError> {
        let folder = Folder::open(path)?;
        let mut state = State::default();
        for id in folder.ids()? {
            match folder.read(id) {
                Ok(Some(answer)) => state.restore(id, answer, &limits),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the file of a kept answer cannot be read"),
            }
        }
        Ok(Self { limits, folder: Some(folder), state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn begin(&self, id: AnswerId, opening: Opening) -> Result<Writing, StoreError> {
        self.expire();
        let mut state = self.state();
        if state.answers.len() >= self.limits.max_kept_answers {
            return Err(StoreError::Full("max_kept_answers"));
        }
        let mut answer = Answer::new(opening, None);
        state.make_room(answer.cost(), self.limits.max_kept_bytes)?;
        if let Some(folder) = &self.folder {
            answer.log = Some(folder.begin(id, &answer.opening)?);
        }
        state.bytes += answer.cost();
        state.answers.insert(id, answer);
        drop(state);
        Ok(self.writing(id))
    }

    fn writing(&self, id: AnswerId) -> Writing {
        let state = Arc::clone(&self.state);
        Writing::new(move || locked(&state).stop_writing(id))
    }

    fn add(&self, id: AnswerId, entries: Vec<Entry>) -> Result<(), StoreError> {
        let state = &mut *self.state();
        let answer = state.answer(id)?;
        let new: usize = entries.iter().map(size).sum();
        let most = self.limits.max_kept_answer_bytes;
        // What the answer's own limit drops leaves room for what comes.
        let freed = answer.excess(most.saturating_sub(new));
        state.make_room(new, self.limits.max_kept_bytes.saturating_add(freed))?;
        let answer = state.answer(id)?;
        if let Some(log) = &mut answer.log {
            log.append(&entries)?;
        }
        answer.last = entries.last().map_or(answer.last, |entry| entry.at);
        answer.entries.extend(entries);
        answer.bytes += new;
        let shortened = answer.shorten(most);
        answer.changed.send_replace(());
        state.bytes = state.bytes + new - shortened;
        Ok(())
    }

    /// Returns events after a position, and what tells of further ones.
    fn read(&self, id: AnswerId, after: Position) -> Result<(Batch, watch::Receiver<()>), StoreError> {
        let mut state = self.state();
        let answer = state.answer(id)?;
        answer.touch();
        match answer.dropped {
            Some(dropped) if after < dropped => return Err(StoreError::Dropped(OF_ANSWER)),
            _ if after > answer.last => return Err(StoreError::Ahead),
            _ => {}
        }
        let start = answer.entries.partition_point(|entry| entry.at <= after);
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for entry in answer.entries.range(start..) {
            if bytes > MOST_AT_ONCE {
                batch.has_more = true;
                return Ok((batch, answer.changed.subscribe()));
            }
            bytes += entry.bytes.len();
            batch.entries.push(entry.clone());
        }
        batch.end = answer.end();
        if batch.entries.is_empty() && answer.phase == Phase::Unwritten {
            return Err(StoreError::Unwritten);
        }
        Ok((batch, answer.changed.subscribe()))
    }

    fn end(&self, id: AnswerId, end: End) -> Result<(), StoreError> {
        let mut state = self.state();
        let answer = state.answer(id)?;
        if let Some(log) = &mut answer.log {
            log.end(end)?;
        }
        answer.close(end);
        Ok(())
    }

    fn add_name(&self, id: AnswerId, name: Name) -> Result<(), StoreError> {
        let mut state = self.state();
        let answer = state.answer(id)?;
        if let Some(log) = &mut answer.log {
            log.name(name)?;
        }
        answer.names.push(name);
        state.names.entry(name).or_default().push(id);
        Ok(())
    }

    fn take(&self, id: AnswerId) -> Result<Option<Taken>, StoreError> {
        let mut state = self.state();
        let answer = state.answer(id)?;
        if answer.phase != Phase::Unwritten {
            return Ok(None);
        }
        if answer.dropped.is_some() {
            drop(state);
            self.end(id, End::Broken)?;
            return Err(StoreError::Dropped(OF_ANSWER));
        }
        answer.phase = Phase::Written;
        answer.touch();
        let (epoch, request) = (answer.last.epoch + 1, answer.opening.request.clone());
        let events = answer.entries.iter().map(|entry| entry.bytes.clone()).collect();
        drop(state);
        Ok(Some(Taken { writing: self.writing(id), epoch, request, events }))
    }

    /// Removes what has expired.
    fn expire(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.answers.values_mut().filter(|answer| !answer.readers.is_empty()).for_each(Answer::touch);
        let late: Vec<_> = state.answers.iter().filter(|(_, a)| a.until <= now).map(|(id, _)| *id).collect();
        for id in late {
            state.retire(id, Gone::Expired);
        }
        while state.past.len() > self.limits.max_kept_answers {
            if let Some(past) = state.past.pop_front() {
                state.forget_names(past.id, &past.names);
            }
        }
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

/// A panic elsewhere leaves the state valid: no change of it can panic in between.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Memory {
    fn is_shared(&self) -> bool {
        self.folder.is_some()
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, Writing> {
        ready(self.begin(id, opening))
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        ready(self.add(id, entries))
    }

    fn close(&self, id: AnswerId, _: Position, end: End) -> Pending<'_, ()> {
        ready(self.end(id, end))
    }

    fn give_up(&self, id: AnswerId, _: Position, limit: &'static str) -> Pending<'_, GivenUp> {
        let given_up = self.state().retire(id, Gone::Dropped(limit));
        ready(given_up.ok_or(StoreError::Unknown))
    }

    fn reading(&self, id: AnswerId) -> Reading {
        self.state().answers.get(&id).map_or_else(Reading::default, |answer| answer.readers.add())
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(self.wait(id, after, wait))
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        ready(self.state().delete(id))
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        self.expire();
        let state = self.state();
        let kept = state.answers.get(&id).map(|answer| Found {
            caller: answer.opening.caller,
            keep: answer.opening.keep,
            log: Ok(Log { last: answer.last, end: answer.end(), is_written: answer.phase != Phase::Unwritten }),
        });
        let past = |past: &Past| Found { caller: past.caller, keep: past.keep, log: Err(past.why) };
        ready(kept.or_else(|| state.past(id).map(past)).ok_or(StoreError::Unknown))
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        ready(self.add_name(id, name))
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        self.expire();
        ready(Ok(self.state().names.get(&name).cloned().unwrap_or_default()))
    }

    fn renew(&self, id: AnswerId, _: u64) -> Pending<'_, ()> {
        self.expire();
        ready(self.state().answer(id).map(drop))
    }

    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Taken>> {
        ready(self.take(id))
    }

    fn sweep(&self) -> Pending<'_, ()> {
        self.expire();
        ready(Ok(()))
    }
}

impl State {
    /// Adds an answer of an earlier process, if there is room for it.
    fn restore(&mut self, id: AnswerId, mut answer: Answer, limits: &KeepLimits) {
        answer.shorten(limits.max_kept_answer_bytes);
        let has_place = self.answers.len() < limits.max_kept_answers;
        if !has_place || self.make_room(answer.cost(), limits.max_kept_bytes).is_err() {
            tracing::warn!("an answer of an earlier process is not kept: there is no room for it");
            answer.forget();
            return;
        }
        self.bytes += answer.cost();
        for name in &answer.names {
            self.names.entry(*name).or_default().push(id);
        }
        self.answers.insert(id, answer);
    }

    /// Returns an answer that is kept.
    fn answer(&mut self, id: AnswerId) -> Result<&mut Answer, StoreError> {
        let why = if self.answers.contains_key(&id) { None } else { self.past(id).map(|past| past.why) };
        self.answers.get_mut(&id).ok_or_else(|| why.map_or(StoreError::Unknown, StoreError::from))
    }

    fn past(&self, id: AnswerId) -> Option<&Past> {
        self.past.iter().find(|past| past.id == id)
    }

    /// Removes an answer, or what is known of one that is gone.
    fn delete(&mut self, id: AnswerId) -> Result<(), StoreError> {
        let past = self.past.iter().position(|past| past.id == id).and_then(|at| self.past.remove(at));
        let names = self.remove(id).map(|answer| answer.names).or(past.map(|past| past.names));
        self.forget_names(id, &names.ok_or(StoreError::Unknown)?);
        Ok(())
    }

    /// Drops ended answers that nobody reads until there is room for more bytes: first the one that would expire first. Drops
    /// none if all of them would not do.
    fn make_room(&mut self, bytes: usize, most: usize) -> Result<(), StoreError> {
        if self.bytes + bytes <= most {
            return Ok(());
        }
        let is_unused = |answer: &Answer| answer.end().is_some() && answer.readers.is_empty();
        let mut ended: Vec<_> = self.answers.iter().filter(|(_, answer)| is_unused(answer)).collect();
        let freed: usize = ended.iter().map(|(_, answer)| answer.cost()).sum();
        if self.bytes - freed + bytes > most {
            return Err(StoreError::Full(OF_ALL));
        }
        ended.sort_unstable_by_key(|(_, answer)| answer.until);
        let ended: Vec<_> = ended.into_iter().map(|(id, _)| *id).collect();
        for id in ended {
            if self.bytes + bytes <= most {
                break;
            }
            tracing::warn!(limit = OF_ALL, "an ended answer is no longer kept, since another one needs its room");
            self.retire(id, Gone::Dropped(OF_ALL));
        }
        Ok(())
    }

    /// Drops an answer, and remembers why.
    fn retire(&mut self, id: AnswerId, why: Gone) -> Option<GivenUp> {
        let Answer { opening: Opening { caller, keep, .. }, names, entries, dropped, .. } = self.remove(id)?;
        self.past.push_back(Past { id, caller, keep, names, why });
        Some(GivenUp { dropped: dropped.unwrap_or(Position::START), entries: entries.into() })
    }

    /// Notes that nobody writes an answer any more. If it has not ended, it has broken off, or waits in its file for whoever goes
    /// on with it; without either events or a file it is removed.
    fn stop_writing(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.get_mut(&id).filter(|answer| answer.end().is_none()) else { return };
        if answer.log.is_some() {
            answer.phase = Phase::Unwritten;
            answer.changed.send_replace(());
            return;
        }
        if answer.last > Position::START {
            return answer.close(End::Broken);
        }
        let names = self.remove(id).map(|answer| answer.names);
        self.forget_names(id, &names.unwrap_or_default());
    }

    /// Removes an answer, but not its names.
    fn remove(&mut self, id: AnswerId) -> Option<Answer> {
        let mut answer = self.answers.remove(&id)?;
        self.bytes -= answer.cost();
        answer.forget();
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

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Pending<'a, T> {
    Box::pin(std::future::ready(result))
}

/// Bytes after which no further events are read at once: a reader sends them before it reads on.
const MOST_AT_ONCE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::answer::OVERHEAD;
    use super::*;

    const ID: AnswerId = AnswerId([7; 16]);

    fn opening(seconds: u64) -> Opening {
        Opening { caller: [1; 32], keep: Duration::from_secs(seconds), request: Bytes::new() }
    }

    fn entry(seq: u64, text: &str) -> Entry {
        Entry { at: Position { epoch: 1, seq }, bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }

    fn at(seq: u64) -> Position {
        Position { epoch: 1, seq }
    }

    fn given_up(dropped: Position, entries: Vec<Entry>) -> GivenUp {
        GivenUp { dropped, entries }
    }

    fn seqs(batch: &Batch) -> Vec<u64> {
        batch.entries.iter().map(|entry| entry.at.seq).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_gets_what_follows_and_waits_for_more() {
        let store = Memory::new(KeepLimits::default());
        let second = Duration::from_secs(1);
        let _writing = store.open(ID, opening(10)).await.unwrap();
        store.append(ID, vec![entry(1, "a"), entry(2, "b")]).await.unwrap();
        let read = |after| store.read_after(ID, after, second);
        assert_eq!(seqs(&read(Position::START).await.unwrap()), [1, 2]);
        assert_eq!(seqs(&read(at(1)).await.unwrap()), [2]);
        assert_eq!(read(at(2)).await, Ok(Batch::default()), "the time is over");
        assert_eq!(read(at(3)).await, Err(StoreError::Ahead));
        let (more, _) = tokio::join!(read(at(2)), store.append(ID, vec![entry(3, "c")]));
        assert_eq!((seqs(&more.unwrap()), 3), (vec![3], 3));
        store.close(ID, at(4), End::Whole).await.unwrap();
        assert_eq!(read(at(3)).await, Ok(Batch { end: Some(End::Whole), ..Batch::default() }));
        assert_eq!(read(at(2)).await.unwrap().end, Some(End::Whole));
        let waiting = async { store.read_after(AnswerId([8; 16]), at(0), second).await };
        assert_eq!(waiting.await, Err(StoreError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_expires() {
        let store = Memory::new(KeepLimits { max_kept_answers: 1, ..KeepLimits::default() });
        let name = Name([3; 32]);
        let _writing = store.open(ID, opening(10)).await.unwrap();
        store.name(ID, name).await.unwrap();
        store.append(ID, vec![entry(1, "a")]).await.unwrap();
        let refused = store.open(AnswerId([8; 16]), opening(1)).await;
        assert_eq!(refused.unwrap_err(), StoreError::Full("max_kept_answers"));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(store.read_after(ID, Position::START, Duration::ZERO).await.is_ok());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(store.renew(ID, 1).await, Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.renew(ID, 1).await, Err(StoreError::Expired));
        assert_eq!(store.look_up(ID).await.unwrap().log, Err(Gone::Expired));
        assert_eq!(store.named(name).await.unwrap(), [ID]);
        assert_eq!(store.append(ID, vec![entry(2, "b")]).await, Err(StoreError::Expired));
        // As many are remembered as may be kept.
        let _next = store.open(AnswerId([8; 16]), opening(1)).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
        assert!(store.named(name).await.unwrap().is_empty());
        assert_eq!(store.state().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_answer_is_unknown_to_those_who_wait() {
        let store = Memory::new(KeepLimits::default());
        let _writing = store.open(ID, opening(10)).await.unwrap();
        let (read, deleted) =
            tokio::join!(store.read_after(ID, Position::START, Duration::from_secs(5)), store.delete(ID));
        assert_eq!((read, deleted), (Err(StoreError::Unknown), Ok(())));
        assert_eq!(store.delete(ID).await, Err(StoreError::Unknown));
        assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_events_are_dropped_at_the_limit_of_one_answer() {
        let room = 3 * (4 + size_of::<Entry>());
        let store = Memory::new(KeepLimits { max_kept_answer_bytes: room, ..KeepLimits::default() });
        let _writing = store.open(ID, opening(10)).await.unwrap();
        for batch in [1..=4, 5..=5] {
            store.append(ID, batch.map(|seq| entry(seq, "four")).collect()).await.unwrap();
        }
        let read = |after| store.read_after(ID, after, Duration::ZERO);
        assert_eq!(read(Position::START).await, Err(StoreError::Dropped(OF_ANSWER)));
        assert_eq!(read(at(1)).await, Err(StoreError::Dropped(OF_ANSWER)));
        assert_eq!(seqs(&read(at(2)).await.unwrap()), [3, 4, 5]);
        assert_eq!(store.state().bytes, OVERHEAD + room);
    }

    /// Room for two answers of one event, and for no more.
    #[tokio::test(start_paused = true)]
    async fn ended_answers_are_dropped_first_and_none_that_is_read() {
        let cost = OVERHEAD + 4 + size_of::<Entry>();
        let store = Memory::new(KeepLimits { max_kept_bytes: 2 * cost, ..KeepLimits::default() });
        let [a, b, c, d] = [1, 2, 3, 4].map(|byte| AnswerId([byte; 16]));
        let mut writing = Vec::new();
        for id in [a, b] {
            writing.push(store.open(id, opening(10)).await.unwrap());
            store.append(id, vec![entry(1, "four")]).await.unwrap();
        }
        assert_eq!(store.open(c, opening(10)).await.unwrap_err(), StoreError::Full(OF_ALL));
        for id in [a, b] {
            store.close(id, at(2), End::Whole).await.unwrap();
        }
        // Whoever reads an answer keeps it for longer.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(store.read_after(a, Position::START, Duration::ZERO).await.is_ok());
        writing.push(store.open(c, opening(10)).await.unwrap());
        assert_eq!(store.look_up(b).await.unwrap().log, Err(Gone::Dropped(OF_ALL)));
        assert_eq!(store.look_up(a).await.unwrap().log.map(|log| log.last), Ok(at(1)));
        store.append(c, vec![entry(1, "four")]).await.unwrap();
        writing.push(store.open(d, opening(10)).await.unwrap());
        assert_eq!(store.look_up(a).await.unwrap().log, Err(Gone::Dropped(OF_ALL)));
        // Nothing has ended: the answer that grows is given up, with all of its events.
        assert_eq!(store.append(c, vec![entry(2, &"x".repeat(cost))]).await, Err(StoreError::Full(OF_ALL)));
        assert_eq!(store.give_up(c, at(1), OF_ALL).await, Ok(given_up(Position::START, vec![entry(1, "four")])));
        assert_eq!(store.look_up(c).await.unwrap().log, Err(Gone::Dropped(OF_ALL)));
        assert_eq!(store.state().bytes, OVERHEAD);
    }

    /// Room for three events of an answer, and for four of all.
    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_says_what_was_dropped_before() {
        let one = 4 + size_of::<Entry>();
        let [a, b, c] = [1, 2, 3].map(|byte| AnswerId([byte; 16]));
        let most = 3 * OVERHEAD + 4 * one;
        let limits = KeepLimits { max_kept_answer_bytes: 3 * one, max_kept_bytes: most, ..KeepLimits::default() };
        let store = Memory::new(limits);
        let four = |seqs: std::ops::RangeInclusive<u64>| seqs.map(|seq| entry(seq, "four")).collect::<Vec<_>>();
        let mut writing = Vec::new();
        for id in [a, b, c] {
            writing.push(store.open(id, opening(10)).await.unwrap());
        }
        store.append(a, four(1..=3)).await.unwrap();
        store.append(a, four(4..=5)).await.unwrap();
        store.append(b, four(1..=1)).await.unwrap();
        assert_eq!(store.append(b, four(2..=2)).await, Err(StoreError::Full(OF_ALL)));
        assert_eq!(store.give_up(b, at(1), OF_ALL).await, Ok(given_up(Position::START, four(1..=1))));
        // What is not added drops nothing.
        store.append(c, four(1..=1)).await.unwrap();
        assert_eq!(
            store.append(a, vec![entry(6, &"x".repeat(4 * one + OVERHEAD))]).await,
            Err(StoreError::Full(OF_ALL))
        );
        assert_eq!(store.give_up(a, at(5), OF_ALL).await, Ok(given_up(at(2), four(3..=5))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_writes_any_more_has_broken_off() {
        let store = Memory::new(KeepLimits::default());
        let writing = store.open(ID, opening(10)).await.unwrap();
        store.append(ID, vec![entry(1, "a")]).await.unwrap();
        let read = store.read_after(ID, at(1), Duration::from_secs(5));
        let (read, ()) = tokio::join!(read, async { drop(writing) });
        assert_eq!(read, Ok(Batch { end: Some(End::Broken), ..Batch::default() }));
        // An answer that has ended stays as it is; one without events is removed.
        let [ended, empty] = [2, 3].map(|byte| AnswerId([byte; 16]));
        let writing = store.open(ended, opening(10)).await.unwrap();
        store.close(ended, at(1), End::Whole).await.unwrap();
        drop(writing);
        assert_eq!(store.look_up(ended).await.unwrap().log.map(|log| log.end), Ok(Some(End::Whole)));
        drop(store.open(empty, opening(10)).await.unwrap());
        assert_eq!(store.look_up(empty).await, Err(StoreError::Unknown));
    }
}
