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

use std::cmp::Ordering;

pub(super) use arrival::CursorArrival;
use child::CursorLevel;
pub(super) use child::RECURS;
pub(super) use cut_token::{TokenAtCut, is_in_key, value_start};

use super::flow::DeferredMember;
use super::prior::Start;
use super::reader::MatchInputs;
use super::seam::Expect;
use super::slot::Slot;
use crate::children::{Child, ChildIndex, KeyHash};
use crate::json::{Event, Frame, Kind, Live, Span};
use cut_token::StringComparison;

/// The delivered value or container that the fragment is assumed to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorBase {
    /// The first value is the open value at this depth; 0 is the root.
    Value(usize),
    /// The fragment begins with a member or an element of the open container at this depth, without
    /// its bracket.
    Inside(usize),
}

impl CursorBase {
    /// The depth of the open container whose children the fragment has first.
    fn depth(self) -> usize {
        match self {
            Self::Value(depth) | Self::Inside(depth) => depth,
        }
    }

    /// Whether a part of unknown origin may begin with the last children of the open container at
    /// `depth`, and repeat no text before them.
    fn is_bare(self, depth: usize, inputs: &MatchInputs<'_>) -> bool {
        self == Self::Inside(depth) && inputs.expect == Expect::Any
    }

    /// The depth of the first open value that the fragment may have whole.
    fn first_value(self) -> usize {
        match self {
            Self::Value(depth) => depth,
            Self::Inside(depth) => depth + 1,
        }
    }

    /// The number of the reader's containers around those that are taken for open ones.
    fn outside(self) -> usize {
        usize::from(matches!(self, Self::Value(_)))
    }
}

/// The innermost container of the path, delivered and in the fragment.
#[derive(Clone, Copy, Debug)]
struct Innermost {
    frame: Frame,
    depth: usize,
    /// The index of the reader's container that is taken for this one, and the count of its
    /// children so far.
    index: usize,
    count: usize,
}

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
    base: CursorBase,
    levels: Vec<CursorLevel>,
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
    pub(super) live: &'a Live<'a>,
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
        let (levels, from) = match base {
            CursorBase::Value(depth) => (Vec::new(), value_start(slot, depth)),
            CursorBase::Inside(_) => (vec![CursorLevel::new()], slot.text().len()),
        };
        Self {
            base,
            levels,
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
        self.base == other.base && self.repeated.end > other.repeated.end
    }

    fn start(&self) -> Start {
        match self.base {
            _ if self.is_reentry => Start::Rerooted,
            CursorBase::Value(0) => Start::Root,
            CursorBase::Value(_) if self.levels.is_empty() && self.compared.is_some() => {
                Start::Token
            }
            CursorBase::Value(_) => Start::Container,
            CursorBase::Inside(_) => Start::Member,
        }
    }

    /// Returns the innermost container of the path; `None` before the fragment has begun one.
    fn innermost(&self, sides: &Sides<'_>) -> Option<Innermost> {
        let last = self.levels.len().checked_sub(1)?;
        let (depth, index) = (self.base.depth() + last, self.base.outside() + last);
        let count = sides.live.frames.get(index).map_or(0, |own| own.count);
        Some(Innermost {
            frame: *sides.frame(depth)?,
            depth,
            index,
            count,
        })
    }

    /// Returns the number of the reader's containers up to the innermost one of the path; `None`
    /// before the fragment has begun one.
    pub(super) fn levels_around(&self, slot: &Slot) -> Option<usize> {
        let last = self.levels.len().checked_sub(1)?;
        slot.frames()
            .get(self.base.depth() + last)
            .map(|_| self.base.outside() + last + 1)
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
            || self.levels_around(slot).is_some_and(|open| around >= open)
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
        if let Some(innermost) = self.innermost(sides) {
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
        let CursorBase::Value(depth) = self.base else {
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

    fn key(&mut self, span: Span, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost { frame, depth, .. } = innermost;
        let start = span.start.saturating_sub(1);
        let raw = span.of(sides.live.text);
        let hash = KeyHash::of_raw(raw);
        let cut = sides.slot.text().len();
        let has_open = !sides.is_innermost(depth)
            || matches!(
                sides.inputs.cut_token,
                TokenAtCut::String(_)
                    | TokenAtCut::Scalar(_)
                    | TokenAtCut::Colon
                    | TokenAtCut::MemberValue
            );
        if has_open && hash == KeyHash::of_raw(frame.key.of(sides.slot.text())) {
            self.role = ChildRole::None;
            self.repeated.end = span.end;
            self.repeated.key_bits += sides.bits_alone(span.start, span.end);
            self.note_from(frame.key.start.saturating_sub(1), depth);
            if sides.is_innermost(depth) && *sides.inputs.cut_token == TokenAtCut::Colon {
                self.arrive(span.end + 1, sides);
            }
            return;
        }
        if let Some(&child) = sides.slot.member(depth, hash, cut) {
            self.role = ChildRole::Same(child);
            self.repeated.key_bits += sides.bits_alone(span.start, span.end);
            return;
        }
        self.role = ChildRole::New(start);
        if !sides.is_innermost(depth) {
            return;
        }
        match sides.inputs.cut_token {
            TokenAtCut::MemberKey | TokenAtCut::AfterValue => self.arrive(start, sides),
            TokenAtCut::Key(begun) => {
                if let StringComparison::Arrived { end, rest } = begun.follow(raw, 0) {
                    self.note_from(sides.slot.document().machine().token_start(), depth);
                    self.arrive_with(span.start + end, rest, sides);
                }
            }
            _ => {}
        }
    }

    /// Takes the value that begins for the open one at this depth: a container of the path, or the
    /// value that was cut.
    fn open_child(&mut self, event: Event, depth: usize, sides: &Sides<'_>) {
        if let Some(level) = self.levels.last_mut() {
            level.child_at = event.span().start;
        }
        if depth
            .checked_sub(1)
            .and_then(|array| sides.frame(array))
            .is_some_and(|frame| frame.kind == Kind::Array)
        {
            self.repeated.key_bits = 0.0;
        }
        if let Some(frame) = sides.frame(depth) {
            match event {
                Event::Begin { kind, .. } if kind == frame.kind => {
                    self.levels.push(CursorLevel::new());
                }
                _ => self.die(Some(frame.start)),
            }
            return;
        }
        match (sides.inputs.cut_token, event) {
            (TokenAtCut::MemberValue | TokenAtCut::Element | TokenAtCut::AfterValue, _) => {
                self.arrive(event.span().start, sides);
            }
            (TokenAtCut::String(_), Event::StringBegin(at)) => {
                self.compared = Some(0);
                // Perhaps only its quote was delivered.
                self.compare(
                    Span {
                        start: at + 1,
                        end: at + 1,
                    },
                    sides,
                );
            }
            (TokenAtCut::Scalar(begun), Event::Scalar { span, .. }) => {
                let whole = span.of(sides.live.text);
                // Less than all of a number is another number; of a literal there is only one.
                if whole.starts_with(begun.as_str()) {
                    self.arrive(span.start + begun.len(), sides);
                } else {
                    self.die_at_token(sides);
                }
            }
            _ => self.die_at_token(sides),
        }
    }

    /// Records that the repeated text begins at `start` or before, if the container has no bracket
    /// in the fragment.
    fn note_from(&mut self, start: usize, depth: usize) {
        if matches!(self.base, CursorBase::Inside(inside) if inside == depth) {
            self.repeated.from = self.repeated.from.min(start);
        }
    }
}
