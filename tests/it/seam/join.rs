//! Joins one fragment to the delivered text, as a session does it.

use restitch::AllowedRoots;
use restitch::Limits;
use restitch::splice::{Alignment, Expect, Seam, Slot, Splice, SpliceError, SpliceRequest};
use restitch_sim::style;

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
    pub(crate) early_end: bool,
    /// The engine's own probability that the join is right.
    pub(crate) posterior: Option<f64>,
    /// The largest number of pending bytes.
    pub(crate) pending: usize,
    /// Bytes of the fragment that had arrived when its first text was emitted.
    pub(crate) pushed_at: Option<usize>,
}

/// Returns where the anchor begins that a call after `delivered` asks for.
pub(crate) fn anchor(delivered: &str) -> usize {
    let (slot, splice) = begin(delivered, Expect::Anchor, &Limits::default());
    splice
        .anchor()
        .map_or(slot.document().text().len(), |anchor| anchor.range.start)
}

/// What is asked for after `delivered`.
fn request(delivered: &str, expect: Expect) -> SpliceRequest {
    SpliceRequest {
        expect,
        tags: vec![style::anchor_tag(delivered)],
        ..SpliceRequest::default()
    }
}

fn begin(delivered: &str, expect: Expect, limits: &Limits) -> (Slot, Splice) {
    let mut slot = Slot::with_roots(limits, AllowedRoots::Any);
    slot.push(delivered).unwrap();
    let splice = Splice::new(&slot, request(delivered, expect), limits);
    (slot, splice)
}

/// Returns the probability that a seam reports.
fn posterior(seam: &Seam) -> Option<f64> {
    (seam.alignment != Alignment::Repeat).then_some(seam.posterior)
}

/// Joins `fragment`, which arrives in pieces of at least `chunk` bytes that end between characters.
pub(crate) fn join(delivered: &str, fragment: &str, expect: Expect, chunk: usize) -> Outcome {
    join_within(&Limits::default(), delivered, fragment, expect, chunk)
}

/// Joins `fragment` under these limits.
pub(crate) fn join_within(
    limits: &Limits,
    delivered: &str,
    fragment: &str,
    expect: Expect,
    chunk: usize,
) -> Outcome {
    let mut rest = fragment;
    let pieces = std::iter::from_fn(|| {
        let end = (chunk.min(rest.len())..=rest.len())
            .find(|&end| rest.is_char_boundary(end))
            .unwrap();
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    feed(limits, delivered, expect, pieces)
}

/// Joins a fragment that arrives in these pieces.
pub(crate) fn join_pieces<'a>(
    delivered: &str,
    pieces: impl Iterator<Item = &'a str>,
    expect: Expect,
) -> Outcome {
    feed(&Limits::default(), delivered, expect, pieces)
}

fn feed<'a>(
    limits: &Limits,
    text: &str,
    expect: Expect,
    pieces: impl Iterator<Item = &'a str>,
) -> Outcome {
    let (mut slot, mut splice) = begin(text, expect, limits);
    let delivered = text.len();
    let (mut pending, mut pushed_at, mut at) = (0, None, 0);
    let mut fragment = String::new();
    let mut has_failed = false;
    for piece in pieces {
        fragment.push_str(piece);
        if has_failed {
            continue;
        }
        let fed = splice.feed(&mut slot, piece);
        at += piece.len();
        pending = pending.max(splice.pending());
        if slot.document().text().len() > delivered {
            pushed_at = pushed_at.or(Some(at));
        }
        has_failed = fed.is_err();
    }
    let mut merged = splice.finish(&mut slot);
    if merged == Err(SpliceError::EarlyEnd) {
        // It is asked for once more, and the model says the same.
        let again = SpliceRequest {
            believes_early_end: true,
            ..request(text, expect)
        };
        splice = Splice::new(&slot, again, limits);
        let _ = splice.feed(&mut slot, &fragment);
        merged = splice.finish(&mut slot);
    }
    if slot.document().text().len() > delivered {
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
        early_end: seam.is_some_and(|seam| seam.early_end),
        posterior: seam.and_then(posterior),
        pending: seam.map_or(pending, |seam| seam.pending.max(pending)),
        pushed_at,
    }
}
