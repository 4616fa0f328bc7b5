//! One event of a stream, as far as a relay is concerned.

use super::CallEnd;
use crate::provider::wire::{Reader, Writer};
use crate::provider::{Delta, FIRST, Finish, Kind};
use crate::sse::Event;

/// What one event has, as far as a relay is concerned. Reused from event to event.
#[derive(Debug, Default)]
pub(super) struct EventSummary {
    pub(super) text: String,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<String>,
    pub(super) error: Option<String>,
    pub(super) done: bool,
    /// Tool calls, a refusal, or a choice other than the first.
    pub(super) opaque: bool,
    /// Reasoning, or an event that is no chunk: nothing for the document, but nothing to drop either.
    pub(super) other: bool,
    /// Reasoning of the first choice.
    pub(super) reasoning: bool,
    /// The event could be read as a piece of an answer.
    pub(super) chunk: bool,
}

impl EventSummary {
    /// Reads an event; returns its data if that is `wanted`, to be written again.
    pub(super) fn read(
        &mut self,
        reader: &mut dyn Reader,
        writer: &mut dyn Writer,
        event: Event<'_>,
        wanted: bool,
    ) -> Option<String> {
        writer.observe(&event.event, &event.data);
        self.text.clear();
        *self = Self { text: std::mem::take(&mut self.text), ..Self::default() };
        let kind = reader.read(&event.event, &event.data, &mut |delta| match delta {
            Delta::Text { slot: FIRST, text } => self.text.push_str(text),
            Delta::Reasoning { slot: FIRST, .. } => (self.other, self.reasoning) = (true, true),
            Delta::Refusal { slot: FIRST, text: "" } => self.other = true,
            Delta::Finish { choice: 0, reason, .. } => self.finish = Some(reason),
            Delta::Usage { raw } => self.usage = Some(raw.to_owned()),
            Delta::Error { message, .. } => self.error = Some(message.to_owned()),
            Delta::Done { .. } => self.done = true,
            _ => self.opaque = true,
        });
        self.other |= kind == Kind::Other;
        self.chunk = kind == Kind::Chunk;
        wanted.then(|| event.data.into_owned())
    }

    /// How the call ends with this event, if it does.
    pub(super) fn end(&self) -> Option<CallEnd> {
        match (&self.error, &self.finish) {
            (Some(message), _) => Some(CallEnd::Error(message.clone())),
            (None, Some(reason)) => Some(CallEnd::Finished(reason.clone())),
            (None, None) => self.done.then_some(CallEnd::Closed),
        }
    }

    /// Nothing but a role, or nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.usage.is_none() && !self.opaque && !self.other && self.end().is_none()
    }
}

/// Where the last block of `raw` begins, which ends with its blank line or at the end.
pub(super) fn last_block(raw: &[u8]) -> usize {
    let (mut start, mut line, mut at) = (0, 0, 0);
    while at < raw.len() {
        let length = match raw[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        };
        let is_blank = length > 0 && line == at;
        at += length.max(1);
        if length > 0 {
            line = at;
        }
        if is_blank && at < raw.len() {
            start = at;
        }
    }
    start
}
