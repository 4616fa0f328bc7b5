//! Answers to requests that end with a prefill.

use restitch::Limits;
use restitch::internal::chat::{Changes, Rest};
use restitch::internal::relay::{AnswerOptions, BodyRelay, Relay, TransportEnd};
use restitch::internal::wire::{Base, Dialect, SlotKind};
use restitch::provider::capability::PrefillForm;
use restitch::session::{ContinuationMode, Request, Status};
use serde_json::{Value, json};

use super::continued::{Fault, Received, check_form, read, through_body, through_with};
use restitch_testing::answers::{answer, whole_body};

/// Returns a request whose last message begins the answer.
fn request(dialect: Dialect, prefill: &str) -> Value {
    let turns =
        json!([{"role": "user", "content": "Go"}, {"role": "assistant", "content": prefill}]);
    match dialect {
        Dialect::Completions => {
            json!({"model": "m", "prompt": format!("List [all] {{of}} them.\n{prefill}")})
        }
        Dialect::Responses => json!({"model": "m", "input": [{"role": "user", "content": "Go"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": prefill}]}]}),
        Dialect::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "Go"}]},
            {"role": "model", "parts": [{"text": prefill}]}]}),
        _ => json!({"model": "m", "messages": turns}),
    }
}

/// Returns the text of a request's last message, or of its prompt.
fn last_text(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    let list = [&body["messages"], &body["input"], &body["contents"]]
        .into_iter()
        .find_map(Value::as_array);
    let last = list.map_or(&body["prompt"], |list| list.last().unwrap());
    let content = [&last["content"], &last["parts"], last]
        .into_iter()
        .find(|content| !content.is_null())
        .unwrap();
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap_or_else(|| panic!("{body}")).to_owned()
}

fn path(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Gemini {
        "/v1beta/models/m:streamGenerateContent"
    } else {
        ""
    }
}

fn base_of(dialect: Dialect, body: &Value) -> Base {
    dialect
        .wire()
        .parse(path(dialect), body.to_string().as_bytes())
        .unwrap()
        .base
}

fn relay(dialect: Dialect, base: &Base) -> Relay {
    Relay::new(Limits::default()).dialect(dialect).base(base)
}

fn prefill(text: &str, is_continued: bool) -> Base {
    Base::Prefill {
        text: text.to_owned(),
        is_continued,
        is_returned: false,
    }
}

/// Sends an answer through a relay. Each further call answers with `rest`.
fn run(
    dialect: Dialect,
    base: &Base,
    text: &str,
    reason: Option<&str>,
    rest: &str,
) -> (Received, Vec<Request>) {
    let first = answer(dialect, SlotKind::Text, text, reason).stream();
    let mut asked = Vec::new();
    let received = through_with(
        relay(dialect, base),
        first.as_bytes(),
        Fault::Clean,
        64,
        |request, _| {
            asked.push(request.clone());
            (
                answer(dialect, SlotKind::Text, rest, Some("stop")).stream(),
                Fault::Clean,
            )
        },
    );
    (received, asked)
}

/// Returns a whole body with one text.
fn body(dialect: Dialect, text: &str, is_cut: bool) -> String {
    whole_body(
        dialect,
        SlotKind::Text,
        text,
        if is_cut { "length" } else { "stop" },
    )
    .to_string()
}

/// Sends a whole body through a relay. Returns the client's body, the number of further calls, and
/// the status.
fn run_body(dialect: Dialect, base: &Base, first: &str, rest: &str) -> (String, usize, Status) {
    let relay = BodyRelay::new(Limits::default())
        .dialect(dialect)
        .base(base);
    let (whole, asked, outcome) =
        through_body(relay, first, |_, _| Some(body(dialect, rest, false)));
    (whole, asked.len(), outcome.status())
}

fn text_of_body(dialect: Dialect, body: &str) -> String {
    super::read_body(dialect, body).text.into_values().collect()
}

fn text_of(dialect: Dialect, stream: &str) -> String {
    read(dialect, stream).text.into_values().collect()
}

#[test]
fn a_request_names_the_text_that_its_answer_continues() {
    for dialect in Dialect::ALL {
        let is_continued = dialect == Dialect::Messages;
        assert_eq!(
            base_of(dialect, &request(dialect, "{\"a\": [")),
            prefill("{\"a\": [", is_continued),
            "{dialect}"
        );
        // After a user's message the answer begins anew.
        let mut body = request(dialect, "{\"a\": [");
        if let Some(list) = ["messages", "input", "contents"]
            .iter()
            .find(|key| !body[**key].is_null())
        {
            body[*list].as_array_mut().unwrap().reverse();
            assert_eq!(base_of(dialect, &body), Base::Empty, "{dialect}");
        }
    }
    for (member, value) in [("prefix", json!(true)), ("partial", json!(true))] {
        let mut body = request(Dialect::Chat, "[");
        body["messages"][1][member] = value;
        assert_eq!(
            base_of(Dialect::Chat, &body),
            prefill("[", true),
            "{member}"
        );
    }
    let mut body = request(Dialect::Chat, "[");
    body["continue_final_message"] = json!(true);
    assert_eq!(base_of(Dialect::Chat, &body), prefill("[", true));
    let calls = json!({"messages": [{"role": "assistant", "content": "[", "tool_calls": [{}]}]});
    assert_eq!(base_of(Dialect::Chat, &calls), Base::Empty);
    let mut body = request(Dialect::Gemini, "[");
    body["continuationToken"] = json!("t");
    assert_eq!(base_of(Dialect::Gemini, &body), Base::Elsewhere);
    // The server has the conversation, and the answer begins anew.
    let next = json!({"previous_response_id": "r", "input": "Go on"});
    assert_eq!(base_of(Dialect::Responses, &next), Base::Empty);
}

#[test]
fn an_answer_that_is_cut_after_a_prefill_becomes_whole() {
    for dialect in Dialect::ALL {
        let request = request(dialect, "{\"a\": [");
        let base = base_of(dialect, &request);
        for reason in [Some("length"), None] {
            let (received, asked) = run(dialect, &base, "1, 2, 3", reason, ", 4]}");
            assert_eq!(
                text_of(dialect, &received.body),
                "1, 2, 3, 4]}",
                "{dialect}: {}",
                received.body
            );
            assert_eq!(
                (received.outcome.status(), asked.len()),
                (Status::Complete, 1),
                "{dialect}"
            );
            check_form(dialect, &received.body);
            let turn = asked[0].turn.as_ref().unwrap();
            assert_eq!(
                (turn.delivered.as_str(), turn.mode),
                ("{\"a\": [1, 2, 3", ContinuationMode::Prefill),
                "{dialect}"
            );
            let rest = Rest::Prefill {
                delivered: &turn.delivered,
                form: PrefillForm::None,
            };
            let changes = Changes {
                replaces_prefill: turn.replaces_prefill,
                ..Changes::default()
            };
            let further = dialect
                .wire()
                .ask(&request.to_string(), Some(&rest), &changes)
                .unwrap();
            assert!(
                last_text(&further).ends_with("{\"a\": [1, 2, 3"),
                "{dialect}: {further}"
            );
            assert_eq!(
                further.matches("1, 2, 3").count(),
                1,
                "{dialect}: {further}"
            );
            assert_eq!(
                further.matches(r#"{\"a\": ["#).count(),
                1,
                "{dialect}: {further}"
            );
        }
        let (whole, asked, status) =
            run_body(dialect, &base, &body(dialect, "1, 2, 3", true), ", 4]}");
        assert_eq!(
            (text_of_body(dialect, &whole).as_str(), asked, status),
            ("1, 2, 3, 4]}", 1, Status::Complete),
            "{dialect}"
        );
    }
}

#[test]
fn an_answer_inside_a_document_is_read_to_its_end() {
    const TEXT: &str = r#"{"x":1}, {"x":2}]}"#;
    for dialect in Dialect::ALL {
        let base = base_of(dialect, &request(dialect, "{\"items\": ["));
        let first = answer(dialect, SlotKind::Text, TEXT, Some("stop")).stream();
        let (received, asked) = run(dialect, &base, TEXT, Some("stop"), "");
        assert_eq!((received.body, asked.len()), (first, 0), "{dialect}");
        let first = body(dialect, TEXT, false);
        assert_eq!(
            run_body(dialect, &base, &first, ""),
            (first.clone(), 0, Status::PassedThrough),
            "{dialect}"
        );
        // The first object is not the document.
        for cut in 9..TEXT.len() {
            let (received, asked) = run(dialect, &base, &TEXT[..cut], Some("length"), &TEXT[cut..]);
            let text = text_of(dialect, &received.body);
            assert!(!asked.is_empty(), "{dialect} {cut}: {}", received.body);
            assert_eq!(
                (text.as_str(), received.outcome.status()),
                (TEXT, Status::Complete),
                "{dialect} {cut}"
            );
        }
    }
}

#[test]
fn an_answer_that_is_legal_in_both_readings_passes() {
    for dialect in Dialect::ALL {
        for (before, text, reason) in [
            ("{\"items\": [", "{\"x\": 1}", Some("stop")),
            ("{\"items\": [", "{\"x\": 1", Some("length")),
            ("{\"items\": [", "{\"x\": [1", None),
            (
                "{\"title\": \"The ",
                "I can't help with that.",
                Some("stop"),
            ),
            (
                "{\"title\": \"The ",
                "Here is the whole text:",
                Some("length"),
            ),
        ] {
            let (received, asked) = run(dialect, &prefill(before, false), text, reason, "");
            assert_eq!(
                received.body,
                answer(dialect, SlotKind::Text, text, reason).stream(),
                "{dialect}"
            );
            assert_eq!(
                (received.outcome.status(), asked.len()),
                (Status::PassedThrough, 0),
                "{dialect} {before} {text}"
            );
            let report: Value = serde_json::from_str(&received.outcome.report()).unwrap();
            assert_eq!(report["base"], "unknown", "{dialect} {before} {text}");
        }
    }
}

#[test]
fn a_provider_that_continues_prefills_decides_between_legal_readings() {
    for dialect in Dialect::ALL {
        let (received, asked) = run(
            dialect,
            &prefill("{\"items\": [", true),
            "{\"x\": 1",
            Some("length"),
            "}, {\"x\": 2}]}",
        );
        assert_eq!(
            text_of(dialect, &received.body),
            "{\"x\": 1}, {\"x\": 2}]}",
            "{dialect}"
        );
        assert_eq!(
            asked[0].turn.as_ref().unwrap().delivered,
            "{\"items\": [{\"x\": 1",
            "{dialect}"
        );
    }
}

#[test]
fn an_answer_with_a_separate_root_is_continued_without_the_prefill() {
    for (before, text, rest) in [
        // It is illegal after the prefill.
        ("{", "{\"a\": [1", ", 2]}"),
        (
            "{\"a\": \"b",
            "Sure:\n```json\n{\"a\": \"b\", \"c\": 1",
            ", \"d\": 2}\n```",
        ),
        // It repeats the whole prefill.
        (
            "{\"title\": \"Ports of the north\", \"items\": [",
            "{\"title\": \"Ports of the north\", \"items\": [1",
            ", 2]}",
        ),
        // The prefill has no open root.
        ("Here it is:", "[1, 2", ", 3]"),
    ] {
        for is_continued in [false, true] {
            let base = prefill(before, is_continued);
            let (received, asked) = run(
                Dialect::Chat,
                &base,
                text,
                Some("length"),
                &format!("{text}{rest}"),
            );
            assert_eq!(
                text_of(Dialect::Chat, &received.body),
                format!("{text}{rest}"),
                "{before}"
            );
            let delivered = asked[0].turn.as_ref().unwrap().delivered.as_str();
            assert_eq!(delivered, text, "{before}");
        }
    }
}

#[test]
fn an_answer_whose_base_is_not_in_the_request_passes_unread() {
    for dialect in Dialect::ALL {
        for text in ["{\"x\":1}, {\"x\":2}]}", "{\"x\":1", "{\"x\":1}"] {
            for reason in [Some("length"), Some("stop"), None] {
                let first = answer(dialect, SlotKind::Text, text, reason).stream();
                let dropped = through_with(
                    relay(dialect, &Base::Elsewhere),
                    first.as_bytes(),
                    Fault::Dropped,
                    64,
                    |_, _| panic!("{dialect}"),
                );
                assert_eq!(
                    (dropped.body, dropped.outcome.status()),
                    (first.clone(), Status::PassedThrough),
                    "{dialect}"
                );
                assert_eq!(dropped.transport_end, TransportEnd::Dropped);
                assert!(dropped.outcome.tally().base_unknown);
            }
        }
        let first = body(dialect, "{\"x\":1", true);
        assert_eq!(
            run_body(dialect, &Base::Elsewhere, &first, ""),
            (first.clone(), 0, Status::PassedThrough)
        );
    }
}

#[test]
fn an_empty_answer_after_a_prefill_repeats_the_original_request() {
    let base = prefill("{\"a\": [", true);
    let (received, asked) = run(Dialect::Chat, &base, "", None, "1]}");
    assert_eq!(
        (
            text_of(Dialect::Chat, &received.body).as_str(),
            asked[0].turn.as_ref()
        ),
        ("1]}", None)
    );
    assert_eq!(received.outcome.status(), Status::Complete);
}

#[test]
fn a_repair_changes_only_the_answer() {
    let base = prefill("{'a': [", true);
    let first = answer(Dialect::Chat, SlotKind::Text, "1, 2,]}", Some("stop")).stream();
    let relay = Relay::new(Limits::default()).repair(restitch::repair::RepairLevel::Syntax);
    let received = through_with(
        relay.base(&base),
        first.as_bytes(),
        Fault::Clean,
        64,
        |_, _| panic!("nothing is missing"),
    );
    // The prefill is not JSON, and restitch never changes a prefill.
    assert_eq!(received.body, first);
    let base = prefill("{\"a\": [", true);
    let relay = Relay::new(Limits::default()).repair(restitch::repair::RepairLevel::Syntax);
    let received = through_with(
        relay.base(&base),
        first.as_bytes(),
        Fault::Clean,
        64,
        |_, _| panic!("nothing is missing"),
    );
    assert_eq!(text_of(Dialect::Chat, &received.body), "1, 2]}");
}

#[test]
fn a_reprompt_puts_the_delivered_text_into_the_last_message() {
    for dialect in Dialect::ALL {
        let rest = Rest::Reprompt {
            delivered: "[1, 2",
            prompt: "Go on",
        };
        let changes = Changes {
            replaces_prefill: true,
            ..Changes::default()
        };
        let further = dialect
            .wire()
            .ask(&request(dialect, "[1").to_string(), Some(&rest), &changes)
            .unwrap();
        assert_eq!(further.matches("[1").count(), 1, "{dialect}: {further}");
        assert!(
            last_text(&further).ends_with("Go on"),
            "{dialect}: {further}"
        );
    }
    // Only a last message is continued.
    let body = r#"{"messages":[{"role":"assistant","content":"[1","prefix":true}],"continue_final_message":true}"#;
    let rest = Rest::Reprompt {
        delivered: "[1, 2",
        prompt: "Go on",
    };
    for (replaces_prefill, expected) in [
        (
            true,
            r#"{"messages":[{"role":"assistant","content":"[1, 2"},{"role":"user","content":"Go on"}]}"#,
        ),
        (
            false,
            r#"{"messages":[{"role":"assistant","content":"[1"},{"role":"assistant","content":"[1, 2"},{"role":"user","content":"Go on"}]}"#,
        ),
    ] {
        let changes = Changes {
            replaces_prefill,
            ..Changes::default()
        };
        assert_eq!(
            Dialect::Chat
                .wire()
                .ask(body, Some(&rest), &changes)
                .unwrap(),
            expected
        );
    }
}
