use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::limits::KeepLimits;
use crate::store::{Memory, Position, Store, StoreError};

const ID: AnswerId = AnswerId([7; 16]);

/// A folder of its own. Dropping it removes it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("restitch-logs-{}-{number}", std::process::id())))
    }

    fn store(&self, limits: KeepLimits) -> Memory {
        Memory::in_folder(&self.0, limits).unwrap()
    }

    fn log(&self) -> PathBuf {
        self.0.join(format!("{ID}.log"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn opening() -> Opening {
    Opening { caller: [1; 32], keep: Duration::from_secs(9), request: Bytes::from_static(b"{\n\"a\": 1}") }
}

fn at(epoch: u64, seq: u64) -> Position {
    Position { epoch, seq }
}

fn entry(at: Position, text: &'static str) -> Entry {
    Entry { at, bytes: Bytes::from_static(text.as_bytes()) }
}

/// The texts have what could be taken for records.
fn events() -> Vec<Entry> {
    vec![entry(at(1, 1), "end whole\n"), entry(at(1, 2), ""), entry(at(1, 3), "event 1-9 2\nab\n")]
}

#[tokio::test]
async fn a_log_that_is_cut_anywhere_has_what_was_whole() {
    let place = Place::new();
    let store = place.store(KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    let name = Name([9; 32]);
    store.name(ID, name).await.unwrap();
    let begun = fs::read(place.log()).unwrap().len();
    store.append(ID, events()).await.unwrap();
    store.close(ID, at(1, 4), End::Broken).await.unwrap();
    drop((writing, store));
    let whole = fs::read(place.log()).unwrap();
    let mut seen = Vec::new();
    for cut in begun..=whole.len() {
        fs::write(place.log(), &whole[..cut]).unwrap();
        let store = place.store(KeepLimits::default());
        assert_eq!(store.named(name).await.unwrap(), [ID], "{cut}");
        let found = store.look_up(ID).await.unwrap();
        assert_eq!((found.caller, found.keep), ([1; 32], Duration::from_secs(9)));
        let log = found.log.unwrap();
        let kept = log.last.seq as usize;
        match store.read_after(ID, Position::START, Duration::ZERO).await {
            Ok(batch) => assert_eq!((&batch.entries[..], batch.end), (&events()[..kept], log.end), "{cut}"),
            Err(error) => assert_eq!((error, kept), (StoreError::Unwritten, 0), "{cut}"),
        }
        seen.push((kept, log.end.is_some()));
        if log.end.is_some() {
            assert!(store.take_over(ID).await.unwrap().is_none(), "{cut}");
            continue;
        }
        // What follows is read again, and nothing of the half of a record.
        let taken = store.take_over(ID).await.unwrap().unwrap();
        assert_eq!((taken.epoch, taken.events.len()), (log.last.epoch + 1, kept), "{cut}");
        assert_eq!(taken.request, opening().request);
        assert!(store.take_over(ID).await.unwrap().is_none(), "somebody writes it");
        store.append(ID, vec![entry(at(taken.epoch, 1), "more")]).await.unwrap();
        store.close(ID, at(taken.epoch, 2), End::Whole).await.unwrap();
        drop((taken, store));
        let store = place.store(KeepLimits::default());
        let batch = store.read_after(ID, Position::START, Duration::ZERO).await.unwrap();
        assert_eq!((batch.entries.len(), batch.end), (kept + 1, Some(End::Whole)), "{cut}");
    }
    seen.dedup();
    assert_eq!(seen, [(0, false), (1, false), (2, false), (3, false), (3, true)]);
}

#[tokio::test]
async fn a_log_without_its_beginning_is_removed() {
    let place = Place::new();
    drop(place.store(KeepLimits::default()));
    for text in ["", "answer", "answer 00 9 0\n\n", "event 1-1 1\na\n", "\n\n", "\u{0}"] {
        fs::write(place.log(), text).unwrap();
        let store = place.store(KeepLimits::default());
        assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown), "{text:?}");
        assert!(!place.log().exists(), "{text:?}");
    }
}

#[tokio::test]
async fn the_limits_hold_for_what_is_found() {
    let place = Place::new();
    let store = place.store(KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    store.append(ID, events()).await.unwrap();
    drop((writing, store));
    // Too large alone: its first events are dropped, so nobody can go on with it.
    let small = KeepLimits { max_kept_answer_bytes: size(&events()[2]), ..KeepLimits::default() };
    let store = place.store(small);
    let dropped = StoreError::Dropped("max_kept_answer_bytes");
    assert_eq!(store.read_after(ID, Position::START, Duration::ZERO).await, Err(dropped.clone()));
    assert_eq!(store.read_after(ID, at(1, 2), Duration::ZERO).await.unwrap().entries, events()[2..]);
    assert_eq!(store.take_over(ID).await.unwrap_err(), dropped);
    assert_eq!(store.look_up(ID).await.unwrap().log.unwrap().end, Some(End::Broken));
    drop(store);
    drop(place.store(KeepLimits { max_kept_bytes: 10, ..KeepLimits::default() }));
    assert!(!place.log().exists(), "there is no room for it");
}

#[tokio::test(start_paused = true)]
async fn of_what_is_no_longer_kept_the_reason_stays() {
    let place = Place::new();
    let limits = KeepLimits { max_kept_answers: 2, ..KeepLimits::default() };
    let store = place.store(limits.clone());
    let writing = store.open(ID, opening()).await.unwrap();
    let name = Name([9; 32]);
    store.name(ID, name).await.unwrap();
    store.append(ID, events()).await.unwrap();
    drop(writing);
    tokio::time::advance(Duration::from_secs(10)).await;
    let expired = Err(crate::store::Gone::Expired);
    store.sweep().await.unwrap();
    assert_eq!(store.look_up(ID).await.unwrap().log, expired);
    drop(store);
    let text = fs::read(place.log()).unwrap();
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    assert!(!has(&opening().request) && !has(b"event"), "{text:?}");
    // However much of that was written, nothing is taken for an answer that is kept.
    for cut in 0..text.len() {
        fs::write(place.log(), &text[..cut]).unwrap();
        match place.store(limits.clone()).look_up(ID).await {
            Ok(found) => assert_eq!(found.log, expired, "{cut}"),
            Err(error) => assert_eq!(error, StoreError::Unknown, "{cut}"),
        }
    }
    fs::write(place.log(), &text).unwrap();
    // A later process knows it, too, and for the same caller.
    let store = place.store(limits.clone());
    let found = store.look_up(ID).await.unwrap();
    assert_eq!((found.caller, found.keep, found.log), (opening().caller, opening().keep, expired));
    assert_eq!(store.named(name).await.unwrap(), [ID]);
    assert_eq!(store.read_after(ID, Position::START, Duration::ZERO).await, Err(StoreError::Expired));
    // As many are remembered as may be kept: the oldest is forgotten, with its file.
    for number in 0..2 {
        let id = AnswerId([number; 16]);
        drop(store.open(id, opening()).await.unwrap());
        tokio::time::advance(Duration::from_secs(10)).await;
        store.sweep().await.unwrap();
        assert_eq!(store.look_up(id).await.unwrap().log, expired);
    }
    assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
    assert!(!place.log().exists());
    // What a client deletes leaves nothing.
    let id = AnswerId([1; 16]);
    store.delete(id).await.unwrap();
    drop(store);
    assert_eq!(place.store(limits).look_up(id).await, Err(StoreError::Unknown));
}

#[tokio::test]
async fn a_limit_that_dropped_an_answer_is_told_later() {
    let place = Place::new();
    let store = place.store(KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    store.append(ID, events()).await.unwrap();
    store.give_up(ID, Position::START, "max_kept_bytes").await.unwrap();
    drop((writing, store));
    let gone = place.store(KeepLimits::default()).look_up(ID).await.unwrap().log;
    assert_eq!(gone, Err(crate::store::Gone::Dropped("max_kept_bytes")));
}
