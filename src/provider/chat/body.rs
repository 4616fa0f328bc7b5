//! Answers that are not streamed: one JSON body.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::fields;
use crate::provider::wire::{Ending, SlotKind, SlotText};

/// Writes the first answer's body with another end: `texts` are the contents of its messages (an
/// array of parts becomes a string) and the arguments of its tool calls.
///
/// Missing members are added at the end of their object, and every other byte is kept. Returns
/// `None` if the body is not JSON with a message in each choice of `ending`.
pub fn write_body(first_body: &str, texts: &[SlotText<'_>], ending: &Ending<'_>) -> Option<String> {
    let root = Raw::root(first_body).filter(|_| walk::is_valid(first_body))?;
    let choices: Vec<_> = root.member("choices")?.elements().collect();
    let mut edits = Edits::default();
    for (number, reason) in ending.reasons {
        let choice = fields::choice_of(&choices, *number)?;
        let message = choice
            .member("message")
            .filter(|message| message.kind() == ValueKind::Object)?;
        for text in texts.iter().filter(|text| text.slot.id.item == *number) {
            let quoted = quoted(text.text);
            match text.slot.kind {
                SlotKind::Text => edits.object(message, &[], &[("content", &quoted)]),
                SlotKind::Arguments => {
                    edits.object(
                        function(message, text.slot.id.part?)?,
                        &[],
                        &[("arguments", &quoted)],
                    );
                }
            }
        }
        edits.object(choice, &[], &[("finish_reason", &quoted(reason.as_str()))]);
    }
    let added: Vec<_> = [("usage", ending.usage), ("restitch", ending.report)]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    edits.object(root, &[], &added);
    Some(edits.apply(first_body))
}

/// Returns the function of a message's tool call.
fn function(message: Raw<'_>, index: u32) -> Option<Raw<'_>> {
    match message
        .member("tool_calls")
        .and_then(|calls| calls.elements().nth(index as usize))
    {
        Some(call) => call.member("function"),
        None => message.member("function_call").filter(|_| index == 0),
    }
}
