//! What a machine tells while it runs: events that name spans of the text, and the sinks that take them.
//!
//! An event is settled when it is told: nothing that it says is changed by what follows. So a number is told with the
//! byte behind it, a key with its closing quote, and an escape, a surrogate pair or a UTF-8 sequence with its last byte.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::stack::{Frame, Kind, Path};
use super::string;

/// A stretch of text, in bytes from the start of all text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last one.
    pub end: usize,
}

impl Span {
    /// The text that it names; empty where `text` does not reach so far.
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }

    /// As a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// It names nothing.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A value that is neither a container nor a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A number of any form.
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// One thing that is certain now.
///
/// A string that is a value comes as `StringBegin`, any number of `Fragment`s, `StringEnd`. How many fragments there
/// are depends on the pushes; joined, they are the text between the quotes. Everything else is the same for every
/// chunking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A container begins, with its bracket at offset `at`.
    Begin {
        /// Object or array.
        kind: Kind,
        /// Offset of the bracket.
        at: usize,
    },
    /// A container has ended.
    End {
        /// Object or array.
        kind: Kind,
        /// Its members or elements.
        count: usize,
        /// The whole container, with its brackets.
        span: Span,
    },
    /// A key has ended: the text between its quotes. [`string::key`] says what it means.
    Key(Span),
    /// A string that is a value begins, with its quote at this offset.
    StringBegin(usize),
    /// The next part of that string, as it is written and never empty. It never ends inside an escape, between the
    /// halves of a surrogate pair or inside a character, so that [`string::decode`] of each part gives the whole.
    Fragment(Span),
    /// The string has ended: all of it, with its quotes.
    StringEnd(Span),
    /// A number, `true`, `false` or `null`, whole.
    Scalar {
        /// Which of them.
        kind: Scalar,
        /// Its text.
        span: Span,
    },
}

impl Event {
    /// The bytes that the event is about.
    pub fn span(&self) -> Span {
        match *self {
            Self::Begin { at, .. } | Self::StringBegin(at) => Span { start: at, end: at.saturating_add(1) },
            Self::End { span, .. } | Self::Scalar { span, .. } => span,
            Self::Key(span) | Self::Fragment(span) | Self::StringEnd(span) => span,
        }
    }

    /// A value begins with it.
    pub fn begins_value(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::StringBegin(_) | Self::Scalar { .. })
    }

    /// A value is whole with it; the root, where no container is open around it.
    pub fn ends_value(&self) -> bool {
        matches!(self, Self::End { .. } | Self::StringEnd(_) | Self::Scalar { .. })
    }

    /// The name in logs: `begin`, `end`, `key`, `string_begin`, `fragment`, `string_end`, `number`, `true`, `false`,
    /// `null`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::End { .. } => "end",
            Self::Key(_) => "key",
            Self::StringBegin(_) => "string_begin",
            Self::Fragment(_) => "fragment",
            Self::StringEnd(_) => "string_end",
            Self::Scalar { kind: Scalar::Number, .. } => "number",
            Self::Scalar { kind: Scalar::True, .. } => "true",
            Self::Scalar { kind: Scalar::False, .. } => "false",
            Self::Scalar { kind: Scalar::Null, .. } => "null",
        }
    }
}

/// Where an event happens.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// All text so far, up to the end of the push at least; spans are of it.
    pub text: &'a str,
    /// The containers around the value (or the key) that the event is about, the root first; never the container
    /// that begins or ends. The last one's count and key name the value.
    pub frames: &'a [Frame],
}

impl<'a> Live<'a> {
    /// The path of the value that the event is about; of a key, that of the member it begins.
    pub fn path(&self) -> Path<'a> {
        Path { frames: self.frames, text: self.text }
    }

    /// What a key says.
    pub fn key(&self, key: Span) -> Cow<'a, str> {
        string::key(key.of(self.text))
    }

    /// What a part of a string says.
    pub fn decoded(&self, fragment: Span) -> Cow<'a, str> {
        string::decode(fragment.of(self.text))
    }
}

/// Takes events, in the order of the text, each once.
///
/// A sink is lent for one push. To see everything it must be lent for all of them, or be brought up to date by
/// [`Document::replay`](crate::Document::replay). Sinks compose: a pair or a triple of sinks is one, and so is an
/// `Option`; `()` takes nothing and costs nothing.
pub trait Sink {
    /// Takes the next event.
    fn event(&mut self, event: Event, live: &Live<'_>);

    /// It looks at nothing: the machine need not find out what it would be told.
    fn is_idle(&self) -> bool {
        false
    }
}

impl Sink for () {
    fn event(&mut self, _: Event, _: &Live<'_>) {}

    #[inline(always)]
    fn is_idle(&self) -> bool {
        true
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        (**self).event(event, live);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        (**self).is_idle()
    }
}

impl<S: Sink> Sink for Option<S> {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        if let Some(sink) = self {
            sink.event(event, live);
        }
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.as_ref().is_none_or(Sink::is_idle)
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        self.0.event(event, live);
        self.1.event(event, live);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.0.is_idle() && self.1.is_idle()
    }
}

impl<A: Sink, B: Sink, C: Sink> Sink for (A, B, C) {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        self.0.event(event, live);
        self.1.event(event, live);
        self.2.event(event, live);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.0.is_idle() && self.1.is_idle() && self.2.is_idle()
    }
}

/// A function as a sink.
///
/// ```
/// use restitch::{Document, json};
///
/// let mut log = Vec::new();
/// let mut document = Document::new(16);
/// let mut sink = json::each(|event, live| log.push(format!("{} {} at {:?}", event.name(), event.span(), live.path())));
/// document.push_with(r#"{"a": [1"#, &mut sink).unwrap();
/// document.push_with("2]", &mut sink).unwrap();
/// assert_eq!(log, [
///     r#"begin 0..1 at """#,
///     r#"key 2..3 at "/a""#,
///     r#"begin 6..7 at "/a""#,
///     r#"number 7..9 at "/a/0""#,
///     r#"end 6..10 at "/a""#,
/// ]);
/// ```
pub fn each<F: FnMut(Event, &Live<'_>)>(take: F) -> Each<F> {
    Each(take)
}

/// A function as a sink; [`each`] makes one.
#[derive(Clone)]
pub struct Each<F>(F);

impl<F> fmt::Debug for Each<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Each(..)")
    }
}

impl<F: FnMut(Event, &Live<'_>)> Sink for Each<F> {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        (self.0)(event, live);
    }
}
