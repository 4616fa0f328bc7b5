//! The body of a response, with the connection that brings it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::ConnectionError;
use super::connection::{Connection, Io, read};
use super::decoder::Decoder;
use super::outgoing::Outgoing;
use super::pool::Pool;

/// The body of a response. Polling it reads from its connection, which goes back to the pool after
/// the last byte. Dropping it earlier closes the connection. All bytes that have arrived form one
/// frame, since later stages have a cost for each frame, too.
#[derive(Debug)]
pub struct Received {
    /// `None` after the last byte, or an error.
    incoming: Option<Incoming>,
    /// The result of `poll_first`, for the next poll of the body.
    first: Option<First>,
}

/// The first item of a body: a frame, an error, or its end.
type First = Option<Result<Frame<Bytes>, ConnectionError>>;

/// A body that has not ended.
#[derive(Debug)]
struct Incoming {
    io: Box<Io>,
    /// The rest of the request: the upstream may answer before it has read all of the request.
    outgoing: Option<Outgoing>,
    decoder: Decoder,
    /// Bytes that came with the head.
    unread: Bytes,
    /// The pool to return the connection to. `None`: the connection is closed.
    pool: Option<Arc<Pool>>,
}

impl Received {
    pub(super) fn new(
        io: Box<Io>,
        outgoing: Option<Outgoing>,
        decoder: Decoder,
        unread: Bytes,
        pool: Option<Arc<Pool>>,
    ) -> Self {
        let mut incoming = Some(Incoming {
            io,
            outgoing,
            decoder,
            unread,
            pool,
        });
        if let Some(ended) = incoming.take_if(|incoming| incoming.decoder.is_at_end()) {
            let is_all = ended.unread.is_empty();
            ended.release(is_all);
        }
        Self {
            incoming,
            first: None,
        }
    }

    /// Waits for the first bytes without taking them. Returns whether there are any.
    pub fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.first.is_none() {
            self.first = Some(ready!(Pin::new(&mut *self).poll_frame(cx)));
        }
        Poll::Ready(matches!(self.first, Some(Some(Ok(_)))))
    }

    /// Returns the bytes that [`poll_first`](Self::poll_first) has found.
    pub fn first(&self) -> Option<&[u8]> {
        let frame = self.first.as_ref()?.as_ref()?.as_ref().ok()?;
        frame.data_ref().map(Bytes::as_ref)
    }

    /// Returns how many bytes were read before the body was polled.
    fn read_ahead(&self) -> u64 {
        self.first().map_or(0, |bytes| bytes.len() as u64)
    }
}

impl Incoming {
    /// Returns the next bytes of the body, and whether they are the last on the connection that
    /// belong to it. No bytes: the body has ended with its connection.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Bytes, bool), ConnectionError>> {
        if let Some(outgoing) = &mut self.outgoing
            && let Poll::Ready(sent) = outgoing.poll(&mut self.io, cx)
        {
            self.outgoing = None;
            if sent.is_err() {
                self.pool = None;
            }
        }
        loop {
            let decoder = &mut self.decoder;
            let mut decode = |input: &[u8]| {
                decoder
                    .decode(input)
                    .map(|(body, used)| (body, used == input.len()))
            };
            let decoded = if self.unread.is_empty() {
                ready!(read(&mut self.io, cx, decode)).map_err(ConnectionError::Io)?
            } else {
                Some(decode(&std::mem::take(&mut self.unread)))
            };
            match decoded.transpose()? {
                Some((body, _)) if body.is_empty() && !self.decoder.is_at_end() => {}
                Some(decoded) => return Poll::Ready(Ok(decoded)),
                None if matches!(self.decoder, Decoder::UntilClose) => {
                    return Poll::Ready(Ok((Bytes::new(), false)));
                }
                None => return Poll::Ready(Err(ConnectionError::Closed)),
            }
        }
    }

    /// Gives the connection back after the last byte. `is_all`: no bytes follow it.
    fn release(self, is_all: bool) {
        if let Some(pool) = self.pool.filter(|_| is_all && self.outgoing.is_none()) {
            pool.put(Connection::new(self.io));
        }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = ConnectionError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let polled = ready!(incoming.poll_bytes(cx));
        let has_ended = match &polled {
            Ok((bytes, _)) => bytes.is_empty() || incoming.decoder.is_at_end(),
            Err(_) => true,
        };
        let ended = self.incoming.take_if(|_| has_ended);
        let (bytes, is_all) = match polled {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        if let Some(ended) = ended {
            ended.release(is_all);
        }
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_none() && self.first.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.incoming {
            None => SizeHint::with_exact(self.read_ahead()),
            Some(incoming) => {
                let left = incoming.decoder.left().map(|left| left + self.read_ahead());
                left.map(SizeHint::with_exact).unwrap_or_default()
            }
        }
    }
}
