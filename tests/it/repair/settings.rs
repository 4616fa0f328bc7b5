//! What models are known to do to JSON, each mistake in five settings: at a key, in a value,
//! nested, beside prose, and in a text that is cut after it. Expected values are written by hand.

use restitch::repair::{RepairOptions, RepairStatus, RepairedRoot, repair_root};

/// Repairs what begins at `text`, on the level of whole texts.
fn repaired(text: &str) -> RepairedRoot {
    repair_root(text, &RepairOptions::default())
}

#[test]
fn each_key_that_is_known_to_lose_its_quote_is_repaired() {
    for key in [
        "context_after",
        "context_before",
        "anchor_text",
        "query",
        "hint",
        "section",
        "ref_id",
    ] {
        for value in ["\"text\"", "{\"a\": 1}", "[\"b\"]", "12", "true", "null"] {
            let answer = repaired(&format!("{{\"a\": 0, \"{key}: {value}, \"z\": 1}}"));
            let json = format!("{{\"a\": 0, \"{key}\": {value}, \"z\": 1}}");
            assert_eq!((answer.status, answer.json), (RepairStatus::Repaired, json));
        }
    }
}

/// Texts that look like a known mistake and are none: valid JSON stays as it is.
#[test]
fn what_looks_like_a_mistake_and_is_valid_stays() {
    let texts = [
        r#"[[{"a": 1}], {"b": 2}]"#,
        r#"{"prompt\\_text": "a\\_b"}"#,
        r#"{"query: ": "x", "hint: ": ["y"]}"#,
        r#"{"a": "}], {", "b": "},\"{\""}"#,
        r#"{"a": "\"key: \"", "b": "'True' // None"}"#,
        r##"["a,", ",b", "{c: 1}", "/* d */", "# e", "...", "[1, 2,]"]"##,
        r#"{"": "", " ": " ", "\u00a0": "\ufeff"}"#,
        r#"{"a": 1, "a": 2}"#,
        r#"["“a”", "‘b’", "it's", "\\'"]"#,
    ];
    for text in texts {
        let answer = repaired(text);
        assert_eq!(
            (answer.status, answer.json.as_str(), answer.repairs.len()),
            (RepairStatus::Valid, text, 0)
        );
    }
}
