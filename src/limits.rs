//! Every cap of the engine, with its default and the reason for it.

use std::time::Duration;

/// The caps of one answer, in three groups. Reaching one is a named outcome, never a silent loss.
///
/// ```
/// let limits = restitch::Limits::default().with_max_continuations(2);
/// assert_eq!((limits.continuation.max_continuations, limits.parser.max_depth), (2, 1024));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Caps on what is read: bytes and containers.
    pub parser: ParserLimits,
    /// Caps on the loop that asks for the rest: requests, calls, tokens and time.
    pub continuation: ContinuationLimits,
    /// Caps on connections: bytes kept for them, and waits.
    pub transport: TransportLimits,
}

/// Caps on what is read: bytes and containers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParserLimits {
    /// Open containers of one document. Deeper input is an error with its offset. Default 1,024: far above what
    /// models write, and what most readers accept.
    pub max_depth: usize,
    /// Bytes of one line of an event stream. Default 16 MiB: a provider that sends its whole answer as one `data:`
    /// line stays below.
    pub max_line_bytes: usize,
    /// Bytes of the fields of one event, each `data:` line counted with its line end, so that empty ones count too.
    /// Default 16 MiB.
    pub max_event_bytes: usize,
    /// Bytes of a continuation that may wait for the seam's decision. Default 64 KiB: a preamble, a fence and the
    /// longest anchor fit many times over.
    pub max_pending_bytes: usize,
    /// Bytes at the end of the delivered text in which a continuation may begin other than at the asked anchor.
    /// Default 64 KiB, more than a model writes again before it goes on. Where a continuation stops repeating the text,
    /// this many bytes are searched for another place. The start of the root counts wherever it is; other text before
    /// the window is not searched.
    pub overlap_window: usize,
    /// Whole children of open containers that `ChildIndex` remember, over all containers.
    /// Default 65,536: more rows than a model writes in one answer, and about 3 MiB.
    pub max_children: usize,
    /// Bytes after a mistake that are read before a guess about it is accepted; a stream that is repaired holds back as
    /// many. Default 4 KiB: longer than nearly all members and elements.
    pub max_lookahead: usize,
    /// Repairs of one document. The text is malformed where one more would be needed. Default 65,536.
    pub max_repairs: usize,
}

impl Default for ParserLimits {
    fn default() -> Self {
        Self {
            max_depth: 1024,
            max_line_bytes: 16 << 20,
            max_event_bytes: 16 << 20,
            max_pending_bytes: 64 << 10,
            overlap_window: 64 << 10,
            max_children: 1 << 16,
            max_lookahead: 4 << 10,
            max_repairs: 1 << 16,
        }
    }
}

/// Caps on the loop that asks for the rest: requests, calls, tokens and time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ContinuationLimits {
    /// Characters of the longest anchor of the first question at a cut. Default 2,048: longer ones are not repeated
    /// faithfully.
    pub max_anchor_chars: usize,
    /// Bytes of delivered text that a continuation sends back as they are; of a longer one a rendering is sent, where one
    /// is known. Also bytes of the text that is to be repeated after an answer that was not joined. Default 16 KiB.
    pub max_verbatim_context: usize,
    /// Characters of values in the rendering that is sent in place of a longer text. Default 500.
    pub context_budget_chars: usize,
    /// The largest probability of a wrong join that is accepted, between 0 and 1. Default 0.001. 0 joins a fragment only
    /// where it was asked for.
    pub max_risk: f64,
    /// The same for the arguments of a tool call, if it is less than `max_risk`: what is joined wrongly there is executed.
    /// Default 0.0001.
    pub max_risk_arguments: f64,
    /// Calls after the first one. Default 8.
    pub max_continuations: u32,
    /// Failures in a row that end the loop. Default 3.
    pub max_consecutive_failures: u32,
    /// Fragments in a row that bring nothing new and end the loop. Default 2.
    pub max_no_progress: u32,
    /// Answers in a row that say they are no further than the one before, and end the loop. Default 3; a model that is
    /// not asked says nothing.
    pub max_stalled_reports: u32,
    /// Tokens of all answers to one request together, as the provider counts them, behind which no further call is made.
    /// Default: none.
    pub max_total_tokens: Option<u64>,
    /// Time since the first input behind which no further call is made, and one that asks for the rest is ended.
    /// Default: none.
    pub max_total_time: Option<Duration>,
}

impl Default for ContinuationLimits {
    fn default() -> Self {
        Self {
            max_anchor_chars: 2048,
            max_verbatim_context: 16 << 10,
            context_budget_chars: 500,
            max_risk: 0.001,
            max_risk_arguments: 0.0001,
            max_continuations: 8,
            max_consecutive_failures: 3,
            max_no_progress: 2,
            max_stalled_reports: 3,
            max_total_tokens: None,
            max_total_time: None,
        }
    }
}

/// Caps on connections: bytes kept for them, and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportLimits {
    /// Bytes read ahead of a slow client. Default 1 MiB: a reset drops what only the kernel held.
    pub max_read_ahead_bytes: usize,
    /// Bytes of a request body that is kept for a continuation. Default 32 MiB; a larger one is streamed through.
    pub max_body_bytes: usize,
    /// Silence after which an upstream that owes the rest of a document counts as gone. Default 60 s.
    pub idle_timeout: Duration,
    /// Silence before the first byte of an answer after which a call counts as failed. Default 300 s: a model may
    /// think for minutes.
    pub first_byte_timeout: Duration,
    /// Silence towards the client, while it waits for a continuation, after which a comment tells it that the stream
    /// lives. Default 5 s: well below the idle time-outs of proxies and clients. Zero: no comments.
    pub keep_alive_interval: Duration,
    /// The longest wait between two calls, whatever `Retry-After` says. Default 10 s.
    pub max_backoff: Duration,
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            max_read_ahead_bytes: 1 << 20,
            max_body_bytes: 32 << 20,
            idle_timeout: Duration::from_secs(60),
            first_byte_timeout: Duration::from_secs(300),
            keep_alive_interval: Duration::from_secs(5),
            max_backoff: Duration::from_secs(10),
        }
    }
}

/// Returns whether a number can be a [`max_risk`](ContinuationLimits::max_risk).
#[cfg(any(feature = "config", feature = "proxy"))]
pub(crate) fn is_probability(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// Declares a setter for each limit.
macro_rules! setters {
    ($($group:ident: $ty:ident { $($setter:ident $name:ident: $value:ty),+ $(,)? })+) => {
        impl Limits {
            $($(
                #[doc = concat!("Sets [`", stringify!($name), "`](", stringify!($ty), "::", stringify!($name), ").")]
                #[must_use]
                pub fn $setter(mut self, $name: $value) -> Self {
                    self.$group.$name = $name;
                    self
                }
            )+)+
        }
    };
}

setters! {
    parser: ParserLimits {
        with_max_depth max_depth: usize,
        with_max_line_bytes max_line_bytes: usize,
        with_max_event_bytes max_event_bytes: usize,
        with_max_pending_bytes max_pending_bytes: usize,
        with_overlap_window overlap_window: usize,
        with_max_children max_children: usize,
        with_max_lookahead max_lookahead: usize,
        with_max_repairs max_repairs: usize,
    }
    continuation: ContinuationLimits {
        with_max_anchor_chars max_anchor_chars: usize,
        with_max_verbatim_context max_verbatim_context: usize,
        with_context_budget_chars context_budget_chars: usize,
        with_max_risk max_risk: f64,
        with_max_risk_arguments max_risk_arguments: f64,
        with_max_continuations max_continuations: u32,
        with_max_consecutive_failures max_consecutive_failures: u32,
        with_max_no_progress max_no_progress: u32,
        with_max_stalled_reports max_stalled_reports: u32,
        with_max_total_tokens max_total_tokens: Option<u64>,
        with_max_total_time max_total_time: Option<Duration>,
    }
    transport: TransportLimits {
        with_max_read_ahead_bytes max_read_ahead_bytes: usize,
        with_max_body_bytes max_body_bytes: usize,
        with_idle_timeout idle_timeout: Duration,
        with_first_byte_timeout first_byte_timeout: Duration,
        with_keep_alive_interval keep_alive_interval: Duration,
        with_max_backoff max_backoff: Duration,
    }
}
