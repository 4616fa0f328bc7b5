//! Subscriptions: what happens at the places of a growing document that match patterns.
//!
//! A pattern is a JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) in which a step `*` stands for any
//! one key or index: `/items/*/title`; the empty pattern is the root. [`Paths`] is a sink: lend it to each push, and
//! drain it behind each push. It reads no clock and calls nothing back.
//!
//! ```
//! use restitch::Document;
//! use restitch::paths::{Paths, Phase};
//!
//! #[derive(serde::Deserialize)]
//! struct Item {
//!     title: String,
//!     price: f64,
//! }
//!
//! let mut paths = Paths::new(["/items/*", "/items/*/title"])?;
//! let mut document = Document::new(64);
//! let mut log = Vec::new();
//! for delta in [r#"{"items": [{"title": "Te"#, r#"a", "price": 2.5"#, r#"}, {"title": "Caf\u00e9", "pri"#] {
//!     document.push_with(delta, &mut paths)?;
//!     while let Some(found) = paths.poll_match() {
//!         let text = found.text(document.text());
//!         match (found.pattern, found.phase) {
//!             (0, Phase::Complete) => {
//!                 let item: Item = found.parse(document.text())?;
//!                 log.push(format!("{} is whole: {} at {}", found.path, item.title, item.price));
//!             }
//!             (1, Phase::Grow) => log.push(format!("{} + {text}", found.path)),
//!             (1, Phase::Complete) => log.push(format!("{} = {text}", found.path)),
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(log, [
//!     r#"/items/0/title + Te"#,
//!     r#"/items/0/title + a"#,
//!     r#"/items/0/title = "Tea""#,
//!     r#"/items/0 is whole: Tea at 2.5"#,
//!     r#"/items/1/title + Caf\u00e9"#,
//!     r#"/items/1/title = "Caf\u00e9""#,
//! ]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Knows nothing of what the values mean, and keeps no text but the paths of matches that wait.

mod pattern;
mod queue;

use std::fmt::Write as _;

use crate::json::{Event, Frame, Live, Sink, Span};
use pattern::Patterns;
pub use pattern::{PatternError, PatternErrorKind};
use queue::Queue;
pub use queue::{Match, Phase};

/// Says when values at matching places begin, grow and are whole.
///
/// Entering a value compares one step of each pattern that the containers around it match so far, and nothing where
/// none does: the work doesn't depend on the depth or on how many values there are. A path is written for a match alone.
/// Buffers are kept: once they are as large as they need to be, a push allocates nothing, but to read a key that is
/// written with escapes.
///
/// Of a key that an object has twice, both values match. A sink that is lent late says what it sees from then on: a value
/// that is open then has no [`Begin`](Phase::Begin). Where a document is [set back](crate::Document::restore), a clone
/// that was taken together with the checkpoint goes on.
#[derive(Clone, Debug)]
pub struct Paths {
    patterns: Patterns,
    /// [`Phase::Complete`] is all that is asked for.
    completions: bool,
    /// The open containers.
    levels: Vec<Level>,
    /// The string that was open behind the last event.
    string: Option<OpenString>,
    /// Its path, if it matches anything.
    string_path: String,
    /// Roots that have begun.
    roots: usize,
    queue: Queue,
    #[cfg(test)]
    work: usize,
}

/// An open string.
#[derive(Clone, Copy, Debug)]
struct OpenString {
    /// Behind what was told of it. The part that begins there is its next one, and the quote that stands there ends it:
    /// so it is known again.
    emitted: usize,
    /// The patterns that it matches.
    set: u64,
}

/// An open container.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Its bracket, by which it is known again.
    start: usize,
    /// The patterns that it matches.
    whole: u64,
    /// The patterns that go on below it.
    alive: u64,
}

impl Paths {
    /// Follows `patterns`, of which there are 64 at most.
    ///
    /// ```
    /// let error = restitch::paths::Paths::new(["/items/*", "/a~2"]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"pattern "/a~2": `~` must be followed by `0` or `1` (byte 2)"#);
    /// ```
    ///
    /// # Errors
    /// The first pattern that can't be read, or is one too many.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        Ok(Self {
            patterns: Patterns::new(patterns)?,
            completions: false,
            levels: Vec::new(),
            string: None,
            string_path: String::new(),
            roots: 0,
            queue: Queue::default(),
            #[cfg(test)]
            work: 0,
        })
    }

    /// Like [`new`](Self::new), and tells of whole values alone: a pattern and [`Phase::Complete`].
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn completions<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        Ok(Self { completions: true, ..Self::new(patterns)? })
    }

    /// The patterns, in the order of [`Match::pattern`].
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.patterns.texts()
    }

    /// The next match, in the order of the text; of several patterns that match one value, in theirs. `None` until more
    /// is pushed. Poll until then behind each push: what is not polled waits, and takes memory.
    pub fn poll_match(&mut self) -> Option<Match<'_>> {
        self.queue.poll()
    }

    /// The patterns whose steps the path of a value matches as far as it goes: those that it ends, and those that go on
    /// below it.
    fn enter(&mut self, live: &Live<'_>) -> (u64, u64) {
        if !self.stands_in(live.frames) {
            self.catch_up(live);
        }
        let reached = match self.levels.last().zip(live.frames.last()) {
            None => self.patterns.everyone(),
            Some((level, frame)) => self.step(level.alive, live.frames.len() - 1, frame, live.text),
        };
        let ending = self.patterns.ending(live.frames.len());
        (reached & ending, reached & !ending)
    }

    /// Those of `alive` that let the open child of the container `frame` through, which is at this depth.
    fn step(&mut self, alive: u64, depth: usize, frame: &Frame, text: &str) -> u64 {
        if alive == 0 {
            return 0;
        }
        #[cfg(test)]
        {
            self.work += alive.count_ones() as usize;
        }
        let child = Live { text, frames: std::slice::from_ref(frame) };
        let token = child.path().tokens().next();
        debug_assert!(token.is_some(), "a container with an open child has a path");
        token.map_or(0, |token| self.patterns.step(alive, depth, &token))
    }

    /// The levels are those of `frames`, as far as the innermost one tells.
    fn stands_in(&self, frames: &[Frame]) -> bool {
        let (own, theirs) = (self.levels.last(), frames.last());
        self.levels.len() == frames.len() && own.map(|level| level.start) == theirs.map(|frame| frame.start)
    }

    /// Pushes were missed: the levels are made anew. O(depth), once a gap.
    #[cold]
    fn catch_up(&mut self, live: &Live<'_>) {
        self.levels.clear();
        self.roots = self.roots.max(1);
        let mut reached = self.patterns.everyone();
        for (depth, frame) in live.frames.iter().enumerate() {
            let ending = self.patterns.ending(depth);
            let level = Level { start: frame.start, whole: reached & ending, alive: reached & !ending };
            self.levels.push(level);
            reached = self.step(level.alive, depth, frame, live.text);
        }
    }

    /// A value that matches the patterns in `set` goes through `phases`.
    fn tell(&mut self, set: u64, phases: &[(Phase, Span)], live: &Live<'_>) {
        if set == 0 || (self.completions && phases.iter().all(|&(phase, _)| phase != Phase::Complete)) {
            return;
        }
        let begun = self.string.map(|_| self.string_path.as_str());
        let path = self.queue.path(|path| match begun {
            Some(begun) => path.push_str(begun),
            None => write(path, live),
        });
        #[cfg(test)]
        {
            self.work += if begun.is_none() { live.frames.len() } else { 0 };
        }
        let root = self.roots.saturating_sub(1);
        for &(phase, span) in phases.iter().filter(|&&(phase, _)| !self.completions || phase == Phase::Complete) {
            self.queue.push(set, phase, &path, span, root);
        }
    }

    /// The patterns that the open string matches, of which the text before `told` is told.
    fn in_string(&mut self, emitted: usize, live: &Live<'_>) -> u64 {
        match self.string {
            Some(string) => string.set,
            None => {
                self.roots = self.roots.max(1);
                self.string_begins(emitted, live)
            }
        }
    }

    fn string_begins(&mut self, emitted: usize, live: &Live<'_>) -> u64 {
        let (set, _) = self.enter(live);
        self.string = Some(OpenString { emitted, set });
        self.string_path.clear();
        if set != 0 {
            write(&mut self.string_path, live);
            #[cfg(test)]
            {
                self.work += live.frames.len();
            }
        }
        set
    }

    /// Forgets the open string where the event is about another value: pushes were missed, or it has ended.
    fn keep_string(&mut self, event: Event) {
        self.string = self.string.and_then(|string| match event {
            Event::Fragment(span) if span.start == string.emitted => Some(OpenString { emitted: span.end, ..string }),
            Event::StringEnd(span) if string.emitted.checked_add(1) == Some(span.end) => Some(string),
            _ => None,
        });
    }
}

impl Sink for Paths {
    fn event(&mut self, event: Event, live: &Live<'_>) {
        self.keep_string(event);
        // Most events are parts of strings, and most of those are of no interest.
        let is_quiet = self.completions || self.string.is_some_and(|string| string.set == 0);
        if matches!(event, Event::Key(_)) || (is_quiet && matches!(event, Event::Fragment(_))) {
            return;
        }
        self.roots += usize::from(event.begins_value() && live.frames.is_empty());
        match event {
            Event::Begin { at, .. } => {
                let (whole, alive) = self.enter(live);
                self.levels.push(Level { start: at, whole, alive });
                self.tell(whole, &[(Phase::Begin, first(at))], live);
            }
            Event::End { span, .. } => {
                let own = self.levels.pop().filter(|level| level.start == span.start);
                // Its beginning was missed: what it matches is asked now.
                let whole = own.map_or_else(|| self.enter(live).0, |level| level.whole);
                self.tell(whole, &[(Phase::Complete, span)], live);
            }
            Event::StringBegin(at) => {
                let begin = first(at);
                let set = self.string_begins(begin.end, live);
                self.tell(set, &[(Phase::Begin, begin)], live);
            }
            Event::Fragment(span) => {
                let set = self.in_string(span.end, live);
                self.tell(set, &[(Phase::Grow, span)], live);
            }
            Event::StringEnd(span) => {
                let set = self.in_string(span.end, live);
                self.tell(set, &[(Phase::Complete, span)], live);
                self.string = None;
            }
            Event::Scalar { span, .. } => {
                let (set, _) = self.enter(live);
                self.tell(set, &[(Phase::Begin, first(span.start)), (Phase::Complete, span)], live);
            }
            Event::Key(_) => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// The first byte of a value.
fn first(at: usize) -> Span {
    Span { start: at, end: at.saturating_add(1) }
}

/// Appends the path of the value that is open.
fn write(path: &mut String, live: &Live<'_>) {
    // Writing to a string does not fail.
    let _ = write!(path, "{}", live.path());
}

#[cfg(test)]
mod tests {
    use super::Paths;
    use crate::Document;

    /// What the whole text costs: steps compared, and steps of paths written.
    fn work(patterns: &[&str], text: &str) -> usize {
        let mut paths = Paths::new(patterns).unwrap();
        let mut document = Document::new(4096);
        for part in text.as_bytes().chunks(4) {
            document.push_with(std::str::from_utf8(part).unwrap(), &mut paths).unwrap();
            while paths.poll_match().is_some() {}
        }
        paths.work
    }

    #[test]
    fn where_no_pattern_is_alive_nothing_is_compared() {
        let below = |depth: usize| format!("{{\"a\": {}1, \"x\"{}}}", "[".repeat(depth), "]".repeat(depth));
        let below = [1, 100, 1000].map(|depth| work(&["/b/*", "/c", "/*/no"], &below(depth)));
        // One member against three patterns; `/*/no` is alive in it, and looks at the one or two elements there.
        assert_eq!(below, [5, 4, 4]);
        let beside = [1, 10, 1000].map(|count| work(&["/b/c"], &format!("{{\"a\": [{}0]}}", "[1, {}],".repeat(count))));
        assert_eq!(beside, [1, 1, 1]);
    }

    #[test]
    fn a_value_costs_a_step_for_each_pattern_that_is_alive() {
        let rows = |count: usize| format!("{{\"rows\": [{}0]}}", "{\"id\": 12345, \"no\": [1, 2]},".repeat(count));
        let patterns = ["/rows/*/id/x", "/rows/*/ip", "/else"];
        // `rows` against all; each row against two, and of each both members against two.
        let expected = |count: usize| 3 + (2 + 2 * 2) * count + 2;
        assert_eq!([1, 10, 1000].map(|count| work(&patterns, &rows(count))), [1, 10, 1000].map(expected));
    }

    #[test]
    fn a_match_costs_its_path_and_a_part_of_a_string_nothing() {
        let text = |depth: usize, length: usize| {
            format!("{}\"{}\"{}", "[".repeat(depth), "a".repeat(length), "]".repeat(depth))
        };
        for (depth, length) in [(3, 4), (3, 4000), (300, 4), (300, 4000)] {
            // Each level is compared once, and the path is written once.
            assert_eq!(work(&["/*".repeat(depth).as_str()], &text(depth, length)), 2 * depth);
        }
    }

    #[test]
    fn buffers_are_kept() {
        let mut paths = Paths::new(["/a/*"]).unwrap();
        let mut document = Document::new(16);
        document.push_with("{\"a\": [\"", &mut paths).unwrap();
        let mut sizes = Vec::new();
        for n in 0..1000 {
            document.push_with(if n % 3 == 0 { "x\", \"" } else { "yz" }, &mut paths).unwrap();
            while paths.poll_match().is_some() {}
            sizes.push((paths.queue.capacity(), paths.string_path.capacity()));
        }
        // From the index 100 on, the paths have one length.
        assert_eq!(sizes[400], sizes[999]);
    }
}
