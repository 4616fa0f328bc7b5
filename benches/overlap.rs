//! The cost of the matchers: verbatim repeats and near anchors, for each byte and for the slowest
//! one.
//!
//! `cargo bench --bench overlap`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion's macro, and inputs that are written here"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use restitch::internal::overlap::{Anchor, Matcher, NearAnchor};

const KIB: usize = 1024;

/// Returns words in random order, the first ones more often, so that no two long stretches are
/// equal.
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
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
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
    let row = |n: usize| {
        format!(
            "{{\"id\": {n}, \"name\": \"item {}\", \"price\": {}.5, \"ok\": true}}, ",
            n * 7919,
            n * 31
        )
    };
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

/// Returns texts to read after a tail: the tail again; half of it and another byte; the tail with
/// wrong bytes or, after prose, other prose.
fn fragments(tail: &str) -> [(&'static str, Vec<u8>); 3] {
    let mut broken = tail.as_bytes().to_vec();
    if tail.starts_with("{\"text") {
        broken = prose(tail.len(), 2).into_bytes();
    } else {
        broken
            .iter_mut()
            .skip(96)
            .step_by(97)
            .for_each(|byte| *byte = b'1');
    }
    let half = [&tail.as_bytes()[..tail.len() / 2], b"\0"].concat();
    [
        ("the tail again", tail.as_bytes().to_vec()),
        ("half of it", half),
        ("other text", broken),
    ]
}

fn matcher(c: &mut Criterion) {
    let mut group = c.benchmark_group("matcher");
    for (name, tail) in tails(64 * KIB) {
        let anchor = Anchor::of(&tail, 2048).unwrap();
        let matcher = Matcher::new(&tail, anchor.range, 0, 64 * KIB);
        for (what, fragment) in fragments(&tail) {
            group.throughput(Throughput::Elements(fragment.len() as u64));
            group.bench_function(format!("{name}, {what}"), |b| {
                let mut matcher = matcher.clone();
                b.iter(|| {
                    matcher.begin(0);
                    for length in 1..=fragment.len() {
                        black_box(matcher.feed(&tail, &fragment[..length]));
                    }
                });
            });
            worst_byte(name, what, &tail, &fragment, &matcher);
        }
    }
    group.finish();
}

/// Prints the time of the slowest byte. Each byte counts with the shortest of its times in many
/// rounds, which leaves out other work of the machine. Reading the clock is included.
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and tells what it says"
)]
fn worst_byte(name: &str, what: &str, tail: &str, fragment: &[u8], matcher: &Matcher) {
    let mut times = vec![Duration::MAX; fragment.len()];
    for _ in 0..50 {
        let mut matcher = matcher.clone();
        for (at, time) in times.iter_mut().enumerate() {
            let start = Instant::now();
            black_box(matcher.feed(tail, &fragment[..=at]));
            *time = start.elapsed().min(*time);
        }
    }
    println!(
        "worst byte, {name}, {what}: {:?}",
        times.into_iter().max().unwrap_or_default()
    );
}

/// An anchor that is repeated, and text that is not the anchor.
fn near(c: &mut Criterion) {
    let mut group = c.benchmark_group("near anchor");
    let anchor = prose(2 * KIB, 1);
    for (what, text) in [
        ("repeated", anchor.clone()),
        ("other text", prose(2 * KIB, 2)),
    ] {
        group.throughput(Throughput::Elements(text.len() as u64));
        group.bench_function(what, |b| {
            let mut near = NearAnchor::new(&anchor);
            b.iter(|| {
                near.begin();
                text.chars().filter_map(|c| near.feed(black_box(c))).min()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(15).measurement_time(Duration::from_millis(700)).warm_up_time(Duration::from_millis(200));
    targets = matcher, near
}
criterion_main!(benches);
