//! Subscriptions to places of a growing document.

use std::collections::BTreeSet;

use restitch::AllowedRoots;
use restitch::internal::json::walk::{Raw, ValueKind};
use restitch::paths::{Match, Paths, PatternErrorKind, Phase};
use restitch::{Document, Trailing};

use restitch_testing::tree::Tree;
use restitch_testing::{Rng, chunks, random_cuts, splits};

/// A match; the fragments of a string are joined when it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    pattern: usize,
    phase: Phase,
    path: String,
    text: String,
    start: usize,
    root: usize,
    grown: String,
}

/// Polls all matches, and joins the fragments of strings.
fn drain(paths: &mut Paths, text: &str, growing: &mut Vec<String>, found: &mut Vec<Found>) {
    growing.resize(paths.patterns().len(), String::new());
    while let Some(one) = paths.poll_match() {
        let Match {
            pattern,
            phase,
            path,
            span,
            root,
            ..
        } = one;
        if phase == Phase::Grow {
            assert!(!span.is_empty());
            growing[pattern].push_str(span.of(text));
            continue;
        }
        let grown = if phase == Phase::Complete {
            std::mem::take(&mut growing[pattern])
        } else {
            String::new()
        };
        let (text, path) = (one.text(text).to_owned(), path.to_owned());
        found.push(Found {
            pattern,
            phase,
            path,
            text,
            start: span.start,
            root,
            grown,
        });
    }
}

fn document() -> Document {
    Document::with_options(1024, AllowedRoots::Any, Trailing::Next)
}

/// Returns the matches of `patterns` in `text`, which is pushed in pieces.
fn followed(text: &str, cuts: &[usize], patterns: &[&str]) -> Vec<Found> {
    let (mut document, mut paths) = (document(), Paths::new(patterns).unwrap());
    let (mut growing, mut found) = (Vec::new(), Vec::new());
    for piece in pieces(text, cuts) {
        document.push_with(piece, &mut paths).unwrap();
        drain(&mut paths, document.text(), &mut growing, &mut found);
    }
    document.finish_with(&mut paths).unwrap();
    drain(&mut paths, document.text(), &mut growing, &mut found);
    found
}

/// Returns `text` in pieces that end between characters.
fn pieces<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let cuts: Vec<_> = cuts
        .iter()
        .copied()
        .filter(|&cut| text.is_char_boundary(cut))
        .collect();
    chunks(text.as_bytes(), &cuts)
        .into_iter()
        .map(|piece| std::str::from_utf8(piece).unwrap())
        .collect()
}

/// The slow twin: walks the whole text and compares every path with every pattern.
fn expected(text: &str, patterns: &[&str]) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut at, mut root) = (0, 0);
    while let Some(raw) = text.get(at..).and_then(Raw::root) {
        visit(raw, at, &mut Vec::new(), root, patterns, &mut found);
        at += raw.range().end;
        root += 1;
    }
    found
}

fn visit(
    raw: Raw<'_>,
    base: usize,
    path: &mut Vec<String>,
    root: usize,
    patterns: &[&str],
    found: &mut Vec<Found>,
) {
    let matching: Vec<_> = (0..patterns.len())
        .filter(|&n| matches(patterns[n], path))
        .collect();
    let written: String = path
        .iter()
        .map(|step| format!("/{}", escape(step)))
        .collect();
    let all = |phase, text: &str, grown: &str| {
        let one = |&pattern: &usize| Found {
            pattern,
            phase,
            path: written.clone(),
            text: text.to_owned(),
            start: base + raw.offset(),
            root,
            grown: grown.to_owned(),
        };
        matching.iter().map(one).collect::<Vec<_>>()
    };
    found.extend(all(Phase::Begin, &raw.as_str()[..1], ""));
    let mut children = Vec::new();
    children.extend(
        raw.elements()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value)),
    );
    children.extend(
        raw.members()
            .map(|(key, value)| (key.decode().unwrap().into_owned(), value)),
    );
    for (step, value) in children {
        path.push(step);
        visit(value, base, path, root, patterns, found);
        path.pop();
    }
    found.extend(all(
        Phase::Complete,
        raw.as_str(),
        raw.inner().unwrap_or_default(),
    ));
}

fn matches(pattern: &str, path: &[String]) -> bool {
    let steps: Vec<_> = pattern.split('/').skip(1).collect();
    steps.len() == path.len()
        && steps
            .iter()
            .zip(path)
            .all(|(step, own)| *step == "*" || *step == escape(own))
}

fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

#[test]
fn what_matches() {
    let rows: [(&str, &str, &[&str]); 20] = [
        ("", "7", &[""]),
        ("", "\"x\"", &[""]),
        (
            "/items/*/title",
            r#"{"items": [{"title": 1}, {"name": 2}, {"title": 3}]}"#,
            &["/items/0/title", "/items/2/title"],
        ),
        (
            "/items/*/title",
            r#"{"items": {"x": {"title": 1}}, "item": [{"title": 2}]}"#,
            &["/items/x/title"],
        ),
        ("/*", "[1, [2], {\"a\": 3}]", &["/0", "/1", "/2"]),
        ("/*/*", "[1, [2], {\"a\": 3}]", &["/1/0", "/2/a"]),
        ("/a~1b", r#"{"a/b": 1, "a": {"b": 2}}"#, &["/a~1b"]),
        ("/~0", r#"{"~": 1, "~0": 2}"#, &["/~0"]),
        ("/~01", r#"{"~1": 1, "/": 2, "~01": 3}"#, &["/~01"]),
        ("/é", r#"{"\u00e9": 1, "é": 2, "e": 3}"#, &["/é", "/é"]),
        ("/a", r#"{"\u0061": 1, "\\u0061": 2}"#, &["/a"]),
        ("/", r#"{"": 1, "a": 2}"#, &["/"]),
        ("//", r#"{"": {"": 1}}"#, &["//"]),
        ("/0", r#"{"0": 1, "00": 2}"#, &["/0"]),
        ("/0", "[1, 2]", &["/0"]),
        ("/01", r#"[[1, 2], {}]"#, &[]),
        ("/01", r#"{"01": 1, "1": 2}"#, &["/01"]),
        ("/-", "[1]", &[]),
        ("/10", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", &["/10"]),
        ("/**", r#"{"a": 1, "**": 2, "*": 3}"#, &["/**"]),
    ];
    for (pattern, text, expect) in rows {
        let found = followed(text, &[], &[pattern]);
        let paths: Vec<_> = found
            .iter()
            .filter(|found| found.phase == Phase::Complete)
            .map(|found| &found.path)
            .collect();
        assert_eq!(paths, expect, "{pattern} in {text}");
    }
}

#[test]
fn completions_alone() {
    let text = r#"{"a": ["x", {"b": 1}], "c": "long"}"#;
    let (mut document, mut paths) = (document(), Paths::completions(["/a/*", "/c", ""]).unwrap());
    let mut found = Vec::new();
    for piece in text.as_bytes().chunks(3) {
        document
            .push_with(std::str::from_utf8(piece).unwrap(), &mut paths)
            .unwrap();
        while let Some(one) = paths.poll_match() {
            assert_eq!(one.phase, Phase::Complete);
            found.push((
                one.pattern,
                one.path.to_owned(),
                one.text(document.text()).to_owned(),
            ));
        }
    }
    let expect = [
        (0, "/a/0", "\"x\""),
        (0, "/a/1", "{\"b\": 1}"),
        (1, "/c", "\"long\""),
        (2, "", text),
    ];
    assert_eq!(
        found,
        expect.map(|(pattern, path, text)| (pattern, path.to_owned(), text.to_owned()))
    );
}

#[test]
fn matches_wait_until_they_are_polled() {
    let (mut document, mut paths) = (document(), Paths::new(["/*"]).unwrap());
    document.push_with("[10, 11, \"a", &mut paths).unwrap();
    assert_eq!(paths.poll_match().unwrap().path, "/0");
    document.push_with("b\", 12]", &mut paths).unwrap();
    let mut rest = Vec::new();
    while let Some(found) = paths.poll_match() {
        rest.push(format!("{} {}", found.path, found.text(document.text())));
    }
    assert_eq!(
        rest,
        [
            "/0 10",
            "/1 1",
            "/1 11",
            "/2 \"",
            "/2 a",
            "/2 b",
            "/2 \"ab\"",
            "/3 1",
            "/3 12"
        ]
    );
    assert!(paths.poll_match().is_none());
}

#[test]
fn spans_are_parsed_as_types() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Row {
        id: u32,
        name: String,
    }
    let (mut document, mut paths) = (document(), Paths::completions(["/rows/*"]).unwrap());
    document
        .push_with(
            r#"{"rows": [{"id": 1, "name": "\u00e9"}, {"id": "#,
            &mut paths,
        )
        .unwrap();
    let row: Row = paths.poll_match().unwrap().parse(document.text()).unwrap();
    assert_eq!(
        row,
        Row {
            id: 1,
            name: "é".to_owned()
        }
    );
    assert!(paths.poll_match().is_none());
    document.push_with("-2}]", &mut paths).unwrap();
    assert!(
        paths
            .poll_match()
            .unwrap()
            .parse::<Row>(document.text())
            .unwrap_err()
            .is_data()
    );
}

#[test]
fn invalid_patterns_are_errors() {
    let rows = [
        ("a", PatternErrorKind::NoSlash, 0),
        ("a/b", PatternErrorKind::NoSlash, 0),
        ("*", PatternErrorKind::NoSlash, 0),
        ("/~", PatternErrorKind::BadEscape, 1),
        ("/a/b~2c", PatternErrorKind::BadEscape, 4),
        ("/é~0/~1~/x", PatternErrorKind::BadEscape, 8),
    ];
    for (pattern, kind, offset) in rows {
        let error = Paths::new(["/fine", pattern]).unwrap_err();
        assert_eq!(
            (error.kind, error.pattern.as_str(), error.offset),
            (kind, pattern, offset)
        );
    }
    assert_eq!(
        Paths::new(["a/b"]).unwrap_err().to_string(),
        "pattern \"a/b\": must be empty or start with `/` (byte 0)"
    );
    assert_eq!(Paths::new(["/a"; 64]).unwrap().patterns().len(), 64);
    let error = Paths::new((0..65).map(|n| format!("/{n}"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pattern \"/64\": more than 64 patterns (byte 0)"
    );
}

#[test]
fn sixty_four_patterns_are_kept_apart() {
    let patterns: Vec<_> = (0..64).map(|n| format!("/{n}/a")).collect();
    let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
    let text = format!("[{}1]", "{\"a\": \"x\"},".repeat(70));
    assert_eq!(followed(&text, &[], &patterns), expected(&text, &patterns));
    assert_eq!(followed(&text, &[], &patterns).len(), 128);
    let all = ["/*/a"; 64];
    assert_eq!(followed(&text, &[], &all).len(), 70 * 128);
}

/// Returns paths of values in `text`, with some steps replaced by `*`.
fn random_patterns(text: &str, count: usize, rng: &mut Rng) -> Vec<String> {
    let all = expected(
        text,
        &["", "/*", "/*/*", "/*/*/*", "/*/*/*/*", "/*/*/*/*/*"],
    );
    let wild = |path: &str, rng: &mut Rng| {
        let steps = path.split('/').skip(1);
        steps
            .map(|step| format!("/{}", if rng.below(3) == 0 { "*" } else { step }))
            .collect::<String>()
    };
    (0..count)
        .map(|_| wild(&all[rng.below(all.len())].path, rng))
        .collect()
}

#[test]
fn any_chunking_of_random_documents() {
    let mut rng = Rng::new(7);
    let mut matches = 0;
    for _ in 0..150 {
        let text: String = (0..=rng.below(2))
            .map(|_| Tree::random(&mut rng, 4).write(&mut rng) + "\n")
            .collect();
        let patterns = random_patterns(&text, 1 + rng.below(6), &mut rng);
        let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
        let expect = expected(&text, &patterns);
        matches += expect.len();
        for cuts in splits(text.len()) {
            assert_eq!(
                followed(&text, &cuts, &patterns),
                expect,
                "{text} {patterns:?} {cuts:?}"
            );
        }
    }
    assert!(matches > 1000, "{matches}");
}

/// A sink that is lent late reports what ends from then on.
#[test]
fn a_late_sink_sees_the_rest() {
    let mut rng = Rng::new(11);
    for _ in 0..150 {
        let text = Tree::random(&mut rng, 4).write(&mut rng);
        let patterns = random_patterns(&text, 1 + rng.below(6), &mut rng);
        let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
        let expect = expected(&text, &patterns);
        for cut in (0..=text.len()).filter(|&cut| text.is_char_boundary(cut)) {
            let (mut document, mut paths) = (document(), Paths::new(&patterns).unwrap());
            document.push(&text[..cut]).unwrap();
            document.push_with(&text[cut..], &mut paths).unwrap();
            let mut found = Vec::new();
            drain(&mut paths, document.text(), &mut Vec::new(), &mut found);
            // A number is reported with the byte after it.
            let told = |found: &Found| {
                let is_number =
                    Raw::root(&found.text).is_some_and(|raw| raw.kind() == ValueKind::Number);
                found.start + found.text.len() + usize::from(is_number)
            };
            let name = |found: &Found| (found.pattern, found.path.clone(), found.text.clone());
            let whole = |found: &&Found| found.phase == Phase::Complete;
            let rest: Vec<_> = expect
                .iter()
                .filter(whole)
                .filter(|found| told(found) > cut)
                .map(name)
                .collect();
            assert_eq!(
                found.iter().filter(whole).map(name).collect::<Vec<_>>(),
                rest,
                "{text} {patterns:?} {cut}"
            );
        }
    }
}

/// A sink that misses pushes misses their events; all other matches have the right path.
#[test]
fn gaps_do_no_harm() {
    let mut rng = Rng::new(13);
    let mut phases = [0; 3];
    let mut steps = 0;
    for _ in 0..1000 {
        let text = Tree::random(&mut rng, 5).write(&mut rng);
        let patterns = random_patterns(&text, 4, &mut rng);
        let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
        let expect = expected(&text, &patterns);
        let is_right = |found: &Match<'_>| {
            let same = |one: &&Found| {
                (one.pattern, one.path.as_str(), 0) == (found.pattern, found.path, found.root)
            };
            let own = |one: &&Found| one.start == found.span.start && one.text == found.text(&text);
            let mut same = expect.iter().filter(same);
            match found.phase {
                Phase::Grow => same.any(|one| {
                    let inside = one.start + 1..one.start + one.text.len();
                    one.phase == Phase::Complete
                        && inside.contains(&found.span.start)
                        && inside.contains(&found.span.end)
                }),
                phase => same.any(|one| one.phase == phase && own(&one)),
            }
        };
        let mut all = [
            Paths::new(&patterns).unwrap(),
            Paths::completions(&patterns).unwrap(),
        ];
        let mut document = document();
        let cuts: BTreeSet<_> = (0..3)
            .flat_map(|_| random_cuts(text.len(), &mut rng))
            .collect();
        for piece in pieces(&text, &cuts.into_iter().collect::<Vec<_>>()) {
            if rng.below(3) == 0 {
                document.push(piece).unwrap();
                continue;
            }
            let [paths, completions] = &mut all;
            document
                .push_with(piece, &mut (paths, completions))
                .unwrap();
            for paths in &mut all {
                while let Some(found) = paths.poll_match() {
                    assert!(is_right(&found), "{found:?} of {patterns:?} in {text}");
                    phases[found.phase as usize] += 1;
                    steps += found.path.matches('/').count();
                }
            }
        }
    }
    assert!(
        phases.iter().all(|&count| count > 1000) && steps > 2000,
        "{phases:?} {steps}"
    );
}

/// The end of a string was missed: the next string is another one.
#[test]
fn a_string_is_recognized_after_a_gap() {
    // Columns: what is pushed with the sink, without it, with it again, and all matches.
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        (r#"{"a": ["x"#, r#"y""#, "]", &[r#"complete /a ["xy"]"#]),
        (
            r#"{"a": "x"#,
            r#"", "c": "y"#,
            r#"z""#,
            &["grow /c z", r#"complete /c "yz""#],
        ),
        (
            r#"{"a": "x"#,
            r#"y"#,
            r#"z""#,
            &["grow /a z", r#"complete /a "xyz""#],
        ),
        (r#"{"a": "x"#, r#"y"#, r#"", "#, &[r#"complete /a "xy""#]),
        (
            r#"{"b": "x"#,
            r#"", "a": "y"#,
            r#"z""#,
            &["grow /a z", r#"complete /a "yz""#],
        ),
    ];
    for (before, missed, behind, expect) in cases {
        for completions in [false, true] {
            let patterns = ["/a", "/c", "/a/0"];
            let new = if completions {
                Paths::completions(patterns)
            } else {
                Paths::new(patterns)
            };
            let (mut document, mut paths) = (document(), new.unwrap());
            document.push_with(before, &mut paths).unwrap();
            while paths.poll_match().is_some() {}
            document.push(missed).unwrap();
            document.push_with(behind, &mut paths).unwrap();
            let mut found = Vec::new();
            while let Some(one) = paths.poll_match() {
                found.push(format!(
                    "{} {} {}",
                    one.phase.as_str(),
                    one.path,
                    one.text(document.text())
                ));
            }
            let expect: Vec<_> = expect
                .iter()
                .filter(|said| !completions || said.starts_with("complete"))
                .collect();
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                expect,
                "{before} {missed} {behind}"
            );
        }
    }
}

#[test]
fn a_clone_continues_where_a_document_was_restored() {
    let patterns = ["/a/*", "/b"];
    let (mut document, mut paths) = (document(), Paths::completions(patterns).unwrap());
    document.push_with("{\"a\": [1, \"x", &mut paths).unwrap();
    while paths.poll_match().is_some() {}
    let (checkpoint, kept) = (document.checkpoint(), paths.clone());
    document
        .push_with("\"], \"c\": {\"d\": [", &mut paths)
        .unwrap();
    assert!(document.restore(&checkpoint));
    paths = kept;
    document
        .push_with("y\"], \"b\": null}", &mut paths)
        .unwrap();
    let mut found = Vec::new();
    while let Some(one) = paths.poll_match() {
        found.push(format!("{} {}", one.path, one.text(document.text())));
    }
    assert_eq!(found, ["/a/1 \"xy\"", "/b null"]);
}
