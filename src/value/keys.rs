//! The keys of one open object, to tell whether one comes again.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use super::{LiveValue, Node};

/// Nothing for a small object, whose members are looked at one after the other; a table for a larger one, as long as
/// that is open. Keeps no text: a table has the nodes of the keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys<S = RandomState>(Option<HashMap<u64, usize, S>>);

impl<S: BuildHasher + Default> Keys<S> {
    /// Whether the object at `object`, which has `count` members, has a key that says the same as the one which is
    /// about to become the next node, and whose text begins at `start` and is the last.
    pub(super) fn has(&mut self, value: &LiveValue, object: usize, start: usize, count: usize) -> bool {
        let key = value.text(start, value.text.len());
        if self.0.is_none() {
            let mut keys = keys(value, object);
            if count < SMALL {
                return keys.any(|(_, other)| other == key);
            }
            let mut table = HashMap::default();
            for (node, other) in keys {
                first(&mut table, value, other, node);
            }
            self.0 = Some(table);
        }
        self.0.as_mut().is_some_and(|table| first(table, value, key, value.nodes.len()).is_some())
    }
}

/// The node of the first key in the table that says the same; where there is none, `node` becomes it. Keys that differ
/// and have one hash stand at hashes that follow each other.
fn first<S: BuildHasher>(
    table: &mut HashMap<u64, usize, S>,
    value: &LiveValue,
    key: &str,
    node: usize,
) -> Option<usize> {
    let mut hash = table.hasher().hash_one(key);
    loop {
        match table.entry(hash) {
            Entry::Vacant(place) => {
                place.insert(node);
                return None;
            }
            Entry::Occupied(place) if key_at(value, *place.get()) == Some(key) => return Some(*place.get()),
            Entry::Occupied(_) => hash = hash.wrapping_add(1),
        }
    }
}

/// The keys of an open object as (node, text).
fn keys(value: &LiveValue, object: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut at = object + 1;
    std::iter::from_fn(move || {
        let key = key_at(value, at)?;
        let node = at;
        at = value.behind(at + 1);
        Some((node, key))
    })
}

/// What the key at a node says; `None` where no key is.
pub(super) fn key_at(value: &LiveValue, node: usize) -> Option<&str> {
    match *value.nodes.get(node)? {
        Node::Key { start, end } => Some(value.text(start, end)),
        _ => None,
    }
}

/// Members up to which looking at each costs less than a table.
const SMALL: usize = 16;

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, Hasher};

    use super::*;
    use crate::Document;

    /// Two hashes for all keys: every one of a kind but the first collides.
    #[derive(Default)]
    struct Colliding(u64);

    impl Hasher for Colliding {
        fn finish(&self) -> u64 {
            u64::MAX - self.0 % 2
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0 += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let (mut document, mut value) = (Document::new(8), LiveValue::new());
        let members: Vec<_> = (0..40).map(|n| format!("\"k{n}\": [{n}]")).collect();
        document.push_with(&format!("{{{}", members.join(", ")), &mut value).unwrap();
        let mut colliding = Keys::<BuildHasherDefault<Colliding>>::default();
        let mut has = |key: &str| {
            let start = value.text.len();
            value.text.push_str(key);
            let has = colliding.has(&value, 0, start, 40);
            value.nodes.push(Node::Key { start, end: value.text.len() });
            value.nodes.push(Node::Null);
            has
        };
        assert!((0..40).all(|n| has(&format!("k{n}"))));
        assert!(!has("k40") && has("k40") && !has("") && has("") && has("k7"));
    }
}
