//! Passes certain text to the document: from the decision on, up to the root's end or the first
//! text that does not belong there.

use super::answer_tail::AnswerTail;
use super::attempt::SpliceAttempt;
use super::flow::{Delivered, Ellipsis, Flow, FlowError, FlowTarget as _};
use super::seam::{Repair, Seam, SpliceError};
use super::slot::Slot;
use super::task::SpliceTask;
use crate::error::SyntaxErrorKind;
use crate::json::Sink;

/// A fragment that was joined. It may have broken off since.
#[derive(Clone, Debug)]
pub(super) struct JoinedFragment {
    pub(super) seam: Seam,
    /// The fragment was expected to begin at the seam.
    is_expected: bool,
    flow: Flow,
    tail: AnswerTail,
    /// Why no more text is delivered.
    failure: Option<SpliceError>,
}

impl JoinedFragment {
    /// Creates a joined fragment before its first new text. At most `cap` bytes of that may wait.
    pub(super) fn new(slot: &Slot, seam: Seam, is_expected: bool, cap: usize) -> Self {
        Self {
            seam,
            is_expected,
            flow: Flow::new(slot, cap, Ellipsis::Ends),
            tail: AnswerTail::default(),
            failure: None,
        }
    }

    /// Joins at this attempt, and passes its new text to the document.
    pub(super) fn at<S: Sink + ?Sized>(
        slot: &mut Slot,
        task: &SpliceTask,
        attempt: &SpliceAttempt,
        fragment: &str,
        seam: Seam,
        sink: &mut S,
    ) -> Self {
        let seam = Seam {
            decided: fragment.len(),
            ..seam
        };
        let is_expected = task.expects(&attempt.candidate);
        let mut joined = Self::new(slot, seam, is_expected, task.caps.pending);
        let begun = joined.flow.begin(
            &mut Delivered { slot, sink },
            &attempt.setup.rest,
            &attempt.setup.deferred,
        );
        joined.stop_at(slot, begun);
        let new = fragment.get(attempt.candidate.at..).unwrap_or_default();
        joined.deliver(slot, new, sink);
        joined
    }

    /// Whether text goes directly to the document: the root is open, and nothing has failed.
    pub(super) fn is_flowing(&self) -> bool {
        self.failure.is_none() && !self.tail.is_root_closed()
    }

    pub(super) fn is_root_closed(&self) -> bool {
        self.tail.is_root_closed()
    }

    /// Returns the beginning of the text after the root.
    pub(super) fn after_root(&self) -> &str {
        self.tail.kept()
    }

    pub(super) fn repairs(&self) -> &[Repair] {
        self.flow.repairs().as_slice()
    }

    /// Returns the number of bytes that wait for a key that may have been delivered.
    pub(super) fn pending(&self) -> usize {
        match self.failure {
            Some(_) => 0,
            None => self.flow.pending(),
        }
    }

    /// Returns why the fragment broke off, if it did.
    pub(super) fn outcome(&self) -> Result<(), SpliceError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Delivers text while it is [flowing](Self::is_flowing) and no fence may end in it.
    pub(super) fn deliver_flowing<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SpliceError> {
        let left = match self.flow.is_in_string(slot.document().machine(), text) {
            true => Delivered { slot, sink }
                .take(text)
                .map(|()| 0)
                .map_err(FlowError::from),
            false => self.flow.feed_root(&mut Delivered { slot, sink }, text),
        };
        if matches!(left, Ok(0)) && !slot.document().is_complete() {
            return Ok(());
        }
        self.delivered(slot, text, left, sink);
        self.outcome()
    }

    /// Delivers text after the seam, until the root is closed.
    pub(super) fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        if self.failure.is_some() {
            return;
        }
        let left = match self.tail.is_root_closed() {
            false => self.flow.feed_root(&mut Delivered { slot, sink }, text),
            true => Ok(text.len()),
        };
        self.delivered(slot, text, left, sink);
    }

    /// Delivers the text after the root: `left` bytes of text that has flowed.
    fn delivered<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        left: Result<usize, FlowError>,
        sink: &mut S,
    ) {
        match left {
            Ok(left) => self.deliver_after_root(
                slot,
                text.get(text.len() - left..).unwrap_or_default(),
                sink,
            ),
            Err(stop) => self.stop_at(slot, Err(stop)),
        }
    }

    /// Delivers the text after the end of the root, if it belongs to the answer.
    pub(super) fn deliver_after_root<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        text: &str,
        sink: &mut S,
    ) {
        // The document ignores text after its root, so the tail decides here which of it is delivered.
        let text = self.tail.feed(slot.document(), text);
        if !text.is_empty() && slot.push_with(&text, sink).is_err() {
            // A further block has ended there.
            self.tail.end();
        }
    }

    /// Ends the fragment.
    ///
    /// # Errors
    /// Returns why it broke off.
    pub(super) fn finish<S: Sink + ?Sized>(
        &mut self,
        slot: &mut Slot,
        sink: &mut S,
    ) -> Result<Seam, SpliceError> {
        if self.failure.is_none() {
            let ended = self.flow.finish(&mut Delivered { slot, sink });
            self.seam.early_end |= self.flow.has_ellipsis();
            self.stop_at(slot, ended);
        }
        // This happens only at the end: a report on a seam must not depend on how the text was
        // divided.
        self.flag_break();
        self.outcome().map(|()| self.seam.clone())
    }

    fn stop_at(&mut self, slot: &Slot, flowed: Result<(), FlowError>) {
        let Err(stop) = flowed else { return };
        self.failure = Some(match stop {
            FlowError::Syntax(error) => SpliceError::Malformed(error),
            FlowError::Pending => SpliceError::Pending(self.flow.cap()),
            FlowError::Ellipsis => SpliceError::EarlyEnd,
            FlowError::Overwrites | FlowError::AfterRoot => {
                SpliceError::Overwrites(slot.text().len())
            }
        });
    }

    /// Flags a seam where it was not expected, after which the fragment broke off at text that is
    /// illegal there or would overwrite a member. That is a sign of the wrong offset, though a
    /// model may also have made a mistake.
    fn flag_break(&mut self) {
        let is_illegal = match &self.failure {
            Some(SpliceError::Malformed(error)) => {
                !matches!(error.kind, SyntaxErrorKind::TooDeep(_))
            }
            failure => matches!(failure, Some(SpliceError::Overwrites(_))),
        };
        self.seam.ambiguous |= is_illegal && !self.is_expected;
    }
}
