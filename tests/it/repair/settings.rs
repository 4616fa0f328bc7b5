//! What models are known to do to JSON, each mistake in five settings: at a key, in a value,
//! nested, beside prose, and in a text that is cut after it. Expected values are written by hand.

use restitch::repair::{RepairOptions, RepairStatus, RepairedRoot, repair_root};

use super::source::canonical;

/// A mistake, with a text and the JSON that was meant in each of [`SETTINGS`].
struct Row {
    mistake: &'static str,
    cases: [(&'static str, &'static str); 5],
}

/// A text of the last setting ends early: its JSON has what was certain by then.
const SETTINGS: [&str; 5] = [
    "at a key",
    "in a value",
    "nested",
    "beside prose",
    "cut after it",
];

const ROWS: &[Row] = &[
    Row {
        mistake: "lost quote after a key, before a string",
        cases: [
            (
                r#"{"context_after: "the end"}"#,
                r#"{"context_after": "the end"}"#,
            ),
            (
                r#"{"query: "see: this, or that"}"#,
                r#"{"query": "see: this, or that"}"#,
            ),
            (
                r#"{"plan": [{"anchor_text: "a", "query": "b"}]}"#,
                r#"{"plan": [{"anchor_text": "a", "query": "b"}]}"#,
            ),
            (
                r#"[{"ref_id: "r1"}, {"ref_id: "r2"}]"#,
                r#"[{"ref_id": "r1"}, {"ref_id": "r2"}]"#,
            ),
            (
                r#"{"hint: "a", "section": "b"#,
                r#"{"hint": "a", "section": "b"}"#,
            ),
        ],
    },
    Row {
        mistake: "lost quote after a key, before a container",
        cases: [
            (r#"{"items: [1, 2]}"#, r#"{"items": [1, 2]}"#),
            (
                r#"{"a": 1, "items: {"b": 2}, "c": 3}"#,
                r#"{"a": 1, "items": {"b": 2}, "c": 3}"#,
            ),
            (
                r#"[{"items: ["x", "y"]}, {"items": []}]"#,
                r#"[{"items": ["x", "y"]}, {"items": []}]"#,
            ),
            (
                r#"{"section: {"title: {"text": "t"}}}"#,
                r#"{"section": {"title": {"text": "t"}}}"#,
            ),
            (
                r#"{"items: [1, 2], "n": "x"#,
                r#"{"items": [1, 2], "n": "x"}"#,
            ),
        ],
    },
    Row {
        mistake: "lost quote after a key, before a number or a literal",
        cases: [
            (r#"{"n: 5, "b": 6}"#, r#"{"n": 5, "b": 6}"#),
            (
                r#"{"a": "x", "ok: true, "b": "y"}"#,
                r#"{"a": "x", "ok": true, "b": "y"}"#,
            ),
            (
                r#"{"a": [{"n: -1.5}, {"n: null}]}"#,
                r#"{"a": [{"n": -1.5}, {"n": null}]}"#,
            ),
            (
                r#"{"order: 1, "title": "t"}"#,
                r#"{"order": 1, "title": "t"}"#,
            ),
            (r#"{"n: 5, "b": "x"#, r#"{"n": 5, "b": "x"}"#),
        ],
    },
    Row {
        mistake: "control characters",
        cases: [
            ("{\"a\nb\": 1}", r#"{"a\nb": 1}"#),
            ("{\"a\": \"x\r\ny\tz\"}", r#"{"a": "x\r\ny\tz"}"#),
            (
                "{\"a\": [{\"b\": \"\n\n\"}, \"\t\"]}",
                r#"{"a": [{"b": "\n\n"}, "\t"]}"#,
            ),
            (
                "{\"a\": \"x\n}\", \"b\": \"{\n\"}",
                r#"{"a": "x\n}", "b": "{\n"}"#,
            ),
            (
                "{\"a\": \"x\ny\", \"b\": \"z\n",
                r#"{"a": "x\ny", "b": "z\n"}"#,
            ),
        ],
    },
    Row {
        mistake: "escaped underscores",
        cases: [
            (
                r#"{"prompt\_text": 1, "why\_good": 2}"#,
                r#"{"prompt_text": 1, "why_good": 2}"#,
            ),
            (
                r#"{"a": "use expert\_description"}"#,
                r#"{"a": "use expert_description"}"#,
            ),
            (
                r#"[{"a": {"how\_to\_improve": "b\_c"}}]"#,
                r#"[{"a": {"how_to_improve": "b_c"}}]"#,
            ),
            (r#"{"prompt\_text": "\_"}"#, r#"{"prompt_text": "_"}"#),
            (
                r#"{"a\_b": "c\_d", "e": "f\_"#,
                r#"{"a_b": "c_d", "e": "f_"}"#,
            ),
        ],
    },
    Row {
        mistake: "array separator: `}], {`",
        cases: [
            (
                r#"{"a": [{"b": 1}], {"b": 2}], "c": 3}"#,
                r#"{"a": [{"b": 1}, {"b": 2}], "c": 3}"#,
            ),
            (
                r#"{"a": [{"b": "x"}], {"b": "y"}], {"b": "z"}]}"#,
                r#"{"a": [{"b": "x"}, {"b": "y"}, {"b": "z"}]}"#,
            ),
            (
                r#"{"p": {"a": [{"b": [1]}], {"b": [2]}]}}"#,
                r#"{"p": {"a": [{"b": [1]}, {"b": [2]}]}}"#,
            ),
            (r#"[{"a": 1}], {"a": 2}]"#, r#"[{"a": 1}, {"a": 2}]"#),
            (
                r#"{"a": [{"b": 1}], {"b": 2}, {"b": "x"#,
                r#"{"a": [{"b": 1}, {"b": 2}, {"b": "x"}]}"#,
            ),
        ],
    },
    Row {
        mistake: "stray quote: `},\"{\"`",
        cases: [
            (r#"[{"a": 1},"{"a": 2}]"#, r#"[{"a": 1},{"a": 2}]"#),
            (
                r#"{"a": [{"b": "x"},"{"b": "y"}]}"#,
                r#"{"a": [{"b": "x"},{"b": "y"}]}"#,
            ),
            (
                r#"{"p": [{"a": [{"b": 1},"{"b": 2}]}]}"#,
                r#"{"p": [{"a": [{"b": 1},{"b": 2}]}]}"#,
            ),
            (
                r#"[{"a": {}},"{"a": {"b": []}}]"#,
                r#"[{"a": {}},{"a": {"b": []}}]"#,
            ),
            (
                r#"[{"a": 1},"{"a": 2}, {"a": "x"#,
                r#"[{"a": 1},{"a": 2}, {"a": "x"}]"#,
            ),
        ],
    },
    Row {
        mistake: "unescaped quotes in HTML",
        cases: [
            (r#"{"<a href="x">": 1}"#, r#"{"<a href=\"x\">": 1}"#),
            (
                r#"{"html": "<p class="a b"><a href="https://e.org/?a=1&b=2">x, y</a></p>", "n": 1}"#,
                r#"{"html": "<p class=\"a b\"><a href=\"https://e.org/?a=1&b=2\">x, y</a></p>", "n": 1}"#,
            ),
            (
                r#"[{"a": {"html": "<td colspan="2">1</td>"}}, {"b": "c"}]"#,
                r#"[{"a": {"html": "<td colspan=\"2\">1</td>"}}, {"b": "c"}]"#,
            ),
            (
                r#"{"html": "<img alt="A: b" src="x"/>"}"#,
                r#"{"html": "<img alt=\"A: b\" src=\"x\"/>"}"#,
            ),
            (
                r#"{"html": "<a href="x">y</a>", "n": "z"#,
                r#"{"html": "<a href=\"x\">y</a>", "n": "z"}"#,
            ),
        ],
    },
    Row {
        mistake: "unescaped quotes around words",
        cases: [
            (r#"{"the "best" one": 1}"#, r#"{"the \"best\" one": 1}"#),
            (
                r#"{"a": "he said "no" to it", "b": 1}"#,
                r#"{"a": "he said \"no\" to it", "b": 1}"#,
            ),
            (
                r#"{"a": [{"b": "a "c" d"}, "e "f" g"]}"#,
                r#"{"a": [{"b": "a \"c\" d"}, "e \"f\" g"]}"#,
            ),
            (
                r#"{"a": "it was "so", or not"}"#,
                r#"{"a": "it was \"so\", or not"}"#,
            ),
            (
                r#"{"a": "he said "no" to it", "b": "x"#,
                r#"{"a": "he said \"no\" to it", "b": "x"}"#,
            ),
        ],
    },
    Row {
        mistake: "missing commas",
        cases: [
            (r#"{"a": 1 "b": 2}"#, r#"{"a": 1, "b": 2}"#),
            ("[\"a\"\n\"b\", 3 4]", "[\"a\", \"b\", 3, 4]"),
            (
                r#"{"a": [{"b": 1} {"b": 2}] "c": []}"#,
                r#"{"a": [{"b": 1}, {"b": 2}], "c": []}"#,
            ),
            ("{\"a\": \"x\"\n\"b\": \"y\"}", r#"{"a": "x", "b": "y"}"#),
            (
                r#"{"a": "x" "b": ["y" "z"#,
                r#"{"a": "x", "b": ["y", "z"]}"#,
            ),
        ],
    },
    Row {
        mistake: "missing brackets",
        cases: [
            (r#"{"a": [1, 2, "b": 3}"#, r#"{"a": [1, 2], "b": 3}"#),
            (r#"{"a": ["x", "y"}"#, r#"{"a": ["x", "y"]}"#),
            (
                r#"{"a": [{"b": 1, {"b": 2}]}"#,
                r#"{"a": [{"b": 1}, {"b": 2}]}"#,
            ),
            (r#"[{"a": 1, {"a": 2}]"#, r#"[{"a": 1}, {"a": 2}]"#),
            (
                r#"[{"a": 1, {"a": 2}, {"a": "x"#,
                r#"[{"a": 1}, {"a": 2}, {"a": "x"}]"#,
            ),
        ],
    },
    Row {
        mistake: "missing colons",
        cases: [
            (r#"{"a" "x", "b": 1}"#, r#"{"a": "x", "b": 1}"#),
            (r#"{"a": 1, "b" {"c": 2}}"#, r#"{"a": 1, "b": {"c": 2}}"#),
            (
                r#"[{"a": {"b" 1, "c" [2]}}]"#,
                r#"[{"a": {"b": 1, "c": [2]}}]"#,
            ),
            (r#"{"a" "x", "b" null}"#, r#"{"a": "x", "b": null}"#),
            (r#"{"a" "x", "b": "y"#, r#"{"a": "x", "b": "y"}"#),
        ],
    },
];

/// Repairs what begins at `text`, on the level of whole texts.
fn repaired(text: &str) -> RepairedRoot {
    repair_root(text, &RepairOptions::default())
}

#[test]
fn known_mistakes_are_repaired_in_every_setting() {
    let mut misses = Vec::new();
    for row in ROWS {
        for (setting, (text, json)) in SETTINGS.iter().zip(row.cases) {
            assert!(
                serde_json::from_str::<serde_json::Value>(text).is_err(),
                "{text} is valid"
            );
            let text = if *setting == "beside prose" {
                format!("{text}\n\nAs \"asked\" [1].")
            } else {
                text.to_owned()
            };
            let answer = repaired(&text);
            let is_cut = *setting == "cut after it";
            let said = if is_cut {
                RepairStatus::Truncated
            } else {
                RepairStatus::Repaired
            };
            if answer.status != said || canonical(&answer.json) != canonical(json) {
                misses.push(format!(
                    "{}, {setting}: {text:?} gives {answer:?}",
                    row.mistake
                ));
            }
        }
    }
    println!(
        "covered: {} mistakes in {} settings",
        ROWS.len(),
        SETTINGS.len()
    );
    assert!(
        misses.is_empty(),
        "{} of {}: {misses:#?}",
        misses.len(),
        ROWS.len() * SETTINGS.len()
    );
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
