//! OpenAI's Responses API.

use restitch::internal::chat::{Adaptation, Changes, Rest};
use restitch::internal::wire::{Dialect, Ending, Slot, SlotKind, SlotText, Wire, Writer};
use restitch::provider::capability::PrefillForm;
use restitch::provider::{Finish, SlotId};
use serde_json::{Value, json};

use super::recorded::{Event, deltas, named, show, transcript, written};
use super::{ask_without_reasoning, to_model};

fn wire() -> &'static dyn Wire {
    Dialect::Responses.wire()
}

fn check(lines: &[&str], expected: &[&str]) {
    assert_eq!(
        deltas(Dialect::Responses, &named(lines)),
        expected,
        "{lines:?}"
    );
}

const TEXT: Slot = Slot {
    id: SlotId::part(0, 0),
    kind: SlotKind::Text,
};
const CALL: Slot = Slot {
    id: SlotId::of(1),
    kind: SlotKind::Arguments,
};

const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","incomplete_details":null,"model":"m","output":[],"usage":null}}"#;
const MESSAGE: &str = r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#;
const PART: &str = r#"{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#;
const DELTA: &str = r#"{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"[1,","logprobs":[]}"#;
const TEXT_DONE: &str = r#"{"type":"response.output_text.done","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"text":"[1,","logprobs":[]}"#;
const PART_DONE: &str = r#"{"type":"response.content_part.done","sequence_number":5,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[{"a":1}],"logprobs":[],"text":"[1,"}}"#;
const MESSAGE_DONE: &str = r#"{"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"id":"msg_1","type":"message","status":"incomplete","content":[{"type":"output_text","annotations":[{"a":1}],"logprobs":[],"text":"[1,"}],"role":"assistant"}}"#;
const INCOMPLETE: &str = r#"{"type":"response.incomplete","sequence_number":7,"response":{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[{"id":"msg_1","type":"message","status":"incomplete","content":[{"type":"output_text","annotations":[{"a":1}],"logprobs":[],"text":"[1,"}],"role":"assistant"}],"usage":{"input_tokens":1,"output_tokens":2}}}"#;
const FUNCTION: &str = r#"{"type":"response.output_item.added","sequence_number":7,"output_index":1,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"f"}}"#;
const ARGUMENTS: &str = r#"{"type":"response.function_call_arguments.delta","sequence_number":8,"item_id":"fc_1","output_index":1,"delta":"{\"a\":"}"#;

#[test]
fn paths() {
    for path in [
        "/v1/responses",
        "/openai/responses",
        "/x/openai/v1/responses",
    ] {
        assert_eq!(Dialect::of_path(path), Some(Dialect::Responses), "{path}");
    }
    for path in [
        "/v1/responses/r/cancel",
        "/v1/responses/r",
        "/responses/compact",
    ] {
        assert_ne!(Dialect::of_path(path), Some(Dialect::Responses), "{path}");
    }
}

#[test]
fn events_are_recognized() {
    let cases = [
        (CREATED, Some(true)),
        (DELTA, Some(true)),
        (r#"{"object":"response","output":[]}"#, Some(true)),
        (r#"{"type":"error","message":"x"}"#, None),
        (r#"{"type":"message_start"}"#, Some(false)),
        (r#"{"choices":[]}"#, Some(false)),
    ];
    for (data, expected) in cases {
        assert_eq!(wire().recognizes("message", data), expected, "{data}");
    }
}

#[test]
fn what_only_the_last_events_have_is_read_once() {
    let done = r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#;
    let item = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","arguments":"{\"a\":1}","call_id":"call_1","name":"f"}}"#;
    let end = ["end 1", "Chunk"];
    let start = ["call 1 call_1 f \"\"", "Chunk"];
    check(
        &[FUNCTION, ARGUMENTS, done, item],
        &[
            start[0],
            start[1],
            r#"call 1 - - "{\"a\":""#,
            "Chunk",
            r#"call 1 - - "1}""#,
            end[0],
            end[1],
            "Chunk",
        ],
    );
    check(
        &[FUNCTION, item],
        &[
            start[0],
            start[1],
            r#"call 1 - - "{\"a\":1}""#,
            end[0],
            end[1],
        ],
    );
    check(
        &[item],
        &[start[0], r#"call 1 - - "{\"a\":1}""#, end[0], end[1]],
    );
    // A text that differs from what was read adds nothing.
    let other = r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"b\":1}"}"#;
    check(
        &[FUNCTION, ARGUMENTS, other],
        &[
            start[0],
            start[1],
            r#"call 1 - - "{\"a\":""#,
            "Chunk",
            end[0],
            end[1],
        ],
    );
    check(
        &[
            r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]},{"type":"function_call","name":"f","call_id":"c","arguments":""}]}}"#,
        ],
        &[
            r#"text 0.0 "x""#,
            r#"call 1 c f """#,
            "finish 0 ToolCalls completed",
            "done response.completed",
            "Done",
        ],
    );
}

#[test]
fn calls_of_all_types_and_other_texts() {
    check(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"mcp_call","name":"f"}}"#,
            r#"{"type":"response.mcp_call_arguments.delta","output_index":0,"delta":"a"}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"i","type":"code_interpreter_call"}}"#,
            r#"{"type":"response.code_interpreter_call_code.delta","output_index":1,"delta":"\ud83d"}"#,
            r#"{"type":"response.code_interpreter_call_code.delta","output_index":1,"delta":"\ude00"}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"i","call_id":"c","type":"custom_tool_call","name":"g"}}"#,
            r#"{"type":"response.custom_tool_call_input.delta","output_index":2,"delta":"b"}"#,
            r#"{"type":"response.refusal.delta","output_index":3,"content_index":1,"delta":"no"}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":4,"summary_index":1,"delta":"hm"}"#,
            r#"{"type":"response.reasoning_text.delta","output_index":4,"content_index":1,"delta":"so"}"#,
            r#"{"type":"response.web_search_call.searching","output_index":5}"#,
            r#"{"type":"keepalive","sequence_number":3}"#,
            "nothing",
        ],
        &[
            r#"call 0 - f """#,
            "Chunk",
            r#"call 0 - - "a""#,
            "Chunk",
            "Chunk",
            r#"call 1 - - """#,
            "Chunk",
            r#"call 1 - - "😀""#,
            "Chunk",
            r#"call 2 c g """#,
            "Chunk",
            r#"call 2 - - "b""#,
            "Chunk",
            r#"refusal 3.1 "no""#,
            "Chunk",
            r#"reasoning 4.1 "hm""#,
            "Chunk",
            r#"reasoning 4.65537 "so""#,
            "Chunk",
            "Chunk",
            "Other",
            "Other",
        ],
    );
}

/// A text whose deltas did not come is in the event that ends it, or in that of its part. It is
/// read once.
#[test]
fn texts_without_deltas_are_read_from_their_ends() {
    check(
        &[
            r#"{"type":"response.refusal.done","output_index":0,"content_index":1,"refusal":"no"}"#,
            r#"{"type":"response.content_part.done","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":"no"}}"#,
            r#"{"type":"response.reasoning_text.done","output_index":1,"content_index":1,"text":"so"}"#,
            r#"{"type":"response.content_part.done","output_index":2,"content_index":0,"part":{"type":"refusal","refusal":"never"}}"#,
            r#"{"type":"response.content_part.done","output_index":2,"content_index":1,"part":{"type":"new","text":"x"}}"#,
        ],
        &[
            r#"refusal 0.1 "no""#,
            "end 0.1",
            "Chunk",
            "Chunk",
            r#"reasoning 1.65537 "so""#,
            "Chunk",
            r#"refusal 2.0 "never""#,
            "end 2.0",
            "Chunk",
            "Chunk",
        ],
    );
}

#[test]
fn ends_and_errors() {
    for (response, expected) in [
        (r#""status":"completed""#, "finish 0 Stop completed"),
        (
            r#""status":"incomplete","incomplete_details":{"reason":"content_filter"}"#,
            "finish 0 ContentFilter incomplete:content_filter",
        ),
        (
            r#""status":"incomplete""#,
            r#"finish 0 Other("incomplete") incomplete"#,
        ),
    ] {
        let data = format!(r#"{{"type":"response.completed","response":{{{response}}}}}"#);
        check(&[&data], &[expected, "done response.completed", "Done"]);
    }
    check(
        &[
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"c","message":"no"}}}"#,
        ],
        &[
            r#"finish 0 Other("failed") failed"#,
            r#"error "no" {"code":"c","message":"no"}"#,
            "done response.failed",
            "Error",
        ],
    );
    check(
        &[r#"{"type":"error","code":"c","message":"no"}"#],
        &[
            r#"error "no" {"type":"error","code":"c","message":"no"}"#,
            "Error",
        ],
    );
    check(
        &[r#"{"type":"error","error":{"message":"no"}}"#],
        &[r#"error "no" {"message":"no"}"#, "Error"],
    );
}

fn begun(lines: &[&str]) -> Box<dyn Writer> {
    let mut writer = wire().writer();
    for (name, data) in named(lines) {
        writer.observe(&name, &data);
    }
    writer
}

fn ending<'a>(
    reasons: &'a [(u32, Finish)],
    usage: Option<&'a str>,
    report: Option<&'a str>,
) -> Ending<'a> {
    Ending {
        reasons,
        usage,
        usage_apart: false,
        report,
    }
}

/// Checks that the numbers of events go on without a gap, and returns the data of each.
fn numbered(events: &[Event]) -> Vec<Value> {
    let events: Vec<Value> = events
        .iter()
        .map(|(_, data)| serde_json::from_str(data).unwrap())
        .collect();
    let numbers: Vec<_> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64())
        .collect();
    assert_eq!(
        numbers,
        (0..).map(Some).take(events.len()).collect::<Vec<_>>()
    );
    events
}

/// A refusal is no text to continue, and ends as one, whichever of its events have come.
#[test]
fn a_refusal_that_is_open_is_ended() {
    let part = r#"{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"refusal","refusal":""}}"#;
    let delta = r#"{"type":"response.refusal.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"no"}"#;
    let done = r#"{"type":"response.refusal.done","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"refusal":"no"}"#;
    let sent = [CREATED, MESSAGE, part, delta, done];
    for count in [4, 5] {
        let (mut writer, mut out) = (begun(&sent[..count]), Vec::new());
        writer.finish(&mut out, &[], &ending(&[(0, Finish::Stop)], None, None));
        let all = [named(&sent[..count]), written(&out)].concat();
        let events = numbered(&all);
        let ends = events
            .iter()
            .filter(|event| event["type"] == "response.refusal.done")
            .count();
        assert_eq!((events.len(), ends), (8, 1), "{events:?}");
        assert_eq!(
            (&events[4]["refusal"], &events[4].get("logprobs")),
            (&json!("no"), &None)
        );
        assert_eq!(
            events[7]["response"]["output"][0]["content"],
            json!([{"type": "refusal", "refusal": "no"}])
        );
        assert_eq!(
            json!(transcript(Dialect::Responses, &all, false).refusal),
            json!({"0.0": "no"})
        );
    }
}

#[test]
fn a_slot_that_the_client_does_not_know_is_started() {
    let reasoning = r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#;
    let sent = [CREATED, reasoning];
    let (mut writer, mut out) = (begun(&sent), Vec::new());
    let slot = Slot {
        id: SlotId::part(0, 0),
        kind: SlotKind::Text,
    };
    writer.text(&mut out, slot, "a");
    writer.text(&mut out, slot, "b");
    let texts = [SlotText { slot, text: "ab" }];
    writer.finish(&mut out, &texts, &ending(&[(0, Finish::Stop)], None, None));
    let all = [named(&sent), written(&out)].concat();
    let events = numbered(&all);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| {
            event["type"]
                .as_str()
                .unwrap()
                .trim_start_matches("response.")
        })
        .collect();
    assert_eq!(
        kinds[2..],
        [
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_item.done",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    assert!(events[2..6].iter().all(|event| event["output_index"] == 1));
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"][1]["content"][0]["text"], "ab");
    assert_eq!(
        transcript(Dialect::Responses, &all, false).text["1.0"],
        "ab"
    );
}

#[test]
fn a_server_without_numbers_gets_none() {
    let created = CREATED.replace(r#""sequence_number":0,"#, "");
    let (mut writer, mut out) = (begun(&[&created]), Vec::new());
    writer.text(&mut out, TEXT, "a");
    writer.report(&mut out, "{}");
    assert!(!String::from_utf8(out).unwrap().contains("sequence_number"));
}

#[test]
fn events_beside_the_answer() {
    let (mut writer, mut out) = (begun(&[CREATED]), Vec::new());
    writer.keep_alive(&mut out);
    writer.report(&mut out, "{}");
    writer.error(&mut out, "no", "incomplete", "{}");
    writer.done(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            ": keep-alive\n\n",
            "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":1,\"restitch\":{}}\n\n",
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"code\":\"incomplete\",\"message\":\"no\",\"param\":null,",
            "\"error\":{\"type\":\"upstream_error\",\"code\":\"incomplete\",\"message\":\"no\",\"param\":null},\"restitch\":{}}\n\n",
        )
    );
}

const REASONING: &str = r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#;
const REASONING_DONE: &str = r#"{"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#;

/// Writes what the client gets of an answer that broke off, and then of a second answer, which has
/// other ids. Checks the numbers, and that every item that has begun ends.
fn adopted(
    first: &[&str],
    second: &[&str],
    then: impl Fn(&mut dyn Writer, &mut Vec<u8>),
) -> Vec<Value> {
    let (mut writer, mut out) = (begun(first), Vec::new());
    for data in second {
        writer.adopt(&mut out, "", &data.replace("_1\"", "_2\""));
    }
    then(&mut *writer, &mut out);
    let events = numbered(&[named(first), written(&out)].concat());
    let places = |name: &str| {
        let of_name = events.iter().filter(|event| event["type"] == name);
        let mut places: Vec<_> = of_name
            .map(|event| event["output_index"].as_u64().unwrap())
            .collect();
        places.sort_unstable();
        places
    };
    let added = places("response.output_item.added");
    assert_eq!(added, (0..added.len() as u64).collect::<Vec<_>>());
    if events.last().unwrap()["type"] == "response.completed" {
        assert_eq!(added, places("response.output_item.done"));
    }
    events
}

fn complete(writer: &mut dyn Writer, out: &mut Vec<u8>) {
    writer.finish(out, &[], &ending(&[(0, Finish::Stop)], None, None));
}

fn ids(response: &Value) -> Vec<&str> {
    response["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}

#[test]
fn a_second_answers_items_follow_those_of_the_first() {
    let at_1 = |data: &str| data.replace(r#""output_index":0"#, r#""output_index":1"#);
    let message = [MESSAGE, PART, DELTA, TEXT_DONE, PART_DONE, MESSAGE_DONE].map(at_1);
    let second = [
        &[CREATED, REASONING, REASONING_DONE][..],
        &message.each_ref().map(String::as_str),
    ]
    .concat();
    let events = adopted(&[CREATED, REASONING], &second, complete);
    let end = &events.last().unwrap()["response"];
    assert_eq!(end["id"], "resp_1");
    assert_eq!(ids(end), ["rs_1", "rs_2", "msg_2"]);
    assert_eq!(
        end["output"][2]["content"][0]["annotations"],
        json!([{"a": 1}])
    );
    let delta = events
        .iter()
        .find(|event| event["type"] == "response.output_text.delta")
        .unwrap();
    assert_eq!(
        (&delta["output_index"], &delta["item_id"]),
        (&json!(2), &json!("msg_2"))
    );
}

#[test]
fn an_open_call_ends_before_a_second_answer() {
    let call = FUNCTION.replace(
        r#""sequence_number":7,"output_index":1"#,
        r#""sequence_number":1,"output_index":0"#,
    );
    let second = [
        CREATED,
        MESSAGE,
        PART,
        DELTA,
        TEXT_DONE,
        PART_DONE,
        MESSAGE_DONE,
    ];
    let events = adopted(&[CREATED, &call], &second, complete);
    let names: Vec<_> = events[2..5]
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.output_item.added"
        ]
    );
    assert_eq!(ids(&events.last().unwrap()["response"]), ["fc_1", "msg_2"]);
}

#[test]
fn a_second_answer_that_is_cut_is_continued_in_its_item() {
    let second = [
        CREATED,
        MESSAGE,
        PART,
        DELTA,
        TEXT_DONE,
        PART_DONE,
        MESSAGE_DONE,
    ];
    for first in [&[CREATED, MESSAGE][..], &[CREATED, MESSAGE, PART]] {
        let events = adopted(first, &second, |writer, out| {
            writer.text(out, TEXT, "2]");
            complete(writer, out);
        });
        let names: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        let ends = names.iter().filter(|name| name.ends_with(".done")).count();
        assert_eq!((names.len(), ends), (9, 3), "{names:?}");
        assert_eq!(
            events.last().unwrap()["response"]["output"][0]["content"][0]["text"],
            "[1,2]"
        );
    }
}

#[test]
fn a_second_answer_that_fails_has_the_first_ones_name() {
    let failed = r#"{"type":"response.failed","sequence_number":2,"response":{"id":"resp_1","status":"failed","output":[],"error":{"message":"no"}}}"#;
    let events = adopted(
        &[CREATED, REASONING],
        &[CREATED, MESSAGE, failed],
        |_, _| {},
    );
    let end = &events.last().unwrap()["response"];
    assert_eq!(
        (&end["id"], &end["error"]["message"]),
        (&json!("resp_1"), &json!("no"))
    );
    assert_eq!(ids(end), ["rs_1", "msg_2"]);
}

#[test]
fn an_own_event_that_is_written_again_keeps_its_number() {
    let (mut writer, mut out) = (begun(&[CREATED, MESSAGE, PART, DELTA]), Vec::new());
    let edited = writer.with_text(DELTA, "[2").unwrap();
    assert_eq!(edited, DELTA.replace("[1,", "[2"));
    writer.rewrite(&mut out, "response.output_text.delta", &edited);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!("event: response.output_text.delta\ndata: {edited}\n\n")
    );
    assert_eq!(writer.with_text(TEXT_DONE, "a"), None);
    assert_eq!(writer.without_end(DELTA), DELTA);
    assert_eq!(writer.without_end(INCOMPLETE), "");
}

#[test]
fn bodies_are_read_and_written() {
    let body = r#"{"id":"r", "object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null,"output":[{"type":"reasoning"},{"type":"message","status":"incomplete","content":[{"type":"output_text","text":"[1"}]},{"type":"function_call","call_id":"c","name":"f","status":"incomplete","arguments":"{"}],"usage":{"output_tokens":2}}"#;
    let mut seen = Vec::new();
    assert!(wire().read_body(body, &mut |delta| seen.push(show(&delta))));
    assert_eq!(
        seen,
        [
            r#"text 1.0 "[1""#,
            r#"call 2 c f """#,
            r#"call 2 - - "{""#,
            "finish 0 Length incomplete:max_output_tokens",
            r#"usage {"output_tokens":2}"#,
        ]
    );
    let texts = [
        SlotText {
            slot: Slot {
                id: SlotId::part(1, 0),
                kind: SlotKind::Text,
            },
            text: "[1,2]",
        },
        SlotText {
            slot: Slot {
                id: SlotId::of(2),
                kind: SlotKind::Arguments,
            },
            text: "{}",
        },
    ];
    let reasons = [(0, Finish::ToolCalls)];
    assert_eq!(
        wire()
            .write_body(body, &texts, &ending(&reasons, Some("{}"), Some("{}")))
            .unwrap(),
        r#"{"id":"r", "object":"response","status":"completed","incomplete_details":null,"error":null,"output":[{"type":"reasoning"},{"type":"message","status":"completed","content":[{"type":"output_text","text":"[1,2]"}]},{"type":"function_call","call_id":"c","name":"f","status":"completed","arguments":"{}"}],"usage":{},"restitch":{}}"#
    );
    // The answer was cut before its message, or before the part.
    let text = [SlotText {
        slot: TEXT,
        text: "[1]",
    }];
    let part = r#"{"type":"output_text","annotations":[],"logprobs":[],"text":"[1]"}"#;
    let message = |item: &str| {
        format!(r#"{{"output":[{{{item}}}],"status":"completed","incomplete_details":null}}"#)
    };
    assert_eq!(
        wire()
            .write_body(r#"{"output":[]}"#, &text, &ending(&[], None, None))
            .unwrap(),
        message(&format!(
            r#""id":"msg_restitch","type":"message","status":"completed","role":"assistant","content":[{part}]"#
        ))
    );
    assert_eq!(
        wire()
            .write_body(
                &message(r#""type":"message","content":[]"#),
                &text,
                &ending(&[], None, None)
            )
            .unwrap(),
        message(&format!(
            r#""type":"message","content":[{part}],"status":"completed""#
        ))
    );
    let wrong = [SlotText {
        slot: CALL,
        text: "{}",
    }];
    assert_eq!(
        wire().write_body(r#"{"output":[]}"#, &wrong, &ending(&reasons, None, None)),
        None
    );
    assert_eq!(
        wire().write_body(body, &wrong, &ending(&reasons, None, None)),
        None
    );
    assert!(wire().read_body(r#"{"error":{"message":"no"}}"#, &mut |_| {}));
    assert!(!wire().read_body(r#"{"a":1}"#, &mut |_| {}));
}

#[test]
fn requests_are_parsed() {
    let body = br#"{"model":"m","input":"Go","stream":true,"max_output_tokens":9,"reasoning":{"effort":"low"},"text":{"format":{"type":"json_schema"}},"tools":[{"type":"function","name":"f","parameters":{"a":1}},{"type":"web_search"}]}"#;
    let request = wire().parse("/v1/responses", body).unwrap();
    assert!(
        request.stream && !request.has_stop && request.has_json_mode && request.wants_reasoning
    );
    assert_eq!(
        (request.model.as_str(), request.max_tokens, request.n),
        ("m", Some(9), 1)
    );
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.schema.as_deref()))
        .collect();
    assert_eq!(tools, [("f", Some(r#"{"a":1}"#))]);
    // In a conversation the question for the rest would stay.
    for body in [
        "{}",
        r#"{"input":1}"#,
        "[]",
        "{",
        r#"{"input":"Go","conversation":"c"}"#,
    ] {
        assert_eq!(wire().parse("", body.as_bytes()), None, "{body}");
    }
    assert!(
        wire()
            .parse("", br#"{"input":"Go","conversation":null}"#)
            .is_some()
    );
}

#[test]
fn the_rest_is_asked_for() {
    let rest = Rest::Reprompt {
        delivered: "[1",
        prompt: "go on",
    };
    let ask = |body: &str| wire().ask(body, Some(&rest), &Changes::default()).unwrap();
    // llama.cpp needs the type of an assistant's item.
    let added =
        r#"{"type":"message","role":"assistant","content":"[1"},{"role":"user","content":"go on"}"#;
    assert_eq!(
        ask(
            r#"{"input":"G\u006f", "previous_response_id":"r","store":false,"background":true,"text":{"format":{},"verbosity":"low"},"tools":[{"type":"function","name":"f"}],"tool_choice":"auto","parallel_tool_calls":true}"#
        ),
        format!(
            r#"{{"input":[{{"role":"user","content":"G\u006f"}},{added}], "previous_response_id":"r","store":false,"text":{{"verbosity":"low"}}}}"#
        )
    );
    let prefill = Rest::Prefill {
        delivered: "[1",
        form: PrefillForm::Turn,
    };
    assert_eq!(
        wire()
            .ask(r#"{"input":"Go"}"#, Some(&prefill), &Changes::default())
            .unwrap(),
        r#"{"input":[{"role":"user","content":"Go"},{"type":"message","role":"assistant","content":"[1"}]}"#
    );
    let calls =
        r#"{"type":"function_call","call_id":"c"},{"type":"function_call_output","call_id":"c"}"#;
    assert_eq!(
        ask(&format!(
            r#"{{"input":[{calls}],"tools":[{{"name":"f"}}],"text":{{"format":{{}}}}}}"#
        )),
        format!(r#"{{"input":[{calls},{added}],"tools":[{{"name":"f"}}],"tool_choice":"none"}}"#)
    );
}

#[test]
fn other_members_change_on_request() {
    let asked = |body: &str, off| ask_without_reasoning(Dialect::Responses, body, None, off);
    let ask = |body: &str| asked(body, ("reasoning_effort", r#""none""#));
    assert_eq!(
        ask(r#"{"input":[],"max_output_tokens":5,"reasoning":{"effort":"low","summary":"auto"}}"#),
        r#"{"input":[],"max_output_tokens":7,"reasoning":{"effort":"none","summary":"auto"}}"#
    );
    assert_eq!(
        ask(r#"{"input":[]}"#),
        r#"{"input":[],"reasoning":{"effort":"none"}}"#
    );
    assert_eq!(
        asked(r#"{"input":[],"thinking":true}"#, ("thinking", "false")),
        r#"{"input":[],"thinking":false}"#
    );
    let adapted = |body: &str| to_model(Dialect::Responses, body, "b").unwrap();
    assert_eq!(
        adapted(r#"{"input":[],"text":{"verbosity":"low"}}"#),
        r#"{"input":[],"text":{"verbosity":"low"},"model":"b"}"#
    );
    assert_eq!(
        adapted(r#"{"model":"a","input":[]}"#),
        r#"{"model":"b","input":[]}"#
    );
    assert_eq!(
        wire().adapt(r#"{"input":[]}"#, &Adaptation::default()),
        None
    );
}
