//! Tests of the stream adapters, on a paused clock.

mod resumed;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::provider::Finish;
use restitch::provider::capability::Table;
use restitch::session::{CallEnd, GiveUp, SessionEvent, Status};
use restitch::{Message, Retry, Stitch, StitchText, Stitcher, TextDelta};
use restitch_testing::chat::{self, DONE};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_stream::{Stream, StreamExt};

/// A step of an upstream. After its last step the upstream ends.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Send(String),
    Fail,
    Stall,
}

use Step::{Fail, Send, Stall, Wait};

/// A scripted upstream, which counts as open until it is dropped.
struct Upstream {
    steps: VecDeque<Step>,
    pause: Option<Pin<Box<Sleep>>>,
    open: Arc<AtomicUsize>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug, PartialEq)]
enum Lost {
    Connection,
    Busy(Option<u64>),
    Forbidden,
}

impl Upstream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<String, Lost>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match self.steps.front() {
                None => return Poll::Ready(None),
                Some(Stall) => return Poll::Pending,
                _ => {}
            }
            match self.steps.pop_front() {
                Some(Wait(ms)) => self.pause = Some(Box::pin(sleep(Duration::from_millis(ms)))),
                Some(Send(text)) => return Poll::Ready(Some(Ok(text))),
                _ => return Poll::Ready(Some(Err(Lost::Connection))),
            }
        }
    }
}

/// An upstream of bytes.
struct Wire(Upstream);

impl Stream for Wire {
    type Item = Result<Bytes, Lost>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .poll(cx)
            .map(|item| item.map(|item| item.map(Bytes::from)))
    }
}

/// An upstream of text deltas.
struct Deltas(Upstream);

impl Stream for Deltas {
    type Item = Result<String, Lost>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll(cx)
    }
}

/// The answer to a further call, and the milliseconds before it.
type Answer = (u64, Result<Vec<Step>, Lost>);

/// The calls that were made, and when.
#[derive(Clone)]
struct Calls {
    origin: Instant,
    made: Arc<Mutex<Vec<(u64, Retry)>>>,
    open: Arc<AtomicUsize>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Calls {
    fn new(answers: Vec<Answer>) -> Self {
        Self {
            origin: Instant::now(),
            made: Arc::default(),
            open: Arc::default(),
            answers: Arc::new(Mutex::new(answers.into())),
        }
    }

    fn upstream(&self, steps: Vec<Step>) -> Upstream {
        self.open.fetch_add(1, Ordering::SeqCst);
        Upstream {
            steps: steps.into(),
            pause: None,
            open: Arc::clone(&self.open),
        }
    }

    async fn reopen(self, retry: Retry) -> Result<Upstream, Lost> {
        self.made.lock().unwrap().push((self.elapsed(), retry));
        // A call is open before it is answered.
        let upstream = self.upstream(Vec::new());
        let (wait, answer) = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("more is asked for than is answered");
        sleep(Duration::from_millis(wait)).await;
        answer.map(|steps| {
            let mut upstream = upstream;
            upstream.steps = steps.into();
            upstream
        })
    }

    fn elapsed(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64
    }

    fn times(&self) -> Vec<u64> {
        self.made
            .lock()
            .unwrap()
            .iter()
            .map(|(at, _)| *at)
            .collect()
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

fn rejection(error: &Lost) -> CallEnd {
    let (transient, retry_after) = match error {
        Lost::Busy(seconds) => (true, seconds.map(Duration::from_secs)),
        _ => (false, None),
    };
    CallEnd::Rejected {
        reason: format!("{error:?}"),
        transient,
        retry_after,
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Lost>> + std::marker::Send>>;

fn stitch(calls: &Calls, first: Vec<Step>, limits: Limits) -> Boxed<Bytes> {
    let calls = calls.clone();
    let first = Wire(calls.upstream(first));
    let reopen = move |retry| {
        let calls = calls.clone();
        async move { calls.reopen(retry).await.map(Wire) }
    };
    Box::pin(
        Stitcher::new()
            .limits(limits)
            .stream(first, reopen)
            .on_rejection(rejection),
    )
}

/// Returns all items, with the time at which each one came.
async fn all(calls: &Calls, mut stream: Boxed<Bytes>) -> Vec<(u64, String)> {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        let item = item.map_or_else(
            |error| format!("{error:?}"),
            |bytes| String::from_utf8(bytes.to_vec()).unwrap(),
        );
        items.push((calls.elapsed(), item));
    }
    assert!(
        stream.next().await.is_none(),
        "a stream that is over stays so"
    );
    items
}

fn chunk(text: &str) -> Step {
    Send(chat::text("a", text))
}

fn finish(reason: &str) -> Step {
    Send(chat::finish("a", reason) + DONE)
}

fn comments(items: &[(u64, String)]) -> Vec<u64> {
    items
        .iter()
        .filter(|(_, item)| item.starts_with(':'))
        .map(|(at, _)| *at)
        .collect()
}

fn text(items: &[(u64, String)]) -> String {
    let mut text = String::new();
    for line in items.iter().flat_map(|(_, item)| item.lines()) {
        let chunk = line
            .strip_prefix("data: ")
            .and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok());
        text.push_str(
            chunk
                .as_ref()
                .and_then(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
                .unwrap_or(""),
        );
    }
    text
}

fn rest() -> Answer {
    (0, Ok(vec![chunk("[1, 20]"), finish("stop")]))
}

/// The most that is added to what a refusal asks for after one failure.
const SPREAD: u64 = 100;

#[tokio::test(start_paused = true)]
async fn a_resend_waits_and_keeps_the_connection_like_a_continuation() {
    let calls = Calls::new(vec![(0, Err(Lost::Busy(Some(7)))), rest()]);
    let limits = Limits::default().with_patience(Duration::ZERO);
    let items = all(&calls, stitch(&calls, vec![Fail], limits)).await;
    assert_eq!(text(&items), "[1, 20]");
    assert!(
        (7000..=7000 + SPREAD).contains(&calls.times()[1]),
        "{:?}",
        calls.times()
    );
    assert_eq!(comments(&items), [0, 5000]);
}

#[tokio::test(start_paused = true)]
async fn comments_come_while_a_continuation_is_awaited() {
    // The head comes after 12 s, then nothing for 9 s.
    let calls = Calls::new(vec![(
        12_000,
        Ok(vec![Wait(9000), chunk("[1, 20]"), finish("stop")]),
    )]);
    let items = all(
        &calls,
        stitch(&calls, vec![chunk("[1, 2"), Fail], Limits::default()),
    )
    .await;
    assert_eq!(comments(&items), [5000, 10_000, 15_000, 20_000]);
    assert_eq!(text(&items), "[1, 20]");
}

#[tokio::test(start_paused = true)]
async fn silence_counts_as_a_cut_where_a_document_is_open() {
    // In the first answer, 60 s after the last byte, whatever that was.
    let first = vec![
        chunk("[1, "),
        Wait(59_000),
        Send(": ping\n\n".into()),
        Wait(59_000),
        chunk("2"),
        Stall,
    ];
    let calls = Calls::new(vec![rest()]);
    let items = all(&calls, stitch(&calls, first, Limits::default())).await;
    assert_eq!(
        (calls.times(), text(&items)),
        (vec![178_000], "[1, 20]".to_owned())
    );

    // After a finish that was withheld.
    let calls = Calls::new(vec![rest()]);
    let length = Send(
        r#"data: {"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#
            .to_owned()
            + "\n\n",
    );
    all(
        &calls,
        stitch(
            &calls,
            vec![chunk("[1, 2"), length, Stall],
            Limits::default(),
        ),
    )
    .await;
    assert_eq!(calls.times(), [60_000]);

    // In a continuation that has sent text: 60 s; in one that has sent none, or has not answered:
    // 300 s.
    let begun = vec![Send(": ping\n\n".into()), Stall];
    let calls = Calls::new(vec![(0, Ok(begun)), (400_000, Ok(vec![])), rest()]);
    let items = all(
        &calls,
        stitch(&calls, vec![chunk("[1, 2"), Fail], Limits::default()),
    )
    .await;
    assert_eq!(
        (calls.times(), text(&items)),
        (vec![0, 300_000, 600_000], "[1, 20]".to_owned())
    );
    let whole = (0, Ok(vec![chunk("[1, 20, 3]"), finish("stop")]));
    let calls = Calls::new(vec![(0, Ok(vec![chunk("[1, 20, "), Stall])), whole]);
    all(
        &calls,
        stitch(&calls, vec![chunk("[1, 2"), Fail], Limits::default()),
    )
    .await;
    assert_eq!(calls.times(), [0, 60_000]);
    let calls = Calls::new(vec![(0, Ok(vec![Stall])), rest()]);
    all(
        &calls,
        stitch(&calls, vec![chunk("[1, 2"), Fail], Limits::default()),
    )
    .await;
    assert_eq!(calls.times(), [0, 300_000]);

    // Before anything of the document: 300 s.
    let calls = Calls::new(vec![rest()]);
    all(&calls, stitch(&calls, vec![Stall], Limits::default())).await;
    assert_eq!(calls.times(), [300_000]);
}

/// An upstream that does not end after a whole document is not waited for.
#[tokio::test(start_paused = true)]
async fn silence_after_a_whole_document_ends_the_answer() {
    for first in [
        vec![chunk("[1]"), Stall],
        vec![chunk("[1]"), finish("stop"), Stall],
    ] {
        let calls = Calls::new(vec![]);
        let items = all(&calls, stitch(&calls, first, Limits::default())).await;
        assert_eq!((calls.times(), text(&items)), (vec![], "[1]".to_owned()));
        assert_eq!(calls.open(), 0);
    }
}

/// What passes has the longest time there is: nothing of it could be asked for again.
#[tokio::test(start_paused = true)]
async fn silence_elsewhere_ends_the_answer_after_the_longest_time() {
    let tool = json!({"id": "a", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}}]});
    for first in [
        vec![chunk("Hello"), Stall],
        vec![chunk("{'a"), Stall],
        vec![Send(format!("data: {tool}\n\n")), Stall],
        vec![chunk("Hello"), finish("stop"), Stall],
    ] {
        let calls = Calls::new(vec![]);
        let items = all(&calls, stitch(&calls, first, Limits::default())).await;
        assert_eq!(
            (calls.elapsed(), calls.times(), calls.open()),
            (300_000, vec![], 0),
            "{items:?}"
        );
        // Where the answer has ended, no error follows.
        let last = &items.last().unwrap().1;
        assert!(
            last.contains("\"code\":\"first_byte_timeout\"") || last.ends_with("[DONE]\n\n"),
            "{items:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn limits_may_be_unlimited() {
    let never = Duration::MAX;
    let limits = Limits::default()
        .with_idle_timeout(never)
        .with_first_byte_timeout(never)
        .with_text_timeout(never)
        .with_keep_alive_interval(never)
        .with_max_backoff(never);
    let calls = Calls::new(vec![
        (0, Err(Lost::Busy(Some(5)))),
        (1_000_000_000, rest().1),
    ]);
    let items = all(
        &calls,
        stitch(
            &calls,
            vec![chunk("[1, 2"), Wait(100_000_000), Fail],
            limits.clone(),
        ),
    )
    .await;
    assert_eq!(text(&items), "[1, 20]");

    let calls = Calls::new(vec![(0, Err(Lost::Busy(Some(u64::MAX))))]);
    let mut stream = stitch(&calls, vec![chunk("[1, 2"), Fail], limits);
    let waits = async { while stream.next().await.is_some() {} };
    assert!(
        timeout(Duration::from_secs(1_000_000_000), waits)
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_of_an_answer_that_passes_through_reaches_the_reader() {
    let calls = Calls::new(vec![]);
    let items = all(
        &calls,
        stitch(&calls, vec![chunk("Hello"), Fail], Limits::default()),
    )
    .await;
    assert_eq!(items.last().unwrap().1, "Connection");
    assert_eq!(calls.open(), 0);

    // The error of an earlier call does not: a further call replaced it.
    let calls = Calls::new(vec![(0, Ok(vec![chunk("Hello")]))]);
    let items = all(
        &calls,
        stitch(&calls, vec![chunk(""), Fail], Limits::default()),
    )
    .await;
    assert_eq!(text(&items), "Hello");
    assert!(
        items.iter().all(|(_, item)| item != "Connection"),
        "{items:?}"
    );
}

/// The upstream call ends at once, wherever the reader leaves.
#[tokio::test(start_paused = true)]
async fn dropping_an_adapter_drops_the_call() {
    let length = Send(
        r#"data: {"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#
            .to_owned()
            + "\n\n",
    );
    let cut = || vec![chunk("[1, 2"), Fail];
    // Before the first byte, while it is healthy, while a finish is withheld, while a call waits to
    // be made again, before the head of a continuation, and in one.
    let scenes: [(Vec<Step>, Vec<Answer>, usize); 6] = [
        (vec![Stall], vec![], 1),
        (vec![chunk("[1"), Stall], vec![], 1),
        (vec![chunk("[1"), length, Stall], vec![], 1),
        (cut(), vec![(0, Err(Lost::Busy(Some(9))))], 0),
        (cut(), vec![(9000, Ok(vec![]))], 1),
        (cut(), vec![(0, Ok(vec![chunk("[1, 20"), Stall]))], 1),
    ];
    for (scene, (first, answers, open)) in scenes.into_iter().enumerate() {
        let calls = Calls::new(answers);
        let mut stream = stitch(&calls, first, Limits::default());
        while let Ok(Some(_)) = timeout(Duration::from_millis(100), stream.next()).await {}
        assert_eq!(calls.open(), open, "{scene}");
        drop(stream);
        assert_eq!(calls.open(), 0, "{scene}");
    }

    let calls = Calls::new(vec![]);
    let mut stream = texts(&calls, vec![Send("[1".into()), Stall], Limits::default());
    assert_eq!(stream.next().await, Some(Ok("[1".into())));
    assert_eq!(calls.open(), 1);
    drop(stream);
    assert_eq!(calls.open(), 0);
}

/// At most one call is open at a time.
#[tokio::test(start_paused = true)]
async fn a_call_is_over_before_the_next_begins() {
    let first = vec![chunk("[1, 2"), finish("length"), Stall];
    let calls = Calls::new(vec![(5000, rest().1)]);
    let mut stream = stitch(&calls, first, Limits::default());
    while stream.next().await.is_some() {
        assert!(calls.open() <= 1);
    }
    // The first call's connection stays open after `[DONE]`, so the next call waits half a second
    // for more text.
    assert_eq!(calls.times(), [500]);
}

/// A poll that is cancelled loses nothing.
#[tokio::test(start_paused = true)]
async fn polls_can_be_abandoned() {
    let first = vec![
        Wait(30),
        chunk("[1, "),
        Wait(30),
        chunk("2"),
        Wait(30),
        Fail,
    ];
    let answers = || {
        vec![
            (30, Err(Lost::Busy(None))),
            (
                30,
                Ok(vec![
                    Wait(30),
                    chunk("[1, 2"),
                    Wait(30),
                    chunk("0]"),
                    finish("stop"),
                ]),
            ),
        ]
    };
    let calls = Calls::new(answers());
    let expected: String = all(&calls, stitch(&calls, first.clone(), Limits::default()))
        .await
        .into_iter()
        .map(|item| item.1)
        .collect();

    let calls = Calls::new(answers());
    let mut stream = stitch(&calls, first, Limits::default());
    let mut seen = String::new();
    loop {
        match timeout(Duration::from_millis(7), stream.next()).await {
            Err(_) => {}
            Ok(None) => break,
            Ok(Some(item)) => seen.push_str(std::str::from_utf8(&item.unwrap()).unwrap()),
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(calls.times().len(), 2);
}

/// An adapter's type can be named; the adapter may borrow, and is `Send` and `Unpin`.
#[test]
fn adapters_can_be_named_and_sent() {
    struct Answers {
        bytes: Stitch<'static, Lost>,
        text: StitchText<'static, Lost>,
    }
    fn sent<T: std::marker::Send + Unpin>(_: &T) {}
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = || tokio_stream::iter([Ok(Bytes::new())]);
        let bytes = Stitcher::new().stream(first(), move |_| async move { Ok(first()) });
        let answers = Answers {
            bytes,
            text: stitch_text(&Calls::new(vec![]), vec![], Limits::default()),
        };
        sent(&answers);
        assert_eq!(
            stitch_text(&Calls::new(vec![]), vec![], Limits::default())
                .into_outcome()
                .to_string(),
            "incomplete after 0 continuations, 0 failures: stopped by abandoned"
        );
        assert!(
            answers.text.outcome().is_none() && format!("{:?}", answers.bytes).contains("Driver")
        );
        let body = String::from("{}");
        sent(&Stitcher::new().stream(first(), async |retry| {
            assert!(!retry.body(&body).is_empty());
            Ok(first())
        }));
    });
}

fn texts(calls: &Calls, first: Vec<Step>, limits: Limits) -> Boxed<String> {
    Box::pin(stitch_text(calls, first, limits))
}

fn stitch_text(calls: &Calls, first: Vec<Step>, limits: Limits) -> StitchText<'static, Lost> {
    let calls = calls.clone();
    let first = Deltas(calls.upstream(first));
    let reopen = move |retry| {
        let calls = calls.clone();
        async move { calls.reopen(retry).await.map(Deltas) }
    };
    Stitcher::new()
        .limits(limits)
        .give_up(GiveUp::Close)
        .text(first, reopen)
        .on_rejection(rejection)
}

/// The loop over text deltas: the text, its outcome, and when the calls were made.
#[tokio::test(start_paused = true)]
async fn text_deltas() {
    let say = |text: &str| Send(text.to_owned());
    let answer = |text: &str| (0, Ok(vec![say(text)]));
    type Scene<'a> = (Vec<Step>, Vec<Answer>, &'a str, Status, Vec<u64>);
    let scenes: Vec<Scene<'_>> = vec![
        (
            vec![say("[1]"), Fail],
            vec![],
            "[1]",
            Status::Complete,
            vec![],
        ),
        (
            vec![say("[1, "), say("2"), Fail],
            vec![answer("[1, 20]")],
            "[1, 20]",
            Status::Complete,
            vec![0],
        ),
        (
            vec![say("[1, 2"), Stall],
            vec![answer("[1, 20]")],
            "[1, 20]",
            Status::Complete,
            vec![60_000],
        ),
        (
            vec![say(""), say("[1"), say(""), Fail],
            vec![(0, Ok(vec![say(""), say("[1"), say(""), say(", 2]")]))],
            "[1, 2]",
            Status::Complete,
            vec![0],
        ),
        (
            vec![say("```json\n[1"), Fail],
            vec![answer(""), answer(""), answer("")],
            "```json\n[1]\n```",
            Status::Closed,
            vec![0, 0, 0],
        ),
    ];
    for (first, answers, expected, status, times) in scenes {
        let calls = Calls::new(answers);
        let mut stream = stitch_text(&calls, first, Limits::default());
        let mut seen = String::new();
        while let Some(delta) = stream.next().await {
            seen.push_str(&delta.unwrap());
        }
        assert_eq!(seen, expected);
        assert_eq!(stream.outcome().unwrap().status(), status, "{expected}");
        assert_eq!((calls.times(), calls.open()), (times, 0), "{expected}");
    }

    // The reader gets the error of prose, and the last error where nothing was delivered.
    let calls = Calls::new(vec![]);
    let items: Vec<_> = texts(&calls, vec![say("Hello"), Fail], Limits::default())
        .collect()
        .await;
    assert_eq!(items, [Ok("Hello".to_owned()), Err(Lost::Connection)]);
    let calls = Calls::new(vec![(0, Ok(vec![Fail])), (0, Err(Lost::Forbidden))]);
    let limits = Limits::default().with_patience(Duration::ZERO);
    let items: Vec<_> = texts(&calls, vec![Fail], limits).collect().await;
    assert_eq!(items, [Err(Lost::Forbidden)]);
}

type Said = Vec<Result<TextDelta, Lost>>;

/// Reads a text to its end. Returns the text, its outcome, and how many further calls were made.
async fn deltas(
    stitcher: Stitcher,
    first: Said,
    rest: &str,
) -> (String, Status, Option<Finish>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let mut text = stitcher.text(tokio_stream::iter(first), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let rest = tokio_stream::iter(vec![Ok(TextDelta::new(rest).with_finish("stop"))]);
        async move { Ok(rest) }
    });
    let mut seen = String::new();
    while let Some(delta) = text.next().await {
        seen.push_str(&delta.unwrap());
    }
    let outcome = text.into_outcome();
    (
        seen,
        outcome.status(),
        outcome.finish().cloned(),
        asked.load(Ordering::SeqCst),
    )
}

/// The finish of an answer decides whether the rest is asked for.
#[tokio::test(start_paused = true)]
async fn a_finish_decides_whether_the_rest_is_asked_for() {
    let cut = |finish: &str| vec![Ok(TextDelta::new("[1, 2").with_finish(finish))];
    for (finish, asked) in [
        ("length", 1),
        ("max_tokens", 1),
        ("MAX_TOKENS", 1),
        ("max_output_tokens", 1),
        ("stop", 1),
        ("end_turn", 1),
        ("content_filter", 0),
        ("stop_sequence", 0),
        ("tool_calls", 0),
        ("SAFETY", 0),
    ] {
        let (text, _, _, calls) = deltas(Stitcher::new(), cut(finish), "[1, 20]").await;
        assert_eq!(
            (text.as_str(), calls),
            (if asked == 1 { "[1, 20]" } else { "[1, 2" }, asked),
            "{finish}"
        );
    }
    let (text, status, finish, calls) =
        deltas(Stitcher::new().trust_stop(), cut("stop"), "[1, 20]").await;
    assert_eq!(
        (text.as_str(), status, finish, calls),
        ("[1, 2", Status::PassedThrough, Some(Finish::Stop), 0)
    );

    // Usage after the finish is counted, and an error after it does not hide the finish.
    let first = vec![
        Ok(TextDelta::from((
            "[1, 2".to_owned(),
            Some(Finish::ContentFilter),
        ))),
        Ok(TextDelta::default().with_tokens(7)),
        Err(Lost::Connection),
    ];
    let mut text = Stitcher::new().text(tokio_stream::iter(first), |_| {
        std::future::pending::<Result<_, Lost>>()
    });
    assert_eq!(text.next().await, Some(Ok("[1, 2".to_owned())));
    let last = text.next().await;
    assert_eq!(
        last,
        Some(Err(Lost::Connection)),
        "an answer that is not continued ends as its call did"
    );
    let outcome = text.into_outcome();
    assert_eq!(outcome.finish(), Some(&Finish::ContentFilter));
    assert_eq!(outcome.tally().tokens, [Some(7)]);
}

/// With a finish in every delta, or an early one, the answer ends with its stream.
#[tokio::test(start_paused = true)]
async fn text_after_a_finish_refutes_it() {
    let said = |text: &str, finish: Option<Finish>| Ok(TextDelta::from((text.to_owned(), finish)));
    let stop = || Some(Finish::Stop);
    let whole = vec![
        said("[1, ", stop()),
        said("2, ", stop()),
        said("3]", stop()),
    ];
    let (text, status, finish, calls) = deltas(Stitcher::new(), whole, "").await;
    assert_eq!(
        (text.as_str(), status, finish, calls),
        ("[1, 2, 3]", Status::PassedThrough, stop(), 0)
    );
    // A `stop` is final here, but the connection was lost after more text.
    let lost = vec![said("[1, ", stop()), said("2", None), Err(Lost::Connection)];
    let (text, status, _, calls) = deltas(Stitcher::new().trust_stop(), lost, "[1, 20]").await;
    assert_eq!(
        (text.as_str(), status, calls),
        ("[1, 20]", Status::Complete, 1)
    );
}

/// A continuation is joined and ends with `stop`, but the document is not whole.
#[tokio::test(start_paused = true)]
async fn a_text_that_is_given_up_ends_like_its_first_cut() {
    let leaving = || Stitcher::new().give_up(GiveUp::Leave);
    let first = vec![Ok(TextDelta::new("[1, 2").with_finish("length"))];
    let (text, status, finish, _) = deltas(leaving(), first, "[1, 2, 3 x]").await;
    assert_eq!(
        (text.as_str(), status, finish),
        ("[1, 2, 3 ", Status::Incomplete, Some(Finish::Length))
    );
    // The first cut was a lost connection: the reader gets its error.
    let first = vec![Ok(TextDelta::new("[1, 2")), Err(Lost::Connection)];
    let mut text = leaving()
        .max_continuations(1)
        .text(tokio_stream::iter(first), |_| async {
            Ok(tokio_stream::iter(vec![Ok(
                TextDelta::new("[1, 20, 3").with_finish("stop")
            )]))
        });
    let items: Vec<_> = (&mut text).collect().await;
    assert_eq!(items.last(), Some(&Err(Lost::Connection)), "{items:?}");
    assert_eq!(
        (
            text.outcome().unwrap().status(),
            text.outcome().unwrap().finish()
        ),
        (Status::Incomplete, None)
    );
}

/// The limit ends the last call after the root.
#[tokio::test(start_paused = true)]
async fn a_text_that_is_completed_ends_as_a_success() {
    let first = vec![Ok(TextDelta::new("[1, 2").with_finish("length"))];
    let rest = vec![Ok(
        TextDelta::new("[1, 2, 3]\n\nI hope").with_finish("length")
    )];
    let mut rest = Some(rest);
    let mut text = Stitcher::new().text(tokio_stream::iter(first), move |_| {
        let rest = rest.take().unwrap_or_default();
        async move { Ok::<_, Lost>(tokio_stream::iter(rest)) }
    });
    let seen: String = (&mut text).map(Result::unwrap).collect().await;
    assert_eq!(seen, "[1, 2, 3]");
    assert_eq!(text.outcome().unwrap().finish(), Some(&Finish::Stop));
}

/// An answer with a tool call passes through; strings are deltas.
#[tokio::test(start_paused = true)]
async fn deltas_without_text() {
    let first = vec![
        Ok(TextDelta::tool_call()),
        Ok(TextDelta::new("[1, 2").with_finish("length")),
    ];
    assert_eq!(deltas(Stitcher::new(), first, "[1, 20]").await.3, 0);
    let first = vec![
        Ok(TextDelta::reasoning()),
        Ok("[1, ".into()),
        Ok(Some("2".to_owned()).into()),
        Err(Lost::Connection),
    ];
    let (text, status, ..) = deltas(Stitcher::new(), first, "[1, 20]").await;
    assert_eq!((text.as_str(), status), ("[1, 20]", Status::Complete));
}

/// Returns the first further call of an answer that is cut after `text`.
async fn retry_after(stitcher: Stitcher, text: &str) -> Retry {
    let asked = Mutex::new(None);
    let first = tokio_stream::iter(vec![Ok::<_, Lost>(text.to_owned())]);
    let mut stream = stitcher.text(first, |retry| {
        asked.lock().unwrap().get_or_insert(retry);
        async { Err(Lost::Forbidden) }
    });
    while stream.next().await.is_some() {}
    drop(stream);
    asked.into_inner().unwrap().unwrap()
}

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"Go"}],"response_format":{"type":"json_object"}}"#;

#[tokio::test(start_paused = true)]
async fn a_retry_applies_itself() {
    let question = [("user", "Go".to_owned())];
    let message = json!({"role": "user", "content": "Go"});

    let resend = retry_after(Stitcher::new(), "").await;
    assert_eq!(resend.body(BODY), BODY);
    assert_eq!(resend.messages(&question), question);

    let words = retry_after(Stitcher::new(), "[1, 2").await;
    let body: Value = serde_json::from_str(&words.body(BODY)).unwrap();
    let messages = words.messages(&question);
    assert_eq!(messages[1], ("assistant", "[1, 2".to_owned()));
    assert!(messages[2].0 == "user" && messages[2].1.contains("<overlap_context>"));
    assert!(body.get("response_format").is_none());
    assert_eq!(
        body["messages"],
        Value::from(words.messages(std::slice::from_ref(&message)))
    );
    assert_eq!(
        words.typed(&serde_json::from_str::<Value>(BODY).unwrap()),
        body
    );
    assert_eq!(words.path("/v1/chat/completions"), "/v1/chat/completions");

    // A prefill has the provider's own form.
    let table = Table::default();
    for (host, member, path) in [
        ("api.deepseek.com", "prefix", "/beta/chat/completions"),
        ("api.mistral.ai", "prefix", "/v1/chat/completions"),
        ("api.moonshot.ai", "partial", "/v1/chat/completions"),
    ] {
        let prefill = retry_after(
            Stitcher::new().capability(table.of("m", Some(host))),
            "[1, 2",
        )
        .await;
        let turn = json!({"role": "assistant", "content": "[1, 2", member: true});
        let body: Value = serde_json::from_str(&prefill.body(BODY)).unwrap();
        assert_eq!(body["messages"], json!([message, turn]), "{host}");
        assert_eq!(
            prefill.messages(std::slice::from_ref(&message)),
            [message.clone(), turn],
            "{host}"
        );
        assert_eq!(prefill.path("/v1/chat/completions"), path);
        assert!(prefill.is_prefill());
    }

    // What is not a chat request is returned as it is.
    for other in ["", "[]", "{\"model\":1}", "{\"messages\":[}"] {
        assert_eq!(
            (words.body(other).as_str(), words.try_body(other)),
            (other, None)
        );
    }
    assert_eq!(words.typed(&7), 7);
}

/// A prefill that a provider rejects is followed by a re-prompt, which is no failure. An error
/// before the first delta of a further call is a rejection.
#[tokio::test(start_paused = true)]
async fn a_rejected_prefill_is_followed_by_a_re_prompt() {
    let calls = Calls::new(vec![]);
    let asked = Mutex::new(Vec::new());
    let first = |text: &str| tokio_stream::iter(vec![Ok(text.to_owned())]);
    let claude = Table::default().of("claude-3-opus", None);
    for is_lazy in [false, true] {
        asked.lock().unwrap().clear();
        let mut text = Stitcher::new()
            .capability(claude.clone())
            .text(first("[1, 2"), |retry| {
                let answer = match (retry.is_prefill(), is_lazy) {
                    (false, _) => Ok(first("[1, 20]")),
                    (true, true) => Ok(tokio_stream::iter(vec![Err(Lost::Forbidden)])),
                    (true, false) => Err(Lost::Forbidden),
                };
                asked
                    .lock()
                    .unwrap()
                    .push((calls.elapsed(), retry.is_prefill()));
                std::future::ready(answer)
            });
        let mut whole = String::new();
        while let Some(delta) = text.next().await {
            whole.push_str(&delta.unwrap());
        }
        assert_eq!(
            (whole.as_str(), text.into_outcome().tally().failures),
            ("[1, 20]", 0)
        );
        assert_eq!(*asked.lock().unwrap(), [(0, true), (0, false)]);
    }
}

/// A message type of the user.
#[tokio::test(start_paused = true)]
async fn a_message_type_of_the_user() {
    #[derive(Clone, Debug, PartialEq)]
    enum Turn {
        Model(String),
        Person(String),
    }
    impl Message for Turn {
        fn assistant(content: String) -> Self {
            Self::Model(content)
        }

        fn user(content: String) -> Self {
            Self::Person(content)
        }
    }
    let retry = retry_after(Stitcher::new(), "[1, 2").await;
    let messages = retry.messages(&[Turn::Person("Go".to_owned())]);
    assert_eq!(messages[1], Turn::Model("[1, 2".to_owned()));
    assert!(matches!(&messages[2], Turn::Person(prompt) if prompt.contains("<overlap_context>")));
    let retry = retry_after(
        Stitcher::new().capability(Table::default().of("claude-3-opus", None)),
        "[1, 2",
    )
    .await;
    assert_eq!(
        retry.messages::<Turn>(&[]),
        [Turn::Model("[1, 2".to_owned())]
    );
}

/// One call makes an SDK's answer whole: requests and chunks are types that serde writes as the
/// API's JSON.
#[tokio::test(start_paused = true)]
async fn one_call_for_an_sdk() {
    let chunk = |delta: Value, finish: Value| {
        Ok(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let scenes = [
        (json!(null), json!("length"), "[1, 20]", 2),
        (json!(null), json!("stop"), "[1, 20]", 2),
        (json!(["###"]), json!("stop"), "[1, 2", 1),
        (json!(null), json!("content_filter"), "[1, 2", 1),
    ];
    for (stop, finish, expected, calls) in scenes {
        let request =
            json!({"model": "m", "messages": [{"role": "user", "content": "Go"}], "stop": stop});
        let asked = Mutex::new(Vec::new());
        let answer = |request: Value| {
            let is_first = request["messages"].as_array().unwrap().len() == 1;
            asked.lock().unwrap().push(request);
            let (text, finish) = if is_first {
                ("[1, 2", finish.clone())
            } else {
                ("[1, 20]", json!("stop"))
            };
            let usage = Ok(json!({"choices": [], "usage": {"completion_tokens": 3}}));
            let chunks: Vec<Result<Value, Lost>> = vec![
                chunk(json!({"content": text}), Value::Null),
                chunk(json!({}), finish),
                usage,
            ];
            async move { Ok(tokio_stream::iter(chunks)) }
        };
        let steps = AtomicUsize::new(0);
        let mut text = Stitcher::new()
            .chat(request, answer)
            .await
            .unwrap()
            .observe(|event| {
                steps.fetch_add(
                    usize::from(matches!(event, SessionEvent::Done(_))),
                    Ordering::SeqCst,
                );
            });
        let mut seen = String::new();
        while let Some(delta) = text.next().await {
            seen.push_str(&delta.unwrap());
        }
        assert_eq!(seen, expected);
        assert_eq!(text.into_outcome().tally().tokens, vec![Some(3); calls]);
        assert_eq!(
            (asked.into_inner().unwrap().len(), steps.into_inner()),
            (calls, 1)
        );
    }
    let request = json!({"messages": [], "reasoning_effort": "high"});
    let claude = Stitcher::new().capability(Table::default().of("claude-3-opus", None));
    let answer = |request: Value| {
        let messages = request["messages"].as_array().unwrap().len();
        // No prefill: the re-prompt has two messages.
        assert!([0, 2].contains(&messages), "{request}");
        let text = if messages == 0 { "[1, 2" } else { "[1, 20]" };
        std::future::ready(Ok::<_, Lost>(tokio_stream::iter([chunk(
            json!({"content": text}),
            Value::Null,
        )])))
    };
    let mut text = claude.chat(request, answer).await.unwrap();
    while text.next().await.is_some() {}
    assert_eq!(text.into_outcome().status(), Status::Complete);

    let refused = Stitcher::new().chat(json!({}), |_| async {
        Err::<tokio_stream::Empty<Result<Value, _>>, _>(Lost::Forbidden)
    });
    assert_eq!(refused.await.unwrap_err(), Lost::Forbidden);
}

/// Each part of an event takes some time, and the reader gets no item before the last part.
#[tokio::test]
async fn a_long_poll_lets_other_tasks_run() {
    let parts = [
        "data: {\"id\": \"a\", \"choices\"",
        ": [{\"index\": 0, \"delta\": ",
        "{\"content\": \"[1]",
        "\"}}]}",
        "\n\n",
    ];
    let slow = tokio_stream::iter(parts).map(|part| {
        std::thread::sleep(Duration::from_millis(10));
        Ok::<_, Lost>(Bytes::from(part))
    });
    let mut stream = Stitcher::new().stream(slow, |_| async { Err(Lost::Connection) });
    let mut pending = 0;
    let first = poll_fn(|cx| {
        let polled = Pin::new(&mut stream).poll_next(cx);
        pending += usize::from(polled.is_pending());
        polled
    });
    assert!(first.await.unwrap().is_ok());
    assert_eq!(pending, parts.len() - 1);
}

/// Connects, and returns how often that was polled.
async fn polls_to_connect(address: SocketAddr) -> usize {
    let mut connecting = pin!(TcpStream::connect(address));
    let mut polls = 0;
    let connected = poll_fn(|cx| {
        polls += 1;
        connecting.as_mut().poll(cx)
    });
    connected.await.unwrap();
    polls
}

/// The delivered text is counted in steps while a further call is made. The call continues between
/// two steps when its socket is ready, so it needs about as many polls as without the counting.
#[tokio::test]
async fn a_call_does_not_wait_for_the_counting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // As in a server, both run as tasks: the runtime checks its sockets after the ready tasks.
    let alone = tokio::spawn(polls_to_connect(address)).await.unwrap();
    let calls = Calls::new(Vec::new());
    let delivered = format!("[\"{}", "The plants grew, and then ".repeat(300));
    let first = Wire(calls.upstream(vec![chunk(&delivered), Fail]));
    let (sender, mut counted) = mpsc::channel(1);
    let reopen = move |_| {
        let sender = sender.clone();
        async move {
            let polls = polls_to_connect(address).await;
            sender.send(polls).await.unwrap();
            std::future::pending::<Result<Wire, Lost>>().await
        }
    };
    let mut stream = Stitcher::new().stream(first, reopen);
    let reader = tokio::spawn(async move { while stream.next().await.is_some() {} });
    let counted = counted.recv().await.unwrap();
    assert!(counted <= alone + 1, "{counted}, alone {alone}");
    reader.abort();
}
