//! The strict grammar of [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259) as a push state machine.
//!
//! It sees each byte once, in chunks of any size, and always knows what is open: the containers with their keys and
//! counts, and the token that the last byte stood in. It keeps no text and knows no tolerance: a byte that the
//! grammar does not allow leaves through [`Machine::deviation`], and the machine stays where it was before that byte.

use super::event::{Event, Live, Scalar, Sink, Span};
use super::stack::{Frame, Kind, Path};
use super::{close, scan};
use crate::error::{SyntaxError, SyntaxErrorKind};

/// A validating push parser that can be stopped at every byte.
///
/// ```
/// use restitch::json::{CutState, Machine};
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
    /// Bytes consumed. The state below is the one *before* the byte at this offset.
    offset: usize,
    state: State,
    /// The string that is open is a key.
    in_key: bool,
    /// A `\uD800`–`\uDBFF` has just ended: its other half may follow.
    high: bool,
    /// In an escape, a UTF-8 sequence or behind a high surrogate: where that began. What stands before is certain.
    hold: usize,
    /// Where the open token began; the opening quote of a string.
    token: usize,
    /// In a string that is a value, within a push: what stands before was told to the sink.
    told: usize,
    /// The four digits of a `\u` escape, as far as they came.
    hex: u16,
    frames: Vec<Frame>,
    depth: usize,
}

/// Where in the grammar the text stands: the `in` of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Inside a number. Only the next byte tells whether it has ended.
    Number,
    /// Inside `true`, `false` or `null`.
    Literal,
    /// After a whole value: a comma or a closer is due.
    AfterValue,
    /// The root is closed.
    Done,
}

impl CutState {
    /// The name in reports: `start`, `value`, `key`, `string`, `escape`, `number`, `literal`, `after_value`, `done`.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Start,
    /// After a colon, or after a comma in an array.
    Value,
    /// After `[`: a value or the closer.
    FirstElement,
    /// After `{`: a key or the closer.
    FirstKey,
    /// After a comma in an object.
    Key,
    Colon,
    AfterValue,
    Plain,
    /// After a backslash.
    Escape,
    /// In `\uXXXX`: digits that have come.
    Hex(u8),
    /// In a UTF-8 sequence: bytes that are missing, and the range of the next one
    /// ([Unicode, table 3-7](https://www.unicode.org/versions/latest/core-spec/chapter-3/#G7404)).
    Utf8(u8, u8, u8),
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// A literal, and how many of its letters have come.
    Literal(Literal, u8),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    True,
    False,
    Null,
}

impl Literal {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Null => "null",
        }
    }

    fn scalar(self) -> Scalar {
        match self {
            Self::True => Scalar::True,
            Self::False => Scalar::False,
            Self::Null => Scalar::Null,
        }
    }
}

/// Who is told what a push made certain, and the text that it is about.
struct Out<'a, S: ?Sized> {
    text: &'a str,
    sink: &'a mut S,
}

impl<S: Sink + ?Sized> Out<'_, S> {
    #[inline(always)]
    fn tell(&mut self, event: Event, frames: &[Frame]) {
        if !self.sink.is_idle() {
            self.sink.event(event, &Live { text: self.text, frames });
        }
    }
}

impl Machine {
    /// A machine before its first byte. More than `depth` open containers are an error.
    pub fn new(depth: usize) -> Self {
        Self {
            offset: 0,
            state: State::Start,
            in_key: false,
            high: false,
            hold: 0,
            token: 0,
            told: 0,
            hex: 0,
            frames: Vec::new(),
            depth,
        }
    }

    /// A machine whose first byte stands at `offset` of some text: all its offsets count from the start of that text.
    pub fn starting_at(offset: usize, depth: usize) -> Self {
        Self { offset, ..Self::new(depth) }
    }

    /// Consumes `bytes` up to the end of the root and returns how many that were: all of them, or fewer when the
    /// root ended in between. A root that is a number ends with the first byte behind it, or with [`finish`](Self::finish).
    ///
    /// # Errors
    /// The first byte that the grammar does not allow. What stood before it is consumed, and the machine stands
    /// right before it: another byte may follow there.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, SyntaxError> {
        self.run(bytes, &mut Out { text: "", sink: &mut () })
    }

    /// Like [`feed`](Self::feed), and tells `sink` what is certain now. `text` is all text from the start on, of which
    /// the machine consumes what lies behind its [`offset`](Self::offset): spans are of `text`.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed). What stands before the deviation was told.
    pub fn feed_text<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) -> Result<usize, SyntaxError> {
        let bytes = text.as_bytes().get(self.offset..).unwrap_or_default();
        self.run(bytes, &mut Out { text, sink })
    }

    /// Tells the machine that nothing follows: a root that is a number ends here.
    ///
    /// # Errors
    /// [`SyntaxErrorKind::UnexpectedEnd`] where the root is not closed.
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        self.finish_text("", &mut ())
    }

    /// Like [`finish`](Self::finish), and tells `sink` of a number that ends here.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_text<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) -> Result<(), SyntaxError> {
        if self.frames.is_empty() && self.number_may_end() {
            self.scalar(Scalar::Number, self.offset, &mut Out { text, sink });
        }
        if self.is_done() {
            return Ok(());
        }
        Err(SyntaxError { kind: SyntaxErrorKind::UnexpectedEnd, offset: self.offset })
    }

    /// Bytes consumed.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The root is closed.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The open containers, the root first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Where in the grammar the machine stands.
    pub fn cut_state(&self) -> CutState {
        match self.state {
            State::Start => CutState::Start,
            State::Value | State::FirstElement => CutState::Value,
            State::FirstKey | State::Key | State::Colon => CutState::Key,
            State::AfterValue => CutState::AfterValue,
            State::Escape | State::Hex(_) => CutState::Escape,
            State::Plain if self.high => CutState::Escape,
            State::Plain | State::Utf8(..) if self.in_key => CutState::Key,
            State::Plain | State::Utf8(..) => CutState::String,
            State::Literal(..) => CutState::Literal,
            State::Done => CutState::Done,
            _ => CutState::Number,
        }
    }

    /// The JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) of the value that is due or open; of the
    /// innermost open container where none is (after a value, at a key). `text` is what the machine was fed. O(1); to
    /// print it is O(depth + length of the path).
    pub fn path<'a>(&'a self, text: &'a str) -> Path<'a> {
        let open = self.frames.len();
        let named = if self.value_is_due_or_open() { open } else { open.saturating_sub(1) };
        Path { frames: &self.frames[..named], text }
    }

    /// Where the complete part ends, and into `suffix`, which is overwritten, what closes it there: a quote, the rest
    /// of a literal, the closers. `None` before the first safe point. O(depth).
    pub fn close_into(&self, closing: super::Closing, suffix: &mut String) -> Option<usize> {
        close::close_into(self, closing, suffix)
    }

    /// The shortest text that makes what was fed a whole document, and the paths of what it had to invent. `text` is
    /// what the machine was fed. See [`Completion`](super::Completion).
    pub fn completion(&self, text: &str) -> super::Completion {
        close::completion(self, text)
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn in_key(&self) -> bool {
        self.in_key
    }

    pub(super) fn high(&self) -> bool {
        self.high
    }

    pub(super) fn hex(&self) -> u16 {
        self.hex
    }

    /// Where the open string, number or literal began. Only meaningful while one is open.
    pub fn token_start(&self) -> usize {
        self.token
    }

    /// A string, key or not, is open.
    pub fn in_string(&self) -> bool {
        matches!(self.state, State::Plain | State::Escape | State::Hex(_) | State::Utf8(..))
    }

    /// A string, number or literal is open.
    pub fn in_token(&self) -> bool {
        self.in_string() || matches!(self.cut_state(), CutState::Number | CutState::Literal)
    }

    /// Inside a string: how far it is certain.
    pub(super) fn certain_string(&self) -> usize {
        if self.holds() { self.hold } else { self.offset }
    }

    /// Inside a string: its last bytes are not certain yet, those from `hold` on.
    fn holds(&self) -> bool {
        self.state != State::Plain || self.high
    }

    fn value_is_due_or_open(&self) -> bool {
        match self.cut_state() {
            CutState::Value | CutState::String | CutState::Number | CutState::Literal => true,
            CutState::Escape => !self.in_key,
            _ => false,
        }
    }

    fn run<S: Sink + ?Sized>(&mut self, bytes: &[u8], out: &mut Out<'_, S>) -> Result<usize, SyntaxError> {
        let base = self.offset;
        if !out.sink.is_idle() && self.in_string() {
            self.told = self.certain_string();
        }
        let mut at = 0;
        let result = loop {
            let Some(&byte) = bytes.get(at) else { break Ok(at) };
            if self.state == State::Done {
                break Ok(at);
            }
            match self.step(byte, &bytes[at..], base + at, out) {
                Ok(consumed) => at += consumed,
                Err(error) => break Err(error),
            }
        };
        self.offset = base + at;
        if !out.sink.is_idle() && self.in_string() && !self.in_key {
            self.fragment(self.certain_string(), out);
        }
        result
    }

    /// One byte, or a run of them where they can be skipped in bulk. `rest` begins with `byte`, which stands at
    /// offset `at`. Returns how many bytes were consumed; none where a number ended before `byte`.
    fn step<S: Sink + ?Sized>(
        &mut self,
        byte: u8,
        rest: &[u8],
        at: usize,
        out: &mut Out<'_, S>,
    ) -> Result<usize, SyntaxError> {
        match self.state {
            State::Plain => return self.plain(rest, at, out),
            State::Escape => match byte {
                b'u' => {
                    self.hex = 0;
                    self.state = State::Hex(0);
                }
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    self.high = false;
                    self.state = State::Plain;
                }
                _ => return Err(self.deviation(byte, at)),
            },
            State::Hex(count) => {
                let Some(digit) = char::from(byte).to_digit(16) else { return Err(self.deviation(byte, at)) };
                self.hex = self.hex << 4 | digit as u16;
                self.state = if count < 3 { State::Hex(count + 1) } else { self.escape_ended(at) };
            }
            State::Utf8(missing, low, high) => {
                if !(low..=high).contains(&byte) {
                    return Err(self.deviation(byte, at));
                }
                self.state = if missing > 1 { State::Utf8(missing - 1, 0x80, 0xbf) } else { State::Plain };
            }
            State::Literal(literal, count) => {
                let letters = literal.text().as_bytes();
                if letters[usize::from(count)] != byte {
                    return Err(self.deviation(byte, at));
                }
                if usize::from(count) + 1 < letters.len() {
                    self.state = State::Literal(literal, count + 1);
                } else {
                    self.scalar(literal.scalar(), at + 1, out);
                }
            }
            State::Minus
            | State::Zero
            | State::Integer
            | State::Point
            | State::Fraction
            | State::Exponent
            | State::ExponentSign
            | State::ExponentDigits => return self.number(byte, rest, at, out),
            _ => {
                if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                    return Ok(scan::white_space(rest));
                }
                self.structure(byte, at, out)?;
            }
        }
        Ok(1)
    }

    /// Between tokens, at a byte that is not white space.
    fn structure<S: Sink + ?Sized>(&mut self, byte: u8, at: usize, out: &mut Out<'_, S>) -> Result<(), SyntaxError> {
        match (self.state, byte) {
            (State::FirstElement, b']') | (State::FirstKey, b'}') => self.close(at, out),
            (State::Start | State::Value | State::FirstElement, _) => return self.value(byte, at, out),
            (State::FirstKey | State::Key, b'"') => self.open_string(at, true),
            (State::Colon, b':') => self.state = State::Value,
            (State::AfterValue, _) => match (self.frames.last().map(|frame| frame.kind), byte) {
                (Some(Kind::Array), b',') => self.state = State::Value,
                (Some(Kind::Object), b',') => self.state = State::Key,
                (Some(Kind::Array), b']') | (Some(Kind::Object), b'}') => self.close(at, out),
                _ => return Err(self.deviation(byte, at)),
            },
            _ => return Err(self.deviation(byte, at)),
        }
        Ok(())
    }

    fn value<S: Sink + ?Sized>(&mut self, byte: u8, at: usize, out: &mut Out<'_, S>) -> Result<(), SyntaxError> {
        self.token = at;
        self.state = match byte {
            b'"' => {
                self.open_string(at, false);
                out.tell(Event::StringBegin(at), &self.frames);
                return Ok(());
            }
            b'{' | b'[' => {
                if self.frames.len() >= self.depth {
                    return Err(self.deviation(byte, at));
                }
                let (kind, state) =
                    if byte == b'{' { (Kind::Object, State::FirstKey) } else { (Kind::Array, State::FirstElement) };
                out.tell(Event::Begin { kind, at }, &self.frames);
                self.frames.push(Frame::open(kind, at));
                state
            }
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Integer,
            b't' => State::Literal(Literal::True, 1),
            b'f' => State::Literal(Literal::False, 1),
            b'n' => State::Literal(Literal::Null, 1),
            _ => return Err(self.deviation(byte, at)),
        };
        Ok(())
    }

    fn open_string(&mut self, at: usize, key: bool) {
        self.token = at;
        self.told = at + 1;
        self.in_key = key;
        self.high = false;
        self.state = State::Plain;
    }

    /// Inside a string: skips what stands for itself, then looks at one byte.
    fn plain<S: Sink + ?Sized>(&mut self, rest: &[u8], at: usize, out: &mut Out<'_, S>) -> Result<usize, SyntaxError> {
        let run = scan::plain(rest);
        if run > 0 {
            // A high surrogate waits for a backslash alone: any other byte settles it as a lone one.
            self.high = false;
        }
        let Some(&byte) = rest.get(run) else { return Ok(run) };
        let at = at + run;
        match byte {
            b'"' if self.in_key => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.key = Span { start: self.token + 1, end: at };
                    out.tell(Event::Key(frame.key), &self.frames);
                }
                self.in_key = false;
                self.state = State::Colon;
            }
            b'"' => {
                self.fragment(at, out);
                out.tell(Event::StringEnd(Span { start: self.token, end: at + 1 }), &self.frames);
                self.value_ended(at + 1);
            }
            b'\\' => {
                if !self.high {
                    self.hold = at;
                }
                self.state = State::Escape;
            }
            _ => {
                self.state = match byte {
                    0xc2..=0xdf => State::Utf8(1, 0x80, 0xbf),
                    0xe0 => State::Utf8(2, 0xa0, 0xbf),
                    0xe1..=0xec | 0xee..=0xef => State::Utf8(2, 0x80, 0xbf),
                    0xed => State::Utf8(2, 0x80, 0x9f),
                    0xf0 => State::Utf8(3, 0x90, 0xbf),
                    0xf1..=0xf3 => State::Utf8(3, 0x80, 0xbf),
                    0xf4 => State::Utf8(3, 0x80, 0x8f),
                    // The run before it is consumed all the same: take it first, and come again.
                    _ if run > 0 => return Ok(run),
                    _ => return Err(self.deviation(byte, at)),
                };
                self.high = false;
                self.hold = at;
            }
        }
        Ok(run + 1)
    }

    /// A `\uXXXX` has ended with the byte at `at`.
    fn escape_ended(&mut self, at: usize) -> State {
        match self.hex {
            0xd800..=0xdbff => {
                // Behind another high surrogate, which is lone then, this one is what waits.
                self.hold = at - 5;
                self.high = true;
            }
            _ => self.high = false,
        }
        State::Plain
    }

    fn number<S: Sink + ?Sized>(
        &mut self,
        byte: u8,
        rest: &[u8],
        at: usize,
        out: &mut Out<'_, S>,
    ) -> Result<usize, SyntaxError> {
        self.state = match (self.state, byte) {
            (State::Minus, b'0') => State::Zero,
            (State::Minus, b'1'..=b'9') => State::Integer,
            (State::Integer | State::Fraction | State::ExponentDigits, b'0'..=b'9') => {
                return Ok(rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len()));
            }
            (State::Zero | State::Integer, b'.') => State::Point,
            (State::Zero | State::Integer | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Point, b'0'..=b'9') => State::Fraction,
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign, b'0'..=b'9') => State::ExponentDigits,
            _ if !self.number_may_end() || (self.state == State::Zero && byte.is_ascii_digit()) => {
                return Err(self.deviation(byte, at));
            }
            // The byte behind a number belongs to what follows. At a byte that cannot follow, the number stays open:
            // an error leaves the machine as it was.
            _ if self.may_follow_value(byte) => {
                self.scalar(Scalar::Number, at, out);
                return Ok(0);
            }
            _ => return Err(self.deviation(byte, at)),
        };
        Ok(1)
    }

    /// The open token is a number, and whole if nothing more of it comes.
    pub(super) fn number_may_end(&self) -> bool {
        matches!(self.state, State::Zero | State::Integer | State::Fraction | State::ExponentDigits)
    }

    fn may_follow_value(&self, byte: u8) -> bool {
        match self.frames.last() {
            Some(frame) => {
                matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t') || char::from(byte) == frame.kind.closer()
            }
            None => true,
        }
    }

    fn close<S: Sink + ?Sized>(&mut self, at: usize, out: &mut Out<'_, S>) {
        if let Some(frame) = self.frames.pop() {
            let span = Span { start: frame.start, end: at + 1 };
            out.tell(Event::End { kind: frame.kind, span }, &self.frames);
        }
        self.value_ended(at + 1);
    }

    /// The number or literal that is open ends before `end`.
    fn scalar<S: Sink + ?Sized>(&mut self, kind: Scalar, end: usize, out: &mut Out<'_, S>) {
        out.tell(Event::Scalar { kind, span: Span { start: self.token, end } }, &self.frames);
        self.value_ended(end);
    }

    /// The open string is certain up to `end`.
    fn fragment<S: Sink + ?Sized>(&mut self, end: usize, out: &mut Out<'_, S>) {
        if !out.sink.is_idle() && end > self.told {
            out.tell(Event::Fragment(Span { start: self.told, end }), &self.frames);
            self.told = end;
        }
    }

    fn value_ended(&mut self, end: usize) {
        self.state = match self.frames.last_mut() {
            Some(frame) => {
                frame.count += 1;
                frame.end = end;
                State::AfterValue
            }
            None => State::Done,
        };
    }

    /// The one way out of the grammar: what was wrong with `byte` at offset `at`, in this state and container.
    fn deviation(&self, byte: u8, at: usize) -> SyntaxError {
        let kind = match self.state {
            State::Plain if byte < 0x20 => SyntaxErrorKind::ControlCharacter(byte),
            State::Plain | State::Utf8(..) => SyntaxErrorKind::InvalidUtf8(byte),
            State::Escape | State::Hex(_) => SyntaxErrorKind::InvalidEscape(byte),
            State::Literal(..) => SyntaxErrorKind::InvalidLiteral(byte),
            _ if self.number_may_end() && matches!(byte, b'}' | b']') => SyntaxErrorKind::MismatchedCloser(byte),
            _ if self.cut_state() == CutState::Number => SyntaxErrorKind::InvalidNumber(byte),
            State::Start | State::Value | State::FirstElement if matches!(byte, b'{' | b'[') => {
                SyntaxErrorKind::TooDeep(self.depth)
            }
            State::AfterValue if matches!(byte, b'}' | b']') => SyntaxErrorKind::MismatchedCloser(byte),
            _ => SyntaxErrorKind::UnexpectedByte(byte),
        };
        SyntaxError { kind, offset: at }
    }

    /// A machine behind a root that ended at `offset`.
    pub(crate) fn ended_at(offset: usize, depth: usize) -> Self {
        Self { state: State::Done, ..Self::starting_at(offset, depth) }
    }

    /// Right behind the bracket of the innermost container: goes behind the last whole child of it that `known` has,
    /// without reading what lies between.
    pub(crate) fn stand_behind_child(&mut self, known: &Frame) {
        if let Some(frame) = self.frames.last_mut() {
            let has_key = known.kind == Kind::Object && known.key.start < known.end;
            *frame = Frame { key: if has_key { known.key } else { Span::default() }, ..*known };
            self.offset = known.end;
            self.state = State::AfterValue;
        }
    }
}
