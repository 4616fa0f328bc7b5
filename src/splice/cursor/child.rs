//! Compares the children of a fragment's container with those that were delivered.

use memchr::memmem;

use super::cut_token::StringComparison;
use super::path::{CursorLevel, Innermost, Pairing};
use super::{ChildRole, CursorBase, PathCursor, Sides, TokenAtCut, value_start};
use crate::children::{Child, KeyHash};
use crate::json::{Event, Kind, Span};
use crate::splice::cut_context::LOOKED_AT;
use crate::splice::flow::{DeferredMember, is_space};

/// The most bits of an element that was delivered more than once.
// A row that occurs twice says next to nothing about which one it is: one bit is left to the
// choice, half of it to each. At one bit or more, a run of equal rows proves a place by its length.
// docs/internals/seam.md states it.
pub(in crate::splice) const RECURS: f32 = 0.5;

/// The most positions in an array that are followed at the same time.
// Chosen: with eight equal elements before the cut, the next ones do not tell them apart either, so
// more would only cost comparisons.
const PLACES: usize = 8;

impl PathCursor {
    pub(super) fn key(&mut self, span: Span, innermost: Innermost, sides: &Sides<'_>) {
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
    pub(super) fn open_child(&mut self, event: Event, depth: usize, sides: &Sides<'_>) {
        if let Some(level) = self.path.levels.last_mut() {
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
                    self.path.levels.push(CursorLevel::new());
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

    /// Takes the beginning of a child, which may be the open one.
    pub(super) fn begin(
        &mut self,
        event: Event,
        innermost: Innermost,
        sides: &Sides<'_>,
    ) -> Option<Self> {
        let Innermost {
            frame,
            depth,
            count: at,
            ..
        } = innermost;
        if frame.kind == Kind::Object {
            self.open_child(event, depth + 1, sides);
            return None;
        }
        let level = self.path.levels.last_mut()?;
        // The delivered child that is the fragment's first one, if this child is the open one.
        let place = frame.count.checked_sub(at);
        let is_first = at == 0;
        // New scalars between repeated brackets look like delivered scalars that differ.
        let is_new = sides.is_innermost(depth)
            && matches!(
                sides.inputs.cut_token,
                TokenAtCut::Element | TokenAtCut::AfterValue
            );
        let is_recognizable = !is_new
            || matches!(event, Event::Begin { .. })
            || self.path.base == CursorBase::Inside(depth);
        let may_be_open = match &level.pairing {
            Pairing::Unknown => is_first && (frame.count == 0 || is_recognizable),
            Pairing::One(places) => place.is_some_and(|place| places.contains(&place)),
        };
        let others = match &level.pairing {
            Pairing::Unknown => frame.count > 0,
            Pairing::One(places) => places.iter().any(|&other| Some(other) != place),
        };
        self.role = ChildRole::Some;
        if !may_be_open {
            if !others {
                self.die(None);
            }
            return None;
        }
        let mut open = self.clone();
        open.role = ChildRole::None;
        if let (Some(level), Some(place)) = (open.path.levels.last_mut(), place) {
            level.pairing = Pairing::One(vec![place]);
            // The text before the first child was left out.
            let first = sides
                .slot
                .child_index()
                .children(depth)
                .get(place)
                .filter(|_| !is_first && place > 0);
            if let Some(first) = first {
                (open.is_reentry, open.repeated.from) = (true, first.span.start);
            }
            let is_bare = self.path.base == CursorBase::Inside(depth);
            if is_first && (frame.count > 0 || is_bare) {
                open.is_reentry = frame.count > 0 && !is_bare;
                open.repeated.from = value_start(sides.slot, depth + 1);
            }
        }
        open.open_child(event, depth + 1, sides);
        if !others {
            *self = open;
            return None;
        }
        if let Some(CursorLevel {
            pairing: Pairing::One(places),
            ..
        }) = self.path.levels.last_mut()
        {
            places.retain(|&other| Some(other) != place);
        }
        Some(open)
    }

    /// Takes the end of a child that is not the open one.
    pub(super) fn end(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost { depth, index, .. } = innermost;
        let Some(&own) = sides.children.children(index).last() else {
            return self.die(None);
        };
        match std::mem::replace(&mut self.role, ChildRole::None) {
            ChildRole::None => {}
            ChildRole::New(key) => {
                let span = Span {
                    start: key,
                    end: event.span().end,
                };
                // The comma before it is new, too.
                let before = sides
                    .live
                    .text
                    .get(..key)
                    .unwrap_or_default()
                    .trim_end_matches(is_space);
                let from = before.strip_suffix(',').map_or(key, str::len);
                self.repeated.new_bits += sides.bits_at_cut(from, span.end);
                self.repeated.end = if self.has_repeated() { span.end } else { 0 };
                self.deferred.push(DeferredMember {
                    depth: depth + 1,
                    text: span.of(sides.live.text).to_owned(),
                });
            }
            ChildRole::Same(child) => {
                if !sides.is_same(&child, &own) {
                    return self.die(Some(child.span.start));
                }
                self.repeated.end = own.span.end;
                if let Some(level) = self.path.levels.last_mut() {
                    level.seen += 1;
                }
                self.note_from(child.span.start, depth);
            }
            ChildRole::Some => self.end_of_some(own, innermost, sides),
        }
    }

    /// Takes a key of a whole child of an array. Ends the cursor where the key is nowhere in the
    /// delivered array.
    pub(super) fn key_of_some(&mut self, span: Span, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost { frame, depth, .. } = innermost;
        let key = sides
            .live
            .text
            .get(span.start.saturating_sub(1)..=span.end)
            .unwrap_or_default();
        let delivered = sides.slot.text().get(frame.start..).unwrap_or_default();
        // Other characters may have been escaped, and a long array is not searched for each key.
        let is_plain = key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"\"_-. ".contains(&byte));
        if is_plain
            && delivered.len() <= LOOKED_AT
            && memmem::find(delivered.as_bytes(), key.as_bytes()).is_none()
        {
            let first = sides.slot.child_index().children(depth).first();
            self.die(first.map(|child| child.span.start));
        }
    }

    /// Takes the end of a whole child of an array, and finds the delivered children that it may be.
    fn end_of_some(&mut self, own: Child, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost {
            frame,
            depth,
            count: at,
            ..
        } = innermost;
        let delivered = sides.slot.child_index().children(depth);
        if !sides.slot.child_index().remembers_all(depth) || delivered.len() < frame.count {
            return self.die(None);
        }
        let delivered = delivered.get(..frame.count).unwrap_or_default();
        let first_start = delivered.first().map(|child| child.span.start);
        let is_same = |place: usize| {
            delivered
                .get(place)
                .is_some_and(|child| sides.is_same(child, &own))
        };
        if sides
            .slot
            .child_index()
            .find(depth, own.digest)
            .nth(1)
            .is_some()
        {
            // The element was delivered more than once, and may recur once more.
            self.repeated.new_bits +=
                (sides.bits_at_cut(own.span.start, own.span.end) - RECURS).max(0.0);
        }
        let Some(level) = self.path.levels.last_mut() else {
            return;
        };
        let places = match &level.pairing {
            Pairing::Unknown => {
                let found = sides.slot.child_index().find(depth, own.digest);
                // The children are in the order of the text.
                let place = |child: &Child| {
                    delivered.partition_point(|other| other.span.start < child.span.start)
                };
                let found = found.map(place);
                let mut places: Vec<usize> =
                    found.take(PLACES).filter(|&place| is_same(place)).collect();
                if is_same(0) && !places.contains(&0) {
                    places.push(0);
                }
                places
            }
            Pairing::One(places) => places
                .iter()
                .copied()
                .filter(|place| is_same(place + at))
                .collect(),
        };
        if places.is_empty() {
            return self.die(first_start);
        }
        level.seen += 1;
        self.repeated.end = own.span.end;
        if let Some(&earliest) = places.iter().min() {
            self.is_reentry |= earliest > 0;
            let is_bare = self.path.base.is_bare(depth, &sides.inputs);
            if let (Pairing::Unknown, true, Some(child)) = (
                &level.pairing,
                earliest > 0 || is_bare,
                delivered.get(earliest),
            ) {
                self.repeated.from = child.span.start;
            }
        }
        level.pairing = Pairing::One(places);
    }
}
