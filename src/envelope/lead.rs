//! Classifies the text before a bracket in prose: may the bracket begin a root?

/// A push scanner over prose that classifies the text before the next character.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BracketLead {
    before: PrecedingText,
    /// The number of open brackets in this paragraph. Text in brackets is code, or a part of a
    /// sentence.
    open: u32,
    tag: Tag,
}

/// The text before the next character in its line, without white space and the marks of bold text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PrecedingText {
    #[default]
    LineStart,
    /// The colon of a label. A colon after a quote belongs to a key: `"a": {`.
    Colon,
    /// An opening tag: `<answer>`, `<|message|>`. A marker of an instruction template: `[/INST]`,
    /// `[TOOL_CALLS]`.
    Tag,
    Quote,
    Text,
}

/// The beginning of a tag.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    /// The first bytes.
    bytes: [u8; TAG],
    /// 0 outside of tags.
    len: usize,
    is_ended: bool,
}

impl BracketLead {
    /// Whether the next character may begin a root, if it is a bracket.
    pub(super) fn allows_root(&self) -> bool {
        self.open == 0
            && matches!(
                self.before,
                PrecedingText::LineStart | PrecedingText::Colon | PrecedingText::Tag
            )
    }

    /// Whether the last character has ended this tag.
    pub(super) fn has_ended(&self, tag: &str) -> bool {
        self.tag.is_ended && self.tag.bytes.get(..self.tag.len) == Some(tag.as_bytes())
    }

    /// Takes the next character.
    pub(super) fn take(&mut self, c: char) {
        self.tag.take(c);
        self.before = match c {
            '\n' => {
                if self.before == PrecedingText::LineStart {
                    // An unclosed bracket, as in `:(`, has no effect on the next paragraph.
                    self.open = 0;
                }
                PrecedingText::LineStart
            }
            _ if c.is_whitespace() => self.before,
            '*' | '_' if self.before == PrecedingText::Colon => PrecedingText::Colon,
            // The mark of a quoted line.
            '>' if self.before == PrecedingText::LineStart => PrecedingText::LineStart,
            '>' | ']' if self.tag.opens() => PrecedingText::Tag,
            ':' | '：' if self.before != PrecedingText::Quote => PrecedingText::Colon,
            '"' | '\'' => PrecedingText::Quote,
            _ => PrecedingText::Text,
        };
        match c {
            '{' | '[' | '(' => self.open = self.open.saturating_add(1),
            '}' | ']' | ')' => self.open = self.open.saturating_sub(1),
            _ => {}
        }
    }
}

impl Tag {
    fn take(&mut self, c: char) {
        if self.is_ended || c == '\n' || c == '<' {
            *self = Self::default();
        }
        let can_follow = match (self.len, self.bytes[0]) {
            (0, _) => matches!(c, '<' | '['),
            (1, b'[') => c.is_ascii_uppercase() || c == '/',
            (len, b'[') => c.is_ascii_uppercase() || c == '_' || c == ']' && len >= MARKER,
            (1, _) => c.is_alphabetic() || matches!(c, '|' | '｜' | '/'),
            (len, _) => len < LONGEST,
        };
        if !can_follow {
            // `a < b`
            return *self = Self::default();
        }
        let mut buffer = [0; 4];
        for byte in c.encode_utf8(&mut buffer).bytes() {
            if let Some(room) = self.bytes.get_mut(self.len) {
                *room = byte;
            }
            self.len += 1;
        }
        self.is_ended = c == if self.bytes[0] == b'[' { ']' } else { '>' };
    }

    /// Whether the tag has ended and is an opening tag. A marker that closes an instruction opens
    /// the answer.
    fn opens(&self) -> bool {
        self.is_ended && !self.bytes.starts_with(b"</")
    }
}

/// The number of bytes kept of a tag: the length of the longest tag that ends reasoning.
const TAG: usize = 12;
/// Bytes before the bracket that closes the shortest marker: `[OUT]`. `[AB]` is more often a name.
const MARKER: usize = 4;
/// The length of the longest tag in bytes: `<tool_call name="…">` is shorter.
// Chosen: a `<` that is a comparison in a sentence must not stay open for the rest of the text.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_begins_a_line_or_follows_a_label_or_a_tag() {
        for (text, allows) in [
            ("", true),
            ("Here is the plan:", true),
            ("**Answer:** ", true),
            ("**Answer**: ", true),
            ("答案：", true),
            ("One.\n  ", true),
            ("> ", true),
            ("<answer>", true),
            ("<tool_call name=\"x\">", true),
            ("<|channel|>final<|message|>", true),
            ("<｜tool▁calls▁begin｜>", true),
            ("[INST] x [/INST] ", true),
            ("[TOOL_CALLS]", true),
            ("[1]", false),
            ("[AB]", false),
            ("[Enter]", false),
            ("[/INST] and ", false),
            ("See ", false),
            ("x = ", false),
            ("a -> ", false),
            ("if a < b > ", false),
            ("</p>", false),
            ("\"a\": ", false),
            // In a bracket that is open.
            ("x = {\n", false),
            ("f(x, a: ", false),
            ("(see [1]) a: ", true),
            (":(\n", false),
            (":(\n\n", true),
        ] {
            let mut lead = BracketLead::default();
            text.chars().for_each(|c| lead.take(c));
            assert_eq!(lead.allows_root(), allows, "{text:?}");
        }
    }

    #[test]
    fn tags_are_compared_when_they_end() {
        let mut lead = BracketLead::default();
        let ended = "a</think> b</think".chars().filter(|&c| {
            lead.take(c);
            lead.has_ended("</think>")
        });
        assert_eq!(ended.count(), 1);
    }
}
