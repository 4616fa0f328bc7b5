//! One answer in memory: its events, the memory that it holds, and when it expires.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::files::{LogFile, Record, remove};
use crate::store::shares::Room;
use crate::store::{
    AnswerId, End, Entry, Name, OF_ANSWER, Opening, Position, Readers, Tombstone, allocated, held,
};

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) opening: Opening,
    pub(super) names: Vec<Name>,
    pub(super) events: KeptEvents,
    /// Set to a limit if another caller needs the room: the answer no longer counts, and is dropped
    /// once its writer learns of it.
    pub(super) revoked: Option<&'static str>,
    pub(super) phase: Phase,
    /// The epoch of the next process, if this one does not finish the answer.
    pub(super) next_epoch: u64,
    /// When the answer expires, unless a client reads it.
    pub(super) until: Instant,
    pub(super) readers: Readers,
    /// Notifies readers that wait for events. Dropped with the answer.
    pub(super) changed: watch::Sender<()>,
    /// The file to which the answer is written, too.
    pub(super) log: Option<LogFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Written,
    /// It has not ended, and no process writes it.
    Unwritten,
    Ended(End),
}

impl Answer {
    pub(super) fn new(mut opening: Opening, log: Option<LogFile>) -> Self {
        // A slice would hold its whole buffer.
        opening.request = Bytes::copy_from_slice(&opening.request);
        Self {
            until: Instant::now() + opening.keep,
            readers: Readers::default(),
            opening,
            names: Vec::new(),
            events: KeptEvents::default(),
            revoked: None,
            phase: Phase::Written,
            next_epoch: 2,
            changed: watch::Sender::new(()),
            log,
        }
    }

    pub(super) fn touch(&mut self) {
        self.until = Instant::now() + self.opening.keep;
    }

    /// Returns how it has ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        match self.phase {
            Phase::Ended(end) => Some(end),
            Phase::Written | Phase::Unwritten => None,
        }
    }

    pub(super) fn close(&mut self, end: End) {
        self.phase = Phase::Ended(end);
        self.events.entries.shrink_to_fit();
        self.touch();
        self.changed.send_replace(());
    }

    /// Writes to its file, if it has one. An answer whose file can't be written is in memory alone
    /// from then on.
    pub(super) fn write<'r>(&mut self, records: impl IntoIterator<Item = Record<'r>>) {
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.write(records)) {
            tracing::warn!(%error, "the file of a kept answer cannot be written: it is in memory alone");
            self.log.take().iter().for_each(|log| remove(&log.path));
        }
    }

    /// Leaves nothing in its file but why it is gone.
    pub(super) fn end_log(&mut self, why: Tombstone) {
        let Some(mut log) = self.log.take() else {
            return;
        };
        match log.replace(&self.opening, &self.names, why) {
            Ok(()) => self.log = Some(log),
            Err(error) => {
                tracing::warn!(%error, "the file of a kept answer cannot be written");
                remove(&log.path);
            }
        }
    }

    /// Removes its file, and returns its names.
    pub(super) fn forget(self) -> Vec<Name> {
        self.log.iter().for_each(|log| remove(&log.path));
        self.names
    }

    /// Returns the memory that the answer holds.
    pub(super) fn cost(&self) -> usize {
        OVERHEAD + allocated(self.opening.request.len()) + self.events.memory()
    }

    /// Returns the room that it counts for.
    pub(super) fn room(&self) -> Room {
        if self.revoked.is_some() {
            Room::default()
        } else {
            Room::of_answer(self.cost())
        }
    }
}

/// The events of an answer that are kept: the last ones.
#[derive(Debug)]
pub(super) struct KeptEvents {
    pub(super) entries: VecDeque<Entry>,
    /// The bytes that the events hold.
    bytes: usize,
    /// The last event that was dropped at the limit on one answer.
    pub(super) dropped: Option<Position>,
    /// The last event that was added.
    pub(super) last: Position,
}

impl Default for KeptEvents {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            dropped: None,
            last: Position::START,
        }
    }
}

impl KeptEvents {
    /// Returns the memory that the list gains, and the memory that it frees, if it is
    /// [shortened](Self::shorten) to `most` bytes and these events are added. The list keeps the
    /// slots of dropped events.
    pub(super) fn growth(&self, entries: &[Entry], most: usize) -> (usize, usize) {
        let (mut events, mut dropped) = (0, 0);
        while self.bytes - dropped > most
            && let Some(entry) = self.entries.get(events)
        {
            (events, dropped) = (events + 1, dropped + size(entry));
        }
        let needed = self.entries.len() - events + entries.len();
        let places = self
            .capacity_for(needed)
            .saturating_sub(self.entries.capacity());
        let bytes: usize = entries
            .iter()
            .map(|entry| size(entry) - size_of::<Entry>())
            .sum();
        (
            bytes + places * size_of::<Entry>(),
            dropped - events * size_of::<Entry>(),
        )
    }

    /// Adds events. Each is copied: a slice would hold the whole buffer of a read.
    pub(super) fn push(&mut self, entries: &[Entry]) {
        let capacity = self.capacity_for(self.entries.len() + entries.len());
        self.entries.reserve_exact(capacity - self.entries.len());
        for entry in entries {
            self.bytes += size(entry);
            let bytes = Bytes::copy_from_slice(&entry.bytes);
            self.entries.push_back(Entry { bytes, ..*entry });
        }
    }

    /// Returns the capacity of a list for `needed` events: a quarter more if the present capacity
    /// is too small.
    fn capacity_for(&self, needed: usize) -> usize {
        if needed <= self.entries.capacity() {
            self.entries.capacity()
        } else {
            needed + needed / 4
        }
    }

    /// Drops its first events until it has no more than these bytes, or none.
    pub(super) fn shorten(&mut self, most: usize) {
        while self.bytes > most
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
            if self.dropped.is_none() {
                tracing::warn!(
                    limit = OF_ANSWER,
                    "a kept answer has reached a limit: its first events are dropped"
                );
            }
            self.dropped = Some(entry.at);
        }
    }

    /// Returns the memory that the list holds.
    fn memory(&self) -> usize {
        let spare = self.entries.capacity().saturating_sub(self.entries.len()) * size_of::<Entry>();
        self.bytes + spare
    }
}

/// The memory of an answer without its events and its request: itself, its slot in the map, which
/// may be half empty, the channel that notifies its readers, and two names with their slots.
pub(super) const OVERHEAD: usize =
    2 * size_of::<(AnswerId, Answer)>() + 256 + 2 * (size_of::<(Name, Vec<AnswerId>)>() * 2 + 64);

/// Returns the memory that an event holds.
pub(super) fn size(entry: &Entry) -> usize {
    held(entry.bytes.len())
}
