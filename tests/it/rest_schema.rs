//! A provider that enforces a schema of the missing parts writes exactly the rest.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::Finish;
use restitch::provider::capability::GrammarForm;
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, Input, Outcome, Output, Request, Session,
    Status,
};
use restitch_sim::missing_members;
use restitch_testing::Rng;
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

/// A session with a schema that the provider enforces.
struct Asked {
    session: Session,
    client: String,
    requests: Vec<Request>,
    outcome: Option<Outcome>,
}

impl Asked {
    fn new(schema: &str, delivered: &str) -> Self {
        let mut session = Session::new(Limits::default());
        session.set_schema(schema);
        session.set_strategy(ContinuationStrategy::default().grammar(GrammarForm::JsonSchema));
        session.handle_input(NOW, Input::Text(delivered));
        let mut asked = Self {
            session,
            client: delivered.to_owned(),
            requests: Vec::new(),
            outcome: None,
        };
        asked.end(Finish::Length);
        asked
    }

    fn text(&mut self, text: &str) {
        self.session.handle_input(NOW, Input::Text(text));
        self.drain();
    }

    fn end(&mut self, reason: Finish) {
        let end = Input::CallEnd(CallEnd::Finished(reason));
        self.session.handle_input(NOW, end);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Text(text) => self.client.push_str(&text),
                Output::Call { request, .. } => self.requests.push(request),
                Output::Done(outcome) => self.outcome = Some(outcome),
                _ => {}
            }
        }
    }

    fn mode(&self) -> Option<ContinuationMode> {
        Some(self.requests.last()?.turn.as_ref()?.mode)
    }

    /// The schema of the answer that was asked for last.
    fn schema(&self) -> Value {
        let turn = self.requests.last().unwrap().turn.as_ref().unwrap();
        serde_json::from_str(turn.grammar.as_ref().unwrap()).unwrap()
    }

    /// The answer of a model that knows the document.
    fn answer(&self, document: &str) -> String {
        let turn = self.requests.last().unwrap().turn.as_ref().unwrap();
        let position = position(document, &self.client);
        let answer = missing_members(document, position, &turn.prompt, &self.schema());
        answer.unwrap_or_else(|| panic!("{}\n{}", self.client, turn.prompt))
    }

    /// Takes an answer in pieces of random sizes.
    fn pieces(&mut self, answer: &str, rng: &mut Rng) {
        let mut rest = answer;
        while !rest.is_empty() {
            let size = 1 + rng.below(12);
            let end = (size.min(rest.len())..).find(|end| rest.is_char_boundary(*end));
            let (piece, later) = rest.split_at(end.unwrap());
            self.text(piece);
            rest = later;
        }
    }
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
            let mut asked = Asked::new(schema, &document[..at]);
            if asked.mode() != Some(ContinuationMode::Schema) {
                continue;
            }
            asked_by_schema += 1;
            let answer = asked.answer(document);
            asked.pieces(&answer, &mut rng);
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
    let mut asked = Asked::new(schema, delivered);
    assert_eq!(asked.mode(), Some(ContinuationMode::Schema));
    for (text, new) in [
        ("{\"rest_of_", ""),
        ("string\": \"од", "од"),
        ("ин\"", "ин\""),
        (", \"rest_of_items\": [", ""),
        ("]", "]"),
        (", \"rest_of_item\": {\"state\": \"op", ", \"state\": \"op"),
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
    let asked = Asked::new(schema, cut("\"state\": \"op"));
    let found = asked.schema();
    let schema: Value = serde_json::from_str(schema).unwrap();
    let person = &schema["$defs"]["person"];
    assert_eq!(
        found,
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["rest_of_string", "rest_of_item", "rest_of_items", "rest_of_item_2"],
            "properties": {
                "rest_of_string": {"type": "string", "enum": ["en", "ened"]},
                "rest_of_item": {
                    "type": "object", "additionalProperties": false, "required": ["nick"],
                    "properties": {"nick": person["properties"]["nick"]},
                },
                "rest_of_items": {"type": "array", "items": {"$ref": "#/$defs/person"}, "minItems": 1, "maxItems": 2},
                "rest_of_item_2": {
                    "type": "object", "additionalProperties": false, "required": ["ok", "rate"],
                    "properties": {"ok": {"type": "boolean"}, "rate": {"type": "number"}},
                },
            },
            "$defs": {"person": person},
        })
    );
    // The only key that is due and begins so.
    let asked = Asked::new(cases()[0].1, cut("\"age\": -7, \"ta"));
    assert_eq!(
        asked.schema()["properties"]["value"],
        person["properties"]["tags"]
    );
    assert_eq!(asked.schema()["required"][0], "value");
}

#[test]
fn members_may_come_in_another_order() {
    let (_, schema, document) = cases().remove(0);
    for at in [40, 95, 130, 150] {
        let mut asked = Asked::new(schema, &document[..at]);
        let answer: Value = serde_json::from_str(&asked.answer(document)).unwrap();
        let members: Vec<_> = answer.as_object().unwrap().iter().rev().collect();
        let members: Vec<_> = members
            .iter()
            .map(|(key, value)| format!("\"{key}\": {value}"))
            .collect();
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
        let mut asked = Asked::new(schema, delivered);
        asked.text(answer);
        asked.end(Finish::Stop);
        assert_eq!(
            (asked.client.as_str(), asked.outcome.is_some()),
            (delivered, false),
            "{answer}"
        );
        assert_eq!(asked.mode(), Some(ContinuationMode::Reprompt), "{answer}");
        assert_eq!(asked.session.tally().failures, 0, "{answer}");
    }
}

/// An answer that is cut again is continued where it stops.
#[test]
fn a_cut_answer_is_continued_in_the_same_way() {
    let mut rng = Rng::new(11);
    for (name, schema, document) in cases() {
        for at in (5..document.len() - 1)
            .step_by(5)
            .filter(|at| document.is_char_boundary(*at))
        {
            let mut asked = Asked::new(schema, &document[..at]);
            let mut calls = 0;
            while asked.outcome.is_none() && asked.mode() == Some(ContinuationMode::Schema) {
                let answer = asked.answer(document);
                let most = answer.len() * 2 / 3;
                let end = (most..).find(|end| answer.is_char_boundary(*end)).unwrap();
                let is_last = calls == 5;
                let part = if is_last { &answer } else { &answer[..end] };
                asked.pieces(part, &mut rng);
                asked.end(if is_last {
                    Finish::Stop
                } else {
                    Finish::Length
                });
                calls += 1;
                let same: Value = match serde_json::from_str(&asked.client) {
                    Ok(value) => value,
                    Err(error) if error.is_eof() => continue,
                    Err(error) => panic!("{name} at {at}: {error}\n{}", asked.client),
                };
                assert_eq!(same, serde_json::from_str::<Value>(document).unwrap());
            }
        }
    }
}
