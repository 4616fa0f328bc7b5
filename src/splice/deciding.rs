//! Before the decision: each character of the fragment goes to the attempts, the readers and the
//! matchers, which find the candidates.
//!
//! Text of an open string that no candidate, reader or matcher can tell apart is taken as a run. The
//! result is that of the characters one by one: a run ends before, or with, the first character
//! that could begin or end a candidate, change what counts as repeated, or let a decision fall.

mod attempts;
mod candidates;
mod fragment;
mod readings;
#[cfg(test)]
mod tests;

use memchr::{memchr2, memchr2_iter};

use super::attempt::SpliceAttempt;
use super::cut_context::CutContext;
use super::flow::{is_space, skippable_len};
use super::predictor::Counting;
use super::prior::Start;
use super::score::Schedule;
use super::seam::{Alignment, Expect};
use super::slot::Slot;
use super::task::{Caps, SpliceTask};
use crate::envelope::ContentStart;
use crate::overlap::{Anchor, Matcher, NearAnchor, Run};
use crate::work;
pub(super) use attempts::OpenAttempts;
use candidates::CandidateFinder;
pub(super) use fragment::{Fragment, FragmentCosts};
pub(super) use readings::{LostElementReading, Readings};

/// A fragment whose beginning is not decided.
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    pub(super) cut: CutContext,
    pub(super) fragment: Fragment,
    pub(super) matcher: Matcher,
    pub(super) near: RequestedAnchorSearch,
    pub(super) readings: Readings,
    pub(super) attempts: OpenAttempts,
    pub(super) caps: Caps,
    pub(super) schedule: Schedule,
    /// The bytes that are looked at for the next run.
    run_ahead: usize,
    /// The offsets at which content has begun.
    begun: usize,
}

/// The requested anchor, and the search for a nearly exact repeat of it.
#[derive(Clone, Debug)]
pub(super) struct RequestedAnchorSearch {
    pub(super) anchor: NearAnchor,
    /// Where the anchor begins in the delivered text.
    pub(super) from: usize,
    /// Its bytes.
    pub(super) length: usize,
    /// It may occur elsewhere in the delivered text.
    pub(super) is_ambiguous: bool,
}

/// Places at which content begins: each is searched in the delivered text. Preambles have fewer
/// lines.
// Each start of content reads the window of delivered text once
// (`tests::text_that_repeats_itself_costs_the_same_for_each_byte` has the bound).
// docs/internals/seam.md states it.
pub(super) const CONTENTS: usize = 256;
/// Bytes that an answer may leave out at the start of the anchor. If more are missing, the answer
/// may begin in the second of two equal rows.
// A quote, a brace and a few spaces, or half a word: what tokenizers cut off. From the length of a
// short row on, the answer may begin in the next one.
pub(super) const LOST: usize = 8;
/// The number of characters from which on an anchor is unlikely to occur by chance.
// The same number as `overlap::EVIDENCE`, in characters of the fragment. docs/internals/seam.md
// states it.
pub(super) const FEW: usize = 16;
/// The bytes that are looked at for a run where the one before was short.
// Chosen: a run that ends early costs at most this many bytes looked at in vain, which is some tens
// of nanoseconds; it doubles while runs are long.
const LEAST_AHEAD: usize = 64;

impl Deciding {
    /// Lets all candidates read a fragment. `counting` has counted some of the delivered text.
    pub(super) fn new(
        slot: &Slot,
        task: &SpliceTask,
        anchor: &Anchor,
        counting: Option<Counting>,
    ) -> Self {
        let (text, caps) = (slot.text(), task.caps);
        let root = slot.document().root_start().unwrap_or_default();
        let near = NearAnchor::new(
            text.get(anchor.range.start.max(root)..anchor.range.end)
                .unwrap_or_default(),
        );
        let mut deciding = Self {
            cut: CutContext::new(slot, &task.request, caps.window, counting),
            fragment: Fragment::new(),
            matcher: Matcher::new(text, anchor.range.clone(), root, caps.window),
            near: RequestedAnchorSearch {
                anchor: near,
                from: anchor.range.start,
                length: anchor.range.len(),
                is_ambiguous: anchor.ambiguous,
            },
            readings: Readings::new(),
            attempts: OpenAttempts::new(caps.pending),
            caps,
            schedule: Schedule::default(),
            run_ahead: LEAST_AHEAD,
            begun: 0,
        };
        deciding.finder(slot).exact(0);
        deciding
    }

    fn finder<'a>(&'a mut self, slot: &'a Slot) -> CandidateFinder<'a> {
        CandidateFinder {
            slot,
            cut: &self.cut,
            near: &self.near,
            fragment: &mut self.fragment,
            attempts: &mut self.attempts,
        }
    }

    /// Takes the next character of the fragment.
    pub(super) fn take(&mut self, slot: &Slot, c: char) {
        let at = self.fragment.text.len();
        let start = self
            .fragment
            .scanner
            .take(c)
            .filter(|start| self.begins_content(*start, at));
        let (fragment, cut) = (&mut self.fragment, &self.cut);
        if start.is_some() {
            fragment.costs.begin(cut.here());
        }
        fragment.text.push(c);
        let new = fragment.text.as_bytes().get(at..).unwrap_or_default();
        fragment.costs.push(&cut.predictor, new);
        // The open attempts take the character before new ones are found with it: an attempt that begins
        // here takes the fragment from its own start.
        self.attempts.feed(slot, fragment.from(at));
        if let Some(start) = start {
            self.begin_content(slot, start, at, c);
        }
        if matches!(c, '{' | '[') {
            self.fragment.note_bracket(at);
        }
        self.readings
            .take_lost(&self.cut.predictor, c.encode_utf8(&mut [0; 4]));
        self.read(slot, at);
        let mut is_tail = false;
        for end in at + 1..=self.fragment.text.len() {
            let hits = self.matcher.feed(
                slot.text(),
                self.fragment.text.as_bytes().get(..end).unwrap_or_default(),
            );
            self.finder(slot).matched(hits, end);
            is_tail = hits.overlap.is_some();
        }
        let end = self.fragment.text.len();
        let verbatim = self.matcher.may_repeat().then_some(end);
        self.fragment
            .note_repeated(verbatim, self.readings.repeated());
        // A verbatim repeat of a shorter tail counts as that, and not as a nearly exact repeat of
        // the anchor.
        if let Some(edits) = self
            .near
            .anchor
            .feed(c)
            .filter(|_| !is_tail && self.cut.request.expect != Expect::Exact)
        {
            self.finder(slot).repeated_nearly(edits);
        }
    }

    /// Takes the beginning of `text` that is a run; returns its length, or 0 where the next
    /// character must be [taken](Self::take) alone.
    pub(super) fn take_run(&mut self, slot: &Slot, text: &str) -> usize {
        let from = self.fragment.text.len();
        // Text that is examined and not taken is examined again, so a run examines at most twice
        // the length of the run before.
        let ahead = text
            .get(..floor(text, self.run_ahead.min(text.len())))
            .unwrap_or_default();
        let length = self.run_len(slot, ahead);
        work::steps(length);
        let run = ahead.get(..floor(ahead, length)).unwrap_or_default();
        if run.is_empty() {
            self.run_ahead = LEAST_AHEAD;
            return 0;
        }
        self.fragment.text.push_str(run);
        // Once no attempt can be added, it only matters that there were too many.
        let finds_overlaps = !self.attempts.is_crowded();
        let Run { end, kept, hits } =
            self.matcher
                .run(slot.text(), &self.fragment.text, from, finds_overlaps);
        let (fragment, predictor) = (&mut self.fragment, &self.cut.predictor);
        fragment.text.truncate(end);
        let run = fragment.text.get(from..).unwrap_or_default();
        fragment.costs.push(predictor, run.as_bytes());
        fragment.scanner.run(run);
        self.attempts.feed(slot, run);
        let brackets = memchr2_iter(b'{', b'[', run.as_bytes()).map(|at| from + at);
        fragment.brackets.extend(brackets);
        self.readings.take_lost(predictor, run);
        self.read(slot, from);
        self.finder(slot).matched(hits, end);
        self.fragment
            .note_repeated((kept > from).then_some(kept), self.readings.repeated());
        self.schedule.skip(&self.fragment.text, from, end);
        self.run_ahead = (2 * (end - from)).max(LEAST_AHEAD);
        end - from
    }

    /// The bytes of `text` that are text of a string for everybody, and at which no decision falls.
    fn run_len(&self, slot: &Slot, text: &str) -> usize {
        let fragment = &self.fragment;
        let counts @ (_, verified) = self.attempts.counts();
        let is_quiet = fragment.text.len() > fragment.begin
            && fragment.scanner.is_settled()
            && self.near.anchor.is_over()
            && self.schedule.counts() == counts
            && self.attempts.open.iter().all(SpliceAttempt::is_in_text)
            && self.readings.is_in_text(slot);
        if !is_quiet {
            return 0;
        }
        let room = self.caps.pending.saturating_sub(fragment.pending());
        let due = if verified > 0 {
            self.schedule.next().saturating_sub(fragment.text.len())
        } else {
            usize::MAX
        };
        let bytes = text.as_bytes();
        let bytes = bytes.get(..room.min(due)).unwrap_or(bytes);
        let mut length = skippable_len(bytes);
        if fragment.bracket.is_none() && !fragment.is_prose {
            let bytes = bytes.get(..length).unwrap_or_default();
            length = memchr2(b'{', b'[', bytes).unwrap_or(length);
        }
        let bytes = bytes.get(..length).unwrap_or_default();
        self.readings.same_text_len(&self.cut.token, bytes)
    }

    /// Whether content begins again at `at`, where it may begin: false for a line that may belong
    /// to earlier content.
    fn begins_content(&mut self, start: ContentStart, at: usize) -> bool {
        if self.begun >= CONTENTS {
            return false;
        }
        if !self.near.anchor.is_alive() {
            self.near.anchor.begin();
        }
        let may_repeat = || self.fragment.begin < at && self.matcher.may_repeat();
        start != ContentStart::Line
            || !(self.readings.is_following() || !self.attempts.open.is_empty() || may_repeat())
    }

    /// Records that content begins at `at`, with `c`.
    fn begin_content(&mut self, slot: &Slot, start: ContentStart, at: usize, c: char) {
        self.begun += 1;
        self.fragment.begin_content(start, at, c);
        self.matcher.begin(at);
        self.readings
            .note_contradictions(&self.fragment.inputs(&self.cut));
        self.readings.begin(slot, &self.cut, c, self.caps.children);
        if at > 0 && (start != ContentStart::First || !self.attempts.tries_cut()) {
            let from = self.fragment.line_start(slot, start, at);
            self.finder(slot).exact(from);
        }
    }

    /// Lets the readers take the fragment's text from `at` on.
    fn read(&mut self, slot: &Slot, at: usize) {
        let fragment = &self.fragment;
        if fragment.scanner.in_reasoning() || at < fragment.begin {
            return;
        }
        // Reasoning is not content, and neither is the envelope before its beginning: a value in them that
        // equals a delivered one is a quotation.
        let inputs = fragment.inputs(&self.cut);
        for arrival in self.readings.read(slot, &inputs, fragment.from(at)) {
            self.finder(slot).arrived(arrival);
        }
    }

    /// Handles the request's mark.
    pub(super) fn mark(&mut self, slot: &Slot) {
        self.finder(slot).mark();
    }

    /// Whether a tag here is one of the request's: alone on a line, or a closing tag before any new
    /// text.
    pub(super) fn may_be_tag(&self, tag: &str) -> bool {
        let is_at_seam = |attempt: &SpliceAttempt| {
            let candidate = &attempt.candidate;
            candidate.alignment != Alignment::Exact
                && self
                    .fragment
                    .from(candidate.at)
                    .trim_matches(is_space)
                    .is_empty()
        };
        // A prompt has tags; a prefill has none.
        let is_prompted = self.cut.request.expect != Expect::Exact;
        is_prompted
            && (is_line_start(&self.fragment.text)
                || tag.starts_with("</") && self.attempts.open.iter().any(is_at_seam))
    }

    /// Whether a fence has only the requested anchor, and no new text.
    pub(super) fn is_anchor_alone(&self) -> bool {
        let is_bare = |attempt: &SpliceAttempt| is_bare_anchor(attempt, &self.fragment);
        self.fragment.is_fenced && self.attempts.open.iter().any(is_bare)
    }

    /// Text after the anchor may be a remark on it, so it must prove itself.
    pub(super) fn doubt_anchor(&mut self) {
        for attempt in &mut self.attempts.open {
            if is_bare_anchor(attempt, &self.fragment) {
                attempt.candidate.start = Start::Nearly;
            }
        }
    }
}

/// Whether the fragment ends with the anchor of this attempt.
fn is_bare_anchor(attempt: &SpliceAttempt, fragment: &Fragment) -> bool {
    let candidate = &attempt.candidate;
    candidate.alignment == Alignment::Anchor
        && fragment
            .from(candidate.at)
            .trim_matches(is_space)
            .is_empty()
}

/// Nothing but white space precedes in this line.
fn is_line_start(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t', '\r']);
    before.is_empty() || before.ends_with('\n')
}

/// The last character boundary up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or_default()
}
