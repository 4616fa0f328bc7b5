//! Reads from a request the facts that a continuation needs, and writes the request for the rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::fields;
use crate::provider::prefill;
use crate::provider::request::{
    base_of, continued_prompt, functions, message, messages, tool, turn_reasoning_off,
};
use crate::provider::wire::{Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest};

/// The input of a request.
enum OllamaInput<'a> {
    /// The messages of `/api/chat`.
    Messages(Raw<'a>),
    /// The prompt of `/api/generate`.
    Prompt(Raw<'a>),
}

/// Reads a request's body. Returns `None` unless it has messages or a prompt: without either it
/// only loads a model. A stream is the default here.
pub(super) fn parse(body: &str) -> Option<Request> {
    let (root, input) = request(body)?;
    let options = root.member("options");
    let of = |key: &str| options.and_then(|options| options.member(key));
    let format = root.member("format");
    Some(Request {
        stream: root
            .member("stream")
            .and_then(|stream| stream.as_bool())
            .unwrap_or(true),
        n: 1,
        has_stop: fields::has_stop(of("stop")),
        schema: format
            .filter(|format| format.kind() == ValueKind::Object)
            .map(|schema| schema.as_str().to_owned()),
        has_json_mode: format.is_some_and(|format| !matches!(format.as_str(), "null" | "\"\"")),
        model: fields::text(root.member("model"))
            .unwrap_or_default()
            .into_owned(),
        wants_reasoning: root.member("think").is_some_and(asks_for_reasoning),
        max_tokens: of(LIMIT).and_then(|limit| limit.as_u64()),
        tools: functions(root.member("tools")).filter_map(tool).collect(),
        base: match input {
            OllamaInput::Messages(messages) => {
                Base::prefill(prefill::last_text(messages, "assistant", "content"), false)
            }
            // Without `raw` the prompt is a user's message.
            OllamaInput::Prompt(prompt) if fields::is_true(root.member("raw")) => base_of(prompt),
            OllamaInput::Prompt(_) => Base::Empty,
        },
    })
}

/// Returns a request for a new answer. The limit is one of the options.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    let options = prompt
        .max_tokens
        .map(|limit| format!(r#","options":{{"{LIMIT}":{limit}}}"#))
        .unwrap_or_default();
    let (model, messages) = (quoted(prompt.model), messages(prompt));
    NewRequest::new(
        "/api/chat",
        format!(r#"{{"model":{model},"stream":true,"messages":[{messages}]{options}}}"#),
    )
}

/// Returns whether `think` is `true` or names a level.
fn asks_for_reasoning(think: Raw<'_>) -> bool {
    fields::is_true(Some(think))
        || think
            .inner()
            .is_some_and(|level| !level.is_empty() && level != "none")
}

/// Returns the request for the rest of an answer, or the original request with changes.
///
/// `/api/chat` gets two more messages; its history may have tool calls without their tools.
/// `/api/generate` gets a longer prompt. `format` and `tools`, which would force another format on
/// the rest, are removed.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, input) = request(body)?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        remove.push("tools");
        match changes.schema() {
            Some(schema) => set.push(("format", schema)),
            None if changes.keeps_json_mode => {}
            None => remove.push("format"),
        }
        match input {
            OllamaInput::Messages(messages) => {
                let place = ("assistant", "content");
                prefill::append(
                    messages,
                    rest,
                    place,
                    changes.replaces_prefill,
                    &mut edits,
                    message,
                );
            }
            OllamaInput::Prompt(prompt) => {
                edits.replace(
                    prompt,
                    &continued_prompt(prompt, rest, changes.replaces_prefill)?,
                );
            }
        }
    }
    turn_reasoning_off(
        changes,
        &["messages", "prompt", "options", "format"],
        &remove,
        &mut set,
    );
    if let (Some(limit), Some(options)) = (changes.max_tokens, fields::object_of(root, "options"))
        && options.member(LIMIT).is_some()
    {
        edits.object(options, &[], &[(LIMIT, &limit.to_string())]);
    }
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a first request that is adapted to its model.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = request(body)?;
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    let mut edits = Edits::default();
    edits.object(root, adaptation.without.as_slice(), &set);
    edits.changed(body)
}

fn request(body: &str) -> Option<(Raw<'_>, OllamaInput<'_>)> {
    let root = fields::object(body)?;
    if let Some(messages) = root
        .member("messages")
        .filter(|messages| messages.kind() == ValueKind::Array)
    {
        return messages
            .elements()
            .next()
            .map(|_| (root, OllamaInput::Messages(messages)));
    }
    let prompt = root
        .member("prompt")
        .filter(|prompt| prompt.inner().is_some_and(|inner| !inner.is_empty()))?;
    Some((root, OllamaInput::Prompt(prompt)))
}

/// The option that limits an answer's tokens.
const LIMIT: &str = "num_predict";
