//! Requests and the calls that answer them, as the files of `tests/wire-cases` say.

use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::provider::capability::Capability;
use restitch::repair::RepairLevel;
use restitch::session::{
    CallEnd, Exchange, ExchangeOutput, Outcome, Prose, ResponseHead, StopReason, TransportEnd,
};
use serde_json::{Value, json};

use restitch_testing::case_file::{CaseFile, read_files};

const FACTS: [&str; 10] = [
    "path",
    "call",
    "max_continuations",
    "idle_timeout",
    "first_byte_timeout",
    "on_give_up",
    "repair",
    "prose",
    "status",
    "end",
];
const BLOCKS: [&str; 5] = ["request", "upstream", "asked", "client", "report"];

/// The bytes that the client has got, and the calls that were asked for.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    client: Vec<u8>,
    asked: Vec<String>,
    end: Option<(Outcome, TransportEnd, u16)>,
}

#[test]
fn exchanges_are_as_their_files_say() {
    let cases = read_files("tests/wire-cases", &FACTS, &BLOCKS);
    assert!(cases.len() >= 40, "{} files", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = &case.name;
        let seen = run(case, usize::MAX);
        assert_eq!(run(case, 1), seen, "{name}: byte by byte");
        let differences = differences(case, &seen);
        if !differences.is_empty() {
            let client = String::from_utf8_lossy(&seen.client);
            let report = seen.end.as_ref().map(|(outcome, ..)| outcome.report());
            let all = (client, &seen.asked, report);
            wrong.push(format!("{name}\n{}\n{all:#?}", differences.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("covered: {} files", cases.len());
}

#[test]
fn a_client_that_leaves_with_the_last_event_has_its_answer() {
    let cases = read_files("tests/wire-cases", &FACTS, &BLOCKS);
    let case = cases.iter().find(|case| case.name == "chat-stream-healthy");
    let case = case.unwrap();
    let body = case.block("upstream").unwrap().replace("----\n", "");
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

/// The patterns would be worth nothing if they fitted everything.
#[test]
fn a_pattern_can_fail() {
    for (pattern, value, fits) in [
        (json!({"a": 1}), json!({"a": 1, "b": 2}), true),
        (json!({"a": 1}), json!({"a": 2}), false),
        (json!({"a": null}), json!({}), false),
        (json!([1, {}]), json!([1, {"a": 2}]), true),
        (json!([1]), json!([1, 2]), false),
        (json!("a…c…"), json!("abcd"), true),
        (json!("…c"), json!("abcd"), false),
        (json!("a…b"), json!("ab"), true),
        (json!("ab…ba"), json!("aba"), false),
    ] {
        assert_eq!(self::fits(&pattern, &value), fits, "{pattern} {value}");
    }
}

/// Runs a case. `size`: the most bytes of a piece of the upstream's bodies.
fn run(case: &CaseFile, size: usize) -> Seen {
    let mut seen = Seen::default();
    let mut exchange = exchange(case);
    let mut now = Duration::ZERO;
    let mut bodies = case.blocks("upstream");
    for call in case.facts("call") {
        assert!(seen.end.is_none(), "{}: {call} is not asked for", case.name);
        assert_eq!(
            exchange.outcome().reason(),
            Some(StopReason::Abandoned),
            "a client that leaves now"
        );
        if call == "refused" {
            let reason = "connection refused".to_owned();
            let end = CallEnd::Unavailable {
                reason,
                retry_after: None,
            };
            exchange.handle_call_end(now, end);
        } else {
            let [status, content_type, end] = call.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{call}");
            };
            let head = ResponseHead::of(status.parse().unwrap(), content_type);
            let body = bodies.next().unwrap();
            answer(&mut exchange, &mut now, (&head, body, end), size, &mut seen);
        }
        now = take(&mut exchange, &mut seen).map_or(now, |at| at.max(now));
    }
    assert_eq!(bodies.next(), None, "{}: a body too many", case.name);
    assert!(seen.end.is_some(), "{}: another call is made", case.name);
    seen
}

fn exchange(case: &CaseFile) -> Exchange {
    let seconds = |name| case.fact(name).map(|time| time.parse().unwrap());
    let mut limits = Limits::default();
    if let Some(most) = case.fact("max_continuations") {
        limits.continuation.max_continuations = most.parse().unwrap();
    }
    if let Some(time) = seconds("idle_timeout") {
        limits.transport.idle_timeout = Duration::from_secs_f64(time);
    }
    if let Some(time) = seconds("first_byte_timeout") {
        limits.transport.first_byte_timeout = Duration::from_secs_f64(time);
    }
    let request = case.block("request").unwrap().as_bytes();
    let path = case.fact("path").unwrap();
    let exchange = Exchange::for_request("127.0.0.1", path, request, limits).unwrap();
    let give_up = case.fact("on_give_up").unwrap_or("leave");
    let level = case.fact("repair").unwrap_or("strict");
    let prose = match case.fact("prose") {
        Some("anchor") => Prose::Anchor,
        _ => Prose::Pass,
    };
    exchange
        .give_up(give_up.parse().unwrap())
        .repair(RepairLevel::named(level).unwrap())
        .prose(prose)
}

/// Answers the open call with a head, a body and its end.
fn answer(
    exchange: &mut Exchange,
    now: &mut Duration,
    (head, body, end): (&ResponseHead<'_>, &str, &str),
    size: usize,
    seen: &mut Seen,
) {
    if !exchange.handle_response(*now, head) {
        return;
    }
    let pieces = body.split("----\n").map(str::as_bytes);
    for piece in pieces.flat_map(|piece| piece.chunks(size)) {
        exchange.handle_bytes(*now, Bytes::copy_from_slice(piece));
        let asked = seen.asked.len();
        // Bytes after the end of a call are not read.
        let at = take(exchange, seen);
        if seen.end.is_some() || seen.asked.len() > asked {
            *now = at.map_or(*now, |at| at.max(*now));
            return;
        }
    }
    match end {
        "closed" => exchange.handle_end(*now, TransportEnd::Closed),
        "dropped" => exchange.handle_end(*now, TransportEnd::Dropped),
        "silent" => {
            *now = exchange.silent_at().unwrap();
            exchange.handle_timeout(*now);
        }
        other => panic!("{other}"),
    }
}

/// Takes all outputs. Returns the time of the call that is asked for.
fn take(exchange: &mut Exchange, seen: &mut Seen) -> Option<Duration> {
    let mut at = None;
    while let Some(output) = exchange.poll_output() {
        match output {
            ExchangeOutput::Bytes(bytes) => seen.client.extend_from_slice(&bytes),
            ExchangeOutput::Call(call) => {
                seen.asked.push(match call.method {
                    "GET" => format!("GET {}", call.path),
                    _ => call.body,
                });
                at = Some(call.at);
            }
            ExchangeOutput::Done {
                outcome,
                last,
                transport_end,
                status,
            } => {
                seen.client.extend_from_slice(&last);
                seen.end = Some((outcome, transport_end, status));
            }
            _ => {}
        }
    }
    at
}

/// Returns how a case differs from its file.
fn differences(case: &CaseFile, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, pattern: &str, value: &str| {
        let is_equal = match (serde_json::from_str(pattern), serde_json::from_str(value)) {
            (Ok(pattern), Ok(value)) => fits(&pattern, &value),
            _ => pattern == value,
        };
        if !is_equal {
            found.push(format!("{what}\n  wanted {pattern}\n  found  {value}"));
        }
    };
    let asked: Vec<_> = case.blocks("asked").collect();
    for (pattern, body) in padded(&asked, &seen.asked) {
        compare("asked", pattern, body);
    }
    let client = String::from_utf8_lossy(&seen.client).replace("\r\n", "\n");
    let events: Vec<_> = client
        .split("\n\n")
        .filter_map(|event| Some(event.split_once("data: ")?.1.to_owned()))
        .collect();
    let is_stream = !events.is_empty();
    let received = if is_stream { events } else { vec![client] };
    let wanted: Vec<_> = case.block("client").unwrap().lines().collect();
    for (pattern, value) in padded(&wanted, &received) {
        compare("client", pattern, value);
    }
    let (outcome, transport_end, status) = seen.end.as_ref().unwrap();
    compare("report", case.block("report").unwrap(), &outcome.report());
    let is_dropped = *transport_end == TransportEnd::Dropped;
    let end = if is_dropped { "dropped" } else { "closed" };
    compare("end", case.fact("end").unwrap_or("closed"), end);
    if !is_stream {
        let wanted = case.fact("status").unwrap_or("200");
        compare("status", wanted, &status.to_string());
    }
    found
}

/// Pairs two lists, the shorter one filled up.
fn padded<'a>(wanted: &'a [&str], found: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let at = |index: usize| {
        let wanted = wanted.get(index).copied().unwrap_or("nothing");
        (wanted, found.get(index).map_or("nothing", String::as_str))
    };
    (0..wanted.len().max(found.len())).map(at)
}

/// Whether a value fits a pattern.
fn fits(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::Object(pattern), Value::Object(value)) => pattern
            .iter()
            .all(|(key, pattern)| value.get(key).is_some_and(|value| fits(pattern, value))),
        (Value::Array(pattern), Value::Array(value)) => {
            pattern.len() == value.len() && pattern.iter().zip(value).all(|(a, b)| fits(a, b))
        }
        (Value::String(pattern), Value::String(value)) => text_fits(pattern, value),
        _ => pattern == value,
    }
}

/// Whether a text fits one in which `…` fits any text.
fn text_fits(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = others.rsplit_once('…').unwrap_or(("", others));
    for part in middle.split('…') {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}
