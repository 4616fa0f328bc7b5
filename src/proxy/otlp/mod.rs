//! Pushes spans and metrics to a collector by OTLP, as the standard variables of the environment say.
//!
//! The SDK of OpenTelemetry queues what has ended and sends it from threads of its own. A queue that is full drops, so a collector
//! that is slow or down delays no answer. Requests to the collector go through the client of the proxy.

mod client;
mod instruments;
mod span;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use client::CollectorClient;
pub(super) use instruments::{Counter, Histogram, UpDownCounter};
pub(super) use span::{AnswerSpan, CallSpan, Parent};

/// What is pushed to a collector. Clones push to the same.
#[derive(Clone, Debug)]
pub struct Otlp(Arc<Providers>);

#[derive(Debug)]
struct Providers {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
    tracer: SdkTracer,
    meter: Meter,
}

impl Otlp {
    /// Returns what pushes to the collector that the environment names: `OTEL_EXPORTER_OTLP_ENDPOINT`, or the variable of traces or
    /// of metrics. `None`: it names none, or `OTEL_SDK_DISABLED` is `true`. Called inside of a runtime, which sends the requests.
    ///
    /// # Errors
    /// A variable has a value that is not valid.
    #[expect(clippy::disallowed_methods, reason = "the variables of OpenTelemetry are those of the process")]
    pub fn from_environment() -> Result<Option<Self>, String> {
        let is_set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let is_disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        if is_disabled || !ENDPOINTS.iter().any(is_set) {
            return Ok(None);
        }
        let client = CollectorClient::new();
        let spans = SpanExporter::builder().with_http().with_http_client(client.clone()).build();
        let metrics = MetricExporter::builder().with_http().with_http_client(client).build();
        let spans = spans.map_err(|error| error.to_string())?;
        let metrics = metrics.map_err(|error| error.to_string())?;
        let resource = Resource::builder().with_attributes(
            std::env::var("OTEL_SERVICE_NAME")
                .is_err()
                .then(|| opentelemetry::KeyValue::new("service.name", env!("CARGO_PKG_NAME"))),
        );
        let resource = resource.build();
        let traces = SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
        let metrics = SdkMeterProvider::builder().with_periodic_exporter(metrics).with_resource(resource).build();
        let scope =
            InstrumentationScope::builder(env!("CARGO_PKG_NAME")).with_version(env!("CARGO_PKG_VERSION")).build();
        let (tracer, meter) = (traces.tracer_with_scope(scope.clone()), metrics.meter_with_scope(scope));
        Ok(Some(Self(Arc::new(Providers { traces, metrics, tracer, meter }))))
    }

    /// Sends what waits, for a limited time, and nothing afterwards.
    pub async fn finish(self) {
        let Self(providers) = self;
        let both = tokio::task::spawn_blocking(move || {
            let traces = providers.traces.shutdown_with_timeout(FLUSH);
            traces.and(providers.metrics.shutdown_with_timeout(FLUSH))
        });
        if let Ok(Err(error)) = both.await {
            tracing::warn!(%error, "not all spans and metrics have reached the collector");
        }
    }
}

/// The variables that name a collector.
const ENDPOINTS: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];
/// How long the last spans, and the last metrics, may take at the end.
const FLUSH: Duration = Duration::from_secs(3);
