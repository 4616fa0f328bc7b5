//! Answers with several choices: each is continued, given up and ended by itself.

use restitch::internal::relay::BodyRelay;
use restitch::session::StopReason;

use super::*;
use crate::wires::continued::through_body;
use restitch_testing::chat::content;

/// What becomes of one choice in the first call and in the calls for its rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    /// The limit on tokens cuts it, and its rest comes.
    Cut,
    /// The same, and each event with its text has the finish reason.
    CutInEachEvent,
    /// A finish reason comes early, and all of its text.
    EndedEarly,
    /// The limit on tokens cuts it, and the calls for its rest only close it.
    Closed,
    Prose,
}

const FATES: [Fate; 6] = [
    Fate::Whole,
    Fate::Cut,
    Fate::CutInEachEvent,
    Fate::EndedEarly,
    Fate::Closed,
    Fate::Prose,
];

#[derive(Debug)]
struct Choice {
    fate: Fate,
    whole: String,
    /// The text of the first call.
    first: String,
}

impl Choice {
    fn new(index: usize, fate: Fate, rng: &mut Rng) -> Self {
        let whole = format!(
            "{{\"name{index}\": \"choice {index} of several\", \"rows\": [\"alpha {index}\", \"beta\", {index}]}}"
        );
        // Inside of the first string.
        let cut = 14 + rng.below(14);
        let first = match fate {
            Fate::Prose => format!("Number {index} is not JSON, [but] it has an end."),
            Fate::Whole | Fate::EndedEarly => whole.clone(),
            _ => whole[..cut].to_owned(),
        };
        Self { fate, whole, first }
    }

    /// The events of the first call: text and finish reason.
    fn events(&self, rng: &mut Rng) -> Vec<(String, Option<&'static str>)> {
        let mut events = Vec::new();
        let mut rest = self.first.as_str();
        let early = 1 + rng.below(2);
        while !rest.is_empty() {
            let (piece, others) = rest.split_at((1 + rng.below(12)).min(rest.len()));
            rest = others;
            let has_reason = self.fate == Fate::CutInEachEvent
                || self.fate == Fate::EndedEarly && events.len() == early;
            events.push((
                piece.to_owned(),
                has_reason.then_some(if rest.len().is_multiple_of(2) {
                    "stop"
                } else {
                    "length"
                }),
            ));
        }
        if self.fate == Fate::CutInEachEvent {
            events.iter_mut().for_each(|event| event.1 = Some("length"));
        } else {
            events.push((String::new(), Some(self.reason())));
        }
        events
    }

    /// The finish reason of the first call.
    fn reason(&self) -> &'static str {
        if matches!(self.fate, Fate::Cut | Fate::CutInEachEvent | Fate::Closed) {
            "length"
        } else {
            "stop"
        }
    }

    /// The text and the finish reason that the client gets.
    fn expected(&self) -> (&str, &'static str) {
        match self.fate {
            Fate::Prose => (&self.first, "stop"),
            Fate::Closed => (&self.first, "length"),
            _ => (&self.whole, "stop"),
        }
    }

    /// Answers a call for the rest.
    fn answer(choices: &[Self], request: &Request) -> String {
        let turn = request.turn.as_ref().unwrap();
        let choice = choices
            .iter()
            .find(|choice| choice.first == turn.delivered)
            .unwrap();
        if choice.fate == Fate::Closed {
            format!("{}\"}}", turn.anchor)
        } else {
            choice.whole.clone()
        }
    }
}

fn choices(rng: &mut Rng) -> Vec<Choice> {
    let count = 2 + rng.below(2);
    (0..count)
        .map(|index| Choice::new(index, FATES[rng.below(FATES.len())], rng))
        .collect()
}

/// The events of all choices, in some order.
fn first_call(choices: &[Choice], rng: &mut Rng) -> String {
    let mut events: Vec<_> = choices
        .iter()
        .map(|choice| choice.events(rng).into_iter())
        .collect();
    let mut body = String::new();
    let mut left: usize = events.iter().map(ExactSizeIterator::len).sum();
    while left > 0 {
        let index = rng.below(events.len());
        for (text, reason) in events[index].by_ref().take(1 + rng.below(3)) {
            body += &content(index, &text, reason);
            left -= 1;
        }
    }
    body + DONE
}

/// Returns a whole answer to a call for the rest.
fn rest(text: &str) -> Reply {
    closed(content(0, text, None) + &finish("b", "stop") + DONE)
}

fn rest_body(text: &str) -> String {
    json!({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]})
        .to_string()
}

#[test]
fn each_choice_of_a_stream_ends_by_itself() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let choices = choices(&mut rng);
        let relay = Relay::new(Limits::default()).request(Vec::new(), choices.len() as u64);
        let first = closed(first_call(&choices, &mut rng));
        let relayed = played(
            relay,
            first,
            |body| chunks(body, &random_cuts(body.len(), &mut rng)),
            |_, request| rest(&Choice::answer(&choices, request)),
        );
        let body = String::from_utf8(relayed.body).unwrap();
        let mut seen = vec![(String::new(), None); choices.len()];
        let has_early =
            |index: usize| matches!(choices[index].fate, Fate::CutInEachEvent | Fate::EndedEarly);
        for event in event_data(body.as_bytes()) {
            for choice in event["choices"].as_array().into_iter().flatten() {
                let index = choice["index"].as_u64().unwrap() as usize;
                let (text, reason) = &mut seen[index];
                // Nothing follows an end that the provider did not send early.
                assert!(
                    reason.is_none() || has_early(index),
                    "seed {seed}: {choices:#?}\n{body}"
                );
                let new = choice["delta"]["content"].as_str().unwrap_or_default();
                text.push_str(new);
                let end = choice["finish_reason"].as_str().map(str::to_owned);
                *reason = if new.is_empty() {
                    end.or(reason.take())
                } else {
                    end
                };
            }
        }
        for (choice, (text, reason)) in choices.iter().zip(&seen) {
            let reason = reason.as_deref().unwrap_or("none");
            assert_eq!(
                (text.as_str(), reason),
                choice.expected(),
                "seed {seed}: {choices:#?}\n{body}"
            );
        }
        assert_eq!(body.matches(DONE).count(), 1, "seed {seed}: {body}");
    }
}

#[test]
fn each_choice_of_a_body_ends_by_itself() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let choices = choices(&mut rng);
        let list = choices.iter().enumerate().map(|(index, choice)| {
            json!({"index": index, "message": {"role": "assistant", "content": choice.first}, "finish_reason": choice.reason()})
        });
        let list: Vec<_> = list.collect();
        let first = json!({"id": "a", "choices": list}).to_string();
        let relay = BodyRelay::new(Limits::default());
        let (whole, ..) = through_body(relay, &first, |_, request| {
            Some(rest_body(&Choice::answer(&choices, request)))
        });
        let whole: Value = serde_json::from_str(&whole).unwrap();
        for (choice, seen) in choices.iter().zip(whole["choices"].as_array().unwrap()) {
            let seen = (
                seen["message"]["content"].as_str().unwrap(),
                seen["finish_reason"].as_str().unwrap(),
            );
            assert_eq!(
                seen,
                choice.expected(),
                "seed {seed}: {choices:#?}\n{whole}"
            );
        }
    }
}

/// The first choice is cut, and its rest comes. The second one ends in some way that no call mends.
#[test]
fn an_answer_is_as_complete_as_its_worst_choice() {
    let filtered = (
        "content_filter",
        Status::Incomplete,
        Some(StopReason::Finish),
    );
    let whole = ("stop", Status::Complete, None);
    let cases = [
        ("[3, 4", filtered),
        ("Some prose, and", filtered),
        ("", filtered),
        (
            "[3, 4",
            ("length", Status::Incomplete, Some(StopReason::Failures)),
        ),
        ("[3, 4]", whole),
        ("Some prose.", whole),
    ];
    for (text, (reason, status, stop)) in cases {
        for other in [0, 1] {
            let cut = 1 - other;
            let answer = |request: &Request| {
                let is_cut = request.turn.as_ref().unwrap().delivered.starts_with("[1");
                if is_cut { "[1, 2, 3]" } else { "no rest" }
            };
            let relay = Relay::new(Limits::default())
                .request(Vec::new(), 2)
                .give_up(GiveUp::Leave);
            let first = content(cut, "[1, 2", None)
                + &content(other, text, None)
                + &content(cut, "", Some("length"))
                + &content(other, "", Some(reason))
                + DONE;
            let relayed = played(
                relay,
                closed(first),
                |body| vec![body],
                |_, request| rest(answer(request)),
            );
            let (outcome, _) = relayed.end().unwrap();
            let events = event_data(&relayed.body);
            let name = format!("{text:?} {reason} {other}");
            assert_eq!(
                (outcome.status(), outcome.reason()),
                (status, stop),
                "{name}"
            );
            let reports: Vec<_> = events
                .iter()
                .filter_map(|event| event["restitch"]["status"].as_str())
                .collect();
            assert_eq!(reports, [status.as_str()], "{name}");
            let reason_of = |index: usize| {
                let choices = events
                    .iter()
                    .flat_map(|event| event["choices"].as_array().into_iter().flatten());
                let of = choices.filter(|choice| choice["index"] == index);
                of.filter_map(|choice| choice["finish_reason"].as_str())
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                (reason_of(cut), reason_of(other)),
                (vec!["stop"], vec![reason]),
                "{name}"
            );

            let list: Vec<_> = [(cut, "[1, 2", "length"), (other, text, reason)]
                .map(|(index, text, reason)| {
                    let text = Some(text).filter(|text| !text.is_empty());
                    let message = json!({"role": "assistant", "content": text});
                    json!({"index": index, "message": message, "finish_reason": reason})
                })
                .into();
            let first = json!({"id": "a", "choices": list}).to_string();
            let relay = BodyRelay::new(Limits::default()).give_up(GiveUp::Leave);
            let (body, _, outcome) =
                through_body(relay, &first, |_, request| Some(rest_body(answer(request))));
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                (outcome.status(), outcome.reason()),
                (status, stop),
                "body: {name}"
            );
            assert_eq!(body["restitch"]["status"], status.as_str(), "body: {name}");
            let reasons: Vec<_> = [0, 1]
                .map(|at| body["choices"][at]["finish_reason"].as_str().unwrap())
                .into();
            assert_eq!(reasons, ["stop", reason], "body: {name}");
        }
    }
}
