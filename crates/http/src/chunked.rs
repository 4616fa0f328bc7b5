//! The chunked transfer coding ([RFC 9112, section
//! 7.1](https://www.rfc-editor.org/rfc/rfc9112#section-7.1)).

use bytes::BytesMut;

use super::ConnectionError;

/// A decoder of a chunked body. It keeps its position between reads, so the bytes may arrive in any
/// pieces.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    place: ChunkPart,
    /// Bytes of extensions and trailers that were read.
    extra: usize,
}

/// The state of the decoder.
#[derive(Clone, Copy, Debug)]
enum ChunkPart {
    /// In the size of a chunk, before its first digit or after some.
    Size {
        size: u64,
        is_empty: bool,
    },
    /// In the extension after a size, which is skipped. Only white space may precede its `;`.
    Extension {
        size: u64,
        has_begun: bool,
    },
    /// Between the CR and the LF of a size's line.
    SizeLf {
        size: u64,
    },
    /// In a chunk, with `left` bytes missing.
    Data {
        left: u64,
    },
    /// After a chunk, before its CR or LF.
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk: a trailer, which is skipped, or the empty line.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl Default for ChunkPart {
    fn default() -> Self {
        Self::NEXT_SIZE
    }
}

impl ChunkPart {
    const NEXT_SIZE: Self = Self::Size {
        size: 0,
        is_empty: true,
    };
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
        while let Some((&byte, after)) = rest.split_first() {
            match self.place {
                ChunkPart::End => break,
                ChunkPart::Data { left } => {
                    let length =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    body.extend_from_slice(&rest[..length]);
                    let left = left - length as u64;
                    self.place = if left == 0 {
                        ChunkPart::DataCr
                    } else {
                        ChunkPart::Data { left }
                    };
                    rest = &rest[length..];
                }
                place => {
                    self.place = self.after_byte(place, byte)?;
                    rest = after;
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Returns whether the body has ended.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.place, ChunkPart::End)
    }

    /// Returns the position after a byte that is not part of a chunk's data.
    fn after_byte(&mut self, place: ChunkPart, byte: u8) -> Result<ChunkPart, ConnectionError> {
        Ok(match (place, byte) {
            (ChunkPart::Size { size, .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let size = size.checked_mul(16).map(|size| size + u64::from(digit));
                ChunkPart::Size {
                    size: size.ok_or(ConnectionError::Invalid("a chunk is too long"))?,
                    is_empty: false,
                }
            }
            (ChunkPart::Size { is_empty: true, .. }, _) => {
                return Err(ConnectionError::Invalid("a chunk has no size"));
            }
            (ChunkPart::Size { size, .. } | ChunkPart::Extension { size, .. }, b'\r') => {
                ChunkPart::SizeLf { size }
            }
            (
                ChunkPart::Size { size, .. }
                | ChunkPart::Extension {
                    size,
                    has_begun: false,
                },
                b' ' | b'\t',
            ) => self.skip(ChunkPart::Extension {
                size,
                has_begun: false,
            })?,
            (
                ChunkPart::Size { size, .. }
                | ChunkPart::Extension {
                    size,
                    has_begun: false,
                },
                b';',
            ) => self.skip(ChunkPart::Extension {
                size,
                has_begun: true,
            })?,
            (
                ChunkPart::Extension {
                    has_begun: true, ..
                },
                byte,
            ) if byte != b'\n' => self.skip(place)?,
            (ChunkPart::SizeLf { size: 0 }, b'\n') => ChunkPart::TrailerStart,
            (ChunkPart::SizeLf { size }, b'\n') => ChunkPart::Data { left: size },
            (ChunkPart::DataCr, b'\r') => ChunkPart::DataLf,
            (ChunkPart::DataLf, b'\n') => ChunkPart::NEXT_SIZE,
            (ChunkPart::TrailerStart, b'\r') => ChunkPart::EndLf,
            (ChunkPart::Trailer, b'\r') => ChunkPart::TrailerLf,
            (ChunkPart::TrailerStart | ChunkPart::Trailer, byte) if byte != b'\n' => {
                self.skip(ChunkPart::Trailer)?
            }
            (ChunkPart::TrailerLf, b'\n') => ChunkPart::TrailerStart,
            (ChunkPart::EndLf, b'\n') => ChunkPart::End,
            _ => {
                return Err(ConnectionError::Invalid(
                    "a line between chunks is not valid",
                ));
            }
        })
    }

    /// Counts a byte that is skipped.
    fn skip(&mut self, next: ChunkPart) -> Result<ChunkPart, ConnectionError> {
        self.extra += 1;
        if self.extra > MOST_EXTRA {
            Err(ConnectionError::Invalid(
                "its chunks have too much beside their data",
            ))
        } else {
            Ok(next)
        }
    }
}

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
