//! Finds where content may begin in a model's text, character by character.

use std::ops::Range;

use memchr::{memchr, memmem};

/// A push scanner over text that may have an envelope: lines of prose, fence lines, reasoning
/// between tags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvelopeScanner {
    line: LineStart,
    /// The reason why content may begin at the start of the next line, and the same for this line.
    due: ContentStart,
    began: ContentStart,
    /// In reasoning: the tag that ends it, and how many of the tag's bytes were taken.
    reasoning: Option<(&'static str, usize)>,
    /// The last character of the line that is not white space.
    last: char,
    /// All lines since the start, a fence or reasoning look like prose.
    is_prose: bool,
}

/// Why content may begin at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentStart {
    /// It is at the start of the text.
    First,
    /// A line that opens or closes a fence precedes it.
    Fence,
    /// Reasoning precedes it.
    Reasoning,
    /// It is at the start of a line after other text.
    Line,
}

/// Tags around reasoning, as models write them whose server does not take the reasoning out of the
/// text.
pub(super) const REASONING: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
];

/// Returns `text` without the reasoning in tags at its start. Returns all of `text` if it has no
/// reasoning, or if the reasoning does not end.
pub(crate) fn after_reasoning(text: &str) -> &str {
    let opened = REASONING
        .iter()
        .find_map(|tags| Some((text.strip_prefix(tags.0)?, tags.1)));
    let after = opened.and_then(|(rest, end)| {
        rest.get(memmem::find(rest.as_bytes(), end.as_bytes())? + end.len()..)
    });
    after.unwrap_or(text)
}

/// Returns whether `text` begins with reasoning that does not end.
pub(crate) fn is_reasoning(text: &str) -> bool {
    let opens = REASONING.iter().any(|(tag, _)| text.starts_with(tag));
    opens && reasoning_end(text).is_none()
}

/// Returns the first tag that ends reasoning.
pub(crate) fn reasoning_end(text: &str) -> Option<Range<usize>> {
    let ends = REASONING.iter().filter_map(|(_, end)| {
        let at = memmem::find(text.as_bytes(), end.as_bytes())?;
        Some(at..at + end.len())
    });
    ends.min_by_key(|end| end.start)
}

/// Bytes of a line that are kept: the longest tag, and a fence with the labels that matter.
// `</reasoning>` has 12 bytes, a fence with `json` 7. The text of a line beyond this decides
// nothing; a checkpoint copies the scanner, so it must stay small.
const LINE: usize = 16;

impl EnvelopeScanner {
    pub(crate) fn new() -> Self {
        let (due, began) = (ContentStart::First, ContentStart::First);
        Self {
            line: LineStart::default(),
            due,
            began,
            reasoning: None,
            last: ' ',
            is_prose: true,
        }
    }

    /// Whether the text before this line looks like prose.
    pub(crate) fn is_after_prose(&self) -> bool {
        self.is_prose
    }

    /// Whether reasoning is open: nothing is content until it ends.
    pub(crate) fn in_reasoning(&self) -> bool {
        self.reasoning.is_some()
    }

    /// Ends reasoning whose opening tag is not in the text: chat templates write it into the
    /// request.
    pub(super) fn end_reasoning(&mut self) {
        (self.reasoning, self.due, self.is_prose) = (None, ContentStart::Reasoning, true);
        self.line.clear();
    }

    /// Treats the tag that has just opened reasoning as text.
    pub(super) fn forget_reasoning(&mut self) {
        (self.reasoning, self.due) = (None, ContentStart::Line);
    }

    /// Whether only white space was taken.
    pub(crate) fn is_blank(&self) -> bool {
        self.due == ContentStart::First && self.line.is_empty() && self.reasoning.is_none()
    }

    /// The beginning of the open line, without the white space before it.
    pub(crate) fn line(&self) -> &str {
        self.line.as_str()
    }

    /// Whether the open line may still become a tag that opens reasoning.
    pub(crate) fn may_open_reasoning(&self) -> bool {
        self.began != ContentStart::Line
            && REASONING
                .iter()
                .any(|(tag, _)| tag.starts_with(self.line()))
    }

    /// Whether the rest of this line changes nothing but how the line ends.
    pub(crate) fn is_settled(&self) -> bool {
        self.reasoning.is_none() && self.line.is_full()
    }

    /// Takes more text of a line that is [settled](Self::is_settled).
    pub(crate) fn run(&mut self, text: &str) {
        self.last = text.trim_end().chars().next_back().unwrap_or(self.last);
    }

    /// Takes the bytes at the start of `text` that have no effect on later results, and returns
    /// their number.
    pub(crate) fn skip(&mut self, text: &str) -> usize {
        match self.reasoning {
            Some((_, 0)) => memchr(b'<', text.as_bytes()).unwrap_or(text.len()),
            None if self.is_settled() => {
                let end = memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
                self.run(text.get(..end).unwrap_or_default());
                end
            }
            _ => 0,
        }
    }

    /// Takes the next character; returns why content may begin with it, if it may.
    pub(crate) fn take(&mut self, c: char) -> Option<ContentStart> {
        if let Some((end, come)) = self.reasoning {
            self.take_reasoning(end, come, c);
            return None;
        }
        if c == '\n' {
            self.end_line();
            return None;
        }
        if self.line.is_full() {
            // No tag is this long.
            self.last = if c.is_whitespace() { self.last } else { c };
            return None;
        }
        let is_first = self.line.is_empty();
        if is_first {
            // Other white space may belong to a string that was cut:
            // `tests/corpus/docs/emoji-and-directions.json`.
            if matches!(c, ' ' | '\t' | '\r') {
                return None;
            }
            self.began = self.due;
        }
        self.line.push(c);
        if !c.is_whitespace() {
            self.last = c;
        }
        if self.began != ContentStart::Line
            && let Some((_, end)) = REASONING.iter().find(|(tag, _)| self.line() == *tag)
        {
            self.reasoning = Some((end, 0));
            self.line.clear();
        }
        (is_first && (self.began != ContentStart::Line || self.is_prose)).then_some(self.began)
    }

    fn take_reasoning(&mut self, end: &'static str, come: usize, c: char) {
        // `<` is in a tag once, at its start, so no other tag can begin inside the tag.
        let come = match end.get(come..).is_some_and(|rest| rest.starts_with(c)) {
            true => come + c.len_utf8(),
            false => usize::from(c == '<'),
        };
        self.reasoning = Some((end, come));
        if come == end.len() {
            (self.reasoning, self.due, self.is_prose) = (None, ContentStart::Reasoning, true);
        }
    }

    fn end_line(&mut self) {
        if self.line().starts_with(super::FENCE) {
            (self.due, self.is_prose) = (ContentStart::Fence, true);
        } else if !self.line.is_empty() {
            self.due = ContentStart::Line;
            self.is_prose &= self.line_is_prose();
        }
        self.line.clear();
    }

    /// JSON lines begin or end with characters that prose lines rarely begin or end with.
    fn line_is_prose(&self) -> bool {
        let first = self.line().chars().next().unwrap_or(' ');
        let begins_as_json = matches!(
            first,
            '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9'
        );
        !begins_as_json && !matches!(self.last, '{' | '[' | '}' | ']' | '"' | ',')
    }
}

/// The beginning of a line. No allocation: a checkpoint copies it.
#[derive(Clone, Copy, Debug, Default)]
struct LineStart {
    /// The last character kept may begin right before [`LINE`].
    bytes: [u8; LINE + 3],
    len: usize,
}

impl LineStart {
    fn push(&mut self, c: char) {
        if !self.is_full()
            && let Some(room) = self.bytes.get_mut(self.len..self.len + c.len_utf8())
        {
            c.encode_utf8(room);
            self.len += c.len_utf8();
        }
    }

    fn as_str(&self) -> &str {
        let text = std::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default());
        debug_assert!(text.is_ok(), "whole characters were pushed");
        text.unwrap_or_default()
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn is_full(&self) -> bool {
        self.len >= LINE
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentStart, EnvelopeScanner};

    /// Returns each offset where content may begin: why, and the rest of its line.
    fn starts(text: &str) -> Vec<(ContentStart, &str)> {
        let mut scanner = EnvelopeScanner::new();
        let places = text
            .char_indices()
            .filter_map(|(at, c)| scanner.take(c).map(|start| (at, start)));
        places
            .map(|(at, start)| (start, text[at..].lines().next().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn content_begins_after_an_envelope() {
        use ContentStart::*;
        assert_eq!(starts(" \n [1]"), [(First, "[1]")]);
        assert_eq!(starts("```json\n\n  {"), [(First, "```json"), (Fence, "{")]);
        assert_eq!(
            starts("Sure:\n\n\"a\""),
            [(First, "Sure:"), (Line, "\"a\"")]
        );
        assert_eq!(
            starts("<think>a\n[b] </think> {\n}"),
            [(First, "<think>a"), (Reasoning, "{")]
        );
        assert_eq!(
            starts("<think>a<</thin</think>{"),
            [(First, "<think>a<</thin</think>{"), (Reasoning, "{")]
        );
        assert_eq!(
            starts("Sure:\n```\n{\n```\n"),
            [(First, "Sure:"), (Line, "```"), (Fence, "{")]
        );
        // A line of JSON is not a preamble.
        assert_eq!(starts("\"a\": 1,\n\"b\": 2"), [(First, "\"a\": 1,")]);
        // White space that JSON does not know is content.
        assert_eq!(
            starts("```json\n \u{a0}d\","),
            [(First, "```json"), (Fence, "\u{a0}d\",")]
        );
        // No reasoning: text precedes the tag.
        assert_eq!(
            starts("a\n<think>\nb"),
            [(First, "a"), (Line, "<think>"), (Line, "b")]
        );
    }

    #[test]
    fn what_is_skipped_makes_no_difference() {
        let text = "A line of prose that is longer than what is kept é.\n<think>\n```json\n{";
        for text in [
            text.to_owned(),
            format!("<think>a < b, and so on </thin</think> \n{text}"),
        ] {
            let mut skipping = EnvelopeScanner::new();
            let mut at = 0;
            let mut found = Vec::new();
            while let Some(c) = text[at..].chars().next() {
                let skipped = skipping.skip(&text[at..]);
                if skipped == 0 {
                    found.extend(
                        skipping
                            .take(c)
                            .map(|start| (start, text[at..].lines().next().unwrap())),
                    );
                }
                at += if skipped > 0 { skipped } else { c.len_utf8() };
            }
            assert_eq!(found, starts(&text));
        }
    }
}
