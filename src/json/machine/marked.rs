//! Long pushes: the machine goes from mark to mark of an [`Index`] instead of from byte to byte.
//!
//! It takes whole tokens only, and only those that are right. What is left of a push, a token that its end cuts or a
//! byte that the grammar rejects, is for [`Machine::run`], which takes it byte by byte.

use super::{Act, Event, Kind, Machine, Out, Push, Scalar, Sink, Span, State, Step, SyntaxError};
use crate::json::grammar;
use crate::json::index::{AHEAD, Index, Mark};

/// The number of bytes from which on a push is worth an index. Where text has neither escapes nor characters beyond ASCII,
/// making one costs shorter pushes more than it saves.
pub(super) const SHORTEST: usize = 1024;
/// The same of what is left of such a push; and the bytes of a root that are taken first, since many roots are short, and an
/// index of what follows them would be made in vain.
const REST: usize = 192;
/// The bytes that are taken at once up to a state in which an index can begin.
const STEP: usize = 32;

impl Machine {
    /// Takes a long push.
    pub(super) fn run_marked<P: Push, S: Sink + ?Sized>(
        &mut self,
        mut push: P,
        out: &mut Out<'_, S>,
    ) -> Result<usize, SyntaxError> {
        let start = self.offset;
        while push.left() >= REST && !self.is_done() {
            let step = match self.state {
                State::Start => REST,
                state if state.in_token() && state != State::Plain => STEP,
                _ => 0,
            };
            if step > 0 {
                let taken = self.run(push.start(step), out)?;
                push.skip(taken);
                continue;
            }
            let piece = push.start(Index::LONGEST);
            let Some(mut index) = piece.index(self.state == State::Plain) else { break };
            let taken = self.walk(&mut index, out);
            push.skip(taken);
            // The rest of the piece: what its end cuts, or what is wrong.
            let mut rest = piece.start(piece.left());
            rest.skip(taken);
            push.skip(self.run(rest, out)?);
        }
        self.run(push, out)?;
        Ok(self.offset - start)
    }

    /// Takes whole tokens up to the first one that is not among the marks, is cut or is wrong; returns the number of
    /// bytes.
    #[inline(never)]
    fn walk<S: Sink + ?Sized>(&mut self, index: &mut Index<'_>, out: &mut Out<'_, S>) -> usize {
        let base = self.offset;
        let mut state = self.state;
        let mut taken = 0;
        if state == State::Plain {
            (state, taken) = self.end_string(base, 0, index, out);
        }
        while state != State::Plain {
            if let Some((next, end, marks)) = self.child(state, base, index, out) {
                (state, taken) = (next, end);
                index.skip(marks);
                continue;
            }
            let at = index.peek();
            let byte = index.byte(at);
            match byte {
                b'"' if state.takes_quote() => {
                    index.pass();
                    self.open_string(base + at, state, out);
                    (state, taken) = self.end_string(base, at + 1, index, out);
                    continue;
                }
                b'-' | b'0'..=b'9' if state.takes_value() => {
                    let Some(end) = index.number_end(at) else { break };
                    if self.frames.is_empty() || !self.may_follow_value(index.byte(end)) {
                        break;
                    }
                    self.token = base + at;
                    state = self.scalar(Scalar::Number, base + end, out);
                    taken = end;
                }
                b't' | b'f' | b'n' if state.takes_value() => {
                    let Some((kind, end)) = literal(index.bytes(), at) else { break };
                    self.token = base + at;
                    state = self.scalar(kind, base + end, out);
                    taken = end;
                }
                _ => {
                    state = match grammar::step(state, byte) {
                        Step::Go(next) => next,
                        Step::Act(Act::Object) if self.frames.len() < self.depth => {
                            self.open(Kind::Object, base + at, out)
                        }
                        Step::Act(Act::Array) if self.frames.len() < self.depth => {
                            self.open(Kind::Array, base + at, out)
                        }
                        Step::Act(Act::Close) => self.close(base + at, out),
                        Step::Act(_) => break,
                    };
                    taken = at + 1;
                }
            }
            index.pass();
            (state, taken) = follow(state, taken, index);
        }
        self.state = state;
        self.offset = base + taken;
        taken
    }

    /// Takes at once the next child of an open container, with the comma after it, or with the bracket that opens it;
    /// returns the state, up to where the bytes are taken, and the number of marks. `None` if nothing was taken: none is
    /// due, a bracket closes the container, few marks are left, or something is wrong.
    #[inline(always)]
    fn child<S: Sink + ?Sized>(
        &mut self,
        state: State,
        base: usize,
        index: &Index<'_>,
        out: &mut Out<'_, S>,
    ) -> Option<(State, usize, usize)> {
        let marks = index.ahead()?;
        if !state.takes_key() {
            let is_child = state.takes_value() && !self.frames.is_empty();
            return if is_child { self.value::<0, S>(marks, base, index, out) } else { None };
        }
        let [open, close, colon, ..] = marks;
        if index.byte(open.at()) != b'"' || index.byte(colon.at()) != b':' {
            return None;
        }
        let key = Span { start: base + open.at() + 1, end: base + close.at() };
        let frame = self.frames.last_mut()?;
        (frame.key, frame.is_escaped) = (key, close.has_escape());
        out.tell(Event::Key(key), &self.frames);
        self.value::<3, S>(marks, base, index, out).or(Some((State::Value, colon.at() + 1, 3)))
    }

    /// Takes the value that begins with mark `N`, as [`child`](Self::child) has it.
    #[inline(always)]
    fn value<const N: usize, S: Sink + ?Sized>(
        &mut self,
        marks: &[Mark; AHEAD],
        base: usize,
        index: &Index<'_>,
        out: &mut Out<'_, S>,
    ) -> Option<(State, usize, usize)> {
        let at = marks[N].at();
        let byte = index.byte(at);
        let (end, comma) = match byte {
            b'"' => {
                let close = marks[N + 1].at();
                if close >= index.bytes().len() {
                    return None;
                }
                self.whole_string(Span { start: base + at, end: base + close + 1 }, out);
                (close + 1, N + 2)
            }
            b'-' | b'0'..=b'9' => {
                let end = index.number_end(at).filter(|&end| self.may_follow_value(index.byte(end)))?;
                let span = Span { start: base + at, end: base + end };
                out.tell(Event::Scalar { kind: Scalar::Number, span }, &self.frames);
                (end, N + 1)
            }
            b't' | b'f' | b'n' => {
                let (kind, end) = literal(index.bytes(), at)?;
                out.tell(Event::Scalar { kind, span: Span { start: base + at, end: base + end } }, &self.frames);
                (end, N + 1)
            }
            b'{' | b'[' if self.frames.len() < self.depth => {
                let kind = if byte == b'{' { Kind::Object } else { Kind::Array };
                return Some((self.open(kind, base + at, out), at + 1, N + 1));
            }
            _ => return None,
        };
        let after = self.value_ended(base + end);
        let (due, next) = after.due()?;
        let at = marks[comma].at();
        if index.byte(at) == due { Some((next, at + 1, comma + 1)) } else { Some((after, end, comma)) }
    }

    /// Emits a string that is a value, with its quotes.
    #[inline(always)]
    fn whole_string<S: Sink + ?Sized>(&self, span: Span, out: &mut Out<'_, S>) {
        out.tell(Event::StringBegin(span.start), &self.frames);
        let text = Span { start: span.start + 1, end: span.end - 1 };
        if !text.is_empty() {
            out.tell(Event::Fragment(text), &self.frames);
        }
        out.tell(Event::StringEnd(span), &self.frames);
    }

    /// Ends the open string, whose text begins at `start`; returns the state, and up to where the bytes are taken. Where
    /// the end is not among the marks, that is in the string.
    #[inline(always)]
    fn end_string<S: Sink + ?Sized>(
        &mut self,
        base: usize,
        start: usize,
        index: &mut Index<'_>,
        out: &mut Out<'_, S>,
    ) -> (State, usize) {
        let Some(close) = index.close() else {
            let place = index.last_place(start);
            if index.has_open_escape() {
                self.pending_start = base + place;
            }
            return (State::Plain, place);
        };
        if close.has_escape() {
            self.pending_start = base + close.at();
        }
        let state = self.quote(base + close.at(), out);
        follow(state, close.at() + 1, index)
    }
}

/// Takes at once what nearly always follows a key or a value: a colon or a comma.
#[inline(always)]
fn follow(state: State, taken: usize, index: &mut Index<'_>) -> (State, usize) {
    let Some((due, next)) = state.due() else { return (state, taken) };
    let at = index.peek();
    if index.byte(at) != due {
        return (state, taken);
    }
    index.pass();
    (next, at + 1)
}

/// Returns the literal that begins at `at`, and where it ends, if a byte follows that ends it.
#[inline(always)]
fn literal(bytes: &[u8], at: usize) -> Option<(Scalar, usize)> {
    let rest = bytes.get(at..)?;
    let (kind, length) = match rest.first_chunk()? {
        b"true" => (Scalar::True, 4),
        b"null" => (Scalar::Null, 4),
        b"fals" if rest.get(4) == Some(&b'e') => (Scalar::False, 5),
        _ => return None,
    };
    matches!(rest.get(length)?, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t').then_some((kind, at + length))
}
