//! Measures a request, its upstream calls and its answer. Records figures when a call or an answer
//! ends, and at cuts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::metrics::{
    AnswerError, CallError, Cut, ERROR, Ended, EndedAnswer, Flagged, FurtherCall, GivenUp, Joined,
    Metrics, OTHER, OfAnswer, Operation, TokenUse, Usage, cause_name, provider_name, slot_name,
};
use super::otlp::{AnswerSpan, CallSpan, Parent};
use super::route::Route;
use restitch::internal::record::{AnswerRecord, CallKind, CallRecord, Change, RequestInfo};
use restitch::provider::Dialect;
use restitch::session::{Outcome, Status};
use restitch_http::Upstream;

/// The measurements of an API request.
pub(super) struct Measured {
    metrics: Arc<Metrics>,
    request: RequestInfo,
    /// The labels of the answer.
    answer: OfAnswer,
    /// The source of the current call.
    current: Source,
    /// The source whose answer the client gets: the first one, until another one begins to answer.
    answering: Source,
    /// The model's name in the request.
    name: Arc<str>,
    /// The label of that model.
    model: Arc<str>,
    /// The label of the model that has begun the answer, by its name at its upstream.
    answering_model: Arc<str>,
    /// The open call.
    call: Option<MeasuredCall>,
    /// Set if spans are pushed.
    span: Option<AnswerSpan>,
}

/// An upstream as a label.
#[derive(Clone)]
struct Source {
    /// The provider's name in the conventions.
    provider: Arc<str>,
    /// The host, with the port if the configuration names one.
    upstream: Arc<str>,
}

impl Source {
    fn of(upstream: &Upstream) -> Self {
        Self {
            provider: Arc::from(provider_name(upstream.host())),
            upstream: Arc::from(upstream.authority()),
        }
    }
}

/// How an answer ended for the client.
pub(super) struct AnswerEnd<'a> {
    pub(super) record: &'a AnswerRecord,
    /// The name of the client's token. Empty: the proxy needs none.
    pub(super) token: Arc<str>,
    pub(super) status: Option<StatusCode>,
    /// `left` or `broken`, if the client did not get the answer to its end.
    pub(super) break_off: Option<&'static str>,
    /// Since the request.
    pub(super) first_byte: Option<Duration>,
    /// Since the request.
    pub(super) last_byte: Duration,
    /// Since the request.
    pub(super) duration: Duration,
}

/// An open upstream call.
struct MeasuredCall {
    /// Its index in the record.
    at: usize,
    /// The operation, with the API and the model's name of the upstream.
    operation: Operation,
    upstream: Arc<str>,
    /// The model's name, which becomes its label once the upstream has answered.
    name: Arc<str>,
    began: Instant,
    span: Option<CallSpan>,
}

impl Measured {
    /// `parent`: the span of the client, if spans are pushed.
    pub(super) fn new(
        metrics: Arc<Metrics>,
        request: RequestInfo,
        (route, token): (&Route, Option<Arc<str>>),
        parent: Option<&Parent>,
    ) -> Self {
        let token = token.unwrap_or_default();
        let source = Source::of(route.client.upstream());
        let answer = OfAnswer {
            route: Arc::from(route.config.name.as_str()),
        };
        let name = metrics.models.named(&request.model);
        let model = metrics.models.label(&name);
        if route.is_first(request.dialect, &token) {
            metrics.begin_wire(&answer, request.dialect.as_str(), &token);
        }
        metrics.answers.running.inc();
        let mut measured = Self {
            metrics,
            request,
            answer,
            answering: source.clone(),
            current: source,
            name,
            answering_model: Arc::clone(&model),
            model,
            call: None,
            span: None,
        };
        let wire = measured.request.dialect.as_str();
        measured.span = parent.map(|parent| parent.begin_answer(&measured.asked(), wire));
        measured
    }

    /// Begins the newest call of the record, and ends one that is still open: the upstream refused
    /// it, and this is its adapted repeat. `model`: its name at the upstream.
    pub(super) fn begin_call(
        &mut self,
        record: &AnswerRecord,
        upstream: &Upstream,
        (dialect, model): (Dialect, &str),
    ) {
        self.end_call(record);
        let Some((at, call)) = record.calls.iter().enumerate().next_back() else {
            return;
        };
        if *self.current.upstream != *upstream.authority() {
            self.current = Source::of(upstream);
        }
        let name = self.metrics.models.named(model);
        let operation = Operation {
            answer: self.answer.clone(),
            gen_ai_provider_name: Arc::clone(&self.current.provider),
            gen_ai_operation_name: operation_name(dialect),
            gen_ai_request_model: self.metrics.models.label(&name),
        };
        // Spans may have any name.
        let asked = Operation {
            gen_ai_request_model: Arc::clone(&name),
            ..operation.clone()
        };
        let span = self
            .span
            .as_ref()
            .map(|span| span.begin_call(&asked, call.kind.as_str(), upstream));
        self.call = Some(MeasuredCall {
            at,
            operation,
            upstream: Arc::clone(&self.current.upstream),
            name,
            began: Instant::now(),
            span,
        });
    }

    /// Returns the headers that name the span of the open call to its upstream.
    pub(super) fn trace(&self) -> Option<HeaderMap> {
        self.call.as_ref()?.span.as_ref().map(CallSpan::headers)
    }

    /// Notes that the open call was answered with 200.
    pub(super) fn note_answer(&mut self, record: &AnswerRecord) {
        let Some(call) = &mut self.call else { return };
        let model = self.metrics.admit(&self.answer, &call.upstream, &call.name);
        call.operation.gen_ai_request_model = Arc::clone(&model);
        if record
            .calls
            .get(call.at)
            .is_some_and(|call| !call.kind.is_for_rest())
        {
            (self.answering, self.answering_model) = (self.current.clone(), model);
        }
        // A client chooses the requested name, so it is a label only if an upstream has answered to
        // it: a fallback may have another name for the model.
        self.model = self.metrics.models.label(&self.name);
    }

    /// Notes the first bytes of the open call's stream.
    pub(super) fn note_first_chunk(&self) {
        let Some(call) = &self.call else { return };
        self.metrics
            .calls
            .first_chunk
            .observe(&call.operation, call.began.elapsed().as_secs_f64());
    }

    /// Notes the newest change of the answer's record.
    pub(super) fn note(&mut self, record: &AnswerRecord, change: Change) {
        match change {
            Change::Cut { call, is_new } => {
                if is_new {
                    let (upstream, model) = self.asked_for(call);
                    let labels = Cut {
                        answer: self.answer.clone(),
                        upstream: Arc::clone(upstream),
                        model: Arc::clone(model),
                        cause: cause_name(record.causes.last().copied().flatten()),
                    };
                    self.metrics.seams.cuts.add(&labels, 1);
                }
                let cut = record.calls.get(call).and_then(|call| call.cut.as_ref());
                let span = self.open_call(call).and_then(|call| call.span.as_mut());
                if let (Some(span), Some(cut)) = (span, cut) {
                    span.note_cut(cut);
                }
            }
            Change::Joined(call) => {
                let Some(seam) = record.calls.get(call).and_then(|call| call.seam.as_ref()) else {
                    return;
                };
                let kind = seam.seam.alignment.as_str();
                let seams = &self.metrics.seams;
                let answer = self.answer.clone();
                seams.gap.observe(&self.answer, seam.elapsed.as_secs_f64());
                seams
                    .pending
                    .observe(&self.answer, seam.seam.pending as f64);
                seams.joined.add(&Joined { answer, kind }, 1);
                let span = self.open_call(call).and_then(|call| call.span.as_mut());
                span.into_iter().for_each(|span| span.note_seam(seam));
            }
            Change::Used(call) => {
                if let Some(call) = record.calls.get(call) {
                    self.note_usage(call);
                }
            }
            Change::Requested => self.end_call(record),
            Change::Ended => {
                record
                    .outcome
                    .iter()
                    .for_each(|outcome| self.note_outcome(outcome));
                self.end_call(record);
            }
            Change::Failed(_) | Change::Step(_) => {}
        }
    }

    /// Returns the open call if it has this index.
    fn open_call(&mut self, at: usize) -> Option<&mut MeasuredCall> {
        self.call.as_mut().filter(|call| call.at == at)
    }

    /// Counts the doubtful seams of an answer, and the reason if the session gave it up.
    fn note_outcome(&self, outcome: &Outcome) {
        let tally = outcome.tally();
        for (flag, seams) in [
            ("ambiguous", tally.ambiguous),
            ("early_end", tally.early_end),
        ] {
            if seams > 0 {
                let labels = Flagged {
                    answer: self.answer.clone(),
                    model: Arc::clone(&self.model),
                    flag,
                };
                self.metrics.seams.flagged.add(&labels, seams.into());
            }
        }
        if let Some(stop) = outcome.reason() {
            let labels = GivenUp {
                answer: self.answer.clone(),
                model: Arc::clone(&self.model),
                stop: stop.as_str(),
            };
            self.metrics.answers.given_up.add(&labels, 1);
        }
    }

    fn note_usage(&mut self, record: &CallRecord) {
        let (Some(call), Some(used)) = (&mut self.call, record.usage) else {
            return;
        };
        for (gen_ai_token_type, tokens) in [("input", used.input), ("output", used.output)] {
            if let Some(tokens) = tokens {
                let labels = Usage {
                    operation: call.operation.clone(),
                    gen_ai_token_type,
                };
                self.metrics.calls.usage.observe(&labels, tokens as f64);
                call.span
                    .iter_mut()
                    .for_each(|span| span.note_tokens(gen_ai_token_type, tokens));
            }
        }
        let labels = TokenUse {
            answer: self.answer.clone(),
            r#use: if record.kind.keeps_tokens() {
                "kept"
            } else {
                "regenerated"
            },
        };
        self.metrics
            .calls
            .tokens
            .add(&labels, used.output.unwrap_or_default());
    }

    fn end_call(&mut self, record: &AnswerRecord) {
        let Some(mut call) = self.call.take() else {
            return;
        };
        let Some(ended) = record.calls.get(call.at) else {
            return;
        };
        let (calls, error_type) = (&self.metrics.calls, error_type(ended));
        call.span
            .take()
            .into_iter()
            .for_each(|span| span.end(status_of(ended), &error_type));
        let labels = Ended {
            operation: call.operation,
            error_type: error_label(&error_type),
        };
        calls
            .duration
            .observe(&labels, call.began.elapsed().as_secs_f64());
        if !error_type.is_empty() {
            let labels = CallError {
                answer: self.answer.clone(),
                upstream: Arc::clone(&call.upstream),
                model: labels.operation.gen_ai_request_model,
                error_type,
            };
            calls.errors.add(&labels, 1);
        }
        if ended.kind != CallKind::First {
            let labels = FurtherCall {
                answer: self.answer.clone(),
                upstream: call.upstream,
                rung: ended.kind.as_str(),
                outcome: outcome_of(ended),
            };
            calls.further.add(&labels, 1);
        }
    }

    /// Records an answer that has ended for its client.
    pub(super) fn end(mut self, end: &AnswerEnd<'_>) {
        // The call of an unread answer ends together with the answer.
        self.end_call(end.record);
        let answers = &self.metrics.answers;
        let error_type = end.error_type();
        let is_healthy = error_type.is_empty();
        self.span
            .take()
            .into_iter()
            .for_each(|span| span.end(end.record, end.name(), end.status, &error_type));
        let labels = Ended {
            operation: self.operation(),
            error_type: error_label(&error_type),
        };
        if !is_healthy {
            let labels = AnswerError {
                answer: self.answer.clone(),
                model: Arc::clone(&self.model),
                error_type,
            };
            answers.errors.add(&labels, 1);
        }
        answers
            .duration
            .observe(&labels, end.duration.as_secs_f64());
        if let Some(first) = end
            .first_byte
            .filter(|_| is_healthy && self.request.is_stream)
        {
            answers
                .first_token
                .observe(&labels.operation, first.as_secs_f64());
            if let Some(further) = answered_tokens(end.record)
                .and_then(|tokens| tokens.checked_sub(1))
                .filter(|more| *more > 0)
            {
                let per_token = end.last_byte.saturating_sub(first).as_secs_f64() / further as f64;
                answers.per_token.observe(&labels.operation, per_token);
            }
        }
        let labels = EndedAnswer {
            answer: self.answer.clone(),
            wire: self.request.dialect.as_str(),
            slot: end.record.slot.map_or("unread", slot_name),
            status: end.name(),
            token: end.token.clone(),
        };
        answers.ended.add(&labels, 1);
    }

    /// Returns the labels of the upstream and of the model of a call: the open one, or else the one
    /// that began the answer.
    fn asked_for(&self, call: usize) -> (&Arc<str>, &Arc<str>) {
        match self.call.as_ref().filter(|open| open.at == call) {
            Some(open) => (&open.upstream, &open.operation.gen_ai_request_model),
            None => (&self.answering.upstream, &self.answering_model),
        }
    }

    /// Returns the request's operation with the requested model's name: spans, unlike labels, may
    /// have any name.
    fn asked(&self) -> Operation {
        Operation {
            gen_ai_request_model: Arc::clone(&self.name),
            ..self.operation()
        }
    }

    fn operation(&self) -> Operation {
        Operation {
            answer: self.answer.clone(),
            gen_ai_provider_name: Arc::clone(&self.answering.provider),
            gen_ai_operation_name: operation_name(self.request.dialect),
            gen_ai_request_model: Arc::clone(&self.model),
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.answers.running.dec();
    }
}

/// Returns the tokens of all calls that were answered. `None`: a call did not report its tokens.
fn answered_tokens(record: &AnswerRecord) -> Option<u64> {
    record
        .calls
        .iter()
        .filter(|call| call.is_answered())
        .map(|call| call.usage?.output)
        .try_fold(0, |sum: u64, tokens| Some(sum.saturating_add(tokens?)))
}

fn status_of(call: &CallRecord) -> Option<StatusCode> {
    StatusCode::from_u16(call.status?).ok()
}

fn error_type(call: &CallRecord) -> Cow<'static, str> {
    status_of(call)
        .and_then(refusal)
        .unwrap_or(Cow::Borrowed(call.error.unwrap_or_default()))
}

/// Returns the label of an error in a histogram.
fn error_label(error: &str) -> &'static str {
    if error.is_empty() { "" } else { ERROR }
}

/// Returns the outcome of a further call.
fn outcome_of(call: &CallRecord) -> &'static str {
    let is_refused = call.status.is_some() && !call.is_answered();
    let brings_text = match call.kind {
        kind if kind.is_for_rest() => call.seam.is_some(),
        _ => call.status.is_some(),
    };
    let repeats = call.cut.as_ref().is_some_and(|cut| cut.added == 0);
    match call.error {
        _ if is_refused => "refused",
        Some(LEFT) => LEFT,
        _ if call.failure.is_some() || !brings_text => "failed",
        _ if repeats && call.seam.is_some() => REPEATS,
        _ => "ok",
    }
}

impl AnswerEnd<'_> {
    fn error_type(&self) -> Cow<'static, str> {
        let refused = self.status.and_then(refusal);
        let error = || match self.record.outcome.as_ref().map(Outcome::status) {
            _ if self.break_off.is_some() => self.break_off.unwrap_or_default(),
            Some(status @ (Status::Failed | Status::Incomplete)) => status.as_str(),
            _ => "",
        };
        refused.unwrap_or_else(|| Cow::Borrowed(error()))
    }

    /// Returns the name of the answer's end: the outcome's status, if the proxy read the answer.
    fn name(&self) -> &'static str {
        match &self.record.outcome {
            Some(outcome) => outcome.status().as_str(),
            None if self.status.and_then(refusal).is_some() => "refused",
            None if self.break_off == Some(LEFT) => LEFT,
            None => "unread",
        }
    }
}

fn operation_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Completions => "text_completion",
        Dialect::Gemini => "generate_content",
        _ => "chat",
    }
}

/// Returns the status of an error as a label. A server may send any number, so statuses outside of
/// 4xx and 5xx share one label.
fn refusal(status: StatusCode) -> Option<Cow<'static, str>> {
    let is_error = status.is_client_error() || status.is_server_error();
    let name = || {
        if is_error {
            Cow::Owned(status.as_str().to_owned())
        } else {
            Cow::Borrowed(OTHER)
        }
    };
    (!status.is_success()).then(name)
}

/// The outcome of a call that brought only text that the answer already had.
const REPEATS: &str = "repeats";
/// The end of an answer whose client left too early.
pub(super) const LEFT: &str = "left";
