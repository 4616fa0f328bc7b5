//! Reads members of JSON objects: what several wires share.

use std::borrow::Cow;

use crate::json::string::Unescaper;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::SlotId;

/// Returns the root of a text that is one JSON object.
pub(super) fn object(text: &str) -> Option<Raw<'_>> {
    Raw::root(text).filter(|root| root.kind() == ValueKind::Object && walk::is_valid(text))
}

/// Returns a member that is an object.
pub(super) fn object_of<'a>(object: Raw<'a>, key: &str) -> Option<Raw<'a>> {
    object.member(key).filter(|value| value.kind() == ValueKind::Object)
}

/// Returns the first of two spellings of a key that an object has, and its value.
pub(super) fn either<'a>(object: Raw<'a>, keys: [&'static str; 2]) -> Option<(&'static str, Raw<'a>)> {
    keys.into_iter().find_map(|key| Some((key, object.member(key)?)))
}

/// Returns the text of a string.
pub(super) fn text(value: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(|value| value.decode())
}

/// Returns the text of a string that is not empty.
pub(super) fn word(value: Option<Raw<'_>>) -> Option<String> {
    text(value).filter(|word| !word.is_empty()).map(Cow::into_owned)
}

/// Returns whether a value is `true`.
pub(super) fn is_true(value: Option<Raw<'_>>) -> bool {
    value.and_then(|value| value.as_bool()) == Some(true)
}

/// Returns a number that fits into 32 bits.
pub(super) fn number(value: Option<Raw<'_>>) -> Option<u32> {
    value.and_then(|value| value.as_u64()).and_then(|number| u32::try_from(number).ok())
}

/// Returns a place in an array as a number of a slot.
pub(super) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Returns whether a value is a string, or an array with an element: a stop sequence, or several.
pub(super) fn has_stop(value: Option<Raw<'_>>) -> bool {
    value.is_some_and(|stop| stop.inner().is_some() || stop.elements().next().is_some())
}

/// Returns whether the value of an `error` member says that there is an error.
pub(super) fn says_error(error: &Raw<'_>) -> bool {
    !matches!(error.as_str(), "null" | "false" | "\"\"")
}

/// Returns an error's message: a string itself, the first string of `message`, `error` and `detail` of an object, else
/// all of the value.
pub(super) fn message(error: Raw<'_>) -> Cow<'_, str> {
    let text = |raw: Raw<'_>| word(Some(raw));
    let found = text(error).or_else(|| ["message", "error", "detail"].iter().find_map(|key| text(error.member(key)?)));
    found.map_or(Cow::Borrowed(error.as_str()), Cow::Owned)
}

/// Returns raw JSON on one line, since a line end would end the event. In valid JSON a line end can only be white
/// space.
pub(super) fn one_line(raw: &str) -> String {
    raw.chars().filter(|char| !matches!(char, '\n' | '\r')).collect()
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

/// A decoder of the strings of all channels of a stream.
///
/// It keeps halves of surrogate pairs whose other half may come in a later event.
#[derive(Clone, Debug, Default)]
pub(super) struct Strings {
    /// The channels whose last string ended in half a surrogate pair; at most [`WAITING`].
    waiting: Vec<(Channel, Unescaper)>,
    /// The buffer that strings with escapes are decoded into.
    scratch: String,
}

impl Strings {
    /// Decodes the next string of a channel; `raw` is the text between its quotes.
    pub(super) fn decode<'s>(&'s mut self, channel: Channel, raw: &'s str) -> &'s str {
        let place = self.waiting.iter().position(|(other, _)| *other == channel);
        if place.is_none() && !raw.contains('\\') {
            return raw;
        }
        let mut unescaper = place.map(|place| self.waiting.swap_remove(place).1).unwrap_or_default();
        self.scratch.clear();
        unescaper.push(raw, &mut self.scratch);
        if unescaper.is_waiting() && self.waiting.len() < WAITING {
            self.waiting.push((channel, unescaper));
        }
        &self.scratch
    }
}

/// The most channels that wait for the second half of a pair at a time.
const WAITING: usize = 64;
