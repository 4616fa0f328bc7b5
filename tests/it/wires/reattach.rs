//! Lost connections to a provider that can send the rest of the same answer.

use std::time::Duration;

use restitch::Limits;
use restitch::internal::relay::{Reattach, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::session::{CallEnd, Request, Resume, Status};

use super::continued::{Relayed, check_form, read};
use restitch_testing::answers::answer;

const NOW: Duration = Duration::ZERO;
const DOCUMENT: &str = r#"{"rows": [1, 2, {"a": "b"}], "text": "high water"}"#;

/// A stored answer, event by event.
fn stored(kind: SlotKind) -> Vec<String> {
    let stream = answer(Dialect::Responses, kind, DOCUMENT, Some("stop")).stream();
    let stream = stream.replace("\"store\":false", "\"store\":true");
    stream.split_inclusive("\n\n").map(str::to_owned).collect()
}

/// Takes the outputs, and returns what is asked for and how the answer ended.
fn take(relay: &mut Relay, body: &mut String) -> (Option<Request>, Option<Status>) {
    let mut relayed = Relayed::default();
    relayed.take(relay);
    *body += std::str::from_utf8(&relayed.body).unwrap();
    let ended = relayed.end().map(|(outcome, _)| outcome.status());
    (relayed.requests().pop(), ended)
}

/// Returns the number of the last event that the request says was received.
fn after(request: &Request) -> usize {
    let Some(Resume::Stream(query)) = &request.resume else {
        panic!("a connection is made again: {request:?}");
    };
    query
        .strip_prefix("/resp_sim_1?stream=true&starting_after=")
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_lost_connection_is_made_again_at_every_byte() {
    for kind in [SlotKind::Text, SlotKind::Arguments] {
        let events = stored(kind);
        let stream = events.concat();
        let is_delta = |event: &&String| event.contains(".delta\n");
        // The document has 50 bytes, and each event brings seven.
        assert_eq!(
            (DOCUMENT.len(), events.iter().filter(is_delta).count()),
            (50, 8)
        );
        let end_of = |delta: &String| stream.find(delta.as_str()).unwrap() + delta.len();
        let first_whole = end_of(events.iter().find(is_delta).unwrap());
        let mut attached = 0;
        for at in first_whole..stream.rfind("event: ").unwrap() {
            let (mut relay, mut body) = (
                Relay::new(Limits::default())
                    .dialect(Dialect::Responses)
                    .reattaching(Reattach::NextEvent),
                String::new(),
            );
            relay.handle_bytes(NOW, stream.as_bytes()[..at].to_vec().into());
            relay.handle_transport_end(NOW, TransportEnd::Dropped);
            let (asked, ended) = take(&mut relay, &mut body);
            let request = asked
                .filter(|_| ended.is_none())
                .unwrap_or_else(|| panic!("{at}: {ended:?}"));
            relay.handle_open(NOW);
            relay.handle_bytes(NOW, events[after(&request) + 1..].concat().into());
            relay.handle_transport_end(NOW, TransportEnd::Closed);
            assert_eq!(
                take(&mut relay, &mut body),
                (None, Some(Status::PassedThrough)),
                "{at}"
            );
            assert_eq!(body, stream, "{at}");
            attached += 1;
        }
        // Seven deltas after the first one, each of more than 100 bytes, and the events that end
        // the text.
        assert!(attached > 7 * 100, "{attached}");
    }
}

#[test]
fn the_rest_is_asked_for_where_the_connection_can_not_be_made_again() {
    let events = stored(SlotKind::Text);
    let rejected = CallEnd::Rejected {
        reason: "404".to_owned(),
        transient: false,
        retry_after: None,
    };
    let rest = answer(Dialect::Responses, SlotKind::Text, DOCUMENT, Some("stop")).stream();
    for way in 0..3 {
        let (mut relay, mut body) = (
            Relay::new(Limits::default())
                .dialect(Dialect::Responses)
                .reattaching(Reattach::NextEvent),
            String::new(),
        );
        relay.handle_bytes(NOW, events[..7].concat().into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        let (asked, _) = take(&mut relay, &mut body);
        assert_eq!(after(&asked.unwrap()), 6);
        match way {
            0 => relay.handle_call_end(NOW, rejected.clone()),
            // Nothing comes.
            1 => relay.handle_transport_end(NOW, TransportEnd::Dropped),
            // All of the answer comes again.
            _ => relay.handle_bytes(NOW, events.concat().into()),
        }
        let (asked, ended) = take(&mut relay, &mut body);
        let request = asked.unwrap_or_else(|| panic!("{way}: {ended:?}"));
        assert!(
            request.resume.is_none() && request.turn.is_some(),
            "{way}: {request:?}"
        );
        relay.handle_open(NOW);
        relay.handle_bytes(NOW, rest.clone().into());
        relay.handle_transport_end(NOW, TransportEnd::Closed);
        assert_eq!(
            take(&mut relay, &mut body),
            (None, Some(Status::Complete)),
            "{way}"
        );
        assert_eq!(
            read(Dialect::Responses, &body).text["0.0"],
            DOCUMENT,
            "{way}"
        );
        check_form(Dialect::Responses, &body);
    }
}

#[test]
fn nothing_is_made_again_unless_the_answer_is_kept() {
    let events = stored(SlotKind::Text);
    for (stream, reattaches) in [
        (
            events[..7]
                .concat()
                .replace("\"store\":true", "\"store\":false"),
            true,
        ),
        (events[..7].concat().replace("resp_sim_1", "../resp"), true),
        (events[..7].concat(), false),
    ] {
        let relay = Relay::new(Limits::default()).dialect(Dialect::Responses);
        let (mut relay, mut body) = (
            if reattaches {
                relay.reattaching(Reattach::NextEvent)
            } else {
                relay
            },
            String::new(),
        );
        relay.handle_bytes(NOW, stream.into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert!(take(&mut relay, &mut body).0.unwrap().resume.is_none());
    }
}

/// A server that keeps the bytes of a stream goes on at any of them.
#[test]
fn a_kept_stream_goes_on_at_every_byte() {
    for kind in [SlotKind::Text, SlotKind::Arguments] {
        let stream = answer(Dialect::Chat, kind, DOCUMENT, Some("stop")).stream();
        let mut attached = 0;
        for at in 1..stream.len() {
            let (mut relay, mut body) = (
                Relay::new(Limits::default()).reattaching(Reattach::NextByte),
                String::new(),
            );
            relay.handle_bytes(NOW, stream.as_bytes()[..at].to_vec().into());
            relay.handle_transport_end(NOW, TransportEnd::Dropped);
            let (asked, ended) = take(&mut relay, &mut body);
            let Some(request) = asked else {
                assert!(
                    ended.is_some() && body.contains("finish_reason\":\"stop"),
                    "{at}: {body}"
                );
                continue;
            };
            assert_eq!(
                request.resume,
                Some(Resume::Stream(format!("?from={at}").into()))
            );
            attached += 1;
            relay.handle_open(NOW);
            relay.handle_bytes(NOW, stream.as_bytes()[at..].to_vec().into());
            relay.handle_transport_end(NOW, TransportEnd::Closed);
            assert_eq!(
                take(&mut relay, &mut body),
                (None, Some(Status::PassedThrough)),
                "{at}"
            );
            assert_eq!(body, stream, "{at}");
        }
        // Nothing is left to ask for once the finish has come: the last event is 14 bytes long.
        assert!(
            attached > stream.len() - 20,
            "{attached} of {}",
            stream.len()
        );
    }
}

/// Prose is attached to again, too. Where it can't be, it ends as it did.
#[test]
fn dropped_prose_is_attached_to_again() {
    let stream = answer(
        Dialect::Chat,
        SlotKind::Text,
        "It rained all day.",
        Some("stop"),
    )
    .stream();
    let at = stream.len() / 2;
    for comes in [true, false] {
        let (mut relay, mut body) = (
            Relay::new(Limits::default()).reattaching(Reattach::NextByte),
            String::new(),
        );
        relay.handle_bytes(NOW, stream.as_bytes()[..at].to_vec().into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        assert_eq!(
            take(&mut relay, &mut body).0.unwrap().resume,
            Some(Resume::Stream(format!("?from={at}").into()))
        );
        if comes {
            relay.handle_bytes(NOW, stream.as_bytes()[at..].to_vec().into());
            relay.handle_transport_end(NOW, TransportEnd::Closed);
        } else {
            let refused = CallEnd::Rejected {
                reason: "404".to_owned(),
                transient: false,
                retry_after: None,
            };
            relay.handle_call_end(NOW, refused);
        }
        assert_eq!(
            take(&mut relay, &mut body),
            (None, Some(Status::PassedThrough))
        );
        assert_eq!(body, if comes { &stream[..] } else { &stream[..at] });
    }
}
