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
