//! Before the decision: each character of the fragment goes to the trials, the readers and the matcher, and claims come
//! of it.
//!
//! Text that can change none of them waits, and is taken at once: see [`Splice::quiet`].

use memchr::memchr2;

use super::cursor::Tip;
use super::decide::{self, Scene};
use super::explain::{Death, Fate};
use super::flow::{Flow, quiet_run};
use super::reader::Reader;
use super::seam::{Alignment, Expect, SpliceError};
use super::slot::Slot;
use super::trial::{Claim, TRIALS, Trial, Weight};
use super::weigh::{self, Known};
use super::{Splice, State};
use crate::envelope::{ContentStart, FENCE};
use crate::json::Sink;
use crate::overlap::{EVIDENCE, Hit, Matcher};

impl Splice {
    /// The claim that the fragment's text from `at` on goes on at the cut.
    pub(super) fn exact(&self, at: usize) -> Claim {
        let is_asked = self.expect == Expect::Exact && at == 0;
        let weight = if is_asked { Weight::Asked } else { Weight::Plausible };
        Claim { from: self.cut.offset, ..Claim::new(Alignment::Exact, weight, at, 0) }
    }

    /// What came so far may stand at the cut.
    fn exact_is_alive(&self) -> bool {
        self.trials.iter().any(|trial| trial.claim.alignment == Alignment::Exact)
    }

    /// The next character of the fragment, before the decision.
    pub(super) fn take(&mut self, slot: &Slot, c: char) {
        self.catch_up(slot);
        let at = self.pending.len();
        self.pending.push(c);
        self.try_all(slot, at);
        if let Some(mark) = self.wrap.take(c) {
            self.begin_content(slot, mark, at, c);
        }
        if matches!(c, '{' | '[') && self.bracket.is_none() && !self.is_prose {
            self.bracket = Some(at);
        }
        self.read(slot, at);
        self.matched(slot, at);
        self.taken = self.pending.len();
        self.calm = self.calm();
    }

    /// Takes text from inside a string, as far as nothing can be decided in it: every trial and reader stands in a string
    /// that it does not end, and no trial has passed. Only the matcher looks at it; the others take it in bulk once
    /// something else comes. How many bytes were taken: up to the end of `text`, of what is quiet, or of a character that
    /// brings a claim.
    pub(super) fn quiet(&mut self, slot: &Slot, text: &str) -> usize {
        let room = self.calm.min(self.limits.0.saturating_sub(self.pending.len()));
        if room == 0 || !self.wrap.is_settled() {
            return 0;
        }
        let from = self.pending.len();
        let run = quiet_run(text.as_bytes().get(..room).unwrap_or(text.as_bytes()));
        let run = (0..=run).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.pending.push_str(text.get(..run).unwrap_or_default());
        if self.bracket.is_none() && !self.is_prose {
            let bracket = memchr2(b'{', b'[', self.pending.as_bytes().get(from..).unwrap_or_default());
            self.bracket = bracket.map(|at| from + at);
        }
        let claimed = (from + 1..=from + run).find_map(|end| Some((end, self.claim_at(slot, end)?)));
        let whole = |&end: &usize| self.pending.is_char_boundary(end);
        let end = claimed.as_ref().and_then(|&(end, _)| (end..from + run).find(whole)).unwrap_or(from + run);
        self.pending.truncate(end);
        self.calm -= end - from;
        self.wrap.run(self.pending.get(from..).unwrap_or_default());
        if let Some((at, claim)) = claimed {
            self.catch_up(slot);
            self.claim(slot, claim);
            self.matched(slot, at);
            self.calm = 0;
        }
        end - from
    }

    /// Lets trials and readers take what has waited.
    pub(super) fn catch_up(&mut self, slot: &Slot) {
        let at = std::mem::replace(&mut self.taken, self.pending.len());
        if at < self.pending.len() {
            self.try_all(slot, at);
            self.read(slot, at);
        }
    }

    /// So many bytes of quiet text make no difference to trials and readers.
    fn calm(&self) -> usize {
        if !self.trials.iter().all(|trial| is_idle(trial, self.is_crowded) || trial.is_calm()) {
            return 0;
        }
        let readers = self.readers.iter().filter(|reader| !reader.is_over());
        readers.map(|reader| reader.calm(&self.tip)).fold(LAG, usize::min)
    }

    /// Lets the trials take what stands in the fragment from `at` on.
    fn try_all(&mut self, slot: &Slot, at: usize) {
        let white = slot.text().get(self.tail..).unwrap_or_default();
        let text = self.pending.get(at..).unwrap_or_default();
        let (log, is_crowded) = (&mut self.log, self.is_crowded);
        self.trials.retain_mut(|trial| {
            let fed = if is_idle(trial, is_crowded) { Ok(()) } else { trial.feed(slot, text, white) };
            fed.inspect_err(|stop| log.stopped(trial, stop)).is_ok()
        });
    }

    /// Content may begin at `at`, with `c`.
    fn begin_content(&mut self, slot: &Slot, mark: ContentStart, at: usize, c: char) {
        let is_alive = || {
            let is_following = self.readers.iter().any(|reader| !reader.is_over());
            is_following || !self.trials.is_empty() || self.begin < at && self.may_repeat(slot)
        };
        if mark == ContentStart::Line && is_alive() {
            return;
        }
        self.fenced |= mark == ContentStart::Fence;
        self.begin = at;
        self.is_prose = !matches!(c, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        if mark != ContentStart::Line {
            self.bracket = None;
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.begin(at);
        }
        self.note_contradictions();
        self.readers = Reader::all(slot, c, self.limits.1);
        let is_new = at > 0 && (mark != ContentStart::First || !self.exact_is_alive());
        if is_new {
            // White space at the start of a line may be text of the string that was cut; the line end can't.
            let before = self.pending.get(..at).unwrap_or_default();
            let line = before.trim_end_matches(' ');
            let behind_fence =
                || before.rfind(FENCE).and_then(|fence| Some(fence + before.get(fence..)?.find('\n')? + 1));
            let at = match mark {
                ContentStart::Fence if !slot.document().machine().in_string() => behind_fence().unwrap_or(at),
                _ if line.ends_with('\n') => line.len(),
                _ => at,
            };
            self.claim(slot, self.exact(at));
        }
    }

    fn note_contradictions(&mut self) {
        let contradicted = self.readers.iter().filter_map(Reader::contradicted).max();
        self.contradicted = self.contradicted.max(contradicted);
    }

    /// Lets the readers take what stands in the fragment from `at` on.
    fn read(&mut self, slot: &Slot, at: usize) {
        if self.wrap.in_reasoning() || at < self.begin {
            return;
        }
        let mut readers = std::mem::take(&mut self.readers);
        for reader in &mut readers {
            let mut arrivals = Vec::new();
            reader.feed(slot, &self.tip, self.pending.get(at..).unwrap_or_default(), |arrival| arrivals.push(arrival));
            for arrival in arrivals {
                let known = Known { tip: &self.tip, anchor: self.anchor.as_ref(), rows_recur: self.rows_recur };
                let mut claim = weigh::claim(slot, &known, self.begin, arrival);
                let written = claim.at.checked_sub(claim.rest.len()).and_then(|from| self.pending.get(from..claim.at));
                if written.is_some_and(|written| written.eq_ignore_ascii_case(&claim.rest)) {
                    // The escape goes on as it was begun.
                    claim.at -= std::mem::take(&mut claim.rest).len();
                }
                if self.cut_token.is_none() {
                    // White space before it is the document's, as far as that has none yet.
                    claim.at = self.pending.get(..claim.at).map_or(0, |before| before.trim_end().len());
                    claim.skip = self.cut.offset - self.tail;
                }
                self.claim(slot, claim);
            }
        }
        self.readers = readers;
    }

    /// Lets the matcher take what stands in the fragment from `at` on.
    fn matched(&mut self, slot: &Slot, at: usize) {
        for end in at + 1..=self.pending.len() {
            if let Some(claim) = self.claim_at(slot, end) {
                self.claim(slot, claim);
            }
        }
    }

    /// Lets the matcher take the byte of the fragment before `end`; what that claims.
    fn claim_at(&mut self, slot: &Slot, end: usize) -> Option<Claim> {
        let hits = self.matcher.as_mut()?.feed(slot.text(), self.pending.as_bytes().get(..end)?);
        // What was asked for and what is repeated from the beginning on may end at the same byte: the former is tried.
        let mut found: Option<Claim> = None;
        for hit in hits {
            if found.as_ref().is_none_or(|found| found.weight < Weight::Asked) {
                found = self.claim_of(slot, hit, end).or(found);
            }
        }
        let skip = self.cut.offset - self.tail;
        found.map(|claim| Claim { skip, from: self.tail.saturating_sub(claim.overlap), ..claim })
    }

    /// What a repeat that ends at `end` claims.
    fn claim_of(&self, slot: &Slot, hit: Hit, end: usize) -> Option<Claim> {
        let delivered = slot.text();
        let asked = |is_asked: bool| {
            if is_asked && self.expect != Expect::Exact { Weight::Asked } else { Weight::Convincing }
        };
        match hit {
            Hit::Anchor { start } => {
                let before = self.pending.get(..start).unwrap_or_default();
                let is_first = start == self.begin || before.trim().is_empty();
                if self.bracket.is_some_and(|bracket| bracket < start) || self.wrap.in_reasoning() && !is_first {
                    // What precedes it is no envelope: it counts only as the end of a restart.
                    return None;
                }
                // Behind text that is legal at the cut it may stand in the next row, which is like the last one.
                let on_own_line = before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
                let is_behind_prose = on_own_line && self.wrap.is_after_prose();
                let weight = asked(is_first || is_behind_prose && !self.exact_is_alive());
                // A bracket in the middle of a sentence is no anchor.
                let is_short = !on_own_line && end - start < EVIDENCE;
                if !is_first && (is_short || !self.wrap.is_after_prose()) {
                    return None;
                }
                // The same forty characters may come once more in a long text.
                let may_recur = self.exact_is_alive();
                Some(Claim { may_recur, ..Claim::new(Alignment::Anchor, weight, end, end - start) })
            }
            // Whether it is the open element or the next one: a cursor finds out.
            Hit::Overlap { start, has_anchor: false, .. } if weigh::begins_element(slot, start) => None,
            Hit::Overlap { start, is_likely: false, .. } => {
                // It goes on as it began. A shorter end that was taken for a beginning is in doubt, then.
                let is_shorter = |trial: &Trial| trial.claim.alignment == Alignment::Overlap;
                let claim = || Claim::new(Alignment::Overlap, Weight::Doubtful, end, self.tail - start);
                self.trials.iter().any(is_shorter).then(claim)
            }
            Hit::Overlap { start, has_anchor, is_evidence, .. } => {
                // What it repeats stood behind the same thing as the cut does now: it may as well be the next row.
                let last = |text| str::trim_end(text).bytes().rev().take(2);
                let (before, tail) = (delivered.get(..start), delivered.get(..self.tail));
                let in_a_row = before.zip(tail).is_some_and(|(before, tail)| last(before).eq(last(tail)));
                let is_piece = self.is_piece_of_string(slot, start);
                let is_row = weigh::is_row(slot, start) || in_a_row && !is_piece;
                // It goes on as it began: a row that comes again looks like a longer repeat.
                let is_whole = slot.document().root_start().is_some_and(|root| start <= root);
                // A shorter repeat that is long enough to be none by chance, or an element that is like the one before.
                let is_rival = |trial: &Trial| match trial.claim.weight {
                    Weight::Doubtful => trial.claim.overlap >= EVIDENCE / 2,
                    _ => trial.claim.alignment == Alignment::Overlap && trial.claim.overlap >= EVIDENCE,
                };
                let has_rival = || self.trials.iter().any(is_rival);
                let recurs = self.rows_recur || has_rival() || !is_evidence && self.tail - start >= EVIDENCE;
                let is_periodic = !is_whole && recurs;
                let (alignment, weight) = match (has_anchor, is_evidence) {
                    (true, _) => (
                        Alignment::Restart,
                        asked(!(is_periodic && !self.trials.is_empty() || is_row && self.exact_is_alive())),
                    ),
                    (false, true) => (Alignment::Overlap, Weight::Convincing),
                    (false, false) => (Alignment::Overlap, Weight::Plausible),
                };
                let may_recur = is_row || is_periodic;
                Some(Claim { may_recur, ..Claim::new(alignment, weight, end, self.tail - start) })
            }
        }
    }

    /// Puts a claim to the trial; it takes what has come behind its beginning.
    pub(super) fn claim(&mut self, slot: &Slot, claim: Claim) {
        if self.trials.len() >= TRIALS && claim.weight < Weight::Asked {
            self.is_crowded = true;
            return;
        }
        let white = slot.text().get(self.tail..).unwrap_or_default();
        let come = self.pending.get(claim.at..).unwrap_or_default();
        let mut trial = Trial::new(slot, claim, self.limits.0);
        match trial.feed(slot, come, white) {
            Ok(()) => self.trials.push(trial),
            Err(stop) => self.log.stopped(&trial, &stop),
        }
    }

    /// The cut stands in a string, and the delivered text from `start` on in the same one.
    fn is_piece_of_string(&self, slot: &Slot, start: usize) -> bool {
        slot.document().machine().in_string() && self.cut_token.is_some_and(|token| start > token)
    }

    /// The fragment may still turn out to repeat delivered text.
    fn may_repeat(&self, slot: &Slot) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.may_repeat(slot.text(), self.pending.as_bytes()))
    }

    /// The trial that has won, if one has.
    pub(super) fn winner(&mut self, slot: &Slot, has_ended: bool) -> Option<usize> {
        let winner = decide::winner(&self.trials, self.scene(slot, has_ended))?;
        let trial = self.trials.get_mut(winner)?;
        if trial.is_new() && !weigh::fits(slot, &self.tip, self.pending.get(trial.claim.at..).unwrap_or_default()) {
            // Nothing but the grammar speaks for it, and it does not look like what stands before it.
            trial.claim.weight = Weight::Doubtful;
            if matches!(self.tip, Tip::Element | Tip::AfterValue) {
                let trial = self.trials.swap_remove(winner);
                self.log.note(&trial, Fate::Died { at: self.pending.len().saturating_sub(1), why: Death::Unlike });
            }
            return None;
        }
        Some(winner)
    }

    fn scene(&self, slot: &Slot, has_ended: bool) -> Scene {
        let needs = self.trials.iter().any(|trial| trial.passed);
        Scene {
            may_repeat: needs && self.may_repeat(slot),
            may_be_asked: needs
                && self.expect != Expect::Exact
                && self.matcher.as_ref().is_some_and(|matcher| matcher.may_be_anchor(self.pending.as_bytes())),
            is_following: self.readers.iter().any(|reader| !reader.is_over()),
            is_repeating: self.readers.iter().any(Reader::is_repeat),
            has_ended,
            is_crowded: self.is_crowded,
        }
    }

    pub(super) fn decide_at_end<S: Sink + ?Sized>(&mut self, slot: &mut Slot, sink: &mut S) {
        let end = self.pending.trim_end().len();
        if end == 0 {
            return self.fail(SpliceError::Empty);
        }
        self.catch_up(slot);
        self.note_contradictions();
        self.trials.iter_mut().for_each(Trial::end);
        // Everything that came is a tail of the delivered text, and nothing significant follows it.
        let is_tail = |trial: &&Trial| {
            let claim = &trial.claim;
            let is_repeat = claim.weight == Weight::Asked || claim.alignment == Alignment::Overlap && claim.at >= end;
            is_repeat && claim.alignment != Alignment::Exact && !trial.passed
        };
        let nothing_new = self.trials.iter().find(is_tail).map(|trial| trial.claim.overlap);
        let repeats =
            self.matcher.as_ref().is_some_and(Matcher::is_repeat) || self.readers.iter().any(Reader::is_repeat);
        let winner = self.winner(slot, true).filter(|&winner| {
            let trial = self.trials.get(winner);
            // It may as well have been lost while it repeated what was delivered.
            !repeats || trial.is_some_and(|trial| trial.is_done() || trial.claim.alignment != Alignment::Exact)
        });
        let failure = decide::failure(&self.trials, self.contradicted);
        match (nothing_new, winner) {
            (Some(overlap), _) => self.repeat(slot, overlap),
            (_, Some(winner)) => self.join(slot, winner, sink),
            _ if repeats => self.repeat(slot, self.pending.len() - self.begin),
            _ => self.fail(failure),
        }
    }

    /// The fragment brought nothing new.
    fn repeat(&mut self, slot: &Slot, overlap: usize) {
        let seam = self.seam_of(Alignment::Repeat, overlap.min(self.tail), self.pending.len());
        self.pending = String::new();
        self.state = State::Joined(seam, Flow::new(slot, self.limits.0));
    }
}

/// So much quiet text waits at most: what takes it at once must not take long.
const LAG: usize = 1024;

/// More claims came than are tried: what becomes of this one decides nothing any more.
fn is_idle(trial: &Trial, is_crowded: bool) -> bool {
    is_crowded && trial.claim.weight < Weight::Asked && trial.claim.alignment != Alignment::Exact
}
