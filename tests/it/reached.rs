//! What is said of a limit that an answer reaches, and what is kept of an answer.

use std::time::Duration;

use crate::wires::continued::{Fault, through_with};
use allocation_counter::measure;
use restitch::Limits;
use restitch::internal::relay::{Output, Relay, TransportEnd};
use restitch::internal::wire::Dialect;
use restitch::session::{CallEnd, Input, LimitReached, Outcome, Session, Status, StopReason};
use restitch_testing::chat::{self, DONE};
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

/// Passes a first answer through a relay, in pieces. Returns what the client gets, and how it
/// ended.
fn relayed(limits: &Limits, answer: &str, size: usize) -> (String, Outcome) {
    relayed_by(Dialect::Chat, limits, answer, size)
}

fn relayed_by(dialect: Dialect, limits: &Limits, answer: &str, size: usize) -> (String, Outcome) {
    let relay = Relay::new(limits.clone()).dialect(dialect);
    let received = through_with(
        relay,
        answer.as_bytes(),
        Fault::Clean,
        size,
        |request, _| panic!("an answer that passes is not continued: {request:?}"),
    );
    (received.body, received.outcome)
}

fn limit(outcome: &Outcome) -> Option<(&str, u64)> {
    outcome
        .tally()
        .limit
        .as_ref()
        .map(|limit: &LimitReached| (limit.name.as_str(), limit.value.as_u64().unwrap()))
}

/// The answer leaves to the byte, and a comment after it names the limit.
#[test]
fn a_first_stream_names_the_limit_that_it_has_reached() {
    let cut = |text: &str| chat::text("a", text) + &chat::finish("a", "length") + DONE;
    let slots: String = (0..300)
        .map(|n| chat::chunk("a", n, &json!({"content": "[1, "}), None))
        .collect();
    let long_event = "data: x\n".repeat(100) + "\n";
    let endless = ": c\n".repeat(1000);
    for (limits, answer, name, value) in [
        (
            Limits::default().with_max_line_bytes(500),
            cut("[1, ") + &cut(&"x".repeat(500)),
            "max_line_bytes",
            500,
        ),
        (
            Limits::default().with_max_event_bytes(500),
            chat::text("a", "[1, ") + &long_event,
            "max_event_bytes",
            500,
        ),
        (
            Limits::default().with_max_event_bytes(500),
            chat::text("a", "[1, ") + &endless,
            "max_event_bytes",
            500,
        ),
        (
            Limits::default().with_max_depth(3),
            cut("[[[[1, "),
            "max_depth",
            3,
        ),
        (
            Limits::default().with_max_text_bytes(20),
            chat::text("a", "[1, ").repeat(6) + &chat::finish("a", "length") + DONE,
            "max_text_bytes",
            20,
        ),
        (Limits::default(), slots, "max_slots", 256),
    ] {
        // What was read before the limit may have ended the answer: the events below have none of
        // that.
        let answer = answer.replacen(
            &(chat::finish("a", "length") + DONE),
            "",
            usize::from(answer.matches("[DONE]").count() > 1),
        );
        for size in [1, 7, 1 << 20] {
            let (body, outcome) = relayed(&limits, &answer, size);
            assert_eq!(outcome.status(), Status::PassedThrough, "{name}");
            assert_eq!(limit(&outcome), Some((name, value)), "{name} {size}");
            assert!(
                outcome
                    .to_string()
                    .ends_with(&format!(", limit reached: {name} = {value}")),
                "{outcome}"
            );
            let told = body
                .strip_prefix(&answer)
                .unwrap_or_else(|| panic!("{name} {size}: {body}"));
            let report = told
                .strip_prefix(": restitch ")
                .and_then(|report| report.strip_suffix('\n'));
            let report: Value =
                serde_json::from_str(report.unwrap_or_else(|| panic!("{name}: {told}"))).unwrap();
            assert_eq!(report["limit"], json!({"name": name, "value": value}));
            assert_eq!(report["status"], "passed");
        }
    }
}

/// An item of a response without text of the answer, of about `bytes` bytes.
fn item(n: usize, bytes: usize) -> String {
    let added = json!({"type": "response.output_item.added", "output_index": n,
        "item": {"id": format!("ig_{n}"), "type": "image_generation_call", "status": "in_progress"}});
    let done = json!({"type": "response.output_item.done", "output_index": n,
        "item": {"id": format!("ig_{n}"), "type": "image_generation_call", "status": "completed", "result": "i".repeat(bytes)}});
    format!("data: {added}\n\ndata: {done}\n\n")
}

/// A message of a response whose text breaks off, with parts that have none.
fn message(n: usize, parts: usize) -> String {
    let event = |kind: &str, members: Value| {
        let mut event = json!({"type": kind, "output_index": n});
        event
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        format!("data: {event}\n\n")
    };
    let message = json!({"id": "msg", "type": "message", "role": "assistant", "content": []});
    let mut events = event("response.output_item.added", json!({"item": message}));
    for part in 0..parts {
        let text = json!({"type": "output_text", "text": "", "annotations": []});
        events += &event(
            "response.content_part.added",
            json!({"content_index": part, "part": text}),
        );
    }
    events
        + &event(
            "response.output_text.delta",
            json!({"content_index": 0, "delta": "[1, "}),
        )
}

fn created() -> String {
    let created = json!({"type": "response.created", "response": {"id": "r", "output": []}});
    format!("data: {created}\n\n")
}

fn items(count: usize, bytes: usize) -> String {
    (0..count).map(|n| item(n, bytes)).collect()
}

#[test]
fn all_items_of_a_response_count_as_slots_and_as_text() {
    let (usual, small) = (
        Limits::default(),
        Limits::default().with_max_text_bytes(10_000),
    );
    for (what, limits, answer, name, value) in [
        (
            "items",
            &usual,
            items(300, 10) + &message(300, 1),
            "max_slots",
            256,
        ),
        ("parts", &usual, message(0, 300), "max_slots", 256),
        (
            "large items",
            &small,
            items(30, 1000) + &message(30, 1),
            "max_text_bytes",
            10_000,
        ),
    ] {
        let answer = created() + &answer;
        for size in [100, 1 << 20] {
            let (body, outcome) = relayed_by(Dialect::Responses, limits, &answer, size);
            assert!(body.starts_with(&answer), "{what}");
            assert_eq!(
                (outcome.status(), limit(&outcome)),
                (Status::PassedThrough, Some((name, value))),
                "{what}"
            );
        }
    }
    // Fewer of them are continued.
    for (limits, answer) in [
        (&usual, items(250, 10) + &message(250, 1)),
        (&small, items(5, 1000) + &message(5, 1)),
    ] {
        let mut relay = Relay::new(limits.clone()).dialect(Dialect::Responses);
        relay.handle_bytes(NOW, (created() + &answer).into());
        relay.handle_transport_end(NOW, TransportEnd::Dropped);
        let outputs: Vec<_> = std::iter::from_fn(|| relay.poll_output()).collect();
        assert!(
            outputs
                .iter()
                .any(|output| matches!(output, Output::Call { .. })),
            "{outputs:?}"
        );
    }
}

#[test]
fn all_blocks_of_a_message_count_as_slots() {
    let event = |kind: &str, members: Value| {
        let mut event = json!({"type": kind});
        event
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let mut answer = event(
        "message_start",
        json!({"message": {"id": "m", "role": "assistant", "content": []}}),
    );
    for n in 0..300 {
        let block = json!({"type": "server_tool_use", "id": "s", "name": "search", "input": {}});
        answer += &event(
            "content_block_start",
            json!({"index": n, "content_block": block}),
        );
        answer += &event("content_block_stop", json!({"index": n}));
    }
    let (body, outcome) = relayed_by(Dialect::Messages, &Limits::default(), &answer, 1000);
    assert!(body.starts_with(&answer));
    assert_eq!(limit(&outcome), Some(("max_slots", 256)));
}

#[test]
fn items_of_a_response_hold_no_more_memory_than_the_limit_allows() {
    let limits = Limits::default().with_max_text_bytes(1 << 20);
    let events: Vec<String> = (0..40).map(|n| item(n, 128 << 10)).collect();
    let cost = measure(|| {
        let mut relay = Relay::new(limits).dialect(Dialect::Responses);
        for event in &events {
            relay.handle_bytes(NOW, event.clone().into());
            while relay.poll_output().is_some() {}
        }
    });
    // The items up to the limit, and one event in the buffers through which it passes.
    assert!(cost.bytes_max <= (1 << 20) + 8 * (128 << 10), "{cost:?}");
}

/// Its text is forgotten as soon as it is certain that no root follows; a preamble is kept for the
/// root after it.
#[test]
fn prose_is_not_kept() {
    let limits = Limits::default().with_max_preamble_bytes(1000);
    let mut session = Session::new(limits.clone());
    let mut most = 0;
    for _ in 0..1000 {
        session.handle_input(
            NOW,
            Input::Text("It was a dark and stormy night; the rain fell in torrents.\n"),
        );
        most = most.max(session.document().text().len());
    }
    assert!(
        (900..1100).contains(&most),
        "{most} bytes of prose are kept"
    );
    assert_eq!(session.document().text().len(), 0);
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(restitch::session::Output::Done(outcome)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (outcome.status(), limit(outcome)),
        (Status::PassedThrough, None)
    );

    let answer: String = (0..1000)
        .map(|_| chat::text("a", "It was a dark and stormy night.\n"))
        .collect();
    let answer = answer + &chat::finish("a", "length") + DONE;
    let (body, outcome) = relayed(&limits, &answer, 1000);
    assert!(body == answer && limit(&outcome).is_none());

    // Reasoning before it does not count, and a shorter preamble changes nothing.
    for before in [
        format!("<think>{}</think>\nHere:\n```json\n", "[x] ".repeat(1000)),
        "y ".repeat(490) + "\n```json\n",
    ] {
        let mut session = Session::new(limits.clone());
        session.handle_input(NOW, Input::Text(&before));
        session.handle_input(NOW, Input::Text("[1, 2"));
        assert!(session.would_continue(&CallEnd::Dropped), "{before}");
        assert_eq!(session.document().text().len(), before.len() + 5);
    }
}

/// A continuation that makes the text too long is the last one.
#[test]
fn a_text_that_is_too_long_is_not_continued() {
    let limits = Limits::default().with_max_text_bytes(100);
    let mut session = Session::new(limits.clone());
    session.handle_input(NOW, Input::Text(&format!("[{}", "1, ".repeat(10))));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    while let Some(output) = session.poll_output() {
        if let restitch::session::Output::Call { request, .. } = output {
            let text = request.turn.unwrap().delivered + &"1, ".repeat(40);
            session.handle_input(NOW, Input::Text(&text));
            session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
        } else if let restitch::session::Output::Done(outcome) = output {
            assert_eq!(outcome.reason(), Some(StopReason::Text));
            assert_eq!(
                (outcome.status(), outcome.tally().continuations),
                (Status::Incomplete, 1)
            );
        }
    }
    assert!(session.is_done());

    // A relay ends the call as soon as the text is too long.
    let mut relay = Relay::new(limits);
    relay.handle_bytes(
        NOW,
        chat::text("a", &format!("[{}", "1, ".repeat(10))).into(),
    );
    relay.handle_transport_end(NOW, TransportEnd::Dropped);
    while !matches!(relay.poll_output(), Some(Output::Call { .. })) {}
    relay.handle_open(NOW);
    relay.handle_bytes(
        NOW,
        chat::text("a", &format!("[{}", "1, ".repeat(60))).into(),
    );
    let done = std::iter::from_fn(|| relay.poll_output()).find_map(|output| match output {
        Output::Done { outcome, .. } => Some(outcome),
        _ => None,
    });
    assert_eq!(done.unwrap().reason(), Some(StopReason::Text));
}

/// A wait is at least half of what it was without a spread, and no longer; answers that were cut
/// together differ.
#[test]
fn waits_are_spread() {
    let busy = |retry_after| CallEnd::Rejected {
        reason: "429".to_owned(),
        transient: true,
        retry_after,
    };
    let wait = |now: Duration, retry_after: Option<Duration>, limits: &Limits| {
        let mut session = Session::new(limits.clone());
        session.handle_input(now, Input::Text("[1, 2"));
        session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
        session.handle_input(now, Input::CallEnd(busy(retry_after)));
        let ats = std::iter::from_fn(|| session.poll_output()).filter_map(|output| match output {
            restitch::session::Output::Call { at, .. } => Some(at),
            _ => None,
        });
        ats.last().unwrap() - now
    };
    let (limits, millis) = (Limits::default(), Duration::from_millis);
    let waits: Vec<_> = (0..1000)
        .map(|n| wait(Duration::from_nanos(5_000_000_000 + n), None, &limits))
        .collect();
    assert!(
        waits
            .iter()
            .all(|wait| (millis(100)..=millis(200)).contains(wait)),
        "{waits:?}"
    );
    let below = waits.iter().filter(|wait| **wait < millis(150)).count();
    assert!(
        (400..600).contains(&below),
        "{below} of 1000 waits are in the lower half"
    );
    assert_eq!(
        wait(millis(7), None, &limits),
        wait(millis(7), None, &limits),
        "the same input, the same wait"
    );
    // What a server asks for is the least, up to the limit.
    for n in 0..100 {
        let asked = wait(
            Duration::from_nanos(n),
            Some(Duration::from_secs(3)),
            &limits,
        );
        assert!((millis(3000)..=millis(3100)).contains(&asked), "{asked:?}");
        let most = wait(
            Duration::from_nanos(n),
            Some(Duration::from_secs(30)),
            &limits,
        );
        assert_eq!(most, Duration::from_secs(10));
    }
}

/// A call that was not made does not count, and the report says why.
#[test]
fn a_call_that_was_not_made_ends_the_loop() {
    for (text, status) in [("[1, 2", Status::Incomplete), ("", Status::Failed)] {
        let mut session = Session::new(Limits::default().with_patience(Duration::ZERO));
        session.handle_input(NOW, Input::Text(text));
        session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
        session.handle_input(NOW, Input::CallEnd(CallEnd::Overloaded));
        let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
        let Some(restitch::session::Output::Done(outcome)) = outputs.last() else {
            panic!("{outputs:?}")
        };
        assert_eq!(
            (outcome.status(), outcome.reason()),
            (status, Some(StopReason::Overload))
        );
        assert_eq!(
            (outcome.tally().continuations, outcome.tally().tokens.len()),
            (0, 1)
        );
        let report: Value = serde_json::from_str(&outcome.report()).unwrap();
        assert_eq!(
            (&report["stop"], &report["continuations"]),
            (&json!("overload"), &json!(0))
        );
    }
}

/// Ends each call in the same way at the time when it is due, until `until`. Returns the session,
/// and when its next call is due. `None`: it has given up.
fn in_trouble(end: &CallEnd, until: Duration, limits: Limits) -> (Session, Option<Duration>) {
    let mut session = Session::new(limits);
    session.handle_input(NOW, Input::Text("[1, 2"));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    loop {
        let due = std::iter::from_fn(|| session.poll_output()).filter_map(|output| match output {
            restitch::session::Output::Call { at, .. } => Some(at),
            _ => None,
        });
        match due.last() {
            Some(at) if at < until => session.handle_input(at, Input::CallEnd(end.clone())),
            due => return (session, due),
        }
    }
}

fn unavailable(retry_after: Option<u64>) -> CallEnd {
    CallEnd::Unavailable {
        reason: "503".to_owned(),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

#[test]
fn waits_out_an_upstream_in_trouble_without_counting() {
    let limits = Limits::default()
        .with_max_continuations(1)
        .with_max_consecutive_failures(1);
    for end in [
        unavailable(None),
        unavailable(Some(1)),
        CallEnd::Dropped,
        CallEnd::Overloaded,
    ] {
        let (mut session, due) = in_trouble(&end, Duration::from_secs(20), limits.clone());
        let due = due.unwrap_or_else(|| panic!("{end:?}: given up"));
        assert!(due < Duration::from_secs(31), "{end:?}: {due:?}");
        session.handle_input(due, Input::Text("[1, 2, 3]"));
        session.handle_input(due, Input::CallEnd(CallEnd::Closed));
        let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
        let Some(restitch::session::Output::Done(outcome)) = outputs.last() else {
            panic!("{outputs:?}")
        };
        let tally = outcome.tally();
        assert_eq!(
            (outcome.status(), tally.continuations, tally.failures),
            (Status::Complete, 1, 0),
            "{end:?}"
        );
        assert_eq!(tally.tokens.len(), 2, "{end:?}");
    }
}

#[test]
fn gives_up_when_patience_is_used_up() {
    let never = Duration::from_secs(1000);
    for (end, reason) in [
        (unavailable(None), StopReason::Patience),
        (CallEnd::Dropped, StopReason::Patience),
        (CallEnd::Overloaded, StopReason::Overload),
    ] {
        for patience in [1, 7, 30].map(Duration::from_secs) {
            let (session, due) = in_trouble(&end, never, Limits::default().with_patience(patience));
            assert_eq!((due, session.is_done()), (None, true), "{end:?}");
            assert_eq!(
                (session.tally().continuations, session.tally().failures),
                (session.tally().continuations, 0)
            );
            let (session, due) =
                in_trouble(&end, patience, Limits::default().with_patience(patience));
            assert_eq!(
                (due, session.is_done()),
                (Some(patience), false),
                "{end:?}: the last call comes at the end"
            );
        }
        let mut session = in_trouble(&end, Duration::from_secs(30), Limits::default()).0;
        session.handle_input(Duration::from_secs(30), Input::CallEnd(end.clone()));
        let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
        let Some(restitch::session::Output::Done(outcome)) = outputs.last() else {
            panic!("{outputs:?}")
        };
        assert_eq!(outcome.reason(), Some(reason));
    }
}

#[test]
fn gives_up_at_once_where_the_upstream_asks_for_more_than_patience() {
    let (session, due) = in_trouble(
        &unavailable(Some(31)),
        Duration::from_secs(1),
        Limits::default(),
    );
    assert_eq!((due, session.is_done()), (None, true));
    let (_, due) = in_trouble(
        &unavailable(Some(29)),
        Duration::from_secs(1),
        Limits::default(),
    );
    assert!(
        due.is_some_and(|due| (29..=30).contains(&due.as_secs())),
        "{due:?}"
    );
}

#[test]
fn trouble_counts_as_failures_without_patience() {
    let limits = Limits::default().with_patience(Duration::ZERO);
    for end in [unavailable(None), CallEnd::Dropped] {
        let (session, due) = in_trouble(&end, Duration::from_secs(1000), limits.clone());
        assert_eq!((due, session.tally().failures), (None, 3), "{end:?}");
    }
}

/// The time starts anew once the upstream has brought text.
#[test]
fn patience_starts_anew_after_text() {
    let (mut session, due) = in_trouble(
        &unavailable(None),
        Duration::from_secs(29),
        Limits::default(),
    );
    let due = due.unwrap();
    session.handle_input(due, Input::Text("[1, 2, 3"));
    session.handle_input(due, Input::CallEnd(CallEnd::Dropped));
    session.handle_input(due, Input::CallEnd(unavailable(Some(25))));
    let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(restitch::session::Output::Call { at, .. }) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert!(*at >= due + Duration::from_secs(25));
}
