//! Cohere's Chat API, version 2.
//!
//! A stream has events with a `type`: contents and tool calls begin, grow and end, each with an
//! index. Contents and tool calls are counted separately, so a text and a tool call may have the
//! same [`SlotId`](crate::provider::SlotId); the kind of the slot distinguishes them. The live API
//! ends with `data: [DONE]`.

mod allowed;
mod body;
mod reader;
mod request;
mod writer;

use crate::json::string::quoted;
use crate::provider::request::body_text;
use crate::provider::translate::PlainMessage;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotText, Wire,
};
use crate::provider::{Delta, Finish, fields, translate};
use reader::CohereReader;
use writer::CohereWriter;

#[derive(Debug)]
pub(crate) struct Cohere;

impl Wire for Cohere {
    fn takes_path(&self, path: &str) -> bool {
        path.ends_with("/v2/chat")
    }

    fn recognizes(&self, event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        let written = fields::text(root.member("type"));
        if TYPES.contains(&written.as_deref().unwrap_or(event_type)) {
            return Some(true);
        }
        // A whole answer has no type. Other APIs with a `message` and a reason call both
        // differently.
        let message = fields::object_of(root, "message");
        Some(
            message.is_some_and(|message| message.member("role").is_some())
                && root.member(FINISH).is_some(),
        )
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(CohereReader::default())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(CohereWriter::default())
    }

    fn read_body(&self, body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
        body::read(body, on)
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        body::write(first_body, texts, ending)
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        request::parse(body_text(body)?)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        let (_, messages) = fields::object_with(body, "messages")?;
        translate::messages_of(messages)
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

    fn error_body(&self, message: &str, code: &str, report: &str) -> String {
        let (message, code) = (quoted(message), quoted(code));
        format!(r#"{{"message":{message},"code":{code},"restitch":{report}}}"#)
    }

    fn own_error_body(&self, _status: u16, code: &str, message: &str) -> String {
        format!(
            r#"{{"message":{},"code":{}}}"#,
            quoted(message),
            quoted(code)
        )
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }
}

/// Returns why an answer ended, by the API's word.
fn finish(word: &str) -> Finish {
    match word {
        "COMPLETE" | "STOP_SEQUENCE" => Finish::Stop,
        // The second is the limit of the model's context.
        "MAX_TOKENS" | "ERROR_LIMIT" => Finish::Length,
        "TOOL_CALL" => Finish::ToolCalls,
        "ERROR_TOXIC" => Finish::ContentFilter,
        other => Finish::Other(other.to_owned()),
    }
}

/// Returns the API's word for the end of an answer.
fn word(reason: &Finish) -> &str {
    match reason {
        Finish::Stop => "COMPLETE",
        Finish::Length => "MAX_TOKENS",
        Finish::ToolCalls | Finish::FunctionCall => "TOOL_CALL",
        Finish::ContentFilter => "ERROR_TOXIC",
        Finish::Other(word) => word,
    }
}

const FINISH: &str = "finish_reason";

/// The types of the API's events. Those of other APIs have no hyphens.
const TYPES: [&str; 11] = [
    "message-start",
    "content-start",
    "content-delta",
    "content-end",
    "tool-plan-delta",
    "tool-call-start",
    "tool-call-delta",
    "tool-call-end",
    "citation-start",
    "citation-end",
    "message-end",
];
