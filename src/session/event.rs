//! The steps of the loop, for logs and pages.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CallEnd, ContinuationMode, FailureReason, Outcome, StopReason};
use crate::json::repair::Repair;
use crate::splice::{Candidate, Seam};

/// A step of the loop. [`to_json`](Self::to_json) formats it as a line of a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A call has ended before the document was whole.
    Cut {
        /// The call's number; the first one is 0.
        call: u32,
        /// How it ended.
        end: CallEnd,
        /// The length of the text at the cut, in bytes.
        offset: usize,
        /// The bytes that the call added; all bytes in a process that resumes the answer. 0: the
        /// text is cut at the same offset as before.
        added: usize,
        /// The time from the last text or reasoning of the call to its end.
        quiet: Duration,
        /// JSON Pointer of the position at the cut.
        path: String,
    },
    /// The session asks for the rest.
    Requested {
        /// The call's number.
        call: u32,
        /// How the call asks for the rest; `None`: it repeats the original request.
        mode: Option<ContinuationMode>,
        /// Bytes of the anchor.
        anchor: usize,
        /// The earliest time of the call.
        at: Duration,
    },
    /// A continuation was joined; its text follows.
    Joined {
        /// The call's number.
        call: u32,
        /// The seam: its offset, and how the text was joined.
        seam: Seam,
        /// The time from the end of the previous call to the first certain text.
        elapsed: Duration,
        /// The candidates for its beginning, with their scores; the winner is first.
        candidates: Vec<Candidate>,
    },
    /// A mistake in the text was repaired; see [`Session::set_repair`](super::Session::set_repair).
    Repaired {
        /// The call's number.
        call: u32,
        /// The change. Its range refers to the call's unrepaired text.
        repair: Repair,
    },
    /// A call brought no new text, or broke off after its seam.
    Failed {
        /// The call's number.
        call: u32,
        /// Why.
        reason: FailureReason,
        /// Failures since the last success, with this one.
        in_a_row: u32,
    },
    /// The upstream is in trouble that the model did not cause: the session repeats the same call
    /// later.
    Waiting {
        /// The number of the call, which its repeat keeps.
        call: u32,
        /// Why.
        reason: FailureReason,
        /// The time of the repeated call.
        at: Duration,
    },
    /// An answer is discarded, and the session asks in another way. That is not a failure: the
    /// provider lacks an ability that the session has assumed.
    Discarded {
        /// The call's number.
        call: u32,
        /// Why.
        reason: FailureReason,
    },
    /// The model reported its progress.
    Progress {
        /// The call's number.
        call: u32,
        /// The share of the document, in hundredths.
        percentage: u8,
        /// The number of reports in a row without progress.
        stalled_reports: u32,
    },
    /// The loop gives up; see [`GiveUp`](super::GiveUp).
    Fallback {
        /// Why.
        stop: StopReason,
        /// Bytes of text before it is closed.
        offset: usize,
        /// JSON Pointers of values that are invented to close it.
        synthesized: Vec<String>,
    },
    /// Nothing follows.
    Done(Outcome),
}

impl SessionEvent {
    /// Returns whether the loop gives up with this step.
    #[cfg(feature = "stream")]
    pub(crate) fn is_give_up(&self) -> bool {
        matches!(self, Self::Fallback { .. })
    }

    /// The event as one JSON object, with its name under `event`; durations are in milliseconds.
    /// Text of the document is not in it, but paths are.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Cut {
                call,
                end,
                offset,
                added,
                path,
                ..
            } => {
                let mut line = json!({
                    "event": "cut", "call": call, "end": end.as_str(), "cause": end.cause(), "offset": offset, "added": added,
                    "path": path,
                });
                if let Some(limit) = end.limit() {
                    line["limit"] = json!(limit);
                }
                line
            }
            Self::Requested {
                call,
                mode,
                anchor,
                at,
            } => json!({
                "event": "requested", "call": call, "rung": mode.map_or("original", ContinuationMode::as_str), "anchor": anchor,
                "at_ms": millis(*at),
            }),
            Self::Joined {
                call,
                seam,
                elapsed,
                ..
            } => json!({
                "event": "joined", "call": call, "offset": seam.offset, "path": seam.path,
                "alignment": seam.alignment.as_str(), "overlap": seam.overlap, "pending": seam.pending,
                "decided": seam.decided, "posterior": seam.posterior, "ambiguous": seam.ambiguous,
                "early_end": seam.early_end, "elapsed_ms": millis(*elapsed),
            }),
            Self::Repaired { call, repair } => json!({
                "event": "repaired", "call": call, "rule": repair.rule, "level": repair.level(),
                "range": [repair.range.start, repair.range.end], "path": repair.path,
            }),
            Self::Failed {
                call,
                reason,
                in_a_row,
            } => {
                json!({"event": "failed", "call": call, "reason": reason.to_string(), "in_a_row": in_a_row})
            }
            Self::Waiting { call, reason, at } => {
                json!({"event": "waiting", "call": call, "reason": reason.to_string(), "at_ms": millis(*at)})
            }
            Self::Discarded { call, reason } => {
                json!({"event": "discarded", "call": call, "reason": reason.to_string()})
            }
            Self::Progress {
                call,
                percentage,
                stalled_reports,
            } => {
                json!({"event": "progress", "call": call, "percentage": percentage, "stalled_reports": stalled_reports})
            }
            Self::Fallback {
                stop,
                offset,
                synthesized,
            } => {
                json!({"event": "fallback", "stop": stop.as_str(), "offset": offset, "synthesized": synthesized})
            }
            Self::Done(outcome) => {
                let mut line = json!(outcome);
                line["event"] = "done".into();
                line
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
