//! A session as data that outlives its process.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::CallClock;
use super::decisions::{NextStep, RetryCounters};
use super::first_answer::{FirstAnswer, FirstReading};
use super::open_call::CallPhase;
use super::question::Attempts;
use super::settings::Content;
use super::{CallEnd, CallStats, ContinuationStrategy, Prose, Session, Status};
use crate::context::Progress;
use crate::envelope::AllowedRoots;
use crate::error::SyntaxError;
use crate::json::repair::{RepairLevel, RepairOptions, RepairRule};
use crate::limits::Limits;
use crate::splice::Expect;

/// A session as data: [`Session::snapshot`] makes one, [`Session::restore`] takes it.
///
/// A snapshot holds the text and the counters. It leaves out everything that the text implies (the
/// anchor, the complete part, the contexts), and text of the open call whose seam is not yet
/// decided.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// A missing member has its default, so that a snapshot of another version fails the version check
// first.
#[serde(default)]
pub struct Snapshot {
    version: u64,
    text: String,
    /// `containers` or `any`: what counts as a root.
    roots: String,
    /// `anchor`, `exact` or `any`.
    expect: String,
    /// `close`, `leave` or `error`.
    give_up: String,
    /// `strict`, `syntax` or `guess`.
    repair: String,
    /// The names of the rules of repair that are switched off.
    repair_without: Vec<String>,
    /// `pass` or `anchor`.
    prose: Prose,
    /// The text is prose, whatever is in it.
    is_text: bool,
    /// The number of bytes at the start of the text that are the request's prefill.
    base: usize,
    /// The text in the outputs that the caller has not taken.
    #[serde(skip_serializing_if = "String::is_empty")]
    untaken: String,
    /// The session has ended.
    is_done: bool,
    /// How it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// The answer passes through unchanged.
    is_passing: bool,
    /// The request has stop sequences, so a finish of the model is believed.
    trusts_stop: bool,
    /// The schema that the request has for the text, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    /// A continuation was joined.
    is_continued: bool,
    #[serde(flatten)]
    tally: CallStats,
    failures_in_a_row: u32,
    /// Calls in a row that brought no new text.
    no_progress_in_a_row: u32,
    /// Reports in a row that the percentage did not rise.
    stalled_reports: u32,
    /// Answers at this cut that were not joined.
    unjoined: u32,
    /// The number of these answers under a schema.
    #[serde(skip_serializing_if = "is_zero")]
    unjoined_schemas: u32,
    /// One of them ended the document early.
    has_early_end: bool,
    /// One of them had a mistake after its repeated part.
    has_mistake: bool,
    /// Milliseconds since the first input.
    spent_ms: u64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The version that is written and read.
const VERSION: u64 = 1;

/// Why a snapshot was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot is of this other version.
    Version(u64),
    /// The snapshot lacks this part, or the part has an unknown value.
    Part(&'static str),
    /// The snapshot's text breaks the grammar, or a limit.
    Text(SyntaxError),
    /// The answer has ended like this: nothing is left to ask for.
    Ended(Status),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(
                    f,
                    "the snapshot has version {version}, and only version {VERSION} can be read"
                )
            }
            Self::Part(part) => write!(f, "the snapshot has no `{part}` that makes sense"),
            Self::Text(error) => write!(f, "the snapshot's text: {error}"),
            Self::Ended(status) => write!(f, "the answer has ended: {status}"),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Text(error) => Some(error),
            _ => None,
        }
    }
}

impl Snapshot {
    /// Returns the delivered text, after the prefill that it continues.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text that the caller has taken, without the base.
    #[cfg(feature = "stream")]
    pub(crate) fn taken_text(&self) -> &str {
        let taken = self.text.strip_suffix(self.untaken.as_str());
        let taken = taken.unwrap_or(&self.text);
        taken.get(self.base..).unwrap_or_default()
    }

    /// Returns how the session has ended.
    pub(crate) fn status(&self) -> Result<Option<Status>, RestoreError> {
        if !self.is_done {
            return Ok(None);
        }
        let name = self.status.as_deref();
        let mut all = Status::ALL.into_iter();
        let status = all.find(|status| Some(status.as_str()) == name);
        status.map(Some).ok_or(RestoreError::Part("status"))
    }

    fn repair_options(&self) -> Result<RepairOptions, RestoreError> {
        let level = RepairLevel::named(&self.repair).map_err(|_| RestoreError::Part("repair"))?;
        let options = RepairOptions::new(level);
        self.repair_without
            .iter()
            .try_fold(options, |options, name| {
                let rule = RepairRule::ALL.iter().find(|rule| rule.as_str() == name);
                Ok(options.without(*rule.ok_or(RestoreError::Part("repair_without"))?))
            })
    }

    fn counters(&self, limits: &Limits) -> RetryCounters {
        let most = limits.continuation.max_stalled_reports;
        let attempts = Attempts {
            unjoined: self.unjoined,
            early_ends: self.has_early_end.into(),
            schemas: self.unjoined_schemas,
        };
        let progress = Progress::resume(most, self.tally.percentage, self.stalled_reports);
        let mut counters = RetryCounters::new(progress);
        counters.failures = self.failures_in_a_row;
        counters.no_progress = self.no_progress_in_a_row;
        counters.at_cut.attempts = attempts;
        counters.at_cut.has_mistake = self.has_mistake;
        counters
    }
}

impl Session {
    /// Returns the state that another process needs to continue from here. Costs a copy of the
    /// text.
    pub fn snapshot(&self) -> Snapshot {
        let expect = match self.channel.settings.expect {
            Expect::Anchor => "anchor",
            Expect::Exact => "exact",
            Expect::Any => "any",
        };
        let roots = match self.channel.settings.roots {
            AllowedRoots::Containers => "containers",
            AllowedRoots::Any => "any",
        };
        let settings = &self.channel.settings;
        let (text, counters) = (&self.channel.text, &self.decisions.counters);
        let spent = self.decisions.clock.spent_until_heard();
        let mut tally = self.channel.journal.stats.clone();
        if let Some(value) = self.call.short_value(text.given_out()) {
            tally.note_cut_value(value);
        }
        Snapshot {
            version: VERSION,
            text: text.given_out().to_owned(),
            roots: roots.to_owned(),
            expect: expect.to_owned(),
            give_up: settings.give_up.as_str().to_owned(),
            repair: settings.repair.level().as_str().to_owned(),
            repair_without: settings
                .repair
                .off()
                .map(|rule| rule.as_str().to_owned())
                .collect(),
            prose: settings.prose,
            is_text: text.document().is_text(),
            base: text.base.len(),
            untaken: self.channel.journal.untaken(),
            is_done: self.is_done(),
            status: self
                .channel
                .journal
                .ended
                .map(|status| status.as_str().to_owned()),
            is_passing: self.is_passing(),
            trusts_stop: settings.trusts_stop,
            schema: settings.schema().map(str::to_owned),
            is_continued: self.channel.is_continued,
            tally,
            failures_in_a_row: counters.failures,
            no_progress_in_a_row: counters.no_progress,
            stalled_reports: counters.progress.stalled(),
            unjoined: counters.at_cut.attempts.unjoined,
            unjoined_schemas: counters.at_cut.attempts.schemas,
            has_early_end: counters.at_cut.attempts.early_ends > 0,
            has_mistake: counters.at_cut.has_mistake,
            spent_ms: u64::try_from(spent.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns a session that continues from a snapshot. The call that was open then counts as
    /// lost, but not as a failure, and the session asks for the rest immediately. Reads the text
    /// once.
    ///
    /// The session asks with the default strategy; see [`restore_with`](Self::restore_with).
    ///
    /// # Errors
    /// Fails when the snapshot has another version, or contradicts itself.
    pub fn restore(
        now: Duration,
        snapshot: &Snapshot,
        limits: Limits,
    ) -> Result<Self, RestoreError> {
        Self::restore_with(now, snapshot, limits, ContinuationStrategy::default())
    }

    /// Returns a session like [`restore`](Self::restore) does, that asks with this strategy from
    /// the first call on. A session that has ended stays ended.
    ///
    /// # Errors
    /// See [`restore`](Self::restore).
    #[doc(hidden)]
    pub fn restore_with(
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
        let roots = match snapshot.roots.as_str() {
            "containers" => AllowedRoots::Containers,
            "any" => AllowedRoots::Any,
            _ => return Err(RestoreError::Part("roots")),
        };
        let mut session = Self::with(limits, expect, roots);
        let settings = &mut session.channel.settings;
        settings.give_up = snapshot
            .give_up
            .parse()
            .map_err(|_| RestoreError::Part("give_up"))?;
        settings.repair = snapshot.repair_options()?.within(&settings.limits);
        settings.strategy = strategy;
        settings.trusts_stop = snapshot.trusts_stop;
        if let Some(schema) = &snapshot.schema {
            settings.content = Content::Text {
                schema: Some(schema.as_str().into()),
            };
        }
        settings.prose = snapshot.prose;
        session.decisions.counters = snapshot.counters(&settings.limits);
        session.decisions.clock = CallClock::resumed(now, Duration::from_millis(snapshot.spent_ms));
        let text = &mut session.channel.text;
        if snapshot.is_text {
            let unread = text.read_as_prose();
            debug_assert!(unread.is_empty(), "nothing was read before");
        }
        text.slot
            .push_with(&snapshot.text, &mut text.sections)
            .map_err(RestoreError::Text)?;
        text.slot.settle(&mut text.sections);
        text.restore_base(snapshot.base);
        session.channel.is_continued = snapshot.is_continued;
        let stats = &mut session.channel.journal.stats;
        *stats = snapshot.tally.clone();
        if stats.tokens.is_empty() {
            stats.tokens.push(None);
        }
        if snapshot.is_passing {
            session.call.phase = CallPhase::First(FirstAnswer::Passing);
        }
        session.channel.journal.text(snapshot.untaken.clone());
        if let Some(status) = snapshot.status()? {
            session.channel.journal.ended = Some(status);
            session.call.phase = CallPhase::Done;
            return Ok(session);
        }
        // The call that another process held open counts as lost.
        let end = CallEnd::Dropped;
        let continues = session.would_continue(&end);
        let decisions = &mut session.decisions;
        let next = match &mut session.call.phase {
            CallPhase::First(first) if continues => {
                FirstReading::new(first, &mut session.channel).resume(decisions, now, &end)
            }
            CallPhase::First(first) => {
                let mut first = FirstReading::new(first, &mut session.channel);
                NextStep::Done(Box::new(first.outcome(None, false)))
            }
            _ => return Ok(session),
        };
        session.follow(now, next);
        Ok(session)
    }
}
