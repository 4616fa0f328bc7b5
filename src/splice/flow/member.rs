//! Members in the new text that come again, or that belong after the member that was cut.

use super::{Flow, FlowError, State, Target};
use crate::children::{KeyHash, same_value};
use crate::json::{CutState, Machine};
use crate::splice::seam::Rule;

/// A member that the fragment has before the one that was cut: it is moved after that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splice) struct DeferredMember {
    /// The number of containers that are open around it.
    pub(in crate::splice) depth: usize,
    pub(in crate::splice) text: String,
}

impl Flow {
    /// Passes on the members that belong after the innermost object's open one, which has ended.
    pub(super) fn move_deferred<T: Target>(&mut self, target: &mut T) -> Result<(), FlowError> {
        let depth = target.machine().frames().len();
        while let Some(at) = self.deferred.iter().position(|member| member.depth == depth) {
            let member = self.deferred.remove(at);
            self.note(target, Rule::MemberMoved);
            target.take(",")?;
            target.take(&member.text)?;
        }
        Ok(())
    }

    pub(super) fn end_key<T: Target>(&mut self, target: &mut T) -> Result<(), FlowError> {
        let quote = self.pending.find('"').unwrap_or_default();
        let key = self.pending.get(quote..).unwrap_or_default();
        let name = key.trim_matches('"');
        if !name.is_empty() && name.chars().all(|c| matches!(c, '.' | '…')) {
            self.ellipsis()?;
            return self.release(target);
        }
        let hash = KeyHash::of_raw(key.get(1..key.len() - 1).unwrap_or_default());
        if self.delivered(target, hash).is_none() {
            let depth = target.machine().frames().len().saturating_sub(1);
            // The member that was open at the cut has ended by now.
            let is_open = self.open.get(depth).is_some_and(|open| *open == Some(hash));
            return if is_open { Err(FlowError::Overwrites) } else { self.release(target) };
        }
        let mut machine = Machine::new(usize::MAX);
        machine.feed(b"{")?;
        machine.feed(key.as_bytes())?;
        let has_comma = self.pending.starts_with(',');
        self.pending.clear();
        self.state = State::Again { machine: Box::new(machine), hash, has_comma };
        Ok(())
    }

    /// Takes text of a member that was delivered before, and compares its value when that has ended.
    pub(super) fn again<T: Target>(&mut self, target: &mut T, c: char, text: &str) -> Result<(), FlowError> {
        let State::Again { machine, hash, has_comma } = &mut self.state else { return Ok(()) };
        let (hash, has_comma) = (*hash, *has_comma);
        let is_last = matches!(c, ',' | '}') && machine.frames().len() == 1 && !machine.in_string();
        if !is_last {
            machine.feed(text.as_bytes())?;
            self.pending.push_str(text);
        } else if machine.cut_state() != CutState::AfterValue {
            // A number ends with the byte after it; any other value does not end here.
            machine.feed(text.as_bytes())?;
        }
        let ended = is_last || machine.frames().len() == 1 && machine.cut_state() == CutState::AfterValue;
        if !ended {
            return Ok(());
        }
        let again = std::mem::take(&mut self.pending);
        let again = again.trim_start().strip_prefix(':').unwrap_or_default();
        if !self.delivered(target, hash).is_some_and(|value| same_value(value, again)) {
            return Err(FlowError::Overwrites);
        }
        self.note(target, Rule::MemberDropped);
        self.state = State::AfterAgain { has_comma };
        if is_last { self.step(target, c, text) } else { Ok(()) }
    }

    /// Returns the value of this key in the innermost object, if it was delivered before the cut.
    pub(super) fn delivered<'a, T: Target>(&self, target: &'a T, hash: KeyHash) -> Option<&'a str> {
        let depth = target.machine().frames().len().checked_sub(1)?;
        let slot = target.slot();
        slot.member(depth, hash, self.cut).map(|child| child.span.of(slot.text()))
    }
}
