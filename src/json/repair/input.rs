//! The text that a reading reads.

use std::borrow::Cow;

use super::RepairOptions;

/// The text that an attempt reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepairInput<'a> {
    /// The text as written, from the offset `from` on.
    pub(super) window: &'a str,
    pub(super) from: usize,
    /// Whether the text ends after `window`.
    pub(super) is_end: bool,
    /// Whether it may have been cut there: then an open string or an open root is not evidence
    /// against a reading.
    pub(super) is_cut: bool,
    pub(super) options: &'a RepairOptions,
    /// The repaired text that is final, from the root on: keys of the path are in it.
    pub(super) released: &'a str,
    /// The repaired text between `released` and the start of the attempts. No guess changes it any
    /// more.
    pub(super) held: &'a str,
}

impl<'a> RepairInput<'a> {
    /// Returns the text as written from the offset `at` on.
    pub(super) fn rest(&self, at: usize) -> &'a str {
        self.window
            .get(at.saturating_sub(self.from)..)
            .unwrap_or_default()
    }

    /// Returns the repaired text before the attempts, between two offsets.
    pub(super) fn before(&self, start: usize, end: usize) -> Cow<'a, str> {
        let Some(from) = start.checked_sub(self.released.len()) else {
            let final_part = self
                .released
                .get(start..end.min(self.released.len()))
                .unwrap_or_default();
            return match end.checked_sub(self.released.len()) {
                Some(held @ 1..) => [final_part, self.held.get(..held).unwrap_or_default()]
                    .concat()
                    .into(),
                _ => final_part.into(),
            };
        };
        self.held
            .get(from..end.saturating_sub(self.released.len()))
            .unwrap_or_default()
            .into()
    }

    /// Returns the text as written between two offsets.
    pub(super) fn part(&self, start: usize, end: usize) -> &'a str {
        let rest = self.rest(start);
        rest.get(..end.saturating_sub(start)).unwrap_or_default()
    }
}
