//! The ends that the events of a call have given, and those that later events have refuted.

use std::time::Duration;

use crate::provider::Finish;
use crate::session::CallEnd;
use crate::session::choice_ends::ChoiceEnds;
use crate::session::event_summary::EventSummary;
use crate::session::slots::Slots;

/// The ends that the events of a call have given.
#[derive(Debug, Default)]
pub(super) struct CallEnds {
    /// How its choices have ended.
    pub(super) choices: ChoiceEnds,
    /// The choices whose ends were withheld because other choices had more text.
    pub(super) withheld: Vec<u32>,
    /// The end that the last events gave, unless later text refutes it.
    pub(super) last: Option<CallEnd>,
    /// When the event that ends the stream was received, unless later text refutes it.
    pub(super) done_at: Option<Duration>,
    /// The last refuted end of a first answer.
    pub(super) early: Option<RefutedEnd>,
}

/// A refuted end: more of the answer followed it.
#[derive(Debug)]
pub(super) struct RefutedEnd {
    end: CallEnd,
    /// The client has received it.
    pub(super) is_sent: bool,
}

impl CallEnds {
    /// Takes the end that the events gave, or else `otherwise`.
    pub(super) fn take_last(&mut self, otherwise: CallEnd) -> CallEnd {
        self.last.take().unwrap_or(otherwise)
    }

    /// Returns whether a first answer that ends so is continued in any slot.
    pub(super) fn continue_after(&self, slots: &Slots, end: &CallEnd) -> bool {
        !self.withheld.is_empty() || slots.list.would_continue(&self.choices, end)
    }

    /// Records that an event has refuted the last end. `is_sent`: the client has received that end.
    pub(super) fn refute(&mut self, is_sent: bool) {
        // The stream continues, so it gets its usual time for silence.
        self.done_at = None;
        self.early = self.last.take().map(|end| RefutedEnd { end, is_sent });
    }

    /// Returns whether an event with text repeats the end that was refuted last. Its text does not
    /// wait: the client has seen this early end already, and the end of the stream decides.
    pub(super) fn is_known_as_early(&self, event: &EventSummary) -> bool {
        let Some(early) = &self.early else {
            return false;
        };
        let is_same = |(_, reason): &(u32, Finish)| early.end.finish() == Some(reason);
        // A gateway that writes a finish reason into each chunk would delay each of them.
        !event.text.is_empty() && event.finishes.iter().all(is_same)
    }

    /// Returns whether the client has received an end that more of the answer followed.
    pub(super) fn has_sent_early(&self) -> bool {
        self.early.as_ref().is_some_and(|early| early.is_sent)
    }

    /// Returns the end of an answer whose stream ended cleanly: the last early end, unless another
    /// end followed.
    pub(super) fn end_or_early(&mut self, end: CallEnd) -> CallEnd {
        match self.early.take() {
            Some(early) if end == CallEnd::Closed => early.end,
            _ => end,
        }
    }
}
