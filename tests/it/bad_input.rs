//! Input that no model should send: each is refused with its offset, or taken; nothing before it is
//! lost.

use restitch::AllowedRoots;
use restitch::internal::json::Machine;
use restitch::json::{CloseOptions, CutState, Event, ParserView};
use restitch::{Document, SyntaxErrorKind, Trailing};

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
