//! The live adapters: events, snapshots and values of a stream while it is received.

mod cut;
mod errors;
mod readers;
mod streams;

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
use restitch::live::{AsText, Text};
use restitch::live::{Events, FinalError, LiveError, LiveExt};
use restitch::session::Status;
use restitch::{Limits, StitchText, Stitcher, Trailing};
use serde::Deserialize;
use tokio_stream::{Stream, StreamExt};

use restitch_testing::{chunks, splits};

/// A stream of given items. `None` is a poll without an item. Counts its polls, and must not be
/// polled after its end.
struct Source<P> {
    steps: VecDeque<Option<P>>,
    polls: Arc<AtomicUsize>,
    is_over: bool,
}

impl<P> Source<P> {
    fn new(steps: impl IntoIterator<Item = Option<P>>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            polls: Arc::default(),
            is_over: false,
        }
    }

    fn of(pieces: impl IntoIterator<Item = P>) -> Self {
        Self::new(pieces.into_iter().map(Some))
    }
}

impl<P: Unpin> Stream for Source<P> {
    type Item = P;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<P>> {
        assert!(!self.is_over, "polled after its end");
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
    assert!(
        (0..3).all(|_| matches!(poll(stream), Poll::Ready(None))),
        "it ends for good"
    );
    items
}

/// Returns all items as lines; an error follows an exclamation mark.
fn lines<T: Debug, E: Display>(
    mut stream: impl Stream<Item = Result<T, LiveError<E>>> + Unpin,
) -> Vec<String> {
    let line = |item| match item {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("! {error}"),
    };
    all(&mut stream).into_iter().map(line).collect()
}

/// Runs a view of the root to its end, and returns the reason of an error.
fn root<T, E, F: Future<Output = Result<T, FinalError<E>>>>(future: F) -> Result<T, LiveError<E>> {
    wait(future).map_err(LiveError::from)
}

/// Runs a future to its end.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
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
const REPORT: &str = r#" {"sections": [{"title": "Ебб & €", "rows": [1, -20]}, {"title": "\ud83c\udf89 🎉"}], "für": "ä\u00df"} "#;

fn sections() -> [Section; 2] {
    [
        Section {
            title: "Ебб & €".into(),
            rows: vec![1, -20],
        },
        Section {
            title: "🎉 🎉".into(),
            rows: vec![],
        },
    ]
}

fn report() -> Report {
    Report {
        sections: sections().into(),
        whom: "äß".into(),
    }
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
            None => lines.push(format!(
                "{} {} {}",
                event.event.name(),
                event.path,
                event.text
            )),
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
    let raw: Vec<_> = seen
        .iter()
        .map(|event| event.event.span().of(text))
        .collect();
    assert_eq!(
        raw,
        [
            "[",
            "[",
            "1",
            "[1]",
            "\"",
            "a",
            "\\nb",
            "\"a\\nb\"",
            "[[1], \"a\\nb\"]"
        ]
    );
    assert_eq!(seen[6].text, "\nb");
    // The four events of the string share one path.
    assert!(
        seen[5..8]
            .iter()
            .all(|event| Arc::ptr_eq(&event.path, &seen[4].path))
    );
}

#[test]
fn elements_and_the_root_are_the_same_however_the_text_is_split() {
    for cuts in splits(REPORT.len()) {
        let pieces = || Source::of(chunks(REPORT.as_bytes(), &cuts));
        let found: Vec<_> = all(&mut pieces().completed::<Section>("/sections/*"))
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(found, sections(), "{cuts:?}");
        assert_eq!(
            wait(pieces().into_final::<Report>()).unwrap(),
            report(),
            "{cuts:?}"
        );
        let shown = all(&mut pieces().snapshots::<Report>());
        assert_eq!(
            shown.last().unwrap().as_ref().unwrap(),
            &report(),
            "{cuts:?}"
        );
    }
}

#[test]
fn an_element_comes_with_its_last_byte() {
    let text = r#"{"n": [1, 22, "x"], "o": {"n": [3]}}"#;
    let mut found = Source::of(text.as_bytes().chunks(1)).completed::<serde_json::Value>("/n/*");
    let mut at = Vec::new();
    while let Poll::Ready(Some(value)) = poll(&mut found) {
        let document = found.document();
        at.push((
            value.unwrap().to_string(),
            document.text().len() + document.pending().len(),
        ));
    }
    // A number is complete with the byte after it.
    assert_eq!(
        at,
        [("1".into(), 9), ("22".into(), 13), ("\"x\"".into(), 17)]
    );
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
    let section =
        |title: &str, rows: &str| format!("Section {{ title: {title:?}, rows: [{rows}] }}");
    let draft =
        |sections: &str, whom: &str| format!("Draft {{ sections: [{sections}], whom: {whom} }}");
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
    assert!(
        shown[1..]
            .iter()
            .all(|line| line.starts_with("! ") && line.contains("invalid type")),
        "{shown:?}"
    );

    // What is missing at the end of the root is an error, once.
    let shown = lines(Source::of(["{", "\"title\": \"a\"", "}"]).snapshots::<Report>());
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(
        shown[0].starts_with("! ") && shown[0].contains("missing field"),
        "{shown:?}"
    );
}

#[test]
fn an_element_that_does_not_fit_is_an_error_in_its_place() {
    let pieces = [
        r#"{"sections": [{"title": "a"}, {"rows": [1]}, 7, {"ti"#,
        r#"tle": "b"}]}"#,
    ];
    let found =
        lines(Source::of(pieces.concat().as_bytes().chunks(5)).completed::<Section>("/sections/*"));
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

type Call = Source<Result<String, Lost>>;
/// A cut answer that is continued; `asked` counts the requests.
fn stitched(first: &str, answers: &[&str], asked: &Arc<AtomicUsize>) -> StitchText<'static, Lost> {
    let call = |text: &str| {
        Source::of(
            text.as_bytes()
                .chunks(4)
                .map(|part| Ok(String::from_utf8(part.into()).unwrap())),
        )
    };
    let mut answers: VecDeque<Call> = answers.iter().map(|text| call(text)).collect();
    let asked = Arc::clone(asked);
    let limits = Limits::default().with_max_backoff(std::time::Duration::ZERO);
    Stitcher::new().limits(limits).text(call(first), move |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(answers.pop_front().ok_or(Lost))
    })
}

#[tokio::test(start_paused = true)]
async fn a_cut_text_is_made_whole_and_typed() {
    let first = r#"{"sections": [{"title": "One", "rows": [1, 2]}, {"title": "Tw"#;
    let rest = r#"{"sections": [{"title": "One", "rows": [1, 2]}, {"title": "Two"}, {"title": "Three"}], "für": "x"}"#;
    let section = |title: &str, rows: &[i64]| Section {
        title: title.into(),
        rows: rows.into(),
    };
    let asked = Arc::default();
    let mut found = stitched(first, &[rest], &asked).completed::<Section>("/sections/*");
    let mut seen = Vec::new();
    while let Some(item) = found.next().await {
        seen.push((item.unwrap(), asked.load(Ordering::SeqCst)));
    }
    // The first section came before any request.
    let expected = [
        (section("One", &[1, 2]), 0),
        (section("Two", &[]), 1),
        (section("Three", &[]), 1),
    ];
    assert_eq!(seen, expected);
    assert_eq!(found.document().root(), Some(rest));
    let mut text = found.into_inner();
    assert!(text.next().await.is_none());
    assert_eq!(text.outcome().unwrap().status(), Status::Complete);

    let whole: Report = stitched(first, &[rest], &asked).into_final().await.unwrap();
    assert_eq!((whole.sections.len(), whole.whom.as_str()), (3, "x"));
    let shown: Vec<_> = stitched(first, &[rest], &asked)
        .snapshots::<serde_json::Value>()
        .collect()
        .await;
    assert_eq!(
        shown.last().unwrap().as_ref().unwrap(),
        &serde_json::from_str::<serde_json::Value>(rest).unwrap()
    );
    let mut events = stitched(first, &[rest], &asked).events();
    let mut titles = String::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        if matches!(event.event, Event::Fragment(_)) && event.path.ends_with("/title") {
            titles.push_str(&event.text);
        }
    }
    assert_eq!(titles, "OneTwoThree");

    // A text that was given up yields its whole sections, and the outcomes report the cut.
    let mut found = stitched(first, &[], &asked).completed::<Section>("/sections/*");
    let seen: Vec<_> = (&mut found).collect().await;
    assert!(seen.len() == 2 && seen[1].is_err(), "{seen:?}");
    assert_eq!(seen[0].as_ref().unwrap(), &section("One", &[1, 2]));
    let is_cut_in_title = |cut: &restitch::Cut| cut.path == "/sections/1/title";
    assert!(
        matches!(found.outcome(), Some(restitch::live::LiveOutcome::Incomplete(cut)) if is_cut_in_title(cut))
    );
    assert_eq!(
        found.into_inner().outcome().unwrap().status(),
        Status::Incomplete
    );
}
