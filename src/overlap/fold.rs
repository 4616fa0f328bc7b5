//! Folds text, so that a model's spellings of the same text are equal.

/// The state of a fold. A pushed character gives none, one or more folded ones:
///
/// - white space is dropped, and so are its escapes;
/// - a backslash before a quote, a slash or a backslash is dropped, and `\uXXXX` becomes its
///   character;
/// - curly quotes become straight ones, and `…` becomes three dots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fold {
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

impl Fold {
    /// Takes a character; appends its folded characters, and those of an escape before it.
    pub(super) fn push(&mut self, c: char, folded: &mut Vec<char>) {
        match (self.escape, c) {
            (Escape::None, '\\') => self.escape = Escape::Backslash,
            (Escape::None, _) => self.push_plain(c, folded),
            (Escape::Backslash, 'u') => {
                self.escape = Escape::Unicode {
                    value: 0,
                    digits: 0,
                }
            }
            (Escape::Backslash, _) => {
                self.escape = Escape::None;
                match c {
                    'n' | 't' | 'r' => self.push_plain('\n', folded),
                    '/' | '\\' => self.push_plain(c, folded),
                    _ if matches!(straight(c), '"' | '\'') => self.push_plain(c, folded),
                    _ => {
                        self.push_plain('\\', folded);
                        self.push_plain(c, folded);
                    }
                }
            }
            (Escape::Unicode { value, digits }, _) => {
                self.escape = Escape::None;
                match c.to_digit(16) {
                    Some(digit) if digits < 3 => {
                        self.escape = Escape::Unicode {
                            value: value << 4 | digit,
                            digits: digits + 1,
                        };
                    }
                    Some(digit) => self.push_unit(value << 4 | digit, folded),
                    None => {
                        self.push_plain(char::REPLACEMENT_CHARACTER, folded);
                        self.push(c, folded);
                    }
                }
            }
        }
    }

    /// Whether the text ends inside an escape or between the halves of a surrogate pair.
    pub(super) fn is_inside_escape(self) -> bool {
        self != Self::default()
    }

    /// Takes a UTF-16 code unit.
    fn push_unit(&mut self, unit: u32, folded: &mut Vec<char>) {
        match (self.high, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                self.high = None;
                let code = 0x10000 + ((high - 0xd800) << 10 | (unit - 0xdc00));
                self.push_plain(
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
                    folded,
                );
            }
            (_, 0xd800..=0xdbff) => {
                self.end_pair(folded);
                self.high = Some(unit);
            }
            _ => self.push_plain(
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
                folded,
            ),
        }
    }

    /// Takes a character outside escapes.
    fn push_plain(&mut self, c: char, folded: &mut Vec<char>) {
        self.end_pair(folded);
        match c {
            '…' => folded.extend(['.'; 3]),
            _ if c.is_whitespace() => {}
            _ => folded.push(straight(c)),
        }
    }

    /// Ends a surrogate pair whose second half is missing.
    fn end_pair(&mut self, folded: &mut Vec<char>) {
        if self.high.take().is_some() {
            folded.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns the straight quote for a curly one.
fn straight(c: char) -> char {
    match c {
        '“' | '”' | '„' => '"',
        '‘' | '’' => '\'',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(text: &str) -> String {
        let (mut fold, mut folded) = (Fold::default(), Vec::new());
        text.chars().for_each(|c| fold.push(c, &mut folded));
        folded.into_iter().collect()
    }

    #[test]
    fn the_same_text_is_equal_however_it_is_written() {
        for (text, expect) in [
            ("a b\n\tc\u{a0}d", "abcd"),
            (r"a\nb\tc\rd\u0020e\u000af", "abcdef"),
            (r#"\"a\/b\\n\'"#, r#""a/b\n'"#),
            ("“a” „b“ ‘c’ d…", "\"a\"\"b\"'c'd..."),
            (r"\u201ca\u2026\\u00e9\u00e9\u00C9", "\"a...\\u00e9éÉ"),
            (r"\“\’", "\"'"),
            (
                r"\ud83d\ude00 \uD83Dx \ude00 \ud83d\ud83d\ude00",
                "😀\u{fffd}x\u{fffd}\u{fffd}😀",
            ),
            (r"\ud83d\nx\ud83d y", "\u{fffd}x\u{fffd}y"),
            // Broken and unfinished escapes.
            (r"\u12x\u1\u00e9\q\ z", "\u{fffd}x\u{fffd}é\\q\\z"),
            (r"a\", "a"),
            (r"a\u00e", "a"),
            (r"a\ud83d", "a"),
        ] {
            assert_eq!(fold(text), expect, "{text}");
        }
    }
}
