//! The live value: what it shows after every push, as text, by hand and as types.

mod partial;
mod types;

use std::collections::{BTreeMap, HashMap};

use restitch::AllowedRoots;
use restitch::json::Partial;
use restitch::value::{
    LiveValue, Number, OwnedNumber, SnapshotError, SnapshotErrorKind, ValueKind, View,
};
use restitch::{Document, Trailing};
use serde::de::{DeserializeOwned, IgnoredAny, IntoDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::{all_documents, cuts};
use crate::fuzz::value::{Tree, check, check_against, compact, run};
use crate::json::{INLINE, PIECES};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, random_cuts};

/// Values that the documents of other tests lack: text that looks different when it is decoded and
/// written.
const MORE: [&str; 10] = [
    r#"["\ud83d\ud83d\ude00", "\ud83dx", "\ud83d\n", "\ud83d\u0041", "\ude00\ud83d", "\uD83D\\", "\u0000\u001f\u007f"]"#,
    r#"{"\ud83d": 1, "\ud83d\ude00": {"\u0061": [2]}, "a\/b~": {"": 0}, "\ud83d": 2, "a": {"a": 1, "\u0061": 2}}"#,
    "[0, -0, 1.0, 1e5, 1E+400, -1e-400, 18446744073709551615, 18446744073709551616, 123456789012345678901234567890]",
    "[-9223372036854775808, -9223372036854775809, 0.1, 5e-324, -12.5e-3]",
    r#""a root \u00e9""#,
    "-12.5e-3",
    " true ",
    "Well:\n```json\n{\"fenced\": [\"é漢😀\"]}\n```\n",
    HALVES,
    r#"{"a": {"k": 1, "\u006b": 2, "k": 3}, "b": [{"k": 0}, {"k": 0, "x/": {"k": 0}, "x\/": 1}], "\u0061": "}"#,
];

/// Keys with halves of surrogate pairs, and keys that look like them.
const HALVES: &str = r#"{"\ud83d": 1, "\ud83e": 2, "\\ud83d": 3, "\uD83D": 4, "\\ud83d": 5, "a\ud83db": 6, "\ufffd": 7,
    "a\ud83d\u0062": 8, "a\uD83Ec": 9, "\ud83d\ude00": 10, "\ude00\ud83d": 11, "\uFFFD": 12, "a\\ud83db": 13}"#;

/// Returns a live value of `text`, pushed at once.
fn live(text: &str) -> LiveValue {
    let (mut document, mut value) = (
        Document::with_roots(1 << 20, AllowedRoots::Any),
        LiveValue::new(),
    );
    document.push_with(text, &mut value).unwrap();
    value
}

fn shown(value: &LiveValue) -> String {
    value
        .view()
        .map_or_else(String::new, |view| view.to_string())
}

fn error<T: DeserializeOwned>(text: &str) -> SnapshotError {
    match live(text).snapshot::<T>() {
        Ok(_) => panic!("{text} is taken"),
        Err(error) => error,
    }
}

/// A view prints the document's complete part, read by serde_json and written again: at every byte
/// of short documents, at some hundred places of long ones.
#[test]
fn the_view_is_the_complete_part_at_every_byte() {
    for text in MORE {
        run(
            text,
            &(1..text.len()).collect::<Vec<_>>(),
            Trailing::Stop,
            1,
        );
    }
    let mut rows = Rows::of("views");
    let (documents, recorded) = all_documents(256 << 10);
    for (name, text) in documents {
        println!("{name}");
        let (mut document, mut value, mut pushed) = (Document::new(1024), LiveValue::new(), 0);
        for cut in cuts(&text, 3000, 40).into_iter().chain([text.len()]) {
            document.push_with(&text[pushed..cut], &mut value).unwrap();
            if rows.runs_next() {
                check_against(&document, &value);
            }
            pushed = cut;
        }
        assert_eq!(shown(&value), compact(&text));
    }
    println!("covered: {recorded} documents of the corpus");
}

#[test]
fn what_was_shown_stays() {
    let (documents, recorded) = all_documents(8 << 10);
    let more = MORE.map(|text| (text.to_owned(), text.to_owned()));
    let mut rng = Rng::new(3);
    let mut rows = Rows::of("chunkings of views");
    for (name, text) in documents.into_iter().chain(more) {
        println!("{name}");
        let every = 1 + text.len() / 400;
        let (_, whole) = run(&text, &[], Trailing::Stop, 1);
        let sizes = [1, 2, 3, 7].map(|size| {
            (1..text.len())
                .filter(|at| at % size == 0)
                .collect::<Vec<_>>()
        });
        for cuts in sizes
            .into_iter()
            .chain((0..4).map(|_| random_cuts(text.len(), &mut rng)))
        {
            if !rows.runs_next() {
                continue;
            }
            let (_, value) = run(&text, &cuts, Trailing::Stop, every);
            assert_eq!(shown(&value), shown(&whole), "{cuts:?}");
            assert_eq!(value.duplicates(), whole.duplicates());
        }
    }
    println!("covered: {recorded} documents of the corpus");
}

#[test]
fn a_view_is_read_by_hand() {
    let value =
        live(r#"{"a": {"b": [true, null, "x", -1.50]}, "": 0, "m~n/o": 1, "a": 2, "open": ["gro"#);
    let root = value.view().unwrap();
    let at = |pointer: &str| root.pointer(pointer).unwrap();
    assert_eq!(
        (root.kind(), root.len(), root.is_whole()),
        (ValueKind::Object, 5, false)
    );
    assert_eq!(
        root.members().map(|(key, _)| key).collect::<Vec<_>>(),
        ["a", "", "m~n/o", "a", "open"]
    );
    assert_eq!(at("/a/b/0").as_bool(), Some(true));
    assert!(at("/a/b/1").is_null());
    assert_eq!(
        (at("/a/b/2").as_str(), at("/a/b/2").kind()),
        (Some("x"), ValueKind::String)
    );
    assert_eq!(at("/a/b/3").as_number().map(Number::as_str), Some("-1.50"));
    assert_eq!(
        (at("").path(), at("/").path(), at("/m~0n~1o").path()),
        ("".into(), "/".into(), "/m~0n~1o".into())
    );
    assert_eq!(
        (at("/a/b/3").path().as_str(), at("/open/0").path().as_str()),
        ("/a/b/3", "/open/0")
    );
    assert!(at("/a").is_whole() && !at("/open").is_whole() && !at("/open/0").is_whole());
    // `get` returns the first of two members with the same key: what was shown does not change.
    assert_eq!(root.get("a").unwrap().kind(), ValueKind::Object);
    for nowhere in [
        "a",
        "/b",
        "/a/b/4",
        "/a/b/01",
        "/a/b/-",
        "/a/b/+1",
        "/a/b/",
        "/a/b/0/0",
        "/a/b/18446744073709551615",
    ] {
        assert!(root.pointer(nowhere).is_none(), "{nowhere}");
    }
    let growing = root.last().and_then(View::last).unwrap();
    assert_eq!(
        (growing.as_str(), growing.key(), root.last().unwrap().key()),
        (Some("gro"), None, Some("open"))
    );
    assert_eq!(
        format!("{growing:?} {}", at("/a")),
        r#""gro" {"b":[true,null,"x",-1.50]}"#
    );
    // Accessors of other types return nothing.
    let null = at("/a/b/1");
    assert_eq!(
        (null.as_str(), null.as_bool(), null.as_number()),
        (None, None, None)
    );
    assert!(
        null.get("a").is_none()
            && null.index(0).is_none()
            && null.last().is_none()
            && null.is_empty()
    );
    assert!(root.index(0).is_none() && at("/a/b").get("0").is_none());
}

/// An object that is large enough for a table tells keys apart as a small one does.
#[test]
fn keys_of_a_large_object() {
    let many: String = (0..100).map(|n| format!("\"k{n}\": 0, ")).collect();
    let many = HALVES.replacen('{', &format!("{{{many}"), 1);
    run(&many, &[], Trailing::Stop, 1);
}

/// An object of a hundred thousand keys, and as many small objects after it. If a key cost O(its
/// object), or O(the object before), this test would not end.
#[test]
fn many_keys() {
    let keys = 100_000;
    let member = |n: usize| format!("\"key {n}\": {n}");
    let all = (0..keys).map(member).collect::<Vec<_>>().join(",");
    let small = vec![r#"{"a": 1, "b": 2, "a": 3}"#; keys].join(",");
    let text = format!(
        "[{{{all}, {}}}, {small}, {{\"x\": 1, {all}}}]",
        member(77_777)
    );
    let (mut document, mut value) = (Document::new(64), LiveValue::new());
    for chunk in text.as_bytes().chunks(1 << 10) {
        document
            .push_with(std::str::from_utf8(chunk).unwrap(), &mut value)
            .unwrap();
    }
    assert_eq!(value.duplicates().len(), 1 + keys);
    assert_eq!(value.path_of(&value.duplicates()[0]), "/0/key 77777");
    let root = value.view().unwrap();
    assert_eq!(
        (
            root.len(),
            root.index(0).unwrap().len(),
            root.last().unwrap().len()
        ),
        (keys + 2, keys + 1, keys + 1)
    );
    assert_eq!(
        root.pointer("/0/key 99999")
            .unwrap()
            .as_number()
            .and_then(Number::as_u64),
        Some(99_999)
    );
}

#[test]
fn a_million_open_arrays() {
    let depth = 1_000_000;
    let mut document = Document::new(depth);
    let mut value = LiveValue::new();
    document.push_with(&"[".repeat(depth), &mut value).unwrap();
    assert_eq!(
        shown(&value),
        ["[".repeat(depth), "]".repeat(depth)].concat()
    );
    document
        .push_with(&["7", &"]".repeat(depth)].concat(), &mut value)
        .unwrap();
    assert_eq!(
        shown(&value),
        ["[".repeat(depth).as_str(), "7", &"]".repeat(depth)].concat()
    );
    assert_eq!(
        value.clone().snapshot::<Value>().unwrap_err().kind(),
        SnapshotErrorKind::TooDeep
    );
    assert!(value.snapshot::<IgnoredAny>().is_ok());
    let mut innermost = value.view().unwrap();
    while let Some(last) = innermost.last() {
        innermost = last;
    }
    assert_eq!(innermost.path().len(), 2 * depth);
}

#[test]
fn a_clone_is_a_checkpoint() {
    let text = types::REPORT;
    for cut in cuts(text, 3000, 0).into_iter().step_by(7) {
        let (mut document, mut value) = (Document::new(64), LiveValue::new());
        document.push_with(&text[..cut], &mut value).unwrap();
        let (checkpoint, then) = (document.checkpoint(), value.clone());
        let before = shown(&value);
        // What may follow there.
        for other in ["x", "\\n\", \"other", "1, \"a\": [2, {", "]", "}"] {
            let _ = document.push_with(other, &mut value);
        }
        assert!(document.restore(&checkpoint));
        value.clone_from(&then);
        assert_eq!(shown(&value), before);
        document.push_with(&text[cut..], &mut value).unwrap();
        check_against(&document, &value);
        assert_eq!(shown(&value), compact(text));
    }
}

/// A sink that misses pushes shows only what it knows.
#[test]
fn missing_events_are_noticed() {
    let text = r#"{"a": ["one", {"b": "two\n"}, 3], "c": {"d": [true, [], {}], "e": 4}, "f": [[[5]], ""], "g": "#;
    for (start, _) in text.char_indices() {
        for end in start + 1..text.len() {
            let (mut document, mut value, mut all) =
                (Document::new(64), LiveValue::new(), LiveValue::new());
            document
                .push_with(&text[..start], &mut (&mut value, &mut all))
                .unwrap();
            document.push_with(&text[start..end], &mut all).unwrap();
            let known = Tree::of(all.view().unwrap_or(live("{").view().unwrap()));
            let mut told = 0;
            let counting = restitch::internal::json::each(|_, _| told += 1);
            document
                .push_with(&text[end..], &mut (&mut value, &mut all, counting))
                .unwrap();
            // Nothing can be noticed before the next event.
            if told > 0 && !value.is_stale() {
                assert_eq!(shown(&value), shown(&all), "{start}..{end}");
            }
            let Some(view) = value.view() else { continue };
            let last = Tree::of(all.view().unwrap());
            assert!(Tree::of(view).is_prefix_of(&last), "{start}..{end}");
            if value.is_stale() {
                assert!(Tree::of(view).is_prefix_of(&known));
            }
            // After that it can be brought up to date.
            document.replay(&mut value);
            assert_eq!((shown(&value), value.is_stale()), (shown(&all), false));
        }
    }
    // Only the last child is missing, and its container ends.
    let (mut document, mut value) = (Document::new(64), LiveValue::new());
    document.push_with(r#"[["a""#, &mut value).unwrap();
    document.push(r#","b""#).unwrap();
    document.push_with("], 1 ", &mut value).unwrap();
    assert_eq!(
        (shown(&value).as_str(), value.is_stale()),
        (r#"[["a"]]"#, true)
    );
    let (mut document, mut late) = (Document::new(64), LiveValue::new());
    document.push(r#"{"a": "b"#).unwrap();
    document
        .push_with(r#"c", "d": [1, {}]}"#, &mut late)
        .unwrap();
    assert!(late.view().is_none() && late.is_stale());
}

/// Short texts of the grammar's own bytes.
#[test]
fn random_texts() {
    let mut rng = Rng::new(11);
    for _ in 0..4000 {
        let mut input = vec![rng.next() as u8];
        for _ in 0..rng.below(20) {
            input.extend(rng.pick(&PIECES).as_bytes());
        }
        check(&input);
    }
}
