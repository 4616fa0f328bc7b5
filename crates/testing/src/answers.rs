//! Answers in the format of every API, as the simulator writes them.

use restitch::internal::wire::{Dialect, PlainPrompt, SlotKind};
use restitch_sim::wire::{self, Finish, Message, Part};
use serde_json::Value;

/// One stream of a model's answer.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    pub dialect: Dialect,
    /// The answer is a call of the tool `save`, with these arguments as its text.
    pub kind: SlotKind,
    /// The parts of the text.
    pub parts: Vec<&'a str>,
    /// Why it ends, in the words of Chat Completions; `None`: the stream stops after its text.
    pub reason: Option<&'a str>,
}

/// An answer in pieces of some characters.
pub fn answer<'a>(
    dialect: Dialect,
    kind: SlotKind,
    text: &'a str,
    reason: Option<&'a str>,
) -> Answer<'a> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = (7..rest.len()).find(|at| rest.is_char_boundary(*at));
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        parts.push(part);
        rest = after;
    }
    Answer {
        dialect,
        kind,
        parts,
        reason,
    }
}

impl Answer<'_> {
    /// Returns the stream.
    pub fn stream(&self) -> String {
        let write = |parts: &[&str], reason| {
            let message = message(self.dialect, self.kind, parts.concat(), reason);
            wire::stream(&path(self.dialect), &message, parts).unwrap()
        };
        match self.dialect {
            // The simulator's last text has the finish, too. Here, each answer has one.
            Dialect::Completions => write(&self.parts, None) + &write(&[], self.reason),
            _ => write(&self.parts, self.reason),
        }
    }
}

/// Returns an answer that is not streamed. `reason`: why it ends, in the words of Chat Completions.
pub fn whole_body(dialect: Dialect, kind: SlotKind, text: &str, reason: &str) -> Value {
    let message = message(dialect, kind, text.to_owned(), Some(reason));
    serde_json::from_str(&wire::body(&path(dialect), &message).unwrap()).unwrap()
}

fn message(dialect: Dialect, kind: SlotKind, text: String, reason: Option<&str>) -> Message {
    // There, arguments are objects, which no stream can cut.
    let has_objects = matches!(dialect, Dialect::Gemini | Dialect::Ollama);
    let part = match kind {
        SlotKind::Arguments if !has_objects => Part::Call {
            tool: "save".to_owned(),
            arguments: text,
            is_whole: reason != Some("length"),
            is_custom: false,
        },
        _ => Part::Text(text),
    };
    let finish = reason.map(|reason| match reason {
        "length" => Finish::Length,
        "tool_calls" => Finish::Tool,
        "content_filter" => Finish::Filter,
        _ => Finish::Stop,
    });
    Message::new(vec![part], finish)
}

/// Returns a path of the API. The simulator looks at its end.
fn path(dialect: Dialect) -> String {
    let prompt = PlainPrompt {
        model: "m",
        ..PlainPrompt::default()
    };
    ["/v1", &dialect.wire().new_request(&prompt).path].concat()
}
