//! Published alternatives to an engine: rules that join two texts, after removing fences and
//! preambles. They report nothing; only parsing the result may show an error.

/// A rule that joins two texts.
pub(crate) type Rule = fn(delivered: &str, fragment: &str) -> String;

pub(crate) const PEERS: [(&str, Rule); 3] = [
    ("plain join", plain),
    ("longest overlap", longest_overlap),
    ("40-character anchor", last_forty),
];

fn plain(delivered: &str, fragment: &str) -> String {
    [delivered, stripped(fragment)].concat()
}

/// Returns the longest end of one text that the other begins with.
fn longest_overlap(delivered: &str, fragment: &str) -> String {
    let new = stripped(fragment);
    let most = delivered.len().min(new.len());
    let overlap = (0..=most)
        .rev()
        .find(|&length| delivered.as_bytes().ends_with(&new.as_bytes()[..length]));
    [delivered, &new[overlap.unwrap_or(0)..]].concat()
}

/// Joins after the place where the last 40 characters are in the fragment; without such a place,
/// the texts are concatenated.
fn last_forty(delivered: &str, fragment: &str) -> String {
    let new = stripped(fragment);
    let start = delivered
        .char_indices()
        .rev()
        .nth(39)
        .map_or(0, |(at, _)| at);
    let anchor = &delivered[start..];
    let after = new.find(anchor).map_or(0, |at| at + anchor.len());
    [delivered, &new[after..]].concat()
}

/// Removes what models put around an answer: reasoning in tags, a first line that ends with a
/// colon, a fence.
fn stripped(fragment: &str) -> &str {
    let mut text = fragment;
    if text.trim_start().starts_with("<think>") {
        text = text
            .split_once("</think>")
            .map_or(text, |(_, after)| after.trim_start());
    }
    let opening = if text.trim_start().starts_with("```") {
        Some(text.len() - text.trim_start().len())
    } else {
        text.find("\n```").map(|at| at + 1)
    };
    if let Some(inner) = opening
        .and_then(|at| text[at..].split_once('\n'))
        .map(|(_, inner)| inner)
    {
        return inner.find("\n```").map_or(inner, |end| &inner[..end]);
    }
    match text.split_once('\n') {
        Some((first, after))
            if first.starts_with(char::is_uppercase) && first.trim_end().ends_with(':') =>
        {
            after.trim_start()
        }
        _ => text,
    }
}

#[test]
fn the_published_rules_do_what_they_say() {
    let anchor = "\"0123456789012345678901234567890123456789";
    let delivered = format!("[{anchor}");
    for (rule, fragment, joined) in [
        (plain as Rule, "ab\"]", format!("{delivered}ab\"]")),
        (
            plain,
            "Here it is:\n\n```json\nab\"]\n```\nBye",
            format!("{delivered}ab\"]"),
        ),
        (
            plain,
            "<think>[</think>\nab\"]",
            format!("{delivered}ab\"]"),
        ),
        (longest_overlap, "789ab\"]", format!("{delivered}ab\"]")),
        (longest_overlap, "ab\"]", format!("{delivered}ab\"]")),
        (
            last_forty,
            &format!("Sure: {anchor}ab\"]"),
            format!("{delivered}ab\"]"),
        ),
        (last_forty, "789ab\"]", format!("{delivered}789ab\"]")),
    ] {
        assert_eq!(rule(&delivered, fragment), joined, "{fragment}");
    }
}
