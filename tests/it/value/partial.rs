//! A text that may be cut, read as a type in one call.

use restitch::value::from_partial_str;

use super::*;

/// The value is that of the complete part, as `serde_json` reads it.
#[test]
fn a_cut_text_is_read_as_its_certain_part() {
    let text = r#"{"a": [1, 23, {"b": "ä\n\u00e9", "c": true, "d": null}], "e": -0.5e3, "": "x"}"#;
    let mut seen = 0;
    for cut in (0..=text.len()).filter(|&cut| text.is_char_boundary(cut)) {
        let mut document = Document::new(8);
        document.push(&text[..cut]).unwrap();
        let read = from_partial_str::<Value>(&text[..cut]);
        match document.complete() {
            Some(closed) => {
                let expected: Value = serde_json::from_str(&closed).unwrap();
                assert_eq!(read.unwrap(), expected, "{cut}");
                seen += 1;
            }
            None => assert_eq!(read.unwrap_err().kind(), SnapshotErrorKind::Nothing),
        }
    }
    assert!(seen > 60);
    for (cut, expected) in [
        (r#"{"a": [1, 23"#, r#"{"a": [1]}"#),
        (r#"{"a": [1, 23,"#, r#"{"a": [1, 23]}"#),
        (r#"{"a": "ä\u00"#, r#"{"a": "ä"}"#),
        (r#"{"a": 1, "b": tru"#, r#"{"a": 1}"#),
        (r#"{"a": 1, "b"#, r#"{"a": 1}"#),
    ] {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(from_partial_str::<Value>(cut).unwrap(), expected, "{cut}");
    }
}

#[test]
fn a_whole_text_is_read_as_serde_json_reads_it() {
    for text in [
        "{}",
        "[]",
        "\"\"",
        "true",
        "null",
        "12 ",
        " [1, 2.5, -3e2] ",
        r#"{"a": {"b": ["c"]}}"#,
    ] {
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_partial_str::<Value>(text).unwrap(), expected, "{text}");
    }
    // It may be the beginning of `123`.
    assert!(from_partial_str::<u32>("12").unwrap_err().is_early());
    assert_eq!(
        from_partial_str::<Vec<u32>>("```json\n[1, 2]\n```").unwrap(),
        [1, 2]
    );
}

#[test]
fn an_error_has_its_place() {
    fn message<T: DeserializeOwned>(text: &str) -> String {
        match from_partial_str::<T>(text) {
            Ok(_) => panic!("{text} is taken"),
            Err(error) => error.to_string(),
        }
    }
    type Rows = BTreeMap<String, Vec<u8>>;
    assert_eq!(
        message::<Rows>("{\"a\": [1],\n \"b\": [2, \"3"),
        "invalid type: string \"3\", expected u8 (at /b/1), line 2, column 11 (byte 21): ` \"b\": [2, →\"3`"
    );
    assert_eq!(
        message::<Rows>("{\"a\": [1,\n 2}"),
        "`}` closes nothing that is open here (at /a/1), line 2, column 3 (byte 12): ` 2→}`"
    );
    assert_eq!(
        message::<Rows>("[1] 2"),
        "text after the root, at `2` (at the root), line 1, column 5 (byte 4): `[1] →2`"
    );
    assert_eq!(message::<Rows>(" "), "no value was received (at the root)");
    // The first value with the path, whatever its key looks like.
    assert_eq!(
        message::<Rows>("{\"*\": [], \"a/b~\": 5, \"c\": []}"),
        "invalid type: integer `5`, expected a sequence (at /a~1b~0), line 1, column 19 (byte 18): `{\"*\": [], \"a/b~\": →5, \"c\": []}`"
    );
}
