//! Which candidate wins: the one whose document is all but certain.
//!
//! A candidate's score is the logarithm of its share. The shares of candidates that give the same
//! document add up. The document with the largest share wins once everything else together has a
//! share of at most `max_risk`; until then the fragment waits.

use super::flow::TextSum;

/// One candidate that is still possible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    /// The score, in bits.
    pub(super) score: f32,
    /// The score of the reading in which the element that was cut is lost.
    pub(super) lost: f32,
    /// The document so far.
    pub(super) document: TextSum,
    /// The new text has shown that it continues the document.
    pub(super) is_verified: bool,
    /// The candidate may win: it is verified, or the fragment has ended. Otherwise it only lowers
    /// the probability of the others.
    pub(super) may_win: bool,
    /// The fragment has ended, and its repeated text proves the position: it wins if its
    /// probability is above one half.
    pub(super) is_proven: bool,
    /// The whole may be a separate value.
    pub(super) is_alone: bool,
    /// The candidate was requested, and needs only one legal byte.
    pub(super) is_requested: bool,
    /// If candidates give the same document, the one with the lowest rank is named.
    pub(super) rank: (u8, usize),
}

/// The scores of alternative readings: each would be another document, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlternativeReadings {
    /// The fragment's text repeats delivered text, and may turn out to begin there.
    pub(super) repeating: f32,
    /// The fragment begins again and differs in a value.
    pub(super) differing: f32,
    /// The fragment is not a continuation.
    pub(super) other: f32,
    /// The fragment is not a continuation, although the grammar has verified a candidate.
    pub(super) other_verified: f32,
    /// Text before the fragment is missing, and the fragment's beginning equals delivered text by
    /// chance.
    pub(super) after_gap: f32,
}

/// The result of comparing the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decision {
    /// The candidate with this number wins, with this probability.
    Join(usize, f64),
    /// More of the fragment may decide.
    Wait,
}

/// The risk for a candidate whose repeated text proves its position: it only has to be likelier
/// than all other readings together.
// At the end no more text comes, so to wait gains nothing; `likelier than everything else` is the
// weakest claim that is not a guess. docs/internals/seam.md states it.
pub(super) const HALF: f64 = 0.5;

/// Decides between the candidates.
pub(super) fn decide(scored: &[Scored], rivals: AlternativeReadings, max_risk: f64) -> Decision {
    let numbered = || scored.iter().enumerate();
    if let Some((winner, _)) =
        numbered().find(|(_, one)| one.is_requested && one.is_verified && one.may_win)
    {
        return Decision::Join(winner, 1.0);
    }
    let able = numbered().filter(|(_, one)| one.may_win);
    let Some((_, best)) = able.clone().max_by(|a, b| a.1.score.total_cmp(&b.1.score)) else {
        return Decision::Wait;
    };
    let posterior = posterior(scored, best, rivals);
    let is_proven = able
        .clone()
        .any(|(_, one)| one.document == best.document && one.is_proven);
    let most = if is_proven {
        max_risk.max(HALF)
    } else {
        max_risk
    };
    if max_risk <= 0.0 || 1.0 - posterior > most {
        return Decision::Wait;
    }
    let same = able.filter(|(_, one)| one.document == best.document);
    let simplest = same.min_by_key(|(_, one)| one.rank);
    simplest.map_or(Decision::Wait, |(winner, _)| {
        Decision::Join(winner, posterior)
    })
}

/// Returns the share of the document that this candidate gives.
pub(super) fn posterior(scored: &[Scored], of: &Scored, rivals: AlternativeReadings) -> f64 {
    let other = if of.is_verified && !of.is_alone {
        rivals.other_verified
    } else {
        rivals.other
    };
    let rest = [other, rivals.repeating, rivals.differing, rivals.after_gap];
    // Scores are compared with the best one: the shares themselves may be too large for a number.
    let scores = scored
        .iter()
        .flat_map(|one| [one.score, one.lost])
        .chain(rest);
    let best = scores.fold(f32::NEG_INFINITY, f32::max);
    let share = |bits: f32| f64::from(bits - best).exp2();
    let all: f64 = scored.iter().map(|one| share(one.score)).sum();
    let own: f64 = scored
        .iter()
        .filter(|one| one.document == of.document)
        .map(|one| share(one.score))
        .sum();
    let lost = scored.iter().map(|one| share(one.lost)).fold(0.0, f64::max);
    own / (all + lost + rest.into_iter().map(share).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f32 = f32::NEG_INFINITY;
    const RIVALS: AlternativeReadings = AlternativeReadings {
        repeating: NONE,
        differing: NONE,
        other: -4.0,
        other_verified: -20.0,
        after_gap: NONE,
    };

    fn one(score: f32, text: &str) -> Scored {
        let document = TextSum::of(text);
        let (lost, rank) = (NONE, (0, 0));
        Scored {
            score,
            lost,
            document,
            is_verified: true,
            may_win: true,
            is_proven: false,
            is_alone: false,
            is_requested: false,
            rank,
        }
    }

    fn wins(scored: &[Scored], rivals: AlternativeReadings, max_risk: f64) -> Option<usize> {
        match decide(scored, rivals, max_risk) {
            Decision::Join(winner, _) => Some(winner),
            Decision::Wait => None,
        }
    }

    #[test]
    fn ten_bits_decide_and_less_do_not() {
        assert_eq!(
            wins(&[one(0.0, "a"), one(-11.0, "b")], RIVALS, 0.001),
            Some(0)
        );
        assert_eq!(wins(&[one(0.0, "a"), one(-9.0, "b")], RIVALS, 0.001), None);
        assert_eq!(
            wins(&[one(0.0, "a"), one(-9.0, "b")], RIVALS, 0.01),
            Some(0)
        );
        // One document is one candidate.
        assert_eq!(
            wins(&[one(0.0, "a"), one(-1.0, "a")], RIVALS, 0.001),
            Some(0)
        );
    }

    #[test]
    fn anything_else_counts() {
        let lone = [one(0.0, "a")];
        assert_eq!(wins(&lone, RIVALS, 0.001), Some(0));
        assert_eq!(
            wins(
                &lone,
                AlternativeReadings {
                    repeating: -9.0,
                    ..RIVALS
                },
                0.001
            ),
            None
        );
        assert_eq!(
            wins(
                &lone,
                AlternativeReadings {
                    differing: -9.0,
                    ..RIVALS
                },
                0.001
            ),
            None
        );
        assert_eq!(
            wins(
                &[Scored {
                    lost: -9.0,
                    ..lone[0]
                }],
                RIVALS,
                0.001
            ),
            None
        );
        assert_eq!(
            wins(
                &[Scored {
                    may_win: false,
                    ..lone[0]
                }],
                RIVALS,
                0.001
            ),
            None
        );
        assert_eq!(
            wins(
                &lone,
                AlternativeReadings {
                    after_gap: -9.0,
                    ..RIVALS
                },
                0.001
            ),
            None
        );
    }

    #[test]
    fn an_unverified_candidate_has_to_outweigh_a_refusal() {
        let unverified = |score| Scored {
            is_verified: false,
            ..one(score, "a")
        };
        assert_eq!(wins(&[unverified(0.0)], RIVALS, 0.001), None);
        assert_eq!(wins(&[unverified(8.0)], RIVALS, 0.001), Some(0));
    }

    #[test]
    fn a_proven_candidate_wins_if_it_is_the_likeliest() {
        let proven = Scored {
            is_proven: true,
            ..one(0.0, "a")
        };
        assert_eq!(wins(&[proven, one(-1.0, "b")], RIVALS, 0.001), Some(0));
        assert_eq!(wins(&[proven, one(0.5, "b")], RIVALS, 0.001), None);
        assert_eq!(wins(&[proven, one(-1.0, "b")], RIVALS, 0.0), None);
    }

    #[test]
    fn what_was_asked_for_wins_at_no_risk() {
        let requested = Scored {
            is_requested: true,
            score: -30.0,
            ..one(0.0, "b")
        };
        assert_eq!(wins(&[one(0.0, "a"), requested], RIVALS, 0.0), Some(1));
        assert_eq!(wins(&[one(50.0, "a")], RIVALS, 0.0), None);
    }

    #[test]
    fn scores_of_any_size_are_compared() {
        assert_eq!(
            wins(&[one(5000.0, "a"), one(-5000.0, "b")], RIVALS, 0.001),
            Some(0)
        );
        assert_eq!(wins(&[one(-5000.0, "a")], RIVALS, 0.001), None);
    }
}
