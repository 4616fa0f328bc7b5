//! The sections in one reading: the first ones, the newest ones, and the open ones.

use std::collections::VecDeque;

use crate::json::{Frame, Kind, ParserView, Span, string};

/// A section, as spans of the text.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Ends at 0 while the section is open.
    pub(crate) span: Span,
    /// The number of containers around it.
    pub(crate) depth: usize,
    /// The key of a member of the root.
    pub(crate) key: Span,
    /// Its members that identify it, without quotes: `content_type`, `type`, `id`, `title`, `name`.
    pub(crate) names: [Option<Span>; NAMES.len()],
    /// Its arrays that have ended, each under the first key with that name.
    pub(crate) counts: Vec<(Span, usize)>,
    pub(crate) code: Code,
}

/// The members of a section that identify it.
pub(crate) const NAMES: [&str; 5] = ["content_type", "type", "id", "title", "name"];

/// The key whose string is code.
const CODE: &str = "code";

/// The number of keys whose arrays are counted for one section.
const COUNTS: usize = 8;

/// The longest key that is counted, in bytes.
const KEY: usize = 1024;

/// A count of lines of code.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Code {
    breaks: usize,
    /// Text follows the last line break.
    has_started: bool,
}

impl Code {
    pub(crate) fn lines(self) -> usize {
        self.breaks + usize::from(self.has_started)
    }
}

impl Entry {
    pub(super) fn new(start: usize, depth: usize, key: Span) -> Self {
        let span = Span { start, end: 0 };
        Self {
            span,
            depth,
            key,
            names: [None; NAMES.len()],
            counts: Vec::new(),
            code: Code::default(),
        }
    }

    pub(crate) fn add(&mut self, key: Span, count: usize, text: &str) {
        // Keys are compared with each array that ends: a longer key is not counted.
        if key.len() > KEY {
            return;
        }
        let name = string::key(key.of(text));
        if let Some((_, sum)) = self
            .counts
            .iter_mut()
            .find(|(other, _)| string::key(other.of(text)) == name)
        {
            *sum += count;
        } else if self.counts.len() < COUNTS {
            self.counts.push((key, count));
        }
    }
}

/// Sections in the order in which they start.
#[derive(Clone, Debug)]
pub(super) struct List {
    first: Vec<Entry>,
    /// The newest sections beyond the limit.
    last: VecDeque<Entry>,
    count: usize,
    limit: usize,
    /// The open ones by number, depth and start; the outermost first.
    open: Vec<OpenSection>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSection {
    number: usize,
    depth: usize,
    start: usize,
    /// A string of code is open in it.
    in_code: bool,
}

/// The number of newest sections that are kept at any limit: those that a summary shows, and some
/// that are open.
const NEWEST: usize = 32;

impl List {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            first: Vec::new(),
            last: VecDeque::new(),
            count: 0,
            limit,
            open: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.first.iter().chain(&self.last)
    }

    /// Returns the first sections, the number that is left out, and the last ones: `each` of both,
    /// or all.
    pub(super) fn ends(
        &self,
        each: usize,
    ) -> (
        impl Iterator<Item = &Entry>,
        usize,
        impl Iterator<Item = &Entry>,
    ) {
        let known = self.first.len() + self.last.len();
        let is_long = self.count > 2 * each;
        let (head, tail) = if is_long {
            (each.min(self.first.len()), each.min(known))
        } else {
            (known, 0)
        };
        let last = self.entries_back().take(tail).collect::<Vec<_>>();
        (
            self.entries().take(head),
            self.count - head - tail,
            last.into_iter().rev(),
        )
    }

    fn entries_back(&self) -> impl Iterator<Item = &Entry> {
        self.last.iter().rev().chain(self.first.iter().rev())
    }

    pub(super) fn push(&mut self, entry: Entry) {
        // Sections of dropped text are forgotten.
        while self
            .entries_back()
            .next()
            .is_some_and(|newest| newest.span.start >= entry.span.start)
        {
            if self.last.pop_back().is_some() {
                self.count -= 1;
            } else {
                self.first.pop();
                self.count = self.first.len();
            }
        }
        while self
            .open
            .pop_if(|open| open.depth >= entry.depth || open.start >= entry.span.start)
            .is_some()
        {}
        self.open.push(OpenSection {
            number: self.count,
            depth: entry.depth,
            start: entry.span.start,
            in_code: false,
        });
        self.count += 1;
        if self.first.len() < self.limit && self.last.is_empty() {
            self.first.push(entry);
            return;
        }
        if self.last.len() == NEWEST {
            self.last.pop_front();
        }
        self.last.push_back(entry);
    }

    /// Returns the innermost open section, if it is remembered.
    fn innermost(&mut self) -> Option<(&mut Entry, &mut OpenSection)> {
        let open = self.open.last_mut()?;
        let entry = match open.number.checked_sub(self.first.len()) {
            None => self.first.get_mut(open.number),
            Some(_) => {
                let gone = self.count - self.last.len();
                open.number
                    .checked_sub(gone)
                    .and_then(|at| self.last.get_mut(at))
            }
        };
        entry.map(|entry| (entry, open))
    }

    /// A string of code starts.
    pub(super) fn code_starts(&mut self, live: &ParserView<'_>) {
        if let Some(open) = self.open.last_mut() {
            open.in_code = live.frames.len() > open.depth;
        }
    }

    /// A fragment of a string was received.
    pub(super) fn fragment(&mut self, span: Span, live: &ParserView<'_>) {
        let Some((entry, _)) = self.innermost().filter(|(_, open)| open.in_code) else {
            return;
        };
        let text = live.decoded(span);
        entry.code.breaks += text.bytes().filter(|&byte| byte == b'\n').count();
        entry.code.has_started = !text.ends_with('\n');
    }

    /// A string or another scalar has ended. `name` is its index in [`NAMES`], if it has one.
    pub(super) fn scalar(&mut self, span: Span, live: &ParserView<'_>, name: Option<usize>) {
        if let Some(open) = self.open.last_mut() {
            open.in_code = false;
        }
        if let Some(at) = name
            && let Some((entry, open)) = self.innermost()
            && live.frames.len() == open.depth + 1
            && let Some(slot) = entry.names.get_mut(at)
        {
            *slot = Some(span);
        }
        self.close(span, live);
    }

    /// A container has ended.
    pub(super) fn end(&mut self, kind: Kind, count: usize, span: Span, live: &ParserView<'_>) {
        if kind == Kind::Array
            && let Some((entry, open)) = self.innermost()
            && live.frames.len() >= open.depth
            && let Some(key) = key(live)
        {
            entry.add(key, count, live.text);
        }
        self.close(span, live);
    }

    /// Closes the innermost section if its value has this span.
    fn close(&mut self, span: Span, live: &ParserView<'_>) {
        let is_it =
            |open: &OpenSection| open.depth == live.frames.len() && open.start == span.start;
        if self.open.last().is_some_and(is_it) {
            if let Some((entry, _)) = self.innermost() {
                entry.span = span;
            }
            self.open.pop();
        }
    }
}

/// Returns the index in [`NAMES`] of the key whose value the event is about.
pub(super) fn name(live: &ParserView<'_>) -> Option<usize> {
    let key = key(live)?.of(live.text);
    NAMES.iter().position(|known| *known == key)
}

/// Returns whether the string that the event is about is code.
pub(super) fn is_code(live: &ParserView<'_>) -> bool {
    key(live).is_some_and(|key| key.of(live.text) == CODE)
}

/// Returns the key of the value that the event is about.
fn key(live: &ParserView<'_>) -> Option<Span> {
    live.frames
        .last()
        .filter(|frame: &&Frame| frame.kind == Kind::Object)
        .map(|frame| frame.key)
}
