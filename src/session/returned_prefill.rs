//! Delivered text that an answer begins with, before anything new.

use std::borrow::Cow;

use crate::overlap::{EVIDENCE, is_unbordered};

/// The prefill where it is sent back, and the white space after it that was not sent, by offsets of the delivered text.
/// An answer that ends inside of it has brought nothing.
///
/// A prefix that says something is an echo too where none was to come: the model has begun again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedPrefill {
    from: usize,
    /// Where its white space begins, and where it ends.
    white: usize,
    to: usize,
    /// How far it has come.
    seen: usize,
    /// Nothing has come, and what comes may be the prefix although it is not sent back.
    may_begin_again: bool,
}

impl ReturnedPrefill {
    /// What is expected before new text, if anything. `white`: where the part of the delivered text ends that was sent;
    /// `comes_back`: that part comes back.
    pub(super) fn new(delivered: &str, white: usize, comes_back: bool) -> Option<Self> {
        let (from, to) = (if comes_back { 0 } else { white }, delivered.len());
        let may_begin_again = !comes_back && says_something(delivered.get(..white).unwrap_or_default());
        (from < to || may_begin_again).then_some(Self { from, white, to, seen: from, may_begin_again })
    }

    /// It has ended in the middle of what only a model that begins again says.
    pub(super) fn begins_again(&self) -> bool {
        self.from == 0 && self.seen >= EVIDENCE && self.seen < self.white
    }

    /// Takes text of the answer. What is new of it, where that is known by now; then the echo is over.
    pub(super) fn feed<'t>(&mut self, delivered: &str, text: &'t str) -> Option<Cow<'t, str>> {
        if std::mem::take(&mut self.may_begin_again) && text.as_bytes().first() == delivered.as_bytes().first() {
            (self.from, self.seen) = (0, 0);
        }
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

/// New text hardly begins with all of it: it is long enough, and does not go on as it began.
fn says_something(prefix: &str) -> bool {
    let length = prefix.chars().take(LOOKED_AT).count();
    length >= EVIDENCE && (length == LOOKED_AT || is_unbordered(prefix))
}

/// A prefill of this number of characters is not searched.
const LOOKED_AT: usize = 64 << 10;
