//! Finds, byte by byte, where a fragment meets the delivered text.
//!
//! Two things are looked for at once: the anchor, wherever it ends in the fragment, and the place in the delivered
//! text that the fragment repeats from its first byte on. The matcher names what it finds; whether that counts is
//! not its business.

use std::ops::Range;

use memchr::memmem;

use super::Anchor;
use super::anchor::{failure_function, is_unbordered, longest_border};

/// Compares one fragment with one delivered text. The delivered text is lent with every call and must not change.
#[derive(Clone, Debug)]
pub struct Matcher {
    anchor: Vec<u8>,
    anchor_start: usize,
    /// Where the delivered text ends but for white space.
    end: usize,
    /// Knuth, Morris and Pratt: the automaton that finds the anchor, and how much of it matches here.
    failure: Vec<usize>,
    matched: usize,
    /// Where the fragment's content begins.
    begin: usize,
    /// The part of the delivered text in which it may repeat something, and the root's start, which may stand before.
    window: Range<usize>,
    root: usize,
    repeats: Repeats,
}

/// What the fragment repeats from its beginning on.
#[derive(Clone, Debug)]
enum Repeats {
    /// Too little has come to say: it is looked for again when so many bytes have.
    Unknown(usize),
    /// Offsets in the delivered text at which everything that came so far stands, too.
    At(Vec<usize>),
}

/// The fragment has repeated the delivered text up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hit {
    /// The anchor has just ended. It began at this offset of the fragment.
    Anchor {
        /// Offset in the fragment.
        start: usize,
    },
    /// Everything from the content's beginning on is the tail of the delivered text.
    Overlap {
        /// Where the tail begins in the delivered text.
        start: usize,
        /// It holds the whole anchor.
        has_anchor: bool,
        /// It occurs only once, has sixteen characters or more, and no long border: it can't be the next row. Without
        /// that it is told where a model may have begun again.
        is_evidence: bool,
    },
}

/// A repeated tail that is no evidence may still be where a model began again: if it is longer than chance explains, and
/// something is in it. It is none where it goes on as the text before it did, or repeats itself: there the next row is
/// as likely.
fn may_begin_again(before: &str, tail: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_token = || !before.ends_with(|c| is_word(c) || matches!(c, '.' | '-' | '+'));
    let characters = tail.chars().count();
    let two_digits = characters == 2 && tail.bytes().all(|byte| byte.is_ascii_digit()) && is_token();
    if !(characters >= CHANCE && tail.contains(is_word) || two_digits) {
        return false;
    }
    let period = tail.len() - longest_border(tail.as_bytes());
    let goes_on = tail.get(..period).is_some_and(|row| before.trim_end().ends_with(row.trim_end()));
    2 * period > tail.len() && !goes_on
}

/// Characters that hardly stand twice in a row by chance; of a whole number two are enough.
const CHANCE: usize = 3;
/// Characters from which on repeated text is evidence, and bytes from which on it is looked for.
const EVIDENCE: usize = 16;
/// Places that are followed at once. Text that stands in more of them is no evidence for any; when it has doubled in
/// length, it is looked for again.
const PLACES: usize = 256;

impl Matcher {
    /// A matcher for a fragment that follows `delivered`, which may repeat any of its last `window` bytes, or begin
    /// at `root` again.
    pub fn new(delivered: &str, anchor: &Anchor, root: usize, window: usize) -> Self {
        let end = delivered.trim_end().len();
        let root = root.min(end);
        // A short text is its own anchor, with the fence before its root: an answer may have another envelope, or none.
        let anchor_start = anchor.range.start.max(root);
        let anchor_text = delivered.get(anchor_start..anchor.range.end).unwrap_or_default().as_bytes().to_vec();
        let from = if end - root <= window { root } else { end - window };
        Self {
            failure: failure_function(&anchor_text),
            anchor: anchor_text,
            anchor_start,
            end,
            matched: 0,
            begin: 0,
            window: from..end,
            root,
            repeats: Repeats::Unknown(EVIDENCE),
        }
    }

    /// The fragment's content begins at `offset`: what stands before it is an envelope.
    pub fn begin(&mut self, offset: usize) {
        self.begin = offset;
        self.matched = 0;
        self.repeats = Repeats::Unknown(EVIDENCE);
    }

    /// Takes the last byte of `fragment`. Calls `hit` for what ends with it.
    pub fn feed(&mut self, delivered: &str, fragment: &[u8], mut hit: impl FnMut(Hit)) {
        let Some(&byte) = fragment.last() else { return };
        if let Some(start) = self.step_anchor(byte, fragment.len()) {
            hit(Hit::Anchor { start });
        }
        let Some(content) = fragment.get(self.begin..) else { return };
        let end = self.end;
        let places = match &mut self.repeats {
            Repeats::At(places) => {
                places.retain(|&place| delivered.as_bytes().get(place + content.len() - 1) == Some(&byte));
                places
            }
            Repeats::Unknown(length) if content.len() < *length => {
                // Too short to be evidence for anything: only the end of the delivered text matters.
                if *length == EVIDENCE && delivered.as_bytes()[self.window.start..end].ends_with(content) {
                    self.overlap(delivered, end - content.len(), false, hit);
                }
                return;
            }
            Repeats::Unknown(length) => {
                let twice = *length * 2;
                self.repeats = self.find(delivered, content).map_or(Repeats::Unknown(twice), Repeats::At);
                let Repeats::At(places) = &mut self.repeats else { return };
                places
            }
        };
        let alone = places.len() == 1;
        if let Some(n) = places.iter().position(|place| place + content.len() == end) {
            let start = places.swap_remove(n);
            self.overlap(delivered, start, alone, hit);
        }
    }

    /// The content is the tail of the delivered text from `start` on; `alone`: it is known to stand nowhere else.
    fn overlap(&self, delivered: &str, start: usize, alone: bool, mut hit: impl FnMut(Hit)) {
        let text = delivered.get(start..self.end).unwrap_or_default();
        let has_anchor = start <= self.anchor_start;
        let is_evidence = alone && text.chars().count() >= EVIDENCE && is_unbordered(text);
        if has_anchor || is_evidence || may_begin_again(delivered.get(..start).unwrap_or_default(), text) {
            hit(Hit::Overlap { start, has_anchor, is_evidence });
        }
    }

    /// The fragment may still turn out to begin inside the delivered text: all of it stands there, too.
    pub fn may_repeat(&self, delivered: &str, fragment: &[u8]) -> bool {
        let Some(content) = fragment.get(self.begin..) else { return false };
        match &self.repeats {
            Repeats::At(places) => !places.is_empty(),
            // In more places than are followed it stands for certain.
            Repeats::Unknown(length) if *length > EVIDENCE => true,
            Repeats::Unknown(_) => {
                self.anchor.starts_with(content)
                    || self.is_root(delivered, content)
                    || memmem::find(&delivered.as_bytes()[self.window.clone()], content).is_some()
            }
        }
    }

    /// All of the fragment stands in exactly one place of the delivered text, and is long enough to say something.
    pub fn is_repeat(&self) -> bool {
        matches!(&self.repeats, Repeats::At(places) if places.len() == 1)
    }

    fn step_anchor(&mut self, byte: u8, length: usize) -> Option<usize> {
        while self.matched > 0 && self.anchor.get(self.matched) != Some(&byte) {
            self.matched = self.failure[self.matched - 1];
        }
        self.matched += usize::from(self.anchor.get(self.matched) == Some(&byte));
        (self.matched == self.anchor.len() && self.matched > 0).then(|| length - self.anchor.len())
    }

    /// The content begins as the root does, out of the window's reach.
    fn is_root(&self, delivered: &str, content: &[u8]) -> bool {
        self.root < self.window.start && delivered.as_bytes()[self.root..self.window.end].starts_with(content)
    }

    /// Where the content stands; `None` where that is in too many places to follow.
    fn find(&self, delivered: &str, content: &[u8]) -> Option<Vec<usize>> {
        let window = &delivered.as_bytes()[self.window.clone()];
        let mut places = Vec::new();
        if self.is_root(delivered, content) {
            places.push(self.root);
        }
        let finder = memmem::Finder::new(content);
        let mut from = 0;
        // Occurrences may overlap: the search goes on one byte behind the last one.
        while let Some(at) = window.get(from..).and_then(|rest| finder.find(rest)) {
            places.push(self.window.start + from + at);
            from += at + 1;
            if places.len() > PLACES {
                return None;
            }
        }
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_begins_again_where_chance_does_not() {
        for (before, tail) in [
            ("fell in ", "tor"),
            ("fell ", "in tor"),
            ("\"n\": ", "12"),
            ("{\"id\": 1},", "{\"id\": 4, \"v\":"),
            ("\"", "два"),
            ("ma", "tch\",\""),
        ] {
            assert!(may_begin_again(before, tail), "{before:?} {tail:?}");
        }
        for (before, tail) in [
            ("fell in t", "or"),
            ("3.", "14"),
            ("\"n\": ", "1"),
            // Nothing is in it.
            ("\"", "\": \""),
            // It repeats itself.
            ("[0,", "0,0,"),
            // The row before is the same.
            ("[12, ", "12, "),
            ("{\"a\":1},", "{\"a\":1},"),
        ] {
            assert!(!may_begin_again(before, tail), "{before:?} {tail:?}");
        }
    }
}
