//! One slot's whole text: where its root begins and ends, and the machine that stands at its end.
//!
//! A document knows nothing of events, calls or continuations. All of its text is settled: what is not certain to
//! stay is kept by whoever feeds it.

use std::borrow::Cow;

use crate::error::SyntaxError;
use crate::json::envelope::{Opening, Roots};
use crate::json::{Completion, CutState, Machine};

/// The text of one answer, as it comes.
///
/// ```
/// let mut document = restitch::Document::new(1024);
/// document.push("{\"title\": \"Hel").unwrap();
/// assert_eq!(document.cut().path, "/title");
/// assert_eq!(document.complete().unwrap(), r#"{"title": "Hel"}"#);
///
/// let checkpoint = document.checkpoint();
/// document.push("met\"").unwrap();
/// document.restore(&checkpoint);
/// document.push("lo\"}").unwrap();
/// assert_eq!(document.root(), Some(r#"{"title": "Hello"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    opening: Opening,
    /// Where the root begins.
    start: Option<usize>,
    /// Fed with the root alone: its offsets count from `start`.
    machine: Machine,
    /// How often it was set back, and of those times the ones that matter: a checkpoint that is older than one of
    /// them and lies behind its length is of text that was forgotten. Both rise.
    restored: u64,
    forgotten: Vec<(u64, usize)>,
}

/// Where a text stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of text.
    pub offset: usize,
    /// JSON Pointer of the value that is due or open, else of the innermost open container.
    pub path: String,
    /// Where in the grammar.
    pub state: CutState,
}

/// A place that a document can be set back to. Costs O(depth); the text is not copied.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    length: usize,
    restored: u64,
    opening: Opening,
    start: Option<usize>,
    machine: Machine,
}

impl Document {
    /// An empty document whose root is an object or an array, at most `depth` containers deep.
    pub fn new(depth: usize) -> Self {
        Self::with_roots(depth, Roots::Containers)
    }

    /// An empty document that takes the given roots.
    pub fn with_roots(depth: usize, roots: Roots) -> Self {
        let (opening, machine) = (Opening::new(roots), Machine::new(depth));
        Self { text: String::new(), opening, start: None, machine, restored: 0, forgotten: Vec::new() }
    }

    /// Appends text: all of it, or, where the root is malformed, what stands before the deviation. Text behind the root
    /// is kept and not looked at.
    ///
    /// # Errors
    /// The deviation, its offset counted from the start of the document's text, where that now ends. Other text may
    /// follow there.
    pub fn push(&mut self, text: &str) -> Result<(), SyntaxError> {
        let before = self.text.len();
        let root_at = match self.start {
            Some(_) => 0,
            None => match self.opening.feed(text) {
                Some(start) => {
                    self.start = Some(start);
                    start - before
                }
                None => text.len(),
            },
        };
        let result = if self.is_complete() { Ok(0) } else { self.machine.feed(&text.as_bytes()[root_at..]) };
        match result {
            Ok(_) => {
                self.text.push_str(text);
                Ok(())
            }
            Err(error) => {
                let offset = self.start.unwrap_or_default() + error.offset;
                self.text.push_str(text.get(..offset - before).unwrap_or_default());
                Err(SyntaxError { offset, ..error })
            }
        }
    }

    /// Tells the document that its text is whole: a root that is a number ends here.
    ///
    /// # Errors
    /// [`UnexpectedEnd`](crate::SyntaxErrorKind::UnexpectedEnd) where the root is not closed.
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        self.machine.finish().map_err(|error| SyntaxError { offset: self.text.len(), ..error })
    }

    /// All text, fence and preamble included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The root as far as it has come, without what stands around it. `None` before its first byte.
    pub fn root(&self) -> Option<&str> {
        self.text.get(self.start?..self.root_end())
    }

    /// Where the root ends: behind its last byte where it is closed, else the end of the text.
    fn root_end(&self) -> usize {
        match self.start {
            Some(start) if self.machine.is_done() => start + self.machine.offset(),
            _ => self.text.len(),
        }
    }

    /// Where the root begins, in bytes of text. `None` before its first byte.
    pub fn root_start(&self) -> Option<usize> {
        self.start
    }

    /// Forgets what stands behind the end of a closed root. No checkpoint is made between that and its coming.
    pub(crate) fn drop_tail(&mut self) {
        self.text.truncate(self.root_end());
    }

    /// The root is closed.
    pub fn is_complete(&self) -> bool {
        self.machine.is_done()
    }

    /// The text is, or is going to be, JSON: a root has begun, or a fence has opened that promises it.
    pub fn is_json(&self) -> bool {
        self.start.is_some() || self.opening.promises_json()
    }

    /// A Markdown fence stands before the root.
    pub fn has_fence(&self) -> bool {
        self.opening.fence()
    }

    /// Nothing significant has come: the text is empty, white space, or a byte order mark.
    pub fn is_blank(&self) -> bool {
        self.start.is_none() && self.opening.is_blank()
    }

    /// What is missing of the line that opens a fence, where the text ends inside one.
    pub fn rest_of_fence(&self) -> Option<&'static str> {
        self.opening.rest_of_fence().filter(|_| self.start.is_none())
    }

    /// What closes the fence that stands open around a closed root; of half a line of backticks the rest. `None` where
    /// none is open.
    pub fn open_fence(&self) -> Option<String> {
        let ticks = "`".repeat(self.opening.ticks());
        let tail = self.text.get(self.root_end()..).filter(|_| self.is_complete() && self.has_fence())?;
        match tail.trim() {
            "" if tail.ends_with('\n') => Some(ticks),
            "" => Some(format!("\n{ticks}")),
            begun => match ticks.strip_prefix(begun) {
                Some("") => None,
                Some(rest) => Some(rest.to_owned()),
                None if begun.starts_with(&ticks) => None,
                None => Some(format!("\n{ticks}")),
            },
        }
    }

    /// The first significant text is neither a root nor a fence.
    pub fn is_prose(&self) -> bool {
        self.start.is_none() && self.opening.is_prose()
    }

    /// The machine at the end of the root; its offsets count from the root's first byte.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Where the text stops. O(depth).
    pub fn cut(&self) -> Cut {
        Cut { offset: self.text.len(), path: self.machine.path(self.rooted()), state: self.machine.cut_state() }
    }

    /// The complete part: the root up to its last safe point, and closers. Always valid JSON. What is not certain is
    /// dropped (an unfinished number, literal, escape or key, a comma, a key without its value), a partial string is
    /// kept. `None` before the first safe point. O(depth) and the copy.
    pub fn complete(&self) -> Option<String> {
        let (end, in_string) = self.machine.certain()?;
        let kept = self.rooted().get(..end)?;
        let closers = if self.is_complete() { &[] } else { self.machine.frames() };
        let mut part = String::with_capacity(kept.len() + closers.len() + 1);
        part.push_str(kept);
        if in_string {
            part.push('"');
        }
        part.extend(closers.iter().rev().map(|frame| frame.kind.closer()));
        Some(part)
    }

    /// What must follow the text to make its root whole, where nothing can be dropped any more.
    pub fn completion(&self) -> Completion {
        self.machine.completion(self.rooted())
    }

    /// A place to come back to. O(depth).
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            length: self.text.len(),
            restored: self.restored,
            opening: self.opening.clone(),
            start: self.start,
            machine: self.machine.clone(),
        }
    }

    /// Forgets all text since the checkpoint, which must be this document's own; nothing is parsed again. One of text
    /// that was forgotten itself is refused: the document stays as it is and `false` comes back.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> bool {
        let is_gone = self.forgotten.iter().any(|&(when, to)| when > checkpoint.restored && to < checkpoint.length);
        if is_gone || !self.text.is_char_boundary(checkpoint.length) {
            return false;
        }
        self.restored += 1;
        self.forgotten.retain(|&(_, to)| to < checkpoint.length);
        self.forgotten.push((self.restored, checkpoint.length));
        self.text.truncate(checkpoint.length);
        self.opening = checkpoint.opening.clone();
        self.start = checkpoint.start;
        self.machine = checkpoint.machine.clone();
        true
    }

    /// The text from the root's first byte on.
    fn rooted(&self) -> &str {
        self.start.and_then(|start| self.text.get(start..)).unwrap_or_default()
    }
}

/// Bytes as text: what is not UTF-8 is removed, and counted in bytes.
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
