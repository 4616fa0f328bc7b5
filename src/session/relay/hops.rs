//! Answers that their provider continues: further calls with a token, whose events follow those of
//! the first call without a seam.

use std::time::Duration;

use super::answer::RelayedAnswer;
use super::upstream_call::{LostConnection, UpstreamCall};
use super::{Output, Reattach, Relay};
use crate::provider::Finish;
use crate::session::{CallEnd, HopEnd, Request, Resume, Rung};

impl RelayedAnswer {
    /// Returns whether the provider may continue the answer from a token, so that all its events
    /// are read.
    pub(super) fn reads_tokens(&mut self) -> bool {
        self.takes_tokens() && self.slots.limit().is_none()
    }

    /// Returns whether the answer can be continued from tokens.
    fn takes_tokens(&mut self) -> bool {
        // The tokens are of the first choice.
        let limits = &self.session().channel.settings.limits.continuation;
        self.reattach == Reattach::NextEvent
            && self.session().channel.settings.allows(Rung::Token)
            && limits.max_continuations > 0
            && self.slots.list.expected_choices == 1
            && self.session().is_first()
            && self.call.reader.checkpoints().is_some()
    }

    /// Returns whether a call with a token may continue an answer that ends like this.
    pub(super) fn may_hop_after(&mut self, end: &CallEnd) -> bool {
        self.hop_after(end).is_some()
    }

    /// Returns how the open call has ended for a call with a token that may follow it.
    fn hop_after(&mut self, end: &CallEnd) -> Option<HopEnd> {
        let hop_end = match end {
            // Prose ends where the client wanted it to end.
            CallEnd::Finished(Finish::Length) if self.raises_limit => {
                let continues = self.call.ends.continue_after(&self.slots, end);
                return (continues && self.can_hop(HopEnd::Limit)).then_some(HopEnd::Limit);
            }
            CallEnd::Finished(_) => HopEnd::Asked,
            // The client has all of a whole document.
            _ if self.is_forwarding() && self.is_whole() => return None,
            CallEnd::Dropped | CallEnd::TimedOut(_) | CallEnd::Closed => HopEnd::Lost,
            // An error that ends prose passes.
            CallEnd::Error(_) if self.call.ends.continue_after(&self.slots, end) => HopEnd::Lost,
            _ => return None,
        };
        self.can_hop(hop_end).then_some(hop_end)
    }

    fn can_hop(&mut self, end: HopEnd) -> bool {
        let mut checkpoints = match self.takes_tokens() {
            true => self.call.reader.checkpoints(),
            false => None,
        };
        checkpoints.as_mut().is_some_and(|checkpoints| match end {
            HopEnd::Asked => checkpoints.can_hop(true),
            HopEnd::Lost => checkpoints.can_hop(false),
            HopEnd::Limit => checkpoints.can_raise(),
        })
    }
}

impl Relay {
    /// Asks the provider to continue its answer from the newest token, if it has one. Returns
    /// whether it did.
    pub(super) fn continue_by_token(&mut self, now: Duration, end: &CallEnd) -> bool {
        let answer = &mut self.answer;
        if !answer.is_first_open() || answer.client.ends.finish {
            return false;
        }
        let checkpoints = answer.call.reader.checkpoints();
        if let Some(token) = checkpoints.and_then(|checkpoints| checkpoints.token()) {
            answer.client.writer.note_token(token);
        }
        let is_refused = answer.call.is_reattach_unanswered()
            && !matches!(end, CallEnd::Dropped | CallEnd::TimedOut(_));
        let Some(after) = answer.hop_after(end).filter(|_| !is_refused) else {
            return false;
        };
        if answer.is_forwarding() {
            answer.call.drop_unsent(&mut answer.client, now);
        }
        self.count_usage(now);
        let RelayedAnswer {
            slots,
            client,
            call,
            ..
        } = &mut self.answer;
        let fresh = UpstreamCall::new(slots.list.wire, client.framing, &self.limits);
        let before = std::mem::replace(call, fresh);
        // The same answer continues, so its tokens and half a character carry over.
        call.reader = before.reader;
        call.usage.is_apart = before.usage.is_apart;
        // Each call counts its own usage and has an end of its own, so the events are written again
        // with the identity of the first call.
        call.adopts = true;
        // If no call answers, the answer ends like the call that did.
        let unanswered = before.lost.filter(|lost| !lost.has_answered);
        call.lost = Some(unanswered.unwrap_or_else(|| LostConnection {
            end: end.clone(),
            has_answered: false,
        }));
        let Some(checkpoints) = call.reader.checkpoints() else {
            return false;
        };
        checkpoints.begin_hop();
        if after == HopEnd::Limit {
            checkpoints.note_raised();
        }
        let token = checkpoints.token().unwrap_or_default().into();
        let session = slots.session_mut();
        session.decisions.clock.restart(now);
        session.channel.journal.stats.note_rung(Rung::Token);
        let request = Request::resuming(
            session.tally().continuations,
            Resume::Token { token, after },
        );
        client.outputs.push_back(Output::Call { request, at: now });
        true
    }

    /// Ends a call whose text differs from the text that it had to repeat. Nothing of it was sent,
    /// so the answer ends like the call that was lost.
    pub(super) fn end_differing(&mut self, now: Duration) {
        let call = &mut self.answer.call;
        call.reader
            .checkpoints()
            .into_iter()
            .for_each(|checkpoints| checkpoints.close());
        if let Some(lost) = &mut call.lost {
            lost.has_answered = false;
        }
        let error = "the continued answer differs from the text that was sent";
        self.handle_call_end(now, CallEnd::Error(error.to_owned()));
    }
}
