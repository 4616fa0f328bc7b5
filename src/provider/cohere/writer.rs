//! Writes events that continue a Cohere stream.

use std::collections::BTreeMap;

use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::Raw;
use crate::provider::wire::{self, Ending, Slot, SlotKind, SlotText};
use crate::provider::{SlotId, fields};
use crate::sse::Encoder;

/// A writer of events that look like those of the answer that the client is already reading.
///
/// It knows which contents and tool calls the client has seen begin and end, so that each begins
/// and ends once.
#[derive(Debug, Default)]
pub(super) struct CohereWriter {
    /// `message-start` was observed.
    has_begun: bool,
    /// The first event has no name beside its type.
    is_nameless: bool,
    /// The slots that have begun, by the client's numbers.
    slots: BTreeMap<Slot, CohereState>,
    /// The slots of another answer that is adopted, and the client's numbers for them.
    adopted: BTreeMap<Slot, Slot>,
    /// The slot whose end was observed last.
    ended: Option<Slot>,
}

/// The state of a slot for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CohereState {
    Open,
    /// Open, with reasoning.
    Reasoning,
    Ended,
}

/// The step that an event takes in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CohereStep {
    Start,
    Delta,
    End,
}

/// Returns the slot of an event, and the step that the event takes in it.
fn step(name: &str, root: Raw<'_>) -> Option<(Slot, CohereStep)> {
    let id = SlotId::of(fields::number(root.member("index")).unwrap_or_default());
    let (kind, step) = match name {
        "content-start" => (SlotKind::Text, CohereStep::Start),
        "content-delta" => (SlotKind::Text, CohereStep::Delta),
        "content-end" => (SlotKind::Text, CohereStep::End),
        "tool-call-start" => (SlotKind::Arguments, CohereStep::Start),
        "tool-call-delta" => (SlotKind::Arguments, CohereStep::Delta),
        "tool-call-end" => (SlotKind::Arguments, CohereStep::End),
        _ => return None,
    };
    Some((Slot { id, kind }, step))
}

/// Returns the content of an event that starts or extends one.
fn content(root: Raw<'_>) -> Option<Raw<'_>> {
    root.member("delta")?.member("message")?.member("content")
}

impl CohereWriter {
    fn event(&self, out: &mut Vec<u8>, event_type: &str, members: &str) {
        let name = (!self.is_nameless).then_some(event_type);
        Encoder::event(
            out,
            name,
            None,
            &format!(
                "{{\"type\":\"{event_type}\",{}}}",
                fields::one_line(members)
            ),
        );
    }

    /// Ends a slot for the client.
    fn end(&mut self, out: &mut Vec<u8>, slot: Slot) {
        let event_type = if slot.kind == SlotKind::Text {
            "content-end"
        } else {
            "tool-call-end"
        };
        self.event(out, event_type, &format!("\"index\":{}", slot.id.item));
        self.slots.insert(slot, CohereState::Ended);
    }

    /// Ends the slots that are open, in their order, except for one.
    fn end_all(&mut self, out: &mut Vec<u8>, except: Option<Slot>) {
        let is_over = |(slot, state): &(&Slot, &CohereState)| {
            **state != CohereState::Ended && Some(**slot) != except
        };
        let open: Vec<_> = self
            .slots
            .iter()
            .filter(is_over)
            .map(|(slot, _)| *slot)
            .collect();
        for slot in open {
            self.end(out, slot);
        }
    }

    /// Takes note of an event of a slot.
    fn note(&mut self, (slot, step): (Slot, CohereStep), root: Raw<'_>) {
        let state = match step {
            CohereStep::Start if content(root).is_some_and(is_thinking) => CohereState::Reasoning,
            CohereStep::Delta if self.slots.get(&slot) == Some(&CohereState::Reasoning) => {
                CohereState::Reasoning
            }
            CohereStep::Start | CohereStep::Delta => CohereState::Open,
            CohereStep::End => {
                self.ended = Some(slot);
                CohereState::Ended
            }
        };
        self.slots.insert(slot, state);
    }

    /// Returns the text that was open when the answer before an adopted one broke off.
    fn waiting(&self) -> Option<Slot> {
        let open = self
            .slots
            .iter()
            .filter(|(slot, state)| slot.kind == SlotKind::Text && **state == CohereState::Open);
        open.map(|(slot, _)| *slot)
            .find(|slot| !self.adopted.values().any(|known| known == slot))
    }

    /// Begins a slot of another answer. Returns the client's slot for it, or `None` if the client
    /// has a slot for its text. All other open slots are ended.
    fn adopt_start(&mut self, out: &mut Vec<u8>, slot: Slot, root: Raw<'_>) -> Option<Slot> {
        let waiting = self.waiting();
        let is_text = slot.kind == SlotKind::Text && !content(root).is_some_and(is_thinking);
        if let Some(waiting) = waiting.filter(|_| is_text) {
            self.adopted.insert(slot, waiting);
            let begin = content(root).and_then(|content| fields::word(content.member("text")));
            if let Some(begin) = begin {
                wire::Writer::text(self, out, slot, &begin);
            }
            return None;
        }
        self.end_all(out, waiting);
        let of_kind = self.slots.keys().filter(|known| known.kind == slot.kind);
        let next = of_kind
            .map(|known| known.id.item.saturating_add(1))
            .max()
            .unwrap_or(0);
        let known = Slot {
            id: SlotId::of(next),
            kind: slot.kind,
        };
        self.adopted.insert(slot, known);
        Some(known)
    }

    /// Returns the client's slot for one of the answer that is being read.
    fn known(&self, slot: Slot) -> Slot {
        self.adopted.get(&slot).copied().unwrap_or(slot)
    }

    /// Begins a slot if the client does not know it. Only the server knows the name of an unknown
    /// tool call, so the name stays empty.
    fn begin(&mut self, out: &mut Vec<u8>, slot: Slot) {
        if self.slots.contains_key(&slot) {
            return;
        }
        let index = slot.id.item;
        match slot.kind {
            SlotKind::Text => {
                let content = r#"{"message":{"content":{"type":"text","text":""}}}"#;
                self.event(
                    out,
                    "content-start",
                    &format!("\"index\":{index},\"delta\":{content}"),
                );
            }
            SlotKind::Arguments => {
                let call = r#"{"type":"function","function":{"name":"","arguments":""}}"#;
                let delta = format!(r#"{{"message":{{"tool_calls":{call}}}}}"#);
                self.event(
                    out,
                    "tool-call-start",
                    &format!("\"index\":{index},\"delta\":{delta}"),
                );
            }
        }
        self.slots.insert(slot, CohereState::Open);
    }
}

impl wire::Writer for CohereWriter {
    fn observe(&mut self, event_type: &str, data: &str) {
        let Some(root) = fields::object(data) else {
            return;
        };
        let written = fields::word(root.member("type"));
        let name = written.as_deref().unwrap_or(event_type);
        if name == "message-start" {
            self.has_begun = true;
            self.is_nameless = event_type == "message";
        } else if let Some(step) = step(name, root) {
            self.note(step, root);
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes note of the slot with this number whose end was observed last: a text and a tool call
    /// may share a number.
    fn reopen(&mut self, slot: SlotId) {
        let ended = self.ended.filter(|ended| ended.id == slot);
        let known = self.slots.keys().find(|known| known.id == slot).copied();
        if let Some(slot) = ended.or(known) {
            self.slots.insert(slot, CohereState::Open);
        }
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        let slot = self.known(slot);
        self.begin(out, slot);
        let (index, text) = (slot.id.item, quoted(text));
        let (event_type, message) = match slot.kind {
            SlotKind::Text => (
                "content-delta",
                format!(r#"{{"content":{{"text":{text}}}}}"#),
            ),
            SlotKind::Arguments => (
                "tool-call-delta",
                format!(r#"{{"tool_calls":{{"function":{{"arguments":{text}}}}}}}"#),
            ),
        };
        self.event(
            out,
            event_type,
            &format!(r#""index":{index},"delta":{{"message":{message}}}"#),
        );
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.end_all(out, None);
        let reason = quoted(
            ending
                .reasons
                .first()
                .map_or("COMPLETE", |(_, reason)| super::word(reason)),
        );
        let usage = ending
            .usage
            .map(|usage| format!(",\"usage\":{usage}"))
            .unwrap_or_default();
        let report = ending
            .report
            .map(|report| format!(",\"restitch\":{report}"))
            .unwrap_or_default();
        self.event(
            out,
            "message-end",
            &format!(r#""delta":{{"finish_reason":{reason}{usage}}}{report}"#),
        );
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        Encoder::event(out, None, None, "[DONE]");
    }

    /// Writes the report in a `debug` event, which the API has and which clients pass over.
    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.event(out, "debug", &format!("\"restitch\":{report}"));
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        let (message, code) = (quoted(message), quoted(code));
        let delta = format!(r#"{{"finish_reason":"ERROR","error":{message},"code":{code}}}"#);
        self.event(
            out,
            "message-end",
            &format!(r#""delta":{delta},"restitch":{report}"#),
        );
    }

    /// Writes the event with the client's number of its slot.
    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let root = fields::object(data);
        let written = root.and_then(|root| fields::word(root.member("type")));
        let kind = written.as_deref().unwrap_or(event_type);
        if kind == "message-start" && self.has_begun {
            self.adopted.clear();
            return;
        }
        let mut edits = Edits::default();
        if let Some((root, (slot, step))) = root.and_then(|root| Some((root, step(kind, root)?))) {
            let known = match step {
                CohereStep::Start => self.adopt_start(out, slot, root),
                // The text may be continued. The end is written with the next start, or at the end
                // of the answer.
                CohereStep::End
                    if self.slots.get(&self.known(slot)) == Some(&CohereState::Open) =>
                {
                    None
                }
                CohereStep::Delta | CohereStep::End => Some(self.known(slot)),
            };
            let Some(known) = known else { return };
            if let Some(index) = root.member("index").filter(|_| known != slot) {
                edits.replace(index, &known.id.item.to_string());
            }
            self.note((known, step), root);
        } else {
            self.observe(event_type, data);
        }
        let name = Some(event_type).filter(|name| *name != "message" && !self.is_nameless);
        Encoder::event(out, name, None, &edits.apply(data));
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = fields::object(data)?;
        let message = root.member("delta")?.member("message")?;
        let quoted = quoted(text);
        let mut edits = Edits::default();
        if let Some(content) =
            fields::object_of(message, "content").filter(|content| !is_thinking(*content))
        {
            edits.object(content, &[], &[("text", &quoted)]);
        } else {
            let function =
                fields::object_of(fields::object_of(message, "tool_calls")?, "function")?;
            edits.object(function, &[], &[("arguments", &quoted)]);
        }
        Some(edits.apply(data))
    }

    /// The event that ends a message has no other content, so it becomes empty.
    fn without_end(&self, data: &str) -> String {
        let delta = fields::object(data).and_then(|root| root.member("delta"));
        let is_end = delta.is_some_and(|delta| delta.member(super::FINISH).is_some());
        if is_end {
            String::new()
        } else {
            data.to_owned()
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        Encoder::comment(out, "restitch: waiting for the rest");
    }
}

fn is_thinking(content: Raw<'_>) -> bool {
    content.member("thinking").is_some()
}
