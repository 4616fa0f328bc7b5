//! `[limits]`: the bytes, counts, times and risks that an operator limits; `[engine]`: those that
//! are best left alone.

use serde::{Deserialize, Serialize};

use super::Config;
use super::value::{Count, Positive, PositiveTime, Risk, SeamBytes, Share, Time};
use restitch::Limits;

/// Declares the two tables: their keys are the members of [`Limits`], with their defaults.
macro_rules! tables {
    ($($group:ident: $ty:ident {
        limits { $($(#[$meta:meta])* $key:ident: $type:ty,)* }
        engine { $($(#[$engine_meta:meta])* $engine_key:ident: $engine_type:ty,)* }
    })+) => {
        /// `[limits]`.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, clap::Args)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct LimitsConfig {
            $($($(#[$meta])* pub $key: $type,)*)+
        }

        /// `[engine]`: bounds on the work for unusual answers. Leave these alone.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct EngineConfig {
            $($($(#[$engine_meta])* pub $engine_key: $engine_type,)*)+
        }

        impl Config {
            /// Returns the limits of `[limits]` and `[engine]`.
            pub fn all_limits(&self) -> Limits {
                let mut limits = Limits::default();
                $(
                    $(limits.$group.$key = self.limits.$key.into();)*
                    $(limits.$group.$engine_key = self.engine.$engine_key.into();)*
                )+
                limits
            }
        }

        fn split(limits: Limits) -> (LimitsConfig, EngineConfig) {
            // The members are named one by one, so that a limit without a key does not compile.
            $(let restitch::$ty { $($key,)* $($engine_key,)* } = limits.$group;)+
            (
                LimitsConfig { $($($key: $key.into(),)*)+ },
                EngineConfig { $($($engine_key: $engine_key.into(),)*)+ },
            )
        }
    };
}

tables! {
    parser: ParserLimits {
        limits {
            /// Bytes of the text of one answer. A longer first answer passes unread.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_text_bytes: Positive,
        }
        engine {
            /// Open containers of a document.
            max_depth: Positive,
            /// Bytes of a line of an event stream.
            max_line_bytes: Positive,
            /// Bytes of an event of a stream, and of a whole body.
            max_event_bytes: Positive,
            /// Bytes of a continuation that are withheld until its place is decided.
            max_pending_bytes: SeamBytes<1>,
            /// Last bytes of the delivered text in which a continuation may start.
            overlap_window: SeamBytes<0>,
            /// Remembered children of open containers.
            max_children: usize,
            /// Bytes after a mistake that a guess may read.
            max_lookahead: usize,
            /// Repairs of one document.
            max_repairs: usize,
            /// Readings that guesses may try for each KiB before a mistake, and for 16 KiB more.
            max_readings: usize,
            /// Bytes of text before a root. More makes the answer prose.
            max_preamble_bytes: usize,
        }
    }
    continuation: ContinuationLimits {
        limits {
            /// Bytes of delivered text that a continuation sends back verbatim.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_verbatim_context: usize,
            /// The largest probability of a wrong join that is accepted, from 0 to 1. 0 joins only what
            /// was asked for.
            #[arg(long, value_name = "RISK")]
            max_risk: Risk,
            /// The most calls after the first one, for one answer.
            #[arg(long, value_name = "N")]
            max_continuations: u32,
            /// Failures in a row that end the loop.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_consecutive_failures: u32,
            /// Tokens of all answers to one request; then no call is made. 0: no limit.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_total_tokens: Count,
            /// Tokens of all continuations, as a multiple of the request's own limit; then no call is
            /// made.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_extra_tokens: u32,
            /// Tokens of all continuations, as a share of the first call's (0.5: one half); then no
            /// call is made. 0: no limit.
            #[arg(long, value_name = "SHARE", hide_short_help = true)]
            max_extra_share: Share,
            /// Tokens of the request above which a question that brings another tool or schema, and so misses the
            /// provider's cache of prompts, comes after a prefill and words.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_uncached_tokens: u64,
            /// Time since the first byte of an answer, after which no call is made and an open
            /// continuation ends. 0: no limit.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            max_total_time: Time,
            /// How long an answer waits for an upstream that refuses connections, loses them or is
            /// overloaded. 0: such calls are failures.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            patience: Time,
        }
        engine {
            /// Characters of the anchor of the first question at a cut.
            max_anchor_chars: usize,
            /// Characters of values in the rendering that replaces a longer text.
            context_budget_chars: usize,
            /// The same for the arguments of a tool call, if it is less.
            max_risk_arguments: Risk,
            /// Continuations in a row without new text that end the loop.
            max_no_progress: u32,
            /// Answers in a row without reported progress that end the loop.
            max_stalled_reports: u32,
            /// How long the hint of a refusal about a model counts. 0: not at all.
            max_hint_age: Time,
            /// Time in which the calls of a model are counted: while most of them fail, one
            /// continuation a second is asked for. 0: off.
            overload_window: Time,
            /// Calls within that time, below which nothing is concluded.
            overload_min_calls: u32,
        }
    }
    transport: TransportLimits {
        limits {
            /// Bytes read ahead of a slow client.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_read_ahead_bytes: usize,
            /// The largest request body, in bytes, whose answer can be continued. Larger ones are
            /// passed through.
            #[arg(long, value_name = "BYTES")]
            max_body_bytes: usize,
            /// Silence after which a provider counts as gone while a document is incomplete.
            #[arg(long, value_name = "TIME")]
            idle_timeout: PositiveTime,
            /// Silence before the first text of an answer, after which a call counts as lost.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            first_byte_timeout: PositiveTime,
            /// Time without text or reasoning, after which a call for a document counts as lost.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            text_timeout: PositiveTime,
            /// Time for a connection to the upstream.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            connect_timeout: PositiveTime,
            /// Time for TLS on a connection to the upstream.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            tls_timeout: PositiveTime,
            /// Silence to the client, after which the proxy sends a comment while the rest is asked
            /// for. 0: it sends none.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            keep_alive_interval: Time,
        }
        engine {
            /// The longest wait between two calls.
            max_backoff: Time,
            /// Unused connections to the upstream that each thread keeps. 0: each call has a connection
            /// of its own.
            max_idle_connections: usize,
        }
    }
    server: ServerLimits {
        limits {
            /// Connections of all clients.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_connections: Positive,
            /// Connections of one address; a Unix socket is one.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_connections_per_client: Positive,
            /// Bytes of all incomplete request bodies.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_unfinished_bytes: Positive,
            /// Bytes of the head of a request.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_head_bytes: Positive,
            /// Fields of the head of a request.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_head_fields: Positive,
            /// Time for the head of a request.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            head_timeout: PositiveTime,
            /// Time of a TLS handshake with a client.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            handshake_timeout: PositiveTime,
            /// Time without a request, after which a connection is closed.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            unused_timeout: PositiveTime,
            /// Silence within the body of a request.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            body_timeout: PositiveTime,
            /// Time in which a client takes no waiting byte, after which its connection is closed.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            write_timeout: PositiveTime,
            /// Time that open answers get when the proxy stops.
            #[arg(long, value_name = "TIME", hide_short_help = true)]
            drain_timeout: PositiveTime,
            /// Models with labels of their own in the metrics.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_metric_models: usize,
            /// Bytes of text of one answer that the page of the admin listener keeps.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_page_answer_bytes: usize,
            /// Bytes of text of all answers that the page keeps.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_page_bytes: usize,
        }
        engine {
        }
    }
    keep: KeepLimits {
        limits {
            /// The longest time for which a request may ask that its answer be kept. 0: none may.
            #[arg(long, value_name = "TIME")]
            max_keep_time: Time,
            /// Answers that are kept at a time.
            #[arg(long, value_name = "N", hide_short_help = true)]
            max_kept_answers: usize,
            /// Bytes of one kept answer.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_kept_answer_bytes: Positive,
            /// Bytes of all kept answers.
            #[arg(long, value_name = "BYTES", hide_short_help = true)]
            max_kept_bytes: Positive,
        }
        engine {
        }
    }
}

impl Config {
    /// Sets all keys of `[limits]` and `[engine]`.
    pub fn set_limits(&mut self, limits: Limits) {
        (self.limits, self.engine) = split(limits);
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        split(Limits::default()).0
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        split(Limits::default()).1
    }
}
