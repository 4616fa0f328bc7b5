//! Finds where the root of a document begins in a model's text.

use super::fence::{FENCE, ticks_of};
use super::lead::BracketLead;
use super::scanner::{ContentStart, EnvelopeScanner, REASONING};

/// Which values may be a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedRoots {
    /// Objects and arrays: for a stream, where prose may begin with a number or the word `true`.
    Containers,
    /// Every value: for a file that the user declares to be JSON.
    Any,
}

impl AllowedRoots {
    /// Whether a root may begin with `byte`.
    pub(crate) fn allows(self, byte: u8) -> bool {
        match self {
            Self::Containers => matches!(byte, b'{' | b'['),
            Self::Any => matches!(
                byte,
                b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'
            ),
        }
    }
}

/// A push parser that finds where a root begins. Each byte is pushed once, in chunks of any size.
///
/// A root is the first significant character, also after reasoning, or the first after the line
/// that opens a Markdown fence ([CommonMark, fenced code
/// blocks](https://spec.commonmark.org/0.31.2/#fenced-code-blocks)). A fence after prose counts
/// only if its label is `json` or empty. In prose a bracket may begin a root if it begins a line,
/// or follows a colon, an opening tag, or the word `json` alone on its line.
///
/// A closing tag of reasoning without an opening tag makes all text before it reasoning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootFinder {
    scanner: EnvelopeScanner,
    lead: BracketLead,
    roots: AllowedRoots,
    /// The most bytes of prose in which a root may begin without a fence.
    max_preamble: usize,
    /// Tags around reasoning count.
    knows_reasoning: bool,
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
    /// A root was found before: it was a draft only if a tag that ends reasoning follows.
    needs_reasoning: bool,
    /// The text is not JSON: no root begins in it.
    is_text: bool,
    /// A bracket may begin the root, so the text after it may be JSON or prose.
    is_probing: bool,
}

/// Where a root begins, and how certain that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootStart {
    /// The root begins at this offset. No text from there on was taken.
    Certain(usize),
    /// A bracket at this offset, which was taken, begins the root if JSON follows it.
    Possible(usize),
}

/// The label in the line that opens a fence.
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
        match line
            .trim_start_matches('`')
            .trim()
            .to_ascii_lowercase()
            .as_str()
        {
            "" => Self::None,
            "json" => Self::Json,
            label if label.starts_with("json") => Self::LikeJson,
            _ => Self::Other,
        }
    }
}

impl RootFinder {
    /// A finder before the first byte.
    pub(crate) fn new(roots: AllowedRoots, max_preamble: usize) -> Self {
        Self {
            scanner: EnvelopeScanner::new(),
            lead: BracketLead::default(),
            roots,
            max_preamble,
            knows_reasoning: true,
            offset: 0,
            is_found: false,
            prose: false,
            prose_from: 0,
            fence: false,
            ticks: 0,
            label: Label::None,
            in_block: false,
            is_further: false,
            needs_reasoning: false,
            is_text: false,
            is_probing: false,
        }
    }

    /// A finder for a further block after a fenced root that ended at `offset`.
    pub(crate) fn further(offset: usize) -> Self {
        Self {
            offset,
            prose: true,
            in_block: true,
            is_further: true,
            ..Self::new(AllowedRoots::Containers, 0)
        }
    }

    /// A finder in the text after a root without a fence that ended at `offset`. `needs_reasoning`:
    /// another root begins only after reasoning.
    pub(crate) fn after_root(offset: usize, max_preamble: usize, needs_reasoning: bool) -> Self {
        let before = Self::new(AllowedRoots::Containers, max_preamble);
        Self {
            offset,
            lead: BracketLead::in_line(),
            prose: true,
            prose_from: offset,
            needs_reasoning,
            ..before
        }
    }

    /// Returns a finder at `offset` of a text that is not JSON: it finds nothing.
    pub(crate) fn of_text(offset: usize) -> Self {
        Self {
            offset,
            prose: true,
            is_text: true,
            ..Self::new(AllowedRoots::Containers, 0)
        }
    }

    /// Takes tags around reasoning for prose.
    #[must_use]
    pub(crate) fn ignoring_reasoning(self) -> Self {
        Self {
            knows_reasoning: false,
            ..self
        }
    }

    /// Takes text up to the first bracket that begins or may begin a root, if there is one. Takes
    /// no text after a certain start.
    pub(crate) fn feed(&mut self, text: &str) -> Option<RootStart> {
        if self.is_text {
            self.offset += text.len();
            return None;
        }
        let mut rest = text;
        while !self.is_found
            && let Some(c) = rest.chars().next()
        {
            let mut taken = self.skip(rest);
            let mut start = None;
            if taken == 0 {
                start = self.step(c).filter(|_| !self.needs_reasoning);
                taken = c.len_utf8();
            }
            if start == Some(Certainty::Certain) {
                self.is_found = true;
                break;
            }
            self.offset += taken;
            if start == Some(Certainty::Possible) {
                return Some(RootStart::Possible(self.offset - taken));
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        self.is_found.then_some(RootStart::Certain(self.offset))
    }

    /// Returns the offset up to which text was taken.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Records that the text after the possible start will decide.
    pub(crate) fn probe(&mut self) {
        self.is_probing = true;
    }

    /// Records that the root begins at the possible start.
    pub(crate) fn accept(&mut self) {
        (self.is_found, self.is_probing) = (true, false);
    }

    /// Records that the possible start is prose.
    pub(crate) fn reject(&mut self) {
        self.is_probing = false;
        self.note_prose();
    }

    /// Records that the certain start is prose, and takes its first character, `c`.
    pub(crate) fn reject_certain(&mut self, c: char) {
        self.is_found = false;
        self.note_prose();
        self.offset += c.len_utf8();
    }

    /// Skips text in which no root can begin. Returns the number of bytes.
    fn skip(&mut self, text: &str) -> usize {
        let is_near = !self.is_further && self.prose_len() <= self.max_preamble;
        if is_near && !self.scanner.in_reasoning() {
            0
        } else {
            self.scanner.skip(text)
        }
    }

    /// Whether reasoning is open at the end of the text.
    pub(crate) fn in_reasoning(&self) -> bool {
        self.scanner.in_reasoning()
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

    /// Whether a fence has opened, or is opening, that promises JSON: by its label, or because it
    /// has no label and is at the start of the text.
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

    /// Whether the search for a root is off, because the text is not JSON.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Whether no significant character was taken.
    pub(crate) fn is_blank(&self) -> bool {
        self.scanner.is_blank() && !self.prose && !self.fence
    }

    /// Whether text was taken that is neither a root nor a fence nor reasoning nor white space.
    pub(crate) fn is_prose(&self) -> bool {
        self.prose && !self.fence && !self.is_found
    }

    /// The number of bytes since the first text that is neither a root nor a fence nor reasoning
    /// nor white space.
    pub(crate) fn prose_len(&self) -> usize {
        if self.is_prose() {
            self.offset.saturating_sub(self.prose_from)
        } else {
            0
        }
    }

    /// Returns the rest of the line that opens a fence, if the text ends inside that line.
    pub(crate) fn rest_of_fence(&self) -> Option<&'static str> {
        let line = self.scanner.line();
        match line {
            _ if self.is_found => None,
            "`" => Some("``\n"),
            "``" => Some("`\n"),
            _ => ticks_of(line).map(|_| "\n"),
        }
    }

    /// Takes the next character; returns how certainly a root begins with it.
    fn step(&mut self, c: char) -> Option<Certainty> {
        if c == '\n' {
            self.end_line();
        }
        if self.offset == 0 && c == BYTE_ORDER_MARK {
            return None;
        }
        let is_bracket = matches!(c, '{' | '[');
        if is_bracket && self.opens_fence(&[Label::None, Label::Json]) {
            // ```json{"a": 1}
            self.open();
            return Some(Certainty::Certain);
        }
        let is_allowed = u8::try_from(c).is_ok_and(|byte| self.roots.allows(byte));
        let follows_prose = is_bracket && self.follows_prose();
        let was_in_reasoning = self.scanner.in_reasoning();
        let start = match self.take(c) {
            Some(ContentStart::First | ContentStart::Reasoning) if is_allowed && !self.prose => {
                Some(Certainty::Certain)
            }
            Some(ContentStart::Fence) if is_allowed && self.fence => match self.label {
                Label::Other if is_bracket => Some(Certainty::Possible),
                Label::Other => None,
                _ => Some(Certainty::Certain),
            },
            _ => follows_prose.then_some(Certainty::Possible),
        };
        if !self.scanner.line().is_empty() && start.is_none() && !self.is_open() {
            self.note_prose();
        }
        let is_over = |(_, end): &(&str, &str)| self.lead.has_ended(end);
        if c == '>'
            && !was_in_reasoning
            && self.knows_reasoning
            && !self.is_further
            && REASONING.iter().any(is_over)
        {
            self.end_reasoning();
        }
        start
    }

    /// Hands a character to the scanners.
    fn take(&mut self, c: char) -> Option<ContentStart> {
        let was_in_reasoning = self.scanner.in_reasoning();
        let start = self.scanner.take(c);
        if was_in_reasoning {
            self.lead = BracketLead::default();
        } else {
            self.lead.take(c);
        }
        if self.scanner.in_reasoning() && !self.knows_reasoning {
            self.scanner.forget_reasoning();
            self.note_prose();
        }
        start
    }

    /// Whether the next character begins a root after prose, if it is a bracket and JSON follows
    /// it.
    fn follows_prose(&self) -> bool {
        let is_label = || {
            self.scanner
                .line()
                .trim_ascii()
                .eq_ignore_ascii_case("json")
        };
        let is_outside =
            !(self.in_block || self.fence || self.is_further || self.scanner.in_reasoning());
        is_outside
            && self.prose
            && self.prose_len() <= self.max_preamble
            && (self.lead.allows_root() || is_label())
    }

    /// Text after the tag follows reasoning.
    fn end_reasoning(&mut self) {
        self.scanner.end_reasoning();
        (self.prose, self.fence, self.in_block, self.lead) =
            (false, false, false, BracketLead::default());
        self.needs_reasoning = false;
    }

    /// Whether the open line may still become a fence or a tag.
    fn is_open(&self) -> bool {
        let line = self.scanner.line();
        let may_be_fence = line.trim_start_matches('`').is_empty() || ticks_of(line).is_some();
        !line.is_empty() && (may_be_fence && !self.fence || self.scanner.may_open_reasoning())
    }

    fn note_prose(&mut self) {
        if self.is_probing {
            return;
        }
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
            (self.in_block, self.lead) = (false, BracketLead::default());
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
        is_fence
            && labels.contains(&Label::of(line))
            && (!self.is_further || Label::of(line) == Label::Json)
    }

    fn open(&mut self) {
        let line = self.scanner.line();
        (self.ticks, self.label) = (ticks_of(line).unwrap_or(FENCE.len()), Label::of(line));
        self.fence = true;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Certain,
    Possible,
}

const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
mod tests {
    use super::*;

    const PREAMBLE: usize = 1024;

    /// Checks the first start of a root, the fence before it, and whether JSON is promised, for the
    /// whole text and character by character.
    fn look(text: &str, root: Option<RootStart>, fence: bool, promises: bool) {
        let mut whole = RootFinder::new(AllowedRoots::Containers, PREAMBLE);
        let found = whole.feed(text);
        let mut slow = RootFinder::new(AllowedRoots::Containers, PREAMBLE);
        let slowly = text.chars().fold(None, |found, c| {
            found.or_else(|| slow.feed(c.encode_utf8(&mut [0; 4])))
        });
        for (found, finder) in [(found, whole), (slowly, slow)] {
            assert_eq!(
                (found, finder.has_fence(), finder.promises_json()),
                (root, fence, promises),
                "{text:?}"
            );
        }
    }

    fn check(text: &str, root: Option<&str>, fence: bool, promises: bool) {
        look(
            text,
            root.map(|rest| RootStart::Certain(text.len() - rest.len())),
            fence,
            promises,
        );
    }

    fn check_possible(text: &str, root: &str) {
        let fence = text.starts_with(FENCE);
        look(
            text,
            Some(RootStart::Possible(text.len() - root.len())),
            fence && root == "[1]",
            false,
        );
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
        check(
            "<think>[1] or\n```json\n{</think>\n{",
            Some("{"),
            false,
            false,
        );
        check("<think>\n</think>```json\n{", Some("{"), true, true);
        check(
            "<thinking>\n</think>{</thinking>\n\nHere:\n```json\n[",
            Some("["),
            true,
            true,
        );
    }

    #[test]
    fn prose_has_no_root() {
        check("See [1] and {2}.", None, false, false);
        check("", None, false, false);
        check("``not a fence", None, false, false);
        check("Code:\n```python\n[1]\n```\n", None, false, false);
        check("<think>\n[1]", None, false, false);
    }

    #[test]
    fn a_bracket_after_prose_may_begin_a_root() {
        check_possible("```\nplain\n```\n{", "{");
        check_possible("Here it is:\n\n{", "{");
        check_possible("Answer: [", "[");
        check_possible("json {", "{");
        check_possible("\u{a0}[1]", "[1]");
        check_possible("Code:\n```python\n```\n[link](x)", "[link](x)");
        check_possible("<think></think> So\n[1]", "[1]");
        check_possible("<answer>{", "{");
        check_possible("```js\n[1]", "[1]");
        // Inside a block, or far from the start, it may not.
        look("Code:\n```js\nlet a =\n{", None, false, false);
        look(
            &format!("{}\n{{", "a".repeat(PREAMBLE + 1)),
            None,
            false,
            false,
        );
    }

    #[test]
    fn reasoning_may_end_without_an_opening_tag() {
        check(
            "So {1} or\n```js\n[2]\n</think>\n\n{",
            Some("{"),
            false,
            false,
        );
        check("A\n</think>\n```json\n{", Some("{"), true, true);
        check("A </reasoning> So", None, false, false);
        let mut finder = RootFinder::new(AllowedRoots::Containers, PREAMBLE).ignoring_reasoning();
        assert_eq!(finder.feed("<think>\n{"), Some(RootStart::Possible(8)));
        let mut finder = RootFinder::after_root(10, PREAMBLE, true);
        assert_eq!(
            finder.feed(" or\n{\n```json\n[1]\n```\n</think>["),
            Some(RootStart::Certain(40))
        );
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
            let root = root.map(|root| RootStart::Certain(10 + text.len() - root.len()));
            assert_eq!(found, root, "{text:?}");
        }
    }
}
