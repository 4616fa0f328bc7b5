//! The spans of an answer and of its upstream calls, as a function of the record.

use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::Otlp;
use crate::metrics::{cause_name, provider_name, shown_model};
use crate::record::{Record, call_error, operation_name};
use restitch::internal::record::CallRecord;
use restitch::provider::Dialect;
use restitch_http::Upstream;

/// The spans of a request: of its answer, and of its open call.
#[derive(Debug)]
pub(crate) struct Spans {
    tracer: SdkTracer,
    /// The trace context of the request (`traceparent` and `tracestate` of the [W3C Trace
    /// Context](https://www.w3.org/TR/trace-context/)).
    client: Context,
    answer: Option<Span>,
    call: Option<CallSpan>,
}

#[derive(Debug)]
struct CallSpan {
    /// Its index in the record.
    at: usize,
    span: Span,
    has_seam: bool,
}

impl Spans {
    /// Reads the trace context of a request.
    pub(crate) fn of(otlp: &Otlp, headers: &HeaderMap) -> Self {
        let propagator = TraceContextPropagator::new();
        Self {
            tracer: otlp.tracer.clone(),
            client: propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers)),
            answer: None,
            call: None,
        }
    }

    /// Begins and ends spans after a change of the record.
    pub(crate) fn update(&mut self, record: &Record) {
        let open = record.open_call();
        if let Some(call) = self
            .call
            .take_if(|call| Some(call.at) != open.map(|open| open.at))
        {
            end_call(call.span, record.answer.calls.get(call.at));
        }
        if let Some(request) = &record.answer.request
            && self.answer.is_none()
            && !record.has_ended()
        {
            let upstream = record.answering_upstream();
            let builder = operation(request.dialect, upstream, &request.model)
                .with_kind(SpanKind::Server)
                .start_with_context(&self.tracer, &self.client);
            let mut span = builder;
            let wire = request.dialect.as_str();
            span.set_attribute(KeyValue::new("restitch.wire", wire));
            self.answer = Some(span);
        }
        let Some(answer) = &mut self.answer else {
            return;
        };
        if let Some(facts) = open.filter(|_| self.call.is_none()) {
            let context = Context::new().with_remote_span_context(answer.span_context().clone());
            let builder = operation(facts.dialect, Some(&facts.upstream), &facts.model);
            let mut span = builder
                .with_kind(SpanKind::Client)
                .start_with_context(&self.tracer, &context);
            let host = facts.upstream.host().to_owned();
            span.set_attribute(KeyValue::new("server.address", host));
            if let Some(call) = record.answer.calls.get(facts.at) {
                let rung = call.kind.as_str();
                span.set_attribute(KeyValue::new("restitch.rung", rung));
            }
            self.call = Some(CallSpan {
                at: facts.at,
                span,
                has_seam: false,
            });
        }
        if let Some(call) = self.call.as_mut().filter(|call| !call.has_seam)
            && let Some(made) = record.answer.calls.get(call.at)
        {
            call.has_seam = made.seam.is_some();
            add_seam(&mut call.span, made);
        }
        if record.has_ended()
            && let Some(span) = self.answer.take()
        {
            end_answer(span, record);
        }
    }

    /// Returns the headers that carry the span of the open call to its upstream.
    pub(crate) fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let span = &self.call.as_ref()?.span;
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(&mut headers));
        if headers
            .get("tracestate")
            .is_some_and(http::HeaderValue::is_empty)
        {
            headers.remove("tracestate");
        }
        Some(headers)
    }
}

/// Returns a span with the attributes of an operation.
fn operation(dialect: Dialect, upstream: Option<&Upstream>, model: &str) -> SpanBuilder {
    let (operation, model) = (operation_name(dialect), shown_model(model).to_owned());
    let host = upstream.map_or("", Upstream::host);
    SpanBuilder::from_name(format!("{operation} {model}")).with_attributes([
        KeyValue::new("gen_ai.operation.name", operation),
        KeyValue::new("gen_ai.provider.name", provider_name(host).to_owned()),
        KeyValue::new("gen_ai.request.model", model),
    ])
}

/// Adds the event of a join.
fn add_seam(span: &mut Span, call: &CallRecord) {
    let Some(joined) = &call.seam else { return };
    let seam = &joined.seam;
    let attributes = vec![
        KeyValue::new("restitch.alignment", seam.alignment.as_str()),
        KeyValue::new("restitch.offset", seam.offset as i64),
        KeyValue::new("restitch.posterior", seam.posterior),
        KeyValue::new("restitch.pending", seam.pending as i64),
    ];
    span.add_event("joined", attributes);
}

fn end_call(mut span: Span, call: Option<&CallRecord>) {
    let Some(call) = call else { return };
    if let Some(cut) = &call.cut {
        let cause = cause_name(cut.end.cause());
        span.set_attribute(KeyValue::new("restitch.cause", cause));
        span.set_attribute(KeyValue::new("restitch.offset", cut.offset as i64));
    }
    for (name, tokens) in [
        (
            "gen_ai.usage.input_tokens",
            call.usage.and_then(|used| used.input),
        ),
        (
            "gen_ai.usage.output_tokens",
            call.usage.and_then(|used| used.output),
        ),
    ] {
        if let Some(tokens) = tokens {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            span.set_attribute(KeyValue::new(name, tokens));
        }
    }
    end(span, call.status, &call_error(call));
}

fn end_answer(mut span: Span, record: &Record) {
    let (cuts, seams) = (record.answer.cuts.len(), record.answer.seams());
    span.set_attribute(KeyValue::new("restitch.outcome", record.outcome()));
    span.set_attribute(KeyValue::new("restitch.cuts", cuts as i64));
    span.set_attribute(KeyValue::new("restitch.seams", seams as i64));
    let status = record.status.map(|status| status.as_u16());
    end(span, status, &record.error());
}

/// Ends a span. `error`: empty without one.
fn end(mut span: Span, status: Option<u16>, error: &str) {
    if let Some(status) = status {
        let status = i64::from(status);
        span.set_attribute(KeyValue::new("http.response.status_code", status));
    }
    if !error.is_empty() {
        span.set_attribute(KeyValue::new("error.type", error.to_owned()));
        span.set_status(Status::error(String::new()));
    }
    span.end();
}
