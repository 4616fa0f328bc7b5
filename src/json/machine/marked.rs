//! Long pushes: the machine moves from mark to mark of an [`StructuralIndex`] instead of from byte to byte.
//!
//! It takes only tokens that are whole and valid. [`Machine::run`] takes the rest of a push byte by
//! byte: a token that the end of the push cuts, or a byte that the grammar rejects.

use super::{
    Event, EventOutput, GrammarState, Kind, Machine, Scalar, ScanPush, Sink, Span, SyntaxError,
};
use crate::json::index::{AHEAD, Mark, StructuralIndex};

/// The shortest push that is worth an index. For shorter pushes of text without escapes and
/// characters beyond ASCII, the index costs more than it saves.
// The length is from benches/engine.rs, which has pushes of several lengths; `scripts/instructions`
// counts short and long pushes, so a change shows there.
pub(super) const SHORTEST: usize = 1024;
/// The shortest rest of a push that is worth an index. Also the number of bytes that are taken
/// without an index at the start of a root: many roots are short, and an index of the text after
/// them would be wasted.
// Most roots of tool calls and labels are shorter. An index would be filled for 512 bytes of text
// after them, which no one reads.
const REST: usize = 192;
/// The size of the steps without an index, up to a state in which a walk can begin.
// A state in which a walk can't begin (inside a key, a number, before a colon) ends within a few
// bytes; a longer step takes text of the next strings byte by byte.
const STEP: usize = 32;

impl Machine {
    /// Takes a long push.
    pub(super) fn run_marked<P: ScanPush, S: Sink + ?Sized>(
        &mut self,
        mut push: P,
        out: &mut EventOutput<'_, S>,
    ) -> Result<usize, SyntaxError> {
        let start = self.offset;
        while push.left() >= REST && !self.is_done() {
            let step = match self.state {
                GrammarState::Start => REST,
                _ if self.may_walk() => 0,
                _ => STEP,
            };
            if step > 0 {
                let taken = self.run(push.start(step), out)?;
                push.skip(taken);
                continue;
            }
            let piece = push.start(StructuralIndex::LONGEST);
            let Some(mut index) = piece.index(self.state == GrammarState::Plain) else {
                break;
            };
            let taken = self.walk(&mut index, out);
            push.skip(taken);
            // The rest of the piece: a token that its end cuts, or an error.
            let mut rest = piece.start(piece.left());
            rest.skip(taken);
            push.skip(self.run(rest, out)?);
        }
        self.run(push, out)?;
        Ok(self.offset - start)
    }

    /// Whether a walk can begin: in a string that is a value, or between two tokens, but not in the
    /// middle of a member.
    fn may_walk(&self) -> bool {
        match self.state {
            GrammarState::Plain => !self.in_key,
            GrammarState::Colon => false,
            GrammarState::Value => self
                .frames
                .last()
                .is_none_or(|frame| frame.kind == Kind::Array),
            state => !state.in_token(),
        }
    }

    /// Takes whole children of the open containers up to the first one that is not among the marks,
    /// is cut or is wrong; returns the number of bytes.
    #[inline(never)]
    fn walk<S: Sink + ?Sized>(
        &mut self,
        index: &mut StructuralIndex<'_>,
        out: &mut EventOutput<'_, S>,
    ) -> usize {
        let base = self.offset;
        let mut place = WalkPosition {
            state: self.state,
            taken: 0,
        };
        if place.state == GrammarState::Plain {
            place = self.end_string(base, index, out);
        }
        loop {
            index.look_ahead();
            let (passed, is_short) = self.children(&mut place, base, index, out);
            index.skip(passed);
            if !is_short {
                break;
            }
        }
        self.state = place.state;
        self.offset = base + place.taken;
        place.taken
    }

    /// Takes children while enough marks are known; returns the number of marks, and whether more
    /// are needed.
    ///
    /// The branches are few and depend on the kind of container, because a mispredicted branch
    /// costs more than the computation.
    #[inline(always)]
    fn children<S: Sink + ?Sized>(
        &mut self,
        place: &mut WalkPosition,
        base: usize,
        index: &StructuralIndex<'_>,
        out: &mut EventOutput<'_, S>,
    ) -> (usize, bool) {
        let mut marks = index.ahead();
        let count = marks.len();
        let WalkPosition {
            mut state,
            mut taken,
        } = *place;
        let is_short = loop {
            let Some(ahead) = marks.first_chunk::<AHEAD>() else {
                break true;
            };
            let Some(frame) = self.frames.last() else {
                break false;
            };
            let kind = frame.kind;
            let at = ahead[0].at();
            let byte = index.byte(at);
            // A child has ended at `end`; `rest` are the marks after it. They have a constant offset
            // in each case, so that one test of the length is enough for all.
            let (end, rest) = if byte == kind.closer_byte() && state.takes_closer() {
                self.pop(base + at, out);
                (at + 1, marks.get(1..))
            } else if !state.takes_child() {
                if byte != b',' || !state.is_after_child() {
                    break false;
                }
                (state, taken) = (next_child(kind), at + 1);
                marks = marks.get(1..).unwrap_or_default();
                continue;
            } else {
                if kind == Kind::Object {
                    let Some(end) = self.key(ahead, base, index, out) else {
                        break false;
                    };
                    (state, taken) = (GrammarState::Value, end);
                    marks = marks.get(3..).unwrap_or_default();
                }
                let Some([first, second, ..]) = marks.first_chunk::<{ AHEAD - 3 }>() else {
                    break false;
                };
                let at = first.at();
                let byte = index.byte(at);
                if byte == b'"' {
                    let close = second.at();
                    if close >= index.bytes().len() {
                        (state, taken) = self.cut_string(base, at, index, out);
                        break false;
                    }
                    self.whole_string(
                        Span {
                            start: base + at,
                            end: base + close + 1,
                        },
                        out,
                    );
                    (close + 1, marks.get(2..))
                } else if matches!(byte, b'{' | b'[') {
                    if self.frames.len() >= self.depth {
                        break false;
                    }
                    let kind = if byte == b'{' {
                        Kind::Object
                    } else {
                        Kind::Array
                    };
                    (state, taken) = (self.open(kind, base + at, out), at + 1);
                    marks = marks.get(1..).unwrap_or_default();
                    continue;
                } else {
                    let Some((scalar, end)) = scalar(byte, at, kind, index) else {
                        break false;
                    };
                    let span = Span {
                        start: base + at,
                        end: base + end,
                    };
                    out.tell(Event::Scalar { kind: scalar, span }, &self.frames);
                    (end, marks.get(1..))
                }
            };
            marks = rest.unwrap_or_default();
            (state, taken) = (self.value_ended(base + end), end);
            if let Some(parent) = self.frames.last()
                && let [comma, rest @ ..] = marks
                && index.byte(comma.at()) == b','
            {
                (state, taken) = (next_child(parent.kind), comma.at() + 1);
                marks = rest;
            }
        };
        *place = WalkPosition { state, taken };
        (count - marks.len(), is_short)
    }

    /// Takes a key with its colon; returns where that ends.
    #[inline(always)]
    fn key<S: Sink + ?Sized>(
        &mut self,
        ahead: &[Mark; AHEAD],
        base: usize,
        index: &StructuralIndex<'_>,
        out: &mut EventOutput<'_, S>,
    ) -> Option<usize> {
        let [open, close, colon, ..] = ahead;
        if index.byte(open.at()) != b'"' || index.byte(colon.at()) != b':' {
            return None;
        }
        let key = Span {
            start: base + open.at() + 1,
            end: base + close.at(),
        };
        let frame = self.frames.last_mut()?;
        (frame.key, frame.is_escaped) = (key, close.has_escape());
        out.tell(Event::Key(key), &self.frames);
        Some(colon.at() + 1)
    }

    /// Emits a string that is a value, with its quotes.
    #[inline(always)]
    fn whole_string<S: Sink + ?Sized>(&self, span: Span, out: &mut EventOutput<'_, S>) {
        out.tell(Event::StringBegin(span.start), &self.frames);
        let text = Span {
            start: span.start + 1,
            end: span.end - 1,
        };
        if !text.is_empty() {
            out.tell(Event::Fragment(text), &self.frames);
        }
        out.tell(Event::StringEnd(span), &self.frames);
    }

    /// Begins a string that is a value with the quote at `at`, whose end is not among the marks.
    #[cold]
    fn cut_string<S: Sink + ?Sized>(
        &mut self,
        base: usize,
        at: usize,
        index: &StructuralIndex<'_>,
        out: &mut EventOutput<'_, S>,
    ) -> (GrammarState, usize) {
        let state = self.open_string(base + at, GrammarState::Value, out);
        (state, self.last_place(base, at + 1, index))
    }

    /// Returns the offset up to which the open string is taken if its end is not among the marks.
    fn last_place(&mut self, base: usize, start: usize, index: &StructuralIndex<'_>) -> usize {
        let place = index.last_place(start);
        if index.has_open_escape() {
            self.pending_start = base + place;
        }
        place
    }

    /// Ends the string that is open before the bytes, or takes its certain part.
    fn end_string<S: Sink + ?Sized>(
        &mut self,
        base: usize,
        index: &mut StructuralIndex<'_>,
        out: &mut EventOutput<'_, S>,
    ) -> WalkPosition {
        let Some(close) = index.close() else {
            return WalkPosition {
                state: GrammarState::Plain,
                taken: self.last_place(base, 0, index),
            };
        };
        if close.has_escape() {
            self.pending_start = base + close.at();
        }
        WalkPosition {
            state: self.quote(base + close.at(), out),
            taken: close.at() + 1,
        }
    }
}

/// The position of a walk: the state, and the number of bytes taken.
struct WalkPosition {
    state: GrammarState,
    taken: usize,
}

/// Returns the number or literal that begins with `byte` at `at`, and its end, if the byte after it
/// may end a value in this kind of container.
#[inline(always)]
fn scalar(
    byte: u8,
    at: usize,
    parent: Kind,
    index: &StructuralIndex<'_>,
) -> Option<(Scalar, usize)> {
    let (scalar, end) = match byte {
        b'-' | b'0'..=b'9' => (Scalar::Number, index.number_end(at)?),
        _ => literal(index.bytes(), at)?,
    };
    let after = index.byte(end);
    let is_ended = after == b','
        || after == parent.closer_byte()
        || matches!(after, b' ' | b'\n' | b'\r' | b'\t');
    is_ended.then_some((scalar, end))
}

/// Returns the literal that begins at `at`, and where it ends.
#[inline(always)]
fn literal(bytes: &[u8], at: usize) -> Option<(Scalar, usize)> {
    let rest = bytes.get(at..)?;
    let (kind, length) = match rest.first_chunk()? {
        b"true" => (Scalar::True, 4),
        b"null" => (Scalar::Null, 4),
        b"fals" if rest.get(4) == Some(&b'e') => (Scalar::False, 5),
        _ => return None,
    };
    Some((kind, at + length))
}

/// Returns the state after the comma between two children.
#[inline(always)]
fn next_child(parent: Kind) -> GrammarState {
    match parent {
        Kind::Array => GrammarState::Value,
        Kind::Object => GrammarState::Key,
    }
}
