//! Errors of the engine: a kind and a byte offset. The rest of a message for people is computed on
//! demand.

use std::fmt;

use serde::{Serialize, Serializer};

/// A position where a text violates the strict grammar of RFC 8259.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The kind of violation.
    pub kind: SyntaxErrorKind,
    /// The offset of the first byte that is not allowed; the length of the text at an early end.
    pub offset: usize,
}

/// A kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// A byte where another value, key or closing bracket was due.
    UnexpectedByte(u8),
    /// A raw control character inside a string.
    ControlCharacter(u8),
    /// A backslash before a character that has no escape, or `\u` without four hexadecimal digits.
    InvalidEscape(u8),
    /// A number that RFC 8259 does not allow: `01`, `1.`, `+1`.
    InvalidNumber(u8),
    /// A letter that does not continue `true`, `false` or `null`.
    InvalidLiteral(u8),
    /// Bytes that are not UTF-8.
    InvalidUtf8(u8),
    /// A closing bracket that does not match the innermost open container.
    MismatchedCloser(u8),
    /// More open containers than [`max_depth`](crate::Limits::with_max_depth)
    /// allows.
    TooDeep(usize),
    /// Something other than white space after the root.
    TrailingText(u8),
    /// More repairs than [`max_repairs`](crate::Limits::with_max_repairs) allows.
    TooManyRepairs(usize),
    /// More readings than [`max_readings`](crate::Limits::with_max_readings) allows.
    TooManyReadings(usize),
    /// The text ended before its root was closed.
    UnexpectedEnd,
}

impl Serialize for SyntaxErrorKind {
    /// As the text of its `Display`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for SyntaxErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |byte: u8| byte.escape_ascii();
        match *self {
            Self::UnexpectedByte(b) => write!(f, "unexpected `{}`", shown(b)),
            Self::ControlCharacter(b) => write!(f, "raw control character 0x{b:02x} in a string"),
            Self::InvalidEscape(b) => write!(f, "invalid escape at `{}`", shown(b)),
            Self::InvalidNumber(b) => write!(f, "invalid number at `{}`", shown(b)),
            Self::InvalidLiteral(b) => write!(f, "invalid literal at `{}`", shown(b)),
            Self::InvalidUtf8(b) => write!(f, "invalid UTF-8 at byte 0x{b:02x}"),
            Self::MismatchedCloser(b) => {
                write!(f, "`{}` closes nothing that is open here", shown(b))
            }
            Self::TooDeep(limit) => write!(
                f,
                "more open containers than the limit `max_depth`, {limit}"
            ),
            Self::TrailingText(b) => write!(f, "text after the root, at `{}`", shown(b)),
            Self::TooManyRepairs(limit) => {
                write!(f, "more repairs than the limit `max_repairs`, {limit}")
            }
            Self::TooManyReadings(limit) => {
                write!(
                    f,
                    "more readings of mistakes than the limit `max_readings`, {limit} for each KiB"
                )
            }
            Self::UnexpectedEnd => f.write_str("the text ends before its root is closed"),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.offset)
    }
}

impl std::error::Error for SyntaxError {}

impl SyntaxError {
    /// Whether the text is not wrong but only too short.
    pub fn is_truncated(&self) -> bool {
        self.kind == SyntaxErrorKind::UnexpectedEnd
    }
}

/// The location of an error, for people.
///
/// ```
/// let mut document = restitch::Document::new(16);
/// let error = document.push("{\"a\": [1,\n  2, x]}").unwrap_err();
/// let place = document.explain(&error);
/// assert_eq!((place.line, place.column, place.path.as_str()), (2, 6, "/a/2"));
/// assert_eq!(place.to_string(), "line 2, column 6 (byte 15), at /a/2: `  2, →x]}`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLocation {
    /// The number of bytes before it.
    pub offset: usize,
    /// The line, from 1 on; lines end with a line feed.
    pub line: usize,
    /// The column in characters, from 1 on.
    pub column: usize,
    /// The JSON Pointer of the value that is due or open there, else of the innermost open
    /// container; empty for the root, or if it is unknown.
    pub path: String,
    /// The error's line, or its part near the error, with an arrow before the error; control
    /// characters as escapes.
    pub excerpt: String,
}

impl SourceLocation {
    /// The number of characters of an excerpt on each side.
    #[doc(hidden)]
    pub const EXCERPT: usize = 32;

    /// Returns the location of any offset in `text`, for example of an event's span. An offset
    /// inside a character counts as its start, one after the end as the end. The path is empty:
    /// [`Document::explain`](crate::Document::explain) sets it. Reads all text before the offset.
    ///
    /// ```
    /// let place = restitch::SourceLocation::at("{\"a\": [1,\n  2, 3]}", 15);
    /// assert_eq!(place.to_string(), "line 2, column 6 (byte 15): `  2, →3]}`");
    /// ```
    pub fn at(text: &str, offset: usize) -> Self {
        let at = (0..=offset.min(text.len()))
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        let (before, after) = text.split_at(at);
        Self::of(before, after, at, String::new())
    }

    /// Describes the location between the text before the error and the text after it.
    pub(crate) fn of(before: &str, after: &str, offset: usize, path: String) -> Self {
        let start = memchr::memrchr(b'\n', before.as_bytes()).map_or(0, |at| at + 1);
        let line = before.get(start..).unwrap_or_default();
        let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
        let near = line
            .char_indices()
            .rev()
            .take(Self::EXCERPT)
            .last()
            .map_or(line.len(), |(at, _)| at);
        let after = after
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(Self::EXCERPT);
        let mut excerpt = String::new();
        for c in line
            .get(near..)
            .unwrap_or_default()
            .chars()
            .chain(['→'])
            .chain(after)
        {
            // An unescaped control character could move the cursor of a reader's terminal.
            if c.is_control() {
                excerpt.extend(c.escape_default());
            } else {
                excerpt.push(c);
            }
        }
        Self {
            offset,
            line: lines + 1,
            column: line.chars().count() + 1,
            path,
            excerpt,
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {} (byte {})",
            self.line, self.column, self.offset
        )?;
        if !self.path.is_empty() {
            write!(f, ", at {}", self.path)?;
        }
        write!(f, ": `{}`", self.excerpt)
    }
}
