//! Ollama's own API.

use restitch::internal::wire::Framing;
use restitch::provider::{Dialect, Finish};

use super::{
    PREFILL, REPROMPT, Rest, ask, ask_without_reasoning, ending, read_data, text, to_model,
    write_body, writer_after, written,
};

const WIRE: Dialect = Dialect::Ollama;

const CHAT: &str = r#"{"model":"m","created_at":"t1","message":{"role":"assistant","content":"[","thinking":"hm"},"done":false}"#;
const GENERATE: &str = r#"{"model":"m","created_at":"t1","response":"[","done":false}"#;

#[test]
fn lines_are_read() {
    let calls = r#"{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a": 1}}},{"id":"c","function":{"name":"g","arguments":{}}}]},"done":false}"#;
    let more = r#"{"message":{"tool_calls":[{"function":{"name":"h"}}]},"done":false}"#;
    let last = r#"{"message":{"content":"1]"},"done":true,"done_reason":"length","total_duration":9,"prompt_eval_count":2,"eval_count":3}"#;
    assert_eq!(
        read_data(WIRE, &[CHAT, calls, more, last]),
        [
            r#"Reasoning { slot: SlotId { item: 0, part: None, index: Own }, text: "hm" }"#,
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "[" }"#,
            "Chunk",
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "" }"#,
            r#"ToolCall { slot: SlotId { item: 0, part: Some(0), index: Own }, id: None, name: Some("f"), arguments: "{\"a\": 1}" }"#,
            r#"ToolCall { slot: SlotId { item: 0, part: Some(1), index: Own }, id: Some("c"), name: Some("g"), arguments: "{}" }"#,
            "Chunk",
            r#"ToolCall { slot: SlotId { item: 0, part: Some(2), index: Own }, id: None, name: Some("h"), arguments: "" }"#,
            "Chunk",
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "1]" }"#,
            r#"Usage { raw: "{\"prompt_eval_count\":2,\"eval_count\":3}" }"#,
            r#"Finish { choice: 0, reason: Length, word: "length" }"#,
            r#"Done { word: "done:true" }"#,
            "Chunk",
        ]
    );
    let generate = read_data(
        WIRE,
        &[GENERATE, r#"{"response":"","thinking":"a","done":true}"#],
    );
    assert_eq!(generate.len(), 6, "{generate:?}");
    assert!(
        generate[2].starts_with("Reasoning") && generate[4].starts_with("Done"),
        "{generate:?}"
    );
    let error = read_data(WIRE, &[r#"{"error":"busy"}"#]);
    assert!(
        error[0].contains("message: \"busy\"") && error[1] == "Error",
        "{error:?}"
    );
    assert_eq!(WIRE.wire().framing(), Framing::Lines);
}

#[test]
fn lines_are_recognized() {
    for (data, known) in [
        (CHAT, Some(true)),
        (GENERATE, Some(true)),
        (r#"{"done":true}"#, Some(false)),
        (r#"{"message":{"content":"x"}}"#, Some(false)),
        (r#"{"error":"busy"}"#, None),
        (r#"{"error":{}}"#, Some(false)),
    ] {
        assert_eq!(WIRE.wire().recognizes("message", data), known, "{data}");
    }
}

#[test]
fn lines_of_a_prompt_are_written() {
    let mut writer = writer_after(WIRE, &[("message", GENERATE)]);
    let line = |text: &str, rest: &str| {
        format!("{{\"model\":\"m\",\"created_at\":\"t1\",\"response\":{text},\"done\":{rest}}}\n")
    };
    assert_eq!(
        written(|out| writer.text(out, text(0), "\"1")),
        line("\"\\\"1\"", "false")
    );
    assert_eq!(written(|out| writer.keep_alive(out)), line("\"\"", "false"));
    let usage = r#"{"prompt_eval_count":2,"eval_count":3}"#;
    let end =
        r#"true,"done_reason":"stop","prompt_eval_count":2,"eval_count":3,"restitch":{"calls":2}"#;
    assert_eq!(
        written(|out| writer.finish(out, &[], &ending(&[(0, Finish::ToolCalls)], usage))),
        line("\"\"", end)
    );
    let other = r#"{"model":"m2","created_at":"t2","response":"1","done":true,"done_reason":"stop","eval_count":3,"x":1}"#;
    assert_eq!(
        written(|out| writer.adopt(out, "message", other)),
        format!("{}\n", other.replace("m2", "m"))
    );
    assert_eq!(
        writer.without_end(other),
        r#"{"model":"m2","created_at":"t2","response":"1","done":false,"x":1}"#
    );
    assert_eq!(
        writer.with_text(GENERATE, "x").unwrap(),
        GENERATE.replace("\"[\"", "\"x\"")
    );
    assert_eq!(
        writer.with_text(CHAT, "x").unwrap(),
        CHAT.replace("\"[\"", "\"x\"")
    );
}

#[test]
fn a_body_of_a_prompt_is_written() {
    let end = ending(&[(0, Finish::Stop)], r#"{"eval_count":5}"#);
    assert_eq!(
        write_body(
            WIRE,
            r#"{"response":"[1","done":true}"#,
            text(0),
            "[1]",
            &end
        ),
        r#"{"response":"[1]","done":true,"done_reason":"stop","eval_count":5,"restitch":{"calls":2}}"#
    );
}

#[test]
fn requests_are_read() {
    let parse = |body: &str| WIRE.wire().parse("/api/chat", body.as_bytes());
    let request = parse(
        r#"{"model":"m","messages":[{}],"format":"json","think":"high","options":{"num_predict":9,"stop":["x"]},"tools":[{"function":{"name":"f","parameters":{}}}]}"#,
    )
    .unwrap();
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
    let request =
        parse(r#"{"prompt":"Go","stream":false,"think":false,"options":{"num_predict":-1}}"#)
            .unwrap();
    assert!(
        !request.stream
            && !request.has_json_mode
            && !request.wants_reasoning
            && request.max_tokens.is_none()
    );
    // Prompts and messages have paths of their own, which a fallback of this API has, too.
    assert_eq!(
        WIRE.wire().path_like("/api/generate", "m").as_deref(),
        Some("/api/generate")
    );
    assert_eq!(WIRE.wire().path_like("/api/chat", "m"), None);
    // These only load or unload a model.
    for body in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","prompt":""}"#,
        r#"{"messages":[]}"#,
    ] {
        assert_eq!(parse(body), None, "{body}");
    }
}

#[test]
fn the_rest_is_asked_for() {
    let chat = r#"{"model":"m", "messages":[{"role":"user","content":"Go"}], "format":"json", "tools":[], "stream":true}"#;
    let (model, user) = (
        r#"{"role":"assistant","content":"[1"}"#,
        r#"{"role":"user","content":"Go \"on\""}"#,
    );
    let kept = r#"{"model":"m", "messages":[{"role":"user","content":"Go"}"#;
    assert_eq!(
        ask(WIRE, chat, REPROMPT),
        format!("{kept},{model},{user}], \"stream\":true}}")
    );
    assert_eq!(
        ask(WIRE, chat, PREFILL),
        format!("{kept},{model}], \"stream\":true}}")
    );
    let blank = Rest::Reprompt {
        delivered: "",
        prompt: "Go \"on\"",
    };
    assert_eq!(
        ask(WIRE, chat, blank),
        format!("{kept},{user}], \"stream\":true}}")
    );

    let generate = r#"{"prompt":"G\u006f","format":{},"raw":true,"context":[1],"images":[]}"#;
    let rest = r#","raw":true,"context":[1],"images":[]}"#;
    assert_eq!(
        ask(WIRE, generate, PREFILL),
        format!(r#"{{"prompt":"G\u006f[1"{rest}"#)
    );
    assert_eq!(
        ask(WIRE, generate, REPROMPT),
        format!(r#"{{"prompt":"G\u006f[1\n\nGo \"on\""{rest}"#)
    );

    let body = r#"{"prompt":"Go","format":"json","options":{"num_predict":5}}"#;
    assert_eq!(
        ask_without_reasoning(WIRE, body, None, ("think", "false")),
        r#"{"prompt":"Go","format":"json","options":{"num_predict":7},"think":false}"#
    );
    assert_eq!(
        to_model(WIRE, r#"{"model":"a","prompt":"Go"}"#, "b").unwrap(),
        r#"{"model":"b","prompt":"Go"}"#
    );
}
