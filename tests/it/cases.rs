//! The behaviours of the seam as data: the delivered text, the continuations, and the result.
//!
//! A file of `tests/cases/seam` is one behaviour; `tests/cases/README.md` explains the format.

use restitch::Limits;
use restitch::splice::{Expect, Seam, Slot, Splice, SpliceError, SpliceRequest};
use serde_json::{Value, json};

use restitch_testing::case_file::{CaseFile, read_folder};

/// Cases that the engine does not fulfil yet. One that it does fulfil must be removed here.
const NOT_YET: [&str; 2] = [
    // The six bytes of an escape count as six letters.
    "escaped-rows-are-no-anchor",
    // A row with two letters in common is taken for the row that was cut.
    "phantom",
];

#[test]
fn seams_are_as_their_files_say() {
    let facts = [
        "expect",
        "outcome",
        "alignment",
        "failure",
        "offset",
        "repair",
        "tag",
        "sentence",
        "given",
        "mark",
        "early_end",
        "ambiguous",
    ];
    let cases = read_folder("seam", &facts, &["delivered", "continuation", "text"]);
    assert!(cases.len() >= 100, "{} files", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case.name.as_str();
        let (whole, by_character) = (joined(case, usize::MAX), joined(case, 1));
        assert_eq!(by_character, whole, "{name}: character by character");
        let wanted = wanted(case);
        let is_known = NOT_YET.contains(&name);
        if (whole == wanted) == is_known {
            wrong.push(format!(
                "{name}, known: {is_known}\n  wanted {wanted}\n  found  {whole}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "covered: {} files, {} of which the engine does not fulfil",
        cases.len(),
        NOT_YET.len()
    );
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
        "early_end": case.fact("early_end") == Some("true"),
        "ambiguous": case.fact("ambiguous") == Some("true"),
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
    let mut request = SpliceRequest {
        expect,
        mark: case.fact("mark").map(str::to_owned),
        tags: case.facts("tag").map(str::to_owned).collect(),
        own_words: own_words(case),
        given: case.fact("given").unwrap_or_default().to_owned().into(),
        ..SpliceRequest::default()
    };
    let (mut last, mut repairs) = (Value::Null, Vec::new());
    for continuation in case.blocks("continuation") {
        let mut splice = Splice::new(&slot, request.clone(), &limits);
        let characters: Vec<char> = continuation.chars().collect();
        for text in characters.chunks(chunk.min(characters.len().max(1))) {
            let _ = splice.feed(&mut slot, &text.iter().collect::<String>());
        }
        let finished = splice.finish(&mut slot);
        // A session remembers it for the next answer to the same cut.
        request.believes_early_end |= finished == Err(SpliceError::EarlyEnd);
        last = outcome(&finished);
        last["ambiguous"] = splice.seam().is_some_and(|seam| seam.ambiguous).into();
        let made = splice.repairs().iter();
        repairs.extend(
            made.map(|repair| json!({"rule": repair.rule.as_str(), "offset": repair.offset})),
        );
    }
    last["text"] = slot.document().text().into();
    last["repairs"] = repairs.into();
    last
}

/// Returns the words of the prompt that has the sentence and the tags of a case.
fn own_words(case: &CaseFile) -> Vec<String> {
    let sentences = case.facts("sentence").map(str::to_owned);
    let tags = case.facts("tag");
    sentences
        .chain(tags.flat_map(|tag| [format!("<{tag}>\n"), format!("</{tag}>\n")]))
        .collect()
}

fn outcome(merged: &Result<Seam, SpliceError>) -> Value {
    let (how, offset) = match merged {
        Ok(seam) => (seam.alignment.as_str(), None),
        Err(SpliceError::Empty) => ("empty", None),
        Err(SpliceError::NoAlignment) => ("no_alignment", None),
        Err(SpliceError::Differs(at)) => ("differs", Some(*at)),
        Err(SpliceError::Undecided) => ("undecided", None),
        Err(SpliceError::Ambiguous) => ("ambiguous", None),
        Err(SpliceError::EarlyEnd) => ("early_end", None),
        Err(SpliceError::OwnWords) => ("own_words", None),
        Err(SpliceError::Pending(_)) => ("pending", None),
        Err(SpliceError::Malformed(error)) => ("malformed", Some(error.offset)),
        Err(SpliceError::Overwrites(at)) => ("overwrites", Some(*at)),
        Err(other) => panic!("{other}"),
    };
    let early_end = merged.as_ref().is_ok_and(|seam| seam.early_end);
    let outcome = if merged.is_ok() { "joined" } else { "failed" };
    json!({"outcome": outcome, "how": how, "offset": offset, "early_end": early_end})
}
