//! The loop as a state machine: any input ends it within its caps; it loses nothing and reports no
//! false success. An interrupted loop continues in another process.

use std::time::Duration;

use restitch::provider::Finish;
use restitch::repair::{RepairLevel, RepairOptions, RepairRule};
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, GiveUp, Input, Outcome, Output,
    PrefillOptions, Prompt, RestoreError, Session, SessionEvent, Snapshot, Status, StopReason,
    Turn,
};
use restitch::splice::Expect;
use restitch::{AllowedRoots, Document, Limits};
use serde_json::{Value, json};

use restitch_testing::{Rng, silent};

const DOCUMENT: &str = r#"{"title": "Report", "rows": [{"id": 101, "name": "Alma"}, {"id": 202, "name": "Berta"}, {"id": 303, "name": "Cilli"}, {"id": 404, "name": "Dora", "tags": ["a", "b"]}], "end": true}"#;

/// What a model says next, given what was delivered.
fn answer(rng: &mut Rng, delivered: &str) -> String {
    let rest = DOCUMENT.strip_prefix(delivered).unwrap_or_default();
    let anchored = &DOCUMENT[delivered
        .len()
        .saturating_sub(45)
        .min(DOCUMENT.len() - rest.len())..];
    let said = format!("PROGRESS: {}\n{anchored}", rng.below(100));
    let whole = match rng.below(12) {
        10 | 11 => said.as_str(),
        0 => "I'm sorry, I can't go on with that.",
        1 => "",
        2 => "```json\n",
        3 => delivered,
        4 => "{\"another\": 1}",
        5 => rest,
        6 => DOCUMENT,
        _ => anchored,
    };
    whole[..rng.below(whole.len() + 1)].to_owned()
}

fn end(rng: &mut Rng) -> CallEnd {
    match rng.below(9) {
        8 => CallEnd::FormRejected("400".to_owned()),
        0 => CallEnd::Closed,
        1 => CallEnd::Dropped,
        2 => CallEnd::Error("overloaded".to_owned()),
        3 => silent(),
        4 => CallEnd::Rejected {
            reason: "429".to_owned(),
            transient: true,
            retry_after: None,
        },
        5 => CallEnd::Finished(Finish::ContentFilter),
        6 => CallEnd::Finished(Finish::Stop),
        _ => CallEnd::Finished(Finish::Length),
    }
}

/// Returns whether a call has the delivered text, at most without the word that was cut.
fn has_delivered(turn: &Turn, client: &str) -> bool {
    let is_shortened = turn.keeps_json_mode && client.starts_with(&turn.delivered);
    turn.delivered == client || is_shortened
}

/// Runs one random answer from its first call to its end. `interrupted`: now and then a
/// session is restored from its snapshot and continues.
fn run(seed: u64, interrupted: bool) -> (Vec<SessionEvent>, String, Session) {
    let mut rng = Rng::new(seed);
    let limits = Limits::default()
        .with_max_continuations(12)
        .with_max_total_tokens((rng.below(3) == 0).then_some(400))
        .with_max_total_time((rng.below(3) == 0).then_some(Duration::from_secs(20)));
    let prompt = Prompt::default().with_progress(true);
    let prefixed = PrefillOptions {
        rejects_trailing_space: false,
        returns_prefill: rng.below(2) == 0,
        keeps_format: rng.below(2) == 0,
    };
    let strategy = match rng.below(3) {
        0 => ContinuationStrategy::default(),
        1 => ContinuationStrategy::with(prompt).reduce_reasoning(true),
        _ => ContinuationStrategy::default().prefill(prefixed),
    };
    let mut session = Session::new(limits.clone());
    session.set_give_up(GiveUp::Close);
    session.set_strategy(strategy.clone());
    let (mut now, mut client, mut events, mut calls) =
        (Duration::ZERO, String::new(), Vec::new(), 0);
    loop {
        let text = if calls == 0 {
            DOCUMENT[..rng.below(80)].to_owned()
        } else {
            answer(&mut rng, &client)
        };
        for piece in text.as_bytes().chunks(1 + rng.below(9)) {
            now += Duration::from_millis(100);
            let piece = std::str::from_utf8(piece).unwrap();
            if session.is_first() {
                client.push_str(piece);
            }
            session.handle_input(now, Input::Text(piece));
        }
        if rng.below(4) == 0 {
            session.handle_input(now, Input::Reasoning);
        }
        session.handle_input(now, Input::Tokens(text.len() as u64));
        now += Duration::from_secs(1);
        session.handle_input(now, Input::CallEnd(end(&mut rng)));
        let mut asked = false;
        while let Some(output) = session.poll_output() {
            assert!(
                !asked,
                "nothing follows a call before its answer: {output:?}"
            );
            match output {
                Output::Text(text) => client.push_str(&text),
                Output::Event(event) => events.push(event),
                Output::Call { request, at } => {
                    assert!(at >= now);
                    (asked, calls) = (true, request.number);
                    assert!(
                        request
                            .turn
                            .is_none_or(|turn| has_delivered(&turn, &client)),
                        "seed {seed}"
                    );
                }
                Output::Done(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            session.document().text(),
            client,
            "seed {seed}: what was delivered stands"
        );
        if session.is_done() {
            return (events, client, session);
        }
        assert!(asked, "seed {seed}: neither a call nor an end");
        if interrupted && rng.below(3) == 0 {
            let row = serde_json::to_string(&session.snapshot()).unwrap();
            let snapshot: Snapshot = serde_json::from_str(&row).unwrap();
            session =
                Session::restore_with(now, &snapshot, limits.clone(), strategy.clone()).unwrap();
            let mut asked_again = false;
            while let Some(output) = session.poll_output() {
                match output {
                    Output::Event(event) => events.push(event),
                    Output::Call { request, .. } => {
                        assert!(
                            request
                                .turn
                                .is_none_or(|turn| has_delivered(&turn, &client)),
                            "seed {seed}"
                        );
                        (asked_again, calls) = (true, request.number);
                    }
                    Output::Text(text) => client.push_str(&text),
                    Output::Done(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(
                session.document().text(),
                client,
                "seed {seed}: what was delivered stands"
            );
            if session.is_done() {
                return (events, client, session);
            }
            assert!(asked_again);
        }
    }
}

fn is_json(text: &str) -> bool {
    let mut document = Document::new(64);
    document.push(text).is_ok() && document.is_complete()
}

#[test]
fn every_loop_ends_and_invents_nothing() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..4000 {
        let (events, client, session) = run(seed, seed % 2 == 1);
        let Some(SessionEvent::Done(outcome)) = events.last() else {
            panic!("seed {seed}: {events:?}")
        };
        let done = events
            .iter()
            .filter(|event| matches!(event, SessionEvent::Done(_)))
            .count();
        assert_eq!(done, 1, "seed {seed}");
        assert!(
            outcome.tally().continuations <= 12 && session.poll_timeout(true).is_none(),
            "seed {seed}"
        );
        assert_eq!(
            outcome.tally().tokens.len(),
            outcome.tally().continuations as usize + 1,
            "seed {seed}"
        );
        match outcome.status() {
            Status::Complete => assert!(
                is_json(&client) && outcome.reason().is_none(),
                "seed {seed}: {client}"
            ),
            Status::Closed => {
                assert!(
                    is_json(&client) && outcome.reason().is_some(),
                    "seed {seed}: {client}"
                );
                assert!(
                    events
                        .iter()
                        .any(|event| matches!(event, SessionEvent::Fallback { .. })),
                    "seed {seed}"
                );
            }
            Status::Failed => assert!(
                !client.contains('{') && outcome.reason().is_some(),
                "seed {seed}: {client}"
            ),
            _ => {}
        }
        let stop = outcome.reason().map_or("none", StopReason::as_str);
        *seen
            .entry(format!("{} {stop}", outcome.status().as_str()))
            .or_default() += 1;
    }
    // Each way of ending has occurred.
    for way in [
        "complete none",
        "passed none",
        "closed failures",
        "closed finish",
        "closed tokens",
        "closed time",
        "closed repeats",
        "failed failures",
    ] {
        assert!(seen.contains_key(way), "{way}: {seen:?}");
    }
    println!("covered: {seen:?}");
}

/// Returns the outputs of a session that was just restored from this snapshot.
fn restored(snapshot: &Snapshot) -> (Session, Vec<Output>) {
    let mut session =
        Session::restore(Duration::from_secs(9), snapshot, Limits::default()).unwrap();
    let outputs = std::iter::from_fn(|| session.poll_output()).collect();
    (session, outputs)
}

#[test]
fn an_interrupted_answer_goes_on_in_another_process() {
    let mut session = Session::new(Limits::default());
    session.handle_input(Duration::ZERO, Input::Text("{\"rows\": [1, 2"));
    session.handle_input(Duration::ZERO, Input::Tokens(7));
    session.handle_input(
        Duration::from_secs(1),
        Input::CallEnd(CallEnd::Finished(Finish::Length)),
    );
    session.handle_input(Duration::from_secs(2), Input::Text("{\"rows\": [1, 23, "));
    // The text that the caller has not taken is given out by the next process.
    let (_, outputs) = restored(&session.snapshot());
    assert!(matches!(&outputs[0], Output::Text(text) if text == "3"));
    while session.poll_output().is_some() {}
    let snapshot = session.snapshot();
    let (mut session, outputs) = restored(&snapshot);
    assert!(
        matches!(&outputs[0], Output::Event(SessionEvent::Cut { call: 1, end: CallEnd::Dropped, offset: 15, added: 15, path, .. }) if path == "/rows/1")
    );
    assert!(matches!(&outputs[2], Output::Call { request, .. } if request.number == 2));
    session.handle_input(
        Duration::from_secs(10),
        Input::Text("{\"rows\": [1, 23, 4]}"),
    );
    session.handle_input(Duration::from_secs(10), Input::Tokens(9));
    session.handle_input(
        Duration::from_secs(11),
        Input::CallEnd(CallEnd::Finished(Finish::Stop)),
    );
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(Output::Done(outcome)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (outcome.status(), outcome.tally().continuations),
        (Status::Complete, 2)
    );
    assert_eq!(outcome.tally().tokens, [Some(7), None, Some(9)]);
    assert_eq!(session.document().text(), "{\"rows\": [1, 23, 4]}");
    // It uses the given strategy from that call on.
    let strategy = ContinuationStrategy::default().prefill(PrefillOptions::default());
    let mut asked =
        Session::restore_with(Duration::ZERO, &snapshot, Limits::default(), strategy).unwrap();
    let mut outputs = std::iter::from_fn(|| asked.poll_output());
    let is_prefix = |output| {
        matches!(
            output,
            Output::Event(SessionEvent::Requested {
                mode: Some(ContinuationMode::Prefill),
                ..
            })
        )
    };
    assert!(outputs.any(is_prefix));
    // What has ended stays ended.
    let (session, outputs) = restored(&session.snapshot());
    assert!(session.is_done() && outputs.is_empty());
}

#[test]
fn the_time_of_all_processes_counts() {
    let mut session =
        Session::new(Limits::default().with_max_total_time(Some(Duration::from_secs(100))));
    session.handle_input(Duration::ZERO, Input::Text("[1, "));
    session.handle_input(Duration::from_secs(60), Input::Activity);
    let snapshot = session.snapshot();
    let limits = Limits::default().with_max_total_time(Some(Duration::from_secs(100)));
    let mut session = Session::restore(Duration::from_secs(5), &snapshot, limits).unwrap();
    session.handle_input(Duration::from_secs(44), Input::Text("[1, 2, "));
    session.handle_input(Duration::from_secs(45), Input::CallEnd(CallEnd::Dropped));
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(Output::Done(outcome)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (outcome.status(), outcome.reason()),
        (Status::Incomplete, Some(StopReason::Time))
    );
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let mut session = Session::new(Limits::default());
    session.handle_input(Duration::ZERO, Input::Text("{\"a\": [1"));
    let good = serde_json::to_value(session.snapshot()).unwrap();
    let refused = |key: &str, value: Value| {
        let mut bad = good.clone();
        bad[key] = value;
        let snapshot: Snapshot = serde_json::from_value(bad).unwrap();
        Session::restore(Duration::ZERO, &snapshot, Limits::default()).unwrap_err()
    };
    for version in [0, 2, u64::MAX] {
        assert_eq!(
            refused("version", json!(version)),
            RestoreError::Version(version)
        );
        let message = RestoreError::Version(version).to_string();
        assert_eq!(
            message,
            format!("the snapshot has version {version}, and only version 1 can be read")
        );
    }
    // Another version is refused by its number, whatever members it has.
    let other: Snapshot = serde_json::from_value(json!({"version": 2, "parts": []})).unwrap();
    let other = Session::restore(Duration::ZERO, &other, Limits::default()).unwrap_err();
    assert_eq!(other, RestoreError::Version(2));
    assert_eq!(
        refused("is_done", json!(true)),
        RestoreError::Part("status")
    );
    assert_eq!(
        refused("expect", json!("all")),
        RestoreError::Part("expect")
    );
    assert_eq!(refused("roots", json!("")), RestoreError::Part("roots"));
    assert_eq!(refused("give_up", json!("")), RestoreError::Part("give_up"));
    assert_eq!(refused("repair", json!("")), RestoreError::Part("repair"));
    assert_eq!(
        refused("give_up", json!("perhaps")),
        RestoreError::Part("give_up")
    );
    assert_eq!(
        refused("repair", json!("all")),
        RestoreError::Part("repair")
    );
    assert_eq!(
        refused("repair_without", json!(["comments"])),
        RestoreError::Part("repair_without")
    );
    assert!(matches!(
        refused("text", json!("{\"b\": [1}")),
        RestoreError::Text(_)
    ));
}

/// What a session was told goes to the process that takes it over.
#[test]
fn settings_outlive_a_process() {
    let kept = |session: &Session| {
        let snapshot = serde_json::to_value(session.snapshot()).unwrap();
        [
            "expect",
            "roots",
            "give_up",
            "repair",
            "repair_without",
            "trusts_stop",
            "text",
        ]
        .map(|part| snapshot[part].clone())
    };
    for (expect, roots) in [
        (Expect::Exact, AllowedRoots::Any),
        (Expect::Any, AllowedRoots::Containers),
        (Expect::Anchor, AllowedRoots::Any),
    ] {
        let mut session = Session::with(Limits::default(), expect, roots);
        session.set_give_up(GiveUp::Leave);
        session.set_repair(RepairOptions::new(RepairLevel::Guess).without(RepairRule::Comment));
        session.trust_stop();
        session.handle_input(Duration::ZERO, Input::Text("[1, 2"));
        let (other, _) = restored(&session.snapshot());
        assert!(!other.is_done());
        assert_eq!(kept(&other), kept(&session), "{expect:?} {roots:?}");
        assert_eq!(kept(&other)[3..5], [json!("guess"), json!(["comment"])]);
        // An answer that passes as it comes has no rest to ask for.
        session.pass();
        let (other, outputs) = restored(&session.snapshot());
        assert!(
            other.is_done() && matches!(outputs.last(), Some(Output::Done(_))),
            "{outputs:?}"
        );
    }
}

/// A written snapshot: after `{"a": [1, 2`, one call that failed, and one that is open.
const WRITTEN: &str = r#"{
    "version": 1, "text": "{\"a\": [1, 2", "roots": "containers", "expect": "anchor", "give_up": "leave",
    "repair": "strict", "repair_without": [], "prose": "pass", "is_text": false, "base": 0, "is_done": false,
    "is_passing": false, "trusts_stop": true, "is_continued": true, "continuations": 2, "failures": 1,
    "failures_in_a_row": 1, "no_progress_in_a_row": 0, "ambiguous": 1, "early_end": 0, "tokens": [7, null, null],
    "repairs": {"comma": 2}, "percentage": 40, "stalled_reports": 1, "unjoined": 0, "has_early_end": false,
    "has_mistake": false, "spent_ms": 1500}"#;

#[test]
fn a_written_snapshot_is_read() {
    let snapshot: Snapshot = serde_json::from_str(WRITTEN).unwrap();
    // It is written with the same members.
    assert_eq!(
        serde_json::to_value(&snapshot).unwrap(),
        serde_json::from_str::<Value>(WRITTEN).unwrap()
    );
    let mut session = Session::restore(Duration::ZERO, &snapshot, Limits::default()).unwrap();
    assert_eq!(session.document().text(), "{\"a\": [1, 2");
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let called =
        |output: &Output| matches!(output, Output::Call { request, .. } if request.number == 3);
    assert!(outputs.iter().any(called), "{outputs:?}");
    // Closers alone would be an early end here: the array goes on.
    session.handle_input(Duration::ZERO, Input::Text("{\"a\": [1, 2, 3]}"));
    session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Closed));
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(Output::Done(Outcome::Complete { tally, .. })) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (tally.continuations, tally.failures, tally.ambiguous),
        (3, 1, 1)
    );
    assert_eq!(
        (
            tally.tokens.len(),
            tally.percentage,
            tally.repairs.get("comma")
        ),
        (4, Some(40), Some(&2))
    );
}

#[test]
fn a_snapshot_keeps_what_is_delivered_on_giving_up() {
    let mut session = Session::new(Limits::default());
    session.set_give_up(GiveUp::Leave);
    session.handle_input(Duration::ZERO, Input::Text("[1, "));
    let row = serde_json::to_string(&session.snapshot()).unwrap();
    let snapshot: Snapshot = serde_json::from_str(&row).unwrap();
    assert_eq!(snapshot, session.snapshot());
    let limits = Limits::default().with_max_continuations(0);
    let mut session = Session::restore(Duration::ZERO, &snapshot, limits).unwrap();
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(Output::Done(outcome)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (outcome.status(), session.document().text()),
        (Status::Incomplete, "[1, ")
    );
}

/// Returns how a loop ends whose calls say these texts, each up to the limit on tokens, and the
/// progress that its events report.
fn ended(
    limits: Limits,
    strategy: ContinuationStrategy,
    calls: &[(&str, u64)],
) -> (Option<Outcome>, Vec<(u8, u32)>) {
    let mut session = Session::new(limits);
    session.set_strategy(strategy);
    let (mut outcome, mut said) = (None, Vec::new());
    for &(text, tokens) in calls {
        assert!(outcome.is_none(), "{text}");
        session.handle_input(Duration::ZERO, Input::Text(text));
        session.handle_input(Duration::ZERO, Input::Tokens(tokens));
        session.handle_input(
            Duration::ZERO,
            Input::CallEnd(CallEnd::Finished(Finish::Length)),
        );
        while let Some(output) = session.poll_output() {
            match output {
                Output::Event(SessionEvent::Progress {
                    percentage,
                    stalled_reports,
                    ..
                }) => {
                    said.push((percentage, stalled_reports));
                }
                Output::Done(done) => outcome = Some(done),
                _ => {}
            }
        }
    }
    (outcome, said)
}

#[test]
fn a_model_that_says_it_gets_no_further_is_not_asked_again() {
    let calls = [
        ("[10, 20", 1),
        ("PROGRESS: 40\n[10, 20, 30", 1),
        // The same percentage, a lower one, and no answer, which is not a failure.
        ("PROGRESS: 40\n[10, 20, 30, 40", 1),
        ("[10, 20, 30, 40, 50", 1),
        ("PROGRESS: 39\n[10, 20, 30, 40, 50, 60", 1),
        ("PROGRESS: 41\n[10, 20, 30, 40, 50, 60, 70", 1),
        ("PROGRESS: 41\n[10, 20, 30, 40, 50, 60, 70, 80", 1),
        ("PROGRESS: 41\n[10, 20, 30, 40, 50, 60, 70, 80, 90", 1),
        ("PROGRESS: 41\n[10, 20, 30, 40, 50, 60, 70, 80, 90, 100", 1),
    ];
    let on = Prompt::default().with_progress(true);
    let many = Limits::default().with_max_continuations(9);
    let (outcome, said) = ended(many.clone(), ContinuationStrategy::with(on.clone()), &calls);
    let outcome = outcome.unwrap();
    assert_eq!(
        (outcome.status(), outcome.reason()),
        (Status::Incomplete, Some(StopReason::Progress))
    );
    assert_eq!(
        (
            outcome.tally().percentage,
            outcome.tally().failures,
            outcome.tally().continuations
        ),
        (Some(41), 0, 8)
    );
    assert_eq!(
        said,
        [
            (40, 0),
            (40, 1),
            (39, 2),
            (41, 0),
            (41, 1),
            (41, 2),
            (41, 3)
        ]
    );
    // Down to one.
    let strict = Limits::default().with_max_stalled_reports(1);
    let (outcome, _) = ended(strict, ContinuationStrategy::with(on), &calls[..3]);
    assert_eq!(outcome.unwrap().reason(), Some(StopReason::Progress));
    // Without the question, nothing is reported.
    assert_eq!(
        ended(many, ContinuationStrategy::default(), &calls),
        (None, Vec::new())
    );
}

#[test]
fn caps_take_every_number() {
    let calls = [("[10, 20", 5), ("[10, 20, 30", u64::MAX)];
    let limits = Limits::default().with_max_total_tokens(Some(10));
    assert_eq!(
        ended(limits, ContinuationStrategy::default(), &calls)
            .0
            .unwrap()
            .reason(),
        Some(StopReason::Tokens)
    );
    // New text is progress, even where no call without progress is allowed.
    let limits = Limits::default().with_max_no_progress(0);
    assert_eq!(
        ended(limits.clone(), ContinuationStrategy::default(), &calls).0,
        None
    );
    let again = [("[10, 20", 5), ("[10, 20", 5)];
    assert_eq!(
        ended(limits, ContinuationStrategy::default(), &again)
            .0
            .unwrap()
            .reason(),
        Some(StopReason::NoProgress)
    );
}

#[test]
fn counts_that_are_too_large_stay_as_large_as_they_can_be() {
    let limits = Limits::default().with_max_total_tokens(Some(u64::MAX));
    let mut session = Session::new(limits);
    session.handle_input(Duration::ZERO, Input::Text("[1, 2"));
    session.handle_input(Duration::ZERO, Input::Tokens(u64::MAX - 1));
    session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Dropped));
    assert_eq!(session.tally().continuations, 1);
    session.handle_input(Duration::ZERO, Input::Text("[1, 2, 3"));
    session.handle_input(Duration::ZERO, Input::Tokens(2));
    session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Dropped));
    let Some(Output::Done(outcome)) = std::iter::from_fn(|| session.poll_output()).last() else {
        panic!()
    };
    assert_eq!(
        (outcome.status(), outcome.reason()),
        (Status::Incomplete, Some(StopReason::Tokens))
    );

    let mut session = Session::new(Limits::default());
    session.handle_input(Duration::ZERO, Input::Text("[1, 2"));
    let mut saved = serde_json::to_value(session.snapshot()).unwrap();
    for key in [
        "failures",
        "failures_in_a_row",
        "no_progress_in_a_row",
        "ambiguous",
    ] {
        saved[key] = json!(u32::MAX);
    }
    let (mut session, _) = restored(&serde_json::from_value(saved).unwrap());
    session.handle_input(Duration::from_secs(9), Input::CallEnd(CallEnd::Closed));
    let Some(Output::Done(outcome)) = std::iter::from_fn(|| session.poll_output()).last() else {
        panic!()
    };
    assert_eq!(
        (outcome.tally().failures, outcome.reason()),
        (u32::MAX, Some(StopReason::Failures))
    );
}

#[test]
fn events_are_lines_of_a_log() {
    let (events, ..) = run(3, false);
    for event in &events {
        let line = event.to_json();
        assert!(line["event"].is_string(), "{line}");
    }
    let progress = SessionEvent::Progress {
        call: 2,
        percentage: 40,
        stalled_reports: 1,
    };
    assert_eq!(
        progress.to_json(),
        json!({"event": "progress", "call": 2, "percentage": 40, "stalled_reports": 1})
    );
}

#[test]
fn a_call_for_the_rest_ends_with_the_time() {
    let limits = Limits::default().with_max_total_time(Some(Duration::from_secs(50)));
    let mut session = Session::new(limits);
    session.handle_input(Duration::from_secs(1), Input::Text("[1, 2"));
    // The first answer takes as long as it needs.
    assert_eq!(session.poll_timeout(true), Some(Duration::from_secs(61)));
    session.handle_input(Duration::from_secs(10), Input::CallEnd(CallEnd::Dropped));
    session.handle_input(Duration::from_secs(12), Input::Text("[1, 2, 3"));
    assert_eq!(
        session.poll_timeout(true),
        Some(Duration::from_secs(51)),
        "less than the patience with silence"
    );
    session.handle_input(
        Duration::from_secs(51),
        Input::CallEnd(session.timed_out(true)),
    );
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    let Some(Output::Done(outcome)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (outcome.status(), outcome.reason()),
        (Status::Incomplete, Some(StopReason::Time))
    );
    let limit = outcome.tally().limit.as_ref().unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.value.as_u64()),
        ("max_total_time", Some(50))
    );
    // The received text stays. The number may have been longer.
    assert_eq!(session.document().text(), "[1, 2, 3");
}
