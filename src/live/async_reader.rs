//! Readers of tokio as streams of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;

use super::reader::{bytes, new_buffer};

/// The bytes of an [`AsyncRead`](tokio::io::AsyncRead)er of tokio, such as a socket or a file.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use restitch::live::{AsyncReader, LiveExt};
///
/// # let socket = &b"[1, 2]"[..];
/// let list: Vec<u8> = AsyncReader::new(socket).into_final().await.unwrap();
/// assert_eq!(list, [1, 2]);
/// # });
/// ```
#[derive(Debug)]
#[must_use = "a reader is read by an adapter"]
pub struct AsyncReader<R> {
    reader: Pin<Box<R>>,
    buffer: Box<[u8]>,
}

impl<R: tokio::io::AsyncRead> AsyncReader<R> {
    /// Returns a stream of the reader's bytes.
    pub fn new(reader: R) -> Self {
        Self {
            reader: Box::pin(reader),
            buffer: new_buffer(),
        }
    }
}

impl<R: tokio::io::AsyncRead> Stream for AsyncReader<R> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { reader, buffer } = self.get_mut();
        let mut filled = tokio::io::ReadBuf::new(buffer);
        let read = ready!(reader.as_mut().poll_read(cx, &mut filled));
        let read = read.map(|()| filled.filled().len());
        Poll::Ready(bytes(read, buffer))
    }
}
