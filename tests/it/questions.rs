//! What is asked for after an answer that was not joined, and after a call that nobody answered.

use std::time::Duration;

use bytes::Bytes;
use restitch::Limits;
use restitch::internal::chat;
use restitch::internal::prompt::{QuestionForm, task};
use restitch::internal::relay::AnswerOptions;
use restitch::provider::Finish;
use restitch::provider::capability::{Capability, Row, Table};
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, GiveUp, Input, MarkUse, Outcome, Output,
    PrefillOptions, Prompt, Request, Retry, Session, SessionEvent, Snapshot, Status, StopReason,
    Turn,
};
use restitch::splice::SpliceError;
use serde_json::{Value, json};

use restitch_testing::silent;

const NOW: Duration = Duration::ZERO;
const REFUSAL: &str = "I'm sorry, but I can't help with that.";
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"Go"}],"response_format":{"type":"json_object"}}"#;

/// Returns a row whose words occur in no other row.
fn row(id: u32) -> String {
    let words: String = (0..12).map(|n| format!("word {id}.{n}, ")).collect();
    format!("{{\"id\": {id}, \"text\": \"{words}\"}}")
}

/// Returns two whole rows, and one that was cut.
fn delivered() -> String {
    let rows = [row(1), row(2), row(3)].join(", ");
    format!("{{\"rows\": [{}", &rows[..rows.len() - 3])
}

fn session(limits: Limits, strategy: ContinuationStrategy, delivered: &str) -> Session {
    let mut session = Session::new(limits);
    session.set_strategy(strategy);
    session.handle_input(NOW, Input::Text(delivered));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    session
}

fn many_failures() -> Limits {
    Limits::default()
        .with_max_consecutive_failures(9)
        .with_max_continuations(20)
}

/// Returns the next call.
fn call(session: &mut Session) -> Request {
    loop {
        match session.poll_output().expect("a call") {
            Output::Call { request, .. } => return request,
            Output::Done(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

fn turn(session: &mut Session) -> Turn {
    call(session).turn.expect("a turn")
}

/// Answers the open call, and returns the next one.
fn answered(session: &mut Session, text: &str) -> Turn {
    session.handle_input(NOW, Input::Text(text));
    ended(session, CallEnd::Finished(Finish::Stop))
}

fn ended(session: &mut Session, end: CallEnd) -> Turn {
    session.handle_input(NOW, Input::CallEnd(end));
    turn(session)
}

fn outcome(session: &mut Session) -> Outcome {
    std::iter::from_fn(|| session.poll_output())
        .find_map(|output| {
            if let Output::Done(outcome) = output {
                Some(outcome)
            } else {
                None
            }
        })
        .expect("it goes on")
}

fn between<'t>(turn: &'t Turn, tag: &str) -> Option<&'t str> {
    let (_, rest) = turn.prompt.split_once(&format!("<{tag}>\n"))?;
    Some(rest.split_once(&format!("\n</{tag}>"))?.0)
}

#[test]
fn each_answer_that_was_not_joined_is_followed_by_another_question() {
    let text = delivered();
    let mut session = session(many_failures(), ContinuationStrategy::default(), &text);
    let first = turn(&mut session);
    let turns: Vec<Turn> = (0..4).map(|_| answered(&mut session, REFUSAL)).collect();
    assert_eq!(session.document().text(), text);

    assert_eq!(
        (first.mark.as_ref(), between(&first, "continue_mark")),
        (None, None)
    );
    assert_eq!(
        first.tags,
        [
            "delivered_summary",
            "element_before_cutoff",
            "cut_off_element",
            "overlap_context"
        ]
    );
    for turn in &turns {
        assert_eq!(turn.delivered, text);
        assert!(
            text.ends_with(&turn.anchor) && turn.anchor.ends_with(&first.anchor),
            "{}",
            turn.anchor
        );
        assert_eq!(between(turn, "overlap_context"), Some(turn.anchor.as_str()));
        let mark = turn.mark.as_deref().unwrap();
        assert!(!text.contains(mark), "{mark}");
        assert_eq!(between(turn, "continue_mark"), Some(mark));
        // The text to repeat, then the mark.
        assert!(turn.prompt.find("<overlap_context>") < turn.prompt.find("<continue_mark>"));
        assert!(turn.tags.iter().any(|tag| tag == "continue_mark"));
    }
    let [longer, element, third, fourth] = &turns[..] else {
        panic!()
    };
    assert!(longer.anchor.len() >= 2 * first.anchor.len());
    assert_eq!(between(longer, "cut_path"), None);
    // The element that was cut, from its beginning.
    assert!(
        element.anchor.starts_with("{\"id\": 3, "),
        "{}",
        element.anchor
    );
    assert_eq!(between(element, "cut_path"), Some("/rows/2"));
    let words = |form| task(form, false).split("{{").next().unwrap();
    // The first question about a short document has fewer words.
    assert!(!first.prompt.contains(words(QuestionForm::Anchor)));
    for (turn, form) in [
        (longer, QuestionForm::LongerAnchor),
        (element, QuestionForm::WholeElement),
    ] {
        assert!(turn.prompt.contains(words(form)), "{}", turn.prompt);
    }
    // The last form comes again with another mark.
    assert_eq!(
        (&third.anchor, &fourth.anchor),
        (&element.anchor, &element.anchor)
    );
    let mut marks: Vec<_> = turns
        .iter()
        .map(|turn| turn.mark.clone().unwrap())
        .collect();
    marks.sort();
    marks.dedup();
    assert_eq!(marks.len(), turns.len());
}

#[test]
fn new_text_begins_with_the_first_question_again() {
    let mut session = session(
        many_failures(),
        ContinuationStrategy::default(),
        "{\"rows\": [\"one\", \"tw",
    );
    turn(&mut session);
    assert!(answered(&mut session, REFUSAL).mark.is_some());
    // Joined up to a comment, which is the new cut.
    let next = answered(&mut session, "{\"rows\": [\"one\", \"two\", // and so on");
    assert_eq!(next.mark, None);
    assert!(
        next.delivered.starts_with("{\"rows\": [\"one\", \"two\""),
        "{}",
        next.delivered
    );
}

#[test]
fn a_call_that_nobody_answered_is_made_again_as_it_was() {
    let rejected = |transient| CallEnd::Rejected {
        reason: "429".to_owned(),
        transient,
        retry_after: None,
    };
    let capability = || std::sync::Arc::new(Capability::default());
    let body = |session: &mut Session, end: CallEnd| {
        session.handle_input(NOW, Input::CallEnd(end));
        Retry::new(call(session), capability()).body(BODY)
    };
    for failures in 0..3 {
        let mut session = session(
            many_failures(),
            ContinuationStrategy::default(),
            &delivered(),
        );
        let mut before = Retry::new(call(&mut session), capability()).body(BODY);
        for _ in 0..failures {
            session.handle_input(NOW, Input::Text(REFUSAL));
            let next = body(&mut session, CallEnd::Finished(Finish::Stop));
            assert_ne!(next, before);
            before = next;
        }
        for end in [
            rejected(true),
            rejected(false),
            CallEnd::Dropped,
            silent(),
            CallEnd::Closed,
            CallEnd::Error("overloaded".to_owned()),
        ] {
            assert_eq!(
                body(&mut session, end.clone()),
                before,
                "{failures} {end:?}"
            );
        }
    }
    // Nothing was delivered: the original request.
    let mut session = session(many_failures(), ContinuationStrategy::default(), "");
    assert_eq!(
        Retry::new(call(&mut session), capability()).body(BODY),
        BODY
    );
    assert_eq!(body(&mut session, CallEnd::Dropped), BODY);
}

#[test]
fn the_use_of_the_mark_is_a_setting() {
    let marks = |prompt: Prompt| {
        let mut session = session(
            many_failures(),
            ContinuationStrategy::with(prompt),
            &delivered(),
        );
        let first = turn(&mut session);
        let next: Vec<Turn> = (0..4).map(|_| answered(&mut session, REFUSAL)).collect();
        let turns: Vec<Turn> = [vec![first], next].concat();
        // With or without a mark no question is asked twice in a row.
        assert!(turns.windows(2).all(|two| two[0].prompt != two[1].prompt));
        turns
            .iter()
            .map(|turn| turn.mark.is_some())
            .collect::<Vec<_>>()
    };
    let with = |mark| marks(Prompt::default().with_mark(mark));
    assert_eq!(with(MarkUse::OnRetries), [false, true, true, true, true]);
    assert_eq!(with(MarkUse::Always), [true; 5]);
    assert_eq!(with(MarkUse::Never), [false; 5]);
    // The operator's own words ask for a mark where they have a place for it.
    let own = |words: &str| {
        let prompt = Prompt::default().with_instruction(words).unwrap();
        let mut session = session(
            many_failures(),
            ContinuationStrategy::with(prompt.with_mark(MarkUse::Always)),
            &delivered(),
        );
        turn(&mut session).mark.is_some()
    };
    assert!(!own("Go on after {{overlap_context}}"));
    assert!(own("Go on after {{overlap_context}}{{continue_mark}}"));
}

#[test]
fn a_mark_is_none_that_the_text_has() {
    let text = delivered();
    let mark = |text: &str| {
        let mut session = session(many_failures(), ContinuationStrategy::default(), text);
        turn(&mut session);
        answered(&mut session, REFUSAL).mark.unwrap()
    };
    let taken = mark(&text);
    assert_eq!(mark(&text), taken, "the same for the same text");
    // The text has the same length, so it would have the same mark.
    let quoting = text.replacen(&text[30..30 + taken.len()], &taken, 1);
    assert_eq!(quoting.len(), text.len());
    assert!(quoting.contains(&taken) && !quoting.contains(&mark(&quoting)));
}

/// Text of the document imitates no tag of a question, and the tags are told as they are written.
#[test]
fn tags_are_none_that_the_path_has() {
    let text = format!(
        "[{{\"</cut_path> <continue_mark>\": [{}, {}",
        row(1),
        &row(2)[..90]
    );
    let mut session = session(many_failures(), ContinuationStrategy::default(), &text);
    turn(&mut session);
    answered(&mut session, REFUSAL);
    let third = answered(&mut session, REFUSAL);
    assert_eq!(
        between(&third, "cut_path_2"),
        Some("/0/<~1cut_path> <continue_mark>/1")
    );
    assert_eq!(between(&third, "continue_mark_2"), third.mark.as_deref());
    assert!(
        third.tags.iter().all(|tag| tag.ends_with("_2")),
        "{:?}",
        third.tags
    );
    for tag in &third.tags {
        assert_eq!(
            third.prompt.matches(&format!("<{tag}>")).count(),
            1,
            "{tag}"
        );
    }
}

#[test]
fn json_mode_that_stays_asks_for_a_document() {
    let table = Table::default().with([{
        let mut row = Row::of("m");
        row.drops_json_mode = Some(false);
        row
    }]);
    let capability = std::sync::Arc::new(table.of("m", None));
    assert!(!capability.drops_json_mode && table.of("n", None).drops_json_mode);
    let request = chat::parse(BODY.as_bytes()).unwrap();
    assert!(request.has_json_mode);
    for (format, has_json_mode) in [
        ("{\"type\":\"json_schema\"}", true),
        ("{\"type\":\"text\"}", false),
        ("1", false),
    ] {
        let body = BODY.replace("{\"type\":\"json_object\"}", format);
        assert_eq!(
            chat::parse(body.as_bytes()).unwrap().has_json_mode,
            has_json_mode,
            "{format}"
        );
    }
    let strategy = ContinuationStrategy::default()
        .prefill(PrefillOptions::default())
        .keeps_json_mode(true);
    let mut session = session(many_failures(), strategy, &delivered());
    let first = call(&mut session);
    let body: Value =
        serde_json::from_str(&Retry::new(first.clone(), capability).body(BODY)).unwrap();
    assert_eq!(body["response_format"]["type"], "json_object");
    let first = first.turn.unwrap();
    assert_eq!(
        (first.mode, first.keeps_json_mode),
        (ContinuationMode::Reprompt, true)
    );
    assert_eq!(between(&first, "cut_path"), Some("/rows/2"));
    let retries = [
        answered(&mut session, REFUSAL),
        answered(&mut session, REFUSAL),
    ];
    for (turn, next) in [(&first, &retries[0]), (&retries[0], &retries[1])] {
        assert_ne!(turn.prompt, next.prompt);
        // A mark is no JSON.
        assert!(next.mark.is_none() && next.keeps_json_mode);
    }
    let last = format!("{{\"rows\": [{}, {}]}}", row(3), row(4));
    session.handle_input(NOW, Input::Text(&last));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
    assert_eq!(outcome(&mut session).status(), Status::Complete);
    let value: Value = serde_json::from_str(session.document().text()).unwrap();
    assert_eq!(value["rows"].as_array().unwrap().len(), 4);
}

/// Returns the outcome and the text of a session in which two answers repeat the anchor and then
/// have the text `new`. Checks that the first one is not joined.
fn ends_early_twice(give_up: GiveUp, delivered: &str, new: &str) -> (Outcome, String) {
    let mut session = Session::new(Limits::default());
    session.set_give_up(give_up);
    session.handle_input(NOW, Input::Text(delivered));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Length)));
    let first = turn(&mut session);
    session.handle_input(NOW, Input::Text(&(first.anchor + new)));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
    let mut failures = Vec::new();
    let again = loop {
        match session.poll_output().expect("a call") {
            Output::Event(SessionEvent::Failed { reason, .. }) => failures.push(reason),
            Output::Call { request, .. } => break request.turn.unwrap(),
            Output::Done(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    };
    assert_eq!(
        failures,
        [restitch::session::FailureReason::Merge(
            SpliceError::EarlyEnd
        )]
    );
    assert!(again.mark.is_some());
    let mark = again.mark.unwrap_or_default();
    session.handle_input(NOW, Input::Text(&(again.anchor + &mark + new)));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
    let outcome = outcome(&mut session);
    (outcome, session.document().text().to_owned())
}

#[test]
fn a_short_document_has_a_short_question() {
    let question = |strategy, delivered: &str| {
        let turn = turn(&mut session(Limits::default(), strategy, delivered));
        let texts = turn
            .tags
            .iter()
            .map(|tag| between(&turn, tag).unwrap().len());
        let words = turn.prompt.len() - texts.sum::<usize>();
        (turn, words)
    };
    let text = |length: usize| format!("{{\"text\": \"{}", "word ".repeat(length / 5));
    for length in [0, 20, 100, 400, 1000] {
        let (turn, words) = question(ContinuationStrategy::default(), &text(length));
        assert!(words <= 640, "{length}: {words} bytes\n{}", turn.prompt);
    }
    // The operator's own words are asked in any length, and longer documents are worth more words.
    let own = Prompt::default().with_instruction("Go on from\n{{overlap_context}}");
    let (own, _) = question(ContinuationStrategy::with(own.unwrap()), &text(20));
    assert!(own.prompt.starts_with("Go on from\n<overlap_context>"));
    let (long, _) = question(ContinuationStrategy::default(), &text(1100));
    assert!(long.prompt.contains(task(QuestionForm::Anchor, false)));
}

/// A model that copies the question has not continued the document, unless the client's own request
/// has these words.
#[test]
fn a_copied_sentence_of_the_question_is_not_joined() {
    let copied = "My connection dropped while I was receiving your answer.";
    for words in [3, 400] {
        for is_known in [false, true] {
            let text = "word ".repeat(words);
            let delivered = format!("{{\"text\": \"{text}");
            let mut session = Session::new(Limits::default());
            if is_known {
                let body = Bytes::from(format!(r#"{{"prompt": "Quote this: {copied}"}}"#));
                session = session.client_request(&body);
            }
            session.handle_input(NOW, Input::Text(&delivered));
            session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
            let asked = turn(&mut session);
            assert!(
                asked.prompt.contains("My connection dropped while I"),
                "{}",
                asked.prompt
            );
            for c in format!("{}It rained. {copied} \"}}", asked.anchor).chars() {
                session.handle_input(NOW, Input::Text(c.encode_utf8(&mut [0; 4])));
            }
            session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
            let expected = match is_known {
                true => format!("{delivered}It rained. {copied} \"}}"),
                false => format!("{delivered}It rained. "),
            };
            assert_eq!(session.document().text(), expected);
        }
    }
}

/// The beginning of a sentence does not prove a copy, so it is not lost at the end of a call.
#[test]
fn a_text_that_ends_like_a_sentence_begins_is_delivered() {
    let delivered = "{\"text\": \"It rained, and";
    let mut session = Session::new(Limits::default());
    session.handle_input(NOW, Input::Text(delivered));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    let asked = turn(&mut session);
    session.handle_input(
        NOW,
        Input::Text(&format!("{} I saw My connection", asked.anchor)),
    );
    session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    assert_eq!(
        session.document().text(),
        format!("{delivered} I saw My connection")
    );
}

#[test]
fn a_report_names_values_that_end_at_a_cut() {
    let words = ContinuationStrategy::default;
    let prefill = || words().prefill(PrefillOptions::default());
    for (delivered, new, strategy, expected) in [
        (
            "{\"port\": 51",
            ", \"a\": 1}",
            words(),
            json!({"/port": 11}),
        ),
        (
            "{\"port\": 51",
            " , \"a\": 1}",
            words(),
            json!({"/port": 11}),
        ),
        ("{\"port\": 51", "50, \"a\": 1}", words(), Value::Null),
        ("{\"port\": 51", ".5, \"a\": 1}", words(), Value::Null),
        ("{\"port\": 51", "e2, \"a\": 1}", words(), Value::Null),
        ("{\"port\": 5e", "-2, \"a\": 1}", words(), Value::Null),
        ("{\"port\": 51 ", ", \"a\": 1}", words(), Value::Null),
        ("{\"port\": 51", ", \"a\": 1}", prefill(), Value::Null),
        (
            "{\"family\": \"A",
            "\", \"a\": 1}",
            words(),
            json!({"/family": 13}),
        ),
        (
            "{\"family\": \"A",
            "rial\", \"a\": 1}",
            words(),
            Value::Null,
        ),
        (
            "{\"family\": \"A\\",
            "\" b\", \"a\": 1}",
            words(),
            Value::Null,
        ),
        ("{\"family\": \"A", "\", \"a\": 1}", prefill(), Value::Null),
        ("{\"fam", "\": \"A\"}", words(), Value::Null),
        ("{\"a\": [7, tru", "e, 8]}", words(), Value::Null),
    ] {
        let mut session = session(Limits::default(), strategy, delivered);
        let asked = turn(&mut session);
        let repeated = match asked.mode {
            ContinuationMode::Reprompt => asked.anchor,
            _ => String::new(),
        };
        for c in format!("{repeated}{new}").chars() {
            session.handle_input(NOW, Input::Text(c.encode_utf8(&mut [0; 4])));
        }
        session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
        let outcome = outcome(&mut session);
        assert_eq!(outcome.status(), Status::Complete, "{delivered}{new}");
        let report: Value = serde_json::from_str(&outcome.report()).unwrap();
        assert_eq!(report["cut_values"], expected, "{delivered}{new}");
    }
}

#[test]
fn each_join_names_one_value_that_ends_at_its_cut() {
    let mut session = session(Limits::default(), ContinuationStrategy::default(), "[12");
    let anchor = turn(&mut session).anchor;
    session.handle_input(NOW, Input::Text(&format!("{anchor}, 34, {{\"a\": \"b")));
    let anchor = ended(&mut session, CallEnd::Dropped).anchor;
    session.handle_input(NOW, Input::Text(&format!("{anchor}\"}}, 5]")));
    session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
    let outcome = outcome(&mut session);
    assert_eq!(session.document().text(), "[12, 34, {\"a\": \"b\"}, 5]");
    let report: Value = serde_json::from_str(&outcome.report()).unwrap();
    assert_eq!(report["status"], "complete");
    assert_eq!(report["cut_values"], json!({"/0": 3, "/2/a": 17}));
}

#[test]
fn an_early_end_after_a_whole_value_is_believed_the_second_time() {
    let (outcome, text) = ends_early_twice(GiveUp::Leave, "{\"rows\": [\"one\", \"two\"", "]}");
    assert_eq!(
        (
            outcome.status(),
            outcome.tally().failures,
            outcome.tally().early_end
        ),
        (Status::Complete, 1, 1)
    );
    let report: Value = serde_json::from_str(&outcome.report()).unwrap();
    assert_eq!(report["early_end"], 1);
    assert_eq!(text, "{\"rows\": [\"one\", \"two\"]}");
}

#[test]
fn a_doubtful_early_end_is_given_up_and_not_written() {
    for (delivered, new) in [
        ("{\"rows\": [\"one\", \"tw", "\"]}"),
        ("{\"rows\": [\"one\", \"tw", "…\"]}"),
        ("{\"rows\": [\"one\", \"tw", "...\"]}"),
        ("{\"rows\": [1, 2", "]}"),
        ("{\"rows\": [\"one\", \"two\"", ", \"...\"]}"),
        ("{\"rows\": [\"one\", \"two\"", ", \"…\"]}"),
    ] {
        let (outcome, text) = ends_early_twice(GiveUp::Leave, delivered, new);
        assert_eq!(
            (outcome.status(), outcome.reason()),
            (Status::Incomplete, Some(StopReason::EarlyEnd)),
            "{new}"
        );
        // It ends like its first cut.
        assert_eq!(
            (text.as_str(), outcome.finish()),
            (delivered, Some(&Finish::Length)),
            "{new}"
        );
        assert_eq!(
            (outcome.tally().failures, outcome.tally().early_end),
            (2, 0)
        );
        let report: Value = serde_json::from_str(&outcome.report()).unwrap();
        assert_eq!(report["stop"], "early_end");
        let (outcome, text) = ends_early_twice(GiveUp::Close, delivered, new);
        assert_eq!(
            (outcome.status(), outcome.reason()),
            (Status::Closed, Some(StopReason::EarlyEnd)),
            "{new}"
        );
        assert!(!text.contains(['.', '…']), "{text}");
        let (outcome, text) = ends_early_twice(GiveUp::Error, delivered, new);
        assert_eq!(
            (outcome.status(), text.as_str()),
            (Status::Failed, delivered),
            "{new}"
        );
    }
}

/// That a seam is ambiguous may show long after it was reported.
#[test]
fn an_ambiguous_seam_is_counted_once() {
    let delivered = r#"[{"id":1001,"name":"Dana","email":"dana1@example.org","age":9,"scor"#;
    let mut late = session(
        Limits::default(),
        ContinuationStrategy::default(),
        delivered,
    );
    let first = turn(&mut late);
    late.handle_input(
        NOW,
        Input::Text(&format!("Continuing from `{}`", first.anchor)),
    );
    let joined = |output| match output {
        Output::Event(SessionEvent::Joined { seam, .. }) => Some(seam.ambiguous),
        _ => None,
    };
    assert_eq!(
        std::iter::from_fn(|| late.poll_output()).find_map(joined),
        Some(false)
    );
    late.handle_input(NOW, Input::Text(&format!(":\n{}e\":1}}]", first.anchor)));
    late.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
    let second = turn(&mut late);
    // A member that was delivered had come again, and was left out.
    assert!(
        late.document().text().ends_with(r#"org","scor`:"#),
        "{}",
        late.document().text()
    );

    // Known when it is reported.
    let zeros = format!("[{}", "0,".repeat(4000));
    let mut early = session(Limits::default(), ContinuationStrategy::default(), &zeros);
    let asked = turn(&mut early);
    for (session, answer) in [
        (&mut late, second.anchor + "\":1}]"),
        (&mut early, asked.anchor + "1]"),
    ] {
        session.handle_input(NOW, Input::Text(&answer));
        session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
        let outcome = outcome(session);
        assert_eq!(
            (outcome.status(), outcome.tally().ambiguous),
            (Status::Complete, 1),
            "{answer}"
        );
    }
}

#[test]
fn a_snapshot_has_the_question() {
    let mut session = session(
        many_failures(),
        ContinuationStrategy::default(),
        &delivered(),
    );
    turn(&mut session);
    let second = answered(&mut session, REFUSAL);
    let row = serde_json::to_string(&session.snapshot()).unwrap();
    let restored = |row: &str| {
        let snapshot: Snapshot = serde_json::from_str(row).unwrap();
        turn(&mut Session::restore(NOW, &snapshot, many_failures()).unwrap())
    };
    // The call that was open counts as lost: the same question.
    assert_eq!(restored(&row), second);
}

/// Keys on the way to the cut are shown, and a document may have many long ones. The question stays
/// small.
#[test]
fn long_keys_on_the_path_do_not_make_a_long_question() {
    let key = "k".repeat(900);
    let delivered: String = (0..1000)
        .map(|depth| format!("{{\"{depth}{key}\":"))
        .collect();
    for end in [
        "\"text that is cut",
        "[{\"a\": 1}, {\"b\": \"text that is cut",
    ] {
        let delivered = format!("{delivered}{end}");
        let mut session = session(many_failures(), ContinuationStrategy::default(), &delivered);
        // The forms of a question differ in what they show.
        for _ in 0..4 {
            let turn = turn(&mut session);
            let size = turn.delivered.len() + turn.prompt.len();
            assert!(size < 160 << 10, "{size} bytes");
            assert!(turn.delivered.ends_with("text that is cut"));
            session.handle_input(NOW, Input::Text(REFUSAL));
            session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
        }
    }
}
