//! Seams: documents cut anywhere and continued in every style, in any chunks.

use restitch::Limits;
use restitch::splice::{
    Alignment, Anchor, AttemptStatus, Candidate, Expect, Explained, ExplainedCandidate, Rule, Seam,
    Slot, Splice, SpliceError,
};

use crate::document::{all_documents, cuts};
use crate::fuzz::seam::check as continued;
use crate::fuzz::splice::{check as fuzz_body, random_input};
use crate::json::INLINE;
use restitch_sim::style::ContinuationStyle;
use restitch_testing::Rng;
use restitch_testing::case_file::read_rows;
use restitch_testing::rows::Rows;

/// What models write instead of a continuation.
const REFUSALS: [&str; 8] = [
    "I'm sorry, but I can't help with that.",
    "I cannot continue this.",
    "I'm sorry, I can't write \"content\", [lists], {objects} or anything else, since: no.",
    "I can't: \"{\", \"[\", \", and so on\" are beyond me.",
    "\"I'm sorry\", he said, \"but no.\"",
    "As an AI, I can't continue [this], {sorry}.\n\n1. It is long, 2. it is cut.",
    "No.\n\n```\nnothing\n```\n",
    "5 or 6 - I lost count, sorry",
];

/// Runs the body of the fuzz target over cuts of documents, each continued in every style: in any
/// chunks the result is the document, or is marked as another one.
#[test]
fn documents_are_continued_in_every_style() {
    let mut rows = Rows::of("styles of continuations");
    let mut rng = Rng::new(2);
    let (documents, recorded) = all_documents(6_000);
    for (name, text) in &documents {
        for cut in cuts(text, 0, 12) {
            for style in 0..ContinuationStyle::ALL.len() {
                let [asked, again, low, seed, part] = [(); 5].map(|()| rng.next() as u8);
                let [high_cut, low_cut] = (cut as u16).to_be_bytes();
                let style = style as u8;
                let head = [
                    asked, high_cut, low_cut, style, style, again, low, seed, part,
                ];
                if rows.runs_next() {
                    println!("{name} at {cut}: {head:?}"); // Shown if the body panics.
                    continued(&[&head, text.as_bytes()].concat());
                }
            }
        }
    }
    println!(
        "covered: {} documents, {recorded} of them recorded",
        documents.len()
    );
}

#[test]
fn refusals_never_change_the_document() {
    let mut rows = Rows::of("refusals");
    let (documents, recorded) = all_documents(20_000);
    let mut total = 0;
    for (name, text) in &documents {
        for cut in cuts(text, 400, 20) {
            for refusal in REFUSALS {
                if !rows.runs_next() {
                    continue;
                }
                for expect in [Expect::Anchor, Expect::Any] {
                    let mut slot = Slot::new(&Limits::default());
                    slot.push(&text[..cut]).unwrap();
                    let mut splice = Splice::new(&slot, expect, &Limits::default());
                    let fed = splice.feed(&mut slot, refusal);
                    let finished = splice.finish(&mut slot);
                    assert_eq!(
                        slot.document().text(),
                        &text[..cut],
                        "{name}: {refusal:?} at {cut}: {fed:?}, {finished:?}"
                    );
                    assert!(finished.is_err());
                }
                total += 1;
            }
        }
    }
    println!(
        "covered: {total} refusals in {} documents, {recorded} of them recorded",
        documents.len()
    );
}

/// Feeds one fragment in the given chunks. Returns the document and the report of the seam. After
/// each chunk the emitted text is a beginning of the final one.
fn splice_in(
    delivered: &str,
    fragment: &str,
    expect: Expect,
    limits: &Limits,
    cuts: &[usize],
) -> (String, Result<Seam, SpliceError>) {
    let mut slot = Slot::new(limits);
    slot.push(delivered).unwrap();
    let mut splice = Splice::new(&slot, expect, limits);
    let mut from = 0;
    for cut in cuts.iter().copied().chain([fragment.len()]) {
        if !fragment.is_char_boundary(cut) {
            continue;
        }
        let before = slot.document().text().to_owned();
        let _ = splice.feed(&mut slot, &fragment[from..cut]);
        from = cut;
        // A root that has just ended may drop white space after it: this push added all of that.
        assert!(
            slot.document().text().starts_with(&before),
            "{before:?} was taken back"
        );
        assert!(
            splice.pending() <= limits.parser.max_pending_bytes + delivered.len() + 1,
            "{} bytes are pending",
            splice.pending()
        );
    }
    let before = slot.document().text().to_owned();
    let finished = splice.finish(&mut slot);
    assert!(slot.document().text().starts_with(&before));
    (slot.document().text().to_owned(), finished)
}

/// A repetition that begins before the anchor, inside the cut string: the text before the anchor is
/// not an envelope, and counts because it repeats what was delivered before the anchor.
#[test]
fn more_than_the_anchor_is_repeated() {
    let (mut count, mut flagged) = (0, 0);
    let text = "{\"title\": \"The quick brown fox jumps over the lazy dog while the band plays on and on\"}";
    for cut in 55..text.len() - 1 {
        for start in 11..cut - 41 {
            let (joined, seam) = splice_in(
                &text[..cut],
                &text[start..],
                Expect::Any,
                &Limits::default(),
                &[],
            );
            count += 1;
            if matches!(seam, Err(SpliceError::Ambiguous | SpliceError::EarlyEnd)) {
                // What is repeated may be little to go by: nothing is joined then.
                flagged += 1;
                assert_eq!(joined, text[..cut]);
                continue;
            }
            assert_eq!(
                joined, text,
                "cut at {cut}, repeated from {start}: {seam:?}"
            );
            // White space at the fragment's start has no meaning; at the cut it belongs to the
            // overlap.
            let from = start + usize::from(text[start..].starts_with(' '));
            assert_eq!(seam.unwrap().overlap, cut - from);
        }
    }
    assert!(flagged * 10 < count, "{flagged} of {count}");
}

/// Feeds a fragment in the given chunks to a splice and finishes it.
fn explained_in(delivered: &str, fragment: &str, expect: Expect, cuts: &[usize]) -> Explained {
    let limits = Limits::default();
    let mut slot = Slot::new(&limits);
    slot.push(delivered).unwrap();
    let mut splice = Splice::new(&slot, expect, &limits);
    let mut from = 0;
    for cut in cuts.iter().copied().chain([fragment.len()]) {
        let _ = splice.feed(&mut slot, &fragment[from..cut]);
        from = cut;
    }
    let _ = splice.finish(&mut slot);
    splice.explain(&slot, fragment)
}

/// Members that were not delivered, with their commas, do not prove that the open member is meant.
#[test]
fn new_members_are_no_evidence() {
    let surprise = |members: usize| {
        let new: String = (0..members)
            .map(|n| format!("\"n{n}\":{},", n * 7 % 10))
            .collect();
        let fragment = format!("{{{new}\"text\":\"abcdef\"}}]}}");
        let explained = explained_in(r#"{"rows":[{"text":"abc"#, &fragment, Expect::Any, &[]);
        explained.candidates[0].candidate.evidence.surprise
    };
    let (few, many) = (surprise(1), surprise(12));
    assert!(
        (10.0..40.0).contains(&few) && (few - many).abs() < 1.0,
        "{few} {many}"
    );
}

/// A key that no row has speaks against a continuation, wherever it begins.
#[test]
fn strange_keys_are_evidence_against_a_place() {
    let delivered = r#"[{"a":1,"b":2},{"a":2,"b":5},{"a":31,"b":9},{"a":7,"b":84},{"a":3,"#;
    let misfit = |begun: &str, key: &str, alignment: Alignment| {
        let fragment = format!("{begun}\"{key}\":7}}]");
        let explained = explained_in(delivered, &fragment, Expect::Any, &[]);
        let mut candidates = explained.candidates.into_iter().map(|one| one.candidate);
        let candidate = candidates
            .find(|candidate| candidate.alignment == alignment)
            .unwrap();
        candidate.evidence.misfit
    };
    for (begun, alignment) in [("", Alignment::Exact), (delivered, Alignment::Restart)] {
        let (known, strange) = (misfit(begun, "b", alignment), misfit(begun, "q", alignment));
        assert!(
            (8.5..14.0).contains(&(strange - known)),
            "{alignment:?}: {known} {strange}"
        );
    }
}

/// A repeated document is joined soon after the cut. It could also be an element of the array that
/// was cut, but no element has its keys.
#[test]
fn a_document_that_begins_again_is_not_waited_for() {
    let document = r#"{"name": "Errors", "nodes": [{"id": 1, "type": "cron"}, {"id": 2, "type": "http"}, {"id": 3, "type": "mail", "to": "x@example.org"}], "tags": []}"#;
    let cut = document.find("mail").unwrap();
    let explained = explained_in(&document[..cut], document, Expect::Any, &[]);
    let seam = explained.seam.unwrap();
    assert_eq!((seam.alignment, seam.overlap), (Alignment::Restart, cut));
    assert!(seam.decided < cut + 32, "{}", seam.decided);
}

/// Writes one line a candidate.
fn described(explained: &Explained) -> Vec<String> {
    let describe = |explained: &ExplainedCandidate| {
        let ExplainedCandidate {
            candidate: tried,
            path,
            ..
        } = explained;
        let status = match tried.status {
            AttemptStatus::Rejected { byte, reason } => format!("rejected at {byte}: {reason}"),
            status => status.as_str().to_owned(),
        };
        let Candidate {
            alignment,
            start,
            overlap,
            from,
            at,
            ..
        } = tried;
        format!(
            "{} {}, {overlap} from {from} {path:?}, new {at}: {status}",
            alignment.as_str(),
            start.as_str()
        )
    };
    explained.candidates.iter().map(describe).collect()
}

#[test]
fn every_candidate_is_explained() {
    // The cut row is written once more, without a member that was delivered.
    let explained = explained_in(
        r#"[{"a": 1, "b": "Be"#,
        r#"[{"b": "Berta"}, {"a": 2}]"#,
        Expect::Any,
        &[],
    );
    assert_eq!(
        (explained.cut.path.as_str(), explained.cut.offset),
        ("/0/b", 18)
    );
    let described_row = ["restart root, 18 from 0 \"\", new 10: won"];
    assert_eq!(described(&explained)[..1], described_row);
    assert!(explained.seam.is_some_and(|seam| seam.posterior > 0.999));

    // The requested continuation wins with its first legal byte; nothing else was tried.
    let explained = explained_in("[10, 2", "0, 30]", Expect::Exact, &[]);
    assert_eq!(
        described(&explained),
        [r#"exact requested, 0 from 6 "/1", new 0: won"#]
    );
    assert_eq!(
        (
            explained.seam.unwrap().decided,
            explained.pending,
            explained.anchor.unwrap().length
        ),
        (1, 1, 6)
    );

    // The anchor, as it was requested: the last 40 of 73 bytes.
    let delivered = r#"{"a": "The quick brown fox jumps over the lazy dog, and the dog sleeps on"#;
    let explained = explained_in(
        delivered,
        &format!("{} it\"}}", &delivered[33..]),
        Expect::Anchor,
        &[],
    );
    assert_eq!(
        described(&explained),
        [r#"anchor requested, 40 from 33 "/a", new 40: won"#]
    );

    // Nothing was delivered, so there is only one candidate.
    let explained = explained_in("", "Sure:\n```json\n{}", Expect::Any, &[]);
    assert_eq!((explained.candidates.len(), explained.anchor), (0, None));
    assert_eq!(explained.seam.unwrap().alignment, Alignment::Start);

    // Repairs are reported after a failure, too.
    let explained = explained_in("[1,", ", 2, x", Expect::Any, &[]);
    assert!(matches!(explained.failure, Some(SpliceError::Malformed(_))));
    let repairs: Vec<_> = explained
        .repairs
        .iter()
        .map(|repair| (repair.rule, repair.offset))
        .collect();
    assert_eq!(repairs, [(Rule::CommaDropped, 3)]);
}

#[test]
fn an_explanation_is_the_same_for_all_chunkings() {
    let fragments = [
        r#"Sure: ```json {"a": [1, {"b": "Berta"}]} ```"#,
        "Sure:\n```json\n{\"b\": \"Berta\"}, {\"b\": 3}], \"a\": 1}\n```\n",
        "rta\"}, {\"b\": 3}], \"a\": 1}",
        "I can't.",
    ];
    for fragment in fragments {
        let explained =
            |cuts: &[usize]| explained_in(r#"{"a": [1, {"b": "Be"#, fragment, Expect::Any, cuts);
        let whole = explained(&[]);
        assert!(!whole.candidates.is_empty());
        for cut in 1..fragment.len() {
            assert_eq!(explained(&[cut]), whole, "{fragment:?} cut at {cut}");
        }
        assert_eq!(
            explained(&(1..fragment.len()).collect::<Vec<_>>()),
            whole,
            "{fragment:?}"
        );
    }
}

/// Any number of attempts needs limited memory.
#[test]
fn the_number_of_rejected_candidates_kept_is_limited() {
    // Content may begin at each line after prose, and each of these candidates is rejected at its
    // first character.
    let fragment = "!\n".repeat(200);
    let explained = explained_in("[1, ", &fragment, Expect::Any, &[]);
    assert_eq!(
        (explained.candidates.len(), explained.unlisted),
        (64, 200 - 64)
    );
}

/// Counts work, not time: an anchor that the fragment repeats at every byte opens a limited number
/// of attempts.
#[test]
fn a_period_does_not_open_an_attempt_at_every_byte() {
    let delivered = format!("[\"{}", "a".repeat(5000));
    let fragment = format!("x{}", "a".repeat(60_000));
    let (joined, seam) = splice_in(
        &delivered,
        &fragment,
        Expect::Anchor,
        &Limits::default(),
        &[],
    );
    assert_eq!((joined, seam), (delivered, Err(SpliceError::Undecided)));
}

/// An object that has just opened comes again with its bracket, and is longer than what may wait.
#[test]
fn an_object_that_comes_again_after_its_bracket_streams() {
    let delivered = r#"["zebra", {"#;
    let rows: Vec<String> = (0..4000)
        .map(|n| format!(r#"{{"id": {n}, "name": "name {n}"}}"#))
        .collect();
    let fragment = format!(r#"{{"rows": [{}], "end": 1}}]"#, rows.join(", "));
    let limits = Limits::default();
    assert!(fragment.len() > limits.parser.max_pending_bytes);
    let mut slot = Slot::new(&limits);
    slot.push(delivered).unwrap();
    let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
    for text in fragment.as_bytes().chunks(64) {
        splice
            .feed(&mut slot, std::str::from_utf8(text).unwrap())
            .unwrap();
        assert!(splice.pending() < 1024, "{}", splice.pending());
    }
    splice.finish(&mut slot).unwrap();
    assert_eq!(
        slot.document().text(),
        format!("{delivered}{}", &fragment[1..])
    );
}

#[test]
fn an_ambiguous_anchor_is_reported() {
    let text = format!("[{}]", vec!["0"; 3000].join(","));
    let delivered = &text[..4000];
    let (_, seam) = splice_in(
        delivered,
        &text[4000 - 2048..],
        Expect::Anchor,
        &Limits::default(),
        &[],
    );
    assert!(seam.is_err() || seam.unwrap().ambiguous);
}

#[test]
fn pending_garbage_is_limited() {
    for (delivered, garbage) in [
        ("{\"a\": \"b", "lorem ipsum dolor "),
        ("{\"a\": [1, ", "  \n"),
        ("{\"a\": 1", "no no no\n"),
        ("```json\n", "lorem ipsum\n"),
    ] {
        let limits = Limits::default().with_max_pending_bytes(1000);
        let mut slot = Slot::new(&limits);
        slot.push(delivered).unwrap();
        let mut splice = Splice::new(&slot, Expect::Anchor, &limits);
        let mut failed = None;
        for _ in 0..1000 {
            failed = splice.feed(&mut slot, garbage).err();
            assert!(
                splice.pending() <= limits.parser.max_pending_bytes + garbage.len(),
                "{}",
                splice.pending()
            );
            if failed.is_some() {
                break;
            }
        }
        assert_eq!(failed, Some(SpliceError::Pending(1000)), "{garbage:?}");
        assert_eq!(splice.finish(&mut slot), Err(SpliceError::Pending(1000)));
        assert_eq!(slot.document().text(), delivered);
    }
}

/// A row of `tests/cases/seams.rows`: the document, the fragment, what was asked for, the text after
/// it, and the alignment with the overlap, or the name of the error.
type SeamByHand = (String, String, String, String, Joined);

#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Joined {
    Seam(String, usize),
    Failure(String),
}

#[test]
fn seams_by_hand() {
    use Alignment::{Anchor, Restart};
    let cases: Vec<SeamByHand> = read_rows("seams.rows");
    assert_eq!(cases.len(), 35);
    for (delivered, fragment, expect, text, outcome) in cases {
        let expect = match expect.as_str() {
            "anchor" => Expect::Anchor,
            "exact" => Expect::Exact,
            "any" => Expect::Any,
            other => panic!("{other}"),
        };
        let (delivered, fragment) = (delivered.as_str(), fragment.as_str());
        let (joined, seam) = splice_in(delivered, fragment, expect, &Limits::default(), &[]);
        let why = format!("{delivered:?} + {fragment:?}: {seam:?}");
        let bytewise: Vec<usize> = (1..fragment.len()).collect();
        let split = splice_in(delivered, fragment, expect, &Limits::default(), &bytewise);
        assert_eq!(
            (&split.0, &split.1),
            (&joined, &seam),
            "{why}, byte by byte"
        );
        assert_eq!(joined, text, "{why}");
        match (&outcome, &seam) {
            (Joined::Seam(alignment, overlap), Ok(seam)) => {
                assert_eq!(seam.overlap, *overlap, "{why}");
                // A short text is its own anchor and its own root: both names are right.
                let is_own_anchor = matches!(alignment.as_str(), "anchor" | "restart")
                    && matches!(seam.alignment, Anchor | Restart);
                assert!(
                    is_own_anchor || seam.alignment.as_str() == alignment,
                    "{why}, not {alignment}"
                );
            }
            (Joined::Failure(name), Err(error)) => assert_eq!(format!("{error:?}"), *name, "{why}"),
            _ => panic!("{why}, not {outcome:?}"),
        }
        assert_eq!(
            seam.map_or(delivered.len(), |seam| seam.offset),
            delivered.len()
        );
    }
}

#[test]
fn an_error_after_the_seam_is_reported_and_the_text_before_it_kept() {
    for text in [INLINE[0], INLINE[5]] {
        let cut = 30;
        let anchor = Anchor::of(&text[..cut], 2048).unwrap();
        let fragment = format!("{}\u{1}", &text[anchor.range.start..40]);
        let (joined, seam) = splice_in(
            &text[..cut],
            &fragment,
            Expect::Anchor,
            &Limits::default(),
            &[],
        );
        assert_eq!(joined, text[..40]);
        assert!(
            matches!(seam, Err(SpliceError::Malformed(error)) if error.offset == 40),
            "{seam:?}"
        );
    }
}

/// Runs the fuzz body over parts of documents: restarts, repetitions, envelopes and garbage in
/// every order.
#[test]
fn random_scripts_keep_every_promise() {
    let mut rng = Rng::new(31);
    let mut rows = Rows::of("random scripts");
    for _ in 0..4000 {
        let input = random_input(&mut rng, &INLINE);
        if !rows.runs_next() {
            continue;
        }
        println!("{}", String::from_utf8_lossy(&input)); // Shown if the body panics.
        fuzz_body(&input);
    }
}
