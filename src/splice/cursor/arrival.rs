//! The result of a cursor that has reached the cut.

use super::path::FollowedPath;
use super::{Repeated, Sides};
use crate::json::Kind;
use crate::splice::cut_context::says_something;
use crate::splice::flow::DeferredMember;
use crate::splice::prior::Start;

/// The arrival of a cursor at the cut.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::splice) struct CursorArrival {
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
    pub(in crate::splice) element: Option<ReachedElement>,
    /// Delivered members of that element were left out; without an element, children of any
    /// container.
    pub(in crate::splice) leaves_out: bool,
    /// Delivered elements before it were left out.
    pub(in crate::splice) is_reentry: bool,
}

/// An array element in the fragment that is taken for the one that was cut. It may also be the next
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::splice) struct ReachedElement {
    /// The depth of the array.
    pub(in crate::splice) depth: usize,
    /// Where the element begins, by the reader's offsets.
    pub at: usize,
    /// The cost of its repeated text as new text.
    pub(in crate::splice) bits: f32,
    /// Whole values before it were repeated.
    pub(in crate::splice) is_after_values: bool,
}

impl ReachedElement {
    /// Returns the innermost array element that the path enters, if more than brackets of it were
    /// delivered.
    pub(super) fn of(
        path: &FollowedPath,
        repeated: &Repeated,
        at: usize,
        sides: &Sides<'_>,
    ) -> Option<Self> {
        let is_array = |depth: &usize| {
            sides
                .frame(*depth)
                .is_some_and(|frame| frame.kind == Kind::Array)
        };
        let says_something = |depth: &usize| says_something(sides.slot, *depth);
        // The fragment may be the element of an array itself.
        let outermost = path.base.first_value().saturating_sub(1);
        let depth = (outermost..sides.slot.frames().len())
            .rev()
            .filter(is_array)
            .find(says_something)?;
        let start = path.level(depth).map_or(1, |level| level.child_at);
        let bits = (sides.bits_alone(start, at) - repeated.new_bits - repeated.key_bits).max(0.0);
        Some(Self {
            depth,
            at: start,
            bits,
            is_after_values: path.repeats_up_to(depth),
        })
    }
}
