//! An object that the answer has as a whole, although the document has its beginning.
//!
//! A model continues an object better if it writes the object from its beginning: it copies what is
//! there, and goes on. The repeat is compared value by value, so its layout does not matter.

use std::collections::VecDeque;

use super::reader::rest_of_escape;
use crate::document::Document;
use crate::json::string::{decode, first_unit, key, quoted};
use crate::json::{Event, Kind, ParserView, Sink};

/// The delivered beginning of an object, and how much of it the answer has repeated.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    /// The parts that the answer must have next.
    due: VecDeque<Token>,
    /// The bytes of the open string that the answer has repeated, decoded.
    repeated: usize,
}

/// A part of a delivered object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
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

/// How an answer goes on.
pub(super) enum Step {
    /// It has repeated all that was due so far.
    Follows,
    /// It has repeated the whole beginning. The rest of the object is this text, and the text of
    /// the answer from this offset on.
    Arrived(String, usize),
    /// It has other text.
    Contradicts,
}

impl Repeat {
    /// Reads the delivered beginning of an object. `escape`: its last bytes, an escape in which the
    /// document stops.
    pub(super) fn of(begun: &str, escape: &str, max_depth: usize) -> Option<Self> {
        let mut document = Document::new(max_depth);
        document.push(begun).ok()?;
        let mut due = Tokens::default();
        document.replay(&mut due);
        let Tokens(mut due) = due;
        let machine = document.machine();
        let cut = begun.get(machine.token_start()..).unwrap_or_default();
        if machine.in_string() {
            let said = decode(cut.get(1..cut.len().checked_sub(escape.len())?)?).into_owned();
            due.push_back(match machine.in_key() {
                true => Token::OpenKey(said),
                false => Token::OpenString(said, escape.to_owned()),
            });
        } else if machine.in_token() {
            due.push_back(Token::OpenScalar(cut.to_owned()));
        } else if begun.trim_ascii_end().ends_with([',', ':']) {
            due.push_back(Token::Mark);
        }
        Some(Self { due, repeated: 0 })
    }

    /// Compares the next part of an answer.
    pub(super) fn event(&mut self, event: Event, live: &ParserView<'_>) -> Step {
        let span = event.span();
        let text = span.of(live.text);
        let Some(token) = self.due.front() else {
            return Step::Contradicts;
        };
        let is_same = match (token, event) {
            // Its fragments are compared, or its end.
            (Token::String(_), Event::StringBegin(_) | Event::Fragment(_)) => return Step::Follows,
            (Token::OpenString(said, escape), Event::StringBegin(_)) => {
                return match said.is_empty() && escape.is_empty() {
                    true => Step::Arrived(String::new(), span.end),
                    false => Step::Follows,
                };
            }
            (Token::OpenString(..), Event::Fragment(_)) => return self.fragment(event, live),
            // A number may come as a string, whose pattern has its beginning.
            (Token::OpenScalar(_), Event::StringBegin(_) | Event::Fragment(_)) => {
                return Step::Follows;
            }
            (Token::OpenScalar(begun), Event::Scalar { .. } | Event::StringEnd(_)) => {
                return match text.trim_matches('"').strip_prefix(begun.as_str()) {
                    Some(rest) => Step::Arrived(rest.to_owned(), span.end),
                    None => Step::Contradicts,
                };
            }
            (Token::OpenKey(begun), Event::Key(_)) => {
                let whole = key(text);
                return match whole.strip_prefix(begun.as_str()).map(quoted) {
                    // The span is the text between the quotes.
                    Some(rest) => {
                        let rest = rest.get(1..).unwrap_or_default().to_owned();
                        Step::Arrived(rest, span.end + 1)
                    }
                    None => Step::Contradicts,
                };
            }
            (Token::Begin(kind), Event::Begin { kind: found, .. })
            | (Token::End(kind), Event::End { kind: found, .. }) => *kind == found,
            (Token::Key(name), Event::Key(_)) => key(text) == **name,
            (Token::String(value), Event::StringEnd(_)) => decode(unquoted(text)) == **value,
            (Token::Scalar(value), Event::Scalar { .. }) => value == text,
            (Token::Mark, Event::End { .. }) => false,
            (Token::Mark, Event::Key(_)) => return Step::Arrived(String::new(), span.start - 1),
            (Token::Mark, _) => return Step::Arrived(String::new(), span.start),
            _ => false,
        };
        if !is_same {
            return Step::Contradicts;
        }
        self.due.pop_front();
        match self.due.is_empty() {
            true => Step::Arrived(String::new(), end_of(event)),
            false => Step::Follows,
        }
    }

    /// Compares text of the string in which the document stops.
    fn fragment(&mut self, event: Event, live: &ParserView<'_>) -> Step {
        let Some(Token::OpenString(said, escape)) = self.due.front() else {
            return Step::Contradicts;
        };
        let (start, mut text) = (event.span().start, event.span().of(live.text));
        let mut at = start;
        while !text.is_empty() && self.repeated < said.len() {
            let (unit, rest) = text.split_at(first_unit(text).1.max(1));
            let decoded = decode(unit);
            let due = said.get(self.repeated..).unwrap_or_default();
            if !due.starts_with(&*decoded) {
                return Step::Contradicts;
            }
            self.repeated += decoded.len();
            at += unit.len();
            text = rest;
        }
        if self.repeated < said.len() {
            return Step::Follows;
        }
        if escape.is_empty() {
            return Step::Arrived(String::new(), at);
        }
        if text.is_empty() {
            return Step::Follows;
        }
        let (unit, _) = text.split_at(first_unit(text).1.max(1));
        match rest_of_escape(escape, unit) {
            Some(rest) => Step::Arrived(rest, at + unit.len()),
            None => Step::Contradicts,
        }
    }
}

/// Returns the offset after the bytes that an event is about.
fn end_of(event: Event) -> usize {
    let quote = usize::from(matches!(event, Event::Key(_)));
    event.span().end + quote
}

/// Collects the parts of a delivered object.
#[derive(Default)]
struct Tokens(VecDeque<Token>);

impl Sink for Tokens {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        let text = event.span().of(live.text);
        self.0.push_back(match event {
            Event::Begin { kind, .. } => Token::Begin(kind),
            Event::End { kind, .. } => Token::End(kind),
            Event::Key(_) => Token::Key(key(text).into_owned()),
            Event::StringEnd(_) => Token::String(decode(unquoted(text)).into_owned()),
            Event::Scalar { .. } => Token::Scalar(text.to_owned()),
            Event::StringBegin(_) | Event::Fragment(_) => return,
        });
    }
}

/// Returns the text between the quotes of a whole string.
fn unquoted(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1))
        .unwrap_or_default()
}
