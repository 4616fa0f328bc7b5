//! The keys of an open object, to find repeated ones.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use super::{LiveValue, ValueNode};
use crate::json::string;

/// The keys of one object: a table once the object is large. A small object has no table, and its
/// members are searched. A table holds nodes, no text.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys<S = RandomState>(Option<HashMap<u64, usize, S>>);

/// Empty tables of objects that have ended, for later objects: at most the number that was in use
/// together. A clone has none.
#[derive(Debug, Default)]
pub(super) struct Spares(Vec<HashMap<u64, usize>>);

impl Clone for Spares {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Keys {
    /// Returns whether the object, which has `count` members, now needs a table.
    pub(super) fn lacks_table(&self, count: usize) -> bool {
        self.0.is_none() && count >= SMALL
    }
}

impl Spares {
    pub(super) fn take(&mut self) -> HashMap<u64, usize> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the table of an object that has ended.
    pub(super) fn put(&mut self, keys: Keys) {
        // Clearing a table costs its capacity. A small object must not pay for a huge one before
        // it, again and again, so a larger table is dropped.
        if let Some(mut table) = keys.0.filter(|table| table.capacity() <= LARGE) {
            table.clear();
            self.0.push(table);
        }
    }
}

impl<S: BuildHasher> Keys<S> {
    /// Fills `table`, which is empty, with the keys of the object at `object` before the one at
    /// `node`, and uses it from now on.
    pub(super) fn fill(
        &mut self,
        mut table: HashMap<u64, usize, S>,
        value: &LiveValue,
        object: usize,
        node: usize,
    ) {
        for other in keys(value, object).take_while(|&other| other < node) {
            first(&mut table, value, other);
        }
        self.0 = Some(table);
    }

    /// Returns whether the object at `object` already has the key at `node`, which is the last node
    /// and has no value yet.
    pub(super) fn has(&mut self, value: &LiveValue, object: usize, node: usize) -> bool {
        match &mut self.0 {
            Some(table) => first(table, value, node).is_some(),
            None => {
                let key = exact(value, node);
                keys(value, object)
                    .take_while(|&other| other < node)
                    .any(|other| exact(value, other) == key)
            }
        }
    }
}

/// Returns the node of the first key in the table that equals the key at `node`. Inserts `node` if
/// there is no equal key. Keys that differ but have the same hash are stored under consecutive
/// hashes.
fn first<S: BuildHasher>(
    table: &mut HashMap<u64, usize, S>,
    value: &LiveValue,
    node: usize,
) -> Option<usize> {
    let mut hash = table.hasher().hash_one(exact(value, node));
    loop {
        match table.entry(hash) {
            Entry::Vacant(place) => {
                place.insert(node);
                return None;
            }
            Entry::Occupied(place) if same(value, *place.get(), node) => return Some(*place.get()),
            Entry::Occupied(_) => hash = hash.wrapping_add(1),
        }
    }
}

/// Returns the keys of an open object.
fn keys(value: &LiveValue, object: usize) -> impl Iterator<Item = usize> {
    let mut at = object + 1;
    std::iter::from_fn(move || {
        key_at(value, at)?;
        let node = at;
        at = value.after(at + 1);
        Some(node)
    })
}

/// Returns the visible key at a node. `None` if the node is not a key.
pub(super) fn key_at(value: &LiveValue, node: usize) -> Option<&str> {
    match *value.nodes.get(node)? {
        ValueNode::Key { start, end, .. } => Some(value.text(start, end)),
        _ => None,
    }
}

/// Returns the key at a node with lone halves of surrogate pairs. Only a key with such halves looks
/// different in a view.
fn exact(value: &LiveValue, node: usize) -> Cow<'_, [u8]> {
    match value.nodes.get(node) {
        Some(&ValueNode::Key {
            start,
            end,
            is_raw: true,
        }) => string::exact(value.text(start, end)),
        _ => {
            let key = key_at(value, node);
            debug_assert!(key.is_some(), "node {node} is a key");
            Cow::Borrowed(key.unwrap_or_default().as_bytes())
        }
    }
}

fn same(value: &LiveValue, a: usize, b: usize) -> bool {
    exact(value, a) == exact(value, b)
}

/// The number of members up to which a search costs less than a table.
const SMALL: usize = 16;

/// The largest capacity of a table that is kept.
const LARGE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, Hasher};

    use super::*;
    use crate::Document;

    /// A hasher with two hashes for all keys, so that nearly all keys collide.
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
    fn a_huge_table_is_not_kept() {
        let (mut document, mut value) = (Document::new(8), LiveValue::new());
        let object = |count: usize| {
            let members: Vec<_> = (0..count).map(|n| format!("\"k{n}\": 0")).collect();
            format!("{{{}}}", members.join(", "))
        };
        let kept = [
            ("[", 16),
            (", ", 17),
            (", ", 500),
            (", ", 100_000),
            (", ", 17),
        ]
        .map(|(before, count)| {
            document
                .push_with(&(before.to_owned() + &object(count)), &mut value)
                .unwrap();
            value
                .spares
                .0
                .iter()
                .map(HashMap::capacity)
                .collect::<Vec<_>>()
        });
        // The table of 17 members grew for 500 and for 100,000; then it was dropped.
        assert_eq!(kept.each_ref().map(Vec::len), [0, 1, 1, 0, 1]);
        assert!(
            kept.iter().flatten().all(|&capacity| capacity <= LARGE) && kept[2][0] >= 500,
            "{kept:?}"
        );
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let (mut document, mut value) = (Document::new(8), LiveValue::new());
        let members: Vec<_> = (0..40).map(|n| format!("\"k{n}\": [{n}]")).collect();
        document
            .push_with(&format!("{{{}", members.join(", ")), &mut value)
            .unwrap();
        let mut colliding = Keys::<BuildHasherDefault<Colliding>>::default();
        colliding.fill(HashMap::default(), &value, 0, value.nodes.len());
        let mut has = |key: &str| {
            let (start, node) = (value.text.len(), value.nodes.len());
            value.text.push_str(key);
            value.nodes.push(ValueNode::Key {
                start,
                end: value.text.len(),
                is_raw: false,
            });
            let has = colliding.has(&value, 0, node);
            value.nodes.push(ValueNode::Null);
            has
        };
        assert!((0..40).all(|n| has(&format!("k{n}"))));
        assert!(!has("k40") && has("k40") && !has("") && has("") && has("k7"));
    }
}
