//! The seam: the cost of finding it, and how often it is right.
//!
//! `cargo bench --bench seam` measures the cost. The other subjects come after `--`:
//!
//! - `table 4` prints the table of results for every style, over four times the documents of `table`;
//!   `table --rows 20000` over the number of documents that gives each row of the short table 20,000
//!   merges. A style's name prints that style's silently wrong rows.
//! - `mix --rows 20000` runs that many cuts through sessions, in the mix of styles by frequency.
//! - `styles --rows 4000` runs that many cuts through sessions for each style, which is that of the
//!   first answer; the further ones are in the styles of the mix, or (`again`) in the same one. A
//!   style's name runs that one alone.
//! - `cells --rows 100` counts right and wrong joins for each behaviour of a model, over the documents of
//!   100 seeds, and lists the worst behaviours.
//! - `calibration FILE` compares the probability that the engine reports with what is observed, and
//!   writes a plot.
//!
//! `tuning` (the default) and `report` choose the seeds of the documents.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "criterion's macro, inputs that are written here, and a table"
)]

#[path = "../tests/it/seam/calibration.rs"]
mod calibration;
#[path = "../tests/it/seam/comparing.rs"]
mod comparing;
#[path = "../tests/it/seam/documents.rs"]
mod documents;
#[allow(dead_code, reason = "the tests use more of the module")]
#[path = "../tests/it/seam/join.rs"]
mod join;
#[path = "../tests/it/seam/judge.rs"]
mod judge;
#[path = "../tests/it/seam/kinds.rs"]
mod kinds;
#[path = "../tests/it/seam/layout.rs"]
mod layout;
#[path = "../tests/it/seam/missing.rs"]
mod missing;
#[path = "../tests/it/seam/mix.rs"]
mod mix;
#[path = "../tests/it/seam/product.rs"]
mod product;
#[path = "../tests/it/seam/reading.rs"]
mod reading;
#[path = "../tests/it/seam/retry.rs"]
mod retry;
#[path = "../tests/it/seam/rows.rs"]
mod rows;
#[path = "../tests/it/seam/source.rs"]
mod source;
#[path = "../tests/it/seam/table.rs"]
mod table;

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group};
use restitch::Limits;
use restitch::splice::{Expect, Slot, Splice};
use restitch_sim::style;
use restitch_testing::rows::Rows;

use join::join_within;
use judge::Verdict;
use mix::Retries;
use rows::Class;
use style::ContinuationStyle;
use table::Size;

/// Documents of the table, and cuts of each.
const DOCUMENTS: u64 = 600;
const CUTS: usize = 8;

/// A document that was cut after `tail` bytes and has as many after the cut.
struct Texts {
    name: &'static str,
    document: String,
    cut: usize,
}

fn texts(tail: usize) -> [Texts; 3] {
    let mut prose = String::from("{\"title\": \"Report\", \"sections\": [");
    let mut n = 0;
    while prose.len() < 2 * tail {
        prose.push_str(&format!(
            "{{\"id\": {n}, \"content\": \"Section {n} says that {} of {} plants went on for longer than before.\"}}, ",
            n * 7919 % 1000,
            n * 31
        ));
        n += 1;
    }
    prose.push_str("{}]}");
    let letters = format!("{{\"t\": \"{}\"}}", "a".repeat(2 * tail));
    let zeros = format!("{{\"t\": [0{}]}}", ",0".repeat(tail));
    [("prose", prose), ("a, a, a", letters), ("0, 0, 0", zeros)].map(|(name, document)| Texts {
        name,
        document,
        cut: tail,
    })
}

impl Texts {
    fn begin(&self, expect: Expect) -> (Slot, Splice) {
        let mut slot = Slot::new(&Limits::default());
        slot.push(&self.document[..self.cut]).unwrap();
        let splice = Splice::new(&slot, expect, &Limits::default());
        (slot, splice)
    }

    /// Returns the fragments: each repeats some text and has 256 bytes more.
    fn fragments(&self) -> [(&'static str, Expect, &str); 3] {
        let (_, splice) = self.begin(Expect::Anchor);
        let anchor = splice
            .anchor()
            .map_or(self.cut, |anchor| anchor.range.start);
        let end = self.cut + 256;
        [
            ("anchor", Expect::Anchor, &self.document[anchor..end]),
            ("root again", Expect::Anchor, &self.document[..end]),
            ("exact", Expect::Exact, &self.document[self.cut..end]),
        ]
    }
}

/// The texts are ASCII, so every offset is between characters.
fn pushes(fragment: &str) -> impl Iterator<Item = &str> {
    (0..fragment.len())
        .step_by(4)
        .map(|at| &fragment[at..(at + 4).min(fragment.len())])
}

fn seam(c: &mut Criterion) {
    let mut group = c.benchmark_group("seam, 4-byte pushes, 4 KiB tail");
    for texts in texts(4 << 10) {
        for (how, expect, fragment) in texts.fragments() {
            let begun = texts.begin(expect);
            group.throughput(Throughput::Bytes(fragment.len() as u64));
            group.bench_function(BenchmarkId::new(how, texts.name), |b| {
                b.iter_batched_ref(
                    || begun.clone(),
                    |(slot, splice)| {
                        for push in pushes(black_box(fragment)) {
                            let _ = splice.feed(slot, push);
                        }
                        slot.document().text().len()
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

/// Returns the time of the slowest push. Each push counts with the shortest of its times in many
/// rounds, which leaves out other work of the machine.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn worst_push(_: &mut Criterion) {
    for texts in texts(60 << 10) {
        for (how, expect, fragment) in texts.fragments() {
            let mut shortest = vec![Duration::MAX; fragment.len().div_ceil(4)];
            for _ in 0..ROUNDS {
                // A clone has no spare capacity; a text that grew push by push has.
                let (mut slot, mut splice) = texts.begin(expect);
                for (push, shortest) in pushes(fragment).zip(&mut shortest) {
                    let start = Instant::now();
                    let _ = splice.feed(&mut slot, black_box(push));
                    *shortest = start.elapsed().min(*shortest);
                }
            }
            let (at, worst) = shortest
                .iter()
                .enumerate()
                .max_by_key(|(_, time)| **time)
                .unwrap();
            println!(
                "worst 4-byte push, 60 KiB tail, {how}, {}: {worst:?}, after {} bytes",
                texts.name,
                4 * at
            );
        }
    }
}

const ROUNDS: usize = 10;

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("seam, built");
    for (size, tail) in [("4 KiB", 4 << 10), ("64 KiB", 64 << 10)] {
        for texts in texts(tail) {
            let (slot, _) = texts.begin(Expect::Anchor);
            group.bench_function(BenchmarkId::new(size, texts.name), |b| {
                b.iter(|| Splice::new(black_box(&slot), Expect::Anchor, &Limits::default()));
            });
        }
    }
    group.finish();
}

/// Measures a whole merge: the splice is built, and the fragment is fed.
fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("seam, one merge, 64 KiB tail");
    group.sample_size(10);
    for texts in texts(64 << 10) {
        let (begun, _) = texts.begin(Expect::Anchor);
        for (how, expect, fragment) in texts.fragments() {
            group.bench_function(BenchmarkId::new(how, texts.name), |b| {
                b.iter_batched_ref(
                    || begun.clone(),
                    |slot| {
                        let mut splice = Splice::new(slot, expect, &Limits::default());
                        for push in pushes(black_box(fragment)) {
                            let _ = splice.feed(slot, push);
                        }
                        slot.document().text().len()
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(costs, seam, worst_push, build, merge);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments = Arguments(&arguments);
    match ["table", "mix", "styles", "calibration", "cells"]
        .into_iter()
        .find(|name| arguments.has(name))
    {
        Some("table") => print_table(&arguments),
        Some("mix") => {
            let cuts = arguments.rows().unwrap_or(CUTS * DOCUMENTS as usize);
            for (name, counts) in mix::measure_all(&arguments.seeds(), cuts, &mut Rows::whole()) {
                print!("{}", counts.print(name));
            }
        }
        Some("styles") => print_styles(&arguments),
        Some("cells") => print_cells(&arguments),
        Some(_) => calibrate(&arguments),
        None => {
            costs();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}

/// The arguments of a subject other than the cost.
struct Arguments<'a>(&'a [String]);

impl Arguments<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    /// Returns the argument after `name`.
    fn after(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn rows(&self) -> Option<usize> {
        self.after("--rows").map(|rows| rows.parse().unwrap())
    }

    fn seeds(&self) -> Range<u64> {
        if self.has("report") {
            documents::REPORT
        } else {
            documents::TUNING
        }
    }
}

fn print_table(arguments: &Arguments<'_>) {
    let times = arguments
        .0
        .iter()
        .find_map(|argument| argument.parse::<u64>().ok())
        .unwrap_or(1);
    let size = arguments
        .rows()
        .map_or(Size::Documents(DOCUMENTS * times), Size::Merges);
    let seeds = arguments.seeds();
    println!("seeds from {}", seeds.start);
    let table = table::measure(seeds, size, CUTS, &mut Rows::whole());
    for (_, row) in table.wrong.iter().filter(|(name, _)| arguments.has(name)) {
        println!("{row}");
    }
    println!("{}", table.print());
    println!("{}", table.print_short());
}

/// Prints the table of behaviours over this many seeds of documents. `--only Words,differs=Key`
/// measures the cells whose names contain both pieces; `--wrong` also prints their wrong rows.
fn print_cells(arguments: &Arguments<'_>) {
    let first = arguments.seeds().start;
    let seeds = first..first + arguments.rows().unwrap_or(100) as u64;
    let only = arguments.after("--only").unwrap_or_default();
    let wanted = |cell: &product::Cell| {
        let name = cell.to_string();
        only.split(',').all(|word| name.contains(word))
    };
    let shows_wrong = arguments.has("--wrong");
    print!("{}", product::table(seeds, CELL_CUTS, shows_wrong, wanted));
}

/// Cuts of each document of the product.
const CELL_CUTS: usize = 4;

/// Prints how cuts end whose first answer is in each style.
fn print_styles(arguments: &Arguments<'_>) {
    let cuts = arguments.rows().unwrap_or(CUTS * DOCUMENTS as usize);
    let is_named = ContinuationStyle::ALL
        .iter()
        .any(|style| arguments.has(style.name()));
    for &style in ContinuationStyle::ALL {
        if is_named && !arguments.has(style.name()) {
            continue;
        }
        for (retries, name) in [(Retries::Independent, ""), (Retries::Sticky, " again")] {
            let counts = mix::measure_style(arguments.seeds(), cuts, style, retries);
            print!("{}", counts.print(&format!("{}{name}", style.name())));
        }
    }
}

/// Joins with a high accepted risk, so that there are wrong joins to compare with.
fn calibrate(arguments: &Arguments<'_>) {
    let limits = Limits::default().with_max_risk(0.5);
    let seeds = arguments.seeds();
    let mut pairs = Vec::new();
    let documents = seeds.start..seeds.start + DOCUMENTS;
    rows::for_every_row(documents, CUTS, &mut Rows::whole(), |row| {
        // Those styles have no right answer, or one that only a second call shows.
        if matches!(row.line.class, Class::Other | Class::EarlyEnd) {
            return;
        }
        let outcome = join_within(
            &limits,
            row.case.delivered,
            row.case.fragment,
            row.line.expect,
            1,
        );
        if let Some(posterior) = outcome.posterior.filter(|_| outcome.joined) {
            // What was joined and can still become the document is right as far as it goes.
            let is_wrong = row.case.compare(&outcome) == Verdict::Wrong;
            pairs.push((posterior, !is_wrong));
        }
    });
    if pairs.is_empty() {
        println!("no seam reports a probability");
        return;
    }
    let bins = calibration::bins(pairs, JOINS_A_BIN);
    println!("{}", calibration::print(&bins));
    if let Some(path) = arguments.after("calibration") {
        std::fs::write(path, calibration::svg(&bins)).unwrap();
    }
}

/// Joins in each bin of the calibration.
const JOINS_A_BIN: usize = 1000;
