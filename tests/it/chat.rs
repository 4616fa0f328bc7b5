//! Chat Completions: each behaviour with its expected value.

use proptest::prelude::*;
use restitch::internal::chat::Transcript;
use restitch::internal::chat::{self, ChatReader};
use restitch::internal::json::walk;
use restitch::internal::wire::{Ending, Slot, SlotKind, SlotText, Writer};
use restitch::provider::{Dialect, Finish, Kind, SlotId};
use serde_json::{Value, json};

use crate::wires::recorded::show;

/// Reads events (a name before `|` if it is not `message`) and compares their deltas and the kind
/// of the last event.
fn check(data: &[&str], deltas: &[&str], kind: Kind) {
    let (mut reader, mut found, mut last) = (ChatReader::new(), Vec::new(), Kind::Other);
    for data in data {
        let (name, data) = data.split_once('|').unwrap_or(("message", data));
        last = reader.read(name, data, |delta| found.push(show(&delta)));
    }
    assert_eq!(found, deltas, "{data:?}");
    assert_eq!(last, kind, "{data:?}");
}

/// Returns a chunk whose first choice has these members.
fn choice(members: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{{members}}}]}}"#)
}

fn check_choice(members: &str, deltas: &[&str]) {
    check(&[&choice(members)], deltas, Kind::Chunk);
}

#[test]
fn text_comes_as_string_or_parts() {
    check_choice(
        r#""index":0,"delta":{"role":"assistant","content":"a\"b"}"#,
        &[r#"text 0 "a\"b""#],
    );
    check_choice(r#""index":2,"delta":{"content":"x"}"#, &[r#"text 2 "x""#]);
    check_choice(r#""delta":{"content":"x"}"#, &[r#"text 0 "x""#]);
    check_choice(r#""index":0,"delta":{"content":""}"#, &[r#"text 0 """#]);
    check_choice(r#""index":0,"delta":{"content":null}"#, &[]);
    check_choice(r#""index":0,"delta":{}"#, &[]);
    check_choice(r#""index":0,"delta":null"#, &[]);
    check_choice(
        r#""\u0069ndex":1,"delt\u0061":{"\u0063ontent":"x"}"#,
        &[r#"text 1 "x""#],
    );
    check_choice(
        r#""index":0,"delta":{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}"#,
        &[r#"text 0 "a""#, r#"text 0 "b""#],
    );
    check_choice(
        r#""index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#,
        &[r#"reasoning 0 "hm""#],
    );
    check_choice(
        r#""index":0,"delta":{"content":[{"type":"refusal","refusal":"no"}]}"#,
        &[r#"refusal 0 "no""#],
    );
}

#[test]
fn several_choices() {
    check(
        &[
            r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
        ],
        &[r#"text 1 "b""#, r#"text 0 "a""#, "finish 0 Stop stop"],
        Kind::Chunk,
    );
}

#[test]
fn thoughts_and_refusals() {
    check_choice(
        r#""index":0,"delta":{"reasoning_content":"r"}"#,
        &[r#"reasoning 0 "r""#],
    );
    check_choice(
        r#""index":0,"delta":{"content":"","reasoning":"r","reasoning_details":[{}]}"#,
        &[r#"reasoning 0 "r""#, r#"text 0 """#],
    );
    check_choice(
        r#""index":0,"delta":{"reasoning":"r","reasoning_content":"r"}"#,
        &[r#"reasoning 0 "r""#],
    );
    check_choice(
        r#""index":0,"delta":{"reasoning":"r","reasoning_content":null}"#,
        &[r#"reasoning 0 "r""#],
    );
    check_choice(
        r#""index":0,"delta":{"reasoning":{"a":1},"refusal":"no"}"#,
        &[r#"refusal 0 "no""#],
    );
}

#[test]
fn finish_follows_the_text_and_may_come_twice() {
    check_choice(
        r#""finish_reason":"length","index":0,"delta":{"content":"x"}"#,
        &[r#"text 0 "x""#, "finish 0 Length length"],
    );
    let last = choice(r#""index":0,"delta":{},"finish_reason":"stop""#);
    check(
        &[&last, &last],
        &["finish 0 Stop stop", "finish 0 Stop stop"],
        Kind::Chunk,
    );
    check_choice(r#""index":0,"delta":{},"finish_reason":null"#, &[]);
    check_choice(r#""index":0,"delta":{},"finish_reason":"""#, &[]);
    for (word, reason) in [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::FunctionCall),
        ("content_filter", Finish::ContentFilter),
        ("odd", Finish::Other("odd".to_owned())),
    ] {
        assert_eq!(Finish::from(word), reason);
        assert_eq!(reason.as_str(), word);
    }
    // Mistral's word for a limit.
    assert_eq!(Finish::from("model_length"), Finish::Length);
}

#[test]
fn usage_alone_or_with_choices() {
    check(
        &[r#"{"choices":[],"usage":{"total_tokens": 3}}"#],
        &[r#"usage {"total_tokens": 3}"#],
        Kind::Chunk,
    );
    check(
        &[
            r#"{"usage":{"t":1},"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        ],
        &[r#"text 0 "x""#, "finish 0 Stop stop", r#"usage {"t":1}"#],
        Kind::Chunk,
    );
    check(
        &[r#"{"usage":{"t":1}}"#],
        &[r#"usage {"t":1}"#],
        Kind::Chunk,
    );
    check(&[r#"{"choices":[],"usage":null}"#], &[], Kind::Chunk);
    check(
        &[r#"{"choices":[],"x_groq":{"id":"r","usage":{"t":1}}}"#],
        &[r#"usage {"t":1}"#],
        Kind::Chunk,
    );
    check(
        &[r#"{"choices":[],"usage":{"t":2},"x_groq":{"usage":{"t":1}}}"#],
        &[r#"usage {"t":2}"#],
        Kind::Chunk,
    );
    check(
        &[r#"{"choices":[],"prompt_filter_results":[]}"#],
        &[],
        Kind::Chunk,
    );
}

#[test]
fn the_end_and_what_is_no_chunk() {
    check(&["[DONE]"], &["done [DONE]"], Kind::Done);
    check(&[" [DONE]\r\n"], &["done [DONE]"], Kind::Done);
    for data in [
        "",
        "{}",
        "[]",
        "null",
        "ping",
        "[DONE",
        r#"{"type":"ping"}"#,
        r#"{"usage":null}"#,
    ] {
        check(&[data], &[], Kind::Other);
    }
    // A chunk that broke off is not read in part.
    let whole = choice(r#""index":0,"delta":{"content":"x"}"#);
    for end in 0..whole.len() {
        check(&[&whole[..end]], &[], Kind::Other);
    }
    check(&[&format!("{whole}}}")], &[], Kind::Other);
    check(&[&whole.replace("\"x\"", "\"\n\"")], &[], Kind::Other);
}

#[test]
fn errors_inside_the_stream() {
    check(
        &[r#"{"error":{"message":"slow\ndown","code":429}}"#],
        &[r#"error "slow\ndown" {"message":"slow\ndown","code":429}"#],
        Kind::Error,
    );
    check(
        &[r#"{"error":"gone"}"#],
        &[r#"error "gone" "gone""#],
        Kind::Error,
    );
    check(
        &[r#"{"error":{"code":500}}"#],
        &[r#"error "{\"code\":500}" {"code":500}"#],
        Kind::Error,
    );
    check(
        &[r#"error|{"error":{"message":"m"}}"#],
        &[r#"error "m" {"message":"m"}"#],
        Kind::Error,
    );
    check(
        &[r#"error|{"message":"m"}"#],
        &[r#"error "m" {"message":"m"}"#],
        Kind::Error,
    );
    check(
        &[r#"error|{"detail":"d"}"#],
        &[r#"error "d" {"detail":"d"}"#],
        Kind::Error,
    );
    check(
        &["error|upstream is gone"],
        &[r#"error "upstream is gone" upstream is gone"#],
        Kind::Error,
    );
    check(
        &[r#"{"object":"error","message":"m","code":400}"#],
        &[r#"error "m" {"object":"error","message":"m","code":400}"#],
        Kind::Error,
    );
    // OpenRouter sends an error beside a choice that ends with it.
    check(
        &[
            r#"{"error":{"code":502,"message":"m"},"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"error"}]}"#,
        ],
        &[
            r#"text 0 "x""#,
            r#"finish 0 Other("error") error"#,
            r#"error "m" {"code":502,"message":"m"}"#,
        ],
        Kind::Error,
    );
    check(
        &[r#"{"choices":[{"error":{"message":"m"},"finish_reason":"error"}]}"#],
        &[
            r#"finish 0 Other("error") error"#,
            r#"error "m" {"message":"m"}"#,
        ],
        Kind::Error,
    );
    check(&[r#"{"error":null,"choices":[]}"#], &[], Kind::Chunk);
}

#[test]
fn tool_calls_in_pieces() {
    let begin = r#""delta":{"tool_calls":[{"index":1,"id":"i","type":"function","function":{"name":"f","arguments":""}}]}"#;
    let more = r#""delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"a"}}]}"#;
    let last = r#""delta":{"tool_calls":[{"index":1,"id":"i","function":{"name":"","arguments":"\":1}"}}]}"#;
    let data = [choice(begin), choice(more), choice(last)];
    let data: Vec<_> = data.iter().map(String::as_str).collect();
    check(
        &data,
        &[
            r#"call 0.1 i f """#,
            r#"call 0.1 - - "{\"a""#,
            r#"call 0.1 i - "\":1}""#,
        ],
        Kind::Chunk,
    );

    let (mut reader, mut whole) = (ChatReader::new(), Transcript::default());
    for data in data {
        reader.read("message", data, |delta| whole.push(&delta));
    }
    let call = &whole.tool_args["0.1"];
    assert_eq!(
        (call.id.as_deref(), call.name.as_deref(), &*call.args),
        (Some("i"), Some("f"), r#"{"a":1}"#)
    );
}

#[test]
fn tool_calls_of_other_shapes() {
    // Mistral sends no index.
    check_choice(
        r#""delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"[]"}}]}"#,
        &[r#"call 0.0 a f "{}""#, r#"call 0.1 b g "[]""#],
    );
    check_choice(
        r#""delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":null}}]}"#,
        &[r#"call 0.0 - - """#],
    );
    check_choice(
        r#""delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"k": 1}}}]}"#,
        &[r#"call 0.0 a f "{\"k\": 1}""#],
    );
    check_choice(r#""delta":{"tool_calls":null}"#, &[]);
    check_choice(
        r#""delta":{"function_call":{"name":"f","arguments":"{"}}"#,
        &[r#"call 0.0 - f "{""#],
    );
    check_choice(r#""delta":{"function_call":null}"#, &[]);
}

#[test]
fn a_message_where_a_delta_is_due() {
    check_choice(
        r#""index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop""#,
        &[r#"text 0 "whole""#, "finish 0 Stop stop"],
    );
    check_choice(
        r#""index":0,"message":{"content":"x"},"delta":{"content":"x"}"#,
        &[r#"text 0 "x""#],
    );
    // Where a server repeats the whole text at the end, the text is not read twice.
    check(
        &[
            &choice(r#""index":0,"delta":{"content":"x"}"#),
            &choice(r#""index":0,"message":{"content":"x"}"#),
        ],
        &[r#"text 0 "x""#],
        Kind::Chunk,
    );
}

#[test]
fn surrogates_split_over_deltas() {
    let text = |index: u32, content: &str| {
        choice(&format!(
            r#""index":{index},"delta":{{"content":"{content}"}}"#
        ))
    };
    let data = [
        text(0, r"a\ud83d"),
        text(1, r"\uD83D"),
        text(0, r"\ude00b"),
        text(1, r"\uDE01"),
    ];
    let data: Vec<_> = data.iter().map(String::as_str).collect();
    check(
        &data,
        &[
            r#"text 0 "a""#,
            r#"text 1 """#,
            r#"text 0 "😀b""#,
            r#"text 1 "😁""#,
        ],
        Kind::Chunk,
    );

    let (mut reader, mut whole) = (ChatReader::new(), Transcript::default());
    for content in [r"\ud83d", "a", r"\ude00", r"b\ud83d"] {
        reader.read("message", &text(0, content), |delta| whole.push(&delta));
    }
    assert_eq!(whole.text["0"], "ab");
    assert_eq!(
        (reader.removed(), reader.finish(), reader.finish()),
        (2, 3, 3)
    );

    // The channels of one choice are independent of each other.
    let call = |arguments: &str| {
        choice(&format!(
            r#""delta":{{"tool_calls":[{{"function":{{"arguments":"{arguments}"}}}}]}}"#
        ))
    };
    let data = [call(r"\ud83d"), text(0, r"\ude00"), call(r"\ude00")];
    let data: Vec<_> = data.iter().map(String::as_str).collect();
    check(
        &data,
        &[r#"call 0.0 - - """#, r#"text 0 """#, r#"call 0.0 - - "😀""#],
        Kind::Chunk,
    );

    // However many channels wait, memory is bounded and every loss is counted.
    let mut reader = ChatReader::new();
    for index in 0..100 {
        reader.read("message", &text(index, r"\ud83d"), |_| {});
    }
    assert_eq!((reader.removed(), reader.finish()), (36, 100));
}

/// Returns what a writer that has seen `observed` writes with `write`.
fn written(observed: &[&str], write: impl Fn(&mut dyn Writer, &mut Vec<u8>)) -> String {
    let mut writer = Dialect::Chat.wire().writer();
    for data in observed {
        writer.observe("message", data);
    }
    let mut out = Vec::new();
    write(&mut *writer, &mut out);
    String::from_utf8(out).unwrap()
}

/// The place of the text of a choice.
fn slot(choice: u32) -> Slot {
    Slot {
        id: SlotId::of(choice),
        kind: SlotKind::Text,
    }
}

/// Writes the end of an answer with one choice.
fn end(
    writer: &mut dyn Writer,
    out: &mut Vec<u8>,
    choice: u32,
    reason: &str,
    usage: Option<&str>,
    report: Option<&str>,
) {
    let ending = Ending {
        reasons: &[(choice, Finish::from(reason))],
        usage,
        usage_apart: usage.is_some(),
        report,
    };
    writer.finish(out, &[], &ending);
    writer.done(out);
}

#[test]
fn chunks_look_like_the_first_answer() {
    let first = r#"{"id":"c1","object":"chat.completion.chunk","created":17,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":3,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}"#;
    let head = r#"data: {"id":"c1","object":"chat.completion.chunk","created":17,"model":"m","service_tier":"default","system_fingerprint":null,"choices":"#;
    let done = "data: [DONE]\n\n";
    assert_eq!(
        written(&[first], |writer, out| writer.text(out, slot(3), "a\"\n😀")),
        format!(
            "{head}[{{\"index\":3,\"delta\":{{\"content\":\"a\\\"\\n😀\"}},\"finish_reason\":null}}]}}\n\n"
        ),
    );
    let stop = format!("{head}[{{\"index\":3,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n");
    assert_eq!(
        written(&[first], |writer, out| end(
            writer, out, 3, "stop", None, None
        )),
        format!("{stop}{done}")
    );
    assert_eq!(
        written(&[first], |writer, out| end(
            writer,
            out,
            3,
            "length",
            None,
            Some("{\"cuts\":1}")
        )),
        format!(
            "{head}[{{\"index\":3,\"delta\":{{}},\"finish_reason\":\"length\"}}],\"restitch\":{{\"cuts\":1}}}}\n\n{done}"
        ),
    );
    let usage = "{\n  \"total_tokens\": 7\r\n}";
    assert_eq!(
        written(&[first], |writer, out| end(
            writer,
            out,
            3,
            "stop",
            Some(usage),
            Some("{}")
        )),
        format!("{stop}{head}[],\"usage\":{{  \"total_tokens\": 7}},\"restitch\":{{}}}}\n\n{done}"),
    );
    assert_eq!(
        written(&[first], |writer, out| writer.report(out, "{}")),
        format!("{head}[],\"restitch\":{{}}}}\n\n")
    );
    assert_eq!(written(&[first], |writer, out| writer.done(out)), done);
}

#[test]
fn the_first_chunk_with_choices_is_the_model() {
    let azure =
        r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[]}"#;
    let first = r#"{"choices":[{"index":0,"delta":{}}],"created":17,"id":"c1"}"#;
    let second = r#"{"id":"c2","choices":[{"index":1,"delta":{}}]}"#;
    let text = |writer: &mut dyn Writer, out: &mut Vec<u8>| writer.text(out, slot(0), "x");
    let choice =
        "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(
        written(
            &[
                "[DONE]",
                "{\"id\":",
                r#"{"type":"ping"}"#,
                azure,
                first,
                second
            ],
            text
        ),
        format!("data: {{\"created\":17,\"id\":\"c1\",{choice}"),
    );
    assert_eq!(
        written(&[azure], text),
        format!("data: {{\"created\":0,\"id\":\"\",\"model\":\"\",\"object\":\"\",{choice}"),
    );
    assert_eq!(
        written(&[], text),
        format!(
            "data: {{\"id\":\"chatcmpl-restitch\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"\",{choice}"
        ),
    );
}

#[test]
fn bodies_are_read() {
    let read = |body: &str| {
        let mut found = Vec::new();
        let is_answer = Dialect::Chat
            .wire()
            .read_body(body, &mut |delta| found.push(show(&delta)));
        (is_answer, found)
    };
    let body = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"{\"a\":","refusal":null},"finish_reason":"length"}],"usage":{"t":1}}"#;
    assert_eq!(
        read(body),
        (
            true,
            vec![
                r#"text 0 "{\"a\":""#.into(),
                "finish 0 Length length".into(),
                r#"usage {"t":1}"#.into()
            ]
        )
    );
    let body = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_calls":[{"id":"i","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    assert_eq!(
        read(body),
        (
            true,
            vec![
                r#"text 0 "a""#.into(),
                r#"text 0 "b""#.into(),
                r#"call 0.0 i f "{}""#.into()
            ]
        )
    );
    assert_eq!(
        read(r#"{"error":{"message":"m"}}"#),
        (true, vec![r#"error "m" {"message":"m"}"#.into()])
    );
    for body in ["", "{}", "<html>", r#"{"choices":["#] {
        assert_eq!(read(body), (false, vec![]));
    }
}

#[test]
fn bodies_are_edited_by_spans() {
    let body = "{\n  \"id\": \"c\",\n  \"choices\": [\n    {\n      \"index\": 0,\n      \"message\": {\n        \"role\": \"assistant\",\n        \"content\": [{\"type\": \"text\", \"text\": \"a\"}]\n      },\n      \"finish_reason\": \"length\"\n    }, {\"index\": 1}\n  ],\n  \"usage\": {\"t\": 1},\n  \"x\": 1.50\n}\n";
    let expected = "{\n  \"id\": \"c\",\n  \"choices\": [\n    {\n      \"index\": 0,\n      \"message\": {\n        \"role\": \"assistant\",\n        \"content\": \"a\\\"b\"\n      },\n      \"finish_reason\": \"stop\"\n    }, {\"index\": 1}\n  ],\n  \"usage\": {\"t\":2},\n  \"x\": 1.50,\"restitch\":{\"cuts\":1}\n}\n";
    let edited = write_body(
        body,
        "a\"b",
        "stop",
        Some(r#"{"t":2}"#),
        Some(r#"{"cuts":1}"#),
    );
    assert_eq!(edited.as_deref(), Some(expected));

    assert_eq!(
        write_body(
            r#"{"choices":[{"message":{}}]}"#,
            "a",
            "stop",
            Some("{}"),
            Some("1")
        )
        .as_deref(),
        Some(
            r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{},"restitch":1}"#
        ),
    );
    assert_eq!(
        write_body(
            r#"{"choices":[{"finish_reason":null,"message":{"content":null}}],"usage":1}"#,
            "",
            "stop",
            None,
            None
        )
        .as_deref(),
        Some(r#"{"choices":[{"finish_reason":"stop","message":{"content":""}}],"usage":1}"#),
    );
    for body in [
        "",
        "{}",
        r#"{"choices":[]}"#,
        r#"{"choices":[{"message":null}]}"#,
        r#"{"choices":[{"message":{}}]"#,
    ] {
        assert_eq!(write_body(body, "", "stop", None, None), None);
    }
}

#[test]
fn requests_are_read() {
    let check = |body: &str, expected: Option<(bool, u64, bool)>| {
        let found = chat::parse(body.as_bytes());
        assert_eq!(
            found.map(|found| (found.stream, found.n, found.has_stop)),
            expected,
            "{body}"
        );
    };
    check(r#"{"messages":[]}"#, Some((false, 1, false)));
    check(
        r#"{"stream":true,"n":2,"stop":["a"],"stream_options":{"include_usage":true},"messages":[{}]}"#,
        Some((true, 2, true)),
    );
    check(
        r#"{"messages":[],"stop":"x","n":null,"stream":null,"stream_options":null}"#,
        Some((false, 1, true)),
    );
    check(
        r#"{"messages":[],"stop":[],"stream":false}"#,
        Some((false, 1, false)),
    );
    check(r#"{"messages":[],"stop":null}"#, Some((false, 1, false)));
    check(
        r#" {"messages":"x","stre\u0061m":false,"stream":true,"messages":[]} "#,
        Some((true, 1, false)),
    );
    for body in [
        "",
        "[]",
        "{}",
        r#"{"messages":{}}"#,
        r#"{"messages":[],"messages":null}"#,
        r#"{"messages":[]"#,
    ] {
        check(body, None);
    }
    assert_eq!(chat::parse(b"{\"messages\":[],\"x\":\"\xff\"}"), None);
}

fn check_continuation(body: &str, expected: &str) {
    assert_eq!(
        chat::continuation(body, "{\"a", "go\non").as_deref(),
        Some(expected),
        "{body}"
    );
}

#[test]
fn continuations_append_two_turns() {
    let turns = r#"{"role":"assistant","content":"{\"a"},{"role":"user","content":"go\non"}"#;
    check_continuation(
        r#"{"messages":[]}"#,
        &format!(r#"{{"messages":[{turns}]}}"#),
    );
    check_continuation(
        "{\n  \"model\": \"m\",\n  \"messages\": [\n    {\"role\": \"user\"}\n  ],\n  \"temperature\": 0.10\n}\n",
        &format!(
            "{{\n  \"model\": \"m\",\n  \"messages\": [\n    {{\"role\": \"user\"}},{turns}\n  ],\n  \"temperature\": 0.10\n}}\n"
        ),
    );
    // Servers read the last of duplicate keys.
    check_continuation(
        r#"{"messages":[1],"mess\u0061ges":[2]}"#,
        &format!(r#"{{"messages":[1],"mess\u0061ges":[2,{turns}]}}"#),
    );
    for body in ["", "{}", r#"{"messages":1}"#, r#"{"messages":[}"#] {
        assert_eq!(chat::continuation(body, "", ""), None);
    }
}

/// Returns any JSON value, as text with odd white space.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| json!(text).to_string()),
        Just(r#""none""#.to_owned()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|list| format!("[ {}]", list.join(" ,"))),
            prop::collection::vec((any_key(), inner), 0..4).prop_map(|members| object(&members)),
        ]
    })
}

/// Returns a key that the edits look for, sometimes written with an escape, or any other key.
fn any_key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "response_format",
        "n",
        "grammar",
        "guided_json",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "tool_calls",
        "role",
        "content",
        "stream",
        "messages",
    ]);
    prop_oneof![
        4 => known.clone().prop_map(|key| format!("\"{key}\"")),
        1 => known.prop_map(|key| format!("\"\\u{:04x}{}\"", u32::from(key.as_bytes()[0]), &key[1..])),
        1 => any::<String>().prop_map(|text| json!(text).to_string()),
    ]
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("{key} :\n{value}"))
        .collect();
    format!("{{ {} }}", members.join(", "))
}

fn any_message() -> impl Strategy<Value = String> {
    let role = prop::sample::select(vec!["user", "assistant", "tool", "function"]);
    prop_oneof![
        role.prop_map(|role| json!({"role": role, "content": "x"}).to_string()),
        any_value()
    ]
}

/// Members that force a form on an answer.
const SHAPES: [&str; 11] = [
    "response_format",
    "n",
    "grammar",
    "json_schema",
    "regex",
    "ebnf",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
];

/// Returns the continuation as `serde_json` would build it.
fn expected_continuation(body: &str, delivered: &str, prompt: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(body).unwrap();
    let synthesized = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    let root = value.as_object_mut()?;
    let messages = root.get_mut("messages")?.as_array_mut()?;
    let has_calls = messages.iter().any(|message| {
        message["role"] == "tool"
            || message["role"] == "function"
            || synthesized(&message["tool_calls"])
            || message["function_call"].is_object()
    });
    messages.push(json!({"role": "assistant", "content": delivered}));
    messages.push(json!({"role": "user", "content": prompt}));
    for shape in SHAPES {
        root.remove(shape);
    }
    if has_calls && root.get("tools").is_some_and(synthesized) {
        root.insert("tool_choice".to_owned(), json!("none"));
    } else {
        root.retain(|key, _| {
            !["tools", "tool_choice", "parallel_tool_calls"].contains(&key.as_str())
        });
    }
    if has_calls && root.get("functions").is_some_and(synthesized) {
        root.insert("function_call".to_owned(), json!("none"));
    } else {
        root.retain(|key, _| !["functions", "function_call"].contains(&key.as_str()));
    }
    Some(value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_requests_are_edited_as_a_tree_would_be(
        mut members in prop::collection::vec((any_key(), any_value()), 0..8),
        messages in prop::collection::vec(any_message(), 0..4),
        place in 0usize..8,
        delivered in any::<String>(),
        prompt in any::<String>(),
    ) {
        let messages = format!("[{} ]", messages.join(" , "));
        members.insert(place.min(members.len()), ("\"messages\"".to_owned(), messages));
        let body = object(&members);
        let edited = chat::continuation(&body, &delivered, &prompt);
        let edited = edited.map(|edited| serde_json::from_str::<Value>(&edited).unwrap());
        prop_assert_eq!(edited, expected_continuation(&body, &delivered, &prompt));
    }

    #[test]
    fn random_bodies_are_edited_as_a_tree_would_be(
        extra in prop::collection::vec((any_key(), any_value()), 0..4),
        message in prop::collection::vec((any_key(), any_value()), 0..4),
        text in any::<String>(),
    ) {
        let body = |choices: String| {
            let mut members = extra.clone();
            members.push(("\"choices\"".to_owned(), choices));
            object(&members)
        };
        let body = body(format!("[ {} ,0]", object(&[("\"message\"".to_owned(), object(&message))])));
        let edited = write_body(&body, &text, "stop", Some(r#"{"t":1}"#), Some("{}")).unwrap();
        let mut expected: Value = serde_json::from_str(&body).unwrap();
        expected["choices"][0]["message"]["content"] = json!(text);
        expected["choices"][0]["finish_reason"] = json!("stop");
        expected["usage"] = json!({"t": 1});
        expected["restitch"] = json!({});
        prop_assert_eq!(serde_json::from_str::<Value>(&edited).unwrap(), expected);
    }

    #[test]
    fn no_data_is_a_panic(data in "[\\[\\]{}\",:\\\\ud83acehinot1 ]{0,40}", at in 0usize..200, with in any::<u8>()) {
        let mut reader = ChatReader::new();
        reader.read("message", &data, |_| {});
        for value in walk::members(&data).map(|(_, value)| value).chain(walk::elements(&data)) {
            prop_assert_eq!(&data[value.range()], value.as_str());
        }
        let mut damaged = choice(r#""index":0,"delta":{"content":"\ud83d","tool_calls":[{"function":{"arguments":"{}"}}]}"#).into_bytes();
        let len = damaged.len();
        damaged[at % len] = with;
        reader.read("message", &String::from_utf8_lossy(&damaged), |_| {});
        chat::continuation(&data, "", "");
    }
}

fn write_body(
    body: &str,
    text: &str,
    reason: &str,
    usage: Option<&str>,
    report: Option<&str>,
) -> Option<String> {
    let slot = Slot {
        id: SlotId::of(0),
        kind: SlotKind::Text,
    };
    let ending = Ending {
        reasons: &[(0, reason.into())],
        usage,
        usage_apart: false,
        report,
    };
    chat::write_body(body, &[SlotText { slot, text }], &ending)
}
