//! A connection that was lost, to a provider that can send the rest of the same answer: no tokens
//! and no seam.

use std::time::Duration;

use super::{OpenCall, Output, Phase, Relay};
use crate::session::{CallEnd, Request};

/// The state of a lost connection, for the connection that replaces it.
#[derive(Debug)]
pub(super) struct LostConnection {
    /// How the connection ended.
    end: CallEnd,
    /// The new connection has brought bytes of the answer.
    has_answered: bool,
}

/// How the relay reconnects to a provider that keeps the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reattach {
    /// The relay never reconnects.
    Never,
    /// With the events after the last one, if the response says that its provider keeps it.
    NextEvent,
    /// With the next byte: the provider keeps the bytes of the stream.
    NextByte,
}

/// The most reconnections for one answer. As many as calls for the rest by default, so that a
/// connection that is lost every time ends.
const MAX_ATTACHED: u32 = 8;

impl Relay {
    /// Asks for the rest of the same answer, if the first call was lost and its provider can send
    /// it. Returns whether it did.
    pub(super) fn reattach(&mut self, now: Duration, end: &CallEnd) -> bool {
        let is_lost =
            matches!(end, CallEnd::Dropped | CallEnd::TimedOut(_)) && self.is_forwarding();
        if !is_lost || self.is_reattach_unanswered() || self.upstream.reattached >= MAX_ATTACHED {
            return false;
        }
        let query = match self.reattach {
            Reattach::NextEvent if self.call.held.is_none() => self.writer.resume(),
            Reattach::NextByte if self.call.opened => {
                Some(format!("?from={}", self.call.raw.received()))
            }
            _ => None,
        };
        let Some(query) = query else { return false };
        self.upstream.reattached += 1;
        if self.reattach == Reattach::NextEvent {
            let fresh = OpenCall::new(self.slots.list.wire, self.framing(), &self.limits);
            let before = std::mem::replace(&mut self.call, fresh);
            // The same answer continues: half a character and the ends of its choices carry over.
            let call = &mut self.call;
            (call.reader, call.ends, call.early) = (before.reader, before.ends, before.early);
            (call.usage, call.usage_apart) = (before.usage, before.usage_apart);
        }
        self.call.opened = false;
        self.call.lost = Some(LostConnection {
            end: end.clone(),
            has_answered: false,
        });
        self.phase = Phase::Open;
        self.slots.session_mut().decisions.clock.restart(now);
        let number = self.session().tally().continuations;
        let request = Request {
            number,
            turn: None,
            reduce_reasoning: false,
            most_tokens: None,
            resume: Some(query),
        };
        self.outputs.push_back(Output::Call { request, at: now });
        true
    }

    /// Returns whether the open call was made for the rest of the same answer. Such a call is not
    /// made twice.
    pub(super) fn is_attached_again(&mut self) -> bool {
        let is_attached = self.call.lost.is_some();
        if is_attached {
            self.upstream.reattached = MAX_ATTACHED;
        }
        is_attached
    }

    /// Returns whether the call was reconnected and has brought nothing yet. An answer that must
    /// not be continued waits for it, too.
    pub(super) fn is_reattach_unanswered(&self) -> bool {
        self.call
            .lost
            .as_ref()
            .is_some_and(|lost| !lost.has_answered)
    }

    /// Records that the new connection has brought bytes of the answer.
    pub(super) fn note_answer(&mut self) {
        if let Some(lost) = &mut self.call.lost {
            lost.has_answered = true;
        }
    }

    /// Returns how the connection was lost, if it could not be reconnected: the session then asks
    /// for the rest.
    pub(super) fn end_of_lost(&mut self) -> Option<CallEnd> {
        self.call
            .lost
            .take_if(|lost| !lost.has_answered)
            .map(|lost| lost.end)
    }
}
