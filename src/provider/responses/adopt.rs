//! Writes the events of another answer as events of the answer that the client is already reading.
//!
//! An answer that broke off before its text may have left open items with the client. The other
//! answer's message continues in an empty message; every other item is ended, and the other
//! answer's items follow it.

use super::items::{Item, ItemKind, Origin};
use super::writer::{ResponsesWriter, end_item};
use super::{INCOMPLETE, is_terminal};
use crate::json::edit::Edits;
use crate::json::string::quoted;
use crate::json::walk::Raw;
use crate::provider::fields::{object, place};
use crate::provider::wire::Slot;
use crate::sse::Encoder;

/// An event that is withheld.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub name: String,
    pub(super) data: String,
}

impl ResponsesWriter {
    /// Returns whether an event ends a text or arguments that may be continued.
    pub(super) fn may_continue(&self, name: &str, root: Raw<'_>) -> bool {
        let item = self.of_slot(root.member("output_index"));
        name.ends_with(".done")
            && item.is_some_and(|item| item.is_open && !matches!(item.kind, ItemKind::Other))
    }

    /// Drops the events that would end a slot which gets more text, and writes the other withheld
    /// events.
    pub(super) fn continue_held(&mut self, out: &mut Vec<u8>, slot: Slot) {
        let is_of = |held: &Held| {
            object(&held.data)
                .is_some_and(|root| place(root.member("output_index")) == slot.id.item)
        };
        self.held.retain(|held| !is_of(held));
        self.release(out);
    }

    /// Writes the withheld events.
    pub(super) fn release(&mut self, out: &mut Vec<u8>) {
        for held in std::mem::take(&mut self.held) {
            self.adopt_event(out, &held.name, &held.data);
        }
    }

    /// Writes an event of another answer with the numbers and ids that the client knows.
    pub(super) fn adopt_event(&mut self, out: &mut Vec<u8>, name: &str, data: &str) {
        let Some(root) = object(data) else { return };
        let [number, index, item, id, response] = root.pick([
            "sequence_number",
            "output_index",
            "item",
            "item_id",
            "response",
        ]);
        let added = item.filter(|_| name == "response.output_item.added");
        if added.is_some_and(|item| !self.adopt_item(out, place(index), item))
            || self.knows_part(name, root)
        {
            return;
        }
        let mut edits = Edits::default();
        if let Some(number) = number
            && let Some(next) = self.numbers.next_number()
        {
            edits.replace(number, &next.to_string());
        }
        if let (Some(known), Some(index)) = (self.of_slot(index), index) {
            if known.index != place(Some(index)) {
                edits.replace(index, &known.index.to_string());
            }
            if known.origin == Origin::Shared {
                let known = quoted(&known.id());
                id.into_iter().for_each(|id| edits.replace(id, &known));
                item.into_iter()
                    .for_each(|item| edits.object(item, &[], &[("id", &known)]));
            }
        }
        if let Some(response) = response.filter(|_| is_terminal(name) && !self.response.is_empty())
        {
            let output = self.output();
            let id = Raw::root(&self.response).and_then(|known| known.member("id"));
            let id = id.map(|id| ("id", id.as_str()));
            let set: Vec<_> = id
                .into_iter()
                .chain([("output", output.as_str())])
                .collect();
            edits.object(response, &[], &set);
        }
        let data = edits.apply(data);
        if let Some(root) = object(&data) {
            self.note(name, root);
        }
        Encoder::event(
            out,
            Some(name).filter(|name| !matches!(*name, "" | "message")),
            None,
            &data,
        );
    }

    /// Starts an item of another answer. Returns `false` if the client has an item for its text:
    /// the empty message that was open when the answer before broke off. All other open items of
    /// that answer are ended.
    fn adopt_item(&mut self, out: &mut Vec<u8>, slot: u32, raw: Raw<'_>) -> bool {
        let mut item = Item::new(self.items.next_index(), raw, true);
        (item.slot, item.origin) = (Some(slot), Origin::Adopted);
        if let Some(before) = self.items.of_slot(slot).map(|item| item.index) {
            self.items.set_slot(before, None);
        }
        let waiting = self
            .items
            .iter()
            .find(|item| item.is_waiting())
            .map(|item| item.index);
        if let Some(waiting) = waiting.filter(|_| matches!(item.kind, ItemKind::Message)) {
            self.items.set_slot(waiting, Some(slot));
            self.items
                .change(waiting, |item| item.origin = Origin::Shared);
            return false;
        }
        let (status, numbers) = (quoted(INCOMPLETE), &mut self.numbers);
        self.items.change_all(|old| {
            if old.is_open && old.slot.is_none() && !old.is_waiting() {
                end_item(out, old, &[], &status, numbers);
            }
        });
        self.items.insert(item);
        true
    }

    /// Returns whether an event starts a part that the client knows.
    fn knows_part(&self, name: &str, root: Raw<'_>) -> bool {
        let [index, content] = root.pick(["output_index", "content_index"]);
        let known = self
            .of_slot(index)
            .filter(|_| name == "response.content_part.added");
        known.is_some_and(|item| item.parts.iter().any(|part| part.index == place(content)))
    }

    /// Returns the item that an index of the answer being read belongs to.
    fn of_slot(&self, index: Option<Raw<'_>>) -> Option<&Item> {
        self.items.of_slot(index.map(|index| place(Some(index)))?)
    }
}
