//! The complete children of open containers, each with a digest of its value.
//!
//! A digest is canonical: it does not depend on white space, escapes, the order of members or the
//! chunking. So a value that is received again, perhaps reformatted, is found without reading the
//! delivered text. Values that differ may have the same digest: by intent, since a digest is not a
//! security boundary; by chance, once in 2^64 pairs; and if an object repeats a key, since the sum
//! over members loses the order of its values. A hit is a candidate for [`same_value`], or, if
//! chance and intent do not matter, for a comparison of digests that reads text only if a key is
//! repeated.
//!
//! ```
//! use restitch::Document;
//! use restitch::internal::children::{ChildIndex, digest_of, same_value};
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
//! Keeps no text. Does not know cuts or continuations.

mod digest;
mod index;
mod same;

use crate::json::{Event, Frame, Kind, ParserView, Sink, Span};
pub use digest::KeyHash;
use digest::{Hash, OpenString};
use index::Index;
pub use same::same_value;

/// Remembers the complete children of open containers: a sink to lend to every push. Forgets the
/// content of a complete child, and the children of a container that has ended. Its memory is
/// proportional to the open containers and, up to the limit, their children.
///
/// A long string is hashed while it is written. An index that is lent late, or misses a push,
/// remembers the later children and [knows where some are missing](Self::remembers_all). If a
/// document is [restored](crate::Document::restore), continue with a clone that was made with the
/// checkpoint.
#[derive(Clone, Debug)]
pub struct ChildIndex {
    /// The open containers.
    open: Vec<OpenContainer>,
    /// The children of the root, then those of the container in it, and so on.
    children: Vec<Child>,
    index: Index,
    /// The same children by key.
    keys: Index,
    limit: usize,
    root: Option<u64>,
    string: OpenString,
    /// Only the newest element of an array is kept.
    keeps_newest: bool,
}

/// A complete child of an open container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The key of a member.
    pub key: Option<KeyHash>,
    /// The canonical digest of the value.
    pub digest: u64,
    /// The value's text, without the key.
    pub span: Span,
    /// Whether an object in the value repeats a key, or may repeat one: then values that differ in
    /// the order of that key's values have the same digest.
    pub(crate) repeats_keys: bool,
}

impl Child {
    /// Whether the child, which is in `text`, has the value of another one. The digests decide. If
    /// a key may be repeated, both are read: O(size).
    pub(crate) fn is_same(&self, text: &str, other: &Self, other_text: &str) -> bool {
        let is_exact = || !self.repeats_keys && !other.repeats_keys;
        self.digest == other.digest
            && (is_exact() || same_value(self.span.of(text), other.span.of(other_text)))
    }
}

/// An open container.
#[derive(Clone, Copy, Debug)]
struct OpenContainer {
    /// The offset of its bracket, which identifies it.
    start: usize,
    /// The index of its first child in `children`.
    first: usize,
    /// The number of complete children, remembered or not.
    seen: usize,
    hash: Hash,
    /// A key is repeated in it or in its children, or may be.
    repeats_keys: bool,
    /// All children are part of `hash`.
    is_hashed: bool,
    /// All children are remembered.
    is_remembered: bool,
}

impl ChildIndex {
    /// Creates an index of at most `limit` children over all open containers
    /// ([`max_children`](crate::Limits::with_max_children)). Of more children, the
    /// first ones are remembered.
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(u32::MAX as usize - 1);
        Self {
            open: Vec::new(),
            children: Vec::new(),
            index: Index::default(),
            keys: Index::default(),
            limit,
            root: None,
            string: OpenString::new(0),
            keeps_newest: false,
        }
    }

    /// Creates an index for [`Child::is_same`] alone: it keeps only the newest element of an array,
    /// so that the end of a long array costs no more than that of a short one.
    pub(crate) fn of_newest(limit: usize) -> Self {
        Self {
            keeps_newest: true,
            ..Self::new(limit)
        }
    }

    /// Returns the number of open containers.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the complete children of the open container at this depth, in order; the root has
    /// depth 0. Empty if no container is open.
    pub fn children(&self, depth: usize) -> &[Child] {
        let Some(container) = self.open.get(depth) else {
            return &[];
        };
        let end = self
            .open
            .get(depth + 1)
            .map_or(self.children.len(), |next| next.first);
        let children = self.children.get(container.first..end);
        debug_assert!(
            children.is_some(),
            "the children of container {depth} are {}..{end}",
            container.first
        );
        children.unwrap_or_default()
    }

    /// Returns whether every complete child of the open container at this depth is remembered.
    /// `false` if the limit was reached, a push was missed, or no container is open. A missed push
    /// is noticed when the next value ends or the next container starts.
    pub fn remembers_all(&self, depth: usize) -> bool {
        self.open
            .get(depth)
            .is_some_and(|container| container.is_remembered)
    }

    /// Returns the children of the open container at this depth that have this digest, newest
    /// first. Costs O(hits).
    pub fn find(&self, depth: usize, digest: u64) -> impl Iterator<Item = &Child> {
        let children = self.children(depth);
        let first = self.open.get(depth).map_or(0, |container| container.first);
        let own = move |at: usize| at.checked_sub(first).and_then(|at| children.get(at));
        self.index
            .positions(place(depth, digest))
            .filter_map(own)
            .filter(move |child| child.digest == digest)
    }

    /// Returns the member of the open object at this depth that has this key; the last one if the
    /// object repeats the key. O(1) except for repeated keys.
    pub fn member(&self, depth: usize, key: KeyHash) -> Option<&Child> {
        let children = self.children(depth);
        let first = self.open.get(depth).map_or(0, |container| container.first);
        let own = move |at: usize| at.checked_sub(first).and_then(|at| children.get(at));
        self.keys
            .positions(place(depth, key.bits()))
            .filter_map(own)
            .find(|child| child.key == Some(key))
    }

    /// Returns the digest of the newest root that has ended. `None` if there is no such root, or if
    /// a part of its text was missed.
    pub fn root(&self) -> Option<u64> {
        self.root
    }

    /// Adds a child, or the root, that has ended. `digest` is `None` if a part of its text was
    /// missed.
    fn child(
        &mut self,
        digest: Option<u64>,
        repeats_keys: bool,
        span: Span,
        live: &ParserView<'_>,
    ) {
        self.follow(live.frames);
        let Some(frame) = live.frames.last() else {
            self.root = digest;
            return;
        };
        let depth = live.frames.len() - 1;
        let key = (frame.kind == Kind::Object).then(|| KeyHash::of_raw(frame.key.of(live.text)));
        let is_repeated = key.is_some_and(|key| self.member(depth, key).is_some());
        let Some(container) = self.open.last_mut() else {
            return;
        };
        container.seen += 1;
        let Some(digest) = digest else {
            (container.is_hashed, container.is_remembered) = (false, false);
            return;
        };
        match key {
            Some(key) => container.hash.member(key, digest),
            None => container.hash.element(digest),
        }
        container.repeats_keys |= repeats_keys || is_repeated;
        if self.keeps_newest && key.is_none() {
            let first = container.first;
            self.children.truncate(first);
            self.index.truncate(first);
            self.keys.truncate(first);
        }
        if self.children.len() < self.limit {
            self.children.push(Child {
                key,
                digest,
                span,
                repeats_keys,
            });
            self.index.push(place(depth, digest));
            // An element has no key. Its digest keeps the chains short.
            self.keys
                .push(place(depth, key.map_or(digest, KeyHash::bits)));
        } else {
            container.is_remembered = false;
            // A forgotten key may be repeated later without notice, so the object may repeat keys.
            container.repeats_keys |= key.is_some();
        }
    }

    /// Returns the digest of the container at `depth`, which ends with `count` children, and
    /// whether a key may be repeated in it. The digest is `None` if a child was missed.
    fn close(
        &mut self,
        kind: Kind,
        count: usize,
        start: usize,
        depth: usize,
    ) -> (Option<u64>, bool) {
        self.truncate(depth + 1);
        let is_whole = |container: &&OpenContainer| {
            container.start == start && container.seen == count && container.is_hashed
        };
        let Some(&container) = self.open.get(depth).filter(is_whole) else {
            return (None, true);
        };
        let digest = if kind == Kind::Array {
            container.hash.finish_array()
        } else {
            container.hash.finish_object()
        };
        (Some(digest), container.repeats_keys)
    }

    /// Forgets the containers from `depth` on.
    fn truncate(&mut self, depth: usize) {
        if let Some(container) = self.open.get(depth) {
            self.children.truncate(container.first);
            self.index.truncate(container.first);
            self.keys.truncate(container.first);
            self.open.truncate(depth);
        }
    }

    /// Makes the open containers those of `frames`. They already are unless a push was missed.
    fn follow(&mut self, frames: &[Frame]) {
        let is_same = match (self.open.last(), frames.last()) {
            (Some(container), Some(frame)) => {
                container.is(frame) && self.open.len() == frames.len()
            }
            (own, theirs) => own.is_none() && theirs.is_none(),
        };
        if !is_same {
            self.catch_up(frames);
        }
    }

    /// Reads the open containers from the frames, after missed pushes. O(depth), once for each gap.
    #[cold]
    fn catch_up(&mut self, frames: &[Frame]) {
        let same = self
            .open
            .iter()
            .zip(frames)
            .take_while(|(container, frame)| container.is(frame))
            .count();
        self.truncate(same);
        for frame in frames.iter().skip(same) {
            let is_new = frame.count == 0;
            let container = OpenContainer::new(frame.start, self.children.len());
            self.open.push(OpenContainer {
                seen: frame.count,
                is_hashed: is_new,
                is_remembered: is_new,
                ..container
            });
        }
    }
}

impl OpenContainer {
    fn new(start: usize, first: usize) -> Self {
        Self {
            start,
            first,
            seen: 0,
            hash: Hash::default(),
            repeats_keys: false,
            is_hashed: true,
            is_remembered: true,
        }
    }

    fn is(&self, frame: &Frame) -> bool {
        self.start == frame.start && self.seen == frame.count
    }
}

impl Sink for ChildIndex {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Begin { at, .. } => {
                self.follow(live.frames);
                self.open.push(OpenContainer::new(at, self.children.len()));
            }
            Event::End { kind, count, span } => {
                let depth = live.frames.len();
                let (digest, repeats_keys) = self.close(kind, count, span.start, depth);
                self.truncate(depth);
                self.child(digest, repeats_keys, span, live);
            }
            Event::StringBegin(at) => self.string = OpenString::new(at),
            Event::Fragment(span) => self.string.advance(live.text, span.end),
            Event::StringEnd(span) => {
                let digest = self.string.finish(live.text, span);
                self.child(Some(digest), false, span, live);
            }
            Event::Scalar { kind, span } => {
                self.child(
                    Some(digest::of_scalar(kind, span.of(live.text))),
                    false,
                    span,
                    live,
                );
            }
            Event::Key(_) | Event::Withdrawn(_) => {}
        }
    }
}

/// Returns the canonical digest of the only value in `text`, as in [`Child::digest`]. White space
/// may surround the value. `None` if `text` is not one JSON value.
///
/// The digest does not depend on white space, the order of members or escapes; numbers are hashed
/// as written. It is the same on every machine, but may differ between versions.
///
/// ```
/// use restitch::internal::children::digest_of;
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

/// Returns the hash of a child of the container at this depth.
fn place(depth: usize, digest: u64) -> u32 {
    // The bits of a digest are evenly distributed. The depth separates equal children of different
    // containers.
    (digest >> 32) as u32 ^ (depth as u32).wrapping_mul(0x9e37_79b1)
}
