//! Pushes that are long enough for an index of their tokens, compared with pushes of one byte,
//! which the table of the grammar alone decides: the same errors, events, frames and closings, for
//! valid text and for text with mistakes.

use restitch::SyntaxError;
use restitch::internal::json::{Frame, Machine};
use restitch::json::{CloseOptions, Completion, CutState};

use crate::reference::Log;
use restitch_testing::Rng;

/// What a machine says at the end of a text, or at an error.
#[derive(Debug, PartialEq)]
struct Seen {
    error: Option<SyntaxError>,
    offset: usize,
    state: CutState,
    frames: Vec<Frame>,
    closing: Option<(usize, String)>,
}

fn seen(machine: &Machine, error: Option<SyntaxError>) -> Seen {
    let mut suffix = String::new();
    let end = machine.close_into(CloseOptions::default(), &mut suffix);
    let (offset, state) = (machine.offset(), machine.cut_state());
    Seen {
        error,
        offset,
        state,
        frames: machine.frames().to_vec(),
        closing: end.map(|end| (end, suffix)),
    }
}

/// Feeds bytes in pushes that end at `cuts`.
fn bytes(text: &[u8], depth: usize, cuts: &[usize]) -> Seen {
    let (mut machine, mut start) = (Machine::new(depth), 0);
    for end in cuts.iter().copied().chain([text.len()]) {
        if let Err(error) = machine.feed(&text[start..end]) {
            return seen(&machine, Some(error));
        }
        start = end;
    }
    seen(&machine, None)
}

/// Feeds text in pushes that end at `cuts`, with a sink.
fn text(text: &str, depth: usize, cuts: &[usize]) -> (Seen, Log, String, Completion) {
    let (mut machine, mut log) = (Machine::new(depth), Log::default());
    let mut error = None;
    for end in cuts
        .iter()
        .copied()
        .filter(|&cut| text.is_char_boundary(cut))
        .chain([text.len()])
    {
        error = machine.feed_text(&text[..end], &mut log).err();
        if error.is_some() || machine.is_done() {
            break;
        }
    }
    (
        seen(&machine, error),
        log,
        machine.path(text).to_string(),
        machine.completion(text),
    )
}

fn check(input: &[u8], rng: &mut Rng) {
    let depth = if rng.below(4) == 0 {
        rng.below(6)
    } else {
        1024
    };
    let bytewise: Vec<usize> = (1..input.len()).collect();
    let mut splits = vec![Vec::new()];
    for longest in [1100, 1500, 2000, 4000] {
        let mut cuts = vec![rng.below(longest)];
        while cuts[cuts.len() - 1] < input.len() {
            cuts.push(cuts[cuts.len() - 1] + 1 + rng.below(longest));
        }
        cuts.pop();
        splits.push(cuts);
    }
    let slow = bytes(input, depth, &bytewise);
    for cuts in &splits {
        assert_eq!(
            bytes(input, depth, cuts),
            slow,
            "cut at {cuts:?}: {:?}",
            String::from_utf8_lossy(input)
        );
    }
    let Ok(input) = std::str::from_utf8(input) else {
        return;
    };
    let slow = text(input, depth, &bytewise);
    for cuts in &splits {
        assert_eq!(text(input, depth, cuts), slow, "cut at {cuts:?}: {input:?}");
    }
}

fn space(rng: &mut Rng, out: &mut Vec<u8>) {
    for _ in 0..[0, 0, 0, 1, 2, 9][rng.below(6)] {
        out.push(b" \n\t\r"[rng.below(4)]);
    }
}

fn string(rng: &mut Rng, out: &mut Vec<u8>) {
    let plain = ["plain ", "x, {"];
    let beyond_ascii = ["é", "日", "😀", "ж"];
    let escapes = [
        "\\n",
        "\\\\",
        "\\\"",
        "\\ud83d\\ude00",
        "\\u00e9",
        "\\ud83d",
        "\\\\",
    ];
    let kind = rng.below(4);
    out.push(b'"');
    for _ in 0..[0, 1, 3, 20, 90][rng.below(5)] {
        let pieces: &[&str] = match (kind, rng.below(3)) {
            (0, _) | (_, 0) => &plain,
            (1, _) | (3, 1) => &beyond_ascii,
            _ => &escapes,
        };
        out.extend_from_slice(pieces[rng.below(pieces.len())].as_bytes());
    }
    out.push(b'"');
}

fn value(rng: &mut Rng, level: usize, out: &mut Vec<u8>) {
    let scalars = [
        "0",
        "-0",
        "12",
        "-12.5e-3",
        "1234567890123456789.123456789",
        "1e5",
        "-0.0E+7",
        "1.5",
        "true",
        "false",
        "null",
    ];
    let [open, close] = match rng.below(if level > 4 { 6 } else { 9 }) {
        0..=2 => return out.extend_from_slice(scalars[rng.below(scalars.len())].as_bytes()),
        3..=5 => return string(rng, out),
        6 => *b"[]",
        _ => *b"{}",
    };
    out.push(open);
    space(rng, out);
    for n in 0..rng.below(5) {
        if n > 0 {
            out.push(b',');
            space(rng, out);
        }
        if open == b'{' {
            string(rng, out);
            space(rng, out);
            out.push(b':');
            space(rng, out);
        }
        value(rng, level + 1, out);
        space(rng, out);
    }
    out.push(close);
}

/// Changes a byte or two, and perhaps cuts the text.
fn spoil(rng: &mut Rng, text: &mut Vec<u8>) {
    let bytes = b"\0\t\x1f\"\\{}[],:0e.t \x7f\x80\xc3\xff\xed\xa0u-";
    for _ in 0..1 + rng.below(2) {
        let (at, byte) = (rng.below(text.len()), bytes[rng.below(bytes.len())]);
        match rng.below(3) {
            0 => text[at] = byte,
            1 if text.len() > 1 => drop(text.remove(at)),
            _ => text.insert(at, byte),
        }
    }
    if rng.below(3) == 0 {
        text.truncate(1 + rng.below(text.len()));
    }
}

#[test]
fn long_pushes_agree_with_single_bytes() {
    let mut rng = Rng::of(b"long pushes");
    for _ in 0..120 {
        let mut input = vec![b'['];
        for _ in 0..rng.below(100) {
            value(&mut rng, 0, &mut input);
            input.push(b',');
        }
        value(&mut rng, 1, &mut input);
        input.push(b']');
        input.truncate(6000);
        check(&input, &mut rng);
        for _ in 0..3 {
            let mut wrong = input.clone();
            spoil(&mut rng, &mut wrong);
            check(&wrong, &mut rng);
        }
    }
}

/// Every cut of texts whose pushes end in a place that is hard: in an escape, in a pair of
/// surrogates, in a character.
#[test]
fn a_long_push_may_end_anywhere() {
    for piece in [
        "\\ud83d\\ude00",
        "\\u00e9\\n",
        "é日😀",
        "\\\\",
        "\\ud83d\\ud83d",
        "a",
    ] {
        let input = format!(
            "[\"{}\", {{\"{}\": 1}}]",
            piece.repeat(1000 / piece.len()),
            piece.repeat(200 / piece.len())
        );
        let slow = bytes(input.as_bytes(), 8, &(1..input.len()).collect::<Vec<_>>());
        for cut in 1024..input.len() {
            assert_eq!(
                bytes(input.as_bytes(), 8, &[cut]),
                slow,
                "cut at {cut}: {input}"
            );
            let start = &input.as_bytes()[..cut];
            assert_eq!(
                bytes(start, 8, &[]),
                bytes(start, 8, &(1..cut).collect::<Vec<_>>()),
                "up to {cut}: {input}"
            );
        }
    }
}
