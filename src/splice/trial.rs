//! One place where a fragment may begin, tried character by character on a copy of the machine.
//!
//! A trial never touches the document. It knows whether it is still legal and whether it has passed; which one of
//! several wins is decided [elsewhere](super::decide).

use super::flow::{Flow, FlowError, Late, Sum, Target, Tried, is_space, quiet_run};
use super::seam::Alignment;
use super::slot::Slot;
use crate::json::{Kind, Machine};

/// What speaks for a claim. The higher one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// It wins if nothing else is left, and keeps nothing from winning: a repeat that chance explains.
    Fallback,
    /// It never wins, but keeps others from winning.
    Doubtful,
    /// It wins if nothing else is left.
    Plausible,
    /// What it repeats can't well be anything else.
    Convincing,
    /// It was asked for: one legal byte is enough.
    Asked,
}

impl Weight {
    /// The name in reports: `chance`, `doubtful`, `plausible`, `convincing`, `asked`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fallback => "chance",
            Self::Doubtful => "doubtful",
            Self::Plausible => "plausible",
            Self::Convincing => "convincing",
            Self::Asked => "asked",
        }
    }
}

/// Where the fragment may begin, and what speaks for it.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) alignment: Alignment,
    pub(super) weight: Weight,
    /// Offset in the fragment of the first byte that is new.
    pub(super) at: usize,
    /// Bytes of delivered text that it repeats.
    pub(super) overlap: usize,
    /// Where they begin in the delivered text.
    pub(super) from: usize,
    /// The rest of an escape that was cut, in the form in which it was begun.
    pub(super) rest: String,
    pub(super) late: Vec<Late>,
    /// What it must repeat has not all come.
    pub(super) owes: Option<Owed>,
    /// What it repeats may as well come once more: whole elements of the array in which the next one is due, or elements
    /// that are all the same.
    pub(super) may_recur: bool,
    /// How much of the white space at the end of the delivered text the fragment may still repeat.
    pub(super) skip: usize,
}

impl Claim {
    pub(super) fn new(alignment: Alignment, weight: Weight, at: usize, overlap: usize) -> Self {
        Self {
            alignment,
            weight,
            at,
            overlap,
            from: 0,
            rest: String::new(),
            late: Vec::new(),
            owes: None,
            may_recur: false,
            skip: 0,
        }
    }
}

/// What a claim of something that began again must still repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    /// So many delivered members must come again while at least so many containers are open.
    pub(super) members: usize,
    pub(super) depth: usize,
    /// Enough has been repeated to do without them.
    pub(super) is_forgiven: bool,
    /// The claim's weight if they do.
    pub(super) weight: Weight,
}

#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) claim: Claim,
    machine: Machine,
    flow: Flow,
    sum: Sum,
    /// Containers that are open at the cut, and where the token that it stands in begins.
    open: usize,
    cut_token: Option<usize>,
    /// Nothing but white space was repeated.
    is_new: bool,
    has_begun: bool,
    left_token: bool,
    past_structure: bool,
    /// A number at the root has ended right at the cut: nothing was added to it.
    ends_at_cut: bool,
    pub(super) passed: bool,
    /// Offset in the fragment of the character that comes next.
    pub(super) next: usize,
}

/// Places that are tried at once. An anchor that occurs more often in one fragment decides nothing, and each trial
/// takes every byte.
pub(super) const TRIALS: usize = 32;

impl Trial {
    pub(super) fn new(slot: &Slot, claim: Claim, cap: usize) -> Self {
        let machine = slot.document().machine().clone();
        let left_token = !machine.in_token();
        Self {
            is_new: claim.overlap == 0,
            next: claim.at,
            claim,
            open: machine.frames().len(),
            cut_token: machine.in_token().then(|| machine.token_start()),
            machine,
            sum: Sum::default(),
            flow: Flow::new(slot, cap),
            has_begun: false,
            left_token,
            past_structure: false,
            ends_at_cut: false,
            passed: false,
        }
    }

    /// Takes the next character of the fragment; `white` is the white space at the end of the delivered text. Whether
    /// the trial lives on.
    pub(super) fn feed(&mut self, slot: &Slot, text: &str, white: &str) -> Result<(), FlowError> {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let run = match c {
                _ if self.is_calm() => quiet_run(rest.as_bytes()),
                '0'..='9' | ',' | ' ' if self.is_free() => 1,
                _ => 0,
            };
            let (now, later) = rest.split_at(run.max(c.len_utf8()));
            if run > 0 {
                Tried { machine: &mut self.machine, slot, sum: &mut self.sum }.take(now)?;
            } else {
                self.take(slot, c, white)?;
            }
            self.next += now.len();
            rest = later;
        }
        Ok(())
    }

    /// It has passed, and stands between the scalars of an array: they can end it, and change nothing else.
    fn is_free(&self) -> bool {
        let in_array = || self.machine.frames().last().is_some_and(|frame| frame.kind == Kind::Array);
        self.passed && self.claim.skip == 0 && self.claim.owes.is_none() && self.flow.is_plain() && in_array()
    }

    /// It stands in a string, and nothing but the string's end makes a difference to it.
    pub(super) fn is_calm(&self) -> bool {
        self.has_begun && !self.passed && self.machine.in_string() && self.flow.is_plain()
    }

    fn take(&mut self, slot: &Slot, c: char, white: &str) -> Result<(), FlowError> {
        if self.claim.skip > 0 {
            let next = white.get(white.len() - self.claim.skip..).and_then(|white| white.chars().next());
            if next == Some(c) {
                self.claim.skip -= c.len_utf8();
                self.claim.at += c.len_utf8();
                self.claim.overlap += c.len_utf8();
                return Ok(());
            }
            self.claim.skip = 0;
        }
        if self.machine.is_done() {
            return self.behind_root(slot, c);
        }
        let (open, cut_token) = (self.open, self.cut_token);
        let is_inside =
            self.machine.in_string() || self.flow.pending() > 1 || !self.flow.is_settled() && self.flow.pending() == 0;
        let mut target = Tried { machine: &mut self.machine, slot, sum: &mut self.sum };
        if !self.has_begun {
            self.has_begun = true;
            self.flow.begin(&mut target, &self.claim.rest, &self.claim.late)?;
        }
        self.flow.feed(&mut target, c.encode_utf8(&mut [0; 4]))?;
        let done = self.machine.is_done();
        self.ends_at_cut |= done && open == 0 && (c == '`' || is_space(c)) && self.sum.is_short();
        let depth = self.machine.frames().len();
        let structural = !is_inside && matches!(c, '{' | '}' | '[' | ']' | ',' | ':');
        let significant = is_inside || !is_space(c);
        self.left_token |= done || !self.machine.in_token() || Some(self.machine.token_start()) != cut_token;
        let certain = self.left_token && (self.past_structure && significant && self.flow.is_settled() || done);
        if let Some(owed) = self.claim.owes.filter(|owed| depth < owed.depth || done) {
            if self.flow.dropped() < owed.members && !owed.is_forgiven {
                return Err(FlowError::Owes);
            }
            (self.claim.weight, self.claim.owes) = (owed.weight, None);
        }
        let complete = self.claim.owes.is_none() && !self.flow.has_late();
        // The text behind the root says whether that was the end of it.
        let is_exact = self.claim.alignment == Alignment::Exact;
        let certain = certain && !(done && self.is_new);
        // What must be left out was repeated: another claim says from where on.
        let complete = complete && !(is_exact && self.flow.dropped() > 0);
        self.passed |= if self.claim.weight == Weight::Asked { significant } else { certain && complete };
        // What goes on at the cut without being asked to may be a value of its own, a refusal say: it must come out of
        // that.
        let outside = !self.is_new || depth <= open;
        self.past_structure |= self.left_token && structural && outside;
        Ok(())
    }

    /// Behind the root's end: closers too many, a fence and other lines are nothing; a sentence that goes on is, where
    /// nothing but the grammar speaks for the claim.
    fn behind_root(&mut self, slot: &Slot, c: char) -> Result<(), FlowError> {
        let goes_on = !c.is_whitespace() && !matches!(c, '}' | ']' | '`');
        if !self.passed && goes_on {
            return Err(FlowError::GoesOn);
        }
        // A fence behind a number that nothing was added to: it closes where one is open, and opens where none is.
        let is_end = !self.ends_at_cut || slot.document().has_fence();
        self.passed |= c == '\n' && self.flow.dropped() == 0 && is_end;
        Ok(())
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        let is_repeat = self.claim.alignment == Alignment::Exact && self.flow.dropped() > 0;
        self.passed |= self.machine.is_done() && self.claim.owes.is_none() && !is_repeat;
    }

    /// Nothing but the grammar speaks for it.
    pub(super) fn is_new(&self) -> bool {
        self.is_new && self.claim.weight < Weight::Asked
    }

    /// The document would be whole.
    pub(super) fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    /// Both have given the same text so far: they are one document.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.sum == other.sum
    }
}
