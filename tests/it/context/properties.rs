//! Properties of the contexts at every cut.

use restitch::context::{ContextIndex, ContextOptions, Contexts};
use restitch::internal::children::ChildIndex;
use restitch::internal::context::{
    complete_part, cut_off_element, element_before_cutoff, hierarchy_context,
    hierarchy_context_for_prompt, overlap_context,
};
use restitch::internal::overlap::Matcher;
use restitch::json::CutState;
use restitch::{AllowedRoots, Document};

use restitch_testing::rows::Rows;
use restitch_testing::tree::Tree;
use restitch_testing::{Rng, at_least, corpus_documents};

/// Counts of what was seen, so that no property holds for lack of cases.
#[derive(Debug, Default)]
struct Seen {
    cuts: usize,
    anchors: usize,
    ambiguous: usize,
    none_yet: usize,
    elements: usize,
    shortened: usize,
}

/// Returns the characters of values that a rendering shows, read forwards. `cut` is the number of
/// them in a cut value that is shown by its end.
fn shown(rendering: &str) -> usize {
    let chars: Vec<char> = rendering.chars().collect();
    let (mut at, mut count) = (0, 0);
    let word = |at: usize| {
        chars[at..]
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(**c))
            .count()
    };
    while at < chars.len() {
        match chars[at] {
            '"' => {
                let start = at + 1;
                at = start;
                while at < chars.len() && chars[at] != '"' {
                    at += if chars[at] == '\\' { 2 } else { 1 };
                }
                let end = at.min(chars.len());
                at += 1;
                let next = chars
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .find(|c| !c.is_ascii_whitespace());
                if next != Some(&':') {
                    count += end - start;
                }
            }
            // A hint, or a count of members.
            '<' => at += 1 + chars[at..].iter().take_while(|&&c| c != '>').count(),
            '…' if chars.get(at + 1) == Some(&' ')
                && chars.get(at + 2).is_some_and(char::is_ascii_digit) =>
            {
                let rest: String = chars[at..].iter().collect();
                let digits = rest[4..].bytes().take_while(u8::is_ascii_digit).count();
                assert!(rest[4 + digits..].starts_with(" members …"), "{rest}");
                at += 2 + digits + " members …".chars().count();
            }
            c if c.is_ascii_alphanumeric() || c == '-' => {
                count += word(at);
                at += word(at);
            }
            _ => at += 1,
        }
    }
    count
}

/// Returns the brackets that a rendering leaves open, outside of strings.
fn left_open(rendering: &str) -> String {
    let (mut open, mut chars) = (String::new(), rendering.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                while let Some(c) = chars.next().filter(|&c| c != '"') {
                    if c == '\\' {
                        chars.next();
                    }
                }
            }
            '{' | '[' => open.push(c),
            '}' => assert_eq!(open.pop(), Some('{'), "{rendering}"),
            ']' => assert_eq!(open.pop(), Some('['), "{rendering}"),
            _ => {}
        }
    }
    open
}

fn occurs_once(text: &str, part: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), part.as_bytes())
        == memchr::memmem::rfind(text.as_bytes(), part.as_bytes())
}

/// Returns whether the text has a border that is longer than the rule allows: a proper prefix that
/// is a suffix.
fn has_long_border(text: &str) -> bool {
    let least = (text.chars().count() / 4).max(8);
    text.char_indices()
        .skip(least)
        .any(|(at, _)| text.ends_with(&text[..at]))
}

fn check(
    document: &Document,
    index: &ContextIndex,
    children: &ChildIndex,
    rng: &mut Rng,
    seen: &mut Seen,
) {
    let text = document.text();
    seen.cuts += 1;
    match complete_part(document) {
        Some(part) => assert!(
            serde_json::from_str::<serde::de::IgnoredAny>(&part.to_string()).is_ok(),
            "{part}"
        ),
        None => {
            seen.none_yet += 1;
            assert!(document.machine().frames().is_empty());
        }
    }
    let unlimited = hierarchy_context_for_prompt(document, Some(children), usize::MAX);
    assert_eq!(unlimited.text, hierarchy_context(document));
    assert_eq!(
        hierarchy_context_for_prompt(document, None, text.len() + 50).text,
        unlimited.text
    );

    let budget = [0, 30, 60, 100, 500, 2000][rng.below(6)];
    let limited = hierarchy_context_for_prompt(document, Some(children), budget);
    // An open key reads like a value; text after "…" in a cut value is its end.
    let machine = document.machine();
    let in_key = document.cut_state() == CutState::Key
        || (machine.in_token() && document.path().len() < machine.frames().len());
    if !in_key {
        let value = if machine.in_token() {
            &text[machine.token_start()..]
        } else {
            ""
        };
        let value = value.strip_prefix('"').unwrap_or(value);
        let is_short = value.chars().count() > budget;
        // In a string the sign "…" was counted.
        let sign = usize::from(is_short && machine.in_string());
        // The end of an escape may read as another token.
        if !(is_short && value.contains(['\\', '"'])) {
            assert_eq!(
                shown(&limited.text) - sign,
                limited.spent,
                "{} at {budget}",
                limited.text
            );
            let frames: String = machine
                .frames()
                .iter()
                .map(|frame| frame.kind.opener())
                .collect();
            assert_eq!(
                left_open(&limited.text),
                frames,
                "{} at {budget}",
                limited.text
            );
            if budget == 0 {
                let without = hierarchy_context_for_prompt(document, None, 200).text;
                assert_eq!(left_open(&without), frames, "{without}");
            }
        }
        let end: String = value
            .chars()
            .rev()
            .take(budget)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        assert!(limited.text.ends_with(&end));
    }
    assert!(limited.spent <= budget);
    seen.shortened += usize::from(limited.text != unlimited.text);

    let overlap = overlap_context(document, 2048);
    if document.is_complete() || document.root_start().is_none() {
        assert_eq!((overlap.text, overlap.ambiguous), ("", false));
    } else {
        let end = text.trim_ascii_end();
        assert!(end.ends_with(overlap.text) && !overlap.text.is_empty());
        seen.anchors += 1;
        seen.ambiguous += usize::from(overlap.ambiguous);
        if !overlap.ambiguous {
            assert!(
                occurs_once(text, overlap.text) && !has_long_border(overlap.text),
                "{}",
                overlap.text
            );
        }
        let anchor = end.len() - overlap.text.len()..end.len();
        let mut matcher = Matcher::new(text, anchor.clone(), document.root_start().unwrap(), 4096);
        let (mut hits, mut ends) = (Vec::new(), overlap.text.len());
        for at in 1..=overlap.text.len() {
            let found = matcher.feed(text, &overlap.text.as_bytes()[..at]);
            hits.extend(found.anchor.map(|_| at));
        }
        // A short text is its own anchor, and its envelope need not come again.
        ends -= anchor.start.max(document.root_start().unwrap()) - anchor.start;
        assert!(
            ends > 0 && hits.contains(&overlap.text.len()),
            "{}",
            overlap.text
        );
    }

    let held = cut_off_element(document);
    let before = element_before_cutoff(document, Some(children));
    assert_eq!(before, element_before_cutoff(document, None));
    if let Some(held) = held {
        assert!(text.ends_with(held));
        seen.elements += 1;
    }
    if let Some(before) = before {
        assert!(
            serde_json::from_str::<serde::de::IgnoredAny>(before).is_ok(),
            "{before}"
        );
        if let Some(held) = held {
            let between = text[..text.len() - held.len()]
                .trim_end()
                .strip_suffix(',')
                .unwrap()
                .trim_end();
            assert!(between.ends_with(before));
        }
    }
    for section in index.sections(document) {
        if let Some(closed) = section.closed(document) {
            assert!(
                serde_json::from_str::<serde::de::IgnoredAny>(&closed).is_ok(),
                "{closed}"
            );
        }
    }
    let contexts = Contexts::of(document, index, &ContextOptions::default());
    assert_eq!(
        contexts.json_parsing_success,
        contexts.complete_part.is_some()
    );
    assert!(contexts.delivered_summary.lines().count() <= 21);
    assert!(
        contexts
            .delivered_summary
            .lines()
            .all(|line| line.starts_with("- ") || line.starts_with("… "))
    );
}

/// Checks all cuts of a short text, some of a long one.
fn cuts(text: &str, most: usize, rows: &mut Rows, rng: &mut Rng, seen: &mut Seen) {
    let (mut document, mut sinks) = (
        Document::with_roots(1024, AllowedRoots::Any),
        (ContextIndex::default(), ChildIndex::new(1 << 16)),
    );
    let mut start = 0;
    let all = text.len() <= most;
    let mut ends: Vec<usize> = if all {
        (1..=text.len()).collect()
    } else {
        (0..most).map(|_| 1 + rng.below(text.len())).collect()
    };
    ends.push(text.len());
    ends.retain(|&end| text.is_char_boundary(end));
    ends.sort_unstable();
    for end in ends {
        document.push_with(&text[start..end], &mut sinks).unwrap();
        start = end;
        let mut rng = Rng::new(rng.next());
        if rows.runs_next() {
            check(&document, &sinks.0, &sinks.1, &mut rng, seen);
        }
    }
}

#[test]
fn at_every_cut_of_generated_documents() {
    let (mut rng, mut seen) = (Rng::new(1), Seen::default());
    for _ in 0..60 {
        let text = Tree::random(&mut rng, 4).write(&mut rng);
        cuts(&text, 1000, &mut Rows::whole(), &mut rng, &mut seen);
    }
    for _ in 0..6 {
        let rows: Vec<String> = (0..20)
            .map(|_| Tree::random(&mut rng, 3).write(&mut rng))
            .collect();
        cuts(
            &format!("```json\n{{\"sections\": [{}]}}\n```", rows.join(", ")),
            400,
            &mut Rows::whole(),
            &mut rng,
            &mut seen,
        );
    }
    cuts(
        &format!("[{}1]", "0, ".repeat(2000)),
        60,
        &mut Rows::whole(),
        &mut rng,
        &mut seen,
    );
    println!("covered: {seen:?}");
    assert!(
        seen.cuts > 5000 && seen.ambiguous > 10 && seen.none_yet > 10 && seen.elements > 1000,
        "{seen:?}"
    );
    assert!(
        seen.shortened > 500 && seen.ambiguous < seen.anchors / 4,
        "{seen:?}"
    );
}

/// Values so large that the start of others is out of reach.
#[test]
fn at_cuts_of_documents_with_large_values() {
    fn inflated(tree: &Tree, rng: &mut Rng) -> Tree {
        match tree {
            Tree::Text(text) if rng.below(3) == 0 => {
                Tree::Text(format!("{text}{}", "x\"é".repeat(rng.below(5000))))
            }
            Tree::Map(members) => {
                let key = |key: &str, rng: &mut Rng| {
                    if rng.below(20) == 0 {
                        key.repeat(3000)
                    } else {
                        key.to_owned()
                    }
                };
                Tree::Map(
                    members
                        .iter()
                        .map(|(name, value)| (key(name, rng), inflated(value, rng)))
                        .collect(),
                )
            }
            Tree::List(items) => Tree::List(items.iter().map(|item| inflated(item, rng)).collect()),
            other => other.clone(),
        }
    }
    let (mut rng, mut seen) = (Rng::new(3), Seen::default());
    for _ in 0..40 {
        let rows: Vec<String> = (0..6)
            .map(|_| {
                let row = Tree::random(&mut rng, 5);
                inflated(&row, &mut rng).write(&mut rng)
            })
            .collect();
        cuts(
            &format!("{{\"a\": [{}], \"b\": {{\"c\": [1, 2]}}}}", rows.join(", ")),
            40,
            &mut Rows::whole(),
            &mut rng,
            &mut seen,
        );
    }
    println!("covered: {seen:?}");
    assert!(seen.cuts > 1000 && seen.shortened > 800, "{seen:?}");
}

#[test]
fn at_cuts_of_recorded_documents() {
    let documents = corpus_documents("docs");
    let (mut rng, mut seen) = (Rng::new(2), Seen::default());
    let mut rows = Rows::of("contexts of recorded documents");
    for (_, text) in &documents {
        // The text is parsed and searched for the anchor at each cut.
        let most = (4_000_000 / text.len()).clamp(5, 120);
        cuts(text, most, &mut rows, &mut rng, &mut seen);
    }
    println!("covered: {} documents, {seen:?}", documents.len());
    println!(
        "ambiguous anchors: {:.1} %",
        100.0 * seen.ambiguous as f64 / seen.anchors as f64
    );
    assert!(documents.len() >= at_least(20, 90) && seen.cuts > rows.share(at_least(1500, 3000)));
}
