//! Gemini's streams without `alt=sse`: one JSON array, whose elements are the events.

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, Framing, SlotKind};
use restitch::session::{GiveUp, Status};
use serde_json::Value;

use super::continued::{Fault, Received, through};
use restitch_testing::answers::answer;
use restitch_testing::rows::Rows;

const DOCUMENT: &str = r#"{"title": "Tides, [low]", "rows": [{"id": 1, "text": "high \"water\" é"}, {"id": 2}], "n": 12}"#;

/// Returns an answer as an array. Without a reason the array stays open.
fn array(text: &str, reason: Option<&str>) -> String {
    let events = answer(Dialect::Gemini, SlotKind::Text, text, reason).stream();
    let elements: Vec<_> = events
        .split("\r\n\r\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .collect();
    let end = if reason.is_some() { "\n]\n" } else { "" };
    format!("[{}{end}", elements.join("\n,\r\n"))
}

fn relay() -> Relay {
    Relay::of(Dialect::Gemini, Framing::Array, Limits::default())
}

/// Returns the text and the finish reasons of an array.
fn read(body: &str) -> (String, Vec<String>) {
    let elements: Vec<Value> =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let candidates = || elements.iter().map(|element| &element["candidates"][0]);
    let text = candidates()
        .filter_map(|candidate| candidate["content"]["parts"][0]["text"].as_str())
        .collect();
    (
        text,
        candidates()
            .filter_map(|candidate| Some(candidate["finishReason"].as_str()?.to_owned()))
            .collect(),
    )
}

fn assert_whole(received: &Received, context: &str) {
    assert_eq!(
        read(&received.body),
        (DOCUMENT.to_owned(), vec!["STOP".to_owned()]),
        "{context}"
    );
    let ended = (received.outcome.status(), received.transport_end);
    assert_eq!(ended, (Status::Complete, TransportEnd::Closed), "{context}");
}

#[test]
fn a_healthy_array_passes_unchanged() {
    for body in [array(DOCUMENT, Some("stop")), array("Prose.", Some("stop"))] {
        for size in [1, 7, 1 << 16] {
            let received = through(relay(), body.as_bytes(), Fault::Clean, size, "");
            assert_eq!((received.body.as_str(), received.calls), (body.as_str(), 0));
            assert_eq!(received.outcome.status(), Status::PassedThrough);
        }
    }
}

#[test]
fn an_array_that_is_cut_by_the_limit_becomes_whole() {
    let rest = array(DOCUMENT, Some("stop"));
    // Leaves out cuts inside the last number: a rest with only closers does not show whether digits
    // are missing.
    for at in (1..DOCUMENT.len() - 1).filter(|&at| DOCUMENT.is_char_boundary(at)) {
        let first = array(&DOCUMENT[..at], Some("length"));
        let received = through(
            relay(),
            first.as_bytes(),
            Fault::Clean,
            [1, 7, 64][at % 3],
            &rest,
        );
        assert_whole(&received, &format!("{at}"));
    }
}

#[test]
fn an_array_that_breaks_off_becomes_whole() {
    let (body, rest) = (array(DOCUMENT, Some("stop")), array(DOCUMENT, Some("stop")));
    let mut whole = 0;
    let mut rows = Rows::of("arrays that break off");
    for at in 0..body.len() {
        for fault in [Fault::Dropped, Fault::Clean, Fault::Stall] {
            if !rows.runs_next() {
                continue;
            }
            let received = through(relay(), &body.as_bytes()[..at], fault, 64, &rest);
            match received.outcome.status() {
                Status::Complete => {
                    whole += 1;
                    assert_whole(&received, &format!("{at} {fault:?}"));
                }
                // The document was there, or nothing of it: then the answer ends as it came.
                status => assert_eq!(
                    status,
                    Status::PassedThrough,
                    "{at} {fault:?}: {}",
                    received.body
                ),
            }
        }
    }
    assert!(
        whole > rows.share(body.len() * 2),
        "{whole} of {}",
        body.len() * 3
    );
}

#[test]
fn an_array_ends_where_the_rest_is_not_had() {
    let first = array(&DOCUMENT[..40], Some("length"));
    for give_up in GiveUp::ALL {
        let limits = Limits::default().with_max_continuations(0);
        let relay = Relay::of(Dialect::Gemini, Framing::Array, limits).give_up(give_up);
        let received = through(relay, first.as_bytes(), Fault::Clean, 64, "");
        let elements: Vec<Value> = serde_json::from_str(&received.body).unwrap();
        let last = elements.last().unwrap();
        assert!(last["restitch"].is_object(), "{give_up}: {last}");
        assert_eq!(
            last["error"].is_object(),
            give_up == GiveUp::Error,
            "{last}"
        );
    }
}
