//! The metrics of the proxy, in the text format of OpenMetrics, which Prometheus reads.
//!
//! `gen_ai_…` are those of the [conventions of
//! OpenTelemetry](https://github.com/open-telemetry/semantic-conventions-genai), with their names,
//! labels and buckets as exporters for Prometheus write them. `restitch_…` are our own.
//! docs/operating.md lists all of them. [`measured`](super::measured) records them, never for each
//! chunk.

mod buckets;
mod labels;
mod models;
mod names;
mod process;
mod start;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use buckets::{ANSWER, CALL, FIRST_CHUNK, FIRST_TOKEN, PENDING, PER_TOKEN, STORE, TOKENS};
use http::StatusCode;
pub(super) use labels::{
    AnswerError, CallError, Cut, ERROR, Ended, EndedAnswer, Flagged, FurtherCall, GivenUp, Joined,
    OfAnswer, Operation, Resume, TokenUse, Usage,
};
use labels::{
    FailedHandshake, FallbackCall, NotKept, OfCertificate, OfStore, OfUpstream, RefusedConnection,
    Routed,
};
pub(super) use models::{Models, provider_name};
pub(super) use process::ProcessState;
use prometheus_client::encoding::text;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
pub(super) use start::slot_name;

use super::otlp::Otlp;
use super::recorded::{Counters, Histograms, Level, Numbers, Sinks};
use process::ProcessMetrics;
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
    pub(super) kept: KeptMetrics,
    tls: TlsMetrics,
    process: ProcessMetrics,
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
        let (kept, tls) = (KeptMetrics::new(&mut sinks), TlsMetrics::new(&mut sinks));
        let process = ProcessMetrics::new(&mut sinks);
        Self {
            requests,
            registry,
            models: Models::new(max_models),
            calls,
            answers,
            seams,
            kept,
            tls,
            process,
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
                Some(end) => self.tls.certificates.set(&labels, end),
                None => self.tls.certificates.remove(&labels),
            }
        }
    }

    /// Counts a handshake that has failed.
    pub(super) fn note_handshake(&self, reason: &'static str) {
        self.tls.handshakes.add(&FailedHandshake { reason }, 1);
    }

    /// Notes whether a reload has read a valid configuration.
    pub(super) fn note_reload(&self, is_valid: bool) {
        self.process.note_reload(is_valid);
    }

    /// Admits the name of a model whose request an upstream has answered. Returns its label.
    pub(super) fn admit(
        &self,
        answer: &OfAnswer,
        upstream: &Arc<str>,
        name: &Arc<str>,
    ) -> Arc<str> {
        let model = self.models.admit(name);
        self.begin_model(answer, upstream, &model);
        model
    }

    /// Returns all samples as text.
    pub(super) fn text(&self, state: &ProcessState) -> Result<String, fmt::Error> {
        self.process.show(state);
        // Here and not at a reload: an open answer may still call an upstream of earlier routes.
        self.requests
            .up
            .retain(|shown| state.breakers.contains_key(&shown.upstream));
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
    pub(super) errors: Counters<CallError>,
    pub(super) further: Counters<FurtherCall>,
    pub(super) tokens: Counters<TokenUse>,
}

impl CallMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            duration: sinks.histograms(names::CLIENT_OPERATION_DURATION, &CALL, || {
                Histogram::new(CALL)
            }),
            first_chunk: sinks.histograms(
                names::CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
                &FIRST_CHUNK,
                || Histogram::new(FIRST_CHUNK),
            ),
            usage: sinks.histograms(names::CLIENT_TOKEN_USAGE, &TOKENS, || {
                Histogram::new(TOKENS)
            }),
            errors: sinks.counters(names::CALL_ERRORS),
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
    pub(super) errors: Counters<AnswerError>,
    pub(super) given_up: Counters<GivenUp>,
    pub(super) running: Level,
}

impl AnswerMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            duration: sinks.histograms(names::SERVER_REQUEST_DURATION, &ANSWER, || {
                Histogram::new(ANSWER)
            }),
            first_token: sinks.histograms(names::SERVER_TIME_TO_FIRST_TOKEN, &FIRST_TOKEN, || {
                Histogram::new(FIRST_TOKEN)
            }),
            per_token: sinks.histograms(names::SERVER_TIME_PER_OUTPUT_TOKEN, &PER_TOKEN, || {
                Histogram::new(PER_TOKEN)
            }),
            ended: sinks.counters(names::ANSWERS),
            errors: sinks.counters(names::ANSWER_ERRORS),
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
    pub(super) gap: Histograms<OfAnswer>,
    pub(super) pending: Histograms<OfAnswer>,
}

impl SeamMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            cuts: sinks.counters(names::CUTS),
            joined: sinks.counters(names::SEAMS),
            flagged: sinks.counters(names::FLAGGED_SEAMS),
            gap: sinks.histograms(names::GAP, &CALL, || Histogram::new(CALL)),
            pending: sinks.histograms(names::PENDING, &PENDING, || Histogram::new(PENDING)),
        }
    }
}

/// The metrics of kept answers.
#[derive(Debug)]
pub(super) struct KeptMetrics {
    pub(super) resumes: Counters<Resume>,
    not_kept: Counters<NotKept>,
    store_up: Numbers<OfStore>,
    store_errors: Counters<OfStore>,
    store_duration: Histograms<OfStore>,
}

impl KeptMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            resumes: sinks.counters(names::RESUMES),
            not_kept: sinks.counters(names::NOT_KEPT),
            store_up: sinks.numbers(names::STORE_UP),
            store_errors: sinks.counters(names::STORE_ERRORS),
            store_duration: sinks
                .histograms(names::STORE_DURATION, &STORE, || Histogram::new(STORE)),
        }
    }

    /// Counts an answer that is not kept, or no longer.
    pub(super) fn count_not_kept(&self, reason: &'static str) {
        self.not_kept.add(&NotKept { reason }, 1);
    }

    /// Notes whether the store has carried out an operation.
    pub(super) fn note_store(&self, store: &'static str, is_up: bool) {
        self.store_up.set(&OfStore { store }, is_up);
        self.store_errors.add(&OfStore { store }, u64::from(!is_up));
    }

    /// Shows the time of operations before the first one.
    fn begin_store_time(&self, store: &'static str) {
        self.store_duration.begin(&OfStore { store });
    }

    /// Notes the time of an operation of the store.
    pub(super) fn note_store_time(&self, store: &'static str, time: Duration) {
        self.store_duration
            .observe(&OfStore { store }, time.as_secs_f64());
    }
}

/// The metrics of certificates and of handshakes with clients.
#[derive(Debug)]
struct TlsMetrics {
    certificates: Numbers<OfCertificate>,
    handshakes: Counters<FailedHandshake>,
}

impl TlsMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            certificates: sinks.numbers(names::CERTIFICATE_EXPIRY),
            handshakes: sinks.counters(names::HANDSHAKE_FAILURES),
        }
    }
}

/// The metrics of all requests, including those that pass unread. A client can choose only among
/// the operator's routes and upstreams, so the labels are bounded.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    routed: Counters<Routed>,
    connections_refused: Counters<RefusedConnection>,
    fallbacks: Counters<FallbackCall>,
    up: Numbers<OfUpstream>,
}

impl RequestMetrics {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            routed: sinks.counters(names::REQUESTS),
            connections_refused: sinks.counters(names::CONNECTIONS_REFUSED),
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

    /// Counts a connection that was refused over a limit.
    pub(super) fn count_refused(&self, reason: &'static str) {
        self.connections_refused
            .add(&RefusedConnection { reason }, 1);
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

/// Returns the name of why a call was cut.
pub(super) fn cause_name(cause: Option<CutCause>) -> &'static str {
    cause.map_or(OTHER, CutCause::as_str)
}

/// The label of all models without their own label, and of all other values without a name.
pub(super) const OTHER: &str = "other";
