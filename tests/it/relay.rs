//! Event streams through a relay, without sockets and clocks.

mod arguments;
mod choices;
mod closing;
mod operations;
mod work;

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Output, Relay, TransportEnd};
use restitch::session::{CallEnd, GiveUp, Outcome, Request, SessionEvent, Status};
use serde_json::{Value, json};

use crate::wires::continued::{Fault, Relayed, Reply, played, refusal};
use restitch_testing::chat::{self, DONE, event, finish, role, text};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, at_least, chunks, corpus_files, event_data, random_cuts};

const NOW: Duration = Duration::ZERO;

fn closed(body: impl AsRef<[u8]>) -> Reply {
    Reply::Stream(body.as_ref().to_vec(), Fault::Clean)
}

fn dropped(body: impl AsRef<[u8]>) -> Reply {
    Reply::Stream(body.as_ref().to_vec(), Fault::Dropped)
}

#[derive(Debug)]
struct Ended {
    body: String,
    requests: Vec<Request>,
    outcome: Outcome,
    transport_end: TransportEnd,
}

impl Ended {
    fn of(relayed: Relayed) -> Self {
        let (outcome, transport_end) = relayed.end().unwrap();
        Self {
            outcome: outcome.clone(),
            transport_end,
            requests: relayed.requests(),
            body: String::from_utf8(relayed.body).unwrap(),
        }
    }

    fn chunks(&self) -> Vec<Value> {
        event_data(self.body.as_bytes())
    }

    fn text(&self) -> String {
        let chunks = self.chunks();
        chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect()
    }

    fn finishes(&self) -> Vec<String> {
        let chunks = self.chunks();
        let reason =
            |chunk: &Value| Some(chunk["choices"][0]["finish_reason"].as_str()?.to_owned());
        chunks.iter().filter_map(reason).collect()
    }

    fn count(&self, pattern: &str) -> usize {
        self.body.matches(pattern).count()
    }
}

#[test]
fn a_choice_that_waits_is_cut_since_the_first_call() {
    let of =
        |index: usize, delta: Value, reason: Option<&str>| chat::chunk("a", index, &delta, reason);
    let both =
        |delta: Value, reason: Option<&str>| of(0, delta.clone(), reason) + &of(1, delta, reason);
    let first = both(json!({"content": "[1, 2"}), None) + &both(json!({}), Some("length")) + DONE;
    let rest =
        of(0, json!({"content": "[1, 2, 3]"}), None) + &of(0, json!({}), Some("stop")) + DONE;
    let mut relay = Relay::new(Limits::default());
    let mut elapsed = Vec::new();
    // At its second the first call ends, and each call for a rest takes three more.
    for (second, body) in [(1, first), (4, rest.clone()), (7, rest)] {
        let now = Duration::from_secs(second);
        if second > 1 {
            relay.handle_open(now);
        }
        relay.handle_bytes(now, Bytes::from(body));
        if second == 1 {
            relay.handle_transport_end(now, TransportEnd::Closed);
        }
        while let Some(output) = relay.poll_output() {
            if let Output::Event(SessionEvent::Joined { elapsed: since, .. }) = output {
                elapsed.push(since.as_secs());
            }
        }
    }
    assert_eq!(elapsed, [3, 6]);
}

/// Feeds the replies, one a call, each in one piece.
fn run(replies: &[Reply]) -> Ended {
    run_with(
        Relay::new(Limits::default()).give_up(GiveUp::Close),
        replies,
    )
}

fn run_with(relay: Relay, replies: &[Reply]) -> Ended {
    run_in(relay, replies, |body| vec![body])
}

fn run_in(
    relay: Relay,
    replies: &[Reply],
    split: impl for<'a> FnMut(&'a [u8]) -> Vec<&'a [u8]>,
) -> Ended {
    let mut replies = replies.iter().cloned();
    let first = replies.next().unwrap();
    let relayed = played(relay, first, split, |_, _| {
        replies
            .next()
            .expect("more is asked for than the test answers")
    });
    Ended::of(relayed)
}

fn usage(id: &str, prompt: u32, completion: u32) -> String {
    event(&json!({"id": id, "choices": [], "usage": {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}))
}

fn tool(id: &str, arguments: &str, finish: Option<&str>) -> String {
    let call =
        json!({"index": 0, "id": "call_1", "function": {"name": "f", "arguments": arguments}});
    chat::chunk(id, 0, &json!({"tool_calls": [call]}), finish)
}

/// Streams that are not restitch's to change: each passes byte for byte and is over as it was.
#[test]
fn what_is_not_continued_passes_unchanged() {
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let replies: Vec<Reply> = vec![
        closed(role("a") + &text("a", "[1]") + &finish("a", "stop") + &usage("a", 1, 2) + DONE),
        closed(text("a", "[1]") + &finish("a", "length") + DONE),
        closed(text("a", "[1]") + error),
        closed(text("a", "Hello") + &finish("a", "stop") + DONE),
        closed(text("a", "Hello") + &finish("a", "length") + DONE),
        dropped(role("a") + &text("a", "Hello") + "data: {\"id\":\"a\",\"cho"),
        closed(text("a", "Hello")),
        closed(text("a", "Hello") + text("a", " you").trim_end()),
        closed(text("a", "Hello") + error),
        dropped(text("a", "Hello") + &finish("a", "stop")),
        closed(text("a", "[1, 2") + &finish("a", "content_filter") + DONE),
        closed(text("a", "[1, 2") + &finish("a", "blocked_by_policy") + DONE),
        closed(role("a") + &tool("a", "{\"a\": 1}", None) + &finish("a", "tool_calls") + DONE),
        dropped(tool("a", "{\"a\": 1}", None)),
        closed(tool("a", "", Some("tool_calls")) + DONE),
        closed(tool("a", "", Some("length")) + DONE),
        closed(role("a") + &finish("a", "stop") + DONE),
        closed(format!(
            "\u{feff}{}{}",
            text("a", "[1]"),
            finish("a", "stop")
        )),
        closed(
            (role("a") + &text("a", "[1]") + &finish("a", "length") + DONE).replace('\n', "\r\n"),
        ),
        closed((role("a") + &text("a", "[1]") + &finish("a", "length") + DONE).replace('\n', "\r")),
        closed(
            ": hello\n\nid: 7\nretry: 5\n\n".to_owned()
                + &text("a", "[1")
                + ": ping\n\nevent: ping\ndata: {}\n\n"
                + &text("a", "]")
                + &finish("a", "stop")
                + ": bye\n\n"
                + DONE,
        ),
        closed(text("a", "[1]") + &finish("a", "stop") + "data: [DONE]"),
        closed(text("a", "[1]") + &finish("a", "stop") + &finish("a", "stop") + DONE),
    ];
    let mut rng = Rng::new(3);
    for reply in replies {
        let Reply::Stream(body, fault) = &reply else {
            panic!("a stream is expected")
        };
        let end = match fault {
            Fault::Clean => TransportEnd::Closed,
            _ => TransportEnd::Dropped,
        };
        for round in 0..40 {
            let cuts = match round {
                0 => Vec::new(),
                1 => (1..body.len()).collect(),
                _ => random_cuts(body.len(), &mut rng),
            };
            let replies = std::slice::from_ref(&reply);
            let relay = Relay::new(Limits::default());
            let ended = run_in(relay, replies, |body| chunks(body, &cuts));
            assert_eq!(ended.body.as_bytes(), body, "{reply:?}");
            assert_eq!(ended.transport_end, end, "{reply:?}");
            assert_eq!(ended.outcome.status(), Status::PassedThrough, "{reply:?}");
            assert_eq!(ended.outcome.tally().failures, 0, "{reply:?}");
        }
    }
}

#[test]
fn a_malformed_answer_that_is_cut_has_its_report() {
    let mut rng = Rng::new(3);
    for reply in [
        closed(text("a", "{'a': 1, ") + &text("a", "'b'") + &finish("a", "length") + DONE),
        closed(tool("a", "{'a", Some("length")) + DONE),
        closed(text("a", "{'a': 1, ") + &text("a", "'b'")),
        dropped(text("a", "{'a': 1, ") + &text("a", "'b'")),
    ] {
        let Reply::Stream(body, _) = &reply else {
            panic!("a stream is expected")
        };
        let run = |cuts: &[usize]| {
            let replies = std::slice::from_ref(&reply);
            run_in(Relay::new(Limits::default()), replies, |body| {
                chunks(body, cuts)
            })
        };
        let whole = run(&[]);
        let reports = whole.body.matches("\"malformed\":true").count();
        assert_eq!(reports, 1, "{}", whole.body);
        assert!(whole.outcome.tally().malformed);
        for _ in 0..40 {
            let cuts = random_cuts(body.len(), &mut rng);
            assert_eq!(run(&cuts).body, whole.body, "{cuts:?}");
        }
    }
}

/// A body without events passes from its first byte on, whatever its pieces.
#[test]
fn a_body_without_events_passes() {
    for body in [
        "{\"error\":{\"message\":\"no\"}}",
        ": ping\n\n[1,\n\n2]",
        "<html>\n\n</html>\n",
        "upstream connect error",
    ] {
        let reply = closed(body);
        for cuts in [Vec::new(), (1..body.len()).collect()] {
            let replies = std::slice::from_ref(&reply);
            let relay = Relay::new(Limits::default());
            let ended = run_in(relay, replies, |body| chunks(body, &cuts));
            assert_eq!(ended.body, body);
            assert_eq!(ended.outcome.status(), Status::PassedThrough, "{body}");
        }
    }
}

/// Whatever ends the first answer, and however its bytes are split, the client gets the same bytes.
#[test]
fn chunking_is_invisible() {
    let cut = text("a", "{\"k\": \"v\", ") + &text("a", "\"list\": [10, 2");
    let rest = role("b")
        + &text("b", "```json\n{\"k\": \"v\", \"li")
        + &text("b", "st\": [10, 20, 5]}")
        + &text("b", "\n```")
        + &finish("b", "stop")
        + &usage("b", 7, 5)
        + DONE;
    let with_text = chat::chunk("a", 0, &json!({"content": "0"}), Some("length"));
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let first: Vec<Reply> = vec![
        closed(role("a") + &cut + &finish("a", "length") + &usage("a", 3, 4) + DONE),
        closed(
            role("a")
                + &cut
                + ": ping\n\n: pong\n\n"
                + &finish("a", "length")
                + ": ping\n\n"
                + DONE,
        ),
        closed(cut.clone() + &with_text + &usage("a", 3, 4) + DONE),
        closed(cut.clone() + error + DONE),
        closed(cut.clone() + DONE),
        closed(cut.clone()),
        closed(cut.trim_end()),
        closed(cut.trim_end().to_owned() + "\n"),
        dropped(cut.clone() + &text("a", "0, 30")[..40]),
        dropped(cut.clone() + ": pi"),
    ];
    let mut rng = Rng::new(11);
    for first in first {
        for newline in ["\n", "\r\n", "\r"] {
            let with = |reply: &Reply| match reply {
                Reply::Stream(body, fault) => {
                    let body = String::from_utf8_lossy(body).replace('\n', newline);
                    Reply::Stream(body.into(), *fault)
                }
                other => other.clone(),
            };
            let replies = [with(&first), with(&closed(&rest))];
            let whole = run(&replies);
            let context = format!("{newline:?} {first:?}\n{}", whole.body);
            assert_eq!(
                whole.text(),
                "{\"k\": \"v\", \"list\": [10, 20, 5]}",
                "{context}"
            );
            assert_eq!(whole.finishes(), ["stop"], "{context}");
            assert_eq!(whole.outcome.status(), Status::Complete, "{context}");
            assert_eq!(whole.count("[DONE]"), 1, "{context}");
            // The lines of an event end as the upstream ends them, and no half of a line end is
            // lost at a seam.
            assert!(!whole.body.contains("\r\n\rdata"), "{context}");
            for round in 0..60 {
                let relay = Relay::new(Limits::default());
                let split = run_in(relay, &replies, |body| match round {
                    0 => body.chunks(1).collect(),
                    _ => chunks(body, &random_cuts(body.len(), &mut rng)),
                });
                assert_eq!(split.body, whole.body, "{context}");
                assert_eq!(
                    (split.outcome, split.requests, split.transport_end),
                    (
                        whole.outcome.clone(),
                        whole.requests.clone(),
                        whole.transport_end
                    )
                );
            }
        }
    }
}

/// A comment is nothing of an answer: the role chunk is still to come.
#[test]
fn a_resend_brings_the_role_if_none_has_left() {
    let whole = role("b") + &text("b", "[1]") + &finish("b", "stop") + DONE;
    let busy = CallEnd::Rejected {
        reason: "busy".into(),
        transient: true,
        retry_after: None,
    };
    let cases = [
        vec![dropped(": hello\n\n"), closed(whole.clone())],
        vec![
            dropped(""),
            Reply::Ended(busy.clone()),
            closed(whole.clone()),
        ],
        vec![
            dropped(": hello\n\n"),
            Reply::Ended(busy),
            closed(whole.clone()),
        ],
        vec![
            dropped(event(
                &json!({"id": "", "choices": [], "prompt_filter_results": []}),
            )),
            closed(whole.clone()),
        ],
    ];
    for replies in cases {
        let ended = run(&replies);
        assert_eq!(ended.count("\"role\""), 1, "{replies:?}\n{}", ended.body);
        assert_eq!(ended.text(), "[1]");
        assert_eq!(ended.finishes(), ["stop"]);
        assert_eq!(ended.transport_end, TransportEnd::Closed);
    }
    let ended = run(&[dropped(role("a")), closed(whole)]);
    assert_eq!(ended.count("\"role\""), 1, "{}", ended.body);
    assert!(
        ended
            .chunks()
            .iter()
            .filter(|chunk| !chunk.is_null())
            .all(|chunk| chunk["id"] == "a")
    );
}

/// What was kept back has not named the answer.
#[test]
fn an_answer_is_named_by_the_call_whose_chunks_left() {
    let error = event(
        &json!({"id": "a", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        "error": {"message": "busy"}}),
    );
    let ended = run(&[
        closed(error),
        dropped(role("b") + &text("b", "[1, 2")),
        closed(text("c", "[1, 20]") + &finish("c", "stop") + DONE),
    ]);
    assert_eq!(ended.text(), "[1, 20]");
    assert!(
        ended
            .chunks()
            .iter()
            .filter(|chunk| !chunk.is_null())
            .all(|chunk| chunk["id"] == "b"),
        "{}",
        ended.body
    );
}

/// The original request was sent again behind a role chunk, and its answer is not to be continued.
#[test]
fn an_answer_to_a_resend_ends_as_it_does_upstream() {
    let first = dropped(role("a"));
    let done = |body: String| run(&[first.clone(), closed(body)]);

    let ended = done(role("b") + &text("b", "Hello") + &finish("b", "length") + DONE);
    assert_eq!(
        (ended.text().as_str(), ended.finishes(), ended.transport_end),
        ("Hello", vec!["length".into()], TransportEnd::Closed)
    );

    let ended = done(role("b") + &text("b", "Hello"));
    assert_eq!(
        (
            ended.text().as_str(),
            ended.finishes().len(),
            ended.transport_end
        ),
        ("Hello", 0, TransportEnd::Closed)
    );

    let ended = done(text("b", "Hello") + DONE);
    assert_eq!(
        (
            ended.text().as_str(),
            ended.count("[DONE]"),
            ended.transport_end
        ),
        ("Hello", 1, TransportEnd::Closed)
    );

    let ended = run(&[first.clone(), dropped(role("b") + &text("b", "Hello"))]);
    assert_eq!(
        (ended.text().as_str(), ended.transport_end),
        ("Hello", TransportEnd::Dropped)
    );

    let ended = done(text("b", "Hello") + "data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
    assert_eq!(
        (
            ended.text().as_str(),
            ended.count("overloaded"),
            ended.transport_end
        ),
        ("Hello", 1, TransportEnd::Closed)
    );

    // Some servers send a whole tool call together with the finish.
    for body in [
        tool("b", "{\"a\": 1}", Some("tool_calls")) + &usage("b", 1, 2) + DONE,
        tool("b", "{\"a\": 1}", None) + &finish("b", "tool_calls") + &usage("b", 1, 2) + DONE,
    ] {
        let ended = done(body);
        assert_eq!(ended.count("call_1"), 1, "{}", ended.body);
        assert_eq!(
            (ended.finishes(), ended.count("[DONE]")),
            (vec!["tool_calls".into()], 1),
            "{}",
            ended.body
        );
        assert_eq!(ended.count("prompt_tokens"), 1);
        assert!(
            ended
                .chunks()
                .iter()
                .filter(|chunk| !chunk.is_null())
                .all(|chunk| chunk["id"] == "a")
        );
    }
}

/// What the client has of a refusal is an answer, and no document: it is not told twice.
#[test]
fn a_refusal_is_not_asked_for_again() {
    let refusal =
        event(&json!({"id": "a", "choices": [{"index": 0, "delta": {"refusal": "I can't"}}]}));
    let ended = run(&[dropped(role("a") + &refusal)]);
    assert_eq!(
        (ended.body, ended.transport_end),
        (role("a") + &refusal, TransportEnd::Dropped)
    );
    // An empty one is none.
    let empty = event(
        &json!({"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "refusal": ""}}]}),
    );
    let ended = run(&[
        dropped(empty),
        closed(text("b", "[1]") + &finish("b", "stop") + DONE),
    ]);
    assert_eq!(ended.text(), "[1]");
}

/// Only the end of the stream was lost: it is written, and a fence that is open is closed.
#[test]
fn a_whole_document_gets_its_end() {
    for (body, expected) in [
        (text("a", "[1]"), "[1]"),
        (text("a", "```json\n[1]"), "```json\n[1]\n```"),
        (text("a", "```json\n[1]\n"), "```json\n[1]\n```"),
        (text("a", "```json\n[1]\n``"), "```json\n[1]\n```"),
        (text("a", "```json\n[1]\n```"), "```json\n[1]\n```"),
        (
            text("a", "```json\n[1]\n```\nThere."),
            "```json\n[1]\n```\nThere.",
        ),
    ] {
        let ended = run(&[dropped(role("a") + &body + "data: {\"id\":")]);
        assert_eq!(ended.text(), expected);
        assert_eq!(
            (ended.finishes(), ended.count("[DONE]"), ended.transport_end),
            (vec!["stop".into()], 1, TransportEnd::Closed)
        );
    }
    // With the finish there, the upstream has said how the answer ended.
    let ended = run(&[dropped(text("a", "[1]") + &finish("a", "length"))]);
    assert_eq!(ended.body, text("a", "[1]") + &finish("a", "length") + DONE);
    let ended = run(&[dropped(text("a", "[1]") + &finish("a", "stop") + DONE)]);
    assert_eq!(ended.body, text("a", "[1]") + &finish("a", "stop") + DONE);
    assert_eq!(ended.transport_end, TransportEnd::Closed);
}

/// Bytes that are not UTF-8 are no part of a document: an answer with such bytes passes as it came,
/// a continuation with them ends before them.
#[test]
fn bytes_that_are_not_utf8_are_never_part_of_a_document() {
    let bytes = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes
            .iter_mut()
            .filter(|byte| **byte == b'#')
            .for_each(|byte| *byte = 0xff);
        bytes
    };
    let cut = role("a") + &text("a", "[\"a");
    let wrong = bytes(&(role("b") + &text("b", "[\"a b#c\"]") + &finish("b", "stop") + DONE));
    let right = text("c", "[\"a b\", 1]") + &finish("c", "stop") + DONE;
    let ended = run(&[closed(cut), closed(wrong), closed(right)]);
    assert!(!ended.body.contains('\u{fffd}'), "{}", ended.body);
    assert_eq!(
        (ended.outcome.status(), ended.outcome.tally().failures),
        (Status::Complete, 1)
    );
    // The first answer passes, and is not continued.
    let first = bytes(&(role("a") + &text("a", "[\"a#b") + &finish("a", "length") + DONE));
    let relay = Relay::new(Limits::default());
    let passed = played(relay, closed(&first), |body| vec![body], |_, _| panic!());
    let (outcome, _) = passed.end().unwrap();
    assert_eq!(
        (&passed.body, outcome.status()),
        (&first, Status::PassedThrough)
    );
}

/// Half of a surrogate pair in a name makes it another name.
#[test]
fn a_name_with_half_of_a_surrogate_pair_is_another_name() {
    let chunk = |delta: &str| {
        format!(
            "data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"{delta}\":{{\"content\":\"[1, 2\"}}}}]}}\n\n"
        )
    };
    let relay_of = |body: String| {
        let mut relay = Relay::new(Limits::default());
        relay.handle_bytes(NOW, body.into());
        relay.session().document().text().to_owned()
    };
    assert_eq!(
        (relay_of(chunk("delta")), relay_of(chunk("del\\ud83dta"))),
        ("[1, 2".to_owned(), String::new())
    );
}

/// A root is closed, and the upstream is reset, falls silent, ends, or reports an error, before it
/// has said how the answer ends. The answer is whole in all of these cases, and the last event says
/// that the upstream has not ended it.
#[test]
fn the_end_of_a_whole_document_is_told() {
    let body = role("a") + &text("a", "[1]");
    let report =
        |end: &str| json!({"status": "complete", "continuations": 0, "failures": 0, "end": end});
    let silent = Reply::Stream(body.clone().into(), Fault::Stall);
    let ends = [
        ("drop", run(&[dropped(&body)])),
        ("idle", run(&[silent])),
        ("eof", run(&[closed(&body)])),
    ];
    for (end, ended) in ends {
        assert!(
            ended.body.starts_with(&body),
            "{end}: the upstream's own bytes come first"
        );
        assert_eq!(
            (ended.text(), ended.finishes()),
            ("[1]".into(), vec!["stop".into()]),
            "{end}"
        );
        assert_eq!(
            (ended.count("[DONE]"), ended.transport_end),
            (1, TransportEnd::Closed),
            "{end}"
        );
        let mut report = report(end);
        if end == "idle" {
            report["limit"] = json!({"name": "idle_timeout", "value": 60});
        }
        assert_eq!(
            ended.chunks().iter().rev().nth(1).unwrap()["restitch"],
            report
        );
        assert_eq!(ended.outcome.end().map(|end| end.as_str()), Some(end));
    }
    // So it is for a continuation.
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let rest = role("b") + &text("b", "[1, 2, 3]");
    for (end, reply) in [
        ("drop", dropped(&rest)),
        ("eof", closed(&rest)),
        ("in_band", closed(rest.clone() + error)),
    ] {
        let ended = run(&[dropped(role("a") + &text("a", "[1, 2")), reply]);
        assert_eq!(
            (ended.text(), ended.finishes()),
            ("[1, 2, 3]".into(), vec!["stop".into()]),
            "{end}"
        );
        let told = ended.chunks().iter().rev().nth(1).unwrap()["restitch"].clone();
        assert_eq!(
            (&told["status"], &told["end"]),
            (&json!("complete"), &json!(end))
        );
    }
    // An upstream that gives a finish has said how it ended.
    let finished = run(&[
        dropped(role("a") + &text("a", "[1, 2")),
        closed(rest + &finish("b", "stop") + DONE),
    ]);
    assert!(
        finished.chunks().iter().rev().nth(1).unwrap()["restitch"]
            .get("end")
            .is_none()
    );
}

/// An event above the cap is not read, but it passes, and so does all that follows.
#[test]
fn what_cannot_be_read_passes_unseen() {
    let limits = Limits::default()
        .with_max_event_bytes(200)
        .with_max_line_bytes(200);
    let huge = text("a", &"x".repeat(300));
    let before = role("a") + &text("a", "[\"");
    for (body, transport_end) in [
        (
            before.clone() + &huge + &text("a", "\"") + &finish("a", "length") + DONE,
            TransportEnd::Closed,
        ),
        (
            before.clone() + &huge + &text("a", "\""),
            TransportEnd::Dropped,
        ),
        (before.clone() + &huge[..250], TransportEnd::Dropped),
        (before + ":" + &"c".repeat(500), TransportEnd::Dropped),
        // Nothing is written into the middle of an event.
        (text("a", "[1]") + &huge[..250], TransportEnd::Dropped),
    ] {
        for size in [1, 7, 64, 10_000] {
            let reply = match transport_end {
                TransportEnd::Closed => closed(&body),
                TransportEnd::Dropped => dropped(&body),
            };
            let relay = Relay::new(limits.clone());
            let ended = run_in(relay, &[reply], |body| body.chunks(size).collect());
            // A comment after a whole stream has the report.
            let report = format!(": restitch {}\n", ended.outcome.report());
            let told = if transport_end == TransportEnd::Closed {
                report.as_str()
            } else {
                ""
            };
            assert_eq!(
                (ended.body.strip_prefix(&body), ended.transport_end),
                (Some(told), transport_end),
                "{size}"
            );
            assert_eq!(
                (ended.outcome.status(), ended.outcome.tally().continuations),
                (Status::PassedThrough, 0)
            );
            assert!(
                ended
                    .outcome
                    .tally()
                    .limit
                    .as_ref()
                    .is_some_and(|limit| limit.value.as_u64() == Some(200)),
                "{size}"
            );
        }
    }
    // In a continuation it is one failure.
    let whole = text("b", "[1, 20]") + &finish("b", "stop") + DONE;
    let replies = [dropped(text("a", "[1, 2")), closed(huge), closed(whole)];
    let ended = run_with(Relay::new(limits), &replies);
    assert_eq!(
        (ended.text().as_str(), ended.outcome.tally().failures),
        ("[1, 20]", 1)
    );
}

/// A fault at every byte of a continuation, and a second one at a seeded place of the next.
#[test]
fn a_fault_at_every_byte_of_a_continuation() {
    let document = r#"{"title": "caf\u00e9 \ud83d\ude00", "rows": [[1, -2.5e3, true], [2, 0.125, null]], "end": "s"}"#;
    let answer = |id: &str, from: usize, fence: bool| {
        let mut body = role(id);
        let open = if fence { "```json\n" } else { "" };
        body += &text(id, open);
        for piece in document.as_bytes()[from..].chunks(7) {
            body += &text(id, std::str::from_utf8(piece).unwrap());
        }
        body + &finish(id, "stop") + &usage(id, 1, 1) + DONE
    };
    let anchored = |request: &Request, id: &str, fence: bool| match &request.turn {
        None => answer(id, 0, false),
        Some(turn) => answer(
            id,
            turn.delivered.trim_end().len() - turn.anchor.len(),
            fence,
        ),
    };
    let first = answer("a", 0, false);
    let cut = first.len() * 6 / 10;
    let mut rows = Rows::of("faults of a continuation");
    for fence in [false, true] {
        for at in 0..2400 {
            for fault in [Fault::Dropped, Fault::Clean] {
                if !rows.runs_next() {
                    continue;
                }
                let mut rng = Rng::new(at as u64);
                // Two faults right behind the anchor bring nothing new twice; that ends the loop
                // elsewhere.
                let relay = Relay::new(Limits::default().with_max_no_progress(3));
                let first = dropped(&first.as_bytes()[..cut]);
                let mut calls = 0;
                let relayed = played(
                    relay,
                    first,
                    |body| vec![body],
                    |_, request| {
                        calls += 1;
                        let mut reply = anchored(request, "b", fence);
                        reply.truncate(match calls {
                            1 => at.min(reply.len()),
                            2 => rng.below(reply.len()),
                            _ => reply.len(),
                        });
                        Reply::Stream(reply.into(), fault)
                    },
                );
                let ended = Ended::of(relayed);
                assert_eq!(
                    ended.text(),
                    document,
                    "at {at}, fence {fence}\n{}",
                    ended.body
                );
                assert_eq!(
                    (ended.outcome.status(), ended.transport_end),
                    (Status::Complete, TransportEnd::Closed),
                    "at {at}"
                );
                assert_eq!(
                    (ended.finishes(), ended.count("[DONE]")),
                    (vec!["stop".to_owned()], 1),
                    "at {at}"
                );
            }
        }
    }
}

/// Recorded streams that end healthy pass byte for byte in any chunking.
#[test]
fn recorded_streams_pass_unchanged() {
    let mut rng = Rng::new(17);
    let (mut covered, mut continued) = (0, Vec::new());
    let paths = corpus_files("streams/openai-chat");
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
    {
        let body = fs::read(path).unwrap();
        for round in 0..6 {
            let cuts = match round {
                0 => Vec::new(),
                1 if body.len() < 1 << 16 => (1..body.len()).collect(),
                _ => random_cuts(body.len(), &mut rng),
            };
            let mut is_continued = false;
            let relay = Relay::new(Limits::default());
            let passed = played(
                relay,
                closed(&body),
                |body| chunks(body, &cuts),
                |_, _| {
                    is_continued = true;
                    Reply::Ended(refusal())
                },
            );
            if is_continued {
                continued.push(path.file_name().unwrap().to_string_lossy().into_owned());
                break;
            }
            assert!(passed.body == body, "{}", path.display());
        }
        covered += 1;
    }
    assert!(covered >= at_least(10, 120));
    println!("covered: {covered} recorded streams, of which are continued: {continued:?}");
}

/// The part of an anchor that a lost continuation has repeated would fit at the cut; the relay does
/// not put it there.
#[test]
fn a_piece_of_the_anchor_is_no_continuation() {
    let begin = r#"{"sections": [{"type": "text", "content": "It was a dark and stor"#;
    let whole = format!("{begin}my night\"}}]}}");
    // A copy from the root that closes after one value is believed the second time.
    let copy = closed(text("b", &whole) + &finish("b", "stop") + DONE);
    let anchor = run(&[dropped(text("a", begin)), copy.clone(), copy]).requests[0]
        .turn
        .clone()
        .unwrap()
        .anchor;
    for length in 1..anchor.len() {
        let rest = &whole[begin.len() - anchor.len()..];
        let replies = [
            dropped(text("a", begin)),
            dropped(text("b", &anchor[..length])),
            closed(text("c", rest) + &finish("c", "stop") + DONE),
        ];
        let ended = run(&replies);
        assert_eq!(ended.text(), whole, "{length} bytes of {anchor:?}");
        assert_eq!(ended.outcome.status(), Status::Complete);
    }
}

#[test]
fn usage_is_told_where_the_upstream_tells_it() {
    let usage = |n: u32| format!(r#""usage":{{"prompt_tokens":{n},"total_tokens":{n}}}"#);
    // On the finish: a client that never asked for a chunk without choices gets none.
    let first = format!(
        "{}data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"length\"}}],{}}}\n\n{DONE}",
        text("a", "[1, 2"),
        usage(5)
    );
    let second = format!(
        "{}data: {{\"id\":\"b\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],{}}}\n\n{DONE}",
        text("a", "[1, 2, 3]"),
        usage(7)
    );
    let ended = run(&[closed(first), closed(second)]);
    let chunks: Vec<Value> = ended
        .chunks()
        .into_iter()
        .filter(|chunk| !chunk.is_null())
        .collect();
    let last = chunks.last().unwrap();
    assert_eq!(
        last["usage"],
        json!({"prompt_tokens": 12, "total_tokens": 12})
    );
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["restitch"]["status"], "complete");
    assert!(chunks.iter().all(|chunk| {
        chunk["choices"]
            .as_array()
            .is_some_and(|choices| !choices.is_empty())
    }));
    // In a chunk of its own: there, once, and the report with it.
    let apart = |text: &str, reason: &str, n: u32| {
        format!(
            "{}data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n\
             data: {{\"id\":\"a\",\"choices\":[],{}}}\n\n{DONE}",
            self::text("a", text),
            usage(n)
        )
    };
    let ended = run(&[
        closed(apart("[1, 2", "length", 5)),
        closed(apart("[1, 2, 3]", "stop", 7)),
    ]);
    let chunks: Vec<Value> = ended
        .chunks()
        .into_iter()
        .filter(|chunk| !chunk.is_null())
        .collect();
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["prompt_tokens"]),
        (&json!([]), &json!(12))
    );
    assert_eq!(
        chunks
            .iter()
            .filter(|chunk| chunk["usage"].is_object())
            .count(),
        1
    );
    assert_eq!(last["restitch"]["continuations"], 1);
}

#[test]
fn an_answer_of_which_nothing_came_says_what_the_upstream_said() {
    let error = "data: {\"error\": {\"message\": \"maximum context length is 8192\"}}\n\n";
    let ended = run(&[closed(error), closed(error), closed(error)]);
    assert_eq!(
        (ended.outcome.status(), ended.outcome.tally().failures),
        (Status::Failed, 3)
    );
    let chunks = ended.chunks();
    let message = chunks.last().unwrap()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.ends_with("maximum context length is 8192"),
        "{message}"
    );
}

#[test]
fn a_whole_body_that_passes_after_a_failure_is_not_touched() {
    use restitch::internal::relay::BodyRelay;
    for body in [
        r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"{\"a\": nul1, \"b\": 2}"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"Just prose."},"finish_reason":"length"}]}"#,
    ] {
        let mut whole = BodyRelay::new(Limits::default());
        whole.handle_end(NOW, CallEnd::Dropped);
        whole.handle_body(NOW, body);
        let outputs: Vec<Output> = std::iter::from_fn(|| whole.poll_output()).collect();
        let bodies: Vec<_> = outputs
            .iter()
            .filter_map(|output| {
                if let Output::Bytes(bytes) = output {
                    Some(bytes)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(bodies, [body]);
        assert!(matches!(outputs.last(), Some(Output::Done { .. })));
    }
}

/// Where the request has stop sequences, a `stop` inside the document is where it was to end.
#[test]
fn a_whole_body_that_stops_early_is_continued_unless_stops_are_believed() {
    use restitch::internal::relay::BodyRelay;
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"{\"a\": [1, 2"},"finish_reason":"stop"}]}"#;
    for believes in [false, true] {
        let whole = BodyRelay::new(Limits::default()).give_up(GiveUp::Leave);
        let mut whole = if believes { whole.trust_stop() } else { whole };
        whole.handle_body(NOW, body);
        let outputs: Vec<Output> = std::iter::from_fn(|| whole.poll_output()).collect();
        assert_eq!(
            outputs
                .iter()
                .any(|output| matches!(output, Output::Call { .. })),
            !believes,
            "{outputs:?}"
        );
        assert_eq!(
            outputs
                .iter()
                .any(|output| matches!(output, Output::Bytes(bytes) if bytes == body)),
            believes
        );
        assert_eq!(whole.session().document().text(), "{\"a\": [1, 2");
    }
}

/// A farewell after the closers does not make an early end more certain.
#[test]
fn prose_after_closers_does_not_make_them_believed() {
    let delivered = "{\"rows\": [{\"id\": 1, \"name\": \"Sousa ";
    for prose in [
        "",
        "\n",
        "\n\nHope this helps!",
        "\n```\nLet me know.",
        " (rows 2, 3 and so on are left out)",
    ] {
        for is_divided in [false, true] {
            let rest = || {
                let closers = format!("{delivered}\"}}]}}");
                let rest = match is_divided {
                    true => text("b", &closers) + &text("b", prose),
                    false => text("b", &(closers + prose)),
                };
                closed(rest + &finish("b", "stop") + DONE)
            };
            let first = closed(text("a", delivered) + &finish("a", "length") + DONE);
            let relay = Relay::new(Limits::default());
            let ended = run_with(relay, &[first, rest(), rest()]);
            let got = (ended.text(), ended.finishes(), ended.outcome.status());
            assert_eq!(
                got,
                (
                    delivered.to_owned(),
                    vec!["length".to_owned()],
                    Status::Incomplete
                ),
                "{prose:?}"
            );
        }
    }
}

/// Two choices. The first ends with `length` while the other continues. The client does not get
/// that end, since the relay may ask for the rest.
fn two_choices() -> String {
    let text = |index: u32, text: &str| {
        event(&json!({"id": "a", "choices": [{"index": index, "delta": {"content": text}}]}))
    };
    let end = finish("a", "length");
    format!("{}{}{end}", text(0, "{\"a"), text(1, ""))
}

#[test]
fn an_end_that_was_kept_back_is_told_where_nothing_is_continued() {
    for (reply, transport_end) in [
        (closed as fn(String) -> Reply, TransportEnd::Closed),
        (dropped, TransportEnd::Dropped),
    ] {
        // One choice was asked for, and the other has no text: nothing of the answer can be
        // continued any more.
        let ended = run(&[reply(format!("{}data: {{nonsense\n\n", two_choices()))]);
        assert_eq!(
            (ended.outcome.status(), ended.transport_end),
            (Status::PassedThrough, transport_end),
            "{}",
            ended.body
        );
        assert_eq!(ended.finishes(), ["length"], "{}", ended.body);
    }
}

#[test]
fn an_end_that_was_kept_back_is_told_where_the_rest_passes_unread() {
    let text = |text: &str| {
        event(&json!({"id": "a", "choices": [{"index": 1, "delta": {"content": text}}]}))
    };
    let prose = format!(
        "{}{}",
        text("Once upon a time "),
        text("there was a river.")
    );
    let end = chat::chunk("a", 1, &json!({}), Some("stop"));
    // It reaches a limit.
    let mut limits = Limits::default();
    limits.parser.max_text_bytes = 10;
    let stream = format!("{}{prose}{end}{DONE}", two_choices());
    let ended = run_with(Relay::new(limits), &[closed(stream)]);
    assert_eq!(
        ended.outcome.status(),
        Status::PassedThrough,
        "{}",
        ended.body
    );
    assert_eq!(ended.finishes(), ["length", "stop"], "{}", ended.body);
    // What names the limit follows it.
    assert_eq!(ended.count(DONE), 1, "{}", ended.body);
}
