//! Finds the end of a response's body, and the bytes that belong to it.

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
                Ok((Bytes::copy_from_slice(&input[..length]), length))
            }
            Self::Chunked(chunked) => {
                let mut body = BytesMut::with_capacity(input.len());
                let length = chunked.decode(input, &mut body)?;
                Ok((body.freeze(), length))
            }
            Self::UntilClose => Ok((Bytes::copy_from_slice(input), input.len())),
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
    use super::*;

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
