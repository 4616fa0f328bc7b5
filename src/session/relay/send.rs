//! What leaves to the client: bytes as they came, and events that are written.

use std::time::Duration;

use bytes::Bytes;

use super::{Output, Relay};
use crate::provider::wire::{Framing, Writer};

/// What the client has received, and is to receive.
#[derive(Debug)]
pub(super) struct Client {
    /// An event, or a part of one.
    pub(super) has_event: bool,
    /// A chunk with a choice: the client knows the answer's id and role.
    pub(super) introduced: bool,
    /// The finish reasons of all choices or the end of the stream, as they came.
    pub(super) finish: bool,
    /// The finish reasons of these choices, as they came.
    pub(super) finished: Vec<u32>,
    /// `[DONE]`, as it came.
    pub(super) done: bool,
    /// What left last ends with the end of a line.
    pub(super) is_at_line: bool,
    /// When something left last.
    pub(super) sent_at: Duration,
}

impl Client {
    pub(super) fn new() -> Self {
        let (finished, sent_at) = (Vec::new(), Duration::ZERO);
        Self { has_event: false, introduced: false, finish: false, finished, done: false, is_at_line: true, sent_at }
    }
}

impl Relay {
    /// Forwards raw bytes, up to an absolute offset, but nothing that is held back.
    pub(super) fn forward(&mut self, now: Duration, to: u64) {
        let to = self.call.held.as_ref().map_or(to, |held| held.from.min(to));
        for bytes in self.call.raw.take_to(to) {
            self.client.has_event |= !bytes.is_empty();
            self.send(now, bytes);
        }
    }

    /// Forwards what precedes the block that ends at an absolute offset.
    pub(super) fn forward_before(&mut self, now: Duration, end: u64) {
        let start = self.call.raw.start_of_block(end);
        self.forward(now, start);
    }

    pub(super) fn write(&mut self, now: Duration, write: impl FnOnce(&mut dyn Writer, &mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut *self.writer, &mut out);
        self.send_events(now, out);
    }

    /// Writes a chunk with text, if there is any.
    pub(super) fn write_text(&mut self, now: Duration, text: &str) {
        if !text.is_empty() {
            let slot = self.slots.slot();
            self.write(now, |writer, out| writer.text(out, slot, text));
            self.client.introduced = true;
        }
    }

    pub(super) fn keep_alive(&mut self, now: Duration) {
        let mut out = Vec::new();
        self.writer.keep_alive(&mut out);
        self.send(now, out.into());
    }

    /// Sends events that were written.
    pub(super) fn send_events(&mut self, now: Duration, events: Vec<u8>) {
        let mut events = events;
        if self.framing() == Framing::Array
            && let Some(comma) = events.first_mut()
            && !std::mem::replace(&mut self.client.has_event, true)
        {
            *comma = b'[';
        }
        self.send(now, events.into());
    }

    pub(super) fn send(&mut self, now: Duration, bytes: Bytes) {
        if !bytes.is_empty() {
            self.client.sent_at = now;
            self.client.is_at_line = bytes.ends_with(b"\n");
            self.outputs.push_back(Output::Bytes(bytes));
        }
    }
}
