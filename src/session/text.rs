//! Joins the parts of a text that is not JSON.

use serde::Serialize;

use super::Status;
use crate::limits::Limits;
use crate::splice::text::TextSplice;
use crate::splice::{Alignment, Expect, Seam};

/// The text that the parts make.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StitchedText {
    /// Complete if every part was joined, since a text does not show where it ends. Closed if a
    /// part was skipped; failed if there is no text at all.
    pub status: Status,
    /// The text.
    pub text: String,
    /// The seams, in order.
    pub seams: Vec<Seam>,
    /// Parts that failed to merge.
    pub failures: usize,
}

/// Joins parts of a text in order, at their anchors or directly: see [`TextSplice`]. A part that
/// fails to merge is skipped.
///
/// ```
/// use restitch::session::{Status};
/// use restitch::internal::prose::{stitch_text};
/// use restitch::splice::Expect;
///
/// let parts = ["# Rain\n\nIt fell in tor", "I can't help with that.", "# Rain\n\nIt fell in torrents."];
/// let stitched = stitch_text(parts, Expect::Anchor, &restitch::Limits::default());
/// assert_eq!(stitched.text, "# Rain\n\nIt fell in torrents.");
/// assert_eq!((stitched.status, stitched.failures), (Status::Closed, 1));
/// ```
pub fn stitch_text<'a>(
    parts: impl IntoIterator<Item = &'a str>,
    expect: Expect,
    limits: &Limits,
) -> StitchedText {
    let (mut text, mut seams, mut failures) = (String::new(), Vec::new(), 0);
    for part in parts {
        let mut splice = TextSplice::new(&text, expect, limits);
        let mut new = String::new();
        let fed = splice.feed(&text, part, &mut new);
        let seam = fed.and_then(|()| splice.finish(&mut new));
        text.push_str(&new);
        match seam {
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
    StitchedText {
        status,
        text,
        seams,
        failures,
    }
}
