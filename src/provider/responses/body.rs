//! Answers that are not streamed: one JSON body.

use std::collections::BTreeSet;

use super::reader::ResponsesReader;
use super::{call_of, status};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::fields::{message, object, present, recorded_object, word};
use crate::provider::wire::{Ending, SlotKind, SlotText};
use crate::provider::{Delta, Finish};

/// Reads a whole answer and calls `on` for each delta in it. Returns whether `body` is an answer or
/// an error.
pub(super) fn read_body(body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let mut table = Table::default();
    let Some(root) = recorded_object(&mut table, body) else {
        return false;
    };
    let [output, error] = root.pick(["output", "error"]);
    if output.is_some_and(|output| output.kind() == ValueKind::Array) {
        ResponsesReader::default().end(Some(root), on);
        return true;
    }
    let Some(error) = present(error) else {
        return false;
    };
    on(Delta::Error {
        message: &message(error),
        raw: error.as_str(),
    });
    true
}

/// Writes the first answer's body with other texts and another end. Every other byte is kept.
/// Returns `None` if the body is not a response, or has no item for a text.
pub(super) fn write_body(
    first_body: &str,
    texts: &[SlotText<'_>],
    ending: &Ending<'_>,
) -> Option<String> {
    let root = object(first_body)?;
    let output = root
        .member("output")
        .filter(|output| output.kind() == ValueKind::Array)?;
    let items: Vec<Raw<'_>> = output.elements().collect();
    let (status, details) = status(
        ending
            .reasons
            .first()
            .map_or(&Finish::Stop, |(_, reason)| reason),
    );
    let status = quoted(status);
    let mut edits = Edits::default();
    // Commas depend on all changed members of an object, so one edit sets all members of an item.
    let mut messages = BTreeSet::new();
    for text in texts {
        let new = quoted(text.text);
        let Some(item) = items.get(text.slot.id.item as usize) else {
            if text.slot.kind != SlotKind::Text {
                return None;
            }
            // The answer was cut before its message.
            edits.append(output, &unseen_message(&new, &status));
            continue;
        };
        let kind = word(item.member("type"));
        match (text.slot.kind, kind.as_deref().and_then(call_of)) {
            (SlotKind::Arguments, Some(call)) => {
                edits.object(*item, &[], &[(call.member, &new), ("status", &status)]);
            }
            (SlotKind::Text, None) => {
                messages.insert(text.slot.id.item);
                let content = item
                    .member("content")
                    .filter(|content| content.kind() == ValueKind::Array)?;
                match content
                    .elements()
                    .nth(text.slot.id.part.unwrap_or(0) as usize)
                {
                    Some(part) => edits.object(part, &[], &[("text", &new)]),
                    None => edits.append(content, &unseen_part(&new)),
                }
            }
            _ => return None,
        }
    }
    for item in messages
        .into_iter()
        .filter_map(|item| items.get(item as usize))
    {
        edits.object(*item, &[], &[("status", &status)]);
    }
    let set = [("usage", ending.usage), ("restitch", ending.report)];
    let set = set
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let set: Vec<_> = [("status", &*status), ("incomplete_details", &*details)]
        .into_iter()
        .chain(set)
        .collect();
    edits.object(root, &[], &set);
    Some(edits.apply(first_body))
}

/// Returns a part with a text, which is raw JSON.
pub(super) fn unseen_part(text: &str) -> String {
    format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{text}}}"#)
}

fn unseen_message(text: &str, status: &str) -> String {
    let part = unseen_part(text);
    format!(
        r#"{{"id":"msg_restitch","type":"message","status":{status},"role":"assistant","content":[{part}]}}"#
    )
}
