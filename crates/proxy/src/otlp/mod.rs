//! Pushes spans to a collector by OTLP, configured by the standard environment variables.
//!
//! The OpenTelemetry SDK queues finished spans and sends them from a thread of its own. A full queue
//! drops them, so a collector that is slow or down delays no answer. Requests to the collector go
//! through the client of the proxy.

mod client;
mod span;

use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use client::CollectorClient;
use restitch_http::Upstream;
pub(super) use span::Spans;

/// A handle that pushes spans to a collector. Clones share it.
#[derive(Clone, Debug)]
pub struct Otlp {
    client: CollectorClient,
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Otlp {
    /// Returns a handle for the collector in the environment: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`,
    /// or `OTEL_EXPORTER_OTLP_ENDPOINT`. `None`: neither names a collector, or `OTEL_SDK_DISABLED`
    /// is `true`. Call it inside a runtime, which then sends the requests.
    ///
    /// # Errors
    /// A variable has a value that is not valid.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        // Without an address, the SDK's exporter would push to this machine.
        let Some((name, address)) = first([TRACES_ENDPOINT, ENDPOINT]).filter(|_| !is_disabled)
        else {
            return Ok(None);
        };
        let collector = Upstream::parse(&address).map_err(|error| format!("{name}: {error}"))?;
        let client = CollectorClient::new(collector).map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_protocol(protocol()?)
            .build();
        let own_name = || opentelemetry::KeyValue::new("service.name", "restitch");
        let is_named = variable("OTEL_SERVICE_NAME").is_some();
        let resource = Resource::builder().with_attributes((!is_named).then(own_name));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter.map_err(|error| error.to_string())?)
            .with_resource(resource.build())
            .build();
        let scope = InstrumentationScope::builder("restitch")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let tracer = provider.tracer_with_scope(scope);
        Ok(Some(Self {
            client,
            provider,
            tracer,
        }))
    }

    /// Sends the queued spans, for a limited time, and nothing afterwards.
    pub async fn finish(self) {
        let provider = self.provider;
        let sending = move || provider.shutdown_with_timeout(FLUSH);
        let sent = tokio::task::spawn_blocking(sending).await;
        // The SDK's error names no cause, so the warning omits it.
        if matches!(sent, Ok(Err(_))) || self.client.is_failing() {
            tracing::warn!("not all spans have reached the collector");
        }
    }
}

/// Returns the encoding of the spans. Not left to the SDK, whose default depends on its features and
/// differs from the standard's.
fn protocol() -> Result<Protocol, String> {
    match first(PROTOCOLS) {
        None => Ok(Protocol::HttpBinary),
        Some((name, value)) => match value.as_str() {
            "http/protobuf" => Ok(Protocol::HttpBinary),
            "http/json" => Ok(Protocol::HttpJson),
            other => Err(format!(
                "{name}: `{other}` is neither `http/protobuf` nor `http/json`"
            )),
        },
    }
}

/// Returns the first variable that is set, and its value.
fn first(names: [&'static str; 2]) -> Option<(&'static str, String)> {
    names
        .into_iter()
        .find_map(|name| Some((name, variable(name)?)))
}

/// Returns the value of a variable. An empty variable counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "the variables of OpenTelemetry are those of the process"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The variables that name a collector: for spans, and for all signals.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variables that name an encoding: for spans, and for all signals.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
/// The longest time for sending the last spans at the end.
const FLUSH: Duration = Duration::from_secs(3);
