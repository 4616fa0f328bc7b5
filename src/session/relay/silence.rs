//! The time of a relay: when the open call counts as lost, and when a client that waits is sent a
//! comment.

use std::time::Duration;

use super::withheld::SETTLE;
use super::{Phase, Relay};
use crate::limits::TimeLimit;
use crate::provider::wire::Framing;
use crate::session::CallEnd;
use crate::session::clock::Silence;

impl Relay {
    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, unless an event arrives
    /// earlier.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let silence = self.silence().map(|silence| silence.at);
        let waits = match self.phase {
            Phase::Withheld(_) => true,
            // A call for the rest, or the original request again: the client gets no other bytes
            // meanwhile.
            Phase::Open if self.session().is_first() && self.call.opened => {
                let is_late =
                    self.call.held.is_some() || !self.session().document().pending().is_empty();
                is_late && !self.client.finish
            }
            Phase::Open => true,
            Phase::Unread | Phase::Done => false,
        };
        let keep_alive = Some(
            self.client
                .sent_at
                .saturating_add(self.limits.transport.keep_alive_interval),
        )
        // An interval of zero would write comments without a pause.
        .filter(|_| waits && !self.limits.transport.keep_alive_interval.is_zero());
        keep_alive
            .into_iter()
            .chain(silence)
            .chain(self.text_due())
            .min()
    }

    /// Handles a timeout: writes due text, keeps the client's stream alive, or ends a silent call.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.write_due_text(now);
        if let Some(silence) = self.silence().filter(|silence| now >= silence.at) {
            self.finish_whole(now);
            let end = silence.end();
            if matches!(self.phase, Phase::Unread) || self.is_first_open() && self.passes(&end) {
                if self.client.finish || !self.reattach(now, &end) {
                    self.passed(now, end);
                }
                return;
            }
            self.end_as_known(now, end);
        } else if self.poll_timeout().is_some_and(|due| now >= due) {
            self.keep_alive(now);
        }
    }

    /// Records when bytes arrived. Comments do not count: servers send them while a model does not
    /// answer.
    pub(super) fn note_bytes(&mut self, now: Duration, bytes: &[u8]) {
        let place = self.call.at;
        self.call.at = place.after(bytes);
        if self.framing() != Framing::Events || place.has_more_than_comments(bytes) {
            self.call.heard_at = Some(now);
        }
        self.call.heard_at.get_or_insert(now);
    }

    /// Returns when the open call counts as silent.
    fn silence(&self) -> Option<Silence> {
        let transport = &self.limits.transport;
        let idle = || {
            self.session()
                .decisions
                .clock
                .silent_at(transport.idle(), transport)
        };
        // A passing answer has the longest time limit. Prose that is kept has already begun.
        let passing = || match self.session().call.is_kept_prose(&self.session().channel) {
            true => idle(),
            false => Some(Silence::new(self.call.heard_at?, transport.first_byte())),
        };
        if let Some(at) = self.call.done_at {
            return Some(Silence::new(
                at,
                TimeLimit {
                    name: "settle",
                    time: SETTLE,
                },
            ));
        }
        match self.phase {
            Phase::Open if self.is_reattach_unanswered() => self
                .session()
                .decisions
                .clock
                .silent_at(transport.first_byte(), transport),
            // The document is whole: the call ends even if the upstream never sends its end.
            Phase::Open if self.session().is_first() && self.is_whole() => idle(),
            Phase::Open if self.session().is_first() && (self.client.finish || !self.is_cut()) => {
                passing()
            }
            // `None`: the current slot would pass, but another one is cut.
            Phase::Open => Silence::of(self.session(), self.call.opened).or_else(idle),
            Phase::Withheld(_) => idle(),
            Phase::Unread => passing(),
            Phase::Done => None,
        }
    }

    /// Returns whether the answer would be continued if it were lost now.
    fn is_cut(&self) -> bool {
        self.slots
            .list
            .would_continue(&self.call.ends, &CallEnd::Dropped)
    }
}
