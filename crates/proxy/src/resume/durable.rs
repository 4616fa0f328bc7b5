//! The read path of the Durable Streams protocol: the bytes of a kept answer from an offset on. A
//! client reads the available bytes, waits for more (`live=long-poll`), or gets a stream of them
//! (`live=sse`).
//!
//! The protocol is a draft:
//! <https://github.com/durable-streams/durable-streams/blob/main/PROTOCOL.md>. This module treats
//! an entry as bytes, which `follow` formats.

mod events;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};

use super::set;
use crate::allowed::values;
use crate::refusal::Refusal;
use crate::store::{AnswerId, Batch, End, Entry, Log, NotAnId, Position, Store, StoreError};
use events::Events;
use restitch_http::Body;

/// The parameters and headers of a client's request.
#[derive(Debug, Default)]
pub(super) struct Query {
    offset: Offset,
    live: Option<LiveMode>,
    /// The cursor of an earlier response, which the client returns.
    cursor: Option<u64>,
    /// The entity tag of the response that the client has.
    known: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Offset {
    /// `-1`, or no offset.
    #[default]
    Start,
    /// `now`: after all available bytes.
    Now,
    After(Position),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveMode {
    LongPoll,
    Sse,
}

/// The source of an answer's bytes.
#[derive(Clone)]
pub(super) struct AnswerSource {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: AnswerId,
    pub(super) content_type: HeaderValue,
    /// Formats an entry for the client.
    pub(super) write: fn(&Entry, &mut BytesMut),
    /// The longest wait of a client without bytes.
    pub(super) patience: Duration,
}

impl Query {
    /// Returns the position that the client names.
    pub(super) fn after(&self) -> Option<Position> {
        if let Offset::After(at) = self.offset {
            Some(at)
        } else {
            None
        }
    }

    /// Reads the parameters and headers of a request. `None`: the request has no parameter of the
    /// protocol.
    pub(super) fn of(query: Option<&str>, headers: &HeaderMap) -> Option<Result<Self, Refusal>> {
        let offsets: Vec<&str> = values(query, "offset").collect();
        let live = values(query, "live").next();
        if offsets.is_empty() && live.is_none() {
            return None;
        }
        let offset = match offsets[..] {
            [] => Err("`live` needs an `offset`: `-1` is the beginning, `now` the end"),
            [offset] => offset.parse().map_err(
                |NotAnId| "`offset` did not come from this proxy: send a `stream-next-offset`",
            ),
            _ => Err("`offset` is there more than once"),
        };
        let live = match live {
            None => Ok(None),
            Some("long-poll") => Ok(Some(LiveMode::LongPoll)),
            Some("sse") => Ok(Some(LiveMode::Sse)),
            Some(_) => Err("`live` is `long-poll` or `sse`"),
        };
        let read = |(offset, live)| Self {
            offset,
            live,
            cursor: values(query, "cursor")
                .next()
                .and_then(|cursor| cursor.parse().ok()),
            known: headers.get(IF_NONE_MATCH).cloned(),
        };
        let both = offset.and_then(|offset| Ok((offset, live?)));
        Some(
            both.map(read)
                .map_err(|why: &str| Refusal::of_mistake(why.to_owned())),
        )
    }
}

impl std::str::FromStr for Offset {
    type Err = NotAnId;

    fn from_str(written: &str) -> Result<Self, NotAnId> {
        match written {
            "-1" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            _ => {
                let (epoch, seq) = written.split_once('_').ok_or(NotAnId)?;
                format!("{epoch}-{seq}").parse().map(Self::After)
            }
        }
    }
}

/// Formats a position so that the texts sort as the positions do.
fn offset_of(at: Position) -> String {
    format!("{:020}_{:020}", at.epoch, at.seq)
}

/// The position of a response in the stream.
struct ReadPosition {
    next: Position,
    /// Nothing follows yet.
    is_up_to_date: bool,
    end: Option<End>,
}

impl ReadPosition {
    fn after(batch: &Batch, start: Position) -> Self {
        let next = batch.entries.last().map_or(start, |entry| entry.at);
        Self {
            next,
            is_up_to_date: !batch.has_more,
            end: batch.end,
        }
    }

    fn write(&self, headers: &mut HeaderMap) {
        set(headers, NEXT_OFFSET, &offset_of(self.next));
        if self.is_up_to_date {
            headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
        }
        describe_end(headers, self.end);
    }
}

/// Answers a request for bytes. `log`: the state of the answer in the store.
pub(super) async fn answer(
    source: AnswerSource,
    log: Log,
    query: Query,
) -> Result<Response<Body>, StoreError> {
    let start = match query.offset {
        Offset::Start => Position::START,
        Offset::Now => log.last,
        Offset::After(at) if at > log.last => return Err(StoreError::Ahead),
        Offset::After(at) => at,
    };
    match query.live {
        Some(LiveMode::Sse) => Events::answer(source, start, query.cursor).await,
        live => source.read(start, live, (query, log)).await,
    }
}

impl AnswerSource {
    /// Answers with the available bytes, or waits for some.
    async fn read(
        self,
        start: Position,
        live: Option<LiveMode>,
        (query, log): (Query, Log),
    ) -> Result<Response<Body>, StoreError> {
        // A client that has all of an ended answer does not renew its time.
        let has_all = log.end.is_some() && start == log.last && start != Position::START;
        let _reading = (!has_all).then(|| self.store.reading(self.id));
        let wait = if live.is_some() {
            self.patience
        } else {
            Duration::ZERO
        };
        let mut batch = match has_all {
            true => Batch {
                end: log.end,
                ..Batch::default()
            },
            false => self.batch(start, wait).await?,
        };
        let is_now = query.offset == Offset::Now;
        if is_now && live.is_none() && !batch.entries.is_empty() {
            // These entries arrived after the lookup that defined `now`, so they and the end after
            // them belong to the next request.
            batch = Batch {
                has_more: true,
                ..Batch::default()
            };
        }
        let place = ReadPosition::after(&batch, start);
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        place.write(headers);
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static(if is_now {
                // The response describes a moment.
                "no-store"
            } else {
                "private, no-cache"
            }),
        );
        if live.is_some() && place.end.is_none() {
            set(headers, CURSOR, &cursor(query.cursor));
        }
        if live.is_some() && batch.entries.is_empty() {
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        }
        if !is_now {
            let end = if place.end.is_some() { ":c" } else { "" };
            let tag = format!(
                "\"{}:{}:{}{end}\"",
                self.id,
                offset_of(start),
                offset_of(place.next)
            );
            set(headers, ETAG, &tag);
            // The client has these bytes, so they are not sent again.
            if query.known.is_some_and(|known| known == tag) {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                return Ok(response);
            }
        }
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        *response.body_mut() = Body::full(self.bytes(&batch));
        Ok(response)
    }

    /// Reads the available entries, or waits for some.
    async fn batch(&self, after: Position, wait: Duration) -> Result<Batch, StoreError> {
        match self.store.read_after(self.id, after, wait).await {
            // No process writes the answer, so no more entries are available now.
            Err(StoreError::Unwritten) => Ok(Batch::default()),
            read => read,
        }
    }

    fn bytes(&self, batch: &Batch) -> Bytes {
        let mut bytes = BytesMut::new();
        batch
            .entries
            .iter()
            .for_each(|entry| (self.write)(entry, &mut bytes));
        bytes.freeze()
    }
}

/// Describes an answer in the headers of a response without its bytes.
pub(super) fn describe(headers: &mut HeaderMap, log: Log) {
    set(headers, NEXT_OFFSET, &offset_of(log.last));
    describe_end(headers, log.end);
}

fn describe_end(headers: &mut HeaderMap, end: Option<End>) {
    if end.is_some() {
        headers.insert(CLOSED, HeaderValue::from_static("true"));
    }
    // The protocol has no header for a broken answer.
    if end == Some(End::Broken) {
        headers.insert(super::STATE, HeaderValue::from_static("broken"));
    }
}

/// Stops browsers from guessing another content type, and from loading the answer into pages of
/// other sites.
pub(super) fn protect(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

/// Returns the cursor that the client sends with its next request: the number of the current
/// interval, or more than the client's last cursor if that is not lower. So no cache answers the
/// next request with this response.
fn cursor(asked: Option<u64>) -> u64 {
    let since = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_secs()
        .saturating_sub(FIRST_INTERVAL);
    let interval = since / INTERVAL;
    match asked.filter(|asked| *asked >= interval) {
        Some(asked) => asked.saturating_add(
            1 + RandomState::new().build_hasher().finish() % (LONGEST_JITTER / INTERVAL),
        ),
        None => interval,
    }
}

/// 2024-10-09, in seconds: the protocol counts intervals from that date.
const FIRST_INTERVAL: u64 = 1_728_432_000;
/// Seconds of an interval.
const INTERVAL: u64 = 20;
/// The most seconds that a repeated cursor moves ahead.
const LONGEST_JITTER: u64 = 3600;

const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// The response headers that pages of other origins may read.
pub(super) const EXPOSED: &str = "etag, stream-next-offset, stream-up-to-date, stream-closed, stream-cursor, \
    x-restitch-state";
