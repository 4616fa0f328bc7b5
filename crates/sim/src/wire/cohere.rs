//! Cohere's Chat, version 2.

use serde_json::{Value, json};

use super::text::{self, data, quoted};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire};

#[derive(Debug)]
pub(super) struct Cohere;

impl Wire for Cohere {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with("/v2/chat")
    }

    fn turns(&self, body: &Value, _document: &str) -> Option<Turns> {
        text::messages(body).map(Turns::from)
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        match moment {
            Moment::Start => out.push(text::event(
                "message-start",
                &format!(
                    r#"{{"id":"{}","type":"message-start","delta":{{"message":{{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}}}}"#,
                    id(message),
                ),
            )),
            Moment::Open(at) => match CohereSlot::new(message, at) {
                Some(CohereSlot::Content(index, kind)) => {
                    let content = format!(r#""content":{{"type":"{kind}","{kind}":""}}"#);
                    out.push(event("content-start", Some(index), &content));
                }
                Some(CohereSlot::Call(index, tool)) => {
                    let call = format!(r#""tool_calls":{}"#, call(message, index, tool, ""));
                    out.push(event("tool-call-start", Some(index), &call));
                }
                Some(CohereSlot::Plan) | None => {}
            },
            Moment::Delta { part, text, .. } => {
                let text = quoted(text);
                out.extend(CohereSlot::new(message, part).map(|slot| match slot {
                    CohereSlot::Plan => event("tool-plan-delta", None, &format!(r#""tool_plan":{text}"#)),
                    CohereSlot::Content(index, kind) => {
                        event("content-delta", Some(index), &format!(r#""content":{{"{kind}":{text}}}"#))
                    }
                    CohereSlot::Call(index, _) => {
                        let arguments = format!(r#""tool_calls":{{"function":{{"arguments":{text}}}}}"#);
                        event("tool-call-delta", Some(index), &arguments)
                    }
                }));
            }
            Moment::Close(at) => match CohereSlot::new(message, at) {
                Some(CohereSlot::Content(index, _)) => out.push(event("content-end", Some(index), "")),
                Some(CohereSlot::Call(index, _)) => out.push(event("tool-call-end", Some(index), "")),
                Some(CohereSlot::Plan) | None => {}
            },
            Moment::Finish => {
                let delta = format!(r#"{{"finish_reason":{},"usage":{}}}"#, reason(message.finish), usage(message));
                out.push(end(&delta));
                out.push(data("[DONE]"));
            }
            Moment::Done => out.push(data("[DONE]")),
            Moment::Error => {
                let error = quoted(Problem::UPSTREAM.message);
                out.push(end(&format!(r#"{{"error":{error},"finish_reason":"ERROR"}}"#)));
            }
        }
    }

    fn body(&self, message: &Message) -> String {
        let (mut plan, mut content, mut calls) = (String::new(), Vec::new(), Vec::new());
        for (at, part) in message.parts.iter().enumerate() {
            let text = quoted(part.text());
            match CohereSlot::new(message, at) {
                Some(CohereSlot::Plan) => plan = format!(r#","tool_plan":{text}"#),
                Some(CohereSlot::Content(_, kind)) => {
                    content.push(format!(r#"{{"type":"{kind}","{kind}":{text}}}"#));
                }
                Some(CohereSlot::Call(index, tool)) => {
                    calls.push(call(message, index, tool, part.text()));
                }
                None => {}
            }
        }
        let mut members = plan;
        for (name, list) in [("tool_calls", calls), ("content", content)] {
            if !list.is_empty() {
                members.push_str(&format!(r#","{name}":[{}]"#, list.join(",")));
            }
        }
        format!(
            r#"{{"id":"{}","message":{{"role":"assistant"{members}}},"finish_reason":{},"usage":{}}}"#,
            id(message),
            reason(message.finish),
            usage(message),
        )
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        json!({"message": problem.message}).to_string()
    }
}

/// Where a part is: content and calls are counted apart.
enum CohereSlot<'a> {
    /// The text before calls.
    Plan,
    /// An index, and the type of the content.
    Content(usize, &'static str),
    /// An index, and the tool.
    Call(usize, &'a str),
}

impl<'a> CohereSlot<'a> {
    fn new(message: &'a Message, at: usize) -> Option<Self> {
        let has_calls = message.parts.iter().any(Part::is_call);
        // The one text beside calls is the plan.
        let index = message
            .parts
            .iter()
            .take(at)
            .filter(|part| !part.is_call())
            .count();
        Some(match message.parts.get(at)? {
            Part::Reasoning(_) => Self::Content(index, "thinking"),
            Part::Text(_) if has_calls => Self::Plan,
            Part::Text(_) => Self::Content(index, "text"),
            Part::Call { tool, .. } => Self::Call(message.call_index(at), tool),
        })
    }
}

/// Returns an event; `members` are those of its message, if it has any.
fn event(kind: &str, index: Option<usize>, members: &str) -> String {
    let index = index.map_or(String::new(), |index| format!(r#","index":{index}"#));
    let delta = if members.is_empty() {
        String::new()
    } else {
        format!(r#","delta":{{"message":{{{members}}}}}"#)
    };
    text::event(kind, &format!(r#"{{"type":"{kind}"{index}{delta}}}"#))
}

fn end(delta: &str) -> String {
    text::event(
        "message-end",
        &format!(r#"{{"type":"message-end","delta":{delta}}}"#),
    )
}

fn call(message: &Message, index: usize, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"id":"call_sim_{}_{index}","type":"function","function":{{"name":{},"arguments":{}}}}}"#,
        message.number,
        quoted(tool),
        quoted(arguments),
    )
}

fn id(message: &Message) -> String {
    format!("00000000-0000-4000-8000-{:012}", message.number)
}

fn usage(message: &Message) -> Value {
    let tokens = json!({"input_tokens": message.prompt_tokens, "output_tokens": message.completion_tokens()});
    json!({"billed_units": tokens, "tokens": tokens})
}

fn reason(finish: Option<Finish>) -> Value {
    Value::from(finish.map(|finish| match finish {
        Finish::Length => "MAX_TOKENS",
        Finish::Stop => "COMPLETE",
        Finish::Filter => "ERROR",
        Finish::Tool => "TOOL_CALL",
    }))
}
