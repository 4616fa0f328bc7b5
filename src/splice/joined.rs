//! Passes certain text to the document: from the decision on, up to the root's end or the first
//! text that does not belong there.

use bytes::Bytes;
use memchr::memmem;

use super::answer_tail::AnswerTail;
use super::attempt::SpliceAttempt;
use super::flow::{Delivered, Ellipsis, Flow, FlowError, FlowTarget as _};
use super::seam::{Repair, Seam, SpliceError, SpliceRequest};
use super::slot::Slot;
use super::tag_stripper::{StrippedPiece, TagStripper};
use super::task::SpliceTask;
use crate::error::SyntaxErrorKind;
use crate::json::Sink;

/// A filter for words of the request's own prompt in new text.
#[derive(Clone, Debug)]
struct OwnWords {
    // A model that copies the prompt would otherwise write it into an open string. The filter
    // withholds the beginning of such words: `session::prompt` cuts them short.
    filter: TagStripper,
    /// The client's request.
    given: Bytes,
}

impl OwnWords {
    /// Returns a filter for the words of a request's prompt; `None` if it names none.
    fn of(request: &SpliceRequest) -> Option<Box<Self>> {
        let own = || Self {
            filter: TagStripper::of_own_words(request),
            given: request.given.clone(),
        };
        (!request.own_words.is_empty()).then(|| Box::new(own()))
    }
}

/// A fragment that was joined. It may have broken off since.
#[derive(Clone, Debug)]
pub(super) struct JoinedFragment {
    pub(super) seam: Seam,
    /// The fragment was expected to begin at the seam.
    is_expected: bool,
    flow: Flow,
    tail: AnswerTail,
    /// `None`: the prompt has none.
    own_words: Option<Box<OwnWords>>,
    /// Why no more text is delivered.
    failure: Option<SpliceError>,
}

impl JoinedFragment {
    /// Creates a joined fragment before its first new text.
    pub(super) fn new(slot: &Slot, task: &SpliceTask, seam: Seam, is_expected: bool) -> Self {
        Self {
            seam,
            is_expected,
            flow: Flow::new(slot, task.caps.pending, Ellipsis::Ends),
            tail: AnswerTail::default(),
            own_words: OwnWords::of(&task.request),
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
        let mut joined = Self::new(slot, task, seam, is_expected);
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

    /// Returns the number of bytes that wait: for a key that may have been delivered, or for words
    /// that may be the prompt's.
    pub(super) fn pending(&self) -> usize {
        match self.failure {
            Some(_) => 0,
            None => {
                let own_words = self.own_words.as_deref();
                self.flow.pending() + own_words.map_or(0, |own| own.filter.pending())
            }
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
        if self.may_copy(text) {
            self.deliver_filtered(slot, text, sink);
            return self.outcome();
        }
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

    /// Delivers text after the seam, until the root is closed, or until it repeats the prompt.
    pub(super) fn deliver<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        match self.may_copy(text) {
            true => self.deliver_filtered(slot, text, sink),
            false => self.pass(slot, text, sink),
        }
    }

    /// Delivers text that may have words of the prompt.
    // Cold, so that `deliver` stays small.
    #[cold]
    fn deliver_filtered<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
        let pieces = self.own_words.as_mut().map(|own| own.filter.feed(text));
        for piece in pieces.into_iter().flatten() {
            match piece {
                StrippedPiece::Tag(words) if !self.is_copied(slot, &words) => {
                    self.pass(slot, &words, sink);
                }
                StrippedPiece::Text(text) => self.pass(slot, &text, sink),
                StrippedPiece::Tag(_) | StrippedPiece::Mark => {
                    self.failure = self.failure.take().or(Some(SpliceError::OwnWords));
                }
            }
        }
        if self.tail.is_root_closed()
            && let Some(own) = &mut self.own_words
        {
            let rest = own.filter.take_pending();
            self.pass(slot, &rest, sink);
        }
    }

    /// Returns whether the text may have words of the prompt, or a part of them.
    fn may_copy(&self, text: &str) -> bool {
        let own_words = self.own_words.as_deref();
        own_words.is_some_and(|own| !own.filter.is_idle(text))
    }

    /// Returns whether words of the prompt are copied from it: they are new text of the document,
    /// which does not have them yet, and the client's request has none.
    fn is_copied(&self, slot: &Slot, words: &str) -> bool {
        let given = self.own_words.as_deref().map(|own| &own.given);
        let is_given =
            || given.is_some_and(|given| memmem::find(given, words.as_bytes()).is_some());
        !self.tail.is_root_closed() && !slot.text().contains(words) && !is_given()
    }

    fn pass<S: Sink + ?Sized>(&mut self, slot: &mut Slot, text: &str, sink: &mut S) {
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
        // The beginning of a sentence does not prove a copy, so it is delivered.
        if let Some(own) = &mut self.own_words {
            let rest = own.filter.take_pending();
            self.pass(slot, &rest, sink);
        }
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
    /// illegal there, would overwrite a member, or repeats the prompt. That is a sign of the wrong offset, though a
    /// model may also have made a mistake.
    fn flag_break(&mut self) {
        let is_illegal = match &self.failure {
            Some(SpliceError::Malformed(error)) => {
                !matches!(error.kind, SyntaxErrorKind::TooDeep(_))
            }
            failure => matches!(
                failure,
                Some(SpliceError::Overwrites(_) | SpliceError::OwnWords)
            ),
        };
        self.seam.ambiguous |= is_illegal && !self.is_expected;
    }
}
