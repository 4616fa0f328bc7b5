//! Decodes all recorded bodies in chunks of several sizes and compares each result with the index.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};

use restitch::provider::Dialect;
use restitch_cli::decode::{Decoded, Dialect as Choice, decode};
use serde_json::{Value, json};

use restitch_testing::{at_least, corpus_rows};

/// The wires that are written elsewhere.
const LATER: [&str; 2] = ["openai-responses", "anthropic"];

/// The sizes of the reads.
const SIZES: [usize; 3] = [64 << 10, 7, 1];

/// Reads at most the given number of bytes per call.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.1);
        self.0.read(&mut buffer[..count])
    }
}

/// Decodes a body in reads of each size; all results must agree.
fn decode_slowly(body: &[u8], choice: Choice, file: &str) -> Decoded {
    let decoded = SIZES.map(|size| decode(Slow(body, size), choice));
    let [first, second, third] =
        decoded.map(|decoded| decoded.unwrap_or_else(|error| panic!("{file}: {error}")));
    assert!(first == second && second == third, "{file}");
    first
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

#[test]
fn all_recorded_bodies_are_read() {
    let mut covered: BTreeMap<String, usize> = BTreeMap::new();
    for (folder, row) in corpus_rows("streams/index.jsonl") {
        if is_later(&row) || is_disputed(&row) {
            continue;
        }
        let file = row["file"].as_str().unwrap();
        let answer = json!(decode_slowly(
            &fs::read(folder.join(file)).unwrap(),
            Choice::Auto,
            file
        ));
        for key in ["dialect", "text", "finish", "usage", "terminal"] {
            assert_eq!(answer[key], row[key], "{file} {key}");
        }
        // The index has the whole error, the answer its message.
        let message = row["error"].get("message").unwrap_or(&row["error"]);
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
        let mut named = Dialect::ALL
            .into_iter()
            .filter(|dialect| row["dialect"] == dialect.as_str());
        let choice = if row["complete_events"] == 0 {
            Choice::Known(named.next().unwrap())
        } else {
            Choice::Auto
        };
        let answer = json!(decode_slowly(&body[..cut], choice, file));
        assert_eq!(answer["text"], row["text"], "{file} {cut}");
        assert_eq!(answer["finish"], row["finish"], "{file} {cut}");
        check_calls(&answer, &row, file);
        covered += 1;
    }
    assert!(covered >= at_least(0, 200), "{covered}");
    println!("covered: {covered} dropped connections (skipped without RESTITCH_CORPUS)");
}
