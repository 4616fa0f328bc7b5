//! Ollama's own API: `/api/chat` and `/api/generate`.
//!
//! A stream has one JSON object per line, and the last one has `"done":true`. Arguments of tool
//! calls are objects that arrive whole, so only text is continued.

mod allowed;
mod reader;
mod request;
mod writer;

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::capability::{GrammarForm, SchemaSubset};
use crate::provider::request::body_text;
use crate::provider::translate::PlainMessage;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, Framing, NewRequest, PlainPrompt, Request, Rest, SlotKind,
    SlotText, Wire,
};
use crate::provider::{Finish, fields, translate};
use reader::OllamaReader;
use writer::OllamaWriter;

#[derive(Debug)]
pub(crate) struct Ollama;

impl Wire for Ollama {
    fn takes_path(&self, path: &str) -> bool {
        path.ends_with("/api/chat") || path.ends_with("/api/generate")
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        let is_own = |key: &&str| root.member(key).is_some();
        if root
            .member("done")
            .is_some_and(|done| done.kind() == ValueKind::Bool)
        {
            return Some(["model", "message", "response"].iter().any(is_own));
        }
        // An error is a string here, and in some servers of other APIs.
        if root
            .member("error")
            .is_some_and(|error| error.inner().is_some())
        {
            None
        } else {
            Some(false)
        }
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(OllamaReader::default())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(OllamaWriter::default())
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        let root = fields::object(first_body)?;
        root.member("done")?;
        let text = texts
            .iter()
            .find(|text| text.slot.kind == SlotKind::Text && text.slot.id.item == 0);
        let mut edits = Edits::default();
        let message = put_text(&mut edits, root, text.map(|text| text.text));
        let reason = ending
            .reasons
            .first()
            .map(|(_, reason)| quoted(word(reason)));
        let mut set: Vec<_> = message
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        set.extend(reason.iter().map(|reason| ("done_reason", reason.as_str())));
        set.extend(
            ending
                .usage
                .map(Raw::root)
                .into_iter()
                .flatten()
                .flat_map(counts),
        );
        set.extend(ending.report.map(|report| ("restitch", report)));
        edits.object(root, &[], &set);
        Some(edits.apply(first_body))
    }

    /// The server enforces a schema, whatever the model:
    /// <https://docs.ollama.com/capabilities/structured-outputs>.
    fn usual_grammar(&self) -> GrammarForm {
        GrammarForm::JsonSchema(SchemaSubset::Full)
    }

    fn takes_grammar(&self, form: GrammarForm) -> bool {
        form.is_schema()
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        request::parse(body_text(body)?)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        let (_, messages) = fields::object_with(body, "messages")?;
        translate::messages_of(messages)
    }

    fn path_like(&self, path: &str, _model: &str) -> Option<String> {
        path.ends_with("/api/generate")
            .then(|| "/api/generate".to_owned())
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

    fn has_argument_text(&self) -> bool {
        false
    }

    fn error_body(&self, message: &str, code: &str, report: &str) -> String {
        let (message, code) = (quoted(message), quoted(code));
        format!(r#"{{"error":{message},"code":{code},"restitch":{report}}}"#)
    }

    fn own_error_body(&self, _status: u16, code: &str, message: &str) -> String {
        format!(r#"{{"error":{},"code":{}}}"#, quoted(message), quoted(code))
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }
}

/// Replaces the text of an object. Returns the member of the root that must be set for it, if there
/// is one.
fn put_text(
    edits: &mut Edits,
    root: Raw<'_>,
    text: Option<&str>,
) -> Option<(&'static str, String)> {
    let quoted = quoted(text?);
    match fields::object_of(root, "message") {
        Some(message) => {
            edits.object(message, &[], &[("content", &quoted)]);
            None
        }
        None => Some(("response", quoted)),
    }
}

/// Returns the counts of tokens in an object: the usage.
fn counts(object: Raw<'_>) -> impl Iterator<Item = (&'static str, &str)> {
    COUNTS.into_iter().filter_map(move |key| {
        let count = object
            .member(key)
            .filter(|count| count.kind() == ValueKind::Number)?;
        Some((key, count.as_str()))
    })
}

/// Returns the API's word for the end of an answer. An answer that calls tools ends like any other.
fn word(reason: &Finish) -> &str {
    match reason {
        Finish::ToolCalls | Finish::FunctionCall => "stop",
        reason => reason.as_str(),
    }
}

/// The members that are the usage.
const COUNTS: [&str; 2] = ["prompt_eval_count", "eval_count"];
