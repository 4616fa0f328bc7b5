//! What a wire writes, it reads: texts, arguments, the finish, the usage and the report of streams
//! and of whole bodies.
//!
//! The first bytes of an input choose the API and the end of the answer. The rest is the texts.

use restitch::internal::chat::Transcript;
use restitch::internal::wire::{Dialect, Ending, Slot, SlotKind, SlotText, Writer};
use restitch::provider::{Finish, SlotId};
use serde_json::{Value, json};

use super::continued::{carried, check_form, events_of, read, text_of};
use restitch_testing::answers::Answer;

/// Separates the texts.
const SEPARATOR: char = '\u{1f}';

pub(crate) fn check(input: &[u8]) {
    let Some((&[api, reason, count, style], texts)) = input.split_first_chunk::<4>() else {
        return;
    };
    let (dialect, kind) = carried().nth(usize::from(api) % carried().count()).unwrap();
    let texts = String::from_utf8_lossy(texts);
    let texts: Vec<_> = texts.split(SEPARATOR).collect();
    let case = Case {
        dialect,
        kind,
        slot: slot(dialect, kind),
        texts: &texts,
        count,
        style,
    };
    let (written, expected) = case.reason(reason);
    case.check_stream(&written, &expected);
    case.check_body(&written, &expected);
}

/// Returns the first slot of a kind.
fn slot(dialect: Dialect, kind: SlotKind) -> Slot {
    let is_part = matches!(
        (dialect, kind),
        (Dialect::Chat, SlotKind::Arguments) | (Dialect::Responses, SlotKind::Text)
    );
    Slot {
        id: if is_part {
            SlotId::part(0, 0)
        } else {
            SlotId::of(0)
        },
        kind,
    }
}

struct Case<'a> {
    dialect: Dialect,
    kind: SlotKind,
    slot: Slot,
    /// The texts; the first one has come from the server.
    texts: &'a [&'a str],
    /// The number of tokens.
    count: u8,
    style: u8,
}

impl Case<'_> {
    /// Returns a reason, and what it is read as.
    fn reason(&self, reason: u8) -> (Finish, Finish) {
        // Some APIs have no word for calls, and one tells them by the calls themselves.
        let has_word = !matches!(
            self.dialect,
            Dialect::Gemini | Dialect::Ollama | Dialect::Responses
        );
        let is_told = self.dialect == Dialect::Responses && self.kind == SlotKind::Arguments;
        let stop = if is_told {
            Finish::ToolCalls
        } else {
            Finish::Stop
        };
        // No API has such a word.
        let other = || Finish::Other(format!("x:{}", self.texts[0]));
        match reason % 5 {
            0 => (Finish::Stop, stop),
            1 => (Finish::Length, Finish::Length),
            2 => (Finish::ContentFilter, Finish::ContentFilter),
            3 => (
                Finish::ToolCalls,
                if has_word { Finish::ToolCalls } else { stop },
            ),
            _ => (other(), other()),
        }
    }

    /// Returns a usage and a report, each with a text.
    fn usage_and_report(&self) -> [String; 2] {
        let key = match self.dialect {
            Dialect::Chat | Dialect::Completions => "completion_tokens",
            Dialect::Gemini => "candidatesTokenCount",
            Dialect::Ollama => "eval_count",
            _ => "output_tokens",
        };
        let mut usage = json!({key: self.count});
        if self.dialect != Dialect::Ollama {
            usage["tier"] = self.texts[0].into();
        }
        let report = json!({"calls": 2, "text": self.texts[0]});
        // A usage that was sent on several lines.
        [usage, report].map(|value| {
            if self.style & 1 == 1 {
                format!("{value:#}")
            } else {
                value.to_string()
            }
        })
    }

    fn check_stream(&self, reason: &Finish, expected: &Finish) {
        let parts = if self.style & 2 == 2 {
            vec![]
        } else {
            vec![self.texts[0]]
        };
        let first = Answer {
            dialect: self.dialect,
            kind: self.kind,
            parts,
            reason: None,
        }
        .stream();
        let mut writer = self.dialect.wire().writer();
        // A writer may know nothing of the answer yet.
        let mut stream = if self.style & 4 == 4 {
            Vec::new()
        } else {
            first.into_bytes()
        };
        let mut whole = String::new();
        if !stream.is_empty() {
            let first = String::from_utf8_lossy(&stream).into_owned();
            observe(self.dialect, &mut *writer, &first);
            whole = text_of(self.kind, &read(self.dialect, &first));
        }
        for text in self.texts {
            writer.text(&mut stream, self.slot, text);
            whole.push_str(text);
            if self.style & 8 == 8 {
                writer.keep_alive(&mut stream);
            }
        }
        let [usage, report] = self.usage_and_report();
        let reasons = [(0, reason.clone())];
        let ending = Ending {
            reasons: &reasons,
            usage: Some(&usage),
            usage_apart: self.style & 16 == 16,
            report: Some(&report),
        };
        writer.finish(
            &mut stream,
            &[SlotText {
                slot: self.slot,
                text: &whole,
            }],
            &ending,
        );
        writer.done(&mut stream);
        let stream = String::from_utf8(stream).unwrap();
        let found = read(self.dialect, &stream);
        self.check_read(&found, &whole, expected, &stream);
        check_form(self.dialect, &stream);
        let reports: Vec<_> = events_of(self.dialect, &stream)
            .iter()
            .filter_map(|(_, data)| {
                serde_json::from_str::<Value>(data)
                    .ok()?
                    .get("restitch")
                    .cloned()
            })
            .collect();
        assert_eq!(reports, [value(&report)], "{stream}");
    }

    fn check_read(&self, found: &Transcript, text: &str, reason: &Finish, shown: &str) {
        assert_eq!(
            text_of(self.kind, found),
            text,
            "{} {:?} {shown}",
            self.dialect,
            self.kind
        );
        let other = if self.kind == SlotKind::Text {
            SlotKind::Arguments
        } else {
            SlotKind::Text
        };
        assert_eq!(text_of(other, found), "", "{} {shown}", self.dialect);
        assert_eq!(
            found.reasons.values().collect::<Vec<_>>(),
            [reason],
            "{} {shown}",
            self.dialect
        );
        let usage = value(found.usage.as_ref().unwrap());
        for (key, value) in value(&self.usage_and_report()[0]).as_object().unwrap() {
            assert_eq!(&usage[key], value, "{} {key} {shown}", self.dialect);
        }
        assert!(
            found.error.is_none() && found.refusal.is_empty() && found.reasoning.is_empty(),
            "{shown}"
        );
    }

    fn check_body(&self, reason: &Finish, expected: &Finish) {
        // Some APIs have arguments as a value.
        let text = match self.kind {
            SlotKind::Text => self.texts.concat(),
            SlotKind::Arguments => json!({"text": self.texts.concat()}).to_string(),
        };
        let first = body(self.dialect, self.kind, self.texts[0]);
        let first = if self.style & 32 == 32 {
            format!("{first:#}")
        } else {
            first.to_string()
        };
        let [usage, report] = self.usage_and_report();
        let reasons = [(0, reason.clone())];
        let ending = Ending {
            reasons: &reasons,
            usage: Some(&usage),
            usage_apart: false,
            report: Some(&report),
        };
        let wire = self.dialect.wire();
        let written = wire
            .write_body(
                &first,
                &[SlotText {
                    slot: self.slot,
                    text: &text,
                }],
                &ending,
            )
            .unwrap();
        let mut found = Transcript::default();
        assert!(
            wire.read_body(&written, &mut |delta| found.push(&delta)),
            "{written}"
        );
        self.check_read(&found, &text, expected, &written);
        let (mut written, first) = (value(&written), value(&first));
        assert_eq!(written["restitch"], value(&report));
        // What is not edited is as it was.
        assert!(
            written["x"] == first["x"]
                && written.as_object_mut().unwrap().len() <= first.as_object().unwrap().len() + 4
        );
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn observe(dialect: Dialect, writer: &mut dyn Writer, stream: &str) {
    events_of(dialect, stream)
        .iter()
        .for_each(|(name, data)| writer.observe(name, data));
}

/// Returns a whole answer that was cut, and holds a text.
fn body(dialect: Dialect, kind: SlotKind, text: &str) -> Value {
    let is_call = kind == SlotKind::Arguments;
    let function = json!({"name": "save", "arguments": text});
    let mut body = match dialect {
        Dialect::Chat if is_call => {
            json!({"choices": [{"index": 0, "finish_reason": "length", "message":
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": function}]}}]})
        }
        Dialect::Chat => json!({"choices": [{"index": 0, "finish_reason": "length", "message":
            {"role": "assistant", "content": text}}]}),
        Dialect::Completions => {
            json!({"choices": [{"index": 0, "finish_reason": "length", "text": text}]})
        }
        Dialect::Responses if is_call => json!({"status": "incomplete", "error": null, "output":
            [{"type": "function_call", "call_id": "c", "name": "save", "status": "incomplete", "arguments": text}]}),
        Dialect::Responses => {
            json!({"status": "incomplete", "error": null, "output": [{"type": "message",
            "status": "incomplete", "content": [{"type": "output_text", "text": text, "annotations": []}]}]})
        }
        Dialect::Messages if is_call => json!({"stop_reason": "max_tokens", "content":
            [{"type": "tool_use", "id": "t", "name": "save", "input": {"text": text}}]}),
        Dialect::Messages => {
            json!({"stop_reason": "max_tokens", "content": [{"type": "text", "text": text}]})
        }
        Dialect::Gemini => json!({"candidates": [{"index": 0, "finishReason": "MAX_TOKENS",
            "content": {"parts": [{"text": text}], "role": "model"}}]}),
        Dialect::Ollama => {
            json!({"done": true, "done_reason": "length", "message": {"role": "assistant", "content": text}})
        }
        Dialect::Cohere if is_call => json!({"finish_reason": "MAX_TOKENS", "message":
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}}),
        Dialect::Cohere => json!({"finish_reason": "MAX_TOKENS", "message":
            {"role": "assistant", "content": [{"type": "text", "text": text}]}}),
        other => panic!("{other}"),
    };
    body["x"] = json!({text: [text, 1]});
    body
}
