//! Answers in the dialect of a model, cut anywhere, through a session and through a relay.

use std::time::Duration;

use proptest::prelude::*;
use restitch::internal::relay::{AnswerOptions, Relay, TransportEnd};
use restitch::provider::{Dialect, Finish};
use restitch::repair::{Repair, RepairLevel, RepairOptions, RepairedRoot, repair_root, undo};
use restitch::session::{
    CallEnd, ContinuationStrategy, GiveUp, Input, Outcome, Output, PrefillOptions, Request,
    Session, SessionEvent, Status,
};
use restitch::splice::Expect;
use restitch::{AllowedRoots, Limits};
use serde_json::{Value, json};

use super::properties::PIECES;
use crate::wires::continued::{self, Fault};
use restitch_testing::Rng;
use restitch_testing::chat::event;
use restitch_testing::rows::Rows;

const NOW: Duration = Duration::ZERO;

/// Answers as a model of Python's dialect writes them; what is repaired on the level `syntax`, and
/// on `guess`.
const SYNTAX: [&str; 3] = [
    "{'title': 'A list', 'rows': [{'id': 1, 'ok': True, 'note': None,}, {'id': 22, 'ok': False, 'text': 'He said \"no\".'}, \
     {'id': 333, 'path': 'C:\\x', 'tags': ['a', 'b',],},], 'end': True,}",
    "{\n  \"title\": \"A list\", // the first\n  \"rows\": [\n    {\"id\": 1, \"name\": \"one\",},\n    {\"id\": 2, \"name\": \
     \"two\nlines\"},\n    {\"id\": 3, \"name\": \"\\_three\"},\n  ],\n}",
    "[[1, 2, 3,], [4, 5, 6,], [True, None, False,], [\"x\", \"y\",], [7, 8, 9,],]",
];
const GUESS: [&str; 2] = [
    "{\"rows\": [{\"id\": 1, \"name: \"one\", \"n\": 1}, {\"id\": 2, \"name\": \"two\", \"n\": 2}, {\"id\": 3, \"name: \"three\", \
     \"n\": 3}, {\"id\": 4, \"name\": \"four\", \"n\": 4}, {\"id\": 5, \"name\": \"five\", \"n\": 5}, {\"id\": 6, \"name\": \
     \"six\", \"n\": 6}, {\"id\": 7, \"name\": \"seven\", \"n\": 7}, {\"id\": 8, \"name\": \"eight\", \"n\": 8}]}",
    "{\"rows\": [{\"id\": 1, \"text\": \"It is \"fine\" here\"}, {\"id\": 2, \"text\": \"two\"}, {\"id\": 3, \"text\": \"three\"}, \
     {\"id\": 4, \"text\": \"four\"}, {\"id\": 5, \"text\": \"five\"}, {\"id\": 6, \"text\": \"six\"}, {\"id\": 7, \"text\": \
     \"seven\"}, {\"id\": 8, \"text\": \"eight\"}, {\"id\": 9, \"text\": \"nine\"}, {\"id\": 10, \"text\": \"ten\"}]}",
];

fn texts() -> impl Iterator<Item = (&'static str, RepairLevel)> {
    let syntax = SYNTAX.into_iter().map(|text| (text, RepairLevel::Syntax));
    let both = SYNTAX
        .into_iter()
        .chain(GUESS)
        .map(|text| (text, RepairLevel::Guess));
    syntax.chain(both)
}

/// Returns what a text is repaired to, read by another parser.
fn repaired(text: &str, level: RepairLevel) -> (Value, Vec<Repair>) {
    let answer = repair_root(text, &RepairOptions::new(level));
    (serde_json::from_str(&answer.json).unwrap(), answer.repairs)
}

/// How a model answers the call for the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// From the beginning, in its own dialect.
    Again,
    /// What it was asked to repeat as it was shown, then its own dialect.
    Anchor,
    /// Right at the cut.
    Exact,
}

/// Returns the end of the token that the offset `at` is inside of, or `at`.
fn token_end(json: &str, at: usize) -> usize {
    let mut start = 0;
    while start < at {
        let rest = &json[start..];
        let length = if let Some(inner) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = inner.find(|c: char| {
                let was_escaped = escaped;
                escaped = !was_escaped && c == '\\';
                !was_escaped && c == '"'
            });
            end.unwrap() + 2
        } else {
            rest.find(|c: char| !c.is_alphanumeric() && !"+-.".contains(c))
                .unwrap_or(rest.len())
                .max(1)
        };
        start += length;
    }
    start
}

/// Returns what a model writes after so much of a repaired document, which it was shown: the rest
/// of the string or word that is open, then its own dialect.
fn rest_as_written(text: &str, made: &RepairedRoot, delivered: usize) -> String {
    let at = token_end(&made.json, delivered);
    let (mut out, mut start) = (0, 0);
    for repair in &made.repairs {
        let next = out + (repair.range.start - start);
        let end = next + repair.replacement.len();
        if at < end || at == next && !repair.range.is_empty() {
            break;
        }
        (out, start) = (end, repair.range.end);
    }
    format!(
        "{}{}",
        &made.json[delivered..at],
        &text[(start + at.saturating_sub(out)).min(text.len())..]
    )
}

struct Ended {
    client: String,
    outcome: Outcome,
    reported: usize,
}

/// Answers the calls of a session: the first with `first`, in pieces, the others as `rest` says.
fn drive(
    session: &mut Session,
    first: &str,
    end: &CallEnd,
    mut rest: impl FnMut(&Request, &str) -> String,
) -> Ended {
    let (mut client, mut reported) = (String::new(), 0);
    for piece in first.split_inclusive(|_| true) {
        session.handle_input(NOW, Input::Text(piece));
    }
    session.handle_input(NOW, Input::CallEnd(end.clone()));
    loop {
        match session.poll_output().expect("a session ends") {
            Output::Text(text) => client.push_str(&text),
            Output::Event(SessionEvent::Repaired { .. }) => reported += 1,
            Output::Call { request, .. } => {
                let text = rest(&request, &client);
                for piece in text.split_inclusive(|_| true) {
                    session.handle_input(NOW, Input::Text(piece));
                }
                session.handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
            }
            Output::Done(outcome) => {
                return Ended {
                    client,
                    outcome,
                    reported,
                };
            }
            _ => {}
        }
    }
}

#[test]
fn a_first_answer_comes_repaired() {
    for (text, level) in texts() {
        for (before, after) in [("", ""), ("Here:\n```json\n", "\n```\nThat is all.")] {
            let mut session = Session::new(Limits::default());
            session.set_repair(level);
            let whole = format!("{before}{text}{after}");
            let ended = drive(
                &mut session,
                &whole,
                &CallEnd::Finished(Finish::Stop),
                |_, _| panic!("it is whole"),
            );
            let (value, repairs) = repaired(text, level);
            let root = ended
                .client
                .strip_prefix(before)
                .unwrap()
                .strip_suffix(after)
                .unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(root).unwrap(),
                value,
                "{text}"
            );
            assert_eq!(
                (ended.outcome.status(), ended.reported),
                (Status::Complete, repairs.len()),
                "{text}"
            );
            assert_eq!(
                ended.outcome.tally().repairs.values().sum::<u32>() as usize,
                repairs.len()
            );
        }
    }
}

#[test]
fn a_healthy_answer_stays_as_it_came() {
    let text = "Here:\n{\"a\" : [1 , 2.50 ], \"b\": \"x\\u00e9\\/ 'y' // z\" , \"c\":{ } } and more, 'as prose'";
    for level in RepairLevel::ALL {
        let mut session = Session::new(Limits::default());
        session.set_repair(level);
        let ended = drive(
            &mut session,
            text,
            &CallEnd::Finished(Finish::Stop),
            |_, _| panic!("it is whole"),
        );
        let given = if level == RepairLevel::Strict {
            ""
        } else {
            text
        };
        assert_eq!(
            (ended.client.as_str(), ended.outcome.status()),
            (given, Status::PassedThrough),
            "{level}"
        );
    }
}

#[test]
fn what_cannot_be_repaired_comes_as_it_was_written() {
    for text in [
        "{\"url\": \"http:\"//x.y\", \"b\": 2}\nThat is it.",
        "```\n{\"a\": 1\n```",
        "{\"a\": nope!, \"b\": [1, 2,]}",
        "{\"a\": [1, 2,], \"b\": \u{1}\u{2} x 'y'",
        "[1, , 'a' 2 : }",
        "no JSON, 'at all'",
    ] {
        for end in [
            CallEnd::Finished(Finish::Stop),
            CallEnd::Finished(Finish::ContentFilter),
        ] {
            let mut session = Session::new(Limits::default());
            session.set_repair(RepairLevel::Syntax);
            let ended = drive(&mut session, text, &end, |_, _| {
                panic!("it is not continued")
            });
            // What was repaired before the mistake stays so; nothing is missing.
            let rebuilt = undo(&ended.client, &events_of(text));
            assert_eq!(rebuilt, text);
        }
    }
}

/// Returns the repairs before the place where a text can't be repaired.
fn events_of(text: &str) -> Vec<Repair> {
    let mut session = Session::new(Limits::default());
    session.set_repair(RepairLevel::Syntax);
    session.handle_input(NOW, Input::Text(text));
    session.handle_input(
        NOW,
        Input::CallEnd(CallEnd::Finished(Finish::ContentFilter)),
    );
    let repair = |output| match output {
        Output::Event(SessionEvent::Repaired { repair, .. }) => Some(repair),
        _ => None,
    };
    std::iter::from_fn(|| session.poll_output())
        .filter_map(repair)
        .collect()
}

/// Bytes before a cut that are left out, and come again, on the level `guess`.
const UNREAD: usize = 16;

/// How many of the cut answers became whole after one call: of those in a model's dialect, and of
/// the same documents without a mistake on the level `strict`.
#[derive(Debug, Default)]
struct Counts {
    cuts: usize,
    whole: usize,
    whole_without_mistakes: usize,
    /// Answers that became another document.
    wrong: Vec<String>,
    /// Those among them without a mistake before the cut: further text is joined as it came then.
    late: usize,
}

/// Cuts each text at each character, and answers in one way.
fn cut_everywhere(answer: Answer, strategy: &ContinuationStrategy, rows: &mut Rows) -> Counts {
    let mut counts = Counts::default();
    for (text, level) in texts() {
        let made = repair_root(text, &RepairOptions::new(level));
        let value: Value = serde_json::from_str(&made.json).unwrap();
        for (at, _) in text.char_indices().skip(12) {
            if !rows.runs_next() {
                continue;
            }
            let run = |level, text: &str, at, made: &RepairedRoot| {
                let mut session = Session::new(Limits::default());
                session.set_repair(level);
                session.set_strategy(strategy.clone());
                let mut delivered = None;
                let first = if level == RepairLevel::Strict {
                    &text[..at]
                } else {
                    ""
                };
                let mut ended = drive(&mut session, &text[..at], &length(), |request, client| {
                    let client = format!("{first}{client}");
                    let rest = rest_as_written(text, made, client.len().min(made.json.len()));
                    delivered.get_or_insert(client);
                    match (answer, &request.turn) {
                        (Answer::Again, _) | (_, None) => text.to_owned(),
                        (Answer::Anchor, Some(turn)) => format!("{}{rest}", turn.anchor),
                        (Answer::Exact, Some(_)) => rest.to_owned(),
                    }
                });
                ended.client.insert_str(0, first);
                let is_whole =
                    serde_json::from_str::<Value>(&ended.client).ok().as_ref() == Some(&value);
                (is_whole, ended, delivered.unwrap_or_default())
            };
            let (is_whole, ended, delivered) = run(level, text, at, &made);
            counts.cuts += 1;
            counts.whole += usize::from(is_whole && ended.outcome.tally().continuations == 1);
            if ended.outcome.status() == Status::Complete && !is_whole {
                if made
                    .repairs
                    .iter()
                    .all(|repair| repair.range.start >= at.saturating_sub(UNREAD))
                {
                    counts.late += 1;
                } else {
                    counts.wrong.push(format!(
                        "{level} {answer:?} at {at} of {text}\n  {}",
                        ended.client
                    ));
                }
            }
            let (was_whole, twin, _) = run(
                RepairLevel::Strict,
                &made.json,
                delivered.len(),
                &RepairedRoot {
                    repairs: Vec::new(),
                    ..made.clone()
                },
            );
            let was_whole = was_whole && twin.outcome.tally().continuations == 1;
            counts.whole_without_mistakes += usize::from(was_whole);
            if was_whole && !is_whole {
                println!(
                    "{level} {answer:?} at {at} after {delivered:?}: {}",
                    ended.outcome
                );
            }
        }
    }
    counts
}

#[test]
fn a_cut_answer_is_continued_in_the_models_dialect() {
    let usual = ContinuationStrategy::default();
    let prefill = usual.clone().prefill(PrefillOptions::default());
    let mut rows = Rows::of("cut answers with mistakes");
    for (answer, strategy) in [
        (Answer::Again, &usual),
        (Answer::Anchor, &usual),
        (Answer::Exact, &prefill),
        (Answer::Again, &prefill),
    ] {
        let Counts {
            cuts,
            whole,
            whole_without_mistakes,
            wrong,
            late,
        } = cut_everywhere(answer, strategy, &mut rows);
        println!(
            "covered: {answer:?}: {whole} of {cuts} whole after one call, {whole_without_mistakes} without mistakes"
        );
        println!("  {late} wrong where no mistake came before the cut");
        assert!(
            wrong.is_empty(),
            "{} of {cuts}:\n{}",
            wrong.len(),
            wrong[..wrong.len().min(60)].join("\n")
        );
        assert!(
            !rows.exceeds(late, cuts, 1.0),
            "{answer:?}: {late} of {cuts}"
        );
        assert!(
            !rows.exceeds(
                whole_without_mistakes.saturating_sub(whole),
                whole_without_mistakes,
                3.0
            ),
            "{answer:?}: {whole} of {cuts}"
        );
    }
}

/// The first mistake of an answer may be in its rest: that rest fits
/// nowhere, and is repaired when the model sends it again.
#[test]
fn what_fitted_nowhere_is_repaired_when_it_comes_again() {
    for (first, rest) in [
        ("{\"a\": 1, ", "{\"a\": 1, 'b': [1, 2]}"),
        ("[", "[True, 1]"),
        ("{", "{'a': 1, 'b': [1, 2]}"),
        (
            "{\"a\": [\"one\", ",
            "```json\n{\"a\": [\"one\", 'two']}\n```",
        ),
    ] {
        let mut session = Session::new(Limits::default());
        session.set_repair(RepairLevel::Syntax);
        let ended = drive(&mut session, first, &CallEnd::Dropped, |_, _| {
            rest.to_owned()
        });
        let (value, _) = repaired(&rest[rest.find(['{', '[']).unwrap()..], RepairLevel::Syntax);
        assert_eq!(
            ended.outcome.status(),
            Status::Complete,
            "{first:?} {rest:?}"
        );
        assert_eq!(ended.outcome.tally().continuations, 2, "{first:?} {rest:?}");
        assert_eq!(
            serde_json::from_str::<Value>(&ended.client).ok(),
            Some(value),
            "{first:?} {rest:?}"
        );
    }
}

/// Repairs in text that comes again were counted when it came first.
#[test]
fn repairs_are_counted_once_in_pieces_of_any_size() {
    let text = SYNTAX[0];
    for level in [RepairLevel::Syntax, RepairLevel::Guess] {
        for at in 12..text.len() - 12 {
            let counts = |step: usize| {
                let mut session = Session::new(Limits::default());
                session.set_repair(level);
                session.handle_input(NOW, Input::Text(&text[..at]));
                session.handle_input(NOW, Input::CallEnd(length()));
                loop {
                    match session.poll_output().expect("a session ends") {
                        Output::Call { .. } => {
                            for piece in text.as_bytes().chunks(step) {
                                session.handle_input(
                                    NOW,
                                    Input::Text(std::str::from_utf8(piece).unwrap()),
                                );
                            }
                            session
                                .handle_input(NOW, Input::CallEnd(CallEnd::Finished(Finish::Stop)));
                        }
                        Output::Done(outcome) => {
                            let tally = outcome.tally();
                            break (outcome.status(), tally.repairs.clone());
                        }
                        _ => {}
                    }
                }
            };
            let whole = counts(text.len());
            for step in [1, 3, 7, 40] {
                assert_eq!(counts(step), whole, "{level} cut at {at}, by {step}");
            }
            if whole.0 == Status::Complete {
                // A comma that was left out right at the cut may be counted again.
                let (made, counted) = (
                    repaired(text, level).1.len(),
                    whole.1.values().sum::<u32>() as usize,
                );
                assert!(
                    (made..=made + 1).contains(&counted),
                    "{level} cut at {at}: {:?}",
                    whole.1
                );
            }
        }
    }
}

/// A root that is a number ends with the line, also where text is repaired.
#[test]
fn an_answer_that_is_a_number_ends() {
    for text in ["1 2", "1\n", "-12 // twelve", "true\n"] {
        for level in RepairLevel::ALL {
            let mut session = Session::with(Limits::default(), Expect::Anchor, AllowedRoots::Any);
            session.set_repair(level);
            let ended = drive(
                &mut session,
                text,
                &CallEnd::Finished(Finish::Stop),
                |_, _| panic!("it is whole"),
            );
            assert_eq!(
                ended.outcome.status(),
                Status::PassedThrough,
                "{level} {text:?}"
            );
            assert!(
                ended.client == text || level == RepairLevel::Strict,
                "{level} {:?}",
                ended.client
            );
        }
    }
}

fn length() -> CallEnd {
    CallEnd::Finished(Finish::Length)
}

/// A quote within an unfinished escape ends no string: there is no recovery, wherever the pushes
/// end.
#[test]
fn a_quote_in_an_open_escape_closes_nothing() {
    for text in [
        "{'\\u12'{",
        "{'\\u12\"",
        "{'a': '\\u1\\'b'",
        "{\u{201c}\\u12\u{201d}: 1",
        "{'\\ud83d'",
        "{'\\ud83d\\'",
        "{'\\ud83dx'",
    ] {
        for level in [RepairLevel::Syntax, RepairLevel::Guess] {
            let whole = passed(level, &[text]);
            assert!(!whole.0.ends_with('}'), "{}", whole.0);
            assert_eq!(undo(&whole.0, &whole.1), text);
            let chars: Vec<String> = text.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            assert_eq!(passed(level, &chars), whole, "{text}");
        }
    }
    // After half a pair of surrogates a string may end.
    let repaired = repair_root(
        "{'\\ud83d': '\\ud83d'}",
        &RepairOptions::new(RepairLevel::Syntax),
    )
    .json;
    assert_eq!(repaired, "{\"\\ud83d\": \"\\ud83d\"}");
}

/// Feeds a first answer and ends it without a cut; returns what the client has, and the repairs.
fn passed(level: RepairLevel, pieces: &[&str]) -> (String, Vec<Repair>) {
    let mut session = Session::new(Limits::default());
    session.set_repair(level);
    for piece in pieces {
        session.handle_input(NOW, Input::Text(piece));
    }
    session.handle_input(
        NOW,
        Input::CallEnd(CallEnd::Finished(Finish::ContentFilter)),
    );
    let (mut client, mut repairs) = (String::new(), Vec::new());
    while let Some(output) = session.poll_output() {
        match output {
            Output::Text(text) => client.push_str(&text),
            Output::Event(SessionEvent::Repaired { repair, .. }) => repairs.push(repair),
            _ => {}
        }
    }
    (client, repairs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing of an answer is lost, whatever it is, and its pieces do not matter.
    #[test]
    fn an_answer_without_a_cut_can_be_given_back(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40),
        before in prop::sample::select(&["", "So:\n```json\n"][..]),
    ) {
        let mut pieces = pieces;
        pieces.insert(0, before);
        let text = pieces.concat();
        for level in [RepairLevel::Syntax, RepairLevel::Guess] {
            let (client, repairs) = passed(level, &pieces);
            prop_assert_eq!(undo(&client, &repairs), text.as_str(), "{}", client);
            prop_assert_eq!(passed(level, &[&text]), (client, repairs));
        }
    }

    /// A cut answer ends, whatever comes next, and what the client has is what the session says.
    #[test]
    fn any_answer_to_any_cut_ends(
        first in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30),
        rest in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30),
    ) {
        for level in [RepairLevel::Syntax, RepairLevel::Guess] {
            let mut session = Session::new(Limits::default());
            session.set_give_up(GiveUp::Close);
            session.set_repair(level);
            let answers = rest.concat();
            let ended = drive(&mut session, &format!("{{\"a\": [{}", first.concat()), &length(), |_, _| answers.clone());
            if ended.outcome.tally().continuations > 0 && ended.outcome.status() != Status::PassedThrough {
                prop_assert_eq!(ended.client.trim_end(), session.document().text().trim_end());
            }
            if matches!(ended.outcome.status(), Status::Complete | Status::Closed) {
                let root = session.document().root().unwrap();
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(root).is_ok(), "{}", root);
            }
        }
    }
}

fn chunk(text: &str) -> String {
    event(
        &json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"n": 1}}]}),
    )
}

/// Feeds a stream to a relay in pieces. Returns what the client gets, and how it ends.
fn relayed(
    level: RepairLevel,
    stream: &str,
    mut cut: impl FnMut() -> usize,
) -> (String, Outcome, TransportEnd) {
    let relay = Relay::new(Limits::default()).repair(level);
    let relayed = continued::relayed(
        relay,
        stream.as_bytes(),
        Fault::Clean,
        |mut rest| {
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(cut().clamp(1, rest.len()));
                pieces.push(piece);
                rest = later;
            }
            pieces
        },
        |_, request| panic!("the answer is whole: {request:?}"),
    );
    let (outcome, end) = relayed.end().unwrap();
    let outcome = outcome.clone();
    (String::from_utf8(relayed.body).unwrap(), outcome, end)
}

fn events(body: &str) -> Vec<Value> {
    let events = continued::events_of(Dialect::Chat, body).into_iter();
    events
        .map(|(_, data)| serde_json::from_str(&data).unwrap_or(Value::String(data)))
        .collect()
}

fn content(events: &[Value]) -> String {
    events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect()
}

#[test]
fn a_stream_is_written_again_where_its_text_changes() {
    let mut random = Rng::new(7);
    for (text, level) in texts() {
        let (value, _) = repaired(text, level);
        let role = event(
            &json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        );
        let mut deltas = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let most = 1 + random.below(9);
            let end = (1..=rest.len())
                .find(|&end| end >= most && rest.is_char_boundary(end))
                .unwrap_or(rest.len());
            deltas.push_str(&chunk(&rest[..end]));
            rest = &rest[end..];
        }
        let finish = event(
            &json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        );
        let usage = event(
            &json!({"id": "c", "model": "m", "choices": [], "usage": {"completion_tokens": 9}}),
        );
        let stream = format!("{role}{deltas}{finish}{usage}data: [DONE]\n\n");
        let (whole, outcome, end) = relayed(level, &stream, || usize::MAX);
        let events = events(&whole);
        assert_eq!(
            serde_json::from_str::<Value>(&content(&events)).unwrap(),
            value
        );
        assert_eq!(
            (outcome.status(), end),
            (Status::Complete, TransportEnd::Closed)
        );
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        let finishes = events
            .iter()
            .filter(|event| event["choices"][0]["finish_reason"].is_string())
            .count();
        assert_eq!(
            (finishes, events.last().unwrap().as_str()),
            (1, Some("[DONE]"))
        );
        assert!(
            events
                .iter()
                .any(|event| event["usage"]["completion_tokens"] == 9)
        );
        assert!(
            events
                .iter()
                .any(|event| event["restitch"]["status"] == "complete"
                    && event["restitch"]["repairs"].is_object()),
            "{whole}"
        );
        // Rewritten chunks keep what else they have.
        let of_text = events.iter().filter(|event| {
            event["choices"][0]["delta"]["content"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        });
        assert!(
            of_text
                .clone()
                .filter(|event| event["choices"][0]["logprobs"]["n"] == 1)
                .count()
                + 2
                >= of_text.count()
        );
        for _ in 0..10 {
            let (pieces, ..) = relayed(level, &stream, || 1 + random.below(60));
            assert_eq!(pieces, whole);
        }
    }
}

#[test]
fn a_stream_that_needs_no_repair_keeps_its_bytes() {
    let deltas = [
        "{\"a\": [1, 2",
        "], \"b\": \"it's // fine\", ",
        "\"c\": tr",
        "ue}",
    ];
    let stream: String = deltas.iter().map(|text| chunk(text)).collect();
    let finish =
        event(&json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let stream = format!("{stream}{finish}data: [DONE]\n\n");
    assert_eq!(relayed(RepairLevel::Strict, &stream, || 40).0, stream);
    // A comma and an open literal are held back: the text is the same, the deltas are not.
    let (body, outcome, _) = relayed(RepairLevel::Syntax, &stream, || 40);
    assert_eq!(
        (content(&events(&body)), outcome.status()),
        (deltas.concat(), Status::PassedThrough)
    );
    let untouched = [chunk(deltas[0]), finish];
    assert!(
        untouched.iter().all(|event| body.contains(event.as_str())),
        "{body}"
    );
}

#[test]
fn held_text_leaves_before_any_kind_of_end() {
    let text = "{\"a\": [1, 2], \"b\": \"c\"}";
    let finish = |choice: Value| event(&json!({"id": "c", "model": "m", "choices": [choice]}));
    let error = "event: error\ndata: {\"error\": {\"message\": \"overloaded\"}}\n\n".to_owned();
    let ends = [
        "data: [DONE]\n\n".to_owned(),
        error,
        format!(
            "{}data: [DONE]\n\n",
            finish(json!({"index": 0, "finish_reason": "stop"}))
        ),
        format!(
            "{}data: [DONE]\n\n",
            finish(json!({"index": 0, "delta": null, "finish_reason": "stop"}))
        ),
        String::new(),
    ];
    for end in &ends {
        for pieces in [vec![text], vec!["{\"a\": [1,", " 2], \"b\": \"c\"}"]] {
            let stream: String = pieces.iter().map(|piece| chunk(piece)).collect();
            for level in [RepairLevel::Syntax, RepairLevel::Guess] {
                let (body, ..) = relayed(level, &format!("{stream}{end}"), || usize::MAX);
                assert_eq!(content(&events(&body)), text, "{level} {end:?}: {body}");
                assert!(body.contains(end.trim_end()), "{level} {end:?}: {body}");
                let at = body.find(end.as_str()).unwrap_or(body.len());
                assert!(
                    end.is_empty() || body[..at].matches("content").count() > 0,
                    "{level} {end:?}: {body}"
                );
            }
        }
    }
}

#[test]
fn what_was_not_read_at_a_cut_is_left_where_nothing_follows() {
    for (text, level) in [
        ("{\"a\": [1, 2, ", RepairLevel::Syntax),
        ("{'a': [1, 2,], 'b': Tru", RepairLevel::Syntax),
        ("{\"a\": \"b\", \"c\": 12", RepairLevel::Guess),
        ("{\"essay\": \"A few words", RepairLevel::Guess),
    ] {
        let mut session = Session::new(Limits::default().with_max_continuations(0));
        session.set_repair(level);
        session.set_give_up(GiveUp::Leave);
        let ended = drive(&mut session, text, &length(), |_, _| {
            panic!("no call is allowed")
        });
        assert_eq!(ended.outcome.status(), Status::Incomplete, "{text}");
        assert_eq!(undo(&ended.client, &events_of(text)), text, "{level}");
    }
    // A long text that is open is read.
    let words: String = (0..400)
        .map(|n| format!("word{} ", n * 7919 % 1000))
        .collect();
    let text = format!("{{\"essay\": \"{words}");
    let mut session = Session::new(Limits::default().with_max_continuations(1));
    session.set_repair(RepairLevel::Guess);
    let ended = drive(&mut session, &text, &length(), |_, client| {
        assert_eq!(client, text);
        format!("{text}end\"}}")
    });
    assert_eq!(
        (ended.client, ended.outcome.status()),
        (format!("{text}end\"}}"), Status::Complete)
    );
}

#[test]
fn what_else_a_last_event_has_is_kept() {
    let last = json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "2,", "tool_calls": [{"index": 0, "function": {"name": "f"}}]}, "finish_reason": "tool_calls"}]});
    let stream = format!("{}{}data: [DONE]\n\n", chunk("[1, "), event(&last));
    let (body, outcome, _) = relayed(RepairLevel::Syntax, &stream, || usize::MAX);
    let events = events(&body);
    assert_eq!(
        (content(&events).as_str(), outcome.status()),
        ("[1, 2,", Status::PassedThrough)
    );
    let last = events
        .iter()
        .find(|event| event["choices"][0]["finish_reason"] == "tool_calls")
        .unwrap();
    assert_eq!(
        last["choices"][0]["delta"]["tool_calls"][0]["function"]["name"],
        "f"
    );
    // An error is as loud as before, and comes after the text.
    let stream = format!(
        "{}{}",
        chunk("{\"a\": tru"),
        event(&json!({"error": {"message": "overloaded"}}))
    );
    let (body, ..) = relayed(
        RepairLevel::Syntax,
        &stream.replace("{\\\"a\\\": tru", "no JSON"),
        || usize::MAX,
    );
    assert!(
        body.contains("overloaded") && body.contains("no JSON"),
        "{body}"
    );
}
