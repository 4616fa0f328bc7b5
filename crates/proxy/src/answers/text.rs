//! The text of an answer as its client gets it, slot by slot, with the offsets of its seams.

use restitch::internal::wire::{Slot, SlotKind};
use restitch::provider::Delta;

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

/// An addition to a slot. Slots have numbers in the order in which they began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Added {
    /// A slot begins, with its display name.
    Slot { slot: usize, name: String },
    /// Text, and the bytes of text before it.
    Text {
        slot: usize,
        from: usize,
        text: String,
    },
    /// A continuation was joined here.
    Seam {
        slot: usize,
        call: u32,
        offset: usize,
    },
}

/// The changes that a reader of the texts has not seen yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct News {
    /// The texts have begun again: a reader discards everything that it has seen.
    pub(in super::super) restarts: bool,
    /// In the order of each slot's text.
    pub(in super::super) added: Vec<Added>,
    /// Set once: why there is no more text.
    pub(in super::super) missing: Option<&'static str>,
}

impl News {
    pub(in super::super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A reader's position in all texts.
#[derive(Debug, Default)]
pub(in super::super) struct Cursor {
    restarts: u32,
    slots: Vec<SeenText>,
    missing: Option<&'static str>,
}

/// A reader's position in one slot.
#[derive(Clone, Copy, Debug, Default)]
struct SeenText {
    bytes: usize,
    seams: usize,
}

impl Cursor {
    /// Returns why the text ended, once the reader has seen all of it.
    pub(in super::super) fn missing(&self) -> Option<&'static str> {
        self.missing
    }
}

impl Texts {
    /// Appends text of a slot. Returns false if the text would begin more than [`MOST_SLOTS`]
    /// slots.
    fn push(&mut self, slot: Slot, tool: Option<&str>, text: &str) -> bool {
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
    fn restart(&mut self) -> usize {
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

    /// Returns the text and seams that a reader has not seen, up to `most` bytes of text.
    pub(super) fn after(&self, cursor: &mut Cursor, most: usize) -> News {
        let mut news = News {
            restarts: cursor.restarts != self.restarts,
            ..News::default()
        };
        if news.restarts {
            *cursor = Cursor {
                restarts: self.restarts,
                missing: cursor.missing,
                ..Cursor::default()
            };
        }
        let mut room = most;
        for (number, slot) in self.slots.iter().enumerate() {
            if number >= cursor.slots.len() {
                cursor.slots.push(SeenText::default());
                news.added.push(Added::Slot {
                    slot: number,
                    name: slot.name(),
                });
            }
            if let Some(seen) = cursor.slots.get_mut(number) {
                room -= slot.after(number, seen, room, &mut news.added);
            }
        }
        if room > 0 && cursor.missing.is_none() {
            cursor.missing = self.missing;
            news.missing = self.missing;
        }
        news
    }

    /// Returns the text of a slot.
    pub(super) fn of(&self, slot: usize) -> Option<&str> {
        self.slots.get(slot).map(|slot| slot.text.as_str())
    }
}

impl ListedText {
    /// Adds the text and seams that a reader has not seen, up to `most` bytes of text, and returns
    /// the number of bytes. Divides text at seams.
    fn after(
        &self,
        slot: usize,
        seen: &mut SeenText,
        most: usize,
        added: &mut Vec<Added>,
    ) -> usize {
        let before = seen.bytes;
        let mut end = self.text.len().min(before.saturating_add(most));
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let text_to = |seen: &mut SeenText, to: usize, added: &mut Vec<Added>| {
            let text = self.text.get(seen.bytes..to).unwrap_or_default();
            if !text.is_empty() {
                added.push(Added::Text {
                    slot,
                    from: seen.bytes,
                    text: text.to_owned(),
                });
                seen.bytes = to;
            }
        };
        while let Some(mark) = self.seams.get(seen.seams).filter(|mark| mark.offset <= end) {
            text_to(seen, mark.offset, added);
            added.push(Added::Seam {
                slot,
                call: mark.call,
                offset: mark.offset,
            });
            seen.seams += 1;
        }
        text_to(seen, end, added);
        seen.bytes - before
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

/// Changes of an answer's texts, in their order. They are collected before the texts are locked.
#[derive(Debug, Default)]
pub(in super::super) struct Changes {
    list: Vec<TextChange>,
    /// The text of all of them.
    text: String,
}

#[derive(Debug)]
enum TextChange {
    /// Text of a slot, up to this byte of all text.
    Text {
        slot: Slot,
        tool: Option<String>,
        end: usize,
    },
    /// The answer begins again.
    Restart,
    /// The rest can't be read.
    Unread,
}

impl Changes {
    pub(super) fn add(&mut self, delta: &Delta<'_>) {
        match *delta {
            Delta::Text { slot, text } => self.text(
                Slot {
                    id: slot,
                    kind: SlotKind::Text,
                },
                None,
                text,
            ),
            Delta::ToolCall {
                slot,
                name,
                arguments,
                ..
            } => {
                self.text(
                    Slot {
                        id: slot,
                        kind: SlotKind::Arguments,
                    },
                    name,
                    arguments,
                );
            }
            Delta::Restart => self.list.push(TextChange::Restart),
            _ => {}
        }
    }

    /// Notes that the rest of the stream can't be decoded.
    pub(super) fn end_unread(&mut self) {
        self.list.push(TextChange::Unread);
    }

    fn text(&mut self, slot: Slot, tool: Option<&str>, text: &str) {
        self.text.push_str(text);
        let end = self.text.len();
        if let Some(TextChange::Text {
            slot: last,
            end: goes_on,
            ..
        }) = self.list.last_mut()
            && *last == slot
        {
            *goes_on = end;
            return;
        }
        self.list.push(TextChange::Text {
            slot,
            tool: tool.map(str::to_owned),
            end,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets all changes.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.text.clear();
    }

    /// Calls `on` for each text with its slot, and with `None` each time the answer begins again.
    pub(in super::super) fn each(&self, mut on: impl FnMut(Option<(Slot, &str)>)) {
        let mut start = 0;
        for change in &self.list {
            match change {
                TextChange::Text { slot, end, .. } => {
                    on(Some((
                        *slot,
                        self.text.get(start..*end).unwrap_or_default(),
                    )));
                    start = *end;
                }
                TextChange::Restart => on(None),
                TextChange::Unread => {}
            }
        }
    }

    /// Returns the bytes of all text.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the most bytes of these changes that [`apply`](Self::apply) would keep, if `kept`
    /// bytes are kept already.
    pub(super) fn fitting(&self, kept: usize, most: usize) -> usize {
        let (mut kept, mut start, mut fitting) = (kept, 0, 0);
        for change in &self.list {
            match change {
                TextChange::Text { end, .. } => {
                    let bytes = end - start;
                    if kept.saturating_add(bytes) > most {
                        break;
                    }
                    (kept, start, fitting) = (kept + bytes, *end, fitting + bytes);
                }
                TextChange::Restart => kept = 0,
                TextChange::Unread => break,
            }
        }
        fitting
    }

    /// Applies all changes and forgets them, and keeps at most `most` bytes of text. Returns the
    /// number of bytes, of the earlier and the new ones, that are not kept.
    pub(super) fn apply(&mut self, texts: &mut Texts, most: usize) -> usize {
        let (mut start, mut freed) = (0, 0);
        for change in self.list.drain(..) {
            match change {
                TextChange::Text { slot, tool, end } => {
                    let text = self.text.get(start..end).unwrap_or_default();
                    start = end;
                    if texts.missing.is_none() && texts.bytes.saturating_add(text.len()) > most {
                        texts.missing = Some("max_page_answer_bytes");
                    }
                    if texts.missing.is_some() || !texts.push(slot, tool.as_deref(), text) {
                        texts.missing.get_or_insert("max_slots");
                        freed += text.len();
                    }
                }
                TextChange::Restart if texts.missing.is_none() => freed += texts.restart(),
                TextChange::Restart => {}
                TextChange::Unread => drop(texts.missing.get_or_insert("undecodable")),
            }
        }
        self.text.clear();
        freed
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
    fn a_reader_sees_each_byte_once_and_no_half_of_a_character() {
        let mut texts = Texts::default();
        push(&mut texts, 0, "aé");
        let mut cursor = Cursor::default();
        let slot = |slot, name: &str| Added::Slot {
            slot,
            name: name.to_owned(),
        };
        let text = |slot, from, text: &str| Added::Text {
            slot,
            from,
            text: text.to_owned(),
        };
        assert_eq!(
            texts.after(&mut cursor, 2).added,
            [slot(0, "text 0"), text(0, 0, "a")]
        );
        push(&mut texts, 1, "x");
        assert_eq!(
            texts.after(&mut cursor, 9).added,
            [text(0, 1, "é"), slot(1, "text 1"), text(1, 0, "x")]
        );
        assert!(texts.after(&mut cursor, 9).is_empty());
        push(&mut texts, 0, "b");
        texts.joined(1, 4);
        push(&mut texts, 0, "c");
        let seam = Added::Seam {
            slot: 0,
            call: 1,
            offset: 4,
        };
        assert_eq!(
            texts.after(&mut cursor, 9).added,
            [text(0, 3, "b"), seam, text(0, 4, "c")]
        );
        assert_eq!(texts.restart(), 6);
        push(&mut texts, 0, "n");
        let news = texts.after(&mut cursor, 9);
        assert!(news.restarts && news.added == [slot(0, "text 0"), text(0, 0, "n")]);
        texts.drop_all("why");
        let news = texts.after(&mut cursor, 9);
        assert_eq!(
            (news.restarts, news.added, news.missing),
            (true, vec![], Some("why"))
        );
        assert!(texts.after(&mut cursor, 9).is_empty());
    }
}
