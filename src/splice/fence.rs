//! Takes out the line that closes a fence around text, and all that follows it. Fenced blocks inside that say what they
//! hold (`` ```rust ``) are left as they are.

/// Follows text in a fence, character by character.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    /// Backticks that it was opened with.
    ticks: usize,
    /// A block inside is open.
    in_block: bool,
    /// A line end and what follows it, as long as that may be a fence.
    line: String,
    is_closed: bool,
}

impl Fence {
    /// A fence that was opened with so many backticks, in a block of the text or not.
    pub(super) fn new(ticks: usize, in_block: bool) -> Self {
        Self { ticks, in_block, line: String::new(), is_closed: false }
    }

    /// Takes the next character, and gives to `out` what is known to be text.
    pub(super) fn take(&mut self, c: char, out: &mut String) {
        if self.is_closed {
            return;
        }
        if matches!(c, '\n' | '\r') {
            let is_open = self.line.trim_start_matches(['\r', '\n']).is_empty();
            if !(is_open && self.line == "\r") {
                self.end_line(out);
            }
            if !self.is_closed {
                self.line.push(c);
            }
            return;
        }
        if self.line.is_empty() {
            out.push(c);
            return;
        }
        self.line.push(c);
        if !self.may_be_fence() {
            out.push_str(&self.line);
            self.line.clear();
        }
    }

    /// The text has ended. A line end that waits is white space at its end.
    pub(super) fn finish(&mut self, out: &mut String) {
        if self.in_block {
            self.end_line(out);
        }
        self.line.clear();
    }

    fn end_line(&mut self, out: &mut String) {
        let line = self.line.trim();
        if is_fence(line, self.ticks) {
            let is_bare = line.trim_start_matches('`').is_empty();
            self.is_closed = is_bare && !self.in_block;
            self.in_block = !is_bare;
        }
        if !self.is_closed {
            out.push_str(&self.line);
        }
        self.line.clear();
    }

    fn may_be_fence(&self) -> bool {
        let line = self.line.trim_start_matches(['\r', '\n']);
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim_start_matches(' ');
        let ticks = line.len() - line.trim_start_matches('`').len();
        indent <= INDENT && self.line.len() <= LINE && (ticks == line.len() || ticks >= self.ticks)
    }
}

/// The text ends inside a fenced block of its own.
pub(super) fn ends_in_block(text: &str) -> bool {
    let fences = text.lines().map(str::trim).filter(|line| is_fence(line, TICKS));
    fences.fold(false, |in_block, line| !in_block || !line.trim_start_matches('`').is_empty())
}

/// The backticks that a line begins with, if they make it a fence.
pub(super) fn ticks_of(line: &str) -> Option<usize> {
    let line = line.trim();
    let ticks = line.len() - line.trim_start_matches('`').len();
    (ticks >= TICKS).then_some(ticks)
}

/// Code between backticks in a line is no fence.
fn is_fence(line: &str, ticks: usize) -> bool {
    ticks_of(line).is_some_and(|found| found >= ticks) && !line.trim_start_matches('`').contains('`')
}

/// Backticks of the shortest fence, spaces before one, and bytes of a line that opens one.
const TICKS: usize = 3;
const INDENT: usize = 3;
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn unfenced(ticks: usize, in_block: bool, text: &str) -> String {
        let (mut fence, mut out) = (Fence::new(ticks, in_block), String::new());
        text.chars().for_each(|c| fence.take(c, &mut out));
        fence.finish(&mut out);
        out
    }

    #[test]
    fn the_line_that_closes_a_fence_is_taken_out() {
        for (text, out) in [
            ("one\ntwo\n```", "one\ntwo"),
            ("one\r\n```\r\nBye", "one"),
            ("one\n\n  ```  \nBye\n", "one\n"),
            // A block inside.
            ("one\n```rust\nlet a = 1;\n```\ntwo\n```\nBye", "one\n```rust\nlet a = 1;\n```\ntwo"),
            // No fences.
            ("one\n``\ntwo\n```x``` y\n     ```\nend", "one\n``\ntwo\n```x``` y\n     ```\nend"),
            // Cut in the fence, or before it.
            ("one\n``", "one"),
            ("one\n", "one"),
            ("one", "one"),
        ] {
            assert_eq!(unfenced(3, false, text), out, "{text:?}");
        }
        assert_eq!(unfenced(4, false, "one\n```\ntwo\n````\nBye"), "one\n```\ntwo");
        // The text was cut in a block: the first closing line is the block's.
        assert_eq!(unfenced(3, true, "a = 1\n```\ntwo\n```\nBye"), "a = 1\n```\ntwo");
        assert_eq!(unfenced(3, true, "a = 1\n"), "a = 1\n");
    }

    #[test]
    fn a_text_ends_in_a_block_or_not() {
        for (text, is_inside) in
            [("a", false), ("a\n```rust\nb", true), ("```\nb\n```", false), ("a `b`\n```c``` d\n", false)]
        {
            assert_eq!(ends_in_block(text), is_inside, "{text:?}");
        }
    }
}
