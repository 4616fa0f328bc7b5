//! A server's side of a connection that can be cut after its last byte.
//!
//! hyper closes the connection as soon as a body fails, and drops what it has buffered. But
//! "dropped after byte N" must mean that N bytes have left, however slowly the peer reads. So the
//! body only asks for the cut, and the socket fails at the next flush.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Asks a socket for a cut, which follows the flush of all earlier writes. Clones ask the same
/// socket.
#[derive(Clone, Debug, Default)]
pub struct Cut(Arc<AtomicBool>);

impl Cut {
    /// Asks for the cut.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A socket that fails at the first flush after a cut was asked for.
#[derive(Debug)]
pub struct Socket<S> {
    io: TokioIo<S>,
    cut: Cut,
}

impl<S> Socket<S> {
    /// Wraps a stream, whose cut `cut` asks for.
    pub fn new(stream: S, cut: Cut) -> Self {
        Self {
            io: TokioIo::new(stream),
            cut,
        }
    }

    /// Returns the wrapped stream.
    pub fn get_ref(&self) -> &S {
        self.io.inner()
    }
}

impl<S: AsyncRead + Unpin> Read for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> Write for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_flush(cx))?;
        if this.cut.0.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::Error::other("the connection was to be cut here")));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }
}
