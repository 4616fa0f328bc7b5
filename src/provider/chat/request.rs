//! Reads from a request the facts that a continuation needs, and writes the request for the rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::capability::{GrammarForm, PrefillForm};
use crate::provider::fields::{has_stop, is_true, object_of, object_with, recorded_object, text};
use crate::provider::prefill;
use crate::provider::request::{
    FORMS, RESPONSE_FORMAT, REST_TOOL, SCHEMA_MEMBERS, body_text, functions, message, schema_of,
    set_grammar, tool, turn_reasoning_off, with_messages,
};
use crate::provider::wire::{Adaptation, Base, Changes, NewRequest, PlainPrompt, Request, Rest};

/// Reads a request's body. Returns `None` unless it is a JSON object in UTF-8 with an array
/// `messages`.
pub fn parse(body: &[u8]) -> Option<Request> {
    // The messages may be long. The bytes of few are read once.
    let mut table = Table::default();
    let root = recorded_object(&mut table, body_text(body)?)?;
    let [
        messages,
        stream,
        n,
        stop,
        model,
        tools,
        legacy,
        format,
        newer_cap,
        cap,
        is_final,
        reasoning @ ..,
    ] = root.pick(READ);
    let messages = messages.filter(|messages| messages.kind() == ValueKind::Array)?;
    let functions = functions(tools).chain(
        legacy
            .into_iter()
            .flat_map(|functions| functions.elements()),
    );
    let form = text(format.and_then(|format| format.member("type")));
    Some(Request {
        stream: is_true(stream),
        n: n.and_then(|n| n.as_u64()).unwrap_or(1),
        has_stop: has_stop(stop),
        has_json_mode: matches!(form.as_deref(), Some("json_object" | "json_schema")),
        schema: schema_of(root, format),
        model: text(model).unwrap_or_default().into_owned(),
        wants_reasoning: asks_for_reasoning(reasoning),
        max_tokens: newer_cap.or(cap).and_then(|cap| cap.as_u64()),
        tools: functions.filter_map(tool).collect(),
        base: base(messages, is_true(is_final)),
    })
}

/// Returns the base of the answer's document. A message that calls tools is not continued.
fn base(messages: Raw<'_>, is_final: bool) -> Base {
    let last = messages
        .elements()
        .last()
        .filter(|last| !calls_tools(*last));
    let is_marked = last.is_some_and(|last| FLAGS.iter().any(|flag| is_true(last.member(flag))));
    Base::prefill(
        last.and_then(|last| prefill::text_by(last, "assistant", "content")),
        is_final || is_marked,
    )
}

/// Returns a request for a new answer.
pub(crate) fn new_request(prompt: &PlainPrompt<'_>) -> NewRequest {
    NewRequest::new("/chat/completions", with_messages(prompt, "max_tokens"))
}

/// The members that [`parse`] reads. The last five ask for reasoning.
const READ: [&str; 16] = [
    "messages",
    "stream",
    "n",
    "stop",
    "model",
    "tools",
    "functions",
    RESPONSE_FORMAT,
    TOKEN_LIMITS[0],
    TOKEN_LIMITS[1],
    FINAL[0],
    "reasoning_effort",
    "enable_thinking",
    "chat_template_kwargs",
    "thinking",
    "reasoning",
];

/// Returns the re-prompt for an answer that was cut after `delivered`; see [`ask`].
pub fn continuation(body: &str, delivered: &str, prompt: &str) -> Option<String> {
    ask(
        body,
        Some(&Rest::Reprompt { delivered, prompt }),
        &Changes::default(),
    )
}

/// Returns the request for the rest of an answer, or the original request with changes.
///
/// The messages are appended. Members that would force another format on the rest are removed:
/// `response_format` and the grammars of several servers (the rest of a document fits no schema),
/// `n`, and everything about tools (the rest is text). A history with tool calls needs its tools
/// declared, so there the tools stay and the choice becomes `"none"`. With
/// [`Changes::keeps_json_mode`] `response_format` and the members with a schema stay, and with
/// [`Changes::grammar`] the members that have it replace the client's. Every other byte is kept, and
/// of duplicate keys the last one counts.
///
/// ```
/// use restitch::provider::capability::PrefillForm;
/// use restitch::internal::chat::{Changes, Rest, ask};
///
/// let body = r#"{"model":"m","messages":[{"role":"user","content":"Go"}],"response_format":{"type":"json_object"}}"#;
/// let rest = Rest::Prefill { delivered: "[1, 2", form: PrefillForm::Flag };
/// assert_eq!(
///     ask(body, Some(&rest), &Changes::default()).unwrap(),
///     r#"{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"[1, 2","prefix":true}]}"#,
/// );
/// ```
///
/// Returns `None` if [`parse`] does.
pub fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let (root, messages) = object_with(body, "messages")?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        remove_forms(root, messages, &mut remove, &mut set);
        remove.retain(|key| !(changes.keeps_json_mode && SCHEMA_MEMBERS.contains(key)));
        append(messages, rest, changes.replaces_prefill, &mut edits);
        match rest {
            // vLLM continues the last message only without a generation prompt after it.
            Rest::Prefill {
                form: PrefillForm::Final,
                ..
            } => set.extend([(FINAL[0], "true"), (FINAL[1], "false")]),
            Rest::Prefill { .. } => {}
            // The last message is the user's, so the request must not continue it.
            Rest::Reprompt { .. } => remove.extend(FINAL),
        }
    }
    let mut grammar = changes
        .grammar
        .map_or_else(Vec::new, |(form, grammar)| grammar_members(form, grammar));
    let template = object_of(root, TEMPLATE).filter(|_| grammar.iter().any(is_of_template));
    let mut edited = vec!["messages"];
    if let Some(template) = template {
        // The client's own members stay.
        grammar.retain(|member| !is_of_template(member));
        edits.object(template, &[], &[("enable_thinking", "false")]);
        edited.push(TEMPLATE);
    }
    set_grammar(&grammar, &mut remove, &mut set);
    turn_reasoning_off(changes, &edited, &remove, &mut set);
    let cap = changes.max_tokens.map(|cap| cap.to_string());
    let capped = TOKEN_LIMITS.iter().find(|key| root.member(key).is_some());
    set.extend(capped.and_then(|key| Some((*key, cap.as_deref()?))));
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// Returns a request that is adapted to its model. Every other byte is kept. Returns `None` if
/// [`parse`] does.
///
/// ```
/// use restitch::internal::chat::{Adaptation, adapt};
///
/// let body = r#"{"model":"m","messages":[]}"#;
/// let adaptation = Adaptation { model: Some("n"), ..Adaptation::default() };
/// let adapted = r#"{"model":"n","messages":[]}"#;
/// assert_eq!(adapt(body, &adaptation).unwrap(), adapted);
/// ```
pub fn adapt(body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
    let (root, _) = object_with(body, "messages")?;
    let model = adaptation.model.map(quoted);
    let set: Vec<_> = model
        .iter()
        .map(|model| ("model", model.as_str()))
        .collect();
    let mut edits = Edits::default();
    edits.object(root, adaptation.without.as_slice(), &set);
    Some(edits.apply(body))
}

/// Returns whether a request's body has a member.
pub fn has_member(body: &str, key: &str) -> bool {
    Raw::root(body).and_then(|root| root.member(key)).is_some()
}

/// Appends the messages that ask for the rest. Only the last message may have a flag that asks to
/// continue it.
fn append(messages: Raw<'_>, rest: &Rest<'_>, replaces_prefill: bool, edits: &mut Edits) {
    let last = messages
        .elements()
        .last()
        .filter(|last| last.kind() == ValueKind::Object);
    let content = last
        .and_then(|last| last.member("content"))
        .filter(|_| replaces_prefill);
    let has_flag = |last: &Raw<'_>| FLAGS.iter().any(|flag| last.member(flag).is_some());
    let (delivered, form) = match rest {
        Rest::Reprompt { delivered, .. } => (delivered, None),
        Rest::Prefill { delivered, form } => (delivered, Some(form)),
    };
    let mut added = Vec::new();
    match (last, content) {
        (Some(last), Some(content)) => {
            let content = prefill::with_text(content, delivered);
            let flag = form.and_then(|form| form.flag());
            let set: Vec<_> = [("content", content.as_str())]
                .into_iter()
                .chain(flag.map(|flag| (flag, "true")))
                .collect();
            edits.object(last, if form.is_none() { &FLAGS } else { &[] }, &set);
        }
        (last, _) => {
            if let Some(last) = last.filter(has_flag) {
                edits.object(last, &FLAGS, &[]);
            }
            let flag = form
                .and_then(|form| form.flag())
                .map(|flag| format!(r#","{flag}":true"#))
                .unwrap_or_default();
            added.push(format!(
                r#"{{"role":"assistant","content":{}{flag}}}"#,
                quoted(delivered)
            ));
        }
    }
    if let Rest::Reprompt { prompt, .. } = rest {
        added.push(message("user", prompt));
    }
    if !added.is_empty() {
        edits.append(messages, &added.join(","));
    }
}

/// Returns the members that make an answer follow a grammar.
fn grammar_members(form: GrammarForm, definition: &str) -> Vec<(&'static str, String)> {
    let grammar = quoted(definition);
    match form {
        GrammarForm::None => Vec::new(),
        // vLLM's reasoning parsers switch the grammar off until a model has reasoned, and llama.cpp
        // reads text under a grammar as reasoning. So the template is asked not to open it.
        GrammarForm::Member => vec![("grammar", grammar), without_thinking()],
        GrammarForm::StructuredOutputs => vec![
            ("structured_outputs", format!(r#"{{"grammar":{grammar}}}"#)),
            without_thinking(),
        ],
        GrammarForm::Ebnf => vec![("ebnf", grammar)],
        GrammarForm::ResponseFormat => vec![(
            RESPONSE_FORMAT,
            format!(r#"{{"type":"grammar","grammar":{grammar}}}"#),
        )],
        GrammarForm::CustomTool => {
            let format = format!(
                r#"{{"type":"grammar","grammar":{{"syntax":"lark","definition":{grammar}}}}}"#
            );
            let tool = format!(r#"{{"name":"{REST_TOOL}","format":{format}}}"#);
            let choice = format!(r#"{{"type":"custom","custom":{{"name":"{REST_TOOL}"}}}}"#);
            vec![
                ("tools", format!(r#"[{{"type":"custom","custom":{tool}}}]"#)),
                ("tool_choice", choice),
                ("parallel_tool_calls", "false".to_owned()),
            ]
        }
        GrammarForm::JsonSchema(_) => {
            let schema = format!(r#"{{"name":"{REST_TOOL}","strict":true,"schema":{definition}}}"#);
            vec![(
                RESPONSE_FORMAT,
                format!(r#"{{"type":"json_schema","json_schema":{schema}}}"#),
            )]
        }
    }
}

fn without_thinking() -> (&'static str, String) {
    (TEMPLATE, r#"{"enable_thinking":false}"#.to_owned())
}

fn is_of_template((key, _): &(&'static str, String)) -> bool {
    *key == TEMPLATE
}

/// The settings of the chat template, for vLLM and llama.cpp.
const TEMPLATE: &str = "chat_template_kwargs";

/// The members by which the last message asks to be continued.
const FLAGS: [&str; 2] = ["prefix", "partial"];

/// The members of a request that ask to continue its last message, if the first is `true`.
const FINAL: [&str; 2] = ["continue_final_message", "add_generation_prompt"];

/// Removes the members that would force another format on the rest.
fn remove_forms<'a>(
    root: Raw<'_>,
    messages: Raw<'_>,
    remove: &mut Vec<&'a str>,
    set: &mut Vec<(&'a str, &'a str)>,
) {
    let declared = |key: &str| {
        root.member(key)
            .is_some_and(|tools| tools.elements().next().is_some())
    };
    let has_calls = messages.elements().any(calls_tools);
    remove.extend(FORMS);
    // A history with calls needs its tools declared. The rest is text, so the model must not call
    // them.
    if has_calls && declared("tools") {
        set.push(("tool_choice", r#""none""#));
    } else {
        remove.extend(["tools", "tool_choice", "parallel_tool_calls"]);
    }
    if has_calls && declared("functions") {
        set.push(("function_call", r#""none""#));
    } else {
        remove.extend(["functions", "function_call"]);
    }
}

/// The members that limit an answer's tokens. The first is the newer one.
const TOKEN_LIMITS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Returns whether a request asks the model to reason first.
fn asks_for_reasoning(
    [effort, enable, template, thinking, reasoning]: [Option<Raw<'_>>; 5],
) -> bool {
    let of = |object: Option<Raw<'_>>, key| object.is_some_and(|object| is_on(object.member(key)));
    is_on(effort) || is_on(enable) || of(template, "enable_thinking") || of(thinking, "type") || {
        of(reasoning, "enabled") || of(reasoning, "effort") || of(reasoning, "max_tokens")
    }
}

/// Returns whether a value is `true`, a number above 0, or a string other than `none` and
/// `disabled`.
fn is_on(value: Option<Raw<'_>>) -> bool {
    is_true(value)
        || value
            .and_then(|value| value.as_u64())
            .is_some_and(|number| number > 0)
        || text(value).is_some_and(|word| word != "none" && word != "disabled")
}

/// Returns whether a message calls a tool or has a tool's result.
fn calls_tools(message: Raw<'_>) -> bool {
    let role = message.member("role").and_then(|role| role.decode());
    matches!(role.as_deref(), Some("tool" | "function"))
        || message
            .member("tool_calls")
            .is_some_and(|calls| calls.elements().next().is_some())
        || message
            .member("function_call")
            .is_some_and(|call| call.kind() == ValueKind::Object)
}
