//! Errors of the live adapters: what they say, where they come, and what comes before them.

use super::*;

/// A text that ends with a lost connection.
fn lost(text: &'static str) -> Source<Result<&'static str, Lost>> {
    Source::of([Ok(text), Err(Lost), Ok("never read")])
}

#[test]
fn what_was_read_before_an_error_comes_before_it() {
    let text = "[[1], [2], [3, ";
    let error = "! the stream failed: connection lost";
    assert_eq!(
        lines(lost(text).completed::<Vec<u8>>("/*")),
        ["[1]", "[2]", error]
    );
    assert_eq!(
        lines(lost(text).snapshots::<Vec<Vec<u8>>>()),
        ["[[1], [2], [3]]", error]
    );
    let events = lines(lost(text).events());
    assert_eq!(
        (events.len(), events[9].as_str()),
        (10, error),
        "{events:?}"
    );
    let mut whole = lost(text).into_final::<Vec<Vec<u8>>>();
    assert!(matches!(root(&mut whole), Err(LiveError::Stream(Lost))));
    assert_eq!(
        (whole.document().text(), whole.document().pending()),
        ("[[1], [2], [3", ", ")
    );

    // After the root the stream is not polled, so it cannot fail.
    assert_eq!(lines(lost("[[1]]").completed::<Vec<u8>>("/*")), ["[1]"]);
    assert_eq!(
        wait(lost("[[1]]").into_final::<Vec<Vec<u8>>>()).unwrap(),
        [[1]]
    );
    // Unless more roots may follow.
    assert_eq!(
        lines(
            lost("[[1]]")
                .completed::<Vec<u8>>("/*")
                .trailing(Trailing::Next)
        ),
        ["[1]", error]
    );
}

#[test]
fn a_stream_that_ends_early_says_where() {
    for (text, path, said) in [
        ("", "", "the stream ended before any JSON (byte 0)"),
        (
            "I'm sorry.",
            "",
            "the stream ended before any JSON (byte 10)",
        ),
        ("[", "/0", "the stream ended at /0 (byte 1)"),
        ("{", "", "the stream ended inside the root (byte 1)"),
        (
            "{\"a\": [1, {\"b~\": \"c",
            "/a/1/b~0",
            "the stream ended at /a/1/b~0 (byte 19)",
        ),
    ] {
        let mut events = Source::of([text]).events();
        let Some(Err(error)) = all(&mut events).pop() else {
            panic!("{text} is not whole")
        };
        assert_eq!(error.to_string(), said);
        assert_eq!(
            (error.path(), error.offset()),
            (Some(path), Some(text.len()))
        );
        let LiveError::Truncated(cut) = error else {
            panic!("{error} is not about the end")
        };
        assert_eq!(cut, events.document().cut());
        assert!(matches!(
            root(Source::of([text]).into_final::<serde_json::Value>()),
            Err(LiveError::Truncated(_))
        ));
        assert!(matches!(
            all(&mut Source::of([text]).snapshots::<Report>()).pop(),
            Some(Err(LiveError::Truncated(_)))
        ));
    }
}

#[test]
fn wherever_a_stream_ends_the_whole_elements_come_first() {
    let text = REPORT.trim();
    let ends = [
        text.find("}, {").unwrap() + 1,
        text.find("}], \"").unwrap() + 1,
    ];
    for cut in 0..text.len() {
        let pieces = [&text.as_bytes()[..cut]];
        let mut found = all(&mut Source::of(pieces).completed::<Section>("/sections/*"));
        let Some(Err(LiveError::Truncated(place))) = found.pop() else {
            panic!("{cut}: {found:?}")
        };
        // Half a character is not text.
        assert_eq!(
            place.offset,
            (0..=cut)
                .rev()
                .find(|&at| text.is_char_boundary(at))
                .unwrap()
        );
        let expected = ends.iter().filter(|&&end| end <= cut).count();
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, sections()[..expected], "{cut}");
    }
}

#[test]
fn malformed_text_is_an_error_with_its_place() {
    for cuts in splits(17) {
        let text = "{\"a\": [1,\n 2, x]}";
        let mut found =
            all(&mut Source::of(chunks(text.as_bytes(), &cuts)).completed::<u8>("/a/*"));
        let error = found.pop().unwrap().unwrap_err();
        assert_eq!(
            found.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
            [1, 2]
        );
        assert!(
            error
                .to_string()
                .starts_with("unexpected `x`, line 2, column 5 (byte 14), at /a/2: ` 2, →x"),
            "{error}"
        );
        assert_eq!((error.path(), error.offset()), (Some("/a/2"), Some(14)));
        assert!(error.source().is_none());
        assert!(matches!(error, LiveError::Syntax { .. }));
    }
    let deep = lines(Source::of(["[[", "[1]]]"]).completed::<u8>("/*/*").depth(2));
    assert_eq!(
        deep,
        [
            "! more open containers than the limit `max_depth`, 2, line 1, column 3 (byte 2), at /0/0: `[[→[1]]]`"
        ]
    );
}

#[test]
fn bytes_that_are_not_utf8_are_an_error_with_their_offset() {
    for (bytes, found, offset) in [
        (b"[1, 2, \"a\xffb\"]".as_slice(), vec![1, 2], 9),
        (b"[1, \"\xc3\xa9\xe2\x82\"]", vec![1], 7),
        (b"\x80", vec![], 0),
    ] {
        for cuts in splits(bytes.len()) {
            let mut items = all(&mut Source::of(chunks(bytes, &cuts)).completed::<u8>("/*"));
            let error = items.pop().unwrap().unwrap_err();
            assert!(
                matches!(error, LiveError::Encoding { offset: at } if at == offset),
                "{error} {cuts:?}"
            );
            assert_eq!(
                items.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
                found
            );
        }
    }
    // Bytes after the root are not read.
    assert_eq!(lines(Source::of([b"[1]\xff"]).completed::<u8>("/*")), ["1"]);
    // Where more roots may follow, half a character is an error.
    assert_eq!(
        lines(
            Source::of([b"[1]\xe2"])
                .completed::<u8>("/*")
                .trailing(Trailing::Next)
        ),
        ["1", "! not UTF-8 (byte 3)"]
    );
}

#[test]
fn an_invalid_pattern_is_the_only_item() {
    let source = Source::of(["[1]"]);
    let polls = Arc::clone(&source.polls);
    let mut found = all(&mut source.completed::<u8>("no slash"));
    assert!(matches!(found.pop(), Some(Err(LiveError::Pattern(_)))) && found.is_empty());
    assert_eq!(polls.load(Ordering::SeqCst), 0);
}

#[test]
fn errors_say_what_they_are_about() {
    let error = |source: Source<Result<&'static str, Lost>>| {
        all(&mut source.completed::<u8>("/*"))
            .into_iter()
            .find_map(Result::err)
            .unwrap()
    };
    let stream = error(lost("["));
    assert_eq!((stream.path(), stream.offset()), (None, None));
    let type_ = error(Source::of([Ok("[true]")]));
    assert_eq!((type_.path(), type_.offset()), (Some("/0"), None));
}

/// The text may be deeper than the limit of a type.
#[test]
fn a_type_is_read_to_the_depth_of_serde() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    for (depth, fits) in [(127, true), (128, false)] {
        let text = nested(depth);
        let found =
            all(&mut Source::of([format!("[{text}]")]).completed::<serde_json::Value>("/*"));
        let whole = root(Source::of([text]).into_final::<serde_json::Value>());
        for result in [found.into_iter().next().unwrap(), whole] {
            assert_eq!(result.is_ok(), fits, "{depth}");
            assert!(fits || matches!(result, Err(LiveError::Type(_))), "{depth}");
        }
        // Values that the type ignores may have any depth.
        assert!(wait(Source::of([nested(500)]).into_final::<serde::de::IgnoredAny>()).is_ok());
    }
    for (depth, fits) in [(128, true), (129, false)] {
        let mut seen = all(&mut Source::of([nested(depth)]).snapshots::<serde_json::Value>());
        assert_eq!(seen.pop().unwrap().is_ok(), fits, "{depth}");
    }
}

/// Returns an error and its sources, as they are printed.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |&error| error.source())
        .fold(error.to_string(), |said, error| format!("{said}: {error}"))
}

#[test]
fn a_chain_of_errors_repeats_nothing() {
    let of = |text: &'static str, pattern| {
        let mut items = all(&mut Source::of([text]).completed::<u8>(pattern));
        chain(&items.pop().unwrap().unwrap_err())
    };
    assert_eq!(
        of("[x", "/*"),
        "unexpected `x`, line 1, column 2 (byte 1), at /0: `[→x`"
    );
    assert_eq!(of("[1", "/*"), "the stream ended at /0 (byte 2)");
    assert_eq!(
        of("[]", "a"),
        "pattern \"a\": must be empty or start with `/` (byte 0)"
    );
    assert_eq!(
        of("[true]", "/*"),
        "/0: invalid type: boolean `true`, expected u8 at line 1 column 4"
    );
    let mut items = all(&mut Source::of([b"\xff"]).events());
    assert_eq!(
        chain(&items.pop().unwrap().unwrap_err()),
        "not UTF-8 (byte 0)"
    );
    let mut items = all(&mut Source::of(["[true]"]).snapshots::<Vec<u8>>());
    let error = items.pop().unwrap().unwrap_err();
    assert_eq!(
        chain(&error),
        "invalid type: boolean `true`, expected u8 (at /0)"
    );
    let LiveError::Type(error) = error else {
        panic!("{error} is not about a type")
    };
    assert_eq!(
        chain(&error),
        "invalid type: boolean `true`, expected u8 (at /0)"
    );

    // The sources of the stream's own error are kept.
    #[derive(Debug)]
    struct Outer(Lost);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no answer")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let mut items = all(&mut Source::of([Ok("["), Err(Outer(Lost))]).completed::<u8>("/*"));
    assert_eq!(
        chain(&items.pop().unwrap().unwrap_err()),
        "the stream failed: no answer: connection lost"
    );
}
