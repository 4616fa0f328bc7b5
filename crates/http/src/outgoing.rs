//! Writes a request to the upstream.

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request;
use hyper::body::Body as _;
use tokio::io::AsyncWrite;

use super::connection::Io;
use super::{Body, ConnectionError};

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The bytes to send before the next frame of the body: the head or the line of a chunk, data,
    /// the end of a chunk.
    pending: [Bytes; 3],
    /// `None` after its last frame.
    body: Option<Body>,
    framing: RequestFraming,
}

/// How the request marks the end of its body.
#[derive(Clone, Copy, Debug)]
enum RequestFraming {
    /// The number of bytes that the body still lacks.
    Length(u64),
    Chunks,
}

impl Outgoing {
    /// Starts a request. The framing depends on its body, and not on its headers. The request's
    /// line has the path of its address alone.
    pub(super) fn new(parts: &request::Parts, body: Body) -> Self {
        let framing = match body.size_hint().exact() {
            Some(length) => RequestFraming::Length(length),
            None => RequestFraming::Chunks,
        };
        let mut head = BytesMut::with_capacity(TYPICAL_HEAD);
        head.extend_from_slice(parts.method.as_str().as_bytes());
        head.extend_from_slice(b" ");
        head.extend_from_slice(
            parts
                .uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .as_bytes(),
        );
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let own = [CONTENT_LENGTH, TRANSFER_ENCODING];
        for (name, value) in parts.headers.iter().filter(|(name, _)| !own.contains(name)) {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        // Writing to memory does not fail.
        let _ = match framing {
            // A method without a body of its own needs no length.
            RequestFraming::Length(0)
                if parts.method.is_safe() || parts.method == http::Method::DELETE =>
            {
                Ok(())
            }
            RequestFraming::Length(length) => write!(head, "content-length: {length}\r\n"),
            RequestFraming::Chunks => head.write_str("transfer-encoding: chunked\r\n"),
        };
        head.extend_from_slice(b"\r\n");
        let body = Some(body).filter(|_| !matches!(framing, RequestFraming::Length(0)));
        Self {
            pending: [head.freeze(), Bytes::new(), Bytes::new()],
            body,
            framing,
        }
    }

    /// Writes until the socket would block. Ready when everything has been written.
    pub(super) fn poll(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        loop {
            self.fill(cx)?;
            if !self.pending.iter().any(Buf::has_remaining) {
                break;
            }
            ready!(self.poll_write(Pin::new(&mut *io), cx)).map_err(ConnectionError::Io)?;
        }
        // No bytes are ready: the body has ended, or its next frame is not there yet.
        ready!(Pin::new(io).poll_flush(cx)).map_err(ConnectionError::Io)?;
        if self.body.is_none() {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    /// Takes the next frame of the body if there is room for it. The first goes out together with
    /// the head.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionError> {
        while let Some(body) = self
            .body
            .as_mut()
            .filter(|_| self.pending[1..].iter().all(Bytes::is_empty))
        {
            let data = match Pin::new(body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(error))) => return Err(ConnectionError::Body(error)),
                Poll::Ready(None) => {
                    self.body = None;
                    match self.framing {
                        RequestFraming::Length(0) => {}
                        RequestFraming::Length(_) => return Err(ConnectionError::BodyLength),
                        RequestFraming::Chunks => {
                            self.pending[2] = Bytes::from_static(b"0\r\n\r\n");
                        }
                    }
                    break;
                }
            };
            if data.is_empty() {
                continue;
            }
            if let RequestFraming::Length(left) = &mut self.framing {
                *left = left
                    .checked_sub(data.len() as u64)
                    .ok_or(ConnectionError::BodyLength)?;
            } else {
                let line = format!("{:x}\r\n", data.len());
                self.pending[0] = [&self.pending[0][..], line.as_bytes()].concat().into();
                self.pending[2] = Bytes::from_static(b"\r\n");
            }
            self.pending[1] = data;
            // Dropping the body now signals its end to a task that awaits it.
            if matches!(self.framing, RequestFraming::Length(0)) {
                self.body = None;
            }
        }
        Ok(())
    }

    fn poll_write(&mut self, io: Pin<&mut Io>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let slices = self.pending.each_ref().map(|bytes| IoSlice::new(bytes));
        let mut written = match ready!(io.poll_write_vectored(cx, &slices))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => written,
        };
        for bytes in &mut self.pending {
            let length = written.min(bytes.len());
            bytes.advance(length);
            written -= length;
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes that are reserved for a head.
const TYPICAL_HEAD: usize = 512;
