//! Events of a first call: the relay forwards them unchanged, up to the one that ends a cut answer.

use std::ops::ControlFlow;
use std::time::Duration;

use super::raw::Held;
use super::withheld::Withheld;
use super::{Phase, Relay};
use crate::provider::{Finish, SlotId};
use crate::session::slot_list::SlotEntry;
use crate::session::{CallEnd, Input};

impl Relay {
    /// Takes an event of a first call.
    pub(super) fn first_event(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
    ) -> ControlFlow<()> {
        let adopts = self.call.adopts;
        self.client.done |= self.event_summary.is.done && !adopts;
        if self.client.finish || !self.call.ends.is_empty() {
            if self.event_summary.has_more() {
                self.take_back_ends();
            }
            if self.client.finish {
                return ControlFlow::Continue(());
            }
        }
        if data.is_none() && self.call.held.is_none() && self.event_summary.is_text_alone() {
            // Nearly all events have only text, so this shortcut skips the checks below.
            for (piece, text) in self.event_summary.texts() {
                self.slots.text(now, piece, text);
            }
            return self.after_first_event(now);
        }
        if self.event_summary.is.restart && self.is_attached_again() {
            // The upstream sends the whole answer again instead of its rest. The bytes before this
            // event end one that was already sent.
            self.forward_before(now, at);
            self.call.raw.clear();
            self.end_call(now, CallEnd::Dropped);
            return ControlFlow::Break(());
        }
        let (data, is_changed) = self.first_text(now, at, data);
        let Some(end) = self.end_of_first() else {
            self.go_on(now, at, data.as_deref(), is_changed);
            return self.after_first_event(now);
        };
        let continues =
            self.slots.list.would_continue(&self.call.ends, &end) || !self.call.withheld.is_empty();
        match data {
            data if !adopts && !continues && !self.reports_repairs(&end) => {
                self.release_before(now, at, data.filter(|_| is_changed));
                self.call.held = None;
                self.client.finish = true;
                self.call.end = Some(self.end_or_early(end));
                return ControlFlow::Continue(());
            }
            data if continues && self.is_known_as_early() => {
                self.leave_or_hold(now, at, data.as_deref().filter(|_| is_changed));
                return self.after_first_event(now);
            }
            Some(data) if adopts => {
                self.adopt_last_event(now, &data, &end, continues);
                self.phase = Phase::Withheld(Withheld::written(!continues));
            }
            data => {
                let data = data.filter(|_| matches!(end, CallEnd::Finished(_)) || is_changed);
                self.withhold_end(now, at, data, is_changed, !continues);
            }
        }
        let is_done = self.event_summary.is.done;
        if matches!(end, CallEnd::Error(_)) || is_done && !continues {
            self.end_call(now, end);
            return ControlFlow::Break(());
        }
        self.call.end = Some(end);
        self.call.done_at = is_done.then_some(now);
        ControlFlow::Continue(())
    }

    /// Records an event of a first call that did not end it. Breaks if the rest passes unread.
    fn after_first_event(&mut self, now: Duration) -> ControlFlow<()> {
        self.client.introduced |= self.writer.has_begun();
        if self.event_summary.text.is_empty() {
            self.note_items();
        }
        if self.is_forwarding() && self.slots.is_unread() {
            self.pass_unread(now);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Counts the items of the answer after an event without text, which may have added one: a call
    /// of a server tool, an image.
    // Most events have text: they do without the frame of this function.
    #[cold]
    fn note_items(&mut self) {
        self.slots.note_kept(self.writer.kept());
    }

    /// Gives the texts of an event to the sessions of their slots. Returns the data of the event as
    /// the client gets it, and whether it was changed.
    fn first_text(
        &mut self,
        now: Duration,
        at: u64,
        data: Option<String>,
    ) -> (Option<String>, bool) {
        if self.event_summary.is.restart {
            self.slots.restart();
            // The answer has begun, so later silence has the limit for such answers.
            self.slots.session_mut().handle_input(now, Input::Activity);
            self.call.held = None;
        }
        let repairs = self.session().repairs_text();
        let is_one = self
            .event_summary
            .pieces
            .iter()
            .all(|piece| piece.slot == self.slots.slot());
        if self.event_summary.is.opaque || repairs && self.event_summary.pieces.len() > 1 {
            self.slots.pass();
        }
        if repairs && !is_one {
            // The text that is held back belongs before the other slot's.
            self.forward_before(now, at);
            self.release(now);
        }
        let held = !self.session().document().pending().is_empty();
        for (piece, text) in self.event_summary.texts() {
            self.slots.text(now, piece, text);
        }
        match data {
            Some(data) if self.session().repairs_text() => self.repaired_event(now, at, data, held),
            data => (data, false),
        }
    }

    /// Returns how the call ends with this event, if it does. Of several choices the last one ends
    /// it.
    fn end_of_first(&mut self) -> Option<CallEnd> {
        self.call.ends.note(&self.event_summary);
        if self.event_summary.is.done {
            // Several servers name no finish reason.
            self.slots
                .list
                .change_first(|_| true, |first| first.pass_prose());
        }
        let end = self.event_summary.end()?;
        let goes_on =
            matches!(end, CallEnd::Finished(_)) && !self.slots.list.have_finished(&self.call.ends);
        (!goes_on).then_some(end)
    }

    /// Takes an event that does not end the call.
    fn go_on(&mut self, now: Duration, at: u64, data: Option<&str>, is_changed: bool) {
        if self.call.adopts {
            if let Some(data) = data {
                self.adopt(now, data);
            }
            return;
        }
        let finishes = &self.event_summary.finishes;
        let is_cut = finishes
            .iter()
            .any(|(choice, reason)| self.slots.list.continues_choice(*choice, reason));
        if is_cut && !self.is_known_as_early() {
            // Another choice continues, so the held-back event was not the last of the stream.
            self.let_go();
            // The bytes before the event's block: other blocks, and the end of a line break whose
            // beginning was already sent.
            self.forward_before(now, at);
            let event = self.last_event(data.map(str::to_owned));
            self.write_without_end(now, &event);
            self.call.raw.skip_to(at);
            self.call.withheld.extend(
                self.event_summary
                    .finishes
                    .iter()
                    .map(|(choice, _)| *choice),
            );
            return;
        }
        if !is_cut {
            self.client
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
                self.replace_event(now, at, data);
            }
            None => self.hold(at),
        }
    }

    /// Holds back an event that ends a slot whose text is not whole: the client would take it for
    /// the end. An event with more of the answer shows that the slot is over, so both are
    /// forwarded. Data that is not JSON is held back, too: it is often the last of a broken stream,
    /// and clients fail on it.
    fn hold(&mut self, at: u64) {
        let event = &self.event_summary;
        let ends = event.ended.iter().any(|&id| self.slots.list.is_open(id)) || self.is_broken();
        let is_of = |ids: &[SlotId]| {
            event
                .pieces
                .iter()
                .all(|piece| ids.contains(&piece.slot.id))
        };
        // Text after the end of its slot is more of the answer, unless the event is another end.
        let goes_on = event.is.reasoning || !event.text.is_empty() && event.ended.is_empty();
        let texts = || {
            event
                .texts()
                .filter(|(_, text)| !text.is_empty())
                .map(|(piece, text)| (piece.slot, text.to_owned()))
        };
        match &mut self.call.held {
            Some(held) if is_of(&held.slots) && !goes_on => {
                held.slots.extend(&event.ended);
                held.texts.extend(texts());
            }
            Some(_) => self.let_go(),
            None if ends => {
                let (slots, from) = (event.ended.clone(), self.call.raw.start_of_block(at));
                self.call.held = Some(Held {
                    from,
                    slots,
                    texts: texts().collect(),
                });
            }
            None => {}
        }
        // An event may begin a slot that prevents the continuation of the others.
        let cuts = [CallEnd::Dropped, CallEnd::Finished(Finish::Length)];
        if self.call.held.is_some()
            && !cuts
                .iter()
                .any(|end| self.slots.list.would_continue(&self.call.ends, end))
        {
            self.let_go();
        }
    }

    /// Forwards the held-back events: the slots that they end are over.
    pub(super) fn let_go(&mut self) {
        if let Some(held) = self.call.held.take() {
            let is_of = |entry: &SlotEntry| held.slots.contains(&entry.slot.id);
            self.slots.list.change_first(is_of, |first| first.pass());
        }
    }

    /// Returns whether an event shows that the stream broke off inside of a document.
    fn is_broken(&self) -> bool {
        self.event_summary.is.malformed
            && self
                .slots
                .list
                .would_continue(&self.call.ends, &CallEnd::Dropped)
    }

    /// Drops the unsent events of an answer that is continued.
    pub(super) fn withhold(&mut self, now: Duration) {
        if let Some(held) = self.call.held.take() {
            self.forward(now, held.from);
            held.slots
                .into_iter()
                .for_each(|slot| self.writer.reopen(slot));
            let mut out = Vec::new();
            held.texts
                .iter()
                .for_each(|(slot, text)| self.writer.text(&mut out, *slot, text));
            self.client.introduced |= !out.is_empty();
            self.send_events(now, out);
        }
        self.call.raw.clear();
    }

    /// Writes the parts of a repeated request's terminal event that the client must see.
    fn adopt_last_event(&mut self, now: Duration, data: &str, end: &CallEnd, continues: bool) {
        let has_more = !self.event_summary.text.is_empty()
            || self.event_summary.is.opaque
            || self.event_summary.is.other;
        match end {
            CallEnd::Finished(_) if has_more => {
                let data = self.writer.without_end(data);
                self.adopt(now, &data);
            }
            CallEnd::Error(_) if !continues => self.adopt(now, data),
            _ => {}
        }
    }

    /// Writes an event of another answer as one of the first.
    pub(super) fn adopt(&mut self, now: Duration, data: &str) {
        let event_type = std::mem::take(&mut self.event_summary.event_type);
        self.write(now, |writer, out| writer.adopt(out, &event_type, data));
    }
}
