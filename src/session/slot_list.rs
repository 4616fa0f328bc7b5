//! The slots of a response in their order, and which of them a call's end would cut.

use super::choice_ends::ChoiceEnds;
use super::first_answer::FirstReading;
use super::io::badness;
use super::{CallEnd, Outcome, Session};
use crate::provider::wire::{Slot, SlotKind, SlotText, Wire};
use crate::provider::{FIRST, Finish, SlotId};

/// The slots that have begun, in that order. One of them is always current.
#[derive(Debug)]
pub(super) struct SlotList {
    /// The API of the response.
    pub(super) wire: &'static dyn Wire,
    entries: Vec<SlotEntry>,
    /// The slot that got text last, or whose session asks for the rest.
    current: usize,
    /// The number of choices that the request asks for. 0: unknown.
    pub(super) expected_choices: u64,
}

/// One slot, with its session.
#[derive(Debug)]
pub(super) struct SlotEntry {
    pub(super) slot: Slot,
    /// The slot has received something. Only the first entry may still be empty.
    pub(super) has_begun: bool,
    pub(super) session: Session,
    pub(super) outcome: Option<Outcome>,
    /// The whole text, where its end is not in the session's document.
    unread: Option<String>,
}

impl SlotList {
    /// Returns one empty slot.
    pub(super) fn new(wire: &'static dyn Wire, session: Session) -> Self {
        Self {
            wire,
            entries: vec![SlotEntry::new(session)],
            current: 0,
            expected_choices: 0,
        }
    }

    /// Forgets all slots but an empty one.
    pub(super) fn restart(&mut self, session: Session) {
        self.entries = vec![SlotEntry::new(session)];
        self.current = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SlotEntry> {
        self.entries.iter()
    }

    pub(super) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.entries.iter_mut().map(|entry| &mut entry.session)
    }

    /// Changes the first answers of the slots that `is_meant`.
    pub(super) fn change_first(
        &mut self,
        is_meant: impl Fn(&SlotEntry) -> bool,
        change: impl Fn(&mut FirstReading<'_>),
    ) {
        let meant = self.entries.iter_mut().filter(|entry| is_meant(entry));
        for entry in meant {
            if let Some(mut first) = FirstReading::of(&mut entry.session) {
                change(&mut first);
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`current` is set to places of the list alone, and it only grows"
    )]
    pub(super) fn entry(&self) -> &SlotEntry {
        &self.entries[self.current]
    }

    #[expect(clippy::indexing_slicing, reason = "as above")]
    pub(super) fn entry_mut(&mut self) -> &mut SlotEntry {
        &mut self.entries[self.current]
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Makes a slot the current one.
    pub(super) fn select(&mut self, at: usize) {
        if at < self.entries.len() {
            self.current = at;
        }
    }

    /// Makes the slot the current one, if it has begun.
    pub(super) fn select_known(&mut self, slot: Slot) -> bool {
        let known = self
            .entries
            .iter()
            .position(|entry| entry.has_begun && entry.slot == slot);
        self.current = known.unwrap_or(self.current);
        known.is_some()
    }

    /// Makes the slot that ended worst the current one, and returns its outcome.
    pub(super) fn select_worst(&mut self) -> Option<Outcome> {
        let rank = |entry: &SlotEntry| entry.outcome.as_ref().map(rank);
        let worst = (0..self.entries.len())
            .rev()
            .filter(|&at| rank(&self.entries[at]).is_some());
        self.current = worst.max_by_key(|&at| rank(&self.entries[at]))?;
        self.entry().outcome.clone()
    }

    /// Adds an empty slot, unless the current one is empty. Makes it the current one.
    pub(super) fn add(&mut self, session: impl FnOnce() -> Session) {
        if self.entry().has_begun {
            self.entries.push(SlotEntry::new(session()));
            self.current = self.entries.len() - 1;
        }
    }

    /// Returns whether all that was written of the answer is whole: one text in each choice, and it
    /// is JSON.
    pub(super) fn is_whole(&self) -> bool {
        self.entries.iter().all(|entry| {
            let is_whole = entry.session.document().is_whole() && !entry.session.is_passing();
            is_whole && entry.slot.kind == SlotKind::Text
        })
    }

    /// Returns whether the first call, were it to end like this, would be continued in any slot.
    pub(super) fn would_continue(&self, ends: &ChoiceEnds, end: &CallEnd) -> bool {
        (0..self.entries.len()).any(|at| self.is_cut(at, &ends.of(self.choice(at), end)))
    }

    /// Returns the slot that the first call, were it to end like this, leaves malformed and cut.
    pub(super) fn malformed(&self, ends: &ChoiceEnds, end: &CallEnd) -> Option<usize> {
        let end = |at| ends.of(self.choice(at), end);
        let mut entries = self.entries.iter().enumerate();
        entries
            .find(|(at, entry)| entry.session.call.is_malformed_before(&end(*at)))
            .map(|(at, _)| at)
    }

    /// Returns whether a choice that ends for this reason would be continued, while others have not
    /// ended or not begun.
    pub(super) fn continues_choice(&self, choice: u32, reason: &Finish) -> bool {
        let end = CallEnd::Finished(reason.clone());
        let is_cut = |at| {
            self.entries
                .get(at)
                .is_some_and(|entry| self.is_cut_among_others(at, entry, &end))
        };
        (0..self.entries.len()).any(|at| self.choice(at) == choice && is_cut(at))
    }

    /// Returns whether a slot could be continued, if the limit ended the answer now, or the
    /// connection a slot of prose.
    pub(super) fn is_open(&self, id: SlotId) -> bool {
        // These are the ends after which the rest would be requested. The true one is not known
        // yet.
        let end = |entry: &SlotEntry| match entry.session.document().is_prose() {
            true => CallEnd::Dropped,
            false => CallEnd::Finished(Finish::Length),
        };
        (0..self.entries.len())
            .any(|at| self.entries[at].slot.id == id && self.is_cut(at, &end(&self.entries[at])))
    }

    /// Returns whether all choices of the answer have finished.
    pub(super) fn have_finished(&self, ends: &ChoiceEnds) -> bool {
        ends.len() as u64 >= self.expected_choices
            && (0..self.entries.len()).all(|at| ends.has(self.choice(at)))
    }

    pub(super) fn is_cut(&self, at: usize, end: &CallEnd) -> bool {
        let Some(entry) = self.entries.get(at) else {
            return false;
        };
        if self.expected_choices > 1
            && entry.has_begun
            && (self.choices().len() as u64) < self.expected_choices
        {
            // A call can't ask only for a choice that has not begun.
            return false;
        }
        self.is_cut_among_others(at, entry, end)
    }

    /// Returns whether a slot is cut, if all choices have begun.
    fn is_cut_among_others(&self, at: usize, entry: &SlotEntry, end: &CallEnd) -> bool {
        let (is_alone, is_call) = (
            self.entries.len() == 1,
            entry.slot.kind == SlotKind::Arguments,
        );
        if self.expected_choices > 1
            && entry.slot.kind == SlotKind::Arguments
            && entry.session.channel.text.is_blank()
        {
            // The request asks for several choices, so a new answer can't be assigned to this one.
            return false;
        }
        // If there are several slots, none is requested again from its beginning, and a text ends
        // where the next slot begins.
        let can_be = is_alone && (self.expected_choices <= 1 || !entry.has_begun)
            || entry.session.channel.has_delivered(end);
        let is_last = || {
            self.entries
                .iter()
                .skip(at + 1)
                .all(|other| self.wire.choice_of(other.slot.id) != self.choice(at))
        };
        // A client takes a text that follows another one in the same choice for its rest. The order
        // of numbered arguments does not matter.
        let is_found = || is_call && entry.slot.id.is_numbered() || is_last();
        entry.session.would_continue(end) && can_be && is_found()
    }

    pub(super) fn choice(&self, at: usize) -> u32 {
        self.entries
            .get(at)
            .map_or(0, |entry| self.wire.choice_of(entry.slot.id))
    }

    /// Returns the choices that have begun.
    pub(super) fn choices(&self) -> Vec<u32> {
        let mut choices: Vec<_> = (0..self.entries.len()).map(|at| self.choice(at)).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    pub(super) fn of_choice(&self, choice: u32) -> impl Iterator<Item = &SlotEntry> {
        self.entries
            .iter()
            .filter(move |entry| self.wire.choice_of(entry.slot.id) == choice)
    }

    /// Returns the whole texts of the slots that `is_meant`.
    pub(super) fn texts(&self, is_meant: impl Fn(&SlotEntry) -> bool) -> Vec<SlotText<'_>> {
        self.entries
            .iter()
            .filter(|entry| is_meant(entry))
            .map(SlotEntry::text)
            .collect()
    }
}

impl SlotEntry {
    fn new(session: Session) -> Self {
        let slot = Slot {
            id: FIRST,
            kind: SlotKind::Text,
        };
        Self {
            slot,
            has_begun: false,
            session,
            outcome: None,
            unread: None,
        }
    }

    pub(super) fn text(&self) -> SlotText<'_> {
        SlotText {
            slot: self.slot,
            text: self
                .unread
                .as_deref()
                .unwrap_or_else(|| self.session.channel.text.answer()),
        }
    }

    /// Returns whether the slot is a tool call that has begun.
    pub(super) fn is_tool_call(&self) -> bool {
        self.has_begun && self.slot.kind == SlotKind::Arguments
    }

    /// Returns whether a repair has changed the slot's text in a first answer.
    pub(super) fn is_repaired(&self) -> bool {
        self.has_begun && self.session.call.is_repaired(&self.session.channel)
    }

    /// Keeps how the slot ended.
    pub(super) fn keep(&mut self, outcome: Outcome) {
        let channel = &self.session.channel;
        let unread = channel.unread_end();
        let is_left = matches!(outcome, Outcome::Incomplete { .. }) && !unread.is_empty();
        self.unread = is_left.then(|| [channel.text.answer(), unread].concat());
        self.outcome = Some(outcome);
    }
}

/// Orders the outcomes of slots: the larger, the worse. Incomplete slots are compared by their
/// ends. A lost connection is worse than a limit, because no finish reason of another slot can
/// report it.
pub(super) fn rank(outcome: &Outcome) -> (u8, u8, bool) {
    match outcome {
        Outcome::PassedThrough { .. } => (0, 0, false),
        Outcome::Complete { .. } => (1, 0, false),
        Outcome::Closed { .. } => (2, 0, false),
        Outcome::Incomplete { finish, .. } => (3, badness(finish.as_ref()), finish.is_none()),
        Outcome::Failed { .. } => (4, 0, false),
    }
}
