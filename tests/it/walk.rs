//! A text that is read once, with the spans of its values recorded, means what it means to the slow
//! twins: the machine for the grammar, a walk of the bytes for the spans, `serde_json`'s tree for
//! the values.

use std::ops::Range;

use restitch::internal::json::Machine;
use restitch::internal::json::walk::{self, Raw, Table, ValueKind};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, at_least, corpus_documents, corpus_rows, grammar_files};
use serde_json::{Map, Value};

/// The slow twin of the grammar: the machine reads the text.
fn is_valid(text: &str) -> bool {
    let mut machine = Machine::new(1024);
    let Ok(end) = machine.feed(text.as_bytes()) else {
        return false;
    };
    let rest = text[end..].trim_start_matches([' ', '\t', '\n', '\r']);
    rest.is_empty() && machine.finish().is_ok()
}

/// Returns the span of each key and value below a value, in order.
fn spans(root: Raw<'_>) -> Vec<(ValueKind, Range<usize>)> {
    let (mut spans, mut due) = (Vec::new(), vec![root]);
    while let Some(value) = due.pop() {
        spans.push((value.kind(), value.range()));
        let below = value.members().flat_map(|(key, value)| [key, value]);
        let mut below: Vec<_> = below.chain(value.elements()).collect();
        below.reverse();
        due.append(&mut below);
    }
    spans
}

/// Returns the tree of a value.
fn tree(value: Raw<'_>) -> Value {
    match value.kind() {
        ValueKind::Object => {
            let member = |(key, value): (Raw<'_>, Raw<'_>)| {
                let key = key.decode().unwrap().into_owned();
                (key, tree(value))
            };
            Value::Object(value.members().map(member).collect::<Map<_, _>>())
        }
        ValueKind::Array => value.elements().map(tree).collect(),
        ValueKind::String => Value::from(value.decode().unwrap()),
        _ => serde_json::from_str(value.as_str()).unwrap(),
    }
}

/// Compares a text with the slow twins. Returns whether it is valid.
fn check(text: &str) -> bool {
    let mut table = Table::default();
    let recorded = table.read(text);
    assert_eq!(recorded.is_some(), is_valid(text), "{text}");
    assert_eq!(walk::is_valid(text), is_valid(text), "{text}");
    let Some(recorded) = recorded else {
        return false;
    };
    assert_eq!(recorded.as_str(), text.trim_ascii());
    assert_eq!(spans(recorded), spans(Raw::root(text).unwrap()), "{text}");
    // serde_json takes neither half of a surrogate pair nor deep texts.
    if let Ok(expected) = serde_json::from_str::<Value>(text) {
        assert_eq!(tree(recorded), expected, "{text}");
    }
    true
}

const SCALARS: [&str; 20] = [
    "0",
    "-0",
    "12",
    "-1.5e-3",
    "1E+9",
    "0.0",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\"",
    "\"a text of more than sixteen bytes, and of more than forty-eight of them\"",
    "\"an \\\"escape\\\" or two\\\\\"",
    "\"\\ud83d\\ude00 \\ud83d\"",
    "\"\\u00e9\\n\"",
    "\"é 😀\"",
    "\"}]\"",
    "\"{\\\"a\\\":[\"",
    "\"12345678\"",
    "\"1234567890123456\"",
];

const KEYS: [&str; 8] = [
    "\"a\"",
    "\"\"",
    "\"\\u0061\"",
    "\"text\"",
    "\"b\\\"\"",
    "\"é\"",
    "\"a longer name\"",
    "\"c\"",
];

const SPACES: [&str; 6] = ["", "", "", " ", "\n\t", "\r\n  "];

/// Writes a value with at most `room` containers in each other.
fn value(out: &mut String, room: usize, rng: &mut Rng) {
    let kind = rng.below(5);
    if room == 0 || kind < 2 {
        return out.push_str(rng.pick(&SCALARS));
    }
    let (open, close) = if kind == 2 { ('[', ']') } else { ('{', '}') };
    out.push(open);
    out.push_str(rng.pick(&SPACES));
    for at in 0..rng.below(5) {
        if at > 0 {
            out.extend([rng.pick(&SPACES), ",", rng.pick(&SPACES)]);
        }
        if kind > 2 {
            out.extend([rng.pick(&KEYS), rng.pick(&SPACES), ":", rng.pick(&SPACES)]);
        }
        value(out, room - 1, rng);
    }
    out.push_str(rng.pick(&SPACES));
    out.push(close);
}

/// Replaces or removes a piece of a text, or inserts one.
fn damage(text: &mut String, rng: &mut Rng) {
    const PIECES: [&str; 22] = [
        "", "\"", "\\", "{", "}", "[", "]", ",", ":", " ", "0", "-", ".", "e", "null", "\u{1f}",
        "\n", "\u{7f}", "é", "\\u12", "\"a\":1,", "\u{feff}",
    ];
    let mut at = |end| {
        let at = rng.below(end + 1);
        (0..=at).rfind(|&at| text.is_char_boundary(at)).unwrap()
    };
    let start = at(text.len());
    let end = match at(2) {
        0 => start,
        _ => (start + 1..=text.len())
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(start),
    };
    text.replace_range(start..end, rng.pick(&PIECES));
}

#[test]
fn generated_texts_mean_the_same_when_they_are_recorded() {
    let mut rows = Rows::of("generated texts");
    let (mut valid, mut large) = (0, 0);
    for seed in 0..at_least(20_000, 60_000) as u64 {
        if !rows.runs_next() {
            continue;
        }
        let (mut rng, mut text) = (Rng::new(seed), String::new());
        text.push_str(rng.pick(&SPACES));
        value(&mut text, 1 + rng.below(8), &mut rng);
        text.push_str(rng.pick(&SPACES));
        assert!(check(&text), "{text}");
        // A table has room for some hundred values.
        large += usize::from(spans(Raw::root(&text).unwrap()).len() > 200);
        for _ in 0..4 {
            damage(&mut text, &mut rng);
            valid += usize::from(check(&text));
        }
    }
    println!("{valid} damaged texts are valid, {large} have many values");
}

#[test]
fn all_numbers_of_values_and_depths_are_read() {
    for count in 0..400 {
        let list = vec!["1"; count].join(",");
        assert!(check(&format!("[{list}]")));
        assert!(check(&format!(
            "{{\"a\":[{list}],\"b\":{{\"c\":[[{list}]]}}}}"
        )));
    }
    for depth in (0..200).chain([1023, 1024, 1025, 5000]) {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let text = format!("{}0{}", open.repeat(depth), close.repeat(depth));
            let levels = depth * close.len();
            assert_eq!(check(&text), levels <= 1024, "{levels}");
            check(&format!("{}{}", open.repeat(depth), close.repeat(depth)));
            // One bracket is of the other kind.
            let mixed = text.replacen(close, if close == "]" { "}" } else { "]" }, 1);
            assert!(depth == 0 || !check(&mixed));
        }
    }
}

#[test]
fn recorded_texts_mean_the_same_when_they_are_recorded() {
    let mut covered = 0;
    for (folder, row) in corpus_rows("streams/index.jsonl") {
        let body = std::fs::read(folder.join(row["file"].as_str().unwrap())).unwrap();
        for line in String::from_utf8_lossy(&body).lines() {
            covered += usize::from(check(line.strip_prefix("data:").unwrap_or(line)));
        }
    }
    for (_, text) in corpus_documents("docs") {
        covered += usize::from(check(&text));
    }
    for path in grammar_files() {
        check(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
    }
    assert!(covered >= at_least(0, 30_000));
    println!("covered: {covered} events and documents");
}
