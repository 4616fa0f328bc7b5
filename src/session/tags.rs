//! Names of tags that surround untrusted text, and so must not occur in it.

use std::collections::BTreeSet;

use memchr::memmem;

/// Returns what is appended to each of `names`, so that none of their tags occurs in any of `texts`: nothing, or `_2`,
/// `_3`, …. One pass over the texts for each name.
pub(super) fn suffix(names: &[&str], texts: &[&str]) -> String {
    let mut taken = BTreeSet::new();
    for name in names {
        let finder = memmem::Finder::new(name);
        for text in texts {
            taken.extend(finder.find_iter(text.as_bytes()).filter_map(|at| number(text, at, name)));
        }
    }
    // The first number that is free: the set is sorted, so that a gap is found in one walk.
    let first = taken.iter().zip(1u32..).find(|(taken, free)| *taken != free).map(|(_, free)| free);
    match first.unwrap_or(u32::try_from(taken.len()).unwrap_or(u32::MAX).saturating_add(1)) {
        1 => String::new(),
        number => format!("_{number}"),
    }
}

/// Returns the number of the tag whose name is at `at`; `None` if this module would not write such a tag.
fn number(text: &str, at: usize, name: &str) -> Option<u32> {
    let (before, after) = (text.get(..at)?, text.get(at + name.len()..)?);
    if !before.ends_with('<') && !before.ends_with("</") {
        return None;
    }
    if after.starts_with('>') {
        return Some(1);
    }
    let digits = after.strip_prefix('_')?;
    let length = digits.bytes().take(DIGITS + 1).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = digits.split_at_checked(length)?;
    let number = digits.parse().ok()?;
    let is_ours = number > 1 && !digits.starts_with('0') && rest.starts_with('>');
    is_ours.then_some(number)
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
            (&["<tag_02><tag_1><tag_x><tag_99999999999><tag ", "<tag"], ""),
            (&["< tag>tag>"], ""),
            (&["<<tag>>"], "_2"),
        ] {
            assert_eq!(suffix(&["tag", "other"], texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn many_tags_cost_one_walk() {
        let text: String =
            (1..50_000).map(|n| if n == 1 { "<tag>".to_owned() } else { format!("</tag_{n}>") }).collect();
        assert_eq!(suffix(&["tag"], &[text.as_str()]), "_50000");
    }
}
