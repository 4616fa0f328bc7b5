//! Finds where the root of a document begins in a model's text.

use super::fence::ticks_of;
use super::lead::BracketLead;
pub(crate) use super::preamble::SoughtRoot;
use super::preamble::{FenceLabel, Preamble};
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
    preamble: Preamble,
    roots: AllowedRoots,
    /// The most bytes of prose in which a root may begin without a fence.
    max_preamble: usize,
    /// Tags around reasoning count.
    knows_reasoning: bool,
    sought: SoughtRoot,
    /// Bytes taken.
    offset: usize,
    is_found: bool,
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

impl RootFinder {
    /// A finder before the first byte.
    pub(crate) fn new(roots: AllowedRoots, max_preamble: usize) -> Self {
        Self {
            scanner: EnvelopeScanner::new(),
            preamble: Preamble::default(),
            roots,
            max_preamble,
            knows_reasoning: true,
            sought: SoughtRoot::First,
            offset: 0,
            is_found: false,
            is_probing: false,
        }
    }

    /// A finder for a further block after a fenced root that ended at `offset`.
    pub(crate) fn further(offset: usize) -> Self {
        Self {
            offset,
            preamble: Preamble::in_block(0),
            sought: SoughtRoot::FurtherBlock,
            ..Self::new(AllowedRoots::Containers, 0)
        }
    }

    /// A finder in the text after a root that ended at `offset`.
    pub(crate) fn after_root(offset: usize, max_preamble: usize, sought: SoughtRoot) -> Self {
        Self {
            offset,
            preamble: match sought {
                SoughtRoot::Later { in_block: true } => Preamble::in_block(offset),
                SoughtRoot::Later { in_block: false } => Preamble::default(),
                _ => Preamble::in_line(offset),
            },
            sought,
            ..Self::new(AllowedRoots::Containers, max_preamble)
        }
    }

    /// Whether the root that was found follows another one, without reasoning between them.
    pub(crate) fn is_later(&self) -> bool {
        matches!(self.sought, SoughtRoot::Later { .. })
    }

    /// Returns a finder at `offset` of a text that is not JSON: it finds nothing.
    pub(crate) fn of_text(offset: usize) -> Self {
        Self {
            offset,
            preamble: Preamble::in_line(0),
            sought: SoughtRoot::Nothing,
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
        if self.is_text() {
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
                start = self
                    .step(c)
                    .filter(|_| self.sought != SoughtRoot::AfterReasoning);
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
        let is_near =
            self.sought != SoughtRoot::FurtherBlock && self.prose_len() <= self.max_preamble;
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

    /// Returns the text before the root.
    pub(crate) fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Whether a fence has opened, or is opening, that promises JSON.
    pub(crate) fn promises_json(&self) -> bool {
        self.preamble.promises_json(self.scanner.line())
    }

    /// Whether the search for a root is off, because the text is not JSON.
    pub(crate) fn is_text(&self) -> bool {
        self.sought == SoughtRoot::Nothing
    }

    /// Whether no significant character was taken.
    pub(crate) fn is_blank(&self) -> bool {
        self.scanner.is_blank() && self.preamble.is_blank()
    }

    /// Whether text was taken that is neither a root nor a fence nor reasoning nor white space.
    pub(crate) fn is_prose(&self) -> bool {
        self.preamble.has_prose() && !self.preamble.has_fence() && !self.is_found
    }

    /// The number of bytes since the first text that is neither a root nor a fence nor reasoning
    /// nor white space.
    pub(crate) fn prose_len(&self) -> usize {
        let from = self.preamble.prose_from.filter(|_| self.is_prose());
        from.map_or(0, |from| self.offset.saturating_sub(from))
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
        // Reading the line costs more than all else here, so only characters that need it do.
        if c == '\n' {
            let line = self.scanner.line();
            if ticks_of(line).is_some() {
                self.preamble.end_fence_line(line, self.sought);
            } else if !line.is_empty() && !self.scanner.in_reasoning() {
                self.note_prose();
            }
        }
        if self.offset == 0 && c == BYTE_ORDER_MARK {
            return None;
        }
        let is_bracket = matches!(c, '{' | '[');
        if is_bracket {
            let line = self.scanner.line();
            if self.preamble.opens_root(line, self.sought) {
                // ```json{"a": 1}
                self.preamble.open_fence(line);
                return Some(Certainty::Certain);
            }
        }
        let is_allowed = u8::try_from(c).is_ok_and(|byte| self.roots.allows(byte));
        let follows_prose = is_bracket && self.follows_prose();
        let was_in_reasoning = self.scanner.in_reasoning();
        let content = self.take(c);
        let start = match (content, self.preamble.label()) {
            (Some(ContentStart::First | ContentStart::Reasoning), _)
                if is_allowed && !self.preamble.has_prose() =>
            {
                Some(Certainty::Certain)
            }
            (Some(ContentStart::Fence), Some(label)) if is_allowed => match label {
                FenceLabel::Other if is_bracket => Some(Certainty::Possible),
                FenceLabel::Other => None,
                _ => Some(Certainty::Certain),
            },
            _ => follows_prose.then_some(Certainty::Possible),
        };
        // More of the prose changes nothing.
        if !self.is_prose()
            && start.is_none()
            && !self.scanner.line().is_empty()
            && !self.preamble.may_be_envelope(&self.scanner)
        {
            self.note_prose();
        }
        let is_over = |(_, end): &(&str, &str)| self.preamble.lead.has_ended(end);
        if c == '>'
            && !was_in_reasoning
            && self.knows_reasoning
            && self.sought != SoughtRoot::FurtherBlock
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
            self.preamble.lead = BracketLead::default();
        } else {
            self.preamble.lead.take(c);
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
        self.sought != SoughtRoot::FurtherBlock
            && !self.scanner.in_reasoning()
            && self.preamble.has_prose()
            && !self.preamble.has_fence()
            && !self.preamble.in_block
            && self.prose_len() <= self.max_preamble
            && (self.preamble.lead.allows_root() || is_label())
    }

    /// Text after the tag follows reasoning.
    fn end_reasoning(&mut self) {
        self.scanner.end_reasoning();
        self.preamble = Preamble::default();
        if self.is_later() || self.sought == SoughtRoot::AfterReasoning {
            self.sought = SoughtRoot::First;
        }
    }

    fn note_prose(&mut self) {
        if !self.is_probing {
            self.preamble.note_prose(self.offset);
        }
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
    use crate::envelope::FENCE;

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
                (found, finder.preamble().has_fence(), finder.promises_json()),
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
        let mut finder = RootFinder::after_root(10, PREAMBLE, SoughtRoot::AfterReasoning);
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
