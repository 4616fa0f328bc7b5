//! The behaviours of the seam as data: the delivered text, the continuations, and the result.
//!
//! A file of `tests/cases/seam` is one behaviour; `tests/cases/README.md` explains the format.

use restitch::Limits;
use restitch::splice::{Expect, Seam, Slot, Splice, SpliceError};
use serde_json::{Value, json};

use crate::case_file::{CaseFile, read_folder};

/// Cases that the engine does not fulfil yet. One that it does fulfil must be removed here.
const NOT_YET: [&str; 4] = [
    "comma-missing-after-a-number",
    "number-that-occurs-twice",
    "refusal-in-an-opened-object",
    "root-again-over-nested-keys-alike",
];

#[test]
fn seams_are_as_their_files_say() {
    let facts = ["expect", "outcome", "alignment", "failure", "offset", "repair"];
    let cases = read_folder("seam", &facts, &["delivered", "continuation", "text"]);
    assert!(cases.len() >= 57, "{} files", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case.name.as_str();
        let (whole, by_character) = (joined(case, usize::MAX), joined(case, 1));
        assert_eq!(by_character, whole, "{name}: character by character");
        let wanted = wanted(case);
        let is_known = NOT_YET.contains(&name);
        if (whole == wanted) == is_known {
            wrong.push(format!("{name}, known: {is_known}\n  wanted {wanted}\n  found  {whole}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("covered: {} files, {} of which the engine does not fulfil", cases.len(), NOT_YET.len());
}

fn wanted(case: &CaseFile) -> Value {
    let repair = |fact: &str| {
        let (rule, offset) = fact.split_once(" at ").unwrap();
        json!({"rule": rule, "offset": offset.parse::<usize>().unwrap()})
    };
    let outcome = case.fact("outcome").unwrap();
    json!({
        "text": case.block("text").or(case.block("delivered")),
        "outcome": outcome,
        "how": if outcome == "joined" { case.fact("alignment") } else { case.fact("failure") },
        "offset": case.fact("offset").map(|offset| offset.parse::<usize>().unwrap()),
        "repairs": case.facts("repair").map(repair).collect::<Vec<_>>(),
    })
}

fn joined(case: &CaseFile, chunk: usize) -> Value {
    let limits = Limits::default();
    let expect = match case.fact("expect").unwrap() {
        "anchor" => Expect::Anchor,
        "exact" => Expect::Exact,
        "any" => Expect::Any,
        other => panic!("no expectation: {other}"),
    };
    let mut slot = Slot::new(&limits);
    slot.push(case.block("delivered").unwrap()).unwrap();
    let (mut last, mut repairs) = (Value::Null, Vec::new());
    for continuation in case.blocks("continuation") {
        let mut splice = Splice::new(&slot, expect, &limits);
        let characters: Vec<char> = continuation.chars().collect();
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
