//! Reads an event that has the bytes of an earlier one, except for a text and a few ignored values.
//!
//! Nearly all events of a stream have this layout. Equal bytes before a value leave a parser in an
//! equal state, so only the value has to be scanned, and equal bytes after it mean the same. This
//! module knows no wire: while a reader parses an event in full, it marks the string that is the
//! text and the values that it ignores.

use std::ops::Range;

use crate::json::walk::{Raw, ValueKind};

/// The template of an event: its bytes, except for the values that change from event to event.
///
/// `T` describes the text, for example its channel.
#[derive(Clone, Debug)]
pub(crate) struct Form<T> {
    /// The meaning of the text for the reader, for example its channel. `None` before the first
    /// event with a template.
    subject: Option<T>,
    event_type: String,
    /// The bytes around the values, without gaps. The last ones end the event.
    fixed: String,
    values: Values,
    /// The values of the event that is being read in full.
    noted: Values,
    noted_subject: Option<T>,
    /// The number of events that were read in full, for tests.
    full_readings: u64,
}

/// An event that matches the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Familiar<'a, T> {
    /// The meaning of the text.
    pub(crate) subject: T,
    /// The raw text between its quotes.
    pub(crate) text: &'a str,
    /// Whether the text has escapes.
    pub(crate) has_escapes: bool,
    /// The raw digits of the number that changes. Empty without one; the last one of several.
    pub(crate) number: &'a str,
}

impl<T> Default for Form<T> {
    fn default() -> Self {
        Self {
            subject: None,
            event_type: String::new(),
            fixed: String::new(),
            values: Values::default(),
            noted: Values::default(),
            noted_subject: None,
            full_readings: 0,
        }
    }
}

impl<T: Copy> Form<T> {
    /// Reads an event. `None`: the event does not match the template, and has to be read in full.
    ///
    /// This is stricter than JSON: a number must not have a sign, fraction or exponent.
    #[inline]
    pub(crate) fn read<'a>(&self, event_type: &str, data: &'a str) -> Option<Familiar<'a, T>> {
        let subject = self.subject?;
        if event_type != self.event_type {
            return None;
        }
        let (mut fixed, mut rest) = (self.fixed.as_bytes(), data.as_bytes());
        let (mut text, mut number) = (0..0, 0..0);
        let mut has_escapes = false;
        for value in self.values.list() {
            let (before, after) = fixed.split_at_checked(value.before)?;
            let value_on = rest.strip_prefix(before)?;
            let start = data.len() - value_on.len();
            let length = match value.kind {
                Changing::Text => {
                    let body = string_body(value_on)?;
                    (text, has_escapes) = (start..start + body.length, body.has_escapes);
                    body.length
                }
                Changing::String => string_body(value_on)?.length,
                Changing::Number => {
                    let length = digits(value_on)?;
                    number = start..start + length;
                    length
                }
                Changing::Space => value_on.iter().take_while(|&&byte| byte == b' ').count(),
            };
            (fixed, rest) = (after, value_on.get(length..)?);
        }
        if fixed != rest {
            return None;
        }
        Some(Familiar {
            subject,
            text: data.get(text)?,
            has_escapes,
            number: data.get(number)?,
        })
    }

    /// Starts to read an event in full: drops the notes about another event.
    pub(crate) fn start(&mut self) {
        self.noted.count = 0;
        self.noted_subject = None;
        self.full_readings += 1;
    }

    /// Notes a value that may change: a value that the reader ignores, or the number that it takes
    /// from [`Familiar::number`]. Only strings and numbers count.
    pub(crate) fn note_changing(&mut self, value: Raw<'_>) {
        match value.kind() {
            ValueKind::String => self.noted.add(inside_quotes(value), Changing::String),
            ValueKind::Number => self.noted.add(value.range(), Changing::Number),
            _ => {}
        }
    }

    /// Notes the string that is the text.
    pub(crate) fn note_text(&mut self, subject: T, value: Raw<'_>) {
        if value.kind() == ValueKind::String {
            self.noted.add(inside_quotes(value), Changing::Text);
            self.noted_subject = Some(subject);
        }
    }

    /// Returns the meaning of the text that was noted in this event.
    pub(crate) fn noted_subject(&self) -> Option<T> {
        self.noted_subject
    }

    /// Remembers the template of the event whose values were noted. An event without a text, or
    /// with several, has none.
    ///
    /// The caller ensures that the reader's result for this event depends only on the text and on
    /// the other bytes.
    pub(crate) fn remember(&mut self, event_type: &str, data: &str) {
        // Anthropic pads its events in front of their last bracket.
        if let Some((before, _)) = data.rsplit_once('}')
            && before.ends_with(' ')
        {
            self.noted.add(
                before.trim_end_matches(' ').len()..before.len(),
                Changing::Space,
            );
        }
        let noted = self.noted.list_mut();
        noted.sort_unstable_by_key(|value| value.range.0);
        if noted
            .iter()
            .filter(|value| value.kind == Changing::Text)
            .count()
            != 1
        {
            return;
        }
        self.subject = None;
        self.fixed.clear();
        let mut from = 0;
        for value in noted {
            let (start, end) = value.range;
            let Some(before) = data.get(from..start) else {
                return;
            };
            self.fixed.push_str(before);
            (value.before, from) = (before.len(), end);
        }
        let Some(after) = data.get(from..) else {
            return;
        };
        self.fixed.push_str(after);
        event_type.clone_into(&mut self.event_type);
        self.values = self.noted;
        self.subject = self.noted_subject;
    }

    /// Forgets the template: such events now have another meaning.
    pub(crate) fn forget(&mut self) {
        self.subject = None;
    }
}

/// The values of an event that may change, in the order of their positions once the event was read.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    list: [Value; MOST],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Value {
    kind: Changing,
    /// Where it is in the event that was read in full: start and end, without quotes.
    range: (usize, usize),
    /// The number of fixed bytes between the value before and this one.
    before: usize,
}

/// A value that may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Changing {
    /// The body of the string that is read.
    #[default]
    Text,
    /// The body of another string.
    String,
    Number,
    /// Spaces between two tokens.
    Space,
}

impl Values {
    fn list(&self) -> &[Value] {
        self.list.get(..self.count).unwrap_or_default()
    }

    fn list_mut(&mut self) -> &mut [Value] {
        self.list.get_mut(..self.count).unwrap_or_default()
    }

    /// Adds a value. With too many values the text takes precedence, and the last ignored value
    /// becomes part of the fixed bytes.
    fn add(&mut self, range: Range<usize>, kind: Changing) {
        let value = Value {
            kind,
            range: (range.start, range.end),
            before: 0,
        };
        if let Some(free) = self.list.get_mut(self.count) {
            *free = value;
            self.count += 1;
        } else if kind == Changing::Text
            && let Some(ignored) = self
                .list
                .iter_mut()
                .rfind(|value| value.kind != Changing::Text)
        {
            *ignored = value;
        }
    }
}

/// Values that may change. Responses have the most: the text, a number, padding and white space.
const MOST: usize = 4;

/// Returns the range of a string without its quotes.
fn inside_quotes(string: Raw<'_>) -> Range<usize> {
    let range = string.range();
    range.start + 1..range.end.saturating_sub(1)
}

/// The text between two quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StringBody {
    length: usize,
    has_escapes: bool,
}

/// Reads the text up to the next quote; `None` if it is not legal between quotes, or has no end.
#[inline]
fn string_body(bytes: &[u8]) -> Option<StringBody> {
    let mut at = 0;
    let mut has_escapes = false;
    loop {
        while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let stops = stops(u64::from_le_bytes(*word));
            if stops != 0 {
                at += stops.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match bytes.get(at)? {
            b'"' => {
                return Some(StringBody {
                    length: at,
                    has_escapes,
                });
            }
            b'\\' => {
                has_escapes = true;
                at += escape(bytes.get(at + 1..)?)?;
            }
            ..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// Returns the length of an escape; `bytes` follow its backslash. Half of a surrogate pair is
/// legal.
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
fn digits(bytes: &[u8]) -> Option<usize> {
    let length = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let is_legal = length == 1 || length > 1 && bytes.first() != Some(&b'0');
    is_legal.then_some(length)
}

#[cfg(test)]
mod tests {
    use super::{Form, StringBody, digits, string_body};
    use crate::json::walk::{self, member};

    #[test]
    fn bodies_of_strings_are_those_of_the_grammar() {
        let pieces = [
            "", "a", "é", "😀", "\u{7f}", "\u{1f}", "\n", "\"", "\\", "\\\"", "\\\\", "\\n",
            "\\u12aF", "\\ud83d", "\\u12", "\\u+123", "\\x", "12345678",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let body = format!("{first}{second}{third}");
                    let text = format!("{body}\"}}, and more");
                    let end = string_body(text.as_bytes());
                    let slow = (0..=body.len()).find(|&end| {
                        text.as_bytes()[end] == b'"'
                            && walk::is_valid(&format!("\"{}\"", &text[..end]))
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
    }

    #[test]
    fn numbers() {
        let lengths = ["0,", "10}", "01", "-1", "", "x", "1.5", "1e3", "12"]
            .map(|text| digits(text.as_bytes()));
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

    fn form(data: &str) -> Form<u8> {
        let mut form = Form::default();
        form.start();
        for key in ["n", "p"] {
            form.note_changing(member(data, key).unwrap());
        }
        form.note_text(7, member(data, "t").unwrap());
        form.remember("message", data);
        form
    }

    #[test]
    fn only_values_may_differ() {
        for data in [
            r#"{"a":1,"n":2,"t":"x","p":"yy"}"#,
            r#"{"n":2,"a":1,"p":"yy", "t":"x"}"#,
            r#"{"t":"x","p":"yy","a":1,"n":2}"#,
        ] {
            let form = form(data);
            assert_eq!(
                form.read("message", data)
                    .map(|event| (event.subject, event.text, event.number)),
                Some((7, "x", "2"))
            );
            assert_eq!(form.read("other", data), None);
            for (from, to, is_known) in [
                ("\"x\"", "\"\"", true),
                ("\"x\"", r#""a\"}b""#, true),
                ("\"x\"", r#""a","t":"b""#, false),
                ("\"x\"", "null", false),
                ("\"yy\"", "\"\"", true),
                ("\"yy\"", "\"\n\"", false),
                (":2", ":123", true),
                (":2", ":0", true),
                (":2", ":02", false),
                (":2", ":2.5", false),
                (":2", ":2e1", false),
                (":2", ":-2", false),
                (":2", ":", false),
                (":1", ":2", false),
                ("}", "\t}", false),
                ("}", "} ", false),
                ("}", "", false),
            ] {
                let event = data.replacen(from, to, 1);
                assert_ne!(event, data);
                assert_eq!(form.read("message", &event).is_some(), is_known, "{event}");
            }
            let padded = data.replace('}', "  }");
            let padded = self::form(&padded);
            assert!(padded.read("message", data).is_some());
            for end in 0..data.len() {
                assert_eq!(form.read("message", &data[..end]), None);
            }
        }
    }

    #[test]
    fn no_form_without_one_text() {
        let data = r#"{"a":"x","b":"y"}"#;
        let mut form: Form<u8> = Form::default();
        form.start();
        form.note_changing(member(data, "a").unwrap());
        form.remember("message", data);
        assert_eq!(form.read("message", data), None);
        form.note_text(1, member(data, "b").unwrap());
        form.remember("message", data);
        assert_eq!(
            form.read("message", data).map(|event| event.text),
            Some("y")
        );
        form.note_text(1, member(data, "a").unwrap());
        form.remember("message", data);
        form.forget();
        assert_eq!(form.read("message", data), None);
    }
}
