//! The metrics of the proxy, in the text format of OpenMetrics, which Prometheus reads.
//!
//! `gen_ai_…` are those of the [conventions of OpenTelemetry](https://github.com/open-telemetry/semantic-conventions-genai),
//! with their names, labels and buckets as exporters for Prometheus write them. `restitch_…` are our own. docs/operating.md
//! lists all of them. What is counted, and when, [`measured`](super::measured) decides: never for each chunk.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::otlp::Otlp;
use super::recorded::{Counters, Histograms, Labels, Level, Name, One, Scale, Sinks};

/// All metrics of a proxy. Its threads share them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pub(super) models: Models,
    pub(super) calls: Calls,
    pub(super) answers: Answers,
    pub(super) seams: Seams,
    pub(super) requests: Requests,
    pub(super) resumes: Counters<Resume>,
}

impl Metrics {
    /// Creates metrics without a sample. `max_models`: see
    /// [`max_metric_models`](crate::ServerLimits::max_metric_models).
    pub(super) fn new(max_models: usize, otlp: Option<&Otlp>) -> Self {
        let mut registry = Registry::default();
        let mut sinks = Sinks { registry: &mut registry, otlp };
        let (calls, answers) = (Calls::new(&mut sinks), Answers::new(&mut sinks));
        let (seams, requests) = (Seams::new(&mut sinks), Requests::new(&mut sinks));
        let resumes = sinks.counters(Name {
            prometheus: "restitch_resumes",
            otlp: "restitch.resumes",
            unit: Scale::Of("{request}"),
            help: "Requests for the rest of a kept answer",
        });
        Self { requests, registry, models: Models::new(max_models), calls, answers, seams, resumes }
    }

    /// Returns all samples as text.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// What is measured of each upstream call.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_chunk: Histograms<Operation>,
    pub(super) usage: Histograms<Usage>,
    pub(super) further: Counters<FurtherCall>,
    pub(super) tokens: Counters<TokenUse>,
}

impl Calls {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        let duration = Name {
            prometheus: "gen_ai_client_operation_duration",
            otlp: "gen_ai.client.operation.duration",
            unit: Scale::Seconds,
            help: "Time of an upstream call, from its request to the end of its answer",
        };
        let first_chunk = Name {
            prometheus: "gen_ai_client_operation_time_to_first_chunk",
            otlp: "gen_ai.client.operation.time_to_first_chunk",
            unit: Scale::Seconds,
            help: "Time from the request of an upstream call to the first bytes of its stream",
        };
        let usage = Name {
            prometheus: "gen_ai_client_token_usage",
            otlp: "gen_ai.client.token.usage",
            unit: Scale::Of("{token}"),
            help: "Tokens of an upstream call, as its usage tells them",
        };
        let further = Name {
            prometheus: "restitch_calls",
            otlp: "restitch.calls",
            unit: Scale::Of("{call}"),
            help: "Calls after the first one of an answer",
        };
        let tokens = Name {
            prometheus: "restitch_tokens",
            otlp: "restitch.tokens",
            unit: Scale::Of("{token}"),
            help: "Tokens of answers, as the usage of calls tells them",
        };
        Self {
            duration: sinks.histograms(duration, &SECONDS, seconds),
            first_chunk: sinks.histograms(first_chunk, &SECONDS, seconds),
            usage: sinks.histograms(usage, &TOKENS, || Histogram::new(TOKENS)),
            further: sinks.counters(further),
            tokens: sinks.counters(tokens),
        }
    }
}

/// What is measured of each answer to a client.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_token: Histograms<Operation>,
    pub(super) per_token: Histograms<Operation>,
    pub(super) ended: Counters<EndedAnswer>,
    pub(super) running: Level,
}

impl Answers {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        let duration = Name {
            prometheus: "gen_ai_server_request_duration",
            otlp: "gen_ai.server.request.duration",
            unit: Scale::Seconds,
            help: "Time of an answer, from its request to its last byte",
        };
        let first_token = Name {
            prometheus: "gen_ai_server_time_to_first_token",
            otlp: "gen_ai.server.time_to_first_token",
            unit: Scale::Seconds,
            help: "Time from a request to the first bytes of its streamed answer",
        };
        let per_token = Name {
            prometheus: "gen_ai_server_time_per_output_token",
            otlp: "gen_ai.server.time_per_output_token",
            unit: Scale::Seconds,
            help: "Time per output token of a streamed answer, after its first bytes",
        };
        let ended = Name {
            prometheus: "restitch_answers",
            otlp: "restitch.answers",
            unit: Scale::Of("{answer}"),
            help: "Answers to requests of an API",
        };
        let running = Name {
            prometheus: "restitch_running",
            otlp: "restitch.running",
            unit: Scale::Of("{request}"),
            help: "Requests of an API that are being answered",
        };
        Self {
            duration: sinks.histograms(duration, &SECONDS, seconds),
            first_token: sinks.histograms(first_token, &FIRST_TOKEN, || Histogram::new(FIRST_TOKEN)),
            per_token: sinks.histograms(per_token, &PER_TOKEN, || Histogram::new(PER_TOKEN)),
            ended: sinks.counters(ended),
            running: sinks.level(running),
        }
    }
}

/// What is measured of cuts, and of continuations that were joined.
#[derive(Debug)]
pub(super) struct Seams {
    pub(super) cuts: Counters<Cut>,
    pub(super) joined: Counters<Joined>,
    pub(super) gap: One,
    pub(super) pending: One,
}

impl Seams {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        let cuts = Name {
            prometheus: "restitch_cuts",
            otlp: "restitch.cuts",
            unit: Scale::Of("{cut}"),
            help: "Calls that ended before the document was whole",
        };
        let joined = Name {
            prometheus: "restitch_seams",
            otlp: "restitch.seams",
            unit: Scale::Of("{seam}"),
            help: "Continuations that were joined",
        };
        let gap = Name {
            prometheus: "restitch_gap",
            otlp: "restitch.gap",
            unit: Scale::Seconds,
            help: "Time from a cut to the first text of the continuation that was joined",
        };
        let pending = Name {
            prometheus: "restitch_pending",
            otlp: "restitch.pending",
            unit: Scale::Bytes,
            help: "Bytes of a continuation that waited until its place was decided",
        };
        Self {
            cuts: sinks.counters(cuts),
            joined: sinks.counters(joined),
            gap: sinks.histogram(gap, &SECONDS),
            pending: sinks.histogram(pending, &PENDING),
        }
    }
}

/// All requests, those that pass included. The operator's routes and upstreams are the only labels of a client's choosing.
#[derive(Debug)]
pub(super) struct Requests {
    routed: Counters<Routed>,
    fallbacks: Counters<FallbackCall>,
}

impl Requests {
    fn new(sinks: &mut Sinks<'_>) -> Self {
        Self {
            routed: sinks.counters(Name {
                prometheus: "restitch_requests",
                otlp: "restitch.requests",
                unit: Scale::Of("{request}"),
                help: "Requests by the route that answered them",
            }),
            fallbacks: sinks.counters(Name {
                prometheus: "restitch_fallbacks",
                otlp: "restitch.fallbacks",
                unit: Scale::Of("{call}"),
                help: "Times that a fallback was asked in place of another upstream",
            }),
        }
    }

    /// Counts that a fallback is asked.
    pub(super) fn count_fallback(&self, route: Option<&str>, upstream: &str, part: &'static str) {
        let (route, upstream) = (route.unwrap_or_default().to_owned(), upstream.to_owned());
        self.fallbacks.add(&FallbackCall { route, upstream, part }, 1);
    }

    /// Counts a request that has ended. `route`: `None` where it was refused before it had one.
    pub(super) fn count(&self, route: Option<&str>, upstream: Option<&str>, status: Option<StatusCode>) {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        // A server may send any status.
        let known = status.filter(|status| status.canonical_reason().is_some());
        let status = known.map_or_else(|| OTHER.to_owned(), |status| status.as_str().to_owned());
        self.routed.add(&Routed { route: text(route), upstream: text(upstream), status }, 1);
    }
}

/// Which fallback was asked, and for what: `whole` or `rest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FallbackCall {
    route: String,
    upstream: String,
    part: &'static str,
}

impl Labels for FallbackCall {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("route", &self.route);
        on("upstream", &self.upstream);
        on("part", self.part);
    }
}

/// Where a request went, and the status that its client got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Routed {
    route: String,
    upstream: String,
    status: String,
}

impl Labels for Routed {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("route", &self.route);
        on("upstream", &self.upstream);
        on("status", &self.status);
    }
}

/// What a request asks a model for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Operation {
    pub(super) gen_ai_provider_name: Arc<str>,
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_request_model: Arc<str>,
}

impl Labels for Operation {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("gen_ai.provider.name", &self.gen_ai_provider_name);
        on("gen_ai.operation.name", self.gen_ai_operation_name);
        on("gen_ai.request.model", &self.gen_ai_request_model);
    }
}

/// How a call or an answer ended. Empty: without an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    #[prometheus(flatten)]
    pub(super) operation: Operation,
    pub(super) error_type: Cow<'static, str>,
}

impl Labels for Ended {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.operation.each(on);
        // The conventions have no such attribute where there is no error.
        if !self.error_type.is_empty() {
            on("error.type", &self.error_type);
        }
    }
}

/// Which tokens of a call were counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Usage {
    #[prometheus(flatten)]
    pub(super) operation: Operation,
    pub(super) gen_ai_token_type: &'static str,
}

impl Labels for Usage {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.operation.each(on);
        on("gen_ai.token.type", self.gen_ai_token_type);
    }
}

/// How a further call was made, and what it brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FurtherCall {
    pub(super) way: &'static str,
    pub(super) outcome: &'static str,
}

impl Labels for FurtherCall {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("way", self.way);
        on("outcome", self.outcome);
    }
}

/// What tokens were used for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokenUse {
    pub(super) r#use: &'static str,
}

impl Labels for TokenUse {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("use", self.r#use);
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EndedAnswer {
    pub(super) wire: &'static str,
    pub(super) slot: &'static str,
    pub(super) status: &'static str,
}

impl Labels for EndedAnswer {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("wire", self.wire);
        on("slot", self.slot);
        on("status", self.status);
    }
}

/// Whose answer was cut, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Cut {
    pub(super) model: Arc<str>,
    pub(super) cause: &'static str,
}

impl Labels for Cut {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("model", &self.model);
        on("cause", self.cause);
    }
}

/// What became of a request for the rest of a kept answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Resume {
    pub(super) outcome: &'static str,
}

impl Labels for Resume {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("outcome", self.outcome);
    }
}

/// How a continuation was joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Joined {
    pub(super) kind: &'static str,
}

impl Labels for Joined {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("kind", self.kind);
    }
}

/// The models that have labels of their own. Clients choose the names, so a name is admitted when the upstream has answered a
/// request with it, up to a limit. All others share one label.
#[derive(Debug)]
pub(super) struct Models {
    admitted: RwLock<HashSet<Arc<str>>>,
    most: usize,
    other: Arc<str>,
}

impl Models {
    fn new(most: usize) -> Self {
        Self { admitted: RwLock::default(), most, other: Arc::from(OTHER) }
    }

    /// Returns the name that a request gives, or the shared label where the name can't be a label of its own: it is empty or
    /// long, or has control characters, which break lines in the text format or in a terminal.
    pub(super) fn named(&self, name: &str) -> Arc<str> {
        let is_plain = !name.is_empty() && name.len() <= LONGEST_MODEL && !name.chars().any(char::is_control);
        if is_plain { Arc::from(name) } else { Arc::clone(&self.other) }
    }

    /// Returns the label of a name.
    pub(super) fn label(&self, name: &Arc<str>) -> Arc<str> {
        let is_admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner).contains(name);
        Arc::clone(if is_admitted { name } else { &self.other })
    }

    /// Admits a name whose request the upstream has answered. Returns its label.
    pub(super) fn admit(&self, name: &Arc<str>) -> Arc<str> {
        let label = self.label(name);
        if label == *name || *name == self.other {
            return label;
        }
        let mut admitted = self.admitted.write().unwrap_or_else(PoisonError::into_inner);
        if admitted.len() < self.most {
            admitted.insert(Arc::clone(name));
        }
        Arc::clone(if admitted.contains(name) { name } else { &self.other })
    }
}

/// Returns the provider's name in the conventions: a well-known one, or the host.
pub(super) fn provider_name(host: &str) -> &str {
    if host.starts_with("bedrock") && host.ends_with(".amazonaws.com") {
        return "aws.bedrock";
    }
    PROVIDERS.iter().find(|(end, _)| host.ends_with(end)).map_or(host, |(_, name)| name)
}

/// The ends of hosts, and the names of their providers.
const PROVIDERS: [(&str, &str); 16] = [
    ("api.openai.com", "openai"),
    (".openai.azure.com", "azure.ai.openai"),
    (".ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.moonshot.cn", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    (".ml.cloud.ibm.com", "ibm.watsonx.ai"),
];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// The label of all models without one of their own, and of all else that has no name.
pub(super) const OTHER: &str = "other";

/// Bytes of the longest model name that can be a label. Names with an organisation and a version have some 60.
const LONGEST_MODEL: usize = 128;

/// The conventions' boundaries of durations.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The conventions' boundaries of `gen_ai.server.time_to_first_token`.
const FIRST_TOKEN: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// The conventions' boundaries of `gen_ai.server.time_per_output_token`.
const PER_TOKEN: [f64; 13] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];

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
const PENDING: [f64; 9] = [4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_their_names() {
        for (host, name) in [
            ("api.openai.com", "openai"),
            ("eu.api.openai.com", "openai"),
            ("mine.openai.azure.com", "azure.ai.openai"),
            ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
            ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
            ("openrouter.ai", "openrouter.ai"),
            ("api.openai.com.example", "api.openai.com.example"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(provider_name(host), name);
        }
    }

    #[test]
    fn models_are_admitted_up_to_a_limit() {
        let models = Models::new(2);
        let admit = |name: &str| models.admit(&models.named(name)).to_string();
        for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(LONGEST_MODEL + 1), OTHER] {
            assert_eq!(admit(name), OTHER, "{name:?}");
        }
        let a = models.named("a");
        assert_eq!(&*models.label(&a), OTHER, "the upstream has not answered");
        assert_eq!(["a", "b\"", "c", "a"].map(admit), ["a", "b\"", OTHER, "a"]);
        assert_eq!(&*models.label(&a), "a");
        assert_eq!(Models::new(0).admit(&a).as_ref(), OTHER);
    }
}
