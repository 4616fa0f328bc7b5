//! Finds one pattern in text that comes byte by byte (Knuth, Morris and Pratt).

use super::anchor::failure_function;

/// A pattern, and how much of it has just been read.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pattern: Vec<u8>,
    /// For each matched length: the one that may match where the next byte does not. It is the longest border that
    /// another byte follows, so no step takes more than the logarithm of the pattern's length.
    fallback: Vec<u32>,
    matched: usize,
}

/// No border is left.
const NONE: u32 = u32::MAX;

impl Search {
    pub(super) fn new(pattern: &[u8]) -> Self {
        let borders = failure_function(pattern);
        let mut fallback = vec![NONE];
        for (before, &border) in borders.iter().enumerate() {
            let next = pattern.get(before + 1);
            let same = next.is_some() && next == pattern.get(border);
            fallback.push(if same { fallback[border] } else { border as u32 });
        }
        Self { pattern: pattern.to_vec(), fallback, matched: 0 }
    }

    pub(super) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Returns how much of the pattern has just been read.
    pub(super) fn matched(&self) -> usize {
        self.matched
    }

    /// Takes a byte; returns whether the pattern ends with it. An empty pattern never does.
    #[inline]
    pub(super) fn step(&mut self, byte: u8) -> bool {
        self.step_counted(byte);
        self.matched == self.pattern.len() && self.matched > 0
    }

    /// Takes a byte; returns how often it was compared.
    #[inline]
    fn step_counted(&mut self, byte: u8) -> usize {
        let mut looks = 1;
        while self.pattern.get(self.matched) != Some(&byte) {
            let next = self.fallback[self.matched];
            if next == NONE {
                self.matched = 0;
                return looks;
            }
            self.matched = next as usize;
            looks += 1;
        }
        self.matched += 1;
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where `pattern` ends in `text`, and the most comparisons for one byte.
    fn search(pattern: &[u8], text: &[u8]) -> (Vec<usize>, usize) {
        let mut search = Search::new(pattern);
        let (mut ends, mut most) = (Vec::new(), 0);
        for (at, &byte) in text.iter().enumerate() {
            most = most.max(search.clone().step_counted(byte));
            if search.step(byte) {
                ends.push(at + 1);
            }
        }
        (ends, most)
    }

    #[test]
    fn all_occurrences_are_found() {
        // Every pattern of up to five bytes in every text of up to ten, over two letters.
        let words = |most: u32| (0..=most).flat_map(|n| (0..1u32 << n).map(move |bits| (n, bits)));
        let word = |(n, bits): (u32, u32)| (0..n).map(|at| b'a' + (bits >> at & 1) as u8).collect::<Vec<u8>>();
        for pattern in words(5).map(word) {
            for text in words(10).map(word) {
                let ends = |at: &usize| *at > 0 && !pattern.is_empty() && text[..*at].ends_with(&pattern);
                let expect: Vec<usize> = (0..=text.len()).filter(ends).collect();
                assert_eq!(search(&pattern, &text).0, expect);
            }
        }
    }

    #[test]
    fn no_byte_is_compared_often() {
        let mut fibonacci = (b"a".to_vec(), b"ab".to_vec());
        while fibonacci.1.len() < 4000 {
            fibonacci = (fibonacci.1.clone(), [fibonacci.1, fibonacci.0].concat());
        }
        for pattern in [b"a".repeat(4096), b"0,".repeat(2048), fibonacci.1] {
            // All of it but the last byte, and then another byte.
            for cut in [1, 2, 3, 1000] {
                let text = [&pattern[..pattern.len() - cut], b"x"].concat();
                assert!(search(&pattern, &text).1 <= 20);
            }
        }
    }
}
