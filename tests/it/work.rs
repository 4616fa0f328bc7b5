//! The cost of a push, counted and not timed: allocations, bytes allocated, events. It does not
//! depend on earlier text, and grows linearly.

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use restitch::AllowedRoots;
use restitch::internal::children::ChildIndex;
use restitch::internal::json::Machine;
use restitch::internal::relay::{BodyRelay, Output};
use restitch::internal::wire::SlotKind;
use restitch::json::{CloseOptions, CutState, Event, ParserView, Sink, Span};
use restitch::paths::Paths;
use restitch::provider::Dialect;
use restitch::repair::{RepairOptions, RepairStatus, repair_root};
use restitch::value::{LiveValue, View};
use restitch::{Document, Limits, Trailing};
use restitch_testing::answers::whole_body;

/// Counts events, and reads each span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counting {
    fragments: usize,
    /// The number of events that are not fragments.
    others: usize,
    /// The bytes of all fragments.
    bytes: usize,
}

impl Sink for Counting {
    fn event(&mut self, event: Event, live: &ParserView<'_>) {
        match event {
            Event::Fragment(span) => {
                self.fragments += 1;
                self.bytes += span.of(live.text).len();
            }
            _ => self.others += 1,
        }
    }
}

/// Sections as models write them, with escapes, numbers and characters beyond ASCII: `count` of
/// them, and no end.
fn sections(count: usize) -> String {
    let mut text = String::from("{\"title\": \"Report\", \"sections\": [");
    for n in 0..count {
        text.push_str(&format!(
            "{}{{\"id\": {n}, \"content\": \"Section {n} says \\\"so\\\" – \\u00e9 and on.\\n\", \"values\": [-{n}.5e-3, true, \
             null, {{\"deep\": []}}]}}",
            if n == 0 { "" } else { ", " }
        ));
    }
    text
}

/// Returns where pieces of about `size` bytes end: after a character, and at the end of `text`.
fn ends(text: &str, size: usize) -> impl Iterator<Item = usize> {
    let mut end = 0;
    std::iter::from_fn(move || {
        if end == text.len() {
            return None;
        }
        end = (end + size).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        Some(end)
    })
}

fn push_all<S: Sink>(document: &mut Document, text: &str, size: usize, sink: &mut S) {
    let mut start = 0;
    for end in ends(text, size) {
        document.push_with(&text[start..end], sink).unwrap();
        start = end;
    }
}

/// Returns the steps of the path and the bytes of their text, so that all of it is read.
fn walk(document: &Document) -> (usize, usize) {
    let tokens = document.path().tokens();
    tokens.fold((0, 0), |(steps, bytes), token| match token {
        restitch::json::PathSegment::Key(key) => (steps + 1, bytes + key.len()),
        restitch::json::PathSegment::Index(_) => (steps + 1, bytes),
    })
}

#[test]
fn a_machine_is_small() {
    assert!(
        size_of::<Machine>() <= 4 << 10,
        "{} bytes",
        size_of::<Machine>()
    );
}

/// The stack grows to the text's depth in the first section. From then on nothing is allocated.
#[test]
fn a_push_into_the_machine_allocates_nothing() {
    let text = sections(2000);
    let warm = sections(1).len();
    for size in [1, 4, 7, 4096] {
        let mut machine = Machine::new(64);
        machine.feed(&text.as_bytes()[..warm]).unwrap();
        let bytes = measure(|| {
            for chunk in text.as_bytes()[warm..].chunks(size) {
                machine.feed(chunk).unwrap();
                assert_ne!(machine.cut_state(), CutState::Done);
            }
        });
        assert_eq!(bytes.count_total, 0, "bytes in pushes of {size}");

        let mut quiet = Machine::new(64);
        quiet.feed_text(&text[..warm], &mut ()).unwrap();
        let nobody = measure(|| {
            for end in ends(&text, size).filter(|&end| end > warm) {
                quiet.feed_text(&text[..end], &mut ()).unwrap();
            }
        });
        assert_eq!(nobody.count_total, 0, "text in pushes of {size}");

        let (mut told, mut counting) = (Machine::new(64), Counting::default());
        told.feed_text(&text[..warm], &mut counting).unwrap();
        let events = measure(|| {
            for end in ends(&text, size).filter(|&end| end > warm) {
                told.feed_text(&text[..end], &mut counting).unwrap();
            }
        });
        assert_eq!(events.count_total, 0, "events in pushes of {size}");
        // Title and sections; a section has 2 brackets, 3 keys, an identifier, a string, and
        // values: 2 brackets, 3 scalars, an object with a key and an array.
        assert_eq!(
            counting.others,
            1 + 1 + 2 + 1 + 1 + 2000 * (2 + 3 + 1 + 2 + 2 + 3 + 2 + 1 + 2)
        );
    }
}

/// A document allocates only for its text: at most once each time the text has doubled.
#[test]
fn a_push_into_the_document_allocates_for_the_text_alone() {
    for count in [1000, 2000, 4000, 8000] {
        let text = sections(count);
        let doublings = u64::from(text.len().ilog2());
        for size in [1, 4, 4096] {
            let (mut document, mut counting) = (Document::new(64), Counting::default());
            let cost = measure(|| push_all(&mut document, &text, size, &mut counting));
            assert!(
                cost.count_total <= doublings + 4,
                "{cost:?} for {} bytes in pushes of {size}",
                text.len()
            );
            assert!(
                cost.bytes_total <= 4 * text.len() as u64 + 4096,
                "{cost:?} for {} bytes",
                text.len()
            );
            assert_eq!(document.text(), text);
        }
    }
}

/// Returns the allocations of a document after its first sections, with a sink that is read after
/// each push.
fn behind_warm_up<S: Sink>(
    text: &str,
    size: usize,
    mut sink: S,
    mut look: impl FnMut(&mut S, &Document),
) -> u64 {
    let warm = sections(20).len();
    let mut document = Document::new(64);
    let mut run = |from: usize, to: usize, document: &mut Document| {
        let mut start = from;
        for end in ends(&text[from..to], size).map(|end| from + end) {
            document.push_with(&text[start..end], &mut sink).unwrap();
            look(&mut sink, document);
            start = end;
        }
    };
    run(0, warm, &mut document);
    measure(|| run(warm, text.len(), &mut document)).count_total
}

#[test]
fn sinks_allocate_for_what_they_keep_alone() {
    let text = sections(2000);
    for size in [1, 4, 4096] {
        let text_alone = behind_warm_up(&text, size, (), |_, _| {});
        let patterns = [
            "/title",
            "/sections/*/content",
            "/sections/*",
            "/sections/*/values/3/deep",
        ];
        let paths = behind_warm_up(
            &text,
            size,
            Paths::new(patterns).unwrap(),
            |paths, document| {
                while let Some(found) = paths.poll_match() {
                    assert!(!found.path.is_empty() && !found.text(document.text()).is_empty());
                }
            },
        );
        // In large pushes the queue of matches grows with its first full one.
        assert!(
            paths <= text_alone + if size > 4 { 8 } else { 0 },
            "{paths} in pushes of {size}, {text_alone} for the text"
        );

        // Two buffers that double from 20 sections to 2,000: seven times each, and once more.
        let value = behind_warm_up(&text, size, LiveValue::new(), |value, _| {
            let mut newest = value.view();
            while let Some(last) = newest.and_then(View::last) {
                newest = Some(last);
            }
        });
        assert!(
            value <= text_alone + 16,
            "{value} in pushes of {size}, {text_alone} for the text"
        );

        // The children and their two hash indexes: five buffers that double seven times each, and
        // once more.
        let index = behind_warm_up(&text, size, ChildIndex::new(1 << 20), |_, _| {});
        assert!(
            index <= text_alone + 40,
            "{index} in pushes of {size}, {text_alone} for the text"
        );
    }
}

/// Nested objects with enough members for a table of keys, after a huge one: a table is allocated
/// for each open object, and no more.
#[test]
fn tables_of_keys_are_reused() {
    let members = |count: usize| {
        (0..count)
            .map(|n| format!("\"k{n}\": 0"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let row = format!("{{{}, \"in\": {{{}}}}}", members(40), members(20));
    for before in ["", &format!("{{{}}}, ", members(100_000))] {
        let costs = [100, 1000].map(|count| {
            let warm = format!("[{before}{row}");
            let text = format!("{warm}{}", format!(", {row}").repeat(count));
            let (mut document, mut value) = (Document::new(64), LiveValue::new());
            document.push_with(&warm, &mut value).unwrap();
            let cost = measure(|| document.push_with(&text[warm.len()..], &mut value).unwrap());
            assert_eq!(
                value.view().unwrap().len(),
                count + 1 + usize::from(!before.is_empty())
            );
            cost.count_total
        });
        // The text, and the two buffers of the value.
        assert!(
            costs[0] <= 3 * 10 && costs[1] <= costs[0] + 3 * 4,
            "{costs:?}"
        );
    }
}

#[test]
fn a_root_after_another_allocates_nothing() {
    let rows: String = (0..2000)
        .map(|n| format!("{{\"id\": {n}, \"values\": [[{n}]]}}\n"))
        .collect();
    let mut document = Document::with_options(64, AllowedRoots::Containers, Trailing::Next);
    document.push(&rows[..200]).unwrap();
    let cost = measure(|| push_all(&mut document, &rows[200..], 7, &mut ()));
    // The text doubles.
    assert!(cost.count_total < 16, "{cost:?}");
}

#[test]
fn the_closing_suffix_goes_into_the_buffer_that_is_lent() {
    let text = sections(500);
    let (mut document, mut suffix) = (Document::new(64), String::new());
    let warm = sections(1).len();
    let mut start = warm;
    push_all(&mut document, &text[..warm], 4, &mut ());
    let _ = document.complete_into(CloseOptions::default(), &mut suffix);
    suffix.reserve(64);
    for end in ends(&text, 4).filter(|&end| end > warm) {
        document.push(&text[start..end]).unwrap();
        start = end;
        let cost = measure(|| {
            document
                .complete_into(CloseOptions::default(), &mut suffix)
                .unwrap();
        });
        assert_eq!(cost, AllocationInfo::default(), "at byte {end}");
        assert!(suffix.ends_with("]}"), "{suffix} at byte {end}");
    }
}

#[test]
fn a_path_is_a_view() {
    let mut document = Document::new(64);
    document
        .push(r#"{"sections": [0, {"content": [[{"é": "open"#)
        .unwrap();
    let cost = measure(|| assert_eq!(walk(&document), (6, 8 + 7 + 2)));
    assert_eq!(cost.count_total, 0);
    // A key with an escape has no text to borrow: it is allocated.
    document.push(r#"", "a\"b": {"c\nd": "#).unwrap();
    let cost = measure(|| assert_eq!(walk(&document), (7, 8 + 7 + 3 + 3)));
    assert_eq!(cost.count_total, 2);
}

/// The memory of a checkpoint, and the cost of restoring it, depend on what is open and not on the
/// text.
#[test]
fn a_checkpoint_costs_what_is_open() {
    let costs = [10, 100, 10_000].map(|count| {
        let mut document = Document::new(64);
        document.push(&sections(count)).unwrap();
        let mut checkpoint = None;
        let kept = measure(|| checkpoint = Some(document.checkpoint()));
        document.push(", {\"id\": [[[[[").unwrap();
        let restored = measure(|| assert!(document.restore(checkpoint.as_ref().unwrap())));
        (kept, restored)
    });
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0], costs[2]);
    let (kept, restored) = costs[0];
    assert!(kept.bytes_total <= 1024, "{kept:?}");
    assert!(restored.bytes_total <= 1024, "{restored:?}");
}

/// A family of texts, one for each `n`, and what a reader finds in them.
struct Family {
    name: &'static str,
    text: fn(usize) -> String,
    n: usize,
    /// The number of events that are not fragments, for each `n` and besides.
    others: [usize; 2],
    /// The number of strings that are values, in the same way.
    strings: [usize; 2],
    /// The number of open containers for each `n`.
    depth: usize,
    pushes: &'static [usize],
}

const ANY: &[usize] = &[1, 4, 7, 4096, usize::MAX];
const LARGE: &[usize] = &[4096, usize::MAX];

/// Texts that are slow for a parser that reads something twice.
const FAMILIES: [Family; 12] = [
    Family {
        name: "deep arrays",
        text: |n| "[".repeat(n) + &"]".repeat(n),
        n: 50_000,
        others: [2, 0],
        strings: [0, 0],
        depth: 1,
        pushes: ANY,
    },
    Family {
        name: "deep objects",
        text: |n| "{\"k\":".repeat(n) + "1" + &"}".repeat(n),
        n: 50_000,
        others: [3, 1],
        strings: [0, 0],
        depth: 1,
        pushes: ANY,
    },
    Family {
        name: "a million deep",
        text: |n| "[".repeat(n) + &"]".repeat(n),
        n: 500_000,
        others: [2, 0],
        strings: [0, 0],
        depth: 1,
        pushes: LARGE,
    },
    Family {
        name: "escapes",
        text: |n| format!("[\"{}\"]", "\\n".repeat(n)),
        n: 100_000,
        others: [0, 4],
        strings: [0, 1],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "surrogates",
        text: |n| format!("[\"{}\"]", "\\ud83d".repeat(n)),
        n: 50_000,
        others: [0, 4],
        strings: [0, 1],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "escaped quotes",
        text: |n| format!("[\"{}\"]", "\\\"".repeat(n)),
        n: 100_000,
        others: [0, 4],
        strings: [0, 1],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "quotes",
        text: |n| format!("[{}\"\"]", "\"\",".repeat(n)),
        n: 100_000,
        others: [2, 4],
        strings: [1, 1],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "one long string",
        text: |n| format!("[\"{}\"]", "a".repeat(n)),
        n: 8 << 20,
        others: [0, 4],
        strings: [0, 1],
        depth: 0,
        pushes: LARGE,
    },
    Family {
        name: "a string in single bytes",
        text: |n| format!("[\"{}\"]", "a".repeat(n)),
        n: 500_000,
        others: [0, 4],
        strings: [0, 1],
        depth: 0,
        pushes: &[1],
    },
    Family {
        name: "one long number",
        text: |n| format!("[{}]", "1".repeat(n)),
        n: 200_000,
        others: [0, 3],
        strings: [0, 0],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "white space",
        text: |n| format!("[{}1]", " ".repeat(n)),
        n: 200_000,
        others: [0, 3],
        strings: [0, 0],
        depth: 0,
        pushes: ANY,
    },
    Family {
        name: "keys",
        text: |n| {
            format!(
                "{{{}\"k\":0}}",
                (0..n)
                    .map(|k| format!("\"k{k:07}\":0,"))
                    .collect::<String>()
            )
        },
        n: 50_000,
        others: [2, 4],
        strings: [0, 0],
        depth: 0,
        pushes: ANY,
    },
];

/// The bytes of an open container, with the growth of the stack.
const FRAME: usize = 4 * size_of::<restitch::internal::json::Frame>();

impl Family {
    /// Pushes the text for `n`, and checks its own counts.
    fn cost(&self, n: usize, size: usize) -> AllocationInfo {
        let name = self.name;
        let text = (self.text)(n);
        let pushes = text.len().div_ceil(size);
        let (mut document, mut counting) = (Document::new(n + 1), Counting::default());
        let cost = measure(|| push_all(&mut document, &text, size, &mut counting));
        assert!(document.is_complete(), "{name}");
        assert_eq!(
            counting.others,
            self.others[0] * n + self.others[1],
            "{name}: events"
        );
        // A fragment ends with its push or with its string.
        let strings = self.strings[0] * n + self.strings[1];
        assert!(
            counting.fragments <= pushes + strings,
            "{name}: {} fragments",
            counting.fragments
        );
        assert!(
            counting.bytes <= text.len(),
            "{name}: {} bytes told",
            counting.bytes
        );
        let most = 4 * text.len() + FRAME * (self.depth * n + 4) + 1024;
        assert!(cost.bytes_total <= most as u64, "{name}: {cost:?}");
        cost
    }
}

/// Twice the text costs at most twice the memory, a constant, and one more doubling of text and
/// stack.
#[test]
fn work_grows_with_the_text_and_no_faster() {
    for family in FAMILIES {
        for &size in family.pushes {
            let (once, twice) = (family.cost(family.n, size), family.cost(2 * family.n, size));
            let shown = format!("{} in pushes of {size}: {once:?}, {twice:?}", family.name);
            assert!(twice.bytes_total <= 2 * once.bytes_total + 8192, "{shown}");
            assert!(twice.count_total <= once.count_total + 2 * 2, "{shown}");
            assert!(twice.count_total <= 64, "{shown}");
        }
    }
}

/// Returns the bytes allocated for `text`, pushed in pieces of `size` to a document, with a sink
/// that is read after each.
fn with_sink<S: Sink>(
    text: &str,
    size: usize,
    depth: usize,
    mut sink: S,
    mut look: impl FnMut(&mut S),
) -> u64 {
    let mut document = Document::new(depth);
    let cost = measure(|| {
        let mut start = 0;
        for end in ends(text, size) {
            document.push_with(&text[start..end], &mut sink).unwrap();
            look(&mut sink);
            start = end;
        }
    });
    assert!(document.is_complete());
    cost.bytes_total
}

/// The sinks cost twice as much for twice the text, too.
#[test]
fn what_sinks_allocate_grows_with_the_text_and_no_faster() {
    let patterns = ["", "/*", "/k/k", "/*/*/*", "/k0000001"];
    for family in FAMILIES {
        for size in family
            .pushes
            .iter()
            .map(|&size| size.min(4096))
            .filter(|&size| size != 4)
        {
            let costs = [family.n, 2 * family.n].map(|n| {
                let text = (family.text)(n);
                let value = with_sink(&text, size, n + 1, LiveValue::new(), |value| {
                    assert!(
                        value
                            .view()
                            .is_none_or(|view| view.last().is_none_or(|last| last.len() <= 1))
                    );
                });
                let paths = with_sink(&text, size, n + 1, Paths::new(patterns).unwrap(), |paths| {
                    while paths.poll_match().is_some() {}
                });
                let index = with_sink(&text, size, n + 1, ChildIndex::new(1 << 20), |_| {});
                [value, paths, index]
            });
            for (sink, (once, twice)) in ["value", "paths", "index"]
                .iter()
                .zip(costs[0].iter().zip(costs[1]))
            {
                assert!(
                    twice <= 2 * once + 8192,
                    "{sink} of {} in {size}: {once}, {twice}",
                    family.name
                );
            }
        }
    }
}

/// Rows with a mistake for each rule of the level `guess` that applies to rows.
const BROKEN_ROWS: [&str; 14] = [
    r#"{"id": 1, "title": "he said "x" and left"}"#,
    r#"{id: 1, title: "x"}"#,
    r#"{"id": 1, "title": "x y, "port": "P"}"#,
    r#"{"id: 1, "title": "x"}"#,
    r#"{"id": 1, t": "x"}"#,
    r#"{"id": 1, "title": word}"#,
    r#"{"id" 1, "title": "x"}"#,
    r#"{"id": 1, "title": "x""#,
    r#"{"id": 1, "t": "a" + "b"}"#,
    r#"{"id": 1, "t": ""a""}"#,
    r#"{"id": 1, "t": """a"""}"#,
    r#"{"id": 1, "t": [1, {"a": 2]}"#,
    r#"{"id": 1, ...}"#,
    r#"{'id': 1, 'title': 'x', 'ok': True,}"#,
];

/// The most bytes allocated per byte of text. Each attempt copies the text that it reads, its
/// tokens and its changes, so this counts the work.
const READ_PER_BYTE: u64 = 1000;

/// The most bytes allocated for the first mistakes, before they become habits.
const FIRST_MISTAKES: u64 = 16 << 20;

#[test]
fn a_mistake_in_every_row_costs_the_same_in_each_row() {
    for row in BROKEN_ROWS {
        let costs = [30 << 10, 120 << 10].map(|bytes: usize| {
            let text = format!("[{}]", vec![row; bytes / row.len()].join(", "));
            let mut status = None;
            let cost =
                measure(|| status = Some(repair_root(&text, &RepairOptions::default()).status));
            assert_eq!(status, Some(RepairStatus::Repaired), "{row}");
            (text.len() as u64, cost.bytes_total)
        });
        let [(short, once), (long, more)] = costs;
        assert!(
            once <= FIRST_MISTAKES + READ_PER_BYTE * short,
            "{row}: {once} for {short} bytes"
        );
        assert!(
            more <= once + READ_PER_BYTE * (long - short),
            "{row}: {once} for {short} bytes, {more} for {long}"
        );
    }
}

/// The machine keeps no text: it allocates only its stack.
#[test]
fn a_machine_allocates_for_depth_alone() {
    for family in FAMILIES {
        let text = (family.text)(family.n);
        for &size in family.pushes {
            let mut machine = Machine::new(family.n);
            let cost = measure(|| {
                for chunk in text.as_bytes().chunks(size) {
                    machine.feed(chunk).unwrap();
                }
            });
            assert!(machine.is_done(), "{}", family.name);
            let most = FRAME * (family.depth * family.n + 4);
            assert!(
                cost.bytes_total <= most as u64,
                "{} in pushes of {size}: {cost:?}",
                family.name
            );
        }
    }
}

/// Containers of a depth that no default allows are closed without recursion, in one pass.
#[test]
fn a_million_open_containers_are_closed() {
    let depth = 1_000_000;
    let mut document = Document::new(depth);
    document.push(&"[".repeat(depth)).unwrap();
    let mut suffix = String::new();
    let cost = measure(|| {
        assert_eq!(
            document.complete_into(CloseOptions::default(), &mut suffix),
            Some(depth)
        );
    });
    assert_eq!(suffix, "]".repeat(depth));
    assert!(cost.bytes_total <= 4 * depth as u64, "{cost:?}");
    assert_eq!(document.path().len(), depth);
    assert_eq!(document.push("[").unwrap_err().offset, depth);
    // The default depth refuses such text.
    let mut limited = Document::new(Limits::default().parser.max_depth);
    assert_eq!(limited.push(&"[".repeat(depth)).unwrap_err().offset, 1024);
}

/// The counts above can fail: allocations are seen, and a span is read.
#[test]
fn the_counter_counts() {
    let cost = measure(|| drop(std::hint::black_box(vec![0u8; 1000])));
    assert_eq!((cost.count_total, cost.bytes_total), (1, 1000));
    let mut counting = Counting::default();
    counting.event(
        Event::Fragment(Span { start: 1, end: 3 }),
        &ParserView {
            text: "abcd",
            frames: &[],
        },
    );
    counting.event(
        Event::StringBegin(0),
        &ParserView {
            text: "abcd",
            frames: &[],
        },
    );
    assert_eq!(
        counting,
        Counting {
            fragments: 1,
            others: 1,
            bytes: 2
        }
    );
}

/// Relays a whole answer that needs no continuation. Returns the allocations of the relay.
fn relay_whole(dialect: Dialect, text: &str) -> AllocationInfo {
    let body = whole_body(dialect, SlotKind::Text, text, "stop").to_string();
    let (expected, mut sent) = (body.clone(), None);
    let used = measure(|| {
        let mut relay = BodyRelay::new(Limits::default()).dialect(dialect);
        relay.handle_body(Duration::ZERO, body);
        while let Some(output) = relay.poll_output() {
            if let Output::Bytes(bytes) = output {
                sent = Some(bytes);
            }
        }
    });
    assert!(sent.is_some_and(|sent| sent == expected), "{dialect}");
    used
}

/// Memory that is touched for the first time costs more than reading it.
#[test]
fn a_whole_answer_is_copied_once_to_decode_it() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Gemini] {
        for size in [1 << 20, 4 << 20] {
            let document = format!("[{}\"\"]", "\"a word of many\", ".repeat(size / 18));
            let used = relay_whole(dialect, &document);
            let most = (document.len() as u64 / 8 * 9) + (64 << 10);
            assert!(used.bytes_total <= most, "{dialect} {size}: {used:?}");
        }
    }
}

/// Prose is decoded and collected, but not kept in the document.
#[test]
fn prose_of_a_whole_answer_is_read_up_to_its_limit() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Gemini] {
        let prose = "A sentence of many, and its end.\n".repeat(4 << 15);
        let used = relay_whole(dialect, &prose);
        let most = (prose.len() as u64 / 4 * 9) + (512 << 10);
        assert!(used.bytes_total <= most, "{dialect}: {used:?}");
    }
}
