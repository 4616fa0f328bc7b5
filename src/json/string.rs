//! The text inside JSON strings: decodes and writes escapes.
//!
//! Works on the text between two quotes and expects valid text. It knows surrogate pairs that a
//! server splits over two strings, and does not know where a string begins or ends.

mod exact;
mod simple;

use std::borrow::Cow;

pub(crate) use exact::{encode, exact, exact_pieces, first_unit};
use memchr::memchr;

/// A decoder for the escapes of a channel whose text arrives as a sequence of JSON strings.
///
/// A model's tokens may divide a character outside the Basic Multilingual Plane, and some servers
/// then send its two surrogates (RFC 8259 section 7) in two strings. The decoder keeps the first
/// half for the next string. A lone half has no UTF-8 encoding: it is removed and counted.
///
/// ```
/// use restitch::internal::json::string::Unescaper;
///
/// let (mut unescaper, mut text) = (Unescaper::default(), String::new());
/// unescaper.push(r"a\n\ud83d", &mut text);
/// assert!(unescaper.is_waiting());
/// unescaper.push(r"\ude00", &mut text);
/// assert_eq!(text, "a\n😀");
/// assert_eq!(unescaper.finish(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Unescaper {
    /// The high surrogate that ended the last string; in `0xD800..=0xDBFF`.
    high: Option<u16>,
    removed: u64,
    /// Whether a half that stays alone becomes U+FFFD.
    replace: bool,
}

impl Unescaper {
    /// Decodes the next string of the channel and appends it to `out`; `raw` is the text between
    /// the quotes.
    ///
    /// An empty string keeps a pending half. A backslash that begins no escape stays unchanged.
    pub fn push(&mut self, raw: &str, out: &mut String) {
        out.reserve(raw.len());
        let mut rest = raw;
        while let Some(backslash) = memchr(b'\\', rest.as_bytes()) {
            let (plain, escape) = rest.split_at(backslash);
            self.plain(plain, out);
            rest = self.escape(escape, out);
            // A document in a string has an escape at every quote. Where letters are escapes with a
            // number, no block would get far.
            if rest.len() >= simple::LONG && !escape.starts_with("\\u") {
                rest = simple::decode_start(rest, |text| self.plain(text, out));
            }
        }
        self.plain(rest, out);
    }

    /// Whether a first half is pending.
    pub fn is_waiting(&self) -> bool {
        self.high.is_some()
    }

    /// Returns how many halves of surrogate pairs have been removed.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// Ends the channel: a pending half is removed. Returns how many were removed in all.
    pub fn finish(mut self) -> u64 {
        self.drop_waiting(&mut String::new());
        self.removed
    }

    fn plain(&mut self, text: &str, out: &mut String) {
        if !text.is_empty() {
            self.drop_waiting(out);
            out.push_str(text);
        }
    }

    /// Reads the escape at the start of `text`, which begins with a backslash; returns the text
    /// after it.
    fn escape<'a>(&mut self, text: &'a str, out: &mut String) -> &'a str {
        match text.as_bytes().get(1) {
            Some(b'u') => {
                if let Some(unit) = text.get(2..6).and_then(hex4) {
                    self.unit(unit, out);
                    return text.get(6..).unwrap_or_default();
                }
            }
            Some(&letter) if let Some(decoded) = simple::decoded(letter) => {
                self.drop_waiting(out);
                out.push(decoded.into());
                return text.get(2..).unwrap_or_default();
            }
            _ => {}
        }
        self.plain("\\", out);
        text.get(1..).unwrap_or_default()
    }

    /// Takes one UTF-16 code unit.
    fn unit(&mut self, unit: u16, out: &mut String) {
        match unit {
            0xD800..=0xDBFF => {
                self.drop_waiting(out);
                self.high = Some(unit);
            }
            0xDC00..=0xDFFF => match self.high.take() {
                Some(high) => out.extend(char::decode_utf16([high, unit]).flatten()),
                None => self.lone(out),
            },
            _ => {
                self.drop_waiting(out);
                out.extend(char::from_u32(unit.into()));
            }
        }
    }

    fn drop_waiting(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            self.lone(out);
        }
    }

    fn lone(&mut self, out: &mut String) {
        self.removed += 1;
        if self.replace {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Decodes a part of a string; `raw` is the raw text and does not end inside an escape. A lone half
/// of a surrogate pair becomes U+FFFD.
pub fn decode(raw: &str) -> Cow<'_, str> {
    if memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    decode_into(raw, &mut text);
    Cow::Owned(text)
}

/// Appends the text that [`decode`] returns.
pub(crate) fn decode_into(raw: &str, out: &mut String) {
    let mut unescaper = Unescaper {
        replace: true,
        ..Unescaper::default()
    };
    unescaper.push(raw, out);
    unescaper.drop_waiting(out);
}

/// Decodes a key. A key with half of a surrogate pair has no text: it is returned undecoded, so
/// that two such keys differ.
pub fn key(raw: &str) -> Cow<'_, str> {
    if memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let (mut unescaper, mut text) = (Unescaper::default(), String::with_capacity(raw.len()));
    unescaper.push(raw, &mut text);
    if unescaper.finish() > 0 {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(text)
    }
}

/// Appends `text` as the body of a JSON string, without its quotes.
///
/// Escapes only the characters that RFC 8259 section 7 requires: `"`, `\` and the control
/// characters below U+0020.
pub(crate) fn escape_into(out: &mut Vec<u8>, text: &str) {
    escaped(text, |piece| out.extend_from_slice(piece.as_bytes()));
}

/// Returns `text` as a JSON string, with its quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escaped(text, |piece| out.push_str(piece));
    out.push('"');
    out
}

/// Passes `text` with its escapes to a function, in pieces: runs that need no escape, and escapes.
pub(crate) fn escaped(text: &str, mut put: impl FnMut(&str)) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        put(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => put("\\\""),
            b'\\' => put("\\\\"),
            b'\n' => put("\\n"),
            b'\r' => put("\\r"),
            b'\t' => put("\\t"),
            0x08 => put("\\b"),
            0x0c => put("\\f"),
            _ => {
                let digit = |nibble: u8| &HEX[usize::from(nibble)..][..1];
                put("\\u00");
                put(digit(byte >> 4));
                put(digit(byte & 15));
            }
        }
    }
    put(&text[copied..]);
}

/// Reads four hexadecimal digits. `from_str_radix` alone would accept a sign.
fn hex4(digits: &str) -> Option<u16> {
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

const HEX: &str = "0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::{Unescaper, escape_into, quoted};

    fn check(pieces: &[&str], text: &str, removed: u64) {
        let (mut unescaper, mut out) = (Unescaper::default(), String::new());
        for piece in pieces {
            unescaper.push(piece, &mut out);
        }
        assert_eq!(
            (out.as_str(), unescaper.finish()),
            (text, removed),
            "{pieces:?}"
        );
    }

    #[test]
    fn escapes_are_decoded() {
        check(&["plain"], "plain", 0);
        check(&[r#"\"\\\/\b\f\n\r\t"#], "\"\\/\u{8}\u{c}\n\r\t", 0);
        check(&[r"\u0041\u00e9\u20AC\u0000"], "A\u{e9}\u{20ac}\0", 0);
        check(&[r"é\u00e9é"], "ééé", 0);
    }

    #[test]
    fn surrogates_join_within_and_across_strings() {
        check(&[r"\ud83d\ude00"], "😀", 0);
        check(&[r"\ud83d", r"\ude00"], "😀", 0);
        check(&[r"a\uD83D", "", r"\uDE00b"], "a😀b", 0);
    }

    #[test]
    fn lone_surrogates_are_removed_and_counted() {
        check(&[r"a\ud83d"], "a", 1);
        check(&[r"\ude00a"], "a", 1);
        check(&[r"\ud83d", "a", r"\ude00"], "a", 2);
        check(&[r"\ud83d\ud83d\ude00"], "😀", 1);
        check(&[r"\ud83d\n\ude00\u0041"], "\nA", 2);
        check(&[r"\ud83d\u0041"], "A", 1);
    }

    #[test]
    fn what_is_no_escape_stays() {
        check(
            &[r"\x", "\\", r"\u12", r"\u+123", r"\uééé", r"\é"],
            r"\x\\u12\u+123\uééé\é",
            0,
        );
        check(&[r"\ud83d\x"], r"\x", 1);
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        let mut out = Vec::new();
        escape_into(
            &mut out,
            "a\"\\/\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}é😀\u{2028}",
        );
        assert_eq!(
            out,
            "a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}é😀\u{2028}".as_bytes()
        );
        assert_eq!(quoted(""), r#""""#);
        assert_eq!(quoted("\u{7}x\""), r#""\u0007x\"""#);
    }

    #[test]
    fn written_and_read_is_the_same() {
        let all: String = (0..=0x2fff)
            .chain(0x1f5ff..0x1f650)
            .filter_map(char::from_u32)
            .collect();
        let written = quoted(&all);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), all);
        check(&[&written[1..written.len() - 1]], &all, 0);
    }
}
