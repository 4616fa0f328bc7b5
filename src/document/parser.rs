//! Finds where the roots of a text begin and end: reads the envelope before a root, runs the
//! machine of the open root, and handles the text after it. Keeps no text.

use super::choice::{self, Doubt, Rival};
use super::ended_root::EndedRoot;
use super::search::{LocatedRoot, RootSearch, ends_root};
use crate::envelope::{AllowedRoots, RootFinder, SoughtRoot};
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::{Event, Machine, ParserView, Sink, Span};

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
    /// Among other roots, [`Document::finish`](crate::Document::finish) takes the one that
    /// [`shape::parse`](crate::shape::parse) would.
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
    /// The other roots that may be the answer and have ended, in the order of the text: at most
    /// [`RIVALS`], the first ones and the last.
    rivals: Vec<Rival>,
    /// [`settle`](Self::settle) has decided among several roots: text may have been added for the
    /// one that was cut.
    is_chosen: bool,
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
    /// Another root is open. It is the answer only if the text ends in it.
    Later(Box<LaterRoot>),
    /// The parser does not examine it.
    Ignored,
}

/// An open root after the newest root of a document.
#[derive(Clone, Debug)]
pub(super) struct LaterRoot {
    rival: Rival,
    machine: Machine,
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
            rivals: Vec::new(),
            is_chosen: false,
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
            if !self.is_in_root() && self.find_root(text, from, sink)?.is_none() {
                return Ok(false);
            }
            match self.machine.feed_text(text, sink) {
                Ok(_) => return Ok(self.machine.is_done()),
                Err(error) if !self.reject_prose(text, error.offset, sink) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Treats a first root that is malformed at `at` as prose, if it begins with a word (`then`), a
    /// capital in brackets (`[INST]`), a list marker (`- one`, `1. one`), or a rule (`---`).
    /// Returns whether it does.
    pub(super) fn reject_prose<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        at: usize,
        sink: &mut S,
    ) -> bool {
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
            self.withdraw(text, at, sink);
            self.search.reject(first);
        }
        is_prose
    }

    /// Treats the root as prose. `end`: the offset after its text.
    fn withdraw<S: Sink + ?Sized>(&mut self, text: &str, end: usize, sink: &mut S) {
        if let Some(start) = self.start.take().filter(|_| !self.is_scalar) {
            let frames = &[];
            let span = Span { start, end };
            sink.event(Event::Withdrawn(span), &ParserView { text, frames });
        }
        self.is_scalar = false;
        self.machine.restart(0);
    }

    /// Ends the search for the root, because the text ends here. Emits the remaining events of the
    /// root's text.
    pub(super) fn settle<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) {
        if self.start.is_some() {
            return self.choose(text, sink);
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
        if let Err(error) = read {
            // Only a root inside reasoning is read here for the first time. Malformed text there is
            // not an answer.
            self.search = RootSearch::with(RootFinder::of_text(text.len()), self.options.depth);
            self.withdraw(text, error.offset, sink);
        }
        // All text was read.
        self.tail = TextAfterRoot::Ignored;
    }

    /// Takes another root of the text as the root, if it is the answer because the text ends here.
    fn choose<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) {
        let was_chosen = std::mem::replace(&mut self.is_chosen, true);
        if was_chosen || !self.machine.is_done() {
            return;
        }
        let (mut rivals, at) = self.rivals(text);
        let best = choice::best(text, &rivals, |_| true).filter(|&best| best != at);
        let Some((best, start)) = best.and_then(|at| Some((at, rivals.get(at)?.range.start)))
        else {
            return;
        };
        let before = best.checked_sub(1).and_then(|at| rivals.get(at));
        self.search = match before {
            Some(before) => {
                let in_block = before.is_fenced;
                self.search_after(before.range.end, SoughtRoot::Later { in_block })
            }
            None => self.options.search(),
        };
        self.search.feed(text.get(..=start).unwrap_or_default());
        self.begin_root(start);
        self.before += 1;
        let read = self.machine.feed_text(text, sink);
        debug_assert!(read.is_ok(), "the root was read before: {read:?}");
        rivals.remove(best);
        self.rivals = rivals;
        self.settled = Some(text.len());
        self.tail = TextAfterRoot::Ignored;
    }

    /// Begins a root, a container, at `start`.
    pub(super) fn begin_root(&mut self, start: usize) {
        self.search.accept();
        (self.start, self.is_scalar) = (Some(start), false);
        self.tail = TextAfterRoot::Touching;
        self.machine.restart(start);
    }

    /// Returns the roots that may be the answer, and the index of the newest root of the document
    /// among them.
    fn rivals(&self, text: &str) -> (Vec<Rival>, usize) {
        let mut rivals = self.rivals.clone();
        let current = self.current(text);
        let at = rivals.partition_point(|rival| rival.range.start < current.range.start);
        rivals.insert(at, current);
        rivals.extend(self.later(text));
        (rivals, at)
    }

    /// Returns the facts about the newest root.
    fn current(&self, text: &str) -> Rival {
        let start = self.start.unwrap_or_default();
        let mut before = self.rivals.iter().rev();
        let before = before.find(|rival| rival.range.start < start);
        self.rival(text, start, before, self.finder())
    }

    /// Returns the last root that has ended.
    fn last(&self, text: &str) -> Rival {
        let last = self.rivals.last();
        let last = last.filter(|last| Some(last.range.start) > self.start);
        last.cloned().unwrap_or_else(|| self.current(text))
    }

    /// Returns the root after the newest one in which the text ends.
    fn later(&self, text: &str) -> Option<Rival> {
        match &self.tail {
            TextAfterRoot::Later(later) => {
                let range = later.rival.range.start..text.len();
                let rival = later.rival.clone();
                Some(Rival { range, ..rival })
            }
            TextAfterRoot::Searched(search) => {
                let (start, last) = (search.open_start(text)?, self.last(text));
                Some(self.rival(text, start, Some(&last), search.finder()))
            }
            _ => None,
        }
    }

    /// Returns the facts about a root that begins at `start`, after the text that `finder` has read.
    fn rival(
        &self,
        text: &str,
        start: usize,
        before: Option<&Rival>,
        finder: &RootFinder,
    ) -> Rival {
        let is_fenced = finder.preamble().has_fence();
        let is_newest = self.start == Some(start);
        let end = self.machine.offset();
        Rival {
            range: start..if is_newest { end } else { text.len() },
            first: text.as_bytes().get(start).copied(),
            is_fenced,
            begins_line: is_fenced || choice::begins_line(text, start, before),
            is_cut: !is_newest || !self.machine.is_done(),
            doubt: if is_newest && self.ended(text).is_weak() {
                Doubt::Some
            } else {
                Doubt::None
            },
            is_malformed: false,
        }
    }

    /// Whether the text ends in a later root that is the answer.
    pub(super) fn is_cut_later(&self, text: &str) -> bool {
        self.later(text).is_some() && {
            let (rivals, _) = self.rivals(text);
            choice::best(text, &rivals, |_| true) == rivals.len().checked_sub(1)
        }
    }

    /// Returns the text of the other roots, and whether the text ends in it.
    pub(super) fn others<'t>(&self, text: &'t str) -> impl Iterator<Item = (&'t str, bool)> {
        let mut others = Vec::new();
        if self.start.is_some() {
            let (rivals, at) = self.rivals(text);
            others = rivals;
            others.remove(at);
        }
        let others = others.into_iter();
        others.filter_map(|rival| Some((text.get(rival.range)?, rival.is_cut)))
    }

    /// Forgets the roots after the newest one: the text ends at `end`.
    pub(super) fn drop_tail(&mut self, end: usize) {
        self.tail = TextAfterRoot::Touching;
        self.rivals.retain(|rival| rival.range.end <= end);
    }

    /// Whether a root is open.
    pub(super) fn is_in_root(&self) -> bool {
        self.start.is_some() && !self.machine.is_done()
    }

    /// Consumes `text` from `from` on up to the start of the next root, if that is in it; returns
    /// where it begins.
    pub(super) fn find_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<Option<LocatedRoot>, SyntaxError> {
        let found = if self.start.is_some() {
            self.next_root(text, from, sink)?
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
    fn next_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<Option<LocatedRoot>, SyntaxError> {
        if self.is_scalar
            && matches!(self.tail, TextAfterRoot::Touching)
            && self.options.trailing != Trailing::Next
            && let Some((at, byte)) = self.first_after_root(text, from)
            && at == self.machine.offset()
        {
            return Err(self.deviation(byte, at));
        }
        match self.options.trailing {
            Trailing::Stop | Trailing::Block => self.root_in_tail(text, from, sink),
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
    fn root_in_tail<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        sink: &mut S,
    ) -> Result<Option<LocatedRoot>, SyntaxError> {
        let end = self.machine.offset();
        loop {
            match &mut self.tail {
                TextAfterRoot::Ignored => return Ok(None),
                TextAfterRoot::Searched(search) => {
                    let Some(found) = search.feed(text) else {
                        return Ok(None);
                    };
                    let search = search.clone();
                    if !search.finder().is_later() {
                        let current = self.current(text);
                        let is_block = self.options.trailing == Trailing::Block;
                        match current.doubt == Doubt::Some || current.is_fenced && is_block {
                            true => self.rivals.push(current),
                            // Roots before reasoning are drafts.
                            false => self.rivals.clear(),
                        }
                        self.search = search;
                        return Ok(Some(found));
                    }
                    let last = self.last(text);
                    self.tail = TextAfterRoot::Later(Box::new(LaterRoot {
                        rival: self.rival(text, found.start, Some(&last), search.finder()),
                        machine: Machine::starting_at(found.start, self.options.depth),
                    }));
                }
                TextAfterRoot::Later(later) => {
                    let read = later.machine.feed_text(text, &mut ());
                    let end = later.machine.offset();
                    let has_begun = later.machine.frames().len() > 1
                        || later.machine.frames().iter().any(|frame| frame.count > 0);
                    let in_block = later.rival.is_fenced;
                    let (end, sought) = match read {
                        Ok(_) if !later.machine.is_done() => return Ok(None),
                        Ok(_) => {
                            later.rival.range.end = end;
                            later.rival.is_cut = false;
                            if self.rivals.len() == RIVALS {
                                self.rivals.pop();
                            }
                            self.rivals.push(later.rival.clone());
                            (end, SoughtRoot::Later { in_block })
                        }
                        // Malformed JSON: its rest may look like a root.
                        Err(error) if has_begun => (error.offset, SoughtRoot::AfterReasoning),
                        // A bracket in prose.
                        Err(error) => (error.offset, SoughtRoot::Later { in_block }),
                    };
                    self.tail = TextAfterRoot::Searched(self.search_after(end, sought));
                }
                TextAfterRoot::Touching => {
                    let Some(&byte) = text.as_bytes().get(end) else {
                        return Ok(None);
                    };
                    self.tail = match byte {
                        // A definition of a reference: `[1]: https://…`
                        b':' if self.ended(text).is_reference() => {
                            return Ok(self.reject_array(text, sink));
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
                        Some(_) => return Ok(self.reject_array(text, sink)),
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
                            return Ok(self.reject_array(text, sink));
                        }
                        Some(_) => self.tail = self.tail_of(text),
                    }
                }
            }
        }
    }

    /// Treats a reference that has ended as prose, since its line continues: `[1] Smith`. Returns
    /// where a root begins in the text after it.
    fn reject_array<S: Sink + ?Sized>(&mut self, text: &str, sink: &mut S) -> Option<LocatedRoot> {
        let end = self.machine.offset();
        self.search = self.search_after(end, SoughtRoot::First);
        self.withdraw(text, end, sink);
        self.search.feed(text)
    }

    /// Returns a search in the text after a root that ended at `end`.
    fn search_after(&self, end: usize, sought: SoughtRoot) -> RootSearch {
        let finder = RootFinder::after_root(end, self.options.max_preamble, sought);
        RootSearch::with(finder, self.options.depth)
    }

    /// Returns how to read the text after the root.
    fn tail_of(&self, text: &str) -> TextAfterRoot {
        let end = self.machine.offset();
        let in_block = self.finder().preamble().has_fence();
        if in_block && self.options.trailing == Trailing::Block {
            return TextAfterRoot::Searched(RootSearch::with(
                RootFinder::further(end),
                self.options.depth,
            ));
        }
        let sought = match self.ended(text).is_weak() {
            true => SoughtRoot::First,
            false => SoughtRoot::Later { in_block },
        };
        TextAfterRoot::Searched(self.search_after(end, sought))
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

/// The most other roots that are kept: a text of more roots is a list of records, and its first one
/// is the answer, or the one in which the text ends.
const RIVALS: usize = 64;
