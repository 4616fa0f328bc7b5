//! The borders of a text's beginnings (Knuth, Morris and Pratt): a search that never reads a byte
//! of the other text twice.

use crate::work;

/// For each beginning of a text, the length of its longest border: a proper prefix that is also its
/// suffix.
#[derive(Clone, Debug, Default)]
pub(super) struct Borders(Vec<u32>);

impl Borders {
    /// Computes the borders of all beginnings of `text`. Those that are known are not computed
    /// again.
    pub(super) fn extend(&mut self, text: &[u8]) {
        for &byte in text.get(self.0.len()..).unwrap_or_default() {
            let border = match self.0.last() {
                Some(&border) => self.follow(text, border as usize, byte),
                None => 0,
            };
            self.0.push(border as u32);
        }
    }

    /// Returns the length of the longest border of the text's first `length` bytes.
    pub(super) fn of(&self, length: usize) -> usize {
        let border = length.checked_sub(1).and_then(|last| self.0.get(last));
        border.copied().unwrap_or_default() as usize
    }

    /// Returns how many bytes of `text` another text ends with after `byte`, if it has ended with
    /// `length` of them before. The borders of these beginnings must be known.
    pub(super) fn follow(&self, text: &[u8], length: usize, byte: u8) -> usize {
        let mut length = length;
        work::steps(1);
        while text.get(length) != Some(&byte) {
            if length == 0 {
                return 0;
            }
            length = self.of(length);
            work::steps(1);
        }
        length + 1
    }

    /// Returns the longest border of all of the text.
    pub(super) fn last(&self) -> usize {
        self.of(self.0.len())
    }
}
