//! Cases that random sequences of operations have found.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Reattach, Relay, TransportEnd};
use restitch::repair::RepairLevel;
use restitch::session::{Outcome, Request, Status};
use serde_json::json;

use crate::wires::continued::Relayed;

use super::{NOW, event, finish, role, text, tool};

/// Takes the outputs. Returns what is asked for, and the status of an answer that has ended.
fn take(relay: &mut Relay, body: &mut Vec<u8>) -> (Option<Request>, Option<Status>) {
    let (asked, ended) = take_outcome(relay, body);
    (asked, ended.map(|(outcome, _)| outcome.status()))
}

fn take_outcome(
    relay: &mut Relay,
    body: &mut Vec<u8>,
) -> (Option<Request>, Option<(Outcome, TransportEnd)>) {
    let mut relayed = Relayed::default();
    relayed.take(relay);
    body.append(&mut relayed.body);
    let ended = relayed.end().map(|(outcome, end)| (outcome.clone(), end));
    (relayed.requests().pop(), ended)
}

/// A connection that is made again has the time of a call, whatever the one before has left of its
/// own; and where the answer would not be continued, a provider that says nothing does not let the
/// client wait forever.
#[test]
fn a_connection_that_is_made_again_has_a_time_of_its_own() {
    let limits = Limits::default().with_keep_alive_interval(Duration::ZERO);
    let most = limits.transport.first_byte_timeout;
    for (stream, is_owed) in [
        (role("a") + &text("a", "[1, 2"), true),
        (tool("a", "{\"a\": 1}", None), false),
    ] {
        let mut relay = Relay::new(limits.clone()).reattaching(Reattach::NextByte);
        let mut body = Vec::new();
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, stream.into());
        let lost_at = relay.poll_timeout().unwrap();
        relay.handle_timeout(lost_at);
        assert!(take(&mut relay, &mut body).0.unwrap().resume.is_some());
        assert_eq!(relay.poll_timeout(), Some(lost_at + most));
        relay.handle_timeout(lost_at + most);
        let (asked, ended) = take(&mut relay, &mut body);
        assert_eq!(
            (
                asked.is_some_and(|request| request.turn.is_some()),
                ended.is_some()
            ),
            (is_owed, !is_owed)
        );
    }
}

/// An answer that passes has a longest silence, too: of events, or of bytes that are no comments
/// where none are read. The client gets an error that names the limit, and not the half event
/// before it.
#[test]
fn what_passes_is_not_kept_alive_by_comments() {
    let most = Limits::default().transport.first_byte_timeout;
    let (call, half) = (tool("a", "{\"a\": 1}", None), "data: {\"half");
    let prose = text("a", &"Once upon ".repeat(8000));
    for (first, rest) in [
        (text("a", "Once upon"), ""),
        (prose, ""),
        (call.clone(), ""),
        (call, half),
    ] {
        let mut relay = Relay::new(Limits::default());
        let mut sent = Vec::new();
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, format!("{first}{rest}").into());
        let mut now = NOW;
        while now + Duration::from_secs(1) < NOW + most {
            now += Duration::from_secs(1);
            if rest.is_empty() {
                relay.handle_bytes(now, ": ping\n\n".into());
            }
            relay.handle_timeout(now);
            let (asked, ended) = take_outcome(&mut relay, &mut sent);
            assert!(asked.is_none() && ended.is_none(), "{first} at {now:?}");
        }
        assert_eq!(relay.poll_timeout(), Some(NOW + most), "{first}");
        relay.handle_timeout(NOW + most);
        let (_, ended) = take_outcome(&mut relay, &mut sent);
        let (outcome, end) = ended.unwrap();
        assert_eq!(
            (outcome.status(), end),
            (Status::PassedThrough, TransportEnd::Dropped)
        );
        let limit = outcome.tally().limit.clone().unwrap();
        assert_eq!(
            (limit.name.as_str(), limit.value.as_u64()),
            ("first_byte_timeout", Some(300))
        );
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.starts_with(&first) && !sent.contains("half"), "{sent}");
        let error = sent
            .trim_end()
            .rsplit("\n\n")
            .next()
            .unwrap()
            .strip_prefix("data: ")
            .unwrap();
        let error: serde_json::Value = serde_json::from_str(error).unwrap();
        assert_eq!(error["error"]["code"], "first_byte_timeout", "{error}");
    }
    // In the middle of an event that passes unread there is no room for an error.
    let mut relay = Relay::new(Limits::default());
    let mut sent = Vec::new();
    relay.handle_bytes(NOW, text("a", &"Once upon ".repeat(8000)).into());
    relay.handle_bytes(NOW, half.into());
    relay.handle_timeout(NOW + most);
    let (_, ended) = take_outcome(&mut relay, &mut sent);
    assert!(
        matches!(ended, Some((_, TransportEnd::Dropped))) && sent.ends_with(half.as_bytes()),
        "{ended:?}"
    );
}

/// Returns what a client gets of these bytes and of silence after them, and how the stream ends.
/// `now`: when it is silent for too long.
fn silent_after(relay: &mut Relay, stream: &str) -> (String, Outcome, TransportEnd, Duration) {
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, stream.to_owned().into());
    let due = relay.poll_timeout().unwrap();
    relay.handle_timeout(due);
    let mut sent = Vec::new();
    let (outcome, end) = take_outcome(relay, &mut sent).1.unwrap();
    (String::from_utf8(sent).unwrap(), outcome, end, due)
}

/// Nothing follows the end of an answer, and nothing of it is dropped. That its upstream did not
/// end the stream, the outcome says.
#[test]
fn no_error_follows_an_end_that_has_passed() {
    let call = tool("a", "{\"a\": 1}", None);
    let end = finish("a", "stop");
    for rest in ["data: [DONE]\n", "data: [DONE]\n\n", ""] {
        let mut relay = Relay::new(Limits::default());
        let stream = format!("{call}{end}{rest}");
        let (sent, outcome, transport_end, _) = silent_after(&mut relay, &stream);
        assert!(
            sent == stream,
            "{}",
            &sent[sent.len().saturating_sub(500)..]
        );
        let limit = outcome
            .tally()
            .limit
            .as_ref()
            .map(|limit| limit.name.as_str());
        assert_eq!(
            (limit, transport_end),
            (Some("first_byte_timeout"), TransportEnd::Dropped),
            "{rest}"
        );
    }
}

/// Of several choices one has not begun, so nothing is continued: what passes has the longest time,
/// whatever is open in it.
#[test]
fn an_answer_with_a_choice_that_has_not_begun_has_the_longest_time() {
    let mut relay = Relay::new(Limits::default()).request(Vec::new(), 2);
    let (sent, outcome, _, due) = silent_after(&mut relay, &text("a", "{\"a\": [1, 2"));
    assert_eq!(
        (due, outcome.status()),
        (
            NOW + Limits::default().transport.first_byte_timeout,
            Status::PassedThrough
        )
    );
    assert!(sent.contains("first_byte_timeout"), "{sent}");
}

/// An event of a stream that passes may take longer than any silence: audio and images come as one.
#[test]
fn a_slow_event_is_no_silence() {
    let mut relay = Relay::new(Limits::default());
    let mut sent = Vec::new();
    relay.handle_open(NOW);
    relay.handle_bytes(
        NOW,
        (tool("a", "{\"a\": 1}", None) + "data: {\"audio\": \"").into(),
    );
    let mut now = NOW;
    for _ in 0..400 {
        now += Duration::from_secs(1);
        relay.handle_bytes(now, "AAAA".into());
        relay.handle_timeout(now);
        assert!(take(&mut relay, &mut sent).1.is_none(), "{now:?}");
    }
}

/// A repair may hold back all text of a slot. If the answer has another slot, the original request
/// is not sent again: its answer would bring the other slot once more.
#[test]
fn text_without_anything_certain_is_not_asked_for_beside_other_slots() {
    for arguments in ["{\"a\": 1}", "``````", "\n```"] {
        let mut relay = Relay::new(Limits::default()).repair(RepairLevel::Guess);
        let mut body = Vec::new();
        relay.handle_open(NOW);
        relay.handle_bytes(
            NOW,
            (role("a") + &tool("a", arguments, None) + &text("a", "{")).into(),
        );
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert_eq!(
            take(&mut relay, &mut body),
            (None, Some(Status::PassedThrough)),
            "{arguments:?}"
        );
    }
}

/// An answer that breaks off inside the mark that it was asked to write adds no half of the mark to
/// the document.
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
        relay.handle_bytes(
            NOW,
            text("b", &format!("{}{}", turn.anchor, &mark[..length])).into(),
        );
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert!(take(&mut relay, &mut body).0.is_some());
        assert_eq!(relay.session().document().text(), delivered, "{length}");
    }
}

/// After an error that the client has got, a lost connection adds no end to the stream.
#[test]
fn nothing_follows_an_error_that_has_left() {
    let stream =
        role("a") + &text("a", "[1]") + &event(&json!({"error": {"message": "overloaded"}}));
    let mut relay = Relay::new(Limits::default());
    let mut body = Vec::new();
    relay.handle_open(NOW);
    relay.handle_bytes(NOW, stream.clone().into());
    relay.handle_transport_end(NOW, TransportEnd::Dropped);
    assert_eq!(
        take(&mut relay, &mut body),
        (None, Some(Status::PassedThrough))
    );
    assert_eq!(String::from_utf8(body).unwrap(), stream);
}

/// The original request was sent again after a chunk had left. An event with which its answer
/// breaks off does not leave with an end that it has not had.
#[test]
fn a_part_of_an_event_is_not_adopted() {
    let reasoning =
        event(&json!({"id": "a", "choices": [{"index": 0, "delta": {"reasoning_content": "so"}}]}));
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
