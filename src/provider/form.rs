//! Reads an event that has the bytes of an earlier one, except for a text, a few ignored values, and
//! the numbers of an object that is passed on.
//!
//! Nearly all events of a stream have this layout. Equal bytes before a value leave a parser in an
//! equal state, so only the value has to be scanned, and equal bytes after it mean the same. This
//! module knows no wire: while a reader parses an event in full, it marks the string that is the
//! text, the values that it ignores, and the object that it passes on.

use std::ops::Range;

use crate::json::walk::{Raw, ValueKind, string_body, whole_number};

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
    /// The edges that were noted, whether or not there was room for them.
    noted_edges: usize,
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
    /// The raw object that is passed on. Empty without one.
    pub(crate) passed: &'a str,
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
            noted_edges: 0,
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
        let (mut text, mut number, mut passed) = (0..0, 0..0, 0..0);
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
                    let length = whole_number(value_on)?;
                    number = start..start + length;
                    length
                }
                Changing::Space => value_on.iter().take_while(|&&byte| byte == b' ').count(),
                // The second edge ends what the first one began.
                Changing::Edge => {
                    passed = passed.end..start;
                    0
                }
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
            passed: data.get(passed)?,
        })
    }

    /// Starts to read an event in full: drops the notes about another event.
    pub(crate) fn start(&mut self) {
        self.noted.count = 0;
        self.noted_subject = None;
        self.noted_edges = 0;
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

    /// Notes an object that the reader passes on unchanged: its numbers may differ. An event has at
    /// most one.
    pub(crate) fn note_passed(&mut self, object: Raw<'_>) {
        let range = object.range();
        for edge in [range.start, range.end] {
            self.noted.add(edge..edge, Changing::Edge);
            self.noted_edges += 1;
        }
        for (_, value) in object.members() {
            match value.kind() {
                ValueKind::Number => self.note_changing(value),
                // Counts by modality, an object each.
                ValueKind::Array => value
                    .elements()
                    .flat_map(|element| element.members())
                    .filter(|(_, value)| value.kind() == ValueKind::Number)
                    .for_each(|(_, value)| self.note_changing(value)),
                _ => {}
            }
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
        noted.sort_unstable_by_key(|value| value.range);
        let count = |kind| noted.iter().filter(|value| value.kind == kind).count();
        if count(Changing::Text) != 1 || count(Changing::Edge) != self.noted_edges {
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
    /// Nothing: the start or the end of the value that is passed on.
    Edge,
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

/// Values that may change. Events of Gemini have the most: the text, both edges of the usage, and its
/// numbers.
const MOST: usize = 10;

/// Returns the range of a string without its quotes.
fn inside_quotes(string: Raw<'_>) -> Range<usize> {
    let range = string.range();
    range.start + 1..range.end.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::Form;
    use crate::json::walk::member;

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
