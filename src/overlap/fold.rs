//! Folds text, so that the ways in which models write the same text are equal.

use crate::json::escape::{EscapeReader, Letter};

/// The state of a fold. A pushed character gives none, one or more folded ones:
///
/// - white space is dropped, and so are its escapes;
/// - an escape becomes its character, and a backslash before any kind of quote is dropped;
/// - curly quotes become straight ones, and `…` becomes three dots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fold(EscapeReader);

impl Fold {
    /// Takes a character; appends what it and an escape before it become.
    pub(super) fn push(&mut self, c: char, folded: &mut Vec<char>) {
        self.0.push(c, &mut |letter| match letter {
            Letter::Plain(c) | Letter::Escaped(c) => put(c, folded),
            Letter::Broken => put(char::REPLACEMENT_CHARACTER, folded),
            Letter::Unknown(c) => {
                if !matches!(straight(c), '"' | '\'') {
                    folded.push('\\');
                }
                put(c, folded);
            }
        });
    }

    /// Whether the text ends inside an escape or between the halves of a surrogate pair.
    pub(super) fn is_inside_escape(self) -> bool {
        self.0.is_inside()
    }
}

fn put(c: char, folded: &mut Vec<char>) {
    match c {
        '…' => folded.extend(['.'; 3]),
        _ if c.is_whitespace() => {}
        _ => folded.push(straight(c)),
    }
}

/// Returns the straight form of a curly quote.
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
            (r"\ud83d\ude00 \uD83Dx \ude00 \ud83d\ud83d\ude00", "😀\u{fffd}x\u{fffd}\u{fffd}😀"),
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
