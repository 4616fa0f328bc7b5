//! An answer as events of the protocol: `data` with the bytes, and `control` with the position
//! after them.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::unfold;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Span;

use super::{AnswerSource, ReadPosition, cursor, offset_of};
use crate::resume::follow::KEEP_ALIVE;
use crate::store::{Batch, End, Position, StoreError};
use restitch_http::{Body, BodyError};

/// The events after a position. Ends with the answer, or after [`LIFETIME`]; the client then
/// reconnects.
pub(super) struct Events {
    source: AnswerSource,
    after: Position,
    /// The cursor for the client's next request.
    cursor: u64,
    is_first: bool,
    until: Instant,
    is_over: bool,
    /// The span of the request.
    span: Span,
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
    /// Answers with the events. Reads the first ones before the response begins, so that a failure
    /// gets its own status.
    pub(super) async fn answer(
        source: AnswerSource,
        after: Position,
        asked: Option<u64>,
    ) -> Result<Response<Body>, StoreError> {
        let reading = source.store.reading(source.id);
        let first = source.batch(after, Duration::ZERO).await?;
        let mut events = Self {
            source,
            after,
            cursor: cursor(asked),
            is_first: true,
            until: Instant::now() + LIFETIME,
            is_over: false,
            span: Span::current(),
        };
        let first = events.take(&first);
        let stream = unfold((Some(first), events), |(first, mut events)| async move {
            let next = match first {
                Some(first) => Ok(first),
                None => events.next().await?,
            };
            Some((next, (None, events)))
        });
        let mut response = Response::new(Body::stream(reading.during(stream)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-store"),
        );
        Ok(response)
    }

    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        if self.is_over {
            return None;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let (source, wait) = (&self.source, self.source.patience.min(left));
        match source.store.read_after(source.id, self.after, wait).await {
            Ok(batch) => Some(Ok(self.take(&batch))),
            Err(error) => {
                // The client reconnects, and then gets the reason for the failure, or finds that
                // another process has resumed the answer.
                self.span
                    .in_scope(|| tracing::debug!(%error, "the events of a kept answer break off"));
                self.is_over = true;
                Some(Err("the answer cannot be read on".into()))
            }
        }
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
        self.is_over = place.end.is_some() || is_late;
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
