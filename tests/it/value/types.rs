//! Live values read as types: what fits, errors, numbers.

use super::*;

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

#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
struct Name(String);

#[derive(Debug, PartialEq, Deserialize)]
enum Part {
    Break,
    Text(String),
    Table(u8, u8),
    Image { url: String, alt: Option<String> },
}

#[derive(Debug, PartialEq, Eq, Hash, Deserialize, Default)]
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

pub(super) const REPORT: &str = r#"{"title": "Ti\u0064es", "tags": ["a", "b"], "author": {"name": "N", "unknown": [[[]]]}, "size": [3, 4],
    "parts": ["Break", {"Text": "t"}, {"Table": [1, 2]}, {"Image": {"url": "u"}}, {"Image": {"alt": null, "url": ""}},
    {"Break": null}], "counts": {"z": -1, "a": 2}, "by_number": {"7": true, "255": false}, "state": "done",
    "wide": [-170141183460469231731687303715884105728, 340282366920938463463374607431768211455, -128], "letter": "é",
    "nothing": null, "more": {"n": [1.5, 18446744073709551616, -3]}, "and": "more"}"#;

#[test]
fn a_whole_document_is_what_serde_json_reads() {
    let value = live(REPORT);
    let (ours, theirs): (Report, Report) = (
        value.snapshot().unwrap(),
        serde_json::from_str(REPORT).unwrap(),
    );
    assert_eq!(ours, theirs);
    // A snapshot of `Option` fields succeeds from the first bracket on, or asks for more text.
    let (mut document, mut value, mut taken) = (Document::new(64), LiveValue::new(), 0);
    for c in REPORT.chars() {
        document
            .push_with(c.encode_utf8(&mut [0; 4]), &mut value)
            .unwrap();
        match value.snapshot_with::<Report>(Partial::Omit) {
            Ok(report) => taken += usize::from(report.title == theirs.title),
            Err(error) => assert!(
                error.is_early(),
                "{error:?} at the end of {}",
                document.text()
            ),
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
            let (mut document, mut value) = (
                Document::with_roots(64, AllowedRoots::Any),
                LiveValue::new(),
            );
            document.push_with(text, &mut value).unwrap();
            document.finish_with(&mut value).unwrap();
            let ours = value.snapshot::<T>();
            match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
                (Err(ours), Err(_)) => {
                    assert_eq!(ours.kind(), SnapshotErrorKind::Mismatch, "{text}: {ours:?}");
                }
                _ => panic!(
                    "{} of {text}: {ours:?}, {theirs:?}",
                    std::any::type_name::<T>()
                ),
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
        "{\"false\":2}",
        "{\"done\":2}",
        "{\"-170141183460469231731687303715884105728\":2}",
        "{\"340282366920938463463374607431768211455\":2}",
        "{\"340282366920938463463374607431768211456\":2}",
        "{\"Break\":null}",
        "\"Break\"",
        "\"Text\"",
        "\"Table\"",
        "\"Image\"",
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
    both::<i128>(
        &texts
            .iter()
            .copied()
            .filter(|text| *text != "1e2")
            .collect::<Vec<_>>(),
    );
    both::<u128>(
        &texts
            .iter()
            .copied()
            .filter(|text| *text != "1e2")
            .collect::<Vec<_>>(),
    );
    both::<f32>(
        &texts
            .iter()
            .copied()
            .filter(|text| *text != "1e400")
            .collect::<Vec<_>>(),
    );
    both::<f64>(&texts);
    both::<char>(&texts);
    both::<String>(&texts);
    both::<Name>(&texts);
    both::<Vec<Option<u8>>>(&texts);
    both::<[u8; 2]>(&texts);
    both::<HashMap<String, u8>>(&texts);
    both::<HashMap<u8, u8>>(&texts);
    both::<HashMap<i128, u8>>(&texts);
    both::<HashMap<u128, u8>>(&texts);
    both::<HashMap<bool, u8>>(&texts);
    both::<HashMap<State, u8>>(&texts);
    both::<HashMap<Name, u8>>(&texts);
    both::<HashMap<Option<String>, u8>>(&texts);
    both::<HashMap<char, Option<u8>>>(&texts);
    both::<Author>(&texts);
    both::<Part>(&texts);
    both::<State>(&texts);
    both::<Tagged>(&texts);
    both::<Untagged>(&texts);
    both::<Value>(&texts);
    both::<IgnoredAny>(&["null", "[[1]]", "{\"a\":{}}"]);
    both::<Vec<(String, Box<Part>)>>(&[
        "[[\"a\",\"Break\"]]",
        "[[\"a\",{\"Text\":\"b\"}],[\"c\"]]",
    ]);
}

/// Columns: the text, whether the error is early, its path, part of its message. The function gives
/// the type.
#[test]
fn errors_say_whether_more_text_would_help() {
    fn expect<T: DeserializeOwned>(cases: &[(&str, bool, &str, &str)]) {
        for (text, early, path, message) in cases {
            let error = error::<T>(text);
            assert_eq!(
                (error.is_early(), error.path()),
                (*early, *path),
                "{text}: {error:?}"
            );
            assert!(error.message().contains(message), "{text}: {error:?}");
        }
    }
    expect::<Author>(&[
        ("", true, "", "no value was received"),
        ("{", true, "", "missing field `name`"),
        ("{\"name\"", true, "", "missing field `name`"),
        ("{}", false, "", "missing field `name`"),
        (
            "{\"name\": 1, ",
            false,
            "/name",
            "invalid type: integer `1`, expected a string",
        ),
        (
            "{\"name\": [",
            false,
            "/name",
            "invalid type: sequence, expected a string",
        ),
        (
            "{\"name\": null, ",
            false,
            "/name",
            "invalid type: null, expected a string",
        ),
        (
            "{\"name\": \"a\", \"name\": \"",
            false,
            "",
            "duplicate field `name`",
        ),
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
        (
            "{\"Image\": {\"alt\": \"",
            true,
            "/Image",
            "missing field `url`",
        ),
        ("{\"Break\": null, \"Text\": \"", false, "", "single key"),
        ("[", false, "", "expected"),
    ]);
    expect::<Tagged>(&[
        ("{\"x\": 1, ", true, "", "missing field `kind`"),
        (
            "{\"kind\": \"B\", \"y\": [{\"kind\": \"A\"",
            true,
            "",
            "missing field `x`",
        ),
        (
            "{\"kind\": \"B\", \"y\": [{\"kind\": \"A\"}]}",
            false,
            "",
            "missing field `x`",
        ),
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
    assert_eq!(
        error::<u8>("[1,").to_string(),
        "invalid type: sequence, expected u8 (at the root)"
    );
    assert_eq!(
        error::<Author>("{").to_string(),
        "missing field `name` (at the root, which is not complete yet)"
    );
    let late = error::<Vec<Author>>("[{");
    assert_eq!(
        format!("{late:?}"),
        "Early: missing field `name` (at /0, which is not complete yet)"
    );
}

#[test]
fn a_part_is_taken_by_its_pointer() {
    let value = live(r#"{"a": {"rows": [[1, 2], [3, 4], [5"#);
    assert_eq!(value.snapshot_at::<(u8, u8)>("/a/rows/1").unwrap(), (3, 4));
    assert_eq!(
        value.snapshot_at::<Vec<Vec<u8>>>("/a/rows").unwrap(),
        [vec![1, 2], vec![3, 4], vec![]]
    );
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
    let error = value
        .snapshot_at::<Vec<(u8, String)>>("/a/rows")
        .unwrap_err();
    assert_eq!(error.path(), "/a/rows/0/1");
    // A part may borrow.
    let value = live(r#"{"a": ["b\u0063", "d"#);
    let texts: Vec<&str> = value
        .view()
        .and_then(|view| view.get("a"))
        .unwrap()
        .read()
        .unwrap();
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
    assert_eq!(
        items,
        [
            Item {
                state: Some(State::Draft)
            },
            Item { state: None }
        ]
    );
    assert!(value.snapshot_at::<Item>("/1").unwrap_err().is_early());
    let root = value.view_with(Partial::Omit).unwrap();
    assert_eq!(
        root.pointer("/1").unwrap().read::<Item>().unwrap(),
        items[1]
    );
    assert!(root.pointer("/1/state").is_none());
    let missing = value.snapshot_at::<State>("/2").unwrap_err();
    assert_eq!(
        (missing.kind(), missing.path()),
        (SnapshotErrorKind::Nothing, "/2")
    );
}

#[test]
fn numbers_keep_their_text() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        n: OwnedNumber,
        more: Option<Vec<OwnedNumber>>,
    }
    let texts = [
        "1.0",
        "1e5",
        "-0",
        "0",
        "-1.50E+2",
        "123456789012345678901234567890",
        "1e400",
        "18446744073709551615",
    ];
    let text = format!("{{\"n\": {}, \"more\": [{}]}}", texts[0], texts.join(", "));
    let value = live(&text);
    let row: Row = value.snapshot().unwrap();
    assert_eq!(row.n.as_str(), "1.0");
    assert_eq!(
        row.more
            .as_ref()
            .unwrap()
            .iter()
            .map(OwnedNumber::as_str)
            .collect::<Vec<_>>(),
        texts
    );
    assert_eq!(shown(&value), compact(&text));
    let number = |n: usize| {
        value
            .view()
            .unwrap()
            .pointer(&format!("/more/{n}"))
            .unwrap()
            .as_number()
            .unwrap()
    };
    assert_eq!(
        (number(0).as_u64(), number(0).as_i64(), number(0).as_f64()),
        (None, None, Some(1.0))
    );
    assert_eq!((number(1).as_u64(), number(1).as_f64()), (None, Some(1e5)));
    assert_eq!(
        (number(2).as_u64(), number(2).as_i64(), number(2).as_i128()),
        (None, None, None)
    );
    assert!(number(2).as_f64().unwrap().is_sign_negative());
    assert_eq!((number(3).as_u64(), number(3).as_i64()), (Some(0), Some(0)));
    assert_eq!(
        (number(5).as_u128(), number(5).as_u64()),
        (Some(123456789012345678901234567890), None)
    );
    assert_eq!(
        (number(6).as_f64(), number(7).as_u64()),
        (None, Some(u64::MAX))
    );
    assert_eq!(OwnedNumber::from(number(4)).to_string(), "-1.50E+2");
    // From another deserializer it is the number that serde passes, and is written as one.
    let row: Row = serde_json::from_str(
        r#"{"n": 1.50, "more": [7, -7, 1e300, 123456789012345678901234567890]}"#,
    )
    .unwrap();
    let texts: Vec<_> = row
        .more
        .as_ref()
        .unwrap()
        .iter()
        .map(OwnedNumber::as_str)
        .collect();
    assert_eq!(
        (row.n.as_str(), texts),
        ("1.5", vec!["7", "-7", "1e300", "1.2345678901234568e29"])
    );
    assert_eq!(
        serde_json::to_value(&row).unwrap(),
        json!({"n": 1.5, "more": [7, -7, 1e300, 1.2345678901234568e29]})
    );
    assert!(serde_json::from_str::<Row>(r#"{"n": "1"}"#).is_err());
    // Other deserializers may pass it at once, have wider numbers, and some that JSON has not.
    let passed = |number: Result<OwnedNumber, serde::de::value::Error>| {
        number.map(|number| number.to_string())
    };
    assert_eq!(
        passed(OwnedNumber::deserialize(7_u8.into_deserializer())),
        Ok("7".to_owned())
    );
    assert_eq!(
        passed(OwnedNumber::deserialize((-7_i8).into_deserializer())),
        Ok("-7".to_owned())
    );
    assert_eq!(
        passed(OwnedNumber::deserialize(u128::MAX.into_deserializer())),
        Ok(u128::MAX.to_string())
    );
    assert_eq!(
        passed(OwnedNumber::deserialize(i128::MIN.into_deserializer())),
        Ok(i128::MIN.to_string())
    );
    assert_eq!(
        passed(OwnedNumber::deserialize(1.5_f64.into_deserializer())),
        Ok("1.5".to_owned())
    );
    for wrong in [f64::INFINITY, f64::NAN] {
        let error = passed(OwnedNumber::deserialize(wrong.into_deserializer())).unwrap_err();
        assert!(error.to_string().ends_with("expected a number"), "{error}");
    }
    assert!(serde_json::to_string(&number(6)).is_err(), "out of range");
    let wrong = error::<Row>(r#"{"n": "1", "#);
    assert_eq!(
        (wrong.path(), wrong.message()),
        ("/n", "invalid type: string \"1\", expected a number")
    );
}

#[test]
fn a_view_is_serialized() {
    for text in INLINE {
        let value = live(text);
        let expect: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_value(value.view()).unwrap(),
            expect,
            "{text}"
        );
    }
    assert_eq!(
        serde_json::to_string(&live(r#"{"b": [1.0, "x"#).view()).unwrap(),
        r#"{"b":[1.0,"x"]}"#
    );
}

#[test]
fn types_are_read_through_128_nested_containers() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(live(&nested(128)).snapshot::<Value>().is_ok());
    let value = live(&nested(129));
    let error = value.snapshot::<Value>().unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (SnapshotErrorKind::TooDeep, "/0".repeat(128).as_str())
    );
    assert_eq!(error.message(), "more than 128 nested containers");
    assert!(!error.is_early());
    assert!(value.snapshot_at::<Value>("/0").is_ok());
    assert!(serde_json::to_string(&value.view()).is_err());
    assert_eq!(
        serde_json::to_string(&value.view().unwrap().index(0)).unwrap(),
        nested(128)
    );
    let mixed = format!("{}1{}", "{\"a\": [".repeat(65), "]}".repeat(65));
    assert_eq!(
        live(&mixed).snapshot::<Value>().unwrap_err().kind(),
        SnapshotErrorKind::TooDeep
    );
    let skipped = format!("{{\"name\": \"n\", \"deep\": {}}}", nested(500));
    assert!(live(&skipped).snapshot::<Author>().is_ok());
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
    document
        .push_with(r#"[{"t": "A", "a": 5}, {"t": "B"}]"#, &mut value)
        .unwrap();
    assert_eq!(
        value.snapshot::<Vec<Tagged>>().unwrap(),
        [Tagged::A { a: 5 }, Tagged::B]
    );
}
