//! Work whose instructions must grow as its text does: `scripts/instructions growth` counts it for
//! texts of several sizes.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "inputs that are written here, and a list"
)]

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use restitch::internal::children::ChildIndex;
use restitch::internal::json::Machine;
use restitch::internal::relay::{BodyRelay, Output, Relay, TransportEnd};
use restitch::json::CloseOptions;
use restitch::paths::Paths;
use restitch::repair::{RepairOptions, RepairStatus, repair_root};
use restitch::session::{Outcome, Request};
use restitch::value::LiveValue;
use restitch::{Document, Limits};
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => list(),
        [ref case @ .., kib] => run(case, kib.parse::<usize>().unwrap() << 10),
    }
}

/// Prints the arguments of [`run`], a line a case.
fn list() {
    for (family, ..) in FAMILIES {
        for reader in ["machine", "document"] {
            for push in ["4", "4096"] {
                println!("{family} {reader} {push}");
            }
        }
    }
    CASES.iter().for_each(|case| println!("{}", case.0));
}

/// Does the work of a case with about `bytes` bytes of text.
fn run(case: &[&str], bytes: usize) {
    match *case {
        [family, reader, push] => {
            let family = FAMILIES.iter().find(|known| known.0 == family).unwrap();
            read_family(family, reader, push.parse().unwrap(), bytes);
        }
        [name] => (CASES.iter().find(|case| case.0 == name).unwrap().1)(bytes),
        _ => panic!("no case {case:?}"),
    }
}

/// A family of texts: its name, the start, what is repeated, and what closes each repetition.
type Family = (&'static str, &'static str, &'static str, &'static str);

const FAMILIES: [Family; 12] = [
    ("deep-arrays", "", "[", "]"),
    ("deep-objects", "", "{\"a\":", "}"),
    ("escapes", "[\"", "\\n\\t", ""),
    ("surrogates", "[\"", "\\ud83d\\ude00", ""),
    ("escaped-quotes", "[\"", "\\\"\\\\", ""),
    ("empty-strings", "[", "\"\",", ""),
    ("non-ascii", "[\"", "é😀", ""),
    ("digits", "[1", "4159", ""),
    ("short-numbers", "[", "0,", ""),
    ("white-space", "[", " \n\t\r", ""),
    ("many-keys", "{", "\"key\":1,", ""),
    ("long-string", "[\"", "a", ""),
];

/// Reads about `bytes` bytes of a family in pushes of about `size` bytes.
fn read_family(&(_, start, unit, end): &Family, reader: &str, size: usize, bytes: usize) {
    let count = bytes / (unit.len() + end.len());
    let middle = if end.is_empty() { "" } else { "0" };
    let text = [start, &unit.repeat(count), middle, &end.repeat(count)].concat();
    let mut rest = &text[..];
    let pushes = std::iter::from_fn(|| {
        let end = (size.min(rest.len())..=rest.len()).find(|&at| rest.is_char_boundary(at))?;
        let (push, after) = rest.split_at(end);
        rest = after;
        (!push.is_empty()).then_some(black_box(push))
    });
    match reader {
        "machine" => {
            let mut machine = Machine::new(bytes);
            for push in pushes {
                machine.feed(push.as_bytes()).unwrap();
                black_box(machine.cut_state());
            }
        }
        "document" => {
            let mut document = Document::new(bytes);
            for push in pushes {
                document.push(push).unwrap();
            }
            assert_eq!(document.text().len(), text.len());
        }
        _ => panic!("no reader {reader}"),
    }
}

/// The name of some work, and the work: it takes the number of bytes of its text.
type Case = (&'static str, fn(usize));

const CASES: [Case; 8] = [
    ("repair-many-mistakes", repair),
    ("repair-in-pushes", repair_in_pushes),
    ("whole-body", |bytes| body(&rows(bytes), 1)),
    ("cut-body", |bytes| body(&rows(bytes), 2)),
    ("whole-answer", |bytes| answer(&rows(bytes), 1)),
    ("cut-answer", |bytes| answer(&rows(bytes), 2)),
    ("100-continuations", |bytes| answer(&rows(bytes), 101)),
    ("depth", depth),
];

/// Returns rows of about `bytes` bytes.
fn rows(bytes: usize) -> String {
    let mut text = String::from("[");
    while text.len() < bytes {
        let comma = if text.len() == 1 { "" } else { ", " };
        text.push_str(&format!("{comma}{}", row(text.len())));
    }
    text + "]"
}

fn row(id: usize) -> String {
    format!(
        "{{\"id\": {id}, \"title\": \"Row {id}\", \"text\": \"It says \\\"no\\\".\", \"ok\": true}}"
    )
}

/// Returns rows that have a mistake each, of several kinds.
fn broken_rows(bytes: usize) -> String {
    let mut text = String::from("[");
    for n in 0.. {
        let row = row(text.len());
        text.push_str(&match n % 4 {
            0 => row.replace("true", "True"),
            1 => row.replace("\"title\"", "title"),
            2 => row.replace(", \"ok\"", " \"ok\""),
            _ => row.replace("\\\"no\\\"", "\"no\""),
        });
        if text.len() >= bytes {
            break;
        }
        text.push_str(", ");
    }
    text + "]"
}

/// Without a limit on repairs: the longest texts have more mistakes than the default allows.
fn unlimited() -> RepairOptions {
    RepairOptions::default().within(&Limits::default().with_max_repairs(usize::MAX))
}

fn repair(bytes: usize) {
    let text = broken_rows(bytes);
    let repaired = repair_root(black_box(&text), &unlimited());
    assert_eq!(repaired.status, RepairStatus::Repaired);
    assert!(repaired.repairs.len() > bytes / 200);
}

fn repair_in_pushes(bytes: usize) {
    let text = broken_rows(bytes);
    let mut document = Document::new(64).repairing(unlimited());
    for push in text.as_bytes().chunks(64) {
        let push = std::str::from_utf8(black_box(push)).unwrap();
        document.push(push).unwrap();
    }
    document.finish().unwrap();
    assert!(document.repairs().count() > bytes / 200);
}

/// Passes an answer through a relay of whole bodies, in one call or in two.
fn body(text: &str, calls: usize) {
    let cut = text.len() / calls;
    let of = |text: &str, finish: &str| {
        let message = json!({"role": "assistant", "content": text});
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        json!({"object": "chat.completion", "choices": [choice]}).to_string()
    };
    let finish = if cut < text.len() { "length" } else { "stop" };
    let mut relay = BodyRelay::new(Limits::default());
    relay.handle_body(NOW, black_box(of(&text[..cut], finish)));
    let mut sent = Bytes::new();
    while let Some(output) = relay.poll_output() {
        match output {
            Output::Bytes(bytes) => sent = bytes,
            Output::Call { request, .. } => {
                let rest = rest(&request, text, cut, text.len());
                relay.handle_body(NOW, of(&rest, "stop"));
            }
            Output::Done { outcome, .. } => assert!(is_whole(&outcome), "{outcome:?}"),
            _ => {}
        }
    }
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    assert!(sent["choices"][0]["message"]["content"] == text);
}

/// Passes a streamed answer through a relay, in `calls` calls.
fn answer(text: &str, calls: usize) {
    let event = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"object": "chat.completion.chunk", "choices": [choice]})
        )
    };
    let limits = Limits::default().with_max_continuations(calls as u32);
    let mut relay = Relay::new(limits);
    let (mut part, mut sent) = (text[..text.len() / calls].to_owned(), 0);
    for call in 1..=calls {
        let mut stream = String::new();
        for piece in part.as_bytes().chunks(64) {
            let content = std::str::from_utf8(piece).unwrap();
            stream.push_str(&event(json!({"content": content}), None));
        }
        let finish = if call < calls { "length" } else { "stop" };
        stream.push_str(&event(json!({}), Some(finish)));
        stream.push_str("data: [DONE]\n\n");
        let mut stream = Bytes::from(stream);
        let (mut next, mut is_over) = (None, false);
        while !is_over {
            is_over = stream.is_empty();
            if is_over {
                relay.handle_transport_end(NOW, TransportEnd::Closed);
            } else {
                let read = stream.split_to(stream.len().min(16 << 10));
                relay.handle_bytes(NOW, black_box(read));
            }
            while let Some(output) = relay.poll_output() {
                match output {
                    Output::Bytes(bytes) => sent += bytes.len(),
                    Output::Call { request, .. } => next = Some(request),
                    Output::Done { outcome, .. } => assert!(is_whole(&outcome), "{outcome:?}"),
                    _ => {}
                }
            }
        }
        if call < calls {
            let request = next.unwrap();
            let (from, to) = (text.len() * call / calls, text.len() * (call + 1) / calls);
            part = rest(&request, text, from, to);
            relay.handle_open(NOW);
        }
    }
    assert!(sent > text.len());
}

/// Returns a model's answer to a request for the rest: the anchor, and the text of a range.
fn rest(request: &Request, text: &str, from: usize, to: usize) -> String {
    let delivered = text[..from].trim_end().len();
    let anchor = &request.turn.as_ref().unwrap().anchor;
    format!("{anchor}{}", &text[delivered..to])
}

fn is_whole(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Complete { .. } | Outcome::PassedThrough { .. }
    )
}

/// Opens a container for every three bytes, reads the cut and closes all of them.
fn depth(bytes: usize) {
    let depth = bytes / 3;
    let text = "{\"a\":[".repeat(depth / 2);
    let mut document = Document::new(depth);
    let mut sinks = (
        LiveValue::new(),
        ChildIndex::new(Limits::default().parser.max_children),
        Paths::new(["/a/0/a"]).unwrap(),
    );
    for push in text.as_bytes().chunks(4096) {
        let push = std::str::from_utf8(push).unwrap();
        document.push_with(black_box(push), &mut sinks).unwrap();
        black_box(document.cut_state());
    }
    let cut = document.cut();
    assert_eq!(cut.path.len(), depth / 2 * 4);
    let mut suffix = String::new();
    let end = document.complete_into(CloseOptions::default(), &mut suffix);
    assert_eq!(end, Some(text.len()));
    let checkpoint = document.checkpoint();
    document.push_with(&suffix, &mut sinks).unwrap();
    assert!(document.is_complete() && document.restore(&checkpoint));
}
