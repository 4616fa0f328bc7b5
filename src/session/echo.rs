//! Delivered text that an answer begins with, before anything new.

use std::borrow::Cow;

/// The prefix where that is sent back, and the white space behind it that was not sent; by offsets of the delivered text.
/// An answer that ends inside of it has brought nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    from: usize,
    /// Where its white space begins, and where it ends.
    white: usize,
    to: usize,
    /// How far it has come.
    seen: usize,
}

impl Echo {
    /// What is expected before new text, if anything. `white`: where the part of the delivered text ends that was sent,
    /// of `to` bytes; `comes_back`: that part comes back.
    pub(super) fn new(white: usize, to: usize, comes_back: bool) -> Option<Self> {
        let from = if comes_back { 0 } else { white };
        (from < to).then_some(Self { from, white, to, seen: from })
    }

    /// Takes text of the answer. What is new of it, where that is known by now; then the echo is over.
    pub(super) fn feed<'t>(&mut self, delivered: &str, text: &'t str) -> Option<Cow<'t, str>> {
        let rest = delivered.get(self.seen..self.to).unwrap_or_default();
        let same = rest.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        let before = self.seen;
        self.seen += same;
        if same == text.len() && self.seen < self.to {
            return None;
        }
        // What has come back whole is dropped; a part of it is text after all.
        let dropped = [self.to, self.white].into_iter().find(|&end| self.seen >= end).unwrap_or(self.from);
        Some(match text.get(dropped.saturating_sub(before)..) {
            Some(new) if dropped >= before => Cow::Borrowed(new),
            _ => Cow::Owned(delivered.get(dropped..before).unwrap_or_default().to_owned() + text),
        })
    }
}
