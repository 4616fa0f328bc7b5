//! The check against cases by hand, and against the `jsonschema` crate.

use serde_json::{Value, json};

use super::{SchemaCheck, SchemaRules};
use crate::document::Document;

/// Pushes a document in pieces and returns its check.
fn checked(schema: &Value, pieces: &[&str]) -> SchemaCheck {
    let mut check = SchemaCheck::new(SchemaRules::read(&schema.to_string()).unwrap());
    let mut document = Document::new(64);
    for piece in pieces {
        document.push_with(piece, &mut check).unwrap();
    }
    check
}

/// What a document lacks, or the path of another departure.
fn said(schema: &Value, document: &str) -> Option<String> {
    let check = checked(schema, &[document]);
    let shortfall = check.first_shortfall().map(ToString::to_string);
    shortfall.or_else(|| Some(format!("other at {}", check.mismatch()?)))
}

#[test]
fn each_keyword_is_judged() {
    let person = json!({
        "type": "object", "required": ["name", "age"],
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "minItems": 2}},
    });
    for (schema, document, expected) in [
        (&person, r#"{"age": 1, "name": "A"}"#, None),
        (
            &person,
            r#"{"age": 1}"#,
            Some(r#"the object at the root still lacks "name""#),
        ),
        (
            &person,
            "{}",
            Some(r#"the object at the root still lacks "name", "age""#),
        ),
        (
            &person,
            r#"{"name": "A", "\u0061ge": 1, "tags": ["x"]}"#,
            Some("the array at `/tags` has 1 of at least 2 elements"),
        ),
        (&person, r#"{"name": 1, "age": 1}"#, Some("other at /name")),
        (&person, "[]", Some("other at ")),
        (
            &json!({"items": {"enum": ["a", "bc", 1, null, true]}}),
            r#"["a", "b\u0063", 1.0, null, true]"#,
            None,
        ),
        (
            &json!({"items": {"enum": ["a"]}}),
            r#"["a", "aa"]"#,
            Some("other at /1"),
        ),
        (
            &json!({"items": {"enum": ["a"]}}),
            r#"["a", {}]"#,
            Some("other at /1"),
        ),
        (
            &json!({"items": {"const": 2}}),
            "[2, 3]",
            Some("other at /1"),
        ),
        (
            &json!({"prefixItems": [{"type": "null"}, true], "items": {"type": "boolean"}}),
            "[null, 1, false, 1]",
            Some("other at /3"),
        ),
        (
            &json!({"additionalProperties": {"minItems": 1}, "properties": {"a": true}}),
            r#"{"a": [], "b": []}"#,
            Some("the array at `/b` has 0 of at least 1 elements"),
        ),
    ] {
        assert_eq!(said(schema, document).as_deref(), expected, "{document}");
    }
}

#[test]
fn what_is_not_understood_has_no_requirements() {
    let strict = json!({"type": "object", "required": ["a"]});
    for schema in [
        json!({}),
        json!({"anyOf": [{"type": "string"}, strict]}),
        json!({"oneOf": []}),
        json!({"allOf": [strict, {"required": ["b"]}]}),
        json!({"not": strict}),
        json!({"if": strict, "then": strict}),
        json!({"$ref": "other.json#/a"}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "#"}),
        json!({"type": "record"}),
        json!({"enum": [["x"]]}),
        json!({"required": true, "minItems": -1, "properties": 3, "items": 4, "enum": 5}),
        json!({"patternProperties": {"^a": strict}, "additionalProperties": {"type": "null"}}),
    ] {
        for document in ["{}", "[]", r#"{"a": {}, "b": 1}"#] {
            assert_eq!(said(&schema, document), None, "{schema} {document}");
        }
    }
    assert!(SchemaRules::read("true").is_none() && SchemaRules::read("{").is_none());
}

#[test]
fn references_and_nullable_types_are_followed() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {"required": ["name"], "properties": {"children": {"items": {"$ref": "#/$defs/node"}}}},
        },
    });
    assert_eq!(
        said(
            &tree,
            r#"{"name": 1, "children": [{"name": 2, "children": [{}]}]}"#
        )
        .as_deref(),
        Some(r#"the object at `/children/0/children/0` still lacks "name""#)
    );
    for nullable in [
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"oneOf": [{"type": "null"}, {"$ref": "#/$defs/name"}]}),
        json!({"type": "STRING", "nullable": true}),
        json!({"type": ["string", "null"]}),
        json!({"allOf": [{"type": ["string", "null"]}]}),
    ] {
        let schema = json!({"items": nullable, "$defs": {"name": {"type": "string"}}});
        assert_eq!(said(&schema, r#"["a", null]"#), None, "{schema}");
        assert_eq!(
            said(&schema, r#"["a", 1]"#).as_deref(),
            Some("other at /1"),
            "{schema}"
        );
    }
}

/// A schema of many references has a rule for each, and a circle of them has an end.
#[test]
fn a_hostile_schema_takes_bounded_work() {
    let circle = json!({"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
    assert_eq!(said(&circle, "{}"), None);
    // Each schema has one rule, although references with siblings name it again and again.
    let again: serde_json::Map<_, _> = (0..1_000)
        .map(|at| (format!("k{at}"), json!({"$ref": "#", "description": ""})))
        .collect();
    let again = json!({"properties": again, "required": ["k0"]});
    assert_eq!(SchemaRules::read(&again.to_string()).unwrap().len(), 1);
    let tree = json!({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {
        "left": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
        "right": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]},
    }}}});
    assert_eq!(SchemaRules::read(&tree.to_string()).unwrap().len(), 2);
    let wide: serde_json::Map<_, _> = (0..30_000)
        .map(|at| (format!("k{at}"), json!({"type": "string"})))
        .collect();
    let wide = json!({"properties": wide, "items": {"$ref": "#"}});
    assert_eq!(said(&wide, r#"{"k0": "a"}"#), None);
}

#[test]
fn the_container_that_was_open_where_a_call_begins_is_named() {
    let schema = json!({"properties": {"a": {"minItems": 3}, "b": {"minItems": 2}}});
    let mut check = SchemaCheck::new(SchemaRules::read(&schema.to_string()).unwrap());
    let mut document = Document::new(64);
    document
        .push_with(r#"{"b": [1], "a": [1"#, &mut check)
        .unwrap();
    check.begin_call(document.text().len());
    document.push_with(", 2 ", &mut check).unwrap();
    assert!(check.new_shortfall().is_none());
    document.push_with("]}", &mut check).unwrap();
    let (found, first) = (
        check.new_shortfall().unwrap(),
        check.first_shortfall().unwrap(),
    );
    assert_eq!((found.path.as_str(), found.end), ("/a", 22));
    assert_eq!(first.path, "/b");
    // A container that opens later is the model's own.
    document.push_with("[", &mut check).unwrap_err();
}

#[cfg(feature = "schema")]
mod twin {
    use jsonschema::error::ValidationErrorKind as Kind;
    use proptest::prelude::*;

    use super::*;

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (0..4_i64).prop_map(Value::from),
            "[abé\"]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    fn schema() -> impl Strategy<Value = Value> {
        let types = prop::sample::subsequence(
            vec!["object", "array", "string", "number", "boolean", "null"],
            3..6,
        );
        let leaf = prop_oneof![
            Just(json!({})),
            types.prop_map(|types| json!({"type": types})),
            prop::collection::vec(document(), 1..5).prop_map(|values| json!({"enum": values})),
            (0..3_u64).prop_map(|least| json!({"minItems": least})),
            Just(json!({"$ref": "#/$defs/a"})),
            Just(json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]})),
        ];
        let nested = leaf.prop_recursive(4, 24, 3, |inner| {
            let keys = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
            let members = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
            (members, keys, inner.clone(), inner, 0..3_u64).prop_map(
                |(members, keys, items, others, least)| {
                    json!({
                        "properties": members, "required": keys, "items": items,
                        "additionalProperties": others, "minItems": least,
                    })
                },
            )
        });
        (nested.clone(), nested).prop_map(|(mut schema, shared)| {
            schema["$defs"] = json!({"a": shared});
            schema
        })
    }

    proptest! {
        /// The check finds a departure exactly where the validator does, except for choices that
        /// are containers.
        #[test]
        fn the_check_agrees_with_the_validator(schema in schema(), document in document()) {
            let text = format!("[{document}]");
            let outer = json!({"items": schema.clone(), "$defs": schema["$defs"]});
            let validator = jsonschema::validator_for(&outer).unwrap();
            let whole: Value = serde_json::from_str(&text).unwrap();
            let is_judged = |error: &jsonschema::ValidationError<'_>| match error.kind() {
                Kind::Required { .. } | Kind::MinItems { .. } | Kind::Type { .. } => true,
                Kind::Enum { options } => !options.as_array().unwrap().iter().any(|one| one.is_array() || one.is_object()),
                Kind::AnyOf { .. } => true,
                other => panic!("{other:?}"),
            };
            let expected: Vec<_> = validator.iter_errors(&whole).filter(is_judged).map(|error| error.instance_path().to_string()).collect();
            let check = checked(&outer, &[&text]);
            let found: Vec<_> = check.first_shortfall().map(|short| short.path.clone()).into_iter()
                .chain(check.mismatch().map(str::to_owned)).collect();
            prop_assert_eq!(expected.is_empty(), found.is_empty(), "{} {:?} {:?}", outer, expected, found);
            for path in &found {
                prop_assert!(expected.iter().any(|other| path.starts_with(other.as_str())), "{} {:?} {:?}", outer, expected, found);
            }
        }

        /// A document in pieces is judged like a whole one.
        #[test]
        fn pieces_make_no_difference(schema in schema(), document in document(), seed in any::<u64>()) {
            let text = format!("[{document}]");
            let at = (0..=text.len()).rev().find(|at| *at as u64 <= seed % (text.len() as u64 + 1) && text.is_char_boundary(*at)).unwrap();
            let outer = json!({"items": schema});
            let (whole, split) = (checked(&outer, &[&text]), checked(&outer, &[&text[..at], &text[at..]]));
            prop_assert_eq!(whole.first_shortfall(), split.first_shortfall());
            prop_assert_eq!(whole.mismatch(), split.mismatch());
        }
    }
}
