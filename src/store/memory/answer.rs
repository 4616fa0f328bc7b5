//! One answer in memory: its events, what it costs, and when it expires.

use std::collections::VecDeque;
use std::io;

use tokio::sync::watch;
use tokio::time::Instant;

use super::files::LogFile;
use crate::store::{AnswerId, End, Entry, Gone, Name, OF_ANSWER, Opening, Position, Readers};

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) opening: Opening,
    pub(super) names: Vec<Name>,
    pub(super) entries: VecDeque<Entry>,
    pub(super) bytes: usize,
    /// The last event that was dropped at the limit of one answer.
    pub(super) dropped: Option<Position>,
    pub(super) last: Position,
    pub(super) phase: Phase,
    /// The epoch of the next process, if this one does not finish the answer.
    pub(super) next_epoch: u64,
    /// When it expires, if nobody reads it.
    pub(super) until: Instant,
    pub(super) readers: Readers,
    /// Tells those who wait for events. Dropped with the answer.
    pub(super) changed: watch::Sender<()>,
    /// Where the answer is written to, too.
    pub(super) log: Option<LogFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Written,
    /// It has not ended, and nobody writes it.
    Unwritten,
    Ended(End),
}

impl Answer {
    pub(super) fn new(opening: Opening, log: Option<LogFile>) -> Self {
        Self {
            until: Instant::now() + opening.keep,
            readers: Readers::default(),
            opening,
            names: Vec::new(),
            entries: VecDeque::new(),
            bytes: 0,
            dropped: None,
            last: Position::START,
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
        self.touch();
        self.changed.send_replace(());
    }

    /// Returns what it would free to [shorten](Self::shorten) it.
    pub(super) fn excess(&self, most: usize) -> usize {
        let mut freed = 0;
        let mut entries = self.entries.iter();
        while self.bytes - freed > most
            && let Some(entry) = entries.next()
        {
            freed += size(entry);
        }
        freed
    }

    /// Drops its first events until it has no more than these bytes, or none. Returns what was freed.
    pub(super) fn shorten(&mut self, most: usize) -> usize {
        let before = self.bytes;
        while self.bytes > most
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
            if self.dropped.is_none() {
                tracing::warn!(limit = OF_ANSWER, "a kept answer has reached a limit: its first events are dropped");
            }
            self.dropped = Some(entry.at);
        }
        before - self.bytes
    }

    /// Writes to its file, if it has one. An answer whose file can't be written is in memory alone from then on.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut LogFile) -> io::Result<()>) {
        if let Some(Err(error)) = self.log.as_mut().map(write) {
            tracing::warn!(%error, "the file of a kept answer cannot be written: it is in memory alone");
            self.log.take().into_iter().for_each(|log| log.close().remove());
        }
    }

    /// Leaves nothing in its file but why it is gone.
    pub(super) fn end_log(&mut self, why: Gone) {
        let Some(mut log) = self.log.take() else { return };
        match log.replace(&self.opening, &self.names, why) {
            Ok(()) => self.log = Some(log),
            Err(error) => {
                tracing::warn!(%error, "the file of a kept answer cannot be written");
                log.close().remove();
            }
        }
    }

    /// Removes its file, and returns its names.
    pub(super) fn forget(self) -> Vec<Name> {
        self.log.into_iter().for_each(|log| log.close().remove());
        self.names
    }

    /// Returns what it costs.
    pub(super) fn cost(&self) -> usize {
        OVERHEAD + self.opening.request.len() + self.bytes
    }
}

/// What an answer costs without its events: itself, its names, and its place in maps.
pub(super) const OVERHEAD: usize = size_of::<Answer>() + 2 * size_of::<(Name, AnswerId)>();

/// Returns what an event costs.
pub(super) fn size(entry: &Entry) -> usize {
    entry.bytes.len() + size_of::<Entry>()
}
