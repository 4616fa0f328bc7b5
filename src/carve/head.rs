//! The head: the end of the delivered text that the model must write again.

use crate::overlap::is_inside_escape;

/// The fewest characters of a head, unless the text is shorter.
// Chosen: longer than most tokens, so that the head has the token that the cut has split.
const LEAST: usize = 12;

/// The most characters of a head.
// Chosen: the model writes them again and each is paid for, but a start between two words is
// nearly always this near.
const MOST: usize = 40;

/// The number of bytes before a start that are searched for the backslash of an escape.
// Bounds the work. A longer run of backslashes can make a head begin inside an escape, which only
// costs the boundary of a token: the head is compared as text.
const BEFORE: usize = 64;

/// Returns where the head of `text` begins. `token` is the offset of the cut token, or the length
/// of the text.
///
/// It is a character boundary outside an escape, and not after the start of a cut token that is
/// near. Tokenizers split text before white space, and between words and punctuation, so such
/// starts are preferred. Of equal starts the last one wins.
pub(super) fn start(text: &str, token: usize) -> usize {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let starts = starts.take(MOST).skip(LEAST - 1);
    let Some(last) = starts.clone().next() else {
        return 0;
    };
    starts
        .filter(|&at| !is_in_escape(text, at))
        .max_by_key(|&at| (at <= token, boundary(text, at), at))
        .unwrap_or(last)
}

fn is_in_escape(text: &str, at: usize) -> bool {
    let from = at.saturating_sub(BEFORE);
    let near = text.as_bytes().get(from..).unwrap_or_default();
    is_inside_escape(near, at - from)
}

/// The boundaries of tokens at the start of a head, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Boundary {
    /// Inside a word, between two marks, or at the start of the text, where the prefill would be
    /// empty.
    None,
    /// Between a word and a mark.
    Word,
    /// Before white space.
    White,
}

fn boundary(text: &str, at: usize) -> Boundary {
    let (before, after) = text.split_at(at);
    let (Some(last), Some(next)) = (before.chars().next_back(), after.chars().next()) else {
        return Boundary::None;
    };
    if next.is_whitespace() && !last.is_whitespace() {
        Boundary::White
    } else if last.is_whitespace() || last.is_alphanumeric() == next.is_alphanumeric() {
        Boundary::None
    } else {
        Boundary::Word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, token: usize) -> &str {
        &text[start(text, token)..]
    }

    #[test]
    fn a_head_begins_before_the_cut_token_and_white_space() {
        let text = r#"{"name": "Anna", "surname": "Berg", "ag"#;
        assert_eq!(head(text, text.len() - 3), r#" "Berg", "ag"#);
        let text = r#"{"numbers":[100,200,300,4"#;
        assert_eq!(head(text, text.len() - 1), "100,200,300,4");
        // Without white space the start is between a word and a mark.
        let text = r#"{"aaaaaaaaaaaaaaaaaaaa":[1,"bbbbbbbbbbbbbbbbbbbbbbbbbbb"#;
        assert_eq!(
            head(text, text.len() - 28),
            r#","bbbbbbbbbbbbbbbbbbbbbbbbbbb"#
        );
    }

    #[test]
    fn a_head_has_between_12_and_40_characters() {
        for text in ["", "{", r#"{"a": 1, "b"#] {
            assert_eq!(head(text, text.len()), text);
        }
        for unit in ["x", "é", "漢", "😀", "a b", "\\n", "\\\\"] {
            let text = format!("[\"{}", unit.repeat(100));
            for (end, _) in text.char_indices().skip(12) {
                // Pretends that each position is the cut: the text before it stays the same.
                let head = head(&text[..end], 1);
                let characters = head.chars().count();
                assert!((12..=40).contains(&characters), "{head}");
            }
        }
    }

    #[test]
    fn a_head_does_not_begin_inside_an_escape() {
        for unit in ["\\n", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\\\\\\""] {
            let text = format!("[\"{}", unit.repeat(8));
            for end in 16..text.len() {
                let at = start(&text[..end], 1);
                assert!(
                    at < 2 || (at - 2).is_multiple_of(unit.len()) || unit == "\\\\\\\"",
                    "{unit}: {}",
                    &text[at..end]
                );
                assert!(!is_inside_escape(text.as_bytes(), at));
            }
        }
        // A run of backslashes that is longer than the search: bounded work, and still a head.
        let text = format!("[\"{}", "\\".repeat(10_000));
        assert!((12..=40).contains(&head(&text, 1).len()));
    }
}
