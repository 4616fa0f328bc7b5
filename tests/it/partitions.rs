//! Documents in parts that overlap by a random length: they are joined if the overlap proves the
//! place, and each wrong document is flagged.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::Finish;
use restitch::session::{CallEnd, Input, Output, Session, Status, stitch};
use restitch::splice::Expect;

use restitch_testing::Rng;

const WORDS: [&str; 24] = [
    "river", "stone", "the", "of", "and", "harbour", "lamp", "quiet", "under", "seven", "winter",
    "a", "market", "with", "copper", "bridge", "to", "letter", "north", "old", "ship", "field",
    "Zoë", "rain",
];

fn sentence(rng: &mut Rng, words: usize) -> String {
    (0..words)
        .map(|_| WORDS[rng.below(WORDS.len())])
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a document of one of four types: long strings, a table, numbers, equal rows.
fn document(rng: &mut Rng) -> String {
    let rows = |rows: Vec<String>| format!("{{\"rows\": [{}]}}", rows.join(", "));
    match rng.below(4) {
        0 => rows(
            (0..4)
                .map(|n| format!("{{\"id\": {n}, \"text\": \"{}\"}}", sentence(rng, 60)))
                .collect(),
        ),
        1 => rows(
            (0..20)
                .map(|n| format!("{{\"id\": {n}, \"name\": \"{}\"}}", sentence(rng, 3)))
                .collect(),
        ),
        2 => rows((0..150).map(|_| rng.below(100_000).to_string()).collect()),
        _ => rows(
            (0..30)
                .map(|_| format!("{{\"kind\": \"lamp\", \"value\": {}}}", rng.below(3)))
                .collect(),
        ),
    }
}

/// Returns the offset `characters` characters before `at`.
fn before(text: &str, at: usize, characters: usize) -> usize {
    if characters == 0 {
        at
    } else {
        text[..at]
            .char_indices()
            .rev()
            .nth(characters - 1)
            .map_or(0, |(at, _)| at)
    }
}

fn boundary(text: &str, at: usize) -> usize {
    (at..).find(|&at| text.is_char_boundary(at)).unwrap()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn overlapping_parts_are_joined_and_wrong_documents_are_flagged() {
    let mut rng = Rng::new(0x5eed_0039);
    let (mut right, mut proven, mut closed) = (0, 0, 0);
    for _ in 0..600 {
        let text = document(&mut rng);
        let mut cuts: Vec<usize> = (0..2 + rng.below(2))
            .map(|_| boundary(&text, 1 + rng.below(text.len() - 2)))
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let ends: Vec<usize> = cuts.iter().copied().chain([text.len()]).collect();
        let overlap = |rng: &mut Rng| {
            if rng.below(6) == 0 {
                0
            } else {
                8 + rng.below(93)
            }
        };
        let starts: Vec<usize> = cuts
            .iter()
            .map(|&cut| before(&text, cut, overlap(&mut rng)))
            .collect();
        let parts: Vec<&str> = [0]
            .into_iter()
            .chain(starts.iter().copied())
            .zip(&ends)
            .map(|(start, &end)| &text[start..end])
            .collect();
        let is_proven = starts.iter().zip(&cuts).all(|(&start, &cut)| {
            let repeated = &text[start..cut];
            repeated.chars().count() >= 20 && text.matches(repeated).count() == 1
        });
        let stitched = stitch(parts.iter().copied(), Expect::Any, &Limits::default());
        let is_flagged = stitched
            .seams
            .iter()
            .any(|seam| seam.ambiguous || seam.early_end);
        if stitched.status == Status::Complete && squeezed(&stitched.json) == squeezed(&text) {
            right += usize::from(is_proven);
        } else {
            assert!(
                stitched.status == Status::Closed || is_flagged,
                "{parts:#?}\n{}",
                stitched.json
            );
            assert!(
                is_flagged
                    || !stitched.failed.is_empty()
                    || stitched.seams.iter().any(|seam| seam.posterior < 0.999)
            );
            closed += usize::from(is_proven);
        }
        proven += usize::from(is_proven);
    }
    assert!(
        proven > 150 && right * 100 >= proven * 97,
        "{right} of {proven} are right, {closed} closed"
    );
}

/// A model repeats one character less than asked, and its answer is cut again inside the same
/// string.
#[test]
fn an_answer_that_repeats_less_than_asked_and_is_cut_in_the_same_string_is_joined() {
    let mut rng = Rng::new(0x5eed_0040);
    let length = || Input::CallEnd(CallEnd::Finished(Finish::Length));
    let mut failures = 0;
    for number in 0..20 {
        let text = format!(
            "{{\"id\": {number}, \"body\": \"{}\"}}",
            sentence(&mut rng, 90)
        );
        let mut cut = boundary(&text, 80 + rng.below(40));
        let mut session = Session::new(Limits::default());
        session.handle_input(Duration::ZERO, Input::Text(&text[..cut]));
        session.handle_input(Duration::ZERO, length());
        let outcome = loop {
            match session.poll_output().expect("a call or the end") {
                Output::Call { request, .. } => {
                    let anchor = request.turn.unwrap().anchor;
                    let repeated = before(
                        &text,
                        text[..cut].trim_end().len(),
                        anchor.chars().count() - 1,
                    );
                    let end = boundary(&text, (cut + 60).min(text.len()));
                    session.handle_input(Duration::ZERO, Input::Text(&text[repeated..end]));
                    let is_whole = end == text.len();
                    let stop = || Input::CallEnd(CallEnd::Finished(Finish::Stop));
                    session.handle_input(Duration::ZERO, if is_whole { stop() } else { length() });
                    cut = end;
                }
                Output::Done(outcome) => break outcome,
                _ => {}
            }
        };
        assert_eq!(outcome.status(), Status::Complete, "{outcome:?}");
        assert_eq!(session.document().text(), text);
        failures += outcome.tally().failures;
    }
    // In one answer the words recur by chance, so that it needs a second question.
    assert!(failures <= 1, "{failures} answers were not joined");
}
