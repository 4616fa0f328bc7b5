//! The repaired text of a reading that is not final, and the changes in it.

use super::Repair;
use super::habit::Mistake;
use super::token::Token;

/// A change that is not final.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) repair: Repair,
    /// Where the replacement begins in the repaired text.
    pub(super) out: usize,
    /// A separator between tokens that nothing separates as written.
    pub(super) is_tight: bool,
    /// The mistake that this edit explains, if it is a guess.
    pub(super) guess: Option<Mistake>,
}

impl Edit {
    pub(super) fn out_end(&self) -> usize {
        self.out + self.repair.replacement.len()
    }
}

/// The repaired text that is not final. Its offsets count from the root on.
#[derive(Clone, Debug)]
pub(super) struct RepairedText {
    pub(super) out: String,
    /// Where it begins, in the repaired text and in the text as written.
    pub(super) origin: usize,
    pub(super) origin_in: usize,
    /// The changes in it, in order.
    pub(super) edits: Vec<Edit>,
}

impl RepairedText {
    /// Creates an empty text at the offset `origin`, which is `written` in the text as written.
    pub(super) fn at(origin: usize, written: usize) -> Self {
        Self {
            out: String::new(),
            origin,
            origin_in: written,
            edits: Vec::new(),
        }
    }

    /// Whether the text from this offset on is not final.
    pub(super) fn has(&self, offset: usize) -> bool {
        offset >= self.origin
    }

    /// Returns the text from an offset on.
    pub(super) fn after(&self, offset: usize) -> &str {
        self.out
            .get(offset.saturating_sub(self.origin)..)
            .unwrap_or_default()
    }

    /// Returns the text up to an offset.
    pub(super) fn before(&self, offset: usize) -> &str {
        self.out
            .get(..offset.saturating_sub(self.origin))
            .unwrap_or_default()
    }

    /// Returns the text between two offsets.
    pub(super) fn between(&self, start: usize, end: usize) -> &str {
        let length = end.saturating_sub(start);
        self.after(start).get(..length).unwrap_or_default()
    }

    /// Returns the text of a string without its quotes; `None` if its beginning is final.
    pub(super) fn content(&self, string: Token) -> Option<&str> {
        let start = string.start.checked_sub(self.origin)?;
        let end = (string.end - 1).saturating_sub(self.origin);
        Some(self.out.get(start + 1..end).unwrap_or_default())
    }

    /// Returns the changes whose replacements begin in this token.
    pub(super) fn edits_in(&self, token: Token) -> impl Iterator<Item = &Edit> {
        self.edits
            .iter()
            .filter(move |edit| (token.start..token.end).contains(&edit.out))
    }

    /// Returns this offset, or the start of the change that it is in.
    pub(super) fn outside_edits(&self, offset: usize) -> usize {
        let straddles = |edit: &&Edit| edit.out < offset && offset < edit.out_end();
        let edit = self.edits.iter().find(straddles);
        edit.map_or(offset, |edit| edit.out)
    }

    /// Returns the last boundary of a character up to this offset.
    pub(super) fn floor(&self, offset: usize) -> usize {
        let mut offset = offset;
        while offset > self.origin && !self.out.is_char_boundary(offset - self.origin) {
            offset -= 1;
        }
        offset
    }

    /// Drops the text after an offset. Its changes stay.
    pub(super) fn truncate(&mut self, offset: usize) {
        self.out.truncate(offset.saturating_sub(self.origin));
    }

    /// Moves the changes after an offset, which is `written` in the text as written, by `by` bytes;
    /// returns the index of the first of them.
    pub(super) fn shift(&mut self, written: usize, offset: usize, by: isize) -> usize {
        let is_before = |edit: &Edit| edit.repair.range.end <= written && edit.out <= offset;
        let at = self.edits.partition_point(is_before);
        for edit in self.edits.iter_mut().skip(at) {
            edit.out = edit.out.saturating_add_signed(by);
        }
        at
    }

    /// Returns the offset in the text as written of an offset in the repaired text.
    pub(super) fn in_offset(&self, out: usize) -> usize {
        let before = self.edits.partition_point(|edit| edit.out_end() <= out);
        match before.checked_sub(1).and_then(|last| self.edits.get(last)) {
            Some(edit) => edit.repair.range.end + (out - edit.out_end()),
            None => self.origin_in + (out - self.origin),
        }
        .min(
            self.edits
                .get(before)
                .map_or(usize::MAX, |edit| edit.repair.range.start),
        )
    }

    /// Returns the offset in the repaired text of an offset in the text as written.
    pub(super) fn out_offset(&self, at: usize) -> usize {
        let before = self
            .edits
            .partition_point(|edit| edit.repair.range.end <= at);
        match before.checked_sub(1).and_then(|last| self.edits.get(last)) {
            Some(edit) => edit.out_end() + (at - edit.repair.range.end),
            None => self.origin + at.saturating_sub(self.origin_in),
        }
        .min(self.edits.get(before).map_or(usize::MAX, |edit| edit.out))
    }

    /// Returns the part from the offset `base` on. No change may straddle `base`.
    pub(super) fn rebased(&self, base: usize) -> Self {
        let count = self.edits.partition_point(|edit| edit.out_end() <= base);
        Self {
            out: self.after(base).to_owned(),
            origin: base,
            origin_in: self.in_offset(base),
            edits: self.edits.get(count..).unwrap_or_default().to_vec(),
        }
    }

    /// Replaces the end of this text by a text that begins inside it.
    pub(super) fn replace_tail(&mut self, tail: Self) {
        self.truncate(tail.origin);
        self.out.push_str(&tail.out);
        let is_before = |edit: &Edit| edit.out_end() <= tail.origin;
        self.edits.truncate(self.edits.partition_point(is_before));
        self.edits.extend(tail.edits);
    }

    /// Moves the repaired text up to the offset `to`, and the changes in it, to the final text.
    pub(super) fn release(&mut self, to: usize, text: &mut String, log: &mut Vec<Repair>) {
        if !self.has(to) {
            return;
        }
        let origin_in = self.in_offset(to);
        let count = self.edits.partition_point(|edit| edit.out_end() <= to);
        log.extend(self.edits.drain(..count).map(|edit| edit.repair));
        text.push_str(self.out.get(..to - self.origin).unwrap_or_default());
        self.out.drain(..to - self.origin);
        (self.origin, self.origin_in) = (to, origin_in);
    }
}
