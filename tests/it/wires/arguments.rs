//! Cut arguments of tool calls, in every API that has them as text.

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Relay};
use restitch::internal::wire::{Dialect, SlotKind, Tool};
use restitch::repair::RepairLevel;
use restitch::session::{Outcome, Request, Status};
use serde_json::json;

use super::continued::{Fault, Received, check_form, read, through_body, through_with};
use restitch_testing::answers::{answer, whole_body};

const DIALECTS: [Dialect; 4] = [
    Dialect::Chat,
    Dialect::Responses,
    Dialect::Messages,
    Dialect::Cohere,
];

const ARGUMENTS: &str = "{\"city\": \"Vigo\", \"days\": 3}";

fn relay(dialect: Dialect) -> Relay {
    let tool = Tool {
        name: "save".to_owned(),
        schema: Some(r#"{"type":"object"}"#.to_owned()),
    };
    Relay::new(Limits::default())
        .dialect(dialect)
        .request(vec![tool], 1)
}

/// Sends a tool call through a relay. Each further call answers with the next of `rests`, as a tool
/// call or as text.
fn run(
    relay: Relay,
    dialect: Dialect,
    first: &str,
    reason: Option<&str>,
    rests: &[(SlotKind, &str)],
) -> (Received, Vec<Request>) {
    let first = answer(dialect, SlotKind::Arguments, first, reason).stream();
    let mut asked = Vec::new();
    let received = through_with(relay, first.as_bytes(), Fault::Clean, 64, |request, _| {
        let (kind, rest) = rests[asked.len().min(rests.len() - 1)];
        asked.push(request.clone());
        let reason = if kind == SlotKind::Text {
            "stop"
        } else {
            "tool_calls"
        };
        (
            answer(dialect, kind, rest, Some(reason)).stream(),
            Fault::Clean,
        )
    });
    (received, asked)
}

fn arguments(dialect: Dialect, received: &Received) -> String {
    let calls = read(dialect, &received.body).tool_args;
    calls.into_values().map(|call| call.args).collect()
}

#[test]
fn a_call_without_arguments_is_asked_for_again() {
    for dialect in DIALECTS {
        for reason in [Some("length"), None] {
            let (received, asked) = run(
                relay(dialect),
                dialect,
                "",
                reason,
                &[(SlotKind::Arguments, ARGUMENTS)],
            );
            assert_eq!(
                arguments(dialect, &received),
                ARGUMENTS,
                "{dialect}: {}",
                received.body
            );
            assert_eq!(
                (asked.len(), asked[0].turn.as_ref()),
                (1, None),
                "{dialect}"
            );
            assert_eq!(received.outcome.status(), Status::Complete, "{dialect}");
            check_form(dialect, &received.body);
        }
    }
}

#[test]
fn arguments_that_are_closed_too_early_are_a_failure() {
    for dialect in DIALECTS {
        let rests = [
            (SlotKind::Text, "{}, \"city\": \"Vigo\"}"),
            (SlotKind::Text, ARGUMENTS),
        ];
        let (received, _) = run(relay(dialect), dialect, "{", Some("length"), &rests);
        assert_eq!(
            arguments(dialect, &received),
            ARGUMENTS,
            "{dialect}: {}",
            received.body
        );
        assert_eq!(received.outcome.tally().failures, 1, "{dialect}");
        check_form(dialect, &received.body);
    }
}

#[test]
fn a_call_of_another_tool_brings_no_arguments() {
    for dialect in DIALECTS {
        let first = answer(
            dialect,
            SlotKind::Arguments,
            &ARGUMENTS[..10],
            Some("length"),
        )
        .stream();
        let received = through_with(
            relay(dialect),
            first.as_bytes(),
            Fault::Clean,
            64,
            |_, _| {
                let other =
                    answer(dialect, SlotKind::Arguments, ARGUMENTS, Some("tool_calls")).stream();
                (other.replace("\"save\"", "\"refund\""), Fault::Clean)
            },
        );
        assert_eq!(
            arguments(dialect, &received),
            ARGUMENTS[..10],
            "{dialect}: {}",
            received.body
        );
        assert_eq!(received.outcome.status(), Status::Incomplete, "{dialect}");
    }
}

#[test]
fn a_raw_line_end_in_arguments_is_repaired() {
    const WRITTEN: &str = "{\"text\": \"a\nb\", \"n\": 1}";
    const REPAIRED: &str = "{\"text\": \"a\\nb\", \"n\": 1}";
    for dialect in DIALECTS {
        let repairing = || relay(dialect).repair(RepairLevel::Syntax);
        let (received, asked) = run(
            repairing(),
            dialect,
            WRITTEN,
            Some("tool_calls"),
            &[(SlotKind::Text, "")],
        );
        assert_eq!(
            (arguments(dialect, &received).as_str(), asked.len()),
            (REPAIRED, 0),
            "{dialect}: {}",
            received.body
        );
        // Events that repeat the arguments have the repaired ones, too.
        assert!(
            !received.body.contains(r#"\"a\nb"#),
            "{dialect}: {}",
            received.body
        );
        check_form(dialect, &received.body);
        let (received, _) = run(
            repairing(),
            dialect,
            &WRITTEN[..14],
            Some("length"),
            &[(SlotKind::Text, WRITTEN)],
        );
        assert_eq!(
            arguments(dialect, &received),
            REPAIRED,
            "{dialect}: {}",
            received.body
        );
        check_form(dialect, &received.body);
    }
}

/// Sends a whole body through a relay. Each further call answers with the next of these bodies.
fn run_body(dialect: Dialect, first: &str, rests: &[String]) -> (String, Vec<Request>, Outcome) {
    let tool = Tool {
        name: "save".to_owned(),
        schema: Some(r#"{"type":"object"}"#.to_owned()),
    };
    let relay = BodyRelay::new(Limits::default())
        .dialect(dialect)
        .tools(vec![tool]);
    let mut rests = rests.iter().cloned();
    through_body(relay, first, |_, _| rests.next())
}

fn arguments_of_body(dialect: Dialect, body: &str) -> String {
    super::read_body(dialect, body)
        .tool_args
        .into_values()
        .map(|call| call.args)
        .collect()
}

const BODIES: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Cohere];

#[test]
fn a_call_without_arguments_in_a_body_is_asked_for_again() {
    for dialect in BODIES {
        let first = whole_body(dialect, SlotKind::Arguments, "", "length").to_string();
        let again = whole_body(dialect, SlotKind::Arguments, ARGUMENTS, "tool_calls").to_string();
        let (whole, asked, outcome) = run_body(dialect, &first, &[again]);
        assert_eq!(
            arguments_of_body(dialect, &whole),
            ARGUMENTS,
            "{dialect}: {whole}"
        );
        assert_eq!(
            (asked.len(), asked[0].turn.as_ref()),
            (1, None),
            "{dialect}"
        );
        assert_eq!(outcome.status(), Status::Complete, "{dialect}");
    }
    // The Messages API sends parsed arguments, so `{}` may be all of them.
    let call = json!({"type": "tool_use", "id": "c", "name": "save", "input": {}});
    let first = json!({"id": "m", "type": "message", "role": "assistant", "content": [call],
        "stop_reason": "max_tokens", "stop_sequence": null})
    .to_string();
    let (whole, asked, outcome) = run_body(Dialect::Messages, &first, &[String::new()]);
    assert_eq!(
        (whole, asked.len(), outcome.status()),
        (first, 0, Status::PassedThrough)
    );
}

#[test]
fn arguments_in_a_body_that_are_closed_too_early_are_a_failure() {
    for dialect in BODIES {
        let first = whole_body(dialect, SlotKind::Arguments, "{", "length").to_string();
        let rests = ["{}, \"city\": \"Vigo\"}", ARGUMENTS];
        let rests = rests.map(|rest| whole_body(dialect, SlotKind::Text, rest, "stop").to_string());
        let (whole, asked, outcome) = run_body(dialect, &first, &rests);
        assert_eq!(
            arguments_of_body(dialect, &whole),
            ARGUMENTS,
            "{dialect}: {whole}"
        );
        assert_eq!((asked.len(), outcome.tally().failures), (2, 1), "{dialect}");
    }
}
