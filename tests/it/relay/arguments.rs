//! Arguments of tool calls, and several choices: each is a slot of its own.

use serde_json::{Value, json};

use super::{DONE, Ended, NOW, Reply, chat, closed, dropped, event, finish, run_with, text};
use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Output, Relay, TransportEnd};
use restitch::internal::wire::Tool;
use restitch::provider::Dialect;
use restitch::repair::RepairLevel;
use restitch::session::{CallEnd, GiveUp, Status};

const ARGUMENTS: &str = r#"{"path": "a.txt", "lines": [1, 2, {"b": "c\"d"}]}"#;

/// One chunk with a part of a call's arguments.
fn part(index: u32, arguments: &str) -> String {
    let call = json!({"index": index, "function": {"arguments": arguments}});
    event(&json!({"id": "a", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
}

/// The chunk that begins a call.
fn call(index: u32, name: &str) -> String {
    let call = json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
    event(
        &json!({"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]}),
    )
}

impl Ended {
    /// The arguments of a call, and how often its id came.
    fn arguments(&self, index: u32) -> (String, usize) {
        let (mut arguments, mut ids) = (String::new(), 0);
        for chunk in self.chunks() {
            let calls = chunk["choices"][0]["delta"]["tool_calls"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            for call in calls.iter().filter(|call| call["index"] == index) {
                arguments += call["function"]["arguments"].as_str().unwrap_or_default();
                ids += usize::from(call["id"].is_string());
            }
        }
        (arguments, ids)
    }

    fn report(&self) -> Value {
        self.chunks()
            .iter()
            .map(|chunk| chunk["restitch"].clone())
            .find(|report| !report.is_null())
            .unwrap_or_default()
    }
}

/// What a model answers that was asked to repeat all arguments: the whole text, since they are
/// short.
fn rest() -> Reply {
    closed(text("b", ARGUMENTS) + &finish("b", "stop") + DONE)
}

/// Whether text has nothing but closers.
fn only_closes(text: &str) -> bool {
    text.chars().all(|c| "\"}]".contains(c))
}

#[test]
fn a_rest_that_comes_as_a_call_is_joined() {
    let first =
        closed(call(0, "write") + &part(0, &ARGUMENTS[..20]) + &finish("a", "length") + DONE);
    let rest = closed(call(0, "write") + &part(0, ARGUMENTS) + &finish("b", "tool_calls") + DONE);
    let ended = run_with(Relay::new(Limits::default()), &[first, rest]);
    assert_eq!(
        (ended.arguments(0), ended.finishes()),
        ((ARGUMENTS.to_owned(), 1), vec!["tool_calls".to_owned()])
    );
}

#[test]
fn a_call_that_begins_in_the_last_event_keeps_its_name() {
    let call = |index: u32, arguments: &str| json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": "write", "arguments": arguments}});
    for calls in [
        vec![call(0, &ARGUMENTS[..20])],
        vec![call(1, "{}"), call(0, &ARGUMENTS[..20])],
    ] {
        let delta = json!({"role": "assistant", "tool_calls": calls});
        let first = chat::chunk("a", 0, &delta, Some("length")) + DONE;
        let ended = run_with(Relay::new(Limits::default()), &[closed(first), rest()]);
        assert_eq!(
            (ended.arguments(0), ended.finishes()),
            ((ARGUMENTS.to_owned(), 1), vec!["tool_calls".to_owned()])
        );
        assert_eq!(ended.arguments(1).1, calls.len() - 1, "{}", ended.body);
        assert_eq!(ended.chunks()[0]["choices"][0]["delta"], delta);
    }
}

#[test]
fn reasoning_in_the_last_event_leaves() {
    let delta = json!({"reasoning_content": "Two are left.", "content": "[1, "});
    let first = chat::chunk("a", 0, &delta, Some("length")) + DONE;
    let rest = closed(text("b", "[1, 2]") + &finish("b", "stop") + DONE);
    let ended = run_with(Relay::new(Limits::default()), &[closed(first), rest]);
    assert_eq!(
        (
            ended.chunks()[0]["choices"][0]["delta"].clone(),
            ended.finishes()
        ),
        (delta, vec!["stop".to_owned()])
    );
    let text: String = ended
        .chunks()
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "[1, 2]");
}

#[test]
fn members_of_the_last_event_that_nobody_knows_leave() {
    let choice = json!({"index": 0, "delta": {"content": "[1, "}, "finish_reason": "length", "logprobs": {"content": []}});
    let last = json!({"id": "a", "choices": [choice], "citations": ["https://example.com"], "usage": {"total_tokens": 9}});
    let rest = closed(text("b", "[1, 2]") + &finish("b", "stop") + DONE);
    let ended = run_with(
        Relay::new(Limits::default()),
        &[closed(event(&last) + DONE), rest],
    );
    let mut expected = last;
    expected["choices"][0]["finish_reason"] = Value::Null;
    expected.as_object_mut().unwrap().remove("usage");
    assert_eq!(
        (ended.chunks()[0].clone(), ended.finishes()),
        (expected, vec!["stop".to_owned()])
    );
}

#[test]
fn a_choice_that_never_began_is_not_made_up() {
    let choice =
        |index: u32, content: &str| chat::chunk("a", index, &json!({"content": content}), None);
    let first = choice(0, "[1, 2");
    let ended = run_with(
        Relay::new(Limits::default()).request(Vec::new(), 2),
        &[dropped(first.clone())],
    );
    assert_eq!(
        (ended.body, ended.transport_end),
        (first, TransportEnd::Dropped)
    );
    assert_eq!(ended.outcome.status(), Status::PassedThrough);
}

#[test]
fn a_legacy_function_call_passes() {
    let chunk =
        |delta: Value| event(&json!({"id": "a", "choices": [{"index": 0, "delta": delta}]}));
    let body = chunk(
        json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": ""}}),
    ) + &chunk(json!({"function_call": {"arguments": "{\"a\": 1"}}))
        + &finish("a", "length")
        + DONE;
    let ended = run_with(Relay::new(Limits::default()), &[closed(body.clone())]);
    assert_eq!(
        (ended.body, ended.outcome.status()),
        (body, Status::PassedThrough)
    );
}

/// The reader of Responses reports the name and the arguments of a call one after the other.
#[test]
fn a_body_with_a_whole_call_passes() {
    let arguments = r#"{"path":"a","lines":[1,2]}"#;
    let function = json!({"name": "write", "arguments": arguments});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": function}]});
    let chat = json!({"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let item = json!({"id": "i", "type": "function_call", "status": "completed", "call_id": "c", "name": "write", "arguments": arguments});
    let responses =
        json!({"id": "r", "object": "response", "status": "completed", "output": [item]});
    for (dialect, body) in [(Dialect::Chat, chat), (Dialect::Responses, responses)] {
        let mut relay = BodyRelay::new(Limits::default()).dialect(dialect);
        relay.handle_body(NOW, body.to_string());
        let outputs: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
        let done = outputs.iter().find_map(|output| match output {
            Output::Done { outcome, .. } => Some(outcome.status()),
            _ => None,
        });
        assert_eq!(done, Some(Status::PassedThrough), "{dialect:?}");
    }
}

#[test]
fn arguments_whose_rest_is_not_had_stay_open() {
    let delivered = call(0, "write") + &part(0, &ARGUMENTS[..20]);
    for (give_up, reason, finishes) in [
        (GiveUp::Close, "length", vec!["length"]),
        (GiveUp::Close, "tool_calls", vec!["length"]),
        (GiveUp::Leave, "length", vec!["length"]),
        (GiveUp::Leave, "tool_calls", vec!["length"]),
        (GiveUp::Error, "length", vec![]),
    ] {
        let relay = Relay::new(Limits::default().with_max_continuations(0)).give_up(give_up);
        let ended = run_with(
            relay,
            &[closed(delivered.clone() + &finish("a", reason) + DONE)],
        );
        assert_eq!(
            ended.arguments(0),
            (ARGUMENTS[..20].to_owned(), 1),
            "{give_up}"
        );
        assert_eq!(ended.finishes(), finishes, "{give_up} {reason}");
        assert_eq!(
            ended.outcome.status(),
            if give_up == GiveUp::Error {
                Status::Failed
            } else {
                Status::Incomplete
            }
        );
        assert_eq!(ended.report()["stop"], "continuations");
    }
    let relay = Relay::new(Limits::default().with_max_continuations(0)).give_up(GiveUp::Leave);
    assert_eq!(
        run_with(relay, &[dropped(delivered.clone())]).transport_end,
        TransportEnd::Dropped
    );
    let relay = Relay::new(Limits::default().with_max_continuations(0)).give_up(GiveUp::Close);
    assert_eq!(
        run_with(relay, &[dropped(delivered)]).finishes(),
        ["length"]
    );
}

/// A tool whose lines are numbers.
fn numbers() -> Vec<Tool> {
    let schema = r#"{"properties":{"lines":{"items":{"type":"number"}}}}"#;
    vec![Tool {
        name: "write".to_owned(),
        schema: Some(schema.to_owned()),
    }]
}

/// The same arguments with a line that is a number.
const VALID: &str = r#"{"path": "a.txt", "lines": [1, 2, 3]}"#;

#[test]
fn arguments_that_violate_their_schema_are_asked_for_again() {
    let first =
        || closed(call(0, "write") + &part(0, &ARGUMENTS[..30]) + &finish("a", "length") + DONE);
    let valid = || closed(text("c", VALID) + &finish("c", "stop") + DONE);
    let relay = || Relay::new(Limits::default()).request(numbers(), 1);
    let ended = run_with(relay(), &[first(), rest(), valid()]);
    assert_eq!(
        (ended.arguments(0).0.as_str(), ended.requests.len()),
        (VALID, 2)
    );
    assert_eq!(
        (&ended.report()["schema"], ended.outcome.tally().failures),
        (&Value::Null, 1)
    );
    assert_ne!(ended.requests[0].turn, ended.requests[1].turn);
    // The same answer twice is what the model means.
    let ended = run_with(relay(), &[first(), rest(), rest()]);
    assert_eq!(
        (ended.arguments(0).0.as_str(), ended.requests.len()),
        (ARGUMENTS, 2)
    );
    assert_eq!(
        (&ended.report()["schema"], &ended.report()["schema_path"]),
        (&json!("violated"), &json!("/lines/2"))
    );
    assert_eq!(ended.finishes(), ["tool_calls"]);
}

#[test]
fn what_was_sent_of_arguments_is_not_taken_back() {
    let first =
        closed(call(0, "write") + &part(0, &ARGUMENTS[..30]) + &finish("a", "length") + DONE);
    // The first piece is joined and sent before the second one comes.
    let pieces =
        text("b", &ARGUMENTS[..40]) + &text("b", &ARGUMENTS[40..]) + &finish("b", "stop") + DONE;
    let ended = run_with(
        Relay::new(Limits::default()).request(numbers(), 1),
        &[first, closed(pieces)],
    );
    assert_eq!(
        (ended.arguments(0).0.as_str(), ended.requests.len()),
        (ARGUMENTS, 1)
    );
    assert_eq!(
        (&ended.report()["schema"], &ended.report()["schema_path"]),
        (&json!("violated"), &json!("/lines/2"))
    );
}

#[test]
fn arguments_without_what_their_tool_requires_are_not_executed() {
    let tool = || {
        let schema = r#"{"required":["path","lines","mode"]}"#;
        vec![Tool {
            name: "write".to_owned(),
            schema: Some(schema.to_owned()),
        }]
    };
    let first =
        || closed(call(0, "write") + &part(0, &ARGUMENTS[..30]) + &finish("a", "length") + DONE);
    let whole = ARGUMENTS.replace("]}", "], \"mode\": \"w\"}");
    let relay = || Relay::new(Limits::default()).request(tool(), 1);
    let valid = closed(text("c", &whole) + &finish("c", "stop") + DONE);
    let ended = run_with(relay(), &[first(), rest(), valid]);
    assert_eq!((ended.arguments(0).0, ended.requests.len()), (whole, 2));
    assert_eq!(ended.finishes(), ["tool_calls"]);
    let named = &ended.requests[1].turn.as_ref().unwrap().prompt;
    assert!(named.contains("still lacks \"mode\""), "{named}");
    // The same again: the client must not execute it.
    let ended = run_with(relay(), &[first(), rest(), rest()]);
    assert_eq!(ended.finishes(), ["length"]);
    assert_eq!(
        (&ended.report()["stop"], &ended.report()["schema_path"]),
        (&json!("schema"), &json!(""))
    );
}

#[test]
fn a_call_that_is_cut_before_its_arguments_is_asked_for_again() {
    for begun in [
        call(0, "write"),
        text("a", "I will write.") + &call(0, "write"),
        call(1, "other") + &part(1, "{}") + &call(0, "write"),
    ] {
        for first in [
            closed(begun.clone() + &finish("a", "length") + DONE),
            dropped(begun.clone()),
            closed(begun.clone()),
        ] {
            let again = closed(
                begun.clone()
                    + &part(0, &VALID[..9])
                    + &part(0, &VALID[9..])
                    + &finish("b", "tool_calls")
                    + DONE,
            );
            let ended = run_with(
                Relay::new(Limits::default()).request(numbers(), 1),
                &[first, again],
            );
            assert_eq!(ended.arguments(0), (VALID.to_owned(), 1), "{}", ended.body);
            assert_eq!(
                (ended.finishes(), ended.transport_end),
                (vec!["tool_calls".to_owned()], TransportEnd::Closed)
            );
            // No delivered text could be an anchor.
            assert_eq!(ended.requests[0].turn, None);
        }
    }
    // With another reason it is a call without parameters, and so is one of a tool that declares
    // none.
    let whole = call(0, "write") + &finish("a", "tool_calls") + DONE;
    let ended = run_with(
        Relay::new(Limits::default()).request(numbers(), 1),
        &[closed(whole.clone())],
    );
    assert_eq!(
        (ended.body, ended.outcome.status()),
        (whole, Status::PassedThrough)
    );
    let cut = call(0, "now") + &finish("a", "length") + DONE;
    let ended = run_with(
        Relay::new(Limits::default()).request(numbers(), 1),
        &[closed(cut.clone())],
    );
    assert_eq!(
        (ended.body, ended.outcome.status()),
        (cut, Status::PassedThrough)
    );
}

#[test]
fn arguments_of_another_call_are_not_taken_for_a_repeated_call() {
    let begun = call(1, "other") + &part(1, "{\"a\": 1}") + &call(0, "write");
    for again in [
        // Another tool, other arguments before it, a missing call, text, and no text.
        call(0, "other") + &part(0, VALID),
        call(1, "other") + &part(1, "{\"a\": 2}") + &call(0, "write") + &part(0, VALID),
        call(0, "write") + &part(0, VALID),
        text("b", VALID),
        String::new(),
    ] {
        let again = closed(again + &finish("b", "tool_calls") + DONE);
        let first = closed(begun.clone() + &finish("a", "length") + DONE);
        let replies = [first, again.clone(), again.clone(), again];
        let ended = run_with(
            Relay::new(Limits::default()).request(numbers(), 1),
            &replies,
        );
        assert_eq!(
            (ended.arguments(0), ended.finishes()),
            ((String::new(), 1), vec!["length".to_owned()]),
            "{}",
            ended.body
        );
        assert_eq!(ended.outcome.status(), Status::Incomplete);
    }
}

#[test]
fn arguments_after_which_more_json_follows_are_not_closed() {
    for schema in [numbers(), Vec::new()] {
        for delivered in ["{", "{\"path\": \"a.txt\""] {
            let first =
                || closed(call(0, "write") + &part(0, delivered) + &finish("a", "length") + DONE);
            let closing = format!("{delivered}}}");
            for wrong in [
                ", \"lines\": [1, 2, 3]}",
                "\n, \"lines\"",
                "{\"path\": 1}",
                "]",
                "\"x\"",
            ] {
                let pieces = |pieces: &[&str]| {
                    let texts: String = pieces.iter().map(|piece| text("b", piece)).collect();
                    closed(texts + &finish("b", "stop") + DONE)
                };
                for wrong in [
                    pieces(&[&closing, wrong]),
                    pieces(&[&(closing.clone() + wrong)]),
                    pieces(&[delivered, "}", wrong]),
                ] {
                    let valid = || closed(text("c", VALID) + &finish("c", "stop") + DONE);
                    let relay = Relay::new(Limits::default()).request(schema.clone(), 1);
                    let ended = run_with(relay, &[first(), wrong, valid(), valid()]);
                    assert_eq!(ended.arguments(0), (VALID.to_owned(), 1), "{}", ended.body);
                    assert_eq!(
                        (ended.finishes(), ended.outcome.tally().failures),
                        (vec!["tool_calls".to_owned()], 1)
                    );
                }
            }
            for prose in ["\n", "\n```\n", " These are the arguments.", "</arguments>"] {
                let answer = || {
                    closed(text("b", &closing) + &text("b", prose) + &finish("b", "stop") + DONE)
                };
                let ended = run_with(
                    Relay::new(Limits::default()).request(schema.clone(), 1),
                    &[first(), answer(), answer()],
                );
                // The tool may have parameters, so `{}` is doubtful.
                let is_doubted = delivered == "{";
                let (arguments, reason) = if is_doubted {
                    (delivered.to_owned(), "length")
                } else {
                    (closing.clone(), "tool_calls")
                };
                assert_eq!(
                    (ended.arguments(0).0, ended.finishes()),
                    (arguments, vec![reason.to_owned()]),
                    "{prose}"
                );
            }
        }
    }
}

#[test]
fn arguments_are_repaired_like_text() {
    let relay = || Relay::new(Limits::default()).repair(RepairLevel::Guess);
    const WRITTEN: &str = "{\"text\": \"a\nb\", 'n': True,}";
    const REPAIRED: &str = "{\"text\": \"a\\nb\", \"n\": true}";
    for at in 0..=WRITTEN.len() {
        // The event that begins the call has the first part.
        let begun = json!({"index": 0, "id": "call_0", "type": "function", "function": {"name": "write", "arguments": &WRITTEN[..at]}});
        let begun = event(
            &json!({"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [begun]}}]}),
        );
        let whole = begun + &part(0, &WRITTEN[at..]) + &finish("a", "tool_calls") + DONE;
        let ended = run_with(relay(), &[closed(whole)]);
        assert_eq!(
            (ended.arguments(0), ended.requests.len()),
            ((REPAIRED.to_owned(), 1), 0),
            "{at}: {}",
            ended.body
        );
        assert_eq!(ended.finishes(), ["tool_calls"]);
    }
    for at in 1..WRITTEN.len() {
        let first = call(0, "write") + &part(0, &WRITTEN[..at]) + &finish("a", "length") + DONE;
        let rest = || closed(text("b", WRITTEN) + &finish("b", "stop") + DONE);
        let ended = run_with(relay(), &[closed(first), rest(), rest()]);
        assert_eq!(
            (ended.arguments(0), ended.finishes()),
            ((REPAIRED.to_owned(), 1), vec!["tool_calls".to_owned()]),
            "{at}: {}",
            ended.body
        );
    }
    // A guess is not applied, because the client would execute it.
    let guessed =
        call(0, "write") + &part(0, "{\"text\": a b}") + &finish("a", "tool_calls") + DONE;
    let ended = run_with(relay(), &[closed(guessed.clone())]);
    assert_eq!(
        (ended.body, ended.outcome.status()),
        (guessed, Status::PassedThrough)
    );
}

#[test]
fn whole_text_that_is_malformed_is_not_asked_for_again() {
    for (level, written) in [
        (RepairLevel::Syntax, "{\"a\": b c}"),
        (RepairLevel::Syntax, "[1, 2}"),
        (RepairLevel::Syntax, "{\"a\": \"\\u12\"}"),
        (RepairLevel::Guess, "[1 : 3]"),
        (RepairLevel::Guess, "{{\"a\": 1}"),
        (RepairLevel::Guess, "[1, 2}"),
        (RepairLevel::Guess, "{\"a\": \"b}"),
        (RepairLevel::Guess, "{\"a\": \"he said \"x\" and left}"),
    ] {
        // Arguments are repaired on `syntax` only: there the string is open, and its rest is asked
        // for.
        let is_open_on_syntax = written == "{\"a\": \"b}";
        for is_call in [false, true]
            .into_iter()
            .filter(|is_call| !(*is_call && is_open_on_syntax))
        {
            let reason = if is_call { "tool_calls" } else { "stop" };
            let answer = if is_call {
                call(0, "write") + &part(0, written)
            } else {
                text("a", written)
            };
            let stream = answer + &finish("a", reason) + DONE;
            let ended = run_with(
                Relay::new(Limits::default()).repair(level),
                &[closed(stream)],
            );
            let got = if is_call {
                ended.arguments(0).0
            } else {
                ended.text()
            };
            assert_eq!(
                (got.as_str(), ended.finishes()),
                (written, vec![reason.to_owned()]),
                "{level:?}"
            );
            assert_eq!(
                ended.outcome.status(),
                Status::PassedThrough,
                "{level:?} {written}"
            );
            let report: Value = serde_json::from_str(&ended.outcome.report()).unwrap();
            assert_eq!(report["malformed"], true, "{level:?} {written}");
        }
    }
    // Earlier repairs were already sent.
    let stream = text("a", "[1 2 : 3]") + &finish("a", "stop") + DONE;
    let ended = run_with(
        Relay::new(Limits::default()).repair(RepairLevel::Guess),
        &[closed(stream)],
    );
    assert_eq!(
        (ended.text().as_str(), ended.requests.len()),
        ("[1, 2 : 3]", 0)
    );
    assert_eq!(ended.finishes(), ["stop"]);
    assert!(ended.outcome.tally().malformed);
    // If text only stops early, its rest is asked for.
    let first = closed(text("a", "{'a': [1, 2") + &finish("a", "stop") + DONE);
    let rest = closed(text("b", "{'a': [1, 2, 3]}") + &finish("b", "stop") + DONE);
    let ended = run_with(
        Relay::new(Limits::default()).repair(RepairLevel::Syntax),
        &[first, rest],
    );
    assert_eq!(
        (ended.text().as_str(), ended.outcome.status()),
        ("{\"a\": [1, 2, 3]}", Status::Complete)
    );
}

#[test]
fn arguments_in_a_body_become_whole() {
    let body = |arguments: &str, reason: &str| {
        json!({"id": "a", "choices": [{"index": 0, "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}],
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}]},
            "finish_reason": reason}]})
        .to_string()
    };
    for at in 1..ARGUMENTS.len() {
        let mut relay = BodyRelay::new(Limits::default());
        let (mut whole, _) = run_bodies(
            &mut relay,
            &body(&ARGUMENTS[..at], "length"),
            &[ARGUMENTS; 2],
        );
        if ARGUMENTS[at..].starts_with('"') && only_closes(&ARGUMENTS[at..]) {
            assert_eq!(whole["restitch"].take()["stop"], "early_end", "{at}");
            continue;
        }
        assert_eq!(whole["restitch"].take()["parallel"], "unknown");
        whole.as_object_mut().unwrap().remove("restitch");
        let expected: Value = serde_json::from_str(&body(ARGUMENTS, "tool_calls")).unwrap();
        assert_eq!(whole, expected, "{at}");
    }
    let mut relay = BodyRelay::new(Limits::default().with_max_continuations(0));
    relay.handle_body(NOW, body(&ARGUMENTS[..20], "length"));
    let outputs: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
    assert!(
        matches!(outputs.last(), Some(Output::Done { outcome, .. }) if outcome.status() == Status::Incomplete)
    );
}

/// Runs a relay of bodies to its end, with these answers to its further calls. Returns the body,
/// and how often it asked.
fn run_bodies(relay: &mut BodyRelay, first: &str, answers: &[&str]) -> (Value, usize) {
    let (mut whole, mut asked) = (Value::Null, 0);
    relay.handle_body(NOW, first);
    while let Some(output) = relay.poll_output() {
        match output {
            Output::Call { .. } => {
                let rest = json!({"choices": [{"message": {"content": answers[asked]}, "finish_reason": "stop"}]});
                relay.handle_body(NOW, rest.to_string());
                asked += 1;
            }
            Output::Bytes(bytes) => whole = serde_json::from_slice(&bytes).unwrap(),
            _ => {}
        }
    }
    (whole, asked)
}

#[test]
fn arguments_in_a_body_that_violate_their_schema_are_asked_for_again() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "write", "arguments": &ARGUMENTS[..30]}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let first =
        json!({"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}).to_string();
    for (answers, arguments, schema) in [
        ([ARGUMENTS, VALID], VALID, Value::Null),
        ([ARGUMENTS, ARGUMENTS], ARGUMENTS, json!("violated")),
    ] {
        let mut relay = BodyRelay::new(Limits::default()).tools(numbers());
        let (whole, asked) = run_bodies(&mut relay, &first, &answers);
        assert_eq!(
            whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
            arguments
        );
        assert_eq!((asked, &whole["restitch"]["schema"]), (2, &schema));
    }
}

#[test]
fn a_body_of_which_nothing_came_is_an_error() {
    let mut refused = BodyRelay::new(Limits::default().with_max_consecutive_failures(2));
    refused.handle_end(NOW, CallEnd::Dropped);
    let (mut whole, mut calls, mut status) = (Value::Null, 0, None);
    while let Some(output) = refused.poll_output() {
        match output {
            Output::Call { request, .. } => {
                assert_eq!(
                    request.turn, None,
                    "nothing was delivered that could be continued"
                );
                calls += 1;
                refused.handle_end(NOW, CallEnd::Dropped);
            }
            Output::Bytes(bytes) => whole = serde_json::from_slice(&bytes).unwrap(),
            Output::Done { outcome, .. } => status = Some(outcome.status()),
            _ => {}
        }
    }
    assert_eq!((calls, status), (1, Some(Status::Failed)));
    let message = "the upstream delivered nothing of an answer, although it was asked again";
    let error = json!({"message": message, "type": "upstream_error", "param": null, "code": "nothing_delivered"});
    let report = json!({"cause": "drop", "continuations": 1, "failures": 2, "status": "failed", "stop": "failures"});
    assert_eq!(whole, json!({"error": error, "restitch": report}));
}
