//! Repair: how often texts with seeded mistakes are put right, and how often they become other
//! documents.
//!
//! `cargo bench --bench repair -- table` prints the table over more documents, and the texts that
//! were not restored.

mod agreed;
mod answers;
mod bounds;
mod cases;
mod dense;
mod document;
mod documents;
mod mistake;
mod page;
mod properties;
mod quote_mistakes;
mod raw;
mod raw_strings;
mod settings;
mod source;
mod structure_mistakes;
mod table;
mod token_mistakes;

use restitch::repair::{RepairLevel, RepairOptions};

use restitch_testing::rows::Rows;
use restitch_testing::skipped;
use table::{Plan, Verdict};

/// Generated documents of the gate.
const DOCUMENTS: u64 = 64;

fn documents() -> Vec<(String, source::Source)> {
    let mut all = documents::generated(documents::TUNING, DOCUMENTS);
    all.extend(documents::corpus());
    all
}

#[test]
fn documents_with_seeded_mistakes_are_restored() {
    let documents = documents();
    let mut misses = Vec::new();
    let mut rows = Rows::of("texts with mistakes");
    for mistakes in 1..=3 {
        let seeds = documents::TUNING.start..documents::TUNING.start + 2;
        let plan = Plan {
            seeds,
            mistakes,
            kind: String::new(),
            options: RepairOptions::default(),
        };
        let table = table::measure(&documents, &plan, &mut rows, true);
        for miss in table
            .misses
            .iter()
            .filter(|miss| matches!(miss.verdict, Verdict::Silent | Verdict::Broken))
            .take(20)
        {
            println!("{}", miss.print());
        }
        println!(
            "{mistakes} at once, {} documents\n{}",
            documents.len(),
            table.print()
        );
        misses.extend(bounds::misses(&table, &rows, mistakes));
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn recorded_documents_with_seeded_mistakes_are_restored() {
    let mut documents = documents::recorded();
    documents.retain(|(_, source)| source.text.len() <= bounds::RECORDED_BYTES);
    if documents.is_empty() {
        skipped("RESTITCH_CORPUS is not set");
        return;
    }
    let seeds = documents::REPORT.start..documents::REPORT.start + 1;
    let plan = Plan {
        seeds,
        mistakes: 1,
        kind: String::new(),
        options: RepairOptions::default(),
    };
    let mut rows = Rows::of("recorded documents with mistakes");
    let table = table::measure(&documents, &plan, &mut rows, true);
    println!("covered: {} documents\n{}", documents.len(), table.print());
    assert_eq!(bounds::recorded(&table, &rows), None);
}

#[test]
fn mistakes_of_the_level_syntax_need_no_guess() {
    let seeds = documents::TUNING.start..documents::TUNING.start + 1;
    let options = RepairOptions::new(RepairLevel::Syntax);
    let mut rows = Rows::of("texts with mistakes of syntax");
    let table = table::measure(
        &documents(),
        &Plan {
            seeds,
            mistakes: 1,
            kind: String::new(),
            options,
        },
        &mut rows,
        false,
    );
    println!("{}", table.print());
    let misses = bounds::misses(&table, &rows, 1);
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn every_kind_of_mistake_has_places_and_breaks_the_text() {
    let documents = documents::generated(documents::REPORT, DOCUMENTS);
    let plan = Plan {
        seeds: documents::REPORT.start..documents::REPORT.start + 1,
        mistakes: 1,
        kind: String::new(),
        options: RepairOptions::default(),
    };
    let table = table::measure(&documents, &plan, &mut Rows::whole(), false);
    for kind in mistake::kinds() {
        let (rows, valid) = table.of(kind.name);
        assert!(rows >= 6, "{}: {rows} texts", kind.name);
        assert!(valid == 0, "{}: {valid} texts stayed valid", kind.name);
    }
}
