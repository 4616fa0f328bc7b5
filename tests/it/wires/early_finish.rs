//! Early ends of answers: a finish reason in every chunk, a finish reason in the middle, the end of
//! the stream in the middle.

use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::provider::Finish;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Status};
use serde_json::{Value, json};

use super::continued::{
    DOCUMENT, Fault, Received, Relayed, carried, check_form, events_of, read, reason, relay,
    relayed, rest_of, text_of, through_with,
};
use restitch_testing::answers::answer;
use restitch_testing::chat::{self, DONE};
use restitch_testing::{Rng, chunks, random_cuts};

/// The number of chunkings of each stream.
const ROUNDS: usize = 12;

/// Returns an event as an API writes it.
fn written(dialect: Dialect, name: &str, data: &str) -> String {
    match dialect {
        Dialect::Ollama => format!("{data}\n"),
        Dialect::Gemini => format!("data: {data}\r\n\r\n"),
        _ if name == "message" => format!("data: {data}\n\n"),
        _ => format!("event: {name}\ndata: {data}\n\n"),
    }
}

fn is_text(dialect: Dialect, name: &str, data: &str) -> bool {
    let stream = written(dialect, name, data);
    let read = read(dialect, &stream);
    let of_calls = read
        .tool_args
        .values()
        .map(|call| call.args.len())
        .sum::<usize>();
    of_calls + read.text.values().map(String::len).sum::<usize>() > 0
}

/// Returns the event that ends an answer for this reason.
fn end_event(dialect: Dialect, kind: SlotKind, reason: &str) -> String {
    let stream = answer(dialect, kind, "", Some(reason)).stream();
    let events = events_of(dialect, &stream);
    let ends = events.iter().find(|(name, data)| {
        !read(dialect, &written(dialect, name, data))
            .finish
            .is_empty()
    });
    let (name, data) = ends.expect("an answer has an end");
    written(dialect, name, data)
}

/// Adds a finish reason to every event with text. If the API has separate events for ends, adds one
/// after each.
fn finish_in_every_chunk(dialect: Dialect, kind: SlotKind, stream: &str, reason: &str) -> String {
    let mut out = String::new();
    for (name, data) in events_of(dialect, stream) {
        let mut value: Value = serde_json::from_str(&data).unwrap_or_default();
        if !is_text(dialect, &name, &data) {
            out += &written(dialect, &name, &data);
            continue;
        }
        match dialect {
            Dialect::Chat | Dialect::Completions => {
                value["choices"][0]["finish_reason"] = reason.into();
            }
            Dialect::Gemini => {
                value["candidates"][0]["finishReason"] = if reason == "length" {
                    "MAX_TOKENS"
                } else {
                    "STOP"
                }
                .into();
            }
            Dialect::Ollama => (value["done"], value["done_reason"]) = (true.into(), reason.into()),
            _ => {
                out += &(written(dialect, &name, &data) + &end_event(dialect, kind, reason));
                continue;
            }
        }
        out += &written(dialect, &name, &value.to_string());
    }
    out
}

/// Checks that a stream passes unchanged and no rest is asked for, in many chunkings.
fn check_passes(dialect: Dialect, stream: &str, context: &str) {
    let mut rng = Rng::new(29);
    for round in 0..ROUNDS {
        let cuts = match round {
            0 => Vec::new(),
            1 => (1..stream.len()).collect(),
            _ => random_cuts(stream.len(), &mut rng),
        };
        let relay = relay(dialect).give_up(GiveUp::Leave);
        let split = |body: &'_ [u8]| -> Vec<usize> {
            cuts.iter()
                .copied()
                .filter(|&cut| cut < body.len())
                .collect()
        };
        let played = relayed(
            relay,
            stream.as_bytes(),
            Fault::Clean,
            |body| chunks(body, &split(body)),
            |relay, request| {
                panic!(
                    "{context}: {request:?} {:?}",
                    relay.session().document().text()
                )
            },
        );
        let body = String::from_utf8_lossy(&played.body).into_owned();
        assert_eq!(body, stream, "{context} {round}");
        let (outcome, end) = played.end().unwrap();
        assert_eq!(
            (outcome.status(), end),
            (Status::PassedThrough, TransportEnd::Closed),
            "{context} {round}"
        );
    }
}

#[test]
fn a_finish_in_every_chunk_is_not_believed() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        for early in ["stop", "length", "tool_calls"] {
            let every = finish_in_every_chunk(dialect, kind, &stream, early);
            assert_ne!(every, stream);
            check_passes(dialect, &every, &format!("{dialect} {kind:?} {early}"));
        }
    }
}

#[test]
fn an_end_in_the_middle_is_not_believed() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let events: Vec<_> = events_of(dialect, &stream)
            .iter()
            .map(|(name, data)| written(dialect, name, data))
            .collect();
        let terminal = match dialect {
            Dialect::Chat | Dialect::Completions | Dialect::Cohere => "data: [DONE]\n\n".to_owned(),
            Dialect::Messages => written(dialect, "message_stop", "{\"type\":\"message_stop\"}"),
            _ => String::new(),
        };
        let texts = events_of(dialect, &stream)
            .iter()
            .filter(|(name, data)| is_text(dialect, name, data))
            .count();
        let first = events_of(dialect, &stream)
            .iter()
            .position(|(name, data)| is_text(dialect, name, data))
            .unwrap();
        for at in first + 1..first + texts {
            let finish = end_event(dialect, kind, "length");
            for end in [finish.clone(), terminal.clone(), finish + &terminal] {
                let stream = events[..at].concat() + &end + &events[at..].concat();
                check_passes(dialect, &stream, &format!("{dialect} {kind:?} {at} {end}"));
            }
        }
    }
}

/// Returns the answer of a model that continues the document.
fn rest(dialect: Dialect, relay: &Relay, request: &restitch::session::Request) -> String {
    let text = rest_of(
        dialect,
        DOCUMENT,
        request,
        relay.session().document().text(),
    );
    answer(dialect, SlotKind::Text, &text, Some("stop")).stream()
}

/// Of several ends the last one counts.
#[test]
fn an_answer_with_early_ends_is_continued_where_it_is_cut() {
    for (dialect, kind) in carried() {
        for cut in [40, 77] {
            for last in ["length", reason(kind)] {
                for fault in [Fault::Clean, Fault::Dropped, Fault::Stall] {
                    let stream = answer(dialect, kind, &DOCUMENT[..cut], Some(last)).stream();
                    let every = finish_in_every_chunk(dialect, kind, &stream, "stop");
                    let mut bodies = Vec::new();
                    for size in [1, 13, 1 << 16] {
                        let played = relayed(
                            relay(dialect),
                            every.as_bytes(),
                            fault,
                            |body| body.chunks(size).collect(),
                            |relay, request| {
                                (rest(dialect, relay, request).into_bytes(), Fault::Clean)
                            },
                        );
                        let body = String::from_utf8(played.body.clone()).unwrap();
                        let context =
                            format!("{dialect} {kind:?} {cut} {last} {fault:?} {size}\n{body}");
                        assert_eq!(
                            (played.calls(), played.end().unwrap().0.status()),
                            (1, Status::Complete),
                            "{context}"
                        );
                        assert_eq!(text_of(kind, &read(dialect, &body)), DOCUMENT, "{context}");
                        let like = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
                        assert_eq!(
                            read(dialect, &body).finish,
                            read(dialect, &like).finish,
                            "{context}"
                        );
                        bodies.push(body);
                    }
                    assert!(
                        bodies.iter().all(|body| *body == bodies[0]),
                        "{dialect} {kind:?}: chunking is invisible"
                    );
                }
            }
        }
    }
}

/// All text of a call for the rest is joined, whatever ends it has in between.
#[test]
fn early_ends_of_a_continuation_are_not_believed() {
    for (dialect, kind) in carried() {
        let first = answer(dialect, kind, &DOCUMENT[..40], Some("length")).stream();
        let terminal = if matches!(dialect, Dialect::Chat | Dialect::Completions) {
            "data: [DONE]\n\n"
        } else {
            ""
        };
        for early in ["stop", "length"] {
            for size in [1, 13, 1 << 16] {
                let played = relayed(
                    relay(dialect),
                    first.as_bytes(),
                    Fault::Clean,
                    |body| body.chunks(size).collect(),
                    |relay, request| {
                        let stream = rest(dialect, relay, request);
                        let every = finish_in_every_chunk(dialect, SlotKind::Text, &stream, early);
                        let every = match terminal.is_empty() {
                            true => every,
                            // After every event except the last.
                            false => every
                                .replace("\n\n", &format!("\n\n{terminal}"))
                                .replace("[DONE]\n\ndata: [DONE]\n\n", "[DONE]\n\n"),
                        };
                        (every.into_bytes(), Fault::Clean)
                    },
                );
                let body = String::from_utf8(played.body.clone()).unwrap();
                let context = format!("{dialect} {kind:?} {early} {size}\n{body}");
                assert_eq!(
                    (played.calls(), played.end().unwrap().0.status()),
                    (1, Status::Complete),
                    "{context}"
                );
                assert_eq!(text_of(kind, &read(dialect, &body)), DOCUMENT, "{context}");
                check_form(dialect, &body);
            }
        }
    }
}

fn drained(relay: &mut Relay) -> (String, bool) {
    let mut relayed = Relayed::default();
    let is_over = relayed.take(relay);
    (String::from_utf8(relayed.body).unwrap(), is_over)
}

fn chat(text: &str, reason: Option<&str>) -> String {
    chat::chunk("a", 0, &json!({"content": text}), reason)
}

/// The longest wait for the confirmation of an end.
const LONGEST: Duration = Duration::from_millis(500);

#[test]
fn text_beside_a_finish_waits_for_the_next_event_or_a_short_time() {
    let now = Duration::from_secs(3);
    let mut relay = relay(Dialect::Chat);
    relay.handle_open(now);
    relay.handle_bytes(now, chat("[1, ", None).into());
    assert_eq!(drained(&mut relay).0, chat("[1, ", None));
    relay.handle_bytes(now, chat("2, ", Some("length")).into());
    assert_eq!(drained(&mut relay).0, "");
    // No event follows: the text is sent without the finish.
    let due = relay.poll_timeout().unwrap();
    assert_eq!(due, now + LONGEST);
    relay.handle_timeout(due);
    let (body, is_over) = drained(&mut relay);
    assert_eq!(
        (read(Dialect::Chat, &body).text["0"].as_str(), is_over),
        ("2, ", false),
        "{body}"
    );
    assert!(read(Dialect::Chat, &body).finish.is_empty(), "{body}");
    // More text follows: from then on such events are forwarded without waiting.
    for text in ["3, ", "4, "] {
        relay.handle_bytes(due, chat(text, Some("length")).into());
        assert_eq!(drained(&mut relay).0, chat(text, Some("length")));
    }
    // Another finish reason waits again.
    relay.handle_bytes(due, chat("5, ", Some("stop")).into());
    assert_eq!(drained(&mut relay).0, "");
    relay.handle_bytes(due, chat("6, ", None).into());
    assert_eq!(
        drained(&mut relay).0,
        chat("5, ", Some("stop")) + &chat("6, ", None)
    );
    // The last event ends the document, so it does not wait.
    relay.handle_bytes(due, chat("7]", Some("stop")).into());
    assert_eq!(drained(&mut relay).0, chat("7]", Some("stop")));
    relay.handle_bytes(due, DONE.into());
    assert_eq!(drained(&mut relay).0, DONE);
}

/// A server may keep the connection open after the end of the stream.
#[test]
fn the_end_of_a_stream_is_believed_after_a_short_time() {
    for finish in [Some("length"), Some("stop"), None] {
        let now = Duration::from_secs(3);
        let mut relay = relay(Dialect::Chat);
        relay.handle_open(now);
        let end = finish
            .map(|reason| chat("", Some(reason)))
            .unwrap_or_default()
            + DONE;
        relay.handle_bytes(now, Bytes::from(chat("[1, ", None) + &end));
        assert_eq!(drained(&mut relay), (chat("[1, ", None), false));
        let due = relay.poll_timeout().unwrap();
        assert_eq!(due, now + LONGEST);
        relay.handle_timeout(due);
        assert!(drained(&mut relay).1, "the rest is asked for");
        // A call for the rest waits, too.
        relay.handle_open(due);
        relay.handle_bytes(due, Bytes::from(chat("[1, 2, ", None) + &end));
        assert!(!drained(&mut relay).1);
        relay.handle_timeout(due + LONGEST);
        assert!(drained(&mut relay).1, "the next rest is asked for");
        // A whole document does not wait.
        relay.handle_open(due + LONGEST);
        relay.handle_bytes(due + LONGEST, Bytes::from(chat("[1, 2, 3]", None) + &end));
        assert!(drained(&mut relay).1);
    }
}

/// The withheld bytes are bounded.
#[test]
fn a_full_buffer_confirms_a_withheld_end() {
    let mut relay = Relay::new(Limits::default().with_max_event_bytes(200)).give_up(GiveUp::Leave);
    relay.handle_bytes(
        Duration::ZERO,
        Bytes::from(chat("[1, ", None) + &chat("", Some("length"))),
    );
    let mut is_over = false;
    for _ in 0..100 {
        relay.handle_bytes(Duration::ZERO, ": ping\n\n".into());
        is_over |= drained(&mut relay).1;
    }
    assert!(is_over);
}

/// Sends a stream through a relay in pieces of `size` bytes. Fails if the relay asks for a rest.
fn unasked(relay: Relay, stream: &str, size: usize) -> Received {
    through_with(
        relay,
        stream.as_bytes(),
        Fault::Clean,
        size,
        |request, _| panic!("{request:?}"),
    )
}

/// A withheld event with repairs is forwarded with its changes.
#[test]
fn a_repaired_answer_continues_after_an_early_end() {
    let stream = chat("{'a': ", Some("stop"))
        + &chat("[1,, ", Some("stop"))
        + &chat("2]}", Some("stop"))
        + DONE;
    for size in [1, 13, 1 << 16] {
        let relay = relay(Dialect::Chat).repair(RepairLevel::Syntax);
        let Received { body, outcome, .. } = unasked(relay, &stream, size);
        let read = read(Dialect::Chat, &body);
        assert_eq!(
            (read.text["0"].as_str(), &read.reasons["0"]),
            ("{\"a\": [1, 2]}", &Finish::Stop),
            "{body}"
        );
        assert_eq!(outcome.status(), Status::Complete);
    }
}

/// Two choices with a finish in each of their chunks: both are healthy.
#[test]
fn choices_continue_after_early_ends() {
    let chunk = |choice: u32, text: &str, reason: Option<&str>| {
        chat::chunk("a", choice, &json!({"content": text}), reason)
    };
    let both = |text: &str, reason: Option<&str>| chunk(0, text, reason) + &chunk(1, text, reason);
    let every: String = ["[1, ", "2, ", "3]"]
        .iter()
        .map(|text| both(text, Some("stop")))
        .collect();
    let later: String = ["2, ", "3]"]
        .iter()
        .map(|text| both(text, Some("stop")))
        .collect();
    let later = both("[1, ", None) + &later;
    for size in [1, 13, 1 << 16] {
        for stream in [&every, &later] {
            let stream = stream.clone() + DONE;
            let relay = relay(Dialect::Chat).request(Vec::new(), 2);
            let Received { body, .. } = unasked(relay, &stream, size);
            let read = read(Dialect::Chat, &body);
            for choice in ["0", "1"] {
                assert_eq!(
                    (read.text[choice].as_str(), &read.reasons[choice]),
                    ("[1, 2, 3]", &Finish::Stop),
                    "{body}"
                );
            }
            // An end that more text has refuted is removed: each choice ends once.
            assert_eq!(
                body.matches("\"finish_reason\":\"stop\"").count(),
                2,
                "{body}"
            );
        }
    }
}
