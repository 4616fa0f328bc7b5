//! Any text on any level: what comes out is JSON where the status says so, the log can be undone,
//! repairing it again changes nothing, a valid text stays, and pieces of the text give the same as
//! the whole.

use restitch::SyntaxError;
use restitch::repair::{
    Repair, RepairLevel, RepairOptions, RepairRule, RepairStatus, Repairer, repair_root, undo,
};
use serde::de::IgnoredAny;

/// Reads two bytes of options, and a text: `s`, `y` or another byte for the level; the number of a
/// rule that is off.
pub(crate) fn check(input: &[u8]) {
    let Some((&[level, off], text)) = input.split_first_chunk() else {
        return;
    };
    let level = match level {
        b's' => RepairLevel::Strict,
        b'y' => RepairLevel::Syntax,
        _ => RepairLevel::Guess,
    };
    let options = RepairOptions::new(level);
    let options = match RepairRule::ALL.get(usize::from(off)) {
        Some(rule) => options.without(*rule),
        None => options,
    };
    let text = String::from_utf8_lossy(text);
    check_text(&text, &options);
    assert_eq!(
        fed(text.split_inclusive(|_| true), &options),
        fed([&*text], &options),
        "character by character: {text:?}"
    );
}

/// Feeds a text in pieces. Returns how it ended, what came out and the log.
pub(crate) fn fed<'a>(
    pieces: impl IntoIterator<Item = &'a str>,
    options: &RepairOptions,
) -> (Result<(), SyntaxError>, String, Vec<Repair>) {
    let (mut repairer, mut root) = (Repairer::new(options.clone()), String::new());
    let mut result = Ok(());
    for piece in pieces {
        let before = root.clone();
        result = repairer.feed(piece, &mut root);
        assert!(
            root.starts_with(&before),
            "{before:?} was taken back: {root:?}"
        );
        if result.is_err() {
            break;
        }
    }
    let result = result.and_then(|()| repairer.finish(&mut root));
    (result, root, repairer.repairs().to_vec())
}

/// Checks what every answer promises.
pub(crate) fn check_text(text: &str, options: &RepairOptions) {
    let answer = repair_root(text, options);
    let shown = || format!("{text:?} gives {answer:?}");
    // The complete part of a malformed text leaves out what was not certain.
    if !matches!(answer.status, RepairStatus::Malformed(_)) {
        assert_eq!(
            Some(undo(&answer.json, &answer.repairs).as_str()),
            text.get(..answer.end),
            "{}",
            shown()
        );
    }
    let mut end = 0;
    for repair in &answer.repairs {
        assert!(repair.range.start >= end, "{}", shown());
        assert_eq!(
            text.get(repair.range.clone()),
            Some(repair.original.as_str()),
            "{}",
            shown()
        );
        assert_ne!(repair.original, repair.replacement, "{}", shown());
        // A text that ends early is closed on every level: its status says so.
        assert!(
            options.allows(repair.rule) || repair.rule == RepairRule::Closed,
            "{}",
            shown()
        );
        end = repair.range.end;
    }
    match answer.status {
        RepairStatus::Valid => assert!(
            answer.repairs.is_empty() && answer.json == text[..answer.end],
            "{}",
            shown()
        ),
        RepairStatus::Repaired => assert!(!answer.repairs.is_empty(), "{}", shown()),
        RepairStatus::Truncated => assert!(answer.end == text.len(), "{}", shown()),
        RepairStatus::Malformed(error) => assert!(error.offset <= text.len(), "{}", shown()),
    }
    // The reference parser reads 128 levels.
    if is_json(text) && !text.trim().is_empty() {
        assert!(
            answer.status == RepairStatus::Valid && answer.json.trim() == text.trim(),
            "{}",
            shown()
        );
    }
    if answer.json.is_empty() {
        assert!(
            !matches!(answer.status, RepairStatus::Valid | RepairStatus::Repaired),
            "{}",
            shown()
        );
        return;
    }
    assert!(
        is_json(&answer.json) || is_deep(&answer.json),
        "{}",
        shown()
    );
    if !matches!(answer.status, RepairStatus::Malformed(_)) {
        let again = repair_root(&answer.json, options);
        assert!(
            again.status == RepairStatus::Valid && again.json == answer.json,
            "{} and then {again:?}",
            shown()
        );
    }
}

/// Whether a reference parser reads the text as JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a text may be too deep for the reference parser.
fn is_deep(text: &str) -> bool {
    text.bytes()
        .filter(|byte| matches!(byte, b'{' | b'['))
        .count()
        >= 128
}
