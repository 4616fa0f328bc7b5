//! Prose in event streams: what leaves as it came, and what is written after a seam.

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Relay, TransportEnd};
use restitch::internal::wire::SlotKind;
use restitch::provider::Dialect;
use restitch::session::{Outcome, Prose, Request, Status};
use serde_json::{Value, json};

use super::{LETTER, rest};
use crate::wires::continued::{Fault, check_form, read, relayed};
use restitch_testing::answers::answer;
use restitch_testing::chat::{self, DONE, content};
use restitch_testing::event_data;

fn relay() -> Relay {
    Relay::new(Limits::default()).prose(Prose::Anchor)
}

fn finish(choice: u32, reason: &str) -> String {
    chat::chunk("a", choice, &json!({}), Some(reason))
}

#[derive(Debug)]
struct Ended {
    body: String,
    requests: Vec<Request>,
    outcome: Outcome,
    transport_end: TransportEnd,
}

impl Ended {
    fn events(&self) -> Vec<Value> {
        event_data(self.body.as_bytes())
    }

    fn text(&self, choice: u64) -> String {
        let events = self.events();
        let choices = events
            .iter()
            .flat_map(|event| event["choices"].as_array().into_iter().flatten());
        choices
            .filter(|of| of["index"] == choice)
            .filter_map(|of| of["delta"]["content"].as_str())
            .collect()
    }

    fn finishes(&self) -> Vec<String> {
        let events = self.events();
        let choices = events
            .iter()
            .flat_map(|event| event["choices"].as_array().into_iter().flatten());
        choices
            .filter_map(|of| of["finish_reason"].as_str())
            .map(str::to_owned)
            .collect()
    }
}

/// Feeds a first answer, and what `answer` makes of each question.
fn run(
    relay: Relay,
    first: impl AsRef<[u8]>,
    fault: Fault,
    pieces: usize,
    answer: impl Fn(&Request) -> String,
) -> Ended {
    let relayed = relayed(
        relay,
        first.as_ref(),
        fault,
        |body| body.chunks(pieces).collect(),
        |_, request| (answer(request).into_bytes(), Fault::Clean),
    );
    let (outcome, transport_end) = relayed.end().unwrap();
    Ended {
        outcome: outcome.clone(),
        transport_end,
        requests: relayed.requests(),
        body: String::from_utf8(relayed.body).unwrap(),
    }
}

/// Returns an answer's stream in events of a few letters.
fn stream(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let chunks: String = chars
        .chunks(9)
        .map(|piece| content(0, &piece.iter().collect::<String>(), None))
        .collect();
    chunks + &finish(0, "stop") + DONE
}

#[test]
fn a_stream_that_drops_at_any_byte_becomes_whole() {
    let whole = stream(LETTER);
    let events: Vec<usize> = whole.match_indices("\n\n").map(|(at, _)| at + 2).collect();
    for cut in 0..whole.len() {
        let settled = &whole[..events.iter().copied().rfind(|&end| end <= cut).unwrap_or(0)];
        let received: String = LETTER
            .chars()
            .take(settled.matches("\"content\"").count() * 9)
            .collect();
        let ended = run(
            relay(),
            &whole.as_bytes()[..cut],
            Fault::Dropped,
            50,
            |request| {
                if request.turn.is_none() {
                    // Nothing was delivered.
                    return stream(LETTER);
                }
                content(0, &rest(LETTER, request, &received), None) + &finish(0, "stop") + DONE
            },
        );
        assert!(ended.body.starts_with(settled), "{cut}");
        if received.trim().is_empty() {
            assert_eq!(
                (ended.text(0).as_str(), ended.requests.len()),
                (LETTER, 1),
                "{cut}"
            );
            continue;
        }
        if settled.contains("\"stop\"") || received.trim().len() < 16 {
            assert_eq!(
                (ended.text(0), ended.requests.len()),
                (received, 0),
                "{cut}"
            );
            continue;
        }
        assert_eq!(ended.text(0), LETTER, "{cut}");
        // That nothing follows must be said twice.
        let calls = if received == LETTER { 2 } else { 1 };
        assert_eq!(
            (ended.outcome.status(), ended.requests.len()),
            (Status::Complete, calls),
            "{cut}"
        );
        assert_eq!(
            (ended.finishes(), ended.transport_end),
            (vec!["stop".to_owned()], TransportEnd::Closed)
        );
        assert_eq!(
            (
                ended.body.matches("[DONE]").count(),
                ended.body.matches("\"restitch\"").count()
            ),
            (1, 1)
        );
    }
}

#[test]
fn after_the_last_failure_the_client_sees_the_cut() {
    let first: String = stream(LETTER).split_inclusive("\n\n").take(12).collect();
    let refusal = |_: &Request| content(0, "I can't.", None) + &finish(0, "stop") + DONE;
    let without = run(
        Relay::new(Limits::default()),
        &first,
        Fault::Dropped,
        40,
        refusal,
    );
    assert_eq!(
        (without.body.as_str(), without.requests.len()),
        (first.as_str(), 0)
    );
    let give_up = restitch::session::GiveUp::Leave;
    let ended = run(
        relay().give_up(give_up),
        &first,
        Fault::Dropped,
        40,
        refusal,
    );
    assert_eq!(
        (ended.requests.len(), ended.transport_end),
        (3, without.transport_end)
    );
    assert!(
        ended.body.starts_with(&first) && ended.finishes().is_empty(),
        "{}",
        ended.body
    );
    assert_eq!(ended.text(0), without.text(0));
    assert_eq!(
        ended.outcome.to_string(),
        "incomplete after 3 continuations, 3 failures: stopped by failures, cut by drop"
    );
}

#[test]
fn a_stream_that_its_server_ends_passes() {
    let text = content(0, &LETTER[..80], None);
    let never = |_: &Request| -> String { panic!("the answer passes") };
    // Several servers name no finish reason. A limit is no lost connection.
    for end in [
        DONE.to_owned(),
        finish(0, "length") + DONE,
        finish(0, "length"),
        finish(0, "stop"),
    ] {
        let first = text.clone() + &end;
        let ended = run(relay(), &first, Fault::Clean, 30, never);
        assert_eq!(
            (ended.body.as_str(), ended.outcome.status()),
            (first.as_str(), Status::PassedThrough)
        );
    }
}

#[test]
fn each_choice_is_continued_in_its_turn() {
    let other = LETTER.replace("harbour", "market");
    let first = content(0, &LETTER[..100], None)
        + &content(1, &other[..70], None)
        + &content(0, &LETTER[100..150], None);
    let ended = run(
        relay().request(Vec::new(), 2),
        &first,
        Fault::Dropped,
        64,
        |request| {
            let delivered = &request.turn.as_ref().unwrap().delivered;
            let whole = if delivered.contains("market") {
                &other
            } else {
                LETTER
            };
            content(0, &rest(whole, request, delivered), None) + &finish(0, "stop") + DONE
        },
    );
    assert_eq!(
        (ended.text(0).as_str(), ended.text(1).as_str()),
        (LETTER, other.as_str())
    );
    assert_eq!(
        (ended.outcome.status(), ended.requests.len()),
        (Status::Complete, 2)
    );
    assert_eq!(ended.finishes(), ["stop", "stop"]);
}

#[test]
fn a_block_of_text_ends_once() {
    let whole = LETTER.replace(['“', '”'], "\"");
    let relay = || relay().dialect(Dialect::Messages);
    let stop = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
    for (stop, text) in [("", &whole[..120]), (stop, &whole[..120]), (stop, &whole)] {
        let first = answer(Dialect::Messages, SlotKind::Text, text, None).stream() + stop;
        let ended = run(relay(), &first, Fault::Dropped, 33, |request| {
            let rest = rest(&whole, request, text);
            answer(Dialect::Messages, SlotKind::Text, &rest, Some("stop")).stream()
        });
        let texts = read(Dialect::Messages, &ended.body).text;
        let calls = if text == whole { 2 } else { 1 };
        assert_eq!(
            (texts["0"].as_str(), ended.requests.len()),
            (whole.as_str(), calls)
        );
        check_form(Dialect::Messages, &ended.body);
    }
    // A healthy stream passes unchanged.
    let healthy = answer(Dialect::Messages, SlotKind::Text, &whole, Some("stop")).stream();
    let ended = run(relay(), &healthy, Fault::Clean, 33, |_| {
        panic!("it is whole")
    });
    assert_eq!(ended.body, healthy);
}

#[test]
fn arguments_after_prose_stay_json() {
    let call = |arguments: &str, begins: bool| {
        let function = if begins {
            json!({"name": "f", "arguments": arguments})
        } else {
            json!({"arguments": arguments})
        };
        let mut call = json!({"index": 0, "type": "function", "function": function});
        if begins {
            call["id"] = "c".into();
        }
        chat::chunk("a", 0, &json!({"tool_calls": [call]}), None)
    };
    let first = content(0, &LETTER[..60], None) + &call("", true) + &call("{\"city\": \"Os", false);
    for relay in [relay(), Relay::new(Limits::default())] {
        let ended = run(relay, &first, Fault::Dropped, 64, |request| {
            assert!(request.turn.as_ref().unwrap().delivered.starts_with('{'));
            content(0, "{\"city\": \"Oslo\"}", None) + &finish(0, "stop") + DONE
        });
        assert_eq!(
            (ended.text(0).as_str(), ended.requests.len()),
            (&LETTER[..60], 1)
        );
        assert!(
            ended.body.contains("lo\\\"}") && ended.outcome.status() == Status::Complete,
            "{}",
            ended.body
        );
    }
}
