//! Reads from a Completions request the facts that a continuation needs, and writes the request for
//! the rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::Raw;
use crate::provider::fields;
use crate::provider::request::{
    FORMS, RESPONSE_FORMAT, base_of, continued_prompt, schema_of, turn_reasoning_off,
};
use crate::provider::wire::{Adaptation, Changes, NewRequest, PlainPrompt, Request, Rest};

/// Reads a request. Returns `None` if the prompt can't be continued: several prompts, tokens
/// instead of text, an answer that repeats the prompt or lies between two texts, or the best of
/// several answers, which is not streamed.
pub(super) fn parse(body: &str) -> Option<Request> {
    let root = fields::object(body)?;
    let prompt = prompt(root)?;
    let has_suffix = root
        .member("suffix")
        .is_some_and(|suffix| !matches!(suffix.as_str(), "null" | "\"\""));
    let best_of = root
        .member("best_of")
        .and_then(|best_of| best_of.as_u64())
        .unwrap_or(1);
    if fields::is_true(root.member("echo")) || has_suffix || best_of > 1 {
        return None;
    }
    let format = root.member(RESPONSE_FORMAT);
    let form = fields::text(format.and_then(|format| format.member("type")));
    Some(Request {
        stream: fields::is_true(root.member("stream")),
        n: root.member("n").and_then(|n| n.as_u64()).unwrap_or(1),
        has_stop: fields::has_stop(root.member("stop")),
        has_json_mode: matches!(form.as_deref(), Some("json_object" | "json_schema")),
        schema: schema_of(root, format),
        model: fields::text(root.member("model"))
            .unwrap_or_default()
            .into_owned(),
        max_tokens: root.member("max_tokens").and_then(|limit| limit.as_u64()),
        base: base_of(prompt),
        ..Request::default()
    })
}

/// Returns a request for a new answer. The system message precedes the prompt.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    let text = prompt.system.map_or_else(
        || prompt.text.to_owned(),
        |system| format!("{system}\n\n{}", prompt.text),
    );
    let (model, text, limit) = (
        quoted(prompt.model),
        quoted(&text),
        prompt.max_tokens.unwrap_or(DEFAULT_LIMIT),
    );
    let body =
        format!(r#"{{"model":{model},"stream":true,"max_tokens":{limit},"{PROMPT}":{text}}}"#);
    NewRequest::new("/completions", body)
}

/// The limit of a request without one: the API's own is 16 tokens. Prompt, answer and rest have to
/// fit in the model's context, which is 4,096 tokens and more.
const DEFAULT_LIMIT: u64 = 1024;

/// Returns the request for the rest of an answer, or the original request with changes. The
/// delivered text follows the prompt without any byte between the two. Members that would force
/// another format on the rest are removed.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    parse(body)?;
    let root = fields::object(body)?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        remove.extend(FORMS);
        remove.retain(|key| !(changes.keeps_json_mode && *key == RESPONSE_FORMAT));
        let prompt = prompt(root)?;
        edits.replace(
            prompt,
            &continued_prompt(prompt, rest, changes.replaces_prefill)?,
        );
    }
    turn_reasoning_off(changes, &[PROMPT], &remove, &mut set);
    let limit = changes
        .max_tokens
        .filter(|_| root.member("max_tokens").is_some())
        .map(|limit| limit.to_string());
    set.extend(limit.iter().map(|limit| ("max_tokens", limit.as_str())));
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a first request that is adapted to its model.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    parse(body)?;
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    let mut edits = Edits::default();
    edits.object(fields::object(body)?, adaptation.without.as_slice(), &set);
    edits.changed(body)
}

/// Returns the only prompt of a request: a string, or an array with one string.
fn prompt(root: Raw<'_>) -> Option<Raw<'_>> {
    let prompt = root.member(PROMPT)?;
    let mut elements = prompt.elements();
    let only = elements
        .next()
        .filter(|_| elements.next().is_none())
        .unwrap_or(prompt);
    only.inner().map(|_| only)
}

const PROMPT: &str = "prompt";
