//! Code for the requests of several wires: declared tools, members that force a format, and the
//! text that asks for the rest.

use super::fields::{present, text};
use super::prefill::open_root;
use super::wire::{Base, Changes, PlainPrompt, Rest, Tool};
use crate::json::edit::Edits;
use crate::json::string::{escape_into, quoted};
use crate::json::walk::{Raw, ValueKind};
use crate::provider::capability::Switch;

/// Returns a body as text. `None`: it is not UTF-8.
pub fn body_text(body: &[u8]) -> Option<&str> {
    // Prompts have text beyond ASCII, which the standard library checks character by character.
    simdutf8::basic::from_utf8(body).ok()
}

/// Returns the functions that a request declares in its member `tools`.
pub(super) fn functions(tools: Option<Raw<'_>>) -> impl Iterator<Item = Raw<'_>> {
    let tools = tools.into_iter().flat_map(|tools| tools.elements());
    tools.filter_map(|tool| tool.member("function"))
}

/// Reads the declaration of a function.
pub(super) fn tool(function: Raw<'_>) -> Option<Tool> {
    let name = text(function.member("name"))?.into_owned();
    Some(Tool {
        name,
        schema: function
            .member("parameters")
            .map(|schema| schema.as_str().to_owned()),
    })
}

/// Returns the schema of the answer: that of `response_format`, or of the members of llama.cpp
/// (`json_schema`) and vLLM (`structured_outputs`, earlier `guided_json`).
pub(super) fn schema_of(root: Raw<'_>, format: Option<Raw<'_>>) -> Option<String> {
    fn within<'a>(outer: Option<Raw<'a>>, key: &str) -> Option<Raw<'a>> {
        present(outer?.member(key))
    }
    let [of_root, outputs, guided] =
        root.pick(["json_schema", "structured_outputs", "guided_json"]);
    let schema = within(within(format, "json_schema"), "schema")
        .or_else(|| within(format, "schema"))
        .or_else(|| present(of_root))
        .or_else(|| within(present(outputs), "json"))
        .or_else(|| present(guided));
    let form = text(format.and_then(|format| format.member("type")));
    match schema {
        Some(schema) => Some(schema.as_str().to_owned()),
        None => (form.as_deref() == Some("json_schema")).then(any_schema),
    }
}

/// Returns the schema of a format that comes without one: every document is legal.
pub(super) fn any_schema() -> String {
    "{}".to_owned()
}

/// Returns a message that has only text.
pub(super) fn message(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}","content":{}}}"#, quoted(text))
}

/// Returns the messages of a new request: that of the system, if there is one, and the user's.
pub(super) fn messages(prompt: &PlainPrompt<'_>) -> String {
    let system = prompt
        .system
        .map(|system| format!("{},", message("system", system)))
        .unwrap_or_default();
    format!("{system}{}", message("user", prompt.text))
}

/// Returns the body of a new request with messages; `limit` is the member that limits the answer's
/// tokens.
pub(super) fn with_messages(prompt: &PlainPrompt<'_>, limit: &str) -> String {
    let most = prompt
        .max_tokens
        .map(|most| format!(r#","{limit}":{most}"#))
        .unwrap_or_default();
    format!(
        r#"{{"model":{},"stream":true,"messages":[{}]{most}}}"#,
        quoted(prompt.model),
        messages(prompt)
    )
}

/// Returns the base of the document after a prompt that the model continues: the root that is open
/// at its end. Only the answer shows whether it continues that root.
pub(super) fn base_of(prompt: Raw<'_>) -> Base {
    let prompt = text(Some(prompt));
    Base::prefill(
        prompt.as_deref().and_then(open_root).map(str::to_owned),
        false,
    )
}

/// Returns a prompt and the text after it, as a JSON string. With `replaces_prefill` the delivered
/// text replaces the root that is open at the end of the prompt. Otherwise the prompt keeps its
/// escapes: decoding would lose half of a surrogate pair.
pub(super) fn continued_prompt(
    prompt: Raw<'_>,
    rest: &Rest<'_>,
    replaces_prefill: bool,
) -> Option<String> {
    let mut out = match replaces_prefill {
        true => {
            let prompt = prompt.decode()?;
            let before = prompt.strip_suffix(open_root(&prompt)?)?;
            let mut out = b"\"".to_vec();
            escape_into(&mut out, before);
            out
        }
        false => format!("\"{}", prompt.inner()?).into_bytes(),
    };
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

/// Sets the members that make an answer follow a grammar, instead of the client's own.
pub(super) fn set_grammar<'a>(
    members: &'a [(&'static str, String)],
    remove: &mut Vec<&'a str>,
    set: &mut Vec<(&'a str, &'a str)>,
) {
    for (key, value) in members {
        remove.retain(|removed| removed != key);
        set.retain(|(other, _)| other != key);
        set.push((key, value));
    }
}

/// Sets the `format` of the answer in a member with settings, which keeps its other settings.
pub(super) fn set_format(
    root: Raw<'_>,
    key: &'static str,
    format: &str,
    edits: &mut Edits,
) -> Option<(&'static str, String)> {
    match root
        .member(key)
        .filter(|settings| settings.kind() == ValueKind::Object)
    {
        Some(settings) => {
            edits.object(settings, &[], &[("format", format)]);
            None
        }
        None => Some((key, format!(r#"{{"format":{format}}}"#))),
    }
}

/// Sets the member that turns reasoning off, unless it is removed or `edited` elsewhere: each byte
/// is edited once.
pub(super) fn turn_reasoning_off<'a>(
    changes: &Changes<'a>,
    edited: &[&str],
    remove: &[&str],
    set: &mut Vec<(&'a str, &'a str)>,
) {
    if let Some(Switch { key, value }) = changes.reasoning_off
        && !remove.contains(&key.as_str())
        && !edited.contains(&key.as_str())
    {
        set.retain(|(other, _)| other != key);
        set.push((key, value));
    }
}

/// Removes the `format` of the answer from a member with settings: the whole member if it has no
/// other settings.
pub(super) fn remove_format<'a>(
    root: Raw<'_>,
    key: &'a str,
    edits: &mut Edits,
    remove: &mut Vec<&'a str>,
) {
    let Some(settings) = root
        .member(key)
        .filter(|settings| settings.member("format").is_some())
    else {
        return;
    };
    let is_format = |key: &Raw<'_>| key.decode().is_some_and(|key| key == "format");
    if settings.members().all(|(key, _)| is_format(&key)) {
        remove.push(key);
    } else {
        edits.object(settings, &["format"], &[]);
    }
}

/// The members that have the schema of the answer; see [`schema_of`].
pub(super) const SCHEMA_MEMBERS: [&str; 4] = [
    RESPONSE_FORMAT,
    "json_schema",
    "structured_outputs",
    "guided_json",
];

/// The name of the custom tool whose input is the rest of an answer, and of the schema of an answer
/// with the parts that are missing.
pub(super) const REST_TOOL: &str = "write_rest";

/// The member that asks for a format of the answer in OpenAI's chat API and similar APIs.
pub(super) const RESPONSE_FORMAT: &str = "response_format";

/// The members that force a format: OpenAI's, llama.cpp's (`grammar`, `json_schema`), SGLang's
/// (`regex`, `ebnf`), vLLM's (`structured_outputs`, earlier `guided_…`). And `n`, which asks for
/// several answers.
pub(super) const FORMS: [&str; 11] = [
    RESPONSE_FORMAT,
    "n",
    "grammar",
    "json_schema",
    "regex",
    "ebnf",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
];
