//! Reads recorded streams, whole and in pieces, and compares them with their index.

use std::fs;

use restitch::Limits;
use restitch::internal::chat::Transcript;
use restitch::internal::wire::Dialect;
use restitch::provider::Delta;
use restitch::sse::Decoder;
use serde_json::{Value, json};

use restitch_testing::{at_least, corpus_rows};

/// An event: its name and its data.
pub(super) type Event = (String, String);

/// Returns the events of a body that arrives in pieces of `size` bytes, including one that no blank
/// line ends if the body is `whole`.
pub(super) fn events(body: &[u8], size: usize, whole: bool) -> Vec<Event> {
    let (mut decoder, mut events) = (Decoder::new(&Limits::default()), Vec::new());
    for mut piece in body.chunks(size) {
        while let Some(event) = decoder.next_event(&mut piece).unwrap() {
            events.push((event.event.into_owned(), event.data.into_owned()));
        }
    }
    if whole {
        events.extend(
            decoder
                .finish()
                .unwrap()
                .map(|event| (event.event.into_owned(), event.data.into_owned())),
        );
    }
    events
}

/// Returns what a reader makes of events. A restart drops nothing where `is_joined`: recorded
/// bodies of several messages count as one in the index.
pub(super) fn transcript(dialect: Dialect, events: &[Event], is_joined: bool) -> Transcript {
    let (mut reader, mut whole) = (dialect.wire().reader(), Transcript::default());
    for (name, data) in events {
        reader.read(name, data, &mut |delta| {
            // The index does not read the calls that a later message starts with.
            let is_start = name == "message_start" && matches!(delta, Delta::ToolCall { .. });
            if !(is_joined && (is_start || delta == Delta::Restart)) {
                whole.push(&delta);
            }
        });
    }
    whole
}

/// Returns events of one line of data each; a `type` gives the name.
pub(super) fn named(lines: &[&str]) -> Vec<Event> {
    let name = |data: &str| {
        let value: Value = serde_json::from_str(data).unwrap_or_default();
        value["type"].as_str().unwrap_or("message").to_owned()
    };
    lines
        .iter()
        .map(|data| (name(data), (*data).to_owned()))
        .collect()
}

/// Returns what a writer wrote, as events; the text must be whole events.
pub(super) fn written(out: &[u8]) -> Vec<Event> {
    assert!(out.ends_with(b"\n\n"));
    let events = events(out, out.len(), true);
    for (name, data) in &events {
        assert_eq!(
            serde_json::from_str::<Value>(data).unwrap()["type"],
            name.as_str(),
            "{data}"
        );
    }
    events
}

/// Compares every recorded stream of an API with its index, in pieces of three sizes. Returns how
/// many there are.
fn check_recorded(dialect: Dialect) -> usize {
    let mut covered = 0;
    for (folder, row) in corpus_rows("streams/index.jsonl") {
        if row["dialect"] != dialect.as_str() || is_doubtful(&row) {
            continue;
        }
        let file = row["file"].as_str().unwrap();
        let body = fs::read(folder.join(file)).unwrap();
        let mut whole = if file.ends_with(".ndjson") {
            // An example has one object on each line, without the event-stream format around it.
            let lines = str::from_utf8(&body).unwrap().lines();
            lines
                .map(|line| ("message".to_owned(), line.to_owned()))
                .collect()
        } else {
            let whole = events(&body, 64 * 1024, true);
            for size in [7, 1] {
                assert_eq!(events(&body, size, true), whole, "{file}");
            }
            whole
        };
        // One server reports its error on a line `error: {…}`. The event-stream format has no such
        // field, so no event has the error; given as an event, its message is the one of the index.
        let lines = row["nonsse_lines"].as_array().into_iter().flatten();
        let errors = lines.filter_map(|line| line.as_str()?.strip_prefix("error:"));
        whole.extend(errors.map(|data| ("error".to_owned(), data.to_owned())));
        check_row(file, &transcript(dialect, &whole, true), &row);
        covered += 1;
    }
    covered
}

/// Returns whether the events that end a text do not repeat what came before.
fn is_doubtful(row: &Value) -> bool {
    row["done_mismatch"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

fn check_row(file: &str, found: &Transcript, row: &Value) {
    assert_eq!(json!(found.text), row["text"], "{file}");
    assert_eq!(json!(found.refusal), row["refusal"], "{file}");
    assert_eq!(json!(found.finish), row["finish"], "{file}");
    assert_eq!(json!(found.terminal), row["terminal"], "{file}");
    assert_eq!(json!(found.error), row["error"]["message"], "{file}");
    let usage: Value = found
        .usage
        .as_deref()
        .map_or(Value::Null, |raw| serde_json::from_str(raw).unwrap());
    assert_eq!(usage, row["usage"], "{file}");
    let calls = row["tool_args"].as_object().unwrap();
    assert_eq!(
        found.tool_args.keys().collect::<Vec<_>>(),
        calls.keys().collect::<Vec<_>>(),
        "{file}"
    );
    for (slot, call) in calls {
        let found = &found.tool_args[slot];
        // A tool that the server runs is no call of ours.
        let is_theirs = |id: &str| {
            let prefixes = ["srvtoolu_", "mcptoolu_", "mcp_"];
            prefixes.iter().any(|prefix| id.starts_with(prefix))
        };
        if !call["id"].as_str().is_some_and(is_theirs) {
            assert_eq!(json!(found.id), call["id"], "{file} {slot}");
        }
        assert_eq!(
            found.name.as_deref().unwrap_or_default(),
            call["name"].as_str().unwrap_or_default(),
            "{file} {slot}"
        );
        // The index keeps arguments that come with the start of a call apart.
        match call.get("initial_input").filter(|_| call["args"] == "") {
            Some(input) => assert_eq!(
                serde_json::from_str::<Value>(&found.args).unwrap(),
                *input,
                "{file} {slot}"
            ),
            None => assert_eq!(json!(found.args), call["args"], "{file} {slot}"),
        }
    }
    // The index of Responses names the event in front of the slot.
    let expected = row["reasoning"].as_object().unwrap();
    let expected: Vec<&Value> = expected.values().collect();
    assert_eq!(
        found
            .reasoning
            .values()
            .map(|text| json!(text))
            .collect::<Vec<_>>()
            .iter()
            .collect::<Vec<_>>(),
        expected
    );
}

/// Compares the recorded streams of an API, cut at a byte, with what was complete before. Returns
/// how many cuts there are.
fn check_cuts(dialect: Dialect) -> usize {
    let mut covered = 0;
    let index = corpus_rows("streams/index.jsonl").into_iter();
    let doubtful = index
        .filter(|(_, row)| is_doubtful(row))
        .map(|(_, row)| row["file"].clone())
        .collect::<Vec<_>>();
    for (folder, row) in corpus_rows("streams/cuts.jsonl") {
        if row["dialect"] != dialect.as_str() || doubtful.contains(&row["file"]) {
            continue;
        }
        let body = fs::read(folder.join(row["file"].as_str().unwrap())).unwrap();
        let cut = usize::try_from(row["cut_byte"].as_u64().unwrap()).unwrap();
        let found = transcript(dialect, &events(&body[..cut], 64 * 1024, false), true);
        assert_eq!(json!(found.text), row["text"], "{row}");
        let expected = row["tool_args"].as_object().unwrap();
        assert_eq!(
            found.tool_args.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{row}"
        );
        for (slot, call) in &found.tool_args {
            // See `check_row`: arguments that come with the start of a call.
            let is_initial =
                expected[slot] == "" && serde_json::from_str::<Value>(&call.args).is_ok();
            assert!(
                is_initial || expected[slot] == call.args.as_str(),
                "{slot} {row}"
            );
        }
        covered += 1;
    }
    covered
}

/// Returns each delta on one line.
pub(super) fn deltas(dialect: Dialect, events: &[Event]) -> Vec<String> {
    let (mut reader, mut seen) = (dialect.wire().reader(), Vec::new());
    for (name, data) in events {
        let kind = reader.read(name, data, &mut |delta| seen.push(show(&delta)));
        seen.push(format!("{kind:?}"));
    }
    seen
}

/// Returns one delta on one line.
pub(crate) fn show(delta: &Delta<'_>) -> String {
    match delta {
        Delta::Text { slot, text } => format!("text {slot} {text:?}"),
        Delta::Refusal { slot, text } => format!("refusal {slot} {text:?}"),
        Delta::Reasoning { slot, text } => format!("reasoning {slot} {text:?}"),
        Delta::ToolCall {
            slot,
            id,
            name,
            arguments,
        } => {
            format!(
                "call {slot} {} {} {arguments:?}",
                id.unwrap_or("-"),
                name.unwrap_or("-")
            )
        }
        Delta::SlotEnd { slot } => format!("end {slot}"),
        Delta::Restart => "restart".to_owned(),
        Delta::Finish {
            choice,
            reason,
            word,
        } => format!("finish {choice} {reason:?} {word}"),
        Delta::Usage { raw } => format!("usage {raw}"),
        Delta::Error { message, raw } => format!("error {message:?} {raw}"),
        Delta::Done { word } => format!("done {word}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn recorded_streams_say_what_the_index_says() {
    for (dialect, own, all) in [
        (Dialect::Chat, 10, 100),
        (Dialect::Messages, 1, 60),
        (Dialect::Responses, 0, 80),
    ] {
        let covered = check_recorded(dialect);
        assert!(covered >= at_least(own, all), "{dialect}: {covered}");
        println!("covered: {covered} recorded streams of {dialect}");
    }
}

#[test]
fn cut_streams_say_what_was_complete() {
    for dialect in [Dialect::Messages, Dialect::Responses] {
        let covered = check_cuts(dialect);
        assert!(covered >= at_least(0, 30), "{dialect}: {covered}");
        println!("covered: {covered} cuts of {dialect}");
    }
}
