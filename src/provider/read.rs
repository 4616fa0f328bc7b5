//! What the readers of several wires share: the strings of an event, and texts that arrive in pieces.

use std::borrow::Cow;

use memchr::memchr;

use crate::json::string::Unescaper;
use crate::json::walk::{Raw, ValueKind};

/// A decoder for the texts of one stream, each of which arrives as a sequence of JSON strings.
///
/// It keeps halves of surrogate pairs whose other half may come in a later string of the same text. `K` names a text.
#[derive(Clone, Debug)]
pub(crate) struct Texts<K> {
    /// The texts whose last string ended in half a pair; at most [`WAITING`].
    waiting: Vec<(K, Unescaper)>,
    /// The buffer that strings with escapes are decoded into.
    scratch: String,
}

impl<K> Default for Texts<K> {
    fn default() -> Self {
        Self { waiting: Vec::new(), scratch: String::new() }
    }
}

impl<K: Copy + PartialEq> Texts<K> {
    /// Decodes the next string of a text; `inner` is what is between its quotes.
    pub(crate) fn decode<'s>(&'s mut self, text: K, inner: &'s str) -> &'s str {
        let place = self.waiting.iter().position(|(other, _)| *other == text);
        if place.is_none() && memchr(b'\\', inner.as_bytes()).is_none() {
            return inner;
        }
        let mut unescaper = place.map(|place| self.waiting.swap_remove(place).1).unwrap_or_default();
        self.scratch.clear();
        unescaper.push(inner, &mut self.scratch);
        if unescaper.is_waiting() && self.waiting.len() < WAITING {
            self.waiting.push((text, unescaper));
        }
        &self.scratch
    }

    /// Removes the half of a pair that a text ended with.
    pub(crate) fn end(&mut self, mut is_over: impl FnMut(&K) -> bool) {
        self.waiting.retain(|(text, _)| !is_over(text));
    }
}

/// Returns the object in `data`, if `data` is valid JSON.
pub(crate) fn object(data: &str) -> Option<Raw<'_>> {
    Raw::valid(data).filter(|root| root.kind() == ValueKind::Object)
}

/// Returns a member's string, if it is one and not empty.
pub(crate) fn word(value: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(|value| value.decode()).filter(|word| !word.is_empty())
}

/// Returns a member's number as the number of a place; 0 if it is missing.
pub(crate) fn place(value: Option<Raw<'_>>) -> u32 {
    value.and_then(|value| value.as_u64()).map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns a value that is not `null`.
pub(crate) fn present(value: Option<Raw<'_>>) -> Option<Raw<'_>> {
    value.filter(|value| !value.is_null())
}

/// Returns an error's message: a string itself, the `message` of an object, else all of the value.
pub(crate) fn message(error: Raw<'_>) -> Cow<'_, str> {
    let found = word(Some(error)).or_else(|| word(error.member("message")));
    found.unwrap_or(Cow::Borrowed(error.as_str()))
}

/// Returns some of an object's members, found in one walk. Of duplicate keys the last one counts.
pub(crate) fn members_of<'a, const N: usize>(object: Raw<'a>, keys: [&str; N]) -> [Option<Raw<'a>>; N] {
    let mut picked = [None; N];
    for (key, value) in object.members() {
        let Some(key) = key.decode() else { continue };
        for (slot, _) in picked.iter_mut().zip(keys).filter(|(_, wanted)| key == *wanted) {
            *slot = Some(value);
        }
    }
    picked
}

/// The most texts that wait for the second half of a pair at a time. In more of them halves are removed.
const WAITING: usize = 64;
