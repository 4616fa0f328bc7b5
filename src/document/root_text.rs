//! The text of a document, and the parser of its roots.

use super::parser::{RootOptions, RootParser};
use crate::error::{SourceLocation, SyntaxError};
use crate::json::{Machine, Sink};

/// The text of a document with its roots. The text is valid, or outside of roots.
#[derive(Clone, Debug)]
pub(super) struct RootText {
    pub(super) text: String,
    pub(super) parser: RootParser,
    /// The start of the text that was rejected last. An excerpt shows it.
    pub(super) rejected: String,
    /// Where a root that is a number ended although no byte of the text ends it: by
    /// [`finish`](Self::finish), or before a byte that was rejected. The offsets rise.
    pub(super) ended: Vec<usize>,
    pub(super) dropped: DroppedText,
}

/// The text that [`RootText::forget_ended`] has dropped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DroppedText {
    pub(super) bytes: usize,
    pub(super) roots: usize,
    /// Line feeds, and the characters after the last one.
    pub(super) lines: usize,
    pub(super) columns: usize,
}

impl RootText {
    pub(super) fn new(options: RootOptions) -> Self {
        Self {
            text: String::new(),
            parser: RootParser::new(options),
            rejected: String::new(),
            ended: Vec::new(),
            dropped: DroppedText::default(),
        }
    }

    /// Whether no text was pushed.
    pub(super) fn is_new(&self) -> bool {
        self.text.is_empty() && self.dropped.bytes == 0
    }

    /// Appends text, up to a deviation.
    ///
    /// # Errors
    /// Returns the deviation.
    pub(super) fn push<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        let before = self.text.len();
        self.text.push_str(text);
        let result = self.parser.run(&self.text, before, sink);
        if let Err(error) = &result {
            self.reject(error.offset);
        }
        result
    }

    /// Appends text up to the end of a root; returns how many bytes belong to it if it has ended.
    ///
    /// # Errors
    /// Returns the deviation.
    pub(super) fn push_root<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<Option<usize>, SyntaxError> {
        let before = self.text.len();
        self.text.push_str(text);
        match self.parser.run_root(&self.text, before, sink) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let end = self.end();
                self.text.truncate(end);
                self.mark_end();
                Ok(Some(end - before))
            }
            Err(error) => {
                self.reject(error.offset);
                Err(error)
            }
        }
    }

    /// Ends the text: a root that is a number ends here.
    ///
    /// # Errors
    /// Fails if the root is not closed.
    pub(super) fn finish<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Result<(), SyntaxError> {
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

    /// Forgets the text after `length`; `is_ended` is true if a root has ended there.
    pub(super) fn truncate(&mut self, length: usize, is_ended: bool) {
        while self
            .ended
            .pop_if(|&mut end| end > length || end == length && !is_ended)
            .is_some()
        {}
        self.text.truncate(length);
    }

    /// Forgets the text from `offset` on, except for its start, which an excerpt shows.
    pub(super) fn reject(&mut self, offset: usize) {
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
                .take(SourceLocation::EXCERPT),
        );
        self.text.truncate(offset);
        self.mark_end();
    }

    /// Records that the root ended here, if it is a number: the text does not show that.
    pub(super) fn mark_end(&mut self) {
        let length = self.text.len();
        let is_number = self.text.ends_with(|c: char| c.is_ascii_digit());
        if is_number && self.root_end() == Some(length) && self.ended.last() != Some(&length) {
            self.ended.push(length);
        }
    }

    /// Drops all text up to the end of the newest root, if that has ended.
    pub(super) fn forget_ended(&mut self) {
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
        self.dropped.roots = self.parser.before + 1;
        self.text.drain(..end);
        self.parser = self.parser.after_roots(self.dropped.roots);
        self.ended.clear();
    }

    /// Emits to `sink` all events of the present text, as a single push of the text would: for a
    /// sink that is added late. Reads the whole text again; roots that were dropped are not
    /// emitted.
    pub(super) fn replay<S: Sink + ?Sized>(&self, sink: &mut S) {
        let mut parser = match self.dropped.roots {
            0 => RootParser::new(self.parser.options),
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

    /// Returns the offset after the root's last byte. `None` while the root is open.
    pub(super) fn root_end(&self) -> Option<usize> {
        self.parser
            .machine
            .is_done()
            .then(|| self.parser.machine.offset())
    }

    /// Returns the end of the root, or of its text so far.
    pub(super) fn end(&self) -> usize {
        self.root_end().unwrap_or(self.text.len())
    }

    /// Returns a machine at `start` in the root that begins at `root`: an offset after the last
    /// whole child of the innermost of `depth` containers. Open containers know where their last
    /// whole children end, so only the text between such a child and the next bracket is read.
    pub(super) fn machine_at(&self, root: usize, depth: usize, start: usize) -> Option<Machine> {
        let frames = self.parser.machine.frames().get(..depth)?;
        let mut machine = Machine::starting_at(root, self.parser.options.depth);
        let bytes = self.text.as_bytes();
        for frame in frames {
            let gap = bytes
                .get(machine.offset()..=frame.start)
                .unwrap_or_default();
            let read = machine.feed(gap);
            debug_assert!(read.is_ok(), "the text was read before: {read:?}");
            if read.is_err() {
                return None;
            }
            if frame.count > 0 {
                machine.skip_children(frame);
            }
        }
        let read = machine.feed(bytes.get(machine.offset()..start).unwrap_or_default());
        read.is_ok().then_some(machine)
    }
}
