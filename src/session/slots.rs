//! The slots of a response, each with its own session. The sessions of cut slots ask for their rest
//! in turn.

use std::collections::VecDeque;
use std::time::Duration;

use super::choice_ends::ChoiceEnds;
use super::event_summary::SlotPiece;
use super::further_calls::FurtherCalls;
use super::io::badness;
use super::slot_list::{SlotEntry, SlotList, rank};
use super::wire::finish_reason;
use super::{
    CallEnd, CallStats, Input, LimitReached, Outcome, Redirect, Session, Status, StopReason,
};
use crate::provider::Finish;
use crate::provider::usage::sent_tokens;
use crate::provider::wire::{Kept, Slot, SlotKind, Tool, Wire};

/// The slots of a response, and the calls that their rests need.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) list: SlotList,
    /// How the calls for the rest are read.
    pub(super) further: FurtherCalls,
    /// A session before its first input. Boxed, since it is large and a relay is moved often.
    blank: Box<Session>,
    /// The tools that the request declares.
    pub(super) tools: Vec<Tool>,
    /// Cut slots that wait for their continuation, and how the first call ended for them.
    waiting: VecDeque<(usize, CallEnd)>,
    /// How the choices of the first call ended.
    ends: ChoiceEnds,
    /// How the first call ended for a choice without a finish reason.
    end: CallEnd,
    size: AnswerSize,
}

/// The size of an answer over all its slots, and the limit that it has reached.
#[derive(Debug)]
struct AnswerSize {
    /// Bytes of text that have arrived.
    received: usize,
    /// The most bytes of text that are kept.
    most: usize,
    limit: Option<LimitReached>,
}

impl AnswerSize {
    /// Returns the limit that is reached with more bytes.
    fn limit_with(&self, more: usize) -> Option<LimitReached> {
        (self.received.saturating_add(more) > self.most)
            .then(|| LimitReached::new("max_text_bytes", self.most))
    }
}

// Each slot has a session, with a machine and an index of its own, so their number is bounded.
/// Slots of one response that are read: choices, parallel calls, content blocks, items of any type.
/// A response with more slots passes unchanged.
pub(super) const MAX_SLOTS: usize = 256;

impl Slots {
    /// Returns one empty slot. Its session and those of further slots are copies of `blank`.
    pub(super) fn new(wire: &'static dyn Wire, blank: Session) -> Self {
        let size = AnswerSize {
            received: 0,
            most: blank.channel.settings.limits.parser.max_text_bytes,
            limit: None,
        };
        Self {
            list: SlotList::new(wire, blank.clone()),
            further: FurtherCalls::default(),
            blank: Box::new(blank),
            tools: Vec::new(),
            waiting: VecDeque::new(),
            ends: ChoiceEnds::default(),
            end: CallEnd::Closed,
            size,
        }
    }

    /// Changes the settings of all sessions.
    pub(super) fn configure(&mut self, change: impl Fn(&mut Session)) {
        change(&mut self.blank);
        self.list.sessions_mut().for_each(change);
    }

    /// Notes how many tokens the request has, if this is the usage of the first call.
    pub(super) fn note_usage_of_prompt(&mut self, usage: &str) {
        let tokens = sent_tokens(usage).filter(|_| self.session().is_first());
        if let Some(tokens) = tokens {
            self.configure(|session| session.channel.prompt_tokens = Some(tokens));
        }
    }

    /// Asks another upstream from now on. The session of the open call learns of it by a
    /// `CallEnd::Redirected`.
    pub(super) fn redirect(&mut self, redirect: &Redirect) {
        self.further.redirect(redirect);
        self.configure(|session| session.set_strategy(redirect.strategy.clone()));
    }

    /// Returns the session of the current slot.
    pub(super) fn session(&self) -> &Session {
        &self.list.entry().session
    }

    /// Returns the session of the current slot.
    pub(super) fn session_mut(&mut self) -> &mut Session {
        &mut self.list.entry_mut().session
    }

    /// Returns the current slot.
    pub(super) fn slot(&self) -> Slot {
        self.list.entry().slot
    }

    /// Takes text of a slot of the first call, and makes that slot the current one.
    pub(super) fn text(&mut self, now: Duration, piece: &SlotPiece, text: &str) {
        let entry = self.list.entry();
        if entry.slot != piece.slot || !entry.has_begun {
            self.begin(piece);
            // A slot may begin without text: its silence counts from here.
            self.session_mut().handle_input(now, Input::Activity);
        }
        // The limit is on the answer: many slots must not keep more than one.
        self.size.received = self.size.received.saturating_add(text.len());
        if let Some(limit) = self.size.limit_with(0) {
            self.reach(limit);
        }
        let entry = self.list.entry_mut();
        if !text.is_empty() && entry.slot == piece.slot {
            entry.session.handle_input(now, Input::Text(text));
        }
        if entry.session.call.is_unread() {
            // Some APIs repeat all texts at their end, so the others can't be continued without
            // this one.
            self.pass();
        }
    }

    /// Makes the slot of a piece the current one.
    fn begin(&mut self, piece: &SlotPiece) {
        let (slot, name) = (piece.slot, piece.name.as_deref());
        if self.list.select_known(slot) {
            return;
        }
        // The rest of an answer with unread slots can't be requested: the order of the slots would
        // be lost.
        if self.list.len() >= MAX_SLOTS {
            return self.reach_slots();
        }
        self.list.add(|| (*self.blank).clone());
        let choice = self.list.wire.choice_of(slot.id);
        let is_first = self.list.of_choice(choice).all(|entry| !entry.has_begun);
        let can_be_cut = self.list.wire.has_argument_text();
        let entry = self.list.entry_mut();
        (entry.slot, entry.has_begun) = (slot, true);
        if !is_first {
            // Only the first text of a choice can continue a prefill.
            entry.session.channel.clear_prefill();
        }
        if slot.kind == SlotKind::Arguments {
            let is_called = |tool: &&Tool| Some(tool.name.as_str()) == name;
            let declared = self.tools.iter().find(is_called).cloned();
            let tool = declared.unwrap_or_else(|| Tool {
                name: name.unwrap_or_default().to_owned(),
                schema: None,
            });
            entry.session.channel.set_tool_call(tool);
            if piece.is_anonymous || !can_be_cut {
                // The rest of a call without an id could be taken for the rest of another call.
                entry.session.pass();
            }
        }
    }

    /// Lets the answer pass, since it has too many slots.
    fn reach_slots(&mut self) {
        self.size
            .limit
            .get_or_insert_with(|| LimitReached::new("max_slots", MAX_SLOTS));
        self.pass();
    }

    /// Counts the items of the answer as slots, and their bytes without texts as text.
    // Most events have text: they do without the frame of this function.
    #[cold]
    pub(super) fn note_kept(&mut self, kept: Kept) {
        if kept.items > MAX_SLOTS {
            self.reach_slots();
        }
        if let Some(limit) = self.size.limit_with(kept.bytes) {
            self.reach(limit);
        }
    }

    /// Forgets all texts: the answer has reached a limit, and passes.
    pub(super) fn reach(&mut self, limit: LimitReached) {
        self.list
            .change_first(|_| true, |first| first.stop_reading(None));
        self.size.limit.get_or_insert(limit);
    }

    /// Records a limit that ends the answer for its reader.
    pub(super) fn note_limit(&mut self, limit: LimitReached) {
        self.size.limit.get_or_insert(limit);
    }

    /// Returns whether the answer won't be continued, since it has reached a limit or is prose.
    pub(super) fn is_unread(&self) -> bool {
        let has_stopped = self.session().call.is_unread() || self.limit().is_some();
        has_stopped && self.list.iter().all(|entry| entry.session.is_passing())
    }

    /// Returns the limit that the answer has reached.
    pub(super) fn limit(&self) -> Option<&LimitReached> {
        self.size.limit.as_ref().or_else(|| {
            self.list
                .iter()
                .find_map(|entry| entry.session.tally().limit.as_ref())
        })
    }

    /// Drops all slots, since the first answer begins again.
    pub(super) fn restart(&mut self) {
        self.list.restart((*self.blank).clone());
        self.size.received = 0;
    }

    /// Records that the current session has asked for a call. If that repeats the original request,
    /// its answer may begin with another slot.
    pub(super) fn asked(&mut self) {
        self.further.begin();
        if self.session().is_first() {
            self.list.entry_mut().has_begun = false;
        }
    }

    /// Lets the answer pass unchanged.
    pub(super) fn pass(&mut self) {
        self.list.sessions_mut().for_each(Session::pass);
    }

    /// Ends the first call: its cut slots wait for their turn. If no slot is cut, the current
    /// session ends.
    pub(super) fn end(&mut self, now: Duration, ends: &ChoiceEnds, end: &CallEnd) {
        let list = &self.list;
        let ended = |at| (at, ends.of(list.choice(at), end));
        let cut = (0..list.len()).map(ended);
        self.waiting = cut.filter(|(at, end)| list.is_cut(*at, end)).collect();
        (self.ends, self.end) = (ends.clone(), end.clone());
        // The session decides the outcome, so it gets the end even if nothing is cut.
        if self.waiting.is_empty() {
            let malformed = list.malformed(ends, end);
            let at = malformed.unwrap_or_else(|| list.current());
            self.waiting.push_back(ended(at));
            if self.list.len() > 1 {
                self.pass();
            }
        }
        let waits = |at| self.waiting.iter().any(|(waiting, _)| *waiting == at);
        for (at, session) in self.list.sessions_mut().enumerate() {
            if waits(at) {
                session.channel.journal.wait_since(now);
            }
        }
    }

    /// Makes the next slot that waits the current one, and returns how the first call ended for it.
    pub(super) fn next(&mut self) -> Option<CallEnd> {
        let (at, end) = self.waiting.pop_front()?;
        self.list.select(at);
        Some(end)
    }

    /// Returns how the answer ended: as its choice that ended worst, with the statistics of all. The
    /// worst slot that was continued or given up becomes the current one.
    pub(super) fn outcome(&mut self) -> Option<Outcome> {
        let mut outcome = self.list.select_worst()?;
        // An answer that passed has only the upstream's own ends.
        if outcome.status() != Status::PassedThrough {
            let began = self.list.choices().into_iter();
            let ended = self.ends.reasons().iter().map(|(choice, _)| *choice);
            let left = began
                .chain(ended)
                .filter_map(|choice| self.left_cut(choice));
            let worst = left.max_by_key(rank);
            outcome = worst
                .filter(|worst| rank(worst) > rank(&outcome))
                .unwrap_or(outcome);
        }
        let mut tally = CallStats::default();
        self.list
            .iter()
            .filter(|entry| entry.outcome.is_some())
            .for_each(|entry| tally.add(entry.session.tally()));
        // The limit on the answer as a whole explains more than one slot's.
        tally.limit = self.limit().or(outcome.tally().limit.as_ref()).cloned();
        *outcome.tally_mut() = tally;
        Some(outcome)
    }

    /// Returns the outcome of a choice whose rest no call asked for, if the choice is cut: its
    /// provider filtered it, for example, or it is prose.
    fn left_cut(&self, choice: u32) -> Option<Outcome> {
        let slots = || self.list.of_choice(choice);
        let is_ended = slots().any(|entry| entry.outcome.is_some());
        let is_whole = || slots().all(|entry| entry.session.document().is_whole());
        // A choice may end before its first text.
        if is_ended || slots().next().is_some() && is_whole() {
            return None;
        }
        let finish = Some(self.reason(choice)).filter(|finish| badness(Some(finish)) > 0)?;
        Some(Outcome::Incomplete {
            reason: StopReason::Finish,
            cause: self.ends.of(choice, &self.end).cause(),
            finish: Some(finish),
            tally: CallStats::default(),
        })
    }

    /// Returns the reason with which a choice ends. A cut answer must not look whole.
    pub(super) fn reason(&self, choice: u32) -> Finish {
        let is_whole =
            |entry: &SlotEntry| entry.outcome.is_none() && entry.session.document().is_whole();
        let otherwise = || {
            if self.list.of_choice(choice).all(is_whole) {
                Finish::Stop
            } else {
                Finish::Length
            }
        };
        self.known_reason(choice).unwrap_or_else(otherwise)
    }

    /// Returns the reason with which a choice ends, if there is one: that of its worst ended slot
    /// if a slot was continued or given up, else its own.
    pub(super) fn known_reason(&self, choice: u32) -> Option<Finish> {
        let ended = self
            .list
            .of_choice(choice)
            .filter_map(|entry| Some((entry, entry.outcome.as_ref()?)));
        match ended.max_by_key(|(_, outcome)| rank(outcome)) {
            Some((entry, Outcome::Complete { .. })) if entry.slot.kind == SlotKind::Arguments => {
                Some(Finish::ToolCalls)
            }
            Some((_, outcome)) => finish_reason(outcome).map(Finish::from),
            None => self.ends.reason(choice).cloned(),
        }
    }
}
