//! Delivered text that an answer begins with, before anything new.

use std::borrow::Cow;

use crate::overlap::{EVIDENCE, is_unbordered};

/// The prefill that a provider sends back, and the unsent text after it, as offsets of the delivered
/// text. The unsent text is white space, or the word that was cut, which the answer must repeat. An
/// answer that ends inside these has brought no new text.
///
/// A model that begins again repeats the prefill, too, although its provider does not send the
/// prefill back. Then only a prefill that new text is unlikely to begin with is recognised.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedPrefill {
    from: usize,
    /// The range of the text that was not sent.
    unsent: usize,
    to: usize,
    /// The text that was not sent is a word: an answer that has another one is not joined.
    is_word: bool,
    /// The offset in the delivered text up to which the answer repeats it.
    seen: usize,
    /// The call has brought nothing yet, and the provider does not send the prefill back: the model
    /// may begin again.
    may_begin_again: bool,
    /// The cut is inside a string, whose text has no quotes.
    in_string: bool,
    /// The answer began like the document, although the provider does not send the prefill back.
    begins_alike: bool,
}

/// The part of an answer that is new.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewText<'t> {
    /// None yet.
    Waits,
    /// This text; the delivered text has ended.
    Begins(Cow<'t, str>),
    /// None: the answer differs from the delivered text at this offset.
    Differs(usize),
}

impl ReturnedPrefill {
    /// Returns the text to expect before new text, if any. `sent` is the end of the delivered text
    /// that was sent, and `comes_back` is whether the provider sends that text back. `is_word`: the
    /// answer must repeat the delivered text after `sent`.
    pub(super) fn new(
        delivered: &str,
        sent: usize,
        comes_back: bool,
        is_word: bool,
        in_string: bool,
    ) -> Option<Self> {
        let (from, to) = (if comes_back { 0 } else { sent }, delivered.len());
        let may_begin_again =
            !comes_back && says_something(delivered.get(..sent).unwrap_or_default());
        (from < to || may_begin_again).then_some(Self {
            from,
            unsent: sent,
            to,
            is_word,
            seen: from,
            may_begin_again,
            in_string,
            begins_alike: false,
        })
    }

    /// Returns the end of the delivered text, from `sent` on, which an answer must begin with.
    pub(super) fn unsent(delivered: &str, sent: usize) -> Self {
        Self {
            from: sent,
            unsent: sent,
            to: delivered.len(),
            is_word: true,
            seen: sent,
            may_begin_again: false,
            in_string: false,
            begins_alike: false,
        }
    }

    /// Whether the answer has ended inside the prefill, after more of it than new text repeats by
    /// chance.
    pub(super) fn begins_again(&self) -> bool {
        self.from == 0 && self.seen >= EVIDENCE && self.seen < self.unsent
    }

    /// Takes text of the answer. Returns the new part once it is known; the prefill has ended then.
    pub(super) fn feed<'t>(&mut self, delivered: &str, text: &'t str) -> NewText<'t> {
        let first = |text: &str| text.as_bytes().first().copied();
        let word = delivered.get(self.unsent..).filter(|_| self.is_word);
        let is_of_word = word.is_some_and(|word| first(word) == first(text));
        // Only the first character decides: new text rarely begins like the document.
        if std::mem::take(&mut self.may_begin_again)
            && first(text) == first(delivered)
            && !is_of_word
        {
            (self.from, self.seen, self.begins_alike) = (0, 0, true);
        }
        if self.seen == 0 && self.is_word && first(text) != first(delivered) {
            // The provider has not sent the prefill back.
            (self.from, self.seen) = (self.unsent, self.unsent);
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
            return NewText::Waits;
        }
        let is_quoted = || {
            delivered
                .get(..self.seen)
                .is_some_and(|same| same.contains('"'))
        };
        // Text of a string can't have repeated a quote of the document.
        let is_new_root =
            self.begins_alike && self.in_string && self.seen < self.unsent && is_quoted();
        let is_other = self.is_word && self.seen < self.to || is_new_root;
        if is_other && !self.begins_again() {
            return NewText::Differs(self.seen.max(self.unsent));
        }
        // A complete prefill is dropped; a part of one is new text.
        let dropped = [self.to, self.unsent]
            .into_iter()
            .find(|&end| self.seen >= end)
            .unwrap_or(self.from);
        NewText::Begins(match text.get(dropped.saturating_sub(before)..) {
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
