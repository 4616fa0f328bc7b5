//! Answers that are not streamed: one JSON body.

use super::reader::{Input, MessagesReader};
use super::{is_call, stop_reason};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, Table, ValueKind};
use crate::provider::Delta;
use crate::provider::fields::{message, object, present, recorded_object, word};
use crate::provider::wire::{Ending, SlotKind, SlotText};

/// Reads a whole answer and calls `on` for each delta in it. Returns whether `body` is an answer or
/// an error.
pub(super) fn read_body(body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let mut table = Table::default();
    let Some(root) = recorded_object(&mut table, body) else {
        return false;
    };
    let [content, reason, usage, error] = root.pick(["content", "stop_reason", "usage", "error"]);
    if let Some(error) = present(error) {
        on(Delta::Error {
            message: &message(error),
            raw: error.as_str(),
        });
        return true;
    }
    let Some(content) = content.filter(|content| content.kind() == ValueKind::Array) else {
        return false;
    };
    let mut reader = MessagesReader::default();
    for (index, block) in (0u32..).zip(content.elements()) {
        reader.block(index, block, Input::Whole, on);
    }
    reader.stop_reason(reason, on);
    reader.usage(usage, on);
    true
}

/// Writes the first answer's body with other texts and another end. Every other byte is kept.
/// Returns `None` if the body is not a message, or has no block for a text.
///
/// A body can't contain arguments that are not a JSON object: there the block keeps its `input`.
pub(super) fn write_body(
    first_body: &str,
    texts: &[SlotText<'_>],
    ending: &Ending<'_>,
) -> Option<String> {
    let root = object(first_body)?;
    let content = root
        .member("content")
        .filter(|content| content.kind() == ValueKind::Array)?;
    let blocks: Vec<Raw<'_>> = content.elements().collect();
    let mut edits = Edits::default();
    for text in texts {
        let block = blocks.get(text.slot.id.item as usize);
        let kind = block.and_then(|block| word(block.member("type")));
        match (block, kind.as_deref(), text.slot.kind) {
            (Some(block), Some("text"), SlotKind::Text) => {
                edits.object(*block, &[], &[("text", &quoted(text.text))]);
            }
            (Some(block), Some(kind), SlotKind::Arguments) if is_call(kind) => {
                if text.text.trim_start().starts_with('{') && walk::is_valid(text.text) {
                    edits.object(*block, &[], &[("input", text.text)]);
                }
            }
            // The answer was cut before its first block.
            (None, _, SlotKind::Text) => {
                edits.append(
                    content,
                    &format!(r#"{{"type":"text","text":{}}}"#, quoted(text.text)),
                );
            }
            _ => return None,
        }
    }
    let reason = ending
        .reasons
        .first()
        .map(|(_, reason)| quoted(stop_reason(reason)));
    let set = [
        ("stop_reason", reason.as_deref()),
        ("usage", ending.usage),
        ("restitch", ending.report),
    ];
    let set: Vec<_> = set
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    edits.object(root, &[], &set);
    Some(edits.apply(first_body))
}
