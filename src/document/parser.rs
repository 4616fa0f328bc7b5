//! Where the roots of a text begin and end: the envelope before the first one, the machine of the one that is open, and
//! what becomes of text behind it. Keeps no text.

use crate::envelope::{AllowedRoots, RootFinder};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::{Machine, Sink};

/// What becomes of text behind the end of a root, white space and the fence around the root aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trailing {
    /// It is kept and not looked at. [`Document::root_end`](crate::Document::root_end) says where the root ended.
    #[default]
    Stop,
    /// It is an error: [`SyntaxErrorKind::TrailingText`].
    Error,
    /// It is the next root: NDJSON, or values one behind the other. Prose and a fence may stand before the first one
    /// alone; backticks behind it count as white space.
    Next,
    /// A fenced block that follows a fenced root and is labelled `json` is the next root. All else is kept and not
    /// looked at.
    Block,
}

#[derive(Clone, Debug)]
pub(super) struct Parser {
    /// What precedes the newest root.
    pub(super) opening: RootFinder,
    /// Looks for the next one, after a root in a fence.
    further: Option<RootFinder>,
    pub(super) roots: AllowedRoots,
    pub(super) trailing: Trailing,
    pub(super) depth: usize,
    /// Where the newest root begins.
    pub(super) start: Option<usize>,
    /// AllowedRoots before the newest one.
    pub(super) before: usize,
    /// At the newest root. All offsets count from the start of the text.
    pub(super) machine: Machine,
}

impl Parser {
    pub(super) fn new(depth: usize, roots: AllowedRoots, trailing: Trailing) -> Self {
        let (opening, machine) = (RootFinder::new(roots), Machine::new(depth));
        Self { opening, further: None, roots, trailing, depth, start: None, before: 0, machine }
    }

    /// Before the first byte, with the same options.
    pub(super) fn rewound(&self) -> Self {
        Self::new(self.depth, self.roots, self.trailing)
    }

    /// Consumes `text` from `from` on, up to where it was consumed before.
    pub(super) fn run<S: Sink + ?Sized>(&mut self, text: &str, from: usize, sink: &mut S) -> Result<(), SyntaxError> {
        while self.run_root(text, from, sink)? {}
        Ok(())
    }

    /// Like [`run`](Self::run), up to the end of one root: whether one has ended, and text may follow it.
    pub(super) fn run_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<bool, SyntaxError> {
        if self.start.is_none() {
            match self.opening.feed(text.get(from..).unwrap_or_default()) {
                Some(start) => self.begin(text, start)?,
                None => return Ok(false),
            }
        } else if self.machine.is_done() {
            let Some(start) = self.next_root(text, from)? else { return Ok(false) };
            self.begin(text, start)?;
            self.before += 1;
        }
        self.machine.feed_text(text, sink)?;
        Ok(self.machine.is_done())
    }

    /// Where the next root begins after one that has ended, in text from `from` on.
    fn next_root(&mut self, text: &str, from: usize) -> Result<Option<usize>, SyntaxError> {
        match self.trailing {
            Trailing::Stop => Ok(None),
            Trailing::Block => {
                if !self.opening.has_fence() {
                    return Ok(None);
                }
                let from = from.max(self.machine.offset());
                let further = self.further.get_or_insert_with(|| RootFinder::further(from));
                let found = further.feed(text.get(from..).unwrap_or_default());
                if found.is_some() {
                    self.opening = self.further.take().unwrap_or(self.opening);
                }
                Ok(found)
            }
            Trailing::Error | Trailing::Next => match self.behind(text, from) {
                None => Ok(None),
                Some((at, byte)) if self.trailing == Trailing::Next && self.roots.allows(byte) => Ok(Some(at)),
                Some((at, byte)) => Err(self.deviation(byte, at)),
            },
        }
    }

    /// The text after the root is forgotten, and comes again or not.
    pub(super) fn forget_tail(&mut self) {
        self.further = None;
    }

    /// Behind `before` roots, the last of which has just ended; the text begins there.
    pub(super) fn behind_roots(&self, before: usize) -> Self {
        let before = before.saturating_sub(1);
        let opening = self.opening;
        let machine = Machine::ended_at(0, self.depth);
        Self { opening, start: Some(0), before, machine, ..self.rewound() }
    }

    /// Nothing is missing: the root is closed, or none is due.
    pub(super) fn is_whole(&self) -> bool {
        let is_blank = self.start.is_none() && self.opening.is_blank();
        self.machine.is_done() || self.trailing == Trailing::Next && is_blank
    }

    /// The way out between two roots; inside of one it is the machine's.
    fn deviation(&self, byte: u8, at: usize) -> SyntaxError {
        let kind = match (self.trailing, byte) {
            (Trailing::Next, b'{' | b'[') => SyntaxErrorKind::TooDeep(self.depth),
            _ if self.start.is_none() => SyntaxErrorKind::TooDeep(self.depth),
            (Trailing::Next, _) => SyntaxErrorKind::UnexpectedByte(byte),
            _ => SyntaxErrorKind::TrailingText(byte),
        };
        SyntaxError { kind, offset: at }
    }

    /// The first significant byte behind the root that has ended, not looked at before `from`.
    pub(super) fn behind(&self, text: &str, from: usize) -> Option<(usize, u8)> {
        let from = from.max(self.machine.offset());
        let mut rest = text.as_bytes().get(from..)?.iter();
        let is_space = |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r') || byte == b'`' && self.opening.has_fence();
        let at = rest.position(|&byte| !is_space(byte))?;
        Some((from + at, *text.as_bytes().get(from + at)?))
    }

    fn begin(&mut self, text: &str, start: usize) -> Result<(), SyntaxError> {
        match text.as_bytes().get(start) {
            Some(&byte @ (b'{' | b'[')) if self.depth == 0 => {
                // The text ends before this byte, and no root has begun in it. Only here is what precedes a root read
                // again.
                if self.start.is_none() {
                    self.opening = RootFinder::new(self.roots);
                    self.opening.feed(text.get(..start).unwrap_or_default());
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
