//! The delivered text of one channel, and its base: a request may end with the beginning of the
//! assistant's message, which the answer continues.
//!
//! If a root is open at the end of that prefill, the answer is read twice: after the prefill, and
//! as a separate document. A reading ends at its first illegal byte. If both remain legal, the
//! provider's capability decides; if that is unknown, the answer passes unchanged.

use super::returned_prefill::says_something;
use super::settings::SessionSettings;
use crate::context::Sections;
use crate::document::Document;
use crate::json::repair::{Repair, RepairLevel};
use crate::json::{Completion, Event, ParserView, Sink};
use crate::schema::{SchemaCheck, SchemaRules, Shortfall};
use crate::splice::Slot;

/// The delivered text of a channel.
#[derive(Clone, Debug)]
pub(super) struct AnswerText {
    pub(super) slot: Slot,
    pub(super) sections: Sections,
    /// Compares the document with its schema, from the first call for the rest on.
    pub(super) check: Option<SchemaCheck>,
    base: PrefillBase,
    /// Text of the first answer that the repair had not read at the cut, unrepaired; empty once a
    /// continuation has brought text.
    pub(super) unread: String,
}

/// The base of a channel's document.
#[derive(Clone, Debug, Default)]
struct PrefillBase {
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

/// A channel's text and sections before a call for the rest whose result is checked.
#[derive(Clone, Debug)]
pub(super) struct RollbackPoint {
    slot: Slot,
    sections: Sections,
    check: Option<SchemaCheck>,
}

impl AnswerText {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        Self {
            slot: settings.strict_slot(),
            sections: Sections::new(SECTIONS),
            check: None,
            base: PrefillBase::default(),
            unread: String::new(),
        }
    }

    /// Returns the base, if the answer continues it, and all text that was given out.
    pub(super) fn document(&self) -> &Document {
        self.slot.document()
    }

    /// Sets the prefill that the answer may continue. [`begin`](Self::begin) must follow.
    pub(super) fn set_prefill(&mut self, prefill: &str, is_continued: bool, is_returned: bool) {
        self.base = PrefillBase {
            prefill: prefill.to_owned(),
            is_continued,
            is_returned,
            reading: BaseReading::Separate,
        };
    }

    /// Makes the answer a separate document. [`begin`](Self::begin) must follow.
    pub(super) fn clear_prefill(&mut self) {
        self.base = PrefillBase::default();
    }

    /// Restores the base from a snapshot: the first `length` bytes of the text.
    pub(super) fn restore_prefill(&mut self, length: usize) {
        if let Some(prefill) = self
            .document()
            .text()
            .get(..length)
            .filter(|prefill| !prefill.is_empty())
        {
            let prefill = prefill.to_owned();
            self.base = PrefillBase {
                prefill,
                is_continued: true,
                is_returned: false,
                reading: BaseReading::Continued,
            };
        }
    }

    /// Forgets the text, since the first answer begins or is repeated. Returns whether the base is
    /// known; an answer to an unknown one must pass.
    #[must_use]
    pub(super) fn begin(&mut self, settings: &mut SessionSettings) -> bool {
        self.slot = settings.slot();
        self.sections = Sections::new(SECTIONS);
        self.check = None;
        self.base.reading = BaseReading::Separate;
        let (is_continued, repairs) = (self.base.is_continued, settings.repairs_text());
        // An answer that repeats its prefill is a document of its own, which can be repaired from
        // its first byte.
        if self.base.prefill.is_empty() || repairs && self.base.is_returned {
            return true;
        }
        // The request's own text is never repaired.
        let mut slot = settings.strict_slot();
        let mut sections = Sections::new(SECTIONS);
        if slot.push_with(&self.base.prefill, &mut sections).is_err() {
            // The prefill is not JSON.
            return !is_continued;
        }
        let document = slot.document();
        let after_string = document.machine().in_string();
        if document.is_complete() || document.root_start().is_none() {
            // In both readings the document begins in the answer.
            return true;
        }
        if repairs && is_continued {
            // With repairs nearly any answer is legal in both readings, so they can't be compared.
            self.base.reading = BaseReading::Continued;
        } else {
            self.base.reading = BaseReading::Both(Box::new(SeparateReading {
                slot: settings.strict_slot(),
                after_string,
                has_quote: false,
            }));
            // Without a certain reading the answer must not be changed.
            settings.repair = RepairLevel::Strict.into();
        }
        self.slot = slot.repairing_rest(settings.repair.clone());
        self.sections = sections;
        true
    }

    /// Returns the length of the base, which precedes the answer in the document's text.
    pub(super) fn base_len(&self) -> usize {
        if matches!(self.base.reading, BaseReading::Separate) {
            0
        } else {
            self.base.prefill.len()
        }
    }

    /// Returns the answer's text without the base.
    pub(super) fn answer(&self) -> &str {
        self.document()
            .text()
            .get(self.base_len()..)
            .unwrap_or_default()
    }

    /// Returns whether the request ends with a prefill.
    pub(super) fn has_prefill(&self) -> bool {
        !self.base.prefill.is_empty()
    }

    /// Returns whether the answer has no significant text yet.
    pub(super) fn is_blank(&self) -> bool {
        match self.base_len() {
            0 => self.document().is_blank(),
            _ => self.answer().is_empty() && self.document().pending().is_empty(),
        }
    }

    /// Returns whether a call can ask for the rest of the answer.
    pub(super) fn has_begun(&self) -> bool {
        self.document().has_begun() && (self.base_len() == 0 || !self.answer().is_empty())
    }

    /// Returns whether the answer is legal in both readings, and it is unknown whether the provider
    /// continues a prefill.
    pub(super) fn is_undecided(&self) -> bool {
        let is_legal = |separate: &SeparateReading| {
            separate.may_be_separate() && !separate.slot.document().is_blank()
        };
        matches!(&self.base.reading, BaseReading::Both(separate) if !self.base.is_continued && is_legal(separate))
    }

    /// Decides between two readings before they keep more than `most` bytes, if each receives
    /// `more` bytes: by the provider's capability.
    pub(super) fn bound_readings(&mut self, more: usize, most: usize) -> BaseBound {
        let BaseReading::Both(separate) = &self.base.reading else {
            return BaseBound::Within;
        };
        let kept = self.document().text().len() + separate.slot.document().text().len();
        // Each of the two readings receives the text.
        if kept.saturating_add(more.saturating_mul(2)) <= most {
            return BaseBound::Within;
        }
        if !self.base.is_continued {
            return BaseBound::Unknown;
        }
        self.base.reading = BaseReading::Continued;
        BaseBound::Within
    }

    /// Returns whether the delivered text begins with the request's prefill.
    pub(super) fn replaces_prefill(&self) -> bool {
        let is_repeated =
            || self.has_prefill() && self.document().text().starts_with(&self.base.prefill);
        self.base_len() > 0 || is_repeated()
    }

    /// Keeps the reading after the prefill and drops the other one, because the rest is requested
    /// for it. Returns whether there is such a reading.
    pub(super) fn settle_base(&mut self) -> bool {
        let is_after_prefill = self.base_len() > 0;
        if is_after_prefill {
            self.base.reading = BaseReading::Continued;
        }
        is_after_prefill
    }

    /// Changes the slot of a first answer, and returns the repairs that this made.
    pub(super) fn collecting<T>(
        &mut self,
        change: impl FnOnce(&mut Slot, &mut (&mut Sections, &mut CollectedRepairs)) -> T,
    ) -> (T, Vec<Repair>) {
        let mut collected = CollectedRepairs::default();
        let changed = change(&mut self.slot, &mut (&mut self.sections, &mut collected));
        (changed, collected.0)
    }

    /// Reads text of the first answer as a separate document, after the channel's slot has read it.
    /// `is_legal`: the slot's reading is legal. Returns whether a legal reading is left.
    pub(super) fn read_separately(&mut self, text: &str, is_legal: bool) -> bool {
        let continues = is_legal && !is_followed_by_json(&self.slot);
        let BaseReading::Both(separate) = &mut self.base.reading else {
            return continues;
        };
        let prefill = &self.base.prefill;
        let read = self
            .slot
            .document()
            .text()
            .len()
            .saturating_sub(prefill.len());
        let before = separate.slot.document().text().len();
        let is_separate = separate.push(text, read);
        let answer = separate.slot.document().text();
        let has_all = (before + 1..=answer.len()).contains(&prefill.len())
            && answer.starts_with(prefill.as_str());
        // A model that ignores the prefill begins the document again. A short prefill occurs in new
        // text by chance, so it proves nothing.
        let begins_again =
            is_separate && has_all && (self.base.is_returned || says_something(prefill));
        match (continues && !begins_again, is_separate) {
            (true, true) => {}
            (true, false) => self.base.reading = BaseReading::Continued,
            (false, true) => {
                if let BaseReading::Both(separate) = std::mem::take(&mut self.base.reading) {
                    self.slot = separate.slot;
                    self.sections = Sections::new(SECTIONS);
                    // The sections of the other reading began in the prefill, which is not part of
                    // this document.
                    self.slot.document().replay(&mut self.sections);
                }
            }
            (false, false) => return false,
        }
        true
    }

    /// Reads the text again, without repairs. Used where none of a repaired root was certain: the
    /// continuation repeats the root.
    pub(super) fn forget_uncertain_root(&mut self, settings: &SessionSettings) {
        let document = self.document();
        if document.roots() == 0 && document.root_start() == Some(document.text().len()) {
            let mut slot = settings.strict_slot();
            let read = slot.push(document.text());
            debug_assert!(
                read.is_ok(),
                "there is no root in what precedes it: {read:?}"
            );
            self.slot = slot;
        }
    }

    /// Treats the text as prose, and later text too. Returns the text that the repair had not read.
    pub(super) fn read_as_prose(&mut self) -> String {
        self.slot.read_as_text();
        self.sections = Sections::new(SECTIONS);
        let unread = std::mem::take(&mut self.unread);
        self.push_prose(&unread);
        unread
    }

    pub(super) fn push_prose(&mut self, text: &str) {
        let pushed = self.slot.push(text);
        debug_assert!(
            pushed.is_ok(),
            "text that is not JSON has no grammar: {pushed:?}"
        );
    }

    /// Closes the open document. If no text was sent, drops its uncertain end first.
    pub(super) fn close(&mut self, is_unsent: bool) -> Completion {
        if let Some(closed) = is_unsent
            .then(|| self.slot.close_as_complete_part())
            .flatten()
        {
            return closed;
        }
        let completion = self.document().completion();
        let pushed = self.slot.push(&completion.suffix);
        debug_assert!(
            pushed.is_ok() && self.document().is_complete(),
            "{pushed:?}: {}",
            completion.suffix
        );
        completion
    }

    pub(super) fn rollback_point(&self) -> RollbackPoint {
        RollbackPoint {
            slot: self.slot.clone(),
            sections: self.sections.clone(),
            check: self.check.clone(),
        }
    }

    pub(super) fn roll_back(&mut self, to: RollbackPoint) {
        (self.slot, self.sections, self.check) = (to.slot, to.sections, to.check);
    }

    /// Prepares the comparison with a schema for a call for the rest. Reads the present text once,
    /// at the first such call.
    pub(super) fn begin_check(&mut self, schema: Option<&str>) {
        let Some(schema) = schema else { return };
        if self.check.is_none() {
            let mut check = SchemaRules::read(schema).map(SchemaCheck::new);
            self.document().replay(&mut check);
            self.check = check;
        }
        let end = self.document().text().len();
        if let Some(check) = &mut self.check {
            check.begin_call(end);
        }
    }

    /// Returns the first container that the open call has closed before it had all that its schema
    /// requires.
    pub(super) fn new_shortfall(&self) -> Option<&Shortfall> {
        self.check.as_ref()?.new_shortfall()
    }

    /// Returns the document's text without a bracket that the open call has written too early, and
    /// without the text after it.
    pub(super) fn given_out(&self) -> &str {
        let text = self.document().text();
        let end = self.new_shortfall().map_or(text.len(), |short| short.end);
        text.get(..end).unwrap_or_default()
    }

    /// Returns whether the document lacks anything that its schema requires.
    pub(super) fn lacks_required(&self) -> bool {
        self.check
            .as_ref()
            .is_some_and(|check| check.first_shortfall().is_some())
    }

    /// Returns the JSON Pointer at which a whole document violates its schema.
    pub(super) fn violation(&self) -> Option<String> {
        let check = self
            .check
            .as_ref()
            .filter(|_| self.document().is_complete())?;
        let shortfall = check.first_shortfall().map(|short| short.path.as_str());
        shortfall.or(check.mismatch()).map(str::to_owned)
    }

    /// Truncates the text to `length` bytes, before a bracket that closed a container too early.
    pub(super) fn truncate(&mut self, length: usize, settings: &SessionSettings) {
        let text = self
            .document()
            .text()
            .get(..length)
            .unwrap_or_default()
            .to_owned();
        // The text was repaired when it was delivered, so it is read without repairs.
        self.slot = settings.strict_slot();
        self.sections = Sections::new(SECTIONS);
        self.check.iter_mut().for_each(SchemaCheck::restart);
        let mut sink = (&mut self.sections, &mut self.check);
        let read = self.slot.push_with(&text, &mut sink);
        debug_assert!(read.is_ok(), "it was read before: {read:?}");
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

/// Collects the repairs of a push.
#[derive(Default)]
pub(super) struct CollectedRepairs(Vec<Repair>);

impl Sink for CollectedRepairs {
    fn event(&mut self, _: Event, _: &ParserView<'_>) {}

    fn repaired(&mut self, repair: &Repair) {
        self.0.push(repair.clone());
    }

    fn is_idle(&self) -> bool {
        true
    }
}

/// Sections that are remembered besides the newest: a summary shows no more.
const SECTIONS: usize = 16;
