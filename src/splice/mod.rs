//! Continuation text becomes part of the document, or the reason why not.
//!
//! ```text
//!  fragment ──▶ held ──▶ trials (one for each place where the fragment may begin) ──▶ joined: straight to the document
//!                        · each on its own copy of the machine, without touching the document
//!                        · the expected one needs one legal byte
//!                        · any other must have left the cut token and gone past a structural byte
//! ```
//! A splice knows text and grammar. It knows nothing of calls, events and retries.

mod trial;

use std::borrow::Cow;

use memchr::memchr2;

use crate::document::{Cut, Document};
use crate::error::SyntaxError;
use crate::json::envelope::{Opening, Roots};
use crate::limits::Limits;
use crate::overlap::{Anchor, Hit, Matcher};
use trial::{Claim, TRIALS, Trial};

/// Joins one fragment to one document.
///
/// ```
/// use restitch::splice::{Expect, Splice};
/// use restitch::{Document, Limits};
///
/// let mut document = Document::new(64);
/// document.push(r#"{"title": "Hel"#).unwrap();
/// let mut splice = Splice::new(&document, Expect::Anchor, &Limits::default());
/// splice.feed(&mut document, "Sure:\n```json\n{\"title\": \"Hel").unwrap();
/// splice.feed(&mut document, "lo\"}\n```").unwrap();
/// let seam = splice.finish(&mut document).unwrap();
/// assert_eq!(document.text(), r#"{"title": "Hello"}"#);
/// assert_eq!((seam.offset, seam.overlap), (14, 14));
/// ```
#[derive(Clone, Debug)]
pub struct Splice {
    expect: Expect,
    cut: Cut,
    /// Where the token that the cut stands in begins.
    cut_token: Option<usize>,
    anchor: Option<Anchor>,
    matcher: Option<Matcher>,
    /// The fragment up to the decision; empty behind it.
    held: Vec<u8>,
    most_held: usize,
    cap: usize,
    state: State,
    trials: Vec<Trial>,
    /// Where the line of the fragment that is being read begins.
    line: usize,
    /// Where the first bracket stands that is no part of a fence or of prose: what is behind it is behind more than an
    /// envelope.
    bracket: Option<usize>,
    /// Where the delivered text ends but for white space.
    tail: usize,
    /// Something significant has come, and is not what JSON begins with.
    begun: bool,
    is_prose: bool,
    /// Where the fragment's content begins: behind white space, or behind a fence.
    begin: usize,
    /// A fence has opened in the fragment.
    fenced: bool,
    /// Behind the seam of a fenced fragment: a line end that may belong to the closing fence.
    line_end: String,
}

/// What was asked for, and so where a fragment is expected to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Expect {
    /// At the anchor that it was asked to repeat.
    Anchor,
    /// At the cut: a prefix was to be continued.
    Exact,
    /// Nothing is known of how the fragment was asked for.
    #[default]
    Any,
}

/// The claim that decided where a fragment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alignment {
    /// It repeats the anchor, then goes on.
    Anchor,
    /// It goes on at the cut.
    Exact,
    /// It repeats a tail of the delivered text that holds the anchor, or all of it.
    Restart,
    /// It repeats a shorter tail that can't be anything else.
    Overlap,
    /// It repeats what was delivered, and brings nothing new.
    Repeat,
    /// Nothing was delivered before it: it begins at its own root.
    Start,
}

impl Alignment {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Exact => "exact",
            Self::Restart => "restart",
            Self::Overlap => "overlap",
            Self::Repeat => "repeat",
            Self::Start => "start",
        }
    }
}

/// Where and how a fragment was joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seam {
    /// Bytes of delivered text before it.
    pub offset: usize,
    /// JSON Pointer of the cut.
    pub path: String,
    /// Bytes of delivered text that the fragment repeated.
    pub overlap: usize,
    /// Why it was joined here.
    pub alignment: Alignment,
    /// It rests on an anchor that may stand elsewhere, too.
    pub ambiguous: bool,
    /// The most bytes that waited for the decision.
    pub held: usize,
}

/// Why a fragment was not joined, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It held no text but an envelope.
    Empty,
    /// No place where it may begin is legal.
    NoAlignment,
    /// It ended before it was certain where it begins: all of it could stand in the token that was cut, a refusal too.
    Undecided,
    /// It fits in two places, which give different documents, and nothing decides between them: the next row of a
    /// table, or the last one again.
    Ambiguous,
    /// More text than [`Limits::held`] waited for the decision.
    Held(usize),
    /// It was joined and delivered up to this deviation, which is the new cut.
    Malformed(SyntaxError),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the fragment is empty"),
            Self::NoAlignment => f.write_str("the fragment fits nowhere"),
            Self::Undecided => f.write_str("the fragment ended before it was certain where it begins"),
            Self::Ambiguous => f.write_str("the fragment fits in two places, and nothing decides between them"),
            Self::Held(bytes) => write!(f, "{bytes} bytes were held and it is not certain where the fragment begins"),
            Self::Malformed(error) => write!(f, "malformed behind the seam: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

#[derive(Clone, Debug)]
enum State {
    /// Nothing of the root was delivered: the fragment's own root is waited for.
    Opening(Opening),
    /// It is not decided where the fragment begins.
    Probation,
    Joined(Seam),
    /// Behind the closing fence of the fragment: nothing that follows is its text.
    Ended(Seam),
    Failed(Failure),
}

impl Splice {
    /// A splice at the end of the document's text. O(depth), and a search for the anchor.
    pub fn new(document: &Document, expect: Expect, limits: &Limits) -> Self {
        let cut = document.cut();
        let text = document.text();
        let root = document.root_start();
        let anchor = root.and_then(|_| Anchor::of(text, limits.anchor));
        let matcher = anchor.as_ref().map(|anchor| Matcher::new(text, anchor, root.unwrap_or_default(), limits.window));
        let machine = document.machine();
        let cut_token = machine.in_token().then(|| machine.token_start());
        let mut splice = Self {
            expect,
            cut,
            cut_token,
            anchor,
            matcher,
            held: Vec::new(),
            most_held: 0,
            cap: limits.held,
            state: if root.is_some() { State::Probation } else { State::Opening(Opening::new(Roots::Containers)) },
            trials: Vec::new(),
            line: 0,
            bracket: None,
            begin: 0,
            tail: text.trim_end().len(),
            begun: false,
            is_prose: false,
            fenced: false,
            line_end: String::new(),
        };
        if root.is_some() {
            splice.try_exact(document, 0);
        }
        splice
    }

    /// The anchor that the fragment is expected to repeat; `None` where nothing was delivered.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// Takes text of the fragment. What is certain is pushed to the document; text behind its root is dropped.
    ///
    /// # Errors
    /// The failure, now and for all text to come.
    pub fn feed(&mut self, document: &mut Document, text: &str) -> Result<(), Failure> {
        let mut text = text;
        if let State::Opening(opening) = &mut self.state {
            let before = self.held.len();
            self.held.extend_from_slice(text.as_bytes());
            let root = opening.feed(text);
            // What waited is what stands before the root: what follows it in the same chunk did not wait.
            let waited = root.unwrap_or(self.held.len());
            self.most_held = self.most_held.max(waited);
            self.check_cap(waited)?;
            let Some(root) = root else { return Ok(()) };
            text = text.get(root - before..).unwrap_or_default();
            if let Some(rest) = document.rest_of_fence() {
                // The fence that the root belongs behind was cut in its own line.
                let _ = document.push(rest);
            }
            self.join(Alignment::Start, 0);
        }
        if matches!(self.state, State::Probation) {
            // A decision falls behind a character, never at the end of a chunk: it is the same for all chunkings.
            for (n, &byte) in text.as_bytes().iter().enumerate() {
                self.held.push(byte);
                self.most_held = self.most_held.max(self.held.len());
                self.take_byte(document, byte);
                let whole = text.is_char_boundary(n + 1);
                if let Some(winner) = whole.then(|| self.winner(document)).flatten() {
                    let new = self.held.split_off(winner.start.min(self.held.len()));
                    self.join(winner.alignment, winner.overlap);
                    let rest = text.get(n + 1..).unwrap_or_default();
                    self.deliver(document, &String::from_utf8_lossy(&new));
                    text = rest;
                    break;
                }
                self.check_cap(self.held.len())?;
            }
            if matches!(self.state, State::Probation) {
                return Ok(());
            }
        }
        self.deliver(document, text);
        match &self.state {
            State::Failed(failure) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// The fragment has ended.
    ///
    /// # Errors
    /// Why it brought nothing: no place for it, or none that is certain.
    pub fn finish(&mut self, document: &mut Document) -> Result<Seam, Failure> {
        if matches!(self.state, State::Probation) {
            self.decide_at_end(document);
        }
        match &self.state {
            State::Joined(seam) | State::Ended(seam) => Ok(seam.clone()),
            State::Failed(failure) => Err(failure.clone()),
            State::Opening(_) | State::Probation => Err(Failure::Empty),
        }
    }

    /// The seam, once there is one.
    pub fn seam(&self) -> Option<&Seam> {
        match &self.state {
            State::Joined(seam) | State::Ended(seam) => Some(seam),
            _ => None,
        }
    }

    /// Bytes that wait for the decision.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    fn check_cap(&mut self, waiting: usize) -> Result<(), Failure> {
        if waiting <= self.cap {
            return Ok(());
        }
        let failure = Failure::Held(self.cap);
        self.state = State::Failed(failure.clone());
        Err(failure)
    }

    fn join(&mut self, alignment: Alignment, overlap: usize) {
        self.held = Vec::new();
        self.trials = Vec::new();
        self.matcher = None;
        let rests_on_anchor = matches!(alignment, Alignment::Anchor | Alignment::Restart);
        self.state = State::Joined(Seam {
            offset: self.cut.offset,
            path: std::mem::take(&mut self.cut.path),
            overlap,
            alignment,
            ambiguous: rests_on_anchor && self.anchor.as_ref().is_some_and(|anchor| anchor.ambiguous),
            held: self.most_held,
        });
    }

    /// Behind the seam: text goes to the document until its root is closed, or the fragment's fence is.
    fn deliver(&mut self, document: &mut Document, text: &str) {
        let State::Joined(seam) = &self.state else { return };
        if document.is_complete() || text.is_empty() {
            return;
        }
        let mut text = Cow::Borrowed(text);
        let mut ended = false;
        if self.fenced {
            if !self.line_end.is_empty() {
                text = Cow::Owned(std::mem::take(&mut self.line_end) + &text);
            }
            if let Some((at, closed)) = closing_fence(&text) {
                ended = closed;
                if !closed {
                    // The line end alone would end an open number: it waits for what follows it.
                    text[at..].clone_into(&mut self.line_end);
                }
                text = Cow::Owned(text[..at].to_owned());
            }
        }
        match document.push(&text) {
            Ok(()) if ended => {
                document.drop_tail();
                self.state = State::Ended(seam.clone());
            }
            Ok(()) => document.drop_tail(),
            Err(error) => self.state = State::Failed(Failure::Malformed(error)),
        }
    }

    fn try_exact(&mut self, document: &Document, start: usize) {
        let expected = self.expect == Expect::Exact && start == 0;
        let claim = Claim { alignment: Alignment::Exact, expected, is_evidence: false, overlap: 0 };
        self.trials.push(Trial::new(document, claim, start, 0, self.cut_token.is_none()));
    }

    /// The last byte of `held` has just come.
    fn take_byte(&mut self, document: &Document, byte: u8) {
        let delivered = document.text();
        let tail = self.tail;
        let white = delivered.as_bytes().get(tail..).unwrap_or_default();
        self.trials.retain_mut(|trial| trial.feed(byte, white, self.cut_token));
        let Some(mut matcher) = self.matcher.take() else { return };
        let length = self.held.len();
        if !self.begun && !byte.is_ascii_whitespace() {
            self.begun = true;
            // Prose may speak of brackets; what begins as JSON does and goes on with one is more than an envelope.
            self.is_prose = !matches!(byte, b'{' | b'[' | b'}' | b']' | b'"' | b',' | b':' | b'-' | b'0'..=b'9');
            self.begin = length - 1;
            matcher.begin(self.begin);
        }
        if matches!(byte, b'{' | b'[') && self.bracket.is_none() && !self.is_prose {
            self.bracket = Some(length - 1);
        }
        // The anchor and what is repeated from the beginning on may end at the same byte: what was asked for is tried.
        let mut found: Option<Claim> = None;
        matcher.feed(delivered, &self.held, |hit| {
            let claim = match hit {
                Hit::Anchor { start } => {
                    if self.bracket.is_some_and(|bracket| bracket < start) {
                        // What precedes it is no envelope: it counts only as the end of a restart.
                        return;
                    }
                    // Behind text that is legal at the cut it may stand in the next row, which is like the last one.
                    let is_first = start <= self.begin;
                    let before = self.held.get(..start).unwrap_or_default();
                    let on_own_line = before.iter().rev().take_while(|&&b| b != b'\n').all(u8::is_ascii_whitespace);
                    let expected = is_first || on_own_line && !self.exact_is_alive();
                    Claim { alignment: Alignment::Anchor, expected, is_evidence: true, overlap: length - start }
                }
                Hit::Overlap { start, has_anchor: true, .. } => {
                    // What it repeats stood behind the same thing as the cut does now: it may as well be the next row.
                    let last = |text: &str| text.trim_end().chars().next_back();
                    let in_a_row = delivered.get(..start).and_then(last) == delivered.get(..tail).and_then(last);
                    let expected = !in_a_row || !self.exact_is_alive() || self.is_piece_of_string(document, start);
                    Claim { alignment: Alignment::Restart, expected, is_evidence: true, overlap: tail - start }
                }
                Hit::Overlap { start, is_evidence, .. } => {
                    Claim { alignment: Alignment::Overlap, expected: false, is_evidence, overlap: tail - start }
                }
            };
            if found.is_none_or(|found| !found.expected) {
                found = Some(claim);
            }
        });
        if let Some(claim) = found.filter(|_| self.trials.len() < TRIALS) {
            let claim = Claim { expected: claim.expected && self.expect != Expect::Exact, ..claim };
            let free = self.cut_token.is_none();
            self.trials.push(Trial::new(document, claim, length, white.len(), free));
        }
        if byte == b'\n' {
            self.end_line(document, &mut matcher);
        }
        self.matcher = Some(matcher);
    }

    /// A line of the fragment has ended: was it the one that opens a fence?
    fn end_line(&mut self, document: &Document, matcher: &mut Matcher) {
        let line = self.held.get(self.line..).unwrap_or_default();
        self.line = self.held.len();
        if line.trim_ascii_start().starts_with(b"```") && !self.fenced {
            self.fenced = true;
            self.bracket = None;
            self.begin = self.line;
            // White space may follow the fence, too.
            self.begun = false;
            matcher.begin(self.begin);
            self.try_exact(document, self.begin);
        }
    }

    /// What came so far may stand at the cut.
    fn exact_is_alive(&self) -> bool {
        self.trials.iter().any(|trial| trial.alignment == Alignment::Exact)
    }

    /// The fragment may begin elsewhere as well, and nothing decides: the expected alignment is not among the living,
    /// and what is repeated is more than a piece of the string that was cut, so it may be the next row of a table, or
    /// it stands behind text that is legal at the cut, so a long string may say the same thing again.
    fn has_rival(&self, document: &Document, trial: &Trial) -> bool {
        if trial.expected {
            return false;
        }
        if trial.alignment == Alignment::Exact {
            return self.trials.iter().any(|rival| rival.alignment != Alignment::Exact);
        }
        if !trial.is_evidence {
            return self.trials.len() > 1;
        }
        let from = self.tail - trial.overlap.min(self.tail);
        let is_piece = trial.alignment == Alignment::Overlap && self.is_piece_of_string(document, from);
        self.exact_is_alive() && !is_piece
    }

    /// The cut stands in a string, and the delivered text from `start` on in the same one.
    fn is_piece_of_string(&self, document: &Document, start: usize) -> bool {
        document.machine().in_string() && self.cut_token.is_some_and(|token| start > token)
    }

    /// The trial that has won, if one has: what was asked for before what convinces, that before what is merely legal.
    fn winner(&self, document: &Document) -> Option<Trial> {
        let best = self.trials.iter().filter(|trial| trial.passed).max_by_key(|trial| trial.rank())?;
        let is_weak = !best.expected && !best.is_evidence;
        if self.has_rival(document, best) || is_weak && self.may_repeat(document) {
            return None;
        }
        Some(best.clone())
    }

    /// The fragment may still turn out to repeat delivered text.
    fn may_repeat(&self, document: &Document) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.may_repeat(document.text(), &self.held))
    }

    /// Legal at the cut and nothing more: neither asked for nor the end of the document.
    fn is_mere_exact(&self, trial: &Trial) -> bool {
        !trial.expected && trial.alignment == Alignment::Exact && !trial.machine.is_done()
    }

    fn decide_at_end(&mut self, document: &mut Document) {
        if self.held.trim_ascii().is_empty() {
            self.state = State::Failed(Failure::Empty);
            return;
        }
        // Everything that came is a tail of the delivered text, and nothing significant follows it.
        let end = self.held.trim_ascii_end().len();
        let is_tail = |trial: &Trial| trial.alignment == Alignment::Overlap && trial.start >= end;
        let nothing_new = self
            .trials
            .iter()
            .find(|trial| (trial.expected || is_tail(trial)) && trial.alignment != Alignment::Exact && !trial.passed);
        if let Some(trial) = nothing_new {
            let overlap = trial.overlap;
            self.join(Alignment::Repeat, overlap);
            return;
        }
        let repeats = self.matcher.as_ref().is_some_and(Matcher::is_repeat);
        let best = self.trials.iter().filter(|trial| trial.passed).max_by_key(|trial| trial.rank()).cloned();
        match best {
            Some(trial) if !repeats && self.has_rival(document, &trial) => {
                self.state = State::Failed(Failure::Ambiguous);
            }
            // It may as well have been lost while it repeated what was delivered: nothing says that it goes on from there.
            Some(trial) if !repeats && self.is_mere_exact(&trial) && self.may_repeat(document) => {
                self.state = State::Failed(Failure::Undecided);
            }
            Some(trial) if !repeats || trial.machine.is_done() || trial.alignment != Alignment::Exact => {
                let new = self.held.split_off(trial.start.min(self.held.len()));
                self.join(trial.alignment, trial.overlap);
                self.deliver(document, &String::from_utf8_lossy(&new));
            }
            _ if repeats => {
                let overlap = self.held.len() - self.begin;
                self.join(Alignment::Repeat, overlap);
            }
            _ if self.trials.is_empty() => self.state = State::Failed(Failure::NoAlignment),
            _ => self.state = State::Failed(Failure::Undecided),
        }
    }
}

/// Where the line that closes a fence begins, with the line ends before it; and whether it is there for certain, or only
/// so much of it that more text must come. Strings hold no raw line ends, so none of theirs is taken for one.
fn closing_fence(text: &str) -> Option<(usize, bool)> {
    let mut from = 0;
    while let Some(found) = memchr2(b'\n', b'\r', text.get(from..)?.as_bytes()) {
        let at = from + found;
        let behind = text[at..].trim_ascii_start();
        let spaces = text.len() - at - behind.len();
        if spaces <= SPACES && behind.starts_with(FENCE) {
            return Some((at, true));
        }
        if spaces <= SPACES && FENCE.starts_with(behind) {
            return Some((at, false));
        }
        from = at + spaces;
    }
    None
}

const FENCE: &str = "```";
/// White space in front of a closing fence; more of it is nobody's layout.
const SPACES: usize = 256;
