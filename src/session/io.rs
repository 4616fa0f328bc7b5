//! The input and the output of a session.

use std::time::Duration;

use super::{ContinuationStrategy, CutCause, LimitReached, Outcome, Request, SessionEvent};
use crate::provider::wire::Framing;
use crate::provider::{Dialect, Finish};
use crate::splice::SpliceError;

/// An event for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input<'a> {
    /// Text of the call that is open.
    Text(&'a str),
    /// The open call is active: it sent an event without text.
    Activity,
    /// The open call is active: it sent a part of the model's reasoning.
    Reasoning,
    /// The call that is open has used this number of tokens for its whole answer.
    Tokens(u64),
    /// The open or requested call is over.
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
    /// The call sent nothing for the time of this limit.
    TimedOut(LimitReached),
    /// With a refusal, before any answer.
    Rejected {
        /// Why, for people.
        reason: String,
        /// The same call may succeed later (429, 5xx): wait before the next one.
        transient: bool,
        /// How long the refusal asked to wait.
        retry_after: Option<Duration>,
    },
    /// With a refusal, before any answer, because the request is longer than the model takes. The
    /// session asks once more with a rendering instead of the delivered text. If that is too long,
    /// or not shorter, it gives up: [`StopReason::Context`](super::StopReason::Context).
    TooLong(String),
    /// The upstream was not there, or had no room: it refused the connection, or answered 429, 502,
    /// 503 or 529. The session repeats the same call until it is answered or
    /// [`patience`](crate::Limits::with_patience) is used up. Until then
    /// the call is not a failure and does not count.
    Unavailable {
        /// Why, for people.
        reason: String,
        /// How long the upstream asked to wait.
        retry_after: Option<Duration>,
    },
    /// With a refusal before any answer, because the provider does not take a request of this form:
    /// it does not continue a prefill, or takes no grammar. The session asks in another form
    /// immediately, and never in this one again. The call is not a failure and does not count. A
    /// re-prompt that ends so is rejected.
    FormRejected(String),
    /// The call was not made, since the next calls go to another upstream. The session asks
    /// immediately, with that upstream's strategy. The call is not a failure and does not count.
    #[doc(hidden)]
    Redirected(Box<Redirect>),
    /// The call was not made, since most calls to the upstream fail. The session waits as after
    /// [`Unavailable`](Self::Unavailable), then gives up:
    /// [`StopReason::Overload`](super::StopReason::Overload).
    Overloaded,
    /// The call was not made, since the operator has stopped the answer. The session gives up:
    /// [`StopReason::Stopped`](super::StopReason::Stopped).
    Stopped,
}

/// Another upstream, for the calls that follow.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The strategy of its continuation requests.
    pub strategy: ContinuationStrategy,
    /// The API that it is asked by, and how its streams are divided, where they are not those of
    /// the first call.
    pub foreign: Option<(Dialect, Framing)>,
    /// Its name in reports.
    pub upstream: String,
    /// The model that is asked there.
    pub model: String,
}

impl CallEnd {
    /// The name in reports.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Finished(reason) => reason.as_str(),
            Self::Closed => "closed",
            Self::Dropped => "dropped",
            Self::Error(_) => "error",
            Self::TimedOut(_) => "silent",
            Self::Rejected { .. } | Self::FormRejected(_) => "rejected",
            Self::TooLong(_) => "too_long",
            Self::Unavailable { .. } => "unavailable",
            Self::Redirected(_) => "redirected",
            Self::Overloaded => "overloaded",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the reason, in words, if the call was refused.
    #[doc(hidden)]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Rejected { reason, .. }
            | Self::TooLong(reason)
            | Self::Unavailable { reason, .. }
            | Self::FormRejected(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the end of the call was lost: neither the model nor the server has ended it.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Closed | Self::Dropped | Self::TimedOut(_))
    }

    /// Returns the limit that ended the call, if one did.
    #[doc(hidden)]
    pub fn limit(&self) -> Option<&LimitReached> {
        if let Self::TimedOut(limit) = self {
            Some(limit)
        } else {
            None
        }
    }

    /// Returns whether this end is worse than another one, in the order of [`badness`]. A written
    /// error is worse than an end of the stream without one.
    pub(super) fn is_worse_than(&self, other: &Self) -> bool {
        let is_error = matches!((self, other), (Self::Error(_), Self::Closed));
        is_error || badness(self.finish()) > badness(other.finish())
    }

    /// Returns the finish reason, if the call gave one.
    pub(super) fn finish(&self) -> Option<&Finish> {
        if let Self::Finished(reason) = self {
            Some(reason)
        } else {
            None
        }
    }

    /// Returns why text that ends so is cut. `None` where a finish reason is not about a cut, and
    /// for a call that was refused.
    pub fn cause(&self) -> Option<CutCause> {
        match self {
            Self::Finished(Finish::Length) => Some(CutCause::Length),
            Self::Finished(Finish::Stop) => Some(CutCause::PrematureStop),
            Self::Finished(reason) if reason.is_unknown() => Some(CutCause::UnknownFinish),
            Self::Closed => Some(CutCause::Eof),
            Self::Dropped => Some(CutCause::Drop),
            Self::Error(_) => Some(CutCause::InBand),
            Self::TimedOut(_) => Some(CutCause::Idle),
            Self::Finished(_)
            | Self::Rejected { .. }
            | Self::TooLong(_)
            | Self::Unavailable { .. }
            | Self::FormRejected(_)
            | Self::Redirected(_)
            | Self::Overloaded
            | Self::Stopped => None,
        }
    }
}

/// Orders the ends of an incomplete answer: the larger, the worse. Clients treat an answer with one
/// of the best ends as whole. A content filter is the worst, because it forbids another call.
pub(super) fn badness(finish: Option<&Finish>) -> u8 {
    match finish {
        Some(Finish::Stop | Finish::ToolCalls | Finish::FunctionCall) => 0,
        // The meaning of such a reason is unknown.
        Some(Finish::Other(_)) => 1,
        Some(Finish::Length) | None => 2,
        Some(Finish::ContentFilter) => 3,
    }
}

/// An action for the caller, or a report. Outputs are in the order in which they happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Text that continues the text before it. The text of the first answer is never an output:
    /// forward it directly. The same holds after a [`Call`](Self::Call) whose `request.turn` is
    /// `None`.
    Text(String),
    /// A step of the loop: only for logs and pages.
    Event(SessionEvent),
    /// The caller must make a call, not before `at`.
    ///
    /// If `request.turn` is a turn, the call asks for the rest: its text is an [`Input::Text`] and
    /// comes back as [`Text`](Self::Text), without the text that was delivered before. If `request.turn` is
    /// `None`, nothing was delivered yet: the call sends the original request again, and its text
    /// is that of a first answer. It is an [`Input::Text`], too, but not an output: forward it
    /// directly. [`Session::is_first`](super::Session::is_first) distinguishes the two cases.
    Call {
        /// The request of the call.
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
    /// The call ended before anything was delivered.
    Nothing(CallEnd),
    /// The call's text could not be joined, or not to its end.
    Merge(SpliceError),
    /// The call's text completes the arguments of a tool call, which violate the tool's schema at
    /// this JSON Pointer. Nothing of it was sent.
    Schema(String),
    /// The call's text closed a container that lacks what the request's schema requires. The
    /// closing bracket was not sent.
    Shortfall {
        /// The JSON Pointer of the container.
        path: String,
        /// What it lacks, for people.
        missing: String,
    },
    /// The call was refused.
    Rejected(String),
    /// The call's text begins a new document instead of continuing the prefill. `keeps_format`: the
    /// request kept its format, which the provider has applied to the answer alone.
    NewDocument {
        /// See [`PrefillOptions::keeps_format`](super::PrefillOptions::keeps_format).
        keeps_format: bool,
    },
    /// The call's text does not follow the grammar or the schema of its request.
    Unenforced,
}

impl FailureReason {
    /// Returns the reason in one word, for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Nothing(_) => "nothing",
            Self::Merge(_) => "merge",
            Self::Schema(_) => "schema",
            Self::Shortfall { .. } => "shortfall",
            Self::Rejected(_) => "rejected",
            Self::NewDocument { .. } => "new_document",
            Self::Unenforced => "unenforced",
        }
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing(CallEnd::Error(message)) => write!(f, "nothing was delivered: {message}"),
            Self::Nothing(CallEnd::Dropped) => {
                f.write_str("nothing was delivered: the connection was lost")
            }
            Self::Nothing(CallEnd::TimedOut(limit)) => {
                write!(f, "nothing was delivered: the call fell silent ({limit})")
            }
            Self::Nothing(_) => f.write_str("nothing was delivered"),
            Self::Merge(failure) => failure.fmt(f),
            Self::Schema(path) => write!(
                f,
                "the joined arguments violate their tool's schema at `{path}`"
            ),
            Self::Shortfall { missing, .. } => {
                write!(f, "the document was closed too early: {missing}")
            }
            Self::Rejected(reason) => f.write_str(reason),
            Self::NewDocument { .. } => {
                f.write_str("the answer begins a new document instead of continuing the prefill")
            }
            Self::Unenforced => {
                f.write_str("the answer does not follow the grammar or schema of its request")
            }
        }
    }
}
