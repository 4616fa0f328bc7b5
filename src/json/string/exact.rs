//! Decodes strings without loss. Halves of surrogate pairs have no text, but two different halves
//! must stay different.

use std::borrow::Cow;

use memchr::memchr;

/// Passes the decoded text of `raw`, a string's text between its quotes, to `put` in pieces of
/// UTF-8. A lone half of a surrogate pair becomes the three bytes that its number would have
/// (WTF-8).
pub(crate) fn exact_pieces(raw: &str, mut put: impl FnMut(&[u8])) {
    let mut rest = raw;
    while let Some(backslash) = memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(backslash);
        put(plain.as_bytes());
        let (code, length) = read(escape);
        put(encode(code, &mut [0; 4]));
        rest = escape.get(length..).unwrap_or_default();
    }
    put(rest.as_bytes());
}

/// Returns all of the decoded text.
pub(crate) fn exact(raw: &str) -> Cow<'_, [u8]> {
    if memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw.as_bytes());
    }
    let mut bytes = Vec::with_capacity(raw.len());
    exact_pieces(raw, |piece| bytes.extend_from_slice(piece));
    Cow::Owned(bytes)
}

/// The bytes of a code point, of half of a surrogate pair too.
pub(crate) fn encode(code: u32, bytes: &mut [u8; 4]) -> &[u8] {
    let length = match char::from_u32(code) {
        Some(c) => c.encode_utf8(bytes).len(),
        None => {
            let half = [
                0xe0 | (code >> 12) as u8,
                0x80 | (code >> 6 & 0x3f) as u8,
                0x80 | (code & 0x3f) as u8,
                0,
            ];
            *bytes = half;
            3
        }
    };
    &bytes[..length]
}

/// The first character or escape of a string's text, which is not empty: its code point, and its
/// raw length.
pub(crate) fn first_unit(raw: &str) -> (u32, usize) {
    match raw.chars().next() {
        Some('\\') => read(raw),
        Some(c) => (c.into(), c.len_utf8()),
        None => (0, 0),
    }
}

/// The code point of the escape that `text` begins with, and its length; of both halves of a pair
/// together.
fn read(text: &str) -> (u32, usize) {
    let code = match text.as_bytes().get(1) {
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => 0x0a,
        Some(b'r') => 0x0d,
        Some(b't') => 0x09,
        Some(b'u') => {
            let Some(high) = unit(text) else {
                return (u32::from(b'\\'), 1);
            };
            let low = text
                .get(6..)
                .and_then(unit)
                .filter(|low| (0xdc00..0xe000).contains(low));
            return match low {
                Some(low) if (0xd800..0xdc00).contains(&high) => {
                    (0x1_0000 + ((high - 0xd800) << 10) + low - 0xdc00, 12)
                }
                _ => (high, 6),
            };
        }
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte.into(),
        // Valid text has no other escapes.
        _ => return (u32::from(b'\\'), 1),
    };
    (code, 2)
}

/// The number of the `\u` escape that `text` begins with.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // A sign is let through here, but not by the grammar.
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::exact;
    use crate::json::string;

    #[test]
    fn escapes_and_pairs() {
        let texts = [
            "",
            "plain é",
            r#"\"\\\/\b\f\n\r\t"#,
            r"\u0041\u00e9\u20AC\u0000",
            r"a\ud83d\ude00b",
            r"é\uD83D\uDE00",
            r"\u005cn",
            r"\uffff\ue000\ud7ff",
        ];
        for text in texts {
            assert_eq!(exact(text), string::decode(text).as_bytes(), "{text}");
        }
    }

    #[test]
    fn halves_of_pairs_are_kept_apart() {
        assert_eq!(exact(r"a\ud83d"), &b"a\xed\xa0\xbd"[..]);
        assert_eq!(exact(r"\uDE00\ud83d"), &b"\xed\xb8\x80\xed\xa0\xbd"[..]);
        assert_eq!(
            exact(r"\ud83d\ud83d\ude00"),
            [b"\xed\xa0\xbd", "😀".as_bytes()].concat()
        );
        assert_eq!(
            exact(r"\ud83d\\ude00"),
            [&b"\xed\xa0\xbd"[..], br"\ude00"].concat()
        );
        assert_eq!(exact(r"\ud83d\u0041"), &b"\xed\xa0\xbdA"[..]);
        assert_ne!(exact(r"\ud83d"), exact(r"\ufffd"));
    }

    #[test]
    fn what_is_no_escape_stays() {
        for text in [r"\x", "\\", r"\u12", r"\uééé", r"\é"] {
            assert_eq!(exact(text), text.as_bytes());
        }
    }
}
