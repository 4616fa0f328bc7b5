//! Writes events that continue a Completions stream.

use super::Completions;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::ValueKind;
use crate::provider::fields;
use crate::provider::head::Head;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};
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
    /// Writes a chunk with these choices, raw JSON without brackets, and further members.
    fn chunk(&self, out: &mut Vec<u8>, choices: &str, more: &[(&str, Option<&str>)]) {
        let mut data = String::from("{");
        for (key, value) in self.head.members() {
            data.extend([&quoted(key), ":", value, ","]);
        }
        if self.head.members().next().is_none() {
            data.push_str(UNSEEN);
        }
        data.extend(["\"choices\":[", choices, "]"]);
        for (key, value) in more.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
            data.extend([",\"", key, "\":", &fields::one_line(value)]);
        }
        data.push('}');
        Encoder::event(out, None, None, &data);
    }
}

/// Returns a choice, raw JSON.
fn choice(index: u32, text: &str, reason: Option<&str>) -> String {
    let reason = reason.map_or_else(|| "null".to_owned(), quoted);
    format!(r#"{{"index":{index},"text":{},"logprobs":null,"finish_reason":{reason}}}"#, quoted(text))
}

impl wire::Writer for Writer {
    fn observe(&mut self, _event_type: &str, data: &str) {
        if self.is_settled {
            return;
        }
        let Some(root) = fields::object(data) else { return };
        let choices = root.member("choices").filter(|choices| choices.kind() == ValueKind::Array);
        if choices.is_none() {
            return;
        }
        // A chunk without choices is provisional: its id may be empty.
        self.is_settled = choices.is_some_and(|choices| choices.elements().next().is_some());
        self.head = Head::of(root, &REPEATED);
    }

    fn has_begun(&self) -> bool {
        self.is_settled
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        // This API has no tool calls.
        if slot.kind == SlotKind::Text {
            self.chunk(out, &choice(slot.id.item, text, None), &[]);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        let (beside, apart) = if ending.usage_apart { (None, ending.usage) } else { (ending.usage, None) };
        let last = ending.reasons.len().saturating_sub(1);
        for (at, (number, reason)) in ending.reasons.iter().enumerate() {
            let report = ending.report.filter(|_| apart.is_none());
            let of_last = |value: Option<_>| value.filter(|_| at == last);
            let more = [("usage", of_last(beside)), ("restitch", of_last(report))];
            self.chunk(out, &choice(*number, "", Some(reason.as_str())), &more);
        }
        if apart.is_some() {
            self.chunk(out, "", &[("usage", apart), ("restitch", ending.report)]);
        }
        self.done(out);
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        Encoder::event(out, None, None, "[DONE]");
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.chunk(out, "", &[("restitch", Some(report))]);
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        Encoder::event(out, None, None, &Completions.error_body(message, code, report));
    }

    fn adopt(&mut self, out: &mut Vec<u8>, _event_type: &str, data: &str) {
        Encoder::event(out, None, None, &self.head.adopt(data, &[]));
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let choice = fields::object(data)?.member("choices")?.elements().next()?;
        let mut edits = Edits::default();
        edits.object(choice, &[], &[("text", &quoted(text))]);
        Some(edits.apply(data)).filter(|_| choice.kind() == ValueKind::Object)
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
const REPEATED: [&str; 6] = ["id", "object", "created", "model", "system_fingerprint", "provider"];

/// The members of an answer that broke off before its first chunk.
const UNSEEN: &str = r#""id":"cmpl-restitch","object":"text_completion","created":0,"model":"","#;
