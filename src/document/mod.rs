//! The text of one answer: where its roots begin and end, and the machine at its end.
//!
//! A document doesn't know about events, calls or continuations. All of its text is final; its
//! caller withholds text that may still change.

mod parser;
mod repair;
mod rewind;
mod search;
mod utf8;

use std::borrow::Cow;

use crate::envelope::{AllowedRoots, missing_fence};
use crate::error::{Place, SyntaxError};
use crate::json::{CloseOptions, Completion, CutState, Machine, Path, Sink};
use crate::limits::ParserLimits;
use parser::Parser;
pub use parser::Trailing;
use repair::Tolerance;
pub(crate) use search::RootSearch;
pub use utf8::{Utf8, Utf8Error};

/// The text of one answer while it is received.
///
/// ```
/// let mut document = restitch::Document::new(1024);
/// document.push("{\"title\": \"Hel").unwrap();
/// assert_eq!(document.cut().path, "/title");
/// assert_eq!(document.complete().unwrap(), r#"{"title": "Hel"}"#);
///
/// let checkpoint = document.checkpoint();
/// document.push("met\"").unwrap();
/// assert!(document.restore(&checkpoint));
/// document.push("lo\"}").unwrap();
/// assert_eq!(document.root(), Some(r#"{"title": "Hello"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    parser: Parser,
    /// The start of the text that was rejected last. An excerpt shows it.
    rejected: String,
    /// How often the document was restored, and the relevant restores, as (number, length
    /// afterwards). A checkpoint that is older than such a restore and longer than its length
    /// refers to forgotten text. Both numbers rise.
    restored: u64,
    forgotten: Vec<(u64, usize)>,
    /// Where a root that is a number ended although no byte of the text ends it: by
    /// [`finish`](Self::finish), or before a byte that was rejected. The offsets rise.
    ended: Vec<usize>,
    dropped: Dropped,
    /// `None` in a strict document.
    tolerance: Option<Box<Tolerance>>,
}

/// The text that [`Document::forget_roots`] has dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    bytes: usize,
    roots: usize,
    /// Line feeds, and the characters after the last one.
    lines: usize,
    columns: usize,
}

/// The position where a text stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// The number of bytes of text.
    pub offset: usize,
    /// The JSON Pointer of the value that is due or open, else of the innermost open container.
    pub path: String,
    /// The position in the grammar.
    pub state: CutState,
}

/// A state to which a document can be restored. Takes O(depth); the text is not copied.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    length: usize,
    restored: u64,
    /// The bytes that were dropped before the text.
    base: usize,
    parser: Parser,
    tolerance: Option<Box<Tolerance>>,
}

impl Document {
    /// Creates an empty document whose root is an object or an array, at most `depth` containers
    /// deep.
    pub fn new(depth: usize) -> Self {
        Self::with_roots(depth, AllowedRoots::Containers)
    }

    /// Creates an empty document that accepts the given roots.
    pub fn with_roots(depth: usize, roots: AllowedRoots) -> Self {
        Self::with_options(depth, roots, Trailing::Stop)
    }

    /// Creates an empty document that accepts the given roots and treats text after a root
    /// according to `trailing`.
    pub fn with_options(depth: usize, roots: AllowedRoots, trailing: Trailing) -> Self {
        let parser = Parser::new(
            depth,
            roots,
            trailing,
            ParserLimits::default().max_preamble_bytes,
        );
        Self {
            text: String::new(),
            parser,
            rejected: String::new(),
            restored: 0,
            forgotten: Vec::new(),
            ended: Vec::new(),
            dropped: Dropped::default(),
            tolerance: None,
        }
    }

    /// Sets the number of bytes of prose after which no root begins without a fence. Has no effect
    /// once text was pushed.
    #[must_use]
    pub(crate) fn max_preamble(mut self, bytes: usize) -> Self {
        if self.text.is_empty() && self.dropped.bytes == 0 {
            self.parser = self.parser.within(bytes);
        }
        self
    }

    /// Appends text: the whole text, or, if the root is malformed, the text before the deviation.
    /// [`Trailing`] decides about text after the root: by default it is kept and not examined.
    ///
    /// # Errors
    /// Returns the deviation. Its offset counts from the start of the document's text, which now
    /// ends there; other text may follow. [`explain`](Self::explain) returns its location.
    pub fn push(&mut self, text: &str) -> Result<(), SyntaxError> {
        self.push_with(text, &mut ())
    }

    /// Like [`push`](Self::push), and emits the certain events to `sink`. Spans are offsets in
    /// [`text`](Self::text).
    ///
    /// # Errors
    /// Those of [`push`](Self::push); the events before the deviation were emitted.
    pub fn push_with<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        if self.tolerance.is_some() {
            let mut rest = self.push_repaired(text, sink)?;
            while let Some(tail) = rest.filter(|tail| !tail.is_empty()) {
                rest = self.push_repaired(&tail, sink)?;
            }
            return Ok(());
        }
        let before = self.text.len();
        self.text.push_str(text);
        let result = self.parser.run(&self.text, before, sink);
        if let Err(error) = &result {
            self.reject(error.offset);
        }
        result
    }

    /// Appends text like [`push_with`](Self::push_with), but only up to the end of a root. Returns
    /// how many bytes were taken: 0 if a number ended with the last byte of the push before.
    ///
    /// With [`forget_roots`](Self::forget_roots) it reads a stream of any number of roots with the
    /// memory for one:
    ///
    /// ```
    /// use restitch::{AllowedRoots, Document, SyntaxError, Trailing, paths::Paths};
    ///
    /// let mut document = Document::with_options(16, AllowedRoots::Any, Trailing::Next);
    /// let mut paths = Paths::completions(["/id"]).unwrap();
    /// let mut found = Vec::new();
    /// let mut rest = "{\"id\": 1}\n{\"id\": 2}\n{\"id\"";
    /// while !rest.is_empty() {
    ///     let taken = document.push_root_with(rest, &mut paths)?;
    ///     rest = &rest[taken..];
    ///     while let Some(value) = paths.poll_match() {
    ///         found.push((document.base() + value.span.start, value.text(document.text()).to_owned()));
    ///     }
    ///     document.forget_roots();
    /// }
    /// assert_eq!(found, [(7, "1".to_owned()), (17, "2".to_owned())]);
    /// assert_eq!(document.text(), "\n{\"id\"");
    /// # Ok::<(), SyntaxError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn push_root_with<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<usize, SyntaxError> {
        let mut taken = 0;
        while let Some(rest) = text.get(taken..).filter(|rest| !rest.is_empty()) {
            let length = (1..=PIECE.min(rest.len()))
                .rev()
                .find(|&end| rest.is_char_boundary(end));
            let piece = rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest);
            if self.tolerance.is_some() {
                taken += piece.len();
                if let Some(tail) = self.push_repaired(piece, sink)? {
                    // Text that earlier pushes withheld is examined now, so it must not count as
                    // taken twice.
                    let known = tail.len().saturating_sub(piece.len());
                    self.push_with(tail.get(..known).unwrap_or_default(), sink)?;
                    return Ok(taken - (tail.len() - known));
                }
                continue;
            }
            let before = self.text.len();
            self.text.push_str(piece);
            match self.parser.run_root(&self.text, before, sink) {
                Ok(false) => taken += piece.len(),
                Ok(true) => {
                    let end = self.end();
                    self.text.truncate(end);
                    self.mark_end();
                    return Ok(taken + end - before);
                }
                Err(error) => {
                    self.reject(error.offset);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// Drops all text up to the end of the newest root, if that has ended. From then on all offsets
    /// count from the start of the remaining text; [`base`](Self::base) is the length of the
    /// dropped text. Earlier checkpoints, and spans that sinks have kept, refer to dropped text.
    pub fn forget_roots(&mut self) {
        let Some(end) = self.root_end() else { return };
        let gone = self.text.get(..end).unwrap_or_default();
        let dropped = &mut self.dropped;
        if let Some(line) = memchr::memrchr(b'\n', gone.as_bytes()) {
            dropped.lines += memchr::memchr_iter(b'\n', gone.as_bytes()).count();
            dropped.columns = gone.get(line + 1..).unwrap_or_default().chars().count();
        } else {
            dropped.columns += gone.chars().count();
        }
        dropped.bytes += end;
        self.dropped.roots = self.roots();
        self.text.drain(..end);
        self.parser = self.parser.after_roots(self.dropped.roots);
        self.ended.clear();
    }

    /// Returns the number of bytes that [`forget_roots`](Self::forget_roots) has dropped: they
    /// preceded [`text`](Self::text).
    pub fn base(&self) -> usize {
        self.dropped.bytes
    }

    /// Forgets the text from `offset` on, except for its start, which an excerpt shows.
    fn reject(&mut self, offset: usize) {
        debug_assert!(
            self.text.is_char_boundary(offset),
            "an error is at the first byte of a character"
        );
        self.rejected.clear();
        self.rejected.extend(
            self.text
                .get(offset..)
                .unwrap_or_default()
                .chars()
                .take(Place::EXCERPT),
        );
        self.text.truncate(offset);
        self.mark_end();
    }

    /// Records that the root ended here, if it is a number: the text does not show that.
    fn mark_end(&mut self) {
        let length = self.text.len();
        let is_number = self.text.ends_with(|c: char| c.is_ascii_digit());
        if is_number && self.root_end() == Some(length) && self.ended.last() != Some(&length) {
            self.ended.push(length);
        }
    }

    /// Ends the text: a root that is a number ends here.
    ///
    /// # Errors
    /// Fails with [`UnexpectedEnd`](crate::SyntaxErrorKind::UnexpectedEnd) if the root is not
    /// closed.
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        self.finish_with(&mut ())
    }

    /// Like [`finish`](Self::finish), and emits a number that ends here to `sink`.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_with<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Result<(), SyntaxError> {
        self.rejected.clear();
        self.settle(sink);
        while self.finish_repaired(sink)? {}
        let result = self.parser.machine.finish_text(&self.text, sink);
        self.mark_end();
        if self.ended.last() == Some(&self.text.len()) {
            self.parser.end_touching(&self.text);
        }
        match result {
            Err(error) if !self.parser.is_whole() => Err(SyntaxError {
                offset: self.text.len(),
                ..error
            }),
            _ => Ok(()),
        }
    }

    /// Ends the search for the root, as [`finish`](Self::finish) does: if no root is certain yet,
    /// it is chosen from the text as it ends here. An open root stays open.
    pub(crate) fn settle<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        self.parser.settle(&self.text, sink);
    }

    /// Emits to `sink` all events of the present text, as a single push of the text would: for a
    /// sink that is added late. Reads the whole text again; roots that were dropped are not
    /// emitted.
    pub fn replay<S: Sink + ?Sized>(&self, sink: &mut S) {
        let mut parser = match self.dropped.roots {
            0 => self.parser.rewound(),
            before => self.parser.after_roots(before),
        };
        let mut start = 0;
        let settled = self.parser.settled;
        let mut ends: Vec<usize> = self
            .ended
            .iter()
            .copied()
            .chain(settled)
            .chain([self.text.len()])
            .collect();
        ends.sort_unstable();
        ends.dedup();
        for end in ends {
            let text = self.text.get(..end).unwrap_or_default();
            let accepted = parser.run(text, start, sink);
            debug_assert!(
                accepted.is_ok(),
                "a replay accepts the present text: {accepted:?}"
            );
            if settled == Some(end) {
                parser.settle(text, sink);
            }
            if self.ended.contains(&end) {
                let _ = parser.machine.finish_text(text, sink);
                parser.end_touching(text);
            }
            start = end;
        }
        if !self.parser.machine.in_token() {
            // The byte after a number is withheld, or was rejected.
            parser.machine.end_number(&self.text, sink);
        }
    }

    /// Returns the location of `error`, an error of this document, in all text that was pushed:
    /// line, column, and the text around it. The path is that of the text's end, so ask before the
    /// next push. Reads all text before the error.
    pub fn explain(&self, error: &SyntaxError) -> Place {
        let at = error.offset.min(self.text.len());
        let (before, after) = self.text.split_at_checked(at).unwrap_or((&self.text, ""));
        let after = if after.is_empty() {
            &self.rejected
        } else {
            after
        };
        let mut place = Place::of(
            before,
            after,
            error.offset + self.dropped.bytes,
            self.path().to_string(),
        );
        if place.line == 1 {
            place.column += self.dropped.columns;
        }
        place.line += self.dropped.lines;
        place
    }

    /// Returns all text, with fence and preamble.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the root received so far, without the text around it. `None` before its first byte.
    pub fn root(&self) -> Option<&str> {
        self.text.get(self.parser.start?..self.end())
    }

    /// Returns the offset after the root's last byte. `None` while the root is open.
    pub fn root_end(&self) -> Option<usize> {
        self.is_complete().then(|| self.parser.machine.offset())
    }

    /// Returns the end of the root, or of its text so far.
    fn end(&self) -> usize {
        self.root_end().unwrap_or(self.text.len())
    }

    /// Returns how many roots have ended. Only [`Trailing::Next`] and [`Trailing::Block`] allow
    /// more than one; all other methods are about the newest root.
    pub fn roots(&self) -> usize {
        self.parser.before + usize::from(self.is_complete())
    }

    /// Returns the offset where the root begins. `None` before its first byte.
    pub fn root_start(&self) -> Option<usize> {
        self.parser.start
    }

    /// Forgets the text after the end of a closed root. The caller makes no checkpoint between the
    /// arrival of that text and this call.
    pub(crate) fn drop_tail(&mut self) {
        if !self.is_complete() && self.tolerance.is_none() {
            return;
        }
        let end = self.end();
        self.text.truncate(end);
        self.parser.forget_tail();
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.set_back(end + self.dropped.bytes);
        }
    }

    /// Returns the first significant byte after a closed root, if it is near.
    pub(crate) fn byte_after_root(&self) -> Option<u8> {
        let after = self.text.as_bytes().get(self.root_end()?..)?;
        after
            .iter()
            .take(AFTER_ROOT)
            .copied()
            .find(|byte| !byte.is_ascii_whitespace())
    }

    /// Returns whether this text, which follows the root, ends inside a later root.
    #[doc(hidden)]
    pub fn ends_in_later_root(&self, after: &str) -> bool {
        self.parser.ends_in_later_root(after)
    }

    /// Returns a search for the root of another text, with the options of this document.
    pub(crate) fn fresh_search(&self) -> RootSearch {
        self.parser.fresh_search()
    }

    /// Returns how many containers may be open.
    pub(crate) fn max_depth(&self) -> usize {
        self.parser.depth
    }

    /// Whether the root is closed and certain without further text: white space follows a scalar,
    /// and the root is not a possible reference (`[1]`).
    #[doc(hidden)]
    pub fn is_settled(&self) -> bool {
        self.is_complete() && self.parser.is_settled(&self.text)
    }

    /// Returns the error for significant text after a scalar root without a fence. Such a scalar is
    /// a word of a sentence: `2026 was …`.
    #[doc(hidden)]
    pub fn text_after_scalar(&self) -> Option<SyntaxError> {
        self.parser.text_after_scalar(&self.text)
    }

    /// Whether the root is closed.
    pub fn is_complete(&self) -> bool {
        self.parser.machine.is_done()
    }

    /// Whether the text is JSON or will be: a root has begun, or a fence promises one. A bracket
    /// after prose begins the root once JSON follows.
    pub fn is_json(&self) -> bool {
        self.parser.is_in_json() || self.parser.finder().promises_json()
    }

    /// Whether a Markdown fence precedes the root.
    pub fn has_fence(&self) -> bool {
        self.parser.finder().has_fence()
    }

    /// Whether there is no significant text: the text is empty, white space, or a byte order mark.
    pub fn is_blank(&self) -> bool {
        self.parser.start.is_none() && self.parser.finder().is_blank()
    }

    /// Returns the rest of the line that opens a fence, if the text ends inside one.
    pub fn rest_of_fence(&self) -> Option<&'static str> {
        self.parser
            .finder()
            .rest_of_fence()
            .filter(|_| self.parser.start.is_none())
    }

    /// Returns the line that closes the fence after a closed root, or the rest of that line if some
    /// of its backticks are there. `None` if no fence is open.
    pub fn open_fence(&self) -> Option<String> {
        let tail = self
            .text
            .get(self.end()..)
            .filter(|_| self.is_complete() && self.has_fence())?;
        missing_fence(self.parser.finder().ticks(), tail)
    }

    /// Returns the number of backticks of the fence around the root, if prose precedes it.
    pub(crate) fn fence_after_preamble(&self) -> Option<usize> {
        let finder = self.parser.finder();
        (finder.has_fence() && finder.is_after_prose()).then(|| finder.ticks())
    }

    /// Whether the first significant text is neither a root nor a fence.
    pub fn is_prose(&self) -> bool {
        !self.parser.is_in_json() && self.parser.finder().is_prose()
    }

    /// Takes the text for one that is not JSON, with all that follows: no root begins in it any
    /// more. No root has begun.
    pub(crate) fn read_as_text(&mut self) {
        debug_assert!(self.parser.start.is_none(), "a root is JSON");
        (self.parser, self.tolerance) = (self.parser.of_text(self.text.len()), None);
    }

    /// Returns whether the rest can be requested: a root has begun, or the text is not JSON.
    pub(crate) fn has_begun(&self) -> bool {
        self.parser.start.is_some() || self.is_text()
    }

    /// Returns whether the search for a root has ended without one, because the text is not JSON.
    pub(crate) fn is_text(&self) -> bool {
        self.parser.finder().is_text()
    }

    /// Returns how many bytes of prose the text ends with. 0 if a root or a fence has begun.
    pub(crate) fn prose_len(&self) -> usize {
        if self.parser.is_in_json() {
            0
        } else {
            self.parser.finder().prose_len()
        }
    }

    /// Returns the machine at the end of the root; its offsets count in [`text`](Self::text).
    #[doc(hidden)]
    pub fn machine(&self) -> &Machine {
        &self.parser.machine
    }

    /// Returns the position in the grammar where the text stops. O(1).
    pub fn cut_state(&self) -> CutState {
        self.parser.machine.cut_state()
    }

    /// Returns the path of the value that is due or open, else of the innermost open container.
    /// O(1): it is a view.
    pub fn path(&self) -> Path<'_> {
        self.parser.machine.path(&self.text)
    }

    /// Returns the position where the text stops, as owned data. O(depth).
    pub fn cut(&self) -> Cut {
        Cut {
            offset: self.text.len(),
            path: self.path().to_string(),
            state: self.cut_state(),
        }
    }

    /// Returns the complete part: the root up to its last safe point, and closing brackets. It is
    /// always valid JSON. It leaves out uncertain text (an unfinished number, literal, escape or
    /// key, a comma, a key without its value) and includes a partial string. `None` before the
    /// first safe point. Takes O(depth) and the copy.
    #[must_use]
    pub fn complete(&self) -> Option<String> {
        self.complete_with(CloseOptions::default())
    }

    /// Like [`complete`](Self::complete), with options for the last token.
    #[must_use]
    pub fn complete_with(&self, closing: CloseOptions) -> Option<String> {
        let mut suffix = String::new();
        let end = self.complete_into(closing, &mut suffix)?;
        Some([self.text.get(self.parser.start?..end)?, &suffix].concat())
    }

    /// Returns the complete part without a copy: it is the text from
    /// [`root_start`](Self::root_start) to the returned offset, and then `suffix`, which is
    /// overwritten. `None` before the first safe point. O(depth).
    ///
    /// ```
    /// use restitch::json::{CloseOptions, Partial};
    ///
    /// let mut document = restitch::Document::new(16);
    /// let mut suffix = String::new();
    /// document.push(r#"{"done": tr"#).unwrap();
    /// assert_eq!(document.complete_into(CloseOptions::default(), &mut suffix), Some(1));
    /// assert_eq!(suffix, "}");
    /// let all = CloseOptions { literals: Partial::Include, ..CloseOptions::default() };
    /// assert_eq!(document.complete_into(all, &mut suffix), Some(11));
    /// assert_eq!(suffix, "ue}");
    /// ```
    #[must_use]
    pub fn complete_into(&self, closing: CloseOptions, suffix: &mut String) -> Option<usize> {
        self.parser.machine.close_into(closing, suffix)
    }

    /// Returns the shortest text that makes the root whole, if no text can be dropped any more.
    #[must_use]
    pub fn completion(&self) -> Completion {
        self.parser.machine.completion(&self.text)
    }

    /// Returns a state for [`restore`](Self::restore). O(depth).
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            length: self.text.len(),
            restored: self.restored,
            base: self.dropped.bytes,
            parser: self.parser.clone(),
            tolerance: self.tolerance.clone(),
        }
    }

    /// Forgets all text since the checkpoint, which must be this document's own; nothing is parsed
    /// again. Returns `false` and changes nothing if the text of the checkpoint itself was
    /// forgotten. The owners of sinks restore those.
    #[must_use = "a checkpoint that is gone leaves the document as it is"]
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> bool {
        // Both numbers rise: the first entry that is younger than the checkpoint went back
        // farthest.
        let younger = self
            .forgotten
            .partition_point(|&(when, _)| when <= checkpoint.restored);
        let is_gone = self
            .forgotten
            .get(younger)
            .is_some_and(|&(_, to)| to < checkpoint.length);
        let is_gone = is_gone || checkpoint.base != self.dropped.bytes;
        if is_gone || !self.text.is_char_boundary(checkpoint.length) {
            return false;
        }
        self.forget(checkpoint.length, checkpoint.parser.machine.is_done());
        self.parser.clone_from(&checkpoint.parser);
        self.tolerance.clone_from(&checkpoint.tolerance);
        true
    }

    /// Forgets the text after `length`; `is_ended` is true if a root has ended there. The caller
    /// restores the parser.
    fn forget(&mut self, length: usize, is_ended: bool) {
        self.restored += 1;
        while self.forgotten.pop_if(|&mut (_, to)| to >= length).is_some() {}
        self.forgotten.push((self.restored, length));
        while self
            .ended
            .pop_if(|&mut end| end > length || end == length && !is_ended)
            .is_some()
        {}
        self.text.truncate(length);
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.set_back(length + self.dropped.bytes);
        }
    }
}

/// The number of bytes that are examined after a root: more than the white space between two parts
/// of a document.
const AFTER_ROOT: usize = 1024;

/// [`Document::push_root_with`] appends text in pieces of this many bytes. A piece may reach beyond the end of the
/// root, and those bytes are copied needlessly.
const PIECE: usize = 1024;

/// Converts bytes to text: removes invalid UTF-8, and counts the removed bytes.
pub fn clean_encoding(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), 0),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            let mut removed = 0;
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                removed += chunk.invalid().len();
            }
            (Cow::Owned(text), removed)
        }
    }
}
