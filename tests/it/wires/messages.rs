//! Anthropic's Messages API.

use restitch::internal::chat::{Adaptation, Changes, Rest};
use restitch::internal::wire::{Dialect, Ending, Slot, SlotKind, SlotText, Wire, Writer};
use restitch::provider::capability::PrefillForm;
use restitch::provider::{Finish, SlotId};
use serde_json::{Value, json};

use super::recorded::{deltas, named, show, transcript, written};
use super::{ask_without_reasoning, to_model};

fn wire() -> &'static dyn Wire {
    Dialect::Messages.wire()
}

fn check(lines: &[&str], expected: &[&str]) {
    assert_eq!(
        deltas(Dialect::Messages, &named(lines)),
        expected,
        "{lines:?}"
    );
}

fn text_slot(index: u32) -> Slot {
    Slot {
        id: SlotId::of(index),
        kind: SlotKind::Text,
    }
}

fn call_slot(index: u32) -> Slot {
    Slot {
        id: SlotId::of(index),
        kind: SlotKind::Arguments,
    }
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":17,"output_tokens":1}}}"#;
const TEXT_START: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const CALL_START: &str = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}"#;

#[test]
fn paths() {
    for path in ["/v1/messages", "/anthropic/v1/messages"] {
        assert_eq!(Dialect::of_path(path), Some(Dialect::Messages), "{path}");
    }
    for path in [
        "/v1/threads/x/messages",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/messages/",
    ] {
        assert_ne!(Dialect::of_path(path), Some(Dialect::Messages), "{path}");
    }
}

#[test]
fn events_are_recognized() {
    let cases = [
        (START, Some(true)),
        (TEXT_START, Some(true)),
        (r#"{"type":"message","content":[]}"#, Some(true)),
        (r#"{"type":"ping"}"#, None),
        (r#"{"type":"error","error":{}}"#, None),
        (r#"{"type":"response.created"}"#, Some(false)),
        (r#"{"choices":[]}"#, Some(false)),
        ("[]", None),
    ];
    for (data, expected) in cases {
        assert_eq!(wire().recognizes("message", data), expected, "{data}");
    }
}

#[test]
fn a_stream_of_text_and_a_call() {
    check(
        &[
            START,
            TEXT_START,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\n\ud83d"}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            CALL_START,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\\"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":{}},"usage":{"input_tokens":null,"output_tokens":9,"iterations":[1]}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        &[
            r#"usage {"input_tokens":17}"#,
            "Chunk",
            r#"text 0 """#,
            "Chunk",
            r#"text 0 "a\n""#,
            "Chunk",
            "Other",
            r#"text 0 "😀""#,
            "Chunk",
            "Chunk",
            "end 0",
            "Chunk",
            r#"call 1 toolu_1 f """#,
            "Chunk",
            r#"call 1 - - "{\"a\\""#,
            "Chunk",
            "end 1",
            "Chunk",
            "finish 0 ToolCalls tool_use",
            r#"usage {"input_tokens":17,"iterations":[1],"output_tokens":9}"#,
            "Chunk",
            "done message_stop",
            "Done",
        ],
    );
}

#[test]
fn reasoning_and_blocks_of_other_types() {
    check(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"fallback","text":"no"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{"url":"x"}}}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"first"}}"#,
            r#"{"type":"new_event"}"#,
            "not json",
        ],
        &[
            "Chunk",
            r#"reasoning 0 "hm""#,
            "Chunk",
            "Chunk",
            "end 0",
            "Chunk",
            "Chunk",
            r#"call 2 - web "{\"url\":\"x\"}""#,
            "Chunk",
            r#"text 3 "first""#,
            "Chunk",
            "Other",
            "Other",
        ],
    );
}

/// Where a program calls tools, the message starts with whole blocks: they are read, and others
/// follow them.
#[test]
fn a_start_with_blocks() {
    let start = r#"{"type":"message_start","message":{"content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}],"usage":{"input_tokens":1}}}"#;
    check(
        &[start],
        &[
            r#"text 0 "hi""#,
            r#"call 1 c f "{\"a\":1}""#,
            r#"usage {"input_tokens":1}"#,
            "Chunk",
        ],
    );
    let mut out = Vec::new();
    begun(&[start]).text(&mut out, text_slot(9), "new");
    let new = written(&out);
    let (name, data) = &new[0];
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (name.as_str(), &data["index"]),
        ("content_block_start", &json!(2))
    );
}

#[test]
fn a_second_start_drops_what_came_before() {
    let more =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    let found = transcript(
        Dialect::Messages,
        &named(&[START, TEXT_START, more, START, TEXT_START, more]),
        false,
    );
    assert_eq!(json!(found.text), json!({"0": "x"}));
    check(
        &[START, START],
        &[
            r#"usage {"input_tokens":17}"#,
            "Chunk",
            "restart",
            r#"usage {"input_tokens":17}"#,
            "Chunk",
        ],
    );
}

#[test]
fn reasons_for_the_end() {
    for (word, expected) in [
        ("end_turn", "Stop"),
        ("stop_sequence", "Stop"),
        ("max_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("tool_use", "ToolCalls"),
        ("refusal", "ContentFilter"),
        ("pause_turn", r#"Other("pause_turn")"#),
    ] {
        let data = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}"}}}}"#);
        check(&[&data], &[&format!("finish 0 {expected} {word}"), "Chunk"]);
    }
}

#[test]
fn errors() {
    check(
        &[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#],
        &[
            r#"error "Overloaded" {"type":"overloaded_error","message":"Overloaded"}"#,
            "Error",
        ],
    );
    check(&[r#"{"error":"no"}"#], &[r#"error "no" "no""#, "Error"]);
    let event = [("error".to_owned(), "broken".to_owned())];
    assert_eq!(
        deltas(Dialect::Messages, &event),
        [r#"error "broken" broken"#, "Error"]
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

#[test]
fn other_members_of_the_end_are_written_again() {
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null,"container":{"id":"c"}},"context_management":{"applied_edits":[]},"usage":{"output_tokens":3}}"#;
    let mut writer = begun(&[START, TEXT_START, end]);
    let mut out = Vec::new();
    writer.finish(
        &mut out,
        &[],
        &ending(
            &[(0, Finish::Stop)],
            Some(r#"{"output_tokens":12}"#),
            Some(r#"{"n":1}"#),
        ),
    );
    writer.done(&mut out);
    let expected = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null,"container":{"id":"c"}},"context_management":{"applied_edits":[]},"usage":{"output_tokens":12},"restitch":{"n":1}}"#;
    assert!(
        String::from_utf8_lossy(&out).contains(expected),
        "{}",
        String::from_utf8_lossy(&out)
    );
}

#[test]
fn events_beside_the_answer() {
    let (mut writer, mut out) = (begun(&[START]), Vec::new());
    writer.keep_alive(&mut out);
    writer.report(&mut out, "{}");
    writer.error(&mut out, "no \"rest\"", "incomplete", "{}");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "event: ping\ndata: {\"type\":\"ping\",\"restitch\":{}}\n\n",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no \\\"rest\\\"\"},\"restitch\":{}}\n\n",
        )
    );
}

/// Writes what the client gets of an answer that broke off, and then of a second answer.
fn adopted(
    first: &[&str],
    second: &[&str],
    then: impl Fn(&mut dyn Writer, &mut Vec<u8>),
) -> Vec<Value> {
    let (mut writer, mut out) = (begun(first), Vec::new());
    second
        .iter()
        .for_each(|data| writer.adopt(&mut out, "", data));
    then(&mut *writer, &mut out);
    writer.finish(&mut out, &[], &ending(&[(0, Finish::Stop)], None, None));
    writer.done(&mut out);
    let all = [named(first), written(&out)].concat();
    all.iter()
        .map(|(_, data)| serde_json::from_str(data).unwrap())
        .collect()
}

/// Returns the events of blocks, in short.
fn blocks(events: &[Value]) -> Vec<String> {
    let of_blocks = events.iter().filter(|event| event["index"].is_u64());
    let short = |event: &Value| match event["type"]
        .as_str()
        .unwrap()
        .trim_start_matches("content_block_")
    {
        "start" => format!(
            "start {} {}",
            event["index"],
            event["content_block"]["type"].as_str().unwrap()
        ),
        "delta" => format!("delta {}", event["index"]),
        other => format!("{other} {}", event["index"]),
    };
    of_blocks.map(short).collect()
}

const THINKING: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#;
const THOUGHT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}, "x":1}"#;

fn second_with_thinking() -> [String; 12] {
    let at =
        |index: u32, data: &str| data.replacen(r#""index":0"#, &format!(r#""index":{index}"#), 1);
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"[1]"}}"#;
    let json = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    [
        START.to_owned(),
        THINKING.to_owned(),
        THOUGHT.to_owned(),
        stop.to_owned(),
        at(1, TEXT_START),
        at(1, text),
        r#"{"type":"ping"}"#.to_owned(),
        at(1, stop),
        CALL_START.replace(r#""index":1"#, r#""index":2"#),
        at(2, json),
        at(2, stop),
        String::new(),
    ]
}

#[test]
fn a_second_answers_blocks_follow_those_of_the_first() {
    let second = second_with_thinking();
    let second: Vec<&str> = second.iter().map(String::as_str).collect();
    let events = adopted(&[START, THINKING, THOUGHT], &second, |_, _| {});
    assert_eq!(
        blocks(&events),
        [
            "start 0 thinking",
            "delta 0",
            "stop 0",
            "start 1 thinking",
            "delta 1",
            "stop 1",
            "start 2 text",
            "delta 2",
            "stop 2",
            "start 3 tool_use",
            "delta 3",
            "stop 3",
        ]
    );
    assert_eq!(
        events
            .iter()
            .filter(|event| event["type"] == "message_start")
            .count(),
        1
    );
}

#[test]
fn an_open_text_block_takes_the_second_answers_text() {
    let second = second_with_thinking();
    let second: Vec<&str> = second.iter().map(String::as_str).collect();
    let begin = TEXT_START.replace(r#""text":"""#, r#""text":"[""#);
    let direct = [
        START,
        &begin,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"1]"}}"#,
    ];
    assert_eq!(
        blocks(&adopted(&[START, TEXT_START], &direct, |_, _| {})),
        ["start 0 text", "delta 0", "delta 0", "stop 0"]
    );
    // The second answer may break off, too.
    let twice = [&[START, TEXT_START][..], &direct].concat();
    assert_eq!(
        blocks(&adopted(&[START, TEXT_START], &twice, |_, _| {})),
        ["start 0 text", "delta 0", "delta 0", "stop 0"]
    );
    assert_eq!(
        blocks(&adopted(&[START, TEXT_START], &second, |_, _| {})),
        [
            "start 0 text",
            "start 1 thinking",
            "delta 1",
            "stop 1",
            "delta 0",
            "stop 0",
            "start 2 tool_use",
            "delta 2",
            "stop 2",
        ]
    );
}

#[test]
fn a_second_answer_that_is_cut_is_continued_in_its_block() {
    let second = second_with_thinking();
    let second: Vec<&str> = second[..8].iter().map(String::as_str).collect();
    let events = adopted(&[START, THINKING], &second, |writer, out| {
        writer.text(out, text_slot(1), "2]");
    });
    assert_eq!(
        blocks(&events)[1..],
        [
            "stop 0",
            "start 1 thinking",
            "delta 1",
            "stop 1",
            "start 2 text",
            "delta 2",
            "delta 2",
            "stop 2"
        ]
    );
}

#[test]
fn events_with_another_text_or_without_their_end() {
    let writer = begun(&[START]);
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}, "x":1}"#;
    assert_eq!(
        writer.with_text(delta, "é\"").unwrap(),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é\""}, "x":1}"#
    );
    assert_eq!(writer.with_text(r#"{"type":"ping"}"#, "a"), None);
    assert_eq!(writer.without_end(delta), delta);
    assert_eq!(
        writer.without_end(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
        ""
    );
}

#[test]
fn bodies_are_read_and_written() {
    let body = r#"{"id":"m", "type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"[1"}, {"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"stop_reason":"max_tokens","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let mut seen = Vec::new();
    assert!(wire().read_body(body, &mut |delta| seen.push(show(&delta))));
    assert_eq!(
        seen,
        [
            r#"reasoning 0 "hm""#,
            r#"text 1 "[1""#,
            r#"call 2 t f "{\"a\":1}""#,
            "finish 0 Length max_tokens",
            r#"usage {"input_tokens":1,"output_tokens":2}"#,
        ]
    );
    let texts = [
        SlotText {
            slot: text_slot(1),
            text: "[1,2]",
        },
        SlotText {
            slot: call_slot(2),
            text: r#"{"a":1,"b":2}"#,
        },
    ];
    let reasons = [(0, Finish::ToolCalls)];
    assert_eq!(
        wire()
            .write_body(
                body,
                &texts,
                &ending(&reasons, Some(r#"{"output_tokens":5}"#), Some("{}"))
            )
            .unwrap(),
        r#"{"id":"m", "type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"[1,2]"}, {"type":"tool_use","id":"t","name":"f","input":{"a":1,"b":2}}],"stop_reason":"tool_use","usage":{"output_tokens":5},"restitch":{}}"#
    );
    // Open arguments have no place in a body.
    let open = [SlotText {
        slot: call_slot(2),
        text: r#"{"a":1,"b"#,
    }];
    assert!(
        wire()
            .write_body(body, &open, &ending(&reasons, None, None))
            .unwrap()
            .contains(r#""input":{"a":1}"#)
    );
    let wrong = [SlotText {
        slot: text_slot(2),
        text: "",
    }];
    assert_eq!(
        wire().write_body(body, &wrong, &ending(&reasons, None, None)),
        None
    );

    assert!(wire().read_body(r#"{"type":"error","error":{"message":"no"}}"#, &mut |_| {}));
    assert!(!wire().read_body(r#"{"a":1}"#, &mut |_| {}));
    assert!(!wire().read_body("[", &mut |_| {}));
}

#[test]
fn requests_are_parsed() {
    let body = br#"{"model":"claude","max_tokens":64,"stream":true,"stop_sequences":["x"],"thinking":{"type":"adaptive"},
        "output_config":{"format":{"type":"json_schema"}},"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"web_search","name":"w"}],"messages":[]}"#;
    let request = wire().parse("/v1/messages", body).unwrap();
    assert!(request.stream && request.has_stop && request.has_json_mode && request.wants_reasoning);
    assert_eq!(
        (request.model.as_str(), request.max_tokens, request.n),
        ("claude", Some(64), 1)
    );
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.schema.as_deref()))
        .collect();
    assert_eq!(tools, [("f", Some(r#"{"type":"object"}"#)), ("w", None)]);
    let plain = wire()
        .parse(
            "",
            br#"{"messages":[],"thinking":{"type":"disabled"},"output_format":null}"#,
        )
        .unwrap();
    assert!(!plain.stream && !plain.has_stop && !plain.has_json_mode && !plain.wants_reasoning);
    for body in [
        "{}",
        r#"{"messages":"x"}"#,
        "[]",
        "{\"messages\":[]",
        "\u{0}",
    ] {
        assert_eq!(wire().parse("", body.as_bytes()), None, "{body}");
    }
}

fn ask(body: &str, rest: &Rest<'_>) -> String {
    wire().ask(body, Some(rest), &Changes::default()).unwrap()
}

const REPROMPT: Rest<'_> = Rest::Reprompt {
    delivered: "[1, \"é",
    prompt: "go on",
};
const PREFILL: Rest<'_> = Rest::Prefill {
    delivered: "[1",
    form: PrefillForm::Turn,
};

#[test]
fn the_rest_is_asked_for() {
    let body = r#"{"model":"m", "messages":[{"role":"user","content":"Go"}],"tools":[{"name":"f"}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled"},"output_format":{"type":"json_schema"},"output_config":{"effort":"low","format":{}}}"#;
    assert_eq!(
        ask(body, &REPROMPT),
        r#"{"model":"m", "messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"[1, \"é"},{"role":"user","content":"go on"}],"thinking":{"type":"enabled"},"output_config":{"effort":"low"}}"#
    );
    assert_eq!(
        ask(body, &PREFILL),
        r#"{"model":"m", "messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"[1"}],"output_config":{"effort":"low"}}"#
    );
    let only_form = r#"{"messages":[],"output_config":{"format":{}}}"#;
    assert_eq!(
        ask(
            only_form,
            &Rest::Reprompt {
                delivered: " ",
                prompt: "p"
            }
        ),
        r#"{"messages":[{"role":"user","content":"p"}]}"#
    );
    assert_eq!(wire().ask("{}", Some(&PREFILL), &Changes::default()), None);
}

#[test]
fn a_history_with_calls_keeps_its_tools() {
    let body = r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}],"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"}}"#;
    assert_eq!(
        ask(body, &PREFILL),
        r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]},{"role":"assistant","content":"[1"}],"tools":[{"name":"f"}],"tool_choice":{"type":"none"}}"#
    );
}

#[test]
fn the_clients_own_prefill_goes_on() {
    let cases = [
        (r#""{""#, r#""{[1""#),
        (
            r#"[{"type":"text","text":"\u0041"}]"#,
            r#"[{"type":"text","text":"\u0041[1"}]"#,
        ),
        (
            r#"[{"type":"image"}]"#,
            r#"[{"type":"image"},{"type":"text","text":"[1"}]"#,
        ),
    ];
    for (before, after) in cases {
        let body = |content: &str, more: &str| {
            format!(r#"{{"messages":[{{"role":"assistant","content":{content}}}{more}]}}"#)
        };
        assert_eq!(ask(&body(before, ""), &PREFILL), body(after, ""));
        let reprompt = Rest::Reprompt {
            delivered: "[1",
            prompt: "p",
        };
        assert_eq!(
            ask(&body(before, ""), &reprompt),
            body(after, r#",{"role":"user","content":"p"}"#)
        );
    }
}

#[test]
fn other_members_change_on_request() {
    let body = r#"{"messages":[],"max_tokens":5,"output_format":{"a":1}}"#;
    let rest = Rest::Reprompt {
        delivered: "",
        prompt: "p",
    };
    assert_eq!(
        ask_without_reasoning(
            Dialect::Messages,
            body,
            Some(&rest),
            ("thinking", r#"{"type":"disabled"}"#)
        ),
        r#"{"messages":[{"role":"user","content":"p"}],"max_tokens":7,"output_format":{"a":1},"thinking":{"type":"disabled"}}"#
    );
    assert_eq!(
        wire()
            .ask(
                body,
                None,
                &Changes {
                    max_tokens: Some(9),
                    ..Changes::default()
                }
            )
            .unwrap(),
        r#"{"messages":[],"max_tokens":9,"output_format":{"a":1}}"#
    );
}

#[test]
fn requests_are_adapted() {
    let body = r#"{"model":"a","messages":[],"tools":[{"name":"f"},{"type":"custom","name":"g"},{"type":"bash","name":"b"},{"name":"h","eager_input_streaming":false}]}"#;
    let streams = Adaptation {
        streams_arguments: true,
        ..Adaptation::default()
    };
    assert_eq!(
        wire().adapt(body, &streams).unwrap(),
        r#"{"model":"a","messages":[],"tools":[{"name":"f","eager_input_streaming":true},{"type":"custom","name":"g","eager_input_streaming":true},{"type":"bash","name":"b"},{"name":"h","eager_input_streaming":false}]}"#
    );
    assert_eq!(wire().adapt(r#"{"messages":[]}"#, &streams), None);
    assert_eq!(
        to_model(Dialect::Messages, r#"{"model":"a","messages":[]}"#, "b").unwrap(),
        r#"{"model":"b","messages":[]}"#
    );
}
