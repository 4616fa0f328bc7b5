//! The live value: what it shows after every push, as text, by hand and as types.

use std::collections::{BTreeMap, HashMap};

use restitch::json::envelope::Roots;
use restitch::json::{self, Partial, Span};
use restitch::value::{LiveValue, Number, OwnedNumber, SnapshotError, SnapshotErrorKind, ValueKind, View};
use restitch::{Document, Trailing};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::{all_documents, cuts};
use crate::fuzz::value::{Tree, check, check_against, compact, run};
use crate::json::INLINE;
use crate::support::{Rng, random_cuts};

/// Values that the documents of other tests lack: text that looks different when it is decoded and written.
const MORE: [&str; 8] = [
    r#"["\ud83d\ud83d\ude00", "\ud83dx", "\ud83d\n", "\ud83d\u0041", "\ude00\ud83d", "\uD83D\\", "\u0000\u001f\u007f"]"#,
    r#"{"\ud83d": 1, "\ud83d\ude00": {"\u0061": [2]}, "a\/b~": {"": 0}, "\ud83d": 2, "a": {"a": 1, "\u0061": 2}}"#,
    "[0, -0, 1.0, 1e5, 1E+400, -1e-400, 18446744073709551615, 18446744073709551616, 123456789012345678901234567890]",
    "[-9223372036854775808, -9223372036854775809, 0.1, 5e-324, -12.5e-3]",
    r#""a root \u00e9""#,
    "-12.5e-3",
    " true ",
    "Well:\n```json\n{\"fenced\": [\"é漢😀\"]}\n```\n",
];

/// Keys with halves of surrogate pairs, and keys that look like them.
const HALVES: &str = r#"{"\ud83d": 1, "\ud83e": 2, "\\ud83d": 3, "\uD83D": 4, "\\ud83d": 5, "a\ud83db": 6, "\ufffd": 7,
    "a\ud83d\u0062": 8, "a\uD83Ec": 9, "\ud83d\ude00": 10, "\ude00\ud83d": 11, "\uFFFD": 12, "a\\ud83db": 13}"#;

/// Returns a live value of `text`, pushed at once.
fn live(text: &str) -> LiveValue {
    let (mut document, mut value) = (Document::with_roots(1 << 20, Roots::Any), LiveValue::new());
    document.push_with(text, &mut value).unwrap();
    value
}

fn shown(value: &LiveValue) -> String {
    value.view().map_or_else(String::new, |view| view.to_string())
}

fn error<T: DeserializeOwned>(text: &str) -> SnapshotError {
    match live(text).snapshot::<T>() {
        Ok(_) => panic!("{text} is taken"),
        Err(error) => error,
    }
}

/// A view prints the document's complete part, read by serde_json and written again: at every byte of short documents,
/// at some hundred places of long ones.
#[test]
fn the_view_is_the_complete_part_at_every_byte() {
    for text in MORE {
        run(text, &(1..text.len()).collect::<Vec<_>>(), Trailing::Stop, 1);
    }
    let (documents, recorded) = all_documents(256 << 10);
    for (name, text) in documents {
        println!("{name}");
        let (mut document, mut value, mut pushed) = (Document::new(1024), LiveValue::new(), 0);
        for cut in cuts(&text, 3000, 40).into_iter().chain([text.len()]) {
            document.push_with(&text[pushed..cut], &mut value).unwrap();
            check_against(&document, &value);
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
    for (name, text) in documents.into_iter().chain(more) {
        println!("{name}");
        let every = 1 + text.len() / 400;
        let (_, whole) = run(&text, &[], Trailing::Stop, 1);
        let sizes = [1, 2, 3, 7].map(|size| (1..text.len()).filter(|at| at % size == 0).collect::<Vec<_>>());
        for cuts in sizes.into_iter().chain((0..4).map(|_| random_cuts(text.len(), &mut rng))) {
            let (_, value) = run(&text, &cuts, Trailing::Stop, every);
            assert_eq!(shown(&value), shown(&whole), "{cuts:?}");
            assert_eq!(value.duplicates(), whole.duplicates());
        }
    }
    println!("covered: {recorded} documents of the corpus");
}

#[test]
fn the_prefix_check_can_fail() {
    let tree = |text: &str| Tree::of(live(text).view().unwrap());
    for (now, later, is_prefix) in [
        ("[1", "[1", false), // No number is shown yet.
        ("[1,", "[1, 2]", true),
        ("[1]", "[1, 2]", false),
        ("[1, 2]", "[1,", false),
        ("[1,", "[2,", false),
        ("[\"a", "[\"ab\", 1", true),
        ("[\"a\"", "[\"ab\"", false),
        ("[\"ab", "[\"a", false),
        ("{\"a\": [", "{\"a\": [1]}", true),
        ("{\"a\": [],", "{\"a\": [1]}", false),
        ("{\"a\": 1,", "{\"b\": 1,", false),
        ("[", "{", false),
    ] {
        let (now, later) = (tree(now), tree(later));
        assert_eq!(now.is_prefix_of(&later), is_prefix || now == later, "{now:?} and {later:?}");
    }
}

/// Columns: the text, what is shown, what is shown with open strings omitted.
#[test]
fn open_strings_are_included_or_omitted() {
    for (text, show, hold) in [
        ("", "", ""),
        (" ", "", ""),
        ("12", "", ""),
        ("tru", "", ""),
        ("\"", "\"\"", ""),
        ("\"a", "\"a\"", ""),
        ("\"a\"", "\"a\"", "\"a\""),
        ("{", "{}", "{}"),
        ("{\"a", "{}", "{}"),
        ("{\"a\"", "{}", "{}"),
        ("{\"a\":", "{}", "{}"),
        ("{\"a\":\"", "{\"a\":\"\"}", "{}"),
        ("{\"a\":\"b\\", "{\"a\":\"b\"}", "{}"),
        ("{\"a\":\"b\\u00e", "{\"a\":\"b\"}", "{}"),
        ("{\"a\":\"b\\ud83d\\ude0", "{\"a\":\"b\"}", "{}"),
        ("{\"a\":\"b\\ud83d\\ude00", "{\"a\":\"b😀\"}", "{}"),
        ("{\"a\":\"b\"", "{\"a\":\"b\"}", "{\"a\":\"b\"}"),
        ("{\"a\":0,\"b\":[1,\"c", "{\"a\":0,\"b\":[1,\"c\"]}", "{\"a\":0,\"b\":[1]}"),
        ("{\"a\":0,\"b\":-", "{\"a\":0}", "{\"a\":0}"),
        ("[1,2", "[1]", "[1]"),
        ("[1,2 ", "[1,2]", "[1,2]"),
        ("[nul", "[]", "[]"),
        ("[[],{}", "[[],{}]", "[[],{}]"),
    ] {
        let value = live(text);
        let print = |strings| value.view_with(strings).map_or_else(String::new, |view| view.to_string());
        assert_eq!((print(Partial::Include).as_str(), print(Partial::Omit).as_str()), (show, hold), "{text}");
        for strings in [Partial::Include, Partial::Omit] {
            // Every value is counted, and found from both ends.
            value.view_with(strings).map(Tree::of);
        }
    }
}

#[test]
fn a_view_is_read_by_hand() {
    let value = live(r#"{"a": {"b": [true, null, "x", -1.50]}, "": 0, "m~n/o": 1, "a": 2, "open": ["gro"#);
    let root = value.view().unwrap();
    let at = |pointer: &str| root.pointer(pointer).unwrap();
    assert_eq!((root.kind(), root.len(), root.is_whole()), (ValueKind::Object, 5, false));
    assert_eq!(root.members().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "", "m~n/o", "a", "open"]);
    assert_eq!(at("/a/b/0").as_bool(), Some(true));
    assert!(at("/a/b/1").is_null());
    assert_eq!((at("/a/b/2").as_str(), at("/a/b/2").kind()), (Some("x"), ValueKind::String));
    assert_eq!(at("/a/b/3").as_number().map(Number::as_str), Some("-1.50"));
    assert_eq!((at("").path(), at("/").path(), at("/m~0n~1o").path()), ("".into(), "/".into(), "/m~0n~1o".into()));
    assert_eq!((at("/a/b/3").path().as_str(), at("/open/0").path().as_str()), ("/a/b/3", "/open/0"));
    assert!(at("/a").is_whole() && !at("/open").is_whole() && !at("/open/0").is_whole());
    // `get` returns the first of two members with the same key: what was shown does not change.
    assert_eq!(root.get("a").unwrap().kind(), ValueKind::Object);
    for nowhere in
        ["a", "/b", "/a/b/4", "/a/b/01", "/a/b/-", "/a/b/+1", "/a/b/", "/a/b/0/0", "/a/b/18446744073709551615"]
    {
        assert!(root.pointer(nowhere).is_none(), "{nowhere}");
    }
    let growing = root.last().and_then(View::last).unwrap();
    assert_eq!((growing.as_str(), growing.key(), root.last().unwrap().key()), (Some("gro"), None, Some("open")));
    assert_eq!(format!("{growing:?} {}", at("/a")), r#""gro" {"b":[true,null,"x",-1.50]}"#);
    // Accessors of other types return nothing.
    let null = at("/a/b/1");
    assert_eq!((null.as_str(), null.as_bool(), null.as_number()), (None, None, None));
    assert!(null.get("a").is_none() && null.index(0).is_none() && null.last().is_none() && null.is_empty());
    assert!(root.index(0).is_none() && at("/a/b").get("0").is_none());
}

#[derive(Debug, PartialEq, Deserialize)]
struct Report {
    title: String,
    #[serde(default)]
    tags: Vec<String>,
    author: Option<Author>,
    #[serde(default)]
    size: (u32, f32),
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    counts: BTreeMap<String, i64>,
    #[serde(default)]
    by_number: HashMap<u8, bool>,
    #[serde(default)]
    state: State,
    #[serde(default)]
    wide: (i128, u128, i8),
    #[serde(default)]
    letter: Option<char>,
    #[serde(default)]
    nothing: (),
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Author {
    name: Name,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Name(String);

#[derive(Debug, PartialEq, Deserialize)]
enum Part {
    Break,
    Text(String),
    Table(u8, u8),
    Image { url: String, alt: Option<String> },
}

#[derive(Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    Draft,
    Done,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    A { x: u8 },
    B { y: Vec<Tagged> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i32),
    Text(String),
    Pair { a: i32, b: i32 },
}

const REPORT: &str = r#"{"title": "Ti\u0064es", "tags": ["a", "b"], "author": {"name": "N", "unknown": [[[]]]}, "size": [3, 4],
    "parts": ["Break", {"Text": "t"}, {"Table": [1, 2]}, {"Image": {"url": "u"}}, {"Image": {"alt": null, "url": ""}},
    {"Break": null}], "counts": {"z": -1, "a": 2}, "by_number": {"7": true, "255": false}, "state": "done",
    "wide": [-170141183460469231731687303715884105728, 340282366920938463463374607431768211455, -128], "letter": "é",
    "nothing": null, "more": {"n": [1.5, 18446744073709551616, -3]}, "and": "more"}"#;

#[test]
fn a_whole_document_is_what_serde_json_reads() {
    let value = live(REPORT);
    let (ours, theirs): (Report, Report) = (value.snapshot().unwrap(), serde_json::from_str(REPORT).unwrap());
    assert_eq!(ours, theirs);
    // A snapshot of `Option` fields succeeds from the first bracket on, or asks for more text.
    let (mut document, mut value, mut taken) = (Document::new(64), LiveValue::new(), 0);
    for c in REPORT.chars() {
        document.push_with(c.encode_utf8(&mut [0; 4]), &mut value).unwrap();
        match value.snapshot_with::<Report>(Partial::Omit) {
            Ok(report) => taken += usize::from(report.title == theirs.title),
            Err(error) => assert!(error.is_early(), "{error:?} at the end of {}", document.text()),
        }
    }
    assert!(taken > 200, "{taken}");
}

/// Every type of every text gives the same value as serde_json, or no value.
#[test]
fn types_are_taken_as_serde_json_takes_them() {
    fn both<T: DeserializeOwned + PartialEq + std::fmt::Debug>(texts: &[&str]) {
        for text in texts {
            let theirs = serde_json::from_str::<T>(text);
            let (mut document, mut value) = (Document::with_roots(64, Roots::Any), LiveValue::new());
            document.push_with(text, &mut value).unwrap();
            document.finish_with(&mut value).unwrap();
            let ours = value.snapshot::<T>();
            match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
                (Err(ours), Err(_)) => assert_eq!(ours.kind(), SnapshotErrorKind::Mismatch, "{text}: {ours:?}"),
                _ => panic!("{} of {text}: {ours:?}, {theirs:?}", std::any::type_name::<T>()),
            }
        }
    }
    let texts = [
        "null",
        "true",
        "0",
        "-0",
        "1",
        "-1",
        "1.0",
        "1e2",
        "256",
        "-129",
        "1e400",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"1\"",
        "[]",
        "[1]",
        "[1,2]",
        "[1,2,3]",
        "[\"a\"]",
        "[null]",
        "{}",
        "{\"a\":1}",
        "{\"a\":1,\"b\":2}",
        "{\"a\":1,\"a\":2}",
        "{\"1\":2}",
        "{\"true\":2}",
        "{\"Break\":null}",
        "\"Break\"",
        "\"Text\"",
        "{\"Text\":\"t\"}",
        "{\"Table\":[1]}",
        "{\"Table\":[1,2]}",
        "{\"Table\":[1,2,3]}",
        "{\"Image\":{\"url\":\"u\"}}",
        "{\"Image\":{}}",
        "{\"Image\":[\"u\",null]}",
        "{\"Nope\":1}",
        "\"Nope\"",
        "{\"Break\":null,\"Text\":\"t\"}",
        "{\"kind\":\"A\",\"x\":1}",
        "{\"x\":1,\"kind\":\"A\"}",
        "{\"kind\":\"B\",\"y\":[{\"kind\":\"A\",\"x\":300}]}",
        "{\"kind\":\"B\",\"y\":[{\"kind\":\"A\",\"x\":3}]}",
        "{\"kind\":\"C\"}",
        "{\"name\":\"n\"}",
        "{\"name\":1}",
        "[\"n\"]",
    ];
    both::<Option<bool>>(&texts);
    both::<bool>(&texts);
    both::<()>(&texts);
    both::<(u8, i8)>(&texts);
    both::<u8>(&texts);
    both::<u64>(&texts);
    both::<i64>(&texts);
    both::<i128>(&texts.iter().copied().filter(|text| *text != "1e2").collect::<Vec<_>>());
    both::<f32>(&texts.iter().copied().filter(|text| *text != "1e400").collect::<Vec<_>>());
    both::<f64>(&texts);
    both::<char>(&texts);
    both::<String>(&texts);
    both::<Name>(&texts);
    both::<Vec<Option<u8>>>(&texts);
    both::<[u8; 2]>(&texts);
    both::<HashMap<String, u8>>(&texts);
    both::<HashMap<u8, u8>>(&texts);
    both::<HashMap<bool, u8>>(&texts);
    both::<HashMap<char, Option<u8>>>(&texts);
    both::<Author>(&texts);
    both::<Part>(&texts);
    both::<State>(&texts);
    both::<Tagged>(&texts);
    both::<Untagged>(&texts);
    both::<Value>(&texts);
    both::<IgnoredAny>(&["null", "[[1]]", "{\"a\":{}}"]);
    both::<Vec<(String, Box<Part>)>>(&["[[\"a\",\"Break\"]]", "[[\"a\",{\"Text\":\"b\"}],[\"c\"]]"]);
}

/// Columns: the text, whether the error is early, its path, part of its message. The function gives the type.
#[test]
fn errors_say_whether_more_text_would_help() {
    fn expect<T: DeserializeOwned>(cases: &[(&str, bool, &str, &str)]) {
        for (text, early, path, message) in cases {
            let error = error::<T>(text);
            assert_eq!((error.is_early(), error.path()), (*early, *path), "{text}: {error:?}");
            assert!(error.message().contains(message), "{text}: {error:?}");
        }
    }
    expect::<Author>(&[
        ("", true, "", "no value has come"),
        ("{", true, "", "missing field `name`"),
        ("{\"name\"", true, "", "missing field `name`"),
        ("{}", false, "", "missing field `name`"),
        ("{\"name\": 1, ", false, "/name", "invalid type: integer `1`, expected a string"),
        ("{\"name\": [", false, "/name", "invalid type: sequence, expected a string"),
        ("{\"name\": null, ", false, "/name", "invalid type: null, expected a string"),
        ("{\"name\": \"a\", \"name\": \"", false, "", "duplicate field `name`"),
    ]);
    expect::<Vec<Author>>(&[
        ("[{\"name\": \"a\"}, {", true, "/1", "missing field"),
        ("[{\"name\": \"a\"}, {}, {", false, "/1", "missing field"),
        ("[[], ", false, "/0", "invalid length 0"),
        ("[[", true, "/0", "invalid length 0"),
        ("{\"", false, "", "invalid type: map, expected a sequence"),
    ]);
    expect::<BTreeMap<String, (u8, u8)>>(&[
        ("{\"a~/\": [1, ", true, "/a~0~1", "invalid length 1"),
        ("{\"a\": [1]", false, "/a", "invalid length 1"),
        ("{\"a\": [1, 2, 3, ", false, "/a", "fewer elements"),
        ("{\"a\": [1, 256, ", false, "/a/1", "256"),
        ("{\"a\": [1, -1e3 ", false, "/a/1", "expected u8"),
    ]);
    expect::<Part>(&[
        ("\"Te", true, "", "unknown variant `Te`"),
        ("\"Te\"", false, "", "unknown variant `Te`"),
        ("\"Text", true, "", "newtype variant"),
        ("\"Text\"", false, "", "newtype variant"),
        ("{", true, "", "single key"),
        ("{}", false, "", "single key"),
        ("{\"Te\": [", false, "/Te", "unknown variant `Te`"),
        ("{\"Table\": [1, ", true, "/Table", "invalid length 1"),
        ("{\"Table\": [1], ", false, "/Table", "invalid length 1"),
        ("{\"Image\": {\"alt\": \"", true, "/Image", "missing field `url`"),
        ("{\"Break\": null, \"Text\": \"", false, "", "single key"),
        ("[", false, "", "expected"),
    ]);
    expect::<Tagged>(&[
        ("{\"x\": 1, ", true, "", "missing field `kind`"),
        ("{\"kind\": \"B\", \"y\": [{\"kind\": \"A\"", true, "", "missing field `x`"),
        ("{\"kind\": \"B\", \"y\": [{\"kind\": \"A\"}]}", false, "", "missing field `x`"),
    ]);
    expect::<Untagged>(&[
        ("{\"a\": 1, ", true, "", "did not match any variant"),
        ("{\"a\": 1}", false, "", "did not match any variant"),
    ]);
    expect::<HashMap<u8, bool>>(&[
        ("{\"a\": true, ", false, "/a", "expected u8"),
        ("{\"300\": true, ", false, "/300", "u8"),
    ]);
    expect::<f64>(&[("1e999 ", false, "", "number out of range")]);
    assert_eq!(error::<u8>("[1,").to_string(), "invalid type: sequence, expected u8 (at the root)");
    assert_eq!(error::<Author>("{").to_string(), "missing field `name` (at the root, which is not whole yet)");
    let late = error::<Vec<Author>>("[{");
    assert_eq!(format!("{late:?}"), "Early: missing field `name` (at /0, which is not whole yet)");
}

#[test]
fn a_part_is_taken_by_its_pointer() {
    let value = live(r#"{"a": {"rows": [[1, 2], [3, 4], [5"#);
    assert_eq!(value.snapshot_at::<(u8, u8)>("/a/rows/1").unwrap(), (3, 4));
    assert_eq!(value.snapshot_at::<Vec<Vec<u8>>>("/a/rows").unwrap(), [vec![1, 2], vec![3, 4], vec![]]);
    for (pointer, kind) in [
        ("/b", SnapshotErrorKind::Nothing),
        ("/a/rows/3", SnapshotErrorKind::Nothing),
        ("/a/rows/2/0", SnapshotErrorKind::Nothing),
        ("/a/rows/0/2", SnapshotErrorKind::Mismatch),
        ("/a/rows/0/0/0", SnapshotErrorKind::Mismatch),
        ("/a/rows/x", SnapshotErrorKind::Mismatch),
        ("a", SnapshotErrorKind::Mismatch),
    ] {
        let error = value.snapshot_at::<Value>(pointer).unwrap_err();
        assert_eq!((error.kind(), error.path()), (kind, pointer));
    }
    // Paths of errors count from the root.
    let error = value.snapshot_at::<Vec<(u8, String)>>("/a/rows").unwrap_err();
    assert_eq!(error.path(), "/a/rows/0/1");
    // A part may borrow.
    let value = live(r#"{"a": ["b\u0063", "d"#);
    let texts: Vec<&str> = value.view().and_then(|view| view.get("a")).unwrap().read().unwrap();
    assert_eq!(texts, ["bc", "d"]);
}

#[test]
fn half_of_a_name_can_be_omitted() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        state: Option<State>,
    }
    let value = live(r#"[{"state": "draft"}, {"state": "do"#);
    assert!(value.snapshot::<Vec<Item>>().unwrap_err().is_early());
    let items: Vec<Item> = value.snapshot_with(Partial::Omit).unwrap();
    assert_eq!(items, [Item { state: Some(State::Draft) }, Item { state: None }]);
    assert!(value.snapshot_at::<Item>("/1").unwrap_err().is_early());
    assert_eq!(value.snapshot_at_with::<Item>("/1", Partial::Omit).unwrap(), items[1]);
    let held = value.snapshot_at_with::<State>("/1/state", Partial::Omit).unwrap_err();
    assert_eq!((held.kind(), held.path()), (SnapshotErrorKind::Nothing, "/1/state"));
}

#[test]
fn numbers_keep_their_text() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        n: OwnedNumber,
        more: Option<Vec<OwnedNumber>>,
    }
    let texts =
        ["1.0", "1e5", "-0", "0", "-1.50E+2", "123456789012345678901234567890", "1e400", "18446744073709551615"];
    let text = format!("{{\"n\": {}, \"more\": [{}]}}", texts[0], texts.join(", "));
    let value = live(&text);
    let row: Row = value.snapshot().unwrap();
    assert_eq!(row.n.as_str(), "1.0");
    assert_eq!(row.more.as_ref().unwrap().iter().map(OwnedNumber::as_str).collect::<Vec<_>>(), texts);
    assert_eq!(shown(&value), compact(&text));
    let number = |n: usize| value.view().unwrap().pointer(&format!("/more/{n}")).unwrap().as_number().unwrap();
    assert_eq!((number(0).as_u64(), number(0).as_i64(), number(0).as_f64()), (None, None, Some(1.0)));
    assert_eq!((number(1).as_u64(), number(1).as_f64()), (None, Some(1e5)));
    assert_eq!((number(2).as_u64(), number(2).as_i64(), number(2).as_i128()), (None, None, None));
    assert!(number(2).as_f64().unwrap().is_sign_negative());
    assert_eq!((number(3).as_u64(), number(3).as_i64()), (Some(0), Some(0)));
    assert_eq!((number(5).as_u128(), number(5).as_u64()), (Some(123456789012345678901234567890), None));
    assert_eq!((number(6).as_f64(), number(7).as_u64()), (None, Some(u64::MAX)));
    assert_eq!(OwnedNumber::from(number(4)).to_string(), "-1.50E+2");
    assert_eq!(
        [OwnedNumber::from(u64::MAX).as_str(), OwnedNumber::from(i64::MIN).as_str()],
        [texts[7], "-9223372036854775808"]
    );
    assert!(texts.iter().all(|text| text.parse::<OwnedNumber>().unwrap().as_str() == *text));
    for text in ["", "-", "01", "1.", ".5", "1e", " 1", "1 ", "+1", "0x1", "NaN", "1,2", "null", "[1]"] {
        assert_eq!(text.parse::<OwnedNumber>().unwrap_err().to_string(), "not a JSON number", "{text}");
    }
    // From another deserializer it is the number that serde passes, and is written as one.
    let row: Row =
        serde_json::from_str(r#"{"n": 1.50, "more": [7, -7, 1e300, 123456789012345678901234567890]}"#).unwrap();
    let texts: Vec<_> = row.more.as_ref().unwrap().iter().map(OwnedNumber::as_str).collect();
    assert_eq!((row.n.as_str(), texts), ("1.5", vec!["7", "-7", "1e300", "1.2345678901234568e29"]));
    assert_eq!(serde_json::to_value(&row).unwrap(), json!({"n": 1.5, "more": [7, -7, 1e300, 1.2345678901234568e29]}));
    assert!(serde_json::from_str::<Row>(r#"{"n": "1"}"#).is_err());
    assert!(serde_json::to_string(&number(6)).is_err(), "out of range");
    let wrong = error::<Row>(r#"{"n": "1", "#);
    assert_eq!((wrong.path(), wrong.message()), ("/n", "invalid type: string \"1\", expected a number"));
}

#[test]
fn a_view_is_serialized() {
    for text in INLINE {
        let value = live(text);
        let expect: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(value.view()).unwrap(), expect, "{text}");
    }
    assert_eq!(serde_json::to_string(&live(r#"{"b": [1.0, "x"#).view()).unwrap(), r#"{"b":[1.0,"x"]}"#);
}

#[test]
fn duplicate_keys_are_flagged_once() {
    let text =
        r#"{"a": {"k": 1, "\u006b": 2, "k": 3}, "b": [{"k": 0}, {"k": 0, "x/": {"k": 0}, "x\/": 1}], "\u0061": "}"#;
    let (mut document, mut value, mut seen) = (Document::new(64), LiveValue::new(), Vec::new());
    for (at, c) in text.char_indices() {
        document.push_with(c.encode_utf8(&mut [0; 4]), &mut value).unwrap();
        while let Some(duplicate) = value.duplicates().get(seen.len()) {
            seen.push((at, duplicate.span.of(text), value.path_of(duplicate)));
        }
    }
    let nth = |key: &str, n: usize| text.match_indices(key).nth(n).unwrap().0 + key.len() - 1;
    assert_eq!(
        seen,
        [
            (nth("\"\\u006b\"", 0), "\\u006b", "/a/k".to_owned()),
            (nth("\"k\"", 1), "k", "/a/k".to_owned()),
            (nth("\"x\\/\"", 0), "x\\/", "/b/1/x~1".to_owned()),
            (nth("\"\\u0061\"", 0), "\\u0061", "/a".to_owned()),
        ]
    );
    // `get` returns the first one; all are kept.
    let root = value.view().unwrap();
    assert_eq!(root.pointer("/a/k").unwrap().to_string(), "1");
    assert_eq!(root.get("a").unwrap().to_string(), r#"{"k":1,"k":2,"k":3}"#);
    // Keys that differ in half of a surrogate pair differ, and so do a key with such a half and one with its escape as
    // text.
    let (halves, flagged) = (live(HALVES), ["\\uD83D", "\\\\ud83d", "a\\ud83d\\u0062", "\\uFFFD"]);
    let spans = |value: &LiveValue| value.duplicates().iter().map(|one| one.span.of(HALVES)).collect::<Vec<_>>();
    assert_eq!(spans(&halves), flagged);
    // The same in an object that is large enough for a table.
    let many: String = (0..100).map(|n| format!("\"k{n}\": 0, ")).collect();
    let many = HALVES.replacen('{', &format!("{{{many}"), 1);
    let many: Vec<_> = live(&many).duplicates().iter().map(|one| one.span.of(&many).to_owned()).collect();
    assert_eq!(many, flagged);
    // A new root has no duplicates.
    let mut document = Document::with_options(64, Roots::Containers, Trailing::Next);
    document.push_with(r#"{"a": 1, "a": 2}"#, &mut value).unwrap();
    assert_eq!(
        value.duplicates().iter().map(|duplicate| duplicate.span).collect::<Vec<_>>(),
        [Span { start: 10, end: 11 }]
    );
    document.push_with("\n{\"a\": 1", &mut value).unwrap();
    assert_eq!((value.duplicates(), shown(&value).as_str()), (&[][..], "{}"));
}

/// An object of a hundred thousand keys, and as many small objects after it. If a key cost O(its object), or O(the
/// object before), this test would not end.
#[test]
fn many_keys() {
    let keys = 100_000;
    let member = |n: usize| format!("\"key {n}\": {n}");
    let all = (0..keys).map(member).collect::<Vec<_>>().join(",");
    let small = vec![r#"{"a": 1, "b": 2, "a": 3}"#; keys].join(",");
    let text = format!("[{{{all}, {}}}, {small}, {{\"x\": 1, {all}}}]", member(77_777));
    let (mut document, mut value) = (Document::new(64), LiveValue::new());
    for chunk in text.as_bytes().chunks(1 << 10) {
        document.push_with(std::str::from_utf8(chunk).unwrap(), &mut value).unwrap();
    }
    assert_eq!(value.duplicates().len(), 1 + keys);
    assert_eq!(value.path_of(&value.duplicates()[0]), "/0/key 77777");
    let root = value.view().unwrap();
    assert_eq!((root.len(), root.index(0).unwrap().len(), root.last().unwrap().len()), (keys + 2, keys + 1, keys + 1));
    assert_eq!(root.pointer("/0/key 99999").unwrap().as_number().and_then(Number::as_u64), Some(99_999));
}

#[test]
fn a_million_open_arrays() {
    let depth = 1_000_000;
    let mut document = Document::new(depth);
    let mut value = LiveValue::new();
    document.push_with(&"[".repeat(depth), &mut value).unwrap();
    assert_eq!(shown(&value), ["[".repeat(depth), "]".repeat(depth)].concat());
    document.push_with(&["7", &"]".repeat(depth)].concat(), &mut value).unwrap();
    assert_eq!(shown(&value), ["[".repeat(depth).as_str(), "7", &"]".repeat(depth)].concat());
    assert_eq!(value.clone().snapshot::<Value>().unwrap_err().kind(), SnapshotErrorKind::TooDeep);
    assert!(value.snapshot::<IgnoredAny>().is_ok());
    let mut innermost = value.view().unwrap();
    while let Some(last) = innermost.last() {
        innermost = last;
    }
    assert_eq!(innermost.path().len(), 2 * depth);
}

#[test]
fn types_are_read_through_128_nested_containers() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(live(&nested(128)).snapshot::<Value>().is_ok());
    let value = live(&nested(129));
    let error = value.snapshot::<Value>().unwrap_err();
    assert_eq!((error.kind(), error.path()), (SnapshotErrorKind::TooDeep, "/0".repeat(128).as_str()));
    assert_eq!(error.message(), "more than 128 containers within each other");
    assert!(!error.is_early());
    assert!(value.snapshot_at::<Value>("/0").is_ok());
    assert!(serde_json::to_string(&value.view()).is_err());
    assert_eq!(serde_json::to_string(&value.view().unwrap().index(0)).unwrap(), nested(128));
    let mixed = format!("{}1{}", "{\"a\": [".repeat(65), "]}".repeat(65));
    assert_eq!(live(&mixed).snapshot::<Value>().unwrap_err().kind(), SnapshotErrorKind::TooDeep);
    let skipped = format!("{{\"name\": \"n\", \"deep\": {}}}", nested(500));
    assert!(live(&skipped).snapshot::<Author>().is_ok());
}

#[test]
fn a_clone_is_a_checkpoint() {
    let text = REPORT;
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

/// A root starts after another one has ended.
#[test]
fn the_newest_root_is_shown() {
    let mut document = Document::with_options(64, Roots::Any, Trailing::Next);
    let mut value = LiveValue::new();
    for (push, expect) in [
        ("{\"a\": [1", "{\"a\":[]}"),
        ("]}", "{\"a\":[1]}"),
        ("\n[", "[]"),
        ("2]\n3", "[2]"),
        (" \"fo", "\"fo\""),
        ("ur\" tr", "\"four\""),
        ("ue", "true"),
        (" {", "{}"),
    ] {
        document.push_with(push, &mut value).unwrap();
        assert_eq!(shown(&value), expect, "behind {push}");
    }
    assert_eq!(document.roots(), 5);
}

/// A sink that misses pushes shows only what it knows.
#[test]
fn missing_events_are_noticed() {
    let text = r#"{"a": ["one", {"b": "two\n"}, 3], "c": {"d": [true, [], {}], "e": 4}, "f": [[[5]], ""], "g": "#;
    for (start, _) in text.char_indices() {
        for end in start + 1..text.len() {
            let (mut document, mut value, mut all) = (Document::new(64), LiveValue::new(), LiveValue::new());
            document.push_with(&text[..start], &mut (&mut value, &mut all)).unwrap();
            document.push_with(&text[start..end], &mut all).unwrap();
            let known = Tree::of(all.view().unwrap_or(live("{").view().unwrap()));
            let mut told = 0;
            let counting = json::each(|_, _| told += 1);
            document.push_with(&text[end..], &mut (&mut value, &mut all, counting)).unwrap();
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
    assert_eq!((shown(&value).as_str(), value.is_stale()), (r#"[["a"]]"#, true));
    let (mut document, mut late) = (Document::new(64), LiveValue::new());
    document.push(r#"{"a": "b"#).unwrap();
    document.push_with(r#"c", "d": [1, {}]}"#, &mut late).unwrap();
    assert!(late.view().is_none() && late.is_stale());
}

/// Short texts of the grammar's own bytes.
#[test]
fn random_texts() {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "d83d",
        "\\ude00",
        "0",
        "1",
        "-",
        ".5",
        "e9",
        "true",
        "null ",
        "\"a\":",
        "\"a\": \"b\",",
        "\"\\u0061\": [",
        "{\"",
        "\u{e9}",
        "\u{1f600}",
        "\n",
    ];
    let mut rng = Rng::new(11);
    for _ in 0..4000 {
        let mut input = vec![rng.next() as u8];
        for _ in 0..rng.below(20) {
            input.extend(rng.pick(&pieces).as_bytes());
        }
        check(&input);
    }
}

/// serde reads a number as the index of a variant; a JSON document never means that.
#[test]
fn a_number_does_not_name_a_variant() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(tag = "t")]
    enum Tagged {
        A { a: i32 },
        B,
    }
    for text in ["[1]", "[0, 5]"] {
        let (mut document, mut value) = (Document::new(8), LiveValue::new());
        document.push_with(text, &mut value).unwrap();
        assert!(serde_json::from_str::<Tagged>(text).is_err());
        let error = value.snapshot::<Tagged>().unwrap_err();
        assert!(!error.is_early(), "{error}");
    }
    let (mut document, mut value) = (Document::new(8), LiveValue::new());
    document.push_with(r#"[{"t": "A", "a": 5}, {"t": "B"}]"#, &mut value).unwrap();
    assert_eq!(value.snapshot::<Vec<Tagged>>().unwrap(), [Tagged::A { a: 5 }, Tagged::B]);
}
