//! Work of the hot paths for `scripts/instructions`, which counts the instructions under valgrind.
//!
//! Each run does some units of work of one path. The input is generated for the largest run in
//! every run, so the difference between two runs is the work alone.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "inputs that are written here, and a list"
)]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use restitch::internal::json::Machine;
use restitch::internal::relay::{Output, Relay};
use restitch::internal::wire::Dialect;
use restitch::provider::Delta;
use restitch::splice::{Expect, Slot, Splice};
use restitch::sse::Decoder;
use restitch::{Document, Limits};

use shapes::Shape;

#[expect(dead_code, reason = "the benchmarks use more shapes")]
mod shapes;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["paths"] => PATHS
            .iter()
            .for_each(|path| println!("{} {}", path.name, path.units)),
        ["path", name, units] => {
            let path = PATHS.iter().find(|path| path.name == name).unwrap();
            (path.run)(path.units, units.parse().unwrap());
        }
        _ => println!("scripts/instructions runs this"),
    }
}

/// A hot path.
struct Path {
    name: &'static str,
    /// The number of units of a run. The run that it is compared with has twice as many.
    units: usize,
    /// Takes that number, and the number of units to do, which is at most twice as large.
    run: fn(usize, usize),
}

const PATHS: [Path; 20] = [
    Path {
        name: "machine-4-byte-push",
        units: 50_000,
        run: |most, units| machine(4, most, units),
    },
    Path {
        name: "machine-whole-KiB",
        units: 256,
        run: |most, units| machine(1 << 10, most, units),
    },
    Path {
        name: "document-4-KiB-pushes-KiB",
        units: 256,
        run: document,
    },
    Path {
        name: "framing-16-KiB-reads-event",
        units: 2000,
        run: |most, units| framing(Reads::Large, most, units),
    },
    Path {
        name: "framing-event-reads-event",
        units: 2000,
        run: |most, units| framing(Reads::Events, most, units),
    },
    Path {
        name: "read-event",
        units: 2000,
        run: |most, units| read(Dialect::Chat, &events(2 * most), units),
    },
    Path {
        name: "read-event-messages",
        units: 2000,
        run: |most, units| read(Dialect::Messages, &shaped(Shape::Messages, 2 * most), units),
    },
    Path {
        name: "read-event-responses",
        units: 2000,
        run: |most, units| {
            read(
                Dialect::Responses,
                &shaped(Shape::Responses, 2 * most),
                units,
            );
        },
    },
    Path {
        name: "read-event-gemini",
        units: 2000,
        run: |most, units| read(Dialect::Gemini, &shaped(Shape::Gemini, 2 * most), units),
    },
    // The same events, framed alike, with serde: what the four rows above are compared with.
    Path {
        name: "typed-event",
        units: 2000,
        run: |most, units| read_typed(Shape::PaddedChat, &events(2 * most), units),
    },
    Path {
        name: "typed-event-messages",
        units: 2000,
        run: |most, units| read_typed(Shape::Messages, &shaped(Shape::Messages, 2 * most), units),
    },
    Path {
        name: "typed-event-responses",
        units: 2000,
        run: |most, units| read_typed(Shape::Responses, &shaped(Shape::Responses, 2 * most), units),
    },
    Path {
        name: "typed-event-gemini",
        units: 2000,
        run: |most, units| read_typed(Shape::Gemini, &shaped(Shape::Gemini, 2 * most), units),
    },
    Path {
        name: "relay-event",
        units: 2000,
        run: relay,
    },
    Path {
        name: "requested-anchor-cut",
        units: 20,
        run: anchors,
    },
    Path {
        name: "flow-after-seam-4-byte-push",
        units: 10_000,
        run: flow,
    },
    Path {
        name: "unrequested-first-push",
        units: 20,
        run: |most, units| first_pushes(most, units, false),
    },
    Path {
        name: "prepared-first-push",
        units: 20,
        run: |most, units| first_pushes(most, units, true),
    },
    Path {
        name: "unrequested-prose-byte",
        units: 6 << 10,
        run: |most, units| unrequested(&sections(4 * most), units),
    },
    Path {
        name: "unrequested-zeros-byte",
        units: 6 << 10,
        run: |most, units| unrequested(&format!("[{}", "0,".repeat(2 * most)), units),
    },
];

/// Feeds units of `size` bytes: short ones as pushes, KiB as one buffer.
fn machine(size: usize, most: usize, units: usize) {
    let text = sections(2 * most * size);
    let bytes = &text.as_bytes()[..units * size];
    let mut machine = Machine::new(64);
    let push = if size < 1 << 10 { size } else { bytes.len() };
    for push in bytes.chunks(push) {
        machine.feed(black_box(push)).unwrap();
        black_box(machine.cut_state());
    }
}

/// Pushes KiB into a document, four at a time.
fn document(most: usize, units: usize) {
    let text = sections((2 * most) << 10);
    let mut document = Document::new(64);
    for push in text.as_bytes()[..units << 10].chunks(4 << 10) {
        document
            .push(std::str::from_utf8(black_box(push)).unwrap())
            .unwrap();
    }
    black_box(document.text().len());
}

/// How a stream is divided into reads.
#[derive(Clone, Copy)]
enum Reads {
    Large,
    /// Each read has one event.
    Events,
}

fn framing(reads: Reads, most: usize, units: usize) {
    let (body, ends) = events(2 * most);
    let body = &body[..ends[units - 1]];
    let mut decoder = Decoder::new(&Limits::default());
    let mut read = |mut bytes: &[u8]| {
        while let Some(event) = decoder.next_event(&mut bytes).unwrap() {
            black_box(&event);
        }
    };
    match reads {
        Reads::Large => body
            .chunks(16 << 10)
            .for_each(|bytes| read(black_box(bytes))),
        Reads::Events => {
            let mut start = 0;
            for &end in &ends[..units] {
                read(black_box(&body[start..end]));
                start = end;
            }
        }
    }
}

/// Events of a stream, and where each ends.
type Events = (Vec<u8>, Vec<usize>);

/// Reads events in one buffer: framing and text delta.
fn read(dialect: Dialect, (body, ends): &Events, units: usize) {
    let mut reader = dialect.wire().reader();
    let mut decoder = Decoder::new(&Limits::default());
    let (mut input, mut length) = (black_box(&body[..ends[units - 1]]), 0);
    while let Some(event) = decoder.next_event(&mut input).unwrap() {
        reader.read(&event.event, &event.data, &mut |delta| {
            if let Delta::Text { text, .. } = delta {
                length += text.len();
            }
        });
    }
    black_box(length);
}

/// The same with serde, and types of its own for the API.
fn read_typed(shape: Shape, (body, ends): &Events, units: usize) {
    let mut decoder = Decoder::new(&Limits::default());
    let (mut input, mut length) = (black_box(&body[..ends[units - 1]]), 0);
    while let Some(event) = decoder.next_event(&mut input).unwrap() {
        length += shape.typed(&event.data);
    }
    black_box(length);
}

/// Passes events through a relay in reads of 16 KiB.
fn relay(most: usize, units: usize) {
    let (body, ends) = events(2 * most);
    let body = Bytes::from(body).slice(..ends[units - 1]);
    let mut relay = Relay::new(Limits::default());
    let mut forwarded = 0;
    for start in (0..body.len()).step_by(16 << 10) {
        let end = (start + (16 << 10)).min(body.len());
        relay.handle_bytes(Duration::ZERO, black_box(body.slice(start..end)));
        while let Some(output) = relay.poll_output() {
            if let Output::Bytes(bytes) = output {
                forwarded += bytes.len();
            }
        }
    }
    assert_eq!(forwarded, body.len());
}

/// Feeds the anchor after a cut of 96 KiB, as it was asked for: nothing of the delivered text is
/// read for it but what the anchor is searched in.
fn anchors(_: usize, units: usize) {
    let text = sections(96 << 10);
    let limits = Limits::default();
    let mut slot = Slot::new(&limits);
    slot.push(&text).unwrap();
    for _ in 0..units {
        let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
        let anchor = black_box(&text[splice.anchor().unwrap().range.clone()]);
        anchor.as_bytes().chunks(4).for_each(|piece| {
            splice
                .feed(&mut slot, std::str::from_utf8(piece).unwrap())
                .unwrap();
        });
        assert!(splice.pending() == anchor.len());
    }
}

/// Pushes the text after a cut, once a repeated anchor has been found in it.
fn flow(most: usize, units: usize) {
    const DELIVERED: usize = 16 << 10;
    let text = sections(DELIVERED + 8 * most + 1024);
    let mut slot = Slot::new(&Limits::default());
    slot.push(&text[..DELIVERED]).unwrap();
    let mut splice = Splice::new(&slot, Expect::Anchor, &Limits::default());
    let anchor = splice.anchor().unwrap().range.start;
    let flow = DELIVERED + 512;
    splice.feed(&mut slot, &text[anchor..flow]).unwrap();
    for at in (flow..flow + 4 * units).step_by(4) {
        splice
            .feed(&mut slot, black_box(&text[at..at + 4]))
            .unwrap();
    }
    assert!(slot.document().text() == &text[..flow + 4 * units]);
}

/// Feeds the first push of a fragment that does not begin as requested. `is_prepared`: the
/// delivered text was counted before, as while the call is under way.
fn first_pushes(most: usize, units: usize, is_prepared: bool) {
    let text = sections(16 << 10);
    let limits = Limits::default();
    let mut slot = Slot::new(&limits);
    slot.push(&text).unwrap();
    let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
    while is_prepared && splice.prepare(&slot) {}
    let splices = vec![splice; 2 * most];
    for mut splice in splices.into_iter().take(units) {
        splice.feed(&mut slot, black_box("{\"ti")).unwrap();
        assert!(splice.seam().is_none());
        black_box(&splice);
    }
}

/// Delivers most of the text, and feeds a fragment that begins again at its root, byte by byte.
fn unrequested(text: &str, units: usize) {
    let delivered = text.len() - 1024;
    let mut slot = Slot::new(&Limits::default());
    slot.push(&text[..delivered]).unwrap();
    let mut splice = Splice::new(&slot, Expect::Anchor, &Limits::default());
    splice.feed(&mut slot, &text[..64]).unwrap();
    for at in 64..64 + units {
        splice.feed(&mut slot, black_box(&text[at..=at])).unwrap();
    }
    assert!(splice.seam().is_none());
    black_box(&splice);
}

/// Returns at least that many bytes of sections as models write them, in ASCII: prose with a few
/// escapes, numbers.
fn sections(bytes: usize) -> String {
    let mut random = Random(7);
    let mut text = String::from("{\"title\": \"Report\", \"sections\": [");
    let mut n = 0;
    while text.len() < bytes {
        write!(
            text,
            "{{\"id\": {n}, \"type\": \"paragraph\", \"content\": \""
        )
        .unwrap();
        for _ in 0..4 + random.below(12) {
            text.push_str(
                [
                    "So ",
                    "the plants grew ",
                    "and then ",
                    "\\\"more\\\" ",
                    "of it.\\n",
                    "after ",
                ][random.below(6)],
            );
        }
        let (first, second) = (random.below(1_000_000), random.below(1000));
        write!(
            text,
            "\", \"values\": [{first}, -{second}.5e-3, true, null]}}, "
        )
        .unwrap();
        n += 1;
    }
    text
}

/// Returns that many events of the recorded shape of a chat with `obfuscation`, and where each
/// ends. The first one has the role and an empty text.
fn events(count: usize) -> Events {
    let mut random = Random(11);
    let text = sections(8 * count);
    let (mut body, mut ends) = (String::new(), Vec::new());
    let mut from = 0;
    for n in 0..count {
        let to = if n == 0 {
            0
        } else {
            from + 1 + random.below(8)
        };
        let text = serde_json::Value::from(&text[from..to]);
        let delta = if n == 0 {
            format!("{{\"role\":\"assistant\",\"content\":{text},\"refusal\":null}}")
        } else {
            format!("{{\"content\":{text}}}")
        };
        let padding = &"Xa1b2C3d4E5f6G7h"[..1 + random.below(15)];
        write!(
            body,
            "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1750000000,\
             \"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":\
             [{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}],\
             \"obfuscation\":\"{padding}\"}}\n\n"
        )
        .unwrap();
        ends.push(body.len());
        from = to;
    }
    (body.into_bytes(), ends)
}

/// Returns that many events of a shape. Gemini sends some twenty tokens in one event, the others
/// send one.
fn shaped(shape: Shape, count: usize) -> Events {
    let mut random = Random(13);
    let (least, most) = match shape {
        Shape::Gemini => (50, 60),
        _ => (1, 8),
    };
    let text = sections((least + most) * count);
    let (mut body, mut ends, mut from) = (shape.start().to_owned(), Vec::new(), 0);
    for n in 0..count {
        let to = from + least + random.below(most);
        body.push_str(&shape.event(n, &text[from..to]));
        body.push_str("\n\n");
        ends.push(body.len());
        from = to;
    }
    (body.into_bytes(), ends)
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}
