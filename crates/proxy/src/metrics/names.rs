//! The names, the units and the help texts of all metrics.

use crate::recorded::{Name, Scale};

pub(super) const RESUMES: Name = Name::new(
    "restitch.resumes",
    Scale::Of("{request}"),
    "Requests for the rest of a kept answer",
);
pub(super) const CLIENT_OPERATION_DURATION: Name = Name::new(
    "gen_ai.client.operation.duration",
    Scale::Seconds,
    "Time of an upstream call, from its request to the end of its answer",
);
pub(super) const CLIENT_OPERATION_TIME_TO_FIRST_CHUNK: Name = Name::new(
    "gen_ai.client.operation.time_to_first_chunk",
    Scale::Seconds,
    "Time from the request of an upstream call to the first bytes of its stream",
);
pub(super) const CLIENT_TOKEN_USAGE: Name = Name::new(
    "gen_ai.client.token.usage",
    Scale::Of("{token}"),
    "Tokens of an upstream call, as its usage tells them",
);
pub(super) const CALL_ERRORS: Name = Name::new(
    "restitch.call.errors",
    Scale::Of("{call}"),
    "Upstream calls that ended with an error",
);
pub(super) const ANSWER_ERRORS: Name = Name::new(
    "restitch.answer.errors",
    Scale::Of("{answer}"),
    "Answers to requests of an API that ended with an error",
);
pub(super) const CALLS: Name = Name::new(
    "restitch.calls",
    Scale::Of("{call}"),
    "Calls after the first one of an answer",
);
pub(super) const TOKENS: Name = Name::new(
    "restitch.tokens",
    Scale::Of("{token}"),
    "Tokens of answers, as the usage of calls tells them",
);
pub(super) const SERVER_REQUEST_DURATION: Name = Name::new(
    "gen_ai.server.request.duration",
    Scale::Seconds,
    "Time of an answer, from its request to its last byte",
);
pub(super) const SERVER_TIME_TO_FIRST_TOKEN: Name = Name::new(
    "gen_ai.server.time_to_first_token",
    Scale::Seconds,
    "Time from a request to the first bytes of its streamed answer",
);
pub(super) const SERVER_TIME_PER_OUTPUT_TOKEN: Name = Name::new(
    "gen_ai.server.time_per_output_token",
    Scale::Seconds,
    "Time per output token of a streamed answer, after its first bytes",
);
pub(super) const ANSWERS: Name = Name::new(
    "restitch.answers",
    Scale::Of("{answer}"),
    "Answers to requests of an API",
);
pub(super) const RUNNING: Name = Name::new(
    "restitch.running",
    Scale::Of("{request}"),
    "Requests of an API that are being answered",
);
pub(super) const CUTS: Name = Name::new(
    "restitch.cuts",
    Scale::Of("{cut}"),
    "Calls that ended before the document was whole",
);
pub(super) const SEAMS: Name = Name::new(
    "restitch.seams",
    Scale::Of("{seam}"),
    "Continuations that were joined",
);
pub(super) const FLAGGED_SEAMS: Name = Name::new(
    "restitch.flagged.seams",
    Scale::Of("{seam}"),
    "Seams that may be wrong, as the reports of answers count them",
);
pub(super) const GIVEN_UP: Name = Name::new(
    "restitch.given.up",
    Scale::Of("{answer}"),
    "Answers whose rest could not be had",
);
pub(super) const GAP: Name = Name::new(
    "restitch.gap",
    Scale::Seconds,
    "Time from a cut to the first text of the continuation that was joined",
);
pub(super) const PENDING: Name = Name::new(
    "restitch.pending",
    Scale::Bytes,
    "Bytes of a continuation that waited until its place was decided",
);
pub(super) const REQUESTS: Name = Name::new(
    "restitch.requests",
    Scale::Of("{request}"),
    "Requests by the route that answered them",
);
pub(super) const UPSTREAM_UP: Name = Name::new(
    "restitch.upstream.up",
    Scale::Of("{upstream}"),
    "Whether the last call of an upstream, or the last look at it, found a connection: 1, or 0",
);
pub(super) const CERTIFICATE_EXPIRY: Name = Name::new(
    "restitch.certificate.expiry.timestamp",
    Scale::Seconds,
    "When the first certificate of a file expires, in seconds since 1970",
);
pub(super) const HANDSHAKE_FAILURES: Name = Name::new(
    "restitch.tls.handshake.failures",
    Scale::Of("{handshake}"),
    "TLS handshakes with clients that have failed",
);
pub(super) const BUILD: Name = Name::new(
    "restitch.build.info",
    Scale::Of("{build}"),
    "The version of the program, as a label of 1",
);
pub(super) const MEMORY: Name = Name::new(
    "process.resident.memory",
    Scale::Bytes,
    "Memory of the process",
);
pub(super) const OPEN_FILES: Name = Name::new(
    "process.open.fds",
    Scale::Of("{file}"),
    "Open file descriptors of the process",
);
pub(super) const START: Name = Name::new(
    "process.start.time",
    Scale::Seconds,
    "When the process started, in seconds since 1970",
);
pub(super) const CONNECTIONS: Name = Name::new(
    "restitch.connections",
    Scale::Of("{connection}"),
    "Open connections of clients",
);
pub(super) const CONNECTION_LIMIT: Name = Name::new(
    "restitch.connections.limit",
    Scale::Of("{connection}"),
    "The most open connections of clients",
);
pub(super) const CONNECTIONS_REFUSED: Name = Name::new(
    "restitch.connections.refused",
    Scale::Of("{connection}"),
    "Connections of clients over a limit",
);
pub(super) const RELOADED: Name = Name::new(
    "restitch.config.last.reload.successful",
    Scale::Of("{reload}"),
    "Whether the last reload, or the start, has read a valid configuration: 1, or 0",
);
pub(super) const RELOADED_AT: Name = Name::new(
    "restitch.config.last.reload.success.timestamp",
    Scale::Seconds,
    "When the configuration was last read, in seconds since 1970",
);
pub(super) const DRAINING: Name = Name::new(
    "restitch.draining",
    Scale::Of("{process}"),
    "Whether the proxy was told to stop: 1, or 0",
);
pub(super) const BREAKER_OPEN: Name = Name::new(
    "restitch.breaker.open",
    Scale::Of("{upstream}"),
    "Whether most recent calls of a model at an upstream have failed: 1, or 0",
);
pub(super) const STORE_UP: Name = Name::new(
    "restitch.store.up",
    Scale::Of("{store}"),
    "Whether the store of kept answers has carried out the last operation: 1, or 0",
);
pub(super) const STORE_ERRORS: Name = Name::new(
    "restitch.store.errors",
    Scale::Of("{operation}"),
    "Operations that the store of kept answers has not carried out",
);
pub(super) const STORE_DURATION: Name = Name::new(
    "restitch.store.duration",
    Scale::Seconds,
    "Time of an operation of the store of kept answers",
);
pub(super) const NOT_KEPT: Name = Name::new(
    "restitch.answers.not.kept",
    Scale::Of("{answer}"),
    "Answers that are not kept, or not to their end, although the request or the operator asks for it",
);
pub(super) const FALLBACKS: Name = Name::new(
    "restitch.fallbacks",
    Scale::Of("{call}"),
    "Times that a fallback was asked in place of another upstream",
);
