//! The complete children of open containers, and when two values are the same.

use std::collections::HashMap;

use restitch::AllowedRoots;
use restitch::internal::children::{ChildIndex, KeyHash, digest_of, same_value};
use restitch::internal::json::walk::{Raw, ValueKind};
use restitch::json::{Event, Kind, ParserView, Scalar, Sink, Span};
use restitch::paths::Paths;
use restitch::value::LiveValue;
use restitch::{Document, Limits, Trailing};

use restitch_testing::rows::Rows;
use restitch_testing::tree::Tree;
use restitch_testing::{Rng, random_cuts};

fn document() -> Document {
    Document::with_options(1024, AllowedRoots::Any, Trailing::Next)
}

/// Returns the children's text at each depth.
fn texts<'a>(index: &ChildIndex, text: &'a str) -> Vec<Vec<&'a str>> {
    (0..index.depth())
        .map(|depth| {
            index
                .children(depth)
                .iter()
                .map(|child| child.span.of(text))
                .collect()
        })
        .collect()
}

/// The slow twin: the containers that are open at `cut` of a whole text, and the keys and values of
/// their children that are complete there. A number is complete with the byte after it.
fn expected<'a>(text: &'a str, cut: usize) -> Vec<Vec<(Option<String>, Raw<'a>)>> {
    let mut levels = Vec::new();
    let mut open = Raw::root(text);
    while let Some(raw) = open.take() {
        let is_container = matches!(raw.kind(), ValueKind::Object | ValueKind::Array);
        if !is_container || cut <= raw.range().start || cut >= raw.range().end {
            break;
        }
        let members = raw
            .members()
            .map(|(key, value)| (Some(key.decode().unwrap().into_owned()), value));
        let all: Vec<_> = members
            .chain(raw.elements().map(|value| (None, value)))
            .collect();
        let is_whole = |value: &Raw<'_>| {
            value.range().end + usize::from(value.kind() == ValueKind::Number) <= cut
        };
        open = all
            .iter()
            .map(|&(_, value)| value)
            .find(|value| !is_whole(value));
        levels.push(
            all.into_iter()
                .filter(|(_, value)| is_whole(value))
                .collect(),
        );
    }
    levels
}

#[test]
fn keys_are_compared_by_their_text() {
    let (mut document, mut index) = (document(), ChildIndex::new(100));
    document
        .push_with(
            r#"{"a": 1, "\u0061": 2, "\\u0061": 3, "": 4, "x": [5, "#,
            &mut index,
        )
        .unwrap();
    let keys: Vec<_> = index.children(0).iter().map(|child| child.key).collect();
    assert_eq!(
        keys,
        ["a", "a", "\\u0061", ""].map(|key| Some(KeyHash::of(key)))
    );
    assert_eq!(index.children(1)[0].key, None);
    assert_eq!(
        ["a", "b", "", "\\u0061"]
            .map(KeyHash::of)
            .into_iter()
            .collect::<std::collections::HashSet<_>>()
            .len(),
        4
    );
}

#[test]
fn which_texts_are_the_same_value() {
    let same = [
        ("[1, 2]", "[1,2]\n"),
        (
            r#"{"a": 1, "b": {"c": [], "d": {}}}"#,
            r#" {"b":{"d":{},"c":[]},"a":1}"#,
        ),
        (r#"["\u00e9\ud83d\ude00\/\n"]"#, r#"["é😀/\u000A"]"#),
        (r#"{"\u0061": 1}"#, r#"{"a": 1}"#),
        (r#"{"a": 1, "b": 0, "a": 2}"#, r#"{"b": 0, "a": 1, "a": 2}"#),
        (r#""\ud83d""#, r#""\uD83D""#),
        (" null", "null "),
        ("1e5", "1e5"),
    ];
    for (a, b) in same {
        assert!(same_value(a, b) && same_value(b, a), "{a} {b}");
        assert_eq!(digest_of(a).unwrap(), digest_of(b).unwrap(), "{a} {b}");
    }
    let differ = [
        ("1", "\"1\""),
        ("1", "1.0"),
        ("1", "[1]"),
        ("null", "\"null\""),
        ("true", "false"),
        ("[]", "{}"),
        ("[]", "\"\""),
        ("[[]]", "[]"),
        ("[[], []]", "[[[]]]"),
        ("[[1], 2]", "[[1, 2]]"),
        ("[1, 2]", "[2, 1]"),
        ("[1, [2]]", "[[1], 2]"),
        (r#"{"a": 1, "b": 2}"#, r#"{"a": 2, "b": 1}"#),
        (r#"{"a": 1}"#, r#"{"a": 1, "a": 1}"#),
        (r#"{"a": 1}"#, r#"{"b": 1}"#),
        (r#"{"a": "b"}"#, r#"{"b": "a"}"#),
        (r#"{"a": {"b": 1}, "c": 2}"#, r#"{"a": {"c": 2}, "b": 1}"#),
        (r#"["a", "b"]"#, r#"{"a": "b"}"#),
        (r#"["ab", "c"]"#, r#"["a", "bc"]"#),
        (r#""\u0000""#, r#""""#),
        (r#""\\u0061""#, r#""a""#),
        (r#""\ud83d""#, r#""\ud83e""#),
        (r#""\ud83d""#, r#""\ufffd""#),
        (r#""\ud83d""#, r#""\\ud83d""#),
        (r#"{"\ud83d": 1}"#, r#"{"\\ud83d": 1}"#),
    ];
    for (a, b) in differ {
        assert!(!same_value(a, b) && !same_value(b, a), "{a} {b}");
        assert_ne!(digest_of(a).unwrap(), digest_of(b).unwrap(), "{a} {b}");
    }
}

/// A hit is only a candidate: digests may collide.
#[test]
fn a_collision_is_decided_by_the_text() {
    // The sum over members loses the order of the values of a repeated key; readers take the last
    // value.
    let (a, b) = (r#"{"a": 1, "a": 2}"#, r#"{"a": 2, "a": 1}"#);
    assert_eq!(digest_of(a), digest_of(b));
    assert!(!same_value(a, b));
    let (mut document, mut index) = (document(), ChildIndex::new(100));
    document
        .push_with(&format!("[{a}, {a}, 0, "), &mut index)
        .unwrap();
    let hits: Vec<_> = index
        .find(0, digest_of(b).unwrap())
        .map(|child| child.span.of(document.text()))
        .collect();
    assert_eq!(hits, [a, a]);
    assert!(hits.iter().all(|hit| !same_value(hit, b)));
}

#[test]
fn text_that_is_not_a_value_has_no_digest_and_equals_nothing() {
    for text in [
        "", " ", "[1", "1 2", "[] ]", "tru", "{\"a\"}", "\"\\x\"", "-",
    ] {
        assert_eq!(digest_of(text), None, "{text}");
        assert!(!same_value(text, text), "{text}");
        assert!(!same_value(text, "1") && !same_value("1", text), "{text}");
    }
}

#[test]
fn depth_costs_no_recursion_and_size_no_quadratic_time() {
    let deep = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
    assert!(same_value(&deep, &deep));
    assert_ne!(digest_of(&deep), digest_of(&deep[1..deep.len() - 1]));
    let member = |n: usize| format!("\"key {n}\": {n}");
    let forwards: Vec<_> = (0..100_000).map(member).collect();
    let backwards: Vec<_> = (0..100_000).rev().map(member).collect();
    let [forwards, backwards] =
        [forwards, backwards].map(|members| format!("{{{}}}", members.join(",")));
    assert!(same_value(&forwards, &backwards));
    assert_eq!(digest_of(&forwards), digest_of(&backwards));
    assert!(!same_value(
        &forwards,
        &backwards.replace(": 77777", ": 7777")
    ));
}

#[test]
fn the_limit_counts_the_children_of_all_open_containers() {
    assert_eq!(Limits::default().parser.max_children, 65_536);
    let (mut document, mut index) = (document(), ChildIndex::new(3));
    document.push_with("[1, 2, [3, 4,", &mut index).unwrap();
    assert_eq!(texts(&index, document.text()), [vec!["1", "2"], vec!["3"]]);
    assert_eq!(
        [0, 1].map(|depth| index.remembers_all(depth)),
        [true, false]
    );
    // The children of a container that ends make room, and its own digest is complete.
    document.push_with("5], 6,", &mut index).unwrap();
    assert_eq!(texts(&index, document.text()), [vec!["1", "2", "[3, 4,5]"]]);
    assert_eq!(index.find(0, digest_of("[3,4,5]").unwrap()).count(), 1);
    assert!(!index.remembers_all(0));
    document.push_with("[]]", &mut index).unwrap();
    assert_eq!(index.root(), digest_of("[1,2,[3,4,5],6,[]]"));
}

/// Of a document with a hundred thousand values, only the children of open containers are
/// remembered.
#[test]
fn children_of_closed_containers_are_forgotten() {
    let (mut document, mut index) = (document(), ChildIndex::new(1 << 16));
    document.push_with("{\"rows\": [", &mut index).unwrap();
    for n in 0..1000 {
        document
            .push_with(&format!("[{}],", vec!["0"; 100].join(",")), &mut index)
            .unwrap();
        assert_eq!(
            (
                index.children(0).len(),
                index.children(1).len(),
                index.depth()
            ),
            (0, n + 1, 2)
        );
    }
    let digest = index.children(1)[0].digest;
    assert_eq!(index.find(1, digest).count(), 1000);
    assert_eq!(index.find(1, digest_of("0").unwrap()).count(), 0);
}

/// At every cut of random documents, the index agrees with a walk of the whole document.
#[test]
fn children_at_every_cut() {
    let mut rng = Rng::new(3);
    // Equal digests mean equal canonical texts, and the other way round.
    let (mut canonical, mut digests) = (HashMap::new(), HashMap::new());
    for _ in 0..300 {
        let text = Tree::random(&mut rng, 5).write(&mut rng);
        let (mut document, mut index) = (document(), ChildIndex::new(1000));
        for (at, c) in text.char_indices() {
            let cut = at + c.len_utf8();
            document.push_with(&text[at..cut], &mut index).unwrap();
            let expect = expected(&text, cut);
            assert_eq!(index.depth(), expect.len(), "{text} {cut}");
            for (depth, expect) in expect.into_iter().enumerate() {
                assert!(index.remembers_all(depth));
                assert_eq!(index.children(depth).len(), expect.len(), "{text} {cut}");
                for (child, (key, raw)) in index.children(depth).iter().zip(expect) {
                    assert_eq!(child.span.range(), raw.range());
                    assert_eq!(child.key, key.as_deref().map(KeyHash::of));
                    let own = canonical_sum(&Tree::of(raw));
                    assert_eq!(
                        *canonical.entry(child.digest).or_insert_with(|| own.clone()),
                        own
                    );
                    assert_eq!(*digests.entry(own).or_insert(child.digest), child.digest);
                    let mut found = index.find(depth, child.digest);
                    assert!(found.any(|found| found == child));
                }
            }
        }
        assert_eq!(index.root(), digest_of(&text));
    }
    assert!(canonical.len() > 300, "{}", canonical.len());
}

/// Returns the canonical text without the order of the values of a repeated key, which a digest
/// does not hold.
fn canonical_sum(tree: &Tree) -> String {
    match tree {
        Tree::Map(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(key, value)| (key, canonical_sum(value)))
                .collect();
            members.sort();
            format!("{members:?}")
        }
        Tree::List(items) => format!(
            "<{:?}>",
            items.iter().map(canonical_sum).collect::<Vec<_>>()
        ),
        other => format!("{other:?}"),
    }
}

#[test]
fn variants_are_the_same_and_changes_are_not() {
    let mut rng = Rng::new(9);
    let mut changes = 0;
    for _ in 0..1000 {
        let tree = Tree::random(&mut rng, 4);
        let (text, variant) = (
            tree.write(&mut rng),
            tree.shuffled(&mut rng).write(&mut rng),
        );
        assert!(same_value(&text, &variant), "{text} {variant}");
        assert_eq!(digest_of(&text), digest_of(&variant), "{text} {variant}");
        let other = tree.changed(&mut rng);
        let is_same = tree.canonical() == other.canonical();
        changes += usize::from(!is_same);
        let other = other.shuffled(&mut rng).write(&mut rng);
        assert_eq!(same_value(&text, &other), is_same, "{text} {other}");
        assert_eq!(
            digest_of(&text) == digest_of(&other),
            is_same,
            "{text} {other}"
        );
    }
    assert!(changes > 900, "{changes}");
}

/// A late sink remembers right children, and knows what it lacks.
#[test]
fn a_late_sink_knows_what_it_lacks() {
    let mut rng = Rng::new(21);
    let mut rows = Rows::of("late sinks");
    for _ in 0..100 {
        let text = Tree::random(&mut rng, 5).write(&mut rng);
        for late in (0..=text.len()).filter(|&late| text.is_char_boundary(late)) {
            if !rows.runs_next() {
                continue;
            }
            let (mut document, mut index) = (document(), ChildIndex::new(1000));
            document.push(&text[..late]).unwrap();
            for (at, c) in text[late..].char_indices() {
                let (at, cut) = (late + at, late + at + c.len_utf8());
                document.push_with(&text[at..cut], &mut index).unwrap();
                if index.depth() == 0 {
                    // Nothing was sent yet, or everything is closed.
                    continue;
                }
                let expect = expected(&text, cut);
                assert_eq!(index.depth(), expect.len());
                for (depth, expect) in expect.iter().enumerate() {
                    let children = index.children(depth);
                    assert!(children.is_sorted_by_key(|child| child.span.start));
                    for child in children {
                        let (_, raw) = expect
                            .iter()
                            .find(|(_, raw)| raw.range() == child.span.range())
                            .unwrap();
                        assert_eq!(
                            Some(child.digest),
                            digest_of(raw.as_str()),
                            "{text} {late} {cut}"
                        );
                    }
                    let lacks = children.len() < expect.len();
                    assert_eq!(index.remembers_all(depth), !lacks, "{text} {late} {cut}");
                }
            }
            let whole = index.root();
            assert!(
                whole.is_none() || whole == digest_of(&text),
                "{text} {late}"
            );
        }
    }
    let (mut document, mut index) = (document(), ChildIndex::new(100));
    document.push("[1, [2, {\"a\": ").unwrap();
    document.push_with("3}, 4], [5, 6], ", &mut index).unwrap();
    assert_eq!(texts(&index, document.text()), [vec!["[5, 6]"]]);
    assert!(!index.remembers_all(0));
    assert_eq!(index.find(0, digest_of("[5,6]").unwrap()).count(), 1);
    document.push_with("7]\n[[", &mut index).unwrap();
    assert_eq!(index.root(), None);
    assert!(index.remembers_all(0) && index.remembers_all(1));
}

/// A sink that misses pushes remembers right children, and knows what it lacks.
#[test]
fn gaps_do_no_harm() {
    let mut rng = Rng::new(23);
    let (mut lacking, mut whole) = (0, 0);
    for _ in 0..1000 {
        let text = Tree::random(&mut rng, 5).write(&mut rng);
        let (mut document, mut index) = (document(), ChildIndex::new(1000));
        let mut at = 0;
        for cut in random_cuts(text.len(), &mut rng)
            .into_iter()
            .chain([text.len()])
        {
            if !text.is_char_boundary(cut) {
                continue;
            }
            let piece = &text[at..cut];
            at = cut;
            if rng.below(3) == 0 {
                document.push(piece).unwrap();
                continue;
            }
            let mut is_noticed = false;
            let noticing = restitch::internal::json::each(|event, _| {
                is_noticed |= event.ends_value() || matches!(event, Event::Begin { .. });
            });
            document
                .push_with(piece, &mut (&mut index, noticing))
                .unwrap();
            if !is_noticed {
                continue;
            }
            let expect = expected(&text, cut);
            assert_eq!(index.depth(), expect.len(), "{text} {cut}");
            for (depth, expect) in expect.iter().enumerate() {
                let children = index.children(depth);
                for child in children {
                    let is_one = |(_, raw): &(_, Raw<'_>)| raw.range() == child.span.range();
                    assert!(expect.iter().any(is_one), "{text} {cut}");
                    assert_eq!(
                        Some(child.digest),
                        digest_of(child.span.of(&text)),
                        "{text} {cut}"
                    );
                }
                let is_all = children.len() == expect.len();
                assert_eq!(index.remembers_all(depth), is_all, "{text} {cut}");
                (lacking, whole) = (lacking + usize::from(!is_all), whole + usize::from(is_all));
            }
            let root = index.root();
            assert!(root.is_none() || root == digest_of(&text), "{text}");
        }
    }
    assert!(lacking > 100 && whole > 100, "{lacking} {whole}");
    // Only the last child is missing, and its container ends.
    let (mut document, mut index) = (document(), ChildIndex::new(100));
    document.push_with(r#"[["a""#, &mut index).unwrap();
    document.push(r#","b""#).unwrap();
    document.push_with("], 1 ", &mut index).unwrap();
    assert_eq!(texts(&index, document.text()), [["1"]]);
    assert!(!index.remembers_all(0));
}

#[test]
fn a_clone_continues_where_a_document_was_restored() {
    let (mut document, mut index) = (document(), ChildIndex::new(100));
    document.push_with("[1, [2, ", &mut index).unwrap();
    let (checkpoint, kept) = (document.checkpoint(), index.clone());
    document.push_with("3, 4], 5, [6, ", &mut index).unwrap();
    assert!(document.restore(&checkpoint));
    index = kept;
    document.push_with("7], 8]", &mut index).unwrap();
    assert_eq!(index.root(), digest_of("[1, [2, 7], 8]"));
}

/// A sink that is called by hand, with empty spans in no order, finds nothing and does not fail.
#[test]
fn no_event_makes_the_index_panic() {
    let offsets = [0, 1, 2, 3, 7, 1000, usize::MAX - 1, usize::MAX];
    let mut rng = Rng::new(31);
    for _ in 0..300 {
        let text = Tree::random(&mut rng, 4).write(&mut rng);
        let (limit, mut rng) = (rng.below(20), Rng::new(rng.next()));
        let mut index = ChildIndex::new(limit);
        let (mut value, mut paths) = (
            LiveValue::new(),
            Paths::new(["/*", "/a/0", "/0/*/b", ""]).unwrap(),
        );
        let mut odd = restitch::internal::json::each(|_, live| {
            let mut offset = || offsets[rng.below(offsets.len())];
            let (at, count, end) = (offset(), offset(), offset());
            let span = Span { start: at, end };
            let kind = [Kind::Array, Kind::Object][rng.below(2)];
            let event = match rng.below(8) {
                0 | 1 => Event::Begin { kind, at },
                2 => Event::End { kind, count, span },
                3 => Event::Key(span),
                4 => Event::StringBegin(at),
                5 => Event::Fragment(span),
                6 => Event::StringEnd(span),
                _ => Event::Scalar {
                    kind: [Scalar::Number, Scalar::Null][rng.below(2)],
                    span,
                },
            };
            let frames = &live.frames[..rng.below(live.frames.len() + 1)];
            (&mut index, &mut value, &mut paths).event(
                event,
                &ParserView {
                    text: live.text,
                    frames,
                },
            );
        });
        document().push_with(&text, &mut odd).unwrap();
        let found = (0..index.depth())
            .map(|depth| index.children(depth).len())
            .sum::<usize>();
        assert!(found <= 20);
        while paths
            .poll_match()
            .is_some_and(|found| found.text(&text).len() <= text.len())
        {}
        // An event shows at most the whole text, with each byte as an escape.
        let shown = value.view().map_or(0, |view| view.to_string().len());
        assert!(shown <= (text.len() + 1) * (6 * text.len() + 4));
        assert!(
            value
                .duplicates()
                .iter()
                .all(|one| value.path_of(one).len() < 1000)
        );
    }
    ChildIndex::new(1).event(
        Event::StringEnd(Span { start: 0, end: 0 }),
        &ParserView {
            text: "",
            frames: &[],
        },
    );
}
