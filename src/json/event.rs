//! The events that a machine emits while it runs, which name spans of the text, and the sinks that
//! take them.
//!
//! An event is final when it is emitted: later text does not change it. So a number is emitted with
//! the byte after it, a key with its closing quote, and an escape, a surrogate pair or a UTF-8
//! sequence with its last byte.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::repair::Repair;
use super::stack::{Frame, Kind, Path};
use super::string;

/// A range of bytes, counted from the start of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the text in this range; empty if `text` is shorter.
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }

    /// Returns the span as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span is empty.
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
    /// A number, with or without sign, fraction and exponent.
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// A report about a certain part of the text.
///
/// A string that is a value is emitted as `StringBegin`, any number of `Fragment`s, `StringEnd`.
/// The number of fragments depends on the pushes; joined, they are the text between the quotes. All
/// other events are the same for every chunking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A container begins.
    Begin {
        /// Object or array.
        kind: Kind,
        /// The offset of the opening bracket.
        at: usize,
    },
    /// A container has ended.
    End {
        /// Object or array.
        kind: Kind,
        /// The number of its members or elements.
        count: usize,
        /// The whole container, with its brackets.
        span: Span,
    },
    /// A key has ended: the text between its quotes. [`string::key`] decodes it.
    Key(Span),
    /// A string that is a value begins, with its opening quote at this offset.
    StringBegin(usize),
    /// The next raw part of that string, never empty. A fragment never ends inside an escape,
    /// between the halves of a surrogate pair or inside a character, so [`string::decode`] can
    /// decode each one alone.
    Fragment(Span),
    /// The string has ended. The span is the whole string, with its quotes.
    StringEnd(Span),
    /// A number, `true`, `false` or `null` has ended.
    Scalar {
        /// The number or literal.
        kind: Scalar,
        /// Its text.
        span: Span,
    },
    /// The text of a root is prose after all, as in `[INST] {"a": 1}`: its events are void. The
    /// span ends where that shows.
    Withdrawn(Span),
}

impl Event {
    /// Returns the bytes that the event is about.
    pub fn span(&self) -> Span {
        match *self {
            Self::Begin { at, .. } | Self::StringBegin(at) => Span {
                start: at,
                end: at.saturating_add(1),
            },
            Self::End { span, .. } | Self::Scalar { span, .. } => span,
            Self::Key(span) | Self::Fragment(span) | Self::StringEnd(span) => span,
            Self::Withdrawn(span) => span,
        }
    }

    /// Whether the event begins a value.
    pub fn begins_value(&self) -> bool {
        matches!(
            self,
            Self::Begin { .. } | Self::StringBegin(_) | Self::Scalar { .. }
        )
    }

    /// Whether the event ends a value: the root, if no container is open around it.
    pub fn ends_value(&self) -> bool {
        matches!(
            self,
            Self::End { .. } | Self::StringEnd(_) | Self::Scalar { .. }
        )
    }

    /// Returns the name in logs: `begin`, `end`, `key`, `string_begin`, `fragment`, `string_end`,
    /// `number`, `true`, `false`, `null`, `withdrawn`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::End { .. } => "end",
            Self::Key(_) => "key",
            Self::StringBegin(_) => "string_begin",
            Self::Fragment(_) => "fragment",
            Self::StringEnd(_) => "string_end",
            Self::Withdrawn(_) => "withdrawn",
            Self::Scalar {
                kind: Scalar::Number,
                ..
            } => "number",
            Self::Scalar {
                kind: Scalar::True, ..
            } => "true",
            Self::Scalar {
                kind: Scalar::False,
                ..
            } => "false",
            Self::Scalar {
                kind: Scalar::Null, ..
            } => "null",
        }
    }
}

/// The context of an event.
#[derive(Clone, Copy, Debug)]
pub struct ParserView<'a> {
    /// All text so far, up to the end of the push or beyond; spans are offsets in it.
    pub text: &'a str,
    /// The containers around the value or key that the event is about, the root first, without the
    /// container that begins or ends. The last frame's count and key name the value.
    #[doc(hidden)]
    pub frames: &'a [Frame],
}

impl<'a> ParserView<'a> {
    /// Returns the path of the value that the event is about; for a key, the path of its member.
    /// Its length is the number of containers around the value.
    pub fn path(&self) -> Path<'a> {
        Path {
            frames: self.frames,
            text: self.text,
        }
    }

    /// Decodes a key.
    pub fn key(&self, key: Span) -> Cow<'a, str> {
        string::key(key.of(self.text))
    }

    /// Decodes a part of a string.
    pub fn decoded(&self, fragment: Span) -> Cow<'a, str> {
        string::decode(fragment.of(self.text))
    }
}

/// A receiver of events. It gets each event once, in the order of the text.
///
/// A sink is lent for one push. To see all events, lend it to every push, or bring it up to date
/// with [`Document::replay`](crate::Document::replay). Sinks compose: a pair or a triple of sinks
/// is a sink, and so is an `Option`; `()` ignores everything and costs nothing.
pub trait Sink {
    /// Takes the next event.
    fn event(&mut self, event: Event, live: &ParserView<'_>);

    /// Takes the next change of the text, once it is final. The spans of events are in the text
    /// after it.
    fn repaired(&mut self, repair: &Repair) {
        let _ = repair;
    }

    /// Whether the sink ignores all events, so that the machine need not compute them.
    fn is_idle(&self) -> bool {
        false
    }
}

impl Sink for () {
    fn event(&mut self, _: Event, _: &ParserView<'_>) {}

    #[inline(always)]
    fn is_idle(&self) -> bool {
        true
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        (**self).event(event, live);
    }

    fn repaired(&mut self, repair: &Repair) {
        (**self).repaired(repair);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        (**self).is_idle()
    }
}

impl<S: Sink> Sink for Option<S> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        if let Some(sink) = self {
            sink.event(event, live);
        }
    }

    fn repaired(&mut self, repair: &Repair) {
        if let Some(sink) = self {
            sink.repaired(repair);
        }
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.as_ref().is_none_or(Sink::is_idle)
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.0.event(event, live);
        self.1.event(event, live);
    }

    fn repaired(&mut self, repair: &Repair) {
        self.0.repaired(repair);
        self.1.repaired(repair);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.0.is_idle() && self.1.is_idle()
    }
}

impl<A: Sink, B: Sink, C: Sink> Sink for (A, B, C) {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.0.event(event, live);
        self.1.event(event, live);
        self.2.event(event, live);
    }

    fn repaired(&mut self, repair: &Repair) {
        self.0.repaired(repair);
        self.1.repaired(repair);
        self.2.repaired(repair);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.0.is_idle() && self.1.is_idle() && self.2.is_idle()
    }
}

/// Returns a sink that calls a function for each event.
///
/// ```
/// use restitch::Document;
/// use restitch::internal::json::each;
///
/// let mut log = Vec::new();
/// let mut document = Document::new(16);
/// let mut sink = each(|event, live| log.push(format!("{} {} at {:?}", event.name(), event.span(), live.path())));
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
pub fn each<F: FnMut(Event, &ParserView<'_>)>(take: F) -> Each<F> {
    Each(take)
}

/// A sink that calls a function; [`each`] makes one.
#[derive(Clone)]
pub struct Each<F>(F);

impl<F> fmt::Debug for Each<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Each(..)")
    }
}

impl<F: FnMut(Event, &ParserView<'_>)> Sink for Each<F> {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        (self.0)(event, live);
    }
}
