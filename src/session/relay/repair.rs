//! Events of a first answer whose text changes on its way, or comes later.

use std::time::Duration;

use super::{Output, Relay};
use crate::session::event_summary::with_text;
use crate::session::{self, CallEnd};

impl Relay {
    /// Writes an event of a first answer again if its text is another one after the repair. `held`: text was held back
    /// before it. Returns the event's data as the client gets it.
    pub(super) fn repaired_event(&mut self, now: Duration, at: u64, data: String, held: bool) -> Option<String> {
        let is_last = self.event_summary.end().is_some();
        if is_last {
            self.session.finish_whole();
        }
        let text = self.take_text();
        let own = std::mem::replace(&mut self.event_summary.text, text);
        // What is held back may begin like the text that came.
        if own == self.event_summary.text && (!held || own.is_empty()) {
            return Some(data);
        }
        let text = &self.event_summary.text;
        let edited = if own.is_empty() { None } else { with_text(&data, text) };
        match edited {
            Some(edited) => {
                if !self.call.adopts && !is_last {
                    self.replace_event(now, at, &edited);
                } else if !self.call.adopts {
                    self.event_summary.rewritten = Some(edited.clone());
                }
                Some(edited)
            }
            // The text has no place in the event: it comes before it.
            None => {
                let text = std::mem::take(&mut self.event_summary.text);
                self.forward(now, self.call.raw.start_of_block(at));
                if !own.is_empty() {
                    self.call.raw.skip_to(at);
                }
                self.write_chunk(now, &text);
                Some(data).filter(|_| own.is_empty())
            }
        }
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
    fn replace_event(&mut self, now: Duration, at: u64, data: &str) {
        self.forward(now, self.call.raw.start_of_block(at));
        self.call.raw.skip_to(at);
        self.write(now, |writer, out| writer.adopt(out, data));
    }

    /// Returns whether the end of an answer that is not continued is written with a report of the repairs.
    pub(super) fn reports_repairs(&self, end: &CallEnd) -> bool {
        let is_finished = matches!(end, CallEnd::Finished(_)) && !self.session.is_passing();
        is_finished && self.session.document().is_complete() && self.session.has_changed_text()
    }

    /// Writes what is held back of an answer that is not continued before the event that ends it.
    pub(super) fn release_before(&mut self, now: Duration, at: u64) {
        if !self.session.repairs_text() {
            return;
        }
        self.session.release_first();
        let held = self.take_text();
        if let Some(data) = self.event_summary.rewritten.take() {
            let text = format!("{}{held}", self.event_summary.text);
            let data = with_text(&data, &text).unwrap_or(data);
            return self.replace_event(now, at, &data);
        }
        if !held.is_empty() {
            self.forward(now, self.call.raw.start_of_block(at));
            self.write_chunk(now, &held);
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
        self.write_chunk(now, &text);
    }

    fn write_chunk(&mut self, now: Duration, text: &str) {
        if !text.is_empty() {
            self.write(now, |writer, out| writer.text(out, text));
            self.client.introduced = true;
        }
    }
}
