//! The live adapters: events, snapshots and values of a stream while it is received.

use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt::{self, Debug, Display};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use restitch::AllowedRoots;
use restitch::json::Event;
use restitch::live::{AsText, Completed, Events, IntoFinal, LiveError, LiveExt, Snapshots, Text};
use restitch::session::Status;
use restitch::{Limits, StitchText, Stitcher, Trailing};
use serde::Deserialize;
use tokio_stream::{Stream, StreamExt};

use crate::support::{chunks, splits};

/// A stream of given items. `None` is a poll without an item. Counts its polls, and must not be polled after its end.
struct Source<P> {
    steps: VecDeque<Option<P>>,
    polls: Arc<AtomicUsize>,
    is_over: bool,
}

impl<P> Source<P> {
    fn new(steps: impl IntoIterator<Item = Option<P>>) -> Self {
        Self { steps: steps.into_iter().collect(), polls: Arc::default(), is_over: false }
    }

    fn of(pieces: impl IntoIterator<Item = P>) -> Self {
        Self::new(pieces.into_iter().map(Some))
    }
}

impl<P: Unpin> Stream for Source<P> {
    type Item = P;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<P>> {
        assert!(!self.is_over, "polled behind its end");
        self.polls.fetch_add(1, Ordering::SeqCst);
        match self.steps.pop_front() {
            Some(Some(piece)) => Poll::Ready(Some(piece)),
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.is_over = true;
                Poll::Ready(None)
            }
        }
    }
}

/// A lost connection.
#[derive(Debug, PartialEq)]
struct Lost;

impl Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection lost")
    }
}

impl std::error::Error for Lost {}

/// Polls once.
fn poll<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Returns all items up to the end, which stays the end.
fn all<S: Stream + Unpin>(stream: &mut S) -> Vec<S::Item> {
    let mut items = Vec::new();
    loop {
        match poll(stream) {
            Poll::Pending => {}
            Poll::Ready(Some(item)) => items.push(item),
            Poll::Ready(None) => break,
        }
    }
    assert!((0..3).all(|_| matches!(poll(stream), Poll::Ready(None))), "it ends for good");
    items
}

/// Returns all items as lines; an error follows an exclamation mark.
fn lines<T: Debug, E: Display>(mut stream: impl Stream<Item = Result<T, LiveError<E>>> + Unpin) -> Vec<String> {
    let line = |item| match item {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("! {error}"),
    };
    all(&mut stream).into_iter().map(line).collect()
}

/// Runs a future to its end.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Section {
    title: String,
    #[serde(default)]
    rows: Vec<i64>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Report {
    sections: Vec<Section>,
    #[serde(rename = "für")]
    whom: String,
}

/// Characters of every length, an escaped surrogate pair, and a character that starts like it.
const REPORT: &str =
    r#" {"sections": [{"title": "Ебб & €", "rows": [1, -20]}, {"title": "\ud83c\udf89 🎉"}], "für": "ä\u00df"} "#;

fn sections() -> [Section; 2] {
    [Section { title: "Ебб & €".into(), rows: vec![1, -20] }, Section { title: "🎉 🎉".into(), rows: vec![] }]
}

fn report() -> Report {
    Report { sections: sections().into(), whom: "äß".into() }
}

/// Returns events as lines, the fragments of a string joined.
fn log<E: Debug>(
    events: &mut (impl Stream<Item = Result<restitch::live::LiveEvent, LiveError<E>>> + Unpin),
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_open = false;
    for event in all(events) {
        let event = event.unwrap();
        let is_part = matches!(event.event, Event::Fragment(_));
        match lines.last_mut().filter(|_| is_part && is_open) {
            Some(line) => line.push_str(&event.text),
            None => lines.push(format!("{} {} {}", event.event.name(), event.path, event.text)),
        }
        is_open = is_part;
    }
    lines
}

#[test]
fn events_are_those_of_the_text_however_it_is_split() {
    let expected = [
        "begin  ",
        "key /sections sections",
        "begin /sections ",
        "begin /sections/0 ",
        "key /sections/0/title title",
        "string_begin /sections/0/title ",
        "fragment /sections/0/title Ебб & €",
        "string_end /sections/0/title ",
        "key /sections/0/rows rows",
        "begin /sections/0/rows ",
        "number /sections/0/rows/0 1",
        "number /sections/0/rows/1 -20",
        "end /sections/0/rows ",
        "end /sections/0 ",
        "begin /sections/1 ",
        "key /sections/1/title title",
        "string_begin /sections/1/title ",
        "fragment /sections/1/title 🎉 🎉",
        "string_end /sections/1/title ",
        "end /sections/1 ",
        "end /sections ",
        "key /für für",
        "string_begin /für ",
        "fragment /für äß",
        "string_end /für ",
        "end  ",
    ];
    for cuts in splits(REPORT.len()) {
        let mut events = Source::of(chunks(REPORT.as_bytes(), &cuts)).events();
        assert_eq!(log(&mut events), expected, "{cuts:?}");
        assert_eq!(events.document().root(), Some(REPORT.trim()));
    }
}

#[test]
fn events_name_spans_of_the_document_and_share_their_paths() {
    let mut events = Source::of(["[[1], \"a\\", "nb\"]"]).events();
    let seen: Vec<_> = all(&mut events).into_iter().map(Result::unwrap).collect();
    let text = events.document().text();
    let raw: Vec<_> = seen.iter().map(|event| event.event.span().of(text)).collect();
    assert_eq!(raw, ["[", "[", "1", "[1]", "\"", "a", "\\nb", "\"a\\nb\"", "[[1], \"a\\nb\"]"]);
    assert_eq!(seen[6].text, "\nb");
    // The four events of the string share one path.
    assert!(seen[5..8].iter().all(|event| Arc::ptr_eq(&event.path, &seen[4].path)));
}

#[test]
fn elements_and_the_root_are_the_same_however_the_text_is_split() {
    for cuts in splits(REPORT.len()) {
        let pieces = || Source::of(chunks(REPORT.as_bytes(), &cuts));
        let found: Vec<_> =
            all(&mut pieces().completed::<Section>("/sections/*")).into_iter().map(Result::unwrap).collect();
        assert_eq!(found, sections(), "{cuts:?}");
        assert_eq!(wait(pieces().into_final::<Report>()).unwrap(), report(), "{cuts:?}");
        let shown = all(&mut pieces().snapshots::<Report>());
        assert_eq!(shown.last().unwrap().as_ref().unwrap(), &report(), "{cuts:?}");
    }
}

#[test]
fn an_element_comes_with_its_last_byte() {
    let text = r#"{"n": [1, 22, "x"], "o": {"n": [3]}}"#;
    let mut found = Source::of(text.as_bytes().chunks(1)).completed::<serde_json::Value>("/n/*");
    let mut at = Vec::new();
    while let Poll::Ready(Some(value)) = poll(&mut found) {
        at.push((value.unwrap().to_string(), found.document().text().len()));
    }
    // A number is complete with the byte after it.
    assert_eq!(at, [("1".into(), 9), ("22".into(), 13), ("\"x\"".into(), 17)]);
}

#[test]
fn a_snapshot_comes_with_every_piece_that_changes_it() {
    let pieces = [
        "{\"sect",
        "ions\": ",
        "[",
        "{\"ti",
        "tle\": \"",
        "Ti",
        "",
        "des\\",
        "n",
        "\"",
        ", \"rows\": [",
        "1",
        "2",
        ", 3",
        "]",
        "}",
        "], \"",
        "für\": \"me\"",
        "}",
    ];
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it is printed")]
    struct Draft {
        sections: Vec<Section>,
        #[serde(rename = "für")]
        whom: Option<String>,
    }
    let section = |title: &str, rows: &str| format!("Section {{ title: {title:?}, rows: [{rows}] }}");
    let draft = |sections: &str, whom: &str| format!("Draft {{ sections: [{sections}], whom: {whom} }}");
    let shown = lines(Source::of(pieces).snapshots::<Draft>());
    assert_eq!(
        shown,
        [
            draft("", "None"),
            // A section without a title is not returned.
            draft(&section("", ""), "None"),
            draft(&section("Ti", ""), "None"),
            draft(&section("Tides", ""), "None"),
            draft(&section("Tides\n", ""), "None"),
            // The list of rows exists and is empty.
            draft(&section("Tides\n", ""), "None"),
            // A number is shown when it is complete.
            draft(&section("Tides\n", "12"), "None"),
            draft(&section("Tides\n", "12, 3"), "None"),
            draft(&section("Tides\n", "12, 3"), "Some(\"me\")"),
        ]
    );
}

#[test]
fn a_snapshot_that_does_not_fit_is_an_error_and_the_next_may_fit() {
    let shown = lines(Source::of(["[1", ", \"x\"", ", 2", "]"]).snapshots::<Vec<i64>>());
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[1..].iter().all(|line| line.starts_with("! ") && line.contains("invalid type")), "{shown:?}");

    // What is missing at the end of the root is an error, once.
    let shown = lines(Source::of(["{", "\"title\": \"a\"", "}"]).snapshots::<Report>());
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].starts_with("! ") && shown[0].contains("missing field"), "{shown:?}");
}

#[test]
fn an_element_that_does_not_fit_is_an_error_in_its_place() {
    let pieces = [r#"{"sections": [{"title": "a"}, {"rows": [1]}, 7, {"ti"#, r#"tle": "b"}]}"#];
    let found = lines(Source::of(pieces.concat().as_bytes().chunks(5)).completed::<Section>("/sections/*"));
    assert_eq!(
        found,
        [
            "Section { title: \"a\", rows: [] }",
            "! /sections/1: missing field `title` at line 1 column 13",
            "! /sections/2: invalid type: integer `7`, expected struct Section at line 1 column 1",
            "Section { title: \"b\", rows: [] }",
        ]
    );
}

#[test]
fn items_may_be_text_or_bytes_bare_or_results() {
    fn check<P: restitch::live::Piece<Error: Display> + Unpin>(pieces: [P; 2]) {
        assert_eq!(lines(Source::of(pieces).completed::<String>("/*")), ["\"ä\"", "\"b\""]);
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
    check([Delta { content: None }, Delta { content: Some("[\"ä\", \"b\"]") }]);
}

/// A text that ends with a lost connection.
fn lost(text: &'static str) -> Source<Result<&'static str, Lost>> {
    Source::of([Ok(text), Err(Lost), Ok("never read")])
}

#[test]
fn what_was_read_before_an_error_comes_before_it() {
    let text = "[[1], [2], [3, ";
    let error = "! the stream failed: connection lost";
    assert_eq!(lines(lost(text).completed::<Vec<u8>>("/*")), ["[1]", "[2]", error]);
    assert_eq!(lines(lost(text).snapshots::<Vec<Vec<u8>>>()), ["[[1], [2], [3]]", error]);
    let events = lines(lost(text).events());
    assert_eq!((events.len(), events[9].as_str()), (10, error), "{events:?}");
    let mut whole = lost(text).into_final::<Vec<Vec<u8>>>();
    assert!(matches!(wait(&mut whole), Err(LiveError::Stream(Lost))));
    assert_eq!(whole.document().text(), text);

    // After the root the stream is not polled, so it cannot fail.
    assert_eq!(lines(lost("[[1]]").completed::<Vec<u8>>("/*")), ["[1]"]);
    assert_eq!(wait(lost("[[1]]").into_final::<Vec<Vec<u8>>>()).unwrap(), [[1]]);
    // Unless more roots may follow.
    assert_eq!(lines(lost("[[1]]").completed::<Vec<u8>>("/*").trailing(Trailing::Next)), ["[1]", error]);
}

#[test]
fn a_stream_that_ends_early_says_where() {
    for (text, path, said) in [
        ("", "", "the stream ended before any JSON (byte 0)"),
        ("I'm sorry.", "", "the stream ended before any JSON (byte 10)"),
        ("[", "/0", "the stream ended at /0 (byte 1)"),
        ("{", "", "the stream ended inside the root (byte 1)"),
        ("{\"a\": [1, {\"b~\": \"c", "/a/1/b~0", "the stream ended at /a/1/b~0 (byte 19)"),
    ] {
        let mut events = Source::of([text]).events();
        let Some(Err(error)) = all(&mut events).pop() else { panic!("{text} is not whole") };
        assert_eq!(error.to_string(), said);
        assert_eq!((error.path(), error.offset()), (Some(path), Some(text.len())));
        let LiveError::Truncated(cut) = error else { panic!("{error} is not about the end") };
        assert_eq!(cut, events.document().cut());
        assert!(matches!(wait(Source::of([text]).into_final::<serde_json::Value>()), Err(LiveError::Truncated(_))));
        assert!(matches!(all(&mut Source::of([text]).snapshots::<Report>()).pop(), Some(Err(LiveError::Truncated(_)))));
    }
}

#[test]
fn wherever_a_stream_ends_the_whole_elements_come_first() {
    let text = REPORT.trim();
    let ends = [text.find("}, {").unwrap() + 1, text.find("}], \"").unwrap() + 1];
    for cut in 0..text.len() {
        let pieces = [&text.as_bytes()[..cut]];
        let mut found = all(&mut Source::of(pieces).completed::<Section>("/sections/*"));
        let Some(Err(LiveError::Truncated(place))) = found.pop() else { panic!("{cut}: {found:?}") };
        // Half a character is not text.
        assert_eq!(place.offset, (0..=cut).rev().find(|&at| text.is_char_boundary(at)).unwrap());
        let expected = ends.iter().filter(|&&end| end <= cut).count();
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, sections()[..expected], "{cut}");
    }
}

#[test]
fn malformed_text_is_an_error_with_its_place() {
    for cuts in splits(17) {
        let text = "{\"a\": [1,\n 2, x]}";
        let mut found = all(&mut Source::of(chunks(text.as_bytes(), &cuts)).completed::<u8>("/a/*"));
        let error = found.pop().unwrap().unwrap_err();
        assert_eq!(found.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [1, 2]);
        assert!(
            error.to_string().starts_with("unexpected `x`, line 2, column 5 (byte 14), at /a/2: ` 2, →x"),
            "{error}"
        );
        assert_eq!((error.path(), error.offset()), (Some("/a/2"), Some(14)));
        assert!(error.source().is_none());
        assert!(matches!(error, LiveError::Syntax { .. }));
    }
    let deep = lines(Source::of(["[[", "[1]]]"]).completed::<u8>("/*/*").depth(2));
    assert_eq!(
        deep,
        ["! more open containers than the limit `max_depth`, 2, line 1, column 3 (byte 2), at /0/0: `[[→[1]]]`"]
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
            assert!(matches!(error, LiveError::Encoding { offset: at } if at == offset), "{error} {cuts:?}");
            assert_eq!(items.into_iter().map(Result::unwrap).collect::<Vec<_>>(), found);
        }
    }
    // Bytes after the root are not read.
    assert_eq!(lines(Source::of([b"[1]\xff"]).completed::<u8>("/*")), ["1"]);
    // Where more roots may follow, half a character is an error.
    assert_eq!(
        lines(Source::of([b"[1]\xe2"]).completed::<u8>("/*").trailing(Trailing::Next)),
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

/// The stream is polled when its reader polls, and only when all items were read.
#[test]
fn a_slow_reader_slows_the_stream() {
    let source = || {
        let source = Source::new([Some("[1, 2, 3, "), None, Some("4, "), Some(" "), Some("5]"), Some("never read")]);
        (Arc::clone(&source.polls), source)
    };
    let (polls, source_) = source();
    let mut found = source_.completed::<u8>("/*");
    assert_eq!(polls.load(Ordering::SeqCst), 0);
    let mut seen = Vec::new();
    loop {
        let item = poll(&mut found);
        seen.push((item.map(|item| item.map(Result::unwrap)), polls.load(Ordering::SeqCst)));
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
    assert_eq!(poll(&mut found.into_inner()), Poll::Ready(Some("never read")));

    let (polls, source) = source();
    let mut shown = source.snapshots::<Vec<u8>>();
    assert_eq!(poll(&mut shown).map(|item| item.unwrap().unwrap()), Poll::Ready(vec![1, 2, 3]));
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    assert_eq!(poll(&mut shown).map(|item| item.is_some()), Poll::Pending);
    assert_eq!(polls.load(Ordering::SeqCst), 2);
}

/// A `next()` that is dropped while it waits loses nothing: no text, no half of a character, no item.
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
    let (seen, dropped) = patient(Source::new(pieces.iter().flat_map(|piece| [None, Some(*piece)])));
    assert_eq!((seen.as_slice(), dropped), (sections().as_slice(), pieces.len()));
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
        matches!(wait(Source::of(["[1]"]).into_final::<Report>()), Err(LiveError::Type(error)) if error.path().is_empty())
    );
}

#[test]
fn several_roots_one_after_the_other() {
    let text = "{\"n\": 1}\n{\"n\": 2}{\"n\": 3, \"o\": \"é\"}\n";
    for cuts in splits(text.len()) {
        let pieces = || Source::of(chunks(text.as_bytes(), &cuts));
        assert_eq!(lines(pieces().completed::<u8>("/n").trailing(Trailing::Next)), ["1", "2", "3"]);
        let events = all(&mut pieces().events().trailing(Trailing::Next));
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        // Spans count from the start of the stream, also after roots that were dropped.
        assert!(
            events
                .iter()
                .filter(|event| event.event.name() == "number")
                .all(|event| { event.event.span().of(text) == event.text })
        );
        let numbers = events.into_iter().filter(|event| event.event.name() == "number");
        let numbers: Vec<_> = numbers.map(|event| (event.root, event.text)).collect();
        assert_eq!(numbers, [(0, "1".into()), (1, "2".into()), (2, "3".into())]);
        // The last state of each root is returned, even where its last byte and the first byte of the next root come
        // together.
        #[derive(Debug, Deserialize)]
        struct Row {
            n: u8,
        }
        let shown = all(&mut pieces().snapshots::<Row>().trailing(Trailing::Next));
        let mut shown: Vec<_> = shown.into_iter().map(|row| row.unwrap().n).collect();
        shown.dedup();
        assert_eq!(shown, [1, 2, 3], "{cuts:?}");
        assert_eq!(wait(pieces().into_final::<Row>().trailing(Trailing::Next)).unwrap().n, 3);
    }
    // No root is as good as several.
    assert!(lines(Source::of([" \n"]).events().trailing(Trailing::Next)).is_empty());
    let none = wait(Source::of([" \n"]).into_final::<u8>().trailing(Trailing::Next));
    assert!(matches!(none, Err(LiveError::Truncated(_))));
    // Half a root is not.
    let half = lines(Source::of(["[1] [2"]).completed::<u8>("/*").trailing(Trailing::Next));
    assert_eq!(half, ["1", "! the stream ended at /0 (byte 6)"]);
}

/// Rows of NDJSON of the same length, made when they are read.
struct Rows(std::ops::Range<usize>);

impl Stream for Rows {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<String>> {
        Poll::Ready(self.0.next().map(|n| format!("{{\"n\": {}, \"text\": \"a row of text\"}}\n", 100_000 + n)))
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
        assert_eq!(wait(rows().into_final::<Row>().trailing(Trailing::Next)).unwrap().n, 100_000 + count - 1);
    };
    let most = [100, 10_000].map(|count| allocation_counter::measure(|| last(count)).bytes_max);
    assert_eq!(most[0], most[1]);
}

/// Places in errors count from the start of the stream.
#[test]
fn places_count_from_the_start_of_the_stream() {
    let next = |text: &'static str| lines(Source::of([text]).completed::<u8>("/*").trailing(Trailing::Next));
    let place = "! unexpected `]`, line 3, column 4 (byte 12), at /1: `[3,→]`";
    assert_eq!(next("[1]\n [2]\n[3,]\n")[..], ["1", "2", "3", place]);
    let text = "[1]\n [2]\n[3, ";
    let mut found = Source::of(text.as_bytes().chunks(3)).completed::<u8>("/*").trailing(Trailing::Next);
    let Some(Err(error)) = all(&mut found).pop() else { panic!("it is cut") };
    assert_eq!((error.offset(), error.path()), (Some(text.len()), Some("/1")));
    assert_eq!(
        lines(Source::of([b"[1]\n[2]\xff"]).completed::<u8>("/*").trailing(Trailing::Next))[2],
        "! not UTF-8 (byte 7)"
    );
}

/// The adapters can be named in a struct.
#[test]
fn adapters_are_fields_of_a_struct() {
    type Body = Pin<Box<dyn Stream<Item = Result<Bytes, Lost>> + Send>>;
    struct View {
        sections: Completed<Body, Section>,
        events: Events<Body>,
        states: Snapshots<Body, Report>,
        report: Option<IntoFinal<Body, Report>>,
    }
    let body = || -> Body { Box::pin(tokio_stream::iter([Ok(Bytes::from(REPORT))])) };
    let mut view = View {
        sections: body().completed("/sections/*"),
        events: body().events(),
        states: body().snapshots(),
        report: Some(body().into_final()),
    };
    assert_eq!(all(&mut view.sections).into_iter().map(Result::unwrap).collect::<Vec<_>>(), sections());
    assert!(matches!(poll(&mut view.events), Poll::Ready(Some(Ok(event))) if event.to_string() == "begin "));
    assert!(matches!(poll(&mut view.states), Poll::Ready(Some(Ok(state))) if state == report()));
    assert_eq!(wait(view.report.take().unwrap()).unwrap(), report());
}

#[test]
fn events_are_printed_and_serialized() {
    let events = all(&mut Source::of(["{\"a\": [1, \"t\\n\"]} [null]"]).events().trailing(Trailing::Next));
    let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
    let printed: Vec<_> = events.iter().map(ToString::to_string).collect();
    assert_eq!(printed[..5], ["begin ", "key /a a", "begin /a", "number /a/0 1", "string_begin /a/1"]);
    let written: Vec<_> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert_eq!(written[0], r#"{"event":"begin","path":"","start":0,"end":1,"kind":"object"}"#);
    assert_eq!(written[1], r#"{"event":"key","path":"/a","start":2,"end":3,"value":"a"}"#);
    assert_eq!(written[3], r#"{"event":"number","path":"/a/0","start":7,"end":8,"text":"1"}"#);
    assert_eq!(written[5], r#"{"event":"fragment","path":"/a/1","start":11,"end":14,"value":"t\n"}"#);
    assert_eq!(written[10], r#"{"event":"null","path":"/0","start":19,"end":23,"text":"null","root":1}"#);
}

#[test]
fn any_root_and_text_after_it() {
    let any = |text| lines(Source::of([text]).completed::<serde_json::Value>("").roots(AllowedRoots::Any));
    assert_eq!(any("12"), ["Number(12)"]);
    assert_eq!(any("\"a\" b"), ["String(\"a\")"]);
    assert_eq!(wait(Source::of(["1", "2"]).into_final::<u8>().roots(AllowedRoots::Any)).unwrap(), 12);
    assert_eq!(lines(Source::of(["tr", "ue"]).snapshots::<bool>().roots(AllowedRoots::Any)), ["true"]);

    let strict = |text| lines(Source::of([text]).completed::<u8>("/*").trailing(Trailing::Error));
    assert_eq!(strict("[1] \n"), ["1"]);
    assert_eq!(strict("[1] x"), ["1", "! text after the root, at `x`, line 1, column 5 (byte 4): `[1] →x`"]);
    let whole = wait(Source::of(["[1]", "[2]"]).into_final::<Vec<u8>>().trailing(Trailing::Error));
    assert!(matches!(whole, Err(LiveError::Syntax { .. })));

    // What models write around JSON.
    let fenced = "Here you are:\n```json\n[1, 2]\n```\nAnything else?";
    assert_eq!(lines(Source::of(fenced.as_bytes().chunks(1)).completed::<u8>("/*")), ["1", "2"]);

    // An option has no effect once text was read.
    let mut late = Source::of(["[1", "]"]).completed::<u8>("/*");
    assert!(matches!(poll(&mut late), Poll::Ready(Some(Ok(1)))));
    assert_eq!(late.depth(0).document().text(), "[1]");
}

type Call = Source<Result<String, Lost>>;
/// A cut answer behind which the rest is asked for; `asked` counts how often.
fn stitched(first: &str, answers: &[&str], asked: &Arc<AtomicUsize>) -> StitchText<'static, Lost> {
    let call =
        |text: &str| Source::of(text.as_bytes().chunks(4).map(|part| Ok(String::from_utf8(part.into()).unwrap())));
    let mut answers: VecDeque<Call> = answers.iter().map(|text| call(text)).collect();
    let asked = Arc::clone(asked);
    let limits = Limits { max_backoff: std::time::Duration::ZERO, ..Limits::default() };
    Stitcher::new().limits(limits).text(call(first), move |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(answers.pop_front().ok_or(Lost))
    })
}

#[tokio::test(start_paused = true)]
async fn a_cut_text_is_made_whole_and_typed() {
    let first = r#"{"sections": [{"title": "One", "rows": [1, 2]}, {"title": "Tw"#;
    let rest = r#"{"sections": [{"title": "One", "rows": [1, 2]}, {"title": "Two"}, {"title": "Three"}], "für": "x"}"#;
    let section = |title: &str, rows: &[i64]| Section { title: title.into(), rows: rows.into() };
    let asked = Arc::default();
    let mut found = stitched(first, &[rest], &asked).completed::<Section>("/sections/*");
    let mut seen = Vec::new();
    while let Some(item) = found.next().await {
        seen.push((item.unwrap(), asked.load(Ordering::SeqCst)));
    }
    // The first section came before any request.
    let expected = [(section("One", &[1, 2]), 0), (section("Two", &[]), 1), (section("Three", &[]), 1)];
    assert_eq!(seen, expected);
    assert_eq!(found.document().root(), Some(rest));
    let mut text = found.into_inner();
    assert!(text.next().await.is_none());
    assert_eq!(text.outcome().unwrap().status(), Status::Complete);

    let whole: Report = stitched(first, &[rest], &asked).into_final().await.unwrap();
    assert_eq!((whole.sections.len(), whole.whom.as_str()), (3, "x"));
    let shown: Vec<_> = stitched(first, &[rest], &asked).snapshots::<serde_json::Value>().collect().await;
    assert_eq!(shown.last().unwrap().as_ref().unwrap(), &serde_json::from_str::<serde_json::Value>(rest).unwrap());
    let mut events = stitched(first, &[rest], &asked).events();
    let mut titles = String::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        if matches!(event.event, Event::Fragment(_)) && event.path.ends_with("/title") {
            titles.push_str(&event.text);
        }
    }
    assert_eq!(titles, "OneTwoThree");

    // A text that was given up is closed, and the outcome says so.
    let mut found = stitched(first, &[], &asked).completed::<Section>("/sections/*");
    let seen: Vec<_> = (&mut found).map(Result::unwrap).collect().await;
    assert_eq!(seen, [section("One", &[1, 2]), section("Tw", &[])]);
    let mut text = found.into_inner();
    while text.next().await.is_some() {}
    assert_eq!(text.outcome().unwrap().status(), Status::Closed);
}

#[test]
fn errors_say_what_they_are_about() {
    let error = |source: Source<Result<&'static str, Lost>>| {
        all(&mut source.completed::<u8>("/*")).into_iter().find_map(Result::err).unwrap()
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
        let found = all(&mut Source::of([format!("[{text}]")]).completed::<serde_json::Value>("/*"));
        let whole = wait(Source::of([text]).into_final::<serde_json::Value>());
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
    assert_eq!(of("[x", "/*"), "unexpected `x`, line 1, column 2 (byte 1), at /0: `[→x`");
    assert_eq!(of("[1", "/*"), "the stream ended at /0 (byte 2)");
    assert_eq!(of("[]", "a"), "pattern \"a\": must be empty or start with `/` (byte 0)");
    assert_eq!(of("[true]", "/*"), "/0: invalid type: boolean `true`, expected u8 at line 1 column 4");
    let mut items = all(&mut Source::of([b"\xff"]).events());
    assert_eq!(chain(&items.pop().unwrap().unwrap_err()), "not UTF-8 (byte 0)");
    let mut items = all(&mut Source::of(["[true]"]).snapshots::<Vec<u8>>());
    let error = items.pop().unwrap().unwrap_err();
    assert_eq!(chain(&error), "invalid type: boolean `true`, expected u8 (at /0)");
    let LiveError::Type(error) = error else { panic!("{error} is not about a type") };
    assert_eq!(chain(&error), "invalid type: boolean `true`, expected u8 (at /0)");

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
    assert_eq!(chain(&items.pop().unwrap().unwrap_err()), "the stream failed: no answer: connection lost");
}

#[test]
fn adapters_can_be_sent_moved_and_printed() {
    fn check<T: Send + Unpin + Debug>(adapter: &T) -> String {
        format!("{adapter:?}")
    }
    // Neither the stream nor its error is `Unpin`, and the value is not `Send`.
    struct Pinned(#[allow(dead_code, reason = "it pins")] std::marker::PhantomPinned);
    let stream = || tokio_stream::once(Err::<Bytes, _>(Pinned(std::marker::PhantomPinned))).then(|item| async { item });
    check(&stream().events());
    check(&stream().completed::<Report>("/a"));
    check(&stream().into_final::<Report>());
    let printed = check(&tokio_stream::once("[\"secret").snapshots::<Report>());
    assert!(printed.starts_with("Snapshots(Feed {") && !printed.contains("secret"), "{printed}");
    fn named<S: LiveExt>(stream: S) -> Events<S> {
        stream.events()
    }
    assert_eq!(named(Source::of(["["])).get_ref().polls.load(Ordering::SeqCst), 0);
}
