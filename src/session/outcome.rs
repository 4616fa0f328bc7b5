//! The result of an answer, and its report.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::Rung;
use super::cut_value::CutValue;
use crate::provider::Finish;
use crate::splice::Seam;

/// How an answer ended, with the data of the case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The first answer was delivered unchanged: it was whole, is not JSON, or must not be
    /// continued.
    PassedThrough {
        /// The finish reason of the answer, if it gave one.
        finish: Option<Finish>,
        /// The tally of the calls.
        tally: CallStats,
    },
    /// The document is whole. Prose: its rest was joined, and the last call gave a finish reason.
    Complete {
        /// The finish reason of the last call, if it gave one. [`Finish::Stop`] if the limit ended
        /// the call after the root.
        finish: Option<Finish>,
        /// How the last call ended, if it gave no finish reason: the end of its stream was lost
        /// after the document's end.
        end: Option<CutCause>,
        /// The tally of the calls.
        tally: CallStats,
    },
    /// The document was given up and closed: in a stream by the shortest legal completion, in a
    /// whole body as its complete part. Elements may be missing.
    Closed {
        /// Why the loop ended.
        reason: StopReason,
        /// Why the delivered text ended where it did.
        cause: Option<CutCause>,
        /// JSON Pointers of values that the model did not write; see
        /// [`Completion::synthesized`](crate::json::Completion::synthesized).
        synthesized: Vec<String>,
        /// The JSON Pointer of the number or string in which the text was cut: the document may
        /// have only the beginning of its value. See
        /// [`Completion::cut_value`](crate::json::Completion::cut_value).
        cut_value: Option<String>,
        /// The finish reason that ended the loop, if one did.
        finish: Option<Finish>,
        /// The tally of the calls.
        tally: CallStats,
    },
    /// The document was given up unchanged.
    Incomplete {
        /// Why the loop ended.
        reason: StopReason,
        /// Why the delivered text ended where it did.
        cause: Option<CutCause>,
        /// The finish reason of the first cut, if it gave one, or of a later, worse cut.
        finish: Option<Finish>,
        /// The tally of the calls.
        tally: CallStats,
    },
    /// Nothing of a document was delivered, or a document was given up with
    /// [`GiveUp::Error`](super::GiveUp::Error).
    Failed {
        /// Why the loop ended; `None` where there was no loop.
        reason: Option<StopReason>,
        /// Why the delivered text ended where it did.
        cause: Option<CutCause>,
        /// The tally of the calls.
        tally: CallStats,
    },
}

/// Counters and findings of an answer's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CallStats {
    /// Calls after the first.
    pub continuations: u32,
    /// How many of all calls failed.
    pub failures: u32,
    /// Seams whose offset may be wrong: see [`Seam::ambiguous`]. If the text repeats itself
    /// everywhere, no anchor is unique.
    pub ambiguous: u32,
    /// Seams after which the document ended early: the cut was after a whole value, the
    /// continuation had only the anchor and closers, and the previous continuation of this cut had
    /// ended early, too. Elements may be missing.
    pub early_end: u32,
    /// Numbers and strings whose delivered part an `again`, `schema` or `words` continuation has left
    /// as the whole value: `51` may be the beginning of `5150`. Their JSON Pointers, each with the
    /// offset of the cut in bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cut_values: BTreeMap<String, usize>,
    /// Tokens of the answer of each call, the first one first; `None` where the provider named
    /// none.
    pub tokens: Vec<Option<u64>>,
    /// The number of repairs of the text, by the name of the rule.
    pub repairs: BTreeMap<String, u32>,
    /// The rungs that were used, in the order of their first use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<String>,
    /// Arguments of a tool call were cut and continued: calls after it may never have begun.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_unknown: bool,
    /// The JSON Pointer at which a continued document violates the schema of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_violation: Option<String>,
    /// The hosts of the upstreams that replaced the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<String>,
    /// The models that wrote the answer, in their order. Empty if their names are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The limit on the answer's tokens that the operator has set instead of the request's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_limit: Option<u64>,
    /// The limit that the answer reached: one with which it passed on unread, or the time after
    /// which its last call counted as lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitReached>,
    /// The base of the document is unknown, so the answer passed unchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base_unknown: bool,
    /// The first answer is malformed, and passed unchanged from the mistake on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub malformed: bool,
    /// The delivered share of the document, as reported by the model: the last percentage that
    /// rose; see `Progress`.
    pub percentage: Option<u8>,
}

/// A limit that was reached, with its value. Displays as `max_depth = 1024`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitReached {
    /// The name of a member of [`Limits`](crate::Limits), or `max_slots`.
    pub name: String,
    /// The limit's value. That of a time is in seconds.
    pub value: Number,
}

impl LimitReached {
    /// Creates a limit that is not a time.
    #[doc(hidden)]
    pub fn new(name: &str, value: usize) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
        }
    }

    /// Returns a limit of time.
    pub fn of_time(name: &str, value: Duration) -> Self {
        let fraction = if value.subsec_nanos() > 0 {
            Number::from_f64(value.as_secs_f64())
        } else {
            None
        };
        Self {
            name: name.to_owned(),
            value: fraction.unwrap_or_else(|| value.as_secs().into()),
        }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

impl CallStats {
    /// Tokens of all answers together, if the provider reported them.
    pub fn total_tokens(&self) -> u64 {
        // A server may name any number.
        self.tokens
            .iter()
            .flatten()
            .fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }
}

impl CallStats {
    /// Notes that a rung is used.
    pub(super) fn note_rung(&mut self, rung: Rung) {
        add_new(&mut self.rungs, &[rung.as_str().to_owned()]);
    }

    /// Adds the flags of a seam that were not counted when it was `reported`.
    pub(super) fn count_flags(&mut self, seam: &Seam, reported: Option<&Seam>) {
        let is_new = |flag: fn(&Seam) -> bool| u32::from(flag(seam) && !reported.is_some_and(flag));
        self.ambiguous = self.ambiguous.saturating_add(is_new(|seam| seam.ambiguous));
        self.early_end = self.early_end.saturating_add(is_new(|seam| seam.early_end));
    }

    /// Adds a value that a continuation has left as the cut has.
    pub(super) fn note_cut_value(&mut self, value: &CutValue) {
        self.cut_values.insert(value.path.clone(), value.offset);
    }

    /// Adds the tally of another slot of the same answer.
    pub(super) fn add(&mut self, other: &Self) {
        self.continuations = self.continuations.saturating_add(other.continuations);
        self.failures = self.failures.saturating_add(other.failures);
        self.ambiguous = self.ambiguous.saturating_add(other.ambiguous);
        self.early_end = self.early_end.saturating_add(other.early_end);
        self.cut_values.extend(other.cut_values.clone());
        // The first call is the same for all slots.
        let first = usize::from(!self.tokens.is_empty());
        if let (Some(tokens), Some(others)) = (self.tokens.first_mut(), other.tokens.first()) {
            *tokens = tokens.or(*others);
        }
        self.tokens.extend(other.tokens.iter().skip(first));
        for (rule, count) in &other.repairs {
            let sum = self.repairs.entry(rule.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        add_new(&mut self.rungs, &other.rungs);
        self.calls_unknown |= other.calls_unknown;
        self.base_unknown |= other.base_unknown;
        self.malformed |= other.malformed;
        self.schema_violation = self
            .schema_violation
            .take()
            .or_else(|| other.schema_violation.clone());
        add_new(&mut self.upstreams, &other.upstreams);
        add_new(&mut self.models, &other.models);
        self.raised_limit = self.raised_limit.or(other.raised_limit);
        self.limit = self.limit.take().or_else(|| other.limit.clone());
        self.percentage = other.percentage.or(self.percentage);
    }
}

/// Adds the names that a list does not have yet.
fn add_new(list: &mut Vec<String>, others: &[String]) {
    for name in others {
        if !list.contains(name) {
            list.push(name.clone());
        }
    }
}

/// Why a loop ended before the document was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// [`max_consecutive_failures`](crate::Limits::with_max_consecutive_failures) calls in a row failed.
    Failures,
    /// [`max_no_progress`](crate::Limits::with_max_no_progress) calls in a row brought no
    /// new text.
    NoProgress,
    /// [`max_continuations`](crate::Limits::with_max_continuations) were made.
    Continuations,
    /// All answers together have
    /// [`max_total_tokens`](crate::Limits::with_max_total_tokens).
    Tokens,
    /// The answer has taken
    /// [`max_total_time`](crate::Limits::with_max_total_time).
    Time,
    /// The model reported no progress
    /// [`max_stalled_reports`](crate::Limits::with_max_stalled_reports)
    /// times in a row.
    Progress,
    /// Two answers to the same cut ended the document early, and the cut does not show that it ends
    /// there: see [`SpliceError::EarlyEnd`](crate::splice::SpliceError::EarlyEnd).
    EarlyEnd,
    /// More JSON followed the root that a continuation had closed. It was not delivered, so the
    /// answer is incomplete.
    MoreJson,
    /// The answer lacks what the request's schema requires: two calls closed the same container too
    /// early, or the model did before the cut. [`CallStats::schema_violation`] is its path.
    Schema,
    /// A call ended with a reason that is not to be continued.
    Finish,
    /// The text has [`max_text_bytes`](crate::Limits::with_max_text_bytes).
    Text,
    /// The upstream was in trouble for longer than
    /// [`patience`](crate::Limits::with_patience), or asked to wait
    /// longer.
    Patience,
    /// A call for the rest is longer than the model's context window, also with a rendering instead
    /// of the delivered text.
    Context,
    /// Most calls to the upstream fail, so no further call was made:
    /// [`overload_window`](crate::Limits::with_overload_window).
    Overload,
    /// No rung that is allowed can ask for the rest.
    Rungs,
    /// The operator has stopped the answer.
    Stopped,
    /// The reader left before the stream's end.
    Abandoned,
}

impl StopReason {
    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::NoProgress => "repeats",
            Self::Continuations => "continuations",
            Self::Tokens => "tokens",
            Self::Time => "time",
            Self::Progress => "progress",
            Self::EarlyEnd => "early_end",
            Self::MoreJson => "more_json",
            Self::Schema => "schema",
            Self::Finish => "finish",
            Self::Text => "text",
            Self::Patience => "patience",
            Self::Context => "context",
            Self::Overload => "overload",
            Self::Rungs => "rungs",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Why text ended before its document was whole. Outcomes, events and logs share these causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CutCause {
    /// The limit on output tokens was reached.
    Length,
    /// The connection was lost.
    Drop,
    /// The stream ended cleanly, without a finish reason.
    Eof,
    /// The call sent nothing for too long. The report names the limit.
    Idle,
    /// The server reported an error inside the stream.
    InBand,
    /// The model stopped before the document was whole.
    PrematureStop,
    /// The server gave an unknown finish reason, which does not refuse more text.
    UnknownFinish,
    /// The text left the grammar or contradicted the delivered text.
    Malformed,
}

impl CutCause {
    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Drop => "drop",
            Self::Eof => "eof",
            Self::Idle => "idle",
            Self::InBand => "in_band",
            Self::PrematureStop => "premature_stop",
            Self::UnknownFinish => "unknown_finish",
            Self::Malformed => "malformed",
        }
    }
}

/// How an answer ended, without the data of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// See [`Outcome::PassedThrough`].
    PassedThrough,
    /// See [`Outcome::Complete`].
    Complete,
    /// See [`Outcome::Closed`].
    Closed,
    /// See [`Outcome::Incomplete`].
    Incomplete,
    /// See [`Outcome::Failed`].
    Failed,
}

impl Status {
    pub(super) const ALL: [Self; 5] = [
        Self::PassedThrough,
        Self::Complete,
        Self::Closed,
        Self::Incomplete,
        Self::Failed,
    ];

    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PassedThrough => "passed",
            Self::Complete => "complete",
            Self::Closed => "closed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// `Display` and `Serialize` of a name in reports.
macro_rules! named {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )+};
}

named!(StopReason, CutCause, Status);

impl Outcome {
    /// Returns how the answer ended, without the data of the case.
    pub fn status(&self) -> Status {
        match self {
            Self::PassedThrough { .. } => Status::PassedThrough,
            Self::Complete { .. } => Status::Complete,
            Self::Closed { .. } => Status::Closed,
            Self::Incomplete { .. } => Status::Incomplete,
            Self::Failed { .. } => Status::Failed,
        }
    }

    /// Returns the tally of the calls.
    pub fn tally(&self) -> &CallStats {
        match self {
            Self::PassedThrough { tally, .. }
            | Self::Complete { tally, .. }
            | Self::Closed { tally, .. }
            | Self::Incomplete { tally, .. }
            | Self::Failed { tally, .. } => tally,
        }
    }

    /// Returns the tally of the calls.
    pub(super) fn tally_mut(&mut self) -> &mut CallStats {
        match self {
            Self::PassedThrough { tally, .. }
            | Self::Complete { tally, .. }
            | Self::Closed { tally, .. }
            | Self::Incomplete { tally, .. }
            | Self::Failed { tally, .. } => tally,
        }
    }

    /// Returns why the loop ended before the document was whole, if it did.
    pub fn reason(&self) -> Option<StopReason> {
        match self {
            Self::Closed { reason, .. } | Self::Incomplete { reason, .. } => Some(*reason),
            Self::Failed { reason, .. } => *reason,
            Self::PassedThrough { .. } | Self::Complete { .. } => None,
        }
    }

    /// Returns why the delivered text ended before the document was whole, if it did.
    pub fn cause(&self) -> Option<CutCause> {
        match self {
            Self::Closed { cause, .. }
            | Self::Incomplete { cause, .. }
            | Self::Failed { cause, .. } => *cause,
            Self::PassedThrough { .. } | Self::Complete { .. } => None,
        }
    }

    /// Returns how the last call of a whole document ended, if it gave no finish reason.
    pub fn end(&self) -> Option<CutCause> {
        if let Self::Complete { end, .. } = self {
            *end
        } else {
            None
        }
    }

    /// Returns the JSON Pointers of values that were synthesized to close the document.
    pub fn synthesized(&self) -> &[String] {
        if let Self::Closed { synthesized, .. } = self {
            synthesized
        } else {
            &[]
        }
    }

    /// Returns the JSON Pointer of the cut number or string in a closed document.
    pub fn cut_value(&self) -> Option<&str> {
        if let Self::Closed { cut_value, .. } = self {
            cut_value.as_deref()
        } else {
            None
        }
    }

    /// Returns the finish reason that goes with the delivered text, if a call gave one.
    pub fn finish(&self) -> Option<&Finish> {
        match self {
            Self::PassedThrough { finish, .. }
            | Self::Complete { finish, .. }
            | Self::Closed { finish, .. }
            | Self::Incomplete { finish, .. } => finish.as_ref(),
            Self::Failed { .. } => None,
        }
    }

    /// Returns the `restitch` member of the last chunk, as JSON: status, counts, why the loop
    /// stopped, how a call without a finish reason ended, the synthesized values, the cut value,
    /// the values that may have ended early at a cut, and the numbers of ambiguous seams and of early
    /// ends, if there are any.
    pub fn report(&self) -> String {
        let tally = self.tally();
        let mut report = serde_json::json!({
            "status": self.status(), "continuations": tally.continuations, "failures": tally.failures,
        });
        if tally.ambiguous > 0 {
            report["ambiguous"] = tally.ambiguous.into();
        }
        if tally.early_end > 0 {
            report["early_end"] = tally.early_end.into();
        }
        if !tally.cut_values.is_empty() {
            report["cut_values"] = serde_json::json!(tally.cut_values);
        }
        if !tally.rungs.is_empty() {
            report["rungs"] = serde_json::json!(tally.rungs);
        }
        if !tally.repairs.is_empty() {
            report["repairs"] = serde_json::json!(tally.repairs);
        }
        if tally.calls_unknown {
            report["parallel"] = "unknown".into();
        }
        if tally.base_unknown {
            report["base"] = "unknown".into();
        }
        if tally.malformed {
            report["malformed"] = true.into();
        }
        if let Some(path) = &tally.schema_violation {
            report["schema"] = "violated".into();
            report["schema_path"] = path.as_str().into();
        }
        if !tally.upstreams.is_empty() {
            report["upstreams"] = serde_json::json!(tally.upstreams);
            report["models"] = serde_json::json!(tally.models);
        }
        if let Some(limit) = tally.raised_limit {
            report["min_output_tokens"] = limit.into();
        }
        if let Some(limit) = &tally.limit {
            report["limit"] = serde_json::json!(limit);
        }
        if let Some(reason) = self.reason() {
            report["stop"] = reason.as_str().into();
        }
        if let Some(cause) = self.cause() {
            report["cause"] = cause.as_str().into();
        }
        if let Some(end) = self.end() {
            report["end"] = end.as_str().into();
        }
        if let Some(path) = self.cut_value() {
            report["cut_value"] = path.into();
        }
        if let Self::Closed { synthesized, .. } = self {
            // Elements that were never written can't be listed.
            report["elements_may_be_missing"] = true.into();
            report["synthesized"] = synthesized.clone().into();
        }
        report.to_string()
    }
}

impl Outcome {
    /// Returns the [`report`](Self::report) as the last event of a loop: with a first member
    /// `"event": "done"`.
    #[doc(hidden)]
    pub fn event(&self) -> String {
        self.report().replacen('{', r#"{"event":"done","#, 1)
    }
}

/// "complete after 2 continuations, 1 failure", and why the loop ended.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallStats {
            continuations,
            failures,
            ..
        } = self.tally();
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{} after {continuations} continuation{}",
            self.status(),
            plural(*continuations)
        )?;
        write!(f, ", {failures} failure{}", plural(*failures))?;
        if let Some(reason) = self.reason() {
            write!(f, ": stopped by {reason}")?;
        }
        if let Some(cause) = self.cause() {
            write!(f, ", cut by {cause}")?;
        }
        if let Some(end) = self.end() {
            write!(f, ", without a finish: {end}")?;
        }
        if self.tally().malformed {
            f.write_str(", malformed")?;
        }
        if self.tally().base_unknown {
            f.write_str(", unknown base")?;
        }
        if let Some(limit) = &self.tally().limit {
            write!(f, ", limit reached: {limit}")?;
        }
        Ok(())
    }
}

/// The members of the report, and those of the tally.
impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tally = self.tally();
        serde_json::json!({
            "status": self.status(), "stop": self.reason(), "cause": self.cause(), "end": self.end(),
            "continuations": tally.continuations, "failures": tally.failures, "ambiguous": tally.ambiguous,
            "early_end": tally.early_end, "cut_values": tally.cut_values,
            "synthesized": self.synthesized(), "cut_value": self.cut_value(),
            "finish": self.finish().map(Finish::as_str),
            "rungs": tally.rungs, "tokens": tally.tokens, "repairs": tally.repairs, "percentage": tally.percentage,
            "parallel": tally.calls_unknown.then_some("unknown"), "base": tally.base_unknown.then_some("unknown"),
            "malformed": tally.malformed, "schema_path": tally.schema_violation, "limit": tally.limit,
        })
        .serialize(serializer)
    }
}
