//! The body of a response, with the connection that brings it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connection::Connection;
use super::own_wakes::OwnWakes;
use super::pool::Pool;

/// The body of a response. Polling it polls its connection, which goes back to the pool after the last byte. Dropping it
/// earlier closes the connection.
#[derive(Debug)]
pub struct Received {
    body: Incoming,
    /// `None` after the last byte, or when the connection has ended.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    /// What follows the frame that was returned last, where it is known.
    next: Option<Item>,
    own_wakes: OwnWakes,
}

type Item = Option<Result<Frame<Bytes>, hyper::Error>>;

impl Received {
    pub(super) fn new(body: Incoming, connection: Connection, pool: Arc<Pool>) -> Self {
        let mut received = Self { body, connection: Some(connection), pool, next: None, own_wakes: OwnWakes::new() };
        if received.body.is_end_stream() {
            received.release();
        }
        received
    }

    /// Gives the connection back.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put(connection);
        }
    }

    /// Returns one frame as it comes.
    fn poll_one(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        let Self { body, connection, own_wakes, .. } = self;
        let item = ready!(own_wakes.poll(cx, |cx| {
            let item = Pin::new(&mut *body).poll_frame(cx);
            let Some(open) = connection.as_mut().filter(|_| item.is_pending()) else { return item };
            if open.poll(cx).is_ready() {
                *connection = None;
            }
            Pin::new(&mut *body).poll_frame(cx)
        }));
        if item.is_none() {
            self.release();
        }
        Poll::Ready(item)
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    /// Returns all bytes that are there, up to [`MOST_JOINED`], as one frame: what follows costs as much for each frame
    /// as for each byte.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let first = match ready!(self.poll_one(cx)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        let first = match first.into_data() {
            Ok(data) => data,
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        let mut more = BytesMut::new();
        while first.len() + more.len() < MOST_JOINED {
            match self.poll_one(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        if more.is_empty() {
                            more.extend_from_slice(&first);
                        }
                        more.extend_from_slice(&data);
                    }
                    Err(trailers) => self.next = Some(Some(Ok(trailers))),
                },
                Poll::Ready(end) => self.next = Some(end),
                Poll::Pending => break,
            }
            if self.next.is_some() {
                break;
            }
        }
        let joined = if more.is_empty() { first } else { more.freeze() };
        Poll::Ready(Some(Ok(Frame::data(joined))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.next {
            Some(next) => next.is_none(),
            None => self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes that are joined into one frame. A frame may be longer by what was read in one piece.
const MOST_JOINED: usize = 16 << 10;
