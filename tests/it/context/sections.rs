//! The sections of a document: what counts as one, what is counted in it, what a summary shows.

use restitch::Document;
use restitch::context::Section;
use restitch::internal::children::ChildIndex;
use restitch::internal::context::Sections;
use restitch::internal::context::{merge_sections, sections_of};
use restitch::value::LiveValue;

use restitch_testing::tree::Tree;
use restitch_testing::{Rng, chunks, text_cuts};

fn read(text: &str) -> (Document, Sections) {
    let (mut document, mut sections) = (Document::new(1024), Sections::default());
    document.push_with(text, &mut sections).unwrap();
    (document, sections)
}

fn summary(text: &str) -> Vec<String> {
    let (document, sections) = read(text);
    sections
        .summary(&document)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_a_section_is_called() {
    let line = |section: &str| summary(&format!("{{\"sections\": [{section}]")).remove(0);
    assert_eq!(
        line(r#"{"content_type": "bullet_list", "items": [1, 2]}"#),
        "- bullet_list with 2 items"
    );
    assert_eq!(line(r#"{"type": "b", "content_type": "c"}"#), "- c");
    assert_eq!(line(r#"{"content_type": "c", "type": "b"}"#), "- c");
    assert_eq!(
        line(r#"{"type": "table", "id": "section_table", "title": "T", "rows": [1, 2]}"#),
        "- table \"section_table\" with 2 rows"
    );
    assert_eq!(line(r#"{"title": "T", "name": "N"}"#), "- section \"T\"");
    assert_eq!(line(r#"{"name": "N"}"#), "- section \"N\"");
    assert_eq!(
        line(r#"{"id": null, "type": null, "title": "T", "name": "N"}"#),
        "- section \"T\""
    );
    assert_eq!(
        line(r#"{"id": null, "title": null, "name": 7}"#),
        "- section \"7\""
    );
    // Only its own members name a section, and only scalars.
    assert_eq!(
        line(r#"{"a": {"type": "x", "id": "y"}, "id": {"b": 1}, "title": []}"#),
        "- section with 0 title"
    );
    assert_eq!(line(r#"{"type": "a b", "id": ""}"#), "- \"a b\" \"\"");
    let long = "é".repeat(100);
    assert_eq!(
        line(&format!("{{\"id\": \"{long}\"}}")),
        format!("- section \"{}…\"", "é".repeat(80))
    );
}

#[test]
fn what_is_counted() {
    let line = |section: &str| summary(&format!("{{\"sections\": [{section}")).remove(0);
    // Complete elements of open arrays count; arrays with the same key are added up.
    assert_eq!(
        line(r#"{"items": [1, 2, 3"#),
        "- section with 2 items (incomplete)"
    );
    assert_eq!(
        line(r#"{"items": [{"rows": [[1], [2], [3"#),
        "- section with 0 items, 2 rows (incomplete)"
    );
    assert_eq!(
        line(r#"{"e": [{"rows": [1, 2]}, {"rows": [3]}, {"rows": [4, 5"#),
        "- section with 4 rows (incomplete)"
    );
    assert_eq!(
        line(r#"{"lines": ["a"], "other": [1, 2]}"#),
        "- section with 1 lines"
    );
    assert_eq!(
        line(r#"{"one": [1], "other": [1, 2]}"#),
        "- section with 1 one, 2 other"
    );
    assert_eq!(
        line(r#"{"two words": [1]}"#),
        "- section with 1 \"two words\""
    );
    // The last line of code counts once it has started.
    assert_eq!(
        line(r#"{"type": "code", "code": "a\nb\nc"}"#),
        "- code with 3 code lines"
    );
    assert_eq!(
        line(r#"{"type": "code", "code": "a\u000ab\n"}"#),
        "- code with 2 code lines"
    );
    assert_eq!(
        line(r#"{"type": "code", "content": {"code": "a\n\nb"#),
        "- code with 3 code lines (incomplete)"
    );
    assert_eq!(line(r#"{"type": "code", "code": ""}"#), "- code");
    // More keys than are kept.
    let many: Vec<String> = (0..20).map(|n| format!("\"k{n}\": [1]")).collect();
    let (document, sections) = read(&format!("{{\"sections\": [{{{}}}", many.join(", ")));
    assert_eq!(sections.list(&document)[0].counts.len(), 8);
}

#[test]
fn a_section_is_closed_on_demand() {
    let text = r#"{"sections": [{"id": "a", "items": [1]}, {"id": "b", "items": [{"x": "y"}, {"x": "z\u00"#;
    let (mut document, mut sections) = read(text);
    let found = sections.list(&document);
    assert_eq!(
        found[0].span.of(document.text()),
        r#"{"id": "a", "items": [1]}"#
    );
    assert_eq!(
        found[0].closed(&document).unwrap(),
        r#"{"id": "a", "items": [1]}"#
    );
    assert_eq!(
        found[1].closed(&document).unwrap(),
        r#"{"id": "b", "items": [{"x": "y"}, {"x": "z"}]}"#
    );
    assert_eq!(
        (found[0].complete, found[1].complete, found[1].span.end),
        (true, false, text.len())
    );
    document.push_with("e9\"}]}, 7", &mut sections).unwrap();
    let found = sections.list(&document);
    assert_eq!(
        found[1].closed(&document).unwrap(),
        r#"{"id": "b", "items": [{"x": "y"}, {"x": "z\u00e9"}]}"#
    );
    // A number may continue: nothing of it is certain.
    assert_eq!(found.len(), 2);
    document.push_with("5]", &mut sections).unwrap();
    let found = sections.list(&document);
    assert_eq!((found[2].complete, found.len()), (true, 3));
    assert_eq!(found[2].closed(&document).unwrap(), "75");
}

#[test]
fn of_many_sections_the_first_and_last_are_shown() {
    for (count, limit) in [
        (19, 4096),
        (20, 4096),
        (21, 4096),
        (500, 4096),
        (500, 40),
        (500, 15),
        (500, 0),
        (40, 10),
    ] {
        let (mut document, mut sections) = (Document::new(64), Sections::new(limit));
        let text: Vec<String> = (0..count).map(|n| format!("{{\"id\": {n}}}")).collect();
        document
            .push_with(
                &format!("{{\"sections\": [{}", text.join(",")),
                &mut sections,
            )
            .unwrap();
        assert_eq!(sections.count(), count);
        let list = sections.list(&document);
        assert!(list.len() <= limit + 32);
        assert_eq!(list.last().unwrap().id, Some((count - 1).to_string()));
        let first = if limit < 10 { 0..limit } else { 0..10 };
        let line = |n: usize| format!("- section \"{n}\"");
        let lines: Vec<String> = if count <= 20 {
            (0..count).map(line).collect()
        } else {
            let left_out = format!("… {} more sections …", count - 10 - first.len());
            first
                .map(line)
                .chain([left_out])
                .chain((count - 10..count).map(line))
                .collect()
        };
        assert_eq!(
            sections.summary(&document),
            lines.join("\n"),
            "{count} {limit}"
        );
    }
}

/// Text that is dropped by `restore`, and a clone that continues in its place.
#[test]
fn a_document_that_is_restored() {
    let (mut document, mut sections) = read(r#"{"sections": [{"id": "a"}, {"id": "b", "rows": [1"#);
    let (checkpoint, kept) = (document.checkpoint(), sections.clone());
    document
        .push_with(
            "], \"type\": \"x\"}, {\"id\": \"c\"}, {\"id\": \"d\"}",
            &mut sections,
        )
        .unwrap();
    assert!(document.restore(&checkpoint));
    // Without the clone, sections after the end are not shown, and forgotten when others start.
    let lines = sections.summary(&document);
    assert!(
        !lines.contains("\"c\"") && lines.contains("\"b\""),
        "{lines}"
    );
    let mut late = sections.clone();
    sections = kept;
    document
        .push_with(", 2]}, {\"id\": \"e\"}", &mut (&mut sections, &mut late))
        .unwrap();
    assert_eq!(
        sections.summary(&document),
        "- section \"a\"\n- section \"b\" with 2 rows\n- section \"e\""
    );
    assert_eq!(late.count(), 3);
    assert!(late.summary(&document).ends_with("- section \"e\""));
    // A checkpoint far back, after which most sections are not remembered.
    let (mut document, mut sections) = (Document::new(64), Sections::new(10));
    document
        .push_with("{\"sections\": [{\"id\": 0}, {\"id\": 1}", &mut sections)
        .unwrap();
    let checkpoint = document.checkpoint();
    document
        .push_with(&", {\"id\": 2}".repeat(100), &mut sections)
        .unwrap();
    assert!(document.restore(&checkpoint));
    document
        .push_with(", {\"id\": 3}, {\"id\": 4}", &mut sections)
        .unwrap();
    let lines: Vec<String> = [0, 1, 3, 4].map(|n| format!("- section \"{n}\"")).into();
    assert_eq!(sections.summary(&document), lines.join("\n"));
    // The next root starts from nothing.
    let mut document =
        Document::with_options(64, restitch::AllowedRoots::Any, restitch::Trailing::Next);
    let mut sections = Sections::default();
    document
        .push_with("{\"sections\": [1, 2]}\n{\"a\": 1}", &mut sections)
        .unwrap();
    assert_eq!(sections.summary(&document), "- a");
}

#[test]
fn a_section_that_is_continued_is_listed_once() {
    let (first, found) = read(
        r#"{"sections": [{"id": "a", "items": [1]}, {"id": "b", "type": "table", "rows": [1, 2, "#,
    );
    let mut delivered = found.list(&first);
    // A fragment that starts with the root again.
    let (second, found) =
        read(r#"{"sections": [{"id": "b", "rows": [3, 4, 5]}, {"id": "c", "items": ["#);
    merge_sections(&mut delivered, found.list(&second));
    let lines = |sections: &[Section]| sections.iter().map(Section::line).collect::<Vec<_>>();
    assert_eq!(
        lines(&delivered),
        [
            "- section \"a\" with 1 items",
            "- table \"b\" with 5 rows",
            "- section \"c\" with 0 items (incomplete)"
        ]
    );
    // A section without a name continues an incomplete one, and no complete one.
    let (third, found) = read(r#"[{"items": [1, 2]}, {"items": [3]}]"#);
    merge_sections(&mut delivered, found.list(&third));
    assert_eq!(
        lines(&delivered)[2..],
        ["- section \"c\" with 2 items", "- section with 1 items"]
    );
    let counts: Vec<_> = delivered[2]
        .counts
        .iter()
        .map(|count| (count.key.as_str(), count.count))
        .collect();
    assert_eq!(counts, [("items", 2)]);
    // Another name is another section, though the one before is open.
    let (open, found) = read(r#"{"sections": [{"id": "a""#);
    let mut delivered = found.list(&open);
    let (other, found) = read(r#"{"sections": [{"id": "z"}]}"#);
    merge_sections(&mut delivered, found.list(&other));
    assert_eq!(delivered.len(), 2);
    merge_sections(&mut delivered, Vec::new());
    let mut nothing = Vec::new();
    merge_sections(&mut nothing, delivered);
    assert_eq!(nothing.len(), 2);
}

#[test]
fn the_sections_of_a_document_are_those_of_all_its_roots() {
    let mut document =
        Document::with_options(64, restitch::AllowedRoots::Any, restitch::Trailing::Next);
    document
        .push("{\"sections\": [{\"id\": \"a\", \"items\": [1]}]}\n7 [{\"id\": \"b\"}]\n")
        .unwrap();
    document
        .push("{\"sections\": [{\"id\": \"b\", \"rows\": [2, 3]}, {\"id\": \"c\", \"items\": [4, 5")
        .unwrap();
    let lines: Vec<_> = sections_of(&document).iter().map(Section::line).collect();
    assert_eq!(
        lines,
        [
            "- section \"a\" with 1 items",
            "- section \"b\" with 2 rows",
            "- section \"c\" with 1 items (incomplete)"
        ]
    );
    assert!(sections_of(&Document::new(64)).is_empty());
    // Of one root, the sections are those of the sink that followed the text.
    let (document, sections) =
        read(r#"{"sections": [{"id": "a", "items": [1]}, {"id": "b", "rows": [1, 2, "#);
    assert_eq!(sections_of(&document), sections.list(&document));
}

/// Returns the sections of a whole document from a walk of its tree: the path of each, and its
/// arrays that are in no nested section.
fn reference(tree: &Tree) -> Vec<Vec<(String, usize)>> {
    fn named<'a>(tree: &'a Tree, found: &mut Vec<&'a Tree>) {
        match tree {
            Tree::Map(members) => {
                for (key, value) in members {
                    if let (true, Tree::List(items)) = (key == "sections", value) {
                        for item in items {
                            found.push(item);
                            named(item, found);
                        }
                    } else {
                        named(value, found);
                    }
                }
            }
            Tree::List(items) => items.iter().for_each(|item| named(item, found)),
            _ => {}
        }
    }
    fn rows<'a>(level: &[&'a Tree]) -> Vec<&'a Tree> {
        let objects = |tree: &&'a Tree| match tree {
            Tree::List(items) => items
                .iter()
                .filter(|item| matches!(item, Tree::Map(_)))
                .collect(),
            _ => Vec::new(),
        };
        if let Some(found) = level
            .iter()
            .map(objects)
            .find(|found: &Vec<&Tree>| !found.is_empty())
        {
            return found;
        }
        let below: Vec<&Tree> = level
            .iter()
            .flat_map(|tree| match tree {
                Tree::List(items) => items.iter().collect::<Vec<_>>(),
                Tree::Map(members) => members.iter().map(|(_, value)| value).collect(),
                _ => Vec::new(),
            })
            .collect();
        if below.is_empty() {
            Vec::new()
        } else {
            rows(&below)
        }
    }
    fn counts(tree: &Tree, key: Option<&str>, found: &mut Vec<(String, usize)>) {
        match tree {
            Tree::List(items) => {
                for item in items.iter().filter(|_| key != Some("sections")) {
                    counts(item, None, found);
                }
                if let Some(key) = key {
                    match found.iter_mut().find(|(other, _)| other == key) {
                        Some((_, count)) => *count += items.len(),
                        None => found.push((key.to_owned(), items.len())),
                    }
                }
            }
            Tree::Map(members) => members
                .iter()
                .for_each(|(key, value)| counts(value, Some(key), found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    named(tree, &mut found);
    if found.is_empty() {
        found = rows(&[tree]);
    }
    let counted = |tree: &Tree, key: Option<&str>| {
        let mut found = Vec::new();
        counts(tree, key, &mut found);
        found.sort();
        found
    };
    if found.is_empty()
        && let Tree::Map(members) = tree
    {
        return members
            .iter()
            .map(|(key, value)| counted(value, Some(key)))
            .collect();
    }
    found.into_iter().map(|tree| counted(tree, None)).collect()
}

/// Renames some keys to make sections.
fn with_sections(tree: &mut Tree, rng: &mut Rng) {
    match tree {
        Tree::Map(members) => {
            for (key, value) in members.iter_mut() {
                if matches!(value, Tree::List(_)) && rng.below(3) == 0 {
                    "sections".clone_into(key);
                }
                with_sections(value, rng);
            }
        }
        Tree::List(items) => items.iter_mut().for_each(|item| with_sections(item, rng)),
        _ => {}
    }
}

#[test]
fn sections_are_those_of_a_walk_over_the_tree() {
    let mut rng = Rng::new(9);
    let (mut some, mut nested) = (0, 0);
    for seed in 0..3000 {
        let mut tree = Tree::random(&mut rng, 5);
        if seed % 2 == 0 {
            with_sections(&mut tree, &mut rng);
        }
        let text = tree.write(&mut rng);
        let (mut document, mut sinks) = (
            Document::new(64),
            (ChildIndex::new(100), Sections::default(), LiveValue::new()),
        );
        for chunk in chunks(text.as_bytes(), &text_cuts(&text, &mut rng)) {
            document
                .push_with(std::str::from_utf8(chunk).unwrap(), &mut sinks)
                .unwrap();
        }
        let found: Vec<Vec<(String, usize)>> = sinks
            .1
            .list(&document)
            .into_iter()
            .map(|section| {
                assert!(section.complete, "{text}");
                let mut counts: Vec<_> = section
                    .counts
                    .into_iter()
                    .map(|count| (count.key, count.count))
                    .collect();
                counts.sort();
                counts
            })
            .collect();
        let expect = reference(&tree);
        let few = expect.iter().all(|counts| counts.len() <= 8);
        assert!(found == expect || !few, "{text}\n{found:?}\n{expect:?}");
        some += usize::from(!expect.is_empty());
        nested += usize::from(expect.iter().flatten().any(|(key, _)| key == "sections"));
    }
    assert!(some > 1500 && nested > 20, "{some} {nested}");
}
