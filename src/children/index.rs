//! A hash index over the positions of a stack: positions are added and removed at the end only.

/// Chains of positions with the same bucket, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The newest position of each chain. The length is a power of two, or 0.
    heads: Vec<u32>,
    entries: Vec<ChildEntry>,
}

#[derive(Clone, Copy, Debug)]
struct ChildEntry {
    hash: u32,
    /// The position before this one in its chain.
    before: u32,
}

impl Index {
    /// Adds the next position, with this hash. There are fewer than `u32::MAX` positions.
    pub(super) fn push(&mut self, hash: u32) {
        if self.entries.len() == self.heads.len() {
            let size = (2 * self.heads.len()).max(SMALLEST);
            self.heads.clear();
            self.heads.resize(size, NONE);
            let mut entries = std::mem::take(&mut self.entries);
            for (at, entry) in entries.iter_mut().enumerate() {
                entry.before = self.chain(entry.hash, at as u32);
            }
            self.entries = entries;
        }
        let before = self.chain(hash, self.entries.len() as u32);
        self.entries.push(ChildEntry { hash, before });
    }

    /// Removes all positions from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        while self.entries.len() > length {
            let Some(ChildEntry { hash, before }) = self.entries.pop() else {
                return;
            };
            // The newest position of all is the newest of its chain.
            self.chain(hash, before);
        }
    }

    /// Returns the positions with this hash, newest first.
    pub(super) fn positions(&self, hash: u32) -> impl Iterator<Item = usize> {
        let head = self.heads.get(self.bucket(hash)).copied().unwrap_or(NONE);
        let entry = |at: u32| self.entries.get(at as usize).map(|&entry| (at, entry));
        let chain = std::iter::successors(entry(head), move |(_, newer)| entry(newer.before));
        chain
            .filter(move |(_, entry)| entry.hash == hash)
            .map(|(at, _)| at as usize)
    }

    /// Makes `at` the head of its chain, and returns the head before.
    fn chain(&mut self, hash: u32, at: u32) -> u32 {
        let bucket = self.bucket(hash);
        debug_assert!(
            bucket < self.heads.len(),
            "the table has chains once it has positions"
        );
        self.heads
            .get_mut(bucket)
            .map_or(NONE, |head| std::mem::replace(head, at))
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & self.heads.len().wrapping_sub(1)
    }
}

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// The number of chains in the first table.
const SMALLEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_search() {
        let (mut index, mut plain) = (Index::default(), Vec::new());
        assert_eq!(index.positions(0).count(), 0);
        for n in 0..3000u32 {
            let hash = n.wrapping_mul(2_654_435_769) >> 20 & 0xff7;
            index.push(hash);
            plain.push(hash);
            if n % 97 == 0 {
                let length = plain.len() - (n as usize / 97) % plain.len();
                plain.truncate(length);
                index.truncate(length);
            }
            if n % 31 == 0 {
                for hash in [hash, 0, 1, n] {
                    let expected = (0..plain.len()).rev().filter(|&at| plain[at] == hash);
                    assert!(index.positions(hash).eq(expected), "{n} {hash}");
                }
            }
        }
        assert!(plain.len() > 1000);
        index.truncate(0);
        assert!(index.heads.iter().all(|&head| head == NONE));
    }
}
