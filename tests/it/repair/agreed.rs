//! Broken texts on which the two best-known repairers agree.

use restitch::repair::{RepairOptions, RepairStatus};
use serde_json::Value;

use super::source::is_alike;
use restitch_testing::{corpus_rows, skipped};

/// The rows that are answered otherwise, with the reason. A row that agrees
/// again must be removed here.
const DIFFERENT: [(&str, &str); 3] = [
    ("{\"a\":2.", "no digit is invented for a number that is cut"),
    ("{\"a\":2e", "the same"),
    (
        "{\n  \"firstName\": \"John\" /* comment */ \n  lastName: Smith",
        "one quote inside a string that is cut costs less than a comma, a key and a word",
    ),
];

#[test]
fn what_other_repairers_agree_on_is_answered_alike() {
    let rows = corpus_rows("repair/agreed.jsonl");
    if rows.is_empty() {
        skipped("RESTITCH_CORPUS has no repair/agreed.jsonl");
        return;
    }
    let mut misses = Vec::new();
    for (_, row) in &rows {
        let (name, input) = (
            row["name"].as_str().unwrap(),
            row["input"].as_str().unwrap(),
        );
        let expected = row["expected"]
            .as_str()
            .map(|json| serde_json::from_str::<Value>(json).unwrap());
        let answer = repaired(input);
        let is_different = DIFFERENT.iter().any(|(known, _)| *known == input);
        let is_same = match (&answer, &expected) {
            (Some(own), Some(expected)) => is_alike(own, expected),
            (own, expected) => own.is_none() && expected.is_none(),
        };
        if is_same == is_different {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            println!(
                "{name}\n  {input:?}\n  {}\n  {}",
                show(answer.as_ref()),
                show(expected.as_ref())
            );
            misses.push(name);
        }
    }
    println!(
        "covered: {} texts, {} answered otherwise",
        rows.len(),
        misses.len()
    );
    assert!(misses.is_empty(), "{misses:#?}");
}

/// Returns the value of the root that a text has, if it has one.
fn repaired(input: &str) -> Option<Value> {
    let answer = restitch::shape::repair(input, &RepairOptions::default());
    match answer.status {
        RepairStatus::Malformed(_) => None,
        _ => serde_json::from_str(&answer.json).ok(),
    }
}
