//! The answers that this process has written or writes, their room on the server, and their readers
//! in this process.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::store::shares::{Candidate, Room, Shares};
use crate::store::{
    AnswerId, Entry, OF_ANSWER, Opening, Owner, Position, ReaderLease, Readers, StoreError,
};
use restitch::KeepLimits;

/// The answers that this process has written or writes.
pub(super) struct Written {
    limits: KeepLimits,
    answers: HashMap<AnswerId, WrittenAnswer>,
    /// The room of each caller.
    shares: Shares,
    /// The answers with readers in this process, whichever process has written them.
    readers: HashMap<AnswerId, Readers>,
}

struct WrittenAnswer {
    /// The epoch in which this process writes it.
    epoch: u64,
    owner: Owner,
    keep: Duration,
    /// Bytes of the kept events, and of the request while that is kept.
    bytes: usize,
    phase: WrittenPhase,
}

enum WrittenPhase {
    Running(Running),
    /// The server keeps it until then, unless another process reads it.
    Ended {
        until: Instant,
    },
}

struct Running {
    /// Bytes of the request, which is kept for a takeover.
    request: usize,
    /// The events that are kept, with their sizes.
    sizes: VecDeque<(Position, usize)>,
    /// The last event that was dropped, also by an earlier process. `Position::START`: none.
    dropped: Position,
    /// Notifies readers in this process of events.
    changed: watch::Sender<()>,
}

impl WrittenAnswer {
    /// Returns the room that it takes.
    fn room(&self) -> Room {
        Room::of_answer(OVERHEAD + self.bytes)
    }
}

/// A range of first events that the server has to drop.
pub(super) struct Trim {
    /// The first one that stays.
    pub(super) first: Position,
    /// The last one that is dropped.
    pub(super) dropped: Position,
}

impl Written {
    pub(super) fn new(limits: KeepLimits) -> Self {
        Self {
            limits,
            answers: HashMap::new(),
            shares: Shares::default(),
            readers: HashMap::new(),
        }
    }

    /// Makes room for a further answer. Returns the ended answers that the server has to drop for
    /// it.
    pub(super) fn make_room_for(&mut self, opening: &Opening) -> Result<Dropped, StoreError> {
        self.forget_expired();
        if opening.request.len() > self.limits.max_kept_answer_bytes {
            return Err(StoreError::Full(OF_ANSWER));
        }
        self.make_room(
            opening.owner,
            Room::of_answer(OVERHEAD + opening.request.len()),
        )
    }

    pub(super) fn begin(
        &mut self,
        id: AnswerId,
        owner: Owner,
        epoch: u64,
        keep: Duration,
        request: usize,
    ) {
        let phase = WrittenPhase::Running(Running {
            request,
            sizes: VecDeque::new(),
            dropped: Position::START,
            changed: watch::Sender::new(()),
        });
        // The same process may have written it in an earlier epoch.
        self.forget(id);
        let answer = WrittenAnswer {
            epoch,
            owner,
            keep,
            bytes: request,
            phase,
        };
        self.shares.add(owner, answer.room());
        self.answers.insert(id, answer);
    }

    /// Counts events that are about to be written. Returns the ended answers that the server has to
    /// drop for them.
    pub(super) fn reserve(
        &mut self,
        id: AnswerId,
        entries: &[Entry],
    ) -> Result<Dropped, StoreError> {
        let (epoch, owner) = self
            .answers
            .get(&id)
            .map(|answer| (answer.epoch, answer.owner))
            .ok_or(StoreError::Unknown)?;
        if entries.first().is_some_and(|entry| entry.at.epoch != epoch) {
            return Err(StoreError::Fenced);
        }
        let bytes = entries.iter().map(|entry| entry.bytes.len()).sum();
        let dropped = self.make_room(owner, Room::of_bytes(bytes))?;
        self.note(id, entries);
        Ok(dropped)
    }

    /// Counts events that are in the log.
    pub(super) fn note(&mut self, id: AnswerId, entries: &[Entry]) {
        let Some(WrittenAnswer {
            owner,
            bytes,
            phase: WrittenPhase::Running(running),
            ..
        }) = self.answers.get_mut(&id)
        else {
            return;
        };
        for entry in entries {
            running.sizes.push_back((entry.at, entry.bytes.len()));
            *bytes += entry.bytes.len();
            self.shares.add(*owner, Room::of_bytes(entry.bytes.len()));
        }
    }

    /// Notifies readers of written events. If the answer has become too large, returns the range to
    /// drop; its last event stays.
    pub(super) fn tell(&mut self, id: AnswerId) -> Option<Trim> {
        let WrittenAnswer {
            owner,
            bytes,
            phase: WrittenPhase::Running(running),
            ..
        } = self.answers.get_mut(&id)?
        else {
            return None;
        };
        running.changed.send_replace(());
        let mut dropped = None;
        while running.sizes.len() > 1
            && *bytes > self.limits.max_kept_answer_bytes
            && let Some((at, size)) = running.sizes.pop_front()
        {
            *bytes -= size;
            self.shares.remove(*owner, Room::of_bytes(size));
            running.dropped = at;
            dropped = Some(at);
        }
        Some(Trim {
            first: running.sizes.front()?.0,
            dropped: dropped?,
        })
    }

    /// Returns the receiver of notifications, if this process writes the answer.
    pub(super) fn changed(&self, id: AnswerId) -> Option<watch::Receiver<()>> {
        match &self.answers.get(&id)?.phase {
            WrittenPhase::Running(running) => Some(running.changed.subscribe()),
            WrittenPhase::Ended { .. } => None,
        }
    }

    /// Returns the last event that was dropped from an answer that is being written.
    /// `Position::START`: none.
    pub(super) fn dropped(&self, id: AnswerId) -> Position {
        match self.answers.get(&id).map(|answer| &answer.phase) {
            Some(WrittenPhase::Running(running)) => running.dropped,
            Some(WrittenPhase::Ended { .. }) | None => Position::START,
        }
    }

    /// Notes that a client reads an answer.
    pub(super) fn reading(&mut self, id: AnswerId) -> ReaderLease {
        self.readers.entry(id).or_default().add()
    }

    /// Forgets expired answers and readers that have left. Returns the answers that are being read.
    pub(super) fn sweep(&mut self) -> Vec<AnswerId> {
        self.forget_expired();
        self.readers.keys().copied().collect()
    }

    /// Notes that an answer was read, which keeps it.
    pub(super) fn touch(&mut self, id: AnswerId) {
        if let Some(WrittenAnswer {
            keep,
            phase: WrittenPhase::Ended { until },
            ..
        }) = self.answers.get_mut(&id)
        {
            *until = Instant::now() + *keep;
        }
    }

    /// Notes that an answer has ended. The server keeps its events, and not its request.
    pub(super) fn end(&mut self, id: AnswerId, epoch: u64) {
        let Some(answer) = self
            .answers
            .get_mut(&id)
            .filter(|answer| answer.epoch == epoch)
        else {
            return;
        };
        if let WrittenPhase::Running(Running { request, .. }) = answer.phase {
            answer.bytes -= request;
            self.shares.remove(answer.owner, Room::of_bytes(request));
            answer.phase = WrittenPhase::Ended {
                until: Instant::now() + answer.keep,
            };
        }
    }

    /// Ends the writing of an answer by this process. The record of another process or of a later
    /// epoch stays.
    pub(super) fn stop_writing(&mut self, id: AnswerId, epoch: u64) {
        let is_running = |answer: &WrittenAnswer| {
            answer.epoch == epoch && matches!(answer.phase, WrittenPhase::Running(_))
        };
        if self.answers.get(&id).is_some_and(is_running) {
            self.forget(id);
        }
    }

    /// Forgets an answer that is no longer on the server.
    pub(super) fn forget(&mut self, id: AnswerId) {
        if let Some(answer) = self.answers.remove(&id) {
            self.shares.remove(answer.owner, answer.room());
        }
    }

    fn forget_expired(&mut self) {
        self.readers.retain(|_, readers| !readers.is_empty());
        let now = Instant::now();
        for (id, answer) in &mut self.answers {
            if let WrittenPhase::Ended { until } = &mut answer.phase
                && self.readers.contains_key(id)
            {
                *until = now + answer.keep;
            }
        }
        self.answers.retain(|_, answer| {
            let is_expired = matches!(answer.phase, WrittenPhase::Ended { until } if until <= now);
            if is_expired {
                self.shares.remove(answer.owner, answer.room());
            }
            !is_expired
        });
    }

    /// Forgets ended answers without readers here, until a caller has the room that it needs: see
    /// [`Shares`]. Returns them; the server is to drop them. Forgets none if all candidates
    /// together would not free enough room.
    fn make_room(&mut self, owner: Owner, more: Room) -> Result<Dropped, StoreError> {
        self.forget_expired();
        let ended = |(id, answer): (&AnswerId, &WrittenAnswer)| match answer.phase {
            WrittenPhase::Ended { until } if !self.readers.contains_key(id) => Some(Candidate {
                id: *id,
                owner: answer.owner,
                bytes: answer.room().bytes,
                until,
                is_running: false,
            }),
            WrittenPhase::Ended { .. } | WrittenPhase::Running(_) => None,
        };
        let candidates = || self.answers.iter().filter_map(ended).collect();
        let dropped = self
            .shares
            .make_room(owner, more, &self.limits, candidates)?;
        dropped.iter().for_each(|(id, _)| self.forget(*id));
        Ok(dropped)
    }
}

/// Answers that the server is to drop, each with the limit that asks for it.
pub(super) type Dropped = Vec<(AnswerId, &'static str)>;

/// The room of an answer beside its events and its request: digests, ids and positions.
const OVERHEAD: usize = 256;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::OF_ALL;

    const KEEP: Duration = Duration::from_secs(10);

    fn id(byte: u8) -> AnswerId {
        AnswerId([byte; 16])
    }

    fn opening(request: usize) -> Opening {
        Opening {
            caller: [1; 32],
            keep: KEEP,
            request: vec![0; request].into(),
            owner: Owner::default(),
        }
    }

    fn entry(epoch: u64, bytes: usize) -> Vec<Entry> {
        vec![Entry {
            at: Position { epoch, seq: 1 },
            bytes: Bytes::from(vec![0; bytes]),
        }]
    }

    /// Room for two answers with requests of 100 bytes, and for 100 bytes more.
    fn narrow() -> Written {
        Written::new(KeepLimits {
            max_kept_answer_bytes: 200,
            max_kept_bytes: 2 * (OVERHEAD + 100) + 100,
            ..KeepLimits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn requests_and_ended_answers_are_counted() {
        let mut written = narrow();
        assert_eq!(
            written.make_room_for(&opening(201)),
            Err(StoreError::Full(OF_ANSWER))
        );
        for byte in [1, 2] {
            assert_eq!(written.make_room_for(&opening(100)), Ok(vec![]));
            written.begin(id(byte), Owner::default(), 1, KEEP, 100);
        }
        assert_eq!(
            written.reserve(id(1), &entry(1, 101)),
            Err(StoreError::Full(OF_ALL))
        );
        assert_eq!(written.reserve(id(1), &entry(1, 100)), Ok(vec![]));
        assert_eq!(
            written.make_room_for(&opening(0)),
            Err(StoreError::Full(OF_ALL))
        );
        written.end(id(1), 1);
        assert_eq!(
            written.make_room_for(&opening(0)),
            Ok(vec![(id(1), OF_ALL)]),
            "the first one has ended"
        );
        // Expired answers are not counted.
        written.end(id(2), 1);
        tokio::time::advance(KEEP).await;
        assert_eq!(written.make_room_for(&opening(200)), Ok(vec![]));
        assert!(written.answers.is_empty());
        assert_eq!(written.shares.all().bytes, 0);
    }

    #[test]
    fn the_last_dropped_event_is_noted() {
        let mut written = narrow();
        written.begin(id(1), Owner::default(), 1, KEEP, 0);
        let at = |seq| Position { epoch: 1, seq };
        for (seq, dropped) in [
            (1, Position::START),
            (2, Position::START),
            (3, at(1)),
            (4, at(2)),
        ] {
            let entry = Entry {
                at: at(seq),
                bytes: Bytes::from(vec![0; 100]),
            };
            assert_eq!(written.reserve(id(1), &[entry]), Ok(vec![]));
            written.tell(id(1));
            assert_eq!(written.dropped(id(1)), dropped);
        }
        assert_eq!(written.shares.all().bytes, OVERHEAD + 200);
        assert_eq!(
            written.reserve(id(1), &entry(1, 1000)),
            Err(StoreError::Full(OF_ALL))
        );
        assert_eq!(written.dropped(id(1)), at(2));
    }

    #[test]
    fn an_epoch_ends_alone() {
        let mut written = narrow();
        written.begin(id(1), Owner::default(), 1, KEEP, 0);
        // The same process has taken the answer over.
        written.begin(id(1), Owner::default(), 2, KEEP, 0);
        written.stop_writing(id(1), 1);
        written.end(id(1), 1);
        assert_eq!(
            written.reserve(id(1), &entry(1, 1)),
            Err(StoreError::Fenced)
        );
        assert_eq!(written.reserve(id(1), &entry(2, 1)), Ok(vec![]));
        written.stop_writing(id(1), 2);
        assert_eq!(
            written.reserve(id(1), &entry(2, 1)),
            Err(StoreError::Unknown)
        );
        assert_eq!(written.shares.all().bytes, 0);
    }
}
