//! The open call to an upstream: its bytes as they arrive, and how far a first call's have left.

use std::time::Duration;

use super::call_ends::CallEnds;
use super::client_stream::ClientStream;
use super::line_position::{LinePosition, StreamStart};
use super::raw_bytes::RawBytes;
use super::withheld::WithheldEnd;
use crate::limits::Limits;
use crate::provider::wire::{Framing, Reader, Wire};
use crate::session::slots::Slots;
use crate::session::{CallEnd, HopEnd};
use crate::sse::Framed;

/// The open or requested call.
#[derive(Debug)]
pub(super) struct UpstreamCall {
    pub(super) phase: StreamPhase,
    pub(super) decoder: Framed,
    pub(super) reader: Box<dyn Reader>,
    pub(super) raw: RawBytes,
    role: CallRole,
    pub(super) arrival: ByteArrival,
    /// The lost connection that this call replaces.
    pub(super) lost: Option<LostConnection>,
    pub(super) ends: CallEnds,
    pub(super) usage: CallUsage,
}

/// The content of a call's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRole {
    /// A first answer, whose bytes are forwarded.
    First,
    /// A first answer after a chunk of another one was sent: its events are written with the
    /// identity of that one.
    Repeated,
    /// The rest of a slot.
    Rest,
}

/// How events of the open call are handled.
#[derive(Debug)]
pub(super) enum StreamPhase {
    /// Events of a first call are forwarded; the text of a further call is joined.
    Open,
    /// A possible end of a first call is withheld until the next event confirms or refutes it.
    Withheld(WithheldEnd),
    /// The stream can't be decoded and is forwarded unread.
    Unread,
    Done,
}

/// When bytes of a call have arrived.
#[derive(Debug)]
pub(super) struct ByteArrival {
    /// Bytes of the response have arrived.
    pub(super) opened: bool,
    /// When its head arrived, or its last bytes that are not a comment.
    pub(super) heard_at: Option<Duration>,
    /// The position of its last byte in a line.
    at: LinePosition,
    /// Whether its bytes are an event stream.
    pub(super) start: StreamStart,
}

/// The usage of a call, before its end.
#[derive(Debug, Default)]
pub(super) struct CallUsage {
    /// The provider's usage object, as JSON.
    pub(super) reported: Option<String>,
    /// A separate chunk has the usage.
    pub(super) is_apart: bool,
}

/// The state of a lost connection, for the connection that replaces it.
#[derive(Debug)]
pub(super) struct LostConnection {
    /// How the connection ended.
    pub(super) end: CallEnd,
    /// The new connection has brought bytes of the answer.
    pub(super) has_answered: bool,
}

impl StreamPhase {
    /// Returns whether the call's events are read.
    pub(super) fn is_read(&self) -> bool {
        matches!(self, Self::Open | Self::Withheld(_))
    }

    /// Returns whether no event of the call is withheld, and more are read.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Returns whether the rest of the call is not read.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }

    /// Returns whether the answer has ended.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Returns whether an end of the call is withheld.
    pub(super) fn is_withheld(&self) -> bool {
        matches!(self, Self::Withheld(_))
    }
}

impl UpstreamCall {
    pub(super) fn new(role: CallRole, wire: &dyn Wire, framing: Framing, limits: &Limits) -> Self {
        Self {
            phase: StreamPhase::Open,
            decoder: Framed::new(framing, limits),
            reader: wire.reader(),
            raw: RawBytes::new(framing),
            role,
            arrival: ByteArrival {
                opened: false,
                heard_at: None,
                at: LinePosition::Block,
                start: match framing {
                    Framing::Events => StreamStart::Line,
                    Framing::Lines | Framing::Array => StreamStart::Events,
                },
            },
            lost: None,
            ends: CallEnds::default(),
            usage: CallUsage::default(),
        }
    }

    /// Returns a first call that has answered.
    pub(super) fn answered(wire: &dyn Wire, framing: Framing, limits: &Limits) -> Self {
        let mut call = Self::new(CallRole::First, wire, framing, limits);
        call.arrival.opened = true;
        call
    }

    /// Replaces the call by one whose events follow its last one.
    pub(super) fn continue_events(&mut self, fresh: Self) {
        let before = std::mem::replace(self, fresh);
        // The same answer continues: half a character and the ends of its choices carry over.
        self.reader = before.reader;
        self.ends.choices = before.ends.choices;
        self.ends.early = before.ends.early;
        self.usage = before.usage;
    }

    /// Begins another connection, after one with this end.
    pub(super) fn reconnect(&mut self, end: &CallEnd) {
        // The new connection has the time of a first answer.
        self.arrival.opened = false;
        self.lost = Some(LostConnection {
            end: end.clone(),
            has_answered: false,
        });
        self.phase = StreamPhase::Open;
    }

    /// Replaces the call, which has this end, by one that continues the answer from its newest
    /// token. Returns the token.
    pub(super) fn hop(&mut self, fresh: Self, end: &CallEnd, after: HopEnd) -> Box<str> {
        let before = std::mem::replace(self, fresh);
        // The same answer continues, so its tokens and half a character carry over.
        self.reader = before.reader;
        self.usage.is_apart = before.usage.is_apart;
        // If no call answers, the answer ends like the call that did.
        let unanswered = before.lost.filter(|lost| !lost.has_answered);
        self.lost = Some(unanswered.unwrap_or_else(|| LostConnection {
            end: end.clone(),
            has_answered: false,
        }));
        let Some(checkpoints) = self.reader.checkpoints() else {
            debug_assert!(false, "a hop follows from a token");
            return Box::default();
        };
        checkpoints.begin_hop();
        if after == HopEnd::Limit {
            checkpoints.note_raised();
        }
        checkpoints.token().unwrap_or_default().into()
    }

    /// Rejects a call whose text differs from the text that it had to repeat. Nothing of it was
    /// sent, so the answer ends like the call that was lost.
    pub(super) fn reject_hop(&mut self) {
        if let Some(checkpoints) = self.reader.checkpoints() {
            checkpoints.close();
        }
        if let Some(lost) = &mut self.lost {
            lost.has_answered = false;
        }
    }

    /// Returns whether the call brings a first answer.
    pub(super) fn is_first(&self) -> bool {
        self.role != CallRole::Rest
    }

    /// Returns whether the events are written with the identity of an answer before.
    pub(super) fn adopts(&self) -> bool {
        self.role == CallRole::Repeated
    }

    /// Returns whether the call brings a first answer, and no event is withheld.
    pub(super) fn is_first_open(&self) -> bool {
        self.phase.is_open() && self.is_first()
    }

    /// Returns whether the raw bytes are forwarded unchanged.
    pub(super) fn is_forwarding(&self) -> bool {
        self.phase.is_open() && self.role == CallRole::First
    }

    /// Returns whether the raw bytes are forwarded, or may be forwarded later.
    pub(super) fn keeps_raw(&self) -> bool {
        self.phase.is_read() && self.role == CallRole::First
    }

    /// Returns whether the document is whole and is all of the answer. False if the answer holds
    /// more than its text, or once reading has stopped.
    pub(super) fn is_whole(&self, slots: &Slots) -> bool {
        slots.list.is_whole() && self.ends.withheld.is_empty() && !self.phase.is_unread()
    }

    /// Returns how many more bytes of a first answer may wait, where `unread` bytes of its last
    /// chunk are not read yet. An unfinished event reaches a limit of the decoder; a block of
    /// comments and held-back events reach this one.
    pub(super) fn room(&self, unread: usize, max_event_bytes: usize) -> usize {
        // Bytes that wait are kept, so their number is bounded.
        let waiting = match self.phase {
            StreamPhase::Withheld(_) => self.raw.received().saturating_sub(self.raw.forwarded()),
            _ => self.raw.waiting_after(self.decoder.boundary()),
        };
        let waiting = waiting.saturating_sub(unread as u64);
        // An event of the largest size may wait behind a held-back one.
        let most = max_event_bytes.saturating_mul(2);
        most.saturating_add(1)
            .saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX))
    }

    /// Forwards raw bytes up to an absolute offset, except held-back ones.
    pub(super) fn forward(&mut self, client: &mut ClientStream, now: Duration, to: u64) {
        client.forward(now, self.raw.release_to(to));
    }

    /// Forwards the bytes before the block that ends at an absolute offset.
    pub(super) fn forward_before(&mut self, client: &mut ClientStream, now: Duration, end: u64) {
        let start = self.raw.start_of_block(end);
        self.forward(client, now, start);
    }

    /// Forwards the bytes before the event that ends at `at`, and writes `data` instead of the
    /// event.
    pub(super) fn replace_event(
        &mut self,
        client: &mut ClientStream,
        now: Duration,
        at: u64,
        event_type: &str,
        data: &str,
    ) {
        self.forward_before(client, now, at);
        self.raw.skip_to(at);
        client.rewrite(now, event_type, data);
    }

    /// Drops the unsent events of an answer that is continued. The texts of held-back events are
    /// part of the document, so they are written.
    pub(super) fn drop_unsent(&mut self, client: &mut ClientStream, now: Duration) {
        if let Some(held) = self.raw.held.take() {
            self.forward(client, now, held.from);
            held.slots
                .into_iter()
                .for_each(|slot| client.writer.reopen(slot));
            client.texts(now, &held.texts);
        }
        // The rest is the end of an answer that is not over: the client must not see it.
        self.raw.clear();
    }

    /// Returns when the text of the withheld event is written without its end.
    pub(super) fn text_due(&self) -> Option<Duration> {
        let StreamPhase::Withheld(withheld) = &self.phase else {
            return None;
        };
        withheld.event.as_ref()?.text_due
    }

    /// Writes the text of the withheld event if it has waited long enough.
    pub(super) fn write_due_text(&mut self, client: &mut ClientStream, now: Duration) {
        if let StreamPhase::Withheld(withheld) = &mut self.phase
            && let Some(event) = withheld
                .event
                .take_if(|event| event.text_due.is_some_and(|due| now >= due))
        {
            // The bytes of the event would end the answer, so the text is written in an event of
            // its own.
            self.raw.skip_to(event.range.end);
            client.without_end(now, &event.last);
        }
    }

    /// Confirms the withheld end: writes the text of its event and drops the other withheld bytes.
    pub(super) fn confirm_end(&mut self, client: &mut ClientStream, now: Duration) {
        if !self.phase.is_withheld() {
            return;
        }
        if let StreamPhase::Withheld(WithheldEnd {
            event: Some(event), ..
        }) = std::mem::replace(&mut self.phase, StreamPhase::Open)
        {
            client.without_end(now, &event.last);
        }
        self.drop_unsent(client, now);
    }

    /// Records when bytes arrived. Comments do not count: servers send them while a model does not
    /// answer.
    pub(super) fn note_bytes(&mut self, now: Duration, bytes: &[u8], framing: Framing) {
        let arrival = &mut self.arrival;
        arrival.opened = true;
        let before = arrival.at;
        arrival.at = before.after(bytes);
        arrival.start = arrival.start.after(bytes);
        // Only event streams have comments.
        if framing != Framing::Events || before.has_more_than_comments(bytes) {
            arrival.heard_at = Some(now);
        }
        arrival.heard_at.get_or_insert(now);
        if let Some(lost) = &mut self.lost {
            lost.has_answered = true;
        }
    }

    /// Returns whether the call was reconnected and has brought nothing yet. An answer that must
    /// not be continued waits for it, too.
    pub(super) fn is_reattach_unanswered(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| !lost.has_answered)
    }

    /// Returns how the connection was lost, if it could not be reconnected: the session then asks
    /// for the rest.
    pub(super) fn end_of_lost(&mut self) -> Option<CallEnd> {
        self.lost
            .take_if(|lost| !lost.has_answered)
            .map(|lost| lost.end)
    }
}
