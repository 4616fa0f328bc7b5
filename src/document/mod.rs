//! The text of one answer: where its roots begin and end, and the machine at its end.
//!
//! A document doesn't know about events, calls or continuations. All of its text is final; its
//! caller withholds text that may still change.

pub(crate) mod choice;
mod ended_root;
mod parser;
mod repair;
mod root_text;
mod search;
mod utf8;

use std::borrow::Cow;

use serde::Serialize;

use crate::envelope::{AllowedRoots, missing_fence};
use crate::error::{SourceLocation, SyntaxError};
use crate::json::{CloseOptions, Completion, CutState, Machine, Path, Sink};
use crate::limits::ParserLimits;
pub use parser::Trailing;
use parser::{RootOptions, RootParser};
use repair::Tolerance;
use root_text::RootText;
pub(crate) use search::RootSearch;
use search::ends_in_root;
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
    roots: RootText,
    truncations: Truncations,
    /// `None` in a strict document.
    tolerance: Option<Box<Tolerance>>,
}

/// How often a text was truncated, and the truncations that matter to checkpoints.
#[derive(Clone, Debug, Default)]
struct Truncations {
    count: u64,
    /// As (number, length afterwards). A checkpoint that is older than such a truncation and longer
    /// than its length refers to forgotten text. Both numbers rise.
    relevant: Vec<(u64, usize)>,
}

impl Truncations {
    /// Records that the text was truncated to `length`.
    fn note(&mut self, length: usize) {
        self.count += 1;
        while self.relevant.pop_if(|&mut (_, to)| to >= length).is_some() {}
        self.relevant.push((self.count, length));
    }

    /// Returns whether text up to `length` was forgotten after the first `count` truncations.
    fn reached(&self, length: usize, count: u64) -> bool {
        // Both numbers rise: the first entry that is younger than the checkpoint went back
        // farthest.
        let younger = self.relevant.partition_point(|&(when, _)| when <= count);
        let farthest = self.relevant.get(younger);
        farthest.is_some_and(|&(_, to)| to < length)
    }
}

/// The position where a text stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cut {
    /// The number of bytes of text.
    pub offset: usize,
    /// The JSON Pointer of the value that is due or open, else of the innermost open container.
    pub path: String,
    /// The position in the grammar.
    #[serde(rename = "in")]
    pub state: CutState,
}

/// A state to which a document can be restored. Takes O(depth); the text is not copied.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    length: usize,
    /// The number of truncations before it.
    truncations: u64,
    /// The bytes that were dropped before the text.
    base: usize,
    parser: RootParser,
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
        let options = RootOptions {
            roots,
            trailing,
            depth,
            max_preamble: ParserLimits::default().max_preamble_bytes,
        };
        Self {
            roots: RootText::new(options),
            truncations: Truncations::default(),
            tolerance: None,
        }
    }

    /// Sets the number of bytes of prose after which no root begins without a fence. Has no effect
    /// once text was pushed.
    #[must_use]
    pub(crate) fn max_preamble(mut self, bytes: usize) -> Self {
        if self.roots.text.is_empty() && self.roots.dropped.bytes == 0 {
            self.roots.parser = RootParser::new(RootOptions {
                max_preamble: bytes,
                ..self.roots.parser.options
            });
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
        match &mut self.tolerance {
            Some(tolerance) => tolerance.push_all(&mut self.roots, text, sink),
            None => self.roots.push(text, sink),
        }
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
            if let Some(tolerance) = &mut self.tolerance {
                taken += piece.len();
                if let Some(tail) = tolerance.push(&mut self.roots, piece, sink)? {
                    // Text that earlier pushes withheld is examined now, so it must not count as
                    // taken twice.
                    let known = tail.len().saturating_sub(piece.len());
                    let withheld = tail.get(..known).unwrap_or_default();
                    tolerance.push_all(&mut self.roots, withheld, sink)?;
                    return Ok(taken - (tail.len() - known));
                }
                continue;
            }
            match self.roots.push_root(piece, sink)? {
                None => taken += piece.len(),
                Some(length) => return Ok(taken + length),
            }
        }
        Ok(taken)
    }

    /// Drops all text up to the end of the newest root, if that has ended. From then on all offsets
    /// count from the start of the remaining text; [`base`](Self::base) is the length of the
    /// dropped text. Earlier checkpoints, and spans that sinks have kept, refer to dropped text.
    pub fn forget_roots(&mut self) {
        self.roots.forget_ended();
    }

    /// Returns the number of bytes that [`forget_roots`](Self::forget_roots) has dropped: they
    /// preceded [`text`](Self::text).
    pub fn base(&self) -> usize {
        self.roots.dropped.bytes
    }

    /// Makes the next byte of the text, a bracket, begin the root, although it follows prose.
    pub(crate) fn begin_root(&mut self) {
        self.roots.parser.begin_root(self.roots.text.len());
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
        self.roots.rejected.clear();
        self.settle(sink);
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.finish(&mut self.roots, sink)?;
        }
        self.roots.finish(sink)
    }

    /// Ends the search for the root, as [`finish`](Self::finish) does: the root is chosen from the
    /// text as it ends here. An open root stays open.
    #[doc(hidden)]
    pub fn settle<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        self.roots.parser.settle(&self.roots.text, sink);
    }

    /// Emits to `sink` all events of the present text, as a single push of the text would: for a
    /// sink that is added late. Reads the whole text again; roots that were dropped are not
    /// emitted.
    pub fn replay<S: Sink + ?Sized>(&self, sink: &mut S) {
        self.roots.replay(sink);
    }

    /// Returns the location of `error`, an error of this document, in all text that was pushed:
    /// line, column, and the text around it. The path is that of the text's end, so ask before the
    /// next push. Reads all text before the error.
    pub fn explain(&self, error: &SyntaxError) -> SourceLocation {
        let at = error.offset.min(self.roots.text.len());
        let (before, after) = self
            .roots
            .text
            .split_at_checked(at)
            .unwrap_or((&self.roots.text, ""));
        let after = if after.is_empty() {
            &self.roots.rejected
        } else {
            after
        };
        let mut place = SourceLocation::of(
            before,
            after,
            error.offset + self.roots.dropped.bytes,
            self.path().to_string(),
        );
        if place.line == 1 {
            place.column += self.roots.dropped.columns;
        }
        place.line += self.roots.dropped.lines;
        place
    }

    /// Returns all text, with fence and preamble.
    pub fn text(&self) -> &str {
        &self.roots.text
    }

    /// Returns the root received so far, without the text around it. `None` before its first byte.
    pub fn root(&self) -> Option<&str> {
        self.roots
            .text
            .get(self.roots.parser.start?..self.roots.end())
    }

    /// Returns the offset after the root's last byte. `None` while the root is open.
    pub fn root_end(&self) -> Option<usize> {
        self.roots.root_end()
    }

    /// Returns how many roots have ended. Only [`Trailing::Next`] and [`Trailing::Block`] allow
    /// more than one; all other methods are about the newest root.
    pub fn roots(&self) -> usize {
        self.roots.parser.before + usize::from(self.is_complete())
    }

    /// Returns the offset where the root begins. `None` before its first byte.
    pub fn root_start(&self) -> Option<usize> {
        self.roots.parser.start
    }

    /// Forgets the text after the end of a closed root. The caller makes no checkpoint between the
    /// arrival of that text and this call.
    pub(crate) fn drop_tail(&mut self) {
        if !self.is_complete() && self.tolerance.is_none() {
            return;
        }
        let end = self.roots.end();
        self.roots.text.truncate(end);
        // The caller pushes the text after the root again, or drops it.
        self.roots.parser.drop_tail(end);
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.set_back(end + self.roots.dropped.bytes);
        }
    }

    /// Returns the first significant byte after a closed root, if it is near.
    pub(crate) fn byte_after_root(&self) -> Option<u8> {
        let after = self.roots.text.as_bytes().get(self.root_end()?..)?;
        after
            .iter()
            .take(AFTER_ROOT)
            .copied()
            .find(|byte| !byte.is_ascii_whitespace())
    }

    /// Returns whether this text, which follows the root, ends inside a later root.
    #[doc(hidden)]
    pub fn ends_in_later_root(&self, after: &str) -> bool {
        ends_in_root(after, self.roots.parser.options)
    }

    /// Returns a search for the root of another text, with the options of this document.
    pub(crate) fn fresh_search(&self) -> RootSearch {
        self.roots.parser.options.search()
    }

    /// Returns how many containers may be open.
    pub(crate) fn max_depth(&self) -> usize {
        self.roots.parser.options.depth
    }

    /// Returns which values may be the root.
    pub(crate) fn allowed_roots(&self) -> AllowedRoots {
        self.roots.parser.options.roots
    }

    /// Whether the root is closed and certain without further text: white space follows a scalar,
    /// and the root is not a possible reference (`[1]`).
    #[doc(hidden)]
    pub fn is_settled(&self) -> bool {
        self.is_complete() && self.roots.parser.is_settled(&self.roots.text)
    }

    /// Returns the error for significant text after a scalar root without a fence. Such a scalar is
    /// a word of a sentence: `2026 was …`.
    #[doc(hidden)]
    pub fn text_after_scalar(&self) -> Option<SyntaxError> {
        self.roots.parser.text_after_scalar(&self.roots.text)
    }

    /// Whether the root is closed.
    pub fn is_complete(&self) -> bool {
        self.roots.parser.machine.is_done()
    }

    /// Whether the text may end here: the root is closed, and the text does not end in a later root
    /// that would be the answer.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_complete() && !self.roots.parser.is_cut_later(&self.roots.text)
    }

    /// Returns the other roots of the text, as in other records or examples: after
    /// [`finish`](Self::finish) all but the answer.
    #[doc(hidden)]
    pub fn other_roots(&self) -> impl Iterator<Item = &str> {
        let others = self.roots.parser.others(&self.roots.text);
        others.map(|(root, _)| root)
    }

    /// Whether the text ends in a root that is not the answer.
    #[doc(hidden)]
    pub fn ends_in_other_root(&self) -> bool {
        let mut others = self.roots.parser.others(&self.roots.text);
        others.any(|(_, is_cut)| is_cut)
    }

    /// Whether the text is JSON or will be: a root has begun, or a fence promises one. A bracket
    /// after prose begins the root once JSON follows.
    pub fn is_json(&self) -> bool {
        self.roots.parser.is_in_json() || self.roots.parser.finder().promises_json()
    }

    /// Whether a Markdown fence precedes the root.
    pub fn has_fence(&self) -> bool {
        self.roots.parser.finder().preamble().has_fence()
    }

    /// Whether there is no significant text: the text is empty, white space, or a byte order mark.
    pub fn is_blank(&self) -> bool {
        self.roots.parser.start.is_none() && self.roots.parser.finder().is_blank()
    }

    /// Returns the rest of the line that opens a fence, if the text ends inside one.
    pub fn rest_of_fence(&self) -> Option<&'static str> {
        self.roots
            .parser
            .finder()
            .rest_of_fence()
            .filter(|_| self.roots.parser.start.is_none())
    }

    /// Returns the line that closes the fence after a closed root, or the rest of that line if some
    /// of its backticks are there. `None` if no fence is open.
    pub fn open_fence(&self) -> Option<String> {
        let tail = self
            .roots
            .text
            .get(self.roots.end()..)
            .filter(|_| self.is_complete() && self.has_fence())?;
        missing_fence(self.roots.parser.finder().preamble().ticks()?, tail)
    }

    /// Returns the number of backticks of the fence around the root, if prose precedes it.
    pub(crate) fn fence_after_preamble(&self) -> Option<usize> {
        let preamble = self.roots.parser.finder().preamble();
        preamble.ticks().filter(|_| preamble.has_prose())
    }

    /// Whether the first significant text is neither a root nor a fence.
    pub fn is_prose(&self) -> bool {
        !self.roots.parser.is_in_json() && self.roots.parser.finder().is_prose()
    }

    /// Takes the text for one that is not JSON, with all that follows: no root begins in it any
    /// more. No root has begun.
    pub(crate) fn read_as_text(&mut self) {
        debug_assert!(self.roots.parser.start.is_none(), "a root is JSON");
        (self.roots.parser, self.tolerance) =
            (self.roots.parser.of_text(self.roots.text.len()), None);
    }

    /// Returns whether the rest can be requested: a root has begun, or the text is not JSON.
    pub(crate) fn has_begun(&self) -> bool {
        self.roots.parser.start.is_some() || self.is_text()
    }

    /// Returns whether the search for a root has ended without one, because the text is not JSON.
    pub(crate) fn is_text(&self) -> bool {
        self.roots.parser.finder().is_text()
    }

    /// Returns how many bytes of prose the text ends with. 0 if a root or a fence has begun.
    pub(crate) fn prose_len(&self) -> usize {
        if self.roots.parser.is_in_json() {
            0
        } else {
            self.roots.parser.finder().prose_len()
        }
    }

    /// Returns the machine at the end of the root; its offsets count in [`text`](Self::text).
    #[doc(hidden)]
    pub fn machine(&self) -> &Machine {
        &self.roots.parser.machine
    }

    /// Returns the position in the grammar where the text stops. O(1).
    pub fn cut_state(&self) -> CutState {
        self.roots.parser.machine.cut_state()
    }

    /// Returns the path of the value that is due or open, else of the innermost open container.
    /// O(1): it is a view.
    pub fn path(&self) -> Path<'_> {
        self.roots.parser.machine.path(&self.roots.text)
    }

    /// Returns the position where the text stops, as owned data. O(depth).
    pub fn cut(&self) -> Cut {
        Cut {
            offset: self.roots.text.len(),
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
        Some([self.roots.text.get(self.roots.parser.start?..end)?, &suffix].concat())
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
        self.roots.parser.machine.close_into(closing, suffix)
    }

    /// Returns the shortest text that makes the root whole, if no text can be dropped any more.
    #[must_use]
    #[doc(hidden)]
    pub fn completion(&self) -> Completion {
        self.roots.parser.machine.completion(&self.roots.text)
    }

    /// Returns a state for [`restore`](Self::restore). O(depth).
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            length: self.roots.text.len(),
            truncations: self.truncations.count,
            base: self.roots.dropped.bytes,
            parser: self.roots.parser.clone(),
            tolerance: self.tolerance.clone(),
        }
    }

    /// Forgets all text since the checkpoint, which must be this document's own; nothing is parsed
    /// again. Returns `false` and changes nothing if the text of the checkpoint itself was
    /// forgotten. The owners of sinks restore those.
    #[must_use = "a checkpoint that is gone leaves the document as it is"]
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> bool {
        let is_gone = self
            .truncations
            .reached(checkpoint.length, checkpoint.truncations);
        let is_dropped = checkpoint.base != self.roots.dropped.bytes;
        if is_gone || is_dropped || !self.roots.text.is_char_boundary(checkpoint.length) {
            return false;
        }
        self.forget(checkpoint.length, checkpoint.parser.machine.is_done());
        self.roots.parser.clone_from(&checkpoint.parser);
        self.tolerance.clone_from(&checkpoint.tolerance);
        true
    }

    /// Forgets the value that is open or due at `depth` (the number of containers around it), and
    /// all that follows it: the value is due again. With 0 it is the root, and a root is awaited.
    /// Returns `false`, and changes nothing, if fewer containers are open. Takes O(depth) and the
    /// text between the last whole child and the value.
    pub(crate) fn rewind(&mut self, depth: usize) -> bool {
        let Some(root) = self.roots.parser.start.filter(|_| !self.is_complete()) else {
            return false;
        };
        if depth == 0 {
            if self.roots.parser.before > 0 {
                // The roots before it would be found again.
                return false;
            }
            self.forget(root, false);
            // The envelope was read before and has no root.
            self.roots.parser =
                RootParser::after_envelope(self.roots.parser.options, &self.roots.text);
            return true;
        }
        let open = self.roots.parser.machine.frames();
        let Some(frames) = open.get(..depth) else {
            return false;
        };
        let token = self
            .roots
            .parser
            .machine
            .in_token()
            .then(|| self.roots.parser.machine.token_start());
        let start = open
            .get(depth)
            .map(|frame| frame.start)
            .or(token)
            .unwrap_or(self.roots.text.len());
        self.set_back(root, frames.len(), start)
    }

    /// Closes the open root as its complete part: drops uncertain text and appends the closers. If
    /// they close a string, the completion's `cut_value` is its path. Returns `None` and changes
    /// nothing if the root has no complete part or is closed. Reads the text after the last whole
    /// children again, and O(depth) more.
    pub(crate) fn close_as_complete_part(&mut self) -> Option<Completion> {
        let root = self.roots.parser.start.filter(|_| !self.is_complete())?;
        let mut suffix = String::new();
        let end = self.complete_into(CloseOptions::default(), &mut suffix)?;
        // The complete part leaves a cut number out.
        let cut_value = self
            .completion()
            .cut_value
            .filter(|_| self.roots.parser.machine.in_string());
        let depth = self.roots.parser.machine.frames().len();
        if !self.set_back(root, depth, end) {
            return None;
        }
        let closed = self.push(&suffix);
        debug_assert!(closed.is_ok(), "the complete part is valid: {closed:?}");
        Some(Completion {
            suffix,
            synthesized: Vec::new(),
            cut_value,
        })
    }

    /// Forgets the text from `start` on. `start` is an offset after the last whole child of the
    /// innermost of `depth` containers of the open root.
    fn set_back(&mut self, root: usize, depth: usize, start: usize) -> bool {
        let Some(machine) = self.roots.machine_at(root, depth, start) else {
            return false;
        };
        self.forget(start, false);
        self.roots.parser.machine = machine;
        true
    }

    /// Forgets the text after `length`; `is_ended` is true if a root has ended there. The caller
    /// restores the parser.
    fn forget(&mut self, length: usize, is_ended: bool) {
        self.truncations.note(length);
        self.roots.truncate(length, is_ended);
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.set_back(length + self.roots.dropped.bytes);
        }
    }
}

/// The number of bytes that are examined after a root: more than the white space between two parts
/// of a document.
// The byte decides only whether JSON follows a root directly. Without a bound a document that is
// followed by a megabyte of blank lines would be read again with each question.
const AFTER_ROOT: usize = 1024;

/// [`Document::push_root_with`] appends text in pieces of this many bytes. A piece may reach beyond the end of the
/// root, and those bytes are copied needlessly.
// Small records end within a piece, so at most this much of the next record is copied twice. Pushes
// this long are worth an index (`json::machine::marked`); shorter pieces would lose it.
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
