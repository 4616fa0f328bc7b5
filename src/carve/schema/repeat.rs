//! A value that the answer has as a whole, although the document has its beginning.
//!
//! A model continues a value better if it writes the value from its beginning: it copies the
//! delivered part, and continues. The repeat is compared value by value, so its layout does not
//! matter.

use std::collections::VecDeque;

use super::reader::rest_of_escape;
use crate::document::Document;
use crate::json::string::{decode, first_unit, key, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::json::{Event, Kind, ParserView, Sink};

/// The delivered beginning of a value, and how much of it the answer has repeated.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    /// The parts that the answer must have next.
    due: VecDeque<RepeatPart>,
    /// The bytes of the open string that the answer has repeated, decoded.
    repeated: usize,
}

/// A part of a delivered value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RepeatPart {
    Begin(Kind),
    End(Kind),
    Key(String),
    String(String),
    Scalar(String),
    /// The string in which the document stops, decoded, and the escape in which it stops.
    OpenString(String, String),
    OpenKey(String),
    OpenScalar(String),
    /// The comma or colon after which the document stops.
    Mark,
}

/// How an answer continues.
pub(super) enum RepeatStep {
    /// It has repeated the due text until now.
    Follows,
    /// It has repeated the whole beginning. The rest of the value is this text, and the text of
    /// the answer from this offset on.
    Arrived(String, usize),
    /// It has other text.
    Contradicts,
}

impl Repeat {
    /// Reads the delivered beginning of a value.
    pub(super) fn of(begun: &str) -> Option<Self> {
        // A document has no strings or numbers outside of containers.
        let begun = format!("[{begun}");
        let mut document = Document::new(begun.len());
        document.push(&begun).ok()?;
        let mut due = RepeatParts::default();
        document.replay(&mut due);
        let RepeatParts(mut due) = due;
        due.pop_front();
        let machine = document.machine();
        let cut = begun.get(machine.token_start()..).unwrap_or_default();
        if machine.in_string() {
            let escape = match machine.state().in_escape() {
                true => begun.get(machine.pending_start()..)?,
                false => "",
            };
            let said = decode(cut.get(1..cut.len().checked_sub(escape.len())?)?).into_owned();
            due.push_back(match machine.in_key() {
                true => RepeatPart::OpenKey(said),
                false => RepeatPart::OpenString(said, escape.to_owned()),
            });
        } else if machine.in_token() {
            due.push_back(RepeatPart::OpenScalar(cut.to_owned()));
        } else if begun.trim_ascii_end().ends_with([',', ':']) {
            due.push_back(RepeatPart::Mark);
        }
        Some(Self { due, repeated: 0 })
    }

    /// Returns whether the value of the answer that begins with an event may be this value.
    pub(super) fn has_type_of(&self, event: Event) -> bool {
        match (self.due.front(), event) {
            (Some(RepeatPart::Begin(kind)), Event::Begin { kind: found, .. }) => *kind == found,
            // A number may come as a string, whose pattern has its beginning.
            (Some(RepeatPart::OpenScalar(_)), Event::Scalar { .. }) => true,
            (
                Some(RepeatPart::OpenScalar(_) | RepeatPart::OpenString(..)),
                Event::StringBegin(_),
            ) => true,
            _ => false,
        }
    }

    /// Compares the next part of an answer.
    pub(super) fn event(&mut self, event: Event, live: &ParserView<'_>) -> RepeatStep {
        let span = event.span();
        let text = span.of(live.text);
        let Some(token) = self.due.front() else {
            return RepeatStep::Contradicts;
        };
        let is_same = match (token, event) {
            // Its fragments are compared, or its end.
            (RepeatPart::String(_), Event::StringBegin(_) | Event::Fragment(_)) => {
                return RepeatStep::Follows;
            }
            (RepeatPart::OpenString(said, escape), Event::StringBegin(_)) => {
                return match said.is_empty() && escape.is_empty() {
                    true => RepeatStep::Arrived(String::new(), span.end),
                    false => RepeatStep::Follows,
                };
            }
            (RepeatPart::OpenString(..), Event::Fragment(_)) => return self.fragment(event, live),
            // See `has_type_of`.
            (RepeatPart::OpenScalar(_), Event::StringBegin(_) | Event::Fragment(_)) => {
                return RepeatStep::Follows;
            }
            (RepeatPart::OpenScalar(begun), Event::Scalar { .. } | Event::StringEnd(_)) => {
                return match rest_of_scalar(begun, text.trim_matches('"')) {
                    Some(rest) => RepeatStep::Arrived(rest.to_owned(), span.end),
                    None => RepeatStep::Contradicts,
                };
            }
            (RepeatPart::OpenKey(begun), Event::Key(_)) => {
                let whole = key(text);
                return match whole.strip_prefix(begun.as_str()).map(quoted) {
                    // The span is the text between the quotes.
                    Some(rest) => {
                        let rest = rest.get(1..).unwrap_or_default().to_owned();
                        RepeatStep::Arrived(rest, span.end + 1)
                    }
                    None => RepeatStep::Contradicts,
                };
            }
            (RepeatPart::Begin(kind), Event::Begin { kind: found, .. })
            | (RepeatPart::End(kind), Event::End { kind: found, .. }) => *kind == found,
            (RepeatPart::Key(name), Event::Key(_)) => key(text) == **name,
            (RepeatPart::String(value), Event::StringEnd(_)) => decode(unquoted(text)) == **value,
            (RepeatPart::Scalar(value), Event::Scalar { .. }) => is_same_scalar(value, text),
            (RepeatPart::Mark, Event::End { .. }) => false,
            (RepeatPart::Mark, Event::Key(_)) => {
                return RepeatStep::Arrived(String::new(), span.start - 1);
            }
            (RepeatPart::Mark, _) => return RepeatStep::Arrived(String::new(), span.start),
            _ => false,
        };
        if !is_same {
            return RepeatStep::Contradicts;
        }
        self.due.pop_front();
        match self.due.is_empty() {
            true => RepeatStep::Arrived(String::new(), end_of(event)),
            false => RepeatStep::Follows,
        }
    }

    /// Compares text of the string in which the document stops.
    fn fragment(&mut self, event: Event, live: &ParserView<'_>) -> RepeatStep {
        let Some(RepeatPart::OpenString(said, escape)) = self.due.front() else {
            return RepeatStep::Contradicts;
        };
        let (mut at, mut text) = (event.span().start, event.span().of(live.text));
        while !text.is_empty() && self.repeated < said.len() {
            let (unit, rest) = text.split_at(first_unit(text).1.max(1));
            let decoded = decode(unit);
            let due = said.get(self.repeated..).unwrap_or_default();
            if !due.starts_with(&*decoded) {
                return RepeatStep::Contradicts;
            }
            self.repeated += decoded.len();
            at += unit.len();
            text = rest;
        }
        if self.repeated < said.len() {
            return RepeatStep::Follows;
        }
        if escape.is_empty() {
            return RepeatStep::Arrived(String::new(), at);
        }
        if text.is_empty() {
            return RepeatStep::Follows;
        }
        let (unit, _) = text.split_at(first_unit(text).1.max(1));
        match rest_of_escape(escape, unit) {
            Some(rest) => RepeatStep::Arrived(rest, at + unit.len()),
            None => RepeatStep::Contradicts,
        }
    }
}

/// Returns the offset after the bytes that an event is about.
fn end_of(event: Event) -> usize {
    let quote = usize::from(matches!(event, Event::Key(_)));
    event.span().end + quote
}

/// Collects the parts of a delivered value.
#[derive(Default)]
struct RepeatParts(VecDeque<RepeatPart>);

impl Sink for RepeatParts {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let text = event.span().of(live.text);
        self.0.push_back(match event {
            Event::Begin { kind, .. } => RepeatPart::Begin(kind),
            Event::End { kind, .. } => RepeatPart::End(kind),
            Event::Key(_) => RepeatPart::Key(key(text).into_owned()),
            Event::StringEnd(_) => RepeatPart::String(decode(unquoted(text)).into_owned()),
            Event::Scalar { .. } => RepeatPart::Scalar(text.to_owned()),
            Event::StringBegin(_) | Event::Fragment(_) | Event::Withdrawn(_) => return,
        });
    }
}

/// Returns the rest of a number or literal. `None` if `whole` begins otherwise, or is another value.
fn rest_of_scalar<'a>(begun: &str, whole: &'a str) -> Option<&'a str> {
    use ValueKind::{Array, Object, String};
    let is_scalar = |value: &Raw<'_>| !matches!(value.kind(), Array | Object | String);
    Raw::valid(whole).filter(is_scalar)?;
    whole.strip_prefix(begun)
}

/// Returns whether two numbers or literals are the same. A provider that has read the schema may
/// write `2.50` as `2.5`. Integers are compared as text: larger ones have no exact float.
fn is_same_scalar(delivered: &str, text: &str) -> bool {
    let float = |text: &str| text.parse::<f64>().ok();
    let is_float = |text: &str| text.contains(['.', 'e', 'E']) && !text.starts_with(['t', 'f']);
    let is_equal = || float(delivered).is_some_and(|value| float(text) == Some(value));
    delivered == text || (is_float(delivered) || is_float(text)) && is_equal()
}

/// Returns the text between the quotes of a whole string.
fn unquoted(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1))
        .unwrap_or_default()
}
