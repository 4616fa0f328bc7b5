//! Finds the end of a response's body, and the bytes that belong to it.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version, response};

use super::ConnectionError;
use super::chunked::Chunked;

/// A decoder for a response's body.
#[derive(Debug)]
pub(super) enum Decoder {
    /// The number of missing bytes.
    Length(u64),
    Chunked(Chunked),
    /// The body ends with the connection.
    UntilClose,
}

impl Decoder {
    /// Returns the decoder of a response's body ([RFC 9112, section
    /// 6.3](https://www.rfc-editor.org/rfc/rfc9112#section-6.3)).
    pub(super) fn of(method: &Method, head: &response::Parts) -> Result<Self, ConnectionError> {
        let is_chunked = is_chunked(head)?;
        if *method == Method::HEAD
            || matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            )
        {
            return Ok(Self::Length(0));
        }
        if is_chunked {
            return Ok(Self::Chunked(Chunked::default()));
        }
        Ok(length(&head.headers)?.map_or(Self::UntilClose, Self::Length))
    }

    /// Returns the bytes of the body in `input`, and how many bytes of `input` belong to it: fewer
    /// than all when its end is among them.
    pub(super) fn decode(&mut self, input: &[u8]) -> Result<(Bytes, usize), ConnectionError> {
        match self {
            Self::Length(left) => {
                let length =
                    usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= length as u64;
                Ok((copied(&input[..length]), length))
            }
            Self::Chunked(chunked) => {
                let (body, length) = frame(input.len(), |body| chunked.decode(input, body));
                Ok((body, length?))
            }
            Self::UntilClose => Ok((copied(input), input.len())),
        }
    }

    /// Returns whether the body has ended, whatever follows on the connection.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_at_end(),
            Self::UntilClose => false,
        }
    }

    /// Returns the number of missing bytes of the body, if it is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }
}

/// Returns a copy of `bytes`, as a frame.
fn copied(bytes: &[u8]) -> Bytes {
    frame(bytes.len(), |body| body.extend_from_slice(bytes)).0
}

/// Returns the bytes that `write` appends, at most `most`, and its result. Small frames are slices
/// of their thread's block, so that a frame needs no memory of its own.
fn frame<T>(most: usize, write: impl FnOnce(&mut BytesMut) -> T) -> (Bytes, T) {
    if most > LARGE_FRAME {
        let mut frame = BytesMut::with_capacity(most);
        let written = write(&mut frame);
        return (frame.freeze(), written);
    }
    BLOCK.with_borrow_mut(|block| {
        // Begins the block anew once its frames are gone, or takes another one of the same size.
        block.reserve(most);
        let written = write(block);
        (block.split().freeze(), written)
    })
}

thread_local! {
    /// The memory that small frames of all connections of a thread are slices of.
    static BLOCK: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BLOCK_BYTES));
}

/// The bytes of a block. A frame that a slow client holds up keeps its block in memory.
const BLOCK_BYTES: usize = 16 << 10;

/// The most bytes of a frame in a block. The memory of a larger one is its own: it would end the
/// block early.
const LARGE_FRAME: usize = BLOCK_BYTES / 4;

/// Returns whether a body is chunked. Any other transfer coding is an error: its name belongs to
/// this connection, so the proxy's client could not remove it.
fn is_chunked(head: &response::Parts) -> Result<bool, ConnectionError> {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(false);
    };
    let is_chunked = coding
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"chunked");
    match is_chunked && codings.next().is_none() && head.version == Version::HTTP_11 {
        true => Ok(true),
        false => Err(ConnectionError::Invalid("its transfer coding is not known")),
    }
}

/// Returns the announced length of a body. Several that agree count as one.
fn length(headers: &HeaderMap) -> Result<Option<u64>, ConnectionError> {
    let mut announced = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let text = value.to_str().unwrap_or_default().trim();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let length = text.parse::<u64>().ok().filter(|_| is_number);
        match length {
            Some(length) if announced.is_none_or(|other| other == length) => {
                announced = Some(length);
            }
            _ => {
                return Err(ConnectionError::Invalid(
                    "its content length is not one number",
                ));
            }
        }
    }
    Ok(announced)
}

/// Returns whether the connection may bring another response after this one.
pub(super) fn stays_open(head: &response::Parts) -> bool {
    let headers = &head.headers;
    // Two lengths may mean different bodies to a server on the way.
    let is_framed_twice =
        headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    let has = |wanted: &str| {
        let values = headers
            .get_all(CONNECTION)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    let is_kept = if head.version == Version::HTTP_11 {
        !has("close")
    } else {
        has("keep-alive")
    };
    is_kept && !is_framed_twice
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;

    use super::*;

    #[test]
    fn small_frames_allocate_nothing_and_keep_a_block_in_memory_at_most() {
        let chunk = format!("40\r\n{}\r\n", "x".repeat(0x40));
        for mut decoder in [Decoder::Chunked(Chunked::default()), Decoder::UntilClose] {
            let mut next = || decoder.decode(chunk.as_bytes()).unwrap().0;
            next();
            let cost = measure(|| (0..1000).for_each(|_| drop(next())));
            assert_eq!(cost.count_total, 0, "{cost:?}");
            let mut held = Vec::with_capacity(100);
            let cost = measure(|| {
                for _ in 0..100 {
                    held.push(next());
                    (0..1000).for_each(|_| drop(next()));
                }
            });
            // A block has a counter of its owners, which is allocated separately.
            let most = held.len() * (BLOCK_BYTES + 64);
            assert!(cost.bytes_current as usize <= most, "{cost:?}");
        }
    }

    #[test]
    fn a_large_frame_has_memory_of_its_own() {
        let bytes = [b'x'; 3 * BLOCK_BYTES];
        for size in [LARGE_FRAME, LARGE_FRAME + 1, bytes.len()] {
            let mut frame = Bytes::new();
            let cost = measure(|| frame = copied(&bytes[..size]));
            assert_eq!(frame, &bytes[..size]);
            assert!(
                cost.bytes_current as usize <= size.max(BLOCK_BYTES) + 64,
                "{size}: {cost:?}"
            );
        }
    }

    fn of(
        method: &Method,
        status: u16,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<u64>, String> {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let head = response.body(()).unwrap().into_parts().0;
        let decoder = Decoder::of(method, &head).map_err(|error| error.to_string())?;
        Ok(match decoder {
            Decoder::Length(left) => Some(left),
            Decoder::Chunked(_) => Some(u64::MAX),
            Decoder::UntilClose => None,
        })
    }

    #[test]
    fn bodies_end_as_their_heads_say() {
        const CHUNKS: Option<u64> = Some(u64::MAX);
        let get = |headers: &[(&'static str, &'static str)]| of(&Method::GET, 200, headers);
        assert_eq!(get(&[]), Ok(None));
        assert_eq!(get(&[("content-length", "5")]), Ok(Some(5)));
        assert_eq!(
            get(&[("content-length", "5"), ("content-length", " 5")]),
            Ok(Some(5))
        );
        assert_eq!(get(&[("transfer-encoding", "Chunked")]), Ok(CHUNKS));
        assert_eq!(
            get(&[("transfer-encoding", "chunked"), ("content-length", "5")]),
            Ok(CHUNKS)
        );
        for headers in [
            &[("content-length", "5"), ("content-length", "6")][..],
            &[("content-length", "+5")],
            &[("content-length", "5, 5")],
            &[("content-length", "")],
            &[("content-length", "99999999999999999999")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "identity")],
            &[
                ("transfer-encoding", "chunked"),
                ("transfer-encoding", "chunked"),
            ],
        ] {
            assert!(get(headers).is_err(), "{headers:?}");
        }
        for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::POST, 304)] {
            assert_eq!(
                of(&method, status, &[("content-length", "5")]),
                Ok(Some(0)),
                "{method} {status}"
            );
        }
    }
}
