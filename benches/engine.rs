//! Benchmarks of the engine: the cost of a byte and of a push, stage by stage.
//!
//! `cargo bench` runs them all; docs/internals/performance.md has the tables and explains them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "criterion's macro, inputs that are written here, and a note about them"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use restitch::internal::children::ChildIndex;
use restitch::internal::context::{
    Sections, complete_part, element_before_cutoff, hierarchy_context_for_prompt, overlap_context,
};
use restitch::internal::json::{Machine, each};
use restitch::internal::overlap::Anchor;
use restitch::internal::relay::{Output, Relay};
use restitch::internal::wire::{Dialect, Reader};
use restitch::json::Sink;
use restitch::paths::Paths;
use restitch::provider::Delta;
use restitch::splice::{Expect, Slot, Splice};
use restitch::sse::Decoder;
use restitch::value::{LiveValue, View};
use restitch::{Document, Limits};

use shapes::Shape;

mod shapes;

/// Returns sections as models write them: prose with a few escapes, a table, numbers.
fn sections(bytes: usize) -> String {
    let mut text = String::from("{\"title\": \"Report\", \"sections\": [");
    let mut n = 0;
    while text.len() < bytes {
        let comma = if n == 0 { "" } else { ", " };
        text.push_str(&format!(
            "{comma}{{\"id\": {n}, \"type\": \"paragraph\", \"content\": \"Section {n} says \\\"{}\\\" – and so on, at some \
             length, for as long as a paragraph goes on.\\n\", \"values\": [{}, -{n}.5e-3, true, null]}}",
            n * 7919,
            n * 31
        ));
        n += 1;
    }
    text.push_str("]}");
    text
}

/// Splits `text` into pieces of roughly this many bytes that end between characters.
fn pushes(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut pushes = Vec::new();
    while !rest.is_empty() {
        let end = (bytes.min(rest.len())..=rest.len())
            .find(|&at| rest.is_char_boundary(at))
            .unwrap();
        let (push, behind) = rest.split_at(end);
        pushes.push(push);
        rest = behind;
    }
    pushes
}

impl Shape {
    /// Returns a stream that has `text` in deltas of this many characters.
    fn stream(self, text: &str, delta: usize) -> Vec<u8> {
        let mut out = self.start().to_owned();
        let characters: Vec<char> = text.chars().collect();
        for (n, part) in characters.chunks(delta).enumerate() {
            out.push_str(&self.event(n, &part.iter().collect::<String>()));
            out.push_str("\n\n");
        }
        if self.dialect() == Dialect::Chat {
            out.push_str("data: [DONE]\n\n");
        }
        out.into_bytes()
    }

    /// Returns the recorded streams of the API, or a generated one where there are none.
    #[expect(
        clippy::disallowed_methods,
        reason = "the recorded data is named by the environment"
    )]
    fn recorded(self) -> Vec<Vec<u8>> {
        let name = match self {
            Self::Chat | Self::PaddedChat => "openai-chat",
            Self::Messages => "anthropic",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
        };
        let corpus = std::env::var("RESTITCH_CORPUS");
        let files = corpus
            .ok()
            .and_then(|corpus| std::fs::read_dir(format!("{corpus}/streams/{name}")).ok());
        let mut bodies: Vec<_> = files
            .into_iter()
            .flatten()
            .filter_map(|file| std::fs::read(file.ok()?.path()).ok())
            .collect();
        if bodies.is_empty() {
            println!("no recorded streams of {name}: RESTITCH_CORPUS does not name a folder");
            bodies.push(self.stream(&sections(64 << 10), 5));
        }
        bodies
    }
}

fn machine(c: &mut Criterion) {
    let text = sections(1 << 20);
    let mut group = c.benchmark_group("json");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("machine, whole buffer", |b| {
        b.iter(|| {
            let mut machine = Machine::new(64);
            machine.feed(black_box(text.as_bytes())).unwrap();
            machine.is_done()
        });
    });
    group.bench_function("machine, 4-byte pushes", |b| {
        b.iter(|| {
            let mut machine = Machine::new(64);
            for push in text.as_bytes().chunks(4) {
                machine.feed(black_box(push)).unwrap();
                black_box(machine.cut_state());
            }
            machine.is_done()
        });
    });
    group.bench_function("document, 4 KiB pushes", |b| {
        let pushes = pushes(&text, 4096);
        b.iter(|| {
            let mut document = Document::new(64);
            for push in &pushes {
                document.push(black_box(push)).unwrap();
            }
            document.text().len()
        });
    });
    group.bench_function("serde_json into Value, whole buffer", |b| {
        b.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&text)).unwrap());
    });
    group.finish();
}

/// The cost of sinks on top of the machine, with a delta of four bytes for each push.
fn sinks(c: &mut Criterion) {
    let text = sections(1 << 20);
    let pushes = pushes(&text, 4);
    let mut group = c.benchmark_group("sinks");
    group.throughput(Throughput::Elements(pushes.len() as u64));
    group.bench_function("machine with no sink, 4-byte pushes", |b| {
        b.iter(|| push_all(&pushes, &mut (), |()| {}));
    });
    // The minimum cost of every sink: the events themselves.
    group.bench_function("a sink that does nothing, 4-byte pushes", |b| {
        b.iter(|| {
            let mut events = 0;
            push_all(&pushes, &mut each(|_, _| events += 1), |_| {});
            events
        });
    });
    group.bench_function("paths, 3 patterns, 4-byte pushes", |b| {
        let patterns = ["/title", "/sections/*/content", "/sections/*"];
        b.iter(|| {
            let mut paths = Paths::new(patterns).unwrap();
            let mut bytes = 0;
            push_all(&pushes, &mut paths, |paths| {
                while let Some(found) = paths.poll_match() {
                    bytes += found.span.len() + found.path.len();
                }
            });
            bytes
        });
    });
    group.bench_function(
        "paths, 3 patterns, whole values alone, 4-byte pushes",
        |b| {
            let patterns = ["/title", "/sections/*/id", "/sections/*"];
            b.iter(|| {
                let mut paths = Paths::completions(patterns).unwrap();
                let mut bytes = 0;
                push_all(&pushes, &mut paths, |paths| {
                    while let Some(found) = paths.poll_match() {
                        bytes += found.span.len() + found.path.len();
                    }
                });
                bytes
            });
        },
    );
    group.bench_function("child index, 4-byte pushes", |b| {
        b.iter(|| {
            let mut index = ChildIndex::new(Limits::default().parser.max_children);
            push_all(&pushes, &mut index, |_| {});
            index.root()
        });
    });
    group.bench_function("child index and sections, 4-byte pushes", |b| {
        b.iter(|| {
            let mut both = (
                ChildIndex::new(Limits::default().parser.max_children),
                Sections::new(16),
            );
            push_all(&pushes, &mut both, |_| {});
            both.1.count()
        });
    });
    group.finish();
}

/// The cost of what is known at a cut, compared with reading the closed document by `serde_json`.
fn contexts(c: &mut Criterion) {
    let mut group = c.benchmark_group("contexts");
    for (size, bytes) in [
        ("1 KiB", 1 << 10),
        ("1 MiB", 1 << 20),
        ("100 MiB", 100 << 20),
    ] {
        let text = sections(bytes);
        let cut = text.rfind("paragraph goes").unwrap();
        let (mut document, mut sinks) = (
            Document::new(64),
            (Sections::default(), ChildIndex::new(1 << 16)),
        );
        document.push_with(&text[..cut], &mut sinks).unwrap();
        let (sections, index) = &sinks;
        group.bench_function(format!("{size}, anchor"), |b| {
            b.iter(|| overlap_context(black_box(&document), 2048));
        });
        group.bench_function(format!("{size}, 500 characters of the text as cut"), |b| {
            b.iter(|| hierarchy_context_for_prompt(black_box(&document), Some(index), 500));
        });
        group.bench_function(format!("{size}, the element before the cut"), |b| {
            b.iter(|| element_before_cutoff(black_box(&document), Some(index)).map(str::len));
        });
        group.bench_function(format!("{size}, summary"), |b| {
            b.iter(|| sections.summary(black_box(&document)));
        });
        group.sample_size(10).bench_function(
            format!("{size}, serde_json of the closed document"),
            |b| {
                let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                b.iter(|| read(&complete_part(black_box(&document)).unwrap().to_string()));
            },
        );
    }
    group.finish();
}

/// The cost of reading the live value after every delta, down to the string that grows, and of a
/// snapshot.
fn value(c: &mut Criterion) {
    let text = sections(1 << 20);
    let mut group = c.benchmark_group("value");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for (name, bytes) in [
        ("live value after every 4-byte delta, 1 MiB", 4),
        ("live value, whole buffer", 2 << 20),
    ] {
        let deltas = pushes(&text, bytes);
        group.bench_function(name, |b| {
            b.iter(|| {
                let (mut document, mut value) = (Document::new(64), LiveValue::new());
                for delta in &deltas {
                    document.push_with(black_box(delta), &mut value).unwrap();
                    // The part that grows.
                    let mut newest = value.view();
                    while let Some(last) = newest.and_then(View::last) {
                        newest = Some(last);
                    }
                    black_box(newest.and_then(View::as_str).map(str::len));
                }
                value.view().map(View::len)
            });
        });
    }
    let (mut document, mut live) = (Document::new(64), LiveValue::new());
    document.push_with(&text, &mut live).unwrap();
    group.bench_function("snapshot of 1 MiB as serde_json's Value", |b| {
        b.iter(|| live.snapshot::<serde_json::Value>().unwrap());
    });
    group.bench_function("serde_json into Value, the same text", |b| {
        b.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&text)).unwrap());
    });
    group.finish();
}

/// Feeds a machine and reads its sink after each push.
fn push_all<S: Sink>(pushes: &[&str], sink: &mut S, mut look: impl FnMut(&mut S)) {
    let mut document = Document::new(64);
    for push in pushes {
        document.push_with(black_box(push), sink).unwrap();
        look(sink);
    }
    assert!(document.is_complete());
}

fn seam(c: &mut Criterion) {
    let text = sections(1 << 20);
    let cut = text.len() / 2;
    let cut = (cut..).find(|&at| text.is_char_boundary(at)).unwrap();
    let mut delivered = Document::new(64);
    delivered.push(&text[..cut]).unwrap();
    let anchor = Anchor::of(&text[..cut], 2048).unwrap();
    let rest = &text[anchor.range.start..cut + 4096];
    let mut group = c.benchmark_group("seam");
    group.bench_function("anchor of 512 KiB", |b| {
        b.iter(|| Anchor::of(black_box(&text[..cut]), 2048));
    });
    group.bench_function("checkpoint and restore", |b| {
        b.iter(|| {
            let checkpoint = delivered.checkpoint();
            delivered.restore(&checkpoint)
        });
    });
    let slot = Slot::of(delivered, &Limits::default());
    group.bench_function(
        "splice behind 512 KiB, up to the join and 4 KiB more",
        |b| {
            let joined = |mut slot: Slot| {
                let mut splice = Splice::new(&slot, Expect::Anchor, &Limits::default());
                splice.feed(&mut slot, black_box(rest)).unwrap();
                slot
            };
            b.iter_batched(|| slot.clone(), joined, BatchSize::LargeInput);
        },
    );
    group.finish();
}

/// Reads events: framing and text deltas. Returns the bytes of the text.
fn read_events(body: &[u8], reader: &mut dyn Reader) -> usize {
    let mut decoder = Decoder::new(&Limits::default());
    let mut input = black_box(body);
    let mut bytes = 0;
    while let Some(event) = decoder.next_event(&mut input).unwrap() {
        reader.read(&event.event, &event.data, &mut |delta| {
            if let Delta::Text { text, .. } = delta {
                bytes += text.len();
            }
        });
    }
    bytes
}

/// The same with `serde_json`.
fn read_typed(body: &[u8], shape: Shape) -> usize {
    let mut decoder = Decoder::new(&Limits::default());
    let mut input = black_box(body);
    let mut bytes = 0;
    while let Some(event) = decoder.next_event(&mut input).unwrap() {
        bytes += shape.typed(&event.data);
    }
    bytes
}

/// Returns how many events a stream has.
fn count(body: &[u8]) -> u64 {
    let mut decoder = Decoder::new(&Limits::default());
    let mut input = body;
    let mut count = 0;
    while decoder.next_event(&mut input).unwrap().is_some() {
        count += 1;
    }
    count
}

/// Passes a stream through a relay in reads of 16 KiB. Returns the bytes that are forwarded.
fn relay(body: &bytes::Bytes, dialect: Dialect) -> usize {
    let mut relay = Relay::new(Limits::default()).dialect(dialect);
    let (mut forwarded, mut at) = (0, 0);
    while at < body.len() {
        let end = (at + (16 << 10)).min(body.len());
        relay.handle_bytes(Duration::ZERO, body.slice(at..end));
        at = end;
        while let Some(output) = relay.poll_output() {
            if let Output::Bytes(bytes) = output {
                forwarded += bytes.len();
            }
        }
    }
    forwarded
}

fn events(c: &mut Criterion) {
    let text = sections(64 << 10);
    let mut group = c.benchmark_group("events");
    for shape in Shape::ALL {
        let body = shape.stream(&text, 5);
        group.throughput(Throughput::Elements(count(&body)));
        let text_bytes = read_typed(&body, shape);
        if shape == Shape::Chat {
            group.bench_function("decoder", |b| b.iter(|| count(black_box(&body))));
        }
        group.bench_function(format!("{shape:?}, framing and text"), |b| {
            b.iter(|| {
                let bytes = read_events(&body, &mut *shape.dialect().wire().reader());
                assert_eq!(bytes, text_bytes);
            });
        });
        group.bench_function(format!("{shape:?}, framing and serde_json typed"), |b| {
            b.iter(|| read_typed(&body, shape));
        });
        let body = bytes::Bytes::from(body);
        group.bench_function(
            format!("{shape:?}, relay, a healthy stream in reads of 16 KiB"),
            |b| {
                b.iter(|| relay(&body, shape.dialect()));
            },
        );
        group.bench_function(
            format!("{shape:?}, serde_json into Value, the same events"),
            |b| {
                b.iter(|| {
                    let mut decoder = Decoder::new(&Limits::default());
                    let mut input: &[u8] = black_box(&body);
                    let mut values = 0;
                    while let Some(event) = decoder.next_event(&mut input).unwrap() {
                        values += usize::from(
                            serde_json::from_str::<serde_json::Value>(&event.data).is_ok(),
                        );
                    }
                    values
                });
            },
        );
    }
    for shape in [
        Shape::PaddedChat,
        Shape::Messages,
        Shape::Responses,
        Shape::Gemini,
    ] {
        let (streams, dialect) = (shape.recorded(), shape.dialect());
        group.throughput(Throughput::Elements(
            streams.iter().map(|body| count(body)).sum(),
        ));
        group.bench_function(format!("recorded {dialect}, framing and text"), |b| {
            b.iter(|| {
                let read = |body: &Vec<u8>| read_events(body, &mut *dialect.wire().reader());
                streams.iter().map(read).sum::<usize>()
            });
        });
        group.bench_function(
            format!("recorded {dialect}, framing and serde_json typed"),
            |b| {
                b.iter(|| {
                    streams
                        .iter()
                        .map(|body| read_typed(body, shape))
                        .sum::<usize>()
                });
            },
        );
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = machine, sinks, value, seam, contexts, events
}
criterion_main!(benches);
