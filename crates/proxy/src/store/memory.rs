//! The store within the process: each answer is a bounded list of slices, and with a folder also a
//! file.

mod answer;
mod files;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::shares::{Candidate, Room, Shares};
use super::{
    AnswerId, Batch, End, Entry, Found, GivenUp, Health, Log, Name, OF_ANSWER, Opening, Owner,
    Pending, Position, ReaderLease, Store, StoreError, Takeover, Tombstone, WriterLease,
};
use answer::{Answer, Phase, size};
use files::{Folder, Record, remove};
use restitch::KeepLimits;

/// A store in memory. Without a folder it ends with its process.
#[derive(Debug)]
pub(crate) struct Memory {
    limits: KeepLimits,
    folder: Option<Folder>,
    health: Health,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<AnswerId, Answer>,
    /// The room of each caller.
    shares: Shares,
    names: HashMap<Name, Vec<AnswerId>>,
    /// Answers that are gone, oldest first, at most `max_kept_answers` of them. Answers of an
    /// earlier process precede the others.
    past: VecDeque<Past>,
}

/// An answer that is gone.
#[derive(Debug)]
struct Past {
    id: AnswerId,
    caller: [u8; 32],
    keep: Duration,
    names: Vec<Name>,
    why: Tombstone,
    /// The file that records this for a later process.
    file: Option<PathBuf>,
}

impl Memory {
    /// Creates an empty store.
    pub(crate) fn new(limits: KeepLimits) -> Self {
        Self {
            limits,
            folder: None,
            health: Health::default(),
            state: Arc::default(),
        }
    }

    /// Creates a store with the answers that a folder has from an earlier process. The store writes
    /// each event to a file before it notifies readers.
    pub(crate) fn in_folder(
        path: &Path,
        limits: KeepLimits,
        health: Health,
    ) -> Result<Self, StoreError> {
        let folder = Folder::open(path)?;
        let mut state = State::default();
        for id in folder.ids()? {
            match folder.read(id) {
                Ok(Some((answer, None))) => state.restore(id, answer, &limits),
                Ok(Some((answer, Some(why)))) => {
                    state.add_names(id, &answer.names);
                    state.remember(id, answer, why);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the file of a kept answer cannot be read"),
            }
        }
        Ok(Self {
            limits,
            folder: Some(folder),
            health,
            state: Arc::new(Mutex::new(state)),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn writing(&self, id: AnswerId) -> WriterLease {
        let state = Arc::clone(&self.state);
        WriterLease::new(move || state.lock().stop_writing(id))
    }

    /// Returns events after a position.
    fn read(&self, id: AnswerId, after: Position) -> Result<Batch, StoreError> {
        let mut state = self.state();
        let answer = state.answer(id)?;
        answer.touch();
        match answer.events.dropped {
            Some(dropped) if after < dropped => return Err(StoreError::Dropped(OF_ANSWER)),
            _ if after > answer.events.last => return Err(StoreError::Ahead),
            _ => {}
        }
        let batch = Batch::of(&answer.events.entries, after, answer.end());
        match batch.entries.is_empty() && answer.phase == Phase::Unwritten {
            true => Err(StoreError::Unwritten),
            false => Ok(batch),
        }
    }

    /// Runs an operation, which is done when this returns.
    fn done<'a, T: Send + 'a>(
        &self,
        operation: impl FnOnce(&mut State) -> Result<T, StoreError>,
    ) -> Pending<'a, T> {
        let began = Instant::now();
        let done = operation(&mut self.state());
        self.health.note(began.elapsed(), &done);
        Box::pin(std::future::ready(done))
    }
}

impl Store for Memory {
    fn is_shared(&self) -> bool {
        self.folder.is_some()
    }

    fn open(&self, id: AnswerId, opening: Opening) -> Pending<'_, WriterLease> {
        self.done(|state| {
            // An expired answer must not take the room of a new one.
            state.expire(&self.limits);
            let mut answer = Answer::new(opening, None);
            state.make_room(answer.opening.owner, answer.room(), &self.limits)?;
            if let Some(folder) = &self.folder {
                answer.log = Some(folder.begin(id, &answer.opening)?);
            }
            state.insert(id, answer);
            Ok(self.writing(id))
        })
    }

    fn append(&self, id: AnswerId, entries: Vec<Entry>) -> Pending<'_, ()> {
        self.done(|state| state.append(id, &entries, &self.limits))
    }

    fn close(&self, id: AnswerId, _: Position, end: End) -> Pending<'_, ()> {
        self.done(|state| state.end(id, end))
    }

    fn give_up(&self, id: AnswerId, _: Position, limit: &'static str) -> Pending<'_, GivenUp> {
        self.done(|state| {
            let given_up = state.retire(id, Tombstone::Dropped(limit));
            given_up.ok_or(StoreError::Unknown)
        })
    }

    fn reading(&self, id: AnswerId) -> ReaderLease {
        self.state()
            .answers
            .get(&id)
            .map_or_else(ReaderLease::default, |answer| answer.readers.add())
    }

    fn read_after(&self, id: AnswerId, after: Position, wait: Duration) -> Pending<'_, Batch> {
        Box::pin(async move {
            let changed = self.state().answer(id)?.changed.subscribe();
            Batch::awaited(changed, wait, || self.read(id, after)).await
        })
    }

    fn delete(&self, id: AnswerId) -> Pending<'_, ()> {
        self.done(|state| state.delete(id))
    }

    fn look_up(&self, id: AnswerId) -> Pending<'_, Found> {
        self.done(|state| {
            state.expire(&self.limits);
            if let Some(answer) = state.answers.get(&id) {
                return Ok(Found {
                    caller: answer.opening.caller,
                    keep: answer.opening.keep,
                    log: Ok(Log {
                        last: answer.events.last,
                        end: answer.end(),
                        is_written: answer.phase != Phase::Unwritten,
                    }),
                });
            }
            let past = state.past(id).ok_or(StoreError::Unknown)?;
            Ok(Found {
                caller: past.caller,
                keep: past.keep,
                log: Err(past.why),
            })
        })
    }

    fn name(&self, id: AnswerId, name: Name) -> Pending<'_, ()> {
        self.done(|state| {
            let answer = state.answer(id)?;
            answer.write([Record::Name(name.0)]);
            answer.names.push(name);
            state.add_names(id, &[name]);
            Ok(())
        })
    }

    fn named(&self, name: Name) -> Pending<'_, Vec<AnswerId>> {
        self.done(|state| {
            state.expire(&self.limits);
            Ok(state.names.get(&name).cloned().unwrap_or_default())
        })
    }

    fn renew(&self, id: AnswerId, _: u64) -> Pending<'_, ()> {
        self.done(|state| {
            state.expire(&self.limits);
            state.writable(id).map(drop)
        })
    }

    fn take_over(&self, id: AnswerId) -> Pending<'_, Option<Takeover>> {
        self.done(|state| {
            let answer = state.answer(id)?;
            if answer.phase != Phase::Unwritten {
                return Ok(None);
            }
            if answer.events.dropped.is_some() {
                state.end(id, End::Broken)?;
                return Err(StoreError::Dropped(OF_ANSWER));
            }
            answer.phase = Phase::Written;
            answer.touch();
            let epoch = answer.next_epoch;
            answer.next_epoch = epoch.saturating_add(1);
            let entries = answer.events.entries.iter();
            Ok(Some(Takeover {
                writing: self.writing(id),
                epoch,
                request: answer.opening.request.clone(),
                events: entries.map(|entry| entry.bytes.clone()).collect(),
                last: answer.events.last,
            }))
        })
    }

    fn has(&self, id: AnswerId, at: Position) -> Pending<'_, bool> {
        self.done(|state| {
            let events = &state.answer(id)?.events;
            let found = events.entries.binary_search_by_key(&at, |entry| entry.at);
            Ok(events.dropped == Some(at) || found.is_ok())
        })
    }

    fn sweep(&self) -> Pending<'_, ()> {
        self.done(|state| {
            state.expire(&self.limits);
            Ok(())
        })
    }
}

impl State {
    /// Adds an answer of an earlier process, if there is room for it.
    fn restore(&mut self, id: AnswerId, mut answer: Answer, limits: &KeepLimits) {
        answer.events.shorten(limits.max_kept_answer_bytes);
        if self
            .make_room(answer.opening.owner, answer.room(), limits)
            .is_err()
        {
            tracing::warn!("an answer of an earlier process is not kept: there is no room for it");
            answer.forget();
            return;
        }
        self.add_names(id, &answer.names);
        self.insert(id, answer);
    }

    /// Adds events to the end of an answer.
    fn append(
        &mut self,
        id: AnswerId,
        entries: &[Entry],
        limits: &KeepLimits,
    ) -> Result<(), StoreError> {
        let answer = self.writable(id)?;
        let (owner, new) = (answer.opening.owner, entries.iter().map(size).sum());
        let most = limits.max_kept_answer_bytes;
        // The first events are dropped at the answer's own limit, which leaves room for the new
        // events.
        let left = most.saturating_sub(new);
        let (bytes, freed) = answer.events.growth(entries, left);
        let mut with_freed = limits.clone();
        with_freed.max_kept_bytes = limits.max_kept_bytes.saturating_add(freed);
        self.make_room(owner, Room::of_bytes(bytes), &with_freed)?;
        self.change(id, |answer| {
            // First the file: a process that resumes the answer must know what clients have got.
            answer.write(entries.iter().map(Record::event));
            answer.events.last = entries.last().map_or(answer.events.last, |entry| entry.at);
            // Before and after: the list never holds more than its limit.
            answer.events.shorten(left);
            answer.events.push(entries);
            answer.events.shorten(most);
            answer.changed.send_replace(());
        })
    }

    fn end(&mut self, id: AnswerId, end: End) -> Result<(), StoreError> {
        self.writable(id)?;
        self.change(id, |answer| {
            answer.write([Record::End(end)]);
            answer.close(end);
        })
    }

    /// Removes expired answers.
    fn expire(&mut self, limits: &KeepLimits) {
        let now = Instant::now();
        self.answers
            .values_mut()
            .filter(|answer| !answer.readers.is_empty())
            .for_each(Answer::touch);
        let late: Vec<_> = self
            .answers
            .iter()
            .filter(|(_, a)| a.until <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.retire(id, Tombstone::Expired);
        }
        while self.past.len() > limits.max_kept_answers {
            if let Some(past) = self.past.pop_front() {
                self.forget_names(past.id, &past.names);
                past.forget();
            }
        }
    }

    fn insert(&mut self, id: AnswerId, answer: Answer) {
        self.shares.add(answer.opening.owner, answer.room());
        self.answers.insert(id, answer);
    }

    /// Changes an answer, and counts its memory again.
    fn change(&mut self, id: AnswerId, change: impl FnOnce(&mut Answer)) -> Result<(), StoreError> {
        let answer = self.answer(id)?;
        let (owner, before) = (answer.opening.owner, answer.room());
        change(answer);
        let after = answer.room();
        self.shares.remove(owner, before);
        self.shares.add(owner, after);
        Ok(())
    }

    /// Returns a kept answer whose writer may continue.
    fn writable(&mut self, id: AnswerId) -> Result<&mut Answer, StoreError> {
        let answer = self.answer(id)?;
        answer
            .revoked
            .map_or(Ok(answer), |limit| Err(StoreError::Full(limit)))
    }

    fn add_names(&mut self, id: AnswerId, names: &[Name]) {
        for name in names {
            self.names.entry(*name).or_default().push(id);
        }
    }

    /// Returns an answer that is kept.
    fn answer(&mut self, id: AnswerId) -> Result<&mut Answer, StoreError> {
        let why = if self.answers.contains_key(&id) {
            None
        } else {
            self.past(id).map(|past| past.why)
        };
        self.answers
            .get_mut(&id)
            .ok_or_else(|| why.map_or(StoreError::Unknown, StoreError::from))
    }

    fn past(&self, id: AnswerId) -> Option<&Past> {
        self.past.iter().find(|past| past.id == id)
    }

    /// Removes an answer, or its record if it is gone.
    fn delete(&mut self, id: AnswerId) -> Result<(), StoreError> {
        let past = self
            .past
            .iter()
            .position(|past| past.id == id)
            .and_then(|at| self.past.remove(at));
        let names = self
            .remove(id)
            .map(Answer::forget)
            .or(past.map(Past::forget));
        self.forget_names(id, &names.ok_or(StoreError::Unknown)?);
        Ok(())
    }

    /// Drops ended answers without readers, and running ones of other callers, until a caller has
    /// the room that it needs: see [`Shares`]. Drops none if all candidates together would not free
    /// enough room.
    fn make_room(
        &mut self,
        owner: Owner,
        more: Room,
        limits: &KeepLimits,
    ) -> Result<(), StoreError> {
        let candidate = |(id, answer): (&AnswerId, &Answer)| {
            let is_running = answer.phase == Phase::Written;
            let may_go = is_running || answer.end().is_some() && answer.readers.is_empty();
            (may_go && answer.revoked.is_none()).then(|| Candidate {
                id: *id,
                owner: answer.opening.owner,
                bytes: answer.cost(),
                until: answer.until,
                is_running,
            })
        };
        let gone = self.shares.make_room(owner, more, limits, || {
            self.answers.iter().filter_map(candidate).collect()
        })?;
        for (id, limit) in gone {
            if self
                .answers
                .get(&id)
                .is_some_and(|answer| answer.phase == Phase::Written)
            {
                tracing::warn!(
                    limit,
                    "a running answer is no longer kept, since another caller needs its room"
                );
                self.change(id, |answer| answer.revoked = Some(limit))?;
            } else {
                tracing::warn!(
                    limit,
                    "an ended answer is no longer kept, since another one needs its room"
                );
                self.retire(id, Tombstone::Dropped(limit));
            }
        }
        Ok(())
    }

    /// Drops an answer, and remembers why.
    fn retire(&mut self, id: AnswerId, why: Tombstone) -> Option<GivenUp> {
        let mut answer = self.remove(id)?;
        let dropped = answer.events.dropped.unwrap_or(Position::START);
        let given_up = GivenUp {
            dropped,
            entries: std::mem::take(&mut answer.events.entries).into(),
        };
        answer.end_log(why);
        self.remember(id, answer, why);
        Some(given_up)
    }

    /// Remembers why an answer is gone.
    fn remember(&mut self, id: AnswerId, answer: Answer, why: Tombstone) {
        let Answer {
            opening: Opening { caller, keep, .. },
            names,
            log,
            ..
        } = answer;
        self.past.push_back(Past {
            id,
            caller,
            keep,
            names,
            why,
            file: log.map(|log| log.path),
        });
    }

    /// Ends the writing of an answer. If the answer has not ended, it counts as broken off; with a
    /// file it stays on disk until a process resumes it. An answer without events and without a
    /// file is removed.
    fn stop_writing(&mut self, id: AnswerId) {
        let Some(answer) = self
            .answers
            .get_mut(&id)
            .filter(|answer| answer.end().is_none())
        else {
            return;
        };
        if let Some(limit) = answer.revoked {
            self.retire(id, Tombstone::Dropped(limit));
            return;
        }
        if answer.log.is_some() {
            answer.phase = Phase::Unwritten;
            answer.changed.send_replace(());
            return;
        }
        if answer.events.last > Position::START {
            // `get_mut` above has found the answer, so this does not fail.
            let _ = self.change(id, |answer| answer.close(End::Broken));
            return;
        }
        let names = self.remove(id).map(Answer::forget);
        self.forget_names(id, &names.unwrap_or_default());
    }

    /// Removes an answer, but neither its names nor its file.
    fn remove(&mut self, id: AnswerId) -> Option<Answer> {
        let answer = self.answers.remove(&id)?;
        self.shares.remove(answer.opening.owner, answer.room());
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

impl Past {
    /// Removes its file, and returns its names.
    fn forget(self) -> Vec<Name> {
        self.file.iter().for_each(|file| remove(file));
        self.names
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
