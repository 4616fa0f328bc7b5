//! Every cap of the engine, with its default and the reason for it.

use std::time::Duration;

/// The limits of an answer and of the proxy. Reaching one is a named outcome, never a silent loss.
///
/// ```
/// use restitch::{Limits, session::Session};
///
/// let limits = Limits::default().with_max_continuations(2).with_max_depth(64);
/// let session = Session::new(limits);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Caps on the input: bytes and containers.
    #[doc(hidden)]
    pub parser: ParserLimits,
    /// Caps on the loop that asks for the rest: requests, calls, tokens and time.
    #[doc(hidden)]
    pub continuation: ContinuationLimits,
    /// Caps on connections: bytes kept for them, and waits.
    #[doc(hidden)]
    pub transport: TransportLimits,
    /// Caps on the clients of the proxy: their number, their bytes and the time that it waits for
    /// them.
    #[doc(hidden)]
    pub server: ServerLimits,
    /// Caps on the answers that the proxy keeps for clients that lose their connection.
    #[doc(hidden)]
    pub keep: KeepLimits,
}

impl Limits {
    /// Returns the defaults with the limits that the bindings and the wire cases can set.
    #[doc(hidden)]
    pub fn of_exchange(
        max_continuations: Option<u32>,
        max_total_time: Option<Duration>,
        idle_timeout: Option<Duration>,
        first_byte_timeout: Option<Duration>,
    ) -> Self {
        let mut limits = Self::default();
        let (loops, transport) = (&mut limits.continuation, &mut limits.transport);
        loops.max_continuations = max_continuations.unwrap_or(loops.max_continuations);
        loops.max_total_time = max_total_time.or(loops.max_total_time);
        transport.idle_timeout = idle_timeout.unwrap_or(transport.idle_timeout);
        transport.first_byte_timeout = first_byte_timeout.unwrap_or(transport.first_byte_timeout);
        limits
    }
}

/// Declares the groups of the limits, with their defaults and the setters of [`Limits`]. In a row are
/// the documentation, the name, the setter if there is one, the type and the default.
macro_rules! declare {
    ($(
        $(#[doc = $group_doc:tt])*
        $group:ident: $ty:ident { $(
            $(#[doc = $doc:tt])*
            $name:ident $(/ $setter:ident)?: $type:ty = $default:expr;
        )* }
    )+) => {
        $(
            $(#[doc = $group_doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $ty {
                $($(#[doc = $doc])* pub $name: $type,)*
            }

            impl Default for $ty {
                fn default() -> Self {
                    Self { $($name: $default,)* }
                }
            }
        )+

        impl Limits {
            $($(setter!($(#[doc = $doc])* $($setter)? sets $group $name: $type);)*)+
        }
    };
}

/// Declares the setter of a limit, with the limit's documentation.
macro_rules! setter {
    ($(#[doc = $doc:tt])* sets $group:ident $name:ident: $type:ty) => {};
    ($(#[doc = $doc:tt])* $setter:ident sets $group:ident $name:ident: $type:ty) => {
        $(#[doc = $doc])*
        #[must_use]
        pub fn $setter(mut self, $name: $type) -> Self {
            self.$group.$name = $name;
            self
        }
    };
}

declare! {
    /// Caps on the input: bytes and containers.
    parser: ParserLimits {
        /// Bytes of the text of one answer; a longer first answer passes unread.
        ///
        /// Over all of its texts and tool calls, and of its items other than text.
        /// Default 64 MiB. A continuation that makes the text longer is the last one.
        max_text_bytes / with_max_text_bytes: usize = 64 << 20;
        /// Open containers of a document.
        ///
        /// Deeper input is an error with its offset. Default 1,024: far more than
        /// models write, and few readers accept more.
        max_depth / with_max_depth: usize = 1024;
        /// Bytes of a line of an event stream.
        ///
        /// Default 16 MiB: a provider that sends its whole answer as one `data:` line
        /// stays below.
        max_line_bytes / with_max_line_bytes: usize = 16 << 20;
        /// Bytes of an event of a stream, and of a whole body.
        ///
        /// Each `data:` line counts with its line end, so that empty ones count too.
        /// Default 16 MiB.
        max_event_bytes / with_max_event_bytes: usize = 16 << 20;
        /// Bytes of a continuation that are withheld until its seam is decided.
        ///
        /// Default 64 KiB: a preamble, a fence and the longest anchor fit many times
        /// over.
        max_pending_bytes / with_max_pending_bytes: usize = 64 << 10;
        /// Last bytes of the delivered text in which a continuation may start.
        ///
        /// The requested anchor counts wherever it is, and so does the start of the
        /// root; other text before the window is not searched. Also the size of the
        /// search window after a continuation has stopped repeating the text. Default
        /// 64 KiB, more than a model repeats before it writes new text.
        overlap_window / with_overlap_window: usize = 64 << 10;
        /// Remembered children of open containers.
        ///
        /// Whole ones, in a `ChildIndex`, over all containers. Default 65,536: more
        /// rows than a model writes in one answer, and about 3 MiB.
        max_children / with_max_children: usize = 1 << 16;
        /// Bytes after a mistake that a guess may read.
        ///
        /// A repaired stream withholds the same number. Default 4 KiB: longer than
        /// nearly all members and elements.
        max_lookahead / with_max_lookahead: usize = 4 << 10;
        /// Repairs of one document.
        ///
        /// Text that needs more is malformed. Default 65,536.
        max_repairs / with_max_repairs: usize = 1 << 16;
        /// Readings that guesses may try for each KiB before a mistake, and for 16 KiB
        /// more.
        ///
        /// Text that needs more is malformed. Default 64: a new mistake needs ten to a
        /// hundred readings, a mistake made twice before needs one, so only a text full
        /// of different mistakes reaches the limit.
        max_readings / with_max_readings: usize = 64;
        /// Bytes of text before a root; more makes the answer prose.
        ///
        /// Default 64 KiB: preambles are far shorter. Unless prose is continued, it is not
        /// kept then, and the answer passes unread.
        max_preamble_bytes / with_max_preamble_bytes: usize = 64 << 10;
    }
    /// Caps on the loop that asks for the rest: requests, calls, tokens and time.
    continuation: ContinuationLimits {
        /// The largest accepted probability of a wrong join, from 0 to 1; 0 joins only
        /// at the requested position.
        ///
        /// Default 0.001.
        max_risk / with_max_risk: f64 = 0.001;
        /// Calls after the first one, for one answer.
        ///
        /// Default 8.
        max_continuations / with_max_continuations: u32 = 8;
        /// Tokens of all continuations, as a multiple of the request's own limit; then no call is
        /// made.
        ///
        /// If the operator allows each call to be longer than the one before, the limits of the
        /// calls may exceed the request's own by the same number. Default 4: a client that limits
        /// its tokens limits its cost, and doubled eight times in a row, a limit of 100 would be
        /// 51,100 tokens.
        max_extra_tokens / with_max_extra_tokens: u32 = 4;
        /// Time since the first byte of an answer, after which no call is made and an
        /// open continuation ends; 0: no limit.
        ///
        /// Default: none.
        max_total_time / with_max_total_time: Option<Duration> = None;
        /// How long an answer waits for an upstream that refuses connections, loses
        /// them or is overloaded; 0: such calls are failures.
        ///
        /// The call is repeated until it is answered or this time is over: after a
        /// refused connection, a connection that is lost before any text, and 429, 502,
        /// 503 or 529. A `Retry-After` beyond it ends the answer immediately. Default
        /// 30 s: a server restarts in that time, and few clients wait longer.
        patience / with_patience: Duration = Duration::from_secs(30);
        /// Bytes of delivered text that a continuation sends back verbatim.
        ///
        /// For a longer text it sends a rendering, if there is one. Also the bytes that
        /// the model is asked to repeat after a failed join. Default 16 KiB.
        max_verbatim_context / with_max_verbatim_context: usize = 16 << 10;
        /// Failures in a row that end the loop.
        ///
        /// Default 3.
        max_consecutive_failures / with_max_consecutive_failures: u32 = 3;
        /// Tokens of all answers to one request, after which no call is made; 0: no
        /// limit.
        ///
        /// As the provider counts them. Default: none.
        max_total_tokens / with_max_total_tokens: Option<u64> = None;
        /// Tokens of the request above which a prefill and words precede another tool or
        /// schema, which misses the provider's cache of prompts.
        ///
        /// Default 20,000: below, the price of reading the prompt again is small beside
        /// that of an answer.
        max_uncached_tokens: u64 = 20_000;
        /// Characters of the anchor of the first question at a cut.
        ///
        /// Default 2,048: longer ones are not repeated faithfully.
        max_anchor_chars / with_max_anchor_chars: usize = 2048;
        /// Characters of values in the rendering that replaces text beyond
        /// `max_verbatim_context`.
        ///
        /// Default 500.
        context_budget_chars / with_context_budget_chars: usize = 500;
        /// `max_risk` for the arguments of a tool call, if it is less.
        ///
        /// The client executes arguments that were joined wrongly. Default 0.0001.
        max_risk_arguments / with_max_risk_arguments: f64 = 0.0001;
        /// Continuations in a row without new text that end the loop.
        ///
        /// Default 2.
        max_no_progress / with_max_no_progress: u32 = 2;
        /// Answers in a row without reported progress that end the loop.
        ///
        /// Those that report no more progress than the one before. A model that was not
        /// asked for progress reports none. Default 3.
        max_stalled_reports / with_max_stalled_reports: u32 = 3;
        /// How long a fact about a model that a refusal has shown counts; 0: not at
        /// all.
        ///
        /// Default 1 hour: providers change their models, and a wrong hint must not
        /// last.
        max_hint_age / with_max_hint_age: Duration = Duration::from_secs(60 * 60);
        /// Time in which the calls of a model are counted: while most get 429, 5xx or
        /// no answer, one continuation a second is asked for, and the others wait
        /// within `patience`; 0: off.
        ///
        /// Default 10 s.
        overload_window / with_overload_window: Duration = Duration::from_secs(10);
        /// Calls within that time, below which nothing is concluded.
        ///
        /// Default 10.
        overload_min_calls / with_overload_min_calls: u32 = 10;
    }
    /// Caps on connections: bytes kept for them, and waits.
    transport: TransportLimits {
        /// The largest request body, in bytes, whose answer can be continued.
        ///
        /// Default 32 MiB. The body is kept for the continuation. A larger one is
        /// passed through.
        max_body_bytes / with_max_body_bytes: usize = 32 << 20;
        /// Silence after which a provider counts as gone while a document is
        /// incomplete.
        ///
        /// Default 60 s.
        idle_timeout / with_idle_timeout: Duration = Duration::from_secs(60);
        /// Silence before the first text of an answer, after which a call counts as
        /// lost.
        ///
        /// Default 300 s: a model may think for minutes. In the proxy an answer that
        /// passes unread ends after the same silence, as a lost connection does.
        first_byte_timeout / with_first_byte_timeout: Duration = Duration::from_secs(300);
        /// Silence to the client, after which the proxy sends a comment; 0: it sends
        /// none.
        ///
        /// While text waits or the rest is asked for, a comment keeps the stream alive.
        /// Default 5 s: well below the idle time-outs of proxies and clients.
        keep_alive_interval / with_keep_alive_interval: Duration = Duration::from_secs(5);
        /// Bytes read ahead of a slow client.
        ///
        /// In addition to the kernel's buffers. Default 128 KiB: an answer of 30,000
        /// tokens.
        max_read_ahead_bytes / with_max_read_ahead_bytes: usize = 128 << 10;
        /// Time without text or reasoning, after which a call for a document counts as
        /// lost.
        ///
        /// Default 120 s, whatever other events arrive: servers send comments and pings
        /// while a model does not answer. Before the first text of a call,
        /// `first_byte_timeout` counts.
        text_timeout / with_text_timeout: Duration = Duration::from_secs(120);
        /// Time for a connection to the upstream.
        ///
        /// Until it can begin TLS: name lookup, TCP, and the answer of a forward proxy.
        /// Default 5 s: usually a firewall has dropped a connection that takes longer.
        connect_timeout / with_connect_timeout: Duration = Duration::from_secs(5);
        /// Time for TLS on a connection to the upstream.
        ///
        /// Default 10 s.
        tls_timeout / with_tls_timeout: Duration = Duration::from_secs(10);
        /// The longest wait between two calls.
        ///
        /// Whatever `Retry-After` says. Default 10 s.
        max_backoff / with_max_backoff: Duration = Duration::from_secs(10);
        /// Unused connections to the upstream that each thread keeps, for 50 s at most;
        /// 0: each call has a connection of its own.
        ///
        /// Default 1,024: enough for a second wave of calls to reuse the connections of
        /// the first one, without new handshakes.
        max_idle_connections / with_max_idle_connections: usize = 1024;
    }
    /// Caps on the clients of the proxy: their number, their bytes and the time that it
    /// waits for them. The proxy names the cap that was reached to a client that still
    /// listens.
    server: ServerLimits {
        /// Connections of all clients; one more gets 503, or is closed if clients use
        /// TLS.
        ///
        /// Default 4,096; fewer if the process may have fewer files open.
        max_connections: usize = 4096;
        /// Connections of one address or Unix socket; `auto`: 256, or unlimited with
        /// tokens.
        ///
        /// `None` is `auto`.
        max_connections_per_client: Option<usize> = None;
        /// Bytes of all incomplete request bodies; one more request gets 503.
        ///
        /// Default 256 MiB.
        max_unfinished_bytes: usize = 256 << 20;
        /// Time without a request, after which a connection is closed.
        ///
        /// Default 75 s: longer than the idle time of most clients, so that they close
        /// first.
        unused_timeout: Duration = Duration::from_secs(75);
        /// Time that open answers get when the proxy stops.
        ///
        /// Default 30 s.
        drain_timeout: Duration = Duration::from_secs(30);
        /// Time for which a proxy that is told to stop still takes requests, while
        /// `/readyz` is 503; 0: none.
        ///
        /// A load balancer needs this time to see the 503. Default 0: without a load
        /// balancer there is nothing to wait for.
        shutdown_delay: Duration = Duration::ZERO;
        /// Bytes of the head of a request; a larger one gets 431.
        ///
        /// Default 64 KiB: room for large cookies and tokens.
        max_head_bytes: usize = 64 << 10;
        /// Fields of the head of a request; more get 431.
        ///
        /// Default 100.
        max_head_fields: usize = 100;
        /// Time for the head of a request; then it gets 408.
        ///
        /// From a connection's first byte, or from its beginning. Default 10 s.
        head_timeout: Duration = Duration::from_secs(10);
        /// Time of a TLS handshake with a client; then the connection is closed.
        ///
        /// Default 10 s: it takes two round trips, and a client that needs longer could
        /// not use the connection. The time of the first head begins after it.
        handshake_timeout: Duration = Duration::from_secs(10);
        /// Silence within the body of a request; then it gets 408.
        ///
        /// Default 30 s.
        body_timeout: Duration = Duration::from_secs(30);
        /// Time in which a client takes no waiting byte; then its connection is closed.
        ///
        /// Default 60 s.
        write_timeout: Duration = Duration::from_secs(60);
        /// Models with labels of their own in the metrics.
        ///
        /// Default 100: clients choose the names, and each one adds some hundred lines
        /// to a page that is scraped every few seconds. Further models share the label
        /// `other`.
        max_metric_models: usize = 100;
        /// Bytes of text of one answer that the page of the admin listener keeps.
        ///
        /// Default 1 MiB: an answer of 250,000 tokens.
        max_page_answer_bytes: usize = 1 << 20;
        /// Bytes of text of all answers that the page keeps; the oldest are dropped
        /// first.
        ///
        /// Default 64 MiB.
        max_page_bytes: usize = 64 << 20;
    }
    /// Caps on the answers that the proxy keeps for clients that lose their connection.
    keep: KeepLimits {
        /// The longest time for which a request may keep its answer; 0: none may.
        ///
        /// After it was read last. Default 0: no answer is kept, and a client that
        /// leaves ends its call.
        max_keep_time: Duration = Duration::ZERO;
        /// Answers that are kept at a time.
        ///
        /// Including running ones. Default 1,024. A further answer displaces one of the
        /// caller with the most answers; if none can give way, it is not kept.
        max_kept_answers: usize = 1024;
        /// Bytes of all kept answers.
        ///
        /// In memory. Default 256 MiB. At this limit ended answers are dropped, first
        /// those of the caller with the most bytes. If that is not enough, a further
        /// answer is not kept, and an answer that grows is no longer kept: its present
        /// readers get the rest.
        max_kept_bytes: usize = 256 << 20;
        /// Bytes of one kept answer.
        ///
        /// In memory. Default 16 MiB: some 40,000 events. A longer answer loses its
        /// first events.
        max_kept_answer_bytes: usize = 16 << 20;
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

/// Returns whether a number can be a [`max_risk`](crate::Limits::with_max_risk).
pub fn is_probability(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}
