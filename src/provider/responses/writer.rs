//! Writes events that continue a Responses stream.

use super::adopt::Held;
use super::items::{Item, ItemKind, Items, Numbers, Origin, with};
use super::{CALLS, CHANGING, ResponsesCall, is_head, is_terminal, status};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::{Raw, ValueKind};
use crate::provider::fields::{object, place, word};
use crate::provider::form::Form;
use crate::provider::wire::{self, Ending, Kept, Slot, SlotKind, SlotText};
use crate::provider::{Finish, SlotId};
use crate::sse::Encoder;

/// A writer of events of the response that the client is already reading.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponsesWriter {
    /// The last response object that was received, without its items. Empty: the client knows none.
    pub(super) response: String,
    pub(super) items: Items,
    pub(super) numbers: Numbers,
    /// Events of another answer that end a text which may be continued.
    pub(super) held: Vec<Held>,
    form: Form<ItemDelta>,
}

/// Where the text of a delta belongs.
#[derive(Clone, Copy, Debug)]
struct ItemDelta {
    index: u32,
    content: u32,
    /// `None`: text of the answer, or a refusal.
    call: Option<&'static ResponsesCall>,
}

impl wire::Writer for ResponsesWriter {
    fn observe(&mut self, event_type: &str, data: &str) {
        if let Some(event) = self.form.read(event_type, data) {
            self.numbers.note(event.number.parse().ok(), None);
            return self.push(event.subject, event.text);
        }
        self.form.start();
        let Some(root) = object(data) else { return };
        let kind = word(root.member("type"));
        let name = kind.as_deref().unwrap_or(event_type);
        self.note(name, root);
        self.form.remember(event_type, data);
    }

    fn has_begun(&self) -> bool {
        !self.response.is_empty()
    }

    fn resume(&self) -> Option<String> {
        let [id, store, background] = object(&self.response)?.pick(["id", "store", "background"]);
        let is_on = |value: Option<Raw<'_>>| value.and_then(|value| value.as_bool()) == Some(true);
        let id = word(id).filter(|id| {
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        })?;
        let after = self.numbers.sent()?;
        (is_on(store) || is_on(background))
            .then(|| format!("/{id}?stream=true&starting_after={after}"))
    }

    fn reopen(&mut self, slot: SlotId) {
        let Some(index) = self.items.of_slot(slot.item).map(|item| item.index) else {
            return;
        };
        self.items.change(index, |item| {
            item.is_open = true;
            item.arguments.is_over = false;
            let part = slot.part.unwrap_or(0);
            if let Some(part) = item.parts.iter_mut().find(|other| other.index == part) {
                (part.is_open, part.text.is_over) = (true, false);
            }
        });
        self.numbers.reopen(index);
    }

    fn kept(&self) -> Kept {
        let held = self.held.iter().map(|held| held.data.len()).sum::<usize>();
        let kept = self.items.kept();
        Kept {
            bytes: kept.bytes + held,
            ..kept
        }
    }

    fn text(&mut self, out: &mut Vec<u8>, slot: Slot, text: &str) {
        self.continue_held(out, slot);
        let index = self.place_of(out, slot);
        let (numbers, delta) = (&mut self.numbers, quoted(text));
        self.items.change(index, |item| {
            let id = quoted(&item.id());
            let number = numbers.next();
            let head = format!(r#"{number}"item_id":{id},"output_index":{index}"#);
            if let ItemKind::Call(call) = item.kind {
                item.arguments.push(text);
                event(
                    out,
                    &format!("{}.delta", call.event),
                    &format!(r#"{head},"delta":{delta}"#),
                );
            } else {
                let part = item.part(slot.id.part.unwrap_or(0));
                part.text.push(text);
                let content = part.index;
                let data =
                    format!(r#"{head},"content_index":{content},"delta":{delta},"logprobs":[]"#);
                event(out, "response.output_text.delta", &data);
            }
        });
    }

    fn finish(&mut self, out: &mut Vec<u8>, texts: &[SlotText<'_>], ending: &Ending<'_>) {
        self.release(out);
        self.begin(out);
        let (status, details) = status(
            ending
                .reasons
                .first()
                .map_or(&Finish::Stop, |(_, reason)| reason),
        );
        let item_status = quoted(if status == "completed" {
            status
        } else {
            super::INCOMPLETE
        });
        let numbers = &mut self.numbers;
        self.items.change_all(|item| {
            if item.is_open {
                end_item(out, item, texts, &item_status, numbers);
            }
        });
        let output = self.output();
        let (quoted_status, usage) = (quoted(status), ending.usage);
        let mut set = vec![
            ("status", quoted_status.as_str()),
            ("incomplete_details", &details),
            ("output", &output),
        ];
        set.extend(usage.map(|usage| ("usage", usage)));
        let response = with(&self.response, &set);
        let report = ending
            .report
            .map(|report| format!(r#","restitch":{report}"#))
            .unwrap_or_default();
        let number = self.numbers.next();
        event(
            out,
            &format!("response.{status}"),
            &format!(r#"{number}"response":{response}{report}"#),
        );
    }

    fn report(&mut self, out: &mut Vec<u8>, report: &str) {
        self.release(out);
        let number = self.numbers.next();
        event(out, "keepalive", &format!(r#"{number}"restitch":{report}"#));
    }

    fn error(&mut self, out: &mut Vec<u8>, message: &str, code: &str, report: &str) {
        let (number, message, code) = (self.numbers.next(), quoted(message), quoted(code));
        // The reference has the members in the event; the server sends them in an object, where
        // clients look for them.
        let members = format!(r#""code":{code},"message":{message},"param":null"#);
        let error = format!(r#"{{"type":"upstream_error",{members}}}"#);
        event(
            out,
            "error",
            &format!(r#"{number}{members},"error":{error},"restitch":{report}"#),
        );
    }

    fn adopt(&mut self, out: &mut Vec<u8>, event_type: &str, data: &str) {
        let Some(root) = object(data) else { return };
        let kind = word(root.member("type"));
        let name = kind.as_deref().unwrap_or(event_type);
        if is_head(name) && self.has_begun() {
            self.items.forget_slots();
        } else if self.may_continue(name, root) {
            self.held.push(Held {
                name: name.to_owned(),
                data: data.to_owned(),
            });
        } else {
            self.release(out);
            self.adopt_event(out, name, data);
        }
    }

    fn with_text(&self, data: &str, text: &str) -> Option<String> {
        let root = object(data)?;
        let [kind, delta] = root.pick(["type", "delta"]);
        let kind = word(kind)?;
        let is_call = |call: &ResponsesCall| kind.strip_prefix(call.event) == Some(".delta");
        if kind != "response.output_text.delta" && !CALLS.iter().any(is_call) {
            return None;
        }
        let mut edits = Edits::default();
        edits.replace(delta?, &quoted(text));
        Some(edits.apply(data))
    }

    fn with_whole_texts(&mut self, data: &str, texts: &[SlotText<'_>]) -> Option<String> {
        let root = object(data)?;
        let [kind, index, content, item, part] =
            root.pick(["type", "output_index", "content_index", "item", "part"]);
        let (kind, index, content) = (word(kind)?, place(index), place(content));
        let mut changes = ItemChanges {
            edits: Edits::default(),
            is_changed: false,
            texts,
        };
        match &*kind {
            "response.output_item.done" => changes.item(index, item?),
            "response.content_part.done" => {
                changes.text(SlotKind::Text, index, content, part?.member("text"));
            }
            "response.output_text.done" => {
                changes.text(SlotKind::Text, index, content, root.member("text"));
            }
            kind => {
                let call = CALLS
                    .iter()
                    .find(|call| kind.strip_prefix(call.event) == Some(".done"))?;
                changes.text(SlotKind::Arguments, index, 0, root.member(call.member));
            }
        }
        let edited = changes.is_changed.then(|| changes.edits.apply(data))?;
        self.note(&kind, object(&edited)?);
        Some(edited)
    }

    /// The event that ends a response has no other content, so it becomes empty.
    fn without_end(&self, data: &str) -> String {
        let kind = object(data).and_then(|root| word(root.member("type")));
        if kind.is_some_and(|kind| is_terminal(&kind)) {
            String::new()
        } else {
            data.to_owned()
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        Encoder::comment(out, "keep-alive");
    }
}

impl ResponsesWriter {
    /// Returns all items, as a JSON array.
    pub(super) fn output(&self) -> String {
        let is_open = |item: &Item| item.is_open && !matches!(item.kind, ItemKind::Other);
        let items = self.items.iter().map(|item| match is_open(item) {
            true => item.written(&[], "\"incomplete\""),
            false => item.raw.clone(),
        });
        format!("[{}]", items.collect::<Vec<_>>().join(","))
    }

    /// Takes note of an event.
    pub(super) fn note(&mut self, name: &str, root: Raw<'_>) {
        let [number, index, content, delta] =
            root.pick(["sequence_number", "output_index", "content_index", "delta"]);
        let number = number.and_then(|number| number.as_u64());
        if is_terminal(name) || is_head(name) {
            // A failure that is continued never reaches the client, so the response does not get
            // its error.
            if name != "response.failed" {
                self.note_response(root.member("response"));
            }
        } else if !name.starts_with("response.") {
            // Some servers number their pings, too. An error that is continued never reaches the
            // client.
            if number.is_some() && name != "error" {
                self.numbers.note(number, None);
            }
            return;
        }
        if is_terminal(name) {
            return;
        }
        let (index, content) = (place(index), place(content));
        // The number of an end may be free again: that of an item which the client knows.
        let is_end = name.ends_with(".done")
            && (self.items.get(index).is_some() || name.ends_with("_item.done"));
        self.numbers.note(number, is_end.then_some(index));
        match name {
            "response.output_item.added" => self.note_item(index, root.member("item"), true),
            "response.output_item.done" => self.note_item(index, root.member("item"), false),
            _ => match delta
                .filter(|delta| delta.kind() == ValueKind::String)
                .zip(delta_call(name))
            {
                Some((delta, call)) => {
                    let subject = ItemDelta {
                        index,
                        content,
                        call,
                    };
                    let [number, padding] = root.pick(CHANGING);
                    // The only number in the template is that of the event.
                    let padding = padding.filter(|padding| padding.kind() == ValueKind::String);
                    number
                        .into_iter()
                        .chain(padding)
                        .for_each(|value| self.form.note_changing(value));
                    self.form.note_text(subject, delta);
                    self.push(subject, delta.inner().unwrap_or_default());
                }
                None => self.note_text(name, root, index, content),
            },
        }
    }

    /// Takes note of more of a text, which is between two quotes.
    fn push(&mut self, delta: ItemDelta, inner: &str) {
        let has_part = |item: &Item| item.parts.iter().any(|part| part.index == delta.content);
        let is_unknown = |item: &Item| matches!(item.kind, ItemKind::Message) && !has_part(item);
        // A server may leave out the event that adds a part.
        if delta.call.is_none() && self.items.get(delta.index).is_some_and(is_unknown) {
            self.items.change(delta.index, |item| {
                item.part(delta.content);
            });
        }
        self.items.push_text(
            delta.index,
            |item| match (item.kind, delta.call) {
                (ItemKind::Message, None) => Some(&mut item.part(delta.content).text),
                (ItemKind::Call(call), Some(other)) if call.event == other.event => {
                    Some(&mut item.arguments)
                }
                _ => None,
            },
            inner,
        );
    }

    /// Takes note of an event inside an item.
    fn note_text(&mut self, name: &str, root: Raw<'_>, index: u32, content: u32) {
        self.items.change(index, |item| match (item.kind, name) {
            (ItemKind::Message, "response.content_part.added" | "response.content_part.done") => {
                if let Some(part) = root.member("part") {
                    item.part(content).set(part, name.ends_with(".added"));
                }
            }
            (ItemKind::Message, "response.output_text.done") => {
                item.part(content).text.end(root.member("text"));
            }
            (ItemKind::Message, "response.refusal.done") => {
                item.part(content).text.end(root.member("refusal"));
            }
            (ItemKind::Call(call), name) if name.strip_prefix(call.event) == Some(".done") => {
                item.arguments.end(root.member(call.member));
            }
            _ => {}
        });
    }

    fn note_response(&mut self, response: Option<Raw<'_>>) {
        if let Some(response) = response {
            // The items are kept one by one.
            self.response = with(response.as_str(), &[("output", "[]")]);
        }
    }

    fn note_item(&mut self, index: u32, item: Option<Raw<'_>>, is_open: bool) {
        let Some(item) = item else { return };
        let mut item = Item::new(index, item, is_open);
        // An adopted item is known before its first event is noted.
        if let Some(known) = self
            .items
            .get(index)
            .filter(|known| !is_open || known.origin == Origin::Adopted)
        {
            (item.slot, item.origin) = (known.slot, known.origin);
        }
        self.items.insert(item);
    }

    /// Writes the start of the response, if the client knows none.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.response.is_empty() {
            UNSEEN.clone_into(&mut self.response);
            let number = self.numbers.next();
            event(
                out,
                "response.created",
                &format!(r#"{number}"response":{UNSEEN}"#),
            );
        }
    }

    /// Returns the index of a slot's item. Writes the events that start the item and its part if
    /// the client does not know them.
    fn place_of(&mut self, out: &mut Vec<u8>, slot: Slot) -> u32 {
        self.begin(out);
        let known = self
            .items
            .of_slot(slot.id.item)
            .filter(|item| item.has(slot))
            .map(|item| item.index);
        let index = known.unwrap_or_else(|| self.start_item(out, slot));
        let (numbers, part) = (&mut self.numbers, slot.id.part.unwrap_or(0));
        self.items.change(index, |item| {
            if slot.kind == SlotKind::Text && !item.parts.iter().any(|other| other.index == part) {
                let (id, number) = (quoted(&item.id()), numbers.next());
                let place =
                    format!(r#""item_id":{id},"output_index":{index},"content_index":{part}"#);
                let raw = &item.part(part).raw;
                event(
                    out,
                    "response.content_part.added",
                    &format!(r#"{number}{place},"part":{raw}"#),
                );
            }
        });
        index
    }

    fn start_item(&mut self, out: &mut Vec<u8>, slot: Slot) -> u32 {
        let index = self.items.next_index();
        let raw = match slot.kind {
            SlotKind::Text => format!(
                r#"{{"id":"msg_restitch_{index}","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#
            ),
            SlotKind::Arguments => format!(
                r#"{{"id":"fc_restitch_{index}","type":"function_call","status":"in_progress","arguments":"","call_id":"call_restitch_{index}","name":""}}"#
            ),
        };
        let number = self.numbers.next();
        event(
            out,
            "response.output_item.added",
            &format!(r#"{number}"output_index":{index},"item":{raw}"#),
        );
        if let Some(root) = Raw::root(&raw) {
            self.items.insert(Item {
                slot: Some(slot.id.item),
                ..Item::new(index, root, true)
            });
        }
        index
    }
}

/// Edits an event that repeats whole texts.
struct ItemChanges<'a> {
    edits: Edits,
    is_changed: bool,
    /// The texts that the client has received.
    texts: &'a [SlotText<'a>],
}

impl ItemChanges<'_> {
    /// Sets the texts of an item.
    fn item(&mut self, index: u32, item: Raw<'_>) {
        let [kind, content] = item.pick(["type", "content"]);
        let kind = word(kind).unwrap_or_default();
        if let Some(call) = super::call_of(&kind) {
            self.text(SlotKind::Arguments, index, 0, item.member(call.member));
        } else if kind == "message" {
            for (at, part) in (0..).zip(content.into_iter().flat_map(|content| content.elements()))
            {
                self.text(SlotKind::Text, index, at, part.member("text"));
            }
        }
    }

    /// Sets one text, if it differs.
    fn text(&mut self, kind: SlotKind, item: u32, part: u32, value: Option<Raw<'_>>) {
        let is_this = |text: &&SlotText<'_>| {
            let slot = text.slot;
            slot.kind == kind && slot.id.item == item && slot.id.part.unwrap_or(0) == part
        };
        let known = self.texts.iter().find(is_this);
        if let Some((value, known)) = value.zip(known)
            && value.decode().is_none_or(|text| text != known.text)
        {
            self.edits.replace(value, &quoted(known.text));
            self.is_changed = true;
        }
    }
}

/// Returns the kind of text that an event extends: that of a call, or else of a message.
fn delta_call(name: &str) -> Option<Option<&'static ResponsesCall>> {
    match name {
        "response.output_text.delta" | "response.refusal.delta" => Some(None),
        _ => CALLS
            .iter()
            .find(|call| name.strip_prefix(call.event) == Some(".delta"))
            .map(Some),
    }
}

/// Writes those events that end an item and that the client does not have yet.
pub(super) fn end_item(
    out: &mut Vec<u8>,
    item: &mut Item,
    texts: &[SlotText<'_>],
    status: &str,
    numbers: &mut Numbers,
) {
    let place = format!(
        r#""item_id":{},"output_index":{}"#,
        quoted(&item.id()),
        item.index
    );
    if let ItemKind::Call(call) = item.kind
        && !item.arguments.is_over
    {
        let (number, arguments) = (numbers.next(), item.text(None, texts));
        let data = format!(r#"{number}{place},"{}":{arguments}"#, call.member);
        event(out, &format!("{}.done", call.event), &data);
    }
    for part in item.parts.iter().filter(|part| part.is_open) {
        let (text, member) = (item.text(Some(part), texts), part.member());
        let place = format!(r#"{place},"content_index":{}"#, part.index);
        if !part.text.is_over {
            let name = if member == "refusal" {
                "response.refusal.done"
            } else {
                "response.output_text.done"
            };
            let logprobs = if member == "refusal" {
                ""
            } else {
                r#","logprobs":[]"#
            };
            event(
                out,
                name,
                &format!(r#"{}{place},"{member}":{text}{logprobs}"#, numbers.next()),
            );
        }
        let data = format!(
            r#"{}{place},"part":{}"#,
            numbers.next(),
            part.written(&text)
        );
        event(out, "response.content_part.done", &data);
    }
    item.raw = item.written(texts, status);
    let data = format!(
        r#"{}"output_index":{},"item":{}"#,
        numbers.next(),
        item.index,
        item.raw
    );
    event(out, "response.output_item.done", &data);
    item.is_open = false;
}

/// Writes an event. `members` are raw JSON, without the event's type.
fn event(out: &mut Vec<u8>, name: &str, members: &str) {
    Encoder::event(
        out,
        Some(name),
        None,
        &format!(r#"{{"type":"{name}",{members}}}"#),
    );
}

/// A response that broke off before its first event.
const UNSEEN: &str = concat!(
    r#"{"id":"resp_restitch","object":"response","created_at":0,"status":"in_progress","error":null,"#,
    r#""incomplete_details":null,"instructions":null,"metadata":{},"model":"","output":[],"parallel_tool_calls":true,"#,
    r#""temperature":null,"tool_choice":"auto","tools":[],"top_p":null,"usage":null}"#
);
