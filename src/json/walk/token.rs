//! The ends of strings, numbers and literals in a text that is whole.

use crate::json::index::StructuralIndex;

/// The text between two quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringBody {
    pub(crate) length: usize,
    pub(crate) has_escapes: bool,
}

/// Reads the text up to the next quote; `None` if it is not legal between quotes, or has no end.
#[inline(always)]
pub(crate) fn string_body(bytes: &[u8]) -> Option<StringBody> {
    body::<true>(bytes)
}

#[inline(always)]
fn body<const MAY_INDEX: bool>(bytes: &[u8]) -> Option<StringBody> {
    let mut at = 0;
    let mut has_escapes = false;
    loop {
        at += plain(bytes.get(at..)?);
        match bytes.get(at)? {
            b'"' => {
                return Some(StringBody {
                    length: at,
                    has_escapes,
                });
            }
            b'\\' if MAY_INDEX && at >= INDEXED => return long_body(bytes, at),
            b'\\' => {
                has_escapes = true;
                at += escape(bytes.get(at + 1..)?)?;
            }
            ..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// Reads as [`string_body`] does, 64 bytes at a time from an escape on: a document in a string has
/// an escape at every quote.
#[inline(never)]
fn long_body(bytes: &[u8], escape: usize) -> Option<StringBody> {
    let index = StructuralIndex::new(bytes.get(escape..)?, true, true);
    match index.and_then(StructuralIndex::string_end) {
        Some(end) => Some(StringBody {
            length: escape + end,
            has_escapes: true,
        }),
        None => body::<false>(bytes),
    }
}

// Chosen: an index sets up 2.3 KB of marks, which a short string does not earn back.
/// The offset from which on an escape is read with an index.
const INDEXED: usize = 256;

/// Returns how many of the first bytes are neither quotes nor backslashes nor control characters.
/// The last seven bytes may be left out.
#[inline(always)]
fn plain(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return bytes.len() - rest.len() + stops.trailing_zeros() as usize / 8;
        }
        rest = after;
        if bytes.len() - rest.len() == LONG {
            while let Some((chunk, after)) = rest.split_first_chunk::<32>() {
                if chunk.iter().fold(0, |any, byte| any | is_stop(*byte)) != 0 {
                    break;
                }
                rest = after;
            }
        }
    }
    bytes.len() - rest.len()
}

/// Returns 1 for a quote, a backslash and a control character, else 0. The compiler tests many bytes
/// at once, which it does not do with `bool`.
#[inline(always)]
fn is_stop(byte: u8) -> u8 {
    u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20)
}

// Most strings of an event are shorter, and a test of 32 bytes costs as much as that of 16 in words.
/// The number of plain bytes from which on a string is read 32 bytes at a time.
const LONG: usize = 16;

/// Returns the length of an escape; `bytes` follow its backslash. Half of a surrogate pair is
/// legal.
#[inline(never)]
fn escape(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes
            .get(1..5)?
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then_some(6),
        _ => None,
    }
}

/// Sets the high bit of the first byte that is a quote, a backslash or a control character, and
/// perhaps of later ones: a borrow may carry over.
#[inline(always)]
fn stops(v: u64) -> u64 {
    /// A word with the byte 1 in each position.
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = v ^ (ONES * b'"' as u64);
    let backslash = v ^ (ONES * b'\\' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    let control = v.wrapping_sub(ONES * 0x20) & !v;
    (quote | backslash | control) & 0x8080_8080_8080_8080
}

/// Returns the length of a number without sign, fraction and exponent.
#[inline]
pub(crate) fn whole_number(bytes: &[u8]) -> Option<usize> {
    let length = digits(bytes);
    let is_legal = length == 1 || length > 1 && bytes.first() != Some(&b'0');
    is_legal.then_some(length)
}

/// Returns the length of a number. A byte after it that belongs to no number, as in `01` or `1x`,
/// is left for the caller, who expects a separator there.
#[inline]
pub(super) fn number(bytes: &[u8]) -> Option<usize> {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let mut at = sign;
    at += match bytes.get(at)? {
        b'0' => 1,
        b'1'..=b'9' => digits(bytes.get(at..)?),
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at += 1 + some_digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at += some_digits(bytes, at)?;
    }
    Some(at)
}

/// Returns the length of a literal.
#[inline]
pub(super) fn literal(bytes: &[u8]) -> Option<usize> {
    let literal: &[u8] = match bytes.first()? {
        b't' => b"true",
        b'f' => b"false",
        b'n' => b"null",
        _ => return None,
    };
    bytes.starts_with(literal).then_some(literal.len())
}

fn some_digits(bytes: &[u8], at: usize) -> Option<usize> {
    Some(digits(bytes.get(at..)?)).filter(|digits| *digits > 0)
}

#[inline]
fn digits(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

#[cfg(test)]
mod tests {
    use super::{StringBody, string_body, whole_number};
    use crate::json::Machine;

    fn is_valid(text: &str) -> bool {
        let mut machine = Machine::new(1);
        machine.feed(text.as_bytes()) == Ok(text.len()) && machine.finish().is_ok()
    }

    #[test]
    fn bodies_of_strings_are_those_of_the_grammar() {
        let pieces = [
            "", "a", "é", "😀", "\u{7f}", "\u{1f}", "\n", "\"", "\\", "\\\"", "\\\\", "\\n",
            "\\u12aF", "\\ud83d", "\\u12", "\\u+123", "\\x", "12345678",
        ];
        // Its last blocks are read with an index.
        let long = r#"a\\ b\u00e9 \"c\" "#.repeat(40);
        for first in pieces.into_iter().chain([long.as_str()]) {
            for second in pieces {
                for third in pieces {
                    let body = format!("{first}{second}{third}");
                    let text = format!("{body}\"}}, and more");
                    let end = string_body(text.as_bytes());
                    let slow = (0..=body.len()).find(|&end| {
                        text.as_bytes()[end] == b'"' && is_valid(&format!("\"{}\"", &text[..end]))
                    });
                    let slow = slow.map(|length| StringBody {
                        length,
                        has_escapes: text[..length].contains('\\'),
                    });
                    assert_eq!(end, slow, "{body:?}");
                }
            }
        }
        assert_eq!(string_body(b"no end"), None);
        for wrong in ["\n", "\\x", "\\u12é"] {
            let body = format!("{long}{wrong}{long}\", and more");
            assert_eq!(string_body(body.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn numbers() {
        let lengths = ["0,", "10}", "01", "-1", "", "x", "1.5", "1e3", "12"]
            .map(|text| whole_number(text.as_bytes()));
        assert_eq!(
            lengths,
            [
                Some(1),
                Some(2),
                None,
                None,
                None,
                None,
                Some(1),
                Some(1),
                Some(2)
            ]
        );
    }
}
