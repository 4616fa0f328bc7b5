//! Ways to store a document's text: their cost in time and memory, each candidate in a process of
//! its own.
//!
//! The binary runs itself again with a candidate's name, and reads the numbers that the process
//! prints.

use std::borrow::Cow;
use std::hint::black_box;
use std::process::Command;

use restitch::Document;

use crate::input::{pieces, section};
use crate::table::{print, row, short};
use crate::timing::{median, now};

const MIB: usize = 1 << 20;
/// Bytes of the text that is kept.
const TEXT: usize = 1 << 30;
/// Bytes of a push.
const PUSH: usize = 4 << 10;
const SEGMENT: usize = MIB;
/// Processes for each candidate, in turn.
const ROUNDS: usize = 3;
/// Spans that are read from a stored text.
const SPANS: usize = 1 << 20;

/// The candidates by name.
const CANDIDATES: [(&str, Run); 6] = [
    ("`String`, doubling", |pushes| {
        keep(
            pushes,
            String::new(),
            |text, push| text.push_str(push),
            string_span,
        )
    }),
    ("`String`, an eighth more", |pushes| {
        keep(
            pushes,
            String::new(),
            |text, push| grow(text, push, text.len() / 8),
            string_span,
        )
    }),
    ("`String`, 64 MiB more", |pushes| {
        keep(
            pushes,
            String::new(),
            |text, push| grow(text, push, 64 * MIB),
            string_span,
        )
    }),
    ("segments of 1 MiB", |pushes| {
        keep(pushes, Segments::default(), Segments::push, Segments::span)
    }),
    ("`Document`", document),
    ("`Document` and live value", live),
];

type Run = fn(&Pushes) -> Cost;

/// The measurements of a process, in nanoseconds.
struct Cost {
    push: f64,
    span: f64,
    recent: f64,
}

/// Runs the candidate that the first argument names, or all of them, each in a process of its own.
pub fn main() {
    let title = "1 GiB of text kept, pushes of 4 KiB";
    if let Some(name) = std::env::args().nth(1) {
        if let Some((_, run)) = CANDIDATES.iter().find(|candidate| candidate.0 == name) {
            let cost = run(&Pushes::new());
            println!(
                "{} {} {} {}",
                cost.push,
                peak().unwrap_or(f64::NAN) / TEXT as f64,
                cost.span,
                cost.recent
            );
        }
        return;
    }
    let head = [
        "",
        "ns a push",
        "peak memory ÷ text",
        "ns a span, anywhere",
        "ns a span, in the last MiB",
    ];
    let mut found = vec![Vec::new(); CANDIDATES.len()];
    for _ in 0..ROUNDS {
        for ((name, _), found) in CANDIDATES.iter().zip(&mut found) {
            match measure(name) {
                Some(cost) => found.push(cost),
                None => println!("{name}: no answer"),
            }
        }
    }
    let mut rows = vec![row(head)];
    for ((name, _), found) in CANDIDATES
        .iter()
        .zip(&found)
        .filter(|(_, found)| !found.is_empty())
    {
        let cell = |n: usize| median(found.iter().map(|cost| cost[n]).collect());
        rows.push(row([
            name,
            &short(cell(0)),
            &format!("{:.3}", cell(1)),
            &short(cell(2)),
            &short(cell(3)),
        ]));
    }
    print(title, &rows);
}

fn measure(name: &str) -> Option<[f64; 4]> {
    let output = Command::new(std::env::current_exe().ok()?)
        .arg(name)
        .output()
        .ok()?;
    let numbers: Vec<f64> = String::from_utf8(output.stdout)
        .ok()?
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.try_into().ok()
}

/// Returns the largest resident memory of the process so far, in bytes, as Linux reports it.
fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix(" kB")?
        .trim()
        .parse::<f64>()
        .ok()
        .map(|kilobytes| kilobytes * 1024.0)
}

/// A document of sections that never ends, from one MiB of them that is split once, so that making
/// it takes no time while the clock runs.
struct Pushes {
    block: String,
}

impl Pushes {
    fn new() -> Self {
        let mut block = String::new();
        for n in 0.. {
            section(n, &mut block);
            block.push_str(", ");
            if block.len() >= MIB {
                break;
            }
        }
        Self { block }
    }

    /// Passes [`TEXT`] bytes to `push`, and returns the nanoseconds of each push.
    fn run(&self, mut push: impl FnMut(&str)) -> f64 {
        let parts = pieces(&self.block, PUSH);
        let mut left = TEXT;
        let mut count = 0;
        let start = now();
        push("{\"title\": \"Report\", \"sections\": [");
        for part in parts.iter().cycle() {
            push(black_box(part));
            count += 1;
            match left.checked_sub(part.len()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
        now().saturating_sub(start).as_nanos() as f64 / f64::from(count)
    }
}

/// Returns the nanoseconds of reading a span of 1 to 64 bytes of the last `among` bytes.
fn spans(length: usize, among: usize, mut take: impl FnMut(usize, usize) -> usize) -> f64 {
    let mut state = 1u64;
    let mut bytes = 0;
    let start = now();
    for _ in 0..SPANS {
        // Knuth's generator: the same offsets for every candidate.
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let at = length - among + (state >> 33) as usize % (among - 64);
        bytes += take(at, at + 1 + (state >> 20) as usize % 64);
    }
    black_box(bytes);
    now().saturating_sub(start).as_nanos() as f64 / SPANS as f64
}

/// A text in any form of storage: pushes, and then spans.
fn keep<T>(
    pushes: &Pushes,
    mut text: T,
    push: fn(&mut T, &str),
    span: fn(&T, usize, usize) -> Cow<'_, str>,
) -> Cost {
    let push = pushes.run(|part| push(&mut text, part));
    let mut take = |start, end| black_box(span(&text, start, end)).len();
    Cost {
        push,
        span: spans(TEXT, TEXT, &mut take),
        recent: spans(TEXT, MIB, &mut take),
    }
}

fn grow(text: &mut String, push: &str, more: usize) {
    if text.capacity() - text.len() < push.len() {
        text.reserve_exact(push.len() + more);
    }
    text.push_str(push);
}

#[expect(
    clippy::ptr_arg,
    reason = "one of the functions that are taken over `T`"
)]
fn string_span(text: &String, start: usize, end: usize) -> Cow<'_, str> {
    Cow::Borrowed(text.get(start..end).unwrap_or_default())
}

/// Text in segments that are full except for the last one. None ends inside a character.
#[derive(Default)]
struct Segments {
    whole: Vec<(usize, String)>,
    last: String,
    start: usize,
}

impl Segments {
    fn push(&mut self, push: &str) {
        let room = SEGMENT.saturating_sub(self.last.len());
        let (fits, rest) = push.split_at(push.floor_char_boundary(room.min(push.len())));
        self.last.push_str(fits);
        if rest.is_empty() {
            return;
        }
        let next = String::with_capacity(SEGMENT);
        let start = self.start + self.last.len();
        self.whole
            .push((self.start, std::mem::replace(&mut self.last, next)));
        self.start = start;
        self.last.push_str(rest);
    }

    fn span(&self, start: usize, end: usize) -> Cow<'_, str> {
        if start >= self.start {
            return Cow::Borrowed(
                self.last
                    .get(start - self.start..end - self.start)
                    .unwrap_or_default(),
            );
        }
        // A segment has at most three bytes less than its size: the guess is right, or sometimes
        // one too low.
        let mut at = (start / SEGMENT).min(self.whole.len() - 1);
        while self.whole.get(at + 1).is_some_and(|next| next.0 <= start) {
            at += 1;
        }
        let (begin, segment) = &self.whole[at];
        if end <= begin + segment.len() {
            return Cow::Borrowed(segment.get(start - begin..end - begin).unwrap_or_default());
        }
        let seam = begin + segment.len();
        let head = segment.get(start - begin..).unwrap_or_default();
        Cow::Owned([head, &self.span(seam, end)].concat())
    }
}

fn document(pushes: &Pushes) -> Cost {
    let mut document = Document::new(64);
    let push = pushes.run(|part| {
        document
            .push(part)
            .expect("the text is the start of a document")
    });
    let text = document.text();
    let mut take = |start, end| black_box(text.get(start..end)).map_or(0, str::len);
    Cost {
        push,
        span: spans(TEXT, TEXT, &mut take),
        recent: spans(TEXT, MIB, &mut take),
    }
}

fn live(pushes: &Pushes) -> Cost {
    let mut document = Document::new(64);
    let mut value = restitch::value::LiveValue::new();
    let push = pushes.run(|part| {
        document
            .push_with(part, &mut value)
            .expect("the text is the start of a document")
    });
    black_box(value.view());
    let mut take = |start, end| black_box(document.text().get(start..end)).map_or(0, str::len);
    Cost {
        push,
        span: spans(TEXT, TEXT, &mut take),
        recent: spans(TEXT, MIB, &mut take),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_what_a_string_holds() {
        let block = Pushes::new().block.repeat(3);
        let mut segments = Segments::default();
        pieces(&block, 1021)
            .into_iter()
            .for_each(|piece| segments.push(piece));
        assert_eq!(segments.whole.len(), block.len() / SEGMENT);
        let seams = segments
            .whole
            .iter()
            .map(|segment| segment.0)
            .chain([segments.start, block.len()]);
        for seam in seams.collect::<Vec<_>>() {
            for start in seam.saturating_sub(70)..(seam + 70).min(block.len()) {
                for end in start..(start + 64).min(block.len()) {
                    if block.is_char_boundary(start) && block.is_char_boundary(end) {
                        assert_eq!(
                            segments.span(start, end),
                            block[start..end],
                            "{start}..{end}"
                        );
                    }
                }
            }
        }
    }
}
