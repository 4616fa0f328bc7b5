//! A suffix automaton: all pieces of a text, in a form that reads other text byte by byte.
//!
//! A state stands for pieces that end in the same places. The states up to the text's length are its positions: `i` is
//! where its first `i` bytes lead, and the transition to `i + 1` is implied by the text. Behind them come the clones,
//! which stand for pieces that occur in several places. It knows bytes alone, no characters and no anchors.

use std::fmt;

use super::edges::Edges;

/// All pieces of one text. About 50 bytes for a byte of JSON or prose, built in linear time.
///
/// ```
/// use restitch::overlap::{Automaton, Cursor};
///
/// let automaton = Automaton::new(b"banana");
/// let mut cursor = Cursor::default();
/// for &byte in b"Havana" {
///     automaton.step(&mut cursor, byte);
/// }
/// // "ana" is the longest end of "Havana" that stands in "banana": twice, and once at its end.
/// assert_eq!(cursor.length(), 3);
/// let found = automaton.occurrences(cursor);
/// assert_eq!((found.count, found.first_end, found.last_end), (2, 4, 6));
/// assert!(automaton.is_end(cursor));
/// ```
#[derive(Clone)]
pub struct Automaton {
    text: Vec<u8>,
    edges: Edges,
    /// For each state the one of its pieces' longest end that occurs in more places.
    links: Vec<u32>,
    /// The first state on the way along the links that has more edges. Each has those of the one before: where a byte
    /// leads nowhere, it leads nowhere from those with the same edges, and no step is longer than the alphabet.
    skips: Vec<u32>,
    /// Where a state's pieces end last, and from the bit [`COUNT`] on how often they occur.
    seen: Vec<u32>,
    clones: Vec<Cloned>,
}

/// What can't be told from a clone's number.
#[derive(Clone, Copy)]
struct Cloned {
    /// Of its longest piece.
    length: u32,
    first_end: u32,
}

/// The longest end of what was read that is a piece of the automaton's text. A new one has read nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    state: u32,
    length: u32,
}

impl Cursor {
    /// Its bytes.
    pub fn length(self) -> usize {
        self.length as usize
    }
}

/// Where a piece stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrences {
    /// In how many places, at most [`Occurrences::MANY`]; overlapping ones count.
    pub count: usize,
    /// Offset behind the first one.
    pub first_end: usize,
    /// Offset behind the last one.
    pub last_end: usize,
}

impl Occurrences {
    /// As many, or more: the count goes no further.
    pub const MANY: usize = 3;
}

const COUNT: u32 = 30;
const LAST_END: u32 = (1 << COUNT) - 1;
/// The way along the links is over.
const NOWHERE: u32 = u32::MAX;
/// It is not known yet how far the way along the links can be cut short.
const UNKNOWN: u32 = u32::MAX - 1;

impl Automaton {
    /// The longest text in bytes, 16 MiB; of a longer one the end is taken.
    pub const LONGEST: usize = 16 << 20;

    /// The automaton of a text's pieces. O(text).
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
            skips: Vec::new(),
            seen: Vec::new(),
            clones: Vec::with_capacity(positions),
        };
        // Edges of each state; the first ones are those that the text implies.
        let mut degrees = Vec::with_capacity(2 * positions);
        degrees.resize(text.len(), 1);
        degrees.push(0);
        for (at, &byte) in text.iter().enumerate().skip(1) {
            automaton.append(at as u32, byte, &mut degrees);
        }
        automaton.edges.shrink();
        automaton.links.shrink_to_fit();
        automaton.clones.shrink_to_fit();
        automaton.count();
        automaton.cut_short(&degrees);
        automaton
    }

    /// Reads a byte. Amortised O(1), and never longer than the number of different bytes in the text.
    #[inline]
    pub fn step(&self, cursor: &mut Cursor, byte: u8) {
        self.step_counted(cursor, byte);
    }

    /// The same; how many states were looked at.
    #[doc(hidden)]
    #[inline]
    pub fn step_counted(&self, cursor: &mut Cursor, byte: u8) -> usize {
        let mut looks = 1;
        while !self.extend(cursor, byte) {
            let state = self.skips[cursor.state as usize];
            if state == NOWHERE {
                *cursor = Cursor::default();
                break;
            }
            *cursor = Cursor { state, length: self.length(state) };
            looks += 1;
        }
        looks
    }

    /// Reads a byte if what the cursor stands for and the byte are a piece of the text, too. O(1).
    #[inline]
    pub fn extend(&self, cursor: &mut Cursor, byte: u8) -> bool {
        let target = self.target(cursor.state, byte);
        if target != 0 {
            *cursor = Cursor { state: target, length: cursor.length + 1 };
        }
        target != 0
    }

    /// Where it stands. O(1).
    #[inline]
    pub fn occurrences(&self, cursor: Cursor) -> Occurrences {
        let seen = self.seen[cursor.state as usize];
        let (count, last_end) = ((seen >> COUNT) as usize, (seen & LAST_END) as usize);
        Occurrences { count, first_end: self.first_end(cursor.state) as usize, last_end }
    }

    /// It is the end of the text, and so is each of its own ends. O(1).
    #[inline]
    pub fn is_end(&self, cursor: Cursor) -> bool {
        (self.seen[cursor.state as usize] & LAST_END) as usize == self.text.len()
    }

    /// Bytes of memory.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let numbers = self.links.capacity() + self.skips.capacity() + self.seen.capacity();
        let clones = size_of::<Cloned>() * self.clones.capacity();
        self.text.capacity() + self.edges.size() + size_of::<u32>() * numbers + clones
    }

    #[inline]
    fn target(&self, state: u32, byte: u8) -> u32 {
        if self.text.get(state as usize) == Some(&byte) { state + 1 } else { self.edges.get(state, byte) }
    }

    /// Of the longest piece of a state.
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

    /// Adds the pieces that end with the byte at `at`, as Blumer and others have it. The transition to the new state
    /// from the one before is there already.
    fn append(&mut self, at: u32, byte: u8, degrees: &mut Vec<u16>) {
        let new = at + 1;
        let mut state = self.links[at as usize];
        let target = loop {
            let target = self.target(state, byte);
            if target != 0 {
                break target;
            }
            self.edges.set(state, byte, new);
            degrees[state as usize] += 1;
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
        // Of the target's pieces the shorter ones end here as well: they get a state of their own.
        let clone = self.links.len() as u32;
        self.edges.copy(target);
        if let Some(&implied) = self.text.get(target as usize) {
            self.edges.set(clone, implied, target + 1);
        }
        self.clones.push(Cloned { length, first_end: self.first_end(target) });
        self.links.push(self.links[target as usize]);
        degrees.push(degrees[target as usize]);
        self.links[target as usize] = clone;
        self.links[new as usize] = clone;
        // A transition that the text implies comes from the longest piece there is: it is never led elsewhere.
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

    /// Each position is an occurrence of all states on the way along the links; where there are enough already, there
    /// are enough on the rest of the way. They come from the last one on, so the first to arrive is a state's last end.
    fn count(&mut self) {
        let many = Occurrences::MANY as u32;
        let length = self.text.len() as u32;
        self.seen = vec![0; self.links.len()];
        // The empty piece stands before, between and behind all bytes.
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

    fn cut_short(&mut self, degrees: &[u16]) {
        self.skips = vec![UNKNOWN; self.links.len()];
        self.skips[0] = NOWHERE;
        let mut waiting = Vec::new();
        for position in 1..=self.text.len() {
            let mut state = position;
            while self.skips[state] == UNKNOWN {
                waiting.push(state);
                state = self.links[state] as usize;
            }
            while let Some(state) = waiting.pop() {
                let link = self.links[state];
                let same = degrees[link as usize] == degrees[state];
                self.skips[state] = if same { self.skips[link as usize] } else { link };
            }
        }
    }
}

/// Its text, not its states.
impl fmt::Debug for Automaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Automaton").field("text", &String::from_utf8_lossy(&self.text)).finish_non_exhaustive()
    }
}
