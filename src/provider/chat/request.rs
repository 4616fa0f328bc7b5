//! Requests: what the engine must know of one, and the request that asks for the rest.

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{self, Raw, ValueKind};

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
}

impl Request {
    /// Reads a request's body; `None` unless it is a JSON object in UTF-8 with an array `messages`.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let root = chat_request(std::str::from_utf8(body).ok()?)?;
        let is_true = |value: Option<Raw<'_>>| value.and_then(|value| value.as_bool()) == Some(true);
        let stop = root.member("stop");
        Some(Self {
            stream: is_true(root.member("stream")),
            n: root.member("n").and_then(|n| n.as_u64()).unwrap_or(1),
            has_stop: stop.is_some_and(|stop| stop.inner().is_some() || stop.elements().next().is_some()),
        })
    }
}

/// The request for the rest of an answer that broke off after `delivered`.
///
/// Two messages are appended: the assistant's with what it has delivered, and the user's with `prompt`. What would
/// force another shape on the rest is taken out: `response_format` (the rest of a document fits no schema) and all
/// about tools (the rest is text). A history with tool calls needs its tools declared, so there they stay, and the
/// choice becomes `"none"`. Every other byte stays as it is, and of duplicate keys the last one counts.
///
/// `None` where [`Request::parse`] gives none.
pub fn continuation(body: &str, delivered: &str, prompt: &str) -> Option<String> {
    let root = chat_request(body)?;
    let messages = root.member("messages")?;

    let declared = |key: &str| root.member(key).is_some_and(|tools| tools.elements().next().is_some());
    let has_calls = messages.elements().any(calls_tools);
    let mut remove = vec!["response_format"];
    let mut set = Vec::new();
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

    let mut edits = Edits::default();
    edits.object(root, &remove, &set);
    let turns = format!(
        r#"{{"role":"assistant","content":{}}},{{"role":"user","content":{}}}"#,
        quoted(delivered),
        quoted(prompt)
    );
    edits.append(messages, &turns);
    Some(edits.apply(body))
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
