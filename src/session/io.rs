//! What a session is told, and what it tells.

use std::time::Duration;

use super::{CutCause, Outcome, Request, SessionEvent};
use crate::provider::Finish;
use crate::splice::SpliceError;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input<'a> {
    /// Text of the call that is open.
    Text(&'a str),
    /// The call that is open lives: something came that is no text.
    Activity,
    /// The same, and it was something of what the model thinks before it answers.
    Reasoning,
    /// The call that is open has used this number of tokens for its whole answer.
    Tokens(u64),
    /// The call that is open, or was asked for, is over.
    CallEnd(CallEnd),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd {
    /// With a finish reason.
    Finished(Finish),
    /// Cleanly, without a finish reason.
    Closed,
    /// The connection was lost.
    Dropped,
    /// With an error in the stream.
    Error(String),
    /// Nothing came for the idle time.
    TimedOut,
    /// It was refused before it began.
    Rejected {
        /// Why, for people.
        reason: String,
        /// It may succeed a little later (429, 5xx): wait before the next call.
        transient: bool,
        /// How long it asked to wait.
        retry_after: Option<Duration>,
    },
    /// It was refused before it began since a prefix is not continued: the session asks in words, at once, and from now
    /// on. That is no failure, and the call does not count. A call in words that ends so is rejected.
    PrefillRejected(String),
}

impl CallEnd {
    /// The name in reports.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Finished(reason) => reason.as_str(),
            Self::Closed => "closed",
            Self::Dropped => "dropped",
            Self::Error(_) => "error",
            Self::TimedOut => "silent",
            Self::Rejected { .. } | Self::PrefillRejected(_) => "rejected",
        }
    }

    /// Returns why text that ends so is cut. `None` where a finish reason is not about a cut, and for a call that was
    /// refused.
    pub fn cause(&self) -> Option<CutCause> {
        match self {
            Self::Finished(Finish::Length) => Some(CutCause::Length),
            Self::Finished(Finish::Stop) => Some(CutCause::PrematureStop),
            Self::Closed => Some(CutCause::Eof),
            Self::Dropped => Some(CutCause::Drop),
            Self::Error(_) => Some(CutCause::InBand),
            Self::TimedOut => Some(CutCause::Idle),
            Self::Finished(_) | Self::Rejected { .. } | Self::PrefillRejected(_) => None,
        }
    }
}

/// What is to be done. Everything is in the order in which it happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Text that goes on where the text before it ended. The first answer's own text is not among it: that leaves as
    /// it came.
    Text(String),
    /// A step of the loop: for logs and pages, nothing is to be done.
    Event(SessionEvent),
    /// A call is to be made, not before `at`.
    Call {
        /// What to ask for.
        request: Request,
        /// Since the same moment as `now`.
        at: Duration,
    },
    /// Nothing follows.
    Done(Outcome),
}

/// Why a call counts as a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureReason {
    /// It ended before anything was delivered.
    Nothing(CallEnd),
    /// Its text could not be joined, or not to its end.
    Merge(SpliceError),
    /// It was refused.
    Rejected(String),
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing(CallEnd::Error(message)) => write!(f, "nothing was delivered: {message}"),
            Self::Nothing(CallEnd::Dropped) => f.write_str("nothing was delivered: the connection was lost"),
            Self::Nothing(CallEnd::TimedOut) => f.write_str("nothing was delivered: the call fell silent"),
            Self::Nothing(_) => f.write_str("nothing was delivered"),
            Self::Merge(failure) => failure.fmt(f),
            Self::Rejected(reason) => f.write_str(reason),
        }
    }
}
