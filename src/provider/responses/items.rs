//! The client's view of a response: its items and their parts, and the numbers of its events.

use std::collections::{BTreeMap, HashMap};

use super::ResponsesCall;
use super::body::unseen_part;
use crate::json::edit::Edits;
use crate::json::string::escape_into;
use crate::json::walk::Raw;
use crate::provider::fields::word;
use crate::provider::wire::{Kept, Slot, SlotKind, SlotText};

/// The items that the client knows, in order of their index.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    by_index: BTreeMap<u32, Item>,
    /// The index of each item that has a slot, by slot.
    by_slot: HashMap<u32, u32>,
    kept: Kept,
}

impl Items {
    /// Returns the size of all items without their texts. A part of a message counts as an item.
    pub(super) fn kept(&self) -> Kept {
        self.kept
    }

    pub(super) fn get(&self, index: u32) -> Option<&Item> {
        self.by_index.get(&index)
    }

    /// Returns the item that a slot of the answer being read belongs to.
    pub(super) fn of_slot(&self, slot: u32) -> Option<&Item> {
        self.by_index.get(self.by_slot.get(&slot)?)
    }

    /// Changes an item.
    pub(super) fn change<T>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Item) -> T,
    ) -> Option<T> {
        let item = self.by_index.get_mut(&index)?;
        let before = item.kept();
        let changed = change(item);
        let after = item.kept();
        self.kept.items = self.kept.items - before.items + after.items;
        self.kept.bytes = self.kept.bytes - before.bytes + after.bytes;
        Some(changed)
    }

    /// Adds more of a text of an item, which is between two quotes. Texts are not counted here, so
    /// the cost of a delta does not depend on the number of parts.
    pub(super) fn push_text(
        &mut self,
        index: u32,
        text: impl FnOnce(&mut Item) -> Option<&mut Text>,
        inner: &str,
    ) {
        if let Some(text) = self.by_index.get_mut(&index).and_then(text) {
            text.push_inner(inner);
        }
    }

    /// Changes each item.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Item)) {
        self.by_index.values_mut().for_each(&mut change);
        let kept = self.by_index.values().map(Item::kept);
        self.kept = kept.fold(Kept::default(), |sum, item| Kept {
            items: sum.items + item.items,
            bytes: sum.bytes + item.bytes,
        });
    }

    /// Adds an item, replacing one with the same index. From now on its slot belongs to no other
    /// item.
    pub(super) fn insert(&mut self, item: Item) {
        let (index, slot) = (item.index, item.slot);
        let kept = item.kept();
        (self.kept.items, self.kept.bytes) =
            (self.kept.items + kept.items, self.kept.bytes + kept.bytes);
        self.set_slot(index, None);
        if let Some(known) = self.by_index.insert(index, item).map(|known| known.kept()) {
            (self.kept.items, self.kept.bytes) =
                (self.kept.items - known.items, self.kept.bytes - known.bytes);
        }
        self.set_slot(index, slot);
    }

    /// Gives an item another slot, or none.
    pub(super) fn set_slot(&mut self, index: u32, slot: Option<u32>) {
        let Some(item) = self.by_index.get_mut(&index) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut item.slot, slot)
            && self.by_slot.get(&before) == Some(&index)
        {
            self.by_slot.remove(&before);
        }
        if let Some(other) = slot
            .and_then(|slot| self.by_slot.insert(slot, index))
            .filter(|other| *other != index)
            && let Some(other) = self.by_index.get_mut(&other)
        {
            other.slot = None;
        }
    }

    /// Takes the slots of all items: the answer that they are of broke off.
    pub(super) fn forget_slots(&mut self) {
        self.by_slot.clear();
        self.by_index.values_mut().for_each(|item| item.slot = None);
    }

    /// Returns the index after all others.
    pub(super) fn next_index(&self) -> u32 {
        self.by_index
            .last_key_value()
            .map_or(0, |(index, _)| index.saturating_add(1))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.by_index.values()
    }
}

/// An item of a response.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The item's number in the slots of the answer that is being read: its index there. `None`:
    /// the item belongs to an answer that broke off.
    pub(super) slot: Option<u32>,
    pub(super) origin: Origin,
    pub(super) index: u32,
    pub(super) kind: ItemKind,
    /// The raw item from its last event, which is its start or its end.
    pub(super) raw: String,
    pub(super) is_open: bool,
    /// The parts of a message.
    pub(super) parts: Vec<Part>,
    /// The arguments of a call.
    pub(super) arguments: Text,
}

/// The answer to which an item belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The first answer, or an item that was written for it.
    First,
    /// Another answer, whose events were adopted.
    Adopted,
    /// The first one, which broke off; its text is another answer's.
    Shared,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemKind {
    Message,
    Call(&'static ResponsesCall),
    /// Nothing is written to it.
    Other,
}

/// A part of a message.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) index: u32,
    /// The raw part from its last event, which is its start or its end.
    pub(super) raw: String,
    pub(super) is_open: bool,
    pub(super) text: Text,
}

/// The text that the client has of a part or of arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// The text between its quotes, with its escapes.
    inner: String,
    /// The client has the event that repeats the text.
    pub(super) is_over: bool,
}

impl Text {
    /// Adds the text between the quotes of a string.
    pub(super) fn push_inner(&mut self, inner: &str) {
        self.inner.push_str(inner);
    }

    /// Adds text.
    pub(super) fn push(&mut self, text: &str) {
        let mut escaped = Vec::new();
        escape_into(&mut escaped, text);
        self.inner.push_str(&String::from_utf8_lossy(&escaped));
    }

    /// Sets the text to that of the event that ends it.
    pub(super) fn end(&mut self, string: Option<Raw<'_>>) {
        self.is_over = true;
        if let Some(inner) = string.and_then(|string| string.inner()) {
            inner.clone_into(&mut self.inner);
        }
    }

    /// Returns the text as a JSON string.
    fn quoted(&self) -> String {
        format!("\"{}\"", self.inner)
    }
}

impl Part {
    /// Creates a part without data except its index.
    pub(super) fn new(index: u32) -> Self {
        Self {
            index,
            raw: unseen_part("\"\""),
            is_open: true,
            text: Text::default(),
        }
    }

    /// Replaces the part by a received one.
    pub(super) fn set(&mut self, raw: Raw<'_>, is_open: bool) {
        raw.as_str().clone_into(&mut self.raw);
        self.is_open = is_open;
        if !is_open {
            let text = raw.member(self.member());
            self.text.end(text);
        }
    }

    /// Returns the member that has the text.
    pub(super) fn member(&self) -> &'static str {
        let kind = Raw::root(&self.raw).and_then(|raw| word(raw.member("type")));
        if kind.is_some_and(|kind| kind == "refusal") {
            "refusal"
        } else {
            "text"
        }
    }

    /// Returns the part with its text.
    pub(super) fn written(&self, text: &str) -> String {
        with(&self.raw, &[(self.member(), text)])
    }
}

impl Item {
    /// Reads a received item.
    pub(super) fn new(index: u32, raw: Raw<'_>, is_open: bool) -> Self {
        let [kind, content] = raw.pick(["type", "content"]);
        let kind = match word(kind).as_deref() {
            Some("message") => ItemKind::Message,
            Some(kind) => super::call_of(kind).map_or(ItemKind::Other, ItemKind::Call),
            None => ItemKind::Other,
        };
        let (mut parts, mut arguments) = (Vec::new(), Text::default());
        match kind {
            ItemKind::Message => {
                for (at, raw) in
                    (0..).zip(content.into_iter().flat_map(|content| content.elements()))
                {
                    let mut part = Part::new(at);
                    part.set(raw, is_open);
                    parts.push(part);
                }
            }
            ItemKind::Call(call) if !is_open => arguments.end(raw.member(call.member)),
            ItemKind::Call(_) | ItemKind::Other => {}
        }
        let (slot, origin) = (Some(index), Origin::First);
        Self {
            slot,
            origin,
            index,
            kind,
            raw: raw.as_str().to_owned(),
            is_open,
            parts,
            arguments,
        }
    }

    /// Returns the size of the item without its texts, which are counted when they are read.
    fn kept(&self) -> Kept {
        let texts: usize = self.parts.iter().map(|part| part.text.inner.len()).sum();
        let parts: usize = self.parts.iter().map(|part| part.raw.len()).sum();
        let own = self
            .raw
            .len()
            .saturating_sub(texts + self.arguments.inner.len());
        Kept {
            items: self.parts.len().max(1),
            bytes: own + parts.saturating_sub(texts),
        }
    }

    /// Returns the item's id.
    pub(super) fn id(&self) -> String {
        let raw = Raw::root(&self.raw);
        word(raw.and_then(|raw| raw.member("id")))
            .unwrap_or_default()
            .into_owned()
    }

    /// Returns whether a slot's text is written to this item.
    pub(super) fn has(&self, slot: Slot) -> bool {
        let fits = match self.kind {
            ItemKind::Message => slot.kind == SlotKind::Text,
            ItemKind::Call(_) => slot.kind == SlotKind::Arguments,
            ItemKind::Other => false,
        };
        fits && self.slot == Some(slot.id.item)
    }

    /// Returns whether the message of the next answer can be this item: its own answer broke off
    /// before its text.
    pub(super) fn is_waiting(&self) -> bool {
        let is_empty = self
            .parts
            .iter()
            .all(|part| part.is_open && part.text.inner.is_empty());
        self.is_open && self.slot.is_none() && matches!(self.kind, ItemKind::Message) && is_empty
    }

    /// Returns a part of this item, which is added if it is not known.
    pub(super) fn part(&mut self, index: u32) -> &mut Part {
        let at = self
            .parts
            .iter()
            .position(|part| part.index == index)
            .unwrap_or(self.parts.len());
        if at == self.parts.len() {
            self.parts.push(Part::new(index));
        }
        &mut self.parts[at]
    }

    /// Returns the text of a part, or the arguments, as a JSON string.
    pub(super) fn text(&self, part: Option<&Part>, texts: &[SlotText<'_>]) -> String {
        let is_this = |text: &&SlotText<'_>| {
            self.has(text.slot)
                && part.is_none_or(|part| text.slot.id.part.unwrap_or(0) == part.index)
        };
        // The text of another answer begins with the text of the answer before, which may be in
        // another item.
        match texts
            .iter()
            .find(is_this)
            .filter(|_| self.origin == Origin::First)
        {
            Some(text) => crate::json::string::quoted(text.text),
            None => part.map_or(&self.arguments, |part| &part.text).quoted(),
        }
    }

    /// Returns the item as it ends.
    pub(super) fn written(&self, texts: &[SlotText<'_>], status: &str) -> String {
        match self.kind {
            ItemKind::Message => {
                let parts: Vec<_> = self
                    .parts
                    .iter()
                    .map(|part| part.written(&self.text(Some(part), texts)))
                    .collect();
                let content = format!("[{}]", parts.join(","));
                with(&self.raw, &[("status", status), ("content", &content)])
            }
            ItemKind::Call(call) => with(
                &self.raw,
                &[("status", status), (call.member, &self.text(None, texts))],
            ),
            ItemKind::Other => self.raw.clone(),
        }
    }
}

/// Returns an object with other members.
pub(super) fn with(object: &str, set: &[(&str, &str)]) -> String {
    let mut edits = Edits::default();
    if let Some(root) = Raw::root(object) {
        edits.object(root, &[], set);
    }
    edits.apply(object)
}

/// The numbers of the events that the client has.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The highest number of an event that does not end anything.
    last: Option<u64>,
    /// The highest number of the events that end an item or its parts, by item.
    ends: BTreeMap<u32, u64>,
    /// The highest of these.
    highest_end: Option<u64>,
    /// The server sends events without numbers.
    is_off: bool,
}

impl Numbers {
    /// Takes note of the number of an event. `ends`: the item that the event ends.
    pub(super) fn note(&mut self, number: Option<u64>, ends: Option<u32>) {
        let Some(number) = number else {
            self.is_off |= self.last.is_none();
            return;
        };
        match ends {
            None => self.last = self.last.max(Some(number)),
            Some(item) => {
                let highest = self.ends.entry(item).or_insert(number);
                *highest = number.max(*highest);
                self.highest_end = self.highest_end.max(Some(number));
            }
        }
    }

    /// Takes note that the client did not get the events that ended an item: their numbers are
    /// free.
    pub(super) fn reopen(&mut self, item: u32) {
        self.ends.remove(&item);
        self.highest_end = self.ends.values().copied().max();
    }

    /// Returns the number of the event that was sent last.
    pub(super) fn sent(&self) -> Option<u64> {
        self.highest_end.max(self.last).filter(|_| !self.is_off)
    }

    /// Returns the number of the next event. `None`: events have no numbers.
    pub(super) fn next_number(&mut self) -> Option<u64> {
        if self.is_off {
            return None;
        }
        let number = self.sent().map_or(0, |highest| highest.saturating_add(1));
        self.last = Some(number);
        Some(number)
    }

    /// Returns the number of the next event, as a member with its comma.
    pub(super) fn next(&mut self) -> String {
        self.next_number()
            .map(|number| format!("\"sequence_number\":{number},"))
            .unwrap_or_default()
    }
}
