//! Pseudo-random numbers that repeat with their seed.

/// A seeded generator (splitmix64): the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeds a generator with an input, so that the input alone decides.
    pub fn of(input: &[u8]) -> Self {
        Self(input.iter().fold(input.len() as u64, |seed, &byte| {
            seed.rotate_left(8) ^ u64::from(byte)
        }))
    }

    /// Returns the next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless generator is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }

    /// Returns one of `items`, which are not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns all items once, from a random one on; the first follows the last.
    pub(super) fn some_of<T: Copy>(&mut self, items: &[T]) -> impl Iterator<Item = T> {
        let first = self.below(items.len());
        let all = items.iter().copied().cycle().skip(first);
        all.take(items.len())
    }

    /// Puts items into another order than before, if there are at least two.
    pub(super) fn shuffle(&mut self, items: &mut [usize]) {
        let before = items.to_vec();
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
        if items == before && items.len() > 1 {
            items.rotate_left(1);
        }
    }
}
