//! What the text of a string looks like: prose, or members and elements that a lost quote made a part of it.

/// What it costs that a text holds a member, or that a key cannot be one.
pub(super) const MEMBER_IN_TEXT: u32 = 3;
/// What it costs that a text holds an element, or a closing bracket that it does not open.
const ELEMENT_IN_TEXT: u32 = 1;
/// The most joints that count.
const JOINTS: usize = 3;

/// Returns how much `text` looks like structure, in changes.
pub(super) fn structure(text: &str) -> u32 {
    if holds_member(text) {
        return MEMBER_IN_TEXT;
    }
    (u32::from(holds_element(text)) + u32::from(closes_more(text))) * ELEMENT_IN_TEXT
}

/// Returns how much a key looks like structure, in changes: no key holds a member, or a line.
pub(super) fn in_key(text: &str) -> u32 {
    let after = text.find(':').and_then(|at| text.get(at + 1..)).unwrap_or_default();
    let is_member = after.contains(',') || after.trim_start().starts_with(['[', '{']);
    if is_member || text.contains("\\n ") || closes_more(text) { MEMBER_IN_TEXT } else { 0 }
}

/// Counts escaped quotes on both sides of a comma, and before a colon, as between two strings.
pub(super) fn joints(text: &str) -> u32 {
    let after = text.match_indices("\\\"").filter_map(|(at, _)| text.get(at + 2..));
    let is_joint = |after: &str| match after.trim_start().strip_prefix(',') {
        Some(next) => next.trim_start().starts_with("\\\""),
        None => after.starts_with(':'),
    };
    after.filter(|after| is_joint(after)).take(JOINTS).count() as u32
}

/// Whether `text` closes more brackets of a kind than it opens.
fn closes_more(text: &str) -> bool {
    let count = |bracket: char| text.matches(bracket).count();
    count('}') > count('{') || count(']') > count('[')
}

/// Whether `text` holds a number or a literal between commas.
fn holds_element(text: &str) -> bool {
    let mut parts = text.split(',').skip(1).map(str::trim);
    parts.any(|part| matches!(part, "true" | "false" | "null") || !part.is_empty() && part.parse::<f64>().is_ok())
}

/// Whether `content` opens a bracket that `rest` closes with its first character.
pub(super) fn opens_in(content: &str, rest: &str) -> bool {
    let opener = match rest.chars().next() {
        Some('}') => '{',
        Some(']') => '[',
        _ => return false,
    };
    let closer = if opener == '{' { '}' } else { ']' };
    content.matches(opener).count() > content.matches(closer).count()
}

/// Whether `text` holds what looks like an element that is a container, `, [1]`, or a member with a container or a string,
/// `, b: [1]`.
fn holds_member(text: &str) -> bool {
    let mut commas = text.match_indices(',').filter_map(|(at, _)| text.get(at + 1..));
    commas.any(|after| after.trim_start().starts_with(['[', '{']))
        || text.match_indices(':').any(|(at, _)| {
            let (before, after) = text.split_at(at);
            let key = before.trim_end().trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            let value = after.trim_start_matches(':').trim_start();
            key.len() < before.trim_end().len()
                && key.trim_end().ends_with([',', '{'])
                && value.starts_with(['[', '{', '"'])
        })
}

/// Whether the last backslash of `text` escapes what follows.
pub(super) fn ends_in_escape(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}
