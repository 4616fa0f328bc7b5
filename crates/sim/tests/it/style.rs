//! The styles in which models continue a cut document: the fragment of each style on one example,
//! and properties of all fragments.

use std::collections::BTreeMap;

use restitch_sim::style::{ContinuationStyle, Cut, Group, write};
use serde_json::Value;

use restitch_testing::Rng;
use restitch_testing::case_file::read_rows;

const DOCUMENT: &str = r#"{"s":[{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#;

/// `Hello wor|ld`, the anchor `1,"t":"Hello wor`.
const CUT: Cut<'static> = Cut {
    document: DOCUMENT,
    offset: 28,
    anchor: 12,
    mark: None,
};
fn named(name: &str) -> ContinuationStyle {
    ContinuationStyle::by_name(name).unwrap_or_else(|| panic!("no style {name}"))
}

/// Returns what 200 seeds write, each text once.
fn all(name: &str, cut: &Cut<'_>) -> Vec<String> {
    let mut texts: Vec<String> = (0..200)
        .filter_map(|seed| write(named(name), cut, seed))
        .collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Returns the cut after `delivered`, which occurs once in the document.
fn cut_after<'a>(document: &'a str, delivered: &str, anchor: usize) -> Cut<'a> {
    let offset = document.find(delivered).unwrap() + delivered.len();
    Cut {
        document,
        offset,
        anchor: offset - anchor,
        mark: None,
    }
}

/// The rows of `tests/cases/fragments.rows`.
#[test]
fn fragments_of_one_cut() {
    let rows: Vec<(String, String, String)> = read_rows("fragments.rows");
    assert_eq!(rows.len(), 66);
    for (how, name, fragment) in &rows {
        let texts = all(name, &CUT);
        if how == "always" {
            assert_eq!(texts, [fragment.as_str()], "{name}");
        } else {
            assert!(
                texts.contains(fragment),
                "{name}: none is\n{fragment}\nbut\n{}",
                texts.join("\n")
            );
        }
    }
    for name in ["anchor-think", "exact-think", "root-think"] {
        let rest = write(named(&name[..name.len() - 6]), &CUT, 0).unwrap();
        for text in all(name, &CUT) {
            let (thought, after) = text.split_once("\n</think>\n\n").unwrap();
            assert!(
                thought.starts_with("<think>\n") && thought.contains("lo wor"),
                "{text}"
            );
            assert_eq!(after, rest);
        }
    }
}

/// The model leaves elements out and marks the omission.
#[test]
fn fragments_that_end_early() {
    let document = r#"{"v": [1, 2, 3, 4, 5, 6], "w": true}"#;
    let cut = cut_after(document, "[1, 2", 3);
    let cases = [
        ("early-close", "]}"),
        ("early-close", ", 2]}"),
        ("early-ellipsis", ", ...]}"),
        ("early-element", ", 3, ...]}"),
        ("early-element", r#", 3, 4, "..."]}"#),
        ("early-element", ", 2, 3, 4, 5, …]}"),
        ("early-comment", ", 2, 3 // … rest unchanged\n]}"),
        ("early-comment", ", 3, 4, /* ... */]}"),
    ];
    for (name, fragment) in cases {
        let texts = all(name, &cut);
        assert!(
            texts.iter().any(|text| text == fragment),
            "{name}: none is\n{fragment}\nbut\n{}",
            texts.join("\n")
        );
    }
    // Nothing is left but closers, or the text is not a document when it is closed.
    assert_eq!(
        all("early-close", &cut_after("[1, 2]", "[1, 2", 1)),
        [""; 0]
    );
    assert_eq!(all("early-close", &cut_after(document, "2, ", 1)), [""; 0]);
    assert_eq!(
        all("early-ellipsis", &cut_after(document, "tr", 1)),
        [""; 0]
    );
}

/// The anchor has escapes, line ends and a tag.
#[test]
fn anchors_that_are_nearly_repeated() {
    let document = "{\n  \"a\": \"x \\\"y\\\" z\\n\",\n  \"b\": \"<overlap_context>\", \"c\": 1\n}";
    let cut = cut_after(document, "z\\n\",\n  \"b", 20);
    assert_eq!(
        &document[cut.anchor..cut.offset],
        " \"x \\\"y\\\" z\\n\",\n  \"b"
    );
    let rest = &document[cut.offset..];
    for (name, anchor) in [
        ("anchor-unescaped", " \"x \"y\" z\n\",\n  \"b"),
        ("anchor-white", " \"x \\\"y\\\" z\\n\", \"b"),
        ("anchor-white", " \"x \\\"y\\\" z\\n\",\"b"),
    ] {
        let texts = all(name, &cut);
        assert!(
            texts.contains(&format!("{anchor}{rest}")),
            "{name}: none has\n{anchor}\nbut\n{}",
            texts.join("\n")
        );
    }
    let delivered = cut_after(document, "context>", 8);
    assert!(
        all("anchor-tags-lines", &delivered)[0]
            .starts_with("<overlap_context_2>\ncontext>\n</overlap_context_2>\n")
    );
    assert_eq!(all("anchor-typo", &cut_after(document, "{\n", 2)), [""; 0]);
}

/// A mark is written right after the anchor, by all styles that repeat it.
#[test]
fn the_mark_follows_the_anchor() {
    let cut = Cut {
        mark: Some("<|7|>"),
        ..CUT
    };
    for &style in ContinuationStyle::ALL {
        let repeats = matches!(style.group(), Group::Anchored | Group::Noise);
        for seed in 0..20 {
            let Some(text) = write(style, &cut, seed) else {
                continue;
            };
            let may_repeat = matches!(style.group(), Group::EarlyEnd | Group::Recorded)
                || style.name().starts_with("closer-");
            assert!(
                text.contains("wor<|7|>") || !repeats || style.name() == "anchor-curly",
                "{style:?} {text}"
            );
            assert!(
                repeats || may_repeat || !text.contains("<|7|>"),
                "{style:?} {text}"
            );
        }
    }
}

/// The spelling of characters changes, and their meaning does not.
#[test]
fn other_escapes() {
    let document = r#"["é\u00e9 a/b\/c \n\u000a 😀\ud83d\ude00 \u0041 \"\\ \ud800", 1]"#;
    let cut = cut_after(document, "[\"é", 4);
    let reformatted = all("value-reformatted", &cut);
    for string in [
        r#""\u00e9\u00e9 a\/b\/c \u000a\u000a \ud83d\ude00\ud83d\ude00 A \"\\ \ud800""#,
        r#""éé a/b/c \n\n 😀😀 A \"\\ \ud800""#,
        r#""\u00e9é a\/b/c \u000a\n \ud83d\ude00😀 A \"\\ \ud800""#,
    ] {
        assert!(
            reformatted.contains(&format!("{string},1]")),
            "{string}\n{}",
            reformatted.join("\n")
        );
    }
    // A quote cannot follow inside an escape.
    assert_eq!(
        all("reopened", &cut_after(document, r#"é\u00"#, 1)),
        [""; 0]
    );
}

/// Cuts that are outside the document, and documents without containers.
#[test]
fn styles_that_do_not_apply() {
    for (document, offset, anchor) in [
        ("[1]", 0, 0),
        ("[1]", 3, 0),
        ("[1]", 1, 2),
        ("[é]", 1, 1),
        ("[\"é\"]", 3, 1),
        ("[1", 1, 0),
    ] {
        for &style in ContinuationStyle::ALL {
            assert_eq!(
                write(
                    style,
                    &Cut {
                        document,
                        offset,
                        anchor,
                        mark: None
                    },
                    1
                ),
                None,
                "{style:?} {document}"
            );
        }
    }
    let number = Cut {
        document: "1234",
        offset: 2,
        anchor: 1,
        mark: None,
    };
    assert_eq!(all("value", &number), ["1234"]);
    assert_eq!(all("element", &number), [""; 0]);
    assert_eq!(all("closer-missing", &number), [""; 0]);
}

/// Returns a document of a few hundred bytes: objects in arrays, escapes, all kinds of values; no
/// key occurs twice.
fn document(rng: &mut Rng) -> Value {
    fn value(rng: &mut Rng, depth: usize) -> Value {
        const WORDS: [&str; 8] = [
            "rain",
            "the night",
            "é/ö",
            "line\nbreak",
            "\"quoted\"",
            "😀 ok",
            "{a} [b]",
            "2024-05-01",
        ];
        match rng.below(if depth > 3 { 5 } else { 9 }) {
            0 => Value::from(rng.below(2000) as i64 - 500),
            1 => Value::from(rng.below(1000) as f64 / 8.0),
            2 => rng
                .pick(&[&Value::Null, &Value::Bool(true), &Value::Bool(false)])
                .clone(),
            3 | 4 => (0..=rng.below(3))
                .map(|_| *rng.pick(&WORDS.each_ref()))
                .collect::<Vec<_>>()
                .join(" ")
                .into(),
            5 | 6 => (0..rng.below(5)).map(|_| value(rng, depth + 1)).collect(),
            _ => (0..rng.below(5))
                .map(|n| {
                    (
                        format!("{}{n}", ["id", "type", "k/é"][n % 3]),
                        value(rng, depth + 1),
                    )
                })
                .collect(),
        }
    }
    let rows: Value = (0..1 + rng.below(4)).map(|_| value(rng, 1)).collect();
    serde_json::json!({"before": value(rng, 3), "rows": rows, "zuletzt": value(rng, 2)})
}

/// Returns each start before the cut from which the fragment completes a document, and the
/// document's value. Slow, and independent of the code that makes fragments.
fn joined(cut: &Cut<'_>, fragment: &str) -> Vec<(usize, Value)> {
    let starts = (0..=cut.offset).filter(|&start| cut.document.is_char_boundary(start));
    let parsed =
        |start: usize| serde_json::from_str(&format!("{}{fragment}", &cut.document[..start])).ok();
    starts
        .filter_map(|start| parsed(start).map(|value| (start, value)))
        .collect()
}

/// Returns whether `whole` contains `part`: the last elements of an array, the first perhaps
/// partly.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|whole| is_part(value, whole))),
        (Value::Array(part), Value::Array(whole)) if part.len() <= whole.len() => {
            let whole = &whole[whole.len() - part.len()..];
            part.iter()
                .zip(whole)
                .enumerate()
                .all(|(n, (a, b))| if n == 0 { is_part(a, b) } else { a == b })
        }
        _ => part == whole,
    }
}

#[test]
fn every_fragment_has_the_properties_of_its_style() {
    let mut rng = Rng::new(20);
    let mut written: BTreeMap<ContinuationStyle, usize> = BTreeMap::new();
    for round in 0..60u64 {
        let truth = document(&mut rng);
        let text = if round % 2 == 0 {
            truth.to_string()
        } else {
            serde_json::to_string_pretty(&truth).unwrap()
        };
        for _ in 0..8 {
            let mut offset = 1 + rng.below(text.len() - 1);
            while !text.is_char_boundary(offset) {
                offset -= 1;
            }
            let mut anchor = offset.saturating_sub(1 + rng.below(60));
            while !text.is_char_boundary(anchor) {
                anchor -= 1;
            }
            let cut = Cut {
                document: &text,
                offset,
                anchor,
                mark: None,
            };
            for &style in ContinuationStyle::ALL {
                let seed = rng.next();
                let Some(fragment) = write(style, &cut, seed) else {
                    continue;
                };
                assert_eq!(write(style, &cut, seed).as_ref(), Some(&fragment));
                *written.entry(style).or_default() += 1;
                let shown = format!("{style:?} at {offset} of\n{text}\n{fragment}");
                let (exact, anchored) = (&text[offset..], &text[anchor..]);
                let is_own = matches!(
                    style,
                    ContinuationStyle::Anchor
                        | ContinuationStyle::Exact
                        | ContinuationStyle::ExactUnasked
                );
                assert!(
                    is_own || (fragment != exact && fragment != anchored),
                    "{shown}"
                );
                match style {
                    ContinuationStyle::CommaExtra => {
                        assert_eq!(fragment, format!(",{exact}"), "{shown}");
                    }
                    ContinuationStyle::CommaMissing => {
                        assert_eq!(format!(",{fragment}"), exact, "{shown}");
                    }
                    ContinuationStyle::CloserExtra => {
                        assert!(fragment.starts_with(anchored.trim_end()), "{shown}");
                    }
                    ContinuationStyle::CloserMissing => {
                        assert_eq!(format!("{fragment}}}"), anchored.trim_end(), "{shown}");
                    }
                    ContinuationStyle::AnchorEpilogue => {
                        assert!(fragment.starts_with(anchored), "{shown}");
                    }
                    ContinuationStyle::HalfAnchor => {
                        assert!(anchored.ends_with(&fragment) && fragment.len() > exact.len());
                    }
                    ContinuationStyle::Reopened
                    | ContinuationStyle::Trimmed
                    | ContinuationStyle::Newline => {}
                    ContinuationStyle::DiffersElement
                    | ContinuationStyle::DiffersRoot
                    | ContinuationStyle::DiffersValue => {
                        let found = joined(&cut, &fragment);
                        assert!(!found.is_empty(), "{shown}");
                        let differs = |start: usize| !fragment.starts_with(&text[start..offset]);
                        assert!(
                            found
                                .iter()
                                .any(|(start, value)| *value != truth && differs(*start)),
                            "{shown}"
                        );
                    }
                    _ if style.group() == Group::Noise => {
                        assert!(fragment.ends_with(exact), "{shown}");
                    }
                    _ if style.group() == Group::EarlyEnd => {
                        assert!(!fragment.ends_with(exact), "{shown}");
                    }
                    ContinuationStyle::BareNext => {
                        assert!(serde_json::from_str::<Value>(&fragment).is_ok(), "{shown}");
                    }
                    _ if style.group() == Group::Anchored => {
                        assert!(fragment.contains(anchored), "{shown}");
                    }
                    _ if matches!(style.group(), Group::Exact | Group::Unasked) => {
                        assert!(fragment.contains(exact), "{shown}");
                    }
                    _ if style.group() == Group::Restart => {
                        let inner = inner(style, &fragment);
                        assert!(
                            joined(&cut, inner).iter().any(|(_, value)| *value == truth),
                            "{shown}"
                        );
                    }
                    _ if style.group() == Group::NewRoot
                        || style.name().starts_with("new-root-") =>
                    {
                        let part: Value =
                            serde_json::from_str(&fragment).unwrap_or_else(|_| panic!("{shown}"));
                        assert!(is_part(&part, &truth) && part != truth, "{shown}");
                    }
                    ContinuationStyle::BareList
                    | ContinuationStyle::BareListCut
                    | ContinuationStyle::Bare
                    | ContinuationStyle::BareCut => {
                        let list = if fragment.starts_with('[') && style.name().contains("list") {
                            fragment.clone()
                        } else {
                            format!("[{fragment}]")
                        };
                        assert!(
                            serde_json::from_str::<Vec<Value>>(&list)
                                .is_ok_and(|list| !list.is_empty()),
                            "{shown}"
                        );
                    }
                    ContinuationStyle::SameAgain => {
                        assert!(text[..offset].ends_with(&fragment), "{shown}");
                    }
                    ContinuationStyle::OnlyDelivered => {
                        assert!(text[..offset].contains(&fragment), "{shown}");
                    }
                    ContinuationStyle::ClosedDelivered => {
                        assert!(
                            serde_json::from_str::<Value>(&fragment)
                                .is_ok_and(|value| value != truth),
                            "{shown}"
                        );
                    }
                    _ => {}
                }
            }
        }
    }
    for style in ContinuationStyle::ALL {
        let count = written.get(style).copied().unwrap_or(0);
        println!("{:24}{count}", style.name());
        assert!(count >= 5, "{style:?} was tried {count} times");
    }
}

/// Returns a restart without the fence, the sentence or the reasoning around it.
fn inner(style: ContinuationStyle, fragment: &str) -> &str {
    let name = style.name();
    if name.ends_with("-fence") {
        let (_, rest) = fragment.split_once('\n').unwrap();
        return rest.strip_suffix("\n```").unwrap();
    }
    if name.ends_with("-think") {
        return fragment.split_once("</think>\n\n").unwrap().1;
    }
    if name.ends_with("-preamble") {
        let (_, rest) = fragment.split_once('\n').unwrap();
        return rest.strip_prefix('\n').unwrap_or(rest);
    }
    fragment
}

/// Deep nesting is read and printed without recursion.
#[test]
fn deep_nesting_needs_no_recursion() {
    let depth = 200_000;
    let document = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let cut = Cut {
        document: &document,
        offset: depth / 2,
        anchor: depth / 2 - 10,
        mark: None,
    };
    let root = write(ContinuationStyle::RootReformatted, &cut, 4);
    assert!(root.is_none_or(|text| text.len() > document.len()));
    assert_eq!(
        write(ContinuationStyle::Root, &cut, 4).as_deref(),
        Some(document.as_str())
    );
}
