//! Finds the members of an object and the elements of an array in a JSON text, each as a span.
//!
//! Expects valid text ([`is_valid`]). Of any other text it returns some spans and stops, without a
//! panic, and reads no byte more than once a level; with a [`Table`], once. For text that is still
//! growing there is the machine.
//!
//! ```
//! use restitch::internal::json::walk;
//!
//! let text = r#"{"choices": [{"index": 0}], "usage": null}"#;
//! let choices = walk::member(text, "choices").unwrap();
//! assert_eq!(choices.as_str(), r#"[{"index": 0}]"#);
//! assert_eq!(choices.range(), 12..26);
//! let index = choices.elements().next().unwrap().member("index").unwrap();
//! assert_eq!((index.as_u64(), index.offset()), (Some(0), 23));
//! ```

mod table;
mod token;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use super::index;
use super::string::decode;
use crate::limits::Limits;
use table::Entry;
pub use table::Table;
pub(crate) use token::{string_body, whole_number};

/// One value as raw text, and its offset.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// Never empty: its first byte determines the kind.
    text: &'a str,
    offset: usize,
    /// The values inside, if a [`Table`] has them. Empty: the text is walked.
    inside: &'a [Entry],
}

impl PartialEq for Raw<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.text, self.offset) == (other.text, other.offset)
    }
}

impl Eq for Raw<'_> {}

/// The type of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number, with or without sign, fraction and exponent.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl<'a> Raw<'a> {
    /// Returns the value that `text` begins with after white space; offsets count from the start of
    /// `text`.
    pub fn root(text: &'a str) -> Option<Self> {
        let start = skip_space(text.as_bytes(), 0);
        Self::cut(text, 0, start, value_end(text.as_bytes(), start)?)
    }

    /// Returns the value that `text` is, if it is valid ([`is_valid`]). Reads the text once.
    pub(crate) fn valid(text: &'a str) -> Option<Self> {
        let range = Table::default().record(text, Limits::default().parser.max_depth)?;
        Self::cut(text, 0, range.start, range.end)
    }

    /// Returns the value's text, with its quotes or brackets.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the offset of the value in the text that was walked first, however deep the value
    /// is.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the value's range in the text that was walked first.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.text.len()
    }

    /// Returns the type of the value.
    pub fn kind(&self) -> ValueKind {
        match self.text.as_bytes().first() {
            Some(b'{') => ValueKind::Object,
            Some(b'[') => ValueKind::Array,
            Some(b'"') => ValueKind::String,
            Some(b't' | b'f') => ValueKind::Bool,
            Some(b'n') => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == ValueKind::Null
    }

    /// Returns a string's text between its quotes, without decoding it.
    pub fn inner(&self) -> Option<&'a str> {
        self.text.strip_prefix('"')?.strip_suffix('"')
    }

    /// Decodes a string. A lone half of a surrogate pair becomes U+FFFD: without it, the string
    /// would read as another word.
    pub fn decode(&self) -> Option<Cow<'a, str>> {
        self.inner().map(decode)
    }

    /// Returns a number that has no sign, fraction or exponent, if it fits.
    pub fn as_u64(&self) -> Option<u64> {
        if self.kind() == ValueKind::Number {
            self.text.parse().ok()
        } else {
            None
        }
    }

    /// `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        self.text.parse().ok()
    }

    /// Returns the members of an object, in order and with duplicates. Empty for any other value.
    pub fn members(&self) -> Members<'a> {
        Members(ItemCursor::inside(*self, ValueKind::Object))
    }

    /// Returns the elements of an array. Empty for any other value.
    pub fn elements(&self) -> Elements<'a> {
        Elements(ItemCursor::inside(*self, ValueKind::Array))
    }

    /// Returns the value of the member with this key; keys are compared decoded. Of duplicates the
    /// last one counts, as in `serde_json` and Python's `json`.
    pub fn member(&self, key: &str) -> Option<Raw<'a>> {
        let [value] = self.pick([key]);
        value
    }

    /// Returns the values of the members with these keys, found in one walk; see
    /// [`member`](Self::member).
    pub(crate) fn pick<const N: usize>(&self, keys: [&str; N]) -> [Option<Raw<'a>>; N] {
        let mut picked = [None; N];
        let place = |name: &str| keys.iter().position(|key| *key == name);
        if !self.inside.is_empty() && self.kind() == ValueKind::Object {
            let mut items = ItemCursor::inside(*self, ValueKind::Object);
            while let Some((key, rest)) = items.inside.split_first() {
                let name = key.name(self.text, self.offset);
                let value = items.skip_recorded(rest);
                if let Some((value, inside)) = value
                    && let Some(slot) = name
                        .and_then(|name| place(&name))
                        .and_then(|at| picked.get_mut(at))
                {
                    *slot = items.recorded(value, inside);
                }
            }
        } else {
            for (key, value) in self.members() {
                if let Some(slot) = key
                    .decode()
                    .and_then(|name| place(&name))
                    .and_then(|at| picked.get_mut(at))
                {
                    *slot = Some(value);
                }
            }
        }
        picked
    }

    /// Returns the span `start..end` of `text`, which begins at `base` of the text that was walked
    /// first.
    fn cut(text: &'a str, base: usize, start: usize, end: usize) -> Option<Self> {
        Some(Self {
            text: text.get(start..end)?,
            offset: base + start,
            inside: &[],
        })
    }
}

/// Returns the members of the object in `text`; see [`Raw::members`].
pub fn members(text: &str) -> Members<'_> {
    Members(Raw::root(text).map_or(ItemCursor::END, |root| root.members().0))
}

/// Returns the elements of the array in `text`; see [`Raw::elements`].
pub fn elements(text: &str) -> Elements<'_> {
    Elements(Raw::root(text).map_or(ItemCursor::END, |root| root.elements().0))
}

/// Returns the value of a member of the object in `text`; see [`Raw::member`].
pub fn member<'a>(text: &'a str, key: &str) -> Option<Raw<'a>> {
    Raw::root(text)?.member(key)
}

/// An iterator over an object's members: key (a string) and value. [`members`] and [`Raw::members`]
/// make it.
#[derive(Clone, Debug)]
pub struct Members<'a>(ItemCursor<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((key, rest)) = self.0.inside.split_first() {
            let key = self.0.recorded(key, &[])?;
            return Some((key, self.0.step_recorded(rest)?));
        }
        self.0.step(|cursor, start| {
            let bytes = cursor.text.as_bytes();
            let key_end = string_end(bytes, start)?;
            let colon = skip_space(bytes, key_end);
            if bytes.get(colon) != Some(&b':') {
                return None;
            }
            let value = skip_space(bytes, colon + 1);
            let end = value_end(bytes, value)?;
            Some(((cursor.cut(start, key_end)?, cursor.cut(value, end)?), end))
        })
    }
}

/// An iterator over an array's elements. [`elements`] and [`Raw::elements`] make it.
#[derive(Clone, Debug)]
pub struct Elements<'a>(ItemCursor<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.0.inside.is_empty() {
            return self.0.step_recorded(self.0.inside);
        }
        self.0.step(|cursor, start| {
            let end = value_end(cursor.text.as_bytes(), start)?;
            Some((cursor.cut(start, end)?, end))
        })
    }
}

/// A position between the items of a container.
#[derive(Clone, Copy, Debug)]
struct ItemCursor<'a> {
    /// The container's text.
    text: &'a str,
    /// The offset of `text` in the text that was walked first.
    base: usize,
    /// The offset after the opening bracket or after an item; 0 at the end, and where the items are
    /// recorded.
    at: usize,
    /// The recorded items that follow.
    inside: &'a [Entry],
}

impl<'a> ItemCursor<'a> {
    const END: Self = Self {
        text: "",
        base: 0,
        at: 0,
        inside: &[],
    };

    fn inside(value: Raw<'a>, kind: ValueKind) -> Self {
        if value.kind() == kind {
            Self {
                text: value.text,
                base: value.offset,
                at: usize::from(value.inside.is_empty()),
                inside: value.inside,
            }
        } else {
            Self::END
        }
    }

    /// Skips the comma that is due between items and reads one item. Ends at the closing bracket
    /// and at anything unexpected.
    fn step<T>(&mut self, read: impl FnOnce(&Self, usize) -> Option<(T, usize)>) -> Option<T> {
        let at = std::mem::take(&mut self.at);
        if at == 0 {
            return None;
        }
        let bytes = self.text.as_bytes();
        let mut start = skip_space(bytes, at);
        if at > 1 {
            if bytes.get(start) != Some(&b',') {
                return None;
            }
            start = skip_space(bytes, start + 1);
        }
        let (item, end) = read(self, start)?;
        self.at = end;
        Some(item)
    }

    fn cut(&self, start: usize, end: usize) -> Option<Raw<'a>> {
        Raw::cut(self.text, self.base, start, end)
    }

    /// Returns the value at the start of the recorded `items`.
    #[inline(always)]
    fn step_recorded(&mut self, items: &'a [Entry]) -> Option<Raw<'a>> {
        let (value, inside) = self.skip_recorded(items)?;
        self.recorded(value, inside)
    }

    /// Skips the value at the start of the recorded `items`. Returns it and the values inside.
    #[inline(always)]
    fn skip_recorded(&mut self, items: &'a [Entry]) -> Option<(&'a Entry, &'a [Entry])> {
        self.inside = &[];
        let (value, rest) = items.split_first()?;
        let (inside, rest) = rest.split_at_checked(value.inside as usize)?;
        self.inside = rest;
        Some((value, inside))
    }

    #[inline(always)]
    fn recorded(&self, value: &Entry, inside: &'a [Entry]) -> Option<Raw<'a>> {
        let (start, end) = (value.start as usize, value.end as usize);
        Some(Raw {
            text: self.text.get(start - self.base..end - self.base)?,
            offset: start,
            inside,
        })
    }
}

/// Whether `text` is one JSON value by the grammar of RFC 8259, with white space around it.
///
/// The grammar allows an escape of half a surrogate pair, and servers send such strings, so they
/// are valid here. More open containers than the default
/// [`max_depth`](crate::Limits::with_max_depth) are not.
pub fn is_valid(text: &str) -> bool {
    is_valid_within(text, Limits::default().parser.max_depth)
}

/// The same, with at most `max_depth` open containers.
pub(crate) fn is_valid_within(text: &str, max_depth: usize) -> bool {
    Table::default().record(text, max_depth).is_some()
}

#[inline(always)]
fn skip_space(bytes: &[u8], at: usize) -> usize {
    // Most values have no space, or one, before them.
    match bytes.get(at) {
        Some(..=b' ') => skip_spaces(bytes, at),
        _ => at,
    }
}

fn skip_spaces(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .count()
}

/// Returns the end of the string whose opening quote is at `quote`; `None` if there is no quote or
/// no end.
fn string_end(bytes: &[u8], quote: usize) -> Option<usize> {
    if *bytes.get(quote)? != b'"' {
        return None;
    }
    let start = quote + 1;
    let first = start + memchr2(b'"', b'\\', bytes.get(start..)?)?;
    // A string with one escape often has many, as in a document inside of a string.
    let close = if bytes[first] == b'"' {
        first
    } else {
        index::closing_quote(bytes, first)?
    };
    Some(close + 1)
}

/// Returns where the value ends that begins at `start`. Brackets are counted, not matched: in valid
/// text that is the same.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    match *bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let (mut at, mut depth) = (start, 0usize);
            loop {
                match *bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let scalar =
                |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            Some(start + bytes[start..].iter().take_while(scalar).count())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Raw, ValueKind, elements, is_valid, member, members};

    #[test]
    fn kinds() {
        let kinds: Vec<_> = elements(r#"[{}, [], "", -1.5e+3, true, false, null]"#)
            .map(|value| value.kind())
            .collect();
        use ValueKind::*;
        assert_eq!(kinds, [Object, Array, String, Number, Bool, Bool, Null]);
        assert_eq!(
            elements("[12, -1, 1.0, \"1\"]")
                .map(|value| value.as_u64())
                .collect::<Vec<_>>()[..2],
            [Some(12), None]
        );
    }

    #[test]
    fn the_last_duplicate_wins_and_keys_are_decoded() {
        assert_eq!(
            member(r#"{"a":1,"\u0061":2,"b":3}"#, "a").unwrap().as_str(),
            "2"
        );
        assert_eq!(member(r#"{"a":1}"#, "b"), None);
        assert_eq!(member("[1]", "a"), None);
    }

    #[test]
    fn broken_texts_end_the_walk() {
        let texts = [
            "{",
            "{\"",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\" 1}",
            "{\"a\":[}",
            "{\"a\":\"\\",
            "{a:1}",
            "{,}",
            "{\"a\":1,",
            "}",
            "]",
            "[,]",
            "[1 2",
            "{\"a\":@}",
            "\u{feff}{}",
            "[\"\\\"",
            "{\"é",
        ];
        for text in texts {
            assert!(!is_valid(text), "{text}");
            assert!(members(text).count() <= 1, "{text}");
            assert!(elements(text).count() <= 1, "{text}");
        }
    }

    /// The walk ends for any bytes; a prefix of valid text gives a prefix of the members.
    #[test]
    fn every_prefix_and_every_damaged_byte() {
        let text = r#"{"a":[1,{"b":"\ud83d"}],"é":{"c":null,"d":[[],{}]},"f":-0.5e1}"#;
        assert!(is_valid(text));
        let whole: Vec<_> = members(text).collect();
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            assert!(!is_valid(&text[..end]));
            assert!(Raw::root(&text[..end]).is_none());
        }
        for at in 0..text.len() {
            for byte in [b'"', b'\\', b'{', b']', b',', b':', b'x'] {
                let mut damaged = text.as_bytes().to_vec();
                damaged[at] = byte;
                let damaged = String::from_utf8_lossy(&damaged);
                assert!(members(&damaged).count() <= whole.len() + 2);
            }
        }
    }

    #[test]
    fn nesting_is_no_recursion() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(!is_valid(&deep));
        assert_eq!(member(&deep, "a").unwrap().as_str().len(), 400_000);
    }
}
