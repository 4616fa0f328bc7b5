//! The ends of answers that are given up or completed, in all APIs, streamed and whole.

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, BodyRelay, Relay, TransportEnd};
use restitch::internal::wire::{Dialect, SlotKind};
use restitch::provider::Finish;
use restitch::session::{ContinuationStrategy, GiveUp, Request, Status};
use serde_json::{Value, json};

use super::continued::{
    DOCUMENT, Fault, Relayed, Reply, carried, check_form, played, read, reason, refusal, relay,
    rest_of, through_body,
};
use super::read_body;
use restitch_testing::answers::{answer, whole_body};

/// The offset of the first cut, in the text of the second row.
const CUT: usize = 77;

/// How the first answer is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FirstCut {
    Length,
    PrematureStop,
    Drop,
    Idle,
    Error,
}

/// How the calls after it end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// One is joined, goes wrong and ends with `stop`. All later ones are refused.
    GoesWrong,
    /// One is joined and stops in the middle of the document. All later ones are refused.
    Stops,
    /// All are refused.
    Refused,
}

/// Returns a continuation with a little new text that then becomes illegal or stops.
fn wrong_rest(dialect: Dialect, request: &Request, delivered: &str, then: Then) -> String {
    let document = &DOCUMENT[..delivered.len().max(CUT) + 12];
    let rest = rest_of(dialect, document, request, delivered);
    if then == Then::GoesWrong {
        rest + "\"]]]}"
    } else {
        rest
    }
}

/// Plays the first stream and the calls after it. `reply` answers a call, or refuses it.
fn streamed(
    relay: Relay,
    first: &str,
    fault: Fault,
    mut reply: impl FnMut(&Relay, &Request) -> Option<String>,
) -> Relayed {
    let first = Reply::Stream(first.into(), fault);
    played(
        relay,
        first,
        |body| vec![body],
        |relay, request| match reply(relay, request) {
            Some(rest) => Reply::Stream(rest.into(), Fault::Clean),
            None => Reply::Ended(refusal()),
        },
    )
}

/// Returns a stream with this cut, and the end of its transport.
fn first_stream(dialect: Dialect, kind: SlotKind, cut: FirstCut) -> (String, Fault) {
    let with = |reason| answer(dialect, kind, &DOCUMENT[..CUT], reason).stream();
    match cut {
        FirstCut::Length => (with(Some("length")), Fault::Clean),
        FirstCut::PrematureStop => (with(Some(reason(kind))), Fault::Clean),
        FirstCut::Drop => (with(None), Fault::Dropped),
        FirstCut::Idle => (with(None), Fault::Stall),
        FirstCut::Error => (with(None) + super::faults::errors(dialect)[0], Fault::Clean),
    }
}

#[test]
fn a_stream_that_is_given_up_ends_like_its_first_cut() {
    let mut cases = 0;
    for (dialect, kind) in carried() {
        for cut in [
            FirstCut::Length,
            FirstCut::PrematureStop,
            FirstCut::Drop,
            FirstCut::Idle,
            FirstCut::Error,
        ] {
            for then in [Then::GoesWrong, Then::Stops, Then::Refused] {
                let (first, fault) = first_stream(dialect, kind, cut);
                let relay = relay(dialect).give_up(GiveUp::Leave);
                let mut calls = 0;
                let relayed = streamed(relay, &first, fault, |relay, request| {
                    calls += 1;
                    let delivered = relay.session().document().text();
                    let rest = (calls == 1 && then != Then::Refused)
                        .then(|| wrong_rest(dialect, request, delivered, then));
                    rest.map(|rest| answer(dialect, SlotKind::Text, &rest, Some("stop")).stream())
                });
                let body = String::from_utf8(relayed.body.clone()).unwrap();
                let (outcome, transport_end) = relayed.end().unwrap();
                let context = format!("{dialect} {kind:?} {cut:?} {then:?}: {outcome:?}\n{body}");
                assert_eq!(outcome.status(), Status::Incomplete, "{context}");
                assert!(calls >= 3, "{context}");
                let has_grown = relayed
                    .steps
                    .iter()
                    .any(|step| format!("{step:?}").contains("Joined"));
                assert_eq!(has_grown, then != Then::Refused, "{context}");
                let ended = read(dialect, &body);
                match cut {
                    FirstCut::Length | FirstCut::PrematureStop => {
                        // Open arguments end by the limit, so that no client calls the tool.
                        let cut = if kind == SlotKind::Arguments {
                            FirstCut::Length
                        } else {
                            cut
                        };
                        let (like, _) = first_stream(dialect, kind, cut);
                        assert_eq!(ended.finish, read(dialect, &like).finish, "{context}");
                        assert_eq!(transport_end, TransportEnd::Closed, "{context}");
                        assert_eq!(ended.error, None, "{context}");
                        check_form(dialect, &body);
                    }
                    FirstCut::Drop | FirstCut::Idle => {
                        assert!(
                            ended.finish.is_empty() && ended.error.is_none(),
                            "{context}"
                        );
                        assert_eq!(
                            (transport_end, ended.terminal),
                            (TransportEnd::Dropped, None),
                            "{context}"
                        );
                    }
                    FirstCut::Error => {
                        let is_error = ended
                            .error
                            .is_some_and(|message| message.contains("Overloaded"));
                        assert!(
                            is_error && ended.reasons.values().all(is_no_success),
                            "{context}"
                        );
                    }
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 11 * 5 * 3);
}

fn is_no_success(reason: &Finish) -> bool {
    !matches!(
        reason,
        Finish::Stop | Finish::ToolCalls | Finish::FunctionCall
    )
}

/// All ends have one order: a later, worse cut counts.
#[test]
fn a_later_cut_that_is_worse_than_the_first_counts() {
    for (first, second, expected) in [
        ("stop", "length", "length"),
        ("length", "stop", "length"),
        ("stop", "content_filter", "content_filter"),
        ("length", "content_filter", "content_filter"),
        ("length", "odd", "length"),
        ("stop", "odd", "odd"),
    ] {
        let first = answer(Dialect::Chat, SlotKind::Text, &DOCUMENT[..CUT], Some(first)).stream();
        let relay = relay(Dialect::Chat).give_up(GiveUp::Leave);
        let mut calls = 0;
        let relayed = streamed(relay, &first, Fault::Clean, |relay, request| {
            calls += 1;
            let rest = wrong_rest(
                Dialect::Chat,
                request,
                relay.session().document().text(),
                Then::Stops,
            );
            let rest = answer(Dialect::Chat, SlotKind::Text, &rest, Some("stop")).stream();
            let finish = |word: &str| format!(r#""finish_reason":"{word}""#);
            (calls == 1).then(|| rest.replace(&finish("stop"), &finish(second)))
        });
        let body = String::from_utf8(relayed.body).unwrap();
        assert_eq!(read(Dialect::Chat, &body).finish["0"], expected, "{body}");
    }
}

/// A call that delivered no text is repeated, and its end does not count.
#[test]
fn a_call_without_text_is_not_the_first_cut() {
    let relay = relay(Dialect::Chat).give_up(GiveUp::Leave);
    let mut calls = 0;
    let relayed = streamed(relay, "", Fault::Dropped, |_, _| {
        calls += 1;
        (calls == 1).then(|| {
            answer(
                Dialect::Chat,
                SlotKind::Text,
                &DOCUMENT[..CUT],
                Some("length"),
            )
            .stream()
        })
    });
    let body = String::from_utf8(relayed.body.clone()).unwrap();
    assert_eq!(relayed.end().unwrap().1, TransportEnd::Closed, "{body}");
    assert_eq!(read(Dialect::Chat, &body).finish["0"], "length", "{body}");
}

/// Plays a whole body and the calls after it. Returns the client's body.
fn whole(
    dialect: Dialect,
    give_up: GiveUp,
    first: &Value,
    mut reply: impl FnMut(&BodyRelay, &Request) -> Option<Value>,
) -> (String, Status) {
    let relay = BodyRelay::new(Limits::default())
        .dialect(dialect)
        .give_up(give_up);
    let relay = match dialect {
        Dialect::Completions => {
            relay.strategy(ContinuationStrategy::default().prefill(Default::default()))
        }
        _ => relay,
    };
    let (body, _, outcome) = through_body(relay, &first.to_string(), |relay, request| {
        reply(relay, request).map(|body| body.to_string())
    });
    (body, outcome.status())
}

/// Leaves out the arguments of Messages: in a body they are objects, so they are never cut.
fn carried_whole() -> impl Iterator<Item = (Dialect, SlotKind)> {
    carried().filter(|&(dialect, kind)| dialect != Dialect::Messages || kind == SlotKind::Text)
}

#[test]
fn a_body_that_is_given_up_ends_like_its_first_cut() {
    let mut cases = 0;
    for (dialect, kind) in carried_whole() {
        for cut in ["length", reason(kind)] {
            for then in [Then::GoesWrong, Then::Stops, Then::Refused] {
                let first = whole_body(dialect, kind, &DOCUMENT[..CUT], cut);
                let mut calls = 0;
                let (body, status) = whole(dialect, GiveUp::Leave, &first, |relay, request| {
                    calls += 1;
                    let delivered = relay.session().document().text();
                    let rest = (calls == 1 && then != Then::Refused)
                        .then(|| wrong_rest(dialect, request, delivered, then));
                    rest.map(|rest| whole_body(dialect, SlotKind::Text, &rest, "stop"))
                });
                let context = format!("{dialect} {kind:?} {cut} {then:?}: {body}");
                assert_eq!(status, Status::Incomplete, "{context}");
                let expected = if kind == SlotKind::Arguments {
                    "length"
                } else {
                    cut
                };
                let like = whole_body(dialect, kind, "", expected).to_string();
                assert_eq!(
                    read_body(dialect, &body).finish,
                    read_body(dialect, &like).finish,
                    "{context}"
                );
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 10 * 2 * 3);
}

/// The last call closes the root, and its limit or a lost connection cuts the prose after it.
#[test]
fn an_answer_that_is_completed_ends_as_a_success() {
    for (dialect, kind) in carried() {
        for last in [Some("length"), Some("stop"), None] {
            let first = answer(dialect, kind, &DOCUMENT[..CUT], Some("length")).stream();
            let relayed = streamed(
                relay(dialect).give_up(GiveUp::Leave),
                &first,
                Fault::Clean,
                |relay, request| {
                    let delivered = relay.session().document().text();
                    let rest = rest_of(dialect, DOCUMENT, request, delivered) + "\n\nI hope that";
                    Some(answer(dialect, SlotKind::Text, &rest, last).stream())
                },
            );
            let body = String::from_utf8(relayed.body.clone()).unwrap();
            let (outcome, _) = relayed.end().unwrap();
            let context = format!("{dialect} {kind:?} {last:?}: {outcome:?}\n{body}");
            assert_eq!(
                (outcome.status(), outcome.finish() == Some(&Finish::Length)),
                (Status::Complete, false),
                "{context}"
            );
            let like = answer(dialect, kind, DOCUMENT, Some(reason(kind))).stream();
            assert_eq!(
                read(dialect, &body).finish,
                read(dialect, &like).finish,
                "{context}"
            );
            check_form(dialect, &body);
        }
    }
    for (dialect, kind) in carried_whole() {
        for last in ["length", "stop"] {
            let first = whole_body(dialect, kind, &DOCUMENT[..CUT], "length");
            let (body, status) = whole(dialect, GiveUp::Leave, &first, |relay, request| {
                let delivered = relay.session().document().text();
                let rest = rest_of(dialect, DOCUMENT, request, delivered) + "\n\nI hope that";
                Some(whole_body(dialect, SlotKind::Text, &rest, last))
            });
            let context = format!("{dialect} {kind:?} {last}: {body}");
            assert_eq!(status, Status::Complete, "{context}");
            let like = whole_body(dialect, kind, DOCUMENT, reason(kind)).to_string();
            assert_eq!(
                read_body(dialect, &body).finish,
                read_body(dialect, &like).finish,
                "{context}"
            );
        }
    }
}

/// Two choices, the first cut by the limit and the second by a stop, or one by the limit and the
/// other by a lost connection.
#[test]
fn each_choice_that_is_given_up_ends_like_its_own_first_cut() {
    let chunk = |choice: u32, delta: Value, reason: Option<&str>| {
        let choice = json!({"index": choice, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "a", "choices": [choice]}))
    };
    let texts: String = (0..2)
        .map(|choice| chunk(choice, json!({"content": &DOCUMENT[..CUT]}), None))
        .collect();
    let both = texts.clone()
        + &chunk(0, json!({}), Some("length"))
        + &chunk(1, json!({}), Some("stop"))
        + "data: [DONE]\n\n";
    let one = texts + &chunk(0, json!({}), Some("length"));
    for (first, fault) in [(both, Fault::Clean), (one, Fault::Dropped)] {
        let relay = relay(Dialect::Chat)
            .request(Vec::new(), 2)
            .give_up(GiveUp::Leave);
        let mut calls = 0;
        let relayed = streamed(relay, &first, fault, |relay, request| {
            calls += 1;
            let rest = wrong_rest(
                Dialect::Chat,
                request,
                relay.session().document().text(),
                Then::GoesWrong,
            );
            // Three failures in a row end a choice. One call of each choice is joined.
            (calls == 1 || calls == 4)
                .then(|| answer(Dialect::Chat, SlotKind::Text, &rest, Some("stop")).stream())
        });
        let body = String::from_utf8(relayed.body.clone()).unwrap();
        let ended = read(Dialect::Chat, &body);
        let (_, transport_end) = relayed.end().unwrap();
        assert_eq!(calls, 6, "{body}");
        assert_eq!(
            ended.finish.get("0").map(String::as_str),
            Some("length"),
            "{body}"
        );
        // A lost choice has no finish reason.
        let (reason, expected) = match fault {
            Fault::Clean => (Some("stop"), TransportEnd::Closed),
            _ => (None, TransportEnd::Dropped),
        };
        assert_eq!(
            (ended.finish.get("1").map(String::as_str), transport_end),
            (reason, expected),
            "{body}"
        );
    }
}

/// Messages have one `stop_reason` for all blocks: that of the block that ended worst.
#[test]
fn a_shared_reason_is_that_of_the_worst_call() {
    let named = |data: &Value| {
        format!(
            "event: {}\ndata: {data}\n\n",
            data["type"].as_str().unwrap()
        )
    };
    let block = |index: u32| {
        let call = json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": "save", "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": &DOCUMENT[..CUT]});
        named(&json!({"type": "content_block_start", "index": index, "content_block": call}))
            + &named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let start = answer(Dialect::Messages, SlotKind::Text, "", None).stream();
    let start = &start[..start.find("event: content_block_start").unwrap()];
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}});
    let first = start.to_owned()
        + &block(0)
        + &block(1)
        + &named(&end)
        + &named(&json!({"type": "message_stop"}));
    for completed in [1, 4] {
        let mut calls = 0;
        let relayed = streamed(
            relay(Dialect::Messages).give_up(GiveUp::Leave),
            &first,
            Fault::Clean,
            |relay, request| {
                calls += 1;
                let rest = rest_of(
                    Dialect::Messages,
                    DOCUMENT,
                    request,
                    relay.session().document().text(),
                );
                (calls == completed).then(|| {
                    answer(Dialect::Messages, SlotKind::Text, &rest, Some("stop")).stream()
                })
            },
        );
        let body = String::from_utf8(relayed.body.clone()).unwrap();
        assert_eq!(
            read(Dialect::Messages, &body).finish["0"],
            "max_tokens",
            "{body}"
        );
        assert_eq!(relayed.end().unwrap().0.status(), Status::Incomplete);
    }
}
