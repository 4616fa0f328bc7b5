//! Which claim wins: *expectation decides, legality vetoes, evidence convinces*.
//!
//! A claim that is illegal is not here any more: its trial has died. Of those that live, the one that was asked for wins
//! with its first legal byte. Any other must have passed probation, and then
//!
//! - what convinces wins over what is merely legal, unless the fragment may as well go on at the cut;
//! - what is merely legal wins if nothing else is left: nothing that lives, and nothing that may still turn out to begin
//!   in the delivered text;
//! - two that give the same document are one.

use super::seam::{Alignment, SpliceError};
use super::trial::{Trial, Weight};

/// What decides, beside the trials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// It may still turn out to begin in the delivered text.
    pub(super) may_repeat: bool,
    /// All of it is a beginning of what was asked for, the anchor.
    pub(super) may_be_asked: bool,
    /// Something that may begin again is being compared with what was delivered.
    pub(super) is_following: bool,
    /// And some of that was the same.
    pub(super) is_repeating: bool,
    /// Nothing more comes.
    pub(super) has_ended: bool,
    /// There are more claims than trials.
    pub(super) is_crowded: bool,
}

/// The trial that has won, if one has.
pub(super) fn winner(trials: &[Trial], scene: Scene) -> Option<usize> {
    let candidates = trials.iter().enumerate().filter(|(_, trial)| trial.passed);
    let (best, trial) = candidates.max_by_key(|(_, trial)| (trial.claim.weight, trial.is_done()))?;
    let others = || trials.iter().enumerate().filter(|&(n, _)| n != best).map(|(_, other)| other);
    let differs = |other: &&Trial| !other.is_same(trial);
    let rivals = || others().filter(differs).filter(|other| other.claim.weight > Weight::Fallback);
    let wins = match trial.claim.weight {
        Weight::Asked => true,
        _ if scene.is_repeating || scene.is_crowded => false,
        _ if scene.may_be_asked && !scene.has_ended => false,
        // A longer repeat may be alive.
        Weight::Convincing if scene.may_repeat && trial.claim.alignment == Alignment::Overlap => false,
        Weight::Convincing => !rivals().any(|other| {
            // What may as well come once more leaves every other reading its right.
            trial.claim.may_recur || other.claim.weight >= Weight::Convincing
        }),
        _ if scene.is_following && !scene.has_ended => false,
        Weight::Plausible => {
            let may_repeat = scene.may_repeat && (!scene.has_ended || !trial.is_done());
            !may_repeat && rivals().next().is_none()
        }
        Weight::Fallback => !scene.may_repeat && !others().any(|other| differs(&other)),
        Weight::Doubtful => false,
    };
    // Of one document's readings the simplest, which leaves the text as it came.
    let is_one = |other: &Trial| other.is_same(trial) && other.passed && trial.claim.weight < Weight::Asked;
    let same = || trials.iter().enumerate().filter(|(_, other)| is_one(other));
    let simplest = || same().min_by_key(|(_, other)| (other.claim.alignment.rank(), other.claim.at));
    wins.then(|| simplest().map_or(best, |(n, _)| n))
}

/// Why nothing has won at the end of the fragment.
pub(super) fn failure(trials: &[Trial], contradicted: Option<usize>) -> SpliceError {
    match (trials, contradicted) {
        ([], Some(offset)) => SpliceError::Differs(offset),
        ([], None) => SpliceError::NoAlignment,
        ([first, others @ ..], _) if others.iter().any(|other| !other.is_same(first)) => {
            if trials.iter().any(|trial| trial.passed) { SpliceError::Ambiguous } else { SpliceError::Undecided }
        }
        _ => SpliceError::Undecided,
    }
}
