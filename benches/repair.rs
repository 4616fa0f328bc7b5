//! Repair: what it costs, and what becomes of documents with seeded mistakes.
//!
//! `cargo bench --bench repair` measures the cost. `cargo bench --bench repair -- table` prints the
//! table by kind of mistake. Its arguments:
//!
//! - `--seeds tuning|report`: the seeds of documents and mistakes (`tuning`),
//! - `--mistakes N`: how many mistakes a text has (1),
//! - `--kind TEXT`: only the kinds whose name contains the text,
//! - `--level syntax|guess`: the level (`guess`),
//! - `--documents N`: generated documents (160); those of the test data come on top,
//! - `--times N`: texts for each document and kind (2),
//! - `--show N`: prints so many texts of each kind that were not restored; silent and broken ones
//!   come first.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "criterion's macro, inputs that are written here, and a table"
)]

#[path = "../tests/it/repair/documents.rs"]
mod documents;
#[path = "../tests/it/repair/mistake.rs"]
mod mistake;
#[path = "../tests/it/repair/quote_mistakes.rs"]
mod quote_mistakes;
#[allow(dead_code, reason = "the tests use more of the module")]
#[path = "../tests/it/repair/source.rs"]
mod source;
#[path = "../tests/it/repair/structure_mistakes.rs"]
mod structure_mistakes;
#[allow(dead_code, reason = "the tests use more of the module")]
#[path = "../tests/it/repair/table.rs"]
mod table;
#[path = "../tests/it/repair/token_mistakes.rs"]
mod token_mistakes;

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use restitch::repair::{RepairLevel, RepairOptions, repair_root};
use restitch_testing::rows::Rows;

use table::{Plan, Verdict};

/// Returns 1 MB of rows, valid and with a mistake in every hundredth row.
fn texts() -> [(&'static str, String); 2] {
    let (mut valid, mut broken) = (String::from("["), String::from("["));
    for at in 0.. {
        let row = format!(
            "{{\"id\": {at}, \"title\": \"Row {at}\", \"text\": \"It says \\\"no\\\".\", \"ok\": true}}"
        );
        valid.push_str(&row);
        broken.push_str(&if at % 100 == 0 {
            row.replace("true", "True,")
        } else {
            row
        });
        if valid.len() > 1 << 20 {
            break;
        }
        valid.push_str(", ");
        broken.push_str(", ");
    }
    [
        ("valid", valid + "]"),
        ("a mistake in every hundredth row", broken + "]"),
    ]
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("repair, 1 MB at once");
    group.sample_size(20);
    for (name, text) in texts() {
        group.throughput(Throughput::Bytes(text.len() as u64));
        for level in RepairLevel::ALL {
            let options = RepairOptions::new(level);
            group.bench_function(BenchmarkId::new(level.as_str(), name), |b| {
                b.iter(|| repair_root(black_box(&text), &options));
            });
        }
    }
    group.finish();
}

criterion_group!(costs, whole);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "table") {
        print_table(&Arguments(&arguments));
    } else {
        costs();
        Criterion::default().configure_from_args().final_summary();
    }
}

/// The arguments of the table.
struct Arguments<'a>(&'a [String]);

impl Arguments<'_> {
    /// Returns the argument after `name`.
    fn after(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.after(name)
            .map_or(default, |number| number.parse().unwrap())
    }
}

fn print_table(arguments: &Arguments<'_>) {
    let seeds = if arguments.after("--seeds") == Some("report") {
        documents::REPORT
    } else {
        documents::TUNING
    };
    let mut all = documents::generated(seeds.clone(), arguments.number("--documents", 160));
    let corpus = [documents::corpus(), documents::recorded()].concat();
    println!(
        "{} generated documents, {} of the test data, seeds from {}",
        all.len(),
        corpus.len(),
        seeds.start
    );
    all.extend(corpus);
    let level = if arguments.after("--level") == Some("syntax") {
        RepairLevel::Syntax
    } else {
        RepairLevel::Guess
    };
    let plan = Plan {
        seeds: seeds.start..seeds.start + arguments.number("--times", 2),
        mistakes: arguments.number("--mistakes", 1) as usize,
        kind: arguments.after("--kind").unwrap_or_default().to_owned(),
        options: RepairOptions::new(level),
    };
    let shown = arguments.number("--show", 0) as usize;
    let mut table = table::measure(&all, &plan, &mut Rows::whole(), shown > 0);
    table.misses.sort_by_key(|miss| {
        (
            miss.broken.kind,
            !matches!(miss.verdict, Verdict::Silent | Verdict::Broken),
        )
    });
    let mut counts = BTreeMap::new();
    for miss in &table.misses {
        let count = counts.entry(miss.broken.kind).or_insert(0);
        *count += 1;
        if *count <= shown {
            println!("{}", miss.print());
        }
    }
    println!("{}", table.print());
}
