//! Reads from a request the facts that a continuation needs, and writes the request for the rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::capability::{GrammarForm, Switch};
use crate::provider::fields::{is_true, object, present, word};
use crate::provider::prefill;
use crate::provider::request::{
    REST_TOOL, any_schema, body_text, message, remove_format, set_format, set_grammar,
    turn_reasoning_off,
};
use crate::provider::translate::{self, PlainMessage, Role};
use crate::provider::wire::{
    Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest, Tool,
};

/// Reads a request's body. Returns `None` unless it is a JSON object in UTF-8 with an `input`, a
/// string or an array. A request in a `conversation` is not read either: the question for the rest
/// would stay in the conversation.
pub(super) fn parse(body: &[u8]) -> Option<Request> {
    let (root, input) = request(body_text(body)?)?;
    if root
        .member("conversation")
        .is_some_and(|conversation| conversation.kind() != ValueKind::Null)
    {
        return None;
    }
    let [stream, model, text, reasoning, cap, tools] =
        root.pick(["stream", "model", "text", REASONING, CAP, "tools"]);
    let format = text.and_then(|text| text.member("format"));
    let form = word(format.and_then(|format| format.member("type")));
    let schema = present(format.and_then(|format| format.member("schema")));
    let effort = word(reasoning.and_then(|reasoning| reasoning.member("effort")));
    Some(Request {
        stream: is_true(stream),
        n: 1,
        has_stop: false,
        has_json_mode: matches!(form.as_deref(), Some("json_object" | "json_schema")),
        schema: match schema {
            Some(schema) => Some(schema.as_str().to_owned()),
            None => (form.as_deref() == Some("json_schema")).then(any_schema),
        },
        model: word(model).unwrap_or_default().into_owned(),
        wants_reasoning: effort.is_some_and(|effort| effort != "none"),
        max_tokens: cap.and_then(|cap| cap.as_u64()),
        tools: tools
            .into_iter()
            .flat_map(|tools| tools.elements())
            .filter_map(tool)
            .collect(),
        base: Base::prefill(prefill::last_text(input, "assistant", "content"), false),
    })
}

/// Returns a request for a new answer.
pub(super) fn new(prompt: &PlainPrompt<'_>) -> NewRequest {
    let system = prompt
        .system
        .map(|system| format!(r#","instructions":{}"#, quoted(system)))
        .unwrap_or_default();
    let limit = prompt
        .max_tokens
        .map(|limit| format!(r#","{CAP}":{limit}"#))
        .unwrap_or_default();
    let (model, input) = (quoted(prompt.model), quoted(prompt.text));
    NewRequest::new(
        "/responses",
        format!(r#"{{"model":{model},"stream":true{system},"input":{input}{limit}}}"#),
    )
}

/// Returns the messages of a request. `None` if the provider keeps earlier messages, because those
/// are unknown.
pub(super) fn plain_messages(body: &str) -> Option<Vec<PlainMessage>> {
    let (root, input) = request(body)?;
    if present(root.member("previous_response_id")).is_some() {
        return None;
    }
    let messages = match input.kind() {
        ValueKind::Array => translate::messages_of(input)?,
        _ => vec![PlainMessage {
            role: Role::User,
            text: translate::text_of(input)?,
        }],
    };
    translate::with_system(root.member("instructions"), messages)
}

fn tool(tool: Raw<'_>) -> Option<Tool> {
    let schema = tool
        .member("parameters")
        .filter(|schema| schema.kind() == ValueKind::Object);
    Some(Tool {
        name: word(tool.member("name"))?.into_owned(),
        schema: schema.map(|schema| schema.as_str().to_owned()),
    })
}

/// Returns the request for the rest of an answer, or the original request with changes. Every other
/// byte is kept.
///
/// The messages are appended to `input`; a string first becomes a user's message. The members that
/// force a format on the answer and everything about tools are removed: the rest is text and fits
/// no schema. If the input has calls, the tools stay and the choice becomes none. The relay reads
/// the rest as a stream, so `background` is removed.
///
/// Returns `None` if [`parse`] does.
pub(super) fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, input) = request(body)?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    let mut format = None;
    if let Some(rest) = rest {
        match changes.schema() {
            Some(schema) => format = set_format(root, "text", &schema_format(schema), &mut edits),
            None if changes.keeps_json_mode => {}
            None => remove_format(root, "text", &mut edits, &mut remove),
        }
        // The relay reads the rest as a stream.
        remove.push("background");
        let has_tools = root
            .member("tools")
            .is_some_and(|tools| tools.elements().next().is_some());
        if has_tools && input.elements().any(calls_tools) {
            set.push(("tool_choice", r#""none""#));
        } else {
            remove.extend([
                "tools",
                "tool_choice",
                "parallel_tool_calls",
                "max_tool_calls",
            ]);
        }
        append(input, rest, changes.replaces_prefill, &mut edits);
    }
    let grammar = changes
        .grammar
        .map(|(form, grammar)| grammar_members(form, grammar));
    set_grammar(
        grammar.as_deref().unwrap_or_default(),
        &mut remove,
        &mut set,
    );
    set.extend(format.as_ref().map(|(key, value)| (*key, value.as_str())));
    let effort;
    if let Some(Switch { key, value }) = changes.reasoning_off {
        // The switch of Chat Completions has another name here.
        if key == "reasoning_effort" {
            match root
                .member(REASONING)
                .filter(|reasoning| reasoning.kind() == ValueKind::Object)
            {
                Some(reasoning) => edits.object(reasoning, &[], &[("effort", value)]),
                None => {
                    effort = format!(r#"{{"effort":{value}}}"#);
                    set.push((REASONING, &effort));
                }
            }
        } else {
            turn_reasoning_off(changes, &["input"], &remove, &mut set);
        }
    }
    let cap = changes.max_tokens.map(|cap| cap.to_string());
    set.extend(
        cap.as_deref()
            .filter(|_| root.member(CAP).is_some())
            .map(|cap| (CAP, cap)),
    );
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a request that is adapted to its model. Every other byte is kept. Returns `None` if
/// nothing changes, or if [`parse`] returns `None`.
pub(super) fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = request(body)?;
    let mut edits = Edits::default();
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    edits.object(root, adaptation.without.as_slice(), &set);
    edits.changed(body)
}

/// Returns the format of an answer with the parts that are missing.
fn schema_format(schema: &str) -> String {
    format!(r#"{{"type":"json_schema","name":"{REST_TOOL}","strict":true,"schema":{schema}}}"#)
}

/// Returns the members that make an answer follow a grammar: that of a custom tool's input.
fn grammar_members(form: GrammarForm, grammar: &str) -> Vec<(&'static str, String)> {
    if form != GrammarForm::CustomTool {
        return Vec::new();
    }
    let definition = quoted(grammar);
    let format = format!(r#"{{"type":"grammar","syntax":"lark","definition":{definition}}}"#);
    let tool = format!(r#"{{"type":"custom","name":"{REST_TOOL}","format":{format}}}"#);
    vec![
        ("tools", format!("[{tool}]")),
        (
            "tool_choice",
            format!(r#"{{"type":"custom","name":"{REST_TOOL}"}}"#),
        ),
        ("parallel_tool_calls", "false".to_owned()),
    ]
}

fn append(input: Raw<'_>, rest: &Rest<'_>, replaces_prefill: bool, edits: &mut Edits) {
    if input.kind() == ValueKind::Array {
        return prefill::append(
            input,
            rest,
            ("assistant", "content"),
            replaces_prefill,
            edits,
            item,
        );
    }
    let (delivered, prompt) = match rest {
        Rest::Reprompt { delivered, prompt } => (delivered, Some(prompt)),
        Rest::Prefill { delivered, .. } => (delivered, None),
    };
    let mut added = vec![format!(r#"{{"role":"user","content":{}}}"#, input.as_str())];
    if !delivered.trim().is_empty() {
        added.push(item("assistant", delivered));
    }
    added.extend(prompt.map(|prompt| item("user", prompt)));
    edits.replace(input, &format!("[{}]", added.join(",")));
}

/// Returns a message as an item of the input. OpenAI takes an assistant's item without a type, and
/// llama.cpp refuses it: "Cannot determine type of 'item'".
fn item(role: &str, text: &str) -> String {
    match role {
        "assistant" => format!(
            r#"{{"type":"message","role":"assistant","content":{}}}"#,
            quoted(text)
        ),
        _ => message(role, text),
    }
}

/// Returns the body as an object and its input, if it is a request.
fn request(body: &str) -> Option<(Raw<'_>, Raw<'_>)> {
    let root = object(body)?;
    let input = root
        .member("input")
        .filter(|input| matches!(input.kind(), ValueKind::String | ValueKind::Array))?;
    Some((root, input))
}

/// Returns whether an item of the input calls a tool or has a tool's result.
fn calls_tools(item: Raw<'_>) -> bool {
    word(item.member("type"))
        .is_some_and(|kind| kind.ends_with("_call") || kind.ends_with("_call_output"))
}

const REASONING: &str = "reasoning";

/// The member that limits an answer's tokens.
const CAP: &str = "max_output_tokens";
