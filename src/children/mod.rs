//! What stands beside an open value: the whole children of open containers, each with a digest of what it says.
//!
//! A digest is canonical: it is the same for any white space, escapes and order of members, and for any chunking. So a
//! value that comes again, perhaps formatted anew, is found without reading what was there. Two values that differ may
//! have one digest, by chance or by intent: it is no security boundary, and a hit is a candidate that [`same_value`]
//! decides.
//!
//! ```
//! use restitch::Document;
//! use restitch::children::{ChildIndex, digest_of, same_value};
//!
//! let (mut document, mut index) = (Document::new(64), ChildIndex::new(65_536));
//! document.push_with(r#"{"rows": [{"id": 1, "x": "é"}, {"id": 2}, {"id"#, &mut index)?;
//! assert_eq!(index.children(1).len(), 2);
//!
//! let again = r#"{"x":"\u00e9","id":1}"#;
//! let digest = digest_of(again).unwrap();
//! let row = index.find(1, digest).find(|row| same_value(row.span.of(document.text()), again)).unwrap();
//! assert_eq!(row.span.of(document.text()), r#"{"id": 1, "x": "é"}"#);
//! # Ok::<(), restitch::SyntaxError>(())
//! ```
//!
//! Keeps no text, and knows nothing of cuts and continuations.

mod digest;
mod index;
mod same;

use crate::json::{Event, Frame, Kind, Live, Sink, Span};
use digest::Children;
pub use digest::KeyHash;
use index::Index;
pub use same::same_value;

/// Remembers the whole children of open containers. What is in a child that is whole is forgotten, and so are the
/// children of a container that has ended: memory is for the open containers and, up to the limit, their children.
///
/// A string is read for its digest when it ends: nothing of it is kept before. A sink that is lent late remembers what it
/// sees, and knows [where that is not all](Self::remembers_all); from then on it must be lent for all pushes. Where a
/// document is [set back](crate::Document::restore), a clone that was taken together with the checkpoint goes on.
#[derive(Clone, Debug)]
pub struct ChildIndex {
    /// The open containers.
    levels: Vec<Level>,
    /// The children of the first level, then those of the second, and so on.
    children: Vec<Child>,
    index: Index,
    /// The same children, by their keys.
    keys: Index,
    limit: usize,
    root: Option<u64>,
}

/// A whole child of an open container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Of a member of an object: its key.
    pub key: Option<KeyHash>,
    /// The canonical digest of the value.
    pub digest: u64,
    /// The value's text, without its key.
    pub span: Span,
}

/// An open container.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Its bracket, by which it is known again.
    start: usize,
    /// Where its children begin.
    first: usize,
    /// Whole children, remembered or not.
    seen: usize,
    hash: Children,
    /// All children are in `hash`.
    is_hashed: bool,
    /// All children are remembered.
    is_remembered: bool,
}

impl ChildIndex {
    /// Remembers at most `limit` children over all open containers ([`Limits::max_children`](crate::Limits::max_children)); of
    /// a container with more, the first ones.
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(u32::MAX as usize - 1);
        Self {
            levels: Vec::new(),
            children: Vec::new(),
            index: Index::default(),
            keys: Index::default(),
            limit,
            root: None,
        }
    }

    /// The same, with room for as many children as `other` remembers: until there are more, no push takes long because
    /// something grows.
    pub(crate) fn with_room_of(other: &Self, limit: usize) -> Self {
        let room = other.children.len().min(limit);
        let (index, keys) = (Index::with_room(room), Index::with_room(room));
        Self { children: Vec::with_capacity(room), index, keys, ..Self::new(limit) }
    }

    /// How many containers are open.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The whole children of the open container at this depth, in their order; the root's depth is 0. Empty where none
    /// is open.
    pub fn children(&self, depth: usize) -> &[Child] {
        let Some(level) = self.levels.get(depth) else { return &[] };
        let end = self.levels.get(depth + 1).map_or(self.children.len(), |next| next.first);
        let children = self.children.get(level.first..end);
        debug_assert!(children.is_some(), "the children of level {depth} are {}..{end}", level.first);
        children.unwrap_or_default()
    }

    /// Every whole child of the open container at this depth is remembered. Not so where the limit was reached or
    /// pushes were missed, and where no container is open. What was missed is known as soon as a value ends or a
    /// container begins.
    pub fn remembers_all(&self, depth: usize) -> bool {
        self.levels.get(depth).is_some_and(|level| level.is_remembered)
    }

    /// The children of the open container at this depth that have this digest, newest first. Takes time for those
    /// that it gives, not for the others.
    pub fn find(&self, depth: usize, digest: u64) -> impl Iterator<Item = &Child> {
        let children = self.children(depth);
        let first = self.levels.get(depth).map_or(0, |level| level.first);
        let own = move |at: usize| at.checked_sub(first).and_then(|at| children.get(at));
        self.index.positions(place(depth, digest)).filter_map(own).filter(move |child| child.digest == digest)
    }

    /// The member of the open object at this depth that has this key; of several the last one. Takes no time for other
    /// members.
    pub fn member(&self, depth: usize, key: KeyHash) -> Option<&Child> {
        let children = self.children(depth);
        let first = self.levels.get(depth).map_or(0, |level| level.first);
        let own = move |at: usize| at.checked_sub(first).and_then(|at| children.get(at));
        self.keys.positions(place(depth, key.bits())).filter_map(own).find(|child| child.key == Some(key))
    }

    /// The digest of the root that ended last. `None` before, or if a part of it was missed.
    pub fn root(&self) -> Option<u64> {
        self.root
    }

    /// A child has ended, or the root; no digest where a part of it was missed.
    fn child(&mut self, digest: Option<u64>, span: Span, live: &Live<'_>) {
        self.stand_in(live.frames);
        let depth = live.frames.len();
        let Some((level, frame)) = self.levels.last_mut().zip(live.frames.last()) else {
            self.root = digest;
            return;
        };
        level.seen += 1;
        let Some(digest) = digest else {
            (level.is_hashed, level.is_remembered) = (false, false);
            return;
        };
        let key = (frame.kind == Kind::Object).then(|| KeyHash::of_raw(frame.key.of(live.text)));
        match key {
            Some(key) => level.hash.member(key, digest),
            None => level.hash.element(digest),
        }
        if self.children.len() < self.limit {
            self.children.push(Child { key, digest, span });
            self.index.push(place(depth - 1, digest));
            // Elements have no key: something that spreads keeps the chains short.
            self.keys.push(place(depth - 1, key.map_or(digest, KeyHash::bits)));
        } else {
            level.is_remembered = false;
        }
    }

    /// The digest of the innermost container, which ends with `count` children; none where one of them was missed.
    fn close(&mut self, kind: Kind, count: usize, start: usize, depth: usize) -> Option<u64> {
        self.truncate(depth + 1);
        let is_whole = |level: &&Level| level.start == start && level.seen == count && level.is_hashed;
        let level = *self.levels.get(depth).filter(is_whole)?;
        Some(if kind == Kind::Array { level.hash.finish_array() } else { level.hash.finish_object() })
    }

    /// Forgets the levels from `depth` on.
    fn truncate(&mut self, depth: usize) {
        if let Some(level) = self.levels.get(depth) {
            self.children.truncate(level.first);
            self.index.truncate(level.first);
            self.keys.truncate(level.first);
            self.levels.truncate(depth);
        }
    }

    /// Makes the levels those of `frames`, which they are where nothing was missed.
    fn stand_in(&mut self, frames: &[Frame]) {
        let is_same = match (self.levels.last(), frames.last()) {
            (Some(level), Some(frame)) => level.is(frame) && self.levels.len() == frames.len(),
            (own, theirs) => own.is_none() && theirs.is_none(),
        };
        if !is_same {
            self.catch_up(frames);
        }
    }

    /// Pushes were missed: what is not as it was is made anew. O(depth), once a gap.
    #[cold]
    fn catch_up(&mut self, frames: &[Frame]) {
        let same = self.levels.iter().zip(frames).take_while(|(level, frame)| level.is(frame)).count();
        self.truncate(same);
        for frame in frames.iter().skip(same) {
            let is_new = frame.count == 0;
            let level = Level::new(frame.start, self.children.len());
            self.levels.push(Level { seen: frame.count, is_hashed: is_new, is_remembered: is_new, ..level });
        }
    }
}

impl Level {
    fn new(start: usize, first: usize) -> Self {
        Self { start, first, seen: 0, hash: Children::default(), is_hashed: true, is_remembered: true }
    }

    fn is(&self, frame: &Frame) -> bool {
        self.start == frame.start && self.seen == frame.count
    }
}

impl Sink for ChildIndex {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        match event {
            Event::Begin { at, .. } => {
                self.stand_in(live.frames);
                self.levels.push(Level::new(at, self.children.len()));
            }
            Event::End { kind, count, span } => {
                let depth = live.frames.len();
                let digest = self.close(kind, count, span.start, depth);
                self.truncate(depth);
                self.child(digest, span, live);
            }
            Event::StringEnd(span) => self.child(Some(digest::of_string(same::inside(span).of(live.text))), span, live),
            Event::Scalar { kind, span } => self.child(Some(digest::of_scalar(kind, span.of(live.text))), span, live),
            Event::Key(_) | Event::StringBegin(_) | Event::Fragment(_) => {}
        }
    }
}

/// The canonical digest of the one value that `text` is, white space around it aside; `None` if it is none. It is what
/// [`Child::digest`] would be.
///
/// White space, the order of members and escapes make no difference; numbers count as they are written. It is the same
/// on every machine, but may be another in another version.
///
/// ```
/// use restitch::children::digest_of;
///
/// assert_eq!(digest_of(r#"{"a": [1], "b": "\u00e9"}"#), digest_of(r#"{"b":"é","a":[1]}"#));
/// assert_ne!(digest_of("1"), digest_of("1.0"));
/// assert_eq!(digest_of("[1"), None);
/// ```
pub fn digest_of(text: &str) -> Option<u64> {
    let mut index = ChildIndex::new(0);
    same::run(text, &mut index)?;
    index.root
}

/// Where a child of the container at this depth is found.
fn place(depth: usize, digest: u64) -> u32 {
    // The bits of a digest are even as they are; the depth keeps equal children of several containers apart.
    (digest >> 32) as u32 ^ (depth as u32).wrapping_mul(0x9e37_79b1)
}
