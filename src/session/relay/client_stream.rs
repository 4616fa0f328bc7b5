//! The client's stream: raw bytes of the upstream and written events leave through it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::Output;
use super::line_position::LinePosition;
use crate::provider::wire::{Framing, Slot, Wire, Writer};
use crate::session::event_summary::LastEvent;
use crate::session::slot_list::SlotEntry;
use crate::session::slots::Slots;
use crate::session::{self, LimitReached, Outcome};

/// The client's stream.
#[derive(Debug)]
pub(super) struct ClientStream {
    pub(super) writer: Box<dyn Writer>,
    pub(super) framing: Framing,
    pub(super) outputs: VecDeque<Output>,
    /// The client has received an event, or a part of one.
    has_event: bool,
    /// A chunk with a choice: the client knows the answer's id and role.
    pub(super) introduced: bool,
    pub(super) ends: ClientEnds,
    /// The limit on its side that ends the answer.
    pub(super) limit: Option<LimitReached>,
    /// The position in a line at which the last sent bytes end.
    at: LinePosition,
    /// The time of the last sent bytes.
    sent_at: Duration,
}

/// The upstream's own ends that the client has received.
#[derive(Debug, Default)]
pub(super) struct ClientEnds {
    /// The finish reasons of all choices, or the end of the stream.
    pub(super) finish: bool,
    /// The choices whose finish reasons it has received.
    pub(super) finished: Vec<u32>,
    /// `[DONE]`.
    pub(super) done: bool,
}

impl ClientStream {
    pub(super) fn new(wire: &dyn Wire, framing: Framing) -> Self {
        Self {
            writer: new_writer(wire, framing),
            framing,
            outputs: VecDeque::new(),
            has_event: false,
            introduced: false,
            ends: ClientEnds::default(),
            limit: None,
            at: LinePosition::Block,
            sent_at: Duration::ZERO,
        }
    }

    /// Forgets the answer that was begun: the client has seen nothing of it.
    pub(super) fn begin_again(&mut self, wire: &dyn Wire) {
        self.writer = new_writer(wire, self.framing);
    }

    /// Returns whether the client has received the upstream's own end of the answer.
    pub(super) fn has_end(&self) -> bool {
        self.ends.finish || self.ends.done
    }

    /// Sends raw bytes of the upstream.
    pub(super) fn forward(&mut self, now: Duration, raw: [Bytes; 2]) {
        for bytes in raw {
            self.has_event |= !bytes.is_empty();
            self.send(now, bytes);
        }
    }

    pub(super) fn send(&mut self, now: Duration, bytes: Bytes) {
        if !bytes.is_empty() {
            self.sent_at = now;
            self.at = self.at.after(&bytes);
            self.outputs.push_back(Output::Bytes(bytes));
        }
    }

    /// Sends events that were written.
    pub(super) fn events(&mut self, now: Duration, events: Vec<u8>) {
        let mut events = events;
        if self.framing == Framing::Array
            && let Some(comma) = events.first_mut()
            && !std::mem::replace(&mut self.has_event, true)
        {
            // Elements are written with the comma before them, and the first one opens the array.
            *comma = b'[';
        }
        self.send(now, events.into());
    }

    pub(super) fn write(
        &mut self,
        now: Duration,
        write: impl FnOnce(&mut dyn Writer, &mut Vec<u8>),
    ) {
        let mut out = Vec::new();
        write(&mut *self.writer, &mut out);
        self.events(now, out);
    }

    /// Writes a chunk with text, if there is any.
    pub(super) fn text(&mut self, now: Duration, slot: Slot, text: &str) {
        if !text.is_empty() {
            self.write(now, |writer, out| writer.text(out, slot, text));
            self.introduced = true;
        }
    }

    /// Writes chunks with texts, and sends them together.
    pub(super) fn texts(&mut self, now: Duration, texts: &[(Slot, String)]) {
        let mut out = Vec::new();
        for (slot, text) in texts {
            self.writer.text(&mut out, *slot, text);
        }
        self.introduced |= !out.is_empty();
        self.events(now, out);
    }

    /// Writes an event without the end of the answer. If no data remains, writes only its texts.
    pub(super) fn without_end(&mut self, now: Duration, event: &LastEvent) {
        let data = event
            .data
            .as_deref()
            .map(|data| self.writer.without_end(data));
        match data.filter(|data| !data.is_empty()) {
            Some(data) => {
                self.introduced = true;
                self.rewrite(now, &event.event_type, &data);
            }
            None => self.texts(now, &event.texts),
        }
    }

    /// Writes an event of the upstream whose data was changed.
    pub(super) fn rewrite(&mut self, now: Duration, event_type: &str, data: &str) {
        self.write(now, |writer, out| writer.rewrite(out, event_type, data));
    }

    /// Writes an event of another answer as one of the first. Takes its type.
    pub(super) fn adopt(&mut self, now: Duration, event_type: &mut String, data: &str) {
        let event_type = std::mem::take(event_type);
        self.write(now, |writer, out| writer.adopt(out, &event_type, data));
    }

    /// Replaces the texts that an event repeats by the repaired ones. Returns its data, or `None`
    /// if nothing changes.
    pub(super) fn with_whole_texts(&mut self, slots: &Slots, data: &str) -> Option<String> {
        let texts = slots.list.texts(SlotEntry::is_repaired);
        if texts.is_empty() {
            None
        } else {
            self.writer.with_whole_texts(data, &texts)
        }
    }

    /// Ends the line or block that the upstream has left open. A client drops it without that.
    pub(super) fn terminate(&mut self, now: Duration) {
        let end: &[u8] = match self.framing {
            Framing::Events => b"\n\n",
            Framing::Lines => b"\n",
            Framing::Array => b"",
        };
        self.send(now, Bytes::from_static(end));
    }

    pub(super) fn keep_alive(&mut self, now: Duration) {
        let mut out = Vec::new();
        self.writer.keep_alive(&mut out);
        self.send(now, out.into());
    }

    /// Returns when a client that waits is sent a comment. `None`: never.
    pub(super) fn keep_alive_due(&self, interval: Duration) -> Option<Duration> {
        // An interval of zero would write comments without a pause.
        (!interval.is_zero()).then(|| self.sent_at.saturating_add(interval))
    }

    /// Takes the outcome of a session that ends with the first answer. The client has its text.
    pub(super) fn take_outcome(&mut self, slots: &mut Slots) -> Option<Outcome> {
        let mut outcome = None;
        while let Some(output) = slots.session_mut().poll_output() {
            match output {
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Done(done) => outcome = Some(done),
                session::Output::Text(_) | session::Output::Call { .. } => {}
            }
        }
        outcome
    }

    /// Takes the text of a first answer from the session's outputs.
    pub(super) fn take_text(&mut self, slots: &mut Slots) -> String {
        let mut text = String::new();
        while let Some(output) = slots.session_mut().poll_output() {
            match output {
                session::Output::Text(more) if text.is_empty() => text = more,
                session::Output::Text(more) => text.push_str(&more),
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Call { .. } | session::Output::Done(_) => {
                    debug_assert!(
                        false,
                        "only the end of a call is followed by another or by the outcome"
                    );
                }
            }
        }
        text
    }

    /// Writes an error with the reason why the stream breaks off, if the client is not in the
    /// middle of an event. The end of an unread stream can't be detected; clients read nothing
    /// after it.
    pub(super) fn report_break(
        &mut self,
        now: Duration,
        is_read: bool,
        limit: &LimitReached,
        outcome: &Outcome,
    ) {
        if self.is_between_events(is_read) && !self.has_end() {
            let message = format!("the answer breaks off here: the limit `{limit}` is reached");
            self.write(now, |writer, out| {
                writer.error(out, &message, &limit.name, &outcome.report());
            });
        }
    }

    /// Writes the report of a malformed answer that was cut before its finish.
    pub(super) fn report_malformed(&mut self, now: Duration, is_read: bool, outcome: &Outcome) {
        if self.is_between_events(is_read) && !self.has_end() {
            self.write(now, |writer, out| writer.report(out, &outcome.report()));
        }
    }

    /// Returns whether an event may follow: inside another one it would be read as its data.
    fn is_between_events(&self, is_read: bool) -> bool {
        match self.framing {
            Framing::Events => self.at == LinePosition::Block,
            Framing::Lines => self.at.is_at_line(),
            Framing::Array => is_read,
        }
    }

    /// Writes the report of an answer that was not read to its end, as a comment: it does not
    /// change the last event.
    pub(super) fn report_unread(&mut self, now: Duration, outcome: &Outcome) {
        if self.framing == Framing::Events && self.at.is_at_line() {
            self.send(now, format!(": restitch {}\n", outcome.report()).into());
        }
    }
}

/// Returns a writer of events with this framing.
fn new_writer(wire: &dyn Wire, framing: Framing) -> Box<dyn Writer> {
    let of_array = (framing == Framing::Array)
        .then(|| wire.array_writer())
        .flatten();
    of_array.unwrap_or_else(|| wire.writer())
}
