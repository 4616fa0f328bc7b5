//! Reads the lines of an answer.

use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::fields::{self, Channel, Texts};
use crate::provider::{Delta, FIRST, Finish, Kind, SlotId, wire};

/// A reader for one stream, line by line.
#[derive(Debug, Default)]
pub(super) struct OllamaReader {
    texts: Texts<Channel>,
    /// How many tools were called.
    calls: u32,
}

impl wire::Reader for OllamaReader {
    /// Reads one object. Its deltas are reasoning, text, tool calls, usage, finish and the end of
    /// the stream, in this order.
    ///
    /// The last object may have text. Older servers write no `done_reason`, so there the answer
    /// ends without a finish.
    fn read(&mut self, _event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let mut table = Table::default();
        let Some(root) = fields::recorded_object(&mut table, data) else {
            return Kind::Other;
        };
        let message = fields::object_of(root, "message");
        let answer = message.or_else(|| root.member("response").map(|_| root));
        if let Some(answer) = answer {
            self.reasoning(answer, on);
            let text = if message.is_some() {
                answer.member("content")
            } else {
                answer.member("response")
            };
            if let Some(inner) = text.and_then(|text| text.inner()) {
                on(Delta::Text {
                    slot: FIRST,
                    text: self.texts.decode(Channel::Text(FIRST), inner),
                });
            }
            for call in answer
                .member("tool_calls")
                .into_iter()
                .flat_map(|calls| calls.elements())
            {
                self.call(call, on);
            }
        }
        let done = root
            .member("done")
            .filter(|done| done.kind() == ValueKind::Bool);
        if fields::is_true(done) {
            end(root, on);
        }
        if let Some(error) = root.member("error").filter(fields::says_error) {
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
            return Kind::Error;
        }
        if answer.is_some() || done.is_some() {
            Kind::Chunk
        } else {
            Kind::Other
        }
    }
}

impl OllamaReader {
    fn reasoning(&mut self, answer: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(inner) = answer.member("thinking").and_then(|text| text.inner()) else {
            return;
        };
        let text = self.texts.decode(Channel::Reasoning(FIRST), inner);
        if !text.is_empty() {
            on(Delta::Reasoning { slot: FIRST, text });
        }
    }

    fn call(&mut self, call: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(function) = call.member("function") else {
            return;
        };
        let slot = SlotId::part(0, self.calls);
        self.calls = self.calls.saturating_add(1);
        let (id, name) = (
            fields::word(call.member("id")),
            fields::word(function.member("name")),
        );
        let arguments = function
            .member("arguments")
            .map_or("", |arguments| arguments.as_str());
        on(Delta::ToolCall {
            slot,
            id: id.as_deref(),
            name: name.as_deref(),
            arguments,
        });
    }
}

/// Reads the members that only the last object has.
fn end(root: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) {
    let counts: Vec<_> = super::counts(root)
        .map(|(key, count)| format!("\"{key}\":{count}"))
        .collect();
    if !counts.is_empty() {
        on(Delta::Usage {
            raw: &format!("{{{}}}", counts.join(",")),
        });
    }
    if let Some(word) = fields::word(root.member("done_reason")) {
        on(Delta::Finish {
            choice: 0,
            reason: Finish::from(&*word),
            word: &word,
        });
    }
    on(Delta::Done { word: "done:true" });
}
