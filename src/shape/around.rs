//! Finds text around a root that belongs to it: members, elements and brackets that the root was
//! read without.
//!
//! Prose around a root has quotes, colons and brackets, too. Members differ from prose by their
//! position: a key is directly before or after the root, or a bracket is open before the root and
//! closed after it.

use super::search::is_space;
use crate::envelope::FENCE;
use crate::json::walk;

/// Returns the start of text before a root that has the root as a value: it ends with a key, or an
/// open container in it ends with a string. `is_listed`: a comma and another root follow.
pub(super) fn belongs_before(before: &str, is_listed: bool) -> Option<usize> {
    let start = before.rfind(FENCE).map_or(0, |at| at + FENCE.len());
    let block = before.get(start..)?;
    // The label of the fence.
    let label = if start > 0 {
        block.find('\n').unwrap_or(block.len())
    } else {
        0
    };
    let text = block.get(label..)?.trim_end_matches(is_space);
    let first = text.len() - text.trim_start_matches(is_space).len();
    let begins_text = text.get(first..)?.starts_with('"');
    if is_listed && text.ends_with(['{', '[']) {
        return Some(start + label + text.len() - 1);
    }
    let value = text.strip_suffix([':', ','])?.trim_end_matches(is_space);
    if let Some(opener) = open_bracket(text) {
        return value
            .get(opener..)?
            .ends_with(['"', '\''])
            .then_some(start + label + opener);
    }
    let quote = value
        .chars()
        .next_back()
        .filter(|c| matches!(c, '"' | '\''))?;
    if text.ends_with(',') {
        return begins_text.then_some(start + label + first);
    }
    let before = value.get(..value.len() - 1)?.rsplit_once(quote)?.0;
    let line = before.trim_end_matches([' ', '\t']);
    let key = if begins_text { first } else { before.len() };
    (line.is_empty() || line.ends_with(['\n', '\r', ','])).then_some(start + label + key)
}

/// Whether text after a root belongs to the root: it begins with a member, or it closes a bracket
/// that it does not open.
pub(super) fn belongs_after(after: &str) -> bool {
    let text = after
        .get(..after.find(FENCE).unwrap_or(after.len()))
        .unwrap_or_default()
        .trim_matches(is_space);
    let listed = text
        .strip_prefix(',')
        .map(|text| text.trim_start_matches(is_space));
    begins_member(listed.unwrap_or(text)) || closes(text, listed.is_some())
}

/// Whether a key, its colon and a value follow.
fn begins_member(text: &str) -> bool {
    let key = text
        .strip_prefix('"')
        .and_then(|text| text.split_once('"'))
        .filter(|(key, _)| !key.contains('\n'));
    let after = key.map_or("", |(_, after)| after.trim_start_matches(is_space));
    let value = after
        .strip_prefix(':')
        .map(|value| value.trim_start_matches(is_space));
    let is_literal = |value: &str| {
        ["true", "false", "null"]
            .iter()
            .any(|literal| value.starts_with(literal))
    };
    value.is_some_and(|value| {
        value.starts_with(['"', '{', '[', '-'])
            || value.starts_with(|c: char| c.is_ascii_digit())
            || is_literal(value)
    })
}

/// Whether `text` closes a bracket that it does not open, right after a value. `is_listed`: a comma
/// precedes `text`. Otherwise a quote must precede the bracket.
fn closes(text: &str, is_listed: bool) -> bool {
    let (mut depth, mut has_quote) = (0_usize, is_listed);
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' if depth == 0 => {
                return has_quote && ends_value(text.get(..at).unwrap_or_default());
            }
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            '"' => has_quote = true,
            _ => {}
        }
    }
    false
}

/// Whether a bracket may close a container after `text`.
fn ends_value(text: &str) -> bool {
    let before = text.trim_end_matches(is_space);
    before.ends_with(['"', '}', ']', ',']) || {
        let word = before.len()
            - before
                .trim_end_matches(|c: char| {
                    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')
                })
                .len();
        walk::is_valid(before.get(before.len() - word..).unwrap_or_default())
    }
}

/// Returns the offset of the last bracket that is not closed.
fn open_bracket(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => open.push(at),
            b'}' | b']' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.pop()
}
