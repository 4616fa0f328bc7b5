//! The calls for the rest of a response's slots: their API, and the part of their text that is the
//! rest of the current slot.

use std::time::Duration;

use super::event_summary::EventSummary;
use super::repeated_calls::RepeatedCalls;
use super::slot_list::SlotList;
use super::{Input, Redirect};
use crate::provider::wire::{Dialect, Framing, SlotKind, Wire};

/// How the calls for the rest are read.
#[derive(Debug, Default)]
pub(super) struct FurtherCalls {
    /// Their API, if it is not the response's.
    foreign: Option<(Dialect, Framing)>,
    /// The tool calls of the open one.
    repeated: RepeatedCalls,
}

impl FurtherCalls {
    /// Asks another upstream from now on.
    pub(super) fn redirect(&mut self, redirect: &Redirect) {
        self.foreign = redirect.foreign;
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.repeated.clear();
    }

    /// Returns whether they have another API than the response.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Returns their API. `own`: that of the response.
    pub(super) fn wire(&self, own: &'static dyn Wire) -> &'static dyn Wire {
        self.foreign.map_or(own, |(dialect, _)| dialect.wire())
    }

    /// Returns the framing of their streams. `own`: that of the response.
    pub(super) fn framing(&self, own: Framing) -> Framing {
        self.foreign.map_or(own, |(_, framing)| framing)
    }

    /// Takes texts of a call for the rest of the current slot. The prompt asks for the rest of
    /// arguments as text, but the model may write it as another call.
    pub(super) fn read(&mut self, slots: &mut SlotList, now: Duration, answer: &EventSummary) {
        let session = &slots.entry().session;
        if session.call.repeats_tool_call(&session.channel) {
            let arguments = self.repeated.arguments(slots, answer);
            if !arguments.is_empty() {
                let session = &mut slots.entry_mut().session;
                session.handle_input(now, Input::Text(&arguments));
            }
            // The answer has the whole tool call again, with the calls before it.
            return;
        }
        let is_call = slots.entry().slot.kind == SlotKind::Arguments;
        let is_tool_input = session.call.is_tool_input();
        let wire = self.wire(slots.wire);
        for (piece, text) in answer.texts() {
            let session = &mut slots.entry_mut().session;
            let is_meant = match is_call {
                // Text before the call of the tool is a remark.
                _ if is_tool_input => piece.slot.kind == SlotKind::Arguments,
                true => {
                    let own = session.channel.settings.tool_name();
                    !self.repeated.is_of_other_tool(piece, own)
                }
                false => piece.slot.kind == SlotKind::Text && wire.choice_of(piece.slot.id) == 0,
            };
            if is_meant && !text.is_empty() {
                session.handle_input(now, Input::Text(text));
            }
        }
    }
}
