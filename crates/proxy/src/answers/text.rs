//! The text of an answer as its client gets it, slot by slot, with the offsets of its seams.

use serde_json::{Value, json};

use restitch::internal::wire::{Slot, SlotKind};

/// The texts of an answer. They only grow, until the list drops them or the answer begins again.
#[derive(Debug, Default)]
pub(super) struct Texts {
    slots: Vec<ListedText>,
    /// The slot that got text last.
    current: usize,
    /// How often the answer has begun again.
    restarts: u32,
    /// The last join whose text has not arrived yet: its call and its offset.
    waiting: Option<(u32, usize)>,
    /// Bytes of all slots.
    pub(super) bytes: usize,
    /// The name of the limit that ended the text.
    pub(super) missing: Option<&'static str>,
    /// The kept text was dropped to make room, and stays dropped.
    pub(super) is_dropped: bool,
}

#[derive(Debug)]
struct ListedText {
    slot: Slot,
    /// The tool's name, if the text is a tool's arguments.
    tool: Option<String>,
    text: String,
    seams: Vec<SeamMark>,
}

/// The seam of a continuation: its call, and the bytes of text before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeamMark {
    call: u32,
    offset: usize,
}

impl Texts {
    /// Appends text of a slot. Returns false if the text would begin more than [`MOST_SLOTS`]
    /// slots.
    pub(super) fn push(&mut self, slot: Slot, tool: Option<&str>, text: &str) -> bool {
        let known = self.slots.iter().rposition(|known| known.slot == slot);
        self.current = match known {
            Some(known) => known,
            None if self.slots.len() >= MOST_SLOTS => return false,
            None => {
                let tool = tool.map(|name| name.chars().take(LONGEST_TOOL).collect());
                self.slots.push(ListedText {
                    slot,
                    tool,
                    text: String::new(),
                    seams: Vec::new(),
                });
                self.slots.len() - 1
            }
        };
        if let Some(into) = self.slots.get_mut(self.current) {
            if let Some((call, offset)) = self
                .waiting
                .take()
                .filter(|_| into.seams.len() < MOST_SEAMS)
            {
                into.seams.push(SeamMark {
                    call,
                    offset: offset.min(into.text.len()),
                });
            }
            into.text.push_str(text);
            self.bytes += text.len();
        }
        true
    }

    /// Notes that a continuation was joined, before its text arrives.
    pub(super) fn joined(&mut self, call: u32, offset: usize) {
        self.waiting = Some((call, offset));
    }

    /// Forgets all texts, since the answer begins again. Returns their number of bytes.
    pub(super) fn restart(&mut self) -> usize {
        self.slots.clear();
        self.restarts = self.restarts.saturating_add(1);
        (self.current, self.waiting) = (0, None);
        std::mem::take(&mut self.bytes)
    }

    /// Drops all texts. Returns their number of bytes.
    pub(super) fn drop_all(&mut self, why: &'static str) -> usize {
        (self.missing, self.is_dropped) = (Some(why), true);
        self.restart()
    }

    /// Returns the text that a reader lacks, as JSON. `from`: the bytes that it has of each slot of
    /// the texts that have begun again `restarts` times.
    pub(super) fn added(&self, restarts: u32, from: &[usize]) -> Value {
        let from = if restarts == self.restarts { from } else { &[] };
        let added = |(number, slot): (usize, &ListedText)| {
            json!({
                "name": slot.name(),
                "bytes": slot.text.len(),
                "added": slot.added(from.get(number).copied().unwrap_or_default()),
            })
        };
        json!({
            "restarts": self.restarts,
            "slots": self.slots.iter().enumerate().map(added).collect::<Vec<_>>(),
            "missing": self.missing,
        })
    }

    /// Returns the text of a slot.
    pub(super) fn of(&self, slot: usize) -> Option<&str> {
        self.slots.get(slot).map(|slot| slot.text.as_str())
    }
}

impl ListedText {
    /// Returns the text after `from` bytes, divided at its seams: each piece has the call that was
    /// joined where it begins. A reader gets a seam with the text after it, so each seam comes once.
    fn added(&self, from: usize) -> Vec<Value> {
        let mut pieces = Vec::new();
        let mut push = |call: Option<u32>, start: usize, end: usize| {
            // The offset of a reader may be wrong: it then gets no text.
            let text = self.text.get(start..end).unwrap_or_default();
            if !text.is_empty() {
                pieces.push(json!({"call": call, "text": text}));
            }
        };
        let (mut start, mut call) = (from, None);
        for mark in self.seams.iter().filter(|mark| mark.offset >= from) {
            push(call, start, mark.offset);
            (start, call) = (mark.offset, Some(mark.call));
        }
        push(call, start, self.text.len());
        pieces
    }

    /// Returns the slot's name for people.
    fn name(&self) -> String {
        let id = self.slot.id;
        match (self.slot.kind, &self.tool) {
            (SlotKind::Text, _) => format!("text {id}"),
            (SlotKind::Arguments, Some(tool)) => format!("call {id}: {tool}"),
            (SlotKind::Arguments, None) => format!("call {id}"),
        }
    }
}

/// The most slots whose text is kept of an answer: answers seldom have more parallel tool calls.
const MOST_SLOTS: usize = 64;
/// The most seams that are marked in a slot: more than the default limits allow continuations.
const MOST_SEAMS: usize = 64;
/// The most characters that are shown of a tool's name.
const LONGEST_TOOL: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use restitch::provider::SlotId;

    fn push(texts: &mut Texts, item: u32, text: &str) {
        assert!(texts.push(
            Slot {
                id: SlotId::of(item),
                kind: SlotKind::Text
            },
            None,
            text
        ));
    }

    #[test]
    fn a_reader_sees_each_byte_and_each_seam_once() {
        let mut texts = Texts::default();
        push(&mut texts, 0, "aé");
        let added = |slots: Value| json!({"restarts": 0, "slots": slots, "missing": null});
        let slot = |name: &str, bytes: usize, pieces: &[(Option<u32>, &str)]| {
            let pieces: Vec<_> = pieces
                .iter()
                .map(|(call, text)| json!({"call": call, "text": text}))
                .collect();
            json!({"name": name, "bytes": bytes, "added": pieces})
        };
        assert_eq!(
            texts.added(0, &[]),
            added(json!([slot("text 0", 3, &[(None, "aé")])]))
        );
        push(&mut texts, 1, "x");
        push(&mut texts, 0, "b");
        texts.joined(1, 4);
        push(&mut texts, 0, "c");
        assert_eq!(
            texts.added(0, &[3]),
            added(json!([
                slot("text 0", 5, &[(None, "b"), (Some(1), "c")]),
                slot("text 1", 1, &[(None, "x")])
            ]))
        );
        assert_eq!(
            texts.added(0, &[4, 1])["slots"][0]["added"],
            json!([{"call": 1, "text": "c"}])
        );
        // A reader that has all of it, and one whose offsets are behind the end.
        for from in [[5, 1], [9, 9]] {
            assert_eq!(
                texts.added(0, &from),
                added(json!([slot("text 0", 5, &[]), slot("text 1", 1, &[])]))
            );
        }
        // An offset inside a character: the reader gets only the text after the next seam.
        assert_eq!(
            texts.added(0, &[2, 1])["slots"][0]["added"],
            json!([{"call": 1, "text": "c"}])
        );
        assert_eq!(texts.restart(), 6);
        push(&mut texts, 0, "n");
        assert_eq!(
            texts.added(0, &[5, 1]),
            json!({"restarts": 1, "slots": [slot("text 0", 1, &[(None, "n")])], "missing": null})
        );
        texts.drop_all("why");
        assert_eq!(
            texts.added(1, &[1]),
            json!({"restarts": 2, "slots": [], "missing": "why"})
        );
    }
}
