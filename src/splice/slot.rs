//! The delivered text, and the facts about it.

use crate::children::{Child, ChildIndex, KeyHash};
use crate::document::{Document, Trailing};
use crate::envelope::AllowedRoots;
use crate::error::SyntaxError;
use crate::json::repair::RepairOptions;
use crate::json::{Completion, Frame, Kind, Sink};
use crate::limits::Limits;

/// One text channel of a response: its [`Document`], and an index of the whole children of its open
/// containers. The index recognises children that a continuation writes again.
///
/// ```
/// use restitch::{Limits, splice::Slot};
///
/// let mut slot = Slot::new(&Limits::default());
/// slot.push(r#"{"rows": [{"id": 1}, {"id"#)?;
/// assert_eq!(slot.document().cut().path, "/rows/1");
/// # Ok::<(), restitch::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Slot {
    document: Document,
    child_index: ChildIndex,
}

impl Slot {
    /// Creates an empty slot whose root is an object or an array.
    pub fn new(limits: &Limits) -> Self {
        Self::with_roots(limits, AllowedRoots::Containers)
    }

    /// Creates an empty slot that takes the given roots.
    pub fn with_roots(limits: &Limits, roots: AllowedRoots) -> Self {
        let document = Document::with_options(limits.parser.max_depth, roots, Trailing::Block);
        let document = document.max_preamble(limits.parser.max_preamble_bytes);
        Self {
            document,
            child_index: ChildIndex::new(limits.parser.max_children),
        }
    }

    /// Creates a slot around a document that was written elsewhere. Reads its text once more, for
    /// the index of children.
    pub fn of(document: Document, limits: &Limits) -> Self {
        let mut index = ChildIndex::new(limits.parser.max_children);
        document.replay(&mut index);
        Self {
            document,
            child_index: index,
        }
    }

    /// Appends text, as [`Document::push`] does.
    ///
    /// # Errors
    /// Those of [`Document::push`].
    pub fn push(&mut self, text: &str) -> Result<(), SyntaxError> {
        self.push_with(text, &mut ())
    }

    /// Appends text, as [`Document::push_with`] does.
    ///
    /// # Errors
    /// Those of [`Document::push_with`].
    pub fn push_with<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        self.document
            .push_with(text, &mut (&mut self.child_index, sink))
    }

    /// Closes the document as its complete part. The index of children is not set back: no text
    /// follows.
    pub(crate) fn close_as_complete_part(&mut self) -> Option<Completion> {
        self.document.close_as_complete_part()
    }

    /// Makes the document repair its text; see [`Document::repairing`].
    #[must_use]
    pub(crate) fn repairing(mut self, options: RepairOptions) -> Self {
        self.document = self.document.repairing(options).ending_numbers_late();
        self
    }

    /// Makes the document repair all text that follows; see [`Document::repairing_rest`].
    #[must_use]
    pub(crate) fn repairing_rest(mut self, options: RepairOptions) -> Self {
        self.document = self.document.repairing_rest(options).ending_numbers_late();
        self
    }

    /// Takes the text for one that is not JSON.
    pub(crate) fn read_as_text(&mut self) {
        self.document.read_as_text();
    }

    /// Ends the search for the document's root; see [`Document::settle`].
    pub(crate) fn settle<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        self.document.settle(&mut (&mut self.child_index, sink));
    }

    /// Ends the document's root if held-back text closes it.
    pub(crate) fn finish_whole<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        self.document
            .finish_whole(&mut (&mut self.child_index, sink));
    }

    /// Ends the repair of the document where its text was cut. Returns the unread text.
    pub(crate) fn end_repair<S: Sink + ?Sized>(&mut self, sink: &mut S) -> String {
        self.document.end_repair(&mut (&mut self.child_index, sink))
    }

    /// Ends the document's text, as [`Document::finish`] does.
    ///
    /// # Errors
    /// Those of [`Document::finish`].
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        self.document.finish_with(&mut self.child_index)
    }

    /// Returns the document: the text and its machine.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the index of the whole children of the document's open containers.
    pub(crate) fn child_index(&self) -> &ChildIndex {
        &self.child_index
    }

    /// Returns the document without the index.
    pub fn into_document(self) -> Document {
        self.document
    }

    /// Drops the text after the end of a closed root.
    pub(super) fn drop_tail(&mut self) {
        self.document.drop_tail();
    }

    /// Returns the document, so that text can be taken back: the index of children notices it with
    /// the next event.
    pub(super) fn document_mut(&mut self) -> &mut Document {
        &mut self.document
    }

    pub(super) fn text(&self) -> &str {
        self.document.text()
    }

    pub(super) fn frames(&self) -> &[Frame] {
        self.document.machine().frames()
    }

    /// Returns the whole member of the open object at this depth that has this key and was
    /// delivered before `cut`.
    pub(super) fn member(&self, depth: usize, key: KeyHash, cut: usize) -> Option<&Child> {
        self.frames()
            .get(depth)
            .filter(|frame| frame.kind == Kind::Object)?;
        self.child_index
            .member(depth, key)
            .filter(|child| child.span.end <= cut)
    }
}
