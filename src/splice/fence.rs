//! Removes a fence around a fragment.

use std::borrow::Cow;

use crate::envelope::{FENCE, FenceCloser};

/// The fence around a fragment, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Fenced {
    closer: Option<FenceCloser>,
    /// The removed text that may belong to the answer.
    after: String,
    /// The anchor was alone in the fence: the rest of the closing line is left out, and the text
    /// after it is the fragment.
    outside: Option<ClosingLine>,
}

/// The line that closes a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosingLine {
    Open,
    Ended,
}

impl Fenced {
    /// Records that a fence has opened; returns whether that is new.
    pub(super) fn open(&mut self) -> bool {
        let is_new = self.closer.is_none();
        self.closer.get_or_insert_with(FenceCloser::json);
        is_new
    }

    /// Whether text passes unchanged: there is no fence.
    pub(super) fn is_idle(&self) -> bool {
        self.closer.is_none() && self.outside.is_none()
    }

    /// Takes text, and returns the part inside the fence. Keeps at most `cap` bytes of the rest.
    pub(super) fn feed<'a>(&mut self, text: &'a str, cap: usize) -> Cow<'a, str> {
        match &mut self.outside {
            None => {}
            Some(ClosingLine::Ended) => return Cow::Borrowed(text),
            Some(line) => {
                let end = text.find('\n');
                *line = if end.is_some() {
                    ClosingLine::Ended
                } else {
                    ClosingLine::Open
                };
                return Cow::Borrowed(
                    text.get(end.map_or(text.len(), |end| end + 1)..)
                        .unwrap_or_default(),
                );
            }
        }
        let Some(closer) = &mut self.closer else {
            return Cow::Borrowed(text);
        };
        let mut inside = String::new();
        let after = closer.feed(text, &mut inside);
        // More belongs to no answer: its root has not ended.
        if self.after.len() <= cap {
            self.after += &closer.take_closing_line();
            self.after += after;
        }
        Cow::Owned(inside)
    }

    /// Only the anchor was in the fence, so the text after it is the fragment. Returns the
    /// beginning of that text, if the fence has closed.
    pub(super) fn leave(&mut self) -> Option<String> {
        let after = self
            .outside
            .is_none()
            .then(|| self.after.trim_start().trim_start_matches('`').to_owned());
        let after = after.filter(|_| self.after.contains(FENCE))?;
        self.outside = Some(ClosingLine::Open);
        self.after.clear();
        Some(self.feed(&after, 0).into_owned())
    }

    pub(super) fn take_after(&mut self) -> String {
        std::mem::take(&mut self.after)
    }
}
