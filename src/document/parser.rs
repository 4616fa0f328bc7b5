//! Finds where the roots of a text begin and end: reads the envelope before a root, runs the
//! machine of the open root, and handles the text after it. Keeps no text.

use super::ended_root::EndedRoot;
use super::search::{LocatedRoot, RootSearch, ends_root};
use crate::envelope::{AllowedRoots, RootFinder};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::{Machine, Sink};

/// The treatment of text after the end of a root. White space and the fence around the root are
/// always accepted.
///
/// Text that touches the end of a root is malformed, except with [`Next`](Self::Next): white space,
/// a fence or the end of the text ends a scalar (`1.2.3` and `"a""b"` are malformed), and no JSON
/// touches the closing bracket of a root (`{}}` is malformed). Prose may touch that bracket: `{}.`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trailing {
    /// The text is kept. [`Document::root_end`](crate::Document::root_end) returns the end of the
    /// root. A next root is found in two cases: JSON after a tag that ends reasoning; and, if the
    /// root is a scalar or a short array of scalars (`[1]`) without a fence, an object or an array
    /// with an object. Such an array is prose if more prose follows it in its line: `[1] Smith`.
    #[default]
    Stop,
    /// The text is an error: [`SyntaxErrorKind::TrailingText`].
    Error,
    /// The text is the next root: NDJSON, or concatenated values. Prose and a fence may precede
    /// only the first root; backticks after it count as white space.
    Next,
    /// A fenced block that follows a fenced root and has the label `json` is the next root. All
    /// other text is kept as with [`Stop`](Self::Stop).
    Block,
}

/// The roots that a text may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootOptions {
    pub(super) roots: AllowedRoots,
    pub(super) trailing: Trailing,
    /// The most open containers.
    pub(super) depth: usize,
    /// The most bytes of prose in which a root may begin without a fence.
    pub(super) max_preamble: usize,
}

impl RootOptions {
    /// Returns a search before the first byte.
    pub(super) fn search(self) -> RootSearch {
        RootSearch::new(self.roots, self.depth, self.max_preamble)
    }
}

#[derive(Clone, Debug)]
pub(super) struct RootParser {
    pub(super) options: RootOptions,
    /// Finds the newest root.
    search: RootSearch,
    /// The state of the text after the newest root.
    pub(super) tail: TextAfterRoot,
    /// Where the newest root begins.
    pub(super) start: Option<usize>,
    /// The newest root is a scalar.
    is_scalar: bool,
    /// The number of roots before the newest one.
    pub(super) before: usize,
    /// The length of the text when [`settle`](Self::settle) ended the search for the root.
    pub(super) settled: Option<usize>,
    /// The machine of the newest root. All offsets count from the start of the text.
    pub(super) machine: Machine,
}

/// The text after a root that has ended.
#[derive(Clone, Debug)]
pub(super) enum TextAfterRoot {
    /// None of its bytes was examined.
    Touching,
    /// The text looks like a reference; the rest of its line shows whether it is prose.
    Line,
    /// A comma touches the root.
    Comma,
    /// It may have another root.
    Searched(RootSearch),
    /// The parser does not examine it.
    Ignored,
}

impl RootParser {
    /// Creates a parser before the first byte.
    pub(super) fn new(options: RootOptions) -> Self {
        Self {
            options,
            search: options.search(),
            tail: TextAfterRoot::Touching,
            start: None,
            is_scalar: false,
            before: 0,
            settled: None,
            machine: Machine::new(options.depth),
        }
    }

    /// Creates a parser that has read `envelope`, which has no root.
    pub(super) fn after_envelope(options: RootOptions, envelope: &str) -> Self {
        let mut parser = Self::new(options);
        parser.search.feed(envelope);
        parser
    }

    /// Returns a parser with the same options at `offset` of a text that is not JSON.
    pub(super) fn of_text(&self, offset: usize) -> Self {
        Self {
            search: RootSearch::with(RootFinder::of_text(offset), self.options.depth),
            ..Self::new(self.options)
        }
    }

    /// Returns the reader of the text before the newest root.
    pub(super) fn finder(&self) -> &RootFinder {
        self.search.finder()
    }

    /// Whether a root has begun, or the text after a bracket has evidence of JSON.
    pub(super) fn is_in_json(&self) -> bool {
        self.start.is_some() || self.search.is_in_json()
    }

    /// Consumes `text` from `from` on, up to where it was consumed before.
    pub(super) fn run<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        while self.run_root(text, from, sink)? {}
        Ok(())
    }

    /// Like [`run`](Self::run), but up to the end of a root; returns whether a root has ended and
    /// text may follow it.
    pub(super) fn run_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<bool, SyntaxError> {
        loop {
            if !self.is_in_root() && self.find_root(text, from)?.is_none() {
                return Ok(false);
            }
            match self.machine.feed_text(text, sink) {
                Ok(_) => return Ok(self.machine.is_done()),
                Err(error) if !self.reject_prose(text, error.offset) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Treats a first root that is malformed at `at` as prose, if it begins with a word (`then`), a
    /// capital in brackets (`[INST]`), a list marker (`- one`, `1. one`), or a rule (`---`).
    /// Returns whether it does. A sink begins anew with the next root.
    pub(super) fn reject_prose(&mut self, text: &str, at: usize) -> bool {
        let Some(start) = self
            .start
            .filter(|_| self.before == 0 && !self.finder().preamble().has_fence())
        else {
            return false;
        };
        let Some(first) = text.get(start..).and_then(|root| root.chars().next()) else {
            return false;
        };
        let next = text.get(at..).and_then(|rest| rest.chars().next());
        let is_prose = match first {
            '[' => {
                let mut words = text.get(start + 1..at).unwrap_or_default().chars();
                // Text that must be JSON is an error.
                let may_be_prose =
                    matches!(self.options.trailing, Trailing::Stop | Trailing::Block);
                may_be_prose
                    && words.all(|c| c.is_alphanumeric() || c.is_whitespace())
                    && next.is_some_and(char::is_uppercase)
            }
            '{' | '"' => false,
            't' | 'f' | 'n' => true,
            _ => next.is_some_and(|next| next.is_whitespace() || next == '-'),
        };
        if is_prose {
            (self.start, self.is_scalar) = (None, false);
            self.machine.restart(0);
            self.search.reject(first);
        }
        is_prose
    }

    /// Ends the search for the root, because the text ends here. Emits the remaining events of the
    /// root's text.
    pub(super) fn settle<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) {
        if self.start.is_some() {
            return;
        }
        self.settled = Some(text.len());
        let is_last = matches!(self.options.trailing, Trailing::Error | Trailing::Next);
        let mut found = self.search.settle(text, is_last);
        if found.is_none()
            && let Some(search) = self.search.without_reasoning(RootFinder::new(
                self.options.roots,
                self.options.max_preamble,
            ))
        {
            self.search = search;
            found = self
                .search
                .feed(text)
                .or_else(|| self.search.settle(text, is_last));
        }
        let Some(found) = found else { return };
        let read = self
            .start_root(text, found.start)
            .and_then(|()| self.machine.feed_text(text, sink));
        if read.is_err() {
            // Only a root inside reasoning is read here for the first time. Malformed text there is
            // not an answer.
            (self.start, self.search) = (
                None,
                RootSearch::with(RootFinder::of_text(text.len()), self.options.depth),
            );
            self.machine.restart(0);
        }
        // All text was read.
        self.tail = TextAfterRoot::Ignored;
    }

    /// Whether a root is open.
    pub(super) fn is_in_root(&self) -> bool {
        self.start.is_some() && !self.machine.is_done()
    }

    /// Consumes `text` from `from` on up to the start of the next root, if that is in it; returns
    /// where it begins.
    pub(super) fn find_root(
        &mut self,
        text: &str,
        from: usize,
    ) -> Result<Option<LocatedRoot>, SyntaxError> {
        let found = if self.start.is_some() {
            self.next_root(text, from)?
        } else {
            self.search.feed(text)
        };
        if let Some(found) = found {
            let is_next = self.start.is_some();
            self.start_root(text, found.start)?;
            self.before += usize::from(is_next);
        }
        Ok(found)
    }

    /// Returns where the next root begins after one that has ended, in text from `from` on.
    fn next_root(&mut self, text: &str, from: usize) -> Result<Option<LocatedRoot>, SyntaxError> {
        if self.is_scalar
            && matches!(self.tail, TextAfterRoot::Touching)
            && self.options.trailing != Trailing::Next
            && let Some((at, byte)) = self.first_after_root(text, from)
            && at == self.machine.offset()
        {
            return Err(self.deviation(byte, at));
        }
        match self.options.trailing {
            Trailing::Stop | Trailing::Block => self.root_in_tail(text, from),
            Trailing::Error | Trailing::Next => match self.first_after_root(text, from) {
                None => Ok(None),
                Some((at, byte))
                    if self.options.trailing == Trailing::Next
                        && self.options.roots.allows(byte) =>
                {
                    Ok(Some(LocatedRoot { start: at, end: at }))
                }
                Some((at, byte)) => Err(self.deviation(byte, at)),
            },
        }
    }

    /// Returns where a further root begins in the text after a root, which may be prose; the text
    /// before `from` was examined before.
    fn root_in_tail(
        &mut self,
        text: &str,
        from: usize,
    ) -> Result<Option<LocatedRoot>, SyntaxError> {
        let end = self.machine.offset();
        loop {
            match &mut self.tail {
                TextAfterRoot::Ignored => return Ok(None),
                TextAfterRoot::Searched(search) => {
                    let found = search.feed(text);
                    if found.is_some() {
                        self.search = search.clone();
                    }
                    return Ok(found);
                }
                TextAfterRoot::Touching => {
                    let Some(&byte) = text.as_bytes().get(end) else {
                        return Ok(None);
                    };
                    self.tail = match byte {
                        // A definition of a reference: `[1]: https://…`
                        b':' if self.ended(text).is_reference() => {
                            return Ok(self.reject_array(text));
                        }
                        b'{' | b'[' | b'}' | b']' | b'"' | b':' | b'0'..=b'9' => {
                            return Err(self.deviation(byte, end));
                        }
                        b',' => TextAfterRoot::Comma,
                        _ if self.ended(text).is_reference() => TextAfterRoot::Line,
                        _ => self.tail_of(text),
                    };
                }
                TextAfterRoot::Line => {
                    let line = text
                        .get(end.max(from)..)
                        .unwrap_or_default()
                        .trim_start_matches([' ', '\t', '\r']);
                    match line.chars().next() {
                        None => return Ok(None),
                        Some(c) if ends_root(c) => self.tail = self.tail_of(text),
                        Some(_) => return Ok(self.reject_array(text)),
                    }
                }
                TextAfterRoot::Comma => {
                    let after = text.get(end + 1..).unwrap_or_default().bytes();
                    let first = after
                        .enumerate()
                        .find(|(_, byte)| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
                    match first {
                        None => return Ok(None),
                        Some((at, byte @ (b'{' | b'[' | b'"'))) => {
                            return Err(self.deviation(byte, end + 1 + at));
                        }
                        Some(_) if self.ended(text).is_reference() => {
                            return Ok(self.reject_array(text));
                        }
                        Some(_) => self.tail = self.tail_of(text),
                    }
                }
            }
        }
    }

    /// Treats a reference that has ended as prose, since its line continues: `[1] Smith`. Returns
    /// where a root begins in the text after it.
    fn reject_array(&mut self, text: &str) -> Option<LocatedRoot> {
        let finder =
            RootFinder::after_root(self.machine.offset(), self.options.max_preamble, false);
        self.search = RootSearch::with(finder, self.options.depth);
        self.start = None;
        self.machine.restart(0);
        self.search.feed(text)
    }

    /// Returns how to read the text after the root.
    fn tail_of(&self, text: &str) -> TextAfterRoot {
        let end = self.machine.offset();
        if self.finder().preamble().has_fence() && self.options.trailing == Trailing::Block {
            return TextAfterRoot::Searched(RootSearch::with(
                RootFinder::further(end),
                self.options.depth,
            ));
        }
        let finder =
            RootFinder::after_root(end, self.options.max_preamble, !self.ended(text).is_weak());
        TextAfterRoot::Searched(RootSearch::with(finder, self.options.depth))
    }

    /// Whether the ended root is certain without further text.
    pub(super) fn is_settled(&self, text: &str) -> bool {
        if self.is_scalar {
            text.len() > self.machine.offset()
        } else {
            !self.ended(text).is_reference()
        }
    }

    /// Returns the newest root, which has ended.
    fn ended<'t>(&self, text: &'t str) -> EndedRoot<'t> {
        let root = self
            .start
            .and_then(|start| text.get(start..self.machine.offset()));
        EndedRoot {
            text: root.unwrap_or_default(),
            is_scalar: self.is_scalar,
            may_be_prose: self.before == 0 && !self.finder().preamble().has_fence(),
        }
    }

    /// Records that the newest root ended with the text: later text does not touch it.
    pub(super) fn end_touching(&mut self, text: &str) {
        self.tail = self.tail_of(text);
    }

    /// Returns a parser at the start of a text that follows `before` roots.
    pub(super) fn after_roots(&self, before: usize) -> Self {
        let before = before.saturating_sub(1);
        let machine = Machine::ended_at(0, self.options.depth);
        let (search, is_scalar) = (self.search.clone(), self.is_scalar);
        Self {
            search,
            is_scalar,
            start: Some(0),
            before,
            machine,
            ..Self::new(self.options)
        }
    }

    /// Whether the text needs no more: the root is closed, or none is due.
    pub(super) fn is_whole(&self) -> bool {
        let is_blank = self.start.is_none() && self.finder().is_blank();
        self.machine.is_done() || self.options.trailing == Trailing::Next && is_blank
    }

    /// Returns the error for a byte between two roots; inside a root the machine returns it.
    fn deviation(&self, byte: u8, at: usize) -> SyntaxError {
        let kind = match (self.options.trailing, byte) {
            (Trailing::Next, b'{' | b'[') => SyntaxErrorKind::TooDeep(self.options.depth),
            _ if self.start.is_none() => SyntaxErrorKind::TooDeep(self.options.depth),
            (Trailing::Next, _) => SyntaxErrorKind::UnexpectedByte(byte),
            _ => SyntaxErrorKind::TrailingText(byte),
        };
        SyntaxError { kind, offset: at }
    }

    /// Returns the first significant byte after the root that has ended, and its offset; the text
    /// before `from` was examined before.
    pub(super) fn first_after_root(&self, text: &str, from: usize) -> Option<(usize, u8)> {
        let from = from.max(self.machine.offset());
        let mut rest = text.as_bytes().get(from..)?.iter();
        let is_space = |byte| {
            matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
                || byte == b'`' && self.finder().preamble().has_fence()
        };
        let at = rest.position(|&byte| !is_space(byte))?;
        Some((from + at, *text.as_bytes().get(from + at)?))
    }

    /// Returns the error for text after a scalar root, except white space and a fence.
    pub(super) fn text_after_scalar(&self, text: &str) -> Option<SyntaxError> {
        let (at, byte) = self
            .first_after_root(text, 0)
            .filter(|_| self.is_scalar && self.machine.is_done())?;
        (!self.finder().preamble().has_fence()).then_some(SyntaxError {
            kind: SyntaxErrorKind::TrailingText(byte),
            offset: at,
        })
    }

    fn start_root(&mut self, text: &str, start: usize) -> Result<(), SyntaxError> {
        let first = text.as_bytes().get(start).copied();
        let is_container = matches!(first, Some(b'{' | b'['));
        if let Some(byte) = first.filter(|_| is_container && self.options.depth == 0) {
            // The text ends before this byte, and no root has begun. Only this case reads the text
            // before a root again.
            if self.start.is_none() {
                self.search = self.options.search();
                self.search.feed(text.get(..start).unwrap_or_default());
            }
            return Err(self.deviation(byte, start));
        }
        self.start = Some(start);
        self.is_scalar = !is_container;
        self.tail = TextAfterRoot::Touching;
        self.machine.restart(start);
        Ok(())
    }
}
