//! An open container: its content before the path, walked backwards.

use std::borrow::Cow;

use super::super::back::{ReverseScanner, container};
use super::super::element::known_child;
use super::{
    Budget, HINTS, LEAST, REACH_OF_HINTS, REACH_OF_VALUES, REACH_PER_CHARACTER, hint, members,
};
use crate::json::{Frame, Kind, Span};

/// How the members of a container are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Unchanged, while the budget lasts.
    Values,
    /// As hints: in the container where the budget ran out.
    Hints,
    /// Nearer the root: objects by their keys, other members as `…` after their key, other elements
    /// not at all.
    Outline,
    /// As `…` after their keys.
    Keys,
    /// Not at all. They are counted.
    Skip,
}

/// The state at the end of a member, to return to.
#[derive(Clone, Copy)]
struct WalkedMember {
    /// The offset after the member.
    end: usize,
    edits: usize,
    spent: usize,
}

/// A container that the walk is in.
struct Entered {
    kind: Kind,
    /// The offset after its closing bracket; for the open container, the end of the walk.
    end: usize,
    style: Style,
    /// The member that is read.
    member: WalkedMember,
    /// The number of hidden members, and the offset after the last hidden one.
    skipped: usize,
    until: Option<usize>,
}

impl Entered {
    fn new(kind: Kind, end: usize, style: Style, member: WalkedMember) -> Self {
        Self {
            kind,
            end,
            style,
            member,
            skipped: 0,
            until: None,
        }
    }
}

/// The walk through an open container and the complete values in it.
pub(super) struct Walk<'w, 'a> {
    budget: &'w mut Budget<'a>,
    back: ReverseScanner<'a>,
    /// The containers that the walk is in, the open one first.
    stack: Vec<Entered>,
    /// The bracket of the open container, and its depth.
    start: usize,
    depth: Option<usize>,
    /// The number of its members that are still to be read; not known for a closed root.
    left: Option<usize>,
    hints: usize,
}

impl<'w, 'a> Walk<'w, 'a> {
    pub(super) fn open(
        budget: &'w mut Budget<'a>,
        frame: &Frame,
        depth: Option<usize>,
        style: Style,
    ) -> Self {
        let left = depth.map(|_| frame.count);
        let reach = match style {
            Style::Values => budget
                .left
                .saturating_mul(REACH_PER_CHARACTER)
                .saturating_add(REACH_OF_VALUES),
            _ => REACH_OF_HINTS,
        };
        let back = ReverseScanner::new(
            budget.text,
            frame.start + 1,
            frame.end,
            reach.min(budget.reach),
        );
        let member = WalkedMember {
            end: frame.end,
            edits: budget.edits.len(),
            spent: budget.spent,
        };
        let stack = vec![Entered::new(frame.kind, frame.end, style, member)];
        Self {
            budget,
            back,
            stack,
            start: frame.start,
            depth,
            left,
            hints: HINTS,
        }
    }

    pub(super) fn walk(mut self) {
        while self.step() {}
        self.budget.bytes_examined += self.back.bytes_examined;
        self.budget.reach = self.budget.reach.saturating_sub(self.back.bytes_examined);
    }

    /// Reads the next bracket or value, backwards. Returns `false` at the end of the walk.
    fn step(&mut self) -> bool {
        if self.back.is_at_floor() {
            return false;
        }
        if self.back.space().is_none() {
            return self.lost();
        }
        if self.back.is_at_floor() {
            return false;
        }
        let Some(byte) = self.back.peek() else {
            return self.lost();
        };
        if matches!(byte, b'{' | b'[') {
            self.back.pass(1);
            return self.leave_container();
        }
        let is_bottom = self.stack.len() == 1;
        let member = self.here();
        let Some(top) = self.stack.last_mut() else {
            return false;
        };
        top.member = member;
        if top.style == Style::Values && self.budget.left < LEAST {
            self.run_out();
        }
        let Some(top) = self.stack.last_mut() else {
            return false;
        };
        let is_shown = self.hints > 0;
        match (top.style, container(byte)) {
            (Style::Skip, _) if is_bottom => self.collapse(),
            (Style::Skip, _) => {
                top.skipped += 1;
                top.until.get_or_insert(top.member.end);
                self.pass_value()
            }
            (Style::Values, Some(kind)) => self.enter(kind, Style::Values),
            (Style::Values, None) => self.scalar(byte),
            _ if !is_shown => self.skip_all(),
            (Style::Hints, _) => self.replace(hint(byte)),
            (Style::Keys, _) => self.replace("…"),
            (Style::Outline, Some(kind @ Kind::Object)) => {
                self.hints -= usize::from(top.kind == Kind::Object);
                self.enter(kind, Style::Keys)
            }
            (Style::Outline, _) if top.kind == Kind::Array => {
                top.style = Style::Skip;
                true
            }
            (Style::Outline, Some(kind)) => {
                self.hints -= 1;
                self.enter(kind, Style::Skip)
            }
            (Style::Outline, None) => self.replace("…"),
        }
    }

    /// Shows or replaces a scalar in a container whose values are shown.
    fn scalar(&mut self, byte: u8) -> bool {
        let Some(span) = self.value() else {
            return self.lost();
        };
        if self.budget.pay(span) {
            if self.budget.is_out {
                self.run_out();
            }
            return self.leave();
        }
        if self.hints == 0 {
            // The member is read again, as one that is not shown.
            return self.skip_from(span.end);
        }
        self.show(span, hint(byte))
    }

    /// Changes the styles: the budget has run out in the innermost container.
    fn run_out(&mut self) {
        self.budget.run_out();
        let last = self.stack.len().saturating_sub(1);
        for (at, inner) in self.stack.iter_mut().enumerate() {
            inner.style = match (at, inner.kind) {
                (at, _) if at == last => Style::Hints,
                (0, _) => Style::Outline,
                (_, Kind::Object) => Style::Keys,
                (_, Kind::Array) => Style::Skip,
            };
        }
        let all = self.budget.reach.saturating_sub(self.back.bytes_examined);
        self.back.reach = self.back.reach.max(REACH_OF_HINTS).min(all);
    }

    /// Hides the rest of the open container.
    fn skip_all(&mut self) -> bool {
        self.stack
            .iter_mut()
            .for_each(|inner| inner.style = Style::Skip);
        true
    }

    /// Hides the rest of the open container. The member that ends here was read already.
    fn skip_from(&mut self, end: usize) -> bool {
        self.skip_all();
        let is_bottom = self.stack.len() == 1;
        let Some(top) = self.stack.last_mut() else {
            return false;
        };
        (top.skipped, top.until) = (1, Some(end));
        if is_bottom {
            self.collapse()
        } else {
            self.leave()
        }
    }

    fn enter(&mut self, kind: Kind, style: Style) -> bool {
        let end = self.back.at();
        self.back.pass(1);
        let member = self.here();
        self.stack.push(Entered::new(kind, end, style, member));
        true
    }

    /// Leaves the innermost container at its opening bracket.
    fn leave_container(&mut self) -> bool {
        let Some(inner) = self.stack.pop().filter(|_| !self.stack.is_empty()) else {
            return false;
        };
        if let Some(end) = inner.until {
            self.budget.edits.push((
                Span {
                    start: self.back.at() + 1,
                    end,
                },
                members(Some(inner.skipped)),
            ));
        }
        self.leave()
    }

    /// Replaces the next value.
    fn replace(&mut self, shown: &'static str) -> bool {
        match self.value() {
            Some(span) => self.show(span, shown),
            None => self.lost(),
        }
    }

    fn show(&mut self, span: Span, shown: &'static str) -> bool {
        self.hints = self.hints.saturating_sub(1);
        self.budget.edits.push((span, Cow::Borrowed(shown)));
        self.leave()
    }

    fn pass_value(&mut self) -> bool {
        if self.value().is_some() {
            self.leave()
        } else {
            self.lost()
        }
    }

    /// Skips the value that ends here.
    fn value(&mut self) -> Option<Span> {
        let known = if self.stack.len() == 1 {
            self.known(self.back.at())
        } else {
            None
        };
        if let Some(span) = known {
            self.back.go_to(span.start);
            return Some(span);
        }
        self.back.value()
    }

    /// Returns the child of the open container that ends here, if it is remembered.
    fn known(&self, end: usize) -> Option<Span> {
        known_child(self.budget.index?, self.depth?, end).filter(|span| span.start > self.start)
    }

    /// Skips the key of the value that starts here, and the comma before it.
    fn leave(&mut self) -> bool {
        if self.pass_key().is_none() {
            return self.lost();
        }
        let is_bottom = self.stack.len() == 1;
        let member = self.here();
        if let Some(top) = self.stack.last_mut() {
            top.member = member;
        }
        if is_bottom {
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        true
    }

    fn pass_key(&mut self) -> Option<()> {
        if self.stack.last()?.kind == Kind::Object {
            self.back.take(b':')?;
            self.back.space()?;
            self.back.string()?;
        }
        self.back.space()?;
        if self.back.peek() == Some(b',') {
            self.back.pass(1);
        }
        Some(())
    }

    /// Hides the member that is read, and everything before it in the open container.
    fn collapse(&mut self) -> bool {
        let Some(&Entered { member, .. }) = self.stack.first() else {
            return false;
        };
        self.undo(member);
        self.hide(member.end, members(self.left));
        false
    }

    fn here(&self) -> WalkedMember {
        WalkedMember {
            end: self.back.at(),
            edits: self.budget.edits.len(),
            spent: self.budget.spent,
        }
    }

    /// Undoes the edits for the member and refunds its cost.
    fn undo(&mut self, member: WalkedMember) {
        self.budget.edits.truncate(member.edits);
        self.budget.spent = member.spent;
    }

    /// Replaces the open container from its bracket to `end`.
    fn hide(&mut self, end: usize, shown: Cow<'static, str>) {
        self.budget.edits.push((
            Span {
                start: self.start + 1,
                end,
            },
            shown,
        ));
    }

    /// Handles a value or key whose start is out of reach. Shows the part of the open container's
    /// child that was read, after brackets for the containers whose start is unknown, unless there
    /// are too many. The index may know where the child starts.
    fn lost(&mut self) -> bool {
        let [bottom, child, ..] = self.stack.as_slice() else {
            return self.collapse();
        };
        let (is_object, whole, child) = (bottom.kind == Kind::Object, bottom.member, child.end);
        let known = self.known(child).filter(|_| self.hints > 0);
        let Some(top) = self.stack.last() else {
            return false;
        };
        let (end, member) = (top.until.unwrap_or(top.member.end), top.member);
        let open = self.stack.len() - 1;
        let mut shown: String = self
            .stack
            .iter()
            .skip(1)
            .flat_map(|inner| [inner.kind.opener(), '…'])
            .collect();
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
                self.budget.edits.push((
                    Span {
                        start: span.start,
                        end,
                    },
                    Cow::Owned(shown),
                ));
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

/// The number of bytes that may be examined for the key of a value whose start is remembered.
const REACH_OF_KEY: usize = 512;
