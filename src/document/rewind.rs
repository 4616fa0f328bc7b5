//! Resets a document to the start of an open value, so that another value can replace it.
//!
//! Open containers know where their last whole children end; only the text between such a child and
//! the value is read again.

use super::Document;
use crate::json::{CloseOptions, Completion, Machine};

impl Document {
    /// Forgets the value that is open or due at `depth` (the number of containers around it), and
    /// all that follows it: the value is due again. With 0 it is the root, and a root is awaited.
    /// Returns `false`, and changes nothing, if fewer containers are open. Takes O(depth) and the
    /// text between the last whole child and the value.
    pub(crate) fn rewind(&mut self, depth: usize) -> bool {
        let Some(root) = self.parser.start.filter(|_| !self.is_complete()) else {
            return false;
        };
        if depth == 0 {
            if self.parser.before > 0 {
                // The roots before it would be found again.
                return false;
            }
            self.forget(root, false);
            let mut parser = self.parser.rewound();
            // The envelope was read before and has no root.
            parser.read_envelope(&self.text);
            self.parser = parser;
            return true;
        }
        let open = self.parser.machine.frames();
        let Some(frames) = open.get(..depth) else {
            return false;
        };
        let token = self
            .parser
            .machine
            .in_token()
            .then(|| self.parser.machine.token_start());
        let start = open
            .get(depth)
            .map(|frame| frame.start)
            .or(token)
            .unwrap_or(self.text.len());
        self.set_back(root, frames.len(), start)
    }

    /// Closes the open root as its complete part: drops uncertain text and appends the closers. If
    /// they close a string, the completion's `cut_value` is its path. Returns `None` and changes
    /// nothing if the root has no complete part or is closed. Reads the text after the last whole
    /// children again, and O(depth) more.
    pub(crate) fn close_as_complete_part(&mut self) -> Option<Completion> {
        let root = self.parser.start.filter(|_| !self.is_complete())?;
        let mut suffix = String::new();
        let end = self.complete_into(CloseOptions::default(), &mut suffix)?;
        // The complete part leaves a cut number out.
        let cut_value = self
            .completion()
            .cut_value
            .filter(|_| self.parser.machine.in_string());
        let depth = self.parser.machine.frames().len();
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
    /// innermost of `depth` containers.
    fn set_back(&mut self, root: usize, depth: usize, start: usize) -> bool {
        let Some(frames) = self.parser.machine.frames().get(..depth) else {
            return false;
        };
        let mut machine = Machine::starting_at(root, self.parser.depth);
        let bytes = self.text.as_bytes();
        for frame in frames {
            let gap = bytes
                .get(machine.offset()..=frame.start)
                .unwrap_or_default();
            let read = machine.feed(gap);
            debug_assert!(read.is_ok(), "the text was read before: {read:?}");
            if read.is_err() {
                return false;
            }
            if frame.count > 0 {
                machine.skip_children(frame);
            }
        }
        if machine
            .feed(bytes.get(machine.offset()..start).unwrap_or_default())
            .is_err()
        {
            return false;
        }
        self.forget(start, false);
        self.parser.machine = machine;
        true
    }
}
