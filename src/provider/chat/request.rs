//! Requests: what the engine must know of one, and the request that asks for the rest.

use std::borrow::Cow;

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};
use crate::provider::capability::{PrefillForm, Switch};

/// What a chat request asks for, as far as a continuation depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The answer is to be streamed.
    pub stream: bool,
    /// How many answers are asked for; 1 unless the request says otherwise.
    pub n: u64,
    /// There are stop sequences: an answer that ends early may be meant to.
    pub has_stop: bool,
    /// The model's name; empty where there is none.
    pub model: String,
    /// It says that the model is to think first, in whichever way: no prefix goes with that.
    pub thinks: bool,
    /// The most tokens that the answer may have, where that is said.
    pub max_tokens: Option<u64>,
}

/// What the rest of an answer is asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest<'a> {
    /// Two turns: the assistant's with what it has delivered, and the user's.
    Words {
        /// The assistant's message.
        delivered: &'a str,
        /// The user's message.
        prompt: &'a str,
    },
    /// One turn, the assistant's, which is continued literally.
    Prefill {
        /// The assistant's message.
        delivered: &'a str,
        /// How the provider is told so; [`PrefillForm::None`] as [`PrefillForm::Turn`].
        prefix: PrefillForm,
    },
}

/// What is changed in a request beside its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Thinking is turned off.
    pub reasoning_off: Option<&'a Switch>,
    /// Another limit on the answer's tokens, in the member that had one: `max_completion_tokens`, or `max_tokens`.
    pub max_tokens: Option<u64>,
}

impl Request {
    /// Reads a request's body; `None` unless it is a JSON object in UTF-8 with an array `messages`.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let root = chat_request(std::str::from_utf8(body).ok()?)?;
        let [stream, n, stop, model, newer_cap, cap] = pick(root, ["stream", "n", "stop", "model", CAPS[0], CAPS[1]]);
        Some(Self {
            stream: is_true(stream),
            n: n.and_then(|n| n.as_u64()).unwrap_or(1),
            has_stop: stop.is_some_and(|stop| stop.inner().is_some() || stop.elements().next().is_some()),
            model: text(model).unwrap_or_default().into_owned(),
            thinks: thinks(root),
            max_tokens: newer_cap.or(cap).and_then(|cap| cap.as_u64()),
        })
    }
}

/// The request for the rest of an answer that broke off after `delivered`, in words; see [`ask`].
pub fn continuation(body: &str, delivered: &str, prompt: &str) -> Option<String> {
    ask(body, Some(&Rest::Words { delivered, prompt }), &Changes::default())
}

/// The request for the rest of an answer, or the original request with changes.
///
/// The turns are appended to the messages. What would force another shape on the rest is taken out: `response_format`
/// and the grammars of several servers (the rest of a document fits no schema), `n`, and all about tools (the rest is
/// text). A history with tool calls needs its tools declared, so there they stay, and the choice becomes `"none"`. Every
/// other byte stays as it is, and of duplicate keys the last one counts.
///
/// ```
/// use restitch::provider::capability::PrefillForm;
/// use restitch::provider::chat::{Changes, Rest, ask};
///
/// let body = r#"{"model":"m","messages":[{"role":"user","content":"Go"}],"response_format":{"type":"json_object"}}"#;
/// let rest = Rest::Prefill { delivered: "[1, 2", prefix: PrefillForm::Flag };
/// assert_eq!(
///     ask(body, Some(&rest), &Changes::default()).unwrap(),
///     r#"{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"[1, 2","prefix":true}]}"#,
/// );
/// ```
///
/// `None` where [`Request::parse`] gives none.
pub fn ask(body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
    let root = chat_request(body)?;
    let messages = root.member("messages")?;
    let mut edits = Edits::default();
    let (mut remove, mut set) = (Vec::new(), Vec::new());
    if let Some(rest) = rest {
        leave_out_shapes(root, messages, &mut remove, &mut set);
        edits.append(messages, &turns(rest));
        if let Rest::Prefill { prefix: PrefillForm::Final, .. } = rest {
            set.extend([("continue_final_message", "true"), ("add_generation_prompt", "false")]);
        }
    }
    if let Some(Switch { key, value }) = changes.reasoning_off
        && !remove.contains(&key.as_str())
        && key != "messages"
    {
        set.retain(|(other, _)| other != key);
        set.push((key, value));
    }
    let cap = changes.max_tokens.map(|cap| cap.to_string());
    let capped = CAPS.iter().find(|key| root.member(key).is_some());
    set.extend(capped.and_then(|key| Some((*key, cap.as_deref()?))));
    edits.object(root, &remove, &set);
    Some(edits.apply(body))
}

/// A request without one of its members, or with another model; every other byte stays as it is. `None` where
/// [`Request::parse`] gives none.
pub fn adapt(body: &str, without: Option<&str>, model: Option<&str>) -> Option<String> {
    let root = chat_request(body)?;
    let model = model.map(quoted);
    let set: Vec<_> = model.iter().map(|model| ("model", model.as_str())).collect();
    let mut edits = Edits::default();
    edits.object(root, without.as_slice(), &set);
    Some(edits.apply(body))
}

/// Whether a request's body has a member.
pub fn has_member(body: &str, key: &str) -> bool {
    Raw::root(body).and_then(|root| root.member(key)).is_some()
}

fn turns(rest: &Rest<'_>) -> String {
    match rest {
        Rest::Words { delivered, prompt } => format!(
            r#"{{"role":"assistant","content":{}}},{{"role":"user","content":{}}}"#,
            quoted(delivered),
            quoted(prompt)
        ),
        Rest::Prefill { delivered, prefix } => {
            let flag = prefix.flag().map(|flag| format!(r#","{flag}":true"#)).unwrap_or_default();
            format!(r#"{{"role":"assistant","content":{}{flag}}}"#, quoted(delivered))
        }
    }
}

/// Takes out what would force another shape on the rest.
fn leave_out_shapes<'a>(
    root: Raw<'_>,
    messages: Raw<'_>,
    remove: &mut Vec<&'a str>,
    set: &mut Vec<(&'a str, &'a str)>,
) {
    let declared = |key: &str| root.member(key).is_some_and(|tools| tools.elements().next().is_some());
    let has_calls = messages.elements().any(calls_tools);
    remove.extend(SHAPES);
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

/// Members that limit an answer's tokens; the first is the newer one.
const CAPS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Members that force a shape: OpenAI's, llama.cpp's (`grammar`, `json_schema`), SGLang's (`regex`, `ebnf`), vLLM's
/// (`structured_outputs`, before that `guided_…`).
const SHAPES: [&str; 11] = [
    "response_format",
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

/// Whether a request says that the model is to think first.
fn thinks(root: Raw<'_>) -> bool {
    let [effort, enable, template, thinking, reasoning] =
        pick(root, ["reasoning_effort", "enable_thinking", "chat_template_kwargs", "thinking", "reasoning"]);
    let of = |object: Option<Raw<'_>>, key| object.is_some_and(|object| is_on(object.member(key)));
    is_on(effort) || is_on(enable) || of(template, "enable_thinking") || of(thinking, "type") || {
        of(reasoning, "enabled") || of(reasoning, "effort") || of(reasoning, "max_tokens")
    }
}

/// `true`, a number above 0, or a word that is no refusal.
fn is_on(value: Option<Raw<'_>>) -> bool {
    is_true(value)
        || value.and_then(|value| value.as_u64()).is_some_and(|number| number > 0)
        || text(value).is_some_and(|word| word != "none" && word != "disabled")
}

fn is_true(value: Option<Raw<'_>>) -> bool {
    value.and_then(|value| value.as_bool()) == Some(true)
}

fn text(value: Option<Raw<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(|value| value.decode())
}

/// Some of an object's members, in one walk: of duplicates the last one.
fn pick<'a, const N: usize>(object: Raw<'a>, keys: [&str; N]) -> [Option<Raw<'a>>; N] {
    let mut picked = [None; N];
    for (key, value) in object.members() {
        let Some(key) = key.decode() else { continue };
        for (slot, _) in picked.iter_mut().zip(keys).filter(|(_, wanted)| key == *wanted) {
            *slot = Some(value);
        }
    }
    picked
}

/// The body as an object, if it is a chat request.
fn chat_request(body: &str) -> Option<Raw<'_>> {
    let root = Raw::root(body).filter(|root| root.kind() == ValueKind::Object && walk::is_valid(body))?;
    root.member("messages").filter(|messages| messages.kind() == ValueKind::Array)?;
    Some(root)
}

/// Whether a message calls a tool or brings a tool's result.
fn calls_tools(message: Raw<'_>) -> bool {
    let role = message.member("role").and_then(|role| role.decode());
    matches!(role.as_deref(), Some("tool" | "function"))
        || message.member("tool_calls").is_some_and(|calls| calls.elements().next().is_some())
        || message.member("function_call").is_some_and(|call| call.kind() == ValueKind::Object)
}
