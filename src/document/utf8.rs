//! Decodes bytes that may be cut anywhere: an incomplete character waits for the next bytes.

use std::fmt;

/// A push decoder from bytes to whole characters.
///
/// ```
/// use restitch::{Utf8Error, Utf8};
///
/// let mut utf8 = Utf8::new();
/// let mut text = String::new();
/// for mut bytes in [b"[\"caf\xc3".as_slice(), b"\xa9\"]"] {
///     while let Some(next) = utf8.next_text(&mut bytes)? {
///         text.push_str(next);
///     }
/// }
/// assert_eq!(text, "[\"café\"]");
/// assert!(utf8.open().is_empty());
/// # Ok::<(), Utf8Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Utf8 {
    bytes: [u8; 4],
    len: usize,
}

/// The error of a byte that is not UTF-8 where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utf8Error;

impl Utf8 {
    /// Creates a decoder between two characters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the start of an incomplete character: at most three bytes. After an error: the first
    /// four bytes, at most, of the invalid UTF-8.
    pub fn open(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the next whole characters, and moves `bytes` past them. `None` when `bytes` has no
    /// more; the start of an incomplete character is kept.
    ///
    /// # Errors
    /// Fails if the next bytes are not UTF-8; from then on every call returns the same error.
    pub fn next_text<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
    ) -> Result<Option<&'a str>, Utf8Error> {
        loop {
            // An incomplete character takes byte after byte, until it is whole or cannot become
            // one.
            while self.len > 0 {
                match std::str::from_utf8(self.open()) {
                    Ok(_) => {
                        let len = std::mem::take(&mut self.len);
                        return Ok(self
                            .bytes
                            .get(..len)
                            .and_then(|whole| std::str::from_utf8(whole).ok()));
                    }
                    Err(error) if error.error_len().is_some() => {
                        self.keep(bytes, 4);
                        return Err(Utf8Error);
                    }
                    Err(_) if bytes.is_empty() => return Ok(None),
                    Err(_) => self.keep(bytes, 1),
                }
            }
            let whole = bytes.get(..whole_characters(bytes)).unwrap_or_default();
            let text = match simdutf8::compat::from_utf8(whole) {
                Ok(text) => text,
                Err(error) => {
                    let valid = whole.get(..error.valid_up_to()).unwrap_or_default();
                    std::str::from_utf8(valid).unwrap_or_default()
                }
            };
            if !text.is_empty() {
                *bytes = bytes.get(text.len()..).unwrap_or_default();
                return Ok(Some(text));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            self.keep(bytes, 1);
        }
    }

    /// Keeps the first `count` of `bytes`, or fewer if there are fewer or there is less room.
    fn keep(&mut self, bytes: &mut &[u8], count: usize) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let (new, rest) = bytes.split_at(count.min(room.len()).min(bytes.len()));
        room.iter_mut()
            .zip(new)
            .for_each(|(slot, byte)| *slot = *byte);
        self.len += new.len();
        *bytes = rest;
    }
}

/// Returns the length of `bytes` without a last character whose end is missing.
// Else the check of the encoding would fail at that character, and the text before it would be
// checked twice.
fn whole_characters(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|&byte| byte >= 0xc0);
    let is_open = |&at: &usize| match bytes.get(at) {
        Some(0xc0..=0xdf) => at + 2 > bytes.len(),
        Some(0xe0..=0xef) => at + 3 > bytes.len(),
        _ => true,
    };
    lead.map(|from_end| bytes.len() - 1 - from_end)
        .filter(is_open)
        .unwrap_or(bytes.len())
}

// Not derived: the bytes belong to a text, which must not be printed.
impl fmt::Debug for Utf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Utf8")
            .field("open", &self.len)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Utf8Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not UTF-8")
    }
}

impl std::error::Error for Utf8Error {}

#[cfg(test)]
mod tests {
    use super::{Utf8, Utf8Error};

    /// Returns the decoded text of some pieces, with runs joined, the incomplete rest, and whether
    /// there was an error.
    fn read(pieces: &[&[u8]]) -> (String, Vec<u8>, bool) {
        let (mut utf8, mut text) = (Utf8::new(), String::new());
        for piece in pieces {
            let mut bytes = *piece;
            loop {
                match utf8.next_text(&mut bytes) {
                    Ok(Some(run)) => {
                        assert!(!run.is_empty());
                        text.push_str(run);
                    }
                    Ok(None) => break,
                    Err(Utf8Error) => {
                        let seen = (text, utf8.open().to_vec(), true);
                        assert_eq!(utf8.next_text(&mut b"a".as_slice()), Err(Utf8Error));
                        return seen;
                    }
                }
            }
            assert!(bytes.is_empty());
        }
        (text, utf8.open().to_vec(), false)
    }

    #[test]
    fn a_character_may_come_in_any_number_of_pieces() {
        let text = "a\u{e9}\u{20ac}\u{1f389}b";
        let bytes = text.as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    read(&pieces),
                    (text.to_owned(), vec![], false),
                    "{first} {second}"
                );
            }
        }
        let bytes: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(read(&bytes), (text.to_owned(), vec![], false));
    }

    #[test]
    fn what_is_no_utf_8_is_told_behind_what_is() {
        for (pieces, before, open, is_error) in [
            (&[b"ab\xff".as_slice()][..], "ab", b"\xff".as_slice(), true),
            (&[b"ab\xffcdef"], "ab", b"\xffcde", true),
            (&[b"a\xe2\x82", b"xyz"], "a", b"\xe2\x82xy", true),
            (&[b"a\xe2", b"\x82", b"\xff"], "a", b"\xe2\x82\xff", true),
            (&[b"\xc3\xa9\xc3", b"\xc3"], "\u{e9}", b"\xc3\xc3", true),
            (&[b"\xed", b"\xa0"], "", b"\xed\xa0", true),
            (&[b"\xed\xa0\x80"], "", b"\xed\xa0\x80", true),
            (&[b"\x80"], "", b"\x80", true),
            (&[b"a\xf0\x9f\x8e"], "a", b"\xf0\x9f\x8e", false),
            (&[b"a\xf0\x9f", b"", b"\x8e"], "a", b"\xf0\x9f\x8e", false),
        ] {
            assert_eq!(
                read(pieces),
                (before.to_owned(), open.to_vec(), is_error),
                "{pieces:?}"
            );
        }
    }
}
