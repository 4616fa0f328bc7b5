//! An answer that is prose. If the setting allows it, the session asks for its rest after a lost
//! connection, and joins it only at its anchor: no grammar shows where else a continuation may
//! belong.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::channel::AnswerChannel;
use super::decisions::{Decisions, NextStep};
use super::{CallEnd, ContinuationMode, FailureReason, Outcome, StopReason, Turn};
use crate::envelope::{FENCE, ends_in_block};
use crate::provider::Finish;
use crate::splice::SpliceError;
use crate::splice::text::TextSplice;

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

impl FromStr for Prose {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        match name {
            "pass" => Ok(Self::Pass),
            "anchor" => Ok(Self::Anchor),
            _ => Err("is `pass` or `anchor`"),
        }
    }
}

/// An open call for the rest of prose.
#[derive(Clone, Debug)]
pub(super) struct ProseContinuation {
    splice: TextSplice,
    /// Bytes that were delivered before it.
    delivered: usize,
    /// The join was reported.
    is_reported: bool,
}

impl ProseContinuation {
    /// Waits for the answer to a turn.
    pub(super) fn new(channel: &AnswerChannel, turn: &Turn) -> Self {
        let text = channel.document().text();
        Self {
            splice: TextSplice::certain(text, &turn.tags, &channel.settings.limits),
            delivered: text.len(),
            is_reported: false,
        }
    }

    /// Returns whether the call has brought no text.
    pub(super) fn is_blank(&self) -> bool {
        self.splice.pending() == 0 && self.splice.seam().is_none()
    }

    /// Takes text.
    pub(super) fn text(&mut self, channel: &mut AnswerChannel, now: Duration, text: &str) {
        let mut new = String::new();
        // A failure is reported once, when the call ends.
        let _ = self.splice.feed(channel.document().text(), text, &mut new);
        if !self.is_reported
            && let Some(seam) = self.splice.seam().cloned()
        {
            self.is_reported = true;
            channel.journal.joined(now, seam, Vec::new());
        }
        add_text(channel, &new);
    }

    /// Ends the call, and decides about the next step.
    pub(super) fn finish(
        mut self,
        channel: &mut AnswerChannel,
        decisions: &mut Decisions,
        now: Duration,
        end: &CallEnd,
    ) -> NextStep {
        if let Some(reason) = end.refusal() {
            let reason = FailureReason::Rejected(reason.to_owned());
            return decisions.failed(channel, now, reason, end);
        }
        let finish = end.finish().cloned();
        // The text broke off: its uncertain end is dropped, and the next call repeats it.
        if finish.is_none() {
            self.splice.break_off();
        }
        let mut new = String::new();
        let mut merged = self.splice.finish(&mut new);
        let text = channel.document().text();
        let is_blank = is_blank(&new) && text.get(self.delivered..).is_none_or(is_blank);
        // The model claims that the answer is over. After the end of a sentence, the session
        // believes a second claim, or one that completes the last line of the text.
        let says_end = is_blank
            && finish
                .as_ref()
                .is_some_and(|reason| *reason != Finish::Length);
        let is_believed = ends_sentence(text)
            && (decisions.counters.at_cut.attempts.early_ends > 0 || !new.is_empty());
        if says_end && !is_believed && merged.is_ok() {
            merged = Err(SpliceError::EarlyEnd);
            new.clear();
        }
        let added = (text.len() + new.len()).saturating_sub(self.delivered);
        let has_grown = added > 0;
        if let Ok(seam) = &mut merged {
            seam.early_end = says_end && !has_grown;
        }
        if let Ok(seam) = &merged
            && !self.is_reported
            && (finish.is_some() || !new.is_empty())
        {
            channel.journal.joined(now, seam.clone(), Vec::new());
        }
        add_text(channel, &new);
        match finish.filter(|reason| merged.is_ok() && (has_grown || *reason != Finish::Length)) {
            // A tool call can't be part of the text.
            Some(reason @ (Finish::ToolCalls | Finish::FunctionCall)) => {
                return NextStep::GiveUp(StopReason::Finish, Some(reason));
            }
            Some(reason) => {
                return NextStep::Done(Box::new(Outcome::Complete {
                    finish: Some(reason),
                    end: None,
                    tally: channel.journal.stats.clone(),
                }));
            }
            None => {}
        }
        decisions.cut(channel, now, end, added);
        if has_grown {
            decisions.note_growth(end, end.cause(), 0);
        } else if merged.is_err() && matches!(end, CallEnd::Finished(_)) {
            decisions
                .counters
                .at_cut
                .attempts
                .count(ContinuationMode::Reprompt, merged.as_ref().err());
        }
        decisions.after_merge(channel, now, end, merged, has_grown)
    }
}

/// Delivers new text.
fn add_text(channel: &mut AnswerChannel, new: &str) {
    let before = channel.document().text().len();
    channel.text.push_prose(new);
    channel.give_out(before);
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
