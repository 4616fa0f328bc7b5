//! The seam: the cost of finding it, and how often it is right.
//!
//! `cargo bench --bench seam --features sim` measures the cost. `… -- table 4` prints the table of results for every
//! style, over four times as many documents as without a number, with the published rules beside the engine. `… --
//! table 4 root value-reformatted` also prints the silently wrong rows of these styles.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "criterion's macro, inputs that are written here, and a table"
)]

#[allow(dead_code)]
#[path = "../tests/it/seam/comparing.rs"]
mod comparing;
#[allow(dead_code)]
#[path = "../tests/it/seam/documents.rs"]
mod documents;
#[allow(dead_code)]
#[path = "../tests/it/seam/join.rs"]
mod join;
#[allow(dead_code)]
#[path = "../tests/it/seam/judge.rs"]
mod judge;
#[allow(dead_code)]
#[path = "../tests/it/seam/kinds.rs"]
mod kinds;
#[allow(dead_code)]
#[path = "../tests/it/seam/layout.rs"]
mod layout;
#[allow(dead_code)]
#[path = "../tests/it/seam/peers.rs"]
mod peers;
#[allow(dead_code)]
#[path = "../tests/it/seam/reading.rs"]
mod reading;
#[allow(dead_code)]
#[path = "../tests/it/seam/rows.rs"]
mod rows;
#[allow(dead_code)]
#[path = "../tests/it/seam/source.rs"]
mod source;
#[allow(dead_code)]
#[path = "../tests/it/support.rs"]
mod support;
#[allow(dead_code)]
#[path = "../tests/it/seam/table.rs"]
mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group};
use restitch::Limits;
use restitch::sim::style;
use restitch::splice::{Expect, Slot, Splice};

use table::Filter;

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
        let anchor = splice.anchor().map_or(self.cut, |anchor| anchor.range.start);
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
    (0..fragment.len()).step_by(4).map(|at| &fragment[at..(at + 4).min(fragment.len())])
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

/// Returns the time of the slowest push. Each push counts with the shortest of its times in many rounds, which leaves
/// out other work of the machine.
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
            let worst = shortest.iter().max().unwrap();
            println!("worst 4-byte push, 60 KiB tail, {how}, {}: {worst:?}", texts.name);
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

criterion_group!(costs, seam, worst_push, build);

fn main() {
    let arguments: Vec<String> = std::env::args().skip_while(|argument| argument != "table").skip(1).collect();
    if std::env::args().all(|argument| argument != "table") {
        costs();
        Criterion::default().configure_from_args().final_summary();
        return;
    }
    let times = arguments.iter().find_map(|argument| argument.parse::<u64>().ok()).unwrap_or(1);
    let (table, peers) = table::measure(DOCUMENTS * times, CUTS);
    for (_, row) in table.wrong.iter().filter(|(name, _)| arguments.iter().any(|argument| argument == name)) {
        println!("{row}");
    }
    println!("{}", table.print());
    for (name, table) in &peers {
        println!("{}", table.print_groups(name, Filter::default()));
    }
}
