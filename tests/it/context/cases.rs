//! Contexts as data: a document, a cut, a budget and every context. Expected values were made by hand.

use std::{fs, path::Path};

use restitch::AllowedRoots;
use restitch::Document;
use restitch::context::{ContextIndex, ContextOptions, Contexts};
use serde_json::Value;

use crate::support::text_cuts;

#[test]
fn contexts_are_those_of_the_case_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/context");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "{} files", files.len());
    for file in &files {
        let case: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let name = case["name"].as_str().unwrap();
        assert_eq!(file.file_stem().unwrap(), name, "a file has the name of what it shows");
        assert!(case["why"].is_string());
        let cut = case["cut"].as_u64().unwrap() as usize;
        let text = &case["document"].as_str().unwrap()[..cut];
        let budget = case["budget"].as_u64().unwrap() as usize;
        let fragment = case["fragment"].as_str();
        let by_character: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
        let by_chance = text_cuts(text, &mut crate::support::Rng::new(cut as u64));
        for cuts in [vec![], by_character, by_chance] {
            let found = contexts(text, &cuts, budget, fragment);
            let wanted = case["contexts"].as_object().unwrap();
            for (key, wanted) in wanted {
                assert_eq!(&found[key], wanted, "{name}: {key}");
            }
            assert_eq!(found.as_object().unwrap().len(), wanted.len(), "{name}");
        }
    }
    println!("covered: {} files", files.len());
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
    let options = ContextOptions::default().budget(budget).last_raw_json(fragment.unwrap_or(text));
    serde_json::to_value(Contexts::of(&document, &index, &options)).unwrap()
}
