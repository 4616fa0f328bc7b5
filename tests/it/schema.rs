//! A continued answer is complete only if it has what the request's schema requires.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::Finish;
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, FailureReason, GiveUp, Input, Outcome, Output,
    PrefillOptions, Request, Session, SessionEvent, Status, StopReason,
};
use serde_json::{Value, json};

use restitch_testing::Rng;

/// A session with a schema, what its client has, and what it has asked for.
struct Asked {
    session: Session,
    client: String,
    requests: Vec<Request>,
    failures: Vec<FailureReason>,
    outcome: Option<Outcome>,
}

impl Asked {
    fn new(schema: &Value) -> Self {
        let mut session = Session::new(Limits::default());
        session.set_schema(&schema.to_string());
        Self {
            session,
            client: String::new(),
            requests: Vec::new(),
            failures: Vec::new(),
            outcome: None,
        }
    }

    /// One call: its text in pieces of this many characters, and how it ends.
    fn call(&mut self, text: &str, size: usize, end: Finish) -> &mut Self {
        let text: Vec<char> = text.chars().collect();
        for piece in text.chunks(size) {
            let piece: String = piece.iter().collect();
            if self.session.is_first() {
                self.client.push_str(&piece);
            }
            self.session.handle_input(NOW, Input::Text(&piece));
            self.drain();
        }
        let end = Input::CallEnd(CallEnd::Finished(end));
        self.session.handle_input(NOW, end);
        self.drain();
        assert_eq!(self.client, self.session.document().text());
        self
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Text(text) => self.client.push_str(&text),
                Output::Call { request, .. } => self.requests.push(request),
                Output::Event(SessionEvent::Failed { reason, .. }) => self.failures.push(reason),
                Output::Done(outcome) => self.outcome = Some(outcome),
                _ => {}
            }
        }
    }

    /// The delivered text that the answer is asked to begin with.
    fn repeated(&self) -> &str {
        let turn = self.requests.last().unwrap().turn.as_ref().unwrap();
        match turn.mode {
            ContinuationMode::Again => &self.client,
            _ => &turn.anchor,
        }
    }

    /// A call that repeats the requested text and continues with this text.
    fn continued(&mut self, rest: &str) -> &mut Self {
        let text = format!("{}{rest}", self.repeated());
        self.call(&text, 7, Finish::Stop)
    }

    fn status(&self) -> Option<(Status, Option<StopReason>)> {
        let outcome = self.outcome.as_ref()?;
        Some((outcome.status(), outcome.reason()))
    }
}

const NOW: Duration = Duration::ZERO;

/// Rows, of which there must be four, each with a name and a number.
fn rows() -> Value {
    json!({
        "type": "object", "required": ["rows", "total"],
        "properties": {
            "rows": {"minItems": 4, "items": {"required": ["name", "count"]}},
            "total": {"type": "number"},
        },
    })
}

const CUT: &str = r#"{"rows": [{"name": "Aurora", "count": 11}, {"name": "Borealis", "co"#;

#[test]
fn a_closing_bracket_waits_until_all_elements_are_there() {
    for size in [1, 7, 1000] {
        let mut asked = Asked::new(&rows());
        asked.call(CUT, size, Finish::Length);
        asked.continued(r#"unt": 12}, {"name": "Cassini", "count": 13}], "total": 36}"#);
        let delivered = format!(r#"{CUT}unt": 12}}, {{"name": "Cassini", "count": 13}}"#);
        assert_eq!((asked.client.as_str(), asked.status()), (&*delivered, None));
        let missing = "the array at `/rows` has 3 of at least 4 elements".to_owned();
        let turn = asked.requests.last().unwrap().turn.as_ref().unwrap();
        assert!(turn.prompt.contains(&missing), "{}", turn.prompt);
        let path = "/rows".to_owned();
        assert_eq!(asked.failures, [FailureReason::Shortfall { path, missing }]);
        let rest = r#", {"name": "Dione", "count": 14}], "total": 50}"#;
        asked.continued(rest);
        assert_eq!(asked.client, delivered + rest);
        assert_eq!(asked.status(), Some((Status::Complete, None)));
        assert_eq!(asked.requests.len(), 2);
    }
}

#[test]
fn a_model_that_closes_again_without_more_is_given_up() {
    for give_up in [GiveUp::Leave, GiveUp::Close, GiveUp::Error] {
        let mut asked = Asked::new(&rows());
        asked.session.set_give_up(give_up);
        asked.call(CUT, 9, Finish::Length);
        asked.continued("unt\": 12}\n], \"total\": 23}");
        asked.continued("], \"total\": 23}");
        let status = match give_up {
            GiveUp::Leave => Status::Incomplete,
            GiveUp::Close => Status::Closed,
            _ => Status::Failed,
        };
        assert_eq!(asked.status(), Some((status, Some(StopReason::Schema))));
        let outcome = asked.outcome.as_ref().unwrap();
        assert_eq!(outcome.tally().schema_violation.as_deref(), Some("/rows"));
        let report: Value = serde_json::from_str(&outcome.report()).unwrap();
        assert_eq!(
            (&report["stop"], &report["schema_path"]),
            (&json!("schema"), &json!("/rows"))
        );
    }
}

#[test]
fn a_model_that_adds_elements_is_asked_until_all_are_there() {
    let mut asked = Asked::new(&rows());
    asked.call(CUT, 9, Finish::Length);
    asked.continued("unt\": 12}], \"total\": 23}");
    asked.continued(", {\"name\": \"Cassini\", \"count\": 13}], \"total\": 36}");
    assert_eq!(asked.status(), None);
    asked.continued(", {\"name\": \"Dione\", \"count\": 14}], \"total\": 50}");
    assert_eq!(asked.status(), Some((Status::Complete, None)));
}

#[test]
fn members_that_are_required_are_named() {
    let mut asked = Asked::new(&rows());
    let cut = r#"{"rows": [{"name": "A", "count": 1}, {"name": "B", "count": 2}, {"name": "C", "count": 3}, {"name": "Delos", "cou"#;
    asked.call(cut, 11, Finish::Length);
    asked.continued("nt\": 4}]}");
    assert_eq!(
        (asked.client.as_str(), asked.status()),
        (&*format!("{cut}nt\": 4}}]"), None)
    );
    let turn = asked.requests.last().unwrap().turn.as_ref().unwrap();
    assert!(
        turn.prompt
            .contains("the object at the root still lacks \"total\""),
        "{}",
        turn.prompt
    );
    asked.continued(", \"total\": 10}");
    assert_eq!(asked.status(), Some((Status::Complete, None)));
    assert!(asked.client.ends_with("4}], \"total\": 10}"));
}

/// The bytes were sent before the cut, so no call can add to them.
#[test]
fn what_the_model_left_out_before_the_cut_is_no_success() {
    let mut asked = Asked::new(&json!({"items": {"required": ["name"]}}));
    asked.call(
        "[{\"id\": 1, \"note\": \"first\"}, {\"name\": \"sec",
        100,
        Finish::Length,
    );
    asked.continued("ond\"}]");
    assert_eq!(
        asked.client,
        "[{\"id\": 1, \"note\": \"first\"}, {\"name\": \"second\"}]"
    );
    assert_eq!(
        asked.status(),
        Some((Status::Incomplete, Some(StopReason::Schema)))
    );
    let outcome = asked.outcome.as_ref().unwrap();
    assert_eq!(outcome.tally().schema_violation.as_deref(), Some("/0"));
    assert_eq!(outcome.finish(), Some(&Finish::Length));
}

#[test]
fn a_value_of_another_type_is_reported() {
    let mut asked = Asked::new(&json!({"items": {"type": "integer"}}));
    asked.call("[1000, 2000, 3", 100, Finish::Length);
    asked.continued("000, \"4000\"]");
    assert_eq!(asked.status(), Some((Status::Complete, None)));
    let outcome = asked.outcome.as_ref().unwrap();
    assert_eq!(outcome.tally().schema_violation.as_deref(), Some("/3"));
}

#[test]
fn an_answer_in_one_call_passes_unchanged() {
    let mut asked = Asked::new(&rows());
    asked.call("{\"rows\": []}", 3, Finish::Stop);
    assert_eq!(asked.client, "{\"rows\": []}");
    assert_eq!(asked.status(), Some((Status::PassedThrough, None)));
    // So does the answer to the same request again, since nothing of the first one came.
    let mut asked = Asked::new(&rows());
    asked
        .session
        .handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    asked.drain();
    asked.call("{\"rows\": []}", 3, Finish::Stop);
    assert_eq!(asked.client, "{\"rows\": []}");
    assert_eq!(asked.status(), Some((Status::Complete, None)));
}

/// A prefill has no words for a missing row.
#[test]
fn a_prefill_is_followed_by_words() {
    let mut asked = Asked::new(&rows());
    asked
        .session
        .set_strategy(ContinuationStrategy::default().prefill(PrefillOptions::default()));
    asked.call(CUT, 9, Finish::Length);
    asked.call("unt\": 12}], \"total\": 23}", 5, Finish::Stop);
    assert_eq!(asked.status(), None);
    let modes: Vec<_> = asked
        .requests
        .iter()
        .map(|request| request.turn.as_ref().unwrap().mode)
        .collect();
    assert_eq!(modes, [ContinuationMode::Prefill, ContinuationMode::Again]);
}

/// A short document with a schema that a lost connection has cut is asked for as a whole, under its
/// format.
#[test]
fn a_short_document_is_asked_for_again_under_its_format() {
    let whole = r#"{"rows": [{"name": "Aurora", "count": 11}, {"name": "Borealis", "count": 12}, {"name": "C", "count": 1}, {"name": "D", "count": 2}], "total": 26}"#;
    for at in (20..whole.len() - 4).step_by(7) {
        for size in [1, 13, 1000] {
            let mut asked = Asked::new(&rows());
            asked.client.push_str(&whole[..at]);
            asked.session.handle_input(NOW, Input::Text(&whole[..at]));
            asked
                .session
                .handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
            asked.drain();
            let turn = asked.requests[0].turn.as_ref().unwrap();
            assert_eq!(
                (turn.mode, turn.keeps_json_mode),
                (ContinuationMode::Again, true)
            );
            assert_eq!(turn.delivered, whole[..at]);
            assert!(!turn.prompt.contains("overlap_context"), "{}", turn.prompt);
            asked.call(whole, size, Finish::Stop);
            assert_eq!(
                (asked.client.as_str(), asked.status()),
                (whole, Some((Status::Complete, None))),
                "{at}"
            );
        }
    }
    // Another document is not joined, and the next question asks in words.
    let mut asked = Asked::new(&rows());
    asked.client.push_str(&whole[..90]);
    asked.session.handle_input(NOW, Input::Text(&whole[..90]));
    asked
        .session
        .handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
    asked.drain();
    let other = whole.replace("Aurora", "Norway").replace("11", "7");
    asked.call(&other, 9, Finish::Stop);
    let turn = asked.requests[1].turn.as_ref().unwrap();
    assert_eq!(
        (asked.client.as_str(), turn.mode),
        (&whole[..90], ContinuationMode::Reprompt)
    );
    // A token limit would cut it again, and without a schema nothing shows that it is whole.
    let mut asked = Asked::new(&rows());
    asked.call(&whole[..90], 9, Finish::Length);
    assert_eq!(
        asked.requests[0].turn.as_ref().unwrap().mode,
        ContinuationMode::Reprompt
    );
}

/// Models that leave out elements and members of what is missing: whatever they do, an answer that
/// is said to be complete has all that is required.
#[test]
fn complete_is_never_said_of_a_document_that_falls_short() {
    let mut rng = Rng::new(20_261_127);
    let schema = rows();
    let (mut complete, mut others) = (0, 0);
    for _ in 0..400 {
        let row =
            |at: usize| json!({"name": format!("Place {at} {}", at * 7919), "count": at * 31});
        let count = 4 + rng.below(3);
        let whole = json!({"rows": (0..count).map(row).collect::<Vec<_>>(), "total": 4711});
        let whole = whole.to_string();
        let at = 30 + rng.below(whole.len() - 40);
        let mut asked = Asked::new(&schema);
        asked.call(&whole[..at], 1 + rng.below(30), Finish::Length);
        while asked.outcome.is_none() {
            let delivered = asked.client.len();
            let rest = &whole[delivered..];
            let rows_end = rest.find("}]").map(|end| end + 1);
            let answer = match (rng.below(4), rows_end) {
                // The rest; without rows; without the total; both.
                (1, Some(end)) => {
                    let row_end = rest.find('}').unwrap() + 1;
                    format!("{}{}", &rest[..row_end], &rest[end..])
                }
                (2, Some(end)) => format!("{}]}}", &rest[..end]),
                (3, Some(_)) => format!("{}]}}", &rest[..=rest.find('}').unwrap()]),
                _ => rest.to_owned(),
            };
            let answer = format!("{}{answer}", asked.repeated());
            asked.call(&answer, 1 + rng.below(30), Finish::Stop);
        }
        let value: Option<Value> = serde_json::from_str(&asked.client).ok();
        let is_whole = value.is_some_and(|value| {
            value["rows"].as_array().is_some_and(|rows| rows.len() >= 4) && value["total"] == 4711
        });
        let is_complete = asked.status().unwrap().0 == Status::Complete;
        assert!(
            is_whole || !is_complete,
            "{whole} at {at}: {}",
            asked.client
        );
        *if is_complete {
            &mut complete
        } else {
            &mut others
        } += 1;
    }
    assert!(complete > 200, "{complete} and {others}");
}
