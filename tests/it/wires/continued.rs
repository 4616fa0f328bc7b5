//! Cut answers of every wire through a relay: what comes out is one well-formed answer.

use std::fs;
use std::time::Duration;

use restitch::Limits;
use restitch::internal::chat::Transcript;
use restitch::internal::relay::{Output, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{ContinuationStrategy, GiveUp, Outcome, Request, Status};
use serde_json::Value;

use super::answers::answer;
use super::recorded::{Event, events};
use crate::support::{at_least, corpus_rows};

const NOW: Duration = Duration::ZERO;

/// What a client has received.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) body: String,
    pub(super) outcome: Outcome,
    pub(super) transport_end: TransportEnd,
    pub(super) calls: usize,
}

/// How the first stream ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// As its bytes say, then the body is over.
    Clean,
    Dropped,
    Stall,
}

/// What is to be done after a relay's outputs.
#[derive(Debug)]
enum Next {
    Wait,
    Call(Request),
    Done(Outcome, TransportEnd),
}

fn take(relay: &mut Relay, body: &mut Vec<u8>) -> Next {
    let mut next = Next::Wait;
    while let Some(output) = relay.poll_output() {
        match output {
            Output::Bytes(bytes) => body.extend_from_slice(&bytes),
            Output::Call { request, .. } => next = Next::Call(request),
            Output::Done { outcome, transport_end } => next = Next::Done(outcome, transport_end),
            _ => {}
        }
    }
    next
}

/// Plays one call to a relay.
fn play(relay: &mut Relay, now: &mut Duration, input: &[u8], fault: Fault, size: usize, body: &mut Vec<u8>) -> Next {
    relay.handle_open(*now);
    for chunk in input.chunks(size) {
        relay.handle_bytes(*now, chunk.to_vec().into());
        let next = take(relay, body);
        if !matches!(next, Next::Wait) {
            return next;
        }
    }
    match fault {
        Fault::Clean => relay.handle_transport_end(*now, TransportEnd::Closed),
        Fault::Dropped => relay.handle_transport_end(*now, TransportEnd::Dropped),
        Fault::Stall => {}
    }
    loop {
        let next = take(relay, body);
        if !matches!(next, Next::Wait) {
            return next;
        }
        match relay.poll_timeout() {
            Some(due) => {
                *now = due;
                relay.handle_timeout(due);
            }
            // Silence that nobody times ends some day.
            None => relay.handle_transport_end(*now, TransportEnd::Dropped),
        }
    }
}

/// Sends a stream through a relay, and lets every further call answer with `rest`.
pub(super) fn through(relay: Relay, first: &[u8], fault: Fault, size: usize, rest: &str) -> Received {
    through_with(relay, first, fault, size, |_, _| (rest.to_owned(), Fault::Clean))
}

/// The same, where `reply` answers each further call. It gets the request and the text that was delivered.
pub(super) fn through_with(
    mut relay: Relay,
    first: &[u8],
    fault: Fault,
    size: usize,
    mut reply: impl FnMut(&Request, &str) -> (String, Fault),
) -> Received {
    let (mut body, mut now) = (Vec::new(), NOW);
    let mut next = play(&mut relay, &mut now, first, fault, size, &mut body);
    let mut calls = 0;
    loop {
        match next {
            Next::Done(outcome, transport_end) => {
                let body = whole_chars(body);
                return Received { body, outcome, transport_end, calls };
            }
            Next::Call(request) => {
                calls += 1;
                assert!(calls < 20, "{}", String::from_utf8_lossy(&body));
                let (rest, fault) = reply(&request, relay.session().document().text());
                next = play(&mut relay, &mut now, rest.as_bytes(), fault, size, &mut body);
            }
            Next::Wait => panic!("a call that is over has no end"),
        }
    }
}

/// Returns the text of a body, without the half of a character that a broken stream may end with.
fn whole_chars(mut body: Vec<u8>) -> String {
    if let Err(error) = std::str::from_utf8(&body) {
        assert_eq!(error.error_len(), None, "only the end may be half a character");
        body.truncate(error.valid_up_to());
    }
    String::from_utf8(body).unwrap()
}

pub(super) fn events_of(dialect: Dialect, body: &str) -> Vec<Event> {
    match dialect {
        Dialect::Ollama => {
            body.lines().filter(|line| !line.is_empty()).map(|line| ("message".to_owned(), line.to_owned())).collect()
        }
        _ => events(body.as_bytes(), body.len().max(1), true),
    }
}

pub(super) fn read(dialect: Dialect, body: &str) -> Transcript {
    super::recorded::transcript(dialect, &events_of(dialect, body), true)
}

/// Checks the order of the events of an answer that has ended.
pub(super) fn check_form(dialect: Dialect, body: &str) {
    let events: Vec<(String, Value)> = events_of(dialect, body)
        .into_iter()
        .map(|(name, data)| (name, serde_json::from_str(&data).unwrap_or(Value::String(data))))
        .collect();
    match dialect {
        Dialect::Messages => check_messages(&events, body),
        Dialect::Responses => check_responses(&events, body),
        Dialect::Chat | Dialect::Completions => {
            assert_eq!(events.iter().filter(|(_, data)| data == "[DONE]").count(), 1, "{body}");
            assert_eq!(events.last().unwrap().1, "[DONE]", "{body}");
            let finishes = events.iter().filter(|(_, data)| data["choices"][0]["finish_reason"].is_string());
            assert_eq!(finishes.count(), 1, "{body}");
            let ids: Vec<_> = events.iter().map(|(_, data)| &data["id"]).filter(|id| id.is_string()).collect();
            assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{body}");
        }
        Dialect::Gemini => {
            let finishes = events.iter().filter(|(_, data)| data["candidates"][0]["finishReason"].is_string());
            assert_eq!(finishes.count(), 1, "{body}");
        }
        Dialect::Ollama => {
            assert_eq!(events.iter().filter(|(_, data)| data["done"] == true).count(), 1, "{body}");
            assert_eq!(events.last().unwrap().1["done"], true, "{body}");
        }
        Dialect::Cohere => {
            let ends: Vec<_> = events.iter().filter(|(_, data)| data["type"] == "message-end").collect();
            assert_eq!(ends.len(), 1, "{body}");
            let count = |suffix: &str| {
                events
                    .iter()
                    .filter(|(_, data)| {
                        data["type"].as_str().is_some_and(|kind| {
                            kind.ends_with(suffix) && kind != "message-start" && kind != "message-end"
                        })
                    })
                    .count()
            };
            assert_eq!(count("-start"), count("-end"), "{body}");
        }
        other => panic!("{other}"),
    }
}

/// One message; each block has one start, deltas and one stop, and the blocks follow one another.
fn check_messages(events: &[(String, Value)], body: &str) {
    let mut open: Option<u64> = None;
    let mut next = 0;
    let mut tail = Vec::new();
    for (at, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str(), "{body}");
        match name.as_str() {
            "message_start" => assert_eq!(at, 0, "{body}"),
            "content_block_start" => {
                assert_eq!((open, data["index"].as_u64()), (None, Some(next)), "{body}");
                (open, next) = (Some(next), next + 1);
            }
            "content_block_delta" => assert_eq!(data["index"].as_u64(), open, "{body}"),
            "content_block_stop" => assert_eq!(data["index"].as_u64(), open.take(), "{body}"),
            "ping" => {}
            other => tail.push(other),
        }
    }
    assert_eq!((open, tail), (None, vec!["message_delta", "message_stop"]), "{body}");
}

/// Numbers without a gap, every item and part begins and ends, and the last event repeats the output.
fn check_responses(events: &[(String, Value)], body: &str) {
    for (at, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str(), "{body}");
        assert_eq!(data["sequence_number"].as_u64(), Some(at as u64), "{body}");
    }
    let count = |kind: &str| events.iter().filter(|(name, _)| name == kind).count();
    assert_eq!(count("response.output_item.added"), count("response.output_item.done"), "{body}");
    assert_eq!(count("response.content_part.added"), count("response.content_part.done"), "{body}");
    let (last, end) = events.last().unwrap();
    assert!(["response.completed", "response.incomplete"].contains(&last.as_str()), "{body}");
    let items = events.iter().filter(|(name, _)| name == "response.output_item.done").map(|(_, data)| &data["item"]);
    assert_eq!(
        end["response"]["output"].as_array().unwrap().iter().collect::<Vec<_>>(),
        items.collect::<Vec<_>>(),
        "{body}"
    );
    assert_eq!(count("response.completed") + count("response.incomplete"), 1, "{body}");
}

pub(super) const DOCUMENT: &str =
    r#"{"title": "Tides", "rows": [{"id": 1, "text": "high \"water\" é"}, {"id": 2, "text": "low 😀"}], "n": 12}"#;

pub(super) fn relay(dialect: Dialect) -> Relay {
    let relay = Relay::new(Limits::default()).dialect(dialect);
    match dialect {
        // Completions have no turns to ask in.
        Dialect::Completions => relay.strategy(ContinuationStrategy::default().prefill(Default::default())),
        _ => relay,
    }
}

/// The wires and what they carry. Gemini's and Ollama's calls are objects, which are whole or absent; Completions have none.
pub(super) fn carried() -> impl Iterator<Item = (Dialect, SlotKind)> {
    let has_calls = |dialect| !matches!(dialect, Dialect::Gemini | Dialect::Ollama | Dialect::Completions);
    Dialect::ALL.into_iter().flat_map(move |dialect| {
        [(dialect, SlotKind::Text), (dialect, SlotKind::Arguments)]
            .into_iter()
            .filter(move |(_, kind)| *kind == SlotKind::Text || has_calls(dialect))
    })
}

/// Returns how a whole answer ends, in the words of Chat Completions.
pub(super) fn reason(kind: SlotKind) -> &'static str {
    if kind == SlotKind::Text { "stop" } else { "tool_calls" }
}

/// Returns the text with which a model goes on that was asked for the rest of `document`, of which the client has
/// `delivered`: what follows a prefill, or the anchor and the rest.
pub(super) fn rest_of(dialect: Dialect, document: &str, request: &Request, delivered: &str) -> String {
    match &request.turn {
        None => document.to_owned(),
        Some(_) if dialect == Dialect::Completions => document[delivered.len()..].to_owned(),
        Some(turn) => format!("{}{}", turn.anchor, &document[delivered.trim_end().len()..]),
    }
}

/// Returns a whole answer to a request for the rest of `DOCUMENT`, or for all of it again.
pub(super) fn reply(dialect: Dialect, kind: SlotKind, request: &Request, delivered: &str) -> String {
    let kind = if request.turn.is_none() { kind } else { SlotKind::Text };
    answer(dialect, kind, &rest_of(dialect, DOCUMENT, request, delivered), Some(reason(kind))).stream()
}

/// Returns the text of the only slot of a kind.
pub(super) fn text_of(kind: SlotKind, read: &Transcript) -> String {
    match kind {
        SlotKind::Text => read.text.values().cloned().collect(),
        SlotKind::Arguments => read.tool_args.values().map(|call| call.args.as_str()).collect(),
    }
}

#[test]
fn healthy_answers_pass_unchanged() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        check_form(dialect, &stream);
        for size in [1, 7, 1 << 16] {
            let received = through(relay(dialect), stream.as_bytes(), Fault::Clean, size, "");
            assert_eq!((received.body.as_str(), received.calls), (stream.as_str(), 0), "{dialect} {kind:?}");
            assert_eq!(received.outcome.status(), Status::PassedThrough);
        }
    }
}

#[test]
fn answers_that_are_cut_by_the_limit_become_whole() {
    for (dialect, kind) in carried() {
        for at in (1..DOCUMENT.len()).filter(|&at| DOCUMENT.is_char_boundary(at)) {
            let first = answer(dialect, kind, &DOCUMENT[..at], Some("length")).stream();
            let rest = match dialect {
                // A prefill goes on.
                Dialect::Completions => &DOCUMENT[at..],
                _ => DOCUMENT,
            };
            let rest = answer(dialect, SlotKind::Text, rest, Some("stop")).stream();
            let received = through(relay(dialect), first.as_bytes(), Fault::Clean, [1, 7, 64][at % 3], &rest);
            let context = format!("{dialect} {kind:?} {at}");
            let read = read(dialect, &received.body);
            assert_eq!(text_of(kind, &read), DOCUMENT, "{context}: {}", received.body);
            let ended = (received.outcome.status(), received.transport_end);
            assert_eq!(ended, (Status::Complete, TransportEnd::Closed), "{context}");
            check_form(dialect, &received.body);
            let word = answer(dialect, kind, "", Some(reason(kind))).stream();
            assert_eq!(read.finish, super::continued::read(dialect, &word).finish, "{context}");
        }
    }
}

#[test]
fn answers_that_break_off_anywhere_become_whole() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let mut whole = 0;
        for at in (0..stream.len()).step_by(5) {
            for fault in [Fault::Dropped, Fault::Clean, Fault::Stall] {
                let received =
                    through_with(relay(dialect), &stream.as_bytes()[..at], fault, 1 << 16, |request, delivered| {
                        (reply(dialect, kind, request, delivered), Fault::Clean)
                    });
                let context = format!("{dialect} {kind:?} {at} {fault:?}");
                // Clients drop an event that breaks off.
                let end_of = |end: &str| received.body.rfind(end).map_or(0, |at| at + end.len());
                let body = match dialect {
                    Dialect::Ollama => &received.body[..end_of("\n")],
                    _ => &received.body[..end_of("\n\n").max(end_of("\r\n\r\n"))],
                };
                let read = read(dialect, body);
                match received.outcome.status() {
                    Status::Complete => {
                        whole += 1;
                        let all = text_of(SlotKind::Text, &read) + &text_of(SlotKind::Arguments, &read);
                        assert_eq!(all, DOCUMENT, "{context}: {}", received.body);
                        check_form(dialect, &received.body);
                    }
                    // The document was there, or nothing of it: then the answer ends as it came.
                    Status::PassedThrough => assert!(
                        text_of(kind, &read).is_empty() || text_of(kind, &read) == DOCUMENT,
                        "{context}: {}",
                        received.body
                    ),
                    other => panic!("{context}: {other} {:?}", received.body),
                }
            }
        }
        assert!(whole > stream.len() / 5, "{dialect} {kind:?}: {whole} of {}", stream.len() * 3 / 5);
    }
}

#[test]
fn arguments_stay_open_when_the_rest_is_not_had() {
    for (dialect, kind) in carried().filter(|(_, kind)| *kind == SlotKind::Arguments) {
        let first = answer(dialect, kind, &DOCUMENT[..40], Some("length")).stream();
        for give_up in [GiveUp::Close, GiveUp::Leave] {
            let relay = Relay::new(Limits::default().with_max_continuations(0)).dialect(dialect).give_up(give_up);
            let received = through(relay, first.as_bytes(), Fault::Clean, 64, "");
            let read = read(dialect, &received.body);
            assert_eq!(text_of(kind, &read), DOCUMENT[..40], "{dialect}: {}", received.body);
            let limit = super::continued::read(dialect, &first).finish;
            assert_eq!(read.finish, limit, "{dialect}: {}", received.body);
            check_form(dialect, &received.body);
            assert!(received.body.contains("\"restitch\""), "{dialect}");
        }
    }
}

#[test]
fn recorded_cuts_become_whole() {
    let mut covered = 0;
    for (folder, row) in corpus_rows("length_cut/index.jsonl") {
        let file = row["file"].as_str().unwrap();
        // Our own rows are texts without a stream.
        let Some(dialect) = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == row["dialect"]) else {
            continue;
        };
        let body = fs::read(folder.join(file)).unwrap();
        let full = row["full"].as_str().unwrap();
        let rest = answer(dialect, SlotKind::Text, full, Some("stop")).stream();
        let before = read(dialect, std::str::from_utf8(&body).unwrap());
        for size in [1, 7, 1 << 16] {
            let received = through(relay(dialect), &body, Fault::Clean, size, &rest);
            let after = read(dialect, &received.body);
            let key = row["key"].as_str().unwrap();
            let (found, mut expected) = match row["payload"].as_str().unwrap() {
                "args" => {
                    let mut expected = before.clone();
                    expected.tool_args.get_mut(key).unwrap().args = full.to_owned();
                    (after.tool_args[key].args.clone(), expected)
                }
                _ => {
                    let mut expected = before.clone();
                    expected.text.insert(key.to_owned(), full.to_owned());
                    (after.text[key].clone(), expected)
                }
            };
            assert_eq!(found, full, "{file} {size}: {} {:?}", received.body, received.outcome);
            // All else is as it came.
            expected.reasons.clone_from(&after.reasons);
            (expected.finish, expected.usage, expected.terminal) =
                (after.finish.clone(), after.usage.clone(), after.terminal.clone());
            assert_eq!(after, expected, "{file}");
            assert_eq!(received.outcome.status(), Status::Complete, "{file}");
        }
        covered += 1;
    }
    assert!(covered >= at_least(0, 100), "{covered}");
    println!("covered: {covered} recorded cuts");
}
