//! Answers in memory: reading, dropping, expiry and takeover.

use bytes::Bytes;

use super::answer::OVERHEAD;
use super::*;
use crate::store::{OF_ALL, OF_COUNT, held};

const ID: AnswerId = AnswerId([7; 16]);

fn opening(seconds: u64) -> Opening {
    Opening {
        caller: [1; 32],
        keep: Duration::from_secs(seconds),
        request: Bytes::new(),
        owner: Owner::default(),
    }
}

fn entry(seq: u64, text: &str) -> Entry {
    Entry {
        at: Position { epoch: 1, seq },
        bytes: Bytes::copy_from_slice(text.as_bytes()),
    }
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
    store
        .append(ID, vec![entry(1, "a"), entry(2, "b")])
        .await
        .unwrap();
    let read = |after| store.read_after(ID, after, second);
    assert_eq!(seqs(&read(Position::START).await.unwrap()), [1, 2]);
    assert_eq!(seqs(&read(at(1)).await.unwrap()), [2]);
    assert_eq!(read(at(2)).await, Ok(Batch::default()), "the time is over");
    assert_eq!(read(at(3)).await, Err(StoreError::Ahead));
    let (more, _) = tokio::join!(read(at(2)), store.append(ID, vec![entry(3, "c")]));
    assert_eq!((seqs(&more.unwrap()), 3), (vec![3], 3));
    store.close(ID, at(4), End::Whole).await.unwrap();
    assert_eq!(
        read(at(3)).await,
        Ok(Batch {
            end: Some(End::Whole),
            ..Batch::default()
        })
    );
    assert_eq!(read(at(2)).await.unwrap().end, Some(End::Whole));
    let waiting = async { store.read_after(AnswerId([8; 16]), at(0), second).await };
    assert_eq!(waiting.await, Err(StoreError::Unknown));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_expires() {
    let store = Memory::new(KeepLimits {
        max_kept_answers: 1,
        ..KeepLimits::default()
    });
    let name = Name([3; 32]);
    let _writing = store.open(ID, opening(10)).await.unwrap();
    store.name(ID, name).await.unwrap();
    store.append(ID, vec![entry(1, "a")]).await.unwrap();
    let refused = store.open(AnswerId([8; 16]), opening(1)).await;
    assert_eq!(refused.unwrap_err(), StoreError::Full("max_kept_answers"));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(
        store
            .read_after(ID, Position::START, Duration::ZERO)
            .await
            .is_ok()
    );
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(store.renew(ID, 1).await, Ok(()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(store.renew(ID, 1).await, Err(StoreError::Expired));
    assert_eq!(
        store.look_up(ID).await.unwrap().log,
        Err(Tombstone::Expired)
    );
    assert_eq!(store.named(name).await.unwrap(), [ID]);
    assert_eq!(
        store.append(ID, vec![entry(2, "b")]).await,
        Err(StoreError::Expired)
    );
    // The limit on kept answers also limits the remembered ones.
    let _next = store.open(AnswerId([8; 16]), opening(1)).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
    assert!(store.named(name).await.unwrap().is_empty());
    assert_eq!(store.state().shares.all().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_answer_is_unknown_to_those_who_wait() {
    let store = Memory::new(KeepLimits::default());
    let _writing = store.open(ID, opening(10)).await.unwrap();
    let (read, deleted) = tokio::join!(
        store.read_after(ID, Position::START, Duration::from_secs(5)),
        store.delete(ID)
    );
    assert_eq!((read, deleted), (Err(StoreError::Unknown), Ok(())));
    assert_eq!(store.delete(ID).await, Err(StoreError::Unknown));
    assert_eq!(store.look_up(ID).await, Err(StoreError::Unknown));
}

#[tokio::test(start_paused = true)]
async fn the_first_events_are_dropped_at_the_limit_of_one_answer() {
    let room = 3 * held(4);
    let store = Memory::new(KeepLimits {
        max_kept_answer_bytes: room,
        ..KeepLimits::default()
    });
    let _writing = store.open(ID, opening(10)).await.unwrap();
    for batch in [1..=4, 5..=5] {
        store
            .append(ID, batch.map(|seq| entry(seq, "four")).collect())
            .await
            .unwrap();
    }
    let read = |after| store.read_after(ID, after, Duration::ZERO);
    assert_eq!(
        read(Position::START).await,
        Err(StoreError::Dropped(OF_ANSWER))
    );
    assert_eq!(read(at(1)).await, Err(StoreError::Dropped(OF_ANSWER)));
    assert_eq!(seqs(&read(at(2)).await.unwrap()), [3, 4, 5]);
    // The list keeps the slots of the first two.
    assert_eq!(
        store.state().shares.all().bytes,
        OVERHEAD + room + 2 * size_of::<Entry>()
    );
}

/// Room for two answers with one event each.
#[tokio::test(start_paused = true)]
async fn ended_answers_are_dropped_first_and_none_that_is_read() {
    let cost = OVERHEAD + held(4);
    let store = Memory::new(KeepLimits {
        max_kept_bytes: 2 * cost,
        ..KeepLimits::default()
    });
    let [a, b, c, d] = [1, 2, 3, 4].map(|byte| AnswerId([byte; 16]));
    let mut writing = Vec::new();
    for id in [a, b] {
        writing.push(store.open(id, opening(10)).await.unwrap());
        store.append(id, vec![entry(1, "four")]).await.unwrap();
    }
    assert_eq!(
        store.open(c, opening(10)).await.unwrap_err(),
        StoreError::Full(OF_ALL)
    );
    for id in [a, b] {
        store.close(id, at(2), End::Whole).await.unwrap();
    }
    // Reading an answer keeps it for longer.
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(
        store
            .read_after(a, Position::START, Duration::ZERO)
            .await
            .is_ok()
    );
    writing.push(store.open(c, opening(10)).await.unwrap());
    assert_eq!(
        store.look_up(b).await.unwrap().log,
        Err(Tombstone::Dropped(OF_ALL))
    );
    assert_eq!(
        store.look_up(a).await.unwrap().log.map(|log| log.last),
        Ok(at(1))
    );
    store.append(c, vec![entry(1, "four")]).await.unwrap();
    writing.push(store.open(d, opening(10)).await.unwrap());
    assert_eq!(
        store.look_up(a).await.unwrap().log,
        Err(Tombstone::Dropped(OF_ALL))
    );
    // Nothing has ended: the answer that grows is given up, with all of its events.
    assert_eq!(
        store.append(c, vec![entry(2, &"x".repeat(cost))]).await,
        Err(StoreError::Full(OF_ALL))
    );
    assert_eq!(
        store.give_up(c, at(1), OF_ALL).await,
        Ok(given_up(Position::START, vec![entry(1, "four")]))
    );
    assert_eq!(
        store.look_up(c).await.unwrap().log,
        Err(Tombstone::Dropped(OF_ALL))
    );
    assert_eq!(store.state().shares.all().bytes, OVERHEAD);
}

/// Room for three events of an answer, and for four of all.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_says_what_was_dropped_before() {
    let one = held(4);
    let [a, b, c] = [1, 2, 3].map(|byte| AnswerId([byte; 16]));
    let most = 3 * OVERHEAD + 4 * one;
    let limits = KeepLimits {
        max_kept_answer_bytes: 3 * one,
        max_kept_bytes: most,
        ..KeepLimits::default()
    };
    let store = Memory::new(limits);
    let four = |seqs: std::ops::RangeInclusive<u64>| {
        seqs.map(|seq| entry(seq, "four")).collect::<Vec<_>>()
    };
    let mut writing = Vec::new();
    for id in [a, b, c] {
        writing.push(store.open(id, opening(10)).await.unwrap());
    }
    store.append(a, four(1..=3)).await.unwrap();
    store.append(a, four(4..=5)).await.unwrap();
    store.append(b, four(1..=1)).await.unwrap();
    assert_eq!(
        store.append(b, four(2..=2)).await,
        Err(StoreError::Full(OF_ALL))
    );
    assert_eq!(
        store.give_up(b, at(1), OF_ALL).await,
        Ok(given_up(Position::START, four(1..=1)))
    );
    // Events that are refused drop nothing.
    store.append(c, four(1..=1)).await.unwrap();
    assert_eq!(
        store
            .append(a, vec![entry(6, &"x".repeat(4 * one + OVERHEAD))])
            .await,
        Err(StoreError::Full(OF_ALL))
    );
    assert_eq!(
        store.give_up(a, at(5), OF_ALL).await,
        Ok(given_up(at(2), four(3..=5)))
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_writes_any_more_has_broken_off() {
    let store = Memory::new(KeepLimits::default());
    let writing = store.open(ID, opening(10)).await.unwrap();
    store.append(ID, vec![entry(1, "a")]).await.unwrap();
    let read = store.read_after(ID, at(1), Duration::from_secs(5));
    let (read, ()) = tokio::join!(read, async { drop(writing) });
    assert_eq!(
        read,
        Ok(Batch {
            end: Some(End::Broken),
            ..Batch::default()
        })
    );
    // An answer that has ended does not change; one without events is removed.
    let [ended, empty] = [2, 3].map(|byte| AnswerId([byte; 16]));
    let writing = store.open(ended, opening(10)).await.unwrap();
    store.close(ended, at(1), End::Whole).await.unwrap();
    drop(writing);
    assert_eq!(
        store.look_up(ended).await.unwrap().log.map(|log| log.end),
        Ok(Some(End::Whole))
    );
    drop(store.open(empty, opening(10)).await.unwrap());
    assert_eq!(store.look_up(empty).await, Err(StoreError::Unknown));
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn an_answer_whose_file_cannot_be_written_is_in_memory_alone() {
    let folder = std::env::temp_dir().join(format!("restitch-full-{}", std::process::id()));
    let path = folder.join("of-the-answer");
    let store = Memory::in_folder(&folder, KeepLimits::default(), Health::default()).unwrap();
    let _writing = store.open(ID, opening(10)).await.unwrap();
    std::fs::write(&path, "half").unwrap();
    store.state().answers.get_mut(&ID).unwrap().log =
        Some(files::LogFile::full(path.clone()).unwrap());
    store.append(ID, vec![entry(1, "a")]).await.unwrap();
    assert!(
        !path.exists(),
        "half of an answer would be resumed after a restart"
    );
    store.append(ID, vec![entry(2, "b")]).await.unwrap();
    store.name(ID, Name([3; 32])).await.unwrap();
    store.close(ID, at(3), End::Whole).await.unwrap();
    let read = store
        .read_after(ID, Position::START, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((seqs(&read), read.end), (vec![1, 2], Some(End::Whole)));
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_position_is_that_of_an_event() {
    let store = Memory::new(KeepLimits {
        max_kept_answer_bytes: 2 * held(1),
        ..KeepLimits::default()
    });
    let _writing = store.open(ID, opening(10)).await.unwrap();
    store
        .append(
            ID,
            vec![entry(1, "a"), entry(2, "b"), entry(3, "c"), entry(5, "d")],
        )
        .await
        .unwrap();
    // The first two are dropped; a client that has the second one lacks nothing.
    for (seq, has) in [
        (1, false),
        (2, true),
        (3, true),
        (4, false),
        (5, true),
        (6, false),
    ] {
        assert_eq!(store.has(ID, at(seq)).await, Ok(has), "{seq}");
    }
    assert_eq!(
        store.has(AnswerId([8; 16]), at(1)).await,
        Err(StoreError::Unknown)
    );
}

/// Opens an answer of a caller, with one event.
async fn open_for(
    store: &Memory,
    byte: u8,
    owner: u64,
) -> Result<(AnswerId, WriterLease), StoreError> {
    let id = AnswerId([byte; 16]);
    let writing = store
        .open(
            id,
            Opening {
                owner: Owner(owner),
                ..opening(10)
            },
        )
        .await?;
    store.append(id, vec![entry(1, "four")]).await?;
    Ok((id, writing))
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_holds_most_takes_no_answer_from_another() {
    let store = Memory::new(KeepLimits {
        max_kept_answers: 4,
        ..KeepLimits::default()
    });
    let (other, _other) = open_for(&store, 0, 2).await.unwrap();
    store.close(other, at(2), End::Whole).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut writing = Vec::new();
    for byte in 1..=9 {
        let (id, own) = open_for(&store, byte, 1).await.unwrap();
        store.close(id, at(2), End::Whole).await.unwrap();
        writing.push(own);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let log = async |byte| {
        store
            .look_up(AnswerId([byte; 16]))
            .await
            .unwrap()
            .log
            .map(|log| log.last)
    };
    assert_eq!(
        log(0).await,
        Ok(at(1)),
        "the other caller's, although it expires first"
    );
    for (byte, expected) in [
        (6, Err(Tombstone::Dropped(OF_COUNT))),
        (7, Ok(at(1))),
        (8, Ok(at(1))),
        (9, Ok(at(1))),
    ] {
        assert_eq!(log(byte).await, expected, "{byte}");
    }
    // A third caller gets the room of the one who holds most.
    let third = open_for(&store, 10, 3).await.unwrap();
    assert_eq!(log(7).await, Err(Tombstone::Dropped(OF_COUNT)));
    assert_eq!((log(0).await, log(10).await), (Ok(at(1)), Ok(at(1))));
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn running_answers_leave_room_for_other_callers() {
    let store = Memory::new(KeepLimits {
        max_kept_answers: 3,
        ..KeepLimits::default()
    });
    let mut running = Vec::new();
    for byte in 1..=3 {
        running.push(open_for(&store, byte, 1).await.unwrap());
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(
        open_for(&store, 4, 1).await.unwrap_err(),
        StoreError::Full(OF_COUNT)
    );
    let (other, _other) = open_for(&store, 5, 2).await.unwrap();
    let first = running[0].0;
    // Its readers have it until its writer knows, and get all of its events then.
    assert_eq!(
        seqs(
            &store
                .read_after(first, Position::START, Duration::ZERO)
                .await
                .unwrap()
        ),
        [1]
    );
    for error in [
        store.append(first, vec![entry(2, "five")]).await,
        store.renew(first, 1).await,
        store.close(first, at(2), End::Whole).await,
    ] {
        assert_eq!(error, Err(StoreError::Full(OF_COUNT)));
    }
    assert_eq!(
        store.give_up(first, at(1), OF_COUNT).await,
        Ok(given_up(Position::START, vec![entry(1, "four")]))
    );
    assert_eq!(
        store.look_up(first).await.unwrap().log,
        Err(Tombstone::Dropped(OF_COUNT))
    );
    assert!(store.append(other, vec![entry(2, "five")]).await.is_ok());
    // A writer that ends before it learns of the loss leaves nothing behind.
    let (_, _third) = open_for(&store, 6, 3).await.unwrap();
    let (second, writing) = running.swap_remove(1);
    drop(writing);
    assert_eq!(
        store.look_up(second).await.unwrap().log,
        Err(Tombstone::Dropped(OF_COUNT))
    );
}

/// The store counts the memory that it holds: also if events are slices of larger reads, and if
/// there are many small ones.
#[test]
fn bytes_are_counted_as_they_are_held() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for (answers, events, size, read) in [
        (1000, 1, 20, 16 << 10),
        (20, 1000, 50, 16 << 10),
        (4, 10, 100_000, 100_000),
        (300, 0, 0, 1),
    ] {
        let store = Memory::new(KeepLimits {
            max_kept_answers: 10_000,
            ..KeepLimits::default()
        });
        let mut writing = Vec::with_capacity(answers);
        let cost = allocation_counter::measure(|| {
            runtime.block_on(async {
                for number in 0..answers {
                    let mut id = [0; 16];
                    id[..8].copy_from_slice(&number.to_be_bytes());
                    let request = Bytes::from(vec![b'r'; 1 << 10]).slice(..100);
                    writing.push(
                        store
                            .open(
                                AnswerId(id),
                                Opening {
                                    request,
                                    ..opening(10)
                                },
                            )
                            .await
                            .unwrap(),
                    );
                    store
                        .name(AnswerId(id), Name([number as u8; 32]))
                        .await
                        .unwrap();
                    for seq in 1..=events {
                        let bytes = Bytes::from(vec![b'x'; read]).slice(..size);
                        store
                            .append(AnswerId(id), vec![Entry { at: at(seq), bytes }])
                            .await
                            .unwrap();
                    }
                    let read = store
                        .read_after(AnswerId(id), Position::START, Duration::ZERO)
                        .await
                        .unwrap();
                    assert!(read.entries.len() <= events as usize);
                }
            });
        });
        let (held, counted) = (
            cost.bytes_current as usize,
            store.state().shares.all().bytes,
        );
        let shown = format!(
            "{answers} answers of {events} events of {size} bytes: {held} are held, {counted} counted"
        );
        assert!(held <= counted && counted <= 3 * held, "{shown}");
        drop(store);
    }
}
