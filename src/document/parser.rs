//! Finds where the roots of a text begin and end: reads the envelope before a root, runs the machine of the open root,
//! and handles the text after it. Keeps no text.

use crate::envelope::{AllowedRoots, RootFinder};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::{Machine, Sink};

/// What happens to text after the end of a root, apart from white space and the fence around the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trailing {
    /// The text is kept and not examined. [`Document::root_end`](crate::Document::root_end) says where the root ended.
    #[default]
    Stop,
    /// The text is an error: [`SyntaxErrorKind::TrailingText`].
    Error,
    /// The text is the next root: NDJSON, or concatenated values. Prose and a fence may precede only the first root;
    /// backticks after it count as white space.
    Next,
    /// A fenced block that follows a fenced root and has the label `json` is the next root. All other text is kept and
    /// not examined.
    Block,
}

#[derive(Clone, Debug)]
pub(super) struct Parser {
    /// Finds the newest root.
    pub(super) finder: RootFinder,
    /// After a root in a fence: looks for the next one.
    next_finder: Option<RootFinder>,
    pub(super) roots: AllowedRoots,
    pub(super) trailing: Trailing,
    pub(super) depth: usize,
    /// Where the newest root begins.
    pub(super) start: Option<usize>,
    /// The number of roots before the newest one.
    pub(super) before: usize,
    /// The machine of the newest root. All offsets count from the start of the text.
    pub(super) machine: Machine,
}

impl Parser {
    pub(super) fn new(depth: usize, roots: AllowedRoots, trailing: Trailing) -> Self {
        let (finder, machine) = (RootFinder::new(roots), Machine::new(depth));
        Self { finder, next_finder: None, roots, trailing, depth, start: None, before: 0, machine }
    }

    /// Returns a parser with the same options before its first byte.
    pub(super) fn rewound(&self) -> Self {
        Self::new(self.depth, self.roots, self.trailing)
    }

    /// Returns a parser with the same options at `offset` of a text that is not JSON.
    pub(super) fn of_text(&self, offset: usize) -> Self {
        Self { finder: RootFinder::of_text(offset), ..self.rewound() }
    }

    /// Consumes `text` from `from` on, up to where it was consumed before.
    pub(super) fn run<S: Sink + ?Sized>(&mut self, text: &str, from: usize, sink: &mut S) -> Result<(), SyntaxError> {
        while self.run_root(text, from, sink)? {}
        Ok(())
    }

    /// Like [`run`](Self::run), but up to the end of one root; returns whether one has ended and text may follow it.
    pub(super) fn run_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<bool, SyntaxError> {
        if !self.is_in_root() && self.find_root(text, from)?.is_none() {
            return Ok(false);
        }
        self.machine.feed_text(text, sink)?;
        Ok(self.machine.is_done())
    }

    /// Whether a root is open.
    pub(super) fn is_in_root(&self) -> bool {
        self.start.is_some() && !self.machine.is_done()
    }

    /// Consumes `text` from `from` on up to the start of the next root, if that is in it; returns where it begins.
    pub(super) fn find_root(&mut self, text: &str, from: usize) -> Result<Option<usize>, SyntaxError> {
        if self.start.is_none() {
            let Some(start) = self.finder.feed(text.get(from..).unwrap_or_default()) else { return Ok(None) };
            self.start_root(text, start)?;
            return Ok(Some(start));
        }
        let Some(start) = self.next_root(text, from)? else { return Ok(None) };
        self.start_root(text, start)?;
        self.before += 1;
        Ok(Some(start))
    }

    /// Returns where the next root begins after one that has ended, in text from `from` on.
    fn next_root(&mut self, text: &str, from: usize) -> Result<Option<usize>, SyntaxError> {
        match self.trailing {
            Trailing::Stop => Ok(None),
            Trailing::Block => {
                if !self.finder.has_fence() {
                    return Ok(None);
                }
                let from = from.max(self.machine.offset());
                let next_finder = self.next_finder.get_or_insert_with(|| RootFinder::further(from));
                let found = next_finder.feed(text.get(from..).unwrap_or_default());
                if found.is_some() {
                    self.finder = self.next_finder.take().unwrap_or(self.finder);
                }
                Ok(found)
            }
            Trailing::Error | Trailing::Next => match self.first_after_root(text, from) {
                None => Ok(None),
                Some((at, byte)) if self.trailing == Trailing::Next && self.roots.allows(byte) => Ok(Some(at)),
                Some((at, byte)) => Err(self.deviation(byte, at)),
            },
        }
    }

    /// Forgets that text after the root was read: it comes again or not at all.
    pub(super) fn forget_tail(&mut self) {
        self.next_finder = None;
    }

    /// Returns a parser at the start of a text that follows `before` roots.
    pub(super) fn after_roots(&self, before: usize) -> Self {
        let before = before.saturating_sub(1);
        let finder = self.finder;
        let machine = Machine::ended_at(0, self.depth);
        Self { finder, start: Some(0), before, machine, ..self.rewound() }
    }

    /// Whether nothing is missing: the root is closed, or none is due.
    pub(super) fn is_whole(&self) -> bool {
        let is_blank = self.start.is_none() && self.finder.is_blank();
        self.machine.is_done() || self.trailing == Trailing::Next && is_blank
    }

    /// Returns the error for a byte between two roots; inside a root the machine does.
    fn deviation(&self, byte: u8, at: usize) -> SyntaxError {
        let kind = match (self.trailing, byte) {
            (Trailing::Next, b'{' | b'[') => SyntaxErrorKind::TooDeep(self.depth),
            _ if self.start.is_none() => SyntaxErrorKind::TooDeep(self.depth),
            (Trailing::Next, _) => SyntaxErrorKind::UnexpectedByte(byte),
            _ => SyntaxErrorKind::TrailingText(byte),
        };
        SyntaxError { kind, offset: at }
    }

    /// Returns the first significant byte after the root that has ended, and its offset; what precedes `from` was
    /// examined before.
    pub(super) fn first_after_root(&self, text: &str, from: usize) -> Option<(usize, u8)> {
        let from = from.max(self.machine.offset());
        let mut rest = text.as_bytes().get(from..)?.iter();
        let is_space = |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r') || byte == b'`' && self.finder.has_fence();
        let at = rest.position(|&byte| !is_space(byte))?;
        Some((from + at, *text.as_bytes().get(from + at)?))
    }

    fn start_root(&mut self, text: &str, start: usize) -> Result<(), SyntaxError> {
        match text.as_bytes().get(start) {
            Some(&byte @ (b'{' | b'[')) if self.depth == 0 => {
                // The text ends before this byte, and no root has begun in it. Only here is the text before a root read
                // again.
                if self.start.is_none() {
                    self.finder = RootFinder::new(self.roots);
                    self.finder.feed(text.get(..start).unwrap_or_default());
                }
                return Err(self.deviation(byte, start));
            }
            _ => {}
        }
        self.start = Some(start);
        self.machine.restart(start);
        Ok(())
    }
}
