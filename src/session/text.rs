//! Parts of a text that is no JSON, joined.

use super::Status;
use crate::limits::Limits;
use crate::splice::{Alignment, Expect, Seam, TextSplice};

/// What became of the parts of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StitchedText {
    /// Complete where every part was joined: nobody knows where a text ends. Closed where one was not, failed where
    /// there is no text at all.
    pub status: Status,
    /// The text.
    pub text: String,
    /// The joins, in order.
    pub seams: Vec<Seam>,
    /// Parts that failed to merge.
    pub failures: u32,
}

/// Joins parts of a text in order, by their anchors or as they come: see [`TextSplice`]. A part that fails to merge is
/// skipped.
///
/// ```
/// use restitch::session::{Status, stitch_text};
/// use restitch::splice::Expect;
///
/// let parts = ["# Rain\n\nIt fell in tor", "I can't help with that.", "# Rain\n\nIt fell in torrents."];
/// let stitched = stitch_text(parts, Expect::Anchor, &restitch::Limits::default());
/// assert_eq!(stitched.text, "# Rain\n\nIt fell in torrents.");
/// assert_eq!((stitched.status, stitched.failures), (Status::Closed, 1));
/// ```
pub fn stitch_text<'a>(parts: impl IntoIterator<Item = &'a str>, expect: Expect, limits: &Limits) -> StitchedText {
    let (mut text, mut seams, mut failures) = (String::new(), Vec::new(), 0);
    for part in parts {
        let mut splice = TextSplice::new(&text, expect, limits);
        let fed = splice.feed(&mut text, part);
        match fed.and_then(|()| splice.finish(&mut text)) {
            Ok(seam) if seam.alignment == Alignment::Start => {}
            Ok(seam) => seams.push(seam),
            Err(_) => failures += 1,
        }
    }
    let status = match (text.trim().is_empty(), failures) {
        (true, _) => Status::Failed,
        (false, 0) => Status::Complete,
        (false, _) => Status::Closed,
    };
    StitchedText { status, text, seams, failures }
}
