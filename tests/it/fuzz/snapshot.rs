//! A document that is saved at any place and resumed from text is the one that was never interrupted; a form that was
//! tampered with is refused, or gives a document that takes text without a panic.

use restitch::{Document, Saved};
use serde_json::{Value, json};

use super::splits::{document, push_from};
use crate::reference::Log;
use crate::support::{Rng, text_cuts, view};

/// Saved, written down, read and resumed.
pub(crate) fn resumed(document: &Document) -> Document {
    let saved = document.save();
    let written = serde_json::to_string(&saved).unwrap();
    let read: Saved = serde_json::from_str(&written).unwrap();
    assert_eq!(read, saved, "{written}");
    let resumed = Document::resume(document.text(), &read);
    let resumed = resumed.unwrap_or_else(|error| panic!("{error}: {written} of {:?}", document.text()));
    assert_eq!(view(&resumed), view(document), "{written}");
    assert_eq!(resumed.save(), saved, "a second save is the first");
    resumed
}

/// One value somewhere in a written form becomes another, or is gone.
pub(crate) fn tampered(form: &mut Value, rng: &mut Rng) {
    let others =
        [json!(0), json!(1), json!(3), json!(u64::MAX), json!(usize::MAX / 2), json!(null), json!([]), json!("any")];
    let other = others[rng.below(others.len())].clone();
    match form {
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(rng.below(members.len())).cloned().unwrap();
            match rng.below(12) {
                0 => drop(members.remove(&key)),
                1 => drop(members.insert(key, other)),
                _ => tampered(&mut members[&key], rng),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = rng.below(items.len());
            match rng.below(12) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[rng.below(items.len())].clone()),
                _ => tampered(&mut items[at], rng),
            }
        }
        Value::Number(number) if rng.below(3) > 0 => {
            let number = number.as_u64().unwrap_or_default();
            *form = json!(if rng.below(2) == 0 { number.saturating_add(1) } else { number.saturating_sub(1) });
        }
        Value::String(text) if rng.below(3) > 0 => {
            let words = ["array", "object", "any", "containers", "stop", "next", "error"];
            *text = (*rng.pick(&words)).to_owned();
        }
        any => *any = other,
    }
}

/// Whether a form that was tampered with was taken.
pub(crate) fn survives_tampering(document: &Document, rest: &str, rng: &mut Rng) -> bool {
    let mut form = serde_json::to_value(document.save()).unwrap();
    for _ in 0..=rng.below(3) {
        tampered(&mut form, rng);
    }
    let Ok(saved) = serde_json::from_value::<Saved>(form) else { return false };
    let mut resumed = match Document::resume(document.text(), &saved) {
        Ok(resumed) => resumed,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    view(&resumed);
    let _ = push_from(&mut resumed, rest, 0, &text_cuts(rest, rng), &mut Log::default());
    view(&resumed);
    let _ = resumed.push("]}]}\"}]");
    let _ = resumed.finish();
    view(&resumed);
    true
}

pub(crate) fn check(input: &[u8]) {
    let mut rng = Rng::of(input);
    let text = String::from_utf8_lossy(input);
    let mut plain = document(&mut rng);
    let cuts = text_cuts(&text, &mut rng);
    let place = cuts.first().copied().unwrap_or_default();
    let _ = plain.push_with(&text[..place], &mut Log::default());
    // After an error other text may follow as well; a number at the root may be told that it has ended.
    if rng.below(8) == 0 {
        let _ = plain.finish();
    }
    survives_tampering(&plain, &text[place..], &mut rng);
    let mut other = resumed(&plain);
    let (mut plain_log, mut other_log) = (Log::default(), Log::default());
    let plain_end = push_from(&mut plain, &text, place, &cuts, &mut plain_log);
    let other_end = push_from(&mut other, &text, place, &cuts, &mut other_log);
    assert_eq!((other_end, &other_log), (plain_end, &plain_log), "resumed at {place} of {text:?}");
    assert_eq!(view(&other), view(&plain), "resumed at {place} of {text:?}");
    assert_eq!(other.finish_with(&mut other_log), plain.finish_with(&mut plain_log), "{text:?}");
    assert_eq!(other_log, plain_log, "{text:?}");
    resumed(&other);
}
