//! Where the root of a document begins in what a model writes.

use super::fence::{FENCE, ticks_of};
use super::scanner::{ContentStart, EnvelopeScanner};

/// Which values may be a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedRoots {
    /// Objects and arrays: of a stream, where prose may begin with a number or the word `true`.
    Containers,
    /// Every value: of a file that is said to be JSON.
    Any,
}

impl AllowedRoots {
    /// Whether a root may begin with `byte`.
    pub(crate) fn allows(self, byte: u8) -> bool {
        match self {
            Self::Containers => matches!(byte, b'{' | b'['),
            Self::Any => matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'),
        }
    }
}

/// A push parser that finds where a root begins. Text goes in once, in chunks of any size.
///
/// A root is the first significant character, also after reasoning, or the first after the line that opens a Markdown
/// fence ([CommonMark, fenced code blocks](https://spec.commonmark.org/0.31.2/#fenced-code-blocks)). A fence after prose
/// counts only if its label is `json` or empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootFinder {
    scanner: EnvelopeScanner,
    roots: AllowedRoots,
    /// Bytes taken.
    offset: usize,
    is_found: bool,
    /// Text precedes the fence.
    prose: bool,
    /// The offset where that text was noticed.
    prose_from: usize,
    /// A fence has opened, and only the root may follow it; its backticks and its label.
    fence: bool,
    ticks: usize,
    label: Label,
    /// In a fenced block that is not JSON: the next fence line closes it.
    in_block: bool,
    /// A root was found before: a fence after it needs the label `json`.
    is_further: bool,
    /// The text is not JSON: no root begins in it.
    is_text: bool,
}

/// What the line that opens a fence says of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    None,
    Json,
    /// `json5`, `jsonl`, `JSON lines`
    LikeJson,
    Other,
}

impl Label {
    fn of(line: &str) -> Self {
        match line.trim_start_matches('`').trim().to_ascii_lowercase().as_str() {
            "" => Self::None,
            "json" => Self::Json,
            label if label.starts_with("json") => Self::LikeJson,
            _ => Self::Other,
        }
    }
}

impl RootFinder {
    /// A finder before the first byte.
    pub(crate) fn new(roots: AllowedRoots) -> Self {
        Self {
            scanner: EnvelopeScanner::new(),
            roots,
            offset: 0,
            is_found: false,
            prose: false,
            prose_from: 0,
            fence: false,
            ticks: 0,
            label: Label::None,
            in_block: false,
            is_further: false,
            is_text: false,
        }
    }

    /// A finder for a further block after a fenced root that ended at `offset`.
    pub(crate) fn further(offset: usize) -> Self {
        Self { offset, prose: true, in_block: true, is_further: true, ..Self::new(AllowedRoots::Containers) }
    }

    /// Returns a finder at `offset` of a text that is not JSON: it finds nothing.
    pub(crate) fn of_text(offset: usize) -> Self {
        Self { offset, prose: true, is_text: true, ..Self::new(AllowedRoots::Containers) }
    }

    /// Takes text; returns the offset in the whole text where the root begins, once that is known. Text after that is
    /// not looked at.
    pub(crate) fn feed(&mut self, text: &str) -> Option<usize> {
        if self.is_text {
            self.offset += text.len();
            return None;
        }
        let mut rest = text;
        while !self.is_found
            && let Some(c) = rest.chars().next()
        {
            let mut taken = self.scanner.skip(rest);
            if taken == 0 {
                self.is_found = self.step(c);
                taken = c.len_utf8();
            }
            if self.is_found {
                break;
            }
            self.offset += taken;
            rest = rest.get(taken..).unwrap_or_default();
        }
        self.is_found.then_some(self.offset)
    }

    /// Whether a fence has opened, and nothing significant is between the fence and the root.
    pub(crate) fn has_fence(&self) -> bool {
        self.fence
    }

    /// Whether prose precedes the fence.
    pub(crate) fn is_after_prose(&self) -> bool {
        self.prose
    }

    /// The number of the fence's backticks.
    pub(crate) fn ticks(&self) -> usize {
        self.ticks
    }

    /// Whether a fence has opened, or is opening, that says that JSON follows: by its label, or because it is the
    /// first thing of the text and has no label.
    pub(crate) fn promises_json(&self) -> bool {
        if self.prose {
            return self.fence && matches!(self.label, Label::Json | Label::LikeJson);
        }
        let line = self.scanner.line();
        if line.starts_with('`') {
            let label = line.trim_start_matches('`').trim().to_ascii_lowercase();
            return label.starts_with("json") || "json".starts_with(&label);
        }
        self.fence && self.label != Label::Other
    }

    /// Whether no root is looked for.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Whether nothing significant has come.
    pub(crate) fn is_blank(&self) -> bool {
        self.scanner.is_blank() && !self.prose && !self.fence
    }

    /// Whether something significant has come that is neither a root nor a fence nor reasoning.
    pub(crate) fn is_prose(&self) -> bool {
        self.prose && !self.fence && !self.is_found
    }

    /// The number of bytes since something significant has come that is neither a root nor a fence nor reasoning.
    pub(crate) fn prose_len(&self) -> usize {
        if self.is_prose() { self.offset.saturating_sub(self.prose_from) } else { 0 }
    }

    /// What is missing of the line that opens a fence, where the text ends inside one.
    pub(crate) fn rest_of_fence(&self) -> Option<&'static str> {
        let line = self.scanner.line();
        match line {
            _ if self.is_found => None,
            "`" => Some("``\n"),
            "``" => Some("`\n"),
            _ => ticks_of(line).map(|_| "\n"),
        }
    }

    /// Takes the next character; returns whether a root begins with it.
    fn step(&mut self, c: char) -> bool {
        if c == '\n' {
            self.end_line();
        }
        if self.offset == 0 && c == BYTE_ORDER_MARK {
            return false;
        }
        if matches!(c, '{' | '[') && self.opens_fence(&[Label::None, Label::Json]) {
            // ```json{"a": 1}
            self.open();
            return true;
        }
        let is_allowed = u8::try_from(c).is_ok_and(|byte| self.roots.allows(byte));
        let is_root = match self.scanner.take(c) {
            Some(ContentStart::First | ContentStart::Reasoning) => is_allowed && !self.prose,
            Some(ContentStart::Fence) => is_allowed && self.fence,
            _ => false,
        };
        if !self.scanner.line().is_empty() && !is_root && !self.is_open() {
            self.note_prose();
        }
        is_root
    }

    /// Whether the open line may still become a fence or a tag.
    fn is_open(&self) -> bool {
        let line = self.scanner.line();
        let may_be_fence = line.trim_start_matches('`').is_empty() || ticks_of(line).is_some();
        !line.is_empty() && (may_be_fence && !self.fence || self.scanner.may_open_reasoning())
    }

    fn note_prose(&mut self) {
        if !std::mem::replace(&mut self.prose, true) {
            self.prose_from = self.offset;
        }
        self.in_block |= self.fence;
        self.fence = false;
    }

    fn end_line(&mut self) {
        let line = self.scanner.line();
        if ticks_of(line).is_none() {
            if !line.is_empty() && !self.scanner.in_reasoning() {
                self.note_prose();
            }
        } else if self.in_block {
            self.in_block = false;
        } else if !self.prose || self.opens_fence(&[Label::None, Label::Json]) {
            self.open();
        } else {
            self.in_block = true;
        }
    }

    /// Whether the open line opens a fence with one of these labels that may hold the root.
    fn opens_fence(&self, labels: &[Label]) -> bool {
        let line = self.scanner.line();
        let is_fence = !self.in_block && ticks_of(line).is_some();
        is_fence && labels.contains(&Label::of(line)) && (!self.is_further || Label::of(line) == Label::Json)
    }

    fn open(&mut self) {
        let line = self.scanner.line();
        (self.ticks, self.label) = (ticks_of(line).unwrap_or(FENCE.len()), Label::of(line));
        self.fence = true;
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the root begins, whether a fence precedes it, whether JSON is promised; fed whole and by characters.
    fn check(text: &str, root: Option<&str>, fence: bool, promises: bool) {
        let root = root.map(|rest| text.len() - rest.len());
        let mut whole = RootFinder::new(AllowedRoots::Containers);
        let found = whole.feed(text);
        let mut slow = RootFinder::new(AllowedRoots::Containers);
        let slowly = text.chars().fold(None, |found, c| found.or(slow.feed(c.encode_utf8(&mut [0; 4]))));
        for (found, finder) in [(found, whole), (slowly, slow)] {
            assert_eq!((found, finder.has_fence(), finder.promises_json()), (root, fence, promises), "{text:?}");
        }
    }

    #[test]
    fn roots_are_found_after_space_fences_preambles_and_reasoning() {
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
        check("<think>[1] or\n```json\n{</think>\n{", Some("{"), false, false);
        check("<think>\n</think>```json\n{", Some("{"), true, true);
        check("<thinking>\n</think>{</thinking>\n\nHere:\n```json\n[", Some("["), true, true);
    }

    #[test]
    fn prose_has_no_root() {
        check("See [1] and {2}.", None, false, false);
        check("", None, false, false);
        check("``not a fence", None, false, false);
        check("\u{a0}[1]", None, false, false);
        check("Code:\n```python\n[1]\n```\n", None, false, false);
        check("Code:\n```python\n```\n[link](x)", None, false, false);
        check("```\nplain\n```\n{", None, false, false);
        check("<think>\n[1]", None, false, false);
        check("<think></think> So\n[1]", None, false, false);
    }

    #[test]
    fn a_further_block_needs_a_label() {
        for (text, root) in [
            ("\n```\nAnd:\n```json\n{", Some("{")),
            ("```\n```JSON\n\n [", Some("[")),
            ("\n```\nAnd:\n```\n{", None),
            ("\n```\nAnd:\n[1]\n```python\n{\n```\n", None),
            // The block is still open.
            ("\n{\n", None),
            ("\n```json\n{", None),
        ] {
            let found = RootFinder::further(10).feed(text);
            assert_eq!(found, root.map(|root| 10 + text.len() - root.len()), "{text:?}");
        }
    }
}
