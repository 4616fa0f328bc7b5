//! Before the decision: each character of the fragment goes to the attempts, the readers and the matchers, and candidates
//! come of it.

use super::attempt::{Attempt, Lead};
use super::candidate::{AttemptStatus, Candidate, Evidence, RejectReason};
use super::cursor::Arrival;
use super::flow::{FlowError, is_space};
use super::place::{Place, begins_element, has_words};
use super::predictor::{Costs, History, Of, Predictor};
use super::prior::{self, Start};
use super::reader::{Reader, Scene};
use super::score::Schedule;
use super::seam::{Alignment, Expect, SpliceRequest};
use super::slot::Slot;
use crate::envelope::{ContentStart, EnvelopeScanner, FENCE};
use crate::json::Machine;
use crate::limits::Limits;
use crate::overlap::{Anchor, Hits, Matcher, NearAnchor};

/// A fragment whose beginning is not decided.
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    pub(super) place: Place,
    pub(super) fragment: Fragment,
    pub(super) matcher: Matcher,
    pub(super) near: Near,
    pub(super) readers: Vec<Reader>,
    /// As long as it is legal.
    pub(super) lost: Option<Lost>,
    /// The candidates that are still possible.
    pub(super) attempts: Vec<Attempt>,
    pub(super) rejected: Rejected,
    pub(super) caps: Caps,
    /// The latest offset of delivered text that was contradicted by what seemed to begin again, and its score.
    pub(super) contradicted: (Option<usize>, f32),
    pub(super) schedule: Schedule,
}

/// The reading in which the element that was cut is lost, and the content is the element after it.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    machine: Machine,
    /// What the content costs there.
    pub(super) costs: Costs,
}

impl Lost {
    fn new(place: &Place) -> Option<Self> {
        let (machine, before) = place.without_element()?;
        let mut costs = Costs::default();
        costs.begin(before);
        Some(Self { machine, costs })
    }

    /// Takes the next text; returns whether it is legal.
    pub(super) fn take(&mut self, predictor: &Predictor, text: &str) -> bool {
        let bytes = text.as_bytes();
        if !self.costs.is_full() {
            bytes.iter().for_each(|&byte| self.costs.push(predictor, byte));
        }
        self.machine.is_done() || self.machine.feed(bytes).is_ok()
    }
}

/// The fragment so far.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Without a fence that closes it.
    pub(super) text: String,
    /// What its text costs alone, and at the cut.
    pub(super) costs: Costs,
    pub(super) at_cut: Costs,
    pub(super) scanner: EnvelopeScanner,
    /// Where its content begins, as far as it is known.
    pub(super) begin: usize,
    /// The content's first character is none that JSON begins with.
    pub(super) is_prose: bool,
    /// The first bracket that is no part of prose: what follows it follows more than an envelope.
    pub(super) bracket: Option<usize>,
    /// Where opening brackets are.
    pub(super) brackets: Vec<usize>,
    /// A fence has opened.
    pub(super) is_fenced: bool,
    /// Bytes that repeat delivered text, as far as that is not refuted.
    repeated: usize,
    /// Where the anchor, whole and long, has ended last.
    pub(super) anchor_end: Option<usize>,
}

/// The anchor as it was asked for, and as it may be repeated nearly.
#[derive(Clone, Debug)]
pub(super) struct Near {
    pub(super) anchor: NearAnchor,
    /// Where the anchor begins in the delivered text.
    from: usize,
    /// It may occur elsewhere in the delivered text.
    pub(super) is_ambiguous: bool,
}

/// Candidates that turned out to be impossible: the first of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejected {
    pub(super) listed: Vec<Candidate>,
    pub(super) unlisted: usize,
    /// More candidates came than are tried.
    pub(super) is_crowded: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Bytes that may wait.
    pub(super) pending: usize,
    children: usize,
    pub(super) max_risk: f64,
    /// Bytes at the end of the delivered text in which a repeat is searched.
    window: usize,
}

impl Caps {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            pending: limits.parser.max_pending_bytes,
            children: limits.parser.max_children,
            max_risk: limits.continuation.max_risk,
            window: limits.parser.overlap_window,
        }
    }
}

/// Attempts at once: each takes every byte.
pub(super) const ATTEMPTS: usize = 24;
/// Rejected candidates that are kept for an explanation.
const LISTED: usize = 64;
/// Characters of an anchor that hardly occur by chance.
pub(super) const FEW: usize = 16;

impl Fragment {
    /// What the text between two offsets costs as new text, where it is cheaper: at the cut or alone.
    fn surprise(&self, from: usize, to: usize) -> f32 {
        self.at_cut.between(from, to).min(self.costs.between(from, to))
    }

    /// The part of `text`, which is the fragment's, from the last bracket on that opens before `at`.
    pub(super) fn opened<'a>(&self, at: usize, text: &'a str) -> &'a str {
        let before = self.brackets.partition_point(|&bracket| bracket < at);
        let last = before.checked_sub(1).and_then(|last| self.brackets.get(last));
        last.and_then(|&last| text.get(last..)).unwrap_or_default()
    }
}

impl Deciding {
    pub(super) fn new(slot: &Slot, request: &SpliceRequest, anchor: &Anchor, caps: Caps) -> Self {
        let (text, window) = (slot.text(), caps.window);
        let root = slot.document().root_start().unwrap_or_default();
        let place = Place::new(slot, request, window);
        let near = NearAnchor::new(text.get(anchor.range.start.max(root)..anchor.range.end).unwrap_or_default());
        let mut deciding = Self {
            place,
            fragment: Fragment {
                text: String::new(),
                costs: Costs::of(Of::Repeated),
                at_cut: Costs::default(),
                scanner: EnvelopeScanner::new(),
                begin: 0,
                is_prose: false,
                bracket: None,
                brackets: Vec::new(),
                is_fenced: false,
                repeated: 0,
                anchor_end: None,
            },
            matcher: Matcher::new(text, anchor.range.clone(), root, window),
            near: Near { anchor: near, from: anchor.range.start, is_ambiguous: anchor.ambiguous },
            readers: Vec::new(),
            lost: None,
            attempts: Vec::new(),
            rejected: Rejected::default(),
            caps,
            contradicted: (None, f32::NEG_INFINITY),
            schedule: Schedule::default(),
        };
        deciding.exact(slot, 0);
        deciding
    }

    /// Takes the next character of the fragment.
    pub(super) fn take(&mut self, slot: &Slot, c: char) {
        let at = self.fragment.text.len();
        let start = self.fragment.scanner.take(c).filter(|start| self.begins_content(*start, at));
        let (fragment, place) = (&mut self.fragment, &self.place);
        if start.is_some() {
            fragment.costs.begin(History::default());
            fragment.at_cut.begin(place.here());
        }
        fragment.text.push(c);
        self.take_costs(at);
        self.advance(slot, at);
        if let Some(start) = start {
            self.begin_content(slot, start, at, c);
        }
        if matches!(c, '{' | '[') {
            self.fragment.brackets.push(at);
            if !self.fragment.is_prose {
                self.fragment.bracket.get_or_insert(at);
            }
        }
        if let Some(lost) = &mut self.lost
            && !lost.take(&self.place.predictor, c.encode_utf8(&mut [0; 4]))
        {
            self.lost = None;
        }
        self.read(slot, at);
        let mut is_tail = false;
        for end in at + 1..=self.fragment.text.len() {
            let hits = self.matcher.feed(slot.text(), self.fragment.text.as_bytes().get(..end).unwrap_or_default());
            self.matched(slot, hits, end);
            is_tail = hits.overlap.is_some();
        }
        self.note_repeated(self.matcher.may_repeat().then_some(self.fragment.text.len()));
        // What repeats a shorter tail word for word is that.
        if let Some(edits) = self.near.anchor.feed(c).filter(|_| !is_tail && self.place.expect != Expect::Exact) {
            self.repeated_nearly(slot, edits);
        }
    }

    /// Counts what the fragment's text from `at` on costs.
    pub(super) fn take_costs(&mut self, at: usize) {
        let (fragment, predictor) = (&mut self.fragment, &self.place.predictor);
        if fragment.costs.is_full() && fragment.at_cut.is_full() {
            return;
        }
        for &byte in fragment.text.as_bytes().get(at..).unwrap_or_default() {
            fragment.costs.push(predictor, byte);
            fragment.at_cut.push(predictor, byte);
        }
    }

    /// Notes how much repeats delivered text: all text before `verbatim`, and what the readers know.
    pub(super) fn note_repeated(&mut self, verbatim: Option<usize>) {
        let repeated = self.readers.iter().filter_map(Reader::repeated).max().unwrap_or_default();
        let verbatim = verbatim.map_or(0, |end| end - self.fragment.begin);
        self.fragment.repeated = self.fragment.repeated.max(repeated).max(verbatim);
    }

    /// Lets the attempts take the fragment's text from `at` on.
    pub(super) fn advance(&mut self, slot: &Slot, at: usize) {
        let text = self.fragment.text.get(at..).unwrap_or_default();
        let rejected = &mut self.rejected;
        self.attempts.retain_mut(|attempt| {
            let fed = attempt.feed(slot, text);
            fed.inspect_err(|error| rejected.note(attempt, error)).is_ok()
        });
    }

    /// Whether content begins again at `at`, where it may begin: not at a line of content that is still possible.
    fn begins_content(&mut self, start: ContentStart, at: usize) -> bool {
        if !self.near.anchor.is_alive() {
            self.near.anchor.begin();
        }
        let is_following = || self.readers.iter().any(|reader| !reader.is_over());
        let may_repeat = || self.fragment.begin < at && self.matcher.may_repeat();
        start != ContentStart::Line || !(is_following() || !self.attempts.is_empty() || may_repeat())
    }

    /// Notes that content begins at `at`, with `c`.
    fn begin_content(&mut self, slot: &Slot, start: ContentStart, at: usize, c: char) {
        let fragment = &mut self.fragment;
        fragment.is_fenced |= start == ContentStart::Fence;
        fragment.begin = at;
        fragment.is_prose = !matches!(c, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        if start != ContentStart::Line {
            fragment.bracket = None;
        }
        self.matcher.begin(at);
        self.note_contradictions();
        self.readers = Reader::all(slot, c, self.caps.children);
        self.lost = Lost::new(&self.place);
        let is_cut_tried = self.attempts.iter().any(|attempt| attempt.candidate.alignment == Alignment::Exact);
        if at > 0 && (start != ContentStart::First || !is_cut_tried) {
            let from = self.line_start(slot, start, at);
            self.exact(slot, from);
        }
    }

    /// Where text that goes on at the cut begins, if the content of its line begins at `at`. White space at the start of
    /// a line may be text of the string that was cut; the line end can't.
    fn line_start(&self, slot: &Slot, start: ContentStart, at: usize) -> usize {
        let before = self.fragment.text.get(..at).unwrap_or_default();
        let line = before.trim_end_matches(' ');
        let after_fence = || before.rfind(FENCE).and_then(|fence| Some(fence + before.get(fence..)?.find('\n')? + 1));
        match start {
            ContentStart::Fence if !slot.document().machine().in_string() => after_fence().unwrap_or(at),
            _ if line.ends_with('\n') => line.len(),
            _ => at,
        }
    }

    /// Adds the candidate that the fragment's text from `at` on goes on at the cut.
    fn exact(&mut self, slot: &Slot, at: usize) {
        let start = if self.place.expect == Expect::Exact && at == 0 { Start::Requested } else { Start::Cut };
        let candidate = Candidate::new(Alignment::Exact, start, at, 0);
        self.add(slot, Candidate { from: self.place.end, ..candidate }, Lead::default());
    }

    /// The request's mark has come. What follows it is new if what precedes it is the end of the delivered text, or
    /// nothing.
    pub(super) fn mark(&mut self, slot: &Slot) {
        let content = self.fragment.text.get(self.fragment.begin..).unwrap_or_default();
        let delivered = slot.text().get(..self.place.tail).unwrap_or_default();
        let said =
            |text: &str| text.chars().rev().filter(|c| !c.is_whitespace() && *c != '\\').take(24).collect::<String>();
        let (own, end) = (said(content), said(delivered));
        if own.is_empty() || own == end {
            let overlap = content.trim_matches(is_space).len().min(self.place.tail);
            let candidate = Candidate::new(Alignment::Anchor, Start::Mark, self.fragment.text.len(), overlap);
            self.add(slot, candidate, self.lead());
        }
    }

    /// The bytes that wait. Those that repeat delivered text do not count.
    pub(super) fn pending(&self) -> usize {
        self.fragment.text.len() - self.fragment.repeated
    }

    /// Whether a tag here is one of the request's own: on a line of its own, or a closing one where no new text has come.
    pub(super) fn may_be_tag(&self, tag: &str) -> bool {
        let text = self.fragment.text.as_str();
        let is_at_seam = |attempt: &Attempt| {
            let candidate = &attempt.candidate;
            candidate.alignment != Alignment::Exact
                && text.get(candidate.at..).is_some_and(|new| new.trim_matches(is_space).is_empty())
        };
        // A prompt has tags; a prefill has none.
        let is_prompted = self.place.expect != Expect::Exact;
        is_prompted && (is_line_start(text) || tag.starts_with("</") && self.attempts.iter().any(is_at_seam))
    }

    /// The requested anchor has come in a fence, and nothing new.
    pub(super) fn is_anchor_alone(&self) -> bool {
        self.fragment.is_fenced && self.attempts.iter().any(|attempt| self.is_bare_anchor(attempt))
    }

    fn is_bare_anchor(&self, attempt: &Attempt) -> bool {
        let candidate = &attempt.candidate;
        let new = self.fragment.text.get(candidate.at..).unwrap_or_default();
        candidate.alignment == Alignment::Anchor && new.trim_matches(is_space).is_empty()
    }

    /// What follows the anchor may be a remark on it: it must prove itself.
    pub(super) fn doubt_anchor(&mut self) {
        let is_bare: Vec<bool> = self.attempts.iter().map(|attempt| self.is_bare_anchor(attempt)).collect();
        for (attempt, _) in self.attempts.iter_mut().zip(is_bare).filter(|(_, is_bare)| *is_bare) {
            attempt.candidate.start = Start::Nearly;
        }
    }

    fn lead(&self) -> Lead {
        Lead { skip: self.place.end - self.place.tail, ..Lead::default() }
    }

    /// Lets the readers take the fragment's text from `at` on.
    pub(super) fn read(&mut self, slot: &Slot, at: usize) {
        if self.fragment.scanner.in_reasoning() || at < self.fragment.begin {
            return;
        }
        let mut readers = std::mem::take(&mut self.readers);
        let mut arrivals = Vec::new();
        for reader in &mut readers {
            let text = self.fragment.text.get(at..).unwrap_or_default();
            reader.feed(slot, &self.scene(), text, |arrival| arrivals.push(arrival));
        }
        self.readers = readers;
        for arrival in arrivals {
            self.arrived(slot, arrival);
        }
    }

    pub(super) fn scene(&self) -> Scene<'_> {
        Scene {
            cut_token: &self.place.token,
            costs: &self.fragment.at_cut,
            alone: &self.fragment.costs,
            begin: self.fragment.begin,
            expect: self.place.expect,
        }
    }

    /// Adds the candidate of a cursor that has come to the cut.
    fn arrived(&mut self, slot: &Slot, arrival: Arrival) {
        let Arrival { at, rest, deferred, from, start, bits, container, element, leaves_out, is_reentry } = arrival;
        let mut at = self.fragment.begin + at;
        if at == self.fragment.begin && from == slot.text().len() && deferred.is_empty() {
            // It repeats nothing: the reading that goes on at the cut is the same.
            return;
        }
        let mut skip = 0;
        if self.place.token_start.is_none() {
            // White space before it is the document's, as far as that has none yet.
            at = self.fragment.text.get(..at).map_or(0, |before| before.trim_end_matches(is_space).len());
            skip = self.place.end - self.place.tail;
        }
        let alignment = if is_reentry { Alignment::Reentry } else { Alignment::Restart };
        let is_requested = self.place.is_rerooted && matches!(start, Start::Root | Start::Rerooted);
        let kind = if is_requested { Start::Requested } else { start };
        let prior = kind.prior(self.place.expect) + if leaves_out { prior::LEFT_OUT } else { 0.0 };
        // Whole elements may as well come once more.
        let is_row = element.is_none() && self.place.is_element_due() && (is_reentry || start == Start::Member);
        let bits = if is_row { bits.min(prior::IN_A_ROW) } else { bits };
        let mut evidence = Evidence::new(prior, bits.max(0.0), 0.0);
        evidence.element = element.map(|element| {
            let whole = if leaves_out { -prior::LEFT_OUT } else { 0.0 };
            let lost = if element.is_after_values { prior::LOST_AFTER_VALUES } else { prior::LOST };
            (
                element.depth,
                self.fragment.begin + element.at - 1,
                lost + whole - self.place.identity(element.depth, element.bits),
            )
        });
        let overlap = slot.text().len().saturating_sub(from);
        let candidate = Candidate { from, evidence, ..Candidate::new(alignment, start, at, overlap) };
        self.add(slot, candidate, Lead { rest, deferred, skip, outside: container.filter(|_| bits < prior::ENOUGH) });
    }

    /// Adds the candidates of verbatim repeats that end at `end`.
    pub(super) fn matched(&mut self, slot: &Slot, hits: Hits, end: usize) {
        if let Some(start) = hits.anchor.filter(|_| self.place.expect != Expect::Exact) {
            self.anchored(slot, start, end);
        }
        // Whether that is the open element or the next one, a cursor finds out.
        let Some(from) = hits.overlap.filter(|&from| !begins_element(slot, from)) else { return };
        if self.attempts.len() >= ATTEMPTS {
            self.rejected.is_crowded = true;
            return;
        }
        let (start, prior) = self.place.start_at(slot, from, self.near.from);
        let begin = self.fragment.begin;
        let recurring = self.place.recurring(slot, from, begin, &self.fragment.at_cut);
        let surprise = (self.fragment.surprise(begin, end) - recurring).max(0.0);
        let is_in_a_row = self.place.is_in_a_row(slot, from);
        let surprise = if is_in_a_row { surprise.min(prior::IN_A_ROW) } else { surprise };
        let whole = from <= self.near.from || start == Start::Root;
        let alignment = if whole { Alignment::Restart } else { Alignment::Overlap };
        let evidence = Evidence::new(prior, surprise, 0.0);
        let candidate = Candidate::new(alignment, start, end, self.place.tail - from);
        // A bracket alone says nothing: what it opens may be a value of its own.
        let container = slot.frames().iter().position(|frame| frame.start == from);
        let outside = container.filter(|_| !has_words(slot.text().get(from..).unwrap_or_default()));
        self.add(slot, Candidate { from, evidence, ..candidate }, Lead { outside, ..self.lead() });
    }

    /// Adds the candidate of the anchor, which begins at `start` in the fragment and ends at `end`.
    fn anchored(&mut self, slot: &Slot, start: usize, end: usize) {
        let fragment = &self.fragment;
        let before = fragment.text.get(..start).unwrap_or_default();
        let is_again = fragment.anchor_end.and_then(|end| fragment.text.get(end..start));
        let is_next = is_again.is_some_and(|between| between.trim_matches(is_space).is_empty());
        let is_first = start == fragment.begin || before.trim_end_matches(is_space).is_empty() || is_next;
        let on_own_line = is_line_start(before);
        let is_after_bracket = fragment.bracket.is_some_and(|bracket| bracket < start);
        let is_envelope = fragment.scanner.is_after_prose() && (!is_after_bracket || on_own_line);
        let is_quoted = on_own_line && (is_again.is_some() || self.attempts.is_empty() && end - start >= FEW);
        if !is_first && (fragment.scanner.in_reasoning() || !is_envelope && !is_quoted) {
            // What precedes it is no envelope: it counts only as the end of a restart.
            return;
        }
        // A bracket in the middle of a sentence is no anchor, and neither is text that only ends with it.
        let is_announced = || {
            let line = before.rsplit('\n').next().unwrap_or_default();
            line.trim_end_matches(is_space).ends_with([':', '`']) && !line.contains(['{', '[', '"'])
        };
        if !is_first && !on_own_line && (end - start < FEW || !is_announced()) {
            return;
        }
        let is_cut_tried = self.attempts.iter().any(|attempt| attempt.candidate.alignment == Alignment::Exact);
        let is_requested = is_first || on_own_line && !is_cut_tried && !is_after_bracket;
        let start_kind = if is_requested { Start::Requested } else { Start::Nearly };
        let from = self.place.tail - (end - start).min(self.place.tail);
        let mut evidence = Evidence::new(start_kind.prior(self.place.expect), fragment.surprise(start, end), 0.0);
        let mut candidate = Candidate::new(Alignment::Anchor, start_kind, end, end - start);
        if is_next {
            // The anchor may come twice, or new text begins as it does.
            let requested = |attempt: &&mut Attempt| attempt.candidate.start == Start::Requested;
            for first in self.attempts.iter_mut().filter(requested) {
                first.candidate.start = Start::Nearly;
                evidence.surprise += first.candidate.evidence.surprise;
            }
            evidence.prior += prior::TWICE;
            candidate.start = Start::Nearly;
        }
        self.fragment.anchor_end = (end - start >= FEW).then_some(end);
        self.add(slot, Candidate { from, evidence, ..candidate }, self.lead());
    }

    /// Adds the candidate of the anchor that has been repeated with so many edits.
    fn repeated_nearly(&mut self, slot: &Slot, edits: usize) {
        let (begin, end) = (self.fragment.begin, self.fragment.text.len());
        let is_known = |attempt: &Attempt| attempt.candidate.start == Start::Requested && attempt.candidate.at == end;
        if self.attempts.iter().any(is_known) {
            return;
        }
        let is_new = |attempt: &Attempt| attempt.candidate.alignment == Alignment::Exact && attempt.is_verified();
        let surprise = self.fragment.surprise(begin, end);
        // What goes on at the cut and costs as little as a row among rows is no anchor with a wrong letter. Where the
        // anchor is all that was delivered, too little is known of rows.
        let is_whole = Some(self.near.from) == slot.document().root_start();
        let is_typical = is_whole || surprise < prior::TYPICAL * (end - begin) as f32;
        let is_row = edits > 0 && is_typical && self.attempts.iter().any(is_new);
        let surprise = if is_row { surprise.min(prior::IN_A_ROW) } else { surprise };
        let prior = Start::Nearly.prior(self.place.expect) - prior::EDIT * edits as f32;
        let candidate = Candidate::new(Alignment::Anchor, Start::Nearly, end, self.place.tail - self.near.from);
        let evidence = Evidence::new(prior, surprise, 0.0);
        // Escapes of white space at the end of the anchor do not count as its end.
        let skip = self.place.end - significant_end(slot.text().get(..self.place.tail).unwrap_or_default());
        self.add(slot, Candidate { from: self.near.from, evidence, ..candidate }, Lead { skip, ..Lead::default() });
    }

    /// Tries a candidate: the attempt takes what has come after its beginning.
    fn add(&mut self, slot: &Slot, candidate: Candidate, lead: Lead) {
        if self.attempts.len() >= ATTEMPTS && !candidate.start.is_requested() {
            self.rejected.is_crowded = true;
            return;
        }
        let mut attempt = Attempt::new(slot, candidate, lead, self.caps.pending);
        match attempt.feed(slot, self.fragment.text.get(attempt.next..).unwrap_or_default()) {
            Ok(()) => self.attempts.push(attempt),
            Err(error) => self.rejected.note(&attempt, &error),
        }
    }

    pub(super) fn note_contradictions(&mut self) {
        let scene = self.scene();
        let offset = self.readers.iter().filter_map(Reader::contradicted).max();
        let score = self.readers.iter().map(|reader| reader.differing(&scene)).fold(self.contradicted.1, f32::max);
        self.contradicted = (self.contradicted.0.max(offset), score);
    }
}

/// Nothing but white space precedes in this line.
fn is_line_start(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t', '\r']);
    before.is_empty() || before.ends_with('\n')
}

/// Where the text ends but for white space and escapes of it.
fn significant_end(text: &str) -> usize {
    let mut end = text.trim_end_matches(is_space);
    while let Some(rest) = ["\\n", "\\t", "\\r"].iter().find_map(|escape| end.strip_suffix(escape)) {
        end = rest.trim_end_matches(is_space);
    }
    end.len()
}

impl Rejected {
    fn note(&mut self, attempt: &Attempt, error: &FlowError) {
        if self.listed.len() >= LISTED {
            self.unlisted += 1;
            return;
        }
        let status = AttemptStatus::Rejected { byte: attempt.next, reason: RejectReason::from(error) };
        self.listed.push(Candidate { status, ..attempt.candidate.clone() });
    }
}
