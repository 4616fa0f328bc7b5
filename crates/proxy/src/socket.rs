//! A client's side of a connection: enforces its time limits, and notices when the client has left.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep_until};

use super::listener::{Closed, Transport};
use super::metrics::Metrics;
use super::refusal::Refusal;
use restitch::ServerLimits;
use restitch_http::PathError;
use restitch_http::server_socket::Socket;

/// The state of a connection. The socket and the answers share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<AtomicU8>);

/// The connection waits for a request.
const WAITING: u8 = 0;
/// The proxy is answering a request.
const ANSWERING: u8 = 1;
/// An answer has ended, and the socket has not noted it yet.
const ENDED: u8 = 2;

impl Activity {
    /// Notes that a request has arrived. The answer lasts until the returned guard is dropped.
    pub(super) fn begin(&self) -> BusyGuard {
        self.0.store(ANSWERING, Ordering::Relaxed);
        BusyGuard(self.clone())
    }

    fn is_answering(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ANSWERING
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WAITING
    }

    /// Returns whether an answer has ended since the last call.
    fn has_ended(&self) -> bool {
        self.0
            .compare_exchange(ENDED, WAITING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// A running answer.
#[derive(Debug)]
pub(super) struct BusyGuard(Activity);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.store(ENDED, Ordering::Relaxed);
    }
}

/// A socket that fails when its client is silent for too long, reads nothing for too long, or has
/// left.
///
/// hyper stops reading while its buffer holds bytes of a further request, and then does not notice
/// that the client has left. So this socket reads a little ahead during an answer.
pub(super) struct ClientSocket {
    socket: Socket<Transport>,
    activity: Activity,
    limits: ServerLimits,
    /// `None`: nothing is measured.
    metrics: Option<Arc<Metrics>>,
    incoming: IncomingBytes,
    silence: Timer,
    unread: Timer,
    /// The client was silent for too long.
    is_over: bool,
    outgoing: OutgoingBytes,
}

/// The state of the bytes that the client sends.
struct IncomingBytes {
    /// Bytes that were read ahead.
    ahead: BytesMut,
    /// Set once no more bytes are read ahead: a future that detects that the client has left.
    closed: Option<Closed>,
    /// hyper is waiting for bytes.
    is_awaited: bool,
    /// hyper has got bytes since the last flush, as while a body arrives: bytes that are read ahead
    /// then would come to hyper in small pieces.
    is_taken: bool,
    /// A head has begun: its first byte has arrived, or the connection is new. Otherwise the
    /// connection is idle between requests.
    is_in_head: bool,
}

/// The meaning of the bytes that hyper writes.
enum OutgoingBytes {
    /// All answers were sent. If hyper writes although no request has arrived, the bytes are its
    /// refusal of input that it could not parse.
    Nothing,
    /// Bytes of an answer.
    Answer,
    /// The unsent rest of the proxy's refusal, which replaces hyper's own, since that has no body.
    Refusal(Bytes),
}

impl ClientSocket {
    pub(super) fn new(
        socket: Socket<Transport>,
        activity: Activity,
        limits: ServerLimits,
        metrics: Option<Arc<Metrics>>,
    ) -> Self {
        Self {
            socket,
            activity,
            limits,
            metrics,
            incoming: IncomingBytes {
                ahead: BytesMut::new(),
                closed: None,
                is_awaited: false,
                is_taken: false,
                is_in_head: true,
            },
            silence: Timer::default(),
            unread: Timer::default(),
            is_over: false,
            outgoing: OutgoingBytes::Nothing,
        }
    }

    /// Notes the end of an answer, if one has ended.
    fn note_end(&mut self) {
        if self.activity.has_ended() {
            // hyper writes a short answer only after the answer has ended.
            self.outgoing = OutgoingBytes::Answer;
            self.incoming.is_in_head = false;
            self.silence.stop();
        }
    }

    /// Replaces hyper's refusal by the proxy's own. Returns whether the bytes are a refusal.
    fn replaces_refusal(&mut self, bytes: &[u8]) -> bool {
        if let OutgoingBytes::Nothing = self.outgoing {
            let refusal = if self.activity.is_waiting() {
                self.refusal(bytes)
            } else {
                None
            };
            let told = |refusal: Refusal| {
                OutgoingBytes::Refusal(refusal.plain(self.metrics.as_deref()).into())
            };
            self.outgoing = refusal.map_or(OutgoingBytes::Answer, told);
        }
        matches!(self.outgoing, OutgoingBytes::Refusal(_))
    }

    /// Returns the refusal that the client gets instead of hyper's.
    fn refusal(&self, bytes: &[u8]) -> Option<Refusal> {
        let status = bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
        match StatusCode::from_bytes(status).ok()? {
            StatusCode::BAD_REQUEST => Some(NO_HTTP),
            StatusCode::URI_TOO_LONG => Some(Refusal::from(PathError::TooLong)),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some(head_too_large(
                self.limits.max_head_bytes,
                self.limits.max_head_fields,
            )),
            _ => None,
        }
    }

    /// Writes the rest of a refusal.
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let OutgoingBytes::Refusal(rest) = &mut self.outgoing
            && !rest.is_empty()
        {
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Called while no bytes arrive. Is ready when the client has been silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client waits in silence for its answer.
        if self.activity.is_answering() {
            self.silence.stop();
            return Poll::Pending;
        }
        self.note_end();
        let wait = if self.incoming.is_in_head {
            self.limits.head_timeout
        } else {
            self.limits.unused_timeout
        };
        if self.is_over || !self.silence.is_over(cx, wait) {
            return Poll::Pending;
        }
        self.is_over = true;
        if self.incoming.is_in_head {
            // No answer is running, so the refusal can't mix with one. The connection ends now, so
            // unwritten bytes of the refusal are lost.
            let told = HEAD_TOO_SLOW.plain(self.metrics.as_deref());
            let written = Pin::new(&mut self.socket).poll_write(cx, told.as_bytes());
            let _ = written.is_ready() && Pin::new(&mut self.socket).poll_flush(cx).is_ready();
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Passes the result of a write on. Fails if the client has accepted no bytes for too long.
    fn poll_unread<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread.stop();
        } else if self.unread.is_over(cx, self.limits.write_timeout) {
            tracing::info!(limit = "write_timeout", "a client reads nothing");
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }

    /// Reads ahead. Fails if the client has left.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.activity.is_answering() {
            return Ok(());
        }
        if std::mem::take(&mut self.incoming.is_taken) {
            // hyper may take no more bytes: the next flush finds that out.
            if !self.incoming.is_awaited {
                cx.waker().wake_by_ref();
            }
            return Ok(());
        }
        // A client may send further requests without limit, so the rest stays in the kernel.
        if self.incoming.ahead.len() >= READ_AHEAD {
            let closed = self
                .incoming
                .closed
                .get_or_insert_with(|| self.socket.get_ref().closed());
            let has_left = closed.poll(cx).is_ready();
            return if has_left {
                Err(io::ErrorKind::ConnectionAborted.into())
            } else {
                Ok(())
            };
        }
        let mut buffer = [const { MaybeUninit::uninit() }; READ_AHEAD];
        let mut read = ReadBuf::uninit(&mut buffer);
        match Pin::new(&mut self.socket).poll_read(cx, read.unfilled()) {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(error),
            // A client that closes its side while its answer runs counts as gone.
            Poll::Ready(Ok(())) if read.filled().is_empty() => {
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Poll::Ready(Ok(())) => {
                self.incoming.ahead.extend_from_slice(read.filled());
                // hyper waits for bytes of the socket, which these are no longer.
                if self.incoming.is_awaited {
                    cx.waker().wake_by_ref();
                }
                Ok(())
            }
        }
    }
}

impl Read for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.incoming.ahead.is_empty() {
            this.incoming.closed = None;
            let length = buf.remaining().min(this.incoming.ahead.len());
            buf.put_slice(&this.incoming.ahead[..length]);
            this.incoming.ahead.advance(length);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut this.socket).poll_read(cx, buf);
        this.incoming.is_awaited = read.is_pending();
        if read.is_pending() {
            return this.poll_silence(cx);
        }
        this.incoming.is_taken = true;
        this.note_end();
        if !this.incoming.is_in_head && !this.activity.is_answering() {
            this.incoming.is_in_head = true;
            this.silence.stop();
        }
        read
    }
}

impl Write for ClientSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replaces_refusal(buf) {
            // The socket writes its refusal when hyper flushes.
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut this.socket).poll_write(cx, buf);
        this.poll_unread(cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper flushes whenever it waits for the next piece of an answer, and at the answer's end,
        // so each flush checks whether the client has left.
        this.poll_left(cx)?;
        if this.incoming.is_awaited
            && let Poll::Ready(over) = this.poll_silence(cx)
        {
            return Poll::Ready(over);
        }
        // TLS buffers encrypted bytes, so only a flush may show that a client reads nothing.
        let flushed = match this.poll_refusal(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut this.socket).poll_flush(cx),
            unfinished => unfinished,
        };
        if flushed.is_ready() {
            // A complete flush means that hyper has written all its bytes.
            this.note_end();
            if this.activity.is_waiting() && matches!(this.outgoing, OutgoingBytes::Answer) {
                this.outgoing = OutgoingBytes::Nothing;
            }
        }
        this.poll_unread(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

/// A timer that starts with the first call of `is_over`.
#[derive(Debug, Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Returns whether the time is over. Otherwise wakes the task when it is.
    fn is_over(&mut self, cx: &mut Context<'_>, wait: Duration) -> bool {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + wait)));
        sleep.as_mut().poll(cx).is_ready()
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

/// The most bytes that the socket reads ahead during an answer.
// On the stack of each poll, so it is small. Beyond it `closed` watches the client.
const READ_AHEAD: usize = 1024;

const HEAD_TOO_SLOW: Refusal = Refusal::new(
    StatusCode::REQUEST_TIMEOUT,
    "head_timeout",
    "the head of the request took too long: send it in one piece",
);

const NO_HTTP: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "no_http",
    "these bytes are no HTTP request: check the URL and the headers",
);

/// Names both limits, since hyper does not report which one was reached.
fn head_too_large(bytes: usize, fields: usize) -> Refusal {
    let message = format!(
        "the head of the request has more than {bytes} bytes (`max_head_bytes`) or {fields} headers (`max_head_fields`)"
    );
    Refusal::of(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "max_head_bytes",
        message,
    )
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use http_body_util::BodyExt;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use tokio::io::{AsyncRead, AsyncWrite};

    use super::*;
    use crate::listener::Stream;
    use restitch_http::server_socket::Cut;

    /// Accepts all bytes and flushes none, as TLS does when its client reads nothing.
    #[derive(Debug)]
    struct Stuck;

    impl Stream for Stuck {}

    impl AsyncRead for Stuck {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Stuck {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Has a request with a large body, as much of it as each read takes, and counts the reads.
    #[derive(Debug)]
    struct Large {
        rest: Bytes,
        reads: Arc<AtomicUsize>,
    }

    impl Stream for Large {}

    impl AsyncRead for Large {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let this = self.get_mut();
            if this.rest.is_empty() {
                return Poll::Pending;
            }
            this.reads.fetch_add(1, Ordering::Relaxed);
            let most = buf.remaining().min(this.rest.len());
            buf.put_slice(&this.rest.split_to(most));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Large {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// hyper flushes after each piece of a body that it gives to the service.
    #[tokio::test]
    async fn a_large_body_takes_few_reads() {
        const BODY: usize = 1 << 20;
        let head = format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {BODY}\r\n\r\n");
        let reads = Arc::<AtomicUsize>::default();
        let large = Large {
            rest: [head.into_bytes(), vec![b'x'; BODY]].concat().into(),
            reads: Arc::clone(&reads),
        };
        let (limits, activity) = (ServerLimits::default(), Activity::default());
        let socket = Socket::new(Box::new(large) as Transport, Cut::default());
        let socket = ClientSocket::new(socket, activity.clone(), limits, None);
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::cell::Cell::new(Some(tell));
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (answering, tell) = (activity.begin(), tell.take());
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let _ = tell.map(|tell| tell.send(body.len()));
                drop(answering);
                Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
            }
        });
        let mut builder = http1::Builder::new();
        builder.max_buf_size(128 << 10);
        tokio::select! {
            _ = builder.serve_connection(socket, service) => panic!("the connection has ended"),
            length = told => assert_eq!(length, Ok(BODY)),
        }
        let reads = reads.load(Ordering::Relaxed);
        assert!(reads <= 40, "{reads} reads");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_are_not_flushed_are_not_taken() {
        let limits = ServerLimits::default();
        let stuck = Socket::new(Box::new(Stuck) as Transport, Cut::default());
        let mut socket = ClientSocket::new(stuck, Activity::default(), limits.clone(), None);
        let began = Instant::now();
        poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, b"data: 1\n\n"))
            .await
            .unwrap();
        let error = poll_fn(|cx| Pin::new(&mut socket).poll_flush(cx))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= limits.write_timeout);
    }
}
