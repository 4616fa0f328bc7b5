//! Hard cases by name: the document, the delivered text, the fragments, and the expected result,
//! decided by hand. Where two documents would explain the same texts, only a reported ambiguity is
//! right.

use restitch::Utf8;
use restitch::splice::Expect::{Anchor, Exact};

use super::join::{Outcome, join, join_pieces};
use super::judge::{Brings, Case, Verdict};
use super::reading::read;
use restitch_testing::case_file::read_rows;
use restitch_testing::is_doubtful_end;

/// A row of `tests/cases/hard.rows`: a name, the document, the delivered part of it, the fragments
/// in order, what the request asked for (`anchor`, `exact`), and the expected result: `right`,
/// `flagged`, or `either` of them.
type HardCase = (String, String, String, Vec<String>, String, String);

fn hard_cases() -> Vec<HardCase> {
    let cases = read_rows("hard.rows");
    assert_eq!(cases.len(), 75);
    cases
}

/// Cases that the engine does not handle yet.
const NOT_YET: [&str; 1] = ["overlap from inside an escape"];

fn verdict(hard: &HardCase, chunk: usize) -> (Verdict, Outcome) {
    let (name, document, delivered, fragments, expect, _) = hard;
    assert!(document.starts_with(delivered), "{name}");
    let expect = match expect.as_str() {
        "anchor" => Anchor,
        "exact" => Exact,
        other => panic!("{name}: {other}"),
    };
    let truth = read(document).unwrap();
    let mut text = delivered.clone();
    let mut last = None;
    for fragment in fragments {
        let outcome = join(&text, fragment, expect, chunk);
        let case = Case {
            truth: &truth,
            delivered: &text,
            fragment,
            brings: Brings::Rest,
            seam: None,
        };
        let verdict = case.judge(&outcome);
        text.clone_from(&outcome.text);
        last = Some((verdict, outcome));
    }
    last.unwrap()
}

#[test]
fn hard_cases_are_joined_as_expected() {
    let mut failed = Vec::new();
    for case in &hard_cases() {
        let (name, wanted) = (&case.0, case.5.as_str());
        for chunk in [1, 4, 16, usize::MAX] {
            let (verdict, outcome) = verdict(case, chunk);
            let fits = match wanted {
                "right" => verdict == Verdict::Right,
                "flagged" => verdict == Verdict::Flagged,
                "either" => matches!(verdict, Verdict::Right | Verdict::Flagged),
                other => panic!("{name}: {other}"),
            };
            if !fits && !failed.contains(name) {
                println!("{name}: {verdict:?}, not {wanted}: {outcome:?}");
                failed.push(name.clone());
            }
        }
    }
    for name in NOT_YET
        .into_iter()
        .filter(|name| !failed.iter().any(|failed| failed == name))
    {
        println!("handled by now: {name}");
    }
    failed.retain(|name| !NOT_YET.contains(&name.as_str()));
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn names_of_hard_cases_are_unique() {
    let mut names: Vec<_> = hard_cases().into_iter().map(|case| case.0).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), hard_cases().len());
}

/// Splits bytes that arrive in pieces of `chunk` into complete characters.
fn characters(bytes: &[u8], chunk: usize) -> Vec<String> {
    let mut utf8 = Utf8::new();
    let mut pieces = Vec::new();
    for mut piece in bytes.chunks(chunk) {
        while let Some(text) = utf8.next_text(&mut piece).unwrap() {
            pieces.push(text.to_owned());
        }
    }
    pieces
}

#[test]
fn a_cut_inside_a_character_loses_only_that_character() {
    let document = "{\"título\":\"日本語 😀\",\"n\":[1,2]}";
    let truth = read(document).unwrap();
    for cut in 2..document.len() - 1 {
        let delivered = characters(&document.as_bytes()[..cut], 3).concat();
        for chunk in [1, 2, 3, 5] {
            for (fragment, expect) in [(document, Anchor), (&document[delivered.len()..], Exact)] {
                let pieces = characters(fragment.as_bytes(), chunk);
                let outcome = join_pieces(&delivered, pieces.iter().map(String::as_str), expect);
                if expect == Anchor
                    && outcome.how == "EarlyEnd"
                    && is_doubtful_end(document, delivered.len())
                {
                    continue;
                }
                let case = Case {
                    truth: &truth,
                    delivered: &delivered,
                    fragment,
                    brings: Brings::Rest,
                    seam: None,
                };
                assert_eq!(
                    case.judge(&outcome),
                    Verdict::Right,
                    "{cut} {chunk} {expect:?}: {outcome:?}"
                );
            }
        }
    }
}
