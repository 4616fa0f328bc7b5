//! Any delivered text and any fragments: nothing panics, nothing is taken back, and the result is
//! the beginning of a document that can be closed.

use restitch::splice::{Expect, Seam, Slot, Splice, SpliceError};
use restitch::{Document, Limits};
use serde_json::Value;

use restitch_testing::{Rng, chunks, random_cuts};

/// Separates the delivered text and the fragments.
const SEPARATOR: char = '\u{1f}';

pub(crate) fn check(input: &[u8]) {
    let seed = input.iter().fold(input.len() as u64, |seed, &byte| {
        seed.rotate_left(8) ^ u64::from(byte)
    });
    let mut rng = Rng::new(seed);
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split(SEPARATOR);
    let mut document = Document::new(64);
    // A deviation ends the delivered text: the text before it was delivered.
    let _ = document.push(parts.next().unwrap_or_default());
    let expect = [Expect::Anchor, Expect::Exact, Expect::Any][input.len() % 3];
    let limits = Limits::default()
        .with_max_pending_bytes([1 << 16, 200, 20][input.len() / 3 % 3])
        .with_max_depth(64);
    for fragment in parts {
        if document.is_complete() || document.is_prose() {
            break;
        }
        let whole = join(document.clone(), fragment, expect, &limits, &[]);
        for _ in 0..2 {
            let cuts = random_cuts(fragment.len(), &mut rng);
            assert_eq!(
                join(document.clone(), fragment, expect, &limits, &cuts),
                whole,
                "cut at {cuts:?}"
            );
        }
        let bytewise: Vec<_> = (1..fragment.len()).collect();
        assert_eq!(
            join(document.clone(), fragment, expect, &limits, &bytewise),
            whole,
            "byte by byte"
        );
        let _ = document.push(&whole.0[document.text().len()..]);
        assert_eq!(
            document.text(),
            whole.0,
            "what was joined is a legal beginning"
        );
    }
}

/// Joins one fragment in chunks. Returns the text after it, and the result.
fn join(
    document: Document,
    fragment: &str,
    expect: Expect,
    limits: &Limits,
    cuts: &[usize],
) -> (String, Result<Seam, SpliceError>) {
    let delivered = document.text().to_owned();
    let mut slot = Slot::of(document, limits);
    let mut splice = Splice::new(&slot, expect, limits);
    let mut carry = Vec::new();
    let mut outcome = Ok(());
    for chunk in chunks(fragment.as_bytes(), cuts) {
        // Text arrives in complete characters.
        carry.extend_from_slice(chunk);
        let end = carry.len()
            - carry
                .utf8_chunks()
                .last()
                .map_or(0, |chunk| chunk.invalid().len());
        let rest = carry.split_off(end);
        let before = slot.document().text().to_owned();
        let fed = splice.feed(&mut slot, std::str::from_utf8(&carry).unwrap());
        carry = rest;
        assert!(
            slot.document().text().starts_with(&before),
            "{before:?} was taken back"
        );
        assert!(outcome.is_ok() || fed == outcome, "a failure is final");
        outcome = fed;
        check_closing(slot.document());
    }
    let before = slot.document().text().to_owned();
    let finished = splice.finish(&mut slot);
    assert!(
        slot.document().text().starts_with(&before),
        "{before:?} was taken back"
    );
    assert!(outcome.is_ok() || finished.as_ref().err() == outcome.as_ref().err());
    check_closing(slot.document());
    if let Ok(seam) = &finished {
        assert_eq!(seam.offset, delivered.len());
        assert!(seam.overlap <= delivered.len());
        assert_eq!(splice.pending(), 0);
    } else if splice.seam().is_none() {
        assert_eq!(
            slot.document().text(),
            delivered,
            "a fragment that fails to merge changes nothing"
        );
    }
    (slot.document().text().to_owned(), finished)
}

fn check_closing(document: &Document) {
    let Some(root) = document.root() else { return };
    let completion = document.completion();
    let mut closed = Document::new(64);
    closed.push(root).unwrap();
    assert_eq!(closed.text(), root, "the text is a legal beginning");
    closed.push(&completion.suffix).unwrap();
    assert!(
        closed.is_complete(),
        "{root} is not closed by {}",
        completion.suffix
    );
    if let Ok(value) = serde_json::from_str::<Value>(closed.text()) {
        assert!(
            completion
                .synthesized
                .iter()
                .all(|path| value.pointer(path).is_some()),
            "{:?}",
            completion.synthesized
        );
    }
    assert!(document.complete().is_some());
}

/// Changes real behaviour, which reaches more code than random bytes do: documents, cut and
/// continued in pieces.
pub(crate) fn random_input(rng: &mut Rng, documents: &[&str]) -> Vec<u8> {
    let pieces = [
        "```json\n",
        "```",
        "\n",
        "Sure, here it is:\n\n",
        "I'm sorry",
        ", ",
        "\"",
        "]",
        "}",
        "{",
        "[",
        "0, ",
        "\\",
        "\\u",
        "d83d",
        "é",
        "\u{1}",
        " ",
        "null",
    ];
    let document = *documents.get(rng.below(documents.len())).unwrap();
    let place = |rng: &mut Rng, from: usize| {
        let mut at = from + rng.below(document.len() - from + 1);
        while !document.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let mut text = String::new();
    if rng.below(4) == 0 {
        text.push_str("Here:\n```json\n");
    }
    let mut cut = place(rng, 0);
    text.push_str(&document[..cut]);
    for _ in 0..=rng.below(4) {
        text.push(SEPARATOR);
        for _ in 0..rng.below(3) {
            text.push_str(rng.pick(&pieces));
        }
        let start = if rng.below(3) == 0 {
            cut
        } else {
            place(rng, 0).min(cut)
        };
        let end = place(rng, start).max(start);
        text.push_str(&document[start..end]);
        cut = cut.max(end);
        for _ in 0..rng.below(3) {
            text.push_str(rng.pick(&pieces));
        }
    }
    text.into_bytes()
}
