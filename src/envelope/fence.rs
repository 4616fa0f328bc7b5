//! Where a Markdown fence ends.

use memchr::memchr2;

/// The shortest fence.
pub(crate) const FENCE: &str = "```";

/// A push scanner that takes out the line that closes a fence around a fragment, and all text after
/// it.
#[derive(Clone, Debug)]
pub(crate) struct FenceCloser {
    kind: FencedContent,
    /// A line end and the text after it, while that may be a fence; once the fence is closed, the
    /// closing line.
    line: String,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum FencedContent {
    /// Around JSON: its strings hold no line ends, so any fence closes.
    Json,
    /// Around text that was opened with `ticks` backticks. A block inside it whose fence has a
    /// label (`` ```rust ``) is a part of the text.
    Text { ticks: usize, in_block: bool },
}

impl FenceCloser {
    /// A closer of a fence around JSON.
    pub(crate) fn json() -> Self {
        Self {
            kind: FencedContent::Json,
            line: String::new(),
            is_closed: false,
        }
    }

    /// Creates a closer of a fence that was opened with `ticks` backticks around text. `in_block`
    /// is true if the text begins in a block of its own.
    pub(crate) fn text(ticks: usize, in_block: bool) -> Self {
        Self {
            kind: FencedContent::Text { ticks, in_block },
            line: String::new(),
            is_closed: false,
        }
    }

    /// Takes more of the fragment, and appends to `out` the text that is certain to be inside the
    /// fence. Returns the text after the fence.
    pub(crate) fn feed<'t>(&mut self, text: &'t str, out: &mut String) -> &'t str {
        let mut rest = text;
        while !self.is_closed
            && let Some(c) = rest.chars().next()
        {
            let mut taken = c.len_utf8();
            if !self.line.is_empty() {
                self.take(c, out);
            } else {
                let end = memchr2(b'\n', b'\r', rest.as_bytes()).unwrap_or(rest.len());
                let (inside, line) = rest.split_at(end);
                out.push_str(inside);
                self.line.extend(line.chars().next());
                taken = end + self.line.len();
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        rest
    }

    /// The line that has closed the fence, with the line end before it; empty while the fence is
    /// open.
    pub(crate) fn take_closing_line(&mut self) -> String {
        if self.is_closed {
            std::mem::take(&mut self.line)
        } else {
            String::new()
        }
    }

    /// Ends the fragment. A pending line end is white space at the end of the fragment.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if let FencedContent::Text {
            ticks,
            in_block: true,
        } = self.kind
        {
            self.end_line(ticks, true, out);
        }
        self.line.clear();
    }

    /// Takes a character after a line end.
    fn take(&mut self, c: char, out: &mut String) {
        let is_line_end = matches!(c, '\n' | '\r');
        match self.kind {
            FencedContent::Json => {
                self.line.push(c);
                let line = self.line.trim_ascii_start();
                let is_near = self.line.len() - line.len() <= SPACES;
                self.is_closed = is_near && line.starts_with(FENCE);
                let may_close = is_near && FENCE.starts_with(line);
                if !(self.is_closed || may_close) {
                    let end = self.line.len() - usize::from(is_line_end);
                    out.extend(self.line.drain(..end));
                }
            }
            FencedContent::Text { ticks, in_block } if is_line_end => {
                // A carriage return and a line feed are one line end.
                if self.line != "\r" || c != '\n' {
                    self.end_line(ticks, in_block, out);
                }
                if !self.is_closed {
                    self.line.push(c);
                }
            }
            FencedContent::Text { ticks, .. } => {
                self.line.push(c);
                if !self.may_be_fence(ticks) {
                    out.push_str(&self.line);
                    self.line.clear();
                }
            }
        }
    }

    fn end_line(&mut self, ticks: usize, in_block: bool, out: &mut String) {
        let line = self.line.trim();
        if is_fence(line, ticks) {
            let is_bare = line.trim_start_matches('`').is_empty();
            self.is_closed = is_bare && !in_block;
            self.kind = FencedContent::Text {
                ticks,
                in_block: !is_bare,
            };
        }
        if !self.is_closed {
            out.push_str(&self.line);
            self.line.clear();
        }
    }

    fn may_be_fence(&self, least: usize) -> bool {
        let line = self.line.trim_start_matches(['\r', '\n']);
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim_start_matches(' ');
        let ticks = line.len() - line.trim_start_matches('`').len();
        indent <= INDENT && self.line.len() <= LINE && (ticks == line.len() || ticks >= least)
    }
}

/// A filter for the text of a continuation after the root. If the answer began with prose, the text
/// from the line that closes the answer's fence belongs to the answer. Other text is left out.
#[derive(Clone, Debug)]
pub(crate) struct AfterRoot {
    /// Backticks that close the fence; `None` if the rest is left out.
    ticks: Option<usize>,
    /// Text that may be the closing line.
    pending: String,
    is_open: bool,
}

impl AfterRoot {
    /// Creates the filter for an answer whose fence has `ticks` backticks; `None` if the answer has
    /// no preamble and fence.
    pub(crate) fn new(ticks: Option<usize>) -> Self {
        Self {
            ticks,
            pending: String::new(),
            is_open: false,
        }
    }

    /// Takes text after the root; returns the part that belongs to the answer.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let Some(ticks) = self.ticks else {
            return String::new();
        };
        self.pending.push_str(text);
        let line = self.pending.trim_ascii_start();
        let found = line.len() - line.trim_start_matches('`').len();
        self.is_open |= found >= ticks;
        if !self.is_open && (found < line.len() || self.pending.len() > SPACES) {
            *self = Self::new(None);
        }
        if self.is_open {
            std::mem::take(&mut self.pending)
        } else {
            String::new()
        }
    }
}

/// Returns the line that closes the fence of `ticks` backticks around a root before `tail`, or the
/// rest of that line if some of its backticks are there. `None` if no fence is open at the end.
pub(crate) fn missing_fence(ticks: usize, tail: &str) -> Option<String> {
    let end = tail.rfind('\n').map_or(0, |at| at + 1);
    let (lines, last) = tail.split_at(end);
    let mut open = Some(ticks);
    for line in lines
        .lines()
        .map(str::trim)
        .filter(|line| is_fence(line, FENCE.len()))
    {
        let found = ticks_of(line);
        let is_bare = line.trim_start_matches('`').is_empty();
        open = match open {
            Some(ticks) if is_bare && found >= Some(ticks) => None,
            Some(ticks) => Some(ticks),
            None => found,
        };
    }
    let last = last.trim();
    let Some(ticks) = open else {
        let opens = is_fence(last, FENCE.len());
        return ticks_of(last)
            .filter(|_| opens)
            .map(|ticks| format!("\n{}", "`".repeat(ticks)));
    };
    let fence = "`".repeat(ticks);
    match fence.strip_prefix(last) {
        Some(rest) if !last.is_empty() => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
        Some(_) if tail.ends_with('\n') => Some(fence),
        None if last.starts_with(&fence) => None,
        _ => Some(format!("\n{fence}")),
    }
}

/// Returns the length of the block that `text` begins with, up to the closing line of its fence of
/// `ticks` backticks. `None` if there is no such line.
pub(crate) fn block_end(text: &str, ticks: usize) -> Option<usize> {
    let mut closer = FenceCloser::text(ticks, false);
    let mut inside = String::new();
    closer.feed(text, &mut inside);
    // The closing line may be the last one, without a line end.
    closer.feed("\n", &mut inside);
    closer.is_closed.then_some(inside.len())
}

/// Whether the text ends inside a fenced block of its own.
pub(crate) fn ends_in_block(text: &str) -> bool {
    let fences = text
        .lines()
        .map(str::trim)
        .filter(|line| is_fence(line, FENCE.len()));
    fences.fold(false, |in_block, line| {
        !in_block || !line.trim_start_matches('`').is_empty()
    })
}

/// The number of backticks that a line begins with, if they make it a fence.
pub(crate) fn ticks_of(line: &str) -> Option<usize> {
    let line = line.trim();
    let ticks = line.len() - line.trim_start_matches('`').len();
    (ticks >= FENCE.len()).then_some(ticks)
}

/// Code between backticks in a line is not a fence.
fn is_fence(line: &str, ticks: usize) -> bool {
    ticks_of(line).is_some_and(|found| found >= ticks)
        && !line.trim_start_matches('`').contains('`')
}

/// The most spaces before a fence: with more, CommonMark reads the line as code.
// CommonMark: a fence is indented by at most three spaces; with four it is text of an indented
// block.
const INDENT: usize = 3;
/// The most bytes of a line that opens a fence.
const LINE: usize = 64;
/// The most white space before a fence that closes JSON, in bytes: layout has less.
// Bounds the line that is kept while it may still be a closing fence: white space after the
// backticks.
const SPACES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn unfenced(mut closer: FenceCloser, text: &str) -> String {
        let mut whole = String::new();
        let mut slow = closer.clone();
        closer.feed(text, &mut whole);
        closer.finish(&mut whole);
        let mut slowly = String::new();
        for c in text.chars() {
            slow.feed(c.encode_utf8(&mut [0; 4]), &mut slowly);
        }
        slow.finish(&mut slowly);
        assert_eq!(whole, slowly, "{text:?}");
        whole
    }

    #[test]
    fn the_line_that_closes_a_fence_is_taken_out() {
        for (text, out) in [
            ("one\ntwo\n```", "one\ntwo"),
            ("one\r\n```\r\nBye", "one"),
            ("one\n\n  ```  \nBye\n", "one\n"),
            // A block inside.
            (
                "one\n```rust\nlet a = 1;\n```\ntwo\n```\nBye",
                "one\n```rust\nlet a = 1;\n```\ntwo",
            ),
            // No fences.
            (
                "one\n``\ntwo\n```x``` y\n     ```\nend",
                "one\n``\ntwo\n```x``` y\n     ```\nend",
            ),
            // Cut in the fence, or before it.
            ("one\n``", "one"),
            ("one\n", "one"),
            ("one", "one"),
        ] {
            assert_eq!(unfenced(FenceCloser::text(3, false), text), out, "{text:?}");
        }
        assert_eq!(
            unfenced(FenceCloser::text(4, false), "one\n```\ntwo\n````\nBye"),
            "one\n```\ntwo"
        );
        // The text was cut in a block: the first closing line is the block's.
        assert_eq!(
            unfenced(FenceCloser::text(3, true), "a = 1\n```\ntwo\n```\nBye"),
            "a = 1\n```\ntwo"
        );
        assert_eq!(unfenced(FenceCloser::text(3, true), "a = 1\n"), "a = 1\n");
    }

    #[test]
    fn any_fence_closes_json() {
        for (text, out) in [
            ("[1,\r\n 2]\r\n```", "[1,\r\n 2]"),
            ("12\n\n  ```json\n3", "12"),
            ("12\n``\n3\n```\n4", "12\n``\n3"),
            ("12\n``", "12"),
            ("{}```\n", "{}```"),
        ] {
            assert_eq!(unfenced(FenceCloser::json(), text), out, "{text:?}");
        }
        let mut closer = FenceCloser::json();
        let mut out = String::new();
        assert_eq!(closer.feed("1\n``", &mut out), "");
        assert_eq!(closer.take_closing_line(), "");
        assert_eq!(
            (
                closer.feed("`\nBye", &mut out),
                closer.take_closing_line().as_str()
            ),
            ("\nBye", "\n```")
        );
        assert_eq!(closer.feed("!", &mut out), "!");
    }

    #[test]
    fn a_block_ends_before_its_own_closing_line() {
        for (text, ticks, end) in [
            ("[1]\n```", 3, Some(3)),
            ("[1]\n```\nBye", 3, Some(3)),
            ("[\"\n```sh\nls\n```\n\"]\n```\n", 3, Some(18)),
            ("[\"\\n```sh\\nls\\n```\\n\", 1", 3, None),
            ("[1]\n```\n", 4, None),
        ] {
            assert_eq!(block_end(text, ticks), end, "{text:?}");
        }
    }

    #[test]
    fn text_after_a_root_belongs_to_an_answer_with_a_preamble() {
        let mut after = AfterRoot::new(Some(3));
        let told = ["", "\n", "``", "`", "\nBye", "."].map(|text| after.feed(text));
        assert_eq!(told, ["", "", "", "\n```", "\nBye", "."]);
        for (ticks, text) in [
            (Some(3), "\nBye ```"),
            (Some(4), "\n```\nBye"),
            (None, "\n```\nBye"),
            (Some(3), "}\n```"),
        ] {
            assert_eq!(AfterRoot::new(ticks).feed(text), "", "{text:?}");
        }
    }

    #[test]
    fn an_open_fence_is_missing_its_end() {
        for (ticks, tail, missing) in [
            (3, "", Some("\n```")),
            (3, "\n", Some("```")),
            (4, "\n``", Some("``")),
            (3, "\n```", None),
            (3, "\n```\nBye", None),
            (4, "\n```\n", Some("````")),
            (3, " and more", Some("\n```")),
            (3, "\n```\n```py", Some("\n```")),
            (3, "\n```\n````js\n1", Some("\n````")),
            (3, "\n```\n```\n```\nBye", None),
        ] {
            assert_eq!(missing_fence(ticks, tail).as_deref(), missing, "{tail:?}");
        }
    }

    #[test]
    fn a_text_ends_in_a_block_or_not() {
        for (text, is_inside) in [
            ("a", false),
            ("a\n```rust\nb", true),
            ("```\nb\n```", false),
            ("a `b`\n```c``` d\n", false),
        ] {
            assert_eq!(ends_in_block(text), is_inside, "{text:?}");
        }
    }
}
