//! Parts of an answer that are there already, joined to one document.

use std::time::Duration;

use super::{CallEnd, Event, FailureReason, Input, Output, Session, Status};
use crate::json::envelope::Roots;
use crate::limits::Limits;
use crate::splice::{self, Alignment, Expect, Explained, Seam, Slot, Splice, SpliceError};

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
    /// Why each part behind the first was joined where it was, or skipped; empty where that was not asked for.
    pub explanations: Vec<Explanation>,
    /// JSON Pointers of what was replaced since a later part contradicted it, in order; the root's is empty. See
    /// [`Rewind`].
    pub rewound: Vec<String>,
}

/// Why one part was joined where it was, or skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The part's number; the first one is 0.
    pub part: usize,
    /// Whether parts that were skipped stand between it and the document.
    pub between: Between,
    /// The decision. Where [`between`](Self::between) is unclear, what it would have been without the skipped parts.
    pub explained: Explained,
    /// What each candidate would add to the document, in their order: the first [forty characters](Self::SHOWN).
    pub adds: Vec<String>,
}

/// Whether parts that were skipped stand between a part and the document after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Between {
    /// None does.
    Nothing,
    /// They do: the fragment is they and this part, and its offsets count from the first of them.
    Skipped,
    /// The part goes on behind either reading, and nothing decides between them: it was skipped, too.
    Unclear,
}

impl Explanation {
    /// Characters that are shown of what a candidate would add.
    pub const SHOWN: usize = 40;

    fn new(part: usize, between: Between, explained: Explained, fragment: &str) -> Self {
        let adds = explained.candidates.iter().map(|candidate| {
            let text = candidate.adds(fragment);
            text.chars().take(Self::SHOWN).collect()
        });
        Self { part, between, adds: adds.collect(), explained }
    }

    /// The part was joined here, if it was.
    pub fn seam(&self) -> Option<&Seam> {
        self.explained.seam.as_ref().filter(|_| self.between != Between::Unclear)
    }

    /// The part counts as a failure.
    pub fn is_failure(&self) -> bool {
        self.explained.failure.is_some() || self.between == Between::Unclear
    }
}

/// How parts are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StitchOptions {
    /// How the continuations were asked for.
    pub expect: Expect,
    /// What becomes of a value that was cut and is written again, with other contents.
    pub rewind: Rewind,
    /// Say of every part why it was joined where it was, or skipped. For that the delivered text is read once more for
    /// each part.
    pub explain: bool,
}

/// What becomes of a value that was cut, where a part begins again and contradicts it
/// ([`SpliceError::Differs`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rewind {
    /// It stays, and the part has failed.
    #[default]
    Never,
    /// The part's takes its place, if the part fits there: in the place of the innermost element of an array that was
    /// cut, where there is none of the root. An element that a part writes without what stands before it may be meant
    /// to follow the one that was cut; that one is lost then, so [`Stitched::rewound`] names it.
    Element,
}

/// Joins parts in order. A part that fails to merge is skipped: the next one is its retry.
///
/// A part that could stand in the string that was cut, all of it, may be a refusal as well as a piece of the document,
/// unless exact pieces were asked for ([`Expect::Exact`]). It is skipped, and remembered: a next part that goes on
/// behind either reading, without the anchor, fails, too, since nothing decides between them.
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
    stitch_with(parts, StitchOptions { expect, ..StitchOptions::default() }, limits)
}

/// Like [`stitch`], and says of every part why it was joined where it was, or skipped. For that it reads the delivered
/// text once more for each part.
///
/// ```
/// use restitch::session::stitch_explained;
/// use restitch::splice::{Alignment, Expect, Fate};
///
/// let stitched = stitch_explained(["[10, 2", "0, 30]"], Expect::Exact, &restitch::Limits::default());
/// let why = &stitched.explanations[0];
/// assert_eq!((why.part, why.adds[0].as_str()), (1, "0, 30]"));
/// let winner = &why.explained.candidates[0];
/// assert_eq!((winner.alignment, winner.path.as_str(), winner.fate), (Alignment::Exact, "/1", Fate::Won));
/// ```
pub fn stitch_explained<'a>(parts: impl IntoIterator<Item = &'a str>, expect: Expect, limits: &Limits) -> Stitched {
    stitch_with(parts, StitchOptions { expect, explain: true, ..StitchOptions::default() }, limits)
}

/// Like [`stitch`], with all options.
///
/// ```
/// use restitch::Limits;
/// use restitch::session::{Rewind, StitchOptions, stitch_with};
///
/// // The second answer is of another mind.
/// let parts = ["[{\"id\": 1}, {\"id\": 2, \"by\": \"An", "[{\"id\": 1}, {\"id\": 2, \"by\": \"Bea\"}]"];
/// let options = StitchOptions { rewind: Rewind::Element, ..StitchOptions::default() };
/// let stitched = stitch_with(parts, options, &Limits::default());
/// assert_eq!(stitched.json, "[{\"id\": 1}, {\"id\": 2, \"by\": \"Bea\"}]");
/// assert_eq!(stitched.rewound, ["/1"]);
/// ```
pub fn stitch_with<'a>(parts: impl IntoIterator<Item = &'a str>, options: StitchOptions, limits: &Limits) -> Stitched {
    let StitchOptions { expect, rewind, explain } = options;
    // The parts end the loop, no count does.
    let limits = Limits {
        max_continuations: u32::MAX,
        max_consecutive_failures: u32::MAX,
        max_no_progress: u32::MAX,
        ..limits.clone()
    };
    let now = Duration::ZERO;
    let mut session = Session::with(limits.clone(), expect, Roots::Any);
    session.explained = explain.then(Vec::new);
    let mut stitched = Stitched {
        status: Status::Failed,
        json: String::new(),
        seams: Vec::new(),
        failures: 0,
        explanations: Vec::new(),
        rewound: Vec::new(),
    };
    let mut skipped = String::new();
    for (number, part) in parts.into_iter().enumerate() {
        let whole;
        let mut part = part;
        let mut between = Between::Nothing;
        if !skipped.is_empty() {
            let behind = |before: &str, text: &str| {
                let mut slot = session.slot.clone();
                let mut splice = Splice::new(&slot, expect, &limits);
                let fed = splice.feed(&mut slot, before).and_then(|()| splice.feed(&mut slot, text));
                let is_whole = fed.and_then(|()| splice.finish(&mut slot).map(drop)).is_ok();
                let is_exact = splice.seam().is_some_and(|seam| seam.alignment == Alignment::Exact);
                ((is_exact, is_whole), explain.then(|| splice.explain(&slot)))
            };
            let alone = behind("", part);
            match (alone.0, behind(&skipped, part).0) {
                // It goes on behind either reading, and breaks off behind neither or both.
                ((true, is_whole), (true, also)) if is_whole == also => {
                    stitched.failures += 1;
                    let explanation = |explained| Explanation::new(number, Between::Unclear, explained, part);
                    stitched.explanations.extend(alone.1.map(explanation));
                    continue;
                }
                ((_, false), (true, true)) => {
                    between = Between::Skipped;
                    whole = std::mem::take(&mut skipped) + part;
                    part = &whole;
                }
                _ => {}
            }
        }
        session.handle_input(now, Input::Text(part));
        session.handle_input(now, Input::CallEnd(CallEnd::Closed));
        let explained = session.explained.iter_mut().flat_map(|explained| explained.drain(..));
        stitched.explanations.extend(explained.map(|explained| Explanation::new(number, between, explained, part)));
        let mut differs = false;
        while let Some(output) = session.poll_output() {
            match output {
                Output::Event(Event::Joined { seam, .. }) => {
                    stitched.seams.push(seam);
                    skipped.clear();
                }
                Output::Event(Event::Failed { reason, .. }) => {
                    stitched.failures += 1;
                    differs = matches!(reason, FailureReason::Merge(SpliceError::Differs(_)));
                    if expect != Expect::Exact && matches!(reason, FailureReason::Merge(SpliceError::Undecided)) {
                        skipped.push_str(part);
                    }
                }
                Output::Event(_) | Output::Text(_) | Output::Call { .. } | Output::Done(_) => {}
            }
        }
        if differs
            && rewind == Rewind::Element
            && let Some((slot, seam, path)) = splice::replaced(&session.slot, part, expect, &limits)
        {
            stitched.failures -= 1;
            stitched.seams.push(seam);
            stitched.rewound.push(path);
            skipped.clear();
            session.go_on_with(slot);
        }
        if session.is_done() {
            break;
        }
    }
    let mut document = session.slot.into_document();
    let complete = document.finish().is_ok();
    stitched.json = document.complete().unwrap_or_default();
    stitched.status = match (complete, stitched.json.is_empty() || session.malformed.is_some()) {
        (true, _) => Status::Complete,
        (false, true) => Status::Failed,
        (false, false) => Status::Closed,
    };
    stitched
}

impl Session {
    /// What was delivered is this: nobody has read what it was before.
    fn go_on_with(&mut self, slot: Slot) {
        self.slot = slot;
        if self.slot.document().is_complete() {
            self.done(Status::Complete, Vec::new(), None);
        } else {
            self.call(self.cut_at, Duration::ZERO);
        }
        self.outputs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], expect: Expect, status: Status, json: &str, failures: u32) {
        let stitched = stitch(parts.iter().copied(), expect, &Limits::default());
        assert_eq!((stitched.status, stitched.json.as_str(), stitched.failures), (status, json, failures), "{parts:?}");
    }

    #[test]
    fn a_piece_of_a_string_and_a_refusal_look_alike() {
        let pieces = ["{\"a\": \"one ", "two ", "three\", \"b\": 1}"];
        check(&pieces, Expect::Exact, Status::Complete, "{\"a\": \"one two three\", \"b\": 1}", 0);
        // Nothing says whether `two ` belongs to the document: neither reading is taken.
        check(&pieces, Expect::Any, Status::Closed, "{\"a\": \"one \"}", 2);
        // The same where it breaks off behind either.
        let pieces = ["{\"b\": 1, \"a\": \"one ", "two ", "three\", \"b\": 2}"];
        check(&pieces, Expect::Any, Status::Closed, "{\"b\": 1, \"a\": \"one \"}", 2);
        // The anchor says it.
        let retried = ["{\"a\": \"one ", "I am sorry.", "{\"a\": \"one two three\", \"b\": 1}"];
        check(&retried, Expect::Any, Status::Complete, "{\"a\": \"one two three\", \"b\": 1}", 1);
        // Legality says it: behind the first part alone the last one is none.
        let pieces = ["{\"a\": \"x\\u00", "e9 yz", "\", \"b\": 1}"];
        check(&pieces, Expect::Any, Status::Complete, "{\"a\": \"x\\u00e9 yz\", \"b\": 1}", 1);
    }
}
