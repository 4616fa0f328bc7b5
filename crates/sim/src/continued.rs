//! A continuation in one of the [styles](super::style).
//!
//! Knows the document and the delivered text according to the request, but no ends and no wire
//! formats.

use super::answer::floor_char_boundary;
use super::call::Continuation;
use super::style::{ContinuationStyle, Cut, ceil_char_boundary, write};

/// Returns the fragment's first `bytes`, or the whole fragment, and whether it is complete, so that
/// the model would stop. `None` if the style does not apply at this cut.
pub(super) fn continued(
    style: ContinuationStyle,
    bytes: Option<usize>,
    document: &str,
    asked: &Continuation,
) -> Option<(String, bool)> {
    let cut = Cut {
        document,
        offset: asked.position,
        anchor: anchor(document, asked),
        mark: asked.mark.as_deref(),
    };
    let mut text = write(style, &cut, seed(document, cut.offset))?;
    let length = floor_char_boundary(&text, bytes.unwrap_or(text.len()));
    // A repetition of delivered text ends where the model was cut off in its loop.
    let loops = matches!(
        style,
        ContinuationStyle::SameAgain | ContinuationStyle::OnlyDelivered
    );
    let stops = length == text.len() && !loops;
    text.truncate(length);
    Some((text, stops))
}

/// Returns where the requested anchor begins in the document: its start, if the anchor begins in a
/// fence or a sentence before the document.
fn anchor(document: &str, asked: &Continuation) -> usize {
    let asked_for = asked.gap.len() + asked.anchor.len();
    ceil_char_boundary(document, asked.position.saturating_sub(asked_for))
}

/// Returns a seed that is the same for the same document and cut in every run.
fn seed(document: &str, cut: usize) -> u64 {
    let mix = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    document
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ cut as u64, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"s":[{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#;

    fn asked(position: usize, anchor: &str) -> Continuation {
        let delivered = DOCUMENT[..position].to_owned();
        Continuation {
            delivered,
            anchor: anchor.to_owned(),
            position,
            ..Continuation::default()
        }
    }

    #[test]
    fn a_fragment_stops_at_its_own_end() {
        let asked = asked(28, r#""t":"Hello wor"#);
        let element = r#"{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#;
        let cases = [
            ("element", None, Some((element, true))),
            ("element", Some(9), Some((&element[..9], false))),
            ("newline", Some(4), Some(("\nld\"", false))),
            ("empty", None, Some(("", true))),
            ("only-delivered", None, Some((&DOCUMENT[6..28], false))),
            ("comma-extra", None, None),
        ];
        for (name, bytes, expected) in cases {
            let style = ContinuationStyle::by_name(name).unwrap();
            let expected = expected.map(|(text, stops)| (text.to_owned(), stops));
            assert_eq!(
                continued(style, bytes, DOCUMENT, &asked),
                expected,
                "{name}"
            );
        }
    }

    /// The document has the part of the anchor after the fence.
    #[test]
    fn an_anchor_may_begin_before_the_document() {
        let asked = asked(3, "```json\n{\"s");
        let text = continued(ContinuationStyle::Anchor, Some(5), DOCUMENT, &asked);
        assert_eq!(text.unwrap().0, r#"{"s":"#);
    }
}
