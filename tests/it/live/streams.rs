//! Streams of the live adapters: their items, how they are polled, and several roots in one stream.

use std::collections::BTreeMap;

use restitch::repair::RepairLevel;

use super::*;

#[test]
fn items_may_be_text_or_bytes_bare_or_results() {
    fn check<P: restitch::live::Piece<Error: Display> + Unpin>(pieces: [P; 2]) {
        assert_eq!(
            lines(Source::of(pieces).completed::<String>("/*")),
            ["\"ä\"", "\"b\""]
        );
    }
    const A: &str = "[\"ä\", ";
    const B: &str = "\"b\"]";
    check([A, B]);
    check([A, B].map(str::to_owned));
    check([A, B].map(str::as_bytes));
    check([A, B].map(Vec::from));
    check([A, B].map(Bytes::from));
    check([A, B].map(Ok::<_, Lost>));
    check([A, B].map(|text| Ok::<_, Lost>(text.to_owned())));
    check([A, B].map(|text| Ok::<_, Lost>(text.as_bytes())));
    check([A, B].map(|text| Ok::<_, Lost>(Vec::from(text))));
    check([A, B].map(|text| Ok::<_, Lost>(Bytes::from(text))));

    struct Delta {
        content: Option<&'static str>,
    }
    impl AsText for Delta {
        fn as_text(&self) -> Text<'_> {
            Text::Str(self.content.unwrap_or_default())
        }
    }
    check([
        Delta { content: None },
        Delta {
            content: Some("[\"ä\", \"b\"]"),
        },
    ]);
}

/// The stream is polled when its reader polls, and only when all items were read.
#[test]
fn a_slow_reader_slows_the_stream() {
    let source = || {
        let source = Source::new([
            Some("[1, 2, 3, "),
            None,
            Some("4, "),
            Some(" "),
            Some("5]"),
            Some("never read"),
        ]);
        (Arc::clone(&source.polls), source)
    };
    let (polls, source_) = source();
    let mut found = source_.completed::<u8>("/*");
    assert_eq!(polls.load(Ordering::SeqCst), 0);
    let mut seen = Vec::new();
    loop {
        let item = poll(&mut found);
        seen.push((
            item.map(|item| item.map(Result::unwrap)),
            polls.load(Ordering::SeqCst),
        ));
        if seen.last().unwrap().0 == Poll::Ready(None) {
            break;
        }
    }
    let ready = |value| Poll::Ready(Some(value));
    assert_eq!(
        seen,
        [
            (ready(1), 1),
            (ready(2), 1),
            (ready(3), 1),
            (Poll::Pending, 2),
            (ready(4), 3),
            // White space gives no item, so the next piece is read.
            (ready(5), 5),
            (Poll::Ready(None), 5),
        ]
    );
    assert_eq!(
        poll(&mut found.into_inner()),
        Poll::Ready(Some("never read"))
    );

    let (polls, source) = source();
    let mut shown = source.snapshots::<Vec<u8>>();
    assert_eq!(
        poll(&mut shown).map(|item| item.unwrap().unwrap()),
        Poll::Ready(vec![1, 2, 3])
    );
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    assert_eq!(poll(&mut shown).map(|item| item.is_some()), Poll::Pending);
    assert_eq!(polls.load(Ordering::SeqCst), 2);
}

/// A `next()` that is dropped while it waits loses nothing: no text, no half of a character, no
/// item.
#[test]
fn polls_can_be_abandoned() {
    fn patient<S: LiveExt>(stream: S) -> (Vec<Section>, usize) {
        let mut found = stream.completed::<Section>("/sections/*");
        let (mut seen, mut dropped) = (Vec::new(), 0);
        loop {
            let mut next = pin!(found.next());
            match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => dropped += 1,
                Poll::Ready(Some(Ok(item))) => seen.push(item),
                Poll::Ready(Some(Err(_))) => panic!("an error"),
                Poll::Ready(None) => return (seen, dropped),
            }
        }
    }
    let pieces: Vec<_> = REPORT.trim().as_bytes().chunks(1).collect();
    let (seen, dropped) = patient(Source::new(
        pieces.iter().flat_map(|piece| [None, Some(*piece)]),
    ));
    assert_eq!(
        (seen.as_slice(), dropped),
        (sections().as_slice(), pieces.len())
    );
}

#[test]
fn a_future_can_be_polled_by_reference_and_resolves_once() {
    let mut whole = Source::new([Some("[1"), None, Some("]")]).into_final::<Vec<u8>>();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut whole).poll(cx).is_pending());
    assert_eq!(whole.document().complete().as_deref(), Some("[]"));
    assert!(matches!(Pin::new(&mut whole).poll(cx), Poll::Ready(Ok(list)) if list == [1]));
    assert!(Pin::new(&mut whole).poll(cx).is_pending());
    assert!(
        matches!(root(Source::of(["[1]"]).into_final::<Report>()), Err(LiveError::Type(error)) if error.path().is_empty())
    );
}

#[test]
fn several_roots_one_after_the_other() {
    let text = "{\"n\": 1}\n{\"n\": 2}{\"n\": 3, \"o\": \"é\"}\n";
    for cuts in splits(text.len()) {
        let pieces = || Source::of(chunks(text.as_bytes(), &cuts));
        assert_eq!(
            lines(pieces().completed::<u8>("/n").trailing(Trailing::Next)),
            ["1", "2", "3"]
        );
        let events = all(&mut pieces().events().trailing(Trailing::Next));
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        // Spans count from the start of the stream, also after roots that were dropped.
        assert!(
            events
                .iter()
                .filter(|event| event.event.name() == "number")
                .all(|event| { event.event.span().of(text) == event.text })
        );
        let numbers = events
            .into_iter()
            .filter(|event| event.event.name() == "number");
        let numbers: Vec<_> = numbers.map(|event| (event.root, event.text)).collect();
        assert_eq!(numbers, [(0, "1".into()), (1, "2".into()), (2, "3".into())]);
        // The last state of each root is returned, even where its last byte and the first byte of
        // the next root come together.
        #[derive(Debug, Deserialize)]
        struct Row {
            n: u8,
        }
        let shown = all(&mut pieces().snapshots::<Row>().trailing(Trailing::Next));
        let mut shown: Vec<_> = shown.into_iter().map(|row| row.unwrap().n).collect();
        shown.dedup();
        assert_eq!(shown, [1, 2, 3], "{cuts:?}");
        assert_eq!(
            wait(pieces().into_final::<Row>().trailing(Trailing::Next))
                .unwrap()
                .n,
            3
        );
    }
    // No root is as good as several.
    assert!(lines(Source::of([" \n"]).events().trailing(Trailing::Next)).is_empty());
    let none = root(
        Source::of([" \n"])
            .into_final::<u8>()
            .trailing(Trailing::Next),
    );
    assert!(matches!(none, Err(LiveError::Truncated(_))));
    // Half a root is not.
    let half = lines(
        Source::of(["[1] [2"])
            .completed::<u8>("/*")
            .trailing(Trailing::Next),
    );
    assert_eq!(half, ["1", "! the stream ended at /0 (byte 6)"]);
}

/// Rows of NDJSON of the same length, made when they are read.
struct Rows(std::ops::Range<usize>);

impl Stream for Rows {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<String>> {
        Poll::Ready(
            self.0
                .next()
                .map(|n| format!("{{\"n\": {}, \"text\": \"a row of text\"}}\n", 100_000 + n)),
        )
    }
}

/// A stream of any number of roots needs the memory of one.
#[test]
fn memory_does_not_grow_with_the_roots() {
    #[derive(Deserialize)]
    struct Row {
        n: usize,
    }
    let last = |count| {
        let rows = || Rows(0..count);
        let mut events = rows().events().trailing(Trailing::Next);
        while let Poll::Ready(Some(event)) = poll(&mut events) {
            assert!(event.unwrap().root < count);
            assert!(events.document().text().len() < 100 && events.document().roots() <= count);
        }
        let mut found = rows().completed::<Row>("").trailing(Trailing::Next);
        let mut shown = rows().snapshots::<Row>().trailing(Trailing::Next);
        for n in 100_000..100_000 + count {
            assert!(matches!(poll(&mut found), Poll::Ready(Some(Ok(row))) if row.n == n));
            assert!(matches!(poll(&mut shown), Poll::Ready(Some(Ok(row))) if row.n == n));
        }
        assert_eq!(
            wait(rows().into_final::<Row>().trailing(Trailing::Next))
                .unwrap()
                .n,
            100_000 + count - 1
        );
    };
    let most = [100, 10_000].map(|count| allocation_counter::measure(|| last(count)).bytes_max);
    assert_eq!(most[0], most[1]);
}

/// Places in errors count from the start of the stream.
#[test]
fn places_count_from_the_start_of_the_stream() {
    let next = |text: &'static str| {
        let found = Source::of([text])
            .completed::<u8>("/*")
            .trailing(Trailing::Next);
        lines(found.repair(RepairLevel::Strict))
    };
    let place = "! unexpected `]`, line 3, column 4 (byte 12), at /1: `[3,→]`";
    assert_eq!(next("[1]\n [2]\n[3,]\n")[..], ["1", "2", "3", place]);
    let text = "[1]\n [2]\n[3, ";
    let mut found = Source::of(text.as_bytes().chunks(3))
        .completed::<u8>("/*")
        .trailing(Trailing::Next);
    let Some(Err(error)) = all(&mut found).pop() else {
        panic!("it is cut")
    };
    assert_eq!(
        (error.offset(), error.path()),
        (Some(text.len()), Some("/1"))
    );
    assert_eq!(
        lines(
            Source::of([b"[1]\n[2]\xff"])
                .completed::<u8>("/*")
                .trailing(Trailing::Next)
        )[2],
        "! not UTF-8 (byte 7)"
    );
}

#[test]
fn events_are_printed_and_serialized() {
    let events = all(&mut Source::of(["{\"a\": [1, \"t\\n\"]} [null]"])
        .events()
        .trailing(Trailing::Next));
    let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
    let printed: Vec<_> = events.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed[..5],
        [
            "begin ",
            "key /a a",
            "begin /a",
            "number /a/0 1",
            "string_begin /a/1"
        ]
    );
    let written: Vec<_> = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .collect();
    assert_eq!(
        written[0],
        r#"{"event":"begin","path":"","start":0,"end":1,"kind":"object"}"#
    );
    assert_eq!(
        written[1],
        r#"{"event":"key","path":"/a","start":2,"end":3,"value":"a"}"#
    );
    assert_eq!(
        written[3],
        r#"{"event":"number","path":"/a/0","start":7,"end":8,"text":"1"}"#
    );
    assert_eq!(
        written[5],
        r#"{"event":"fragment","path":"/a/1","start":11,"end":14,"value":"t\n"}"#
    );
    assert_eq!(
        written[10],
        r#"{"event":"null","path":"/0","start":19,"end":23,"text":"null","root":1}"#
    );
}

#[test]
fn any_root_and_text_after_it() {
    let any = |text| {
        lines(
            Source::of([text])
                .completed::<serde_json::Value>("")
                .roots(AllowedRoots::Any),
        )
    };
    assert_eq!(any("12"), ["Number(12)"]);
    assert_eq!(any("\"a\" b"), ["String(\"a\")"]);
    assert_eq!(
        wait(
            Source::of(["1", "2"])
                .into_final::<u8>()
                .roots(AllowedRoots::Any)
        )
        .unwrap(),
        12
    );
    assert_eq!(
        lines(
            Source::of(["tr", "ue"])
                .snapshots::<bool>()
                .roots(AllowedRoots::Any)
        ),
        ["true"]
    );

    let strict = |text| {
        lines(
            Source::of([text])
                .completed::<u8>("/*")
                .trailing(Trailing::Error),
        )
    };
    assert_eq!(strict("[1] \n"), ["1"]);
    assert_eq!(
        strict("[1] x"),
        [
            "1",
            "! text after the root, at `x`, line 1, column 5 (byte 4): `[1] →x`"
        ]
    );
    let whole = root(
        Source::of(["[1]", "[2]"])
            .into_final::<Vec<u8>>()
            .trailing(Trailing::Error),
    );
    assert!(matches!(whole, Err(LiveError::Syntax { .. })));

    // What models write around JSON.
    let fenced = "Here you are:\n```json\n[1, 2]\n```\nAnything else?";
    assert_eq!(
        lines(Source::of(fenced.as_bytes().chunks(1)).completed::<u8>("/*")),
        ["1", "2"]
    );

    // An option has no effect once text was read.
    let mut late = Source::of(["[1", "]"]).completed::<u8>("/*");
    assert!(matches!(poll(&mut late), Poll::Ready(Some(Ok(1)))));
    assert_eq!(late.depth(0).document().text(), "[1]");
}

#[test]
fn adapters_can_be_sent_moved_and_printed() {
    fn check<T: Send + Unpin + Debug>(adapter: &T) -> String {
        format!("{adapter:?}")
    }
    // Neither the stream nor its error is `Unpin`, and the value is not `Send`.
    struct Pinned(#[allow(dead_code, reason = "it pins")] std::marker::PhantomPinned);
    let stream = || {
        tokio_stream::once(Err::<Bytes, _>(Pinned(std::marker::PhantomPinned)))
            .then(|item| async { item })
    };
    check(&stream().events());
    check(&stream().completed::<Report>("/a"));
    check(&stream().into_final::<Report>());
    let printed = check(&tokio_stream::once("[\"secret").snapshots::<Report>());
    assert!(
        printed.starts_with("Snapshots(Feed {") && !printed.contains("secret"),
        "{printed}"
    );
    fn named<S: LiveExt>(stream: S) -> Events<S> {
        stream.events()
    }
    assert_eq!(
        named(Source::of(["["]))
            .get_ref()
            .polls
            .load(Ordering::SeqCst),
        0
    );
}

#[test]
fn broken_streams_are_repaired_on_the_level_that_is_asked_for() {
    let pieces = [
        "{'items': [{\"id\": 1,}, ",
        "{'id': 2} {id: 3}, // three\n",
        "]",
        "}",
    ];
    let items = || Source::of(pieces).completed::<BTreeMap<String, u8>>("/items/*");
    let first = ["{\"id\": 1}", "{\"id\": 2}"];
    let place = |at: &str| format!("! unexpected `{at}");
    let all = lines(items().repair(RepairLevel::Guess));
    assert_eq!(all, ["{\"id\": 1}", "{\"id\": 2}", "{\"id\": 3}"]);
    // Places are those of the repaired text.
    let some = lines(items());
    assert_eq!(some[..2], first);
    assert!(
        some.len() == 3 && some[2].starts_with(&place("i`, line 1, column 35")),
        "{some:?}"
    );
    let none = lines(items().repair(RepairLevel::Strict));
    assert!(
        none.len() == 1 && none[0].starts_with(&place("\\'`, line 1, column 2")),
        "{none:?}"
    );
}
