//! Event streams: each rule by hand, the cases of the standard, recorded streams, and random bytes
//! against a slow twin.

mod twin;

use std::borrow::Cow;
use std::fs;
use std::ops::Range;

use restitch::Limits;
use restitch::sse::{DecodeError, DecodeErrorKind, Decoder, Encoder};

use crate::fuzz::sse::{Record, assert_tiles, check as fuzz_body, decode};
use restitch_testing::{Rng, at_least, base64, corpus_rows, random_cuts, splits};

/// Decodes `input` in every split and returns what all of them agree on.
#[track_caller]
fn over_splits(limits: &Limits, input: &[u8]) -> Record {
    let whole = decode(limits, input, &[]);
    for cuts in splits(input.len()) {
        let split = decode(limits, input, &cuts);
        assert!(
            split == whole,
            "{} cuts, first {:?}: {split:?}\nwhole: {whole:?}",
            cuts.len(),
            cuts.first()
        );
    }
    assert_tiles(&whole);
    whole
}

/// Expects these events, as (type, data, id, range, terminated), from any split and from the twin.
#[track_caller]
fn check(input: &[u8], expect: &[(&str, &str, &str, Range<u64>, bool)]) -> Record {
    let record = over_splits(&Limits::default(), input);
    let events: Vec<_> = record
        .events
        .iter()
        .map(|e| {
            (
                e.event.as_str(),
                e.data.as_str(),
                e.id.as_str(),
                e.range.clone(),
                e.terminated,
            )
        })
        .collect();
    assert_eq!(events, expect);
    assert_eq!(record, twin::decode(input));
    record
}

#[test]
fn an_event_is_due_at_its_carriage_return() {
    let mut decoder = Decoder::new(&Limits::default());
    let mut input = &b"data: 1\r\n\r"[..];
    let event = decoder.next_event(&mut input).unwrap().unwrap();
    assert_eq!((event.data.as_ref(), event.range), ("1", 0..10));
    assert_eq!((decoder.boundary(), decoder.offset()), (10, 10));
    // The LF comes late: it is not a line of its own, and it moves the boundary.
    let mut input = &b"\n"[..];
    assert_eq!(decoder.next_event(&mut input), Ok(None));
    assert_eq!((decoder.boundary(), decoder.offset()), (11, 11));
    let mut input = &b"\ndata: 2\r\r"[..];
    let event = decoder.next_event(&mut input).unwrap().unwrap();
    assert_eq!((event.data.as_ref(), event.range), ("2", 10..21));
    // An LF at hand is consumed with its CR.
    let mut input = &b"data: 3\r\n\r\ndata"[..];
    let event = decoder.next_event(&mut input).unwrap().unwrap();
    assert_eq!((event.data.as_ref(), event.range), ("3", 21..31));
    assert_eq!((decoder.boundary(), input), (32, &b"data"[..]));
}

#[test]
fn retry() {
    for (value, expect) in [
        ("retry: 1000\n", Some(1000)),
        ("retry:007\n", Some(7)),
        (
            "retry: 5\nretry: 6x\nretry: -1\nretry: 1.5\nretry: 1e3\nretry:\nretry\nretry:  9\nretry: 9 \n",
            Some(5),
        ),
        ("retry: 18446744073709551616\n", Some(u64::MAX)),
        ("retry: \u{661}\n", None),
        // The rest of the number may be missing.
        ("retry: 5\nretry: 10", Some(5)),
    ] {
        assert_eq!(check(value.as_bytes(), &[]).retry, expect, "{value:?}");
    }
}

#[test]
fn nothing_of_an_unterminated_block_is_left() {
    for (tail, start) in [
        ("event: a\nid: 1", 0),
        ("event: a\nid: 1\ndata: 1\ndata: 2", 30),
    ] {
        let mut decoder = Decoder::new(&Limits::default());
        assert_eq!(decoder.next_event(&mut tail.as_bytes()), Ok(None));
        assert_eq!(decoder.finish().unwrap().is_some(), start > 0);
        let event = decoder
            .next_event(&mut &b"data: 3\n\n"[..])
            .unwrap()
            .unwrap();
        assert_eq!(
            (&*event.event, &*event.data, &*event.id),
            ("message", "3", "")
        );
        assert_eq!(event.range, start..tail.len() as u64 + 9);
    }
}

#[test]
fn a_line_has_a_cap() {
    let limits = Limits::default().with_max_line_bytes(8);
    let record = over_splits(&limits, b"data: 12\r\n\r\ndata: 34\n\n");
    assert_eq!((record.events.len(), record.error), (2, None));
    let too_long = |offset| {
        Some(DecodeError {
            kind: DecodeErrorKind::LineTooLong(8),
            offset,
        })
    };
    // Whole events before it were returned. The ninth byte is too much, whether its line ends or
    // not.
    for tail in ["", "4", "4567890\n\ndata: 5\n\n"] {
        let record = over_splits(&limits, format!("data: 1\n\ndata: 123{tail}").as_bytes());
        assert_eq!((record.events.len(), record.error), (1, too_long(17)));
        assert_eq!((record.offset, record.boundary), (17, 9));
    }
    assert_eq!(over_splits(&limits, b":23456789").error, too_long(8));
    assert_eq!(
        too_long(8).unwrap().to_string(),
        "a line of the event stream has more than 8 bytes (byte 8)"
    );
}

#[test]
fn an_event_has_a_cap() {
    let limits = Limits::default().with_max_event_bytes(12);
    let too_long = |offset| {
        Some(DecodeError {
            kind: DecodeErrorKind::EventTooLong(12),
            offset,
        })
    };
    // Two of them are ten bytes, each with its line end.
    let record = over_splits(&limits, b"data\ndata\n\ndata\r\ndata\r\n\r\ndata\ndata");
    assert_eq!((record.events.len(), record.error), (3, None));
    for tail in ["", "\n", "\ndata\ndata\n\n"] {
        let record = over_splits(
            &limits,
            format!("data\n\ndata\ndata\ndata{tail}").as_bytes(),
        );
        // At the end of the stream without a line end, too.
        assert_eq!(
            (record.events.len(), record.error),
            (1, too_long(20)),
            "{tail:?}"
        );
        assert_eq!((record.offset, record.boundary), (20, 6));
    }
    // Fields without effect count as well, comments do not; a blank line resets the count.
    assert_eq!(
        over_splits(&limits, b"event\nevent\nevent\n").error,
        too_long(17)
    );
    assert_eq!(
        over_splits(&limits, b"x: 1\nx: 2\nx: 3\n").error,
        too_long(14)
    );
    assert_eq!(
        over_splits(&limits, b": 345678901234567890\n:\n:\n:\n:\n:\n:\n").error,
        None
    );
    assert_eq!(
        over_splits(&limits, b"event: x\n\nevent: x\n\ndata: xxxxx\n\n").error,
        None
    );
    assert_eq!(
        too_long(9).unwrap().to_string(),
        "an event has more than 12 bytes (byte 9)"
    );
}

#[test]
fn whole_lines_are_lent() {
    let mut decoder = Decoder::new(&Limits::default());
    let input = b"event: a\nid: 1\ndata: {}\n\nevent: b\r\ndata: []\r\n\r\n";
    let mut rest = &input[..];
    for (name, data) in [("a", "{}"), ("b", "[]")] {
        let event = decoder.next_event(&mut rest).unwrap().unwrap();
        let (Cow::Borrowed(event), Cow::Borrowed(lent)) = (event.event, event.data) else {
            panic!("copied")
        };
        assert_eq!((event, lent), (name, data));
        assert!(
            input.as_ptr_range().contains(&lent.as_ptr()),
            "lent from the decoder, not from the chunk"
        );
    }
    // What is split or joined comes from the decoder's buffer, which is not copied either.
    for (part, tail) in [
        ("data: a", "b\n\n"),
        ("data: a\n", "data: b\n\n"),
        ("", "data: a\ndata: b\n\n"),
    ] {
        assert_eq!(decoder.next_event(&mut part.as_bytes()), Ok(None));
        let mut tail = tail.as_bytes();
        assert!(matches!(
            decoder.next_event(&mut tail).unwrap().unwrap().data,
            Cow::Borrowed("ab" | "a\nb")
        ));
    }
}

#[test]
fn random_bytes_agree_with_the_twin() {
    let alphabet: &[&[u8]] = &[
        b"d",
        b"a",
        b"t",
        b"a",
        b":",
        b"\r",
        b"\n",
        b" ",
        b"\xff",
        b"\xe2\x82",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\0",
        b"7",
        b"id",
        b"event",
        b"retry",
        b"data",
        b"data:",
        b"data: ",
        b"\ndata:",
        b"\rdata:",
        b"id: ",
        b"event:",
        b"retry:",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"\r\r",
        b"1\n\n",
    ];
    let (mut events, mut errors) = (0, 0);
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let soup: Vec<u8> = (0..rng.below(60))
            .flat_map(|_| rng.pick(alphabet))
            .copied()
            .collect();
        let expect = twin::decode(&soup);
        assert_tiles(&expect);
        events += expect.events.len();
        for cuts in splits(soup.len()).chain([random_cuts(soup.len(), &mut rng)]) {
            assert_eq!(
                decode(&Limits::default(), &soup, &cuts),
                expect,
                "seed {seed}, cuts {cuts:?}, {soup:?}"
            );
        }
        let tight = Limits::default()
            .with_max_line_bytes(rng.below(40))
            .with_max_event_bytes(rng.below(60));
        errors += usize::from(over_splits(&tight, &soup).error.is_some());
        fuzz_body(&soup);
    }
    println!("covered: {events} events, {errors} streams over a cap");
    assert!(
        events > 3000 && errors > 1000,
        "{events} events, {errors} errors"
    );
}

/// Whole blocks of the usual form are read in one step, which bytes that come one by one never are.
#[test]
fn whole_blocks_agree_with_the_twin() {
    let blocks: &[&[u8]] = &[
        b"data: {}\n\n",
        b"data: \n\n",
        b"data:  {}\n\n",
        b"data:{}\n\n",
        b"event: a\ndata: {}\n\n",
        b"event: \ndata: {}\n\n",
        b"event: \xff\ndata: \xff\n\n",
        b"event: a\rdata: {}\n\n",
        b"event: a\nevent: b\ndata: {}\n\n",
        b"event: a\n\n",
        b"data: a\rb\n\n",
        b"data: a\rdata: b\n\n",
        b"data: a\r\n\r\n",
        b"data: a\n\r\n",
        b"data: a\r\r\n",
        b"data: a\ndata: b\n\n",
        b"id: 7\ndata: {}\n\n",
        b": c\n\n",
        b"data: {}\n",
        b"data: {}",
    ];
    for first in blocks {
        for second in blocks {
            for third in blocks {
                let stream = [*first, *second, *third].concat();
                let whole = decode(&Limits::default(), &stream, &[]);
                assert_eq!(whole, twin::decode(&stream), "{stream:?}");
                assert_tiles(&whole);
            }
            let stream = [*first, *second, b"data: {}\n\n"].concat();
            let bytewise: Vec<_> = (1..stream.len()).collect();
            for most in 0..stream.len() {
                for limits in [
                    Limits::default().with_max_line_bytes(most),
                    Limits::default().with_max_event_bytes(most),
                ] {
                    let slow = decode(&limits, &stream, &bytewise);
                    assert_eq!(
                        decode(&limits, &stream, &[]),
                        slow,
                        "cap {most}, {stream:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn invalid_utf8_is_found_anywhere() {
    for length in [0, 1, 15, 31, 63, 64, 65, 127, 128, 200] {
        for at in 0..=length {
            for bytes in [
                &b""[..],
                "é".as_bytes(),
                "😀".as_bytes(),
                b"\xff",
                b"\xc3",
                b"\xf0\x9f\x98",
                b"\xed\xa0\x80",
            ] {
                let data = [&vec![b'a'; at], bytes, &vec![b'a'; length - at]].concat();
                let stream = [b": first\n\ndata: ", &data[..], b"\n\n"].concat();
                let record = decode(&Limits::default(), &stream, &[]);
                assert_eq!(record.events.len(), 1);
                assert_eq!(
                    record.events[0].data,
                    String::from_utf8_lossy(&data),
                    "{length}, {at}, {bytes:?}"
                );
            }
        }
    }
}

#[test]
fn encoder_writes() {
    let event = |event, id, data| {
        let mut out = b"|".to_vec();
        Encoder::event(&mut out, event, id, data);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(event(None, None, "{}"), "|data: {}\n\n");
    assert_eq!(
        event(Some("a"), Some("1"), " x"),
        "|event: a\nid: 1\ndata:  x\n\n"
    );
    assert_eq!(event(None, Some(""), ""), "|id: \ndata: \n\n");
    assert_eq!(
        event(None, None, "a\nb\r\nc\rd"),
        "|data: a\ndata: b\ndata: c\ndata: d\n\n"
    );
    assert_eq!(
        event(None, None, "\n\r\r\n\n"),
        "|data: \ndata: \ndata: \ndata: \ndata: \n\n"
    );
    // No text becomes a field of its own.
    assert_eq!(
        event(Some("a\ndata: x"), Some("1\rdata: x"), "y"),
        "|data: y\n\n"
    );
    assert_eq!(event(Some("\r\n"), Some("1\0"), "y"), "|data: y\n\n");
    let mut out = Vec::new();
    Encoder::comment(&mut out, "a\ndata: x\r\n\nb");
    assert_eq!(out, b": a\n: data: x\n: \n: b\n\n");
}

#[test]
fn standard_cases() {
    let mut count = 0;
    for (_, case) in corpus_rows("sse_cases.jsonl") {
        let name = case["name"].as_str().unwrap();
        let input = match case["input"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => base64(case["input_b64"].as_str().unwrap()),
        };
        let record = over_splits(&Limits::default(), &input);
        // The standard drops an unterminated event.
        let events: Vec<_> = record
            .events
            .iter()
            .filter(|event| event.terminated)
            .collect();
        let expect = case["expected"].as_array().unwrap();
        assert_eq!(events.len(), expect.len(), "{name}: {events:?}");
        for (event, expect) in events.iter().zip(expect) {
            let expect = ["event", "data", "id"].map(|key| expect[key].as_str().unwrap());
            assert_eq!(
                [event.event.as_str(), &event.data, &event.id],
                expect,
                "{name}"
            );
        }
        assert_eq!(record.retry, case["retry"].as_u64(), "{name}");
        assert_eq!(record.error, None, "{name}");
        assert_eq!(record, twin::decode(&input), "{name}");
        count += 1;
    }
    println!("covered: {count} cases of sse_cases.jsonl");
    assert!(count >= at_least(20, 83));
}

#[test]
fn recorded_streams() {
    let (mut files, mut events) = (0, 0);
    for (folder, row) in corpus_rows("streams/index.jsonl") {
        let file = row["file"].as_str().unwrap();
        if !file.ends_with(".sse") {
            continue;
        }
        let input = fs::read(folder.join(file)).unwrap();
        let record = decode(&Limits::default(), &input, &[]);
        assert_eq!(record, twin::decode(&input), "{file}");
        assert_tiles(&record);
        let strict = record
            .events
            .iter()
            .filter(|event| event.terminated)
            .count();
        assert_eq!(
            Some(record.events.len() as u64),
            row["n_events"].as_u64(),
            "{file}"
        );
        assert_eq!(
            Some(strict as u64),
            row["n_events_strict"].as_u64(),
            "{file}"
        );
        let mut rng = Rng::new(input.len() as u64);
        let bytewise = (1..input.len()).collect();
        for cuts in
            std::iter::once(bytewise).chain((0..8).map(|_| random_cuts(input.len(), &mut rng)))
        {
            assert!(
                decode(&Limits::default(), &input, &cuts) == record,
                "{file}: {} cuts",
                cuts.len()
            );
        }
        files += 1;
        events += record.events.len();
    }
    println!("covered: {files} recorded streams with {events} events");
    assert!(files >= at_least(10, 300));
}
