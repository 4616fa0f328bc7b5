use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::answer::size;
use super::*;
use crate::store::{Health, Memory, Position, Store, StoreError};
use restitch::KeepLimits;

const ID: AnswerId = AnswerId([7; 16]);

/// A folder of its own. Dropping it removes it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("restitch-logs-{}-{number}", std::process::id())))
    }

    fn store(&self, limits: &KeepLimits) -> Memory {
        // A process that another test starts holds the lock, too, until its program begins.
        for _ in 0..500 {
            match Memory::in_folder(&self.0, limits.clone(), Health::default()) {
                Err(StoreError::Failed(why)) if why.contains("another process") => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => return opened.unwrap(),
            }
        }
        panic!("another process uses {}", self.0.display());
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
    Opening {
        caller: [1; 32],
        keep: Duration::from_secs(9),
        request: Bytes::from_static(b"{\n\"a\": 1}"),
        owner: Owner::default(),
    }
}

fn at(epoch: u64, seq: u64) -> Position {
    Position { epoch, seq }
}

fn entry(at: Position, text: &'static str) -> Entry {
    Entry {
        at,
        bytes: Bytes::from_static(text.as_bytes()),
    }
}

/// The events' texts look like records.
fn events() -> Vec<Entry> {
    vec![
        entry(at(1, 1), "end whole\n"),
        entry(at(1, 2), ""),
        entry(at(1, 3), "event 1-9 2\nab\n"),
    ]
}

#[tokio::test]
async fn a_log_that_is_cut_anywhere_has_what_was_whole() {
    let place = Place::new();
    let store = place.store(&KeepLimits::default());
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
        let store = place.store(&KeepLimits::default());
        assert_eq!(store.named(name).await.unwrap(), [ID], "{cut}");
        let found = store.look_up(ID).await.unwrap();
        assert_eq!(
            (found.caller, found.keep),
            ([1; 32], Duration::from_secs(9))
        );
        let log = found.log.unwrap();
        let kept = log.last.seq as usize;
        match store.read_after(ID, Position::START, Duration::ZERO).await {
            Ok(batch) => assert_eq!(
                (&batch.entries[..], batch.end),
                (&events()[..kept], log.end),
                "{cut}"
            ),
            Err(error) => assert_eq!((error, kept), (StoreError::Unwritten, 0), "{cut}"),
        }
        seen.push((kept, log.end.is_some()));
        if log.end.is_some() {
            assert!(store.take_over(ID).await.unwrap().is_none(), "{cut}");
            continue;
        }
        // The rest is read from the file, without the half-written record.
        let taken = store.take_over(ID).await.unwrap().unwrap();
        assert_eq!(taken.events.len(), kept, "{cut}");
        assert!(taken.epoch > log.last.epoch, "{cut}: {}", taken.epoch);
        assert_eq!(taken.request, opening().request);
        assert!(
            store.take_over(ID).await.unwrap().is_none(),
            "somebody writes it"
        );
        store
            .append(ID, vec![entry(at(taken.epoch, 1), "more")])
            .await
            .unwrap();
        store
            .close(ID, at(taken.epoch, 2), End::Whole)
            .await
            .unwrap();
        drop((taken, store));
        let store = place.store(&KeepLimits::default());
        let batch = store
            .read_after(ID, Position::START, Duration::ZERO)
            .await
            .unwrap();
        assert_eq!(
            (batch.entries.len(), batch.end),
            (kept + 1, Some(End::Whole)),
            "{cut}"
        );
    }
    seen.dedup();
    assert_eq!(
        seen,
        [(0, false), (1, false), (2, false), (3, false), (3, true)]
    );
}

#[tokio::test]
async fn a_log_without_its_beginning_is_removed() {
    let place = Place::new();
    drop(place.store(&KeepLimits::default()));
    // The last one has no checksum.
    let unchecked = serde_json::to_string(&Record::Gone {
        caller: [1; 32],
        keep: Duration::from_secs(9),
        limit: None,
    })
    .unwrap()
        + "\n";
    for text in [
        "",
        "answer",
        "00000000 {\"epoch\":2}\n",
        "00000000 {\"event\":[1,1,\"a\"]}\n",
        "\n\n",
        "\u{0}",
        &unchecked,
    ] {
        fs::write(place.log(), text).unwrap();
        let store = place.store(&KeepLimits::default());
        assert_eq!(
            store.look_up(ID).await,
            Err(StoreError::Unknown),
            "{text:?}"
        );
        assert!(!place.log().exists(), "{text:?}");
    }
}

#[tokio::test]
async fn the_limits_hold_for_what_is_found() {
    let place = Place::new();
    let store = place.store(&KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    store.append(ID, events()).await.unwrap();
    drop((writing, store));
    // This answer alone exceeds the limit: its first events are dropped, so no process can resume
    // it.
    let small = KeepLimits {
        max_kept_answer_bytes: size(&events()[2]),
        ..KeepLimits::default()
    };
    let store = place.store(&small);
    let dropped = StoreError::Dropped("max_kept_answer_bytes");
    assert_eq!(
        store.read_after(ID, Position::START, Duration::ZERO).await,
        Err(dropped.clone())
    );
    assert_eq!(
        store
            .read_after(ID, at(1, 2), Duration::ZERO)
            .await
            .unwrap()
            .entries,
        events()[2..]
    );
    assert_eq!(store.take_over(ID).await.unwrap_err(), dropped);
    assert_eq!(
        store.look_up(ID).await.unwrap().log.unwrap().end,
        Some(End::Broken)
    );
    drop(store);
    drop(place.store(&KeepLimits {
        max_kept_bytes: 10,
        ..KeepLimits::default()
    }));
    assert!(!place.log().exists(), "there is no room for it");
}

#[tokio::test(start_paused = true)]
async fn of_what_is_no_longer_kept_the_reason_stays() {
    let place = Place::new();
    let limits = KeepLimits {
        max_kept_answers: 2,
        ..KeepLimits::default()
    };
    let store = place.store(&limits);
    let writing = store.open(ID, opening()).await.unwrap();
    let name = Name([9; 32]);
    store.name(ID, name).await.unwrap();
    store.append(ID, events()).await.unwrap();
    drop(writing);
    tokio::time::advance(Duration::from_secs(10)).await;
    let expired = Err(crate::store::Tombstone::Expired);
    store.sweep().await.unwrap();
    assert_eq!(store.look_up(ID).await.unwrap().log, expired);
    drop(store);
    let text = fs::read(place.log()).unwrap();
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    assert!(!has(&opening().request) && !has(b"event"), "{text:?}");
    // Wherever the write was cut, the answer does not count as kept.
    for cut in 0..text.len() {
        fs::write(place.log(), &text[..cut]).unwrap();
        match place.store(&limits).look_up(ID).await {
            Ok(found) => assert_eq!(found.log, expired, "{cut}"),
            Err(error) => assert_eq!(error, StoreError::Unknown, "{cut}"),
        }
    }
    fs::write(place.log(), &text).unwrap();
    // A later process knows it, too, and for the same caller.
    let store = place.store(&limits);
    let found = store.look_up(ID).await.unwrap();
    assert_eq!(
        (found.caller, found.keep, found.log),
        (opening().caller, opening().keep, expired)
    );
    assert_eq!(store.named(name).await.unwrap(), [ID]);
    assert_eq!(
        store.read_after(ID, Position::START, Duration::ZERO).await,
        Err(StoreError::Expired)
    );
    // The limit on kept answers also limits the remembered ones: the store forgets the oldest, with
    // its file.
    for number in 0..2 {
        let id = AnswerId([number; 16]);
        drop(store.open(id, opening()).await.unwrap());
        tokio::time::advance(Duration::from_secs(10)).await;
        store.sweep().await.unwrap();
        assert_eq!(store.look_up(id).await.unwrap().log, expired);
    }
    assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
    assert!(!place.log().exists());
    // A client's delete leaves no trace.
    let id = AnswerId([1; 16]);
    store.delete(id).await.unwrap();
    drop(store);
    assert_eq!(
        place.store(&limits).look_up(id).await,
        Err(StoreError::Unknown)
    );
}

#[tokio::test]
async fn a_limit_that_dropped_an_answer_is_told_later() {
    let place = Place::new();
    let store = place.store(&KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    store.append(ID, events()).await.unwrap();
    store
        .give_up(ID, Position::START, "max_kept_bytes")
        .await
        .unwrap();
    drop((writing, store));
    let gone = place
        .store(&KeepLimits::default())
        .look_up(ID)
        .await
        .unwrap()
        .log;
    assert_eq!(
        gone,
        Err(crate::store::Tombstone::Dropped("max_kept_bytes"))
    );
}

/// Writes a whole answer of several events, as a process leaves it in its file.
async fn whole_log(place: &Place) -> (Vec<Entry>, Vec<u8>) {
    let store = place.store(&KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    let texts = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"km\\\": 5150\"}}]}\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\", \\\"to\\\": \\\"Vigo\\\"}\"}}]}\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n",
        "data: [DONE]\n",
    ];
    let entries: Vec<_> = (1..)
        .zip(texts)
        .map(|(seq, text)| entry(at(1, seq), text))
        .collect();
    for part in entries.chunks(2) {
        store.append(ID, part.to_vec()).await.unwrap();
    }
    store.name(ID, Name([9; 32])).await.unwrap();
    store.close(ID, at(1, 5), End::Whole).await.unwrap();
    drop((writing, store));
    (entries, fs::read(place.log()).unwrap())
}

/// Returns the file with each type of damage at an offset: bits and bytes changed; a range zeroed,
/// repeated, removed, moved to the end or replaced; the rest removed.
fn damaged(
    whole: &[u8],
    at: usize,
    random: &mut impl FnMut(usize) -> usize,
) -> Vec<(&'static str, Vec<u8>)> {
    let end = (at + 1 + random(48)).min(whole.len());
    let (before, range, after) = (&whole[..at], &whole[at..end], &whole[end..]);
    let other = random(whole.len() - range.len() + 1);
    let changed = |change: u8| {
        let mut text = whole.to_vec();
        text[at] ^= change;
        text
    };
    let files = vec![
        ("bit", changed(1 << random(8))),
        ("case", changed(0x20)),
        ("byte", changed(1 + random(255) as u8)),
        ("zeroed", [before, &vec![0; range.len()], after].concat()),
        ("repeated", [before, range, range, after].concat()),
        ("lost", [before, after].concat()),
        ("moved", [before, after, range].concat()),
        (
            "replaced",
            [before, &whole[other..other + range.len()], after].concat(),
        ),
        ("cut", before.to_vec()),
    ];
    files
        .into_iter()
        .filter(|(_, text)| text != whole)
        .collect()
}

#[tokio::test]
async fn a_damaged_file_yields_the_answer_up_to_the_damage_and_no_end() {
    let place = Place::new();
    let (entries, whole) = whole_log(&place).await;
    let mut state = 39_u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut tried, mut wrong) = (0, Vec::new());
    for offset in 0..whole.len() {
        let files = damaged(&whole, offset, &mut random);
        // Writing and reading a file takes milliseconds, so each offset gets three types of damage.
        for (how, text) in files
            .into_iter()
            .cycle()
            .skip(offset % 9)
            .step_by(4)
            .take(3)
        {
            fs::write(place.log(), &text).unwrap();
            tried += 1;
            let store = place.store(&KeepLimits::default());
            if let Err(difference) = differs(&store, &entries).await {
                wrong.push(format!("{how} at {offset}: {difference}"));
            }
        }
    }
    assert_eq!(
        wrong.len(),
        0,
        "of {tried}: {:#?}",
        &wrong[..wrong.len().min(20)]
    );
}

/// Compares the answer in a store with the events that were written.
async fn differs(store: &Memory, entries: &[Entry]) -> Result<(), String> {
    let found = match store.look_up(ID).await {
        Ok(found) => found,
        Err(StoreError::Unknown) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if (found.caller, found.keep) != (opening().caller, opening().keep) {
        return Err("another caller, or another time".to_owned());
    }
    let log = found.log.map_err(|gone| format!("{gone:?}"))?;
    let (read, end) = match store.read_after(ID, Position::START, Duration::ZERO).await {
        Ok(batch) => (batch.entries, batch.end),
        Err(StoreError::Unwritten) => (Vec::new(), None),
        Err(error) => return Err(error.to_string()),
    };
    if !entries.starts_with(&read) {
        return Err(format!("{read:?}"));
    }
    match end {
        Some(End::Whole) if read.len() == entries.len() => return Ok(()),
        Some(end) => return Err(format!("{end:?} after {} events", read.len())),
        None => {}
    }
    // The next process continues the same request after the last valid event, and repeats no
    // position.
    let taken = store
        .take_over(ID)
        .await
        .map_err(|error| error.to_string())?
        .ok_or("a process writes it")?;
    if (&taken.request, taken.last, taken.events.len())
        != (&opening().request, log.last, read.len())
    {
        return Err(format!("{taken:?}"));
    }
    Ok(())
}

#[tokio::test]
async fn positions_of_lost_events_are_not_used_again() {
    let place = Place::new();
    let store = place.store(&KeepLimits::default());
    let writing = store.open(ID, opening()).await.unwrap();
    store.append(ID, events()).await.unwrap();
    drop((writing, store));
    let first = fs::read(place.log()).unwrap().len();
    let store = place.store(&KeepLimits::default());
    let taken = store.take_over(ID).await.unwrap().unwrap();
    assert_eq!(taken.epoch, 2);
    store.append(ID, vec![entry(at(2, 1), "b")]).await.unwrap();
    drop((taken, store));
    // The last event of the first process is damaged, so the second process's event is lost, too.
    let mut text = fs::read(place.log()).unwrap();
    text[first - 2] ^= 1;
    fs::write(place.log(), &text).unwrap();
    drop(place.store(&KeepLimits::default()));
    // Neither a further start nor a process that writes nothing changes that.
    for _ in 0..2 {
        let store = place.store(&KeepLimits::default());
        let taken = store.take_over(ID).await.unwrap().unwrap();
        assert_eq!((taken.last, taken.events.len()), (at(1, 2), 2));
        assert!(taken.epoch > 2, "{}", taken.epoch);
        drop(taken);
        assert!(store.take_over(ID).await.unwrap().unwrap().epoch > 3);
    }
}

#[tokio::test]
async fn the_file_of_another_answer_is_not_read() {
    let place = Place::new();
    let (_, whole) = whole_log(&place).await;
    let other = AnswerId([8; 16]);
    fs::write(place.0.join(format!("{other}.log")), whole).unwrap();
    let store = place.store(&KeepLimits::default());
    assert_eq!(store.look_up(other).await, Err(StoreError::Unknown));
    assert!(store.look_up(ID).await.is_ok());
}
