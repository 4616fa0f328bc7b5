//! Google's Gemini API: `generateContent` and `streamGenerateContent`, of AI Studio and of Vertex
//! AI.
//!
//! Each event of a stream is a whole response object with more parts; without `alt=sse` a stream is
//! one array of them. The model's name and whether the answer is streamed are in the path.
//! Arguments of function calls are objects that arrive whole, so only text is continued. Requests
//! are protocol buffers in JSON: their members may be in camel case or in snake case.

mod allowed;
mod body;
mod reader;
mod request;
mod writer;

use crate::json::string::quoted;
use crate::provider::capability::GrammarForm;
use crate::provider::request::body_text;
use crate::provider::translate::PlainMessage;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotText, Wire,
};
use crate::provider::{Delta, Finish, SlotId, fields};
use reader::GeminiReader;
use writer::GeminiWriter;

#[derive(Debug)]
pub(crate) struct Gemini;

impl Wire for Gemini {
    fn takes_path(&self, path: &str) -> bool {
        request::method(path).is_some()
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        let is_own = |key: &&str| root.member(key).is_some();
        if ["candidates", "usageMetadata", "promptFeedback"]
            .iter()
            .any(is_own)
        {
            return Some(true);
        }
        // Errors look alike in several APIs.
        if root.member("error").is_some() {
            None
        } else {
            Some(false)
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(GeminiReader::default())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(GeminiWriter::default())
    }

    fn array_writer(&self) -> Option<Box<dyn wire::Writer>> {
        Some(Box::new(GeminiWriter::of_array()))
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

    fn token_of_body(&self, body: &str) -> Option<(Finish, String)> {
        body::token(body)
    }

    fn join_bodies(&self, first: &str, next: &str) -> Option<String> {
        body::join(first, next)
    }

    fn takes_grammar(&self, form: GrammarForm) -> bool {
        form.is_schema()
    }

    fn parse(&self, path: &str, body: &[u8]) -> Option<Request> {
        request::parse(path, body_text(body)?)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        request::plain_messages(body)
    }

    fn path_like(&self, path: &str, model: &str) -> Option<String> {
        request::path_like(path, model)
    }

    fn version(&self) -> &'static str {
        "/v1beta"
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

    fn choice_of(&self, slot: SlotId) -> u32 {
        slot.item
    }

    fn has_argument_text(&self) -> bool {
        false
    }

    fn error_body(&self, message: &str, code: &str, report: &str) -> String {
        let (message, code) = (quoted(message), quoted(code));
        let details = format!(
            r#"[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":{code},"domain":"restitch"}}]"#
        );
        let error = format!(
            r#"{{"code":502,"message":{message},"status":"UNAVAILABLE","details":{details}}}"#
        );
        format!(r#"{{"error":{error},"restitch":{report}}}"#)
    }

    fn own_error_body(&self, status: u16, code: &str, message: &str) -> String {
        let word = match status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            400..=499 => "INVALID_ARGUMENT",
            501 => "UNIMPLEMENTED",
            _ => "UNAVAILABLE",
        };
        let (message, code) = (quoted(message), quoted(code));
        let details = format!(
            r#"[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":{code},"domain":"restitch"}}]"#
        );
        format!(
            r#"{{"error":{{"code":{status},"message":{message},"status":"{word}","details":{details}}}}}"#
        )
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }
}

/// The finish reason of an answer that a call with the answer's token continues.
const CONTINUATION: &str = "CONTINUATION";

/// Returns why an answer ended, by the API's word.
fn finish(word: &str) -> Finish {
    match word {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            Finish::ContentFilter
        }
        other => Finish::Other(other.to_owned()),
    }
}

/// Returns the API's word for the end of an answer. An answer that calls functions ends like any
/// other.
fn word(reason: &Finish) -> &str {
    match reason {
        Finish::Stop | Finish::ToolCalls | Finish::FunctionCall => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::ContentFilter => "SAFETY",
        Finish::Other(word) => word,
    }
}
