//! Every cap of the engine, with its default and the reason for it.

use std::time::Duration;

/// The caps of one answer and of the proxy, in five groups. Reaching one is a named outcome, never
/// a silent loss.
///
/// ```
/// let limits = restitch::Limits::default().with_max_continuations(2);
/// assert_eq!((limits.continuation.max_continuations, limits.parser.max_depth), (2, 1024));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Caps on the input: bytes and containers.
    pub parser: ParserLimits,
    /// Caps on the loop that asks for the rest: requests, calls, tokens and time.
    pub continuation: ContinuationLimits,
    /// Caps on connections: bytes kept for them, and waits.
    pub transport: TransportLimits,
    /// Caps on the clients of the proxy: their number, their bytes and the time that it waits for
    /// them.
    pub server: ServerLimits,
    /// Caps on the answers that the proxy keeps for clients that lose their connection.
    pub keep: KeepLimits,
}

/// Caps on the input: bytes and containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParserLimits {
    /// Open containers of a document. Deeper input is an error with its offset. Default 1,024: far
    /// more than models write, and few readers accept more.
    pub max_depth: usize,
    /// Bytes of a line of an event stream. Default 16 MiB: a provider that sends its whole answer
    /// as one `data:` line stays below.
    pub max_line_bytes: usize,
    /// Bytes of the fields of an event, each `data:` line counted with its line end, so that empty
    /// ones count too. Default 16 MiB.
    pub max_event_bytes: usize,
    /// Bytes of a continuation that the splice may withhold until it decides on the seam. Default
    /// 64 KiB: a preamble, a fence and the longest anchor fit many times over. A configuration file
    /// allows 256 KiB at most.
    pub max_pending_bytes: usize,
    /// Bytes at the end of the delivered text in which a continuation may begin at another position
    /// than the requested anchor. Default 64 KiB, more than a model repeats before it writes new
    /// text. Also the size of the search window after a continuation has stopped repeating the
    /// text. The start of the root counts wherever it is; other text before the window is not
    /// searched. A configuration file allows 256 KiB at most.
    pub overlap_window: usize,
    /// Whole children of open containers that `ChildIndex` remember, over all containers.
    /// Default 65,536: more rows than a model writes in one answer, and about 3 MiB.
    pub max_children: usize,
    /// Bytes after a mistake that are read before a guess about it is accepted; a repaired stream
    /// withholds the same number. Default 4 KiB: longer than nearly all members and elements.
    pub max_lookahead: usize,
    /// Repairs of a document. Text that needs more is malformed. Default 65,536.
    pub max_repairs: usize,
    /// Readings that guesses about mistakes may try, for each KiB of text before the mistake and
    /// for 16 KiB more. Text that needs more is malformed. Default 64: a new mistake needs ten to a
    /// hundred readings, a mistake made twice before needs one, so only a text full of different
    /// mistakes reaches the limit.
    pub max_readings: usize,
    /// Kept bytes of the text of an answer, over all of its texts and tool calls, and of its items
    /// other than text. Default 64 MiB. A longer first answer passes on unread; a continuation that
    /// makes the text longer is the last one.
    pub max_text_bytes: usize,
    /// Bytes of prose that are kept in front of a root. Default 64 KiB: preambles are far shorter.
    /// A text that begins with more prose is not JSON: unless [prose is
    /// continued](crate::session::Prose), it is not kept, and the answer passes on unread.
    pub max_preamble_bytes: usize,
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
            max_readings: 64,
            max_text_bytes: 64 << 20,
            max_preamble_bytes: 64 << 10,
        }
    }
}

/// Caps on the loop that asks for the rest: requests, calls, tokens and time.
#[derive(Clone, Debug, PartialEq)]
pub struct ContinuationLimits {
    /// Characters of the longest anchor of the first question at a cut. Default 2,048: longer ones
    /// are not repeated faithfully.
    pub max_anchor_chars: usize,
    /// Bytes of delivered text that a continuation sends back verbatim. For a longer text it sends
    /// a rendering, if there is one. Also the bytes that the model is asked to repeat after a
    /// failed join. Default 16 KiB.
    pub max_verbatim_context: usize,
    /// Characters of values in the rendering that replaces a longer text. Default 500.
    pub context_budget_chars: usize,
    /// The largest probability of a wrong join that is accepted, between 0 and 1. Default 0.001. 0
    /// joins a fragment only at the requested position.
    pub max_risk: f64,
    /// The same for the arguments of a tool call, if it is less than `max_risk`: the client
    /// executes arguments that were joined wrongly. Default 0.0001.
    pub max_risk_arguments: f64,
    /// Calls after the first one. Default 8.
    pub max_continuations: u32,
    /// Failures in a row that end the loop. Default 3.
    pub max_consecutive_failures: u32,
    /// Fragments in a row that add no new text and end the loop. Default 2.
    pub max_no_progress: u32,
    /// Answers in a row that report no more progress than the one before, and end the loop. Default 3. A model that was
    /// not asked for progress reports none.
    pub max_stalled_reports: u32,
    /// Tokens of all answers to one request together, as the provider counts them. After this
    /// number no further call is made. Default: none.
    pub max_total_tokens: Option<u64>,
    /// Tokens of all further calls to the proxy together, as a multiple of the request's own limit
    /// on its tokens. After them no further call is made, as with `max_total_tokens`. If the
    /// operator allows each call to be longer than the one before, the limits of the calls may
    /// exceed the request's own by the same number. Default 4: a client that limits its tokens
    /// limits its cost, and doubled eight times in a row, a limit of 100 would be 51,100 tokens.
    pub max_extra_tokens: u32,
    /// Tokens of all calls after the first one together, as a share of the first one's. After them
    /// no further call is made, and an open continuation ends when its text exceeds the remaining
    /// share. 0.5 is one half. A call without a token count from the provider counts by its text,
    /// one token for four bytes; a call that breaks off counts at least that. A call that breaks
    /// off without text is not the first one. Default: no such limit.
    pub max_extra_share: Option<f64>,
    /// Tokens of the request above which a question that brings another tool or schema comes after a
    /// prefill and words: it misses the provider's cache of prompts. Default 20,000: below, the price of
    /// reading the prompt again is small beside that of an answer.
    pub max_uncached_tokens: u64,
    /// Time since the first input. After it no further call is made, and an open continuation ends.
    /// Default: none.
    pub max_total_time: Option<Duration>,
    /// How long an answer waits for an upstream that refuses connections, loses them before any
    /// text, or answers 429, 502, 503 or 529. The call is repeated until it is answered or this
    /// time is over. A `Retry-After` beyond it ends the answer immediately. Default 30 s: a server
    /// restarts in that time, and few clients wait longer. Zero: such calls are failures.
    pub patience: Duration,
    /// How long a capability hint is valid. A hint is a fact about a model that a refusal has
    /// shown. Default 1 hour: providers change their models, and a wrong hint must not last. Zero:
    /// nothing is recorded.
    pub max_hint_age: Duration,
    /// Time over which the calls of a model are counted. If most calls got 429 or 5xx, no further
    /// calls are made. Default 10 s. Zero: nothing is counted.
    pub overload_window: Duration,
    /// Calls within `overload_window` below which nothing is concluded. Default 10.
    pub overload_min_calls: u32,
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
            max_extra_tokens: 4,
            max_extra_share: None,
            max_uncached_tokens: 20_000,
            max_total_time: None,
            patience: Duration::from_secs(30),
            max_hint_age: Duration::from_secs(60 * 60),
            overload_window: Duration::from_secs(10),
            overload_min_calls: 10,
        }
    }
}

impl ContinuationLimits {
    /// Lowers `max_total_tokens` to the budget of a request that limits each call to `own` tokens.
    #[doc(hidden)]
    pub fn limit_total_tokens(&mut self, own: u64) {
        let most = own.saturating_add(own.saturating_mul(self.max_extra_tokens.into()));
        self.max_total_tokens = Some(self.max_total_tokens.map_or(most, |total| total.min(most)));
    }
}

/// Caps on connections: bytes kept for them, and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// Bytes read ahead of a slow client, in addition to the kernel's buffers. Default 128 KiB: an
    /// answer of 30,000 tokens.
    pub max_read_ahead_bytes: usize,
    /// Bytes of a request body that is kept for a continuation. Default 32 MiB; a larger one is
    /// streamed through.
    pub max_body_bytes: usize,
    /// Silence after which an upstream that owes the rest of a document counts as gone. Default 60
    /// s.
    pub idle_timeout: Duration,
    /// Silence before the first byte of an answer after which a call counts as failed. Default 300
    /// s: a model may think for minutes. In the proxy an answer that passes unread ends after the
    /// same silence, as a lost connection does.
    pub first_byte_timeout: Duration,
    /// Time without text or reasoning, whatever other events arrive, after which an upstream that
    /// owes the rest of a document counts as gone. Default 120 s: servers send comments and pings
    /// for as long as a model does not answer. Before the first text of a call,
    /// `first_byte_timeout` counts.
    pub text_timeout: Duration,
    /// Time until a connection to the upstream can begin TLS: name lookup, TCP, and the answer of a
    /// forward proxy. Default 5 s: usually a firewall has dropped a connection that takes longer.
    pub connect_timeout: Duration,
    /// Time of TLS on a connection to the upstream. Default 10 s.
    pub tls_timeout: Duration,
    /// Silence towards the client, while it waits for a continuation, after which the proxy sends a
    /// comment to keep the stream alive. Default 5 s: well below the idle time-outs of proxies and
    /// clients. Zero: no comments.
    pub keep_alive_interval: Duration,
    /// The longest wait between two calls, whatever `Retry-After` says. Default 10 s.
    pub max_backoff: Duration,
    /// Unused connections to the upstream that each thread keeps for the next calls, for 50 s at
    /// most. Default 1,024: enough for a second wave of calls to reuse the connections of the first
    /// one, without new handshakes. 0: each call opens a connection.
    pub max_idle_connections: usize,
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            max_read_ahead_bytes: 128 << 10,
            max_body_bytes: 32 << 20,
            idle_timeout: Duration::from_secs(60),
            first_byte_timeout: Duration::from_secs(300),
            text_timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(5),
            tls_timeout: Duration::from_secs(10),
            keep_alive_interval: Duration::from_secs(5),
            max_backoff: Duration::from_secs(10),
            max_idle_connections: 1024,
        }
    }
}

impl TransportLimits {
    /// Returns the silence before the first byte of an answer after which a call counts as failed,
    /// with the limit's name: an upstream that has not answered yet gets no less time than one that
    /// has.
    #[doc(hidden)]
    pub fn first_byte(&self) -> TimeLimit {
        match self.first_byte_timeout >= self.idle_timeout {
            true => TimeLimit {
                name: FIRST_BYTE,
                time: self.first_byte_timeout,
            },
            false => self.idle(),
        }
    }

    /// Returns the silence after which an upstream that has begun to answer counts as gone, with
    /// the limit's name.
    #[doc(hidden)]
    pub fn idle(&self) -> TimeLimit {
        TimeLimit {
            name: "idle_timeout",
            time: self.idle_timeout,
        }
    }

    /// Returns the time without text or reasoning after which an upstream counts as gone, with the
    /// limit's name.
    pub(crate) fn text(&self) -> TimeLimit {
        TimeLimit {
            name: "text_timeout",
            time: self.text_timeout,
        }
    }
}

/// A limit of time, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    /// The key in the configuration file.
    pub name: &'static str,
    /// The value.
    pub time: Duration,
}

/// The name of the limit on the time before the first byte of an answer.
pub const FIRST_BYTE: &str = "first_byte_timeout";

/// Caps on the clients of the proxy: their number, their bytes and the time that it waits for them.
/// The proxy names the cap that was reached to a client that still listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at a time. Default 4,096; fewer if the process may have fewer files open.
    pub max_connections: usize,
    /// Connections at a time from one address; all clients of a Unix socket count as one. Default
    /// 256: one client can't take all.
    pub max_connections_per_client: usize,
    /// Bytes of all unfinished request bodies together. Default 256 MiB.
    pub max_unfinished_bytes: usize,
    /// Bytes of a request's head. Default 64 KiB: room for large cookies and tokens.
    pub max_head_bytes: usize,
    /// Fields of a request's head. Default 100.
    pub max_head_fields: usize,
    /// Time from a connection's first byte, or from its beginning, to the end of a request's head.
    /// Default 10 s.
    pub head_timeout: Duration,
    /// Time of a TLS handshake. Default 10 s: it takes two round trips, and a client that needs
    /// longer could not use the connection. The time of the first head begins after it.
    pub handshake_timeout: Duration,
    /// Time without a request after which a connection is closed. Default 75 s: longer than the
    /// idle time of most clients, so that they close first.
    pub unused_timeout: Duration,
    /// Silence within a request's body. Default 30 s.
    pub body_timeout: Duration,
    /// Time in which a client reads none of the bytes that wait for it. Default 60 s.
    pub write_timeout: Duration,
    /// Time for open answers to end once the proxy is asked to stop. Default 30 s.
    pub drain_timeout: Duration,
    /// Models that have labels of their own in the metrics. Default 100: clients choose the names,
    /// and each one adds some hundred lines to a page that is scraped every few seconds. Further
    /// models share the label `other`.
    pub max_metric_models: usize,
    /// Bytes of text that the page of the admin listener keeps for each answer, if it keeps text.
    /// Default 1 MiB: an answer of 250,000 tokens.
    pub max_page_answer_bytes: usize,
    /// Bytes of text that the page keeps of all answers together. Default 64 MiB. The oldest texts
    /// are dropped for new ones.
    pub max_page_bytes: usize,
}

impl ServerLimits {
    /// Returns the silence within a request's body, with the limit's name.
    #[doc(hidden)]
    pub fn body(&self) -> TimeLimit {
        TimeLimit {
            name: "body_timeout",
            time: self.body_timeout,
        }
    }

    /// Returns the time for open answers to end once the proxy is asked to stop, with the limit's
    /// name.
    #[doc(hidden)]
    pub fn drain(&self) -> TimeLimit {
        TimeLimit {
            name: "drain_timeout",
            time: self.drain_timeout,
        }
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_client: 256,
            max_unfinished_bytes: 256 << 20,
            max_head_bytes: 64 << 10,
            max_head_fields: 100,
            head_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            unused_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            max_metric_models: 100,
            max_page_answer_bytes: 1 << 20,
            max_page_bytes: 64 << 20,
        }
    }
}

/// Caps on the answers that the proxy keeps for clients that lose their connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// The longest time for which a client may ask that its answer be kept after it was read last.
    /// Default 0: no answer is kept, and a client that leaves ends its call.
    pub max_keep_time: Duration,
    /// Answers that are kept at a time, including running ones. Default 1,024. A further answer
    /// displaces one of the caller with the most answers; if none can give way, it is not kept.
    pub max_kept_answers: usize,
    /// Kept bytes of an answer, in memory. Default 16 MiB: some 40,000 events. A longer answer
    /// loses its first events.
    pub max_kept_answer_bytes: usize,
    /// Kept bytes of all answers together, in memory. Default 256 MiB. At this limit ended answers
    /// are dropped, first those of the caller with the most bytes. If that is not enough, a further
    /// answer is not kept, and an answer that grows is no longer kept: its present readers get the
    /// rest.
    pub max_kept_bytes: usize,
}

impl Default for KeepLimits {
    fn default() -> Self {
        Self {
            max_keep_time: Duration::ZERO,
            max_kept_answers: 1024,
            max_kept_answer_bytes: 16 << 20,
            max_kept_bytes: 256 << 20,
        }
    }
}

/// The largest [`max_pending_bytes`](ParserLimits::max_pending_bytes) and
/// [`overlap_window`](ParserLimits::overlap_window) of a configuration file. Up to 24 candidates
/// read each character of a fragment, so a seam of that size takes tenths of a second.
pub const MAX_SEAM_BYTES: usize = 256 << 10;

/// Returns whether a number can be a [`max_risk`](ContinuationLimits::max_risk).
pub fn is_probability(number: f64) -> bool {
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
        with_max_readings max_readings: usize,
        with_max_text_bytes max_text_bytes: usize,
        with_max_preamble_bytes max_preamble_bytes: usize,
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
        with_max_extra_tokens max_extra_tokens: u32,
        with_max_extra_share max_extra_share: Option<f64>,
        with_max_uncached_tokens max_uncached_tokens: u64,
        with_max_total_time max_total_time: Option<Duration>,
        with_patience patience: Duration,
        with_max_hint_age max_hint_age: Duration,
        with_overload_window overload_window: Duration,
        with_overload_min_calls overload_min_calls: u32,
    }
    transport: TransportLimits {
        with_max_read_ahead_bytes max_read_ahead_bytes: usize,
        with_max_body_bytes max_body_bytes: usize,
        with_idle_timeout idle_timeout: Duration,
        with_first_byte_timeout first_byte_timeout: Duration,
        with_text_timeout text_timeout: Duration,
        with_connect_timeout connect_timeout: Duration,
        with_tls_timeout tls_timeout: Duration,
        with_keep_alive_interval keep_alive_interval: Duration,
        with_max_backoff max_backoff: Duration,
        with_max_idle_connections max_idle_connections: usize,
    }
}
