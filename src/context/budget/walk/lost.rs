//! How a value is shown whose start is out of reach.

use std::borrow::Cow;

use super::super::{HINTS, hint, members};
use super::Walk;
use crate::json::{Kind, Span};

/// The number of bytes that may be examined for the key of a value whose start is remembered.
const REACH_OF_KEY: usize = 512;

impl Walk<'_, '_> {
    /// Handles a value or key whose start is out of reach. What was read of the child of the open container is shown,
    /// after brackets for the containers whose start is unknown, unless there are too many. The index may know where
    /// the child starts.
    pub(super) fn lost(&mut self) -> bool {
        let [bottom, child, ..] = self.stack.as_slice() else { return self.collapse() };
        let (is_object, whole, child) = (bottom.kind == Kind::Object, bottom.member, child.end);
        let known = self.known(child).filter(|_| self.hints > 0);
        let Some(top) = self.stack.last() else { return false };
        let (end, member) = (top.until.unwrap_or(top.member.end), top.member);
        let open = self.stack.len() - 1;
        let mut shown: String = self.stack.iter().skip(1).flat_map(|inner| [inner.kind.opener(), '…']).collect();
        self.stack.truncate(1);
        match known {
            Some(span) => {
                self.back.go_to(span.start);
                self.back.reach = self.back.reach.max(REACH_OF_KEY);
                if open > HINTS {
                    self.undo(whole);
                    let last = self.budget.text.as_bytes().get(span.end - 1).copied();
                    return self.show(span, hint(last.unwrap_or_default()));
                }
                self.undo(member);
                self.hints -= 1;
                self.budget.edits.push((Span { start: span.start, end }, Cow::Owned(shown)));
                self.leave()
            }
            None if open > HINTS => self.collapse(),
            None => {
                self.undo(member);
                if is_object {
                    shown.insert_str(0, "…: ");
                }
                let before = self.left.map(|left| left.saturating_sub(1));
                if before != Some(0) {
                    shown.insert_str(0, &format!("{}, ", members(before)));
                }
                self.hide(end, Cow::Owned(shown));
                false
            }
        }
    }
}
