//! A valid document and its tokens, read by a tokenizer that shares nothing with the engine.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Open,
    Close,
    Comma,
    Colon,
    Key,
    Text,
    Number,
    Literal,
}

/// A token of a document.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) class: Class,
    pub(crate) range: Range<usize>,
    /// The innermost container that is open at the token, as the index of its opener; a bracket is
    /// not inside its own.
    pub(crate) parent: Option<usize>,
    /// The index of the other bracket; the token's own index if it is no bracket.
    pub(crate) pair: usize,
}

/// A valid document and its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

impl Source {
    /// Reads a document. Returns `None` if it is not JSON, or nested deeper than the reference
    /// parser reads.
    pub(crate) fn new(text: &str) -> Option<Self> {
        is_json(text).then(|| Self {
            text: text.to_owned(),
            tokens: tokens(text),
        })
    }

    /// Returns the text of a token.
    pub(crate) fn of(&self, index: usize) -> &str {
        &self.text[self.tokens[index].range.clone()]
    }

    /// Returns the text between a string's quotes.
    pub(crate) fn inner(&self, index: usize) -> Range<usize> {
        let range = &self.tokens[index].range;
        range.start + 1..range.end - 1
    }

    /// Whether a token is directly inside an object.
    pub(crate) fn in_object(&self, index: usize) -> bool {
        self.tokens[index]
            .parent
            .is_some_and(|parent| self.of(parent) == "{")
    }

    /// Returns the indices of the tokens that `is` accepts.
    pub(crate) fn all(&self, is: impl Fn(&Self, usize) -> bool) -> Vec<usize> {
        (0..self.tokens.len())
            .filter(|&index| is(self, index))
            .collect()
    }

    /// Returns a token's class.
    pub(crate) fn class(&self, index: usize) -> Option<Class> {
        self.tokens.get(index).map(|token| token.class)
    }
}

/// Whether a text is valid JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns a valid document in one form: without white space, strings with as few escapes as
/// possible, numbers and the order of the members as written. Equal forms are equal values.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let source = Source::new(text)?;
    let mut out = String::with_capacity(text.len());
    for (index, token) in source.tokens.iter().enumerate() {
        match token.class {
            Class::Key | Class::Text => {
                out.push('"');
                let mut high = None;
                for unit in units(&source.text, source.inner(index)) {
                    push_unit(&mut out, &source.text[unit], &mut high);
                }
                flush(&mut out, &mut high);
                out.push('"');
            }
            _ => out.push_str(source.of(index)),
        }
    }
    Some(out)
}

/// Whether two values are the same. Numbers are compared by value: some repairers write them again.
pub(crate) fn is_alike(own: &Value, expected: &Value) -> bool {
    match (own, expected) {
        (Value::Array(own), Value::Array(expected)) => {
            own.len() == expected.len()
                && own
                    .iter()
                    .zip(expected)
                    .all(|(own, expected)| is_alike(own, expected))
        }
        (Value::Object(own), Value::Object(expected)) => {
            let has = |(key, value)| {
                expected
                    .get(key)
                    .is_some_and(|expected| is_alike(value, expected))
            };
            own.len() == expected.len() && own.iter().all(has)
        }
        (Value::Number(own), Value::Number(expected)) => own.as_f64() == expected.as_f64(),
        _ => own == expected,
    }
}

/// Returns the characters and escapes of a string's inner text.
pub(crate) fn units(text: &str, inner: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = inner.start;
    std::iter::from_fn(move || {
        let rest = text[at..inner.end].chars().next()?;
        let len = match rest {
            '\\' if text[at + 1..].starts_with('u') => 6,
            '\\' => 2,
            c => c.len_utf8(),
        };
        at += len;
        Some(at - len..at)
    })
}

/// Appends a unit as a character. A half of a surrogate pair waits for the other one; a lone one
/// stays an escape.
fn push_unit(out: &mut String, unit: &str, high: &mut Option<u32>) {
    let code = unit
        .strip_prefix("\\u")
        .map(|digits| u32::from_str_radix(digits, 16).unwrap());
    if let (Some(first), Some(low @ 0xdc00..=0xdfff)) = (*high, code) {
        *high = None;
        out.push(char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00)).unwrap());
        return;
    }
    flush(out, high);
    let plain = match (code, unit) {
        (Some(code @ 0xd800..=0xdbff), _) => {
            *high = Some(code);
            return;
        }
        (Some(code), _) => match char::from_u32(code) {
            Some(c) => c,
            None => return out.push_str(&format!("\\u{code:04x}")),
        },
        (None, "\\n") => '\n',
        (None, "\\t") => '\t',
        (None, "\\r") => '\r',
        (None, "\\b") => '\u{8}',
        (None, "\\f") => '\u{c}',
        (None, unit) => unit.chars().next_back().unwrap(),
    };
    match plain {
        '"' | '\\' => out.extend(['\\', plain]),
        '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(plain))),
        _ => out.push(plain),
    }
}

fn flush(out: &mut String, high: &mut Option<u32>) {
    if let Some(high) = high.take() {
        out.push_str(&format!("\\u{high:04x}"));
    }
}

/// Splits valid JSON into its tokens.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens: Vec<Token> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let class = match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'{' | b'[' => Class::Open,
            b'}' | b']' => Class::Close,
            b',' => Class::Comma,
            b':' => Class::Colon,
            b'"' => Class::Text,
            b't' | b'f' | b'n' => Class::Literal,
            _ => Class::Number,
        };
        at += match class {
            Class::Text => string_len(&bytes[at..]),
            Class::Literal | Class::Number => {
                let is_part =
                    |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                bytes[at..].iter().take_while(|byte| is_part(byte)).count()
            }
            _ => 1,
        };
        let index = tokens.len();
        let pair = if class == Class::Close {
            open.pop().unwrap()
        } else {
            index
        };
        if class == Class::Close {
            tokens[pair].pair = index;
        }
        if class == Class::Colon {
            tokens[index - 1].class = Class::Key;
        }
        tokens.push(Token {
            class,
            range: start..at,
            parent: open.last().copied(),
            pair,
        });
        if class == Class::Open {
            open.push(index);
        }
    }
    tokens
}

/// Returns the length of the string that `bytes` begin with, quotes included.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

#[test]
fn equal_values_have_one_form() {
    let same = [
        r#"{"a": "\u0041\n\ud83d\ude00\"", "b": [1.0, null]}"#,
        "{\"a\":\"A\\n😀\\u0022\",\"b\" : [1.0,null]}",
    ];
    assert_eq!(canonical(same[0]), canonical(same[1]));
    assert!(is_json(&canonical(same[0]).unwrap()));
    assert_eq!(canonical(r#"["\ud83dx"]"#).unwrap(), r#"["\ud83dx"]"#);
    for other in ["[1, 1.0]", "[1.0, 1]", "[1]", "[\"1\", 1.0]"] {
        assert_eq!(canonical("[1, 1]").unwrap(), "[1,1]");
        assert_ne!(canonical("[1, 1]"), canonical(other));
    }
    assert_eq!(canonical("[1,]"), None);
}
