//! A fragment that begins again, compared value by value with what was delivered.
//!
//! ```text
//!  delivered   {"s":[{"id":1,"t":"a"},{"id":2,"t":"Hel      the path to the cut: root, s, element 1, t
//!  fragment    { "s": [ {"t": "Hello", "id": 2}, …           its own root, white space and order; element 0 left out
//! ```
//! A *cursor* assumes that the fragment begins with one open container, member or value, and follows the path from
//! there to the cut. Children that were delivered whole must come with the same value, in any layout; the open child
//! leads on; new members wait. The cursor ends at the first contradiction. A cursor that reaches the cut knows where
//! the fragment's new text begins; that text flows to the document like any other.

use std::cmp::Ordering;

use super::flow::{DeferredMember, is_in_key};
use super::place::says_something;
use super::prior::Start;
use super::reader::Scene;
use super::slot::Slot;
use crate::children::{Child, ChildIndex, KeyHash, same_value};
use crate::json::{CutState, Event, Frame, Kind, Live, Span, string};

/// What is at the cut, in the innermost open container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CutToken {
    /// A string that is a value.
    String(CutString),
    /// A key, likewise.
    Key(CutString),
    /// A number or literal, as it is written.
    Scalar(String),
    Colon,
    MemberValue,
    Element,
    MemberKey,
    AfterValue,
}

/// A string that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CutString {
    /// The decoded bytes so far.
    said: Vec<u8>,
    /// An escape that is cut, as it is written.
    escape: String,
}

impl CutToken {
    pub(super) fn of(slot: &Slot) -> Self {
        let machine = slot.document().machine();
        let text = slot.text();
        let token = machine.token_start();
        if machine.in_string() {
            let from = token.saturating_add(1);
            let certain = machine.certain_string().max(from);
            let said = string::exact(text.get(from..certain).unwrap_or_default()).into_owned();
            let escape = text.get(certain..).unwrap_or_default().to_owned();
            let string = CutString { said, escape };
            return if is_in_key(slot) { Self::Key(string) } else { Self::String(string) };
        }
        let in_object = slot.frames().last().is_some_and(|frame| frame.kind == Kind::Object);
        match machine.cut_state() {
            CutState::Number | CutState::Literal => Self::Scalar(text.get(token..).unwrap_or_default().to_owned()),
            CutState::Key if text.trim_end().ends_with('"') => Self::Colon,
            CutState::Key => Self::MemberKey,
            CutState::AfterValue => Self::AfterValue,
            _ if in_object => Self::MemberValue,
            _ => Self::Element,
        }
    }
}

/// The delivered value or container that the fragment is assumed to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The first value is the open value at this depth; 0 is the root.
    Value(usize),
    /// The fragment begins with a member or an element of the open container at this depth, without its bracket.
    Inside(usize),
}

impl Base {
    /// The depth of the open container whose children the fragment has first.
    fn depth(self) -> usize {
        match self {
            Self::Value(depth) | Self::Inside(depth) => depth,
        }
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

/// Which delivered child the first child of an array is.
#[derive(Clone, Debug)]
enum Pairing {
    Unknown,
    /// One of these; the number of delivered children means the open one.
    One(Vec<usize>),
}

/// A container of the fragment that is taken for an open one.
#[derive(Clone, Debug)]
struct Level {
    pairing: Pairing,
    /// The number of delivered children that came again.
    seen: usize,
    /// Where its open child begins, by the reader's offsets.
    child_at: usize,
}

impl Level {
    fn new() -> Self {
        Self { pairing: Pairing::Unknown, seen: 0, child_at: 1 }
    }
}

/// The innermost container of the path, delivered and in the fragment.
#[derive(Clone, Copy, Debug)]
struct Innermost {
    frame: Frame,
    depth: usize,
    /// The number of the reader's container that is taken for it, and of that container's children so far.
    index: usize,
    count: usize,
}

/// What the fragment has repeated so far.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// Where that begins in the delivered text.
    from: usize,
    /// Where that ends, by the reader's offsets; 0 where nothing is known to be repeated.
    end: usize,
    /// Bits of members before `end` that were not delivered.
    new_bits: f32,
    /// Bits of keys since the innermost array element began: every element may have them.
    key_bits: f32,
}

/// What the child that is being read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    None,
    /// A delivered child: it must have this value.
    Same(Child),
    /// One of several delivered children.
    Some,
    /// A member that was not delivered, whose key begins at this offset.
    New(usize),
}

/// How a cursor came to the cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arrival {
    /// Where the new text begins, by the reader's offsets.
    pub(super) at: usize,
    /// The rest of an escape that was cut.
    pub(super) rest: String,
    pub(super) deferred: Vec<DeferredMember>,
    /// Where the repeated text begins: all delivered text from there up to the cut was repeated.
    pub(super) from: usize,
    pub(super) start: Start,
    /// What the repeated text would have cost as new text.
    pub(super) bits: f32,
    /// The depth of the open container that was begun again.
    pub(super) container: Option<usize>,
    /// The innermost array element that was taken for the one that was cut.
    pub(super) element: Option<Element>,
    /// Delivered members of that element, or of all, were left out.
    pub(super) leaves_out: bool,
    /// Delivered elements that precede it were left out.
    pub(super) is_reentry: bool,
}

/// An array element in the fragment that is taken for the one that was cut. It may also be the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Element {
    /// The depth of the array.
    pub(super) depth: usize,
    /// Where the element begins, by the reader's offsets.
    pub(super) at: usize,
    /// What its repeated text would have cost as new text.
    pub(super) bits: f32,
    /// Whole values before it were repeated.
    pub(super) is_after_values: bool,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Following,
    Arrived(Arrival),
    /// The fragment does not fit, or contradicts the delivered text at this offset.
    Dead(Option<usize>),
}

#[derive(Clone, Debug)]
pub(super) struct Cursor {
    base: Base,
    levels: Vec<Level>,
    role: Role,
    deferred: Vec<DeferredMember>,
    /// In the value that was cut: the number of its decoded bytes that have been compared.
    compared: Option<usize>,
    repeated: Repeated,
    is_reentry: bool,
    pub(super) state: State,
}

/// The two sides, for one event.
pub(super) struct Sides<'a> {
    pub(super) slot: &'a Slot,
    pub(super) scene: Scene<'a>,
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
        let text = delivered.span.of(self.slot.text());
        delivered.digest == own.digest && same_value(text, own.span.of(self.live.text))
    }

    /// The bits of the fragment's text between two of the reader's offsets, at the cut.
    fn bits_at_cut(&self, from: usize, to: usize) -> f32 {
        self.scene.costs.between(self.offset(from), self.offset(to))
    }

    /// The same alone.
    fn bits_alone(&self, from: usize, to: usize) -> f32 {
        self.scene.alone.between(self.offset(from), self.offset(to))
    }

    /// The offset in the fragment: the reader has a bracket before the content.
    fn offset(&self, at: usize) -> usize {
        (self.scene.begin + at).saturating_sub(1)
    }
}

impl Cursor {
    pub(super) fn new(base: Base, slot: &Slot) -> Self {
        let (levels, from) = match base {
            Base::Value(depth) => (Vec::new(), value_start(slot, depth)),
            Base::Inside(_) => (vec![Level::new()], slot.text().len()),
        };
        Self {
            base,
            levels,
            role: Role::None,
            deferred: Vec::new(),
            compared: None,
            repeated: Repeated { from, end: 0, new_bits: 0.0, key_bits: 0.0 },
            is_reentry: false,
            state: State::Following,
        }
    }

    /// Whether the cursor has neither reached the cut nor ended.
    pub(super) fn is_following(&self) -> bool {
        matches!(self.state, State::Following)
    }

    /// Returns the prior of the start plus the bits of the repeated text. The value that is being read counts as
    /// repeated if `may_be` is set.
    pub(super) fn bits(&self, scene: &Scene<'_>, may_be: bool) -> f32 {
        let is_reading = may_be && matches!(self.role, Role::Same(_) | Role::Some);
        let end = if is_reading { usize::MAX } else { (scene.begin + self.repeated.end).saturating_sub(1) };
        let repeated = scene.costs.between(scene.begin, end);
        self.start().prior(scene.expect) + (repeated - self.repeated.new_bits).max(0.0)
    }

    /// Whether something that was delivered has come again.
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated.end > 0
    }

    fn start(&self) -> Start {
        match self.base {
            _ if self.is_reentry => Start::Rerooted,
            Base::Value(0) => Start::Root,
            Base::Value(_) if self.levels.is_empty() && self.compared.is_some() => Start::Token,
            Base::Value(_) => Start::Container,
            Base::Inside(_) => Start::Member,
        }
    }

    /// Returns the innermost container of the path; `None` before the fragment has begun one.
    fn innermost(&self, sides: &Sides<'_>) -> Option<Innermost> {
        let last = self.levels.len().checked_sub(1)?;
        let (depth, index) = (self.base.depth() + last, self.base.outside() + last);
        let count = sides.live.frames.get(index).map_or(0, |own| own.count);
        Some(Innermost { frame: *sides.frame(depth)?, depth, index, count })
    }

    fn die(&mut self, at: Option<usize>) {
        self.state = State::Dead(at);
    }

    /// Ends the cursor: the token that was cut has another value in the fragment.
    fn die_at_token(&mut self, sides: &Sides<'_>) {
        self.die(Some(sides.slot.document().machine().token_start()));
    }

    /// Takes the next event of the fragment. Returns a second cursor where a child of an array may be the open one or a
    /// whole one.
    pub(super) fn event(&mut self, event: Event, sides: &Sides<'_>) -> Option<Self> {
        if !self.is_following() {
            return None;
        }
        if self.compared.is_some() {
            match event {
                Event::Fragment(span) => self.compare(span, sides),
                // The string ends before it comes to the cut.
                _ => self.die_at_token(sides),
            }
            return None;
        }
        let around = sides.live.frames.len();
        if let Some(innermost) = self.innermost(sides) {
            return match around.cmp(&(innermost.index + 1)) {
                // In a child that is read as a whole.
                Ordering::Greater => None,
                Ordering::Equal => self.child(event, innermost, sides),
                Ordering::Less => {
                    self.close(event, innermost, sides);
                    None
                }
            };
        }
        // The fragment's first value is taken for the open child.
        let Base::Value(depth) = self.base else { return None };
        if around == 1 && sides.live.frames.first().is_some_and(|frame| frame.count == 0) {
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
            Event::Begin { .. } | Event::StringBegin(_) if self.role == Role::None => {
                return self.begin(event, innermost, sides);
            }
            Event::Scalar { .. } => {
                let fork = if self.role == Role::None { self.begin(event, innermost, sides) } else { None };
                if self.is_following() {
                    self.end(event, innermost, sides);
                }
                if let Some(mut fork) = fork {
                    // The child has ended, and the cursor that took it for the open one is not at the cut.
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
                sides.scene.cut_token,
                CutToken::String(_) | CutToken::Scalar(_) | CutToken::Colon | CutToken::MemberValue
            );
        if has_open && hash == KeyHash::of_raw(frame.key.of(sides.slot.text())) {
            self.role = Role::None;
            self.repeated.end = span.end;
            self.repeated.key_bits += sides.bits_alone(span.start, span.end);
            self.note_from(frame.key.start.saturating_sub(1), depth);
            if sides.is_innermost(depth) && *sides.scene.cut_token == CutToken::Colon {
                self.arrive(span.end + 1, sides);
            }
            return;
        }
        if let Some(&child) = sides.slot.member(depth, hash, cut) {
            self.role = Role::Same(child);
            self.repeated.key_bits += sides.bits_alone(span.start, span.end);
            return;
        }
        self.role = Role::New(start);
        if !sides.is_innermost(depth) {
            return;
        }
        match sides.scene.cut_token {
            CutToken::MemberKey | CutToken::AfterValue => self.arrive(start, sides),
            CutToken::Key(begun) => {
                if let Follow::Arrived { end, rest } = begun.follow(raw, 0) {
                    self.note_from(sides.slot.document().machine().token_start(), depth);
                    self.arrive_with(span.start + end, rest, sides);
                }
            }
            _ => {}
        }
    }

    /// Takes the beginning of a child, which may be the open one.
    fn begin(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) -> Option<Self> {
        let Innermost { frame, depth, count: at, .. } = innermost;
        if frame.kind == Kind::Object {
            if self.role == Role::None {
                self.open_child(event, depth + 1, sides);
            }
            return None;
        }
        let level = self.levels.last_mut()?;
        // The delivered child that is the fragment's first one, if this child is the open one.
        let place = frame.count.checked_sub(at);
        let is_first = at == 0;
        // New scalars between repeated brackets look like delivered scalars that differ.
        let is_new =
            sides.is_innermost(depth) && matches!(sides.scene.cut_token, CutToken::Element | CutToken::AfterValue);
        let is_told = !is_new || matches!(event, Event::Begin { .. }) || self.base == Base::Inside(depth);
        let may_be_open = match &level.pairing {
            Pairing::Unknown => is_first && (frame.count == 0 || is_told),
            Pairing::One(places) => place.is_some_and(|place| places.contains(&place)),
        };
        let others = match &level.pairing {
            Pairing::Unknown => frame.count > 0,
            Pairing::One(places) => places.iter().any(|&other| Some(other) != place),
        };
        self.role = Role::Some;
        if !may_be_open {
            if !others {
                self.die(None);
            }
            return None;
        }
        let mut open = self.clone();
        open.role = Role::None;
        if let (Some(level), Some(place)) = (open.levels.last_mut(), place) {
            level.pairing = Pairing::One(vec![place]);
            // What precedes the first child was left out.
            let first = sides.slot.child_index().children(depth).get(place).filter(|_| !is_first && place > 0);
            if let Some(first) = first {
                (open.is_reentry, open.repeated.from) = (true, first.span.start);
            }
            let is_bare = self.base == Base::Inside(depth);
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
        if let Some(Level { pairing: Pairing::One(places), .. }) = self.levels.last_mut() {
            places.retain(|&other| Some(other) != place);
        }
        Some(open)
    }

    /// Takes the value that begins for the open one at this depth: a container of the path, or the value that was cut.
    fn open_child(&mut self, event: Event, depth: usize, sides: &Sides<'_>) {
        if let Some(level) = self.levels.last_mut() {
            level.child_at = event.span().start;
        }
        if depth.checked_sub(1).and_then(|array| sides.frame(array)).is_some_and(|frame| frame.kind == Kind::Array) {
            self.repeated.key_bits = 0.0;
        }
        if let Some(frame) = sides.frame(depth) {
            match event {
                Event::Begin { kind, .. } if kind == frame.kind => {
                    self.levels.push(Level::new());
                }
                _ => self.die(Some(frame.start)),
            }
            return;
        }
        match (sides.scene.cut_token, event) {
            (CutToken::MemberValue | CutToken::Element | CutToken::AfterValue, _) => {
                self.arrive(event.span().start, sides);
            }
            (CutToken::String(_), Event::StringBegin(at)) => {
                self.compared = Some(0);
                // Perhaps only its quote was delivered.
                self.compare(Span { start: at + 1, end: at + 1 }, sides);
            }
            (CutToken::Scalar(begun), Event::Scalar { span, .. }) => {
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

    /// Compares a part of the string that was cut.
    fn compare(&mut self, span: Span, sides: &Sides<'_>) {
        let (CutToken::String(begun), Some(compared)) = (sides.scene.cut_token, self.compared) else { return };
        match begun.follow(span.of(sides.live.text), compared) {
            Follow::Arrived { end, rest } => self.arrive_with(span.start + end, rest, sides),
            Follow::On(bytes) => {
                self.repeated.end = if bytes > 0 { span.end } else { self.repeated.end };
                self.compared = Some(compared + bytes);
            }
            Follow::Differs => self.die_at_token(sides),
        }
    }

    /// Takes the end of a child that is not the open one.
    fn end(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost { depth, index, .. } = innermost;
        let Some(&own) = sides.children.children(index).last() else { return self.die(None) };
        match std::mem::replace(&mut self.role, Role::None) {
            Role::None => {}
            Role::New(key) => {
                let span = Span { start: key, end: event.span().end };
                self.repeated.new_bits += sides.bits_at_cut(span.start, span.end);
                self.repeated.end = if self.has_repeated() { span.end } else { 0 };
                self.deferred.push(DeferredMember { depth: depth + 1, text: span.of(sides.live.text).to_owned() });
            }
            Role::Same(child) => {
                if !sides.is_same(&child, &own) {
                    return self.die(Some(child.span.start));
                }
                self.repeated.end = own.span.end;
                self.levels.last_mut().into_iter().for_each(|level| level.seen += 1);
                self.note_from(child.span.start, depth);
            }
            Role::Some => self.end_of_some(own, innermost, sides),
        }
    }

    /// Takes the end of a whole child of an array, and finds the delivered children that it may be.
    fn end_of_some(&mut self, own: Child, innermost: Innermost, sides: &Sides<'_>) {
        let Innermost { frame, depth, count: at, .. } = innermost;
        let delivered = sides.slot.child_index().children(depth);
        if !sides.slot.child_index().remembers_all(depth) || delivered.len() < frame.count {
            return self.die(None);
        }
        let delivered = delivered.get(..frame.count).unwrap_or_default();
        let first_start = delivered.first().map(|child| child.span.start);
        let is_same = |place: usize| delivered.get(place).is_some_and(|child| sides.is_same(child, &own));
        if sides.slot.child_index().find(depth, own.digest).nth(1).is_some() {
            // The element was delivered more than once, and may come again.
            self.repeated.new_bits += (sides.bits_at_cut(own.span.start, own.span.end) - RECURS).max(0.0);
        }
        let Some(level) = self.levels.last_mut() else { return };
        let places = match &level.pairing {
            Pairing::Unknown => {
                let found = sides.slot.child_index().find(depth, own.digest);
                // The children are in the order of the text.
                let place = |child: &Child| delivered.partition_point(|other| other.span.start < child.span.start);
                let found = found.map(place);
                let mut places: Vec<usize> = found.take(PLACES).filter(|&place| is_same(place)).collect();
                if is_same(0) && !places.contains(&0) {
                    places.push(0);
                }
                places
            }
            Pairing::One(places) => places.iter().copied().filter(|place| is_same(place + at)).collect(),
        };
        if places.is_empty() {
            return self.die(first_start);
        }
        level.seen += 1;
        self.repeated.end = own.span.end;
        if let Some(&earliest) = places.iter().min() {
            self.is_reentry |= earliest > 0;
            if let (Pairing::Unknown, 1.., Some(child)) = (&level.pairing, earliest, delivered.get(earliest)) {
                self.repeated.from = child.span.start;
            }
        }
        level.pairing = Pairing::One(places);
    }

    /// Takes the end of the innermost container of the path before the cut was reached: the new text is its closer, if
    /// all its children came again.
    fn close(&mut self, event: Event, innermost: Innermost, sides: &Sides<'_>) {
        let Event::End { span, .. } = event else { return self.die(None) };
        let Innermost { frame, depth, .. } = innermost;
        let is_closer_due = match sides.scene.cut_token {
            CutToken::AfterValue => true,
            CutToken::MemberKey | CutToken::Element => frame.count == 0,
            _ => false,
        };
        let all_seen = self.levels.last().is_some_and(|level| level.seen == frame.count);
        if sides.is_innermost(depth) && all_seen && is_closer_due {
            self.arrive(span.end - 1, sides);
        } else {
            self.die(Some(sides.slot.text().len()));
        }
    }

    /// Notes that the repeated text begins at `start` or before, where the container has no bracket in the fragment.
    fn note_from(&mut self, start: usize, depth: usize) {
        if matches!(self.base, Base::Inside(inside) if inside == depth) {
            self.repeated.from = self.repeated.from.min(start);
        }
    }

    fn arrive(&mut self, at: usize, sides: &Sides<'_>) {
        self.arrive_with(at, String::new(), sides);
    }

    fn arrive_with(&mut self, at: usize, rest: String, sides: &Sides<'_>) {
        let element = self.element(at, sides);
        // An element is written in full or not at all; of what is around its array any part may be left out.
        let is_missing = |(index, level): (usize, &Level)| {
            let depth = self.base.depth() + index;
            let is_base = self.base == Base::Inside(depth);
            (!is_base && sides.frame(depth).is_some_and(|frame| frame.count > level.seen)).then_some(depth)
        };
        let missing: Vec<usize> = self.levels.iter().enumerate().filter_map(is_missing).collect();
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
            bits: sides.bits_at_cut(1, at).min(sides.bits_alone(1, at)) - self.repeated.new_bits,
            container: Some(self.base.first_value()).filter(|&depth| depth < open),
            element,
            leaves_out,
            is_reentry,
        });
    }

    /// Returns the innermost array element that the path enters, if more than brackets of it were delivered.
    fn element(&self, at: usize, sides: &Sides<'_>) -> Option<Element> {
        let is_array = |depth: &usize| sides.frame(*depth).is_some_and(|frame| frame.kind == Kind::Array);
        let says_something = |depth: &usize| says_something(sides.slot, *depth);
        let base = self.base.depth();
        // The fragment may be the element of an array itself.
        let outermost = self.base.first_value().saturating_sub(1);
        let depth = (outermost..sides.slot.frames().len()).rev().filter(is_array).find(says_something)?;
        let level = depth.checked_sub(base).and_then(|index| self.levels.get(index));
        let start = level.map_or(1, |level| level.child_at);
        let bits = (sides.bits_alone(start, at) - self.repeated.new_bits - self.repeated.key_bits).max(0.0);
        // The path alone says nothing of the elements before it.
        let around = self.levels.iter().take((depth + 1).saturating_sub(base));
        let is_after_values = around.into_iter().any(|level| level.seen > 0);
        Some(Element { depth, at: start, bits, is_after_values })
    }
}

/// The most bits of an element that has come more than once.
pub(super) const RECURS: f32 = 0.5;

/// The most places in an array that are followed at once.
const PLACES: usize = 8;

/// Returns where the open value at this depth begins: a container of the path, or the value that was cut; the cut
/// itself where nothing of that was delivered.
pub(super) fn value_start(slot: &Slot, depth: usize) -> usize {
    let machine = slot.document().machine();
    match slot.frames().get(depth) {
        Some(frame) => frame.start,
        None if machine.in_token() => machine.token_start(),
        None => slot.text().len(),
    }
}

enum Follow {
    /// The first `end` bytes repeat the string up to the cut; `rest` is what the escape that was cut lacks.
    Arrived {
        end: usize,
        rest: String,
    },
    /// All of this text repeats the string: this number of decoded bytes.
    On(usize),
    Differs,
}

impl CutString {
    /// Compares `raw`, as it is written, with the decoded bytes from `from` on and with the escape after them.
    fn follow(&self, raw: &str, from: usize) -> Follow {
        let (mut at, mut compared) = (0, from);
        loop {
            if compared == self.said.len() && self.escape.is_empty() {
                return Follow::Arrived { end: at, rest: String::new() };
            }
            let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) else {
                return Follow::On(compared - from);
            };
            let (code, length) = string::first_unit(rest);
            at += length;
            if compared == self.said.len() {
                return match complete_escape(&self.escape, code) {
                    Some(rest) => Follow::Arrived { end: at, rest },
                    None => Follow::Differs,
                };
            }
            let mut bytes = [0; 4];
            let bytes = string::encode(code, &mut bytes);
            if self.said.get(compared..compared + bytes.len()) != Some(bytes) {
                return Follow::Differs;
            }
            compared += bytes.len();
        }
    }
}

/// Returns what the escape that begins with `begun` lacks to become the character with this code.
fn complete_escape(begun: &str, code: u32) -> Option<String> {
    let digits = |unit: u32| format!("{unit:04x}");
    let long = match code {
        0x1_0000.. => {
            let code = code - 0x1_0000;
            format!("\\u{}\\u{}", digits(0xd800 + (code >> 10)), digits(0xdc00 + (code & 0x3ff)))
        }
        _ => format!("\\u{}", digits(code)),
    };
    let short = match code {
        0x22 => "\\\"",
        0x5c => "\\\\",
        0x2f => "\\/",
        0x08 => "\\b",
        0x0c => "\\f",
        0x0a => "\\n",
        0x0d => "\\r",
        0x09 => "\\t",
        _ => "",
    };
    let is_begun = |whole: &&str| {
        let head = whole.get(..begun.len());
        whole.len() > begun.len() && head.is_some_and(|head| head.eq_ignore_ascii_case(begun))
    };
    let whole = [short, long.as_str()].into_iter().find(is_begun)?;
    whole.get(begun.len()..).map(str::to_owned)
}
