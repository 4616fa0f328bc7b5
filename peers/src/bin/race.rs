//! The race of parsers: tables a to g, in Markdown. Letters as arguments choose tables; `--files`
//! prints all files of table a.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use actson::feeder::{PushJsonFeeder, SliceJsonFeeder};
use actson::options::JsonParserOptionsBuilder;
use actson::{JsonEvent, JsonParser};
use bufjson::lexical::Token;
use bufjson::lexical::fixed::FixedAnalyzer;
use bufjson::lexical::read::ReadAnalyzer;
use bufjson::pointer::{Evaluator, Event as PointerEvent, Group, Pointer};
use jiter::{JsonValue, PartialMode};
use jsonmodem::{ParserOptions, StreamingParser};
use restitch::internal::json::Machine;
use restitch::json::{CloseOptions, Event, ParserView, PathSegment, Sink};
use restitch::paths::Paths;
use restitch::splice::Slot;
use restitch::{Document, Limits, Utf8};
use restitch_peers::input::{Input, corpus, generated, pieces, sections, streams, usual};
use restitch_peers::table::{print, row, short};
use restitch_peers::timing::{Party, median, race};
use serde::de::IgnoredAny;

const ROUNDS: usize = 11;
const DEPTH: usize = 1024;
const MIB: usize = 1 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let all_files = args.iter().any(|arg| arg == "--files");
    let letters: String = args
        .iter()
        .filter(|arg| !arg.starts_with("--"))
        .map(String::as_str)
        .collect();
    let wanted = |letter| letters.is_empty() || letters.contains(letter);
    let text = sections(MIB);
    if wanted('a') {
        pushes(&text, all_files);
    }
    if wanted('b') {
        suffixes(&text);
    }
    if wanted('c') {
        lengths();
    }
    if wanted('d') {
        live(&text);
    }
    if wanted('e') {
        whole();
    }
    if wanted('f') {
        paths(&text);
    }
    if wanted('g') {
        kept();
    }
}

/// A sink that does almost nothing with its events.
#[derive(Default)]
struct Counting {
    events: u64,
    bytes: usize,
}

impl Sink for Counting {
    fn event(&mut self, event: Event, _: &ParserView<'_>) {
        self.events += 1;
        self.bytes += event.span().len();
    }
}

/// Reads each step of the path.
fn walk(machine: &Machine, text: &str) -> usize {
    machine
        .path(text)
        .tokens()
        .map(|token| match token {
            PathSegment::Key(key) => {
                key.len() + usize::from(key.as_bytes().first().copied().unwrap_or(0))
            }
            PathSegment::Index(index) => index,
        })
        .sum()
}

/// Pushes all of `text`, 4 bytes each, and reads the machine after each push.
fn machine_pushes(text: &str, look: impl Fn(&Machine)) {
    let mut machine = Machine::new(DEPTH);
    for push in text.as_bytes().chunks(4) {
        machine
            .feed(black_box(push))
            .expect("restitch accepts the input");
        look(&machine);
    }
}

/// Pushes all of `text`, 4 bytes each, passes each event on, and calls `look` after each push.
fn actson_pushes<S>(
    text: &str,
    mut state: S,
    mut take: impl FnMut(&mut S, JsonEvent, &JsonParser<PushJsonFeeder>),
    look: impl Fn(&S),
) {
    let options = JsonParserOptionsBuilder::default()
        .with_max_depth(DEPTH)
        .build();
    let mut parser = JsonParser::new_with_options(PushJsonFeeder::new(), options);
    for push in text.as_bytes().chunks(4) {
        parser.feeder.push_bytes(black_box(push));
        loop {
            match parser.next_event().expect("actson accepts the input") {
                Some(JsonEvent::NeedMoreInput) | None => break,
                Some(event) => take(&mut state, black_box(event), &parser),
            }
        }
        look(&state);
    }
    assert_eq!(parser.parsed_bytes(), text.len(), "actson reads all of it");
}

/// The path that a caller of actson keeps, because actson does not report it.
#[derive(Default)]
struct Kept {
    frames: Vec<KeptFrame>,
    open: usize,
}

/// One open container. It is kept when it closes, to reuse its buffer.
#[derive(Default)]
struct KeptFrame {
    is_object: bool,
    count: usize,
    key: String,
}

impl Kept {
    fn take(&mut self, event: JsonEvent, parser: &JsonParser<PushJsonFeeder>) {
        match event {
            JsonEvent::StartObject | JsonEvent::StartArray => {
                if self.frames.len() == self.open {
                    self.frames.push(KeptFrame::default());
                }
                let frame = &mut self.frames[self.open];
                frame.is_object = event == JsonEvent::StartObject;
                frame.count = 0;
                frame.key.clear();
                self.open += 1;
                return;
            }
            JsonEvent::EndObject | JsonEvent::EndArray => self.open -= 1,
            JsonEvent::FieldName => {
                if let Some(frame) = self.frames[..self.open].last_mut() {
                    frame.key.clear();
                    frame
                        .key
                        .push_str(parser.current_str().expect("actson keeps text"));
                }
                return;
            }
            _ => {}
        }
        if let Some(frame) = self.frames[..self.open].last_mut() {
            frame.count += 1;
        }
    }

    fn walk(&self) -> usize {
        let frames = self.frames[..self.open].iter();
        frames
            .map(|frame| match frame.is_object {
                true => {
                    frame.key.len()
                        + usize::from(frame.key.as_bytes().first().copied().unwrap_or(0))
                }
                false => frame.count,
            })
            .sum()
    }
}

fn jsonmodem_pushes(pushes: &[&str]) {
    let mut parser = StreamingParser::new(ParserOptions::default());
    for push in pushes {
        parser.feed(black_box(push));
        for event in parser.by_ref() {
            black_box(event.expect("jsonmodem accepts the input"));
        }
    }
}

/// The rows of table a that every file has.
fn push_parties(text: &str) -> Vec<Party<'_>> {
    vec![
        Party::new("actson: push, events", || {
            actson_pushes(text, (), |_, _, _| (), |_| ())
        }),
        Party::new("restitch: push", || machine_pushes(text, |_| ())),
        Party::new("restitch: push, cut state, path obtained", || {
            machine_pushes(text, |machine| {
                black_box((machine.cut_state(), machine.path(text)));
            });
        }),
        Party::new("restitch: push, cut state, path walked", || {
            machine_pushes(text, |machine| {
                black_box((machine.cut_state(), walk(machine, text)));
            });
        }),
        Party::new(
            "actson: push, events, path kept by the caller and walked",
            || {
                actson_pushes(text, Kept::default(), Kept::take, |kept| {
                    black_box(kept.walk());
                });
            },
        ),
    ]
}

/// Table a: 4-byte pushes, reading the cut's state and path after each.
fn pushes(text: &str, all_files: bool) {
    let deltas = pieces(text, 4);
    let mut parties = push_parties(text);
    parties.push(Party::new("jsonmodem: push, events", || {
        jsonmodem_pushes(&deltas)
    }));
    print_pushes("1 MiB of sections", text, &mut parties);

    let inputs = generated(MIB);
    let Input { name, text } = inputs
        .iter()
        .find(|input| input.name == "beyond ASCII")
        .expect("it is generated");
    print_pushes(&format!("1 MiB {name}"), text, &mut push_parties(text));

    files(all_files);
}

fn print_pushes(name: &str, text: &str, parties: &mut [Party<'_>]) {
    let times = race(parties, ROUNDS);
    let count = text.len().div_ceil(4) as f64;
    let mut rows = vec![row([
        &format!("{name}, 4-byte pushes"),
        "ns a push",
        "÷ actson",
    ])];
    for (n, party) in parties.iter().enumerate() {
        rows.push(row([
            party.name,
            &short(times.median(n) / count),
            &short(times.ratio(n, 0)),
        ]));
    }
    print("a. Pushes of 4 bytes", &rows);
}

/// The result for one file.
struct File {
    name: String,
    bytes: usize,
    /// Nanoseconds of a push, party by party.
    cost: Vec<f64>,
    /// The ratios, column by column of [`RATIOS`].
    ratio: [f64; RATIOS.len()],
}

/// The columns of ratios: a party of [`push_parties`] ÷ another.
const RATIOS: [(&str, usize, usize); 3] = [
    ("path obtained ÷ actson", 2, 0),
    ("path walked ÷ actson", 3, 0),
    ("path walked ÷ actson with its path", 3, 4),
];

/// Table a, file by file.
fn files(all: bool) {
    let mut files = Vec::new();
    for Input { name, text } in corpus() {
        let mut parties = push_parties(&text);
        let times = race(&mut parties, ROUNDS);
        let count = text.len().div_ceil(4) as f64;
        let cost = (0..parties.len())
            .map(|n| times.median(n) / count)
            .collect();
        let ratio = RATIOS.map(|(_, party, peer)| times.ratio(party, peer));
        files.push(File {
            name,
            bytes: text.len(),
            cost,
            ratio,
        });
    }
    if files.is_empty() {
        return;
    }
    let mut rows = vec![row(["", "median file, ns", "worst file, ns", "which"])];
    for (n, party) in push_parties("").iter().enumerate() {
        let worst = files
            .iter()
            .max_by(|a, b| a.cost[n].total_cmp(&b.cost[n]))
            .expect("there are files");
        let middle = median(files.iter().map(|file| file.cost[n]).collect());
        rows.push(row([
            party.name,
            &short(middle),
            &short(worst.cost[n]),
            &worst.name,
        ]));
    }
    print(
        &format!("a. Pushes of 4 bytes, {} files", files.len()),
        &rows,
    );

    let line = |name: &str, bytes: &str, ratio: [f64; RATIOS.len()], peer: &str| {
        let [a, b, c] = ratio.map(short);
        row([name, bytes, &a, &b, &c, peer])
    };
    let [a, b, c] = RATIOS.map(|column| column.0);
    let mut rows = vec![row(["", "bytes", a, b, c, "actson, ns a push"])];
    let columns = std::array::from_fn(|n| n);
    rows.push(line(
        "median",
        "",
        columns.map(|n| median(files.iter().map(|file| file.ratio[n]).collect())),
        "",
    ));
    rows.push(line(
        "worst",
        "",
        columns.map(|n| files.iter().map(|file| file.ratio[n]).fold(0.0, f64::max)),
        "",
    ));
    let above = |n: usize| {
        files
            .iter()
            .filter(|file| file.ratio[n] > 1.0)
            .count()
            .to_string()
    };
    rows.push(row([
        "files above 1",
        "",
        &above(0),
        &above(1),
        &above(2),
        "",
    ]));
    // The worst files by each column; with `all`, all files by the first column.
    let mut shown = vec![false; files.len()];
    for n in columns {
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by(|&a, &b| files[b].ratio[n].total_cmp(&files[a].ratio[n]));
        for &at in order.iter().take(if all { files.len() } else { 5 }) {
            if !std::mem::replace(&mut shown[at], true) {
                let file = &files[at];
                rows.push(line(
                    &file.name,
                    &file.bytes.to_string(),
                    file.ratio,
                    &short(file.cost[0]),
                ));
            }
        }
    }
    print("a. The files with the worst ratios", &rows);
}

/// Table b: the cost of the closing suffix after every push.
fn suffixes(text: &str) {
    let deltas = pieces(text, 4);
    let run = |look: &mut dyn FnMut(&Document)| {
        let mut document = Document::new(DEPTH);
        for push in &deltas {
            document
                .push(black_box(push))
                .expect("restitch accepts the input");
            look(&document);
        }
    };
    let mut suffix = String::new();
    let mut parties = [
        Party::new("push", || run(&mut |_| ())),
        Party::new("push, and the suffix into a reused buffer", || {
            run(&mut |document| {
                black_box(document.complete_into(CloseOptions::default(), &mut suffix));
                black_box(&suffix);
            });
        }),
    ];
    let times = race(&mut parties, ROUNDS);
    let count = deltas.len() as f64;
    let mut rows = vec![row([
        "`Document`, 1 MiB of sections, 4-byte pushes",
        "ns a push",
        "÷ push",
    ])];
    for (n, party) in parties.iter().enumerate() {
        rows.push(row([
            party.name,
            &short(times.median(n) / count),
            &short(times.ratio(n, 0)),
        ]));
    }
    let added = median(
        times.0[1]
            .iter()
            .zip(&times.0[0])
            .map(|(both, push)| (both - push) / count)
            .collect(),
    );
    rows.push(row(["the suffix alone", &short(added), ""]));
    print("b. The closing suffix after each push", &rows);
}

/// Table c: 1,024 pushes after documents of several lengths.
fn lengths() {
    let sizes = [
        ("4 KB", 4 << 10),
        ("64 KB", 64 << 10),
        ("1 MB", MIB),
        ("4 MB", 4 * MIB),
        ("64 MB", 64 * MIB),
    ];
    let texts = sizes.map(|(_, bytes)| sections(bytes + 4096));
    let mut parties = Vec::new();
    for ((name, bytes), text) in sizes.into_iter().zip(&texts) {
        // From the start of a section, so that all sizes push the same kind of text.
        let start = text[bytes - 256..]
            .find("{\"id\"")
            .expect("a section begins")
            + bytes
            - 256;
        let rest = &text[start..text.floor_char_boundary(start + 4096)];
        let deltas = pieces(rest, 4);
        let mut document = Document::new(DEPTH);
        document
            .push(&text[..start])
            .expect("restitch accepts the input");
        let checkpoint = document.checkpoint();
        let mut suffix = String::new();
        let count = deltas.len() as f64;
        parties.push((
            count,
            Party::new(name, move || {
                for push in &deltas {
                    document
                        .push(black_box(push))
                        .expect("restitch accepts the input");
                    let _ = document.complete_into(CloseOptions::default(), &mut suffix);
                    black_box((
                        document.cut_state(),
                        walk(document.machine(), document.text()),
                        &suffix,
                    ));
                }
                assert!(
                    document.restore(&checkpoint),
                    "the checkpoint is the document's own"
                );
            }),
        ));
    }
    let (counts, mut parties): (Vec<f64>, Vec<_>) = parties.into_iter().unzip();
    let times = race(&mut parties, ROUNDS);
    let costs: Vec<f64> = counts
        .iter()
        .enumerate()
        .map(|(n, count)| times.median(n) / count)
        .collect();
    let head = "push, cut state, path walked, suffix; behind";
    let mut rows = vec![row([head, "ns a push"])];
    for (party, cost) in parties.iter().zip(&costs) {
        rows.push(row([party.name, &short(*cost)]));
    }
    let (least, most) = costs.iter().fold((f64::MAX, 0.0f64), |(min, max), &cost| {
        (min.min(cost), max.max(cost))
    });
    rows.push(row(["**most ÷ least**", &format!("{:.2}", most / least)]));
    print("c. A push behind documents of several lengths", &rows);
}

/// Table d: a value after every delta.
fn live(text: &str) {
    let deltas = pieces(text, 4);
    let count = deltas.len() as f64;
    // Reading the prefix again at every delta is quadratic: 64 prefixes, evenly spread, represent
    // all of them.
    const SAMPLE: usize = 64;
    let prefixes: Vec<&[u8]> = (0..SAMPLE)
        .map(|n| {
            &text.as_bytes()[..text.floor_char_boundary(text.len() * (2 * n + 1) / (2 * SAMPLE))]
        })
        .collect();
    let document = |sink: &mut dyn FnMut(&mut Document, &str)| {
        let mut document = Document::new(DEPTH);
        for push in &deltas {
            sink(&mut document, black_box(push));
        }
    };
    let mut parties = vec![
        Party::new("restitch: text kept, events counted", || {
            let mut sink = Counting::default();
            document(&mut |document, push| {
                document
                    .push_with(push, &mut sink)
                    .expect("restitch accepts the input")
            });
            black_box((sink.events, sink.bytes));
        }),
        Party::new("jsonmodem: events alone", || jsonmodem_pushes(&deltas)),
    ];
    parties.push(Party::new(
        "restitch: live value, viewed after each",
        || {
            let mut value = restitch::value::LiveValue::new();
            document(&mut |document, push| {
                document
                    .push_with(push, &mut value)
                    .expect("restitch accepts the input");
                black_box(value.view());
            });
        },
    ));
    parties.push(Party::new(
        "jiter: the whole prefix again (64 prefixes stand for all)",
        || {
            for prefix in &prefixes {
                let value = JsonValue::parse_with_config(
                    black_box(prefix),
                    false,
                    PartialMode::TrailingStrings,
                );
                black_box(value.expect("jiter accepts the input"));
            }
        },
    ));
    let times = race(&mut parties, 7);
    let last = parties.len() - 1;
    let cost = |n: usize| times.median(n) / if n == last { SAMPLE as f64 } else { count };
    let own = 2;
    let head = [
        "1 MiB of sections, a value after each 4-byte delta",
        "ns a delta",
        "÷ restitch's",
    ];
    let mut rows = vec![row(head)];
    for (n, party) in parties.iter().enumerate() {
        rows.push(row([
            party.name,
            &short(cost(n)),
            &short(cost(n) / cost(own)),
        ]));
    }
    match jsonriver(&deltas) {
        Some(taken) => {
            let name = "jsonriver: live value (node, five processes)";
            rows.push(row([name, &short(taken), &short(taken / cost(own))]));
        }
        None => println!("skipped: jsonriver needs node, and `npm install` in peers/jsonriver\n"),
    }
    print("d. A live value after each delta", &rows);
}

/// Returns the nanoseconds of a delta, the median of five processes. `None` where it cannot run.
fn jsonriver(deltas: &[&str]) -> Option<f64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("jsonriver");
    let input = serde_json::to_vec(deltas).ok()?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut node = Command::new("node")
            .arg("live.js")
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // A process that ended early is detected below, by its missing output.
        let _ = node.stdin.take()?.write_all(&input);
        let output = node.wait_with_output().ok()?;
        times.push(String::from_utf8(output.stdout).ok()?.trim().parse().ok()?);
    }
    Some(median(times))
}

/// The columns of table e. The ratio in each cell is to the one at [`BASE`].
const WHOLE: [&str; 11] = [
    "restitch `Machine`",
    "`Machine`, pushes of 4 KiB",
    "`Utf8` and `Document`, pushes of 4 KiB",
    "`Machine`, events counted",
    "serde_json `IgnoredAny`, and simdutf8",
    "sonic-rs `IgnoredAny`",
    "simd-json tape, and a copy",
    "bufjson parser",
    "serde_json `Value`",
    "actson",
    "jiter `JsonValue`",
];
const BASE: usize = 4;

/// Table e: whole buffers.
fn whole() {
    let mut inputs = generated(MIB);
    let generated = inputs.len();
    inputs.extend(streams());
    let recorded = inputs.len();
    inputs.extend(usual());
    let mut rows = vec![row(["MiB/s (÷ `IgnoredAny` and simdutf8)"])];
    rows[0].extend(WHOLE.map(str::to_owned));
    let mut logs = Vec::new();
    for Input { name, text } in &inputs {
        let times = race(&mut whole_parties(text), ROUNDS);
        let speed = |party: usize| text.len() as f64 / MIB as f64 / (times.median(party) / 1e9);
        let ratio: [f64; WHOLE.len()] = std::array::from_fn(|party| 1.0 / times.ratio(party, BASE));
        let cells =
            (0..WHOLE.len()).map(|party| format!("{:.0} ({:.2})", speed(party), ratio[party]));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
        logs.push(ratio.map(f64::ln));
    }
    for (name, logs) in [
        ("the generated texts", &logs[..generated]),
        ("the usual files", &logs[recorded..]),
    ] {
        let mean = |party: usize| {
            let sum: f64 = logs.iter().map(|logs| logs[party]).sum();
            format!("({:.2})", (sum / logs.len() as f64).exp())
        };
        let first = format!("geometric mean of {name}");
        rows.push(
            std::iter::once(first)
                .chain((0..WHOLE.len()).map(mean))
                .collect(),
        );
    }
    print("e. Whole buffers", &rows);
}

/// The parties of table e, in the order of [`WHOLE`].
fn whole_parties(text: &str) -> [Party<'_>; WHOLE.len()] {
    let bytes = text.as_bytes();
    let machine = |size: usize| {
        move || {
            let mut machine = Machine::new(DEPTH);
            for push in bytes.chunks(size) {
                machine
                    .feed(black_box(push))
                    .expect("restitch accepts the input");
            }
            assert!(machine.is_done(), "the input is one document");
        }
    };
    let mut copy = Vec::with_capacity(bytes.len());
    [
        Party::new(WHOLE[0], machine(bytes.len())),
        Party::new(WHOLE[1], machine(4096)),
        Party::new(WHOLE[2], move || {
            let (mut document, mut utf8) = (Document::new(DEPTH), Utf8::new());
            for mut push in bytes.chunks(4096) {
                while let Some(text) = utf8.next_text(black_box(&mut push)).expect("it is UTF-8") {
                    document.push(text).expect("restitch accepts the input");
                }
            }
            assert!(document.is_complete(), "the input is one document");
        }),
        Party::new(WHOLE[3], || {
            let mut sink = Counting::default();
            Machine::new(DEPTH)
                .feed_text(black_box(text), &mut sink)
                .expect("restitch accepts the input");
            black_box((sink.events, sink.bytes));
        }),
        Party::new(WHOLE[4], || {
            simdutf8::basic::from_utf8(black_box(bytes)).expect("it is UTF-8");
            black_box(serde_json::from_slice::<IgnoredAny>(black_box(bytes)).expect("it is JSON"));
        }),
        Party::new(WHOLE[5], || {
            black_box(sonic_rs::from_slice::<IgnoredAny>(black_box(bytes)).expect("it is JSON"));
        }),
        Party::new(WHOLE[6], move || {
            copy.clear();
            copy.extend_from_slice(black_box(bytes));
            black_box(simd_json::to_tape(&mut copy).expect("it is JSON"));
        }),
        Party::new(WHOLE[7], move || {
            let mut parser = FixedAnalyzer::new(black_box(bytes)).into_parser();
            loop {
                match parser.next_meaningful() {
                    Token::Eof => break,
                    token => assert_ne!(black_box(token), Token::Err, "bufjson accepts the input"),
                }
            }
        }),
        Party::new(WHOLE[8], || {
            black_box(
                serde_json::from_slice::<serde_json::Value>(black_box(bytes)).expect("it is JSON"),
            );
        }),
        Party::new(WHOLE[9], move || {
            let mut parser = JsonParser::new(SliceJsonFeeder::new(black_box(bytes)));
            while let Some(event) = parser.next_event().expect("actson accepts the input") {
                black_box(event);
            }
        }),
        Party::new(WHOLE[10], || {
            black_box(JsonValue::parse(black_box(bytes), false).expect("jiter accepts the input"));
        }),
    ]
}

/// Table f: values by their paths, while the text streams. The paths have no wildcards, since JSON
/// Pointers have none.
fn paths(text: &str) {
    const PATHS: [&str; 3] = ["/title", "/sections/1000/content", "/sections/4000/id"];
    /// A reader that returns a few bytes at a time.
    struct Reads<'a>(&'a [u8], usize);
    impl std::io::Read for Reads<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }
    let mut rows = vec![row([
        "values at three paths, 1 MiB of sections",
        "MiB/s",
        "÷ bufjson's time",
    ])];
    for (size, with_document, alone, peer) in [
        (
            4,
            "`Document`, 4-byte pushes",
            "`Machine`, 4-byte pushes",
            "bufjson, 4-byte reads",
        ),
        (
            4096,
            "`Document`, pushes of 4 KiB",
            "`Machine`, pushes of 4 KiB",
            "bufjson, reads of 4 KiB",
        ),
    ] {
        let deltas = pieces(text, size);
        let matched = |paths: &mut Paths| {
            let mut bytes = 0;
            while let Some(found) = paths.poll_match() {
                bytes += found.span.len();
            }
            bytes
        };
        let mut parties = [
            Party::new(with_document, || {
                let (mut document, mut paths) = (
                    Document::new(DEPTH),
                    Paths::completions(PATHS).expect("they are paths"),
                );
                let mut bytes = 0;
                for push in &deltas {
                    document
                        .push_with(black_box(push), &mut paths)
                        .expect("restitch accepts the input");
                    bytes += matched(&mut paths);
                }
                assert!(bytes > 0, "the values are found");
            }),
            Party::new(alone, || {
                let (mut machine, mut paths) = (
                    Machine::new(DEPTH),
                    Paths::completions(PATHS).expect("they are paths"),
                );
                let (mut bytes, mut end) = (0, 0);
                for push in &deltas {
                    end += push.len();
                    machine
                        .feed_text(black_box(&text[..end]), &mut paths)
                        .expect("restitch accepts the input");
                    bytes += matched(&mut paths);
                }
                assert!(bytes > 0, "the values are found");
            }),
            Party::new(peer, || {
                let parser =
                    ReadAnalyzer::new(Reads(black_box(text.as_bytes()), size)).into_parser();
                let group = Group::from_pointers(PATHS.map(Pointer::from_static));
                let (mut evaluator, mut bytes) = (Evaluator::new(parser, group, true), 0);
                loop {
                    match evaluator.next_meaningful() {
                        PointerEvent::Match(..) => bytes += evaluator.content().literal().len(),
                        event => match event.token() {
                            Token::Eof => break,
                            token => assert_ne!(token, Token::Err, "bufjson accepts the input"),
                        },
                    }
                }
                assert!(bytes > 0, "the values are found");
            }),
        ];
        let times = race(&mut parties, ROUNDS);
        for (n, party) in parties.iter().enumerate() {
            let speed = text.len() as f64 / MIB as f64 / (times.median(n) / 1e9);
            rows.push(row([party.name, &short(speed), &short(times.ratio(n, 2))]));
        }
    }
    print("f. Values by their paths", &rows);
}

/// Table g: pushes whose text is kept.
fn kept() {
    let text = sections(MIB);
    let deltas = pieces(&text, 4);
    let count = deltas.len() as f64;
    let mut parties = [
        Party::new("`Machine`, bytes", || {
            let mut machine = Machine::new(DEPTH);
            for push in &deltas {
                machine
                    .feed(black_box(push.as_bytes()))
                    .expect("restitch accepts the input");
            }
        }),
        Party::new("`Document`", || {
            let mut document = Document::new(DEPTH);
            deltas.iter().for_each(|push| {
                document
                    .push(black_box(push))
                    .expect("restitch accepts the input")
            });
        }),
        Party::new("`Slot`: all that a live answer keeps", || {
            let mut slot = Slot::new(&Limits::default());
            deltas.iter().for_each(|push| {
                slot.push(black_box(push))
                    .expect("restitch accepts the input")
            });
        }),
    ];
    let times = race(&mut parties, ROUNDS);
    let mut rows = vec![row([
        "1 MiB of sections, 4-byte pushes",
        "ns a push",
        "÷ the first",
    ])];
    for (n, party) in parties.iter().enumerate() {
        rows.push(row([
            party.name,
            &short(times.median(n) / count),
            &short(times.ratio(n, 0)),
        ]));
    }
    print("g. What it costs to keep the text", &rows);

    let text = sections(1 << 30);
    let pushes: Vec<&str> = pieces(&text, 4096);
    let mut parties = [
        Party::new("a `String`, then `serde_json` into `IgnoredAny`", || {
            let mut kept = String::new();
            pushes
                .iter()
                .for_each(|push| kept.push_str(black_box(push)));
            black_box(serde_json::from_str::<IgnoredAny>(&kept).expect("it is JSON"));
        }),
        Party::new("`Document`", || {
            let mut document = Document::new(DEPTH);
            pushes.iter().for_each(|push| {
                document
                    .push(black_box(push))
                    .expect("restitch accepts the input")
            });
            assert!(document.is_complete(), "the input is one document");
        }),
    ];
    let times = race(&mut parties, 7);
    let mut rows = vec![row([
        "1 GiB of sections, pushes of 4 KiB, kept",
        "MiB/s",
        "time ÷ the first",
    ])];
    for (n, party) in parties.iter().enumerate() {
        rows.push(row([
            party.name,
            &short(1024.0 / (times.median(n) / 1e9)),
            &short(times.ratio(n, 0)),
        ]));
    }
    print("g. 1 GiB", &rows);
}
