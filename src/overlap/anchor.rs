//! Chooses the anchor: the tail of the delivered text that a continuation is asked to repeat.

use std::ops::Range;

use memchr::memmem;

use super::borders::Borders;

/// The number of characters from which on repeated text is evidence.
// Chosen: shorter text is often a key with its quotes, which every row has. The same number is in
// the score (`prior::OVERLAP`) and in the rule for prose; docs/internals/seam.md states it.
pub(crate) const EVIDENCE: usize = 16;

/// The length in characters of the shortest tail that proves a position: shorter ones recur by
/// chance.
// Chosen: more than `EVIDENCE`, since no request asked for this tail. The tables of tests/it/seam are
// measured with it; docs/internals/seam.md states it.
pub(crate) const PROOF: usize = 20;

/// Returns whether this tail proves its position although the request did not ask for it: it has
/// all properties of an anchor except the length. `may_be_short`: the tail is all that was
/// delivered, for example.
pub(crate) fn proves_place(text: &str, tail: &Range<usize>, may_be_short: bool) -> bool {
    let Some(repeated) = text.get(tail.clone()) else {
        return false;
    };
    let occurs_once = || memmem::find(text.as_bytes(), repeated.as_bytes()) == Some(tail.start);
    (may_be_short || repeated.chars().nth(PROOF - 1).is_some())
        && is_unbordered(repeated)
        && occurs_once()
}

/// Returns the shortest tail of `text`, from `root` on, that [proves its position](proves_place).
/// It has at most `cap` characters, or is all of the root.
pub(crate) fn proving_tail(text: &str, root: usize, cap: usize) -> Option<Range<usize>> {
    let end = text.trim_end_matches(WHITE).len();
    let whole = root..end;
    text.get(whole.clone()).filter(|root| !root.is_empty())?;
    let lengths = std::iter::successors(Some(PROOF), |length| Some(length + length / 4))
        .take_while(|&length| length <= cap);
    let starts = lengths.map_while(|length| legal_start(text, whole.clone(), length));
    let mut tails = starts.chain([root]).map(|start| start..end);
    let text = text.get(..end)?;
    tails.find(|tail| proves_place(text, tail, tail.start == root))
}

/// Returns whether `tail`, which is the end of the delivered root, may also be new text of a
/// missing part or of the part after it. The missing part may repeat delivered text at its
/// beginning. Everywhere else it must not have the tail, and it must not end with a long beginning
/// of it. If the tail is all of the root, it is a document's beginning: a part may have it once,
/// whatever its length.
pub(crate) fn may_come_again(root: &str, tail: &str, part: &str) -> bool {
    let find = |from: usize| {
        memmem::find(part.as_bytes().get(from..)?, tail.as_bytes()).map(|at| from + at)
    };
    let is_new =
        |at: usize| !begins_with_repeat(root, part.get(..at + tail.len()).unwrap_or_default());
    let first = find(0);
    if tail.len() == root.len() {
        return first.is_some_and(|at| find(at + 1).is_some());
    }
    let begun = tail.get(..begun_by(tail, part)).unwrap_or_default();
    // A part that only repeats delivered text ends like it.
    let is_begun = is_long(begun, tail) && !begins_with_repeat(root, part.trim_end_matches(WHITE));
    first.is_some_and(|at| is_new(at) || find(at + 1).is_some()) || is_begun
}

/// Returns whether `part` is a tail of the delivered root, with or without an envelope before it.
fn begins_with_repeat(root: &str, part: &str) -> bool {
    let alike = root
        .chars()
        .rev()
        .zip(part.chars().rev())
        .take_while(|(one, other)| one == other);
    let (before, repeat) =
        part.split_at(part.len() - alike.map(|(c, _)| c.len_utf8()).sum::<usize>());
    let envelope = before.trim_end_matches(WHITE);
    let content = part.len() - repeat.trim_start_matches(WHITE).len();
    let white = part.get(envelope.len()..content).unwrap_or_default();
    // Text with a quote or a bracket may be a row of the document.
    envelope.is_empty() || white.contains('\n') && !envelope.contains(['{', '[', '"'])
}

/// Returns the length of the longest proper beginning of `tail` with which `part` ends.
fn begun_by(tail: &str, part: &str) -> usize {
    let mut borders = Borders::default();
    borders.extend(tail.as_bytes());
    let from = part.len() - part.len().min(tail.len().saturating_sub(1));
    let end = part.as_bytes().get(from..).unwrap_or_default();
    end.iter().fold(0, |length, &byte| {
        borders.follow(tail.as_bytes(), length, byte)
    })
}

/// The tail of the delivered text by which a continuation is recognised. It ends at the cut, or
/// before white space at the cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anchor {
    /// The range of the anchor in the delivered text, in bytes.
    pub range: Range<usize>,
    /// Whether every tail up to the cap recurs in the text or repeats itself: a seam that rests on
    /// this anchor alone is ambiguous, too.
    pub ambiguous: bool,
}

/// The lengths to try, in characters; delivered text that is shorter than the first one is its own
/// anchor.
const LADDER: [usize; 13] = [
    40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
];

/// White space of JSON. Other white space may be text of a string.
pub(super) const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

impl Anchor {
    /// Returns the shortest tail of `text`, of these lengths, that occurs exactly once and has no
    /// long border. It has at most `cap` characters, and a few more where its start must move back
    /// to a legal offset. `None` if only white space was delivered.
    ///
    /// ```
    /// let text = r#"{"id": 7, "name": "first"}, {"id": 8, "name": "sec"#;
    /// let anchor = restitch::splice::Anchor::of(text, 2048).unwrap();
    /// assert_eq!(&text[anchor.range], r#""name": "first"}, {"id": 8, "name": "sec"#);
    /// assert!(!anchor.ambiguous);
    /// ```
    pub fn of(text: &str, cap: usize) -> Option<Self> {
        let end = text.trim_end_matches(WHITE).len();
        let whole = end - text[..end].trim_start_matches(WHITE).len()..end;
        if whole.is_empty() {
            return None;
        }
        let mut last = end..end;
        // An occurrence of a longer tail contains one of the shorter tail: the search continues
        // where that was found.
        let mut leftmost = whole.start;
        for characters in LADDER.into_iter().filter(|&length| length <= cap) {
            // If the text is shorter than this length, all of it is the last candidate.
            let start = legal_start(text, whole.clone(), characters).unwrap_or(whole.start);
            let from = leftmost.saturating_sub(last.start - start).max(whole.start);
            let candidate = &text[start..end];
            leftmost = memmem::find(&text.as_bytes()[from..end], candidate.as_bytes())
                .map_or(start, |at| from + at);
            last = start..end;
            if leftmost == start && is_unbordered(candidate) {
                return Some(Self {
                    range: last,
                    ambiguous: false,
                });
            }
            if start == whole.start {
                break;
            }
        }
        Some(Self {
            range: last,
            ambiguous: true,
        })
    }
}

/// Returns where a tail of `characters` characters may begin. A start in white space or inside an
/// escape is moved back. Returns `None` if the text is shorter.
fn legal_start(text: &str, whole: Range<usize>, characters: usize) -> Option<usize> {
    let tail = &text[whole.clone()];
    let mut starts = tail.char_indices().rev().skip(characters - 1);
    starts
        .find(|&(at, c)| !WHITE.contains(&c) && !is_inside_escape(tail.as_bytes(), at))
        .map(|(at, _)| whole.start + at)
}

/// Whether `at` is inside an escape, or between the halves of a surrogate pair.
pub(crate) fn is_inside_escape(text: &[u8], at: usize) -> bool {
    let escape_opens = |at: usize| {
        // A backslash opens an escape if an even number of backslashes precedes it.
        text.get(at) == Some(&b'\\')
            && text[..at].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 0
    };
    let opens_unicode = |at: usize| escape_opens(at) && text.get(at + 1) == Some(&b'u');
    let is_high = |at: usize| {
        matches!(text.get(at + 2), Some(b'd' | b'D'))
            && matches!(
                text.get(at + 3),
                Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B')
            )
    };
    (at >= 1 && escape_opens(at - 1))
        || (2..=5).any(|back| at >= back && opens_unicode(at - back))
        || (at >= 6 && opens_unicode(at - 6) && is_high(at - 6) && opens_unicode(at))
}

/// Whether no proper prefix that is also a suffix has a quarter of the characters, or eight where
/// that is more. A tail that repeats itself would also match later text, although it is unique in
/// the text before it.
pub(crate) fn is_unbordered(text: &str) -> bool {
    !is_long(
        text.get(..longest_border(text.as_bytes()))
            .unwrap_or_default(),
        text,
    )
}

/// Whether this piece of a tail has a quarter of its characters, or eight where that is more.
fn is_long(piece: &str, tail: &str) -> bool {
    piece.chars().count() >= (tail.chars().count() / 4).max(8)
}

pub(crate) fn longest_border(text: &[u8]) -> usize {
    let mut borders = Borders::default();
    borders.extend(text);
    borders.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_that_is_long_unique_and_unbordered_proves_its_place() {
        let proves = |text: &str, from: usize| proves_place(text, &(from..text.len()), from == 0);
        let text = "[8, 6, 9, 7, 4, 3, 0, 5, 7";
        assert!(proves(text, 4) && proves(text, text.len() - 20));
        assert!(!proves(text, text.len() - 19));
        assert!(proves("[1, 2", 0));
        // It occurs twice, or has a border.
        assert!(!proves(
            "[{\"name\": \"harbour\"}, {\"name\": \"harbour\"",
            23
        ));
        assert!(!proves("[0, false, false, false, false", 4));
    }

    #[test]
    fn a_missing_part_may_have_a_tail_as_new_text() {
        let row = |n: usize| format!("{{\"kind\": \"lamp\", \"value\": {n}}}, ");
        let root = format!("[{}{}{{\"kind\": \"la", row(1), row(2));
        let tail = &root[root.len() - 30..];
        let comes = |part: &str| may_come_again(&root, tail, part);
        // A repeat at the beginning, also after an envelope.
        assert!(!comes("mp\", \"value\": 0}]"));
        assert!(!comes(&format!("{root}mp\", \"value\": 0}}]")));
        assert!(!comes(&format!(
            "Sure:\n```json\n{root}mp\", \"value\": 0}}]"
        )));
        assert!(!comes(&format!("{tail}mp\", \"value\": 0}}]")));
        // The rows of the part end like the delivered ones, or the repeat recurs.
        assert!(comes(&format!(
            "mp\", \"value\": 7}}, {}{}{{\"kind\": \"lamp",
            row(0),
            row(2)
        )));
        assert!(comes(&format!(
            "{root}mp\", \"value\": 7}}, {}{{\"kind\": \"lamp",
            row(2)
        )));
        assert!(comes(&format!(
            "mp\",\n\"value\": 7}},\n{}{{\"kind\": \"lamp",
            row(2)
        )));
        // All of the root.
        assert!(
            !may_come_again("{", "{", "I can't go {on}") && may_come_again("{", "{", "{\"a\": {")
        );
        // The tail begins where the part ends.
        let begun = |length: usize| comes(&format!("mp\", \"value\": 7}}, x{}", &tail[..length]));
        assert!(begun(8) && begun(29) && !begun(7));
    }

    #[test]
    fn the_shortest_tail_that_proves_its_place_is_found() {
        let tail = |text: &str| proving_tail(text, 0, 2048).map(|tail| text[tail].to_owned());
        assert_eq!(
            tail("{\"text\": \"the tide turns at noon and the har "),
            Some("s at noon and the har".to_owned())
        );
        assert_eq!(tail("[\"a"), Some("[\"a".to_owned()));
        let twice = "[\"the harbour master waits\", 1, \"the harbour master waits";
        assert_eq!(
            tail(twice),
            Some("\", 1, \"the harbour master waits".to_owned())
        );
        assert_eq!(tail(" "), None);
    }
}
