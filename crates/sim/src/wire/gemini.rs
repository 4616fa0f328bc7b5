//! Google's Gemini: `generateContent`.

use http::StatusCode;
use serde_json::{Value, json};

use super::super::token::Token;
use super::text::{object, quoted, text, turn};
use super::{Finish, Message, Moment, Part, Problem, Turns, Wire};

/// The formats in which Gemini answers; path and query choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gemini {
    /// An event stream: `:streamGenerateContent?alt=sse`.
    Events,
    /// A JSON array that grows: `:streamGenerateContent`.
    Array,
    /// One body: `:generateContent`.
    Body,
}

impl Wire for Gemini {
    fn takes(&self, path: &str, query: &str) -> bool {
        let is_sse = query.split('&').any(|pair| pair == "alt=sse");
        match self {
            Self::Events => path.ends_with(":streamGenerateContent") && is_sse,
            Self::Array => path.ends_with(":streamGenerateContent") && !is_sse,
            Self::Body => path.ends_with(":generateContent"),
        }
    }

    fn turns(&self, body: &Value, _document: &str) -> Option<Turns> {
        let contents = body
            .get("contents")?
            .as_array()
            .filter(|contents| !contents.is_empty())?;
        let role = |content: &Value| match content.get("role").and_then(Value::as_str) {
            Some("model") => "assistant".to_owned(),
            Some(role) => role.to_owned(),
            None => "user".to_owned(),
        };
        let turns: Vec<Value> = contents
            .iter()
            .map(|content| turn(content, &role(content), text(content.get("parts"))))
            .collect();
        Some(turns.into())
    }

    fn member(&self) -> &'static str {
        "contents"
    }

    fn streams(&self, _body: &Value) -> bool {
        *self != Self::Body
    }

    fn content_type(&self) -> &'static str {
        if *self == Self::Events {
            "text/event-stream"
        } else {
            "application/json"
        }
    }

    fn write(&self, moment: Moment<'_>, message: &Message, out: &mut Vec<String>) {
        match moment {
            Moment::Delta {
                part: at,
                text,
                end,
                is_last,
            } => {
                let finish = message.finish.filter(|_| is_last);
                match message.parts.get(at) {
                    Some(Part::Reasoning(_)) => {
                        self.push(
                            message,
                            &format!(r#"{{"text":{},"thought":true}}"#, quoted(text)),
                            None,
                            None,
                            out,
                        );
                    }
                    Some(Part::Text(_)) => {
                        self.push(
                            message,
                            &format!(r#"{{"text":{}}}"#, quoted(text)),
                            finish,
                            token(message, end, finish),
                            out,
                        );
                    }
                    _ => {}
                }
            }
            Moment::Close(at) => {
                let finish = message.finish.filter(|_| at + 1 == message.parts.len());
                if let Some(call) = call(message, at) {
                    self.push(message, &call, finish, None, out);
                }
            }
            Moment::Finish => {
                if !has_finish(message) {
                    let token = token(message, 0, message.finish);
                    self.push(message, r#"{"text":""}"#, message.finish, token, out);
                }
                self.end(message, out);
            }
            Moment::Done => self.end(message, out),
            Moment::Error if *self == Self::Array => {
                self.frame(message, &self.error(&Problem::UPSTREAM), out);
                self.end(message, out);
            }
            // The error is not in an event.
            Moment::Error => out.push(format!("{}\n", self.error(&Problem::UPSTREAM))),
            Moment::Start | Moment::Open(_) => {}
        }
    }

    fn body(&self, message: &Message) -> String {
        let parts = message
            .parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| match part {
                Part::Reasoning(text) => {
                    Some(format!(r#"{{"text":{},"thought":true}}"#, quoted(text)))
                }
                Part::Text(text) => Some(format!(r#"{{"text":{}}}"#, quoted(text))),
                Part::Call { .. } => call(message, at),
            });
        let length = message.joined(|part| matches!(part, Part::Text(_))).len();
        chunk(
            message,
            &parts.collect::<Vec<_>>().join(","),
            message.finish,
            true,
            token(message, length, message.finish),
        )
    }

    fn error(&self, problem: &Problem<'_>) -> String {
        let status = match problem.status {
            StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
            StatusCode::FORBIDDEN => "PERMISSION_DENIED",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
            StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
            status if status.is_server_error() => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
        let error = json!({"error": {"code": problem.status.as_u16(), "message": problem.message, "status": status}});
        format!("{error:#}")
    }
}

impl Gemini {
    fn push(
        self,
        message: &Message,
        part: &str,
        finish: Option<Finish>,
        token: Option<Token>,
        out: &mut Vec<String>,
    ) {
        self.frame(
            message,
            &chunk(message, part, finish, finish.is_some(), token),
            out,
        );
    }

    /// Writes a chunk: as an event, or as an element of the array.
    fn frame(self, message: &Message, chunk: &str, out: &mut Vec<String>) {
        let is_first = message.sent == 0 && out.is_empty();
        out.push(match self {
            Self::Array if is_first => format!("[{chunk}"),
            Self::Array => format!(",\r\n{chunk}"),
            _ => format!("data: {chunk}\r\n\r\n"),
        });
    }

    /// Writes the end of the array, if it is one.
    fn end(self, message: &Message, out: &mut Vec<String>) {
        if self == Self::Array {
            let is_empty = message.sent == 0 && out.is_empty();
            out.push(if is_empty { "[]" } else { "\r\n]\r\n" }.to_owned());
        }
    }
}

/// Returns whether the last part and the finish share an event.
fn has_finish(message: &Message) -> bool {
    match message.parts.last() {
        Some(Part::Text(text)) => !text.is_empty(),
        Some(Part::Call { .. }) => call(message, message.parts.len() - 1).is_some(),
        _ => false,
    }
}

/// Returns a whole call. After reasoning it is signed.
fn call(message: &Message, at: usize) -> Option<String> {
    let Some(Part::Call {
        tool,
        arguments,
        is_whole,
        ..
    }) = message.parts.get(at)
    else {
        return None;
    };
    let args = object(arguments, *is_whole)?;
    let is_signed = at
        .checked_sub(1)
        .and_then(|before| message.parts.get(before))
        .is_some_and(|part| !part.is_call())
        && matches!(message.parts.first(), Some(Part::Reasoning(_)));
    let signature = if is_signed {
        r#","thoughtSignature":"c2lnbmF0dXJlIG9mIHNpbQ==""#
    } else {
        ""
    };
    Some(format!(
        r#"{{"functionCall":{{"name":{},"args":{args}}}{signature}}}"#,
        quoted(tool)
    ))
}

/// Returns the token of a response that ends after bytes of the text: every second one has a token,
/// and the last one of an answer that can be continued.
fn token(message: &Message, bytes: usize, finish: Option<Finish>) -> Option<Token> {
    let has_token = match finish {
        Some(finish) => finish == Finish::Length,
        None => message.sent % 2 == 1,
    };
    message
        .tokens
        .filter(|_| has_token)
        .and_then(|tokens| tokens.after(bytes))
}

/// Returns a response. The count of tokens is complete in the last one.
fn chunk(
    message: &Message,
    parts: &str,
    finish: Option<Finish>,
    is_last: bool,
    token: Option<Token>,
) -> String {
    let continues = message.tokens.is_some_and(|tokens| !tokens.is_limited) && token.is_some();
    let token = token.map_or(String::new(), |token| {
        format!(r#","continuationToken":"{token}""#)
    });
    let reason = finish.map_or("", |finish| match finish {
        Finish::Length if continues => r#","finishReason":"CONTINUATION""#,
        Finish::Length => r#","finishReason":"MAX_TOKENS""#,
        Finish::Stop | Finish::Tool => r#","finishReason":"STOP""#,
        Finish::Filter => r#","finishReason":"SAFETY""#,
    });
    let prompt = message.prompt_tokens;
    let usage = if is_last {
        let (candidates, total) = (message.completion_tokens(), message.total_tokens());
        format!(
            r#""promptTokenCount":{prompt},"candidatesTokenCount":{candidates},"totalTokenCount":{total}"#
        )
    } else {
        format!(r#""promptTokenCount":{prompt},"totalTokenCount":{prompt}"#)
    };
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{reason}{token},"index":0}}],"usageMetadata":{{{usage}}},"modelVersion":{},"responseId":"sim-{}"}}"#,
        quoted(&message.model),
        message.number,
    )
}
