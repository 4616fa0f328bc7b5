//! A session as data that outlives its process.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Attempts, ContinuationStrategy, FirstAnswer, GiveUp, Phase, Prose, Session, Tally};
use crate::context::Progress;
use crate::envelope::AllowedRoots;
use crate::error::SyntaxError;
use crate::json::repair::{RepairLevel, RepairOptions, RepairRule};
use crate::limits::Limits;
use crate::splice::Expect;

/// A session as data: [`Session::snapshot`] makes one, [`Session::restore`] takes it.
///
/// A snapshot holds the text and the counters. What the text implies (the anchor, the complete part, the contexts) is not
/// in it, and neither is text of the open call whose place was not yet decided.
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
    /// `containers` or `any`: what counts as a root.
    #[serde(default)]
    roots: String,
    /// Version 1 had `roots` in here.
    #[serde(default, skip_serializing)]
    document: Option<DocumentV1>,
    /// `anchor`, `exact` or `any`.
    #[serde(default)]
    expect: String,
    /// `close`, `leave` or `error`; version 1 always closed.
    #[serde(default)]
    give_up: String,
    /// `strict`, `syntax` or `guess`. Snapshots of earlier versions lack it, and the next member: they are strict.
    #[serde(default)]
    repair: String,
    /// The names of the rules of repair that are switched off.
    #[serde(default)]
    repair_without: Vec<String>,
    /// `pass` or `anchor`; snapshots of earlier versions lack it, and the next member: prose passes.
    #[serde(default)]
    prose: Prose,
    /// The text is prose, whatever is in it.
    #[serde(default)]
    is_text: bool,
    /// The number of bytes at the start of the text that are the request's prefill.
    #[serde(default, skip_serializing_if = "is_zero")]
    base: usize,
    /// The session has ended.
    #[serde(default)]
    done: bool,
    /// The answer passes through as it came.
    #[serde(default)]
    opaque: bool,
    #[serde(default)]
    has_stop: bool,
    #[serde(default)]
    spliced: bool,
    #[serde(flatten)]
    tally: Tally,
    #[serde(default)]
    failures_in_a_row: u32,
    #[serde(default)]
    repeats_in_a_row: u32,
    /// Reports in a row that the percentage did not rise.
    #[serde(default)]
    strikes: u32,
    /// Answers at this cut that were not joined. Snapshots of earlier versions lack it, and the next member.
    #[serde(default)]
    unjoined: u32,
    /// One of them ended the document early.
    #[serde(default)]
    has_early_end: bool,
    /// One of them had a mistake after what it repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_mistake: bool,
    /// Milliseconds since the first input.
    #[serde(default)]
    spent_ms: u64,
}

/// The part of a document's saved form of version 1 that is still read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct DocumentV1 {
    roots: String,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The version that is written.
const VERSION: u64 = 2;

/// The versions that are read.
const READ: std::ops::RangeInclusive<u64> = 1..=VERSION;

/// Why a snapshot was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot is of this version, which is not known here.
    Version(u64),
    /// The snapshot lacks this part, or the part says something unknown.
    Part(&'static str),
    /// The snapshot's text breaks the grammar, or a limit.
    Text(SyntaxError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "a snapshot of version {version}, and only versions up to {VERSION} are known")
            }
            Self::Part(part) => write!(f, "the snapshot has no `{part}` that makes sense"),
            Self::Text(error) => write!(f, "the snapshot's text: {error}"),
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
    fn repair_options(&self) -> Result<RepairOptions, RestoreError> {
        let level = if self.repair.is_empty() { Ok(RepairLevel::Strict) } else { RepairLevel::named(&self.repair) };
        let options = RepairOptions::new(level.map_err(|_| RestoreError::Part("repair"))?);
        self.repair_without.iter().try_fold(options, |options, name| {
            let rule = RepairRule::ALL.iter().find(|rule| rule.as_str() == name);
            Ok(options.without(*rule.ok_or(RestoreError::Part("repair_without"))?))
        })
    }
}

impl Session {
    /// Returns what another process needs to go on here. Costs a copy of the text.
    pub fn snapshot(&self) -> Snapshot {
        let expect = match self.settings.expect {
            Expect::Anchor => "anchor",
            Expect::Exact => "exact",
            Expect::Any => "any",
        };
        let roots = match self.settings.roots {
            AllowedRoots::Containers => "containers",
            AllowedRoots::Any => "any",
        };
        let spent = self.clock.spent(self.clock.heard_at.unwrap_or_default());
        Snapshot {
            version: VERSION,
            text: self.slot.document().text().to_owned(),
            roots: roots.to_owned(),
            document: None,
            expect: expect.to_owned(),
            give_up: self.settings.give_up.as_str().to_owned(),
            repair: self.settings.repair.level().as_str().to_owned(),
            repair_without: self.settings.repair.off().map(|rule| rule.as_str().to_owned()).collect(),
            prose: self.settings.prose,
            is_text: self.slot.document().is_text(),
            base: self.base_len(),
            done: self.is_done(),
            opaque: self.is_passing(),
            has_stop: self.settings.trusts_stop,
            spliced: self.is_continued,
            tally: self.tally.clone(),
            failures_in_a_row: self.streaks.failures,
            repeats_in_a_row: self.streaks.no_progress,
            strikes: self.streaks.progress.stalled(),
            unjoined: self.streaks.attempts.unjoined,
            has_early_end: self.streaks.attempts.early_ends > 0,
            has_mistake: self.streaks.has_mistake,
            spent_ms: u64::try_from(spent.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns a session that goes on where another one was. The call that was open then counts as lost, but not as a
    /// failure, and the rest is asked for at once. Reads the text once.
    ///
    /// The session asks in the usual words; see [`restore_with`](Self::restore_with).
    ///
    /// # Errors
    /// Fails when the snapshot is of an unknown version, or contradicts itself.
    pub fn restore(now: Duration, snapshot: &Snapshot, limits: Limits) -> Result<Self, RestoreError> {
        Self::restore_with(now, snapshot, limits, ContinuationStrategy::default())
    }

    /// Returns a session like [`restore`](Self::restore) does, that asks with this strategy from the first call on.
    ///
    /// # Errors
    /// See [`restore`](Self::restore).
    pub fn restore_with(
        now: Duration,
        snapshot: &Snapshot,
        limits: Limits,
        strategy: ContinuationStrategy,
    ) -> Result<Self, RestoreError> {
        if !READ.contains(&snapshot.version) {
            return Err(RestoreError::Version(snapshot.version));
        }
        let expect = match snapshot.expect.as_str() {
            "anchor" => Expect::Anchor,
            "exact" => Expect::Exact,
            "any" => Expect::Any,
            _ => return Err(RestoreError::Part("expect")),
        };
        let roots = match snapshot.document.as_ref().map_or(&snapshot.roots, |document| &document.roots).as_str() {
            "containers" => AllowedRoots::Containers,
            "any" => AllowedRoots::Any,
            _ => return Err(RestoreError::Part("roots")),
        };
        let mut session = Self::with(limits, expect, roots);
        session.settings.give_up = match snapshot.give_up.as_str() {
            "" => GiveUp::default(),
            name => name.parse().map_err(|_| RestoreError::Part("give_up"))?,
        };
        session.settings.repair = snapshot.repair_options()?.within(&session.settings.limits);
        session.settings.strategy = strategy;
        session.settings.trusts_stop = snapshot.has_stop;
        session.settings.prose = snapshot.prose;
        if snapshot.is_text {
            session.read_as_text();
        }
        session.slot.push_with(&snapshot.text, &mut session.sections).map_err(RestoreError::Text)?;
        session.slot.settle(&mut session.sections);
        session.restore_base(snapshot.base);
        session.phase = Phase::First(if snapshot.opaque { FirstAnswer::Passing } else { FirstAnswer::Continuable });
        session.is_continued = snapshot.spliced;
        session.tally = snapshot.tally.clone();
        if session.tally.tokens.is_empty() {
            session.tally.tokens.push(None);
        }
        session.streaks.failures = snapshot.failures_in_a_row;
        session.streaks.no_progress = snapshot.repeats_in_a_row;
        session.streaks.attempts = Attempts { unjoined: snapshot.unjoined, early_ends: snapshot.has_early_end.into() };
        session.streaks.has_mistake = snapshot.has_mistake;
        let stalled = session.settings.limits.continuation.max_stalled_reports;
        session.streaks.progress = Progress::resume(stalled, snapshot.tally.percentage, snapshot.strikes);
        session.clock.spent_before = Duration::from_millis(snapshot.spent_ms);
        session.clock.started_at = Some(now);
        session.clock.heard_at = Some(now);
        if snapshot.done {
            session.phase = Phase::Done;
        } else {
            session.go_on(now);
        }
        Ok(session)
    }
}
