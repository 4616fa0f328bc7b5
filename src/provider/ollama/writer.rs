//! Writes lines that continue an answer.

use super::{Ollama, counts, put_text, word};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::Raw;
use crate::provider::fields;
use crate::provider::head::Head;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText, Wire};

/// A writer of lines that look like those of the answer that the client is already reading.
#[derive(Debug, Default)]
pub(super) struct OllamaWriter {
    /// The members that every line repeats.
    head: Head,
    /// The lines are those of `/api/generate`: the text is in `response`.
    is_generate: bool,
    /// A line of an answer was observed; later lines are ignored.
    is_settled: bool,
}

impl OllamaWriter {
    /// Writes a line with a text and further members, raw JSON.
    fn line(&self, out: &mut Vec<u8>, text: &str, done: bool, more: &[(&str, &str)]) {
        let mut line = String::from("{");
        for (key, value) in self.head.members() {
            line.extend([&quoted(key), ":", value, ","]);
        }
        let text = quoted(text);
        line.push_str(&if self.is_generate {
            format!(r#""response":{text},"done":{done}"#)
        } else {
            format!(r#""message":{{"role":"assistant","content":{text}}},"done":{done}"#)
        });
        for (key, value) in more {
            line.extend([",\"", key, "\":", &fields::one_line(value)]);
        }
        line.push_str("}\n");
        out.extend_from_slice(line.as_bytes());
    }
}

impl wire::Writer for OllamaWriter {
    fn observe(&mut self, _event_type: &str, data: &str) {
        if self.is_settled {
            return;
        }
        let Some(root) = fields::object(data).filter(|root| root.member("done").is_some()) else {
            return;
        };
        self.is_settled = true;
        self.is_generate = root.member("response").is_some() && root.member("message").is_none();
        self.head = Head::of(fields::members(root), REPEATED);
    }

    fn has_begun(&self) -> bool {
        self.is_settled
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        // Arguments are objects, which arrive whole.
        if slot.kind == SlotKind::Text {
            self.line(out, text, false, &[]);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        let reason = quoted(
            ending
                .reasons
                .first()
                .map_or("stop", |(_, reason)| word(reason)),
        );
        let mut more = vec![("done_reason", reason.as_str())];
        more.extend(
            ending
                .usage
                .and_then(Raw::root)
                .into_iter()
                .flat_map(counts),
        );
        more.extend(ending.report.map(|report| ("restitch", report)));
        self.line(out, "", true, &more);
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.line(out, "", false, &[("restitch", report)]);
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        out.extend_from_slice(
            fields::one_line(&Ollama.error_body(message, code, report)).as_bytes(),
        );
        out.push(b'\n');
    }

    fn rewrite(&mut self, out: &mut Vec<u8>, _event_type: &str, data: &str) {
        out.extend_from_slice(fields::one_line(data).as_bytes());
        out.push(b'\n');
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        // The time is that of the line.
        self.rewrite(out, event_type, &self.head.adopt(data, &["created_at"]));
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = fields::object(data)?;
        root.member("message").or_else(|| root.member("response"))?;
        let mut edits = Edits::default();
        let member = put_text(&mut edits, root, Some(text));
        let set: Vec<_> = member
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        edits.object(root, &[], &set);
        Some(edits.apply(data))
    }

    fn without_end(&self, data: &str) -> String {
        let mut edits = Edits::default();
        if let Some(root) = fields::object(data).filter(|root| fields::is_true(root.member("done")))
        {
            edits.object(root, &OF_LAST, &[("done", "false")]);
        }
        edits.apply(data)
    }

    /// Writes a line with an empty text, because there are no comments between lines.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.line(out, "", false, &[]);
    }
}

/// The members that all lines of an answer share and that clients read.
const REPEATED: &[&str] = &["model", "created_at", "remote_model", "remote_host"];

/// The members that only the last line has.
const OF_LAST: [&str; 8] = [
    "done_reason",
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
    "context",
];
