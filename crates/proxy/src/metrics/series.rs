//! The series of calls and answers, as a function of the record.

use super::start::begin_model;
use super::{ERROR, Metrics, cause_name, provider_name};
use crate::record::{CallFacts, LEFT, Record, call_error, operation_name, slot_name};
use restitch::internal::record::{CallKind, CallRecord};
use restitch::session::StopReason;
use restitch_http::Upstream;

/// What of a record has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended<'r> {
    Call(&'r CallFacts),
    Answer,
}

/// Records a call or an answer that has ended.
pub(crate) fn record(metrics: &Metrics, record: &Record, ended: Ended<'_>) {
    match ended {
        Ended::Call(facts) => {
            if let Some(call) = record.answer.calls.get(facts.at) {
                record_call(metrics, record, facts, call);
            }
        }
        Ended::Answer => record_answer(metrics, record),
    }
}

fn record_call(metrics: &Metrics, record: &Record, facts: &CallFacts, call: &CallRecord) {
    let (route, upstream) = (record.route_name(), facts.upstream.authority());
    let model = match call.is_answered() {
        true => admit(metrics, route, upstream, &facts.model),
        false => metrics.models.label(&facts.model),
    };
    let provider = provider_name(facts.upstream.host());
    let operation = [route, provider, operation_name(facts.dialect), model];
    let [.., of, _] = operation;
    let calls = &metrics.calls;
    let error = &*call_error(call);
    let ended = [route, provider, of, model, error_label(error)];
    let took = facts.took.unwrap_or_default();
    calls.duration.of(ended).observe(took.as_secs_f64());
    if let Some(first_chunk) = facts.first_chunk {
        let series = calls.first_chunk.of(operation);
        series.observe(first_chunk.as_secs_f64());
    }
    if let Some(used) = call.usage {
        for (kind, tokens) in [("input", used.input), ("output", used.output)] {
            if let Some(tokens) = tokens {
                let series = calls.usage.of([route, provider, of, model, kind]);
                series.observe(tokens as f64);
            }
        }
        let r#use = match call.kind.keeps_tokens() {
            true => "kept",
            false => "regenerated",
        };
        let tokens = used.output.unwrap_or_default();
        calls.tokens.of([route, r#use]).inc_by(tokens);
    }
    if let Some(joined) = &call.seam {
        let seams = &metrics.seams;
        let kind = joined.seam.alignment.as_str();
        seams.joined.of([route, kind]).inc();
        seams.gap.of([route]).observe(joined.elapsed.as_secs_f64());
        let pending = joined.seam.pending as f64;
        seams.pending.of([route]).observe(pending);
    }
    if !error.is_empty() {
        calls.errors.of([route, upstream, model, error]).inc();
    }
    if call.kind != CallKind::First {
        let series = [route, upstream, call.kind.as_str(), outcome_of(call)];
        calls.further.of(series).inc();
    }
}

fn record_answer(metrics: &Metrics, record: &Record) {
    let route = record.route_name();
    for (upstream, part) in &record.upstream.fallbacks {
        metrics
            .requests
            .fallbacks
            .of([route, upstream, part.as_str()])
            .inc();
    }
    let Some(request) = &record.answer.request else {
        return;
    };
    // A client chooses the requested name, so it is a label only if an upstream has answered to
    // it: a fallback may have another name for the model.
    let model = metrics.models.label(&request.model);
    for cut in &record.answer.cuts {
        let (upstream, model) = match record.call(cut.call).or(record.answering()) {
            Some(call) => (call.upstream.authority(), metrics.models.label(&call.model)),
            None => (record.own_upstream(), model),
        };
        let series = [route, upstream, model, cause_name(cut.cause)];
        metrics.seams.cuts.of(series).inc();
    }
    let answers = &metrics.answers;
    if let Some(outcome) = &record.answer.outcome {
        let tally = outcome.tally();
        let flags = [
            ("ambiguous", tally.ambiguous),
            ("early_end", tally.early_end),
        ];
        for (flag, seams) in flags {
            if seams > 0 {
                let series = metrics.seams.flagged.of([route, model, flag]);
                series.inc_by(seams.into());
            }
        }
        if let Some(stop) = outcome.reason().map(StopReason::as_str) {
            answers.given_up.of([route, model, stop]).inc();
        }
    }
    let host = record.answering_upstream().map_or("", Upstream::host);
    let provider = provider_name(host);
    let of = operation_name(request.dialect);
    let error = &*record.error();
    let ended = [route, provider, of, model, error_label(error)];
    let (delivery, operation) = (&record.delivery, [route, provider, of, model]);
    let took = delivery.duration.unwrap_or_default();
    answers.duration.of(ended).observe(took.as_secs_f64());
    if !error.is_empty() {
        answers.errors.of([route, model, error]).inc();
    }
    if let Some(first) = delivery.first_byte
        && error.is_empty()
        && request.is_stream
    {
        let series = answers.first_token.of(operation);
        series.observe(first.as_secs_f64());
        let further = answered_tokens(record).and_then(|tokens| tokens.checked_sub(1));
        if let Some(further) = further.filter(|further| *further > 0) {
            let rest = delivery.last_byte.saturating_sub(first).as_secs_f64();
            answers
                .per_token
                .of(operation)
                .observe(rest / further as f64);
        }
    }
    let slot = record.answer.slot.map_or("unread", slot_name);
    let wire = request.dialect.as_str();
    let token = record.token.as_deref().unwrap_or_default();
    let series = [route, wire, slot, record.outcome(), token];
    answers.ended.of(series).inc();
}

/// Admits the name of a model whose request an upstream has answered. Returns its label.
fn admit<'m>(metrics: &Metrics, route: &str, upstream: &str, model: &'m str) -> &'m str {
    let model = metrics.models.admit(model);
    begin_model(metrics, route, upstream, model);
    model
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
        // The call brought only text that the answer already had.
        _ if repeats && call.seam.is_some() => "repeats",
        _ => "ok",
    }
}

/// Returns the tokens of all calls that were answered. `None`: a call did not report its tokens.
fn answered_tokens(record: &Record) -> Option<u64> {
    let calls = record.answer.calls.iter();
    calls
        .filter(|call| call.is_answered())
        .map(|call| call.usage?.output)
        .try_fold(0, |sum: u64, tokens| Some(sum.saturating_add(tokens?)))
}
