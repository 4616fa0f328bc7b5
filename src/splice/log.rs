//! What became of claims: a short memory of trials that are over, for those who ask why.

use super::explain::{Death, Fate};
use super::flow::FlowError;
use super::seam::{Alignment, Repair};
use super::trial::{Trial, Weight};

/// Claims whose trial is over. It holds no text, and allocates nothing before the first one dies.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) won: Option<Tried>,
    pub(super) others: Vec<Tried>,
    /// Trials that ended behind the last one that is remembered.
    pub(super) unlisted: usize,
    /// Those of a flow that has failed.
    pub(super) repairs: Vec<Repair>,
}

/// A claim, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    pub(super) alignment: Alignment,
    pub(super) weight: Weight,
    pub(super) at: usize,
    pub(super) from: usize,
    pub(super) overlap: usize,
    pub(super) may_recur: bool,
    pub(super) owes: usize,
    pub(super) passed: bool,
    pub(super) fate: Fate,
}

impl Tried {
    pub(super) fn of(trial: &Trial, fate: Fate) -> Self {
        let claim = &trial.claim;
        Self {
            alignment: claim.alignment,
            weight: claim.weight,
            at: claim.at,
            from: claim.from,
            overlap: claim.overlap,
            may_recur: claim.may_recur,
            owes: claim.owes.map_or(0, |owed| owed.members),
            passed: trial.passed,
            fate,
        }
    }
}

impl Log {
    /// The character that comes next in this trial has ended it.
    pub(super) fn stopped(&mut self, trial: &Trial, stop: &FlowError) {
        let why = match stop {
            FlowError::Syntax(error) => Death::Grammar(error.kind),
            FlowError::Overwrites => Death::Overwrites,
            FlowError::Owes => Death::LeavesOut,
            FlowError::GoesOn => Death::GoesOn,
            FlowError::Pending => Death::Held,
        };
        self.note(trial, Fate::Died { at: trial.next, why });
    }

    pub(super) fn note(&mut self, trial: &Trial, fate: Fate) {
        if self.others.len() < ENTRIES {
            self.others.push(Tried::of(trial, fate));
        } else {
            self.unlisted += 1;
        }
    }
}

/// Trials that are remembered: more of them are the same few over and over.
const ENTRIES: usize = 64;
