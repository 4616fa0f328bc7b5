//! OpenAI's legacy Completions API, which vLLM, llama.cpp and others speak, too.
//!
//! A request has a prompt instead of messages, and the model continues it. So the request for the
//! rest is the prompt with the delivered text after it. A stream has one JSON object per event,
//! then `data: [DONE]`.

mod allowed;
mod reader;
mod request;
mod writer;

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::provider::SlotId;
use crate::provider::fields;
use crate::provider::request::body_text;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotKind, SlotText,
    Wire,
};
use reader::CompletionsReader;
use writer::CompletionsWriter;

#[derive(Debug)]
pub(crate) struct Completions;

impl Wire for Completions {
    fn takes_path(&self, path: &str) -> bool {
        // `/beta`: DeepSeek; a deployment: Azure. Other paths with this ending belong to other APIs
        // (`/fim/completions`).
        let Some(before) = path.strip_suffix("/completions") else {
            return false;
        };
        let deployment = before.rsplit_once("/deployments/").map(|(_, name)| name);
        ["/v1", "/beta"].iter().any(|base| before.ends_with(base))
            || deployment.is_some_and(|name| !name.contains('/'))
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        if fields::text(root.member("object"))
            .unwrap_or_default()
            .starts_with("text_completion")
        {
            return Some(true);
        }
        match root.member("choices") {
            // Chat Completions have a `delta` or a `message` in each choice. Any server may open
            // with an empty list.
            Some(choices) => choices
                .elements()
                .next()
                .map(|choice| choice.member("text").is_some()),
            None if root.member("type").is_some() => Some(false),
            None if root.member("error").is_some() || root.member("usage").is_some() => None,
            None => Some(false),
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(CompletionsReader::default())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(CompletionsWriter::default())
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        let root = fields::object(first_body)?;
        let choices: Vec<_> = root.member("choices")?.elements().collect();
        let mut edits = Edits::default();
        for (number, reason) in ending.reasons {
            let choice = fields::choice_of(&choices, *number)?;
            let (text, reason) = (text_of(texts, *number).map(quoted), quoted(reason.as_str()));
            let mut set: Vec<_> = text.iter().map(|text| ("text", text.as_str())).collect();
            set.push(("finish_reason", &reason));
            edits.object(choice, &[], &set);
        }
        let mut added = Vec::new();
        added.extend(ending.usage.map(|usage| ("usage", usage)));
        added.extend(ending.report.map(|report| ("restitch", report)));
        edits.object(root, &[], &added);
        Some(edits.apply(first_body))
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        request::parse(body_text(body)?)
    }

    fn version(&self) -> &'static str {
        "/v1"
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

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }

    fn always_continues(&self) -> bool {
        true
    }
}

/// Returns the text of a choice.
fn text_of<'a>(texts: &[SlotText<'a>], choice: u32) -> Option<&'a str> {
    let mut texts = texts.iter().filter(|text| text.slot.kind == SlotKind::Text);
    texts
        .find(|text| text.slot.id.item == choice)
        .map(|text| text.text)
}
