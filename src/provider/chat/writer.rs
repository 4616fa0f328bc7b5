//! Writes events that continue a Chat Completions stream.

use super::{Chat, Reader};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::ValueKind;
use crate::provider::head::Head;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};
use crate::provider::{Delta, Kind, fields};
use crate::sse::Encoder;

/// A writer of chunks that look like those of the answer that the client is already reading.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The members that every chunk repeats.
    head: Head,
    /// A chunk with a choice was observed; later chunks are ignored.
    is_settled: bool,
}

impl Writer {
    /// Writes a chunk with these choices, raw JSON without brackets. `usage` and `report` are JSON objects.
    fn chunk(&self, out: &mut Vec<u8>, choices: &str, usage: Option<&str>, report: Option<&str>) {
        let mut data = String::from("{");
        for (key, value) in self.head.members() {
            data.extend([&quoted(key), ":", value, ","]);
        }
        if self.head.members().next().is_none() {
            data.push_str(UNSEEN);
        }
        data.extend(["\"choices\":[", choices, "]"]);
        for (key, value) in [("usage", usage), ("restitch", report)] {
            if let Some(value) = value {
                data.extend([",\"", key, "\":", &fields::one_line(value)]);
            }
        }
        data.push('}');
        Encoder::event(out, None, None, &data);
    }
}

impl wire::Writer for Writer {
    /// A chunk without choices is provisional: Azure starts with one whose id and model are empty.
    fn observe(&mut self, _event_type: &str, data: &str) {
        if self.is_settled {
            return;
        }
        let Some(root) = fields::object(data) else { return };
        let choices = root.member("choices").filter(|choices| choices.kind() == ValueKind::Array);
        if choices.is_some() || root.member("id").is_some() {
            self.head = Head::of(root, &REPEATED);
            self.is_settled = choices.is_some_and(|choices| choices.elements().next().is_some());
        }
    }

    fn has_begun(&self) -> bool {
        self.is_settled
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        let text = quoted(text);
        let delta = match (slot.kind, slot.id.part) {
            (SlotKind::Arguments, Some(index)) => {
                format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{text}}}}}]}}"#)
            }
            _ => format!(r#"{{"content":{text}}}"#),
        };
        let index = slot.id.item;
        self.chunk(out, &format!(r#"{{"index":{index},"delta":{delta},"finish_reason":null}}"#), None, None);
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        // Where the upstream has it on the finish, a client need not expect a chunk without choices.
        let (beside, apart) = if ending.usage_apart { (None, ending.usage) } else { (ending.usage, None) };
        let report = ending.report.filter(|_| apart.is_none());
        let last = ending.reasons.len().saturating_sub(1);
        for (at, (choice, reason)) in ending.reasons.iter().enumerate() {
            let (usage, report) = if at == last { (beside, report) } else { (None, None) };
            let reason = quoted(reason.as_str());
            let choice = format!(r#"{{"index":{choice},"delta":{{}},"finish_reason":{reason}}}"#);
            self.chunk(out, &choice, usage, report);
        }
        if apart.is_some() {
            self.chunk(out, "", apart, ending.report);
        }
        self.done(out);
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.chunk(out, "", None, Some(report));
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        Encoder::event(out, None, None, &Chat.error_body(message, code, report));
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let mut is_empty = true;
        let kind = Reader::new().read(event_type, data, |delta| {
            is_empty &= matches!(delta, Delta::Text { text: "", .. } | Delta::Refusal { text: "", .. });
        });
        // The client knows the role.
        if kind != Kind::Chunk || !is_empty {
            Encoder::event(out, None, None, &self.head.adopt(data, &[]));
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

/// The members that all chunks of an answer share and that clients read.
const REPEATED: [&str; 7] = ["id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"];

/// The members of an answer that broke off before its first chunk.
const UNSEEN: &str = r#""id":"chatcmpl-restitch","object":"chat.completion.chunk","created":0,"model":"","#;
