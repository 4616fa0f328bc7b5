//! Repairs of text: the document repairs the first answer, and a continuation is repaired before it
//! is joined.

use super::{
    CallEnd, CutCause, FirstAnswer, GiveUp, LimitReached, Mistakes, Output, PartRepairer, Phase,
    Session, SessionEvent, Settings,
};
use crate::context::Sections;
use crate::error::SyntaxErrorKind;
use crate::json::repair::{Repair, RepairLevel, RepairOptions, RepairRule};
use crate::json::{Event, ParserView, Sink};
use crate::provider::Finish;
use crate::splice::{Slot, Splice};

impl Settings {
    /// Returns an empty slot.
    pub(super) fn slot(&self) -> Slot {
        Slot::with_roots(&self.limits, self.roots).repairing(self.repair.clone())
    }
}

impl Session {
    /// Sets how much of the text inside the root may be changed. Default: nothing
    /// ([`Strict`](crate::repair::RepairLevel::Strict)). Has no effect after the first text. The
    /// caps are those of the session's limits.
    ///
    /// At any level but `strict` all text of the first answer is an [`Output::Text`], too, since it
    /// can differ from the input, and some of it comes later. Text that can't be repaired comes out
    /// unchanged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use restitch::Limits;
    /// use restitch::repair::RepairLevel;
    /// use restitch::session::{CallEnd, Input, Output, Session, Status};
    ///
    /// let now = Duration::ZERO;
    /// let mut session = Session::new(Limits::default());
    /// session.set_repair(RepairLevel::Syntax);
    /// session.handle_input(now, Input::Text("{'a': [1, 2,], "));
    /// session.handle_input(now, Input::Text("'b': True}"));
    /// session.handle_input(now, Input::CallEnd(CallEnd::Closed));
    /// let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    /// let text = outputs.iter().filter_map(|output| if let Output::Text(text) = output { Some(&**text) } else { None });
    /// assert_eq!(text.collect::<String>(), "{\"a\": [1, 2], \"b\": true}");
    /// let Some(Output::Done(outcome)) = outputs.last() else { panic!() };
    /// assert_eq!((outcome.status(), outcome.tally().repairs["extra_comma"]), (Status::Complete, 1));
    /// ```
    pub fn set_repair(&mut self, options: impl Into<RepairOptions>) {
        if self.answer_text().is_empty() && self.is_first() {
            self.settings.repair = options.into().within(&self.settings.limits);
            self.begin();
        }
    }

    /// Returns whether text may be changed.
    pub(crate) fn repairs_text(&self) -> bool {
        self.settings.repair.level() > RepairLevel::Strict
    }

    /// Returns whether text of the first answer was changed, or is held back.
    pub(super) fn has_changed_text(&self) -> bool {
        !self.tally.repairs.is_empty() || !self.slot.document().pending().is_empty()
    }

    /// Returns whether the first answer's document is whole and has repairs.
    pub(super) fn is_repaired(&self) -> bool {
        !self.is_passing() && self.slot.document().is_complete() && self.has_changed_text()
    }

    /// Returns whether the first answer is malformed rather than cut: the call had a regular end,
    /// and the text can't be repaired. The model would write the same again.
    pub(super) fn is_malformed_at(&self, end: &CallEnd) -> bool {
        let is_ended = matches!(end, CallEnd::Finished(reason) if *reason != Finish::Length);
        is_ended && self.repairs_text() && self.slot.document().is_malformed_at_end()
    }

    /// Takes text of the first answer.
    pub(super) fn first_text(&mut self, text: &str) {
        if !self.is_first() {
            return;
        }
        self.note_writer();
        let limits = &self.settings.limits.parser;
        let (most, preamble) = (limits.max_text_bytes, limits.max_preamble_bytes);
        if self.slot.document().text().len().saturating_add(text.len()) > most {
            self.stop_reading(Some(LimitReached::new("max_text_bytes", most)));
        }
        self.bound_base(text.len());
        if matches!(
            self.phase,
            Phase::First(FirstAnswer::Malformed | FirstAnswer::Unread)
        ) {
            if self.repairs_text() {
                self.give_out_text(text.to_owned());
            }
            return;
        }
        self.unread.clear();
        let before = self.slot.document().text().len();
        let mut collected = Collected::default();
        let read = self
            .slot
            .push_with(text, &mut (&mut self.sections, &mut collected));
        let is_legal = self.read_alone(text, read.is_ok());
        if !is_legal {
            self.phase = Phase::First(FirstAnswer::Malformed);
            let limit = read.as_ref().err().and_then(|error| limit_of(error.kind));
            self.tally.limit = self.tally.limit.take().or(limit);
        }
        if self.repairs_text() {
            self.repaired(collected.0);
            self.give_out(before);
            if !is_legal {
                let rest = self.slot.document().pending().to_owned();
                self.give_out_text(rest);
            }
        }
        if self.slot.document().prose_len() > preamble.saturating_add(self.base_len()) {
            match self.keeps_prose() {
                true => self.read_as_text(),
                false => self.stop_reading(None),
            }
        }
    }

    /// Ends a first answer whose held-back text closes the root.
    pub(super) fn finish_whole(&mut self) {
        self.end_of_text(|slot, sink| slot.finish_whole(sink));
    }

    /// Outputs the held-back text of a first answer that is not continued: first the repaired text,
    /// then the unread text unchanged.
    pub(super) fn release_first(&mut self) {
        self.finish_whole();
        let is_read = matches!(
            self.phase,
            Phase::First(FirstAnswer::Continuable | FirstAnswer::Passing)
        );
        if is_read && self.repairs_text() && self.slot.document().is_malformed_at_end() {
            // The held text is not cut, so rules for cut text must not decide about it.
            let held = self.slot.document().pending().to_owned();
            self.phase = Phase::First(FirstAnswer::Malformed);
            return self.give_out_text(held);
        }
        let unread = self.end_of_text(|slot, sink| slot.end_repair(sink));
        self.give_out_text(unread);
    }

    /// Ends the repair of a cut first answer. The continuation repeats the text that could not be
    /// read.
    pub(super) fn end_repair(&mut self) {
        let unread = self.end_of_text(|slot, sink| slot.end_repair(sink));
        if !unread.is_empty() {
            // An empty rest comes from a repeated call without text: then the unread text of the
            // previous call remains.
            self.unread = unread;
        }
        let document = self.slot.document();
        if self.repairs_text()
            && document.roots() == 0
            && document.root_start() == Some(document.text().len())
        {
            // None of the root was certain, so the continuation repeats it.
            let mut slot = Slot::with_roots(&self.settings.limits, self.settings.roots);
            let read = slot.push(document.text());
            debug_assert!(
                read.is_ok(),
                "there is no root in what precedes it: {read:?}"
            );
            self.slot = slot;
        }
    }

    /// Ends the text of a first answer with `end`, and outputs the text that becomes final.
    fn end_of_text<T: Default>(
        &mut self,
        end: impl FnOnce(&mut Slot, &mut (&mut Sections, &mut Collected)) -> T,
    ) -> T {
        if !self.repairs_text()
            || !matches!(
                self.phase,
                Phase::First(FirstAnswer::Continuable | FirstAnswer::Passing)
            )
        {
            return T::default();
        }
        let before = self.slot.document().text().len();
        let mut collected = Collected::default();
        let ended = end(&mut self.slot, &mut (&mut self.sections, &mut collected));
        self.repaired(collected.0);
        self.give_out(before);
        ended
    }

    /// Returns the end of an incomplete answer that was left unchanged, because it can't be read:
    /// the document lacks it.
    pub(super) fn unread_end(&self) -> &str {
        if self.settings.give_up == GiveUp::Leave {
            &self.unread
        } else {
            ""
        }
    }

    /// Gives out text that the document does not have.
    pub(super) fn give_out_text(&mut self, text: String) {
        if !text.is_empty() {
            self.outputs.push_back(Output::Text(text));
        }
    }

    /// Returns how mistakes in the text of the next call are handled before `splice` joins it. In
    /// an answer without a mistake so far, an apparent mistake is more likely noise around the
    /// seam. Only text that fitted nowhere and had a mistake right after its repeated part is
    /// evidence of a real one (the test `what_fitted_nowhere_is_repaired_when_it_comes_again`).
    pub(super) fn mistakes(&self, splice: &Splice) -> Mistakes {
        if !self.repairs_text() {
            return Mistakes::Kept;
        }
        let repairer = PartRepairer::new(self.settings.repair.clone(), splice);
        let has_mistakes = RepairRule::ALL
            .iter()
            .any(|rule| self.tally.repairs.contains_key(rule.as_str()));
        let is_malformed = self
            .last_cut
            .as_ref()
            .is_some_and(|cut| cut.cause == Some(CutCause::Malformed));
        match has_mistakes || is_malformed || self.streaks.has_mistake {
            true => Mistakes::Repaired(repairer),
            false => Mistakes::LookedFor {
                trial: repairer,
                is_found: false,
            },
        }
    }

    /// Reports repairs of the open call's text.
    pub(super) fn repaired(&mut self, repairs: Vec<Repair>) {
        self.count_repairs(repairs.iter().map(|repair| repair.rule.as_str()));
        let call = self.tally.continuations;
        for repair in repairs {
            self.event(SessionEvent::Repaired { call, repair });
        }
    }

    /// Counts changes by the names of their rules.
    pub(super) fn count_repairs<'a>(&mut self, rules: impl Iterator<Item = &'a str>) {
        for rule in rules {
            let count = self.tally.repairs.entry(rule.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
    }
}

/// Returns the limit that an error is about.
fn limit_of(error: SyntaxErrorKind) -> Option<LimitReached> {
    match error {
        SyntaxErrorKind::TooDeep(most) => Some(LimitReached::new("max_depth", most)),
        SyntaxErrorKind::TooManyRepairs(most) => Some(LimitReached::new("max_repairs", most)),
        SyntaxErrorKind::TooManyReadings(most) => Some(LimitReached::new("max_readings", most)),
        _ => None,
    }
}

/// Collects the repairs of a push.
#[derive(Default)]
struct Collected(Vec<Repair>);

impl Sink for Collected {
    fn event(&mut self, _: Event, _: &ParserView<'_>) {}

    fn repaired(&mut self, repair: &Repair) {
        self.0.push(repair.clone());
    }

    fn is_idle(&self) -> bool {
        true
    }
}
