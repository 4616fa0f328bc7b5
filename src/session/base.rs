//! Finds the base of a document: a request may end with the beginning of the assistant's message,
//! which the answer continues.
//!
//! If a root is open at the end of that prefill, the session reads the answer twice: after the
//! prefill, and as a separate document. A reading ends at its first illegal byte. If both remain
//! legal, the provider's capability decides; if that is unknown, the answer passes unchanged.

use super::returned_prefill::says_something;
use super::{FirstAnswer, Phase, SECTIONS, Session};
use crate::context::Sections;
use crate::json::repair::RepairLevel;
use crate::provider::wire::Base;
use crate::splice::Slot;

/// The base of a session's document.
#[derive(Clone, Debug, Default)]
pub(super) struct Preceding {
    /// The prefill at the end of the request, or empty.
    prefill: String,
    /// The provider continues it.
    is_continued: bool,
    /// The provider sends it back at the beginning of the answer.
    is_returned: bool,
    reading: Reading,
}

/// How the answer is read.
#[derive(Clone, Debug, Default)]
enum Reading {
    /// As a separate document.
    #[default]
    Alone,
    /// After the prefill.
    Continued,
    /// In both readings. The session's slot has the one after the prefill.
    Both(Box<Alone>),
}

/// The reading of an answer as a separate document.
#[derive(Clone, Debug)]
struct Alone {
    slot: Slot,
    /// The prefill ends inside a string, where any text without a quote is legal.
    after_string: bool,
    has_quote: bool,
}

impl Alone {
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
        let Some(preamble) = root.and_then(|root| self.slot.document().text().get(..root)) else {
            return is_read;
        };
        let is_text_of_string = self.after_string && !preamble.contains('"');
        is_read && (read < preamble.len() || preamble.trim().is_empty() || is_text_of_string)
    }
}

impl Session {
    /// Sets the base of the document. Call this before the first input.
    pub(crate) fn set_base(&mut self, base: &Base) {
        match base {
            Base::Empty => {}
            Base::Elsewhere => self.pass_without_base(),
            Base::Prefill {
                text,
                is_continued,
                is_returned,
            } => {
                self.base = Preceding {
                    prefill: text.clone(),
                    is_continued: *is_continued,
                    is_returned: *is_returned,
                    reading: Reading::Alone,
                };
                self.begin();
            }
        }
    }

    /// Makes the answer a separate document, because the prefill belongs to another slot.
    pub(super) fn clear_base(&mut self) {
        if !self.base.prefill.is_empty() {
            self.base = Preceding::default();
            self.begin();
        }
    }

    /// Restores the base from a snapshot: the first `length` bytes of the text.
    pub(super) fn restore_base(&mut self, length: usize) {
        if let Some(prefill) = self
            .slot
            .document()
            .text()
            .get(..length)
            .filter(|prefill| !prefill.is_empty())
        {
            let prefill = prefill.to_owned();
            self.base = Preceding {
                prefill,
                is_continued: true,
                is_returned: false,
                reading: Reading::Continued,
            };
        }
    }

    /// Forgets the text, since the first answer begins or is repeated.
    pub(super) fn begin(&mut self) {
        self.slot = self.settings.slot();
        self.sections = Sections::new(SECTIONS);
        self.base.reading = Reading::Alone;
        let (is_continued, repairs) = (self.base.is_continued, self.repairs_text());
        if self.base.prefill.is_empty() || repairs && self.base.is_returned {
            return;
        }
        let mut slot = Slot::with_roots(&self.settings.limits, self.settings.roots);
        let mut sections = Sections::new(SECTIONS);
        if slot.push_with(&self.base.prefill, &mut sections).is_err() {
            // The prefill is not JSON.
            if is_continued {
                self.pass_without_base();
            }
            return;
        }
        let document = slot.document();
        let after_string = document.machine().in_string();
        if document.is_complete() || document.root_start().is_none() {
            // In both readings the document begins in the answer.
            return;
        }
        let own = Slot::with_roots(&self.settings.limits, self.settings.roots);
        let alone = Alone {
            slot: own,
            after_string,
            has_quote: false,
        };
        if repairs && is_continued {
            // With repairs nearly any answer is legal in both readings, so they can't be compared.
            self.base.reading = Reading::Continued;
        } else {
            self.base.reading = Reading::Both(Box::new(alone));
            // Without a certain reading the answer must not be changed.
            self.settings.repair = RepairLevel::Strict.into();
        }
        self.slot = slot.repairing_rest(self.settings.repair.clone());
        self.sections = sections;
    }

    /// Forwards the answer unchanged, because its base is unknown.
    fn pass_without_base(&mut self) {
        self.stop_reading(None);
        self.tally.base_unknown = true;
    }

    /// Returns the length of the base, which precedes the answer in the document's text.
    pub(super) fn base_len(&self) -> usize {
        if matches!(self.base.reading, Reading::Alone) {
            0
        } else {
            self.base.prefill.len()
        }
    }

    /// Returns the answer's text without the base.
    pub(super) fn answer_text(&self) -> &str {
        self.slot
            .document()
            .text()
            .get(self.base_len()..)
            .unwrap_or_default()
    }

    /// Returns whether the request ends with a prefill.
    pub(super) fn has_base(&self) -> bool {
        !self.base.prefill.is_empty()
    }

    /// Returns whether the answer has no significant text yet.
    pub(super) fn is_blank(&self) -> bool {
        match self.base_len() {
            0 => self.slot.document().is_blank(),
            _ => self.answer_text().is_empty() && self.slot.document().pending().is_empty(),
        }
    }

    /// Returns whether a call can ask for the rest of the answer.
    pub(super) fn has_begun(&self) -> bool {
        self.slot.document().has_begun() && (self.base_len() == 0 || !self.answer_text().is_empty())
    }

    /// Returns whether the answer is legal in both readings, and it is unknown whether the provider
    /// continues a prefill.
    pub(super) fn is_undecided(&self) -> bool {
        let is_legal = |alone: &Alone| alone.may_be_separate() && !alone.slot.document().is_blank();
        matches!(&self.base.reading, Reading::Both(alone) if !self.base.is_continued && is_legal(alone))
    }

    /// Decides between two readings before they keep more text than one session may, if each
    /// receives `more` bytes: by the provider's capability, or else the answer passes unread.
    pub(super) fn bound_base(&mut self, more: usize) {
        let Reading::Both(alone) = &self.base.reading else {
            return;
        };
        let kept = self.slot.document().text().len() + alone.slot.document().text().len();
        if kept.saturating_add(more.saturating_mul(2)) <= self.settings.limits.parser.max_text_bytes
        {
            return;
        }
        match self.base.is_continued {
            true => self.base.reading = Reading::Continued,
            false => self.pass_without_base(),
        }
    }

    /// Returns whether the delivered text begins with the request's prefill.
    pub(super) fn replaces_prefill(&self) -> bool {
        let is_repeated =
            || self.has_base() && self.slot.document().text().starts_with(&self.base.prefill);
        self.base_len() > 0 || is_repeated()
    }

    /// Keeps the reading after the prefill and drops the other one, because the rest is requested
    /// for it. A provider that has continued one prefill continues another, too.
    pub(super) fn settle_base(&mut self) {
        if self.base_len() > 0 {
            self.base.reading = Reading::Continued;
            if !self.slot.document().is_text() {
                self.settings.strategy.prefill.get_or_insert_default();
            }
        }
    }

    /// Records why the first answer passed unchanged.
    pub(super) fn note_unread(&mut self) {
        self.tally.base_unknown |= self.is_undecided();
        self.tally.malformed |= matches!(self.phase, Phase::First(FirstAnswer::Malformed))
            && self.tally.limit.is_none();
    }

    /// Reads text of the first answer as a separate document, after the session's slot has read it.
    /// `is_legal`: the slot's reading is legal. Returns whether a legal reading is left.
    pub(super) fn read_alone(&mut self, text: &str, is_legal: bool) -> bool {
        let continues = is_legal && !is_followed_by_json(&self.slot);
        let Reading::Both(alone) = &mut self.base.reading else {
            return continues;
        };
        let prefill = &self.base.prefill;
        let read = self
            .slot
            .document()
            .text()
            .len()
            .saturating_sub(prefill.len());
        let before = alone.slot.document().text().len();
        let is_alone = alone.push(text, read);
        let answer = alone.slot.document().text();
        let has_all = (before + 1..=answer.len()).contains(&prefill.len())
            && answer.starts_with(prefill.as_str());
        let begins_again =
            is_alone && has_all && (self.base.is_returned || says_something(prefill));
        match (continues && !begins_again, is_alone) {
            (true, true) => {}
            (true, false) => self.base.reading = Reading::Continued,
            (false, true) => {
                if let Reading::Both(alone) = std::mem::take(&mut self.base.reading) {
                    self.slot = alone.slot;
                    self.sections = Sections::new(SECTIONS);
                    self.slot.document().replay(&mut self.sections);
                }
            }
            (false, false) => return false,
        }
        true
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
