//! Finds the anchor where a model repeats it nearly: with a wrong character, other quotes, escapes
//! or white space.

use super::fold::Fold;
use crate::work;

/// The edits that make one text of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct EditCount {
    /// The number of edits. A digit that replaces another counts twice: it makes another number.
    pub count: u32,
    /// Those of a character that JSON has between its tokens: they may make another value.
    pub structural: u32,
}

/// A search for an anchor that the content of a fragment begins with, nearly. Both are folded:
/// white space does not count, and quotes and escapes have one spelling each. The folded texts are
/// compared by edit distance.
///
/// ```
/// use restitch::internal::overlap::{EditCount, NearAnchor};
///
/// let mut near = NearAnchor::new("\"name\": \"Ada\\u2019s notes");
/// let ends = "\"name\":\n  “Ada's notes on".char_indices().filter_map(|(at, c)| Some((at, near.feed(c)?)));
/// assert_eq!(ends.min_by_key(|&(_, edits)| edits), Some((23, EditCount::default())));
/// ```
#[derive(Clone, Debug)]
pub struct NearAnchor {
    /// The folded anchor.
    anchor: Vec<char>,
    /// The state of the fold at the end of the anchor, which may be inside an escape.
    end: Fold,
    fold: Fold,
    /// The last folded characters of the content.
    last: [char; SURE],
    /// The number of folded characters that were compared.
    read: usize,
    /// The distances of these to the beginnings of the anchor, from `read - bound` to
    /// `read + bound` characters, and one more that is always too large.
    band: Vec<Distance>,
    /// The smallest of the distances from which the end of the anchor can still be reached.
    fewest: Distance,
    /// The same, and the distance from all of the anchor: an escape may end without a further
    /// folded character.
    fewest_here: Distance,
    /// Whether dots or quotes precede the compared text.
    has_lead: bool,
    /// The number of edits up to which an end is of interest: fewer than at the best end so far.
    wanted: Option<u32>,
}

/// Below this number of folded characters only equal text is the anchor: two edits make it another
/// text.
// Two edits in eleven characters leave nine, which is a key and a quote: such text occurs in every
// row. tests/it/overlap.rs has both sides.
const SHORT: usize = 12;
/// The most edits: a tenth of the longest anchor that is requested at a cut. Each character is
/// compared with twice this number of the anchor's characters, so this bounds the work where a
/// retry asks for a longer anchor.
const MOST: usize = 204;
/// The number of characters at the end that must be right: the text after them is new.
// An edit in the last characters may be the first character of the new text, and then the seam
// would be a character off: silent damage. Four are enough to tell the edit from the end of the
// anchor; more would refuse anchors whose last word was retyped.
const SURE: usize = 4;

impl NearAnchor {
    /// Creates a search for `anchor`.
    pub fn new(anchor: &str) -> Self {
        let (mut end, mut folded) = (Fold::default(), Vec::new());
        anchor.chars().for_each(|c| end.push(c, &mut folded));
        let mut near = Self {
            anchor: folded,
            end,
            fold: Fold::default(),
            last: ['\0'; SURE],
            read: 0,
            band: Vec::new(),
            fewest: Distance::default(),
            fewest_here: Distance::default(),
            has_lead: false,
            wanted: None,
        };
        near.begin();
        near
    }

    /// Begins the content again.
    pub fn begin(&mut self) {
        let (bound, far) = (self.bound(), self.far());
        self.fold = Fold::default();
        (self.read, self.last, self.has_lead) = (0, ['\0'; SURE], false);
        let mut left_out = Distance::default();
        let own = self
            .anchor
            .iter()
            .map(|&c| Distance::of(c))
            .chain(std::iter::repeat(Distance::default()));
        let after = own.scan(&mut left_out, |sum, own| {
            Some(std::mem::replace(*sum, **sum + own))
        });
        self.band = std::iter::repeat_n(far, bound)
            .chain(after.take(bound + 1))
            .chain([far])
            .collect();
        (self.fewest, self.fewest_here) = (Distance::default(), Distance::default());
        self.wanted = Some(bound as u32).filter(|_| !self.anchor.is_empty());
    }

    /// Takes the next character of the content; returns the edits if the anchor may have ended with
    /// it: at most two, or a tenth of its characters where that is more, 204 at most, and none in
    /// the last four.
    pub fn feed(&mut self, c: char) -> Option<EditCount> {
        if self.is_over() {
            return None;
        }
        let before = self.fold;
        let mut folded = Vec::new();
        self.fold.push(c, &mut folded);
        folded.iter().for_each(|&c| self.take(c));
        // An anchor that ends inside an escape ends where the content is inside the same one.
        let has_moved = if self.end.is_inside_escape() {
            before != self.fold
        } else {
            !folded.is_empty()
        };
        if !has_moved || self.fold != self.end {
            return None;
        }
        let edits = self.edits().filter(|_| {
            self.anchor
                .last_chunk()
                .is_none_or(|last| *last == self.last)
        })?;
        // A later end with no fewer edits repeats no more of the anchor.
        self.wanted.filter(|wanted| edits.count <= *wanted)?;
        self.wanted = edits.count.checked_sub(1);
        Some(edits)
    }

    /// Whether further characters make no difference: the content can't become the anchor, or is
    /// longer than the anchor and all edits.
    pub(crate) fn is_over(&self) -> bool {
        self.wanted_of(self.fewest_here).is_none() || self.read > self.anchor.len() + self.bound()
    }

    /// Whether the content may still become the anchor, or, once the anchor has ended, may do so
    /// with fewer edits.
    pub fn is_alive(&self) -> bool {
        self.fewest_edits().is_some()
    }

    /// Returns the fewest edits with which the content may still become the anchor.
    pub(crate) fn fewest_edits(&self) -> Option<u32> {
        self.wanted_of(self.fewest)
    }

    /// Returns the edits of a distance, if they are not more than wanted.
    fn wanted_of(&self, distance: Distance) -> Option<u32> {
        let edits = distance.edits().count + u32::from(self.has_lead);
        Some(edits).filter(|&edits| self.wanted.is_some_and(|wanted| edits <= wanted))
    }

    /// Returns the most edits.
    fn bound(&self) -> usize {
        let length = self.anchor.len();
        if length < SHORT {
            0
        } else {
            (length / 10).clamp(2, MOST)
        }
    }

    /// More edits than are of interest.
    fn far(&self) -> Distance {
        Distance::new(self.bound() as u32 + 1, false)
    }

    /// Returns the edits between all that was compared and the anchor, if they are few enough.
    fn edits(&self) -> Option<EditCount> {
        let bound = self.bound();
        let distance = self
            .band
            .get((self.anchor.len() + bound).checked_sub(self.read)?)?;
        let edits = (*distance + Distance::new(self.has_lead.into(), false)).edits();
        Some(edits).filter(|edits| edits.count as usize <= bound)
    }

    /// Compares the next folded character.
    fn take(&mut self, c: char) {
        let first = self.anchor.first().copied();
        if self.read == 0
            && kind_of_lead(c).is_some()
            && kind_of_lead(c) != first.and_then(kind_of_lead)
        {
            self.has_lead = true;
            return;
        }
        self.last.rotate_left(1);
        self.last[SURE - 1] = c;
        self.read += 1;
        let (bound, far) = (self.bound(), self.far());
        if self.read > self.anchor.len() + bound {
            return;
        }
        // The first entry that compares with a character of the anchor, and that character.
        let begin = (bound + 1).saturating_sub(self.read);
        let characters = self
            .anchor
            .get(self.read + begin - bound - 1..)
            .unwrap_or_default();
        // The entry before it compares with none, and those before that one with less.
        let mut added = far;
        if let Some(none) = begin.checked_sub(1) {
            self.band[..none].fill(far);
            added = far.min(self.band[begin] + Distance::of(c));
            self.band[none] = added;
        }
        // An entry's diagonal is its old value, and the entries next to it lack or add a character.
        let entries = &mut self.band[begin..];
        for (at, &own) in characters.iter().enumerate().take(entries.len() - 1) {
            let (replaced, lacking) = (
                entries[at] + Distance::between(own, c),
                entries[at + 1] + Distance::of(c),
            );
            added = replaced
                .min(lacking)
                .min(added + Distance::of(own))
                .min(far);
            entries[at] = added;
        }
        self.band
            .iter_mut()
            .skip(begin + characters.len())
            .for_each(|distance| *distance = far);
        let unread = (self.anchor.len() + bound).saturating_sub(self.read);
        self.fewest = self.band.iter().take(unread).copied().min().unwrap_or(far);
        self.fewest_here = self
            .band
            .get(unread)
            .copied()
            .unwrap_or(far)
            .min(self.fewest);
        work::steps(self.band.len());
    }
}

/// Edits in one number, which is compared and added at once: their count in the upper half, those
/// of the structure in the lower one. There are never more than [`MOST`] and a few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Distance(u32);

impl Distance {
    fn new(count: u32, is_structural: bool) -> Self {
        Self(count << 16 | u32::from(is_structural))
    }

    /// A character is added or left out.
    fn of(c: char) -> Self {
        Self::new(1, is_structural(c))
    }

    /// One character replaces the other.
    fn between(one: char, other: char) -> Self {
        if one == other {
            return Self::default();
        }
        let is_number = one.is_ascii_digit() && other.is_ascii_digit();
        Self::new(
            1 + u32::from(is_number),
            is_structural(one) || is_structural(other),
        )
    }

    fn edits(self) -> EditCount {
        EditCount {
            count: self.0 >> 16,
            structural: self.0 & 0xffff,
        }
    }
}

impl std::ops::Add for Distance {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// Whether JSON has the character between its tokens: an edit of it may make another value.
fn is_structural(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

/// Characters that models put before a quoted text: `...`, or any quotes. They count once.
fn kind_of_lead(c: char) -> Option<char> {
    match c {
        '.' => Some('.'),
        '"' | '\'' | '`' => Some('"'),
        _ => None,
    }
}
