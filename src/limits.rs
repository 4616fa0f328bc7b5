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

/// Declares the groups of the limits, with their defaults and the setters of [`Limits`].
macro_rules! declare {
    ($(
        $(#[doc = $group_doc:tt])*
        $(#[derive($derived:ident)])?
        $group:ident: $ty:ident {
            limits { $(
                $(#[doc = $doc:tt])*
                #[arg($($arg:tt)*)]
                $name:ident $(/ $setter:ident)?: $type:ty as $file:ty = $default:expr;
            )* }
            engine { $(
                $(#[doc = $engine_doc:tt])*
                $engine_name:ident $(/ $engine_setter:ident)?: $engine_type:ty as $engine_file:ty = $engine_default:expr;
            )* }
        }
    )+) => {
        $(
            $(#[doc = $group_doc])*
            #[derive(Clone, Debug, PartialEq $(, $derived)?)]
            pub struct $ty {
                $($(#[doc = $doc])* pub $name: $type,)*
                $($(#[doc = $engine_doc])* pub $engine_name: $engine_type,)*
            }

            impl Default for $ty {
                fn default() -> Self {
                    Self { $($name: $default,)* $($engine_name: $engine_default,)* }
                }
            }
        )+

        impl Limits {
            $(
                $(setter!($(#[doc = $doc])* $($setter)? sets $group $name: $type);)*
                $(setter!($(#[doc = $engine_doc])* $($engine_setter)? sets $group $engine_name: $engine_type);)*
            )+
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

/// Calls a macro with the declarations of all limits: one row each, from which this module makes the members of [`Limits`],
/// and the proxy its tables `[limits]` and `[engine]`. In a row are:
///
/// - the documentation; its first paragraph is also the help of the flag, and the description in the schema and the guide,
/// - of `[limits]`, the attributes of the flag,
/// - the name, which is that of the key, and the setter, if there is one,
/// - the type in [`Limits`], and in a configuration file, which checks the range,
/// - the default.
#[doc(hidden)]
#[macro_export]
macro_rules! each_limit {
    ($declare:ident) => {
        $declare! {
            /// Caps on the input: bytes and containers.
            #[derive(Eq)]
            parser: ParserLimits {
                limits {
                    /// Bytes of the text of one answer; a longer first answer passes unread.
                    ///
                    /// Over all of its texts and tool calls, and of its items other than text.
                    /// Default 64 MiB. A continuation that makes the text longer is the last one.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_text_bytes / with_max_text_bytes: usize as Positive = 64 << 20;
                }
                engine {
                    /// Open containers of a document.
                    ///
                    /// Deeper input is an error with its offset. Default 1,024: far more than
                    /// models write, and few readers accept more.
                    max_depth / with_max_depth: usize as Positive = 1024;
                    /// Bytes of a line of an event stream.
                    ///
                    /// Default 16 MiB: a provider that sends its whole answer as one `data:` line
                    /// stays below.
                    max_line_bytes / with_max_line_bytes: usize as Positive = 16 << 20;
                    /// Bytes of an event of a stream, and of a whole body.
                    ///
                    /// Each `data:` line counts with its line end, so that empty ones count too.
                    /// Default 16 MiB.
                    max_event_bytes / with_max_event_bytes: usize as Positive = 16 << 20;
                    /// Bytes of a continuation that are withheld until its seam is decided; at most
                    /// 262144.
                    ///
                    /// Default 64 KiB: a preamble, a fence and the longest anchor fit many times
                    /// over.
                    max_pending_bytes / with_max_pending_bytes: usize as SeamBytes<1> = 64 << 10;
                    /// Last bytes of the delivered text in which a continuation may start; at most
                    /// 262144.
                    ///
                    /// The requested anchor counts wherever it is, and so does the start of the
                    /// root; other text before the window is not searched. Also the size of the
                    /// search window after a continuation has stopped repeating the text. Default
                    /// 64 KiB, more than a model repeats before it writes new text.
                    overlap_window / with_overlap_window: usize as SeamBytes<0> = 64 << 10;
                    /// Remembered children of open containers.
                    ///
                    /// Whole ones, in a `ChildIndex`, over all containers. Default 65,536: more
                    /// rows than a model writes in one answer, and about 3 MiB.
                    max_children / with_max_children: usize as usize = 1 << 16;
                    /// Bytes after a mistake that a guess may read.
                    ///
                    /// A repaired stream withholds the same number. Default 4 KiB: longer than
                    /// nearly all members and elements.
                    max_lookahead / with_max_lookahead: usize as usize = 4 << 10;
                    /// Repairs of one document.
                    ///
                    /// Text that needs more is malformed. Default 65,536.
                    max_repairs / with_max_repairs: usize as usize = 1 << 16;
                    /// Readings that guesses may try for each KiB before a mistake, and for 16 KiB
                    /// more.
                    ///
                    /// Text that needs more is malformed. Default 64: a new mistake needs ten to a
                    /// hundred readings, a mistake made twice before needs one, so only a text full
                    /// of different mistakes reaches the limit.
                    max_readings / with_max_readings: usize as usize = 64;
                    /// Bytes of text before a root; more makes the answer prose.
                    ///
                    /// Default 64 KiB: preambles are far shorter. Unless prose is continued, it is not
                    /// kept then, and the answer passes unread.
                    max_preamble_bytes / with_max_preamble_bytes: usize as usize = 64 << 10;
                }
            }
            /// Caps on the loop that asks for the rest: requests, calls, tokens and time.
            continuation: ContinuationLimits {
                limits {
                    /// Bytes of delivered text that a continuation sends back verbatim.
                    ///
                    /// For a longer text it sends a rendering, if there is one. Also the bytes that
                    /// the model is asked to repeat after a failed join. Default 16 KiB.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_verbatim_context / with_max_verbatim_context: usize as usize = 16 << 10;
                    /// The largest accepted probability of a wrong join, from 0 to 1; 0 joins only
                    /// at the requested position.
                    ///
                    /// Default 0.001.
                    #[arg(long, value_name = "RISK")]
                    max_risk / with_max_risk: f64 as Risk = 0.001;
                    /// Calls after the first one, for one answer.
                    ///
                    /// Default 8.
                    #[arg(long, value_name = "N")]
                    max_continuations / with_max_continuations: u32 as u32 = 8;
                    /// Failures in a row that end the loop.
                    ///
                    /// Default 3.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_consecutive_failures / with_max_consecutive_failures: u32 as u32 = 3;
                    /// Tokens of all answers to one request, after which no call is made; 0: no
                    /// limit.
                    ///
                    /// As the provider counts them. Default: none.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_total_tokens / with_max_total_tokens: Option<u64> as Count = None;
                    /// Tokens of all continuations, as a multiple of the request's own limit; then
                    /// no call is made. It also bounds `raise_max_tokens`.
                    ///
                    /// As with `max_total_tokens`, for further calls to the proxy. If the operator
                    /// allows each call to be longer than the one before, the limits of the calls
                    /// may exceed the request's own by the same number. Default 4: a client that
                    /// limits its tokens limits its cost, and doubled eight times in a row, a limit
                    /// of 100 would be 51,100 tokens.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_extra_tokens / with_max_extra_tokens: u32 as u32 = 4;
                    /// Tokens of all continuations, as a share of the first call's (0.5: one half),
                    /// after which no call is made; 0: no limit.
                    ///
                    /// An open continuation ends when its text exceeds the remaining share. A call
                    /// without a token count from the provider counts by its text, one token for
                    /// four bytes; a call that breaks off counts at least that. A call that breaks
                    /// off without text is not the first one. Default: no such limit.
                    #[arg(long, value_name = "SHARE", hide_short_help = true)]
                    max_extra_share / with_max_extra_share: Option<f64> as Share = None;
                    /// Tokens of the request above which a prefill and words precede another tool or
                    /// schema, which misses the provider's cache of prompts.
                    ///
                    /// Default 20,000: below, the price of reading the prompt again is small beside
                    /// that of an answer.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_uncached_tokens: u64 as u64 = 20_000;
                    /// Time since the first byte of an answer, after which no call is made and an
                    /// open continuation ends; 0: no limit.
                    ///
                    /// Default: none.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    max_total_time / with_max_total_time: Option<Duration> as Time = None;
                    /// How long an answer waits for an upstream that refuses connections, loses
                    /// them or is overloaded; 0: such calls are failures.
                    ///
                    /// The call is repeated until it is answered or this time is over: after a
                    /// refused connection, a connection that is lost before any text, and 429, 502,
                    /// 503 or 529. A `Retry-After` beyond it ends the answer immediately. Default
                    /// 30 s: a server restarts in that time, and few clients wait longer.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    patience / with_patience: Duration as Time = Duration::from_secs(30);
                }
                engine {
                    /// Characters of the anchor of the first question at a cut.
                    ///
                    /// Default 2,048: longer ones are not repeated faithfully.
                    max_anchor_chars / with_max_anchor_chars: usize as usize = 2048;
                    /// Characters of values in the rendering that replaces text beyond
                    /// `max_verbatim_context`.
                    ///
                    /// Default 500.
                    context_budget_chars / with_context_budget_chars: usize as usize = 500;
                    /// `max_risk` for the arguments of a tool call, if it is less.
                    ///
                    /// The client executes arguments that were joined wrongly. Default 0.0001.
                    max_risk_arguments / with_max_risk_arguments: f64 as Risk = 0.0001;
                    /// Continuations in a row without new text that end the loop.
                    ///
                    /// Default 2.
                    max_no_progress / with_max_no_progress: u32 as u32 = 2;
                    /// Answers in a row without reported progress that end the loop.
                    ///
                    /// Those that report no more progress than the one before. A model that was not
                    /// asked for progress reports none. Default 3.
                    max_stalled_reports / with_max_stalled_reports: u32 as u32 = 3;
                    /// How long a fact about a model that a refusal has shown counts; 0: not at
                    /// all.
                    ///
                    /// Default 1 hour: providers change their models, and a wrong hint must not
                    /// last.
                    max_hint_age / with_max_hint_age: Duration as Time = Duration::from_secs(60 * 60);
                    /// Time in which the calls of a model are counted: while most get 429, 5xx or
                    /// no answer, one continuation a second is asked for, and the others wait
                    /// within `patience`; 0: off.
                    ///
                    /// Default 10 s.
                    overload_window / with_overload_window: Duration as Time = Duration::from_secs(10);
                    /// Calls within that time, below which nothing is concluded.
                    ///
                    /// Default 10.
                    overload_min_calls / with_overload_min_calls: u32 as u32 = 10;
                }
            }
            /// Caps on connections: bytes kept for them, and waits.
            #[derive(Eq)]
            transport: TransportLimits {
                limits {
                    /// Bytes read ahead of a slow client.
                    ///
                    /// In addition to the kernel's buffers. Default 128 KiB: an answer of 30,000
                    /// tokens.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_read_ahead_bytes / with_max_read_ahead_bytes: usize as usize = 128 << 10;
                    /// The largest request body, in bytes, whose answer can be continued.
                    ///
                    /// Default 32 MiB. The body is kept for the continuation. A larger one is
                    /// passed through.
                    #[arg(long, value_name = "BYTES")]
                    max_body_bytes / with_max_body_bytes: usize as usize = 32 << 20;
                    /// Silence after which a provider counts as gone while a document is
                    /// incomplete.
                    ///
                    /// Default 60 s.
                    #[arg(long, value_name = "TIME")]
                    idle_timeout / with_idle_timeout: Duration as PositiveTime = Duration::from_secs(60);
                    /// Silence before the first text of an answer, after which a call counts as
                    /// lost.
                    ///
                    /// Default 300 s: a model may think for minutes. In the proxy an answer that
                    /// passes unread ends after the same silence, as a lost connection does.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    first_byte_timeout / with_first_byte_timeout: Duration as PositiveTime = Duration::from_secs(300);
                    /// Time without text or reasoning, after which a call for a document counts as
                    /// lost.
                    ///
                    /// Default 120 s, whatever other events arrive: servers send comments and pings
                    /// while a model does not answer. Before the first text of a call,
                    /// `first_byte_timeout` counts.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    text_timeout / with_text_timeout: Duration as PositiveTime = Duration::from_secs(120);
                    /// Time for a connection to the upstream.
                    ///
                    /// Until it can begin TLS: name lookup, TCP, and the answer of a forward proxy.
                    /// Default 5 s: usually a firewall has dropped a connection that takes longer.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    connect_timeout / with_connect_timeout: Duration as PositiveTime = Duration::from_secs(5);
                    /// Time for TLS on a connection to the upstream.
                    ///
                    /// Default 10 s.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    tls_timeout / with_tls_timeout: Duration as PositiveTime = Duration::from_secs(10);
                    /// Silence to the client, after which the proxy sends a comment; 0: it sends
                    /// none.
                    ///
                    /// While text waits or the rest is asked for, a comment keeps the stream alive.
                    /// Default 5 s: well below the idle time-outs of proxies and clients.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    keep_alive_interval / with_keep_alive_interval: Duration as Time = Duration::from_secs(5);
                }
                engine {
                    /// The longest wait between two calls.
                    ///
                    /// Whatever `Retry-After` says. Default 10 s.
                    max_backoff / with_max_backoff: Duration as Time = Duration::from_secs(10);
                    /// Unused connections to the upstream that each thread keeps, for 50 s at most;
                    /// 0: each call has a connection of its own.
                    ///
                    /// Default 1,024: enough for a second wave of calls to reuse the connections of
                    /// the first one, without new handshakes.
                    max_idle_connections / with_max_idle_connections: usize as usize = 1024;
                }
            }
            /// Caps on the clients of the proxy: their number, their bytes and the time that it
            /// waits for them. The proxy names the cap that was reached to a client that still
            /// listens.
            #[derive(Eq)]
            server: ServerLimits {
                limits {
                    /// Connections of all clients; one more gets 503, or is closed if clients use
                    /// TLS.
                    ///
                    /// Default 4,096; fewer if the process may have fewer files open.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_connections: usize as Positive = 4096;
                    /// Connections of one address or Unix socket; `auto`: 256, or unlimited with
                    /// tokens.
                    ///
                    /// `None` is `auto`.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_connections_per_client: Option<usize> as AutoCount = None;
                    /// Bytes of all incomplete request bodies; one more request gets 503.
                    ///
                    /// Default 256 MiB.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_unfinished_bytes: usize as Positive = 256 << 20;
                    /// Bytes of the head of a request; a larger one gets 431.
                    ///
                    /// Default 64 KiB: room for large cookies and tokens.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_head_bytes: usize as Positive = 64 << 10;
                    /// Fields of the head of a request; more get 431.
                    ///
                    /// Default 100.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_head_fields: usize as Positive = 100;
                    /// Time for the head of a request; then it gets 408.
                    ///
                    /// From a connection's first byte, or from its beginning. Default 10 s.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    head_timeout: Duration as PositiveTime = Duration::from_secs(10);
                    /// Time of a TLS handshake with a client; then the connection is closed.
                    ///
                    /// Default 10 s: it takes two round trips, and a client that needs longer could
                    /// not use the connection. The time of the first head begins after it.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    handshake_timeout: Duration as PositiveTime = Duration::from_secs(10);
                    /// Time without a request, after which a connection is closed.
                    ///
                    /// Default 75 s: longer than the idle time of most clients, so that they close
                    /// first.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    unused_timeout: Duration as PositiveTime = Duration::from_secs(75);
                    /// Silence within the body of a request; then it gets 408.
                    ///
                    /// Default 30 s.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    body_timeout: Duration as PositiveTime = Duration::from_secs(30);
                    /// Time in which a client takes no waiting byte; then its connection is closed.
                    ///
                    /// Default 60 s.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    write_timeout: Duration as PositiveTime = Duration::from_secs(60);
                    /// Time that open answers get when the proxy stops.
                    ///
                    /// Default 30 s.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    drain_timeout: Duration as PositiveTime = Duration::from_secs(30);
                    /// Time for which a proxy that is told to stop still takes requests, while
                    /// `/readyz` is 503; 0: none.
                    ///
                    /// A load balancer needs this time to see the 503. Default 0: without a load
                    /// balancer there is nothing to wait for.
                    #[arg(long, value_name = "TIME", hide_short_help = true)]
                    shutdown_delay: Duration as Time = Duration::ZERO;
                    /// Models with labels of their own in the metrics.
                    ///
                    /// Default 100: clients choose the names, and each one adds some hundred lines
                    /// to a page that is scraped every few seconds. Further models share the label
                    /// `other`.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_metric_models: usize as usize = 100;
                    /// Bytes of text of one answer that the page of the admin listener keeps.
                    ///
                    /// Default 1 MiB: an answer of 250,000 tokens.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_page_answer_bytes: usize as usize = 1 << 20;
                    /// Bytes of text of all answers that the page keeps; the oldest are dropped
                    /// first.
                    ///
                    /// Default 64 MiB.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_page_bytes: usize as usize = 64 << 20;
                }
                engine {
                }
            }
            /// Caps on the answers that the proxy keeps for clients that lose their connection.
            #[derive(Eq)]
            keep: KeepLimits {
                limits {
                    /// The longest time for which a request may keep its answer; 0: none may.
                    ///
                    /// After it was read last. Default 0: no answer is kept, and a client that
                    /// leaves ends its call.
                    #[arg(long, value_name = "TIME")]
                    max_keep_time: Duration as Time = Duration::ZERO;
                    /// Answers that are kept at a time.
                    ///
                    /// Including running ones. Default 1,024. A further answer displaces one of the
                    /// caller with the most answers; if none can give way, it is not kept.
                    #[arg(long, value_name = "N", hide_short_help = true)]
                    max_kept_answers: usize as usize = 1024;
                    /// Bytes of one kept answer.
                    ///
                    /// In memory. Default 16 MiB: some 40,000 events. A longer answer loses its
                    /// first events.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_kept_answer_bytes: usize as Positive = 16 << 20;
                    /// Bytes of all kept answers.
                    ///
                    /// In memory. Default 256 MiB. At this limit ended answers are dropped, first
                    /// those of the caller with the most bytes. If that is not enough, a further
                    /// answer is not kept, and an answer that grows is no longer kept: its present
                    /// readers get the rest.
                    #[arg(long, value_name = "BYTES", hide_short_help = true)]
                    max_kept_bytes: usize as Positive = 256 << 20;
                }
                engine {
                }
            }
        }
    };
}

each_limit!(declare);

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

/// The largest [`max_pending_bytes`](crate::Limits::with_max_pending_bytes) and
/// [`overlap_window`](crate::Limits::with_overlap_window) of a configuration file. Up to 24 candidates
/// read each character of a fragment, so a seam of that size takes tenths of a second.
pub const MAX_SEAM_BYTES: usize = 256 << 10;

/// Returns whether a number can be a [`max_risk`](crate::Limits::with_max_risk).
pub fn is_probability(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}
