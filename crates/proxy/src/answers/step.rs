//! The steps of an answer's loop as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::metrics::OTHER;
use restitch::provider::Finish;
use restitch::session::{CallEnd, ContinuationMode, CutCause, Outcome, SessionEvent};
use restitch::splice::{AttemptStatus, Candidate, RejectReason};

/// Returns a step as JSON. `call`: the number of its call. `shows`: includes quotes of a document
/// or an upstream. `None`: other steps already report it.
pub(super) fn of(event: &SessionEvent, call: u32, shows: bool) -> Option<Value> {
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
            "step": "requested", "call": call, "mode": mode.map_or("original", ContinuationMode::as_str), "anchor": anchor,
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
        ["synthesized", "cut_value", "schema_path"]
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

/// The most candidates that are kept of a seam. The search may try hundreds; the first one has won.
const MOST_CANDIDATES: usize = 12;
/// The most characters that are kept of a path or a message.
const LONGEST: usize = 300;
