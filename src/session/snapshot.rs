//! A session as data that outlives its process.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ContinuationStrategy, Phase, Session};
use crate::context::Progress;
use crate::document::{Document, ResumeError, Saved};
use crate::limits::Limits;
use crate::splice::{Expect, Rule, Slot};

/// Where a session stands: [`Session::snapshot`] makes one, [`Session::restore`] takes it.
///
/// It has the text and the counters. What the text implies (the anchor, the complete part, the contexts) is not in it,
/// and neither is what a call had brought that was not yet certain.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::{Input, Output, Session, Snapshot};
/// use restitch::Limits;
///
/// let mut session = Session::new(Limits::default());
/// session.handle_input(Duration::ZERO, Input::Text("{\"items\": [1, 2"));
/// let row = serde_json::to_string(&session.snapshot())?;
///
/// // In another process:
/// let snapshot: Snapshot = serde_json::from_str(&row)?;
/// let mut session = Session::restore(Duration::ZERO, &snapshot, Limits::default())?;
/// let call = std::iter::from_fn(|| session.poll_output()).find_map(|output| match output {
///     Output::Call { request, .. } => request.turn,
///     _ => None,
/// });
/// assert_eq!(call.unwrap().delivered, "{\"items\": [1, 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    version: u64,
    // All else may be absent, so that a version that lacks it is refused by its number and not by what it lacks.
    #[serde(default)]
    text: String,
    #[serde(default)]
    document: Option<Saved>,
    /// `anchor`, `exact` or `any`.
    #[serde(default)]
    expect: String,
    /// The root's end came, or the loop gave up: nothing follows.
    #[serde(default)]
    done: bool,
    /// The answer passes as it came.
    #[serde(default)]
    opaque: bool,
    #[serde(default)]
    has_stop: bool,
    #[serde(default)]
    spliced: bool,
    #[serde(default)]
    continuations: u32,
    #[serde(default)]
    failures: u32,
    #[serde(default)]
    failures_in_a_row: u32,
    #[serde(default)]
    repeats_in_a_row: u32,
    #[serde(default)]
    ambiguous: u32,
    #[serde(default)]
    tokens: Vec<Option<u64>>,
    #[serde(default)]
    repairs: BTreeMap<String, u32>,
    /// The last percentage that was accepted, and failures of it in a row.
    #[serde(default)]
    last_kpi: Option<u8>,
    #[serde(default)]
    strikes: u32,
    /// Since the first input.
    #[serde(default)]
    spent_ms: u64,
}

/// The version of the form that is written and read here.
const VERSION: u64 = 1;

/// Why a snapshot was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is of this version, which is not known here.
    Version(u64),
    /// It lacks this part, or that says something unknown.
    Part(&'static str),
    /// Its text is not the one that its document was saved with.
    Document(ResumeError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "a snapshot of version {version}, and only version {VERSION} is known"),
            Self::Part(part) => write!(f, "the snapshot has no `{part}` that makes sense"),
            Self::Document(error) => write!(f, "the snapshot's document: {error}"),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Document(error) => Some(error),
            _ => None,
        }
    }
}

impl Session {
    /// What another process needs to go on here. Costs a copy of the text and a digest of it.
    pub fn snapshot(&self) -> Snapshot {
        let document = self.slot.document();
        let expect = match self.expect {
            Expect::Anchor => "anchor",
            Expect::Exact => "exact",
            Expect::Any => "any",
        };
        let repairs = self.repairs.iter().map(|(&rule, &count)| (rule.to_owned(), count));
        Snapshot {
            version: VERSION,
            text: document.text().to_owned(),
            document: Some(document.save()),
            expect: expect.to_owned(),
            done: self.is_done(),
            opaque: self.opaque || self.malformed.is_some(),
            has_stop: self.has_stop,
            spliced: self.spliced,
            continuations: self.continuations,
            failures: self.failures,
            failures_in_a_row: self.failures_in_a_row,
            repeats_in_a_row: self.repeats_in_a_row,
            ambiguous: self.ambiguous,
            tokens: self.tokens.clone(),
            repairs: repairs.collect(),
            last_kpi: self.progress.last_kpi(),
            strikes: self.progress.strikes(),
            spent_ms: u64::try_from(self.spent(self.heard_at.unwrap_or_default()).as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// A session that goes on where another one was: the call that was open then counts as lost, though not as a failure,
    /// and the rest is asked for at once. Reads the text twice.
    ///
    /// It asks in the usual words; see [`restore_asking`](Self::restore_asking).
    ///
    /// # Errors
    /// The snapshot is of another version, or contradicts itself.
    pub fn restore(now: Duration, snapshot: &Snapshot, limits: Limits) -> Result<Self, RestoreError> {
        Self::restore_asking(now, snapshot, limits, ContinuationStrategy::default())
    }

    /// The same, for a session that [asks](Self::ask) in this way, from the call on that is asked for at once.
    ///
    /// # Errors
    /// See [`restore`](Self::restore).
    pub fn restore_asking(
        now: Duration,
        snapshot: &Snapshot,
        limits: Limits,
        strategy: ContinuationStrategy,
    ) -> Result<Self, RestoreError> {
        if snapshot.version != VERSION {
            return Err(RestoreError::Version(snapshot.version));
        }
        let expect = match snapshot.expect.as_str() {
            "anchor" => Expect::Anchor,
            "exact" => Expect::Exact,
            "any" => Expect::Any,
            _ => return Err(RestoreError::Part("expect")),
        };
        let saved = snapshot.document.as_ref().ok_or(RestoreError::Part("document"))?;
        let document = Document::resume(&snapshot.text, saved).map_err(RestoreError::Document)?;
        let mut session = Self::with(limits, expect, document.root_kinds());
        session.strategy = strategy;
        session.slot = Slot::of(document, &session.limits);
        session.slot.document().replay(&mut session.sections);
        session.progress = Progress::resume(session.limits.max_stalled_reports, snapshot.last_kpi, snapshot.strikes);
        session.opaque = snapshot.opaque;
        session.has_stop = snapshot.has_stop;
        session.spliced = snapshot.spliced;
        session.continuations = snapshot.continuations;
        session.failures = snapshot.failures;
        session.failures_in_a_row = snapshot.failures_in_a_row;
        session.repeats_in_a_row = snapshot.repeats_in_a_row;
        session.ambiguous = snapshot.ambiguous;
        if !snapshot.tokens.is_empty() {
            session.tokens.clone_from(&snapshot.tokens);
        }
        for (rule, count) in &snapshot.repairs {
            // Rules that are not known here were another version's.
            let known = Rule::ALL.into_iter().find(|known| known.as_str() == rule);
            known.into_iter().for_each(|rule| *session.repairs.entry(rule.as_str()).or_default() += count);
        }
        session.spent = Duration::from_millis(snapshot.spent_ms);
        session.started_at = Some(now);
        session.heard_at = Some(now);
        if snapshot.done {
            session.phase = Phase::Done;
        } else {
            session.go_on(now);
        }
        Ok(session)
    }
}
