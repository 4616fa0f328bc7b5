//! Readers as streams of bytes.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::{Completed, Events, FinalError, IntoFinal, LiveError, LiveEvent, Snapshots};

/// The size of a read. A read of a socket or a pipe returns the bytes that have arrived, so a larger
/// buffer delays no value; a smaller one costs more calls.
const READ_BYTES: usize = 8 * 1024;

/// The bytes of a [`Read`]er, for programs without a runtime. Its live adapters are iterators that
/// block.
///
/// ```
/// use restitch::live::{LiveExt, Reader};
///
/// # let file = &br#"{"rows": [{"km": 51}, {"km": 3}]}"#[..];
/// #[derive(serde::Deserialize)]
/// struct Row {
///     km: u32,
/// }
///
/// let mut rows = Reader::new(file).completed::<Row>("/rows/*");
/// let mut sum = 0;
/// for row in &mut rows {
///     sum += row?.km;
/// }
/// assert_eq!((sum, rows.outcome().unwrap().as_str()), (54, "complete"));
///
/// let value: serde_json::Value = Reader::new(file).into_final().wait()?;
/// assert_eq!(value["rows"][1]["km"], 3);
/// # Ok::<(), restitch::live::LiveError<std::io::Error>>(())
/// ```
///
/// The adapters are streams, too: where a `StreamExt` is in scope, call `Iterator::next(&mut rows)`.
#[derive(Debug)]
#[must_use = "a reader is read by an adapter"]
pub struct Reader<R> {
    reader: R,
    buffer: Box<[u8]>,
}

pub(super) fn new_buffer() -> Box<[u8]> {
    vec![0; READ_BYTES].into()
}

/// Returns the bytes of a read; `None` at the end.
pub(super) fn bytes(read: io::Result<usize>, buffer: &[u8]) -> Option<io::Result<Bytes>> {
    match read {
        Ok(0) => None,
        read => Some(
            read.map(|length| Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
        ),
    }
}

impl<R: Read> Reader<R> {
    /// Returns a stream of the reader's bytes, which blocks when it is polled.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: new_buffer(),
        }
    }
}

// The reader is not pinned.
impl<R> Unpin for Reader<R> {}

impl<R: Read> Stream for Reader<R> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { reader, buffer } = self.get_mut();
        loop {
            match reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(bytes(read, buffer)),
            }
        }
    }
}

/// Blocks in each read: the stream below is never pending.
macro_rules! blocking {
    ($(impl<$($of:ident)?> $adapter:ty => $item:ty;)+) => {$(
        impl<R: Read $(, $of: DeserializeOwned)?> Iterator for $adapter {
            type Item = Result<$item, LiveError<io::Error>>;

            fn next(&mut self) -> Option<Self::Item> {
                match Pin::new(self).poll_next(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(item) => item,
                    Poll::Pending => None,
                }
            }
        }
    )+};
}

blocking! {
    impl<> Events<Reader<R>> => LiveEvent;
    impl<T> Snapshots<Reader<R>, T> => T;
    impl<T> Completed<Reader<R>, T> => T;
}

impl<R: Read, T: DeserializeOwned> IntoFinal<Reader<R>, T> {
    /// Reads to the end of the root, and returns it as a `T`: see
    /// [`into_final`](super::LiveExt::into_final).
    ///
    /// # Errors
    /// If the document is cut, malformed or not a `T`, and if a read fails.
    pub fn wait(mut self) -> Result<T, FinalError<io::Error>> {
        let read = self.read(&mut Context::from_waker(Waker::noop()));
        debug_assert!(read.is_ready(), "a read blocks");
        self.take_root()
    }
}
