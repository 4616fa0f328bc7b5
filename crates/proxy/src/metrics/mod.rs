//! The metrics of the proxy, in the text format of OpenMetrics, which Prometheus reads.
//!
//! `gen_ai_…` are those of the [conventions of
//! OpenTelemetry](https://github.com/open-telemetry/semantic-conventions-genai), with their names,
//! labels and buckets as exporters for Prometheus write them. `restitch_…` are our own.
//! docs/operating.md lists all of them. [`measured`](super::measured) records them, never for each
//! chunk.

mod labels;
mod models;
mod names;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
pub(super) use labels::{
    Cut, Ended, EndedAnswer, Flagged, FurtherCall, GivenUp, Joined, Operation, Resume, TokenUse,
    Usage,
};
use labels::{FailedHandshake, FallbackCall, OfCertificate, OfUpstream, Routed};
pub(super) use models::{Models, provider_name};
use prometheus_client::encoding::text;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::otlp::Otlp;
use super::recorded::{Counters, Histograms, Level, Numbers, One, Sinks};
use restitch::session::CutCause;
use restitch_http::{Expiry, Role};

/// All metrics of a proxy. Its threads share them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pub(super) models: Models,
    pub(super) calls: CallMetrics,
    pub(super) answers: AnswerMetrics,
    pub(super) seams: SeamMetrics,
    pub(super) requests: RequestMetrics,
    pub(super) resumes: Counters<Resume>,
    certificates: Numbers<OfCertificate>,
    handshakes: Counters<FailedHandshake>,
}

impl Metrics {
    /// Creates metrics without a sample. `max_models`: see
    /// [`max_metric_models`](restitch::ServerLimits::max_metric_models).
    pub(super) fn new(max_models: usize, otlp: Option<&Otlp>) -> Self {
        let mut registry = Registry::default();
        let mut sinks = Sinks {
            registry: &mut registry,
            otlp,
        };
        let (calls, answers) = (CallMetrics::new(&mut sinks), AnswerMetrics::new(&mut sinks));
        let (seams, requests) = (
            SeamMetrics::new(&mut sinks),
            RequestMetrics::new(&mut sinks),
        );
        let resumes = sinks.counters(names::RESUMES);
        let certificates = sinks.numbers(names::CERTIFICATE_EXPIRY);
        let handshakes = sinks.counters(names::HANDSHAKE_FAILURES);
        let models = Models::new(max_models);
        Self {
            requests,
            registry,
            models,
            calls,
            answers,
            seams,
            resumes,
            certificates,
            handshakes,
        }
    }

    /// Shows the earliest expiry of the certificates of each role, and removes the sample of a role
    /// without a known expiry.
    pub(super) fn note_certificates(&self, expiries: &[&Expiry]) {
        for role in Role::ALL {
            let ends = expiries
                .iter()
                .filter(|expiry| expiry.role == role)
                .filter_map(|expiry| expiry.at);
            let end = ends
                .min()
                .and_then(|end| end.duration_since(SystemTime::UNIX_EPOCH).ok());
            let labels = OfCertificate {
                certificate: role.as_str(),
            };
            match end.and_then(|end| i64::try_from(end.as_secs()).ok()) {
                Some(end) => self.certificates.set(&labels, end),
                None => self.certificates.remove(&labels),
            }
        }
    }

    /// Counts a handshake that has failed.
    pub(super) fn note_handshake(&self, reason: &'static str) {
        self.handshakes.add(&FailedHandshake { reason }, 1);
    }

    /// Admits the name of a model whose request the upstream has answered. Returns its label.
    pub(super) fn admit(&self, name: &Arc<str>) -> Arc<str> {
        let (model, is_new) = self.models.admit(name);
        if is_new {
            // Prometheus sees no increase in a series that starts at 1, so a query would miss a
            // model's first cut.
            for cause in CAUSES.map(CutCause::as_str).into_iter().chain([OTHER]) {
                self.seams.cuts.add(
                    &Cut {
                        model: Arc::clone(&model),
                        cause,
                    },
                    0,
                );
            }
        }
        model
    }

    /// Returns all samples as text.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// The metrics of each upstream call.
#[derive(Debug)]
pub(super) struct CallMetrics {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_chunk: Histograms<Operation>,
    pub(super) usage: Histograms<Usage>,
    pub(super) further: Counters<FurtherCall>,
    pub(super) tokens: Counters<TokenUse>,
}

impl CallMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            duration: sinks.histograms(names::CLIENT_OPERATION_DURATION, &SECONDS, seconds),
            first_chunk: sinks.histograms(
                names::CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
                &SECONDS,
                seconds,
            ),
            usage: sinks.histograms(names::CLIENT_TOKEN_USAGE, &TOKENS, || {
                Histogram::new(TOKENS)
            }),
            further: sinks.counters(names::CALLS),
            tokens: sinks.counters(names::TOKENS),
        }
    }
}

/// The metrics of each answer to a client.
#[derive(Debug)]
pub(super) struct AnswerMetrics {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_token: Histograms<Operation>,
    pub(super) per_token: Histograms<Operation>,
    pub(super) ended: Counters<EndedAnswer>,
    pub(super) given_up: Counters<GivenUp>,
    pub(super) running: Level,
}

impl AnswerMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            duration: sinks.histograms(names::SERVER_REQUEST_DURATION, &SECONDS, seconds),
            first_token: sinks.histograms(names::SERVER_TIME_TO_FIRST_TOKEN, &FIRST_TOKEN, || {
                Histogram::new(FIRST_TOKEN)
            }),
            per_token: sinks.histograms(names::SERVER_TIME_PER_OUTPUT_TOKEN, &PER_TOKEN, || {
                Histogram::new(PER_TOKEN)
            }),
            ended: sinks.counters(names::ANSWERS),
            given_up: sinks.counters(names::GIVEN_UP),
            running: sinks.level(names::RUNNING),
        }
    }
}

/// The metrics of cuts and of joined continuations.
#[derive(Debug)]
pub(super) struct SeamMetrics {
    pub(super) cuts: Counters<Cut>,
    pub(super) joined: Counters<Joined>,
    pub(super) flagged: Counters<Flagged>,
    pub(super) gap: One,
    pub(super) pending: One,
}

impl SeamMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            cuts: sinks.counters(names::CUTS),
            joined: sinks.counters(names::SEAMS),
            flagged: sinks.counters(names::FLAGGED_SEAMS),
            gap: sinks.histogram(names::GAP, &SECONDS),
            pending: sinks.histogram(names::PENDING, &PENDING),
        }
    }
}

/// The metrics of all requests, including those that pass unread. A client can choose only among
/// the operator's routes and upstreams, so the labels are bounded.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    routed: Counters<Routed>,
    fallbacks: Counters<FallbackCall>,
    up: Numbers<OfUpstream>,
}

impl RequestMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            routed: sinks.counters(names::REQUESTS),
            fallbacks: sinks.counters(names::FALLBACKS),
            up: sinks.numbers(names::UPSTREAM_UP),
        }
    }

    /// Notes whether an upstream was reachable.
    pub(super) fn note_upstream(&self, upstream: &str, is_up: bool) {
        self.up.set(
            &OfUpstream {
                upstream: upstream.to_owned(),
            },
            is_up,
        );
    }

    /// Counts a switch to a fallback.
    pub(super) fn count_fallback(&self, route: Option<&str>, upstream: &str, part: &'static str) {
        let (route, upstream) = (route.unwrap_or_default().to_owned(), upstream.to_owned());
        self.fallbacks.add(
            &FallbackCall {
                route,
                upstream,
                part,
            },
            1,
        );
    }

    /// Counts a request that has ended. `route`: `None` if the request was refused before it had
    /// one.
    pub(super) fn count(
        &self,
        route: Option<&str>,
        upstream: Option<&str>,
        status: Option<StatusCode>,
    ) {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        // A server may send any status, so unknown ones share a label.
        let known = status.filter(|status| status.canonical_reason().is_some());
        let status = known.map_or_else(|| OTHER.to_owned(), |status| status.as_str().to_owned());
        self.routed.add(
            &Routed {
                route: text(route),
                upstream: text(upstream),
                status,
            },
            1,
        );
    }
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// Returns the name of why a call was cut.
pub(super) fn cause_name(cause: Option<CutCause>) -> &'static str {
    cause.map_or(OTHER, CutCause::as_str)
}

/// The causes of cuts, except [`OTHER`].
const CAUSES: [CutCause; 7] = [
    CutCause::Length,
    CutCause::Drop,
    CutCause::Eof,
    CutCause::Idle,
    CutCause::InBand,
    CutCause::PrematureStop,
    CutCause::UnknownFinish,
];

/// The label of all models without their own label, and of all other values without a name.
pub(super) const OTHER: &str = "other";

/// The conventions' boundaries of durations.
const SECONDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// The conventions' boundaries of `gen_ai.server.time_to_first_token`.
const FIRST_TOKEN: [f64; 16] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The conventions' boundaries of `gen_ai.server.time_per_output_token`.
const PER_TOKEN: [f64; 13] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
];

/// The conventions' boundaries of `gen_ai.client.token.usage`.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Up to the largest `max_pending_bytes` of a configuration.
const PENDING: [f64; 9] = [
    4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0,
];
