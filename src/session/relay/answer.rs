//! The answer that the client gets: a first call's events are forwarded unchanged, up to the one
//! that ends a cut answer.

use std::ops::ControlFlow;
use std::time::Duration;

use super::client_stream::ClientStream;
use super::raw_bytes::HeldBlocks;
use super::reconnection::Reconnection;
use super::stream_ending::write_ends;
use super::upstream_call::{StreamPhase, UpstreamCall};
use super::withheld::{EndEvent, SETTLE, WithheldEnd};
use super::{Output, UpstreamTotals};
use crate::limits::{TimeLimit, TransportLimits};
use crate::provider::{Finish, SlotId, add_usage, answer_tokens};
use crate::session::clock::SilenceDeadline;
use crate::session::event_summary::{EventSummary, LastEvent};
use crate::session::first_answer::FirstReading;
use crate::session::slot_list::SlotEntry;
use crate::session::slots::Slots;
use crate::session::{CallEnd, Input};

/// The answer that the client gets, and the open call that brings it.
#[derive(Debug)]
pub(super) struct RelayedAnswer {
    pub(super) slots: Slots,
    pub(super) client: ClientStream,
    pub(super) call: UpstreamCall,
    /// The contents of the event being read.
    pub(super) summary: EventSummary,
    pub(super) totals: UpstreamTotals,
    pub(super) reconnection: Reconnection,
}

impl RelayedAnswer {
    /// Returns whether the data of events may have to be written again.
    pub(super) fn wants_data(&self) -> bool {
        self.call.adopts() || self.call.is_first() && self.slots.session().repairs_text()
    }

    /// Returns whether the first call, were it to end like this, would be continued in any slot.
    pub(super) fn would_continue(&self, end: &CallEnd) -> bool {
        let choices = &self.call.ends.choices;
        self.slots.list.would_continue(choices, end)
    }

    /// Returns whether a first answer with this end is forwarded unchanged.
    pub(super) fn passes(&self, end: &CallEnd) -> bool {
        let continues = self.call.ends.continue_after(&self.slots, end);
        self.client.ends.finish || self.call.is_forwarding() && !continues
    }

    /// Takes an event of a first call.
    pub(super) fn first_event(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
    ) -> ControlFlow<Option<CallEnd>> {
        let adopts = self.call.adopts();
        // A repeated answer's events are written, not forwarded, so its `[DONE]` does not reach the
        // client.
        self.client.ends.done |= self.summary.is.done && !adopts;
        if self.client.ends.finish || !self.call.ends.choices.is_empty() {
            if self.summary.has_more() {
                self.take_back_ends();
            }
            if self.client.ends.finish {
                return ControlFlow::Continue(());
            }
        }
        if data.is_none() && self.call.raw.held.is_none() && self.summary.is_text_alone() {
            // Nearly all events have only text, so this shortcut skips the checks below.
            for (piece, text) in self.summary.texts() {
                self.slots.text(now, piece, text);
            }
            return self.after_first_event(now);
        }
        if self.summary.is.restart && self.call.lost.is_some() {
            // The upstream sends the whole answer again instead of its rest. The bytes before this
            // event end one that was already sent.
            self.reconnection.stop_reattaching();
            self.call.forward_before(&mut self.client, now, at);
            self.call.raw.clear();
            return ControlFlow::Break(Some(CallEnd::Dropped));
        }
        let (data, is_changed) = self.first_text(now, at, data);
        let Some(end) = self.end_of_first() else {
            self.go_on(now, at, data.as_deref(), is_changed);
            return self.after_first_event(now);
        };
        let continues = self.call.ends.continue_after(&self.slots, &end);
        let hops = self
            .reconnection
            .hop_after(&self.slots, &mut self.call, &end);
        let hops = hops.is_some();
        let is_known = !adopts && self.call.ends.is_known_as_early(&self.summary);
        // The report is written with the finish of a document that was repaired, or that is
        // malformed and cut.
        let list = &self.slots.list;
        let has_report = || {
            list.entry().is_repaired() || list.malformed(&self.call.ends.choices, &end).is_some()
        };
        let is_reported = matches!(end, CallEnd::Finished(_)) && has_report();
        let is_final = !continues && !hops;
        match data {
            data if !adopts && !continues && !is_reported && !hops => {
                self.release_before(now, at, data.filter(|_| is_changed));
                // The answer ends as the upstream ends it, so nothing is held back any more.
                self.call.raw.held = None;
                self.client.ends.finish = true;
                let ends = &mut self.call.ends;
                ends.last = Some(ends.end_or_early(end));
                return ControlFlow::Continue(());
            }
            data if continues && is_known => {
                self.leave_or_hold(now, at, data.as_deref().filter(|_| is_changed));
                return self.after_first_event(now);
            }
            Some(data) if adopts => {
                self.adopt_last_event(now, &data, &end, continues);
                self.call.phase = StreamPhase::Withheld(WithheldEnd::written(is_final));
            }
            data => {
                let data = data.filter(|_| matches!(end, CallEnd::Finished(_)) || is_changed);
                self.withhold_end(now, at, data, is_changed, is_final);
            }
        }
        let is_done = self.summary.is.done;
        if matches!(end, CallEnd::Error(_)) || is_done && !continues {
            return ControlFlow::Break(Some(end));
        }
        self.call.ends.last = Some(end);
        self.call.ends.done_at = is_done.then_some(now);
        ControlFlow::Continue(())
    }

    /// Records an event of a first call that did not end it. Breaks if the rest passes unread.
    fn after_first_event(&mut self, now: Duration) -> ControlFlow<Option<CallEnd>> {
        self.client.introduced |= self.client.writer.has_begun();
        if self.summary.text.is_empty() {
            // The event may have added an item: a call of a server tool, an image.
            self.slots.note_kept(self.client.writer.kept());
        }
        let is_unread = self.call.is_forwarding() && self.slots.is_unread();
        if is_unread && !self.reconnection.reads_tokens(&self.slots, &mut self.call) {
            self.pass_unread(now);
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }

    /// Forwards the rest of the first answer unread.
    pub(super) fn pass_unread(&mut self, now: Duration) {
        self.call.raw.held = None;
        self.call.phase = StreamPhase::Unread;
        // First the whole events, then the text and the ends that were withheld, last the bytes of
        // the event that was not read: the client gets all in order.
        let boundary = self.call.decoder.boundary();
        self.call.forward(&mut self.client, now, boundary);
        self.end_text(now, |first| first.release());
        self.write_withheld_ends(now);
        self.call.forward(&mut self.client, now, u64::MAX);
    }

    /// Gives the texts of an event to the sessions of their slots. Returns the data of the event as
    /// the client gets it, and whether it was changed.
    fn first_text(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
    ) -> (Option<String>, bool) {
        if self.summary.is.restart {
            self.slots.restart();
            // The answer has begun, so later silence has the limit for such answers.
            self.slots.session_mut().handle_input(now, Input::Activity);
            self.call.raw.held = None;
        }
        let repairs = self.slots.session().repairs_text();
        let is_one = self
            .summary
            .pieces
            .iter()
            .all(|piece| piece.slot == self.slots.slot());
        // Text beside unknown content, or of several slots in one event, can't be written again
        // without it.
        if self.summary.is.opaque || repairs && self.summary.pieces.len() > 1 {
            self.slots.pass();
        }
        if repairs && !is_one {
            // The text that is held back belongs before the other slot's.
            self.call.forward_before(&mut self.client, now, at);
            self.end_text(now, |first| first.release());
        }
        // Text that a repair holds back belongs before this event's.
        let held = !self.slots.session().document().pending().is_empty();
        for (piece, text) in self.summary.texts() {
            self.slots.text(now, piece, text);
        }
        match data {
            Some(data) if self.slots.session().repairs_text() => {
                self.repaired_event(now, at, data, held)
            }
            data => (data, false),
        }
    }

    /// Returns how the call ends with this event, if it does. Of several choices the last one ends
    /// it.
    fn end_of_first(&mut self) -> Option<CallEnd> {
        self.call.ends.choices.note(&self.summary);
        if self.summary.is.done {
            // Several servers name no finish reason.
            self.slots
                .list
                .change_first(|_| true, |first| first.pass_prose());
        }
        let end = self.summary.end()?;
        let goes_on = matches!(end, CallEnd::Finished(_))
            && !self.slots.list.have_finished(&self.call.ends.choices);
        (!goes_on).then_some(end)
    }

    /// Takes an event that does not end the call.
    fn go_on(&mut self, now: Duration, at: u64, data: Option<&str>, is_changed: bool) {
        if self.call.adopts() {
            if let Some(data) = data {
                self.client.adopt(now, &mut self.summary.event_type, data);
            }
            return;
        }
        let finishes = &self.summary.finishes;
        let is_cut = finishes
            .iter()
            .any(|(choice, reason)| self.slots.list.continues_choice(*choice, reason));
        if is_cut && !self.call.ends.is_known_as_early(&self.summary) {
            // Another choice continues, so the held-back event was not the last of the stream.
            self.let_go();
            // The bytes before the event's block: other blocks, and the end of a line break whose
            // beginning was already sent.
            self.call.forward_before(&mut self.client, now, at);
            let event = self.summary.take_last(data.map(str::to_owned));
            self.client.without_end(now, &event);
            self.call.raw.skip_to(at);
            self.call
                .ends
                .withheld
                .extend(self.summary.finishes.iter().map(|(choice, _)| *choice));
            return;
        }
        if !is_cut {
            self.client
                .ends
                .finished
                .extend(finishes.iter().map(|(choice, _)| *choice));
        }
        self.leave_or_hold(now, at, data.filter(|_| is_changed));
    }

    /// Forwards an event, unless it ends a slot that is not whole. `changed`: its data, if a repair
    /// changed it.
    fn leave_or_hold(&mut self, now: Duration, at: u64, changed: Option<&str>) {
        match changed {
            Some(data) => {
                self.let_go();
                let event_type = std::mem::take(&mut self.summary.event_type);
                self.call
                    .replace_event(&mut self.client, now, at, &event_type, data);
            }
            None => self.hold(at),
        }
    }

    /// Holds back an event that ends a slot whose text is not whole: the client would take it for
    /// the end. An event with more of the answer shows that the slot is over, so both are
    /// forwarded. Data that is not JSON is held back, too: it is often the last of a broken stream,
    /// and clients fail on it.
    fn hold(&mut self, at: u64) {
        let event = &self.summary;
        let ends = event.ended.iter().any(|&id| self.slots.list.is_open(id))
            || event.is.malformed && self.would_continue(&CallEnd::Dropped);
        let is_of = |ids: &[SlotId]| {
            event
                .pieces
                .iter()
                .all(|piece| ids.contains(&piece.slot.id))
        };
        // A slot's end is withheld as long as the end of the answer may show that the slot is cut.
        // Text after the end of its slot is more of the answer, unless the event is another end.
        let goes_on = event.is.reasoning || !event.text.is_empty() && event.ended.is_empty();
        match &mut self.call.raw.held {
            Some(held) if is_of(&held.slots) && !goes_on => {
                held.slots.extend(&event.ended);
                held.texts.extend(event.owned_texts());
            }
            Some(_) => self.let_go(),
            None if ends => {
                let (slots, from) = (event.ended.clone(), self.call.raw.start_of_block(at));
                self.call.raw.held = Some(HeldBlocks {
                    from,
                    slots,
                    texts: event.owned_texts().collect(),
                });
            }
            None => {}
        }
        // An event may begin a slot that prevents the continuation of the others.
        let cuts = [CallEnd::Dropped, CallEnd::Finished(Finish::Length)];
        if self.call.raw.held.is_some() && !cuts.iter().any(|end| self.would_continue(end)) {
            self.let_go();
        }
    }

    /// Forwards the held-back events: the slots that they end are over.
    fn let_go(&mut self) {
        if let Some(held) = self.call.raw.held.take() {
            let is_of = |entry: &SlotEntry| held.slots.contains(&entry.slot.id);
            self.slots.list.change_first(is_of, |first| first.pass());
        }
    }

    /// Writes the parts of a repeated request's terminal event that the client must see.
    fn adopt_last_event(&mut self, now: Duration, data: &str, end: &CallEnd, continues: bool) {
        let has_more =
            !self.summary.text.is_empty() || self.summary.is.opaque || self.summary.is.other;
        let event_type = &mut self.summary.event_type;
        match end {
            CallEnd::Finished(_) if has_more => {
                let data = self.client.writer.without_end(data);
                self.client.adopt(now, event_type, &data);
            }
            CallEnd::Error(_) if !continues => self.client.adopt(now, event_type, data),
            _ => {}
        }
    }

    /// Withholds the event that ends at `at`, because it may end the answer. Sends everything
    /// before it.
    fn withhold_end(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
        is_changed: bool,
        is_final: bool,
    ) {
        // The whole block waits: a client reads the finish reason in it together with its text.
        let start = self.call.raw.start_of_block(at);
        self.call.forward(&mut self.client, now, start);
        let has_text = !self.summary.text.is_empty() && self.call.raw.held.is_none();
        // The text of the event is wanted, only its end is in doubt. So the text waits for a short
        // time, and not at all where nothing can refute the end.
        let wait = if is_final { Duration::ZERO } else { SETTLE };
        let event = EndEvent {
            range: start..at,
            last: self.summary.take_last(data),
            finishes: self.summary.finishes.clone(),
            is_changed,
            text_due: has_text.then(|| now.saturating_add(wait)),
        };
        self.call.phase = StreamPhase::Withheld(WithheldEnd::of(event, is_final));
        if is_final {
            self.call.write_due_text(&mut self.client, now);
        }
    }

    /// Refutes the withheld end, because an event has more of the answer: the relay forwards its
    /// bytes unchanged.
    pub(super) fn refute_end(&mut self, now: Duration) {
        let StreamPhase::Withheld(mut withheld) =
            std::mem::replace(&mut self.call.phase, StreamPhase::Open)
        else {
            return;
        };
        // The answer continues, so the client gets the withheld events, and the writer knows them.
        self.let_go();
        for (event_type, data) in &withheld.unobserved {
            self.client.writer.observe(event_type, data);
        }
        let is_sent = withheld.event.is_some();
        let stands = |event: &mut EndEvent| event.stands(&self.slots, &self.summary);
        if let Some(event) = withheld.event.take_if(stands) {
            // Another choice has more, and this one is cut: the client must not see its end before
            // its rest.
            self.call.forward(&mut self.client, now, event.range.start);
            self.call.raw.skip_to(event.range.end);
            self.client.without_end(now, &event.last);
            let choices = event.finishes.iter().map(|(choice, _)| *choice);
            self.call.ends.withheld.extend(choices);
            self.refute_last(false);
            // The client has not seen this end, so the same reason may end the choice later.
            self.call.ends.early = None;
            return;
        }
        let finishes = withheld.event.iter().flat_map(|event| &event.finishes);
        let ended: Vec<_> = finishes
            .map(|(choice, _)| *choice)
            .filter(|choice| !self.summary.has_more_of(self.slots.list.wire, *choice))
            .collect();
        self.client.ends.finished.extend(ended);
        if let Some(EndEvent {
            range,
            last:
                LastEvent {
                    event_type,
                    data: Some(data),
                    ..
                },
            ..
        }) = withheld.event.filter(|event| event.is_changed)
        {
            self.call.forward(&mut self.client, now, range.start);
            self.call.raw.skip_to(range.end);
            self.client.rewrite(now, &event_type, &data);
        }
        self.refute_last(is_sent);
    }

    /// Revokes the ends of the choices for which an event has more of the answer.
    fn take_back_ends(&mut self) {
        if self.client.ends.finish {
            // Text after the root does not belong to the document. After an error, a part of the
            // answer may be missing.
            if self.call.is_whole(&self.slots)
                || matches!(self.call.ends.last, Some(CallEnd::Error(_)))
            {
                return;
            }
            // The client has read the end already. It gets the text after it all the same.
            self.client.ends.finish = false;
            self.refute_last(true);
        }
        let has_more = |choice| self.summary.has_more_of(self.slots.list.wire, choice);
        self.call.ends.choices.take_back(has_more);
        let finished = &mut self.client.ends.finished;
        finished.retain(|choice| !has_more(*choice));
        let withheld = &mut self.call.ends.withheld;
        withheld.retain(|choice| !has_more(*choice));
    }

    /// Records that the current event has refuted the last end. `is_sent`: the client has received
    /// that end.
    fn refute_last(&mut self, is_sent: bool) {
        self.client.ends.done = self.summary.is.done && !self.call.adopts();
        self.call.ends.refute(is_sent);
    }

    /// Sets the text of an event of a first answer to its repaired text, and edits its data.
    /// Returns the data, and whether it was changed. `held`: text was held back before the event.
    /// Text that does not fit into the event is written before it.
    fn repaired_event(
        &mut self,
        now: Duration,
        at: u64,
        data: String,
        held: bool,
    ) -> (Option<String>, bool) {
        let is_end =
            self.summary.end().is_some() || self.summary.ended.contains(&self.slots.slot().id);
        if is_end && let Some(mut first) = FirstReading::of(self.slots.session_mut()) {
            first.finish_whole();
        }
        // The session's text replaces the event's: it is repaired, and may have held-back text
        // before it.
        let text = self.client.take_text(&mut self.slots);
        let own = std::mem::replace(&mut self.summary.text, text);
        // Held-back text may begin like the event's text.
        if own == self.summary.text && (!held || own.is_empty()) {
            let edited = self.client.with_whole_texts(&self.slots, &data);
            let is_changed = edited.is_some();
            return (Some(edited.unwrap_or(data)), is_changed);
        }
        if !own.is_empty()
            && let Some(edited) = self.client.writer.with_text(&data, &self.summary.text)
        {
            return (Some(edited), true);
        }
        let text = std::mem::take(&mut self.summary.text);
        self.call.forward_before(&mut self.client, now, at);
        self.client.text(now, self.slots.slot(), &text);
        let edited = self.client.with_whole_texts(&self.slots, &data);
        if own.is_empty() || edited.is_some() {
            let is_changed = edited.is_some();
            return (Some(edited.unwrap_or(data)), is_changed);
        }
        // The event had nothing but its text, which was written.
        self.call.raw.skip_to(at);
        (None, false)
    }

    /// Writes the held-back text of an answer that is not continued, before the event that ends it.
    /// `edited`: the event's data, if its text was changed.
    fn release_before(&mut self, now: Duration, at: u64, edited: Option<String>) {
        if let Some(mut first) = FirstReading::of(self.slots.session_mut()) {
            first.release();
        }
        let held = self.client.take_text(&mut self.slots);
        if let Some(data) = edited {
            let text = format!("{}{held}", self.summary.text);
            let data = self.client.writer.with_text(&data, &text).unwrap_or(data);
            let event_type = std::mem::take(&mut self.summary.event_type);
            self.call
                .replace_event(&mut self.client, now, at, &event_type, &data);
        } else if !held.is_empty() {
            self.call.forward_before(&mut self.client, now, at);
            self.client.text(now, self.slots.slot(), &held);
        }
    }

    /// Writes the finish reasons that the client lacks, where the rest of the answer passes unread.
    fn write_withheld_ends(&mut self, now: Duration) {
        if self.call.ends.withheld.is_empty() {
            return;
        }
        // Unread events may end other choices, but no event will end these: their ends were
        // withheld.
        let finished = &self.client.ends.finished;
        let open = |(choice, _): &&(u32, Finish)| !finished.contains(choice);
        let reasons = self.call.ends.choices.reasons();
        let reasons: Vec<_> = reasons.iter().filter(open).cloned().collect();
        let mut out = Vec::new();
        write_ends(&mut *self.client.writer, &self.slots, &mut out, &reasons);
        let finished = &mut self.client.ends.finished;
        finished.extend(reasons.iter().map(|(choice, _)| *choice));
        self.client.events(now, out);
    }

    /// Returns when the open call counts as silent.
    pub(super) fn silence(&self, transport: &TransportLimits) -> Option<SilenceDeadline> {
        let (call, session) = (&self.call, self.slots.session());
        let silent_at = |limit| session.decisions.clock.silent_at(limit, transport);
        let idle = || silent_at(transport.idle());
        // A passing answer has the longest time limit. Prose that is kept has already begun.
        let passing = || match session.call.is_kept_prose(&session.channel) {
            true => idle(),
            false => Some(SilenceDeadline::new(
                call.arrival.heard_at?,
                transport.first_byte(),
            )),
        };
        if let Some(at) = call.ends.done_at.filter(|_| !call.phase.is_done()) {
            let limit = TimeLimit {
                name: "settle",
                time: SETTLE,
            };
            return Some(SilenceDeadline::new(at, limit));
        }
        let is_cut = || self.would_continue(&CallEnd::Dropped);
        match call.phase {
            StreamPhase::Open if call.is_reattach_unanswered() => silent_at(transport.first_byte()),
            // The document is whole: the call ends even if the upstream never sends its end.
            StreamPhase::Open if call.is_first() && call.is_whole(&self.slots) => idle(),
            StreamPhase::Open if call.is_first() && (self.client.ends.finish || !is_cut()) => {
                passing()
            }
            // `None`: the current slot would pass, but another one is cut.
            StreamPhase::Open => SilenceDeadline::of(session, call.arrival.opened).or_else(idle),
            // The end is known, only its confirmation is missing.
            StreamPhase::Withheld(_) => idle(),
            StreamPhase::Unread => passing(),
            StreamPhase::Done => None,
        }
    }

    /// Counts the usage of the open call, which is over.
    pub(super) fn count_usage(&mut self, now: Duration) {
        let RelayedAnswer {
            slots,
            client,
            call,
            totals,
            ..
        } = self;
        let Some(usage) = call.usage.reported.take() else {
            return;
        };
        slots.note_usage_of_prompt(&usage);
        if let Some(tokens) = answer_tokens(&usage) {
            slots.session_mut().handle_input(now, Input::Tokens(tokens));
        }
        // Usages of two APIs have no common sum.
        if call.is_first() || !slots.further.is_foreign() {
            add_usage(&mut totals.usages, &usage);
        }
        client.outputs.push_back(Output::Usage(usage));
    }

    /// Ends the text of a first answer with `end`, and writes the text that was held back.
    pub(super) fn end_text(&mut self, now: Duration, end: impl FnOnce(&mut FirstReading<'_>)) {
        if self.slots.session().repairs_text()
            && let Some(mut first) = FirstReading::of(self.slots.session_mut())
        {
            end(&mut first);
            let text = self.client.take_text(&mut self.slots);
            self.client.text(now, self.slots.slot(), &text);
        }
    }
}
