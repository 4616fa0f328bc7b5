//! A document without the value that is open in it: set back to where that begins, for another value in its place.
//!
//! Open containers say where their last whole children end; what stands between one of those and the value is read
//! again, and nothing else.

use super::Document;
use crate::json::Machine;

impl Document {
    /// Forgets the value that is open or due in `depth` containers, of which it is in the last, and all that follows it:
    /// the value is due. With 0 it is the root, and a root is waited for. `false`, and nothing is changed, where fewer
    /// containers are open. O(depth) and what stands before the value and behind the child before it.
    pub(crate) fn rewind(&mut self, depth: usize) -> bool {
        let Some(root) = self.parser.start.filter(|_| !self.is_complete()) else { return false };
        if depth == 0 {
            if self.parser.before > 0 {
                // The roots before it would be found again.
                return false;
            }
            self.forget(root, false);
            let mut parser = self.parser.rewound();
            // An envelope has been read before, and gives no root.
            let _ = parser.opening.feed(&self.text);
            self.parser = parser;
            return true;
        }
        let open = self.parser.machine.frames();
        let Some(frames) = open.get(..depth) else { return false };
        let token = self.parser.machine.in_token().then(|| self.parser.machine.token_start());
        let start = open.get(depth).map(|frame| frame.start).or(token).unwrap_or(self.text.len());
        let mut machine = Machine::starting_at(root, self.parser.depth);
        let bytes = self.text.as_bytes();
        for frame in frames {
            let gap = bytes.get(machine.offset()..=frame.start).unwrap_or_default();
            if machine.feed(gap).is_err() {
                return false;
            }
            if frame.count > 0 {
                machine.stand_behind_child(frame);
            }
        }
        if machine.feed(bytes.get(machine.offset()..start).unwrap_or_default()).is_err() {
            return false;
        }
        self.forget(start, false);
        self.parser.machine = machine;
        true
    }
}
