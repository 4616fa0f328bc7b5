//! The connected readers of an answer, and its events once the store no longer keeps them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::store::{Batch, End, Entry, GivenUp, Position, StoreError};

/// The state that the writer of an answer shares with its readers in this process.
///
/// While the store keeps the answer, the readers read from the store and only note their positions
/// here. If the store is full or fails, they get their missing events from here, at the pace of the
/// slowest reader.
#[derive(Debug)]
pub(super) struct LiveTail {
    /// The writer's epoch. Events of a later epoch come from another process.
    pub(super) epoch: u64,
    state: Mutex<TailState>,
    /// Signals each change.
    changed: watch::Sender<()>,
    /// Signals that the answer must end now.
    is_stopped: watch::Sender<bool>,
}

#[derive(Debug)]
struct TailState {
    /// The position of each reader.
    readers: BTreeMap<u64, Position>,
    /// The number of readers so far.
    count: u64,
    source: ReaderSource,
    /// The last events. While the store keeps the answer, a few that the slowest reader lacks, in
    /// case the store fails.
    window: Window,
}

/// The source of the readers' events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderSource {
    Store,
    /// The store has reached this limit, and its events have not arrived in the window yet.
    Moving(&'static str),
    Window,
}

/// A window of events that the slowest reader lacks.
#[derive(Debug)]
struct Window {
    /// The limit that the store has reached, or [`FAILED`].
    limit: &'static str,
    entries: VecDeque<Entry>,
    /// Bytes of the entries.
    bytes: usize,
    /// The last event before the window: all readers have it, or the store has dropped it.
    dropped: Position,
    end: Option<End>,
}

/// The error that the last reader has left, so the answer has no more readers and can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftError;

impl LiveTail {
    /// Begins with the events of a writer's epoch after a position. Earlier events are in the store
    /// alone.
    pub(super) fn after(epoch: u64, last: Position) -> Self {
        let state = TailState {
            readers: BTreeMap::new(),
            count: 0,
            source: ReaderSource::Store,
            window: Window::new(FAILED, last),
        };
        Self {
            epoch,
            state: Mutex::new(state),
            changed: watch::Sender::default(),
            is_stopped: watch::Sender::default(),
        }
    }

    /// Adds a reader that has the events up to a position.
    pub(super) fn reader(self: &Arc<Self>, after: Position) -> Arc<Reader> {
        let mut state = self.state();
        let number = state.count;
        state.count += 1;
        state.readers.insert(number, after);
        drop(state);
        Arc::new(Reader {
            live: Arc::clone(self),
            number,
        })
    }

    /// Returns whether a reader that has the events up to a position can get all later ones, from
    /// the store or from here.
    pub(super) fn reaches(&self, after: Position) -> bool {
        let state = self.state();
        after.epoch <= self.epoch && state.served().is_none_or(|window| after >= window.dropped)
    }

    /// Returns whether the readers get the events from here instead of the store.
    pub(super) fn is_live(&self) -> bool {
        self.state().is_live()
    }

    /// Moves the readers from the store to the window, where they wait for events.
    pub(super) fn begin(&self, limit: &'static str) {
        self.change(|state| state.source = ReaderSource::Moving(limit));
    }

    /// Takes the store's events after [`begin`](Self::begin). A reader that lacks events which the
    /// store has dropped gets an error.
    pub(super) fn take(&self, GivenUp { dropped, entries }: GivenUp) {
        self.change(|state| {
            if let ReaderSource::Moving(limit) = state.source {
                state.source = ReaderSource::Window;
                state.window = Window::new(limit, dropped);
            }
            state.add(entries);
        });
    }

    /// Moves the readers from a failed store to the window, which has the last events and gets all
    /// new ones.
    pub(super) fn fail(&self) {
        self.change(|state| state.source = ReaderSource::Window);
    }

    /// Adds events for the readers, including those that the store has accepted.
    pub(super) fn push(&self, entries: Vec<Entry>) {
        self.change(|state| state.add(entries));
    }

    /// Waits while the slowest reader lacks too many events.
    pub(super) async fn room(&self) -> Result<(), LeftError> {
        let has_room = |state: &TailState| {
            let unread = state.served().map_or(0, |window| window.bytes);
            (unread <= MOST_UNREAD).then_some(Ok(()))
        };
        self.until(|state| match state.readers.is_empty() {
            true => Some(Err(LeftError)),
            false => has_room(state),
        })
        .await
    }

    /// Waits for a state.
    async fn until<T>(&self, reached: impl Fn(&TailState) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(reached) = reached(&self.state()) {
                return reached;
            }
            drop(changed.changed().await);
        }
    }

    /// Returns whether the answer has readers in this process.
    pub(super) fn has_readers(&self) -> bool {
        !self.state().readers.is_empty()
    }

    /// Is ready when the last reader has left.
    pub(super) async fn left(&self) {
        self.until(|state| state.readers.is_empty().then_some(()))
            .await;
    }

    /// Returns whether a reader lacks events up to a position.
    pub(super) fn is_behind(&self, at: Position) -> bool {
        self.state().is_behind(at)
    }

    /// Is ready when all readers have the events up to a position.
    pub(super) async fn caught_up(&self, at: Position) {
        self.until(|state| (!state.is_behind(at)).then_some(()))
            .await;
    }

    /// Tells the writer to end the answer now.
    pub(super) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Is ready when the writer must end.
    pub(super) async fn stopped(&self) {
        // The sender is here, so this does not fail.
        drop(
            self.is_stopped
                .subscribe()
                .wait_for(|is_stopped| *is_stopped)
                .await,
        );
    }

    /// Ends the answer for its readers in this process. Only the first end counts.
    pub(super) fn close(&self, end: End) {
        self.change(|state| {
            if let ReaderSource::Moving(_) = state.source {
                state.source = ReaderSource::Window;
            }
            state.window.end.get_or_insert(end);
        });
    }

    fn change(&self, change: impl FnOnce(&mut TailState)) {
        change(&mut self.state());
        self.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, TailState> {
        self.state.lock()
    }
}

impl Window {
    fn new(limit: &'static str, dropped: Position) -> Self {
        Self {
            limit,
            entries: VecDeque::new(),
            bytes: 0,
            dropped,
            end: None,
        }
    }

    /// Drops the first events while `goes` returns true for them.
    fn shorten(&mut self, goes: impl Fn(&Self, Position) -> bool) {
        while let Some(entry) = self.entries.front().filter(|entry| goes(self, entry.at)) {
            (self.bytes, self.dropped) = (self.bytes - entry.bytes.len(), entry.at);
            self.entries.pop_front();
        }
    }
}

impl TailState {
    /// Returns the window if the readers' events come from it.
    fn served(&self) -> Option<&Window> {
        (self.source == ReaderSource::Window).then_some(&self.window)
    }

    fn is_live(&self) -> bool {
        self.source != ReaderSource::Store
    }

    fn is_behind(&self, at: Position) -> bool {
        self.readers.values().any(|after| *after < at)
    }

    fn add(&mut self, entries: Vec<Entry>) {
        self.window.bytes += entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        self.window.entries.extend(entries);
        self.shorten();
    }

    /// Drops the events that all readers have. While the store keeps the answer, also drops events
    /// over the limit, since the store has them.
    fn shorten(&mut self) {
        let slowest = self.readers.values().min().copied();
        match self.source {
            ReaderSource::Window => {
                slowest
                    .into_iter()
                    .for_each(|slowest| self.window.shorten(|_, at| at <= slowest));
            }
            ReaderSource::Store => {
                self.window.shorten(|window, at| {
                    slowest.is_none_or(|slowest| at <= slowest) || window.bytes > MOST_UNREAD
                });
            }
            ReaderSource::Moving(_) => {}
        }
    }
}

/// A client that reads an answer in the writing process. Dropped when the client has left.
#[derive(Debug)]
pub(super) struct Reader {
    live: Arc<LiveTail>,
    number: u64,
}

impl Reader {
    /// Returns whether the events after a position come from here instead of the store. Events of
    /// another process never do.
    pub(super) fn serves(&self, after: Position) -> bool {
        after.epoch <= self.live.epoch && self.live.is_live()
    }

    /// Returns the epoch of the writer.
    pub(super) fn epoch(&self) -> u64 {
        self.live.epoch
    }

    /// Is ready when the events come from here. If the answer has already ended when the store
    /// fails, moves its last events here.
    pub(super) async fn moved(&self) {
        let is_live = self.live.until(|state| {
            let is_over = state.is_live() || state.window.end.is_some();
            is_over.then(|| state.is_live())
        });
        if !is_live.await {
            self.live.fail();
        }
    }

    /// Notes the client's position.
    pub(super) fn note(&self, after: Position) {
        self.live.change(|state| {
            state.readers.insert(self.number, after);
            state.shorten();
        });
    }

    /// Returns the events after a position, as the store does.
    pub(super) async fn read_after(
        &self,
        after: Position,
        wait: Duration,
    ) -> Result<Batch, StoreError> {
        let changed = self.live.changed.subscribe();
        Batch::awaited(changed, wait, || self.read(after)).await
    }

    fn read(&self, after: Position) -> Result<Batch, StoreError> {
        let state = self.live.state();
        let Some(window) = state.served() else {
            return Ok(Batch::default());
        };
        if after < window.dropped {
            return Err(StoreError::Dropped(window.limit));
        }
        Ok(Batch::of(&window.entries, after, window.end))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.live.change(|state| {
            state.readers.remove(&self.number);
            state.shorten();
        });
    }
}

/// Replaces the limit's name if the store has failed.
const FAILED: &str = "store";
/// The most bytes that the slowest reader may lack before the writer waits for it.
const MOST_UNREAD: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn entries(seqs: std::ops::RangeInclusive<u64>, bytes: usize) -> Vec<Entry> {
        let at = |seq| Position { epoch: 1, seq };
        seqs.map(|seq| Entry {
            at: at(seq),
            bytes: Bytes::from(vec![0; bytes]),
        })
        .collect()
    }

    fn last(batch: &Batch) -> Position {
        batch.entries.last().unwrap().at
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_reader_sets_the_pace_and_none_loses_an_event() {
        let live = Arc::new(LiveTail::after(1, Position::START));
        let (fast, slow) = (
            live.reader(Position { epoch: 1, seq: 2 }),
            live.reader(Position::START),
        );
        assert!(!fast.serves(Position::START));
        live.begin("max_kept_bytes");
        assert!(
            fast.serves(Position { epoch: 1, seq: 2 })
                && !fast.serves(Position { epoch: 2, seq: 0 })
        );
        assert_eq!(
            slow.read_after(Position::START, SECOND).await,
            Ok(Batch::default()),
            "it is not here yet"
        );
        let given_up = GivenUp {
            dropped: Position::START,
            entries: entries(1..=2, 10),
        };
        live.take(given_up);
        assert_eq!(live.room().await, Ok(()));
        assert_eq!(
            fast.read_after(Position { epoch: 1, seq: 2 }, SECOND).await,
            Ok(Batch::default())
        );
        live.push(entries(3..=3, MOST_UNREAD));
        let room = live.room();
        tokio::pin!(room);
        assert!(
            tokio::time::timeout(SECOND, &mut room).await.is_err(),
            "the slow one lacks too much"
        );
        let batch = fast
            .read_after(Position { epoch: 1, seq: 2 }, SECOND)
            .await
            .unwrap();
        assert_eq!(batch.entries, entries(3..=3, MOST_UNREAD));
        fast.note(last(&batch));
        assert!(tokio::time::timeout(SECOND, &mut room).await.is_err());
        let batch = slow.read_after(Position::START, SECOND).await.unwrap();
        assert_eq!(batch.entries.len(), 3);
        slow.note(last(&batch));
        assert_eq!(room.await, Ok(()));
        live.close(End::Whole);
        live.close(End::Broken);
        assert_eq!(
            slow.read_after(last(&batch), SECOND).await.unwrap().end,
            Some(End::Whole)
        );
        // A new reader that lacks dropped events gets an error.
        let late = live.reader(Position::START);
        assert_eq!(
            late.read_after(Position::START, SECOND).await,
            Err(StoreError::Dropped("max_kept_bytes"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_lacks_what_the_store_had_dropped_is_told_so() {
        let at = |seq| Position { epoch: 1, seq };
        // The store had the last events, or none.
        for kept in [entries(5..=6, 10), vec![]] {
            let live = Arc::new(LiveTail::after(1, Position::START));
            let (ready, late) = (live.reader(at(4)), live.reader(at(1)));
            live.begin("max_kept_bytes");
            let is_empty = kept.is_empty();
            live.take(GivenUp {
                dropped: at(4),
                entries: kept,
            });
            live.push(entries(7..=7, 10));
            let lacks = Err(StoreError::Dropped("max_kept_bytes"));
            assert_eq!(late.read_after(at(1), SECOND).await, lacks);
            assert_eq!(late.read_after(at(3), SECOND).await, lacks);
            let batch = ready.read_after(at(4), SECOND).await.unwrap();
            assert_eq!(batch.entries.len(), if is_empty { 1 } else { 3 });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_wait_for_what_the_store_had_are_told_of_the_end() {
        let live = Arc::new(LiveTail::after(1, Position::START));
        let reader = live.reader(Position { epoch: 1, seq: 1 });
        live.begin("max_kept_bytes");
        live.close(End::Broken);
        let batch = reader
            .read_after(Position { epoch: 1, seq: 1 }, SECOND)
            .await;
        assert_eq!(
            batch,
            Ok(Batch {
                end: Some(End::Broken),
                ..Batch::default()
            })
        );
    }

    /// A reader that has the last event before the window lacks nothing; any other reader gets an
    /// error.
    #[tokio::test(start_paused = true)]
    async fn readers_of_a_store_that_fails_get_what_is_here_or_are_told() {
        let at = |seq| Position { epoch: 1, seq };
        let live = Arc::new(LiveTail::after(1, at(2)));
        let (behind, ready) = (live.reader(at(1)), live.reader(at(2)));
        live.push(entries(3..=4, 10));
        ready.note(at(3));
        live.fail();
        live.push(entries(5..=5, 10));
        live.close(End::Whole);
        assert_eq!(
            behind.read_after(at(1), SECOND).await,
            Err(StoreError::Dropped(FAILED))
        );
        let batch = ready.read_after(at(3), SECOND).await.unwrap();
        assert_eq!(
            (batch.entries, batch.end),
            (entries(4..=5, 10), Some(End::Whole))
        );
        // The window does not keep many events that the store has.
        let live = Arc::new(LiveTail::after(1, Position::START));
        let slow = live.reader(Position::START);
        live.push(entries(1..=3, MOST_UNREAD));
        live.fail();
        assert_eq!(
            slow.read_after(Position::START, SECOND).await,
            Err(StoreError::Dropped(FAILED))
        );
        assert_eq!(
            slow.read_after(at(2), SECOND).await.unwrap().entries,
            entries(3..=3, MOST_UNREAD)
        );
    }

    /// The store may fail after the answer has ended, or while it returns its events.
    #[tokio::test(start_paused = true)]
    async fn the_last_events_outlive_their_store() {
        let at = |seq| Position { epoch: 1, seq };
        for is_full in [false, true] {
            let live = Arc::new(LiveTail::after(1, Position::START));
            let reader = live.reader(Position::START);
            live.push(entries(1..=2, 10));
            reader.note(at(1));
            match is_full {
                true => {
                    live.begin("max_kept_bytes");
                    live.fail();
                }
                false => {
                    live.close(End::Whole);
                    reader.moved().await;
                }
            }
            live.close(End::Whole);
            let batch = reader.read_after(at(1), SECOND).await.unwrap();
            assert_eq!(
                (batch.entries, batch.end),
                (entries(2..=2, 10), Some(End::Whole)),
                "{is_full}"
            );
        }
    }
}
