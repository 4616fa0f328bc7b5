//! An answer that another process continues.

use restitch::session::{RestoreError, Snapshot};

use super::*;

const ROWS: &str =
    r#"{"rows": [{"n": 1, "t": "one"}, {"n": 2, "t": "two"}, {"n": 3, "t": "three"}]}"#;

/// The answer is cut in the middle, and continued in small pieces.
fn answers() -> (Vec<Step>, Vec<Answer>) {
    let pieces = |text: &str| -> Vec<Step> {
        let pieces = text.as_bytes().chunks(5);
        pieces
            .map(|piece| Send(String::from_utf8(piece.to_vec()).unwrap()))
            .collect()
    };
    let (first, _) = ROWS.split_at(45);
    let mut first = pieces(first);
    first.push(Fail);
    let whole = || (0, Ok(pieces(ROWS)));
    (first, vec![whole(), whole(), whole()])
}

fn outlived(snapshot: &Snapshot) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
}

fn resumed(
    snapshot: &Snapshot,
    answers: Vec<Answer>,
) -> Result<(StitchText<'static, Lost>, Calls), RestoreError> {
    let calls = Calls::new(answers);
    let open = calls.clone();
    let reopen = move |retry| {
        let calls = open.clone();
        async move { calls.reopen(retry).await.map(Deltas) }
    };
    let text = Stitcher::new().resume(&outlived(snapshot), reopen)?;
    Ok((text, calls))
}

/// After each item the process ends, and another one continues: the reader of both has the whole text.
#[tokio::test(start_paused = true)]
async fn an_answer_continues_after_any_item() {
    let mut ended = 0;
    for taken in 0..30 {
        let (first, rest) = answers();
        let mut text = stitch_text(&Calls::new(rest), first, Limits::default());
        let mut seen = String::new();
        for _ in 0..taken {
            if let Some(delta) = text.next().await {
                seen.push_str(&delta.unwrap());
            }
        }
        let snapshot = text.snapshot();
        drop(text);
        let (_, rest) = answers();
        match resumed(&snapshot, rest) {
            Ok((mut text, calls)) => {
                while let Some(delta) = text.next().await {
                    seen.push_str(&delta.unwrap());
                }
                assert_eq!(
                    text.outcome().unwrap().status(),
                    Status::Complete,
                    "{taken}"
                );
                // A copy that closes everything after one more value is asked for twice, and a whole
                // text whose end has not been read yet needs no call.
                let calls = calls.times().len();
                assert!(calls <= 2, "{taken}: {calls}");
                assert_eq!(calls == 0, snapshot.text() == ROWS, "{taken}: {calls}");
            }
            Err(error) => {
                assert_eq!(error, RestoreError::Ended(Status::Complete));
                assert_eq!(error.to_string(), "the answer has ended: complete");
                assert_eq!(snapshot.text(), ROWS);
                ended += 1;
            }
        }
        assert_eq!(seen, ROWS, "{taken}");
    }
    assert!((1..20).contains(&ended), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_given_up_stays_given_up() {
    let (first, _) = answers();
    let refusals = vec![(0, Ok(vec![])), (0, Ok(vec![])), (0, Ok(vec![]))];
    let mut text = stitch_text(&Calls::new(refusals), first, Limits::default());
    while let Some(delta) = text.next().await {
        delta.unwrap();
    }
    assert_eq!(text.outcome().unwrap().status(), Status::Closed);
    let refused = resumed(&text.snapshot(), vec![]).err();
    assert_eq!(refused, Some(RestoreError::Ended(Status::Closed)));
}

/// Its views begin with the delivered text: a view needs the document from its start.
#[tokio::test(start_paused = true)]
async fn the_views_of_a_resumed_answer_have_the_whole_document() {
    for taken in [0, 3, 9, 12] {
        let snapshot = || async move {
            let (first, rest) = answers();
            let mut text = stitch_text(&Calls::new(rest), first, Limits::default());
            for _ in 0..taken {
                text.next().await.unwrap().unwrap();
            }
            text.snapshot()
        };
        let (text, _) = resumed(&snapshot().await, answers().1).unwrap();
        let whole: Value = text.into_final().await.unwrap();
        assert_eq!(
            whole,
            serde_json::from_str::<Value>(ROWS).unwrap(),
            "{taken}"
        );
        let (text, _) = resumed(&snapshot().await, answers().1).unwrap();
        let numbers: Vec<u32> = text
            .completed("/rows/*/n")
            .map(Result::unwrap)
            .collect()
            .await;
        assert_eq!(numbers, [1, 2, 3], "{taken}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_made_counts_in_the_next_process() {
    let (first, rest) = answers();
    let mut text = stitch_text(&Calls::new(rest), first, Limits::default());
    let mut seen = String::new();
    while seen.len() < 60 {
        seen.push_str(&text.next().await.unwrap().unwrap());
    }
    let (mut text, calls) = resumed(&text.snapshot(), answers().1).unwrap();
    while let Some(delta) = text.next().await {
        seen.push_str(&delta.unwrap());
    }
    assert_eq!((seen.as_str(), calls.open()), (ROWS, 0));
    assert_eq!(text.into_outcome().tally().continuations, 2);
}
