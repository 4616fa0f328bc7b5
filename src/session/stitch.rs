//! Parts of an answer that are there already, joined to one document.

use std::time::Duration;

use super::{End, Input, Outcome, Output, Session, Status};
use crate::json::envelope::Roots;
use crate::limits::Limits;
use crate::splice::{Expect, Seam};

/// What became of the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stitched {
    /// Complete, closed, or failed where there is not even a safe point or the first part is not JSON.
    pub status: Status,
    /// The document, without what stood around it; its complete part where it is closed; empty where there is none.
    pub json: String,
    /// The joins, in order.
    pub seams: Vec<Seam>,
    /// Parts that failed to merge, or broke the grammar.
    pub failures: u32,
}

/// Joins parts in order. A part that fails to merge is skipped: the next one is its retry.
///
/// ```
/// use restitch::session::{stitch, Status};
/// use restitch::splice::Expect;
///
/// let parts = ["{\"a\": [1, 2", "I can't help with that.", "{\"a\": [1, 2, 3]}"];
/// let stitched = stitch(parts, Expect::Any, &restitch::Limits::default());
/// assert_eq!((stitched.status, stitched.failures), (Status::Complete, 1));
/// assert_eq!(stitched.json, "{\"a\": [1, 2, 3]}");
/// ```
pub fn stitch<'a>(parts: impl IntoIterator<Item = &'a str>, expect: Expect, limits: &Limits) -> Stitched {
    // The parts end the loop, no count does.
    let limits = Limits { continuations: u32::MAX, failures: u32::MAX, repeats: u32::MAX, ..limits.clone() };
    let now = Duration::ZERO;
    let mut session = Session::with(limits, expect, Roots::Any);
    let mut stitched = Stitched { status: Status::Failed, json: String::new(), seams: Vec::new(), failures: 0 };
    for part in parts {
        session.handle_input(now, Input::Text(part));
        session.handle_input(now, Input::End(End::Closed));
        while let Some(output) = session.poll_output() {
            match output {
                Output::Seam { seam, .. } => stitched.seams.push(seam),
                Output::Failed(_) => stitched.failures += 1,
                Output::Done(Outcome { .. }) => {}
                Output::Text(_) | Output::Call { .. } => {}
            }
        }
        if session.is_done() {
            break;
        }
    }
    let mut document = session.document;
    let complete = document.finish().is_ok();
    stitched.json = document.complete().unwrap_or_default();
    stitched.status = match (complete, stitched.json.is_empty() || session.malformed.is_some()) {
        (true, _) => Status::Complete,
        (false, true) => Status::Failed,
        (false, false) => Status::Closed,
    };
    stitched
}
