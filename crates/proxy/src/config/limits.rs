//! `[limits]`: the bytes, counts, times and risks that an operator limits.

use std::num::NonZeroUsize;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::{PositiveTime, Time, positive, probability};
use restitch::Limits;

/// The bytes, counts, times and risks that an operator limits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// Calls after the first one, for one answer.
    pub max_continuations: u32,
    /// Tokens of all continuations, as a multiple of the request's own limit; then no call is made.
    /// It also bounds `raise_max_tokens`.
    pub max_extra_tokens: u32,
    /// Time since an answer's first byte, after which its calls end; 0: no limit.
    pub max_total_time: Time,
    /// The largest accepted probability of a wrong join, from 0 to 1; 0 joins only at the requested
    /// position.
    #[serde(deserialize_with = "probability")]
    #[schemars(range(min = 0, max = 1))]
    pub max_risk: f64,
    /// How long an answer waits for an upstream that refuses connections, loses them or is
    /// overloaded; 0: such calls are failures.
    pub patience: Time,
    /// Silence before the first text of an answer, after which a call counts as lost.
    pub first_byte_timeout: PositiveTime,
    /// Silence after which a provider counts as gone while a document is incomplete.
    pub idle_timeout: PositiveTime,
    /// Silence to the client, after which the proxy sends a comment; 0: it sends none.
    pub keep_alive_interval: Time,
    /// The largest request body, in bytes, whose answer can be continued.
    pub max_body_bytes: usize,
    /// Bytes of all incomplete request bodies; one more request gets 503.
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1))]
    pub max_unfinished_bytes: usize,
    /// Connections of all clients; one more gets 503, or is closed if clients use TLS.
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1))]
    pub max_connections: usize,
    /// Connections of one address or Unix socket. Default: 256, or unlimited with tokens.
    pub max_connections_per_client: Option<NonZeroUsize>,
    /// Time without a request, after which a connection is closed. Behind a load balancer: longer
    /// than its own.
    pub unused_timeout: PositiveTime,
    /// Time for which a proxy that is told to stop still takes requests, while `/readyz` is 503; 0:
    /// none.
    pub shutdown_delay: Time,
    /// Time that open answers get when the proxy stops.
    pub drain_timeout: PositiveTime,
    /// The longest time for which a request may keep its answer; 0: none may.
    pub max_keep_time: Time,
    /// Answers that are kept at a time.
    pub max_kept_answers: usize,
    /// Bytes of all kept answers.
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1))]
    pub max_kept_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self::of(&Limits::default())
    }
}

impl LimitsConfig {
    /// Returns the keys with these limits.
    pub(super) fn of(limits: &Limits) -> Self {
        let (answer, transport) = (&limits.continuation, &limits.transport);
        let (server, keep) = (&limits.server, &limits.keep);
        Self {
            max_continuations: answer.max_continuations,
            max_extra_tokens: answer.max_extra_tokens,
            max_total_time: answer.max_total_time.into(),
            max_risk: answer.max_risk,
            patience: answer.patience.into(),
            first_byte_timeout: transport.first_byte_timeout.into(),
            idle_timeout: transport.idle_timeout.into(),
            keep_alive_interval: transport.keep_alive_interval.into(),
            max_body_bytes: transport.max_body_bytes,
            max_unfinished_bytes: server.max_unfinished_bytes,
            max_connections: server.max_connections,
            max_connections_per_client: server
                .max_connections_per_client
                .and_then(NonZeroUsize::new),
            unused_timeout: server.unused_timeout.into(),
            shutdown_delay: server.shutdown_delay.into(),
            drain_timeout: server.drain_timeout.into(),
            max_keep_time: keep.max_keep_time.into(),
            max_kept_answers: keep.max_kept_answers,
            max_kept_bytes: keep.max_kept_bytes,
        }
    }

    /// Returns these limits; `others` has those without a key.
    pub(super) fn over(&self, others: &Limits) -> Limits {
        let mut limits = others.clone();
        let answer = &mut limits.continuation;
        answer.max_continuations = self.max_continuations;
        answer.max_extra_tokens = self.max_extra_tokens;
        answer.max_total_time = self.max_total_time.into();
        answer.max_risk = self.max_risk;
        answer.patience = self.patience.into();
        let transport = &mut limits.transport;
        transport.first_byte_timeout = self.first_byte_timeout.into();
        transport.idle_timeout = self.idle_timeout.into();
        transport.keep_alive_interval = self.keep_alive_interval.into();
        transport.max_body_bytes = self.max_body_bytes;
        // An operator who allows a longer silence allows it whatever other events arrive.
        if self.idle_timeout.0 > Limits::default().transport.text_timeout {
            transport.text_timeout = Duration::max(transport.text_timeout, self.idle_timeout.0);
        }
        let server = &mut limits.server;
        server.max_unfinished_bytes = self.max_unfinished_bytes;
        server.max_connections = self.max_connections;
        server.max_connections_per_client = self.max_connections_per_client.map(NonZeroUsize::get);
        server.unused_timeout = self.unused_timeout.into();
        server.shutdown_delay = self.shutdown_delay.into();
        server.drain_timeout = self.drain_timeout.into();
        let keep = &mut limits.keep;
        keep.max_keep_time = self.max_keep_time.into();
        keep.max_kept_answers = self.max_kept_answers;
        keep.max_kept_bytes = self.max_kept_bytes;
        limits
    }
}
