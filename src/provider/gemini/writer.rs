//! Writes events that continue a Gemini stream.

use super::body::put_text;
use super::{CONTINUATION, Gemini};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::ValueKind;
use crate::provider::Finish;
use crate::provider::fields;
use crate::provider::head::Head;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};

/// A writer of chunks that look like those of the answer that the client is already reading.
#[derive(Debug, Default)]
pub(super) struct GeminiWriter {
    /// The members that every chunk repeats.
    head: Head,
    /// A chunk with a candidate was observed; later chunks are ignored.
    is_settled: bool,
    /// The chunks are the elements of an array.
    is_array: bool,
    /// The token with which the answer can be continued, raw JSON.
    token: Option<String>,
}

impl GeminiWriter {
    /// Returns a writer of the elements of an array.
    pub(super) fn of_array() -> Self {
        Self {
            is_array: true,
            ..Self::default()
        }
    }

    /// Writes an event. The API ends its lines with CRLF, and an early client for JavaScript reads
    /// no other end.
    fn event(&self, out: &mut Vec<u8>, data: &str) {
        let (before, after) = if self.is_array {
            (",\r\n", "")
        } else {
            ("data: ", "\r\n\r\n")
        };
        out.extend(
            [before, &fields::one_line(data), after]
                .iter()
                .flat_map(|part| part.bytes()),
        );
    }

    /// Ends an array.
    fn end(&self, out: &mut Vec<u8>) {
        if self.is_array {
            out.extend_from_slice(b"\r\n]");
        }
    }

    /// Writes a chunk: members, raw JSON with commas, and then those that every chunk repeats.
    fn chunk(&self, out: &mut Vec<u8>, members: &str, report: Option<&str>) {
        let head = self
            .head
            .members()
            .map(|(key, value)| format!("{}:{value}", quoted(key)));
        let report = report.map(|report| format!("\"restitch\":{}", fields::one_line(report)));
        let members = (!members.is_empty()).then(|| members.to_owned());
        let members: Vec<_> = members.into_iter().chain(head).chain(report).collect();
        self.event(out, &format!("{{{}}}", members.join(",")));
    }
}

/// Returns a candidate, raw JSON. `end`: members that end it, each with a comma after it.
fn candidate(index: u32, text: &str, end: &str) -> String {
    let content = format!(
        r#"{{"parts":[{{"text":{}}}],"role":"model"}}"#,
        quoted(text)
    );
    format!(r#"{{"content":{content},{end}"index":{index}}}"#)
}

impl wire::Writer for GeminiWriter {
    fn observe(&mut self, _event_type: &str, data: &str) {
        if self.is_settled {
            return;
        }
        let Some(root) = fields::object(data) else {
            return;
        };
        let candidates = root
            .member("candidates")
            .filter(|candidates| candidates.kind() == ValueKind::Array);
        self.is_settled =
            candidates.is_some_and(|candidates| candidates.elements().next().is_some());
        self.head = Head::of(fields::members(root), REPEATED);
    }

    fn has_begun(&self) -> bool {
        self.is_settled
    }

    fn note_token(&mut self, token: &str) {
        self.token = Some(fields::one_line(token));
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        // The token does not continue this text.
        self.token = None;
        // Arguments are objects, which arrive whole.
        if slot.kind == SlotKind::Text {
            self.chunk(
                out,
                &format!("\"candidates\":[{}]", candidate(slot.id.item, text, "")),
                None,
            );
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        let last = ending.reasons.len().saturating_sub(1);
        for (at, (number, reason)) in ending.reasons.iter().enumerate() {
            let usage = ending.usage.filter(|_| at == last);
            let usage = usage
                .map(|usage| format!(",\"usageMetadata\":{usage}"))
                .unwrap_or_default();
            let word = super::word(reason);
            let mut end = format!("\"finishReason\":{},", quoted(word));
            // Gemini continues an answer after its limit, too, if the request raises it.
            let has_rest = word == CONTINUATION || *reason == Finish::Length;
            if let Some(token) = self.token.as_ref().filter(|_| has_rest) {
                end.push_str(&format!("\"continuationToken\":{token},"));
            }
            let candidate = candidate(*number, "", &end);
            let report = ending.report.filter(|_| at == last);
            self.chunk(out, &format!("\"candidates\":[{candidate}]{usage}"), report);
        }
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        self.end(out);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.chunk(out, "", Some(report));
        self.end(out);
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        self.event(out, &Gemini.error_body(message, code, report));
        self.end(out);
    }

    fn adopt(&mut self, out: &mut Vec<u8>, _event_type: &str, data: &str) {
        let mut edits = Edits::default();
        if let Some(root) = fields::object(data) {
            // Each call counts its own tokens. The last chunk has the sum.
            edits.object(root, &["usageMetadata"], &[]);
        }
        self.event(out, &self.head.adopt(&edits.apply(data), &[]));
    }

    fn rewrite(&mut self, out: &mut Vec<u8>, _event_type: &str, data: &str) {
        self.event(out, data);
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let candidate = fields::object(data)?
            .member("candidates")?
            .elements()
            .next()?;
        if candidate.kind() != ValueKind::Object {
            return None;
        }
        let mut edits = Edits::default();
        if let Some(content) = put_text(&mut edits, candidate, text) {
            edits.object(candidate, &[], &[("content", &content)]);
        }
        Some(edits.apply(data))
    }

    fn without_end(&self, data: &str) -> String {
        let mut edits = Edits::default();
        if let Some(root) = fields::object(data) {
            for candidate in root
                .member("candidates")
                .into_iter()
                .flat_map(|candidates| candidates.elements())
            {
                edits.object(candidate, &["finishReason", "finishMessage"], &[]);
            }
            edits.object(root, &["usageMetadata"], &[]);
        }
        edits.apply(data)
    }

    /// Writes a chunk with an empty text. A comment is not possible: Google's clients for
    /// JavaScript expect `data:` at the start of each event, and read nothing after a comment. In
    /// an array a line end is enough.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        if self.is_array {
            return out.extend_from_slice(b"\r\n");
        }
        self.chunk(
            out,
            &format!("\"candidates\":[{}]", candidate(0, "", "")),
            None,
        );
    }
}

/// The members that all chunks of an answer share and that clients read.
const REPEATED: &[&str] = &["modelVersion", "createTime", "responseId"];
