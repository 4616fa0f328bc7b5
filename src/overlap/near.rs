//! Finds the anchor where a model repeats it nearly: with a wrong character, other quotes, escapes or white space.

use std::ops::Add;

use super::fold::Fold;

/// The edits that make one text of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Edits {
    /// The number of edits. A digit in place of another counts twice: it makes another number.
    pub count: u32,
    /// Those of a character that JSON has between its tokens: they may make another value.
    pub structural: u32,
}

/// A search for an anchor that the content of a fragment begins with, nearly. Both are folded: white space does not
/// count, and quotes and escapes have one form each. The folded texts are compared by edit distance.
///
/// ```
/// use restitch::internal::overlap::{Edits, NearAnchor};
///
/// let mut near = NearAnchor::new("\"name\": \"Ada\\u2019s notes");
/// let ends = "\"name\":\n  “Ada's notes on".char_indices().filter_map(|(at, c)| Some((at, near.feed(c)?)));
/// assert_eq!(ends.min_by_key(|&(_, edits)| edits), Some((23, Edits::default())));
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
    /// The distances of these to the beginnings of the anchor, from `read - bound` to `read + bound` characters, and one
    /// more that is always too large.
    band: Vec<Edits>,
    /// Whether dots or quotes precede what was compared.
    has_lead: bool,
    /// The number of edits up to which an end is of interest: fewer than at the best end so far.
    wanted: Option<u32>,
}

/// Below this number of folded characters only equal text is the anchor: two edits make another text of it.
const SHORT: usize = 12;
/// The number of characters at the end that must be right: what follows them is new.
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
        let left_out =
            |length: usize| self.anchor.iter().take(length).fold(Edits::default(), |sum, &c| sum + Edits::of(c));
        let entry = |at: usize| at.checked_sub(bound).map_or(far, left_out);
        self.band = (0..=2 * bound).map(entry).chain([far]).collect();
        self.wanted = Some(bound as u32).filter(|_| !self.anchor.is_empty());
    }

    /// Takes the next character of the content; returns the edits if the anchor may have ended with it: at
    /// most two, or a tenth of its characters where that is more, and none in the last four.
    pub fn feed(&mut self, c: char) -> Option<Edits> {
        if self.is_over() {
            return None;
        }
        let before = self.fold;
        let mut folded = Vec::new();
        self.fold.push(c, &mut folded);
        folded.iter().for_each(|&c| self.take(c));
        // An anchor that ends inside an escape ends where the content is inside the same one.
        let has_moved = if self.end.is_inside_escape() { before != self.fold } else { !folded.is_empty() };
        if !has_moved || self.fold != self.end {
            return None;
        }
        let edits = self.edits().filter(|_| self.anchor.last_chunk().is_none_or(|last| *last == self.last))?;
        // A later end with no fewer edits repeats no more of the anchor.
        self.wanted.filter(|wanted| edits.count <= *wanted)?;
        self.wanted = edits.count.checked_sub(1);
        Some(edits)
    }

    /// Whether further characters make no difference: the content is longer than the anchor and all edits.
    pub(crate) fn is_over(&self) -> bool {
        self.wanted.is_none() || self.read > self.anchor.len() + self.bound()
    }

    /// Whether the content may still become the anchor. Once the anchor has ended: with fewer edits than there.
    pub fn is_alive(&self) -> bool {
        self.fewest_edits().is_some()
    }

    /// Returns the fewest edits with which the content may still become the anchor.
    pub(crate) fn fewest_edits(&self) -> Option<u32> {
        let (wanted, bound) = (self.wanted?, self.bound());
        let unread = (self.anchor.len() + bound).saturating_sub(self.read);
        let fewest = self.band.iter().take(unread).min()?.count + u32::from(self.has_lead);
        Some(fewest).filter(|&edits| edits <= wanted)
    }

    /// Returns the most edits.
    fn bound(&self) -> usize {
        let length = self.anchor.len();
        if length < SHORT { 0 } else { (length / 10).max(2) }
    }

    /// More edits than are of interest.
    fn far(&self) -> Edits {
        Edits::new(self.bound() as u32 + 1, 0)
    }

    /// Returns the edits between all that was compared and the anchor, if they are few enough.
    fn edits(&self) -> Option<Edits> {
        let bound = self.bound();
        let distance = self.band.get((self.anchor.len() + bound).checked_sub(self.read)?)?;
        Some(*distance + Edits::new(self.has_lead.into(), 0)).filter(|edits| edits.count as usize <= bound)
    }

    /// Compares the next folded character.
    fn take(&mut self, c: char) {
        let first = self.anchor.first().copied();
        if self.read == 0 && kind_of_lead(c).is_some() && kind_of_lead(c) != first.and_then(kind_of_lead) {
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
        let characters = self.anchor.get(self.read + begin - bound - 1..).unwrap_or_default();
        // The entry before it compares with none, and those before that one with less.
        let mut added = far;
        if let Some(none) = begin.checked_sub(1) {
            self.band[..none].fill(far);
            added = far.min(self.band[begin] + Edits::of(c));
            self.band[none] = added;
        }
        // An entry's diagonal is its old value, and the entries next to it lack or add a character.
        let entries = &mut self.band[begin..];
        for (at, &own) in characters.iter().enumerate().take(entries.len() - 1) {
            let (replaced, lacking) = (entries[at] + Edits::between(own, c), entries[at + 1] + Edits::of(c));
            added = replaced.min(lacking).min(added + Edits::of(own)).min(far);
            entries[at] = added;
        }
        self.band.iter_mut().skip(begin + characters.len()).for_each(|distance| *distance = far);
    }
}

impl Edits {
    fn new(count: u32, structural: u32) -> Self {
        Self { count, structural }
    }

    /// A character is added or left out.
    fn of(c: char) -> Self {
        Self::new(1, is_structural(c).into())
    }

    /// One character takes the place of the other.
    fn between(one: char, other: char) -> Self {
        if one == other {
            return Self::default();
        }
        let is_number = one.is_ascii_digit() && other.is_ascii_digit();
        Self::new(1 + u32::from(is_number), (is_structural(one) || is_structural(other)).into())
    }
}

impl Add for Edits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.count + other.count, self.structural + other.structural)
    }
}

/// Whether JSON has the character between its tokens: an edit of it may make another value.
fn is_structural(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

/// What models put before a text that they quote: `...`, or quotes of any kind. They count once.
fn kind_of_lead(c: char) -> Option<char> {
    match c {
        '.' => Some('.'),
        '"' | '\'' | '`' => Some('"'),
        _ => None,
    }
}
