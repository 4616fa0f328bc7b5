//! Finds the offsets at which the fragment may begin, by the cut, the mark, the matchers and the
//! cursors: each becomes a candidate with its evidence.

use super::{FEW, Fragment, LOST, OpenAttempts, RequestedAnchorSearch, is_line_start};
use crate::json::{Frame, Kind};
use crate::overlap::{EditCount, Hits};
use crate::splice::attempt::{AttemptSetup, SpliceAttempt};
use crate::splice::candidate::{Candidate, Evidence, TakenElement};
use crate::splice::cursor::CursorArrival;
use crate::splice::cut_context::{CutContext, begins_element, has_words};
use crate::splice::flow::is_space;
use crate::splice::prior::{self, Start};
use crate::splice::seam::{Alignment, Expect};
use crate::splice::slot::Slot;
use crate::work;

/// The delivered text and the fragment so far, in which candidates are found.
pub(super) struct CandidateFinder<'a> {
    pub(super) slot: &'a Slot,
    pub(super) cut: &'a CutContext,
    pub(super) near: &'a RequestedAnchorSearch,
    pub(super) fragment: &'a mut Fragment,
    pub(super) attempts: &'a mut OpenAttempts,
}

/// Characters of a line that announces the anchor, such as `Here is the rest:`. Bounded, since one
/// line may have many anchors, and each searches the line before it.
// Chosen: sentences that announce something have one or two lines; a longer line is text.
const ANNOUNCEMENT: usize = 1024;

impl CandidateFinder<'_> {
    /// Adds the candidate that the fragment's text from `at` on continues at the cut.
    pub(super) fn exact(&mut self, at: usize) {
        let start = if self.cut.request.expect == Expect::Exact && at == 0 {
            Start::Requested
        } else {
            Start::Cut
        };
        let candidate = Candidate::new(Alignment::Exact, start, at, 0);
        self.add(
            Candidate {
                from: self.cut.end,
                ..candidate
            },
            AttemptSetup::default(),
        );
    }

    /// Handles the request's mark. The text after it is new if the text before it is the end of the
    /// delivered text, or empty.
    pub(super) fn mark(&mut self) {
        let content = self.fragment.content();
        let delivered = self.slot.text().get(..self.cut.tail).unwrap_or_default();
        let said = |text: &str| {
            text.chars()
                .rev()
                .filter(|c| !c.is_whitespace() && *c != '\\')
                .take(24)
                .collect::<String>()
        };
        let (own, end) = (said(content), said(delivered));
        if own.is_empty() || own == end {
            let overlap = content.trim_matches(is_space).len().min(self.cut.tail);
            let candidate = Candidate::new(
                Alignment::Anchor,
                Start::Mark,
                self.fragment.text.len(),
                overlap,
            );
            self.add(candidate, self.setup());
        }
    }

    fn setup(&self) -> AttemptSetup {
        AttemptSetup {
            skip: self.cut.end - self.cut.tail,
            ..AttemptSetup::default()
        }
    }

    /// Adds the candidate of a cursor that has reached the cut.
    pub(super) fn arrived(&mut self, arrival: CursorArrival) {
        let CursorArrival {
            at,
            rest,
            deferred,
            from,
            start,
            bits,
            container,
            element,
            leaves_out,
            is_reentry,
        } = arrival;
        let mut at = self.fragment.begin + at;
        if at == self.fragment.begin && from == self.slot.text().len() && deferred.is_empty() {
            // It repeats nothing, so it equals the candidate that continues at the cut.
            return;
        }
        let mut skip = 0;
        if self.cut.token_start.is_none() {
            // White space before it belongs to the document, unless the document already has it.
            at = self
                .fragment
                .text
                .get(..at)
                .map_or(0, |before| before.trim_end_matches(is_space).len());
            skip = self.cut.end - self.cut.tail;
        }
        let alignment = if is_reentry {
            Alignment::Reentry
        } else {
            Alignment::Restart
        };
        let is_requested =
            self.cut.request.rerooted && matches!(start, Start::Root | Start::Rerooted);
        let kind = if is_requested {
            Start::Requested
        } else {
            start
        };
        let prior =
            kind.prior(self.cut.request.expect) + if leaves_out { prior::LEFT_OUT } else { 0.0 };
        // Repeated whole elements may also be new rows with equal values.
        let is_row = element.is_none()
            && self.cut.is_element_due()
            && (is_reentry || start == Start::Member);
        let bits = if is_row {
            bits.min(self.cut.most_in_a_row(self.slot, from))
        } else {
            bits
        };
        let mut evidence = Evidence::new(prior, bits.max(0.0), 0.0);
        evidence.element = element.map(|element| {
            let whole = if leaves_out { -prior::LEFT_OUT } else { 0.0 };
            let lost = if element.is_after_values {
                prior::LOST_AFTER_VALUES
            } else {
                prior::LOST
            };
            TakenElement {
                depth: element.depth,
                at: self.fragment.begin + element.at - 1,
                lost: lost + whole,
                identity: self.cut.identity(element.depth, element.bits),
            }
        });
        let overlap = self.slot.text().len().saturating_sub(from);
        let candidate = Candidate {
            from,
            evidence,
            ..Candidate::new(alignment, start, at, overlap)
        };
        let says_enough = bits >= prior::ENOUGH;
        let outside = container.filter(|_| !says_enough);
        // A fragment that leaves out delivered members has not repeated all text from there: the rest
        // of its text must say where it begins.
        let is_proven = self.cut.request.expect == Expect::Any
            && (!leaves_out || says_enough)
            && self.cut.is_proof(self.slot, from);
        self.add(
            candidate,
            AttemptSetup {
                rest,
                deferred,
                skip,
                outside,
                is_proven,
            },
        );
    }

    /// Adds the candidates of verbatim repeats that end at `end`.
    pub(super) fn matched(&mut self, hits: Hits, end: usize) {
        if let Some(start) = hits
            .anchor
            .filter(|_| self.cut.request.expect != Expect::Exact)
        {
            self.anchored(start, end);
        }
        // Whether that is the open element or the next one, a cursor finds out.
        let Some(from) = hits
            .overlap
            .filter(|&from| !begins_element(self.slot, from))
        else {
            return;
        };
        if !self.attempts.allows_overlap() {
            return;
        }
        let (start, prior) = self.cut.start_at(self.slot, from, self.near.from);
        let is_proven = self.cut.is_proof(self.slot, from);
        // The anchor without its first characters proves as much as the whole anchor, so it counts
        // as a nearly exact repeat.
        let is_nearly_anchor = is_proven
            && self.cut.request.expect == Expect::Anchor
            && !self.near.is_ambiguous
            && (self.near.from..=self.near.from + LOST).contains(&from);
        let prior = if is_nearly_anchor {
            prior.max(Start::Nearly.prior(self.cut.request.expect))
        } else {
            prior
        };
        let begin = self.fragment.begin;
        let recurring = if is_nearly_anchor {
            0.0
        } else {
            self.cut
                .recurring(self.slot, from, begin, &self.fragment.costs.at_cut)
        };
        let surprise = (self.fragment.costs.surprise(begin, end) - recurring).max(0.0);
        let is_in_a_row = !is_nearly_anchor && self.cut.is_in_a_row(self.slot, from);
        let surprise = if is_in_a_row {
            surprise.min(self.cut.most_in_a_row(self.slot, from))
        } else {
            surprise
        };
        let whole = from <= self.near.from || start == Start::Root;
        let alignment = if whole {
            Alignment::Restart
        } else {
            Alignment::Overlap
        };
        let evidence = Evidence::new(prior, surprise, 0.0);
        let candidate = Candidate::new(alignment, start, end, self.cut.tail - from);
        // A bracket alone is no evidence: it may open a separate object, for example a refusal.
        let begins = |frame: &Frame| frame.kind == Kind::Object && frame.start == from;
        let says_nothing = !has_words(self.slot.text().get(from..).unwrap_or_default());
        let outside = self
            .slot
            .frames()
            .iter()
            .position(begins)
            .filter(|_| says_nothing);
        self.add(
            Candidate {
                from,
                evidence,
                ..candidate
            },
            AttemptSetup {
                outside,
                is_proven,
                ..self.setup()
            },
        );
    }

    /// Adds the candidate of the anchor, which begins at `start` in the fragment and ends at `end`.
    fn anchored(&mut self, start: usize, end: usize) {
        let fragment = &*self.fragment;
        let before = fragment.text.get(..start).unwrap_or_default();
        let is_again = fragment
            .anchor_end
            .and_then(|end| fragment.text.get(end..start));
        let is_next = is_again.is_some_and(|between| between.trim_matches(is_space).is_empty());
        let is_first =
            start == fragment.begin || before.trim_end_matches(is_space).is_empty() || is_next;
        let on_own_line = is_line_start(before);
        let is_after_bracket = fragment.bracket.is_some_and(|bracket| bracket < start);
        let is_envelope = fragment.scanner.is_after_prose() && (!is_after_bracket || on_own_line);
        let is_quoted = on_own_line
            && (is_again.is_some() || self.attempts.open.is_empty() && end - start >= FEW);
        // Where text may be missing, lines before the anchor may be that text.
        let is_quoted = is_quoted && !self.cut.request.after_gap;
        if !is_first && (fragment.scanner.in_reasoning() || !is_envelope && !is_quoted) {
            // The text before it is not an envelope: it counts only as the end of a restart.
            return;
        }
        // A bracket in the middle of a sentence is not an anchor, and neither is text that only
        // ends with it.
        let is_announced = || {
            // Anchors may follow each other without end in one line: it is searched only where it
            // may announce one.
            before.trim_end_matches(is_space).ends_with([':', '`'])
                && last_line(before, ANNOUNCEMENT)
                    .is_some_and(|line| !line.contains(['{', '[', '"']))
        };
        if !is_first && !on_own_line && (end - start < FEW || !is_announced()) {
            return;
        }
        if start == fragment.begin && end - start >= FEW && !self.near.is_ambiguous {
            // The answer begins with the requested anchor, so the anchor is not new text.
            self.attempts.reject_cut(start);
        }
        let fragment = &*self.fragment;
        let is_cut_tried = self.attempts.tries_cut();
        let is_requested = is_first || on_own_line && !is_cut_tried && !is_after_bracket;
        let start_kind = if is_requested {
            Start::Requested
        } else {
            Start::Nearly
        };
        let from = self.cut.tail - (end - start).min(self.cut.tail);
        let mut evidence = Evidence::new(
            start_kind.prior(self.cut.request.expect),
            fragment.costs.surprise(start, end),
            0.0,
        );
        let mut candidate = Candidate::new(Alignment::Anchor, start_kind, end, end - start);
        if is_next {
            // The anchor may occur twice, or new text may begin like it.
            let requested =
                |attempt: &&mut SpliceAttempt| attempt.candidate.start == Start::Requested;
            for first in self.attempts.open.iter_mut().filter(requested) {
                first.candidate.start = Start::Nearly;
                evidence.surprise += first.candidate.evidence.surprise;
            }
            evidence.prior += prior::TWICE;
            candidate.start = Start::Nearly;
        }
        self.fragment.anchor_end = (end - start >= FEW).then_some(end);
        self.add(
            Candidate {
                from,
                evidence,
                ..candidate
            },
            self.setup(),
        );
    }

    /// Adds the candidate in which the fragment repeats the anchor with this number of edits.
    pub(super) fn repeated_nearly(&mut self, edits: EditCount) {
        let (begin, end) = (self.fragment.begin, self.fragment.text.len());
        let is_known = |attempt: &SpliceAttempt| {
            attempt.candidate.start == Start::Requested && attempt.candidate.at == end
        };
        if self.attempts.open.iter().any(is_known) {
            return;
        }
        let is_new = |attempt: &SpliceAttempt| {
            attempt.candidate.alignment == Alignment::Exact && attempt.is_verified()
        };
        let surprise = self.fragment.costs.surprise(begin, end);
        // Text that continues at the cut and costs as little as a row among rows is not an anchor
        // with a wrong letter. If the anchor is all of the delivered text, rows are too little
        // known.
        let is_whole = Some(self.near.from) == self.slot.document().root_start();
        let is_typical = is_whole || surprise < prior::TYPICAL * (end - begin) as f32;
        let is_row = edits.count > 0 && is_typical && self.attempts.open.iter().any(is_new);
        let surprise = if is_row {
            surprise.min(prior::IN_A_ROW)
        } else {
            surprise
        };
        let prior = Start::Nearly.prior(self.cut.request.expect) - prior::EDIT * edits.count as f32;
        let candidate = Candidate::new(
            Alignment::Anchor,
            Start::Nearly,
            end,
            self.cut.tail - self.near.from,
        );
        let mut evidence = Evidence::new(prior, surprise, 0.0);
        evidence.has_other_structure = edits.structural > 0;
        // Escapes of white space at the end of the anchor do not count as its end.
        let skip = self.cut.end
            - significant_end(self.slot.text().get(..self.cut.tail).unwrap_or_default());
        self.add(
            Candidate {
                from: self.near.from,
                evidence,
                ..candidate
            },
            AttemptSetup {
                skip,
                ..AttemptSetup::default()
            },
        );
    }

    fn add(&mut self, candidate: Candidate, setup: AttemptSetup) {
        let fragment = &self.fragment.text;
        self.attempts.add(self.slot, candidate, setup, fragment);
    }
}

/// Returns the last line of the text; `None` if it has more than `most` characters.
fn last_line(text: &str, most: usize) -> Option<&str> {
    let longer = text.char_indices().rev().nth(most).map_or(0, |(at, _)| at);
    work::steps(text.len() - longer);
    match text.get(longer..).and_then(|end| end.rfind('\n')) {
        Some(line) => text.get(longer + line + 1..),
        None => (longer == 0).then_some(text),
    }
}

/// Returns where the text ends without trailing white space, raw or escaped.
fn significant_end(text: &str) -> usize {
    let mut end = text.trim_end_matches(is_space);
    while let Some(rest) = ["\\n", "\\t", "\\r"]
        .iter()
        .find_map(|escape| end.strip_suffix(escape))
    {
        end = rest.trim_end_matches(is_space);
    }
    end.len()
}
