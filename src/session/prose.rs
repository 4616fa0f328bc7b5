//! An answer that is prose. If the setting allows it, the session asks for its rest after a lost
//! connection, and joins it only at its anchor: no grammar shows where else a continuation may
//! belong.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::question::anchor;
use super::{
    Attempts, CallEnd, ContinuationMode, FailureReason, Outcome, Parts, Phase, Session, StopReason,
    Turn,
};
use crate::context::Sections;
use crate::envelope::{FENCE, ends_in_block};
use crate::overlap::Anchor;
use crate::provider::Finish;
use crate::splice::SpliceError;
use crate::splice::text::{TextSplice, is_evidence};

/// How an answer in prose is handled when its connection is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Prose {
    /// It passes unchanged; its text is not kept.
    #[default]
    Pass,
    /// The session asks for its rest and joins it where it repeats the anchor. If it never does,
    /// the answer ends at the cut.
    Anchor,
}

/// A call for the rest of prose.
#[derive(Clone, Debug)]
pub(super) struct TextContinuation {
    splice: TextSplice,
    /// Bytes that were delivered before it.
    delivered: usize,
    /// The join was reported.
    is_reported: bool,
}

impl TextContinuation {
    /// Returns whether the call has brought no text.
    pub(super) fn is_blank(&self) -> bool {
        self.splice.pending() == 0 && self.splice.seam().is_none()
    }
}

impl Session {
    /// Sets how an answer in prose is handled. Default: it passes unchanged.
    ///
    /// Prose counts as cut only after a lost or silent connection, an error in the stream, or a
    /// stream without a finish reason. An answer that ended by its limit on tokens is whole for its
    /// reader: no bracket is open in it.
    pub fn set_prose(&mut self, prose: Prose) {
        self.settings.prose = prose;
    }

    /// Returns whether text that is prose is kept.
    pub(super) fn keeps_prose(&self) -> bool {
        let strategy = &self.settings.strategy;
        // In JSON mode a model can't write prose, and without an anchor nothing shows where the
        // continuation begins.
        let can_ask = strategy.prompt.has_anchor() && !strategy.keeps_json_mode;
        self.settings.prose == Prose::Anchor && can_ask && !self.is_tool_call()
    }

    /// Returns whether the text until now is kept prose.
    pub(super) fn is_kept_prose(&self) -> bool {
        self.keeps_prose() && !self.is_passing() && self.slot.document().is_prose()
    }

    /// Returns whether the first answer is prose that would be continued if the call ended like
    /// this. A text of a few characters passes: they occur in many texts, so they are no anchor.
    pub(super) fn continues_prose(&self, end: &CallEnd) -> bool {
        let document = self.slot.document();
        let most = self.settings.limits.continuation.max_anchor_chars;
        matches!(
            end,
            CallEnd::Dropped | CallEnd::Closed | CallEnd::TimedOut(_) | CallEnd::Error(_)
        ) && self.keeps_prose()
            && document.is_prose()
            && Anchor::of(document.text(), most).is_some_and(|anchor| is_evidence(&anchor))
    }

    /// Treats the text as prose, and later text too.
    pub(super) fn read_as_text(&mut self) {
        if !self.slot.document().is_text() {
            self.end_repair();
            self.slot.read_as_text();
            self.sections = Sections::new(super::SECTIONS);
            let unread = std::mem::take(&mut self.unread);
            self.push_text(&unread);
            self.give_out_text(unread);
        }
    }

    fn push_text(&mut self, text: &str) {
        let pushed = self.slot.push(text);
        debug_assert!(
            pushed.is_ok(),
            "text that is not JSON has no grammar: {pushed:?}"
        );
    }

    /// Returns the turns that ask for the rest of prose, and waits for the answer. A prefill is not
    /// used: if a provider ignores it, nothing distinguishes its new answer from the rest.
    pub(super) fn prose_turn(&mut self) -> Turn {
        let limits = &self.settings.limits;
        let (document, form) = (self.slot.document(), self.streaks.attempts.text_form());
        let text = document.text();
        let repeated =
            anchor(document, form, &limits.continuation).and_then(|range| text.get(range));
        let most = limits.continuation.max_verbatim_context;
        let end = (text.len() > most).then(|| end_of(text, most));
        let parts = Parts {
            hierarchy_context: end.as_deref(),
            form,
            ..Parts::new(text, repeated.unwrap_or_default())
        };
        let turn = Turn::reprompt(&self.settings.strategy.prompt, &parts, most);
        let splice = TextSplice::certain(text, &turn.tags, limits);
        let delivered = text.len();
        self.call.mode = ContinuationMode::Reprompt;
        self.call.returned_prefill = None;
        self.phase = Phase::ContinuingText(Box::new(TextContinuation {
            splice,
            delivered,
            is_reported: false,
        }));
        turn
    }

    /// Takes text of a call for the rest of prose.
    pub(super) fn join_text(&mut self, now: Duration, text: &str) {
        let Phase::ContinuingText(open) = &mut self.phase else {
            return;
        };
        let mut new = String::new();
        // A failure is reported once, when the call ends.
        let _ = open
            .splice
            .feed(self.slot.document().text(), text, &mut new);
        let seam = open.splice.seam().filter(|_| !open.is_reported).cloned();
        open.is_reported |= seam.is_some();
        if let Some(seam) = seam {
            self.joined(now, seam, Vec::new());
        }
        self.add_text(&new);
    }

    /// Delivers new text.
    fn add_text(&mut self, new: &str) {
        let before = self.slot.document().text().len();
        self.push_text(new);
        self.give_out(before);
    }

    /// Decides the next step after a call for the rest of prose.
    pub(super) fn end_of_prose(&mut self, now: Duration, end: &CallEnd, open: TextContinuation) {
        if let Some(reason) = end.refusal() {
            return self.failed(now, FailureReason::Rejected(reason.to_owned()), end);
        }
        let TextContinuation {
            mut splice,
            delivered,
            is_reported,
        } = open;
        let finish = if let CallEnd::Finished(reason) = end {
            Some(reason.clone())
        } else {
            None
        };
        if finish.is_none() {
            splice.break_off();
        }
        let mut new = String::new();
        let mut merged = splice.finish(&mut new);
        let text = self.slot.document().text();
        let is_blank = is_blank(&new) && text.get(delivered..).is_none_or(is_blank);
        // The model claims that the answer is over. After the end of a sentence, the session
        // believes a second claim, or one that completes the last line of the text.
        let says_end = is_blank
            && finish
                .as_ref()
                .is_some_and(|reason| *reason != Finish::Length);
        let is_believed =
            ends_sentence(text) && (self.streaks.attempts.early_ends > 0 || !new.is_empty());
        if says_end && !is_believed && merged.is_ok() {
            merged = Err(SpliceError::EarlyEnd);
            new.clear();
        }
        let added = (text.len() + new.len()).saturating_sub(delivered);
        let has_grown = added > 0;
        if let Ok(seam) = &mut merged {
            seam.early_end = says_end && !has_grown;
        }
        if let Ok(seam) = &merged
            && !is_reported
            && (finish.is_some() || !new.is_empty())
        {
            self.joined(now, seam.clone(), Vec::new());
        }
        self.add_text(&new);
        match finish.filter(|reason| merged.is_ok() && (has_grown || *reason != Finish::Length)) {
            // A tool call can't be part of the text.
            Some(reason @ (Finish::ToolCalls | Finish::FunctionCall)) => {
                return self.give_up(StopReason::Finish, Some(reason));
            }
            Some(reason) => {
                let tally = self.tally.clone();
                return self.done(Outcome::Complete {
                    finish: Some(reason),
                    end: None,
                    tally,
                });
            }
            None => {}
        }
        self.cut(now, end, added);
        if has_grown {
            self.streaks.attempts = Attempts::default();
            self.streaks.has_reduced = false;
            self.note_cut(end, end.cause());
        } else if merged.is_err() && matches!(end, CallEnd::Finished(_)) {
            self.streaks.attempts.count(merged.as_ref().err());
        }
        self.after_merge(now, end, merged, has_grown);
    }

    /// Lets prose of the first answer pass, since the provider has ended its stream.
    pub(super) fn pass_prose(&mut self) {
        if self.keeps_prose() && self.slot.document().is_prose() {
            self.pass();
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns whether a text ends with the end of a sentence or of a block of code. In the middle of a
/// word or a sentence, more text is due.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end();
    let sentence = text.trim_end_matches(['"', '\'', '”', '’', '“', '»', ')', ']', '*', '_', '`']);
    let has_ended =
        sentence.ends_with(['.', '!', '?', '。', '！', '？', '؟', '।']) || text.ends_with(FENCE);
    has_ended && !ends_in_block(text)
}

/// Returns the last `most` bytes of a text, from the start of a word on.
fn end_of(text: &str, most: usize) -> String {
    let from = text.len() - most.min(text.len());
    let starts = text.char_indices().skip_while(|(at, _)| *at < from);
    let word = starts
        .skip_while(|(_, c)| !c.is_whitespace())
        .find(|(_, c)| !c.is_whitespace());
    let end = word.and_then(|(at, _)| text.get(at..)).unwrap_or_default();
    format!("[...] {end}")
}

#[cfg(test)]
mod tests {
    use super::ends_sentence;

    #[test]
    fn a_sentence_ends_with_its_mark_and_outside_of_code() {
        for text in [
            "It rained.",
            "Who?\n",
            "“It will rain.” ",
            "(so he *said!*)",
            "下雨了。",
            "So:\n```\na = 1\n```\n",
        ] {
            assert!(ends_sentence(text), "{text:?}");
        }
        for text in [
            "It rai",
            "It rained",
            "Nets, ropes,",
            "So:\n",
            "```\nf().",
            "## The end",
            "- one (1)",
            "",
        ] {
            assert!(!ends_sentence(text), "{text:?}");
        }
    }
}
