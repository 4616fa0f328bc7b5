//! The boundaries of the histograms.
//!
//! Those of `gen_ai_…` are some of the conventions' boundaries: all of them would make `/metrics`
//! half as long again, since each route, provider and model has histograms of its own.

/// Seconds of an upstream call, and of the gap at a cut. Most calls with text take 2 to 20 seconds.
pub(super) const CALL: [f64; 8] = [0.16, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 81.92];

/// Seconds of an answer.
pub(super) const ANSWER: [f64; 8] = CALL;

/// Seconds to the first bytes of a call's stream.
pub(super) const FIRST_CHUNK: [f64; 6] = [0.16, 0.32, 0.64, 1.28, 2.56, 10.24];

/// Seconds to the first bytes of an answer.
pub(super) const FIRST_TOKEN: [f64; 6] = [0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Seconds for each output token.
pub(super) const PER_TOKEN: [f64; 5] = [0.01, 0.025, 0.05, 0.1, 0.3];

/// Tokens of a call.
pub(super) const TOKENS: [f64; 6] = [16.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0];

/// Up to the default `max_pending_bytes`.
pub(super) const PENDING: [f64; 5] = [16.0, 256.0, 1024.0, 4096.0, 65536.0];

/// Seconds of an operation of the store, up to the time after which it fails.
pub(super) const STORE: [f64; 6] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.0];
