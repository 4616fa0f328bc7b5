//! Passes the text of the open call to the document, and reports on it.

use std::time::Duration;

use super::{ContinuationMode, Mistakes, Output, Part, Phase, Session, SessionEvent};
use crate::context;
use crate::json::repair::Repair;
use crate::splice::Candidate;
use crate::splice::{Expect, Seam, Splice, SpliceRequest};

impl Session {
    /// Takes text of the open call.
    pub(super) fn text(&mut self, now: Duration, text: &str) {
        let asks_progress = self.asks_progress();
        match &mut self.phase {
            Phase::First(_) => self.first_text(text),
            Phase::Continuing(open) => {
                if asks_progress
                    && self.call.said.len() < self.settings.limits.parser.max_pending_bytes
                {
                    self.call.said.push_str(text);
                }
                let document = self.slot.document();
                match &mut open.mistakes {
                    Mistakes::Repaired(repairer) => {
                        let (repaired, repairs) = repairer.feed(text, document);
                        return self.repaired_text(now, &repaired, repairs);
                    }
                    Mistakes::LookedFor { trial, is_found }
                        if document.text().len() == open.delivered =>
                    {
                        *is_found |= !trial.feed(text, document).1.is_empty();
                    }
                    Mistakes::LookedFor { .. } | Mistakes::Kept => {}
                }
                self.new_text(now, text);
            }
            Phase::ContinuingText(_) => self.join_text(now, text),
            Phase::Done => {}
        }
    }

    /// Takes the text that the repair of a continuation still holds back at its end.
    pub(super) fn end_of_part(&mut self, now: Duration) {
        let Phase::Continuing(open) = &mut self.phase else {
            return;
        };
        let document = self.slot.document();
        match &mut open.mistakes {
            Mistakes::Repaired(repairer) => {
                let (rest, repairs) = repairer.finish(document);
                self.repaired_text(now, &rest, repairs);
            }
            Mistakes::LookedFor { trial, is_found } if document.text().len() == open.delivered => {
                *is_found |= !trial.finish(document).1.is_empty();
            }
            Mistakes::LookedFor { .. } | Mistakes::Kept => {}
        }
    }

    fn repaired_text(&mut self, now: Duration, text: &str, repairs: Vec<Repair>) {
        self.repaired(repairs);
        if !text.is_empty() {
            self.new_text(now, text);
        }
    }

    /// Takes text of a continuation, without a prefill that the provider sends back first.
    fn new_text(&mut self, now: Duration, text: &str) {
        let Some(mut returned) = self.call.returned_prefill.take() else {
            return self.join(now, text);
        };
        match returned.feed(self.slot.document().text(), text) {
            Some(new) => {
                if returned.begins_again() {
                    // The model began again, in other words: the text may continue anywhere.
                    self.expect_any();
                }
                self.join(now, &new);
            }
            None => self.call.returned_prefill = Some(returned),
        }
    }

    /// Lets the open call's text continue anywhere, and not only at the end of the prefill.
    fn expect_any(&mut self) {
        if let Phase::Continuing(open) = &mut self.phase {
            let believes_early_end = self.streaks.attempts.early_ends > 0;
            let request = SpliceRequest {
                believes_early_end,
                ..Expect::Any.into()
            };
            open.splice = Splice::new(&self.slot, request, &self.settings.limits);
        }
    }

    fn join(&mut self, now: Duration, text: &str) {
        let Phase::Continuing(open) = &mut self.phase else {
            return;
        };
        // A failure is reported once, when the call ends.
        let _ = open
            .splice
            .feed_with(&mut self.slot, text, &mut self.sections);
        let document = self.slot.document();
        // Arguments that were completed by this call alone are checked before they are sent, at its
        // end.
        let is_unsent = open.sent == open.delivered || self.settings.sends_at_end;
        let end = document.root_end().filter(|_| open.before.is_some());
        let waits = is_unsent && end.is_some();
        let sent = match end {
            _ if waits => open.sent,
            // Later text may show that the arguments do not end here, and a client executes closed
            // ones. So the last bracket waits.
            Some(end) => open.sent.max(end.saturating_sub(1)),
            None => document.text().len(),
        };
        let before = std::mem::replace(&mut open.sent, sent);
        if waits {
            return;
        }
        if let Some(seam) = open
            .splice
            .seam()
            .filter(|_| open.reported.is_none())
            .cloned()
        {
            open.reported = Some(seam.clone());
            let candidates = open.splice.candidates().to_vec();
            self.joined(now, seam, candidates);
        }
        self.give_out_to(before, sent);
    }

    /// Returns whether the open call was asked how much of the document is delivered.
    fn asks_progress(&self) -> bool {
        self.call.mode == ContinuationMode::Reprompt
            && self
                .settings
                .strategy
                .prompt
                .template(Part::Progress)
                .is_some()
    }

    /// Reads the percentage that the call which has ended named.
    pub(super) fn note_progress(&mut self) {
        let said = std::mem::take(&mut self.call.said);
        if let Some(percentage) = context::extract(&said).filter(|_| self.asks_progress()) {
            self.streaks.progress.note(Some(percentage));
            self.tally.percentage = self.streaks.progress.last_kpi();
            let (call, stalled_reports) =
                (self.tally.continuations, self.streaks.progress.stalled());
            self.event(SessionEvent::Progress {
                call,
                percentage,
                stalled_reports,
            });
        }
    }

    pub(super) fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn joined(&mut self, now: Duration, seam: Seam, candidates: Vec<Candidate>) {
        self.tally.count_flags(&seam, None);
        let (call, elapsed) = (
            self.tally.continuations,
            now.saturating_sub(self.clock.cut_at),
        );
        self.event(SessionEvent::Joined {
            call,
            seam,
            elapsed,
            candidates,
        });
    }

    /// Gives out the text that was added to the document after `before`.
    pub(super) fn give_out(&mut self, before: usize) {
        self.give_out_to(before, self.slot.document().text().len());
    }

    /// Gives out the text of the document from `before` to `end`.
    fn give_out_to(&mut self, before: usize, end: usize) {
        if let Some(new) = self
            .slot
            .document()
            .text()
            .get(before..end)
            .filter(|new| !new.is_empty())
        {
            self.unread.clear();
            self.outputs.push_back(Output::Text(new.to_owned()));
            self.note_writer();
        }
    }
}
