//! Answers that are not streamed: one JSON body.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::wire::{Ending, Slot, SlotKind, SlotText};
use crate::provider::{Delta, FIRST, SlotId, fields};

/// Reads a whole answer. A text is numbered by its position among the contents, a tool call by its
/// position among the calls.
pub(super) fn read(body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let Some(root) = fields::object(body) else {
        return false;
    };
    let Some(message) = fields::object_of(root, "message") else {
        return read_error(root, on);
    };
    if let Some(text) = fields::word(message.member("tool_plan")) {
        on(Delta::Reasoning {
            slot: FIRST,
            text: &text,
        });
    }
    for (at, part) in message
        .member("content")
        .into_iter()
        .flat_map(|content| content.elements())
        .enumerate()
    {
        let slot = SlotId::of(fields::number_or(None, at));
        if let Some(text) = fields::word(part.member("thinking")) {
            on(Delta::Reasoning { slot, text: &text });
        }
        if let Some(text) = fields::text(part.member("text")) {
            on(Delta::Text { slot, text: &text });
        }
    }
    for (at, call) in message
        .member("tool_calls")
        .into_iter()
        .flat_map(|calls| calls.elements())
        .enumerate()
    {
        let function = call.member("function");
        let of = |key: &str| function.and_then(|function| function.member(key));
        on(Delta::ToolCall {
            slot: SlotId::of(fields::number_or(None, at)),
            id: fields::word(call.member("id")).as_deref(),
            name: fields::word(of("name")).as_deref(),
            arguments: &fields::text(of("arguments")).unwrap_or_default(),
        });
    }
    if let Some(usage) = fields::object_of(root, "usage") {
        on(Delta::Usage {
            raw: usage.as_str(),
        });
    }
    if let Some(word) = fields::word(root.member(super::FINISH)) {
        on(Delta::Finish {
            choice: 0,
            reason: super::finish(&word),
            word: &word,
        });
    }
    true
}

/// Reads a body without a message: an error, whose `message` is a string.
fn read_error(root: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) -> bool {
    let is_error = root
        .member("message")
        .is_some_and(|message| message.inner().is_some());
    let error = root
        .member("error")
        .filter(fields::says_error)
        .or(is_error.then_some(root));
    if let Some(error) = error {
        on(Delta::Error {
            message: &fields::message(error),
            raw: error.as_str(),
        });
    }
    error.is_some()
}

/// Writes the first answer's body with other texts and another end. Every other byte is kept.
pub(super) fn write(
    first_body: &str,
    texts: &[SlotText<'_>],
    ending: &Ending<'_>,
) -> Option<String> {
    let root = fields::object(first_body)?;
    let message = fields::object_of(root, "message")?;
    let of = |key: &str, place: u32| message.member(key)?.elements().nth(place as usize);
    let mut edits = Edits::default();
    let mut added = Vec::new();
    for SlotText {
        slot: Slot { id, kind },
        text,
    } in texts
    {
        let text = quoted(text);
        match (kind, of("content", id.item), of("tool_calls", id.item)) {
            (SlotKind::Text, Some(part), _) => edits.object(part, &[], &[("text", &text)]),
            (SlotKind::Text, None, _) => added.push(format!(r#"{{"type":"text","text":{text}}}"#)),
            (SlotKind::Arguments, _, call) => {
                edits.object(
                    fields::object_of(call?, "function")?,
                    &[],
                    &[("arguments", &text)],
                );
            }
        }
    }
    if !added.is_empty() {
        match message
            .member("content")
            .filter(|content| content.kind() == ValueKind::Array)
        {
            Some(content) => edits.append(content, &added.join(",")),
            None => edits.object(
                message,
                &[],
                &[("content", &format!("[{}]", added.join(",")))],
            ),
        }
    }
    let reason = ending
        .reasons
        .first()
        .map(|(_, reason)| quoted(super::word(reason)));
    let mut set: Vec<_> = reason
        .iter()
        .map(|reason| (super::FINISH, reason.as_str()))
        .collect();
    set.extend(ending.usage.map(|usage| ("usage", usage)));
    set.extend(ending.report.map(|report| ("restitch", report)));
    edits.object(root, &[], &set);
    Some(edits.apply(first_body))
}
