//! The strict grammar of [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259) as a push state
//! machine.
//!
//! Reads each byte once, in chunks of any size, and always knows the open containers, with their
//! keys and counts, and the token of the last byte. It keeps no text and tolerates nothing: a byte
//! that the grammar rejects is returned through [`Machine::deviation`], and the machine stays
//! before that byte.

mod marked;

use serde::Serialize;

use super::close;
use super::event::{Event, ParserView, Scalar, Sink, Span};
use super::grammar::{self, Act, GrammarState, GrammarStep};
use super::scan::{CheckedUtf8, ScanInput, ScanPush};
use super::stack::{Frame, Kind, Path};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::work;

/// A validating push parser that can stop at every byte.
///
/// ```
/// use restitch::internal::json::Machine;
/// use restitch::json::CutState;
///
/// let mut machine = Machine::new(1024);
/// let text = r#"{"items": [1, "tw"#;
/// assert_eq!(machine.feed(text.as_bytes()), Ok(text.len()));
/// assert_eq!(machine.cut_state(), CutState::String);
/// assert_eq!(machine.path(text).to_string(), "/items/1");
/// // It goes on where it stopped, and stops at the end of the root.
/// assert_eq!(machine.feed(br#"o"]} and more"#), Ok(4));
/// assert!(machine.is_done());
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    /// The number of bytes consumed.
    offset: usize,
    state: GrammarState,
    /// Whether the open string is a key.
    in_key: bool,
    /// In an escape, in a UTF-8 sequence or after a high surrogate: the offset where that began.
    /// The text before it is certain.
    pending_start: usize,
    /// The start of the open token; for a string, its opening quote.
    token: usize,
    /// In a string that is a value, during a push: the end of the emitted text.
    emitted: usize,
    frames: Vec<Frame>,
    depth: usize,
}

/// The position of a cut in the grammar: the `in` of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CutState {
    /// Before the root.
    Start,
    /// A value is due: after a colon, after `[`, after a comma in an array.
    Value,
    /// A key is due, is open, or has ended and waits for its colon.
    Key,
    /// Inside a string that is a value.
    String,
    /// Inside an escape, of a value or a key; also between the two halves of a surrogate pair.
    Escape,
    /// Inside a number. Only the next byte shows whether the number has ended.
    Number,
    /// Inside `true`, `false` or `null`.
    Literal,
    /// After a whole value: a comma or a closer is due.
    AfterValue,
    /// The root is closed.
    Done,
}

impl CutState {
    /// Returns the name in reports: `start`, `value`, `key`, `string`, `escape`, `number`,
    /// `literal`, `after_value`, `done`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Value => "value",
            Self::Key => "key",
            Self::String => "string",
            Self::Escape => "escape",
            Self::Number => "number",
            Self::Literal => "literal",
            Self::AfterValue => "after_value",
            Self::Done => "done",
        }
    }
}

fn after_value(parent: Kind) -> GrammarState {
    match parent {
        Kind::Array => GrammarState::AfterElement,
        Kind::Object => GrammarState::AfterMember,
    }
}

/// Takes the bytes that nearly always follow a key or a value: a colon or a comma, and one space.
#[inline(always)]
fn follow<I: ScanInput>(input: &mut I, state: GrammarState) -> GrammarState {
    let Some((due, next)) = state.due() else {
        return state;
    };
    if input.first() != Some(due) {
        return state;
    }
    input.skip(1);
    if input.first() == Some(b' ') {
        input.skip(1);
    }
    next
}

/// The sink of a push, and the text that its events are about.
struct EventOutput<'a, S: ?Sized> {
    text: &'a str,
    sink: &'a mut S,
}

impl<S: Sink + ?Sized> EventOutput<'_, S> {
    #[inline(always)]
    fn tell(&mut self, event: Event, frames: &[Frame]) {
        if !self.sink.is_idle() {
            self.sink.event(
                event,
                &ParserView {
                    text: self.text,
                    frames,
                },
            );
        }
    }
}

impl Machine {
    /// Creates a machine before its first byte. More than `depth` open containers are an error.
    pub fn new(depth: usize) -> Self {
        Self {
            offset: 0,
            state: GrammarState::Start,
            in_key: false,
            pending_start: 0,
            token: 0,
            emitted: 0,
            frames: Vec::new(),
            depth,
        }
    }

    /// Creates a machine whose first byte is at `offset` of a longer text. All its offsets count
    /// from the start of that text.
    pub fn starting_at(offset: usize, depth: usize) -> Self {
        Self {
            offset,
            ..Self::new(depth)
        }
    }

    /// Consumes `bytes` up to the end of the root, and returns their number, which is less than the
    /// length of `bytes` if the root ends inside them. A root that is a number ends with the first
    /// byte after it, or with [`finish`](Self::finish).
    ///
    /// # Errors
    /// Fails at the first byte that the grammar rejects. The bytes before it are consumed, and the
    /// machine stays there: the caller may feed another byte instead.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, SyntaxError> {
        self.take(
            bytes,
            &mut EventOutput {
                text: "",
                sink: &mut (),
            },
        )
    }

    /// Like [`feed`](Self::feed), and emits the certain events to `sink`. `text` is all text from
    /// the start on; the machine consumes the part after its [`offset`](Self::offset). Spans are
    /// offsets in `text`.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed). The events before the deviation were emitted.
    pub fn feed_text<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<usize, SyntaxError> {
        self.take(
            CheckedUtf8::from(text, self.offset),
            &mut EventOutput { text, sink },
        )
    }

    /// Ends the text: a root that is a number ends here.
    ///
    /// # Errors
    /// Fails with [`SyntaxErrorKind::UnexpectedEnd`] if the root is not closed.
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        self.finish_text("", &mut ())
    }

    /// Like [`finish`](Self::finish), and emits a number that ends here to `sink`.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_text<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        if self.frames.is_empty() && self.number_may_end() {
            self.state = self.scalar(Scalar::Number, self.offset, &mut EventOutput { text, sink });
        }
        if self.is_done() {
            return Ok(());
        }
        Err(SyntaxError {
            kind: SyntaxErrorKind::UnexpectedEnd,
            offset: self.offset,
        })
    }

    /// Returns the number of bytes consumed.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the root is closed.
    pub fn is_done(&self) -> bool {
        self.state == GrammarState::Done
    }

    /// Returns the open containers, the root first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the position in the grammar.
    pub fn cut_state(&self) -> CutState {
        self.state.cut_state(self.in_key)
    }

    /// Returns the JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) of the value
    /// that is due or open; after a value or at a key, of the innermost open container. `text` is
    /// all text that was fed to the machine. O(1); printing it is O(depth + length of the path).
    pub fn path<'a>(&'a self, text: &'a str) -> Path<'a> {
        let open = self.frames.len();
        let named = if self.value_is_due_or_open() {
            open
        } else {
            open.saturating_sub(1)
        };
        Path {
            frames: &self.frames[..named],
            text,
        }
    }

    /// Returns where the complete part ends, and overwrites `suffix` with the text that closes it
    /// there: a quote, the rest of a literal, the closing brackets. `None` before the first safe
    /// point. O(depth).
    pub fn close_into(&self, closing: super::CloseOptions, suffix: &mut String) -> Option<usize> {
        close::close_into(self, closing, suffix)
    }

    /// Returns the shortest text that completes the document, and the paths of the values that it
    /// had to invent. `text` is all text that was fed to the machine. See
    /// [`Completion`](super::Completion).
    pub fn completion(&self, text: &str) -> super::Completion {
        close::completion(self, text)
    }

    /// Returns the state of the grammar.
    pub(crate) fn state(&self) -> GrammarState {
        self.state
    }

    /// Whether the open string is a key.
    pub(crate) fn in_key(&self) -> bool {
        self.in_key
    }

    /// Returns where an open escape, UTF-8 sequence or high surrogate began.
    pub(crate) fn pending_start(&self) -> usize {
        self.pending_start
    }

    /// Returns where the open string, number or literal began; meaningful only while one is open.
    pub fn token_start(&self) -> usize {
        self.token
    }

    /// Whether a string is open, key or value.
    pub fn in_string(&self) -> bool {
        self.state.in_string()
    }

    /// Whether a string, number or literal is open.
    pub fn in_token(&self) -> bool {
        self.state.in_token()
    }

    /// Returns the offset up to which an open string is certain.
    pub(crate) fn certain_string(&self) -> usize {
        if self.state == GrammarState::Plain {
            self.offset
        } else {
            self.pending_start
        }
    }

    fn value_is_due_or_open(&self) -> bool {
        self.state.is_in_value(self.in_key)
    }

    /// Picks the fast path for a push of this length.
    #[inline(always)]
    fn take<P: ScanPush, S: Sink + ?Sized>(
        &mut self,
        push: P,
        out: &mut EventOutput<'_, S>,
    ) -> Result<usize, SyntaxError> {
        let Some(word) = push.short() else {
            return self.take_long(push, out);
        };
        // Most pushes of a stream are short, and lie inside a string.
        let length = push.left();
        if self.state == GrammarState::Plain && word.plain() == length {
            self.emitted = self.offset;
            self.offset += length;
            if !self.in_key {
                self.fragment(self.offset, out);
            }
            return Ok(length);
        }
        if self.state.has_runs() && self.state != GrammarState::Plain && word.digits() == length {
            self.offset += length;
            return Ok(length);
        }
        self.emitted = self.certain_string();
        let result = self.run(word, out);
        self.end_fragment(out);
        result
    }

    /// Takes a push of more than eight bytes.
    #[inline(never)]
    fn take_long<P: ScanPush, S: Sink + ?Sized>(
        &mut self,
        push: P,
        out: &mut EventOutput<'_, S>,
    ) -> Result<usize, SyntaxError> {
        self.emitted = self.certain_string();
        let result = if push.left() < marked::SHORTEST {
            self.run(push, out)
        } else {
            self.run_marked(push, out)
        };
        self.end_fragment(out);
        result
    }

    /// At the end of a push: emits the certain part of the open string.
    #[inline(always)]
    fn end_fragment<S: Sink + ?Sized>(&mut self, out: &mut EventOutput<'_, S>) {
        if !out.sink.is_idle() && self.in_string() && !self.in_key {
            self.fragment(self.certain_string(), out);
        }
    }

    /// Runs over the input with the state in a register. The table of the grammar decides every
    /// byte. The fast paths before it take only the bytes that nearly always follow, and only bytes
    /// that the table would take, too.
    #[inline(never)]
    fn run<I: ScanInput, S: Sink + ?Sized>(
        &mut self,
        mut input: I,
        out: &mut EventOutput<'_, S>,
    ) -> Result<usize, SyntaxError> {
        let base = self.offset;
        let len = input.left();
        let mut state = self.state;
        let result = loop {
            if state == GrammarState::Plain {
                input.skip(input.plain());
                while input.first() >= Some(0x80) && input.character() > 0 {
                    input.skip(input.character());
                    input.skip(input.plain());
                }
                if input.first() == Some(b'"') {
                    state = self.quote(base + len - input.left(), out);
                    input.skip(1);
                    state = follow(&mut input, state);
                }
            } else if state.has_runs() {
                input.skip(input.digits());
                match input.first() {
                    Some(b',') if !self.frames.is_empty() => {
                        state = self.scalar(Scalar::Number, base + len - input.left(), out);
                        state = follow(&mut input, state);
                    }
                    Some(b'.') if state == GrammarState::Integer => {
                        input.skip(1);
                        state = GrammarState::Point;
                        if input.digits() > 0 {
                            state = GrammarState::Fraction;
                            continue;
                        }
                    }
                    _ => {}
                }
            }
            let Some(byte) = input.first() else {
                break Ok(len);
            };
            work::bytes_examined(1);
            let at = len - input.left();
            let place = base + at;
            match byte {
                b'"' if state.takes_quote() => {
                    state = self.open_string(place, state, out);
                    input.skip(1);
                    continue;
                }
                b'1'..=b'9' if state.takes_value() => {
                    self.token = place;
                    state = GrammarState::Integer;
                    continue;
                }
                b'-' if state.takes_value() => {
                    self.token = place;
                    input.skip(1);
                    state = if matches!(input.first(), Some(b'1'..=b'9')) {
                        GrammarState::Integer
                    } else {
                        GrammarState::Minus
                    };
                    continue;
                }
                b' ' if state.takes_space() => {
                    input.skip(input.spaces());
                    continue;
                }
                _ => {}
            }
            let act = match grammar::step(state, byte) {
                GrammarStep::Go(next) => {
                    state = next;
                    input.skip(1);
                    continue;
                }
                GrammarStep::Act(act) => act,
            };
            state = match act {
                Act::Pend => {
                    self.pending_start = place;
                    grammar::after(state, byte)
                }
                Act::PendHigh => {
                    self.pending_start = place - 5;
                    GrammarState::High
                }
                Act::Token => {
                    self.token = place;
                    grammar::after(state, byte)
                }
                Act::Quote if state.takes_quote() => self.open_string(place, state, out),
                Act::Quote => self.quote(place, out),
                Act::LiteralEnd => {
                    let kind = match state {
                        GrammarState::Tru => Scalar::True,
                        GrammarState::Fals => Scalar::False,
                        _ => Scalar::Null,
                    };
                    self.scalar(kind, place + 1, out)
                }
                Act::NumberEnd if self.may_follow_value(byte) => {
                    // The byte belongs to the next token.
                    state = self.scalar(Scalar::Number, place, out);
                    continue;
                }
                Act::Object if self.frames.len() < self.depth => {
                    self.open(Kind::Object, place, out)
                }
                Act::Array if self.frames.len() < self.depth => self.open(Kind::Array, place, out),
                Act::Close => self.close(place, out),
                _ if state == GrammarState::Done => break Ok(at),
                // A number that is the root ends with any byte that follows it.
                _ if self.frames.is_empty()
                    && state.number_may_end()
                    && !(state == GrammarState::Zero && byte.is_ascii_digit()) =>
                {
                    state = self.scalar(Scalar::Number, place, out);
                    break Ok(at);
                }
                // A byte that cannot follow a number leaves the number open, because an error must
                // not change the machine.
                _ => {
                    self.state = state;
                    break Err(self.deviation(byte, place));
                }
            };
            input.skip(1);
            state = follow(&mut input, state);
        };
        self.state = state;
        self.offset = base + len - input.left();
        result
    }

    /// Opens a string with the quote at `at`; returns the next state.
    #[inline(always)]
    fn open_string<S: Sink + ?Sized>(
        &mut self,
        at: usize,
        state: GrammarState,
        out: &mut EventOutput<'_, S>,
    ) -> GrammarState {
        self.token = at;
        self.emitted = at + 1;
        self.in_key = state.takes_key();
        if !self.in_key {
            out.tell(Event::StringBegin(at), &self.frames);
        }
        GrammarState::Plain
    }

    /// Opens a container with the bracket at `at`; returns the next state.
    fn open<S: Sink + ?Sized>(
        &mut self,
        kind: Kind,
        at: usize,
        out: &mut EventOutput<'_, S>,
    ) -> GrammarState {
        out.tell(Event::Begin { kind, at }, &self.frames);
        self.frames.push(Frame::open(kind, at));
        match kind {
            Kind::Object => GrammarState::FirstKey,
            Kind::Array => GrammarState::FirstElement,
        }
    }

    /// Ends the open string with the quote at `at`; returns the next state.
    fn quote<S: Sink + ?Sized>(&mut self, at: usize, out: &mut EventOutput<'_, S>) -> GrammarState {
        if self.in_key {
            self.in_key = false;
            if let Some(frame) = self.frames.last_mut() {
                let key = Span {
                    start: self.token + 1,
                    end: at,
                };
                frame.key = key;
                frame.is_escaped = self.pending_start > self.token;
                out.tell(Event::Key(key), &self.frames);
            }
            return GrammarState::Colon;
        }
        self.fragment(at, out);
        out.tell(
            Event::StringEnd(Span {
                start: self.token,
                end: at + 1,
            }),
            &self.frames,
        );
        self.value_ended(at + 1)
    }

    /// Ends the open number or literal before `end`; returns the next state.
    fn scalar<S: Sink + ?Sized>(
        &mut self,
        kind: Scalar,
        end: usize,
        out: &mut EventOutput<'_, S>,
    ) -> GrammarState {
        out.tell(
            Event::Scalar {
                kind,
                span: Span {
                    start: self.token,
                    end,
                },
            },
            &self.frames,
        );
        self.value_ended(end)
    }

    /// Closes the innermost container with the bracket at `at`; returns the next state.
    fn close<S: Sink + ?Sized>(&mut self, at: usize, out: &mut EventOutput<'_, S>) -> GrammarState {
        self.pop(at, out);
        self.value_ended(at + 1)
    }

    /// Removes the innermost container, which ends with the bracket at `at`.
    #[inline(always)]
    fn pop<S: Sink + ?Sized>(&mut self, at: usize, out: &mut EventOutput<'_, S>) {
        if let Some(frame) = self.frames.pop() {
            let span = Span {
                start: frame.start,
                end: at + 1,
            };
            out.tell(
                Event::End {
                    kind: frame.kind,
                    count: frame.count,
                    span,
                },
                &self.frames,
            );
        }
    }

    /// Emits the open string up to `end`, which is an offset in its certain part.
    fn fragment<S: Sink + ?Sized>(&mut self, end: usize, out: &mut EventOutput<'_, S>) {
        if !out.sink.is_idle() && end > self.emitted {
            out.tell(
                Event::Fragment(Span {
                    start: self.emitted,
                    end,
                }),
                &self.frames,
            );
            self.emitted = end;
        }
    }

    /// Records that a child of the innermost container, or the root, is whole; returns the next
    /// state.
    #[inline]
    fn value_ended(&mut self, end: usize) -> GrammarState {
        match self.frames.last_mut() {
            Some(frame) => {
                frame.count += 1;
                frame.end = end;
                after_value(frame.kind)
            }
            None => GrammarState::Done,
        }
    }

    /// Whether the open token is a number that may end here.
    pub(super) fn number_may_end(&self) -> bool {
        self.state.number_may_end()
    }

    fn may_follow_value(&self, byte: u8) -> bool {
        match self.frames.last() {
            Some(frame) => {
                matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t')
                    || char::from(byte) == frame.kind.closer()
            }
            None => true,
        }
    }

    /// Returns the error for `byte` at offset `at` in this state and container. Only this function
    /// creates errors of the grammar.
    #[cold]
    fn deviation(&self, byte: u8, at: usize) -> SyntaxError {
        let is_closer = matches!(byte, b'}' | b']');
        let kind = match self.state {
            GrammarState::Plain | GrammarState::High if byte < 0x20 => {
                SyntaxErrorKind::ControlCharacter(byte)
            }
            state if state.in_open_escape() => SyntaxErrorKind::InvalidEscape(byte),
            state if state.in_string() => SyntaxErrorKind::InvalidUtf8(byte),
            state if state.in_literal() => SyntaxErrorKind::InvalidLiteral(byte),
            state if state.number_may_end() && is_closer => SyntaxErrorKind::MismatchedCloser(byte),
            state if state.in_number() => SyntaxErrorKind::InvalidNumber(byte),
            GrammarState::Start | GrammarState::Value | GrammarState::FirstElement
                if matches!(byte, b'{' | b'[') =>
            {
                SyntaxErrorKind::TooDeep(self.depth)
            }
            GrammarState::AfterElement | GrammarState::AfterMember if is_closer => {
                SyntaxErrorKind::MismatchedCloser(byte)
            }
            _ => SyntaxErrorKind::UnexpectedByte(byte),
        };
        SyntaxError { kind, offset: at }
    }

    /// Begins again with a root at `offset`, and keeps the allocations.
    pub(crate) fn restart(&mut self, offset: usize) {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        *self = Self {
            frames,
            ..Self::starting_at(offset, self.depth)
        };
    }

    /// Creates a machine after a root that ended at `offset`.
    pub(crate) fn ended_at(offset: usize, depth: usize) -> Self {
        Self {
            state: GrammarState::Done,
            ..Self::starting_at(offset, depth)
        }
    }

    /// Like [`feed`](Self::feed), and emits events whose text the sink does not need.
    pub(super) fn feed_with<S: Sink>(
        &mut self,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<usize, SyntaxError> {
        self.take(bytes, &mut EventOutput { text: "", sink })
    }

    /// Ends the open number without a byte that ends it. `text` is as in
    /// [`feed_text`](Self::feed_text); for a sink that needs no text, it may be empty.
    pub(crate) fn end_number<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) {
        if self.number_may_end() {
            self.state = self.scalar(Scalar::Number, self.offset, &mut EventOutput { text, sink });
        }
    }

    /// Resets the machine to `offset`: to the start of the open number or literal, to an offset in
    /// the open string, or before a comma to the end of the last whole child or to the opening
    /// bracket. No event was emitted for the text after `offset`.
    pub(super) fn set_back(&mut self, offset: usize) {
        self.state = match self.frames.last() {
            _ if self.in_string() => GrammarState::Plain,
            None => GrammarState::Start,
            Some(_) if self.in_token() => GrammarState::Value,
            Some(frame) if frame.count > 0 => after_value(frame.kind),
            Some(frame) => match frame.kind {
                Kind::Array => GrammarState::FirstElement,
                Kind::Object => GrammarState::FirstKey,
            },
        };
        self.offset = offset;
    }

    /// Moves from the opening bracket of the innermost container to the end of its last whole
    /// child, which `known` has, without reading the text between them.
    pub(crate) fn skip_children(&mut self, known: &Frame) {
        if let Some(frame) = self.frames.last_mut() {
            let has_key = known.kind == Kind::Object && known.key.start < known.end;
            *frame = Frame {
                key: if has_key { known.key } else { Span::default() },
                ..*known
            };
            self.offset = known.end;
            self.state = after_value(known.kind);
        }
    }
}
