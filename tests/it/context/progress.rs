//! The percentage that a model names, and its effect.

use restitch::internal::context::{KPI_QUESTION, Progress, extract, validate};

use restitch_testing::{Rng, at_least, corpus_documents};

#[test]
fn the_question_asks_for_one_line() {
    assert_eq!(
        KPI_QUESTION,
        "Based on the delivered data so far, approximately what percentage (%) of the total required content has been \
         delivered? Respond outside of the JSON, with one line `PROGRESS: n`, where n is an integer between 0-100."
    );
}

#[test]
fn a_percentage_is_read_outside_of_the_json() {
    for (answer, expect) in [
        // Before and after the JSON, in every form.
        ("PROGRESS: 45\n[1, 2]", Some(45)),
        ("progress: 45%\n\n```json\n[1, 2]\n```", Some(45)),
        ("**PROGRESS: 7**\n[1]", Some(7)),
        ("[1, 2]\nPROGRESS: 0", Some(0)),
        ("About 45% is there.\n[1, 2]", Some(45)),
        ("[1, 2]\n\nAbout 100 percent of it.", Some(100)),
        ("45\n{\"a\": 1}", Some(45)),
        ("```json\n{\"a\": 1}\n```\n 45 \n", Some(45)),
        // Alone.
        ("45", Some(45)),
        ("45%", Some(45)),
        ("45 percent.", Some(45)),
        // The requested form wins, then a percentage, then an integer.
        ("12\nHalf is 50%.\nPROGRESS: 60\n[1]", Some(60)),
        ("12\nHalf is 50%.\n[1]", Some(50)),
        // In a fragment, only a line that JSON cannot hold counts.
        ("PROGRESS: 45\n\", \"b\": 2}", Some(45)),
        ("45%\n\", \"b\": 2}", None),
        ("45% of all people agree\"}, {\"a\": \"b\"}]", None),
        ("1,\n45\n]}", None),
        ("3], [\n45,\n46\n", None),
        ("{\"a\": 1},\n45", None),
        ("and 45% of all people", None),
        // In the JSON.
        ("{\"a\": \"PROGRESS: 45\"}", None),
        ("{\"a\": \"45%\"}", None),
        ("{\n45%\n}", None),
        ("[\n45\n]", None),
        // No percentage.
        ("", None),
        ("[1, 2]", None),
        ("PROGRESS: 101\n[1]", None),
        ("PROGRESS: -5\n[1]", None),
        ("PROGRESS: 45.5\n[1]", None),
        ("PROGRESS: many\n[1]", None),
        ("12.5% is done.\n[1]", None),
        ("-5% is done.\n[1]", None),
        ("150% is done.\n[1]", None),
        ("99999999999999999999%\n[1]", None),
        ("It has 45 rows.\n[1]", None),
        ("45 percentages\n[1]", None),
    ] {
        assert_eq!(extract(answer), expect, "{answer:?}");
    }
}

#[test]
fn a_percentage_must_rise() {
    for (last, kpi, expect) in [
        (None, 0, false),
        (None, 1, true),
        (Some(40), 39, false),
        (Some(40), 40, false),
        (Some(40), 41, true),
        (Some(100), 100, false),
    ] {
        assert_eq!(validate(last, kpi), expect, "{last:?} {kpi}");
    }
}

#[test]
fn three_stalled_reports_in_a_row_are_the_end() {
    let mut progress = Progress::default();
    let steps = [
        (Some(10), true, 0, Some(10)),
        (Some(10), true, 1, Some(10)),
        (Some(5), true, 2, Some(10)),
        // An answer without a percentage is not stalled, and does not reset the count.
        (None, true, 2, Some(10)),
        (Some(11), true, 0, Some(11)),
        (Some(11), true, 1, Some(11)),
        (Some(0), true, 2, Some(11)),
        (Some(3), false, 3, Some(11)),
    ];
    for (kpi, goes_on, stalled, last) in steps {
        assert_eq!(
            (progress.note(kpi), progress.stalled(), progress.last_kpi()),
            (goes_on, stalled, last),
            "{kpi:?}"
        );
    }
    // At least one stalled report is needed to end.
    for limit in [0, 1] {
        let mut progress = Progress::new(limit);
        assert!(progress.note(Some(1)) && progress.note(None) && !progress.note(Some(1)));
    }
}

/// Text of a document is no percentage, wherever a fragment of it starts and ends.
#[test]
fn text_in_a_document_is_not_a_percentage() {
    let (mut rng, mut count) = (Rng::new(7), 0);
    for (name, text) in corpus_documents("docs") {
        for _ in 0..200 {
            let (start, length) = (rng.below(text.len()), rng.below(3000));
            let Some(fragment) = text.get(start..text.len().min(start + length)) else {
                continue;
            };
            // An answer that is nothing but a number is a percentage.
            if fragment.trim().parse::<u32>().is_ok() {
                continue;
            }
            assert_eq!(extract(fragment), None, "{name}: {fragment:?}");
            count += 1;
        }
    }
    println!("covered: {count} fragments");
    assert!(count > at_least(2000, 5000));
}
