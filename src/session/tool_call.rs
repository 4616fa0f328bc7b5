//! The arguments of a tool call: text that is executed, so it is joined with less risk and is never closed by guesses.

use std::sync::Arc;

use super::{MarkUse, Session};
use crate::provider::Finish;
use crate::provider::wire::Tool;

impl Session {
    /// Makes the session's text the arguments of a tool call. Call this before the first input.
    ///
    /// The rest is asked for by a re-prompt that names the tool, since a prefill continues texts alone. Arguments are
    /// never repaired, and when the rest can't be had they stay open: [`GiveUp::Close`](super::GiveUp::Close) ends them
    /// as incomplete.
    pub(super) fn set_tool_call(&mut self, tool: Tool) {
        let settings = &mut self.settings;
        settings.repair = crate::json::repair::RepairLevel::Strict.into();
        self.slot = settings.slot();
        let limits = &mut settings.limits.continuation;
        limits.max_risk = limits.max_risk.min(limits.max_risk_arguments);
        let strategy = &mut settings.strategy;
        (strategy.prefill, strategy.keeps_json_mode) = (None, false);
        if strategy.prompt.mark_use() != MarkUse::Never {
            strategy.prompt = Arc::new(strategy.prompt.as_ref().clone().with_mark(MarkUse::Always));
        }
        settings.tool = Some(tool);
    }

    /// Returns whether the text is the arguments of a tool call.
    pub(super) fn is_tool_call(&self) -> bool {
        self.settings.tool.is_some()
    }

    /// Returns whether arguments that end for this reason were cut, provided that they are not closed. Servers write
    /// `tool_calls` in place of `length`, so the arguments decide, and not the reason.
    pub(super) fn cuts_arguments(&self, reason: &Finish) -> bool {
        match reason {
            Finish::Length | Finish::ToolCalls | Finish::FunctionCall => true,
            Finish::Stop => !self.settings.trusts_stop,
            Finish::ContentFilter | Finish::Other(_) => false,
        }
    }

    /// Returns what the prompt says of the tool: its name and its schema, as JSON.
    pub(super) fn tool_description(&self) -> Option<String> {
        let tool = self.settings.tool.as_ref()?;
        let name = crate::json::string::quoted(&tool.name);
        // A schema that is longer than the text that is sent back is left out: the text shows the form.
        let most = self.settings.limits.continuation.max_verbatim_context;
        Some(match tool.schema.as_ref().filter(|schema| schema.len() <= most) {
            Some(schema) => format!("{{\"name\":{name},\"parameters\":{schema}}}"),
            None => format!("{{\"name\":{name}}}"),
        })
    }

    /// Completes the tally of arguments that were continued to their end.
    pub(super) fn check_arguments(&mut self) {
        let Some(tool) = &self.settings.tool else { return };
        // The calls after the one that was cut may never have begun.
        self.tally.calls_unknown = true;
        self.tally.schema_violation = violation(tool, self.slot.document().text());
    }
}

/// Returns where arguments violate their tool's schema.
#[cfg(feature = "schema")]
fn violation(tool: &Tool, arguments: &str) -> Option<String> {
    // A schema that can't be read says nothing about the arguments.
    let schema: crate::shape::Schema = tool.schema.as_ref()?.parse().ok()?;
    schema.violations(arguments).into_iter().next().map(|violation| violation.path)
}

#[cfg(not(feature = "schema"))]
fn violation(_tool: &Tool, _arguments: &str) -> Option<String> {
    None
}
