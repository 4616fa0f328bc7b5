//! Documents as chat streams that are cut and continued: the result must be the document.

use std::collections::BTreeMap;

use restitch::Limits;
use restitch::internal::relay::{AnswerOptions, Relay};
use restitch::provider::Dialect;
use restitch::session::{Status, stitch};
use restitch::splice::Expect;

use crate::wires::continued::{Fault, read, through_with};
use restitch_testing::chat::{self, DONE};
use restitch_testing::rows::Rows;
use restitch_testing::{Rng, at_least, corpus_documents, corpus_rows, is_doubtful_end};

/// Documents for tests that need no corpus.
const OURS: [&str; 2] = [
    r#"{"title": "Seams \u00e9 \ud83d\ude00 – \"quoted\"", "rows": [[1, -2.5e3, true], [2, 0.125, false]], "items": ["один", "два", "три"], "end": null}"#,
    "[\n  {\"id\": 1, \"text\": \"one\\nline and \\\\ another\"},\n  {\"id\": 2, \"text\": \"\"},\n  {\"id\": 3, \"empty\": {}}\n]",
];

/// Returns a chat stream that has `text` and this end.
fn stream(id: &str, text: &str, finish: &str, rng: &mut Rng) -> String {
    let mut body = chat::role(id);
    let mut rest = text;
    while !rest.is_empty() {
        let length = (1 + rng.below(60)).min(rest.len());
        let end = (length..=rest.len())
            .find(|&at| rest.is_char_boundary(at))
            .unwrap();
        body += &chat::text(id, &rest[..end]);
        rest = &rest[end..];
    }
    body + &chat::finish(id, finish) + DONE
}

/// Returns what the model writes when it is asked for the rest: the requested anchor, and the text
/// after the cut.
fn answer(behaviour: &str, anchor: &str, rest: &str) -> String {
    match behaviour {
        "exact" => rest.to_owned(),
        "anchor" => format!("{anchor}{rest}"),
        "fenced" => format!("```json\n{anchor}{rest}\n```"),
        "fence never closed" => format!("```\n{anchor}{rest}"),
        "preamble" => format!("Sure, here is the rest:\n\n{anchor}{rest}"),
        "preamble and fence" => format!("Of course:\n```json\n{anchor}{rest}\n```\nDone."),
        other => panic!("{other}"),
    }
}

/// Cuts a document at `cut`, continues it, and returns the text that a client read and the status.
fn run(document: &str, cut: usize, behaviour: &str, rng: &mut Rng) -> (String, Status) {
    // All of the text is sent back, however long it is.
    let relay = Relay::new(Limits::default().with_max_verbatim_context(usize::MAX))
        .give_up(restitch::session::GiveUp::Close);
    let first = stream("first", &document[..cut], "length", rng);
    let received = through_with(
        relay,
        first.as_bytes(),
        Fault::Clean,
        usize::MAX,
        |request, delivered| {
            let turn = request.turn.as_ref().unwrap();
            assert_eq!(turn.delivered, delivered);
            assert!(
                document.starts_with(delivered),
                "the client got another text"
            );
            let white = &delivered[delivered.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
            let anchor = format!("{}{white}", turn.anchor);
            let text = answer(behaviour, &anchor, &document[delivered.len()..]);
            (stream("next", &text, "stop", rng), Fault::Clean)
        },
    );
    let text = read(Dialect::Chat, &received.body)
        .text
        .into_values()
        .collect();
    (text, received.outcome.status())
}

/// How continuations ended: right, closed, or complete with a wrong text.
type Ends = [usize; 3];

/// Cuts each document four times for each behaviour and continues it. Panics where a text is wrong
/// and not closed.
fn count_ends(behaviours: &[&'static str]) -> BTreeMap<&'static str, Ends> {
    let mut documents: Vec<(String, String)> = OURS
        .iter()
        .map(|text| ("ours".to_owned(), (*text).to_owned()))
        .collect();
    let is_small_container =
        |text: &str| text.trim_start().starts_with(['{', '[']) && text.len() <= 60_000;
    documents.extend(
        corpus_documents("docs")
            .into_iter()
            .filter(|(_, text)| is_small_container(text)),
    );
    let mut rng = Rng::new(23);
    let mut rows = Rows::of("chat streams");
    let mut table: BTreeMap<&str, Ends> = BTreeMap::new();
    for (name, document) in &documents {
        let document = document.trim();
        for &behaviour in behaviours {
            for _ in 0..4 {
                let at = 1 + rng.below(document.len() - 1);
                let cut = (at..).find(|&at| document.is_char_boundary(at)).unwrap();
                let mut row = Rng::new(rng.next());
                if !rows.runs_next() {
                    continue;
                }
                let (text, status) = run(document, cut, behaviour, &mut row);
                let is_doubtful = status == Status::Closed && is_doubtful_end(document, cut);
                let place = match status {
                    _ if is_doubtful => 0,
                    Status::Complete if text == document => 0,
                    Status::Closed => 1,
                    _ => 2,
                };
                table.entry(behaviour).or_default()[place] += 1;
                assert!(
                    place < 2,
                    "{name} cut at {cut}, {behaviour}: wrong, and nobody says so"
                );
                if place > 0 {
                    println!(
                        "{name} cut at {cut}, {behaviour}: {place} before {:.60?}",
                        &document[cut..]
                    );
                }
            }
        }
    }
    println!(
        "{} documents, each cut four times a behaviour",
        documents.len()
    );
    for (behaviour, [right, closed, wrong]) in &table {
        println!("{behaviour:<20} right {right:4}  closed {closed:3}  wrong {wrong}");
    }
    table
}

#[test]
fn documents_cut_into_chat_streams_come_out_whole() {
    let behaviours = [
        "anchor",
        "fenced",
        "fence never closed",
        "preamble",
        "preamble and fence",
    ];
    for (behaviour, [_, closed, wrong]) in count_ends(&behaviours) {
        assert_eq!((closed, wrong), (0, 0), "{behaviour}");
    }
}

/// A continuation without the requested anchor is accepted where it cannot be a repetition. More of
/// our own documents repeat themselves than of the recorded ones.
#[test]
#[ignore = "open: the rest of a number, and elements like those before them, are too seldom told from a repetition"]
fn continuations_without_the_anchor_come_out_whole() {
    let [right, closed, _] = count_ends(&["exact"])["exact"];
    assert!(
        closed * at_least(10, 20) <= right,
        "{closed} of {} exact continuations were not taken",
        right + closed
    );
}

#[test]
fn recorded_cuts_of_providers_come_out_whole() {
    let mut count = 0;
    for (_, row) in corpus_rows("length_cut/index.jsonl") {
        let [delivered, full, remaining] = ["delivered", "full", "remaining"]
            .map(|member| row[member].as_str().unwrap().to_owned());
        if delivered.trim().is_empty() {
            continue;
        }
        let again = format!("{delivered}{remaining}");
        for (part, expect) in [(&remaining, Expect::Exact), (&again, Expect::Any)] {
            let stitched = stitch(
                [delivered.as_str(), part.as_str()],
                expect,
                &Limits::default(),
            );
            if expect == Expect::Any
                && stitched.status == Status::Closed
                && is_doubtful_end(&full, delivered.len())
            {
                continue;
            }
            assert_eq!(
                (stitched.status, stitched.json.trim()),
                (Status::Complete, full.trim()),
                "{}",
                row["file"]
            );
        }
        count += 1;
    }
    assert!(count >= at_least(10, 40));
    println!("{count} recorded cuts");
}

/// A part of the anchor, or of the text before it, is joined correctly or rejected as ambiguous; it
/// is never taken for new text.
#[test]
fn a_part_of_the_tail_is_never_taken_for_new_text() {
    let mut table: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    for document in OURS {
        for repeated in [3, 5, 8, 16, 24, 60] {
            for cut in (repeated..document.len()).filter(|&cut| document.is_char_boundary(cut)) {
                let from = cut - repeated;
                let tail = document.get(from..cut).unwrap_or_default();
                // Two characters, or only brackets and white space, may be new text.
                if tail.trim().chars().count() < 3 || !tail.contains(char::is_alphanumeric) {
                    continue;
                }
                let parts = [&document[..cut], &document[from..]];
                let stitched = stitch(parts, Expect::Anchor, &Limits::default());
                let right = stitched.status == Status::Complete;
                assert!(
                    !right || stitched.json == document,
                    "cut at {cut}, {repeated} repeated: {}",
                    stitched.json
                );
                table.entry(repeated).or_default()[usize::from(!right)] += 1;
            }
        }
    }
    for (repeated, [right, refused]) in table {
        println!("{repeated:>3} bytes repeated: right {right:3}  refused {refused}");
    }
}
