//! The base of a channel's document: a request may end with the beginning of the assistant's
//! message, which the answer continues.
//!
//! If a root is open at the end of that prefill, the answer is read twice: after the prefill, and
//! as a separate document. A reading ends at its first illegal byte. If both remain legal, the
//! provider's capability decides; if that is unknown, the answer passes unchanged.

use super::returned_prefill::says_something;
use crate::splice::Slot;

/// The base of a channel's document.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefillBase {
    /// The prefill at the end of the request, or empty.
    prefill: String,
    /// The provider continues it.
    is_continued: bool,
    /// The provider sends it back at the beginning of the answer.
    is_returned: bool,
    reading: BaseReading,
}

/// How the answer is read.
#[derive(Clone, Debug, Default)]
enum BaseReading {
    /// As a separate document.
    #[default]
    Separate,
    /// After the prefill.
    Continued,
    /// In both readings. The channel's slot has the one after the prefill.
    Both(Box<SeparateReading>),
}

/// The reading of an answer as a separate document.
#[derive(Clone, Debug)]
struct SeparateReading {
    slot: Slot,
    /// The prefill ends inside a string, where any text without a quote is legal.
    after_string: bool,
    has_quote: bool,
}

/// The decision between two readings of an answer before they keep too much text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseBound {
    Within,
    /// Nothing decides between them: the base is unknown.
    Unknown,
}

/// How a piece of text has changed the reading of an answer.
pub(super) enum Reread {
    /// The channel keeps its slot.
    Stays,
    /// The answer is a separate document, in this slot.
    Separate(Box<Slot>),
    /// No reading is legal.
    Illegal,
}

impl PrefillBase {
    /// Returns the base of a request that ends with this prefill.
    pub(super) fn of_request(prefill: &str, is_continued: bool, is_returned: bool) -> Self {
        Self {
            prefill: prefill.to_owned(),
            is_continued,
            is_returned,
            reading: BaseReading::Separate,
        }
    }

    /// Returns the base of an answer that has continued this prefill.
    pub(super) fn continued(prefill: String) -> Self {
        if prefill.is_empty() {
            return Self::default();
        }
        Self {
            prefill,
            is_continued: true,
            is_returned: false,
            reading: BaseReading::Continued,
        }
    }

    /// Returns the prefill at the end of the request, or an empty text.
    pub(super) fn prefill(&self) -> &str {
        &self.prefill
    }

    /// Returns whether the provider continues the prefill.
    pub(super) fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Returns its length in the document's text, where it precedes the answer.
    pub(super) fn len(&self) -> usize {
        match self.reading {
            BaseReading::Separate => 0,
            BaseReading::Continued | BaseReading::Both(_) => self.prefill.len(),
        }
    }

    /// Begins an answer as a separate document. Returns whether it may continue the prefill, too.
    pub(super) fn begin(&mut self, repairs: bool) -> bool {
        self.reading = BaseReading::Separate;
        // An answer that repeats its prefill is a document of its own, which can be repaired from
        // its first byte.
        let is_repeated = repairs && self.is_returned;
        !self.prefill.is_empty() && !is_repeated
    }

    /// Reads the answer in both readings: after the prefill in the channel's slot, and in `slot`.
    /// `after_string`: the prefill ends inside a string.
    pub(super) fn read_both(&mut self, slot: Slot, after_string: bool) {
        self.reading = BaseReading::Both(Box::new(SeparateReading {
            slot,
            after_string,
            has_quote: false,
        }));
    }

    /// Keeps the reading after the prefill and drops the other one.
    pub(super) fn settle(&mut self) {
        self.reading = BaseReading::Continued;
    }

    /// Returns whether the answer is legal in both readings, and it is unknown whether the provider
    /// continues a prefill.
    pub(super) fn is_undecided(&self) -> bool {
        let is_legal = |separate: &SeparateReading| {
            separate.may_be_separate() && !separate.slot.document().is_blank()
        };
        matches!(&self.reading, BaseReading::Both(separate) if !self.is_continued && is_legal(separate))
    }

    /// Decides between two readings before they keep more than `most` bytes, if each receives
    /// `more` bytes: by the provider's capability. `kept`: the bytes of the channel's slot.
    pub(super) fn bound(&mut self, kept: usize, more: usize, most: usize) -> BaseBound {
        let BaseReading::Both(separate) = &self.reading else {
            return BaseBound::Within;
        };
        let kept = kept + separate.slot.document().text().len();
        // Each of the two readings receives the text.
        if kept.saturating_add(more.saturating_mul(2)) <= most {
            return BaseBound::Within;
        }
        if !self.is_continued {
            return BaseBound::Unknown;
        }
        self.settle();
        BaseBound::Within
    }

    /// Reads text as a separate document, after the channel's slot has read it as the rest of the
    /// prefill. `is_legal`: that reading is legal.
    pub(super) fn read(&mut self, text: &str, continued: &Slot, is_legal: bool) -> Reread {
        let continues = is_legal && !is_followed_by_json(continued);
        let BaseReading::Both(separate) = &mut self.reading else {
            return match continues {
                true => Reread::Stays,
                false => Reread::Illegal,
            };
        };
        let read = continued.document().text().len();
        let read = read.saturating_sub(self.prefill.len());
        let before = separate.slot.document().text().len();
        let is_separate = separate.push(text, read);
        let answer = separate.slot.document().text();
        let has_all = (before + 1..=answer.len()).contains(&self.prefill.len())
            && answer.starts_with(self.prefill.as_str());
        // A model that ignores the prefill begins the document again. A short prefill occurs in new
        // text by chance, so it proves nothing.
        let begins_again =
            is_separate && has_all && (self.is_returned || says_something(&self.prefill));
        match (continues && !begins_again, is_separate) {
            (true, true) => {}
            (true, false) => self.settle(),
            (false, true) => {
                if let BaseReading::Both(separate) = std::mem::take(&mut self.reading) {
                    return Reread::Separate(Box::new(separate.slot));
                }
            }
            (false, false) => return Reread::Illegal,
        }
        Reread::Stays
    }
}

impl SeparateReading {
    /// Returns whether the present text may be a separate document.
    fn may_be_separate(&self) -> bool {
        self.slot.document().root_start().is_some() || self.after_string && !self.has_quote
    }

    /// Takes text. Returns whether the answer is still legal as a separate document. `read`: the
    /// number of its bytes that are legal after the prefill. A preamble that continues the
    /// prefill's JSON is not prose, so no separate root follows it.
    fn push(&mut self, text: &str, read: usize) -> bool {
        let had_root = self.slot.document().root_start().is_some();
        let is_read = self.slot.push(text).is_ok() && !is_followed_by_json(&self.slot);
        self.has_quote |= text.contains('"');
        let root = self.slot.document().root_start().filter(|_| !had_root);
        // Prose may precede a separate document, but not the rest of the prefill's JSON.
        let Some(preamble) = root.and_then(|root| self.slot.document().text().get(..root)) else {
            return is_read;
        };
        let is_text_of_string = self.after_string && !preamble.contains('"');
        is_read && (read < preamble.len() || preamble.trim().is_empty() || is_text_of_string)
    }
}

/// Returns whether JSON follows the end of a closed root, so that the root is not the whole
/// document.
fn is_followed_by_json(slot: &Slot) -> bool {
    matches!(
        slot.document().byte_after_root(),
        Some(b',' | b']' | b'}' | b':' | b'"')
    )
}
