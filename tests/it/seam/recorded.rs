//! Answers that small models were recorded to give to the question for the rest.

use std::time::Duration;

use restitch::Limits;
use restitch::session::{CallEnd, Input, Output, Session, Status};
use serde_json::Value;

use restitch_testing::{corpus_rows, skipped};

/// Calls of a session that always get the same answer.
const MOST_CALLS: usize = 4;

#[test]
fn recorded_continuations_keep_what_was_delivered_and_bring_no_words_of_the_question() {
    let rows = corpus_rows("../cases/real-continuations.jsonl");
    if rows.is_empty() {
        return skipped("no real-continuations.jsonl in `cases` beside RESTITCH_CORPUS");
    }
    let now = Duration::ZERO;
    for (n, (_, row)) in rows.iter().enumerate() {
        let text = |member: &str| row[member].as_str().unwrap();
        let (delivered, answer) = (text("delivered"), text("continuation"));
        let mut session = Session::new(Limits::default());
        session.handle_input(now, Input::Text(delivered));
        session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
        let (mut calls, mut outcome) = (0, None);
        while let Some(output) = session.poll_output() {
            match output {
                Output::Call { .. } if calls < MOST_CALLS => {
                    calls += 1;
                    session.handle_input(now, Input::Text(answer));
                    session.handle_input(now, Input::CallEnd(CallEnd::Finished("stop".into())));
                }
                Output::Done(done) => outcome = Some(done),
                _ => {}
            }
        }
        let joined = session.document().text();
        let class = text("class");
        let status = outcome.as_ref().map(|outcome| outcome.status());
        println!("{n:3} {class:28} {calls} calls, {status:?}");
        assert!(joined.starts_with(delivered), "{n} {class}: {joined}");
        let is_own = [
            "<delivered_summary>",
            "<overlap_context>",
            "My connection dropped",
        ]
        .iter()
        .any(|words| joined.contains(words));
        assert!(!is_own, "{n} {class}: {joined}");
        if status == Some(Status::Complete) {
            let is_json = serde_json::from_str::<Value>(joined).is_ok();
            assert!(is_json, "{n} {class}: {joined}");
        }
    }
}
