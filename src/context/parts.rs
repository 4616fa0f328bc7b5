//! Parts of the text at a cut: the overlap context, the root as cut, the complete part.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::Document;
use crate::json::CloseOptions;
use crate::overlap::Anchor;

/// The end of the delivered text that a continuation is asked to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap<'a> {
    /// Empty if there is nothing to continue: the root is closed or has not started.
    pub text: &'a str,
    /// The text occurs elsewhere too, or its end repeats its start.
    pub ambiguous: bool,
}

/// Returns the anchor ([`Anchor::of`]) of about `cap` characters at most. Searches the text: call
/// it once for each cut.
pub fn overlap_context(document: &Document, cap: usize) -> Overlap<'_> {
    // A closed root needs no continuation, and before a root there is nothing to repeat.
    let is_open = document.root_start().is_some() && !document.is_complete();
    let anchor = is_open.then(|| Anchor::of(document.text(), cap)).flatten();
    let ambiguous = anchor.as_ref().is_some_and(|anchor| anchor.ambiguous);
    let text = anchor.map(|anchor| anchor.range).and_then(|range| {
        debug_assert!(
            document.text().get(range.clone()).is_some(),
            "the anchor {range:?} is in the text"
        );
        document.text().get(range)
    });
    Overlap {
        text: text.unwrap_or_default(),
        ambiguous,
    }
}

/// Returns the root as cut, to which the next fragment is joined. Without text around the root;
/// empty before it. O(1).
pub fn hierarchy_context(document: &Document) -> &str {
    document.root().unwrap_or_default()
}

/// The complete part, borrowed: the text up to its last safe point, and the closing text. Prints as
/// one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart<'a> {
    /// The text, from the first byte of the root on.
    pub text: &'a str,
    /// The text after it.
    pub suffix: String,
}

impl fmt::Display for CompletePart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)?;
        f.write_str(&self.suffix)
    }
}

impl Serialize for CompletePart<'_> {
    /// Serializes as one string.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the document's complete part ([`Document::complete_into`]). `None` before the first safe
/// point. O(depth).
pub fn complete_part(document: &Document) -> Option<CompletePart<'_>> {
    let mut suffix = String::new();
    let end = document.complete_into(CloseOptions::default(), &mut suffix)?;
    Some(CompletePart {
        text: document.text().get(document.root_start()?..end)?,
        suffix,
    })
}
