//! The seam's behaviours as data: what was delivered, what came, and what is made of it. Expected values are by hand.
//!
//! A file of `tests/cases/seam` is one behaviour. `text` is what stands at the end (`null`: what was delivered, and
//! nothing else), `outcome` that of the last fragment, `repairs` those of all of them.

use std::{fs, path::Path};

use restitch::Limits;
use restitch::splice::{Expect, Seam, Slot, Splice, SpliceError};
use serde_json::{Value, json};

/// What falls short of its file so far; what does not any more is struck off.
const NOT_YET: [&str; 3] =
    ["comma-missing-behind-a-number", "number-that-stands-elsewhere-too", "refusal-where-an-object-has-opened"];

#[test]
fn seams_are_as_their_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/seam");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 40, "{} files", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let case: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let name = case["name"].as_str().unwrap();
        assert_eq!(file.file_stem().unwrap(), name, "a file has the name of its behaviour");
        assert!(case["why"].is_string());
        let (whole, by_character) = (joined(&case, usize::MAX), joined(&case, 1));
        assert_eq!(by_character, whole, "{name}: character by character");
        let wanted = wanted(&case);
        let is_known = NOT_YET.contains(&name);
        if (whole == wanted) == is_known {
            wrong.push(format!("{name}, known: {is_known}\n  wanted {wanted}\n  found  {whole}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("covered: {} files, {} of which fall short", files.len(), NOT_YET.len());
}

fn wanted(case: &Value) -> Value {
    let text = if case["text"].is_null() { &case["delivered"] } else { &case["text"] };
    json!({
        "text": text,
        "outcome": case["outcome"],
        "how": if case["outcome"] == "joined" { &case["alignment"] } else { &case["failure"] },
        "offset": case["offset"],
        "repairs": case["repairs"],
    })
}

fn joined(case: &Value, chunk: usize) -> Value {
    let limits = Limits::default();
    let expect = match case["expect"].as_str().unwrap() {
        "anchor" => Expect::Anchor,
        "exact" => Expect::Exact,
        "any" => Expect::Any,
        other => panic!("no expectation: {other}"),
    };
    let mut slot = Slot::new(&limits);
    slot.push(case["delivered"].as_str().unwrap()).unwrap();
    let (mut last, mut repairs) = (Value::Null, Vec::new());
    for fragment in case["fragments"].as_array().unwrap() {
        let mut splice = Splice::new(&slot, expect, &limits);
        let characters: Vec<char> = fragment.as_str().unwrap().chars().collect();
        for text in characters.chunks(chunk.min(characters.len().max(1))) {
            let _ = splice.feed(&mut slot, &text.iter().collect::<String>());
        }
        last = outcome(&splice.finish(&mut slot));
        let made = splice.repairs().iter();
        repairs.extend(made.map(|repair| json!({"rule": repair.rule.as_str(), "offset": repair.offset})));
    }
    last["text"] = slot.document().text().into();
    last["repairs"] = repairs.into();
    last
}

fn outcome(merged: &Result<Seam, SpliceError>) -> Value {
    let (how, offset) = match merged {
        Ok(seam) => (seam.alignment.as_str(), None),
        Err(SpliceError::Empty) => ("empty", None),
        Err(SpliceError::NoAlignment) => ("no_alignment", None),
        Err(SpliceError::Differs(at)) => ("differs", Some(*at)),
        Err(SpliceError::Undecided) => ("undecided", None),
        Err(SpliceError::Ambiguous) => ("ambiguous", None),
        Err(SpliceError::Pending(_)) => ("held", None),
        Err(SpliceError::Malformed(error)) => ("malformed", Some(error.offset)),
        Err(SpliceError::Overwrites(at)) => ("overwrites", Some(*at)),
        Err(other) => panic!("{other}"),
    };
    json!({"outcome": if merged.is_ok() { "joined" } else { "failed" }, "how": how, "offset": offset})
}
