//! Writes events that continue a Chat Completions stream.

use super::{Chat, ChatReader};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::ValueKind;
use crate::provider::chunks::{self, Chunks};
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};
use crate::provider::{CallIndex, Delta, Kind, fields};
use crate::sse::Encoder;

/// A writer of chunks that look like those of the answer that the client is already reading.
#[derive(Debug)]
pub(super) struct ChatWriter(Chunks);

impl Default for ChatWriter {
    fn default() -> Self {
        Self(Chunks::new(UNSEEN))
    }
}

impl wire::Writer for ChatWriter {
    fn observe(&mut self, _event_type: &str, data: &str) {
        if !self.0.is_settled() {
            self.0.observe(data, REPEATED, |head| head.has("id"));
        }
    }

    fn has_begun(&self) -> bool {
        self.0.is_settled()
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        let text = quoted(text);
        let delta = match (slot.kind, slot.id.part) {
            (SlotKind::Arguments, Some(number)) => {
                // The client joins pieces by the index that the first answer has.
                let index = match slot.id.index {
                    CallIndex::Own => format!(r#""index":{number},"#),
                    CallIndex::Shared(shared) => format!(r#""index":{shared},"#),
                    CallIndex::Text(number) => format!(r#""index":"{number}","#),
                    CallIndex::Null => r#""index":null,"#.to_owned(),
                    CallIndex::Missing => String::new(),
                };
                format!(r#"{{"tool_calls":[{{{index}"function":{{"arguments":{text}}}}}]}}"#)
            }
            _ => format!(r#"{{"content":{text}}}"#),
        };
        let index = slot.id.item;
        self.0.chunk(
            out,
            &format!(r#"{{"index":{index},"delta":{delta},"finish_reason":null}}"#),
            None,
            None,
        );
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.0.finish(out, ending, |number, reason| {
            let reason = quoted(reason);
            format!(r#"{{"index":{number},"delta":{{}},"finish_reason":{reason}}}"#)
        });
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        chunks::done(out);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.0.chunk(out, "", None, Some(report));
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        Encoder::event(out, None, None, &Chat.error_body(message, code, report));
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let mut is_empty = true;
        let kind = ChatReader::new().read(event_type, data, |delta| {
            is_empty &= matches!(
                delta,
                Delta::Text { text: "", .. } | Delta::Refusal { text: "", .. }
            );
        });
        // The client knows the role.
        if kind != Kind::Chunk || !is_empty {
            self.0.adopt(out, data);
        }
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = fields::object(data)?;
        let choice = root.member("choices")?.elements().next()?;
        let delta = choice
            .member("delta")
            .or_else(|| choice.member("message"))?;
        let mut edits = Edits::default();
        match delta
            .member("tool_calls")
            .and_then(|calls| calls.elements().next())
        {
            Some(call) => edits.object(
                call.member("function")?,
                &[],
                &[("arguments", &quoted(text))],
            ),
            None => edits.object(delta, &[], &[("content", &quoted(text))]),
        }
        Some(edits.apply(data)).filter(|_| delta.kind() == ValueKind::Object)
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
    "service_tier",
    "provider",
];

/// The members of an answer that broke off before its first chunk.
const UNSEEN: &str =
    r#""id":"chatcmpl-restitch","object":"chat.completion.chunk","created":0,"model":"","#;
