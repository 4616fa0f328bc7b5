//! The APIs, as tables of their differences. Their readers are written for these tests.

use serde_json::{Value, json};

use super::readers::{
    anthropic, chat, cohere, completions, gemini, lines, ollama, response, responses,
};

/// The content of a stream or a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The name and the arguments of each call.
    pub(super) calls: Vec<(String, String)>,
    pub(super) finish: Option<String>,
    /// The last event of a stream came.
    pub(super) is_ended: bool,
    pub(super) has_error: bool,
}

impl Seen {
    pub(super) fn add_call(&mut self, name: &Value) {
        self.calls
            .push((name.as_str().unwrap().to_owned(), String::new()));
    }

    pub(super) fn add_arguments(&mut self, text: &Value) {
        self.calls
            .last_mut()
            .unwrap()
            .1
            .push_str(text.as_str().unwrap());
    }

    pub(super) fn finish(&mut self, finish: &Value) {
        if let Some(finish) = finish.as_str() {
            self.finish = Some(finish.to_owned());
        }
    }
}

/// How arguments come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// As text, in pieces.
    Text,
    /// As an object, when they are whole.
    Object,
    /// There are no tools.
    None,
}

pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) stream_path: &'static str,
    pub(super) body_path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) arguments: Arguments,
    /// The declaration of two tools, `save` and `other`.
    pub(super) tools: &'static str,
    /// The finish of an answer that was cut, that is whole, and that calls a tool.
    pub(super) finishes: [&'static str; 3],
    /// Makes a request of roles and texts.
    pub(super) request: fn(&[(&str, &str)]) -> Value,
    pub(super) read: fn(&str) -> Seen,
    pub(super) whole: fn(&Value) -> Seen,
}

pub(super) const ALL: &[Family] = &[
    Family {
        name: "chat",
        stream_path: "/openai/deployments/d/chat/completions?api-version=1",
        body_path: "/v1/chat/completions",
        content_type: "text/event-stream",
        arguments: Arguments::Text,
        tools: NESTED,
        finishes: ["length", "stop", "tool_calls"],
        request: messages,
        read: chat,
        whole: |body| {
            let choice = &body["choices"][0];
            let message = &choice["message"];
            let mut seen = Seen {
                text: content(&message["content"]),
                ..Seen::default()
            };
            seen.reasoning = content(&message["reasoning_content"]);
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                seen.add_call(&call["function"]["name"]);
                seen.add_arguments(&call["function"]["arguments"]);
            }
            seen.finish(&choice["finish_reason"]);
            seen
        },
    },
    Family {
        name: "completions",
        stream_path: "/v1/completions",
        body_path: "/v1/completions",
        content_type: "text/event-stream",
        arguments: Arguments::None,
        tools: NESTED,
        finishes: ["length", "stop", "stop"],
        request: prompt,
        read: completions,
        whole: |body| {
            assert_eq!(body["object"], "text_completion");
            let mut seen = Seen {
                text: content(&body["choices"][0]["text"]),
                ..Seen::default()
            };
            seen.finish(&body["choices"][0]["finish_reason"]);
            seen
        },
    },
    Family {
        name: "responses",
        stream_path: "/v1/responses",
        body_path: "/openai/responses?api-version=1",
        content_type: "text/event-stream",
        arguments: Arguments::Text,
        tools: FLAT,
        finishes: ["max_output_tokens", "completed", "completed"],
        request: |turns| json!({"model": "m", "input": list(turns, "assistant", "content")}),
        read: responses,
        whole: response,
    },
    Family {
        name: "messages",
        stream_path: "/v1/messages",
        body_path: "/v1/messages",
        content_type: "text/event-stream",
        arguments: Arguments::Text,
        tools: FLAT,
        finishes: ["max_tokens", "end_turn", "tool_use"],
        request: messages,
        read: anthropic,
        whole: |body| {
            let mut seen = Seen::default();
            for block in body["content"].as_array().unwrap() {
                match block["type"].as_str().unwrap() {
                    "text" => seen.text.push_str(block["text"].as_str().unwrap()),
                    "tool_use" => seen
                        .calls
                        .push((content(&block["name"]), block["input"].to_string())),
                    other => panic!("{other}"),
                }
            }
            seen.finish(&body["stop_reason"]);
            seen
        },
    },
    Family {
        name: "gemini",
        stream_path: "/v1beta/models/m:streamGenerateContent?alt=sse&key=secret",
        body_path: "/v1beta/models/m:generateContent",
        content_type: "text/event-stream",
        arguments: Arguments::Object,
        tools: DECLARATIONS,
        finishes: ["MAX_TOKENS", "STOP", "STOP"],
        request: contents,
        read: |body| {
            let mut seen = Seen::default();
            for event in body.split_terminator("\r\n\r\n") {
                match event.strip_prefix("data: ") {
                    Some(data) => gemini(&serde_json::from_str(data).unwrap(), &mut seen),
                    None => gemini(&serde_json::from_str(event).unwrap(), &mut seen),
                }
            }
            seen.is_ended = seen.finish.is_some();
            seen
        },
        whole: |body| alone(gemini, body),
    },
    Family {
        name: "gemini-array",
        stream_path: "/v1beta/models/m:streamGenerateContent",
        body_path: "/v1beta/models/m:generateContent",
        content_type: "application/json",
        arguments: Arguments::Object,
        tools: DECLARATIONS,
        finishes: ["MAX_TOKENS", "STOP", "STOP"],
        request: contents,
        read: |body| {
            let mut seen = Seen::default();
            let is_whole = body.ends_with("]\r\n");
            let all = if is_whole || body.is_empty() {
                body.to_owned()
            } else {
                format!("{body}]")
            };
            for chunk in
                serde_json::from_str::<Vec<Value>>(if all.is_empty() { "[]" } else { &all })
                    .unwrap()
            {
                gemini(&chunk, &mut seen);
            }
            seen.is_ended = is_whole && !seen.has_error;
            seen
        },
        whole: |body| alone(gemini, body),
    },
    Family {
        name: "ollama",
        stream_path: "/api/chat",
        body_path: "/api/chat",
        content_type: "application/x-ndjson",
        arguments: Arguments::Object,
        tools: NESTED,
        finishes: ["length", "stop", "stop"],
        request: messages,
        read: lines,
        whole: |body| alone(ollama, body),
    },
    Family {
        name: "ollama-generate",
        stream_path: "/api/generate",
        body_path: "/api/generate",
        content_type: "application/x-ndjson",
        arguments: Arguments::None,
        tools: NESTED,
        finishes: ["length", "stop", "stop"],
        request: prompt,
        read: lines,
        whole: |body| alone(ollama, body),
    },
    Family {
        name: "cohere",
        stream_path: "/v2/chat",
        body_path: "/v2/chat",
        content_type: "text/event-stream",
        arguments: Arguments::Text,
        tools: NESTED,
        finishes: ["MAX_TOKENS", "COMPLETE", "TOOL_CALL"],
        request: messages,
        read: cohere,
        whole: |body| {
            let mut seen = Seen::default();
            for part in body["message"]["content"].as_array().into_iter().flatten() {
                seen.text.push_str(&content(&part["text"]));
            }
            for call in body["message"]["tool_calls"]
                .as_array()
                .into_iter()
                .flatten()
            {
                seen.add_call(&call["function"]["name"]);
                seen.add_arguments(&call["function"]["arguments"]);
            }
            seen.finish(&body["finish_reason"]);
            seen
        },
    },
];

/// Reads a body that is like one event of a stream.
fn alone(read: fn(&Value, &mut Seen), body: &Value) -> Seen {
    let mut seen = Seen::default();
    read(body, &mut seen);
    seen
}

const NESTED: &str = r#"[{"type":"function","function":{"name":"save"}},{"type":"function","function":{"name":"other"}}]"#;
const FLAT: &str = r#"[{"type":"function","name":"save"},{"type":"function","name":"other"}]"#;
const DECLARATIONS: &str = r#"[{"functionDeclarations":[{"name":"save"},{"name":"other"}]}]"#;

fn list(turns: &[(&str, &str)], assistant: &str, member: &str) -> Value {
    let part = |text: &str| {
        if member == "parts" {
            json!([{"text": text}])
        } else {
            text.into()
        }
    };
    let turn = |(role, text): &(&str, &str)| {
        let role = if *role == "assistant" {
            assistant
        } else {
            role
        };
        json!({"role": role, member: part(text)})
    };
    turns.iter().map(turn).collect()
}

fn messages(turns: &[(&str, &str)]) -> Value {
    json!({"model": "m", "messages": list(turns, "assistant", "content")})
}

fn contents(turns: &[(&str, &str)]) -> Value {
    json!({"contents": list(turns, "model", "parts")})
}

/// A prompt has the text of all turns.
fn prompt(turns: &[(&str, &str)]) -> Value {
    let texts: Vec<&str> = turns.iter().map(|(_, text)| *text).collect();
    json!({"model": "m", "prompt": texts.concat()})
}

pub(super) fn content(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
