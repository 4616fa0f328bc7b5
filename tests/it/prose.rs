//! Prose that is cut by a lost connection: its rest is asked for where the setting says so, and is
//! joined at the anchor alone.

mod measured;
mod streams;

use std::time::Duration;

use restitch::Limits;
use restitch::provider::Finish;
use restitch::session::{
    CallEnd, ContinuationMode, ContinuationStrategy, CutCause, FailureReason, GiveUp, Input,
    Outcome, Output, Prose, Request, Session, SessionEvent, Snapshot, Status, StopReason,
};
use restitch::splice::{Alignment, Seam, SpliceError};

use restitch_testing::{Rng, silent};

const NOW: Duration = Duration::ZERO;

const LETTER: &str = "The harbour was quiet that morning. Nets hung over the rails, stiff with salt, and nobody \
    spoke.\n\nBy noon the wind had turned. “It will rain,” said the pilot; he was right, as he was most days, \
    and by evening it fell in torrents.\n";
const MARKDOWN: &str = "# Größe\n\n- eins [1]\n- zwei: `let a = 1;`\n\n```rust\nfn main() {\n    // 漢字 😀\n    \
    println!(\"{}\", 1);\n}\n```\n\n## Ende\n\nDas war's, und mehr war nicht.";

/// What a model answers when it is asked for the rest of a text. The second argument is what was
/// delivered.
type Answer<'a> = &'a dyn Fn(&Request, &str) -> (String, CallEnd);

/// What a model writes to that question.
type Model<'a> = &'a dyn Fn(&Request, &str) -> String;

/// What became of an answer.
#[derive(Debug)]
struct Ended {
    /// The text that the client has.
    client: String,
    outcome: Outcome,
    requests: Vec<Request>,
    seams: Vec<Seam>,
    failures: Vec<FailureReason>,
    events: Vec<String>,
}

impl Ended {
    fn status(&self) -> Status {
        self.outcome.status()
    }
}

fn stop() -> CallEnd {
    CallEnd::Finished(Finish::Stop)
}

/// Returns a session that continues prose.
fn continuing() -> Session {
    let mut session = Session::new(Limits::default());
    session.set_prose(Prose::Anchor);
    session
}

/// Feeds a first answer and its end, and then what the model answers, in chunks of `chunk`
/// characters.
fn run(mut session: Session, first: &str, end: CallEnd, chunk: usize, answer: Answer<'_>) -> Ended {
    let mut client = String::new();
    let mut call = Some((first.to_owned(), end));
    let (mut requests, mut seams, mut failures, mut events) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut outcome = None;
    while let Some((text, end)) = call.take() {
        let is_first = session.is_first();
        let chars: Vec<char> = text.chars().collect();
        let inputs = chars
            .chunks(chunk.max(1))
            .map(|piece| Ok(piece.iter().collect::<String>()));
        for input in inputs.chain([Err(end)]) {
            match &input {
                Ok(text) if is_first => client.push_str(text),
                _ => {}
            }
            match input {
                Ok(text) => session.handle_input(NOW, Input::Text(&text)),
                Err(end) => session.handle_input(NOW, Input::CallEnd(end)),
            }
            while let Some(output) = session.poll_output() {
                assert!(outcome.is_none(), "nothing follows the end: {output:?}");
                match output {
                    Output::Text(text) => client.push_str(&text),
                    Output::Call { request, .. } => {
                        call = Some(answer(&request, &client));
                        requests.push(request);
                    }
                    Output::Event(event) => {
                        events.push(format!("{event:?}"));
                        match event {
                            SessionEvent::Joined { seam, .. } => seams.push(seam),
                            SessionEvent::Failed { reason, .. } => failures.push(reason),
                            _ => {}
                        }
                    }
                    Output::Done(done) => outcome = Some(done),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(outcome.is_some() && session.is_done());
    Ended {
        client,
        outcome: outcome.unwrap(),
        requests,
        seams,
        failures,
        events,
    }
}

/// Runs the same in several chunkings, which make no difference.
fn run_all(session: &Session, first: &str, end: &CallEnd, answer: Answer<'_>) -> Ended {
    let [whole, others @ ..] =
        [usize::MAX, 1, 3].map(|chunk| run(session.clone(), first, end.clone(), chunk, answer));
    for other in others {
        assert_eq!(
            (&other.client, &other.outcome),
            (&whole.client, &whole.outcome)
        );
        assert_eq!(other.events.len(), whole.events.len());
    }
    whole
}

/// Runs the same for prose whose connection is lost after `text`.
fn dropped(text: &str, answer: Answer<'_>) -> Ended {
    run_all(&continuing(), text, &CallEnd::Dropped, answer)
}

/// Returns what follows the delivered text in a whole one, with the anchor of the question before
/// it.
fn rest(whole: &str, request: &Request, delivered: &str) -> String {
    let turn = request.turn.as_ref().expect("something was delivered");
    assert!(
        delivered.trim_end().ends_with(&turn.anchor),
        "{:?}",
        turn.anchor
    );
    let start = delivered.trim_end().len() - turn.anchor.len();
    whole[start..].to_owned()
}

fn cuts(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.char_indices().map(|(at, _)| at).chain([text.len()])
}

/// Whether the delivered text is long enough to show where the rest goes on.
fn is_long(delivered: &str) -> bool {
    delivered.trim().len() >= 16
}

#[test]
fn a_model_that_repeats_the_anchor_makes_the_text_whole_at_every_cut() {
    for whole in [LETTER, MARKDOWN] {
        for cut in cuts(whole).skip(1) {
            let delivered = &whole[..cut];
            let preamble = |request: &Request, text: &str| {
                format!("Sure, I'll go on:\n\n{}", rest(whole, request, text))
            };
            let models: [Model<'_>; 5] = [
                &|request, text| rest(whole, request, text),
                &preamble,
                &|request, text| {
                    format!(
                        "<think>\nWhere was I?\n</think>\n\n{}",
                        rest(whole, request, text)
                    )
                },
                // It starts over, word for word.
                &|_, _| whole.to_owned(),
                &|_, _| format!("Of course. Here is all of it:\n\n{whole}"),
            ];
            for (number, model) in models.iter().enumerate() {
                if whole == MARKDOWN && number == 4 && delivered.ends_with('`') {
                    continue;
                }
                for end in [CallEnd::Dropped, CallEnd::Closed] {
                    let ended = run_all(&continuing(), delivered, &end, &|request, text| {
                        (model(request, text), stop())
                    });
                    if !is_long(delivered) {
                        assert_eq!(
                            (ended.client.as_str(), ended.requests.len()),
                            (delivered, 0),
                            "{delivered:?}"
                        );
                        assert_eq!(ended.status(), Status::PassedThrough);
                        continue;
                    }
                    assert_eq!(ended.client, whole, "{number} {delivered:?}");
                    // That nothing follows must be said twice.
                    let calls = if cut == whole.len() { 2 } else { 1 };
                    assert_eq!(
                        (ended.status(), ended.requests.len()),
                        (Status::Complete, calls),
                        "{number} {delivered:?}"
                    );
                    assert_eq!(ended.outcome.finish(), Some(&Finish::Stop));
                    let [seam] = &ended.seams[..] else {
                        panic!("{:?}", ended.seams)
                    };
                    assert_eq!((seam.offset, seam.ambiguous), (cut, false));
                }
            }
        }
    }
}

#[test]
fn what_does_not_repeat_the_anchor_is_never_joined() {
    let refusals = [
        "I'm sorry, but I can't help with that.",
        "The message above ends with “stiff with salt”. What would you like to know?",
        "```\nnothing\n```\n",
        "",
    ];
    for cut in cuts(LETTER).filter(|&cut| is_long(&LETTER[..cut])) {
        let delivered = &LETTER[..cut];
        let new = LETTER[cut..].trim_start();
        // It goes on without the anchor, or begins again in other words.
        let others = [new.to_owned(), LETTER.to_uppercase()];
        for refusal in refusals
            .iter()
            .map(|&refusal| refusal.to_owned())
            .chain(others)
        {
            let ended = dropped(delivered, &|_, _| (refusal.clone(), stop()));
            assert_eq!(ended.client, delivered, "{refusal:?}");
            let Outcome::Incomplete {
                reason,
                cause,
                finish,
                ..
            } = &ended.outcome
            else {
                panic!("{:?}", ended.outcome)
            };
            assert_eq!(
                (*reason, *cause, finish),
                (StopReason::Failures, Some(CutCause::Drop), &None)
            );
            assert_eq!(
                (
                    ended.requests.len(),
                    ended.failures.len(),
                    ended.seams.len()
                ),
                (3, 3, 0)
            );
        }
    }
}

#[test]
fn a_question_asks_for_the_anchor_in_other_words_each_time() {
    let delivered = &LETTER[..200];
    let session = || {
        let mut session = continuing();
        // A provider that ignores a prefill would bring text that nothing tells from the rest.
        session.set_strategy(ContinuationStrategy::default().prefill(Default::default()));
        session
    };
    let ended = run(session(), delivered, CallEnd::Dropped, 1, &|_, _| {
        ("No.".to_owned(), stop())
    });
    let turns: Vec<_> = ended
        .requests
        .iter()
        .map(|request| request.turn.clone().unwrap())
        .collect();
    let [first, second, third] = &turns[..] else {
        panic!("{turns:?}")
    };
    for turn in &turns {
        assert_eq!(
            (turn.mode, turn.delivered.as_str()),
            (ContinuationMode::Reprompt, delivered)
        );
        assert!(
            delivered.ends_with(&turn.anchor)
                && turn.prompt.contains(&turn.anchor)
                && turn.mark.is_none()
        );
        assert!(
            !turn.prompt.contains("JSON") && !turn.keeps_json_mode,
            "{}",
            turn.prompt
        );
    }
    assert!(second.anchor.len() >= 2 * first.anchor.len() && third == first);
    assert_ne!(first.prompt, second.prompt);
    // The longer anchor is joined, too.
    let ended = run(
        session(),
        delivered,
        CallEnd::Dropped,
        1,
        &|request, text| match request.number {
            1 => ("No.".to_owned(), stop()),
            _ => (rest(LETTER, request, text), stop()),
        },
    );
    assert_eq!(
        (ended.client.as_str(), ended.status(), ended.failures.len()),
        (LETTER, Status::Complete, 1)
    );
}

#[test]
fn without_the_setting_or_a_lost_connection_prose_passes() {
    let never = |_: &Request, _: &str| -> (String, CallEnd) { panic!("prose passes") };
    let ends = [
        CallEnd::Finished(Finish::Length),
        stop(),
        CallEnd::Finished(Finish::ContentFilter),
        CallEnd::Error("overloaded".to_owned()),
        silent(),
    ];
    for cut in cuts(MARKDOWN).skip(1) {
        let delivered = &MARKDOWN[..cut];
        for end in ends.iter().chain([&CallEnd::Dropped, &CallEnd::Closed]) {
            let ended = run(
                Session::new(Limits::default()),
                delivered,
                end.clone(),
                7,
                &never,
            );
            assert_eq!(
                (ended.client.as_str(), ended.status()),
                (delivered, Status::PassedThrough)
            );
        }
        for end in &ends[..3] {
            let ended = run(continuing(), delivered, end.clone(), 7, &never);
            assert_eq!(
                (ended.client.as_str(), ended.status()),
                (delivered, Status::PassedThrough),
                "{end:?}"
            );
        }
    }
    // In JSON mode a model can't write prose.
    let mut session = continuing();
    session.set_strategy(ContinuationStrategy::default().keeps_json_mode(true));
    assert_eq!(
        run(session, LETTER, CallEnd::Dropped, 9, &never).status(),
        Status::PassedThrough
    );
}

/// A text of paragraphs some of which come again, and of lists and code.
fn random_text(rng: &mut Rng) -> String {
    let words = [
        "rain",
        "harbour",
        "the",
        "and",
        "“sea”",
        "größer",
        "漢字",
        "42",
        "ropes",
        "- item",
        "`x`",
        "**wind**",
    ];
    let paragraph = |rng: &mut Rng| {
        (0..=rng.below(25))
            .map(|_| rng.pick(&words))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let known: Vec<String> = (0..4).map(|_| paragraph(rng)).collect();
    let mut text = format!("Letter number {}: {}", rng.below(1000), paragraph(rng));
    for _ in 0..rng.below(14) {
        text.push_str(rng.pick(&["\n", "\n\n", " ", "\n```sh\nmake\n```\n"]));
        match rng.below(3) {
            0 => text.push_str(&paragraph(rng)),
            _ => text.push_str(&known[rng.below(4)]),
        }
    }
    text
}

#[test]
fn texts_that_repeat_themselves_become_whole_over_many_lost_calls() {
    let mut limits = Limits::default();
    limits.continuation.max_continuations = 1000;
    let (mut joined, mut left) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let whole = random_text(&mut rng);
        let places: Vec<usize> = cuts(&whole).filter(|&cut| is_long(&whole[..cut])).collect();
        let cut = places[rng.below(places.len())];
        let mut session = Session::new(limits.clone());
        session.set_prose(Prose::Anchor);
        let random = std::cell::RefCell::new(rng);
        let model = |request: &Request, text: &str| {
            let mut rng = random.borrow_mut();
            let again = rest(&whole, request, text);
            let ends: Vec<usize> = again.char_indices().map(|(at, _)| at).collect();
            match rng.below(4) {
                0 => (again, stop()),
                // The call for the rest is lost, too, or reaches a limit on its way.
                1 => (
                    again[..ends[rng.below(ends.len())]].to_owned(),
                    CallEnd::Closed,
                ),
                _ => (
                    again[..ends[rng.below(ends.len())]].to_owned(),
                    CallEnd::Dropped,
                ),
            }
        };
        let ended = run(session, &whole[..cut], CallEnd::Dropped, 5, &model);
        match ended.status() {
            Status::Complete => {
                assert_eq!(ended.client, whole, "seed {seed}");
                joined += 1;
            }
            _ => {
                assert!(
                    whole.starts_with(&ended.client) && ended.client.len() >= cut,
                    "seed {seed}: {}",
                    ended.client
                );
                left += 1;
            }
        }
    }
    println!(
        "covered: {joined} texts made whole, {left} given up after calls that brought nothing"
    );
    assert!(joined > 250, "{joined}");
}

#[test]
fn a_text_that_is_the_same_everywhere_has_no_anchor() {
    let text = "ha ".repeat(1500);
    let never = |_: &Request, _: &str| -> (String, CallEnd) { panic!("no anchor is unique") };
    assert_eq!(
        run(continuing(), &text, CallEnd::Dropped, 64, &never).status(),
        Status::PassedThrough
    );
}

#[test]
fn tags_beside_the_anchor_do_not_become_text() {
    let delivered = &LETTER[..90];
    let tagged = |before: &str, after: &str| {
        let (before, after) = (before.to_owned(), after.to_owned());
        dropped(delivered, &move |request, text| {
            let (anchor, new) = (
                &request.turn.as_ref().unwrap().anchor,
                &LETTER[text.len()..],
            );
            (format!("{before}{anchor}{after}{new}"), stop())
        })
    };
    let open = "<overlap_context>\n";
    // Where the text goes on after a closing tag is not known: the line end may be a part of it.
    for after in ["</overlap_context>", "\n</overlap_context>\n"] {
        let ended = tagged(open, after);
        assert_eq!(
            (ended.client.as_str(), ended.status()),
            (delivered, Status::Incomplete),
            "{after:?}"
        );
    }
    let ended = tagged(open, "");
    assert_eq!(
        (ended.client.as_str(), ended.status()),
        (LETTER, Status::Complete)
    );
    let ended = dropped(delivered, &|request, text| {
        (
            format!("{open}{}</overlap_context>", rest(LETTER, request, text)),
            stop(),
        )
    });
    assert_eq!(
        (ended.client.as_str(), ended.status()),
        (LETTER, Status::Complete)
    );
}

#[test]
fn silence_and_errors_are_cuts() {
    for end in [silent(), CallEnd::Error("overloaded".to_owned())] {
        let ended = run_all(&continuing(), &LETTER[..80], &end, &|request, text| {
            (rest(LETTER, request, text), stop())
        });
        assert_eq!(
            (ended.client.as_str(), ended.status()),
            (LETTER, Status::Complete),
            "{end:?}"
        );
    }
}

#[test]
fn text_that_has_begun_may_be_silent_for_the_idle_timeout() {
    for (text, seconds) in [("", 300), (&LETTER[..8], 60), (LETTER, 60), ("[1, 2", 60)] {
        let mut session = continuing();
        session.handle_input(Duration::ZERO, Input::Activity);
        if !text.is_empty() {
            session.handle_input(Duration::ZERO, Input::Text(text));
        }
        let is_continued = session.would_continue(&CallEnd::Dropped);
        let due = session.poll_timeout(true);
        assert_eq!(
            due,
            is_continued.then_some(Duration::from_secs(seconds)),
            "{text}"
        );
    }
}

#[test]
fn an_answer_that_was_whole_ends_whole() {
    // Only the end of its stream was lost. That nothing follows is believed if it is said twice.
    for new in ["", "\n"] {
        let ended = dropped(LETTER.trim_end(), &|request, _| {
            (request.turn.as_ref().unwrap().anchor.clone() + new, stop())
        });
        assert_eq!(ended.status(), Status::Complete);
        assert_eq!(ended.client, LETTER.trim_end().to_owned() + new);
        let said: Vec<bool> = ended.seams.iter().map(|seam| seam.early_end).collect();
        let calls = if new.is_empty() { 2 } else { 1 };
        assert_eq!(
            (ended.requests.len(), said, ended.failures.len()),
            (calls, vec![new.is_empty()], calls - 1)
        );
    }
    // One that says it once, and then goes on, is continued; one that is cut before anything new
    // has said nothing.
    for end in [stop(), CallEnd::Finished(Finish::Length)] {
        let calls = std::cell::Cell::new(0);
        let ended = run(
            continuing(),
            &LETTER[..80],
            CallEnd::Dropped,
            7,
            &|request, text| {
                calls.set(calls.get() + 1);
                match calls.get() {
                    1 => (request.turn.as_ref().unwrap().anchor.clone(), end.clone()),
                    _ => (rest(LETTER, request, text), stop()),
                }
            },
        );
        assert_eq!(
            (ended.client.as_str(), ended.status()),
            (LETTER, Status::Complete),
            "{end:?}"
        );
        assert!(
            ended.requests.len() == 2 && ended.seams.iter().all(|seam| !seam.early_end),
            "{:?}",
            ended.seams
        );
    }
    // A limit ends it as it ends an answer that was not continued.
    let ended = dropped(&LETTER[..80], &|request, text| {
        (
            rest(&LETTER[..150], request, text),
            CallEnd::Finished(Finish::Length),
        )
    });
    assert_eq!(
        (ended.client.as_str(), ended.outcome.finish()),
        (&LETTER[..150], Some(&Finish::Length))
    );
    // A call of a tool has no place in it.
    let ended = dropped(&LETTER[..80], &|request, text| {
        (
            rest(&LETTER[..150], request, text),
            CallEnd::Finished(Finish::ToolCalls),
        )
    });
    assert_eq!(
        (ended.client.as_str(), ended.status()),
        (&LETTER[..150], Status::Incomplete)
    );
}

/// Nothing of such an answer is taken for the end, and it ends like the cut.
#[test]
fn an_end_inside_a_sentence_is_never_believed() {
    for cut in [40, 45, 66, 80] {
        assert!(LETTER.is_char_boundary(cut) && !LETTER[..cut].trim_end().ends_with('.'));
        for new in ["", "\n", " \n\n"] {
            let delivered = LETTER[..cut].trim_end();
            let ended = dropped(delivered, &|request, _| {
                (request.turn.as_ref().unwrap().anchor.clone() + new, stop())
            });
            assert_eq!(
                (ended.client.as_str(), ended.status()),
                (delivered, Status::Incomplete),
                "{new:?}"
            );
            assert_eq!(
                (ended.outcome.reason(), ended.outcome.finish()),
                (Some(StopReason::EarlyEnd), None)
            );
            assert_eq!(
                (
                    ended.requests.len(),
                    ended.seams.len(),
                    ended.failures.len()
                ),
                (2, 0, 2)
            );
        }
    }
}

#[test]
fn giving_up_adds_nothing() {
    let ended = |give_up| {
        let mut session = continuing();
        session.set_give_up(give_up);
        let rejected = CallEnd::Rejected {
            reason: "no".to_owned(),
            transient: false,
            retry_after: None,
        };
        run(session, &LETTER[..80], CallEnd::Dropped, 3, &move |_, _| {
            (String::new(), rejected.clone())
        })
    };
    for (give_up, status) in [
        (GiveUp::Close, Status::Incomplete),
        (GiveUp::Leave, Status::Incomplete),
        (GiveUp::Error, Status::Failed),
    ] {
        let ended = ended(give_up);
        assert_eq!(
            (ended.client.as_str(), ended.status()),
            (&LETTER[..80], status)
        );
        assert!(
            matches!(&ended.failures[..], [FailureReason::Rejected(_), ..]),
            "{:?}",
            ended.failures
        );
    }
}

#[test]
fn json_is_continued_as_without_the_setting() {
    for whole in [
        r#"{"rows": [{"id": 1, "name": "Alma"}, {"id": 2, "name": "Berta"}]}"#,
        "Here it is:\n\n```json\n{\"a\": [1, 2, {\"b\": \"c d e\"}]}\n```\n",
    ] {
        let start = whole.find('{').unwrap();
        for cut in cuts(whole).filter(|&cut| cut > start) {
            let model = |request: &Request, text: &str| (rest(whole, request, text), stop());
            let with = run(continuing(), &whole[..cut], CallEnd::Dropped, 3, &model);
            let without = run(
                Session::new(Limits::default()),
                &whole[..cut],
                CallEnd::Dropped,
                3,
                &model,
            );
            assert_eq!(
                (with.client, with.outcome, with.events),
                (without.client, without.outcome, without.events)
            );
        }
    }
}

#[test]
fn long_prose_is_kept_up_to_the_limit() {
    let whole: String = (0..12_000)
        .map(|n| format!("Line {n} of the log. "))
        .collect::<String>()
        + "\n```json\n{\"a\": 1}\n```\nEnd.";
    assert!(whole.len() > 200_000);
    let model = |request: &Request, text: &str| {
        let turn = request.turn.as_ref().unwrap();
        assert!(
            turn.delivered.len() <= (16 << 10) + 8 && turn.delivered.starts_with("[...] "),
            "{}",
            turn.delivered.len()
        );
        (rest(&whole, request, text), stop())
    };
    for cut in [70_000, 150_000, whole.len() - 3] {
        let ended = run(continuing(), &whole[..cut], CallEnd::Dropped, 1000, &model);
        assert!(
            ended.client == whole && ended.status() == Status::Complete,
            "{:?}",
            ended.outcome
        );
    }
    let mut limits = Limits::default();
    limits.parser.max_text_bytes = 100_000;
    let mut session = Session::new(limits);
    session.set_prose(Prose::Anchor);
    let ended = run(session, &whole[..150_000], CallEnd::Dropped, 1000, &model);
    assert_eq!(ended.status(), Status::PassedThrough);
    assert_eq!(
        ended.outcome.tally().limit.as_ref().unwrap().to_string(),
        "max_text_bytes = 100000"
    );
}

#[test]
fn repairs_leave_prose_as_it_is() {
    let mut session = continuing();
    session.set_repair(restitch::repair::RepairLevel::Guess);
    for cut in cuts(LETTER).filter(|&cut| is_long(&LETTER[..cut])) {
        let mut session = session.clone();
        let mut out = String::new();
        let mut take = |session: &mut Session| {
            let mut request = None;
            while let Some(output) = session.poll_output() {
                match output {
                    Output::Text(text) => out.push_str(&text),
                    Output::Call { request: next, .. } => request = Some(next),
                    _ => {}
                }
            }
            (request, out.clone())
        };
        session.handle_input(NOW, Input::Text(&LETTER[..cut]));
        session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
        let (request, text) = take(&mut session);
        assert_eq!(text, LETTER[..cut]);
        session.handle_input(NOW, Input::Text(&rest(LETTER, &request.unwrap(), &text)));
        session.handle_input(NOW, Input::CallEnd(stop()));
        assert_eq!(take(&mut session).1, LETTER);
    }
}

#[test]
fn another_process_goes_on() {
    for cut in cuts(MARKDOWN).filter(|&cut| is_long(&MARKDOWN[..cut])) {
        let mut session = continuing();
        session.handle_input(NOW, Input::Text(&MARKDOWN[..cut]));
        session.handle_input(NOW, Input::CallEnd(CallEnd::Dropped));
        // Before the call, and in it.
        for part in ["", "nothing"] {
            if !part.is_empty() {
                session.handle_input(NOW, Input::Text(part));
            }
            let row = serde_json::to_string(&session.snapshot()).unwrap();
            let snapshot: Snapshot = serde_json::from_str(&row).unwrap();
            let mut restored = Session::restore(NOW, &snapshot, Limits::default()).unwrap();
            let request =
                std::iter::from_fn(|| restored.poll_output()).find_map(|output| match output {
                    Output::Call { request, .. } => Some(request),
                    _ => None,
                });
            restored.handle_input(
                NOW,
                Input::Text(&rest(MARKDOWN, &request.unwrap(), &MARKDOWN[..cut])),
            );
            restored.handle_input(NOW, Input::CallEnd(stop()));
            assert_eq!(restored.document().text(), MARKDOWN);
        }
    }
}

#[test]
fn seams_of_prose_are_reported() {
    let ended = run(
        continuing(),
        &LETTER[..120],
        CallEnd::Dropped,
        3,
        &|request, text| match request.number {
            1 => ("I can't.".to_owned(), stop()),
            _ => (rest(LETTER, request, text), stop()),
        },
    );
    assert!(
        matches!(
            &ended.failures[..],
            [FailureReason::Merge(SpliceError::NoAlignment)]
        ),
        "{:?}",
        ended.failures
    );
    let [seam] = &ended.seams[..] else {
        panic!("{:?}", ended.seams)
    };
    assert!(matches!(seam.alignment, Alignment::Anchor | Alignment::Restart) && seam.overlap >= 16);
    assert_eq!((seam.offset, seam.path.as_str()), (120, ""));
    assert_eq!(
        ended.outcome.to_string(),
        "complete after 2 continuations, 1 failure"
    );
}
