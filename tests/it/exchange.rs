//! Requests and the calls that answer them, as the files of `tests/wire-cases` say.

use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::provider::capability::Capability;
use restitch::session::{
    CallEnd, Exchange, ExchangeOutput, ResponseHead, StopReason, TransportEnd,
};
use serde_json::Value;

use restitch_testing::wire_case::{Answer, AnswerEnd, Call, Received, WireCase};

#[test]
fn exchanges_are_as_their_files_say() {
    let cases = WireCase::all();
    let mut wrong = Vec::new();
    for case in &cases {
        let name = &case.name;
        let seen = run(case, usize::MAX);
        assert_eq!(run(case, 1), seen, "{name}: byte by byte");
        let differences = case.differences(&seen);
        if !differences.is_empty() {
            wrong.push(format!("{name}\n{}\n{seen:#?}", differences.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("covered: {} files", cases.len());
}

#[test]
fn a_client_that_leaves_with_the_last_event_has_its_answer() {
    let cases = WireCase::all();
    let case = cases.iter().find(|case| case.name == "chat-stream-healthy");
    let case = case.unwrap();
    let Call::Answered(answer) = &case.calls[0] else {
        panic!("it is answered");
    };
    let body = answer.pieces.concat();
    let mut exchange = exchange(case);
    let head = ResponseHead::of(200, "text/event-stream");
    assert!(exchange.handle_response(Duration::ZERO, &head));
    let (text, end) = body.split_at(body.find("\"finish_reason\":\"stop\"").unwrap());
    exchange.handle_bytes(Duration::ZERO, Bytes::copy_from_slice(text.as_bytes()));
    assert_eq!(exchange.outcome().reason(), Some(StopReason::Abandoned));
    exchange.handle_bytes(Duration::ZERO, Bytes::copy_from_slice(end.as_bytes()));
    assert_eq!(exchange.outcome().status().as_str(), "passed");
    let finish = exchange
        .outcome()
        .finish()
        .map(|finish| finish.as_str().to_owned());
    assert_eq!(finish.as_deref(), Some("stop"));
}

/// Its row has a prefill and a grammar. A capability that the caller sets counts instead.
#[test]
fn a_known_server_is_asked_as_it_can_be() {
    for (server, is_set, is_forced) in [
        (Some("llama.cpp"), false, true),
        (Some("nginx"), false, false),
        (None, false, false),
        (Some("llama.cpp"), true, false),
    ] {
        let body = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Go"}]}"#;
        let path = "/v1/chat/completions";
        let mut exchange =
            Exchange::for_request("localhost", path, body, Limits::default()).unwrap();
        if is_set {
            exchange = exchange.capability(Capability::default());
        }
        let head = ResponseHead::of(200, "text/event-stream").with_server(server);
        assert!(exchange.handle_response(Duration::ZERO, &head));
        let cut = r#"{"id":"a","choices":[{"index":0,"delta":{"content":"[\"a row of some length\", \"a second row that is longer\", \"a thi"},"finish_reason":"length"}]}"#;
        let events = format!("data: {cut}\n\ndata: [DONE]\n\n");
        exchange.handle_bytes(Duration::ZERO, events.into());
        exchange.handle_end(Duration::ZERO, TransportEnd::Closed);
        let mut outputs = std::iter::from_fn(|| exchange.poll_output());
        let call = outputs.find_map(|output| match output {
            ExchangeOutput::Call(call) => Some(call),
            _ => None,
        });
        let asked: Value = serde_json::from_str(&call.unwrap().body).unwrap();
        let last = asked["messages"].as_array().unwrap().last().unwrap();
        let found = (asked["grammar"].is_string(), last["role"] == "assistant");
        assert_eq!(found, (is_forced, is_forced), "{server:?}");
    }
}

/// Replays a case. `size`: the most bytes of a piece of the upstream's bodies.
fn run(case: &WireCase, size: usize) -> Received {
    let mut replay = Replay {
        exchange: exchange(case),
        now: Duration::ZERO,
        seen: Received::default(),
        is_done: false,
    };
    for call in &case.calls {
        assert!(!replay.is_done, "{}: {call:?} is not asked for", case.name);
        assert_eq!(
            replay.exchange.outcome().reason(),
            Some(StopReason::Abandoned),
            "a client that leaves now"
        );
        match call {
            Call::Refused => {
                let reason = "connection refused".to_owned();
                let end = CallEnd::Unavailable {
                    reason,
                    retry_after: None,
                };
                replay.exchange.handle_call_end(replay.now, end);
            }
            Call::Answered(answer) => replay.answer(answer, size),
        }
        replay.take();
    }
    assert!(replay.is_done, "{}: another call is made", case.name);
    replay.seen
}

fn exchange(case: &WireCase) -> Exchange {
    let (path, body) = (&case.path, case.request.as_bytes());
    Exchange::for_request("127.0.0.1", path, body, case.limits.clone())
        .unwrap()
        .give_up(case.give_up)
        .repair(case.repair)
        .prose(case.prose)
}

/// A case that runs.
struct Replay {
    exchange: Exchange,
    now: Duration,
    seen: Received,
    is_done: bool,
}

impl Replay {
    /// Answers the open call with a head, a body and its end.
    fn answer(&mut self, answer: &Answer, size: usize) {
        let head = ResponseHead::of(answer.status, &answer.content_type);
        if !self.exchange.handle_response(self.now, &head) {
            return;
        }
        let pieces = answer.pieces.iter().map(String::as_bytes);
        for piece in pieces.flat_map(|piece| piece.chunks(size)) {
            let bytes = Bytes::copy_from_slice(piece);
            self.exchange.handle_bytes(self.now, bytes);
            let asked = self.seen.asked.len();
            self.take();
            // Bytes after the end of a call are not read.
            if self.is_done || self.seen.asked.len() > asked {
                return;
            }
        }
        match answer.end {
            AnswerEnd::Closed => self.exchange.handle_end(self.now, TransportEnd::Closed),
            AnswerEnd::Dropped => self.exchange.handle_end(self.now, TransportEnd::Dropped),
            AnswerEnd::Silent => {
                self.now = self.exchange.silent_at().unwrap();
                self.exchange.handle_timeout(self.now);
            }
        }
    }

    /// Takes all outputs, and waits for the time of the call that is asked for.
    fn take(&mut self) {
        while let Some(output) = self.exchange.poll_output() {
            match output {
                ExchangeOutput::Bytes(bytes) => {
                    self.seen.body += std::str::from_utf8(&bytes).unwrap();
                }
                ExchangeOutput::Call(call) => {
                    self.now = self.now.max(call.at);
                    self.seen.asked.push(Some(match call.method {
                        "GET" => format!("GET {}", call.path),
                        _ => call.body,
                    }));
                }
                ExchangeOutput::Done {
                    outcome,
                    last,
                    transport_end,
                    status,
                } => {
                    self.seen.body += std::str::from_utf8(&last).unwrap();
                    self.seen.is_dropped = transport_end == TransportEnd::Dropped;
                    (self.seen.status, self.seen.report) = (status, outcome.report());
                    self.is_done = true;
                }
                _ => {}
            }
        }
    }
}
