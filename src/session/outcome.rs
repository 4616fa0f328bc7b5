//! How an answer came about.

use std::collections::BTreeMap;

use crate::provider::Finish;

/// How the answer came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Calls after the first.
    pub continuations: u32,
    /// How many of all calls failed.
    pub failures: u32,
    /// Seams that rest on an anchor that may stand elsewhere, too (rule 3 of the specification): where the text
    /// repeats itself all over, nobody can tell.
    pub ambiguous: u32,
    /// JSON Pointers of values that were invented to close the document; see
    /// [`Completion::synthesized`](crate::json::Completion::synthesized).
    pub synthesized: Vec<String>,
    /// The finish reason of the last call, if it gave one.
    pub finish: Option<Finish>,
    /// Why the loop ended before the document was whole; `None` where it was, or nothing was to be continued.
    pub stop: Option<StopReason>,
    /// Tokens of the answer of each call, the first one first; `None` where the provider told none.
    pub tokens: Vec<Option<u64>>,
    /// What was changed in the continuations' text: how often, by the name of the rule.
    pub repairs: BTreeMap<&'static str, u32>,
    /// How much of the document there is, as the model said: the last percentage that rose; see
    /// [`Progress`](crate::context::Progress).
    pub percentage: Option<u8>,
}

/// Why a loop ended before the document was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// [`Limits::max_consecutive_failures`](crate::Limits::max_consecutive_failures) calls in a row failed.
    Failures,
    /// [`Limits::max_no_progress`](crate::Limits::max_no_progress) calls in a row brought nothing new.
    NoProgress,
    /// [`Limits::max_continuations`](crate::Limits::max_continuations) were made.
    Continuations,
    /// All answers together have [`Limits::max_total_tokens`](crate::Limits::max_total_tokens).
    Tokens,
    /// It has taken [`Limits::max_total_time`](crate::Limits::max_total_time).
    Time,
    /// The model says that it gets no further: [`Limits::max_stalled_reports`](crate::Limits::max_stalled_reports) times in a row.
    Progress,
    /// A call ended with a reason that is not to be continued.
    Finish,
}

impl StopReason {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::NoProgress => "repeats",
            Self::Continuations => "continuations",
            Self::Tokens => "tokens",
            Self::Time => "time",
            Self::Progress => "progress",
            Self::Finish => "finish",
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The first answer stands as it came: it was whole, or not JSON, or not to be continued.
    PassedThrough,
    /// The document is whole.
    Complete,
    /// The document was given up and closed; what was invented is listed.
    Closed,
    /// Nothing of a document was delivered.
    Failed,
}

impl Status {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PassedThrough => "passed",
            Self::Complete => "complete",
            Self::Closed => "closed",
            Self::Failed => "failed",
        }
    }
}

impl Outcome {
    /// The `restitch` member of the last chunk: status, counts, why it stopped, what was synthesized, and how many seams are
    /// ambiguous, if any; as JSON.
    pub fn report(&self) -> String {
        let mut report = serde_json::json!({
            "status": self.status.as_str(), "continuations": self.continuations, "failures": self.failures,
        });
        if self.ambiguous > 0 {
            report["ambiguous"] = self.ambiguous.into();
        }
        if let Some(stop) = self.stop {
            report["stop"] = stop.as_str().into();
        }
        if self.status != Status::Complete {
            report["filled"] = self.synthesized.clone().into();
        }
        report.to_string()
    }
}
