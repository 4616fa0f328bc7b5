//! The text of a fragment before the decision, and the facts about it that need no delivered text.

use crate::envelope::{ContentStart, EnvelopeScanner, FENCE};
use crate::splice::cut_context::CutContext;
use crate::splice::predictor::{Costs, History, Of, Predictor};
use crate::splice::reader::MatchInputs;
use crate::splice::slot::Slot;

/// The fragment so far.
#[derive(Clone, Debug)]
pub(in crate::splice) struct Fragment {
    /// Without a fence that closes it.
    pub(in crate::splice) text: String,
    pub(in crate::splice) costs: FragmentCosts,
    pub(in crate::splice) scanner: EnvelopeScanner,
    /// Where its content begins, once known.
    pub(in crate::splice) begin: usize,
    /// JSON can't begin with the content's first character.
    pub(super) is_prose: bool,
    /// The first bracket outside prose: text after it is content, and not just an envelope.
    pub(super) bracket: Option<usize>,
    /// Where opening brackets are.
    pub(super) brackets: Vec<usize>,
    /// A fence has opened.
    pub(in crate::splice) is_fenced: bool,
    /// Bytes that repeat delivered text, unless a later byte refutes it.
    repeated: usize,
    /// The last end of the whole anchor, if the anchor is long.
    pub(in crate::splice) anchor_end: Option<usize>,
}

/// The costs of the bytes of a fragment.
#[derive(Clone, Debug)]
pub(in crate::splice) struct FragmentCosts {
    /// As a separate text.
    pub(in crate::splice) alone: Costs,
    /// After the delivered text.
    pub(in crate::splice) at_cut: Costs,
}

impl FragmentCosts {
    fn new() -> Self {
        Self {
            alone: Costs::of(Of::Repeated),
            at_cut: Costs::default(),
        }
    }

    /// Content begins here; `here` is the history at the cut.
    pub(super) fn begin(&mut self, here: History) {
        self.alone.begin(History::default());
        self.at_cut.begin(here);
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, predictor: &Predictor, bytes: &[u8]) {
        if self.alone.is_full() && self.at_cut.is_full() {
            return;
        }
        for &byte in bytes {
            self.alone.push(predictor, byte);
            self.at_cut.push(predictor, byte);
        }
    }

    /// Returns the cost of the text between two offsets as new text: the lower one of its costs at
    /// the cut and as a separate text.
    pub(super) fn surprise(&self, from: usize, to: usize) -> f32 {
        self.at_cut
            .between(from, to)
            .min(self.alone.between(from, to))
    }
}

impl Fragment {
    pub(super) fn new() -> Self {
        Self {
            text: String::new(),
            costs: FragmentCosts::new(),
            scanner: EnvelopeScanner::new(),
            begin: 0,
            is_prose: false,
            bracket: None,
            brackets: Vec::new(),
            is_fenced: false,
            repeated: 0,
            anchor_end: None,
        }
    }

    /// Returns the text from `at` on.
    pub(in crate::splice) fn from(&self, at: usize) -> &str {
        self.text.get(at..).unwrap_or_default()
    }

    /// Returns the content.
    pub(in crate::splice) fn content(&self) -> &str {
        self.from(self.begin)
    }

    /// Returns the text from the last bracket on that opens before `at`.
    pub(in crate::splice) fn opened(&self, at: usize) -> &str {
        let before = self.brackets.partition_point(|&bracket| bracket < at);
        let last = before
            .checked_sub(1)
            .and_then(|last| self.brackets.get(last));
        last.map_or("", |&last| self.from(last))
    }

    /// Returns the inputs of the readers.
    pub(in crate::splice) fn inputs<'a>(&'a self, cut: &'a CutContext) -> MatchInputs<'a> {
        MatchInputs {
            cut_token: &cut.token,
            costs: &self.costs,
            begin: self.begin,
            expect: cut.request.expect,
        }
    }

    /// Records that content begins at `at`, with `c`.
    pub(super) fn begin_content(&mut self, start: ContentStart, at: usize, c: char) {
        self.is_fenced |= start == ContentStart::Fence;
        self.begin = at;
        self.is_prose = !matches!(c, '{' | '[' | '}' | ']' | '"' | ',' | ':' | '-' | '0'..='9');
        if start != ContentStart::Line {
            self.bracket = None;
        }
    }

    /// Records an opening bracket at `at`.
    pub(super) fn note_bracket(&mut self, at: usize) {
        self.brackets.push(at);
        if !self.is_prose {
            self.bracket.get_or_insert(at);
        }
    }

    /// Records how much repeats delivered text: all text before `verbatim`, and this many bytes of
    /// the content, as the readers have found.
    pub(super) fn note_repeated(&mut self, verbatim: Option<usize>, read: usize) {
        let verbatim = verbatim.map_or(0, |end| end - self.begin);
        self.repeated = self.repeated.max(read).max(verbatim);
    }

    /// Returns the bytes that wait. Those that repeat delivered text do not count.
    pub(in crate::splice) fn pending(&self) -> usize {
        self.text.len() - self.repeated
    }

    /// Returns where text that continues at the cut begins, if the content of its line begins at
    /// `at`. White space at the start of a line may be text of the cut string; the line end can't.
    pub(super) fn line_start(&self, slot: &Slot, start: ContentStart, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
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
}
