//! The search among guesses: the cheapest reading that the later text confirms.
//!
//! Readings are tried in the order of their cost, and one is read only after all cheaper ones. A
//! search begins once the whole look-ahead was received, so its result depends on the text alone,
//! not on its chunks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::super::stack::Kind;
use super::super::{CutState, Machine};
use super::attempt::{ReadMode, ReadStop, RepairAttempt};
use super::content;
use super::fit::{self, LayoutContext};
use super::guess::{self, CHANGE, RepairPlan};
use super::habit::Habits;
use super::input::RepairInput;
use super::repaired_text::{Edit, RepairedText};
use super::token::{Recorder, TokenKind};
use super::{RepairLevel, RepairRule};

/// The remaining readings of a deviation.
#[derive(Clone, Debug)]
pub(super) struct GuessSearch {
    readings: BinaryHeap<Reverse<RankedReading>>,
    /// The machine at the start of all attempts. They share the text before it.
    base: Machine,
    /// The reading that led to the deviation, and the plans about it.
    parent: Arc<RepairAttempt>,
    plans: Vec<RepairPlan>,
    /// The number of planned readings.
    planned: usize,
    /// The number of readings that were expanded at each position.
    replaced: HashMap<StopPosition, usize>,
    /// The protected keys: their offsets in the text as written.
    keys: Vec<usize>,
}

/// The state in which a reading stopped. Readings in the same state continue alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StopPosition {
    at: usize,
    state: CutState,
    is_quoted: bool,
    depth: usize,
    /// The innermost containers, one bit each.
    kinds: u64,
}

/// Knowledge of the text before a deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchKnowledge<'a> {
    pub(super) habits: &'a Habits,
    pub(super) context: &'a LayoutContext,
}

/// The result of a search.
#[derive(Debug)]
pub(super) enum SearchResult {
    /// A reading that is confirmed, or the cheapest one at the end of the text, why it stopped, and
    /// where its last guess ends in the repaired text.
    Reading {
        attempt: Box<RepairAttempt>,
        stop: ReadStop,
        last: usize,
    },
    Nothing,
    /// The search needs more readings than the limit allows.
    TooMany,
}

#[derive(Clone, Debug)]
struct RankedReading {
    /// The cost of its guesses, and that of the rest.
    cost: u32,
    rest: u32,
    /// Among equals, the reading that was planned first.
    number: usize,
    state: ReadingState,
}

impl From<Box<FinishedReading>> for SearchResult {
    fn from(read: Box<FinishedReading>) -> Self {
        let FinishedReading {
            attempt,
            stop,
            last,
            ..
        } = *read;
        Self::Reading {
            attempt: Box::new(attempt),
            stop,
            last,
        }
    }
}

#[derive(Clone, Debug)]
enum ReadingState {
    Planned {
        parent: Arc<RepairAttempt>,
        places: DeviationRange,
        plan: RepairPlan,
    },
    Read(Box<FinishedReading>),
}

#[derive(Clone, Debug)]
struct FinishedReading {
    attempt: RepairAttempt,
    stop: ReadStop,
    /// The end of the last guess in the repaired text. The text before it does not change.
    last: usize,
    places: DeviationRange,
    /// Enough values follow the last guess to confirm it.
    is_confirmed: bool,
    /// The root is closed before text that belongs to it.
    loses_text: bool,
    /// The open string at the end of the text counts as a string: other readings of it were added.
    is_open: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DeviationRange {
    /// The first and the farthest deviation in the text as written.
    first: usize,
    deviation: usize,
    /// The mistake of the last guess was made before.
    is_again: bool,
}

/// The most readings expanded at one position. They differ only in earlier guesses, so the cheapest
/// ones are enough. Expanding all would make the work exponential in the mistakes of the
/// look-ahead.
// Two or three earlier guesses that end in the same state are real alternatives (a bracket or a
// quote more); with four all of them stay. tests/it/repair/dense.rs, and bounds.rs with three
// mistakes in a text, are measured with it.
const REPLACED: usize = 4;
/// The most mistakes in a row that habits explain: more without two values between them show that
/// the habit does not apply.
// A row has fewer mistakes of habit than this, and each step reads the rest of the look-ahead: six
// steps stay below the cost of one search. With two, rows that lose both quotes of two keys would
// need a search each.
const STEPS: usize = 6;
/// Values that must end after the first deviation, and after the last guess. Mistakes within them
/// are explained together, so that no explanation of the first one causes the second.
// Two or three rows: the second mistake of a row is then explained with the first. Half as many
// accept a guess before its row has ended, and then nothing may change it any more; twice as many
// wait longer and combine the guesses of more mistakes, whose number is exponential. bounds.rs with
// two mistakes is measured with it.
const VALUES: usize = 10;
/// Values that must end after the last guess if its mistake was made before: the value that it is
/// in, and the next one.
// The first may be made of the wrong text by the guess itself; the second is not. With ten, a text
// with a mistake in every row never confirms one (tests/it/repair/dense.rs).
const LAST_VALUES: usize = 2;
/// The cost of a deviation that follows a guess closely and has no explanation yet.
// As much as the cheapest guess: until it is explained, the next deviation counts as one more
// mistake. At zero, a wrong early quote, which soon leads to a deviation, would tie with the right
// one.
const NEXT: u32 = 2 * CHANGE;
/// The extra cost at which a reading with an expected root still wins.
// As much as the cheapest guess: a schema decides between explanations with the same number of
// mistakes, and doesn't invent a mistake to satisfy itself (tests/it/shape.rs has the schema
// cases).
const NEARLY: u32 = 2 * CHANGE;
/// The cost of a root whose end only closing brackets follow.
// A superfluous bracket is one mistake (`ExtraCloser`, 2), whether it is dropped inside the root or
// left after it. Cheaper, and roots would end too early; dearer, and a bracket in the middle would
// be dropped instead of the last one.
const CLOSERS_AFTER: u32 = 2 * CHANGE;
/// The cost of members or elements after the end of an unchanged root.
// Five guesses: members after a root belong to it, so almost any explanation that keeps them is
// better than to lose them. Halved, three mistakes in one row would lose the rest of the document
// silently; it is finite because the text may have no explanation (tests/cases/repair/member-after-
// a-root.md).
pub(super) const LOST_TEXT: u32 = 10 * CHANGE;
/// The cost of a root that is open at the end of the text, or of more structure after its end.
// One more change than a guess: a missing bracket at the end costs 2, so it is explained; three
// mistakes are not made up to close a root that was cut. tests/cases/repair/text-after-a-root.md
// has structure after the end.
pub(super) const OPEN_ROOT: u32 = 3 * CHANGE;

impl GuessSearch {
    /// Creates a search about the deviation at which `parent` stopped. `base`: the machine at the
    /// start of `parent`. `keys`: the offsets of the protected keys.
    pub(super) fn new(
        base: Machine,
        parent: RepairAttempt,
        plans: Vec<RepairPlan>,
        keys: Vec<usize>,
        habits: &Habits,
    ) -> Self {
        let parent = Arc::new(parent);
        let mut search = Self {
            readings: BinaryHeap::new(),
            base,
            parent: Arc::clone(&parent),
            plans: plans.clone(),
            planned: 0,
            replaced: HashMap::new(),
            keys,
        };
        search.add(&parent, None, 0, plans, habits);
        search
    }

    /// Returns the offset in the repaired text where the attempts begin.
    pub(super) fn base(&self) -> usize {
        self.base.offset()
    }

    /// Adds the reading of the unchanged text.
    pub(super) fn add_as_it_is(&mut self, stop: ReadStop, cost: u32) {
        let attempt = RepairAttempt::clone(&self.parent);
        let places = DeviationRange {
            first: attempt.at,
            deviation: attempt.at,
            is_again: false,
        };
        let read = FinishedReading {
            attempt,
            stop,
            last: 0,
            places,
            is_confirmed: true,
            loses_text: false,
            is_open: true,
        };
        self.push(cost, ReadingState::Read(Box::new(read)));
    }

    /// Adds the readings of plans. `places` are those of the reading that they replace.
    fn add(
        &mut self,
        parent: &Arc<RepairAttempt>,
        places: Option<DeviationRange>,
        cost: u32,
        plans: Vec<RepairPlan>,
        habits: &Habits,
    ) {
        let deviation = places.map_or(0, |places| places.deviation).max(parent.at);
        for plan in plans {
            let again = habits.cost_again(&plan, &parent.text.edits);
            let first = places.map_or(deviation, |places| places.first);
            let is_again = again.is_some() || habits.is_again(&plan, &parent.text.edits);
            let places = DeviationRange {
                first,
                deviation,
                is_again,
            };
            let cost = cost + again.unwrap_or(plan.cost);
            self.push(
                cost,
                ReadingState::Planned {
                    parent: Arc::clone(parent),
                    places,
                    plan,
                },
            );
        }
    }

    fn push(&mut self, cost: u32, state: ReadingState) {
        self.planned += 1;
        self.readings.push(Reverse(RankedReading {
            cost,
            rest: 0,
            number: self.planned,
            state,
        }));
    }

    /// Explains the deviation, and those soon after it, by the habits of the text. Returns `None`
    /// if no habit applies, or if the text after the guesses does not confirm them.
    pub(super) fn follow(
        &self,
        known: SearchKnowledge<'_>,
        input: &RepairInput<'_>,
    ) -> Option<SearchResult> {
        let mut attempt = Arc::clone(&self.parent);
        let mut plans = self.plans.clone();
        let (mut first, mut last) = (None, 0);
        for _ in 0..STEPS {
            let plan = known
                .habits
                .choose(plans.iter().filter(|plan| plan.out >= last))?;
            let (mut next, end) = apply(&attempt, plan, &self.base, input)?;
            let stop = next.run(input);
            last = end;
            let first = *first.get_or_insert(end);
            // A habit alone must not end the root, lose a key or turn structure into text.
            if stop == ReadStop::Done || loses_key(&next, &self.keys) || fit::rewrites(&next) {
                return None;
            }
            plans = match stop {
                ReadStop::Deviation(_) => guess::plans(&next, input)?,
                _ => Vec::new(),
            };
            let goes_on = || {
                known
                    .habits
                    .choose(plans.iter().filter(|plan| plan.out >= last))
                    .is_some()
            };
            if has_values(&next, first, LAST_VALUES) && (has_values(&next, last, 1) || goes_on()) {
                return Some(SearchResult::Reading {
                    attempt: Box::new(next),
                    stop,
                    last,
                });
            }
            attempt = Arc::new(next);
        }
        None
    }

    /// Tries readings until one is confirmed. `readings` counts them, up to `most`.
    pub(super) fn run(
        &mut self,
        known: SearchKnowledge<'_>,
        input: &RepairInput<'_>,
        readings: &mut usize,
        most: usize,
    ) -> SearchResult {
        // The likeliest answer without an expected root, and the cost limit for a better one.
        let mut best: Option<(u32, Box<FinishedReading>)> = None;
        while let Some(Reverse(RankedReading {
            cost,
            rest,
            number,
            state,
        })) = self.readings.pop()
        {
            let rank = cost.saturating_add(rest);
            // All later readings cost more than an expected root may cost.
            if best.as_ref().is_some_and(|(most, _)| rank > *most) {
                break;
            }
            match state {
                ReadingState::Planned {
                    parent,
                    places,
                    plan,
                } => {
                    if *readings >= most {
                        return SearchResult::TooMany;
                    }
                    *readings += 1;
                    let Some((attempt, last)) = apply(&parent, &plan, &self.base, input) else {
                        continue;
                    };
                    let read = FinishedReading::after_guess(attempt, last, places, input);
                    let rest = read.rest(input, known.context);
                    self.readings.push(Reverse(RankedReading {
                        cost,
                        rest,
                        number,
                        state: ReadingState::Read(Box::new(read)),
                    }));
                }
                ReadingState::Read(read) if loses_key(&read.attempt, &self.keys) => {}
                ReadingState::Read(read) if read.is_answer(input) => {
                    if read.is_expected(input) {
                        return read.into();
                    }
                    best.get_or_insert((rank.saturating_add(NEARLY), read));
                }
                ReadingState::Read(read) if read.is_unexplained(input) => {
                    self.replace(cost, rest, number, *read, known.habits, input);
                }
                ReadingState::Read(_) => {}
            }
        }
        best.map_or(SearchResult::Nothing, |(_, read)| read.into())
    }

    /// Replaces a reading by those that explain where it stopped.
    fn replace(
        &mut self,
        cost: u32,
        rest: u32,
        number: usize,
        read: FinishedReading,
        habits: &Habits,
        input: &RepairInput<'_>,
    ) {
        // Without plans the decision needs more text, but the text has ended.
        let Some(plans) = guess::plans(&read.attempt, input) else {
            return;
        };
        let replaced = self
            .replaced
            .entry(StopPosition::of(&read.attempt))
            .or_default();
        *replaced += 1;
        if *replaced <= REPLACED {
            // A later guess must not change an earlier one.
            let plans = plans
                .into_iter()
                .filter(|plan| plan.out >= read.last)
                .collect();
            self.add(
                &Arc::new(read.attempt.clone()),
                Some(read.places),
                cost,
                plans,
                habits,
            );
        }
        if read.stop == ReadStop::End {
            // The text may also be cut here.
            let state = ReadingState::Read(Box::new(FinishedReading {
                is_open: true,
                ..read
            }));
            self.readings.push(Reverse(RankedReading {
                cost,
                rest,
                number,
                state,
            }));
        }
    }
}

impl FinishedReading {
    /// Whether a guess could explain where the reading stopped: at a deviation, in a string that is
    /// open at the end of the text, or at the end of a root that text belonging to it follows.
    fn is_unexplained(&self, input: &RepairInput<'_>) -> bool {
        match self.stop {
            ReadStop::Deviation(_) => true,
            ReadStop::Done => self.loses_text,
            ReadStop::End => {
                input.is_end && !input.is_cut && !self.is_open && self.attempt.machine.in_string()
            }
        }
    }

    /// Whether the reading leads to the expected root, if that can be known.
    fn is_expected(&self, input: &RepairInput<'_>) -> bool {
        let json = || {
            let text = [input.released, input.held, &self.attempt.text.out].concat();
            let suffix = self.attempt.machine.completion(&text).suffix;
            text + &suffix
        };
        !input.is_end || input.options.prefers(json)
    }

    /// Whether the text ends in a key that a guess has opened again: a missing value would become a
    /// part of it.
    fn is_in_reopened_key(&self) -> bool {
        let machine = &self.attempt.machine;
        let is_inner = |edit: &Edit| {
            edit.repair.rule == RepairRule::InnerQuote && edit.out > machine.token_start()
        };
        machine.in_string() && machine.in_key() && self.attempt.text.edits.iter().any(is_inner)
    }

    /// Whether the reading is the answer, if it is the cheapest one.
    fn is_answer(&self, input: &RepairInput<'_>) -> bool {
        if fit::rewrites(&self.attempt) {
            return false;
        }
        match self.stop {
            ReadStop::Deviation(_) => self.is_confirmed,
            ReadStop::Done => self.is_confirmed || input.is_end && !self.loses_text,
            ReadStop::End if self.is_unexplained(input) => false,
            ReadStop::End if input.is_end => self.is_confirmed || !self.is_in_reopened_key(),
            // The look-ahead ends in long values.
            ReadStop::End => self.is_confirmed || has_values(&self.attempt, self.last, 1),
        }
    }

    /// Reads all text after the last guess, which ends at `last`.
    fn after_guess(
        mut attempt: RepairAttempt,
        last: usize,
        places: DeviationRange,
        input: &RepairInput<'_>,
    ) -> Self {
        let stop = attempt.run(input);
        let after = input.rest(attempt.at).trim_ascii_start();
        let comma = after.strip_prefix(',').map(str::trim_ascii_start);
        let is_end_known = input.is_end || !comma.unwrap_or(beyond_closers(after)).is_empty();
        let is_followed = is_followed(&attempt, last, places);
        let loses_text = stop == ReadStop::Done
            && (fit::ends_inside(&attempt)
                || comma.map_or(after.starts_with([':', '"']), |rest| !rest.is_empty())
                || !is_followed
                    && (content::is_of_root(after)
                        || moves_end(&attempt.text.edits) && goes_on(input.rest(attempt.at))));
        let is_confirmed = is_followed || stop == ReadStop::Done && is_end_known && !loses_text;
        Self {
            attempt,
            stop,
            last,
            places,
            is_confirmed,
            loses_text,
            is_open: false,
        }
    }

    /// Returns the cost of text that no guess changes, and of certain changes.
    fn rest(&self, input: &RepairInput<'_>, context: &LayoutContext) -> u32 {
        let attempt = &self.attempt;
        let after = input.rest(attempt.at).trim_ascii_start();
        let beyond = beyond_closers(after);
        // Prose after a root begins after white space.
        let is_joined = input
            .rest(attempt.at)
            .starts_with(|c: char| !c.is_whitespace() && c != '`');
        let open = match self.stop {
            ReadStop::Done if beyond.len() < after.len() && beyond.starts_with([',', ':', '"']) => {
                LOST_TEXT
            }
            ReadStop::Done if after.starts_with(['}', ']']) => CLOSERS_AFTER,
            ReadStop::Done if is_joined || after.starts_with(['{', '[']) => OPEN_ROOT,
            ReadStop::Deviation(_) if self.is_confirmed => NEXT,
            ReadStop::End if input.is_end && !input.is_cut => {
                OPEN_ROOT + CHANGE * u32::from(attempt.machine.in_string())
            }
            _ => 0,
        };
        // An explanation of the next deviation may still change the rest.
        let is_final =
            self.is_confirmed || input.is_end && !matches!(self.stop, ReadStop::Deviation(_));
        let form = if is_final {
            fit::odd_quotes(attempt) + fit::texts(attempt) + fit::contradictions(attempt, context)
        } else {
            0
        };
        open + certain_costs(&attempt.text.edits) + form
    }
}

/// Whether a protected key is no longer a key.
fn loses_key(attempt: &RepairAttempt, keys: &[usize]) -> bool {
    let tokens = &attempt.recorder.tokens;
    let is_key = |start: usize| {
        let found = tokens.binary_search_by_key(&start, |token| token.start);
        found
            .ok()
            .and_then(|at| tokens.get(at))
            .is_some_and(|token| token.kind == TokenKind::Key)
    };
    keys.iter()
        .map(|&key| attempt.text.out_offset(key))
        .any(|start| !is_key(start))
}

impl StopPosition {
    fn of(attempt: &RepairAttempt) -> Self {
        let frames = attempt.machine.frames();
        let kinds = frames.iter().rev().take(64).fold(0, |kinds, frame| {
            kinds << 1 | u64::from(frame.kind == Kind::Object)
        });
        let is_quoted = attempt.mode != ReadMode::Json;
        Self {
            at: attempt.at,
            state: attempt.machine.cut_state(),
            is_quoted,
            depth: frames.len(),
            kinds,
        }
    }
}

/// Whether guesses may have made a bracket inside a string the end of the root.
fn moves_end(edits: &[Edit]) -> bool {
    let count = |rule: RepairRule| {
        edits
            .iter()
            .filter(|edit| edit.guess.is_some() && edit.repair.rule == rule)
            .count()
    };
    count(RepairRule::InnerQuote) % 2 == 1
        || count(RepairRule::OpenString) + count(RepairRule::MissingQuote) > 0
}

/// Whether the text after a closing bracket looks like the rest of a string: it has text in the
/// same line, or a quote.
fn goes_on(after: &str) -> bool {
    let line = after
        .lines()
        .next()
        .unwrap_or_default()
        .trim_matches([' ', '\t', '}', ']', '`']);
    !line.is_empty() || after.contains('"')
}

/// Whether at least `count` values end after `from`, and more text follows them.
fn has_values(attempt: &RepairAttempt, from: usize, count: usize) -> bool {
    let mut ended = attempt
        .recorder
        .tokens
        .iter()
        .filter(|token| token.kind.ends_value() && token.end > from);
    ended.nth(count - 1).is_some_and(|token| {
        let after = attempt.text.after(token.end);
        !after.trim_ascii_start().is_empty()
    })
}

/// Whether enough values follow the guesses.
fn is_followed(attempt: &RepairAttempt, last: usize, places: DeviationRange) -> bool {
    let last_values = if places.is_again { LAST_VALUES } else { VALUES };
    let last = last.max(attempt.text.out_offset(places.deviation));
    has_values(attempt, attempt.text.out_offset(places.first), VALUES)
        && has_values(attempt, last, last_values)
}

/// Returns the text after closing brackets. The brackets may be superfluous, so that this text
/// belongs to the root.
fn beyond_closers(after: &str) -> &str {
    after.trim_start_matches(|c: char| matches!(c, '}' | ']') || c.is_ascii_whitespace())
}

/// Returns the attempt that a plan leads to, and where its guess ends; `None` if the grammar
/// rejects the plan.
fn apply(
    parent: &RepairAttempt,
    plan: &RepairPlan,
    base: &Machine,
    input: &RepairInput<'_>,
) -> Option<(RepairAttempt, usize)> {
    let mut recorder = Recorder::on(Vec::new());
    let mut machine = base.clone();
    let kept = parent.text.out.get(..plan.out - parent.text.origin)?;
    machine.feed_with(kept.as_bytes(), &mut recorder).ok()?;
    let is_before =
        |edit: &&Edit| edit.out_end() <= plan.out && edit.repair.range.end <= plan.start;
    let edits = parent.text.edits.iter().take_while(is_before).cloned();
    let mut attempt = RepairAttempt {
        machine,
        text: RepairedText {
            out: kept.to_owned(),
            edits: edits.collect(),
            ..RepairedText::at(parent.text.origin, parent.text.origin_in)
        },
        at: plan.start,
        mode: plan.mode,
        // If a guess opens a string again, its evidence remains.
        writer: parent.writer.filter(|writer| writer.token < plan.out),
        recorder,
    };
    if !attempt.replace(input, plan.end - plan.start, plan.by.clone(), plan.rule) {
        return None;
    }
    if let Some(edit) = attempt.text.edits.last_mut() {
        edit.guess = Some(plan.mistake);
    }
    // A closing quote that is read as text stays unchanged.
    attempt
        .text
        .edits
        .pop_if(|edit| edit.repair.original == edit.repair.replacement);
    let last = attempt.machine.offset();
    Some((attempt, last))
}

/// Returns the cost of the certain changes. A writer uses other quotes or literals everywhere, so
/// they count once.
fn certain_costs(edits: &[Edit]) -> u32 {
    let certain = || {
        edits
            .iter()
            .filter(|edit| edit.guess.is_none() && edit.repair.rule.level() < RepairLevel::Guess)
    };
    let is_habit = |rule: RepairRule| matches!(rule, RepairRule::Quotes | RepairRule::Literal);
    let habits = [RepairRule::Quotes, RepairRule::Literal].into_iter();
    let habits = habits
        .filter(|habit| certain().any(|edit| edit.repair.rule == *habit))
        .map(RepairRule::cost);
    let cost = |edit: &Edit| {
        if edit.is_tight {
            2
        } else {
            edit.repair.rule.cost()
        }
    };
    let others = certain()
        .filter(|edit| !is_habit(edit.repair.rule))
        .map(cost);
    habits.chain(others).sum::<u32>() * CHANGE
}

impl RankedReading {
    fn rank(&self) -> (u32, usize) {
        (self.cost.saturating_add(self.rest), self.number)
    }
}

impl Ord for RankedReading {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for RankedReading {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedReading {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for RankedReading {}
