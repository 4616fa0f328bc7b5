//! How the choices of a first call have ended.

use super::CallEnd;
use super::event_summary::EventSummary;
use crate::provider::Finish;

/// How the first call ended, for each of its choices.
#[derive(Clone, Debug, Default)]
pub(super) struct ChoiceEnds {
    finished: Vec<(u32, Finish)>,
}

impl ChoiceEnds {
    /// Records the finish reasons of an event or a body: of a choice, the first one. OpenRouter
    /// writes one beside its errors.
    pub(super) fn note(&mut self, answer: &EventSummary) {
        for (choice, reason) in answer.finishes.iter().filter(|_| answer.error.is_none()) {
            if !self.has(*choice) {
                self.finished.push((*choice, reason.clone()));
            }
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

    /// Returns how many choices have a finish reason.
    pub(super) fn len(&self) -> usize {
        self.finished.len()
    }

    /// Returns whether a choice has a finish reason.
    pub(super) fn has(&self, choice: u32) -> bool {
        self.reason(choice).is_some()
    }

    /// Returns a choice's finish reason.
    pub(super) fn reason(&self, choice: u32) -> Option<&Finish> {
        let mut finished = self.finished.iter();
        finished
            .find(|(other, _)| *other == choice)
            .map(|(_, reason)| reason)
    }

    /// Returns how a choice has ended: with its finish reason, or else with the call.
    pub(super) fn of(&self, choice: u32, otherwise: &CallEnd) -> CallEnd {
        let reason = self.reason(choice).cloned();
        reason.map_or_else(|| otherwise.clone(), CallEnd::Finished)
    }
}
