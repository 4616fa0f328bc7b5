//! What models write around JSON: white space, a Markdown fence, a preamble.

/// Finds where the root of a text begins, while the text comes. Text goes in once, in chunks of any size.
///
/// A root is `{` or `[` as the first significant byte, or behind the line that opens a Markdown fence
/// ([CommonMark, fenced code blocks](https://spec.commonmark.org/0.31.2/#fenced-code-blocks)). A fence that follows
/// prose counts only if it is labelled `json` or not at all.
#[derive(Clone, Debug)]
pub struct Opening {
    state: State,
    roots: Roots,
    /// Bytes taken.
    offset: usize,
    /// There is text before the fence.
    prose: bool,
    fence: bool,
    ticks: u8,
    /// In a fenced block that is no JSON: the next fence closes it.
    in_block: bool,
    /// The label of the fence line, lower case, as far as it matters.
    label: String,
}

/// Which values may be a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Objects and arrays: of a stream, where prose may begin with a number or the word `true`.
    Containers,
    /// Every value: of a file that is said to be JSON.
    Any,
}

impl Roots {
    /// A root may begin with `byte`.
    pub(crate) fn allows(self, byte: u8) -> bool {
        match self {
            Self::Containers => matches!(byte, b'{' | b'['),
            Self::Any => matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of the text or behind a fence: only white space so far.
    Lead,
    /// At the start of a line, in prose.
    LineStart,
    /// Inside a line that cannot matter.
    Line,
    /// Backticks at the start of a line.
    Ticks(u8),
    /// Behind three or more of them.
    Label,
    Found,
}

/// The longest label that is looked at: `json5`, `javascript`.
const LABEL: usize = 16;

impl Opening {
    /// Before the first byte.
    pub fn new(roots: Roots) -> Self {
        Self {
            state: State::Lead,
            roots,
            offset: 0,
            prose: false,
            fence: false,
            ticks: 0,
            in_block: false,
            label: String::new(),
        }
    }

    /// Takes text; the offset in the whole text where the root begins, once that is known. Text behind it is not
    /// looked at.
    pub fn feed(&mut self, text: &str) -> Option<usize> {
        for byte in text.bytes() {
            if self.state == State::Found {
                return Some(self.offset);
            }
            self.step(byte);
            if self.state == State::Found {
                return Some(self.offset);
            }
            self.offset += 1;
        }
        None
    }

    /// A fence has opened, and nothing significant stands behind it but the root.
    pub fn fence(&self) -> bool {
        self.fence
    }

    /// A fence has opened, or is opening, that says that JSON follows: by its label, or as the first thing of the text
    /// by having none.
    pub fn promises_json(&self) -> bool {
        let label = self.label.trim();
        let labelled = label.starts_with("json");
        if self.prose {
            return self.fence && labelled;
        }
        match self.state {
            State::Ticks(_) => true,
            State::Label => labelled || "json".starts_with(label),
            _ => self.fence && (labelled || label.is_empty()),
        }
    }

    /// Nothing significant has come.
    pub fn is_blank(&self) -> bool {
        self.state == State::Lead && !self.prose && !self.fence
    }

    /// What is missing of the line that opens a fence, where the text ends inside one.
    pub fn rest_of_fence(&self) -> Option<&'static str> {
        match self.state {
            State::Ticks(1) => Some("``\n"),
            State::Ticks(2) => Some("`\n"),
            State::Ticks(_) | State::Label => Some("\n"),
            _ => None,
        }
    }

    /// Backticks of the fence.
    pub fn ticks(&self) -> usize {
        usize::from(self.ticks)
    }

    /// Something significant has come that is no root and no fence.
    pub fn is_prose(&self) -> bool {
        self.prose && !self.fence && self.state != State::Found
    }

    fn step(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::Found => State::Found,
            State::Lead if space => State::Lead,
            // A byte order mark at the very start is no text.
            State::Lead if self.offset < 3 && b"\xef\xbb\xbf".get(self.offset) == Some(&byte) => State::Lead,
            State::Lead if self.roots.allows(byte) => State::Found,
            State::Lead if byte == b'`' && !self.fence => State::Ticks(1),
            State::Lead => {
                self.prose = true;
                self.in_block = self.fence;
                self.fence = false;
                if byte == b'`' { State::Ticks(1) } else { State::Line }
            }
            State::LineStart if byte == b'`' => State::Ticks(1),
            State::LineStart if space => State::LineStart,
            State::LineStart | State::Line if byte == b'\n' => State::LineStart,
            State::LineStart | State::Line => State::Line,
            State::Ticks(count) if byte == b'`' => State::Ticks(count.saturating_add(1)),
            State::Ticks(count) if count < 3 => {
                self.prose = true;
                if byte == b'\n' { State::LineStart } else { State::Line }
            }
            State::Ticks(count) => {
                self.ticks = count;
                self.label.clear();
                self.in_label(byte)
            }
            State::Label => self.in_label(byte),
        };
    }

    fn in_label(&mut self, byte: u8) -> State {
        if self.in_block {
            if byte == b'\n' {
                self.in_block = false;
                return State::LineStart;
            }
            return State::Label;
        }
        let label = self.label.trim();
        let counts = !self.prose || label.is_empty() || label == "json";
        match byte {
            b'\n' if counts => {
                self.fence = true;
                State::Lead
            }
            b'\n' => {
                self.in_block = true;
                State::LineStart
            }
            b'{' | b'[' if counts && matches!(label, "" | "json") => {
                self.fence = true;
                State::Found
            }
            _ => {
                if self.label.len() < LABEL {
                    self.label.push(char::from(byte.to_ascii_lowercase()));
                }
                State::Label
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the root begins, whether a fence stands before it, whether JSON is promised; fed whole and bytewise.
    fn check(text: &str, root: Option<&str>, fence: bool, promises: bool) {
        let root = root.map(|rest| text.len() - rest.len());
        for step in [text.len().max(1), 1] {
            let mut opening = Opening::new(Roots::Containers);
            let mut found = None;
            let mut at = 0;
            for (n, c) in text.char_indices() {
                let end = n + c.len_utf8();
                if end - at >= step || end == text.len() {
                    found = found.or(opening.feed(&text[at..end]));
                    at = end;
                }
            }
            assert_eq!((found, opening.fence(), opening.promises_json()), (root, fence, promises), "{text:?}");
        }
    }

    #[test]
    fn roots_are_found_behind_space_fences_and_preambles() {
        check(" \n[1]", Some("[1]"), false, false);
        check("\u{feff}{}", Some("{}"), false, false);
        check("```json\n{\"a\"", Some("{\"a\""), true, true);
        check("```\n\n[", Some("["), true, true);
        check("```json{", Some("{"), true, true);
        check("Here it is:\n\n```json\n{", Some("{"), true, true);
        check("Here it is:\n```\n{", Some("{"), true, false);
        check("```json\n", None, true, true);
        check("```\n", None, true, true);
        // The line that opens the fence is not whole yet.
        check("```js", None, false, true);
        check("``", None, false, true);
        check("```python\n", None, true, false);
    }

    #[test]
    fn prose_has_no_root() {
        check("See [1] and {2}.", None, false, false);
        check("", None, false, false);
        check("``not a fence", None, false, false);
        check("Code:\n```python\n[1]\n```\n", None, false, false);
        check("Code:\n```python\n```\n[link](x)", None, false, false);
        check("```\nplain\n```\n{", None, false, false);
    }
}
