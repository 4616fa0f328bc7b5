//! Reads bodies up to a cap, and passes bodies on to a client so that a lost one ends the client's
//! connection.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tracing::Span;

use super::answers::Stopped;
use super::exchange::AccessLine;
use super::socket::BusyGuard;
use restitch::internal::limits::TimeLimit;
use restitch::session::CallEnd;
use restitch_http::server_socket::Cut;
use restitch_http::{self, BodyError};

/// A response body that delivers the bytes before an error to the client.
///
/// hyper closes the connection as soon as a body fails, and drops what it still holds for a slow
/// client. So a failed body only stops and requests the cut, and the
/// [`Socket`](restitch_http::server_socket::Socket) cuts the connection after the last byte.
///
/// hyper also copies each frame into a buffer that grows with the largest one, and that lives as
/// long as the connection. So a large frame leaves in pieces.
#[derive(Debug)]
pub(super) struct FlushThenCloseBody<B> {
    /// `None` after the body has failed.
    body: Option<B>,
    /// The rest of the last frame.
    rest: Bytes,
    cut: Cut,
    /// `None`: the request is not logged.
    line: Option<AccessLine>,
    /// Dropped with the body.
    _answering: BusyGuard,
}

impl<B: Body> FlushThenCloseBody<B> {
    pub(super) fn new(
        body: B,
        cut: Cut,
        mut line: Option<AccessLine>,
        answering: BusyGuard,
    ) -> Self {
        if let Some(line) = line.as_mut().filter(|_| body.is_end_stream()) {
            line.end();
        }
        Self {
            body: Some(body),
            rest: Bytes::new(),
            cut,
            line,
            _answering: answering,
        }
    }
}

/// Takes the next piece of a frame.
fn next_piece(rest: &mut Bytes) -> Frame<Bytes> {
    Frame::data(rest.split_to(rest.len().min(PIECE)))
}

/// The most bytes of a frame that hyper gets: as many as one read from an upstream returns.
const PIECE: usize = 64 << 10;

impl<B> Body for FlushThenCloseBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self {
            body: open,
            rest,
            cut,
            line,
            ..
        } = self.get_mut();
        if !rest.is_empty() {
            return Poll::Ready(Some(Ok(next_piece(rest))));
        }
        // The socket ends the connection. An end of the body would be an end of the answer.
        let Some(body) = open else {
            return Poll::Pending;
        };
        // Does not enter the request's span, since entering costs more than most polls. Code that
        // logs enters it itself.
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Some(line) = line {
                    line.add_frame(body, &frame);
                }
                let frame = match frame.into_data() {
                    Ok(data) => {
                        *rest = data;
                        next_piece(rest)
                    }
                    Err(trailers) => trailers,
                };
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                line.iter_mut().for_each(AccessLine::end);
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                let error: BodyError = error.into();
                if let Some(line) = line {
                    line.span()
                        .in_scope(|| tracing::debug!(%error, "the upstream broke off"));
                    line.break_off();
                }
                *open = None;
                cut.ask();
                // hyper flushes whenever a body is pending, so nothing else needs to wake it.
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.as_ref().is_some_and(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.as_ref().map(|body| body.size_hint());
        let hint = hint.unwrap_or_default();
        match hint.exact() {
            Some(left) => SizeHint::with_exact(left + self.rest.len() as u64),
            None => hint,
        }
    }
}

/// A body that was read up to a cap.
pub(super) enum Collected {
    Whole(Bytes),
    /// The body is larger than the cap: the bytes that were read, then the rest.
    Larger(restitch_http::Body),
}

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadError {
    /// The body failed: usually the connection was lost.
    Dropped,
    /// No bytes came for the time of this limit.
    TimedOut(TimeLimit),
    /// There is no room for more bytes.
    NoRoom,
}

impl ReadError {
    /// Returns the end of a call whose body could not be read.
    pub(super) fn end(self) -> CallEnd {
        match self {
            Self::Dropped | Self::NoRoom => CallEnd::Dropped,
            Self::TimedOut(limit) => limit.into(),
        }
    }
}

impl Collected {
    /// Reads a body, or its first bytes if it is larger than `cap`. `timeouts`: the limits of the
    /// first read and of each further read. Fails when `has_room` refuses the length of a frame.
    pub(super) async fn read<B>(
        mut body: B,
        cap: usize,
        timeouts: Option<[TimeLimit; 2]>,
        mut has_room: impl FnMut(usize) -> bool,
    ) -> Result<Self, ReadError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BodyError>,
    {
        // A body that announces a larger size passes unread: no byte of it is kept.
        if body.size_hint().lower() > cap as u64 {
            return Ok(Self::Larger(restitch_http::Body::wrap(body)));
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
        // A peer can announce a large body and send nothing, so the first reservation has a limit.
        let mut read = BytesMut::with_capacity(announced.min(MOST_RESERVED));
        loop {
            let frame = match timeouts {
                Some([first, idle]) => {
                    // A model may think before its first byte for longer than between two bytes.
                    let limit = if read.is_empty() { first } else { idle };
                    timeout(limit.time, body.frame())
                        .await
                        .map_err(|_| ReadError::TimedOut(limit))?
                }
                None => body.frame().await,
            };
            let Some(frame) = frame else {
                return Ok(Self::Whole(read.freeze()));
            };
            let frame = frame.map_err(|error| {
                let error: BodyError = error.into();
                error
                    .downcast_ref::<Silent>()
                    .map_or(ReadError::Dropped, |silent| ReadError::TimedOut(silent.0))
            })?;
            if let Ok(data) = frame.into_data() {
                if !has_room(data.len()) {
                    return Err(ReadError::NoRoom);
                }
                if read.capacity() - read.len() < data.len() {
                    // Growing in small steps would copy the bytes several times.
                    let announced = announced.saturating_sub(read.len());
                    read.reserve(data.len().max(announced.min(3 * read.len())));
                }
                read.extend_from_slice(&data);
            }
            if read.len() > cap {
                return Ok(Self::Larger(restitch_http::Body::wrap(Replayed {
                    read: Some(read.freeze()),
                    rest: body,
                })));
            }
        }
    }
}

/// The most bytes that are reserved for a body before any has arrived. Later, its buffer has at most
/// four times the bytes that have.
const MOST_RESERVED: usize = 2 << 20;

/// A body that fails if no bytes come for too long, or when the operator ends it.
pub(super) struct IdleTimeoutBody<B> {
    body: B,
    stopped: Stopped,
    limit: TimeLimit,
    /// The span of the request.
    span: Span,
    /// The deadline of the current silence. `None`: the last poll brought bytes.
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> IdleTimeoutBody<B> {
    pub(super) fn new(body: B, limit: TimeLimit) -> Self {
        Self {
            body,
            stopped: Stopped::never(),
            limit,
            span: Span::current(),
            due: None,
            timer: None,
        }
    }

    /// Ends the body when the operator has stopped its answer.
    pub(super) fn until(self, stopped: Stopped) -> Self {
        Self { stopped, ..self }
    }

    /// Is ready when the silence is too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let far = || Instant::now() + FOREVER;
        let due = *self.due.get_or_insert_with(|| {
            Instant::now()
                .checked_add(self.limit.time)
                .unwrap_or_else(far)
        });
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // Most silences are short, and resetting a timer is the most expensive step here. So the
        // timer keeps an earlier deadline, and is reset only after that has passed.
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

/// Replaces a limit that is too large for the clock.
// 34 years: the sum of now and `Duration::MAX` would overflow.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The error of a body that sent no bytes for too long. It names the limit.
#[derive(Debug)]
struct Silent(TimeLimit);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no bytes came for too long (`{}`)", self.0.name)
    }
}

impl std::error::Error for Silent {}

/// Returns whether a body failed because no bytes came for too long.
pub(super) fn is_silence(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<Silent>()
}

impl<B> Body for IdleTimeoutBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.stopped.poll_once(cx) {
            return Poll::Ready(Some(Err("the answer was stopped".into())));
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.due = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(this.poll_silence(cx));
        this.span
            .in_scope(|| tracing::warn!(limit = this.limit.name, "a body stopped"));
        Poll::Ready(Some(Err(Silent(this.limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Yields the bytes that were read, then the rest.
struct Replayed<B> {
    read: Option<Bytes>,
    rest: B,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Replayed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Activity;

    /// hyper's buffer has room for the largest frame, as long as the connection lives.
    #[tokio::test]
    async fn a_large_body_leaves_in_pieces() {
        let whole: Bytes = (0..=u8::MAX).cycle().take(10 * PIECE + 1).collect();
        let body = restitch_http::Body::full(whole.clone());
        let mut body =
            FlushThenCloseBody::new(body, Cut::default(), None, Activity::default().begin());
        let (mut pieces, mut sent) = (0, BytesMut::new());
        while !body.is_end_stream() {
            let left = (whole.len() - sent.len()) as u64;
            assert_eq!(body.size_hint().exact(), Some(left));
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(frame.len() <= PIECE);
            pieces += 1;
            sent.extend_from_slice(&frame);
        }
        assert_eq!((pieces, sent.freeze()), (11, whole));
    }
}
