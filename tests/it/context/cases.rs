//! Contexts as data: a document, a cut and a budget, and every context.
//!
//! A file of `tests/cases/context` is one case; `tests/cases/README.md` explains the format.

use restitch::AllowedRoots;
use restitch::Document;
use restitch::context::{ContextIndex, ContextOptions, Contexts};
use serde_json::Value;

use restitch_testing::case_file::{CaseFile, read_folder};
use restitch_testing::{Rng, text_cuts};

/// The names of the contexts. Each is a block or a fact of every case, except the question.
const CONTEXTS: [&str; 11] = [
    "overlap_context",
    "ambiguous",
    "hierarchy_context",
    "hierarchy_context_for_prompt",
    "complete_part",
    "json_parsing_success",
    "delivered_summary",
    "cut_off_element",
    "element_before_cutoff",
    "last_raw_json",
    "kpi_question",
];

/// The question is the same in all cases.
const QUESTION: &str = "Based on the delivered data so far, approximately what percentage (%) of the total required \
    content has been delivered? Respond outside of the JSON, with one line `PROGRESS: n`, where n is an integer between \
    0-100.";

#[test]
fn contexts_are_as_their_files_say() {
    let facts = [&CONTEXTS[..], &["cut", "budget"]].concat();
    let blocks = [&CONTEXTS[..], &["document", "fragment"]].concat();
    let cases = read_folder("context", &facts, &blocks);
    assert!(cases.len() >= 18, "{} files", cases.len());
    for case in &cases {
        let number = |name| case.fact(name).unwrap().parse::<usize>().unwrap();
        let (cut, budget) = (number("cut"), number("budget"));
        let text = &case.block("document").unwrap()[..cut];
        let by_character: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
        let by_chance = text_cuts(text, &mut Rng::new(cut as u64));
        for cuts in [vec![], by_character, by_chance] {
            let found = contexts(text, &cuts, budget, case.block("fragment"));
            for name in CONTEXTS {
                assert_eq!(
                    found[name],
                    wanted(case, name, text),
                    "{}: {name}",
                    case.name
                );
            }
            assert_eq!(
                found.as_object().unwrap().len(),
                CONTEXTS.len(),
                "{}",
                case.name
            );
        }
    }
    println!("covered: {} files", cases.len());
}

/// What a case says of one context.
fn wanted(case: &CaseFile, name: &str, text: &str) -> Value {
    match (case.fact(name), case.block(name)) {
        (None, None) if name == "kpi_question" => QUESTION.into(),
        (None, Some(block)) => block.into(),
        (Some("the text as cut"), None) => text.into(),
        (Some("null"), None) => Value::Null,
        (Some(fact), None) => fact.parse::<bool>().unwrap().into(),
        (fact, block) => panic!("{}: {name} is {fact:?} and {block:?}", case.name),
    }
}

/// Returns the contexts of a text that is pushed in pieces.
fn contexts(text: &str, cuts: &[usize], budget: usize, fragment: Option<&str>) -> Value {
    let mut document = Document::with_roots(64, AllowedRoots::Any);
    let mut index = ContextIndex::default();
    let mut start = 0;
    for end in cuts.iter().copied().chain([text.len()]) {
        document.push_with(&text[start..end], &mut index).unwrap();
        start = end;
    }
    let options = ContextOptions::default()
        .budget(budget)
        .last_raw_json(fragment.unwrap_or(text));
    serde_json::to_value(Contexts::of(&document, &index, &options)).unwrap()
}
