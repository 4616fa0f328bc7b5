//! A provider that enforces a schema of the missing parts writes exactly the rest.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::capability::CapabilityHint;
use restitch::internal::rest_call;
use restitch::provider::Finish;
use restitch::provider::capability::{GrammarForm, Row, SchemaSubset, Table};
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, Input, Retry, Session, Status,
};
use restitch_sim::missing_members;
use restitch_testing::Rng;
use serde_json::{Value, json};

use super::forced::Cut;

/// Returns a session with a schema that the provider enforces, cut after this text.
fn cut_at(schema: &str, delivered: &str) -> Cut {
    cut_with(SchemaSubset::Full, schema, delivered)
}

fn cut_with(subset: SchemaSubset, schema: &str, delivered: &str) -> Cut {
    let mut session = Session::new(Limits::default());
    session.set_schema(schema);
    let strategy = ContinuationStrategy::default().grammar(GrammarForm::JsonSchema(subset));
    Cut::of(session, &strategy, delivered)
}

impl Cut {
    /// The schema of the answer that was asked for last.
    fn schema(&self) -> Value {
        let turn = self.request.as_ref().unwrap().turn.as_ref().unwrap();
        serde_json::from_str(turn.grammar.as_ref().unwrap()).unwrap()
    }

    /// The answer of a model that knows the document.
    fn answer(&self, document: &str) -> String {
        let turn = self.request.as_ref().unwrap().turn.as_ref().unwrap();
        let position = position(document, &self.client);
        let answer = missing_members(document, position, &turn.prompt, &self.schema());
        let answer = answer.unwrap_or_else(|| panic!("{}\n{}", self.client, turn.prompt));
        // A provider that enforces the schema could not have written it otherwise.
        #[cfg(feature = "schema")]
        assert!(
            is_valid(&self.schema(), &serde_json::from_str(&answer).unwrap()),
            "{}\n{}\n{answer}",
            self.client,
            self.schema()
        );
        answer
    }
}

/// Returns whether a value is valid under a schema, which may be in Gemini's form.
#[cfg(feature = "schema")]
fn is_valid(schema: &Value, value: &Value) -> bool {
    let mut schema = schema.to_string();
    for name in ["OBJECT", "ARRAY", "NUMBER", "STRING"] {
        schema = schema.replace(name, &name.to_ascii_lowercase());
    }
    let schema = schema.replace(r#""minItems":"1""#, r#""minItems":1"#);
    jsonschema::is_valid(&schema.parse().unwrap(), value)
}

/// Returns how much of a document a client has, whose white space between tokens may differ.
fn position(document: &str, client: &str) -> usize {
    let has = client.split_whitespace().map(str::len).sum::<usize>();
    let mut seen = 0;
    let at = document.char_indices().find(|(_, c)| {
        let is_due = seen == has;
        seen += if c.is_whitespace() { 0 } else { c.len_utf8() };
        is_due
    });
    let at = at.map_or(document.len(), |(at, _)| at);
    let spaces = client.len() - client.trim_end().len();
    let due = document[at..].len() - document[at..].trim_start().len();
    at + spaces.min(due)
}

/// Schemas, and a document of each.
fn cases() -> Vec<(&'static str, &'static str, &'static str)> {
    let people = r##"{
        "type": "object", "additionalProperties": false, "required": ["people", "ok", "rate"],
        "properties": {
            "people": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"$ref": "#/$defs/person"}},
            "ok": {"type": "boolean"},
            "rate": {"type": "number"}
        },
        "$defs": {"person": {
            "type": "object", "additionalProperties": false,
            "required": ["name", "age", "tags", "state", "nick"],
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "state": {"enum": ["open", "opened", "closed"]},
                "nick": {"anyOf": [{"type": "string"}, {"type": "null"}]}
            }
        }}
    }"##;
    let maps = r#"{
        "type": "object", "additionalProperties": false, "required": ["by_id", "any"],
        "properties": {
            "by_id": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
            "any": {},
            "shape": {"anyOf": [
                {"type": "object", "properties": {"side": {"type": "number"}}, "required": ["side"]},
                {"type": "object", "properties": {"radius": {"type": "number"}}, "required": ["radius"]}
            ]}
        }
    }"#;
    let tree = r##"{
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object", "required": ["label", "children"], "additionalProperties": false,
            "properties": {
                "label": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}
            }
        }}
    }"##;
    let upper = r#"{
        "type": "OBJECT", "required": ["rows"],
        "properties": {"rows": {"type": "ARRAY", "minItems": "1", "items": {"type": "ARRAY", "items": {"type": "NUMBER"}}}}
    }"#;
    vec![
        (
            "people",
            people,
            r#"{"people": [{"name": "Ann\u00e9 \"A\" \ud83d\ude00\n", "age": 41, "tags": ["x", "один"], "state": "opened", "nick": null}, {"name": "", "age": -7, "tags": [], "state": "closed", "nick": "b\\"}], "ok": false, "rate": 2.5e-3}"#,
        ),
        (
            "maps",
            maps,
            r#"{"by_id": {"a/b~c": [1, 2.5], "z": []}, "any": {"x": [true, {"y": null}], "s": "t"}, "shape": {"radius": 2}}"#,
        ),
        (
            "tree",
            tree,
            "{\n  \"label\": \"a\",\n  \"children\": [\n    {\"label\": \"b\", \"children\": [{\"label\": \"c\", \"children\": []}]},\n    {\"label\": \"d\", \"children\": []}\n  ]\n}",
        ),
        ("upper", upper, r#"{"rows": [[1, 2], [], [-0.5, 12]]}"#),
    ]
}

#[test]
fn a_document_that_is_cut_anywhere_becomes_whole_with_one_call() {
    let mut rng = Rng::new(7);
    for (name, schema, document) in cases() {
        let (mut asked_by_schema, mut cuts) = (0, 0);
        for at in (1..document.len()).filter(|at| document.is_char_boundary(*at)) {
            cuts += 1;
            let mut asked = cut_at(schema, &document[..at]);
            if asked.mode() != ContinuationMode::Schema {
                continue;
            }
            asked_by_schema += 1;
            let answer = asked.answer(document);
            asked.pieces(&answer, 12, &mut rng);
            asked.end(Finish::Stop);
            let context = format!("{name} at {at}: {answer}\n{}", asked.client);
            let outcome = asked.outcome.as_ref().expect(&context);
            assert_eq!(outcome.status(), Status::Complete, "{context}");
            assert_eq!(outcome.tally().continuations, 1, "{context}");
            assert_eq!(outcome.tally().failures, 0, "{context}");
            // White space between tokens is the joiner's own.
            let value: Value = serde_json::from_str(&asked.client).expect(&context);
            let expected: Value = serde_json::from_str(document).unwrap();
            assert_eq!(value, expected, "{context}");
            assert!(asked.client.starts_with(&document[..at]), "{context}");
        }
        // Only keys in whose escape the text stops, and text after the last value, have no schema.
        assert!(
            asked_by_schema * 10 >= cuts * 9,
            "{name}: {asked_by_schema} of {cuts}"
        );
    }
}

/// The members arrive while they are written, and closing brackets with the last of them.
#[test]
fn new_text_is_given_out_as_soon_as_it_comes() {
    let (_, schema, document) = cases().remove(0);
    let delivered = &document[..document.find("один").unwrap()];
    let mut asked = cut_at(schema, delivered);
    assert_eq!(asked.mode(), ContinuationMode::Schema);
    for (text, new) in [
        ("{\"item\": {\"name\": \"Ann", ""),
        ("é \\\"A\\\" 😀\\n\",\n\"age\": 41, \"tags\": [\"x\", ", ""),
        ("\"од", "од"),
        ("ин\"], \"sta", "ин\"]"),
        ("te\": \"open", ", \"state\": \"open"),
        ("\", \"nick\": null}", "\", \"nick\": null}"),
        (", \"element_1\": {\"name\": \"B", ", {\"name\": \"B"),
    ] {
        let before = asked.client.len();
        asked.text(text);
        assert_eq!(&asked.client[before..], new, "{text}");
    }
}

#[test]
fn the_shapes_are_those_of_the_request() {
    let (_, schema, document) = cases().remove(0);
    let cut = |after: &str| &document[..document.find(after).unwrap() + after.len()];
    let asked = cut_at(schema, cut("\"state\": \"op"));
    let found = asked.schema();
    let schema: Value = serde_json::from_str(schema).unwrap();
    let person = &schema["$defs"]["person"];
    assert_eq!(
        found,
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["item", "element_1", "rest_of_items", "rest_of_item"],
            "properties": {
                "item": {
                    "type": "object", "additionalProperties": false, "required": ["name", "age", "tags", "state", "nick"],
                    "properties": {
                        "name": {"type": "string"},
                        "age": {"type": "number", "enum": [41]},
                        "tags": {"type": "array", "items": {"type": "string"}},
                        "state": {"type": "string", "enum": ["open", "opened"]},
                        "nick": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    },
                },
                "element_1": {"$ref": "#/$defs/person"},
                "rest_of_items": {"type": "array", "items": {"$ref": "#/$defs/person"}, "maxItems": 1},
                "rest_of_item": {
                    "type": "object", "additionalProperties": false, "required": ["ok", "rate"],
                    "properties": {"ok": {"type": "boolean"}, "rate": {"type": "number"}},
                },
            },
            "$defs": {"person": person},
        })
    );
    // The only missing key with this beginning is next.
    let asked = cut_at(cases()[0].1, cut("\"age\": -7, \"ta"));
    let required = &asked.schema()["properties"]["item"]["required"];
    assert_eq!(*required, json!(["name", "age", "tags", "state", "nick"]));
    // After a whole object it is written again, since the elements then follow it.
    let asked = cut_at(cases()[0].1, cut("\"nick\": null},"));
    let item = &asked.schema()["properties"]["item"]["properties"];
    assert_eq!(item["state"], json!({"type": "string", "enum": ["opened"]}));
    let rest = &asked.schema()["properties"]["rest_of_items"];
    assert_eq!(
        (&rest["minItems"], &rest["maxItems"]),
        (&Value::Null, &json!(1))
    );
    assert_eq!(
        asked.schema()["properties"]["element_1"],
        json!({"$ref": "#/$defs/person"})
    );
}

const ROWS: &str = r#"{"type": "object", "additionalProperties": false, "required": ["rows"], "properties": {
    "rows": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["t", "n", "of"], "properties": {
        "t": {"type": "string"}, "n": {"type": "integer"}, "of": {"type": "array", "items": {"type": "number"}}, "more": {"type": "string"}}}}}}"#;

/// White space, escapes and the form of the open number don't matter. Other values and another order
/// are not joined, and nothing of them is delivered.
#[test]
fn an_object_that_is_written_again_is_compared_with_the_delivered_one() {
    let open = r#"{"rows": [{"t": "Caf\u00e9", "of": [1, 2.50], "n": 1"#;
    let string = r#"{"rows": [{"n": 1, "t": "Caf\u00"#;
    let key = r#"{"rows": [{"n": 1, "o"#;
    let comma = r#"{"rows": [{"n": 1, "of": [1,"#;
    let colon = r#"{"rows": [{"n": 1, "of":"#;
    let whole = r#"{"rows": [{"t": "x", "n": 1, "of": []}"#;
    let begun = r#"{"rows": [{"#;
    for (delivered, item, new) in [
        (open, r#"{"t":"Café","of":[1,2.50],"n":12}"#, Some("2}")),
        (
            open,
            r#"{"t":"Café", "of":[1, 2.50],"n": "17"}"#,
            Some("7}"),
        ),
        (open, r#"{"t":"Café","of":[1.0,2.5],"n":12}"#, Some("2}")),
        (open, r#"{"t":"Café","of":[1,2.50],"n":"1,5"}"#, None),
        (open, r#"{"t":"Cafe","of":[1,2.50],"n":12}"#, None),
        (open, r#"{"t":"Café","of":[1],"n":12}"#, None),
        (open, r#"{"t":"Café","of":[1,2.50],"n":27}"#, None),
        (open, r#"{"of":[1,2.50],"t":"Café","n":12}"#, None),
        (open, r#"{"t":"Café","of":[1,2.50]}"#, None),
        (
            string,
            r#"{"n":1,"t":"Café \"x\"","of":[]}"#,
            Some(r#"e9 \"x\"","of":[]}"#),
        ),
        (string, r#"{"n":1,"t":"Caf","of":[]}"#, None),
        (string, r#"{"n":1,"t":"Cafā","of":[]}"#, None),
        (key, r#"{"n":1,"of":[3],"t":""}"#, Some(r#"f":[3],"t":""}"#)),
        (key, r#"{"n":1,"t":"","of":[3]}"#, None),
        (
            comma,
            r#"{"n":1,"of":[1 , 2],"t":""}"#,
            Some(r#"2],"t":""}"#),
        ),
        (comma, r#"{"n":1,"of":[1],"t":""}"#, None),
        (colon, r#"{"n":1,"of" : [],"t":""}"#, Some(r#"[],"t":""}"#)),
        (
            begun,
            r#"{"t":"","n":0,"of":[]}"#,
            Some(r#""t":"","n":0,"of":[]}"#),
        ),
        (whole, r#"{"t":"x","n":1,"of":[]}"#, Some("")),
        (whole, r#"{"t":"x","n":1,"of":[2]}"#, None),
    ] {
        for size in [1, 3, 1000] {
            let mut asked = cut_at(ROWS, delivered);
            assert!(
                asked.schema()["properties"].get("item").is_some(),
                "{delivered}"
            );
            let answer = format!(r#"{{"item": {item}, "rest_of_items": []}}"#);
            for piece in pieces_of(&answer, size) {
                asked.text(&piece);
            }
            asked.end(Finish::Stop);
            let expected = new.map(|new| format!("{delivered}{new}]}}"));
            let expected = expected.as_deref().unwrap_or(delivered);
            assert_eq!(asked.client, expected, "{size}: {item}");
            assert_eq!(asked.outcome.is_some(), new.is_some(), "{item}");
        }
    }
}

/// What must follow is demanded, so that no legal answer contradicts the delivered text.
#[test]
fn a_begun_member_is_required_in_the_object() {
    let item = |delivered: &str| cut_at(ROWS, delivered).schema()["properties"]["item"].clone();
    let found = item(r#"{"rows": [{"n": 1, "mo"#);
    assert_eq!(found["required"], json!(["n", "more", "t", "of"]));
    let found = item(r#"{"rows": [{"t": "x", "n": 1, "of": [], "#);
    assert_eq!(found["required"], json!(["t", "n", "of", "more"]));
    // Nothing may follow the comma.
    let asked = cut_at(
        ROWS,
        r#"{"rows": [{"t": "x", "n": 1, "of": [], "more": "", "#,
    );
    assert_eq!(asked.mode(), ContinuationMode::Reprompt);
    // A literal is certain; escapes and fractions are not listed, but compared.
    let flags = r#"{"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["a", "b"], "properties": {"a": {"type": "boolean"}, "b": {"type": "string"}}}}"#;
    let found = cut_at(flags, r#"[{"b": "x\n", "a": t"#).schema();
    let found = &found["properties"]["item"]["properties"];
    assert_eq!(found["a"], json!({"type": "boolean", "enum": [true]}));
    assert_eq!(found["b"], json!({"type": "string"}));
    // An array that is full needs no object before its rest, nor does an object without members.
    let full = flags.replace("\"items\"", "\"maxItems\": 1, \"items\"");
    for (schema, delivered) in [(full.as_str(), r#"[{"a": true, "b": ""}"#), (flags, "[{}")] {
        let asked = cut_at(schema, delivered);
        let has_item = asked.mode() == ContinuationMode::Schema
            && asked.schema()["properties"].get("item").is_some();
        assert!(!has_item, "{delivered}");
    }
}

/// Only the model knows whether a string that it ends at the cut is whole.
#[test]
fn a_value_that_ends_at_the_cut_is_reported() {
    for (item, reported) in [
        (r#"{"t":"Anna","n":1,"of":[]}"#, false),
        (r#"{"t":"Ann","n":1,"of":[]}"#, true),
    ] {
        let mut asked = cut_at(ROWS, r#"{"rows": [{"t": "Ann"#);
        asked.text(&format!(r#"{{"item": {item}, "rest_of_items": []}}"#));
        asked.end(Finish::Stop);
        let values = &asked.outcome.as_ref().unwrap().tally().cut_values;
        let expected: Vec<_> = reported.then_some(("/rows/0/t", 20)).into_iter().collect();
        let found: Vec<_> = values
            .iter()
            .map(|(path, at)| (path.as_str(), *at))
            .collect();
        assert_eq!(found, expected);
    }
}

/// The second question at a cut asks for no copy, and the third one is in words. At the next cut the
/// schema comes first again.
#[test]
fn after_a_wrong_copy_the_parts_are_asked_for() {
    let open = r#"{"rows": [{"t": "The first Ann"#;
    let parts = |rest: &str| {
        format!(
            r#"{{"rest_of_string": "{rest}", "rest_of_item": {{"n":1,"of":[]}}, "rest_of_items": []}}"#
        )
    };
    let asked = || {
        let mut asked = cut_at(ROWS, open);
        asked.text(r#"{"item": {"t":"Bob","n":1,"of":[]}, "rest_of_items": []}"#);
        asked.end(Finish::Stop);
        assert_eq!(asked.client, open);
        let names = ["rest_of_string", "rest_of_item", "rest_of_items"];
        assert_eq!(asked.schema()["required"], json!(names));
        asked
    };
    let mut right = asked();
    right.text(&parts("a"));
    right.end(Finish::Stop);
    let tally = right.outcome.as_ref().unwrap().tally();
    assert_eq!((tally.failures, tally.continuations), (1, 2));
    assert_eq!(right.client, format!(r#"{open}a", "n":1,"of":[]}}]}}"#));

    let mut wrong = asked();
    wrong.text(r#"{"rest_of_string": "", "rest_of_item": {"n":1,"of":[]}, "outer""#);
    wrong.end(Finish::Length);
    assert_eq!(wrong.mode(), ContinuationMode::Schema, "a new cut");

    let mut wrong = asked();
    wrong.text(r#"{"rest_of_string""#);
    wrong.end(Finish::Stop);
    assert_eq!(wrong.mode(), ContinuationMode::Reprompt);
}

/// A snapshot that is taken while the call is open has the value, too.
#[test]
fn a_snapshot_has_a_value_that_ends_at_the_cut() {
    let mut asked = cut_at(ROWS, r#"{"rows": [{"t": "Ann"#);
    asked.text(r#"{"item": {"t":"Ann","n":1,"#);
    let snapshot = asked.session.snapshot();
    assert!(snapshot.text().ends_with(r#""Ann","n":1"#), "{snapshot:?}");
    let mut restored = Session::restore(Duration::ZERO, &snapshot, Limits::default()).unwrap();
    restored.handle_input(Duration::ZERO, Input::Text(r#""n":1,"of":[]}]}"#));
    restored.handle_input(
        Duration::ZERO,
        Input::CallEnd(CallEnd::Finished(Finish::Stop)),
    );
    let values = &restored.tally().cut_values;
    assert_eq!(values.get("/rows/0/t"), Some(&20), "{values:?}");
}

/// A refusal of one schema is not about other documents.
#[test]
fn a_refused_schema_is_learned_only_if_no_schema_is_taken() {
    let asked = cut_at(ROWS, r#"{"rows": [{"t": "Ann"#);
    let row = Row::of("m").grammar(GrammarForm::JsonSchema(SchemaSubset::Full));
    let capability = Table::default().with([row]).of("m", None);
    let retry = Retry::new(asked.request.clone().unwrap(), capability.into());
    for (body, is_learned) in [
        (
            r#"{"error":{"message":"Invalid schema for response_format 'write_rest': In context=('properties', 'item'), 'default' is not permitted."}}"#,
            false,
        ),
        (
            r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."}}"#,
            true,
        ),
    ] {
        let refusal = rest_call::refusal(body, "400", &retry);
        let rest_call::Refusal::End(CallEnd::FormRejected(_), hint) = refusal else {
            panic!("{refusal:?}");
        };
        assert_eq!(
            hint == Some(CapabilityHint::NoGrammar),
            is_learned,
            "{body}"
        );
    }
}

/// The model writes the begun object again, which costs tokens.
#[test]
fn a_small_limit_has_room_for_the_copy() {
    let short = cut_at(ROWS, r#"{"rows": ["#);
    let long = cut_at(ROWS, &format!(r#"{{"rows": [{{"t": "{}"#, "x".repeat(500)));
    let limits = rest_call::TokenLimits {
        own: 100,
        factor: 1,
        max_extra: 4,
    };
    let limit = |cut: &Cut| limits.of(cut.request.as_ref().unwrap());
    assert_eq!(limit(&short), None);
    assert!(limit(&long) > Some(300), "{:?}", limit(&long));
}

/// A list that needs many elements has one member; names of members are unique.
#[test]
fn a_few_required_elements_have_a_member_each() {
    let schema = |least: usize| {
        format!(
            r#"{{"type": "array", "minItems": {least}, "items": {{"type": "array", "minItems": 3, "items": {{"type": "integer"}}}}}}"#
        )
    };
    let asked = cut_at(&schema(3), "[[1, 2, 3], [4, 5");
    assert_eq!(
        asked.schema()["required"],
        json!([
            "number",
            "element_2",
            "rest_of_items",
            "outer_element_2",
            "outer_rest_of_items"
        ])
    );
    let asked = cut_at(&schema(10), "[[1, 2, 3], [4, 5, 6]");
    assert_eq!(asked.schema()["required"][7], "element_9");
    let asked = cut_at(&schema(11), "[[1, 2, 3], [4, 5, 6]").schema();
    assert_eq!(asked["required"][7], "element_9");
    assert_eq!(asked["properties"]["rest_of_items"]["minItems"], 1);
    // Nor are there many copies of a large schema.
    let title = format!(r#""title": "{}", "minItems""#, "x".repeat(2000));
    let large = schema(3).replace(r#""minItems""#, &title);
    let asked = cut_at(&large, "[[1, 2, 3]").schema();
    assert_eq!(asked["required"], json!(["element_1", "rest_of_items"]));
    // Counts that contradict each other are asked in words.
    let contradicts =
        r#"{"type": "array", "minItems": 3, "maxItems": 1, "items": {"type": "integer"}}"#;
    assert_eq!(cut_at(contradicts, "[").mode(), ContinuationMode::Reprompt);
    // The first element once more shows that the model begins the list again.
    let rows = r#"{"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "object", "additionalProperties": false, "required": ["t"], "properties": {"t": {"type": "string"}}}}"#;
    let strings = r#"{"type": "array", "minItems": 2, "items": {"type": "string"}}"#;
    for (element, joined) in [
        ("The first one", false),
        ("The first two", true),
        ("The", true),
    ] {
        for size in [1, 4, 1000] {
            let mut asked = cut_at(strings, r#"["The first one","#);
            let answer = format!(r#"{{"element_1": "{element}", "rest_of_items": []}}"#);
            for piece in pieces_of(&answer, size) {
                asked.text(&piece);
            }
            asked.end(Finish::Stop);
            let whole = format!(r#"["The first one","{element}"]"#);
            assert_eq!(asked.client.as_str() == whole, joined, "{}", asked.client);
        }
    }
    for (element, joined) in [("The first one", false), ("The second one", true)] {
        let mut asked = cut_at(rows, r#"[{"t": "The first one"}"#);
        asked.text(&format!(
            r#"{{"item": {{"t": "The first one"}}, "element_1": {{"t": "{element}"}}}}"#
        ));
        asked.end(Finish::Stop);
        assert_eq!(asked.outcome.is_some(), joined, "{}", asked.client);
    }
}

#[test]
fn long_and_uncertain_objects_are_asked_for_by_their_rests() {
    let rows = |cells: &str| format!(r#"{{"rows": [{{{cells}, "n": 4"#);
    let short = format!(r#""t": "{}""#, "x".repeat(1000));
    let long = format!(r#""t": "{}""#, "x".repeat(1024));
    let twice = r#""t": "a", "t": "b""#;
    for (subset, cells, expected) in [
        (SchemaSubset::Full, short.as_str(), "item"),
        (SchemaSubset::Full, &long, "number"),
        (SchemaSubset::Full, twice, "number"),
        // Its members can't all be required.
        (SchemaSubset::Strict, &short, "number"),
        (SchemaSubset::Plain, &short, "item"),
    ] {
        let asked = cut_with(subset, ROWS, &rows(cells));
        assert_eq!(
            asked.schema()["required"][0],
            expected,
            "{subset:?} {cells:.40}"
        );
    }
}

#[test]
fn a_cut_number_is_a_string_with_its_digits_where_patterns_are_enforced() {
    let schema = |name: &str| format!(r#"{{"type": "array", "items": {{"type": "{name}"}}}}"#);
    for (name, number, rest) in [
        ("integer", "-", "(0|[1-9][0-9]*)"),
        ("integer", "0", ""),
        ("integer", "19", "[0-9]*"),
        ("number", "19", "[0-9]*([.][0-9]+)?([eE][-+]?[0-9]+)?"),
        (
            "number",
            "-",
            "(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?",
        ),
        ("number", "0", "([.][0-9]+)?([eE][-+]?[0-9]+)?"),
        ("number", "1.", "[0-9]+([eE][-+]?[0-9]+)?"),
        ("number", "1.5", "[0-9]*([eE][-+]?[0-9]+)?"),
        ("number", "2e", "[-+]?[0-9]+"),
        ("number", "2e+", "[0-9]+"),
        ("number", "2e+1", "[0-9]*"),
    ] {
        let asked = cut_at(&schema(name), &format!("[5, {number}"));
        let begun = number.replace('.', "[.]").replace('+', "[+]");
        let expected = json!({"type": "string", "pattern": format!("^{begun}{rest}$")});
        assert_eq!(asked.schema()["properties"]["number"], expected, "{number}");
    }
    let union =
        r#"{"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "number"}]}}"#;
    let found = &cut_at(union, "[5, 19").schema()["properties"]["number"]["pattern"];
    assert_eq!(*found, "^19[0-9]*([.][0-9]+)?([eE][-+]?[0-9]+)?$");
    // Listed numbers.
    let listed = r#"{"type": "array", "items": {"enum": [5, 19, 195, 1.95, "19"]}}"#;
    let number = |subset, delivered| {
        let asked = cut_with(subset, listed, delivered).schema();
        asked["properties"]["number"].clone()
    };
    assert_eq!(
        number(SchemaSubset::Full, "[5, 19"),
        json!({"type": "string", "enum": ["19", "195"]})
    );
    assert_eq!(
        number(SchemaSubset::Plain, "[5, 1"),
        json!({"type": "number", "enum": [19, 195, 1.95]})
    );
    assert!(number(SchemaSubset::Full, "[5, 2")["pattern"].is_string());
    // A provider that does not enforce the pattern.
    for number in ["19,5", "19], ", "1", "", "19x"] {
        let mut asked = cut_at(&schema("integer"), "[5, 19");
        asked.text(&format!(r#"{{"number": "{number}", "rest_of_items": []}}"#));
        asked.end(Finish::Stop);
        assert_eq!(asked.client, "[5, 19", "{number}");
    }
    let asked = cut_with(SchemaSubset::Plain, &schema("integer"), "[5, 19");
    assert_eq!(
        asked.schema()["properties"]["number"],
        json!({"type": "integer"})
    );
    for answer in [
        r#"{"number": "196", "rest_of_items": []}"#,
        r#"{"number": 196, "rest_of_items": []}"#,
    ] {
        let mut asked = cut_at(&schema("integer"), "[5, 19");
        asked.text(answer);
        asked.end(Finish::Stop);
        assert_eq!(asked.client, "[5, 196]");
    }
}

#[test]
fn members_may_come_in_another_order() {
    let (_, schema, document) = cases().remove(0);
    for at in [40, 95, 130, 150] {
        let mut asked = cut_at(schema, &document[..at]);
        let answer = asked.answer(document);
        // The text of a member has the order of the document.
        let members = restitch::internal::json::walk::members(&answer);
        let members: Vec<_> = members
            .map(|(key, value)| format!("{}: {}", key.as_str(), value.as_str()))
            .collect();
        let members: Vec<_> = members.into_iter().rev().collect();
        asked.text(&format!("{{{}}}", members.join(", ")));
        asked.end(Finish::Stop);
        let value: Value = serde_json::from_str(&asked.client).unwrap();
        assert_eq!(
            value,
            serde_json::from_str::<Value>(document).unwrap(),
            "{at}"
        );
    }
}

/// The next question asks in words, and the call is no failure.
#[test]
fn a_server_that_does_not_enforce_the_schema_is_asked_in_words() {
    let (_, schema, document) = cases().remove(0);
    let delivered = &document[..40];
    for answer in [
        document,
        "Sure! Here is the rest:",
        "",
        "[1]",
        "{}",
        "{\"rest_of_string\": 5}",
    ] {
        let mut asked = cut_at(schema, delivered);
        asked.text(answer);
        asked.end(Finish::Stop);
        assert_eq!(
            (asked.client.as_str(), asked.outcome.is_some()),
            (delivered, false),
            "{answer}"
        );
        assert_eq!(asked.mode(), ContinuationMode::Reprompt, "{answer}");
        assert_eq!(asked.session.tally().failures, 0, "{answer}");
    }
}

/// An answer that is cut again is continued where it stops.
#[test]
fn a_cut_answer_is_continued_in_the_same_way() {
    let mut rng = Rng::new(11);
    for (name, schema, document) in cases() {
        let (mut whole, mut cuts) = (0, 0);
        for at in (5..document.len() - 1)
            .step_by(5)
            .filter(|at| document.is_char_boundary(*at))
        {
            let mut asked = cut_at(schema, &document[..at]);
            let (mut calls, mut is_stuck) = (0, false);
            cuts += 1;
            while asked.outcome.is_none() && asked.mode() == ContinuationMode::Schema {
                let answer = asked.answer(document);
                let most = answer.len() * 2 / 3;
                let end = (most..).find(|end| answer.is_char_boundary(*end)).unwrap();
                // After two cuts that leave nothing new words ask.
                let is_last = calls == 5 || answer.len() < 40 || is_stuck;
                let before = asked.client.len();
                let part = if is_last { &answer } else { &answer[..end] };
                asked.pieces(part, 12, &mut rng);
                asked.end(if is_last {
                    Finish::Stop
                } else {
                    Finish::Length
                });
                calls += 1;
                is_stuck = asked.client.len() == before;
                let same: Value = match serde_json::from_str(&asked.client) {
                    Ok(value) => value,
                    Err(error) if error.is_eof() => continue,
                    Err(error) => panic!("{name} at {at}: {error}\n{}", asked.client),
                };
                assert_eq!(same, serde_json::from_str::<Value>(document).unwrap());
                whole += 1;
            }
        }
        assert!(whole * 10 >= cuts * 9, "{name}: {whole} of {cuts}");
    }
}

/// Circles of references and large unions cost bounded work, and are asked in words.
#[test]
fn endless_schemas_are_asked_in_words() {
    let circle = r##"{"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}"##;
    let refers_to_root = r##"{"$ref": "#"}"##;
    for schema in [
        circle,
        refers_to_root,
        "{}",
        "[]",
        "true",
        "",
        "{\"type\": 7}",
        "{\"properties\": []}",
    ] {
        for delivered in ["{\"a\": [1, ", "[{\"a", "{\"a\": \"x"] {
            let asked = cut_at(schema, delivered);
            assert_eq!(
                asked.mode(),
                ContinuationMode::Reprompt,
                "{schema} {delivered}"
            );
        }
    }
}

/// A key that follows from the schema is not asked for again.
#[test]
fn a_completed_key_is_not_due_again() {
    let schema = r#"{"type": "object", "additionalProperties": false, "required": ["name", "tags", "age"],
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "age": {"type": "integer"}}}"#;
    let asked = cut_at(schema, r#"{"name""#);
    let turn = asked.request.as_ref().unwrap().turn.as_ref().unwrap();
    let line = "- `value`: the value at `/name`";
    assert!(turn.prompt.contains(line), "{}", turn.prompt);
    let asked = cut_at(schema, r#"{"name": "x", "ta"#);
    let found = asked.schema();
    assert_eq!(found["required"], json!(["value", "rest_of_item"]));
    assert_eq!(
        found["properties"]["rest_of_item"]["required"],
        json!(["age"])
    );
}

#[test]
fn a_key_that_may_be_another_one_is_asked_for() {
    let other = r#"{"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": "string"}}"#;
    let mut asked = cut_at(other, r#"{"i"#);
    assert_eq!(
        asked.schema()["required"],
        json!(["key", "value", "rest_of_item"])
    );
    asked.text(r#"{"key": "item7", "value": "\"x\"", "rest_of_item": "\"id\": 3"}"#);
    asked.end(Finish::Stop);
    assert_eq!(asked.client, r#"{"item7": "x", "id": 3}"#);
    let closed = r#"{"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": false}"#;
    let asked = cut_at(closed, r#"{"x"#);
    assert_eq!(asked.mode(), ContinuationMode::Reprompt);
}

/// Several shapes of one place are not guessed.
#[test]
fn shapes_that_are_not_certain_are_text() {
    let tuple = r#"{"type": "array", "minItems": 3, "prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}"#;
    let asked = cut_at(tuple, r#"["a", "#);
    assert_eq!(
        asked.schema()["properties"],
        json!({"rest_of_items": {"type": "string"}})
    );
    let open = r#"{"type": "object", "properties": {"mode": {"anyOf": [{"const": "auto"}, {"type": "string"}]}}}"#;
    let asked = cut_at(open, r#"{"mode": "au"#);
    assert_eq!(
        asked.schema()["properties"]["string"],
        json!({"type": "string"})
    );
    let all = r#"{"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}"#;
    let asked = cut_at(all, r#"{"a": 1"#);
    assert_eq!(asked.mode(), ContinuationMode::Reprompt);
}

/// Text that closes more than its container, or less, is not joined.
#[test]
fn json_text_stays_in_its_container() {
    let schema = r#"{"type": "object", "properties": {"in": {}, "out": {"type": "integer"}}, "required": ["in", "out"], "additionalProperties": false}"#;
    let answer = |text: &str| {
        let mut asked = cut_at(schema, r#"{"in": {"a": [1"#);
        assert_eq!(
            asked.schema()["properties"]["rest_of_items"],
            json!({"type": "string"})
        );
        let text = Value::from(text);
        asked.text(&format!(r#"{{"number": 1, "rest_of_items": {text}, "rest_of_item": "", "outer_rest_of_item": {{"out": 2}}}}"#));
        asked.end(Finish::Stop);
        let mode = asked.mode();
        (asked.client, mode)
    };
    let (client, mode) = answer("2, [3]");
    assert_eq!(client, r#"{"in": {"a": [1, 2, [3]]}, "out": 2}"#);
    assert_eq!(mode, ContinuationMode::Schema);
    for text in ["2]}", "2], \"b\": [3", "[2", "\"x"] {
        let (client, mode) = answer(text);
        assert_ne!(mode, ContinuationMode::Schema, "{text}: {client}");
        assert!(!client.contains("out"), "{client}");
    }
}

/// Divides a text after each `size` characters.
fn pieces_of(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(size).map(String::from_iter).collect()
}

/// The rest of a string follows the repeat of the whole string.
#[test]
fn a_string_that_is_written_again_is_joined_after_its_repeat() {
    let schema = r#"{"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"], "additionalProperties": false}"#;
    for (delivered, rest, whole) in [
        (
            r#"{"t": "The quick brown"#,
            "The quick brown fox",
            r#"{"t": "The quick brown fox"}"#,
        ),
        (
            r#"{"t": "The quick brown"#,
            "The quick brown",
            r#"{"t": "The quick brown"}"#,
        ),
        (
            r#"{"t": "Caf\u00e9 \"Noir\" and"#,
            r#"Café \"Noir\" and \u00e9clairs"#,
            r#"{"t": "Caf\u00e9 \"Noir\" and \u00e9clairs"}"#,
        ),
    ] {
        for size in [1, 5, 1000] {
            let mut asked = cut_at(schema, delivered);
            let answer = format!(r#"{{"rest_of_string": "{rest}"}}"#);
            for piece in pieces_of(&answer, size) {
                asked.text(&piece);
            }
            asked.end(Finish::Stop);
            assert_eq!(asked.client, whole, "{size}");
            assert_eq!(asked.mode(), ContinuationMode::Schema);
        }
    }
}

/// A short string is asked for as a whole: its repeat would not show in a rest.
#[test]
fn a_short_string_or_key_is_written_from_its_beginning() {
    let schema = r#"{"type": "object", "properties": {"t": {"type": "string"}, "rows": {"type": "array", "items": {"type": "string"}}}, "required": ["t", "rows"], "additionalProperties": false}"#;
    let map = r#"{"type": "object", "additionalProperties": {"type": "integer"}}"#;
    let line = "- `string`: the string at `/rows/0` as a whole; it begins with \"Row, \"";
    let asked = cut_at(schema, r#"{"t": "x", "rows": ["Row, "#);
    let turn = asked.request.as_ref().unwrap().turn.as_ref().unwrap();
    assert!(turn.prompt.contains(line), "{}", turn.prompt);
    for (schema, delivered, answer, whole) in [
        (
            schema,
            r#"{"t": "x", "rows": ["Row, "#,
            r#"{"string": "Row, Row, row", "rest_of_items": ["b"]}"#,
            r#"{"t": "x", "rows": ["Row, Row, row", "b"]}"#,
        ),
        // The members may come in another order.
        (
            schema,
            r#"{"t": "x", "rows": ["Row, "#,
            r#"{"rest_of_items": ["b"], "string": "Row, Row, row"}"#,
            r#"{"t": "x", "rows": ["Row, Row, row", "b"]}"#,
        ),
        (
            schema,
            r#"{"t": ""#,
            r#"{"string": "a\nb", "rest_of_item": {"rows": []}}"#,
            r#"{"t": "a\nb", "rows": []}"#,
        ),
        (
            schema,
            r#"{"t": "Caf\u00"#,
            r#"{"string": "Caf\u00e9 \"Noir\"", "rest_of_item": {"rows": []}}"#,
            r#"{"t": "Caf\u00e9 \"Noir\"", "rows": []}"#,
        ),
        (
            schema,
            r#"{"t": "\ud83d"#,
            r#"{"string": "\ud83d\ude00!", "rest_of_item": {"rows": []}}"#,
            r#"{"t": "\ud83d\ude00!", "rows": []}"#,
        ),
        (
            map,
            r#"{"a": 1, "Row"#,
            r#"{"key": "Row \"2\"", "value": 7, "rest_of_item": {"c": 1}}"#,
            r#"{"a": 1, "Row \"2\"": 7, "c": 1}"#,
        ),
    ] {
        for size in [1, 2, 5, 1000] {
            let mut asked = cut_at(schema, delivered);
            for piece in pieces_of(answer, size) {
                asked.text(&piece);
            }
            asked.end(Finish::Stop);
            let context = format!("{answer} {size}\n{}", asked.schema());
            let outcome = asked.outcome.as_ref().expect(&context);
            assert_eq!(outcome.status(), Status::Complete, "{context}");
            let client: Value = serde_json::from_str(&asked.client).expect(&context);
            let whole: Value = serde_json::from_str(whole).unwrap();
            assert_eq!(client, whole, "{context}");
            assert!(asked.client.starts_with(delivered), "{context}");
        }
    }
    // The prompt shows decoded text alone, and an open escape apart.
    for (delivered, shown) in [
        (
            r#"{"t": "Caf\u00"#,
            r#"it begins with "Caf", then a character whose escape begins with \u00"#,
        ),
        (
            r#"{"t": "line\"#,
            r#"it begins with "line", then a character whose escape begins with \"#,
        ),
        (
            r#"{"t": "\ud83d\ud"#,
            r#"it begins with "", then a character whose escape begins with \ud83d\ud"#,
        ),
    ] {
        let asked = cut_at(schema, delivered);
        let turn = asked.request.as_ref().unwrap().turn.as_ref().unwrap();
        let line = format!("- `string`: the string at `/t` as a whole; {shown}\n");
        assert!(turn.prompt.contains(&line), "{}", turn.prompt);
    }
    // A server that enforces the schema writes no other type.
    let mut asked = cut_at(schema, r#"{"t": "x", "rows": ["Row, "#);
    asked.text(r#"{"string": 5, "rest_of_items": []}"#);
    asked.end(Finish::Stop);
    assert_eq!(asked.mode(), ContinuationMode::Reprompt);
    // A copy that differs, also one that came early: the next question asks for the rest.
    for (delivered, answer) in [
        (
            r#"{"t": "x", "rows": ["Row, "#,
            r#"{"string": "Roe", "rest_of_items": []}"#,
        ),
        (
            r#"{"t": "x", "rows": ["Row, "#,
            r#"{"rest_of_items": [], "string": "Roe"}"#,
        ),
        // A copy of one character less has no text for the rest.
        (
            r#"{"t": "x", "rows": ["Row, "#,
            r#"{"string": "Row,", "rest_of_items": []}"#,
        ),
        (
            r#"{"t": "x", "rows": ["\ud83d"#,
            r#"{"string": "\ud83e\udd80", "rest_of_items": []}"#,
        ),
    ] {
        let mut asked = cut_at(schema, delivered);
        asked.text(answer);
        asked.end(Finish::Stop);
        assert_eq!(asked.client, delivered);
        assert_eq!(
            asked.schema()["required"],
            json!(["rest_of_string", "rest_of_items"]),
            "{answer}"
        );
    }
}

/// A model that writes a part of the string again, or the elements from their beginning, has not
/// answered. Nor is a repeat joined if the string repeats itself: the rest may begin like it.
#[test]
fn a_repeat_of_delivered_text_is_not_joined() {
    let schema = r#"{"type": "object", "properties": {"t": {"type": "string"}, "rows": {"type": "array", "items": {"type": "string"}}}, "required": ["t", "rows"], "additionalProperties": false}"#;
    let string = r#"{"t": "The quick brown"#;
    let chorus = r#"{"t": "Row, row, row. Row, row, row. "#;
    let rows = r#"{"t": "x", "rows": ["The first element", "The sec"#;
    for (delivered, answer) in [
        (
            string,
            r#"{"rest_of_string": "The quick br", "rest_of_item": {"rows": []}}"#,
        ),
        (
            chorus,
            r#"{"rest_of_string": "Row, row, row. Row, row, row. Stop", "rest_of_item": {"rows": []}}"#,
        ),
        (
            rows,
            r#"{"string": "The second", "rest_of_items": ["The first element", "The second"]}"#,
        ),
    ] {
        for size in [1, 5, 1000] {
            let mut asked = cut_at(schema, delivered);
            for piece in pieces_of(answer, size) {
                asked.text(&piece);
            }
            asked.end(Finish::Stop);
            assert_ne!(asked.mode(), ContinuationMode::Schema, "{answer}");
            let expected = if delivered == rows { "ond\"" } else { "" };
            assert_eq!(asked.client, format!("{delivered}{expected}"));
        }
    }
}

/// OpenAI refuses deeper and wider schemas.
#[test]
fn a_strict_schema_has_ten_levels_and_five_thousand_properties_at_most() {
    let nested = |levels: usize| {
        let inner = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}"#;
        (1..levels).fold(inner.to_owned(), |inner, _| {
            format!(r#"{{"type": "array", "items": {inner}}}"#)
        })
    };
    let wide = |count: usize| {
        let keys: Vec<_> = (0..count).map(|n| format!("\"{n}\"")).collect();
        let named: Vec<_> = keys.iter().map(|key| format!("{key}:{{}}")).collect();
        let (named, keys) = (named.join(","), keys.join(","));
        format!(
            r#"{{"type":"object","properties":{{{named}}},"required":[{keys}],"additionalProperties":false}}"#
        )
    };
    let is_asked = |subset, part: &str| {
        let schema = format!(
            r#"{{"type": "object", "properties": {{"a": {{"type": "string"}}, "b": {part}}}, "required": ["a", "b"], "additionalProperties": false}}"#
        );
        let cut = cut_with(subset, &schema, r#"{"a": "x"#);
        cut.mode() == ContinuationMode::Schema
    };
    // The answer is an object whose member `rest_of_item` has the member `b`.
    for (part, expected) in [
        (nested(8), true),
        (nested(9), false),
        (wide(4990), true),
        (wide(5000), false),
    ] {
        assert_eq!(
            is_asked(SchemaSubset::Strict, &part),
            expected,
            "{part:.80}"
        );
        assert!(is_asked(SchemaSubset::Full, &part), "{part:.80}");
    }
}

#[test]
fn a_schema_has_only_what_the_provider_enforces() {
    let schema = r#"{"type": "object", "additionalProperties": false, "required": ["rows"], "properties": {
        "rows": {"type": "array", "minItems": 3, "maxItems": 5, "items": {"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 1}, "properties": {"type": "string"}}, "required": ["n"]}}}}"#;
    let rows = |subset| {
        cut_with(subset, schema, r#"{"rows": [{"n": 1}"#).schema()["properties"]["rest_of_items"]
            .clone()
    };
    let items = |n: Value| json!({"type": "object", "properties": {"n": n, "properties": {"type": "string"}}, "required": ["n"], "additionalProperties": false});
    assert_eq!(
        rows(SchemaSubset::Full),
        json!({"type": "array", "maxItems": 2, "items": items(json!({"type": "integer", "minimum": 1}))})
    );
    assert_eq!(
        rows(SchemaSubset::Plain),
        json!({"type": "array", "items": items(json!({"type": "integer"}))})
    );
    // Required elements precede the list, so every provider enforces their number.
    let asked = cut_with(SchemaSubset::Plain, schema, r#"{"rows": [{"n": 1}"#).schema();
    assert_eq!(
        asked["required"],
        json!(["item", "element_1", "element_2", "rest_of_items"])
    );
    // An optional member can't be asked for.
    assert_eq!(rows(SchemaSubset::Strict), json!({"type": "string"}));
    // OpenAI takes no default and no `oneOf`.
    let items = |shape: Value| {
        let schema = json!({"type": "array", "items": shape});
        let asked = cut_with(SchemaSubset::Strict, &schema.to_string(), "[1, ");
        asked.schema()["properties"]["rest_of_items"].clone()
    };
    let integer = json!({"type": "array", "items": {"type": "integer"}, "minItems": 1});
    assert_eq!(
        items(json!({"type": "integer", "default": 1}))["items"],
        integer["items"]
    );
    assert_eq!(
        items(json!({"oneOf": [{"type": "integer"}, {"type": "string"}]})),
        json!({"type": "string"})
    );
    // Anthropic takes no recursion.
    let tree = r##"{"type": "array", "items": {"$ref": "#/$defs/node"}, "$defs": {"node": {"type": "object", "additionalProperties": false, "required": ["of"], "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}"##;
    let flat = tree.replace(
        r##"{"$ref": "#/$defs/node"}}}}}}"##,
        r#"{"type": "integer"}}}}}}"#,
    );
    for (schema, subset, is_text) in [
        (tree, SchemaSubset::Plain, true),
        (tree, SchemaSubset::Full, false),
        (&flat, SchemaSubset::Plain, false),
    ] {
        let asked = cut_with(subset, schema, r#"[{"of": []}, "#).schema();
        let shape = &asked["properties"]["rest_of_items"];
        assert_eq!(*shape == json!({"type": "string"}), is_text, "{asked}");
    }
}
