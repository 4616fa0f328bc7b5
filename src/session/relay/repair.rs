//! Writes events of a first answer whose text is repaired or held back.

use std::time::Duration;

use super::{Output, Relay};
use crate::session::first_answer::FirstReading;
use crate::session::slot_list::SlotEntry;
use crate::session::{self, CallEnd};

impl Relay {
    /// Sets the text of an event of a first answer to its repaired text, and edits its data.
    /// Returns the data, and whether it was changed. `held`: text was held back before the event.
    /// Text that does not fit into the event is written before it.
    pub(super) fn repaired_event(
        &mut self,
        now: Duration,
        at: u64,
        data: String,
        held: bool,
    ) -> (Option<String>, bool) {
        if self.event_summary.end().is_some()
            || self.event_summary.ended.contains(&self.slots.slot().id)
        {
            if let Some(mut first) = FirstReading::of(self.slots.session_mut()) {
                first.finish_whole();
            }
        }
        let text = self.take_text();
        let own = std::mem::replace(&mut self.event_summary.text, text);
        // Held-back text may begin like the event's text.
        if own == self.event_summary.text && (!held || own.is_empty()) {
            let edited = self.with_whole_texts(&data);
            let is_changed = edited.is_some();
            return (Some(edited.unwrap_or(data)), is_changed);
        }
        if !own.is_empty()
            && let Some(edited) = self.writer.with_text(&data, &self.event_summary.text)
        {
            return (Some(edited), true);
        }
        let text = std::mem::take(&mut self.event_summary.text);
        self.forward_before(now, at);
        self.write_text(now, &text);
        let edited = self.with_whole_texts(&data);
        if own.is_empty() || edited.is_some() {
            let is_changed = edited.is_some();
            return (Some(edited.unwrap_or(data)), is_changed);
        }
        self.call.raw.skip_to(at);
        (None, false)
    }

    /// Replaces the texts that an event repeats by the repaired ones. Returns its data, or `None`
    /// if nothing changes.
    fn with_whole_texts(&mut self, data: &str) -> Option<String> {
        let texts = self.slots.list.texts(SlotEntry::is_repaired);
        if texts.is_empty() {
            None
        } else {
            self.writer.with_whole_texts(data, &texts)
        }
    }

    /// Takes the text of a first answer from the session's outputs.
    fn take_text(&mut self) -> String {
        let mut text = String::new();
        while let Some(output) = self.slots.session_mut().poll_output() {
            match output {
                session::Output::Text(more) => text.push_str(&more),
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Call { .. } | session::Output::Done(_) => {
                    debug_assert!(
                        false,
                        "only the end of a call is followed by another or by the outcome"
                    );
                }
            }
        }
        text
    }

    /// Forwards the bytes before the event that ends at `at`, and writes `data` instead of the
    /// event.
    pub(super) fn replace_event(&mut self, now: Duration, at: u64, data: &str) {
        self.forward_before(now, at);
        self.call.raw.skip_to(at);
        let event_type = std::mem::take(&mut self.event_summary.event_type);
        self.write(now, |writer, out| writer.rewrite(out, &event_type, data));
    }

    /// Returns whether the end of an answer that is not continued is written with a report of the
    /// repairs.
    pub(super) fn reports_repairs(&self, end: &CallEnd) -> bool {
        let is_finished = matches!(end, CallEnd::Finished(_)) && !self.session().is_passing();
        is_finished
            && self.session().document().is_complete()
            && self.session().channel.has_changed_text()
    }

    /// Writes the held-back text of an answer that is not continued, before the event that ends it.
    /// `edited`: the event's data, if its text was changed.
    pub(super) fn release_before(&mut self, now: Duration, at: u64, edited: Option<String>) {
        if let Some(mut first) = FirstReading::of(self.slots.session_mut()) {
            first.release();
        }
        let held = self.take_text();
        if let Some(data) = edited {
            let text = format!("{}{held}", self.event_summary.text);
            let data = self.writer.with_text(&data, &text).unwrap_or(data);
            self.replace_event(now, at, &data);
        } else if !held.is_empty() {
            self.forward_before(now, at);
            self.write_text(now, &held);
        }
    }

    /// Writes the held-back text of a first answer, if it closes the root.
    pub(super) fn finish_whole(&mut self, now: Duration) {
        self.end_text(now, |first| first.finish_whole());
    }

    /// Writes the held-back text of a first answer that is not continued.
    pub(super) fn release(&mut self, now: Duration) {
        self.end_text(now, |first| first.release());
    }

    fn end_text(&mut self, now: Duration, end: impl FnOnce(&mut FirstReading<'_>)) {
        if self.session().repairs_text() {
            if let Some(mut first) = FirstReading::of(self.slots.session_mut()) {
                end(&mut first);
            }
            let text = self.take_text();
            self.write_text(now, &text);
        }
    }
}
