//! A fragment that begins again, compared value by value with the delivered text.
//!
//! ```text
//!  delivered   {"s":[{"id":1,"t":"a"},{"id":2,"t":"Hel      the path to the cut: root, s, element 1, t
//!  fragment    { "s": [ {"t": "Hello", "id": 2}, …           its own root, white space and order; element 0 left out
//! ```
//! A *cursor* assumes that the fragment begins with one open container, member or value, and
//! follows the path from there to the cut. Children that were delivered whole must have the same
//! value, in any layout; the open child leads on; new members wait. The cursor ends at the first
//! contradiction. A cursor that reaches the cut knows where the fragment's new text begins; that
//! text flows to the document like any other.

mod arrival;
mod child;
mod cut_token;
mod path;

use std::cmp::Ordering;

pub(super) use arrival::CursorArrival;
use arrival::ReachedElement;
pub(super) use child::RECURS;
pub(super) use cut_token::{TokenAtCut, is_in_key, value_start};
pub(super) use path::CursorBase;
use path::{FollowedPath, Innermost};

use super::flow::DeferredMember;
use super::prior::Start;
use super::reader::MatchInputs;
use super::slot::Slot;
use crate::children::{Child, ChildIndex};
use crate::json::{Event, Frame, ParserView, Span};
use cut_token::StringComparison;

/// The text that the fragment has repeated.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// Its beginning in the delivered text.
    from: usize,
    /// Its end, by the reader's offsets; 0 if no repetition is known.
    end: usize,
    /// Bits of members before `end` that were not delivered.
    new_bits: f32,
    /// Bits of keys since the innermost array element began: every element may have them.
    key_bits: f32,
}

/// The role of the child that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildRole {
    None,
    /// A delivered child: it must have this value.
    Same(Child),
    /// One of several delivered children.
    Some,
    /// A member that was not delivered, whose key begins at this offset.
    New(usize),
}

#[derive(Clone, Debug)]
pub(super) enum CursorState {
    Following,
    Arrived(CursorArrival),
    /// The fragment does not fit, or contradicts the delivered text at this offset.
    Dead(Option<usize>),
}

#[derive(Clone, Debug)]
pub(super) struct PathCursor {
    path: FollowedPath,
    role: ChildRole,
    deferred: Vec<DeferredMember>,
    /// In the value that was cut: the number of its decoded bytes that have been compared.
    pub(super) compared: Option<usize>,
    repeated: Repeated,
    is_reentry: bool,
    pub(super) state: CursorState,
}

/// The two sides, for one event.
pub(super) struct Sides<'a> {
    pub(super) slot: &'a Slot,
    pub(super) inputs: MatchInputs<'a>,
    pub(super) live: &'a ParserView<'a>,
    /// The whole children of the fragment.
    pub(super) children: &'a ChildIndex,
}

impl Sides<'_> {
    fn frame(&self, depth: usize) -> Option<&Frame> {
        self.slot.frames().get(depth)
    }

    fn is_innermost(&self, depth: usize) -> bool {
        depth + 1 == self.slot.frames().len()
    }

    /// Whether a child of the fragment has the value of a delivered one.
    fn is_same(&self, delivered: &Child, own: &Child) -> bool {
        delivered.is_same(self.slot.text(), own, self.live.text)
    }

    /// The bits of the fragment's text between two of the reader's offsets, at the cut.
    fn bits_at_cut(&self, from: usize, to: usize) -> f32 {
        self.inputs
            .costs
            .at_cut
            .between(self.offset(from), self.offset(to))
    }

    /// The bits of that text as a separate text.
    fn bits_alone(&self, from: usize, to: usize) -> f32 {
        self.inputs
            .costs
            .alone
            .between(self.offset(from), self.offset(to))
    }

    /// The offset in the fragment: the reader has a bracket before the content.
    fn offset(&self, at: usize) -> usize {
        (self.inputs.begin + at).saturating_sub(1)
    }
}

impl PathCursor {
    pub(super) fn new(base: CursorBase, slot: &Slot) -> Self {
        let from = match base {
            CursorBase::Value(depth) => value_start(slot, depth),
            CursorBase::Inside(_) => slot.text().len(),
        };
        Self {
            path: FollowedPath::new(base),
            role: ChildRole::None,
            deferred: Vec::new(),
            compared: None,
            repeated: Repeated {
                from,
                end: 0,
                new_bits: 0.0,
                key_bits: 0.0,
            },
            is_reentry: false,
            state: CursorState::Following,
        }
    }

    /// Whether the cursor has neither reached the cut nor ended.
    pub(super) fn is_following(&self) -> bool {
        matches!(self.state, CursorState::Following)
    }

    /// Returns the prior of the start plus the bits of the repeated text. The value that is being
    /// read counts as repeated if `may_be` is set.
    pub(super) fn bits(&self, inputs: &MatchInputs<'_>, may_be: bool) -> f32 {
        let is_reading = may_be && matches!(self.role, ChildRole::Same(_) | ChildRole::Some);
        let end = if is_reading {
            usize::MAX
        } else {
            (inputs.begin + self.repeated.end).saturating_sub(1)
        };
        let repeated = inputs.costs.at_cut.between(inputs.begin, end);
        self.start().prior(inputs.expect) + (repeated - self.repeated.new_bits).max(0.0)
    }

    /// Whether the fragment has repeated a delivered value.
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated.end > 0
    }

    /// Returns the bytes of the content that it has repeated: the reader has a bracket before the
    /// content.
    pub(super) fn repeated_bytes(&self) -> usize {
        self.repeated.end.saturating_sub(1)
    }

    /// Whether this cursor began at the same offset and has repeated more.
    pub(super) fn is_ahead_of(&self, other: &Self) -> bool {
        self.path.base == other.path.base && self.repeated.end > other.repeated.end
    }

    fn start(&self) -> Start {
        match self.path.base {
            _ if self.is_reentry => Start::Rerooted,
            CursorBase::Value(0) => Start::Root,
            CursorBase::Value(_) if self.path.levels.is_empty() && self.compared.is_some() => {
                Start::Token
            }
            CursorBase::Value(_) => Start::Container,
            CursorBase::Inside(_) => Start::Member,
        }
    }

    fn die(&mut self, at: Option<usize>) {
        self.state = CursorState::Dead(at);
    }

    /// Ends the cursor: the token that was cut has another value in the fragment.
    fn die_at_token(&mut self, sides: &Sides<'_>) {
        self.die(Some(sides.slot.document().machine().token_start()));
    }

    /// Whether text of the string that is open in the fragment makes no difference, or is only
    /// compared with the cut string; `around` is the number of open containers.
    pub(super) fn is_in_text(&self, slot: &Slot, around: usize) -> bool {
        !self.is_following()
            || self.compared.is_some()
            || self
                .path
                .levels_around(slot)
                .is_some_and(|open| around >= open)
    }

    /// Returns how many bytes of `text` repeat the cut string without reaching its end, if the
    /// cursor compares them.
    pub(super) fn same_text_len(&self, token: &TokenAtCut, text: &[u8]) -> Option<usize> {
        let TokenAtCut::String(begun) = token else {
            return self.compared.map(|_| 0);
        };
        self.compared.map(|compared| begun.same_len(text, compared))
    }

    /// Takes the next event of the fragment, while it [follows](Self::is_following). Returns a
    /// second cursor where a child of an array may be the open one or a whole one.
    pub(super) fn event(&mut self, event: Event, sides: &Sides<'_>) -> Option<Self> {
        if self.compared.is_some() {
            match event {
                Event::Fragment(span) => self.compare(span, sides),
                // The string ends before it reaches the cut.
                _ => self.die_at_token(sides),
            }
            return None;
        }
        let around = sides.live.frames.len();
        if let Some(innermost) = self.path.innermost(sides) {
            return match around.cmp(&(innermost.index + 1)) {
                // In a child that is read as a whole.
                Ordering::Greater => {
                    if let (Event::Key(span), ChildRole::Some) = (event, self.role)
                        && around == innermost.index + 2
                    {
                        self.key_of_some(span, innermost, sides);
                    }
                    None
                }
                Ordering::Equal => self.child(event, innermost, sides),
                Ordering::Less => {
                    self.close(event, innermost, sides);
                    None
                }
            };
        }
        // The fragment's first value is taken for the open child.
        let CursorBase::Value(depth) = self.path.base else {
            return None;
        };
        if around == 1
            && sides
                .live
                .frames
                .first()
                .is_some_and(|frame| frame.count == 0)
        {
            self.open_child(event, depth, sides);
        } else {
            self.die(None);
        }
        None
    }

    /// Takes an event of a child, or its key, of the innermost container.
    fn child(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) -> Option<Self> {
        match event {
            Event::Key(span) => self.key(span, innermost, sides),
            Event::Begin { .. } | Event::StringBegin(_) if self.role == ChildRole::None => {
                return self.begin(event, innermost, sides);
            }
            Event::Scalar { .. } => {
                let fork = if self.role == ChildRole::None {
                    self.begin(event, innermost, sides)
                } else {
                    None
                };
                if self.is_following() {
                    self.end(event, innermost, sides);
                }
                if let Some(mut fork) = fork {
                    // The child has ended, and the cursor that took it for the open one is not at
                    // the cut.
                    if fork.is_following() {
                        fork.die(None);
                    }
                    return Some(fork);
                }
            }
            Event::End { .. } | Event::StringEnd(_) => self.end(event, innermost, sides),
            _ => {}
        }
        None
    }

    /// Records that the repeated text begins at `start` or before, if the container has no bracket
    /// in the fragment.
    fn note_from(&mut self, start: usize, depth: usize) {
        if matches!(self.path.base, CursorBase::Inside(inside) if inside == depth) {
            self.repeated.from = self.repeated.from.min(start);
        }
    }

    /// Compares a part of the string that was cut.
    fn compare(&mut self, span: Span, sides: &Sides<'_>) {
        let (TokenAtCut::String(begun), Some(compared)) = (sides.inputs.cut_token, self.compared)
        else {
            return;
        };
        match begun.follow(span.of(sides.live.text), compared) {
            StringComparison::Arrived { end, rest } => {
                self.arrive_with(span.start + end, rest, sides);
            }
            StringComparison::On(bytes) => {
                self.repeated.end = if bytes > 0 {
                    span.end
                } else {
                    self.repeated.end
                };
                self.compared = Some(compared + bytes);
            }
            StringComparison::Differs => self.die_at_token(sides),
        }
    }

    /// Handles the end of the innermost container of the path before the cut was reached: the new
    /// text is its closer, if all its children were repeated. A part of unknown origin may begin
    /// with the last children, without the container's bracket.
    fn close(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) {
        let Event::End { span, .. } = event else {
            return self.die(None);
        };
        let Innermost { frame, depth, .. } = innermost;
        let is_closer_due = match sides.inputs.cut_token {
            TokenAtCut::AfterValue => true,
            TokenAtCut::MemberKey | TokenAtCut::Element => frame.count == 0,
            _ => false,
        };
        let is_bare = self.path.base.is_bare(depth, &sides.inputs);
        let all_seen = self.path.levels.last().is_some_and(|level| {
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
        let element = ReachedElement::of(&self.path, &self.repeated, end, sides);
        // An element is written in full or not at all; the fragment may leave out any part of the
        // text around its array.
        let missing: Vec<usize> = self.path.incomplete(sides).collect();
        let is_inside = |depth: &usize| element.is_none_or(|element| *depth > element.depth);
        let leaves_out = missing.iter().any(is_inside);
        let is_reentry = self.is_reentry || missing.iter().any(|depth| !is_inside(depth));
        let open = sides.slot.frames().len();
        let start = match self.path.base {
            _ if is_reentry => Start::Rerooted,
            CursorBase::Value(depth) if depth == open => Start::Token,
            _ => self.start(),
        };
        self.state = CursorState::Arrived(CursorArrival {
            at,
            rest,
            deferred: std::mem::take(&mut self.deferred),
            from: self.repeated.from,
            start,
            bits: sides.bits_at_cut(1, end).min(sides.bits_alone(1, end)) - self.repeated.new_bits,
            container: Some(self.path.base.first_value()).filter(|&depth| depth < open),
            element,
            leaves_out,
            is_reentry,
        });
    }
}
