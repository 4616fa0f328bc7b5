//! The push repairer: one reading that is certain, and the guesses about its end.

use super::super::Machine;
use super::attempt::{ReadStop, RepairAttempt};
use super::fit::LayoutContext;
use super::guess::{self, RepairPlan};
use super::habit::Habits;
use super::input::RepairInput;
use super::recovery::FENCE;
use super::search::{GuessSearch, LOST_TEXT, OPEN_ROOT, SearchKnowledge, SearchResult};
use super::token::{Recorder, Token, TokenKind};
use super::{Repair, RepairLevel, RepairOptions, content};
use crate::error::{SyntaxError, SyntaxErrorKind};

/// A push parser that repairs the text of a root, from its first byte on.
///
/// It appends certain text to the text of the caller and withholds the rest: at the level `syntax`
/// a comma, white space after a value, a literal or an escape; at the level `guess` also
/// `max_lookahead` bytes before that.
#[derive(Clone, Debug)]
pub struct Repairer {
    options: RepairOptions,
    window: TextWindow,
    /// The reading that is certain, or that led to the deviation under the guesses.
    trunk: RepairAttempt,
    settled: SettledText,
    phase: RepairPhase,
    log: Vec<Repair>,
    habits: Habits,
    /// The number of readings tried.
    readings: usize,
    /// The end of the last guess that was accepted, in the repaired text. It is final.
    accepted: usize,
    /// The text may end because it was cut.
    is_cut: bool,
}

#[derive(Clone, Debug)]
enum RepairPhase {
    /// The certain reading continues.
    Reading,
    /// The guesses about a deviation are open.
    Guessing(Box<GuessSearch>),
    /// The root has ended, and nothing after it can change that.
    Closed,
    /// No reading explains this deviation.
    Failed(SyntaxError),
}

/// The text as written that is not final.
#[derive(Clone, Debug)]
struct TextWindow {
    text: String,
    /// Where it begins.
    from: usize,
}

impl TextWindow {
    /// Returns the text from the offset `at` on.
    fn after(&self, at: usize) -> &str {
        self.text
            .get(at.saturating_sub(self.from)..)
            .unwrap_or_default()
    }

    /// Removes the text from the offset `at` on, and returns it.
    fn split_off(&mut self, at: usize) -> String {
        let at = at.saturating_sub(self.from).min(self.text.len());
        self.text.split_off(at)
    }

    /// Forgets the text before the offset `at`, now or later: each byte is moved at most once,
    /// whatever the pushes are.
    fn forget(&mut self, at: usize) {
        let gone = at.saturating_sub(self.from).min(self.text.len());
        if gone > self.text.len() / 2 {
            self.text.drain(..gone);
            self.from += gone;
        }
    }

    /// Returns what a reading reads; `root` is the repaired text that is final.
    fn input<'a>(
        &'a self,
        options: &'a RepairOptions,
        is_end: bool,
        is_cut: bool,
        root: &'a str,
    ) -> RepairInput<'a> {
        RepairInput {
            window: &self.text,
            from: self.from,
            is_end,
            is_cut,
            options,
            released: root,
            held: "",
        }
    }
}

/// The text that no guess changes any more.
#[derive(Clone, Debug)]
struct SettledText {
    /// A machine at its end.
    machine: Machine,
    /// Its layout.
    context: LayoutContext,
}

impl SettledText {
    /// Moves the end to that of the last accepted guess, or to an earlier offset from which on a
    /// certain recovery may still change text; at least to the end of the final text, `root`.
    fn settle(&mut self, trunk: &RepairAttempt, accepted: usize, root: &str) {
        let text = &trunk.text;
        let end = accepted.min(trunk.certain()).max(text.origin);
        let end = text.floor(text.outside_edits(end));
        let from = self.machine.offset();
        let mut recorder = Recorder::on(Vec::new());
        let released = root.get(from..text.origin).unwrap_or_default();
        let held = text.between(from.max(text.origin), end);
        for text in [released, held] {
            let origin = self.machine.offset();
            let read = self.machine.feed_with(text.as_bytes(), &mut recorder);
            debug_assert!(read.is_ok(), "the final text is valid: {read:?}");
            self.context.learn(&recorder.tokens, text, origin);
            recorder.tokens.clear();
        }
    }

    /// Returns the machine at a base offset, and the attempt from there on. Plans from the offset
    /// `first` on neither change nor read the text before the base.
    fn base(&mut self, trunk: &RepairAttempt, first: usize) -> (Machine, RepairAttempt) {
        let (tokens, origin) = (&trunk.recorder.tokens, trunk.text.origin);
        let next = tokens.partition_point(|token| token.end < first);
        let before = next
            .checked_sub(TOKENS_BEFORE)
            .and_then(|at| tokens.get(at));
        let mut base = before.map_or(origin, |token| token.start).max(origin);
        if trunk.machine.state().in_token() {
            base = base.min(trunk.machine.token_start().max(origin));
        }
        base = trunk.text.outside_edits(base);
        let mut machine = self.machine.clone();
        let read = machine.feed(trunk.text.before(base).as_bytes());
        debug_assert!(
            read.is_ok(),
            "the repaired text before the base is valid: {read:?}"
        );
        let count = tokens.partition_point(|token| token.end <= base);
        let tokens = tokens.get(..count).unwrap_or_default();
        self.context.learn(tokens, &trunk.text.out, origin);
        (machine, trunk.rebased(base))
    }
}

impl Repairer {
    /// Creates a repairer before the first byte of a root.
    pub fn new(options: RepairOptions) -> Self {
        let machine = Machine::new(options.caps.depth);
        Self::after(options, &machine, 0)
    }

    /// Creates a repairer that continues after final text. That text ends at the offset of
    /// `machine`, and at the offset `written` in the text as written. All offsets count like those
    /// of the machine.
    pub(crate) fn after(options: RepairOptions, machine: &Machine, written: usize) -> Self {
        Self {
            options,
            window: TextWindow {
                text: String::new(),
                from: written,
            },
            trunk: RepairAttempt::after(machine, written),
            settled: SettledText {
                machine: machine.clone(),
                context: LayoutContext::default(),
            },
            phase: RepairPhase::Reading,
            log: Vec::new(),
            habits: Habits::default(),
            readings: 0,
            accepted: machine.offset(),
            is_cut: false,
        }
    }

    /// Reads more of the text, and appends the text that has become certain to `root`. Each call
    /// gets the same string, which has only the repaired text so far.
    ///
    /// # Errors
    /// Fails where no reading can continue, with an offset in the text as written. From then on
    /// every call fails.
    pub fn feed(&mut self, text: &str, root: &mut String) -> Result<(), SyntaxError> {
        self.window.text.push_str(text);
        self.advance(false, root)
    }

    /// Ends the text, and appends the rest.
    ///
    /// # Errors
    /// Fails with [`UnexpectedEnd`](SyntaxErrorKind::UnexpectedEnd) if the root is not closed, and
    /// as [`feed`](Self::feed) does.
    pub fn finish(&mut self, root: &mut String) -> Result<(), SyntaxError> {
        self.advance(true, root)?;
        self.release(true, root);
        self.trunk.machine.finish().map_err(|error| SyntaxError {
            offset: self.trunk.at,
            ..error
        })
    }

    /// Reads the whole text and ends it, as [`finish`](Self::finish) does. Unlike a stream, it has
    /// all of a string before it reads the escapes.
    pub(super) fn read_whole(&mut self, text: &str, root: &mut String) -> Result<(), SyntaxError> {
        self.window.text.push_str(text);
        self.finish(root)
    }

    /// Whether the root is closed.
    pub fn is_done(&self) -> bool {
        self.trunk.machine.is_done()
    }

    /// Whether the root is closed for good: later text does not change that.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, RepairPhase::Closed)
    }

    /// Returns the number of bytes of the text as written that were read, or that belong to the
    /// root if it is closed.
    pub fn end(&self) -> usize {
        self.trunk.at
    }

    /// Takes the text after the root, as written, once the root is closed for good.
    pub(crate) fn take_tail(&mut self) -> Option<String> {
        self.is_closed()
            .then(|| self.window.split_off(self.trunk.at))
    }

    /// Whether the final text ends with a whole value: the final text does not show the end of a
    /// number.
    pub(crate) fn ends_with_value(&self) -> bool {
        let machine = &self.trunk.machine;
        let end = machine.frames().last().map(|frame| frame.end);
        !machine.state().in_token() && end == Some(self.trunk.text.origin)
    }

    /// Returns the offset in the text as written up to which the text is final.
    pub(crate) fn written(&self) -> usize {
        self.trunk.text.origin_in
    }

    /// Returns the withheld text, as written.
    pub(crate) fn pending(&self) -> &str {
        self.window.after(self.written())
    }

    /// Returns the final changes so far.
    pub fn repairs(&self) -> &[Repair] {
        &self.log
    }

    fn input<'a>(&'a self, is_end: bool, root: &'a str) -> RepairInput<'a> {
        self.window.input(&self.options, is_end, self.is_cut, root)
    }

    fn advance(&mut self, is_end: bool, root: &mut String) -> Result<(), SyntaxError> {
        loop {
            let next = match std::mem::replace(&mut self.phase, RepairPhase::Reading) {
                RepairPhase::Reading => {
                    let input = self.window.input(&self.options, is_end, self.is_cut, root);
                    let stop = self.trunk.run(&input);
                    self.release(false, root);
                    self.branch(stop, is_end, root)
                }
                RepairPhase::Guessing(search) => self.decide(search, is_end, root),
                RepairPhase::Closed => {
                    self.phase = RepairPhase::Closed;
                    return Ok(());
                }
                RepairPhase::Failed(error) => {
                    self.phase = RepairPhase::Failed(error);
                    return Err(error);
                }
            };
            match next {
                RepairStep::Wait => return Ok(()),
                RepairStep::Close => {
                    self.phase = RepairPhase::Closed;
                    self.release(true, root);
                }
                RepairStep::Fail(error) => self.phase = RepairPhase::Failed(error),
                RepairStep::Guess => {}
            }
        }
    }

    /// Begins to guess where the certain reading stopped.
    fn branch(&mut self, stop: ReadStop, is_end: bool, root: &str) -> RepairStep {
        let most = self.options.caps.repairs;
        if self.log.len() + self.trunk.text.edits.len() > most {
            return RepairStep::Fail(SyntaxError {
                kind: SyntaxErrorKind::TooManyRepairs(most),
                offset: self.trunk.at,
            });
        }
        let guesses = self.options.level == RepairLevel::Guess;
        let otherwise = match stop {
            ReadStop::Deviation(error) => RepairStep::Fail(error),
            ReadStop::End
                if guesses && is_end && !self.is_cut && self.trunk.machine.in_string() =>
            {
                RepairStep::Wait
            }
            ReadStop::End => return RepairStep::Wait,
            ReadStop::Done if !guesses => return RepairStep::Close,
            // If a value follows, a guess may explain it. If no guess does, the root ends here.
            ReadStop::Done => match goes_on(self.window.after(self.trunk.at), is_end) {
                Some(true) => RepairStep::Close,
                Some(false) => return RepairStep::Close,
                None => return RepairStep::Wait,
            },
        };
        if !guesses {
            return otherwise;
        }
        self.settled.settle(&self.trunk, self.accepted, root);
        let settled = &self.settled.machine;
        let input = RepairInput {
            held: self.trunk.text.before(settled.offset()),
            ..self.input(is_end, root)
        };
        // The tokens before the deviation are needed now.
        let mut trunk = self.trunk.rebased(settled.offset());
        trunk.recorder = Recorder::on(trunk.tokens(settled));
        let Some(plans) = guess::plans(&trunk, &input) else {
            return RepairStep::Wait;
        };
        // An accepted guess is final.
        let fits = |plan: &RepairPlan| plan.out >= self.accepted;
        let plans: Vec<_> = plans.into_iter().filter(fits).collect();
        let Some(first) = plans.iter().map(|plan| plan.out).min() else {
            return otherwise;
        };
        // The unchanged text is a reading, too: further objects may be a list, but a string or a
        // member after a root belongs to the root.
        let rest = input
            .rest(trunk.at)
            .trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        let as_it_is = match stop {
            ReadStop::End => OPEN_ROOT + guess::cost_of_open_string(&trunk),
            _ if rest.starts_with('"') => 2 * LOST_TEXT,
            _ => LOST_TEXT,
        };
        let (base, parent) = self.settled.base(&trunk, first);
        let keys = written_keys(&parent);
        let mut search = GuessSearch::new(base, parent, plans, keys, &self.habits);
        if !matches!(otherwise, RepairStep::Fail(_)) {
            search.add_as_it_is(stop, as_it_is);
        }
        self.phase = RepairPhase::Guessing(Box::new(search));
        RepairStep::Guess
    }

    /// Takes the likeliest guess once the look-ahead or the end of the text was received, so that
    /// the result depends on the text alone, not on its chunks.
    fn decide(&mut self, mut search: Box<GuessSearch>, is_end: bool, root: &str) -> RepairStep {
        let limit = self
            .trunk
            .at
            .saturating_add(self.options.caps.lookahead)
            .saturating_sub(self.window.from);
        let is_whole = limit >= self.window.text.len();
        if is_whole && !is_end {
            self.phase = RepairPhase::Guessing(search);
            return RepairStep::Wait;
        }
        let input = RepairInput {
            held: self.trunk.text.before(search.base()),
            ..self.input(is_end, root)
        };
        let limit = limit.min(input.window.len());
        let limit = (0..=limit)
            .rev()
            .find(|&at| input.window.is_char_boundary(at))
            .unwrap_or(0);
        let input = RepairInput {
            window: input.window.get(..limit).unwrap_or_default(),
            is_end: is_whole,
            ..input
        };
        if self.is_done()
            && is_whole
            && is_list_of_roots(input.rest(self.trunk.at), self.options.caps.depth)
        {
            // No text has to change.
            return RepairStep::Close;
        }
        let known = SearchKnowledge {
            habits: &self.habits,
            context: &self.settled.context,
        };
        let most = self.options.caps.readings;
        let allowed = most.saturating_mul(FREE_KIB.saturating_add(self.trunk.at >> 10));
        let mut readings = self.readings;
        let after = input.rest(self.trunk.at);
        let comma = self.trunk.at + (after.len() - after.trim_start().len());
        let is_before_member = content::is_before_member(after) == Some(true);
        // A habit costs at most `STEPS` readings per mistake, so it needs no budget.
        let found = search.follow(known, &input);
        let found = found.unwrap_or_else(|| search.run(known, &input, &mut readings, allowed));
        self.readings = readings;
        match found {
            SearchResult::Nothing => RepairStep::Fail(self.trunk.failure(&self.input(true, root))),
            SearchResult::TooMany => RepairStep::Fail(SyntaxError {
                kind: SyntaxErrorKind::TooManyReadings(most),
                offset: self.trunk.at,
            }),
            SearchResult::Reading {
                attempt,
                stop,
                last,
            } => {
                self.accepted = self.accepted.max(last);
                self.habits.learn(&attempt.text.edits);
                let before = self.trunk.at;
                self.trunk.replace_tail(*attempt);
                match stop {
                    // No reading explains the member, and dropping it is not allowed.
                    ReadStop::Done if self.trunk.at <= before && is_before_member => {
                        RepairStep::Fail(SyntaxError {
                            kind: SyntaxErrorKind::TrailingText(b','),
                            offset: comma,
                        })
                    }
                    ReadStop::Done if self.trunk.at <= before => RepairStep::Close,
                    ReadStop::End if is_whole => RepairStep::Wait,
                    _ => RepairStep::Guess,
                }
            }
        }
    }

    /// Makes the text final that no recovery can change.
    fn release(&mut self, all: bool, root: &mut String) {
        let certain = || self.trunk.certain();
        let to = match self.options.level {
            _ if all => self.trunk.machine.offset(),
            // Counted from the certain text. The offset of an escape or a comma that was read but
            // may still change depends on the chunks.
            RepairLevel::Guess => certain().saturating_sub(self.options.caps.lookahead),
            _ => certain(),
        };
        self.release_to(to, root);
    }

    /// Makes the repaired text final up to `to`.
    fn release_to(&mut self, to: usize, root: &mut String) {
        let text = &mut self.trunk.text;
        let to = text.floor(text.outside_edits(to));
        text.release(to, root, &mut self.log);
        self.window.forget(text.origin_in);
    }

    /// Returns the reading that is certain.
    pub(super) fn machine(&self) -> &Machine {
        &self.trunk.machine
    }

    /// Makes all that was read final.
    pub(crate) fn release_all(&mut self, root: &mut String) {
        self.release(true, root);
    }

    /// Ends the text as [`finish`](Self::finish) does if that closes the root. Otherwise nothing
    /// changes.
    pub(crate) fn finish_whole(&mut self, root: &mut String) {
        if self.options.level < RepairLevel::Guess || self.is_closed() {
            // No withheld text closes a root.
            return;
        }
        let (mut whole, mut text) = (
            Self {
                is_cut: true,
                ..self.clone()
            },
            root.clone(),
        );
        if whole.finish(&mut text).is_ok() {
            (*self, *root) = (whole, text);
        }
    }

    /// Stops where the text was cut: decides an open guess by the received text, and appends the
    /// likely reading. Returns the rest as written: a trailing comma, or the beginning of a word;
    /// if the last value may be a guess, that too.
    pub(crate) fn cut(&mut self, root: &mut String) -> String {
        if self.options.level < RepairLevel::Guess || self.is_closed() {
            return self.pending().to_owned();
        }
        self.is_cut = true;
        // At the end of the text, the beginning of a word would count as a whole word.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
        let whole = self.window.text.trim_end_matches(is_word).len();
        let word = self
            .window
            .split_off(self.trunk.at.max(self.window.from + whole));
        // A text that no guess explains is continued before the deviation.
        if self.advance(true, root).is_ok() {
            self.settled.settle(&self.trunk, self.accepted, root);
            let settled = &self.settled.machine;
            let tokens = self.trunk.tokens(settled);
            let before = tokens.split_last().map_or(&[][..], |(_, before)| before);
            let value = before.iter().rev().find(|token| token.kind.ends_value());
            let machine = &self.trunk.machine;
            let is_text = machine.in_string() && machine.offset() > machine.token_start() + LONG;
            let end = if is_text {
                machine.certain_string()
            } else {
                value.map_or(settled.offset(), |value| value.end)
            };
            self.release_to(end, root);
        }
        format!("{}{word}", self.pending())
    }

    pub(crate) fn into_repairs(self) -> Vec<Repair> {
        self.log
    }
}

/// Returns the written offsets of the keys that were read with their colons. These keys are
/// protected: a later mistake doesn't change that they were keys.
fn written_keys(trunk: &RepairAttempt) -> Vec<usize> {
    let text = &trunk.text;
    let has_colon = |token: &&Token| {
        let after = text.after(token.end);
        text.has(token.start) && after.trim_ascii_start().starts_with(':')
    };
    let keys = trunk
        .recorder
        .tokens
        .iter()
        .filter(|token| token.kind == TokenKind::Key)
        .filter(has_colon);
    keys.map(|token| text.in_offset(token.start)).collect()
}

/// Whether a comma and a value follow a root that is closed, so that it may have been closed too
/// early. `None`: that is not known yet.
fn goes_on(rest: &str, is_end: bool) -> Option<bool> {
    let rest = rest.trim_ascii_start();
    let after = rest.strip_prefix(',').map(str::trim_ascii_start);
    match after {
        None if !rest.is_empty() => Some(false),
        Some(after) if !after.is_empty() => Some(after.starts_with(['"', '{', '['])),
        _ => is_end.then_some(false),
    }
}

/// Whether `rest` has whole containers, each after a comma, and otherwise only white space and a
/// fence.
fn is_list_of_roots(rest: &str, depth: usize) -> bool {
    let mut rest = rest.trim_start();
    let mut has_root = false;
    while let Some(root) = rest
        .strip_prefix(',')
        .map(str::trim_start)
        .filter(|root| root.starts_with(['{', '[']))
    {
        let mut machine = Machine::new(depth);
        match machine.feed(root.as_bytes()) {
            Ok(read) if machine.is_done() => {
                rest = root.get(read..).unwrap_or_default().trim_start();
            }
            _ => return false,
        }
        has_root = true;
    }
    let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    has_root && (rest.is_empty() || rest.starts_with(FENCE))
}

/// The number of tokens that an attempt keeps before the first one that a plan changes: plans read
/// the end of the previous value, and the comma after it.
// The value, the comma, the key and the colon before the first changed token. With fewer, plans
// would read text that the attempt does not have; each further token is fed again for every plan.
const TOKENS_BEFORE: usize = 4;

/// A text has the budget of this many KiB from its beginning on: the first mistakes need the most
/// readings. 1,024 readings of up to 40 microseconds are an acceptable delay.
// A text of 64 KiB has 5 times the readings of a short one: the budget grows by `max_readings` a
// KiB, and begins with this many. Halved, documents with several kinds of mistakes in their first
// rows are refused as `TooManyReadings` (tests/it/repair/dense.rs).
const FREE_KIB: usize = 16;

/// Bytes of an open string from which on it is unlikely to be another token.
// Chosen: longer than keys and ids, shorter than a sentence. If a string that a guess opened is
// kept at a cut although it was structure, the continuation can't take it back; if it is left out,
// the model writes it once more.
const LONG: usize = 64;

/// The next step of the repairer.
enum RepairStep {
    /// More text is needed.
    Wait,
    /// The root has ended.
    Close,
    Fail(SyntaxError),
    /// The search has to compare readings, or has done so.
    Guess,
}
