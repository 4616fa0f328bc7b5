//! One connection to the upstream. Nothing polls it but the caller who waits for an answer on it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Body;

/// What a connection reads from and writes to.
pub(super) type Io = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    sender: http1::SendRequest<Body>,
    driver: http1::Connection<Io, Body>,
    /// The driver has ended. It must not be polled again.
    is_over: bool,
}

impl Connection {
    /// Starts to speak HTTP/1.1. `max_buffer` bounds the bytes that are read ahead.
    pub(super) async fn handshake(io: Io, max_buffer: usize) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new().max_buf_size(max_buffer).handshake(io).await?;
        Ok(Self { sender, driver, is_over: false })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        let mut response = pin!(self.sender.send_request(request));
        let (driver, is_over) = (&mut self.driver, &mut self.is_over);
        std::future::poll_fn(|cx| {
            *is_over = *is_over || Pin::new(&mut *driver).poll(cx).is_ready();
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Reads and writes what can be read and written now. Ready when the connection has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // An error reaches the reader of the body.
        self.is_over = self.is_over || Pin::new(&mut self.driver).poll(cx).is_ready();
        if self.is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns whether another request can be sent now. An upstream that has closed its side in the meantime is noticed.
    pub(super) fn is_idle(&mut self) -> bool {
        self.poll(&mut Context::from_waker(Waker::noop())).is_pending() && self.sender.is_ready()
    }
}
