//! How a cursor reaches the cut, and the text that the fragment has repeated by then.

use super::cut_token::Follow;
use super::{Base, Cursor, CutToken, Innermost, Level, Sides, State};
use crate::json::{Event, Kind, Span};
use crate::splice::flow::DeferredMember;
use crate::splice::place::says_something;
use crate::splice::prior::Start;

/// The arrival of a cursor at the cut.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::splice) struct Arrival {
    /// Where the new text begins, by the reader's offsets.
    pub at: usize,
    /// The rest of an escape that was cut.
    pub(in crate::splice) rest: String,
    pub(in crate::splice) deferred: Vec<DeferredMember>,
    /// Where the repeated text begins: all delivered text from there up to the cut was repeated.
    pub(in crate::splice) from: usize,
    pub(in crate::splice) start: Start,
    /// The cost of the repeated text as new text.
    pub(in crate::splice) bits: f32,
    /// The depth of the open container that was begun again.
    pub(in crate::splice) container: Option<usize>,
    /// The innermost array element that was taken for the one that was cut.
    pub(in crate::splice) element: Option<Element>,
    /// Delivered members of that element were left out; without an element, children of any
    /// container.
    pub(in crate::splice) leaves_out: bool,
    /// Delivered elements before it were left out.
    pub(in crate::splice) is_reentry: bool,
}

/// An array element in the fragment that is taken for the one that was cut. It may also be the next
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::splice) struct Element {
    /// The depth of the array.
    pub(in crate::splice) depth: usize,
    /// Where the element begins, by the reader's offsets.
    pub at: usize,
    /// The cost of its repeated text as new text.
    pub(in crate::splice) bits: f32,
    /// Whole values before it were repeated.
    pub(in crate::splice) is_after_values: bool,
}

impl Cursor {
    /// Compares a part of the string that was cut.
    pub(super) fn compare(&mut self, span: Span, sides: &Sides<'_>) {
        let (CutToken::String(begun), Some(compared)) = (sides.scene.cut_token, self.compared)
        else {
            return;
        };
        match begun.follow(span.of(sides.live.text), compared) {
            Follow::Arrived { end, rest } => self.arrive_with(span.start + end, rest, sides),
            Follow::On(bytes) => {
                self.repeated.end = if bytes > 0 {
                    span.end
                } else {
                    self.repeated.end
                };
                self.compared = Some(compared + bytes);
            }
            Follow::Differs => self.die_at_token(sides),
        }
    }

    /// Handles the end of the innermost container of the path before the cut was reached: the new
    /// text is its closer, if all its children were repeated. A part of unknown origin may begin
    /// with the last children, without the container's bracket.
    pub(super) fn close(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) {
        let Event::End { span, .. } = event else {
            return self.die(None);
        };
        let Innermost { frame, depth, .. } = innermost;
        let is_closer_due = match sides.scene.cut_token {
            CutToken::AfterValue => true,
            CutToken::MemberKey | CutToken::Element => frame.count == 0,
            _ => false,
        };
        let is_bare = self.base.is_bare(depth, &sides.scene);
        let all_seen = self.levels.last().is_some_and(|level| {
            level.seen == frame.count || is_bare && level.is_last(frame.count)
        });
        if sides.is_innermost(depth) && all_seen && is_closer_due {
            self.arrive(span.end - 1, sides);
        } else {
            self.die(Some(sides.slot.text().len()));
        }
    }

    pub(super) fn arrive(&mut self, at: usize, sides: &Sides<'_>) {
        self.arrive_with(at, String::new(), sides);
    }

    pub(super) fn arrive_with(&mut self, at: usize, rest: String, sides: &Sides<'_>) {
        // A character that completes an escape is new: many others begin alike.
        let completed = sides
            .live
            .text
            .get(..at)
            .and_then(|before| before.chars().next_back())
            .filter(|_| !rest.is_empty());
        let end = at - completed.map_or(0, char::len_utf8);
        let element = self.element(end, sides);
        // An element is written in full or not at all; the fragment may leave out any part of the
        // text around its array.
        let is_missing = |(index, level): (usize, &Level)| {
            let depth = self.base.depth() + index;
            let is_base = self.base == Base::Inside(depth);
            (!is_base
                && sides
                    .frame(depth)
                    .is_some_and(|frame| frame.count > level.seen))
            .then_some(depth)
        };
        let missing: Vec<usize> = self
            .levels
            .iter()
            .enumerate()
            .filter_map(is_missing)
            .collect();
        let is_inside = |depth: &usize| element.is_none_or(|element| *depth > element.depth);
        let leaves_out = missing.iter().any(is_inside);
        let is_reentry = self.is_reentry || missing.iter().any(|depth| !is_inside(depth));
        let open = sides.slot.frames().len();
        let start = match self.base {
            _ if is_reentry => Start::Rerooted,
            Base::Value(depth) if depth == open => Start::Token,
            _ => self.start(),
        };
        self.state = State::Arrived(Arrival {
            at,
            rest,
            deferred: std::mem::take(&mut self.deferred),
            from: self.repeated.from,
            start,
            bits: sides.bits_at_cut(1, end).min(sides.bits_alone(1, end)) - self.repeated.new_bits,
            container: Some(self.base.first_value()).filter(|&depth| depth < open),
            element,
            leaves_out,
            is_reentry,
        });
    }

    /// Returns the innermost array element that the path enters, if more than brackets of it were
    /// delivered.
    fn element(&self, at: usize, sides: &Sides<'_>) -> Option<Element> {
        let is_array = |depth: &usize| {
            sides
                .frame(*depth)
                .is_some_and(|frame| frame.kind == Kind::Array)
        };
        let says_something = |depth: &usize| says_something(sides.slot, *depth);
        let base = self.base.depth();
        // The fragment may be the element of an array itself.
        let outermost = self.base.first_value().saturating_sub(1);
        let depth = (outermost..sides.slot.frames().len())
            .rev()
            .filter(is_array)
            .find(says_something)?;
        let level = depth
            .checked_sub(base)
            .and_then(|index| self.levels.get(index));
        let start = level.map_or(1, |level| level.child_at);
        let bits = (sides.bits_alone(start, at) - self.repeated.new_bits - self.repeated.key_bits)
            .max(0.0);
        // The path alone is no evidence about the elements before it.
        let around = self.levels.iter().take((depth + 1).saturating_sub(base));
        let is_after_values = around.into_iter().any(|level| level.seen > 0);
        Some(Element {
            depth,
            at: start,
            bits,
            is_after_values,
        })
    }
}
