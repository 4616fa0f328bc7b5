//! Any bytes in any chunks: the machine's verdict, its events, and what it reports at the end of
//! each chunk are the oracle's.

use restitch::SyntaxErrorKind;
use restitch::internal::json::Machine;
use restitch::json::{CloseOptions, Partial};

use crate::reference::{Log, Verdict, oracle, oracle_verdict};
use restitch_testing::{Rng, chunks, random_cuts, text_cuts};

/// Returns the machine's verdict on `text` fed in the given chunks, with the error's kind where
/// there is one. White space may follow the root.
pub(crate) fn verdict(
    text: &[u8],
    depth: usize,
    cuts: &[usize],
) -> (Verdict, Option<SyntaxErrorKind>) {
    let mut machine = Machine::new(depth);
    let mut fed = 0;
    for chunk in chunks(text, cuts) {
        let consumed = match machine.feed(chunk) {
            Ok(consumed) => consumed,
            Err(error) => {
                assert_eq!(
                    machine.offset(),
                    error.offset,
                    "the machine is before the error"
                );
                let again = machine.feed(&text[error.offset..]).map(|_| ());
                assert_eq!(again, Err(error), "the same byte is the same error again");
                return (Verdict::Wrong(error.offset), Some(error.kind));
            }
        };
        let rest = &chunk[consumed..];
        assert!(
            rest.is_empty() || machine.is_done(),
            "only the end of the root stops the machine"
        );
        if let Some(more) = rest.iter().position(|byte| !b" \t\r\n".contains(byte)) {
            return (Verdict::Wrong(fed + consumed + more), None);
        }
        fed += chunk.len();
    }
    match machine.finish() {
        Ok(()) => (Verdict::Valid, None),
        Err(error) => {
            assert_eq!(error.offset, text.len());
            assert_eq!(error.kind, SyntaxErrorKind::UnexpectedEnd);
            (Verdict::Short, None)
        }
    }
}

/// Feeds `text` in the given chunks, and asks at the end of each chunk for what is certain.
pub(crate) fn told_in_time(text: &str, depth: usize, cuts: &[usize]) {
    let (mut machine, mut log) = (Machine::new(depth), Log::default());
    for end in cuts.iter().copied().chain([text.len()]) {
        let fed = machine.feed_text(&text[..end], &mut log);
        let expect = oracle(&text.as_bytes()[..end], depth);
        assert_eq!(
            log.0, expect.told,
            "told at byte {end} of {text}, cut at {cuts:?}"
        );
        match (expect.verdict, fed) {
            (Verdict::Wrong(offset), Err(error)) => {
                return assert_eq!(error.offset, offset, "{text}");
            }
            // The byte is after the root, so the machine does not take it.
            (Verdict::Wrong(offset), Ok(_)) => {
                return assert!(
                    machine.is_done() && machine.offset() <= offset,
                    "{text} is wrong at {offset}"
                );
            }
            (_, fed) => assert!(fed.is_ok(), "{fed:?} at byte {end} of {text}"),
        }
        let seen = (machine.cut_state().as_str(), machine.path(text).to_string());
        assert_eq!(
            seen,
            (expect.state, expect.path.clone()),
            "at byte {end} of {text}"
        );
        check_closings(
            &machine,
            |strings, literals| expect.complete(strings, literals),
            end,
            text,
        );
    }
}

/// Returns the complete part, with each partial token omitted and included.
pub(crate) fn check_closings(
    machine: &Machine,
    expect: impl Fn(bool, bool) -> Option<(usize, String)>,
    at: usize,
    text: &str,
) {
    let mut suffix = String::from("what was there");
    for (strings, literals) in [(false, false), (false, true), (true, false), (true, true)] {
        let partial = |shown| {
            if shown {
                Partial::Include
            } else {
                Partial::Omit
            }
        };
        let closing = CloseOptions {
            strings: partial(strings),
            literals: partial(literals),
        };
        let seen = machine
            .close_into(closing, &mut suffix)
            .map(|end| (end, suffix.clone()));
        assert_eq!(
            seen,
            expect(strings, literals),
            "{closing:?} at byte {at} of {text}"
        );
    }
}

pub(crate) fn check(input: &[u8]) {
    let mut rng = Rng::of(input);
    let text = String::from_utf8_lossy(input);
    for depth in [1024, 1 + rng.below(6)] {
        let whole = verdict(input, depth, &[]);
        assert_eq!(whole.0, oracle_verdict(input, depth));
        for _ in 0..4 {
            let cuts = random_cuts(input.len(), &mut rng);
            assert_eq!(verdict(input, depth, &cuts), whole, "cut at {cuts:?}");
        }
        told_in_time(&text, depth, &text_cuts(&text, &mut rng));
    }
    check_long(input, &mut rng);
}

/// The same input after enough elements of an array for long pushes, which have an index of their
/// tokens.
fn check_long(input: &[u8], rng: &mut Rng) {
    let element = [
        "\"text\",",
        "\"\\n\\\"\\ud83d\\ude00\",",
        "{\"k\": [-1.5e3, true]},\n ",
        "\"日本é\",",
    ][rng.below(4)];
    let mut text =
        format!("[{}", element.repeat(1100 / element.len() + rng.below(20))).into_bytes();
    text.extend_from_slice(input);
    let whole = verdict(&text, 1024, &[]);
    assert_eq!(whole.0, oracle_verdict(&text, 1024));
    for step in [1024, 1024 + rng.below(200)] {
        let cuts: Vec<usize> = (step..text.len()).step_by(step).collect();
        assert_eq!(verdict(&text, 1024, &cuts), whole, "cut at {cuts:?}");
    }
}
