//! The loop: what is asked for after each call, when it ends, and how.

use std::time::Duration;

use restitch::AllowedRoots;
use restitch::provider::Finish;
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, CutCause, FailureReason, GiveUp, Input,
    Outcome, Output, PrefillOptions, Request, Session, SessionEvent, Status, StopReason, stitch,
};
use restitch::splice::{Alignment, Expect, SpliceError};
use restitch::{Limits, SyntaxErrorKind};
use serde_json::Value;

use restitch_testing::silent;

const START: Duration = Duration::from_secs(100);

/// A session that is driven by hand: what it has sent, and what it has asked for.
struct Driver {
    session: Session,
    now: Duration,
    /// The text that a client has, the first answer's included.
    client: String,
    calls: Vec<(Request, Duration)>,
    failures: Vec<FailureReason>,
    seams: Vec<Alignment>,
    outcome: Option<Outcome>,
    events: Vec<SessionEvent>,
}

impl Driver {
    fn new(limits: Limits) -> Self {
        let mut session = Session::new(limits);
        session.set_give_up(GiveUp::Close);
        let (calls, failures, seams) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            session,
            now: START,
            client: String::new(),
            calls,
            failures,
            seams,
            outcome: None,
            events: Vec::new(),
        }
    }

    fn text(&mut self, text: &str) -> &mut Self {
        if self.session.is_first() {
            self.client.push_str(text);
        }
        self.session.handle_input(self.now, Input::Text(text));
        self.drain()
    }

    fn end(&mut self, end: CallEnd) -> &mut Self {
        self.session.handle_input(self.now, Input::CallEnd(end));
        self.drain()
    }

    fn step(&mut self, event: SessionEvent) {
        match &event {
            SessionEvent::Joined { seam, .. } => self.seams.push(seam.alignment),
            SessionEvent::Failed { reason, .. } => self.failures.push(reason.clone()),
            _ => {}
        }
        self.events.push(event);
    }

    /// A whole call: its text, then its end.
    fn call(&mut self, text: &str, end: CallEnd) -> &mut Self {
        self.text(text).end(end)
    }

    fn drain(&mut self) -> &mut Self {
        while let Some(output) = self.session.poll_output() {
            assert!(
                self.outcome.is_none(),
                "nothing follows the end: {output:?}"
            );
            match output {
                Output::Text(text) => self.client.push_str(&text),
                Output::Event(event) => self.step(event),
                Output::Call { request, at } => self.calls.push((request, at)),
                Output::Done(outcome) => self.outcome = Some(outcome),
                _ => panic!("unknown output"),
            }
        }
        assert_eq!(self.session.is_done(), self.outcome.is_some());
        assert_eq!(
            self.session.document().text().trim_end(),
            self.client.trim_end(),
            "the client has what is settled"
        );
        self
    }

    #[track_caller]
    fn ended(&self, status: Status, continuations: u32, failures: u32) -> &Outcome {
        let outcome = self.outcome.as_ref().expect("it has ended");
        assert_eq!(
            (
                outcome.status(),
                outcome.tally().continuations,
                outcome.tally().failures
            ),
            (status, continuations, failures)
        );
        assert_eq!(self.failures.len(), failures as usize);
        outcome
    }

    #[track_caller]
    fn goes_on(&self, calls: usize, failures: usize) {
        assert_eq!(
            (self.outcome.as_ref(), self.calls.len(), self.failures.len()),
            (None, calls, failures)
        );
    }

    /// How long the newest call is to wait.
    fn wait(&self) -> Duration {
        self.calls.last().unwrap().1 - self.now
    }

    fn anchor(&self) -> &str {
        &self.calls.last().unwrap().0.turn.as_ref().unwrap().anchor
    }
}

fn length() -> CallEnd {
    CallEnd::Finished(Finish::Length)
}

fn stop() -> CallEnd {
    CallEnd::Finished(Finish::Stop)
}

fn ended(reason: &str) -> CallEnd {
    CallEnd::Finished(Finish::from(reason))
}

fn rejected(transient: bool, retry_after: Option<u64>) -> CallEnd {
    CallEnd::Rejected {
        reason: "429".to_owned(),
        transient,
        retry_after: retry_after.map(Duration::from_secs),
    }
}

/// The same question would be refused again, so a rendering replaces the delivered text, once.
#[test]
fn a_request_that_is_too_long_is_made_once_more_with_a_rendering() {
    for end in [
        CallEnd::TooLong("400".to_owned()),
        // Of a stream of Responses.
        CallEnd::Error("Your input exceeds the context window of this model.".to_owned()),
    ] {
        is_made_once_more_with_a_rendering(&end);
    }
}

fn is_made_once_more_with_a_rendering(end: &CallEnd) {
    let too_long = || end.clone();
    let long = format!("{{\"text\": \"{}", "harbour ".repeat(100));
    let prefill = || ContinuationStrategy::default().prefill(PrefillOptions::default());
    for strategy in [ContinuationStrategy::default(), prefill()] {
        for most in [1_000, 100, 16 << 10] {
            let limits = Limits::default()
                .with_max_verbatim_context(most)
                .with_max_consecutive_failures(9);
            let mut driver = Driver::new(limits);
            driver.session.set_strategy(strategy.clone());
            driver.call(&long, length()).call("", too_long());
            let turn = driver.calls[1].0.turn.clone().unwrap();
            assert_eq!(turn.mode, ContinuationMode::Reprompt, "{most}");
            assert!(turn.delivered.len() < 600, "{most}: {}", turn.delivered);
            assert!(turn.delivered.starts_with("{\"text\": \"…"), "{most}");
            driver.call("", too_long());
            let outcome = driver.outcome.as_ref().unwrap();
            assert_eq!(
                (driver.calls.len(), outcome.reason()),
                (2, Some(StopReason::Context)),
                "{most}"
            );
        }
    }
    // The text only grows, so the rendering stays.
    let mut driver = Driver::new(Limits::default());
    driver.session.set_strategy(prefill());
    driver.call(&long, length()).call("", too_long());
    let anchor = driver.anchor().to_owned();
    driver.call(&format!("{anchor}of salt and rope"), length());
    let turn = driver.calls[2].0.turn.clone().unwrap();
    assert_eq!(turn.mode, ContinuationMode::Reprompt);
    assert!(turn.delivered.len() < 600, "{}", turn.delivered);
    driver.call("", too_long());
    assert_eq!(
        driver.outcome.as_ref().unwrap().reason(),
        Some(StopReason::Context)
    );
}

#[test]
fn a_short_text_that_is_too_long_is_not_asked_for_again() {
    let prefill = ContinuationStrategy::default().prefill(PrefillOptions::default());
    for strategy in [ContinuationStrategy::default(), prefill] {
        let mut driver = Driver::new(Limits::default());
        driver.session.set_strategy(strategy);
        driver
            .call("{\"sections\": [{\"id\"", length())
            .call("", CallEnd::TooLong("400".to_owned()));
        assert_eq!((driver.calls.len(), driver.session.is_done()), (1, true));
        let outcome = driver.outcome.as_ref().unwrap();
        assert_eq!(
            (outcome.status(), outcome.reason()),
            (Status::Closed, Some(StopReason::Context))
        );
    }
}

/// The client would take the first text for all of them.
#[test]
fn more_json_after_the_root_is_no_success() {
    for more in [
        "\n{\"id\": 2}\n",
        ", \"c\": 5}",
        "\n\nAnswer:\n{\"summary\": \"Use it\", \"items\": [{\"id\": 1, \"na",
        "\n\nAll of it:\n```json\n[{\"id\": 1}, {\"id\"",
    ] {
        let mut driver = Driver::new(Limits::default());
        driver.call("{\"id\": 1, \"name\": \"Rialto no", length());
        let answer = format!("{}rth\"}}{more}", driver.anchor());
        driver.call(&answer, stop());
        let outcome = driver.ended(Status::Closed, 1, 0);
        assert_eq!(outcome.reason(), Some(StopReason::MoreJson), "{more}");
        assert_eq!(driver.client, "{\"id\": 1, \"name\": \"Rialto north\"}");
    }
    for end in [
        "\n```\n",
        "\n\nThat is all [of it].",
        "\n\nAn example of its use:\n```json\n{}\n```",
    ] {
        let mut driver = Driver::new(Limits::default());
        driver.call("{\"id\": 1, \"name\": \"Rialto no", length());
        let answer = format!("{}rth\"}}{end}", driver.anchor());
        driver.call(&answer, stop());
        driver.ended(Status::Complete, 1, 0);
    }
}

// The six test cases of the specification (accumulation_concept), by name.

/// Does not enter accumulation mode, and can be used directly.
#[test]
fn complete_json_on_first_iteration() {
    for end in [stop(), length(), CallEnd::Closed, CallEnd::Dropped] {
        let mut driver = Driver::new(Limits::default());
        driver.call("{\"sections\": [{\"id\": 1}]}", end);
        driver.ended(Status::PassedThrough, 0, 0);
        assert!(driver.calls.is_empty());
        assert_eq!(
            driver.session.document().complete().as_deref(),
            Some("{\"sections\": [{\"id\": 1}]}")
        );
    }
}

/// Enters accumulation mode and keeps the text for the next iteration.
#[test]
fn incomplete_json_on_first_iteration() {
    for end in [
        stop(),
        length(),
        CallEnd::Closed,
        CallEnd::Dropped,
        silent(),
        CallEnd::Error("overloaded".to_owned()),
    ] {
        let mut driver = Driver::new(Limits::default());
        driver.call("{\"sections\": [{\"id\": 1}, {\"id\"", end);
        driver.goes_on(1, 0);
        let turn = driver.calls[0].0.turn.as_ref().unwrap();
        assert_eq!(turn.delivered, "{\"sections\": [{\"id\": 1}, {\"id\"");
        assert_eq!(
            turn.anchor, turn.delivered,
            "a short text is its own anchor"
        );
        assert_eq!(driver.wait(), Duration::ZERO);
    }
}

/// Concatenates without duplicates, and parses.
#[test]
fn fragment_with_exact_continuation() {
    let mut driver = Driver::new(Limits::default());
    driver
        .call("{\"sections\": [{\"id\": 1}, {\"id\"", length())
        .call(": 2}]}", stop());
    driver.ended(Status::Complete, 1, 0);
    assert_eq!(driver.client, "{\"sections\": [{\"id\": 1}, {\"id\": 2}]}");
    assert_eq!(driver.seams, [Alignment::Exact]);
}

/// Detects and removes the overlap, and concatenates.
#[test]
fn fragment_with_overlap() {
    let mut driver = Driver::new(Limits::default());
    driver.call(
        "{\"title\": \"A report on the state of things\", \"sections\": [{\"id\": 1}, {\"id\"",
        length(),
    );
    let answer = format!("{}: 2}}]}}", driver.anchor());
    assert!(answer.len() < driver.client.len(), "the anchor is a tail");
    driver.call(&answer, stop());
    driver.ended(Status::Complete, 1, 0);
    assert_eq!(
        driver.client,
        "{\"title\": \"A report on the state of things\", \"sections\": [{\"id\": 1}, {\"id\": 2}]}"
    );
    assert_eq!(driver.seams, [Alignment::Anchor]);
}

/// Handles duplicate content, and adds none. That is no failure, but no progress either.
#[test]
fn fragment_with_full_overlap() {
    let mut driver = Driver::new(Limits::default());
    driver.call("{\"sections\": [{\"id\": 1}, {\"id\"", length());
    driver.call("{\"sections\": [{\"id\": 1}, {\"id\"", stop());
    driver.goes_on(2, 0);
    assert_eq!(driver.client, "{\"sections\": [{\"id\": 1}, {\"id\"");
    driver.call("{\"sections\": [{\"id\": 1}, {\"id\": 2}]}", stop());
    driver.ended(Status::Complete, 2, 0);
    assert_eq!(driver.client, "{\"sections\": [{\"id\": 1}, {\"id\": 2}]}");
}

/// Accumulates across all iterations, has a partial document for each prompt, and ends when the
/// JSON is valid.
#[test]
fn multiple_iterations() {
    let document = "{\"sections\": [{\"id\": 1, \"text\": \"one\"}, {\"id\": 2, \"text\": \"two\"}, {\"id\": 3, \"text\": \"three\"}]}";
    let mut driver = Driver::new(Limits::default());
    driver.call(&document[..40], length());
    let mut from = 40;
    for (n, to) in [50, 61, 77, document.len()].into_iter().enumerate() {
        driver.goes_on(n + 1, 0);
        let part: Value =
            serde_json::from_str(&driver.session.document().complete().unwrap()).unwrap();
        assert_eq!(part["sections"][0]["text"], "one");
        let start = document[..from].rfind(driver.anchor()).unwrap();
        driver.call(&document[start..to], length());
        from = to;
        assert_eq!(driver.client, document[..to]);
    }
    driver.ended(Status::Complete, 4, 0);
    assert_eq!(driver.client, document);
}

// The loop.

#[test]
fn three_failures_in_a_row_end_it() {
    let mut driver = Driver::new(Limits::default());
    driver.call("{\"a\": [1, ", length());
    driver.call("I'm sorry", stop()).call("", stop());
    driver.goes_on(3, 2);
    driver.call("I can't.", stop());
    let outcome = driver.ended(Status::Closed, 3, 3);
    assert_eq!(
        (driver.client.as_str(), outcome.synthesized()),
        ("{\"a\": [1, null]}", &["/a/1".to_owned()][..])
    );
    let report: Value = serde_json::from_str(&outcome.report()).unwrap();
    let expect = r#"{"status":"closed","continuations":3,"failures":3,"stop":"failures","cause":"length",
        "elements_may_be_missing":true,"synthesized":["/a/1"],"rungs":["words"]}"#;
    assert_eq!(report, serde_json::from_str::<Value>(expect).unwrap());
}

/// What a client has, and how the answer ended, where the rest of `{"a": [1, ` can't be had.
fn given_up(give_up: GiveUp, end: CallEnd) -> (String, Outcome) {
    let mut driver = Driver::new(Limits::default());
    driver.session.set_give_up(give_up);
    driver.call("```json\n{\"a\": [1, ", end);
    for _ in 0..3 {
        driver.call("I can't.", stop());
    }
    (
        driver.client.clone(),
        driver.outcome.clone().expect("three failures end it"),
    )
}

#[test]
fn leaving_adds_nothing_and_ends_as_the_text_was_cut() {
    let ends = [
        (
            CallEnd::Finished(Finish::Length),
            CutCause::Length,
            Some(Finish::Length),
        ),
        (
            CallEnd::Finished(Finish::Stop),
            CutCause::PrematureStop,
            Some(Finish::Stop),
        ),
        (CallEnd::Dropped, CutCause::Drop, None),
        (CallEnd::Closed, CutCause::Eof, None),
        (silent(), CutCause::Idle, None),
        (
            CallEnd::Error("overloaded".to_owned()),
            CutCause::InBand,
            None,
        ),
        (
            ended("network_error"),
            CutCause::UnknownFinish,
            Some(Finish::from("network_error")),
        ),
    ];
    for (end, cause, finish) in ends {
        let (client, outcome) = given_up(GiveUp::Leave, end);
        assert_eq!(
            client, "```json\n{\"a\": [1, ",
            "{cause}: not even the fence is closed"
        );
        let Outcome::Incomplete {
            reason,
            cause: found,
            finish: ended,
            tally,
        } = outcome
        else {
            panic!("{outcome}")
        };
        assert_eq!(
            (reason, found, ended),
            (StopReason::Failures, Some(cause), finish)
        );
        assert_eq!((tally.continuations, tally.failures), (3, 3));
    }
}

/// Servers invent reasons for answers that broke off; refusals have few names.
#[test]
fn an_unknown_finish_reason_is_a_cut_and_a_refusal_is_not() {
    let unknown = [
        "insufficient_system_resource",
        "network_error",
        "max_tokens",
        "LENGTH",
        "eos",
        "timeout",
        "unknown",
        "error",
        "OTHER",
        "incomplete",
    ];
    for reason in unknown {
        let mut driver = Driver::new(Limits::default());
        driver.call("[1, 2", ended(reason));
        assert_eq!(driver.calls.len(), 1, "{reason}");
        // A root that is closed needs nothing.
        let mut driver = Driver::new(Limits::default());
        driver.call("[1, 2]", ended(reason));
        driver.ended(Status::PassedThrough, 0, 0);
    }
    let known = [
        "content_filter",
        "content-filter",
        "CONTENT_FILTERED",
        "refusal",
        "SAFETY",
        "PROHIBITED_CONTENT",
        "IMAGE_PROHIBITED_CONTENT",
        "MODEL_ARMOR",
        "ERROR_TOXIC",
        "USER_CANCEL",
        "tool_calls",
        "tool_use",
        "pause_turn",
    ];
    for reason in known {
        let mut driver = Driver::new(Limits::default());
        driver.call("[1, 2", ended(reason));
        driver.ended(Status::PassedThrough, 0, 0);
    }
}

#[test]
fn an_error_that_is_asked_for_says_why_the_rest_is_missing() {
    let (client, outcome) = given_up(GiveUp::Error, length());
    assert_eq!(client, "```json\n{\"a\": [1, ");
    assert_eq!(
        (outcome.status(), outcome.cause()),
        (Status::Failed, Some(CutCause::Length))
    );
    assert_eq!(
        outcome.to_string(),
        "failed after 3 continuations, 3 failures: stopped by failures, cut by length"
    );
}

#[test]
fn closing_closes_the_fence_too() {
    let (client, outcome) = given_up(GiveUp::Close, length());
    assert_eq!(
        (client.as_str(), outcome.synthesized()),
        ("```json\n{\"a\": [1, null]}\n```", &["/a/1".to_owned()][..])
    );
}

#[test]
fn a_continuation_that_leaves_the_grammar_is_a_malformed_cut() {
    let mut driver = Driver::new(Limits::default().with_max_continuations(1));
    driver.session.set_give_up(GiveUp::Leave);
    driver
        .call("{\"a\": [1, ", length())
        .call("{\"a\": [1, 2, }", length());
    let outcome = driver.ended(Status::Incomplete, 1, 1);
    assert_eq!(
        (outcome.cause(), driver.client.as_str()),
        (Some(CutCause::Malformed), "{\"a\": [1, 2")
    );
}

#[test]
fn a_success_resets_the_count_in_a_row() {
    let mut driver = Driver::new(Limits::default());
    driver.call("{\"a\": [1, ", length());
    driver.call("no", stop()).call("no", stop());
    driver.call("{\"a\": [1, 2, ", length());
    driver.goes_on(4, 2);
    driver.call("no", stop()).call("no", stop());
    driver.call("{\"a\": [1, 2, 3]}", stop());
    driver.ended(Status::Complete, 6, 4);
    assert_eq!(driver.client, "{\"a\": [1, 2, 3]}");
}

#[test]
fn the_number_of_continuations_is_capped() {
    let mut driver = Driver::new(Limits::default().with_max_continuations(2));
    driver
        .call("[1, ", length())
        .call("[1, 2, ", length())
        .call("[1, 2, 3, ", length());
    driver.ended(Status::Closed, 2, 0);
    assert_eq!(driver.client, "[1, 2, 3, null]");
    let mut driver = Driver::new(Limits::default().with_max_continuations(0));
    driver.call("[1, \"a", length());
    assert!(driver.ended(Status::Closed, 0, 0).synthesized().is_empty());
    assert_eq!(driver.client, "[1, \"a\"]");
}

#[test]
fn nothing_new_twice_in_a_row_ends_it() {
    let mut driver = Driver::new(Limits::default());
    driver.call("{\"sections\": [1", length());
    driver
        .call("{\"sections\": [1", length())
        .call("{\"sections\": [1", length());
    driver.ended(Status::Closed, 2, 0);
    assert_eq!(driver.client, "{\"sections\": [1]}");
    // With progress between them they are not in a row.
    let mut driver = Driver::new(Limits::default());
    driver.call("{\"sections\": [1", length());
    driver
        .call("{\"sections\": [1", length())
        .call("{\"sections\": [1, 2", length());
    driver.call("{\"sections\": [1, 2", length());
    driver.goes_on(4, 0);
}

/// What was joined before the deviation stays, and is the new cut; the call counts as one failure.
#[test]
fn what_breaks_behind_the_join_is_a_new_cut_and_one_failure() {
    let mut driver = Driver::new(Limits::default());
    driver
        .call("{\"a\": [1, ", length())
        .call("{\"a\": [1, 2, 3} and so on", stop());
    driver.goes_on(2, 1);
    let FailureReason::Merge(SpliceError::Malformed(error)) = &driver.failures[0] else {
        panic!("{:?}", driver.failures)
    };
    assert_eq!(
        (error.offset, error.kind),
        (14, SyntaxErrorKind::MismatchedCloser(b'}'))
    );
    assert_eq!(driver.client, "{\"a\": [1, 2, 3");
    assert_eq!(driver.anchor(), "{\"a\": [1, 2, 3");
    // Closers alone would be an early end here: the array goes on.
    driver.call("{\"a\": [1, 2, 3, 4]}", stop());
    driver.ended(Status::Complete, 2, 1);
    // Three of them in a row end it, though each has brought something.
    let mut driver = Driver::new(Limits::default());
    driver
        .call("[1, ", length())
        .call("[1, 2, x", stop())
        .call("[1, 2, 3, x", stop())
        .call("[1, 2, 3, 4, x", stop());
    driver.ended(Status::Closed, 3, 3);
    assert_eq!(driver.client, "[1, 2, 3, 4]");
}

#[test]
fn waits_double_and_are_capped() {
    let mut driver = Driver::new(
        Limits::default()
            .with_max_consecutive_failures(20)
            .with_max_continuations(20),
    );
    driver.call("{\"a\": [1, ", length());
    // Up to half of a wait is spread.
    for most in [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        driver.end(rejected(true, None));
        let wait = driver.wait().as_millis();
        assert!((most / 2..=most).contains(&wait), "{wait} of {most}");
    }
    // A success begins again.
    driver
        .call("{\"a\": [1, 2, ", length())
        .end(rejected(true, None));
    assert!(
        (100..=200).contains(&driver.wait().as_millis()),
        "{:?}",
        driver.wait()
    );
    for (retry_after, least, most) in [(3, 3000, 3200), (0, 0, 400), (600, 10_000, 10_000)] {
        driver.end(rejected(true, Some(retry_after)));
        let wait = driver.wait().as_millis();
        assert!((least..=most).contains(&wait), "{wait}");
    }
    // What a little patience does not heal is asked for again at once.
    driver.end(rejected(false, None));
    assert_eq!(driver.wait(), Duration::ZERO);
    driver.call("no", stop());
    assert_eq!(driver.wait(), Duration::ZERO);
}

#[test]
fn the_original_request_is_sent_again_while_nothing_is_delivered() {
    // Without patience each lost call is a failure.
    let limits = Limits::default().with_patience(Duration::ZERO);
    for nothing in ["", " ", "\n\n"] {
        let mut driver = Driver::new(limits.clone());
        driver.call(nothing, CallEnd::Dropped);
        driver.goes_on(1, 1);
        let Request {
            number,
            turn,
            reduce_reasoning,
            resume,
            ..
        } = &driver.calls[0].0;
        assert_eq!(
            (*number, turn, *reduce_reasoning, resume),
            (1, &None, false, &None)
        );
        assert!(matches!(
            &driver.failures[0],
            FailureReason::Nothing(CallEnd::Dropped)
        ));
        driver
            .call("", CallEnd::Error("overloaded".to_owned()))
            .call("{\"a\": 1", length());
        driver.goes_on(3, 2);
        assert!(driver.calls[2].0.turn.is_some());
        // A closer alone would be an early end: the cut is inside a number.
        driver.call("{\"a\": 1, \"b\": 2}", stop());
        driver.ended(Status::Complete, 3, 2);
        assert_eq!(driver.client, format!("{nothing}{{\"a\": 1, \"b\": 2}}"));
    }
    let mut driver = Driver::new(limits.clone());
    driver
        .end(CallEnd::Dropped)
        .end(silent())
        .end(rejected(true, None));
    driver.ended(Status::Failed, 2, 3);
    assert_eq!(driver.client, "");
    // A fence has left: the root that belongs behind it is waited for.
    let mut driver = Driver::new(limits.clone());
    driver
        .call("```json\n", CallEnd::Dropped)
        .call("Sure:\n```json\n{\"a\": 1}\n```", stop());
    driver.ended(Status::Complete, 1, 1);
    assert_eq!(
        (driver.client.as_str(), &driver.seams[..]),
        ("```json\n{\"a\": 1}\n```", &[Alignment::Start][..])
    );
    // A part of its line has.
    for begun in ["```js", "``", "\u{feff}", "````json"] {
        let mut driver = Driver::new(limits.clone());
        driver
            .call(begun, CallEnd::Dropped)
            .call("{\"a\": 1}", stop());
        driver.ended(Status::Complete, 1, 1);
        let expected = match begun {
            "``" => "```\n{\"a\": 1}\n```",
            "```js" => "```js\n{\"a\": 1}\n```",
            "````json" => "````json\n{\"a\": 1}\n````",
            _ => "\u{feff}{\"a\": 1}",
        };
        assert_eq!(driver.client, expected);
    }
}

#[test]
fn some_ends_are_not_continued() {
    let open = "{\"a\": [1, ";
    let unknown = Finish::Other("pause_turn".to_owned());
    for (finish, has_stop) in [
        (Finish::ContentFilter, false),
        (unknown, false),
        (Finish::Stop, true),
    ] {
        let mut driver = Driver::new(Limits::default());
        if has_stop {
            driver.session.trust_stop();
        }
        driver.call(open, CallEnd::Finished(finish.clone()));
        assert_eq!(
            driver.ended(Status::PassedThrough, 0, 0).finish().cloned(),
            Some(finish.clone())
        );
        assert_eq!(driver.client, open);
        // As the end of a continuation they close what is there.
        let mut driver = Driver::new(Limits::default());
        if has_stop {
            driver.session.trust_stop();
        }
        driver
            .call(open, length())
            .call("{\"a\": [1, 2, ", CallEnd::Finished(finish.clone()));
        assert_eq!(
            driver.ended(Status::Closed, 1, 0).finish().cloned(),
            Some(finish)
        );
        assert_eq!(driver.client, "{\"a\": [1, 2, null]}");
    }
    // A stop sequence does not make a dropped connection or a token limit an end.
    for end in [length(), CallEnd::Dropped] {
        let mut driver = Driver::new(Limits::default());
        driver.session.trust_stop();
        driver.call(open, end).goes_on(1, 0);
    }
    // Somebody has said that this answer holds more than one text.
    let mut driver = Driver::new(Limits::default());
    driver.session.pass();
    driver
        .call(open, CallEnd::Dropped)
        .ended(Status::PassedThrough, 0, 0);
}

#[test]
fn what_is_no_json_passes() {
    let ends = [
        stop(),
        length(),
        CallEnd::Closed,
        CallEnd::Dropped,
        silent(),
    ];
    for text in [
        "Hello, I am",
        "See [1] and {2",
        "[1, 2} and",
        "{\"a\": nul1",
        "Look:\n```python\n[1, ",
        "```\nx = [1, ",
    ] {
        for end in &ends {
            let mut driver = Driver::new(Limits::default());
            driver.session.handle_input(START, Input::Text(text));
            assert!(!driver.session.would_continue(end), "{text}");
            driver
                .session
                .handle_input(START, Input::CallEnd(end.clone()));
            let outputs: Vec<Output> =
                std::iter::from_fn(|| driver.session.poll_output()).collect();
            let [Output::Event(SessionEvent::Done(_)), Output::Done(outcome)] = outputs.as_slice()
            else {
                panic!("{text}")
            };
            assert_eq!(
                (outcome.status(), outcome.tally().continuations),
                (Status::PassedThrough, 0)
            );
        }
    }
    // An empty answer that says it is finished is one.
    let mut driver = Driver::new(Limits::default());
    driver.end(stop()).ended(Status::PassedThrough, 0, 0);
}

/// The anchor of a short text is all of it, with what stands before its root. An answer may repeat
/// that, or begin at the root, in an envelope of its own or in none.
#[test]
fn a_fence_before_the_root_is_continued() {
    for before in ["Here it is:\n```json\n", "```\n", "```json\n  "] {
        for root in [
            "{\"a\": \"b",
            "[",
            "{\"title\": \"something that is long enough to have an anchor of its own",
        ] {
            let rest = if root == "[" { "1]" } else { "c\"}" };
            for envelope in [before, "", "```json\n", "Sure:\n\n```\n"] {
                let mut driver = Driver::new(Limits::default());
                driver.call(&format!("{before}{root}"), length());
                let copy = format!("{envelope}{root}{rest}\n```");
                driver.call(&copy, stop());
                // A copy from the root that closes after one value is believed the second time.
                let is_copy = root.len() > 40;
                if is_copy {
                    assert_eq!(
                        driver.failures.len(),
                        1,
                        "{before:?}, {root:?}, {envelope:?}"
                    );
                    driver.call(&copy, stop());
                }
                assert!(
                    driver.outcome.is_some(),
                    "{before:?}, {root:?}, {envelope:?}: {:?}",
                    driver.failures
                );
                driver.ended(Status::Complete, 1 + u32::from(is_copy), u32::from(is_copy));
                assert_eq!(driver.client, format!("{before}{root}{rest}\n```"));
            }
        }
    }
}

#[test]
fn silence_is_timed_while_something_is_due() {
    let limits = Limits::default();
    let (idle, first) = (
        limits.transport.idle_timeout,
        limits.transport.first_byte_timeout,
    );
    let mut driver = Driver::new(limits);
    assert_eq!(
        driver.session.poll_timeout(false),
        None,
        "the clock starts with the first input"
    );
    driver.session.handle_input(driver.now, Input::Activity);
    assert_eq!(
        driver.session.poll_timeout(false),
        Some(START + first),
        "nothing has come: the model may think"
    );
    driver.text("{\"a\": [1, ");
    assert_eq!(driver.session.poll_timeout(true), Some(START + idle));
    driver.now += Duration::from_secs(30);
    driver.session.handle_input(driver.now, Input::Activity);
    assert_eq!(
        driver.session.poll_timeout(true),
        Some(START + Duration::from_secs(30) + idle),
        "it lives"
    );
    driver.end(driver.session.timed_out(true));
    driver.goes_on(1, 0);
    assert_eq!(driver.session.poll_timeout(false), Some(driver.now + first));
    // A head, a role or a comment is no text.
    driver.session.handle_input(driver.now, Input::Activity);
    assert_eq!(driver.session.poll_timeout(true), Some(driver.now + first));
    driver.text("{\"a\": [1, ");
    assert_eq!(driver.session.poll_timeout(true), Some(driver.now + idle));
    // A wait before the call is no silence.
    driver.end(rejected(true, Some(7)));
    let due = driver.session.poll_timeout(false).unwrap() - driver.now - first;
    assert!((7000..=7100).contains(&due.as_millis()), "{due:?}");
    driver.call("{\"a\": [1, 2]}", stop());
    assert_eq!(driver.session.poll_timeout(true), None);
    // Nobody waits for the rest of what would not be continued.
    for text in ["Hello", "[1]", "[}"] {
        let mut driver = Driver::new(Limits::default());
        driver.session.handle_input(START, Input::Text(text));
        assert_eq!(driver.session.poll_timeout(true), None, "{text}");
    }
}

/// A call that is silent has reached a limit. The step says which one, and so does the report if
/// the answer ends there.
#[test]
fn the_limit_that_ends_a_call_is_named() {
    let mut limits = Limits::default().with_max_continuations(0);
    (limits.transport.idle_timeout, limits.transport.text_timeout) =
        (Duration::from_secs(6), Duration::from_millis(8500));
    limits.transport.first_byte_timeout = Duration::from_secs(20);
    let second = Duration::from_secs(1);
    for (pings, text, limit) in [
        (0, "{\"a\": [1, ", ("idle_timeout", 6.0)),
        (100, "{\"a\": [1, ", ("text_timeout", 8.5)),
        (0, "", ("first_byte_timeout", 20.0)),
        (100, "", ("first_byte_timeout", 20.0)),
    ] {
        let mut session = Session::new(limits.clone());
        session.handle_input(
            START,
            if text.is_empty() {
                Input::Activity
            } else {
                Input::Text(text)
            },
        );
        let mut now = START;
        for _ in 0..pings {
            if session
                .poll_timeout(true)
                .is_some_and(|due| due <= now + second)
            {
                break;
            }
            now += second;
            session.handle_input(now, Input::Activity);
        }
        let (due, end) = (session.poll_timeout(true).unwrap(), session.timed_out(true));
        session.handle_input(due, Input::CallEnd(end));
        let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
        let Output::Event(cut) = &outputs[0] else {
            panic!("{outputs:?}")
        };
        let told = serde_json::json!({"name": limit.0, "value": limit.1});
        let value = |told: &serde_json::Value| (told["name"].clone(), told["value"].as_f64());
        assert_eq!(value(&cut.to_json()["limit"]), value(&told), "{outputs:?}");
        let Some(Output::Done(outcome)) = outputs.last() else {
            panic!("{outputs:?}")
        };
        let report: serde_json::Value = serde_json::from_str(&outcome.report()).unwrap();
        assert_eq!(
            (value(&report["limit"]), &report["cause"]),
            (value(&told), &"idle".into()),
            "{outcome:?}"
        );
    }
}

/// Servers send comments and pings for as long as a model does not answer.
#[test]
fn what_is_not_text_keeps_a_call_alive_for_a_time_alone() {
    let limits = Limits::default();
    let (idle, first) = (
        limits.transport.idle_timeout,
        limits.transport.first_byte_timeout,
    );
    let (text, second) = (limits.transport.text_timeout, Duration::from_secs(1));
    let mut driver = Driver::new(limits);
    let pings = |driver: &mut Driver, lasting: Duration| {
        let end = driver.now + lasting;
        while driver.now < end {
            driver.session.handle_input(driver.now, Input::Activity);
            driver.session.handle_input(driver.now, Input::Text(""));
            driver.now += second;
        }
    };
    pings(&mut driver, first - second);
    assert_eq!(
        driver.session.poll_timeout(true),
        Some(START + first),
        "a model may think, but not forever"
    );
    driver.text("{\"a\": [1, ");
    let spoke = driver.now;
    pings(&mut driver, text - second);
    assert_eq!(driver.session.poll_timeout(true), Some(spoke + text));
    driver.session.handle_input(driver.now, Input::Reasoning);
    assert_eq!(
        driver.session.poll_timeout(true),
        Some(driver.now + idle),
        "reasoning is a part of the answer"
    );
    driver.end(driver.session.timed_out(true));
    driver.goes_on(1, 0);
    let asked = driver.now;
    pings(&mut driver, first - second);
    assert_eq!(
        driver.session.poll_timeout(true),
        Some(asked + first),
        "each call has its own time"
    );
}

/// Whatever the texts and ends, the loop ends, within its caps, in valid JSON, and nothing is taken
/// back.
#[test]
fn random_scripts_end_within_the_caps() {
    let pieces = [
        "{\"a\": [1, ",
        "\"x",
        "2, ",
        "]}",
        "```json\n",
        "sorry",
        "",
        " ",
        "{\"b\": {\"c\": ",
        "tru",
        "\"}",
        "\\u00",
    ];
    let mut rng = restitch_testing::Rng::new(21);
    let mut seen = [0; 4];
    for _ in 0..3000 {
        let mut driver = Driver::new(Limits::default());
        for _ in 0..40 {
            for _ in 0..rng.below(4) {
                let piece = match rng.below(9) {
                    0 | 1 => driver.client.clone(),
                    2 => format!(
                        "{}{}",
                        driver.client,
                        driver.session.document().completion().suffix
                    ),
                    _ => (*rng.pick(&pieces)).to_owned(),
                };
                let before = driver.client.clone();
                // The first answer's text is settled as far as it is JSON; what breaks it passes
                // through unseen.
                driver.session.handle_input(driver.now, Input::Text(&piece));
                let first = driver.session.is_first();
                while let Some(output) = driver.session.poll_output() {
                    if let Output::Text(text) = output {
                        driver.client.push_str(&text);
                    }
                }
                if first {
                    driver.client = driver.session.document().text().to_owned();
                }
                assert!(
                    driver.client.starts_with(before.trim_end()),
                    "{before:?} was taken back"
                );
            }
            let ends = [
                stop(),
                length(),
                CallEnd::Dropped,
                rejected(true, None),
                CallEnd::Finished(Finish::ContentFilter),
            ];
            driver.session.handle_input(
                driver.now,
                Input::CallEnd(ends[rng.below(ends.len())].clone()),
            );
            while let Some(output) = driver.session.poll_output() {
                match output {
                    Output::Text(text) => driver.client.push_str(&text),
                    Output::Done(outcome) => driver.outcome = Some(outcome),
                    _ => {}
                }
            }
            if driver.outcome.is_some() {
                break;
            }
        }
        let outcome = driver
            .outcome
            .expect("forty calls are more than any cap allows");
        assert!(outcome.tally().continuations <= 8);
        let document = driver.session.document();
        match outcome.status() {
            Status::Complete | Status::Closed => {
                assert!(document.is_complete());
                assert!(crate::fuzz::against_serde::parses_or_is_beyond_serde(
                    document.root().unwrap()
                ));
                seen[if outcome.status() == Status::Closed {
                    0
                } else {
                    1
                }] += 1;
            }
            Status::Failed => seen[2] += 1,
            _ => seen[3] += 1,
        }
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

// Parts that are there already.

#[test]
fn stitched_parts() {
    let check = |parts: &[&str], status, json: &str, failures| {
        let stitched = stitch(parts.iter().copied(), Expect::Any, &Limits::default());
        assert_eq!(
            (
                stitched.status,
                stitched.json.as_str(),
                stitched.failed.len()
            ),
            (status, json, failures),
            "{parts:?}"
        );
    };
    check(&["{\"a\": [1, 2]}"], Status::Complete, "{\"a\": [1, 2]}", 0);
    check(
        &["Sure:\n```json\n[1]\n```\nBye"],
        Status::Complete,
        "[1]",
        0,
    );
    check(&["12"], Status::Complete, "12", 0);
    check(&["{\"a\": [1, tr"], Status::Closed, "{\"a\": [1]}", 0);
    check(
        &["{\"a\": \"b", "I'm sorry", "{\"a\": \"bc\"}"],
        Status::Complete,
        "{\"a\": \"bc\"}",
        1,
    );
    check(
        &["{\"a\": \"b", "I'm sorry", "no"],
        Status::Closed,
        "{\"a\": \"b\"}",
        2,
    );
    check(&[], Status::Failed, "", 0);
    check(&["", " "], Status::Failed, "", 2);
    check(&["hello"], Status::Failed, "", 0);
    check(&["", "[1"], Status::Closed, "[]", 1);
    check(
        &["```json\n", "\"hello\"\n```"],
        Status::Complete,
        "\"hello\"",
        1,
    );
    check(
        &["```json\n", "```json\ntrue\n```"],
        Status::Complete,
        "true",
        1,
    );
    check(&["  ", "42"], Status::Complete, "42", 1);
    // More failures than a live loop allows: parts are what there is.
    let mut parts = vec!["[1, "];
    parts.extend(["no"; 20]);
    parts.push("[1, 2]");
    check(&parts, Status::Complete, "[1, 2]", 20);
    // Other roots are for files; a stream's prose may begin with a number.
    let mut session = Session::with(Limits::default(), Expect::Any, AllowedRoots::Containers);
    session.handle_input(START, Input::Text("12 apples"));
    assert!(!session.would_continue(&CallEnd::Dropped));
}

/// Where every value may be a root, this holds for the root of a continuation, too; elsewhere a
/// number is prose.
#[test]
fn roots_of_a_continuation_are_those_of_the_document() {
    for (roots, rest, status) in [
        (AllowedRoots::Any, "\"hello\"\n```", Status::Complete),
        (AllowedRoots::Any, "```json\nnull\n```", Status::Complete),
        (AllowedRoots::Containers, "\"hello\"\n```", Status::Failed),
        (
            AllowedRoots::Containers,
            "{\"a\": \"hello\"}\n```",
            Status::Complete,
        ),
    ] {
        let mut session = Session::with(
            Limits::default().with_max_continuations(1),
            Expect::Anchor,
            roots,
        );
        session.set_give_up(GiveUp::Leave);
        session.handle_input(START, Input::Text("```json\n"));
        session.handle_input(START, Input::CallEnd(CallEnd::Dropped));
        let ended = loop {
            match session.poll_output().unwrap() {
                Output::Call { .. } => {
                    session.handle_input(START, Input::Text(rest));
                    session.handle_input(START, Input::CallEnd(CallEnd::Closed));
                }
                Output::Done(outcome) => break outcome.status(),
                _ => {}
            }
        };
        assert_eq!(ended, status, "{roots:?} {rest:?}");
    }
}

/// The line that opens a fence in the answer could as well close one behind the number, if one were
/// open.
#[test]
fn a_number_that_comes_again_in_a_fence() {
    let stitched = stitch(
        ["-314159", "```\n-31415926.5e-1\n```"],
        Expect::Anchor,
        &Limits::default(),
    );
    assert_eq!(
        (stitched.json.as_str(), stitched.status),
        ("-31415926.5e-1", Status::Complete)
    );
    let stitched = stitch(
        ["```json\n-314159", "\n```"],
        Expect::Exact,
        &Limits::default(),
    );
    assert_eq!(
        (stitched.json.as_str(), stitched.status),
        ("-314159", Status::Complete)
    );
}
