//! The open call in time: when it counts as lost, and by which limit.

use std::time::Duration;

use super::open_call::CallPhase;
use super::{CallEnd, LimitReached, Session};
use crate::limits::{TimeLimit, TransportLimits};

/// Moments of `now`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallClock {
    /// The first input.
    started_at: Option<Duration>,
    /// The last input.
    heard_at: Option<Duration>,
    /// The beginning of the open call.
    called_at: Option<Duration>,
    /// The last text or reasoning of the open call.
    text_at: Option<Duration>,
    /// Time before the first input, in another process.
    spent_before: Duration,
}

impl CallClock {
    /// Returns the clock of a session that another process began this time ago.
    pub(super) fn resumed(now: Duration, spent_before: Duration) -> Self {
        Self {
            started_at: Some(now),
            heard_at: Some(now),
            spent_before,
            ..Self::default()
        }
    }

    /// Records an input. `is_text`: it is text or reasoning.
    pub(super) fn hear(&mut self, now: Duration, is_text: bool) {
        self.heard_at = Some(now);
        self.started_at.get_or_insert(now);
        self.called_at.get_or_insert(now);
        if is_text {
            self.text_at = Some(now);
        }
    }

    /// Starts the silence timer of a call that will be made at this time.
    pub(super) fn restart(&mut self, at: Duration) {
        (self.heard_at, self.called_at, self.text_at) = (Some(at), Some(at), None);
    }

    /// Returns whether the open call has brought text or reasoning.
    pub(super) fn has_text(&self) -> bool {
        self.text_at.is_some()
    }

    /// Returns the time since the first input.
    pub(super) fn spent(&self, now: Duration) -> Duration {
        let since = self.started_at.map(|started| now.saturating_sub(started));
        self.spent_before + since.unwrap_or_default()
    }

    /// Returns the time from the first to the last input.
    pub(super) fn spent_until_heard(&self) -> Duration {
        self.spent(self.heard_at.unwrap_or_default())
    }

    /// Returns the time from the last text or reasoning of the open call, or from its beginning.
    pub(super) fn quiet(&self, now: Duration) -> Duration {
        self.text_at
            .or(self.called_at)
            .map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns when the open call counts as silent, if it may send nothing for the time of a limit.
    /// Input that is neither text nor reasoning keeps a call alive only for a limited time: servers
    /// send comments while the model does not answer.
    pub(super) fn silent_at(
        &self,
        limit: TimeLimit,
        transport: &TransportLimits,
    ) -> Option<SilenceDeadline> {
        let heard = SilenceDeadline::new(self.heard_at?, limit);
        // A server can keep a dead call open with comments.
        let text = match self.text_at {
            Some(at) => SilenceDeadline::new(at, transport.text()),
            None => SilenceDeadline::new(self.called_at?, transport.first_byte()),
        };
        Some(heard.or_earlier(text))
    }
}

/// When the open call counts as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceDeadline {
    pub(super) at: Duration,
    limit: TimeLimit,
}

impl SilenceDeadline {
    /// Returns the end of the time that a limit gives from `since` on.
    pub(super) fn new(since: Duration, limit: TimeLimit) -> Self {
        Self {
            at: since.saturating_add(limit.time),
            limit,
        }
    }

    /// Returns when the open call of a session counts as lost. `opened`: the call has answered.
    /// `None` if silence does not matter.
    pub(super) fn of(session: &Session, opened: bool) -> Option<Self> {
        let clock = &session.decisions.clock;
        let limits = &session.channel.settings.limits;
        let (first, idle) = (limits.transport.first_byte(), limits.transport.idle());
        let patience = match session.call.phase {
            CallPhase::First(_) if !session.would_continue(&CallEnd::Dropped) => return None,
            CallPhase::First(_) if session.channel.text.is_blank() => first,
            CallPhase::First(_) => idle,
            // Models think before they write.
            CallPhase::Continuing(_) | CallPhase::ContinuingProse(_)
                if opened && clock.has_text() =>
            {
                idle
            }
            CallPhase::Continuing(_) | CallPhase::ContinuingProse(_) => first,
            CallPhase::Done => return None,
        };
        let silent = clock.silent_at(patience, &limits.transport)?;
        let total = limits
            .continuation
            .max_total_time
            .zip(clock.started_at)
            .filter(|_| !session.is_first());
        let Some((most, started)) = total else {
            return Some(silent);
        };
        // A call for the rest also ends when the total time of the answer is over.
        let left = most.saturating_sub(clock.spent_before);
        let limit = TimeLimit {
            name: "max_total_time",
            time: most,
        };
        Some(silent.or_earlier(Self {
            at: started.saturating_add(left),
            limit,
        }))
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
