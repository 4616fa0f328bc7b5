//! The row of Chat Completions in the table of wires.

use super::{ask, parse, write_body};
use crate::json::edit::Edits;
use crate::json::string::{escape_into, quoted};
use crate::json::walk::ValueKind;
use crate::provider::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, Slot, SlotKind, SlotText, Wire,
};
use crate::provider::{Delta, Kind, SlotId, fields};
use crate::sse::Encoder;

/// OpenAI's Chat Completions.
#[derive(Debug)]
pub(crate) struct Chat;

impl Wire for Chat {
    fn takes_path(&self, path: &str) -> bool {
        path.ends_with("/chat/completions")
    }

    fn recognizes(&self, _event_type: &str, data: &str) -> Option<bool> {
        let root = fields::object(data)?;
        let object = fields::text(root.member("object")).unwrap_or_default();
        if object.starts_with("chat.completion") {
            return Some(true);
        }
        match root.member("choices") {
            // Text completions have a `text` in each choice. Any server may open or end with an empty list.
            Some(choices) => {
                choices.elements().next().map(|choice| choice.member("delta").or(choice.member("message")).is_some())
            }
            // Errors and usage look alike in several APIs, except for the `type` that others give every event.
            None if root.member("type").is_some() => Some(false),
            None if root.member("error").is_some() || root.member("usage").is_some() => None,
            None => Some(false),
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(super::Reader::new())
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::new(super::Writer::new())
    }

    fn write_body(&self, first_body: &str, texts: &[SlotText<'_>], ending: &Ending<'_>) -> Option<String> {
        write_body(first_body, texts, ending)
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        parse(body)
    }

    fn new_request(&self, prompt: &PlainPrompt<'_>) -> NewRequest {
        super::new_request(prompt)
    }

    fn ask(&self, body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
        ask(body, rest, changes)
    }

    fn choice_of(&self, slot: SlotId) -> u32 {
        slot.item
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        super::adapt(body, adaptation)
    }
}

impl wire::Reader for super::Reader {
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        self.read(event_type, data, on)
    }
}

impl wire::Writer for super::Writer {
    fn observe(&mut self, _event_type: &str, data: &str) {
        self.observe(data);
    }

    fn has_begun(&self) -> bool {
        self.has_seen_choice()
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        let mut delta = Vec::new();
        match (slot.kind, slot.id.part) {
            (SlotKind::Arguments, Some(index)) => {
                delta.extend_from_slice(
                    format!("{{\"tool_calls\":[{{\"index\":{index},\"function\":{{\"arguments\":\"").as_bytes(),
                );
                escape_into(&mut delta, text);
                delta.extend_from_slice(b"\"}}]}");
            }
            _ => {
                delta.extend_from_slice(b"{\"content\":\"");
                escape_into(&mut delta, text);
                delta.extend_from_slice(b"\"}");
            }
        }
        self.delta(out, slot.id.item, &delta);
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        // Where the upstream has it on the finish, a client need not expect a chunk without choices.
        let (beside, apart) = if ending.usage_apart { (None, ending.usage) } else { (ending.usage, None) };
        let report = ending.report.filter(|_| apart.is_none());
        let last = ending.reasons.len().saturating_sub(1);
        for (at, (choice, reason)) in ending.reasons.iter().enumerate() {
            let (usage, report) = if at == last { (beside, report) } else { (None, None) };
            self.end(out, *choice, reason.as_str(), usage, report);
        }
        if let Some(usage) = apart {
            self.usage(out, usage, ending.report);
        }
        self.done(out);
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        super::Writer::done(self, out);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        super::Writer::report(self, out, report);
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        Encoder::event(out, None, None, &Chat.error_body(message, code, report));
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let mut is_empty = true;
        let kind = super::Reader::new().read(event_type, data, |delta| {
            is_empty &= matches!(delta, Delta::Text { text: "", .. } | Delta::Refusal { text: "", .. });
        });
        // The client knows the role.
        if kind != Kind::Chunk || !is_empty {
            super::Writer::adopt(self, out, data);
        }
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = fields::object(data)?;
        let choice = root.member("choices")?.elements().next()?;
        let delta = choice.member("delta").or_else(|| choice.member("message"))?;
        let mut edits = Edits::default();
        edits.object(delta, &[], &[("content", &quoted(text))]);
        Some(edits.apply(data)).filter(|_| delta.kind() == ValueKind::Object)
    }

    fn without_end(&self, data: &str) -> String {
        let mut edits = Edits::default();
        if let Some(root) = fields::object(data) {
            for choice in root.member("choices").into_iter().flat_map(|choices| choices.elements()) {
                edits.object(choice, &[], &[("finish_reason", "null")]);
            }
            edits.object(root, &["usage"], &[]);
        }
        edits.apply(data)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        Encoder::comment(out, "restitch: waiting for the rest");
    }
}
