//! The scores of the candidates, and the decisions that they lead to while the fragment streams and
//! at its end.

use super::attempt::{ALONE, SpliceAttempt};
use super::candidate::{Candidate, Evidence, TakenElement};
use super::cursor::{TokenAtCut, value_start};
use super::cut_context::{CutContext, says_something};
use super::decide::{self, AlternativeReadings, Decision, Scored};
use super::deciding::{Deciding, FEW, Fragment, LostElementReading, RequestedAnchorSearch};
use super::early_end::{closes_only, completes_one_value, is_believed, only_closes};
use super::flow::is_space;
use super::prior::{self, Start};
use super::seam::{Alignment, Expect, SpliceError};
use super::slot::Slot;
use crate::json::Kind;

/// The meaning of a fragment's end.
#[derive(Debug)]
pub(super) enum FragmentEnd {
    /// The attempt with this number wins, with this probability.
    Join {
        winner: usize,
        posterior: f64,
        /// Its new text only closes the root, although more was due.
        is_early: bool,
    },
    /// The fragment repeats this many bytes and has no new text, with this probability.
    Repeat(usize, f64),
    Failed(SpliceError),
}

/// When the scores are computed: after each character at first, then after each sixteenth of the
/// text since a candidate was added, rejected or verified. A decision waits for a sixteenth more,
/// and the cost of a long fragment is not quadratic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule {
    /// The open candidates, and the verified ones.
    counts: (usize, usize),
    changed: usize,
    next: usize,
}

impl Schedule {
    pub(super) fn counts(&self) -> (usize, usize) {
        self.counts
    }

    /// Returns the length of the fragment at which the scores are due next.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Whether the scores are due at this length of the fragment.
    pub(super) fn is_due(&mut self, counts: (usize, usize), len: usize) -> bool {
        if counts != self.counts {
            *self = Self {
                counts,
                changed: len,
                next: len,
            };
        }
        let is_due = len >= self.next;
        if is_due {
            self.next = len + 1 + (len - self.changed) / 16;
        }
        is_due
    }

    /// Records that the fragment's text has grown from `from` to `end` without a change, with the
    /// same result as a check after each character but the last.
    pub(super) fn skip(&mut self, text: &str, from: usize, end: usize) {
        while self.next < end {
            let after = self.next.max(from + 1);
            let Some(at) = (after..end).find(|&at| text.is_char_boundary(at)) else {
                return;
            };
            self.is_due(self.counts, at);
        }
    }
}

/// The new text and the data to compare it with.
struct Scoring<'a> {
    slot: &'a Slot,
    cut: &'a CutContext,
    near: &'a RequestedAnchorSearch,
    fragment: &'a Fragment,
    lost: Option<&'a LostElementReading>,
    /// The fragment has ended, so no further text can verify a candidate.
    at_end: bool,
}

impl Scoring<'_> {
    /// Brings the evidence of a candidate up to date, and returns its score.
    fn scored(&self, attempt: &mut SpliceAttempt) -> Scored {
        let misfit = self.misfit(attempt);
        attempt.candidate.evidence.misfit = misfit;
        let lost = match attempt.candidate.alignment {
            Alignment::Exact => self.at_cut(attempt),
            Alignment::Restart | Alignment::Reentry => self.restarted(attempt),
            Alignment::Anchor if attempt.candidate.start == Start::Nearly => {
                self.nearly(&attempt.candidate)
            }
            _ => f32::NEG_INFINITY,
        };
        // Legal text after a gap continues the skipped part as well as the delivered one, so the score
        // alone must not join it.
        let proves_place = !self.cut.request.after_gap || self.repeats_anchor(&attempt.candidate);
        Scored {
            score: attempt.candidate.evidence.score(),
            lost,
            document: attempt.document(),
            is_verified: attempt.is_verified(),
            may_win: proves_place
                && (attempt.is_verified() || self.at_end && self.may_end(attempt)),
            is_proven: self.at_end
                && self.cut.request.expect == Expect::Any
                && attempt.is_proven(&self.fragment.text),
            is_alone: attempt.is_alone(),
            is_requested: attempt.candidate.start.is_requested(),
            rank: (rank(attempt), attempt.candidate.at),
        }
    }

    /// Whether the candidate may win at the end of the fragment although the grammar has not
    /// verified it. An answer to a request for the anchor that repeats too little text may be a
    /// refusal, or another row.
    fn may_end(&self, attempt: &SpliceAttempt) -> bool {
        attempt.may_end()
            && (self.cut.request.expect == Expect::Any || attempt.is_proven(&self.fragment.text))
    }

    /// Whether the fragment repeats the whole anchor, and the anchor is unique. After a gap, text
    /// that is legal at the cut proves nothing. A shorter tail doesn't either: a missing row may
    /// end like a delivered one.
    fn repeats_anchor(&self, candidate: &Candidate) -> bool {
        let root = self.slot.document().root_start().unwrap_or_default();
        candidate.overlap > 0
            && candidate.from <= self.near.from.max(root)
            && !self.near.is_ambiguous
    }

    /// The bits that the new text costs after the delivered text, less those that it costs after
    /// the text before it.
    fn misfit(&self, attempt: &mut SpliceAttempt) -> f32 {
        let at = attempt.candidate.at;
        if attempt.candidate.alignment == Alignment::Exact {
            return 0.0;
        }
        let new = self.new_text(&attempt.candidate);
        attempt.new_text.take(at, new, self.cut);
        let to = at + attempt.new_text.len();
        // Only the beginning of a long fragment is counted.
        if self.fragment.costs.at_cut.knows(to) {
            (attempt.new_text.bits() - self.fragment.costs.at_cut.between(at, to)).max(0.0)
        } else {
            0.0
        }
    }

    fn new_text(&self, candidate: &Candidate) -> &str {
        self.fragment.from(candidate.at)
    }

    /// Goes on at the cut. Returns the score of the reading in which the element that was cut, or a
    /// whole one, is lost.
    fn at_cut(&self, attempt: &mut SpliceAttempt) -> f32 {
        let (cut, new) = (self.cut, self.new_text(&attempt.candidate));
        let element = new.trim_start_matches([',', ' ', '\n', '\r', '\t']);
        let (due, skipped) = match attempt.candidate.at {
            0 if cut.is_key_due() => cut.members_bits(element),
            _ => cut.next_bits(element),
        };
        let misfit = self.strangeness(attempt, new) - due;
        let prior = attempt.candidate.start.prior(cut.request.expect);
        attempt.candidate.evidence = Evidence::new(prior, 0.0, misfit);
        let content = self.fragment.content();
        let next = self.next_element(self.fragment.text.len());
        next.map_or(prior + prior::SKIPPED + skipped, |score| {
            score + cut.after_element_bits(content)
        })
    }

    /// Begins again before the cut.
    fn restarted(&self, attempt: &mut SpliceAttempt) -> f32 {
        let (cut, new) = (self.cut, self.new_text(&attempt.candidate));
        let opened = self.fragment.opened(attempt.candidate.at);
        let (due, skipped) = cut.opened_bits(opened);
        let strangeness = self.strangeness(attempt, new);
        let evidence = &mut attempt.candidate.evidence;
        evidence.misfit += strangeness;
        let skips = evidence.score() + prior::SKIPPED + skipped;
        evidence.misfit -= due + cut.next_bits(new).0.max(0.0);
        match evidence.element {
            Some(TakenElement {
                depth,
                at,
                lost,
                identity,
            }) => {
                let own = cut.element_bits(depth, self.fragment.from(at));
                evidence.score() + lost - identity - own
            }
            None => skips,
        }
    }

    /// Repeats the anchor nearly: the next element may be nearly the same.
    fn nearly(&self, candidate: &Candidate) -> f32 {
        self.next_element(candidate.at).unwrap_or(f32::NEG_INFINITY)
    }

    /// The score of the reading in which the element that was cut is lost and the content before
    /// `to` is of the next one; `None` where that is illegal.
    fn next_element(&self, to: usize) -> Option<f32> {
        let from = self.fragment.begin;
        let costs = &self.lost?.costs;
        let gain =
            self.fragment.costs.at_cut.between(from, to) - costs.before(to.saturating_sub(from));
        Some(Start::Container.prior(self.cut.request.expect) + prior::LOST + gain)
    }

    /// The bits against the first key of the new text, once the key is known.
    fn strangeness(&self, attempt: &mut SpliceAttempt, new: &str) -> f32 {
        if attempt.new_text.strangeness.is_none() {
            attempt.new_text.strangeness = self.cut.strangeness(self.slot, new);
        }
        attempt.new_text.strangeness.unwrap_or_default()
    }
}

impl Deciding {
    /// Whether the candidate was not requested and repeats delivered text from the cut array
    /// element on, or from before it, and the fragment may have another element there. Either only
    /// brackets of the element were delivered, and no number continues the series; or little
    /// identifies it, and the two elements before it are equal. In parts of unknown origin, also if
    /// it repeats elements that recur elsewhere and whose order has little information.
    pub(super) fn may_be_another_element(&self, slot: &Slot, candidate: &Candidate) -> bool {
        let is_anchor = candidate.start.is_requested() || candidate.start == Start::Nearly;
        if is_anchor || candidate.overlap == 0 {
            return false;
        }
        let is_weak = || {
            self.cut
                .bits_in_order(slot, candidate.from)
                .is_some_and(|bits| bits < prior::ENOUGH)
        };
        if self.cut.request.expect == Expect::Any && is_weak() {
            return true;
        }
        let frames = slot.frames();
        let is_identified = |depth| {
            let element = candidate
                .evidence
                .element
                .filter(|element| element.depth == depth);
            element.is_some_and(|element| element.identity >= prior::ENOUGH)
        };
        let ends_in_equals = |depth| {
            let mut last = slot
                .child_index()
                .children(depth)
                .iter()
                .rev()
                .map(|child| child.digest);
            last.next()
                .is_some_and(|digest| last.next() == Some(digest))
                && !is_identified(depth)
        };
        let is_counted = || self.cut.opened_bits(self.fragment.opened(candidate.at)).0 > 0.0;
        let is_unknown =
            |depth| depth + 1 < frames.len() && !says_something(slot, depth) && !is_counted();
        let arrays = (0..frames.len())
            .filter(|&depth| frames.get(depth).is_some_and(|one| one.kind == Kind::Array));
        let begun = arrays.filter(|&depth| candidate.from <= value_start(slot, depth + 1));
        begun
            .into_iter()
            .any(|depth| ends_in_equals(depth) || is_unknown(depth))
    }

    /// Brings the evidence up to date with the new text, and returns the scores.
    fn score(&mut self, slot: &Slot, at_end: bool) -> Vec<Scored> {
        let scoring = Scoring {
            slot,
            cut: &self.cut,
            near: &self.near,
            fragment: &self.fragment,
            lost: self.readings.lost(),
            at_end,
        };
        self.attempts
            .open
            .iter_mut()
            .map(|attempt| scoring.scored(attempt))
            .collect()
    }

    /// Returns the scores of the alternative readings.
    fn alternatives(&self, at_end: bool) -> AlternativeReadings {
        let inputs = self.fragment.inputs(&self.cut);
        let at_cut = &self.fragment.costs.at_cut;
        let (begin, end) = (self.fragment.begin, self.fragment.text.len());
        let said = at_cut.between(begin, end);
        let is_key = matches!(self.cut.token, TokenAtCut::Key { .. });
        let most = if is_key {
            prior::UNLIKE_KEY
        } else {
            prior::UNLIKE
        };
        let letter = |at| at_cut.between(at, at + 1).min(prior::UNKNOWN) - prior::LETTER;
        let unlike = |to: usize| (begin..to).map(letter).sum::<f32>();
        let head = end.min(begin + prior::HEAD);
        // A sentence can't continue after the quote that ends a key: the text after it is only
        // evidence for the key.
        let text = self.fragment.text.get(begin..head).unwrap_or_default();
        let quote = text
            .find('"')
            .filter(|_| is_key && !text.starts_with(['{', '[', '"']));
        let unlike = quote
            .map_or(most, |quote| unlike(begin + quote + 1))
            .min(unlike(head))
            .min(most);
        let following = self.readings.following(&inputs);
        // An anchor that may still be repeated; at the end, one that broke off with the edits so
        // far.
        let nearly = Start::Nearly.prior(self.cut.request.expect);
        let near = match self
            .near
            .anchor
            .fewest_edits()
            .filter(|_| self.cut.request.expect != Expect::Exact)
        {
            Some(edits) if at_end => nearly + said - prior::EDIT * edits as f32,
            Some(_) => nearly + said / 2.0,
            None => f32::NEG_INFINITY,
        };
        let verbatim = match self.matcher.occurrence() {
            Some(_) if self.matcher.may_be_anchor(self.fragment.text.as_bytes()) => 0.0,
            Some(from) => {
                prior::tail(self.cut.request.expect, self.cut.tail.saturating_sub(from))
                    + prior::AT_WORD
            }
            None => f32::NEG_INFINITY,
        };
        AlternativeReadings {
            repeating: following.max(near).max(verbatim + said)
                + if at_end { prior::ENDS_IN_REPEAT } else { 0.0 },
            differing: self.readings.differing(&inputs),
            // Non-prose may be a separate value.
            other: prior::OTHER + unlike.max(0.0),
            other_verified: prior::OTHER_VERIFIED + unlike,
            after_gap: if self.cut.request.after_gap {
                prior::AFTER_GAP
            } else {
                f32::NEG_INFINITY
            },
        }
    }

    /// The risk that a decision may take now. A part of unknown origin waits while further text can
    /// reduce the risk.
    fn max_risk(&self, at_end: bool) -> f64 {
        let waits =
            self.cut.request.expect == Expect::Any && !at_end && self.fragment.text.len() < ALONE;
        if waits {
            self.caps.max_risk * prior::UNFLAGGED
        } else {
            self.caps.max_risk
        }
    }

    /// The attempt that has won, and its probability.
    pub(super) fn winner(&mut self, slot: &Slot, at_end: bool) -> Option<(usize, f64)> {
        if !at_end {
            let counts @ (_, verified) = self.attempts.counts();
            let is_due = self.schedule.is_due(counts, self.fragment.text.len());
            if verified == 0 || !is_due {
                return None;
            }
        }
        let scored = self.score(slot, at_end);
        let others = self.alternatives(at_end);
        let max_risk = if self.attempts.rejected.is_crowded {
            0.0
        } else {
            self.max_risk(at_end)
        };
        let decision = decide::decide(&scored, others, max_risk);
        if at_end || decision != Decision::Wait {
            for (attempt, one) in self.attempts.open.iter_mut().zip(&scored) {
                attempt.candidate.posterior = decide::posterior(&scored, one, others);
            }
        }
        let Decision::Join(winner, posterior) = decision else {
            return None;
        };
        let attempt = self.attempts.open.get(winner)?;
        if !at_end && self.is_copy_end(slot, attempt) {
            return None;
        }
        let (fragment, expect) = (&self.fragment, self.cut.request.expect);
        if !at_end && closes_only(slot, expect, attempt, &fragment.text) {
            // Only the end of the fragment shows whether it ends the document early.
            return None;
        }
        // The anchor may be repeated a second time.
        let candidate = &attempt.candidate;
        let new = fragment.from(candidate.at).trim_start_matches(is_space);
        let may_be_again = candidate.alignment == Alignment::Anchor
            && self.fragment.anchor_end.is_some()
            && !at_end;
        let may_be_again = may_be_again && !self.near.is_ambiguous;
        if may_be_again && self.matcher.begins_anchor(new.as_bytes()) {
            return None;
        }
        Some((winner, posterior))
    }

    /// Whether the new text of this attempt, a copy of the document from its root, has ended the
    /// document after one more value, or may do so.
    fn is_copy_end(&self, slot: &Slot, attempt: &SpliceAttempt) -> bool {
        let request = &self.cut.request;
        let root = slot.document().root_start().unwrap_or_default();
        let is_copy = attempt.candidate.from <= root
            && self.near.from > root
            && attempt.candidate.alignment != Alignment::Exact
            && attempt.setup.deferred.is_empty();
        request.expect == Expect::Anchor
            && is_copy
            && (request.asks_again || request.believes_early_end)
            && completes_one_value(slot, self.fragment.from(attempt.candidate.at))
    }

    /// Returns the meaning of the fragment's end.
    pub(super) fn end(&mut self, slot: &Slot) -> FragmentEnd {
        let mut end = self.fragment.text.trim_end_matches(is_space).len();
        if end == 0 {
            return FragmentEnd::Failed(SpliceError::Empty);
        }
        if self.cut.request.expect == Expect::Any && slot.document().machine().in_string() {
            // The spaces at the end of a part are text of the string. The next part does not repeat
            // them.
            let white = self.fragment.text.get(end..).unwrap_or_default();
            end += white.len() - white.trim_start_matches(' ').len();
        }
        self.readings
            .note_contradictions(&self.fragment.inputs(&self.cut));
        self.attempts.open.iter_mut().for_each(SpliceAttempt::end);
        // Before the repeat: the last closers of the delivered text are closers, too.
        let is_closed = |attempt: &SpliceAttempt| {
            attempt.candidate.alignment == Alignment::Exact && attempt.is_done()
        };
        if !self.cut.request.after_gap
            && only_closes(slot, self.fragment.content())
            && let Some(attempt) = self.attempts.open.iter().position(is_closed)
        {
            return self.join_at_end(slot, attempt, 1.0);
        }
        // All of the text is a tail of the delivered text, without significant text after it.
        let is_tail = |attempt: &&SpliceAttempt| {
            let candidate = &attempt.candidate;
            let is_whole = candidate.alignment != Alignment::Reentry && candidate.at >= end;
            let is_repeat = candidate.start.is_requested() || is_whole;
            is_repeat
                && candidate.overlap > 0
                && candidate.alignment != Alignment::Exact
                && !attempt.is_verified()
        };
        let is_answer = |attempt: &SpliceAttempt| {
            attempt.candidate.start.is_requested() && attempt.is_verified()
        };
        let winner = self.winner(slot, true);
        let new = self
            .attempts
            .open
            .iter()
            .filter(|attempt| attempt.candidate.at < end);
        let certainty = 1.0
            - new
                .map(|attempt| attempt.candidate.posterior)
                .fold(0.0, f64::max);
        if let Some(attempt) = self
            .attempts
            .open
            .iter()
            .find(is_tail)
            .filter(|_| !self.attempts.open.iter().any(is_answer))
        {
            let is_asked =
                attempt.candidate.start.is_requested() && self.cut.request.expect == Expect::Anchor;
            return FragmentEnd::Repeat(
                attempt.candidate.overlap,
                if is_asked { 1.0 } else { certainty },
            );
        }
        let repeats = self.readings.is_repeat() || self.matcher.may_repeat() && end >= FEW;
        if let Some((winner, posterior)) = winner {
            return self.join_at_end(slot, winner, posterior);
        }
        if repeats {
            // The whole text repeats delivered text, and no repeat ends at the cut. Text that
            // repeats the end of the delivered text and continues it may occur twice.
            let overlaps = |least: usize, is_at_cut: bool| {
                let mut candidates = self.attempts.open.iter().map(|attempt| &attempt.candidate);
                candidates.any(|one| one.overlap >= least && (one.at >= end) == is_at_cut)
            };
            let may_be_new = !overlaps(1, true) && overlaps(FEW, false);
            let certainty = if may_be_new {
                certainty.min(decide::HALF)
            } else {
                certainty
            };
            return FragmentEnd::Repeat(self.fragment.text.len() - self.fragment.begin, certainty);
        }
        FragmentEnd::Failed(self.failure())
    }

    /// Returns the end of a fragment that is joined at this attempt.
    fn join_at_end(&self, slot: &Slot, winner: usize, posterior: f64) -> FragmentEnd {
        let is_early = |attempt: &&SpliceAttempt| {
            let expect = self.cut.request.expect;
            let ends = closes_only(slot, expect, attempt, &self.fragment.text)
                || self.is_copy_end(slot, attempt);
            attempt.is_done() && ends
        };
        let early = self.attempts.open.get(winner).filter(is_early);
        let is_believed = |attempt: &SpliceAttempt| {
            let request = &self.cut.request;
            let text = &self.fragment.text;
            // A second copy that ends like the first one is the document.
            request.believes_early_end && !closes_only(slot, request.expect, attempt, text)
                || is_believed(slot, request, &self.near, attempt, text)
        };
        match early {
            Some(attempt) if !is_believed(attempt) => FragmentEnd::Failed(SpliceError::EarlyEnd),
            _ => FragmentEnd::Join {
                winner,
                posterior,
                is_early: early.is_some(),
            },
        }
    }

    /// Returns why no candidate has won at the end of the fragment.
    fn failure(&self) -> SpliceError {
        let best = self
            .attempts
            .open
            .iter()
            .map(|attempt| attempt.candidate.evidence.score())
            .fold(f32::MIN, f32::max);
        let (contradicted, score) = self.readings.contradicted();
        match (self.attempts.open.as_slice(), contradicted) {
            (_, Some(offset)) if score >= best => SpliceError::Differs(offset),
            _ if self.cut.request.after_gap => SpliceError::AfterGap,
            ([], None) => SpliceError::NoAlignment,
            (attempts, _) if attempts.iter().any(SpliceAttempt::is_verified) => {
                SpliceError::Ambiguous
            }
            _ => SpliceError::Undecided,
        }
    }
}

/// Of one document's candidates the simplest is joined. A candidate that leaves out no member keeps
/// the white space unchanged.
fn rank(attempt: &SpliceAttempt) -> u8 {
    let candidate = &attempt.candidate;
    match candidate.start {
        Start::Nearly => u8::MAX,
        _ if attempt.leaves_out() => u8::MAX - 1,
        _ => candidate.alignment.rank(),
    }
}
