//! Compares with serde_json: the grammar, and whether closed text is JSON.

use restitch::internal::json::Machine;
use restitch::json::CutState;
use restitch::{Document, SyntaxErrorKind};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::reference::{Verdict, oracle_verdict};
use restitch_testing::Rng;

/// What the grammar allows and serde_json rejects, by its messages: halves of surrogate pairs,
/// numbers beyond `f64`, more than 127 open containers. When it skips a value, it rejects none of
/// these.
const ALLOWED: [&str; 4] = [
    "surrogate",
    "unexpected end of hex escape",
    "number out of range",
    "recursion limit",
];

/// Reads bytes with serde_json, with the allowed differences.
pub(crate) fn agrees_with_serde(text: &[u8], valid: bool) -> bool {
    match serde_json::from_slice::<Value>(text) {
        Ok(_) => valid,
        Err(error) => {
            let error = error.to_string();
            !valid || ALLOWED.iter().any(|allowed| error.contains(allowed))
        }
    }
}

/// serde_json cannot judge texts that have what only the grammar allows.
pub(crate) fn parses_or_is_beyond_serde(text: &str) -> bool {
    agrees_with_serde(text.as_bytes(), true)
        && oracle_verdict(text.as_bytes(), usize::MAX) == Verdict::Valid
}

pub(crate) fn check(input: &[u8]) {
    let valid = oracle_verdict(input, usize::MAX) == Verdict::Valid;
    assert!(
        agrees_with_serde(input, valid),
        "serde_json differs: {valid}"
    );
    let text = String::from_utf8_lossy(input);
    check_grammar(&text);
    check_document(&text, &mut Rng::of(input));
}

/// Where a text is wrong, short or complete is what serde_json finds when it skips the value,
/// without a difference.
fn check_grammar(text: &str) {
    let mut machine = Machine::new(usize::MAX);
    let seen = machine
        .feed(text.as_bytes())
        .and_then(|end| machine.finish().map(|()| end));
    let valid = |end: usize| text[end..].bytes().all(|byte| b" \t\r\n".contains(&byte));
    match (seen, serde_json::from_str::<IgnoredAny>(text)) {
        (Ok(end), Ok(_)) => assert!(valid(end), "{text:?}"),
        (Ok(end), Err(error)) => assert!(!valid(end), "{error}: {text:?}"),
        (Err(error), Ok(_)) => panic!("{error}: {text:?}"),
        (Err(error), Err(theirs)) => {
            let short = error.kind == SyntaxErrorKind::UnexpectedEnd;
            // serde_json reports half a number at its end, and an escape only when it is complete.
            let differs = match error.kind {
                SyntaxErrorKind::UnexpectedEnd => machine.cut_state() == CutState::Number,
                SyntaxErrorKind::InvalidEscape(_) => true,
                _ => false,
            };
            assert!(
                differs || short == theirs.is_eof(),
                "{error}; {theirs}: {text:?}"
            );
        }
    }
}

fn check_document(text: &str, rng: &mut Rng) {
    let mut document = Document::new(1024);
    let mut kept = None;
    for c in text.chars() {
        let Ok(()) = document.push(c.encode_utf8(&mut [0; 4])) else {
            break;
        };
        check_closings(&document);
        if rng.below(8) == 0 {
            kept = Some((document.checkpoint(), document.clone()));
        }
    }
    let Some((checkpoint, then)) = kept else {
        return;
    };
    assert!(document.restore(&checkpoint));
    assert_eq!((document.text(), document.cut()), (then.text(), then.cut()));
    assert_eq!(
        (document.complete(), document.completion()),
        (then.complete(), then.completion())
    );
}

fn check_closings(document: &Document) {
    let Some(root) = document.root() else {
        assert_eq!(document.complete(), None);
        return;
    };
    let part = document.complete().unwrap();
    assert!(
        parses_or_is_beyond_serde(&part),
        "the complete part {part:?} of {root:?}"
    );
    let completion = document.completion();
    let whole = format!("{root}{}", completion.suffix);
    assert!(
        parses_or_is_beyond_serde(&whole),
        "the completion {whole:?} of {root:?}"
    );
    if let Ok(value) = serde_json::from_str::<Value>(&whole) {
        for path in &completion.synthesized {
            assert!(
                value.pointer(path).is_some(),
                "there is no {path:?} in {whole}"
            );
        }
    }
    let mut closed = document.clone();
    assert_eq!(
        (closed.push(&completion.suffix), closed.is_complete()),
        (Ok(()), true),
        "{whole}"
    );
}
