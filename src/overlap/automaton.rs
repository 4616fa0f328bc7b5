//! A suffix automaton: all substrings of a text, in a form that reads other text byte by byte.
//!
//! A state stands for substrings that end at the same places. The states up to the text's length are its positions: its
//! first `i` bytes lead to `i`, and the transition to `i + 1` is implied by the text. After them come the clones, which
//! stand for substrings that occur in several places. The automaton knows bytes, no characters and no anchors.

use std::fmt;

use super::edges::Edges;

/// All substrings of one text. About 50 bytes of memory for a byte of JSON or prose, built in linear time.
///
/// ```
/// use restitch::internal::overlap::{Automaton, Cursor};
///
/// let automaton = Automaton::new(b"banana");
/// let mut cursor = Cursor::default();
/// for &byte in b"ana" {
///     assert!(automaton.extend(&mut cursor, byte));
/// }
/// // "ana" occurs twice in "banana", once at its end; "anab" does not.
/// assert!(!automaton.extend(&mut cursor, b'b'));
/// let found = automaton.occurrences(cursor);
/// assert_eq!((found.count, found.first_end, found.last_end), (2, 4, 6));
/// assert!(automaton.is_end(cursor));
/// ```
#[derive(Clone)]
pub struct Automaton {
    text: Vec<u8>,
    edges: Edges,
    /// For each state: the state of the longest suffix of its substrings that occurs in more places.
    links: Vec<u32>,
    /// Where a state's substrings end last, and from the bit [`COUNT`] on how often they occur.
    seen: Vec<u32>,
    clones: Vec<Cloned>,
}

/// What a clone's number does not tell.
#[derive(Clone, Copy)]
struct Cloned {
    /// The length of its longest substring.
    length: u32,
    first_end: u32,
}

/// The substring of the automaton's text that was read. A new cursor has read nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    state: u32,
    length: u32,
}

impl Cursor {
    /// Returns its number of bytes.
    pub fn length(self) -> usize {
        self.length as usize
    }
}

/// The places of a substring in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrences {
    /// The number of places, at most [`Occurrences::MANY`]; overlapping ones count.
    pub count: usize,
    /// The offset after the first one.
    pub first_end: usize,
    /// The offset after the last one.
    pub last_end: usize,
}

impl Occurrences {
    /// So many or more: counting stops here.
    pub const MANY: usize = 3;
}

const COUNT: u32 = 30;
const LAST_END: u32 = (1 << COUNT) - 1;

impl Automaton {
    /// The longest text in bytes, 16 MiB; of a longer one the end is taken.
    pub const LONGEST: usize = 16 << 20;

    /// Builds the automaton of a text. O(text).
    pub fn new(text: &[u8]) -> Self {
        let text = &text[text.len().saturating_sub(Self::LONGEST)..];
        let positions = text.len() + 1;
        let room = |value: u32| {
            let mut states = Vec::with_capacity(2 * positions);
            states.resize(positions, value);
            states
        };
        let mut automaton = Self {
            text: text.to_vec(),
            edges: Edges::new(text),
            links: room(0),
            seen: Vec::new(),
            clones: Vec::with_capacity(positions),
        };
        for (at, &byte) in text.iter().enumerate().skip(1) {
            automaton.append(at as u32, byte);
        }
        automaton.edges.shrink();
        automaton.links.shrink_to_fit();
        automaton.clones.shrink_to_fit();
        automaton.count();
        automaton
    }

    /// Reads a byte, if the substring read so far and the byte are a substring of the text, too; returns whether it
    /// did. O(1).
    #[inline]
    pub fn extend(&self, cursor: &mut Cursor, byte: u8) -> bool {
        let target = self.target(cursor.state, byte);
        if target != 0 {
            *cursor = Cursor { state: target, length: cursor.length + 1 };
        }
        target != 0
    }

    /// Returns where the substring occurs. O(1).
    #[inline]
    pub fn occurrences(&self, cursor: Cursor) -> Occurrences {
        let seen = self.seen[cursor.state as usize];
        let (count, last_end) = ((seen >> COUNT) as usize, (seen & LAST_END) as usize);
        Occurrences { count, first_end: self.first_end(cursor.state) as usize, last_end }
    }

    /// Whether the text ends with the substring. O(1).
    #[inline]
    pub fn is_end(&self, cursor: Cursor) -> bool {
        (self.seen[cursor.state as usize] & LAST_END) as usize == self.text.len()
    }

    /// Returns the bytes of memory.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let numbers = self.links.capacity() + self.seen.capacity();
        let clones = size_of::<Cloned>() * self.clones.capacity();
        self.text.capacity() + self.edges.size() + size_of::<u32>() * numbers + clones
    }

    #[inline]
    fn target(&self, state: u32, byte: u8) -> u32 {
        if self.text.get(state as usize) == Some(&byte) { state + 1 } else { self.edges.get(state, byte) }
    }

    /// Returns the length of the longest substring of a state.
    #[inline]
    fn length(&self, state: u32) -> u32 {
        self.cloned(state).map_or(state, |clone| clone.length)
    }

    #[inline]
    fn first_end(&self, state: u32) -> u32 {
        self.cloned(state).map_or(state, |clone| clone.first_end)
    }

    #[inline]
    fn cloned(&self, state: u32) -> Option<&Cloned> {
        (state as usize).checked_sub(self.text.len() + 1).map(|clone| &self.clones[clone])
    }

    /// Adds the substrings that end with the byte at `at` (Blumer et al.). The transition from the state before to the
    /// new one is there already.
    fn append(&mut self, at: u32, byte: u8) {
        let new = at + 1;
        let mut state = self.links[at as usize];
        let target = loop {
            let target = self.target(state, byte);
            if target != 0 {
                break target;
            }
            self.edges.set(state, byte, new);
            if state == 0 {
                return;
            }
            state = self.links[state as usize];
        };
        let length = self.length(state) + 1;
        if self.length(target) == length {
            self.links[new as usize] = target;
            return;
        }
        // The target's shorter substrings end here as well: they get a state of their own.
        let clone = self.links.len() as u32;
        self.edges.copy(target);
        if let Some(&implied) = self.text.get(target as usize) {
            self.edges.set(clone, implied, target + 1);
        }
        self.clones.push(Cloned { length, first_end: self.first_end(target) });
        self.links.push(self.links[target as usize]);
        self.links[target as usize] = clone;
        self.links[new as usize] = clone;
        // A transition that the text implies comes from the longest substring there is and is never changed.
        loop {
            self.edges.set(state, byte, clone);
            if state == 0 {
                return;
            }
            state = self.links[state as usize];
            if self.target(state, byte) != target {
                return;
            }
        }
    }

    /// Each position is an occurrence of all states on the way along the links; where enough are counted already,
    /// enough are counted on the rest of the way. Positions come last first, so the first to arrive is a state's last
    /// end.
    fn count(&mut self) {
        let many = Occurrences::MANY as u32;
        let length = self.text.len() as u32;
        self.seen = vec![0; self.links.len()];
        // The empty substring occurs before, between and after all bytes.
        self.seen[0] = many.min(length + 1) << COUNT | length;
        for end in (1..=length).rev() {
            let mut state = end as usize;
            while self.seen[state] >> COUNT < many {
                let seen = self.seen[state].max(end);
                self.seen[state] = seen + (1 << COUNT);
                state = self.links[state] as usize;
                if state == 0 {
                    break;
                }
            }
        }
    }
}

/// Prints the text, not the states.
impl fmt::Debug for Automaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Automaton").field("text", &String::from_utf8_lossy(&self.text)).finish_non_exhaustive()
    }
}
