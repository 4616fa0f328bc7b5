//! Two answers that each fit in two places, and agree in one of them: that is where they were meant to stand. A wrong
//! place gives each of them a text of its own, if they repeat different amounts of what was delivered.

use std::collections::HashSet;

use super::cursor::FEW;
use super::flow::{Flow, Written};
use super::slot::Slot;
use super::trial::{Claim, Trial, Weight};
use crate::json::Kind;

/// A fragment that fitted in more than one place, and the places. What it would add is written out when it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    /// Bytes of delivered text before it: behind more or less it says nothing.
    offset: usize,
    fragment: String,
    places: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    claim: Claim,
    passed: bool,
}

/// What a fragment would add, from one place on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    /// Without white space between tokens: an answer in another layout is no other answer.
    text: String,
    overlap: usize,
    /// It may be chosen.
    passed: bool,
}

impl Earlier {
    pub(super) fn of(slot: &Slot, fragment: &str, trials: &[Trial]) -> Self {
        let place = |trial: &Trial| Place { claim: trial.claim.clone(), passed: trial.passed };
        Self { offset: slot.text().len(), fragment: fragment.to_owned(), places: trials.iter().map(place).collect() }
    }

    /// The trial of another fragment that adds what this one does, if there is just one such reading of the two. Both
    /// must have passed. One answer given twice is no second answer, whether it was cut earlier or not.
    pub(super) fn agrees(&self, slot: &Slot, fragment: &str, trials: &[Trial], cap: usize) -> Option<usize> {
        let is_same = is_beginning(self.fragment.trim(), fragment.trim());
        if self.offset != slot.text().len() || is_same || has_equal_elements(slot) {
            return None;
        }
        let readings: Vec<Reading> =
            self.places.iter().map(|place| reading(slot, &place.claim, place.passed, &self.fragment, cap)).collect();
        let mut agreed: Option<(Reading, Reading, usize)> = None;
        for (n, trial) in trials.iter().enumerate() {
            let own = reading(slot, &trial.claim, trial.passed, fragment, cap);
            for other in readings.iter().filter(|other| is_beginning(&other.text, &own.text)) {
                match &agreed {
                    // Two places that give one text are one.
                    Some((first, second, _)) if (first, second) == (other, &own) => {}
                    Some(_) => return None,
                    None => agreed = Some((other.clone(), own.clone(), n)),
                }
            }
        }
        // Where both repeat the same, they would agree in a wrong place, too.
        let white = slot.text().len() - slot.text().trim_end().len();
        let differs = |(other, own, _): &(Reading, Reading, usize)| other.overlap.abs_diff(own.overlap) > white;
        agreed.filter(|agreed| agreed.0.passed && agreed.1.passed).filter(differs).map(|(.., n)| n)
    }
}

/// An open array has the same element twice: how many more of it come is nothing that two answers can agree in by their
/// texts.
fn has_equal_elements(slot: &Slot) -> bool {
    let arrays = slot.frames().iter().enumerate().filter(|(_, frame)| frame.kind == Kind::Array);
    arrays.map(|(depth, _)| slot.child_index().children(depth)).any(|children| {
        let digests: HashSet<u64> = children.iter().map(|child| child.digest).collect();
        digests.len() < children.len()
    })
}

/// One of the two is a beginning of the other. What says nothing is a beginning of all.
fn is_beginning(a: &str, b: &str) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn reading(slot: &Slot, claim: &Claim, passed: bool, fragment: &str, cap: usize) -> Reading {
    let mut machine = slot.document().machine().clone();
    let mut text = String::new();
    let mut target = Written { machine: &mut machine, slot, text: &mut text };
    let mut flow = Flow::new(slot, cap);
    let new = fragment.get(claim.at..).unwrap_or_default();
    let flowed = flow.begin(&mut target, &claim.rest, &claim.late).and_then(|()| flow.feed(&mut target, new));
    let flowed = flowed.and_then(|()| flow.finish(&mut target));
    // The trial took it, but for what may wait at its end.
    // Brackets that end what is open are in every answer.
    let says_something = text.chars().filter(|c| c.is_alphanumeric()).count() >= FEW;
    let may_win = claim.weight >= Weight::Plausible && !claim.may_recur && says_something;
    Reading { text, overlap: claim.overlap, passed: passed && may_win && flowed.is_ok() }
}
