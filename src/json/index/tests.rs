//! The index, compared with twins that go byte by byte.

use restitch_testing::Rng;

use super::*;

/// The slow twin of [`StructuralIndex`]: the marks up to the first error in a string, byte by byte.
fn slow_marks(bytes: &[u8], mut in_string: bool) -> Vec<(usize, bool)> {
    let (mut marks, mut is_escaped, mut has_escape, mut in_scalar) =
        (Vec::new(), false, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        let was_scalar = std::mem::take(&mut in_scalar);
        match byte {
            _ if std::mem::take(&mut is_escaped) => {
                has_escape = true;
                in_scalar = !in_string;
                if in_scalar && !was_scalar {
                    marks.push((at, false));
                }
            }
            b'"' => {
                marks.push((at, in_string && has_escape));
                has_escape = false;
                in_string = !in_string;
            }
            b'\\' if in_string => is_escaped = true,
            _ if in_string => {}
            b'{' | b'}' | b'[' | b']' | b':' | b',' => marks.push((at, false)),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                in_scalar = true;
                if !was_scalar {
                    marks.push((at, false));
                }
            }
        }
    }
    marks
}

fn marks(bytes: &[u8], in_string: bool) -> Vec<(usize, bool)> {
    let mut index = StructuralIndex::new(bytes, in_string, false)
        .expect("the processor has vector instructions");
    let mut marks = Vec::new();
    while let Some(mark) = index.close() {
        marks.push((mark.at(), mark.has_escape()));
    }
    marks
}

#[test]
fn the_marks_are_those_of_the_twin() {
    let pieces = [
        "\"", "\\\"", "\\\\", "\\n", "\\u00e9", "{", "}", "[", "]", ",", ":", " ", "\n", "12", "-",
        "true", "é", "日本",
    ];
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let (mut text, length, in_string) = (String::new(), rng.below(900), rng.below(2) == 0);
        // A backslash outside of a string is an error, so the bytes after it don't matter.
        let mut is_open = in_string;
        while text.len() < length {
            let piece = pieces[rng.below(pieces.len())];
            if piece.starts_with('\\') && !is_open {
                continue;
            }
            is_open ^= piece == "\"";
            for _ in 0..1 + rng.below(3) * rng.below(30) * usize::from(piece != "\"") {
                text.push_str(piece);
            }
        }
        // A line feed belongs to no string.
        let text = if text.contains('\n') {
            text.replace('\n', " ")
        } else {
            text
        };
        assert_eq!(
            marks(text.as_bytes(), in_string),
            slow_marks(text.as_bytes(), in_string),
            "{text}"
        );
    }
}

#[test]
fn an_index_ends_before_the_block_that_is_wrong() {
    for wrong in ["\u{1}", "\\x", "\\u12g4", "\\u123\"", "\n"] {
        for place in 0..200 {
            let before = format!("[{}\"{}", "\"\",".repeat(100), "a".repeat(place));
            let text = format!("{before}{wrong}a\", 1]{}", " ".repeat(300));
            let found = marks(text.as_bytes(), false);
            let known = slow_marks(before.as_bytes(), false);
            // The error is at most two bytes after `before`, and the index ends before its block.
            let end = known
                .iter()
                .filter(|mark| mark.0 < before.len() / BLOCK * BLOCK)
                .count();
            assert!(
                known.starts_with(&found) && found.len() >= end,
                "{wrong:?} at {place}: {found:?}"
            );
        }
    }
}

#[test]
fn escaped_bytes_are_those_of_the_twin() {
    for seed in 0..5000 {
        let (mut rng, mut carry, mut is_escaped) = (Rng::new(seed), Carry::default(), false);
        for _ in 0..3 {
            let dense = rng.below(4);
            let backslashes =
                (0..64).fold(0, |word, at| word | u64::from(rng.below(4) < dense) << at);
            let mut slow = 0;
            for at in 0..64 {
                let is_backslash = backslashes >> at & 1 == 1;
                slow |= u64::from(is_escaped) << at;
                is_escaped = is_backslash && !is_escaped;
            }
            assert_eq!(carry.escaped(backslashes), slow, "{backslashes:b}");
            assert_eq!(carry.is_escaped, u64::from(is_escaped));
        }
    }
}

#[test]
fn a_string_closes_where_the_twin_says() {
    let slow = |text: &str, start: usize| {
        let mut at = start;
        loop {
            match text.as_bytes().get(at)? {
                b'"' => return Some(at),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    };
    let pieces = ["\\\"", "\\\\", "\\n", "a", "some more text", "é", "\\u0022"];
    for seed in 0..5000 {
        let mut rng = Rng::new(seed);
        let start = rng.below(80);
        let mut text = "\\".repeat(start);
        (0..rng.below(60)).for_each(|_| text.push_str(pieces[rng.below(pieces.len())]));
        text.push_str(["\"", "\", \"", "\\", ""][rng.below(4)]);
        assert_eq!(
            closing_quote(text.as_bytes(), start),
            slow(&text, start),
            "{text}"
        );
    }
    assert_eq!(closing_quote(b"", 0), None);
    assert_eq!(closing_quote(b"a", 7), None);
}

#[test]
fn numbers_end_where_the_twin_says() {
    let pieces = ["0", "1", "27", "123456789", "-", ".", "e", "E+", "000", " "];
    for seed in 0..20000 {
        let mut rng = Rng::new(seed);
        let start = rng.below(200);
        let mut text = " ".repeat(start);
        for _ in 0..1 + rng.below(8) {
            text.push_str(pieces[rng.below(pieces.len())]);
        }
        text.push_str(&format!(",{}", " ".repeat(rng.below(200))));
        let mut index = StructuralIndex::new(text.as_bytes(), false, true)
            .expect("the processor has vector instructions");
        if matches!(index.byte(start), b'-' | b'0'..=b'9') {
            index.look_ahead();
            assert_eq!(index.ahead()[0].at(), start);
            assert_eq!(
                index.number_end(start),
                slow_number_end(text.as_bytes(), start),
                "{text}"
            );
        }
    }
}

/// The slow twin of [`StructuralIndex::number_end`].
fn slow_number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |at: usize| {
        at + bytes[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let start = at + usize::from(bytes[at] == b'-');
    let mut end = if bytes[start] == b'0' {
        start + 1
    } else {
        digits(start)
    };
    if end == start {
        return None;
    }
    if bytes[end] == b'.' {
        (_, end) = (digits(end + 1) > end + 1).then(|| (end, digits(end + 1)))?;
    }
    if matches!(bytes[end], b'e' | b'E') {
        let from = end + 1 + usize::from(matches!(bytes[end + 1], b'+' | b'-'));
        end = Some(digits(from)).filter(|&end| end > from)?;
    }
    Some(end)
}

#[test]
fn hexadecimal_digits() {
    for place in 0..4 {
        for byte in 0..=255 {
            let mut four = *b"0aF9";
            four[place] = byte;
            assert_eq!(are_hex_digits(four), byte.is_ascii_hexdigit(), "{four:?}");
        }
    }
}
