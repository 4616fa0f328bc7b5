//! An answer as events of the protocol: `data` with the bytes, and `control` with the position
//! after them.

use std::future::ready;
use std::pin::Pin;
use std::task::{self, Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Span;

use super::{AnswerSource, ReadPosition, cursor, offset_of};
use crate::resume::follow::KEEP_ALIVE;
use crate::store::{Batch, End, Pending, Position, ReaderLease, StoreError};
use restitch_http::{Body, BodyError};

/// The events after a position. Ends with the answer, or after [`LIFETIME`]; the client then
/// reconnects.
pub(super) struct Events {
    source: AnswerSource,
    after: Position,
    /// The cursor for the client's next request.
    cursor: u64,
    /// Keeps the answer in the store until this response has its last bytes.
    _reading: ReaderLease,
    is_first: bool,
    until: Instant,
    state: ReadState,
    /// The span of the request.
    span: Span,
}

enum ReadState {
    Reading(Pending<'static, Batch>),
    Over,
}

/// The data of a `control` event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Control {
    stream_next_offset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_cursor: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    up_to_date: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream_closed: bool,
    /// Set if the answer broke off, since the protocol has no member for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    restitch_state: Option<&'static str>,
}

impl Events {
    /// Reads the first events before the response begins, so that a failure gets its own status.
    pub(super) async fn open(
        source: AnswerSource,
        after: Position,
        asked: Option<u64>,
    ) -> Result<Self, StoreError> {
        let reading = source.store.reading(source.id);
        let first = source.batch(after, Duration::ZERO).await;
        let state = ReadState::Reading(Box::pin(ready(Ok(first?))));
        let until = Instant::now() + LIFETIME;
        Ok(Self {
            source,
            after,
            cursor: cursor(asked),
            _reading: reading,
            is_first: true,
            until,
            state,
            span: Span::current(),
        })
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::stream(self));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-store"),
        );
        response
    }

    /// Takes a batch, and returns its bytes for the client.
    fn take(&mut self, batch: &Batch) -> Bytes {
        let mut out = BytesMut::new();
        if !batch.entries.is_empty() {
            write_data(&self.source.bytes(batch), &mut out);
        }
        let place = ReadPosition::after(batch, self.after);
        let is_late = Instant::now() >= self.until;
        if batch.entries.is_empty() && place.end.is_none() && !self.is_first {
            out.put_slice(KEEP_ALIVE);
        } else {
            self.write_control(&place, &mut out);
        }
        (self.is_first, self.after) = (false, place.next);
        self.state = match place.end.is_some() || is_late {
            true => ReadState::Over,
            false => {
                let left = self.until.saturating_duration_since(Instant::now());
                ReadState::Reading(read(
                    &self.source,
                    self.after,
                    self.source.patience.min(left),
                ))
            }
        };
        out.freeze()
    }

    fn write_control(&self, place: &ReadPosition, out: &mut BytesMut) {
        let is_closed = place.end.is_some();
        let control = Control {
            stream_next_offset: offset_of(place.next),
            stream_cursor: (!is_closed).then(|| self.cursor.to_string()),
            up_to_date: place.is_up_to_date,
            stream_closed: is_closed,
            restitch_state: (place.end == Some(End::Broken)).then_some("broken"),
        };
        // Serializing strings and booleans does not fail.
        let control = serde_json::to_string(&control).unwrap_or_default();
        out.put_slice(format!("event: control\ndata:{control}\n\n").as_bytes());
    }
}

impl Stream for Events {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let ReadState::Reading(reading) = &mut this.state else {
            return Poll::Ready(None);
        };
        match task::ready!(reading.as_mut().poll(cx)) {
            Ok(batch) => Poll::Ready(Some(Ok(this.take(&batch)))),
            Err(error) => {
                // The client reconnects, and then gets the reason for the failure, or finds that
                // another process has resumed the answer.
                this.span
                    .in_scope(|| tracing::debug!(%error, "the events of a kept answer break off"));
                this.state = ReadState::Over;
                Poll::Ready(Some(Err("the answer cannot be read on".into())))
            }
        }
    }
}

fn read(source: &AnswerSource, after: Position, wait: Duration) -> Pending<'static, Batch> {
    let (store, id) = (std::sync::Arc::clone(&source.store), source.id);
    Box::pin(async move { store.read_after(id, after, wait).await })
}

/// Writes text as an event. Splits at every type of line end, so that no text can end the event.
fn write_data(text: &[u8], out: &mut BytesMut) {
    out.put_slice(b"event: data\n");
    let mut rest = text;
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        // A client removes one space after the colon.
        out.put_slice(if line.starts_with(b" ") {
            b"data: "
        } else {
            b"data:"
        });
        out.put_slice(line);
        out.put_slice(b"\n");
        let Some(after) = after
            .strip_prefix(b"\r\n")
            .or_else(|| after.get(1..))
            .filter(|_| end.is_some())
        else {
            break;
        };
        rest = after;
    }
    out.put_slice(b"\n");
}

/// The time after which a client must reconnect, so that caches in between can merge clients.
const LIFETIME: Duration = Duration::from_secs(60);
