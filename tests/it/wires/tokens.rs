//! Answers that Gemini continues from its own tokens.

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Reattach, Relay, TransportEnd};
use restitch::internal::wire::{Base, Dialect, Framing};
use restitch::session::{HopEnd, Request, Resume, Status};
use serde_json::{Value, json};

use super::continued::{Fault, Received, Relayed, events_of, refusal, through_body, through_with};

const DOCUMENT: &[&str] = &[
    "{\"rows\": [1, ",
    "22",
    "3, {\"a\": \"b\\",
    "u00e9 \\\"c",
    "\"}, 1, 1, ",
    "1, 1, 1",
    "], \"text\": \"high ",
    "water\"}",
];
const PROSE: &[&str] = &["It ", "rained ", "all ", "day, ", "and ", "all ", "day."];

/// A provider that ends each hop after `length` pieces of its answer, and sends a token after every
/// `every` pieces.
#[derive(Clone, Copy)]
struct Provider {
    pieces: &'static [&'static str],
    length: usize,
    every: usize,
    framing: Framing,
}

impl Provider {
    fn of(pieces: &'static [&'static str], length: usize, every: usize) -> Self {
        Self {
            pieces,
            length,
            every,
            framing: Framing::Events,
        }
    }

    /// Returns the responses of a hop that begins at a piece.
    fn responses(self, from: usize) -> Vec<Value> {
        let to = self.pieces.len().min(from.saturating_add(self.length));
        let response = |at: usize| {
            let mut candidate = json!({"content": {"parts": [{"text": self.pieces[at]}], "role": "model"}, "index": 0});
            let next = at + 1;
            if next == to && to == self.pieces.len() {
                candidate["finishReason"] = json!("STOP");
            } else if next == to {
                candidate["finishReason"] = json!("CONTINUATION");
            }
            if next < self.pieces.len() && (next == to || next.is_multiple_of(self.every)) {
                candidate["continuationToken"] = json!(format!("t{next}"));
            }
            let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": next - from});
            json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": format!("r{from}")})
        };
        (from..to).map(response).collect()
    }

    /// Returns the stream of a hop in its events.
    fn events(self, from: usize) -> Vec<String> {
        let responses = self.responses(from);
        let last = responses.len() - 1;
        let event = |(at, response): (usize, Value)| match self.framing {
            Framing::Array => {
                let (open, close) = (
                    if at == 0 { "[" } else { ",\r\n" },
                    if at == last { "\r\n]" } else { "" },
                );
                format!("{open}{response}{close}")
            }
            _ => format!("data: {response}\r\n\r\n"),
        };
        responses.into_iter().enumerate().map(event).collect()
    }

    fn relay(self) -> Relay {
        Relay::of(Dialect::Gemini, self.framing, Limits::default()).reattaching(Reattach::NextEvent)
    }

    fn text(self) -> String {
        self.pieces.concat()
    }
}

/// Returns the piece at which a token continues.
fn piece_of(request: &Request) -> usize {
    let Some(Resume::Token { token, .. }) = &request.resume else {
        panic!("a token continues the answer: {request:?}");
    };
    assert_eq!(request.turn, None);
    let token: String = serde_json::from_str(token).unwrap();
    token.strip_prefix('t').unwrap().parse().unwrap()
}

/// Returns the responses that the client gets.
fn responses(framing: Framing, body: &str) -> Vec<Value> {
    match framing {
        Framing::Array => {
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
        }
        _ => events_of(Dialect::Gemini, body)
            .iter()
            .map(|(_, data)| serde_json::from_str(data).unwrap())
            .collect(),
    }
}

fn text_of(responses: &[Value]) -> String {
    let parts = responses
        .iter()
        .flat_map(|response| response["candidates"][0]["content"]["parts"].as_array());
    parts
        .flatten()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

fn finishes(responses: &[Value]) -> Vec<&str> {
    responses
        .iter()
        .filter_map(|response| response["candidates"][0]["finishReason"].as_str())
        .collect()
}

/// Checks that the client has got the whole answer as one.
fn check_whole(provider: Provider, received: &Received, calls: usize, context: &str) {
    let got = responses(provider.framing, &received.body);
    assert_eq!(text_of(&got), provider.text(), "{context}");
    assert_eq!(finishes(&got), ["STOP"], "{context}");
    assert_eq!(received.calls, calls, "{context}");
    assert_eq!(received.transport_end, TransportEnd::Closed, "{context}");
    assert!(
        got.iter().all(|response| response["responseId"] == "r0"),
        "{context}: {got:?}"
    );
    assert_eq!(
        received.outcome.status(),
        Status::PassedThrough,
        "{context}"
    );
}

#[test]
fn an_answer_in_several_hops_is_one_stream() {
    for pieces in [DOCUMENT, PROSE] {
        for framing in [Framing::Events, Framing::Array] {
            for length in 1..pieces.len() {
                for size in [1, 2, 7, 64, 1 << 16] {
                    let provider = Provider {
                        framing,
                        ..Provider::of(pieces, length, usize::MAX)
                    };
                    let context = format!("{framing:?} {length} {size} {}", pieces[0]);
                    let mut at = 0;
                    let received = through_with(
                        provider.relay(),
                        provider.events(0).concat().as_bytes(),
                        Fault::Clean,
                        size,
                        |request, _| {
                            at += length;
                            assert_eq!(piece_of(request), at, "{context}");
                            (provider.events(at).concat(), Fault::Clean)
                        },
                    );
                    let hops = pieces.len().div_ceil(length);
                    check_whole(provider, &received, hops - 1, &context);
                    let got = responses(framing, &received.body);
                    let usage = &got
                        .iter()
                        .rfind(|response| !response["usageMetadata"].is_null())
                        .unwrap()["usageMetadata"];
                    assert_eq!(usage["promptTokenCount"], 10 * hops, "{context}");
                    assert_eq!(usage["candidatesTokenCount"], pieces.len(), "{context}");
                }
            }
        }
    }
}

#[test]
fn a_lost_connection_continues_from_the_last_token_at_every_byte() {
    for pieces in [DOCUMENT, PROSE] {
        for every in [1, 2, 3] {
            for framing in [Framing::Events, Framing::Array] {
                let provider = Provider {
                    framing,
                    ..Provider::of(pieces, usize::MAX, every)
                };
                let events = provider.events(0);
                let stream = events.concat();
                let (known, end) = (
                    events[..every].concat().len(),
                    stream.len() - events.last().unwrap().len(),
                );
                for at in known..end {
                    let context = format!("{framing:?} {every} {at} {}", pieces[0]);
                    let received = through_with(
                        provider.relay(),
                        &stream.as_bytes()[..at],
                        Fault::Dropped,
                        5,
                        |request, _| {
                            let from = piece_of(request);
                            let after = events.iter().take(from).map(String::len).sum::<usize>();
                            // An event is whole at the CR of its blank line.
                            assert!(after <= at + 1 && from >= 1, "{context}");
                            (provider.events(from).concat(), Fault::Clean)
                        },
                    );
                    check_whole(provider, &received, 1, &context);
                }
            }
        }
    }
}

/// Repeated text may have other chunks.
#[test]
fn repeated_text_is_skipped_in_any_chunks() {
    let provider = Provider::of(DOCUMENT, usize::MAX, usize::MAX);
    let text = provider.text();
    let event = |text: &str, end: Value| {
        let mut candidate = json!({"content": {"parts": [{"text": text}]}, "index": 0});
        candidate
            .as_object_mut()
            .unwrap()
            .extend(end.as_object().unwrap().clone());
        format!(
            "data: {}\r\n\r\n",
            json!({"candidates": [candidate], "responseId": "r0"})
        )
    };
    let token = event("", json!({"continuationToken": "t0"}));
    for size in [1, 2, 3, 5, 8, 13, 100] {
        for sent in 0..text.len() {
            let chunks = text.as_bytes().chunks(size);
            let again: String = chunks
                .map(|chunk| event(std::str::from_utf8(chunk).unwrap(), json!({})))
                .collect();
            let again = again + &event("", json!({"finishReason": "STOP"}));
            let received = through_with(
                provider.relay(),
                (token.clone() + &event(&text[..sent], json!({}))).as_bytes(),
                Fault::Dropped,
                64,
                |request, _| {
                    assert_eq!(piece_of(request), 0);
                    (again.clone(), Fault::Clean)
                },
            );
            check_whole(provider, &received, 1, &format!("{size} {sent}"));
        }
    }
}

#[test]
fn three_hops_without_progress_end_the_answer() {
    for pieces in [DOCUMENT, PROSE] {
        for again in [0, 1] {
            let provider = Provider::of(pieces, usize::MAX, 2);
            let events = provider.events(0);
            let (mut hops, mut words) = (0, 0);
            let received = through_with(
                provider.relay(),
                events[..3].concat().as_bytes(),
                Fault::Dropped,
                64,
                |request, delivered| {
                    if request.resume.is_some() {
                        hops += 1;
                        assert_eq!(piece_of(request), 2);
                        return (events[2..2 + again].concat(), Fault::Dropped);
                    }
                    words += 1;
                    let rest = provider.text().split_off(delivered.len());
                    let anchor = &request.turn.as_ref().unwrap().anchor;
                    let answer = json!({"candidates": [{"content": {"parts": [{"text": format!("{anchor}{rest}")}]}, "finishReason": "STOP"}]});
                    (format!("data: {answer}\r\n\r\n"), Fault::Clean)
                },
            );
            let got = responses(Framing::Events, &received.body);
            // The call for prose in words is not made by default.
            let is_document = pieces == DOCUMENT;
            assert_eq!((hops, words), (3, usize::from(is_document)), "{again}");
            match is_document {
                true => {
                    assert_eq!(text_of(&got), provider.text(), "{again}");
                    assert_eq!(received.outcome.status(), Status::Complete);
                }
                false => {
                    assert_eq!(text_of(&got), pieces[..3].concat(), "{again}");
                    assert_eq!(received.transport_end, TransportEnd::Dropped);
                    assert_eq!(finishes(&got), [""; 0]);
                }
            }
        }
    }
}

#[test]
fn a_difference_after_a_lost_connection_is_a_failure() {
    let provider = Provider::of(DOCUMENT, usize::MAX, 2);
    let events = provider.events(0);
    for (number, other) in [
        // Another text, its end before all text was repeated, and other content.
        events[2].replace("3, ", "4, ") + &events[3..].concat(),
        events[2].replace("3, {\\\"a\\\": \\\"b\\\\", "3, {\\\"A") + &events[3..].concat(),
        events[2].replace("\"index\":0", "\"finishReason\":\"STOP\",\"index\":0").replace("3, ", ""),
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]}}]}\r\n\r\n".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut hops, mut words) = (0, 0);
        let received = through_with(
            provider.relay(),
            events[..4].concat().replace("t4", "").as_bytes(),
            Fault::Dropped,
            3,
            |request, delivered| {
                assert_eq!(delivered, DOCUMENT[..4].concat(), "{number}");
                if request.resume.is_some() {
                    hops += 1;
                    return (other.clone(), Fault::Clean);
                }
                words += 1;
                let anchor = &request.turn.as_ref().unwrap().anchor;
                let rest = DOCUMENT[4..].concat();
                let answer = json!({"candidates": [{"content": {"parts": [{"text": format!("{anchor}{rest}")}]}, "finishReason": "STOP"}]});
                (format!("data: {answer}\r\n\r\n"), Fault::Clean)
            },
        );
        assert_eq!((hops, words), (1, 1), "{number}");
        assert_eq!(text_of(&responses(Framing::Events, &received.body)), provider.text(), "{number}");
        assert_eq!(received.outcome.status(), Status::Complete, "{number}");
        assert_eq!(received.outcome.tally().failures, 1, "{number}");
    }
}

#[test]
fn an_answer_that_is_given_up_keeps_its_token() {
    for pieces in [DOCUMENT, PROSE] {
        // The first hop is refused, or ends with the token that it began with.
        for is_refused in [true, false] {
            let provider = Provider::of(pieces, 2, usize::MAX);
            let (mut relay, mut received) = (provider.relay(), Relayed::default());
            let mut now = std::time::Duration::ZERO;
            let first = provider.events(0).concat();
            received.play(&mut relay, &mut now, &[first.as_bytes()], Fault::Clean);
            if !is_refused {
                let same = json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "CONTINUATION", "continuationToken": "t2"}]});
                let same = format!("data: {same}\r\n\r\n");
                received.play(&mut relay, &mut now, &[same.as_bytes()], Fault::Clean);
            }
            // The rest of a document is then asked for in words.
            while received.end().is_none() {
                relay.handle_call_end(now, refusal());
                received.take(&mut relay);
            }
            let (outcome, end) = received.end().expect("the answer has ended");
            let (status, words) = match pieces == DOCUMENT {
                true => (Status::Incomplete, 3),
                false => (Status::PassedThrough, 0),
            };
            assert_eq!((outcome.status(), end), (status, TransportEnd::Closed));
            assert_eq!(received.calls(), 1 + words);
            let got = responses(
                Framing::Events,
                std::str::from_utf8(&received.body).unwrap(),
            );
            let last = &got.last().unwrap()["candidates"][0];
            assert_eq!(
                (&last["finishReason"], &last["continuationToken"]),
                (&json!("CONTINUATION"), &json!("t2"))
            );
            assert_eq!(finishes(&got), ["CONTINUATION"]);
        }
    }
}

/// The SDK may continue it with a larger limit.
#[test]
fn an_answer_that_is_given_up_at_its_limit_keeps_its_token() {
    let provider = Provider::of(DOCUMENT, 2, usize::MAX);
    let (mut relay, mut received) = (provider.relay(), Relayed::default());
    let mut now = std::time::Duration::ZERO;
    let first = provider.events(0).concat();
    let first = first.replace("CONTINUATION", "MAX_TOKENS");
    received.play(&mut relay, &mut now, &[first.as_bytes()], Fault::Clean);
    while received.end().is_none() {
        relay.handle_call_end(now, refusal());
        received.take(&mut relay);
    }
    let body = std::str::from_utf8(&received.body).unwrap();
    let got = responses(Framing::Events, body);
    let last = &got.last().unwrap()["candidates"][0];
    assert_eq!(
        (&last["finishReason"], &last["continuationToken"]),
        (&json!("MAX_TOKENS"), &json!("t2"))
    );
}

#[test]
fn an_answer_whose_base_is_elsewhere_is_continued_from_its_token() {
    for pieces in [&DOCUMENT[2..], PROSE] {
        let provider = Provider::of(pieces, 3, 1);
        for dropped in [false, true] {
            let mut events = provider.events(0);
            let fault = if dropped {
                Fault::Dropped
            } else {
                Fault::Clean
            };
            if dropped {
                events.pop();
            }
            let mut calls = 0;
            let received = through_with(
                provider.relay().base(&Base::Elsewhere),
                events.concat().as_bytes(),
                fault,
                64,
                |request, _| {
                    calls += 1;
                    (provider.events(piece_of(request)).concat(), Fault::Clean)
                },
            );
            check_whole(
                provider,
                &received,
                calls,
                &format!("{dropped} {}", pieces[0]),
            );
        }
    }
}

#[test]
fn a_stream_without_a_token_ends_as_it_did() {
    let provider = Provider::of(PROSE, 2, usize::MAX);
    let first = provider.events(0).concat();
    for (relay, first) in [
        (
            provider.relay(),
            first.replace("continuationToken", "other"),
        ),
        // This caller makes no calls with tokens.
        (provider.relay().reattaching(Reattach::Never), first),
    ] {
        let received = through_with(relay, first.as_bytes(), Fault::Clean, 64, |_, _| {
            panic!("{first}")
        });
        assert_eq!(received.body, first);
    }
}

/// Calls arrive whole. One that came after the last token can't be compared.
#[test]
fn calls_are_continued_after_a_token() {
    let call = |name: &str, end: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"{name}\",\"args\":{{}}}}}}]}},\"index\":0{end}}}]}}\r\n\r\n"
        )
    };
    let token = ",\"continuationToken\":\"t1\"";
    let rest = call("b", ",\"finishReason\":\"STOP\"");
    let provider = Provider::of(PROSE, 1, 1);
    let hop = |first: &str| {
        let mut calls = 0;
        let received = through_with(
            provider.relay(),
            first.as_bytes(),
            Fault::Dropped,
            64,
            |request, _| {
                calls += 1;
                assert_eq!(piece_of(request), 1);
                (rest.clone(), Fault::Clean)
            },
        );
        (calls, received)
    };
    let (calls, received) = hop(&call("a", token));
    assert_eq!(calls, 1);
    let got = responses(Framing::Events, &received.body);
    let names: Vec<_> = got
        .iter()
        .filter_map(|response| {
            response["candidates"][0]["content"]["parts"][0]["functionCall"]["name"].as_str()
        })
        .collect();
    assert_eq!((names, finishes(&got)), (vec!["a", "b"], vec!["STOP"]));
    let first = call("a", token) + &call("c", "");
    let (calls, received) = hop(&first);
    assert_eq!((calls, received.body), (0, first));
}

fn body_of(provider: Provider, from: usize) -> String {
    let all = provider.responses(from);
    let mut body = all.last().unwrap().clone();
    body["candidates"][0]["content"]["parts"] = json!([{"text": text_of(&all)}]);
    body.to_string()
}

#[test]
fn a_whole_body_in_several_hops_is_one_body() {
    for pieces in [DOCUMENT, PROSE] {
        for length in 1..pieces.len() {
            let provider = Provider::of(pieces, length, usize::MAX);
            let relay = BodyRelay::new(Limits::default())
                .dialect(Dialect::Gemini)
                .continuing_by_token();
            let (body, asked, outcome) =
                through_body(relay, &body_of(provider, 0), |_, request| {
                    Some(body_of(provider, piece_of(request)))
                });
            let body: Value = serde_json::from_str(&body).unwrap();
            let hops = pieces.len().div_ceil(length);
            assert_eq!(
                (asked.len(), outcome.status()),
                (hops - 1, Status::PassedThrough)
            );
            let candidate = &body["candidates"][0];
            assert_eq!(
                candidate["content"]["parts"],
                json!([{"text": provider.text()}])
            );
            assert_eq!(
                (&candidate["finishReason"], &candidate["continuationToken"]),
                (&json!("STOP"), &Value::Null)
            );
            assert_eq!(
                body["usageMetadata"],
                json!({"promptTokenCount": 10 * hops, "candidatesTokenCount": pieces.len()})
            );
            assert_eq!(body["responseId"], "r0");
        }
    }
}

#[test]
fn a_body_that_is_given_up_keeps_its_token() {
    let relay = || BodyRelay::new(Limits::default()).dialect(Dialect::Gemini);
    let first = body_of(Provider::of(PROSE, 3, usize::MAX), 0);
    for (relay, reply, calls) in [
        (relay().continuing_by_token(), None, 1),
        (
            relay().continuing_by_token(),
            Some(r#"{"error":{"message":"no"}}"#),
            1,
        ),
        (relay().continuing_by_token(), Some("no"), 1),
        (relay(), None, 0),
    ] {
        let (body, asked, outcome) = through_body(relay, &first, |_, _| reply.map(str::to_owned));
        assert_eq!((&body, asked.len()), (&first, calls), "{reply:?}");
        assert_eq!(outcome.status(), Status::PassedThrough);
    }
    // The rest of a document is then asked for in words. The token does not continue them.
    let first = body_of(Provider::of(DOCUMENT, 3, usize::MAX), 0);
    for (cut, token) in [(0, json!("t3")), (4, Value::Null)] {
        let (body, asked, outcome) = through_body(
            relay().continuing_by_token(),
            &first,
            |_, request| {
                let turn = request
                    .turn
                    .as_ref()
                    .filter(|_| cut > 0 && request.number == 1)?;
                let text = format!("{}{}", turn.anchor, DOCUMENT[3..=cut].concat());
                Some(json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "CONTINUATION"}]}).to_string())
            },
        );
        assert!(asked.len() > 2 && asked[1..].iter().all(|request| request.turn.is_some()));
        assert_eq!(outcome.status(), Status::Incomplete);
        let candidate: Value =
            serde_json::from_str::<Value>(&body).unwrap()["candidates"][0].take();
        assert_eq!(
            (&candidate["finishReason"], &candidate["continuationToken"]),
            (&json!("CONTINUATION"), &token)
        );
    }
}

/// The limit is raised once, and only for a document.
#[test]
fn a_body_is_continued_after_its_limit_with_a_higher_one() {
    let body = |pieces, from| {
        let body = body_of(Provider::of(pieces, 3, usize::MAX), from);
        body.replace("CONTINUATION", "MAX_TOKENS")
    };
    for (pieces, raises, calls) in [(DOCUMENT, true, 1), (DOCUMENT, false, 0), (PROSE, true, 0)] {
        let relay = BodyRelay::new(Limits::default().with_max_continuations(1))
            .dialect(Dialect::Gemini)
            .continuing_by_token()
            .raising_limit(raises);
        let (text, asked, _) = through_body(relay, &body(pieces, 0), |_, request| {
            let Some(Resume::Token { after, .. }) = &request.resume else {
                return None;
            };
            assert_eq!(*after, HopEnd::Limit);
            Some(body(pieces, 3))
        });
        let hops = asked.iter().filter(|request| request.resume.is_some());
        assert_eq!(hops.count(), calls, "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        let text = read["candidates"][0]["content"]["parts"][0]["text"].as_str();
        let has = pieces[..3 + 3 * calls].concat();
        assert!(text.unwrap().starts_with(&has), "{text:?} {has}");
    }
}

#[test]
fn joined_bodies_keep_every_part() {
    let body = |parts: &str, end: &str| {
        format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}}{end}}}]}}"
        )
    };
    let end = ",\"finishReason\":\"CONTINUATION\",\"continuationToken\":\"t1\"";
    let stop = ",\"finishReason\":\"STOP\",\"groundingMetadata\":{\"a\":1}";
    for (first, next, parts) in [
        // The halves of one character.
        (
            r#"{"text":"\ud83d"}"#,
            r#"{"text":"\ude00"}"#,
            r#"{"text":"\ud83d\ude00"}"#,
        ),
        (
            r#"{"text":"a","thought":true}"#,
            r#"{"text":"b"}"#,
            r#"{"text":"a","thought":true},{"text":"b"}"#,
        ),
        (
            r#"{"text":"a","thoughtSignature":"s"}"#,
            r#"{"text":"b"},{"text":"c"}"#,
            r#"{"text":"a","thoughtSignature":"s"},{"text":"b"},{"text":"c"}"#,
        ),
        (
            "",
            r#"{"functionCall":{"name":"f"}}"#,
            r#"{"functionCall":{"name":"f"}}"#,
        ),
        (r#"{"text":"a"}"#, "", r#"{"text":"a"}"#),
    ] {
        let relay = BodyRelay::new(Limits::default())
            .dialect(Dialect::Gemini)
            .continuing_by_token();
        let (joined, asked, _) =
            through_body(relay, &body(first, end), |_, _| Some(body(next, stop)));
        assert_eq!((joined, asked.len()), (body(parts, stop), 1));
    }
}

/// The limit is raised once. After that the rest is asked for in words.
#[test]
fn a_limit_on_tokens_is_raised_with_the_token() {
    for (raises, hops) in [(true, 1), (false, 0)] {
        let provider = Provider::of(DOCUMENT, 3, usize::MAX);
        let events = |from| {
            let events = provider.events(from).concat();
            events.replace("CONTINUATION", "MAX_TOKENS")
        };
        let (mut tokens, mut words) = (0, 0);
        let received = through_with(
            provider.relay().raising_limit(raises),
            events(0).as_bytes(),
            Fault::Clean,
            9,
            |request, delivered| {
                if let Some(Resume::Token { after, .. }) = &request.resume {
                    tokens += 1;
                    assert_eq!((*after, piece_of(request)), (HopEnd::Limit, 3));
                    return (events(3), Fault::Clean);
                }
                words += 1;
                let rest = provider.text().split_off(delivered.len());
                let anchor = &request.turn.as_ref().unwrap().anchor;
                let answer = json!({"candidates": [{"content": {"parts": [{"text": format!("{anchor}{rest}")}]}, "finishReason": "STOP"}]});
                (format!("data: {answer}\r\n\r\n"), Fault::Clean)
            },
        );
        assert_eq!((tokens, words), (hops, 1));
        let got = responses(Framing::Events, &received.body);
        assert_eq!(
            (text_of(&got), finishes(&got)),
            (provider.text(), vec!["STOP"])
        );
    }
    // The client has limited its prose.
    let provider = Provider::of(PROSE, 3, usize::MAX);
    let first = provider
        .events(0)
        .concat()
        .replace("CONTINUATION", "MAX_TOKENS");
    let relay = provider.relay().raising_limit(true);
    let received = through_with(relay, first.as_bytes(), Fault::Clean, 64, |_, _| {
        panic!("{first}")
    });
    assert_eq!(received.body, first);
}

#[test]
fn no_call_with_a_token_is_made_where_no_further_call_is_allowed() {
    let limits = || Limits::default().with_max_continuations(0);
    let provider = Provider::of(PROSE, 2, 1);
    let relay = || {
        Relay::new(limits())
            .dialect(Dialect::Gemini)
            .reattaching(Reattach::NextEvent)
    };
    for fault in [Fault::Clean, Fault::Dropped] {
        let first = provider.events(0).concat();
        let received = through_with(relay(), first.as_bytes(), fault, 64, |_, _| {
            panic!("{first}")
        });
        assert_eq!(received.body, first);
    }
    let whole = BodyRelay::new(limits())
        .dialect(Dialect::Gemini)
        .continuing_by_token();
    let first = body_of(provider, 0);
    let (body, asked, _) = through_body(whole, &first, |_, _| None);
    assert_eq!((body, asked.len()), (first, 0));
}
