//! The body of a response: its frames, delayed, cut and dropped according to the script.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Sleep, sleep};

use super::serve::Open;
use restitch_http::server_socket::Cut;

/// The data frames of a body, in order.
pub(super) type Frames = Box<dyn Iterator<Item = Bytes> + Send>;

/// The body of a response that is being sent.
pub(super) struct Delivery {
    pub(super) frames: Frames,
    pub(super) ending: Ending,
    /// Bytes until the connection is cut, if it is cut at a byte.
    pub(super) left: Option<u64>,
    pub(super) delay: Duration,
    /// The wait before the next frame. `None` before the first frame, and if there is no delay.
    pub(super) pause: Option<Pin<Box<Sleep>>>,
    /// Makes the connection's socket close after its next flush.
    pub(super) cut: Cut,
    /// Counts the response as in progress until it is dropped.
    pub(super) _open: Open,
}

/// The behaviour after the last frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Clean,
    Cut,
    Stall,
}

impl Body for Delivery {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let frame = if this.left == Some(0) {
            None
        } else {
            this.frames.next()
        };
        let Some(mut frame) = frame else {
            let ending = if this.left == Some(0) {
                Ending::Cut
            } else {
                this.ending
            };
            return match ending {
                Ending::Clean => Poll::Ready(None),
                // Nothing wakes a stalled body. hyper still notices when the peer leaves, because
                // it keeps reading.
                Ending::Stall => Poll::Pending,
                // A body that is pending is followed by a flush, and the socket then closes: see
                // `Socket`.
                Ending::Cut => {
                    this.cut.ask();
                    Poll::Pending
                }
            };
        };
        if let Some(left) = &mut this.left {
            frame.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= frame.len() as u64;
        }
        if !this.delay.is_zero() {
            this.pause = Some(Box::pin(sleep(this.delay)));
        }
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }
}
