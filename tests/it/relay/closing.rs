//! Documents that were given up and closed: the values that they lack, and their reports.

use restitch::internal::relay::{AnswerOptions, BodyRelay};
use restitch::json::{CloseOptions, Partial};
use restitch::repair::RepairLevel;

use super::*;
use crate::wires::continued::through_body;

/// Closes a whole body whose text the token limit has cut. Returns its text and its report.
fn closed_body(text: &str) -> (String, Value, Outcome) {
    let body =
        json!({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "length"}]});
    let relay = BodyRelay::new(Limits::default().with_max_continuations(0)).give_up(GiveUp::Close);
    let (body, _, outcome) = through_body(relay, &body.to_string(), |_, _| None);
    let mut body: Value = serde_json::from_str(&body).unwrap();
    let content = body["choices"][0]["message"]["content"].as_str().unwrap();
    (content.to_owned(), body["restitch"].take(), outcome)
}

fn closed_stream(text: &str) -> (String, Value, Outcome) {
    let relay = Relay::new(Limits::default().with_max_continuations(0)).give_up(GiveUp::Close);
    let reply = closed(super::text("a", text) + &finish("length") + DONE);
    let ended = run_with(relay, &[reply]);
    let chunks = ended.chunks();
    let report = chunks
        .iter()
        .rev()
        .map(|chunk| &chunk["restitch"])
        .find(|report| report.is_object())
        .unwrap();
    (ended.text(), report.clone(), ended.outcome)
}

fn finish(reason: &str) -> String {
    chat::finish("a", reason)
}

#[test]
fn a_cut_number_is_left_out_of_a_body_and_named_in_a_stream() {
    // The text, the closed text in a body and in a stream, and the cut value of each.
    for (text, body, cut_in_body, stream, cut_in_stream) in [
        (r#"{"km": 51"#, "{}", None, r#"{"km": 51}"#, Some("/km")),
        (
            r#"{"a": 1, "km": 51"#,
            r#"{"a": 1}"#,
            None,
            r#"{"a": 1, "km": 51}"#,
            Some("/km"),
        ),
        (
            r#"{"a": [{"b~/": -2.5e"#,
            r#"{"a": [{}]}"#,
            None,
            r#"{"a": [{"b~/": -2.5e0}]}"#,
            Some("/a/0/b~0~1"),
        ),
        (r#"[1, 2, 30"#, "[1, 2]", None, "[1, 2, 30]", Some("/2")),
        (
            r#"{"to": "Vi"#,
            r#"{"to": "Vi"}"#,
            Some("/to"),
            r#"{"to": "Vi"}"#,
            Some("/to"),
        ),
        (
            r#"["a\u00"#,
            r#"["a"]"#,
            Some("/0"),
            r#"["a\u0020"]"#,
            Some("/0"),
        ),
        (r#"[1, tr"#, "[1]", None, "[1, true]", None),
        (
            r#"{"a": 1, "k"#,
            r#"{"a": 1}"#,
            None,
            r#"{"a": 1, "k":null}"#,
            None,
        ),
        (
            r#"{"a": 1, "km": "#,
            r#"{"a": 1}"#,
            None,
            r#"{"a": 1, "km": null}"#,
            None,
        ),
        (r#"[51 "#, "[51]", None, "[51 ]", None),
        (
            r#"{"km": 51, "#,
            r#"{"km": 51}"#,
            None,
            r#"{"km": 51, "":null}"#,
            None,
        ),
        (
            "Here:\n\n```json\n{\"km\": 51",
            "Here:\n\n```json\n{}\n```",
            None,
            "Here:\n\n```json\n{\"km\": 51}\n```",
            Some("/km"),
        ),
    ] {
        for ((content, report, outcome), expected, cut) in [
            (closed_body(text), body, cut_in_body),
            (closed_stream(text), stream, cut_in_stream),
        ] {
            assert_eq!(
                (content.as_str(), report["cut_value"].as_str()),
                (expected, cut),
                "{text}"
            );
            assert_eq!(
                (report["status"].as_str(), outcome.cut_value()),
                (Some("closed"), cut),
                "{text}"
            );
            assert_eq!(report["elements_may_be_missing"], true, "{text}");
        }
    }
}

#[test]
fn a_closed_body_has_the_complete_part() {
    let document = r#"{"a": [[], {"b": "x\ud83c\udf89y", "c": -10.5e3}, [true, null, {"": [1, 22]}]], "d": "e"}"#;
    for cut in 2..document.len() {
        let text = &document[..cut];
        let mut whole = restitch::Document::new(16);
        whole.push(text).unwrap();
        let expected = whole.complete_with(CloseOptions {
            strings: Partial::Include,
            literals: Partial::Omit,
        });
        let (content, report, _) = closed_body(text);
        assert_eq!(Some(&content), expected.as_ref(), "{text}");
        let value: Value = serde_json::from_str(&content).unwrap();
        let cut_value = report["cut_value"].as_str();
        assert!(
            cut_value.is_none_or(|path| value.pointer(path).is_some_and(Value::is_string)),
            "{text}: {report}"
        );
        assert_eq!(report["synthesized"], json!([]), "{text}");
    }
}

/// A text with a mistake is cut where nothing that follows the mistake is certain. The body has all
/// of it.
#[test]
fn a_body_that_is_given_up_has_all_text_of_its_answer() {
    let texts = [
        r#"{"a": "he said "x" and left", "b": [1, 2]}"#,
        r#"{id: 1, "title": "x" "y": [tru, 'z'], }"#,
        "{\"a\": 01, \"b\": \"c",
    ];
    for text in texts {
        for cut in 1..=text.len() {
            let content = |text: &str| {
                let choice =
                    json!({"index": 0, "message": {"content": text}, "finish_reason": "length"});
                let relay = BodyRelay::new(Limits::default().with_max_continuations(0))
                    .repair(RepairLevel::Guess);
                let body = json!({"choices": [choice]}).to_string();
                let (body, ..) = through_body(relay, &body, |_, _| None);
                let body: Value = serde_json::from_str(&body).unwrap();
                let content = body["choices"][0]["message"]["content"].as_str();
                content.unwrap().to_owned()
            };
            let reply = closed(super::text("a", &text[..cut]) + &finish("length") + DONE);
            let relay =
                Relay::new(Limits::default().with_max_continuations(0)).repair(RepairLevel::Guess);
            let stream = run_with(relay, &[reply]).text();
            let body = content(&text[..cut]);
            assert_eq!(body, stream, "{:?}", &text[..cut]);
            let letters = |text: &str| {
                text.chars()
                    .filter(|c| c.is_alphanumeric())
                    .collect::<String>()
            };
            assert_eq!(letters(&body), letters(&text[..cut]), "{body}");
        }
    }
}
