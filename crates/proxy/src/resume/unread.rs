//! The events of a kept answer that readers may lack.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::store::{Entry, Position, held};

/// The last events of an answer, as many as the store is sure to keep. The pump waits until the
/// readers have all earlier events: a connected client loses nothing because it is slower than the
/// upstream.
pub(super) struct CatchUpBudget {
    /// The last event of each part, and the part's cost in the store.
    parts: VecDeque<(Position, usize)>,
    cost: usize,
    most: usize,
    /// The last event that is no longer among these.
    pub(super) gone: Position,
}

impl CatchUpBudget {
    /// `limit`: the highest cost of an answer in the store.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            parts: VecDeque::new(),
            cost: 0,
            most: limit - limit / 8,
            gone: Position::START,
        }
    }

    /// Divides events into parts that are added one at a time.
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

    /// Adds events that follow the position `before`. Returns whether the store has room for them.
    pub(super) fn add(&mut self, entries: &[Entry], before: Position) -> bool {
        let Some(last) = entries.last() else {
            return true;
        };
        let new: usize = entries.iter().map(|entry| held(entry.bytes.len())).sum();
        match self.parts.back_mut() {
            // Merges events into few parts, so that the list stays short.
            Some((at, cost)) if *cost + new <= self.most / PARTS => {
                (*at, *cost) = (last.at, *cost + new);
            }
            _ => self.parts.push_back((last.at, new)),
        }
        self.cost += new;
        while let Some((at, cost)) = self
            .parts
            .front()
            .copied()
            .filter(|(at, _)| self.cost > self.most && *at <= before)
        {
            self.parts.pop_front();
            (self.cost, self.gone) = (self.cost - cost, at);
        }
        self.cost <= self.most
    }
}

/// The number of parts that the unread events are divided into.
const PARTS: usize = 16;
