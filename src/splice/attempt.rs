//! One candidate, tried character by character on a copy of the machine.
//!
//! An attempt never changes the document. It knows whether the candidate is still legal and whether
//! it is verified; which one of several wins is decided [elsewhere](super::decide).

use super::candidate::Candidate;
use super::cut_context::CutContext;
use super::flow::{
    DeferredMember, DryRun, Ellipsis, Flow, FlowError, FlowTarget, TextSum, is_space, skippable_len,
};
use super::predictor::Costs;
use super::prior::Start;
use super::seam::Alignment;
use super::slot::Slot;
use crate::json::{Kind, Machine};

/// The data that a candidate needs, besides its offset, to flow into the document.
#[derive(Clone, Debug, Default)]
pub(super) struct AttemptSetup {
    /// The rest of an escape that was cut, with the same spelling as its beginning.
    pub(super) rest: String,
    pub(super) deferred: Vec<DeferredMember>,
    /// The bytes at the end of the delivered text (white space and escapes of it) that the fragment
    /// may still repeat.
    pub(super) skip: usize,
    /// The containers that may be open after a value outside the document, for example a refusal.
    pub(super) outside: Option<usize>,
    /// The repeated text proves its position, whether or not the request asked for it.
    pub(super) is_proven: bool,
}

/// A candidate that is tried.
#[derive(Clone, Debug)]
pub(super) struct SpliceAttempt {
    pub(super) candidate: Candidate,
    pub(super) setup: AttemptSetup,
    pub(super) machine: Machine,
    flow: Flow,
    sum: TextSum,
    progress: AttemptProgress,
    pub(super) new_text: NewText,
    /// Bytes of line ends after the anchor, in a number or literal that was cut.
    line_end: usize,
    /// The containers that are open at the cut, and where the token begins that was cut.
    cut: (usize, Option<usize>),
    /// The offset in the fragment of the next character.
    pub(super) next: usize,
}

/// The cost of the beginning of the new text after the delivered text.
#[derive(Clone, Debug, Default)]
pub(super) struct NewText {
    /// The bits against its first key, once the key is known.
    pub(super) strangeness: Option<f32>,
    at: usize,
    len: usize,
    costs: Costs,
}

impl NewText {
    /// Takes the new text so far, which begins at `at` in the fragment.
    pub(super) fn take(&mut self, at: usize, new: &str, cut: &CutContext) {
        if new.trim_start_matches(is_space).is_empty() {
            return;
        }
        if self.at != at || self.len == 0 {
            *self = Self {
                at,
                strangeness: self.strangeness,
                ..Self::default()
            };
            self.costs.begin(cut.before_new(new));
        }
        for &byte in new.as_bytes().iter().take(NEW).skip(self.len) {
            self.costs.push(&cut.predictor, byte);
            self.len += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bits(&self) -> f32 {
        self.costs.before(self.len)
    }
}

/// Bytes of the new text whose costs are compared: after them the contexts are the same.
// Orders of the predictor reach back 64 bytes (`predictor::ORDERS`): further on, the contexts at
// the cut and in the fragment are equal, and so are the costs.
const NEW: usize = 64;

/// The most bytes of a separate value: refusals are short, and a long value that waited for its end
/// would not stream.
// Chosen: refusals as JSON have one or two sentences. Doubled, a value of unknown origin streams a
// kilobyte later; halved, a refusal with an explanation comes out of its container and is joined.
// docs/internals/seam.md states it.
pub(super) const ALONE: usize = 512;

/// The progress of an attempt. It is verified when the new text has left the token that was cut,
/// has passed a bracket, comma or colon there, and has continued.
#[derive(Clone, Copy, Debug, Default)]
struct AttemptProgress {
    has_begun: bool,
    left_token: bool,
    past_structure: bool,
    /// The new text has left the container that begins the fragment, or is too long for a separate
    /// value.
    has_come_out: bool,
    /// A number at the root has ended exactly at the cut, without new digits.
    ends_at_cut: bool,
    is_verified: bool,
}

impl SpliceAttempt {
    /// Returns whether the repeated text proves its position in this fragment. Text that occurs
    /// twice in a row may be the next of several equal rows, or a repeat.
    pub(super) fn is_proven(&self, fragment: &str) -> bool {
        let Candidate { at, overlap, .. } = self.candidate;
        let (repeated, new) = fragment.split_at_checked(at).unwrap_or((fragment, ""));
        let repeated = repeated
            .len()
            .checked_sub(overlap)
            .and_then(|from| repeated.get(from..))
            .unwrap_or(repeated);
        let recurs = !new.is_empty() && (new.starts_with(repeated) || repeated.starts_with(new));
        self.setup.is_proven && !recurs
    }

    pub(super) fn new(slot: &Slot, candidate: Candidate, setup: AttemptSetup, cap: usize) -> Self {
        let machine = slot.document().machine().clone();
        let token = machine.in_token().then(|| machine.token_start());
        Self {
            next: candidate.at,
            candidate,
            setup,
            new_text: NewText::default(),
            line_end: 0,
            cut: (machine.frames().len(), token),
            progress: AttemptProgress {
                left_token: token.is_none(),
                ..AttemptProgress::default()
            },
            machine,
            sum: TextSum::default(),
            flow: Flow::new(slot, cap, Ellipsis::IsText),
        }
    }

    /// Takes text of the fragment.
    ///
    /// # Errors
    /// Why the candidate is impossible.
    pub(super) fn feed(&mut self, slot: &Slot, text: &str) -> Result<(), FlowError> {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let run = match c {
                _ if self.in_plain_string() => skippable_len(rest.as_bytes()),
                '0'..='9' | ',' | ' ' if self.is_between_scalars() => 1,
                _ => 0,
            };
            let (now, later) = rest.split_at(run.max(c.len_utf8()));
            if run > 0 {
                DryRun {
                    machine: &mut self.machine,
                    slot,
                    sum: &mut self.sum,
                }
                .take(now)?;
            } else {
                self.take(slot, c)?;
            }
            self.next += now.len();
            rest = later;
        }
        Ok(())
    }

    /// Verified, and between the scalars of an array: they can end the attempt, but have no other
    /// effect.
    fn is_between_scalars(&self) -> bool {
        let in_array = || {
            self.machine
                .frames()
                .last()
                .is_some_and(|frame| frame.kind == Kind::Array)
        };
        self.progress.is_verified && self.setup.skip == 0 && self.flow.is_plain() && in_array()
    }

    /// Whether the text is in a string, and only the end of the string matters.
    pub(super) fn in_plain_string(&self) -> bool {
        self.progress.has_begun && self.machine.in_string() && self.flow.is_plain()
    }

    /// Whether it is in a string whose text makes no difference.
    pub(super) fn is_in_text(&self) -> bool {
        let is_certain = || self.machine.certain_string() == self.machine.offset();
        self.setup.skip == 0 && self.in_plain_string() && is_certain()
    }

    fn take(&mut self, slot: &Slot, c: char) -> Result<(), FlowError> {
        if self.setup.skip > 0 {
            let text = slot.text();
            let next = text
                .get(text.len() - self.setup.skip..)
                .and_then(|rest| rest.chars().next());
            if next == Some(c) {
                self.setup.skip -= c.len_utf8();
                self.candidate.at += c.len_utf8();
                self.candidate.overlap += c.len_utf8();
                return Ok(());
            }
            self.setup.skip = 0;
        }
        let is_anchored = self.candidate.alignment == Alignment::Anchor && !self.progress.has_begun;
        if is_anchored && self.machine.in_string() && matches!(c, '\n' | '\r') {
            // A line end after the anchor is not text of the string that was cut. The anchor may
            // have been quoted.
            self.candidate.at += c.len_utf8();
            self.candidate.start = Start::Nearly;
            return Ok(());
        }
        if is_anchored && self.machine.in_token() && matches!(c, '\n' | '\r') {
            // The next character shows whether it ends the cut number or is not part of it.
            self.line_end += c.len_utf8();
            return Ok(());
        }
        if self.line_end > 0 && is_anchored {
            let line_end = std::mem::take(&mut self.line_end);
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-') {
                self.candidate.at += line_end;
                self.candidate.start = Start::Nearly;
            } else {
                self.flow_on(slot, '\n')?;
            }
        }
        if self.machine.is_done() {
            return self.after_root(slot, c);
        }
        self.flow_on(slot, c)
    }

    /// Lets a character flow into the copy of the document.
    fn flow_on(&mut self, slot: &Slot, c: char) -> Result<(), FlowError> {
        let is_inside = self.machine.in_string()
            || self.flow.pending() > 1
            || !self.flow.is_settled() && self.flow.pending() == 0;
        let mut target = DryRun {
            machine: &mut self.machine,
            slot,
            sum: &mut self.sum,
        };
        if !self.progress.has_begun {
            self.progress.has_begun = true;
            self.flow
                .begin(&mut target, &self.setup.rest, &self.setup.deferred)?;
        }
        self.flow.feed(&mut target, c.encode_utf8(&mut [0; 4]))?;
        self.note_progress(c, is_inside);
        Ok(())
    }

    /// Records the meaning of the character; `is_inside`: it is inside a string or a member that is
    /// compared.
    fn note_progress(&mut self, c: char, is_inside: bool) {
        let (open, cut_token) = self.cut;
        let (done, depth) = (self.machine.is_done(), self.machine.frames().len());
        let structural = !is_inside && matches!(c, '{' | '}' | '[' | ']' | ',' | ':');
        let significant = is_inside || !is_space(c);
        let is_new = self.is_new();
        // The fragment repeated text that must be left out: another candidate has the right offset.
        let is_repeat =
            self.candidate.alignment == Alignment::Exact && self.flow.repairs().dropped() > 0;
        let is_long = self.next > self.candidate.at + ALONE;
        let progress = &mut self.progress;
        progress.ends_at_cut |=
            done && open == 0 && (c == '`' || is_space(c)) && self.sum.is_short();
        progress.left_token |=
            done || !self.machine.in_token() || Some(self.machine.token_start()) != cut_token;
        let has_passed =
            progress.left_token && progress.past_structure && significant && self.flow.is_settled();
        // The text after the root shows whether the root ended there.
        progress.has_come_out |= has_passed;
        let may_be_alone = self.setup.outside.is_some();
        let is_certain = has_passed && (!done || may_be_alone) || done && !is_new && !may_be_alone;
        progress.is_verified |= match self.candidate.start {
            start if start.is_requested() => significant,
            _ => is_certain && !is_repeat && !self.flow.has_deferred(),
        };
        // New text that was not requested may be a separate value, for example a refusal: it must
        // leave that value first.
        let has_closed = |outside| depth <= outside || is_long;
        let is_outside = if is_new {
            depth <= open
        } else {
            self.setup.outside.is_none_or(has_closed)
        };
        progress.past_structure |= progress.left_token && structural && is_outside;
    }

    /// After the end of the root, extra closers, a fence and line ends show nothing. The rest of a
    /// sentence does, if only the grammar supports the candidate.
    fn after_root(&mut self, slot: &Slot, c: char) -> Result<(), FlowError> {
        let goes_on = !c.is_whitespace() && !matches!(c, '}' | ']' | '`');
        if !self.is_verified() && goes_on {
            return Err(FlowError::AfterRoot);
        }
        // A fence after a number without new digits closes an open fence, and opens one if no fence
        // is open.
        let is_end = !self.progress.ends_at_cut || slot.document().has_fence();
        self.progress.is_verified |= c == '\n' && self.flow.repairs().dropped() == 0 && is_end;
        Ok(())
    }

    /// Ends the fragment.
    pub(super) fn end(&mut self) {
        let is_repeat =
            self.candidate.alignment == Alignment::Exact && self.flow.repairs().dropped() > 0;
        self.progress.is_verified |= self.machine.is_done() && !is_repeat;
    }

    /// Returns whether the fragment may end here: no value of it is deferred until after the cut
    /// element, and no text that continues at the cut was skipped as a repeat.
    pub(super) fn may_end(&self) -> bool {
        let is_repeat =
            self.candidate.alignment == Alignment::Exact && self.flow.repairs().dropped() > 0;
        !is_repeat && !self.flow.has_deferred()
    }

    /// Returns whether the new text has members that were delivered, and so are left out.
    pub(super) fn leaves_out(&self) -> bool {
        self.flow.repairs().dropped() > 0
    }

    /// The grammar has shown that the new text continues the document.
    pub(super) fn is_verified(&self) -> bool {
        self.progress.is_verified
    }

    /// The fragment repeats nothing, and this candidate was not requested.
    pub(super) fn is_new(&self) -> bool {
        self.candidate.overlap == 0 && !self.candidate.start.is_requested()
    }

    /// The fragment repeats almost nothing, and its new text has not left the container that begins
    /// the fragment: all of it may be a separate value.
    pub(super) fn is_alone(&self) -> bool {
        self.setup.outside.is_some() && !self.progress.has_come_out
    }

    /// The document would be whole.
    pub(super) fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    /// The hash of the text: two attempts with the same hash give the same document.
    pub(super) fn document(&self) -> TextSum {
        self.sum
    }
}
