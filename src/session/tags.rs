//! Names of tags that surround untrusted text, and so must not occur in it.

use std::collections::BTreeSet;

use memchr::memchr_iter;

/// Returns the suffix for each of `names`, so that none of their tags occurs in any of `texts`:
/// nothing, or `_2`, `_3`, …. One pass over the texts.
///
/// A model reads more as a tag than its exact letters: upper case, white space, attributes. All of
/// these count.
pub(super) fn suffix(names: &[&str], texts: &[&str]) -> String {
    let mut taken = BTreeSet::new();
    for text in texts {
        for at in memchr_iter(b'<', text.as_bytes()) {
            let tag = text.get(at + 1..).unwrap_or_default().trim_start();
            let tag = tag.strip_prefix('/').unwrap_or(tag).trim_start();
            taken.extend(names.iter().filter_map(|name| number(tag, name)));
        }
    }
    // The first number that is free: the set is sorted, so that a gap is found in one walk.
    let first = taken
        .iter()
        .zip(1u32..)
        .find(|(taken, free)| *taken != free)
        .map(|(_, free)| free);
    match first.unwrap_or(
        u32::try_from(taken.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1),
    ) {
        1 => String::new(),
        number => format!("_{number}"),
    }
}

/// Returns the number of the tag whose name `text` begins with; `None` if the name differs.
fn number(text: &str, name: &str) -> Option<u32> {
    let (written, after) = text.split_at_checked(name.len())?;
    if !written.eq_ignore_ascii_case(name) {
        return None;
    }
    let (digits, after) = match after.strip_prefix('_') {
        Some(after) => {
            let length = after
                .bytes()
                .take(DIGITS + 1)
                .take_while(u8::is_ascii_digit)
                .count();
            after
                .split_at_checked(length)
                .filter(|(digits, _)| !digits.is_empty())?
        }
        None => ("1", after),
    };
    let goes_on =
        after.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '-'));
    digits.parse().ok().filter(|number| !goes_on && *number > 0)
}

/// Digits of the largest number.
const DIGITS: usize = 10;

#[cfg(test)]
mod tests {
    use super::suffix;

    #[test]
    fn the_first_free_number() {
        for (texts, expected) in [
            (&["no tags", "<a_tag>"][..], ""),
            (&["<tag>"], "_2"),
            (&["</tag>"], "_2"),
            (&["<tag_2>"], ""),
            (&["<tag> </tag_2>", "<tag_4>"], "_3"),
            (&["<other> <tag_2><tag_3>"], "_4"),
            (&["<tag_0><tag_x><tag_99999999999><tags><tag-2> tag>"], ""),
            // A model may read these as the tag, too.
            (&["</tag >"], "_2"),
            (&["</TAG>"], "_2"),
            (&["< / tag\n>"], "_2"),
            (&["<Tag id='1'>"], "_2"),
            (&["<tag"], "_2"),
            (&["<TAG><tag_02 >"], "_3"),
            (&["<<tag>>"], "_2"),
        ] {
            assert_eq!(suffix(&["tag", "other"], texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn many_tags_cost_one_walk() {
        let text: String = (1..50_000)
            .map(|n| {
                if n == 1 {
                    "<tag>".to_owned()
                } else {
                    format!("</tag_{n}>")
                }
            })
            .collect();
        assert_eq!(suffix(&["tag"], &[text.as_str()]), "_50000");
    }
}
