//! Answers that are not streamed: one JSON body.

use super::reader::GeminiReader;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, Table, ValueKind};
use crate::provider::wire::{Ending, SlotKind, SlotText};
use crate::provider::{Delta, Finish, Kind, add_usage, fields};

/// Reads a whole answer: a response object, or an array of the events of a stream, which the API
/// sends without `alt=sse`.
pub(super) fn read(body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let mut table = Table::default();
    let Some(root) = table.read(body) else {
        return false;
    };
    let mut reader = GeminiReader::default();
    let mut read = |event: Raw<'_>| {
        let event = Some(event).filter(|event| event.kind() == ValueKind::Object);
        let kind = event.map(|event| reader.response("message", event, on));
        matches!(kind, Some(Kind::Chunk | Kind::Error))
    };
    if root.kind() == ValueKind::Array {
        // Every element is read, so `any` would not do.
        return root.elements().filter(|event| read(*event)).count() > 0;
    }
    read(root)
}

/// Writes the first answer's body with other texts and another end.
pub(super) fn write(
    first_body: &str,
    texts: &[SlotText<'_>],
    ending: &Ending<'_>,
) -> Option<String> {
    let root = fields::object(first_body)?;
    let candidates: Vec<_> = root.member("candidates")?.elements().collect();
    let mut edits = Edits::default();
    for (number, reason) in ending.reasons {
        let candidate = fields::choice_of(&candidates, *number)?;
        let mut own = texts
            .iter()
            .filter(|text| text.slot.id.item == *number && text.slot.kind == SlotKind::Text);
        let own = own.next();
        let content = own.and_then(|text| put_text(&mut edits, candidate, text.text));
        // The token continues the provider's own text.
        let is_own = own.is_none_or(|own| text_of(candidate) == own.text);
        let remove: &[_] = match is_own && super::word(reason) == super::CONTINUATION {
            true => &["finishMessage"],
            false => &["finishMessage", TOKEN],
        };
        let reason = quoted(super::word(reason));
        let mut set: Vec<_> = content
            .iter()
            .map(|content| ("content", content.as_str()))
            .collect();
        set.push(("finishReason", &reason));
        edits.object(candidate, remove, &set);
    }
    let mut added = Vec::new();
    added.extend(ending.usage.map(|usage| ("usageMetadata", usage)));
    added.extend(ending.report.map(|report| ("restitch", report)));
    edits.object(root, &[], &added);
    Some(edits.apply(first_body))
}

/// Returns whether a part is text of the answer.
fn is_text(part: &Raw<'_>) -> bool {
    part.member("text")
        .is_some_and(|text| text.inner().is_some())
        && !fields::is_true(part.member("thought"))
}

/// Returns the text of a candidate.
fn text_of(candidate: Raw<'_>) -> String {
    let parts = parts(candidate).into_iter();
    let texts = parts.flat_map(|parts| parts.elements()).filter(is_text);
    texts
        .filter_map(|part| fields::text(part.member("text")))
        .collect()
}

/// Returns the token of an answer that has one candidate, raw JSON, and its end, if that asks for
/// the rest or is the limit on tokens.
pub(super) fn token(body: &str) -> Option<(Finish, String)> {
    let mut table = Table::default();
    let candidate = only_candidate(table.read(body)?)?;
    let word = fields::word(candidate.member("finishReason"))?;
    let finish = super::finish(&word);
    let has_rest = word == super::CONTINUATION || finish == Finish::Length;
    let token = candidate.member(TOKEN)?;
    let has_token = fields::word(Some(token)).is_some();
    (has_rest && has_token).then(|| (finish, token.as_str().to_owned()))
}

/// Joins the bodies of an answer and of its continuation: the parts of both, the end of the second
/// one, and the sum of the usages.
pub(super) fn join(first: &str, next: &str) -> Option<String> {
    if !walk::is_valid(next) {
        return None;
    }
    let (before, after) = (
        only_candidate(fields::object(first)?)?,
        only_candidate(fields::object(next)?)?,
    );
    let mut edits = Edits::default();
    let mut set: Vec<(String, String)> = after
        .members()
        .filter_map(|(key, value)| Some((key.decode()?.into_owned(), value.as_str().to_owned())))
        .filter(|(key, _)| !matches!(key.as_str(), "content" | "index"))
        .collect();
    // The members that end an answer are those of the second body alone.
    let is_gone = |key: &&&str| after.member(key).is_none();
    let remove: Vec<_> = END.iter().filter(is_gone).copied().collect();
    if let Some(content) = after.member("content") {
        match parts(before) {
            Some(parts) => append_parts(&mut edits, parts, content),
            None => set.push(("content".to_owned(), content.as_str().to_owned())),
        }
    }
    let set: Vec<_> = set
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    edits.object(before, &remove, &set);
    let mut usage = None;
    for body in [first, next] {
        let own = fields::object(body).and_then(|root| fields::object_of(root, USAGE));
        own.into_iter()
            .for_each(|own| add_usage(&mut usage, own.as_str()));
    }
    let usage: Vec<_> = usage.iter().map(|usage| (USAGE, usage.as_str())).collect();
    edits.object(fields::object(first)?, &[], &usage);
    Some(edits.apply(first))
}

/// Returns the candidate of an answer with one.
fn only_candidate(answer: Raw<'_>) -> Option<Raw<'_>> {
    let mut candidates = answer.member("candidates")?.elements();
    let candidate = candidates.next()?;
    (candidates.next().is_none() && candidate.kind() == ValueKind::Object).then_some(candidate)
}

/// Returns the parts of a candidate, if they are an array.
fn parts(candidate: Raw<'_>) -> Option<Raw<'_>> {
    let parts = fields::object_of(candidate, "content")?.member("parts")?;
    (parts.kind() == ValueKind::Array).then_some(parts)
}

/// Appends the parts of another content. Its first text becomes one with the last text.
fn append_parts(edits: &mut Edits, parts: Raw<'_>, content: Raw<'_>) {
    let mut more: Vec<_> = content
        .member("parts")
        .into_iter()
        .flat_map(|parts| parts.elements())
        .collect();
    let last = parts.elements().last().and_then(only_text);
    if let (Some(last), Some(next)) = (last, more.first().copied().and_then(only_text)) {
        // Raw text: a character may be escaped as two halves, one in each body.
        let inner = |text: Raw<'_>| text.inner().unwrap_or_default().to_owned();
        edits.replace(last, &format!("\"{}{}\"", inner(last), inner(next)));
        more.remove(0);
    }
    if !more.is_empty() {
        let more: Vec<_> = more.iter().map(|part| part.as_str()).collect();
        edits.append(parts, &more.join(","));
    }
}

/// Returns the text of a part that has nothing else. The signature of a signed part would not fit a
/// changed text.
fn only_text(part: Raw<'_>) -> Option<Raw<'_>> {
    match part.members().count() {
        1 => part.member("text").filter(|text| text.inner().is_some()),
        _ => None,
    }
}

const TOKEN: &str = "continuationToken";
const USAGE: &str = "usageMetadata";
/// The members with which an answer ends.
const END: [&str; 3] = ["finishReason", "finishMessage", TOKEN];

/// Replaces the text of a candidate. Returns a new `content` for a candidate without one.
///
/// The earlier text parts keep their text, and the last one gets the rest. If the earlier parts
/// differ from the text, they become empty.
pub(super) fn put_text(edits: &mut Edits, candidate: Raw<'_>, text: &str) -> Option<String> {
    let part = format!(r#"{{"text":{}}}"#, quoted(text));
    let Some(content) = fields::object_of(candidate, "content") else {
        return Some(format!(r#"{{"parts":[{part}],"role":"model"}}"#));
    };
    let Some(parts) = content
        .member("parts")
        .filter(|parts| parts.kind() == ValueKind::Array)
    else {
        edits.object(content, &[], &[("parts", &format!("[{part}]"))]);
        return None;
    };
    let own: Vec<_> = parts.elements().filter(is_text).collect();
    let Some((last, others)) = own.split_last() else {
        edits.append(parts, &part);
        return None;
    };
    let before: String = others
        .iter()
        .filter_map(|part| fields::text(part.member("text")))
        .collect();
    let text = text.strip_prefix(&*before).unwrap_or_else(|| {
        for other in others {
            edits.object(*other, &[], &[("text", "\"\"")]);
        }
        text
    });
    edits.object(*last, &[], &[("text", &quoted(text))]);
    None
}
