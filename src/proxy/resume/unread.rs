//! The events that readers of a kept answer may lack.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::store::{Entry, Position, held};

/// The last events of an answer, as many as the store surely keeps. Readers have to have those before them: a client that is
/// connected loses nothing because it is slower than the upstream.
pub(super) struct Unread {
    /// The last event of each part, and what the part costs.
    parts: VecDeque<(Position, usize)>,
    cost: usize,
    most: usize,
    /// The last event that is no longer among them.
    pub(super) gone: Position,
}

impl Unread {
    /// `limit`: what an answer may cost in the store.
    pub(super) fn new(limit: usize) -> Self {
        Self { parts: VecDeque::new(), cost: 0, most: limit - limit / 8, gone: Position::START }
    }

    /// Divides events into those that are added at once.
    pub(super) fn parts_of(&self, events: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        let mut parts: Vec<Vec<Bytes>> = Vec::new();
        let mut of_part = 0;
        for event in events {
            let cost = held(event.len());
            match parts.last_mut() {
                Some(part) if of_part + cost <= self.most / PARTS => {
                    part.push(event);
                    of_part += cost;
                }
                _ => {
                    parts.push(vec![event]);
                    of_part = cost;
                }
            }
        }
        parts
    }

    /// Adds events, which come after `before`. Returns whether the store has room for them.
    pub(super) fn add(&mut self, entries: &[Entry], before: Position) -> bool {
        let Some(last) = entries.last() else { return true };
        let new: usize = entries.iter().map(|entry| held(entry.bytes.len())).sum();
        match self.parts.back_mut() {
            // A part is for many events, so that there are few.
            Some((at, cost)) if *cost + new <= self.most / PARTS => (*at, *cost) = (last.at, *cost + new),
            _ => self.parts.push_back((last.at, new)),
        }
        self.cost += new;
        while let Some((at, cost)) =
            self.parts.front().copied().filter(|(at, _)| self.cost > self.most && *at <= before)
        {
            self.parts.pop_front();
            (self.cost, self.gone) = (self.cost - cost, at);
        }
        self.cost <= self.most
    }
}

/// How many parts the unread events have.
const PARTS: usize = 16;
