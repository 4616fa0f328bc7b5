//! Errors in the text of scripts.

use std::fmt;

use super::{Behaviour, Side};

/// An error in the text of a script, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The kind of error.
    pub kind: ScriptErrorKind,
    /// Byte offset of the part that is wrong.
    pub offset: usize,
}

/// The kind of a [`ScriptError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptErrorKind {
    /// No behaviour has this name.
    UnknownBehaviour(String),
    /// No end has this name.
    UnknownEnd(String),
    /// A count of bytes or seconds that is not a number, or is too large.
    InvalidNumber(String),
    /// A status that is not an HTTP error.
    InvalidStatus(u16),
    /// A behaviour of first calls after the bar, or one of continuations before it.
    Misplaced(Behaviour),
    /// `@BYTES` after a behaviour that delivers no text of the document.
    UnexpectedBytes(Behaviour),
    /// `LEAD+` before a behaviour that has nothing before it.
    UnexpectedLead(Behaviour),
    /// `!END` after a behaviour that is an end itself.
    UnexpectedEnd(Behaviour),
    /// A script has only one bar, between first calls and continuations.
    SecondBar,
}

impl fmt::Display for ScriptErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownBehaviour(name) => write!(f, "no behaviour is called `{name}`"),
            Self::UnknownEnd(name) => write!(f, "no end is called `{name}`"),
            Self::InvalidNumber(text) => write!(f, "`{text}` is not a number that fits"),
            Self::InvalidStatus(code) => write!(f, "{code} is not an HTTP error (400 to 599)"),
            Self::Misplaced(behaviour) if behaviour.fits(Side::First) => {
                write!(
                    f,
                    "`{behaviour}` answers first calls and cannot come after the `|`"
                )
            }
            Self::Misplaced(behaviour) => {
                write!(
                    f,
                    "`{behaviour}` continues an answer and cannot come before the `|`"
                )
            }
            Self::UnexpectedBytes(behaviour) => {
                write!(
                    f,
                    "`{behaviour}` delivers nothing of the document and takes no `@`"
                )
            }
            Self::UnexpectedLead(behaviour)
                if behaviour.takes_end() && *behaviour != Behaviour::Reasoning =>
            {
                write!(
                    f,
                    "only `tool` has text or a call before it, not `{behaviour}`"
                )
            }
            Self::UnexpectedLead(behaviour) => write!(f, "nothing comes before `{behaviour}`"),
            Self::UnexpectedEnd(behaviour) => {
                write!(f, "`{behaviour}` is an end itself and takes no `!`")
            }
            Self::SecondBar => f.write_str("a second `|`"),
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.offset)
    }
}

impl std::error::Error for ScriptError {}
