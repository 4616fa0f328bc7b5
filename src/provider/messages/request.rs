//! Reads from a request the facts that a continuation needs, and writes the request for the rest.

use crate::json::edit::Edits;
use crate::json::string::{escape_into, quoted};
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::fields::{is_true, object_with, present, recorded_object, word};
use crate::provider::prefill;
use crate::provider::request::{
    any_schema, body_text, message, remove_format, set_format, turn_reasoning_off,
};
use crate::provider::wire::{
    Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest, Tool,
};

/// Reads a request's body. Returns `None` unless it is a JSON object in UTF-8 with an array
/// `messages`.
pub(super) fn parse(body: &[u8]) -> Option<Request> {
    // The messages may be long. The bytes of few are read once.
    let mut table = Table::default();
    let root = recorded_object(&mut table, body_text(body)?)?;
    let [
        messages,
        stream,
        stop,
        model,
        thinking,
        cap,
        form,
        config,
        tools,
    ] = root.pick([
        "messages",
        "stream",
        "stop_sequences",
        "model",
        "thinking",
        "max_tokens",
        FORM,
        CONFIG,
        "tools",
    ]);
    let messages = messages.filter(|messages| messages.kind() == ValueKind::Array)?;
    let format = present(form).or(present(config.and_then(|config| config.member("format"))));
    let schema = format.and_then(|format| format.member("schema"));
    let thinks = word(thinking.and_then(|thinking| thinking.member("type")));
    Some(Request {
        stream: is_true(stream),
        n: 1,
        has_stop: stop.is_some_and(|stop| stop.elements().next().is_some()),
        has_json_mode: format.is_some(),
        schema: format.map(|_| match present(schema) {
            Some(schema) => schema.as_str().to_owned(),
            None => any_schema(),
        }),
        model: word(model).unwrap_or_default().into_owned(),
        wants_reasoning: matches!(thinks.as_deref(), Some("enabled" | "adaptive")),
        max_tokens: cap.and_then(|cap| cap.as_u64()),
        tools: tools
            .into_iter()
            .flat_map(|tools| tools.elements())
            .filter_map(tool)
            .collect(),
        // The API continues an assistant's last message, or refuses it.
        base: Base::prefill(prefill::last_text(messages, "assistant", "content"), true),
    })
}

/// Returns a request for a new answer. The path begins with the version, which the address of the
/// API's own clients does not have.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    let system = prompt
        .system
        .map(|system| format!(r#","system":{}"#, quoted(system)))
        .unwrap_or_default();
    let (model, limit) = (
        quoted(prompt.model),
        prompt.max_tokens.unwrap_or(DEFAULT_LIMIT),
    );
    let messages = message("user", prompt.text);
    let body = format!(
        r#"{{"model":{model},"stream":true,"max_tokens":{limit}{system},"messages":[{messages}]}}"#
    );
    NewRequest {
        key_header: ("x-api-key", ""),
        headers: &[("anthropic-version", "2023-06-01")],
        ..NewRequest::new("/v1/messages", body)
    }
}

/// The limit of a request without one, which the API refuses. All models from 3.5 on accept this
/// limit, and a longer answer is continued.
const DEFAULT_LIMIT: u64 = 8192;

fn tool(tool: Raw<'_>) -> Option<Tool> {
    let schema = tool
        .member("input_schema")
        .map(|schema| schema.as_str().to_owned());
    Some(Tool {
        name: word(tool.member("name"))?.into_owned(),
        schema,
    })
}

/// Returns the request for the rest of an answer, or the original request with changes. Every other
/// byte is kept.
///
/// The messages are appended; if the request ends with an assistant's message, which the answer
/// continues, the delivered text is appended to that message. The members that force a format on
/// the answer and everything about tools are removed: the rest is text and fits no schema. A
/// history with tool calls needs its tools declared, so there the tools stay and the choice becomes
/// none. Reasoning can't be combined with a prefill, so a prefill removes it.
///
/// Returns `None` if [`parse`] does.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, messages) = object_with(body, "messages")?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    let mut format = None;
    if let Some(rest) = rest {
        if !changes.keeps_json_mode {
            remove.push(FORM);
        }
        match changes.schema() {
            Some(schema) => {
                let schema = format!(r#"{{"type":"json_schema","schema":{schema}}}"#);
                format = set_format(root, CONFIG, &schema, &mut edits);
            }
            None if changes.keeps_json_mode => {}
            None => remove_format(root, CONFIG, &mut edits, &mut remove),
        }
        let has_tools = root
            .member("tools")
            .is_some_and(|tools| tools.elements().next().is_some());
        if has_tools && messages.elements().any(calls_tools) {
            set.push(("tool_choice", r#"{"type":"none"}"#));
        } else {
            remove.extend(["tools", "tool_choice", "mcp_servers"]);
        }
        let delivered = match rest {
            Rest::Reprompt { delivered, .. } => delivered,
            Rest::Prefill { delivered, .. } => {
                // The API refuses reasoning together with a prefill.
                remove.push("thinking");
                delivered
            }
        };
        match changes.replaces_prefill {
            true => prefill::append(
                messages,
                rest,
                ("assistant", "content"),
                true,
                &mut edits,
                message,
            ),
            false => append(messages, delivered, rest, &mut edits),
        }
    }
    set.extend(format.as_ref().map(|(key, value)| (*key, value.as_str())));
    turn_reasoning_off(changes, &["messages"], &remove, &mut set);
    // The API requires a limit, so every valid request has the member.
    let cap = changes.max_tokens.map(|cap| cap.to_string());
    set.extend(cap.as_deref().map(|cap| ("max_tokens", cap)));
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a request that is adapted to its model. Every other byte is kept. Returns `None` if
/// nothing changes, or if [`parse`] returns `None`.
///
/// This API has no JSON mode without a schema, so none is added.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = object_with(body, "messages")?;
    let mut edits = Edits::default();
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    edits.object(root, adaptation.without.as_slice(), &set);
    if adaptation.streams_arguments && adaptation.without != Some("tools") {
        let tools = root
            .member("tools")
            .into_iter()
            .flat_map(|tools| tools.elements());
        for tool in tools.filter(|tool| tool.kind() == ValueKind::Object) {
            // Only the client's own tools stream their arguments. A value that the client has sent
            // stays.
            let [kind, eager] = tool.pick(["type", EAGER]);
            if eager.is_none() && word(kind).is_none_or(|kind| kind == "custom") {
                edits.object(tool, &[], &[(EAGER, "true")]);
            }
        }
    }
    edits.changed(body)
}

/// Appends the delivered text, and the user's message.
fn append(messages: Raw<'_>, delivered: &str, rest: &Rest<'_>, edits: &mut Edits) {
    let mut added = Vec::new();
    // An empty message is refused.
    if !delivered.trim().is_empty() && !extend(messages.elements().last(), delivered, edits) {
        added.push(message("assistant", delivered));
    }
    if let Rest::Reprompt { prompt, .. } = rest {
        added.push(message("user", prompt));
    }
    if !added.is_empty() {
        edits.append(messages, &added.join(","));
    }
}

/// Appends text to the last message, if it is an assistant's. Returns whether it is.
fn extend(last: Option<Raw<'_>>, delivered: &str, edits: &mut Edits) -> bool {
    let Some(last) = last else { return false };
    let [role, content] = last.pick(["role", "content"]);
    let Some(content) = content.filter(|_| word(role).is_some_and(|role| role == "assistant"))
    else {
        return false;
    };
    match content.kind() {
        ValueKind::String => edits.replace(content, &longer(content, delivered)),
        ValueKind::Array => {
            let block = content.elements().last();
            let text =
                block.filter(|block| word(block.member("type")).is_some_and(|kind| kind == "text"));
            match text
                .and_then(|block| block.member("text"))
                .filter(|text| text.kind() == ValueKind::String)
            {
                Some(text) => edits.replace(text, &longer(text, delivered)),
                None => edits.append(
                    content,
                    &format!(r#"{{"type":"text","text":{}}}"#, quoted(delivered)),
                ),
            }
        }
        _ => return false,
    }
    true
}

/// Returns a string with more text at its end.
fn longer(string: Raw<'_>, text: &str) -> String {
    let mut escaped = Vec::new();
    escape_into(&mut escaped, text);
    format!(
        "\"{}{}\"",
        string.inner().unwrap_or_default(),
        String::from_utf8_lossy(&escaped)
    )
}

/// Returns whether a message calls a tool or has a tool's result.
fn calls_tools(message: Raw<'_>) -> bool {
    let blocks = message
        .member("content")
        .into_iter()
        .flat_map(|content| content.elements());
    blocks
        .filter_map(|block| word(block.member("type")))
        .any(|kind| {
            // `mcp_tool_use`, `web_search_tool_result` and others of the server's tools included.
            kind.ends_with("tool_use") || kind.ends_with("tool_result")
        })
}

/// The member that forces a format on the answer; later versions have it in `output_config`.
const FORM: &str = "output_format";

const CONFIG: &str = "output_config";

/// Makes the provider send arguments while it writes them, instead of value by value.
const EAGER: &str = "eager_input_streaming";
