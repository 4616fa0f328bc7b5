//! The events and the complete part, at every byte and in every chunking, against the reference;
//! places of errors and text after roots by hand.

use std::fs;

use restitch::AllowedRoots;
use restitch::internal::json::each;
use restitch::internal::json::walk::Raw;
use restitch::json::Event;
use restitch::{Document, SourceLocation, SyntaxError, Trailing};

use crate::document::{all_documents, parses};
use crate::fuzz::feed::told_in_time;
use crate::reference::oracle;
use restitch_testing::case_file::read_rows;
use restitch_testing::rows::Rows;
use restitch_testing::tree::Tree;
use restitch_testing::{Rng, at_least, chunks, grammar_files, splits, text_cuts};

/// Texts with what the documents lack: halves of surrogate pairs, roots of all kinds, ends in every
/// token.
const OTHERS: [&str; 12] = [
    r#"["\ud83d\ud83d\ude00", "\ud83dx", "\ud83d\n", "\ud83d\u0041", "\ude00\ud83d", "\uD83D\\", "\ud83d"]"#,
    r#"{"\ud83d": 1, "\ud83d\ude00": {"\u0061": [2]}, "a\/b~": {"": 0}, "": {"": "", "": ""}}"#,
    r#""a root \u00e9" x"#,
    "-12.5e-3",
    " true ",
    "[\"é漢😀\", \"\", [\"\", {\"\": \"\"}]]",
    "[1.5,-0,0e5 ,7]7",
    "{\"a\": 1, \"a\": {\"a\": 2}, \"b\" : 3 ,}",
    "[1, 2, x]",
    "[\"ab\\x\"]",
    "[\"ab\ncd\"]",
    "[[[]], {}, [}]",
];

/// Checks byte by byte and in every split; above `every` bytes in some splits.
fn check_splits(text: &str, every: usize) {
    let bytewise: Vec<usize> = (1..text.len())
        .filter(|&at| text.is_char_boundary(at))
        .collect();
    told_in_time(text, 64, &bytewise);
    if text.len() <= every {
        for mut cuts in splits(text.len()) {
            cuts.retain(|&cut| text.is_char_boundary(cut));
            told_in_time(text, 64, &cuts);
        }
    }
    for seed in 0..20 {
        told_in_time(text, 64, &text_cuts(text, &mut Rng::new(seed)));
    }
}

#[test]
fn events_are_the_references_in_every_split() {
    for text in OTHERS {
        check_splits(text, usize::MAX);
    }
    let (documents, recorded) = all_documents(2 << 10);
    for (name, text) in &documents {
        println!("{name}");
        check_splits(text, 512);
    }
    println!(
        "covered: {} documents, {recorded} of them recorded",
        documents.len()
    );
}

#[test]
fn events_of_the_grammars_test_suite() {
    let mut files = 0;
    for path in grammar_files() {
        let Ok(text) = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        else {
            continue;
        };
        if text.len() <= 1024
            && path
                .extension()
                .is_some_and(|extension| extension == "json")
        {
            println!("{}", path.display());
            check_splits(&text, 256);
            files += 1;
        }
    }
    assert!(files >= at_least(90, 300), "{files}");
    println!("covered: {files} files of test suites");
}

/// Reads a complete part. Another reader says that it is JSON.
fn tree(part: &str) -> Tree {
    assert!(parses(part), "{part}");
    Tree::of(Raw::root(part).unwrap())
}

/// Checks that `later` is `earlier`, or has more at its end: in the last string, or after the last
/// child of each container that is itself the last child.
fn grows(earlier: &Tree, later: &Tree) -> bool {
    match (earlier, later) {
        (Tree::Text(earlier), Tree::Text(later)) => later.starts_with(earlier.as_str()),
        (Tree::List(earlier), Tree::List(later)) => {
            let Some((last, whole)) = earlier.split_last() else {
                return true;
            };
            later.len() >= earlier.len()
                && whole == &later[..whole.len()]
                && grows(last, &later[whole.len()])
        }
        (Tree::Map(earlier), Tree::Map(later)) => {
            let Some((last, whole)) = earlier.split_last() else {
                return true;
            };
            let next = later.get(whole.len());
            later.len() >= earlier.len()
                && whole == &later[..whole.len()]
                && next.is_some_and(|next| next.0 == last.0 && grows(&last.1, &next.1))
        }
        _ => earlier == later,
    }
}

#[test]
fn the_complete_part_only_grows() {
    let (documents, recorded) = all_documents(2 << 10);
    let mut rows = Rows::of("pairs of complete parts");
    let mut pairs = 0;
    for (name, text) in &documents {
        println!("{name}");
        let mut document = Document::new(1024);
        let mut parts: Vec<Tree> = Vec::new();
        for c in text.chars() {
            document.push(c.encode_utf8(&mut [0; 4])).unwrap();
            let Some(part) = document.complete() else {
                continue;
            };
            let part = tree(&part);
            // Every pair; of equal ones once.
            if parts.last() != Some(&part) {
                parts.push(part);
            }
        }
        for (n, earlier) in parts.iter().enumerate() {
            for later in &parts[n + 1..] {
                if !rows.runs_next() {
                    continue;
                }
                assert!(
                    grows(earlier, later),
                    "{name}: {earlier:?} became {later:?}"
                );
                pairs += 1;
            }
        }
    }
    println!(
        "covered: {pairs} pairs of parts of {} documents, {recorded} of them recorded",
        documents.len()
    );
}

#[test]
fn growing_can_fail() {
    let grows = |earlier: &str, later: &str| grows(&tree(earlier), &tree(later));
    assert!(
        grows("{}", r#"{"a": [1]}"#) && grows(r#"{"a": ["x"]}"#, r#"{"a": ["xy", 1], "a": 2}"#)
    );
    assert!(
        !grows("[1]", "[12]") && !grows("[true]", "[1]") && !grows(r#"["x", 1]"#, r#"["xy", 1]"#)
    );
    assert!(!grows(r#"{"a": 1}"#, r#"{"b": 2, "a": 1}"#) && !grows("[1]", "[]"));
}

/// Texts that are too short or wrong, and what a person is told.
#[test]
fn places_of_errors_by_hand() {
    let cases = [
        (
            "{\"a\": [1,\n  2, x]}",
            "line 2, column 6 (byte 15), at /a/2: `  2, →x]}`",
        ),
        (
            "{\"a\": [1,\r\n  é😀x]}\r\n",
            "line 2, column 3 (byte 13), at /a/1: `  →é😀x]}`",
        ),
        (
            "[\"é😀\", x]",
            "line 1, column 8 (byte 11), at /1: `[\"é😀\", →x]`",
        ),
        ("\n\n[\n}", "line 4, column 1 (byte 4), at /0: `→}`"),
        (
            "{\"k~/\": {\"b\" 1",
            "line 1, column 14 (byte 13), at /k~0~1: `{\"k~/\": {\"b\" →1`",
        ),
        (
            "{\"k\": {\"b\": nul}}",
            "line 1, column 16 (byte 15), at /k/b: `{\"k\": {\"b\": nul→}}`",
        ),
        (
            "Here:\n```json\n[01]\n```",
            "line 3, column 3 (byte 16), at /0: `[0→1]`",
        ),
        ("[1]\r\n x\r\n", "line 2, column 2 (byte 6): ` →x`"),
        // 32 characters on each side.
        (
            "[\"0123456789012345678901234567890123456789\", ?1234567890123456789012345678901234567890]",
            "line 1, column 46 (byte 45), at /1: `12345678901234567890123456789\", →?1234567890123456789012345678901`",
        ),
    ];
    for (text, expect) in cases {
        let mut document = Document::with_options(16, AllowedRoots::Containers, Trailing::Error);
        let error = document.push(text).unwrap_err();
        let place = document.explain(&error);
        assert!(!error.is_truncated(), "{error}");
        assert_eq!(place.to_string(), expect, "{text}");
        // The text alone tells everything but the path.
        let alone = SourceLocation::at(text, error.offset);
        assert_eq!(
            (alone.line, alone.column, alone.excerpt),
            (place.line, place.column, place.excerpt),
            "{text}"
        );
    }
    let cases = [
        ("", "line 1, column 1 (byte 0): `→`"),
        ("[1,\r\n\"é", "line 2, column 3 (byte 8), at /1: `\"é→`"),
        (
            "{\"a\": {\"b\": tr",
            "line 1, column 15 (byte 14), at /a/b: `{\"a\": {\"b\": tr→`",
        ),
        ("{\"a\": 1\n", "line 2, column 1 (byte 8): `→`"),
    ];
    for (text, expect) in cases {
        let mut document = Document::new(16);
        document.push(text).unwrap();
        let error = document.finish().unwrap_err();
        assert!(error.is_truncated(), "{error}");
        assert_eq!(document.explain(&error).to_string(), expect, "{text}");
    }
}

/// Roots and their ends, with what the document says of itself after that.
fn roots(
    text: &str,
    roots: AllowedRoots,
    trailing: Trailing,
) -> (Vec<String>, Option<SyntaxError>, usize, String) {
    let mut first = None;
    for mut cuts in splits(text.len()) {
        cuts.retain(|&cut| text.is_char_boundary(cut));
        let mut document = Document::with_options(16, roots, trailing);
        let mut ended = Vec::new();
        let mut sink = each(|event: Event, live: &restitch::json::ParserView<'_>| {
            if event.ends_value() && live.frames.is_empty() {
                ended.push(event.span().of(live.text).to_owned());
            }
        });
        let pieces = chunks(text.as_bytes(), &cuts)
            .into_iter()
            .map(|piece| std::str::from_utf8(piece).unwrap());
        let mut error = None;
        for piece in pieces {
            error = document.push_with(piece, &mut sink).err();
            if error.is_some() {
                break;
            }
        }
        if error.is_none() {
            let _ = document.finish_with(&mut sink);
        }
        let seen = (ended, error, document.roots(), document.text().to_owned());
        match &first {
            None => first = Some(seen),
            Some(first) => assert_eq!(&seen, first, "cut at {cuts:?}: {text}"),
        }
    }
    first.unwrap()
}

/// A row of `tests/cases/roots.rows`.
type TextBehindRoots = (String, String, String, Vec<String>, Option<(usize, String)>);

#[test]
fn text_behind_roots_by_hand() {
    let cases: Vec<TextBehindRoots> = read_rows("roots.rows");
    assert_eq!(cases.len(), 24);
    for (text, allowed, trailing, ended, error) in cases {
        let allowed = match allowed.as_str() {
            "containers" => AllowedRoots::Containers,
            "any" => AllowedRoots::Any,
            other => panic!("{other}"),
        };
        let trailing = match trailing.as_str() {
            "stop" => Trailing::Stop,
            "error" => Trailing::Error,
            "next" => Trailing::Next,
            other => panic!("{other}"),
        };
        let whole = if trailing == Trailing::Stop {
            1
        } else {
            ended.len()
        };
        let end = error.as_ref().map_or(text.len(), |(offset, _)| *offset);
        let (found, found_error, count, kept) = roots(&text, allowed, trailing);
        let found_error = found_error.map(|error| (error.offset, format!("{:?}", error.kind)));
        assert_eq!((found, found_error), (ended, error), "{text}");
        assert_eq!((count, kept.as_str()), (whole, &text[..end]), "{text}");
    }
}

/// Each root of a stream of roots emits what it emits alone.
#[test]
fn roots_one_behind_the_other_tell_what_each_tells_alone() {
    let roots = [
        r#"{"a": [1, "é"], "b": {}}"#,
        "[]",
        r#""x\n""#,
        "true",
        "[[0, 1], {\"a\": null}]",
        "{}",
    ];
    let text = roots.join("\n");
    let mut expect = Vec::new();
    let mut start = 0;
    for root in roots {
        expect.extend(
            oracle(root.as_bytes(), 16)
                .told
                .into_iter()
                .map(|mut told| {
                    told.span = (told.span.0 + start, told.span.1 + start);
                    told
                }),
        );
        start += root.len() + 1;
    }
    for mut cuts in splits(text.len()) {
        cuts.retain(|&cut| text.is_char_boundary(cut));
        let mut document = Document::with_options(16, AllowedRoots::Any, Trailing::Next);
        let mut log = crate::reference::Log::default();
        for piece in chunks(text.as_bytes(), &cuts) {
            document
                .push_with(std::str::from_utf8(piece).unwrap(), &mut log)
                .unwrap();
        }
        assert_eq!(
            (&log.0, document.roots()),
            (&expect, roots.len()),
            "cut at {cuts:?}"
        );
    }
}
