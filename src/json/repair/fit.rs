//! How well a reading fits the text around it: members that are siblings stand equally deep, and lines of one container
//! begin in the same column.

use std::collections::HashMap;

use super::attempt::{Attempt, TokenKind};

/// The most contradictions that count: more than one mistake in the counting of brackets makes all that follows wrong.
const MOST: u32 = 8;

/// Counts what in the text that is not final contradicts what comes before it.
pub(super) fn contradictions(attempt: &Attempt) -> u32 {
    let mut columns: HashMap<usize, usize> = HashMap::new();
    let mut depths: HashMap<&str, usize> = HashMap::new();
    let mut found = 0;
    for token in &attempt.recorder.tokens {
        let Some(start) = token.start.checked_sub(attempt.origin) else { continue };
        let text = attempt.out.get(start..token.end - attempt.origin).unwrap_or_default();
        if let Some(column) = column(attempt.out.get(..start).unwrap_or_default()) {
            found += u32::from(*columns.entry(token.depth).or_insert(column) != column);
        }
        if token.kind == TokenKind::Key {
            found += u32::from(*depths.entry(text).or_insert(token.depth) != token.depth);
        }
    }
    found.min(MOST)
}

/// Returns the column of what follows, if only white space is before it in its line.
fn column(before: &str) -> Option<usize> {
    let blank = before.len() - before.trim_end_matches([' ', '\t']).len();
    before.get(..before.len() - blank)?.ends_with('\n').then_some(blank)
}
