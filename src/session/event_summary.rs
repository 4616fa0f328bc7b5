//! A relay's view of one event of a stream.

use std::borrow::Cow;

use super::CallEnd;
use crate::document::Document;
use crate::json::walk;
use crate::limits::ParserLimits;
use crate::provider::wire::{Reader, Slot, SlotKind, Wire};
use crate::provider::{Delta, Finish, Kind, SlotId};
use crate::sse::Event;

/// The parts of one event that a relay needs. Reused from event to event.
#[derive(Debug, Default)]
pub(super) struct EventSummary {
    /// The text of all slots, one after the other.
    pub(super) text: String,
    /// The slots of the text.
    pub(super) pieces: Vec<SlotPiece>,
    pub(super) finishes: Vec<(u32, Finish)>,
    /// Slots that end.
    pub(super) ended: Vec<SlotId>,
    pub(super) usage: Option<String>,
    pub(super) error: Option<String>,
    /// The type of the event, if its data may be rewritten.
    pub(super) event_type: String,
    pub(super) is: Flags,
}

/// Properties of an event other than its texts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// The end of the stream.
    pub(super) done: bool,
    /// A refusal, or unknown content.
    pub(super) opaque: bool,
    /// Reasoning, or an event that is not a chunk: it has nothing for the document, but must not be
    /// dropped.
    pub(super) other: bool,
    pub(super) reasoning: bool,
    /// A piece of an answer.
    pub(super) chunk: bool,
    /// Data that can't be JSON text.
    pub(super) malformed: bool,
    /// The beginning of the answer, once more.
    pub(super) restart: bool,
    /// Other text than the text that it had to repeat.
    pub(super) different: bool,
}

/// Text of one slot.
#[derive(Clone, Debug)]
pub(super) struct SlotPiece {
    pub(super) slot: Slot,
    /// The name of the tool, where its call begins.
    pub(super) name: Option<String>,
    /// The call begins without an id, as the legacy `function_call` does.
    pub(super) is_anonymous: bool,
    /// The offset of the piece in the event's text.
    start: usize,
}

/// The content of an event without the end of the answer.
#[derive(Debug)]
pub(super) struct LastEvent {
    pub(super) event_type: String,
    /// The data to write without the end. `None`: only the texts are written.
    pub(super) data: Option<String>,
    pub(super) texts: Vec<(Slot, String)>,
}

impl EventSummary {
    /// Reads a whole body.
    pub(super) fn of_body(wire: &dyn Wire, body: &str) -> Self {
        let mut summary = Self::default();
        wire.read_body(body, &mut |delta| summary.add(delta));
        summary
    }

    /// Reads an event; returns its data if that is `wanted`, or may have to be written without the
    /// end in it.
    pub(super) fn read(
        &mut self,
        reader: &mut dyn Reader,
        event: Event<'_>,
        wanted: bool,
    ) -> Option<String> {
        self.clear();
        let is_replaced = event.is_replaced();
        let Ok(new) = reader.without_repeated(&event.data) else {
            self.is.different = true;
            return None;
        };
        let data = new.map_or(event.data, Cow::Owned);
        let kind = reader.read(&event.event, &data, &mut |delta| self.add(delta));
        self.is.other |= kind == Kind::Other;
        self.is.chunk = kind == Kind::Chunk;
        self.is.malformed = kind == Kind::Other && !data.is_empty() && !walk::is_valid(&data);
        // The intended text is unknown. Delivering U+FFFD instead would invent a document.
        self.is.malformed |= is_replaced;
        if self.is.malformed && breaks_off(&data) {
            self.error = Some("an event of the stream breaks off".to_owned());
        } else if self.is.malformed {
            // Some servers write `NaN`, which several clients read: a piece of the text may be in
            // it.
            self.is.opaque |= data.trim_start().starts_with('{') || is_replaced;
        }
        // The relay may have to write the event without the finish reason in it.
        let wanted = wanted || !self.finishes.is_empty();
        wanted.then(|| {
            event.event.as_ref().clone_into(&mut self.event_type);
            data.into_owned()
        })
    }

    /// Keeps the buffers.
    fn clear(&mut self) {
        self.text.clear();
        self.pieces.clear();
        self.finishes.clear();
        self.ended.clear();
        (self.usage, self.error, self.is) = (None, None, Flags::default());
    }

    /// Takes a piece of information of an event, or of a whole body.
    pub(super) fn add(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text { slot, text } => self.piece(
                Slot {
                    id: slot,
                    kind: SlotKind::Text,
                },
                None,
                text,
            ),
            Delta::ToolCall {
                slot,
                id,
                name,
                arguments,
            } => {
                self.piece(
                    Slot {
                        id: slot,
                        kind: SlotKind::Arguments,
                    },
                    name,
                    arguments,
                );
                if let Some(piece) = self.pieces.last_mut().filter(|_| name.is_some()) {
                    piece.is_anonymous = id.is_none();
                }
            }
            Delta::Reasoning { .. } => (self.is.other, self.is.reasoning) = (true, true),
            Delta::Refusal { text: "", .. } => self.is.other = true,
            Delta::SlotEnd { slot } => self.ended.push(slot),
            Delta::Restart => self.is.restart = true,
            Delta::Finish { choice, reason, .. } => self.finishes.push((choice, reason)),
            Delta::Usage { raw } => self.usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            Delta::Done { .. } => self.is.done = true,
            _ => self.is.opaque = true,
        }
    }

    /// Returns whether the event has nothing but text, or nothing at all. A new member fails to
    /// compile until it is handled here.
    pub(super) fn is_text_alone(&self) -> bool {
        let Self {
            text: _,
            pieces: _,
            finishes,
            ended,
            usage,
            error,
            event_type: _,
            is,
        } = self;
        let Flags {
            done,
            opaque,
            other,
            reasoning,
            chunk: _,
            malformed,
            restart,
            different,
        } = *is;
        let is_marked = done || opaque || other || reasoning || malformed || restart || different;
        !is_marked && finishes.is_empty() && ended.is_empty() && usage.is_none() && error.is_none()
    }

    /// Returns whether the event has more of the answer, which refutes an earlier end.
    pub(super) fn has_more(&self) -> bool {
        let begins = |piece: &SlotPiece| piece.name.is_some();
        !self.text.is_empty()
            || self.is.reasoning
            || self.is.restart
            || self.pieces.iter().any(begins)
    }

    /// Returns whether the event has more of a choice. Reasoning names no choice.
    pub(super) fn has_more_of(&self, wire: &dyn Wire, choice: u32) -> bool {
        let is_of = |piece: &SlotPiece| wire.choice_of(piece.slot.id) == choice;
        self.pieces.is_empty() || self.pieces.iter().any(is_of)
    }

    /// Returns the texts that are not empty, each with its slot.
    pub(super) fn owned_texts(&self) -> impl Iterator<Item = (Slot, String)> {
        let texts = self.texts().filter(|(_, text)| !text.is_empty());
        texts.map(|(piece, text)| (piece.slot, text.to_owned()))
    }

    /// Takes the content without the end of the answer. `data`: the event's data, if it has a finish
    /// reason.
    pub(super) fn take_last(&mut self, data: Option<String>) -> LastEvent {
        LastEvent {
            texts: self.owned_texts().collect(),
            event_type: std::mem::take(&mut self.event_type),
            data,
        }
    }

    fn piece(&mut self, slot: Slot, name: Option<&str>, text: &str) {
        // A call that begins is a piece of its own, even without arguments: its name counts.
        let goes_on = name.is_none() && self.pieces.last().is_some_and(|last| last.slot == slot);
        if !goes_on {
            let name = name.map(str::to_owned);
            self.pieces.push(SlotPiece {
                slot,
                name,
                is_anonymous: false,
                start: self.text.len(),
            });
        }
        self.text.push_str(text);
    }

    /// Returns the pieces with their texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&SlotPiece, &str)> {
        self.pieces.iter().enumerate().map(|(at, piece)| {
            let end = self
                .pieces
                .get(at + 1)
                .map_or(self.text.len(), |next| next.start);
            (piece, self.text.get(piece.start..end).unwrap_or_default())
        })
    }

    /// How a call with one choice ends with this event, if it does.
    pub(super) fn end(&self) -> Option<CallEnd> {
        match (&self.error, self.finishes.first()) {
            (Some(message), _) => Some(CallEnd::Error(message.clone())),
            (None, Some((_, reason))) => Some(CallEnd::Finished(reason.clone())),
            (None, None) => self.is.done.then_some(CallEnd::Closed),
        }
    }
}

/// Returns whether data is an object without its end. Its text is lost, so the document must not
/// continue with the next event.
pub(super) fn breaks_off(data: &str) -> bool {
    let mut document = Document::new(ParserLimits::default().max_depth);
    data.trim_start().starts_with('{') && document.push(data).is_ok() && !document.is_complete()
}
