//! The fragment's text after the end of the document's root.

use crate::document::Document;
use crate::envelope::AfterRoot;

/// The fragment's text after the document's root: its part that belongs to the answer is
/// delivered, and its beginning is kept as evidence about the end of the root.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerTail {
    /// Finds the text that belongs to the answer; `None` while the root is open.
    filter: Option<AfterRoot>,
    /// Its first bytes, from its first significant character on.
    kept: String,
}

/// The most bytes that are kept of the text after a root. A later root that begins in them and does
/// not end in them counts as cut: an example after an answer is shorter.
const KEPT_AFTER_ROOT: usize = 16 << 10;

impl AnswerTail {
    pub(super) fn is_root_closed(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the beginning of the text, from its first significant character on.
    pub(super) fn kept(&self) -> &str {
        &self.kept
    }

    /// Takes text after the document's root, if that has ended; returns the part that belongs to
    /// the answer.
    pub(super) fn feed(&mut self, document: &Document, text: &str) -> String {
        self.keep(text);
        if self.filter.is_none() && document.is_complete() {
            self.filter = Some(AfterRoot::new(document.fence_after_preamble()));
        }
        self.filter
            .as_mut()
            .map(|filter| filter.feed(text))
            .unwrap_or_default()
    }

    /// Ends the answer: nothing that follows belongs to it.
    pub(super) fn end(&mut self) {
        self.filter = Some(AfterRoot::new(None));
    }

    fn keep(&mut self, text: &str) {
        let text = if self.kept.is_empty() {
            text.trim_start()
        } else {
            text
        };
        for c in text.chars() {
            if self.kept.len() >= KEPT_AFTER_ROOT {
                break;
            }
            self.kept.push(c);
        }
    }
}
