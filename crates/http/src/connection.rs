//! One connection to the upstream. Nothing polls it but the caller who waits for an answer on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use http::{Response, request};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::decoder::{Decoder, stays_open};
use super::head::Head;
use super::outgoing::Outgoing;
use super::pool::Pool;
use super::{Body, ConnectionError, Error, Received};

/// The stream under a connection.
pub(super) type Io = Either<TcpStream, TlsStream<TcpStream>>;

/// An idle connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    io: Box<Io>,
}

impl Connection {
    pub(super) fn new(io: Box<Io>) -> Self {
        Self { io }
    }

    /// Sends a request and waits for the head of its response. The connection goes back to `pool`
    /// after the response.
    pub(super) async fn send(
        mut self,
        request: &request::Parts,
        body: Body,
        pool: &Arc<Pool>,
    ) -> Result<Response<Received>, Error> {
        let mut outgoing = Some(Outgoing::new(request, body));
        let (mut head, mut unsent) = (Head::default(), None);
        let parts =
            poll_fn(|cx| poll_head(&mut self.io, &mut outgoing, &mut head, &mut unsent, cx)).await;
        let parts = match parts {
            Ok(parts) => parts,
            // The failed write is the reason why no answer came.
            Err(Error::Failed(error)) if head.is_empty() && error.is_of_connection() => {
                return Err(Error::Unanswered(unsent.unwrap_or(error)));
            }
            Err(error) => return Err(error),
        };
        let decoder = Decoder::of(&request.method, &parts)?;
        let stays_open = stays_open(&parts) && unsent.is_none();
        let body = Received::new(
            self.io,
            outgoing,
            decoder,
            head.rest(),
            stays_open.then(|| Arc::clone(pool)),
        );
        Ok(Response::from_parts(parts, body))
    }

    /// Returns whether another request can be sent now. False if the upstream has closed its side
    /// in the meantime, or has sent unrequested bytes.
    pub(super) fn is_idle(&mut self) -> bool {
        read(
            &mut self.io,
            &mut Context::from_waker(Waker::noop()),
            |_| (),
        )
        .is_pending()
    }
}

/// Writes and reads until the socket would block or the head of the response is complete. An
/// upstream may answer and close before it has read the whole request, so an error while writing
/// (`unsent`) counts only if no answer comes.
fn poll_head(
    io: &mut Io,
    outgoing: &mut Option<Outgoing>,
    head: &mut Head,
    unsent: &mut Option<ConnectionError>,
    cx: &mut Context<'_>,
) -> Poll<Result<http::response::Parts, Error>> {
    match outgoing.as_mut().map(|outgoing| outgoing.poll(io, cx)) {
        Some(Poll::Ready(Err(error))) if !error.is_of_connection() => {
            return Poll::Ready(Err(error.into()));
        }
        Some(Poll::Ready(result)) => (*outgoing, *unsent) = (None, result.err()),
        Some(Poll::Pending) | None => {}
    }
    loop {
        let read = ready!(read(io, cx, |bytes| head.push(bytes))).map_err(ConnectionError::Io)?;
        if read.is_none() {
            return Poll::Ready(Err(ConnectionError::Closed.into()));
        }
        if let Some(parts) = head.take()? {
            return Poll::Ready(Ok(parts));
        }
    }
}

/// Reads the bytes that have arrived and passes them to `take`. `None`: the connection has ended.
pub(super) fn read<T>(
    io: &mut Io,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<Option<T>>> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(BUFFER_BYTES, 0);
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
        let bytes = buffer.filled();
        Poll::Ready(Ok(if bytes.is_empty() {
            None
        } else {
            Some(take(bytes))
        }))
    })
}

thread_local! {
    /// The buffer that all connections of a thread read into, so that a waiting connection needs
    /// none.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The most bytes per read. Each thread has a single buffer, so a large one is cheap.
const BUFFER_BYTES: usize = 64 << 10;
