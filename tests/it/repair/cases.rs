//! The rules of repair as data: a text, the JSON that comes out, and the log.
//!
//! A file of `tests/cases/repair` is one behaviour; `tests/cases/README.md` explains the format.

use std::collections::BTreeSet;

use restitch::Limits;
use restitch::repair::{
    RepairLevel, RepairOptions, RepairRule, RepairStatus, RepairedRoot, repair_root,
};
use restitch::shape::Repaired;

use crate::fuzz::repair::fed;
use restitch_testing::case_file::{CaseFile, read_folder};
use restitch_testing::{chunks, splits};

/// Dots are taken together, however many come at once, up to the look-ahead.
#[test]
fn dots_are_taken_alike_in_pieces() {
    let options = RepairOptions::new(RepairLevel::Guess);
    let most = Limits::default().parser.max_lookahead;
    for dots in (1..20).chain(most - 2..most + 3) {
        for (before, after) in [
            ("{\"a\"", ":\"b\"}"),
            ("[1, 2, ", "]"),
            ("[1, 2", "]"),
            ("{\"a\": 1, ", "}"),
            ("[1, ", ""),
        ] {
            let text = [before, &".".repeat(dots), after].concat();
            let whole = fed([&*text], &options);
            let (first, last) = text.split_at(before.len() + dots / 2);
            assert_eq!(
                fed([first, last], &options),
                whole,
                "{dots}: {before}{after}"
            );
            if dots < 20 {
                assert_eq!(
                    fed(text.split_inclusive(|_| true), &options),
                    whole,
                    "{dots}: {before}{after}"
                );
            }
        }
    }
}

/// Cases that the engine does not fulfil yet. One that it does fulfil must be removed here.
const NOT_YET: [&str; 0] = [];

/// What a case says, or what came out.
#[derive(Debug, PartialEq)]
struct Found {
    status: &'static str,
    error: Option<usize>,
    output: Option<String>,
    repairs: Vec<String>,
}

#[test]
fn repairs_are_as_their_files_say() {
    let cases = read_folder(
        "repair",
        &["level", "status", "repair", "error"],
        &["input", "output"],
    );
    let mut wrong = Vec::new();
    for case in &cases {
        let wanted = wanted(case);
        let found = found(&repaired(case, level(case)), &wanted.repairs);
        let is_known = NOT_YET.contains(&case.name.as_str());
        if (wanted == found) == is_known {
            wrong.push(format!(
                "{}, known: {is_known}\n  wanted {wanted:?}\n  found  {found:?}",
                case.name
            ));
        }
    }
    println!("covered: {} files", cases.len());
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn pieces_of_a_text_are_repaired_as_the_whole() {
    let mut ways = 0;
    for case in &read_folder(
        "repair",
        &["level", "status", "repair", "error"],
        &["input", "output"],
    ) {
        let (text, options) = (
            case.block("input").unwrap(),
            RepairOptions::new(level(case)),
        );
        let whole = fed([text], &options);
        for mut cuts in splits(text.len()) {
            cuts.retain(|&cut| text.is_char_boundary(cut));
            let pieces = chunks(text.as_bytes(), &cuts)
                .into_iter()
                .map(|piece| std::str::from_utf8(piece).unwrap());
            assert_eq!(fed(pieces, &options), whole, "{}: {cuts:?}", case.name);
            ways += 1;
        }
        // What follows the first root is known to a whole text alone.
        if matches!(case.fact("status"), Some("valid" | "repaired")) && !is_listed(case) {
            assert_eq!(
                (whole.0, Some(whole.1)),
                (Ok(()), wanted(case).output),
                "{}",
                case.name
            );
        }
    }
    println!("covered: {ways} ways to split the texts");
}

#[test]
fn a_level_leaves_the_mistakes_of_the_next_one() {
    let cases = read_folder(
        "repair",
        &["level", "status", "repair", "error"],
        &["input", "output"],
    );
    for case in cases
        .iter()
        .filter(|case| case.fact("status") == Some("repaired"))
    {
        for lower in RepairLevel::ALL
            .into_iter()
            .filter(|lower| *lower < level(case))
        {
            let answer = repaired(case, lower);
            assert!(
                !matches!(answer.status, RepairStatus::Repaired | RepairStatus::Valid)
                    || !is_whole(case, &answer)
            );
        }
    }
}

/// Whether an answer is about the whole text, not about a root that ends before the mistake.
fn is_whole(case: &CaseFile, answer: &RepairedRoot) -> bool {
    answer.end == case.block("input").unwrap().len()
}

#[test]
fn every_rule_has_a_case_and_an_example_that_is_right() {
    let cases = read_folder(
        "repair",
        &["level", "status", "repair", "error"],
        &["input", "output"],
    );
    let rules: BTreeSet<_> = cases
        .iter()
        .flat_map(|case| case.facts("repair"))
        .map(|fact| split(fact).0)
        .collect();
    let missing: Vec<_> = RepairRule::ALL
        .iter()
        .filter(|rule| !rules.contains(rule.as_str()))
        .collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
    let mut wrong = Vec::new();
    for rule in RepairRule::ALL {
        let (text, json) = rule.example();
        let answer = repaired_text(
            text,
            &RepairOptions::new(rule.level()),
            *rule == RepairRule::LostBrackets,
        );
        if answer.json != json
            || answer.repairs.is_empty()
            || answer.repairs.iter().any(|made| made.rule != *rule)
        {
            wrong.push(format!("{rule}: {text:?} gives {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn level(case: &CaseFile) -> RepairLevel {
    let name = case.fact("level").unwrap();
    RepairLevel::ALL
        .into_iter()
        .find(|level| level.as_str() == name)
        .unwrap_or_else(|| panic!("no level: {name}"))
}

fn repaired(case: &CaseFile, level: RepairLevel) -> RepairedRoot {
    repaired_text(
        case.block("input").unwrap(),
        &RepairOptions::new(level),
        is_listed(case),
    )
}

/// Repairs a root, or a whole text: what follows the first root is known to a whole text alone.
fn repaired_text(text: &str, options: &RepairOptions, is_whole: bool) -> RepairedRoot {
    if !is_whole {
        return repair_root(text, options);
    }
    let Repaired {
        status,
        json,
        range,
        repairs,
        ..
    } = restitch::shape::repair(text, options);
    RepairedRoot {
        status,
        json: json.into_owned(),
        end: range.end,
        repairs,
    }
}

/// Whether a case lists values without an array around them.
fn is_listed(case: &CaseFile) -> bool {
    case.facts("repair")
        .any(|fact| split(fact).0 == RepairRule::LostBrackets.as_str())
}

/// Splits `RULE at OFFSET`.
fn split(fact: &str) -> (&str, usize) {
    let (rule, offset) = fact.split_once(" at ").unwrap();
    (rule, offset.parse().unwrap())
}

/// A valid text comes out as it is; of a malformed one, what comes out is not part of the case.
fn wanted(case: &CaseFile) -> Found {
    let status = match case.fact("status").unwrap() {
        "valid" => "valid",
        "repaired" => "repaired",
        "truncated" => "truncated",
        "malformed" => "malformed",
        other => panic!("no status: {other}"),
    };
    let output = case
        .block("output")
        .or_else(|| case.block("input"))
        .filter(|_| status != "malformed");
    Found {
        status,
        error: case.fact("error").map(|offset| offset.parse().unwrap()),
        output: output.map(str::to_owned),
        repairs: case.facts("repair").map(str::to_owned).collect(),
    }
}

/// A repair of the same rule as the one before it is left out if `wanted` does not have it.
fn found(answer: &RepairedRoot, wanted: &[String]) -> Found {
    let (status, error) = match answer.status {
        RepairStatus::Valid => ("valid", None),
        RepairStatus::Repaired => ("repaired", None),
        RepairStatus::Truncated => ("truncated", None),
        RepairStatus::Malformed(error) => ("malformed", Some(error.offset)),
    };
    let (mut repairs, mut last) = (Vec::new(), None);
    for made in &answer.repairs {
        let line = format!("{} at {}", made.rule, made.range.start);
        if last.replace(made.rule) != Some(made.rule) || wanted.contains(&line) {
            repairs.push(line);
        }
    }
    let output = (status != "malformed").then(|| answer.json.clone());
    // What a malformed text needed before it was given up is not part of a case.
    repairs.truncate(if status == "malformed" {
        0
    } else {
        repairs.len()
    });
    Found {
        status,
        error,
        output,
        repairs,
    }
}
