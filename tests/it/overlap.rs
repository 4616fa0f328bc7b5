//! The anchor and the matcher against references that are written from the rule's words and search the plain way.

use std::ops::Range;

use restitch::overlap::{Anchor, Hit, Matcher};

use crate::support::Rng;

const LADDER: [usize; 13] = [40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];

/// Occurrences of `part`, overlapping ones counted.
fn occurrences(text: &str, part: &str) -> usize {
    text.as_bytes().windows(part.len()).filter(|window| *window == part.as_bytes()).count()
}

/// Characters of the longest proper prefix that is also a suffix.
fn border(text: &str) -> usize {
    let lengths = text.char_indices().map(|(at, _)| at).skip(1);
    lengths.filter(|&at| text.ends_with(&text[..at])).map(|at| text[..at].chars().count()).max().unwrap_or(0)
}

/// Places where an anchor may begin: at a character that is no white space, not inside an escape, and not between the
/// halves of a surrogate pair. Escapes are read from the start.
fn legal_starts(text: &str) -> Vec<usize> {
    let mut legal = Vec::new();
    let mut chars = text.char_indices().peekable();
    let mut behind_high = false;
    while let Some((at, c)) = chars.next() {
        let is_unicode = text[at..].starts_with("\\u");
        let digits: Vec<char> = text[at..].chars().skip(2).take(2).map(|digit| digit.to_ascii_lowercase()).collect();
        let high = is_unicode && matches!(digits[..], ['d', '8' | '9' | 'a' | 'b']);
        let second_half = behind_high && is_unicode;
        if !c.is_whitespace() && !second_half {
            legal.push(at);
        }
        behind_high = high;
        if c == '\\' {
            for _ in 0..if is_unicode { 5 } else { 1 } {
                chars.next();
            }
        }
    }
    legal
}

/// Rule 3, word by word.
fn reference(text: &str, cap: usize) -> Option<(Range<usize>, bool)> {
    let end = text.trim_end().len();
    let legal = legal_starts(text);
    let first = text.len() - text.trim_start().len();
    if first >= end {
        return None;
    }
    let whole = &text[first..end];
    let qualifies = |part: &str| occurrences(text, part) == 1 && border(part) < (part.chars().count() / 4).max(8);
    let mut last = end..end;
    for rung in LADDER.into_iter().filter(|&rung| rung <= cap) {
        let count = whole.chars().count();
        let start = if count <= rung { first } else { first + whole.char_indices().nth(count - rung).unwrap().0 };
        let start = legal.iter().copied().rev().find(|&legal| legal <= start).unwrap_or(first);
        last = start..end;
        if qualifies(&text[last.clone()]) {
            return Some((last, false));
        }
        if start == first {
            break;
        }
    }
    Some((last, true))
}

fn check(text: &str, cap: usize) {
    let seen = Anchor::of(text, cap).map(|anchor| (anchor.range, anchor.ambiguous));
    assert_eq!(seen, reference(text, cap), "{text:?} with at most {cap} characters");
}

/// Texts of very different kinds, each the beginning of a JSON document.
fn texts(rng: &mut Rng) -> String {
    let words =
        ["alpha", "beta ", " é", "漢字", "😀", "\\n", "\\\\", "\\\"", "\\u00e9", "\\ud83d\\ude00", "\\/", " ", "x"];
    let rows =
        ["{\"id\": 1}, ", "false, ", "0,", "[0, 0, 0],\n  ", "\"\", ", "null ,", "{\"a\": \"same text here\"},\n"];
    let mut text = String::from(rng.pick(&[" {\"k\": [", "[", "```json\n{\"k\": [", "[[[[[["]));
    for _ in 0..rng.below(4) {
        let row = rng.pick(&rows);
        let most = if rng.below(4) == 0 { 400 } else { 40 };
        text.push_str(&row.repeat(rng.below(most)));
        if rng.below(2) == 0 {
            text.push('"');
            for _ in 0..rng.below(120) {
                text.push_str(rng.pick(&words));
            }
            text.push_str("\", ");
        }
        if rng.below(4) == 0 {
            // A piece of the text again, in whole members.
            let from = text.len() - rng.below(text.len().min(300));
            if let Some(piece) = text.get(from..).filter(|piece| !piece.contains('"') && !piece.contains('\\')) {
                let piece = piece.to_owned();
                text.push_str(&piece);
            }
        }
    }
    if rng.below(3) == 0 {
        text.push('"');
        text.push_str(&rng.pick(&words).repeat(rng.below(40)));
    }
    text.push_str(rng.pick(&["", "", " ", "\n\n  "]));
    text
}

#[test]
fn the_anchor_is_what_the_rule_says() {
    let mut rng = Rng::new(1);
    let (mut ambiguous, mut rungs) = (0, 0);
    for _ in 0..1500 {
        let text = texts(&mut rng);
        let mut cut = text.len() - rng.below(text.len().min(60) + 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        for cap in [2048, 64] {
            check(&text[..cut], cap);
        }
        if let Some(anchor) = Anchor::of(&text[..cut], 2048) {
            ambiguous += usize::from(anchor.ambiguous);
            rungs += usize::from(text[anchor.range].chars().count() > 47);
        }
    }
    // The texts are of all kinds.
    assert!(
        ambiguous > 20 && rungs > 100 && ambiguous + rungs < 1400,
        "{ambiguous} ambiguous, {rungs} beyond the first rung"
    );
}

#[test]
fn anchors_at_every_cut() {
    for text in crate::json::INLINE {
        for cut in (0..=text.len()).filter(|&cut| text.is_char_boundary(cut)) {
            check(&text[..cut], 2048);
        }
    }
}

#[test]
fn long_periods_reach_the_last_rung() {
    // A period of 700 characters that repeats: longer tails go on as they began, shorter ones occur again.
    let row: String = (0..100).map(|n| format!("\"w{:03}\",", n * 7 % 100)).collect();
    for text in [format!("[{}", row.repeat(4)), format!("[{}", "0,".repeat(3000)), format!("[\"{}", "漢".repeat(2500))]
    {
        let anchor = Anchor::of(&text, 2048).unwrap();
        check(&text, 2048);
        assert!(anchor.ambiguous);
        assert_eq!(text[anchor.range].chars().count(), 2048);
    }
    // Unique from its 1,536 characters on.
    let text = format!("[{}, \"once\", {}", row.repeat(2), &row.repeat(2)[..1100]);
    check(&text, 2048);
}

#[test]
fn a_short_text_is_its_own_anchor() {
    for text in ["{", "[1", " {\"a\": \"b", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", "{\"k\": \"\\ud83d\\ud"] {
        let anchor = Anchor::of(text, 2048).unwrap();
        assert_eq!((&text[anchor.range], anchor.ambiguous), (text.trim(), false));
    }
}

/// What the matcher says at every byte of a fragment is what a search finds.
fn check_matcher(delivered: &str, fragment: &str, window: usize) {
    let Some(anchor) = Anchor::of(delivered, 64) else { return };
    let text = &delivered[anchor.range.clone()];
    let end = anchor.range.end;
    let mut matcher = Matcher::new(delivered, &anchor, 0, window);
    for length in 1..=fragment.len() {
        let content = &fragment.as_bytes()[..length];
        let mut hits = Vec::new();
        // Tails that are no evidence are told or not by a rule of their own, which has its own test.
        matcher.feed(delivered, content, |hit| {
            if !matches!(hit, Hit::Overlap { has_anchor: false, is_evidence: false, .. }) {
                hits.push(hit);
            }
        });
        let mut expect = Vec::new();
        if content.ends_with(text.as_bytes()) {
            expect.push(Hit::Anchor { start: length - text.len() });
        }
        let from = end.saturating_sub(window);
        let inside = |start: usize| start >= from || start == 0;
        if length >= 16 && length <= end && delivered.as_bytes()[..end].ends_with(content) && inside(end - length) {
            let start = end - length;
            let places = delivered.as_bytes()[..end].windows(length).enumerate();
            let places = places.filter(|(at, part)| inside(*at) && *part == content).count();
            let evidence = std::str::from_utf8(content).is_ok_and(|repeated| {
                let count = repeated.chars().count();
                places == 1 && count >= 16 && border(repeated) < (count / 4).max(8)
            });
            let has_anchor = start <= anchor.range.start;
            if has_anchor || evidence {
                expect.push(Hit::Overlap { start, has_anchor, is_evidence: evidence });
            }
        } else if length < 16 && delivered.as_bytes()[..end].ends_with(content) && end - length <= anchor.range.start {
            expect.push(Hit::Overlap { start: end - length, has_anchor: true, is_evidence: false });
        }
        assert_eq!(hits, expect, "{delivered:?} and {:?}", String::from_utf8_lossy(content));
    }
}

#[test]
fn the_matcher_finds_what_a_search_finds() {
    let mut rng = Rng::new(5);
    let mut found = 0;
    for _ in 0..400 {
        let text = texts(&mut rng);
        let (mut cut, mut from) = (text.len() - rng.below(text.len() / 2 + 1), rng.below(text.len()));
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        let delivered = &text[..cut];
        let fragment: String = text[from.min(cut)..].chars().take(400).collect();
        let window = [1 << 20, 100, 40][rng.below(3)];
        // Few enough places for the matcher to follow all of them.
        if occurrences(delivered, fragment.get(..16).unwrap_or(&fragment)) <= 256 {
            check_matcher(delivered, &fragment, window);
            check_matcher(delivered, &delivered.chars().take(300).collect::<String>(), window);
            found += 1;
        }
    }
    assert!(found > 300);
}
