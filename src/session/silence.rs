//! The open call in time: when it counts as lost, and by which limit.

use std::time::Duration;

use super::{CallEnd, LimitReached, Phase, Session, Tally};
use crate::limits::TimeLimit;

/// When the open call counts as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) at: Duration,
    limit: TimeLimit,
}

impl Silence {
    /// Returns the end of the time that a limit gives from `since` on.
    pub(super) fn new(since: Duration, limit: TimeLimit) -> Self {
        Self {
            at: since.saturating_add(limit.time),
            limit,
        }
    }

    /// Returns the earlier one.
    fn or_earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// Returns how the call has ended at that time.
    pub(super) fn end(self) -> CallEnd {
        self.limit.into()
    }
}

impl From<TimeLimit> for LimitReached {
    fn from(limit: TimeLimit) -> Self {
        Self::of_time(limit.name, limit.time)
    }
}

impl From<TimeLimit> for CallEnd {
    fn from(limit: TimeLimit) -> Self {
        Self::TimedOut(limit.into())
    }
}

impl Session {
    /// Returns when the open call counts as silent, unless input arrives, or has taken too long:
    /// then [`timed_out`](Self::timed_out) is how it has ended. `opened`: the call has answered.
    /// `None` if silence does not matter.
    pub fn poll_timeout(&self, opened: bool) -> Option<Duration> {
        self.silence(opened).map(|silence| silence.at)
    }

    /// Returns how the open call has ended when the time of [`poll_timeout`](Self::poll_timeout) is
    /// over: as [`CallEnd::TimedOut`], with the limit that it has reached.
    pub fn timed_out(&self, opened: bool) -> CallEnd {
        self.silence(opened).map_or(CallEnd::Dropped, Silence::end)
    }

    pub(super) fn silence(&self, opened: bool) -> Option<Silence> {
        let limits = &self.settings.limits;
        let (first, idle) = (limits.transport.first_byte(), limits.transport.idle());
        let patience = match self.phase {
            Phase::First(_) if !self.would_continue(&CallEnd::Dropped) => return None,
            Phase::First(_) if self.is_blank() => first,
            Phase::First(_) => idle,
            // Models think before they write.
            Phase::Continuing(_) | Phase::ContinuingText(_)
                if opened && self.clock.text_at.is_some() =>
            {
                idle
            }
            Phase::Continuing(_) | Phase::ContinuingText(_) => first,
            Phase::Done => return None,
        };
        let silent = self.silent_at(patience)?;
        let total = limits
            .continuation
            .max_total_time
            .zip(self.clock.started_at)
            .filter(|_| !self.is_first());
        let Some((most, started)) = total else {
            return Some(silent);
        };
        // A call for the rest also ends when the total time of the answer is over.
        let left = most.saturating_sub(self.clock.spent_before);
        let limit = TimeLimit {
            name: "max_total_time",
            time: most,
        };
        Some(silent.or_earlier(Silence {
            at: started.saturating_add(left),
            limit,
        }))
    }

    /// Returns when the open call counts as silent, if it may send nothing for the time of a limit.
    /// Input that is neither text nor reasoning keeps a call alive only for a limited time: servers
    /// send comments while the model does not answer.
    pub(super) fn silent_at(&self, limit: TimeLimit) -> Option<Silence> {
        let transport = &self.settings.limits.transport;
        let heard = Silence::new(self.clock.heard_at?, limit);
        let text = match self.clock.text_at {
            Some(at) => Silence::new(at, transport.text()),
            None => Silence::new(self.clock.called_at?, transport.first_byte()),
        };
        Some(heard.or_earlier(text))
    }

    /// Starts the silence timer of a call that will be made at this time.
    pub(super) fn restart_silence(&mut self, at: Duration) {
        (
            self.clock.heard_at,
            self.clock.called_at,
            self.clock.text_at,
        ) = (Some(at), Some(at), None);
    }

    /// Returns the tally of an answer that has ended as this call did: with the limit that ended
    /// it, if one did.
    pub(super) fn tally_after(&self, end: Option<&CallEnd>) -> Tally {
        let mut tally = self.tally.clone();
        tally.limit = tally
            .limit
            .or_else(|| end.and_then(CallEnd::limit).cloned());
        tally
    }
}
