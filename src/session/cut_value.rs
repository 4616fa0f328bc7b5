//! Numbers and strings that `again`, `schema` or `words` may have left short: nothing in the text
//! shows whether `51` is the whole number, or the beginning of `5150`.

use crate::document::Document;
use crate::json::CutState;

/// A number or string that is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CutValue {
    /// Its JSON Pointer.
    pub(super) path: String,
    /// The bytes of text before the cut.
    pub(super) offset: usize,
    is_number: bool,
}

impl CutValue {
    /// Returns the number or string at the end of a document's text.
    pub(super) fn of(document: &Document) -> Option<Self> {
        let cut = document.cut();
        let is_number = cut.state == CutState::Number;
        (is_number || cut.state == CutState::String).then_some(Self {
            path: cut.path,
            offset: cut.offset,
            is_number,
        })
    }

    /// Returns whether the text after the cut adds nothing to the value.
    pub(super) fn ends_at_cut(&self, text: &str) -> bool {
        let next = text.as_bytes().get(self.offset);
        next.is_some_and(|next| match self.is_number {
            true => !matches!(next, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'),
            false => *next == b'"',
        })
    }
}
