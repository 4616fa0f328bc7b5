//! Legacy Completions.

use restitch::internal::chat::Adaptation;
use restitch::provider::capability::PrefillForm;
use restitch::provider::{Dialect, Finish};

use super::{
    PREFILL, REPROMPT, Rest, ask, ask_without_reasoning, ending, read, read_data, writer_after,
    written,
};

const WIRE: Dialect = Dialect::Completions;

const FIRST: &str = r#"{"id":"c1","object":"text_completion","created":5,"choices":[{"text":"[","index":0,"logprobs":null,"finish_reason":null}],"model":"m","usage":null}"#;

#[test]
fn events_are_read() {
    let last = r#"{"choices":[{"text":"1]","index":1,"finish_reason":"length"},{"text":"x"}],"usage":{"total_tokens":3}}"#;
    assert_eq!(
        read_data(WIRE, &[FIRST, last, "[DONE]"]),
        [
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "[" }"#,
            "Chunk",
            r#"Text { slot: SlotId { item: 1, part: None, index: Own }, text: "1]" }"#,
            r#"Finish { choice: 1, reason: Length, word: "length" }"#,
            r#"Text { slot: SlotId { item: 1, part: None, index: Own }, text: "x" }"#,
            r#"Usage { raw: "{\"total_tokens\":3}" }"#,
            "Chunk",
            r#"Done { word: "[DONE]" }"#,
            "Done",
        ]
    );
    for (event_type, data) in [
        ("message", r#"{"error":{"message":"busy"}}"#),
        ("message", r#"{"object":"error","message":"busy"}"#),
        ("error", r#"{"message":"busy"}"#),
        ("error", "busy"),
    ] {
        let seen = read(WIRE, &[(event_type, data)]);
        assert!(
            seen[0].contains(r#"message: "busy""#) && seen[1] == "Error",
            "{seen:?}"
        );
    }
}

#[test]
fn halves_of_a_pair_join() {
    let chunk = |text: &str| format!(r#"{{"choices":[{{"text":"{text}"}}]}}"#);
    let seen = read_data(WIRE, &[&chunk(r"a\ud83d"), &chunk(r"\ude00")]);
    assert!(
        seen[0].contains(r#"text: "a""#) && seen[2].contains("text: \"😀\""),
        "{seen:?}"
    );
}

#[test]
fn events_are_recognized() {
    let wire = WIRE.wire();
    for (data, known) in [
        (FIRST, Some(true)),
        (r#"{"choices":[{"text":""}]}"#, Some(true)),
        (r#"{"choices":[{"delta":{}}]}"#, Some(false)),
        (r#"{"choices":[]}"#, None),
        (r#"{"error":{}}"#, None),
        (r#"{"type":"ping"}"#, Some(false)),
        ("[DONE]", None),
    ] {
        assert_eq!(wire.recognizes("message", data), known, "{data}");
    }
}

#[test]
fn a_usage_may_have_an_event_of_its_own() {
    let mut writer = writer_after(WIRE, &[("message", FIRST)]);
    let head = r#"data: {"id":"c1","object":"text_completion","created":5,"model":"m","choices":["#;
    let reasons = [(0, Finish::Stop)];
    let mut apart = ending(&reasons, "{\"a\":1}");
    apart.usage_apart = true;
    assert_eq!(
        written(|out| writer.finish(out, &[], &apart)),
        format!(
            "{head}{{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}}]}}\n\n\
             {head}],\"usage\":{{\"a\":1}},\"restitch\":{{\"calls\":2}}}}\n\n"
        )
    );
}

#[test]
fn requests_are_read() {
    let parse = |body: &str| WIRE.wire().parse("/v1/completions", body.as_bytes());
    let request = parse(
        r#"{"model":"m","prompt":"Go","stream":true,"n":2,"stop":["x"],"max_tokens":9,"response_format":{"type":"json_object"}}"#,
    )
    .unwrap();
    assert_eq!(
        (
            request.model.as_str(),
            request.stream,
            request.n,
            request.max_tokens
        ),
        ("m", true, 2, Some(9))
    );
    assert!(
        request.has_stop
            && request.has_json_mode
            && !request.wants_reasoning
            && request.tools.is_empty()
    );
    assert!(parse(r#"{"prompt":["Go"]}"#).is_some());
    assert!(parse(r#"{"prompt":"Go","suffix":null,"echo":false,"best_of":1}"#).is_some());
    for body in [
        r#"{"prompt":["a","b"]}"#,
        r#"{"prompt":[1,2]}"#,
        r#"{"prompt":[[1,2]]}"#,
        r#"{"prompt":[]}"#,
        r#"{"prompt":"Go","echo":true}"#,
        r#"{"prompt":"Go","suffix":"x"}"#,
        r#"{"prompt":"Go","best_of":2}"#,
        r#"{"messages":[]}"#,
    ] {
        assert_eq!(parse(body), None, "{body}");
    }
    assert!(WIRE.wire().always_continues());
}

#[test]
fn the_prompt_is_continued() {
    let body =
        r#"{"model":"m", "prompt":"G\u006f\ud83d", "n":1, "response_format":{}, "stream":true}"#;
    assert_eq!(
        ask(WIRE, body, PREFILL),
        r#"{"model":"m", "prompt":"G\u006f\ud83d[1", "stream":true}"#
    );
    assert_eq!(
        ask(WIRE, body, REPROMPT),
        r#"{"model":"m", "prompt":"G\u006f\ud83d[1\n\nGo \"on\"", "stream":true}"#
    );
    let exact = Rest::Prefill {
        delivered: " \n\"",
        form: PrefillForm::None,
    };
    assert_eq!(
        ask(WIRE, r#"{"prompt":["Go"]}"#, exact),
        r#"{"prompt":["Go \n\""]}"#
    );
    let body = r#"{"prompt":"Go","max_tokens":5,"response_format":{}}"#;
    assert_eq!(
        ask_without_reasoning(WIRE, body, Some(&PREFILL), ("think", "false")),
        r#"{"prompt":"Go[1","max_tokens":7,"response_format":{},"think":false}"#
    );
    let adaptation = Adaptation {
        model: Some("b"),
        without: Some("x"),
        ..Adaptation::default()
    };
    assert_eq!(
        WIRE.wire()
            .adapt(r#"{"model":"a","prompt":"","x":1}"#, &adaptation)
            .unwrap(),
        r#"{"model":"b","prompt":""}"#
    );
    assert_eq!(
        WIRE.wire()
            .adapt(r#"{"prompt":""}"#, &Adaptation::default()),
        None
    );
}
