//! The steps of an answer's loop: as lines of the log, and as JSON on the page.
//!
//! The only file of the proxy that reads a [`SessionEvent`]: figures about an answer are read off
//! its [record](restitch::internal::record).

use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::exchange;
use crate::metrics::OTHER;
use restitch::internal::relay::Output;
use restitch::provider::Finish;
use restitch::session::{
    CallEnd, ContinuationMode, CutCause, FailureReason, Outcome, SessionEvent, StopReason,
};
use restitch::splice::{AttemptStatus, Candidate, RejectReason};

/// Logs an output: failures as warnings, all other steps for debugging, since the access line has
/// the outcome. Logs no text, no paths inside documents, and no headers of a request.
pub(super) fn log(output: &Output, caller: &Caller) {
    match output {
        Output::Event(event) => log_event(event, caller),
        Output::Done { outcome, .. } => log_end(outcome),
        _ => {}
    }
}

fn log_event(event: &SessionEvent, caller: &Caller) {
    let (route, upstreams) = (caller.route.config.name.as_str(), &caller.upstreams);
    match event {
        SessionEvent::Joined { seam, elapsed, .. } => tracing::debug!(
            offset = seam.offset,
            alignment = seam.alignment.as_str(),
            overlap = seam.overlap,
            pending = seam.pending,
            posterior = seam.posterior,
            ambiguous = seam.ambiguous,
            early_end = seam.early_end,
            elapsed_ms = elapsed.as_millis() as u64,
            route,
            upstream = upstreams.address(),
            model = exchange::shortened(caller.model()),
            "joined"
        ),
        SessionEvent::Cut {
            call, end, offset, ..
        } => {
            let limit = end.limit().map(tracing::field::display);
            tracing::debug!(
                call,
                cause = end.cause().map(CutCause::as_str),
                limit,
                offset,
                route,
                upstream = upstreams.address(),
                model = exchange::shortened(caller.model()),
                "cut"
            );
        }
        SessionEvent::Failed { call, reason, .. } => warn_of_failure(*call, reason, caller),
        // The reason has no words of the upstream: only its status, or how the connection was lost.
        SessionEvent::Waiting { call, reason, .. } => {
            tracing::warn!(call, route, upstream = upstreams.address(), %reason, "waiting for the upstream");
        }
        SessionEvent::Discarded { call, reason } => {
            tracing::warn!(call, route, upstream = upstreams.address(), %reason, "discarded an answer");
        }
        _ => {}
    }
}

/// Logs the end of an answer.
fn log_end(outcome: &Outcome) {
    let (status, tally) = (outcome.status().as_str(), outcome.tally());
    tracing::debug!(
        status,
        stop = outcome.reason().map(StopReason::as_str),
        limit = tally.limit.as_ref().map(tracing::field::display),
        cause = outcome.cause().map(CutCause::as_str),
        continuations = tally.continuations,
        failures = tally.failures,
        ambiguous = Some(tally.ambiguous).filter(|seams| *seams > 0),
        early_end = Some(tally.early_end).filter(|seams| *seams > 0),
        synthesized = outcome.synthesized().len(),
        "done"
    );
}

/// Logs why a call failed. Leaves out the upstream's own words, since they may quote the request or
/// its key.
fn warn_of_failure(call: u32, reason: &FailureReason, caller: &Caller) {
    let (route, upstreams) = (caller.route.config.name.as_str(), &caller.upstreams);
    let cause = match reason {
        FailureReason::Nothing(end) => end.cause(),
        _ => None,
    };
    let cause = cause.map(CutCause::as_str);
    let reason = match reason {
        FailureReason::Nothing(CallEnd::Error(_)) => "the upstream reported an error".to_owned(),
        reason => reason.to_string(),
    };
    tracing::warn!(
        call,
        cause,
        reason,
        route,
        upstream = upstreams.address(),
        model = exchange::shortened(caller.model()),
        "a call failed"
    );
}

/// Returns whether an output leads to a further call: a cut, or the call itself.
pub(super) fn leads_to_call(output: &Output) -> bool {
    matches!(
        output,
        Output::Call { .. } | Output::Event(SessionEvent::Cut { .. })
    )
}

/// Returns a step as JSON. `call`: the number of the call that it is about. `next`: that of the
/// next call. `shows`: includes quotes of a document or an upstream. `None`: a step without a name
/// on the page.
pub(super) fn json_of(event: &SessionEvent, call: u32, next: u32, shows: bool) -> Option<Value> {
    Some(match event {
        SessionEvent::Cut {
            end,
            offset,
            added,
            path,
            ..
        } => json!({
            "step": "cut", "call": call, "end": end_name(end, shows), "cause": end.cause().map(CutCause::as_str),
            "offset": offset, "added": added, "path": shows.then(|| shortened(path)),
        }),
        SessionEvent::Requested { mode, anchor, .. } => json!({
            "step": "requested", "call": next, "rung": mode.map_or("original", ContinuationMode::as_str), "anchor": anchor,
        }),
        SessionEvent::Joined {
            seam,
            elapsed,
            candidates,
            ..
        } => json!({
            "step": "joined", "call": call, "offset": seam.offset, "path": shows.then(|| shortened(&seam.path)),
            "alignment": seam.alignment.as_str(), "overlap": seam.overlap, "pending": seam.pending,
            "posterior": seam.posterior, "ambiguous": seam.ambiguous, "early_end": seam.early_end,
            "gap_ms": milliseconds(*elapsed),
            "candidates": candidates.iter().take(MOST_CANDIDATES).map(|one| candidate(one, shows)).collect::<Vec<_>>(),
            "unlisted_candidates": candidates.len().saturating_sub(MOST_CANDIDATES),
        }),
        SessionEvent::Repaired { repair, .. } => json!({
            "step": "repaired", "call": call, "rule": repair.rule, "path": shows.then(|| shortened(&repair.path)),
        }),
        SessionEvent::Failed {
            reason, in_a_row, ..
        } => json!({
            "step": "failed", "call": call, "reason": reason.as_str(), "in_a_row": in_a_row,
            "message": shows.then(|| shortened(&reason.to_string())),
        }),
        SessionEvent::Waiting { reason, .. } => json!({
            "step": "waiting", "call": call, "reason": reason.as_str(),
            "message": shows.then(|| shortened(&reason.to_string())),
        }),
        SessionEvent::Progress { percentage, .. } => {
            json!({"step": "progress", "call": call, "percentage": percentage})
        }
        SessionEvent::Fallback { stop, offset, .. } => {
            json!({"step": "given_up", "stop": stop.as_str(), "offset": offset})
        }
        SessionEvent::Done(outcome) => json!({"step": "done", "status": outcome.status().as_str()}),
        _ => return None,
    })
}

/// Returns the report of an answer. `shows`: includes the paths in it.
pub(super) fn report_of(outcome: &Outcome, shows: bool) -> Value {
    let mut report: Value = serde_json::from_str(&outcome.report()).unwrap_or_default();
    if let Some(members) = report.as_object_mut().filter(|_| !shows) {
        ["synthesized", "cut_value", "cut_values", "schema_path"]
            .into_iter()
            .for_each(|name| drop(members.remove(name)));
    }
    report
}

fn candidate(candidate: &Candidate, shows: bool) -> Value {
    let evidence = &candidate.evidence;
    json!({
        "alignment": candidate.alignment.as_str(), "start": candidate.start.as_str(), "from": candidate.from,
        "overlap": candidate.overlap, "at": candidate.at, "score": evidence.score(), "prior": evidence.prior,
        "surprise": evidence.surprise, "misfit": evidence.misfit, "posterior": candidate.posterior,
        "status": candidate.status.as_str(),
        "reason": match candidate.status {
            // The grammar's reason quotes a byte of the text.
            AttemptStatus::Rejected { reason: RejectReason::Grammar(_), .. } if !shows => Some("the grammar".to_owned()),
            AttemptStatus::Rejected { reason, .. } => Some(reason.to_string()),
            _ => None,
        },
    })
}

/// Returns how a call ended. An unknown finish reason is the upstream's own text, which `shows`
/// alone admits.
fn end_name(end: &CallEnd, shows: bool) -> String {
    match end {
        CallEnd::Finished(Finish::Other(_)) if !shows => OTHER.to_owned(),
        end => shortened(end.as_str()),
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

// The search may try hundreds, and the first one has won.
/// The most candidates that are kept of a seam.
const MOST_CANDIDATES: usize = 12;
/// The most characters that are kept of a path or a message.
const LONGEST: usize = 300;
