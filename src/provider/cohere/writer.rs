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
/// It knows which contents and tool calls the client has seen begin and end, so that each begins and ends once.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// `message-start` was observed.
    has_begun: bool,
    /// The first event has no name beside its type.
    is_nameless: bool,
    /// The slots that have begun, and whether they are open.
    slots: BTreeMap<Slot, bool>,
    /// The slot whose end was observed last.
    ended: Option<Slot>,
}

impl Writer {
    fn event(&self, out: &mut Vec<u8>, event_type: &str, members: &str) {
        let name = (!self.is_nameless).then_some(event_type);
        Encoder::event(out, name, None, &format!("{{\"type\":\"{event_type}\",{}}}", fields::one_line(members)));
    }

    /// Ends a slot for the client.
    fn end(&mut self, out: &mut Vec<u8>, slot: Slot) {
        let event_type = if slot.kind == SlotKind::Text { "content-end" } else { "tool-call-end" };
        self.event(out, event_type, &format!("\"index\":{}", slot.id.item));
        self.slots.insert(slot, false);
    }

    /// Ends the slots that are open, in their order.
    fn end_all(&mut self, out: &mut Vec<u8>) {
        let open: Vec<_> = self.slots.iter().filter(|(_, is_open)| **is_open).map(|(slot, _)| *slot).collect();
        for slot in open {
            self.end(out, slot);
        }
    }

    /// Begins a slot if the client does not know it. The name of an unknown tool call can't be told.
    fn begin(&mut self, out: &mut Vec<u8>, slot: Slot) {
        if self.slots.contains_key(&slot) {
            return;
        }
        let index = slot.id.item;
        match slot.kind {
            SlotKind::Text => {
                let content = r#"{"message":{"content":{"type":"text","text":""}}}"#;
                self.event(out, "content-start", &format!("\"index\":{index},\"delta\":{content}"));
            }
            SlotKind::Arguments => {
                let call = r#"{"type":"function","function":{"name":"","arguments":""}}"#;
                let delta = format!(r#"{{"message":{{"tool_calls":{call}}}}}"#);
                self.event(out, "tool-call-start", &format!("\"index\":{index},\"delta\":{delta}"));
            }
        }
        self.slots.insert(slot, true);
    }
}

impl wire::Writer for Writer {
    fn observe(&mut self, event_type: &str, data: &str) {
        let Some(root) = fields::object(data) else { return };
        let written = fields::word(root.member("type"));
        let id = SlotId::of(fields::number(root.member("index")).unwrap_or_default());
        let (text, call) = (Slot { id, kind: SlotKind::Text }, Slot { id, kind: SlotKind::Arguments });
        match written.as_deref().unwrap_or(event_type) {
            "message-start" => {
                self.has_begun = true;
                self.is_nameless = event_type == "message";
            }
            "content-start" | "content-delta" => {
                self.slots.insert(text, true);
            }
            "tool-call-start" | "tool-call-delta" => {
                self.slots.insert(call, true);
            }
            "content-end" => {
                self.slots.insert(text, false);
                self.ended = Some(text);
            }
            "tool-call-end" => {
                self.slots.insert(call, false);
                self.ended = Some(call);
            }
            _ => {}
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes note of the slot with this number whose end was observed last: a text and a tool call may share a number.
    fn reopen(&mut self, slot: SlotId) {
        let ended = self.ended.filter(|ended| ended.id == slot);
        let known = self.slots.keys().find(|known| known.id == slot).copied();
        if let Some(slot) = ended.or(known) {
            self.slots.insert(slot, true);
        }
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        self.begin(out, slot);
        let (index, text) = (slot.id.item, quoted(text));
        let (event_type, message) = match slot.kind {
            SlotKind::Text => ("content-delta", format!(r#"{{"content":{{"text":{text}}}}}"#)),
            SlotKind::Arguments => {
                ("tool-call-delta", format!(r#"{{"tool_calls":{{"function":{{"arguments":{text}}}}}}}"#))
            }
        };
        self.event(out, event_type, &format!(r#""index":{index},"delta":{{"message":{message}}}"#));
    }

    fn finish(&mut self, out: &mut Vec<u8>, _texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.end_all(out);
        let reason = quoted(ending.reasons.first().map_or("COMPLETE", |(_, reason)| super::word(reason)));
        let usage = ending.usage.map(|usage| format!(",\"usage\":{usage}")).unwrap_or_default();
        let report = ending.report.map(|report| format!(",\"restitch\":{report}")).unwrap_or_default();
        self.event(out, "message-end", &format!(r#""delta":{{"finish_reason":{reason}{usage}}}{report}"#));
        self.done(out);
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
        self.event(out, "message-end", &format!(r#""delta":{delta},"restitch":{report}"#));
    }

    /// Writes the event as it is: only `message-start` has members that belong to one answer.
    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let name = Some(event_type).filter(|name| *name != "message" && !self.is_nameless);
        Encoder::event(out, name, None, data);
        self.observe(event_type, data);
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = fields::object(data)?;
        let message = root.member("delta")?.member("message")?;
        let quoted = quoted(text);
        let mut edits = Edits::default();
        if let Some(content) = fields::object_of(message, "content").filter(|content| !is_thinking(*content)) {
            edits.object(content, &[], &[("text", &quoted)]);
        } else {
            let function = fields::object_of(fields::object_of(message, "tool_calls")?, "function")?;
            edits.object(function, &[], &[("arguments", &quoted)]);
        }
        Some(edits.apply(data))
    }

    fn without_end(&self, data: &str) -> String {
        let mut edits = Edits::default();
        if let Some(delta) = fields::object(data).and_then(|root| fields::object_of(root, "delta")) {
            edits.object(delta, &[super::FINISH, "usage"], &[]);
        }
        edits.apply(data)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        Encoder::comment(out, "restitch: waiting for the rest");
    }
}

fn is_thinking(content: Raw<'_>) -> bool {
    content.member("thinking").is_some()
}
