//! Writes events that continue a Completions stream.

use super::Completions;
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::ValueKind;
use crate::provider::chunks::{self, Chunks};
use crate::provider::fields;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};
use crate::sse::Encoder;

/// A writer of chunks that look like those of the answer that the client is already reading.
#[derive(Debug)]
pub(super) struct CompletionsWriter(Chunks);

impl Default for CompletionsWriter {
    fn default() -> Self {
        Self(Chunks::new(UNSEEN))
    }
}

/// Returns a choice, raw JSON.
fn choice(index: u32, text: &str, reason: Option<&str>) -> String {
    let reason = reason.map_or_else(|| "null".to_owned(), quoted);
    format!(
        r#"{{"index":{index},"text":{},"logprobs":null,"finish_reason":{reason}}}"#,
        quoted(text)
    )
}

impl wire::Writer for CompletionsWriter {
    fn observe(&mut self, _event_type: &str, data: &str) {
        if !self.0.is_settled() {
            self.0.observe(data, REPEATED, |_| false);
        }
    }

    fn has_begun(&self) -> bool {
        self.0.is_settled()
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        // This API has no tool calls.
        if slot.kind == SlotKind::Text {
            self.0
                .chunk(out, &choice(slot.id.item, text, None), None, None);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.0.finish(out, ending, |number, reason| {
            choice(number, "", Some(reason))
        });
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        chunks::done(out);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.0.chunk(out, "", None, Some(report));
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        Encoder::event(
            out,
            None,
            None,
            &Completions.error_body(message, code, report),
        );
    }

    fn adopt(&mut self, out: &mut Vec<u8>, _event_type: &str, data: &str) {
        self.0.adopt(out, data);
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let choice = fields::object(data)?.member("choices")?.elements().next()?;
        let mut edits = Edits::default();
        edits.object(choice, &[], &[("text", &quoted(text))]);
        Some(edits.apply(data)).filter(|_| choice.kind() == ValueKind::Object)
    }

    fn without_end(&self, data: &str) -> String {
        chunks::without_end(data)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        chunks::keep_alive(out);
    }
}

/// The members that all chunks of an answer share and that clients read.
const REPEATED: &[&str] = &[
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "provider",
];

/// The members of an answer that broke off before its first chunk.
const UNSEEN: &str = r#""id":"cmpl-restitch","object":"text_completion","created":0,"model":"","#;
