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
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// All metrics of a proxy. Its threads share them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pub(super) models: Models,
    pub(super) calls: Calls,
    pub(super) answers: Answers,
    pub(super) seams: Seams,
    pub(super) requests: Requests,
}

impl Metrics {
    /// Creates metrics without a sample. `max_models`: see
    /// [`max_metric_models`](crate::ServerLimits::max_metric_models).
    pub(super) fn new(max_models: usize) -> Self {
        let mut registry = Registry::default();
        let (calls, answers) = (Calls::new(&mut registry), Answers::new(&mut registry));
        calls.register(&mut registry);
        answers.register(&mut registry);
        let seams = Seams::new(&mut registry);
        let requests = Requests::new(&mut registry);
        Self { requests, registry, models: Models::new(max_models), calls, answers, seams }
    }

    /// Returns all samples as text.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// A histogram for each set of labels.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// What is measured of each upstream call.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_chunk: Histograms<Operation>,
    pub(super) usage: Histograms<Usage>,
    pub(super) further: Family<FurtherCall, Counter>,
    pub(super) tokens: Family<TokenUse, Counter>,
}

impl Calls {
    fn new(conventions: &mut Registry) -> Self {
        let calls = Self {
            duration: Family::new_with_constructor(seconds),
            first_chunk: Family::new_with_constructor(seconds),
            usage: Family::new_with_constructor(|| Histogram::new(TOKENS)),
            further: Family::default(),
            tokens: Family::default(),
        };
        let help = "Time of an upstream call, from its request to the end of its answer";
        conventions.register_with_unit("gen_ai_client_operation_duration", help, Unit::Seconds, calls.duration.clone());
        let (name, help) = (
            "gen_ai_client_operation_time_to_first_chunk",
            "Time from the request of an upstream call to the first bytes of its stream",
        );
        conventions.register_with_unit(name, help, Unit::Seconds, calls.first_chunk.clone());
        let help = "Tokens of an upstream call, as its usage tells them";
        conventions.register("gen_ai_client_token_usage", help, calls.usage.clone());
        calls
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("restitch_calls", "Calls after the first one of an answer", self.further.clone());
        registry.register(
            "restitch_tokens",
            "Tokens of answers, as the usage of calls tells them",
            self.tokens.clone(),
        );
    }
}

/// What is measured of each answer to a client.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) duration: Histograms<Ended>,
    pub(super) first_token: Histograms<Operation>,
    pub(super) per_token: Histograms<Operation>,
    pub(super) ended: Family<EndedAnswer, Counter>,
    pub(super) running: Gauge,
}

impl Answers {
    fn new(conventions: &mut Registry) -> Self {
        let answers = Self {
            duration: Family::new_with_constructor(seconds),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            per_token: Family::new_with_constructor(|| Histogram::new(PER_TOKEN)),
            ended: Family::default(),
            running: Gauge::default(),
        };
        let help = "Time of an answer, from its request to its last byte";
        conventions.register_with_unit("gen_ai_server_request_duration", help, Unit::Seconds, answers.duration.clone());
        let help = "Time from a request to the first bytes of its streamed answer";
        conventions.register_with_unit(
            "gen_ai_server_time_to_first_token",
            help,
            Unit::Seconds,
            answers.first_token.clone(),
        );
        let help = "Time per output token of a streamed answer, after its first bytes";
        conventions.register_with_unit(
            "gen_ai_server_time_per_output_token",
            help,
            Unit::Seconds,
            answers.per_token.clone(),
        );
        answers
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("restitch_answers", "Answers to requests of an API", self.ended.clone());
        registry.register("restitch_running", "Requests of an API that are being answered", self.running.clone());
    }
}

/// What is measured of cuts, and of continuations that were joined.
#[derive(Debug)]
pub(super) struct Seams {
    pub(super) cuts: Family<Cut, Counter>,
    pub(super) joined: Family<Joined, Counter>,
    pub(super) gap: Histogram,
    pub(super) pending: Histogram,
}

impl Seams {
    fn new(registry: &mut Registry) -> Self {
        let seams = Self {
            cuts: Family::default(),
            joined: Family::default(),
            gap: seconds(),
            pending: Histogram::new(PENDING),
        };
        registry.register("restitch_cuts", "Calls that ended before the document was whole", seams.cuts.clone());
        registry.register("restitch_seams", "Continuations that were joined", seams.joined.clone());
        let help = "Time from a cut to the first text of the continuation that was joined";
        registry.register_with_unit("restitch_gap", help, Unit::Seconds, seams.gap.clone());
        let help = "Bytes of a continuation that waited until its place was decided";
        registry.register_with_unit("restitch_pending", help, Unit::Bytes, seams.pending.clone());
        seams
    }
}

/// All requests, those that pass included. The operator's routes and upstreams are the only labels of a client's choosing.
#[derive(Debug)]
pub(super) struct Requests(Family<Routed, Counter>);

impl Requests {
    fn new(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register("restitch_requests", "Requests by the route that answered them", requests.clone());
        Self(requests)
    }

    /// Counts a request that has ended. `route`: `None` where it was refused before it had one.
    pub(super) fn count(&self, route: Option<&str>, upstream: Option<&str>, status: Option<StatusCode>) {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        // A server may send any status.
        let known = status.filter(|status| status.canonical_reason().is_some());
        let status = known.map_or_else(|| OTHER.to_owned(), |status| status.as_str().to_owned());
        self.0.get_or_create(&Routed { route: text(route), upstream: text(upstream), status }).inc();
    }
}

/// Where a request went, and the status that its client got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Routed {
    route: String,
    upstream: String,
    status: String,
}

/// What a request asks a model for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Operation {
    pub(super) gen_ai_provider_name: Arc<str>,
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_request_model: Arc<str>,
}

/// How a call or an answer ended. Empty: without an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    #[prometheus(flatten)]
    pub(super) operation: Operation,
    pub(super) error_type: Cow<'static, str>,
}

/// Which tokens of a call were counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Usage {
    #[prometheus(flatten)]
    pub(super) operation: Operation,
    pub(super) gen_ai_token_type: &'static str,
}

/// How a further call was made, and what it brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FurtherCall {
    pub(super) way: &'static str,
    pub(super) outcome: &'static str,
}

/// What tokens were used for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokenUse {
    pub(super) r#use: &'static str,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EndedAnswer {
    pub(super) wire: &'static str,
    pub(super) slot: &'static str,
    pub(super) status: &'static str,
}

/// Whose answer was cut, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Cut {
    pub(super) model: Arc<str>,
    pub(super) cause: &'static str,
}

/// How a continuation was joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Joined {
    pub(super) kind: &'static str,
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
