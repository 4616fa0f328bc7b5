//! Answers that their provider continues by itself: a lost connection is made again, or a further
//! call has a token. The events follow those of the first call without a seam.

use super::Reattach;
use super::client_stream::ClientStream;
use super::upstream_call::UpstreamCall;
use crate::provider::Finish;
use crate::session::slots::Slots;
use crate::session::{CallEnd, HopEnd, Rung};

/// Whether, and how often, the relay asks for the rest of the same answer.
#[derive(Debug, Default)]
pub(super) struct Reconnection {
    /// How the relay reconnects a lost connection.
    pub(super) mode: Reattach,
    /// A call with a token may have more tokens than the request.
    pub(super) raises_limit: bool,
    /// The number of reconnections.
    reattached: u32,
}

/// A call for the rest of the same answer.
pub(super) enum Reconnect {
    /// With the newest token, after a call that ended like this.
    Token(HopEnd),
    /// With this query, for the events after the last one.
    NextEvent(String),
    /// With this query, for the next byte.
    NextByte(String),
}

// As many as calls for the rest by default, so that a connection that is lost every time ends.
/// The most reconnections for one answer.
const MAX_ATTACHED: u32 = 8;

impl Reconnection {
    /// Lets no lost connection be made again.
    pub(super) fn stop_reattaching(&mut self) {
        self.reattached = MAX_ATTACHED;
    }

    /// Returns the call that follows one with this end, if the provider can send the rest.
    pub(super) fn next(
        &mut self,
        slots: &Slots,
        client: &mut ClientStream,
        call: &mut UpstreamCall,
        end: &CallEnd,
    ) -> Option<Reconnect> {
        if call.is_first_open() && !client.ends.finish {
            let checkpoints = call.reader.checkpoints();
            if let Some(token) = checkpoints.and_then(|checkpoints| checkpoints.token()) {
                client.writer.note_token(token);
            }
            let is_refused = call.is_reattach_unanswered() && !is_lost(end);
            if let Some(after) = self.hop_after(slots, call, end).filter(|_| !is_refused) {
                return Some(Reconnect::Token(after));
            }
        }
        let settings = &slots.session().channel.settings;
        let may_reattach = is_lost(end)
            && call.is_forwarding()
            && settings.allows(Rung::Reattach)
            && !call.is_reattach_unanswered()
            && self.reattached < MAX_ATTACHED;
        let next = match self.mode {
            _ if !may_reattach => None,
            Reattach::NextEvent if call.raw.held.is_none() => {
                client.writer.resume().map(Reconnect::NextEvent)
            }
            // Without a byte of the response the stream may not exist, so the whole request is made
            // again.
            Reattach::NextByte if call.arrival.opened => {
                let query = format!("?from={}", call.raw.received());
                Some(Reconnect::NextByte(query))
            }
            _ => None,
        };
        self.reattached += u32::from(next.is_some());
        next
    }

    /// Returns whether the provider may continue the answer from a token, so that all its events
    /// are read.
    pub(super) fn reads_tokens(&self, slots: &Slots, call: &mut UpstreamCall) -> bool {
        self.takes_tokens(slots, call) && slots.limit().is_none()
    }

    /// Returns how a call has ended for a call with a token that may follow it.
    pub(super) fn hop_after(
        &self,
        slots: &Slots,
        call: &mut UpstreamCall,
        end: &CallEnd,
    ) -> Option<HopEnd> {
        let hop_end = match end {
            // Prose ends where the client wanted it to end.
            CallEnd::Finished(Finish::Length) if self.raises_limit => {
                let continues = call.ends.continue_after(slots, end);
                return (continues && self.can_hop(slots, call, HopEnd::Limit))
                    .then_some(HopEnd::Limit);
            }
            CallEnd::Finished(_) => HopEnd::Asked,
            // The client has all of a whole document.
            _ if call.is_forwarding() && call.is_whole(slots) => return None,
            CallEnd::Dropped | CallEnd::TimedOut(_) | CallEnd::Closed => HopEnd::Lost,
            // An error that ends prose passes.
            CallEnd::Error(_) if call.ends.continue_after(slots, end) => HopEnd::Lost,
            _ => return None,
        };
        self.can_hop(slots, call, hop_end).then_some(hop_end)
    }

    /// Returns whether the answer can be continued from tokens.
    fn takes_tokens(&self, slots: &Slots, call: &mut UpstreamCall) -> bool {
        let settings = &slots.session().channel.settings;
        self.mode == Reattach::NextEvent
            && settings.allows(Rung::Token)
            && settings.limits.continuation.max_continuations > 0
            // The tokens are of the first choice.
            && slots.list.expected_choices <= 1
            && call.is_first()
            && call.reader.checkpoints().is_some()
    }

    fn can_hop(&self, slots: &Slots, call: &mut UpstreamCall, end: HopEnd) -> bool {
        let mut checkpoints = match self.takes_tokens(slots, call) {
            true => call.reader.checkpoints(),
            false => None,
        };
        checkpoints.as_mut().is_some_and(|checkpoints| match end {
            HopEnd::Asked => checkpoints.can_hop(true),
            HopEnd::Lost => checkpoints.can_hop(false),
            HopEnd::Limit => checkpoints.can_raise(),
        })
    }
}

/// Returns whether the end is that of a lost connection.
fn is_lost(end: &CallEnd) -> bool {
    matches!(end, CallEnd::Dropped | CallEnd::TimedOut(_))
}
