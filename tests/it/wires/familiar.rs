//! An event that resembles the one before is read as it would be by a reader that has seen no such
//! event.

use std::fs;

use restitch::internal::wire::Dialect;

use super::recorded::events;
use crate::fuzz::familiar::{Event, WIRES, check_events};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, at_least, corpus_rows};

/// Returns how many of the events a reader reads in full.
fn full_readings(dialect: Dialect, events: &[Event]) -> usize {
    let mut reader = dialect.wire().reader();
    for (name, data) in events {
        reader.read(name, data, &mut |_| {});
    }
    let state = format!("{reader:?}");
    let count = state.split("full_readings: ").nth(1).unwrap();
    count
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns the events of the recorded streams of a wire.
fn recorded(dialect: Dialect) -> Vec<(String, Vec<Event>)> {
    let rows = corpus_rows("streams/index.jsonl")
        .into_iter()
        .filter(|(_, row)| row["dialect"] == dialect.as_str());
    let body = |file: &str, folder: &std::path::Path| {
        events(&fs::read(folder.join(file)).unwrap(), 64 << 10, true)
    };
    rows.map(|(folder, row)| {
        (
            row["file"].as_str().unwrap().to_owned(),
            body(row["file"].as_str().unwrap(), &folder),
        )
    })
    .collect()
}

#[test]
fn recorded_events_mean_the_same_when_they_are_familiar() {
    for dialect in WIRES {
        let (mut all, mut full) = (0, 0);
        for (file, events) in recorded(dialect) {
            check_events(dialect, &events);
            let read = full_readings(dialect, &events);
            println!("{read} of {} {file}", events.len());
            all += events.len();
            full += read;
        }
        let share = 100.0 * (1.0 - full as f64 / all.max(1) as f64);
        println!("familiar: {share:.1} % of {all} recorded events of {dialect}");
    }
}

/// Texts, written as between quotes, some of which are not legal there.
const TEXTS: [&str; 22] = [
    "",
    "plain",
    "a longer text of several words",
    "é 😀",
    r#"\n\"\\"#,
    r"\\",
    r"\u00e9",
    r"\ud83d",
    r"\ude00",
    r"\ud83d\ude00",
    r"x\uD83D",
    r"\u12",
    r"\x",
    r"\",
    "\n",
    "\u{7f}",
    r#"","content":""#,
    r#"","finish_reason":"length","x":""#,
    r#"\",\"content\":\"b"#,
    r#"a"},"index":1,"b":{"c":""#,
    r#"{\"a\": [1, 2"#,
    r#"{"a": [1"#,
];

/// Scalars of members that are not read, some of which are not legal.
const SCALARS: [&str; 20] = [
    "1",
    "12",
    "0",
    "01",
    "-1",
    "1.5",
    "1e5",
    "1E+5",
    "1.",
    "",
    "null",
    "true",
    "\"\"",
    "\"x\"",
    "\"xyz12345678\"",
    r#""a\"b""#,
    r#""\u12""#,
    "[]",
    "{}",
    "\"\\ud83d\"",
];

/// Members with `T` for a text and `S` for a scalar; a stream has some of them in an order of its
/// own.
const CHAT: [&str; 13] = [
    r#""choices":[{"index":0,"delta":{"content":"T"},"finish_reason":null}]"#,
    r#""choices":[{"index":0,"delta":{"content":"T"}},{"index":1,"delta":{"content":"T"}}]"#,
    r#""choices":[{"index":0,"delta":{"content":"T","role":"assistant","tool_calls":null}}]"#,
    r#""choices":[{"delta":{"content":"T","content":"T"},"index":1}]"#,
    r#""choices":[{"index":0,"delta":{"content":"","reasoning":"T"}}]"#,
    r#""choices":[{"index":0,"delta":{"reasoning_content":"T","reasoning":"T"}}]"#,
    r#""choices":[{"index":0,"delta":{"reasoning_content":"T","reasoning":"b","content":""}}]"#,
    r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"T"}}]}}]"#,
    r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"T","function":{"name":"f","arguments":"T"}}]}}]"#,
    r#""choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"T"}}]}}]"#,
    r#""choices":[{"index":0,"delta":{"refusal":"T"}}]"#,
    r#""choices":[{"index":0,"message":{"content":"T"},"finish_reason":"stop"}]"#,
    r#""choices":[{"index":0,"delta":{"content":[{"type":"text","text":"T"}]}}],"usage":{"a":S}"#,
];

const MESSAGES: [&str; 7] = [
    r#""type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"T"}"#,
    r#""type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"T"}"#,
    r#""type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"T"}"#,
    r#""type":"content_block_delta","index":0,"delta":{"text":"T","type":"text_delta","text":"T"}"#,
    r#""type":"content_block_stop","index":0"#,
    r#""type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"T","name":"f","input":{}}"#,
    r#""type":"message_start","message":{"content":[],"usage":{"input_tokens":S}}"#,
];

const RESPONSES: [&str; 8] = [
    r#""type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"T""#,
    r#""type":"response.output_text.delta","output_index":0,"delta":"T","content_index":1,"logprobs":[]"#,
    r#""type":"response.function_call_arguments.delta","output_index":1,"delta":"T""#,
    r#""type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"T""#,
    r#""type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"T""#,
    r#""type":"response.output_text.done","output_index":0,"content_index":0,"text":"T""#,
    r#""type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"T","name":"f"}"#,
    r#""type":"response.created","response":{}"#,
];

const GEMINI: [&str; 12] = [
    r#""candidates":[{"content":{"parts":[{"text":"T"}],"role":"model"},"index":0}]"#,
    r#""candidates": [{"content": {"parts": [{"text": "T","thought": true}]},"index": 1}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"},{"text":"T"}]}}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"}]}},{"content":{"parts":[{"text":"T"}]}}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"}]},"finishReason":"T"}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"}]},"continuationToken":"T"}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T","functionCall":{"name":"f","args":{"a":"T"}}}]}}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T","text":"T","inlineData":{}}]}}],"promptFeedback":{}"#,
    r#""usageMetadata":{"promptTokenCount":S,"candidatesTokenCount":S,"details":[{"modality":"TEXT","tokenCount":S}]}"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"}]}}],"usageMetadata":{"a":S,"b":S,"c":S,"d":S,"e":S,"f":S,"g":S,"h":S}"#,
    r#""usageMetadata": {"a": S},"candidates":[{"content":{"parts":[{"text":"T"}]}}]"#,
    r#""candidates":[{"content":{"parts":[{"text":"T"}]}}],"error":S"#,
];

const IGNORED: [&str; 7] = [
    r#""obfuscation":S"#,
    r#""sequence_number":S"#,
    r#""created":S"#,
    r#""p":S"#,
    r#""id":S"#,
    r#""content":S"#,
    r#""x":{"choices":[{"delta":{"content":"T"}}],"obfuscation":S}"#,
];

/// Fills the places of a template. Most values are legal.
fn fill(template: &str, rng: &mut Rng) -> String {
    let mut out = String::new();
    for piece in template.split_inclusive(['T', 'S']) {
        let (before, place) =
            piece.split_at(piece.len() - usize::from(piece.ends_with(['T', 'S'])));
        out.push_str(before);
        let is_tame = rng.below(5) > 0;
        match place {
            "T" => out.push_str(TEXTS[rng.below(if is_tame { 7 } else { TEXTS.len() })]),
            "S" => out.push_str(SCALARS[rng.below(if is_tame { 3 } else { SCALARS.len() })]),
            _ => {}
        }
    }
    out
}

/// Returns a stream of events that resemble each other, with a few others.
fn stream(dialect: Dialect, rng: &mut Rng) -> Vec<Event> {
    let texts: &[&str] = match dialect {
        Dialect::Messages => &MESSAGES,
        Dialect::Responses => &RESPONSES,
        Dialect::Gemini => &GEMINI,
        _ => &CHAT,
    };
    let mut members: Vec<&str> = (0..rng.below(4)).map(|_| rng.pick(&IGNORED)).collect();
    members.insert(rng.below(members.len() + 1), rng.pick(texts));
    let mut events = Vec::new();
    for _ in 0..24 {
        let mut event = members.clone();
        match rng.below(8) {
            0 => event = vec![rng.pick(texts), rng.pick(&IGNORED)],
            1 => event.rotate_left(1),
            _ => {}
        }
        let event: Vec<String> = event.iter().map(|member| fill(member, rng)).collect();
        let mut data = format!(
            "{{{}}}",
            event.join(if rng.below(12) == 0 { " ," } else { "," })
        );
        if rng.below(12) == 0 {
            let end = (0..=rng.below(data.len()))
                .rfind(|&at| data.is_char_boundary(at))
                .unwrap();
            data.truncate(end);
        }
        let name = if rng.below(16) == 0 {
            "error"
        } else {
            "message"
        };
        events.push((name.to_owned(), data));
    }
    events
}

#[test]
fn generated_events_mean_the_same_when_they_are_familiar() {
    let mut rows = Rows::of("generated events");
    for dialect in WIRES {
        let (mut all, mut full) = (0, 0);
        for seed in 0..at_least(1500, 4000) as u64 {
            if !rows.runs_next() {
                continue;
            }
            let events = stream(dialect, &mut Rng::new(seed));
            check_events(dialect, &events);
            all += events.len();
            full += full_readings(dialect, &events);
        }
        println!(
            "familiar: {} of {all} generated events of {dialect}",
            all - full
        );
    }
}
