//! Reads what a continuation must know of a request, and writes the request for the rest.

use crate::json::edit::Edits;
use crate::json::string::{escape_into, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::provider::capability::Switch;
use crate::provider::fields;
use crate::provider::wire::{Adaptation, Changes, Request, Rest, Tool};

/// What a request asks with.
enum Input<'a> {
    /// The messages of `/api/chat`.
    Messages(Raw<'a>),
    /// The prompt of `/api/generate`.
    Prompt(Raw<'a>),
}

/// Reads a request's body. Returns `None` unless it has messages or a prompt: without either it only loads a model. A
/// stream is the default here.
pub(super) fn parse(body: &str) -> Option<Request> {
    let (root, _) = request(body)?;
    let options = root.member("options");
    let of = |key: &str| options.and_then(|options| options.member(key));
    let format = root.member("format");
    Some(Request {
        stream: root.member("stream").and_then(|stream| stream.as_bool()).unwrap_or(true),
        n: 1,
        has_stop: fields::has_stop(of("stop")),
        has_json_mode: format.is_some_and(|format| !matches!(format.as_str(), "null" | "\"\"")),
        model: fields::text(root.member("model")).unwrap_or_default().into_owned(),
        wants_reasoning: root.member("think").is_some_and(asks_for_reasoning),
        max_tokens: of(LIMIT).and_then(|limit| limit.as_u64()),
        tools: tools(root),
    })
}

/// Returns whether `think` is `true` or names a level.
fn asks_for_reasoning(think: Raw<'_>) -> bool {
    fields::is_true(Some(think)) || think.inner().is_some_and(|level| !level.is_empty() && level != "none")
}

fn tools(root: Raw<'_>) -> Vec<Tool> {
    let tools = root.member("tools").into_iter().flat_map(|tools| tools.elements());
    let tool = |function: Raw<'_>| {
        let name = fields::text(function.member("name"))?.into_owned();
        Some(Tool { name, schema: function.member("parameters").map(|schema| schema.as_str().to_owned()) })
    };
    tools.filter_map(|tool| tool.member("function")).filter_map(tool).collect()
}

/// Returns the request for the rest of an answer, or the original request with changes.
///
/// `/api/chat` gets two more messages; its history may have tool calls without their tools. `/api/generate` gets a
/// longer prompt. `format` and `tools`, which would force another form on the rest, are removed.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, input) = request(body)?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        remove.extend(["format", "tools"]);
        remove.retain(|key| !(changes.keeps_json_mode && *key == "format"));
        match input {
            Input::Messages(messages) => edits.append(messages, &messages_for(rest)),
            Input::Prompt(prompt) => edits.replace(prompt, &prompt_for(prompt, rest)?),
        }
    }
    if let Some(Switch { key, value }) = changes.reasoning_off
        && !["messages", "prompt", "options"].contains(&key.as_str())
        && !remove.contains(&key.as_str())
    {
        set.push((key.as_str(), value.as_str()));
    }
    if let (Some(limit), Some(options)) = (changes.max_tokens, fields::object_of(root, "options"))
        && options.member(LIMIT).is_some()
    {
        edits.object(options, &[], &[(LIMIT, &limit.to_string())]);
    }
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a first request as its model takes it.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = request(body)?;
    let model = adaptation.model.map(quoted);
    let mut set: Vec<_> = model.iter().map(|model| ("model", model.as_str())).collect();
    if adaptation.adds_json_mode {
        set.push(("format", "\"json\""));
    }
    let mut edits = Edits::default();
    edits.object(root, adaptation.without.as_slice(), &set);
    Some(edits.apply(body)).filter(|adapted| adapted != body)
}

fn messages_for(rest: &Rest<'_>) -> String {
    let message = |role, text| format!(r#"{{"role":"{role}","content":{}}}"#, quoted(text));
    match rest {
        Rest::Reprompt { delivered, prompt } if delivered.trim().is_empty() => message("user", prompt),
        Rest::Reprompt { delivered, prompt } => {
            format!("{},{}", message("assistant", delivered), message("user", prompt))
        }
        Rest::Prefill { delivered, .. } => message("assistant", delivered),
    }
}

/// Returns the prompt with what follows it, as a JSON string. The prompt stays as it is written.
fn prompt_for(prompt: Raw<'_>, rest: &Rest<'_>) -> Option<String> {
    let mut out = format!("\"{}", prompt.inner()?).into_bytes();
    match rest {
        Rest::Prefill { delivered, .. } => escape_into(&mut out, delivered),
        Rest::Reprompt { delivered, prompt } => {
            escape_into(&mut out, delivered);
            escape_into(&mut out, "\n\n");
            escape_into(&mut out, prompt);
        }
    }
    out.push(b'"');
    String::from_utf8(out).ok()
}

fn request(body: &str) -> Option<(Raw<'_>, Input<'_>)> {
    let root = fields::object(body)?;
    if let Some(messages) = root.member("messages").filter(|messages| messages.kind() == ValueKind::Array) {
        return messages.elements().next().map(|_| (root, Input::Messages(messages)));
    }
    let prompt = root.member("prompt").filter(|prompt| prompt.inner().is_some_and(|inner| !inner.is_empty()))?;
    Some((root, Input::Prompt(prompt)))
}

/// The option that limits an answer's tokens.
const LIMIT: &str = "num_predict";
