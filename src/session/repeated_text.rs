//! The text that a question asks to repeat, and the mark that it asks to write after that text.

use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memchr_iter;

use super::question::QuestionForm;
use crate::context;
use crate::document::Document;
use crate::limits::ContinuationLimits;
use crate::overlap::Anchor;

/// Returns the range of the delivered text that the question asks to repeat.
pub(super) fn anchor(
    document: &Document,
    form: QuestionForm,
    limits: &ContinuationLimits,
) -> Option<Range<usize>> {
    let text = document.text();
    let first = Anchor::of(text, limits.max_anchor_chars)?.range;
    let start = match form {
        QuestionForm::Anchor
        | QuestionForm::Again
        | QuestionForm::Members
        | QuestionForm::Forced
        | QuestionForm::ToolInput
        | QuestionForm::Rerooted
        | QuestionForm::Text => return Some(first),
        QuestionForm::LongerAnchor | QuestionForm::TextAgain => twice(text, &first),
        // An element of a few characters would identify nothing.
        QuestionForm::WholeElement | QuestionForm::RerootedAgain => {
            context::cut_child(document).map_or(first.start, |child| child.start.min(first.start))
        }
    };
    // The text to repeat is written by the model, and paid for. It is never shorter than the first
    // anchor, which is unique.
    let most = limits.max_verbatim_context.max(first.len());
    let earliest = first.end.saturating_sub(most);
    let start = if start < earliest {
        (earliest..first.start).find(|&at| may_start(text, at))
    } else {
        Some(start)
    };
    Some(start.unwrap_or(first.start)..first.end)
}

/// Returns the range of the delivered arguments that the question asks to repeat: all of them where
/// they are short.
pub(super) fn arguments_anchor(
    document: &Document,
    form: QuestionForm,
    limits: &ContinuationLimits,
) -> Option<Range<usize>> {
    let anchor = anchor(document, form, limits)?;
    let start = document.root_start().unwrap_or(anchor.start);
    let is_short = anchor.end.saturating_sub(start) <= ARGUMENTS && start < anchor.start;
    Some(if is_short { start..anchor.end } else { anchor })
}

// Repeating all of them leaves no doubt about where the rest belongs, and costs fewer tokens than
// another call.
/// Bytes of arguments that are repeated as a whole. Most are cut within some forty.
const ARGUMENTS: usize = 256;

/// Returns where a tail with twice the characters of `first` starts, or a few more.
fn twice(text: &str, first: &Range<usize>) -> usize {
    let before = text.get(..first.start).unwrap_or_default();
    let more = text.get(first.clone()).unwrap_or_default().chars().count();
    let at = before
        .char_indices()
        .rev()
        .take(more)
        .last()
        .map_or(first.start, |(at, _)| at);
    let starts = (0..=at).rev().find(|&at| may_start(text, at));
    // The text before the anchor may be only white space.
    starts.unwrap_or(first.start)
}

/// Returns whether text to repeat may start here: not with white space, and not inside an escape or
/// a surrogate pair.
fn may_start(text: &str, at: usize) -> bool {
    let Some(rest) = text.get(at..) else {
        return false;
    };
    let before = text
        .as_bytes()
        .get(at.saturating_sub(UNICODE_ESCAPE - 1)..at)
        .unwrap_or_default();
    let is_low_surrogate = rest.starts_with("\\u")
        && matches!(
            rest.as_bytes().get(2..4),
            Some([b'd' | b'D', b'c'..=b'f' | b'C'..=b'F'])
        );
    !rest.starts_with(char::is_whitespace) && !before.contains(&b'\\') && !is_low_surrogate
}

/// Bytes of the longest escape: `\u00e9`.
const UNICODE_ESCAPE: usize = 6;

/// Returns a short text that does not occur in `delivered` and needs no escape in a JSON string. It
/// depends only on the delivered text and the attempt. One pass over the text.
pub(super) fn mark(delivered: &str, attempt: u32) -> String {
    let taken = taken_numbers(delivered);
    let seed = (delivered.len() as u64) << 32 | u64::from(attempt);
    // Multiplied by 2^64 divided by the golden ratio, so that the marks of two attempts do not look
    // alike.
    let first = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % NUMBERS;
    // A text that has all marks is larger than any body that is read.
    let number = (0..NUMBERS)
        .map(|step| (first + step) % NUMBERS)
        .find(|number| !taken.contains(number));
    format!("~~{:06x}~~", number.unwrap_or(first))
}

/// Returns the numbers of the marks that a text has.
fn taken_numbers(text: &str) -> BTreeSet<u64> {
    let number = |at: usize| {
        let digits = text
            .get(at..at + MARK)?
            .strip_prefix("~~")?
            .strip_suffix("~~")?;
        u64::from_str_radix(digits, 16).ok()
    };
    memchr_iter(b'~', text.as_bytes())
        .filter_map(number)
        .collect()
}

/// Bytes of a mark.
const MARK: usize = "~~123456~~".len();
/// The number of different marks.
const NUMBERS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn range(text: &str, form: QuestionForm, most: usize) -> String {
        let mut document = Document::new(64);
        document.push(text).unwrap();
        let limits = Limits::default()
            .with_max_verbatim_context(most)
            .continuation;
        text[anchor(&document, form, &limits).unwrap()].to_owned()
    }

    #[test]
    fn each_form_repeats_more() {
        let rows: String = (0..40)
            .map(|n| format!("{{\"id\": {n}, \"name\": \"row number {n}\"}}, "))
            .collect();
        let words: String = (0..20).map(|n| format!("word {n} ")).collect();
        let open = format!("{{\"id\": 40, \"text\": \"{words}");
        let text = format!("{{\"rows\": [{rows}{open}");
        let first = range(&text, QuestionForm::Anchor, 1 << 14);
        let longer = range(&text, QuestionForm::LongerAnchor, 1 << 14);
        assert!(
            longer.len() >= 2 * first.len() && longer.ends_with(&first),
            "{longer}"
        );
        assert_eq!(
            range(&text, QuestionForm::WholeElement, 1 << 14),
            open.trim_end()
        );
        // Only the end of an element that is too long is repeated.
        let end = range(&text, QuestionForm::WholeElement, 90);
        assert!(
            end.len() > 80 && end.len() <= 90 && end.ends_with(&first),
            "{end}"
        );
        // Never less than the first anchor.
        assert_eq!(range(&text, QuestionForm::WholeElement, 0), first);
        assert_eq!(range(&text, QuestionForm::LongerAnchor, 0), first);
        // A short element is repeated with the text before it, a short text as a whole.
        let text = format!(
            "[{}",
            (100..140).map(|n| format!("{n}, ")).collect::<String>()
        );
        assert_eq!(
            range(&text, QuestionForm::WholeElement, 1 << 14),
            range(&text, QuestionForm::Anchor, 1 << 14)
        );
        assert_eq!(
            range(" [1, 2", QuestionForm::LongerAnchor, 1 << 14),
            "[1, 2"
        );
        // No array is open: the member.
        let text = format!(
            "{{\"a\": 1, \"text\": \"{}",
            (0..40).map(|n| format!("word {n} ")).collect::<String>()
        );
        assert!(
            range(&text, QuestionForm::WholeElement, 1 << 14).starts_with("\"text\": \"word 0 ")
        );
    }

    #[test]
    fn text_to_repeat_starts_outside_of_escapes() {
        let text = "a\\\\\\n\\u12ab\\ud83d\\ude00bcdefgh \u{e9}";
        for at in 0..text.len() {
            let inside = (2..=22).contains(&at) && ![3, 5, 11].contains(&at);
            assert!(!(inside && may_start(text, at)), "{at}");
        }
        assert!(
            may_start(text, 0)
                && may_start(text, text.len() - 4)
                && !may_start(text, text.len() - 1)
        );
    }

    #[test]
    fn a_mark_is_not_in_the_text() {
        assert_eq!(mark("[1, 2", 1), mark("[3, 4", 1));
        assert_ne!(mark("[1, 2", 1), mark("[1, 2", 2));
        let mut text = "[\"x".to_owned();
        for _ in 0..100 {
            // The text keeps its length, so every mark is the next one of the same row.
            let padded = format!("{text:<2000}");
            let next = mark(&padded, 1);
            assert!(!padded.contains(&next) && next.len() == 10, "{next}");
            text.push_str(next.trim_end_matches('~'));
            text.push_str("~~");
        }
    }
}
