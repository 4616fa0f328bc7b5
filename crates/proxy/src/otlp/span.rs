//! The spans of an answer and of its upstream calls.

use http::{HeaderMap, StatusCode};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::Otlp;
use crate::metrics::{Operation, cause_name};
use restitch::internal::record::{AnswerRecord, CutRecord, SeamRecord};
use restitch_http::Upstream;

/// The trace context of a request (`traceparent` and `tracestate` of the [W3C Trace
/// Context](https://www.w3.org/TR/trace-context/)), and the tracer of the spans below it.
#[derive(Clone, Debug)]
pub(in super::super) struct Parent {
    context: Context,
    tracer: SdkTracer,
}

impl Parent {
    /// Returns the context of a request. `None`: no spans are pushed.
    pub(in super::super) fn of(otlp: &Otlp, headers: &HeaderMap) -> Option<Self> {
        let tracer = otlp.tracer()?.clone();
        let extractor = HeaderExtractor(headers);
        let context =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &extractor);
        Some(Self { context, tracer })
    }

    /// Begins the span of an answer.
    pub(in super::super) fn begin_answer(
        &self,
        operation: &Operation,
        wire: &'static str,
    ) -> AnswerSpan {
        let attributes = of(operation).chain([KeyValue::new("restitch.wire", wire)]);
        let span = name(operation)
            .with_kind(SpanKind::Server)
            .with_attributes(attributes);
        let span = span.start_with_context(&self.tracer, &self.context);
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        AnswerSpan {
            tracer: self.tracer.clone(),
            span,
            context,
        }
    }
}

/// The span of an answer. Dropping the value ends it.
#[derive(Debug)]
pub(in super::super) struct AnswerSpan {
    tracer: SdkTracer,
    span: Span,
    /// The parent context of the calls' spans.
    context: Context,
}

impl AnswerSpan {
    /// Begins the span of an upstream call.
    pub(in super::super) fn begin_call(
        &self,
        operation: &Operation,
        rung: &'static str,
        upstream: &Upstream,
    ) -> CallSpan {
        let address = KeyValue::new("server.address", upstream.host().to_owned());
        let attributes = of(operation).chain([address, KeyValue::new("restitch.rung", rung)]);
        let span = name(operation)
            .with_kind(SpanKind::Client)
            .with_attributes(attributes);
        CallSpan(span.start_with_context(&self.tracer, &self.context))
    }

    /// Notes how the answer has ended. `error`: empty without one.
    pub(in super::super) fn end(
        mut self,
        record: &AnswerRecord,
        outcome: &'static str,
        status: Option<StatusCode>,
        error: &str,
    ) {
        self.span
            .set_attribute(KeyValue::new("restitch.outcome", outcome));
        self.span
            .set_attribute(KeyValue::new("restitch.cuts", record.causes.len() as i64));
        self.span
            .set_attribute(KeyValue::new("restitch.seams", record.seams() as i64));
        end(&mut self.span, status, error);
    }
}

/// The span of an upstream call. Dropping the value ends it.
#[derive(Debug)]
pub(in super::super) struct CallSpan(Span);

impl CallSpan {
    /// Returns the trace headers that carry this span to the upstream.
    pub(in super::super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let context = Context::new().with_remote_span_context(self.0.span_context().clone());
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(&mut headers));
        if headers
            .get("tracestate")
            .is_some_and(http::HeaderValue::is_empty)
        {
            headers.remove("tracestate");
        }
        headers
    }

    /// Notes how the call was cut.
    pub(in super::super) fn note_cut(&mut self, cut: &CutRecord) {
        let cause = cause_name(cut.end.cause());
        self.0.set_attribute(KeyValue::new("restitch.cause", cause));
        self.0
            .set_attribute(KeyValue::new("restitch.offset", cut.offset as i64));
    }

    /// Notes how the call's text was joined.
    pub(in super::super) fn note_seam(&mut self, SeamRecord { seam, .. }: &SeamRecord) {
        let attributes = vec![
            KeyValue::new("restitch.alignment", seam.alignment.as_str()),
            KeyValue::new("restitch.offset", seam.offset as i64),
            KeyValue::new("restitch.posterior", seam.posterior),
            KeyValue::new("restitch.pending", seam.pending as i64),
        ];
        self.0.add_event("joined", attributes);
    }

    /// Notes tokens, `input` or `output`.
    pub(in super::super) fn note_tokens(&mut self, kind: &'static str, tokens: u64) {
        let name = match kind {
            "input" => "gen_ai.usage.input_tokens",
            _ => "gen_ai.usage.output_tokens",
        };
        self.0.set_attribute(KeyValue::new(
            name,
            i64::try_from(tokens).unwrap_or(i64::MAX),
        ));
    }

    /// Notes how the call has ended. `error`: empty without one.
    pub(in super::super) fn end(mut self, status: Option<StatusCode>, error: &str) {
        end(&mut self.0, status, error);
    }
}

fn end(span: &mut Span, status: Option<StatusCode>, error: &str) {
    if let Some(status) = status {
        span.set_attribute(KeyValue::new(
            "http.response.status_code",
            i64::from(status.as_u16()),
        ));
    }
    if !error.is_empty() {
        span.set_attribute(KeyValue::new("error.type", error.to_owned()));
        span.set_status(Status::error(String::new()));
    }
    span.end();
}

fn of(operation: &Operation) -> impl Iterator<Item = KeyValue> {
    [
        KeyValue::new("gen_ai.operation.name", operation.gen_ai_operation_name),
        KeyValue::new(
            "gen_ai.provider.name",
            operation.gen_ai_provider_name.to_string(),
        ),
        KeyValue::new(
            "gen_ai.request.model",
            operation.gen_ai_request_model.to_string(),
        ),
    ]
    .into_iter()
}

fn name(operation: &Operation) -> SpanBuilder {
    SpanBuilder::from_name(format!(
        "{} {}",
        operation.gen_ai_operation_name, operation.gen_ai_request_model
    ))
}
