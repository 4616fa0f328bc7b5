//! The test data of our own is what its README says: small, and valid where it says so.

use std::fs;
use std::path::Path;

use restitch::AllowedRoots;
use restitch::{Document, Trailing};
use serde_json::Value;

use restitch_testing::{
    corpus_documents, corpus_files, corpus_rows, corpus_strings, grammar_files,
};

/// More would be a burden for everybody who clones the repository.
const MAX_BYTES: u64 = 400_000;

fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            if path.is_dir() {
                bytes(&path)
            } else {
                path.metadata().unwrap().len()
            }
        })
        .sum()
}

#[test]
fn our_own_test_data_is_small_and_complete() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let bytes = bytes(&folder);
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    assert!(
        corpus_documents("docs").len() >= 30
            && grammar_files().len() >= 100
            && corpus_strings().len() >= 50
    );
    let rows = corpus_rows("streams/index.jsonl");
    for file in corpus_files("streams/openai-chat") {
        let name = format!(
            "openai-chat/{}",
            file.file_name().unwrap().to_str().unwrap()
        );
        assert!(
            rows.iter().any(|(_, row)| row["file"] == name),
            "{name} has no row"
        );
    }
}

#[test]
fn a_file_of_ndjson_has_one_root_a_line() {
    let files = corpus_files("ndjson");
    assert!(files.len() >= 3);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for line in &lines {
            serde_json::from_str::<Value>(line).unwrap();
        }
        let mut document = Document::with_options(64, AllowedRoots::Any, Trailing::Next);
        document.push(&text).unwrap();
        assert_eq!(document.roots(), lines.len(), "{file:?}");
    }
}
