//! Before the decision: each character of the fragment goes to the attempts, the readers and the
//! matchers, which find the candidates.

mod candidates;

use super::attempt::SpliceAttempt;
use super::candidate::Candidate;
use super::cut_context::CutContext;
use super::flow::is_space;
use super::predictor::{Costs, History, Of, Predictor};
use super::prior::Start;
use super::reader::{ContentReader, MatchInputs};
use super::run::LEAST_AHEAD;
use super::score::Schedule;
use super::seam::{Alignment, Expect, SpliceRequest};
use super::slot::Slot;
use crate::envelope::{ContentStart, EnvelopeScanner, FENCE};
use crate::json::Machine;
use crate::limits::Limits;
use crate::overlap::{Anchor, Matcher, NearAnchor};

/// A fragment whose beginning is not decided.
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    pub(super) place: CutContext,
    pub(super) fragment: Fragment,
    pub(super) matcher: Matcher,
    pub(super) near: RequestedAnchorSearch,
    pub(super) readers: Vec<ContentReader>,
    /// The reading that the cut element is lost, while that is legal.
    pub(super) lost: Option<LostElementReading>,
    /// The candidates that are still possible.
    pub(super) attempts: Vec<SpliceAttempt>,
    pub(super) rejected: Rejected,
    pub(super) caps: Caps,
    /// The latest offset at which a reading as a restart contradicted the delivered text, and its
    /// score.
    pub(super) contradicted: (Option<usize>, f32),
    pub(super) schedule: Schedule,
    /// The bytes that are looked at for the next run.
    pub(super) run_ahead: usize,
    /// The offsets at which content has begun, and the overlaps that were tried.
    begun: usize,
    overlaps: usize,
}

/// The reading in which the element that was cut is lost, and the content is the element after it.
#[derive(Clone, Debug)]
pub(super) struct LostElementReading {
    machine: Machine,
    /// The cost of the content there.
    pub(super) costs: Costs,
}

impl LostElementReading {
    fn new(place: &CutContext) -> Option<Self> {
        let (machine, before) = place.without_element()?;
        let mut costs = Costs::default();
        costs.begin(before);
        Some(Self { machine, costs })
    }

    /// Takes the next text; returns whether it is legal.
    pub(super) fn take(&mut self, predictor: &Predictor, text: &str) -> bool {
        let bytes = text.as_bytes();
        if !self.costs.is_full() {
            bytes
                .iter()
                .for_each(|&byte| self.costs.push(predictor, byte));
        }
        self.machine.is_done() || self.machine.feed(bytes).is_ok()
    }
}

/// The fragment so far.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Without a fence that closes it.
    pub(super) text: String,
    /// The costs of its text as a separate text; the costs at the cut are in `at_cut`.
    pub(super) costs: Costs,
    pub(super) at_cut: Costs,
    pub(super) scanner: EnvelopeScanner,
    /// Where its content begins, once known.
    pub(super) begin: usize,
    /// JSON can't begin with the content's first character.
    pub(super) is_prose: bool,
    /// The first bracket outside prose: text after it is content, and not just an envelope.
    pub(super) bracket: Option<usize>,
    /// Where opening brackets are.
    pub(super) brackets: Vec<usize>,
    /// A fence has opened.
    pub(super) is_fenced: bool,
    /// Bytes that repeat delivered text, unless a later byte refutes it.
    repeated: usize,
    /// The last end of the whole anchor, if the anchor is long.
    pub(super) anchor_end: Option<usize>,
}

/// The requested anchor, and the search for a nearly exact repeat of it.
#[derive(Clone, Debug)]
pub(super) struct RequestedAnchorSearch {
    pub(super) anchor: NearAnchor,
    /// Where the anchor begins in the delivered text.
    pub(super) from: usize,
    /// It may occur elsewhere in the delivered text.
    pub(super) is_ambiguous: bool,
}

/// Candidates that turned out to be impossible; only the first ones are listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejected {
    pub(super) listed: Vec<Candidate>,
    pub(super) unlisted: usize,
    /// There were more candidates than are tried.
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

/// Attempts at the same time: each takes every byte.
pub(super) const ATTEMPTS: usize = 24;
/// Overlaps that are tried at all: each looks at the end of the delivered text.
const OVERLAPS: usize = 256;
/// Places at which content begins: each is searched in the delivered text. Preambles have fewer
/// lines.
pub(super) const CONTENTS: usize = 256;
/// Characters of a line that announces the anchor, such as `Here is the rest:`. Bounded, since one
/// line may have many anchors, and each searches the line before it.
const ANNOUNCEMENT: usize = 1024;
/// Rejected candidates that are kept for an explanation.
const LISTED: usize = 64;
/// Bytes that an answer may leave out at the start of the anchor. If more are missing, the answer
/// may begin in the second of two equal rows.
pub(super) const LOST: usize = 8;
/// The number of characters from which on an anchor is unlikely to occur by chance.
pub(super) const FEW: usize = 16;

impl Fragment {
    /// Returns the cost of the text between two offsets as new text: the lower one of its costs at
    /// the cut and as a separate text.
    fn surprise(&self, from: usize, to: usize) -> f32 {
        self.at_cut
            .between(from, to)
            .min(self.costs.between(from, to))
    }

    /// The text from the last bracket on that opens before `at`.
    pub(super) fn opened(&self, at: usize) -> &str {
        let before = self.brackets.partition_point(|&bracket| bracket < at);
        let last = before
            .checked_sub(1)
            .and_then(|last| self.brackets.get(last));
        last.and_then(|&last| self.text.get(last..))
            .unwrap_or_default()
    }
}

impl Deciding {
    pub(super) fn new(slot: &Slot, request: &SpliceRequest, anchor: &Anchor, caps: Caps) -> Self {
        let (text, window) = (slot.text(), caps.window);
        let root = slot.document().root_start().unwrap_or_default();
        let place = CutContext::new(slot, request, window);
        let near = NearAnchor::new(
            text.get(anchor.range.start.max(root)..anchor.range.end)
                .unwrap_or_default(),
        );
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
            near: RequestedAnchorSearch {
                anchor: near,
                from: anchor.range.start,
                is_ambiguous: anchor.ambiguous,
            },
            readers: Vec::new(),
            lost: None,
            attempts: Vec::new(),
            rejected: Rejected::default(),
            caps,
            contradicted: (None, f32::NEG_INFINITY),
            schedule: Schedule::default(),
            run_ahead: LEAST_AHEAD,
            begun: 0,
            overlaps: 0,
        };
        deciding.exact(slot, 0);
        deciding
    }

    /// Takes the next character of the fragment.
    pub(super) fn take(&mut self, slot: &Slot, c: char) {
        let at = self.fragment.text.len();
        let start = self
            .fragment
            .scanner
            .take(c)
            .filter(|start| self.begins_content(*start, at));
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
            let hits = self.matcher.feed(
                slot.text(),
                self.fragment.text.as_bytes().get(..end).unwrap_or_default(),
            );
            self.matched(slot, hits, end);
            is_tail = hits.overlap.is_some();
        }
        self.note_repeated(
            self.matcher
                .may_repeat()
                .then_some(self.fragment.text.len()),
        );
        // A verbatim repeat of a shorter tail counts as that, and not as a nearly exact repeat of
        // the anchor.
        if let Some(edits) = self
            .near
            .anchor
            .feed(c)
            .filter(|_| !is_tail && self.place.expect != Expect::Exact)
        {
            self.repeated_nearly(slot, edits);
        }
    }

    /// Computes the costs of the fragment's text from `at` on.
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

    /// Records how much repeats delivered text: all text before `verbatim`, and the repetitions
    /// that the readers have found.
    pub(super) fn note_repeated(&mut self, verbatim: Option<usize>) {
        let repeated = self
            .readers
            .iter()
            .filter_map(ContentReader::repeated)
            .max()
            .unwrap_or_default();
        let verbatim = verbatim.map_or(0, |end| end - self.fragment.begin);
        self.fragment.repeated = self.fragment.repeated.max(repeated).max(verbatim);
    }

    /// Lets the attempts take the fragment's text from `at` on.
    pub(super) fn advance(&mut self, slot: &Slot, at: usize) {
        let text = self.fragment.text.get(at..).unwrap_or_default();
        let rejected = &mut self.rejected;
        self.attempts.retain_mut(|attempt| {
            let fed = attempt.feed(slot, text);
            fed.inspect_err(|error| rejected.note(attempt, error))
                .is_ok()
        });
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
        let is_following = || self.readers.iter().any(|reader| !reader.is_over());
        let may_repeat = || self.fragment.begin < at && self.matcher.may_repeat();
        start != ContentStart::Line
            || !(is_following() || !self.attempts.is_empty() || may_repeat())
    }

    /// Records that content begins at `at`, with `c`.
    fn begin_content(&mut self, slot: &Slot, start: ContentStart, at: usize, c: char) {
        self.begun += 1;
        let fragment = &mut self.fragment;
        fragment.is_fenced |= start == ContentStart::Fence;
        fragment.begin = at;
        fragment.is_prose = !matches!(c, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        if start != ContentStart::Line {
            fragment.bracket = None;
        }
        self.matcher.begin(at);
        self.note_contradictions();
        self.readers = ContentReader::all(slot, c, self.caps.children);
        self.lost = LostElementReading::new(&self.place);
        let is_cut_tried = self
            .attempts
            .iter()
            .any(|attempt| attempt.candidate.alignment == Alignment::Exact);
        if at > 0 && (start != ContentStart::First || !is_cut_tried) {
            let from = self.line_start(slot, start, at);
            self.exact(slot, from);
        }
    }

    /// Returns where text that continues at the cut begins, if the content of its line begins at
    /// `at`. White space at the start of a line may be text of the cut string; the line end can't.
    fn line_start(&self, slot: &Slot, start: ContentStart, at: usize) -> usize {
        let before = self.fragment.text.get(..at).unwrap_or_default();
        let line = before.trim_end_matches(' ');
        let after_fence = || {
            before
                .rfind(FENCE)
                .and_then(|fence| Some(fence + before.get(fence..)?.find('\n')? + 1))
        };
        match start {
            ContentStart::Fence if !slot.document().machine().in_string() => {
                after_fence().unwrap_or(at)
            }
            _ if line.ends_with('\n') => line.len(),
            _ => at,
        }
    }

    /// The bytes that wait. Those that repeat delivered text do not count.
    pub(super) fn pending(&self) -> usize {
        self.fragment.text.len() - self.fragment.repeated
    }

    /// Whether a tag here is one of the request's: alone on a line, or a closing tag before any new
    /// text.
    pub(super) fn may_be_tag(&self, tag: &str) -> bool {
        let text = self.fragment.text.as_str();
        let is_at_seam = |attempt: &SpliceAttempt| {
            let candidate = &attempt.candidate;
            candidate.alignment != Alignment::Exact
                && text
                    .get(candidate.at..)
                    .is_some_and(|new| new.trim_matches(is_space).is_empty())
        };
        // A prompt has tags; a prefill has none.
        let is_prompted = self.place.expect != Expect::Exact;
        is_prompted
            && (is_line_start(text)
                || tag.starts_with("</") && self.attempts.iter().any(is_at_seam))
    }

    /// Whether a fence has only the requested anchor, and no new text.
    pub(super) fn is_anchor_alone(&self) -> bool {
        self.fragment.is_fenced
            && self
                .attempts
                .iter()
                .any(|attempt| self.is_bare_anchor(attempt))
    }

    fn is_bare_anchor(&self, attempt: &SpliceAttempt) -> bool {
        let candidate = &attempt.candidate;
        let new = self.fragment.text.get(candidate.at..).unwrap_or_default();
        candidate.alignment == Alignment::Anchor && new.trim_matches(is_space).is_empty()
    }

    /// Text after the anchor may be a remark on it, so it must prove itself.
    pub(super) fn doubt_anchor(&mut self) {
        let is_bare: Vec<bool> = self
            .attempts
            .iter()
            .map(|attempt| self.is_bare_anchor(attempt))
            .collect();
        for (attempt, _) in self
            .attempts
            .iter_mut()
            .zip(is_bare)
            .filter(|(_, is_bare)| *is_bare)
        {
            attempt.candidate.start = Start::Nearly;
        }
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

    pub(super) fn scene(&self) -> MatchInputs<'_> {
        MatchInputs {
            cut_token: &self.place.token,
            costs: &self.fragment.at_cut,
            alone: &self.fragment.costs,
            begin: self.fragment.begin,
            expect: self.place.expect,
        }
    }

    pub(super) fn note_contradictions(&mut self) {
        let scene = self.scene();
        let offset = self
            .readers
            .iter()
            .filter_map(ContentReader::contradicted)
            .max();
        let score = self
            .readers
            .iter()
            .map(|reader| reader.differing(&scene))
            .fold(self.contradicted.1, f32::max);
        self.contradicted = (self.contradicted.0.max(offset), score);
    }
}

/// Nothing but white space precedes in this line.
fn is_line_start(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t', '\r']);
    before.is_empty() || before.ends_with('\n')
}
