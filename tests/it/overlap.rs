//! The anchor and the matchers against references that are written from the rule and search in the
//! simplest way.

use std::ops::Range;

use proptest::prelude::*;
use restitch::internal::overlap::{Anchor, EditCount, Hits, Matcher, NearAnchor};

use restitch_testing::Rng;

const LADDER: [usize; 13] = [
    40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
];

/// Counts the occurrences of `part`, overlapping ones included.
fn occurrences(text: &str, part: &str) -> usize {
    text.as_bytes()
        .windows(part.len())
        .filter(|window| *window == part.as_bytes())
        .count()
}

/// Returns the characters of the longest proper prefix that is also a suffix.
fn border(text: &str) -> usize {
    let lengths = text.char_indices().map(|(at, _)| at).skip(1);
    lengths
        .filter(|&at| text.ends_with(&text[..at]))
        .map(|at| text[..at].chars().count())
        .max()
        .unwrap_or(0)
}

/// Returns the places where an anchor may begin: at a character that is not white space, not inside
/// an escape, and not between the halves of a surrogate pair. Escapes are read from the start.
fn legal_starts(text: &str) -> Vec<usize> {
    let mut legal = Vec::new();
    let mut chars = text.char_indices().peekable();
    let mut behind_high = false;
    while let Some((at, c)) = chars.next() {
        let is_unicode = text[at..].starts_with("\\u");
        let digits: Vec<char> = text[at..]
            .chars()
            .skip(2)
            .take(2)
            .map(|digit| digit.to_ascii_lowercase())
            .collect();
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

/// The rule for anchors: the shortest tail of the given lengths that occurs once and has no long
/// border.
fn reference(text: &str, cap: usize) -> Option<(Range<usize>, bool)> {
    let end = text.trim_end().len();
    let legal = legal_starts(text);
    let first = text.len() - text.trim_start().len();
    if first >= end {
        return None;
    }
    let whole = &text[first..end];
    let qualifies = |part: &str| {
        occurrences(text, part) == 1 && border(part) < (part.chars().count() / 4).max(8)
    };
    let mut last = end..end;
    for rung in LADDER.into_iter().filter(|&rung| rung <= cap) {
        let count = whole.chars().count();
        let start = if count <= rung {
            first
        } else {
            first + whole.char_indices().nth(count - rung).unwrap().0
        };
        let start = legal
            .iter()
            .copied()
            .rev()
            .find(|&legal| legal <= start)
            .unwrap_or(first);
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
    assert_eq!(
        seen,
        reference(text, cap),
        "{text:?} with at most {cap} characters"
    );
}

/// Texts of very different kinds, each the beginning of a JSON document.
fn texts(rng: &mut Rng) -> String {
    let words = [
        "alpha",
        "beta ",
        " é",
        "漢字",
        "😀",
        "\\n",
        "\\\\",
        "\\\"",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\/",
        " ",
        "x",
    ];
    let rows = [
        "{\"id\": 1}, ",
        "false, ",
        "0,",
        "[0, 0, 0],\n  ",
        "\"\", ",
        "null ,",
        "{\"a\": \"same text here\"},\n",
    ];
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
            if let Some(piece) = text
                .get(from..)
                .filter(|piece| !piece.contains('"') && !piece.contains('\\'))
            {
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
    let row: String = (0..100)
        .map(|n| format!("\"w{:03}\",", n * 7 % 100))
        .collect();
    for text in [
        format!("[{}", row.repeat(4)),
        format!("[{}", "0,".repeat(3000)),
        format!("[\"{}", "漢".repeat(2500)),
    ] {
        let anchor = Anchor::of(&text, 2048).unwrap();
        check(&text, 2048);
        assert!(anchor.ambiguous);
        assert_eq!(text[anchor.range].chars().count(), 2048);
    }
    // Unique from 1,536 characters on.
    let text = format!("[{}, \"once\", {}", row.repeat(2), &row.repeat(2)[..1100]);
    check(&text, 2048);
}

/// Returns the end of the delivered text: before its JSON white space.
fn end_of(delivered: &str) -> usize {
    delivered.trim_end_matches([' ', '\t', '\r', '\n']).len()
}

/// Checks what the matcher says at every byte of a fragment, whose content begins at `begin`,
/// against a search everywhere. The delivered text is of bytes, since a window may begin anywhere.
fn check_matcher(
    delivered: &str,
    root: usize,
    fragment: &str,
    begin: usize,
    window: usize,
) -> usize {
    let end = end_of(delivered);
    let anchor = Anchor::of(delivered, 64).map_or(end..end, |anchor| anchor.range);
    let text = &delivered.as_bytes()[..end];
    let asked = delivered
        .get(anchor.start.max(root)..anchor.end)
        .unwrap_or_default()
        .as_bytes();
    let mut matcher = Matcher::new(delivered, anchor.clone(), root, window);
    let may_begin = |at: &usize| *at == root || *at > root && at + window >= end;
    let mut overlaps = 0;
    for length in 1..=fragment.len() {
        if length == begin + 1 {
            matcher.begin(begin);
        }
        let all = &fragment.as_bytes()[..length];
        let hits = matcher.feed(delivered, all);
        let content = if length > begin { &all[begin..] } else { all };
        let case = || {
            format!(
                "{delivered:?} from {root}, window {window}, {:?}",
                String::from_utf8_lossy(content)
            )
        };
        let start = end
            .checked_sub(content.len())
            .filter(|at| may_begin(at) && text.ends_with(content));
        let found = !asked.is_empty() && all.ends_with(asked);
        let expect = Hits {
            anchor: found.then(|| length - asked.len()),
            overlap: start,
        };
        assert_eq!(hits, expect, "{}", case());
        let is_place = |at: &usize| {
            may_begin(at) && at + content.len() < end && text[*at..].starts_with(content)
        };
        let place = (0..end).find(is_place);
        assert_eq!(
            (matcher.occurrence(), matcher.may_repeat()),
            (place, place.is_some()),
            "{}",
            case()
        );
        let is_begun = content.len() < asked.len() && asked.starts_with(content);
        assert_eq!(matcher.may_be_anchor(all), is_begun, "{}", case());
        overlaps += usize::from(start.is_some());
    }
    overlaps
}

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[test]
fn the_matcher_finds_what_a_search_finds() {
    let mut rng = Rng::new(5);
    let mut overlaps = 0;
    for _ in 0..400 {
        let text = texts(&mut rng);
        let cut = boundary(&text, text.len() - rng.below(text.len() / 2 + 1));
        let from = boundary(&text, rng.below(text.len()));
        let delivered = &text[..cut];
        let begin = rng.below(2) * 8;
        let before = if begin > 0 { "```json\n" } else { "" };
        let window = [1 << 20, 100, 40][rng.below(3)];
        let root = delivered.find(['{', '[']).unwrap_or(0);
        for (from, most) in [
            (from.min(cut), 400),
            (0, 300),
            (boundary(&text, cut.saturating_sub(200)), 300),
        ] {
            let again: String = text[from..].chars().take(most).collect();
            overlaps += check_matcher(delivered, root, &format!("{before}{again}"), begin, window);
        }
    }
    assert!(overlaps > 300, "{overlaps}");
}

#[test]
fn the_matcher_at_the_ends_of_the_text() {
    let fragment = "[1, 2, \"x\"]";
    for delivered in ["", " \n", "[", "[ ", "[1, 2", "[1, 2\u{a0} \n", "  [1"] {
        for root in [0, 1, delivered.len()]
            .into_iter()
            .filter(|&root| delivered.is_char_boundary(root))
        {
            for window in [0, 1, 3, 100] {
                check_matcher(delivered, root.min(end_of(delivered)), fragment, 0, window);
                check_matcher(delivered, root.min(end_of(delivered)), delivered, 0, window);
                // The content begins where the fragment ends, or after that.
                check_matcher(delivered, root.min(end_of(delivered)), "abc", 3, window);
            }
        }
    }
}

#[test]
fn text_in_many_places_is_told_like_any_other() {
    let row = "{\"n\": 0}, ";
    for delivered in [
        format!("[{}", "0,".repeat(300)),
        format!("[\"{}", "a".repeat(300)),
        format!("[1, {}", row.repeat(60)),
        format!("[1, {}2, {}", row.repeat(50), row.repeat(10)),
        fibonacci(600),
    ] {
        let repeated: String = delivered.chars().skip(9).take(300).collect();
        let tail = &delivered[delivered.len() - 200..];
        for fragment in [
            &delivered,
            &repeated,
            tail,
            &format!("{repeated}0x"),
            "0,0,0,0,0,0,0,0,1,0,0",
        ] {
            for window in [1 << 20, 400, 64] {
                check_matcher(&delivered, 0, fragment, 0, window);
            }
        }
    }
}

/// Returns a Fibonacci word: full of repeats, and not periodic.
fn fibonacci(bytes: usize) -> String {
    let (mut before, mut word) = ("a".to_owned(), "ab".to_owned());
    while word.len() < bytes {
        (before, word) = (word.clone(), word + &before);
    }
    word.truncate(bytes);
    word
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_matcher_over_two_letters(
        (delivered, fragment) in ("[ab]{0,60}", "[ab]{0,60}"),
        (root, window, from, begin) in (0..8usize, 0..70usize, 0..60usize, 0..4usize),
    ) {
        let root = root.min(delivered.len());
        check_matcher(&delivered, root, &fragment, begin, window);
        let again = delivered.get(from..).unwrap_or_default();
        check_matcher(&delivered, root, again, 0, window);
        check_matcher(&delivered, root, &format!("{fragment}{again}{fragment}"), fragment.len(), window);
        check_matcher(&delivered, root, &format!("{}{fragment}", &delivered[root..]), 0, window);
    }

    #[test]
    fn the_matcher_over_periods(
        (unit, count, odd) in ("[ab]{1,5}", 1..12usize, "[abc]{0,3}"),
        (skip, window) in (0..6usize, 0..70usize),
    ) {
        let run = unit.repeat(count);
        let delivered = format!("{run}{odd}{run}");
        for fragment in [&run, &format!("{}c", run.get(skip..).unwrap_or_default()), &run.repeat(2), &delivered] {
            check_matcher(&delivered, 0, fragment, 0, window);
        }
    }
}

/// Folds text in one go, by replacing one thing after the other.
fn folded(text: &str) -> Vec<char> {
    let mut plain = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let unit_at = |at: usize| -> Option<u32> {
        let digits: String = chars.get(at..at + 6)?.iter().collect();
        let digits = digits
            .strip_prefix("\\u")
            .filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1);
        match (c, next) {
            ('\\', Some('u')) => {
                let (high, low) = (unit_at(at), unit_at(at + 6));
                let units: Vec<u16> = [high, low]
                    .into_iter()
                    .flatten()
                    .map(|unit| unit as u16)
                    .collect();
                let first = char::decode_utf16(units.iter().copied()).next();
                let Some(high) = high else {
                    // Broken; not written by these tests unless it is the end.
                    break;
                };
                let pair = first
                    .as_ref()
                    .is_some_and(|c| c.as_ref().is_ok_and(|c| c.len_utf16() == 2));
                plain.push(
                    char::from_u32(high)
                        .or(first.and_then(Result::ok).filter(|_| pair))
                        .unwrap_or('\u{fffd}'),
                );
                at += if pair { 12 } else { 6 };
                continue;
            }
            ('\\', Some('n' | 't' | 'r')) => at += 1,
            ('\\', Some(&escaped)) if "\"'/\\“”„‘’".contains(escaped) => {
                plain.push(escaped);
                at += 1;
            }
            ('\\', None) => {}
            _ => plain.push(c),
        }
        at += 1;
    }
    let straight = |c: char| match c {
        '“' | '”' | '„' => "\"".to_owned(),
        '‘' | '’' => "'".to_owned(),
        '…' => "...".to_owned(),
        _ if c.is_whitespace() => String::new(),
        _ => c.to_string(),
    };
    plain
        .into_iter()
        .flat_map(|c| straight(c).chars().collect::<Vec<_>>())
        .collect()
}

/// Returns the edit distance by the complete matrix.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let both = x.is_ascii_digit() && y.is_ascii_digit();
            let replaced = if x == y {
                0
            } else if both {
                2
            } else {
                1
            };
            row.push(
                (rows[i][j] + replaced)
                    .min(rows[i][j + 1] + 1)
                    .min(row[j] + 1),
            );
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The rule for a near anchor, for all of a content.
fn near_reference(anchor: &[char], content: &[char]) -> Option<usize> {
    let kind = |c: char| match c {
        '.' => 1,
        '"' | '\'' | '`' => 2,
        _ => 0,
    };
    let first = kind(*anchor.first()?);
    let lead = content
        .iter()
        .take_while(|&&c| kind(c) != 0 && kind(c) != first)
        .count();
    let content = &content[lead..];
    let most = if anchor.len() < 12 {
        0
    } else {
        (anchor.len() / 10).max(2)
    };
    let edits = distance(anchor, content) + usize::from(lead > 0);
    let last = &anchor[anchor.len().saturating_sub(4)..];
    (edits <= most && content.ends_with(last)).then_some(edits)
}

/// Whether the text ends inside an escape or between the halves of a surrogate pair.
fn is_open(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let length = if escape.starts_with("\\u") {
            6
        } else {
            escape.chars().take(2).map(char::len_utf8).sum()
        };
        let Some(behind) = escape.get(length..).filter(|_| length > 1) else {
            return true;
        };
        let is_high = length == 6
            && "89abAB".contains(&escape[3..4])
            && escape[2..3].eq_ignore_ascii_case("d");
        if is_high && behind.is_empty() {
            return true;
        }
        rest = behind;
    }
    false
}

/// Checks every character of a content that is not inside an escape. Returns the fewest edits.
fn check_near(anchor: &str, content: &str) -> Option<usize> {
    assert!(!is_open(anchor));
    let (mut near, folded_anchor) = (NearAnchor::new(anchor), folded(anchor));
    // What was read before the content counts for nothing.
    assert_eq!("x\\u00".chars().find_map(|c| near.feed(c)), None);
    near.begin();
    let mut seen: Vec<(Option<usize>, bool)> = Vec::new();
    let (mut before, mut fewest) = (Vec::new(), None);
    for (at, c) in content.char_indices() {
        let edits = near.feed(c).map(|edits| edits.count as usize);
        seen.push((edits, near.is_alive()));
        let all = folded(&content[..at + c.len_utf8()]);
        if is_open(&content[..at + c.len_utf8()]) {
            assert_eq!(edits, None);
            continue;
        }
        if all.len() > before.len() {
            // A later end counts only with fewer edits.
            let wanted = near_reference(&folded_anchor, &all)
                .filter(|edits| fewest.is_none_or(|fewest| *edits < fewest));
            assert_eq!(edits, wanted, "{anchor:?} and {:?}", content.get(..at));
            fewest = wanted.or(fewest);
        } else {
            assert_eq!(edits, None, "{anchor:?} and {content:?} at {at}");
        }
        before = all;
    }
    // While a better end comes, the search is alive.
    let mut best: Option<usize> = None;
    for pair in seen.windows(2) {
        best = [best, pair[0].0].into_iter().flatten().min();
        let is_better = pair[1]
            .0
            .is_some_and(|edits| best.is_none_or(|best| edits < best));
        assert!(pair[0].1 || !is_better, "{anchor:?} and {content:?}");
    }
    seen.into_iter().filter_map(|(edits, _)| edits).min()
}

#[test]
fn edits_of_the_structure_are_counted_apart() {
    let anchor = r#"{"name": "Ada, Countess", "rows": ["one"#;
    let edits = |content: &str| {
        let mut near = NearAnchor::new(anchor);
        content
            .chars()
            .filter_map(|c| near.feed(c))
            .min()
            .map(|edits| (edits.count, edits.structural))
    };
    assert_eq!(edits(anchor), Some((0, 0)));
    assert_eq!(edits(&anchor.replace("Ada", "Eda")), Some((1, 0)));
    assert_eq!(edits(&anchor.replace("Ada,", "Ada")), Some((1, 1)));
    assert_eq!(edits(&anchor.replace("[", "(")), Some((1, 1)));
    assert_eq!(edits(&anchor.replace("Ada", "Adda,")), Some((2, 1)));
    assert_eq!(edits(&format!("[{anchor}")), Some((1, 1)));
    assert_eq!(edits(&anchor.replace("{\"name\": ", "{\"a\": 1, ")), None);
}

#[test]
fn an_anchor_that_ends_inside_an_escape_ends_there() {
    let ends = |anchor: &str, content: &str| {
        let mut near = NearAnchor::new(anchor);
        content
            .char_indices()
            .filter_map(|(at, c)| Some((at + 1, near.feed(c)?.count)))
            .collect::<Vec<_>>()
    };
    assert_eq!(ends("say \\u00", "say \\u00e9"), [(8, 0)]);
    assert_eq!(ends("say \\", "say  \\n"), [(6, 0)]);
    assert_eq!(ends("say \\ud83d", "say \\ud83d\\ude00"), [(10, 0)]);
    assert_eq!(ends("say \\u00", "say é"), []);
    assert_eq!(ends("say", "say\\n\n"), [(3, 0)]);
}

#[test]
fn a_long_anchor_dies_where_it_is_not_repeated() {
    let anchor: String = (0..300).map(|n| format!("word{n} ")).collect();
    let mut near = NearAnchor::new(&anchor);
    assert!(near.is_alive());
    "x".repeat(250)
        .chars()
        .for_each(|c| assert_eq!(near.feed(c), None));
    assert!(!near.is_alive());
    near.begin();
    assert!(near.is_alive());
    let ends: Vec<EditCount> = anchor.chars().filter_map(|c| near.feed(c)).collect();
    assert_eq!((ends, near.is_alive()), (vec![EditCount::default()], false));
}

/// Pieces of text whose escapes are complete, in the many ways in which models write them.
fn odd_text(most: usize) -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "a",
        "b",
        "c",
        "ab",
        "é",
        "😀",
        " ",
        "\n",
        "\\n",
        "\\\"",
        "\"",
        "“",
        "’",
        "'",
        "`",
        ".",
        "…",
        "\\/",
        "/",
        "\\\\",
        "\\u0061",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\u2026",
        "\\b",
        "\u{a0}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..most)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_near_anchor_is_what_the_matrix_says(
        (anchor, other) in (odd_text(60), odd_text(12)),
        (lead, at, cut) in (odd_text(4), any::<prop::sample::Index>(), 0..4usize),
    ) {
        prop_assume!(!is_open(&anchor));
        check_near(&anchor, &other);
        check_near(&anchor, &format!("{lead}{anchor}{other}"));
        // Some characters are left out, and others stand there.
        let chars: Vec<char> = anchor.chars().collect();
        let at = at.index(chars.len() + 1);
        let (head, rest) = chars.split_at(at);
        let head: String = head.iter().collect();
        let rest: String = rest.iter().skip(cut).collect();
        if !head.ends_with('\\') && is_whole(&head) && is_whole(&rest) {
            check_near(&anchor, &format!("{lead}{head}{rest}"));
            check_near(&anchor, &format!("{head}{}{rest}{other}", other.chars().filter(|c| *c != '\\').take(2).collect::<String>()));
        }
    }
}

/// Whether no `\u` of the text is broken.
fn is_whole(text: &str) -> bool {
    text.split("\\u")
        .skip(1)
        .all(|rest| rest.len() >= 4 && rest.as_bytes()[..4].iter().all(u8::is_ascii_hexdigit))
}
