//! A fence around a fragment: what closes it is taken out, and what follows the document's root.

use std::borrow::Cow;

use crate::document::Document;
use crate::envelope::{AfterRoot, FenceCloser};

/// The fence around a fragment, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Fenced {
    closer: Option<FenceCloser>,
    /// What the closer has taken out, as far as it may belong to the answer.
    after: String,
    /// The root has ended: takes what follows it.
    after_root: Option<AfterRoot>,
}

impl Fenced {
    /// Notes that a fence has opened; returns whether that is new.
    pub(super) fn open(&mut self) -> bool {
        let is_new = self.closer.is_none();
        self.closer.get_or_insert_with(FenceCloser::json);
        is_new
    }

    /// Takes text out of which comes what is inside the fence; keeps at most `cap` bytes of the rest.
    pub(super) fn feed<'a>(&mut self, text: &'a str, cap: usize) -> Cow<'a, str> {
        let Some(closer) = &mut self.closer else { return Cow::Borrowed(text) };
        let mut inside = String::new();
        let after = closer.feed(text, &mut inside);
        // More belongs to no answer: its root has not ended.
        if self.after.len() <= cap {
            self.after += &closer.take_closing_line();
            self.after += after;
        }
        Cow::Owned(inside)
    }

    pub(super) fn take_after(&mut self) -> String {
        std::mem::take(&mut self.after)
    }

    pub(super) fn is_root_closed(&self) -> bool {
        self.after_root.is_some()
    }

    /// Takes text after the document's root, if that has ended; returns what belongs to the answer.
    pub(super) fn after_root(&mut self, document: &Document, text: &str) -> String {
        if self.after_root.is_none() && document.is_complete() {
            self.after_root = Some(AfterRoot::new(document.fence_after_preamble()));
        }
        self.after_root.as_mut().map(|after| after.feed(text)).unwrap_or_default()
    }

    /// Nothing that follows belongs to the answer.
    pub(super) fn end(&mut self) {
        self.after_root = Some(AfterRoot::new(None));
    }
}
