//! What a client reads of the bytes that a relay has sent: a reader of its own, that knows the
//! texts and the ends of each API.

use std::collections::BTreeMap;

use restitch::internal::wire::Dialect;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Everything that has been read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The texts, by their slots. Arguments begin with `call`.
    pub(super) texts: BTreeMap<String, String>,
    /// The events in their order; `Err`: the data is not JSON.
    pub(super) events: Vec<Result<Value, String>>,
}

impl Reading {
    /// Reads all events that are whole.
    pub(super) fn of(dialect: Dialect, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let body = body
            .strip_prefix('\u{feff}')
            .unwrap_or(&body)
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let mut reading = Self::default();
        let end = body.rfind('\n').map_or(0, |end| end + 1);
        if dialect == Dialect::Ollama {
            body[..end]
                .lines()
                .filter(|line| !line.trim().is_empty())
                .for_each(|line| reading.event(dialect, line));
            return reading;
        }
        let mut data: Option<String> = None;
        for line in body[..end].split_terminator('\n') {
            if line.is_empty() {
                data.take()
                    .into_iter()
                    .for_each(|data| reading.event(dialect, &data));
            } else if let Some(value) = line
                .strip_prefix("data:")
                .or((line == "data").then_some(""))
            {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    Some(data) => data.extend(["\n", value]),
                    None => data = Some(value.to_owned()),
                }
            }
        }
        reading
    }

    fn event(&mut self, dialect: Dialect, data: &str) {
        let event = serde_json::from_str::<Value>(data).map_err(|_| data.to_owned());
        if let Ok(event) = &event {
            each_text(dialect, event, |slot, text| {
                self.texts
                    .entry(slot.to_owned())
                    .or_default()
                    .push_str(text.as_str().unwrap_or_default());
            });
        }
        self.events.push(event);
    }

    /// Returns all texts one after the other: one of them, where the answer has one slot.
    pub(super) fn text(&self) -> String {
        self.texts.values().map(String::as_str).collect()
    }

    /// Returns how many events are `[DONE]`.
    pub(super) fn dones(&self) -> usize {
        self.events
            .iter()
            .filter(|event| matches!(event, Err(data) if data == "[DONE]"))
            .count()
    }

    /// Returns how many events say why the answer ended.
    pub(super) fn finishes(&self) -> usize {
        let is_finish = |event: &Value| {
            event["choices"][0]["finish_reason"].is_string()
                || event["candidates"][0]["finishReason"].is_string()
                || event["done"] == true
                || matches!(
                    event["type"].as_str(),
                    Some(
                        "message-end"
                            | "message_stop"
                            | "response.completed"
                            | "response.incomplete"
                    )
                )
        };
        self.events
            .iter()
            .flatten()
            .filter(|event| is_finish(event) && !is_error(event))
            .count()
    }

    /// Returns how many errors there are.
    pub(super) fn errors(&self) -> usize {
        self.events
            .iter()
            .flatten()
            .filter(|event| is_error(event))
            .count()
    }

    /// Returns the names that the chunks give the answer. A chunk without a choice gives it none.
    pub(super) fn names(&self) -> Vec<&str> {
        let is_named = |event: &&Value| {
            event["choices"]
                .as_array()
                .is_none_or(|choices| !choices.is_empty())
        };
        let mut names: Vec<&str> = self
            .events
            .iter()
            .flatten()
            .filter(is_named)
            .filter_map(|event| event["id"].as_str())
            .collect();
        names.dedup();
        names
    }
}

fn is_error(event: &Value) -> bool {
    let is_named = event["type"] == "error" || event["type"] == "response.failed";
    is_named
        || event["error"].is_object()
        || event["error"].is_string()
        || event["delta"]["finish_reason"] == "ERROR"
}

/// Calls `push` for each text of an event, with its slot and its value. A value that is not a
/// string is not a text.
fn each_text(dialect: Dialect, event: &Value, mut push: impl FnMut(&str, &Value)) {
    match dialect {
        Dialect::Chat => {
            let delta = &event["choices"][0]["delta"];
            push("text", &delta["content"]);
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                push(
                    &format!("call {}", call["index"]),
                    &call["function"]["arguments"],
                );
            }
        }
        Dialect::Completions => push("text", &event["choices"][0]["text"]),
        Dialect::Responses => match event["type"].as_str() {
            Some("response.output_text.delta") => push("text", &event["delta"]),
            Some("response.function_call_arguments.delta") => push("call", &event["delta"]),
            _ => {}
        },
        Dialect::Messages => {
            push("text", &event["delta"]["text"]);
            push("call", &event["delta"]["partial_json"]);
        }
        Dialect::Gemini => {
            for part in event["candidates"][0]["content"]["parts"]
                .as_array()
                .into_iter()
                .flatten()
            {
                push("text", &part["text"]);
            }
        }
        Dialect::Ollama => push("text", &event["message"]["content"]),
        Dialect::Cohere => {
            push("text", &event["delta"]["message"]["content"]["text"]);
            push(
                "call",
                &event["delta"]["message"]["tool_calls"]["function"]["arguments"],
            );
        }
        other => panic!("{other}"),
    }
}

/// Returns whether one of the places in a text begins a whole JSON object or array.
pub(super) fn has_document(text: &str) -> bool {
    let places = text
        .char_indices()
        .filter(|(_, char)| matches!(char, '{' | '['))
        .map(|(at, _)| at);
    let mut places = places.map(|at| {
        serde_json::Deserializer::from_str(&text[at..])
            .into_iter::<IgnoredAny>()
            .next()
    });
    places.any(|value| matches!(value, Some(Ok(_))))
}
