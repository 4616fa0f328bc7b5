//! Reads text of JSON strings character by character, where whole pieces are not at hand ([`string`](super::string) decodes
//! those).

/// What a character is, or completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    /// A character outside of an escape.
    Plain(char),
    /// What an escape stands for, or the two escapes of a surrogate pair.
    Escaped(char),
    /// An escape that is broken, or half of a surrogate pair.
    Broken,
    /// A backslash, and a character with which it makes no escape.
    Unknown(char),
}

/// The part of an escape that has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EscapeReader {
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// A `\u` and its first hexadecimal digits.
    Unicode {
        value: u32,
        digits: u8,
    },
}

impl EscapeReader {
    /// Takes a character; passes on what it completes.
    pub(crate) fn push(&mut self, c: char, take: &mut impl FnMut(Letter)) {
        match (std::mem::take(&mut self.escape), c) {
            (Escape::None, '\\') => self.escape = Escape::Backslash,
            (Escape::None, _) => self.put(Letter::Plain(c), take),
            (Escape::Backslash, 'u') => self.escape = Escape::Unicode { value: 0, digits: 0 },
            (Escape::Backslash, _) => {
                let letter = short(c).map_or(Letter::Unknown(c), Letter::Escaped);
                self.put(letter, take);
            }
            (Escape::Unicode { value, digits }, _) => match c.to_digit(16) {
                Some(digit) if digits < 3 => {
                    self.escape = Escape::Unicode { value: value << 4 | digit, digits: digits + 1 };
                }
                Some(digit) => self.push_unit(value << 4 | digit, take),
                None => {
                    self.put(Letter::Broken, take);
                    self.push(c, take);
                }
            },
        }
    }

    /// Whether the text ends inside an escape, or between the halves of a surrogate pair.
    pub(crate) fn is_inside(self) -> bool {
        self != Self::default()
    }

    /// Takes a UTF-16 code unit.
    fn push_unit(&mut self, unit: u32, take: &mut impl FnMut(Letter)) {
        match (self.high, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                self.high = None;
                take(escaped(0x10000 + ((high - 0xd800) << 10 | (unit - 0xdc00))));
            }
            (_, 0xd800..=0xdbff) => {
                self.end_pair(take);
                self.high = Some(unit);
            }
            _ => self.put(escaped(unit), take),
        }
    }

    /// Passes on a letter that belongs to no pair.
    fn put(&mut self, letter: Letter, take: &mut impl FnMut(Letter)) {
        self.end_pair(take);
        take(letter);
    }

    /// Ends a surrogate pair whose second half is missing.
    fn end_pair(&mut self, take: &mut impl FnMut(Letter)) {
        if self.high.take().is_some() {
            take(Letter::Broken);
        }
    }
}

fn escaped(code: u32) -> Letter {
    char::from_u32(code).map_or(Letter::Broken, Letter::Escaped)
}

/// The character that an escape of one letter stands for.
fn short(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' | '/' => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<Letter> {
        let (mut reader, mut letters) = (EscapeReader::default(), Vec::new());
        text.chars().for_each(|c| reader.push(c, &mut |letter| letters.push(letter)));
        letters
    }

    #[test]
    fn each_escape_is_one_letter() {
        use Letter::{Broken, Escaped, Plain, Unknown};
        for (text, expect) in [
            (r"a\nb", vec![Plain('a'), Escaped('\n'), Plain('b')]),
            (r#"\"\\\/\b\f\r\t"#, "\"\\/\u{8}\u{c}\r\t".chars().map(Escaped).collect()),
            (r"\u00e9\u00C9\\u00e9", {
                let mut letters = vec![Escaped('é'), Escaped('É'), Escaped('\\')];
                letters.extend("u00e9".chars().map(Plain));
                letters
            }),
            (r"\ud83d\ude00", vec![Escaped('😀')]),
            (r"\ud83dx\ude00", vec![Broken, Plain('x'), Broken]),
            (r"\ud83d\ud83d\ude00", vec![Broken, Escaped('😀')]),
            (r"\ud83d\n", vec![Broken, Escaped('\n')]),
            (r"\q\é", vec![Unknown('q'), Unknown('é')]),
            (r"\u12x\u1\t", vec![Broken, Plain('x'), Broken, Escaped('\t')]),
            (r"a\u00e", vec![Plain('a')]),
        ] {
            assert_eq!(letters(text), expect, "{text}");
        }
    }

    #[test]
    fn escapes_that_may_go_on_are_told() {
        let is_inside = |text: &str| {
            let mut reader = EscapeReader::default();
            text.chars().for_each(|c| reader.push(c, &mut |_| {}));
            reader.is_inside()
        };
        for text in [r"a\", r"\\\", r"\u", r"\u00e", r"\\\u00e", r"\ud83d", r"éééééé\ud83d\", r"\ud83d\ude0"] {
            assert!(is_inside(text), "{text}");
        }
        for text in ["", "a", r"\n", r"\\", r"\\\\\\\\\\\\\\", r"\\u00e", r"\u00e9", r"\ud83d\ude00", r"\ud83da", "00"]
        {
            assert!(!is_inside(text), "{text}");
        }
    }
}
