//! How the rest of a document is asked for: by its prefix, or in words that say what is known at the cut.

use super::returned_prefill::ReturnedPrefill;
use super::{ContinuationMode, Parts, Session, Turn};
use crate::context;
use crate::splice::{Expect, Splice};

impl Session {
    /// The turns that ask for the rest, and what is expected of the answer.
    pub(super) fn turn(&mut self) -> Turn {
        let document = self.slot.document();
        let text = document.text();
        let kept = text.trim_end().len();
        let in_string = document.machine().in_string();
        let prefix = self
            .settings
            .strategy
            .prefill
            .filter(|prefix| !(prefix.rejects_trailing_space && in_string && kept < text.len()));
        let expect = match prefix {
            Some(_) => Expect::Exact,
            None if !self.settings.strategy.prompt.has_anchor() && self.settings.expect == Expect::Anchor => {
                Expect::Any
            }
            None => self.settings.expect,
        };
        let splice = Splice::new(&self.slot, expect, &self.settings.limits);
        let anchor = splice.anchor().and_then(|anchor| text.get(anchor.range.clone())).unwrap_or_default();
        let (turn, mode) = match prefix {
            Some(prefix) => {
                let white = if prefix.rejects_trailing_space { kept } else { text.len() };
                self.call.returned_prefill = ReturnedPrefill::new(text, white, prefix.returns_prefill);
                (Turn::prefill(&Parts::new(text.get(..white).unwrap_or(text), anchor)), ContinuationMode::Prefill)
            }
            None => {
                self.call.returned_prefill = None;
                (self.turn_in_words(anchor), ContinuationMode::Reprompt)
            }
        };
        self.call.mode = mode;
        self.wait_for(splice);
        turn
    }

    fn turn_in_words(&self, anchor: &str) -> Turn {
        let (document, index) = (self.slot.document(), Some(self.slot.child_index()));
        let full = self.settings.limits.continuation.max_verbatim_context;
        let (budget, is_long) = (self.settings.limits.continuation.context_budget_chars, document.text().len() > full);
        let rendering = is_long.then(|| context::hierarchy_context_for_prompt(document, index, budget).text);
        let summary = self.sections.summary(document);
        // What is longer is no help: the end of it is the anchor.
        let short = |text: &&str| text.len() <= full;
        let parts = Parts {
            hierarchy_context: rendering.as_deref(),
            delivered_summary: Some(summary.as_str()).filter(|summary| !summary.is_empty()),
            element_before_cutoff: context::element_before_cutoff(document, index).filter(short),
            cut_off_element: context::cut_off_element(document).filter(short),
            ..Parts::new(document.text(), anchor)
        };
        Turn::reprompt(&self.settings.strategy.prompt, &parts, full)
    }
}
