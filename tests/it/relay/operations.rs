//! Cases that random sequences of operations have found.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::relay::{Output, Reattach, Relay, TransportEnd};
use restitch::repair::RepairLevel;
use restitch::session::{Request, Status};
use serde_json::json;

use super::{NOW, event, role, text, tool};

/// Takes the outputs. Returns what is asked for, and the status of an answer that has ended.
fn take(relay: &mut Relay, body: &mut Vec<u8>) -> (Option<Request>, Option<Status>) {
    let (mut asked, mut ended) = (None, None);
    while let Some(output) = relay.poll_output() {
        match output {
            Output::Bytes(bytes) => body.extend_from_slice(&bytes),
            Output::Call { request, .. } => asked = Some(request),
            Output::Done { outcome, .. } => ended = Some(outcome.status()),
            _ => {}
        }
    }
    (asked, ended)
}

/// A connection that is made again has the time of a call, whatever the one before has left of its own; and where the answer
/// would not be continued, a provider that says nothing does not let the client wait forever.
#[test]
fn a_connection_that_is_made_again_has_a_time_of_its_own() {
    let limits = Limits::default().with_keep_alive_interval(Duration::ZERO);
    let most = limits.transport.first_byte_timeout;
    for (stream, is_owed) in [(role("a") + &text("a", "[1, 2"), true), (tool("a", "{\"a\": 1}", None), false)] {
        let mut relay = Relay::new(limits.clone()).reattaching(Reattach::NextByte);
        let mut body = Vec::new();
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, stream.into());
        assert_eq!(relay.poll_timeout().is_some(), is_owed);
        let lost_at = match relay.poll_timeout() {
            Some(due) => {
                relay.handle_timeout(due);
                due
            }
            None => {
                relay.handle_transport_end(NOW, TransportEnd::Dropped);
                NOW
            }
        };
        assert!(take(&mut relay, &mut body).0.unwrap().resume.is_some());
        assert_eq!(relay.poll_timeout(), Some(lost_at + most));
        relay.handle_timeout(lost_at + most);
        let (asked, ended) = take(&mut relay, &mut body);
        assert_eq!((asked.is_some_and(|request| request.turn.is_some()), ended.is_some()), (is_owed, !is_owed));
    }
}

/// A repair may hold back all text of a slot. If the answer has another slot, the original request is not sent again: its
/// answer would bring the other slot once more.
#[test]
fn text_without_anything_certain_is_not_asked_for_beside_other_slots() {
    for arguments in ["{\"a\": 1}", "``````", "\n```"] {
        let mut relay = Relay::new(Limits::default()).repair(RepairLevel::Guess);
        let mut body = Vec::new();
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, (role("a") + &tool("a", arguments, None) + &text("a", "{")).into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert_eq!(take(&mut relay, &mut body), (None, Some(Status::PassedThrough)), "{arguments:?}");
    }
}

/// An answer that breaks off inside the mark that it was asked to write adds no half of the mark to the document.
#[test]
fn a_half_of_a_mark_is_no_text() {
    let delivered = "{\"rows\": [{\"text\": \"h";
    let mut relay = Relay::new(Limits::default());
    let mut body = Vec::new();
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, (role("a") + &tool("a", delivered, None)).into());
    relay.handle_transport_end(NOW, TransportEnd::Dropped);
    let turn = take(&mut relay, &mut body).0.unwrap().turn.unwrap();
    let mark = turn.mark.expect("arguments are asked for with a mark");
    for length in 1..mark.len() {
        let mut relay = Relay::new(Limits::default());
        relay.handle_bytes(NOW, (role("a") + &tool("a", delivered, None)).into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        take(&mut relay, &mut body);
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, text("b", &format!("{}{}", turn.anchor, &mark[..length])).into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert!(take(&mut relay, &mut body).0.is_some());
        assert_eq!(relay.session().document().text(), delivered, "{length}");
    }
}

/// After an error that the client has got, a lost connection adds no end to the stream.
#[test]
fn nothing_follows_an_error_that_has_left() {
    let stream = role("a") + &text("a", "[1]") + &event(&json!({"error": {"message": "overloaded"}}));
    let mut relay = Relay::new(Limits::default());
    let mut body = Vec::new();
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, stream.clone().into());
    relay.handle_transport_end(NOW, TransportEnd::Dropped);
    assert_eq!(take(&mut relay, &mut body), (None, Some(Status::PassedThrough)));
    assert_eq!(String::from_utf8(body).unwrap(), stream);
}

/// The original request was sent again after a chunk had left. An event with which its answer breaks off does not leave with
/// an end that it has not had.
#[test]
fn a_part_of_an_event_is_not_adopted() {
    let reasoning = event(&json!({"id": "a", "choices": [{"index": 0, "delta": {"reasoning_content": "so"}}]}));
    let mut relay = Relay::new(Limits::default());
    let mut body = Vec::new();
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, reasoning.clone().into());
    relay.handle_transport_end(NOW, TransportEnd::Dropped);
    assert!(take(&mut relay, &mut body).0.unwrap().turn.is_none());
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, (text("b", "It rained.") + &reasoning[..40]).into());
    relay.handle_transport_end(NOW, TransportEnd::Closed);
    assert_eq!(take(&mut relay, &mut body).1, Some(Status::PassedThrough));
    let body = String::from_utf8(body).unwrap();
    assert_eq!(body.matches("reasoning_content").count(), 1, "{body}");
    assert!(body.contains("It rained."), "{body}");
}
