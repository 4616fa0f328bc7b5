//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::text::{data, quoted};
use super::{Message, Moment, Part, Problem, Turns, Wire};

#[derive(Debug)]
pub(in super::super) struct Chat;

impl Wire for Chat {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with("/chat/completions")
    }

    fn turns(&self, body: &Value, _document: &str) -> Option<Turns> {
        let messages = body
            .get("messages")?
            .as_array()
            .filter(|messages| !messages.is_empty())?;
        Some(messages.clone().into())
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        let mut event = |delta: &str, finish| out.push(event(message, delta, finish));
        match moment {
            Moment::Start if message.parts.first().is_some_and(Part::is_call) => {
                event(r#"{"role":"assistant","content":null}"#, None);
            }
            Moment::Start => event(r#"{"role":"assistant","content":""}"#, None),
            Moment::Open(part) => {
                if let Some(own @ Part::Call { .. }) = message.parts.get(part) {
                    let call = call(message, part, own, "", true);
                    event(&format!(r#"{{"tool_calls":[{call}]}}"#), None);
                }
            }
            Moment::Delta { part, text, .. } => {
                let text = quoted(text);
                let delta = match message.parts.get(part) {
                    Some(Part::Reasoning(_)) => format!(r#"{{"reasoning_content":{text}}}"#),
                    Some(Part::Call { is_custom, .. }) => {
                        let (kind, member) = kind_of_call(*is_custom);
                        let index = message.call_index(part);
                        format!(
                            r#"{{"tool_calls":[{{"index":{index},"{kind}":{{"{member}":{text}}}}}]}}"#
                        )
                    }
                    _ => format!(r#"{{"content":{text}}}"#),
                };
                event(&delta, None);
            }
            Moment::Close(_) => {}
            Moment::Finish => {
                event("{}", message.finish.map(super::Finish::as_str));
                if message.include_usage {
                    let open = open(message, "chat.completion.chunk");
                    out.push(data(&format!(
                        r#"{open}"choices":[],"usage":{}}}"#,
                        usage(message)
                    )));
                }
                out.push(data("[DONE]"));
            }
            Moment::Done => out.push(data("[DONE]")),
            Moment::Error => out.push(data(&self.error(&Problem::UPSTREAM))),
        }
    }

    fn body(&self, message: &Message) -> String {
        let reasoning = message.joined(|part| matches!(part, Part::Reasoning(_)));
        let call = |(at, part): (usize, &Part)| match part {
            Part::Call { arguments, .. } => Some(call(message, at, part, arguments, false)),
            _ => None,
        };
        let calls: Vec<String> = message.parts.iter().enumerate().filter_map(call).collect();
        let text = message.joined(|part| matches!(part, Part::Text(_)));
        let content = if text.is_empty() && !calls.is_empty() {
            "null".to_owned()
        } else {
            quoted(&text)
        };
        let mut more = String::new();
        if !reasoning.is_empty() {
            more = format!(r#","reasoning_content":{}"#, quoted(&reasoning));
        }
        if !calls.is_empty() {
            more.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
        }
        format!(
            "{}\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{content},\"refusal\":null\
             {more}}},\"logprobs\":null,\"finish_reason\":{}}}],\"usage\":{}}}",
            open(message, "chat.completion"),
            Value::from(message.finish.map(super::Finish::as_str)),
            usage(message),
        )
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        error(problem)
    }
}

/// Returns the body of an error, as OpenAI writes it.
pub(super) fn error(problem: &Problem<'_>) -> String {
    let Problem {
        kind,
        code,
        message,
        ..
    } = problem;
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

/// Returns the usage, as OpenAI writes it.
pub(super) fn usage(message: &Message) -> Value {
    json!({
        "prompt_tokens": message.prompt_tokens,
        "completion_tokens": message.completion_tokens(),
        "total_tokens": message.total_tokens(),
    })
}

/// Returns the members before `choices`, in the provider's order.
fn open(message: &Message, object: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-sim-{}","object":"{object}","created":{},"model":{},"system_fingerprint":"fp_sim","#,
        message.number,
        message.created(),
        quoted(&message.model),
    )
}

fn event(message: &Message, delta: &str, finish: Option<&str>) -> String {
    let usage = if message.include_usage {
        r#","usage":null"#
    } else {
        ""
    };
    data(&format!(
        "{}\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{}}}]{usage}}}",
        open(message, "chat.completion.chunk"),
        Value::from(finish),
    ))
}

/// Returns a call. Only those in a stream have an index.
fn call(message: &Message, at: usize, part: &Part, arguments: &str, has_index: bool) -> String {
    let index = message.call_index(at);
    let (tool, is_custom) = match part {
        Part::Call {
            tool, is_custom, ..
        } => (tool.as_str(), *is_custom),
        _ => ("", false),
    };
    let (kind, member) = kind_of_call(is_custom);
    format!(
        r#"{{{}"id":"call_sim_{}_{index}","type":"{kind}","{kind}":{{"name":{},"{member}":{}}}}}"#,
        if has_index {
            format!(r#""index":{index},"#)
        } else {
            String::new()
        },
        message.number,
        quoted(tool),
        quoted(arguments),
    )
}

/// Returns the type of a call, and the member with its text.
fn kind_of_call(is_custom: bool) -> (&'static str, &'static str) {
    if is_custom {
        ("custom", "input")
    } else {
        ("function", "arguments")
    }
}
