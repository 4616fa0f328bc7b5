//! Reads the events of a Cohere stream.

use crate::json::walk::{Raw, Table};
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::{Delta, FIRST, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Debug, Default)]
pub(super) struct CohereReader {
    texts: Texts<Channel>,
    /// `message-end` was read.
    has_ended: bool,
}

impl wire::Reader for CohereReader {
    /// Reads one event. The type is the one in the data, or else the event's own: some recordings
    /// have no event names.
    ///
    /// A [`Delta::SlotEnd`] ends the most recent text or tool call with that number. The plan
    /// before tool calls is reasoning.
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let data = data.trim_matches([' ', '\t', '\r', '\n']);
        if data == "[DONE]" {
            on(Delta::Done {
                word: if self.has_ended {
                    "message-end+[DONE]"
                } else {
                    data
                },
            });
            return Kind::Done;
        }
        let mut table = Table::default();
        let Some(root) = fields::recorded_object(&mut table, data) else {
            return fields::no_object(event_type, data, on);
        };
        let written = fields::word(root.member("type"));
        let slot = SlotId::of(fields::number(root.member("index")).unwrap_or_default());
        let delta = root.member("delta");
        let message = delta.and_then(|delta| delta.member("message"));
        let of = |key: &str| message.and_then(|message| message.member(key));
        match written.as_deref().unwrap_or(event_type) {
            "content-start" | "content-delta" => self.content(slot, of("content"), on),
            "tool-plan-delta" => self.reasoning(FIRST, of("tool_plan"), on),
            "tool-call-start" | "tool-call-delta" => self.call(slot, of("tool_calls"), on),
            "content-end" | "tool-call-end" => on(Delta::SlotEnd { slot }),
            "message-end" => return self.end(delta, on),
            "message-start" | "citation-start" | "citation-end" => {}
            _ => return unknown(root, event_type, on),
        }
        Kind::Chunk
    }
}

impl CohereReader {
    /// Reads more of a content. Its start has an empty text, which is not part of the answer.
    fn content(&mut self, slot: SlotId, content: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(content) = content else { return };
        self.reasoning(slot, content.member("thinking"), on);
        let is_start = content.member("type").is_some();
        let text = content.member("text").and_then(|text| text.inner());
        if let Some(inner) = text.filter(|inner| !(is_start && inner.is_empty())) {
            on(Delta::Text {
                slot,
                text: self.texts.decode(Channel::Text(slot), inner),
            });
        }
    }

    fn reasoning(&mut self, slot: SlotId, text: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(inner) = text.and_then(|text| text.inner()) else {
            return;
        };
        let text = self.texts.decode(Channel::Reasoning(slot), inner);
        if !text.is_empty() {
            on(Delta::Reasoning { slot, text });
        }
    }

    /// Reads a tool call, or its next piece. An array with the call is read, too.
    fn call(&mut self, slot: SlotId, call: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(call) = call.map(|calls| calls.elements().next().unwrap_or(calls)) else {
            return;
        };
        let function = call.member("function");
        let (id, name) = (
            fields::word(call.member("id")),
            fields::word(function.and_then(|f| f.member("name"))),
        );
        let inner = function
            .and_then(|function| function.member("arguments"))
            .and_then(|arguments| arguments.inner());
        let arguments = self
            .texts
            .decode(Channel::Arguments(slot), inner.unwrap_or_default());
        on(Delta::ToolCall {
            slot,
            id: id.as_deref(),
            name: name.as_deref(),
            arguments,
        });
    }

    fn end(&mut self, delta: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        self.has_ended = true;
        let of = |key: &str| delta.and_then(|delta| delta.member(key));
        if let Some(usage) = delta.and_then(|delta| fields::object_of(delta, "usage")) {
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }
        if let Some(word) = fields::word(of(super::FINISH)) {
            on(Delta::Finish {
                choice: 0,
                reason: super::finish(&word),
                word: &word,
            });
        }
        let error = of("error").filter(fields::says_error);
        if let Some(error) = error {
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
        }
        on(Delta::Done {
            word: "message-end",
        });
        if error.is_some() {
            Kind::Error
        } else {
            Kind::Chunk
        }
    }
}

/// Reads an event of an unknown type. Errors have no type: `{"message":"…"}`, also with an id.
fn unknown(root: Raw<'_>, event_type: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
    let has_type = root.member("type").is_some();
    let is_error = event_type == "error"
        || !has_type && root.member("message").is_some_and(|m| m.inner().is_some());
    let error = root
        .member("error")
        .filter(fields::says_error)
        .or(is_error.then_some(root));
    let Some(error) = error else {
        return Kind::Other;
    };
    on(Delta::Error {
        message: &fields::message(error),
        raw: error.as_str(),
    });
    Kind::Error
}
