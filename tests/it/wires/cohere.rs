//! Cohere's Chat, version 2.

use restitch::internal::wire::{Ending, Slot, SlotKind};
use restitch::provider::{Dialect, Finish, SlotId};

use super::{
    PREFILL, REPROMPT, Rest, ask, ask_without_reasoning, ending, events, read, read_body,
    read_data, text, to_model, write_body, writer_after, written,
};

const WIRE: Dialect = Dialect::Cohere;

const CALL: Slot = Slot {
    id: SlotId::of(0),
    kind: SlotKind::Arguments,
};

const START: (&str, &str) = (
    "message-start",
    r#"{"id":"i1","type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}"#,
);
const TEXT_START: (&str, &str) = (
    "content-start",
    r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
);
const CALL_START: (&str, &str) = (
    "tool-call-start",
    r#"{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","type":"function","function":{"name":"f","arguments":""}}}}}"#,
);

#[test]
fn events_are_read() {
    let delta = |event_type: &str, message: &str| {
        format!(r#"{{"type":"{event_type}","index":1,"delta":{{"message":{message}}}}}"#)
    };
    let end = r#"{"type":"message-end","delta":{"finish_reason":"MAX_TOKENS","usage":{"tokens":{"output_tokens":3}}}}"#;
    assert_eq!(
        read_data(
            WIRE,
            &[
                START.1,
                &delta("content-delta", r#"{"content":{"thinking":"hm"}}"#),
                &delta("content-delta", r#"{"content":{"text":"[1"}}"#),
                r#"{"type":"content-end","index":1}"#,
                &delta("tool-plan-delta", r#"{"tool_plan":"I will"}"#),
                CALL_START.1,
                &delta(
                    "tool-call-delta",
                    r#"{"tool_calls":{"function":{"arguments":"{\"a"}}}"#
                ),
                r#"{"type":"tool-call-end","index":1}"#,
                r#"{"type":"citation-start","index":0}"#,
                end,
                "[DONE]",
            ]
        ),
        [
            "Chunk",
            r#"Reasoning { slot: SlotId { item: 1, part: None, index: Own }, text: "hm" }"#,
            "Chunk",
            r#"Text { slot: SlotId { item: 1, part: None, index: Own }, text: "[1" }"#,
            "Chunk",
            "SlotEnd { slot: SlotId { item: 1, part: None, index: Own } }",
            "Chunk",
            r#"Reasoning { slot: SlotId { item: 0, part: None, index: Own }, text: "I will" }"#,
            "Chunk",
            r#"ToolCall { slot: SlotId { item: 0, part: None, index: Own }, id: Some("c"), name: Some("f"), arguments: "" }"#,
            "Chunk",
            r#"ToolCall { slot: SlotId { item: 1, part: None, index: Own }, id: None, name: None, arguments: "{\"a" }"#,
            "Chunk",
            "SlotEnd { slot: SlotId { item: 1, part: None, index: Own } }",
            "Chunk",
            "Chunk",
            r#"Usage { raw: "{\"tokens\":{\"output_tokens\":3}}" }"#,
            r#"Finish { choice: 0, reason: Length, word: "MAX_TOKENS" }"#,
            r#"Done { word: "message-end" }"#,
            "Chunk",
            r#"Done { word: "message-end+[DONE]" }"#,
            "Done",
        ]
    );
    // The type may be in the name of the event alone.
    assert_eq!(
        read(WIRE, &[("content-end", r#"{"index":2}"#)])[0],
        "SlotEnd { slot: SlotId { item: 2, part: None, index: Own } }"
    );
    assert_eq!(
        read_data(WIRE, &["[DONE]"])[0],
        r#"Done { word: "[DONE]" }"#
    );
}

#[test]
fn each_end_has_a_reason() {
    for (word, reason) in [
        ("COMPLETE", "Stop"),
        ("STOP_SEQUENCE", "Stop"),
        ("MAX_TOKENS", "Length"),
        ("ERROR_LIMIT", "Length"),
        ("TOOL_CALL", "ToolCalls"),
        ("ERROR_TOXIC", "ContentFilter"),
        ("ERROR", r#"Other("ERROR")"#),
    ] {
        let end = format!(r#"{{"type":"message-end","delta":{{"finish_reason":"{word}"}}}}"#);
        assert_eq!(
            read_data(WIRE, &[&end])[0],
            format!("Finish {{ choice: 0, reason: {reason}, word: \"{word}\" }}")
        );
    }
    for (event_type, data) in [
        ("message", r#"{"message":"busy","id":"i"}"#),
        ("error", r#"{"message":"busy"}"#),
        ("error", "busy"),
        (
            "message-end",
            r#"{"type":"message-end","delta":{"error":"busy"}}"#,
        ),
    ] {
        let seen = read(WIRE, &[(event_type, data)]);
        assert!(
            seen[0].contains("message: \"busy\"") && seen.last().unwrap() == "Error",
            "{seen:?}"
        );
    }
}

#[test]
fn events_are_recognized() {
    for (event_type, data, known) in [
        (START.0, START.1, Some(true)),
        ("content-end", r#"{"index":0}"#, Some(true)),
        (
            "message",
            r#"{"message":{"role":"assistant"},"finish_reason":"COMPLETE"}"#,
            Some(true),
        ),
        ("message", r#"{"type":"message_start"}"#, Some(false)),
        ("message", r#"{"message":{"content":"x"}}"#, Some(false)),
        ("message", "[DONE]", None),
    ] {
        assert_eq!(WIRE.wire().recognizes(event_type, data), known, "{data}");
    }
}

#[test]
fn a_call_and_a_text_may_have_one_number() {
    let mut writer = writer_after(
        WIRE,
        &[
            START,
            TEXT_START,
            ("content-end", r#"{"type":"content-end","index":0}"#),
            CALL_START,
        ],
    );
    assert_eq!(
        written(|out| {
            writer.text(out, CALL, "{\"a");
            writer.finish(out, &[], &ending(&[(0, Finish::ToolCalls)], "{}"));
            writer.done(out);
        }),
        "event: tool-call-delta\ndata: {\"type\":\"tool-call-delta\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"function\":{\"arguments\":\"{\\\"a\"}}}}}\n\n\
         event: tool-call-end\ndata: {\"type\":\"tool-call-end\",\"index\":0}\n\n\
         event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"TOOL_CALL\",\"usage\":{}},\"restitch\":{\"calls\":2}}\n\n\
         data: [DONE]\n\n"
    );
}

#[test]
fn events_are_changed() {
    let mut writer = writer_after(WIRE, &[("message", START.1)]);
    // The first answer has no names of events.
    assert!(
        written(|out| writer.text(out, text(0), "1"))
            .starts_with("data: {\"type\":\"content-start\"")
    );
    let end = r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{},"x":1}}"#;
    assert_eq!(
        (
            writer.without_end(end).as_str(),
            writer.without_end(START.1).as_str()
        ),
        ("", START.1)
    );
    assert_eq!(
        writer.with_text(TEXT_START.1, "x").unwrap(),
        TEXT_START.1.replace(r#""text":"""#, r#""text":"x""#)
    );
    assert_eq!(
        writer.with_text(CALL_START.1, "x").unwrap(),
        CALL_START
            .1
            .replace(r#""arguments":"""#, r#""arguments":"x""#)
    );
    assert_eq!(writer.with_text(end, "x"), None);
    let adopted = written(|out| writer.adopt(out, CALL_START.0, CALL_START.1));
    assert!(
        adopted.ends_with(&format!("data: {}\n\n", CALL_START.1)),
        "{adopted}"
    );
}

#[test]
fn a_second_answer_goes_on_where_the_first_broke_off() {
    let thinking = (
        "content-start",
        r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}}"#,
    );
    let end = ("content-end", r#"{"type":"content-end","index":0}"#);
    let delta = (
        "content-delta",
        r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"1"}}}}"#,
    );
    let call_end = ("tool-call-end", r#"{"type":"tool-call-end","index":0}"#);
    let adopted = |first: &[(&str, &str)], second: &[(&str, &str)]| {
        let mut writer = writer_after(WIRE, first);
        let stream = written(|out| {
            second
                .iter()
                .for_each(|(name, data)| writer.adopt(out, name, data));
            writer.finish(out, &[], &ending(&[(0, Finish::Stop)], "{}"));
            writer.done(out);
        });
        let short = |(name, data): &(String, String)| match data.find(r#""index":"#) {
            Some(at) => format!("{name} {}", &data[at + 8..=at + 8]),
            None => name.clone(),
        };
        events(WIRE, stream.as_bytes())
            .iter()
            .map(short)
            .collect::<Vec<_>>()
    };
    let ends = ["message-end", "message"];
    // The open text takes the second one.
    assert_eq!(
        adopted(&[START, TEXT_START], &[START, TEXT_START, delta, end]),
        [&["content-delta 0", "content-end 0"][..], &ends].concat()
    );
    // Open reasoning ends, and the second text has the next number.
    assert_eq!(
        adopted(
            &[START, thinking],
            &[START, TEXT_START, delta, end, CALL_START, call_end]
        ),
        [
            &[
                "content-end 0",
                "content-start 1",
                "content-delta 1",
                "content-end 1"
            ][..],
            &["tool-call-start 0", "tool-call-end 0"],
            &ends
        ]
        .concat()
    );
}

#[test]
fn bodies_are_read_and_written() {
    let body = r#"{"id":"i", "finish_reason": "MAX_TOKENS", "message": {"role":"assistant", "content": [{"type":"thinking","thinking":"hm"}, {"type":"text","text":"[1"}], "tool_calls": [{"id":"c","function":{"name":"f","arguments":"{"}}]}, "usage": {}}"#;
    let whole = read_body(WIRE, body);
    assert_eq!(
        (whole.text["1"].as_str(), whole.finish["0"].as_str()),
        ("[1", "MAX_TOKENS")
    );
    assert_eq!(
        (
            whole.reasoning["0"].as_str(),
            whole.tool_args["0"].args.as_str()
        ),
        ("hm", "{")
    );
    let end = ending(&[(0, Finish::Stop)], "{\"a\":1}");
    let ended = body.replace("MAX_TOKENS", "COMPLETE").replace(
        "\"usage\": {}}",
        "\"usage\": {\"a\":1},\"restitch\":{\"calls\":2}}",
    );
    assert_eq!(
        write_body(WIRE, body, text(1), "[1]", &end),
        ended.replace("\"[1\"", "\"[1]\"")
    );
    assert_eq!(
        write_body(WIRE, body, CALL, "{}", &end),
        ended.replace("\"{\"", "\"{}\"")
    );
    assert_eq!(
        read_body(WIRE, r#"{"message":"invalid"}"#).error.as_deref(),
        Some("invalid")
    );
    let call = r#"{"id":"c","function":{"name":"f","arguments":"{}"}}"#;
    let planned = read_body(
        WIRE,
        &format!(r#"{{"message":{{"tool_plan":"I call","tool_calls":[{call}]}}}}"#),
    );
    assert_eq!(
        (
            planned.reasoning["0"].as_str(),
            planned.tool_args["0"].args.as_str()
        ),
        ("I call", "{}")
    );
    // A text that the first body has not is added.
    let end = Ending {
        reasons: &[],
        usage: None,
        usage_apart: false,
        report: None,
    };
    for (content, expected) in [
        (
            r#""role":"assistant""#,
            r#""role":"assistant","content":[{"type":"text","text":"[1]"}]"#,
        ),
        (
            r#""content":null"#,
            r#""content":[{"type":"text","text":"[1]"}]"#,
        ),
        (
            r#""content":[{"type":"thinking","thinking":"hm"}]"#,
            r#""content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"[1]"}]"#,
        ),
    ] {
        let body = |message: &str| format!(r#"{{"id":"i","message":{{{message}}}}}"#);
        assert_eq!(
            write_body(WIRE, &body(content), text(1), "[1]", &end),
            body(expected)
        );
    }
}

#[test]
fn requests_are_read() {
    let body = r#"{"model":"m","messages":[],"stream":true,"stop_sequences":["x"],"response_format":{"type":"json_object"},"max_tokens":9,"thinking":{"type":"enabled"},"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}"#;
    let request = WIRE.wire().parse("/v2/chat", body.as_bytes()).unwrap();
    assert_eq!(
        (
            request.model.as_str(),
            request.stream,
            request.n,
            request.max_tokens
        ),
        ("m", true, 1, Some(9))
    );
    assert!(
        request.has_stop
            && request.has_json_mode
            && request.wants_reasoning
            && request.tools.len() == 1
    );
    let request = WIRE
        .wire()
        .parse(
            "/v2/chat",
            br#"{"messages":[],"thinking":{"type":"disabled"}}"#,
        )
        .unwrap();
    assert!(
        !request.stream && !request.has_stop && !request.has_json_mode && !request.wants_reasoning
    );
}

#[test]
fn the_rest_is_asked_for() {
    let body = r#"{"messages":[{"role":"user","content":"Go"}], "response_format":{"type":"json_object"}, "tools":[{}], "tool_choice":"REQUIRED", "max_tokens":5}"#;
    let (model, user) = (
        r#"{"role":"assistant","content":"[1"}"#,
        r#"{"role":"user","content":"Go \"on\""}"#,
    );
    let kept = r#"{"messages":[{"role":"user","content":"Go"}"#;
    assert_eq!(
        ask(WIRE, body, REPROMPT),
        format!("{kept},{model},{user}], \"max_tokens\":5}}")
    );
    assert_eq!(
        ask(WIRE, body, PREFILL),
        format!("{kept},{model}], \"max_tokens\":5}}")
    );
    let blank = Rest::Reprompt {
        delivered: "\n",
        prompt: "Go \"on\"",
    };
    assert_eq!(
        ask(WIRE, body, blank),
        format!("{kept},{user}], \"max_tokens\":5}}")
    );
    let calls = r#"{"messages":[{"role":"tool"}],"tools":[{}]}"#;
    assert_eq!(
        ask(WIRE, calls, PREFILL),
        format!(
            r#"{{"messages":[{{"role":"tool"}},{model}],"tools":[{{}}],"tool_choice":"NONE"}}"#
        )
    );
    let off = ("thinking", r#"{"type":"disabled"}"#);
    let body = r#"{"messages":[],"max_tokens":5,"response_format":{}}"#;
    assert_eq!(
        ask_without_reasoning(WIRE, body, Some(&PREFILL), off),
        format!(
            r#"{{"messages":[{model}],"max_tokens":7,"response_format":{{}},"thinking":{{"type":"disabled"}}}}"#
        )
    );
    assert_eq!(
        to_model(WIRE, r#"{"model":"a","messages":[]}"#, "b").unwrap(),
        r#"{"model":"b","messages":[]}"#
    );
}
