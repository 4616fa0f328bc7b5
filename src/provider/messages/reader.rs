//! Reads the events of a Messages stream.

use super::{finish, is_call};
use crate::json::edit::Edits;
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::fields::{self, Texts, place, present, recorded_object, word};
use crate::provider::form::Form;
use crate::provider::usage::update_usage;
use crate::provider::{Delta, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Clone, Debug, Default)]
pub(super) struct MessagesReader {
    /// The texts by block: each block has one text.
    texts: Texts<u32>,
    /// The usage so far: the usage of `message_start`, with the later members of `message_delta`.
    usage: Option<String>,
    has_begun: bool,
    form: Form<MessagesPiece>,
}

/// The meaning of a delta's text.
#[derive(Clone, Copy, Debug)]
struct MessagesPiece {
    index: u32,
    kind: PieceKind,
}

#[derive(Clone, Copy, Debug)]
enum PieceKind {
    Text,
    Arguments,
    Reasoning,
}

impl wire::Reader for MessagesReader {
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        if let Some(event) = self.form.read(event_type, data) {
            self.piece(event.subject, event.text, on);
            return Kind::Chunk;
        }
        self.form.start();
        let kind = self.read_fully(event_type, data, on);
        self.form.remember(event_type, data);
        kind
    }
}

impl MessagesReader {
    fn read_fully(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let mut table = Table::default();
        let Some(root) = recorded_object(&mut table, data) else {
            return fields::no_object(event_type, data, on);
        };
        let [kind, index, delta, block, message, usage, error] = root.pick([
            "type",
            "index",
            "delta",
            "content_block",
            "message",
            "usage",
            "error",
        ]);
        let index = place(index);
        match word(kind).as_deref().unwrap_or(event_type) {
            "content_block_delta" => self.delta(index, delta, on),
            "content_block_start" => {
                self.texts.end(|text| *text == index);
                if let Some(block) = block {
                    self.block(index, block, Input::Start, on);
                }
            }
            "content_block_stop" => {
                self.texts.end(|text| *text == index);
                on(Delta::SlotEnd {
                    slot: SlotId::of(index),
                });
            }
            "message_start" => self.message_start(message, on),
            "message_delta" => {
                self.stop_reason(delta.and_then(|delta| delta.member("stop_reason")), on);
                self.usage(usage, on);
            }
            name @ "message_stop" => {
                on(Delta::Done { word: name });
                return Kind::Done;
            }
            name if name == "error" || present(error).is_some() => {
                let error = present(error).unwrap_or(root);
                on(Delta::Error {
                    message: &fields::message(error),
                    raw: error.as_str(),
                });
                return Kind::Error;
            }
            _ => return Kind::Other,
        }
        Kind::Chunk
    }
}

/// The context of a block, which determines the meaning of its `input`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// At the start of a streamed block. An empty object means that the arguments follow.
    Start,
    /// In a message that is whole.
    Whole,
}

impl MessagesReader {
    /// Reads a content block.
    pub(super) fn block(
        &mut self,
        index: u32,
        block: Raw<'_>,
        input: Input,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        let [kind, text, thinking, id, name, arguments] =
            block.pick(["type", "text", "thinking", "id", "name", "input"]);
        let slot = SlotId::of(index);
        match word(kind).as_deref() {
            Some("text") => {
                if let Some(inner) = text.and_then(|text| text.inner()) {
                    on(Delta::Text {
                        slot,
                        text: self.texts.decode(index, inner),
                    });
                }
            }
            Some("thinking") => self.reasoning(
                index,
                thinking.and_then(|text| text.inner()).unwrap_or_default(),
                on,
            ),
            Some(kind) if is_call(kind) => {
                let arguments = arguments.filter(|raw| {
                    raw.kind() == ValueKind::Object
                        && (input == Input::Whole || raw.members().next().is_some())
                });
                // The server runs its own tools. Without an id their input is not continued.
                let id = word(id).filter(|_| kind == "tool_use");
                on(Delta::ToolCall {
                    slot,
                    id: id.as_deref(),
                    name: word(name).as_deref(),
                    arguments: arguments.map_or("", |arguments| arguments.as_str()),
                });
            }
            _ => {}
        }
    }

    /// Emits the end of an answer, if there is a `stop_reason`.
    pub(super) fn stop_reason(
        &mut self,
        stop_reason: Option<Raw<'_>>,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        if let Some(word) = word(stop_reason) {
            on(Delta::Finish {
                choice: 0,
                reason: finish(&word),
                word: &word,
            });
        }
    }

    /// Emits the usage of `message_start`, or the same with the later members of `message_delta`.
    pub(super) fn usage(&mut self, usage: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        if let Some(usage) = usage.filter(|usage| usage.kind() == ValueKind::Object) {
            update_usage(&mut self.usage, usage.as_str());
            if let Some(raw) = &self.usage {
                on(Delta::Usage { raw });
            }
        }
    }

    fn message_start(&mut self, message: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        if self.has_begun {
            *self = Self {
                form: std::mem::take(&mut self.form),
                ..Self::default()
            };
            on(Delta::Restart);
        }
        self.has_begun = true;
        let Some(message) = message else { return };
        // If a program calls tools, the message starts with whole blocks.
        let blocks = message
            .member("content")
            .into_iter()
            .flat_map(|content| content.elements());
        for (index, block) in (0u32..).zip(blocks) {
            self.block(index, block, Input::Whole, on);
        }
        self.stop_reason(message.member("stop_reason"), on);
        let usage = message
            .member("usage")
            .and_then(|usage| without_output(usage.as_str()));
        self.usage(usage.as_deref().and_then(Raw::root), on);
    }

    fn delta(&mut self, index: u32, delta: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(delta) = delta else { return };
        let [kind, text, partial_json, thinking] =
            delta.pick(["type", "text", "partial_json", "thinking"]);
        let (kind, value) = match word(kind).as_deref() {
            Some("text_delta") => (PieceKind::Text, text),
            Some("input_json_delta") => (PieceKind::Arguments, partial_json),
            Some("thinking_delta") => (PieceKind::Reasoning, thinking),
            _ => return,
        };
        let Some((value, inner)) = value.and_then(|value| Some((value, value.inner()?))) else {
            return;
        };
        let piece = MessagesPiece { index, kind };
        self.form.note_text(piece, value);
        self.piece(piece, inner, on);
    }

    /// Emits the text of a delta, which is between two quotes.
    fn piece(&mut self, piece: MessagesPiece, inner: &str, on: &mut dyn FnMut(Delta<'_>)) {
        let slot = SlotId::of(piece.index);
        match piece.kind {
            PieceKind::Text => on(Delta::Text {
                slot,
                text: self.texts.decode(piece.index, inner),
            }),
            PieceKind::Arguments => {
                let arguments = self.texts.decode(piece.index, inner);
                on(Delta::ToolCall {
                    slot,
                    id: None,
                    name: None,
                    arguments,
                });
            }
            PieceKind::Reasoning => self.reasoning(piece.index, inner, on),
        }
    }

    fn reasoning(&mut self, index: u32, inner: &str, on: &mut dyn FnMut(Delta<'_>)) {
        if inner.is_empty() {
            return;
        }
        let text = self.texts.decode(index, inner);
        if !text.is_empty() {
            on(Delta::Reasoning {
                slot: SlotId::of(index),
                text,
            });
        }
    }
}

/// Returns the usage of `message_start` without its `output_tokens`, which count only the first
/// tokens. `message_delta` has the count of the answer.
fn without_output(usage: &str) -> Option<String> {
    let object = Raw::root(usage).filter(|usage| usage.kind() == ValueKind::Object)?;
    let mut edits = Edits::default();
    edits.object(object, &["output_tokens"], &[]);
    Some(edits.apply(usage))
}
