//! The parts of a message that the server looks for: the question for the rest of a document, and a
//! script.

/// Returns the text between a line `<overlap_context>` and a line `</overlap_context>`, both with
/// the same number, if any.
pub(super) fn anchor(text: &str) -> Option<&str> {
    between(text, "<overlap_context", "</overlap_context")
}

/// Returns the text between a line `<continue_mark>` and a line `</continue_mark>`.
pub(super) fn mark(text: &str) -> Option<&str> {
    between(text, "<continue_mark", "</continue_mark")
}

/// Returns the text between a line `<missing_members>` and a line `</missing_members>`.
pub(super) fn members(text: &str) -> Option<&str> {
    between(text, "<missing_members", "</missing_members")
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        begin += line.len();
        let Some(suffix) = tag(line, open) else {
            continue;
        };
        let line_break = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        let mut end = begin;
        for line in text[begin..].split_inclusive('\n') {
            if tag(line, close) == Some(suffix) {
                let between = &text[begin..end];
                return Some(between.strip_suffix(line_break).unwrap_or(between));
            }
            end += line.len();
        }
    }
    None
}

/// Returns the suffix of the tag that is all of `line`: empty, or `_` and a number.
fn tag<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let suffix = line.strip_prefix(name)?.strip_suffix('>')?;
    let digits = suffix
        .strip_prefix('_')
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (suffix.is_empty() || digits).then_some(suffix)
}

/// Returns the last `[[script: …]]` of a prompt.
pub(super) fn own_script(text: &str) -> Option<String> {
    let begin = text.rfind(SCRIPT)? + SCRIPT.len();
    let end = text[begin..].find("]]")?;
    Some(text[begin..begin + end].to_owned())
}

/// The start of a script in a prompt: `[[script: …]]`.
const SCRIPT: &str = "[[script:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_stand_between_lines() {
        let cases = [
            (
                "Go on.\n<overlap_context>\nabc\n</overlap_context>\nThanks.",
                Some("abc"),
            ),
            (
                "<overlap_context>\r\nabc\r\n</overlap_context>\r\n",
                Some("abc"),
            ),
            (
                "<overlap_context>\nabc\r\n</overlap_context>",
                Some("abc\r"),
            ),
            (
                "<overlap_context>\n\n a\nb \n\n</overlap_context>",
                Some("\n a\nb \n"),
            ),
            ("<overlap_context>\n</overlap_context>", Some("")),
            (
                "<overlap_context_2>\n</overlap_context>\n</overlap_context_2>",
                Some("</overlap_context>"),
            ),
            (
                "repeat <overlap_context> inline\n<overlap_context_7>\nx\n</overlap_context_7>",
                Some("x"),
            ),
            ("<overlap_context>\nabc\n</overlap_context_2>", None),
            ("<overlap_context> abc </overlap_context>", None),
            ("<overlap_context_x>\nabc\n</overlap_context_x>", None),
        ];
        for (text, expected) in cases {
            assert_eq!(anchor(text), expected, "{text:?}");
        }
    }
}
