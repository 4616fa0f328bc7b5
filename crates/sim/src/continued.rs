//! A continuation in one of the [styles](super::style): its text, and how much of the document it
//! has.
//!
//! Knows the document and the delivered text according to the request, but no ends and no wire
//! formats.

use super::call::Continuation;
use super::style::{ContinuationStyle, Cut, ceil_char_boundary, write};

/// A fragment, complete or cut again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Continued {
    pub(super) text: String,
    /// How many bytes of the rest of the document the text has verbatim. 0 if the style writes the
    /// rest in another layout, because no count of bytes would be right.
    ///
    /// Only the log of calls uses this number. Each request determines the start of its
    /// continuation by the delivered text that the client sends back: the client may have rejected
    /// this text, or taken a part. A client that accepted text in another layout sends back text
    /// that is not a prefix of the document, and gets status 422.
    pub(super) delivered: usize,
    /// The fragment is complete, so that the model would stop.
    pub(super) stops: bool,
}

impl Continued {
    /// Returns the fragment's first `bytes`, or the whole fragment; `None` if the style does not
    /// apply at this cut.
    pub(super) fn new(
        style: ContinuationStyle,
        bytes: Option<usize>,
        document: &str,
        asked: &Continuation,
    ) -> Option<Self> {
        let cut = Cut {
            document,
            offset: asked.position,
            anchor: anchor(document, asked),
            mark: asked.mark.as_deref(),
        };
        let mut text = write(style, &cut, seed(document, cut.offset))?;
        let rest = document.get(cut.offset..);
        debug_assert!(
            rest.is_some(),
            "the delivered text is a prefix of the document"
        );
        let rest = rest?;
        let at = rest_in(style, &text, rest, cut.offset - cut.anchor);
        let length = super::answer::floor_char_boundary(&text, bytes.unwrap_or(text.len()));
        // A repetition of delivered text ends where the model was cut off in its loop.
        let stops = length == text.len()
            && !matches!(
                style,
                ContinuationStyle::SameAgain | ContinuationStyle::OnlyDelivered
            );
        text.truncate(length);
        let brought = at.and_then(|at| text.get(at..)).unwrap_or_default();
        let delivered = brought
            .bytes()
            .zip(rest.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        Some(Self {
            text,
            delivered,
            stops,
        })
    }
}

/// Returns where the requested anchor begins in the document: its start, if the anchor begins in a
/// fence or a sentence before the document.
fn anchor(document: &str, asked: &Continuation) -> usize {
    let asked_for = asked.gap.len() + asked.anchor.len();
    ceil_char_boundary(document, asked.position.saturating_sub(asked_for))
}

/// Returns where in the fragment the rest of the document begins, if it is there verbatim.
fn rest_in(style: ContinuationStyle, text: &str, rest: &str, anchor: usize) -> Option<usize> {
    match style {
        // These styles have no part of the rest, or have it out of order.
        ContinuationStyle::BareList
        | ContinuationStyle::BareListCut
        | ContinuationStyle::Bare
        | ContinuationStyle::BareCut
        | ContinuationStyle::BareNext
        | ContinuationStyle::Empty => None,
        ContinuationStyle::Refusal
        | ContinuationStyle::SameAgain
        | ContinuationStyle::OnlyDelivered
        | ContinuationStyle::ClosedDelivered => None,
        // A search could mistake text around the end for the rest.
        ContinuationStyle::AnchorEpilogue
        | ContinuationStyle::CloserExtra
        | ContinuationStyle::CloserMissing => Some(anchor),
        _ => text.rfind(rest),
    }
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
    use super::super::call::Asked;
    use super::*;

    const DOCUMENT: &str = r#"{"s":[{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#;

    fn asked(position: usize, anchor: &str) -> Continuation {
        let delivered = DOCUMENT[..position].to_owned();
        Continuation {
            delivered,
            anchor: anchor.to_owned(),
            gap: String::new(),
            mark: None,
            position,
            asked: Asked::Question,
            restarts: false,
        }
    }

    /// Cut in `Hello wor|ld`; `ld"},{"id":2,"t":"x"}]}` is the rest, of 23 bytes.
    #[test]
    fn a_fragment_is_counted_by_what_it_has_of_the_rest() {
        let asked = asked(28, r#""t":"Hello wor"#);
        let cases = [
            (
                "element",
                None,
                r#"{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#,
                23,
                true,
            ),
            ("element", Some(24), r#"{"id":1,"t":"Hello world"#, 2, false),
            ("element", Some(9), r#"{"id":1,""#, 0, false),
            (
                "closer-missing",
                None,
                r#""t":"Hello world"},{"id":2,"t":"x"}]"#,
                22,
                true,
            ),
            ("bare", None, r#"{"id":2,"t":"x"}"#, 0, true),
            ("newline", Some(4), "\nld\"", 3, false),
            ("empty", None, "", 0, true),
        ];
        for (name, bytes, text, delivered, stops) in cases {
            let style = ContinuationStyle::by_name(name).unwrap();
            let expected = Continued {
                text: text.to_owned(),
                delivered,
                stops,
            };
            assert_eq!(
                Continued::new(style, bytes, DOCUMENT, &asked),
                Some(expected),
                "{name}"
            );
        }
        let reformatted = Continued::new(
            ContinuationStyle::ElementReformatted,
            None,
            DOCUMENT,
            &asked,
        )
        .unwrap();
        assert_eq!((reformatted.delivered, reformatted.stops), (0, true));
        let again =
            Continued::new(ContinuationStyle::OnlyDelivered, None, DOCUMENT, &asked).unwrap();
        assert_eq!((again.delivered, again.stops), (0, false));
        assert_eq!(
            Continued::new(ContinuationStyle::CommaExtra, None, DOCUMENT, &asked),
            None
        );
    }

    /// The document has the part of the anchor after the fence.
    #[test]
    fn an_anchor_may_begin_before_the_document() {
        let asked = asked(3, "```json\n{\"s");
        assert_eq!(
            Continued::new(ContinuationStyle::Anchor, Some(5), DOCUMENT, &asked)
                .unwrap()
                .text,
            r#"{"s":"#
        );
    }
}
