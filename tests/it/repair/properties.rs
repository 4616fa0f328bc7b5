//! What holds of every answer: valid JSON out, undone to the text, the same when repaired again;
//! and valid JSON stays.

use proptest::prelude::*;
use restitch::repair::{RepairLevel, RepairOptions, RepairStatus, repair_root};
use serde_json::Value;

use super::documents;
use super::mistake::{apply, kinds};
use super::source::Class;
use crate::fuzz::repair::{check_text, fed};
use restitch_testing::{Rng, chunks, corpus_documents, grammar_files, text_cuts};

/// Checks that a valid document is its own repair.
fn check_valid(name: &str, text: &str) {
    for level in RepairLevel::ALL {
        let answer = repair_root(text, &RepairOptions::new(level));
        assert_eq!(answer.status, RepairStatus::Valid, "{name}, {level}");
        assert!(
            answer.json.trim() == text.trim() && answer.repairs.is_empty(),
            "{name}, {level}: it was changed"
        );
    }
}

#[test]
fn valid_documents_stay_on_every_level() {
    let documents = corpus_documents("docs");
    for (name, text) in &documents {
        check_valid(name, text);
    }
    for (name, source) in documents::generated(documents::REPORT, 64) {
        check_valid(&name, &source.text);
    }
    let mut files = grammar_files();
    files.retain(|file| {
        file.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("y_")
    });
    for file in &files {
        check_valid(
            &file.display().to_string(),
            &std::fs::read_to_string(file).unwrap(),
        );
    }
    println!(
        "covered: {} documents, {} files of the grammar",
        documents.len(),
        files.len()
    );
}

#[test]
fn answers_to_seeded_mistakes_keep_their_promises() {
    let mut texts = 0;
    for (_, source) in documents::generated(documents::REPORT, 32) {
        for (seed, kind) in kinds().enumerate() {
            let Some(mistake) = (kind.make)(&source, &mut Rng::new(seed as u64)) else {
                continue;
            };
            let text = apply(&source.text, mistake.broken.iter());
            for level in RepairLevel::ALL {
                let options = RepairOptions::new(level);
                check_text(&text, &options);
                let cuts = text_cuts(&text, &mut Rng::new(seed as u64));
                let pieces = chunks(text.as_bytes(), &cuts)
                    .into_iter()
                    .map(|piece| std::str::from_utf8(piece).unwrap());
                assert_eq!(
                    fed(pieces, &options),
                    fed([&*text], &options),
                    "{text:?} in pieces, {cuts:?}"
                );
            }
            texts += 1;
        }
    }
    println!("covered: {texts} texts on each level");
}

#[test]
fn prefixes_of_valid_documents_show_nothing_that_changes() {
    let mut prefixes = 0;
    for (name, source) in documents::generated(documents::REPORT, 9)
        .into_iter()
        .filter(|(_, s)| s.text.len() < 1200)
    {
        let text = &source.text;
        let whole: Value = serde_json::from_str(text).unwrap();
        let mut last: Option<Value> = None;
        for at in (1..text.trim_end().len()).filter(|&at| text.is_char_boundary(at)) {
            let answer = repair_root(&text[..at], &RepairOptions::default());
            assert_eq!(
                answer.status,
                RepairStatus::Truncated,
                "{name}: {:?}",
                &text[..at]
            );
            // A whole text that ends in a number keeps it; the same text in a stream could go on.
            let token = source.tokens.partition_point(|token| token.range.end < at);
            let token = &source.tokens[token];
            if token.class == Class::Number && token.range.start < at {
                continue;
            }
            let shown = (!answer.json.is_empty())
                .then(|| serde_json::from_str::<Value>(&answer.json).unwrap());
            let is_kept = match (&last, &shown) {
                (Some(last), Some(shown)) => is_part(last, shown),
                (last, _) => last.is_none(),
            };
            assert!(is_kept, "{name}: {last:?} becomes {shown:?}");
            assert!(
                shown.as_ref().is_none_or(|shown| is_part(shown, &whole)),
                "{name}: {shown:?}"
            );
            last = shown;
            prefixes += 1;
        }
    }
    println!("covered: {prefixes} prefixes");
}

#[test]
fn a_stream_of_a_valid_document_comes_out_as_it_is() {
    for (_, source) in documents::generated(documents::REPORT, 36) {
        for level in RepairLevel::ALL {
            let characters = source.text.split_inclusive(|_| true);
            let (result, root, repairs) = fed(characters, &RepairOptions::new(level));
            assert_eq!(
                (result, root.trim(), repairs.len()),
                (Ok(()), source.text.trim(), 0)
            );
        }
    }
}

/// Whether `part` can become `whole` by growing: strings, the last element of an array, members.
pub(super) fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::String(part), Value::String(whole)) => whole.starts_with(part.as_str()),
        (Value::Array(part), Value::Array(whole)) => {
            let before = part.len().saturating_sub(1);
            part.len() <= whole.len()
                && part[..before] == whole[..before]
                && part.last().is_none_or(|last| is_part(last, &whole[before]))
        }
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|whole| is_part(value, whole))),
        _ => part == whole,
    }
}

/// The pieces of texts that are nearly JSON.
pub(super) const PIECES: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "\n",
    " ",
    "\"a\"",
    "\"b\": ",
    "'c'",
    "“d”",
    "key: ",
    "word",
    "12",
    "-0.5e1",
    "007",
    "true",
    "None",
    "nul",
    "NaN",
    "// x\n",
    "/* y */",
    "# z\n",
    "...",
    "\u{a0}",
    "\u{feff}",
    "\\\"",
    "\\_",
    "\\u12",
    "\\ud83d",
    "\"e: ",
    "}], {",
    "},\"{\"",
    "<a href=\"x\">",
    "\t",
    "é",
    "```",
    "}]",
    ", ",
    "\"f\" said \"g\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_to_any_text_keep_their_promises(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        let text = pieces.concat();
        for level in RepairLevel::ALL {
            check_text(&text, &RepairOptions::new(level));
        }
        check_text(&format!("[{text}"), &RepairOptions::default());
        check_text(&format!("{{\"a\": {text}"), &RepairOptions::default());
    }
}
