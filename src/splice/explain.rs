//! Why a fragment was joined where it was, or not at all: all candidates, and what became of each.
//!
//! Knows what the splice remembers, and the delivered text. Nothing of it is looked at before somebody asks.

use super::Splice;
use super::log::Tried;
use super::seam::{Alignment, Expect, Repair, Seam, SpliceError};
use super::slot::Slot;
use super::trial::Weight;
use crate::document::{Cut, Document};
use crate::envelope::AllowedRoots;
use crate::error::SyntaxErrorKind;

/// The whole decision of one [`Splice`], as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What was expected.
    pub expect: Expect,
    /// Where the delivered text stopped.
    pub cut: Cut,
    /// The anchor; `None` where nothing was delivered.
    pub anchor: Option<Asked>,
    /// Every place where the fragment may have begun: the one that won first, then those that are alive, then those that
    /// died, in that order. Empty where nothing was delivered.
    pub candidates: Vec<Candidate>,
    /// Candidates that died and are not listed: of very many only the first are remembered.
    pub unlisted: usize,
    /// More candidates came than are tried, so that nothing but what was asked for could win.
    pub is_crowded: bool,
    /// The most bytes of the fragment that waited for the decision.
    pub held: usize,
    /// How the fragment was joined, if it was. [`Seam::decided`] has the byte at which that was decided.
    pub seam: Option<Seam>,
    /// Why it was not, or not to its end.
    pub failure: Option<SpliceError>,
    /// What was changed in the fragment's text, in order.
    pub repairs: Vec<Repair>,
}

/// The anchor that a fragment was to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Bytes of it.
    pub length: usize,
    /// It may stand elsewhere in the delivered text, too.
    pub ambiguous: bool,
}

/// One place where the fragment may have begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The claim.
    pub alignment: Alignment,
    /// What speaks for it.
    pub weight: Weight,
    /// Where what it repeats begins, in bytes of the delivered text; the cut where it repeats nothing.
    pub from: usize,
    /// JSON Pointer of that place, read like the path of a [`Cut`].
    pub path: String,
    /// Bytes of delivered text that it repeats.
    pub overlap: usize,
    /// Where its new text begins, in bytes of the fragment.
    pub at: usize,
    /// What it repeats may as well come once more: the next row is like the last one.
    pub may_recur: bool,
    /// Delivered members that it must still repeat.
    pub owes: usize,
    /// It has passed probation.
    pub passed: bool,
    /// What became of it.
    pub fate: Fate,
}

impl Candidate {
    /// What it would add to the document, of the fragment that was fed; the envelope behind it is still there.
    pub fn adds<'a>(&self, fragment: &'a str) -> &'a str {
        fragment.get(self.at..).unwrap_or_default()
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was joined.
    Won,
    /// It gives the same document as the one that won.
    Same,
    /// It was legal when the decision fell, or is, and gives another document.
    Alive,
    /// It is none any more.
    Died {
        /// The byte of the fragment that it died of.
        at: usize,
        /// Of what.
        why: Death,
    },
}

impl Fate {
    /// The name in reports: `won`, `same`, `alive`, `died`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Same => "same",
            Self::Alive => "alive",
            Self::Died { .. } => "died",
        }
    }
}

/// What a candidate died of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Death {
    /// The byte is illegal there.
    Grammar(SyntaxErrorKind),
    /// A delivered member would be overwritten with another value.
    Overwrites,
    /// It leaves out what was delivered.
    LeavesOut,
    /// Text goes on behind the end of the root.
    GoesOn,
    /// More bytes wait in it than may.
    Held,
    /// What it would add does not look like what stands before it.
    Unlike,
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grammar(kind) => write!(f, "the grammar: {kind}"),
            Self::Overwrites => f.write_str("a delivered member would be overwritten"),
            Self::LeavesOut => f.write_str("it leaves out what was delivered"),
            Self::GoesOn => f.write_str("text goes on behind the root"),
            Self::Held => f.write_str("too much waits in it"),
            Self::Unlike => f.write_str("it does not look like what stands before it"),
        }
    }
}

impl Splice {
    /// Tells the decision, as far as it has come. `slot` is the one that was fed. Reads the delivered text once more, for
    /// the paths: it is meant for people who ask why.
    pub fn explain(&self, slot: &Slot) -> Explained {
        let seam = self.seam().cloned();
        // A seam has taken the path with it.
        let path = seam.as_ref().map_or(&self.cut.path, |seam| &seam.path).clone();
        let cut = Cut { path, ..self.cut.clone() };
        let alive = self.trials.iter().map(|trial| Tried::of(trial, Fate::Alive));
        let mut tried: Vec<Tried> = self.log.won.into_iter().chain(alive).collect();
        let (dead, decided): (Vec<Tried>, Vec<Tried>) =
            self.log.others.iter().partition(|tried| matches!(tried.fate, Fate::Died { .. }));
        tried.extend(decided);
        tried.extend(dead);
        let asked = |anchor: &crate::overlap::Anchor| Asked { length: anchor.range.len(), ambiguous: anchor.ambiguous };
        Explained {
            expect: self.expect,
            candidates: candidates(slot, &cut, tried),
            cut,
            anchor: self.anchor.as_ref().map(asked),
            unlisted: self.log.unlisted,
            is_crowded: self.is_crowded,
            held: self.max_pending,
            failure: self.outcome().err(),
            seam,
            repairs: self.repairs().to_vec(),
        }
    }
}

/// The claims with the paths of the places where what they repeat begins.
fn candidates(slot: &Slot, cut: &Cut, tried: Vec<Tried>) -> Vec<Candidate> {
    let mut offsets: Vec<usize> = tried.iter().map(|tried| tried.from).filter(|&from| from < cut.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let paths = paths(slot, &offsets);
    let path = |from: usize| {
        let known = offsets.binary_search(&from).ok().and_then(|at| paths.get(at));
        known.unwrap_or(&cut.path).clone()
    };
    let candidate = |tried: Tried| {
        let Tried { alignment, weight, from, overlap, at, may_recur, owes, passed, fate } = tried;
        Candidate { alignment, weight, from, path: path(from), overlap, at, may_recur, owes, passed, fate }
    };
    tried.into_iter().map(candidate).collect()
}

/// The paths at these offsets of the delivered text, which rise.
fn paths(slot: &Slot, offsets: &[usize]) -> Vec<String> {
    let root = slot.document().root_start().unwrap_or_default();
    let mut read = Document::with_roots(usize::MAX, AllowedRoots::Any);
    let mut from = root;
    let path = |&offset: &usize| {
        let new = slot.text().get(from..offset).unwrap_or_default();
        from = offset.max(from);
        // It was legal when it was delivered.
        let _ = read.push(new);
        read.cut().path
    };
    offsets.iter().map(path).collect()
}
