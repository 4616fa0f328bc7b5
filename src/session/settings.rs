//! The settings of a session, and the decisions that depend only on them.

use std::sync::Arc;

use super::{ContinuationStrategy, GiveUp, MarkUse, PrefillOptions, Prose, Rung};
use crate::document::Document;
use crate::envelope::AllowedRoots;
use crate::json::repair::{RepairLevel, RepairOptions};
use crate::limits::Limits;
use crate::provider::Finish;
use crate::provider::wire::Tool;
use crate::splice::{Expect, Slot};

/// The settings of a session, made before its first call. Only the strategy can change later.
#[derive(Clone, Debug)]
pub(super) struct SessionSettings {
    pub(super) limits: Limits,
    pub(super) strategy: ContinuationStrategy,
    pub(super) give_up: GiveUp,
    pub(super) expect: Expect,
    pub(super) roots: AllowedRoots,
    /// How much of the answer's text may be changed.
    pub(super) repair: RepairOptions,
    /// What the text is.
    pub(super) content: Content,
    /// The request names stop sequences: `stop` is final.
    pub(super) trusts_stop: bool,
    /// The caller sends nothing before the answer is whole, so a continuation can be taken back
    /// until then.
    pub(super) sends_at_end: bool,
    /// How an answer in prose is handled.
    pub(super) prose: Prose,
}

/// What the text of a channel is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Text of the answer.
    Text {
        /// The schema that the request has for it, as JSON.
        schema: Option<Arc<str>>,
    },
    /// The arguments of a call of this tool.
    Arguments(Tool),
}

impl SessionSettings {
    pub(super) fn new(limits: Limits, expect: Expect, roots: AllowedRoots) -> Self {
        Self {
            limits,
            strategy: ContinuationStrategy::default(),
            give_up: GiveUp::default(),
            expect,
            roots,
            repair: RepairLevel::Strict.into(),
            content: Content::Text { schema: None },
            trusts_stop: false,
            sends_at_end: false,
            prose: Prose::default(),
        }
    }

    /// Returns an empty slot that changes nothing of its text.
    pub(super) fn strict_slot(&self) -> Slot {
        Slot::with_roots(&self.limits, self.roots)
    }

    /// Returns an empty slot for a first answer.
    pub(super) fn slot(&self) -> Slot {
        self.strict_slot().repairing(self.repair.clone())
    }

    /// Returns whether text may be changed.
    pub(super) fn repairs_text(&self) -> bool {
        self.repair.level() > RepairLevel::Strict
    }

    /// Makes the text the arguments of a tool call.
    ///
    /// A re-prompt that names the tool asks for the rest, because a prefill continues only texts.
    /// Guesses never change arguments, and arguments that are given up stay open:
    /// [`GiveUp::Close`] ends them as incomplete.
    pub(super) fn set_tool(&mut self, tool: Tool) {
        // The client would execute a guess.
        self.repair = self.repair.clone().at_most(RepairLevel::Syntax);
        let limits = &mut self.limits.continuation;
        // A wrong join in a text is read, one in arguments is executed.
        limits.max_risk = limits.max_risk.min(limits.max_risk_arguments);
        self.content = Content::Arguments(tool);
        self.set_strategy(self.strategy.clone());
    }

    /// Sets how the rest is asked for. A strategy is that of texts, and is adapted to arguments.
    pub(super) fn set_strategy(&mut self, mut strategy: ContinuationStrategy) {
        if self.is_tool_call() {
            (strategy.prefill, strategy.keeps_json_mode) = (None, false);
            // Arguments are short and repeat themselves, so a mark is worth its tokens from the first
            // question on.
            if strategy.prompt.mark_use() != MarkUse::Never {
                let prompt = strategy.prompt.as_ref().clone();
                strategy.prompt = Arc::new(prompt.with_mark(MarkUse::Always));
            }
        }
        self.strategy = strategy;
    }

    fn tool(&self) -> Option<&Tool> {
        match &self.content {
            Content::Arguments(tool) => Some(tool),
            Content::Text { .. } => None,
        }
    }

    /// Returns whether the text is the arguments of a tool call.
    pub(super) fn is_tool_call(&self) -> bool {
        self.tool().is_some()
    }

    /// Returns the name of the called tool.
    pub(super) fn tool_name(&self) -> Option<&str> {
        self.tool().map(|tool| tool.name.as_str())
    }

    /// Returns whether the text is the arguments of a tool whose parameters are declared.
    pub(super) fn has_tool_schema(&self) -> bool {
        self.tool().is_some_and(|tool| tool.schema.is_some())
    }

    /// Returns the tool's description for the prompt: its name and its schema, as JSON.
    pub(super) fn tool_description(&self) -> Option<String> {
        let tool = self.tool()?;
        let name = crate::json::string::quoted(&tool.name);
        // A schema longer than the limit for sent-back text is left out: the text shows the
        // structure.
        let most = self.limits.continuation.max_verbatim_context;
        Some(
            match tool.schema.as_ref().filter(|schema| schema.len() <= most) {
                Some(schema) => format!("{{\"name\":{name},\"parameters\":{schema}}}"),
                None => format!("{{\"name\":{name}}}"),
            },
        )
    }

    /// Returns the schema of the document, as JSON: the tool's, or that of the answer's text.
    pub(super) fn schema(&self) -> Option<&str> {
        match &self.content {
            Content::Arguments(tool) => tool.schema.as_deref(),
            Content::Text { schema } => schema.as_deref(),
        }
    }

    /// Returns whether text that ends for this reason was cut, provided that it is not closed. Some
    /// servers write `tool_calls` instead of `length`, so the arguments decide, not the reason.
    pub(super) fn continues_after(&self, reason: &Finish) -> bool {
        match reason {
            Finish::Length => true,
            Finish::ToolCalls | Finish::FunctionCall if self.is_tool_call() => true,
            Finish::Stop => !self.trusts_stop,
            reason => reason.is_unknown(),
        }
    }

    /// Returns whether text that is prose is kept.
    pub(super) fn keeps_prose(&self) -> bool {
        // In JSON mode a model can't write prose.
        self.prose == Prose::Anchor && !self.strategy.keeps_json_mode && !self.is_tool_call()
    }

    /// Returns whether a rung may be used.
    pub(super) fn allows(&self, rung: Rung) -> bool {
        self.strategy.rungs.contains(rung)
    }

    /// Returns how the delivered text is continued as a prefill, if it can be.
    pub(super) fn usable_prefill(&self, document: &Document) -> Option<PrefillOptions> {
        let ends_in_space =
            document.machine().in_string() && document.text().ends_with(char::is_whitespace);
        // In JSON mode a model can only begin a new document, unless the format applies to the
        // prefill, too.
        let prefill = self
            .strategy
            .prefill
            .filter(|prefill| prefill.keeps_format || !self.strategy.keeps_json_mode)?;
        // The provider would strip white space that is text of a string.
        (!(prefill.rejects_trailing_space && ends_in_space)).then_some(prefill)
    }

    /// Returns whether a re-prompt asks how much of the document is delivered.
    pub(super) fn asks_progress(&self) -> bool {
        self.strategy.prompt.asks_progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fallback replaces the strategy of all slots.
    #[test]
    fn a_strategy_of_texts_is_adapted_to_arguments() {
        let of_texts = ContinuationStrategy::default()
            .prefill(PrefillOptions::default())
            .keeps_json_mode(true);
        let mut settings =
            SessionSettings::new(Limits::default(), Expect::Anchor, AllowedRoots::Containers);
        settings.set_strategy(of_texts.clone());
        assert_eq!(settings.strategy, of_texts);
        settings.set_tool(Tool {
            name: "write".to_owned(),
            schema: None,
        });
        for _ in 0..2 {
            let strategy = &settings.strategy;
            assert_eq!((strategy.prefill, strategy.keeps_json_mode), (None, false));
            assert_eq!(strategy.prompt.mark_use(), MarkUse::Always);
            settings.set_strategy(of_texts.clone());
        }
    }
}
