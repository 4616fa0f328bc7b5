//! Parts that contradict the cut element: with the policy they replace it, without the policy they
//! fail.

use restitch::Limits;
use restitch::session::{Rewind, Status, StitchOptions, Stitched, stitch, stitch_with};
use restitch::splice::Expect;

fn rewound(parts: &[&str]) -> Stitched {
    let options = StitchOptions::new()
        .expect(Expect::Any)
        .rewind(Rewind::Element);
    stitch_with(parts.iter().copied(), &options, &Limits::default())
}

/// Checks that the second part fails without the policy, and with it gives `json`, replacing the
/// value at `path`.
fn check(parts: &[&str], path: &str, json: &str) {
    let plain = stitch(parts.iter().copied(), Expect::Any, &Limits::default());
    assert!(
        !plain.failed.is_empty() && plain.json != json && plain.rewound.is_empty(),
        "{parts:?}: {plain:?}"
    );
    let stitched = rewound(parts);
    assert_eq!(
        (
            stitched.status,
            stitched.json.as_str(),
            stitched.failed.len()
        ),
        (Status::Complete, json, 0),
        "{parts:?}"
    );
    assert_eq!(stitched.rewound, [path], "{parts:?}");
}

/// Checks that the part fails, with the policy and without it, and that nothing of it is taken.
fn check_refused(parts: &[&str]) {
    let plain = stitch(parts.iter().copied(), Expect::Any, &Limits::default());
    assert_eq!(rewound(parts), plain, "{parts:?}");
    assert!(
        !plain.failed.is_empty() && plain.seams.is_empty(),
        "{parts:?}: {plain:?}"
    );
}

#[test]
fn an_element_that_differs_takes_the_place_of_the_one_that_was_cut() {
    let begun = r#"{"rows": [{"id": 1, "t": "one"}, {"id": 2, "t": "two is wri"#;
    let other = r#"{"rows": [{"id": 1, "t": "one"}, {"id": 2, "t": "second"}]}"#;
    check(&[begun, other], "/rows/1", other);
    // Alone, with what follows it.
    check(&[begun, r#"{"id": 2, "t": "second"}]}"#], "/rows/1", other);
    // In another layout: the text before it stays as it was.
    check(
        &[
            begun,
            r#"{"rows":[{"t":"one","id":1},{"id":2,"t":"second"}]}"#,
        ],
        "/rows/1",
        r#"{"rows": [{"id": 1, "t": "one"}, {"id":2,"t":"second"}]}"#,
    );
    check(
        &[begun, &format!("Sure:\n```json\n{other}\n```\n")],
        "/rows/1",
        other,
    );
}

#[test]
fn a_value_that_differs_takes_the_place_of_the_one_that_was_cut() {
    check(
        &[r#"{"n": [100, 200, 34"#, r#"{"n": [100, 200, 56, 7]}"#],
        "/n/2",
        r#"{"n": [100, 200, 56, 7]}"#,
    );
    check(
        &[r#"["first", "second th"#, r#"["first", "second one"]"#],
        "/1",
        r#"["first", "second one"]"#,
    );
    // The innermost array: the cut is in an element of the inner one.
    let begun = r#"{"rows": [{"tags": ["warm", "wet and"#;
    let other = r#"{"rows": [{"tags": ["warm", "wet but"], "id": 1}]}"#;
    check(&[begun, other], "/rows/0/tags/1", other);
}

#[test]
fn a_root_that_differs_takes_the_place_of_the_whole() {
    let other = r#"{"title": "Report", "text": "Snow is falling."}"#;
    check(
        &[r#"{"title": "Report", "text": "Rain fell in"#, other],
        "",
        other,
    );
    check(
        &[
            "Sure:\n```json\n{\"title\": \"Report\", \"text\": \"Rain fe",
            other,
        ],
        "",
        other,
    );
    // A replaced value can be cut, too, and continued.
    let parts = [
        r#"{"title": "Report", "text": "Rain fell in"#,
        r#"{"title": "Report", "text": "Snow is"#,
        other,
    ];
    check(&parts, "", other);
}

#[test]
fn a_difference_before_the_element_is_rejected() {
    let begun = r#"{"title": "Report", "rows": [{"id": 1}, {"id": 2, "t": "two is wri"#;
    check_refused(&[
        begun,
        r#"{"title": "Other", "rows": [{"id": 1}, {"id": 2, "t": "second"}]}"#,
    ]);
    check_refused(&[
        begun,
        r#"{"title": "Report", "rows": [{"id": 7}, {"id": 2, "t": "second"}]}"#,
    ]);
    // It fits in the place of the element up to a deviation.
    check_refused(&[
        begun,
        r#"{"title": "Report", "rows": [{"id": 1}, {"id": 2, "t": "second"}}]}"#,
    ]);
    // It does not identify itself as the element that was cut, or the root ends before its JSON
    // does.
    check_refused(&[begun, r#"{"id": 3, "t": "second"}]}"#]);
    check_refused(&[
        begun,
        r#"{"title": "Report", "rows": [{"id": 1}, {"id": 2, "t": "second"}]}, {"id": 3}]}"#,
    ]);
    // It contradicts nothing: it fits nowhere, and is no reason to give up anything.
    check_refused(&[begun, r#"{"error": "no"}"#]);
    check_refused(&[begun, "I'm sorry, but I can't help with that."]);
    // A later part is the retry if it repeats delivered text. Its position proves nothing.
    let skipped = r#"{"title": "Other", "rows": [{"id": 1}, {"id": 2, "t": "sec"#;
    let stitched = rewound(&[begun, skipped, r#"tten"}]}"#]);
    assert_eq!(
        (stitched.status, stitched.failed.len(), stitched.seams.len()),
        (Status::Closed, 2, 0)
    );
    let retry = format!(r#"{begun}tten"}}]}}"#);
    let stitched = rewound(&[begun, skipped, &retry]);
    assert_eq!(
        (
            stitched.status,
            stitched.failed.len(),
            stitched.rewound.len()
        ),
        (Status::Complete, 1, 0)
    );
    assert_eq!(
        stitched.json,
        r#"{"title": "Report", "rows": [{"id": 1}, {"id": 2, "t": "two is written"}]}"#
    );
}

#[test]
#[ignore = "open: a cursor that reads a new last element counts all of it as repeated until it ends"]
fn an_element_that_was_replaced_goes_on_like_any_other() {
    let rows = |n: usize, last: &str| {
        let rows: Vec<String> = (1..n)
            .map(|n| format!(r#"{{"id": {n}, "t": "row {n}"}}"#))
            .collect();
        format!(r#"{{"rows": [{}, {last}"#, rows.join(", "))
    };
    let parts = [
        rows(4, r#"{"id": 4, "t": "the fourth ro"#),
        rows(4, r#"{"id": 4, "t": "quarter", "more": [1, {"x": tr"#),
        rows(
            4,
            r#"{"id": 4, "t": "quarter", "more": [1, {"x": true, "y": "lo"#,
        ),
        rows(
            4,
            r#"{"id": 4, "t": "quarter", "more": [1, {"x": true, "y": "low"}]}, {"id": 5}]}"#,
        ),
    ];
    let stitched = rewound(&parts.each_ref().map(String::as_str));
    assert_eq!(
        (stitched.status, stitched.json),
        (Status::Complete, parts[3].clone())
    );
    assert_eq!(
        (stitched.failed.len(), stitched.rewound),
        (0, vec!["/rows/3".to_owned()])
    );
}
