//! An ellipsis at the start or the end of a part: dots, or a remark in brackets that text was left
//! out.

// As models write them where they shorten an answer.
/// Remarks in brackets that mark omitted text.
const LEFT_OUT: [&str; 4] = ["truncated", "continued", "omitted", "cut off"];

// Fewer than three dots end a sentence or an abbreviation.
const DOTS: [char; 2] = ['.', '\u{2026}'];

/// Returns where the ellipsis begins with which `text` ends; the end of the text if it has none.
pub(super) fn trailing(text: &str) -> usize {
    let mut before = text;
    while let Some(shorter) = before_one(before.trim_end()) {
        // A space before it is text only if the next part repeats the space.
        before = shorter.trim_end_matches(' ');
    }
    before.len()
}

/// Returns the length of the ellipsis with which `text` begins, and of the white space around it.
pub(super) fn leading(text: &str) -> usize {
    let mut after = text;
    while let Some(shorter) = after_one(after.trim_start()) {
        after = shorter.trim_start();
    }
    text.len() - after.len()
}

fn before_one(text: &str) -> Option<&str> {
    let bracket = || {
        text.strip_suffix([')', ']'])?
            .rsplit_once(['(', '['])
            .filter(|(_, inside)| is_remark(inside))
    };
    let before = text.trim_end_matches(DOTS);
    let dots = || {
        text.get(before.len()..)
            .filter(|dots| is_ellipsis(dots))
            .map(|_| before)
    };
    dots().or_else(|| bracket().map(|(before, _)| before))
}

fn after_one(text: &str) -> Option<&str> {
    let bracket = || {
        text.strip_prefix(['(', '['])?
            .split_once([')', ']'])
            .filter(|(inside, _)| is_remark(inside))
    };
    let after = text.trim_start_matches(DOTS);
    let dots = || {
        text.strip_suffix(after)
            .filter(|dots| is_ellipsis(dots))
            .map(|_| after)
    };
    dots().or_else(|| bracket().map(|(_, after)| after))
}

fn is_remark(inside: &str) -> bool {
    let inside = inside.trim();
    is_ellipsis(inside)
        || LEFT_OUT
            .iter()
            .any(|remark| inside.eq_ignore_ascii_case(remark))
}

/// Whether the text is three dots or more, or has their character.
fn is_ellipsis(text: &str) -> bool {
    text.chars().all(|c| DOTS.contains(&c)) && (text.contains('\u{2026}') || text.len() >= 3)
}

#[cfg(test)]
mod tests {
    use super::{leading, trailing};

    #[test]
    fn an_ellipsis_is_found_at_both_ends() {
        for (text, end) in [
            ("a...", 1),
            ("a \u{2026}\n", 1),
            ("a [...]", 1),
            ("a... (continued)", 1),
            ("a[Truncated]", 1),
            ("a..", 3),
            ("a [1]", 5),
            ("a (b)...", 5),
            ("...", 0),
            ("", 0),
        ] {
            assert_eq!(trailing(text), end, "{text}");
        }
        for (text, length) in [
            ("...a", 3),
            ("\u{2026} a", 4),
            (" [\u{2026}]\na", 7),
            ("(cut off)...a", 12),
            ("..a", 0),
            (" a...", 0),
            ("[1]", 0),
            ("...", 3),
        ] {
            assert_eq!(leading(text), length, "{text}");
        }
    }
}
