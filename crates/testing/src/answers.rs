//! Streams of every wire, as their servers send them: small, and written here by hand.

use restitch::internal::wire::{Dialect, SlotKind};
use serde_json::{Value, json};

/// One stream of a model's answer.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    pub dialect: Dialect,
    /// The answer is a call of the tool `save`, with these arguments as its text.
    pub kind: SlotKind,
    /// The parts of the text.
    pub parts: Vec<&'a str>,
    /// Why it ends, in the words of Chat Completions; `None`: the stream stops after its text.
    pub reason: Option<&'a str>,
}

/// An answer in pieces of some characters.
pub fn answer<'a>(
    dialect: Dialect,
    kind: SlotKind,
    text: &'a str,
    reason: Option<&'a str>,
) -> Answer<'a> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .map(|(at, _)| at)
            .chain([rest.len()])
            .find(|&at| at >= 7)
            .unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    Answer {
        dialect,
        kind,
        parts,
        reason,
    }
}

impl Answer<'_> {
    /// Returns the stream.
    pub fn stream(&self) -> String {
        match self.dialect {
            Dialect::Chat => self.chat(),
            Dialect::Completions => self.completions(),
            Dialect::Responses => self.responses(),
            Dialect::Messages => self.messages(),
            Dialect::Gemini => self.gemini(),
            Dialect::Ollama => self.ollama(),
            Dialect::Cohere => self.cohere(),
            other => panic!("{other}"),
        }
    }

    fn is_call(&self) -> bool {
        self.kind == SlotKind::Arguments
    }

    fn chat(&self) -> String {
        let chunk = |delta: Value, reason: Option<&str>| {
            data(
                &json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
            )
        };
        let call = json!([{"index": 0, "id": "call_1", "type": "function", "function": {"name": "save", "arguments": ""}}]);
        let mut out = match self.is_call() {
            true => chunk(
                json!({"role": "assistant", "content": null, "tool_calls": call}),
                None,
            ),
            false => chunk(json!({"role": "assistant", "content": ""}), None),
        };
        for part in &self.parts {
            out += &match self.is_call() {
                true => chunk(
                    json!({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}),
                    None,
                ),
                false => chunk(json!({"content": part}), None),
            };
        }
        let Some(reason) = self.reason else {
            return out;
        };
        out + &chunk(json!({}), Some(reason)) + "data: [DONE]\n\n"
    }

    fn completions(&self) -> String {
        let chunk = |text: &str, reason: Option<&str>| {
            data(
                &json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "text": text, "finish_reason": reason, "logprobs": null}]}),
            )
        };
        let out: String = self.parts.iter().map(|part| chunk(part, None)).collect();
        let Some(reason) = self.reason else {
            return out;
        };
        out + &chunk("", Some(reason)) + "data: [DONE]\n\n"
    }

    fn messages(&self) -> String {
        let block = match self.is_call() {
            true => json!({"type": "tool_use", "id": "toolu_1", "name": "save", "input": {}}),
            false => json!({"type": "text", "text": ""}),
        };
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1}});
        let mut out = named(&json!({"type": "message_start", "message": message}))
            + &named(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
            + &named(&json!({"type": "ping"}));
        for part in &self.parts {
            let delta = match self.is_call() {
                true => json!({"type": "input_json_delta", "partial_json": part}),
                false => json!({"type": "text_delta", "text": part}),
            };
            out += &named(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        let Some(reason) = self.reason else {
            return out;
        };
        let reason = match reason {
            "length" => "max_tokens",
            "tool_calls" => "tool_use",
            _ => "end_turn",
        };
        out + &named(&json!({"type": "content_block_stop", "index": 0}))
            + &named(
                &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": 9}}),
            )
            + &named(&json!({"type": "message_stop"}))
    }

    fn responses(&self) -> String {
        let mut number = 0;
        let mut event = |mut event: Value| {
            event["sequence_number"] = number.into();
            number += 1;
            named(&event)
        };
        let text: String = self.parts.concat();
        let item = |status: &str, text: &str| match self.is_call() {
            true => {
                json!({"id": "fc_1", "type": "function_call", "status": status, "call_id": "call_1", "name": "save", "arguments": text})
            }
            false => {
                json!({"id": "msg_1", "type": "message", "status": status, "role": "assistant",
                "content": if text.is_empty() { json!([]) } else { json!([{"type": "output_text", "text": text, "annotations": []}]) }})
            }
        };
        let response = |status: &str, output: Value, details: Value, usage: Value| {
            json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m",
                "incomplete_details": details, "error": null, "output": output, "usage": usage, "tools": [],
                "parallel_tool_calls": true, "tool_choice": "auto"})
        };
        let begun = response("in_progress", json!([]), Value::Null, Value::Null);
        let mut out = event(json!({"type": "response.created", "response": begun}))
            + &event(json!({"type": "response.in_progress", "response": begun}))
            + &event(
                json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", "")}),
            );
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        if !self.is_call() {
            out += &event(
                json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "part": part("")}),
            );
        }
        for delta in &self.parts {
            out += &event(match self.is_call() {
                true => {
                    json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": delta})
                }
                false => {
                    json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                    "content_index": 0, "delta": delta, "logprobs": []})
                }
            });
        }
        let Some(reason) = self.reason else {
            return out;
        };
        let is_cut = reason == "length";
        let status = if is_cut { "incomplete" } else { "completed" };
        let details = if is_cut {
            json!({"reason": "max_output_tokens"})
        } else {
            Value::Null
        };
        if self.is_call() {
            out += &event(
                json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": text}),
            );
        } else {
            out += &event(
                json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "text": text, "logprobs": []}),
            );
            out += &event(
                json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "part": part(&text)}),
            );
        }
        out += &event(
            json!({"type": "response.output_item.done", "output_index": 0, "item": item(status, &text)}),
        );
        let usage = json!({"input_tokens": 5, "output_tokens": 9, "total_tokens": 14});
        let ended = response(status, json!([item(status, &text)]), details, usage);
        out + &event(json!({"type": format!("response.{status}"), "response": ended}))
    }

    fn gemini(&self) -> String {
        let chunk = |candidate: Value| {
            format!(
                "data: {}\r\n\r\n",
                json!({"candidates": [candidate], "modelVersion": "m", "responseId": "r",
                "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}})
            )
        };
        let part = |part: &&str| {
            chunk(json!({"content": {"parts": [{"text": part}], "role": "model"}, "index": 0}))
        };
        let out: String = self.parts.iter().map(part).collect();
        let Some(reason) = self.reason else {
            return out;
        };
        let reason = if reason == "length" {
            "MAX_TOKENS"
        } else {
            "STOP"
        };
        out + &chunk(
            json!({"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, "index": 0}),
        )
    }

    fn ollama(&self) -> String {
        let line = |mut members: Value| {
            members["model"] = "m".into();
            members["created_at"] = "2026-01-01T00:00:00Z".into();
            format!("{members}\n")
        };
        let message = |text: &str| json!({"role": "assistant", "content": text});
        let part = |part: &&str| line(json!({"message": message(part), "done": false}));
        let out: String = self.parts.iter().map(part).collect();
        let Some(reason) = self.reason else {
            return out;
        };
        out + &line(
            json!({"message": message(""), "done": true, "done_reason": reason, "eval_count": 9, "prompt_eval_count": 5}),
        )
    }

    fn cohere(&self) -> String {
        let mut out = named(
            &json!({"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant", "content": []}}}),
        );
        let kind = if self.is_call() {
            "tool-call"
        } else {
            "content"
        };
        let of = |value: Value| match self.is_call() {
            true => json!({"message": {"tool_calls": value}}),
            false => json!({"message": {"content": value}}),
        };
        let start = match self.is_call() {
            true => {
                json!({"id": "save_1", "type": "function", "function": {"name": "save", "arguments": ""}})
            }
            false => json!({"type": "text", "text": ""}),
        };
        out += &named(&json!({"type": format!("{kind}-start"), "index": 0, "delta": of(start)}));
        for part in &self.parts {
            let delta = match self.is_call() {
                true => json!({"function": {"arguments": part}}),
                false => json!({"text": part}),
            };
            out +=
                &named(&json!({"type": format!("{kind}-delta"), "index": 0, "delta": of(delta)}));
        }
        let Some(reason) = self.reason else {
            return out;
        };
        let reason = match reason {
            "length" => "MAX_TOKENS",
            "tool_calls" => "TOOL_CALL",
            _ => "COMPLETE",
        };
        out + &named(&json!({"type": format!("{kind}-end"), "index": 0}))
            + &named(
                &json!({"type": "message-end", "delta": {"finish_reason": reason,
                "usage": {"tokens": {"input_tokens": 5, "output_tokens": 9}}}}),
            )
    }
}

/// Returns an answer that is not streamed. `reason`: why it ends, in the words of Chat Completions.
pub fn whole_body(dialect: Dialect, kind: SlotKind, text: &str, reason: &str) -> Value {
    let is_call = kind == SlotKind::Arguments;
    let word = |length: &'static str, calls: &'static str, stop: &'static str| match reason {
        "length" => length,
        "tool_calls" => calls,
        _ => stop,
    };
    let call = json!([{"id": "call_1", "type": "function", "function": {"name": "save", "arguments": text}}]);
    match dialect {
        Dialect::Chat => {
            let message = match is_call {
                true => json!({"role": "assistant", "content": null, "tool_calls": call}),
                false => json!({"role": "assistant", "content": text}),
            };
            json!({"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        }
        Dialect::Completions => {
            json!({"id": "a", "choices": [{"index": 0, "text": text, "finish_reason": reason}]})
        }
        Dialect::Responses => {
            let status = word("incomplete", "completed", "completed");
            let details = if status == "incomplete" {
                json!({"reason": "max_output_tokens"})
            } else {
                Value::Null
            };
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            let item = match is_call {
                true => {
                    json!({"type": "function_call", "call_id": "call_1", "name": "save", "status": status, "arguments": text})
                }
                false => {
                    json!({"type": "message", "role": "assistant", "status": status, "content": [part]})
                }
            };
            json!({"id": "r", "status": status, "error": null, "incomplete_details": details, "output": [item]})
        }
        Dialect::Messages => json!({"type": "message", "role": "assistant", "stop_sequence": null,
            "stop_reason": word("max_tokens", "tool_use", "end_turn"), "content": [{"type": "text", "text": text}]}),
        Dialect::Gemini => {
            json!({"candidates": [{"index": 0, "finishReason": word("MAX_TOKENS", "STOP", "STOP"),
            "content": {"parts": [{"text": text}], "role": "model"}}]})
        }
        Dialect::Ollama => {
            json!({"done": true, "done_reason": reason, "message": {"role": "assistant", "content": text}})
        }
        Dialect::Cohere => {
            let message = match is_call {
                true => json!({"role": "assistant", "tool_calls": call}),
                false => json!({"role": "assistant", "content": [{"type": "text", "text": text}]}),
            };
            json!({"id": "c", "finish_reason": word("MAX_TOKENS", "TOOL_CALL", "COMPLETE"), "message": message})
        }
        other => panic!("{other}"),
    }
}

fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn named(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data["type"].as_str().unwrap()
    )
}
