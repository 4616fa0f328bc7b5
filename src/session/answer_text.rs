//! The delivered text of one channel.

use super::prefill_base::{PrefillBase, Reread};
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
    pub(super) base: PrefillBase,
    /// Text of the first answer that the repair had not read at the cut, unrepaired; empty once a
    /// continuation has brought text.
    pub(super) unread: String,
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

    /// Restores the base from a snapshot: the first `length` bytes of the text.
    pub(super) fn restore_base(&mut self, length: usize) {
        let prefill = self.document().text().get(..length).unwrap_or_default();
        self.base = PrefillBase::continued(prefill.to_owned());
    }

    /// Forgets the text, since the first answer begins or is repeated. Returns whether the base is
    /// known; an answer to an unknown one must pass.
    #[must_use]
    pub(super) fn begin(&mut self, settings: &mut SessionSettings) -> bool {
        self.slot = settings.slot();
        self.sections = Sections::new(SECTIONS);
        self.check = None;
        let repairs = settings.repairs_text();
        if !self.base.begin(repairs) {
            return true;
        }
        // The request's own text is never repaired.
        let mut slot = settings.strict_slot();
        let mut sections = Sections::new(SECTIONS);
        if slot.push_with(self.base.prefill(), &mut sections).is_err() {
            // The prefill is not JSON.
            return !self.base.is_continued();
        }
        let document = slot.document();
        if document.is_complete() || document.root_start().is_none() {
            // In both readings the document begins in the answer.
            return true;
        }
        let in_string = document.machine().in_string();
        if repairs && self.base.is_continued() {
            // With repairs nearly any answer is legal in both readings, so they can't be compared.
            self.base.settle();
        } else {
            self.base.read_both(settings.strict_slot(), in_string);
            // Without a certain reading the answer must not be changed.
            settings.repair = RepairLevel::Strict.into();
        }
        self.slot = slot.repairing_rest(settings.repair.clone());
        self.sections = sections;
        true
    }

    /// Returns the answer's text without the base.
    pub(super) fn answer(&self) -> &str {
        self.document()
            .text()
            .get(self.base.len()..)
            .unwrap_or_default()
    }

    /// Returns whether the answer has no significant text yet.
    pub(super) fn is_blank(&self) -> bool {
        match self.base.len() {
            0 => self.document().is_blank(),
            _ => self.answer().is_empty() && self.document().pending().is_empty(),
        }
    }

    /// Returns whether a call can ask for the rest of the answer.
    pub(super) fn has_begun(&self) -> bool {
        self.document().has_begun() && (self.base.len() == 0 || !self.answer().is_empty())
    }

    /// Returns whether the delivered text begins with the request's prefill.
    pub(super) fn replaces_prefill(&self) -> bool {
        let prefill = self.base.prefill();
        self.base.len() > 0 || !prefill.is_empty() && self.document().text().starts_with(prefill)
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
        match self.base.read(text, &self.slot, is_legal) {
            Reread::Stays => true,
            Reread::Separate(slot) => {
                self.slot = *slot;
                // The sections of the other reading began in the prefill, which is not part of this
                // document.
                self.sections = Sections::new(SECTIONS);
                self.slot.document().replay(&mut self.sections);
                true
            }
            Reread::Illegal => false,
        }
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
        self.slot.settle(&mut sink);
    }
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
