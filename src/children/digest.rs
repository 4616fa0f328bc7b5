//! Canonical digests of values: independent of white space, escapes and the order of members.

use std::num::NonZeroU64;

use crate::json::{Scalar, Span, string};
use crate::work;

/// A digest of a member's key, independent of how the key is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(NonZeroU64);

impl KeyHash {
    /// Hashes a key whose escapes are decoded.
    ///
    /// ```
    /// use restitch::internal::children::{KeyHash, ChildIndex};
    ///
    /// let (mut document, mut index) = (restitch::Document::new(16), ChildIndex::new(100));
    /// document.push_with(r#"{"\u00e9": 1, "b": 2, "c": "#, &mut index)?;
    /// let keys: Vec<_> = index.children(0).iter().map(|child| child.key).collect();
    /// assert_eq!(keys, [Some(KeyHash::of("é")), Some(KeyHash::of("b"))]);
    /// # Ok::<(), restitch::SyntaxError>(())
    /// ```
    pub fn of(key: &str) -> Self {
        Self::nonzero(Hasher::new(KEY).write(key.as_bytes()).finish())
    }

    /// Hashes a key as written, without its quotes.
    pub fn of_raw(raw: &str) -> Self {
        Self::nonzero(of_text(KEY, raw))
    }

    pub(super) fn bits(self) -> u64 {
        self.0.get()
    }

    fn nonzero(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }
}

/// The digest of a string that is still being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenString {
    /// The offset of its opening quote.
    start: usize,
    /// The end of the text that was hashed.
    end: usize,
    hasher: Hasher,
}

impl OpenString {
    /// Begins a string whose opening quote is at `start`.
    pub(super) fn new(start: usize) -> Self {
        Self {
            start,
            end: start.saturating_add(1),
            hasher: Hasher::new(STRING),
        }
    }

    /// Hashes the text before `end`, where no escape is open, once that text is long enough. A
    /// short string is cheaper to hash in one step, and a long one must not wait for its end.
    pub(super) fn advance(&mut self, text: &str, end: usize) {
        if end.saturating_sub(self.end) >= STEP {
            self.hash(text, end);
        }
    }

    /// Returns the digest of the string, whose text with its quotes is `span`.
    pub(super) fn finish(&mut self, text: &str, span: Span) -> u64 {
        if self.start != span.start {
            // Its start was missed.
            *self = Self::new(span.start);
        }
        self.hash(text, span.end.saturating_sub(1));
        self.hasher.finish()
    }

    fn hash(&mut self, text: &str, end: usize) {
        let raw = Span {
            start: self.end,
            end,
        }
        .of(text);
        string::exact_pieces(raw, |piece| {
            self.hasher.write(piece);
        });
        self.end = end;
    }
}

/// Bytes of an open string that are hashed in one step.
const STEP: usize = 1024;

/// Hashes a number, by its text, or a literal.
pub(super) fn of_scalar(kind: Scalar, text: &str) -> u64 {
    match kind {
        Scalar::Number => Hasher::new(NUMBER).write(text.as_bytes()).finish(),
        Scalar::True => fold(TRUE, MULTIPLIER),
        Scalar::False => fold(FALSE, MULTIPLIER),
        Scalar::Null => fold(NULL, MULTIPLIER),
    }
}

/// The digest of a container, computed child by child.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hash {
    /// For an array, a hash of its elements in order. For an object, a sum over its members, which
    /// does not depend on their order.
    hash: u64,
    count: u64,
}

impl Hash {
    pub(super) fn element(&mut self, digest: u64) {
        self.hash = fold(self.hash ^ digest, MULTIPLIER) ^ ARRAY;
        self.count += 1;
    }

    pub(super) fn member(&mut self, key: KeyHash, digest: u64) {
        let member = fold(fold(key.0.get() ^ OBJECT, MULTIPLIER) ^ digest, MULTIPLIER);
        self.hash = self.hash.wrapping_add(member);
        self.count += 1;
    }

    pub(super) fn finish_array(self) -> u64 {
        fold(self.hash ^ ARRAY, MULTIPLIER ^ self.count.rotate_left(32))
    }

    pub(super) fn finish_object(self) -> u64 {
        fold(self.hash ^ OBJECT, MULTIPLIER ^ self.count.rotate_left(32))
    }
}

fn of_text(seed: u64, raw: &str) -> u64 {
    let mut hasher = Hasher::new(seed);
    string::exact_pieces(raw, |piece| {
        hasher.write(piece);
    });
    hasher.finish()
}

/// A hash of bytes, eight at a time. It does not depend on how the bytes are split over writes.
#[derive(Clone, Copy, Debug)]
struct Hasher {
    hash: u64,
    /// The bytes of an incomplete word, the first one lowest.
    word: u64,
    length: u64,
}

impl Hasher {
    fn new(seed: u64) -> Self {
        Self {
            hash: seed,
            word: 0,
            length: 0,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> &mut Self {
        work::bytes_read(bytes.len());
        let filled = (self.length % 8) as usize;
        let missing = if filled == 0 {
            0
        } else {
            (8 - filled).min(bytes.len())
        };
        let (head, bytes) = bytes.split_at(missing);
        for &byte in head {
            self.byte(byte);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.hash = fold(self.hash ^ u64::from_le_bytes(*word), MULTIPLIER);
        }
        self.length += words.len() as u64 * 8;
        for &byte in rest {
            self.byte(byte);
        }
        self
    }

    fn byte(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (self.length % 8 * 8);
        self.length += 1;
        if self.length.is_multiple_of(8) {
            self.hash = fold(self.hash ^ self.word, MULTIPLIER);
            self.word = 0;
        }
    }

    fn finish(&self) -> u64 {
        fold(
            self.hash ^ self.word,
            MULTIPLIER ^ self.length.rotate_left(32),
        )
    }
}

/// Multiplies and folds the product, so that high bits also change low ones.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The fraction of the golden ratio. It is odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

// Seeds that separate the types of values: the fractions of the square roots of the first primes.
const KEY: u64 = 0x6a09_e667_f3bc_c908;
const STRING: u64 = 0xbb67_ae85_84ca_a73b;
const NUMBER: u64 = 0x3c6e_f372_fe94_f82b;
const TRUE: u64 = 0xa54f_f53a_5f1d_36f1;
const FALSE: u64 = 0x510e_527f_ade6_82d1;
const NULL: u64 = 0x9b05_688c_2b3e_6c1f;
const ARRAY: u64 = 0x1f83_d9ab_fb41_bd6b;
const OBJECT: u64 = 0x5be0_cd19_137e_2179;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_over_writes_makes_no_difference() {
        let text: Vec<u8> = (0..100).collect();
        for length in 0..text.len() {
            let whole = Hasher::new(KEY).write(&text[..length]).finish();
            for cut in 0..=length {
                for second in cut..=length.min(cut + 9) {
                    let mut hasher = Hasher::new(KEY);
                    hasher
                        .write(&text[..cut])
                        .write(&text[cut..second])
                        .write(&text[second..length]);
                    assert_eq!(hasher.finish(), whole);
                }
            }
        }
    }

    #[test]
    fn lengths_and_positions_of_bytes_make_a_difference() {
        let mut seen = std::collections::HashSet::new();
        for length in 0..40 {
            assert!(seen.insert(Hasher::new(STRING).write(&vec![0; length]).finish()));
            for place in 0..length {
                let mut text = vec![0; length];
                text[place] = 1;
                assert!(seen.insert(Hasher::new(STRING).write(&text).finish()));
            }
        }
    }

    /// The expected values were computed by another program.
    #[test]
    fn digests_are_the_same_everywhere() {
        let of_string = |raw| of_text(STRING, raw);
        assert_eq!(of_string("a"), 0x7148_2187_e465_4e93);
        assert_eq!(of_string(r"restitch \u00e9"), 0x3dcf_f9af_404c_c58a);
        assert_eq!(
            super::super::digest_of("[ 12 ]"),
            Some(0xa6b0_29e1_f62a_0bb1)
        );
    }
}
