//! Joins the parts of an answer that have all arrived.

use std::ops::Range;

use serde::{Serialize, Serializer};

use super::{Status, ellipsis};
use crate::envelope::AllowedRoots;
use crate::limits::Limits;
use crate::overlap::{Anchor, EVIDENCE, may_come_again, proving_tail};
use crate::splice::{
    self, Alignment, Expect, Explained, Seam, Slot, Splice, SpliceError, SpliceRequest,
    has_more_json,
};

/// The document that the parts make.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stitched {
    /// Complete; closed; or failed, if nothing of the document is certain or the first part is not
    /// JSON.
    pub status: Status,
    /// The document without the text around it. If it is closed, its complete part. If it failed:
    /// empty, or the text before the mistake of the first part.
    pub json: String,
    /// The seams, in order.
    pub seams: Vec<Seam>,
    /// The parts that were skipped, or that became illegal after their seams, in order.
    pub failed: Vec<FailedPart>,
    /// Why each part after the first was joined where it was, or skipped. Empty unless
    /// [`explained`](StitchOptions::explained) was called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// JSON Pointers of the elements that were replaced because a later part contradicted them, in
    /// order. The root's pointer is empty. See [`Rewind`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewound: Vec<String>,
    /// The other roots of the text, such as examples before the document or records after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// A part that was skipped, or joined only in part. Its text may be missing from the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedPart {
    /// The part's number. The first part is 0; serialized, it is 1.
    #[serde(serialize_with = "from_one")]
    pub part: usize,
    /// Why it was skipped, or where it became illegal.
    pub reason: SpliceError,
}

/// Why one part was joined where it was, or skipped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The part's number. The first part is 0; serialized, it is 1.
    #[serde(serialize_with = "from_one")]
    pub part: usize,
    /// A part before it was skipped, so only repeated text proves where it belongs.
    pub after_gap: bool,
    /// The decision.
    #[serde(flatten)]
    pub explained: Explained,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
fn from_one<S: Serializer>(part: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    (part + 1).serialize(serializer)
}

impl Explanation {
    /// Returns the seam of the part, if it was joined.
    pub fn seam(&self) -> Option<&Seam> {
        self.explained.seam.as_ref()
    }

    /// Returns whether the part failed to merge.
    pub fn is_failure(&self) -> bool {
        self.explained.failure.is_some()
    }
}

/// How parts are joined.
///
/// ```
/// use restitch::Limits;
/// use restitch::session::{StitchOptions, stitch_with};
/// use restitch::splice::{Alignment, AttemptStatus, Expect};
///
/// let options = StitchOptions::new().expect(Expect::Exact).explained();
/// let stitched = stitch_with(["[10, 2", "0, 30]"], &options, &Limits::default());
/// let why = &stitched.explanations[0];
/// let winner = &why.explained.candidates[0];
/// assert_eq!((why.part, winner.adds.as_str()), (1, "0, 30]"));
/// let winner = &winner.candidate;
/// assert_eq!((winner.alignment, winner.status), (Alignment::Exact, AttemptStatus::Won));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StitchOptions {
    expect: Expect,
    rewind: Rewind,
    is_explained: bool,
}

impl StitchOptions {
    /// Makes options for parts of unknown origin ([`Expect::Any`]), without replacing and without
    /// explaining.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how the request asked for the continuations.
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets what to do if a part contradicts the value that was cut.
    pub fn rewind(mut self, rewind: Rewind) -> Self {
        self.rewind = rewind;
        self
    }

    /// Explains every part: [`Stitched::explanations`]. Reads the delivered text once more for each
    /// part.
    pub fn explained(mut self) -> Self {
        self.is_explained = true;
        self
    }
}

/// What to do if a part begins again and contradicts the value that was cut
/// ([`SpliceError::Differs`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rewind {
    /// Keep the value: the part has failed.
    #[default]
    Never,
    /// Replace the innermost array element that was cut, or the root if no element was cut, by the
    /// part's own value, if the part fits there. A part that begins with an element may mean an
    /// element that follows the cut one. The cut one is lost then, so [`Stitched::rewound`] lists
    /// it.
    Element,
}

/// Joins parts in order. Skips a part that fails to merge: the next part may be its retry, or its
/// continuation.
///
/// After a skipped part, a later part is joined only if it repeats enough delivered text to prove
/// its position; being legal at the cut is not enough. Without such a part the result is
/// [`Closed`](Status::Closed), and [`Stitched::failed`] names the skipped part.
///
/// In parts of unknown origin ([`Expect::Any`]) an ellipsis at the end of a part or at the start of
/// the next one may replace missing text. It does not stay in a string, and the next part must
/// repeat text that proves its position, too.
///
/// A part that has only closers although more is due is a failure, too: an early end. If no later
/// part is joined, the early end is accepted if the cut is after a whole value and the part repeats
/// the anchor; the seam then has [`early_end`](Seam::early_end).
///
/// ```
/// use restitch::session::{stitch, Status};
/// use restitch::splice::Expect;
///
/// let parts = ["{\"a\": [1, 2", "I can't help with that.", "{\"a\": [1, 2, 3]}"];
/// let stitched = stitch(parts, Expect::Any, &restitch::Limits::default());
/// assert_eq!((stitched.status, stitched.failed.len()), (Status::Complete, 1));
/// assert_eq!(stitched.json, "{\"a\": [1, 2, 3]}");
/// ```
pub fn stitch<'a>(
    parts: impl IntoIterator<Item = &'a str>,
    expect: Expect,
    limits: &Limits,
) -> Stitched {
    stitch_with(parts, &StitchOptions::new().expect(expect), limits)
}

/// Joins parts in order, like [`stitch`], with all options.
///
/// ```
/// use restitch::Limits;
/// use restitch::session::{Rewind, StitchOptions, stitch_with};
/// use restitch::splice::Expect;
///
/// // The second answer contradicts the first one.
/// let parts = ["[{\"id\": 1}, {\"id\": 2, \"by\": \"An", "[{\"id\": 1}, {\"id\": 2, \"by\": \"Bea\"}]"];
/// let options = StitchOptions::new().expect(Expect::Any).rewind(Rewind::Element);
/// let stitched = stitch_with(parts, &options, &Limits::default());
/// assert_eq!(stitched.json, "[{\"id\": 1}, {\"id\": 2, \"by\": \"Bea\"}]");
/// assert_eq!(stitched.rewound, ["/1"]);
/// ```
pub fn stitch_with<'a>(
    parts: impl IntoIterator<Item = &'a str>,
    options: &StitchOptions,
    limits: &Limits,
) -> Stitched {
    let mut stitcher = PartStitcher::new(options, limits);
    let mut parts = parts.into_iter().enumerate().peekable();
    while let Some((number, part)) = parts.next() {
        match stitcher.is_over() {
            true => stitcher.leave_out(number, part),
            false => stitcher.take(number, part, parts.peek().is_none()),
        }
    }
    stitcher.finish()
}

/// The loop over the parts: the document up to now, and the parts that may still belong to it.
struct PartStitcher<'a, 'p> {
    options: &'a StitchOptions,
    limits: &'a Limits,
    slot: Slot,
    /// The first part leaves the grammar, so no part is joined to it.
    is_malformed: bool,
    /// A part after the end of the document has text that the document lacks.
    leaves_out: bool,
    /// The last part was not joined, or not to its end: a number is not whole where the text ends.
    breaks_off: bool,
    /// The parts after the last seam whose text may be missing.
    missing: Vec<&'p str>,
    /// Set where the next part must prove its position by repeated text. The last one ended with an
    /// ellipsis in a string, which may replace missing text and is not in the document; or it
    /// repeated delivered text that ends before the cut. Holds the number of its characters: an answer
    /// that was asked to repeat the anchor repeats them, too.
    unproven: Option<usize>,
    /// The last part that ended the document early, after the last seam.
    early_end: Option<EarlyPart<'p>>,
    result: Stitched,
}

/// A part that ended the document early.
struct EarlyPart<'p> {
    number: usize,
    part: &'p str,
    /// The number of missing parts when it was tried.
    missing: usize,
}

impl<'a, 'p> PartStitcher<'a, 'p> {
    fn new(options: &'a StitchOptions, limits: &'a Limits) -> Self {
        let result = Stitched {
            status: Status::Failed,
            json: String::new(),
            seams: Vec::new(),
            failed: Vec::new(),
            explanations: Vec::new(),
            rewound: Vec::new(),
            others: Vec::new(),
        };
        Self {
            options,
            limits,
            slot: Slot::with_roots(limits, AllowedRoots::Any),
            is_malformed: false,
            leaves_out: false,
            breaks_off: false,
            missing: Vec::new(),
            unproven: None,
            early_end: None,
            result,
        }
    }

    /// Joins one part, or skips it. Accepts an early end only from the last part: another part may
    /// be followed by its retry.
    fn take(&mut self, number: usize, part: &'p str, is_last: bool) {
        if !self.slot.document().text().is_empty() {
            return self.join(number, part, is_last);
        }
        let (text, ellipsis) = self.without_ellipsis(part, is_last);
        self.is_malformed = self.slot.push(text).is_err();
        if self.in_string() {
            self.hold(ellipsis);
        } else if !self.is_malformed {
            self.is_malformed = self.slot.push(ellipsis).is_err();
        }
        self.slot.settle(&mut ());
        if !self.is_over() && self.slot.document().root_start().is_none() {
            self.fail(number, SpliceError::Empty);
        }
    }

    fn join(&mut self, number: usize, part: &'p str, is_last: bool) {
        let (text, ellipsis) = self.without_ellipsis(part, is_last);
        let leading = self.leading_ellipsis(text);
        let text = text.get(leading..).unwrap_or_default();
        let needs_proof = self.unproven.is_some() || leading > 0;
        let after_gap = needs_proof || !self.missing.is_empty();
        let anchor = self.anchor(needs_proof);
        // Joined by its position, the part could close a document that lacks the skipped text, and
        // no report would show it.
        if after_gap && anchor.is_none() && self.slot.document().root_start().is_some() {
            self.missing.push(part);
            return self.fail(number, SpliceError::AfterGap);
        }
        let request = SpliceRequest {
            expect: self.options.expect,
            believes_early_end: is_last,
            anchor,
            after_gap,
            ..SpliceRequest::default()
        };
        let mut splice = Splice::new(&self.slot, request, self.limits);
        let mut fed = splice.feed(&mut self.slot, text);
        // In a string the dots are text as far as the grammar shows, so they wait for the next
        // part.
        let is_held = splice.seam().is_none() || self.in_string();
        if !is_held {
            fed = fed.and_then(|()| splice.feed(&mut self.slot, ellipsis));
        }
        let merged = fed.and_then(|()| splice.finish(&mut self.slot));
        if self.options.is_explained {
            self.result.explanations.push(Explanation {
                part: number,
                after_gap,
                explained: splice.explain(&self.slot, text),
            });
        }
        if let Some(seam) = splice.seam() {
            match seam.alignment {
                Alignment::Repeat => {
                    // The next part continues where the repeat ends. If its text may be new, it is
                    // missing, too.
                    let may_be_new = 1.0 - seam.posterior > self.limits.continuation.max_risk;
                    self.missing.extend(may_be_new.then_some(part));
                    let mut candidates = splice.candidates().iter();
                    if !candidates.any(|one| one.repeats_to_cut(text)) {
                        self.unproven.get_or_insert(0);
                    }
                }
                _ => {
                    self.missing.clear();
                    self.early_end = None;
                    self.unproven = None;
                }
            }
            if is_held {
                self.hold(ellipsis);
            }
            self.result.seams.push(seam.clone());
        }
        self.breaks_off = merged.is_err();
        let Err(failure) = merged else {
            return self.end_of_root(number, &splice);
        };
        // The rest of a part after the end of the root does not matter.
        if !self.is_over() && !self.replace(&failure, part) {
            if failure == SpliceError::EarlyEnd {
                self.early_end = Some(EarlyPart {
                    number,
                    part,
                    missing: self.missing.len(),
                });
            }
            // Spaces may be text of a string.
            let may_be_text =
                self.options.expect == Expect::Any && self.in_string() && !part.is_empty();
            if failure != SpliceError::Empty || may_be_text && part.bytes().all(|byte| byte == b' ')
            {
                self.missing.push(part);
            }
            self.fail(number, failure);
        }
    }

    /// Names a part that has closed the root and continues with JSON: the root may be closed at the
    /// wrong offset.
    fn end_of_root(&mut self, number: usize, splice: &Splice) {
        let document = self.slot.document();
        if document.is_complete() && has_more_json(document, splice.after_root()) {
            self.leaves_out = true;
            self.fail(number, SpliceError::AfterRoot);
        }
    }

    fn in_string(&self) -> bool {
        self.slot.document().machine().in_string()
    }

    /// Splits a part of unknown origin at the ellipsis with which it ends. The last part has no
    /// text after its ellipsis that could be missing.
    fn without_ellipsis(&self, part: &'p str, is_last: bool) -> (&'p str, &'p str) {
        let is_text = is_last || self.options.expect != Expect::Any;
        part.split_at(if is_text {
            part.len()
        } else {
            ellipsis::trailing(part)
        })
    }

    /// Keeps the ellipsis with which a part ends out of the document. It may replace text, so the
    /// next part must prove its position.
    fn hold(&mut self, ellipsis: &str) {
        if !ellipsis.is_empty() {
            self.unproven = Some(ellipsis.chars().count());
        }
    }

    /// Returns the length of the ellipsis with which a part of unknown origin continues a string.
    /// It is text if it begins a repeat of delivered text.
    fn leading_ellipsis(&self, part: &str) -> usize {
        if self.options.expect != Expect::Any || !self.in_string() {
            return 0;
        }
        let length = ellipsis::leading(part);
        if length == 0 {
            return 0;
        }
        let after = part.get(length..).unwrap_or_default();
        let after = after
            .char_indices()
            .nth(EVIDENCE)
            .map_or(part.len(), |(at, _)| length + at);
        let begin = part.get(..after).unwrap_or_default().trim_start();
        if self.slot.document().text().contains(begin) {
            0
        } else {
            length
        }
    }

    /// Returns the tail that a part must repeat to be joined where text may be missing. If no part
    /// was skipped, that is a tail that proves the part's position. After a skipped part it is the
    /// anchor: the skipped part must not have it as new text, and the part after it must not begin
    /// with it as new text.
    fn anchor(&self, needs_proof: bool) -> Option<Range<usize>> {
        let text = self.slot.document().text();
        let root = self.slot.document().root_start().unwrap_or_default();
        let cap = self.limits.continuation.max_anchor_chars;
        if self.missing.is_empty() {
            return needs_proof.then(|| proving_tail(text, root, cap)).flatten();
        }
        let first = Anchor::of(text, cap)?.range;
        let recurs = |start: usize| {
            let (delivered, tail) = (text.get(root..first.end), text.get(start..first.end));
            let (Some(delivered), Some(tail)) = (delivered, tail) else {
                return false;
            };
            self.missing
                .iter()
                .any(|part| may_come_again(delivered, tail, part))
        };
        let after = text
            .get(first.clone())
            .and_then(|anchor| anchor.char_indices().nth(self.unproven.unwrap_or_default()));
        let mut start = (first.start + after.map_or(0, |(at, _)| at)).max(root);
        // A tail that the skipped part may have again does not tell its two places apart, so a
        // longer one is needed.
        while start > root && recurs(start) {
            let longer = first.end.saturating_sub(2 * (first.end - start)).max(root);
            start = (root..=longer)
                .rev()
                .find(|&at| text.is_char_boundary(at))
                .unwrap_or(root);
        }
        (!recurs(start)).then_some(start..first.end)
    }

    fn fail(&mut self, part: usize, reason: SpliceError) {
        self.result.failed.push(FailedPart { part, reason });
    }

    /// Replaces the cut element by that of a part that contradicts it, if this is allowed and
    /// possible.
    fn replace(&mut self, failure: &SpliceError, part: &str) -> bool {
        if self.options.rewind == Rewind::Never || !matches!(failure, SpliceError::Differs(_)) {
            return false;
        }
        let replaced = splice::replaced(&self.slot, part, self.options.expect, self.limits);
        let Some((slot, seam, path)) = replaced else {
            return false;
        };
        self.slot = slot;
        self.result.seams.push(seam);
        self.result.rewound.push(path);
        self.missing.clear();
        true
    }

    /// Records a part after the end of the document. It may belong to another position if the
    /// document lacks its text and the part begins with a comma or with delivered text, or has a
    /// member. A remark does not.
    fn leave_out(&mut self, number: usize, part: &str) {
        let document = self.slot.document();
        let part = part.trim();
        let begins_with_delivered = || {
            let end = part.char_indices().nth(EVIDENCE);
            end.and_then(|(end, _)| part.get(..end))
                .is_some_and(|begin| document.text().contains(begin))
        };
        let belongs = || part.starts_with(',') || part.contains("\":") || begins_with_delivered();
        if document.is_complete() && belongs() && !document.text().contains(part) {
            self.leaves_out = true;
            self.fail(number, SpliceError::AfterRoot);
        }
    }

    /// Accepts an early end after which no part was joined: that part was the last of the document.
    fn believe_early_end(&mut self) {
        let Some(EarlyPart {
            number,
            part,
            missing,
        }) = self.early_end.take().filter(|_| !self.is_over())
        else {
            return;
        };
        // The gap before the part remains: the next part must prove its position again.
        let before = self.missing.iter().take(missing).copied().collect();
        let (missing, breaks_off) = (
            std::mem::replace(&mut self.missing, before),
            self.breaks_off,
        );
        let (failed, explanations) = (self.result.failed.clone(), self.result.explanations.clone());
        self.result.failed.retain(|failed| failed.part != number);
        self.result
            .explanations
            .retain(|explanation| explanation.part != number);
        self.join(number, part, true);
        self.result
            .explanations
            .sort_by_key(|explanation| explanation.part);
        if !self.is_over() {
            (self.missing, self.breaks_off) = (missing, breaks_off);
            (self.result.failed, self.result.explanations) = (failed, explanations);
        }
    }

    /// Returns whether no further part can be joined.
    fn is_over(&self) -> bool {
        let document = self.slot.document();
        self.is_malformed || document.is_complete() || !(document.is_json() || document.is_blank())
    }

    /// Flags seams without a repeat if other parts repeat delivered text: a part may be missing
    /// before them.
    fn flag_bare_seams(&mut self) {
        let is_overlap =
            |seam: &Seam| seam.alignment != Alignment::Repeat && seam.overlap >= EVIDENCE;
        let overlaps = self.result.seams.iter().any(is_overlap);
        if self.options.expect == Expect::Exact || !overlaps {
            return;
        }
        let explained = self
            .result
            .explanations
            .iter_mut()
            .filter_map(|one| one.explained.seam.as_mut());
        // Parts that overlap were cut that way on purpose, so a part that does not overlap may not
        // be the next one.
        for seam in self.result.seams.iter_mut().chain(explained) {
            seam.ambiguous |= seam.alignment == Alignment::Exact;
        }
    }

    fn finish(mut self) -> Stitched {
        self.believe_early_end();
        self.flag_bare_seams();
        let mut document = self.slot.into_document();
        // The end of the parts ends a number. A byte that can't follow it shows that the number was
        // incomplete.
        let breaks_off = self.breaks_off || self.is_malformed;
        let is_whole = !breaks_off && document.finish().is_ok() || document.is_complete();
        let is_complete = is_whole && !self.is_malformed && !self.leaves_out;
        let json = document.complete().unwrap_or_default();
        let status = match is_complete {
            true => Status::Complete,
            false if json.is_empty() || self.is_malformed => Status::Failed,
            false => Status::Closed,
        };
        Stitched {
            status,
            json,
            others: document.other_roots().map(str::to_owned).collect(),
            ..self.result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], expect: Expect, status: Status, json: &str, failed: &[usize]) {
        let stitched = stitch(parts.iter().copied(), expect, &Limits::default());
        let numbers: Vec<usize> = stitched.failed.iter().map(|failed| failed.part).collect();
        assert_eq!(
            (stitched.status, stitched.json.as_str(), &numbers[..]),
            (status, json, failed),
            "{parts:?}"
        );
    }

    #[test]
    fn a_piece_of_a_string_and_a_refusal_look_alike() {
        let pieces = ["{\"a\": \"one ", "two ", "three\", \"b\": 1}"];
        check(
            &pieces,
            Expect::Exact,
            Status::Complete,
            "{\"a\": \"one two three\", \"b\": 1}",
            &[],
        );
        // It is unknown whether `two ` belongs to the document, and the text that the next part
        // repeats does not prove its position.
        check(
            &pieces,
            Expect::Any,
            Status::Closed,
            "{\"a\": \"one \"}",
            &[1, 2],
        );
        // Likewise if the last part is legal only after the skipped one.
        let pieces = ["{\"a\": \"x\\u00", "e9 yz", "\", \"b\": 1}"];
        check(
            &pieces,
            Expect::Any,
            Status::Closed,
            "{\"a\": \"x\"}",
            &[1, 2],
        );
        // Repeated text decides.
        let retried = [
            "{\"a\": \"one ",
            "I am sorry.",
            "{\"a\": \"one two three\", \"b\": 1}",
        ];
        check(
            &retried,
            Expect::Any,
            Status::Complete,
            "{\"a\": \"one two three\", \"b\": 1}",
            &[1],
        );
    }

    const PIECE: &str =
        "{\"id\": 7, \"note\": \"The wind turned over the harbour at dusk and the lamps";

    #[test]
    fn a_piece_that_ends_inside_the_string_is_joined_where_it_repeats_enough() {
        let parts = [
            PIECE,
            "at dusk and the lamps were lit along the q",
            "were lit along the quay.\"}",
        ];
        let whole = format!("{PIECE} were lit along the quay.\"}}");
        check(&parts, Expect::Any, Status::Complete, &whole, &[]);
    }

    #[test]
    fn a_part_after_a_skipped_one_is_never_joined_by_its_position() {
        let closed = format!("{PIECE}\"}}");
        for expect in [Expect::Any, Expect::Anchor, Expect::Exact] {
            for last in [" a mile off.\"}", "\", \"end\": true}"] {
                // The middle part contradicts the document.
                let skipped = "{\"id\": 8, \"note\": \"The wind fell.\"}";
                let parts = [PIECE, skipped, last];
                let stitched = stitch(parts, expect, &Limits::default());
                if expect != Expect::Exact {
                    assert_eq!(
                        (stitched.status, stitched.json.as_str()),
                        (Status::Closed, closed.as_str()),
                        "{expect:?}"
                    );
                    assert_eq!(stitched.failed.len(), 2);
                    assert_eq!(stitched.failed[1].reason, SpliceError::AfterGap);
                }
            }
        }
        // An illegal part is skipped even if exact pieces were expected.
        check(
            &["[1, 2", "I can't help.", ", 3]"],
            Expect::Exact,
            Status::Closed,
            "[1]",
            &[1, 2],
        );
        check(
            &["[1, 2", "I can't help.", "[1, 2, 3]"],
            Expect::Exact,
            Status::Complete,
            "[1, 2, 3]",
            &[1],
        );
    }

    #[test]
    fn a_space_at_the_end_of_a_part_that_is_cut_in_a_string_is_text() {
        let whole = format!("{PIECE} were lit along the quay.\"}}");
        let parts = [
            PIECE,
            "at dusk and the lamps ",
            "were lit along the quay.\"}",
        ];
        check(&parts, Expect::Any, Status::Complete, &whole, &[]);
    }

    #[test]
    fn a_part_after_the_end_of_the_document_is_named() {
        let whole = "[{\"id\": 1}, {\"id\": 2}, {\"id\": 3}]";
        let parts = [
            "[{\"id\": 1}, {\"id\": 2}",
            ", {\"id\": 3}]",
            ", {\"id\": 4}, {\"id\": 5}",
        ];
        check(&parts, Expect::Any, Status::Closed, whole, &[2]);
        // Repeated text and a remark do not count.
        let parts = [
            "[{\"id\": 1}, {\"id\": 2}",
            ", {\"id\": 3}]",
            "{\"id\": 3}]\n",
            "That is all.",
        ];
        check(&parts, Expect::Any, Status::Complete, whole, &[]);
    }

    #[test]
    fn a_part_after_a_skipped_one_is_not_joined_where_equal_rows_repeat_the_tail() {
        let row = |value: u32| format!("{{\"kind\": \"lamp\", \"value\": {value}}}, ");
        let delivered = format!("[{}{}{{\"kind\": \"la", row(1), row(2));
        // The skipped part has the same rows again, or ends inside them.
        let again = format!("mp\": 0}}, {}{}{{\"kind\": \"lamp\"", row(1), row(2));
        let begun = format!("mp\": 0}}, {}{{\"kind\"", row(1));
        for skipped in [again, begun] {
            let last = format!(
                "{}{}{{\"kind\": \"lamp\", \"value\": 3}}]",
                &row(1)[17..],
                row(2)
            );
            let stitched = stitch(
                [delivered.as_str(), &skipped, &last],
                Expect::Any,
                &Limits::default(),
            );
            assert_eq!(stitched.status, Status::Closed, "{stitched:?}");
        }
    }

    #[test]
    fn a_part_inside_a_paragraph_that_comes_twice_is_missing() {
        let paragraph: String = (0..60)
            .map(|n| format!("word{} ", n * 7919 % 1009))
            .collect();
        let between: String = (0..900)
            .map(|n| format!("w{} ", n * 104_729 % 9973))
            .collect();
        let whole = format!(
            "{{\"a\": \"{paragraph}\", \"b\": \"{between}\", \"c\": \"{paragraph}\", \"d\": 1}}"
        );
        let second = whole.rfind("word0 ").unwrap();
        let (first, last) = (second + 60, second + 200);
        let parts = [
            &whole[..first],
            &whole[first - 25..last],
            &whole[last - 20..],
        ];
        let stitched = stitch(parts, Expect::Any, &Limits::default());
        assert_eq!(
            (stitched.status, stitched.failed.len()),
            (Status::Closed, 1),
            "{stitched:?}"
        );
        assert!(
            stitched.seams.iter().all(|seam| seam.ambiguous),
            "{:?}",
            stitched.seams
        );
    }

    #[test]
    fn an_anchor_inside_a_part_does_not_prove_its_place_after_a_gap() {
        let flags = |bits: &str| {
            bits.chars()
                .map(|bit| format!(",\n    {}", bit == '1'))
                .collect::<String>()
        };
        let delivered = format!("{{\"flags\": [\n    true{}", flags("0001011"));
        // The last part continues a part that the skipped one replaces. It has the same flags
        // again.
        let last = format!("lse{}\n]}}", flags("00010110"));
        let parts = [&delivered, "I can't help with that.", &last];
        let stitched = stitch(parts, Expect::Any, &Limits::default());
        assert_eq!(
            (stitched.status, stitched.failed.len()),
            (Status::Closed, 2),
            "{stitched:?}"
        );
    }

    #[test]
    fn a_seam_without_a_repeat_among_parts_that_overlap_is_ambiguous() {
        let middle = "at dusk and the lamps were lit along the quay, and";
        let parts = [PIECE, middle, " the pilot waited\"}"];
        let stitched = stitch(parts, Expect::Any, &Limits::default());
        let flags: Vec<bool> = stitched.seams.iter().map(|seam| seam.ambiguous).collect();
        assert_eq!(
            (stitched.status, flags.last()),
            (Status::Complete, Some(&true)),
            "{stitched:?}"
        );
        // Exact pieces overlap nowhere.
        let parts = ["[10, 2", "0, 30, {\"a\": 1}, {\"b\"", ": 2}, 40]"];
        let stitched = stitch(parts, Expect::Any, &Limits::default());
        assert!(
            stitched.seams.iter().all(|seam| !seam.ambiguous),
            "{stitched:?}"
        );
    }

    #[test]
    fn an_ellipsis_in_place_of_text_does_not_stay_in_a_string() {
        let whole = "{\"text\": \"the tide turns at noon and the harbour master waits\", \"n\": 1}";
        let (cut, rest) = (
            "{\"text\": \"the tide turns at noon and the har",
            "bour master waits\", \"n\": 1}",
        );
        let repeat = &whole[whole.find("turns").unwrap()..];
        for dots in [
            "...",
            "\u{2026}",
            " [...]",
            "[truncated]",
            "... (continued)",
        ] {
            check(
                &[&format!("{cut}{dots}"), repeat],
                Expect::Any,
                Status::Complete,
                whole,
                &[],
            );
            check(
                &[cut, &format!("{dots}{repeat}")],
                Expect::Any,
                Status::Complete,
                whole,
                &[],
            );
            // Nothing proves that no text is missing.
            let closed = "{\"text\": \"the tide turns at noon and the har\"}";
            check(
                &[&format!("{cut}{dots}"), rest],
                Expect::Any,
                Status::Closed,
                closed,
                &[1],
            );
            check(
                &[cut, &format!("{dots}{rest}")],
                Expect::Any,
                Status::Closed,
                closed,
                &[1],
            );
            // Exact pieces are joined unchanged.
            let exact = format!("{cut}{dots}{rest}");
            check(
                &[&format!("{cut}{dots}"), rest],
                Expect::Exact,
                Status::Complete,
                &exact,
                &[],
            );
        }
        // The dots are text: the next part repeats them.
        let text = "{\"text\": \"the tide turns at noon... and the harbour master waits\"}";
        let cut = text.find(" and").unwrap();
        check(
            &[&text[..cut], &text[cut - 25..]],
            Expect::Any,
            Status::Complete,
            text,
            &[],
        );
    }

    #[test]
    fn json_after_the_root_in_a_part_is_named() {
        let parts = [
            "{\"rows\": [\"one\", \"two\"",
            ", \"three\"]}, {\"rows\": [\"four\"]}",
        ];
        check(
            &parts,
            Expect::Any,
            Status::Closed,
            "{\"rows\": [\"one\", \"two\", \"three\"]}",
            &[1],
        );
    }

    #[test]
    fn the_rest_of_a_part_that_breaks_off_is_missing() {
        let parts = [
            "[{\"id\": 1}, {\"id\": 2}",
            ", {\"id\": 3}, {id: 4}",
            ", {\"id\": 5}]",
        ];
        check(
            &parts,
            Expect::Any,
            Status::Closed,
            "[{\"id\": 1}, {\"id\": 2}, {\"id\": 3}, {}]",
            &[1, 2],
        );
    }

    #[test]
    fn only_the_last_part_may_end_the_document_early() {
        let (open, early) = (
            "{\"list\": [\"one\", \"two\", \"three\"",
            "{\"list\": [\"one\", \"two\", \"three\"]}",
        );
        let whole = "{\"list\": [\"one\", \"two\", \"three\", \"four\"]}";
        check(
            &[open, early, whole],
            Expect::Any,
            Status::Complete,
            whole,
            &[1],
        );
        let stitched = stitch([open, early], Expect::Any, &Limits::default());
        assert_eq!(
            (stitched.status, stitched.json.as_str()),
            (Status::Complete, early)
        );
        assert!(stitched.seams[0].early_end, "{stitched:?}");
        // No part is joined after it, so it was the last one.
        check(
            &[open, early, "I can't help with that."],
            Expect::Any,
            Status::Complete,
            early,
            &[2],
        );
        // An end inside a string is doubtful, and so is one with an ellipsis.
        let cut = &open[..open.len() - 3];
        check(
            &[cut, &format!("{cut}\"]}}")],
            Expect::Any,
            Status::Closed,
            "{\"list\": [\"one\", \"two\", \"thr\"]}",
            &[1],
        );
        check(
            &[cut, &format!("{cut}…\"]}}")],
            Expect::Any,
            Status::Closed,
            "{\"list\": [\"one\", \"two\", \"thr\"]}",
            &[1],
        );
        check(
            &[open, &format!("{open}, \"...\"]}}")],
            Expect::Any,
            Status::Closed,
            early,
            &[1],
        );
    }
}
