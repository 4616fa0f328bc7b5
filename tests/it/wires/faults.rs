//! Faults inside of a stream, at its events: an error, an event that breaks off, and a very long
//! one.

use restitch::internal::relay::TransportEnd;
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{Request, Status};

use super::continued::*;
use restitch_testing::answers::{Answer, answer};

/// Divides a stream into its events, each with what ends it.
fn pieces(dialect: Dialect, stream: &str) -> Vec<&str> {
    let end = match dialect {
        Dialect::Ollama => "\n",
        Dialect::Gemini => "\r\n\r\n",
        _ => "\n\n",
    };
    stream.split_inclusive(end).collect()
}

/// Returns the errors that servers send inside of a stream.
pub(super) fn errors(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Chat | Dialect::Completions => &[
            "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
        ],
        Dialect::Messages => &[
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        ],
        Dialect::Responses => &[
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Overloaded\",\"param\":null}\n\n",
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"Overloaded\"},\"output\":[]}}\n\n",
        ],
        // The second one is not in an event.
        Dialect::Gemini => &[
            "data: {\"error\":{\"code\":503,\"message\":\"Overloaded\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n",
            "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"Overloaded\"\n  }\n}\n",
        ],
        Dialect::Ollama => &["{\"error\":\"Overloaded\"}\n"],
        Dialect::Cohere => &[
            "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"error\":\"Overloaded\",\"finish_reason\":\"ERROR\"}}\n\n",
        ],
        other => panic!("{other}"),
    }
}

/// Returns an event that breaks off in the middle of its data.
fn broken(event: &str) -> String {
    let (content, end) = event.split_at(event.trim_end().len());
    let data = content.find(['{', '[']).unwrap();
    let half = (data + content.len()) / 2;
    let half = (half..).find(|&at| content.is_char_boundary(at)).unwrap();
    format!("{}{end}", &content[..half])
}

/// Where the text of an answer begins and ends in its stream, counted in events.
struct Extent {
    /// The first event with text.
    first: usize,
    /// The event after the last one with text.
    end: usize,
}

impl Extent {
    fn of(answer: &Answer<'_>, pieces: &[&str]) -> Self {
        let head = Answer {
            parts: Vec::new(),
            reason: None,
            ..answer.clone()
        }
        .stream();
        let first = pieces.iter().scan(0, |sum, piece| {
            Some(std::mem::replace(sum, *sum + piece.len()))
        });
        let first = first.take_while(|&start| start < head.len()).count();
        Self {
            first,
            end: first + answer.parts.len(),
        }
    }
}

/// Checks an answer that is whole, and whose first bytes are those that came before the fault.
fn check_whole(
    dialect: Dialect,
    kind: SlotKind,
    document: &str,
    before: &str,
    received: &Received,
    context: &str,
) {
    assert_eq!(
        text_of(kind, &read(dialect, &received.body)),
        document,
        "{context}: {}",
        shown(received)
    );
    check_form(dialect, &received.body);
    assert!(
        received.body.starts_with(before),
        "{context}: {}",
        shown(received)
    );
    let ended = (received.outcome.status(), received.transport_end);
    assert_eq!(ended, (Status::Complete, TransportEnd::Closed), "{context}");
    assert!(
        !received.body.contains("Overloaded"),
        "{context}: {}",
        shown(received)
    );
}

/// Returns the beginning of a body.
fn shown(received: &Received) -> String {
    received.body.chars().take(2000).collect()
}

/// Plays a stream with a fault after `at` of its events.
fn check_first(
    dialect: Dialect,
    kind: SlotKind,
    at: usize,
    rest: &str,
    fault: Fault,
    context: &str,
) -> bool {
    let whole = answer(dialect, kind, DOCUMENT, Some(reason(kind)));
    let stream = whole.stream();
    let pieces = pieces(dialect, &stream);
    let extent = Extent::of(&whole, &pieces);
    let before = pieces[..at].concat();
    let first = before.clone() + rest;
    let received = through_with(
        relay(dialect),
        first.as_bytes(),
        fault,
        1 << 16,
        |request, delivered| (reply(dialect, kind, request, delivered), Fault::Clean),
    );
    let context = format!("{dialect} {kind:?} {at} {fault:?} {context}");
    if (extent.first + 1..extent.end).contains(&at) {
        assert_eq!(received.calls, 1, "{context}");
        check_whole(dialect, kind, DOCUMENT, &before, &received, &context);
        return true;
    }
    // Nothing of the document was there, or all of it: the fault passes as it came, or the whole
    // answer came again.
    let status = received.outcome.status();
    if received.calls > 0 {
        // Nothing had left of the first answer, so the second one passes in its place.
        assert!(
            [Status::Complete, Status::PassedThrough].contains(&status),
            "{context}: {}",
            shown(&received)
        );
        assert!(at <= extent.first, "{context}: {}", shown(&received));
        assert_eq!(
            text_of(kind, &read(dialect, &received.body)),
            DOCUMENT,
            "{context}: {}",
            shown(&received)
        );
        check_form(dialect, &received.body);
    } else {
        // The document was there, and the end of its stream was lost, whatever came in its place.
        let end_is_lost =
            status == Status::Complete && received.outcome.end().is_some() && at >= extent.end;
        assert!(
            end_is_lost || status == Status::PassedThrough,
            "{context}: {}",
            shown(&received)
        );
        let is_as_it_came = received.body.starts_with(&first);
        // Of a stream that is lost after the whole document, what is no event is lost.
        let is_ended = || received.body.starts_with(&before) && at >= extent.end;
        assert!(
            is_as_it_came || is_ended(),
            "{context}: {}",
            shown(&received)
        );
        if !is_as_it_came {
            assert_eq!(
                text_of(kind, &read(dialect, &received.body)),
                DOCUMENT,
                "{context}: {}",
                shown(&received)
            );
            check_form(dialect, &received.body);
        }
    }
    false
}

#[test]
fn errors_inside_of_a_stream_are_continued() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let mut whole = 0;
        for error in errors(dialect) {
            for at in 0..=pieces(dialect, &stream).len() {
                for fault in [Fault::Clean, Fault::Dropped] {
                    whole += usize::from(check_first(dialect, kind, at, error, fault, error));
                }
            }
        }
        // The document has 15 parts: 14 places between two of them.
        assert_eq!(whole, 14 * 2 * errors(dialect).len(), "{dialect} {kind:?}");
    }
}

#[test]
fn events_that_break_off_are_continued() {
    for (dialect, kind) in carried() {
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let pieces = pieces(dialect, &stream);
        let mut whole = 0;
        for (at, piece) in pieces.iter().enumerate() {
            for fault in [Fault::Clean, Fault::Dropped, Fault::Stall] {
                whole += usize::from(check_first(
                    dialect,
                    kind,
                    at,
                    &broken(piece),
                    fault,
                    "ends",
                ));
            }
            let goes_on = broken(piece) + &pieces[at + 1..].concat();
            whole += usize::from(check_first(
                dialect,
                kind,
                at,
                &goes_on,
                Fault::Clean,
                "goes on",
            ));
        }
        assert_eq!(whole, 14 * 4, "{dialect} {kind:?}");
    }
}

/// Data that is no event of the API: the last words of a broken stream, or a sign of life.
#[test]
fn data_that_is_not_json_passes_unless_the_stream_ends_with_it() {
    for (dialect, kind) in carried() {
        let noise = if dialect == Dialect::Ollama {
            "Overloaded\n"
        } else {
            "data: Overloaded\n\n"
        };
        let stream = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
        let pieces = pieces(dialect, &stream);
        let mut whole = 0;
        for at in 0..=pieces.len() {
            for fault in [Fault::Clean, Fault::Dropped] {
                whole += usize::from(check_first(dialect, kind, at, noise, fault, "ends"));
            }
            let goes_on = pieces[..at].concat() + noise + &pieces[at..].concat();
            let received = through_with(
                relay(dialect),
                goes_on.as_bytes(),
                Fault::Clean,
                1 << 16,
                |request, _| panic!("{dialect} {kind:?} {at}: {request:?}"),
            );
            assert_eq!(received.body, goes_on, "{dialect} {kind:?} {at}");
        }
        assert_eq!(whole, 14 * 2, "{dialect} {kind:?}");
    }
}

/// An answer that is cut by the limit and lacks an event before is not whole.
#[test]
fn an_answer_without_one_of_its_events_is_never_said_to_be_whole() {
    for (dialect, kind) in carried() {
        let cut = answer(dialect, kind, &DOCUMENT[..77], Some("length"));
        let stream = cut.stream();
        let pieces = pieces(dialect, &stream);
        for at in 0..pieces.len() {
            let first = pieces[..at].concat() + &broken(pieces[at]) + &pieces[at + 1..].concat();
            let received = through_with(
                relay(dialect),
                first.as_bytes(),
                Fault::Clean,
                1 << 16,
                |request, delivered| (reply(dialect, kind, request, delivered), Fault::Clean),
            );
            let context = format!("{dialect} {kind:?} {at}");
            if received.body != first {
                let text = text_of(kind, &read(dialect, &received.body));
                assert_eq!(text, DOCUMENT, "{context}: {}", shown(&received));
                check_form(dialect, &received.body);
            }
        }
    }
}

/// The second call has the faults.
#[test]
fn faults_of_a_continuation_are_continued() {
    for (dialect, kind) in carried() {
        let cut = &DOCUMENT[..40];
        let first = answer(dialect, kind, cut, Some("length")).stream();
        let text = if dialect == Dialect::Completions {
            &DOCUMENT[40..]
        } else {
            DOCUMENT
        };
        let rest = answer(dialect, SlotKind::Text, text, Some("stop")).stream();
        let pieces = pieces(dialect, &rest);
        for at in 0..pieces.len() {
            let before = pieces[..at].concat();
            let broken = broken(pieces[at]);
            let mut second = vec![
                ("dropped", before.clone(), Fault::Dropped),
                ("closed", before.clone(), Fault::Clean),
                ("stall", before.clone(), Fault::Stall),
                ("breaks off", before.clone() + &broken, Fault::Clean),
                (
                    "breaks off and drops",
                    before.clone() + &broken,
                    Fault::Dropped,
                ),
                (
                    "goes on",
                    before.clone() + &broken + &pieces[at + 1..].concat(),
                    Fault::Clean,
                ),
            ];
            second.extend(
                errors(dialect)
                    .iter()
                    .map(|error| (*error, before.clone() + error, Fault::Clean)),
            );
            for (name, second, fault) in second {
                let mut second = Some(second);
                let received = through_with(
                    relay(dialect),
                    first.as_bytes(),
                    Fault::Clean,
                    1 << 16,
                    |request, delivered| match second.take() {
                        Some(second) => (second, fault),
                        None => (reply(dialect, kind, request, delivered), Fault::Clean),
                    },
                );
                let context = format!("{dialect} {kind:?} {at} {name}");
                check_whole(dialect, kind, DOCUMENT, "", &received, &context);
            }
        }
    }
}

/// Returns a document with a string of one mebibyte, and where that string begins and ends.
fn long() -> (String, [usize; 2]) {
    let (head, tail) = (
        r#"{"title": "Tides", "text": ""#,
        r#"", "rows": [1, 2, {"a": "b"}], "n": 12}"#,
    );
    let mut text = String::new();
    let mut number = 0_u64;
    while text.len() < 1 << 20 {
        number += 1;
        text += &format!(
            "{:x} é \\\"{number}\\\" 水\\n",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
        );
    }
    let document = format!("{head}{text}{tail}");
    (document, [head.len(), head.len() + text.len()])
}

#[test]
fn an_event_of_one_mebibyte_is_read_once() {
    let (document, [start, end]) = long();
    for (dialect, kind) in carried() {
        let whole = Answer {
            dialect,
            kind,
            parts: vec![&document[..start], &document[start..end]],
            reason: None,
        };
        // The long event ends before the cut, or is itself cut.
        let stream = whole.stream();
        let pieces = pieces(dialect, &stream);
        let (last, before) = pieces.split_last().unwrap();
        let cases = [
            (
                "limit",
                Answer {
                    reason: Some("length"),
                    ..whole.clone()
                }
                .stream(),
                Fault::Clean,
            ),
            ("breaks off", before.concat() + &broken(last), Fault::Clean),
            (
                "dropped inside",
                broken(&stream).trim_end().to_owned(),
                Fault::Dropped,
            ),
        ];
        for (name, first, fault) in cases {
            // Reads of few bytes take long, and the framing is the same for all but Ollama's lines.
            let is_slow =
                name == "limit" && [Dialect::Messages, Dialect::Ollama].contains(&dialect);
            let sizes: &[usize] = match kind {
                SlotKind::Text if is_slow => &[7, 1 << 16],
                SlotKind::Arguments if is_slow => &[1, 7, 1 << 16],
                _ => &[1 << 16],
            };
            for &size in sizes {
                let received = through_with(
                    relay(dialect),
                    first.as_bytes(),
                    fault,
                    size,
                    |request, delivered| {
                        // The rest of the long text is one event, too.
                        let text = rest_of(dialect, &document, request, delivered);
                        let rest = Answer {
                            dialect,
                            kind: SlotKind::Text,
                            parts: vec![&text],
                            reason: Some("stop"),
                        };
                        (rest.stream(), Fault::Clean)
                    },
                );
                let context = format!("{dialect} {kind:?} {name} {size}");
                let found = text_of(kind, &read(dialect, &received.body));
                assert_eq!(
                    found.len(),
                    document.len(),
                    "{context} {:?}",
                    received.outcome
                );
                assert!(found == document, "{context}");
                check_form(dialect, &received.body);
                assert_eq!(
                    (received.outcome.status(), received.calls),
                    (Status::Complete, 1),
                    "{context}"
                );
            }
        }
    }
}

/// Python's servers write `NaN`, which is no JSON. Its event may hold text, so the answer passes as
/// it came.
#[test]
fn an_answer_with_an_event_that_is_no_json_is_not_continued() {
    let odd = r#"data: {"choices":[{"index":0,"delta":{"content":"2, "},"logprobs":NaN}]}"#
        .to_owned()
        + "\n\n";
    let begun = answer(Dialect::Chat, SlotKind::Text, "[1, ", None).stream();
    let end = answer(Dialect::Chat, SlotKind::Text, "3", Some("length")).stream();
    let first = begun.clone() + &odd + &end;
    let received = through(relay(Dialect::Chat), first.as_bytes(), Fault::Clean, 64, "");
    assert_eq!(
        (received.body, received.outcome.status()),
        (first, Status::PassedThrough)
    );

    // In a continuation it is a failure, and the rest is asked for again.
    let cut = answer(Dialect::Chat, SlotKind::Text, "[1, 2", Some("length")).stream();
    let rest = answer(Dialect::Chat, SlotKind::Text, "[1, 2, 3]", Some("stop")).stream();
    let mut replies = vec![rest, begun + &odd + &end];
    let reply = |_: &Request, _: &str| (replies.pop().unwrap(), Fault::Clean);
    let received = through_with(
        relay(Dialect::Chat),
        cut.as_bytes(),
        Fault::Clean,
        64,
        reply,
    );
    assert_eq!(
        text_of(SlotKind::Text, &read(Dialect::Chat, &received.body)),
        "[1, 2, 3]"
    );
    assert_eq!((received.outcome.tally().failures, received.calls), (1, 2));
}
