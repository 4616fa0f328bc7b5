//! The work before a decision; runs give the results of their characters.

use crate::limits::Limits;
use crate::splice::text::TextSplice;
use crate::splice::{Expect, Slot, Splice};
use crate::work::tests::{BYTES_READ, STEPS};

/// Elements of about `size` bytes.
fn elements(size: usize) -> [(&'static str, String); 5] {
    let row = |n: usize| {
        format!(
            "{{\"id\": {n}, \"text\": \"Section {} says {} – and on.\"}}",
            n * 7919 % 1000,
            n % 77
        )
    };
    let rows = (0..size / 50).map(row).collect::<Vec<_>>().join(", ");
    [
        ("rows", format!("{{\"items\": [{rows}]}}")),
        ("letters", format!("\"{}\"", "a".repeat(size))),
        ("zeros", format!("[0{}]", ",0".repeat(size / 2))),
        (
            "escapes",
            format!("\"{}\"", "\\n\\u00e9é\\\"".repeat(size / 12)),
        ),
        (
            "nesting",
            format!("[{}0]", "[[[{\"k\": 1}]]], ".repeat(size / 16)),
        ),
    ]
}

/// Returns the delivered text, and a fragment that begins it again.
fn texts(element: &str) -> (String, String) {
    let start = format!(
        "{{\"title\": \"Report\", \"rows\": [{element}, {{\"name\": \"Aurelia Quimby of Vaduz, who "
    );
    let rest = "went on {with} [brackets], \\\"quotes\\\" and é\", \"city\": \"Vaduz\"}, {\"name\": \"Bo\"}]}";
    (start.clone(), start + rest)
}

fn chunks(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let end = (size.min(rest.len())..).find(|&end| rest.is_char_boundary(end))?;
        at += end;
        rest.get(..end)
    })
}

fn begin(delivered: &str) -> (Slot, Splice) {
    let limits = Limits::default();
    let mut slot = Slot::new(&limits);
    slot.push(delivered).unwrap();
    let splice = Splice::new(&slot, Expect::Anchor, &limits);
    (slot, splice)
}

/// The digests are computed while the element is read: no byte of it is read again when it
/// ends.
#[test]
fn a_comparison_reads_each_byte_once() {
    for size in [1 << 10, 16 << 10, 128 << 10] {
        for (name, element) in elements(size) {
            let (delivered, fragment) = texts(&element);
            let (mut slot, mut splice) = begin(&delivered);
            BYTES_READ.take();
            let (mut all, mut most) = (0, 0);
            for push in chunks(&fragment[..delivered.len() - 8], 4) {
                splice.feed(&mut slot, push).unwrap();
                let read = BYTES_READ.take();
                (all, most) = (all + read, most.max(read));
            }
            assert!(
                all <= fragment.len() * 5 / 4,
                "{name}: {all} bytes for {}",
                fragment.len()
            );
            assert!(most <= 2 << 10, "{name}: {most} bytes in one push");
            assert!(
                all >= fragment.len() / 16,
                "{name}: {all} bytes are counted"
            );
        }
    }
}

/// Text with this period, and no shorter one.
fn periodic(period: usize, size: usize) -> String {
    let unit = (1..period)
        .map(|n| char::from(b'a' + (n * n * 7 + n / 3) as u8 % 25))
        .chain(['z']);
    unit.collect::<String>()
        .chars()
        .cycle()
        .take(size)
        .collect()
}

/// Delivered text that repeats itself, and a fragment that does.
fn periodic_texts(period: usize, size: usize) -> [(String, String); 6] {
    let (text, string) = (
        periodic(period, size),
        format!("{{\"a\": \"{}", periodic(period, size)),
    );
    let broken: String = text
        .char_indices()
        .map(|(at, c)| if at % 97 == 96 { 'Y' } else { c })
        .collect();
    let row = |n: usize| ["1,", "4,", "7,"][n % period.min(3)];
    let numbers = format!("[{}", (0..size / 2).map(row).collect::<String>());
    [
        (string.clone(), text[period / 2..].to_owned()),
        (string.clone(), string.clone()),
        (
            string.clone(),
            format!("{}Y{}", &text[..size / 2], &text[size / 2..]),
        ),
        (string.clone(), broken),
        (string, format!("{}\n", &text[..60]).repeat(size / 61)),
        (numbers.clone(), numbers),
    ]
}

#[test]
fn text_that_repeats_itself_costs_the_same_for_each_byte() {
    let mut most = 0;
    for period in [1, 2, 7, 100, 1000] {
        for case in 0..6 {
            for push in [50, usize::MAX].into_iter().skip(usize::from(period != 7)) {
                let costs = [16 << 10, 32 << 10].map(|size| {
                    let (delivered, fragment) = &periodic_texts(period, size)[case];
                    let (mut slot, mut splice) = begin(delivered);
                    STEPS.take();
                    for chunk in chunks(fragment, push) {
                        let _ = splice.feed(&mut slot, chunk);
                    }
                    let _ = splice.finish(&mut slot);
                    let mut text = TextSplice::new(delivered, Expect::Anchor, &Limits::default());
                    let _ = text.feed(delivered, fragment, &mut String::new());
                    STEPS.take()
                });
                let shown =
                    format!("period {period}, texts {case}, pushes of {push}: {costs:?} steps");
                let [short, long] = costs;
                // A fragment that is joined at its beginning costs next to nothing. Quadratic
                // work would take four times the count.
                assert!(short < 16 << 10 || 2 * long <= 5 * short, "{shown}");
                // An anchor that is repeated nearly is compared with twice 204 of its
                // characters for each of the fragment's, and the window is read once for each
                // of 256 contents.
                assert!(long <= (409 + 256 + 64) * (32 << 10), "{shown}");
                most = most.max(long);
            }
        }
    }
    assert!(most > 2 * (32 << 10), "{most} steps are counted");
}
