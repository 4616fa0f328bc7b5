//! Events of a stream of Chat Completions, as a server writes them.

use serde_json::{Value, json};

/// The event after the last chunk.
pub const DONE: &str = "data: [DONE]\n\n";

/// Returns an event with this data.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Returns a chunk of the answer `id` for one choice.
pub fn chunk(id: &str, choice: impl Into<Value>, delta: &Value, finish: Option<&str>) -> String {
    let choice = choice.into();
    let choice = json!({"index": choice, "delta": delta, "finish_reason": finish});
    event(&json!({"id": id, "choices": [choice]}))
}

/// Returns the first chunk, which has the role.
pub fn role(id: &str) -> String {
    chunk(id, 0, &json!({"role": "assistant", "content": ""}), None)
}

/// Returns a chunk with text.
pub fn text(id: &str, text: &str) -> String {
    chunk(id, 0, &json!({"content": text}), None)
}

/// Returns the chunk with the finish reason.
pub fn finish(id: &str, reason: &str) -> String {
    chunk(id, 0, &json!({}), Some(reason))
}

/// Returns a chunk of the answer `a` with this delta.
pub fn delta(delta: &Value, finish: Option<&str>) -> String {
    chunk("a", 0, delta, finish)
}

/// Returns a chunk of the answer `a` with text of a choice.
pub fn content(choice: impl Into<Value>, content: &str, finish: Option<&str>) -> String {
    chunk("a", choice, &json!({"content": content}), finish)
}

/// Returns a chunk of the answer `a` with text.
pub fn said(text: &str) -> String {
    content(0, text, None)
}

/// Returns the end of the answer `a`: the chunk with the finish reason, and the last event.
pub fn end(reason: &str) -> String {
    finish("a", reason) + DONE
}
