//! One text or argument stream of an answer: its settings, its delivered text, and its reports.
//! Calls bring text to it; see [`open_call`](super::open_call).

use bytes::Bytes;

use super::answer_text::AnswerText;
use super::decisions::{LastCut, broke_off};
use super::journal::Journal;
use super::prefill_base::PrefillBase;
use super::settings::SessionSettings;
use super::{CallEnd, GiveUp, Outcome, SessionEvent, StopReason};
use crate::document::Document;
use crate::envelope::AllowedRoots;
use crate::json::Completion;
use crate::limits::Limits;
use crate::overlap::Anchor;
use crate::provider::Finish;
use crate::provider::wire::Tool;
use crate::splice::Expect;
use crate::splice::text::is_evidence;

/// One text or argument stream.
#[derive(Clone, Debug)]
pub(super) struct AnswerChannel {
    pub(super) settings: SessionSettings,
    pub(super) text: AnswerText,
    pub(super) journal: Journal,
    /// Set once a continuation may have added to the text: the client can no longer get the first
    /// answer's own end.
    pub(super) is_continued: bool,
    /// Tokens of the request: as the usage of the first call says, or estimated before. `None`:
    /// unknown.
    pub(super) prompt_tokens: Option<u64>,
    /// The body of the request, if it is known.
    pub(super) client_request: Bytes,
}

impl AnswerChannel {
    pub(super) fn new(limits: Limits, expect: Expect, roots: AllowedRoots) -> Self {
        let settings = SessionSettings::new(limits, expect, roots);
        Self {
            text: AnswerText::new(&settings),
            settings,
            journal: Journal::new(),
            is_continued: false,
            prompt_tokens: None,
            client_request: Bytes::new(),
        }
    }

    pub(super) fn document(&self) -> &Document {
        self.text.document()
    }

    /// Makes the answer a separate document, because the prefill belongs to another channel.
    pub(super) fn clear_prefill(&mut self) {
        if !self.text.base.prefill().is_empty() {
            self.text.base = PrefillBase::default();
            let is_known = self.text.begin(&mut self.settings);
            debug_assert!(is_known, "without a prefill there is no base");
        }
    }

    /// Makes the text the arguments of a tool call; see [`SessionSettings::set_tool`]. Called
    /// before the first input.
    pub(super) fn set_tool_call(&mut self, tool: Tool) {
        self.clear_prefill();
        self.settings.set_tool(tool);
        self.text.slot = self.settings.slot();
    }

    /// Returns whether the request is so long that a question with another tool or schema comes
    /// last: it misses the provider's cache of prompts.
    pub(super) fn is_costly(&self) -> bool {
        let most = self.settings.limits.continuation.max_uncached_tokens;
        self.prompt_tokens.is_some_and(|tokens| tokens > most)
    }

    /// Returns whether the text has the most bytes that are kept.
    pub(super) fn is_full(&self) -> bool {
        self.document().text().len() >= self.settings.limits.parser.max_text_bytes
    }

    /// Outputs the text that was added to the document after `before`.
    pub(super) fn give_out(&mut self, before: usize) {
        self.give_out_to(before, self.document().text().len());
    }

    /// Outputs the text of the document from `before` to `end`.
    pub(super) fn give_out_to(&mut self, before: usize, end: usize) {
        let text = self.text.document().text();
        if let Some(new) = text.get(before..end).filter(|new| !new.is_empty()) {
            self.journal.text(new.to_owned());
            self.journal.note_writer();
            // New text follows the delivered text, so the unread end of the first answer is not its
            // end any more.
            self.text.unread.clear();
        }
    }

    /// Returns whether text of the first answer was changed, or is held back.
    pub(super) fn has_changed_text(&self) -> bool {
        !self.journal.stats.repairs.is_empty() || !self.document().pending().is_empty()
    }

    /// Returns whether the first answer is malformed rather than cut: the call had a regular end,
    /// and the text can't be repaired. The model would write the same again.
    pub(super) fn is_malformed_at(&self, end: &CallEnd) -> bool {
        has_regular_end(end)
            && self.settings.repairs_text()
            && self.document().is_malformed_at_end()
    }

    /// Returns whether the first answer is prose that would be continued if the call ended like
    /// this. A text of a few characters passes: they occur in many texts, so they are no anchor.
    pub(super) fn continues_prose(&self, end: &CallEnd) -> bool {
        let document = self.document();
        // Text that its model has ended is whole, whatever its length: no bracket is open in prose.
        let most = self.settings.limits.continuation.max_anchor_chars;
        (broke_off(end) || *end == CallEnd::Closed)
            && self.settings.keeps_prose()
            && document.is_prose()
            && Anchor::of(document.text(), most).is_some_and(|anchor| is_evidence(&anchor))
    }

    /// Returns whether a tool call without arguments so far was cut. If a finish reason other than
    /// the limit ends it, it is a call without parameters.
    pub(super) fn lacks_arguments(&self, end: &CallEnd) -> bool {
        !has_regular_end(end) && self.document().is_blank() && self.settings.has_tool_schema()
    }

    /// Returns whether some of an answer would stay delivered if the call ended like this. A
    /// continuation repeats the text that a repair holds back, and a fence announces a text but no
    /// arguments.
    pub(super) fn has_delivered(&self, end: &CallEnd) -> bool {
        let document = self.document();
        if !self.settings.is_tool_call() {
            return document.is_json() && !self.text.answer().is_empty()
                || self.continues_prose(end);
        }
        let has_root = document.roots() > 0
            || document
                .root_start()
                .is_some_and(|start| start < document.text().len());
        has_root || self.lacks_arguments(end)
    }

    /// Returns the end of an incomplete answer that was left unchanged, because it can't be read:
    /// the document lacks it.
    pub(super) fn unread_end(&self) -> &str {
        if self.settings.give_up == GiveUp::Leave {
            &self.text.unread
        } else {
            ""
        }
    }

    /// Gives up the text, since the rest can't be obtained: closes it if the setting asks for that.
    /// `finish`: the reason that ends the loop, if a call gave one.
    pub(super) fn give_up(
        &mut self,
        reason: StopReason,
        finish: Option<Finish>,
        cut: Option<&LastCut>,
    ) -> Outcome {
        let cause = cut.and_then(|cut| cut.cause);
        let tally = self.journal.stats_after(cut.map(|cut| &cut.end));
        let leaves = self.settings.give_up == GiveUp::Leave && !self.text.unread.is_empty();
        // The upstream's own end follows, so the client gets the text that an unrepaired answer
        // would have had before it.
        if leaves {
            self.journal.text(self.text.unread.clone());
        }
        let is_tool_call = self.settings.is_tool_call();
        let is_prose = self.document().is_text();
        let offset = self.document().text().len();
        let failed = |tally| Outcome::Failed {
            reason: Some(reason),
            cause,
            tally,
        };
        // The client already has the beginning of a tool call.
        if !self.text.has_begun() && !leaves && !is_tool_call {
            return failed(tally);
        }
        let incomplete = |finish, tally| Outcome::Incomplete {
            reason,
            cause,
            finish,
            tally,
        };
        let outcome = match self.settings.give_up {
            // Nothing of prose can be closed.
            GiveUp::Close if is_prose => incomplete(None, tally),
            GiveUp::Error => failed(tally),
            GiveUp::Leave => {
                let finish = cut.and_then(|cut| cut.given_up.finish()).cloned();
                // Clients must not call a tool with open arguments, whatever finish reason the
                // server sent.
                incomplete(
                    finish.map(|finish| if is_tool_call { Finish::Length } else { finish }),
                    tally,
                )
            }
            // Closed arguments form a valid call, which the client would execute.
            GiveUp::Close if is_tool_call => incomplete(Some(Finish::Length), tally),
            GiveUp::Close => {
                let Completion {
                    synthesized,
                    cut_value,
                    ..
                } = self.text.close(self.settings.sends_at_end);
                Outcome::Closed {
                    reason,
                    cause,
                    synthesized,
                    cut_value,
                    finish,
                    tally,
                }
            }
        };
        // The closers or the error are the session's own, so the upstream's end can't follow them.
        self.is_continued = true;
        self.journal.event(SessionEvent::Fallback {
            stop: reason,
            offset,
            synthesized: outcome.synthesized().to_vec(),
        });
        self.give_out(offset);
        outcome
    }

    /// Ends the answer.
    pub(super) fn end(&mut self, outcome: Outcome) {
        let adds_nothing = matches!(outcome, Outcome::Incomplete { .. } | Outcome::Failed { .. });
        if self.is_continued
            && !adds_nothing
            && let Some(fence) = self.document().open_fence()
        {
            // The first answer's own closing fence can no longer follow.
            let before = self.document().text().len();
            let closed = self.text.slot.push(&fence);
            debug_assert!(
                closed.is_ok(),
                "the fence of a closed root is legal after it: {closed:?}"
            );
            self.give_out(before);
        }
        self.journal.done(outcome);
    }
}

/// Returns whether the model has ended its answer.
fn has_regular_end(end: &CallEnd) -> bool {
    matches!(end, CallEnd::Finished(reason) if *reason != Finish::Length)
}
