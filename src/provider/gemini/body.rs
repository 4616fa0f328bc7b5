//! Answers that are not streamed: one JSON body.

use super::reader::GeminiReader;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::wire::{Ending, Reader as _, SlotKind, SlotText};
use crate::provider::{Delta, Kind, fields};

/// Reads a whole answer: a response object, or an array of the events of a stream, which the API
/// sends without `alt=sse`.
pub(super) fn read(body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let Some(root) = Raw::root(body).filter(|_| walk::is_valid(body)) else {
        return false;
    };
    let mut reader = GeminiReader::default();
    let mut read =
        |event: &str| matches!(reader.read("message", event, on), Kind::Chunk | Kind::Error);
    if root.kind() == ValueKind::Array {
        // Every element is read, so `any` would not do.
        return root.elements().filter(|event| read(event.as_str())).count() > 0;
    }
    read(root.as_str())
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
        let content = match own.next() {
            Some(text) => put_text(&mut edits, candidate, text.text),
            None => None,
        };
        let reason = quoted(super::word(reason));
        let mut set: Vec<_> = content
            .iter()
            .map(|content| ("content", content.as_str()))
            .collect();
        set.push(("finishReason", &reason));
        edits.object(candidate, &["finishMessage"], &set);
    }
    let mut added = Vec::new();
    added.extend(ending.usage.map(|usage| ("usageMetadata", usage)));
    added.extend(ending.report.map(|report| ("restitch", report)));
    edits.object(root, &[], &added);
    Some(edits.apply(first_body))
}

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
    let is_text = |part: &Raw<'_>| {
        part.member("text")
            .is_some_and(|text| text.inner().is_some())
            && !fields::is_true(part.member("thought"))
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
