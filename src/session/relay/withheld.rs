//! Withholds the end of a first answer that is not whole, until the next event confirms or refutes
//! it.
//!
//! Some gateways put a finish reason into every chunk, send one early, or send `[DONE]` in the
//! middle; Gemini 1.x sent `STOP` with every chunk. An event with more of the answer refutes the
//! end: the relay forwards the withheld bytes unchanged and continues to read.

use std::time::Duration;

use super::{EventSummary, Phase, Relay, Slots};
use crate::provider::Finish;
use crate::provider::wire::Slot;
use crate::session::CallEnd;
use crate::session::event_summary::Piece;
use crate::sse::Event;

/// A withheld end of a first answer, until an event confirms or refutes it.
#[derive(Debug)]
pub(super) struct Withheld {
    /// The event with the end. `None` after its text was written.
    event: Option<EndEvent>,
    /// The answer is not continued, so the end needs no confirmation.
    pub(super) is_final: bool,
    /// Names and data of later events, which the writer has not observed.
    unobserved: Vec<(String, String)>,
}

impl Withheld {
    /// Creates an end whose event was already written without it, so no bytes are withheld.
    pub(super) fn written(is_final: bool) -> Self {
        Self {
            event: None,
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
struct EndEvent {
    /// Its offsets in the bytes of the call.
    range: std::ops::Range<u64>,
    last: LastEvent,
    /// The finish reasons in it.
    finishes: Vec<(u32, Finish)>,
    /// A repair changed its data, so its bytes must not be forwarded.
    is_changed: bool,
    /// When its text is written without the end. `None` if it has no text.
    text_due: Option<Duration>,
}

/// The content of an event without the end of the answer.
#[derive(Debug)]
pub(super) struct LastEvent {
    event_type: String,
    /// The data to write without the end. `None`: only the texts are written.
    data: Option<String>,
    texts: Vec<(Slot, String)>,
}

/// A refuted end: more of the answer followed it.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    end: CallEnd,
    /// The client has received it.
    pub(super) is_sent: bool,
}

impl Relay {
    /// Takes the content of the current event. `data`: its data, if it has a finish reason.
    pub(super) fn last_event(&mut self, data: Option<String>) -> LastEvent {
        let texts = self
            .event_summary
            .texts()
            .filter(|(_, text)| !text.is_empty());
        let texts = texts
            .map(|(piece, text)| (piece.slot, text.to_owned()))
            .collect();
        LastEvent {
            event_type: std::mem::take(&mut self.event_summary.event_type),
            data,
            texts,
        }
    }

    /// Writes an event without the end of the answer. If no data remains, writes only its texts.
    pub(super) fn write_without_end(&mut self, now: Duration, event: &LastEvent) {
        let data = event
            .data
            .as_deref()
            .map(|data| self.writer.without_end(data));
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            self.client.introduced = true;
            return self.write(now, |writer, out| {
                writer.rewrite(out, &event.event_type, &data)
            });
        }
        let mut out = Vec::new();
        event
            .texts
            .iter()
            .for_each(|(slot, text)| self.writer.text(&mut out, *slot, text));
        self.client.introduced |= !out.is_empty();
        self.send_events(now, out);
    }

    /// Withholds the event that ends at `at`, because it may end the answer. Sends everything
    /// before it.
    pub(super) fn withhold_end(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
        is_changed: bool,
        is_final: bool,
    ) {
        let start = self.call.raw.start_of_block(at);
        self.forward(now, start);
        let has_text = !self.event_summary.text.is_empty() && self.call.held.is_none();
        let wait = if is_final { Duration::ZERO } else { SETTLE };
        let event = EndEvent {
            range: start..at,
            last: self.last_event(data),
            finishes: self.event_summary.finishes.clone(),
            is_changed,
            text_due: has_text.then(|| now.saturating_add(wait)),
        };
        self.phase = Phase::Withheld(Withheld {
            event: Some(event),
            is_final,
            unobserved: Vec::new(),
        });
        if is_final {
            self.write_due_text(now);
        }
    }

    /// Returns when the text of the withheld event is written without its end.
    pub(super) fn text_due(&self) -> Option<Duration> {
        let Phase::Withheld(withheld) = &self.phase else {
            return None;
        };
        withheld.event.as_ref()?.text_due
    }

    /// Writes the text of the withheld event if it has waited for [`SETTLE`].
    pub(super) fn write_due_text(&mut self, now: Duration) {
        if let Phase::Withheld(withheld) = &mut self.phase
            && let Some(event) = withheld
                .event
                .take_if(|event| event.text_due.is_some_and(|due| now >= due))
        {
            self.call.raw.skip_to(event.range.end);
            self.write_without_end(now, &event.last);
        }
    }

    /// Refutes the withheld end, because an event has more of the answer: the relay forwards its
    /// bytes unchanged.
    pub(super) fn refute_end(&mut self, now: Duration) {
        let Phase::Withheld(withheld) = std::mem::replace(&mut self.phase, Phase::Open) else {
            return;
        };
        self.let_go();
        for (event_type, data) in &withheld.unobserved {
            self.writer.observe(event_type, data);
        }
        let is_sent = withheld.event.is_some();
        let has_more = |choice| has_more_of(&self.slots, &self.event_summary, choice);
        let stands = |event: &mut EndEvent| {
            let mut ends = event
                .finishes
                .iter()
                .filter(|(choice, _)| !has_more(*choice));
            ends.any(|(choice, reason)| self.slots.list.continues_choice(*choice, reason))
        };
        let mut withheld = withheld;
        if let Some(event) = withheld.event.take_if(stands) {
            // Another choice has more, and this one is cut: the client must not see its end before
            // its rest.
            self.forward(now, event.range.start);
            self.call.raw.skip_to(event.range.end);
            self.write_without_end(now, &event.last);
            self.call
                .withheld
                .extend(event.finishes.iter().map(|(choice, _)| *choice));
            self.note_early_end(false);
            self.call.early = None;
            return;
        }
        let finishes = withheld.event.iter().flat_map(|event| &event.finishes);
        let ended: Vec<_> = finishes
            .map(|(choice, _)| *choice)
            .filter(|choice| !has_more(*choice))
            .collect();
        self.client.finished.extend(ended);
        if let Some(EndEvent {
            range,
            last:
                LastEvent {
                    event_type,
                    data: Some(data),
                    ..
                },
            ..
        }) = withheld.event.filter(|event| event.is_changed)
        {
            self.forward(now, range.start);
            self.call.raw.skip_to(range.end);
            self.write(now, |writer, out| writer.rewrite(out, &event_type, &data));
        }
        self.note_early_end(is_sent);
    }

    /// Confirms the withheld end: writes the text of its event and drops the other withheld bytes.
    pub(super) fn confirm_end(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Withheld(_)) {
            return;
        }
        if let Phase::Withheld(Withheld {
            event: Some(event), ..
        }) = std::mem::replace(&mut self.phase, Phase::Open)
        {
            self.write_without_end(now, &event.last);
        }
        self.withhold(now);
    }

    /// Revokes the ends of the choices for which an event has more of the answer.
    pub(super) fn take_back_ends(&mut self) {
        if self.client.finish {
            // Text after the root does not belong to the document. After an error, a part of the
            // answer may be missing.
            if self.is_whole() || matches!(self.call.end, Some(CallEnd::Error(_))) {
                return;
            }
            self.client.finish = false;
            self.note_early_end(true);
        }
        let Self {
            slots,
            event_summary,
            call,
            client,
            ..
        } = self;
        let has_more = |choice| has_more_of(slots, event_summary, choice);
        call.ends.take_back(has_more);
        client.finished.retain(|choice| !has_more(*choice));
        call.withheld.retain(|choice| !has_more(*choice));
    }

    fn note_early_end(&mut self, is_sent: bool) {
        self.call.done_at = None;
        self.client.done = self.event_summary.is.done && !self.call.adopts;
        self.call.early = self.call.end.take().map(|end| EarlyEnd { end, is_sent });
    }

    /// Returns whether an event with text repeats the end that was refuted last. Its text does not
    /// wait: the client has seen this early end already, and the end of the stream decides.
    pub(super) fn is_known_as_early(&self) -> bool {
        let Some(early) = &self.call.early else {
            return false;
        };
        let is_same = |(_, reason): &(u32, _)| early.end.finish() == Some(reason);
        !self.event_summary.text.is_empty()
            && !self.call.adopts
            && self.event_summary.finishes.iter().all(is_same)
    }

    /// Returns the end of an answer whose stream ended cleanly: the last early end, unless another
    /// end followed.
    pub(super) fn end_or_early(&mut self, end: CallEnd) -> CallEnd {
        match self.call.early.take() {
            Some(early) if end == CallEnd::Closed => early.end,
            _ => end,
        }
    }
}

/// Returns whether an event has more of a choice. Reasoning names no choice.
fn has_more_of(slots: &Slots, event: &EventSummary, choice: u32) -> bool {
    let is_of = |piece: &Piece| slots.list.wire.choice_of(piece.slot.id) == choice;
    event.pieces.is_empty() || event.pieces.iter().any(is_of)
}

/// The time within which an event may refute an end. The text of an event with a finish reason
/// waits for it, and so does the next call after `[DONE]`. It is longer than the usual time between
/// two chunks of a model. Servers end the transport right after the true end, which ends the wait.
/// So it only costs time if a server keeps the connection open after `[DONE]`, and once per stream
/// if a gateway puts a finish reason into every chunk.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
