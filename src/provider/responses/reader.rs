//! Reads the events of a Responses stream.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{CALLS, CHANGING, call_of, finish, is_head, is_terminal};
use crate::json::walk::{Raw, Table, ValueKind};
use crate::provider::fields::{self, Texts, place, present, recorded_object, word};
use crate::provider::form::Form;
use crate::provider::{Delta, Kind, SlotId, wire};

/// A reader for one stream, event by event.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponsesReader {
    texts: Texts<TextSource>,
    /// The part of each text that was read. The events that end a text repeat it, and some servers
    /// send it only there.
    sent: BTreeMap<TextSource, Sent>,
    /// The state that all texts after the first [`MOST`] share.
    others: Sent,
    /// The client has a tool to run.
    has_calls: bool,
    form: Form<TextSource>,
}

/// A text of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TextSource {
    slot: SlotId,
    kind: TextKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TextKind {
    Answer,
    Refusal,
    Reasoning,
    Arguments,
}

/// The part of a text that was read: its length and its FNV-1a hash, instead of the text.
#[derive(Clone, Copy, Debug)]
struct Sent {
    len: usize,
    hash: u64,
    is_over: bool,
}

impl Default for Sent {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Sent {
    const NOTHING: Self = Self {
        len: 0,
        hash: 0xcbf2_9ce4_8422_2325,
        is_over: false,
    };

    fn push(&mut self, text: &str) {
        self.len = self.len.saturating_add(text.len());
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.hash = text.bytes().fold(self.hash, step);
    }

    /// Returns the missing end of a whole text. Empty if the whole text does not begin with the
    /// part that was read.
    fn missing<'a>(&self, whole: &'a str) -> &'a str {
        let Some((before, after)) = whole.split_at_checked(self.len) else {
            return "";
        };
        let mut sent = Self::NOTHING;
        sent.push(before);
        if sent.hash == self.hash { after } else { "" }
    }
}

impl wire::Reader for ResponsesReader {
    fn read(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        if let Some(event) = self.form.read(event_type, data) {
            self.more(event.subject, event.text, on);
            return Kind::Chunk;
        }
        self.form.start();
        let kind = self.read_fully(event_type, data, on);
        self.form.remember(event_type, data);
        kind
    }
}

impl ResponsesReader {
    fn read_fully(&mut self, event_type: &str, data: &str, on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        let mut table = Table::default();
        let Some(root) = recorded_object(&mut table, data) else {
            return fields::no_object(event_type, data, on);
        };
        let [kind, error, response] = root.pick(["type", "error", "response"]);
        let kind = word(kind);
        let name = kind.as_deref().unwrap_or(event_type);
        if is_terminal(name) {
            self.end(response, on);
            on(Delta::Done { word: name });
            return if name == "response.failed" {
                Kind::Error
            } else {
                Kind::Done
            };
        }
        if is_head(name) {
            if name == "response.created" {
                // Some recorded bodies hold several responses.
                if !self.sent.is_empty() {
                    on(Delta::Restart);
                }
                *self = Self {
                    form: std::mem::take(&mut self.form),
                    ..Self::default()
                };
            }
            return Kind::Chunk;
        }
        if name == "error" || present(error).is_some() {
            let error = present(error).unwrap_or(root);
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
            return Kind::Error;
        }
        if self.event(name, root, on) {
            Kind::Chunk
        } else {
            Kind::Other
        }
    }

    /// Reads an event inside a response. Returns whether it is one.
    fn event(&mut self, name: &str, root: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) -> bool {
        let Some(subject) = name.strip_prefix("response.") else {
            return false;
        };
        let [index, content, summary, delta, item, part] = root.pick([
            "output_index",
            "content_index",
            "summary_index",
            "delta",
            "item",
            "part",
        ]);
        let delta = delta.map(|delta| (root, delta));
        let index = place(index);
        if let Some(call) = CALLS.iter().find(|call| name.starts_with(call.event)) {
            let text = TextSource {
                kind: TextKind::Arguments,
                slot: SlotId::of(index),
            };
            if name.ends_with(".delta") {
                self.delta(text, delta, on);
            } else if name.ends_with(".done") {
                self.whole(text, root.member(call.member), true, on);
            }
            return true;
        }
        let answer = |kind| TextSource {
            kind,
            slot: SlotId::part(index, place(content)),
        };
        let thought = |at: u32| TextSource {
            kind: TextKind::Reasoning,
            slot: SlotId::part(index, at),
        };
        match subject {
            "output_text.delta" => self.delta(answer(TextKind::Answer), delta, on),
            "refusal.delta" => self.delta(answer(TextKind::Refusal), delta, on),
            "reasoning_summary_text.delta" => self.delta(thought(place(summary)), delta, on),
            "reasoning_text.delta" => {
                self.delta(thought(place(content).saturating_add(RAW)), delta, on);
            }
            "output_text.done" => {
                self.whole(answer(TextKind::Answer), root.member("text"), true, on);
            }
            "refusal.done" => {
                self.whole(answer(TextKind::Refusal), root.member("refusal"), true, on);
            }
            "reasoning_summary_text.done" => {
                self.whole(thought(place(summary)), root.member("text"), true, on);
            }
            "reasoning_text.done" => {
                self.whole(
                    thought(place(content).saturating_add(RAW)),
                    root.member("text"),
                    true,
                    on,
                );
            }
            "content_part.done" => self.part(index, place(content), part, true, on),
            "output_item.added" => self.added(index, item, on),
            "output_item.done" => {
                if let Some(item) = item {
                    self.item(index, item, true, on);
                }
            }
            _ => {}
        }
        true
    }

    /// Emits the end of a response, preceded by its items if none was received before.
    pub(super) fn end(&mut self, response: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let Some(response) = response else { return };
        let [output, usage, error] = response.pick(["output", "usage", "error"]);
        let items = || (0..).zip(output.into_iter().flat_map(|output| output.elements()));
        if self.sent.is_empty() {
            items().for_each(|(index, item)| self.item(index, item, false, on));
        }
        self.has_calls |= items().any(|(_, item)| calls_client(item));
        if let Some((reason, word)) = finish(response, self.has_calls) {
            on(Delta::Finish {
                choice: 0,
                reason,
                word: &word,
            });
        }
        if let Some(usage) = usage.filter(|usage| usage.kind() == ValueKind::Object) {
            on(Delta::Usage {
                raw: usage.as_str(),
            });
        }
        if let Some(error) = present(error) {
            on(Delta::Error {
                message: &fields::message(error),
                raw: error.as_str(),
            });
        }
    }

    /// Reads the start of an item. Its arguments may be there, too, but the events that end it
    /// repeat them.
    fn added(&mut self, index: u32, item: Option<Raw<'_>>, on: &mut dyn FnMut(Delta<'_>)) {
        let first = TextSource {
            slot: SlotId::of(index),
            kind: TextKind::Answer,
        };
        let of_item = self
            .sent
            .range(first..)
            .map(|(text, _)| *text)
            .take_while(|text| text.slot.item == index);
        for text in of_item.collect::<Vec<_>>() {
            self.sent.remove(&text);
        }
        self.texts.end(|text| text.slot.item == index);
        let Some(item) = item else { return };
        let is_call = word(item.member("type")).is_some_and(|kind| call_of(&kind).is_some());
        if is_call {
            self.start_call(index, item, on);
        }
    }

    fn start_call(&mut self, index: u32, item: Raw<'_>, on: &mut dyn FnMut(Delta<'_>)) {
        let [id, name] = item.pick(["call_id", "name"]);
        self.has_calls |= calls_client(item);
        // The id of an item is not the id of a call. A call that the server runs has no other: its
        // input is not continued.
        let id = word(id);
        let slot = SlotId::of(index);
        self.sent_of(TextSource {
            kind: TextKind::Arguments,
            slot,
        });
        let name = word(name);
        // A program that the server runs has neither: its text reports it.
        if id.is_some() || name.is_some() {
            on(Delta::ToolCall {
                slot,
                id: id.as_deref(),
                name: name.as_deref(),
                arguments: "",
            });
        }
    }

    /// Reads an item that is whole. `ends`: its texts end with it.
    fn item(&mut self, index: u32, item: Raw<'_>, ends: bool, on: &mut dyn FnMut(Delta<'_>)) {
        let [kind, content] = item.pick(["type", "content"]);
        let kind = word(kind);
        if let Some(call) = kind.as_deref().and_then(call_of) {
            let text = TextSource {
                kind: TextKind::Arguments,
                slot: SlotId::of(index),
            };
            if !self.sent.contains_key(&text) {
                self.start_call(index, item, on);
            }
            self.whole(text, item.member(call.member), ends, on);
        } else if kind.as_deref() == Some("message") {
            for (at, part) in (0..).zip(content.into_iter().flat_map(|content| content.elements()))
            {
                self.part(index, at, Some(part), ends, on);
            }
        }
    }

    fn part(
        &mut self,
        index: u32,
        at: u32,
        part: Option<Raw<'_>>,
        ends: bool,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        let Some(part) = part else { return };
        let slot = SlotId::part(index, at);
        let [kind, text, refusal] = part.pick(["type", "text", "refusal"]);
        match word(kind).as_deref() {
            Some("output_text") => self.whole(
                TextSource {
                    kind: TextKind::Answer,
                    slot,
                },
                text,
                ends,
                on,
            ),
            Some("refusal") => self.whole(
                TextSource {
                    kind: TextKind::Refusal,
                    slot,
                },
                refusal,
                ends,
                on,
            ),
            _ => {}
        }
    }

    /// Reads a delta, which has its event with it.
    fn delta(
        &mut self,
        text: TextSource,
        delta: Option<(Raw<'_>, Raw<'_>)>,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        let Some((event, delta)) = delta else { return };
        let Some(inner) = delta.inner() else { return };
        event
            .pick(CHANGING)
            .into_iter()
            .flatten()
            .for_each(|value| self.form.note_changing(value));
        self.form.note_text(text, delta);
        self.more(text, inner, on);
    }

    /// Emits more of a text, which is between two quotes.
    fn more(&mut self, text: TextSource, inner: &str, on: &mut dyn FnMut(Delta<'_>)) {
        let sent = sent_of(&mut self.sent, &mut self.others, text);
        let more = self.texts.decode(text, inner);
        sent.push(more);
        emit(text, more, on);
    }

    /// Emits the missing end of a whole text, and the end of the slot.
    fn whole(
        &mut self,
        text: TextSource,
        whole: Option<Raw<'_>>,
        ends: bool,
        on: &mut dyn FnMut(Delta<'_>),
    ) {
        self.texts.end(|other| *other == text);
        let sent = self.sent_of(text);
        let whole = match whole {
            Some(raw) if raw.kind() == ValueKind::Object => Cow::Borrowed(raw.as_str()),
            Some(raw) => raw.decode().unwrap_or_default(),
            None => Cow::Borrowed(""),
        };
        let missing = sent.missing(&whole);
        if !missing.is_empty() {
            sent.push(missing);
            emit(text, missing, on);
        }
        if ends && !std::mem::replace(&mut sent.is_over, true) && text.kind != TextKind::Reasoning {
            on(Delta::SlotEnd { slot: text.slot });
        }
    }

    fn sent_of(&mut self, text: TextSource) -> &mut Sent {
        sent_of(&mut self.sent, &mut self.others, text)
    }
}

/// Returns the part of a text that was read. The texts after the first [`MOST`] share one state,
/// and their ends add no text.
fn sent_of<'a>(
    known: &'a mut BTreeMap<TextSource, Sent>,
    others: &'a mut Sent,
    text: TextSource,
) -> &'a mut Sent {
    if known.len() >= MOST && !known.contains_key(&text) {
        *others = Sent {
            len: usize::MAX,
            ..Sent::NOTHING
        };
        return others;
    }
    known.entry(text).or_insert(Sent::NOTHING)
}

/// The number of texts whose read part is tracked. A response has some ten, and no items after the
/// first 256 are read.
const MOST: usize = 4096;

fn emit(text: TextSource, more: &str, on: &mut dyn FnMut(Delta<'_>)) {
    let slot = text.slot;
    match text.kind {
        TextKind::Answer => on(Delta::Text { slot, text: more }),
        TextKind::Refusal => on(Delta::Refusal { slot, text: more }),
        TextKind::Reasoning if more.is_empty() => {}
        TextKind::Reasoning => on(Delta::Reasoning { slot, text: more }),
        TextKind::Arguments => on(Delta::ToolCall {
            slot,
            id: None,
            name: None,
            arguments: more,
        }),
    }
}

/// Returns whether the client has to run the tool of an item.
fn calls_client(item: Raw<'_>) -> bool {
    word(item.member("type"))
        .and_then(|kind| call_of(&kind))
        .is_some_and(|call| call.is_clients)
}

/// The offset of the index of a reasoning text, so that it differs from that of a summary of the
/// same item.
const RAW: u32 = 1 << 16;
