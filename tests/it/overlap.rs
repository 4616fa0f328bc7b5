//! The anchor and the matcher against references that are written from the rule and search in the simplest way.

use std::ops::Range;

use proptest::prelude::*;
use restitch::internal::overlap::{Anchor, Automaton, Cursor, Hit, Matcher, Occurrences};

use crate::support::{Rng, at_least, corpus_documents};

const LADDER: [usize; 13] = [40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];

/// Counts the occurrences of `part`, overlapping ones included.
fn occurrences(text: &str, part: &str) -> usize {
    text.as_bytes().windows(part.len()).filter(|window| *window == part.as_bytes()).count()
}

/// Returns the characters of the longest proper prefix that is also a suffix.
fn border(text: &str) -> usize {
    let lengths = text.char_indices().map(|(at, _)| at).skip(1);
    lengths.filter(|&at| text.ends_with(&text[..at])).map(|at| text[..at].chars().count()).max().unwrap_or(0)
}

/// Returns the places where an anchor may begin: at a character that is not white space, not inside an escape, and not
/// between the halves of a surrogate pair. Escapes are read from the start.
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

/// The rule for anchors: the shortest tail of the given lengths that occurs once and has no long border.
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
            // A part of the text again, in whole members.
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
    // A period of 700 characters: longer tails repeat themselves, shorter ones occur again.
    let row: String = (0..100).map(|n| format!("\"w{:03}\",", n * 7 % 100)).collect();
    for text in [format!("[{}", row.repeat(4)), format!("[{}", "0,".repeat(3000)), format!("[\"{}", "漢".repeat(2500))]
    {
        let anchor = Anchor::of(&text, 2048).unwrap();
        check(&text, 2048);
        assert!(anchor.ambiguous);
        assert_eq!(text[anchor.range].chars().count(), 2048);
    }
    // Unique from 1,536 characters on.
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

/// What the matcher reports at every byte of a fragment is what a search finds.
fn check_matcher(delivered: &str, fragment: &str, window: usize) {
    let Some(anchor) = Anchor::of(delivered, 64) else { return };
    let text = &delivered[anchor.range.clone()];
    let end = anchor.range.end;
    let mut matcher = Matcher::new(delivered, &anchor, 0, window);
    for length in 1..=fragment.len() {
        let content = &fragment.as_bytes()[..length];
        // Tails that are not evidence are reported by a rule of their own, which has its own test.
        let is_evidence = |hit: &Hit| !matches!(hit, Hit::Overlap { has_anchor: false, is_evidence: false, .. });
        let hits: Vec<Hit> = matcher.feed(delivered, content).into_iter().filter(is_evidence).collect();
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
                expect.push(Hit::Overlap { start, has_anchor, is_evidence: evidence, is_likely: true });
            }
        } else if length < 16 && delivered.as_bytes()[..end].ends_with(content) && end - length <= anchor.range.start {
            expect.push(Hit::Overlap { start: end - length, has_anchor: true, is_evidence: false, is_likely: true });
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

#[test]
fn text_in_many_places_is_told_like_any_other() {
    let row = "{\"n\": 0}, ";
    for delivered in [
        format!("[{}", "0,".repeat(700)),
        format!("[\"{}", "a".repeat(600)),
        format!("[1, {}", row.repeat(300)),
        format!("[1, {}2, {}", row.repeat(280), row.repeat(10)),
    ] {
        let repeated: String = delivered.chars().skip(9).take(300).collect();
        for fragment in [&delivered, &repeated, &delivered[delivered.len() - 200..], "0,0,0,0,0,0,0,0,0,0,1,0,0"] {
            for tail in [1 << 20, 1000, 64] {
                check_matcher(&delivered, fragment, tail);
            }
        }
    }
}

/// Checks at every byte whether all of a fragment may still repeat delivered text, and whether it does so in one place
/// only, against a search everywhere.
fn check_repeats(delivered: &str, fragment: &str, tail: usize) {
    let anchor = Anchor::of(delivered, 64).unwrap();
    let end = anchor.range.end;
    let mut matcher = Matcher::new(delivered, &anchor, 0, tail);
    for length in 1..=fragment.len() {
        let content = &fragment.as_bytes()[..length];
        matcher.feed(delivered, content);
        let starts = ends(&delivered.as_bytes()[..end], content).into_iter().map(|end| end - length);
        let starts: Vec<usize> = starts.filter(|&start| start == 0 || start + tail >= end).collect();
        let (may_repeat, is_repeat) = if length < 16 {
            (!starts.is_empty() || delivered[anchor.range.clone()].as_bytes().starts_with(content), false)
        } else {
            // The delivered text ends there: what comes is new.
            let going_on = starts.iter().filter(|&start| start + length < end).count();
            (going_on > 0, going_on == 1)
        };
        let seen = (matcher.may_repeat(delivered, content), matcher.is_repeat());
        let text = delivered[anchor.range.clone()].as_bytes();
        assert_eq!(matcher.may_be_anchor(content), length < text.len() && text.starts_with(content), "{content:?}");
        assert_eq!(seen, (may_repeat, is_repeat), "{delivered:?} and {:?}", String::from_utf8_lossy(content));
    }
}

#[test]
fn what_may_be_a_repeat_is_known() {
    let mut rng = Rng::new(6);
    for _ in 0..300 {
        let text = texts(&mut rng);
        let (mut cut, mut from) = (1 + rng.below(text.len()), rng.below(text.len()));
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        let fragment: String = text[from.min(cut)..].chars().take(200).collect();
        if Anchor::of(&text[..cut], 64).is_some() && !fragment.is_empty() {
            let tail = [1 << 20, 100, 40][rng.below(3)];
            check_repeats(&text[..cut], &fragment, tail);
            check_repeats(&text[..cut], &text.chars().take(200).collect::<String>(), tail);
        }
    }
}

/// Returns where a substring of `text` ends, by looking everywhere.
fn ends(text: &[u8], piece: &[u8]) -> Vec<usize> {
    (piece.len()..=text.len()).filter(|&end| &text[end - piece.len()..end] == piece).collect()
}

fn found(ends: &[usize]) -> Occurrences {
    Occurrences { count: ends.len().min(3), first_end: ends[0], last_end: ends[ends.len() - 1] }
}

/// Compares the automaton with its slow twin: from some places of a fragment on, whether each beginning is a substring
/// of the tail, where it occurs, and whether the tail ends with it.
fn check_automaton(tail: &[u8], fragment: &[u8]) {
    let automaton = Automaton::new(tail);
    for start in (0..=fragment.len()).step_by(1 + fragment.len() / 16) {
        let mut cursor = Cursor::default();
        for end in start..=fragment.len() {
            let piece = &fragment[start..end];
            let case = || format!("{:?} in {:?}", String::from_utf8_lossy(piece), String::from_utf8_lossy(tail));
            let places = ends(tail, piece);
            let before = cursor;
            let is_piece = piece.last().is_none_or(|&byte| automaton.extend(&mut cursor, byte));
            assert_eq!(is_piece, !places.is_empty(), "{}", case());
            if !is_piece {
                assert_eq!(cursor, before, "{}", case());
                break;
            }
            assert_eq!(cursor.length(), piece.len(), "{}", case());
            assert_eq!(automaton.occurrences(cursor), found(&places), "{}", case());
            assert_eq!(automaton.is_end(cursor), tail.ends_with(piece), "{}", case());
        }
    }
}

#[test]
fn the_automaton_of_tails_that_are_hardly_there() {
    for tail in ["", "a", "é", "ab", "aa"] {
        for fragment in ["", "a", "b", "aaaa", "abab", "ééa", "bbaab"] {
            check_automaton(tail.as_bytes(), fragment.as_bytes());
        }
    }
}

#[test]
fn the_automaton_of_tails_that_repeat_themselves() {
    let texts = ["a".repeat(60), "0,".repeat(30), "abcab".repeat(12), "[0, 0], ".repeat(8), "é漢".repeat(12)];
    for tail in &texts {
        for other in &texts {
            let mixed = format!("{}{other}{}", &tail[..20], &tail[20..]);
            for fragment in [tail.as_str(), other, &mixed, &tail.repeat(2), &format!("{tail}x{tail}")] {
                check_automaton(tail.as_bytes(), fragment.as_bytes());
            }
        }
    }
}

#[test]
fn the_automaton_of_text_beyond_ascii() {
    let mut rng = Rng::new(11);
    let words = ["é", "è", "漢字", "漢", "字", "😀", "😁", "один ", "два ", "\\u00e9", " ", "\""];
    for _ in 0..200 {
        let mut text = |most| (0..rng.below(most)).map(|_| rng.pick(&words)).collect::<String>();
        let (tail, fragment) = (text(30), text(60));
        check_automaton(tail.as_bytes(), fragment.as_bytes());
        // A tail may begin inside a character.
        check_automaton(tail.as_bytes().get(1..).unwrap_or_default(), fragment.as_bytes());
    }
}

#[test]
fn the_automaton_of_recorded_documents() {
    let mut rng = Rng::new(12);
    let mut documents = 0;
    for (_, text) in corpus_documents("docs") {
        let text = text.as_bytes();
        if text.len() < 600 {
            continue;
        }
        documents += 1;
        let cut = 300 + rng.below(text.len() - 599);
        let from = cut - 1 - rng.below(250);
        let tail = &text[cut - 250..cut];
        // What a continuation writes: a part of the tail again and more, or something from elsewhere.
        check_automaton(tail, &text[from..cut + 100]);
        check_automaton(tail, &text[..300]);
    }
    assert!(documents >= at_least(15, 50));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_automaton_finds_what_its_slow_twin_finds(
        (tail, fragment) in (1..6u8).prop_flat_map(|letters| {
            let word = |most| prop::collection::vec(0..letters, 0..most);
            // One letter more: a byte that the tail does not know.
            (word(50), prop::collection::vec(0..=letters, 0..100))
        }),
        piece in any::<prop::sample::Index>(),
    ) {
        check_automaton(&tail, &fragment);
        let from = piece.index(tail.len() + 1);
        check_automaton(&tail, &[&tail[from..], &fragment[..], &tail[..from]].concat());
    }

    #[test]
    fn the_automaton_of_any_bytes(tail: Vec<u8>, fragment in prop::collection::vec(any::<u8>(), 0..150)) {
        check_automaton(&tail, &fragment);
        check_automaton(&tail, &tail);
    }
}

/// Fibonacci words: full of repeats, and none of them periodic.
fn fibonacci(bytes: usize) -> Vec<u8> {
    let (mut before, mut word) = (b"a".to_vec(), b"ab".to_vec());
    while word.len() < bytes {
        (before, word) = (word.clone(), [word, before].concat());
    }
    word.truncate(bytes);
    word
}

/// Worst cases of an automaton: substrings that occur everywhere, links as long as the tail.
fn hard_tails(bytes: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(3);
    let rows = (0..).map(|n| format!("{{\"id\": {n}, \"name\": \"row\"}}, ")).take(bytes / 24).collect::<String>();
    let mut tails = vec![b"a".repeat(bytes), b"0,".repeat(bytes / 2), fibonacci(bytes), rows.into_bytes()];
    tails.extend([2, 6, 256].map(|letters| (0..bytes).map(|_| rng.below(letters) as u8).collect()));
    tails
}

#[test]
fn an_automaton_takes_a_bounded_number_of_bytes_for_a_byte() {
    for tail in hard_tails(16 << 10) {
        let size = Automaton::new(&tail).size();
        assert!(size <= 100 * tail.len(), "{size} bytes of memory for {} bytes", tail.len());
    }
}
