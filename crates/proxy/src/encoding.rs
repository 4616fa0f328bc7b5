//! Decodes answers that an upstream compresses although the request asked for `identity`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::zstd::params::DParameter;
use compression_codecs::{BrotliDecoder, DecodeV2, GzipDecoder, ZstdDecoder};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use super::refusal::Refusal;
use restitch_http::{BodyError, Received};

/// An unchanged response whose encoding has no decoder.
pub(super) struct UnknownEncoding {
    pub(super) response: Response<Received>,
    pub name: String,
}

/// The refusal of an answer that may have the operator's key, and can't be searched for it.
pub(super) const UNREADABLE: Refusal = Refusal::new(
    StatusCode::BAD_GATEWAY,
    "encoding",
    "the upstream answered in an encoding that the proxy did not ask for and can't read",
);

/// Returns the response with a body that can be read. Fails if there is no decoder for its
/// encoding.
pub(super) fn decoded(
    mut response: Response<Received>,
) -> Result<Response<DecodedBody>, Box<UnknownEncoding>> {
    let headers = response.headers_mut();
    let encoding = headers
        .get(CONTENT_ENCODING)
        .map(|name| String::from_utf8_lossy(name.as_bytes()).to_lowercase());
    let decoder = match encoding.as_deref().map(str::trim) {
        None | Some("" | "identity") => return Ok(response.map(DecodedBody::plain)),
        Some(name) => ContentDecoder::of(name),
    };
    let Some(decoder) = decoder else {
        return Err(Box::new(UnknownEncoding {
            response,
            name: encoding.unwrap_or_default(),
        }));
    };
    // The client gets the decoded bytes, since continuations are written without an encoding.
    headers.remove(CONTENT_ENCODING);
    // The header has the compressed length.
    headers.remove(CONTENT_LENGTH);
    Ok(response.map(|body| DecodedBody {
        body,
        decoder: Some(decoder),
        ahead: VecDeque::new(),
    }))
}

/// A response's body without its content encoding.
pub(super) struct DecodedBody {
    body: Received,
    /// `None` if the body is not encoded.
    decoder: Option<ContentDecoder>,
    /// Frames that were read ahead, and an error after them. Polling the body returns these first.
    ahead: VecDeque<Result<Frame<Bytes>, BodyError>>,
}

impl DecodedBody {
    pub(super) fn plain(body: Received) -> Self {
        Self {
            body,
            decoder: None,
            ahead: VecDeque::new(),
        }
    }

    /// Reads the next bytes without taking them. `None`: the body has ended, or has failed.
    pub(super) async fn read_ahead(&mut self) -> Option<Bytes> {
        let frame = poll_fn(|cx| self.poll_next(cx)).await?;
        let bytes = frame
            .as_ref()
            .ok()
            .map(|frame| frame.data_ref().cloned().unwrap_or_default());
        self.ahead.push_back(frame);
        bytes
    }

    /// Reads the next frame after those that were read ahead.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if let Some(decoder) = &mut self.decoder
                && let Some(data) = decoder.next()?
            {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                let end = self.decoder.as_ref().map_or(Ok(()), ContentDecoder::finish);
                return Poll::Ready(end.err().map(|error| Err(error.into())));
            };
            match (&mut self.decoder, frame.into_data()) {
                (Some(decoder), Ok(data)) => decoder.feed(data),
                (None, Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                (_, Err(trailers)) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
    }
}

impl Body for DecodedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this.ahead.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => this.poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        // A decoder may still hold bytes, or fail at the end.
        self.ahead.is_empty() && self.decoder.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self
            .ahead
            .iter()
            .filter_map(|frame| frame.as_ref().ok()?.data_ref());
        let ahead: u64 = ahead.map(|bytes| bytes.len() as u64).sum();
        let left = self
            .body
            .size_hint()
            .exact()
            // The length is that of the compressed bytes.
            .filter(|_| self.decoder.is_none());
        left.map(|left| SizeHint::with_exact(left.saturating_add(ahead)))
            .unwrap_or_default()
    }
}

/// Decodes compressed bytes, a bounded piece at a time: a few bytes may expand to many megabytes.
struct ContentDecoder {
    codec: Box<dyn DecodeV2 + Send>,
    input: Bytes,
    /// The last piece filled its buffer, so the codec may have more.
    is_full: bool,
    /// The encoding ends with a trailer, as gzip does. Such a codec fails when it must decode
    /// without input, so the decoder flushes it instead. The others report their end only together
    /// with their last bytes, and have no trailer.
    has_trailer: bool,
    /// The input may end here: no input has come yet, or a compressed member has just ended.
    is_whole: bool,
}

impl ContentDecoder {
    /// Returns the decoder of an encoding. Nested encodings have none.
    fn of(encoding: &str) -> Option<Self> {
        let codec: Box<dyn DecodeV2 + Send> = match encoding {
            "gzip" | "x-gzip" => Box::new(GzipDecoder::new()),
            "br" => Box::new(BrotliDecoder::new()),
            "zstd" => Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(
                ZSTD_WINDOW,
            )])),
            _ => return None,
        };
        let has_trailer = encoding.ends_with("gzip");
        Some(Self {
            codec,
            input: Bytes::new(),
            is_full: false,
            has_trailer,
            is_whole: true,
        })
    }

    /// Feeds compressed bytes. Call [`next`](Self::next) until it returns `None` before the next
    /// feed.
    fn feed(&mut self, input: Bytes) {
        debug_assert!(self.input.is_empty() && !self.is_full);
        self.input = input;
    }

    /// Returns the next decoded bytes. `None` if it needs more input.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() || self.is_full {
            let mut room = [0; PIECE];
            let mut output = WriteBuffer::new_initialized(&mut room);
            if self.input.is_empty() && self.has_trailer {
                self.codec.flush(&mut output)?;
            } else {
                if std::mem::take(&mut self.is_whole) {
                    // gzip and zstd allow several members, each whole by itself.
                    self.codec.reinit()?;
                }
                let mut input = PartialBuffer::new(&self.input[..]);
                self.is_whole = self.codec.decode(&mut input, &mut output)?;
                let read = input.written_len();
                self.input.advance(read);
            }
            self.is_full = output.has_no_spare_space() && !self.is_whole;
            if output.written_len() > 0 {
                return Ok(Some(Bytes::copy_from_slice(output.written())));
            }
        }
        Ok(None)
    }

    /// Fails if the input ended in the middle of a member.
    fn finish(&self) -> io::Result<()> {
        match self.is_whole {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the compressed body ended early",
            )),
        }
    }
}

// A few compressed bytes may expand to many megabytes, and the piece is on the stack.
/// The most bytes that one decoding step writes.
const PIECE: usize = 16 << 10;

// 8 MiB, the most that a sender may use in HTTP (RFC 9659). A larger window would
// let a few bytes reserve more memory.
/// The base-2 logarithm of the largest window that is accepted.
const ZSTD_WINDOW: u32 = 23;
