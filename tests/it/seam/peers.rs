//! What is published in place of an engine: joins of two texts by a rule, with fences and preambles taken off first.
//! They say nothing; who parses what comes of them finds out, or does not.

/// A rule that joins two texts.
pub(crate) type Rule = fn(delivered: &str, fragment: &str) -> String;

pub(crate) const PEERS: [(&str, Rule); 3] =
    [("plain join", plain), ("longest overlap", longest_overlap), ("40-character anchor", last_forty)];

fn plain(delivered: &str, fragment: &str) -> String {
    [delivered, stripped(fragment)].concat()
}

/// The longest end of the one text that the other begins with.
fn longest_overlap(delivered: &str, fragment: &str) -> String {
    let new = stripped(fragment);
    let most = delivered.len().min(new.len());
    let overlap = (0..=most).rev().find(|&length| delivered.as_bytes().ends_with(&new.as_bytes()[..length]));
    [delivered, &new[overlap.unwrap_or(0)..]].concat()
}

/// Behind the place where the last 40 characters stand in the fragment; a plain join where they do not.
fn last_forty(delivered: &str, fragment: &str) -> String {
    let new = stripped(fragment);
    let start = delivered.char_indices().rev().nth(39).map_or(0, |(at, _)| at);
    let anchor = &delivered[start..];
    let behind = new.find(anchor).map_or(0, |at| at + anchor.len());
    [delivered, &new[behind..]].concat()
}

/// Without what models put around an answer: thoughts in tags, a first line that ends with a colon, a fence.
fn stripped(fragment: &str) -> &str {
    let mut text = fragment;
    if text.trim_start().starts_with("<think>") {
        text = text.split_once("</think>").map_or(text, |(_, behind)| behind.trim_start());
    }
    let opening = if text.trim_start().starts_with("```") {
        Some(text.len() - text.trim_start().len())
    } else {
        text.find("\n```").map(|at| at + 1)
    };
    if let Some(inner) = opening.and_then(|at| text[at..].split_once('\n')).map(|(_, inner)| inner) {
        return inner.find("\n```").map_or(inner, |end| &inner[..end]);
    }
    match text.split_once('\n') {
        Some((first, behind)) if first.starts_with(char::is_uppercase) && first.trim_end().ends_with(':') => {
            behind.trim_start()
        }
        _ => text,
    }
}

#[test]
fn the_rules_do_what_is_said_of_them() {
    let anchor = "\"0123456789012345678901234567890123456789";
    let delivered = format!("[{anchor}");
    for (rule, fragment, joined) in [
        (plain as Rule, "ab\"]", format!("{delivered}ab\"]")),
        (plain, "Here it is:\n\n```json\nab\"]\n```\nBye", format!("{delivered}ab\"]")),
        (plain, "<think>[</think>\nab\"]", format!("{delivered}ab\"]")),
        (longest_overlap, "789ab\"]", format!("{delivered}ab\"]")),
        (longest_overlap, "ab\"]", format!("{delivered}ab\"]")),
        (last_forty, &format!("Sure: {anchor}ab\"]"), format!("{delivered}ab\"]")),
        (last_forty, "789ab\"]", format!("{delivered}789ab\"]")),
    ] {
        assert_eq!(rule(&delivered, fragment), joined, "{fragment}");
    }
}
