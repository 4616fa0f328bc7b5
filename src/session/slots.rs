//! The slots of a response, each with its own session. The sessions of cut slots ask for their rest
//! in turn.

use std::collections::VecDeque;
use std::time::Duration;

use super::event_summary::{EventSummary, Piece};
use super::io::badness;
use super::wire::finish_reason;
use super::{CallEnd, Input, LimitReached, Outcome, Redirect, Session, Tally};
use crate::provider::wire::{Kept, Slot, SlotKind, SlotText, Tool, Wire};
use crate::provider::{FIRST, Finish, SlotId};

/// The slots of a response. One of them is always current.
#[derive(Debug)]
pub(super) struct Slots {
    wire: &'static dyn Wire,
    /// The API of the calls for the rest, if it differs.
    further: Option<&'static dyn Wire>,
    /// A session before its first input. Boxed, since it is large and a relay is moved often.
    blank: Box<Session>,
    /// The tools that the request declares.
    tools: Vec<Tool>,
    /// In the order in which they began.
    list: Vec<Entry>,
    /// The slot that got text last, or whose session asks for the rest.
    current: usize,
    /// Cut slots that wait for their continuation, and how the first call ended for them.
    waiting: VecDeque<(usize, CallEnd)>,
    /// How the first call ended.
    ends: Ends,
    /// The tool calls of a further answer from which the current slot takes its arguments.
    repeated: Vec<RepeatedCall>,
    /// The number of choices that the request asks for.
    expected: usize,
    /// Bytes of text that have arrived, over all slots.
    received: usize,
    /// The most bytes of text that are kept.
    max_text_bytes: usize,
    /// The limit that the answer as a whole has reached.
    limit: Option<LimitReached>,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    /// The slot has received something. Only the first entry may still be empty.
    has_begun: bool,
    session: Session,
    outcome: Option<Outcome>,
    /// The whole text, where its end is not in the session's document.
    unread: Option<String>,
}

/// A tool call in a further answer.
#[derive(Debug)]
struct RepeatedCall {
    id: SlotId,
    name: String,
    arguments: String,
}

/// How the first call ended, for each of its choices.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    finished: Vec<(u32, Finish)>,
}

impl Ends {
    /// Records a choice's finish reason. The first one counts.
    fn add(&mut self, choice: u32, reason: Finish) {
        if !self.has(choice) {
            self.finished.push((choice, reason));
        }
    }

    /// Records the finish reasons of an event or a body. OpenRouter writes one beside its errors.
    pub(super) fn note(&mut self, answer: &EventSummary) {
        for (choice, reason) in answer.finishes.iter().filter(|_| answer.error.is_none()) {
            self.add(*choice, reason.clone());
        }
    }

    /// Returns whether no choice has a finish reason.
    pub(super) fn is_empty(&self) -> bool {
        self.finished.is_empty()
    }

    /// Removes the finish reasons of the choices that have more text.
    pub(super) fn take_back(&mut self, has_more: impl Fn(u32) -> bool) {
        self.finished.retain(|(choice, _)| !has_more(*choice));
    }

    /// Returns the finish reasons in their order of arrival.
    pub(super) fn reasons(&self) -> &[(u32, Finish)] {
        &self.finished
    }

    /// Returns whether a choice has a finish reason.
    fn has(&self, choice: u32) -> bool {
        self.finished.iter().any(|(other, _)| *other == choice)
    }

    fn of(&self, choice: u32, otherwise: &CallEnd) -> CallEnd {
        let reason = self
            .finished
            .iter()
            .find(|(other, _)| *other == choice)
            .map(|(_, reason)| reason.clone());
        reason.map_or_else(|| otherwise.clone(), CallEnd::Finished)
    }
}

/// Slots of one response that are read: choices, parallel calls, content blocks, items of any type.
/// Each has a session, so their number is bounded: a response with more slots passes unchanged.
const MAX_SLOTS: usize = 256;

impl Slots {
    /// Returns one empty slot. Its session and those of further slots are copies of `blank`.
    pub(super) fn new(wire: &'static dyn Wire, blank: Session) -> Self {
        let max_text_bytes = blank.limits().parser.max_text_bytes;
        let list = vec![Entry::new(blank.clone())];
        Self {
            wire,
            further: None,
            blank: Box::new(blank),
            tools: Vec::new(),
            list,
            current: 0,
            waiting: VecDeque::new(),
            ends: Ends::default(),
            repeated: Vec::new(),
            expected: 1,
            received: 0,
            max_text_bytes,
            limit: None,
        }
    }

    /// Changes the settings of all sessions. Called before the first input.
    pub(super) fn configure(&mut self, change: impl Fn(&mut Session)) {
        change(&mut self.blank);
        self.list
            .iter_mut()
            .for_each(|entry| change(&mut entry.session));
    }

    /// Ends the answer on the operator's wish: when the open call ends, no other is made.
    pub(super) fn stop(&mut self) {
        self.configure(Session::stop);
    }

    /// Sets the number of choices that the request asks for.
    pub(super) fn expect_choices(&mut self, choices: usize) {
        self.expected = choices.max(1);
    }

    /// Sets the tools that the request declares.
    pub(super) fn set_tools(&mut self, tools: Vec<Tool>) {
        self.tools = tools;
    }

    /// Returns the API of the response.
    pub(super) fn wire(&self) -> &'static dyn Wire {
        self.wire
    }

    /// Sets the API of the response.
    pub(super) fn set_wire(&mut self, wire: &'static dyn Wire) {
        self.wire = wire;
    }

    /// Returns the API of the calls for the rest.
    pub(super) fn further_wire(&self) -> &'static dyn Wire {
        self.further.unwrap_or(self.wire)
    }

    /// Returns whether the calls for the rest have another API than the response.
    pub(super) fn is_foreign(&self) -> bool {
        self.further.is_some()
    }

    /// Asks another upstream from now on. The session of the open call learns of it by a
    /// `CallEnd::Redirected`.
    pub(super) fn redirect(&mut self, redirect: &Redirect) {
        self.further = redirect.foreign.map(|(dialect, _)| dialect.wire());
        self.configure(|session| session.set_strategy(redirect.strategy.clone()));
    }

    /// Returns the session of the current slot.
    pub(super) fn session(&self) -> &Session {
        &self.entry().session
    }

    /// Returns the session of the current slot.
    pub(super) fn session_mut(&mut self) -> &mut Session {
        &mut self.entry_mut().session
    }

    /// Returns the current slot.
    pub(super) fn slot(&self) -> Slot {
        self.entry().slot
    }

    /// Takes text of a slot of the first call, and makes that slot the current one.
    pub(super) fn text(&mut self, now: Duration, piece: &Piece, text: &str) {
        if self.entry().slot != piece.slot || !self.entry().has_begun {
            self.begin(piece);
            // A slot may begin without text: its silence counts from here.
            self.session_mut().handle_input(now, Input::Activity);
        }
        self.received = self.received.saturating_add(text.len());
        if self.received > self.max_text_bytes {
            self.reach(LimitReached::new("max_text_bytes", self.max_text_bytes));
        }
        let entry = self.entry_mut();
        if !text.is_empty() && entry.slot == piece.slot {
            entry.session.handle_input(now, Input::Text(text));
        }
        if entry.session.is_unread() {
            // Some APIs repeat all texts at their end, so the others can't be continued without
            // this one.
            self.pass();
        }
    }

    /// Counts the items of the answer as slots, and their bytes without texts as text.
    pub(super) fn note_kept(&mut self, kept: Kept) {
        if kept.items > MAX_SLOTS {
            self.limit
                .get_or_insert_with(|| LimitReached::new("max_slots", MAX_SLOTS));
            self.pass();
        }
        if self.received.saturating_add(kept.bytes) > self.max_text_bytes {
            self.reach(LimitReached::new("max_text_bytes", self.max_text_bytes));
        }
    }

    /// Forgets all texts: the answer has reached a limit, and passes.
    pub(super) fn reach(&mut self, limit: LimitReached) {
        self.list
            .iter_mut()
            .for_each(|entry| entry.session.stop_reading(None));
        self.limit.get_or_insert(limit);
    }

    /// Records a limit that ends the answer for its reader.
    pub(super) fn note_limit(&mut self, limit: LimitReached) {
        self.limit.get_or_insert(limit);
    }

    /// Returns whether the answer won't be continued, since it has reached a limit or is prose.
    pub(super) fn is_unread(&self) -> bool {
        let has_stopped = self.session().is_unread() || self.limit().is_some();
        has_stopped && self.list.iter().all(|entry| entry.session.is_passing())
    }

    /// Returns the limit that the answer has reached.
    pub(super) fn limit(&self) -> Option<&LimitReached> {
        self.limit.as_ref().or_else(|| {
            self.list
                .iter()
                .find_map(|entry| entry.session.tally().limit.as_ref())
        })
    }

    /// Takes texts of a call for the rest of the current slot. The prompt asks for the rest of
    /// arguments as text, but the model may write it as another call.
    pub(super) fn rest(&mut self, now: Duration, answer: &EventSummary) {
        let is_call = self.slot().kind == SlotKind::Arguments;
        if self.session().repeats_call() {
            return self.repeated_calls(now, answer);
        }
        for (piece, text) in answer.texts() {
            let is_of_call = is_call && !self.is_of_other_tool(piece);
            if text.is_empty() {
                continue;
            }
            if is_of_call
                || !is_call
                    && piece.slot.kind == SlotKind::Text
                    && self.further_wire().choice_of(piece.slot.id) == 0
            {
                self.session_mut().handle_input(now, Input::Text(text));
            }
        }
    }

    /// Returns whether a piece of a call for the rest belongs to a call of another tool than the
    /// current slot's. The arguments of such a call are not the rest.
    fn is_of_other_tool(&mut self, piece: &Piece) -> bool {
        if piece.slot.kind != SlotKind::Arguments {
            return false;
        }
        if !self.repeated.iter().any(|call| call.id == piece.slot.id)
            && self.repeated.len() < MAX_SLOTS
        {
            let name = piece.name.clone().unwrap_or_default();
            self.repeated.push(RepeatedCall {
                id: piece.slot.id,
                name,
                arguments: String::new(),
            });
        }
        let named = self
            .repeated
            .iter()
            .find(|call| call.id == piece.slot.id && !call.name.is_empty());
        named
            .zip(self.session().tool_name())
            .is_some_and(|(call, own)| !own.is_empty() && call.name != own)
    }

    /// Takes the current slot's arguments from the answer to the repeated original request: those
    /// of the tool call with the same position and name, if the calls before it equal the delivered
    /// ones.
    fn repeated_calls(&mut self, now: Duration, answer: &EventSummary) {
        let (mut repeated, mut arguments) = (std::mem::take(&mut self.repeated), String::new());
        let is_call = |entry: &&Entry| entry.has_begun && entry.slot.kind == SlotKind::Arguments;
        let before: Vec<_> = self
            .list
            .iter()
            .take(self.current)
            .filter(is_call)
            .collect();
        let place = before.len();
        let name = self.session().tool_name();
        let is_same = |entry: &Entry, call: &RepeatedCall| {
            let arguments = entry.session.document().text().trim();
            entry.session.tool_name() == Some(call.name.as_str())
                && arguments == call.arguments.trim()
        };
        for (piece, text) in answer
            .texts()
            .filter(|(piece, _)| piece.slot.kind == SlotKind::Arguments)
        {
            let known = repeated.iter().position(|call| call.id == piece.slot.id);
            let at = known.unwrap_or(repeated.len());
            if known.is_none() && at <= place {
                let (id, name) = (piece.slot.id, piece.name.clone().unwrap_or_default());
                repeated.push(RepeatedCall {
                    id,
                    name,
                    arguments: String::new(),
                });
            }
            let is_named = || {
                repeated
                    .get(at)
                    .is_some_and(|call| name == Some(call.name.as_str()))
            };
            if at == place
                && is_named()
                && before
                    .iter()
                    .zip(&repeated)
                    .all(|(entry, call)| is_same(entry, call))
            {
                arguments.push_str(text);
            } else if at < place
                && let Some(call) = repeated.get_mut(at)
            {
                call.arguments.push_str(text);
            }
        }
        self.repeated = repeated;
        if !arguments.is_empty() {
            self.session_mut()
                .handle_input(now, Input::Text(&arguments));
        }
    }

    fn begin(&mut self, piece: &Piece) {
        let (slot, name) = (piece.slot, piece.name.as_deref());
        if let Some(known) = self
            .list
            .iter()
            .position(|entry| entry.has_begun && entry.slot == slot)
        {
            self.current = known;
            return;
        }
        if self.list.len() >= MAX_SLOTS {
            self.limit
                .get_or_insert_with(|| LimitReached::new("max_slots", MAX_SLOTS));
            return self.pass();
        }
        if self.entry().has_begun {
            self.list.push(Entry::new((*self.blank).clone()));
            self.current = self.list.len() - 1;
        }
        let is_call = slot.kind == SlotKind::Arguments;
        let declared = self
            .tools
            .iter()
            .find(|tool| Some(tool.name.as_str()) == name)
            .cloned();
        let can_be_cut = self.wire.has_argument_text();
        let choice = self.wire.choice_of(slot.id);
        let is_first = self
            .list
            .iter()
            .filter(|entry| entry.has_begun)
            .all(|entry| self.wire.choice_of(entry.slot.id) != choice);
        let entry = self.entry_mut();
        (entry.slot, entry.has_begun) = (slot, true);
        if !is_first {
            // Only the first text of a choice can continue a prefill.
            entry.session.clear_base();
        }
        if is_call {
            let undeclared = || Tool {
                name: name.unwrap_or_default().to_owned(),
                schema: None,
            };
            entry
                .session
                .set_tool_call(declared.unwrap_or_else(undeclared));
            if piece.is_anonymous || !can_be_cut {
                // The rest of a call without an id could be taken for the rest of another call.
                entry.session.pass();
            }
        }
    }

    /// Drops all slots, since the first answer begins again.
    pub(super) fn restart(&mut self) {
        self.list = vec![Entry::new((*self.blank).clone())];
        self.current = 0;
        self.received = 0;
    }

    /// Records that the current session has asked for a call. If that repeats the original request,
    /// its answer may begin with another slot.
    pub(super) fn asked(&mut self) {
        self.repeated.clear();
        if self.session().is_first() {
            self.entry_mut().has_begun = false;
        }
    }

    /// Lets the answer pass unchanged.
    pub(super) fn pass(&mut self) {
        self.list.iter_mut().for_each(|entry| entry.session.pass());
    }

    /// Lets prose pass that the provider has ended without a finish reason.
    pub(super) fn pass_prose(&mut self) {
        self.list
            .iter_mut()
            .for_each(|entry| entry.session.pass_prose());
    }

    /// Gives up a slot that the client has seen end, although its text is not whole.
    pub(super) fn pass_slots(&mut self, ids: &[SlotId]) {
        let of_ids = self
            .list
            .iter_mut()
            .filter(|entry| ids.contains(&entry.slot.id));
        of_ids.for_each(|entry| entry.session.pass());
    }

    /// Returns whether all that was written of the answer is whole: one text in each choice, and it
    /// is JSON.
    pub(super) fn is_whole(&self) -> bool {
        self.list.iter().all(|entry| {
            let is_whole = entry.session.document().is_complete() && !entry.session.is_passing();
            is_whole && entry.slot.kind == SlotKind::Text
        })
    }

    /// Returns whether the first call, were it to end like this, would be continued in any slot.
    pub(super) fn would_continue(&self, ends: &Ends, end: &CallEnd) -> bool {
        (0..self.list.len()).any(|at| self.is_cut(at, &ends.of(self.choice(at), end)))
    }

    /// Returns whether a choice that ends for this reason would be continued, while others have not
    /// ended or not begun.
    pub(super) fn continues_choice(&self, choice: u32, reason: &Finish) -> bool {
        let end = CallEnd::Finished(reason.clone());
        let is_cut = |at| {
            self.list
                .get(at)
                .is_some_and(|entry| self.is_cut_among_others(at, entry, &end))
        };
        (0..self.list.len()).any(|at| self.choice(at) == choice && is_cut(at))
    }

    /// Returns whether a slot could be continued, if the limit ended the answer now, or the
    /// connection a slot of prose.
    pub(super) fn is_open(&self, id: SlotId) -> bool {
        let end = |entry: &Entry| match entry.session.document().is_prose() {
            true => CallEnd::Dropped,
            false => CallEnd::Finished(Finish::Length),
        };
        (0..self.list.len())
            .any(|at| self.list[at].slot.id == id && self.is_cut(at, &end(&self.list[at])))
    }

    /// Returns whether all choices of the answer have finished.
    pub(super) fn have_finished(&self, ends: &Ends) -> bool {
        ends.finished.len() >= self.expected
            && (0..self.list.len()).all(|at| ends.has(self.choice(at)))
    }

    fn is_cut(&self, at: usize, end: &CallEnd) -> bool {
        let Some(entry) = self.list.get(at) else {
            return false;
        };
        if self.expected > 1 && entry.has_begun && self.choices().len() < self.expected {
            // A call can't ask only for a choice that has not begun.
            return false;
        }
        self.is_cut_among_others(at, entry, end)
    }

    /// Returns whether a slot is cut, if all choices have begun.
    fn is_cut_among_others(&self, at: usize, entry: &Entry, end: &CallEnd) -> bool {
        let (is_alone, is_call) = (self.list.len() == 1, entry.slot.kind == SlotKind::Arguments);
        if self.expected > 1 && entry.slot.kind == SlotKind::Arguments && entry.session.is_blank() {
            // The request asks for several choices, so a new answer can't be assigned to this one.
            return false;
        }
        // If there are several slots, none is requested again from its beginning, and a text ends
        // where the next slot begins.
        let can_be = is_alone && (self.expected == 1 || !entry.has_begun)
            || entry.session.has_delivered(end);
        let is_last = || {
            self.list
                .iter()
                .skip(at + 1)
                .all(|other| self.wire.choice_of(other.slot.id) != self.choice(at))
        };
        entry.session.would_continue(end) && can_be && (is_call || is_last())
    }

    /// Ends the first call: its cut slots wait for their turn. If no slot is cut, the current
    /// session ends.
    pub(super) fn end(&mut self, now: Duration, ends: &Ends, end: &CallEnd) {
        let cut = (0..self.list.len()).map(|at| (at, ends.of(self.choice(at), end)));
        self.waiting = cut.filter(|(at, end)| self.is_cut(*at, end)).collect();
        self.ends = ends.clone();
        if self.waiting.is_empty() {
            if self.list.len() > 1 {
                self.pass();
            }
            self.waiting
                .push_back((self.current, ends.of(self.choice(self.current), end)));
        }
        for (at, _) in &self.waiting {
            if let Some(entry) = self.list.get_mut(*at) {
                entry.session.wait_since(now);
            }
        }
    }

    /// Makes the next slot that waits the current one, and returns how the first call ended for it.
    pub(super) fn next(&mut self) -> Option<CallEnd> {
        let (at, end) = self.waiting.pop_front()?;
        self.current = at;
        Some(end)
    }

    /// Keeps how the current slot ended.
    pub(super) fn keep(&mut self, outcome: Outcome) {
        let entry = self.entry_mut();
        let unread = entry.session.unread_end();
        let is_left = matches!(outcome, Outcome::Incomplete { .. }) && !unread.is_empty();
        entry.unread = is_left.then(|| [entry.session.answer_text(), unread].concat());
        entry.outcome = Some(outcome);
    }

    /// Returns how the answer ended: as the slot that ended worst, with the tally of all. That slot
    /// becomes the current one.
    pub(super) fn outcome(&mut self) -> Option<Outcome> {
        let rank = |entry: &Entry| entry.outcome.as_ref().map(rank);
        let worst = (0..self.list.len())
            .rev()
            .filter(|&at| rank(&self.list[at]).is_some());
        self.current = worst.max_by_key(|&at| rank(&self.list[at]))?;
        let mut outcome = self.entry().outcome.clone()?;
        let mut tally = Tally::default();
        self.list
            .iter()
            .filter(|entry| entry.outcome.is_some())
            .for_each(|entry| tally.add(entry.session.tally()));
        tally.limit = self.limit().or(outcome.tally().limit.as_ref()).cloned();
        *outcome.tally_mut() = tally;
        Some(outcome)
    }

    /// Returns the reason with which a choice ends. A cut answer must not look whole.
    pub(super) fn reason(&self, choice: u32) -> Finish {
        let is_whole =
            |entry: &Entry| entry.outcome.is_none() && entry.session.document().is_complete();
        let otherwise = || {
            if self.of_choice(choice).all(is_whole) {
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
            .of_choice(choice)
            .filter_map(|entry| Some((entry, entry.outcome.as_ref()?)));
        match ended.max_by_key(|(_, outcome)| rank(outcome)) {
            Some((entry, Outcome::Complete { .. })) if entry.slot.kind == SlotKind::Arguments => {
                Some(Finish::ToolCalls)
            }
            Some((_, outcome)) => finish_reason(outcome).map(Finish::from),
            None => match self.ends.of(choice, &CallEnd::Closed) {
                CallEnd::Finished(reason) => Some(reason),
                _ => None,
            },
        }
    }

    fn of_choice(&self, choice: u32) -> impl Iterator<Item = &Entry> {
        self.list
            .iter()
            .filter(move |entry| self.wire.choice_of(entry.slot.id) == choice)
    }

    /// Returns the choices that have begun.
    pub(super) fn choices(&self) -> Vec<u32> {
        let mut choices: Vec<_> = (0..self.list.len()).map(|at| self.choice(at)).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// Returns the whole texts of all slots.
    pub(super) fn texts(&self) -> Vec<SlotText<'_>> {
        self.list
            .iter()
            .filter(|entry| entry.has_begun)
            .map(Entry::text)
            .collect()
    }

    /// Returns the whole texts of the slots whose text changed.
    pub(super) fn changed_texts(&self) -> Vec<SlotText<'_>> {
        self.list
            .iter()
            .filter(|entry| entry.outcome.is_some())
            .map(Entry::text)
            .collect()
    }

    /// Returns the whole texts of the repaired slots of a first answer.
    pub(super) fn repaired_texts(&self) -> Vec<SlotText<'_>> {
        let is_repaired = |entry: &&Entry| entry.has_begun && entry.session.is_repaired();
        self.list
            .iter()
            .filter(is_repaired)
            .map(Entry::text)
            .collect()
    }

    fn choice(&self, at: usize) -> u32 {
        self.list
            .get(at)
            .map_or(0, |entry| self.wire.choice_of(entry.slot.id))
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`current` is set to places of the list alone, and it only grows"
    )]
    fn entry(&self) -> &Entry {
        &self.list[self.current]
    }

    #[expect(clippy::indexing_slicing, reason = "as above")]
    fn entry_mut(&mut self) -> &mut Entry {
        &mut self.list[self.current]
    }
}

impl Entry {
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

    fn text(&self) -> SlotText<'_> {
        SlotText {
            slot: self.slot,
            text: self
                .unread
                .as_deref()
                .unwrap_or_else(|| self.session.answer_text()),
        }
    }
}

/// Orders the outcomes of slots: the larger, the worse. Incomplete slots are compared by their
/// ends. A lost connection is worse than a limit, because no finish reason of another slot can
/// report it.
fn rank(outcome: &Outcome) -> (u8, u8, bool) {
    match outcome {
        Outcome::PassedThrough { .. } => (0, 0, false),
        Outcome::Complete { .. } => (1, 0, false),
        Outcome::Closed { .. } => (2, 0, false),
        Outcome::Incomplete { finish, .. } => (3, badness(finish.as_ref()), finish.is_none()),
        Outcome::Failed { .. } => (4, 0, false),
    }
}
