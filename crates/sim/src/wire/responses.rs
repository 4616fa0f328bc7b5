//! OpenAI's Responses.

use serde_json::{Value, json};

use super::text::{self, event, plain, quoted, turn};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire, chat};

#[derive(Debug)]
pub(super) struct Responses;

impl Wire for Responses {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with("/responses")
    }

    fn turns(&self, body: &Value, _document: &str) -> Option<Turns> {
        let items = match body.get("input")? {
            Value::String(text) => return Some(vec![plain("user", text)].into()),
            input => input.as_array().filter(|items| !items.is_empty())?,
        };
        let role = |item: &Value| {
            item.get("role")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let turns: Vec<Value> = items
            .iter()
            .map(|item| turn(item, &role(item), text::text(item.get("content"))))
            .collect();
        Some(turns.into())
    }

    fn member(&self) -> &'static str {
        "input"
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        let mut out = Out {
            message,
            events: out,
        };
        match moment {
            Moment::Start => {
                let response = response(message, "in_progress", "[]", "null");
                out.push("response.created", &format!(r#""response":{response}"#));
                out.push("response.in_progress", &format!(r#""response":{response}"#));
            }
            Moment::Open(at) => open(at, &mut out),
            Moment::Delta { part, text, .. } => delta(part, text, &mut out),
            Moment::Close(at) => close(at, &mut out),
            Moment::Finish => {
                let name = match status(message) {
                    "incomplete" => "response.incomplete",
                    _ => "response.completed",
                };
                out.push(name, &format!(r#""response":{}"#, self.body(message)));
            }
            Moment::Done => out.events.push(text::data("[DONE]")),
            Moment::Error => {
                let Problem {
                    kind,
                    code,
                    message: words,
                    ..
                } = Problem::UPSTREAM;
                let error = json!({"type": kind, "code": code, "message": words, "param": null});
                out.push("error", &format!(r#""error":{error}"#));
                out.push(
                    "response.failed",
                    &format!(r#""response":{}"#, self.failed(message)),
                );
            }
        }
    }

    fn body(&self, message: &Message) -> String {
        let items: Vec<String> = (0..message.parts.len())
            .filter_map(|at| item(message, at, false))
            .collect();
        let usage = json!({
            "input_tokens": message.prompt_tokens, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": message.completion_tokens(), "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": message.total_tokens(),
        });
        response(
            message,
            status(message),
            &format!("[{}]", items.join(",")),
            &usage.to_string(),
        )
    }

    fn failed(&self, message: &Message) -> String {
        response(message, "failed", "[]", "null")
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        chat::error(problem)
    }
}

/// Writes events with their names and sequence numbers.
struct Out<'a> {
    message: &'a Message,
    events: &'a mut Vec<String>,
}

impl Out<'_> {
    fn push(&mut self, name: &str, members: &str) {
        let number = self.message.sent + self.events.len() as u64;
        let data = format!(r#"{{"type":"{name}","sequence_number":{number},{members}}}"#);
        self.events.push(event(name, &data));
    }
}

fn open(at: usize, out: &mut Out<'_>) {
    let message = out.message;
    let Some(item) = item(message, at, true) else {
        return;
    };
    out.push(
        "response.output_item.added",
        &format!(r#""output_index":{at},"item":{item}"#),
    );
    let place = place(message, at);
    match message.parts.get(at) {
        Some(Part::Text(_)) => {
            out.push(
                "response.content_part.added",
                &format!(r#"{place},"part":{}"#, text_part("")),
            );
        }
        Some(Part::Reasoning(_)) => {
            out.push(
                "response.reasoning_summary_part.added",
                &format!(r#"{place},"part":{}"#, summary_part("")),
            );
        }
        _ => {}
    }
}

fn delta(at: usize, text: &str, out: &mut Out<'_>) {
    let (place, text) = (place(out.message, at), quoted(text));
    let padding = obfuscation(out.message.sent, text.len());
    let (name, more) = match out.message.parts.get(at) {
        Some(Part::Reasoning(_)) => ("response.reasoning_summary_text.delta", ""),
        Some(Part::Call {
            is_custom: true, ..
        }) => ("response.custom_tool_call_input.delta", ""),
        Some(Part::Call { .. }) => ("response.function_call_arguments.delta", ""),
        _ => ("response.output_text.delta", r#","logprobs":[]"#),
    };
    out.push(
        name,
        &format!(r#"{place},"delta":{text}{more},"obfuscation":"{padding}""#),
    );
}

/// A part has its end events whether it is whole or not.
fn close(at: usize, out: &mut Out<'_>) {
    let message = out.message;
    let (Some(part), Some(item)) = (message.parts.get(at), item(message, at, false)) else {
        return;
    };
    let (place, text) = (place(message, at), quoted(part.text()));
    match part {
        Part::Text(all) => {
            out.push(
                "response.output_text.done",
                &format!(r#"{place},"text":{text},"logprobs":[]"#),
            );
            out.push(
                "response.content_part.done",
                &format!(r#"{place},"part":{}"#, text_part(all)),
            );
        }
        Part::Reasoning(all) => {
            out.push(
                "response.reasoning_summary_text.done",
                &format!(r#"{place},"text":{text}"#),
            );
            out.push(
                "response.reasoning_summary_part.done",
                &format!(r#"{place},"part":{}"#, summary_part(all)),
            );
        }
        Part::Call {
            is_custom: true, ..
        } => {
            out.push(
                "response.custom_tool_call_input.done",
                &format!(r#"{place},"input":{text}"#),
            );
        }
        Part::Call { .. } => {
            out.push(
                "response.function_call_arguments.done",
                &format!(r#"{place},"arguments":{text}"#),
            );
        }
    }
    out.push(
        "response.output_item.done",
        &format!(r#""output_index":{at},"item":{item}"#),
    );
}

/// Returns the members for the position of a part.
fn place(message: &Message, at: usize) -> String {
    let inner = match message.parts.get(at) {
        Some(Part::Text(_)) => r#","content_index":0"#,
        Some(Part::Reasoning(_)) => r#","summary_index":0"#,
        _ => "",
    };
    format!(
        r#""item_id":"{}","output_index":{at}{inner}"#,
        id(message, at)
    )
}

fn id(message: &Message, at: usize) -> String {
    let kind = match message.parts.get(at) {
        Some(Part::Text(_)) | None => "msg",
        Some(Part::Reasoning(_)) => "rs",
        Some(Part::Call {
            is_custom: true, ..
        }) => "ctc",
        Some(Part::Call { .. }) => "fc",
    };
    format!("{kind}_sim_{}_{at}", message.number)
}

/// Returns an item: as it begins, or as it ended.
fn item(message: &Message, at: usize, is_start: bool) -> Option<String> {
    let id = id(message, at);
    let is_last = at + 1 == message.parts.len();
    let status = match status(message) {
        _ if is_start => "in_progress",
        "incomplete" if is_last => "incomplete",
        _ => "completed",
    };
    Some(match message.parts.get(at)? {
        Part::Text(text) => {
            let content = if is_start {
                String::new()
            } else {
                text_part(text)
            };
            format!(
                r#"{{"id":"{id}","type":"message","status":"{status}","content":[{content}],"role":"assistant"}}"#
            )
        }
        Part::Reasoning(text) => {
            let summary = if is_start {
                String::new()
            } else {
                summary_part(text)
            };
            format!(r#"{{"id":"{id}","type":"reasoning","summary":[{summary}]}}"#)
        }
        Part::Call {
            tool,
            arguments,
            is_custom: true,
            ..
        } => {
            let input = quoted(if is_start { "" } else { arguments });
            let (call, name) = (format!("call_sim_{}_{at}", message.number), quoted(tool));
            format!(
                r#"{{"id":"{id}","type":"custom_tool_call","status":"{status}","call_id":"{call}","input":{input},"name":{name}}}"#
            )
        }
        Part::Call {
            tool, arguments, ..
        } => {
            let arguments = quoted(if is_start { "" } else { arguments });
            let (call, name) = (format!("call_sim_{}_{at}", message.number), quoted(tool));
            format!(
                r#"{{"id":"{id}","type":"function_call","status":"{status}","arguments":{arguments},"call_id":"{call}","name":{name}}}"#
            )
        }
    })
}

fn text_part(text: &str) -> String {
    format!(
        r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{}}}"#,
        quoted(text)
    )
}

fn summary_part(text: &str) -> String {
    format!(r#"{{"type":"summary_text","text":{}}}"#, quoted(text))
}

/// Returns the status of a response at its end.
fn status(message: &Message) -> &'static str {
    match message.finish {
        Some(Finish::Length | Finish::Filter) => "incomplete",
        Some(Finish::Stop | Finish::Tool) => "completed",
        None => "in_progress",
    }
}

fn response(message: &Message, status: &str, output: &str, usage: &str) -> String {
    let error = match status {
        "failed" => {
            json!({"code": Problem::UPSTREAM.kind, "message": Problem::UPSTREAM.message})
        }
        _ => Value::Null,
    };
    let details = match message.finish {
        Some(Finish::Length) if status == "incomplete" => json!({"reason": "max_output_tokens"}),
        Some(Finish::Filter) if status == "incomplete" => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    format!(
        r#"{{"id":"resp_sim_{}","object":"response","created_at":{},"status":"{status}","background":false,"error":{error},"incomplete_details":{details},"instructions":null,"max_output_tokens":null,"model":{},"output":{output},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
        message.number,
        message.created(),
        quoted(&message.model),
    )
}

/// Returns letters that hide the length of a delta: others in each event.
fn obfuscation(number: u64, length: usize) -> String {
    let letters = b"nRq7cXw2LhT5zKbYmE0aJvP9";
    let at = |step: u64| {
        usize::try_from((number * 7 + step * 5) % letters.len() as u64).unwrap_or_default()
    };
    (0..16 - (length % 16) as u64)
        .filter_map(|step| letters.get(at(step)).map(|byte| char::from(*byte)))
        .collect()
}
