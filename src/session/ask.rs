//! Builds the request for the rest of a document: a prefill, or a re-prompt that describes the cut.

use super::question::{self, Form};
use super::returned_prefill::ReturnedPrefill;
use super::{Parts, PrefillOptions, Session, Turn};
use crate::context;
use crate::splice::{Expect, Splice, SpliceRequest};

impl Session {
    /// Returns the turns that ask for the rest, and waits for the answer.
    pub(super) fn turn(&mut self) -> Turn {
        let replaces_prefill = self.replaces_prefill();
        if self.slot.document().is_text() {
            return Turn {
                replaces_prefill,
                ..self.prose_turn()
            };
        }
        let (turn, request) = match self.usable_prefill() {
            Some(prefill) => self.prefill_turn(prefill),
            None => self.reprompt_turn(),
        };
        self.call.mode = turn.mode;
        self.wait_for(Splice::new(&self.slot, request, &self.settings.limits));
        Turn {
            replaces_prefill,
            ..turn
        }
    }

    /// Returns how the delivered text is continued as a prefill, if it can be.
    fn usable_prefill(&self) -> Option<PrefillOptions> {
        let strategy = &self.settings.strategy;
        let document = self.slot.document();
        let ends_in_space =
            document.machine().in_string() && document.text().ends_with(char::is_whitespace);
        // In JSON mode a model can only begin a new document.
        let prefill = strategy.prefill.filter(|_| !strategy.keeps_json_mode)?;
        (!(prefill.rejects_trailing_space && ends_in_space)).then_some(prefill)
    }

    fn prefill_turn(&mut self, prefill: PrefillOptions) -> (Turn, SpliceRequest) {
        let document = self.slot.document();
        let text = document.text();
        let sent = if prefill.rejects_trailing_space {
            text.trim_end().len()
        } else {
            text.len()
        };
        self.call.returned_prefill = ReturnedPrefill::new(text, sent, prefill.returns_prefill);
        let anchor = question::anchor(document, Form::Anchor, &self.settings.limits.continuation);
        let anchor = anchor.and_then(|range| text.get(range)).unwrap_or_default();
        let turn = Turn::prefill(&Parts::new(text.get(..sent).unwrap_or(text), anchor));
        let believes_early_end = self.streaks.attempts.early_ends > 0;
        (
            turn,
            SpliceRequest {
                believes_early_end,
                ..Expect::Exact.into()
            },
        )
    }

    fn reprompt_turn(&mut self) -> (Turn, SpliceRequest) {
        self.call.returned_prefill = None;
        let (strategy, attempts) = (&self.settings.strategy, self.streaks.attempts);
        let document = self.slot.document();
        // In JSON mode a mark can't be written.
        let mark = attempts
            .mark(&strategy.prompt, document.text())
            .filter(|_| !strategy.keeps_json_mode);
        let form = attempts.form(strategy.keeps_json_mode, mark.is_some());
        let anchor = match self.is_tool_call() {
            true => question::arguments_anchor(document, form, &self.settings.limits.continuation),
            false => question::anchor(document, form, &self.settings.limits.continuation),
        };
        let repeated = anchor
            .clone()
            .and_then(|range| document.text().get(range))
            .unwrap_or_default();
        let turn = self.reprompt_of(form, repeated, mark.as_deref());
        let has_anchor = strategy.prompt.has_anchor();
        let expect = match self.settings.expect {
            _ if form.is_rerooted() => Expect::Any,
            Expect::Anchor if !has_anchor => Expect::Any,
            expect => expect,
        };
        let request = SpliceRequest {
            expect,
            anchor: anchor.filter(|_| has_anchor),
            mark,
            tags: turn.tags.clone(),
            rerooted: form.is_rerooted(),
            believes_early_end: attempts.early_ends > 0,
            after_gap: false,
        };
        (turn, request)
    }

    fn reprompt_of(&self, form: Form, anchor: &str, mark: Option<&str>) -> Turn {
        let (document, index) = (self.slot.document(), Some(self.slot.child_index()));
        let full = self.settings.limits.continuation.max_verbatim_context;
        let (budget, is_long) = (
            self.settings.limits.continuation.context_budget_chars,
            document.text().len() > full,
        );
        let rendering =
            is_long.then(|| context::hierarchy_context_for_prompt(document, index, budget).text);
        let summary = self.sections.summary(document);
        let child = context::cut_child(document).filter(|_| form.has_path());
        // A longer element would not help, since the anchor is its end; nor would a longer path,
        // since the rendering shows its keys.
        let is_short = |text: &&str| text.len() <= full;
        let tool_call = self.tool_description();
        let parts = Parts {
            tool_call: tool_call.as_deref(),
            hierarchy_context: rendering.as_deref(),
            delivered_summary: Some(summary.as_str()).filter(|summary| !summary.is_empty()),
            element_before_cutoff: context::element_before_cutoff(document, index).filter(is_short),
            cut_off_element: context::cut_off_element(document).filter(is_short),
            cut_path: child
                .as_ref()
                .map(|child| child.path.as_str())
                .filter(is_short),
            mark,
            form,
            ..Parts::new(document.text(), anchor)
        };
        Turn::reprompt(&self.settings.strategy.prompt, &parts, full)
    }
}
