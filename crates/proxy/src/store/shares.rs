//! Divides the room for kept answers among callers.
//!
//! There are no fixed shares: one caller may use all of the room while no other caller needs any.
//! When the room is full, the caller with the most room gives way, and the new answer counts for
//! its own caller. So a caller never loses an answer to a caller with more room.

use std::cmp::Reverse;
use std::collections::HashMap;

use tokio::time::Instant;

use super::{AnswerId, OF_ALL, OF_COUNT, Owner, StoreError};
use restitch::KeepLimits;

/// An amount of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) answers: usize,
    pub(super) bytes: usize,
}

impl Room {
    /// Returns the room of one answer with these bytes.
    pub(super) fn of_answer(bytes: usize) -> Self {
        Self { answers: 1, bytes }
    }

    /// Returns the room of further bytes of an answer.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        Self { answers: 0, bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            answers: self.answers + other.answers,
            bytes: self.bytes + other.bytes,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            answers: self.answers.saturating_sub(other.answers),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the count or the bytes, whichever the limit is about.
    fn of(self, limit: &str) -> usize {
        if limit == OF_COUNT {
            self.answers
        } else {
            self.bytes
        }
    }
}

/// The room of each caller, and of all callers together.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    of: HashMap<Owner, Room>,
    all: Room,
}

/// An answer that can give way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: AnswerId,
    pub(super) owner: Owner,
    pub(super) bytes: usize,
    /// When it expires.
    pub(super) until: Instant,
    /// A running answer goes only for another caller's answer, and after all ended ones.
    pub(super) is_running: bool,
}

impl Shares {
    #[cfg(test)]
    pub(super) fn all(&self) -> Room {
        self.all
    }

    pub(super) fn add(&mut self, owner: Owner, room: Room) {
        let own = self.of.entry(owner).or_default();
        *own = own.plus(room);
        self.all = self.all.plus(room);
    }

    pub(super) fn remove(&mut self, owner: Owner, room: Room) {
        let Some(own) = self.of.get_mut(&owner) else {
            return;
        };
        *own = own.minus(room);
        if *own == Room::default() {
            self.of.remove(&owner);
        }
        self.all = self.all.minus(room);
    }

    /// Returns the limit that leaves no room for more.
    fn exceeded(&self, more: Room, limits: &KeepLimits) -> Option<&'static str> {
        let all = self.all.plus(more);
        let is_over = |limit: &'static str, most: usize| {
            (more.of(limit) > 0 && all.of(limit) > most).then_some(limit)
        };
        is_over(OF_COUNT, limits.max_kept_answers)
            .or_else(|| is_over(OF_ALL, limits.max_kept_bytes))
    }

    /// Returns the answers that give way to a caller's new room, each with the limit that requires
    /// it: those of the caller with the most room, the next to expire first. Fails without a change
    /// if not enough answers can give way.
    pub(super) fn make_room(
        &self,
        owner: Owner,
        more: Room,
        limits: &KeepLimits,
        candidates: impl FnOnce() -> Vec<Candidate>,
    ) -> Result<Vec<(AnswerId, &'static str)>, StoreError> {
        let mut gone = Vec::new();
        if self.exceeded(more, limits).is_none() {
            return Ok(gone);
        }
        let mut candidates = candidates();
        // The last answer of each caller gives way first: an ended one, and the one that expires
        // next.
        candidates.sort_unstable_by_key(|answer| Reverse((answer.is_running, answer.until)));
        let mut by_owner: HashMap<Owner, Vec<Candidate>> = HashMap::new();
        for answer in candidates
            .into_iter()
            .filter(|answer| !answer.is_running || answer.owner != owner)
        {
            by_owner.entry(answer.owner).or_default().push(answer);
        }
        let mut left = self.clone();
        while let Some(limit) = left.exceeded(more, limits) {
            let holds = |other: Owner| left.of.get(&other).copied().unwrap_or_default().of(limit);
            let own = holds(owner) + more.of(limit);
            let may_give = by_owner
                .iter()
                .filter(|(_, answers)| !answers.is_empty())
                .map(|(other, _)| *other);
            let share = |other: Owner| {
                if other == owner {
                    (own, true)
                } else {
                    (holds(other), false)
                }
            };
            let most = may_give
                .filter(|other| *other == owner || holds(*other) > own)
                .max_by_key(|other| share(*other));
            let Some(answer) = most.and_then(|most| by_owner.get_mut(&most)?.pop()) else {
                return Err(StoreError::Full(limit));
            };
            left.remove(answer.owner, Room::of_answer(answer.bytes));
            gone.push((answer.id, limit));
        }
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Callers with answers of these sizes, in the order in which they expire. Those of the last
    /// number are running.
    fn store(held: &[(u64, &[usize], bool)]) -> (Shares, Vec<Candidate>) {
        let (mut shares, mut candidates, start) = (Shares::default(), Vec::new(), Instant::now());
        for &(owner, sizes, is_running) in held {
            for &bytes in sizes {
                let number = candidates.len() as u8;
                let (id, owner) = (AnswerId([number; 16]), Owner(owner));
                let until = start + Duration::from_secs(number.into());
                shares.add(owner, Room::of_answer(bytes));
                candidates.push(Candidate {
                    id,
                    owner,
                    bytes,
                    until,
                    is_running,
                });
            }
        }
        (shares, candidates)
    }

    fn gone(
        held: &[(u64, &[usize], bool)],
        owner: u64,
        more: Room,
        most: Room,
    ) -> Result<Vec<u8>, StoreError> {
        let (shares, candidates) = store(held);
        let limits = KeepLimits {
            max_kept_answers: most.answers,
            max_kept_bytes: most.bytes,
            ..KeepLimits::default()
        };
        let gone = shares.make_room(Owner(owner), more, &limits, || candidates)?;
        Ok(gone.into_iter().map(|(id, _)| id.0[0]).collect())
    }

    #[test]
    fn who_holds_most_gives_way() {
        let (one, most) = (
            Room::of_answer(1),
            Room {
                answers: 6,
                bytes: 1000,
            },
        );
        let held: [(u64, &[usize], bool); 2] = [(1, &[1, 1, 1, 1], false), (2, &[1, 1], false)];
        assert_eq!(
            gone(&held, 3, one, most),
            Ok(vec![0]),
            "a third caller gets room from the one who holds most"
        );
        assert_eq!(gone(&held, 2, one, most), Ok(vec![0]));
        assert_eq!(gone(&held, 1, one, most), Ok(vec![0]), "his own oldest one");
        let equal: [(u64, &[usize], bool); 2] = [(1, &[1, 1, 1], false), (2, &[1, 1, 1], false)];
        assert_eq!(gone(&equal, 1, one, most), Ok(vec![0]), "not another's");
        assert_eq!(gone(&equal, 2, one, most), Ok(vec![3]));
        assert_eq!(
            gone(
                &held,
                1,
                one,
                Room {
                    answers: 7,
                    bytes: 1000
                }
            ),
            Ok(vec![])
        );
    }

    #[test]
    fn bytes_are_shared_like_answers() {
        let most = Room {
            answers: 100,
            bytes: 100,
        };
        let held: [(u64, &[usize], bool); 2] = [(1, &[40, 30, 10], false), (2, &[5, 5, 5], false)];
        assert_eq!(
            gone(
                &held,
                2,
                Room {
                    answers: 0,
                    bytes: 20
                },
                most
            ),
            Ok(vec![0])
        );
        assert_eq!(
            gone(
                &held,
                2,
                Room {
                    answers: 0,
                    bytes: 60
                },
                most
            ),
            Ok(vec![0, 3, 4, 5]),
            "then he holds most himself"
        );
        assert_eq!(
            gone(
                &held,
                2,
                Room {
                    answers: 0,
                    bytes: 101
                },
                most
            ),
            Err(StoreError::Full(OF_ALL))
        );
    }

    #[test]
    fn running_answers_go_for_other_callers_alone_and_last() {
        let (one, most) = (
            Room::of_answer(1),
            Room {
                answers: 4,
                bytes: 100,
            },
        );
        let held: [(u64, &[usize], bool); 2] = [(1, &[1, 1, 1], true), (1, &[1], false)];
        assert_eq!(gone(&held, 2, one, most), Ok(vec![3]));
        let running: [(u64, &[usize], bool); 1] = [(1, &[1, 1, 1, 1], true)];
        assert_eq!(gone(&running, 2, one, most), Ok(vec![0]));
        assert_eq!(
            gone(&running, 1, one, most),
            Err(StoreError::Full(OF_COUNT))
        );
        let few: [(u64, &[usize], bool); 2] = [(1, &[1, 1], true), (2, &[1, 1], true)];
        assert_eq!(
            gone(&few, 2, one, most),
            Err(StoreError::Full(OF_COUNT)),
            "who holds as much gives nothing"
        );
    }
}
