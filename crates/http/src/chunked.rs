//! The chunked transfer coding ([RFC 9112, section
//! 7.1](https://www.rfc-editor.org/rfc/rfc9112#section-7.1)).

use bytes::BytesMut;
use httparse::Status;
use memchr::memchr;

use super::ConnectionError;

/// A decoder of a chunked body. It keeps its position between reads, so the bytes may arrive in any
/// pieces.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    part: ChunkPart,
    /// The beginning of a line that is not complete.
    line: Vec<u8>,
    /// Bytes of extensions and trailers that were read.
    extra: usize,
}

/// The part of a body that arrives.
#[derive(Clone, Copy, Debug, Default)]
enum ChunkPart {
    /// The line with the size of a chunk.
    #[default]
    Size,
    /// A chunk, with this many bytes missing.
    Data(u64),
    /// The line end after a chunk.
    DataEnd,
    /// A line after the last chunk: a trailer, which is skipped, or the empty line.
    Trailer,
    End,
}

impl Chunked {
    /// Appends the body's bytes in `input` to `body`. Returns how many bytes of `input` belong to
    /// the body: fewer than all if the body ends in them.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        body: &mut BytesMut,
    ) -> Result<usize, ConnectionError> {
        let mut rest = input;
        while !rest.is_empty() && !self.is_at_end() {
            let length = match self.part {
                ChunkPart::Data(left) => {
                    usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()))
                }
                _ => memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
            };
            let (now, after) = rest.split_at(length);
            rest = after;
            if let ChunkPart::Data(left) = self.part {
                body.extend_from_slice(now);
                self.part = match left - length as u64 {
                    0 => ChunkPart::DataEnd,
                    left => ChunkPart::Data(left),
                };
            } else {
                self.line.extend_from_slice(now);
                if let Some(next) = self.after_line()? {
                    self.part = next;
                    self.line.clear();
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Returns whether the body has ended.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.part, ChunkPart::End)
    }

    /// Returns the part after the line; `None` if the line is not complete.
    fn after_line(&mut self) -> Result<Option<ChunkPart>, ConnectionError> {
        let line = &self.line[..];
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let own = match self.part {
            ChunkPart::Size => digits.count(),
            _ => 0,
        };
        let is_complete = line.ends_with(b"\n");
        // Neither the digits nor the line end are extra.
        let extra = self.extra + (line.len() - own).saturating_sub(b"\r\n".len());
        if extra > MOST_EXTRA {
            return Err(ConnectionError::Invalid(
                "its chunks have too much beside their data",
            ));
        }
        let next = match self.part {
            // The parser takes a line without digits for a size of 0.
            ChunkPart::Size if own > 0 => match httparse::parse_chunk_size(line) {
                Ok(Status::Complete((_, 0))) => Some(ChunkPart::Trailer),
                Ok(Status::Complete((_, size))) => Some(ChunkPart::Data(size)),
                Ok(Status::Partial) if !is_complete => None,
                _ => return Err(INVALID),
            },
            ChunkPart::DataEnd if line == b"\r\n" => Some(ChunkPart::Size),
            ChunkPart::DataEnd if line == b"\r" => None,
            ChunkPart::Trailer if line == b"\r\n" => Some(ChunkPart::End),
            ChunkPart::Trailer if !is_complete => None,
            // The one CR is that of the line end.
            ChunkPart::Trailer if memchr(b'\r', line).map(|at| at + 2) == Some(line.len()) => {
                Some(ChunkPart::Trailer)
            }
            _ => return Err(INVALID),
        };
        if next.is_some() {
            self.extra = extra;
        }
        Ok(next)
    }
}

const INVALID: ConnectionError = ConnectionError::Invalid("a line between chunks is not valid");

/// The most bytes of extensions and trailers in one body. Neither is used here.
const MOST_EXTRA: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` in pieces of `size` bytes. Returns the body, the bytes after it, and whether
    /// it has ended.
    fn decode(text: &[u8], size: usize) -> Result<(Vec<u8>, usize, bool), ConnectionError> {
        let (mut chunked, mut body, mut used) = (Chunked::default(), BytesMut::new(), 0);
        for piece in text.chunks(size) {
            used += chunked.decode(piece, &mut body)?;
        }
        Ok((body.to_vec(), text.len() - used, chunked.is_at_end()))
    }

    #[test]
    fn bodies_in_any_pieces() {
        let long = format!("4;{}\r\nabcd\r\n0\r\n\r\n", "x".repeat(MOST_EXTRA - 1));
        for (text, body, after, is_at_end) in [
            ("0\r\n\r\n", "", 0, true),
            ("3\r\nabc\r\n0\r\n\r\n", "abc", 0, true),
            ("3\r\nabc\r\n0\r\n\r\nHTTP/1.1", "abc", 8, true),
            (
                "3\r\nabc\r\n0B\r\n0123\r\n56789\r\n00\r\n\r\n",
                "abc0123\r\n56789",
                0,
                true,
            ),
            ("003;a=\"b\"\r\nabc\r\n0 ;x\r\n\r\n", "abc", 0, true),
            ("3  \r\nabc\r\n0\r\nx-t: 1\r\ny: 2\r\n\r\n", "abc", 0, true),
            ("3\r\nabc\r\n0\r\nx-t: 1\r\n", "abc", 0, false),
            ("3\r\nab", "ab", 0, false),
            ("3\r\nabc", "abc", 0, false),
            (&long, "abcd", 0, true),
        ] {
            for size in [1, 2, 3, 7, 1 << 20] {
                let decoded = decode(text.as_bytes(), size).unwrap();
                assert_eq!(
                    decoded,
                    (body.as_bytes().to_vec(), after, is_at_end),
                    "{text:?} in pieces of {size}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_valid() {
        let long = format!("4;{}\r\nabcd\r\n0\r\n\r\n", "x".repeat(MOST_EXTRA));
        let trailers = format!("0\r\n{}\r\n", "x: 1\r\n".repeat(MOST_EXTRA / 4 + 1));
        for text in [
            "\r\n",
            ";x\r\n",
            "x",
            "-1\r\n",
            "+1\r\n",
            " 1\r\n",
            "0x1\r\n",
            "3\nabc",
            "3\r\r\n",
            "3\r\nabcd",
            "3\r\nabc\n",
            "3 4\r\nabc",
            "3;a\nb\r\nabc",
            "0\r\nx: 1\n\r\n",
            "0\r\n\n",
            "0\r\n\r\r\n",
            "10000000000000000\r\n",
            &long,
            &trailers,
        ] {
            for size in [1, 2, 1 << 20] {
                assert!(
                    decode(text.as_bytes(), size).is_err(),
                    "{text:?} in pieces of {size}"
                );
            }
        }
    }
}
