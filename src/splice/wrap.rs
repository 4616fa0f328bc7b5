//! What models write around a continuation: thoughts, prose, fences. Says where its content may begin.

/// Reads a fragment character by character.
#[derive(Clone, Debug)]
pub(super) struct Wrap {
    /// The line so far, as much of it as can matter; without the white space that it begins with.
    line: String,
    /// What the next line's first character would be, and what this line's was.
    due: Mark,
    began: Mark,
    /// In thoughts: the tag that ends them.
    thoughts: Option<&'static str>,
    /// The last character of the line but for white space.
    last: char,
    /// All lines since the start, a fence or thoughts look like prose.
    is_prose: bool,
}

/// Why content may begin here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is the first thing of the fragment.
    First,
    /// Behind a line that opens or closes a fence.
    Fence,
    /// Behind thoughts.
    Thoughts,
    /// At the start of a line behind other text.
    Line,
}

/// Tags around thoughts: as reasoning models write them where their server does not take them out.
const THOUGHTS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>")];

/// The longest beginning of a line, and the longest end of thoughts, that is looked at.
const LINE: usize = 16;

impl Wrap {
    pub(super) fn new() -> Self {
        Self { line: String::new(), due: Mark::First, began: Mark::First, thoughts: None, last: ' ', is_prose: true }
    }

    /// What stands before this line looks like prose.
    pub(super) fn is_behind_prose(&self) -> bool {
        self.is_prose
    }

    /// Inside thoughts: nothing that comes is content, if they end.
    pub(super) fn in_thoughts(&self) -> bool {
        self.thoughts.is_some()
    }

    /// Text that goes on in this line changes nothing but how the line ends.
    pub(super) fn is_settled(&self) -> bool {
        self.thoughts.is_none() && self.line.len() >= LINE
    }

    /// Takes text that goes on in a line that is [settled](Self::is_settled).
    pub(super) fn run(&mut self, text: &str) {
        self.last = text.trim_end().chars().next_back().unwrap_or(self.last);
    }

    /// Takes the next character; says whether content may begin with it.
    pub(super) fn take(&mut self, c: char) -> Option<Mark> {
        if let Some(end) = self.thoughts {
            self.line.push(c);
            if self.line.ends_with(end) {
                (self.thoughts, self.due, self.is_prose) = (None, Mark::Thoughts, true);
                self.line.clear();
            } else if self.line.len() > 4 * LINE {
                let from = self.line.char_indices().rev().nth(LINE).map_or(0, |(at, _)| at);
                self.line.drain(..from);
            }
            return None;
        }
        if c == '\n' {
            if self.line.starts_with("```") {
                (self.due, self.is_prose) = (Mark::Fence, true);
            } else if !self.line.is_empty() {
                self.due = Mark::Line;
                self.is_prose &= self.line_is_prose();
            }
            self.line.clear();
            return None;
        }
        let is_first = self.line.is_empty();
        if is_first {
            if c.is_whitespace() {
                return None;
            }
            self.began = self.due;
        }
        if self.line.len() < LINE {
            self.line.push(c);
        }
        if !c.is_whitespace() {
            self.last = c;
        }
        if self.began != Mark::Line
            && let Some((_, end)) = THOUGHTS.iter().find(|(begin, _)| self.line == *begin)
        {
            self.thoughts = Some(end);
            self.line.clear();
        }
        if is_first && self.began == Mark::Line && !self.is_prose {
            return None;
        }
        is_first.then_some(self.began)
    }

    /// A line of JSON begins or ends with what prose hardly does.
    fn line_is_prose(&self) -> bool {
        let first = self.line.chars().next().unwrap_or(' ');
        let begins_as_json = matches!(first, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        !begins_as_json && !matches!(self.last, '{' | '[' | '}' | ']' | '"' | ',')
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Wrap};

    /// Each place where content may begin: the mark, and the rest of its line.
    fn marks(text: &str) -> Vec<(Mark, &str)> {
        let mut wrap = Wrap::new();
        let places = text.char_indices().filter_map(|(at, c)| wrap.take(c).map(|mark| (at, mark)));
        places.map(|(at, mark)| (mark, text[at..].lines().next().unwrap_or_default())).collect()
    }

    #[test]
    fn content_begins_behind_an_envelope() {
        assert_eq!(marks(" \n [1]"), [(Mark::First, "[1]")]);
        assert_eq!(marks("```json\n\n  {"), [(Mark::First, "```json"), (Mark::Fence, "{")]);
        assert_eq!(marks("Sure:\n\n\"a\""), [(Mark::First, "Sure:"), (Mark::Line, "\"a\"")]);
        assert_eq!(marks("<think>a\n[b] </think> {\n}"), [(Mark::First, "<think>a"), (Mark::Thoughts, "{")]);
        assert_eq!(marks("Sure:\n```\n{\n```\n"), [(Mark::First, "Sure:"), (Mark::Line, "```"), (Mark::Fence, "{")]);
        // A line of JSON is no preamble.
        assert_eq!(marks("\"a\": 1,\n\"b\": 2"), [(Mark::First, "\"a\": 1,")]);
        // No thoughts: the tag stands behind text.
        assert_eq!(marks("a\n<think>\nb"), [(Mark::First, "a"), (Mark::Line, "<think>"), (Mark::Line, "b")]);
    }
}
