//! Events of a first answer whose text changes on its way, or comes later.

use std::time::Duration;

use super::{Output, Relay};
use crate::session::event_summary::with_text;
use crate::session::{self, CallEnd};

impl Relay {
    /// Sets the text of the event that was read to what the session gives out for it. Returns whether that is another
    /// text.
    pub(super) fn take_repaired_text(&mut self) -> bool {
        if self.event_summary.end().is_some() {
            self.session.finish_whole();
        }
        let text = self.take_text();
        let is_changed = text != self.event_summary.text;
        self.event_summary.text = text;
        is_changed
    }

    /// Takes what the session gives out of a first answer.
    fn take_text(&mut self) -> String {
        let mut text = String::new();
        while let Some(output) = self.session.poll_output() {
            match output {
                session::Output::Text(more) => text.push_str(&more),
                session::Output::Event(event) => self.outputs.push_back(Output::Event(event)),
                session::Output::Call { .. } | session::Output::Done(_) => {
                    debug_assert!(false, "only the end of a call is followed by another or by the outcome");
                }
            }
        }
        text
    }

    /// Forwards what precedes the event that ends at `at`, and writes `data` in its place.
    pub(super) fn replace_event(&mut self, now: Duration, at: u64, data: Option<&str>) {
        self.forward(now, self.call.raw.start_of_block(at));
        self.call.raw.skip_to(at);
        if let Some(data) = data {
            self.write(now, |writer, out| writer.adopt(out, data));
        }
    }

    /// Returns whether the end of an answer that is not continued is written with a report of the repairs.
    pub(super) fn reports_repairs(&self, end: &CallEnd) -> bool {
        let is_finished = matches!(end, CallEnd::Finished(_)) && !self.session.is_passing();
        is_finished && self.session.document().is_complete() && self.session.has_changed_text()
    }

    /// Writes what is held back of an answer that is not continued before the event that ends it. `data`: the event, if
    /// its text was changed.
    pub(super) fn release_before(&mut self, now: Duration, at: u64, data: Option<String>) {
        self.session.release_first();
        let mut text = if data.is_some() { std::mem::take(&mut self.event_summary.text) } else { String::new() };
        text.push_str(&self.take_text());
        match data {
            Some(data) => self.replace_event(now, at, Some(&with_text(&data, &text))),
            None if !text.is_empty() => {
                self.forward(now, self.call.raw.start_of_block(at));
                self.write(now, |writer, out| writer.text(out, &text));
            }
            None => {}
        }
    }

    /// Writes what is held back of a first answer, if that closes its root.
    pub(super) fn finish_whole(&mut self, now: Duration) {
        if self.session.is_first() && self.session.repairs_text() {
            self.session.finish_whole();
            self.write_text(now);
        }
    }

    /// Writes what is held back of an answer that is not continued.
    pub(super) fn release(&mut self, now: Duration) {
        if !self.session.is_first() || !self.session.repairs_text() {
            return;
        }
        self.session.release_first();
        self.write_text(now);
    }

    fn write_text(&mut self, now: Duration) {
        let text = self.take_text();
        if !text.is_empty() {
            self.write(now, |writer, out| writer.text(out, &text));
        }
    }
}
