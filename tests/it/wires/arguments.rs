//! Arguments of tool calls that are cut, in every API that has them as text.

use restitch::Limits;
use restitch::internal::relay::Relay;
use restitch::internal::wire::{Dialect, SlotKind, Tool};
use restitch::repair::RepairLevel;
use restitch::session::{Request, Status};

use super::answers::answer;
use super::continued::{Fault, Received, check_form, read, through_with};

const DIALECTS: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Cohere];

const ARGUMENTS: &str = "{\"city\": \"Vigo\", \"days\": 3}";

fn relay(dialect: Dialect) -> Relay {
    let tool = Tool { name: "save".to_owned(), schema: Some(r#"{"type":"object"}"#.to_owned()) };
    Relay::new(Limits::default()).dialect(dialect).request(vec![tool], 1)
}

/// Sends a call through a relay. Each further call answers with these arguments, as a call or as text.
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
        let reason = if kind == SlotKind::Text { "stop" } else { "tool_calls" };
        (answer(dialect, kind, rest, Some(reason)).stream(), Fault::Clean)
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
            let (received, asked) = run(relay(dialect), dialect, "", reason, &[(SlotKind::Arguments, ARGUMENTS)]);
            assert_eq!(arguments(dialect, &received), ARGUMENTS, "{dialect}: {}", received.body);
            assert_eq!((asked.len(), asked[0].turn.as_ref()), (1, None), "{dialect}");
            assert_eq!(received.outcome.status(), Status::Complete, "{dialect}");
            check_form(dialect, &received.body);
        }
    }
}

#[test]
fn arguments_that_are_closed_too_early_are_a_failure() {
    for dialect in DIALECTS {
        let rests = [(SlotKind::Text, "{}, \"city\": \"Vigo\"}"), (SlotKind::Text, ARGUMENTS)];
        let (received, _) = run(relay(dialect), dialect, "{", Some("length"), &rests);
        assert_eq!(arguments(dialect, &received), ARGUMENTS, "{dialect}: {}", received.body);
        assert_eq!(received.outcome.tally().failures, 1, "{dialect}");
        check_form(dialect, &received.body);
    }
}

#[test]
fn a_raw_line_end_in_arguments_is_repaired() {
    const WRITTEN: &str = "{\"text\": \"a\nb\", \"n\": 1}";
    const REPAIRED: &str = "{\"text\": \"a\\nb\", \"n\": 1}";
    for dialect in DIALECTS {
        let repairing = || relay(dialect).repair(RepairLevel::Syntax);
        let (received, asked) = run(repairing(), dialect, WRITTEN, Some("tool_calls"), &[(SlotKind::Text, "")]);
        assert_eq!(
            (arguments(dialect, &received).as_str(), asked.len()),
            (REPAIRED, 0),
            "{dialect}: {}",
            received.body
        );
        // Events that repeat the arguments have them repaired, too.
        assert!(!received.body.contains("a\\nb"), "{dialect}: {}", received.body);
        check_form(dialect, &received.body);
        let (received, _) = run(repairing(), dialect, &WRITTEN[..14], Some("length"), &[(SlotKind::Text, WRITTEN)]);
        assert_eq!(arguments(dialect, &received), REPAIRED, "{dialect}: {}", received.body);
        check_form(dialect, &received.body);
    }
}
