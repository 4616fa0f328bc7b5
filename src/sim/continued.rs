//! A continuation in one of the [styles](super::style): its text, and what of the document it brings.
//!
//! Knows the document and what the request says was delivered, and neither ends nor wires.

use super::call::Continuation;
use super::style::{ContinuationStyle, Cut, write};

/// A fragment, perhaps cut off again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Continued {
    pub(super) text: String,
    /// How many bytes of the document's rest the text has as they stand there: 0 where it writes the rest in another
    /// way, since no count of bytes would be true of it.
    ///
    /// It is for the log of calls alone. Where the next continuation begins is never taken from it: that is found anew
    /// in each request, by the delivered text that the client sends back. A client may have refused this text or taken
    /// a part of it. One that took up a text of another layout sends back what is no prefix of the document any more,
    /// and its next call is answered as such.
    pub(super) delivered: usize,
    /// The model has said what it wanted.
    pub(super) stops: bool,
}

impl Continued {
    /// The fragment's first `bytes`, or all of it; `None` where the style does not apply at this cut.
    pub(super) fn new(
        style: ContinuationStyle,
        bytes: Option<usize>,
        document: &str,
        asked: &Continuation,
    ) -> Option<Self> {
        let cut = Cut { document, offset: asked.position, anchor: anchor(document, asked) };
        let mut text = write(style, &cut, seed(document, cut.offset))?;
        let rest = document.get(cut.offset..);
        debug_assert!(rest.is_some(), "the delivered text is a prefix of the document");
        let rest = rest?;
        let at = rest_in(style, &text, rest, cut.offset - cut.anchor);
        let length = super::answer::floor_char_boundary(&text, bytes.unwrap_or(text.len()));
        // A slice of what is delivered already ends where the model was cut off in its loop.
        let stops =
            length == text.len() && !matches!(style, ContinuationStyle::SameAgain | ContinuationStyle::OnlyDelivered);
        text.truncate(length);
        let brought = at.and_then(|at| text.get(at..)).unwrap_or_default();
        let delivered = brought.bytes().zip(rest.bytes()).take_while(|(a, b)| a == b).count();
        Some(Self { text, delivered, stops })
    }
}

/// Where the asked anchor begins in the document; its start, where the anchor has some of a fence or a sentence that
/// stands before the document.
fn anchor(document: &str, asked: &Continuation) -> usize {
    let mut begin = asked.position.saturating_sub(asked.gap.len() + asked.anchor.len());
    while !document.is_char_boundary(begin) {
        begin += 1;
    }
    begin
}

/// Where in the fragment the document's rest begins, if it stands there as it is.
fn rest_in(style: ContinuationStyle, text: &str, rest: &str, anchor: usize) -> Option<usize> {
    match style {
        // Nothing of the rest, or some of it out of its place.
        ContinuationStyle::BareList
        | ContinuationStyle::BareListCut
        | ContinuationStyle::Bare
        | ContinuationStyle::BareCut
        | ContinuationStyle::Empty => None,
        ContinuationStyle::Refusal
        | ContinuationStyle::SameAgain
        | ContinuationStyle::OnlyDelivered
        | ContinuationStyle::ClosedDelivered => None,
        // What stands around the end could be taken for it.
        ContinuationStyle::AnchorEpilogue | ContinuationStyle::CloserExtra | ContinuationStyle::CloserMissing => {
            Some(anchor)
        }
        _ => text.rfind(rest),
    }
}

/// The same for the same document and cut, in every run.
fn seed(document: &str, cut: usize) -> u64 {
    let mix = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    document.bytes().fold(0xcbf2_9ce4_8422_2325 ^ cut as u64, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"s":[{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#;

    fn asked(position: usize, anchor: &str) -> Continuation {
        let delivered = DOCUMENT[..position].to_owned();
        Continuation { delivered, anchor: anchor.to_owned(), gap: String::new(), position }
    }

    /// Cut in `Hello wor|ld`; `ld"},{"id":2,"t":"x"}]}` is the rest, of 23 bytes.
    #[test]
    fn a_fragment_is_counted_by_what_it_has_of_the_rest() {
        let asked = asked(28, r#""t":"Hello wor"#);
        let cases = [
            ("element", None, r#"{"id":1,"t":"Hello world"},{"id":2,"t":"x"}]}"#, 23, true),
            ("element", Some(24), r#"{"id":1,"t":"Hello world"#, 2, false),
            ("element", Some(9), r#"{"id":1,""#, 0, false),
            ("closer-missing", None, r#""t":"Hello world"},{"id":2,"t":"x"}]"#, 22, true),
            ("bare", None, r#"{"id":2,"t":"x"}"#, 0, true),
            ("newline", Some(4), "\nld\"", 3, false),
            ("empty", None, "", 0, true),
        ];
        for (name, bytes, text, delivered, stops) in cases {
            let style = ContinuationStyle::by_name(name).unwrap();
            let expected = Continued { text: text.to_owned(), delivered, stops };
            assert_eq!(Continued::new(style, bytes, DOCUMENT, &asked), Some(expected), "{name}");
        }
        let anew = Continued::new(ContinuationStyle::ElementReformatted, None, DOCUMENT, &asked).unwrap();
        assert_eq!((anew.delivered, anew.stops), (0, true));
        let again = Continued::new(ContinuationStyle::OnlyDelivered, None, DOCUMENT, &asked).unwrap();
        assert_eq!((again.delivered, again.stops), (0, false));
        assert_eq!(Continued::new(ContinuationStyle::CommaExtra, None, DOCUMENT, &asked), None);
    }

    /// Of an anchor that begins in a fence the document has the rest.
    #[test]
    fn an_anchor_may_begin_before_the_document() {
        let asked = asked(3, "```json\n{\"s");
        assert_eq!(Continued::new(ContinuationStyle::Anchor, Some(5), DOCUMENT, &asked).unwrap().text, r#"{"s":"#);
    }
}
