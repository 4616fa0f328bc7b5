//! Reads all recorded bodies in pieces of several sizes and compares each result with the index.

use std::collections::BTreeMap;
use std::fs;

use restitch::Limits;
use restitch::internal::chat::Transcript;
use restitch::internal::json::walk::is_valid;
use restitch::provider::Dialect;
use restitch::sse::{Framed, Framing};
use restitch_cli::dialect::AnyReader;
use serde_json::{Value, json};

use restitch_testing::{at_least, corpus_rows};

/// The wires that are written elsewhere.
const LATER: [&str; 2] = ["openai-responses", "anthropic"];

/// The sizes of the pieces.
const SIZES: [usize; 3] = [64 << 10, 7, 1];

/// Reads a body in pieces of each size; all results must agree. Detects the API of events unless it
/// is known.
fn read_slowly(body: &[u8], row: &Value, known: Option<Dialect>, file: &str) -> Value {
    let named = Dialect::ALL
        .into_iter()
        .find(|dialect| row["dialect"] == dialect.as_str())
        .unwrap();
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with('{') && is_valid(text) {
        let mut whole = Transcript::default();
        assert!(
            named
                .wire()
                .read_body(text, &mut |delta| whole.push(&delta)),
            "{file}"
        );
        return of(whole, named);
    }
    let [first, second, third] = SIZES.map(|size| {
        let mut reader = AnyReader::new(known);
        let whole = events(body, text, size, &mut reader);
        of(whole, reader.dialect().unwrap_or_else(|| panic!("{file}")))
    });
    assert!(first == second && second == third, "{file}");
    first
}

/// Reads a body that is a sequence of events.
fn events(body: &[u8], text: &str, size: usize, reader: &mut AnyReader) -> Transcript {
    let mut whole = Transcript::default();
    let framing = match text.as_bytes().first() {
        Some(b'{') => Framing::Lines,
        Some(b'[') => Framing::Array,
        _ => Framing::Events,
    };
    let mut framed = Framed::new(framing, &Limits::default());
    for mut piece in body.chunks(size) {
        while let Some(event) = framed.next_event(&mut piece).unwrap() {
            reader.read(&event.event, &event.data, &mut |delta| whole.push(&delta));
        }
    }
    if let Some(event) = framed.finish().unwrap() {
        reader.read(&event.event, &event.data, &mut |delta| whole.push(&delta));
    }
    reader.finish(&mut |delta| whole.push(&delta));
    whole
}

/// An answer with the members of the index.
fn of(whole: Transcript, dialect: Dialect) -> Value {
    let calls: BTreeMap<_, _> = whole
        .tool_args
        .into_iter()
        .map(|(slot, call)| {
            let call = json!({"id": call.id, "name": call.name, "args": call.args});
            (slot, call)
        })
        .collect();
    let usage: Option<Value> = whole.usage.map(|raw| serde_json::from_str(&raw).unwrap());
    json!({
        "dialect": dialect.as_str(), "text": whole.text, "tool_args": calls, "finish": whole.finish,
        "usage": usage, "error": whole.error, "terminal": whole.terminal,
    })
}

fn is_later(row: &Value) -> bool {
    LATER.iter().any(|dialect| row["dialect"] == **dialect)
}

fn is_disputed(row: &Value) -> bool {
    row["done_mismatch"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

/// Compares tool calls. Arguments that came as an object are compared as values: the index has them
/// written anew.
fn check_calls(answer: &Value, row: &Value, file: &str) {
    let calls = answer["tool_args"].as_object().unwrap();
    let expected = row["tool_args"].as_object().unwrap();
    assert_eq!(
        calls.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{file}"
    );
    for (slot, call) in calls {
        let expected = &expected[slot];
        // The rows of cuts have the arguments alone.
        let args = expected.get("args").unwrap_or(expected).as_str().unwrap();
        let own = call["args"].as_str().unwrap();
        if own != args {
            assert_eq!(expected["object"], true, "{file} {slot}: {own} {args}");
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(value(own), value(args), "{file} {slot}");
        }
        for key in ["id", "name"].iter().filter(|_| expected.is_object()) {
            assert_eq!(call[key], expected[key], "{file} {slot}");
        }
    }
}

/// Returns whether a message is in an event, if the body is an event stream.
fn is_in_an_event(body: &[u8], message: &Value) -> bool {
    let body = String::from_utf8_lossy(body);
    let mut data = body.lines().filter(|line| line.starts_with("data:"));
    match message.as_str() {
        Some(message) if body.lines().any(|line| line.starts_with("data:")) => {
            data.any(|line| line.contains(message))
        }
        _ => true,
    }
}

#[test]
fn all_recorded_bodies_are_read() {
    let mut covered: BTreeMap<String, usize> = BTreeMap::new();
    for (folder, row) in corpus_rows("streams/index.jsonl") {
        if is_later(&row) || is_disputed(&row) {
            continue;
        }
        let file = row["file"].as_str().unwrap();
        let body = fs::read(folder.join(file)).unwrap();
        let answer = read_slowly(&body, &row, None, file);
        for key in ["dialect", "text", "finish", "usage", "terminal"] {
            assert_eq!(answer[key], row[key], "{file} {key}");
        }
        // The index has the whole error, the answer its message. An error that is outside of any event
        // is no part of the stream.
        let message = row["error"].get("message").unwrap_or(&row["error"]);
        let message = match is_in_an_event(&body, message) {
            true => message,
            false => &Value::Null,
        };
        assert_eq!(&answer["error"], message, "{file}");
        check_calls(&answer, &row, file);
        *covered
            .entry(row["dialect"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    assert!(covered.len() >= at_least(2, 5), "{covered:?}");
    println!("covered: {covered:?}");
}

#[test]
fn dropped_connections_keep_what_was_complete() {
    let mut covered = 0;
    for (folder, row) in corpus_rows("streams/cuts.jsonl") {
        if is_later(&row) {
            continue;
        }
        let file = row["file"].as_str().unwrap();
        let cut = usize::try_from(row["cut_byte"].as_u64().unwrap()).unwrap();
        let body = fs::read(folder.join(file)).unwrap();
        // Only a whole event identifies the API.
        let is_unknown = row["complete_events"] == 0;
        let mut named = Dialect::ALL.into_iter();
        let known = named.find(|dialect| is_unknown && row["dialect"] == dialect.as_str());
        let answer = read_slowly(&body[..cut], &row, known, file);
        assert_eq!(answer["text"], row["text"], "{file} {cut}");
        assert_eq!(answer["finish"], row["finish"], "{file} {cut}");
        check_calls(&answer, &row, file);
        covered += 1;
    }
    assert!(covered >= at_least(0, 200), "{covered}");
    println!("covered: {covered} dropped connections (skipped without RESTITCH_CORPUS)");
}
