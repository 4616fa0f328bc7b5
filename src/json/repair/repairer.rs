//! The push repairer: one reading that is certain, and the guesses about its end.

use super::super::Machine;
use super::super::grammar::State;
use super::super::stack::Kind;
use super::attempt::{Attempt, Edit, Recorder, Source, Stop};
use super::guess::{self, Guesses, Plan};
use super::{Repair, RepairLevel, RepairOptions, RepairRule};
use crate::error::{SyntaxError, SyntaxErrorKind};

/// A push parser that repairs the text of one root, from its first byte on.
///
/// What is certain is appended to the text of the caller; the rest is held back: at the level `syntax` a comma, white
/// space after a value, a literal or an escape; at the level `guess` up to `max_lookahead` bytes.
#[derive(Clone, Debug)]
pub struct Repairer {
    options: RepairOptions,
    /// The text as written that is not final, from the offset `from` on.
    window: String,
    from: usize,
    /// The reading that is certain, or led to the deviation that the guesses are about.
    trunk: Attempt,
    /// A machine in the final text, at most at its end: guesses begin there.
    settled: Machine,
    guesses: Vec<Guess>,
    log: Vec<Repair>,
    /// The root has ended, and nothing after it can change that.
    is_closed: bool,
    /// Where no reading goes on.
    error: Option<SyntaxError>,
}

/// A reading with at least one guess in it.
#[derive(Clone, Debug)]
struct Guess {
    attempt: Attempt,
    cost: u32,
    /// The end of the last guess in the repaired text.
    last: usize,
    stop: Option<Stop>,
    /// What followed the last guess is as it should be.
    is_verified: bool,
    /// What the text after the root costs.
    tail: u32,
}

/// The most readings at a time. The likeliest are kept.
const READINGS: usize = 48;
/// Values that must end after a guess: the one that it is in, and the next.
const VALUES: usize = 2;
/// What it costs that a root is not closed at the end of the text, or that more structure follows its end.
const OPEN_ROOT: u32 = 3;
/// What it costs that a string has an odd number of quotes in it, one of them repaired.
const ODD_QUOTES: u32 = 2;

impl Repairer {
    /// Creates a repairer before the first byte of a root.
    pub fn new(options: RepairOptions) -> Self {
        let depth = options.caps.depth;
        Self {
            options,
            window: String::new(),
            from: 0,
            trunk: Attempt::new(depth),
            settled: Machine::new(depth),
            guesses: Vec::new(),
            log: Vec::new(),
            is_closed: false,
            error: None,
        }
    }

    /// Reads more of the text, and appends what has become certain to `root`: the same string in each call, with the
    /// repaired text so far and nothing else.
    ///
    /// # Errors
    /// Fails where no reading goes on, with an offset in the text as written; from then on always.
    pub fn feed(&mut self, text: &str, root: &mut String) -> Result<(), SyntaxError> {
        self.window.push_str(text);
        self.advance(false, root)
    }

    /// Ends the text, and appends the rest.
    ///
    /// # Errors
    /// Fails with [`UnexpectedEnd`](SyntaxErrorKind::UnexpectedEnd) if the root is not closed, and as [`feed`](Self::feed)
    /// does.
    pub fn finish(&mut self, root: &mut String) -> Result<(), SyntaxError> {
        self.advance(true, root)?;
        self.release(true, root);
        self.trunk.machine.finish().map_err(|error| SyntaxError { offset: self.trunk.at, ..error })
    }

    /// Whether the root is closed.
    pub fn is_done(&self) -> bool {
        self.trunk.machine.is_done()
    }

    /// Returns the number of bytes of the text as written up to the end of what was read: of the root, if it is closed.
    pub fn end(&self) -> usize {
        self.trunk.at
    }

    /// Returns the changes so far that are final.
    pub fn repairs(&self) -> &[Repair] {
        &self.log
    }

    fn source<'a>(&'a self, is_end: bool, root: &'a str) -> Source<'a> {
        Source { window: &self.window, from: self.from, is_end, options: &self.options, released: root }
    }

    fn advance(&mut self, is_end: bool, root: &mut String) -> Result<(), SyntaxError> {
        while !self.is_closed {
            if let Some(error) = self.error {
                return Err(error);
            }
            let next = if self.guesses.is_empty() {
                let mut trunk = std::mem::replace(&mut self.trunk, Attempt::new(0));
                let stop = trunk.run(&self.source(is_end, root));
                self.trunk = trunk;
                self.release(false, root);
                self.branch(stop, is_end, root)
            } else {
                self.decide(is_end, root)
            };
            match next {
                Next::Wait => return Ok(()),
                Next::Close => self.is_closed = true,
                Next::Fail(error) => self.error = Some(error),
                Next::Guess => {}
            }
        }
        Ok(())
    }

    /// Begins to guess where the certain reading stopped.
    fn branch(&mut self, stop: Stop, is_end: bool, root: &str) -> Next {
        let most = self.options.caps.repairs;
        if self.log.len() + self.trunk.edits.len() > most {
            return Next::Fail(SyntaxError { kind: SyntaxErrorKind::TooManyRepairs(most), offset: self.trunk.at });
        }
        let guesses = self.options.level == RepairLevel::Guess;
        let otherwise = match stop {
            Stop::Deviation(error) => Next::Fail(error),
            Stop::End if guesses && is_end && self.trunk.machine.in_string() => Next::Wait,
            Stop::End => return Next::Wait,
            Stop::Done if !guesses => return Next::Close,
            Stop::Done => match self.goes_on(is_end) {
                Some(true) => Next::Close,
                Some(false) => return Next::Close,
                None => return Next::Wait,
            },
        };
        if !guesses {
            return otherwise;
        }
        self.settle(root);
        let source = self.source(is_end, root);
        // The tokens before the deviation are needed now.
        let mut trunk = self.trunk.clone();
        trunk.recorder = Recorder { is_on: true, tokens: Vec::new() };
        let _ = self.settled.clone().feed_with(trunk.out.as_bytes(), &mut trunk.recorder);
        let Some(plans) = Guesses::list(&trunk, &source) else { return Next::Wait };
        let mut guesses = self.children(&trunk, 0, plans, &source);
        if guesses.is_empty() {
            return otherwise;
        }
        if !matches!(otherwise, Next::Fail(_)) {
            // The text may as well be as it is.
            let tail = if stop == Stop::Done { OPEN_ROOT } else { 0 };
            let cost = if stop == Stop::End { guess::cost_of_open_string(&trunk) } else { 0 };
            guesses.insert(0, Guess { attempt: trunk, cost, last: 0, stop: Some(stop), is_verified: true, tail });
        }
        self.guesses = guesses;
        Next::Guess
    }

    /// Whether a comma and a value follow a root that is closed, so that it may have been closed too early. `None`: that
    /// is not known yet.
    fn goes_on(&self, is_end: bool) -> Option<bool> {
        let rest = self.source(is_end, "").rest(self.trunk.at).trim_ascii_start();
        let after = rest.strip_prefix(',').map(str::trim_ascii_start);
        match after {
            None if !rest.is_empty() => Some(false),
            Some(after) if !after.is_empty() => Some(after.starts_with(['"', '{', '['])),
            _ => is_end.then_some(false),
        }
    }

    /// Moves the machine in the final text to its end.
    fn settle(&mut self, root: &str) {
        let rest = root.get(self.settled.offset()..self.trunk.origin).unwrap_or_default();
        let read = self.settled.feed(rest.as_bytes());
        debug_assert!(read.is_ok(), "what is final is valid: {read:?}");
    }

    /// Returns the readings that plans lead to, as far as the grammar takes them.
    fn children(&self, parent: &Attempt, cost: u32, plans: Vec<Plan>, source: &Source<'_>) -> Vec<Guess> {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.sort_by_key(|&at| plans.get(at).map(|plan| plan.out));
        let mut prefix = Attempt { machine: self.settled.clone(), edits: Vec::new(), ..parent.clone() };
        prefix.recorder = Recorder { is_on: true, tokens: Vec::new() };
        let mut children: Vec<(usize, Guess)> = Vec::new();
        for index in order {
            let Some(plan) = plans.get(index) else { continue };
            let from = prefix.machine.offset() - parent.origin;
            let part = parent.out.get(from..plan.out - parent.origin).unwrap_or_default();
            if prefix.machine.feed_with(part.as_bytes(), &mut prefix.recorder).is_err() {
                continue;
            }
            let mut attempt = prefix.clone();
            attempt.out.truncate(plan.out - parent.origin);
            let is_before = |edit: &&Edit| edit.out_end() <= plan.out && edit.repair.range.end <= plan.start;
            attempt.edits = parent.edits.iter().take_while(is_before).cloned().collect();
            attempt.at = plan.start;
            if attempt.replace(source, plan.end - plan.start, plan.by.clone(), plan.rule) {
                attempt.mode = plan.mode;
                let is_change =
                    attempt.edits.last().is_some_and(|edit| edit.repair.original != edit.repair.replacement);
                let last = attempt.machine.offset();
                if !is_change {
                    attempt.edits.pop();
                }
                let cost = cost + plan.cost;
                children.push((index, Guess { attempt, cost, last, stop: None, is_verified: false, tail: 0 }));
            }
        }
        children.sort_by_key(|(index, _)| *index);
        children.into_iter().map(|(_, guess)| guess).collect()
    }

    /// Runs the guesses as far as the text goes, and takes the likeliest one once nothing likelier can come.
    fn decide(&mut self, is_end: bool, root: &str) -> Next {
        let mut guesses = std::mem::take(&mut self.guesses);
        let whole = self.source(is_end, root);
        let limit = self.trunk.at.saturating_add(self.options.caps.lookahead).saturating_sub(self.from);
        let limit =
            (0..=limit.min(whole.window.len())).rev().find(|&at| whole.window.is_char_boundary(at)).unwrap_or(0);
        let is_cut = limit < whole.window.len();
        let window = whole.window.get(..limit).unwrap_or_default();
        let source = Source { window, is_end: is_end && !is_cut, ..whole };
        self.explore(&mut guesses, &source);
        if is_cut {
            guesses.retain(|guess| guess.is_verified);
        }
        let at_end = source.is_end;
        let best = guesses.iter().enumerate().min_by_key(|(index, guess)| (guess.total(at_end), *index));
        let Some((index, best)) = best else { return Next::Fail(self.failure(root)) };
        if best.is_verified || at_end {
            let best = guesses.swap_remove(index);
            let before = std::mem::replace(&mut self.trunk, Attempt { recorder: Recorder::default(), ..best.attempt });
            return match best.stop {
                Some(Stop::Done) if self.trunk.at <= before.at => Next::Close,
                Some(Stop::End) if at_end => Next::Wait,
                _ => Next::Guess,
            };
        }
        for guess in guesses.iter_mut().filter(|guess| guess.stop == Some(Stop::End)) {
            guess.stop = None;
        }
        self.guesses = guesses;
        Next::Wait
    }

    /// Runs all readings to the end of the text, and replaces each that deviates by the readings that explain it.
    /// Deviations are taken in the order of the text, so that chunks make no difference.
    fn explore(&self, guesses: &mut Vec<Guess>, source: &Source<'_>) {
        loop {
            for guess in guesses.iter_mut().filter(|guess| guess.stop.is_none()) {
                guess.run(source);
            }
            let deviations = guesses.iter().enumerate().filter_map(|(index, guess)| match guess.stop {
                Some(Stop::Deviation(error)) if !guess.is_verified => Some((error.offset, index)),
                _ => None,
            });
            let Some((_, index)) = deviations.min() else { break };
            let parent = guesses.remove(index);
            match Guesses::list(&parent.attempt, source) {
                None => guesses.insert(index, Guess { stop: Some(Stop::End), ..parent }),
                Some(plans) => {
                    let children = self.children(&parent.attempt, parent.cost, plans, source);
                    guesses.splice(index..index, children);
                    prune(guesses);
                }
            }
        }
    }

    /// Returns the deviation of the certain reading.
    fn failure(&self, root: &str) -> SyntaxError {
        let end = SyntaxError { kind: SyntaxErrorKind::UnexpectedEnd, offset: self.trunk.at };
        match self.trunk.clone().run(&self.source(true, root)) {
            Stop::Deviation(error) => error,
            Stop::End | Stop::Done => end,
        }
    }

    /// Makes final what no recovery can change.
    fn release(&mut self, all: bool, root: &mut String) {
        let end = self.trunk.machine.offset();
        let mut to = match self.options.level {
            _ if all => end,
            RepairLevel::Guess => end.saturating_sub(self.options.caps.lookahead),
            _ => self.trunk.certain(),
        };
        if let Some(edit) = self.trunk.edits.iter().find(|edit| edit.out < to && to < edit.out_end()) {
            to = edit.out;
        }
        while to > self.trunk.origin && !self.trunk.out.is_char_boundary(to - self.trunk.origin) {
            to -= 1;
        }
        self.trunk.release(to, root, &mut self.log);
        let gone = self.trunk.origin_in.saturating_sub(self.from).min(self.window.len());
        // Each byte is moved at most once, whatever the pushes are.
        if gone > self.window.len() / 2 {
            self.window.drain(..gone);
            self.from += gone;
        }
    }

    /// Returns the reading that is certain.
    pub(super) fn machine(&self) -> &Machine {
        &self.trunk.machine
    }

    /// Makes all that was read final.
    pub(super) fn settle_all(&mut self, root: &mut String) {
        self.release(true, root);
    }

    pub(super) fn into_repairs(self) -> Vec<Repair> {
        self.log
    }
}

/// What the repairer does next.
enum Next {
    /// More text is needed.
    Wait,
    /// The root has ended.
    Close,
    Fail(SyntaxError),
    /// Readings are to be compared, or were.
    Guess,
}

impl Guess {
    fn run(&mut self, source: &Source<'_>) {
        let stop = self.attempt.run(source);
        self.stop = Some(stop);
        if self.is_verified {
            return;
        }
        let ended =
            self.attempt.recorder.tokens.iter().filter(|token| token.kind.ends_value() && token.end > self.last);
        let followed = ended.clone().nth(VALUES - 1).is_some_and(|token| {
            let after = self.attempt.out.get(token.end - self.attempt.origin..).unwrap_or_default();
            !after.trim_ascii_start().is_empty()
        });
        let after = source.rest(self.attempt.at).trim_ascii_start();
        let is_known = source.is_end || !after.is_empty();
        self.is_verified = followed || stop == Stop::Done && is_known;
        if stop == Stop::Done {
            self.stop = Some(if is_known { Stop::Done } else { Stop::End });
            self.tail = if after.starts_with([',', ':', '"', '{', '}', '[', ']']) { OPEN_ROOT } else { 0 };
        }
    }

    /// Returns the cost, with that of what is not repaired in it.
    fn total(&self, is_end: bool) -> u32 {
        let is_open = is_end && self.stop == Some(Stop::End);
        self.cost + if is_open { OPEN_ROOT } else { self.tail } + self.odd_quotes()
    }

    /// Quotes in a text come in pairs.
    fn odd_quotes(&self) -> u32 {
        let edits = &self.attempt.edits;
        let inner = |from: usize, to: usize| {
            edits.iter().any(|edit| edit.repair.rule == RepairRule::InnerQuote && (from..to).contains(&edit.out))
        };
        let strings = self.attempt.recorder.tokens.iter().filter(|token| token.kind.is_string());
        let is_odd = |from: usize, to: usize| {
            let origin = self.attempt.origin;
            let text = self.attempt.out.get(from.saturating_sub(origin)..to - origin).unwrap_or_default();
            text.matches("\\\"").count() % 2 == 1
        };
        let odd = strings.filter(|token| inner(token.start, token.end) && is_odd(token.start, token.end)).count();
        u32::try_from(odd).unwrap_or(u32::MAX).saturating_mul(ODD_QUOTES)
    }
}

/// Keeps the likeliest readings.
fn prune(guesses: &mut Vec<Guess>) {
    while guesses.len() > READINGS {
        let worst =
            guesses.iter().enumerate().max_by_key(|(index, guess)| (guess.cost, *index)).map(|(index, _)| index);
        match worst {
            Some(worst) => drop(guesses.remove(worst)),
            None => break,
        }
    }
}

impl Attempt {
    /// Returns the end of what no certain recovery changes.
    fn certain(&self) -> usize {
        let machine = &self.machine;
        let state = machine.state();
        if state.in_string() {
            return machine.certain_string();
        }
        if state.in_literal() {
            return machine.token_start();
        }
        match machine.frames().last() {
            _ if state.in_token() || state == State::Colon => machine.offset(),
            Some(frame) if state == State::Value && frame.kind == Kind::Object => machine.offset(),
            Some(frame) => frame.end.max(self.origin),
            None => machine.offset(),
        }
    }
}
