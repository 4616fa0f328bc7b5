//! Follows a kept answer, and writes its events with their ids.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use futures_util::stream::unfold;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::live::Reader;
use super::restore::TakeoverContext;
use crate::store::{AnswerId, Batch, End, Entry, Position, ReaderLease, Store, StoreError};
use restitch_http::BodyError;

/// The events of a kept answer after a position, as the bytes of an event stream: first the
/// available ones, then new ones. Ends as the answer does.
pub(super) struct Follow {
    store: Arc<dyn Store>,
    id: AnswerId,
    after: Position,
    format: EventFormat,
    /// The store's consecutive failures.
    failures: u32,
    takeover: TakeoverAttempts,
    /// Set if this process writes the answer.
    reader: Option<Arc<Reader>>,
    /// Keeps the answer in the store until this response has its last bytes.
    reading: ReaderLease,
    source: EventOrigin,
    state: FollowState,
}

/// How the events are written.
struct EventFormat {
    /// Skips events up to this `sequence_number`.
    starting_after: Option<u64>,
    /// The wait for events before a comment keeps the stream alive.
    wait: Duration,
    /// Events are written unchanged, without ids.
    is_plain: bool,
    /// Whether comments are written.
    has_comments: bool,
}

/// The takeovers of an answer whose process ends.
struct TakeoverAttempts {
    /// Resumes the answer. `None`: it can't be resumed for this client.
    context: Option<Arc<TakeoverContext>>,
    /// The attempts since the last event.
    made: u32,
    /// The span of the request.
    span: Span,
}

/// The source of the events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventOrigin {
    Store,
    /// The answer is no longer kept.
    Live,
}

enum FollowState {
    Reading,
    /// The end of the answer. `None`: the reader can't get its rest.
    Ended(Option<End>),
    Over,
}

impl Follow {
    /// Creates a reader. `silence`: the silence after which it writes a comment; zero: never.
    /// `keep`: how long the store keeps the answer after a read.
    pub(super) fn new(
        store: Arc<dyn Store>,
        (id, keep): (AnswerId, Duration),
        after: Position,
        silence: Duration,
    ) -> Self {
        let has_comments = !silence.is_zero();
        let wait = if has_comments { silence } else { DEFAULT_WAIT };
        // A read renews the answer's time, so the reader reads at least twice in that time.
        let wait = wait.min(keep / 2);
        Self {
            reading: store.reading(id),
            store,
            id,
            after,
            format: EventFormat {
                starting_after: None,
                wait,
                is_plain: false,
                has_comments,
            },
            failures: 0,
            takeover: TakeoverAttempts {
                context: None,
                made: 0,
                span: Span::current(),
            },
            reader: None,
            source: EventOrigin::Store,
            state: FollowState::Reading,
        }
    }

    /// Writes events without ids and comments, for clients that expect `data:` at the start of each
    /// event.
    pub(super) fn plain(mut self, is_plain: bool) -> Self {
        self.format.is_plain = is_plain;
        self.format.has_comments &= !is_plain;
        self
    }

    /// Sets the reader of an answer that this process writes.
    pub(super) fn with_reader(mut self, reader: Option<Arc<Reader>>) -> Self {
        self.reader = reader;
        self
    }

    /// Sets the takeover that resumes the answer if its process ends.
    pub(super) fn with_takeover(mut self, takeover: Arc<TakeoverContext>) -> Self {
        self.takeover.context = Some(takeover);
        self
    }

    /// Skips events up to a `sequence_number`.
    pub(super) fn starting_after(mut self, number: Option<u64>) -> Self {
        self.format.starting_after = number;
        self
    }

    /// Returns the events as bytes.
    pub(super) fn stream(mut self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
        let reading = std::mem::take(&mut self.reading);
        let events = unfold(self, |mut follow| async move {
            let next = follow.next().await?;
            Some((next, follow))
        });
        reading.during(events)
    }

    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            match self.state {
                FollowState::Reading => {}
                FollowState::Ended(end) => {
                    self.state = FollowState::Over;
                    // A broken answer must not look like a whole one, so its body fails.
                    return (end != Some(End::Whole)).then(|| Err("the answer broke off".into()));
                }
                FollowState::Over => return None,
            }
            match self.read().await {
                Ok(batch) => {
                    self.failures = 0;
                    let batch = self.of_writer(batch);
                    let bytes = batch.map(|batch| self.take(&batch)).unwrap_or_default();
                    if !bytes.is_empty() {
                        return Some(Ok(bytes));
                    }
                }
                // The error is of a store that the writer has given up: its events come from here
                // now.
                Err(_) if self.has_moved() => {}
                Err(StoreError::Failed(_))
                    if self.reader.is_some() && self.failures < MOST_FAILURES =>
                {
                    self.failures += 1;
                    // The writer in this process may notice, too: the events then come from it.
                    if let Some(reader) = &self.reader {
                        drop(timeout(TRY_AGAIN, reader.moved()).await);
                    }
                }
                Err(StoreError::Unwritten)
                    if self.takeover.context.is_some() && self.takeover.made < MOST_TAKEOVERS =>
                {
                    self.takeover.made += 1;
                    match self.inherit().await {
                        // Drops a reader of the earlier epoch, if there is one.
                        Ok(()) => self.reader = None,
                        Err(error) => self.break_off(&error, "a kept answer cannot be taken over"),
                    }
                }
                Err(error) => {
                    self.break_off(&error, "a kept answer cannot be followed to its end");
                }
            }
        }
    }

    async fn read(&mut self) -> Result<Batch, StoreError> {
        let (id, after, wait) = (self.id, self.after, self.format.wait);
        if self.reader.is_none() && self.store.is_shared() {
            // This process may have taken the answer over for another client.
            let context = self.takeover.context.as_ref();
            self.reader = context.and_then(|context| context.answers.reader(id, after));
        }
        match self.reader.as_ref().filter(|reader| reader.serves(after)) {
            Some(reader) => {
                self.source = EventOrigin::Live;
                reader.read_after(after, wait).await
            }
            None => self.store.read_after(id, after, wait).await,
        }
    }

    /// Takes the answer over.
    async fn inherit(&self) -> Result<(), StoreError> {
        let context = self.takeover.context.as_ref();
        let context = context.ok_or(StoreError::Unwritten)?;
        let taking = context.take_over(self.id);
        Box::pin(taking.instrument(self.takeover.span.clone())).await
    }

    fn break_off(&mut self, error: &StoreError, what: &'static str) {
        self.takeover
            .span
            .in_scope(|| tracing::warn!(%error, "{what}"));
        self.state = FollowState::Ended(None);
    }

    /// Returns whether the answer has moved from the store to its connected readers.
    fn has_moved(&self) -> bool {
        self.source == EventOrigin::Store
            && self
                .reader
                .as_ref()
                .is_some_and(|reader| reader.serves(self.after))
    }

    /// Returns the valid part of a batch from the store. If the answer has moved to its connected
    /// readers during the read, another process may have resumed it in the store: its events don't
    /// continue the text that these readers have. `None`: no event is valid.
    fn of_writer(&self, batch: Batch) -> Option<Batch> {
        let Some(reader) = self.reader.as_ref().filter(|_| self.has_moved()) else {
            return Some(batch);
        };
        let Batch {
            mut entries,
            has_more,
            ..
        } = batch;
        entries.retain(|entry| entry.at.epoch <= reader.epoch());
        (!entries.is_empty()).then_some(Batch {
            entries,
            end: None,
            has_more,
        })
    }

    /// Takes a batch, and returns its bytes for the client.
    fn take(&mut self, batch: &Batch) -> Bytes {
        if let Some(last) = batch.entries.last() {
            // Only takeovers without an event between them count.
            (self.after, self.takeover.made) = (last.at, 0);
            // The events come from another process now, so this process's earlier writer must not
            // wait for this client.
            self.reader = self
                .reader
                .take()
                .filter(|reader| last.at.epoch <= reader.epoch());
            self.reader.iter().for_each(|reader| reader.note(last.at));
        }
        if batch.end.is_some() {
            self.state = FollowState::Ended(batch.end);
        }
        if batch.entries.is_empty() && batch.end.is_none() && self.format.has_comments {
            // Also finds out whether the client is still there.
            return Bytes::from_static(KEEP_ALIVE);
        }
        let mut bytes = BytesMut::with_capacity(
            batch
                .entries
                .iter()
                .map(|entry| entry.bytes.len() + LONGEST_ID)
                .sum(),
        );
        for entry in &batch.entries {
            if let Some(number) = self.format.starting_after {
                if sequence_number(&entry.bytes).is_none_or(|own| own <= number) {
                    continue;
                }
                self.format.starting_after = None;
            }
            match self.format.is_plain {
                true => {
                    bytes.put_slice(&entry.bytes);
                    bytes.put_slice(b"\n");
                }
                false => write(entry, &mut bytes),
            }
        }
        bytes.freeze()
    }
}

/// Writes an event with its id. The id is the last line, so that it overrides an id from the
/// upstream.
pub(super) fn write(Entry { at, bytes }: &Entry, out: &mut BytesMut) {
    out.put_slice(bytes);
    out.put_slice(format!("id: {at}\n\n").as_bytes());
}

/// Returns the `sequence_number` of an event of the Responses API.
fn sequence_number(event: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        sequence_number: u64,
    }
    Some(data::<Numbered>(event)?.sequence_number)
}

/// Parses the data of an event if it is one line of JSON.
pub(super) fn data<T: serde::de::DeserializeOwned>(event: &[u8]) -> Option<T> {
    let mut lines = event.split(|&byte| matches!(byte, b'\n' | b'\r'));
    let data = lines.find_map(|line| line.strip_prefix(b"data:"))?;
    serde_json::from_slice(data).ok()
}

pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
/// The most bytes of an id's line and a blank line.
// `id: `, two numbers of 64 bits with a dash, and two line ends.
const LONGEST_ID: usize = 48;
/// The most consecutive failures of the store while this process writes the answer: the writer
/// notices a failed store within a few seconds.
const MOST_FAILURES: u32 = 10;
/// The most takeovers by one reader without an event between them. Each one calls the model.
const MOST_TAKEOVERS: u32 = 3;
/// The longest wait before a reader asks a failed store again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The wait for events if no comments are written.
// The default of `keep_alive_interval`.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::resume::live::LiveTail;
    use crate::store::{Memory, Opening, Owner};
    use restitch::KeepLimits;

    fn opening() -> Opening {
        Opening {
            caller: [1; 32],
            keep: Duration::from_secs(60),
            request: Bytes::new(),
            owner: Owner::default(),
        }
    }

    /// Writes an answer of one event that needs more than half of the store's room.
    async fn write_answer(store: &Memory, id: AnswerId) -> Result<(), StoreError> {
        let _writing = store.open(id, opening()).await?;
        let at = Position { epoch: 1, seq: 1 };
        store
            .append(
                id,
                vec![Entry {
                    at,
                    bytes: Bytes::from(vec![b'x'; 600]),
                }],
            )
            .await?;
        store.close(id, at.next(), End::Whole).await
    }

    #[tokio::test]
    async fn an_answer_is_read_until_its_body_is_dropped() {
        let (first, second) = (AnswerId([1; 16]), AnswerId([2; 16]));
        let store = Arc::new(Memory::new(KeepLimits {
            max_kept_bytes: 2500,
            ..KeepLimits::default()
        }));
        write_answer(&store, first).await.unwrap();
        let of = (first, Duration::from_secs(60));
        let follow = Follow::new(
            Arc::clone(&store) as Arc<dyn Store>,
            of,
            Position::START,
            Duration::ZERO,
        );
        let mut body = Box::pin(follow.stream());
        assert!(matches!(next(&mut body), Poll::Ready(Some(text)) if text.len() > 600));
        assert_eq!(next(&mut body), Poll::Ready(None));
        assert!(matches!(
            write_answer(&store, second).await,
            Err(StoreError::Full(_))
        ));
        drop(body);
        write_answer(&store, second).await.unwrap();
        assert!(store.look_up(first).await.unwrap().log.is_err());
    }

    fn event(epoch: u64, seq: u64) -> Entry {
        Entry {
            at: Position { epoch, seq },
            bytes: Bytes::from(format!("data: {epoch}.{seq}\n")),
        }
    }

    /// Polls a reader, and returns its output as text.
    fn next(
        follow: &mut Pin<Box<impl Stream<Item = Result<Bytes, BodyError>>>>,
    ) -> Poll<Option<String>> {
        let cx = &mut Context::from_waker(Waker::noop());
        let next = follow.as_mut().poll_next(cx);
        next.map(|bytes| bytes.map(|bytes| String::from_utf8(bytes.unwrap().to_vec()).unwrap()))
    }

    /// A store that has failed for its writer may answer a reader a moment later, with events that
    /// another process has written since.
    #[tokio::test]
    async fn events_of_another_process_do_not_follow_those_of_a_writer_without_its_store() {
        let id = AnswerId([1; 16]);
        for has_read_them in [false, true] {
            let store = Arc::new(Memory::new(KeepLimits::default()));
            let _writing = store.open(id, opening()).await.unwrap();
            let live = Arc::new(LiveTail::after(1, Position::START));
            let of = (id, Duration::from_secs(60));
            let follow = Follow::new(
                Arc::clone(&store) as Arc<dyn Store>,
                of,
                Position::START,
                Duration::ZERO,
            );
            let follow = follow.with_reader(Some(live.reader(Position::START)));
            let mut follow = Box::pin(follow.stream());
            store.append(id, vec![event(1, 1)]).await.unwrap();
            live.push(vec![event(1, 1)]);
            assert_eq!(
                next(&mut follow),
                Poll::Ready(Some("data: 1.1\nid: 1-1\n\n".to_owned()))
            );
            assert_eq!(next(&mut follow), Poll::Pending);
            store.append(id, vec![event(2, 1)]).await.unwrap();
            if has_read_them {
                assert_eq!(
                    next(&mut follow),
                    Poll::Ready(Some("data: 2.1\nid: 2-1\n\n".to_owned()))
                );
            }
            live.fail();
            live.push(vec![event(1, 2)]);
            live.close(End::Whole);
            if has_read_them {
                // The reader follows the other process, whose answer has not ended.
                assert_eq!(next(&mut follow), Poll::Pending);
                store.append(id, vec![event(2, 2)]).await.unwrap();
                assert_eq!(
                    next(&mut follow),
                    Poll::Ready(Some("data: 2.2\nid: 2-2\n\n".to_owned()))
                );
            } else {
                assert_eq!(
                    next(&mut follow),
                    Poll::Ready(Some("data: 1.2\nid: 1-2\n\n".to_owned()))
                );
                assert_eq!(next(&mut follow), Poll::Ready(None));
            }
        }
    }
}
