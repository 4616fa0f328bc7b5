//! Errors of the engine: a kind and a byte offset. What a person needs on top is computed on demand.

use std::fmt;

/// Where and how a text leaves the strict grammar of RFC 8259.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What was wrong.
    pub kind: SyntaxErrorKind,
    /// Byte offset of the first byte that cannot stand where it stands; the length of the text at an early end.
    pub offset: usize,
}

/// What was wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// Another value, key or closer was due.
    UnexpectedByte(u8),
    /// A raw control character inside a string.
    ControlCharacter(u8),
    /// A backslash before a character that has no escape, or `\u` without four hexadecimal digits.
    InvalidEscape(u8),
    /// A number that RFC 8259 does not know: `01`, `1.`, `+1`.
    InvalidNumber(u8),
    /// A letter that neither `true`, `false` nor `null` has there.
    InvalidLiteral(u8),
    /// Bytes that are not UTF-8.
    InvalidUtf8(u8),
    /// A closer that does not belong to the innermost open container.
    MismatchedCloser(u8),
    /// More open containers than [`Limits::depth`](crate::Limits::depth) allows.
    TooDeep(usize),
    /// Something other than white space after the root.
    TrailingText(u8),
    /// The text ended before its root was closed.
    UnexpectedEnd,
}

impl fmt::Display for SyntaxErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |byte: u8| char::from(byte).escape_default().to_string();
        match *self {
            Self::UnexpectedByte(b) => write!(f, "unexpected `{}`", shown(b)),
            Self::ControlCharacter(b) => write!(f, "raw control character 0x{b:02x} in a string"),
            Self::InvalidEscape(b) => write!(f, "invalid escape at `{}`", shown(b)),
            Self::InvalidNumber(b) => write!(f, "invalid number at `{}`", shown(b)),
            Self::InvalidLiteral(b) => write!(f, "invalid literal at `{}`", shown(b)),
            Self::InvalidUtf8(b) => write!(f, "invalid UTF-8 at byte 0x{b:02x}"),
            Self::MismatchedCloser(b) => write!(f, "`{}` closes nothing that is open here", shown(b)),
            Self::TooDeep(limit) => write!(f, "more than {limit} open containers"),
            Self::TrailingText(b) => write!(f, "text after the root, at `{}`", shown(b)),
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
