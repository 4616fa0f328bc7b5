//! The grammar of the rests that fit the request's schema.

use restitch::Document;
use restitch::internal::carve::{Syntax, carve};
use restitch_judge::{Judge, Reader, Verdict, lark_of_gbnf};
use restitch_testing::Rng;

const MEETING: &str = r##"{"$defs": {"person": {"type": "object", "properties": {
      "name": {"type": "string"}, "role": {"enum": ["chair", "chairless", "guest"]}, "boss": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]}},
      "required": ["name", "role", "boss"], "additionalProperties": false}},
    "type": "object", "properties": {
      "title": {"type": "string"},
      "people": {"type": "array", "minItems": 2, "maxItems": 4, "items": {"$ref": "#/$defs/person"}},
      "rooms": {"type": "array", "items": {"type": "integer"}},
      "done": {"type": "boolean"},
      "cost": {"type": ["number", "null"]}},
    "required": ["title", "people", "rooms", "done", "cost"], "additionalProperties": false}"##;

const OPTIONAL: &str = r#"{"type": "object", "properties": {
      "a": {"type": "string"}, "b": {"const": -1.5}, "c": {"type": "array", "minItems": 1, "items": {"type": "array", "maxItems": 2, "items": {"enum": [1, true, "x\"é"]}}}, "d": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"é": {"type": "integer"}}, "required": ["é"], "additionalProperties": false}]}},
    "required": ["c"], "additionalProperties": false}"#;

const MAP: &str = r#"{"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"n": {"type": "integer"}, "any": {}}, "required": ["n"], "additionalProperties": false}}}"#;

/// Documents with their schemas. Members come in the order of the schema.
const DOCUMENTS: [(&str, &str); 6] = [
    (
        MEETING,
        r#"{"title": "Tides \"and\" caf\u00e9s", "people": [{"name": "Ann", "role": "chair", "boss": null}, {"name": "Bo", "role": "guest", "boss": {"name": "Cy", "role": "chairless", "boss": null}}], "rooms": [1, -20, 0], "done": false, "cost": 12.5e-3}"#,
    ),
    (
        MEETING,
        "{\n  \"title\": \"\",\n  \"people\": [\n    {\"name\":\"A\",\"role\":\"guest\",\"boss\":null},\n    {\"name\":\"B\",\"role\":\"guest\",\"boss\":null}\n  ],\n  \"rooms\": [ ],\n  \"done\": true,\n  \"cost\": null\n}\n",
    ),
    (
        OPTIONAL,
        r#"{"a": "x", "b": -1.5, "c": [[1, true], [], ["x\"é"]], "d": {"é": 7}}"#,
    ),
    (OPTIONAL, r#"{"b": -1.5, "c": [[]], "d": -3}"#),
    (OPTIONAL, r#"{ "c" : [ [ 1 ] ] }"#),
    (
        MAP,
        r#"{"one": [{"n": 1, "any": {"x": [1.5, "y"]}}, {"n": 2}], "two": [{"n": 30}]}"#,
    ),
];

/// Both grammars after the head.
fn readers(judge: &Judge, schema: &str, delivered: &str) -> [Reader; 2] {
    let mut document = Document::new(1024);
    document.push(delivered).unwrap();
    let carved = carve(&document, Some(schema)).unwrap();
    let (lark, gbnf) = (carved.print(Syntax::Lark), carved.print(Syntax::Gbnf));
    judge.read_after(&carved.head, [&lark, &lark_of_gbnf(&gbnf)])
}

/// Every third offset at which a root that has begun can be cut, after some.
fn cuts(text: &str, after: usize) -> impl Iterator<Item = usize> {
    let ends = text.char_indices().map(|(at, _)| at);
    let ends = ends.take_while(|at| *at < text.trim_end().len());
    ends.skip(1 + after % 3).step_by(3)
}

#[test]
fn the_true_rest_is_allowed() {
    let judge = Judge::new();
    for (n, (schema, text)) in DOCUMENTS.into_iter().enumerate() {
        for cut in cuts(text, n) {
            let (delivered, rest) = text.split_at(cut);
            for mut reader in readers(&judge, schema, delivered) {
                assert_eq!(reader.push(rest), Verdict::Whole, "{delivered}▮{rest}");
            }
        }
    }
}

/// Writes text that the grammar allows, up to the first end that is legal; `None` if the text grows
/// too long.
fn walk(reader: &mut Reader, rng: &mut Rng) -> Option<String> {
    let mut written = String::new();
    while written.len() < 4000 {
        let allowed = reader.next_bytes();
        // Closing ones are preferred, so that the text ends.
        let closing = b"]}\"".iter().filter(|&&byte| allowed[usize::from(byte)]);
        let closing: Vec<u8> = closing.copied().collect();
        let legal: Vec<u8> = (b' '..=b'~')
            .filter(|&byte| allowed[usize::from(byte)])
            .collect();
        let letters = "é".as_bytes()[0];
        let byte = match rng.below(3) {
            0 | 1 if !closing.is_empty() => closing[rng.below(closing.len())],
            _ if legal.is_empty() && allowed[usize::from(letters)] => {
                assert_ne!(reader.push("é"), Verdict::Refused(0));
                written.push('é');
                continue;
            }
            _ => legal[rng.below(legal.len())],
        };
        let text = char::from(byte).to_string();
        written.push_str(&text);
        match reader.push(&text) {
            Verdict::Whole => return Some(written),
            verdict => assert_eq!(verdict, Verdict::Open, "{written}"),
        }
    }
    None
}

/// Every text of the grammar fits the schema, whatever the model would rather write.
#[test]
fn an_allowed_rest_fits_the_schema() {
    let judge = Judge::new();
    let mut rng = Rng::of(b"shapes");
    let mut ended = 0;
    let mut all = 0;
    for (n, (schema, text)) in DOCUMENTS.into_iter().enumerate() {
        let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        for cut in cuts(text, n + 1) {
            let delivered = &text[..cut];
            for mut reader in readers(&judge, schema, delivered) {
                all += 1;
                let Some(rest) = walk(&mut reader, &mut rng) else {
                    continue;
                };
                ended += 1;
                let whole = format!("{delivered}{rest}");
                let value = match serde_json::from_str(&whole) {
                    Ok(value) => value,
                    // It is legal JSON, but no double holds it, so the validator can't read it.
                    Err(error) if error.to_string().starts_with("number out of range") => continue,
                    Err(error) => panic!("{error}: {whole}"),
                };
                assert!(validator.is_valid(&value), "{delivered}▮ {whole}");
            }
        }
    }
    println!("covered: {ended} of {all} rests ended");
    assert!(ended * 10 > all * 9, "{ended} of {all}");
}

#[test]
fn a_rest_that_falls_short_is_refused() {
    let judge = Judge::new();
    for (schema, delivered, legal, wrong) in [
        // The container ends before its members or elements are there.
        (
            MEETING,
            r#"{"title": "T"#,
            "",
            [r#""}"#, r#"", "rooms""#].as_slice(),
        ),
        (
            MEETING,
            r#"{"title": "T", "people": [{"name": "A", "role": "guest", "boss": null}"#,
            "",
            &["]", r#", {"name": "B"}"#],
        ),
        // A key or a string that the schema does not have.
        (OPTIONAL, r#"{"c"#, r#"": [[]]}"#, &["x", r#"": [], "x""#]),
        (
            MEETING,
            r#"{"title": "", "people": [{"name": "A", "role": "chair"#,
            "",
            &["x", r#"", "b": 1"#],
        ),
        // Another type.
        (
            MEETING,
            r#"{"title": "T", "people": [{"name": "#,
            "",
            &["1", "null", "{"],
        ),
        (OPTIONAL, r#"{"c": [[1, tr"#, r#"ue]]}"#, &["ue, 1]"]),
        (OPTIONAL, r#"{"c": [[1"#, "]]}", &["0", ".5"]),
        (
            OPTIONAL,
            r#"{"b": -1"#,
            r#".5, "c": [[]]}"#,
            &["0", ",", ".6"],
        ),
        (
            MAP,
            r#"{"a": [{"n": 1"#,
            r#"2}]}"#,
            &[".5", "e3", r#", "x""#],
        ),
        (
            MAP,
            r#"{"a": ["#,
            r#"{"n": 0}], "b": [{"n": 1}]}"#,
            &["]", "1", "{}"],
        ),
    ] {
        for reader in readers(&judge, schema, delivered) {
            if !legal.is_empty() {
                assert_eq!(
                    reader.clone().push(legal),
                    Verdict::Whole,
                    "{delivered}▮{legal}"
                );
            }
            for wrong in wrong {
                let verdict = reader.clone().push(wrong);
                assert!(
                    matches!(verdict, Verdict::Refused(_)),
                    "{delivered}▮{wrong}: {verdict:?}"
                );
            }
        }
    }
}

/// These are legal under their schemas, whose keywords are written apart or leave more open than it
/// seems.
#[test]
fn rare_schemas_forbid_nothing_legal() {
    let judge = Judge::new();
    for (schema, delivered, rest) in [
        (
            r#"{"type": "object", "properties": {"a": {"enum": ["x"], "nullable": true}}}"#,
            r#"{"a": "#,
            "null}",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}], "nullable": true}}}"#,
            r#"{"a": "#,
            "null}",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}"#,
            r#"{"a": "x""#,
            r#", "b": 1}"#,
        ),
        (
            r#"{"type": "array", "items": {"anyOf": [{"type": "integer"}, {"enum": [1.5]}]}}"#,
            "[1",
            ".5]",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"enum": []}}}"#,
            r#"{"a": "#,
            "1}",
        ),
        (
            r#"{"type": "object", "properties": {"a": true, "b": false}}"#,
            r#"{"a": "#,
            "[]}",
        ),
    ] {
        for mut reader in readers(&judge, schema, delivered) {
            assert_eq!(
                reader.push(rest),
                Verdict::Whole,
                "{schema}: {delivered}▮{rest}"
            );
        }
    }
}

/// A grammar is sent with a request, so a large schema has none.
#[test]
fn a_grammar_is_small_or_knows_no_schema() {
    let keys: Vec<_> = (0..300).map(|n| format!("\"key{n}\"")).collect();
    let named: Vec<_> = keys
        .iter()
        .map(|key| format!("{key}: {{\"type\": \"integer\"}}"))
        .collect();
    let schema = format!(
        r#"{{"type": "object", "properties": {{{}}}, "required": [{}], "additionalProperties": false}}"#,
        named.join(","),
        keys.join(",")
    );
    for delivered in ["{", "{\"", "{\"key1", "{\"key1\": 1"] {
        let mut document = Document::new(1024);
        document.push(delivered).unwrap();
        let carved = carve(&document, Some(&schema)).unwrap();
        for syntax in [Syntax::Lark, Syntax::Gbnf] {
            assert!(carved.print(syntax).len() < 20 << 10, "{delivered}");
        }
    }
}

/// A part whose schema is unknown may be any JSON.
#[test]
fn a_part_without_a_shape_may_be_anything() {
    let judge = Judge::new();
    for (schema, delivered, rest) in [
        ("not JSON", r#"{"a": "#, r#"[1, {"b": 2}]}"#),
        ("{}", r#"{"a": "#, r#"[1, {"b": 2}]}"#),
        (
            r#"{"type": "object", "properties": {"a": {"type": "object"}}}"#,
            r#"{"a": {"x"#,
            r#"y": [1]}}"#,
        ),
        (
            r#"{"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 2}]}}}"#,
            r#"{"a": "#,
            "1}",
        ),
        // A key that the schema has not, beside others: the text violates the schema.
        (
            r#"{"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false}"#,
            r#"{"b": 1"#,
            "}",
        ),
        // Circles of references.
        (r##"{"$ref": "#"}"##, "[1", "]"),
        (
            r##"{"type": "array", "items": {"anyOf": [{"$ref": "#/items"}, {"type": "integer"}]}}"##,
            "[1",
            ", 2]",
        ),
        (
            r##"{"type": "array", "items": {"$ref": "#/nowhere"}}"##,
            "[1, ",
            "{}]",
        ),
        (
            r#"{"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}"#,
            "[1, ",
            "{}]",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": true}"#,
            r#"{"a"#,
            r#"bc": "x", "d": []}"#,
        ),
    ] {
        for mut reader in readers(&judge, schema, delivered) {
            assert_eq!(
                reader.push(rest),
                Verdict::Whole,
                "{schema}: {delivered}▮{rest}"
            );
        }
    }
}
