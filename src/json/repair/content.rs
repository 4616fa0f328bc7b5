//! Rates the text of a string: prose, or members and elements that a lost quote made a part of it.

use super::recovery::Quote;

/// The cost of a text that holds a member, or of a key that cannot be one.
// Three changes outweigh the change that closes the string before the member (`OpenString`, 2), so
// that reading wins. With half, `"a": "b, \"c\": 1` could keep the member as text; twice as much
// only repeats the verdict. The rates in tests/it/repair/bounds.rs are measured with it.
pub(super) const MEMBER_IN_TEXT: u32 = 3;
/// The cost of a text that holds an element, or a closing bracket that it does not open.
// Less than any guess costs: `1, 2` and a lone bracket are frequent in prose, so they only decide
// between readings that are otherwise equal. From 2 on, sentences with numbers would be cut at
// their commas.
const ELEMENT_IN_TEXT: u32 = 1;
/// The most joints that count.
// Chosen: a quoted list in a sentence has one or two joints and may be text; three cost more than
// the guess that opened the string again, so more can't change the order. The rates in
// tests/it/repair/bounds.rs are measured with it.
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
    let after = text
        .find(':')
        .and_then(|at| text.get(at + 1..))
        .unwrap_or_default();
    let is_member = after.contains(',') || after.trim_start().starts_with(['[', '{']);
    if is_member || text.contains("\\n ") || closes_more(text) {
        MEMBER_IN_TEXT
    } else {
        0
    }
}

/// Counts escaped quotes on both sides of a comma, and before a colon, as between two strings.
pub(super) fn joints(text: &str) -> u32 {
    let after = text
        .match_indices("\\\"")
        .filter_map(|(at, _)| text.get(at + 2..));
    let is_joint = |after: &str| match skip_space(after).strip_prefix(',') {
        Some(next) => skip_space(next).starts_with("\\\""),
        None => after.starts_with(':'),
    };
    after.filter(|after| is_joint(after)).take(JOINTS).count() as u32
}

/// Whether `text` has quotes as members have, between two (`", "key":`) or after the last (`"}`). A
/// string with such quotes that a guess opened again holds structure that had parsed. There may be
/// other text between the quote and the comma, as in `"x" + y, "key":`. Text between brackets that
/// the text itself opens does not count. `quote`: the quote of the string, if it is not `"`.
pub(super) fn swallows(text: &str, quote: Option<Quote>) -> bool {
    let (mut depth, mut rest, mut has_quote) = (0_usize, text, false);
    while let Some(c) = rest.chars().next() {
        let after = strip_quote(rest, quote);
        if let Some(after) = after.filter(|_| depth == 0)
            && (begins_member(after, quote) || ends_container(after, quote))
        {
            return true;
        }
        has_quote |= after.is_some();
        match c {
            ',' if has_quote && depth == 0 && begins_key(rest, quote) => return true,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let escaped = if c == '\\' {
            rest.chars().nth(1).map_or(0, char::len_utf8)
        } else {
            0
        };
        rest = after
            .or_else(|| rest.get(c.len_utf8() + escaped..))
            .unwrap_or_default();
    }
    false
}

/// Whether a comma follows, then a key with its colon. Words may precede the key, such as a note or
/// a comment.
fn begins_member(after: &str, quote: Option<Quote>) -> bool {
    let Some(after) = skip_space(after).strip_prefix(',') else {
        return false;
    };
    let beyond = |text| after_quote(text, quote);
    beyond(after)
        .and_then(beyond)
        .is_some_and(|after| skip_space(after).starts_with([':', '\u{ff1a}']))
}

/// Whether a comma, and directly after it a key with its colon follow.
fn begins_key(rest: &str, quote: Option<Quote>) -> bool {
    let key = rest
        .strip_prefix(',')
        .and_then(|after| strip_quote(skip_space(after), quote));
    let after = key.and_then(|key| after_quote(key, quote));
    after.is_some_and(|after| skip_space(after).starts_with([':', '\u{ff1a}']))
}

/// Whether a comma, a key in straight quotes and its colon follow: a straight quote before them
/// closes a string, whatever its opening quote is. `None` if the answer needs more text.
pub(super) fn is_before_member(after: &str) -> Option<bool> {
    comes(after, &[',', '"', ':'])
}

/// Whether a text begins with a key in straight quotes and its colon. `None` if the answer needs
/// more text.
pub(super) fn is_key(text: &str) -> Option<bool> {
    comes(text, &['"', ':'])
}

/// Whether a text begins with the given characters, with white space between them, and any text
/// after an opening quote.
fn comes(after: &str, due: &[char]) -> Option<bool> {
    let end = (0..=after.len().min(MEMBER_START))
        .rev()
        .find(|&at| after.is_char_boundary(at))
        .unwrap_or(0);
    let mut rest = after.get(..end).unwrap_or_default();
    let cut = (after.len() < MEMBER_START).then_some(());
    for &due in due {
        rest = rest.trim_start();
        if rest.is_empty() {
            return cut.map_or(Some(false), |()| None);
        }
        let Some(next) = rest.strip_prefix(due) else {
            return Some(false);
        };
        rest = next;
        if due == '"' {
            let Some((_, next)) = rest.split_once('"') else {
                return cut.map_or(Some(false), |()| None);
            };
            rest = next;
        }
    }
    Some(true)
}

/// The most bytes searched for a key and its colon: longer keys are rare, and a stream must not
/// wait longer.
// Chosen: half would miss keys that are sentences, twice as much would let a stream at the level
// `syntax` hold back twice the text at every straight quote in a foreign string.
const MEMBER_START: usize = 256;

/// Returns the text after its first quote.
fn after_quote(text: &str, quote: Option<Quote>) -> Option<&str> {
    text.char_indices()
        .take(KEY_IN_TEXT)
        .find_map(|(at, _)| strip_quote(text.get(at..)?, quote))
}

/// Returns the text after its leading quote, which ends a string with this quote, or with `"`.
fn strip_quote(text: &str, quote: Option<Quote>) -> Option<&str> {
    let Some(quote) = quote else {
        return text.strip_prefix("\\\"");
    };
    text.strip_prefix(|c| quote.ends(c))
}

/// The most characters searched for a quote of a key.
// The same length as a key without quotes (`guess::words`): text between two quotes that is longer
// is prose. Without a bound each quote of a long string would search the rest of it, which is
// quadratic.
const KEY_IN_TEXT: usize = 64;

/// Whether `text` has a colon after a quote, or a comma between two quotes. A key that a guess
/// opened again and that has those is made of fragments of members.
pub(super) fn crosses_separator(text: &str) -> bool {
    let after = text.split_once("\\\"").map_or("", |(_, after)| after);
    after.contains(':')
        || after
            .match_indices(',')
            .filter_map(|(at, _)| after.get(at + 1..))
            .any(|after| skip_space(after).starts_with("\\\""))
}

/// Whether a pair of quotes in `text` has white space on both inner sides: the first quote ends a
/// string, and the second one begins the next string.
pub(super) fn parts_strings(text: &str) -> bool {
    let mut parts = text.split("\\\"").skip(1);
    std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).any(|(between, _)| {
        skip_space(between).len() < between.len() && between.ends_with(char::is_whitespace)
    })
}

/// Whether a text ends with a comma.
pub(super) fn ends_with_comma(text: &str) -> bool {
    text.rsplit_once(',')
        .is_some_and(|(_, after)| skip_space(after).is_empty())
}

/// Whether a text ends with a bracket that it does not open.
pub(super) fn ends_with_closer(text: &str) -> bool {
    text.trim_end().ends_with(['}', ']']) && closes_more(text)
}

/// Whether `text` opens a bracket that it does not close.
pub(super) fn leaves_open(text: &str) -> bool {
    let depth = text.chars().fold(0_usize, |depth, c| match c {
        '{' | '[' => depth + 1,
        '}' | ']' => depth.saturating_sub(1),
        _ => depth,
    });
    depth > 0
}

/// Whether closing brackets follow, and no quote directly after them.
fn ends_container(after: &str, quote: Option<Quote>) -> bool {
    let after = skip_space(after);
    let beyond = after.trim_start_matches(['}', ']']);
    beyond.len() < after.len() && strip_quote(beyond, quote).is_none()
}

/// Whether a text ends with a quote and a comma, as between two strings: then its closing quote
/// opens the next string.
pub(super) fn ends_at_joint(text: &str, quote: Option<Quote>) -> bool {
    let before = text.trim_end().strip_suffix(',').map(str::trim_end);
    before.is_some_and(|before| match quote {
        None => before.ends_with("\\\""),
        Some(quote) => before.ends_with(|c| quote.ends(c)),
    })
}

/// Removes white space at the start of a text, raw or escaped.
fn skip_space(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(after) = ["\\n", "\\r", "\\t"]
        .iter()
        .find_map(|escape| rest.strip_prefix(escape))
    {
        rest = after.trim_start();
    }
    rest
}

/// Whether text after a root belongs to the root: it has a key, or it has a quote and closes a
/// bracket that it does not open.
pub(super) fn is_of_root(after: &str) -> bool {
    let (mut depth, mut has_quote, mut closes) = (0_usize, false, false);
    for (at, c) in after.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                closes |= depth == 0;
                depth = depth.saturating_sub(1);
            }
            '"' => {
                has_quote = true;
                let next = after.get(at + 1..).unwrap_or_default().trim_start();
                if depth == 0 && next.starts_with(':') {
                    return true;
                }
            }
            _ => {}
        }
    }
    closes && has_quote
}

/// Whether `text` closes more brackets of one kind than it opens.
fn closes_more(text: &str) -> bool {
    let count = |bracket: char| text.matches(bracket).count();
    count('}') > count('{') || count(']') > count('[')
}

/// Whether `text` holds a number or a literal between commas.
fn holds_element(text: &str) -> bool {
    let mut parts = text.split(',').skip(1).map(str::trim);
    parts.any(|part| {
        matches!(part, "true" | "false" | "null") || !part.is_empty() && part.parse::<f64>().is_ok()
    })
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

/// Whether `text` seems to hold an element that is a container, `, [1]`, or a member with a
/// container or a string, `, b: [1]`.
fn holds_member(text: &str) -> bool {
    let mut commas = text
        .match_indices(',')
        .filter_map(|(at, _)| text.get(at + 1..));
    commas.any(|after| after.trim_start().starts_with(['[', '{']))
        || text.match_indices(':').any(|(at, _)| {
            let (before, after) = text.split_at(at);
            let key = before
                .trim_end()
                .trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            let value = after.trim_start_matches(':').trim_start();
            key.len() < before.trim_end().len()
                && key.trim_end().ends_with([',', '{'])
                && value.starts_with(['[', '{', '"'])
        })
}

/// Whether the last backslash of `text` escapes the next character.
pub(super) fn ends_in_escape(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}
