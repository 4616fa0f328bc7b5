//! Finds, byte by byte, where a fragment repeats the delivered text verbatim.
//!
//! Looks for the anchor, wherever it ends in the fragment, and for the offset in the delivered text
//! from which the fragment's content repeats it. The matcher only reports its hits; the caller
//! decides whether they count.

use std::ops::Range;

use memchr::memmem;

use super::anchor::WHITE;
use super::borders::Borders;
use crate::work;

/// A matcher of one fragment against one delivered text. The delivered text is lent with every call
/// and must not change before its end. It ends where its trailing JSON white space begins.
///
/// ```
/// use restitch::internal::overlap::Matcher;
///
/// let delivered = "[\"one\", \"two\", \"thr";
/// let mut matcher = Matcher::new(delivered, 8..19, 0, 1024);
/// let fragment = b"\"two\", \"three\"]";
/// let found = (1..=fragment.len()).find_map(|end| matcher.feed(delivered, &fragment[..end]).overlap);
/// assert_eq!(found, Some(8));
/// ```
#[derive(Clone, Debug)]
pub struct Matcher {
    anchor: Vec<u8>,
    /// The borders of the anchor, and how many of its bytes the fragment ends with.
    anchor_borders: Borders,
    anchored: usize,
    /// The bytes of the fragment in which the anchor was searched.
    searched: usize,
    /// The end of the delivered text, without white space.
    end: usize,
    root: usize,
    /// The start of the part of the delivered text in which a repeat may begin. The root may
    /// precede it.
    window: usize,
    /// The offset of the fragment's content.
    begin: usize,
    content: ContentMatch,
}

/// The hits that end with one byte of a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The start of the anchor in the fragment, if the anchor ends with the byte.
    pub anchor: Option<usize>,
    /// Where the content begins in the delivered text, if the delivered text ends with the whole
    /// content.
    pub overlap: Option<usize>,
}

/// Text that was taken as one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Where it ends in the fragment.
    pub(crate) end: usize,
    /// The last end of a character up to which the content may repeat delivered text; the start of
    /// the run if there is none.
    pub(crate) kept: usize,
    /// The hits that end with its last byte.
    pub(crate) hits: Hits,
}

/// The content that was read. Its bytes are not kept: the delivered text has the same bytes at its
/// place.
#[derive(Clone, Debug)]
struct ContentMatch {
    length: usize,
    /// The leftmost offset at which the delivered text continues after the same bytes. Without one,
    /// nothing more is read.
    place: Option<usize>,
    /// The borders of its beginnings, up to the length that a search has needed.
    borders: Borders,
    hash: u64,
    /// The hash of the last `length` bytes of the delivered text.
    tail_hash: u64,
    /// `BASE` to the power of `length`.
    power: u64,
    /// The length at the last overlap, and how many bytes longer that was than the overlap before
    /// it.
    overlap: usize,
    gap: usize,
}

impl Matcher {
    /// Creates a matcher for a fragment that follows `delivered`. A repeat may begin in the last
    /// `window` bytes, or at `root`. The part of the anchor that precedes the root is its envelope,
    /// and does not count.
    pub fn new(delivered: &str, anchor: Range<usize>, root: usize, window: usize) -> Self {
        let end = delivered.trim_end_matches(WHITE).len();
        let root = root.min(end);
        let anchor = delivered
            .get(anchor.start.max(root)..anchor.end)
            .unwrap_or_default();
        let mut anchor_borders = Borders::default();
        anchor_borders.extend(anchor.as_bytes());
        Self {
            anchor: anchor.as_bytes().to_vec(),
            anchor_borders,
            anchored: 0,
            searched: 0,
            end,
            root,
            window: root.max(end.saturating_sub(window)),
            begin: 0,
            content: ContentMatch::new((root < end).then_some(root)),
        }
    }

    /// Sets where the fragment's content begins: the text before `offset` is an envelope.
    pub fn begin(&mut self, offset: usize) {
        self.begin = offset;
        self.content = ContentMatch::new((self.root < self.end).then_some(self.root));
    }

    /// Takes the last byte of `fragment`, the text of the fragment up to now; returns the hits that
    /// end with that byte. Amortised O(1): all bytes of one content together read the window a
    /// bounded number of times.
    pub fn feed(&mut self, delivered: &str, fragment: &[u8]) -> Hits {
        if fragment.len() <= self.searched {
            (self.anchored, self.searched) = (0, 0);
        }
        let mut anchor = None;
        for &byte in fragment.get(self.searched..).unwrap_or_default() {
            anchor = self.ends_anchor(byte);
        }
        let mut overlap = None;
        if self.may_repeat() {
            let text = delivered.as_bytes().get(..self.end).unwrap_or_default();
            for &byte in fragment
                .get(self.begin + self.content.length..)
                .unwrap_or_default()
            {
                overlap = self.read(text, byte);
            }
        }
        Hits { anchor, overlap }
    }

    /// Takes the bytes of `fragment` from `from` on, and stops after the first character at which a
    /// hit ends or the content leaves its place. Overlaps are reported if they are `wanted`.
    pub(crate) fn run(
        &mut self,
        delivered: &str,
        fragment: &str,
        from: usize,
        wanted: bool,
    ) -> Run {
        let text = delivered.as_bytes().get(..self.end).unwrap_or_default();
        let bytes = fragment.as_bytes();
        let (mut hits, mut end, mut kept) = (Hits::default(), from, from);
        let place = self.content.place;
        while let Some(&byte) = bytes.get(end) {
            let is_over = hits != Hits::default() || self.content.place != place;
            if is_over && fragment.is_char_boundary(end) {
                break;
            }
            hits.overlap = self.read(text, byte).filter(|_| wanted);
            end += 1;
            hits.anchor = self.ends_anchor(byte);
            if self.may_repeat() && fragment.is_char_boundary(end) {
                kept = end;
            }
        }
        Run { end, kept, hits }
    }

    /// Whether all of the content so far occurs in the delivered text before its end, so that the
    /// content may still turn out to begin there. Empty content does.
    pub fn may_repeat(&self) -> bool {
        self.content.place.is_some()
    }

    /// Returns the leftmost offset in the delivered text at which all of the content occurs before
    /// its end.
    pub fn occurrence(&self) -> Option<usize> {
        self.content.place
    }

    /// Whether all of the content of `fragment` is a proper beginning of the anchor.
    pub fn may_be_anchor(&self, fragment: &[u8]) -> bool {
        let content = fragment.get(self.begin..).unwrap_or_default();
        self.begins_anchor(content)
    }

    /// Whether `text` is a proper beginning of the anchor.
    pub fn begins_anchor(&self, text: &[u8]) -> bool {
        text.len() < self.anchor.len() && self.anchor.starts_with(text)
    }

    /// Takes the next byte of the fragment; returns where the anchor begins in it, if it ends with
    /// the byte.
    fn ends_anchor(&mut self, byte: u8) -> Option<usize> {
        self.searched += 1;
        self.anchored = self
            .anchor_borders
            .follow(&self.anchor, self.anchored, byte);
        let is_whole = !self.anchor.is_empty() && self.anchored == self.anchor.len();
        is_whole.then(|| self.searched - self.anchor.len())
    }

    /// Takes the next byte of the content; returns where the content begins if `text` ends with it.
    /// Text can only end with it if the bytes before this byte have a place.
    fn read(&mut self, text: &[u8], byte: u8) -> Option<usize> {
        let place = self.content.place?;
        let before = text.get(place..place + self.content.length)?;
        let start = text.len().checked_sub(before.len() + 1)?;
        let overlaps = if start < self.window {
            // Only content that begins at the root is longer than the window.
            start == self.root && text.last() == Some(&byte)
        } else {
            self.content.overlaps(text, before, byte)
        };
        self.content.length += 1;
        let goes_on = text.get(place + before.len()) == Some(&byte) && place < start;
        if !goes_on {
            self.content.place = self.next_place(text, place, before, byte);
        }
        overlaps.then_some(start)
    }

    /// Returns the first offset after `place` at which `before`, which occurs at `place`, and then
    /// `byte` occur before the end of the text.
    fn next_place(&mut self, text: &[u8], place: usize, before: &[u8], byte: u8) -> Option<usize> {
        let text = text.get(..text.len().checked_sub(1)?)?;
        let from = self.window.max(place + 1);
        if before.len() < SHORT {
            // A search for so few bytes reads none more often than that, whatever the text is.
            let content = [before, &[byte]].concat();
            let found = memmem::find(text.get(from..)?, &content).map(|further| from + further);
            work::steps(found.unwrap_or(text.len()).saturating_sub(from) + content.len());
            return found;
        }
        // A search that began anew each time would read the window once for each place that the
        // content leaves, which can be once for each byte if both texts repeat themselves. This
        // search continues after the text that it has read.
        let (mut at, mut length) = (from, 0);
        if place >= self.window {
            at = place + before.len();
            self.content.borders.extend(before);
            length = self.content.borders.of(before.len());
        }
        // In most cases the end of the content occurs nowhere. If it does occur, the search has to
        // read up to it anyway.
        for tail in [2, SHORT] {
            let end = [before.get(before.len() + 1 - tail..)?, &[byte]].concat();
            let begin = (at + 1).saturating_sub(tail).max(from);
            let found = memmem::find(text.get(begin..)?, &end);
            work::steps(found.unwrap_or(text.len() - begin) + end.len());
            found?;
        }
        while text.len().saturating_sub(at) > before.len() - length {
            let next = *text.get(at)?;
            if length == before.len() && next == byte {
                return Some(at - length);
            }
            self.content
                .borders
                .extend(before.get(..=length).unwrap_or(before));
            length = self.content.borders.follow(before, length, next);
            at += 1;
            work::steps(1);
        }
        None
    }
}

impl ContentMatch {
    fn new(place: Option<usize>) -> Self {
        Self {
            length: 0,
            place,
            borders: Borders::default(),
            hash: 0,
            tail_hash: 0,
            power: 1,
            overlap: 0,
            gap: 0,
        }
    }

    /// Adds `byte` to the hashes; whether `text` ends with the content, which is `before` and
    /// `byte`.
    fn overlaps(&mut self, text: &[u8], before: &[u8], byte: u8) -> bool {
        let length = before.len() + 1;
        let tail = &text[text.len() - length..];
        self.hash = multiply_add(self.hash, BASE, byte.into());
        self.tail_hash = multiply_add(self.power, tail[0].into(), self.tail_hash);
        self.power = multiply_add(self.power, BASE, 0);
        if self.hash != self.tail_hash || tail.last() != Some(&byte) {
            return false;
        }
        let (last, gap) = (self.overlap, length - self.overlap);
        work::steps(if gap == self.gap { 2 * gap } else { length });
        let is_equal = if gap == self.gap {
            // The content repeated itself with this period up to the last overlap, and still equals
            // the end of the tail to that point: only one more period is compared. Texts of zeros
            // overlap at every byte.
            before[last..] == before[last - gap..last - 1] && before[..gap] == tail[..gap]
        } else {
            *before == tail[..before.len()]
        };
        if is_equal {
            (self.overlap, self.gap) = (length, gap);
        }
        is_equal
    }
}

/// The length of the contents, and of the ends of longer ones, that are searched in vectors of
/// bytes.
const SHORT: usize = 32;

/// Hashes are polynomials of this base modulo 2^64. Equal hashes are confirmed by a comparison of
/// the bytes.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns `a * b + c`.
fn multiply_add(a: u64, b: u64, c: u64) -> u64 {
    a.wrapping_mul(b).wrapping_add(c)
}
