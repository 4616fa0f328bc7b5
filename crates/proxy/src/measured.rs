//! Measures a request, its upstream calls and its answer. Records figures when a call or an answer
//! ends, and at cuts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::metrics::{
    Cut, Ended, EndedAnswer, Flagged, FurtherCall, GivenUp, Joined, Metrics, OTHER, Operation,
    TokenUse, Usage, cause_of, provider_name,
};
use super::otlp::{AnswerSpan, CallSpan, Parent};
use restitch::internal::chat::{answer_tokens, prompt_tokens};
use restitch::internal::relay::{Output, TransportEnd};
use restitch::internal::wire::SlotKind;
use restitch::provider::Dialect;
use restitch::session::{
    CallEnd, ContinuationMode, CutCause, FailureReason, Outcome, Request, SessionEvent, Status,
};
use restitch_http::Upstream;

/// The measurements of an API request.
pub(super) struct Measured {
    metrics: Arc<Metrics>,
    dialect: Dialect,
    is_stream: bool,
    /// The provider of the current call.
    provider: Arc<str>,
    /// The provider whose answer the client gets: the first one, until another one begins to
    /// answer.
    answering: Arc<str>,
    /// The model's name in the request.
    name: Arc<str>,
    /// The label of that model.
    model: Arc<str>,
    /// The label of the model that has begun the answer, by its name at its upstream.
    answering_model: Arc<str>,
    /// The open call.
    call: Option<Call>,
    /// The tokens of all calls so far. `None`: a call did not report its tokens.
    tokens: Option<u64>,
    /// The content type of the slot with the worst end.
    slot: Option<SlotKind>,
    /// Set if spans are pushed.
    span: Option<AnswerSpan>,
}

/// How an answer ended for the client.
pub(super) struct AnswerEnd<'a> {
    pub(super) outcome: Option<&'a Outcome>,
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

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    First,
    /// The original request again.
    Original,
    Prefill,
    Reprompt,
    Reattach,
}

impl Way {
    /// Returns whether the call's tokens are those of the first call: reattaching generates no new
    /// ones.
    pub(super) fn keeps_tokens(self) -> bool {
        matches!(self, Self::First | Self::Reattach)
    }

    /// Returns whether the call asks for the rest of an answer.
    pub(super) fn is_for_rest(self) -> bool {
        matches!(self, Self::Prefill | Self::Reprompt)
    }

    pub(super) fn of(request: &Request) -> Self {
        match &request.turn {
            _ if request.resume.is_some() => Self::Reattach,
            None => Self::Original,
            Some(turn) => match turn.mode {
                ContinuationMode::Prefill => Self::Prefill,
                ContinuationMode::Reprompt => Self::Reprompt,
            },
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Original => "original",
            Self::Prefill => ContinuationMode::Prefill.as_str(),
            Self::Reprompt => ContinuationMode::Reprompt.as_str(),
            Self::Reattach => "reattach",
        }
    }
}

/// An open upstream call.
struct Call {
    way: Way,
    /// The operation, with the API and the model's name of the upstream.
    operation: Operation,
    /// The model's name, which becomes its label once the upstream has answered.
    name: Arc<str>,
    began: Instant,
    status: Option<StatusCode>,
    /// Tokens of its answer.
    tokens: Option<u64>,
    has_joined: bool,
    has_failed: bool,
    /// It brought only text that the answer already had.
    repeats: bool,
    /// Why it ended early.
    error: Option<&'static str>,
    span: Option<CallSpan>,
}

impl Measured {
    /// `host`: the upstream's. `parent`: the span of the client, if spans are pushed.
    pub(super) fn new(
        metrics: Arc<Metrics>,
        dialect: Dialect,
        host: &str,
        (model, is_stream): (&str, bool),
        parent: Option<&Parent>,
    ) -> Self {
        let provider = Arc::from(provider_name(host));
        let name = metrics.models.named(model);
        let model = metrics.models.label(&name);
        metrics.answers.running.inc();
        let mut measured = Self {
            metrics,
            dialect,
            is_stream,
            answering: Arc::clone(&provider),
            provider,
            name,
            answering_model: Arc::clone(&model),
            model,
            call: None,
            tokens: Some(0),
            slot: None,
            span: None,
        };
        measured.span =
            parent.map(|parent| parent.begin_answer(&measured.asked(), dialect.as_str()));
        measured
    }

    /// Begins a call, and ends one that is still open: the upstream refused it, and this is its
    /// adapted repeat. `model`: its name at the upstream.
    pub(super) fn begin_call(
        &mut self,
        way: Way,
        upstream: &Upstream,
        (dialect, model): (Dialect, &str),
    ) {
        self.end_call();
        if *self.provider != *provider_name(upstream.host()) {
            self.provider = Arc::from(provider_name(upstream.host()));
        }
        let name = self.metrics.models.named(model);
        let operation = Operation {
            gen_ai_provider_name: Arc::clone(&self.provider),
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
            .map(|span| span.begin_call(&asked, way.as_str(), upstream));
        self.call = Some(Call {
            way,
            operation,
            name,
            began: Instant::now(),
            status: None,
            tokens: None,
            has_joined: false,
            has_failed: false,
            repeats: false,
            error: None,
            span,
        });
    }

    /// Returns the headers that name the span of the open call to its upstream.
    pub(super) fn trace(&self) -> Option<HeaderMap> {
        self.call.as_ref()?.span.as_ref().map(CallSpan::headers)
    }

    /// Notes the status of the open call's response, or the error in its place.
    pub(super) fn note_head(&mut self, head: Result<StatusCode, &'static str>) {
        let Some(call) = &mut self.call else { return };
        match head {
            Ok(status) => {
                call.status = Some(status);
                if status == StatusCode::OK {
                    let model = self.metrics.admit(&call.name);
                    call.operation.gen_ai_request_model = Arc::clone(&model);
                    if !call.way.is_for_rest() {
                        (self.answering, self.answering_model) =
                            (Arc::clone(&self.provider), model);
                    }
                    // A client chooses the requested name, so it is a label only if an upstream has
                    // answered to it: a fallback may have another name for the model.
                    self.model = self.metrics.models.label(&self.name);
                }
            }
            Err(error) => call.error = Some(error),
        }
    }

    /// Notes the first bytes of the open call's stream.
    pub(super) fn note_first_chunk(&self) {
        let Some(call) = &self.call else { return };
        self.metrics
            .calls
            .first_chunk
            .observe(&call.operation, call.began.elapsed().as_secs_f64());
    }

    /// Notes an output of the answer's session.
    pub(super) fn note_output(&mut self, output: &Output) {
        let mut is_of_call = true;
        if let Output::Event(event) = output {
            // The session continues the slots of an answer in turn. So the first call's cut in one
            // slot is reported after the calls for the rest of other slots.
            is_of_call = !(event.is_of_first()
                && self
                    .call
                    .as_ref()
                    .is_some_and(|call| call.way.is_for_rest()));
            self.span.iter_mut().for_each(|span| span.note(event));
            let of_call = self.call.iter_mut().filter(|_| is_of_call);
            of_call
                .filter_map(|call| call.span.as_mut())
                .for_each(|span| span.note(event));
        }
        match output {
            Output::Event(event @ SessionEvent::Cut { end, added, .. }) => {
                if event.new_cut().is_some() {
                    let model = if is_of_call {
                        self.model_of_call()
                    } else {
                        Arc::clone(&self.answering_model)
                    };
                    self.metrics.seams.cuts.add(
                        &Cut {
                            model,
                            cause: cause_of(end),
                        },
                        1,
                    );
                }
                if is_of_call {
                    self.call
                        .iter_mut()
                        .for_each(|call| call.repeats = *added == 0);
                    self.note_error(end);
                }
            }
            Output::Event(SessionEvent::Joined { seam, elapsed, .. }) => {
                let seams = &self.metrics.seams;
                seams.joined.add(
                    &Joined {
                        kind: seam.alignment.as_str(),
                    },
                    1,
                );
                seams.gap.observe(elapsed.as_secs_f64());
                seams.pending.observe(seam.pending as f64);
                self.call.iter_mut().for_each(|call| call.has_joined = true);
            }
            Output::Event(
                SessionEvent::Failed { reason, .. } | SessionEvent::Waiting { reason, .. },
            ) if is_of_call => {
                self.call.iter_mut().for_each(|call| call.has_failed = true);
                if let FailureReason::Nothing(end) = reason {
                    self.note_error(end);
                }
            }
            Output::Usage(usage) => self.note_usage(usage),
            Output::Call { request, .. } => {
                if let Some(call) = self.call.as_mut().filter(|_| request.resume.is_some()) {
                    // Reattaching emits no `Cut`, so the lost connection is noted here.
                    call.error = Some("lost");
                }
                self.end_call();
            }
            Output::Done {
                slot,
                outcome,
                transport_end,
            } => {
                if outcome.status() == Status::PassedThrough
                    && *transport_end == TransportEnd::Dropped
                {
                    // An answer that is not continued emits no `Cut`, so its end is noted here.
                    let limit = outcome
                        .tally()
                        .limit
                        .as_ref()
                        .map(|limit| limit.name.as_str());
                    let is_silence = matches!(
                        limit,
                        Some("idle_timeout" | "first_byte_timeout" | "text_timeout")
                    );
                    let cause = if is_silence {
                        CutCause::Idle
                    } else {
                        CutCause::Drop
                    };
                    self.call
                        .iter_mut()
                        .for_each(|call| call.error = call.error.or(Some(cause.as_str())));
                }
                self.slot = Some(*slot);
                self.note_outcome(outcome);
                self.end_call();
            }
            Output::Event(_) | Output::Bytes(_) => {}
        }
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
                    model: Arc::clone(&self.model),
                    flag,
                };
                self.metrics.seams.flagged.add(&labels, seams.into());
            }
        }
        if let Some(stop) = outcome.reason() {
            let labels = GivenUp {
                model: Arc::clone(&self.model),
                stop: stop.as_str(),
            };
            self.metrics.answers.given_up.add(&labels, 1);
        }
    }

    /// Notes how the open call ended, if it ended in an error.
    fn note_error(&mut self, end: &CallEnd) {
        let is_error =
            |cause: &CutCause| !matches!(cause, CutCause::Length | CutCause::PrematureStop);
        let error = end.cause().filter(is_error).map(CutCause::as_str);
        self.call
            .iter_mut()
            .for_each(|call| call.error = call.error.or(error));
    }

    /// Notes that the proxy ends the open call.
    pub(super) fn note_stop(&mut self) {
        self.call
            .iter_mut()
            .for_each(|call| call.error = call.error.or(Some("stopped")));
    }

    fn note_usage(&mut self, raw: &str) {
        let (input, output) = (prompt_tokens(raw), answer_tokens(raw));
        let Some(call) = &mut self.call else { return };
        for (gen_ai_token_type, tokens) in [("input", input), ("output", output)] {
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
        call.tokens = output;
        let labels = TokenUse {
            r#use: if call.way.keeps_tokens() {
                "kept"
            } else {
                "regenerated"
            },
        };
        self.metrics
            .calls
            .tokens
            .add(&labels, output.unwrap_or_default());
    }

    fn end_call(&mut self) {
        let Some(mut call) = self.call.take() else {
            return;
        };
        call.span
            .take()
            .into_iter()
            .for_each(|span| span.end(call.status, &call.error_type()));
        let labels = Ended {
            operation: call.operation.clone(),
            error_type: call.error_type(),
        };
        self.metrics
            .calls
            .duration
            .observe(&labels, call.began.elapsed().as_secs_f64());
        if call.way != Way::First {
            let labels = FurtherCall {
                way: call.way.as_str(),
                outcome: call.outcome(),
            };
            self.metrics.calls.further.add(&labels, 1);
        }
        if call.status == Some(StatusCode::OK) {
            self.tokens = self
                .tokens
                .zip(call.tokens)
                .map(|(sum, tokens)| sum.saturating_add(tokens));
        }
    }

    /// Records an answer that has ended for its client.
    pub(super) fn end(mut self, end: &AnswerEnd<'_>) {
        // The call of an unread answer ends together with the answer.
        self.call
            .iter_mut()
            .for_each(|call| call.error = call.error.or(end.break_off));
        self.end_call();
        let answers = &self.metrics.answers;
        let error_type = end.error_type();
        let is_healthy = error_type.is_empty();
        self.span
            .take()
            .into_iter()
            .for_each(|span| span.end(end.name(), end.status, &error_type));
        let labels = Ended {
            operation: self.operation(),
            error_type,
        };
        answers
            .duration
            .observe(&labels, end.duration.as_secs_f64());
        if let Some(first) = end.first_byte.filter(|_| is_healthy && self.is_stream) {
            answers
                .first_token
                .observe(&labels.operation, first.as_secs_f64());
            if let Some(further) = self
                .tokens
                .and_then(|tokens| tokens.checked_sub(1))
                .filter(|more| *more > 0)
            {
                let per_token = end.last_byte.saturating_sub(first).as_secs_f64() / further as f64;
                answers.per_token.observe(&labels.operation, per_token);
            }
        }
        let slot = match self.slot {
            Some(SlotKind::Text) => "text",
            Some(SlotKind::Arguments) => "arguments",
            None => "unread",
        };
        let labels = EndedAnswer {
            wire: self.dialect.as_str(),
            slot,
            status: end.name(),
        };
        answers.ended.add(&labels, 1);
    }

    /// Returns the label of the model that the open call asks.
    fn model_of_call(&self) -> Arc<str> {
        let of_call = self
            .call
            .as_ref()
            .map(|call| &call.operation.gen_ai_request_model);
        Arc::clone(of_call.unwrap_or(&self.answering_model))
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
            gen_ai_provider_name: Arc::clone(&self.answering),
            gen_ai_operation_name: operation_name(self.dialect),
            gen_ai_request_model: Arc::clone(&self.model),
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.answers.running.dec();
    }
}

impl Call {
    fn error_type(&self) -> Cow<'static, str> {
        self.status
            .and_then(refusal)
            .unwrap_or(Cow::Borrowed(self.error.unwrap_or_default()))
    }

    /// Returns the outcome of a further call.
    fn outcome(&self) -> &'static str {
        let is_refused = self.status.is_some_and(|status| status != StatusCode::OK);
        let brings_text = match self.way {
            way if way.is_for_rest() => self.has_joined,
            _ => self.status.is_some(),
        };
        match self.error {
            _ if is_refused => "refused",
            Some(LEFT) => LEFT,
            _ if self.has_failed || !brings_text => "failed",
            _ if self.repeats && self.has_joined => REPEATS,
            _ => "ok",
        }
    }
}

impl AnswerEnd<'_> {
    fn error_type(&self) -> Cow<'static, str> {
        let refused = self.status.and_then(refusal);
        let error = || match self.outcome.map(Outcome::status) {
            _ if self.break_off.is_some() => self.break_off.unwrap_or_default(),
            Some(status @ (Status::Failed | Status::Incomplete)) => status.as_str(),
            _ => "",
        };
        refused.unwrap_or_else(|| Cow::Borrowed(error()))
    }

    /// Returns the name of the answer's end: the outcome's status, if the proxy read the answer.
    fn name(&self) -> &'static str {
        match self.outcome {
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
