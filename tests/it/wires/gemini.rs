//! Gemini.

use restitch::Limits;
use restitch::internal::chat::{Adaptation, Changes};
use restitch::internal::relay::Relay;
use restitch::internal::wire::Tool;
use restitch::provider::Dialect;

use super::continued::{Fault, through};
use super::{
    PREFILL, REPROMPT, Rest, ask, ask_without_reasoning, read_body, read_data, to_model,
    writer_after,
};

const WIRE: Dialect = Dialect::Gemini;

const FIRST: &str = r#"{"candidates": [{"content": {"parts": [{"text": "["}],"role": "model"},"index": 0}],"usageMetadata": {"totalTokenCount": 3},"modelVersion": "m","responseId": "r1"}"#;

#[test]
fn events_are_read() {
    let second = r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":""},{"inlineData":{}},
        {"functionCall":{"name":"f","args":{"a": 1}}},{"functionCall":{"id":"c","name":"g"}}]}}]}"#;
    let third = r#"{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"h","args":{}}}]}},{"finishReason":"MAX_TOKENS"}]}"#;
    assert_eq!(
        read_data(WIRE, &[FIRST, second, third]),
        [
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "[" }"#,
            r#"Usage { raw: "{\"totalTokenCount\": 3}" }"#,
            "Chunk",
            r#"Reasoning { slot: SlotId { item: 0, part: None, index: Own }, text: "hm" }"#,
            r#"Text { slot: SlotId { item: 0, part: None, index: Own }, text: "" }"#,
            r#"ToolCall { slot: SlotId { item: 0, part: Some(0), index: Own }, id: None, name: Some("f"), arguments: "{\"a\": 1}" }"#,
            r#"ToolCall { slot: SlotId { item: 0, part: Some(1), index: Own }, id: Some("c"), name: Some("g"), arguments: "" }"#,
            "Chunk",
            r#"ToolCall { slot: SlotId { item: 0, part: Some(2), index: Own }, id: None, name: Some("h"), arguments: "{}" }"#,
            r#"Finish { choice: 1, reason: Length, word: "MAX_TOKENS" }"#,
            "Chunk",
        ]
    );
    assert_eq!(
        read_data(WIRE, &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]),
        [
            r#"Refusal { slot: SlotId { item: 0, part: None, index: Own }, text: "SAFETY" }"#,
            "Chunk"
        ]
    );
    let error = read_data(
        WIRE,
        &["{\n  \"error\": {\"code\": 499, \"message\": \"cancelled\"}\n}"],
    );
    assert!(
        error[0].contains("message: \"cancelled\"") && error[1] == "Error",
        "{error:?}"
    );
}

#[test]
fn each_end_has_a_reason() {
    for (word, reason) in [
        ("STOP", "Stop"),
        ("MAX_TOKENS", "Length"),
        ("SAFETY", "ContentFilter"),
        ("RECITATION", "ContentFilter"),
        ("BLOCKLIST", "ContentFilter"),
        ("PROHIBITED_CONTENT", "ContentFilter"),
        ("SPII", "ContentFilter"),
        (
            "MALFORMED_FUNCTION_CALL",
            r#"Other("MALFORMED_FUNCTION_CALL")"#,
        ),
    ] {
        let seen = read_data(
            WIRE,
            &[&format!(
                r#"{{"candidates":[{{"finishReason":"{word}"}}]}}"#
            )],
        );
        assert_eq!(
            seen[0],
            format!("Finish {{ choice: 0, reason: {reason}, word: \"{word}\" }}")
        );
    }
}

#[test]
fn events_are_recognized() {
    for (data, known) in [
        (FIRST, Some(true)),
        (r#"{"promptFeedback":{}}"#, Some(true)),
        (r#"{"error":{}}"#, None),
        (r#"{"choices":[]}"#, Some(false)),
        ("[DONE]", None),
    ] {
        assert_eq!(WIRE.wire().recognizes("message", data), known, "{data}");
    }
}

#[test]
fn a_text_takes_the_place_of_the_text() {
    let writer = writer_after(WIRE, &[]);
    let with = |candidate: &str| {
        writer
            .with_text(&format!(r#"{{"candidates":[{candidate}]}}"#), "new")
            .unwrap()
    };
    for (candidate, expected) in [
        (
            r#"{"content":{"parts":[{"text":"a"}]}}"#,
            r#"{"content":{"parts":[{"text":"new"}]}}"#,
        ),
        (
            r#"{"content":{"parts":[{"text":"t","thought":true},{"text":"ne"},{"x":1},{"text":"b"}]}}"#,
            r#"{"content":{"parts":[{"text":"t","thought":true},{"text":"ne"},{"x":1},{"text":"w"}]}}"#,
        ),
        (
            r#"{"content":{"parts":[{"text":"a"},{"text":"b"}]}}"#,
            r#"{"content":{"parts":[{"text":""},{"text":"new"}]}}"#,
        ),
        (
            r#"{"content":{"parts":[]}}"#,
            r#"{"content":{"parts":[{"text":"new"}]}}"#,
        ),
        (
            r#"{"content":{"role":"model"}}"#,
            r#"{"content":{"role":"model","parts":[{"text":"new"}]}}"#,
        ),
        (
            r#"{"index":0}"#,
            r#"{"index":0,"content":{"parts":[{"text":"new"}],"role":"model"}}"#,
        ),
    ] {
        assert_eq!(with(candidate), format!(r#"{{"candidates":[{expected}]}}"#));
    }
}

#[test]
fn a_body_may_be_an_array() {
    assert_eq!(
        read_body(WIRE, &format!("[{FIRST},\r\n{FIRST}]")).text["0"],
        "[["
    );
}

#[test]
fn requests_are_read() {
    let parse = |path: &str, body: &str| WIRE.wire().parse(path, body.as_bytes());
    let camel = r#"{"contents":[],"generationConfig":{"candidateCount":2,"stopSequences":["x"],"responseMimeType":"application/json",
        "maxOutputTokens":9,"thinkingConfig":{"thinkingBudget":-1}},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"a":1}}]}]}"#;
    let snake = r#"{"contents":[],"generation_config":{"candidate_count":2,"stop_sequences":["x"],"response_mime_type":"application/json",
        "max_output_tokens":9,"thinking_config":{"thinking_budget":-1}},"tools":[{"function_declarations":[{"name":"f","parameters":{"a":1}}]}]}"#;
    let request = parse("/v1beta/models/gem:streamGenerateContent", camel).unwrap();
    assert_eq!(
        (
            request.model.as_str(),
            request.stream,
            request.n,
            request.max_tokens
        ),
        ("gem", true, 2, Some(9))
    );
    assert!(request.has_stop && request.has_json_mode && request.wants_reasoning);
    assert_eq!(
        (
            request.tools[0].name.as_str(),
            request.tools[0].schema.as_deref()
        ),
        ("f", Some(r#"{"a":1}"#))
    );
    assert_eq!(
        parse("/v1beta/models/gem:streamGenerateContent", snake).unwrap(),
        request
    );
    let plain = r#"{"contents":[],"generationConfig":{"responseMimeType":"text/plain","thinkingConfig":{"thinkingBudget":0}}}"#;
    let request = parse("/v1/models/m:generateContent", plain).unwrap();
    assert!(
        !request.stream && !request.has_json_mode && !request.wants_reasoning && request.n == 1
    );
    let schema = r#"{"contents":[],"generationConfig":{"responseJsonSchema":{}}}"#;
    assert!(
        parse("/v1/models/m:generateContent", schema)
            .unwrap()
            .has_json_mode
    );
    assert_eq!(parse("/v1/models/m:countTokens", plain), None);
}

#[test]
fn the_rest_is_asked_for() {
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"Go"}]}], "generationConfig":{"temperature":0,"responseMimeType":"application/json","responseSchema":{},"candidateCount":1},"tools":[{}],"toolConfig":{}}"#;
    let model = r#"{"role":"model","parts":[{"text":"[1"}]}"#;
    let user = r#"{"role":"user","parts":[{"text":"Go \"on\""}]}"#;
    let kept = r#"{"contents":[{"role":"user","parts":[{"text":"Go"}]}"#;
    let config = r#"], "generationConfig":{"temperature":0}}"#;
    assert_eq!(
        ask(WIRE, body, REPROMPT),
        format!("{kept},{model},{user}{config}")
    );
    assert_eq!(ask(WIRE, body, PREFILL), format!("{kept},{model}{config}"));
    let blank = Rest::Reprompt {
        delivered: " ",
        prompt: "Go \"on\"",
    };
    assert_eq!(ask(WIRE, body, blank), format!("{kept},{user}{config}"));

    // A history with calls keeps its tools, and no tool may be called.
    let calls = r#"{"contents":[{"parts":[{"function_call":{}}]}],"tools":[{}],"tool_config":{"x":1},"generation_config":{"response_mime_type":"a","max_output_tokens":5}}"#;
    let off = ("thinkingConfig", r#"{"thinkingBudget":0}"#);
    assert_eq!(
        ask_without_reasoning(WIRE, calls, Some(&PREFILL), off),
        format!(
            "{{\"contents\":[{{\"parts\":[{{\"function_call\":{{}}}}]}},{model}],\"tools\":[{{}}],\
             \"tool_config\":{{\"functionCallingConfig\":{{\"mode\":\"NONE\"}}}},\
             \"generation_config\":{{\"response_mime_type\":\"a\",\"max_output_tokens\":7,\"thinkingConfig\":{{\"thinkingBudget\":0}}}}}}"
        )
    );
    // No configuration yet: it is added where it is needed.
    assert_eq!(
        ask_without_reasoning(WIRE, r#"{"contents":[]}"#, None, off),
        r#"{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}"#
    );
    // The built-in table has the switch of the Chat Completions API, which is an unknown name here.
    let effort = ("reasoning_effort", r#""none""#);
    let body = r#"{"contents":[],"generationConfig":{"topK":1}}"#;
    assert_eq!(
        ask_without_reasoning(WIRE, body, None, effort),
        r#"{"contents":[],"generationConfig":{"topK":1,"thinkingConfig":{"thinkingBudget":0}}}"#
    );
    // Another switch is a member of the request; what is edited already is no switch.
    let ask_without =
        |key: &str, body: &str| ask_without_reasoning(WIRE, body, Some(&PREFILL), (key, "false"));
    let prefilled = r#"{"contents":[{"role":"model","parts":[{"text":"[1"}]}]"#;
    assert_eq!(
        ask_without("thinks", r#"{"contents":[]}"#),
        format!("{prefilled},\"thinks\":false}}")
    );
    assert_eq!(
        ask_without("tools", r#"{"contents":[],"tools":[{}]}"#),
        format!("{prefilled},\"tools\":false}}")
    );
    assert_eq!(
        ask_without("contents", r#"{"contents":[]}"#),
        format!("{prefilled}}}")
    );
    let adaptation = Adaptation {
        without: Some("x"),
        ..Adaptation::default()
    };
    assert_eq!(
        WIRE.wire()
            .adapt(
                r#"{"contents":[],"x":1,"generationConfig":{}}"#,
                &adaptation
            )
            .unwrap(),
        r#"{"contents":[],"generationConfig":{}}"#
    );
    assert_eq!(to_model(WIRE, r#"{"contents":[]}"#, "other"), None);
}

/// A fallback's model is asked with the method of the client's path.
#[test]
fn a_path_names_another_model() {
    let like = |path: &str, model: &str| WIRE.wire().path_like(path, model);
    for (path, model, expected) in [
        (
            "/v1beta/models/a:streamGenerateContent",
            "b",
            "/models/b:streamGenerateContent",
        ),
        (
            "/v1/models/a:generateContent",
            "tunedModels/b c",
            "/tunedModels/b%20c:generateContent",
        ),
    ] {
        assert_eq!(like(path, model).as_deref(), Some(expected));
    }
    assert_eq!(like("/v1beta/models/a:countTokens", "b"), None);
}

/// Arguments are objects that come whole: a call without them has none, however the answer ends.
#[test]
fn a_call_without_arguments_passes() {
    let call = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"q1","name":"f"}}],"role":"model"},"finishReason":"MAX_TOKENS","index":0}]}"#;
    let first = format!("data: {call}\r\n\r\n");
    let tool = Tool {
        name: "f".to_owned(),
        schema: Some(r#"{"required":["a"]}"#.to_owned()),
    };
    let relay = Relay::new(Limits::default())
        .dialect(Dialect::Gemini)
        .request(vec![tool], 1);
    let received = through(relay, first.as_bytes(), Fault::Clean, 64, "");
    assert_eq!((received.body, received.calls), (first, 0));
}

#[test]
fn a_token_is_put_into_the_original_request() {
    for (body, expected) in [
        (
            r#"{"contents":[{"parts":[]}],"tools":[],"generationConfig":{"maxOutputTokens":5}}"#,
            r#"{"contents":[{"parts":[]}],"tools":[],"generationConfig":{"maxOutputTokens":5},"continuationToken":"t\n"}"#,
        ),
        (
            r#"{"continuationToken":"a","contents":[]}"#,
            r#"{"continuationToken":"t\n","contents":[]}"#,
        ),
        (
            r#"{"contents":[],"continuation_token":"a"}"#,
            r#"{"contents":[],"continuationToken":"t\n"}"#,
        ),
    ] {
        let changes = Changes {
            token: Some(r#""t\n""#),
            ..Changes::default()
        };
        assert_eq!(WIRE.wire().ask(body, None, &changes).unwrap(), expected);
    }
}
