//! Joins the parts of an answer that have all arrived.

use super::Status;
use crate::envelope::AllowedRoots;
use crate::limits::Limits;
use crate::splice::{self, Alignment, Expect, Explained, Seam, Slot, Splice, SpliceError, SpliceRequest};

/// The document that the parts make.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stitched {
    /// Complete; closed; or failed, if nothing of the document is certain or the first part is not JSON.
    pub status: Status,
    /// The document without the text around it. If it is closed, its complete part. If it failed: empty, or what precedes the
    /// mistake of the first part.
    pub json: String,
    /// The seams, in order.
    pub seams: Vec<Seam>,
    /// Parts that failed to merge, or broke the grammar.
    pub failures: u32,
    /// Why each part after the first was joined where it was, or skipped. Empty unless
    /// [`explained`](StitchOptions::explained) was called.
    pub explanations: Vec<Explanation>,
    /// JSON Pointers of the elements that were replaced because a later part contradicted them, in order. The root's
    /// pointer is empty. See [`Rewind`].
    pub rewound: Vec<String>,
}

/// Why one part was joined where it was, or skipped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The part's number. The first part is 0.
    pub part: usize,
    /// Whether skipped parts are between the part and the document.
    pub between: Between,
    /// The decision. If [`between`](Self::between) is unclear: the decision without the skipped parts.
    pub explained: Explained,
    /// The text that each candidate would add to the document, in the order of the candidates, cut after
    /// [`SHOWN`](Self::SHOWN) characters.
    pub adds: Vec<String>,
}

/// Whether skipped parts are between a part and the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Between {
    /// No skipped part is between them.
    Nothing,
    /// The fragment is the skipped parts and this one, and its offsets count from the first skipped part.
    Skipped,
    /// The part fits after the skipped parts and without them, and nothing decides between the two: it was skipped,
    /// too.
    Unclear,
}

impl Explanation {
    /// Characters that are kept of the text that a candidate would add.
    pub const SHOWN: usize = 40;

    fn new(part: usize, between: Between, explained: Explained, fragment: &str) -> Self {
        let adds = explained.candidates.iter().map(|candidate| {
            let text = candidate.adds(fragment);
            text.chars().take(Self::SHOWN).collect()
        });
        Self { part, between, adds: adds.collect(), explained }
    }

    /// Returns the seam of the part, if it was joined.
    pub fn seam(&self) -> Option<&Seam> {
        self.explained.seam.as_ref().filter(|_| self.between != Between::Unclear)
    }

    /// Returns whether the part failed to merge.
    pub fn is_failure(&self) -> bool {
        self.explained.failure.is_some() || self.between == Between::Unclear
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
/// assert_eq!((why.part, why.adds[0].as_str()), (1, "0, 30]"));
/// let winner = &why.explained.candidates[0];
/// assert_eq!((winner.alignment, winner.status), (Alignment::Exact, AttemptStatus::Won));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StitchOptions {
    expect: Expect,
    rewind: Rewind,
    is_explained: bool,
}

impl StitchOptions {
    /// Makes options for parts of unknown origin ([`Expect::Any`]), without replacing and without explaining.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how the continuations were asked for.
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets what to do if a part contradicts the value that was cut.
    pub fn rewind(mut self, rewind: Rewind) -> Self {
        self.rewind = rewind;
        self
    }

    /// Explains every part: [`Stitched::explanations`]. Reads the delivered text once more for each part.
    pub fn explained(mut self) -> Self {
        self.is_explained = true;
        self
    }
}

/// What to do if a part begins again and contradicts the value that was cut ([`SpliceError::Differs`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rewind {
    /// Keep the value: the part has failed.
    #[default]
    Never,
    /// Replace the innermost array element that was cut, or the root if no element was cut, by the part's own value, if the
    /// part fits there. A part that begins with an element may mean an element that follows the cut one. The cut one is
    /// lost then, so [`Stitched::rewound`] lists it.
    Element,
}

/// Joins parts in order. A part that fails to merge is skipped: the next one is its retry.
///
/// A part that could be a piece of the string that was cut may also be a refusal, unless exact pieces were asked for
/// ([`Expect::Exact`]). Such a part is skipped and remembered. A later part without the anchor that fits both with and
/// without the skipped part fails, too, since nothing decides between the two.
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
pub fn stitch_with<'a>(parts: impl IntoIterator<Item = &'a str>, options: &StitchOptions, limits: &Limits) -> Stitched {
    let mut stitcher = Stitcher::new(options, limits);
    for (number, part) in parts.into_iter().enumerate() {
        stitcher.take(number, part);
        if stitcher.is_over() {
            break;
        }
    }
    stitcher.finish()
}

/// The loop over the parts: the document so far, and the parts that may still belong to it.
struct Stitcher<'a> {
    options: &'a StitchOptions,
    limits: &'a Limits,
    slot: Slot,
    /// The first part leaves the grammar: nothing is joined to it.
    is_malformed: bool,
    /// The last part was not joined, or not to its end: a number is not whole where the text ends.
    breaks_off: bool,
    /// The parts since the last seam that may be pieces of the string that was cut.
    skipped: String,
    result: Stitched,
}

impl<'a> Stitcher<'a> {
    fn new(options: &'a StitchOptions, limits: &'a Limits) -> Self {
        let result = Stitched {
            status: Status::Failed,
            json: String::new(),
            seams: Vec::new(),
            failures: 0,
            explanations: Vec::new(),
            rewound: Vec::new(),
        };
        Self {
            options,
            limits,
            slot: Slot::with_roots(limits, AllowedRoots::Any),
            is_malformed: false,
            breaks_off: false,
            skipped: String::new(),
            result,
        }
    }

    /// Joins one part, or skips it.
    fn take(&mut self, number: usize, part: &str) {
        if self.slot.document().text().is_empty() {
            self.is_malformed = self.slot.push(part).is_err();
            self.slot.settle(&mut ());
            let is_blank = !self.is_over() && self.slot.document().root_start().is_none();
            self.result.failures += u32::from(is_blank);
            return;
        }
        match self.between(part) {
            (Between::Unclear, explained) => {
                self.result.failures += 1;
                self.explain(number, Between::Unclear, explained, part);
            }
            (Between::Skipped, _) => {
                let whole = std::mem::take(&mut self.skipped) + part;
                self.join(number, Between::Skipped, &whole);
            }
            _ => self.join(number, Between::Nothing, part),
        }
    }

    /// Returns whether the skipped parts are before this one, and the decision on it without them, if that is asked
    /// for.
    fn between(&self, part: &str) -> (Between, Option<Explained>) {
        if self.skipped.is_empty() {
            return (Between::Nothing, None);
        }
        let ((is_exact, is_whole), explained) = self.try_join(part);
        let between = match self.try_join(&format!("{}{part}", self.skipped)).0 {
            // The part goes on with and without the skipped parts, and breaks off in both readings or in neither.
            (true, also_whole) if is_exact && is_whole == also_whole => Between::Unclear,
            (true, true) if !is_whole => Between::Skipped,
            _ => Between::Nothing,
        };
        (between, explained)
    }

    /// Tries a fragment on a copy of the document. Returns whether it goes on right at the cut, and whether all of it
    /// fits.
    fn try_join(&self, fragment: &str) -> ((bool, bool), Option<Explained>) {
        let mut slot = self.slot.clone();
        let mut splice = Splice::new(&slot, self.request(), self.limits);
        let fed = splice.feed(&mut slot, fragment);
        let is_whole = fed.and_then(|()| splice.finish(&mut slot)).is_ok();
        let is_exact = splice.seam().is_some_and(|seam| seam.alignment == Alignment::Exact);
        ((is_exact, is_whole), self.options.is_explained.then(|| splice.explain(&slot)))
    }

    /// Nobody can be asked again: an early end is believed.
    fn request(&self) -> SpliceRequest {
        SpliceRequest { expect: self.options.expect, believes_early_end: true, ..SpliceRequest::default() }
    }

    fn join(&mut self, number: usize, between: Between, fragment: &str) {
        let expect = self.options.expect;
        let mut splice = Splice::new(&self.slot, self.request(), self.limits);
        let fed = splice.feed(&mut self.slot, fragment);
        let merged = fed.and_then(|()| splice.finish(&mut self.slot));
        let explained = self.options.is_explained.then(|| splice.explain(&self.slot));
        self.explain(number, between, explained, fragment);
        if let Some(seam) = splice.seam() {
            self.result.seams.push(seam.clone());
            self.skipped.clear();
        }
        self.breaks_off = merged.is_err();
        let Err(failure) = merged else { return };
        // The rest of a part after the end of the root does not matter.
        if self.is_over() || self.replace(&failure, fragment) {
            return;
        }
        self.result.failures += 1;
        if failure == SpliceError::Undecided && expect != Expect::Exact {
            self.skipped.push_str(fragment);
        }
    }

    /// Replaces the element that was cut by that of a part that contradicts it, if that is asked for and possible.
    fn replace(&mut self, failure: &SpliceError, part: &str) -> bool {
        if self.options.rewind == Rewind::Never || !matches!(failure, SpliceError::Differs(_)) {
            return false;
        }
        let replaced = splice::replaced(&self.slot, part, self.options.expect, self.limits);
        let Some((slot, seam, path)) = replaced else { return false };
        self.slot = slot;
        self.result.seams.push(seam);
        self.result.rewound.push(path);
        self.skipped.clear();
        true
    }

    fn explain(&mut self, number: usize, between: Between, explained: Option<Explained>, fragment: &str) {
        let explanation = explained.map(|explained| Explanation::new(number, between, explained, fragment));
        self.result.explanations.extend(explanation);
    }

    /// Returns whether no further part can be joined.
    fn is_over(&self) -> bool {
        let document = self.slot.document();
        self.is_malformed || document.is_complete() || !(document.is_json() || document.is_blank())
    }

    fn finish(self) -> Stitched {
        let mut document = self.slot.into_document();
        // The end of the parts ends a number. A byte that can't follow it says that it was to be another value.
        let is_whole = !self.breaks_off && document.finish().is_ok() || document.is_complete();
        let is_complete = is_whole && !self.is_malformed;
        let json = document.complete().unwrap_or_default();
        let status = match is_complete {
            true => Status::Complete,
            false if json.is_empty() || self.is_malformed => Status::Failed,
            false => Status::Closed,
        };
        Stitched { status, json, ..self.result }
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
        // Nothing decides whether `two ` belongs to the document: neither reading is taken.
        check(&pieces, Expect::Any, Status::Closed, "{\"a\": \"one \"}", 2);
        // The same if it breaks off in both readings.
        let pieces = ["{\"b\": 1, \"a\": \"one ", "two ", "three\", \"b\": 2}"];
        check(&pieces, Expect::Any, Status::Closed, "{\"b\": 1, \"a\": \"one \"}", 2);
        // The anchor decides.
        let retried = ["{\"a\": \"one ", "I am sorry.", "{\"a\": \"one two three\", \"b\": 1}"];
        check(&retried, Expect::Any, Status::Complete, "{\"a\": \"one two three\", \"b\": 1}", 1);
        // The grammar decides: without the second part the last one does not fit.
        let pieces = ["{\"a\": \"x\\u00", "e9 yz", "\", \"b\": 1}"];
        check(&pieces, Expect::Any, Status::Complete, "{\"a\": \"x\\u00e9 yz\", \"b\": 1}", 1);
    }
}
