//! Pushes spans and metrics to a collector by OTLP, configured by the standard environment
//! variables.
//!
//! The OpenTelemetry SDK queues finished spans and metrics and sends them from its own threads. A
//! full queue drops them, so a collector that is slow or down delays no answer. Requests to the
//! collector go through the client of the proxy.

mod client;
mod instruments;
mod span;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use client::CollectorClient;
pub(super) use instruments::{Counter, Histogram, UpDownCounter};
use restitch_http::Upstream;
pub(super) use span::{AnswerSpan, CallSpan, Parent};

/// A handle that pushes spans and metrics to a collector. Clones share it.
#[derive(Clone, Debug)]
pub struct Otlp(Arc<Signals>);

/// The signals for which the environment names a collector.
#[derive(Debug)]
struct Signals {
    traces: Option<Traces>,
    metrics: Option<OtlpMetrics>,
}

#[derive(Debug)]
struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

#[derive(Debug)]
struct OtlpMetrics {
    provider: SdkMeterProvider,
    meter: Meter,
}

impl Otlp {
    /// Returns a handle for the collector in the environment: `OTEL_EXPORTER_OTLP_ENDPOINT` for
    /// both traces and metrics, or a variable for each alone. `None`: no variable names a
    /// collector, or `OTEL_SDK_DISABLED` is `true`. Call it inside a runtime, which then sends the
    /// requests.
    ///
    /// # Errors
    /// A variable has a value that is not valid.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_disabled {
            return Ok(None);
        }
        for name in [ENDPOINT, TRACES_ENDPOINT, METRICS_ENDPOINT] {
            let address = variable(name)
                .map(|value| Upstream::parse(&value))
                .transpose();
            address.map_err(|error| format!("{name}: {error}"))?;
        }
        // Without an address, the SDK's exporter would push to this machine.
        let is_named = |own: &str| variable(ENDPOINT).is_some() || variable(own).is_some();
        let own_name = || opentelemetry::KeyValue::new("service.name", "restitch");
        let resource = Resource::builder()
            .with_attributes(variable("OTEL_SERVICE_NAME").is_none().then(own_name));
        let resource = resource.build();
        let traces = is_named(TRACES_ENDPOINT)
            .then(|| Traces::new(&resource))
            .transpose()?;
        let metrics = is_named(METRICS_ENDPOINT)
            .then(|| OtlpMetrics::new(&resource))
            .transpose()?;
        let is_off = traces.is_none() && metrics.is_none();
        Ok((!is_off).then(|| Self(Arc::new(Signals { traces, metrics }))))
    }

    /// Returns the tracer, if spans are pushed.
    fn tracer(&self) -> Option<&SdkTracer> {
        self.0.traces.as_ref().map(|traces| &traces.tracer)
    }

    /// Returns the meter, if metrics are pushed.
    fn meter(&self) -> Option<&Meter> {
        self.0.metrics.as_ref().map(|metrics| &metrics.meter)
    }

    /// Sends the queued spans and metrics, for a limited time, and nothing afterwards.
    pub async fn finish(self) {
        let Self(signals) = self;
        let both = tokio::task::spawn_blocking(move || {
            let traces = signals
                .traces
                .as_ref()
                .map(|traces| traces.provider.shutdown_with_timeout(FLUSH));
            let metrics = signals
                .metrics
                .as_ref()
                .map(|metrics| metrics.provider.shutdown_with_timeout(FLUSH));
            traces.unwrap_or(Ok(())).and(metrics.unwrap_or(Ok(())))
        });
        if let Ok(Err(error)) = both.await {
            // The SDK's error names no cause, so the warning omits it.
            tracing::debug!(%error, "the exporters have not finished");
            tracing::warn!("not all spans and metrics have reached the collector");
        }
    }
}

impl Traces {
    fn new(resource: &Resource) -> Result<Self, String> {
        let client = CollectorClient::new("spans");
        let protocol = protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(protocol)
            .build();
        let exporter = exporter.map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.clone())
            .build();
        let tracer = provider.tracer_with_scope(scope());
        Ok(Self { provider, tracer })
    }
}

impl OtlpMetrics {
    fn new(resource: &Resource) -> Result<Self, String> {
        let client = CollectorClient::new("metrics");
        let protocol = protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")?;
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(protocol)
            .build();
        let exporter = exporter.map_err(|error| error.to_string())?;
        let provider = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter)
            .with_resource(resource.clone())
            .build();
        let meter = provider.meter_with_scope(scope());
        Ok(Self { provider, meter })
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("restitch")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// Returns the encoding of a signal. `own`: the signal's own variable. Not left to the SDK, whose
/// default depends on its features and differs from the standard's.
fn protocol(own: &str) -> Result<Protocol, String> {
    let named = [own, "OTEL_EXPORTER_OTLP_PROTOCOL"]
        .into_iter()
        .find_map(|name| Some((name, variable(name)?)));
    match named.as_ref().map(|(name, value)| (*name, value.as_str())) {
        None | Some((_, "http/protobuf")) => Ok(Protocol::HttpBinary),
        Some((_, "http/json")) => Ok(Protocol::HttpJson),
        Some((name, other)) => Err(format!(
            "{name}: `{other}` is neither `http/protobuf` nor `http/json`"
        )),
    }
}

/// Returns the value of a variable. An empty variable counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "the variables of OpenTelemetry are those of the process"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The variables that name a collector: for both signals, and for one.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
/// The longest time for sending the last spans, and the last metrics, at the end.
const FLUSH: Duration = Duration::from_secs(3);
