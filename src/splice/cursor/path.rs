//! The open containers that a fragment begins again, from its beginning to the cut.

use super::Sides;
use crate::json::Frame;
use crate::splice::reader::MatchInputs;
use crate::splice::seam::Expect;
use crate::splice::slot::Slot;

/// The delivered value or container that the fragment is assumed to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::splice) enum CursorBase {
    /// The first value is the open value at this depth; 0 is the root.
    Value(usize),
    /// The fragment begins with a member or an element of the open container at this depth, without
    /// its bracket.
    Inside(usize),
}

impl CursorBase {
    /// The depth of the open container whose children the fragment has first.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Value(depth) | Self::Inside(depth) => depth,
        }
    }

    /// Whether a part of unknown origin may begin with the last children of the open container at
    /// `depth`, and repeat no text before them.
    pub(super) fn is_bare(self, depth: usize, inputs: &MatchInputs<'_>) -> bool {
        self == Self::Inside(depth) && inputs.expect == Expect::Any
    }

    /// The depth of the first open value that the fragment may have whole.
    pub(super) fn first_value(self) -> usize {
        match self {
            Self::Value(depth) => depth,
            Self::Inside(depth) => depth + 1,
        }
    }

    /// The number of the reader's containers around those that are taken for open ones.
    fn outside(self) -> usize {
        usize::from(matches!(self, Self::Value(_)))
    }
}

/// The innermost container of the path, delivered and in the fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Innermost {
    pub(super) frame: Frame,
    pub(super) depth: usize,
    /// The index of the reader's container that is taken for this one, and the count of its
    /// children so far.
    pub(super) index: usize,
    pub(super) count: usize,
}

/// The containers of the fragment that are taken for open ones.
#[derive(Clone, Debug)]
pub(super) struct FollowedPath {
    pub(super) base: CursorBase,
    /// From the outermost one on.
    pub(super) levels: Vec<CursorLevel>,
}

/// Which delivered child the first child of an array is.
#[derive(Clone, Debug)]
pub(super) enum Pairing {
    Unknown,
    /// One of these; the number of delivered children means the open one.
    One(Vec<usize>),
}

/// A container of the fragment that is taken for an open one.
#[derive(Clone, Debug)]
pub(super) struct CursorLevel {
    pub(super) pairing: Pairing,
    /// The number of delivered children that were repeated.
    pub(super) seen: usize,
    /// Where its open child begins, by the reader's offsets.
    pub(super) child_at: usize,
}

impl CursorLevel {
    pub(super) fn new() -> Self {
        Self {
            pairing: Pairing::Unknown,
            seen: 0,
            child_at: 1,
        }
    }

    /// Whether the repeated children may be the last of `count` delivered ones.
    pub(super) fn is_last(&self, count: usize) -> bool {
        matches!(&self.pairing, Pairing::One(places) if places.iter().any(|place| place + self.seen == count))
    }
}

impl FollowedPath {
    pub(super) fn new(base: CursorBase) -> Self {
        let levels = match base {
            CursorBase::Value(_) => Vec::new(),
            CursorBase::Inside(_) => vec![CursorLevel::new()],
        };
        Self { base, levels }
    }

    /// Returns the container at this depth, if the fragment has begun it.
    pub(super) fn level(&self, depth: usize) -> Option<&CursorLevel> {
        self.levels.get(depth.checked_sub(self.base.depth())?)
    }

    /// Returns the innermost container of the path; `None` before the fragment has begun one.
    pub(super) fn innermost(&self, sides: &Sides<'_>) -> Option<Innermost> {
        let last = self.levels.len().checked_sub(1)?;
        let (depth, index) = (self.base.depth() + last, self.base.outside() + last);
        let count = sides.live.frames.get(index).map_or(0, |own| own.count);
        Some(Innermost {
            frame: *sides.frame(depth)?,
            depth,
            index,
            count,
        })
    }

    /// Returns the number of the reader's containers up to the innermost one of the path; `None`
    /// before the fragment has begun one.
    pub(super) fn levels_around(&self, slot: &Slot) -> Option<usize> {
        let last = self.levels.len().checked_sub(1)?;
        slot.frames()
            .get(self.base.depth() + last)
            .map(|_| self.base.outside() + last + 1)
    }

    /// Returns the depths of the containers that have delivered children which the fragment does
    /// not repeat. A container without its bracket may begin anywhere.
    pub(super) fn incomplete(&self, sides: &Sides<'_>) -> impl Iterator<Item = usize> {
        let levels = self.levels.iter().enumerate();
        levels.filter_map(|(index, level)| {
            let depth = self.base.depth() + index;
            let is_base = self.base == CursorBase::Inside(depth);
            let frame = sides.frame(depth)?;
            (!is_base && frame.count > level.seen).then_some(depth)
        })
    }

    /// Whether whole children were repeated in the containers up to this depth. The path alone is
    /// no evidence about them.
    pub(super) fn repeats_up_to(&self, depth: usize) -> bool {
        // Keys and brackets lead to any element of the array; only repeated values say which one was meant.
        let around = (depth + 1).saturating_sub(self.base.depth());
        self.levels.iter().take(around).any(|level| level.seen > 0)
    }
}
