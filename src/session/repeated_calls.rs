//! The tool calls of a further answer, from which the current slot takes its arguments.

use super::event_summary::{EventSummary, SlotPiece};
use super::slot_list::{SlotEntry, SlotList};
use super::slots::MAX_SLOTS;
use crate::provider::SlotId;
use crate::provider::wire::SlotKind;

/// The tool calls of a further answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct RepeatedCalls {
    calls: Vec<RepeatedCall>,
}

/// A tool call in a further answer.
#[derive(Debug)]
struct RepeatedCall {
    id: SlotId,
    name: String,
    arguments: String,
}

impl RepeatedCalls {
    /// Returns whether a piece of a call for the rest belongs to a call of another tool than `own`.
    /// The arguments of such a call are not the rest.
    pub(super) fn is_of_other_tool(&mut self, piece: &SlotPiece, own: Option<&str>) -> bool {
        if piece.slot.kind != SlotKind::Arguments {
            return false;
        }
        self.add(piece, MAX_SLOTS);
        let named = self
            .calls
            .iter()
            .find(|call| call.id == piece.slot.id && !call.name.is_empty());
        named
            .zip(own)
            .is_some_and(|(call, own)| !own.is_empty() && call.name != own)
    }

    /// Adds the call of a piece, if it is new and fewer than `most` are known.
    fn add(&mut self, piece: &SlotPiece, most: usize) {
        let is_known = self.calls.iter().any(|call| call.id == piece.slot.id);
        if !is_known && self.calls.len() < most {
            self.calls.push(RepeatedCall {
                id: piece.slot.id,
                name: piece.name.clone().unwrap_or_default(),
                arguments: String::new(),
            });
        }
    }

    /// Returns the current slot's arguments in the answer to the repeated original request: those
    /// of the tool call with the same position and name, if the calls before it equal the delivered
    /// ones.
    pub(super) fn arguments(&mut self, slots: &SlotList, answer: &EventSummary) -> String {
        let mut arguments = String::new();
        let before: Vec<_> = slots
            .iter()
            .take(slots.current())
            .filter(|entry| entry.is_tool_call())
            .collect();
        let place = before.len();
        let name = slots.entry().session.channel.settings.tool_name();
        let pieces = answer.texts();
        for (piece, text) in pieces.filter(|(piece, _)| piece.slot.kind == SlotKind::Arguments) {
            // Calls after the wanted one have no bearing on it, so they are not kept.
            self.add(piece, place + 1);
            let Some(at) = self.calls.iter().position(|call| call.id == piece.slot.id) else {
                continue;
            };
            let Some(call) = self.calls.get_mut(at) else {
                continue;
            };
            if at < place {
                // Kept to compare: if an earlier call differs, the model has written another
                // answer.
                call.arguments.push_str(text);
            } else if at == place
                && name == Some(call.name.as_str())
                && before
                    .iter()
                    .zip(&self.calls)
                    .all(|(entry, call)| call.equals(entry))
            {
                arguments.push_str(text);
            }
        }
        arguments
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }
}

impl RepeatedCall {
    /// Returns whether the call is the delivered one.
    fn equals(&self, entry: &SlotEntry) -> bool {
        let channel = &entry.session.channel;
        channel.settings.tool_name() == Some(self.name.as_str())
            && channel.document().text().trim() == self.arguments.trim()
    }
}
