//! Recognises the end of a copy: an answer that repeats the document from its root, completes the cut
//! token or one more scalar, and closes everything. Models that copy the text they see end like
//! that, whatever is due. A new container is more than a copy has.

use std::borrow::Cow;

use super::attempt::SpliceAttempt;
use super::early_end::is_after_value;
use super::flow::{is_space, skippable_len};
use super::prior::Start;
use super::seam::Expect;
use super::slot::Slot;
use super::task::SpliceTask;
use crate::json::Machine;

/// Reads the new text of a copy, and withholds the closers after its first scalar.
#[derive(Clone, Debug)]
pub(super) struct CopyEnd {
    /// Reads the new text as the model wrote it.
    machine: Machine,
    state: CopyState,
    /// The previous answer to this cut ended early, too: nothing is withheld.
    is_believed: bool,
}

#[derive(Clone, Debug)]
enum CopyState {
    /// In the cut token or in the scalar that is due; `has_begun`: some of it has arrived.
    Value { has_begun: bool },
    /// After it; the closers so far.
    Closing(String),
    /// The root is closed.
    Closed,
    /// The text has more than one scalar.
    Over,
}

impl CopyEnd {
    /// Returns `None` for an attempt that is not a copy: the request asked to begin at the root, or
    /// the answer has new members before the cut.
    pub(super) fn of(slot: &Slot, task: &SpliceTask, attempt: &SpliceAttempt) -> Option<Self> {
        let request = &task.request;
        let root = slot.document().root_start().unwrap_or_default();
        let is_asked = request.rerooted
            || task
                .anchor
                .as_ref()
                .is_some_and(|anchor| anchor.range.start <= root);
        let is_copy = attempt.candidate.start == Start::Root
            && request.expect == Expect::Anchor
            && !is_asked
            && attempt.setup.deferred.is_empty();
        let mut machine = slot.document().machine().clone();
        machine.feed(attempt.setup.rest.as_bytes()).ok()?;
        is_copy.then(|| Self {
            machine,
            state: CopyState::Value { has_begun: false },
            is_believed: request.believes_early_end && is_after_value(slot, request),
        })
    }

    /// Takes text; returns its part that is delivered now.
    pub(super) fn pass<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let mut passed = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (now, later) = rest.split_at(self.run_len(c, rest));
            match &mut self.state {
                CopyState::Over => {
                    passed.push_str(rest);
                    break;
                }
                CopyState::Closed => break,
                CopyState::Value { has_begun } => {
                    let in_string = self.machine.in_string();
                    if !in_string && matches!(c, '}' | ']') {
                        self.state = CopyState::Closing(String::new());
                        continue;
                    }
                    let is_next = c == ',' && *has_begun || matches!(c, '{' | '[');
                    let is_more = !in_string && is_next;
                    *has_begun |= in_string || !is_space(c);
                    passed.push_str(now);
                    if is_more || self.machine.feed(now.as_bytes()).is_err() {
                        self.state = CopyState::Over;
                    }
                }
                CopyState::Closing(closers) => {
                    let goes_on = !is_space(c) && !matches!(c, '}' | ']');
                    if goes_on || self.machine.feed(now.as_bytes()).is_err() {
                        passed.push_str(closers);
                        self.state = CopyState::Over;
                        continue;
                    }
                    closers.push(c);
                    if self.machine.is_done() {
                        self.state = CopyState::Closed;
                    }
                }
            }
            rest = later;
        }
        match self.is_believed {
            true => Cow::Borrowed(text),
            false => Cow::Owned(passed),
        }
    }

    /// The bytes of text that are taken together: a run in a string, or one character.
    fn run_len(&self, c: char, text: &str) -> usize {
        let run = match self.machine.in_string() {
            true => skippable_len(text.as_bytes()),
            false => 0,
        };
        run.max(c.len_utf8())
    }

    /// Whether the copy has ended the document.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, CopyState::Closed)
    }

    pub(super) fn is_believed(&self) -> bool {
        self.is_believed
    }

    /// Returns the bytes that wait.
    pub(super) fn pending(&self) -> usize {
        match &self.state {
            CopyState::Closing(closers) if !self.is_believed => closers.len(),
            _ => 0,
        }
    }

    /// Ends the text: returns closers that have not ended the document.
    pub(super) fn into_rest(self) -> String {
        match self.state {
            CopyState::Closing(closers) if !self.is_believed => closers,
            _ => String::new(),
        }
    }
}
