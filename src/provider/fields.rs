//! Reads members of JSON objects, and texts that arrive in pieces: for several wires.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use crate::json::string::Unescaper;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::{Delta, Kind, SlotId};

/// Returns the object in `data`, if `data` is valid JSON.
pub(super) fn object(data: &str) -> Option<Raw<'_>> {
    Raw::valid(data).filter(|root| root.kind() == ValueKind::Object)
}

/// Returns the object in `data`, if `data` is valid JSON. Its members are those of `table`: the
/// bytes are read once, however deep a reader goes.
pub(super) fn recorded_object<'a>(table: &'a mut Table, data: &'a str) -> Option<Raw<'a>> {
    table
        .read(data)
        .filter(|root| root.kind() == ValueKind::Object)
}

/// Returns the object in `data` and its member `array`, which must be an array.
pub(super) fn object_with<'a>(data: &'a str, array: &str) -> Option<(Raw<'a>, Raw<'a>)> {
    let root = object(data)?;
    let array = root
        .member(array)
        .filter(|array| array.kind() == ValueKind::Array)?;
    Some((root, array))
}

/// Returns a member that is an object.
pub(super) fn object_of<'a>(object: Raw<'a>, key: &str) -> Option<Raw<'a>> {
    as_object(object.member(key))
}

/// Returns a value that is an object.
pub(super) fn as_object(value: Option<Raw<'_>>) -> Option<Raw<'_>> {
    value.filter(|value| value.kind() == ValueKind::Object)
}

/// Returns the first of two spellings of a key that an object has, and its value.
pub(super) fn either<'a>(
    object: Raw<'a>,
    keys: [&'static str; 2],
) -> Option<(&'static str, Raw<'a>)> {
    keys.into_iter()
        .find_map(|key| Some((key, object.member(key)?)))
}

/// Returns an object's members with decoded keys.
pub(super) fn members<'a>(object: Raw<'a>) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> {
    object
        .members()
        .filter_map(|(key, value)| Some((key.decode()?, value)))
}

/// Returns a value that is not `null`.
pub(super) fn present(value: Option<Raw<'_>>) -> Option<Raw<'_>> {
    value.filter(|value| !value.is_null())
}

/// Returns the text of a string.
pub(super) fn text(value: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(|value| value.decode())
}

/// Returns the text of a string that is not empty.
pub(super) fn word(value: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    text(value).filter(|word| !word.is_empty())
}

/// Returns whether a value is `true`.
pub(super) fn is_true(value: Option<Raw<'_>>) -> bool {
    value.and_then(|value| value.as_bool()) == Some(true)
}

/// Returns a number that fits into 32 bits.
pub(super) fn number(value: Option<Raw<'_>>) -> Option<u32> {
    value
        .and_then(|value| value.as_u64())
        .and_then(|number| u32::try_from(number).ok())
}

/// Returns an index; 0 if it is missing.
pub(super) fn place(value: Option<Raw<'_>>) -> u32 {
    value
        .and_then(|value| value.as_u64())
        .map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns the index as written, or else the position in the array.
pub(super) fn number_or(value: Option<Raw<'_>>, at: usize) -> u32 {
    number(value).unwrap_or_else(|| u32::try_from(at).unwrap_or(u32::MAX))
}

/// Returns whether a value is a string, or an array with an element: a stop sequence, or several.
pub(super) fn has_stop(value: Option<Raw<'_>>) -> bool {
    value.is_some_and(|stop| stop.inner().is_some() || stop.elements().next().is_some())
}

/// Returns whether the value of an `error` member reports an error.
pub(super) fn says_error(error: &Raw<'_>) -> bool {
    !matches!(error.as_str(), "null" | "false" | "\"\"")
}

/// Returns an error's message: a string itself, the first string of `message`, `error` and `detail`
/// of an object, else all of the value.
pub(super) fn message(error: Raw<'_>) -> Cow<'_, str> {
    let first = || {
        ["message", "error", "detail"]
            .into_iter()
            .find_map(|key| word(error.member(key)))
    };
    word(Some(error))
        .or_else(first)
        .unwrap_or(Cow::Borrowed(error.as_str()))
}

/// Returns the choice with a number: by its `index`, or by its position if it has no index.
pub(super) fn choice_of<'a>(choices: &[Raw<'a>], index: u32) -> Option<Raw<'a>> {
    let written = |choice: &Raw<'_>| number(choice.member("index"));
    let found = choices.iter().find(|choice| written(choice) == Some(index));
    found
        .or_else(|| {
            choices
                .get(index as usize)
                .filter(|choice| written(choice).is_none())
        })
        .copied()
}

/// Returns raw JSON on one line, since a line end would end the event. In valid JSON a line end can
/// only be white space.
pub(super) fn one_line(raw: &str) -> String {
    match memchr2(b'\n', b'\r', raw.as_bytes()) {
        None => raw.to_owned(),
        Some(_) => raw.split(['\n', '\r']).collect(),
    }
}

/// Takes note of the data of an event that is not a JSON object. Returns the kind of the event.
pub(super) fn no_object(event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
    if event_type != "error" {
        return Kind::Other;
    }
    on(Delta::Error {
        message: data,
        raw: data,
    });
    Kind::Error
}

/// A sequence of strings that together are one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// Text of the answer.
    Text(SlotId),
    /// Reasoning.
    Reasoning(SlotId),
    /// The arguments of a tool call.
    Arguments(SlotId),
}

/// A decoder for the texts of one stream. Each text arrives as a sequence of JSON strings.
///
/// It keeps halves of surrogate pairs, since a later string of the same text may have the other
/// half. `K` identifies a text.
#[derive(Clone, Debug)]
pub(super) struct Texts<K> {
    /// The texts whose last string ended in half a pair; at most [`WAITING`].
    waiting: Vec<(K, Unescaper)>,
    /// The buffer that strings with escapes are decoded into.
    scratch: String,
    removed: u64,
}

impl<K> Default for Texts<K> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            scratch: String::new(),
            removed: 0,
        }
    }
}

impl<K: Copy + PartialEq> Texts<K> {
    /// Decodes the next string of a text; `inner` is the text between its quotes.
    pub(super) fn decode<'s>(&'s mut self, text: K, inner: &'s str) -> &'s str {
        self.decode_known(text, inner, has_escapes(inner))
    }

    /// Decodes the next string of a text. `has_escapes`: `inner` has a backslash.
    pub(super) fn decode_known<'s>(
        &'s mut self,
        text: K,
        inner: &'s str,
        has_escapes: bool,
    ) -> &'s str {
        let place = self.waiting.iter().position(|(other, _)| *other == text);
        if place.is_none() && !has_escapes {
            return inner;
        }
        let mut unescaper = place
            .map(|place| self.waiting.swap_remove(place).1)
            .unwrap_or_default();
        let before = unescaper.removed();
        self.scratch.clear();
        unescaper.push(inner, &mut self.scratch);
        self.removed += unescaper.removed() - before;
        if unescaper.is_waiting() {
            match self.waiting.len() < WAITING {
                true => self.waiting.push((text, unescaper)),
                false => self.removed += 1,
            }
        }
        &self.scratch
    }

    /// Returns how many halves of pairs were removed because the other half was missing.
    pub(super) fn removed(&self) -> u64 {
        self.removed
    }

    /// Ends all texts. Returns how many halves of pairs were removed in total.
    pub(super) fn finish(&mut self) -> u64 {
        self.removed += self.waiting.drain(..).count() as u64;
        self.removed
    }

    /// Removes the half of a pair that a text ended with.
    pub(super) fn end(&mut self, mut is_over: impl FnMut(&K) -> bool) {
        self.waiting.retain(|(text, _)| !is_over(text));
    }
}

/// Returns whether the text between two quotes has escapes.
pub(super) fn has_escapes(inner: &str) -> bool {
    memchr(b'\\', inner.as_bytes()).is_some()
}

/// The most texts that wait for the second half of a pair at a time. A stream has a few choices and
/// calls; halves in further texts are removed.
const WAITING: usize = 64;
