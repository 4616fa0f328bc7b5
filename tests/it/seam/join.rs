//! Joins one fragment to the delivered text, as a session does it.

use restitch::AllowedRoots;
use restitch::Limits;
use restitch::splice::{Alignment, Expect, Slot, Splice};

/// The result for one fragment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// All text after the call, starting with the delivered text.
    pub(crate) text: String,
    /// The root is closed; a root that is a number is closed by the text after it.
    pub(crate) complete: bool,
    /// The fragment was joined to its end; it may have added nothing new.
    pub(crate) joined: bool,
    /// The alignment, or the failure.
    pub(crate) how: String,
    pub(crate) ambiguous: bool,
    /// The largest number of pending bytes.
    pub(crate) pending: usize,
    /// Bytes of the fragment that had arrived when its first text was emitted.
    pub(crate) pushed_at: Option<usize>,
}

/// Returns where the anchor begins that a call after `delivered` asks for.
pub(crate) fn anchor(delivered: &str) -> usize {
    let (slot, splice) = begin(delivered, Expect::Anchor);
    splice.anchor().map_or(slot.document().text().len(), |anchor| anchor.range.start)
}

fn begin(delivered: &str, expect: Expect) -> (Slot, Splice) {
    let limits = Limits::default();
    let mut slot = Slot::with_roots(&limits, AllowedRoots::Any);
    slot.push(delivered).unwrap();
    let splice = Splice::new(&slot, expect, &limits);
    (slot, splice)
}

/// Joins `fragment`, which arrives in pieces of at least `chunk` bytes that end between characters.
pub(crate) fn join(delivered: &str, fragment: &str, expect: Expect, chunk: usize) -> Outcome {
    let mut rest = fragment;
    let pieces = std::iter::from_fn(|| {
        let end = (chunk.min(rest.len())..=rest.len()).find(|&end| rest.is_char_boundary(end)).unwrap();
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    join_pieces(delivered, pieces, expect)
}

/// Joins a fragment that arrives in these pieces.
pub(crate) fn join_pieces<'a>(delivered: &str, pieces: impl Iterator<Item = &'a str>, expect: Expect) -> Outcome {
    let (mut slot, mut splice) = begin(delivered, expect);
    let (mut pending, mut pushed_at, mut at) = (0, None, 0);
    for piece in pieces {
        let fed = splice.feed(&mut slot, piece);
        at += piece.len();
        pending = pending.max(splice.pending());
        if slot.document().text().len() > delivered.len() {
            pushed_at = pushed_at.or(Some(at));
        }
        if fed.is_err() {
            break;
        }
    }
    let merged = splice.finish(&mut slot);
    if slot.document().text().len() > delivered.len() {
        pushed_at = pushed_at.or(Some(at));
    }
    let seam = splice.seam();
    Outcome {
        text: slot.document().text().to_owned(),
        complete: slot.document().is_complete(),
        joined: merged.is_ok(),
        how: match &merged {
            Ok(seam) => seam.alignment.as_str().to_owned(),
            Err(failure) => format!("{failure:?}"),
        },
        ambiguous: seam.is_some_and(|seam| seam.ambiguous && seam.alignment != Alignment::Repeat),
        pending: seam.map_or(pending, |seam| seam.pending.max(pending)),
        pushed_at,
    }
}
