//! Finds the root among the brackets of a text. After prose, the bytes after a bracket decide
//! whether it begins the root.

use std::ops::Range;

use super::parser::RootOptions;
use crate::envelope::{AllowedRoots, RootFinder, RootStart, SoughtRoot};
use crate::json::{CutState, Kind, Machine};

/// A push parser for the text up to a root. Each byte is pushed once, in chunks of any size.
///
/// A separate machine reads the text after a bracket in prose until there is evidence of JSON. If
/// the bracket turns out to be prose, no text is read again: the next root begins after the byte
/// that is not JSON, never before it.
#[derive(Clone, Debug)]
pub(crate) struct RootSearch {
    finder: RootFinder,
    depth: usize,
    /// The bracket whose text may be the root.
    candidate: Option<Box<RootCandidate>>,
    /// The first closed array of scalars, or empty container. It is the root if no object follows.
    closed: Option<ClosedBrackets>,
}

/// The start of a root, and the offset up to which its text is known to be JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocatedRoot {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Debug)]
struct RootCandidate {
    start: usize,
    machine: Machine,
    /// The number of open containers at the first colon.
    member: Option<usize>,
    has_string: bool,
}

#[derive(Clone, Debug)]
struct ClosedBrackets {
    range: Range<usize>,
    /// It may be a reference or a check box: `[1]`, `[ ]`, `{}`.
    is_reference: bool,
}

impl ClosedBrackets {
    /// Whether its line or sentence ends after it, or a tag or a fence follows. After a link, or an
    /// array within a sentence, the sentence continues.
    fn ends_line(&self, text: &str) -> bool {
        let rest = text.get(self.range.end..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default().trim();
        line.chars().next().is_none_or(ends_root)
    }
}

/// Whether a root may end before this character in its line. Otherwise the line is prose.
pub(super) fn ends_root(c: char) -> bool {
    matches!(c, '\n' | '<' | '`' | '*' | '.' | ';' | '!' | '。')
}

/// Returns whether the text after a root ends inside a later root, for example in the last of
/// several records, or in the answer after an example.
pub(super) fn ends_in_root(after: &str, options: RootOptions) -> bool {
    let (depth, max_preamble) = (options.depth, options.max_preamble);
    let mut end = 0;
    loop {
        let finder = RootFinder::after_root(end, max_preamble, SoughtRoot::First);
        let mut search = RootSearch::with(finder, depth);
        let Some(root) = search.feed(after) else {
            return search.is_in_json();
        };
        let mut machine = Machine::starting_at(root.start, depth);
        match machine.feed_text(after, &mut ()) {
            Ok(_) if machine.is_done() => end = machine.offset(),
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

enum CandidateStep {
    Open,
    Root,
    Closed(ClosedBrackets),
    Prose,
}

impl RootSearch {
    /// Creates a search before the first byte.
    pub(crate) fn new(roots: AllowedRoots, depth: usize, max_preamble: usize) -> Self {
        Self::with(RootFinder::new(roots, max_preamble), depth)
    }

    /// Creates a search with this finder.
    pub(super) fn with(finder: RootFinder, depth: usize) -> Self {
        Self {
            finder,
            depth,
            candidate: None,
            closed: None,
        }
    }

    /// Returns the reader of the text around the root.
    pub(crate) fn finder(&self) -> &RootFinder {
        &self.finder
    }

    /// Reads the new part of `text`. `text` has all text until now. Returns the root once it is
    /// certain, and then reads no further.
    pub(crate) fn feed(&mut self, text: &str) -> Option<LocatedRoot> {
        loop {
            let rest = text
                .get(self.finder.offset()..)
                .filter(|rest| !rest.is_empty());
            let c = rest.and_then(|rest| rest.chars().next())?;
            let rest = rest.unwrap_or_default();
            let before = self.finder.offset();
            let piece = if self.candidate.is_some() {
                rest.get(..c.len_utf8()).unwrap_or_default()
            } else {
                rest
            };
            let start = self.finder.feed(piece);
            if let Some(RootStart::Certain(start)) = start {
                self.candidate = None;
                return Some(LocatedRoot { start, end: start });
            }
            if let Some(mut candidate) = self.candidate.take() {
                match candidate.take(piece) {
                    CandidateStep::Open => {
                        self.candidate = Some(candidate);
                        continue;
                    }
                    CandidateStep::Root => {
                        self.finder.accept();
                        return Some(LocatedRoot {
                            start: candidate.start,
                            end: before + piece.len(),
                        });
                    }
                    CandidateStep::Closed(closed) => {
                        self.note_closed(closed, text);
                        self.finder.reject();
                        continue;
                    }
                    CandidateStep::Prose => self.finder.reject(),
                }
            }
            if let Some(RootStart::Possible(at)) = start {
                let mut candidate = Box::new(RootCandidate::at(at, self.depth));
                let bracket = text.get(at..=at).unwrap_or_default();
                match candidate.take(bracket) {
                    CandidateStep::Prose => self.finder.reject(),
                    _ => {
                        self.finder.probe();
                        self.candidate = Some(candidate);
                    }
                }
            }
        }
    }

    fn note_closed(&mut self, closed: ClosedBrackets, text: &str) {
        // A reference counts only at the end of the text, so the last one matters.
        if self
            .closed
            .as_ref()
            .is_none_or(|known| known.is_reference || !known.ends_line(text))
        {
            self.closed = Some(closed);
        }
    }

    /// Whether the text ends in JSON that is the root, unless an object follows.
    pub(crate) fn is_in_json(&self) -> bool {
        self.open_root().is_some()
    }

    /// Returns where the root begins in which the text ends, after another root: a bracket and a
    /// quote are evidence there.
    pub(super) fn open_start(&self, text: &str) -> Option<usize> {
        let candidate = self.candidate.as_deref()?;
        let inside = text.get(candidate.start + 1..).unwrap_or_default();
        let has_quote = inside.trim_start().starts_with('"');
        (has_quote || candidate.is_evident()).then_some(candidate.start)
    }

    fn open_root(&self) -> Option<&RootCandidate> {
        let candidate = self
            .candidate
            .as_deref()
            .filter(|candidate| candidate.is_evident())?;
        self.closed
            .as_ref()
            .is_none_or(|closed| closed.is_reference)
            .then_some(candidate)
    }

    /// Returns the root if `text` is all there is. `is_last`: only white space may follow the root.
    pub(crate) fn settle(&mut self, text: &str, is_last: bool) -> Option<LocatedRoot> {
        let open = self
            .open_root()
            .map(|candidate| candidate.start..text.len());
        let closed = || {
            let closed = self.closed.as_ref()?;
            let rest = text.get(closed.range.end..).unwrap_or_default();
            let is_free = !closed.is_reference && !is_last && closed.ends_line(text)
                || rest.trim().is_empty();
            (is_free && self.candidate.is_none()).then(|| closed.range.clone())
        };
        let range = open.or_else(closed)?;
        self.accept();
        Some(LocatedRoot {
            start: range.start,
            end: range.end,
        })
    }

    /// Returns a fresh search that treats tags around reasoning as prose, if the text ends inside
    /// reasoning.
    pub(super) fn without_reasoning(&self, fresh: RootFinder) -> Option<Self> {
        self.finder
            .in_reasoning()
            .then(|| Self::with(fresh.ignoring_reasoning(), self.depth))
    }

    /// Records that the root begins at the last byte of the text that was read.
    pub(super) fn accept(&mut self) {
        self.candidate = None;
        self.finder.accept();
    }

    /// Rejects a root that was certain. The search continues after its first character, `c`.
    pub(super) fn reject(&mut self, c: char) {
        self.finder.reject_certain(c);
    }
}

impl RootCandidate {
    fn at(start: usize, depth: usize) -> Self {
        Self {
            start,
            machine: Machine::starting_at(start, depth),
            member: None,
            has_string: false,
        }
    }

    fn len(&self) -> usize {
        self.machine.offset() - self.start
    }

    fn take(&mut self, c: &str) -> CandidateStep {
        if self.machine.feed(c.as_bytes()).is_err() {
            return CandidateStep::Prose;
        }
        let state = self.machine.cut_state();
        let Some(last) = self.machine.frames().last() else {
            let is_reference = !self.has_string && self.len() <= REFERENCE;
            return CandidateStep::Closed(ClosedBrackets {
                range: self.start..self.machine.offset(),
                is_reference,
            });
        };
        let open = self.machine.frames().len();
        let is_after_colon = last.kind == Kind::Object && state == CutState::Value;
        if is_after_colon {
            self.member.get_or_insert(open);
        }
        self.has_string |= state == CutState::String;
        let is_member = self
            .member
            .is_some_and(|member| !(is_after_colon && open == member));
        // In code and prose a word may follow the colon: `{"a": file`.
        let is_word = state == CutState::Literal;
        if is_member && !is_word || self.len() >= SCALARS {
            CandidateStep::Root
        } else {
            CandidateStep::Open
        }
    }

    /// Whether prose is unlikely to begin like this.
    fn is_evident(&self) -> bool {
        let state = self.machine.cut_state();
        let has_element = self.machine.frames().iter().any(|frame| frame.count > 0)
            && state != CutState::AfterValue;
        self.has_string && has_element || self.len() >= EVIDENT
    }
}

/// The length in bytes of the longest array without strings that may be a reference, a citation or
/// an interval.
// `[12, 15, 2001]` in prose has about this length. Twice as much would take an answer such as
// `[0.25, 0.5, 0.75]` for a citation, and wait for its line to end; half would make `[12, 15, 22]`
// the root of an answer that ends with another one.
const REFERENCE: usize = 16;
/// A series of numbers in brackets of this length in bytes is JSON even while it is open:
/// citations, vectors and matrices in prose are shorter.
// Chosen: four times a reference. An open series of numbers counts as JSON from here on, so its cut
// can be continued; shorter ones are left to the end of the text, which shows whether they close.
const EVIDENT: usize = 64;
/// An array of this length in bytes is the root even if it holds only scalars. A shorter one may be
/// a list of references before an object, so its events wait.
// Chosen: a list of references before an answer is shorter, and a stream of an array of numbers
// shows nothing before this length. Doubled, short arrays are shown later; halved, a long list of
// references becomes the root.
pub(super) const SCALARS: usize = 256;
