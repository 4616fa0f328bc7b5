//! Reads from a Cohere request the facts that a continuation needs, and writes the request for the
//! rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::Raw;
use crate::provider::fields;
use crate::provider::prefill;
use crate::provider::request::{
    RESPONSE_FORMAT, functions, message, tool, turn_reasoning_off, with_messages,
};
use crate::provider::wire::{Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest};

/// Reads a request's body. Returns `None` unless it is a JSON object with an array `messages`.
pub(super) fn parse(body: &str) -> Option<Request> {
    let (root, messages) = fields::object_with(body, "messages")?;
    let format = root.member(RESPONSE_FORMAT);
    let form = fields::text(format.and_then(|format| format.member("type")));
    let schema = format.and_then(|format| format.member("json_schema").or(format.member("schema")));
    Some(Request {
        stream: fields::is_true(root.member("stream")),
        n: 1,
        has_stop: fields::has_stop(root.member("stop_sequences")),
        has_json_mode: form.as_deref() == Some("json_object"),
        schema: fields::present(schema).map(|schema| schema.as_str().to_owned()),
        model: fields::text(root.member("model"))
            .unwrap_or_default()
            .into_owned(),
        wants_reasoning: root.member("thinking").is_some_and(asks_for_reasoning),
        max_tokens: root.member(LIMIT).and_then(|limit| limit.as_u64()),
        tools: functions(root.member("tools")).filter_map(tool).collect(),
        base: Base::prefill(prefill::last_text(messages, "assistant", "content"), false),
    })
}

/// Returns a request for a new answer.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    NewRequest::new("/v2/chat", with_messages(prompt, LIMIT))
}

fn asks_for_reasoning(thinking: Raw<'_>) -> bool {
    fields::word(thinking.member("type")).is_some_and(|word| word != "disabled")
}

/// Returns the request for the rest of an answer, or the original request with changes.
///
/// The messages are appended, and members that would force another format on the rest are removed.
/// Tools are removed, too, unless the history has calls: then the request forbids calls.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, messages) = fields::object_with(body, "messages")?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        let place = ("assistant", "content");
        prefill::append(
            messages,
            rest,
            place,
            changes.replaces_prefill,
            &mut edits,
            message,
        );
        if !changes.keeps_json_mode {
            remove.push(RESPONSE_FORMAT);
        }
        if messages.elements().any(calls_tools) && root.member("tools").is_some() {
            set.push(("tool_choice", "\"NONE\""));
        } else {
            remove.extend(["tools", "tool_choice", "strict_tools"]);
        }
    }
    turn_reasoning_off(changes, &["messages"], &remove, &mut set);
    let limit = changes
        .max_tokens
        .filter(|_| root.member(LIMIT).is_some())
        .map(|limit| limit.to_string());
    set.extend(limit.iter().map(|limit| (LIMIT, limit.as_str())));
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a first request that is adapted to its model.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = fields::object_with(body, "messages")?;
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    let mut edits = Edits::default();
    edits.object(root, adaptation.without.as_slice(), &set);
    edits.changed(body)
}

/// Returns whether a message calls a tool or has a tool's result.
fn calls_tools(message: Raw<'_>) -> bool {
    fields::text(message.member("role")).as_deref() == Some("tool")
        || message
            .member("tool_calls")
            .is_some_and(|calls| calls.elements().next().is_some())
}

const LIMIT: &str = "max_tokens";
