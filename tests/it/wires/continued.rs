//! Cut answers of every wire through a relay: what comes out is one well-formed answer.

use std::fs;
use std::time::Duration;

use restitch::Limits;
use restitch::internal::chat::Transcript;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Output, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::repair::RepairLevel;
use restitch::session::{CallEnd, ContinuationStrategy, Outcome, Request, Status, StopReason};
use serde_json::{Value, json};

use super::recorded::{Event, events};
use restitch_testing::answers::answer;
use restitch_testing::rows::Rows;
use restitch_testing::{at_least, corpus_rows, is_doubtful_end};

const NOW: Duration = Duration::ZERO;

/// What a client has received.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) body: String,
    pub(crate) outcome: Outcome,
    pub(crate) transport_end: TransportEnd,
    pub(crate) calls: usize,
}

/// Everything that a relay has given out: the bytes one after the other, and the other outputs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Relayed {
    pub(crate) body: Vec<u8>,
    pub(crate) steps: Vec<Output>,
}

impl Relayed {
    /// Returns how the answer ended, if it has.
    pub(crate) fn end(&self) -> Option<(&Outcome, TransportEnd)> {
        match self.steps.last() {
            Some(Output::Done {
                outcome,
                transport_end,
                ..
            }) => Some((outcome, *transport_end)),
            _ => None,
        }
    }

    /// Returns how many calls were made after the first one.
    pub(crate) fn calls(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Output::Call { .. }))
            .count()
    }

    /// Returns the requests of these calls.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let requests = self.steps.iter().filter_map(|step| match step {
            Output::Call { request, .. } => Some(request.clone()),
            _ => None,
        });
        requests.collect()
    }

    /// Takes what a relay gives out. Returns whether the open call is over.
    pub(crate) fn take(&mut self, relay: &mut Relay) -> bool {
        let mut is_over = false;
        while let Some(output) = relay.poll_output() {
            assert!(self.end().is_none(), "nothing follows the end");
            is_over |= matches!(output, Output::Call { .. } | Output::Done { .. });
            match output {
                Output::Bytes(bytes) => self.body.extend_from_slice(&bytes),
                other => self.steps.push(other),
            }
        }
        is_over
    }

    /// Plays one call to a relay, in pieces.
    pub(crate) fn play(
        &mut self,
        relay: &mut Relay,
        now: &mut Duration,
        pieces: &[&[u8]],
        fault: Fault,
    ) {
        relay.handle_open(*now);
        for piece in pieces {
            relay.handle_bytes(*now, piece.to_vec().into());
            if self.take(relay) {
                return;
            }
        }
        match fault {
            Fault::Clean => relay.handle_transport_end(*now, TransportEnd::Closed),
            Fault::Dropped => relay.handle_transport_end(*now, TransportEnd::Dropped),
            Fault::Stall => {}
        }
        let mut waits = 0;
        while !self.take(relay) {
            waits += 1;
            assert!(waits < 100, "nobody ends the silence: {relay:?}");
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
}

/// How the first stream ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// As its bytes say, then the body is over.
    Clean,
    Dropped,
    Stall,
}

/// What answers a call.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Stream(Vec<u8>, Fault),
    Ended(CallEnd),
}

/// Answers the first call of a relay with `first`, and every further call with what `reply` returns.
/// `split` divides the streams.
pub(crate) fn played(
    mut relay: Relay,
    first: Reply,
    mut split: impl for<'a> FnMut(&'a [u8]) -> Vec<&'a [u8]>,
    mut reply: impl FnMut(&Relay, &Request) -> Reply,
) -> Relayed {
    let (mut relayed, mut now, mut next) = (Relayed::default(), NOW, first);
    loop {
        match next {
            Reply::Stream(bytes, fault) => {
                relayed.play(&mut relay, &mut now, &split(&bytes), fault);
            }
            Reply::Ended(end) => {
                relay.handle_call_end(now, end);
                relayed.take(&mut relay);
            }
        }
        if relayed.end().is_some() {
            return relayed;
        }
        assert!(
            relayed.calls() < 20,
            "{}",
            String::from_utf8_lossy(&relayed.body)
        );
        let Some(Output::Call { request, .. }) = relayed.steps.last() else {
            panic!("{:?}", relayed.steps)
        };
        next = reply(&relay, request);
    }
}

/// The same, where each further call is answered with a stream.
pub(crate) fn relayed(
    relay: Relay,
    first: &[u8],
    fault: Fault,
    split: impl for<'a> FnMut(&'a [u8]) -> Vec<&'a [u8]>,
    mut reply: impl FnMut(&Relay, &Request) -> (Vec<u8>, Fault),
) -> Relayed {
    let first = Reply::Stream(first.to_vec(), fault);
    played(relay, first, split, |relay, request| {
        let (stream, fault) = reply(relay, request);
        Reply::Stream(stream, fault)
    })
}

/// Sends a stream through a relay, in pieces of `size` bytes, and lets every further call answer
/// with `rest`.
pub(crate) fn through(
    relay: Relay,
    first: &[u8],
    fault: Fault,
    size: usize,
    rest: &str,
) -> Received {
    through_with(relay, first, fault, size, |_, _| {
        (rest.to_owned(), Fault::Clean)
    })
}

/// The same, where `reply` answers each further call. It gets the request and the text that was
/// delivered.
pub(crate) fn through_with(
    relay: Relay,
    first: &[u8],
    fault: Fault,
    size: usize,
    mut reply: impl FnMut(&Request, &str) -> (String, Fault),
) -> Received {
    let reply = |relay: &Relay, request: &Request| {
        let (rest, fault) = reply(request, relay.session().document().text());
        (rest.into_bytes(), fault)
    };
    let relayed = relayed(
        relay,
        first,
        fault,
        |body| body.chunks(size).collect(),
        reply,
    );
    let (outcome, transport_end) = relayed.end().unwrap();
    let (outcome, calls) = (outcome.clone(), relayed.calls());
    Received {
        body: whole_chars(relayed.body),
        outcome,
        transport_end,
        calls,
    }
}

/// Sends a whole body through a relay. `reply` answers each further call, or refuses it. Returns
/// the client's body, the requests for the rest, and the outcome.
pub(crate) fn through_body(
    mut relay: BodyRelay,
    first: &str,
    mut reply: impl FnMut(&BodyRelay, &Request) -> Option<String>,
) -> (String, Vec<Request>, Outcome) {
    relay.handle_body(NOW, first);
    let (mut body, mut asked) = (String::new(), Vec::new());
    while let Some(output) = relay.poll_output() {
        match output {
            Output::Call { request, .. } => {
                match reply(&relay, &request) {
                    Some(rest) => relay.handle_body(NOW, rest),
                    None => relay.handle_end(NOW, refusal()),
                }
                asked.push(request);
            }
            Output::Bytes(bytes) => body = String::from_utf8(bytes.to_vec()).unwrap(),
            Output::Done { outcome, .. } => return (body, asked, outcome),
            _ => {}
        }
    }
    panic!("the relay is not done")
}

pub(crate) fn refusal() -> CallEnd {
    CallEnd::Rejected {
        reason: "no quota".to_owned(),
        transient: false,
        retry_after: None,
    }
}

/// Returns the text of a body, without the half of a character that a broken stream may end with.
fn whole_chars(mut body: Vec<u8>) -> String {
    if let Err(error) = std::str::from_utf8(&body) {
        assert_eq!(
            error.error_len(),
            None,
            "only the end may be half a character"
        );
        body.truncate(error.valid_up_to());
    }
    String::from_utf8(body).unwrap()
}

pub(crate) fn events_of(dialect: Dialect, body: &str) -> Vec<Event> {
    match dialect {
        Dialect::Ollama => body
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| ("message".to_owned(), line.to_owned()))
            .collect(),
        _ => events(body.as_bytes(), body.len().max(1), true),
    }
}

pub(crate) fn read(dialect: Dialect, body: &str) -> Transcript {
    super::recorded::transcript(dialect, &events_of(dialect, body), true)
}

/// Checks the order of the events of an answer that has ended.
pub(crate) fn check_form(dialect: Dialect, body: &str) {
    let events: Vec<(String, Value)> = events_of(dialect, body)
        .into_iter()
        .map(|(name, data)| {
            (
                name,
                serde_json::from_str(&data).unwrap_or(Value::String(data)),
            )
        })
        .collect();
    match dialect {
        Dialect::Messages => check_messages(&events, body),
        Dialect::Responses => check_responses(&events, body),
        Dialect::Chat | Dialect::Completions => {
            assert_eq!(
                events.iter().filter(|(_, data)| data == "[DONE]").count(),
                1,
                "{body}"
            );
            assert_eq!(events.last().unwrap().1, "[DONE]", "{body}");
            let finishes = events
                .iter()
                .filter(|(_, data)| data["choices"][0]["finish_reason"].is_string());
            assert_eq!(finishes.count(), 1, "{body}");
            let ids: Vec<_> = events
                .iter()
                .map(|(_, data)| &data["id"])
                .filter(|id| id.is_string())
                .collect();
            assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{body}");
        }
        Dialect::Gemini => {
            let finishes = events
                .iter()
                .filter(|(_, data)| data["candidates"][0]["finishReason"].is_string());
            assert_eq!(finishes.count(), 1, "{body}");
        }
        Dialect::Ollama => {
            assert_eq!(
                events
                    .iter()
                    .filter(|(_, data)| data["done"] == true)
                    .count(),
                1,
                "{body}"
            );
            assert_eq!(events.last().unwrap().1["done"], true, "{body}");
        }
        Dialect::Cohere => {
            let ends: Vec<_> = events
                .iter()
                .filter(|(_, data)| data["type"] == "message-end")
                .collect();
            assert_eq!(ends.len(), 1, "{body}");
            let count = |suffix: &str| {
                events
                    .iter()
                    .filter(|(_, data)| {
                        data["type"].as_str().is_some_and(|kind| {
                            kind.ends_with(suffix)
                                && kind != "message-start"
                                && kind != "message-end"
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
    assert_eq!(
        (open, tail),
        (None, vec!["message_delta", "message_stop"]),
        "{body}"
    );
}

/// Numbers without a gap, every item and part begins and ends, and the last event repeats the
/// output.
fn check_responses(events: &[(String, Value)], body: &str) {
    for (at, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str(), "{body}");
        assert_eq!(data["sequence_number"].as_u64(), Some(at as u64), "{body}");
    }
    let count = |kind: &str| events.iter().filter(|(name, _)| name == kind).count();
    assert_eq!(
        count("response.output_item.added"),
        count("response.output_item.done"),
        "{body}"
    );
    assert_eq!(
        count("response.content_part.added"),
        count("response.content_part.done"),
        "{body}"
    );
    let (last, end) = events.last().unwrap();
    assert!(
        ["response.completed", "response.incomplete"].contains(&last.as_str()),
        "{body}"
    );
    let items = events
        .iter()
        .filter(|(name, _)| name == "response.output_item.done")
        .map(|(_, data)| &data["item"]);
    assert_eq!(
        end["response"]["output"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>(),
        items.collect::<Vec<_>>(),
        "{body}"
    );
    assert_eq!(
        count("response.completed") + count("response.incomplete"),
        1,
        "{body}"
    );
}

pub(super) const DOCUMENT: &str = r#"{"title": "Tides", "rows": [{"id": 1, "text": "high \"water\" é"}, {"id": 2, "text": "low 😀"}], "n": 12}"#;

pub(crate) fn relay(dialect: Dialect) -> Relay {
    let relay = Relay::new(Limits::default()).dialect(dialect);
    match dialect {
        // Completions have no turns to ask in.
        Dialect::Completions => {
            relay.strategy(ContinuationStrategy::default().prefill(Default::default()))
        }
        _ => relay,
    }
}

/// The wires and what they carry. Gemini's and Ollama's calls are objects, which are whole or
/// absent; Completions have none.
pub(crate) fn carried() -> impl Iterator<Item = (Dialect, SlotKind)> {
    let has_calls = |dialect| {
        !matches!(
            dialect,
            Dialect::Gemini | Dialect::Ollama | Dialect::Completions
        )
    };
    Dialect::ALL.into_iter().flat_map(move |dialect| {
        [(dialect, SlotKind::Text), (dialect, SlotKind::Arguments)]
            .into_iter()
            .filter(move |(_, kind)| *kind == SlotKind::Text || has_calls(dialect))
    })
}

/// Returns how a whole answer ends, in the words of Chat Completions.
pub(super) fn reason(kind: SlotKind) -> &'static str {
    if kind == SlotKind::Text {
        "stop"
    } else {
        "tool_calls"
    }
}

/// Returns what a model writes when it is asked for the rest of `document` after `delivered`: what
/// follows a prefill, or the anchor and the rest.
pub(super) fn rest_of(
    dialect: Dialect,
    document: &str,
    request: &Request,
    delivered: &str,
) -> String {
    match &request.turn {
        None => document.to_owned(),
        Some(_) if dialect == Dialect::Completions => document[delivered.len()..].to_owned(),
        Some(turn) => format!("{}{}", turn.anchor, &document[delivered.trim_end().len()..]),
    }
}

/// Returns a whole answer to a request for the rest of `DOCUMENT`, or for all of it again.
pub(super) fn reply(
    dialect: Dialect,
    kind: SlotKind,
    request: &Request,
    delivered: &str,
) -> String {
    let kind = if request.turn.is_none() {
        kind
    } else {
        SlotKind::Text
    };
    answer(
        dialect,
        kind,
        &rest_of(dialect, DOCUMENT, request, delivered),
        Some(reason(kind)),
    )
    .stream()
}

/// Returns the text of the only slot of a kind.
pub(crate) fn text_of(kind: SlotKind, read: &Transcript) -> String {
    match kind {
        SlotKind::Text => read.text.values().cloned().collect(),
        SlotKind::Arguments => read
            .tool_args
            .values()
            .map(|call| call.args.as_str())
            .collect(),
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
            let received = through(
                relay(dialect),
                first.as_bytes(),
                Fault::Clean,
                [1, 7, 64][at % 3],
                &rest,
            );
            let context = format!("{dialect} {kind:?} {at}");
            let read = read(dialect, &received.body);
            if received.outcome.reason() == Some(StopReason::EarlyEnd) {
                assert!(is_doubtful_end(DOCUMENT, at), "{context}");
                assert_eq!(text_of(kind, &read), DOCUMENT[..at], "{context}");
                continue;
            }
            assert_eq!(
                text_of(kind, &read),
                DOCUMENT,
                "{context}: {}",
                received.body
            );
            let ended = (received.outcome.status(), received.transport_end);
            assert_eq!(ended, (Status::Complete, TransportEnd::Closed), "{context}");
            check_form(dialect, &received.body);
            let word = answer(dialect, kind, "", Some(reason(kind))).stream();
            assert_eq!(
                read.finish,
                super::continued::read(dialect, &word).finish,
                "{context}"
            );
        }
    }
}

#[test]
fn answers_that_break_off_anywhere_become_whole() {
    let mut rows = Rows::of("answers that break off");
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let mut whole = 0;
        for at in (0..stream.len()).step_by(5) {
            for fault in [Fault::Dropped, Fault::Clean, Fault::Stall] {
                if !rows.runs_next() {
                    continue;
                }
                let received = through_with(
                    relay(dialect),
                    &stream.as_bytes()[..at],
                    fault,
                    1 << 16,
                    |request, delivered| (reply(dialect, kind, request, delivered), Fault::Clean),
                );
                let context = format!("{dialect} {kind:?} {at} {fault:?}");
                // Clients drop an event that breaks off.
                let end_of = |end: &str| received.body.rfind(end).map_or(0, |at| at + end.len());
                let body = match dialect {
                    Dialect::Ollama => &received.body[..end_of("\n")],
                    // The CR of a blank line ends it.
                    _ if received.body.ends_with("\r\n\r") => &received.body,
                    _ => &received.body[..end_of("\n\n").max(end_of("\r\n\r\n"))],
                };
                let read = read(dialect, body);
                match received.outcome.status() {
                    Status::Complete => {
                        whole += 1;
                        let all =
                            text_of(SlotKind::Text, &read) + &text_of(SlotKind::Arguments, &read);
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
        assert!(
            whole > rows.share(stream.len() / 5),
            "{dialect} {kind:?}: {whole} of {}",
            stream.len() * 3 / 5
        );
    }
}

/// A stream that falls silent after a further call has begun is ended as if it had been closed or
/// lost.
#[test]
fn silence_after_the_start_of_a_call_is_noticed() {
    let chunk = |delta: Value, reason: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({"id": "a", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        )
    };
    let call = |index: u32, arguments: &str| {
        let function = json!({"name": "save", "arguments": arguments});
        chunk(
            json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "function": function}]}),
            None,
        )
    };
    let cut = call(0, "{\"a\": [1") + &call(1, "");
    let rest = answer(
        Dialect::Chat,
        SlotKind::Text,
        "{\"a\": [1, 2]}",
        Some("stop"),
    )
    .stream();
    let limit = cut.clone() + &chunk(json!({}), Some("length"));
    for size in [1, 1 << 16] {
        let [ended, silent] = [Fault::Clean, Fault::Stall].map(|fault| {
            let received = through(relay(Dialect::Chat), limit.as_bytes(), fault, size, &rest);
            read(Dialect::Chat, &received.body)
        });
        assert_eq!(ended.tool_args["0.0"].args, "{\"a\": [1, 2]}");
        assert_eq!(silent, ended);
    }
    // Without an end, too: the call before is cut.
    let mut relay = relay(Dialect::Chat);
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, cut.into());
    assert_eq!(
        relay.poll_timeout(),
        Some(Limits::default().transport.idle_timeout)
    );
}

#[test]
fn nobody_waits_long_after_an_error_has_passed() {
    let text = answer(Dialect::Chat, SlotKind::Text, "{\"\": a [1,, 2,", None).stream();
    let first = text + "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let mut relay = relay(Dialect::Chat).repair(RepairLevel::Syntax);
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, first.into());
    assert!(!relay.session().document().pending().is_empty());
    // Nothing is owed, so the client is told nothing, and the upstream has the longest time there
    // is.
    assert_eq!(
        relay.poll_timeout(),
        Some(Limits::default().transport.first_byte_timeout)
    );
}

/// The events of a message with one block of text, up to the first stop of the block.
fn stopped_block(text: &str) -> String {
    let answer = answer(Dialect::Messages, SlotKind::Text, text, None).stream();
    answer + "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
}

#[test]
fn text_after_the_end_of_its_block_is_not_lost() {
    let more =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"2]"}}"#;
    let first = format!(
        "{}event: content_block_delta\ndata: {more}\n\n",
        stopped_block("[1, ")
    );
    for fault in [Fault::Clean, Fault::Dropped, Fault::Stall] {
        let received = through(
            relay(Dialect::Messages),
            first.as_bytes(),
            fault,
            1 << 16,
            "",
        );
        assert!(
            received.body.starts_with(&first),
            "{fault:?} {}",
            received.body
        );
    }
}

#[test]
fn the_end_of_a_block_that_is_repaired_is_not_lost() {
    let first = stopped_block("[1,, 2]");
    for fault in [Fault::Clean, Fault::Dropped, Fault::Stall] {
        let relay = relay(Dialect::Messages).repair(RepairLevel::Guess);
        let received = through(relay, first.as_bytes(), fault, 1 << 16, "");
        assert_eq!(
            text_of(SlotKind::Text, &read(Dialect::Messages, &received.body)),
            "[1, 2]",
            "{}",
            received.body
        );
        assert_eq!(
            received.body.matches("event: content_block_stop").count(),
            1,
            "{fault:?} {}",
            received.body
        );
        assert!(
            received.body.contains("message_stop"),
            "{fault:?} {}",
            received.body
        );
    }
}

#[test]
fn recorded_cuts_become_whole() {
    let mut covered = 0;
    for (folder, row) in corpus_rows("length_cut/index.jsonl") {
        let file = row["file"].as_str().unwrap();
        // Our own rows are texts without a stream.
        let Some(dialect) = Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == row["dialect"])
        else {
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
            let delivered = row["delivered"].as_str().unwrap();
            if received.outcome.reason() == Some(StopReason::EarlyEnd) {
                assert!(
                    is_doubtful_end(full, delivered.len()),
                    "{file} {size}: {:?}",
                    received.outcome
                );
                continue;
            }
            let (found, mut expected) = match row["payload"].as_str().unwrap() {
                // A tool that the server runs is never continued.
                "args" if before.tool_args[key].id.is_none() => {
                    assert_eq!(received.outcome.status(), Status::PassedThrough, "{file}");
                    continue;
                }
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
            assert_eq!(
                found, full,
                "{file} {size}: {} {:?}",
                received.body, received.outcome
            );
            // All else is as it came.
            expected.reasons.clone_from(&after.reasons);
            (expected.finish, expected.usage, expected.terminal) = (
                after.finish.clone(),
                after.usage.clone(),
                after.terminal.clone(),
            );
            assert_eq!(after, expected, "{file}");
            assert_eq!(received.outcome.status(), Status::Complete, "{file}");
        }
        covered += 1;
    }
    assert!(covered >= at_least(0, 100), "{covered}");
    println!("covered: {covered} recorded cuts");
}
