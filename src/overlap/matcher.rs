//! Finds, byte by byte, where a fragment meets the delivered text.
//!
//! Looks for two things at once: the anchor, wherever it ends in the fragment, and the place in the delivered text that
//! the fragment repeats from its first byte on. The matcher reports what it finds; others decide whether that counts.

use super::anchor::is_unbordered;
use super::search::Search;
use super::{Anchor, Automaton, Cursor};

/// A matcher of one fragment against one delivered text. The delivered text is lent with every call and must not
/// change.
#[derive(Clone, Debug)]
pub struct Matcher {
    anchor: Search,
    anchor_start: usize,
    /// Where the delivered text ends, without white space.
    end: usize,
    /// The part of the delivered text in which the fragment may begin, where that part starts, and where the last
    /// letter or digit of the delivered text is.
    tail: Automaton,
    tail_start: usize,
    last_word: Option<usize>,
    root: usize,
    /// Where the fragment's content begins.
    begin: usize,
    content: Content,
}

/// What the fragment repeats from the start of its content on.
#[derive(Clone, Copy, Debug)]
struct Content {
    length: usize,
    characters: usize,
    /// Whether all of it is a substring of the tail.
    piece: Option<Cursor>,
    /// Whether all of it repeats the root, which precedes the tail.
    at_root: bool,
    /// Bytes and characters of its longest proper prefix that is a suffix of the delivered text. Where the content
    /// itself is such a suffix, this is its longest border.
    border: (usize, usize),
}

/// The fragment has repeated the delivered text up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hit {
    /// The anchor has just ended.
    Anchor {
        /// Where it began in the fragment.
        start: usize,
    },
    /// Everything from the start of the content on is the tail of the delivered text.
    Overlap {
        /// Where the tail begins in the delivered text.
        start: usize,
        /// Whether it contains the whole anchor.
        has_anchor: bool,
        /// Whether it occurs only once, has at least sixteen characters and no long border, so that it cannot be the
        /// next row. Without that, an overlap is reported where a model may have begun again.
        is_evidence: bool,
        /// Whether a model may have begun again there. If not, a shorter suffix of the delivered text was reported
        /// before, and this one is its rival.
        is_likely: bool,
    },
}

/// What ends with one byte: the anchor, and a tail of the delivered text, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    anchor: Option<Hit>,
    overlap: Option<Hit>,
}

impl Hits {
    /// Whether nothing ends with the byte.
    pub fn is_empty(self) -> bool {
        self.anchor.is_none() && self.overlap.is_none()
    }
}

impl IntoIterator for Hits {
    type Item = Hit;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Hit>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        [self.anchor, self.overlap].into_iter().flatten()
    }
}

/// The number of characters that hardly repeat by chance; of a whole number two are enough.
const CHANCE: usize = 3;
/// The number of characters from which on repeated text is evidence, and of bytes from which on evidence must occur in
/// a single place.
pub(crate) const EVIDENCE: usize = 16;

impl Matcher {
    /// Creates a matcher for a fragment that follows `delivered`. The fragment may repeat any of the last `tail` bytes,
    /// or begin again at `root`. O(`tail`), 20 to 40 ns a byte.
    pub fn new(delivered: &str, anchor: &Anchor, root: usize, tail: usize) -> Self {
        let end = delivered.trim_end().len();
        let root = root.min(end);
        // A short text is its own anchor, together with the fence before its root; an answer may have another envelope,
        // or none.
        let anchor_start = anchor.range.start.max(root);
        let anchor_text = delivered.get(anchor_start..anchor.range.end);
        debug_assert!(anchor_text.is_some(), "the anchor is in the delivered text");
        let anchor_text = anchor_text.unwrap_or_default().as_bytes();
        let tail_start = root.max(end.saturating_sub(tail.min(Automaton::LONGEST)));
        Self {
            anchor: Search::new(anchor_text),
            anchor_start,
            end,
            tail: Automaton::new(&delivered.as_bytes()[tail_start..end]),
            tail_start,
            last_word: delivered[..end].rfind(is_word),
            root,
            begin: 0,
            content: Content::new(root < tail_start),
        }
    }

    /// Sets where the fragment's content begins: what precedes `offset` is an envelope.
    pub fn begin(&mut self, offset: usize) {
        self.begin = offset;
        self.content = Content::new(self.root < self.tail_start);
    }

    /// Takes the last byte of `fragment`; returns what ends with it.
    #[inline]
    pub fn feed(&mut self, delivered: &str, fragment: &[u8]) -> Hits {
        let mut hits = Hits::default();
        let Some(&byte) = fragment.last() else { return hits };
        if self.anchor.step(byte) {
            hits.anchor = Some(Hit::Anchor { start: fragment.len() - self.anchor.pattern().len() });
        }
        if self.content.piece.is_none() && !self.content.at_root {
            return hits;
        }
        let Some(new) = fragment.get(self.begin + self.content.length..).filter(|new| !new.is_empty()) else {
            return hits;
        };
        for &byte in new {
            self.read(delivered, byte);
        }
        let content = self.content;
        if content.piece.is_some_and(|piece| self.tail.is_end(piece)) || self.is_all(content) {
            hits.overlap = self.overlap(delivered);
            self.content.border = (content.length, content.characters);
        }
        hits
    }

    /// Whether the fragment may still turn out to begin inside the delivered text, because that contains all of it.
    pub fn may_repeat(&self, _delivered: &str, fragment: &[u8]) -> bool {
        let Some(content) = fragment.get(self.begin..) else { return false };
        if content.len() >= EVIDENCE {
            return self.places() > 0;
        }
        self.content.piece.is_some() || self.content.at_root || self.anchor.pattern().starts_with(content)
    }

    /// Whether the fragment begins like the anchor and may go on with the rest of it. O(1).
    pub fn may_be_anchor(&self, fragment: &[u8]) -> bool {
        let length = fragment.len().saturating_sub(self.begin);
        length < self.anchor.pattern().len() && self.anchor.matched() >= length
    }

    /// Whether all of the fragment occurs in exactly one place of the delivered text and is long enough to be evidence.
    pub fn is_repeat(&self) -> bool {
        self.content.length >= EVIDENCE && self.places() == 1
    }

    fn read(&mut self, delivered: &str, byte: u8) {
        let content = &mut self.content;
        let expected = delivered.as_bytes()[..self.end].get(self.root + content.length);
        content.at_root &= expected == Some(&byte);
        content.length += 1;
        content.characters += usize::from(byte & 0xc0 != 0x80);
        if content.piece.as_mut().is_some_and(|piece| !self.tail.extend(piece, byte)) {
            content.piece = None;
        }
    }

    /// Whether the content is everything from the root on.
    fn is_all(&self, content: Content) -> bool {
        content.at_root && self.root + content.length == self.end
    }

    /// Returns in how many places of the delivered text the content occurs and could go on; counting stops at
    /// [`Occurrences::MANY`](super::Occurrences::MANY).
    fn places(&self) -> usize {
        let content = self.content;
        let in_tail =
            content.piece.map_or(0, |piece| self.tail.occurrences(piece).count - usize::from(self.tail.is_end(piece)));
        in_tail + usize::from(content.at_root && !self.is_all(content))
    }

    /// Returns the hit if the content is the end of the delivered text.
    fn overlap(&self, delivered: &str) -> Option<Hit> {
        let content = self.content;
        let start = self.end - content.length;
        let has_anchor = start <= self.anchor_start;
        let Some(text) = delivered.get(start..self.end) else {
            // The place is inside a character.
            return has_anchor.then_some(Hit::Overlap { start, has_anchor, is_evidence: false, is_likely: true });
        };
        let in_tail = content.piece.map_or(0, |piece| self.tail.occurrences(piece).count);
        let alone = content.length >= EVIDENCE && in_tail + usize::from(content.at_root) == 1;
        let is_evidence = alone
            && content.characters >= EVIDENCE
            && match content.piece {
                Some(_) => content.border.1 < (content.characters / 4).max(8),
                // The content is longer than the tail, and its border may be too.
                None => is_unbordered(text),
            };
        let known = Known {
            characters: content.characters,
            period: content.length - content.border.0,
            has_word: self.last_word.is_some_and(|word| word >= start),
        };
        let is_likely = has_anchor || is_evidence || may_begin_again(&delivered[..start], text, known);
        let is_told = is_likely || content.border.0 > 0;
        is_told.then_some(Hit::Overlap { start, has_anchor, is_evidence, is_likely })
    }
}

impl Content {
    fn new(at_root: bool) -> Self {
        Self { length: 0, characters: 0, piece: Some(Cursor::default()), at_root, border: (0, 0) }
    }
}

/// What is known of a repeated tail before its text is examined.
#[derive(Clone, Copy)]
struct Known {
    characters: usize,
    /// Its length without its longest border.
    period: usize,
    /// Whether it contains a letter or a digit.
    has_word: bool,
}

/// Whether a model may have begun again at a repeated tail that is not evidence: the tail must be longer than chance
/// explains and contain a letter or a digit. Not where the tail goes on as the text before it did, or repeats itself:
/// there the next row is as likely.
fn may_begin_again(before: &str, tail: &str, known: Known) -> bool {
    let Known { characters, period, has_word } = known;
    let is_token = || !before.ends_with(|c| is_word(c) || matches!(c, '.' | '-' | '+'));
    let two_digits = || characters == 2 && tail.bytes().all(|byte| byte.is_ascii_digit()) && is_token();
    if !(characters >= CHANCE && has_word || two_digits()) {
        return false;
    }
    let goes_on = || tail.get(..period).is_some_and(|row| before.trim_end().ends_with(row.trim_end()));
    2 * period > tail.len() && !goes_on()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::super::anchor::longest_border;
    use super::*;

    fn may_begin_again(before: &str, tail: &str) -> bool {
        let period = tail.len() - longest_border(tail.as_bytes());
        let known = Known { characters: tail.chars().count(), period, has_word: tail.contains(is_word) };
        super::may_begin_again(before, tail, known)
    }

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
            // It contains no letter or digit.
            ("\"", "\": \""),
            // It repeats itself.
            ("[0,", "0,0,"),
            // The row before it is the same.
            ("[12, ", "12, "),
            ("{\"a\":1},", "{\"a\":1},"),
        ] {
            assert!(!may_begin_again(before, tail), "{before:?} {tail:?}");
        }
    }
}
