//! Reads the head of a response.

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version, response};
use hyper::ext::ReasonPhrase;
use memchr::memmem;

use super::{ConnectionError, Error};

/// The bytes of a head that have arrived.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: BytesMut,
    /// The head does not end before this.
    searched: usize,
    informational: u32,
}

impl Head {
    /// Appends bytes of the connection.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns whether the connection has brought no byte of a response.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.informational == 0
    }

    /// Returns the head once it is complete. The bytes after it stay in [`rest`](Self::rest).
    /// Informational responses (1xx) are skipped.
    pub(super) fn take(&mut self) -> Result<Option<response::Parts>, Error> {
        loop {
            // Empty lines may precede a head.
            let blank = self
                .bytes
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            let line = &self.bytes[blank..];
            if !START.starts_with(&line[..line.len().min(START.len())]) {
                return Err(
                    ConnectionError::Invalid("it does not begin like one of HTTP/1").into(),
                );
            }
            let Some(end) = self.end(blank) else {
                return if self.bytes.len() > MOST_BYTES {
                    Err(LARGE.into())
                } else {
                    Ok(None)
                };
            };
            if end > MOST_BYTES {
                return Err(LARGE.into());
            }
            let head = parse(&self.bytes.split_to(end).freeze())?;
            self.searched = 0;
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(ConnectionError::Invalid(
                    "it switches protocols, which was not asked for",
                )
                .into());
            }
            if !head.status.is_informational() {
                return Ok(Some(head));
            }
            self.informational += 1;
            if self.informational > MOST_INFORMATIONAL {
                return Err(Error::Informational);
            }
        }
    }

    /// Returns the bytes after the head.
    pub(super) fn rest(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Returns where the empty line after the head ends, which begins at `start`.
    fn end(&mut self, start: usize) -> Option<usize> {
        let from = self.searched.max(start);
        self.searched = self.bytes.len().saturating_sub(2);
        let new = &self.bytes[from..];
        let ends = [&b"\n\r\n"[..], b"\n\n"]
            .map(|line| memmem::find(new, line).map(|at| from + at + line.len()));
        ends.into_iter().flatten().min()
    }
}

/// Parses a head that is there as a whole.
fn parse(bytes: &Bytes) -> Result<response::Parts, ConnectionError> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => {
            return Err(ConnectionError::Invalid(
                "its head has an empty line too early",
            ));
        }
        Err(httparse::Error::TooManyHeaders) => return Err(LARGE),
        Err(_) => return Err(ConnectionError::Invalid("its head is not valid")),
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        // The value shares the head's memory.
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(ConnectionError::Invalid("a header is not valid"));
        };
        headers.append(name, value);
    }
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(ConnectionError::Invalid("its status is not valid"))?;
    let (mut head, ()) = Response::new(()).into_parts();
    head.version = if parsed.version == Some(0) {
        Version::HTTP_10
    } else {
        Version::HTTP_11
    };
    head.status = status;
    head.headers = headers;
    if let Some(reason) = parsed
        .reason
        .filter(|reason| status.canonical_reason() != Some(reason))
        && let Ok(reason) = ReasonPhrase::try_from(reason.as_bytes())
    {
        head.extensions.insert(reason);
    }
    Ok(head)
}

/// The first bytes of every head.
const START: &[u8] = b"HTTP/1.";
/// The most bytes of a head.
const MOST_BYTES: usize = 64 << 10;
/// The most header fields of a head.
const MOST_FIELDS: usize = 100;
/// The most informational responses per call. Servers send one or two: `100 Continue`,
/// `103 Early Hints`.
pub(super) const MOST_INFORMATIONAL: u32 = 8;

const LARGE: ConnectionError =
    ConnectionError::Invalid("its head has more than 64 KiB or 100 fields");

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a head in pieces of `size` bytes. Returns it, the bytes after it, and the last bytes
    /// that were not read.
    fn read(text: &str, size: usize) -> Result<Option<(response::Parts, Bytes)>, String> {
        let mut head = Head::default();
        let mut pieces = text.as_bytes().chunks(size);
        while let Some(piece) = pieces.next() {
            head.push(piece);
            if let Some(parts) = head.take().map_err(|error| error.to_string())? {
                let rest = [&head.rest()[..], &pieces.collect::<Vec<_>>().concat()].concat();
                return Ok(Some((parts, rest.into())));
            }
        }
        Ok(None)
    }

    #[test]
    fn heads_in_any_pieces() {
        for text in [
            "HTTP/1.1 200 OK\r\na: 1\r\nB:  two \r\na: 3\r\n\r\nbody\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\na: 1\r\nB: two\r\na: 3\r\n\r\nbody\r\n\r\n",
            "HTTP/1.1 200 OK\na: 1\nB: two\na: 3\n\nbody\r\n\r\n",
        ] {
            for size in [1, 2, 3, 5, 1000] {
                let (head, rest) = read(text, size).unwrap().unwrap();
                assert_eq!(
                    (head.status, head.version),
                    (StatusCode::OK, Version::HTTP_11)
                );
                let values: Vec<_> = ["a", "b"]
                    .iter()
                    .flat_map(|name| head.headers.get_all(*name))
                    .collect();
                assert_eq!(values, ["1", "3", "two"]);
                assert_eq!(rest, "body\r\n\r\n", "{text:?} in pieces of {size}");
                for cut in 1..text.len() - "body\r\n\r\n".len() {
                    assert_eq!(
                        read(&text[..cut], size).map(|head| head.is_some()),
                        Ok(false),
                        "{:?}",
                        &text[..cut]
                    );
                }
            }
        }
        let (head, _) = read("HTTP/1.0 299 Nearly Fine\r\n\r\n", 4)
            .unwrap()
            .unwrap();
        assert_eq!(head.version, Version::HTTP_10);
        assert_eq!(
            head.extensions
                .get::<ReasonPhrase>()
                .map(ReasonPhrase::as_bytes),
            Some(&b"Nearly Fine"[..])
        );
    }

    #[test]
    fn what_is_not_a_head() {
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MOST_BYTES));
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "a: 1\r\n".repeat(MOST_FIELDS + 1)
        );
        for text in [
            "SSH-2.0",
            "\r\rHTTP/1.1 200 OK\r\n\r\n",
            "\u{15}\u{3}\u{1}",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\na b: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: 1\r\n b\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: \u{0}\r\n\r\n",
            "HTTP/1.1 200 OK\r\n: 1\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 999999 x\r\n\r\n",
            &long,
            &many,
        ] {
            for size in [1, 4096] {
                assert!(
                    read(text, size).is_err(),
                    "{:?}",
                    &text[..text.len().min(60)]
                );
            }
        }
    }
}
