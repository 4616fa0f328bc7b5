//! Withholds the end of a first answer that is not whole, until the next event confirms or refutes
//! it.
//!
//! Some gateways put a finish reason into every chunk, send one early, or send `[DONE]` in the
//! middle; Gemini 1.x sent `STOP` with every chunk. An event with more of the answer refutes the
//! end: the relay forwards the withheld bytes unchanged and continues to read.

use std::ops::Range;
use std::time::Duration;

use crate::provider::Finish;
use crate::session::event_summary::{EventSummary, LastEvent};
use crate::session::slots::Slots;
use crate::sse::Event;

/// A withheld end of a first answer, until an event confirms or refutes it.
#[derive(Debug)]
pub(super) struct WithheldEnd {
    /// The event with the end. `None` after its text was written.
    pub(super) event: Option<EndEvent>,
    /// The answer is not continued, so the end needs no confirmation.
    pub(super) is_final: bool,
    /// Names and data of later events, which the writer has not observed.
    pub(super) unobserved: Vec<(String, String)>,
}

impl WithheldEnd {
    /// Creates an end whose event was already written without it, so no bytes are withheld.
    pub(super) fn written(is_final: bool) -> Self {
        Self {
            event: None,
            is_final,
            unobserved: Vec::new(),
        }
    }

    /// Creates an end whose bytes are withheld.
    pub(super) fn of(event: EndEvent, is_final: bool) -> Self {
        Self {
            event: Some(event),
            is_final,
            unobserved: Vec::new(),
        }
    }

    /// Keeps an event for the writer, which observes it if the end is refuted.
    pub(super) fn note(&mut self, event: &Event<'_>) {
        self.unobserved.push((
            event.event.clone().into_owned(),
            event.data.clone().into_owned(),
        ));
    }
}

/// An event that may end an answer. Its bytes are withheld.
#[derive(Debug)]
pub(super) struct EndEvent {
    /// Its offsets in the bytes of the call.
    pub(super) range: Range<u64>,
    pub(super) last: LastEvent,
    /// The finish reasons in it.
    pub(super) finishes: Vec<(u32, Finish)>,
    /// A repair changed its data, so its bytes must not be forwarded.
    pub(super) is_changed: bool,
    /// When its text is written without the end. `None` if it has no text.
    pub(super) text_due: Option<Duration>,
}

impl EndEvent {
    /// Returns whether the end of a choice without more text is believed: that choice is cut.
    pub(super) fn stands(&self, slots: &Slots, event: &EventSummary) -> bool {
        let has_more = |choice| event.has_more_of(slots.list.wire, choice);
        let mut ends = self
            .finishes
            .iter()
            .filter(|(choice, _)| !has_more(*choice));
        ends.any(|(choice, reason)| slots.list.continues_choice(*choice, reason))
    }
}

/// The time within which an event may refute an end. The text of an event with a finish reason
/// waits for it, and so does the next call after `[DONE]`. It is longer than the usual time between
/// two chunks of a model. Servers end the transport right after the true end, which ends the wait.
/// So it only costs time if a server keeps the connection open after `[DONE]`, and once per stream
/// if a gateway puts a finish reason into every chunk.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
