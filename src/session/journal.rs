//! The reports of a session: its outputs in their order, and the statistics of its calls.

use std::collections::VecDeque;
use std::time::Duration;

use super::{
    CallEnd, CallStats, FailureReason, LimitReached, Outcome, Output, Request, SessionEvent, Status,
};
use crate::document::Document;
use crate::json::repair::Repair;
use crate::splice::{Candidate, Seam};

/// The outputs that the caller has not taken, and the statistics of all calls.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    outputs: VecDeque<Output>,
    pub(super) stats: CallStats,
    /// The model that is asked, until it has written text. `None` if its name is unknown.
    model: Option<String>,
    /// The end of the call before.
    cut_at: Duration,
    /// The end of the first call, while other slots are continued before this one.
    waits_since: Option<Duration>,
    /// How the answer ended.
    pub(super) ended: Option<Status>,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self {
            outputs: VecDeque::new(),
            stats: CallStats {
                tokens: vec![None],
                ..CallStats::default()
            },
            model: None,
            cut_at: Duration::ZERO,
            waits_since: None,
            ended: None,
        }
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Outputs text, if there is any.
    pub(super) fn text(&mut self, text: String) {
        if !text.is_empty() {
            self.outputs.push_back(Output::Text(text));
        }
    }

    /// Returns the text in the outputs that the caller has not taken.
    pub(super) fn untaken(&self) -> String {
        let text = |output: &Output| match output {
            Output::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.outputs.iter().filter_map(text).collect()
    }

    /// Reports and outputs a call that the caller must make.
    pub(super) fn request(&mut self, request: Request, at: Duration) {
        let turn = request.turn.as_ref();
        if let Some(turn) = turn {
            self.stats.note_rung(turn.mode.rung());
        }
        self.event(SessionEvent::Requested {
            call: request.number,
            mode: turn.map(|turn| turn.mode),
            anchor: turn.map_or(0, |turn| turn.anchor.len()),
            at,
        });
        self.outputs.push_back(Output::Call { request, at });
    }

    /// Reports and outputs the end of the answer.
    pub(super) fn done(&mut self, outcome: Outcome) {
        self.ended = Some(outcome.status());
        self.event(SessionEvent::Done(outcome.clone()));
        self.outputs.push_back(Output::Done(outcome));
    }

    /// Counts a call that is about to be made.
    pub(super) fn count_call(&mut self) {
        self.stats.continuations += 1;
        self.stats.tokens.push(None);
    }

    /// Reports that the open call's answer is discarded.
    pub(super) fn discarded(&mut self, reason: FailureReason) {
        let call = self.stats.continuations;
        self.event(SessionEvent::Discarded { call, reason });
    }

    /// Takes back the count of a call that is repeated.
    pub(super) fn uncount_call(&mut self) {
        self.stats.continuations = self.stats.continuations.saturating_sub(1);
        // The first call keeps its entry: it was answered.
        let calls = self.stats.tokens.len().saturating_sub(1).max(1);
        self.stats.tokens.truncate(calls);
    }

    /// Records the tokens of the open call.
    pub(super) fn note_tokens(&mut self, tokens: u64) {
        if let Some(last) = self.stats.tokens.last_mut() {
            *last = Some(tokens);
        }
    }

    /// Records a limit that the answer has reached. The first one counts.
    pub(super) fn note_limit(&mut self, limit: Option<LimitReached>) {
        self.stats.limit = self.stats.limit.take().or(limit);
    }

    /// Records the model that is asked.
    pub(super) fn note_model(&mut self, model: &str) {
        self.model = Some(model.to_owned());
    }

    /// The model that is asked has written text of the answer.
    #[inline]
    pub(super) fn note_writer(&mut self) {
        if self.model.is_some() {
            self.add_writer();
        }
    }

    // Once for each call: the texts that follow do without the frame of this function.
    #[cold]
    fn add_writer(&mut self) {
        let written = self
            .model
            .take()
            .filter(|model| self.stats.models.last() != Some(model));
        self.stats.models.extend(written);
    }

    /// Records that the first call has ended, while others are continued before this one.
    pub(super) fn wait_since(&mut self, now: Duration) {
        self.waits_since = Some(now);
    }

    /// Reports the end of the open call before the document was whole. `added`: bytes of text that
    /// it has brought. `quiet`: the time without text before its end.
    pub(super) fn cut(
        &mut self,
        now: Duration,
        end: &CallEnd,
        added: usize,
        quiet: Duration,
        document: &Document,
    ) {
        // The wait behind other slots belongs to the time until the seam, as a client sees it.
        self.cut_at = self.waits_since.take().unwrap_or(now);
        self.event(SessionEvent::Cut {
            call: self.stats.continuations,
            end: end.clone(),
            offset: document.text().len(),
            added,
            quiet,
            path: document.cut().path,
        });
    }

    /// Reports the seam of a call for the rest.
    pub(super) fn joined(&mut self, now: Duration, seam: Seam, candidates: Vec<Candidate>) {
        self.stats.count_flags(&seam, None);
        self.event(SessionEvent::Joined {
            call: self.stats.continuations,
            seam,
            elapsed: now.saturating_sub(self.cut_at),
            candidates,
        });
    }

    /// Reports repairs of the open call's text.
    pub(super) fn repaired(&mut self, repairs: Vec<Repair>) {
        self.count_repairs(repairs.iter().map(|repair| repair.rule.as_str()));
        let call = self.stats.continuations;
        for repair in repairs {
            self.event(SessionEvent::Repaired { call, repair });
        }
    }

    /// Counts changes by the names of their rules.
    pub(super) fn count_repairs<'a>(&mut self, rules: impl Iterator<Item = &'a str>) {
        for rule in rules {
            let count = self.stats.repairs.entry(rule.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Returns the statistics of an answer that has ended as this call did: with the limit that
    /// ended it, if one did.
    pub(super) fn stats_after(&self, end: Option<&CallEnd>) -> CallStats {
        let mut stats = self.stats.clone();
        stats.limit = stats
            .limit
            .or_else(|| end.and_then(CallEnd::limit).cloned());
        stats
    }
}
