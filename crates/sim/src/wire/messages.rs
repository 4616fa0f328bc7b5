//! Anthropic's Messages.

use http::StatusCode;
use serde_json::{Value, json};

use super::text::{self, event, quoted};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire};

#[derive(Debug)]
pub(super) struct Messages;

impl Wire for Messages {
    fn takes(&self, path: &str, _query: &str) -> bool {
        path.ends_with("/v1/messages")
    }

    fn turns(&self, body: &Value, _document: &str) -> Option<Turns> {
        text::messages(body).map(Turns::from)
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        match moment {
            Moment::Start => {
                let start = head(message, "[]", "null", &usage(message, 1));
                out.push(event(
                    "message_start",
                    &format!(r#"{{"type":"message_start","message":{start}}}"#),
                ));
            }
            Moment::Open(at) => {
                let Some(part) = message.parts.get(at) else {
                    return;
                };
                let block = block(message, at, part, true);
                out.push(event(
                    "content_block_start",
                    &format!(
                        r#"{{"type":"content_block_start","index":{at},"content_block":{block}}}"#
                    ),
                ));
                if at == 0 {
                    out.push(event("ping", r#"{"type": "ping"}"#));
                }
                if part.is_call() {
                    // The provider sends an empty one first.
                    out.push(delta(at, part, ""));
                }
            }
            Moment::Delta { part: at, text, .. } => {
                out.extend(message.parts.get(at).map(|part| delta(at, part, text)));
            }
            Moment::Close(at) => {
                if let Some(Part::Reasoning(_)) = message.parts.get(at) {
                    let signature = quoted(&signature(message));
                    out.push(event(
                        "content_block_delta",
                        &format!(
                            r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"signature_delta","signature":{signature}}}}}"#
                        ),
                    ));
                }
                out.push(event(
                    "content_block_stop",
                    &format!(r#"{{"type":"content_block_stop","index":{at}}}"#),
                ));
            }
            Moment::Finish => {
                let reason = stop_reason(message.finish);
                out.push(event(
                    "message_delta",
                    &format!(
                        r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{{"output_tokens":{}}}}}"#,
                        message.completion_tokens(),
                    ),
                ));
                out.push(stop());
            }
            Moment::Done => out.push(stop()),
            Moment::Error => out.push(event("error", &self.error(&Problem::UPSTREAM))),
        }
    }

    fn body(&self, message: &Message) -> String {
        let blocks: Vec<String> = message
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| block(message, at, part, false))
            .collect();
        let content = format!("[{}]", blocks.join(","));
        let usage = usage(message, message.completion_tokens());
        head(message, &content, &stop_reason(message.finish), &usage)
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        let kind = match problem.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.as_u16() == 529 => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": problem.message}}).to_string()
    }
}

/// Returns the message around its content.
fn head(message: &Message, content: &str, reason: &str, usage: &str) -> String {
    format!(
        r#"{{"id":"msg_sim_{}","type":"message","role":"assistant","model":{},"content":{content},"stop_reason":{reason},"stop_sequence":null,"usage":{usage}}}"#,
        message.number,
        quoted(&message.model),
    )
}

/// Returns a block: its start in a stream, or the whole block. Cut arguments become an empty
/// object, because a body can't have incomplete ones.
fn block(message: &Message, at: usize, part: &Part, is_start: bool) -> String {
    let content = |text: &str| if is_start { quoted("") } else { quoted(text) };
    match part {
        Part::Reasoning(reasoning) => {
            let signature = if is_start {
                String::new()
            } else {
                signature(message)
            };
            format!(
                r#"{{"type":"thinking","thinking":{},"signature":{}}}"#,
                content(reasoning),
                quoted(&signature),
            )
        }
        Part::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, content(text)),
        Part::Call {
            tool,
            arguments,
            is_whole,
            ..
        } => {
            let input =
                text::object(arguments, *is_whole && !is_start).unwrap_or_else(|| "{}".to_owned());
            let (number, name) = (message.number, quoted(tool));
            format!(
                r#"{{"type":"tool_use","id":"toolu_sim_{number}_{at}","name":{name},"input":{input}}}"#
            )
        }
    }
}

fn delta(at: usize, part: &Part, text: &str) -> String {
    let (kind, key) = match part {
        Part::Reasoning(_) => ("thinking_delta", "thinking"),
        Part::Text(_) => ("text_delta", "text"),
        Part::Call { .. } => ("input_json_delta", "partial_json"),
    };
    let text = quoted(text);
    event(
        "content_block_delta",
        &format!(
            r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"{kind}","{key}":{text}}}}}"#
        ),
    )
}

fn stop() -> String {
    event("message_stop", r#"{"type":"message_stop"}"#)
}

/// Returns the signature of the reasoning. Only the provider can create one, so a client has to
/// keep it.
fn signature(message: &Message) -> String {
    format!("c2lnbmF0dXJl/sim{:08}", message.number % 100_000_000)
}

fn usage(message: &Message, output: usize) -> String {
    format!(
        r#"{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{output}}}"#,
        message.prompt_tokens,
    )
}

fn stop_reason(finish: Option<Finish>) -> String {
    let reason = finish.map(|finish| match finish {
        Finish::Length => "max_tokens",
        Finish::Stop => "end_turn",
        Finish::Filter => "refusal",
        Finish::Tool => "tool_use",
    });
    Value::from(reason).to_string()
}
