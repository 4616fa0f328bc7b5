//! Subscriptions to values in a growing document.
//!
//! A pattern is a JSON Pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) in which the
//! step `*` matches any one key or index: `/items/*/title`. The empty pattern matches the root.
//! [`Paths`] is a sink: lend it to each push, and poll its matches after each push.
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
//!                 log.push(format!("{} is complete: {} at {}", found.path, item.title, item.price));
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
//!     r#"/items/0 is complete: Tea at 2.5"#,
//!     r#"/items/1/title + Caf\u00e9"#,
//!     r#"/items/1/title = "Caf\u00e9""#,
//! ]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This module does not interpret values. It keeps no text except the paths of matches that were
//! not polled.

mod pattern;
mod queue;

use std::fmt::Write as _;

use crate::json::{Event, Frame, ParserView, Sink, Span};
use pattern::Patterns;
#[doc(hidden)]
pub use pattern::{PatternError, PatternErrorKind};
use queue::Queue;
pub use queue::{Match, Phase};

/// Reports when values at matching paths start, grow and are complete.
///
/// Entering a value compares one step of each pattern that the containers around it match so far.
/// So the cost does not depend on the depth or on the number of values. A path is written only for
/// a match. Buffers are reused: once they have grown, a push allocates only to decode a key that
/// has escapes.
///
/// If an object repeats a key, both values match. A sink that is lent late reports later values; a
/// value that is open at that time has no [`Begin`](Phase::Begin). If a document is
/// [restored](crate::Document::restore), continue with a clone that was made with the checkpoint.
#[derive(Clone, Debug)]
pub struct Paths {
    patterns: Patterns,
    /// Only [`Phase::Complete`] is reported.
    completions: bool,
    /// The open containers.
    open: Vec<OpenPath>,
    /// The string that was open after the last event.
    string: Option<OpenKey>,
    /// The path of the open string, if it matches.
    string_path: String,
    /// The number of roots that have started.
    roots: usize,
    queue: Queue,
    #[cfg(test)]
    work: usize,
}

/// An open string.
#[derive(Clone, Copy, Debug)]
struct OpenKey {
    /// The offset after its newest fragment. The next fragment starts here, or the closing quote is
    /// here: that identifies the string.
    end: usize,
    /// The patterns that match it.
    set: u64,
}

/// An open container.
#[derive(Clone, Copy, Debug)]
struct OpenPath {
    /// The offset of its bracket, which identifies it.
    start: usize,
    /// The patterns that match it.
    matching: u64,
    /// The patterns that may match something in it.
    active: u64,
}

impl Paths {
    /// Creates a subscription to at most 64 patterns.
    ///
    /// ```
    /// let error = restitch::paths::Paths::new(["/items/*", "/a~2"]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"pattern "/a~2": `~` must be followed by `0` or `1` (byte 2)"#);
    /// ```
    ///
    /// # Errors
    /// The first pattern that is invalid, or the 65th.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        Ok(Self {
            patterns: Patterns::new(patterns)?,
            completions: false,
            open: Vec::new(),
            string: None,
            string_path: String::new(),
            roots: 0,
            queue: Queue::default(),
            #[cfg(test)]
            work: 0,
        })
    }

    /// Like [`new`](Self::new), but reports only complete values: [`Phase::Complete`].
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn completions<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, PatternError> {
        Ok(Self {
            completions: true,
            ..Self::new(patterns)?
        })
    }

    /// Returns the patterns, in the order of [`Match::pattern`].
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.patterns.texts()
    }

    /// Returns the next match, in the order of the text; for several patterns that match one value,
    /// in the order of the patterns. `None` until more is pushed. Poll until `None` after each
    /// push: matches that are not polled take memory.
    pub fn poll_match(&mut self) -> Option<Match<'_>> {
        self.queue.poll()
    }

    /// Returns the patterns that match the value which starts now, and those that may match
    /// something in it.
    fn enter(&mut self, live: &ParserView<'_>) -> (u64, u64) {
        if !self.is_at(live.frames) {
            self.catch_up(live);
        }
        let reached = match self.open.last().zip(live.frames.last()) {
            None => self.patterns.all(),
            Some((container, frame)) => {
                self.step(container.active, live.frames.len() - 1, frame, live.text)
            }
        };
        let ending = self.patterns.ending(live.frames.len());
        (reached & ending, reached & !ending)
    }

    /// Returns those of `active` that match the open child of the container `frame`, which is at
    /// this depth.
    fn step(&mut self, active: u64, depth: usize, frame: &Frame, text: &str) -> u64 {
        if active == 0 {
            return 0;
        }
        #[cfg(test)]
        {
            self.work += active.count_ones() as usize;
        }
        let child = ParserView {
            text,
            frames: std::slice::from_ref(frame),
        };
        let segment = child.path().tokens().next();
        debug_assert!(
            segment.is_some(),
            "a container with an open child has a path"
        );
        segment.map_or(0, |segment| self.patterns.step(active, depth, &segment))
    }

    /// Returns whether the open containers are those of `frames`. Compares the innermost one.
    fn is_at(&self, frames: &[Frame]) -> bool {
        let (own, theirs) = (self.open.last(), frames.last());
        self.open.len() == frames.len()
            && own.map(|container| container.start) == theirs.map(|frame| frame.start)
    }

    /// Reads the open containers from the frames, after missed pushes. O(depth), once for each gap.
    #[cold]
    fn catch_up(&mut self, live: &ParserView<'_>) {
        self.open.clear();
        self.roots = self.roots.max(1);
        let mut reached = self.patterns.all();
        for (depth, frame) in live.frames.iter().enumerate() {
            let ending = self.patterns.ending(depth);
            let container = OpenPath {
                start: frame.start,
                matching: reached & ending,
                active: reached & !ending,
            };
            self.open.push(container);
            reached = self.step(container.active, depth, frame, live.text);
        }
    }

    /// Queues a match of the patterns in `set`, for each of `phases`.
    fn report(&mut self, set: u64, phases: &[(Phase, Span)], live: &ParserView<'_>) {
        if set == 0
            || (self.completions && phases.iter().all(|&(phase, _)| phase != Phase::Complete))
        {
            return;
        }
        let open_string = self.string.map(|_| self.string_path.as_str());
        let path = self.queue.path(|path| match open_string {
            Some(open_string) => path.push_str(open_string),
            None => write(path, live),
        });
        #[cfg(test)]
        {
            self.work += if open_string.is_none() {
                live.frames.len()
            } else {
                0
            };
        }
        let root = self.roots.saturating_sub(1);
        for &(phase, span) in phases
            .iter()
            .filter(|&&(phase, _)| !self.completions || phase == Phase::Complete)
        {
            self.queue.push(set, phase, &path, span, root);
        }
    }

    /// Returns the patterns that match the open string, whose newest fragment ends at `end`.
    fn in_string(&mut self, end: usize, live: &ParserView<'_>) -> u64 {
        match self.string {
            Some(string) => string.set,
            None => {
                self.roots = self.roots.max(1);
                self.string_starts(end, live)
            }
        }
    }

    fn string_starts(&mut self, end: usize, live: &ParserView<'_>) -> u64 {
        let (set, _) = self.enter(live);
        self.string = Some(OpenKey { end, set });
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

    /// Forgets the open string if the event is about another value: pushes were missed, or the
    /// string has ended.
    fn keep_string(&mut self, event: Event) {
        self.string = self.string.and_then(|string| match event {
            Event::Fragment(span) if span.start == string.end => Some(OpenKey {
                end: span.end,
                ..string
            }),
            Event::StringEnd(span) if string.end.checked_add(1) == Some(span.end) => Some(string),
            _ => None,
        });
    }
}

impl Sink for Paths {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        self.keep_string(event);
        // Most events are fragments of strings that do not match.
        let is_ignored = self.completions || self.string.is_some_and(|string| string.set == 0);
        if matches!(event, Event::Key(_)) || (is_ignored && matches!(event, Event::Fragment(_))) {
            return;
        }
        if event.begins_value() && live.frames.is_empty() {
            self.roots += 1;
            // The root before may have been prose.
            self.open.clear();
        }
        match event {
            Event::Begin { at, .. } => {
                let (matching, active) = self.enter(live);
                self.open.push(OpenPath {
                    start: at,
                    matching,
                    active,
                });
                self.report(matching, &[(Phase::Begin, first(at))], live);
            }
            Event::End { span, .. } => {
                let own = self
                    .open
                    .pop()
                    .filter(|container| container.start == span.start);
                // The start of the container was missed: match it now.
                let matching =
                    own.map_or_else(|| self.enter(live).0, |container| container.matching);
                self.report(matching, &[(Phase::Complete, span)], live);
            }
            Event::StringBegin(at) => {
                let begin = first(at);
                let set = self.string_starts(begin.end, live);
                self.report(set, &[(Phase::Begin, begin)], live);
            }
            Event::Fragment(span) => {
                let set = self.in_string(span.end, live);
                self.report(set, &[(Phase::Grow, span)], live);
            }
            Event::StringEnd(span) => {
                let set = self.in_string(span.end, live);
                self.report(set, &[(Phase::Complete, span)], live);
                self.string = None;
            }
            Event::Scalar { span, .. } => {
                let (set, _) = self.enter(live);
                self.report(
                    set,
                    &[(Phase::Begin, first(span.start)), (Phase::Complete, span)],
                    live,
                );
            }
            Event::Key(_) | Event::Withdrawn(_) => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// Returns the span of a value's first byte.
fn first(at: usize) -> Span {
    Span {
        start: at,
        end: at.saturating_add(1),
    }
}

/// Appends the path of the open value.
fn write(path: &mut String, live: &ParserView<'_>) {
    // Writing to a string does not fail.
    let _ = write!(path, "{}", live.path());
}

#[cfg(test)]
mod tests {
    use super::Paths;
    use crate::Document;

    /// Counts the steps that are compared, and the steps of paths that are written, for a whole
    /// text.
    fn work(patterns: &[&str], text: &str) -> usize {
        let mut paths = Paths::new(patterns).unwrap();
        let mut document = Document::new(4096);
        for part in text.as_bytes().chunks(4) {
            document
                .push_with(std::str::from_utf8(part).unwrap(), &mut paths)
                .unwrap();
            while paths.poll_match().is_some() {}
        }
        paths.work
    }

    #[test]
    fn where_no_pattern_is_active_nothing_is_compared() {
        let below = |depth: usize| {
            format!(
                "{{\"a\": {}1, \"x\"{}}}",
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        let below = [1, 100, 1000].map(|depth| work(&["/b/*", "/c", "/*/no"], &below(depth)));
        // One member is compared with three patterns; `/*/no` stays active and is compared with the
        // one or two elements.
        assert_eq!(below, [5, 4, 4]);
        let beside = [1, 10, 1000].map(|count| {
            work(
                &["/b/c"],
                &format!("{{\"a\": [{}0]}}", "[1, {}],".repeat(count)),
            )
        });
        assert_eq!(beside, [1, 1, 1]);
    }

    #[test]
    fn a_value_costs_a_step_for_each_active_pattern() {
        let rows = |count: usize| {
            format!(
                "{{\"rows\": [{}0]}}",
                "{\"id\": 12345, \"no\": [1, 2]},".repeat(count)
            )
        };
        let patterns = ["/rows/*/id/x", "/rows/*/ip", "/else"];
        // `rows` is compared with all patterns; each row with two, and each of its members with
        // two.
        let expected = |count: usize| 3 + (2 + 2 * 2) * count + 2;
        assert_eq!(
            [1, 10, 1000].map(|count| work(&patterns, &rows(count))),
            [1, 10, 1000].map(expected)
        );
    }

    #[test]
    fn a_match_costs_its_path_and_a_fragment_costs_nothing() {
        let text = |depth: usize, length: usize| {
            format!(
                "{}\"{}\"{}",
                "[".repeat(depth),
                "a".repeat(length),
                "]".repeat(depth)
            )
        };
        for (depth, length) in [(3, 4), (3, 4000), (300, 4), (300, 4000)] {
            // Each container is compared once, and the path is written once.
            assert_eq!(
                work(&["/*".repeat(depth).as_str()], &text(depth, length)),
                2 * depth
            );
        }
    }

    #[test]
    fn buffers_are_kept() {
        let mut paths = Paths::new(["/a/*"]).unwrap();
        let mut document = Document::new(16);
        document.push_with("{\"a\": [\"", &mut paths).unwrap();
        let mut sizes = Vec::new();
        for n in 0..1000 {
            document
                .push_with(if n % 3 == 0 { "x\", \"" } else { "yz" }, &mut paths)
                .unwrap();
            while paths.poll_match().is_some() {}
            sizes.push((paths.queue.capacity(), paths.string_path.capacity()));
        }
        // From index 100 on, all paths have the same length.
        assert_eq!(sizes[400], sizes[999]);
    }
}
