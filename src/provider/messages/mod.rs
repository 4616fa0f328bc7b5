//! Anthropic's Messages API.
//!
//! A stream is `message_start`, then content blocks, each with a start, deltas and a stop, then
//! `message_delta` with the reason for the end and the usage, then `message_stop`:
//! <https://docs.anthropic.com/en/api/messages-streaming>. A slot is the index of a content block.

mod allowed;
mod body;
mod reader;
mod request;
mod writer;

use reader::MessagesReader;
use writer::MessagesWriter;

use super::capability::GrammarForm;
use super::fields::{self, object};
use super::translate::{self, PlainMessage};
use super::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotText, Wire,
};
use super::{Delta, Finish};
use crate::json::string::quoted;
use crate::json::walk::ValueKind;

#[derive(Debug)]
pub(crate) struct Messages;

impl Wire for Messages {
    fn takes_path(&self, path: &str) -> bool {
        path.ends_with("/v1/messages")
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let [kind, content] = object(data)?.pick(["type", "content"]);
        match kind.and_then(|kind| kind.decode()).as_deref() {
            Some("message_start" | "message_delta" | "message_stop") => Some(true),
            Some("content_block_start" | "content_block_delta" | "content_block_stop") => {
                Some(true)
            }
            Some("message") => {
                Some(content.is_some_and(|content| content.kind() == ValueKind::Array))
            }
            Some("ping" | "error") => None,
            _ => Some(false),
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::<MessagesReader>::default()
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::<MessagesWriter>::default()
    }

    fn read_body(&self, body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
        body::read_body(body, on)
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        body::write_body(first_body, texts, ending)
    }

    fn takes_grammar(&self, form: GrammarForm) -> bool {
        form.is_schema()
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        request::parse(body)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        let (root, messages) = fields::object_with(body, "messages")?;
        translate::with_system(root.member("system"), translate::messages_of(messages)?)
    }

    fn allowed(&self) -> crate::provider::allowed::Members {
        allowed::REQUEST
    }

    fn new_request(&self, prompt: &PlainPrompt<'_>) -> NewRequest {
        request::new(prompt)
    }

    fn ask(&self, body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
        request::ask(body, rest, changes)
    }

    fn error_body(&self, message: &str, _code: &str, report: &str) -> String {
        let error = format!(r#"{{"type":"api_error","message":{}}}"#, quoted(message));
        format!(r#"{{"type":"error","error":{error},"restitch":{report}}}"#)
    }

    fn own_error_body(&self, status: u16, _code: &str, message: &str) -> String {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":{}}}}}"#,
            quoted(message)
        )
    }

    fn can_stream_arguments(&self) -> bool {
        true
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }
}

/// Returns why an answer ended, by its `stop_reason`.
fn finish(stop_reason: &str) -> Finish {
    match stop_reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::ContentFilter,
        other => Finish::Other(other.to_owned()),
    }
}

/// Returns the `stop_reason` of an answer.
fn stop_reason(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::ToolCalls | Finish::FunctionCall => "tool_use",
        Finish::ContentFilter => "refusal",
        Finish::Other(word) => word,
    }
}

/// Returns whether a content block of this type calls a tool with arguments.
fn is_call(block_type: &str) -> bool {
    matches!(block_type, "tool_use" | "server_tool_use" | "mcp_tool_use")
}
