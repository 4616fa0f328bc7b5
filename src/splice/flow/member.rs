//! Members in the new text that repeat delivered ones, or that belong after the member that was
//! cut.

use super::{Flow, FlowError, FlowState, FlowTarget};
use crate::children::{Child, ChildIndex, KeyHash, same_value};
use crate::json::{CutState, Machine};
use crate::splice::seam::Rule;

/// A member that the fragment has before the one that was cut: it is moved after that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splice) struct DeferredMember {
    /// The number of containers that are open around it.
    pub(in crate::splice) depth: usize,
    pub(in crate::splice) text: String,
}

/// A partial member of the fragment whose key was delivered before.
#[derive(Clone, Debug)]
pub(in crate::splice) struct DuplicateMember {
    /// An object that has only this member.
    text: String,
    machine: Machine,
    /// Its value, once that has ended: the digest is computed while the value is read.
    children: ChildIndex,
    /// The length of the bracket and the key.
    head: usize,
    hash: KeyHash,
    has_comma: bool,
}

impl DuplicateMember {
    fn new(key: &str, hash: KeyHash, has_comma: bool, limit: usize) -> Result<Self, FlowError> {
        let text = format!("{{{key}");
        let (mut machine, mut children) = (Machine::new(usize::MAX), ChildIndex::of_newest(limit));
        machine.feed_text(&text, &mut children)?;
        Ok(Self {
            head: text.len(),
            text,
            machine,
            children,
            hash,
            has_comma,
        })
    }

    /// Returns the number of bytes of the value so far.
    pub(super) fn pending(&self) -> usize {
        self.text.len() - self.head
    }

    /// Whether the member follows a comma.
    pub(super) fn has_comma(&self) -> bool {
        self.has_comma
    }

    fn take(&mut self, text: &str) -> Result<(), FlowError> {
        self.text.push_str(text);
        self.machine.feed_text(&self.text, &mut self.children)?;
        Ok(())
    }

    /// Whether the value is that of a delivered member. A number ends after its text, and has no
    /// digest yet.
    fn is_same(&self, delivered: &Child, delivered_text: &str) -> bool {
        match self.children.children(0).last() {
            Some(child) => delivered.is_same(delivered_text, child, &self.text),
            None => {
                let value = self
                    .text
                    .get(self.head..)
                    .unwrap_or_default()
                    .trim_start()
                    .strip_prefix(':');
                same_value(delivered.span.of(delivered_text), value.unwrap_or_default())
            }
        }
    }
}

impl Flow {
    /// Passes on the members that belong after the innermost object's open one, which has ended.
    pub(super) fn move_deferred<T: FlowTarget>(&mut self, target: &mut T) -> Result<(), FlowError> {
        let depth = target.machine().frames().len();
        while let Some(at) = self
            .deferred
            .iter()
            .position(|member| member.depth == depth)
        {
            let member = self.deferred.remove(at);
            self.repairs
                .note(Rule::MemberMoved, target.machine().offset());
            target.take(",")?;
            target.take(&member.text)?;
        }
        Ok(())
    }

    pub(super) fn end_key<T: FlowTarget>(&mut self, target: &mut T) -> Result<(), FlowError> {
        let quote = self.pending.find('"').unwrap_or_default();
        let key = self.pending.get(quote..).unwrap_or_default();
        let name = key.trim_matches('"');
        if !name.is_empty() && name.chars().all(|c| matches!(c, '.' | '…')) {
            self.ellipsis.take(&mut self.pending)?;
            return self.release(target);
        }
        let hash = KeyHash::of_raw(key.get(1..key.len() - 1).unwrap_or_default());
        if delivered(target, self.cut, hash).is_none() {
            let depth = target.machine().frames().len().saturating_sub(1);
            // The member that was open at the cut has ended by now.
            let is_open = self.open.get(depth).is_some_and(|open| *open == Some(hash));
            return if is_open {
                Err(FlowError::Overwrites)
            } else {
                self.release(target)
            };
        }
        let has_comma = self.pending.starts_with(',');
        let again = DuplicateMember::new(key, hash, has_comma, self.cap)?;
        self.pending.clear();
        self.state = FlowState::Again(Box::new(again));
        Ok(())
    }

    /// Takes text of a member that was delivered before, and compares its value when that has
    /// ended.
    pub(super) fn again<T: FlowTarget>(
        &mut self,
        target: &mut T,
        c: char,
        text: &str,
    ) -> Result<(), FlowError> {
        let FlowState::Again(again) = &mut self.state else {
            return Ok(());
        };
        let is_last = matches!(c, ',' | '}')
            && again.machine.frames().len() == 1
            && !again.machine.in_string();
        if !is_last {
            again.take(text)?;
        } else if again.machine.cut_state() != CutState::AfterValue {
            // A number ends with the byte after it; any other value does not end here.
            again.machine.clone().feed(text.as_bytes())?;
        }
        let ended = is_last
            || again.machine.frames().len() == 1
                && again.machine.cut_state() == CutState::AfterValue;
        if !ended {
            return Ok(());
        }
        let has_comma = again.has_comma;
        let FlowState::Again(again) =
            std::mem::replace(&mut self.state, FlowState::AfterAgain { has_comma })
        else {
            return Ok(());
        };
        if !delivered(target, self.cut, again.hash)
            .is_some_and(|child| again.is_same(child, target.slot().text()))
        {
            return Err(FlowError::Overwrites);
        }
        self.repairs
            .note(Rule::MemberDropped, target.machine().offset());
        if is_last {
            self.step(target, c, text)
        } else {
            Ok(())
        }
    }
}

/// Returns the member with this key in the innermost object, if it was delivered before the
/// cut.
pub(super) fn delivered<T: FlowTarget>(target: &T, cut: usize, hash: KeyHash) -> Option<&Child> {
    let depth = target.machine().frames().len().checked_sub(1)?;
    target.slot().member(depth, hash, cut)
}
