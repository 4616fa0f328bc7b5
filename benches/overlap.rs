//! The cost of the matcher: building and reading the tail's automaton, compared with a search for one pattern.
//!
//! `cargo bench --bench overlap`; docs/performance.md has the table.

#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macro, and inputs that are written here")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use restitch::internal::overlap::{Anchor, Automaton, Cursor, Matcher};

const KIB: usize = 1024;

/// Returns words in random order, the first ones more often, so that no two long stretches are equal.
fn prose(bytes: usize, mut seed: u64) -> String {
    let words = "the of and a to in is that it was for on are with as his they be at one have this from or had by hot but \
                 some what there we can out other were all your when up use word how said an each she which do their \
                 time if will way about many then them would write like so these her long make thing see him two has \
                 look more day could go come did my sound no most number who over know water than call first people \
                 may down side been now find any new work part take get place made live where after back little only \
                 round man year came show every good me give our under name very through just form much great think \
                 say help low line before turn cause same mean differ move right boy old too does tell sentence set";
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut text = String::from("{\"text\": \"");
    while text.len() < bytes {
        let mut below = |end: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % end
        };
        let most = 1 + below(words.len());
        text.push_str(words[below(most)]);
        text.push_str(if below(12) == 0 { ". " } else { " " });
    }
    text.truncate(bytes);
    text
}

/// Returns rows as models write them.
fn rows(bytes: usize) -> String {
    let row =
        |n: usize| format!("{{\"id\": {n}, \"name\": \"item {}\", \"price\": {}.5, \"ok\": true}}, ", n * 7919, n * 31);
    let mut text: String = (0..bytes / 50).map(row).collect();
    text.truncate(bytes);
    text
}

fn tails(bytes: usize) -> [(&'static str, String); 4] {
    let zeros = format!("[{}", "0,".repeat(bytes / 2));
    [
        ("prose", prose(bytes, 1)),
        ("rows", rows(bytes)),
        ("aaaa", "a".repeat(bytes)),
        ("0,0,", zeros[..bytes].to_owned()),
    ]
}

/// Returns texts to read after a tail: the complete tail again; the tail with a wrong byte at every given distance; and
/// unrelated prose.
fn fragments(tail: &str) -> [(&'static str, Vec<u8>); 2] {
    let mut broken = tail.as_bytes().to_vec();
    if tail.starts_with("{\"text") {
        broken = prose(tail.len(), 2).into_bytes();
    } else {
        broken.iter_mut().skip(96).step_by(97).for_each(|byte| *byte = b'1');
    }
    [("the tail again", tail.as_bytes().to_vec()), ("other text", broken)]
}

/// The algorithm of Knuth, Morris and Pratt with the tail as the pattern: the cost of an online search for one pattern.
struct Twin {
    pattern: Vec<u8>,
    borders: Vec<u32>,
    matched: usize,
}

impl Twin {
    fn new(pattern: &[u8]) -> Self {
        let mut twin = Self { pattern: pattern.to_vec(), borders: vec![0; pattern.len()], matched: 0 };
        for (at, &byte) in pattern.iter().enumerate().skip(1) {
            twin.step(byte);
            twin.borders[at] = twin.matched as u32;
        }
        twin.matched = 0;
        twin
    }

    fn step(&mut self, byte: u8) {
        while self.matched > 0 && self.pattern.get(self.matched) != Some(&byte) {
            self.matched = self.borders[self.matched - 1] as usize;
        }
        self.matched += usize::from(self.pattern[self.matched] == byte);
    }
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    for bytes in [4 * KIB, 64 * KIB] {
        group.throughput(Throughput::Bytes(bytes as u64));
        for (name, tail) in tails(bytes) {
            let kib = bytes / KIB;
            let per_byte = Automaton::new(tail.as_bytes()).size() / bytes;
            group.bench_function(format!("automaton of {kib} KiB, {name}, {per_byte} B a byte"), |b| {
                b.iter(|| Automaton::new(black_box(tail.as_bytes())));
            });
            group.bench_function(format!("twin of {kib} KiB, {name}"), |b| {
                b.iter(|| Twin::new(black_box(tail.as_bytes())));
            });
        }
    }
    group.finish();
}

/// Reads a byte; where that is no piece of the tail, begins again.
fn step(automaton: &Automaton, cursor: &mut Cursor, byte: u8) {
    if !automaton.extend(cursor, byte) {
        *cursor = Cursor::default();
    }
}

/// In pushes of four bytes, looked at after each.
fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("step");
    for (name, tail) in tails(64 * KIB) {
        let automaton = Automaton::new(tail.as_bytes());
        let anchor = Anchor::of(&tail, 2048).unwrap();
        let matcher = Matcher::new(&tail, &anchor, 0, 64 * KIB);
        for (what, fragment) in fragments(&tail) {
            group.throughput(Throughput::Elements(fragment.len() as u64));
            group.bench_function(format!("twin, {name}, {what}"), |b| {
                let mut twin = Twin::new(tail.as_bytes());
                b.iter(|| {
                    twin.matched = 0;
                    for push in black_box(&fragment).chunks(4) {
                        push.iter().for_each(|&byte| twin.step(byte));
                        black_box(twin.matched);
                    }
                });
            });
            group.bench_function(format!("automaton, {name}, {what}"), |b| {
                b.iter(|| {
                    let mut cursor = Cursor::default();
                    for push in black_box(&fragment).chunks(4) {
                        push.iter().for_each(|&byte| step(&automaton, &mut cursor, byte));
                        black_box((automaton.occurrences(cursor), automaton.is_end(cursor)));
                    }
                });
            });
            group.bench_function(format!("matcher, {name}, {what}"), |b| {
                let mut matcher = matcher.clone();
                b.iter(|| {
                    matcher.begin(0);
                    feed(&mut matcher, &tail, &fragment, |matcher| {
                        black_box(matcher.is_repeat());
                    });
                });
            });
            worst_push(name, what, &tail, &fragment, &automaton, &matcher);
        }
    }
    group.finish();
}

/// Pushes four bytes at a time.
fn feed(matcher: &mut Matcher, tail: &str, fragment: &[u8], mut look: impl FnMut(&Matcher)) {
    let mut length = 0;
    for push in fragment.chunks(4) {
        for _ in push {
            length += 1;
            black_box(matcher.feed(tail, &fragment[..length]));
        }
        look(matcher);
    }
}

/// Returns the time of the slowest push. Each push counts with the shortest of its times in many rounds, which leaves
/// out other work of the machine. Reading the clock is included.
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and tells what it says"
)]
fn worst_push(name: &str, what: &str, tail: &str, fragment: &[u8], automaton: &Automaton, matcher: &Matcher) {
    let pushes = fragment.len().div_ceil(4);
    let mut times = [vec![Duration::MAX; pushes], vec![Duration::MAX; pushes]];
    for _ in 0..50 {
        let mut cursor = Cursor::default();
        for (push, time) in fragment.chunks(4).zip(&mut times[0]) {
            let start = Instant::now();
            push.iter().for_each(|&byte| step(automaton, &mut cursor, byte));
            *time = start.elapsed().min(*time);
        }
        let mut matcher = matcher.clone();
        matcher.begin(0);
        let mut start = Instant::now();
        let mut times = times[1].iter_mut();
        feed(&mut matcher, tail, fragment, |_| {
            let now = Instant::now();
            if let Some(time) = times.next() {
                *time = (now - start).min(*time);
            }
            start = now;
        });
    }
    let worst = times.map(|times| times.into_iter().max().unwrap_or_default());
    println!("worst push, {name}, {what}: automaton {:?}, matcher {:?}", worst[0], worst[1]);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(15).measurement_time(Duration::from_millis(700)).warm_up_time(Duration::from_millis(200));
    targets = build, steps
}
criterion_main!(benches);
