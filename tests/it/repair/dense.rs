//! A mistake in every row, as one model makes it: the text is restored, and in pieces as well.

use restitch::repair::{RepairOptions, RepairStatus, repair_root};
use restitch::{Limits, SyntaxErrorKind};

use crate::fuzz::repair::fed;

fn rows() -> String {
    let rows: Vec<_> = (0..60)
        .map(|n| {
            format!(
                r#"{{"context_before": "Some words before, and more", "context_after": "the rest", "query": "how", "n": {n}}}"#
            )
        })
        .collect();
    format!("[{}]", rows.join(", "))
}

#[test]
fn a_mistake_in_every_row_is_repaired() {
    let whole = rows();
    let lost_quotes =
        |text: &str, key: &str| text.replace(&format!("\"{key}\": \""), &format!("\"{key}: \""));
    let texts = [
        lost_quotes(&whole, "context_after"),
        lost_quotes(&lost_quotes(&whole, "context_after"), "query"),
        whole.replace("\"n\"", "n"),
        whole.replace("\"query\": ", "\"query\" "),
        whole.replace("\"query\"", "query\""),
        whole.replace("\"how\"", "how"),
    ];
    for text in texts {
        let options = RepairOptions::default();
        let answer = repair_root(&text, &options);
        assert_eq!(answer.status, RepairStatus::Repaired, "{text}");
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(value(&answer.json), value(&whole), "{text}");
        let (result, pieces, _) = fed(
            text.as_bytes()
                .chunks(3)
                .map(|part| std::str::from_utf8(part).unwrap()),
            &options,
        );
        assert_eq!((result, pieces), (Ok(()), answer.json), "{text}");
    }
}

#[test]
fn quotes_in_every_row_are_repaired() {
    let whole = rows();
    let text = whole.replace("words before", "\"words\" before");
    let answer = repair_root(&text, &RepairOptions::default());
    assert_eq!(answer.status, RepairStatus::Repaired);
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
    assert_eq!(
        value(&answer.json),
        value(&whole.replace("words before", "\\\"words\\\" before"))
    );
}

#[test]
fn a_text_that_needs_too_many_readings_is_malformed() {
    let text = format!("[{}]", vec![r#""a "b" c""#; 3000].join(", "));
    let answer = repair_root(&text, &RepairOptions::default());
    let RepairStatus::Malformed(error) = answer.status else {
        panic!("{:?}", answer.status)
    };
    assert_eq!(
        (error.kind, error.offset),
        (SyntaxErrorKind::TooManyReadings(64), 5)
    );
    let limits = Limits::default().with_max_readings(0);
    let answer = repair_root(
        &rows().replace("\"n\"", "n"),
        &RepairOptions::default().within(&limits),
    );
    let RepairStatus::Malformed(error) = answer.status else {
        panic!("{:?}", answer.status)
    };
    assert_eq!(error.kind, SyntaxErrorKind::TooManyReadings(0));
}
