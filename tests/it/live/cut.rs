//! Views of cut documents: the values that they yield, and the outcomes that they report.

use restitch::live::LiveOutcome;
use restitch::provider::Finish;
use restitch::repair::RepairLevel;
use restitch::session::GiveUp;
use serde_json::{Value, json};

use super::*;

/// A document with all types of values. A cut number may look whole.
const TRIP: &str =
    r#"{"stops": [{"km": 5150, "to": "Vigo"}, {"km": -2.5e10, "is": true}], "km": 51500}"#;

/// Returns a cut answer without a continuation.
fn given_up(text: &str, finish: Option<Finish>, how: GiveUp) -> StitchText<'static, Lost> {
    let deltas: Vec<_> = text.chars().map(|c| (c.to_string(), None)).collect();
    let deltas = deltas.into_iter().chain([(String::new(), finish)]).map(Ok);
    let limits = Limits::default().with_max_continuations(0);
    Stitcher::new()
        .limits(limits)
        .give_up(how)
        .text(tokio_stream::iter(deltas), |_| async { Err(Lost) })
}

/// Checks that a view of a cut text yields only whole values: the first ones of the whole text.
fn assert_first(
    what: &str,
    found: Vec<Result<Value, LiveError<Lost>>>,
    whole: &[Value],
    is_cut: bool,
) {
    let (values, errors): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    let values: Vec<_> = values.into_iter().map(Result::unwrap).collect();
    assert!(whole.starts_with(&values), "{what}: {values:?}");
    assert_eq!(errors.len(), usize::from(is_cut), "{what}: {errors:?}");
    assert!(is_cut || values == whole, "{what}: {values:?}");
}

#[tokio::test]
async fn only_values_that_the_model_closed_are_completed() {
    for pattern in [
        "/stops/*",
        "/stops/*/km",
        "/stops/*/to",
        "/km",
        "/stops",
        "",
    ] {
        let mut whole = Source::of([Ok::<_, Lost>(TRIP)]).completed::<Value>(pattern);
        let whole: Vec<_> = all(&mut whole).into_iter().map(Result::unwrap).collect();
        assert!(!whole.is_empty(), "{pattern}");
        for cut in 0..=TRIP.len() {
            let (text, is_cut) = (&TRIP[..cut], cut < TRIP.len());
            for level in [RepairLevel::Strict, RepairLevel::Syntax, RepairLevel::Guess] {
                let what = format!("{pattern} of {text}, {level:?}");
                let plain = Source::of(text.as_bytes().chunks(3).map(Ok::<_, Lost>));
                assert_first(
                    &what,
                    all(&mut plain.completed(pattern).repair(level)),
                    &whole,
                    is_cut,
                );
                // On `Guess`, the closer of a root waits for the text after it, so a lost
                // connection cuts even the whole text.
                let lost = Source::of([Ok(text), Err(Lost)]);
                let is_lost = is_cut || level == RepairLevel::Guess;
                assert_first(
                    &what,
                    all(&mut lost.completed(pattern).repair(level)),
                    &whole,
                    is_lost,
                );
            }
            for how in GiveUp::ALL {
                let view = given_up(text, Some(Finish::Length), how).completed::<Value>(pattern);
                assert_first(
                    &format!("{pattern} of {text}, {how}"),
                    view.collect().await,
                    &whole,
                    is_cut,
                );
            }
        }
    }
}

#[tokio::test]
async fn a_cut_document_is_an_error_with_its_closed_value() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Trip {
        from: String,
        km: Option<u32>,
    }
    let assert_cut = |error: FinalError<Lost>, how: &str| {
        assert!(error.is_cut(), "{how}: {error}");
        assert_eq!(error.closed(), Some(r#"{"from": "Vigo"}"#), "{how}");
        assert_eq!(
            error.closed_as::<Trip>(),
            Some(Trip {
                from: "Vigo".to_owned(),
                km: None
            }),
            "{how}"
        );
        assert_eq!(error.closed_as::<Vec<u8>>(), None, "{how}");
    };
    let text = r#"{"from": "Vigo", "km": 51"#;
    for how in GiveUp::ALL {
        let mut view = given_up(text, Some(Finish::Length), how).into_final::<Trip>();
        assert_cut((&mut view).await.unwrap_err(), how.as_str());
        assert_eq!(
            view.outcome().unwrap().to_string(),
            "incomplete at /km (byte 25)",
            "{how}"
        );
        // The stream has its own outcome, too.
        assert!(view.get_ref().outcome().is_some(), "{how}");
    }
    assert_cut(
        wait(Source::of([Ok(text)]).into_final::<Trip>()).unwrap_err(),
        "a plain stream",
    );
    let lost = wait(Source::of([Ok(text), Err(Lost)]).into_final::<Trip>()).unwrap_err();
    assert!(matches!(lost.error(), LiveError::Stream(Lost)));
    assert_cut(lost, "a lost connection");

    let malformed = wait(Source::of([Ok::<_, Lost>("{\"a\": 1, \"b\": x}")]).into_final::<Value>())
        .unwrap_err();
    assert_eq!(
        (malformed.is_cut(), malformed.closed()),
        (false, Some("{\"a\": 1}")),
        "{malformed}"
    );
    let of_other_type =
        wait(Source::of([Ok::<_, Lost>("{\"from\": 1}")]).into_final::<Trip>()).unwrap_err();
    assert_eq!(
        (of_other_type.is_cut(), of_other_type.closed()),
        (false, None)
    );
    assert!(matches!(LiveError::from(of_other_type), LiveError::Type(_)));
    let nothing = wait(Source::of([Ok::<_, Lost>("I'm sorry.")]).into_final::<Trip>()).unwrap_err();
    assert_eq!((nothing.is_cut(), nothing.closed()), (true, None));
}

#[tokio::test]
async fn a_number_at_the_end_of_a_cut_answer_is_not_a_root() {
    for how in GiveUp::ALL {
        let view = |finish| {
            given_up("51", finish, how)
                .into_final::<u32>()
                .roots(AllowedRoots::Any)
        };
        assert!(
            view(Some(Finish::Length)).await.unwrap_err().is_cut(),
            "{how}"
        );
        assert_eq!(view(Some(Finish::Stop)).await.unwrap(), 51, "{how}");
    }
    // Further roots may be missing after the last one.
    let mut view = given_up("[1]\n[2]", Some(Finish::Length), GiveUp::Leave).completed::<Value>("");
    let items: Vec<_> = (&mut view).collect().await;
    assert_eq!(items.len(), 1, "{items:?}");
    let view = given_up("[1]\n[2]", Some(Finish::Length), GiveUp::Leave).completed::<Value>("");
    let items: Vec<_> = view.trailing(Trailing::Next).collect().await;
    assert!(
        items.len() == 3 && matches!(items[2], Err(LiveError::Truncated(_))),
        "{items:?}"
    );
}

#[test]
fn each_adapter_reports_how_the_text_ended() {
    let cases = [
        ("[1, 2]", "complete", json!({"status": "complete"})),
        (
            "[1, {\"a\": 2",
            "incomplete at /1/a (byte 11)",
            json!({"status": "incomplete", "offset": 11, "path": "/1/a"}),
        ),
        (
            "Hello",
            "incomplete before any JSON (byte 5)",
            json!({"status": "incomplete", "offset": 5, "path": ""}),
        ),
        (
            "[1, x]",
            "malformed at /1 (byte 4)",
            json!({"status": "malformed", "offset": 4, "path": "/1"}),
        ),
    ];
    for (text, said, report) in cases {
        let source = || Source::of([Ok::<_, Lost>(text)]);
        let (mut events, mut snapshots) = (source().events(), source().snapshots::<Value>());
        let (mut completed, mut whole) = (
            source().completed::<Value>("/*"),
            source().into_final::<Value>(),
        );
        assert_eq!(
            (events.outcome(), whole.outcome()),
            (None, None),
            "nothing was read"
        );
        drop(all(&mut events));
        drop(all(&mut snapshots));
        drop(all(&mut completed));
        assert_eq!(wait(&mut whole).is_ok(), said == "complete");
        for outcome in [
            events.outcome(),
            snapshots.outcome(),
            completed.outcome(),
            whole.outcome(),
        ] {
            let outcome = outcome.unwrap();
            assert_eq!(
                (
                    outcome.to_string().as_str(),
                    serde_json::to_value(outcome).unwrap()
                ),
                (said, report.clone())
            );
        }
    }
    let mut lost = Source::of([Ok("[1, \"a"), Err(Lost)]).events();
    drop(all(&mut lost));
    assert!(
        matches!(lost.outcome(), Some(LiveOutcome::Incomplete(cut)) if cut.path == "/1" && cut.offset == 6)
    );
    let mut bytes = Source::of([b"[1, \"\xff"]).events();
    drop(all(&mut bytes));
    assert_eq!(
        bytes.outcome().unwrap().to_string(),
        "malformed at /1 (byte 5)"
    );
    let mut pattern = Source::of(["[1]"]).completed::<Value>("no pattern");
    drop(all(&mut pattern));
    assert_eq!(pattern.outcome(), None);
}
