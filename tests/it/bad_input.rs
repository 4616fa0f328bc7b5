//! Input that no model should send: each is refused with its offset, or taken; nothing before it is
//! lost.

use restitch::AllowedRoots;
use restitch::internal::json::{Machine, string};
use restitch::json::{CloseOptions, CutState, Event, ParserView};
use restitch::{Document, SyntaxError, SyntaxErrorKind, Trailing};

use crate::reference::{Log, Told};
use restitch_testing::{chunks, splits};

fn told(name: &'static str, span: (usize, usize), path: &str) -> Told {
    Told {
        name,
        span,
        path: path.to_owned(),
    }
}

#[test]
fn bytes_that_are_no_utf_8() {
    let cases: [(&[u8], usize, u8, &str); 6] = [
        (b"[\"ab\xff", 4, 0xff, "[\"ab\"]"),
        (b"[\"ab\xc3(", 5, b'(', "[\"ab\"]"),
        (
            b"{\"k\": \"\xf0\x9f\x98\x80\xf0\x9f\x98\"",
            14,
            b'"',
            "{\"k\": \"\u{1f600}\"}",
        ),
        (b"[\"\xc3\xa9\xed\xa0\x80", 5, 0xa0, "[\"\u{e9}\"]"),
        (b"[1, \"\\ud83d\xc0", 11, 0xc0, "[1, \"\"]"),
        (b"[[1], [\"\x80", 8, 0x80, "[[1], [\"\"]]"),
    ];
    for (bytes, offset, byte, complete) in cases {
        for cuts in splits(bytes.len()) {
            let mut machine = Machine::new(16);
            let result = chunks(bytes, &cuts)
                .into_iter()
                .try_for_each(|chunk| machine.feed(chunk).map(|_| ()));
            let expect = SyntaxError {
                kind: SyntaxErrorKind::InvalidUtf8(byte),
                offset,
            };
            assert_eq!(
                (result, machine.offset()),
                (Err(expect), offset),
                "{}",
                bytes.escape_ascii()
            );
            let mut suffix = String::new();
            let end = machine
                .close_into(CloseOptions::default(), &mut suffix)
                .unwrap();
            let part = [&bytes[..end], suffix.as_bytes()].concat();
            assert_eq!(String::from_utf8(part).unwrap(), complete);
        }
    }
    // Outside a string no such byte is due in the first place.
    let error = Machine::new(16).feed(b"[1, \xff").unwrap_err();
    assert_eq!(
        error,
        SyntaxError {
            kind: SyntaxErrorKind::UnexpectedByte(0xff),
            offset: 4
        }
    );
    assert_eq!(error.to_string(), "unexpected `\\xff` (byte 4)");
}

#[test]
fn nul_bytes() {
    use SyntaxErrorKind as Kind;
    let begin = told("begin", (0, 1), "");
    let cases = [
        (
            "[\"a\0b\"]",
            3,
            Kind::ControlCharacter(0),
            vec![
                begin.clone(),
                told("string_begin", (1, 2), "/0"),
                told("fragment", (2, 3), "/0"),
            ],
        ),
        (
            "{\"\0\": 1}",
            2,
            Kind::ControlCharacter(0),
            vec![begin.clone()],
        ),
        ("[12\0]", 3, Kind::InvalidNumber(0), vec![begin.clone()]),
        ("[tr\0", 3, Kind::InvalidLiteral(0), vec![begin.clone()]),
        (
            "[\"\\\0",
            3,
            Kind::InvalidEscape(0),
            vec![begin.clone(), told("string_begin", (1, 2), "/0")],
        ),
        (
            "[]\0",
            2,
            Kind::TrailingText(0),
            vec![begin.clone(), told("end", (0, 2), "")],
        ),
        ("[\0]", 1, Kind::UnexpectedByte(0), vec![begin]),
    ];
    for (text, offset, kind, expect) in cases {
        for cuts in splits(text.len()) {
            let mut document = Document::with_options(
                16,
                restitch::AllowedRoots::Containers,
                restitch::Trailing::Error,
            );
            let mut log = Log::default();
            let pieces = chunks(text.as_bytes(), &cuts);
            let result = pieces.into_iter().try_for_each(|piece| {
                document.push_with(std::str::from_utf8(piece).unwrap(), &mut log)
            });
            assert_eq!(
                result,
                Err(SyntaxError { kind, offset }),
                "{text:?} cut at {cuts:?}"
            );
            assert_eq!(
                (&log.0, document.text()),
                (&expect, &text[..offset]),
                "{text:?} cut at {cuts:?}"
            );
        }
    }
    // An escape for it is text like any other.
    let mut document = Document::new(16);
    document.push("[\"\\u0000\"]").unwrap();
    assert_eq!(document.complete().as_deref(), Some("[\"\\u0000\"]"));
}

#[test]
fn a_million_brackets() {
    let deep = "[".repeat(1_000_000);
    let mut document = Document::new(restitch::Limits::default().parser.max_depth);
    let error = document.push(&deep).unwrap_err();
    assert_eq!(
        (error.kind, error.offset),
        (SyntaxErrorKind::TooDeep(1024), 1024)
    );
    assert_eq!(
        error.to_string(),
        "more open containers than the limit `max_depth`, 1024 (byte 1024)"
    );
    assert_eq!(
        (document.text().len(), document.machine().frames().len()),
        (1024, 1024)
    );
    assert_eq!(
        document.complete().unwrap(),
        format!("{}{}", "[".repeat(1024), "]".repeat(1024))
    );

    let mut document = Document::new(1_000_000);
    for piece in deep.as_bytes().chunks(4999) {
        document.push(std::str::from_utf8(piece).unwrap()).unwrap();
    }
    assert_eq!(
        document.push("[").unwrap_err().kind,
        SyntaxErrorKind::TooDeep(1_000_000)
    );
    assert_eq!(document.path().len(), 1_000_000);
    assert_eq!(document.cut().path, "/0".repeat(1_000_000));
    let closers = "]".repeat(1_000_000);
    assert_eq!(document.complete().unwrap(), format!("{deep}{closers}"));
    assert_eq!(document.completion().suffix, closers);
    document.push(&closers).unwrap();
    assert_eq!(document.root_end(), Some(2_000_000));
}

#[test]
fn pushes_of_nothing() {
    let text = "Here:\n```json\n{\"a\": [\"\\ud83d\\ude00é\", -1.5e3, true]}\n```\n";
    let (mut plain, mut log) = (Document::new(16), Log::default());
    plain.push_with(text, &mut log).unwrap();
    let (mut document, mut again) = (Document::new(16), Log::default());
    for c in text.chars() {
        for piece in ["", c.encode_utf8(&mut [0; 4]), "", ""] {
            let told = again.0.len();
            document.push_with(piece, &mut again).unwrap();
            assert!(
                !piece.is_empty() || again.0.len() == told,
                "nothing tells nothing"
            );
        }
    }
    assert_eq!((again, document.text()), (log, plain.text()));
    let mut machine = Machine::new(16);
    assert_eq!(
        (machine.feed(b""), machine.offset(), machine.is_done()),
        (Ok(0), 0, false)
    );
    machine.feed(b"[]").unwrap();
    assert_eq!((machine.feed(b""), machine.feed(b"x")), (Ok(0), Ok(0)));
}

/// What is refused in the end takes nothing of the string along.
#[test]
fn one_long_string_byte_by_byte() {
    let pieces = [
        "plain text, ",
        "\\n",
        "\\ud83d\\ude00",
        "é",
        "😀",
        "\\\\",
        "\\u0041",
    ];
    let body: String = pieces.iter().cycle().take(7 * 4000).copied().collect();
    let (mut document, mut log, mut said) = (Document::new(16), Log::default(), String::new());
    let text = format!("{{\"long\": \"{body}");
    for c in text.chars() {
        let mut sink = (
            &mut log,
            restitch::internal::json::each(|event, live| {
                if let restitch::json::Event::Fragment(span) = event {
                    said.push_str(&live.decoded(span));
                }
            }),
        );
        document
            .push_with(c.encode_utf8(&mut [0; 4]), &mut sink)
            .unwrap();
    }
    let error = document.push("\n\"}").unwrap_err();
    assert_eq!(
        (error.kind, error.offset),
        (SyntaxErrorKind::ControlCharacter(b'\n'), text.len())
    );
    assert_eq!(document.text(), text);
    let expect = [
        told("begin", (0, 1), ""),
        told("key", (2, 6), "/long"),
        told("string_begin", (9, 10), "/long"),
        told("fragment", (10, text.len()), "/long"),
    ];
    assert_eq!(log.0, expect);
    assert_eq!(said, string::decode(&body));
    assert_eq!(said, "plain text, \n😀é😀\\A".repeat(4000));
    assert_eq!(document.complete().unwrap(), format!("{text}\"}}"));
}

/// What a live log of a gibibyte needs, without the memory: one chunk, again and again.
#[test]
fn a_string_of_a_gibibyte() {
    let chunk = vec![b'a'; 1 << 20];
    let mut machine = Machine::new(8);
    machine.feed(b"[\"").unwrap();
    for _ in 0..1024 {
        assert_eq!(machine.feed(&chunk), Ok(chunk.len()));
    }
    assert_eq!(
        (machine.offset(), machine.cut_state()),
        (2 + (1 << 30), CutState::String)
    );
    let error = machine.feed(b"a\0").unwrap_err();
    assert_eq!(
        (error.kind, error.offset),
        (SyntaxErrorKind::ControlCharacter(0), 3 + (1 << 30))
    );
    assert_eq!(machine.feed(b"\"]"), Ok(2));
    assert!(machine.is_done());
}

#[cfg(target_pointer_width = "64")]
#[test]
fn offsets_beyond_four_gibibytes() {
    let start = 5 << 30;
    let mut machine = Machine::starting_at(start, 8);
    machine.feed(br#"{"key": [10, "te"#).unwrap();
    let [root, list] = machine.frames() else {
        panic!("two are open")
    };
    assert_eq!(
        (root.start, root.key.start, root.key.end),
        (start, start + 2, start + 5)
    );
    assert_eq!(
        (list.start, list.count, list.end),
        (start + 8, 1, start + 11)
    );
    assert_eq!(machine.token_start(), start + 13);
    let mut suffix = String::new();
    assert_eq!(
        machine.close_into(CloseOptions::default(), &mut suffix),
        Some(start + 16)
    );
    assert_eq!(suffix, "\"]}");
    assert_eq!(machine.feed(b"\x01").unwrap_err().offset, start + 16);
}

#[test]
fn what_finish_ended_stays_ended() {
    let told = |document: &Document| {
        let mut spans = Vec::new();
        document.replay(&mut restitch::internal::json::each(
            |event: Event, _: &ParserView<'_>| {
                spans.push((event.span().start, event.span().end));
            },
        ));
        spans
    };
    let mut document = Document::with_options(8, AllowedRoots::Any, Trailing::Next);
    // Nothing is due yet.
    assert_eq!(document.finish(), Ok(()));
    for (n, digit) in ["1", "2", "3"].into_iter().enumerate() {
        document.push(digit).unwrap();
        assert_eq!(document.finish(), Ok(()));
        assert_eq!((document.roots(), document.root()), (n + 1, Some(digit)));
    }
    assert_eq!(told(&document), [(0, 1), (1, 2), (2, 3)]);

    // So does what a refused byte ended.
    let mut document = Document::with_options(8, AllowedRoots::Any, Trailing::Next);
    assert_eq!(document.push("1.5]").unwrap_err().offset, 3);
    document.push("2 ").unwrap();
    assert_eq!(
        (document.roots(), told(&document)),
        (2, vec![(0, 3), (3, 4)])
    );

    // By default the root has ended, and what follows is not looked at.
    let mut document = Document::with_roots(8, AllowedRoots::Any);
    document.push("1").unwrap();
    let open = document.checkpoint();
    document.finish().unwrap();
    document.push("23").unwrap();
    assert_eq!(
        (document.root(), told(&document)),
        (Some("1"), vec![(0, 1)])
    );
    assert!(document.restore(&open));
    document.push("23 ").unwrap();
    assert_eq!(
        (document.root(), told(&document)),
        (Some("123"), vec![(0, 3)])
    );
}

#[test]
fn an_error_of_the_past_keeps_its_place() {
    let mut document = Document::new(8);
    let error = document.push("[1,\n x").unwrap_err();
    assert_eq!(
        document.explain(&error).to_string(),
        "line 2, column 2 (byte 5), at /1: ` →x`"
    );
    document.push("2, \"three\"").unwrap();
    let place = document.explain(&error);
    assert_eq!(
        (place.line, place.column, place.excerpt.as_str()),
        (2, 2, " →2, \"three\"")
    );
}

/// A checkpoint and a restore at each of many lengths: each costs the same, however many there
/// were.
#[test]
fn many_checkpoints() {
    let mut document = Document::new(8);
    document.push("[\"").unwrap();
    let first = document.checkpoint();
    for _ in 0..200_000 {
        document.push("a").unwrap();
        let checkpoint = document.checkpoint();
        document.push("b").unwrap();
        assert!(document.restore(&checkpoint));
    }
    assert_eq!(document.text().len(), 200_002);
    assert!(document.restore(&first));
    assert_eq!(document.text(), "[\"");
}
