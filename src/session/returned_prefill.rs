//! Delivered text that an answer begins with, before anything new.

use std::borrow::Cow;

use crate::overlap::{EVIDENCE, is_unbordered};

/// The prefill that a provider sends back, and the unsent white space after it, as offsets of the
/// delivered text. An answer that ends inside the prefill has brought no new text.
///
/// A model that begins again repeats the prefill, too, although its provider does not send the
/// prefill back. Then only a prefill that new text is unlikely to begin with is recognised.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedPrefill {
    from: usize,
    /// The range of the white space that was not sent.
    white: usize,
    to: usize,
    /// The offset in the delivered text up to which the answer repeats it.
    seen: usize,
    /// The call has brought nothing yet, and the provider does not send the prefill back: the model
    /// may begin again.
    may_begin_again: bool,
}

impl ReturnedPrefill {
    /// Returns the text to expect before new text, if any. `white` is the end of the delivered text
    /// that was sent, and `comes_back` is whether the provider sends that text back.
    pub(super) fn new(delivered: &str, white: usize, comes_back: bool) -> Option<Self> {
        let (from, to) = (if comes_back { 0 } else { white }, delivered.len());
        let may_begin_again =
            !comes_back && says_something(delivered.get(..white).unwrap_or_default());
        (from < to || may_begin_again).then_some(Self {
            from,
            white,
            to,
            seen: from,
            may_begin_again,
        })
    }

    /// Returns the end of the delivered text, from `sent` on, which an answer must begin with.
    pub(super) fn unsent(delivered: &str, sent: usize) -> Self {
        Self {
            from: sent,
            white: sent,
            to: delivered.len(),
            seen: sent,
            may_begin_again: false,
        }
    }

    /// Returns whether the answer has repeated all of the text.
    pub(super) fn is_whole(&self) -> bool {
        self.seen >= self.to
    }

    /// Whether the answer has ended inside the prefill, after more of it than new text repeats by
    /// chance.
    pub(super) fn begins_again(&self) -> bool {
        self.from == 0 && self.seen >= EVIDENCE && self.seen < self.white
    }

    /// Takes text of the answer. Returns the new part once it is known; the prefill has ended then.
    pub(super) fn feed<'t>(&mut self, delivered: &str, text: &'t str) -> Option<Cow<'t, str>> {
        // Only the first character decides: new text rarely begins like the document.
        if std::mem::take(&mut self.may_begin_again)
            && text.as_bytes().first() == delivered.as_bytes().first()
        {
            (self.from, self.seen) = (0, 0);
        }
        let rest = delivered.get(self.seen..self.to).unwrap_or_default();
        let same = rest
            .bytes()
            .zip(text.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let before = self.seen;
        self.seen += same;
        // All of the text may still belong to the prefill, so it waits: new text can begin like the
        // prefill.
        if same == text.len() && self.seen < self.to {
            return None;
        }
        // A complete prefill is dropped; a part of one is new text.
        let dropped = [self.to, self.white]
            .into_iter()
            .find(|&end| self.seen >= end)
            .unwrap_or(self.from);
        Some(match text.get(dropped.saturating_sub(before)..) {
            Some(new) if dropped >= before => Cow::Borrowed(new),
            _ => Cow::Owned(
                delivered
                    .get(dropped..before)
                    .unwrap_or_default()
                    .to_owned()
                    + text,
            ),
        })
    }
}

/// Returns whether new text is unlikely to begin with the whole prefill: the prefill is long
/// enough, and its end does not repeat its start.
pub(super) fn says_something(prefill: &str) -> bool {
    let length = prefill.chars().take(MAX_EXAMINED).count();
    length >= EVIDENCE && (length == MAX_EXAMINED || is_unbordered(prefill))
}

// The search takes linear time, but a prefill of this length is not repeated by chance.
/// The number of characters from which on a prefill is not searched for repeats.
const MAX_EXAMINED: usize = 64 << 10;
